//! Requirements of an instance on a table: its activities, their lengths, places and order.

use super::violation::{Violation, at};
use solocore_model::WindowsInput;
use solocore_model::windows::Transfer;

/// Subject of an activity: partition, chain (from 1; 0 for processing) and stage (0 to 4, in the
/// order of precedence).
pub type Key = (usize, usize, usize);

/// Names of the stages.
pub const STAGES: [&str; 5] =
    ["physical-input", "device-input", "processing", "device-output", "physical-output"];
/// The stage of processing.
pub const PROCESSING: usize = 2;

/// An activity of the table with the requirements of the instance.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Subject of the activity.
    pub key: Key,
    /// Name in messages.
    pub name: String,
    /// `core N`, `io-core` or `device NAME`.
    pub resource: String,
    /// Start of the first instance, nanoseconds.
    pub offset: u64,
    /// Reserved nanoseconds, margin included.
    pub length: u64,
    /// Part of it that is margin, nanoseconds.
    pub margin: u64,
    /// Period, nanoseconds.
    pub period: u64,
    /// Line of the table.
    pub line: usize,
}

/// Requirements of the instance on an activity: duration, margin, period, resource (`None` where
/// the table chooses the core).
pub struct Expected {
    pub key: Key,
    pub length: u64,
    pub margin: u64,
    pub period: u64,
    pub resource: Option<String>,
}

/// All activities of an instance.
pub fn activities(instance: &WindowsInput) -> Vec<Expected> {
    let mut all = Vec::new();
    for (n, p) in instance.partitions.iter().enumerate() {
        let mut push = |chain, stage, duration: u64, margin, resource| {
            let key = (n, chain, stage);
            all.push(Expected {
                key,
                length: duration + margin,
                margin,
                period: p.period_ns,
                resource,
            });
        };
        push(0, PROCESSING, p.duration_ns, instance.margin.processing_ns, None);
        for (k, chain) in p.chains.iter().enumerate() {
            let device = |t: &Transfer| Some(format!("device {}", instance.devices[t.device].name));
            let io = || Some("io-core".to_owned());
            if let Some(t) = &chain.input {
                push(k + 1, 0, t.physical_ns, instance.margin.physical_ns, device(t));
                push(k + 1, 1, transfer(instance, t), instance.margin.device_ns, io());
            }
            if let Some(t) = &chain.output {
                push(k + 1, 3, transfer(instance, t), instance.margin.device_ns, io());
                push(k + 1, 4, t.physical_ns, instance.margin.physical_ns, device(t));
            }
        }
    }
    all
}

/// Time of a transfer, ns: bytes at bus speed, and a wait after each block; a stated time as it is.
fn transfer(instance: &WindowsInput, t: &Transfer) -> u64 {
    let (Some(bytes), Some(dma)) = (t.bytes, instance.devices[t.device].dma) else {
        return t.transfer_ns;
    };
    let ps_per_s = 1_000_000_000_000u128;
    let (bytes, bus, block) = (u128::from(bytes), u128::from(dma.bus), u128::from(dma.block));
    let moving = (bytes * ps_per_s).div_ceil(bus);
    let blocks = bytes.div_ceil(block);
    let ns = (moving + blocks * u128::from(dma.wait_ps)).div_ceil(1000);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Partitions that are on another core than the stated one.
pub fn pinned(instance: &WindowsInput, slots: &[Slot]) -> Vec<Violation> {
    let wrong = |s: &&Slot| {
        s.key.2 == PROCESSING
            && instance.partitions[s.key.0]
                .core
                .is_some_and(|core| s.resource != format!("core {core}"))
    };
    let say = |s: &Slot| Violation {
        time_ns: s.offset,
        rule: "core",
        lines: vec![s.line],
        message: format!(
            "{} is on {} from {}, but the instance binds it to core {}",
            s.name,
            s.resource,
            at(s.offset),
            instance.partitions[s.key.0].core.unwrap_or(0)
        ),
    };
    slots.iter().filter(wrong).map(say).collect()
}

/// Breaches of precedence and age.
pub fn chains(instance: &WindowsInput, slots: &[Slot]) -> Vec<Violation> {
    let by_key: std::collections::HashMap<Key, &Slot> = slots.iter().map(|s| (s.key, s)).collect();
    let mut found = Vec::new();
    for (n, p) in instance.partitions.iter().enumerate() {
        for (k, chain) in p.chains.iter().enumerate() {
            let path: Vec<&Slot> =
                path(n, k + 1).iter().filter_map(|key| by_key.get(key).copied()).collect();
            for pair in path.windows(2) {
                found.extend(order(pair[0], pair[1]));
            }
            if let (Some(first), Some(last)) = (path.first(), path.last()) {
                found.extend(age(first, last, chain.age_ns));
            }
        }
    }
    found
}

/// A chain's activities in the order of precedence.
pub fn path(partition: usize, chain: usize) -> [Key; 5] {
    [0, 1, 2, 3, 4].map(|stage| (partition, if stage == PROCESSING { 0 } else { chain }, stage))
}

fn order(a: &Slot, b: &Slot) -> Option<Violation> {
    let end = a.offset.saturating_add(a.length);
    (end > b.offset).then(|| Violation {
        time_ns: b.offset,
        rule: "precedence",
        lines: vec![b.line, a.line],
        message: format!(
            "precedence: {} starts at {}, before {} (line {}) ends at {}",
            b.name,
            at(b.offset),
            a.name,
            a.line,
            at(end)
        ),
    })
}

fn age(first: &Slot, last: &Slot, limit: u64) -> Option<Violation> {
    let end = last.offset.saturating_add(last.length);
    let age = end.saturating_sub(first.offset);
    (age > limit).then(|| Violation {
        time_ns: end,
        rule: "age",
        lines: vec![last.line, first.line],
        message: format!(
            "age: {} ends at {}, {} after {} (line {}) starts; the limit is {}",
            last.name,
            at(end),
            at(age),
            first.name,
            first.line,
            at(limit)
        ),
    })
}
