//! Random tasks that take bandwidth locks, and cores that run them.

use super::heap::{Clock, Step, amount, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Names of the operations.
pub const OPERATIONS: Operations =
    &["init", "task", "lock", "unlock", "switch", "account", "tick", "update", "exit", "limit"];

const NONE: u64 = 0xffff_ffff;
const UNLIMITED: u64 = u64::MAX;
const MAX_SPAN: u64 = 1 << 42;
const MAX_SAMPLE: u64 = 0x7fff_ffff;

/// The beginning: init, sometimes after one that is refused, and eight tasks, every other one
/// real-time.
fn set_up(config: &[u32; 8]) -> (Vec<Event>, u64) {
    let period = match config[0] % 16 {
        0..=11 => 1000,
        12 => 1,
        13 => MAX_SPAN,
        _ => 1 + u64::from(config[0] / 16),
    };
    let max = [100, UNLIMITED, 20, 1, 0xffff_ffff, 60, 200, 1 + u64::from(config[1])]
        [config[1] as usize % 8];
    let min = (1 + u64::from(config[2] % 40)).min(max);
    let cores = 1 + u64::from(config[3] % 8);
    let now = if config[4].is_multiple_of(2) { 0 } else { u64::from(config[4]) };
    let init = Event { now, a: period, b: max, c: min, d: cores, ..Event::default() };
    let mut events = Vec::new();
    match config[5] % 16 {
        0 => events.push(Event { a: 0, ..init }),
        1 => events.push(Event { b: min - 1, ..init }),
        2 => events.push(Event { c: 0, ..init }),
        3 => events.push(Event { d: 9, ..init }),
        4 => events.push(Event { b: 0x1_0000_0000, ..init }),
        5 => events.push(Event { b: UNLIMITED, c: 0x1_0000_0000, ..init }),
        6 => events.push(Event { op: 2, ..Event::default() }),
        _ => {}
    }
    events.push(init);
    events.extend((0..8).map(|id| Event { op: 1, id, a: u64::from(id % 2), ..Event::default() }));
    (events, cores)
}

fn decode(step: &Step, clock: &mut Clock, cores: u64) -> Event {
    let task = match step.delta >> 24 {
        254 => 4095 + step.delta % 2,
        255 => step.x,
        _ => step.delta % 9,
    };
    let core = match step.id {
        254 => 8,
        255 => step.delta,
        id => (u64::from(id) % cores) as u32,
    };
    let accesses = amount(step, 50);
    let now = clock.next(step);
    let event = Event { now, ..Event::default() };
    match step.op {
        // Real-time tasks are the odd ones.
        0..=34 => Event { op: 2, id: task | u32::from(step.size < 224), ..event },
        35..=69 => Event { op: 3, id: task | u32::from(step.size < 224), ..event },
        70..=124 => {
            let next = match step.pace % 8 {
                0 => NONE,
                1 if step.size == 255 => u64::from(task) << 32,
                _ => u64::from(task),
            };
            Event { op: 4, id: core, a: next, b: accesses, ..event }
        }
        125..=179 => Event { op: 5, id: core, a: accesses, ..event },
        180..=213 => Event { op: 6, id: core, ..event },
        214..=230 => Event { op: 7, id: core, ..event },
        231..=235 => {
            let range = [0, 0xffff_ffff, 0x1_0000_0000, UNLIMITED];
            let odd = range[(step.pace % 4) as usize];
            let a = if step.size > 240 { odd } else { 1 + u64::from(step.delta % 40) };
            Event { op: 9, a, ..event }
        }
        236..=241 => Event { op: 8, id: task, ..event },
        242..=252 => Event {
            op: 1,
            id: task,
            a: u64::from(step.x.is_multiple_of(16)) * 2 + u64::from(task % 2),
            ..event
        },
        253 => Event { a: 1, b: 1, c: 1, d: 1, ..event },
        254.. => Event { op: u32::from(step.size), id: core, ..event },
    }
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    let decode = |(config, steps): ([u32; 8], Vec<Step>)| {
        let (mut events, cores) = set_up(&config);
        let mut clock = Clock::new(events[0].now, 60, config[6] % 16 == 15);
        events.extend(steps.iter().map(|step| decode(step, &mut clock, cores)));
        events
    };
    steps(length).prop_map(decode).boxed()
}

/// Who runs where and holds what, by the events alone.
#[derive(Default)]
struct Book {
    max: u64,
    min: u64,
    current: Vec<Option<u32>>,
    tasks: BTreeMap<u32, (bool, u64)>,
}

type Check = Result<(), &'static str>;

fn ensure(holds: bool, what: &'static str) -> Check {
    if holds { Ok(()) } else { Err(what) }
}

impl Book {
    fn holders(&self) -> u64 {
        let holds = |task: &&u32| self.tasks.get(task).is_some_and(|&(_, depth)| depth > 0);
        self.current.iter().flatten().filter(holds).count() as u64
    }

    /// Rules 1 and 2, and that nobody waits for nothing.
    fn rules(&self, core: u32, verdict: u64, used: u64) -> Check {
        let running = self.current[core as usize].and_then(|task| self.tasks.get(&task));
        if running.is_some_and(|&(realtime, _)| realtime) {
            return ensure(verdict == 1, "rule 1: a real-time task is stopped");
        }
        if self.holders() > 0 {
            ensure(
                (verdict == 0) == (used >= self.min),
                "rule 2: not held to the minimum while a lock is held",
            )
        } else {
            ensure(
                (verdict == 0) == (self.max != UNLIMITED && used >= self.max),
                "stopped, or not, though no lock is held",
            )
        }
    }

    fn see(&mut self, event: &Event, word: &[u64; 6]) -> Check {
        if self.max == 0 {
            if event.op == 0 && word[0] == 1 {
                (self.max, self.min) = (event.b, event.c);
                self.current = vec![None; event.d as usize];
            }
            return Ok(());
        }
        let core = self.current.get(event.id as usize).is_some();
        let count = self.current.len() as u64;
        match event.op {
            1 if word[0] == 1 => drop(self.tasks.insert(event.id, (event.a == 1, 0))),
            2 | 3 if word[0] == 1 => {
                let Some((realtime, depth)) = self.tasks.get_mut(&event.id) else {
                    return Err("there is no such task");
                };
                ensure(*realtime, "a lock of a task that is not real-time")?;
                *depth = if event.op == 2 { *depth + 1 } else { depth.wrapping_sub(1) };
                ensure(word[1] == *depth, "the depth is wrong")?;
                ensure(word[2] == self.holders() && word[2] <= count, "holders are wrong")?;
            }
            4 if core && word[0] == 1 => {
                let next = u32::try_from(event.a).ok().filter(|&task| u64::from(task) != NONE);
                ensure(
                    next.is_none_or(|task| self.tasks.contains_key(&task)),
                    "no such task runs",
                )?;
                self.current[event.id as usize] = next;
                let places =
                    self.current.iter().filter(|&&task| next.is_some() && task == next).count();
                ensure(places <= 1, "a task runs on two cores")?;
                ensure(word[4] == self.holders() && word[4] <= count, "holders are wrong")?;
                ensure((1..=MAX_SAMPLE).contains(&word[5]), "a sample out of range")?;
                self.rules(event.id, word[1], word[3])?;
            }
            5 | 7 if core => {
                ensure((1..=MAX_SAMPLE).contains(&word[1]), "a sample out of range")?;
                let real_time =
                    self.current[event.id as usize].and_then(|task| self.tasks.get(&task));
                ensure(
                    word[0] == 1 || !real_time.is_some_and(|task| task.0),
                    "rule 1: a real-time task is stopped",
                )?;
                if event.op == 7 {
                    self.rules(event.id, word[0], word[2])?;
                }
            }
            6 if core => {
                ensure(word[4] == self.holders() && word[4] <= count, "holders are wrong")?;
                ensure(word[5] > event.now.min(1 << 62), "the next period is not in the future")?;
                self.rules(event.id, word[0], word[2])?;
            }
            9 if word[0] == 1 => self.min = event.a,
            8 if word[0] == 1 => {
                self.tasks.remove(&event.id);
                self.current
                    .iter_mut()
                    .filter(|task| **task == Some(event.id))
                    .for_each(|task| *task = None);
                ensure(word[1] == self.holders(), "holders are wrong")?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// A real-time task is never told to stop (rule 1); while a lock is held, whoever else is asked is
/// stopped at the minimum (rule 2), and without one at the maximum and not before; as many cores
/// hold as run tasks that do.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut book = Book::default();
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        book.see(event, &answer.word)
            .map_err(|what| format!("event {at} {event:?}: {what}: {answer:?}"))?;
    }
    Ok(())
}
