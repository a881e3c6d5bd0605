//! Random events through several backends: the answers must be equal, and the mechanism's
//! invariants hold. A sequence for which they are not is shrunk. The same seed gives the same
//! sequences, on any machine.

use crate::backend::Backend;
use crate::vectors::{answer_text, step_text};
use crate::{Answer, Event, Mechanism};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::fmt::Write;

/// Events of a sequence, about.
const LENGTH: usize = 200;
/// One in so many sequences goes through the slow backends, too.
const SAMPLE: u64 = 20;
/// Simpler sequences that are tried to shrink one.
const MAX_SHRINKS: u32 = 10_000;
/// From so many events on, each operation must have been answered with something.
const COVERAGE_EVENTS: u64 = 1_000;

/// The backends that are compared.
#[derive(Clone, Copy)]
pub struct Sides<'a> {
    /// Get all sequences. The first one's answers are those that invariants are checked on.
    pub every: &'a [&'a dyn Backend],
    /// Get one in twenty.
    pub sampled: &'a [&'a dyn Backend],
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sequences generated.
    pub sequences: u64,
    /// Events in them.
    pub events: u64,
    /// Events that went through the sampled backends, summed over these.
    pub sampled_events: u64,
}

/// What went wrong at an event.
struct Difference {
    at: usize,
    what: String,
}

/// Runs `events` events or a few more; `progress` is told the number done. Stops at the first
/// sequence for which something is wrong, and describes it, shrunk.
pub fn run(
    mechanism: &Mechanism,
    sides: Sides,
    events: u64,
    seed: u64,
    progress: &mut dyn FnMut(u64),
) -> (Tally, Result<(), String>) {
    let mut tally = Tally::default();
    let mut answered = vec![false; mechanism.operations.len()];
    let mut runner = TestRunner::new_with_rng(Config::default(), generator(mechanism.name, seed));
    let strategy = (mechanism.events)(LENGTH);
    while tally.events < events {
        let tree = match strategy.new_tree(&mut runner) {
            Ok(tree) => tree,
            Err(reason) => return (tally, Err(format!("the stream makes no sequence: {reason}"))),
        };
        let sequence = tree.current();
        if sequence.is_empty() {
            return (tally, Err("the stream makes an empty sequence".into()));
        }
        let sampled = if tally.sequences.is_multiple_of(SAMPLE) { sides.sampled } else { &[] };
        let present: Vec<&dyn Backend> = sides.every.iter().chain(sampled).copied().collect();
        let before = tally.events;
        tally.sequences += 1;
        tally.events += sequence.len() as u64;
        tally.sampled_events += (sequence.len() * sampled.len()) as u64;
        match check(mechanism, &present, &sequence) {
            Ok(answers) => note_answered(&mut answered, &sequence, &answers),
            Err(found) => {
                return (tally, Err(report(mechanism, &present, tree, found, seed, before)));
            }
        }
        progress(tally.events);
    }
    let coverage =
        if tally.events < COVERAGE_EVENTS { Ok(()) } else { covered(mechanism, &answered) };
    (tally, coverage)
}

