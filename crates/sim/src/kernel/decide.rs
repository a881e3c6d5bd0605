//! The decision at the end of an instant: the task of each core, the cores that are stopped, the
//! calls to the hardware.

use super::observer::{Observer, RunMode, Stretch};
use super::regulator::Message;
use super::scheduler::{Call, Pick};
use super::slots::Timer;
use super::statistics::{add, since};
use super::timers::NEVER;
use super::{Kernel, KernelCore};
use crate::hardware::Hardware;
use solocore_model::results::Activity;

impl KernelCore {
    /// Cost of the next dispatch: the rest of the kernel's work that did not pass while the core
    /// was idle.
    fn take_overhead(&mut self, now_ps: u64) -> u64 {
        std::mem::take(&mut self.untold_ps).min(self.overhead_until_ps.saturating_sub(now_ps))
    }
}

impl<H: Hardware> Kernel<H> {
    /// Lets dirty cores pick, and applies all decisions since the last time.
    pub(super) fn decide(&mut self, observer: &mut dyn Observer) {
        self.pick(observer);
        let mut ended = std::mem::take(&mut self.ended);
        self.scheduler.take_ended(&mut ended);
        ended.drain(..).for_each(|task| self.abandon(task, observer));
        self.ended = ended;
        let repicked = std::mem::take(&mut self.repicked);
        // First all tasks leave, then all enter: a task that changes cores is never on two.
        for core in repicked.iter() {
            self.leave(core, observer);
        }
        for core in repicked.iter() {
            self.enter(core, observer);
        }
        for core in repicked.iter() {
            self.start_job(core);
        }
        if self.regulator.lock_changed() {
            self.post(Message::LockChanged, usize::MAX);
        }
        while let Some(core) = self.touched.pop() {
            self.enforce(core, observer);
        }
    }

    fn pick(&mut self, observer: &mut dyn Observer) {
        while let Some(core) = self.scheduler.next_core(self.dirty) {
            self.dirty.remove(core);
            let mut call = Call { now_ps: self.now_ps, dirty: &mut self.dirty, observer };
            let pick = self.scheduler.pick(core, &mut call);
            self.set_timer(Timer::Pick(core), pick.until_ps);
            self.cores[core].planned = Some(pick);
            self.repicked.insert(core);
            if self.modes {
                let moves = self.scheduler.take_moves(core);
                self.vcpu_migrations += moves;
                self.add_overhead(core, moves.saturating_mul(self.costs.migration_ps));
            }
        }
    }

    /// Takes a task off the core that it is not to run any more.
    fn leave(&mut self, core: usize, observer: &mut dyn Observer) {
        let c = &self.cores[core];
        let (Some(pick), Some(old)) = (c.planned, c.chosen) else { return };
        if pick.task == Some(old) {
            return;
        }
        self.settle(core);
        self.account(core);
        self.end_stretch(core, observer);
        self.take_counters(old, core);
        self.regulator.switch(core, None);
        let c = &mut self.cores[core];
        c.chosen = None;
        let t = &mut self.tasks[old];
        t.on = None;
        let goes_on = t.job.as_ref().is_some_and(|job| job.started) && !t.asleep && !t.stopped;
        t.statistics.preemptions += u64::from(goes_on && pick.task.is_some());
        self.touched.insert(core);
        if pick.task.is_none() {
            observer.dispatched(core, None, RunMode::Foreground, self.now_ps);
        }
    }

    fn enter(&mut self, core: usize, observer: &mut dyn Observer) {
        let Some(Pick { task: Some(task), mode, .. }) = self.cores[core].planned.take() else {
            return;
        };
        if self.cores[core].chosen == Some(task) {
            self.change_mode(core, task, mode, observer);
            return;
        }
        self.settle(core);
        self.account(core);
        if self.tasks[task].last_core != Some(core) {
            self.take_off(task);
        }
        let c = &mut self.cores[core];
        c.chosen = Some(task);
        c.mode = mode;
        c.stretch_ps = self.now_ps;
        c.statistics.switches += 1;
        let returns = c.last_task.replace(task) == Some(task);
        let recovered = self.hardware.recovered_ps(self.tasks[task].spec.program);
        let t = &mut self.tasks[task];
        t.on = Some(core);
        let from = t.last_core.replace(core).filter(|&from| from != core);
        if let Some(job) = t.job.as_mut().filter(|job| job.started) {
            job.recovering |= !returns || from.is_some();
            job.recovered_seen_ps = recovered;
            if let Some(from) = from {
                t.statistics.migrations += 1;
                observer.task_migrated(task, from, core, self.now_ps);
            }
        }
        self.regulator.switch(core, Some(task));
        if !returns || from.is_some() {
            self.add_overhead(core, self.costs.switch_ps);
        }
        self.cores[core].switch_until_ps = self.cores[core].overhead_until_ps;
        self.touched.insert(core);
        observer.dispatched(core, Some(task), mode, self.now_ps);
    }

    fn change_mode(
        &mut self,
        core: usize,
        task: usize,
        mode: RunMode,
        observer: &mut dyn Observer,
    ) {
        if self.cores[core].mode == mode {
            return;
        }
        self.settle(core);
        self.take_counters(task, core);
        self.cores[core].mode = mode;
        observer.mode_changed(core, task, mode, self.now_ps);
    }

