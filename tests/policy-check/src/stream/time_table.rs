//! Random time tables, and lookups that wander over a few frames.

use super::heap::{Clock, Step, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;

/// Names of the operations.
pub const OPERATIONS: Operations = &["init", "entry", "lookup"];

const MAX_TIME: u64 = 1 << 62;
const MAX_SPAN: u64 = 1 << 42;
const NONE: u64 = 0xffff_ffff;
const UNLIMITED: u64 = u64::MAX;

fn entry(step: &Step, cursor: &mut u64, frame: u64) -> Event {
    // Half of the slots touch the one before; a few overlap it, are empty, or end beyond the frame.
    let unit = frame / 16 + 1;
    let gap = if step.size < 128 { 0 } else { u64::from(step.delta) % unit };
    let length = 1 + u64::from(step.x) % unit;
    let (a, b) = match step.pace {
        0..=239 => (*cursor + gap, *cursor + gap + length),
        240..=243 => (cursor.saturating_sub(1), *cursor + length),
        244..=247 => (*cursor, *cursor),
        248..=251 => (*cursor, frame + 1 - u64::from(step.x % 2)),
        _ => (u64::from(step.delta), u64::from(step.x)),
    };
    if a >= *cursor && a < b && b <= frame {
        *cursor = b;
    }
    let c = match step.id {
        0..=252 => u64::from(step.id % 8),
        253 => 4095,
        254 => NONE - 1,
        // Not ids: "none", and more than 32 bits.
        255 => NONE + u64::from(step.delta % 3),
    };
    Event { op: 1, a, b, c, ..Event::default() }
}

fn decode((config, steps): ([u32; 8], Vec<Step>)) -> Vec<Event> {
    let frame = match config[0] % 16 {
        0..=9 => 1 + u64::from(config[1] % 100),
        10 => 1,
        11 => MAX_SPAN,
        _ => 1 + u64::from(config[1]),
    };
    let origin = match config[2] % 8 {
        0..=3 => 0,
        4..=6 => u64::from(config[3]),
        _ => MAX_TIME - u64::from(config[3] % 3),
    };
    let bad = if config[4] % 8 == 7 {
        [0, MAX_SPAN + 1, UNLIMITED][config[5] as usize % 3]
    } else {
        frame
    };
    let mut events = vec![
        Event { now: origin, a: bad, ..Event::default() },
        Event { op: 2, now: origin, ..Event::default() },
        Event { now: origin, a: frame, ..Event::default() },
    ];
    let slots = (config[6] % 32) as usize;
    let mut cursor = 0;
    events.extend(steps.iter().take(slots).map(|step| entry(step, &mut cursor, frame)));
    let mut clock = Clock::new(origin.saturating_sub(frame), frame / 6, config[7] % 8 == 7);
    events.extend(steps.iter().skip(slots).map(|step| match step.op {
        0..=250 => Event { op: 2, now: clock.next(step), ..Event::default() },
        251 => Event {
            op: 2,
            now: origin.saturating_add(u64::from(step.x) % (3 * frame)),
            ..Event::default()
        },
        252 | 253 => entry(step, &mut cursor, frame),
        254 => Event { a: frame, ..Event::default() },
        255 => Event { op: u32::from(step.id), now: clock.next(step), ..Event::default() },
    }));
    events
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    steps(length).prop_map(decode).boxed()
}

/// A linear search of the frame unrolled around `now`: from the one before to the one after.
fn unrolled(slots: &[(u64, u64, u64)], origin: u64, frame: u64, now: u64) -> [u64; 4] {
    let number = if now < origin { 0 } else { (now - origin) / frame };
    let mut active = (NONE, 0);
    let mut edge = UNLIMITED;
    for k in number.saturating_sub(1)..=number + 1 {
        for &(start, end, id) in slots {
            let (start, end) = (origin + k * frame + start, origin + k * frame + end);
            if start <= now && now < end {
                active = (id, start);
            }
            for point in [start, end] {
                if point > now {
                    edge = edge.min(point);
                }
            }
        }
    }
    [active.0, edge, active.1, number]
}

/// Every lookup is what the unrolled table says, and the next edge lies in the future.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut frame = 0;
    let mut origin = 0;
    let mut slots = Vec::new();
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        let fail = |what: &str| Err(format!("event {at} {event:?}: {what}: {answer:?}"));
        let now = event.now.min(MAX_TIME);
        match (event.op, answer.word[0]) {
            (0, 1) if frame == 0 => (frame, origin) = (event.a, now),
            (0, 1) => return fail("a second init"),
            (1, 1) => slots.push((event.a, event.b, event.c)),
            (2, _) if frame != 0 => {
                if answer.word[1] <= now {
                    return fail("the edge is not after now");
                }
                let expected = unrolled(&slots, origin, frame, now);
                if answer.word[..4] != expected {
                    return fail(&format!("the unrolled table says {expected:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
