//! Messages between the profiler and its QEMU plugin. Both come from one build.

use crate::hierarchy::Summary;
use serde::{Deserialize, Serialize};
use solocore_model::Platform;
use solocore_model::profile::InputFile;
use std::path::PathBuf;

/// Stack size to give QEMU (`-s`): an odd size by which the plugin finds the stack among the
/// mappings.
pub const STACK_BYTES: u64 = 8 * 1024 * 1024 + 17 * 4096;

/// Instructions between two reports of a process's progress.
pub const PROGRESS_INSTRUCTIONS: u64 = 1 << 24;

/// Read by the plugin at start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Config {
    /// The platform whose caches are modelled.
    pub platform: Platform,
    /// Directory of all files of the run.
    pub dir: PathBuf,
    /// Most accesses that a process records.
    pub trace_limit: u64,
    /// The plugin itself, for programs that replace the first.
    pub plugin: PathBuf,
    /// The program: one that replaces it must be for the same instruction set.
    pub program: PathBuf,
    /// Directory in which the emulator finds the libraries of a foreign program.
    pub sysroot: Option<PathBuf>,
}

impl Config {
    /// The file of a part by its kind. A part is a process's program from its start to its end, or
    /// to where another replaces it; parts count from 0 in the order in which they start.
    #[must_use]
    pub fn file(&self, kind: PartFile, part: u32) -> PathBuf {
        let name = match kind {
            PartFile::Started => "started",
            PartFile::Raw => "raw",
            PartFile::Trace => "trace",
            PartFile::Progress => "progress",
        };
        self.dir.join(format!("{name}-{part}"))
    }

    /// Path for the plugin's message on a failed write.
    #[must_use]
    pub fn error(&self) -> PathBuf {
        self.dir.join("error")
    }
}

/// A file of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartFile {
    /// [`Started`]; there from the start on.
    Started,
    /// [`Raw`]; there when the part ended.
    Raw,
    /// The accesses.
    Trace,
    /// Instructions and references so far, two little-endian numbers of 64 bits.
    Progress,
}

/// Written when a part starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Process.
    pub pid: u32,
    /// The part that this one was forked from, or replaced; `None` for the first.
    pub from: Option<u32>,
    /// Was it forked? Otherwise it replaced the other.
    pub forked: bool,
    /// Monotonic clock, ns.
    pub at_ns: u64,
}

/// A file that the program used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Looked {
    /// The file and its state.
    pub file: InputFile,
    /// Monotonic clock, ns.
    pub at_ns: u64,
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

/// One instruction that reached the shared cache, in one context.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawCode {
    /// Number of the context, from 1 on; 0: not known, or outside of all calls.
    pub context: u32,
    /// Index into `regions`.
    pub region: u32,
    /// Byte offset within the region's file, or within the region if it has no file.
    pub offset: u64,
    /// Shared-cache reads.
    pub accesses: u64,
    /// Shared-cache reads that missed the whole shared cache.
    pub misses: u64,
}

/// A context: the chain of calls of its parent, and one more call.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawContext {
    /// Number of the parent, which is less than its own; 0: none.
    pub parent: u32,
    /// Region of the call instruction.
    pub region: u32,
    /// Byte offset of the call instruction, as in [`RawCode`].
    pub offset: u64,
}

/// Calls of a function of one thread; those within a call of the same function count with it.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawCalls {
    /// Region of its first instruction.
    pub region: u32,
    /// Byte offset of its first instruction, as in [`RawCode`].
    pub offset: u64,
    /// Calls.
    pub calls: u64,
    /// Shared-cache misses during the calls, those of called functions as well.
    pub misses: u64,
    /// Shared-cache reads during the calls, likewise.
    pub reads: u64,
    /// Dirty lines written back to the shared cache during the calls, likewise.
    pub writes: u64,
    /// Time of all calls, alone on the machine.
    pub held_ns: u64,
    /// Time of the longest call.
    pub longest_ns: u64,
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
    /// Chains of calls, by number from 1 on.
    pub contexts: Vec<RawContext>,
    /// Calls of functions.
    pub calls: Vec<RawCalls>,
    /// Was there no room for all chains or functions?
    pub chains_cut: bool,
    /// Counts of the caches.
    pub counts: Summary,
    /// Threads.
    pub threads: u32,
    /// Child processes.
    pub children: u32,
    /// Program that replaced this one and could not be followed.
    pub exec: Option<String>,
    /// Accesses recorded.
    pub trace_records: u64,
    /// Cycles that they cover.
    pub trace_cycles: u64,
    /// Did the limit cut the trace?
    pub trace_truncated: bool,
    /// Reason for which the trace is incomplete.
    pub trace_error: Option<String>,
    /// Its start.
    pub started: Started,
    /// Monotonic clock at its end, ns.
    pub ended_ns: u64,
    /// Instructions that it executed while a child of it lived.
    pub beside_children: u64,
    /// System calls that it made while a child of it lived: at each, another process may run.
    pub calls_beside_children: u64,
    /// Files that it used.
    pub looked: Vec<Looked>,
    /// Paths that it wrote itself before it used them, with the times.
    pub owned: Vec<(PathBuf, u64)>,
    /// Requests for information that is in no file.
    pub not_covered: Vec<String>,
    /// Reason for which the list of files is incomplete.
    pub not_whole: Option<String>,
}
