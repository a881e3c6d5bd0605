//! A board in whole intervals: every program is measured alone on the request-level machine first.
//!
//! Rule. Programs with the same ways and the same colours share a part of the shared cache;
//! different ones have parts of their own. A program is measured with an eighth, a quarter, half
//! and all of its ways, once in a process for each combination of machine, description, ways, and
//! places of its pages (`fluid::measured_once`). It is measured on pages of its own draw among
//! those allowed, in the lowest ways, with a seed of its own. The result depends neither on the
//! program that asked first nor on the board's seed. (Seeds draw orders and pages; how a program
//! behaves on average does not depend on them.) It is measured at the clock and behind the private
//! caches of its core; without a core of its own, at the slowest clock and behind the caches that
//! the platform states for all. Not covered: parts that overlap without being equal; which banks a
//! program uses (the memory curve is for all of them).

use super::{Board, BoardError, Placed};
use crate::fluid::board::calibrate_on;
use crate::fluid::calibrate::Calibration;
use crate::fluid::{
    Fluid, FluidConfig, FluidDevice, FluidError, FluidProgram, FluidStream, GoOn, measured_once,
};
use crate::hardware::{Hardware, Notice, ProgramId};
use crate::kernel::{Kernel, KernelConfig, KernelError};
use crate::machine::{DmaSpec, Machine, MachineConfig};
use crate::placement::Allocator;
use crate::program::{PageKind, Program, Signal, Space};
use crate::workload::{BuildContext, WorkloadSpec};

/// Ways and colours of a part of the shared cache.
type Part = (u64, Option<Vec<u32>>);

/// Seed of everything that is measured.
const SEED: u64 = 1;

