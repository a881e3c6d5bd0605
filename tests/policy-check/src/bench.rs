//! How long a decision takes on the host. Events are prepared beforehand and applied by a loop in C
//! (`src/c/host.c`), so that no foreign call counts; the driver (choice of the operation, the
//! answer's six words) does, so what is printed is an upper bound. Caches are warm.

use crate::Event;
use crate::backend::host::{Driver, HostWorlds};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The median of so many runs is told.
const RUNS: usize = 15;
/// Calls in a run, about.
const CALLS: u64 = 100_000;
/// Cores of the worlds of memguard.
const CORES: u32 = 8;
/// What an overflow and a replenishment may take, in ns.
const TARGET_NS: f64 = 100.0;

/// Events of one round: those before, which are not measured, and those that are.
type Round = Box<dyn FnMut(u64) -> (Vec<Event>, Vec<Event>)>;

struct Case {
    mechanism: &'static str,
    what: String,
    /// At most so many ns a call.
    target: Option<f64>,
    /// Worlds side by side: makes a measured batch long enough for the clock.
    worlds: u32,
    /// Each is answered by a 1, or the case measures something else.
    setup: Vec<Event>,
    /// What each measured event answers, if one thing.
    verdict: Option<u64>,
    /// Events in what counts as one call.
    events_per_call: u32,
    round: Round,
}

/// Measures everything that has a driver, and prints a table, line by line.
pub fn run(print: &mut dyn FnMut(&str)) -> Result<(), String> {
    print(&format!("{:<16} {:<40} {:>9} {:>9}", "mechanism", "operation", "ns/call", "target"));
    for case in cases() {
        let name = format!("{:<16} {:<40}", case.mechanism, case.what);
        let Some(driver) = Driver::find(case.mechanism) else {
            print(&format!("{name} {:>9}", "no driver"));
            continue;
        };
        let target = case.target;
        let ns = median_ns(case, driver)?;
        let limit = target.map_or("-".into(), |t| format!("{t:.0}"));
        let verdict = if target.is_some_and(|t| ns > t) { "  ABOVE" } else { "" };
        print(&format!("{name} {ns:>9.1} {limit:>9}{verdict}"));
    }
    Ok(())
}

