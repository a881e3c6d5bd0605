//! `policy/rust/src/vcpu.rs` behind the protocol.

use super::sporadic_server::config;
use crate::{Answer, Event, World, answer};
use solocore_policy::vcpu::{Background, Mode, State, Vcpu, VcpuCore};

#[derive(Default)]
struct Binding {
    core: Option<Box<VcpuCore>>,
    taken: Option<Vcpu>,
}

impl Binding {
    fn init(&mut self, e: &Event) -> Answer {
        let policy = match e.a {
            0 => Background::LeastTime,
            1 => Background::Keep,
            2 => Background::LeastMemory,
            _ => return Answer::default(),
        };
        self.core = Some(VcpuCore::new(policy, e.now));
        answer([1])
    }
}

fn state(core: &VcpuCore, id: u32) -> Answer {
    let Some(v) = core.vcpu(id) else { return Answer::default() };
    let state = match v.state() {
        State::Blocked => 1,
        State::Foreground => 2,
        State::Background => 3,
    };
    let server = v.server();
    answer([
        state,
        v.background_ns(),
        server.available_ns(core.last_ns()),
        server.next_ns(),
        v.foreground_ns(),
    ])
}

fn pick(core: &VcpuCore) -> Answer {
    let (current, mode) = match core.mode() {
        Mode::Idle => (u32::MAX, 0),
        Mode::Foreground(id) => (id, 1),
        Mode::Background(id) => (id, 2),
    };
    answer([
        current.into(),
        mode,
        core.until_ns(),
        core.with_budget() as u64,
        core.waiting() as u64,
    ])
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(core) = &mut self.core else {
            return if e.op == 0 { self.init(e) } else { Answer::default() };
        };
        let done = match e.op {
            1 => {
                return answer([config(e)
                    .is_some_and(|config| core.add(e.id, config, e.now))
                    .into()]);
            }
            2 => core.remove(e.id, e.now),
            3 => core.wake(e.id, e.now),
            4 => core.block(e.id, e.now),
            5 => {
                core.tick(e.now);
                true
            }
            6 => {
                core.allow_background(e.a != 0, e.now);
                true
            }
            7 => return answer([core.set_intensity(e.id, e.a).into()]),
            8 => return state(core, e.id),
            9 => {
                core.pause(e.now);
                true
            }
            10 => {
                core.resume(e.now);
                true
            }
            11 => {
                let taken = core.take(e.id, e.now);
                let there = taken.is_some();
                self.taken = taken.or(self.taken.take());
                there
            }
            12 => {
                return answer([self
                    .taken
                    .as_ref()
                    .is_some_and(|vcpu| core.put(e.id, vcpu, e.now))
                    .into()]);
            }
            _ => false,
        };
        if done { pick(core) } else { Answer::default() }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
