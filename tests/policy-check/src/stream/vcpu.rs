//! Random VCPUs on a core; in every other stream the scheduler is punctual: it is asked again no
//! later than it wanted to be.

use super::follow;
use super::heap::{Clock, Step, steps};
use super::sporadic_server::{Window, parameters};
use crate::{Answer, Event, Operations, model};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Names of the operations.
pub const OPERATIONS: Operations = &[
    "init",
    "add",
    "remove",
    "wake",
    "block",
    "tick",
    "allow",
    "intensity",
    "state",
    "pause",
    "resume",
    "take",
    "put",
];

const MAX_TIME: u64 = 1 << 62;
const MAX_TASKS: u32 = 4096;
const NONE: u64 = 0xffff_ffff;

fn add(id: u32, now: u64, x: u32, y: u32, size: u8) -> Event {
    // Mostly periods of the same size, and two thirds of the servers strict.
    let [a, b, c, d] = parameters(x, y, size, !x.is_multiple_of(3));
    Event { op: 1, id, now, a, b, c, d }
}

fn decode_step(step: &Step, now: u64, ids: u32) -> Event {
    let id = match step.id {
        0..=247 => u32::from(step.id) % ids,
        248..=251 => MAX_TASKS - 1,
        252 => MAX_TASKS,
        _ => step.delta % (2 * MAX_TASKS),
    };
    let (op, a) = match step.op {
        0..=99 => (5, 0),
        100..=149 => (3, 0),
        150..=184 => (4, 0),
        185..=195 => return add(id, now, step.delta, step.x, step.size / 2),
        196..=199 => (11, 0),
        200..=203 => (2, 0),
        204..=214 => (6, u64::from(step.size > 100)),
        215..=222 => {
            (7, [u64::from(step.x) % 4, u64::from(step.x), u64::MAX][usize::from(step.size) / 120])
        }
        223..=241 => (8, 0),
        242..=244 => (9, 0),
        245..=250 => (10, 0),
        251..=252 => (12, 0),
        253 => (0, u64::from(step.x % 4)),
        254.. => (u32::from(step.size), u64::from(step.x)),
    };
    Event { op, id, now, a, ..Event::default() }
}

/// Adding a VCPU picks, but does not answer whom: mostly it is asked for at once. What is taken is
/// mostly put back.
fn push(event: Event, step: &Step, events: &mut Vec<Event>) {
    events.push(event);
    if event.op == 11 && step.x % 8 != 7 {
        events.push(Event {
            op: 12,
            id: event.id ^ u32::from(step.x % 3 == 2),
            now: event.now,
            ..Event::default()
        });
    }
    if matches!(event.op, 1 | 11 | 12) && step.pace < 240 {
        events.push(Event { op: 5, now: event.now, ..Event::default() });
    }
}

/// Times that the scheduler asked for, or earlier.
fn punctual(steps: &[Step], ids: u32, typical: u64, events: &mut Vec<Event>) {
    let mut core = model::vcpu::world();
    for event in events.iter() {
        core.apply(event);
    }
    let mut now = events.last().map_or(0, |event| event.now);
    let mut until = now;
    for step in steps {
        let delta = u64::from(step.delta);
        let ahead = match step.pace {
            0..=39 => 0,
            40..=99 => delta % 3,
            100..=169 => delta % typical,
            _ => u64::MAX,
        };
        // With nothing to wait for, a long pause.
        let latest =
            if until == u64::MAX { now.saturating_add(delta % (8 * typical)) } else { until };
        now = now.saturating_add(ahead).min(latest.max(now)).min(MAX_TIME);
        let before = events.len();
        push(decode_step(step, now, ids), step, events);
        for event in &events[before..] {
            let answer = core.apply(event);
            if matches!(event.op, 2..=6 | 10 | 11) && answer.word[2] != 0 {
                until = answer.word[2];
            }
        }
    }
}

fn decode((config, steps): ([u32; 8], Vec<Step>)) -> Vec<Event> {
    let ids = [1, 2, 3, 5, 8, 12][config[0] as usize % 6];
    let start = [0, 0, 0, u64::from(config[1]), MAX_TIME - 2000][config[2] as usize % 5];
    let mut events = vec![Event { op: 5, ..Event::default() }];
    if config[3] % 8 == 7 {
        events.push(Event { a: 3 + u64::from(config[3] >> 8), now: start, ..Event::default() });
    }
    events.push(Event { a: u64::from(config[3] % 3), now: start, ..Event::default() });
    let setup = (ids as usize).min(steps.len());
    for (id, step) in (0..).zip(&steps[..setup]) {
        events.push(add(id, start, step.delta, step.x, step.size / 2));
        events.push(Event { op: 7, id, a: u64::from(step.size % 8), ..Event::default() });
        if step.pace < 192 {
            events.push(Event { op: 3, id, now: start, ..Event::default() });
        }
    }
    // The last intensity event bears no time; streams go on from `start`.
    events.push(Event { op: 5, now: start, ..Event::default() });
    let typical = [4, 12, 40][config[4] as usize % 3];
    if config[5] % 2 == 0 {
        punctual(&steps[setup..], ids, typical, &mut events);
    } else {
        let mut clock = Clock::new(start, typical, config[6] % 8 == 7);
        for step in &steps[setup..] {
            push(decode_step(step, clock.next(step), ids), step, &mut events);
        }
    }
    events
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    steps(length).prop_map(decode).boxed()
}

