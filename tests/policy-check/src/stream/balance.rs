//! Random VCPUs on a few cores, rebalanced from time to time; now and then every core is looked at.

use super::follow;
use super::heap::{Step, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Names of the operations.
pub const OPERATIONS: Operations =
    &["init", "colours", "add", "remove", "rebalance", "host", "spv", "trigger", "where", "fix"];

const MAX_TASKS: u32 = 4096;
const NONE: u64 = 0xffff_ffff;
const ONE: u64 = 1 << 32;

fn add(step: &Step, id: u32, cores: u32, share: u64) -> Event {
    let (x, delta) = (u64::from(step.x), u64::from(step.delta));
    let b = match step.size {
        0..=159 => 64,
        160..=199 => 100,
        200..=250 => 1 + x % 100_000,
        251 => 1 << 42,
        252 => 0,
        253 => (1 << 42) + 1,
        _ => x + 1,
    };
    let a = match step.pace {
        0..=199 => 1 + delta % (b / share).max(1),
        200..=247 => (b / share).max(1),
        248..=251 => b,
        252 => 0,
        _ => b + 1,
    };
    // Half of all go to the first core, so that there is something to balance.
    let c = if delta >> 30 < 2 { 0 } else { (delta >> 16) % u64::from(cores) };
    let c = if step.id == 255 { u64::from(cores) + x % 2 } else { c };
    let d = match x >> 16 & 31 {
        0..=29 => (x >> 21) % 4,
        30 => 40,
        _ => 0xffff_ffff,
    };
    Event { op: 2, id, a, b, c, d, ..Event::default() }
}

fn decode_step(step: &Step, config: &[u32; 8], cores: u32, events: &mut Vec<Event>) {
    let ids = [4, 12, 24, 60][config[2] as usize % 4];
    let id = match step.id {
        0..=247 => u32::from(step.id) % ids,
        248 => MAX_TASKS - 1,
        249 => MAX_TASKS,
        _ => step.delta,
    };
    let core = if step.id < 252 { step.x % cores } else { step.delta % 10 };
    let event = |op, id, a| Event { op, id, a, ..Event::default() };
    match step.op {
        0..=69 => events.push(add(step, id, cores, [2, 4, 8, 20][config[3] as usize % 4])),
        70..=99 => events.push(event(3, id, 0)),
        100..=169 => {
            // Mostly what has the least slack, which is mostly the first core; mostly one move.
            let core = if step.pace < 128 { 0 } else { core };
            let limit = [1, 1, 1, 2, 64, u64::MAX, 0][usize::from(step.size) % 7];
            events.push(event(4, core, limit));
        }
        170..=184 => events.push(event(5, id, 0)),
        185..=204 => events.push(event(6, core, 0)),
        205..=214 => events.push(event(7, 0, 0)),
        215..=226 => events.push(event(8, id, 0)),
        227..=234 => events.push(event(9, id, u64::from(step.size % 2))),
        235..=244 => events.push(event(1, core, u64::from(step.size) % 16)),
        245..=252 => events.extend((0..cores).map(|core| event(6, core, 0))),
        253 => events.push(event(0, 0, u64::from(cores))),
        254.. => events.push(event(u32::from(step.size), id, 0)),
    }
}

fn decode((config, steps): ([u32; 8], Vec<Step>)) -> Vec<Event> {
    let cores = [1, 2, 2, 3, 4, 8][config[0] as usize % 6];
    let mut events = vec![Event { op: 7, ..Event::default() }];
    if config[4] % 8 == 7 {
        let a = [0, 9, 257, u64::MAX][config[5] as usize % 4];
        events.push(Event { a, ..Event::default() });
    }
    events.push(Event { a: u64::from(cores), b: u64::from(config[1] % 2), ..Event::default() });
    let colours = 4 + u64::from(config[6] % 60);
    events.extend((0..cores).map(|id| Event { op: 1, id, a: colours, ..Event::default() }));
    for step in &steps {
        decode_step(step, &config, cores, &mut events);
    }
    events
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    steps(length).prop_map(decode).boxed()
}

/// Where a VCPU is; `None` after several moves at once, until somebody asks.
type Place = Option<u64>;

struct Ledger {
    vcpus: BTreeMap<u32, Place>,
    /// Those that must not move.
    fixed: BTreeSet<u32>,
    /// U and count of each core, if nothing has changed since they were asked for.
    load: Vec<Option<(u64, u64)>>,
    /// The last thing that changed this core's load upwards was a move: it must be schedulable.
    moved_to: Vec<bool>,
}

/// The RMS bound, to the precision of a double.
fn bound(count: u64) -> f64 {
    let n = count.max(1) as f64;
    n * (2f64.powf(1.0 / n) - 1.0) * ONE as f64
}

impl Ledger {
    fn rebalance(&mut self, src: u64, limit: u64, word: &[u64; 6]) -> Result<(), String> {
        let [moves, last, dst, src_spv, dst_spv, _] = *word;
        if moves == 0 {
            return if (last, dst) == (NONE, NONE) { Ok(()) } else { Err("moved, and not".into()) };
        }
        let Some(to) = usize::try_from(dst).ok().filter(|&to| to < self.load.len() && dst != src)
        else {
            return Err("moved to where it was, or to nowhere".into());
        };
        if moves > limit || src_spv == u64::MAX || dst_spv == u64::MAX {
            return Err("too many moves, or a core was emptied, or nobody came".into());
        }
        let last = u32::try_from(last).map_err(|error| error.to_string())?;
        if self.fixed.contains(&last) {
            return Err("it moved one that is fixed".into());
        }
        if self.vcpus.get(&last).is_none_or(|place| place.is_some_and(|core| core != src)) {
            return Err("it moved what was not there".into());
        }
        if moves > 1 {
            for (id, place) in self.vcpus.iter_mut().filter(|(_, place)| **place == Some(src)) {
                *place = Some(src).filter(|_| self.fixed.contains(id));
            }
        }
        self.vcpus.insert(last, Some(dst));
        self.load.fill(None);
        self.moved_to[to] = true;
        Ok(())
    }

    fn look(&mut self, core: usize, word: &[u64; 6]) -> Result<(), String> {
        let [spv, u, count, ..] = *word;
        let expected = ONE.saturating_sub(u).checked_div(count).unwrap_or(u64::MAX);
        if spv != expected {
            return Err(format!("the slack is {expected}"));
        }
        if self.moved_to[core] && u as f64 > bound(count) + 1.0 {
            return Err("a move broke the schedulability of this core".into());
        }
        let known = self.vcpus.values().filter(|place| **place == Some(core as u64)).count() as u64;
        let unknown = self.vcpus.values().filter(|place| place.is_none()).count() as u64;
        if count < known || count > known + unknown {
            return Err(format!("{known} VCPUs are known to be here"));
        }
        self.load[core] = Some((u, count));
        let total = self.load.iter().try_fold(0, |sum, load| load.map(|(_, count)| sum + count));
        if total.is_some_and(|total| total != self.vcpus.len() as u64) {
            return Err("VCPUs were lost or made".into());
        }
        Ok(())
    }

    fn trigger(&self, answer: u64) -> Result<(), String> {
        if (answer == NONE) != self.vcpus.is_empty() {
            return Err("nobody to wake though there are VCPUs, or the reverse".into());
        }
        let slack =
            |load: &Option<(u64, u64)>| load.map(|(u, count)| ONE.saturating_sub(u) / count.max(1));
        let loaded = |core: usize| self.load[core].is_some_and(|(_, count)| count > 0);
        let chosen =
            usize::try_from(answer).ok().filter(|&core| core < self.load.len() && loaded(core));
        let Some(chosen) = chosen else { return Ok(()) };
        let less =
            |core: &usize| loaded(*core) && slack(&self.load[*core]) < slack(&self.load[chosen]);
        if (0..self.load.len()).any(|core| less(&core)) {
            Err("another core has less slack".into())
        } else {
            Ok(())
        }
    }

    fn place(&mut self, id: u32, answer: u64) -> Result<(), String> {
        match self.vcpus.get_mut(&id) {
            None if answer == NONE => Ok(()),
            Some(place) if *place == Some(answer) || (place.is_none() && answer != NONE) => {
                *place = Some(answer);
                Ok(())
            }
            place => Err(format!("it should be at {place:?}")),
        }
    }

    fn apply(&mut self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let core = event.id as usize;
        let is_core = core < self.load.len();
        match event.op {
            1 if is_core => Ok(()),
            2 | 3 if word[0] == 0 => Ok(()),
            2 => {
                let on = usize::try_from(event.c).map_err(|error| error.to_string())?;
                self.load[on] = None;
                self.moved_to[on] = false;
                let before = self.vcpus.insert(event.id, Some(event.c));
                if before.is_some() { Err("added twice".into()) } else { Ok(()) }
            }
            3 => {
                self.load.fill(None);
                self.fixed.remove(&event.id);
                let before = self.vcpus.remove(&event.id);
                if before.is_none() { Err("removed what was not there".into()) } else { Ok(()) }
            }
            4 if is_core => self.rebalance(u64::from(event.id), event.a, word),
            5 if self.vcpus.contains_key(&event.id) && word[0] >= self.load.len() as u64 => {
                Err("no such core".into())
            }
            5 => Ok(()),
            6 if is_core => self.look(core, word),
            7 => self.trigger(word[0]),
            8 => self.place(event.id, word[0]),
            9 if (word[0] == 1) != self.vcpus.contains_key(&event.id) => {
                Err("fixed what is not there".into())
            }
            9 => {
                self.fixed.remove(&event.id);
                self.fixed.extend((event.a != 0 && word[0] == 1).then_some(event.id));
                Ok(())
            }
            _ if word != &[0; 6] => Err("an answer to what is refused".into()),
            _ => Ok(()),
        }
    }
}

/// No core that a VCPU was moved to is above its bound, VCPUs are neither lost nor made, no core is
/// emptied, and the core with the least slack is the one to wake.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let open = |event: &Event| {
        let cores = usize::try_from(event.a).map_err(|error| error.to_string())?;
        let (load, moved_to) = (vec![None; cores], vec![false; cores]);
        Ok(Ledger { vcpus: BTreeMap::new(), fixed: BTreeSet::new(), load, moved_to })
    };
    follow(events, answers, open, Ledger::apply)
}
