//! Random use of a sporadic server; every other stream uses it as a strict scheduler does: woken at
//! each dispatch, run for at most what was available, charged when it stops.

use super::heap::{Clock, Step, amount, steps};
use crate::{Answer, Event, Operations, model};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Names of the operations.
pub const OPERATIONS: Operations = &["init", "wake", "charge", "available", "entry"];

const MAX_TIME: u64 = 1 << 62;
const MAX_SPAN: u64 = 1 << 42;
const MAX_REPLENISHMENTS: u64 = 16;

/// Capacity, period, flags and limit of a server; rarely out of range.
pub(super) fn parameters(x: u32, y: u32, size: u8, strict: bool) -> [u64; 4] {
    let (x, y) = (u64::from(x), u64::from(y));
    let period = match size {
        0..=159 => 2 + x % 60,
        160..=223 => 1000 + x % 100_000,
        224..=239 => 1 + x % 3,
        240..=247 => MAX_SPAN - x % 2,
        248..=252 => x + 1,
        253 => MAX_SPAN + 1,
        254 => 0,
        255 => u64::MAX - x % 2,
    };
    let capacity = match y % 64 {
        0..=47 => 1 + (y >> 6) % (period / 4).saturating_add(1),
        48..=59 => 1 + (y >> 6) % period.max(1),
        60 | 61 => period,
        62 => 1,
        _ => [0, period.saturating_add(1), u64::MAX][(y >> 6) as usize % 3],
    };
    let limit = match (x ^ y) % 32 {
        31 => [0, 17, 1 << 32, u64::MAX][(y >> 8) as usize % 4],
        16..=30 => 1 + (x ^ y) % 3,
        limit => limit + 1,
    };
    [capacity, period, u64::from(strict), limit]
}

fn init([a, b, c, d]: [u64; 4], now: u64) -> Event {
    Event { now, a, b, c, d, ..Event::default() }
}

/// Any order of operations, times and amounts.
fn loose(steps: &[Step], clock: &mut Clock, parameters: [u64; 4], events: &mut Vec<Event>) {
    let [capacity, ..] = parameters;
    events.extend(steps.iter().map(|step| {
        let now = clock.next(step);
        let (op, a) = match step.op {
            0..=79 => (1, 0),
            80..=169 => (2, amount(step, capacity)),
            170..=199 => (3, 0),
            200..=251 => (4, 0),
            252 => return init(parameters, now),
            _ => (u32::from(step.id), amount(step, capacity)),
        };
        let id = if step.id < 250 { u32::from(step.id) % 18 } else { step.delta };
        Event { op, id, now, a, ..Event::default() }
    }));
}

/// Dispatches and preemptions: each step is a pause, a wake and, if there is budget, a charge.
fn strict(steps: &[Step], mut now: u64, parameters: [u64; 4], events: &mut Vec<Event>) {
    let [_, period, ..] = parameters;
    let mut server = model::sporadic_server::world();
    for event in events.iter() {
        server.apply(event);
    }
    let mut head = now;
    for step in steps {
        let delta = u64::from(step.delta);
        now += match step.pace {
            0..=63 => 0,
            64..=95 => 1 + delta % 4,
            96..=127 => delta % (period / 4 + 2),
            128..=143 => delta % (2 * period),
            // At once when there is budget: the most that a server can be made to supply.
            _ => head.saturating_sub(now),
        };
        let wake = Event { op: 1, now, ..Event::default() };
        let [available, next, ..] = server.apply(&wake).word;
        head = next;
        events.push(wake);
        let x = u64::from(step.x);
        let used = match step.size {
            0..=127 => available,
            128..=191 => available.min(1),
            _ => x % (available + 1),
        };
        if available > 0 && now < MAX_TIME {
            now += used;
            let charge = Event { op: 2, now, a: used, ..Event::default() };
            head = server.apply(&charge).word[1];
            events.push(charge);
        }
        if step.op >= 192 {
            events.push(Event { op: 4, id: u32::from(step.id) % 17, now, ..Event::default() });
        }
    }
}

fn decode((config, steps): ([u32; 8], Vec<Step>)) -> Vec<Event> {
    let is_strict = config[0] % 2 == 0;
    let mut parameters = parameters(config[1], config[2], (config[3] % 256) as u8, is_strict);
    let start = [0, 0, 1000, u64::from(config[4]), MAX_TIME - 5 * u64::from(config[4])]
        [config[5] as usize % 5];
    let mut events = vec![Event { op: 3, ..Event::default() }, init(parameters, start)];
    parameters[0] = parameters[0].clamp(1, MAX_SPAN);
    parameters[1] = parameters[1].clamp(parameters[0], MAX_SPAN);
    parameters[3] = parameters[3].clamp(1, MAX_REPLENISHMENTS);
    // Refused if the first was valid.
    events.push(init(parameters, start));
    if is_strict {
        strict(&steps, start, parameters, &mut events);
    } else {
        let typical = parameters[1] / [2, 8, 20][config[6] as usize % 3];
        let mut clock = Clock::new(start, typical, config[7] % 8 == 7);
        loose(&steps, &mut clock, parameters, &mut events);
    }
    events
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    steps(length).prop_map(decode).boxed()
}