    /// Makes sure that the hardware does not run a task on the core where it last did.
    pub(super) fn take_off(&mut self, task: usize) {
        let Some(core) = self.tasks[task].last_core else { return };
        if self.cores[core].dispatched == Some(task) {
            self.hardware.dispatch(core, None, 0);
            self.cores[core].dispatched = None;
            self.touched.insert(core);
        }
    }

    /// Starts the job on the core, if it has not run yet.
    fn start_job(&mut self, core: usize) {
        let Some(task) = self.cores[core].chosen else { return };
        let recovered = self.hardware.recovered_ps(self.tasks[task].spec.program);
        let Some(job) = self.tasks[task].job.as_mut().filter(|job| !job.started) else { return };
        job.started = true;
        job.recovered_ps = recovered;
        if self.regulator.follows(task) {
            self.post(Message::Started(task), core);
        }
    }

    /// Stops the core or lets it go on, as its regulator decides, and tells the hardware.
    fn enforce(&mut self, core: usize, observer: &mut dyn Observer) {
        let stopped = self.regulator.stopped(core) && self.cores[core].chosen.is_some();
        if stopped != self.cores[core].stopped {
            self.settle(core);
            self.end_stretch(core, observer);
            let c = &mut self.cores[core];
            c.stopped = stopped;
            c.statistics.throttlings += u64::from(stopped);
            observer.throttled(core, stopped, self.now_ps);
        }
        let c = &mut self.cores[core];
        let wanted = c.chosen.filter(|_| !stopped);
        if wanted != c.dispatched || (c.redispatch && wanted.is_some()) {
            c.dispatched = wanted;
            let overhead = if wanted.is_some() { c.take_overhead(self.now_ps) } else { 0 };
            let program = wanted.map(|task| self.tasks[task].spec.program);
            self.hardware.dispatch(core, program, overhead);
        }
        self.cores[core].redispatch = false;
        if self.regulated {
            self.arm(core);
        }
    }

    fn arm(&mut self, core: usize) {
        let timeout = self.regulator.timeout_ns(core).checked_mul(1000).unwrap_or(NEVER);
        self.set_timer(Timer::Budget(core), timeout);
        let c = &self.cores[core];
        if c.overflowing {
            return;
        }
        let counters = self.hardware.core(core);
        let pending = counters.transactions() - c.reads - c.writes;
        let skid = self.costs.skid_transactions;
        let sample =
            self.regulator.sample(core).map(|s| s.saturating_add(skid).saturating_sub(pending));
        self.hardware.arm(core, sample);
    }

    /// Adds kernel work of this length to the core.
    pub(super) fn add_overhead(&mut self, core: usize, cost_ps: u64) {
        if cost_ps == 0 {
            return;
        }
        self.settle(core);
        let c = &mut self.cores[core];
        c.overhead_until_ps = c.overhead_until_ps.max(self.now_ps).saturating_add(cost_ps);
        c.untold_ps = c.untold_ps.saturating_add(cost_ps);
        c.redispatch = true;
        self.touched.insert(core);
    }

    /// Adds up the time since the last call, on the core and for its job.
    pub(super) fn settle(&mut self, core: usize) {
        let (c, now) = (&mut self.cores[core], self.now_ps);
        let from = std::mem::replace(&mut c.since_ps, now);
        if from == now {
            return;
        }
        let until = |end: u64| end.min(now).saturating_sub(from);
        let overhead = until(c.overhead_until_ps);
        let rest = now - from - overhead;
        c.statistics.overhead_ps += overhead;
        let Some(task) = c.chosen else {
            c.statistics.idle_ps += rest;
            return;
        };
        *(if c.stopped { &mut c.statistics.throttled_ps } else { &mut c.statistics.busy_ps }) +=
            rest;
        let t = &mut self.tasks[task];
        match c.mode {
            RunMode::Foreground => t.statistics.foreground_ps += now - from,
            RunMode::Background => t.statistics.background_ps += now - from,
        }
        if let Some(job) = &mut t.job {
            let owed = if c.stopped && job.recovering { rest } else { 0 };
            job.execution_ps += now - from - until(c.switch_until_ps) - owed;
        }
    }

    /// Tells the observer the core's activity since the last stretch.
    pub(super) fn end_stretch(&mut self, core: usize, observer: &mut dyn Observer) {
        let c = &mut self.cores[core];
        let start = std::mem::replace(&mut c.stretch_ps, self.now_ps);
        if let Some(task) = c.chosen.filter(|_| self.now_ps > start) {
            let activity = if c.stopped { Activity::Throttled } else { Activity::Run };
            let (start_ps, end_ps) = (start, self.now_ps);
            observer.stretch(Stretch { core, task, activity, start_ps, end_ps });
        }
    }

    /// Separates the task's counts in the core's present mode from its earlier ones.
    pub(super) fn take_counters(&mut self, task: usize, core: usize) {
        if !self.modes {
            return;
        }
        let now = self.hardware.program(self.tasks[task].spec.program);
        let t = &mut self.tasks[task];
        let made = since(now, std::mem::replace(&mut t.counted, now));
        if self.cores[core].mode == RunMode::Foreground {
            add(&mut t.statistics.foreground, made);
        }
    }
}
