//! A machine as a platform file, from files that every Linux shows.
//!
//! Problem: a plan needs a platform file of its machine, and no document has all of the numbers.
//! Rule: a [`Root`] is `/` or a copy of its files; [`describe`] makes keys from it, each with its
//! source; [`collect`] makes the copy. Values that no file gives are measured ([`measure`]). Does
//! not cover: parts without a key in a platform file.

mod cache;
pub mod check;
pub mod collect;
mod cpuinfo;
mod cpus;
mod describe;
mod description;
mod dmi;
mod domain;
mod dram;
mod error;
mod inclusion;
mod known;
pub mod lists;
mod machine;
pub mod measure;
mod paths;
mod remarks;
mod root;
mod shape;
mod spd;
mod stated;
mod tables;
mod text;
mod tree;

pub use describe::describe;
pub use description::Description;
pub use error::MachineError;
pub use known::{Fact, Note, Source};
pub use root::Root;
pub use text::file;
