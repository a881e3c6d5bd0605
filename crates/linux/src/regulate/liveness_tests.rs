//! The decision whether a CPU is regulated, on two CPUs with looks every 20 ms.

use super::attach::Pulse;
use super::history::Period;
use super::liveness::{Lapses, Liveness, Look, silent};
use crate::error::LinuxError;
use crate::host::cpu_time::CpuTime;

const MS: u64 = 1_000_000;

/// The way in which CPU 1 spends its time.
#[derive(Clone, Copy, PartialEq)]
enum Spends {
    Running,
    Resting,
    /// The kernel's books have nothing of it.
    Unbooked,
}

/// Two CPUs with periods of 1 ms. CPU 0 goes on.
struct Machine {
    liveness: Liveness,
    now_ns: u64,
    online: Vec<u32>,
    pulse: Pulse,
    spends: Spends,
    time: CpuTime,
}

impl Machine {
    fn new() -> Self {
        let pulse = Pulse { stands: true, ..Pulse::default() };
        let (liveness, spends) = (Liveness::new(MS), Spends::Running);
        let (now_ns, time) = (0, CpuTime::default());
        Self { liveness, now_ns, online: vec![0, 1], pulse, spends, time }
    }

    /// The same; the timer's count goes on, and no period ends.
    fn alive() -> Self {
        Self { pulse: Pulse::default(), ..Self::new() }
    }

    /// A look that finds this number of new periods on each CPU.
    fn look(&mut self, ended: [u64; 2]) -> Result<Vec<u32>, LinuxError> {
        self.look_after(20, ended)
    }

    /// The same after this time, ms.
    fn look_after(&mut self, ms: u64, ended: [u64; 2]) -> Result<Vec<u32>, LinuxError> {
        self.now_ns += ms * MS;
        // The books have hundredths of a second, each sum rounded down.
        let booked =
            (self.now_ns / (10 * MS)) * 10 * MS - (self.now_ns - ms * MS) / (10 * MS) * 10 * MS;
        match self.spends {
            Spends::Running => self.time.ran_ns += booked,
            Spends::Resting => self.time.rested_ns += booked,
            Spends::Unbooked => {}
        }
        let of = |cpu: u32, ended: u64| {
            let period = |back: u64| {
                let end_ns = self.now_ns - back * MS;
                Period { start_ns: end_ns - MS, end_ns, ..Period::default() }
            };
            (cpu, (0..ended).rev().map(period).collect(), 0)
        };
        let taken = [of(0, ended[0]), of(1, ended[1])];
        let (online, pulse) = (&self.online, &|_: u32| self.pulse);
        let (now_ns, time) = (self.now_ns, &|_: u32| Some(self.time));
        self.liveness.look(&Look { now_ns, online, taken: &taken, pulse, time })
    }

