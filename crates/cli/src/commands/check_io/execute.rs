//! Executes a table with jitter: every instance starts late by a random part of its margin and then
//! takes its full duration.
//!
//! Two rules must hold in every execution: the order along each chain, and no overlaps. Jitter is a
//! hash of seed, execution, activity and instance, so that it can be computed in any order.

use super::expected::{Key, Slot, path};
use super::violation::{Violation, at};
use crate::fail::Failure;
use crate::progress::stopped;
use solocore_model::WindowsInput;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Maximum number of instances on each resource, and of each chain, in one execution.
const INSTANCES: u64 = 100_000;

/// One execution's times.
struct Execution {
    seed: u64,
}

impl Execution {
    /// Start and end of the n-th instance of a slot.
    fn of(&self, slot: &Slot, n: u64) -> (u64, u64) {
        let mut x = self.seed ^ (slot.line as u64) << 32 ^ n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for _ in 0..2 {
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            x ^= x >> 31;
        }
        // The extremes would show a mistake.
        let late = match x % 4 {
            0 => 0,
            1 => slot.margin,
            _ => (x >> 2) % (slot.margin + 1),
        };
        let start = slot.offset + n * slot.period + late;
        (start, start + slot.length - slot.margin)
    }
}

/// The first violation of the first execution with one.
pub fn executions(
    instance: &WindowsInput,
    slots: &[Slot],
    count: u64,
    seed: u64,
) -> Result<Option<Violation>, Failure> {
    let mut on: BTreeMap<&str, Vec<&Slot>> = BTreeMap::new();
    for slot in slots {
        on.entry(&slot.resource).or_default().push(slot);
    }
    let by_key: HashMap<Key, &Slot> = slots.iter().map(|s| (s.key, s)).collect();
    for run in 0..count {
        let execution =
            Execution { seed: seed.wrapping_add(run.wrapping_mul(0xD1B5_4A32_D192_ED03)) };
        for slots in on.values() {
            if stopped() {
                return Err(Failure::Interrupted);
            }
            if let Some(v) = resource(&execution, slots) {
                return Ok(Some(v));
            }
        }
        for (n, p) in instance.partitions.iter().enumerate() {
            for k in 0..p.chains.len() {
                let path: Vec<&Slot> =
                    path(n, k + 1).iter().filter_map(|key| by_key.get(key).copied()).collect();
                if let Some(v) = path.windows(2).find_map(|w| order(&execution, w[0], w[1])) {
                    return Ok(Some(v));
                }
            }
        }
    }
    Ok(None)
}

fn resource(execution: &Execution, slots: &[&Slot]) -> Option<Violation> {
    let mut next: BinaryHeap<Reverse<(u64, usize, u64)>> =
        slots.iter().enumerate().map(|(i, s)| Reverse((execution.of(s, 0).0, i, 0))).collect();
    let mut last: Option<(u64, usize)> = None;
    for _ in 0..INSTANCES {
        let Reverse((start, i, n)) = next.pop()?;
        if let Some((until, j)) = last.filter(|l| start < l.0) {
            return Some(violation("overlap", slots[i], start, slots[j], until));
        }
        last = Some((execution.of(slots[i], n).1, i));
        next.push(Reverse((execution.of(slots[i], n + 1).0, i, n + 1)));
    }
    None
}

fn order(execution: &Execution, a: &Slot, b: &Slot) -> Option<Violation> {
    (0..INSTANCES.min(1000)).find_map(|n| {
        let (end, start) = (execution.of(a, n).1, execution.of(b, n).0);
        (end > start).then(|| violation("precedence", b, start, a, end))
    })
}

fn violation(rule: &'static str, b: &Slot, start: u64, a: &Slot, until: u64) -> Violation {
    Violation {
        time_ns: start,
        rule,
        lines: vec![b.line, a.line],
        message: format!(
            "{rule} in an execution with jitter: {} starts at {}, while {} (line {}) runs until {}",
            b.name,
            at(start),
            a.name,
            a.line,
            at(until)
        ),
    }
}
