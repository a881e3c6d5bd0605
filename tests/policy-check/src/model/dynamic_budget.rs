//! Dynamic budgeting: while hard task i executes, a soft core may make B_i accesses; when the task
//! finishes before its worst case, the soft core is free until the time A_i that the task might
//! have taken has passed (dynamic-budgeting, sections III and IV, algorithm 1, with the extension
//! to several hard cores of IV.B).

use crate::{Answer, Event, World};
use std::collections::BTreeMap;

const MAX_CPUS: u64 = 256;
const MAX_TASKS: u32 = 4096;
const MAX_TIME: u64 = 1 << 62;
const MAX_SPAN: u64 = 1 << 42;
const MAX_ACCESSES: u64 = 0xffff_ffff;
const MAX_SAMPLE: u64 = 0x7fff_ffff;
const UNLIMITED: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct ModelDynamicTask {
    hard_core: u64,
    budget: u64,
    length_ns: u64,
}

/// A budget in force, or that waits behind one of a higher priority.
#[derive(Clone, Copy)]
struct Entry {
    left: u64,
    left_ns: u64,
    finished: bool,
}

#[derive(Default)]
struct ModelSoftCore {
    last_ns: u64,
    tasks: BTreeMap<u32, ModelDynamicTask>,
    /// `activeBudgets` of each hard core, by priority: the first is the head.
    lists: BTreeMap<u64, BTreeMap<u32, Entry>>,
}

/// Time and accesses pass for one list. At most one budget expires.
fn advance(list: &mut BTreeMap<u32, Entry>, elapsed: u64, accesses: u64) {
    let Some(mut head) = list.first_entry() else {
        return;
    };
    let entry = head.get_mut();
    entry.left = entry.left.saturating_sub(accesses);
    if elapsed < entry.left_ns {
        entry.left_ns -= elapsed;
        return;
    }
    let late = elapsed > entry.left_ns;
    head.remove();
    if late && let Some(mut next) = list.first_entry() {
        next.get_mut().left = next.get().left.saturating_sub(accesses);
    }
}

impl ModelSoftCore {
    fn active(&self, id: u32) -> Option<&Entry> {
        self.lists.get(&self.tasks.get(&id)?.hard_core)?.get(&id)
    }

    fn define(&mut self, event: &Event) -> bool {
        let task = ModelDynamicTask { hard_core: event.a, budget: event.b, length_ns: event.c };
        let valid = event.id < MAX_TASKS
            && task.hard_core < MAX_CPUS
            && (1..=MAX_ACCESSES).contains(&task.budget)
            && (1..=MAX_SPAN).contains(&task.length_ns);
        let stays = |was: &ModelDynamicTask| was.hard_core == task.hard_core;
        let active = self.active(event.id).is_some();
        if !valid || (active && !self.tasks.get(&event.id).is_some_and(stays)) {
            return false;
        }
        self.tasks.insert(event.id, task);
        true
    }

    fn pass(&mut self, event: &Event) {
        let now = event.now.min(MAX_TIME).max(self.last_ns);
        let elapsed = now - self.last_ns;
        self.last_ns = now;
        self.lists.values_mut().for_each(|list| advance(list, elapsed, event.a));
    }

    fn started(&mut self, event: &Event) -> [u64; 6] {
        let Some(&task) = self.tasks.get(&event.id) else {
            return [0; 6];
        };
        self.pass(event);
        let entry = Entry { left: task.budget, left_ns: task.length_ns, finished: false };
        self.lists.entry(task.hard_core).or_default().insert(event.id, entry);
        self.decide()
    }

    fn finished(&mut self, event: &Event) -> [u64; 6] {
        if event.id >= MAX_TASKS {
            return [0; 6];
        }
        // What passed has passed, whether or not the task has a budget.
        self.pass(event);
        for list in self.lists.values_mut() {
            list.entry(event.id).and_modify(|entry| entry.finished = true);
        }
        self.decide()
    }

    fn decide(&self) -> [u64; 6] {
        let heads: Vec<Entry> =
            self.lists.values().filter_map(|list| list.values().next().copied()).collect();
        let limit = heads
            .iter()
            .filter(|head| !head.finished)
            .map(|head| head.left)
            .min()
            .unwrap_or(UNLIMITED);
        let timeout =
            heads.iter().map(|head| self.last_ns + head.left_ns).min().unwrap_or(UNLIMITED);
        [u64::from(limit > 0), limit, limit.clamp(1, MAX_SAMPLE), timeout, 0, 0]
    }

    fn entry(&self, id: u32) -> [u64; 6] {
        self.active(id)
            .map_or([0; 6], |entry| [1, entry.left, entry.left_ns, u64::from(entry.finished), 0, 0])
    }
}

