//! `policy/rust/src/time_table.rs` behind the protocol.

use crate::{Answer, Event, World, answer};
use solocore_policy::time_table::Table;

#[derive(Default)]
struct Binding {
    table: Option<Box<Table>>,
}

impl World for Binding {
    fn apply(&mut self, e: &Event) -> Answer {
        let Some(table) = &mut self.table else {
            if e.op == 0 {
                self.table = Table::new(e.now, e.a);
            }
            return answer([self.table.is_some().into()]);
        };
        match e.op {
            1 => answer([u32::try_from(e.c).is_ok_and(|id| table.append(e.a, e.b, id)).into()]),
            2 => {
                let slot = table.lookup(e.now);
                answer([
                    slot.id.unwrap_or(u32::MAX).into(),
                    slot.edge_ns,
                    slot.start_ns,
                    slot.frame,
                ])
            }
            _ => Answer::default(),
        }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Binding::default())
}
