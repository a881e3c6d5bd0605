//! The kernel of a simulated system: it releases jobs, lets a scheduler choose and a regulator
//! stop, and counts.
//!
//! Problem: the papers' systems run the same programs on the same boards, under five schedulers and
//! three regulators. Rule: this module is mechanism only (timers, releases, dispatch, counters,
//! costs, statistics) over any [`Hardware`]; every decision is a call of `solocore-policy`, in
//! [`config::SchedulerSpec`]'s and [`config::RegulatorSpec`]'s implementations.
//!
//! Order of an instant: all notices of the hardware, then timers (regulation period, messages,
//! overflows, budgets, releases, wake-ups, transfers, schedulers' timers; lower number first). When
//! no timer is due any more, one decision follows: dirty cores pick, tasks leave and enter cores,
//! jobs start, regulators answer, the hardware is told. A notice that comes at the same time
//! afterwards starts another round. The same configuration and seed give the same calls, on any
//! machine.
//!
//! Not covered: interrupts that are disabled, nested interrupts (costs of one instant add up),
//! blocking between tasks. Nor the time that a core needs to stop while it waits for data (the
//! hardware's; statistics count from the decision).

pub mod config;
mod cores;
mod decide;
mod decisions;
mod devices;
mod events;
mod observer;
mod regulator;
mod releases;
mod scheduler;
mod setup;
mod slots;
mod statistics;
mod task;
mod timers;
mod triggers;

#[cfg(test)]
mod test_board;
#[cfg(test)]
mod tests;

pub use config::{KernelConfig, KernelError, TaskSpec};
pub use decisions::Decisions;
pub use observer::{JobReport, Observer, RunMode, Stretch, Timeline, Unobserved};
pub use statistics::{CoreStatistics, Distribution, KernelResult, TaskStatistics};

use crate::hardware::Hardware;
use config::Costs;
use cores::CoreSet;
use devices::Devices;
use regulator::{Message, Regulator};
use scheduler::{Pick, Scheduler};
use slots::Slots;
use std::collections::VecDeque;
use task::KernelTask;
use timers::Timers;
use triggers::Triggers;

/// Limits of the simulated time, ps, and of the rounds between two reports of progress. A report
/// comes within about a second of wall time.
const MIN_STEP_PS: u64 = 1_000_000;
const MAX_STEP_PS: u64 = 10_000_000_000;
const MAX_ROUNDS: u32 = 1 << 12;
/// Events at one instant that show a fault.
const STUCK: u32 = 1_000_000;

/// The kernel's knowledge of a core.
struct KernelCore {
    /// The scheduler's choice, and its mode.
    chosen: Option<usize>,
    mode: RunMode,
    /// Has the regulator stopped it?
    stopped: bool,
    /// The task that the hardware runs.
    dispatched: Option<usize>,
    /// The hardware waits for a dispatch: the program has given a signal, or an interrupt has a
    /// cost.
    redispatch: bool,
    /// The last task chosen.
    last_task: Option<usize>,
    /// A pick that has not taken effect yet.
    planned: Option<Pick>,
    /// Time up to which times have been added up.
    since_ps: u64,
    /// Start of the observer's stretch.
    stretch_ps: u64,
    /// Time until which the core does the kernel's work.
    overhead_until_ps: u64,
    /// The part of it that the hardware has not been told.
    untold_ps: u64,
    /// Time until which that work is a switch, which is not a job's execution.
    switch_until_ps: u64,
    /// Reads and writes reported to the regulator.
    reads: u64,
    writes: u64,
    /// Accesses at the start of the counting period.
    period_start: u64,
    /// The counter has overflowed, the interrupt has not come yet.
    overflowing: bool,
    statistics: CoreStatistics,
}

/// A system that runs. See the module.
pub struct Kernel<H: Hardware> {
    hardware: H,
    now_ps: u64,
    start_ps: u64,
    tasks: Vec<KernelTask>,
    /// Index of the task of each program.
    task_of: Vec<Option<usize>>,
    cores: Vec<KernelCore>,
    scheduler: Box<dyn Scheduler>,
    regulator: Box<dyn Regulator>,
    regulated: bool,
    modes: bool,
    costs: Costs,
    /// Counting period.
    period_ps: Option<u64>,
    monitor_ps: Option<u64>,
    timers: Timers,
    slots: Slots,
    triggers: Triggers,
    devices: Devices,
    /// Messages on their way: arrival, message, sending core.
    messages: VecDeque<(u64, Message, usize)>,
    /// Cores that must pick.
    dirty: CoreSet,
    /// Cores that have picked.
    repicked: CoreSet,
    /// Cores for which the regulator or the hardware must be called.
    touched: CoreSet,
    /// Buffer for [`Scheduler::take_ended`].
    ended: Vec<usize>,
    last_task: usize,
    events: u64,
    vcpu_migrations: u64,
}

