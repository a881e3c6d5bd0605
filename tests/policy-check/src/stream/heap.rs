//! Random use of the heap; and what the random streams of several mechanisms are made of: steps of
//! plain integers that a mechanism reads as it likes. All zeros is the simplest step, so that
//! shrinking simplifies.

use crate::{Answer, Event, Operations};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;

/// Names of the operations.
pub const OPERATIONS: Operations = &["init", "push", "remove", "pop", "look"];

const MAX_TASKS: u32 = 4096;
const MAX_TIME: u64 = 1 << 62;
const NONE: u64 = 0xffff_ffff;

/// Raw material of an event or of a few.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Which operation, out of 256.
    pub op: u8,
    /// Which core or task.
    pub id: u8,
    /// How time goes on: see [`Clock`].
    pub pace: u8,
    /// Which size of value: see [`amount`].
    pub size: u8,
    /// How far time goes on.
    pub delta: u32,
    /// The value.
    pub x: u32,
}

/// About `length` steps, and eight numbers to configure the world by.
pub(super) fn steps(length: usize) -> impl Strategy<Value = ([u32; 8], Vec<Step>)> {
    let step = any::<(u8, u8, u8, u8, u32, u32)>()
        .prop_map(|(op, id, pace, size, delta, x)| Step { op, id, pace, size, delta, x });
    // Sixteen parts of any length up to an eighth: the sum is near `length`, and shrinks to
    // nothing.
    let parts = vec(vec(step, 0..=length.div_ceil(8)), 16);
    (any::<[u32; 8]>(), parts).prop_map(|(config, parts)| (config, parts.concat()))
}

/// Time as a stream of events sees it.
pub(super) struct Clock {
    now: u64,
    typical: u64,
    extreme: bool,
}

impl Clock {
    /// Most steps are of at most `typical` ns; only with `extreme` does a rare one lead to the end
    /// of time.
    pub(super) fn new(now: u64, typical: u64, extreme: bool) -> Self {
        Clock { now, typical: typical.max(1), extreme }
    }

    /// The time of the next event: mostly a little later, sometimes the same or much later, rarely
    /// earlier.
    pub(super) fn next(&mut self, step: &Step) -> u64 {
        let delta = u64::from(step.delta);
        let ahead = match step.pace {
            0..=63 => 0,
            64..=223 => delta % self.typical.saturating_add(1),
            224..=243 => delta % self.typical.saturating_mul(8),
            244..=250 => self.typical,
            251 => delta << 8,
            252 if self.extreme => delta << 31,
            253 if self.extreme => return u64::MAX - delta,
            252 | 253 => 1,
            254.. => return self.now.saturating_sub(delta % self.typical.saturating_mul(4)),
        };
        self.now = self.now.saturating_add(ahead).min(MAX_TIME + 1);
        self.now
    }
}

/// A value: mostly small against `typical`, often close to it, rarely extreme.
pub(super) fn amount(step: &Step, typical: u64) -> u64 {
    let x = u64::from(step.x);
    match step.size {
        0..=127 => x % (typical / 4).saturating_add(2),
        128..=191 => x % typical.saturating_mul(2).saturating_add(2),
        192..=223 => typical.saturating_add(x % 5).saturating_sub(2),
        224..=239 => typical,
        240..=247 => 1,
        248 | 249 => 0,
        250 => 0xffff_ffff - x % 2,
        251 => 0x1_0000_0000,
        252 => u64::MAX,
        253 => u64::MAX - x,
        254 => MAX_TIME,
        255 => x << 32,
    }
}

fn decode(step: &Step, ids: u32) -> Event {
    let id = match step.id {
        255 => MAX_TASKS.wrapping_add(step.delta % 2).wrapping_sub(1),
        254 => step.delta,
        250..=253 => step.delta % MAX_TASKS,
        id => u32::from(id) % ids,
    };
    let op = match step.op {
        0..=99 => 1,
        100..=154 => 2,
        155..=219 => 3,
        220..=252 => 4,
        253 => 0,
        254.. => u32::from(step.id),
    };
    Event { op, id, a: amount(step, u64::from(ids)), ..Event::default() }
}

/// Random events: few ids and few keys, so that keys tie and ids come again.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    let events = |(config, steps): ([u32; 8], Vec<Step>)| {
        let ids = [4, 16, 100, 254][config[0] as usize % 4];
        std::iter::once(Event::default())
            .chain(steps.iter().map(|step| decode(step, ids)))
            .collect()
    };
    steps(length).prop_map(events).boxed()
}

/// The top is a member, none that was just pushed is smaller, the number of members counts what was
/// done, and between pushes what is on top only grows.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut members: HashMap<u32, u64> = HashMap::new();
    let mut top: Option<(u64, u32)> = None;
    let mut ready = false;
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        let fail = |what: &str| Err(format!("event {at} {event:?}: {what}: {answer:?}"));
        let [done, id, key, count, there, _] = answer.word;
        if !ready || !(1..=4).contains(&event.op) {
            ready |= event.op == 0 && done == 1;
            continue;
        }
        let was_there = members.contains_key(&event.id);
        let expected = match event.op {
            1 => !was_there && event.id < MAX_TASKS,
            2 => was_there,
            3 => top.is_some(),
            _ => false,
        };
        if (done == 1) != expected {
            return fail("done, and should not be, or the other way round");
        }
        match (event.op, top) {
            (1, _) if expected => drop(members.insert(event.id, event.a)),
            (2, _) => drop(members.remove(&event.id)),
            (3, Some((_, popped))) => drop(members.remove(&popped)),
            _ => {}
        }
        if count != members.len() as u64 || (there == 1) != members.contains_key(&event.id) {
            return fail("wrong members");
        }
        let now_top =
            u32::try_from(id).ok().filter(|id| members.get(id) == Some(&key)).map(|id| (key, id));
        if now_top.is_none() && !(members.is_empty() && id == NONE) {
            return fail("the top is not a member with that key");
        }
        if event.op == 1 && expected && now_top > Some((event.a, event.id)) {
            return fail("a smaller one was pushed");
        }
        if event.op != 1 && now_top.is_some() && now_top < top {
            return fail("the top went down without a push");
        }
        top = now_top;
    }
    Ok(())
}
