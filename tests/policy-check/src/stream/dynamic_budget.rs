//! Random starts, ends and accesses of hard tasks on a few hard cores.

use super::heap::{Clock, Step, amount, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Names of the operations.
pub const OPERATIONS: Operations = &["init", "task", "started", "finished", "event", "entry"];

const UNLIMITED: u64 = u64::MAX;
const MAX_TASKS: u32 = 4096;
const MAX_TIME: u64 = 1 << 62;
const MAX_SPAN: u64 = 1 << 42;
const MAX_SAMPLE: u64 = 0x7fff_ffff;

/// Six tasks on up to three hard cores, with budgets of tens of accesses and lengths of hundreds of
/// ns.
fn set_up(config: &[u32; 8]) -> Vec<Event> {
    let now = if config[0].is_multiple_of(2) { 0 } else { u64::from(config[0]) };
    let mut events = Vec::new();
    if config[1].is_multiple_of(8) {
        events.push(Event { op: 2, now, ..Event::default() });
    }
    events.push(Event { now, ..Event::default() });
    for id in 0..6 {
        let mix = config[2].rotate_left(5 * id) ^ config[3].rotate_right(3 * id);
        let a = u64::from(mix % (1 + config[4] % 3));
        let b = 1 + u64::from(mix >> 8) % 60;
        let c = if mix % 64 == 63 { MAX_SPAN } else { 1 + u64::from(mix >> 16) % 400 };
        events.push(Event { op: 1, id, now, a, b, c, ..Event::default() });
    }
    events
}

fn define(step: &Step, event: Event) -> Event {
    let a = if step.x.is_multiple_of(16) {
        255 + u64::from(step.x >> 4) % 2
    } else {
        u64::from(step.x % 3)
    };
    let c = [1 + u64::from(step.delta % 300), 0, MAX_SPAN, MAX_SPAN + 1][(step.pace >> 6) as usize];
    Event { op: 1, a, b: amount(step, 40), c, ..event }
}

fn decode(step: &Step, clock: &mut Clock) -> Event {
    let id = match step.id {
        0..=249 => u32::from(step.id % 6),
        250..=252 => u32::from(step.id % 16),
        253 => 4095,
        254 => 4096,
        255 => step.x,
    };
    let event = Event { id, ..Event::default() };
    let report = Event { now: clock.next(step), a: amount(step, 10), ..event };
    match step.op {
        0..=49 => Event { op: 2, ..report },
        50..=94 => Event { op: 3, ..report },
        95..=214 => Event { op: 4, ..report },
        215..=239 => Event { op: 5, ..event },
        240..=252 => define(step, event),
        253 => Event { op: 0, ..report },
        254.. => Event { op: u32::from(step.size), ..report },
    }
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    let decode = |(config, steps): ([u32; 8], Vec<Step>)| {
        let mut events = set_up(&config);
        let mut clock =
            Clock::new(u64::from(config[0] % 2) * u64::from(config[0]), 60, config[5] % 16 == 15);
        events.extend(steps.iter().map(|step| decode(step, &mut clock)));
        events
    };
    steps(length).prop_map(decode).boxed()
}

/// What a budget has allowed so far.
#[derive(Clone, Copy)]
struct Spent {
    budget: u64,
    accesses: u64,
    left_ns: u64,
    finished: bool,
    /// Every access was reported by itself, and made while the core was told to go on for an
    /// unfinished task.
    one_by_one: bool,
}

/// Accesses per budget in force, counted up from the events.
#[derive(Default)]
struct Book {
    ready: bool,
    now: u64,
    went: bool,
    tasks: BTreeMap<u32, (u64, u64, u64)>,
    active: BTreeMap<(u64, u32), Spent>,
}

type Check = Result<(), &'static str>;

fn ensure(holds: bool, what: &'static str) -> Check {
    if holds { Ok(()) } else { Err(what) }
}

impl Book {
    /// The key of the head of each list: tasks are ordered by hard core, then priority.
    fn heads(&self) -> Vec<(u64, u32)> {
        let mut heads: Vec<(u64, u32)> = Vec::new();
        for &key in self.active.keys() {
            if heads.last().is_none_or(|last| last.0 != key.0) {
                heads.push(key);
            }
        }
        heads
    }

    /// Charges the heads, and what was in force behind one that expired unseen.
    fn pass(&mut self, event: &Event) {
        let now = event.now.min(MAX_TIME).max(self.now);
        let elapsed = now - self.now;
        self.now = now;
        for key in self.heads() {
            let Some(head) = self.active.get_mut(&key) else { continue };
            head.accesses = head.accesses.saturating_add(event.a);
            head.one_by_one &= event.a == 0 || (event.a == 1 && self.went && !head.finished);
            if elapsed < head.left_ns {
                head.left_ns -= elapsed;
                continue;
            }
            let late = elapsed > head.left_ns;
            self.active.remove(&key);
            let next = self.active.range_mut((key.0, 0)..=(key.0, u32::MAX)).next();
            if let Some((_, next)) = next.filter(|_| late) {
                next.accesses = next.accesses.saturating_add(event.a);
                next.one_by_one = false;
            }
        }
    }

    fn decision(&mut self, word: &[u64; 6]) -> Check {
        let &[verdict, limit, sample, timeout, ..] = word;
        let heads: Vec<Spent> = self.heads().iter().map(|key| self.active[key]).collect();
        ensure((1..=MAX_SAMPLE).contains(&sample), "a sample out of range")?;
        let spent = heads.iter().any(|head| !head.finished && head.accesses >= head.budget);
        ensure(
            (verdict == 0) == spent,
            "stopped, or not, though a budget in force is used up, or is not",
        )?;
        for head in heads.iter().filter(|head| !head.finished) {
            ensure(
                limit <= head.budget.saturating_sub(head.accesses),
                "more is allowed than a budget has left",
            )?;
        }
        if heads.iter().all(|head| head.finished) {
            ensure(limit == UNLIMITED, "a limit though no task that could suffer executes")?;
        }
        ensure(timeout > self.now, "a budget in force has expired")?;
        ensure(
            heads.is_empty() == (timeout == UNLIMITED),
            "a timeout of nothing, or none of a budget",
        )?;
        let over = heads.iter().any(|head| head.one_by_one && head.accesses > head.budget);
        ensure(!over, "accesses one by one, while told to go on, exceed a budget")?;
        self.went = verdict == 1;
        Ok(())
    }

    fn see(&mut self, event: &Event, word: &[u64; 6]) -> Check {
        if !self.ready {
            self.ready = event.op == 0 && word[0] == 1;
            self.now = event.now.min(MAX_TIME);
            return Ok(());
        }
        let task = self.tasks.get(&event.id).copied();
        match (event.op, task) {
            (1, _) if word[0] == 1 => {
                let active =
                    task.is_some_and(|(core, ..)| self.active.contains_key(&(core, event.id)));
                let moves = task.is_some_and(|(core, ..)| core != event.a);
                self.tasks.insert(event.id, (event.a, event.b, event.c));
                ensure(
                    !(active && moves),
                    "a task goes to another core while its budget is in force",
                )
            }
            (2, Some((core, budget, left_ns))) => {
                self.pass(event);
                self.active.insert(
                    (core, event.id),
                    Spent { budget, accesses: 0, left_ns, finished: false, one_by_one: true },
                );
                self.decision(word)
            }
            (3, _) if event.id < MAX_TASKS => {
                self.pass(event);
                if let Some(spent) =
                    task.and_then(|(core, ..)| self.active.get_mut(&(core, event.id)))
                {
                    spent.finished = true;
                }
                self.decision(word)
            }
            (4, _) => {
                self.pass(event);
                self.decision(word)
            }
            (5, Some((core, ..))) => {
                let active = self.active.contains_key(&(core, event.id));
                ensure(
                    (word[0] == 1) == active,
                    "a budget is in force too long, or not long enough",
                )
            }
            (2 | 3, None) => ensure(*word == [0; 6], "an undefined task"),
            _ => Ok(()),
        }
    }
}

/// From the start of a task to its expiry, accesses under its budget are at most the budget before
/// the core is told to stop, unless the task has finished; and the core is stopped for no other
/// reason.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut book = Book::default();
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        book.see(event, &answer.word)
            .map_err(|what| format!("event {at} {event:?}: {what}: {answer:?}"))?;
    }
    Ok(())
}
