//! A plan's time table on the simulated board: windows, prefetch, I/O, and whether the execution
//! kept the table's promises.
//!
//! Problem: a table is a promise about every execution, also about those in which activities are
//! late. Rule (single-core-equivalence, sections 2.4 and 5.0): each instance of each activity
//! begins late by a random part of its margin and then takes its whole duration. Windows are
//! entries of `time_table.h`, one table a core; transfers are DMA orders of the I/O core, paced so
//! that each block takes what the plan grants it at worst; physical I/O takes time and nothing
//! else. Prefetch and lock is a program that reads as many lines as the plan charges, before all
//! others of its partition. Afterwards all that happened is checked: order along chains, nothing
//! twice at a time on any resource, tasks inside their windows.
//! Not covered: what devices do to caches, lock instructions themselves.

use crate::board::{Board, Place};
use crate::hardware::{DeviceId, Notice, Transfer};
use crate::kernel::config::{CoreTable, Release, TransferSpec, Window};
use crate::kernel::{KernelConfig, Observer, Timeline, config::SchedulerSpec};
use crate::machine::DmaSpec;
use crate::plan::SimError;
use crate::program::PageKind;
use crate::workload::params::Spread;
use crate::workload::{Job, WorkloadSpec};
use solocore_dram::random::Random;
use solocore_model::Time;
use solocore_model::plan::Plan;
use solocore_model::plan::windows::{PlanTransfer, WindowsPlan};
use solocore_model::results::{Activity, IoResult};
use solocore_model::time_table::{Row, Stage};
use std::collections::{BTreeMap, HashMap};

const PS: u64 = 1000;
/// Entries of a table (`SC_MAX_TASKS`).
const MOST_WINDOWS: usize = 4096;
/// Instances of all activities in one simulation.
const MOST_INSTANCES: u64 = 1 << 20;
/// Pages of a DMA engine's buffer.
const BUFFER_PAGES: u32 = 16;

/// One instance of an activity as it is executed.
#[derive(Clone, Copy, Debug)]
struct Instance {
    /// Row of the table.
    row: usize,
    /// Which instance.
    n: u64,
    start_ns: u64,
    /// Planned for it; a transfer's real end is known afterwards.
    end_ns: u64,
}

/// A table ready to be executed.
pub struct Execution<'a> {
    sce: &'a WindowsPlan,
    instances: Vec<Instance>,
    duration_ns: u64,
    /// By DMA engine: indices of instances in the order of their orders.
    orders: Vec<Vec<usize>>,
    /// The first task of the prefetch programs, and their partitions.
    first_prefetch: usize,
    prefetches: Vec<usize>,
    lines: u64,
}

impl<'a> Execution<'a> {
    /// Draws when everything begins.
    ///
    /// # Errors
    /// When the plan has no table, or too much happens in this time.
    pub fn new(plan: &'a Plan, duration_ns: u64, seed: u64) -> Result<Option<Self>, SimError> {
        let Some(sce) = plan.windows() else { return Ok(None) };
        if sce.table.is_empty() {
            return Err(SimError::Input(
                "the plan has no time table, as none was found; simulate it with --unmanaged, or \
                    change the system and plan again"
                    .to_owned(),
            ));
        }
        let count: u64 =
            sce.table.iter().map(|r| duration_ns / r.period_ns + 1).fold(0, u64::saturating_add);
        if count > MOST_INSTANCES {
            return Err(SimError::Input(format!(
                "{count} activities lie in {}; simulate a shorter time with --duration",
                Time::from_ns(duration_ns)
            )));
        }
        let mut random = Random::new(seed ^ 0x7461_626c_6573);
        let mut instances = Vec::new();
        for (row, r) in sce.table.iter().enumerate() {
            let margin = sce.margin.of(r.stage);
            for (n, start) in (0u64..).map(|n| (n, r.offset_ns.saturating_add(n * r.period_ns))) {
                if start >= duration_ns {
                    break;
                }
                // The extremes are where a mistake would show.
                let late = match random.below(4) {
                    0 => 0,
                    1 => margin,
                    _ => random.below(margin + 1),
                };
                let start_ns = start + late;
                instances.push(Instance {
                    row,
                    n,
                    start_ns,
                    end_ns: start_ns + r.duration_ns - margin,
                });
            }
        }
        let (orders, prefetches) = (Vec::new(), Vec::new());
        Ok(Some(Self {
            sce,
            instances,
            duration_ns,
            orders,
            first_prefetch: 0,
            prefetches,
            lines: 0,
        }))
    }

