//! What the profiler tells its QEMU plugin, and what the plugin tells back. Both come from one
//! build.

use crate::hierarchy::Summary;
use serde::{Deserialize, Serialize};
use solocore_model::Platform;
use std::path::PathBuf;

/// Stack size to give QEMU (`-s`): an odd size by which the plugin finds the stack among the
/// mappings.
pub const STACK_BYTES: u64 = 8 * 1024 * 1024 + 17 * 4096;

/// Read by the plugin at start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Config {
    /// Whose caches to model.
    pub platform: Platform,
    /// Where to write [`Raw`].
    pub output: PathBuf,
    /// Where to write the trace; `None` records none.
    pub trace: Option<PathBuf>,
    /// Most accesses to record.
    pub trace_limit: u64,
}

/// A memory region of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Name that survives ASLR.
    pub name: String,
    /// File that backs it.
    pub path: Option<PathBuf>,
}

/// One page.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawPage {
    /// Index into `regions`.
    pub region: u32,
    /// Page within the region.
    pub offset: u64,
    /// All references.
    pub references: u64,
    /// Shared-cache reads.
    pub llc_reads: u64,
    /// Shared-cache write-backs.
    pub llc_writes: u64,
    /// Distinct lines.
    pub lines: u32,
}

/// One instruction that reached the shared cache.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawCode {
    /// Index into `regions`.
    pub region: u32,
    /// Byte offset within the region's file, or within the region where there is no file.
    pub offset: u64,
    /// Shared-cache reads.
    pub accesses: u64,
    /// Of these, misses of the whole shared cache.
    pub misses: u64,
}

/// Everything the plugin counted.
#[derive(Debug, Serialize, Deserialize)]
pub struct Raw {
    /// Regions.
    pub regions: Vec<Region>,
    /// Pages by frame number.
    pub pages: Vec<RawPage>,
    /// Instructions with shared-cache reads.
    pub code: Vec<RawCode>,
    /// What the caches counted.
    pub counts: Summary,
    /// Threads.
    pub threads: u32,
    /// Child processes.
    pub children: u32,
    /// Program that replaced this one.
    pub exec: Option<String>,
    /// Accesses recorded.
    pub trace_records: u64,
    /// Cycles they cover.
    pub trace_cycles: u64,
    /// The limit cut the trace.
    pub trace_truncated: bool,
    /// Why the trace could not be written whole.
    pub trace_error: Option<String>,
}
