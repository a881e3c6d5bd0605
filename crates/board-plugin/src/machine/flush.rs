//! Flushes of lines by a program (CLFLUSH, CLFLUSHOPT), and its fences.
//!
//! Rule: a flushed line leaves every cache of every core. If one of them had it dirty, it goes to
//! DRAM once, when the line itself has come. A fence makes the core wait ([`crate::front`]).
//! Source: Intel SDM volume 2, CLFLUSH, LFENCE, MFENCE.
//! Not covered: CLWB, the order of flushes of several cores, stores under way of another core.

use super::{Machine, NOBODY};

impl Machine {
    /// Removes a line from all caches for a core. Returns its wait.
    pub fn flush(&mut self, cpu: usize, computed: u64, line: u64) -> i64 {
        let mut dirty = false;
        for core in &mut self.cores {
            core.l1i.remove(line);
            dirty |= core.l1d.remove(line);
            dirty |= core.l2.as_mut().is_some_and(|l2| l2.remove(line));
        }
        if let Some(place) = self.llc.place(line) {
            if let Some(owner) = self.owners.get_mut(place) {
                if let Some(monitored) = self.monitored.get_mut(usize::from(*owner)) {
                    monitored.lines -= 1;
                }
                *owner = NOBODY;
            }
            dirty |= self.llc.remove(line);
        }
        let front = &mut self.cores[cpu].front;
        let before = front.total_wait();
        if dirty {
            if front.expects(line) {
                front.fence(computed, true);
            }
            self.write_memory(cpu, computed, line);
        }
        self.cores[cpu].front.total_wait() - before
    }

    /// Makes a core wait for its loads, and if `stores` for its stores as well. Returns the wait.
    pub fn fence(&mut self, cpu: usize, computed: u64, stores: bool) -> i64 {
        let front = &mut self.cores[cpu].front;
        let before = front.total_wait();
        front.fence(computed, stores);
        front.total_wait() - before
    }
}
