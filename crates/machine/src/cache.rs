//! Caches as one source describes them, and the merging of several sources.
//!
//! Problem: sysfs may know that there is a cache, the device tree its size, and a manual its ways.
//! Rule: caches of one level and kind are one; values that the first source lacks are taken from
//! the next. Does not cover: sources that contradict each other; crate::shape compares size, ways
//! and sets.

use crate::known::Known;
use serde::Serialize;

/// Content of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// Data alone.
    Data,
    /// Instructions alone.
    Instructions,
    /// Both.
    Both,
}

impl Holds {
    /// As sysfs writes it (Documentation/ABI/testing/sysfs-devices-system-cpu,
    /// `cache/index*/type`).
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "Data" => Self::Data,
            "Instruction" => Self::Instructions,
            "Unified" => Self::Both,
            _ => return None,
        })
    }
}

/// A cache of a CPU. A value that no source gives is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Level; 1 is nearest to the CPU.
    pub level: u32,
    /// Its content.
    pub holds: Holds,
    /// Bytes.
    pub size: Option<Known<u64>>,
    /// Associativity.
    pub ways: Option<Known<u64>>,
    /// Sets.
    pub sets: Option<Known<u64>>,
    /// Bytes of a line.
    pub line: Option<Known<u64>>,
    /// The online CPUs that use it, in order.
    pub shared: Known<Vec<u32>>,
}

impl Cache {
    /// A cache with only its level, content and CPUs known.
    pub fn at(level: u32, holds: Holds, shared: Known<Vec<u32>>) -> Self {
        Self { level, holds, size: None, ways: None, sets: None, line: None, shared }
    }

    /// Is the other in the same place?
    pub fn same_place(&self, other: &Self) -> bool {
        (self.level, self.holds) == (other.level, other.holds)
    }

    /// Takes the values that this one lacks from another source.
    pub fn fill(&mut self, other: &Self) {
        let fill = |own: &mut Option<Known<u64>>, theirs: &Option<Known<u64>>| {
            if own.is_none() {
                own.clone_from(theirs);
            }
        };
        fill(&mut self.size, &other.size);
        fill(&mut self.ways, &other.ways);
        fill(&mut self.sets, &other.sets);
        fill(&mut self.line, &other.line);
    }

    /// Bytes, ways and line, where they are known: equal for CPUs of one type.
    pub fn shape(&self) -> (u32, Holds, [Option<u64>; 3]) {
        let value = |k: &Option<Known<u64>>| k.as_ref().map(|k| k.value);
        (self.level, self.holds, [value(&self.size), value(&self.ways), value(&self.line)])
    }
}

/// Adds the caches of another source: fills those in the same place, appends the others.
pub fn merge(caches: &mut Vec<Cache>, others: &[Cache]) {
    for other in others {
        match caches.iter_mut().find(|c| c.same_place(other)) {
            Some(own) => own.fill(other),
            None => caches.push(other.clone()),
        }
    }
    caches.sort_by_key(|c| (c.level, c.holds));
}

/// Fills existing caches, and adds none.
pub fn fill(caches: &mut [Cache], others: &[Cache]) {
    for own in caches {
        if let Some(other) = others.iter().find(|o| o.same_place(own)) {
            own.fill(other);
        }
    }
}
