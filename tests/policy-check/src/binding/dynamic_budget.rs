//! Dynamic budgets behind the Rust binding.

use crate::{Answer, Event, World};
use solocore_policy::dynamic_budget::{Decision, DynamicBudget};

#[derive(Default)]
struct Binding(Option<DynamicBudget>);

fn words(d: Decision) -> [u64; 6] {
    [u64::from(d.go), d.limit, d.sample, d.timeout_ns, 0, 0]
}

fn define(d: &mut DynamicBudget, e: &Event) -> Option<[u64; 6]> {
    let core = u32::try_from(e.a).ok()?;
    d.define(e.id, core, e.b, e.c).then_some([1, 0, 0, 0, 0, 0])
}

fn entry(d: &DynamicBudget, e: &Event) -> Option<[u64; 6]> {
    d.entry(e.id).map(|x| [1, x.left, x.left_ns, u64::from(x.finished), 0, 0])
}

impl World for Binding {
    fn apply(&mut self, event: &Event) -> Answer {
        let word = match (event.op, &mut self.0) {
            (0, none @ None) => {
                *none = Some(DynamicBudget::new(event.now));
                Some([1, 0, 0, 0, 0, 0])
            }
            (1, Some(d)) => define(d, event),
            (2, Some(d)) => d.started(event.id, event.now, event.a).map(words),
            (3, Some(d)) => d.finished(event.id, event.now, event.a).map(words),
            (4, Some(d)) => Some(words(d.event(event.now, event.a))),
            (5, Some(d)) => entry(d, event),
            _ => None,
        };
        Answer { word: word.unwrap_or_default() }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::<Binding>::default()
}
