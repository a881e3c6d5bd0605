//! The interval machine: the same interface as the request-level one, for minutes of simulated
//! time.
//!
//! Problem: five minutes of four cores are 10^11 accesses. Rule: between two events every program
//! runs at a constant rate. Events are a timer of the kernel, the end of a phase, a counter's
//! overflow, the end of an overhead or a transfer, a change of a program's share of the cache. The
//! rates are a fixed point: each program's demand follows from the latency, and the latency from
//! all demands together (`solve`, [`curve`]). Programs are cycles of phases ([`program`]), measured
//! on the request-level machine ([`calibrate`]). `cache` gives the lines of the shared cache that
//! each program holds; `task` counts. Results do not depend on how [`Hardware::advance`] cuts time,
//! and are the same on every machine.
//!
//! Not covered: the banks and channels of a program, beyond their effect when it runs alone; hits
//! of one program on another's lines; invalidations by devices. A core that waits for data and so
//! takes an interrupt late (some 100 ns) is not covered either. [`error`] measures the resulting
//! error.

pub mod board;
mod cache;
pub mod calibrate;
mod counters;
pub mod curve;
mod device;
pub mod error;
mod hardware;
pub mod program;
mod solve;
mod store;
mod table;
mod task;
#[cfg(test)]
mod tests;

use crate::hardware::{Counters, DeviceId, Hardware, Notice, ProgramId};
use cache::{Caches, Share};
pub use curve::MemoryCurve;
pub use device::{FluidDevice, FluidStream};
pub use program::{Demand, FluidError, FluidProgram, GoOn, Phase};
use std::sync::Arc;
pub use store::measured_once;
use table::{DEVICE_LINES, Table};
use task::{Counts, FluidTask};

/// The board.
#[derive(Clone, Debug)]
pub struct FluidConfig {
    /// Cores, 1 to 256.
    pub cores: usize,
    /// Lines of each part of the shared cache; one part at least.
    pub partitions: Vec<u64>,
    /// The memory.
    pub curve: Arc<MemoryCurve>,
    /// Time of a line that a program reads from the shared cache into its private ones again, ps.
    pub refill_line_ps: u64,
}

/// Lines of one piece of a device's own traffic.
const PIECE: u64 = 1 << 24;

#[derive(Clone, Debug, Default)]
struct FluidCore {
    program: Option<usize>,
    /// Is the overhead over?
    active: bool,
    starts_ps: u64,
    /// The program's counters when it was dispatched here.
    dispatched: Counters,
    /// The core's counters at that dispatch.
    before: Counters,
    /// Lines of this core at which the counter overflows.
    armed: Option<u64>,
    last: Option<usize>,
    next_ps: u64,
}

#[derive(Clone, Debug)]
struct Device {
    task: FluidTask,
    stream: Option<FluidStream>,
    /// Lines and direction of the present order.
    order: Option<(u64, bool)>,
    next_ps: u64,
}

/// The interval machine.
#[derive(Debug)]
pub struct Fluid {
    now_ps: u64,
    cores: Vec<FluidCore>,
    tasks: Vec<FluidTask>,
    devices: Vec<Device>,
    caches: Caches,
    table: Table,
    /// Must the rates be found again?
    stale: bool,
    /// Units that run now, sorted, and the time and latency of each.
    set: Vec<u32>,
    solved: Vec<(f64, f64)>,
}

