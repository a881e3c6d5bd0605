//! Exact LRU cache models that turn a stream of references into the counts of a profile.
//!
//! Problem: a profile comes from one run at tens of millions of references a second. It needs the
//! accesses and misses of every cache level, the progressive lockdown curve (SCE section 2.3) and
//! the misses for every possible number of ways. Rule: private caches filter the references;
//! accesses that pass them are counted per page. With the `k` hottest pages locked and the rest of
//! the shared cache unusable, every access to another page is a DRAM access, so the whole
//! curve is a suffix sum of per-page counts. The shared cache keeps true LRU stacks, whose depths
//! give hits (Mattson et al., 1970) and write-backs (Thompson and Smith, 1989) for all
//! associativities at once. Machines that run in time, the simulator's and the board's, take
//! [`private`] and [`shared`]: caches of physical lines with way masks, slices and three
//! replacement policies. Their [`prefetch`] chooses lines to fetch unasked, and their
//! [`translation`] keeps pages. Not covered: other replacement policies, inclusive
//! back-invalidation; profiles have neither prefetchers nor TLBs.

pub mod contract;
mod ends;
mod hierarchy;
mod l1;
pub mod look;
mod lru;
pub mod prefetch;
pub mod private;
pub mod regions;
mod sets;
pub mod shared;
mod stack;
pub mod trace;
pub mod translation;

pub use ends::Ends;
pub use hierarchy::{Event, Frames, Geometry, PageCounts, Private, Shared, Summary};
pub use l1::{Evicted, L1, Slow};
pub use lru::LruCache;
pub use stack::StackCache;
