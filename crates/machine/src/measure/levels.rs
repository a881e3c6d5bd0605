//! Cycles per instruction, and latencies of the levels.
//!
//! Rule: a level's latency is the time of a dependent load from it beyond one from the first level
//! (the head of platforms/*.toml). The data of a walk are four times the next inner level, and at
//! most half of the level's own. Source: lmbench's lat_mem_rd (McVoy, Staelin 1996). Does not
//! cover: a level that is shared and full of others' lines: then a walk's loads go further, and the
//! number is larger. The time of the quickest walk is then subtracted from loads from memory.

use super::effort::Effort;
use super::finding::{Finding, Key, Side};
use super::probe::Probe;
use super::sampling::{Ended, LeftOut, Sampled, sample};
use crate::error::MachineError;
use solocore_model::Platform;
use solocore_model::units::Frequency;

/// Walks, in ns a load.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// From the first level.
    pub first: Sampled,
    /// From the shared cache, beyond the first level.
    pub shared: Sampled,
    /// From the second level, beyond the first; none: there is none.
    pub second: Option<Sampled>,
}

/// Difference of two times, with the ends of the intervals crossed.
pub fn beyond(whole: Sampled, part: Sampled) -> Sampled {
    let mut less = whole.map(|ns| ns - part.median.value);
    less.median.low = whole.median.low - part.median.high;
    less.median.high = whole.median.high - part.median.low;
    less.least = whole.least - part.median.high;
    Sampled { left_out: whole.left_out.and(part.left_out), ..less }
}

/// Bytes of a walk that stays in a level of this size and leaves the inner one.
///
/// # Errors
/// The two are too near each other.
pub fn walk_bytes(key: &str, inner: u64, own: u64) -> Result<u64, MachineError> {
    if own < 2 * inner + inner / 2 {
        return Err(MachineError::Machine(format!(
            "{key}: {} KiB are less than two and a half times the {} KiB of the level before it, \
                so a walk cannot distinguish them; look the latency up in the CPU's manual",
            own >> 10,
            inner >> 10
        )));
    }
    Ok((4 * inner).min(own / 2))
}

/// Cycles of a time at a clock. The core that measures may be of any type, so its own cycles are
/// counted at the highest clock. The shared cache has the lowest one.
fn cycles_at(clock: Frequency, ns: f64) -> f64 {
    ns * clock.0 as f64 / 1e9
}

/// Cycles per instruction of a program with its data in the first level.
///
/// # Errors
/// See [`Ended`].
pub fn cpi<P: Probe + ?Sized>(
    probe: &mut P,
    platform: &Platform,
    effort: &Effort,
) -> Result<Finding, Ended> {
    let found = sample(probe, "cpi", effort.pieces, effort.share(0.05), |p| Ok(vec![p.compute()]))?;
    let cycles = found.map(|ns| cycles_at(platform.fastest(), ns));
    let method = "instructions by their time: of ten, seven that each wait for the previous one (two \
        loads, a multiplication), a store, a count, a branch";
    Ok(Finding::new(Key::Cpi, &cycles, Side::High, method))
}

/// The walks of all levels.
///
/// # Errors
/// Levels that cannot be distinguished, or whose times contradict each other.
pub fn levels<P: Probe + ?Sized>(
    probe: &mut P,
    platform: &Platform,
    effort: &Effort,
) -> Result<Levels, Ended> {
    let mut walk = |key: &str, bytes: u64| {
        sample(probe, key, effort.pieces, effort.share(0.06), |p| Ok(vec![p.level(bytes)]))
    };
    let first = walk("l1d", platform.l1d.size.0 / 2)?;
    let second = match &platform.l2 {
        Some(l2) => {
            let bytes = walk_bytes("l2.latency", platform.l1d.size.0, l2.size.0)?;
            Some(beyond(walk("l2.latency", bytes)?, first))
        }
        None => None,
    };
    let inner = platform.l2.as_ref().map_or(platform.l1d.size.0, |l2| l2.size.0);
    let bytes = walk_bytes("llc.latency", inner, platform.llc.size.0)?;
    let shared = beyond(walk("llc.latency", bytes)?, first);
    let contradiction = |key: &str, sampled: &Sampled, least: &Sampled, of: &str| {
        (sampled.median.high <= least.median.low).then(|| {
            MachineError::Machine(format!(
                "{key}: {:.2} ns beyond a first-level hit are not more than the {:.2} ns of {of}; \
                    the sizes of the file are not those of this machine (`solocore platform check`)",
                sampled.median.value, least.median.value
            ))
        })
    };
    let nothing = first.map(|_| 0.0);
    let wrong = match &second {
        Some(second) => contradiction("l2.latency", second, &nothing, "the first level")
            .or_else(|| contradiction("llc.latency", &shared, second, "l2.latency")),
        None => contradiction("llc.latency", &shared, &nothing, "the first level"),
    };
    match wrong {
        Some(error) => Err(error.into()),
        None => Ok(Levels { first, shared, second }),
    }
}

impl Levels {
    /// The memory's part of a load from it. For the shared cache, its quickest walk is subtracted:
    /// other users that evict our lines make the shared cache slower, and would make memory
    /// quicker.
    pub fn service(&self, whole: &Sampled) -> Sampled {
        let alone = |s: &Sampled| Sampled { left_out: LeftOut::default(), ..*s };
        let quickest = alone(&self.shared).map(|_| self.shared.least);
        beyond(beyond(*whole, alone(&self.first)), quickest)
    }

    /// The findings of the requested keys.
    pub fn findings(&self, platform: &Platform, wanted: impl Fn(Key) -> bool) -> Vec<Finding> {
        let method = "dependent loads in random order, less those of the first level";
        let cycles = |s: &Sampled, clock: Frequency| s.map(|ns| cycles_at(clock, ns));
        let mut found = Vec::new();
        if let Some(second) = self.second.filter(|_| wanted(Key::L2)) {
            let second = cycles(&second, platform.fastest());
            found.push(Finding::new(Key::L2, &second, Side::High, method));
        }
        if wanted(Key::Llc) {
            let shared = cycles(&self.shared, platform.frequency);
            found.push(Finding::new(Key::Llc, &shared, Side::High, method));
        }
        found
    }
}
