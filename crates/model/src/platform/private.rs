//! The parts of a core that it does not share: two levels of caches, and the memory time that it
//! hides.
//!
//! Rule: a platform states these for all cores, and a core type for its own. Both are checked by
//! the functions here. Does not cover: the caches of one core, which follow from both
//! (`each_core`).

use crate::units::{Bytes, Cycles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A private first-level cache; a hit costs nothing beyond the instruction's own cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct L1 {
    /// Capacity.
    pub size: Bytes,
    /// Associativity.
    pub ways: u32,
}

/// `[l2]`: a private second-level cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct L2 {
    /// Capacity.
    pub size: Bytes,
    /// Associativity.
    pub ways: u32,
    /// Cycles that a hit costs beyond a first-level hit.
    pub latency: Cycles,
}

/// Memory time that a core hides. Default: none; a core waits for each read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// Lines that may be on their way to one core at once: miss-status holding registers (MSHRs).
    pub mshrs: u32,
    /// Cycles of computation that a core can do beyond its oldest unfinished load (about the
    /// reorder buffer's length over the instructions per cycle).
    pub window: Cycles,
}

impl Pipeline {
    /// Lines that a core may have written that the memory controller has not taken yet. Assumed of
    /// every board.
    pub const WRITE_BUFFER: u32 = 16;
}

impl Default for Pipeline {
    /// A core that waits for each of its reads.
    fn default() -> Self {
        Self { mshrs: 1, window: Cycles(0) }
    }
}

/// The private caches of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateCaches {
    /// Instruction cache.
    pub l1i: L1,
    /// Data cache.
    pub l1d: L1,
    /// Second level, where there is one.
    pub l2: Option<L2>,
}

impl PrivateCaches {
    /// Lines of `line` bytes that they hold together.
    pub fn lines(&self, line: Bytes) -> u64 {
        let second = self.l2.as_ref().map_or(0, |c| c.size.0);
        (self.l1i.size.0 + self.l1d.size.0 + second) / line.0.max(1)
    }

    /// Their numbers, as a profile keeps them.
    pub(super) fn key(&self) -> String {
        let second = self.l2.as_ref();
        let second = second.map(|c| format!("{}/{}/{}", c.size.0, c.ways, c.latency.0));
        let first = |cache: &L1| format!("{}/{}", cache.size.0, cache.ways);
        let second = second.unwrap_or_else(|| "none".to_owned());
        format!("l1i {} l1d {} l2 {second}", first(&self.l1i), first(&self.l1d))
    }
}

/// Checks cycles per instruction; `of` stands before the key.
pub(super) fn check_cpi(of: &str, cpi: f64) -> Result<(), String> {
    if cpi.is_finite() && (0.01..=1000.0).contains(&cpi) {
        return Ok(());
    }
    Err(format!("{of}cpi = {cpi}; give cycles per instruction between 0.01 and 1000"))
}

/// Checks what a core hides; `of` stands before the key.
pub(super) fn check_pipeline(of: &str, p: Pipeline) -> Result<(), String> {
    if (1..=64).contains(&p.mshrs) && p.window.0 <= 10_000 {
        return Ok(());
    }
    Err(format!(
        "{of}pipeline: mshrs = {}, window = {}; give 1 to 64, and at most 10000 cycles",
        p.mshrs, p.window
    ))
}

/// Checks the shape of the cache `what`.
pub(super) fn check_cache(what: &str, size: Bytes, ways: u32, line: Bytes) -> Result<(), String> {
    if !(1..=64).contains(&ways) {
        return Err(format!("{what}.ways = {ways}; give 1 to 64"));
    }
    let way = u64::from(ways) * line.0;
    if size.0 == 0
        || !size.0.is_multiple_of(way)
        || !(size.0 / way).is_power_of_two()
        || size.0 > 1 << 30
    {
        return Err(format!(
            "{what}: size {size} over {ways} ways of {}-byte lines is not a power-of-two number of \
                sets (at most 1 GiB); correct size or ways",
            line.0
        ));
    }
    Ok(())
}
