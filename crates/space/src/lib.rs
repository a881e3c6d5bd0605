//! The spatial half of isolation from user space: cache colours and DRAM banks on a stock kernel.
//!
//! Problem: tasks that share cache sets and DRAM banks slow each other, and a stock kernel gives
//! any frame to any task. Rule: find the address bits that choose colours and banks ([`map`],
//! [`geometry`], [`solve`]), and keep frames apart by them ([`lists`], [`objects`], [`backing`]).
//! Then move a program's pages to frames of its own ([`coloured`], with the library of
//! crates/space/preload), and to others later ([`recolour`]). Pages that a plan locks are found by
//! their names ([`named`], [`loader`]) and get colours of their own ([`locked`]). Count what uses
//! which frames ([`census`]), and hold those of some colours so that not even the kernel gets them
//! ([`hold`], [`room`]); programs get frames and buffers of them ([`lend`]). Does not cover: cache
//! ways (crates/linux, resctrl).

pub mod audit;
mod back;
pub mod backing;
mod brake;
mod buffers;
pub mod census;
pub mod coloured;
mod error;
pub mod geometry;
pub mod gf2;
pub mod hold;
pub mod lend;
pub mod lists;
pub mod loader;
pub mod locked;
pub mod map;
pub mod named;
pub mod objects;
mod piece;
mod placed;
pub mod probe;
pub mod program;
pub mod queues;
pub mod recolour;
pub mod room;
mod socket;
pub mod solve;
mod sys;
pub mod wire;

pub use error::SpaceError;
