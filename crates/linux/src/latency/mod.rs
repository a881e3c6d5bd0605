//! Latency of a request to memory on this machine, and the number of requests of each CPU.
//!
//! Problem: background time of VCPUs is throttled when memory is contended, and contention shows in
//! the average latency of requests, not in their rate (maracas, section IV). Some machines have
//! counters from which the latency follows, many do not.
//! Rule: a [`LatencySource`] is read once a monitor period and gives occupancy and requests, in the
//! units of `sc_throttle_monitor` (policy/include/solocore/throttle.h). Their quotient is the
//! latency. The module [`uncore`] reads counters of the memory controller or its arbiter; [`probe`]
//! measures loads of its own where there are none. The module [`requests`] counts each CPU's
//! requests; Algorithm 1 weighs its background time with them. The module [`throttling`] combines
//! these and calls the mechanism that throttles.
//! Source: Ye, West, Zhang, Cheng, MARACAS (RTSS 2016), section IV, Algorithm 1; Little's law.
//! Does not cover: remote memory (there is one figure for the machine); the kinds of the waiting
//! requests (reads and writes, of a device or a core).

pub mod calibrate;
pub mod events;
pub mod pmu;
pub mod probe;
pub mod requests;
mod source;
pub mod throttling;
pub mod uncore;

pub use source::{Cost, LatencySource, Reading, Unit};

use crate::error::LinuxError;
use std::path::Path;
use throttling::{Rule, Watched};

/// Source of the readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Choice {
    /// Counters of the memory controller if there are any, else the probe.
    #[default]
    Auto,
    /// Counters of the memory controller.
    Uncore,
    /// Timed loads of the probe.
    Probe,
}

/// The source that a rule watches; and the reason, if it is not the first choice.
pub type Watching = (Watched, Option<String>);

/// Reason of an error without its remedy, which is applied here.
fn why(error: &LinuxError) -> String {
    error.to_string().split("; ").next().unwrap_or_default().to_owned()
}

/// Source for a rule on the machine that `sysfs` ([`pmu::SYSFS`]) and `cpuinfo` describe: for the
/// latency rule counters or the probe, for the rate rule counters or the sum over the cores.
///
/// # Errors
/// This machine lacks the chosen source, or the probe was chosen for the rate rule.
pub fn watch(
    rule: Rule,
    choice: Choice,
    sysfs: &Path,
    cpuinfo: &str,
    config: &probe::Config,
) -> Result<Watching, LinuxError> {
    if rule == Rule::Rate {
        if choice == Choice::Probe {
            return Err(LinuxError::Input(
                "the probe's own loads do not show the rate of the machine; leave --source out with --rule \
                    rate"
                    .to_owned(),
            ));
        }
        return match (choice, uncore::Uncore::requests(sysfs, cpuinfo)) {
            (_, Ok(counters)) => Ok((Watched::Source(Box::new(counters)), None)),
            (Choice::Uncore, Err(e)) => {
                Err(LinuxError::Machine(format!("{}; leave --source out", why(&e))))
            }
            (_, Err(e)) => Ok((Watched::Cores, Some(why(&e)))),
        };
    }
    let instead_of = match choice {
        Choice::Probe => None,
        Choice::Uncore => {
            return Ok((Watched::Source(Box::new(uncore::Uncore::latency(sysfs, cpuinfo)?)), None));
        }
        Choice::Auto => match uncore::Uncore::latency(sysfs, cpuinfo) {
            Ok(counters) => return Ok((Watched::Source(Box::new(counters)), None)),
            Err(e) => Some(why(&e)),
        },
    };
    Ok((Watched::Source(Box::new(probe::Probe::start(config)?)), instead_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_counters_has_the_probe() {
        let nowhere = tempfile::tempdir().unwrap();
        let cpuinfo = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 42\n";
        let cpus = calibrate::usable_cpus().unwrap();
        let config = probe::Config { buffer: Some(1 << 20), ..probe::Config::on(&cpus) };
        let with = |rule, choice| watch(rule, choice, nowhere.path(), cpuinfo, &config);
        let kind = |found: Result<Watching, LinuxError>| {
            let (watched, why) = found.unwrap();
            (watched.unit(), why.is_some_and(|w| w.contains("uncore_arb") && !w.contains("; ")))
        };
        assert_eq!(kind(with(Rule::Latency, Choice::Auto)), (Unit::Nanoseconds, true));
        assert_eq!(kind(with(Rule::Latency, Choice::Probe)), (Unit::Nanoseconds, false));
        assert_eq!(kind(with(Rule::Rate, Choice::Auto)), (Unit::Requests, true));
        assert!(matches!(with(Rule::Latency, Choice::Uncore), Err(LinuxError::Machine(_))));
        assert!(matches!(with(Rule::Rate, Choice::Uncore), Err(LinuxError::Machine(_))));
        assert!(matches!(with(Rule::Rate, Choice::Probe), Err(LinuxError::Input(_))));
    }

    #[test]
    fn a_probe_says_what_it_is() {
        let config = probe::Config {
            buffer: Some(1 << 20),
            ..probe::Config::on(&calibrate::usable_cpus().unwrap())
        };
        let (watched, _) =
            watch(Rule::Latency, Choice::Probe, Path::new("/"), "", &config).unwrap();
        let Watched::Source(source) = &watched else { panic!("the probe is a source") };
        assert!(source.thread().is_some() && source.cost().is_some());
        assert!(watched.about().contains("160 dependent loads"));
    }
}
