//! Something that tells the latency of memory, and what it tells.

use crate::error::LinuxError;

/// What a latency is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Time.
    Nanoseconds,
    /// Clocks of the counters' unit, whose frequency is not known here.
    Clocks,
    /// There is no latency: only requests are counted.
    Requests,
}

impl Unit {
    /// As it is written after a figure.
    pub fn short(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Clocks => "clocks",
            Self::Requests => "requests",
        }
    }
}

/// What has happened since the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reading {
    /// Requests waiting, summed over the clocks (or ns); 0 where only requests are counted.
    pub occupancy: u64,
    /// Requests that this occupancy is of: those of the probe, or what the counters saw.
    pub requests: u64,
    /// Does traffic of devices weigh in the figure that the rule looks at? In a latency, always: it
    /// makes requests wait.
    pub dma_included: bool,
    /// Measurements that were thrown away, because something came between (the probe's; 0
    /// elsewhere).
    pub dropped: u64,
}

impl Reading {
    /// Occupancy by requests; `None` without either.
    pub fn latency(&self) -> Option<f64> {
        (self.requests > 0 && self.occupancy > 0)
            .then(|| self.occupancy as f64 / self.requests as f64)
    }
}

/// Something that tells the latency of memory, or the number of requests to it.
pub trait LatencySource: Send {
    /// What has happened since the last reading, or since the source was made.
    ///
    /// A reading without requests has no latency: `sc_throttle_monitor` then takes memory to be
    /// free.
    ///
    /// # Errors
    /// What was counting no longer can.
    fn read(&mut self) -> Result<Reading, LinuxError>;

    /// What an occupancy by requests is.
    fn unit(&self) -> Unit;

    /// What is read, for people.
    fn about(&self) -> String;

    /// What reading has cost so far; `None` where that is a few system calls a period.
    fn cost(&self) -> Option<Cost> {
        None
    }

    /// The thread that measures, to bind it to a VCPU; `None` where there is none.
    fn thread(&self) -> Option<u32> {
        None
    }
}

/// What the probe has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Cost {
    /// Time that its thread has run.
    pub cpu_ns: u64,
    /// Time that has passed.
    pub wall_ns: u64,
    /// Loads that it has timed, thrown away or not.
    pub loads: u64,
    /// Part of a CPU: `cpu_ns / wall_ns`.
    pub cpu_share: f64,
    /// Bytes of its loads a second.
    pub bytes_per_s: f64,
}
