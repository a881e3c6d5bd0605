//! Reference model of mixed-criticality scheduling: MC2 as in the mc2-os-isolation paper, section 2
//! and Fig. 1: Level A by a table per core, Level B rate-monotonic per core, Level C global EDF,
//! Level D best effort; levels are strictly ordered. Each level's budget is the task's PET at that
//! level.
//!
//! Every pick looks at every task.

use super::sporadic_server::{MAX_SPAN, clock};
use crate::{Answer, Event, World};
use std::collections::BTreeMap;

const NONE: u64 = 0xffff_ffff;
const MAX_CPUS: u64 = 8;
const MAX_TASKS: u32 = 4096;

const A: u64 = 0;
const B: u64 = 1;
const C: u64 = 2;
const D: u64 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle = 1,
    Ready = 2,
    Suspended = 3,
}

struct ModelLevelTask {
    level: u64,
    core: u64,
    period: u64,
    pet: u64,
    state: State,
    used: u64,
    deadline: u64,
    overruns: u64,
}

#[derive(Default)]
struct ModelLevelCore {
    last: u64,
    running: Option<u32>,
    frame: u64,
    /// (start, end, task).
    slots: Vec<(u64, u64, u32)>,
}

struct System {
    origin: u64,
    cores: Vec<ModelLevelCore>,
    tasks: BTreeMap<u32, ModelLevelTask>,
}

fn span(value: u64) -> bool {
    (1..=MAX_SPAN).contains(&value)
}

impl System {
    fn new(event: &Event) -> Self {
        let origin = clock(event.now);
        let cores = (0..event.a)
            .map(|_| ModelLevelCore { last: origin, ..ModelLevelCore::default() })
            .collect();
        Self { origin, cores, tasks: BTreeMap::new() }
    }

    fn define(&mut self, event: &Event) -> bool {
        let Event { id, a: level, b: core, c: period, d: pet, .. } = *event;
        let core_valid = level == C || core < self.cores.len() as u64;
        let pet_valid = level == D || span(pet);
        if id >= MAX_TASKS
            || self.tasks.contains_key(&id)
            || level > D
            || !core_valid
            || !span(period)
            || !pet_valid
        {
            return false;
        }
        let task = ModelLevelTask {
            level,
            core,
            period,
            pet,
            state: State::Idle,
            used: 0,
            deadline: 0,
            overruns: 0,
        };
        self.tasks.insert(id, task);
        true
    }

    fn add_slot(&mut self, event: &Event) -> bool {
        let Event { a: start, b: end, c: id, d: frame, .. } = *event;
        let Some(core) = self.cores.get_mut(event.id as usize) else { return false };
        let Ok(id) = u32::try_from(id) else { return false };
        let here = self
            .tasks
            .get(&id)
            .is_some_and(|task| task.level == A && task.core == u64::from(event.id));
        let follows = core.slots.last().is_none_or(|last| last.1 <= start);
        let same_frame = core.slots.is_empty() || core.frame == frame;
        let full = core.slots.len() == MAX_TASKS as usize;
        if !here || !span(frame) || !same_frame || start >= end || end > frame || !follows || full {
            return false;
        }
        core.frame = frame;
        core.slots.push((start, end, id));
        true
    }

    fn release(&mut self, id: u32, now: u64) -> Option<State> {
        // What it ran until now was for the job before, and may have been all of its budget.
        if let Some(core) = self.runs_on(id) {
            self.settle(core, now);
            self.enforce(core);
        }
        let task = self.tasks.get_mut(&id)?;
        let again = task.state == State::Ready;
        if again && task.level == D {
            return Some(task.state);
        }
        if again && task.level == A {
            task.overruns += 1;
        }
        task.state = State::Ready;
        task.used = 0;
        task.deadline = clock(now) + task.period;
        Some(task.state)
    }

    /// Charges the task that runs on `core`; answers the time.
    fn settle(&mut self, core: usize, now: u64) -> u64 {
        let core = &mut self.cores[core];
        let now = clock(now).max(core.last);
        if let Some(task) = core.running.and_then(|id| self.tasks.get_mut(&id)) {
            task.used = task.used.saturating_add(now - core.last);
        }
        core.last = now;
        now
    }