    /// Index of a partition.
    pub fn partition(&self, name: &str) -> Option<usize> {
        self.sce.partitions.iter().position(|p| p.name == name)
    }

    /// When the jobs of its tasks arrive first.
    pub fn phase_ps(&self, name: &str) -> u64 {
        self.sce.window(name).map_or(0, |w| w.offset_ns.saturating_mul(PS))
    }

    /// Adds what only the table asks for: prefetch programs and DMA engines; sets scheduler and
    /// transfers.
    ///
    /// # Errors
    /// When the board has no room.
    pub fn set_up(
        &mut self,
        plan: &Plan,
        board: &mut Board,
        kernel: &mut KernelConfig,
    ) -> Result<(), SimError> {
        kernel.scheduler = SchedulerSpec::TimeTable { tables: self.tables(plan)? };
        self.first_prefetch = board.tasks();
        for (at, p) in self.sce.partitions.iter().enumerate() {
            let (Some(core), true) = (p.core, p.prefetch_accesses > 0) else { continue };
            self.prefetches.push(at);
            self.prefetch(plan, board, at, core)?;
        }
        kernel.transfers = self.transfers(plan, board)?;
        Ok(())
    }

    fn tables(&self, plan: &Plan) -> Result<Vec<CoreTable>, SimError> {
        let mut windows: BTreeMap<u32, Vec<Window>> = BTreeMap::new();
        // One frame for all of it, so that nothing repeats.
        let latest =
            self.instances.iter().map(|i| i.end_ns).fold(self.duration_ns.max(1), u64::max);
        for instance in &self.instances {
            let row = &self.sce.table[instance.row];
            let Some(id) =
                self.partition(&row.partition).filter(|_| row.stage == Stage::Processing)
            else {
                continue;
            };
            let Some(core) = self.sce.partitions[id].core else { continue };
            let (start_ps, end_ps) = (instance.start_ns * PS, instance.end_ns * PS);
            windows.entry(core).or_default().push(Window { start_ps, end_ps, id });
        }
        for task in &plan.tasks {
            let id = task.partition.as_ref().and_then(|name| self.partition(name));
            if !windows.get(&task.core).is_some_and(|w| w.iter().any(|w| Some(w.id) == id)) {
                return Err(SimError::Input(format!(
                    "the first window of task `{}` lies beyond the simulated time; simulate a \
                        longer one with --duration",
                    task.name
                )));
            }
        }
        windows
            .into_iter()
            .map(|(core, mut windows)| {
                if windows.len() > MOST_WINDOWS {
                    return Err(SimError::Input(format!(
                        "core {core} has {} windows in this time, and a table holds \
                            {MOST_WINDOWS}; simulate a shorter time with --duration",
                        windows.len()
                    )));
                }
                windows.sort_by_key(|w| w.start_ps);
                Ok(CoreTable { core: core as usize, frame_ps: latest * PS, windows })
            })
            .collect()
    }

    /// As many reads as the plan charges, at the start of each window, before everything else in
    /// it.
    fn prefetch(
        &self,
        plan: &Plan,
        board: &mut Board,
        at: usize,
        core: u32,
    ) -> Result<(), SimError> {
        let p = &self.sce.partitions[at];
        let platform = &plan.platform;
        let each = platform.dram.latency_max.ps() + platform.cycles_to_ps(platform.llc.latency.0);
        let spec = WorkloadSpec::Spread(Spread {
            wcet: Some(Time::from_ps(p.prefetch_accesses.saturating_mul(each))),
            misses: Some(p.prefetch_accesses),
            job: Some(Job::Passes(1)),
        });
        let place =
            Place { banks: banks(plan, core as usize), kind: PageKind::Bypass, ..Place::default() };
        let index = board
            .add_at(&format!("prefetch of {}", p.name), &spec, &place)
            .map_err(SimError::from)?;
        let phase_ps = self.phase_ps(&p.name);
        let task = board.task(index);
        task.core = Some(core as usize);
        task.partition = Some(at);
        task.release = Release::Periodic { period_ps: p.period_ns * PS, phase_ps, jitter_ps: 0 };
        Ok(())
    }