fn median_ns(mut case: Case, driver: Driver) -> Result<f64, String> {
    let mut worlds = driver.worlds(case.worlds);
    for event in &case.setup {
        if worlds.repeat(std::slice::from_ref(event)) != u64::from(case.worlds) {
            return Err(format!("{}, {}: the driver refuses {event:?}", case.mechanism, case.what));
        }
    }
    let mut number = 0;
    // The first run warms up.
    let mut runs = (0..=RUNS)
        .map(|_| one_run(&mut case, &mut worlds, &mut number))
        .collect::<Result<Vec<f64>, _>>()?;
    runs.remove(0);
    runs.sort_by(f64::total_cmp);
    Ok(runs[RUNS / 2])
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
fn one_run(case: &mut Case, worlds: &mut HostWorlds, number: &mut u64) -> Result<f64, String> {
    let (mut calls, mut time) = (0, Duration::ZERO);
    while calls < CALLS {
        let (before, measured) = (case.round)(*number);
        *number += 1;
        worlds.repeat(&before);
        let start = Instant::now();
        let sum = worlds.repeat(&measured);
        time += start.elapsed();
        let events = u64::from(case.worlds) * measured.len() as u64;
        if case.verdict.is_some_and(|v| sum != v * events) {
            return Err(format!("{}, {}: not the path that was meant", case.mechanism, case.what));
        }
        calls += events / u64::from(case.events_per_call);
    }
    Ok(time.as_nanos() as f64 / calls as f64)
}

fn cases() -> Vec<Case> {
    let mut cases = memguard();
    cases.extend([dynamic_budget(), sporadic_server()]);
    cases.extend([16, 256, 4096].map(vcpu));
    cases.extend([levels(), time_table(), heap()]);
    cases
}

fn event(op: u32) -> Event {
    Event { op, ..Event::default() }
}

/// One event for each core.
fn on_cores(of: impl Fn(u32) -> Event) -> Vec<Event> {
    (0..CORES).map(of).collect()
}

const PERIOD_NS: u64 = 1_000_000;
const RESERVED: u64 = 1_000;
const PREDICT: u64 = 2;
const RECLAIM: u64 = 4;

/// Eight cores with `reserved` accesses each and these flags.
fn memguard_setup(reserved: u64, flags: fn(u32) -> u64) -> Vec<Event> {
    let mut setup = vec![Event { a: PERIOD_NS, b: 64, d: u64::from(CORES), ..event(0) }];
    setup.extend(on_cores(|id| Event { id, a: reserved, b: reserved, c: flags(id), ..event(1) }));
    setup
}

fn replenish_all(round: u64) -> Vec<Event> {
    on_cores(|id| Event { id, now: (round + 1) * PERIOD_NS, ..event(3) })
}

fn memguard() -> Vec<Case> {
    let account = |id, accesses| Event { id, b: accesses, ..event(2) };
    let case = |what: &str, target, setup, verdict, round| Case {
        mechanism: "memguard",
        what: what.into(),
        target,
        worlds: 8,
        setup,
        verdict: Some(verdict),
        events_per_call: 1,
        round,
    };
    vec![
        case(
            "account, no overflow",
            None,
            memguard_setup(u64::from(u32::MAX), |_| 0),
            1,
            Box::new(move |round| (replenish_all(round), on_cores(|id| account(id, 1)))),
        ),
        case(
            "account, overflow",
            Some(TARGET_NS),
            memguard_setup(RESERVED, |_| 0),
            0,
            Box::new(move |round| (replenish_all(round), on_cores(|id| account(id, RESERVED)))),
        ),
        // The lower half makes no accesses, predicts none and gives up its budget; the upper half
        // takes it.
        case(
            "account, overflow, reclaims",
            Some(TARGET_NS),
            memguard_setup(RESERVED, |id| if id < CORES / 2 { PREDICT } else { RECLAIM }),
            1,
            Box::new(move |round| {
                // A prediction falls by a quarter in a period: forty periods bring it down to 1.
                let first = if round == 0 { 0 } else { round + 40 };
                let before = (first..=round + 40).flat_map(replenish_all).collect();
                (before, on_cores(|id| account(id, RESERVED)).split_off(CORES as usize / 2))
            }),
        ),
        case(
            "replenish",
            Some(TARGET_NS),
            memguard_setup(RESERVED, |id| if id < CORES / 2 { PREDICT } else { RECLAIM }),
            1,
            Box::new(move |round| (on_cores(|id| account(id, RESERVED)), replenish_all(round))),
        ),
    ]
}

/// One soft core and four hard cores with a task each, all started; no budget runs out.
fn dynamic_budget() -> Case {
    let mut setup = vec![event(0)];
    setup.extend((0..4).map(|id| Event {
        id,
        a: u64::from(id),
        b: u64::from(u32::MAX),
        c: 1 << 42,
        ..event(1)
    }));
    setup.extend((0..4).map(|id| Event { id, ..event(2) }));
    Case {
        mechanism: "dynamic_budget",
        what: "event, 4 hard cores".into(),
        target: Some(TARGET_NS),
        worlds: 1,
        setup,
        verdict: Some(1),
        events_per_call: 1,
        round: Box::new(|round| {
            (vec![], (0..64).map(|i| Event { now: round * 64 + i, a: 1, ..event(4) }).collect())
        }),
    }
}

/// Runs a sixteenth of its capacity sixteen times a period: each piece keeps a replenishment of its
/// own.
fn sporadic_server() -> Case {
    let now = |round| (round + 1) * 1_000;
    Case {
        mechanism: "sporadic_server",
        what: "charge, 16 replenishments".into(),
        target: None,
        worlds: 64,
        setup: vec![Event { a: 1_600, b: 16_000, d: 16, ..event(0) }],
        verdict: None,
        events_per_call: 1,
        round: Box::new(move |round| {
            let wake = Event { now: now(round), ..event(1) };
            (vec![wake], vec![Event { now: now(round) + 100, a: 100, ..event(2) }])
        }),
    }
}

/// So many runnable VCPUs that use 70 % of the core; about two ticks for each budget.
fn vcpu(count: u32) -> Case {
    let n = u64::from(count);
    let (period, capacity) = (100_000_000, 70_000_000 / n);
    let mut setup = vec![event(0)];
    setup.extend((0..count).map(|id| Event {
        id,
        a: capacity,
        b: period + u64::from(id),
        d: 16,
        ..event(1)
    }));
    let wake: Vec<Event> = (0..count).map(|id| Event { id, ..event(3) }).collect();
    Case {
        mechanism: "vcpu",
        what: format!("tick, {count} VCPUs"),
        target: None,
        worlds: 1,
        setup,
        verdict: None,
        events_per_call: 1,
        round: Box::new(move |round| {
            let tick = |i| Event { now: (round * 64 + i) * capacity / 2, ..event(5) };
            (if round == 0 { wake.clone() } else { vec![] }, (0..64).map(tick).collect())
        }),
    }
}

/// Four cores: 0 has a table and level B, 1 level B, 2 and 3 share 64 tasks of level C, of which
/// some are released again between the picks.
fn levels() -> Case {
    const LONG: u64 = 1 << 40;
    let task = |id, level, core| Event { id, a: level, b: core, c: LONG, d: LONG, ..event(1) };
    let mut setup = vec![Event { a: 4, ..event(0) }, task(0, 0, 0)];
    setup.extend((1..17).map(|id| task(id, 1, u64::from(id % 2))));
    setup.extend((17..81).map(|id| task(id, 2, 0)));
    setup.push(Event { id: 0, a: 0, b: 100_000, c: 0, d: 1_000_000, ..event(2) });
    setup.extend((0..81).map(|id| Event { id, ..event(3) }));
    Case {
        mechanism: "levels",
        what: "pick, 4 cores".into(),
        target: None,
        worlds: 1,
        setup,
        verdict: None,
        events_per_call: 1,
        round: Box::new(|round| {
            let now = round * 64_000;
            let again =
                (0..4).map(|i| Event { id: 17 + ((round % 16) as u32 * 4 + i), now, ..event(3) });
            (
                again.collect(),
                (0..64u32)
                    .map(|i| Event { id: i % 4, now: now + u64::from(i) * 1_000, ..event(5) })
                    .collect(),
            )
        }),
    }
}

/// Touches all of a full table.
fn time_table() -> Case {
    let mut setup = vec![Event { a: 40_960, ..event(0) }];
    setup.extend((0..4096).map(|i| Event { a: 10 * i, b: 10 * i + 5, c: i, ..event(1) }));
    let mut random = 1u64;
    Case {
        mechanism: "time_table",
        what: "lookup, 4096 entries".into(),
        target: None,
        worlds: 1,
        setup,
        verdict: None,
        events_per_call: 1,
        round: Box::new(move |_| {
            (vec![], (0..64).map(|_| Event { now: next(&mut random), ..event(2) }).collect())
        }),
    }
}

/// A full heap: the first leaves and comes back with a later key, as a timer would.
fn heap() -> Case {
    let mut random = 1u64;
    let mut entries: BTreeSet<(u64, u32)> = (0..4096).map(|id| (next(&mut random), id)).collect();
    let mut setup = vec![event(0)];
    setup.extend(entries.iter().map(|(key, id)| Event { id: *id, a: *key, ..event(1) }));
    let mut pair = move || {
        let (key, id) = entries.pop_first().expect("4096 entries");
        let later = key + next(&mut random);
        entries.insert((later, id));
        [event(3), Event { id, a: later, ..event(1) }]
    };
    Case {
        mechanism: "heap",
        what: "push + pop, 4096 entries".into(),
        target: None,
        worlds: 1,
        setup,
        verdict: Some(1),
        events_per_call: 2,
        round: Box::new(move |_| (vec![], (0..64).flat_map(|_| pair()).collect())),
    }
}

/// Below 2^31 (a linear congruential generator: nothing here needs a better one).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    /// A round of each case is what it says: setups are accepted, verdicts are those meant.
    #[test]
    fn the_cases_are_accepted() {
        for mut case in cases() {
            let Some(driver) = Driver::find(case.mechanism) else { continue };
            let mut worlds = driver.worlds(case.worlds);
            for event in &case.setup {
                assert_eq!(
                    worlds.repeat(std::slice::from_ref(event)),
                    u64::from(case.worlds),
                    "{event:?}"
                );
            }
            let (before, measured) = (case.round)(0);
            worlds.repeat(&before);
            let sum = worlds.repeat(&measured);
            let events = u64::from(case.worlds) * measured.len() as u64;
            assert!(
                case.verdict.is_none_or(|v| sum == v * events),
                "{} {}",
                case.mechanism,
                case.what
            );
        }
    }

    /// Whoever is asked for a task has one: none of the measured paths is that of an idle core.
    #[test]
    fn the_measured_schedulers_are_busy() {
        for mut case in [vcpu(16), levels()] {
            let Some(driver) = Driver::find(case.mechanism) else { continue };
            let mut world = driver.world();
            for event in &case.setup {
                world.apply(event);
            }
            for round in 0..3 {
                let (before, measured) = (case.round)(round);
                for event in &before {
                    world.apply(event);
                }
                let idle = measured
                    .iter()
                    .filter(|e| world.apply(e).word[0] == u64::from(u32::MAX))
                    .count();
                assert_eq!(idle, 0, "{} {}", case.mechanism, case.what);
            }
        }
    }

    /// The list of the measured server is full, once a period has gone by.
    #[test]
    fn the_measured_server_has_sixteen_replenishments() {
        let mut case = sporadic_server();
        let Some(driver) = Driver::find(case.mechanism) else { return };
        let mut world: Box<dyn World> = driver.world();
        world.apply(&case.setup[0]);
        let mut count = 0;
        for round in 0..40 {
            let (before, measured) = (case.round)(round);
            world.apply(&before[0]);
            count = world.apply(&measured[0]).word[2];
        }
        assert_eq!(count, 16);
    }
}
