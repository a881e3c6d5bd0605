//! The terms of the bounds of tasks with levels, from the time alone on.
//!
//! Problem: a PET is one number, and its size has several sources. Rule: the first terms make the
//! time alone with the task's ways and message buffers (`C`), at level C times the stated average
//! and behind each distinct set of private caches. All further parts of the PET (`translate`) are
//! one term, since the optimiser sums them as shares of one time. Then come the room of the time
//! table (level A) and the jobs of level A (level B), and the other tasks last. Without a bound on
//! the response time the terms end at `C_sce`. Does not cover: the parts of levels A, B and C in
//! the tardiness of level C, which has one bound for all.

use super::found::Found;
use crate::demand::Demand;
use crate::waterfall::{Part, whole};
use solocore_analysis::levels::Level;
use solocore_model::levels::TaskShape;
use solocore_model::plan::waterfall::{Cause, Term};

const FS_PER_PS: u64 = 1000;
const PS_PER_NS: u64 = 1000;

/// A bound on a response time.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// The bound.
    pub ps: u64,
    /// The part of it that jobs of level A take, where it is known by itself.
    pub above_ps: Option<u64>,
}

impl Response {
    /// In nanoseconds, with no part by itself.
    pub const fn of_ns(ns: u64) -> Self {
        Self { ps: ns.saturating_mul(PS_PER_NS), above_ps: None }
    }
}

/// The terms of the bound on a task; empty where its PET is not bounded.
pub fn of(found: &Found, demand: &Demand, at: usize, response: Option<Response>) -> Vec<Term> {
    let Some(pet_fs) = found.c_sce_fs(at) else { return Vec::new() };
    let pet = i128::from(pet_fs.div_ceil(FS_PER_PS));
    let level = found.translated.system.tasks[at].level;
    let sets = if level == Level::C { found.system.platform.private_kinds() } else { 1 };
    let mut parts = execution(found, demand, at, sets);
    if level == Level::C {
        let (c, millionths) = (sum(&parts), found.task(at).shape.average_millionths);
        let average = c * i128::from(millionths) / i128::from(TaskShape::WHOLE);
        parts.push((Cause::Average, average - c, None));
    }
    parts.push((Cause::Others, pet - sum(&parts), None));
    if let Some(response) = response {
        if level == Level::A {
            // The table's slots are whole nanoseconds.
            let slots_ns = found.checked.tasks[at].pets.a.div_ceil(FS_PER_PS * PS_PER_NS);
            parts.push((Cause::Scale, i128::from(slots_ns) * i128::from(PS_PER_NS) - pet, None));
        }
        parts.extend(response.above_ps.map(|ps| (Cause::Above, i128::from(ps), None)));
        parts.push((Cause::Preemption, i128::from(response.ps) - sum(&parts), None));
    }
    whole(&parts)
}

fn sum(parts: &[Part]) -> i128 {
    parts.iter().map(|(_, ps, _)| ps).sum()
}

/// The terms of the time alone with the task's ways and message buffers. A stated time has no row
/// hits; alone it has all ways. A profiled job counts once behind each of its `sets` of private
/// caches, as in `translate`.
fn execution(found: &Found, demand: &Demand, at: usize, sets: u64) -> Vec<Part> {
    let (shape, ways) = (&found.translated.shapes[at], found.ways(at));
    let misses = shape.misses.get(ways).copied().unwrap_or(0);
    let own = i128::from(shape.alone(ways));
    let (alone, alone_misses, own_with_hits) = match demand {
        Demand::Profiled { .. } => {
            let p = &found.system.platform;
            let (alone_ps, alone_misses) = demand.alone(p);
            let alone = i128::from(alone_ps);
            let moved = alone_misses.saturating_mul(sets);
            let more = i128::from(misses) - i128::from(moved);
            let hits = alone * i128::from(sets) + more * i128::from(p.row_hit().ps());
            (alone, alone_misses, hits)
        }
        Demand::Given { .. } | Demand::Curve(_) => {
            let all = shape.alone_ps.len().saturating_sub(1);
            let alone_misses = shape.misses.last().copied().unwrap_or(0);
            (i128::from(shape.alone(all)), alone_misses, own)
        }
    };
    let (buffers_ps, lines) = found.buffers(at);
    let with_buffers = (lines > 0).then(|| misses.saturating_add(lines));
    let mut parts = vec![(Cause::Alone, alone, Some(alone_misses))];
    if matches!(demand, Demand::Profiled { .. }) && sets > 1 {
        let misses = alone_misses.saturating_mul(sets);
        parts.push((Cause::Moves, alone * i128::from(sets - 1), Some(misses)));
    }
    let before = sum(&parts);
    parts.extend([
        (Cause::Cache, own_with_hits - before, Some(misses)),
        (Cause::Latency, own - own_with_hits, None),
        (Cause::Buffers, i128::from(buffers_ps), with_buffers),
    ]);
    parts
}
