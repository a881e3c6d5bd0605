//! Observations of a scheduler of VCPUs.

use super::levels::RunIntruder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observations of the scheduler of VCPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVcpus {
    /// Rule for the VCPU that got background time.
    pub background: String,
    /// Throttling of background time; `null`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttling: Option<RunThrottling>,
    /// Moves of pages with their VCPUs; `null`: pages stay where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<RunMigration>,
    /// VCPUs, the best-effort ones first.
    pub vcpus: Vec<RunVcpu>,
    /// CPUs of the machine.
    pub cpus: Vec<RunVcpuCpu>,
    /// Real-time threads, which no VCPU holds.
    pub intruders: Vec<RunVcpuIntruder>,
}

/// Moves of pages with their VCPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunMigration {
    /// VCPUs that went to another core, with their pages.
    pub moves: u64,
    /// Pages that were copied to frames of other colours.
    pub pages: u64,
    /// Most private pages of a VCPU that went.
    pub most_pages: u64,
    /// Longest time from the begin of a move of pages to its end, with the waiting for budget, ns.
    pub longest_ns: u64,
    /// Most CPU time of the threads that moved the pages of a VCPU, ns.
    pub most_ns: u64,
    /// Moves that took more CPU time than the capacity: the stated cost of a page is too small.
    pub over: u64,
    /// VCPUs that stayed on their cores when they were last to move, with the reason.
    pub stay: Vec<String>,
}

impl RunMigration {
    /// In words, a line of a summary.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!(
            "pages: {} VCPUs moved with {} pages, at most {} of one; at most {:.3} ms of the CPU and \
                {:.3} ms until its end; {} took more than the capacity\n",
            self.moves,
            self.pages,
            self.most_pages,
            self.most_ns as f64 / 1e6,
            self.longest_ns as f64 / 1e6,
            self.over
        );
        self.stay.iter().for_each(|why| out.push_str(&format!("  {why}\n")));
        out
    }
}

/// A VCPU as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVcpu {
    /// Number of the VCPU.
    pub id: u32,
    /// Name of the VCPU.
    pub name: String,
    /// Core that it is on now.
    pub core: u32,
    /// C: time on its core in each period.
    pub capacity_ns: u64,
    /// T: period of the capacity.
    pub period_ns: u64,
    /// `blocked`, `foreground`, `background`, or `moving`.
    pub state: String,
    /// Time that it ran with budget.
    pub foreground_ns: u64,
    /// Time that it ran without budget.
    pub background_ns: u64,
    /// Number of times that it moved to another core.
    pub moves: u64,
    /// Time of its longest move.
    pub longest_move_ns: u64,
    /// Requests to memory in a millisecond of its execution, in the last period that was measured.
    /// Absent where the policy for background time does not ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_ms: Option<u64>,
    /// Paths of the control groups that it runs as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

/// Events on a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVcpuCpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Threads of the VCPU that started to run.
    pub switches: u64,
    /// Number of times that a budget was exceeded because the timer came late.
    pub late: u64,
    /// Total time by which budgets were exceeded for this reason. No VCPU's foreground time
    /// contains it.
    pub late_ns: u64,
    /// The longest such time.
    pub longest_late_ns: u64,
    /// Threads that began to run at the moment when another VCPU was picked, and were stopped at
    /// once.
    pub strays: u64,
    /// VCPUs that left for another CPU.
    pub moves: u64,
    /// Background time of its VCPUs.
    pub background_ns: u64,
    /// Moves that the policy refused. A number above 0 is a fault of solocore.
    pub errors: u64,
    /// Number of times that a real-time thread ran.
    pub intrusions: u64,
    /// Time of real-time threads, in all.
    pub intruder_ns: u64,
}

/// A real-time thread that ran beside the VCPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVcpuIntruder {
    /// The thread, and its times.
    #[serde(flatten)]
    pub seen: RunIntruder,
    /// The part of this time in which a VCPU with budget had to wait.
    pub lost_foreground_ns: u64,
    /// The part of this time in which a VCPU in background time had to wait.
    pub lost_background_ns: u64,
}

impl RunVcpuIntruder {
    /// The thread and its times, as text.
    pub fn text(&self) -> String {
        format!(
            "{}; lost: foreground {:.3} ms, background {:.3} ms",
            self.seen.text(),
            self.lost_foreground_ns as f64 / 1e6,
            self.lost_background_ns as f64 / 1e6
        )
    }
}

/// Throttling of background time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunThrottling {
    /// Counters or other source of the readings.
    pub source: String,
    /// The event that counts requests of a CPU.
    pub event: String,
    /// `latency` or `rate`.
    pub rule: String,
    /// Value from which the memory is contended: ns (rule `latency`), or requests per period (rule
    /// `rate`).
    pub threshold: u64,
    /// Memory periods that were examined.
    pub periods: u64,
    /// Memory periods in which the memory was contended.
    pub contended: u64,
    /// Most cores that had no background time at once.
    pub most_throttled: u32,
    /// Highest mean latency of a period, in ns.
    pub highest_latency: Option<f64>,
    /// Longest time by which a reading came later than its memory period, in ns: the monitor waited
    /// for its VCPU.
    #[serde(default)]
    pub latest_ns: u64,
}

impl RunThrottling {
    /// The throttling as a line of text.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "\nmemory ({}): contended in {} of {} periods, at most {} cores without background \
                time{}; readings at most {:.1} ms late\n",
            self.source,
            self.contended,
            self.periods,
            self.most_throttled,
            self.highest_latency.map_or_else(String::new, |l| format!(", highest latency {l:.1}")),
            self.latest_ns as f64 / 1e6
        )
    }
}
