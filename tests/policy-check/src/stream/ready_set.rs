//! Random sets of ready ranks.

use super::heap::{Step, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;

/// Names of the operations.
pub const OPERATIONS: Operations = &["init", "add", "remove", "look"];

const MAX_TASKS: usize = 4096;
const NONE: u64 = 0xffff_ffff;

/// Ranks near the ends of 64-bit words and of the set, or anywhere.
fn rank(step: &Step) -> u32 {
    match step.id {
        0..=127 => u32::from(step.id) % 8,
        128..=199 => (step.x % 65 * 64 + step.delta % 3).saturating_sub(1),
        200..=252 => step.x % 4096,
        253 => 4096,
        254.. => step.x,
    }
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    let event = |step: &Step| {
        let op = match step.op {
            0..=109 => 1,
            110..=229 => 2,
            230..=252 => 3,
            253 => 0,
            254.. => u32::from(step.id),
        };
        Event { op, id: rank(step), ..Event::default() }
    };
    let events = move |(_, steps): (_, Vec<Step>)| {
        std::iter::once(Event::default()).chain(steps.iter().map(event)).collect()
    };
    steps(length).prop_map(events).boxed()
}

/// The first is the lowest member, and the number of members is right.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut member = vec![false; MAX_TASKS];
    let mut count = 0;
    let mut ready = false;
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        let fail = |what: &str| Err(format!("event {at} {event:?}: {what}: {answer:?}"));
        if !ready || !(1..=3).contains(&event.op) {
            ready |= event.op == 0 && answer.word[0] == 1;
            continue;
        }
        if event.op != 3 {
            let Some(slot) = member.get_mut(event.id as usize) else {
                if answer.word[0] != 0 {
                    return fail("there is no such rank");
                }
                continue;
            };
            let (was, now) = (*slot, event.op == 1);
            *slot = now;
            count += u64::from(now && !was);
            count -= u64::from(was && !now);
        }
        if event.op != 3 && answer.word == [0; 6] {
            // Nothing was done, and nothing said.
            continue;
        }
        let first = member.iter().position(|&there| there).map_or(NONE, |first| first as u64);
        if answer.word[1] != first || answer.word[2] != count {
            return fail(&format!("the first is {first} of {count}"));
        }
    }
    Ok(())
}
