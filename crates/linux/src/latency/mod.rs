//! How long a request to memory takes on this machine, and how many each CPU makes.
//!
//! Problem: background time of VCPUs is throttled when memory is contended, and contention shows in the average latency of
//! requests, not in their rate (maracas, section IV). Some machines count what the latency follows from, many do not.
//! Rule: a [`LatencySource`] is read once a monitor period and gives occupancy and requests, in the units of `sc_throttle_monitor`
//! (policy/include/solocore/throttle.h): their quotient is the latency. [`uncore`] reads counters of the memory controller or its
//! arbiter; [`probe`] measures loads of its own where there are none. [`requests`] counts what each CPU asks for, which
//! Algorithm 1 weighs its background time with. [`throttling`] puts them together and calls whatever throttles.
//! Source: Ye, West, Zhang, Cheng, MARACAS (RTSS 2016), section IV, Algorithm 1; Little's law.
//! Does not cover: memory that is remote (one figure for the machine); which requests wait (reads and writes, a device's and a core's).

pub mod calibrate;
mod chase;
pub mod events;
pub mod pmu;
pub mod probe;
pub mod requests;
pub mod throttling;
pub mod uncore;

use crate::error::LinuxError;
use std::path::Path;

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
    /// Does traffic of devices weigh in the figure that the rule looks at? In a latency, always: it makes requests wait.
    pub dma_included: bool,
    /// Measurements that were thrown away, because something came between (the probe's; 0 elsewhere).
    pub dropped: u64,
}

impl Reading {
    /// Occupancy by requests; `None` without either.
    pub fn latency(&self) -> Option<f64> {
        (self.requests > 0 && self.occupancy > 0).then(|| self.occupancy as f64 / self.requests as f64)
    }
}

/// Something that tells the latency of memory, or the number of requests to it.
pub trait LatencySource: Send {
    /// What has happened since the last reading, or since the source was made.
    ///
    /// A reading without requests has no latency: `sc_throttle_monitor` then takes memory to be free.
    ///
    /// # Errors
    /// What was counting no longer can.
    fn read(&mut self) -> Result<Reading, LinuxError>;

    /// What an occupancy by requests is.
    fn unit(&self) -> Unit;

    /// What is read, for people.
    fn about(&self) -> String;
}

/// Where readings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Counters if there are some, else the probe.
    Auto,
    /// Counters.
    Uncore,
    /// The probe.
    Probe,
}

/// The source that was asked for; and, if it is the probe for lack of counters, why.
///
/// # Errors
/// The choice cannot be had here.
pub fn source(
    choice: Choice,
    sysfs: &Path,
    cpuinfo: &str,
    config: &probe::Config,
) -> Result<(Box<dyn LatencySource>, Option<String>), LinuxError> {
    let probe = || Ok::<Box<dyn LatencySource>, LinuxError>(Box::new(probe::Probe::start(config)?));
    match choice {
        Choice::Probe => Ok((probe()?, None)),
        Choice::Uncore => Ok((Box::new(uncore::Uncore::latency(sysfs, cpuinfo)?), None)),
        Choice::Auto => match uncore::Uncore::latency(sysfs, cpuinfo) {
            Ok(counters) => Ok((Box::new(counters), None)),
            // The remedy that the message ends with is what is done here.
            Err(e) => Ok((probe()?, Some(e.to_string().split("; ").next().unwrap_or_default().to_owned()))),
        },
    }
}
