//! What was seen of a scheduler of VCPUs.

use super::levels::RunIntruder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the scheduler of VCPUs saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVcpus {
    /// Who got background time.
    pub background: String,
    /// Where background time was throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttling: Option<RunThrottling>,
    /// VCPUs, the best-effort ones first.
    pub vcpus: Vec<RunVcpu>,
    /// CPUs of the machine.
    pub cpus: Vec<RunVcpuCpu>,
    /// Real-time threads, which no VCPU holds.
    pub intruders: Vec<RunVcpuIntruder>,
}

/// A VCPU as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVcpu {
    /// Its number.
    pub id: u32,
    /// What it is called.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// C.
    pub capacity_ns: u64,
    /// T.
    pub period_ns: u64,
    /// `blocked`, `foreground`, `background`, or `moving`.
    pub state: String,
    /// Time that it ran with budget.
    pub foreground_ns: u64,
    /// Time that it ran without.
    pub background_ns: u64,
    /// How often it moved.
    pub moves: u64,
    /// How long a move took at most.
    pub longest_move_ns: u64,
}

/// What happened on a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVcpuCpu {
    /// Which.
    pub cpu: u32,
    /// Threads that were let in.
    pub switches: u64,
    /// How often a budget was exceeded because the timer came late.
    pub late: u64,
    /// By how much in all; it is in nobody's foreground time.
    pub late_ns: u64,
    /// And at most.
    pub longest_late_ns: u64,
    /// Threads that began to run just as another VCPU was picked, and were sent away at once.
    pub strays: u64,
    /// VCPUs that left for another CPU.
    pub moves: u64,
    /// Background time of its VCPUs.
    pub background_ns: u64,
    /// Moves that the policy refused: there are none.
    pub errors: u64,
    /// How often a real-time thread ran.
    pub intrusions: u64,
    /// And for how long in all.
    pub intruder_ns: u64,
}

/// A real-time thread that ran beside the VCPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVcpuIntruder {
    /// Which, and for how long.
    #[serde(flatten)]
    pub seen: RunIntruder,
    /// What of it a VCPU with budget had to wait.
    pub lost_foreground_ns: u64,
    /// What of it one in background time had to wait.
    pub lost_background_ns: u64,
}

impl RunVcpuIntruder {
    /// For people.
    pub fn text(&self) -> String {
        format!(
            "{}; lost: foreground {:.3} ms, background {:.3} ms",
            self.seen.text(),
            self.lost_foreground_ns as f64 / 1e6,
            self.lost_background_ns as f64 / 1e6
        )
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunThrottling {
    /// What is read.
    pub source: String,
    /// What counts as a request of a CPU.
    pub event: String,
    /// "latency" or "rate".
    pub rule: String,
    /// From when on memory is contended, in ns or in requests of a period.
    pub threshold: u64,
    /// Memory periods.
    pub periods: u64,
    /// In how many memory was contended.
    pub contended: u64,
    /// Most cores that got no background time at once.
    pub most_throttled: u32,
    /// The highest latency of a period.
    pub highest_latency: Option<f64>,
}

impl RunThrottling {
    /// For people: a line.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "\nmemory ({}): contended in {} of {} periods, at most {} cores without background \
                time{}\n",
            self.source,
            self.contended,
            self.periods,
            self.most_throttled,
            self.highest_latency.map_or_else(String::new, |l| format!(", highest latency {l:.1}"))
        )
    }
}