impl Fluid {
    /// A board with idle cores and an empty shared cache.
    ///
    /// # Errors
    /// A fault in the configuration, a program or a device.
    pub fn new(
        config: &FluidConfig,
        programs: &[FluidProgram],
        devices: &[FluidDevice],
    ) -> Result<Self, FluidError> {
        check(config, programs, devices)?;
        let table = Table::new(programs, devices, &config.curve, config.refill_line_ps);
        let share = |(p, e): (&FluidProgram, &table::Entry)| Share {
            lines: 0.0,
            footprint: match (e.footprint, e.pollutes) {
                (Some(lines), _) => lines as f64,
                (None, 0) => 1e15,
                (None, lines) => lines as f64,
            },
            level: 0,
            left_ps: 0,
            partition: p.partition,
            fills: 0.0,
            accesses: 0.0,
            running: false,
            sensitive: e.footprint.is_some(),
        };
        let shares = programs.iter().zip(&table.programs).map(share).collect();
        let mut fluid = Self {
            now_ps: 0,
            cores: vec![FluidCore { next_ps: u64::MAX, ..FluidCore::default() }; config.cores],
            tasks: vec![FluidTask::default(); programs.len()],
            devices: devices.iter().map(Device::new).collect(),
            caches: Caches::new(config.partitions.iter().map(|&l| l as f64).collect(), shares),
            table,
            stale: true,
            set: Vec::with_capacity(config.cores + devices.len()),
            solved: Vec::with_capacity(config.cores + devices.len()),
        };
        for program in 0..programs.len() {
            fluid.enter(program, 0, 0);
        }
        Ok(fluid)
    }

    /// Moves a program to another part of the shared cache, where it holds nothing yet (for page
    /// colours that change).
    ///
    /// # Errors
    /// When there is no such program or part.
    pub fn relocate(&mut self, program: ProgramId, partition: usize) -> Result<(), FluidError> {
        let index = program.0 as usize;
        if index >= self.tasks.len() || partition >= self.caches.capacity.len() {
            return Err(FluidError::Config(format!(
                "relocate: there is no program {index} or no partition {partition}; there are {} \
                    and {}",
                self.tasks.len(),
                self.caches.capacity.len()
            )));
        }
        self.caches.integrate(self.now_ps);
        self.caches.relocate(index, partition);
        self.stale = true;
        Ok(())
    }

    /// Lines of the shared cache that a program holds, rounded down.
    #[must_use]
    pub fn cache_lines(&self, program: ProgramId) -> u64 {
        // A query must not change the steps of time.
        let mut caches = self.caches.clone();
        caches.integrate(self.now_ps);
        caches.shares[program.0 as usize].lines as u64
    }

    fn counts(&self, program: usize, phase: usize) -> Counts {
        let entry = &self.table.programs[program];
        self.table.counts[entry.unit(phase, self.caches.shares[program].level)]
    }

    fn enter(&mut self, program: usize, phase: usize, position: u64) {
        let counts = self.counts(program, phase);
        self.tasks[program].enter(self.now_ps, phase, position, counts);
    }

    /// Finds the rates from now on.
    fn solve(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.caches.integrate(self.now_ps);
        let mut set = std::mem::take(&mut self.set);
        set.clear();
        for core in self.cores.iter().filter(|c| c.active) {
            if let Some(p) = core.program {
                self.caches.shares[p].settle();
                set.push(self.unit_of(p) as u32);
            }
        }
        let devices = self.table.devices;
        let running =
            self.devices.iter().enumerate().filter_map(|(i, d)| d.order.map(|(_, into)| (i, into)));
        set.extend(running.map(|(i, into)| (devices + 2 * i + usize::from(into)) as u32));
        set.sort_unstable();
        self.solved.clear();
        self.solved.extend_from_slice(self.table.solve(&set));
        self.set = set;
        self.apply();
        self.caches.plan();
        for core in 0..self.cores.len() {
            self.plan(core);
        }
    }

    fn unit_of(&self, program: usize) -> usize {
        self.table.programs[program]
            .unit(self.tasks[program].phase, self.caches.shares[program].level)
    }

    /// Time and latency of a unit that runs, ps.
    fn rate(&self, unit: usize) -> (f64, f64) {
        self.solved[self.set.partition_point(|&u| (u as usize) < unit)]
    }