impl<H: Hardware> Kernel<H> {
    /// Runs until `until_ps`, and can be called again with a later time. `progress` is called from
    /// time to time with the simulated time, and stops the run by answering false. Timers that are
    /// due at `until_ps` belong to the next call.
    ///
    /// # Errors
    /// [`KernelError::Stuck`] or [`KernelError::Interrupted`].
    pub fn run(
        &mut self,
        until_ps: u64,
        observer: &mut dyn Observer,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), KernelError> {
        // The hardware returns from time to time even without an event, so that progress can be
        // told.
        let step_ps = (until_ps.saturating_sub(self.now_ps) / 100).clamp(MIN_STEP_PS, MAX_STEP_PS);
        let mut here = 0;
        let (mut rounds, mut reported_ps) = (0u32, self.now_ps);
        while self.now_ps < until_ps {
            here += self.fire_timers(observer);
            self.decide(observer);
            let next_ps = self.timers.first_ps();
            let before = self.now_ps;
            if next_ps > self.now_ps {
                let limit = next_ps.min(until_ps).min(self.now_ps.saturating_add(step_ps));
                self.advance(limit, observer);
                here += 1;
            }
            if self.now_ps > before {
                here = 0;
            } else if here > STUCK {
                let task =
                    self.tasks.get(self.last_task).map(|t| t.spec.name.clone()).unwrap_or_default();
                return Err(KernelError::Stuck { task, at_ps: self.now_ps });
            }
            rounds += 1;
            if rounds == MAX_ROUNDS || self.now_ps - reported_ps >= step_ps {
                (rounds, reported_ps) = (0, self.now_ps);
                if !progress(self.now_ps) {
                    return Err(KernelError::Interrupted);
                }
            }
        }
        Ok(())
    }

    fn advance(&mut self, limit_ps: u64, observer: &mut dyn Observer) {
        let Some(mut notice) = self.hardware.advance(limit_ps) else {
            self.now_ps = limit_ps;
            return;
        };
        self.now_ps = self.hardware.now_ps();
        loop {
            self.events += 1;
            self.notice(notice, observer);
            // All notices of an instant come before its timers: a job that ends when another is
            // released has ended.
            match self.hardware.advance(self.now_ps) {
                Some(next) => notice = next,
                None => return,
            }
        }
    }

    /// The board.
    pub fn hardware(&self) -> &H {
        &self.hardware
    }

    /// The board, for changes that the kernel does not make itself (pages that move with a VCPU).
    pub fn hardware_mut(&mut self) -> &mut H {
        &mut self.hardware
    }

    /// The first events of a trace of the scheduler's decisions; empty if the scheduler records
    /// none.
    pub fn described(&self) -> Vec<solocore_model::sched_trace::Event> {
        self.scheduler.described()
    }

    /// The time.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Ends the run.
    pub fn finish(mut self, observer: &mut dyn Observer) -> KernelResult {
        for core in 0..self.cores.len() {
            self.settle(core);
            self.end_stretch(core, observer);
            if let Some(task) = self.cores[core].chosen {
                self.take_counters(task, core);
            }
            let counters = self.hardware.core(core);
            let c = &mut self.cores[core];
            let most = &mut c.statistics.max_transactions_per_period;
            *most = (*most).max(if self.period_ps.is_some() {
                counters.transactions() - c.period_start
            } else {
                0
            });
            c.statistics.counters = counters;
        }
        let (now, modes) = (self.now_ps, self.modes);
        let hardware = &self.hardware;
        let tasks = self.tasks.into_iter().map(|task| task.finish(hardware, now, modes)).collect();
        KernelResult {
            tasks,
            cores: self.cores.into_iter().map(|c| c.statistics).collect(),
            uncore: self.hardware.uncore(),
            simulated_ps: self.now_ps - self.start_ps,
            events: self.events,
            vcpu_migrations: self.vcpu_migrations,
            dropped_transfers: self.devices.dropped,
        }
    }
}
