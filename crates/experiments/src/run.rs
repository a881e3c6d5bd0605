//! Common parts of the experiments: boards by name, and runs to an end.

use crate::{Context, ExperimentError, mutate};
use rayon::prelude::*;
use solocore_model::Platform;
use solocore_sim::board::{Board, BoardError};
use solocore_sim::fluid::Fluid;
use solocore_sim::hardware::Hardware;
use solocore_sim::kernel::{Kernel, KernelConfig, KernelError, KernelResult, Observer, Unobserved};
use solocore_sim::machine::Machine;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A millisecond in picoseconds.
pub const MS: u64 = 1_000_000_000;

impl From<BoardError> for ExperimentError {
    fn from(error: BoardError) -> Self {
        match error {
            BoardError::Kernel(KernelError::Interrupted) => Self::Interrupted,
            other => Self::Setup(other.to_string()),
        }
    }
}

/// A board that comes with solocore.
///
/// # Errors
/// When there is no such board.
pub fn platform(name: &str) -> Result<Platform, ExperimentError> {
    Ok(Platform::find(name, Path::new("."))?)
}

/// A board on which every request is simulated, changed as the context says.
///
/// # Errors
/// When the board is refused.
pub fn machine(
    context: &Context,
    mut board: Board,
    mut kernel: KernelConfig,
) -> Result<Kernel<Machine>, ExperimentError> {
    if let Some(mutation) = context.mutation {
        mutate::apply(mutation, &mut board, &mut kernel)?;
    }
    Ok(board.requests(kernel)?)
}

/// The same, simulated in whole intervals.
///
/// # Errors
/// When the board is refused, or the caller wants to stop.
pub fn intervals(
    context: &Context,
    mut board: Board,
    mut kernel: KernelConfig,
) -> Result<Kernel<Fluid>, ExperimentError> {
    if let Some(mutation) = context.mutation {
        mutate::apply(mutation, &mut board, &mut kernel)?;
    }
    Ok(board.fluid(kernel, &|| (context.progress)(f64::NAN))?)
}

/// Runs a kernel for `ps` and ends it.
///
/// # Errors
/// When the kernel fails, or the caller wants to stop.
pub fn finish<H: Hardware>(
    context: &Context,
    mut kernel: Kernel<H>,
    ps: u64,
    observer: &mut dyn Observer,
) -> Result<KernelResult, ExperimentError> {
    // Steps inside one run are not told: the points of an experiment are its progress. Stopping is.
    let mut stop = |_| (context.progress)(f64::NAN);
    kernel.run(ps, observer, &mut stop).map_err(BoardError::from)?;
    Ok(kernel.finish(observer))
}

/// A run of `ps` on the request-level machine, unobserved.
///
/// # Errors
/// As [`finish`]; also when the board is refused.
pub fn requests(
    context: &Context,
    board: Board,
    kernel: KernelConfig,
    ps: u64,
) -> Result<KernelResult, ExperimentError> {
    finish(context, machine(context, board, kernel)?, ps, &mut Unobserved)
}

/// Computes the points of an experiment on all cores; the order of the results is that of the
/// points.
///
/// # Errors
/// The first error in the order of the points, for any number of threads.
pub fn points<P: Sync, R: Send>(
    context: &Context,
    points: &[P],
    one: impl Fn(&P) -> Result<R, ExperimentError> + Sync,
) -> Result<Vec<R>, ExperimentError> {
    let done = AtomicUsize::new(0);
    let results: Vec<Result<R, ExperimentError>> = points
        .par_iter()
        .map(|point| {
            let result = one(point)?;
            let share = (done.fetch_add(1, Relaxed) + 1) as f64 / points.len() as f64;
            context.done(share)?;
            Ok(result)
        })
        .collect();
    results.into_iter().collect()
}

/// Nanoseconds with fractions.
#[must_use]
pub fn ns(ps: u64) -> f64 {
    ps as f64 / 1e3
}

/// Milliseconds with fractions.
#[must_use]
pub fn ms(ps: u64) -> f64 {
    ps as f64 / 1e9
}

/// `a / b`, or 0 if `b` is 0.
#[must_use]
pub fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
