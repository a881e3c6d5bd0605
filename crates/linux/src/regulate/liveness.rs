//! Keeps every regulated CPU regulated.
//!
//! Problem: a CPU loses its timer and counter when it is taken offline, also for a moment, when the
//! machine sleeps, or when the kernel puts a pinned counter in error. No message says so, and the
//! CPU would be unregulated for the rest of the run. Rule: periods of each CPU must go on. Where
//! none has ended since the last look, the CPU's events are examined. They are opened again if the
//! timer stands still, if the counter cannot be read, or if the CPU was offline. As a last resort
//! they are opened after [`PATIENCE`], ten periods, and ten looks with progress of another CPU (if
//! there is one). The run ends if that does not help within the same time, or if a CPU stays away
//! for [`AWAY`]. Each such time is a lapse: it is counted, from the last period before it to the
//! first one after it.
//! Does not cover: CPUs without a budget.

use crate::error::LinuxError;
use crate::regulate::attach::Pulse;
use crate::regulate::history::Taken;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_millis(500);
const AWAY: Duration = Duration::from_secs(1);
const LOOKS: u32 = 10;

/// The state of the machine's CPUs at a look.
pub(crate) struct Look<'a> {
    /// Time by `CLOCK_MONOTONIC`.
    pub now_ns: u64,
    /// CPUs that are online.
    pub online: &'a [u32],
    /// The periods that have ended since the last look, by CPU.
    pub taken: &'a [Taken],
    /// Signs of life of a CPU's events.
    pub pulse: &'a dyn Fn(u32) -> Pulse,
}

/// The CPUs that are online and have ended no period since the last look: their events are asked
/// for signs of life, all at once.
pub(crate) fn silent(taken: &[Taken], online: &[u32]) -> Vec<u32> {
    let silent = |taken: &&Taken| !progress(taken) && online.contains(&taken.0);
    taken.iter().filter(silent).map(|taken| taken.0).collect()
}

/// Whether a period has ended.
fn progress((_, periods, lost): &Taken) -> bool {
    !periods.is_empty() || *lost > 0
}

/// The times without regulation of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lapses {
    /// Number of them, with one that goes on.
    pub times: u64,
    /// The longest one that has ended.
    pub longest_ns: u64,
    /// The CPU is not regulated now.
    pub now: bool,
    /// It is offline since this time, as far as was seen.
    pub away_ns: Option<u64>,
}

/// The progress of each CPU.
#[derive(Debug)]
pub(crate) struct Liveness {
    patience_ns: u64,
    cpus: BTreeMap<u32, Cpu>,
    /// Beginnings and ends of lapses.
    changes: u64,
}

#[derive(Debug)]
struct Cpu {
    lapses: Lapses,
    /// End of the latest period.
    ended_ns: u64,
    /// Time of the last look with progress, or at which a CPU was back.
    since_ns: u64,
    /// Looks since then in which another CPU made progress.
    looks: u32,
    /// Its events were opened again since then.
    tried: bool,
    /// Ticks so far at which the counter could not be read.
    unread: u64,
}

impl Liveness {
    /// For regulation with this period.
    pub fn new(period_ns: u64) -> Self {
        let patience = PATIENCE.max(Duration::from_nanos(period_ns.saturating_mul(10)));
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        Self { patience_ns, cpus: BTreeMap::new(), changes: 0 }
    }

    /// The lapses of a CPU.
    pub fn lapses(&self, cpu: u32) -> Lapses {
        self.cpus.get(&cpu).map_or_else(Lapses::default, |cpu| cpu.lapses)
    }

    /// Beginnings and ends of lapses so far, of all CPUs.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Looks at the regulated CPUs. Returns the ones whose events are to be opened again.
    ///
    /// # Errors
    /// A CPU is no longer regulated.
    pub fn look(&mut self, look: &Look<'_>) -> Result<Vec<u32>, LinuxError> {
        let went_on = look.taken.len() == 1 || look.taken.iter().any(progress);
        let mut again = Vec::new();
        for taken in look.taken {
            let number = taken.0;
            let cpu = self.cpus.entry(number).or_insert_with(|| Cpu::new(look.now_ns));
            let before = cpu.lapses;
            if progress(taken) {
                cpu.goes_on(taken, look.now_ns);
            } else if cpu.needs_events(number, look, went_on, self.patience_ns)? {
                again.push(number);
            }
            self.changes += u64::from(before.now != cpu.lapses.now);
        }
        Ok(again)
    }
}

