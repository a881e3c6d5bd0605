//! A plan's time table on the simulated board: windows, prefetch, I/O, and whether the execution
//! kept the table's promises.
//!
//! Problem: a table is a promise about every execution, also about those in which activities are
//! late. Rule (single-core-equivalence, sections 2.4 and 5.0): each instance of each activity
//! begins late by a random part of its margin and then takes its whole duration. Windows are
//! entries of `time_table.h`, one table a core. Transfers are DMA orders of the I/O core, paced so
//! that each block takes the time that the plan grants it at worst; physical I/O takes only time.
//! Prefetch and lock is a program that reads as many lines as the plan charges, before all others
//! of its partition. Afterwards the execution is checked: order along chains, at most one activity
//! at a time on each resource, tasks inside their windows. Not covered: effects of devices on
//! caches, the lock instructions themselves.

mod transfers;
mod verify;

pub use transfers::unmanaged;

use crate::board::{Board, Place};
use crate::hardware::{DeviceId, Transfer};
use crate::kernel::KernelConfig;
use crate::kernel::config::{CoreTable, Release, SchedulerSpec, TransferSpec, Window};
use crate::plan::options::{PS, SimError};
use crate::program::PageKind;
use crate::workload::params::Spread;
use crate::workload::{Job, WorkloadSpec};
use solocore_dram::random::Random;
use solocore_model::Time;
use solocore_model::plan::Plan;
use solocore_model::plan::windows::WindowsPlan;
use solocore_model::windows::table::Stage;
use std::collections::BTreeMap;
use transfers::{Load, banks, engine};

/// Entries of a table (`SC_MAX_TASKS`).
const MOST_WINDOWS: usize = 4096;
/// Instances of all activities in one simulation.
const MOST_INSTANCES: u64 = 1 << 20;

/// One instance of an activity as it is executed.
#[derive(Clone, Copy, Debug)]
struct Instance {
    /// Row of the table.
    row: usize,
    /// Number of the instance.
    n: u64,
    start_ns: u64,
    /// Planned end, ns; the real end of a transfer is known afterwards.
    end_ns: u64,
}

/// A table ready to be executed.
pub struct Execution<'a> {
    windows: &'a WindowsPlan,
    instances: Vec<Instance>,
    duration_ns: u64,
    /// By DMA engine: indices of instances, in the order of their transfers.
    orders: Vec<Vec<usize>>,
    /// The first task of the prefetch programs, and their partitions.
    first_prefetch: usize,
    prefetches: Vec<usize>,
    lines: u64,
}

impl<'a> Execution<'a> {
    /// Draws the begins of all instances.
    ///
    /// # Errors
    /// When the plan has no table, or too many instances fall in this time.
    pub fn new(plan: &'a Plan, duration_ns: u64, seed: u64) -> Result<Option<Self>, SimError> {
        let Some(windows) = plan.windows() else { return Ok(None) };
        if windows.table.is_empty() {
            return Err(SimError::Input(
                "the plan has no time table, because none was found; simulate it with --unmanaged, or \
                    change the system and plan again"
                    .to_owned(),
            ));
        }
        let count: u64 = windows
            .table
            .iter()
            .map(|r| duration_ns / r.period_ns + 1)
            .fold(0, u64::saturating_add);
        if count > MOST_INSTANCES {
            return Err(SimError::Input(format!(
                "{count} activities lie in {}; simulate a shorter time with --duration",
                Time::from_ns(duration_ns)
            )));
        }
        let mut random = Random::new(seed ^ 0x7461_626c_6573);
        let mut instances = Vec::new();
        for (row, r) in windows.table.iter().enumerate() {
            let margin = windows.margin.of(r.stage);
            for (n, start) in (0u64..).map(|n| (n, r.offset_ns.saturating_add(n * r.period_ns))) {
                if start >= duration_ns {
                    break;
                }
                // A mistake would show at the extremes.
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
            windows,
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
        self.windows.partitions.iter().position(|p| p.name == name)
    }

    /// First arrival of the jobs of its tasks, ps.
    pub fn phase_ps(&self, name: &str) -> u64 {
        self.windows.window(name).map_or(0, |w| w.offset_ns.saturating_mul(PS))
    }

    /// Adds the parts that only the table needs, prefetch programs and DMA engines; sets scheduler
    /// and transfers.
    ///
    /// # Errors
    /// When the board has no room.
    pub fn set_up(
        &mut self,
        plan: &Plan,
        board: &mut Board,
        kernel: &mut KernelConfig,
    ) -> Result<(), SimError> {
        kernel.scheduler = SchedulerSpec::Windows { tables: self.tables(plan)? };
        self.first_prefetch = board.tasks();
        for (at, p) in self.windows.partitions.iter().enumerate() {
            let (Some(core), true) = (p.core, p.prefetch_accesses > 0) else { continue };
            self.prefetches.push(at);
            self.prefetch(plan, board, at, core)?;
        }
        kernel.transfers = self.transfers(plan, board)?;
        Ok(())
    }

    /// The windows of the partitions in this execution, with their cores.
    fn windows(&self) -> impl Iterator<Item = (u32, Window)> {
        self.instances.iter().filter_map(|instance| {
            let row = &self.windows.table[instance.row];
            let id = self.partition(&row.partition).filter(|_| row.stage == Stage::Processing)?;
            let (start_ps, end_ps) = (instance.start_ns * PS, instance.end_ns * PS);
            Some((self.windows.partitions[id].core?, Window { start_ps, end_ps, id }))
        })
    }

    fn tables(&self, plan: &Plan) -> Result<Vec<CoreTable>, SimError> {
        let mut windows: BTreeMap<u32, Vec<Window>> = BTreeMap::new();
        // One frame for the whole run, so that no window repeats.
        let latest =
            self.instances.iter().map(|i| i.end_ns).fold(self.duration_ns.max(1), u64::max);
        for (core, window) in self.windows() {
            windows.entry(core).or_default().push(window);
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

    /// The reads that the plan charges, at the start of each window, before all other tasks in it.
    fn prefetch(
        &self,
        plan: &Plan,
        board: &mut Board,
        at: usize,
        core: u32,
    ) -> Result<(), SimError> {
        let p = &self.windows.partitions[at];
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
        let Some(io) = self.windows.io_core else { return Ok(Vec::new()) };
        let mut engines: BTreeMap<(u32, u64), DeviceId> = BTreeMap::new();
        let mut specs = Vec::new();
        let mut order: Vec<usize> = (0..self.instances.len()).collect();
        order.sort_by_key(|&i| (self.instances[i].start_ns, i));
        for i in order {
            let instance = self.instances[i];
            let row = &self.windows.table[instance.row];
            if !row.is_transfer() {
                continue;
            }
            let load = Load::of(plan, self.windows, row);
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
            // Each instance begins at its own time: it is ordered once.
            specs.push(TransferSpec {
                device,
                order,
                phase_ps: instance.start_ns * PS,
                period_ps: u64::MAX,
            });
        }
        Ok(specs)
    }

    /// The partition of a prefetch program; `None` for other tasks.
    pub fn prefetch_of(&self, task: usize) -> Option<usize> {
        self.prefetches.get(task.checked_sub(self.first_prefetch)?).copied()
    }
}
