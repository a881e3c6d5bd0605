//! BWLOCK: while a real-time task is in a memory-performance critical section (holds the bandwidth
//! lock), every core that runs something else is held to a minimum of bandwidth (bwlock, section 3,
//! rules 1 and 2, algorithm 1).
//!
//! Holders are counted whenever they are asked for. A core's budget is the one that its counter was
//! programmed with: by the last switch, tick or update of that core, as in the paper's period
//! handler; a lock that is taken or released elsewhere, and accounting, do not change it.

use crate::{Answer, Event, World};
use std::collections::BTreeMap;

const MAX_CPUS: u64 = 8;
const MAX_TASKS: u32 = 4096;
const NONE: u32 = 0xffff_ffff;
const MAX_TIME: u64 = 1 << 62;
const MAX_SPAN: u64 = 1 << 42;
const MAX_ACCESSES: u64 = 0xffff_ffff;
const MAX_SAMPLE: u64 = 0x7fff_ffff;
const UNLIMITED: u64 = u64::MAX;
const MAX_DEPTH: u32 = u32::MAX;

struct ModelLockTask {
    realtime: bool,
    depth: u32,
}

struct ModelLockCore {
    current: Option<u32>,
    used: u64,
    next_ns: u64,
    budget: u64,
}

struct System {
    period: u64,
    max: u64,
    min: u64,
    tasks: BTreeMap<u32, ModelLockTask>,
    cores: Vec<ModelLockCore>,
}

impl System {
    fn new(event: &Event) -> Option<Self> {
        let &Event { a: period, b: max, c: min, d: cores, .. } = event;
        let valid = (1..=MAX_SPAN).contains(&period)
            && (1..=MAX_ACCESSES).contains(&min)
            && min <= max
            && (max <= MAX_ACCESSES || max == UNLIMITED)
            && (1..=MAX_CPUS).contains(&cores);
        if !valid {
            return None;
        }
        let next_ns = event.now.min(MAX_TIME) + period;
        let cores = (0..cores)
            .map(|_| ModelLockCore { current: None, used: 0, next_ns, budget: max })
            .collect();
        Some(System { period, max, min, tasks: BTreeMap::new(), cores })
    }

    fn limit(&mut self, min: u64) -> bool {
        let valid = (1..=MAX_ACCESSES).contains(&min) && min <= self.max;
        if valid {
            self.min = min;
        }
        valid
    }

    fn current(&self, core: usize) -> Option<&ModelLockTask> {
        self.cores[core].current.map(|id| &self.tasks[&id])
    }

    fn realtime(&self, core: usize) -> bool {
        self.current(core).is_some_and(|task| task.realtime)
    }

    /// The number of cores whose running task holds the lock: nr_bwlocked_cores() of algorithm 1.
    fn holders(&self) -> u64 {
        (0..self.cores.len())
            .filter(|&core| self.current(core).is_some_and(|task| task.depth > 0))
            .count() as u64
    }

    /// Rules 1 and 2.
    fn program(&mut self, core: usize) {
        self.cores[core].budget = if self.realtime(core) {
            UNLIMITED
        } else if self.holders() > 0 {
            self.min
        } else {
            self.max
        };
    }

    fn budget(&self, core: usize) -> u64 {
        self.cores[core].budget
    }

    fn verdict(&self, core: usize) -> u64 {
        let budget = self.budget(core);
        u64::from(self.realtime(core) || budget == UNLIMITED || self.cores[core].used < budget)
    }

    fn sample(&self, core: usize) -> u64 {
        match self.budget(core) {
            UNLIMITED => MAX_SAMPLE,
            budget => budget.saturating_sub(self.cores[core].used).clamp(1, MAX_SAMPLE),
        }
    }

    fn charge(&mut self, core: usize, accesses: u64) {
        if !self.realtime(core) {
            self.cores[core].used = self.cores[core].used.saturating_add(accesses);
        }
    }

    fn add(&mut self, event: &Event) -> [u64; 6] {
        if event.id >= MAX_TASKS || self.tasks.contains_key(&event.id) || event.a > 1 {
            return [0; 6];
        }
        self.tasks.insert(event.id, ModelLockTask { realtime: event.a == 1, depth: 0 });
        [1, 0, 0, 0, 0, 0]
    }

    fn lock(&mut self, id: u32) -> [u64; 6] {
        match self.tasks.get_mut(&id) {
            Some(task) if task.realtime && task.depth < MAX_DEPTH => {
                task.depth += 1;
                [1, u64::from(task.depth), self.holders(), 0, 0, 0]
            }
            _ => [0; 6],
        }
    }

    fn unlock(&mut self, id: u32) -> [u64; 6] {
        match self.tasks.get_mut(&id) {
            Some(task) if task.depth > 0 => {
                task.depth -= 1;
                [1, u64::from(task.depth), self.holders(), 0, 0, 0]
            }
            _ => [0; 6],
        }
    }