    fn transfers(&mut self, plan: &Plan, board: &mut Board) -> Result<Vec<TransferSpec>, SimError> {
        let Some(io) = self.sce.io_core else { return Ok(Vec::new()) };
        let mut engines: BTreeMap<(u32, u64), DeviceId> = BTreeMap::new();
        let mut specs = Vec::new();
        let mut order: Vec<usize> = (0..self.instances.len()).collect();
        order.sort_by_key(|&i| (self.instances[i].start_ns, i));
        for i in order {
            let instance = self.instances[i];
            let row = &self.sce.table[instance.row];
            if !row.is_transfer() {
                continue;
            }
            let load = Load::of(plan, self.sce, row);
            if load.lines == 0 {
                continue;
            }
            let device = match engines.get(&(load.block_lines, load.wait_ps)) {
                Some(device) => *device,
                None => {
                    let device =
                        engine(plan, board, io as usize, load.block_lines, load.wait_ps, 1)?;
                    engines.insert((load.block_lines, load.wait_ps), device);
                    device
                }
            };
            if self.orders.len() <= device.0 as usize {
                self.orders.resize(device.0 as usize + 1, Vec::new());
            }
            self.orders[device.0 as usize].push(i);
            self.lines += load.lines;
            let order = Transfer {
                offset_lines: 0,
                lines: load.lines,
                into_memory: row.stage == Stage::DeviceInput,
            };
            // Each instance begins when it does: it is ordered once.
            specs.push(TransferSpec {
                device,
                order,
                phase_ps: instance.start_ns * PS,
                period_ps: u64::MAX,
            });
        }
        Ok(specs)
    }

    /// Is this a prefetch program, and of which partition?
    pub fn prefetch_of(&self, task: usize) -> Option<usize> {
        self.prefetches.get(task.checked_sub(self.first_prefetch)?).copied()
    }

    /// What happened, against the rules.
    pub fn verify(mut self, watch: &Watch, end_ns: u64) -> IoResult {
        let mut found = watch.outside.clone();
        let done: HashMap<u32, Vec<u64>> =
            watch.transferred.iter().fold(HashMap::new(), |mut all, (device, at)| {
                all.entry(device.0).or_default().push(*at);
                all
            });
        let mut transfers = 0;
        for (device, orders) in (0u32..).zip(&self.orders) {
            let ends = done.get(&device).map_or(&[][..], Vec::as_slice);
            transfers += ends.len() as u64;
            for (k, &i) in orders.iter().enumerate() {
                let planned = self.instances[i].end_ns;
                match ends.get(k) {
                    Some(at) => self.instances[i].end_ns = at.div_ceil(PS),
                    None if planned <= end_ns => {
                        found.push(format!(
                            "{} had not ended by {}",
                            self.name(i),
                            Time::from_ns(end_ns)
                        ));
                    }
                    None => {}
                }
            }
        }
        found.extend(self.overlaps());
        found.extend(self.precedence());
        IoResult {
            activities: self.instances.len() as u64,
            transfers,
            lines: self.lines,
            violations: found.len() as u64,
            first_violation: found.into_iter().next(),
        }
    }

    fn name(&self, i: usize) -> String {
        let instance = &self.instances[i];
        let row = &self.sce.table[instance.row];
        let chain = row.chain.map_or(String::new(), |k| format!(" of chain {k}"));
        format!(
            "{}{chain} of `{}` at {}",
            row.stage.name(),
            row.partition,
            Time::from_ns(instance.start_ns)
        )
    }

