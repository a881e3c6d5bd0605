//! Throttling of background time while VCPUs are scheduled, as a part.
//!
//! Problem: the readings and the decision on them must not take time from VCPUs beyond the plan.
//! Rule: a thread of this process, the monitor, takes readings once a memory period. It hands them
//! to the scheduler in the kernel, which decides (maracas, section IV, Algorithm 1). The thread is
//! bound to a VCPU of its own, and so is the probe's, which then measures on that VCPU's core only.
//! Does not cover: the source of the readings (`crate::latency`); the start of the probe, which no
//! VCPU holds.

use super::held_thread::{Waiting, lock, lock_now, wait_until_asleep};
use super::part::{Held, Next, Part, Round};
use crate::error::LinuxError;
use crate::host::machine;
use crate::latency::probe::Config;
use crate::latency::requests::CoreRequests;
use crate::latency::throttling::{Mechanism, Rule, Settings, Throttling, Tick, Watched};
use crate::latency::{self, Choice, Unit, pmu};
use crate::regulate::bpf;
use crate::schedule::vcpus::Vcpus;
use solocore_model::run::{RunResult, RunThrottling, RunVcpus};
use solocore_model::vcpus::{MONITOR, Throttle};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

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

/// Results of the monitor so far.
#[derive(Default)]
struct Found {
    throttling: RunThrottling,
    failed: Option<LinuxError>,
}

impl Found {
    fn add(&mut self, tick: &Tick, period: Duration) {
        let (found, decision) = (&mut self.throttling, &tick.decision);
        found.periods += 1;
        found.contended += u64::from(decision.contended);
        found.most_throttled = found.most_throttled.max(decision.throttled);
        found.highest_latency =
            found.highest_latency.into_iter().chain(tick.reading.latency()).reduce(f64::max);
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        found.latest_ns = found.latest_ns.max(tick.period_ns.saturating_sub(period_ns));
    }
}

/// Data that the monitor shares with the run.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    found: Mutex<Found>,
}

impl Shared {
    fn found(&self) -> MutexGuard<'_, Found> {
        lock(&self.found)
    }

    fn found_now(&self) -> Option<MutexGuard<'_, Found>> {
        lock_now(&self.found)
    }
}

/// The monitor's work: takes readings until it is asked to stop.
fn watch<M: Mechanism + Send + 'static>(
    mut driver: Throttling<M>,
    period: Duration,
    shared: Arc<Shared>,
) -> impl FnOnce() + Send + 'static {
    move || {
        let ended = driver.run(
            || shared.stop.load(Ordering::Acquire),
            |tick| {
                shared.found().add(tick, period);
                ControlFlow::Continue(())
            },
        );
        shared.found().failed = ended.err();
    }
}

/// The part that watches memory.
pub struct Memory {
    wish: MemoryWish,
    vcpus: Held<Vcpus>,
    monitor: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    /// The counts at the last look.
    last: RunThrottling,
    notes: Vec<String>,
}

impl Memory {
    /// The part for a scheduler, which starts before this part and has the monitor's VCPU.
    #[must_use]
    pub fn new(wish: MemoryWish, vcpus: Held<Vcpus>) -> Self {
        let notes = vec![wish.text()];
        let (shared, last) = (Arc::default(), RunThrottling::default());
        Self { wish, vcpus, monitor: None, shared, last, notes }
    }
}

impl Part for Memory {
    /// Begins the first memory period, in the monitor's thread.
    fn start(&mut self) -> Result<(), LinuxError> {
        let held = self.vcpus.borrow();
        let found = held.as_ref().and_then(|vcpus| Some((vcpus, vcpus.monitor()?)));
        let (vcpus, (id, core)) =
            found.ok_or_else(|| bpf::inside("the memory's monitor has no VCPU"))?;
        let (cpus, cpuinfo) = (machine::online_cpus()?, machine::cpuinfo());
        let (cores, instead) = CoreRequests::choose(self.wish.event.as_deref(), &cpuinfo, &cpus)?;
        let (watched, why) = self.wish.watch(&Config::on(&[core]), &cpuinfo)?;
        self.notes.extend(instead.into_iter().chain(why));
        let rule = self.wish.settings.rule;
        self.shared.found().throttling = RunThrottling {
            source: watched.about(),
            event: cores.event().name().to_owned(),
            rule: if rule == Rule::Rate { "rate" } else { "latency" }.to_owned(),
            threshold: self.wish.settings.threshold,
            ..RunThrottling::default()
        };
        self.last.clone_from(&self.shared.found().throttling);
        let probe = watched.thread();
        let period = self.wish.period;
        let driver = Throttling::new(period, rule, watched, cores, vcpus.throttled())?;
        let waiting = Waiting::start(MONITOR, watch(driver, period, Arc::clone(&self.shared)))?;
        for tid in probe.into_iter().chain([waiting.tid()]) {
            wait_until_asleep(tid);
            vcpus.hold_thread(tid, id)?;
        }
        self.notes.push(format!(
            "the memory's monitor runs in a VCPU of its own on core {core}: {}",
            vcpus.describe(id)
        ));
        self.monitor = Some(waiting.begin()?);
        Ok(())
    }