/// The generator of a mechanism's sequences does not depend on which other mechanisms run.
fn generator(name: &str, seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    for (byte, letter) in bytes[8..].iter_mut().zip(name.bytes()) {
        *byte = letter;
    }
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Compares the answers of all sides with those of the first, and checks its invariants.
fn check(
    mechanism: &Mechanism,
    sides: &[&dyn Backend],
    events: &[Event],
) -> Result<Vec<Answer>, Difference> {
    let mut all = Vec::new();
    for side in sides {
        let mut answers = Vec::with_capacity(events.len());
        let end = side.replay(events, &mut answers);
        all.push((answers, end));
    }
    let Some((first, _)) = all.first() else { return Ok(Vec::new()) };
    let differs =
        |at: &usize| all.iter().any(|(a, _)| a.get(*at).is_none() || a.get(*at) != first.get(*at));
    if let Some(at) = (0..events.len()).find(differs) {
        let mut what = String::from("answers differ");
        for (side, (answers, end)) in sides.iter().zip(&all) {
            let text = match (answers.get(at), end) {
                (Some(answer), _) => answer_text(answer),
                (None, Err(error)) => error.clone(),
                (None, Ok(())) => "no answer".into(),
            };
            let _ = write!(what, "\n      {:<20} {text}", side.name());
        }
        return Err(Difference { at, what });
    }
    if let Err(broken) = (mechanism.invariants)(events, first) {
        return Err(Difference {
            at: events.len() - 1,
            what: format!("an invariant is broken: {broken}"),
        });
    }
    Ok(all.swap_remove(0).0)
}

/// The simplest failing sequence that proptest finds, printed as a vector would be written.
fn report(
    mechanism: &Mechanism,
    sides: &[&dyn Backend],
    mut tree: impl ValueTree<Value = Vec<Event>>,
    found: Difference,
    seed: u64,
    before: u64,
) -> String {
    let (mut events, mut difference) = (tree.current(), found);
    let mut more = tree.simplify();
    let mut tries = 0;
    while more && tries < MAX_SHRINKS {
        tries += 1;
        let candidate = tree.current();
        more = match check(mechanism, sides, &candidate) {
            Ok(_) => tree.complicate(),
            Err(simpler) => {
                (events, difference) = (candidate, simpler);
                tree.simplify()
            }
        };
    }
    events.truncate(difference.at + 1);
    let mut answers = Vec::new();
    // Where the first side ends early the answers that it has not given are shown as zeros.
    let _ = sides[0].replay(&events, &mut answers);
    answers.resize(events.len(), Answer::default());
    let mut text = format!(
        "random events, shrunk to {}, with the answers of {}:\n",
        events.len(),
        sides[0].name()
    );
    for (event, answer) in events.iter().zip(&answers) {
        let _ = writeln!(text, "      {},", step_text(mechanism.operations, event, answer));
    }
    let name = mechanism.name;
    let _ = write!(text, "    at the last event: {}\n    again with: ", difference.what);
    let _ = write!(
        text,
        "cargo run -p solocore-policy-check -- --mechanism {name} --seed {seed} --events {}",
        before + 1
    );
    text
}

fn note_answered(answered: &mut [bool], events: &[Event], answers: &[Answer]) {
    for (event, answer) in events.iter().zip(answers) {
        if *answer != Answer::default()
            && let Some(flag) = answered.get_mut(event.op as usize)
        {
            *flag = true;
        }
    }
}

/// A stream that leaves an operation out, or only ever has it refused, tests nothing of it.
fn covered(mechanism: &Mechanism, answered: &[bool]) -> Result<(), String> {
    let missing: Vec<&str> = mechanism
        .operations
        .iter()
        .zip(answered)
        .filter(|(_, a)| !**a)
        .map(|(name, _)| *name)
        .collect();
    if mechanism.operations.len() < 2 {
        return Err("the stream has one operation only: is it a placeholder?".into());
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "no event of the stream had an answer other than zeros for: {}",
        missing.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;
    use crate::backend::Local;
    use proptest::prelude::*;

    /// Adds up; the wrong one forgets an addition of more than 900 that follows two others.
    struct Sum {
        wrong: bool,
        additions: u64,
        sum: u64,
    }

    impl World for Sum {
        fn apply(&mut self, event: &Event) -> Answer {
            if event.op == 1 {
                self.additions += 1;
                if !(self.wrong && self.additions > 2 && event.a > 900) {
                    self.sum += event.a;
                }
            }
            Answer { word: [1, self.sum, 0, 0, 0, 0] }
        }
    }

    fn side(name: &'static str, wrong: bool) -> Local {
        Local::new(name, move || Box::new(Sum { wrong, additions: 0, sum: 0 }))
    }

    fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
        prop::collection::vec(
            (1u32..3, 0u64..1000).prop_map(|(op, a)| Event { op, a, ..Event::default() }),
            1..length,
        )
        .prop_map(|mut tail| {
            tail.insert(0, Event::default());
            tail
        })
        .boxed()
    }

    fn sum_stays_small(_: &[Event], answers: &[Answer]) -> Result<(), String> {
        match answers.iter().find(|a| a.word[1] > 5000) {
            Some(answer) => Err(format!("{} is above 5000", answer.word[1])),
            None => Ok(()),
        }
    }

    const TOY: Mechanism = Mechanism {
        name: "toy",
        operations: &["init", "add", "look"],
        model: || Box::new(Sum { wrong: false, additions: 0, sum: 0 }),
        binding: || Box::new(Sum { wrong: false, additions: 0, sum: 0 }),
        events,
        invariants: |_, _| Ok(()),
    };

    fn run_toy(
        toy: &Mechanism,
        sides: &[&dyn Backend],
        sampled: &[&dyn Backend],
        seed: u64,
    ) -> (Tally, Result<(), String>) {
        run(toy, Sides { every: sides, sampled }, 30_000, seed, &mut |_| ())
    }

    #[test]
    fn equal_sides_pass() {
        let (right, same) = (side("right", false), side("same", false));
        let (tally, result) = run_toy(&TOY, &[&right], &[&same], 1);
        assert_eq!(result, Ok(()));
        assert!((30_000..30_000 + 200).contains(&tally.events));
        let share = tally.events / tally.sampled_events;
        assert!((15..26).contains(&share), "one in {share} was sampled");
    }

    /// Three additions, the last one of 901, are the least that shows the error.
    #[test]
    fn a_wrong_model_is_caught_and_shrunk() {
        let (right, wrong) = (side("right", false), side("wrong", true));
        let expected = "random events, shrunk to 4, with the answers of right:
      { op = \"init\", answer = [1] },
      { op = \"add\", answer = [1] },
      { op = \"add\", answer = [1] },
      { op = \"add\", a = 901, answer = [1, 901] },
    at the last event: answers differ
      right                [1, 901]
      wrong                [1]
    again with: cargo run -p solocore-policy-check -- --mechanism toy --seed 7 --events 1";
        let (_, result) = run_toy(&TOY, &[&right, &wrong], &[], 7);
        assert_eq!(result.unwrap_err(), expected);
        let (_, result) = run_toy(&TOY, &[&right], &[&wrong], 7);
        assert_eq!(result.unwrap_err(), expected, "a sampled side is shrunk, too");
    }

    #[test]
    fn a_panic_is_a_difference() {
        struct Fragile;
        impl World for Fragile {
            fn apply(&mut self, event: &Event) -> Answer {
                assert!(event.a < 500, "too much");
                Answer { word: [1, 0, 0, 0, 0, 0] }
            }
        }
        let fragile = Local::new("fragile", || Box::new(Fragile));
        let report = run_toy(&TOY, &[&fragile], &[], 1).1.unwrap_err();
        assert!(
            report.contains("shrunk to 2")
                && report.contains("a = 500")
                && report.contains("too much"),
            "{report}"
        );
    }

    #[test]
    fn a_broken_invariant_is_caught() {
        let right = side("right", false);
        let toy = Mechanism { invariants: sum_stays_small, ..TOY };
        let report = run_toy(&toy, &[&right], &[], 1).1.unwrap_err();
        assert!(
            report.contains("an invariant is broken: ") && report.contains(" is above 5000"),
            "{report}"
        );
    }

    #[test]
    fn an_operation_without_events_is_told() {
        let right = side("right", false);
        let toy = Mechanism { operations: &["init", "add", "look", "drop"], ..TOY };
        let report = run_toy(&toy, &[&right], &[], 1).1.unwrap_err();
        assert_eq!(report, "no event of the stream had an answer other than zeros for: drop");
    }

    #[test]
    fn a_seed_gives_one_stream() {
        let first = |seed, name| {
            let mut runner = TestRunner::new_with_rng(Config::default(), generator(name, seed));
            events(LENGTH).new_tree(&mut runner).unwrap().current()
        };
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }
}