    /// Sets the speeds from the solution.
    fn apply(&mut self) {
        for i in 0..self.cores.len() {
            let (true, Some(p)) = (self.cores[i].active, self.cores[i].program) else { continue };
            let unit = self.unit_of(p);
            let (time, latency) = self.rate(unit);
            let counts = self.table.counts[unit];
            let (period, latency) = (round_up(time), latency as u64);
            self.tasks[p].run(
                self.now_ps,
                period,
                latency,
                counts.lines,
                counts.misses,
                counts.reads,
            );
            let share = &mut self.caches.shares[p];
            share.running = true;
            share.fills = counts.misses as f64 / 65536.0 / period as f64;
            share.accesses = counts.llc_accesses as f64 / period as f64;
        }
        for (i, device) in self.devices.iter_mut().enumerate() {
            let Some((lines, into)) = device.order else { continue };
            let unit = self.table.devices + 2 * i + usize::from(into);
            let (time, latency) = self.solved[self.set.partition_point(|&u| (u as usize) < unit)];
            let period = round_up(time * lines as f64 / DEVICE_LINES);
            device.task.run(
                self.now_ps,
                period,
                latency as u64,
                lines << 16,
                0,
                self.table.counts[unit].reads,
            );
            device.plan();
        }
    }

    /// Finds a core's next event.
    fn plan(&mut self, core: usize) {
        let c = &self.cores[core];
        let mut next = u64::MAX;
        if let Some(p) = c.program {
            let task = &self.tasks[p];
            next = if c.active { task.end_ps() } else { c.starts_ps };
            if let (Some(armed), true) = (c.armed, c.active) {
                let target = armed - c.before.transactions() + c.dispatched.transactions();
                next = next.min(task.lines_ps(target).unwrap_or(u64::MAX));
            }
        }
        if c.armed.is_some_and(|n| self.lines(core) >= n) {
            next = self.now_ps;
        }
        self.cores[core].next_ps = next.max(self.now_ps);
    }

    /// DRAM lines of a core so far.
    fn lines(&self, core: usize) -> u64 {
        let c = &self.cores[core];
        let before = c.before.transactions();
        c.program.map_or(before, |p| {
            before + self.tasks[p].lines(self.now_ps) - c.dispatched.transactions()
        })
    }

    /// Takes the program off a core.
    fn detach(&mut self, core: usize) {
        let counters = self.core(core);
        let c = &mut self.cores[core];
        if let Some(p) = c.program.take() {
            c.before = counters;
            c.active = false;
            self.caches.integrate(self.now_ps);
            self.tasks[p].stop(self.now_ps);
            let share = &mut self.caches.shares[p];
            (share.running, share.left_ps) = (false, self.now_ps);
            self.stale = true;
        }
    }

    /// Handles the next event of a core: its overflow, then the end of its phase.
    fn core_event(&mut self, core: usize) -> Option<Notice> {
        if self.cores[core].armed.is_some_and(|n| self.lines(core) >= n) {
            self.cores[core].armed = None;
            self.plan(core);
            return Some(Notice::Overflow { core });
        }
        let program = self.cores[core].program?;
        if !self.cores[core].active {
            if self.cores[core].starts_ps <= self.now_ps {
                self.cores[core].active = true;
                self.stale = true;
            }
            return None;
        }
        if self.tasks[program].position(self.now_ps) < task::WHOLE {
            // Solved again meanwhile: it is planned again.
            self.plan(core);
            return None;
        }
        self.end_phase(core, program)
    }

    fn end_phase(&mut self, core: usize, program: usize) -> Option<Notice> {
        let before = self.unit_of(program);
        let phase = self.tasks[program].phase;
        let entry = &self.table.programs[program];
        let end = entry.ends[phase];
        let (next, position) = match self.tasks[program].resume.take() {
            Some(back) => back,
            None => ((phase + 1) % entry.refill(), 0),
        };
        if let Some(signal) = end {
            self.detach(core);
            self.enter(program, next, position);
            self.plan(core);
            return Some(Notice::Signal { core, program: ProgramId(program as u32), signal });
        }
        self.enter_running(core, program, next, position, before);
        None
    }