    /// Looks without a period of CPU 1 until its events are opened again, and their time, ms.
    fn until_again(&mut self) -> u64 {
        let since = self.now_ns;
        while self.look([20, 0]).unwrap().is_empty() {
            assert!(self.now_ns - since < 100_000 * MS, "never");
        }
        (self.now_ns - since) / MS
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
    assert_eq!((machine.liveness.lapses(0), machine.liveness.changes()), (Lapses::default(), 2));
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
    let mut machine = Machine::alive();
    for _ in 0..100 {
        for _ in 0..5 {
            assert!(machine.look([20, 0]).unwrap().is_empty());
        }
        machine.look([20, 1]).unwrap();
    }
    assert_eq!(machine.liveness.lapses(1), Lapses::default());
}

/// Fails when an idle CPU ends the run, or when one that runs again is unregulated for longer than
/// 100 ms and two looks.
#[test]
fn an_idle_cpu_needs_no_periods_and_one_that_runs_does() {
    for odd in [0, 7] {
        let mut machine = Machine::alive();
        machine.look([20, 20]).unwrap();
        machine.spends = Spends::Resting;
        // Two minutes; looks that come a little later or earlier find other roundings of the books.
        for number in 0..6000 {
            let ms = if number % 2 == 0 { 20 + odd } else { 20 - odd };
            assert!(machine.look_after(ms, [20, 0]).unwrap().is_empty());
        }
        assert_eq!(machine.liveness.lapses(1), Lapses::default());
        machine.spends = Spends::Running;
        let took = machine.until_again();
        assert!((100..=140).contains(&took), "{took} ms");
    }
}

/// Fails when a CPU that runs for a part of each look is taken for an idle one.
#[test]
fn moments_in_which_a_cpu_runs_add_up() {
    let mut machine = Machine::alive();
    machine.look([20, 20]).unwrap();
    let mut again = Vec::new();
    for number in 0..200 {
        machine.spends = if number % 4 == 0 { Spends::Running } else { Spends::Resting };
        again.extend(machine.look([20, 0]).unwrap());
    }
    // A second of 4 is run: 120 ms for each time that its events are opened.
    assert!((7..=9).contains(&again.len()), "{}", again.len());
}

/// Without its timer such a CPU would idle for ever, and its tasks would wait.
#[test]
fn a_cpu_that_is_stopped_for_its_budget_may_not_rest() {
    let mut machine = Machine::alive();
    machine.look([20, 20]).unwrap();
    machine.spends = Spends::Resting;
    machine.pulse.stopped = true;
    let took = machine.until_again();
    assert!((100..=140).contains(&took), "{took} ms");
}

#[test]
fn an_idle_cpu_without_its_events_is_not_excused() {
    let mut machine = Machine::new();
    machine.look([20, 20]).unwrap();
    machine.spends = Spends::Resting;
    assert_eq!(machine.look([20, 0]).unwrap(), [1]);
    let looks = (0..99).map_while(|_| machine.look([20, 0]).ok()).count();
    assert!((49..=52).contains(&looks), "a second: {looks} further looks");
}

#[test]
fn a_silent_cpu_is_kept_awake_after_a_while() {
    let mut machine = Machine::alive();
    machine.look([20, 20]).unwrap();
    machine.spends = Spends::Resting;
    let asleep = |machine: &Machine| machine.liveness.asleep(machine.now_ns);
    for _ in 0..25 {
        machine.look([20, 0]).unwrap();
        assert!(asleep(&machine).0.is_empty());
    }
    machine.look([20, 0]).unwrap();
    let (cpus, time) = asleep(&machine);
    assert_eq!(cpus, [1]);
    assert!(time.as_nanos() > u128::from(MS), "its timer comes within this time: {time:?}");
    machine.look([20, 1]).unwrap();
    assert!(asleep(&machine).0.is_empty(), "its timer came");
    for _ in 0..60 {
        machine.online = vec![0];
        machine.look([20, 0]).unwrap();
    }
    assert!(asleep(&machine).0.is_empty(), "nothing runs on a CPU that is offline");
}

#[test]
fn a_counter_in_error_is_opened_again_at_the_first_look() {
    for sick in [Pulse { error: true, ..Pulse::default() }, Pulse { unread: 7, ..Pulse::default() }]
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

/// Also when the CPU computes: each attempt has a look of its own.
#[test]
fn events_that_stay_dead_end_the_run_after_a_second_of_attempts() {
    let mut machine = Machine::new();
    machine.look([20, 20]).unwrap();
    let mut tries = 0;
    let error = loop {
        match machine.look([20, 0]) {
            Ok(again) => tries += again.len(),
            Err(error) => break error.to_string(),
        }
    };
    assert!((50..=53).contains(&tries), "{tries} attempts");
    assert!(error.contains("CPU 1 is regulated no longer"), "{error}");
    assert!(machine.liveness.lapses(1).now);
}

#[test]
fn silence_of_a_cpu_that_runs_ends_the_run_after_ten_attempts() {
    let mut machine = Machine::alive();
    let mut tries = 0;
    while let Ok(again) = machine.look([20, 0]) {
        tries += again.len();
    }
    assert_eq!(tries, 10);
    let took = machine.now_ns / MS;
    assert!((1200..1500).contains(&took), "{took} ms");
}

/// Fails when slow looks count for the time between them: a host that is busy would end runs.
#[test]
fn late_looks_count_for_little() {
    let mut machine = Machine::new();
    machine.look([20, 20]).unwrap();
    machine.spends = Spends::Unbooked;
    // A minute on the clock, and 0.8 s of attempts.
    for _ in 0..20 {
        assert_eq!(machine.look_after(3000, [1, 0]).unwrap(), [1]);
    }
    machine.online = vec![0];
    for _ in 0..20 {
        assert!(machine.look_after(3000, [1, 0]).unwrap().is_empty());
    }
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
    let looks = (0..199).map_while(|_| machine.look([20, 0]).ok()).count();
    assert!((89..=92).contains(&looks), "two seconds: {looks} further looks");
    let error = machine.look([20, 0]).unwrap_err().to_string();
    assert!(error.contains("CPU 1 went offline"), "{error}");
}

#[test]
fn a_machine_that_stands_still_as_a_whole_is_not_blamed() {
    let mut machine = Machine::alive();
    machine.look([1, 1]).unwrap();
    machine.spends = Spends::Unbooked;
    for _ in 0..90 {
        assert!(machine.look([0, 0]).unwrap().is_empty());
    }
    // A CPU that keeps no books any more is not left alone for ever.
    let took = machine.until_again();
    assert!(took < 1000, "{took} ms");
}
