//! A virtual board: stock Debian in QEMU with the cores, caches, memory and clock of a platform
//! file.
//!
//! This crate is the host's side: it fetches QEMU and kernels ([`archive`], [`qemu`], [`kernel`]),
//! collects the guest's files ([`image`]), starts the machine and follows it ([`run`]), and
//! contains the guest's first program ([`guest`]). A QEMU plugin (`crates/board-plugin`) makes the
//! machine a board. It reads a configuration file ([`plugin`]) and answers requests of the guest.

pub mod archive;
pub mod cache;
mod channel;
mod elf;
mod error;
pub mod guest;
mod helper;
pub mod image;
mod initramfs;
mod input;
mod job;
pub mod kernel;
mod machine;
pub mod plugin;
pub mod qemu;
mod receive;
mod run;
mod types;
mod version;
mod watch;

pub use error::BoardError;
pub use job::{Counters, Job, Model, Prefetcher, find_board};
pub use run::{Outcome, run};
pub use watch::{Stream, Watch};
