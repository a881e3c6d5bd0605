//! The ways to run a mechanism, behind one interface.

pub mod bpf;
pub mod host;

use crate::{Answer, Event, World};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// One way to run a mechanism.
pub trait Backend {
    /// How reports call it.
    fn name(&self) -> &str;

    /// Appends the answers of a fresh world to these events. An error says why the event after the
    /// last answer has none.
    fn replay(&self, events: &[Event], answers: &mut Vec<Answer>) -> Result<(), String>;
}

/// A backend whose worlds live in this process: the host's C, the binding, a model.
pub struct Local {
    name: &'static str,
    world: Box<dyn Fn() -> Box<dyn World>>,
}

impl Local {
    /// A backend of this name that makes its worlds so.
    pub fn new(name: &'static str, world: impl Fn() -> Box<dyn World> + 'static) -> Self {
        Self { name, world: Box::new(world) }
    }
}

impl Backend for Local {
    fn name(&self) -> &str {
        self.name
    }

    /// A panic of the world is its answer's error (where panics unwind, that is not in release
    /// builds).
    fn replay(&self, events: &[Event], answers: &mut Vec<Answer>) -> Result<(), String> {
        quietly(|| {
            let mut world = (self.world)();
            answers.extend(events.iter().map(|event| world.apply(event)));
        })
    }
}

thread_local! {
    /// `Some` while a panic of this thread is to be caught and told in a report, not printed.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; a panic becomes an error with its message and place, and prints nothing, so that
/// shrinking (thousands of panics) stays readable.
fn quietly(work: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let caught = CAUGHT
                .with_borrow_mut(|text| text.as_mut().map(|t| *t = info.to_string()).is_some());
            // Where a panic aborts, nobody would report it later.
            if !caught || cfg!(panic = "abort") {
                default(info);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(work));
    let message = CAUGHT.take().unwrap_or_default();
    result.map_err(|_| message.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fragile;

    impl World for Fragile {
        fn apply(&mut self, event: &Event) -> Answer {
            assert!(event.op != 7, "op 7 is too much");
            Answer::default()
        }
    }

    #[test]
    fn a_panic_is_the_error_of_its_event() {
        let side = Local::new("fragile", || Box::new(Fragile));
        let mut answers = Vec::new();
        let events = [Event::default(), Event { op: 7, ..Event::default() }, Event::default()];
        let error = side.replay(&events, &mut answers).unwrap_err();
        assert!(error.contains("op 7 is too much") && error.contains("mod.rs"), "{error}");
        assert_eq!(answers.len(), 1);
    }
}
