//! Throttling of background time, the part in this process: it takes readings once a monitor
//! period.
//!
//! Problem: Algorithm 1 wants, at the end of every MEM_PERIOD, occupancy and requests of the
//! machine and the requests of each core. A program reads the counters and the probe; the mechanism
//! that throttles is in the kernel.
//! Rule: [`Throttling`] owns the period. At its end it takes the readings and hands them to a
//! [`Mechanism`], which ends the policy's period with them (`sc_throttle_report` for each core,
//! then `sc_throttle_monitor`). With the rate rule the machine's requests are those of a counter
//! outside the cores, or the sum over the cores where there is none. The type [`InProcess`] is a
//! mechanism that decides and throttles nobody: it serves to watch decisions, and for tests.
//! Source: maracas, section IV, Algorithm 1 (MONITOR); policy/include/solocore/throttle.h.
//! Does not cover: the background time of a core (`sc_throttle_ran`), which only the scheduler
//! knows.

use super::requests::CoreRequests;
use super::source::{LatencySource, Reading, Unit};
use crate::error::LinuxError;
use solocore_policy::throttle::Throttle;
use std::time::{Duration, Instant};

pub use solocore_policy::throttle::Rule;

/// Range of monitor periods: shorter ones cost too much, and longer ones do not throttle in time.
const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60);

/// Thresholds for contention, and for less throttling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The rule.
    pub rule: Rule,
    /// Threshold at or above which memory is contended: in the source's unit per request, or in
    /// requests per period.
    pub threshold: u64,
    /// Share of the most requests since throttling began, 0 to 1000: at or below it, one core fewer
    /// is throttled (IDLE_MEM).
    pub idle_per_mille: u32,
}

/// The policy's decision at the end of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Decision {
    /// Whether memory was contended.
    pub contended: bool,
    /// Number of cores without background time from now on (num_throttle).
    pub throttled: u32,
    /// Requests of all cores in the period (R_cur).
    pub requests: u64,
    /// Most requests of a period since throttling began (R_high).
    pub most_requests: u64,
}

/// The mechanism that throttles: the scheduler's program in the kernel, or a substitute.
pub trait Mechanism {
    /// Ends a monitor period. `per_core`: requests of each core, in the order of the counted CPUs.
    ///
    /// # Errors
    /// The mechanism can no longer be reached.
    fn monitor(
        &mut self,
        occupancy: u64,
        requests: u64,
        per_core: &[u64],
    ) -> Result<Decision, LinuxError>;
}

/// The policy in this process: it decides, and throttles nobody.
pub struct InProcess(Box<Throttle>);

impl InProcess {
    /// The policy for this number of cores.
    ///
    /// # Errors
    /// No threshold, a share above 1000, no core or more than the policy has room for.
    pub fn new(cores: usize, settings: &Settings) -> Result<Self, LinuxError> {
        let count = u32::try_from(cores).unwrap_or(u32::MAX);
        Throttle::new(count, settings.rule, settings.threshold, settings.idle_per_mille)
            .map(Self)
            .ok_or_else(|| {
                LinuxError::Input(format!(
                    "throttling of {cores} cores from {} on, reduced at {} per mille, cannot be; \
                    choose 1 to {} cores, a threshold of at least 1, 0 to 1000 per mille",
                    settings.threshold,
                    settings.idle_per_mille,
                    solocore_policy::MAX_CPUS
                ))
            })
    }

    /// The policy's state, which knows the cores that may use background time.
    pub fn policy(&mut self) -> &mut Throttle {
        &mut self.0
    }
}

impl Mechanism for InProcess {
    fn monitor(
        &mut self,
        occupancy: u64,
        requests: u64,
        per_core: &[u64],
    ) -> Result<Decision, LinuxError> {
        for (core, &requests) in (0..self.0.cpus()).zip(per_core) {
            self.0.report(core, requests);
        }
        let contended = self.0.monitor(occupancy, requests);
        Ok(Decision {
            contended,
            throttled: self.0.throttled(),
            requests: self.0.requests(),
            most_requests: self.0.most_requests(),
        })
    }
}