    fn complete(&mut self, id: u32, now: u64) -> bool {
        if self.tasks.get(&id).is_none_or(|task| task.state != State::Ready) {
            return false;
        }
        if let Some(core) = self.runs_on(id) {
            self.settle(core, now);
            self.cores[core].running = None;
        }
        self.tasks.get_mut(&id).expect("checked above").state = State::Idle;
        true
    }

    fn runs_on(&self, id: u32) -> Option<usize> {
        self.cores.iter().position(|core| core.running == Some(id))
    }

    /// A job that has had its budget ends (A) or waits for its next release (B, C).
    fn enforce(&mut self, core: usize) {
        let Some(task) = self.cores[core].running.and_then(|id| self.tasks.get_mut(&id)) else {
            return;
        };
        if task.level != D && task.used >= task.pet {
            task.overruns += 1;
            task.state = if task.level == A { State::Idle } else { State::Suspended };
            self.cores[core].running = None;
        }
    }

    /// The slot's task, and when the table changes next.
    fn table(&self, core: usize, now: u64) -> (Option<u32>, u64) {
        let ModelLevelCore { frame, ref slots, .. } = self.cores[core];
        let Some(first) = slots.first() else { return (None, u64::MAX) };
        let offset = (now - self.origin) % frame;
        let begin = now - offset;
        if let Some(slot) = slots.iter().find(|slot| (slot.0..slot.1).contains(&offset)) {
            return (Some(slot.2), begin + slot.1);
        }
        let next = slots
            .iter()
            .find(|slot| slot.0 > offset)
            .map_or(begin + frame + first.0, |slot| begin + slot.0);
        (None, next)
    }

    fn choose(&self, core: usize, slot: Option<u32>) -> Option<u32> {
        let ready = |level| {
            let of_level = move |(_, task): &(&u32, &ModelLevelTask)| {
                task.state == State::Ready && task.level == level
            };
            self.tasks.iter().filter(of_level)
        };
        let here = |(_, task): &(&u32, &ModelLevelTask)| task.core == core as u64;
        let free = |(id, _): &(&u32, &ModelLevelTask)| {
            self.runs_on(**id).is_none_or(|other| other == core)
        };
        let table_driven = ready(A).map(|(&id, _)| id).find(|id| slot == Some(*id));
        let rate_monotonic = || {
            ready(B).filter(here).min_by_key(|(id, task)| (task.period, **id)).map(|(&id, _)| id)
        };
        let global_edf = || {
            ready(C).filter(free).min_by_key(|(id, task)| (task.deadline, **id)).map(|(&id, _)| id)
        };
        let best_effort = || ready(D).find(here).map(|(&id, _)| id);
        table_driven.or_else(rate_monotonic).or_else(global_edf).or_else(best_effort)
    }

    fn pick(&mut self, core: usize, now: u64) -> Answer {
        let now = self.settle(core, now);
        self.enforce(core);
        let (slot, edge) = self.table(core, now);
        let picked = self.choose(core, slot);
        self.cores[core].running = picked;
        let (mut level, mut until) = (4, edge);
        if let Some(task) = picked.and_then(|id| self.tasks.get(&id)) {
            level = task.level;
            if level != D {
                until = until.min(now + task.pet - task.used);
            }
        }
        let overruns = self.tasks.values().map(|task| task.overruns).sum();
        Answer { word: [picked.map_or(NONE, u64::from), level, until, overruns, 0, 0] }
    }

    fn state(&self, id: u32) -> Answer {
        let Some(task) = self.tasks.get(&id) else { return Answer::default() };
        let core = self.runs_on(id).map_or(NONE, |core| core as u64);
        Answer { word: [task.state as u64, task.used, task.deadline, task.overruns, core, 0] }
    }
}

#[derive(Default)]
struct Model {
    system: Option<System>,
}

