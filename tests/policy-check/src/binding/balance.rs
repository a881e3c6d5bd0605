//! `policy/rust/src/balance.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::admission::utilization;
use solocore_policy::balance::Balance;

const CORES: u64 = 8;

#[derive(Default)]
struct Binding {
    balance: Option<Box<Balance>>,
}

fn init(e: &Event) -> Option<Box<Balance>> {
    let cores = u32::try_from(e.a).ok().filter(|_| e.a <= CORES)?;
    if e.b <= 1 { Balance::new(cores, e.b == 1) } else { None }
}

fn add(b: &mut Balance, e: &Event) -> bool {
    let core = u32::try_from(e.c).ok();
    core.zip(utilization(e.a, e.b)).is_some_and(|(core, u)| b.add(e.id, u, core, e.d))
}

fn rebalance(b: &mut Balance, e: &Event) -> Option<Answer> {
    b.core(e.id)?;
    let moves = b.rebalance(e.id, u32::try_from(e.a).unwrap_or(u32::MAX));
    let source = b.core(e.id)?.slack();
    Some(match moves {
        None => answer([0, u32::MAX.into(), u32::MAX.into(), source, source]),
        Some(m) => answer([m.count, m.vcpu.into(), m.to.into(), source, b.core(m.to)?.slack()]),
    })
}

fn spv(b: &Balance, core: u32) -> Option<Answer> {
    let c = b.core(core)?;
    Some(answer([c.slack(), c.utilization(), c.vcpus().len() as u64, c.colours()]))
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(b) = &mut self.balance else {
            if e.op == 0 {
                self.balance = init(e);
            }
            return answer([self.balance.is_some().into()]);
        };
        match e.op {
            1 => answer([b.set_colours(e.id, e.a).into()]),
            2 => answer([add(b, e).into()]),
            3 => answer([b.remove(e.id).into()]),
            4 => rebalance(b, e).unwrap_or_default(),
            5 => answer([b.host(e.id).unwrap_or(0).into()]),
            6 => spv(b, e.id).unwrap_or_default(),
            7 => answer([b.trigger().unwrap_or(u32::MAX).into()]),
            8 => answer([b.core_of(e.id).unwrap_or(u32::MAX).into()]),
            9 => answer([b.fix(e.id, e.a != 0).into()]),
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
