//! The board as the kernel drives it: time goes from one event to the next.

use super::Fluid;
use super::counters::{minus, sum};
use crate::hardware::{Counters, DeviceId, Hardware, Notice, ProgramId, Transfer, Uncore};

impl Hardware for Fluid {
    fn cores(&self) -> usize {
        self.cores.len()
    }

    fn now_ps(&self) -> u64 {
        self.now_ps
    }

    fn dispatch(&mut self, core: usize, program: Option<ProgramId>, overhead_ps: u64) {
        let program = program.map(|p| p.0 as usize);
        if self.cores[core].program == program && overhead_ps == 0 {
            return;
        }
        self.detach(core);
        self.stale = true;
        let Some(p) = program else { return };
        let dispatched = self.tasks[p].counters(self.now_ps);
        let c = &mut self.cores[core];
        (c.program, c.dispatched) = (program, dispatched);
        // The rest of an earlier overhead passes first.
        c.starts_ps = c.starts_ps.max(self.now_ps).saturating_add(overhead_ps);
        c.active = c.starts_ps <= self.now_ps;
        let stranger = c.last.replace(p) != Some(p);
        let entry = &self.table.programs[p];
        if stranger && entry.private {
            let refill = entry.refill();
            let task = &self.tasks[p];
            let back = task.resume.unwrap_or((task.phase, task.position(self.now_ps)));
            self.tasks[p].resume = Some(back);
            self.enter(p, refill, 0);
        }
    }

    fn running(&self, core: usize) -> Option<ProgramId> {
        self.cores[core].program.map(|p| ProgramId(p as u32))
    }

    fn abandon_job(&mut self, program: ProgramId) {
        let p = program.0 as usize;
        let (ends, phases) = (&self.table.programs[p].ends, self.table.programs[p].refill());
        let job_end = |i: usize| ends[i] == Some(crate::program::Signal::JobEnd);
        let task = &self.tasks[p];
        let (phase, position) = task.resume.unwrap_or((task.phase, task.position(self.now_ps)));
        let fresh = position == 0 && job_end((phase + phases - 1) % phases);
        if fresh || !(0..phases).any(job_end) {
            return;
        }
        let last = (0..phases).map(|i| (phase + i) % phases).find(|&i| job_end(i)).unwrap_or(phase);
        self.tasks[p].resume = None;
        self.enter(p, (last + 1) % phases, 0);
    }

    fn advance(&mut self, until_ps: u64) -> Option<Notice> {
        loop {
            self.solve();
            let at = self.next_ps();
            if at > until_ps {
                self.now_ps = self.now_ps.max(until_ps);
                return None;
            }
            self.now_ps = at;
            if self.caches.next_ps <= at {
                self.stale = true;
            }
            for core in 0..self.cores.len() {
                if self.cores[core].next_ps <= at
                    && let Some(notice) = self.core_event(core)
                {
                    return Some(notice);
                }
            }
            for device in 0..self.devices.len() {
                if self.devices[device].next_ps <= at
                    && let Some(notice) = self.device_event(device)
                {
                    return Some(notice);
                }
            }
        }
    }

    fn arm(&mut self, core: usize, transactions: Option<u64>) {
        self.cores[core].armed = transactions.map(|n| self.lines(core).saturating_add(n));
        self.plan(core);
    }

    fn core(&self, core: usize) -> Counters {
        let c = &self.cores[core];
        c.program.map_or(c.before, |p| {
            sum(c.before, minus(self.tasks[p].counters(self.now_ps), c.dispatched))
        })
    }

    fn program(&self, program: ProgramId) -> Counters {
        self.tasks[program.0 as usize].counters(self.now_ps)
    }

    fn uncore(&self) -> Uncore {
        let mut total = Uncore::default();
        let devices = self.devices.iter().map(|d| (&d.task, true));
        for (task, device) in self.tasks.iter().map(|t| (t, false)).chain(devices) {
            let c = task.counters(self.now_ps);
            total.reads += c.dram_reads;
            total.writes += c.dram_writes;
            total.device += if device { c.transactions() } else { 0 };
            total.read_occupancy_ps =
                total.read_occupancy_ps.saturating_add(task.occupancy_ps(self.now_ps));
        }
        total
    }

    fn transfer(&mut self, device: DeviceId, order: Transfer) {
        let device = &mut self.devices[device.0 as usize];
        if device.stream.is_none() && device.order.is_none() {
            // At least one line; beyond 2^44 a count would not fit.
            device.start(self.now_ps, order.lines.clamp(1, 1 << 44), order.into_memory);
            self.stale = true;
        }
    }
}