    fn switch(&mut self, core: usize, next: u64, accesses: u64) -> [u64; 6] {
        let next = match u32::try_from(next) {
            Ok(NONE) => None,
            Ok(id) if self.tasks.contains_key(&id) => Some(id),
            _ => return [0; 6],
        };
        let elsewhere = |(other, state): (usize, &ModelLockCore)| {
            other != core && next.is_some() && state.current == next
        };
        if self.cores.iter().enumerate().any(elsewhere) {
            return [0; 6];
        }
        self.charge(core, accesses);
        self.cores[core].current = next;
        self.program(core);
        [
            1,
            self.verdict(core),
            self.budget(core),
            self.cores[core].used,
            self.holders(),
            self.sample(core),
        ]
    }

    fn look(&self, core: usize) -> [u64; 6] {
        [self.verdict(core), self.sample(core), self.cores[core].used, self.budget(core), 0, 0]
    }

    fn tick(&mut self, core: usize, now: u64) -> [u64; 6] {
        let now = now.min(MAX_TIME);
        let state = &mut self.cores[core];
        let began = now >= state.next_ns;
        if began {
            state.used = 0;
            state.next_ns += ((now - state.next_ns) / self.period + 1) * self.period;
        }
        self.program(core);
        let ModelLockCore { used, next_ns, .. } = self.cores[core];
        [self.verdict(core), u64::from(began), used, self.budget(core), self.holders(), next_ns]
    }

    fn exit(&mut self, id: u32) -> [u64; 6] {
        if self.tasks.remove(&id).is_none() {
            return [0; 6];
        }
        for core in self.cores.iter_mut().filter(|core| core.current == Some(id)) {
            core.current = None;
        }
        [1, self.holders(), 0, 0, 0, 0]
    }

    fn apply(&mut self, event: &Event) -> [u64; 6] {
        let core = event.id as usize;
        match event.op {
            1 => self.add(event),
            2 => self.lock(event.id),
            3 => self.unlock(event.id),
            8 => self.exit(event.id),
            9 => [u64::from(self.limit(event.a)), 0, 0, 0, 0, 0],
            4..=7 if core >= self.cores.len() => [0; 6],
            4 => self.switch(core, event.a, event.b),
            5 => {
                self.charge(core, event.a);
                self.look(core)
            }
            6 => self.tick(core, event.now),
            7 => {
                self.program(core);
                self.look(core)
            }
            _ => [0; 6],
        }
    }
}

#[derive(Default)]
struct BwLock {
    system: Option<System>,
}

impl World for BwLock {
    fn apply(&mut self, event: &Event) -> Answer {
        let Some(system) = &mut self.system else {
            if event.op == 0 {
                self.system = System::new(event);
            }
            return Answer { word: [u64::from(self.system.is_some()), 0, 0, 0, 0, 0] };
        };
        Answer { word: system.apply(event) }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(BwLock::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cores, a period of 1000, at most 100 accesses, at least 10; task 1 is real-time, task 2
    /// is not.
    fn system() -> System {
        let init = Event { a: 1000, b: 100, c: 10, d: 2, ..Event::default() };
        let mut system = System::new(&init).expect("a valid configuration");
        system.add(&Event { id: 1, a: 1, ..Event::default() });
        system.add(&Event { id: 2, ..Event::default() });
        system
    }

    #[test]
    fn a_lock_holds_the_others_to_the_minimum() {
        let mut system = system();
        assert_eq!(system.switch(0, 1, 0), [1, 1, UNLIMITED, 0, 0, MAX_SAMPLE]);
        assert_eq!(system.switch(1, 2, 0), [1, 1, 100, 0, 0, 100]);
        system.charge(1, 50);
        assert_eq!(system.lock(1), [1, 1, 1, 0, 0, 0]);
        assert_eq!(system.look(1), [1, 50, 50, 100, 0, 0], "not told yet");
        system.program(1);
        assert_eq!(system.look(1), [0, 1, 50, 10, 0, 0]);
        assert_eq!(system.look(0), [1, MAX_SAMPLE, 0, UNLIMITED, 0, 0], "rule 1");
        assert_eq!(system.unlock(1), [1, 0, 0, 0, 0, 0]);
        system.program(1);
        assert_eq!(system.look(1), [1, 50, 50, 100, 0, 0]);
    }

    #[test]
    fn the_lock_follows_its_task() {
        let mut system = system();
        assert_eq!(system.lock(1), [1, 1, 0, 0, 0, 0], "does not run yet");
        assert_eq!(system.switch(0, 1, 0)[4], 1);
        assert_eq!(system.switch(1, 1, 0), [0; 6], "runs elsewhere");
        assert_eq!(system.lock(1), [1, 2, 1, 0, 0, 0]);
        assert_eq!(
            system.switch(0, u64::from(NONE), 7)[3..5],
            [0, 0],
            "a real-time task's accesses are not charged"
        );
        assert_eq!(system.switch(0, 1, 3)[3..5], [3, 1], "the idle task's are");
        assert_eq!(system.exit(1), [1, 0, 0, 0, 0, 0]);
        assert_eq!(system.exit(1), [0; 6]);
        assert_eq!(system.lock(2), [0; 6], "not real-time");
    }
}
