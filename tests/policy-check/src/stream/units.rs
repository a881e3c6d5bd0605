//! Random rates, lines and periods.

use super::heap::{Step, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;

/// Names of the operations.
pub const OPERATIONS: Operations = &["init", "events", "bandwidth"];

/// Any number of bits, and often a number that real systems have.
fn number(size: u8, x: u32, bits: u8, usual: u64) -> u64 {
    match size {
        0..=95 => usual,
        96..=111 => u64::from(x % 3),
        112..=115 => u64::MAX - u64::from(x % 3),
        _ => ((u64::from(x) << 32) | u64::from(x.reverse_bits())) >> (bits % 64),
    }
}

fn event(step: &Step) -> Event {
    let op = match step.op {
        0..=124 => 1,
        125..=251 => 2,
        252 | 253 => 0,
        254.. => u32::from(step.id),
    };
    let a = number(step.size, step.x, step.op.rotate_left(3), u64::from(step.x));
    let b = number(step.pace, step.delta, step.id, 64);
    let c = number(step.id, step.delta.rotate_left(16) ^ step.x, step.pace, 1_000_000);
    Event { op, a, b, c, ..Event::default() }
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    let events = |(_, steps): (_, Vec<Step>)| {
        std::iter::once(Event::default()).chain(steps.iter().map(event)).collect()
    };
    steps(length).prop_map(events).boxed()
}

/// Is `low * x <= y < (low + 1) * x`? By the definition of a quotient rounded down, not by
/// dividing.
fn is_floor(low: u64, x: u128, y: u128) -> bool {
    match u128::from(low).checked_mul(x) {
        Some(product) => product <= y && y - product < x,
        None => false,
    }
}

/// The answers are the exact quotients, rounded down, wherever the exact products fit 128 bits; or
/// they saturate.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut ready = false;
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        let fail = |what: &str| Err(format!("event {at} {event:?}: {what}: {answer:?}"));
        let [word, mb, ..] = answer.word;
        let (a, b, c) = (u128::from(event.a), u128::from(event.b), u128::from(event.c));
        if !ready {
            ready = event.op == 0 && word == 1;
            continue;
        }
        if !(1..=2).contains(&event.op) {
            continue;
        }
        if event.b == 0 || event.c == 0 {
            if word != 0 || mb != 0 {
                return fail("something from nothing");
            }
            continue;
        }
        let quotient = match event.op {
            1 => Some((b * 1_000_000_000, a * c)),
            _ => (a * b).checked_mul(1_000_000_000).map(|bytes| (c, bytes)),
        };
        if let Some((x, y)) = quotient
            && !is_floor(word, x, y)
            && !(word == u64::MAX && y / x > u128::from(u64::MAX))
        {
            return fail("not the quotient rounded down");
        }
        if event.op == 2 && mb < word / 1_000_000 {
            return fail("MB/s do not follow from bytes/s");
        }
    }
    Ok(())
}