    /// Two at a time on one resource.
    fn overlaps(&self) -> Vec<String> {
        let mut on: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, instance) in self.instances.iter().enumerate() {
            on.entry(&self.sce.table[instance.row].resource).or_default().push(i);
        }
        let mut found = Vec::new();
        for (resource, mut all) in on {
            all.sort_by_key(|&i| self.instances[i].start_ns);
            for pair in all.windows(2) {
                let (a, b) = (self.instances[pair[0]], self.instances[pair[1]]);
                if b.start_ns < a.end_ns {
                    let until = Time::from_ns(a.end_ns);
                    found.push(format!(
                        "{resource}: {} while {} ran until {until}",
                        self.name(pair[1]),
                        self.name(pair[0])
                    ));
                }
            }
        }
        found
    }

    /// Instances of one chain that begin before the one before them has ended.
    fn precedence(&self) -> Vec<String> {
        let mut chains: BTreeMap<(&str, usize, u64), Vec<usize>> = BTreeMap::new();
        let mut windows: HashMap<(&str, u64), usize> = HashMap::new();
        for (i, instance) in self.instances.iter().enumerate() {
            let row = &self.sce.table[instance.row];
            match row.chain {
                Some(chain) => {
                    chains.entry((&row.partition, chain, instance.n)).or_default().push(i)
                }
                None => {
                    windows.insert((&row.partition, instance.n), i);
                }
            }
        }
        let mut found = Vec::new();
        for ((partition, _, n), mut path) in chains {
            path.extend(windows.get(&(partition, n)));
            path.sort_by_key(|&i| self.sce.table[self.instances[i].row].stage);
            for pair in path.windows(2) {
                let (a, b) = (self.instances[pair[0]], self.instances[pair[1]]);
                if b.start_ns < a.end_ns {
                    let until = Time::from_ns(a.end_ns);
                    found.push(format!(
                        "{} before {} ended at {until}",
                        self.name(pair[1]),
                        self.name(pair[0])
                    ));
                }
            }
        }
        found
    }

    /// Watches an execution of it.
    pub fn watch(&self, plan: &Plan, timeline: Timeline) -> Watch {
        let mut windows: HashMap<usize, Vec<(u64, u64, usize)>> = HashMap::new();
        for instance in &self.instances {
            let row = &self.sce.table[instance.row];
            let Some(id) =
                self.partition(&row.partition).filter(|_| row.stage == Stage::Processing)
            else {
                continue;
            };
            let Some(core) = self.sce.partitions[id].core else { continue };
            windows.entry(core as usize).or_default().push((
                instance.start_ns * PS,
                instance.end_ns * PS,
                id,
            ));
        }
        windows.values_mut().for_each(|w| w.sort_unstable());
        let of = |t: &solocore_model::plan::PlanTask| {
            t.partition.as_ref().and_then(|name| self.partition(name))
        };
        let mut partition_of: Vec<Option<usize>> = plan.tasks.iter().map(of).collect();
        partition_of.truncate(self.first_prefetch);
        partition_of.extend(self.prefetches.iter().map(|&p| Some(p)));
        Watch { timeline, transferred: Vec::new(), windows, partition_of, outside: Vec::new() }
    }
}

/// Banks of a core, where each core has its own.
fn banks(plan: &Plan, core: usize) -> Option<Vec<u32>> {
    let private = plan.cores.iter().all(|c| c.banks.is_some());
    let (first, count) = plan.cores.get(core)?.banks.filter(|_| private)?;
    Some((first..first + count).collect())
}

fn engine(
    plan: &Plan,
    board: &mut Board,
    io: usize,
    block_lines: u32,
    wait_ps: u64,
    outstanding: u32,
) -> Result<DeviceId, SimError> {
    let name = "DMA of the I/O core";
    let place = Place { banks: banks(plan, io), ..Place::default() };
    let frames = board.pages(name, BUFFER_PAGES, &place)?;
    let spec = DmaSpec {
        name: name.to_owned(),
        frames,
        block_lines,
        wait_ps,
        outstanding,
        autonomous: None,
    };
    Ok(board.device(spec))
}

/// What a transfer moves, and how fast.
struct Load {
    lines: u64,
    block_lines: u32,
    wait_ps: u64,
}