impl Cpu {
    fn new(now_ns: u64) -> Self {
        Self {
            lapses: Lapses::default(),
            ended_ns: now_ns,
            since_ns: now_ns,
            looks: 0,
            tried: false,
            unread: 0,
        }
    }

    fn goes_on(&mut self, (_, periods, _): &Taken, now_ns: u64) {
        if self.lapses.now {
            let again_ns = periods.first().map_or(now_ns, |p| p.start_ns);
            let lapse = again_ns.saturating_sub(self.ended_ns);
            self.lapses.longest_ns = self.lapses.longest_ns.max(lapse);
            self.lapses.now = false;
        }
        self.ended_ns = periods.last().map_or(now_ns, |p| p.end_ns);
        (self.since_ns, self.looks) = (now_ns, 0);
        (self.lapses.away_ns, self.tried) = (None, false);
    }

    fn lapse(&mut self) {
        self.lapses.times += u64::from(!self.lapses.now);
        self.lapses.now = true;
    }

    /// Whether a CPU without a new period needs its events opened again.
    fn needs_events(
        &mut self,
        number: u32,
        look: &Look<'_>,
        went_on: bool,
        patience_ns: u64,
    ) -> Result<bool, LinuxError> {
        if !look.online.contains(&number) {
            self.lapse();
            let away_ns = *self.lapses.away_ns.get_or_insert(look.now_ns);
            if u128::from(look.now_ns.saturating_sub(away_ns)) > AWAY.as_nanos() {
                return Err(LinuxError::Machine(format!(
                    "CPU {number} went offline and has not come back for {} ms; tasks go on \
                        unregulated, start solocore again when the CPUs are as planned",
                    AWAY.as_millis()
                )));
            }
            return Ok(false);
        }
        if self.lapses.away_ns.take().is_some() {
            (self.since_ns, self.looks) = (look.now_ns, 0);
            self.tried = true;
            return Ok(true);
        }
        self.looks += u32::from(went_on);
        let silent_ns = look.now_ns.saturating_sub(self.since_ns);
        let hopeless = self.looks > LOOKS && silent_ns > patience_ns;
        if hopeless && self.tried {
            return Err(LinuxError::Machine(format!(
                "CPU {number} is regulated no longer: its timer has not come for {} ms, and \
                opening its events again did not help; start solocore again",
                silent_ns / 1_000_000
            )));
        }
        let dead = self.dead((look.pulse)(number));
        if dead || hopeless {
            self.lapse();
            if hopeless {
                (self.since_ns, self.looks) = (look.now_ns, 0);
            }
            self.tried = true;
        }
        Ok(dead || hopeless)
    }

