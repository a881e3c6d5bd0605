//! `policy/rust/src/sporadic_server.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::sporadic_server::{Config, Server};

#[derive(Default)]
struct Binding {
    server: Option<Server>,
}

/// The configuration in an event's operands; `None` if a word is none at all.
pub(super) fn config(e: &Event) -> Option<Config> {
    let strict = match e.c {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some(Config { capacity_ns: e.a, period_ns: e.b, strict, limit: u32::try_from(e.d).ok()? })
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(server) = &mut self.server else {
            if e.op == 0 {
                self.server = config(e).and_then(|config| Server::new(config, e.now));
            }
            return answer([self.server.is_some().into()]);
        };
        match e.op {
            1 => server.wake(e.now),
            2 => server.charge(e.a),
            3 => {}
            4 => {
                let sum = server.replenishments().map(|r| r.amount_ns).sum();
                let entry = server.replenishments().nth(e.id as usize);
                return entry.map_or(Answer::default(), |r| answer([r.time_ns, r.amount_ns, sum]));
            }
            _ => return Answer::default(),
        }
        let first = server.replenishments().next().unwrap_or_default();
        let amount = if e.op == 1 { 0 } else { first.amount_ns };
        answer([
            server.available_ns(e.now),
            server.next_ns(),
            server.replenishments().len() as u64,
            amount,
        ])
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
