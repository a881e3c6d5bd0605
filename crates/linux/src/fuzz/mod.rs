//! Mutations of good inputs, the same for each run of the tests.
//!
//! Problem: sockets and files take bytes of other programs, and no byte may end a process that runs
//! as root. Rule: a good input is changed at up to four places, by words of the protocol or by
//! nodes of JSON, so that most mutations pass the first check. `FUZZ_INPUTS` is the number of
//! inputs of each test; `make nightly` sets it. Does not cover: mutations that are guided by
//! coverage.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Value, json};

/// Inputs of each test.
pub(crate) fn inputs() -> u64 {
    let stated = std::env::var("FUZZ_INPUTS").ok();
    stated.map_or(2000, |text| text.parse().expect("FUZZ_INPUTS is a number"))
}

/// See the module.
pub(crate) struct Mutator(ChaCha8Rng);

impl Mutator {
    /// The same sequence for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    /// A text with up to four changes: bytes, lengths, words put in or over others.
    pub fn bytes(&mut self, base: &[u8], words: &[&[u8]]) -> Vec<u8> {
        let mut text = base.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(text.len() + 1);
            let end = at + self.below(text.len() - at + 1).min(16);
            let word = words[self.below(words.len())];
            match self.below(6) {
                0 if at < text.len() => text[at] ^= 1 << self.below(8),
                1 => drop(text.drain(at..end)),
                2 => drop(text.splice(at..at, word.iter().copied())),
                3 => {
                    let over = (at + word.len()).min(text.len());
                    text.splice(at..over, word.iter().copied());
                }
                4 => {
                    let copy = text[at..end].to_vec();
                    let to = self.below(text.len() + 1);
                    text.splice(to..to, copy);
                }
                _ => text.truncate(at),
            }
        }
        text
    }

    /// A document with up to four of its nodes changed.
    pub fn json(&mut self, base: &Value) -> Value {
        let mut document = base.clone();
        for _ in 0..=self.below(4) {
            let mut number = self.below(nodes(&document));
            let donor = self.below(nodes(base));
            let change = self.change(node(base, &mut { donor }));
            apply(&mut document, &mut number, change);
        }
        document
    }

    fn change(&mut self, other: Option<&Value>) -> Change {
        let values = [
            json!(null),
            json!(0),
            json!(1),
            json!(-1),
            json!(u64::from(u32::MAX)),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(0.5),
            json!(-1e300),
            json!(true),
            json!(""),
            json!("</script>\u{0}\t\u{202e}"),
            json!([]),
            json!({}),
        ];
        match self.below(8) {
            0 => Change::Remove,
            1 => Change::Double,
            2 => Change::Put(other.cloned().unwrap_or_default()),
            _ => Change::Put(values[self.below(values.len())].clone()),
        }
    }
}

#[derive(Clone)]
enum Change {
    Remove,
    Double,
    Put(Value),
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(all) => Box::new(all.iter()),
        Value::Object(all) => Box::new(all.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn nodes(value: &Value) -> usize {
    1 + children(value).map(nodes).sum::<usize>()
}

fn node<'v>(value: &'v Value, number: &mut usize) -> Option<&'v Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    children(value).find_map(|child| node(child, number))
}

/// Changes the node with this number; has it been reached?
fn apply(value: &mut Value, number: &mut usize, change: Change) -> bool {
    if *number == 0 {
        if let Change::Put(other) = change {
            *value = other;
        }
        return true;
    }
    *number -= 1;
    match value {
        Value::Array(all) => {
            for at in 0..all.len() {
                match (&change, *number) {
                    (Change::Remove, 0) => drop(all.remove(at)),
                    (Change::Double, 0) => all.insert(at, all[at].clone()),
                    _ if !apply(&mut all[at], number, change.clone()) => continue,
                    _ => {}
                }
                return true;
            }
            false
        }
        Value::Object(all) => {
            let keys: Vec<String> = all.keys().cloned().collect();
            for key in keys {
                if let (Change::Remove, 0) = (&change, *number) {
                    all.remove(&key);
                    return true;
                }
                if all.get_mut(&key).is_some_and(|v| apply(v, number, change.clone())) {
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

mod files;
