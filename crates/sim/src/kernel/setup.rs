//! Builds a kernel: checks its configuration and lays out its timers.

use super::config::{KernelConfig, KernelError, Release, TaskSpec};
use super::cores::CoreSet;
use super::devices::Devices;
use super::observer::RunMode;
use super::regulator;
use super::scheduler;
use super::slots::{Slots, Timer};
use super::statistics::CoreStatistics;
use super::task::KernelTask;
use super::timers::Timers;
use super::triggers::Triggers;
use super::{Kernel, KernelCore};
use crate::hardware::{DeviceId, Hardware, Transfer};
use std::collections::VecDeque;

fn check_task(task: &TaskSpec) -> Result<(), KernelError> {
    let what = match &task.release {
        Release::Periodic { period_ps: 0, .. } => "has a period of 0; give it one",
        Release::Sporadic { min_ps: 0, .. } => {
            "has a least time between arrivals of 0; give it one"
        }
        Release::Sporadic { min_ps, max_ps } if max_ps < min_ps => {
            "has max_ps below min_ps; exchange them"
        }
        Release::At(times) if !times.is_sorted() => "has release times out of order; sort them",
        _ if task.deadline_ps == Some(0) => "has a deadline of 0; give it one, or none",
        _ if task.stop_ps.is_some_and(|stop| stop <= task.start_ps) => {
            "stops before it starts; exchange the times"
        }
        _ => return Ok(()),
    };
    Err(KernelError::task(task, what))
}

fn check(
    config: &KernelConfig,
    tasks: &[TaskSpec],
    cores: usize,
) -> Result<Vec<Option<usize>>, KernelError> {
    if cores == 0 || cores > solocore_policy::MAX_CPUS {
        return Err(KernelError::config(
            "board",
            format!("has {cores} cores; 1 to 256 are possible"),
        ));
    }
    let mut task_of: Vec<Option<usize>> = Vec::new();
    for (t, task) in tasks.iter().enumerate() {
        check_task(task)?;
        let at = task.program.0 as usize;
        if at >= task_of.len() {
            task_of.resize(at + 1, None);
        }
        if let Some(other) = task_of[at].replace(t) {
            let what = format!("has the program of task `{}`; load it twice", tasks[other].name);
            return Err(KernelError::task(task, what));
        }
    }
    if config.observe_period_ps == Some(0) {
        return Err(KernelError::config("observe_period_ps", "is 0; give a period or none"));
    }
    for (at, transfer) in config.transfers.iter().enumerate() {
        if transfer.period_ps == 0 || transfer.order.lines == 0 {
            return Err(KernelError::config(
                format!("transfer {at}"),
                "has a period or a length of 0; give it one",
            ));
        }
    }
    Ok(task_of)
}

fn core(now_ps: u64, counters: crate::hardware::Counters) -> KernelCore {
    KernelCore {
        chosen: None,
        mode: RunMode::Foreground,
        stopped: false,
        dispatched: None,
        redispatch: false,
        last_task: None,
        planned: None,
        since_ps: now_ps,
        stretch_ps: now_ps,
        overhead_until_ps: now_ps,
        untold_ps: 0,
        switch_until_ps: now_ps,
        reads: counters.dram_reads,
        writes: counters.dram_writes,
        period_start: counters.transactions(),
        overflowing: false,
        statistics: CoreStatistics::default(),
    }
}

impl<H: Hardware> Kernel<H> {
    /// A system at the hardware's present time, with nothing dispatched. Tables and periods count
    /// from time 0.
    ///
    /// # Errors
    /// [`KernelError`]: the part that does not fit, its place, and the remedy.
    pub fn new(
        hardware: H,
        config: KernelConfig,
        tasks: Vec<TaskSpec>,
    ) -> Result<Self, KernelError> {
        let (now_ps, count) = (hardware.now_ps(), hardware.cores());
        let task_of = check(&config, &tasks, count)?;
        let triggers = Triggers::of(&tasks)?;
        let scheduler = scheduler::build(&config.scheduler, &tasks, count, now_ps)?;
        let regulator = regulator::build(&config.regulator, &tasks, count, now_ps)?;
        let slots = Slots { cores: count, tasks: tasks.len(), transfers: config.transfers };
        let cores = (0..count).map(|c| core(now_ps, hardware.core(c))).collect();
        let mut kernel = Self {
            now_ps,
            start_ps: now_ps,
            tasks: tasks
                .into_iter()
                .enumerate()
                .map(|(t, spec)| KernelTask::new(spec, config.seed, t))
                .collect(),
            task_of,
            cores,
            period_ps: regulator.period_ps().or(config.observe_period_ps),
            monitor_ps: scheduler.monitor_period_ps(),
            modes: scheduler.has_modes(),
            regulated: config.regulator != super::config::RegulatorSpec::None,
            scheduler,
            regulator,
            costs: config.costs,
            timers: Timers::new(slots.count()),
            slots,
            triggers,
            devices: Devices::default(),
            messages: VecDeque::new(),
            dirty: CoreSet::all(count),
            repicked: CoreSet::default(),
            touched: CoreSet::all(count),
            ended: Vec::new(),
            last_task: 0,
            events: 0,
            vcpu_migrations: 0,
            hardware,
        };
        kernel.start_timers();
        Ok(kernel)
    }

    fn start_timers(&mut self) {
        if let Some(period) = self.period_ps {
            self.set_timer(Timer::Period, self.now_ps.saturating_add(period));
        }
        if let Some(period) = self.monitor_ps {
            self.set_timer(Timer::Monitor, self.now_ps.saturating_add(period));
        }
        for task in 0..self.tasks.len() {
            self.plan_release(task);
            if let Some(stop) = self.tasks[task].spec.stop_ps {
                self.set_timer(Timer::Stop(task), stop);
            }
        }
        for at in 0..self.slots.transfers.len() {
            let phase = self.slots.transfers[at].phase_ps;
            self.set_timer(Timer::Transfer(at), phase);
        }
    }

    pub(super) fn set_timer(&mut self, timer: Timer, time_ps: u64) {
        self.timers.set(self.slots.of(timer), time_ps);
    }

    /// Orders a transfer of the configuration's list, and plans the next.
    pub(super) fn transfer_due(&mut self, at: usize) {
        let spec = self.slots.transfers[at];
        self.order(spec.device, spec.order);
        self.set_timer(Timer::Transfer(at), self.now_ps.saturating_add(spec.period_ps));
    }

    pub(super) fn order(&mut self, device: DeviceId, order: Transfer) {
        self.devices.order(&mut self.hardware, device, order);
    }
}
