//! A board in whole intervals: every program is measured alone on the request-level machine first.
//!
//! Rule. Programs with the same ways and the same colours share a part of the shared cache; different ones have parts of
//! their own. A program is measured with an eighth, a quarter, half and all of its ways. Programs of equal workload, ways,
//! colours and page kinds are measured once: their seeds differ, their behaviour does not.
//! Not covered: parts that overlap without being equal; which banks a program uses (the memory curve is for all of them).

use super::{Board, BoardError, Placed};
use crate::fluid::board::calibrate_on;
use crate::fluid::calibrate::Calibration;
use crate::fluid::{Fluid, FluidConfig, FluidDevice, FluidError, FluidProgram, FluidStream};
use crate::hardware::{Hardware, Notice, ProgramId};
use crate::kernel::{Kernel, KernelConfig};
use crate::machine::{DmaSpec, Machine, MachineConfig};
use crate::program::{Program, Signal, Space};

/// Ways and colours of a part of the shared cache.
type Part = (u64, Option<Vec<u32>>);

impl Board {
    /// The system in whole intervals.
    ///
    /// # Errors
    /// As [`Board::requests`]; also for programs that were given as workloads and not as descriptions.
    pub fn fluid(self, kernel: KernelConfig) -> Result<Kernel<Fluid>, BoardError> {
        let layout = self.config.layout()?;
        let way = self.config.llc.size.0 / (u64::from(self.config.llc.ways) * self.config.llc.line.0);
        let share = |lines: u64, colours: &Option<Vec<u32>>| {
            colours.as_ref().map_or(lines, |c| lines * c.len() as u64 / layout.colours().max(1))
        };
        let mut parts: Vec<Part> = Vec::new();
        let mut programs: Vec<FluidProgram> = Vec::new();
        for (at, placed) in self.programs.iter().enumerate() {
            let part: Part = (placed.space.ways, placed.colours.clone());
            let partition = parts.iter().position(|p| *p == part).unwrap_or_else(|| {
                parts.push(part);
                parts.len() - 1
            });
            let name = self.tasks[at].name.clone();
            let known = self.programs[..at].iter().position(|other| alike(other, placed));
            let mut program = match known {
                Some(same) => programs[same].clone(),
                None => measure(&self.config, &name, placed, way)?,
            };
            (program.name, program.partition) = (name, partition);
            programs.push(program);
        }
        let lines = |(ways, colours): &Part| share(u64::from(ways.count_ones()) * way, colours).max(1);
        let mut config = FluidConfig::of(&self.config)?;
        config.partitions = parts.iter().map(lines).collect();
        let line = self.config.llc.line.0;
        let devices: Vec<FluidDevice> = self.devices.iter().map(|d| device(d, line)).collect();
        Ok(Kernel::new(Fluid::new(&config, &programs, &devices)?, kernel, self.tasks)?)
    }
}

/// Would both be measured alike?
fn alike(a: &Placed, b: &Placed) -> bool {
    let spec = |p: &Placed| p.recipe.as_ref().map(|(spec, _)| spec.clone());
    spec(a).is_some()
        && spec(a) == spec(b)
        && a.space.ways == b.space.ways
        && a.space.kinds == b.space.kinds
        && a.colours.as_ref().map(Vec::len) == b.colours.as_ref().map(Vec::len)
}

fn measure(config: &MachineConfig, name: &str, placed: &Placed, way: u64) -> Result<FluidProgram, FluidError> {
    let Some((spec, context)) = &placed.recipe else {
        return Err(FluidError::Calibration(format!("`{name}` was added without a description; use requests")));
    };
    let all = u64::from(placed.space.ways.count_ones()).max(1);
    let mut shares: Vec<u64> = [8, 4, 2, 1].iter().map(|part| (all / part).max(1) * way).collect();
    shares.dedup();
    let make = || {
        let workload = spec.build(context).map_err(|e| FluidError::Calibration(e.to_string()))?;
        Ok((workload.program, placed.space.clone()))
    };
    let mut options = Calibration::new(shares);
    let has_jobs = spec.build(context).is_ok_and(|w| w.has_jobs);
    if has_jobs && let Some(job_ps) = job(config, make()?)? {
        // The first job warms up, and one at least is measured whole.
        options.warm_ps = options.warm_ps.max(job_ps);
        options.horizon_ps = options.horizon_ps.max(job_ps.saturating_mul(2));
        options.sample_ps = options.sample_ps.max(job_ps / 256);
    }
    calibrate_on(config, name, &options, &make)
}

/// Longest job that is measured.
const LONGEST_JOB_PS: u64 = 1_000_000_000_000;

/// Time of the first job alone, if there are jobs.
fn job(config: &MachineConfig, made: (Box<dyn Program>, Space)) -> Result<Option<u64>, FluidError> {
    let failed = |e: crate::machine::MachineError| FluidError::Calibration(e.to_string());
    let mut machine = Machine::new(config.clone(), vec![made], vec![]).map_err(failed)?;
    machine.dispatch(0, Some(ProgramId(0)), 0);
    // Long enough for every job that is short; whether a longer one ends is seen by its signal.
    while let Some(notice) = machine.advance(LONGEST_JOB_PS) {
        match notice {
            Notice::Signal { signal: Signal::JobEnd, .. } => return Ok(Some(machine.now_ps())),
            Notice::Signal { .. } => machine.dispatch(0, Some(ProgramId(0)), 0),
            _ => {}
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
