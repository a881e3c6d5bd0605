//! Unrolls each resource's hyperperiod and looks for two instances at the same time.
//!
//! Instances are taken in the order of their starts from a heap with one entry per activity, so
//! memory does not grow with the hyperperiod. From the largest offset on, the pattern repeats with
//! the hyperperiod, so one more hyperperiod is enough.

use super::expected::Slot;
use super::violation::{Effort, Violation, at};
use crate::fail::Failure;
use crate::progress::stopped;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Maximum number of instances unrolled on one resource, and on all together.
const MOST_INSTANCES: u64 = 20_000_000;
const MOST_IN_ALL: u64 = 60_000_000;
/// Instances unrolled on a resource with too many of them: enough to give an early violation its
/// time.
const SAMPLE: u64 = 200_000;

/// The first overlap of every resource.
pub fn overlaps(slots: &[Slot], effort: &mut Effort) -> Result<Vec<Violation>, Failure> {
    let mut on: BTreeMap<&str, Vec<&Slot>> = BTreeMap::new();
    for slot in slots {
        on.entry(&slot.resource).or_default().push(slot);
    }
    let mut found = Vec::new();
    for slots in on.values() {
        let (overlap, complete) = unroll(slots, effort)?;
        let missed = overlap.is_none() && !complete;
        found.extend(overlap);
        if !complete {
            effort.long += 1;
        }
        if missed {
            found.extend(by_pairs(slots)?);
        }
    }
    Ok(found)
}

/// The end of the checked time, ns: the largest offset and one hyperperiod. `None` if the number is
/// too large.
fn horizon(slots: &[&Slot]) -> Option<u64> {
    let mut hyper = 1u64;
    for s in slots {
        let (mut a, mut b) = (hyper, s.period);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        hyper = (hyper / a).checked_mul(s.period)?;
    }
    let latest = slots.iter().map(|s| s.offset).max().unwrap_or(0);
    // The activity that runs at the end may reach over it.
    let longest = slots.iter().map(|s| s.length).max().unwrap_or(0);
    hyper.checked_add(latest)?.checked_add(longest)
}

/// The first overlap, and whether all of the hyperperiod was checked.
fn unroll(slots: &[&Slot], effort: &mut Effort) -> Result<(Option<Violation>, bool), Failure> {
    let end = horizon(slots);
    let total = end.map(|end| slots.iter().map(|s| u128::from(end / s.period) + 1).sum::<u128>());
    let most = MOST_INSTANCES.min(MOST_IN_ALL.saturating_sub(effort.instances));
    let whole = total.is_some_and(|t| t <= u128::from(most));
    let mut next: BinaryHeap<Reverse<(u64, usize)>> =
        slots.iter().enumerate().map(|(n, s)| Reverse((s.offset, n))).collect();
    // The started instance that occupies the resource longest, and its end.
    let mut holder: Option<(u64, usize)> = None;
    let mut count = 0;
    while let Some(Reverse((start, n))) = next.pop() {
        if end.is_some_and(|end| start > end) {
            break;
        }
        if !whole && count == SAMPLE {
            return Ok((None, false));
        }
        count += 1;
        effort.instances += 1;
        if count % (1 << 20) == 0 && stopped() {
            return Err(Failure::Interrupted);
        }
        if let Some((until, m)) = holder.filter(|h| start < h.0) {
            return Ok((Some(overlap(slots[m], slots[n], start, until)), true));
        }
        holder = Some((start.saturating_add(slots[n].length), n));
        match start.checked_add(slots[n].period) {
            Some(again) => next.push(Reverse((again, n))),
            None => return Ok((None, false)),
        }
    }
    Ok((None, true))
}

fn overlap(a: &Slot, b: &Slot, start: u64, until: u64) -> Violation {
    Violation {
        time_ns: start,
        rule: "overlap",
        lines: vec![b.line, a.line],
        message: format!(
            "overlap on {}: {} starts at {}, while {} (line {}) runs until {}",
            b.resource,
            b.name,
            at(start),
            a.name,
            a.line,
            at(until)
        ),
    }
}

/// The first pair of slots with starts that can come closer than the slots are long. The
/// differences of the starts of two slots are the difference of their offsets plus all multiples of
/// the greatest common divisor of their periods.
fn by_pairs(slots: &[&Slot]) -> Result<Option<Violation>, Failure> {
    for (n, a) in slots.iter().enumerate() {
        if stopped() {
            return Err(Failure::Interrupted);
        }
        for b in &slots[..n] {
            let (mut common, mut rest) = (a.period, b.period);
            while rest > 0 {
                (common, rest) = (rest, common % rest);
            }
            // Shortest time from a start of b to the next start of a; `common` less it is that from
            // a to b.
            let after = (a.offset % common + common - b.offset % common) % common;
            if after < b.length || common - after < a.length {
                return Ok(Some(Violation {
                    time_ns: a.offset.max(b.offset),
                    rule: "overlap",
                    lines: vec![a.line, b.line],
                    message: format!(
                        "overlap on {}: {} and {} (line {}) overlap at some time after {}, \
                        because their starts come within {} of each other",
                        a.resource,
                        a.name,
                        b.name,
                        b.line,
                        at(a.offset.max(b.offset)),
                        at(after.min(common - after))
                    ),
                }));
            }
        }
    }
    Ok(None)
}
