//! Tests of the policies in `policy/`: the same events go through the C on the host, the C under
//! the kernel's BPF verifier and JIT, the Rust binding, and a reference model that was written from
//! the papers; the answers must be the same, word for word (`policy/tests/driver.h` is the
//! protocol).

pub mod backend;
pub mod bench;
pub mod binding;
pub mod check;
pub mod model;
pub mod random;
pub mod stream;
pub mod vectors;

use std::path::{Path, PathBuf};

/// What happens to a world: `struct sc_event` of `policy/tests/driver.h`. Times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// Operation; 0 configures the world.
    pub op: u32,
    /// The core, task or VCPU it is about.
    pub id: u32,
    /// Time in ns.
    pub now: u64,
    /// First operand.
    pub a: u64,
    /// Second operand.
    pub b: u64,
    /// Third operand.
    pub c: u64,
    /// Fourth operand.
    pub d: u64,
}

/// What a world answers: `struct sc_answer`. Unused words are 0, and so is the answer to what is
/// refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Answer {
    /// The words, in the order that the driver of the mechanism states.
    pub word: [u64; 6],
}

/// An answer of these words; the rest are 0.
pub fn answer<const N: usize>(words: [u64; N]) -> Answer {
    let mut answer = Answer::default();
    answer.word[..N].copy_from_slice(&words);
    answer
}

/// One implementation of a mechanism, with its state.
pub trait World {
    /// Applies an event.
    fn apply(&mut self, event: &Event) -> Answer;
}

/// The operations of a mechanism by name, in order of their numbers, as vector files call them.
pub type Operations = &'static [&'static str];

/// A mechanism and everything that its tests need.
pub struct Mechanism {
    /// As in `policy/include/solocore/<name>.h` and `policy/tests/drive/<name>.h`.
    pub name: &'static str,
    /// Names of the operations.
    pub operations: Operations,
    /// A fresh reference model.
    pub model: fn() -> Box<dyn World>,
    /// A fresh world behind the Rust binding.
    pub binding: fn() -> Box<dyn World>,
    /// Random sequences of about so many events; the first ones configure the world.
    pub events: fn(usize) -> proptest::strategy::BoxedStrategy<Vec<Event>>,
    /// What must hold of every sequence of answers, beyond being equal; the error names what was
    /// broken.
    pub invariants: fn(&[Event], &[Answer]) -> Result<(), String>,
}

macro_rules! mechanisms {
    ($($name:ident),+ $(,)?) => {
        /// All mechanisms, in the order of `src/mechanisms.rs`.
        pub const MECHANISMS: &[Mechanism] = &[$(Mechanism {
            name: stringify!($name),
            operations: stream::$name::OPERATIONS,
            model: model::$name::world,
            binding: binding::$name::world,
            events: stream::$name::events,
            invariants: stream::$name::invariants,
        }),+];
    };
}
include!("mechanisms.rs");

/// The directory `policy/` of this source tree.
pub fn policy_directory() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/");
    tests.parent().expect("the source tree").join("policy")
}