#[derive(Clone, Default)]
struct Vcpu {
    capacity: u64,
    period: u64,
    /// STRICT, and never yet run for longer than the scheduler said.
    strict: bool,
    /// Its times are known: nobody was picked unseen while it was there.
    counted: bool,
    runnable: bool,
    foreground: u64,
    background: u64,
    intensity: u64,
    window: Window,
}

struct Ledger {
    policy: u64,
    allowed: bool,
    last: u64,
    /// The last pick: VCPU, mode, until.
    current: u64,
    mode: u64,
    until: u64,
    /// Somebody may have been picked since.
    unseen: bool,
    /// Nobody runs.
    paused: bool,
    vcpus: BTreeMap<u32, Vcpu>,
    taken: Option<Vcpu>,
}

impl Ledger {
    /// The current VCPU has run until now.
    fn ran(&mut self, now: u64) -> Result<(), String> {
        let start = self.last;
        let late = now > self.until;
        self.last = now;
        if self.paused {
            // It was not running, so nothing is late.
            if self.unseen && now > start {
                (self.current, self.mode) = (NONE, 0);
                self.vcpus.values_mut().for_each(|vcpu| vcpu.counted = false);
            }
            return Ok(());
        }
        if self.unseen && now > start {
            (self.current, self.mode) = (NONE, 0);
            self.vcpus.values_mut().for_each(|vcpu| (vcpu.strict, vcpu.counted) = (false, false));
        }
        let current = u32::try_from(self.current).ok();
        let Some(vcpu) = current.and_then(|id| self.vcpus.get_mut(&id)) else { return Ok(()) };
        if self.mode == 2 {
            vcpu.background += now - start;
            return Ok(());
        }
        vcpu.foreground += now - start;
        vcpu.strict &= !late;
        if vcpu.strict && now > start && vcpu.window.run(start, now, vcpu.period) > vcpu.capacity {
            return Err("more foreground time than C in a window of T".into());
        }
        Ok(())
    }

    fn change(&mut self, event: &Event) {
        match event.op {
            2 => drop(self.vcpus.remove(&event.id)),
            11 => {
                self.taken =
                    self.vcpus.remove(&event.id).map(|vcpu| Vcpu { runnable: false, ..vcpu })
            }
            3 | 4 => self.vcpus.get_mut(&event.id).expect("it is there").runnable = event.op == 3,
            6 => self.allowed = event.a != 0,
            _ => {}
        }
        let gone = |id: u32| self.vcpus.get(&id).is_none_or(|vcpu| !vcpu.runnable);
        if u32::try_from(self.current).is_ok_and(gone) {
            (self.current, self.mode) = (NONE, 0);
        }
    }

    /// Who should be given background time: nobody has budget, so all that are runnable wait.
    fn background(&self, word: &[u64; 6]) -> bool {
        let runnable = || self.vcpus.iter().filter(|(_, vcpu)| vcpu.runnable);
        let least = |key: fn(&Vcpu) -> u64| {
            runnable().min_by_key(|(id, vcpu)| (key(vcpu), **id)).map(|(id, _)| *id)
        };
        let chosen = word[0];
        if runnable().any(|(_, vcpu)| !vcpu.counted) {
            return true;
        }
        match self.policy {
            0 if self.mode == 2 => chosen == self.current,
            0 => least(|vcpu| vcpu.background).map(u64::from) == Some(chosen),
            1 => self.current == NONE || chosen == self.current,
            _ => least(|vcpu| vcpu.intensity).map(u64::from) == Some(chosen),
        }
    }