impl Load {
    /// A paced transfer moves its bytes: each block may take, with its wait, what the plan grants
    /// it, of which its lines take `m * L_max` each at worst. One of a stated time moves as many
    /// lines as surely fit.
    fn of(plan: &Plan, sce: &WindowsPlan, row: &Row) -> Self {
        let m = u64::from(plan.regulation.active_cores.max(1));
        let service_ps = plan.platform.dram.latency_max.ps();
        let line_ps = service_ps.saturating_mul(m).max(1);
        // Line by line at the I/O core's share: each waits for the others' turns.
        let turns_ps = line_ps.saturating_sub(service_ps);
        let line = plan.platform.llc.line.0;
        let same = |t: &&PlanTransfer| {
            t.partition == row.partition && Some(t.chain) == row.chain && t.stage == row.stage
        };
        let paced = sce
            .transfers
            .iter()
            .find(same)
            .and_then(|t| Some((t.bytes?, t.block_bytes?, t.block_ps?)));
        let Some((bytes, block, block_ps)) = paced else {
            let length =
                row.duration_ns.saturating_sub(sce.margin.of(row.stage)).saturating_mul(PS);
            return Self { lines: length / line_ps, block_lines: 1, wait_ps: turns_ps };
        };
        // Blocks shorter than a line wait several times for each.
        let block_lines = (block / line).max(1);
        let block_ps =
            if block < line { block_ps.saturating_mul(line / block.max(1)) } else { block_ps };
        Self {
            lines: bytes.div_ceil(line),
            block_lines: 1,
            wait_ps: (block_ps / block_lines).saturating_sub(service_ps).max(turns_ps),
        }
    }
}

/// The same I/O on the plain machine: each device moves its data at once when a period begins, at
/// full speed.
///
/// # Errors
/// When the board has no room.
pub fn unmanaged(
    plan: &Plan,
    board: &mut Board,
    kernel: &mut KernelConfig,
) -> Result<(), SimError> {
    let Some(sce) = plan.windows() else { return Ok(()) };
    let mut engines: BTreeMap<String, DeviceId> = BTreeMap::new();
    for row in sce.table.iter().filter(|r| r.is_transfer()) {
        let load = Load::of(plan, sce, row);
        if load.lines == 0 {
            continue;
        }
        // The device is that of the physical half of the same chain.
        let physical = if row.stage == Stage::DeviceInput {
            Stage::PhysicalInput
        } else {
            Stage::PhysicalOutput
        };
        let half =
            |r: &&Row| r.partition == row.partition && r.chain == row.chain && r.stage == physical;
        let name = sce
            .table
            .iter()
            .find(half)
            .map_or_else(|| row.resource.clone(), |r| r.resource.clone());
        let device = match engines.get(&name) {
            Some(device) => *device,
            None => {
                let place = Place::default();
                let frames = board.pages(&name, BUFFER_PAGES, &place)?;
                let spec = DmaSpec {
                    name: name.clone(),
                    frames,
                    block_lines: 16,
                    wait_ps: 0,
                    outstanding: 8,
                    autonomous: None,
                };
                *engines.entry(name).or_insert(board.device(spec))
            }
        };
        let order = Transfer {
            offset_lines: 0,
            lines: load.lines,
            into_memory: row.stage == Stage::DeviceInput,
        };
        kernel.transfers.push(TransferSpec {
            device,
            order,
            phase_ps: 0,
            period_ps: row.period_ns * PS,
        });
    }
    Ok(())
}

/// Records the schedule, the ends of transfers, and tasks outside their windows.
pub struct Watch {
    /// The schedule.
    pub timeline: Timeline,
    transferred: Vec<(DeviceId, u64)>,
    /// By core: start, end and partition.
    windows: HashMap<usize, Vec<(u64, u64, usize)>>,
    partition_of: Vec<Option<usize>>,
    outside: Vec<String>,
}

impl Observer for Watch {
    fn noticed(&mut self, notice: Notice, now_ps: u64) {
        if let Notice::Transferred { device } = notice {
            self.transferred.push((device, now_ps));
        }
    }

    fn stretch(
        &mut self,
        core: usize,
        task: usize,
        activity: Activity,
        start_ps: u64,
        end_ps: u64,
    ) {
        self.timeline.stretch(core, task, activity, start_ps, end_ps);
        let partition = self.partition_of.get(task).copied().flatten();
        let windows = self.windows.get(&core).map_or(&[][..], Vec::as_slice);
        let at = windows.partition_point(|w| w.0 <= start_ps);
        let inside = at.checked_sub(1).is_some_and(|at| {
            let (_, end, id) = windows[at];
            end_ps <= end && Some(id) == partition
        });
        if !inside && self.outside.len() < 1000 {
            self.outside.push(format!(
                "core {core}: task {task} ran from {} to {}, which is not inside a window of its \
                    partition",
                Time::from_ps(start_ps),
                Time::from_ps(end_ps)
            ));
        }
    }
}