/// The input of the rule.
pub enum Watched {
    /// A latency, or requests that a counter outside the cores saw.
    Source(Box<dyn LatencySource>),
    /// The sum of the cores' requests; for the rate rule.
    Cores,
}

impl Watched {
    /// Unit of the input.
    pub fn unit(&self) -> Unit {
        match self {
            Self::Source(source) => source.unit(),
            Self::Cores => Unit::Requests,
        }
    }

    /// A description for people.
    pub fn about(&self) -> String {
        match self {
            Self::Source(source) => source.about(),
            Self::Cores => "the sum over the CPUs".to_owned(),
        }
    }

    /// Number of the thread that measures; `None` where there is none.
    pub fn thread(&self) -> Option<u32> {
        match self {
            Self::Source(source) => source.thread(),
            Self::Cores => None,
        }
    }
}

/// A monitor period and its decision.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Tick {
    /// Length of the period.
    pub period_ns: u64,
    /// The reading that the rule looked at.
    pub reading: Reading,
    /// Requests of each core.
    pub per_core: Vec<u64>,
    /// The decision.
    pub decision: Decision,
}

/// Takes readings once a period and hands them on.
pub struct Throttling<M> {
    period: Duration,
    watched: Watched,
    cores: CoreRequests,
    mechanism: M,
    last: Instant,
    next: Instant,
}

impl<M: Mechanism> Throttling<M> {
    /// Starts the first period. Requests from before do not belong to it: the counters of the cores
    /// were opened earlier, and the start of the probe takes time.
    ///
    /// # Errors
    /// The period is out of range, the sum over the cores is watched where a latency is needed, or
    /// a counter cannot be read.
    pub fn new(
        period: Duration,
        rule: Rule,
        watched: Watched,
        mut cores: CoreRequests,
        mechanism: M,
    ) -> Result<Self, LinuxError> {
        if !PERIODS.contains(&period) {
            return Err(LinuxError::Input(format!(
                "a monitor period of {period:?} is too short or too long; choose 1 ms to 60 s"
            )));
        }
        match (rule, watched.unit()) {
            (Rule::Latency, Unit::Requests) => {
                return Err(LinuxError::Input(
                    "a count of requests has no latency; choose the rate rule, or --source probe"
                        .to_owned(),
                ));
            }
            (Rule::Rate, Unit::Nanoseconds) => {
                return Err(LinuxError::Input(
                    "the probe's own loads do not show the rate of the machine; choose counters, or the sum \
                        over the cores"
                        .to_owned(),
                ));
            }
            _ => {}
        }
        cores.read_each()?;
        let last = Instant::now();
        Ok(Self { period, watched, cores, mechanism, last, next: last + period })
    }

    /// The input of the rule.
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// End of the period.
    pub fn due(&self) -> Instant {
        self.next
    }

    /// The mechanism that throttles.
    pub fn mechanism(&mut self) -> &mut M {
        &mut self.mechanism
    }

    /// Ends the period now: readings, decision. The next one has its full length, even if this one
    /// ended late: a short period has few requests, which would look like relief.
    ///
    /// # Errors
    /// A source can no longer be read, or the mechanism is gone. There is no decision then.
    pub fn tick(&mut self) -> Result<Tick, LinuxError> {
        let per_core = self.cores.read_each()?;
        let reading = match &mut self.watched {
            Watched::Source(source) => source.read()?,
            Watched::Cores => {
                let requests = per_core.iter().copied().fold(0, u64::saturating_add);
                Reading { requests, ..Reading::default() }
            }
        };
        let now = Instant::now();
        let period_ns = u64::try_from((now - self.last).as_nanos()).unwrap_or(u64::MAX);
        (self.last, self.next) = (now, now + self.period);
        let decision = self.mechanism.monitor(reading.occupancy, reading.requests, &per_core)?;
        Ok(Tick { period_ns, reading, per_core, decision })
    }

