//! Events: notices of the hardware, timers, messages between cores.

use super::Kernel;
use super::observer::Observer;
use super::regulator::{Made, Message};
use super::slots::Timer;
use super::timers::NEVER;
use crate::hardware::{Hardware, Notice};
use crate::program::Signal;

impl<H: Hardware> Kernel<H> {
    /// Fires all timers that are due; returns their number.
    pub(super) fn fire_timers(&mut self, observer: &mut dyn Observer) -> u32 {
        let mut count = 0;
        while let Some(slot) = self.timers.take_due(self.now_ps) {
            self.events += 1;
            count += 1;
            self.fire(self.slots.timer(slot), observer);
            if count > super::STUCK {
                break;
            }
        }
        count
    }

    fn fire(&mut self, timer: Timer, observer: &mut dyn Observer) {
        match timer {
            Timer::Period => self.period_ends(observer),
            Timer::Message => self.message_due(),
            Timer::Monitor => self.monitor(observer),
            Timer::Overflow(core) => self.overflow(core),
            Timer::Budget(core) => {
                self.account(core);
                self.add_overhead(core, self.costs.timer_ps);
            }
            Timer::Release(task) => self.release_due(task, observer),
            Timer::Wake(task) => self.wake(task, observer),
            Timer::Stop(task) => self.stop(task, observer),
            Timer::Transfer(at) => self.transfer_due(at),
            Timer::Pick(core) => {
                self.add_overhead(core, self.costs.timer_ps);
                self.dirty.insert(core);
            }
        }
    }

    pub(super) fn notice(&mut self, notice: Notice, observer: &mut dyn Observer) {
        observer.noticed(notice, self.now_ps);
        match notice {
            Notice::Overflow { core } if self.costs.interrupt_delay_ps == 0 => self.overflow(core),
            Notice::Overflow { core } => {
                self.cores[core].overflowing = true;
                self.set_timer(
                    Timer::Overflow(core),
                    self.now_ps.saturating_add(self.costs.interrupt_delay_ps),
                );
            }
            Notice::Signal { core, program, signal } => {
                let Some(&Some(task)) = self.task_of.get(program.0 as usize) else { return };
                self.signal(core, task, signal, observer);
            }
            Notice::Transferred { device } => self.transferred(device),
        }
    }

    fn signal(&mut self, core: usize, task: usize, signal: Signal, observer: &mut dyn Observer) {
        self.last_task = task;
        if self.cores[core].dispatched == Some(task) {
            self.cores[core].redispatch = true;
        }
        self.touched.insert(core);
        match signal {
            Signal::JobEnd => self.job_done(task, core, observer),
            Signal::Lock | Signal::Unlock => {
                self.account(core);
                self.regulator.lock(task, signal == Signal::Lock);
            }
            Signal::Sleep(us) => self.sleep(task, us, observer),
            Signal::Mark(mark) => self.mark(task, mark, observer),
        }
    }

    /// A counter's interrupt.
    fn overflow(&mut self, core: usize) {
        self.cores[core].overflowing = false;
        if self.account(core) {
            self.add_overhead(core, self.costs.overflow_ps);
        }
    }

    /// Tells the regulator the accesses of a core since the last call. True if they used a
    /// budget up.
    pub(super) fn account(&mut self, core: usize) -> bool {
        if !self.regulated {
            return false;
        }
        let counters = self.hardware.core(core);
        let c = &mut self.cores[core];
        let made =
            Made { reads: counters.dram_reads - c.reads, writes: counters.dram_writes - c.writes };
        (c.reads, c.writes) = (counters.dram_reads, counters.dram_writes);
        self.touched.insert(core);
        self.regulator.account(core, made, self.now_ps / 1000, &mut self.touched)
    }

    /// The counting period ends; it is the regulator's period if there is one.
    fn period_ends(&mut self, observer: &mut dyn Observer) {
        let Some(period) = self.period_ps else { return };
        self.set_timer(Timer::Period, self.now_ps.saturating_add(period));
        let regulated = self.regulator.period_ps().is_some();
        for core in 0..self.cores.len() {
            self.settle(core);
            self.account(core);
            let total = self.hardware.core(core).transactions();
            let c = &mut self.cores[core];
            let made = total - std::mem::replace(&mut c.period_start, total);
            c.statistics.max_transactions_per_period =
                c.statistics.max_transactions_per_period.max(made);
            if let Some(task) = c.chosen {
                self.still_recovers(task);
            }
            observer.period_ended(core, made, self.now_ps);
            if regulated {
                self.add_overhead(core, self.costs.timer_ps);
            }
        }
        // Only then: with a pool, a core's grant depends on the use of all cores.
        for core in (0..self.cores.len()).filter(|_| regulated) {
            self.regulator.tick(core, self.now_ps / 1000);
        }
    }

    /// A period begins: a job that came back still counts throttling as preemption cost only if
    /// refilling its caches took a part of the last period.
    fn still_recovers(&mut self, task: usize) {
        let t = &mut self.tasks[task];
        let Some(job) = t.job.as_mut().filter(|job| job.recovering) else { return };
        let recovered = self.hardware.recovered_ps(t.spec.program);
        job.recovering = std::mem::replace(&mut job.recovered_seen_ps, recovered) != recovered;
    }

    /// Sends a message to the cores that listen.
    pub(super) fn post(&mut self, message: Message, from: usize) {
        if self.costs.ipi_delay_ps == 0 {
            self.deliver(message, from);
            return;
        }
        let arrives = self.now_ps.saturating_add(self.costs.ipi_delay_ps);
        self.messages.push_back((arrives, message, from));
        let first = self.messages[0].0;
        self.set_timer(Timer::Message, first);
    }

    fn message_due(&mut self) {
        if let Some((_, message, from)) = self.messages.pop_front() {
            self.deliver(message, from);
        }
        let next = self.messages.front().map_or(NEVER, |m| m.0);
        self.set_timer(Timer::Message, next);
    }

    fn deliver(&mut self, message: Message, from: usize) {
        let listeners = self.regulator.listeners();
        for core in listeners.iter() {
            self.account(core);
            if core != from {
                self.add_overhead(core, self.costs.ipi_ps);
            }
        }
        self.regulator.deliver(message, self.now_ps / 1000);
    }
}