#[derive(Default)]
struct DynamicBudget {
    core: Option<ModelSoftCore>,
}

impl World for DynamicBudget {
    fn apply(&mut self, event: &Event) -> Answer {
        let Some(core) = &mut self.core else {
            if event.op == 0 {
                self.core = Some(ModelSoftCore {
                    last_ns: event.now.min(MAX_TIME),
                    ..ModelSoftCore::default()
                });
            }
            return Answer { word: [u64::from(self.core.is_some()), 0, 0, 0, 0, 0] };
        };
        let word = match event.op {
            1 => [u64::from(core.define(event)), 0, 0, 0, 0, 0],
            2 => core.started(event),
            3 => core.finished(event),
            4 => {
                core.pass(event);
                core.decide()
            }
            5 => core.entry(event.id),
            _ => [0; 6],
        };
        Answer { word }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(DynamicBudget::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: u32 = 2;
    const FINISHED: u32 = 3;
    const EVENT: u32 = 4;

    fn soft_core(tasks: &[(u32, u64, u64, u64)]) -> Box<dyn World> {
        let mut world = world();
        assert_eq!(world.apply(&Event::default()).word[0], 1);
        for &(id, a, b, c) in tasks {
            assert_eq!(world.apply(&Event { op: 1, id, a, b, c, ..Event::default() }).word[0], 1);
        }
        world
    }

    /// Verdict, limit and timeout.
    fn at(world: &mut dyn World, now: u64, op: u32, id: u32, a: u64) -> [u64; 3] {
        let word = world.apply(&Event { op, id, now, a, ..Event::default() }).word;
        [word[0], word[1], word[3]]
    }

    /// Figure 1: task 2 starts, is preempted by task 1, which finishes early; then task 2 finishes
    /// early.
    #[test]
    fn flodin_figure_1() {
        // B_1 = 20 for A_1 = 40 ns; B_2 = 50 for A_2 = 100 ns.
        let mut core = soft_core(&[(1, 0, 20, 40), (2, 0, 50, 100)]);
        assert_eq!(at(&mut *core, 0, STARTED, 2, 0), [1, 50, 100]);
        // s_1 = 30: 10 accesses under B_2, of which 70 ns are left; B_1 until 70.
        assert_eq!(at(&mut *core, 30, STARTED, 1, 10), [1, 20, 70]);
        // f_1 = 50: free until e_1 = 70.
        assert_eq!(at(&mut *core, 50, FINISHED, 1, 5), [1, UNLIMITED, 70]);
        // e_1: back to B_2, its 40 left, for the 70 ns that were left.
        assert_eq!(at(&mut *core, 70, EVENT, 0, 1000), [1, 40, 140]);
        // f_2 = 110: free until e_2 = 140.
        assert_eq!(at(&mut *core, 110, FINISHED, 2, 39), [1, UNLIMITED, 140]);
        assert_eq!(at(&mut *core, 140, EVENT, 0, 7), [1, UNLIMITED, UNLIMITED]);
    }

    /// Figure 2: two hard cores; the smallest of the heads' budgets counts, and a depleted one
    /// stops the core.
    #[test]
    fn flodin_figure_2() {
        // tau_1 with D = 2, tau_2 with D = 3, in units of 100 ns; R = D.
        let mut core = soft_core(&[(1, 0, 10, 200), (2, 1, 25, 300)]);
        assert_eq!(at(&mut *core, 0, STARTED, 1, 0), [1, 10, 200]);
        assert_eq!(at(&mut *core, 0, STARTED, 2, 0), [1, 10, 200]);
        // Depleted under B_1: stopped though B_2 has 15.
        assert_eq!(at(&mut *core, 80, EVENT, 0, 10), [0, 0, 200]);
        // tau_1 finishes early: what is left of B_2.
        assert_eq!(at(&mut *core, 120, FINISHED, 1, 0), [1, 15, 200]);
        // B_1 expires when tau_1 starts again: a full budget, but B_2 is down to 5.
        assert_eq!(at(&mut *core, 200, STARTED, 1, 10), [1, 5, 300]);
        assert_eq!(at(&mut *core, 250, FINISHED, 2, 5), [1, 5, 300]);
        assert_eq!(at(&mut *core, 300, EVENT, 0, 4), [1, 1, 400]);
    }

    #[test]
    fn a_late_expiry_charges_the_next_budget_as_well() {
        let mut core = soft_core(&[(1, 0, 20, 40), (2, 0, 50, 100)]);
        at(&mut *core, 0, STARTED, 2, 0);
        at(&mut *core, 0, STARTED, 1, 0);
        assert_eq!(at(&mut *core, 41, EVENT, 0, 15), [1, 35, 141]);
    }
}
