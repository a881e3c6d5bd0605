//! Reference model of a core's VCPU scheduler: MARACAS (RTSS 2016), sections II-A (each VCPU is a
//! sporadic server, VCPUs are ordered rate-monotonically) and III (background time and its three
//! policies).
//!
//! Nothing is kept that can be computed: who is in the foreground is asked of each server when it
//! matters.

use super::sporadic_server::{Server, clock};
use crate::{Answer, Event, World};
use std::collections::BTreeMap;

const NONE: u64 = 0xffff_ffff;
const MAX_TASKS: u32 = 4096;

const IDLE: u64 = 0;
const FOREGROUND: u64 = 1;
const BACKGROUND: u64 = 2;

#[derive(Clone)]
struct Vcpu {
    server: Server,
    runnable: bool,
    background_ns: u64,
    foreground_ns: u64,
    intensity: u64,
}

struct ModelVcpuCore {
    policy: u64,
    allowed: bool,
    last: u64,
    current: Option<u32>,
    mode: u64,
    /// What is picked does not run.
    paused: bool,
    /// Until when the last pick runs.
    until: u64,
    vcpus: BTreeMap<u32, Vcpu>,
    /// The one that was taken last.
    taken: Option<Vcpu>,
}

impl ModelVcpuCore {
    fn new(now: u64, policy: u64) -> Self {
        let vcpus = BTreeMap::new();
        Self {
            policy,
            allowed: true,
            last: clock(now),
            current: None,
            mode: IDLE,
            paused: false,
            until: u64::MAX,
            vcpus,
            taken: None,
        }
    }

    /// Charges the time since the last event to who ran.
    fn settle(&mut self, now: u64) {
        let now = clock(now).max(self.last);
        let ran = now - self.last;
        self.last = now;
        if self.paused {
            return;
        }
        let Some(vcpu) = self.current.and_then(|id| self.vcpus.get_mut(&id)) else { return };
        if self.mode == FOREGROUND {
            vcpu.server.charge(ran);
            vcpu.foreground_ns = vcpu.foreground_ns.saturating_add(ran);
        } else {
            vcpu.background_ns = vcpu.background_ns.saturating_add(ran);
        }
    }

    /// The runnable VCPUs with budget, and those without, in order of their ids.
    fn sides(&mut self) -> (Vec<u32>, Vec<u32>) {
        let now = self.last;
        let (mut foreground, mut waiting) = (Vec::new(), Vec::new());
        for (&id, vcpu) in self.vcpus.iter_mut().filter(|(_, vcpu)| vcpu.runnable) {
            if vcpu.server.available(now) > 0 { foreground.push(id) } else { waiting.push(id) }
        }
        (foreground, waiting)
    }

    /// Section III: whom to give background time.
    fn choose_background(&mut self, waiting: &[u32]) -> Option<u32> {
        let stays = self.current.filter(|id| waiting.contains(id));
        match self.policy {
            0 if self.mode == BACKGROUND && stays.is_some() => stays,
            0 => waiting.iter().copied().min_by_key(|id| (self.vcpus[id].background_ns, *id)),
            1 if stays.is_some() => stays,
            1 => waiting.iter().copied().min_by_key(|id| (self.replenished(*id), *id)),
            _ => waiting.iter().copied().min_by_key(|id| (self.vcpus[id].intensity, *id)),
        }
    }

    fn replenished(&self, id: u32) -> u64 {
        self.vcpus[&id].server.clone().next_time()
    }

    fn pick(&mut self) -> Answer {
        let now = self.last;
        let (foreground, waiting) = self.sides();
        let replenishment =
            waiting.iter().map(|&id| self.replenished(id)).min().unwrap_or(u64::MAX);
        let mut until = replenishment;
        if let Some(id) =
            foreground.iter().copied().min_by_key(|id| (self.vcpus[id].server.period(), *id))
        {
            let dispatched = (self.current, self.mode) != (Some(id), FOREGROUND);
            let server = &mut self.vcpus.get_mut(&id).expect("it was just found").server;
            if dispatched && server.strict() {
                server.wake(now);
            }
            until = until.min(now.saturating_add(server.available(now)));
            (self.current, self.mode) = (Some(id), FOREGROUND);
        } else {
            self.current = if self.allowed { self.choose_background(&waiting) } else { None };
            self.mode = if self.current.is_some() { BACKGROUND } else { IDLE };
        }
        let current = self.current.map_or(NONE, u64::from);
        self.until = until;
        Answer {
            word: [current, self.mode, until, foreground.len() as u64, waiting.len() as u64, 0],
        }
    }

    fn add(&mut self, event: &Event) -> u64 {
        if event.id >= MAX_TASKS || self.vcpus.contains_key(&event.id) {
            return 0;
        }
        let now = clock(event.now).max(self.last);
        let Some(server) = Server::new(now, event.a, event.b, event.c, event.d) else { return 0 };
        self.settle(now);
        let vcpu =
            Vcpu { server, runnable: false, background_ns: 0, foreground_ns: 0, intensity: 0 };
        self.vcpus.insert(event.id, vcpu);
        // The newcomer is blocked, but time has gone on. The answer does not tell whom this picks:
        // ask again.
        self.pick();
        1
    }

    /// Removes, wakes or blocks a VCPU.
    fn change(&mut self, event: &Event) -> Answer {
        if !self.vcpus.contains_key(&event.id) {
            return Answer::default();
        }
        self.settle(event.now);
        let now = self.last;
        let vcpu = self.vcpus.get_mut(&event.id).expect("checked above");
        if event.op == 3 {
            if !vcpu.runnable {
                vcpu.runnable = true;
                vcpu.server.wake(now);
            }
        } else {
            vcpu.runnable = false;
            if event.op == 11 {
                self.taken = Some(vcpu.clone());
            }
            if event.op != 4 {
                self.vcpus.remove(&event.id);
            }
            if self.current == Some(event.id) {
                (self.current, self.mode) = (None, IDLE);
            }
        }
        self.pick()
    }

