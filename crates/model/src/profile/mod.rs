//! The effect of one run of a program on the memory system, as `solocore profile` writes it.

mod function;
mod measured;
pub mod merge;
mod origin;
mod page;
mod raise;

pub use function::{CallChain, FunctionCalls, FunctionProfile, best_to_lock, can_be_locked};
pub use measured::{
    AddressSamples, Extreme, Measured, MeasuredInput, Quantity, Raised, SampledPage, quantity,
};
pub use origin::{FileState, InputFile, InputRun, Origin, Processes, RestsOn, Worst};
pub use page::PageName;

use crate::platform::Isa;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Written at the head of every profile file.
pub const FORMAT: &str = "solocore-profile/1";

/// Accesses and misses of one cache level over the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// `L1I`, `L1D`, `L2`, `LLC`.
    pub name: String,
    /// Line accesses that reached the level.
    pub accesses: u64,
    /// Accesses to lines that it did not hold.
    pub misses: u64,
    /// Dirty lines that it wrote to the next level.
    pub writebacks: u64,
}

/// One page of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageProfile {
    /// Name of the page.
    #[serde(flatten)]
    pub name: PageName,
    /// All loads and stores (and fetched lines) that touched it.
    pub references: u64,
    /// Of these, reads that reached the shared cache (private-cache misses).
    pub llc_reads: u64,
    /// Dirty lines written back to the shared cache.
    pub llc_writes: u64,
    /// Distinct lines touched.
    pub lines: u32,
    /// The page's number in the trace.
    pub frame: u32,
}

impl PageProfile {
    /// Accesses to the shared cache, which become hits when the page is locked.
    pub fn llc_accesses(&self) -> u64 {
        self.llc_reads.saturating_add(self.llc_writes)
    }
}

/// Memory traffic over the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BandwidthSeries {
    /// Length of an interval, in modelled time alone on the machine.
    pub interval_ns: u64,
    /// Bytes per second in each interval, DRAM reads and write-backs with the whole shared cache.
    pub bytes_per_s: Vec<u64>,
}

/// Memory the program touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSet {
    /// Distinct pages that the program touched.
    pub pages: u64,
    /// Distinct lines that the program touched.
    pub lines: u64,
    /// Bytes of those lines.
    pub bytes: u64,
}

/// The recorded shared-cache accesses, for the simulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceRef {
    /// File name, relative to the profile's directory.
    pub file: PathBuf,
    /// Number of accesses recorded.
    pub records: u64,
    /// Core cycles that the records cover.
    pub cycles: u64,
    /// The limit was reached before the program ended.
    pub truncated: bool,
}

/// A profile file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name and version of the format: `solocore-profile/1`.
    pub format: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The program's instruction set.
    pub isa: Isa,
    /// The engine that counted: `qemu`; `perf` where counters of a machine raised the emulator's
    /// numbers.
    pub engine: String,
    /// Platform whose caches were modelled.
    pub platform: String,
    /// The caches of that platform in one line; a profile holds for boards with the same.
    pub geometry: String,
    /// Exit status of the program.
    pub exit_code: i32,
    /// Instructions executed, all threads.
    pub instructions: u64,
    /// Data loads.
    pub loads: u64,
    /// Data stores.
    pub stores: u64,
    /// Loads and stores.
    pub references: u64,
    /// Threads seen, the first included.
    pub threads: u32,
    /// Child processes; the profile is the sum of all processes.
    pub children: u32,
    /// In older profiles: the program that replaced this one, where the profile ends. `null` today.
    pub exec: Option<String>,
    /// Per-level counts, first level first.
    pub levels: Vec<Level>,
    /// Cycles of execution if every shared-cache access were free. The simulator and the planner
    /// add the time of those.
    pub private_cycles: u64,
    /// Memory touched.
    pub working_set: WorkingSet,
    /// Progressive lockdown curve: element `k` is the DRAM accesses of one job with the `k`
    /// hottest pages locked and the rest of the shared cache unusable (SCE section 2.3).
    pub lockdown: Vec<u64>,
    /// Element `w-1`: DRAM accesses with `w` ways of the shared cache, LRU, alone.
    pub by_ways: Vec<u64>,
    /// Pages, most shared-cache accesses first.
    pub pages: Vec<PageProfile>,
    /// Functions, most misses first. The last ones miss only in the functions that they call.
    pub functions: Vec<FunctionProfile>,
    /// Traffic over time.
    pub bandwidth: BandwidthSeries,
    /// The recorded accesses; `null`: none are kept.
    pub trace: Option<TraceRef>,
    /// Files that the run used, and the results of each of several inputs.
    #[serde(default, skip_serializing_if = "Origin::is_empty")]
    pub origin: Origin,
}

/// Sorts pages as profiles have them: most accesses first. Ties are broken by references and by
/// name, so that two runs rank alike.
pub fn by_heat(pages: &mut [PageProfile]) {
    pages.sort_by(|a, b| {
        (b.llc_accesses(), b.references)
            .cmp(&(a.llc_accesses(), a.references))
            .then_with(|| a.name.cmp(&b.name))
    });
}

impl Profile {
    /// Its program and libraries, by content; empty in older profiles.
    #[must_use]
    pub fn program_files(&self) -> Vec<InputFile> {
        let program = self.command.first().map(Path::new);
        program.map_or_else(Vec::new, |program| self.origin.rests_on.program_files(program))
    }

    /// Reads that reach the shared cache.
    pub fn llc_reads(&self) -> u64 {
        self.kinds(0).0
    }

    /// Reads and writes that reach DRAM with the `k` first pages locked: the most of each.
    pub fn kinds(&self, k: usize) -> (u64, u64) {
        let left = self.pages.get(k..).unwrap_or(&[]);
        let (processes, raised) = (&self.origin.processes, &self.origin.raised);
        // Counts that do not fit become the largest one, so that no bound is smaller.
        let all = |of: fn(&PageProfile) -> u64, more: [u64; 2]| {
            left.iter().map(of).chain(more).fold(0, u64::saturating_add)
        };
        (
            all(|p| p.llc_reads, [processes.reads, raised.reads]),
            all(|p| p.llc_writes, [processes.writes, raised.writes]),
        )
    }

    /// Accesses to the shared cache; all of them reach DRAM when nothing is locked.
    pub fn llc_accesses(&self) -> u64 {
        self.lockdown.first().copied().unwrap_or(0)
    }

    /// Residual DRAM accesses of a job with the `k` hottest pages locked.
    pub fn residual_misses(&self, k: usize) -> u64 {
        self.lockdown.get(k).or(self.lockdown.last()).copied().unwrap_or(0)
    }
}
