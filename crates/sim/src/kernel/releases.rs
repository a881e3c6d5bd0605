//! Jobs: arrivals, releases, ends, timed waits.

use super::Kernel;
use super::config::{Action, Release};
use super::observer::{JobReport, Observer};
use super::regulator::Message;
use super::scheduler::{Call, Overlap};
use super::slots::Timer;
use super::task::{Job, MOST_WAITING};
use super::timers::NEVER;
use crate::hardware::{DeviceId, Hardware};

const PS_PER_US: u64 = 1_000_000;

impl<H: Hardware> Kernel<H> {
    /// Calls the scheduler with the time, the dirty cores and the observer.
    fn schedule<R>(
        &mut self,
        observer: &mut dyn Observer,
        what: impl FnOnce(&mut dyn super::scheduler::Scheduler, &mut Call<'_>) -> R,
    ) -> R {
        let mut call = Call { now_ps: self.now_ps, dirty: &mut self.dirty, observer };
        what(&mut *self.scheduler, &mut call)
    }

    pub(super) fn plan_release(&mut self, task: usize) {
        self.tasks[task].plan_release();
        let at = self.tasks[task].next_release_ps;
        self.set_timer(
            Timer::Release(task),
            if self.tasks[task].next_arrival_ps == NEVER { NEVER } else { at },
        );
    }

    /// The release timer of a task.
    pub(super) fn release_due(&mut self, task: usize, observer: &mut dyn Observer) {
        let t = &mut self.tasks[task];
        if matches!(t.spec.release, Release::Triggered { .. }) {
            t.triggered.pop_front();
            let next = t.triggered.front().copied().unwrap_or(NEVER);
            self.set_timer(Timer::Release(task), next);
            self.release(task, self.now_ps, observer);
        } else {
            let arrival = t.next_arrival_ps;
            self.plan_release(task);
            self.release(task, arrival, observer);
        }
    }

    /// An event happened that releases these tasks.
    fn trigger(&mut self, tasks: Vec<usize>) {
        for task in tasks {
            let t = &mut self.tasks[task];
            let Release::Triggered { delay_ps, .. } = t.spec.release else { continue };
            if t.stopped || self.now_ps < t.spec.start_ps {
                continue;
            }
            if t.triggered.len() < MOST_WAITING {
                t.triggered.push_back(self.now_ps.saturating_add(delay_ps));
            } else {
                t.statistics.dropped += 1;
            }
            let first = t.triggered[0];
            self.set_timer(Timer::Release(task), first);
        }
    }

    fn release(&mut self, task: usize, arrival_ps: u64, observer: &mut dyn Observer) {
        if self.tasks[task].stopped {
            return;
        }
        observer.job_released(task, arrival_ps, self.now_ps);
        let home = self.tasks[task].on.unwrap_or_else(|| self.scheduler.home(task));
        self.add_overhead(home, self.costs.release_ps);
        if self.tasks[task].asleep {
            self.tasks[task].queue(arrival_ps);
            return;
        }
        let times = self.tasks[task].times(arrival_ps);
        let unfinished = self.tasks[task].job.is_some();
        let overlap = self.schedule(observer, |s, call| s.released(task, times, unfinished, call));
        if unfinished && overlap == Overlap::Queue {
            self.tasks[task].queue(arrival_ps);
            return;
        }
        if unfinished {
            self.abandon(task, observer);
        }
        self.begin_job(task, arrival_ps);
    }

    fn begin_job(&mut self, task: usize, arrival_ps: u64) {
        self.tasks[task].job = Some(Job::new(arrival_ps));
        if let Some(core) = self.tasks[task].on {
            // It stays on its core, where its job starts with the next decision.
            self.repicked.insert(core);
            self.touched.insert(core);
        }
    }

    /// The task's present job is done.
    pub(super) fn job_done(&mut self, task: usize, core: usize, observer: &mut dyn Observer) {
        self.settle(core);
        let recovered = self.hardware.recovered_ps(self.tasks[task].spec.program);
        let t = &mut self.tasks[task];
        let Some(job) = t.job.take() else { return };
        let execution_ps = job.execution_ps.saturating_sub(recovered - job.recovered_ps);
        let late = t.late(job.arrival_ps, self.now_ps);
        t.statistics.jobs += 1;
        t.statistics.deadline_misses += u64::from(late);
        t.statistics.execution.add(execution_ps);
        t.statistics.response.add(self.now_ps - job.arrival_ps);
        let next = t
            .waiting
            .pop_front()
            .or((t.spec.release == Release::Background && !t.stopped).then_some(self.now_ps));
        observer.job_finished(JobReport {
            task,
            core,
            arrival_ps: job.arrival_ps,
            end_ps: self.now_ps,
            execution_ps,
            late,
        });
        if job.started && self.regulator.follows(task) {
            self.post(Message::Finished(task), core);
        }
        match next {
            Some(arrival) => {
                let times = self.tasks[task].times(arrival);
                self.schedule(observer, |s, call| s.next_job(task, times, call));
                self.begin_job(task, arrival);
            }
            None => self.schedule(observer, |s, call| s.unready(task, call)),
        }
        let released =
            self.triggers.job_end.iter().filter(|&&(by, _)| by == task).map(|&(_, t)| t).collect();
        self.trigger(released);
    }

    /// The policy has ended the task's job, or a new one replaces it.
    pub(super) fn abandon(&mut self, task: usize, observer: &mut dyn Observer) {
        if let Some(core) = self.tasks[task].on {
            self.settle(core);
        }
        let Some(job) = self.tasks[task].job.take() else { return };
        let started_on = self.tasks[task].last_core.filter(|_| job.started);
        self.take_off(task);
        let t = &mut self.tasks[task];
        t.asleep = false;
        t.statistics.abandoned += 1;
        t.statistics.deadline_misses += u64::from(t.spec.deadline_ps.is_some());
        if job.started {
            self.hardware.abandon_job(t.spec.program);
        }
        self.set_timer(Timer::Wake(task), NEVER);
        observer.job_abandoned(task, self.now_ps);
        if let Some(core) = started_on.filter(|_| self.regulator.follows(task)) {
            self.post(Message::Finished(task), core);
        }
    }

    pub(super) fn sleep(&mut self, task: usize, us: u32, observer: &mut dyn Observer) {
        self.tasks[task].asleep = true;
        let until = self.now_ps.saturating_add(u64::from(us) * PS_PER_US);
        self.set_timer(Timer::Wake(task), until);
        self.schedule(observer, |s, call| s.unready(task, call));
    }

    pub(super) fn wake(&mut self, task: usize, observer: &mut dyn Observer) {
        let t = &mut self.tasks[task];
        t.asleep = false;
        let Some(job) = t.job.as_ref().filter(|_| !t.stopped) else { return };
        let times = t.times(job.arrival_ps);
        self.schedule(observer, |s, call| s.woken(task, times, call));
    }

    /// The task's time is over: background tasks end, other tasks finish their jobs.
    pub(super) fn stop(&mut self, task: usize, observer: &mut dyn Observer) {
        let t = &mut self.tasks[task];
        t.stopped = t.spec.release == Release::Background;
        if t.stopped && t.job.is_some() && !t.asleep {
            if let Some(core) = t.on {
                self.settle(core);
            }
            self.schedule(observer, |s, call| {
                s.ended(task);
                s.unready(task, call);
            });
        }
        if matches!(self.tasks[task].spec.release, Release::Triggered { .. }) {
            self.tasks[task].stopped = true;
            self.tasks[task].triggered.clear();
            self.set_timer(Timer::Release(task), NEVER);
        }
    }

    /// A program passed a mark.
    pub(super) fn mark(&mut self, task: usize, mark: u32, observer: &mut dyn Observer) {
        observer.marked(task, mark, self.now_ps);
        let actions = self.tasks[task]
            .spec
            .on_mark
            .iter()
            .filter(|&&(m, _)| m == mark)
            .map(|&(_, action)| action);
        for Action::Transfer(device, order) in actions.collect::<Vec<_>>() {
            self.order(device, order);
        }
        let released = self
            .triggers
            .mark
            .iter()
            .filter(|&&(by, _)| by == (task, mark))
            .map(|&(_, t)| t)
            .collect();
        self.trigger(released);
    }

    /// A device has completed its order.
    pub(super) fn transferred(&mut self, device: DeviceId) {
        self.devices.done(&mut self.hardware, device);
        let released = self
            .triggers
            .transferred
            .iter()
            .filter(|&&(by, _)| by == device)
            .map(|&(_, t)| t)
            .collect();
        self.trigger(released);
    }

    /// The monitor of the scheduler.
    pub(super) fn monitor(&mut self, observer: &mut dyn Observer) {
        let Some(period) = self.monitor_ps else { return };
        self.set_timer(Timer::Monitor, self.now_ps.saturating_add(period));
        let cores: Vec<u64> =
            (0..self.cores.len()).map(|c| self.hardware.core(c).transactions()).collect();
        let tasks: Vec<u64> = self
            .tasks
            .iter()
            .map(|t| self.hardware.program(t.spec.program).transactions())
            .collect();
        let uncore = self.hardware.uncore();
        let readings = super::scheduler::Readings { uncore, cores: &cores, tasks: &tasks };
        self.schedule(observer, |s, call| s.monitor(&readings, call));
        self.add_overhead(0, self.costs.timer_ps);
    }
}
