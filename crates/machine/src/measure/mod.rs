//! Measures the values that no file of a machine gives.
//!
//! Problem: `detect` assumes the times of caches and memory. Assumed values are on the side of
//! larger bounds, and a plan pays for that. Rule: a [`Probe`] times pieces, and marks those with an
//! interrupt, a switch or stolen time. Estimators make numbers from the rest: medians with
//! intervals of 95 % by order statistics. The file gets the end of the interval that makes bounds
//! larger. A number that the memory's timing does not allow is refused, and the file stays as it
//! is. Source: the head of platforms/*.toml and crates/model/src/platform/mod.rs for the meaning of
//! keys; each estimator names its own source. Does not cover: clocks that change meanwhile; a note
//! of the command names the governor.

mod banks;
mod dram;
mod effort;
pub mod file;
mod finding;
pub mod hardware;
mod levels;
mod longest;
mod parallel;
mod probe;
mod sampling;

pub use banks::Banks;
pub use dram::Apart;
pub use effort::Effort;
pub use finding::{Finding, Key, Row};
pub use probe::{Access, Case, Cause, Order, Pattern, Piece, Probe, Shape};
pub use sampling::{Ended, LeftOut, Sampled};

use crate::error::MachineError;
use solocore_model::Platform;

/// Task of a measurement.
pub struct Plan<'a> {
    /// The platform file.
    pub platform: &'a Platform,
    /// The requested keys.
    pub keys: &'a [Key],
    /// Effort for each key.
    pub effort: Effort,
    /// What the model charges beside the overhead and the commands of a load.
    pub apart: Apart,
    /// Bound of the model on one access beside all other cores, in ns beyond the shared cache.
    pub bound_ns: Option<f64>,
}

/// Measures; `None` if the user stopped it. `said` is told the next key and the share that is done.
///
/// # Errors
/// Numbers that contradict each other or the file; a machine on which no measurement is possible.
pub fn measure<P: Probe + ?Sized>(
    probe: &mut P,
    plan: &Plan,
    said: &dyn Fn(&str, f64),
) -> Result<Option<Vec<Finding>>, MachineError> {
    match all(probe, plan, said) {
        Ok(found) => Ok(Some(found)),
        Err(Ended::Stopped) => Ok(None),
        Err(Ended::Failed(error)) => Err(error),
    }
}

fn all<P: Probe + ?Sized>(
    probe: &mut P,
    plan: &Plan,
    said: &dyn Fn(&str, f64),
) -> Result<Vec<Finding>, Ended> {
    let Plan { platform, effort, .. } = plan;
    let wants = |key: Key| plan.keys.contains(&key);
    let any = |keys: &[Key]| keys.iter().any(|&key| wants(key));
    let mut found = Vec::new();
    if wants(Key::Cpi) {
        said("cycles per instruction", 0.0);
        found.push(levels::cpi(probe, platform, effort)?);
    }
    let memory = [Key::Overhead, Key::LatencyMax, Key::Attack];
    if !any(&[Key::L2, Key::Llc, Key::Mshrs, Key::Writes, Key::Bandwidth]) && !any(&memory) {
        return Ok(found);
    }
    let mut levels = None;
    if any(&[Key::L2, Key::Llc]) || any(&memory) {
        said("latencies of the caches", 0.05);
        let walked = levels::levels(probe, platform, effort)?;
        found.extend(walked.findings(platform, wants));
        levels = Some(walked);
    }
    if wants(Key::Mshrs) {
        said("misses side by side", 0.25);
        found.push(parallel::mshrs(probe, platform.pipeline.mshrs, effort)?);
    }
    let mut banks = Err("they were not searched for".to_owned());
    if any(&memory) || wants(Key::Writes) {
        said("banks of the memory", 0.4);
        banks = banks::find(probe, effort)?;
    }
    if let (Some(levels), true) = (&levels, any(&memory[..2])) {
        said("latency of the memory", 0.45);
        let share = effort.share(0.06);
        let idle = sampling::sample(probe, "dram.overhead", effort.pieces, share, |p| {
            Ok(vec![p.memory(1)])
        })?;
        if wants(Key::Overhead) {
            let of = (plan.apart, probe.pairs_shape());
            found.push(dram::overhead(&idle, levels, &banks, platform, of)?);
        }
        if wants(Key::LatencyMax) {
            said("the longest access alone", 0.5);
            found.push(dram::latency_max(probe, &idle, levels, &banks, platform, effort)?);
        }
    }
    if wants(Key::Writes) && probe.flushes() {
        said("reads after bursts of writes", 0.65);
        found.push(dram::writes(probe, &banks, effort)?);
    }
    if let (Some(levels), true) = (&levels, wants(Key::Attack) && probe.cores() > 1) {
        said("loads beside the other cores", 0.7);
        let offset = banks.as_ref().ok().and_then(|b| b.same.first().copied());
        let offset = offset.unwrap_or(probe.offset_step());
        found.push(parallel::attack(probe, levels, offset, plan.bound_ns, effort)?);
    }
    if wants(Key::Bandwidth) {
        said("bandwidth", 0.85);
        found.push(parallel::bandwidth(probe, effort)?);
    }
    Ok(found)
}