    /// Waits for the end of each period and calls [`Self::tick`], until `stop` returns true (asked
    /// at least every 50 ms) or `each` breaks.
    ///
    /// # Errors
    /// As [`Self::tick`].
    pub fn run(
        &mut self,
        stop: impl Fn() -> bool,
        mut each: impl FnMut(&Tick) -> std::ops::ControlFlow<()>,
    ) -> Result<(), LinuxError> {
        const PATIENCE: Duration = Duration::from_millis(50);
        while !stop() {
            match self.next.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(PATIENCE)),
                _ => {
                    if each(&self.tick()?).is_break() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulate::event::Event;
    use std::ops::ControlFlow;

    const LATENCY: Settings = Settings { rule: Rule::Latency, threshold: 100, idle_per_mille: 500 };

    /// Readings that a test chooses.
    struct Script(Vec<(u64, u64)>, Unit);

    impl LatencySource for Script {
        fn read(&mut self) -> Result<Reading, LinuxError> {
            if self.0.is_empty() {
                return Err(LinuxError::Machine("no more; end".to_owned()));
            }
            let (occupancy, requests) = self.0.remove(0);
            Ok(Reading { occupancy, requests, dma_included: true, dropped: 0 })
        }

        fn unit(&self) -> Unit {
            self.1
        }

        fn about(&self) -> String {
            "a script".to_owned()
        }
    }

    /// Counters of no CPU need no privileges.
    fn none() -> CoreRequests {
        CoreRequests::open(&Event::find("page-faults", "").unwrap(), &[]).unwrap()
    }

    #[test]
    fn algorithm_1_by_hand() {
        // Four cores; threshold 100 clocks; throttling is reduced at half of the most requests.
        let mut policy = InProcess::new(4, &LATENCY).unwrap();
        let mut monitor = |occupancy, requests, per_core: [u64; 4]| {
            let d = policy.monitor(occupancy, requests, &per_core).unwrap();
            (d.contended, d.throttled, d.requests, d.most_requests)
        };
        assert_eq!(monitor(990, 10, [10, 20, 30, 40]), (false, 0, 100, 0), "99 clocks");
        assert_eq!(monitor(1000, 10, [10, 20, 30, 40]), (true, 1, 100, 100), "at the threshold");
        assert_eq!(monitor(5000, 10, [10, 20, 30, 60]), (true, 2, 120, 120));
        // Latency falls because of throttling, requests not yet: no core is released.
        assert_eq!(monitor(500, 10, [10, 20, 31, 0]), (false, 2, 61, 120));
        assert_eq!(monitor(500, 10, [10, 20, 30, 0]), (false, 1, 60, 120), "half of the most");
        assert_eq!(monitor(0, 0, [0; 4]), (false, 0, 0, 0), "without requests there is no latency");
    }

    #[test]
    fn who_waits_is_who_asks_most() {
        let mut policy = InProcess::new(3, &LATENCY).unwrap();
        policy.monitor(1000, 10, &[5, 500, 50]).unwrap();
        for core in 0..3 {
            policy.policy().ran(core, 1000);
        }
        let allowed: Vec<bool> = (0..3).map(|core| policy.policy().allowed(core)).collect();
        assert_eq!(allowed, [true, false, true]);
    }

    #[test]
    fn the_rate_rule_takes_requests() {
        let mut policy =
            InProcess::new(2, &Settings { rule: Rule::Rate, threshold: 1000, idle_per_mille: 800 })
                .unwrap();
        assert!(!policy.monitor(u64::MAX, 999, &[500, 499]).unwrap().contended);
        assert!(policy.monitor(0, 1000, &[500, 500]).unwrap().contended);
    }

    #[test]
    fn readings_reach_the_mechanism_once_a_period() {
        let script = Script(vec![(10, 1), (1000, 10), (0, 0)], Unit::Clocks);
        let mut driver = Throttling::new(
            Duration::from_millis(1),
            Rule::Latency,
            Watched::Source(Box::new(script)),
            none(),
            InProcess::new(2, &LATENCY).unwrap(),
        )
        .unwrap();
        let (due, begun) = (driver.due(), Instant::now());
        let mut seen = Vec::new();
        driver
            .run(
                || false,
                |tick| {
                    seen.push((tick.reading.requests, tick.decision.contended));
                    if seen.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                },
            )
            .unwrap();
        assert_eq!(seen, [(1, false), (10, true), (0, false)]);
        assert!(
            driver.due() >= due + Duration::from_millis(3)
                && begun.elapsed() >= Duration::from_millis(2)
        );
        assert!(driver.tick().is_err(), "a reading that fails decides nothing");
        assert_eq!(driver.mechanism().policy().throttled(), 0);
        driver.run(|| true, |_| panic!("stopped")).unwrap();
    }

    /// Fails when the first period has the requests from before its start, which would look like
    /// contention to the rate rule.
    #[test]
    fn the_first_period_counts_nothing_from_before_it() {
        let cpus = crate::host::machine::online_cpus().unwrap();
        let open = || CoreRequests::open(&Event::find("minor-faults", "").unwrap(), &cpus);
        let (mut all, cores) = match (open(), open()) {
            (Ok(all), Ok(cores)) => (all, cores),
            // Not every user may count on every CPU; the message says so.
            (Err(e), _) | (_, Err(e)) => return assert!(e.to_string().contains("run as root")),
        };
        // At least one fault for each huge page, whatever else happens on this machine.
        let mut memory = vec![0u8; 64 << 20];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&memory);
        let settings = Settings { rule: Rule::Rate, threshold: u64::MAX, idle_per_mille: 0 };
        let policy = InProcess::new(cpus.len(), &settings).unwrap();
        let period = Duration::from_secs(1);
        let mut driver =
            Throttling::new(period, Rule::Rate, Watched::Cores, cores, policy).unwrap();
        let first = driver.tick().unwrap().reading.requests;
        let since_open = all.read_each().unwrap().into_iter().sum::<u64>();
        assert!(since_open >= first + 32, "{first} of {since_open}");
    }

    #[test]
    fn the_sum_over_the_cores_is_a_rate() {
        let settings = Settings { rule: Rule::Rate, threshold: 1, idle_per_mille: 0 };
        let mechanism = || InProcess::new(1, &settings).unwrap();
        let mut driver = Throttling::new(
            Duration::from_secs(1),
            Rule::Rate,
            Watched::Cores,
            none(),
            mechanism(),
        )
        .unwrap();
        assert!(!driver.tick().unwrap().decision.contended, "no core, no requests");
        let refused = |period, rule, watched| {
            let error = Throttling::new(period, rule, watched, none(), mechanism())
                .err()
                .unwrap()
                .to_string();
            assert!(error.contains("; choose"), "{error}");
            error
        };
        let second = Duration::from_secs(1);
        assert!(refused(second, Rule::Latency, Watched::Cores).contains("no latency"));
        let counts = Watched::Source(Box::new(Script(vec![], Unit::Requests)));
        assert!(refused(second, Rule::Latency, counts).contains("no latency"));
        let probe = Watched::Source(Box::new(Script(vec![], Unit::Nanoseconds)));
        assert!(refused(second, Rule::Rate, probe).contains("own loads"));
        assert!(refused(Duration::ZERO, Rule::Rate, Watched::Cores).contains("1 ms"));
        assert!(refused(second * 61, Rule::Rate, Watched::Cores).contains("1 ms"));
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for (cores, threshold, idle) in
            [(0, 1, 0), (257, 1, 0), (2, 0, 0), (2, 1, 1001), (usize::MAX, 1, 0)]
        {
            let settings = Settings { rule: Rule::Latency, threshold, idle_per_mille: idle };
            let error = InProcess::new(cores, &settings).err().unwrap();
            assert!(matches!(&error, LinuxError::Input(t) if t.contains("; choose")), "{error}");
        }
    }
}
