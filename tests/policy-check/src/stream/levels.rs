//! Random tasks of all levels on a few cores, with tables; jobs are released, complete and overrun.

use super::follow;
use super::heap::{Clock, Step, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Names of the operations.
pub const OPERATIONS: Operations =
    &["init", "task", "slot", "release", "complete", "pick", "state"];

const MAX_TIME: u64 = 1 << 62;
const MAX_SPAN: u64 = 1 << 42;
const MAX_TASKS: u32 = 4096;
const NONE: u64 = 0xffff_ffff;

fn task(step: &Step, id: u32, cores: u64) -> Event {
    let (x, delta) = (u64::from(step.x), u64::from(step.delta));
    let c = match step.size {
        0..=247 => 10 + x % 60,
        248..=251 => MAX_SPAN,
        252 => 0,
        253 => MAX_SPAN + 1,
        _ => 1 + x,
    };
    let d = match step.pace {
        0..=239 => 1 + delta % 12,
        240..=247 => 1,
        248..=251 => MAX_SPAN,
        252 => 0,
        253 => MAX_SPAN + 1,
        _ => 1 + delta,
    };
    let a = if step.op == 255 { 4 } else { u64::from(id % 4) };
    let b = if step.id == 255 { cores } else { x / 64 % cores };
    Event { op: 1, id, a, b, c, d, ..Event::default() }
}

/// The next slot of a core's table: for a task of level A that is on it, or, rarely, not.
fn slot(step: &Step, tasks: &[Event], cursor: &mut [u64], frame: u64) -> Event {
    let chosen = tasks[step.x as usize % tasks.len()];
    let core = chosen.b as usize % cursor.len();
    let start = cursor[core] + u64::from(step.delta % 3) * u64::from(step.delta >> 8 & 7);
    let end = start + 1 + u64::from(step.delta >> 16) % 8;
    let (a, b) = match step.size {
        0..=247 => (start, end),
        248..=250 => (start, start),
        251..=253 => (start.saturating_sub(1), end),
        _ => (start, frame + 1),
    };
    let d = if step.pace < 252 {
        frame
    } else {
        [0, frame + 1, MAX_SPAN + 1, 1][usize::from(step.pace) % 4]
    };
    if chosen.a == 0 && b <= frame && a < b {
        cursor[core] = cursor[core].max(b);
    }
    Event {
        op: 2,
        id: if step.id < 252 { core as u32 } else { step.delta % 9 },
        a,
        b,
        c: u64::from(chosen.id),
        d,
        now: 0,
    }
}

fn decode_step(step: &Step, now: u64, cores: u32, ids: u32) -> Event {
    let core = if step.id < 252 { u32::from(step.id) % cores } else { step.delta % 9 };
    let id = match step.size {
        0..=247 => u32::from(step.size) % ids,
        248..=250 => MAX_TASKS - 1,
        _ => step.delta,
    };
    let (op, id) = match step.op {
        0..=124 => (5, core),
        125..=184 => (3, id),
        185..=214 => (4, id),
        215..=249 => (6, id),
        250 | 251 => return task(step, id, u64::from(cores)),
        252 | 253 => return Event { a: 2, now, ..Event::default() },
        254.. => (u32::from(step.pace), id),
    };
    Event { op, id, now, ..Event::default() }
}

fn decode((config, steps): ([u32; 8], Vec<Step>)) -> Vec<Event> {
    let cores: u32 = [1, 2, 2, 3, 4, 8][config[0] as usize % 6];
    let ids = [4, 8, 16, 40][config[1] as usize % 4];
    let start = [0, 0, u64::from(config[2]), MAX_TIME - 1000][config[3] as usize % 4];
    let mut events = vec![Event { op: 5, ..Event::default() }];
    if config[4] % 8 == 7 {
        events.push(Event { a: [0, 9, 257, u64::MAX][config[5] as usize % 4], ..Event::default() });
    }
    events.push(Event { now: start, a: u64::from(cores), ..Event::default() });
    let setup = (ids as usize).min(steps.len());
    events.extend((0..).zip(&steps[..setup]).map(|(id, step)| task(step, id, u64::from(cores))));
    let tasks: Vec<Event> =
        events.iter().filter(|event| event.op == 1 && event.a == 0).copied().collect();
    let slots = (config[5] % 24) as usize;
    let frame = [40, 60, 25, 100][config[6] as usize % 4];
    let mut cursor = vec![0; cores as usize];
    if !tasks.is_empty() {
        events.extend(steps.iter().take(slots).map(|step| slot(step, &tasks, &mut cursor, frame)));
    }
    let mut clock = Clock::new(start, [2, 5, 12][config[7] as usize % 3], config[7] / 4 % 8 == 7);
    events
        .extend(steps[setup..].iter().map(|step| decode_step(step, clock.next(step), cores, ids)));
    events
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    steps(length).prop_map(decode).boxed()
}

struct ToldLevelTask {
    level: u64,
    core: u64,
    key: u64,
    period: u64,
    pet: u64,
    ready: bool,
    used: u64,
}

#[derive(Clone, Default)]
struct ToldLevelCore {
    last: u64,
    running: Option<u32>,
    frame: u64,
    slots: Vec<(u64, u64, u32)>,
}

struct Ledger {
    origin: u64,
    overruns: u64,
    cores: Vec<ToldLevelCore>,
    tasks: BTreeMap<u32, ToldLevelTask>,
}

impl Ledger {
    fn release(&mut self, event: &Event) {
        if let Some(core) = self.cores.iter().position(|core| core.running == Some(event.id)) {
            self.run(core, event.now);
            self.enforce(core);
        }
        let Some(task) = self.tasks.get_mut(&event.id) else { return };
        if task.ready && task.level == 3 {
            return;
        }
        self.overruns += u64::from(task.ready && task.level == 0);
        task.ready = true;
        task.used = 0;
        // Deadline of level C; others keep their period.
        task.key =
            if task.level == 2 { event.now.min(MAX_TIME) + task.period } else { task.period };
    }

    /// Time passes on a core.
    fn run(&mut self, core: usize, now: u64) -> u64 {
        let core = &mut self.cores[core];
        let now = now.min(MAX_TIME).max(core.last);
        if let Some(task) = core.running.and_then(|id| self.tasks.get_mut(&id)) {
            task.used += now - core.last;
        }
        core.last = now;
        now
    }

    /// A job that has had its budget is no longer ready.
    fn enforce(&mut self, core: usize) {
        let running = self.cores[core].running;
        if let Some(task) = running.and_then(|id| self.tasks.get_mut(&id))
            && task.level < 3
            && task.used >= task.pet
        {
            task.ready = false;
            self.overruns += 1;
            self.cores[core].running = None;
        }
    }

    fn complete(&mut self, event: &Event, done: u64) -> Result<(), String> {
        let ready = self.tasks.get(&event.id).is_some_and(|task| task.ready);
        if (done == 1) != ready {
            return Err("completed what was not ready, or the reverse".into());
        }
        if !ready {
            return Ok(());
        }
        if let Some(core) = self.cores.iter().position(|core| core.running == Some(event.id)) {
            self.run(core, event.now);
            self.cores[core].running = None;
        }
        self.tasks.get_mut(&event.id).expect("it is ready").ready = false;
        Ok(())
    }

    /// Does the table of a core give it to a task at this time?
    fn slot(&self, core: usize, now: u64) -> Option<u32> {
        let core = &self.cores[core];
        let offset = (now - self.origin).checked_rem(core.frame)?;
        core.slots.iter().find(|slot| slot.0 <= offset && offset < slot.1).map(|slot| slot.2)
    }

    /// The highest level with work for this core, and the smallest (key, id) of it.
    fn best(&self, core: usize, now: u64) -> (u64, u64) {
        let slot = self.slot(core, now);
        let elsewhere = |id| {
            (0..self.cores.len())
                .any(|other| other != core && self.cores[other].running == Some(id))
        };
        let eligible = |id: u32, task: &ToldLevelTask| match task.level {
            0 => slot == Some(id),
            2 => !elsewhere(id),
            _ => task.core == core as u64,
        };
        let ready = self.tasks.iter().filter(|(id, task)| task.ready && eligible(**id, task));
        let order = |(id, task): (&u32, &ToldLevelTask)| {
            (task.level, if task.level == 3 { 0 } else { task.key }, *id)
        };
        ready.map(order).min().map_or((NONE, 4), |(level, _, id)| (u64::from(id), level))
    }

    fn pick(&mut self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let [picked, level, until, overruns, ..] = *word;
        let core = event.id as usize;
        let now = self.run(core, event.now);
        self.enforce(core);
        self.cores[core].running = None;
        if overruns != self.overruns {
            return Err(format!("{} overruns so far", self.overruns));
        }
        let best = self.best(core, now);
        if (picked, level) != best {
            return Err(format!("it should run {best:?}"));
        }
        let id = u32::try_from(picked).ok().filter(|_| picked != NONE);
        if id.is_some_and(|id| self.cores.iter().any(|other| other.running == Some(id))) {
            return Err("the same task on two cores".into());
        }
        if until <= now {
            return Err("it would be asked again at once".into());
        }
        // Between now and then the table does not change (looked at one tick before, and in the
        // middle).
        let quiet = [now + (until - now) / 2, until - 1];
        if until != u64::MAX
            && quiet.iter().any(|&then| self.slot(core, then) != self.slot(core, now))
        {
            return Err("the table changes before that".into());
        }
        if let Some(task) = id.and_then(|id| self.tasks.get(&id)).filter(|task| task.level < 3)
            && until - now > task.pet - task.used
        {
            return Err("the budget ends before that".into());
        }
        self.cores[core].running = id;
        Ok(())
    }

    fn state(&self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let Some(task) = self.tasks.get(&event.id) else { return Ok(()) };
        if (word[0] == 2) != task.ready || word[1] != task.used {
            return Err(format!("ready: {}, used: {}", task.ready, task.used));
        }
        Ok(())
    }

    fn apply(&mut self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        match event.op {
            1 if word[0] == 1 => {
                let Event { a: level, b: core, c: period, d: pet, .. } = *event;
                let task =
                    ToldLevelTask { level, core, key: period, period, pet, ready: false, used: 0 };
                self.tasks.insert(event.id, task);
                Ok(())
            }
            2 if word[0] == 1 => {
                let core = &mut self.cores[event.id as usize];
                core.frame = event.d;
                core.slots.push((
                    event.a,
                    event.b,
                    u32::try_from(event.c).map_err(|error| error.to_string())?,
                ));
                Ok(())
            }
            3 if word[0] == 1 => {
                self.release(event);
                if word[1] == 2 { Ok(()) } else { Err("released, and not ready".into()) }
            }
            4 => self.complete(event, word[0]),
            5 if (event.id as usize) < self.cores.len() => self.pick(event, word),
            6 => self.state(event, word),
            _ if word != &[0; 6] => Err("an answer to what is refused".into()),
            _ => Ok(()),
        }
    }
}

/// Whenever a core is asked: a ready Level-A job runs in its slot, A goes before B before C before
/// D, no task runs on two cores, budgets are enforced, and the answer holds until the time it
/// names.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let open = |event: &Event| {
        let origin = event.now.min(MAX_TIME);
        let cores = usize::try_from(event.a).map_err(|error| error.to_string())?;
        let cores = vec![ToldLevelCore { last: origin, ..ToldLevelCore::default() }; cores];
        Ok(Ledger { origin, overruns: 0, cores, tasks: BTreeMap::new() })
    };
    follow(events, answers, open, Ledger::apply)
}