    /// Whether the events work no longer, by their signs of life.
    fn dead(&mut self, pulse: Pulse) -> bool {
        let unread = pulse.unread > self.unread;
        self.unread = pulse.unread;
        pulse.stands || unread || pulse.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulate::history::Period;

    const MS: u64 = 1_000_000;

    /// Two CPUs with periods of 1 ms; looks come every 20 ms.
    struct Machine {
        liveness: Liveness,
        now_ns: u64,
        online: Vec<u32>,
        /// Of CPU 1; CPU 0 goes on.
        pulse: Pulse,
    }

    impl Machine {
        fn new() -> Self {
            let pulse = Pulse { stands: true, ..Pulse::default() };
            Self { liveness: Liveness::new(MS), now_ns: 0, online: vec![0, 1], pulse }
        }

        /// A look that finds this number of new periods on each CPU.
        fn look(&mut self, ended: [u64; 2]) -> Result<Vec<u32>, LinuxError> {
            self.now_ns += 20 * MS;
            let of = |cpu: u32, ended: u64| {
                let period = |back: u64| {
                    let end_ns = self.now_ns - back * MS;
                    Period { start_ns: end_ns - MS, end_ns, ..Period::default() }
                };
                (cpu, (0..ended).rev().map(period).collect(), 0)
            };
            let taken = [of(0, ended[0]), of(1, ended[1])];
            let (online, pulse) = (&self.online, &|_: u32| self.pulse);
            let now_ns = self.now_ns;
            self.liveness.look(&Look { now_ns, online, taken: &taken, pulse })
        }
    }

    #[test]
    fn a_timer_that_stands_still_is_opened_again() {
        let mut machine = Machine::new();
        assert!(machine.look([20, 20]).unwrap().is_empty());
        assert_eq!(machine.look([20, 0]).unwrap(), [1]);
        assert!(machine.liveness.lapses(1).now);
        // The periods go on 10 ms before the look: 30 ms after the last one.
        assert!(machine.look([20, 10]).unwrap().is_empty());
        let lapses = Lapses { times: 1, longest_ns: 30 * MS, ..Lapses::default() };
        assert_eq!(machine.liveness.lapses(1), lapses);
        assert_eq!(
            (machine.liveness.lapses(0), machine.liveness.changes()),
            (Lapses::default(), 2)
        );
    }

    /// A CPU that is missing here would never be opened again; one too many costs a wait.
    #[test]
    fn cpus_without_a_new_period_are_asked_together() {
        let period = || vec![Period::default()];
        let taken = [(0, period(), 0), (1, Vec::new(), 0), (2, Vec::new(), 3), (3, Vec::new(), 0)];
        assert_eq!(silent(&taken, &[0, 1, 2, 3]), [1, 3]);
        assert_eq!(silent(&taken, &[0, 1, 2]), [1]);
    }

    #[test]
    fn a_timer_that_goes_on_is_left_alone() {
        let mut machine = Machine::new();
        machine.pulse.stands = false;
        for _ in 0..10 {
            assert!(machine.look([20, 0]).unwrap().is_empty());
        }
        assert_eq!(machine.liveness.lapses(1), Lapses::default());
    }

    #[test]
    fn a_counter_in_error_is_opened_again_at_the_first_look() {
        for sick in
            [Pulse { error: true, ..Pulse::default() }, Pulse { unread: 7, ..Pulse::default() }]
        {
            let mut machine = Machine::new();
            machine.look([20, 20]).unwrap();
            machine.pulse = sick;
            assert_eq!(machine.look([20, 0]).unwrap(), [1]);
            // What could not be read before is not a sign of a failure now.
            machine.pulse = Pulse { error: false, ..sick };
            assert!(machine.look([20, 0]).unwrap().is_empty());
        }
    }

    #[test]
    fn events_that_stay_dead_end_the_run() {
        let mut machine = Machine::new();
        machine.look([20, 20]).unwrap();
        let looks = (0..40).map_while(|_| machine.look([20, 0]).ok()).count();
        assert!((25..=27).contains(&looks), "500 ms: {looks} looks");
        let error = machine.look([20, 0]).unwrap_err().to_string();
        assert!(error.contains("CPU 1 is regulated no longer"), "{error}");
        assert!(machine.liveness.lapses(1).now);
    }

    #[test]
    fn silence_alone_has_the_events_opened_once() {
        let mut machine = Machine::new();
        let mut again = 0;
        machine.pulse.stands = false;
        for _ in 0..60 {
            match machine.look([20, 0]) {
                Ok(cpus) => again += cpus.len(),
                Err(_) => break,
            }
        }
        assert_eq!(again, 1);
        assert!(machine.now_ns > 1000 * MS && machine.now_ns < 1100 * MS, "{}", machine.now_ns);
    }

    #[test]
    fn a_cpu_that_comes_back_gets_its_events_and_one_that_stays_away_ends_the_run() {
        let mut machine = Machine::new();
        machine.look([20, 20]).unwrap();
        for back in [true, false] {
            machine.online = vec![0];
            for _ in 0..10 {
                assert!(machine.look([20, 0]).unwrap().is_empty());
            }
            if back {
                machine.online = vec![0, 1];
                assert_eq!(machine.look([20, 0]).unwrap(), [1]);
                machine.look([20, 20]).unwrap();
                assert_eq!(machine.liveness.lapses(1).longest_ns, 220 * MS);
            }
        }
        assert_eq!(machine.liveness.lapses(1).times, 2);
        let looks = (0..99).map_while(|_| machine.look([20, 0]).ok()).count();
        assert!((40..=42).contains(&looks), "a second: {looks} further looks");
        let error = machine.look([20, 0]).unwrap_err().to_string();
        assert!(error.contains("CPU 1 went offline"), "{error}");
    }

    #[test]
    fn a_machine_that_stands_still_as_a_whole_is_not_blamed() {
        let mut machine = Machine::new();
        machine.look([1, 1]).unwrap();
        machine.pulse.stands = false;
        for _ in 0..100 {
            assert!(machine.look([0, 0]).unwrap().is_empty());
        }
    }
}