/// What was supplied in the last `period`: never more than `capacity` in any window of that length.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// (start, end), oldest first.
    runs: VecDeque<(u64, u64)>,
    supplied: u64,
}

impl Window {
    /// What will have been supplied in the `period` that ends at `end` if it runs from `start` on
    /// until then.
    pub(super) fn offer(&self, start: u64, end: u64, period: u64) -> u64 {
        let begin = end.saturating_sub(period);
        let recent = self.runs.iter().rev().take_while(|run| run.1 > begin);
        recent.map(|run| run.1 - run.0.max(begin)).sum::<u64>() + (end - start.max(begin))
    }

    /// It ran from `start` to `end`; answers what was supplied in the `period` that ends at `end`.
    pub(super) fn run(&mut self, start: u64, end: u64, period: u64) -> u64 {
        self.runs.push_back((start, end));
        self.supplied += end - start;
        let begin = end.saturating_sub(period);
        while let Some(&(start, end)) = self.runs.front() {
            if end > begin {
                return self.supplied - begin.saturating_sub(start);
            }
            self.supplied -= end - start;
            self.runs.pop_front();
        }
        0
    }
}

/// The events so far, as far as invariants need them.
#[derive(Default)]
struct Ledger {
    capacity: u64,
    period: u64,
    limit: u64,
    head: u64,
    count: u64,
    /// Every charge so far was of a run that began with a wake and was not longer than what was
    /// available.
    proper: bool,
    /// The last wake, if only reads followed: (time, available).
    woken: Option<(u64, u64)>,
    last_wake: u64,
    last_end: u64,
    window: Window,
}

impl Ledger {
    fn list(&mut self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let [available, head, count, ..] = *word;
        let now = event.now.min(MAX_TIME);
        if count == 0 || count > self.limit {
            return Err("the list is empty or too long".into());
        }
        if head < self.head {
            return Err("the head went back in time".into());
        }
        if available > self.capacity || (available > 0) != (head <= now) {
            return Err(
                "more than the capacity, or budget before its time, or none when it is due".into(),
            );
        }
        if event.op != 1 && available > 0 && available != word[3] {
            return Err("what is available is not the head's amount".into());
        }
        (self.head, self.count) = (head, count);
        Ok(())
    }

    fn wake(&mut self, event: &Event, available: u64) -> Result<(), String> {
        if event.now < self.last_end.max(self.last_wake) || event.now > MAX_TIME {
            self.proper = false;
        }
        self.last_wake = event.now;
        self.woken = Some((event.now, available));
        let rested = event.now >= self.last_end.saturating_add(self.period);
        let end = event.now.saturating_add(available);
        if self.proper && self.window.offer(event.now, end, self.period) > self.capacity {
            return Err("it offers more than the capacity in a window of one period".into());
        }
        if self.proper && rested && available != self.capacity {
            return Err("a period after it last ran it is not full".into());
        }
        Ok(())
    }

    fn charge(&mut self, event: &Event) -> Result<(), String> {
        let run = self.woken.take().filter(|(start, available)| {
            event.a <= *available
                && start.checked_add(event.a) == Some(event.now)
                && event.now <= MAX_TIME
        });
        let Some((start, _)) = run.filter(|_| self.proper) else {
            self.proper = false;
            return Ok(());
        };
        self.last_end = event.now;
        if self.window.run(start, event.now, self.period) > self.capacity {
            return Err("more than the capacity in a window of one period".into());
        }
        Ok(())
    }

    fn entry(&self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let [_, amount, sum, ..] = *word;
        let there = u64::from(event.id) < self.count || (self.count == 0 && event.id == 0);
        if sum == 0 {
            return if there && self.count > 0 {
                Err("an entry is missing".into())
            } else {
                Ok(())
            };
        }
        if sum != self.capacity || amount == 0 || amount > sum {
            return Err("amounts do not sum to the capacity".into());
        }
        Ok(())
    }
}

/// Amounts sum to C, the list is bounded, its head never goes back; and when it is woken at each
/// dispatch and never overrun, no window of T supplies more than C, and it is full again one period
/// after it last ran.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut ledger: Option<Ledger> = None;
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        let Some(ledger) = ledger.as_mut() else {
            if event.op == 0 && answer.word[0] == 1 {
                let head = event.now.min(MAX_TIME);
                let (capacity, period, limit) = (event.a, event.b, event.d);
                let proper = head == event.now;
                ledger = Some(Ledger {
                    capacity,
                    period,
                    limit,
                    head,
                    last_wake: head,
                    proper,
                    ..Ledger::default()
                });
            }
            continue;
        };
        let word = &answer.word;
        let verdict = match event.op {
            1 => ledger.list(event, word).and_then(|()| ledger.wake(event, word[0])),
            2 => ledger.list(event, word).and_then(|()| ledger.charge(event)),
            3 => ledger.list(event, word),
            4 => ledger.entry(event, word),
            _ if word != &[0; 6] => Err("an answer to what is refused".into()),
            _ => Ok(()),
        };
        verdict.map_err(|what| format!("event {at} {event:?}: {what}: {answer:?}"))?;
    }
    Ok(())
}