    fn pick(&mut self, word: &[u64; 6]) -> Result<(), String> {
        let [current, mode, until, foreground, waiting, _] = *word;
        let runnable = || self.vcpus.iter().filter(|(_, vcpu)| vcpu.runnable);
        if foreground + waiting != runnable().count() as u64 {
            return Err("the runnable VCPUs are not all in the two queues".into());
        }
        let chosen = u32::try_from(current).ok().and_then(|id| self.vcpus.get(&id));
        if (mode == 0) != (current == NONE)
            || (mode != 0 && chosen.is_none_or(|vcpu| !vcpu.runnable))
        {
            return Err("what is picked is not runnable".into());
        }
        match mode {
            0 if foreground > 0 => return Err("idle with budget waiting: a lost wake-up".into()),
            0 if waiting > 0 && self.allowed => {
                return Err("idle though background time is allowed".into());
            }
            1 if foreground == 0 => return Err("foreground without budget".into()),
            2 if foreground > 0 => return Err("background before foreground".into()),
            2 if !self.allowed => return Err("background time though it is not allowed".into()),
            2 if !self.background(word) => return Err("not whom the policy favours".into()),
            0..=2 => {}
            _ => return Err("no such mode".into()),
        }
        let first =
            runnable().min_by_key(|(id, vcpu)| (vcpu.period, **id)).map(|(id, _)| u64::from(*id));
        if mode == 1 && waiting == 0 && first != Some(current) {
            return Err("not the shortest period".into());
        }
        if until <= self.last || ((mode != 1 && waiting == 0) != (until == u64::MAX)) {
            return Err("it would be asked again at once, or never, or for nothing".into());
        }
        let offered = |vcpu: &Vcpu| vcpu.window.offer(self.last, until, vcpu.period);
        if mode == 1 && chosen.is_some_and(|vcpu| vcpu.strict && offered(vcpu) > vcpu.capacity) {
            return Err("it offers more foreground time than C in a window of T".into());
        }
        (self.current, self.mode, self.until, self.unseen) = (current, mode, until, false);
        Ok(())
    }

    fn add(&mut self, event: &Event) -> Result<(), String> {
        self.ran(event.now.min(MAX_TIME).max(self.last))?;
        self.unseen = true;
        let (capacity, period, strict) = (event.a, event.b, event.c & 1 != 0);
        let vcpu = Vcpu { capacity, period, strict, counted: true, ..Vcpu::default() };
        match self.vcpus.insert(event.id, vcpu) {
            Some(_) => Err("added twice".into()),
            None => Ok(()),
        }
    }

    fn put(&mut self, event: &Event) -> Result<(), String> {
        self.ran(event.now.min(MAX_TIME).max(self.last))?;
        self.unseen = true;
        let vcpu = self.taken.clone().ok_or("put what was not taken")?;
        match self.vcpus.insert(event.id, vcpu) {
            Some(_) => Err("put where one is".into()),
            None => Ok(()),
        }
    }

    fn state(&self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let [state, background, available, _, foreground, _] = *word;
        let Some(vcpu) = self.vcpus.get(&event.id) else {
            return if state == 0 { Ok(()) } else { Err("a state of what is absent".into()) };
        };
        if vcpu.counted && (background, foreground) != (vcpu.background, vcpu.foreground) {
            return Err(format!(
                "it ran {} ns in the foreground, {} behind",
                vcpu.foreground, vcpu.background
            ));
        }
        if available > vcpu.capacity || (state == 1) == vcpu.runnable || state == 0 || state > 3 {
            return Err("wrong state".into());
        }
        if vcpu.runnable && (state == 2) != (available > 0) {
            return Err("budget in the background, or none in the foreground".into());
        }
        Ok(())
    }

    fn apply(&mut self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let there = self.vcpus.contains_key(&event.id);
        match event.op {
            1 if word[0] == 1 => self.add(event),
            2..=4 | 11 if !there => Ok(()),
            2..=6 | 10 | 11 => {
                self.ran(event.now.min(MAX_TIME).max(self.last))?;
                self.paused &= event.op != 10;
                self.change(event);
                self.pick(word)
            }
            9 => {
                self.ran(event.now.min(MAX_TIME).max(self.last))?;
                self.paused = true;
                Ok(())
            }
            12 if word[0] == 1 => self.put(event),
            7 => {
                if let Some(vcpu) = self.vcpus.get_mut(&event.id) {
                    vcpu.intensity = event.a;
                }
                Ok(())
            }
            8 => self.state(event, word),
            _ if word != &[0; 6] => Err("an answer to what is refused".into()),
            _ => Ok(()),
        }
    }
}

/// Foreground time of STRICT VCPUs is at most C in any window of T (while the scheduler is
/// punctual), foreground goes before background, nobody with budget waits while the core idles,
/// background time goes to whom the policy favours, and all time is accounted for.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let open = |event: &Event| {
        let last = event.now.min(MAX_TIME);
        let vcpus = BTreeMap::new();
        Ok(Ledger {
            policy: event.a,
            allowed: true,
            last,
            current: NONE,
            mode: 0,
            until: last,
            unseen: false,
            paused: false,
            vcpus,
            taken: None,
        })
    };
    follow(events, answers, open, Ledger::apply)
}
