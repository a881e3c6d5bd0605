//! Throttling of background time while VCPUs are scheduled: what `solocore vcpu serve --threshold` and a plan's `throttle` have in common.
//!
//! Rule: readings are taken once a memory period, in this process, and handed to the scheduler in the kernel, which decides
//! (maracas, section IV, Algorithm 1). Does not cover: where readings come from (`solocore_linux::latency`).

use crate::args::vcpu::ThrottlingArgs;
use crate::commands::latency as memory;
use crate::fail::Failure;
use serde::Serialize;
use solocore_linux::latency::probe::Config;
use solocore_linux::latency::requests::CoreRequests;
use solocore_linux::latency::throttling::{Decision, Mechanism, Rule, Settings, Throttling, Watched};
use solocore_linux::latency::{self, Choice, Unit, pmu};
use solocore_linux::schedule::vcpus::Vcpus;
use solocore_linux::{LinuxError, host::machine};
use solocore_model::vcpus::Throttle;
use std::path::Path;
use std::time::{Duration, Instant};

/// What is to be watched, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub settings: Settings,
    /// How often a core in background mode asks whether it may go on.
    pub check_ns: u64,
    event: Option<String>,
    choice: Choice,
    period: Duration,
    /// The threshold is a time: counters that tell clocks are of no use.
    in_time: bool,
}

impl Wanted {
    /// As asked for on the command line; `None` without a threshold.
    pub fn of_arguments(args: &ThrottlingArgs, check_ns: u64) -> Result<Option<Self>, Failure> {
        if args.threshold.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            settings: memory::settings(args.rule, args.threshold, args.idle)?,
            check_ns,
            event: args.event.clone(),
            choice: memory::choice(args.source),
            period: Duration::from_nanos(args.memory_period.ns_ceil()),
            in_time: false,
        }))
    }

    /// As planned. A rate counts lines of this machine's cache.
    pub fn of_plan(throttle: &Throttle, event: Option<&str>) -> Self {
        let (rule, threshold) = match (throttle.max_latency, throttle.max_rate) {
            (Some(latency), _) => (Rule::Latency, latency.ns_ceil()),
            (None, rate) => {
                let bytes = u128::from(rate.map_or(0, |r| r.0)) * u128::from(throttle.period.ps()) / 1_000_000_000_000;
                (Rule::Rate, u64::try_from(bytes / u128::from(machine::cache_line().max(1))).unwrap_or(u64::MAX))
            }
        };
        Self {
            settings: Settings { rule, threshold: threshold.max(1), idle_per_mille: throttle.idle_per_mille },
            check_ns: throttle.check.ns_ceil(),
            event: event.map(str::to_owned),
            choice: Choice::Auto,
            period: Duration::from_nanos(throttle.period.ns_ceil()),
            in_time: true,
        }
    }

    /// For people: what would be done.
    pub fn text(&self) -> String {
        let what = match self.settings.rule {
            Rule::Latency => format!("a request takes {} ns or more", self.settings.threshold),
            Rule::Rate => format!("{} requests or more are counted in {:?}", self.settings.threshold, self.period),
        };
        format!("background time is throttled while {what}")
    }

    /// What the rule looks at here, and what to tell the user of it.
    fn watch(&self, config: &Config, cpuinfo: &str) -> Result<(Watched, Option<String>), LinuxError> {
        let sysfs = Path::new(pmu::SYSFS);
        let found = latency::watch(self.settings.rule, self.choice, sysfs, cpuinfo, config)?;
        if self.in_time && self.settings.rule == Rule::Latency && found.0.unit() == Unit::Clocks {
            let (probe, _) = latency::watch(self.settings.rule, Choice::Probe, sysfs, cpuinfo, config)?;
            return Ok((probe, Some("the counters tell clocks, and the plan's latency is a time".to_owned())));
        }
        Ok(found)
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Throttled {
    /// What is read.
    source: String,
    /// What counts as a request of a CPU.
    event: String,
    rule: &'static str,
    threshold: u64,
    /// Memory periods, and in how many memory was contended.
    periods: u64,
    contended: u64,
    /// Most cores that got no background time at once.
    most_throttled: u32,
    /// The highest latency of a period.
    highest_latency: Option<f64>,
}

impl Throttled {
    /// For people: a line.
    pub fn text(&self) -> String {
        format!(
            "\nmemory ({}): contended in {} of {} periods, at most {} cores without background time{}\n",
            self.source,
            self.contended,
            self.periods,
            self.most_throttled,
            self.highest_latency.map_or_else(String::new, |l| format!(", highest latency {l:.1}"))
        )
    }
}

/// The readings come to [`Vcpus::monitor`] by themselves.
struct Elsewhere;

impl Mechanism for Elsewhere {
    fn monitor(&mut self, _: u64, _: u64, _: &[u64]) -> Result<Decision, LinuxError> {
        Ok(Decision::default())
    }
}

/// Reads the memory's latency or the requests to it, and hands them to the scheduler.
pub struct Monitor {
    driver: Throttling<Elsewhere>,
    found: Throttled,
}

impl Monitor {
    /// The first memory period begins now.
    pub fn begin(wanted: &Wanted) -> Result<Self, Failure> {
        let (cpus, cpuinfo) = (machine::online_cpus()?, machine::cpuinfo());
        let (cores, instead) = CoreRequests::choose(wanted.event.as_deref(), &cpuinfo, &cpus)?;
        let (watched, why) = wanted.watch(&Config::on(&cpus), &cpuinfo)?;
        for note in instead.iter().chain(&why) {
            eprintln!("solocore: note: {note}");
        }
        let rule = wanted.settings.rule;
        let found = Throttled {
            source: watched.about(),
            event: cores.event().name().to_owned(),
            rule: if rule == Rule::Rate { "rate" } else { "latency" },
            threshold: wanted.settings.threshold,
            periods: 0,
            contended: 0,
            most_throttled: 0,
            highest_latency: None,
        };
        let driver = Throttling::new(wanted.period, rule, watched, cores, Elsewhere)?;
        Ok(Self { driver, found })
    }

    /// Ends the memory period if it is time.
    pub fn look(&mut self, vcpus: &Vcpus) -> Result<(), LinuxError> {
        if Instant::now() < self.driver.due() {
            return Ok(());
        }
        let tick = self.driver.tick()?;
        let decision = vcpus.monitor(&tick)?;
        self.found.periods += 1;
        self.found.contended += u64::from(decision.contended);
        self.found.most_throttled = self.found.most_throttled.max(decision.throttled);
        let latency = tick.reading.latency();
        self.found.highest_latency = self.found.highest_latency.into_iter().chain(latency).reduce(f64::max);
        Ok(())
    }

    /// What came of it so far.
    pub fn found(&self) -> Throttled {
        self.found.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plans_threshold() {
        let of = |text: &str| Wanted::of_plan(&toml::from_str(text).unwrap(), None);
        let latency = of("max_latency = \"200 ns\"\nidle_per_mille = 700\ncheck = \"2 ms\"");
        assert_eq!(latency.settings, Settings { rule: Rule::Latency, threshold: 200, idle_per_mille: 700 });
        assert_eq!((latency.check_ns, latency.period), (2_000_000, Duration::from_secs(2)));
        assert!(latency.text().ends_with("a request takes 200 ns or more"));
        // 64 MB/s for half a second, in lines.
        let rate = of("max_rate = \"64 MB/s\"\nperiod = \"500 ms\"");
        assert_eq!((rate.settings.rule, rate.settings.threshold), (Rule::Rate, 32_000_000 / machine::cache_line()));
    }
}
