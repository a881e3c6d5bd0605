//! Random periods of up to eight cores under MemGuard.

use super::heap::{Clock, Step, amount, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;

/// Names of the operations.
pub const OPERATIONS: Operations =
    &["init", "core", "account", "replenish", "resume", "request", "state"];

const UNLIMITED: u64 = u64::MAX;
const MAX_ACCESSES: u64 = 0xffff_ffff;
const MAX_SPAN: u64 = 1 << 42;
const MAX_TIME: u64 = 1 << 62;
const MAX_SAMPLE: u64 = 0x7fff_ffff;
const HARD: u64 = 1;
const PREDICT: u64 = 2;
const SPARE: u64 = 1;

/// A reservation of a core: small ones are soon used up, and then by all.
fn reservation(x: u32) -> u64 {
    match x % 32 {
        0..=23 => 1 + u64::from(x / 32 % 60),
        24..=28 => 1 + u64::from(x / 32 % 1000),
        29 => UNLIMITED,
        30 => MAX_ACCESSES - u64::from(x / 32 % 2),
        _ => 1,
    }
}

/// The beginning: init, sometimes after one that is refused, and the cores, at the same time.
fn set_up(config: &[u32; 8]) -> (Vec<Event>, u64, u32) {
    let period = match config[0] % 16 {
        0..=11 => 1000,
        12 => 1,
        13 => MAX_SPAN,
        _ => 1 + u64::from(config[0] / 16),
    };
    let chunk =
        [1, 10, 5, 3, 1 + u64::from(config[1]), 20, 2, MAX_ACCESSES][config[1] as usize % 8];
    let cores = 1 + config[2] % 8;
    let now = if config[3].is_multiple_of(4) { 0 } else { u64::from(config[3]) };
    let init = Event {
        now,
        a: period,
        b: chunk,
        c: u64::from(config[4] % 3),
        d: u64::from(cores),
        ..Event::default()
    };
    let mut events = Vec::new();
    match config[5] % 16 {
        0 => events.push(Event { a: 0, ..init }),
        1 => events.push(Event { b: 0, ..init }),
        2 => events.push(Event { c: 3, ..init }),
        3 => events.push(Event { d: 0, ..init }),
        4 => events.push(Event { d: 9, ..init }),
        5 => events.push(Event { a: MAX_SPAN + 1, ..init }),
        6 => events.push(Event { op: 3, now, ..Event::default() }),
        7 => events.push(Event { b: MAX_ACCESSES + 1 + u64::from(config[1]), ..init }),
        _ => {}
    }
    events.push(init);
    for id in 0..cores {
        let mix = config[6].rotate_left(4 * id) ^ config[7].rotate_right(5 * id);
        // In most worlds the writes are not limited.
        let writes = if config[5] % 64 < 40 { UNLIMITED } else { reservation(mix >> 7) };
        let reads = reservation(mix);
        let flags = u64::from(mix >> 13) % 8;
        events.push(Event { op: 1, id, now, a: reads, b: writes, c: flags, ..Event::default() });
    }
    (events, period, cores)
}

/// The events of a step: one, or one per core at the same time.
fn decode(step: &Step, clock: &mut Clock, cores: u32, events: &mut Vec<Event>) {
    let id = match step.id {
        254 => cores,
        255 => step.delta,
        id => u32::from(id) % cores,
    };
    let kind = match step.pace % 64 {
        0..=49 => 0,
        50..=62 => 1,
        _ => u64::from(step.delta % 4),
    };
    let event = Event { id, ..Event::default() };
    match step.op {
        0..=169 => events.push(Event { op: 2, a: kind, b: amount(step, 30), ..event }),
        170..=189 => events.push(Event { op: 3, now: clock.next(step), ..event }),
        190..=207 => {
            let now = clock.next(step);
            events.extend((0..cores).map(|id| Event { op: 3, id, now, ..Event::default() }));
        }
        208..=217 => events.push(Event { op: 4, ..event }),
        218..=227 => events.extend((0..cores).map(|id| Event { op: 4, id, ..Event::default() })),
        228..=237 => {
            let q = if step.size < 224 { reservation(step.x) } else { amount(step, 30) };
            events.push(Event { op: 5, a: kind, b: q, ..event });
        }
        238..=252 => events.push(Event { op: 6, ..event }),
        253 => {
            let (a, b) = (reservation(step.x), amount(step, 30));
            events.push(Event {
                op: 1,
                now: clock.next(step),
                a,
                b,
                c: u64::from(step.delta % 9),
                ..event
            });
        }
        254 => events.push(Event { op: 0, a: 1000, b: 1, d: 1, ..event }),
        255 => events.push(Event { op: u32::from(step.size), ..event }),
    }
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    // Steps for all cores make about 1.7 events of a step.
    let decode = |(config, steps): ([u32; 8], Vec<Step>)| {
        let (mut events, period, cores) = set_up(&config);
        let mut clock = Clock::new(events[0].now, period / 2, config[1] % 16 == 15);
        for step in &steps {
            decode(step, &mut clock, cores, &mut events);
        }
        events
    };
    steps(length * 3 / 5).prop_map(decode).boxed()
}

/// What the answers have told of a core.
#[derive(Clone, Default)]
struct ToldBudgetCore {
    flags: u64,
    q: [u64; 2],
    request: [Option<u64>; 2],
    used: [u64; 2],
    budget: [u64; 2],
    next_ns: u64,
    epoch: u64,
    round: u64,
    throttled: bool,
}

/// What the answers have told of all.
#[derive(Default)]
struct Book {
    period: u64,
    sharing: u64,
    count: u64,
    core: Vec<Option<ToldBudgetCore>>,
    /// The last period in which a round was completed.
    shared_in: Option<u64>,
    /// Epochs have gone so far apart that 32-bit numbers cannot tell which is older.
    apart: bool,
}

type Check = Result<(), &'static str>;

fn ensure(holds: bool, what: &'static str) -> Check {
    if holds { Ok(()) } else { Err(what) }
}

impl Book {
    fn add(&mut self, event: &Event) {
        let q = [event.a, event.b];
        let next_ns = event.now.min(MAX_TIME) + self.period;
        self.core[event.id as usize] = Some(ToldBudgetCore {
            flags: event.c,
            q,
            budget: q,
            next_ns,
            ..ToldBudgetCore::default()
        });
    }

    fn account(&mut self, event: &Event, word: &[u64; 6]) -> Check {
        let &[verdict, sample, used, budget, throttled, _] = word;
        let Some(core) = &mut self.core[event.id as usize] else { return Ok(()) };
        let k = event.a as usize;
        let before = core.used[k];
        let regulated = core.q[k] != UNLIMITED && !(self.sharing == SPARE && core.round > 0);
        ensure((1..=MAX_SAMPLE).contains(&sample), "a sample out of range")?;
        ensure(used == before.saturating_add(event.b), "accesses are lost")?;
        ensure(budget >= core.budget[k], "a budget shrinks within a period")?;
        if regulated {
            ensure(core.throttled || before < core.budget[k], "a core goes on over its budget")?;
            if verdict == 1 {
                ensure(used < budget, "told to go on with nothing left")?;
                ensure(sample <= budget - used, "the sample is beyond the budget")?;
            }
        } else if !core.throttled {
            ensure(verdict == 1, "stopped by a kind that has no limit")?;
        }
        if throttled == 1 && !core.throttled && core.flags & HARD != 0 {
            ensure(used >= core.q[k], "a hard core is stopped before it had its reservation")?;
        }
        ensure(!core.throttled || verdict == 0, "a stopped core goes on within the period")?;
        if verdict == 2 {
            ensure(self.sharing != 0, "a round is completed though nothing is shared")?;
            core.round += 1;
            self.shared_in = Some(core.epoch);
        }
        core.used[k] = used;
        core.budget[k] = budget;
        core.throttled = throttled == 1;
        if verdict == 2 && self.sharing != SPARE {
            let other = 1 - k;
            core.budget[other] = if core.q[other] == UNLIMITED {
                UNLIMITED
            } else {
                core.budget[other] + core.q[other]
            };
        }
        Ok(())
    }

    fn replenish(&mut self, event: &Event, word: &[u64; 6]) -> Check {
        let &[began, was_throttled, reads, writes, next_ns, _] = word;
        let (now, period) = (event.now.min(MAX_TIME), self.period);
        let Some(core) = &mut self.core[event.id as usize] else { return Ok(()) };
        ensure((began == 1) == (now >= core.next_ns), "a period begins at a wrong time")?;
        ensure(next_ns > now, "the next period is not in the future")?;
        ensure(began == 1 || next_ns == core.next_ns, "the next period moves")?;
        if began == 1 {
            ensure(
                (next_ns - core.next_ns).is_multiple_of(period) && next_ns - now <= period,
                "periods drift",
            )?;
            ensure(
                was_throttled == u64::from(core.throttled),
                "a stopped core is not told, or one that ran is",
            )?;
            let begun = (next_ns - core.next_ns) / period;
            core.epoch += begun;
            // The pool's own number is left behind as well.
            self.apart |= begun >= 1 << 31;
            core.next_ns = next_ns;
            core.round = 0;
            core.throttled = false;
            core.used = [0, 0];
            core.budget = [reads, writes];
            for k in 0..2 {
                core.q[k] = core.request[k].take().unwrap_or(core.q[k]);
                let full =
                    core.flags & HARD != 0 || core.flags & PREDICT == 0 || core.q[k] == UNLIMITED;
                let fits = if full {
                    core.budget[k] == core.q[k]
                } else {
                    (1..=core.q[k]).contains(&core.budget[k])
                };
                ensure(fits, "a wrong budget at the start of a period")?;
            }
        }
        self.conserved(word[5])
    }

    /// With all cores in the same period and nothing lost: what was granted and what is in the pool
    /// is what was reserved.
    fn conserved(&mut self, pool: u64) -> Check {
        let cores: Vec<&ToldBudgetCore> = self.core.iter().flatten().collect();
        let newest = cores.iter().map(|core| core.epoch).max().unwrap_or(0);
        let oldest = cores.iter().map(|core| core.epoch).min().unwrap_or(0);
        self.apart |= newest - oldest >= 1 << 31;
        if self.apart || newest != oldest || self.shared_in == Some(newest) {
            return Ok(());
        }
        for (k, pool) in [pool >> 32, pool & 0xffff_ffff].into_iter().enumerate() {
            let limited = || cores.iter().filter(|core| core.q[k] != UNLIMITED);
            let reserved: u128 = limited().map(|core| u128::from(core.q[k])).sum();
            let granted: u128 = limited().map(|core| u128::from(core.budget[k])).sum();
            // A pool that is full loses; and one that no core has touched since is of an old
            // period.
            if reserved <= u128::from(MAX_ACCESSES) && limited().next().is_some() {
                ensure(granted + u128::from(pool) == reserved, "budgets are not conserved")?;
            }
        }
        Ok(())
    }

    fn resume(&mut self, event: &Event, word: &[u64; 6]) -> Check {
        let &[verdict, reads, writes, round, ..] = word;
        let Some(core) = &mut self.core[event.id as usize] else { return Ok(()) };
        ensure(
            (1..=MAX_SAMPLE).contains(&reads) && (1..=MAX_SAMPLE).contains(&writes),
            "a sample out of range",
        )?;
        ensure(round >= core.round, "a round ends")?;
        if round > core.round && self.sharing != SPARE {
            for k in 0..2 {
                let more = core.q[k] * (round - core.round);
                core.budget[k] =
                    if core.q[k] == UNLIMITED { UNLIMITED } else { core.budget[k] + more };
            }
        }
        core.round = round;
        core.throttled = verdict == 0;
        Ok(())
    }

    fn state(&self, event: &Event, word: &[u64; 6]) -> Check {
        let Some(core) = &self.core[event.id as usize] else { return Ok(()) };
        ensure(word[..2] == core.used, "the state says other accesses")?;
        ensure(word[2..4] == core.budget, "the state says other budgets")
    }

    fn see(&mut self, event: &Event, word: &[u64; 6]) -> Check {
        if self.count == 0 {
            if event.op == 0 && word[0] == 1 {
                (self.period, self.sharing, self.count) = (event.a, event.c, event.d);
                self.core = vec![None; event.d as usize];
            }
            return Ok(());
        }
        if u64::from(event.id) >= self.count {
            return ensure(*word == [0; 6], "there is no such core");
        }
        match event.op {
            1 if word[0] == 1 => self.add(event),
            2 if event.a <= 1 => self.account(event, word)?,
            3 => self.replenish(event, word)?,
            4 => self.resume(event, word)?,
            5 if word[0] == 1 => {
                if let Some(core) = &mut self.core[event.id as usize] {
                    core.request[event.a as usize] = Some(event.b);
                }
            }
            6 => self.state(event, word)?,
            _ => {}
        }
        let throttled = self.core.iter().flatten().filter(|core| core.throttled).count() as u64;
        ensure(throttled <= self.count, "more cores are stopped than there are")
    }
}

/// Budgets are conserved within a period, no core overruns its budget by more than the accesses of
/// one report, a hard core has its reservation before it is stopped, and periods neither drift nor
/// begin early.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut book = Book::default();
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        book.see(event, &answer.word)
            .map_err(|what| format!("event {at} {event:?}: {what}: {answer:?}"))?;
    }
    Ok(())
}