    /// Enters a phase on a core. If the phase is the same as before, no other program's rate
    /// changes.
    fn enter_running(
        &mut self,
        core: usize,
        program: usize,
        phase: usize,
        position: u64,
        before: usize,
    ) {
        let same =
            !self.stale && self.unit_of(program) == before && phase == self.tasks[program].phase;
        self.enter(program, phase, position);
        if same {
            let (time, latency) = self.rate(before);
            let counts = self.table.counts[before];
            let period = round_up(time);
            self.tasks[program].run(
                self.now_ps,
                period,
                latency as u64,
                counts.lines,
                counts.misses,
                counts.reads,
            );
            self.plan(core);
        } else {
            self.stale = true;
        }
    }

    fn next_ps(&self) -> u64 {
        let cores = self.cores.iter().map(|c| c.next_ps);
        let devices = self.devices.iter().map(|d| d.next_ps);
        cores.chain(devices).fold(self.caches.next_ps, u64::min).max(self.now_ps)
    }

    fn device_event(&mut self, index: usize) -> Option<Notice> {
        let device = &mut self.devices[index];
        self.stale = true;
        let ended = device.order.is_some() && device.task.position(self.now_ps) == task::WHOLE;
        if let Some(stream) = device.stream {
            let on = self.now_ps < stream.stop_ps && self.now_ps >= stream.start_ps;
            if !on || ended {
                device.task.stop(self.now_ps);
                device.order = None;
            }
            if on && device.order.is_none() {
                device.start(self.now_ps, PIECE, stream.into_memory);
            }
            device.next_ps = if self.now_ps >= stream.stop_ps { u64::MAX } else { device.next_ps };
            return None;
        }
        if !ended {
            return None;
        }
        device.task.stop(self.now_ps);
        device.order = None;
        device.next_ps = u64::MAX;
        Some(Notice::Transferred { device: DeviceId(index as u32) })
    }
}

impl Device {
    fn new(device: &FluidDevice) -> Self {
        let next_ps = device.stream.map_or(u64::MAX, |s| s.start_ps);
        Self { task: FluidTask::default(), stream: device.stream, order: None, next_ps }
    }

    fn start(&mut self, now_ps: u64, lines: u64, into_memory: bool) {
        let reads = if into_memory { 0 } else { 1 << 64 };
        self.order = Some((lines, into_memory));
        self.task.enter(now_ps, 0, 0, Counts { lines: lines << 16, reads, ..Counts::default() });
    }

    fn plan(&mut self) {
        let stop = self.stream.map_or(u64::MAX, |s| s.stop_ps);
        self.next_ps = self.task.end_ps().min(stop);
    }
}

/// Time as an integer, at least 1 ps.
fn round_up(ps: f64) -> u64 {
    let whole = ps as u64;
    if (whole as f64) < ps || whole == 0 { whole + 1 } else { whole }
}

fn check(
    config: &FluidConfig,
    programs: &[FluidProgram],
    devices: &[FluidDevice],
) -> Result<(), FluidError> {
    if !(1..=256).contains(&config.cores) {
        return Err(FluidError::Config(format!("cores = {}; give 1 to 256", config.cores)));
    }
    if config.partitions.is_empty() || config.partitions.iter().any(|&l| l == 0 || l > 1 << 40) {
        return Err(FluidError::Config(
            "partitions: give one at least, each of 1 to 2^40 lines".to_owned(),
        ));
    }
    if config.refill_line_ps > 1_000_000_000 {
        return Err(FluidError::Config("refill_line_ps is above a millisecond".to_owned()));
    }
    for (index, p) in programs.iter().enumerate() {
        let refuse = |message| FluidError::Program { index, name: p.name.clone(), message };
        p.check().map_err(refuse)?;
        if p.partition >= config.partitions.len() {
            return Err(refuse(format!(
                "partition = {}; there are {}",
                p.partition,
                config.partitions.len()
            )));
        }
    }
    for (index, d) in devices.iter().enumerate() {
        if d.outstanding == 0 || d.line_ps > 1_000_000_000_000 {
            return Err(FluidError::Device {
                index,
                name: d.name.clone(),
                message: "give outstanding of 1 at least and line_ps of a second at most"
                    .to_owned(),
            });
        }
    }
    Ok(())
}
