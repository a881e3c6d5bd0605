//! Buffers in chosen pages: locked in the cache, pinned for I/O, and the time of accesses to them.
//!
//! Problem: the place of a buffer decides the tasks that its traffic disturbs, and those that
//! disturb its owner (mc2-os-isolation, sections 4.2 and 4.3). Pages that must stay in the cache
//! have to be put there and watched (single-core-equivalence, section 2.3). Rule: pages come from a
//! source ([`Frames`]): ordinary ones ([`AnyFrames`]), or a coloured pool's lists. Their use here
//! does not depend on the source. The uses are: reading files into them ([`io`]), V4L2 frames
//! ([`v4l2`]), prefetching them into the cache and timing each line ([`lockdown`], [`residency`]).
//! Programs also walk them to measure or to disturb ([`walk`], [`chase`], [`order`]), with the
//! disturbances ([`disturbance`]). Does not cover: the colours of pages.

pub mod caches;
pub mod chase;
pub mod disturbance;
mod error;
pub mod hog;
pub mod huge;
pub mod io;
pub mod lockdown;
pub mod median;
pub mod order;
mod pages;
pub mod residency;
pub mod sysv;
pub mod thread;
pub mod timing;
pub mod v4l2;
pub mod walk;

pub use error::BufferError;
pub use pages::{AnyFrames, Frames, HUGE, List, Mapping, PAGE};

/// A cache line, where no platform file states another size.
pub const LINE: usize = 64;