impl From<FluidError> for BoardError {
    fn from(error: FluidError) -> Self {
        match error {
            FluidError::Interrupted => Self::Kernel(KernelError::Interrupted),
            other => Self::Fluid(other),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> FluidError {
    FluidError::Calibration(error.to_string())
}

impl Board {
    /// The system in whole intervals. `go_on` is asked while programs are measured, and stops that
    /// by answering false.
    ///
    /// # Errors
    /// As [`Board::requests`]; also when a program was given as a workload and not as a
    /// description; [`KernelError::Interrupted`].
    pub fn fluid(self, kernel: KernelConfig, go_on: GoOn<'_>) -> Result<Kernel<Fluid>, BoardError> {
        let mut config = FluidConfig::of(&self.config)?;
        let layout = self.config.layout()?;
        let way =
            self.config.llc.size.0 / (u64::from(self.config.llc.ways) * self.config.llc.line.0);
        let share = |lines: u64, colours: &Option<Vec<u32>>| {
            colours.as_ref().map_or(lines, |c| lines * c.len() as u64 / layout.colours().max(1))
        };
        let mut parts: Vec<Part> = Vec::new();
        let mut programs: Vec<FluidProgram> = Vec::new();
        for (task, placed) in self.tasks.iter().zip(&self.programs) {
            let part: Part = (placed.space.ways, placed.colours.clone());
            let partition = parts.iter().position(|p| *p == part).unwrap_or_else(|| {
                parts.push(part);
                parts.len() - 1
            });
            let measured = Measured::of(&self.config, task.core, &task.name, placed)?;
            let mut program = measured_once(measured.key(), || measured.measure(way, go_on))?;
            (program.name, program.partition) = (task.name.clone(), partition);
            programs.push(program);
        }
        let lines =
            |(ways, colours): &Part| share(u64::from(ways.count_ones()) * way, colours).max(1);
        config.partitions = parts.iter().map(lines).collect();
        let line = self.config.llc.line.0;
        let devices: Vec<FluidDevice> = self.devices.iter().map(|d| device(d, line)).collect();
        Ok(Kernel::new(Fluid::new(&config, &programs, &devices)?, kernel, self.tasks)?)
    }
}

/// A program as it is measured, on any board.
struct Measured<'a> {
    name: &'a str,
    config: MachineConfig,
    spec: &'a WorkloadSpec,
    context: BuildContext,
    placed: &'a Placed,
}

impl<'a> Measured<'a> {
    fn of(
        config: &MachineConfig,
        core: Option<usize>,
        name: &'a str,
        placed: &'a Placed,
    ) -> Result<Self, FluidError> {
        let Some((spec, context)) = &placed.recipe else {
            return Err(failed(format!("`{name}` was added without a description; use requests")));
        };
        let clock = core.map_or(config.frequency, |core| config.clock_of(core));
        let clocks = config.clocks.iter().map(|_| clock).collect();
        let own = core.map(|core| config.own_of(core));
        let own = own.map_or_else(Vec::new, |own| vec![own; config.own.len()]);
        let config = MachineConfig { seed: SEED, clocks, own, ..config.clone() };
        let context = BuildContext { seed: SEED, ..context.clone() };
        Ok(Self { name, config, spec, context, placed })
    }

    /// Everything that the measurement depends on.
    fn key(&self) -> String {
        let kinds: Vec<(usize, PageKind)> = self
            .placed
            .space
            .kinds
            .chunk_by(|a, b| a == b)
            .map(|run| (run.len(), run[0]))
            .collect();
        let ways = self.placed.space.ways.count_ones();
        let places = &self.placed.places;
        format!(
            "{:?}\n{:?}\n{:?}\n{ways} {kinds:?}\n{places:?}",
            self.config, self.spec, self.context
        )
    }

    /// Page frames for the program, drawn among those that its regions allow.
    fn space(&self) -> Result<Space, FluidError> {
        let layout = self.config.layout().map_err(failed)?;
        let mut allocator = Allocator::new(layout, SEED);
        let mut frames = Vec::with_capacity(self.placed.space.frames.len());
        for ((_, pages), place) in self.placed.regions.iter().zip(&self.placed.places) {
            let count = pages.end - pages.start;
            match &place.frames {
                Some(given) => frames.extend(given.iter().take(count as usize)),
                None => {
                    let banks = place.banks.as_deref();
                    frames.extend(
                        allocator.take(count, banks, place.colours.as_deref()).map_err(failed)?,
                    );
                }
            }
        }
        let ways = u64::MAX.checked_shr(64 - self.placed.space.ways.count_ones()).unwrap_or(0);
        Ok(Space { frames, kinds: self.placed.space.kinds.clone(), ways, ..Space::default() })
    }

    fn measure(&self, way: u64, go_on: GoOn<'_>) -> Result<FluidProgram, FluidError> {
        let space = self.space()?;
        let all = u64::from(space.ways.count_ones()).max(1);
        let mut shares: Vec<u64> =
            [8, 4, 2, 1].iter().map(|part| (all / part).max(1) * way).collect();
        shares.dedup();
        let make = || Ok((self.spec.build(&self.context).map_err(failed)?.program, space.clone()));
        let mut options = Calibration::new(shares);
        let has_jobs = self.spec.build(&self.context).is_ok_and(|w| w.has_jobs);
        if has_jobs && let Some(job_ps) = job(&self.config, make()?, go_on)? {
            // The first job warms up. The next job at least is measured whole, even if it takes
            // half as long again.
            options.warm_ps = options.warm_ps.max(job_ps);
            options.horizon_ps = options.horizon_ps.max(job_ps.saturating_add(job_ps / 2));
            options.sample_ps = options.sample_ps.max(job_ps / 256);
        }
        calibrate_on(&self.config, self.name, &options, go_on, &make)
    }
}

/// Longest job that is measured.
const LONGEST_JOB_PS: u64 = 1_000_000_000_000;
/// Interval at which the caller is asked whether to go on, ps: 1 ms.
const ASK_PS: u64 = 1_000_000_000;

/// Time of the first job alone, if there are jobs.
fn job(
    config: &MachineConfig,
    made: (Box<dyn Program>, Space),
    go_on: GoOn<'_>,
) -> Result<Option<u64>, FluidError> {
    let mut machine = Machine::new(config.clone(), vec![made], vec![]).map_err(failed)?;
    machine.dispatch(0, Some(ProgramId(0)), 0);
    // Long enough for every short job; a longer job is seen to end by its signal.
    for step in 1..=LONGEST_JOB_PS / ASK_PS {
        if !go_on() {
            return Err(FluidError::Interrupted);
        }
        while let Some(notice) = machine.advance(step * ASK_PS) {
            match notice {
                Notice::Signal { signal: Signal::JobEnd, .. } => return Ok(Some(machine.now_ps())),
                Notice::Signal { .. } => machine.dispatch(0, Some(ProgramId(0)), 0),
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Lines at the pace of the wait states, or of the stream's rate.
fn device(spec: &DmaSpec, line: u64) -> FluidDevice {
    let waits = spec.wait_ps / u64::from(spec.block_lines.max(1));
    let rate = spec.autonomous.and_then(|s| s.bytes_per_s);
    let pace = rate.map_or(0, |r| u128::from(line) * 1_000_000_000_000 / u128::from(r.max(1)));
    FluidDevice {
        name: spec.name.clone(),
        line_ps: waits.max(u64::try_from(pace).unwrap_or(u64::MAX)),
        outstanding: spec.outstanding,
        stream: spec.autonomous.map(|s| FluidStream {
            into_memory: s.into_memory,
            start_ps: s.start_ps,
            stop_ps: s.stop_ps,
        }),
    }
}