    fn resume(&mut self, now: u64) -> Answer {
        self.settle(now);
        let now = self.last;
        if self.paused && self.mode == FOREGROUND {
            let running = self.current.and_then(|id| self.vcpus.get_mut(&id));
            // What a strict server uses comes back a period after it was used.
            running
                .filter(|vcpu| vcpu.server.strict())
                .into_iter()
                .for_each(|vcpu| vcpu.server.wake(now));
        }
        self.paused = false;
        self.pick()
    }

    /// Puts the VCPU that was taken last.
    fn put(&mut self, event: &Event) -> u64 {
        let Some(vcpu) = self.taken.clone() else { return 0 };
        if event.id >= MAX_TASKS || self.vcpus.contains_key(&event.id) {
            return 0;
        }
        self.settle(event.now);
        self.vcpus.insert(event.id, vcpu);
        self.pick();
        1
    }

    /// What was picked last, without deciding again.
    fn paused(&mut self, now: u64) -> Answer {
        let until = self.until;
        self.settle(now);
        self.paused = true;
        let (foreground, waiting) = self.sides();
        let current = self.current.map_or(NONE, u64::from);
        Answer {
            word: [current, self.mode, until, foreground.len() as u64, waiting.len() as u64, 0],
        }
    }

    fn state(&mut self, id: u32) -> Answer {
        let now = self.last;
        let Some(vcpu) = self.vcpus.get_mut(&id) else { return Answer::default() };
        let available = vcpu.server.available(now);
        let state = match (vcpu.runnable, available) {
            (false, _) => 1,
            (true, 0) => 3,
            (true, _) => 2,
        };
        Answer {
            word: [
                state,
                vcpu.background_ns,
                available,
                vcpu.server.next_time(),
                vcpu.foreground_ns,
                0,
            ],
        }
    }
}

#[derive(Default)]
struct Model {
    core: Option<ModelVcpuCore>,
}

impl World for Model {
    fn apply(&mut self, event: &Event) -> Answer {
        let word = |word| Answer { word: [word, 0, 0, 0, 0, 0] };
        let Some(core) = self.core.as_mut() else {
            if event.op != 0 || event.a > 2 {
                return Answer::default();
            }
            self.core = Some(ModelVcpuCore::new(event.now, event.a));
            return word(1);
        };
        match event.op {
            1 => word(core.add(event)),
            2..=4 | 11 => core.change(event),
            9 => core.paused(event.now),
            10 => core.resume(event.now),
            12 => word(core.put(event)),
            5 | 6 => {
                core.settle(event.now);
                if event.op == 6 {
                    core.allowed = event.a != 0;
                }
                core.pick()
            }
            7 => match core.vcpus.get_mut(&event.id) {
                Some(vcpu) => {
                    vcpu.intensity = event.a;
                    word(1)
                }
                None => word(0),
            },
            8 => core.state(event.id),
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::<Model>::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(op: u32, id: u32, now: u64, a: u64) -> Event {
        Event { op, id, now, a, ..Event::default() }
    }

    /// VCPU 0: 2 in 10. VCPU 1: 3 in 20. Both woken at 0.
    fn core(policy: u64, strict: u64) -> Box<dyn World> {
        let mut core = world();
        core.apply(&event(0, 0, 0, policy));
        core.apply(&Event { op: 1, id: 0, now: 0, a: 2, b: 10, c: strict, d: 8 });
        core.apply(&Event { op: 1, id: 1, now: 0, a: 3, b: 20, c: strict, d: 8 });
        core.apply(&event(3, 0, 0, 0));
        assert_eq!(core.apply(&event(3, 1, 0, 0)).word, [0, 1, 2, 2, 0, 0]);
        core
    }

    #[test]
    fn the_shortest_period_runs_first_then_background_is_shared_by_bgt() {
        let mut core = core(0, 1);
        assert_eq!(core.apply(&event(5, 0, 2, 0)).word, [1, 1, 5, 1, 1, 0]);
        // Both are depleted: background, equal BGT, so the lower id; the next budget comes at 10.
        assert_eq!(core.apply(&event(5, 0, 5, 0)).word, [0, 2, 10, 0, 2, 0]);
        assert_eq!(core.apply(&event(5, 0, 10, 0)).word, [0, 1, 12, 1, 1, 0]);
        // VCPU 0 has had 5 in the background, VCPU 1 none.
        assert_eq!(core.apply(&event(5, 0, 12, 0)).word, [1, 2, 20, 0, 2, 0]);
        assert_eq!(core.apply(&event(8, 0, 0, 0)).word, [3, 5, 0, 20, 4, 0]);
    }

    #[test]
    fn the_same_task_goes_on_in_the_background() {
        let mut core = core(1, 1);
        core.apply(&event(5, 0, 2, 0));
        assert_eq!(core.apply(&event(5, 0, 5, 0)).word, [1, 2, 10, 0, 2, 0]);
        // It blocks: whoever will be first in the foreground.
        assert_eq!(core.apply(&event(4, 1, 6, 0)).word, [0, 2, 10, 0, 1, 0]);
    }

    #[test]
    fn without_permission_the_core_idles() {
        let mut core = core(0, 1);
        core.apply(&event(6, 0, 2, 0));
        assert_eq!(core.apply(&event(5, 0, 5, 0)).word, [NONE, 0, 10, 0, 2, 0]);
        assert_eq!(core.apply(&event(6, 0, 6, 1)).word, [0, 2, 10, 0, 2, 0]);
    }
}
