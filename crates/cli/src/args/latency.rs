//! Options of `solocore latency`.

use super::format::Format;
use clap::ValueEnum;
use solocore_linux::latency::Choice;
use solocore_model::Time;

/// Rule by which memory counts as contended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// The average latency of a request.
    #[default]
    Latency,
    /// The requests of one period (`latency --every`, `vcpu serve --memory-period`); not with
    /// --source probe.
    Rate,
}

#[derive(Debug, clap::Args)]
pub struct LatencyArgs {
    /// The monitor period, like "100 ms".
    #[arg(long, default_value = "100 ms", value_name = "TIME")]
    pub every: Time,
    /// Number of periods [default: until Ctrl-C].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Source of the readings.
    #[arg(long, value_enum, default_value_t)]
    pub source: Choice,
    /// Event that counts accesses of a CPU, as for `solocore run` [default: llc-misses, else
    /// cache-misses, else page-faults as a substitute].
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Rule by which memory counts as contended.
    #[arg(long, value_enum, default_value_t)]
    pub rule: Rule,
    /// Threshold from which memory counts as contended: a latency (in the unit shown), or requests
    /// per period. The output then says which cores Algorithm 1 would throttle.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub threshold: Option<u64>,
    /// With --threshold: throttling is reduced once requests are at or below this share of the
    /// largest number seen, 0 to 1.
    #[arg(long, default_value_t = 0.8, value_name = "SHARE", requires = "threshold")]
    pub idle: f64,
    /// The probe's CPUs, in turn, like 0-1,3 [default: all that this process may use].
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// The probe's batches a second, 1 to 10000.
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub rate: u32,
    /// Loads of a piece, 8 to 66; five pieces are a batch.
    #[arg(long, default_value_t = 32, value_name = "N")]
    pub loads: u32,
    /// Make the probe a real-time thread (SCHED_FIFO) of this priority, 1 to 99.
    #[arg(long, value_name = "N")]
    pub priority: Option<u8>,
    /// Measure the latency alone and beside memory hogs, and the cost of the probe; suggest a
    /// threshold.
    #[arg(long, conflicts_with_all = ["every", "count", "source", "event", "rule", "threshold"])]
    pub calibrate: bool,
    /// With --calibrate: time for each load, like "2 s".
    #[arg(long, default_value = "2 s", value_name = "TIME", requires = "calibrate")]
    pub span: Time,
    /// With --calibrate: factor from the latency alone to the threshold.
    #[arg(long, default_value_t = 1.5, value_name = "X", requires = "calibrate")]
    pub factor: f64,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