impl World for Model {
    fn apply(&mut self, event: &Event) -> Answer {
        let mut out = Answer::default();
        let Some(system) = self.system.as_mut() else {
            if event.op == 0 && (1..=MAX_CPUS).contains(&event.a) {
                self.system = Some(System::new(event));
                out.word[0] = 1;
            }
            return out;
        };
        match event.op {
            1 => out.word[0] = u64::from(system.define(event)),
            2 => out.word[0] = u64::from(system.add_slot(event)),
            3 => {
                if let Some(state) = system.release(event.id, event.now) {
                    out.word[..2].copy_from_slice(&[1, state as u64]);
                }
            }
            4 => out.word[0] = u64::from(system.complete(event.id, event.now)),
            5 if (event.id as usize) < system.cores.len() => {
                out = system.pick(event.id as usize, event.now)
            }
            6 => out = system.state(event.id),
            _ => {}
        }
        out
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::<Model>::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(world: &mut dyn World, op: u32, id: u32, now: u64, operands: [u64; 4]) -> [u64; 6] {
        let [a, b, c, d] = operands;
        world.apply(&Event { op, id, now, a, b, c, d }).word
    }

    /// Two cores. 0: A on core 0, slot 10..20 of 100. 1: B on core 0, T 50, PET 5. 2, 3: C. 4: D on
    /// core 0.
    fn example() -> Box<dyn World> {
        let mut w = world();
        assert_eq!(apply(&mut *w, 0, 0, 0, [2, 0, 0, 0])[0], 1);
        for (id, task) in (0..).zip([
            [A, 0, 100, 10],
            [B, 0, 50, 5],
            [C, 0, 200, 30],
            [C, 0, 100, 30],
            [D, 0, 100, 0],
        ]) {
            assert_eq!(apply(&mut *w, 1, id, 0, task)[0], 1);
        }
        assert_eq!(apply(&mut *w, 2, 0, 0, [10, 20, 0, 100])[0], 1);
        for id in 0..5 {
            assert_eq!(apply(&mut *w, 3, id, 0, [0; 4]), [1, 2, 0, 0, 0, 0]);
        }
        w
    }

    #[test]
    fn levels_are_ordered() {
        let mut w = example();
        assert_eq!(apply(&mut *w, 5, 0, 0, [0; 4]), [1, 1, 5, 0, 0, 0]);
        // B's budget is used up: suspended. C 3 has the earlier deadline; the table's slot comes at
        // 10.
        assert_eq!(apply(&mut *w, 5, 0, 5, [0; 4]), [3, 2, 10, 1, 0, 0]);
        // The other core takes the other C.
        assert_eq!(apply(&mut *w, 5, 1, 5, [0; 4]), [2, 2, 35, 1, 0, 0]);
        assert_eq!(apply(&mut *w, 5, 0, 10, [0; 4]), [0, 0, 20, 1, 0, 0]);
        assert_eq!(apply(&mut *w, 4, 0, 15, [0; 4])[0], 1);
        // The slot is not over, but A's job is: C goes on with what is left, 25.
        assert_eq!(apply(&mut *w, 5, 0, 15, [0; 4]), [3, 2, 20, 1, 0, 0]);
        assert_eq!(apply(&mut *w, 6, 0, 0, [0; 4]), [1, 5, 100, 0, NONE, 0]);
        assert_eq!(apply(&mut *w, 6, 3, 0, [0; 4]), [2, 5, 100, 0, 0, 0]);
    }

    #[test]
    fn best_effort_is_last_and_then_idle() {
        let mut w = example();
        for id in 0..4 {
            assert_eq!(apply(&mut *w, 4, id, 0, [0; 4])[0], 1);
        }
        assert_eq!(apply(&mut *w, 5, 0, 0, [0; 4]), [4, 3, 10, 0, 0, 0]);
        assert_eq!(apply(&mut *w, 5, 1, 0, [0; 4]), [NONE, 4, u64::MAX, 0, 0, 0]);
    }

    #[test]
    fn a_slot_must_be_of_a_level_a_task_of_the_core() {
        let mut w = example();
        assert_eq!(apply(&mut *w, 2, 0, 0, [20, 30, 1, 100])[0], 0); // level B
        assert_eq!(apply(&mut *w, 2, 1, 0, [20, 30, 0, 100])[0], 0); // other core
        assert_eq!(apply(&mut *w, 2, 0, 0, [19, 30, 0, 100])[0], 0); // overlaps
        assert_eq!(apply(&mut *w, 2, 0, 0, [20, 30, 0, 99])[0], 0); // another frame
        assert_eq!(apply(&mut *w, 2, 0, 0, [20, 101, 0, 100])[0], 0); // outside
        assert_eq!(apply(&mut *w, 2, 0, 0, [20, 100, 0, 100])[0], 1);
    }
}