    /// Looks whether the monitor still works.
    fn look(&mut self, _: &mut Round) -> Result<Next, LinuxError> {
        let ended = self.monitor.as_ref().is_some_and(JoinHandle::is_finished);
        let Some(mut found) = self.shared.found_now() else { return Ok(Next::GoOn) };
        self.last.clone_from(&found.throttling);
        match found.failed.take() {
            Some(failed) => Err(failed),
            None if ended => Err(bpf::inside("the memory's monitor has ended")),
            None => Ok(Next::GoOn),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        let now = self.shared.found_now();
        let throttling = now.map_or_else(|| self.last.clone(), |found| found.throttling.clone());
        run.vcpus.get_or_insert_with(RunVcpus::default).throttling = Some(throttling);
        Ok(())
    }

    /// The monitor is not waited for: it may wait for the budget of its VCPU. It ends when it next
    /// runs, at the latest when the scheduler is gone.
    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.monitor = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::throttling::{Decision, InProcess};
    use crate::latency::{LatencySource, Reading};
    use crate::regulate::event::Event;
    use crate::sys::tasks;

    /// Readings of contended memory, and then a fault.
    struct Contended(u32);

    impl LatencySource for Contended {
        fn read(&mut self) -> Result<Reading, LinuxError> {
            let fault = || LinuxError::Machine("no more; end".to_owned());
            self.0 = self.0.checked_sub(1).ok_or_else(fault)?;
            Ok(Reading { occupancy: 1000, requests: 1, dma_included: true, dropped: 0 })
        }

        fn unit(&self) -> Unit {
            Unit::Nanoseconds
        }

        fn about(&self) -> String {
            "contended".to_owned()
        }
    }

    /// Fails when the monitor takes readings before its VCPU holds it, or hides a fault.
    #[test]
    fn the_monitor_waits_until_it_may_begin_and_tells_its_fault() {
        let period = Duration::from_millis(1);
        let settings = Settings { rule: Rule::Latency, threshold: 100, idle_per_mille: 500 };
        let cores = CoreRequests::open(&Event::find("page-faults", "").unwrap(), &[]).unwrap();
        let watched = Watched::Source(Box::new(Contended(2)));
        let policy = InProcess::new(4, &settings).unwrap();
        let driver = Throttling::new(period, Rule::Latency, watched, cores, policy).unwrap();
        let shared = Arc::new(Shared::default());
        let work = watch(driver, period, Arc::clone(&shared));
        let waiting = Waiting::start(MONITOR, work).unwrap();
        assert_ne!(waiting.tid(), tasks::thread_number());
        wait_until_asleep(waiting.tid());
        assert_eq!(shared.found().throttling.periods, 0);
        waiting.begin().unwrap().join().unwrap();
        let found = shared.found();
        assert_eq!((found.throttling.periods, found.throttling.most_throttled), (2, 2));
        assert!(found.failed.as_ref().is_some_and(|e| e.to_string().contains("no more")));
    }

    /// Fails when a reading that waited for the monitor's budget looks punctual.
    #[test]
    fn a_late_reading_counts_with_its_lateness() {
        let (mut found, period) = (Found::default(), Duration::from_millis(2));
        for period_ns in [2_000_000, 3_500_000, 2_100_000] {
            let (reading, decision) = (Reading::default(), Decision::default());
            found.add(&Tick { period_ns, reading, per_core: Vec::new(), decision }, period);
        }
        assert_eq!((found.throttling.periods, found.throttling.latest_ns), (3, 1_500_000));
    }

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
