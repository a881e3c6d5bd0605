//! Throttling of background time while VCPUs are scheduled, as a part.
//!
//! Rule: readings are taken once a memory period, in this process, and handed to the scheduler in
//! the kernel, which decides (maracas, section IV, Algorithm 1). Does not cover: the source of the
//! readings (`crate::latency`).

use super::part::{Held, Next, Part, Round};
use crate::error::LinuxError;
use crate::host::machine;
use crate::latency::probe::Config;
use crate::latency::requests::CoreRequests;
use crate::latency::throttling::{Decision, Mechanism, Rule, Settings, Throttling, Watched};
use crate::latency::{self, Choice, Unit, pmu};
use crate::schedule::vcpus::Vcpus;
use solocore_model::run::{RunResult, RunThrottling, RunVcpus};
use solocore_model::vcpus::Throttle;
use std::path::Path;
use std::time::{Duration, Instant};

/// Options for watching memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryWish {
    /// Threshold at which memory counts as contended.
    pub settings: Settings,
    /// Interval between two checks by a core in background mode whether it may go on.
    pub check_ns: u64,
    /// Event that counts a CPU's requests; none: the first one that this machine counts.
    pub event: Option<String>,
    /// Source of the readings.
    pub choice: Choice,
    /// Monitor period.
    pub period: Duration,
    /// Whether the threshold is a time, so that counters in clocks cannot be used.
    pub in_time: bool,
}

impl MemoryWish {
    /// The options of a plan. A rate counts lines of this machine's cache.
    pub fn of_plan(throttle: &Throttle, event: Option<&str>) -> Self {
        let (rule, threshold) = match (throttle.max_latency, throttle.max_rate) {
            (Some(latency), _) => (Rule::Latency, latency.ns_ceil()),
            (None, rate) => {
                let bytes = u128::from(rate.map_or(0, |r| r.0)) * u128::from(throttle.period.ps())
                    / 1_000_000_000_000;
                (
                    Rule::Rate,
                    u64::try_from(bytes / u128::from(machine::cache_line().max(1)))
                        .unwrap_or(u64::MAX),
                )
            }
        };
        Self {
            settings: Settings {
                rule,
                threshold: threshold.max(1),
                idle_per_mille: throttle.idle_per_mille,
            },
            check_ns: throttle.check.ns_ceil(),
            event: event.map(str::to_owned),
            choice: Choice::Auto,
            period: Duration::from_nanos(throttle.period.ns_ceil()),
            in_time: true,
        }
    }

    /// A description of the options, for people.
    pub fn text(&self) -> String {
        let what = match self.settings.rule {
            Rule::Latency => format!("a request takes {} ns or more", self.settings.threshold),
            Rule::Rate => format!(
                "{} requests or more are counted in {:?}",
                self.settings.threshold, self.period
            ),
        };
        format!("background time is throttled while {what}")
    }

    /// The quantity that the rule watches here, and notes on it for the user.
    fn watch(
        &self,
        config: &Config,
        cpuinfo: &str,
    ) -> Result<(Watched, Option<String>), LinuxError> {
        let sysfs = Path::new(pmu::SYSFS);
        let found = latency::watch(self.settings.rule, self.choice, sysfs, cpuinfo, config)?;
        if self.in_time && self.settings.rule == Rule::Latency && found.0.unit() == Unit::Clocks {
            let (probe, _) =
                latency::watch(self.settings.rule, Choice::Probe, sysfs, cpuinfo, config)?;
            return Ok((
                probe,
                Some(
                    "the counters give the latency in clocks, but the plan's max_latency is a \
                    time, so the probe is used"
                        .to_owned(),
                ),
            ));
        }
        Ok(found)
    }
}

/// A mechanism that does nothing: the readings reach [`Vcpus::monitor`] elsewhere.
struct Elsewhere;

impl Mechanism for Elsewhere {
    fn monitor(&mut self, _: u64, _: u64, _: &[u64]) -> Result<Decision, LinuxError> {
        Ok(Decision::default())
    }
}

/// The part that watches memory.
pub struct Memory {
    wish: MemoryWish,
    vcpus: Held<Vcpus>,
    driver: Option<Throttling<Elsewhere>>,
    notes: Vec<String>,
    found: RunThrottling,
}

impl Memory {
    /// The part for a scheduler.
    #[must_use]
    pub fn new(wish: MemoryWish, vcpus: Held<Vcpus>) -> Self {
        let notes = vec![wish.text()];
        Self { wish, vcpus, driver: None, notes, found: RunThrottling::default() }
    }
}

impl Part for Memory {
    /// Begins the first memory period.
    fn start(&mut self) -> Result<(), LinuxError> {
        let (cpus, cpuinfo) = (machine::online_cpus()?, machine::cpuinfo());
        let (cores, instead) = CoreRequests::choose(self.wish.event.as_deref(), &cpuinfo, &cpus)?;
        let (watched, why) = self.wish.watch(&Config::on(&cpus), &cpuinfo)?;
        self.notes.extend(instead.into_iter().chain(why));
        let rule = self.wish.settings.rule;
        self.found = RunThrottling {
            source: watched.about(),
            event: cores.event().name().to_owned(),
            rule: if rule == Rule::Rate { "rate" } else { "latency" }.to_owned(),
            threshold: self.wish.settings.threshold,
            ..RunThrottling::default()
        };
        self.driver = Some(Throttling::new(self.wish.period, rule, watched, cores, Elsewhere)?);
        Ok(())
    }

    /// Ends the memory period when its time is over.
    fn look(&mut self, _: &mut Round) -> Result<Next, LinuxError> {
        let vcpus = self.vcpus.borrow();
        let (Some(vcpus), Some(driver)) = (vcpus.as_ref(), &mut self.driver) else {
            return Ok(Next::GoOn);
        };
        if Instant::now() < driver.due() {
            return Ok(Next::GoOn);
        }
        let tick = driver.tick()?;
        let decision = vcpus.monitor(&tick)?;
        let found = &mut self.found;
        found.periods += 1;
        found.contended += u64::from(decision.contended);
        found.most_throttled = found.most_throttled.max(decision.throttled);
        found.highest_latency =
            found.highest_latency.into_iter().chain(tick.reading.latency()).reduce(f64::max);
        Ok(Next::GoOn)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        run.vcpus.get_or_insert_with(RunVcpus::default).throttling = Some(self.found.clone());
        Ok(())
    }

    fn end(&mut self) {
        self.driver = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plans_threshold() {
        let of = |text: &str| MemoryWish::of_plan(&serde_json::from_str(text).unwrap(), None);
        let latency = of(r#"{"max_latency": "200 ns", "idle_per_mille": 700, "check": "2 ms"}"#);
        assert_eq!(
            latency.settings,
            Settings { rule: Rule::Latency, threshold: 200, idle_per_mille: 700 }
        );
        assert_eq!((latency.check_ns, latency.period), (2_000_000, Duration::from_secs(2)));
        assert!(latency.text().ends_with("a request takes 200 ns or more"));
        // 64 MB/s for half a second, in lines.
        let rate = of(r#"{"max_rate": "64 MB/s", "period": "500 ms"}"#);
        assert_eq!(
            (rate.settings.rule, rate.settings.threshold),
            (Rule::Rate, 32_000_000 / machine::cache_line())
        );
    }
}
