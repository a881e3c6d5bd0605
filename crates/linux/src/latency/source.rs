//! Sources of the latency of memory, and their readings.

use crate::error::LinuxError;

/// Unit of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Time.
    Nanoseconds,
    /// Clocks of the counters' unit, whose frequency is not known here.
    Clocks,
    /// Requests: there is no latency.
    Requests,
}

impl Unit {
    /// The unit as it is written after a figure.
    pub fn short(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Clocks => "clocks",
            Self::Requests => "requests",
        }
    }
}

/// Counts since the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Reading {
    /// Requests waiting, summed over the clocks (or ns); 0 where only requests are counted.
    pub occupancy: u64,
    /// Requests of this occupancy: those of the probe, or of the counters.
    pub requests: u64,
    /// Whether traffic of devices is part of the figure that the rule looks at. It is always part
    /// of a latency: it makes requests wait.
    pub dma_included: bool,
    /// Measurements that were discarded because of an interruption (of the probe; 0 elsewhere).
    pub dropped: u64,
}

impl Reading {
    /// Occupancy divided by requests; `None` without either.
    pub fn latency(&self) -> Option<f64> {
        (self.requests > 0 && self.occupancy > 0)
            .then(|| self.occupancy as f64 / self.requests as f64)
    }
}

/// A source of the latency of memory, or of the number of requests to it.
pub trait LatencySource: Send {
    /// Counts since the last reading, or since the source was made.
    ///
    /// A reading without requests has no latency: `sc_throttle_monitor` then takes memory to be
    /// free.
    ///
    /// # Errors
    /// A counter has stopped.
    fn read(&mut self) -> Result<Reading, LinuxError>;

    /// Unit of occupancy divided by requests.
    fn unit(&self) -> Unit;

    /// Description of the source, for people.
    fn about(&self) -> String;

    /// Cost of the readings so far; `None` where it is a few system calls per period.
    fn cost(&self) -> Option<Cost> {
        None
    }

    /// Number of the thread that measures, to bind it to a VCPU; `None` where there is none.
    fn thread(&self) -> Option<u32> {
        None
    }
}

/// Cost of the probe so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Cost {
    /// Time that its thread has run.
    pub cpu_ns: u64,
    /// Time that has passed.
    pub wall_ns: u64,
    /// Loads that it has timed, discarded or not.
    pub loads: u64,
    /// Share of a CPU: `cpu_ns / wall_ns`.
    pub cpu_share: f64,
    /// Bytes of its loads per second.
    pub bytes_per_s: f64,
}
