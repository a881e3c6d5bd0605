//! From one line to one line: parsing, the test, the answer as JSON or text.

use serde::Serialize;
use solocore_analysis::named::{Analyst, Test};
use solocore_analysis::{Derivation, TaskSet, TaskSetError};
use std::io::Write;

/// A test that answers line after line.
pub struct Lines(Analyst);

/// An answer. The names are those of the interface.
#[derive(Serialize)]
struct Answer<'a> {
    schedulable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a [Option<u64>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tardiness: Option<&'a [Option<u64>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    derivation: Option<Derivation>,
}

/// In place of an answer.
#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
    line: u64,
}

impl Lines {
    pub fn new(test: Test) -> Self {
        Self(Analyst::new(test))
    }

    /// The verdict alone.
    pub fn decide(&mut self, set: &TaskSet) -> Result<bool, TaskSetError> {
        self.0.decide(set)
    }

    /// Answers a line that is not blank. Appends one line of JSON, or some of text, to `out`; false
    /// if the line is refused.
    pub fn answer(&mut self, line: &[u8], number: u64, style: Style, out: &mut Vec<u8>) -> bool {
        let answered = parse(line).and_then(|set| {
            let schedulable = self.0.decide(&set).map_err(|e| e.to_string())?;
            let derivation = if style.explain {
                Some(self.0.explain(&set).map_err(|e| e.to_string())?)
            } else {
                None
            };
            self.write(schedulable, derivation, number, style, out);
            Ok(())
        });
        if let Err(reason) = &answered {
            refuse(reason, number, style, out);
        }
        answered.is_ok()
    }

    fn write(
        &self,
        schedulable: bool,
        derivation: Option<Derivation>,
        number: u64,
        style: Style,
        out: &mut Vec<u8>,
    ) {
        let late = self.0.test() == Test::Tardiness;
        let bounds = Some(self.0.bounds());
        if !style.text {
            let (response, tardiness) = if late { (None, bounds) } else { (bounds, None) };
            append(&Answer { schedulable, response, tardiness, derivation }, out);
            return;
        }
        let verdict = if schedulable { "schedulable" } else { "not shown to be schedulable" };
        let each: Vec<String> =
            self.0.bounds().iter().map(|b| b.map_or("-".to_owned(), |b| b.to_string())).collect();
        let what = if late { "tardiness" } else { "response" };
        // Writing to memory cannot fail.
        let _ = writeln!(out, "line {number}: {verdict}; {what} {}", each.join(" "));
        if let Some(derivation) = derivation {
            let _ = writeln!(out, "{derivation}");
        }
    }
}

/// Style of the answers.
#[derive(Clone, Copy)]
pub struct Style {
    pub explain: bool,
    pub text: bool,
}

/// A task set from JSON; its reasons name the place within the line.
pub fn parse(line: &[u8]) -> Result<TaskSet, String> {
    let set = serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        // The error names the only line as line 1; the number in the corpus is reported elsewhere.
        text.replacen(" at line 1 column ", " at column ", 1)
    })?;
    // The decoder also takes arrays of values for objects; their numbers would have no names.
    if line.iter().filter(|byte| **byte == b'[').count() != 1 {
        return Err("tasks must be one array of objects, with names for all numbers".to_owned());
    }
    Ok(set)
}

/// Writes the reason why a line has no answer, in its place.
pub fn refuse(reason: &str, line: u64, style: Style, out: &mut Vec<u8>) {
    let error = format!("line {line}: {reason}");
    if style.text {
        let _ = writeln!(out, "{error}");
    } else {
        append(&Refusal { error: &error, line }, out);
    }
}

fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    // Neither writing to memory nor plain structures can fail.
    let _ = serde_json::to_writer(&mut *out, value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const STYLE: Style = Style { explain: false, text: false };
    const GOOD: &str = r#"{"cores":1,"tasks":[{"wcet":1,"period":4,"deadline":4},{"wcet":2,"period":6,"deadline":5}]}"#;

    /// The line answered by every test: one line of JSON each, refused or not.
    fn every_test(line: &[u8]) {
        for test in <Test as clap::ValueEnum>::value_variants() {
            let mut out = Vec::new();
            let accepted = Lines::new(*test).answer(line, 7, STYLE, &mut out);
            let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(out.iter().filter(|b| **b == b'\n').count(), 1);
            assert_eq!(value.get("schedulable").is_some(), accepted);
            assert_eq!(value["line"] == 7, !accepted, "{value}");
        }
    }

    #[test]
    fn a_good_line() {
        let mut out = Vec::new();
        assert!(Lines::new(Test::FpRta).answer(GOOD.as_bytes(), 1, STYLE, &mut out));
        assert_eq!(String::from_utf8(out).unwrap(), "{\"schedulable\":true,\"response\":[1,3]}\n");
        every_test(GOOD.as_bytes());
    }

    /// Bytes flipped, cut, doubled and replaced by digits: there is no panic, and every line has an
    /// answer or a reason.
    #[test]
    fn broken_lines_are_refused_or_answered() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..3000 {
            let mut line = GOOD.as_bytes().to_vec();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..line.len());
                match rng.random_range(0..5) {
                    0 => line[at] = rng.random(),
                    1 => line.truncate(at.max(1)),
                    2 => line.insert(at, b"0123456789.-e\"{}[]:,"[rng.random_range(0..20)]),
                    3 => drop(line.splice(at..at, line.clone())),
                    _ => drop(line.remove(at)),
                }
                if line.is_empty() {
                    line.push(b'{');
                }
            }
            every_test(&line);
        }
    }

    /// Numbers of every size: there is no panic, and no answer takes long.
    #[test]
    fn extreme_numbers() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..300 {
            let number = |rng: &mut ChaCha8Rng| match rng.random_range(0..4) {
                0 => u64::MAX - rng.random_range(0..3),
                1 => rng.random_range(0..3),
                2 => 1 << rng.random_range(0..64),
                _ => rng.random::<u64>() >> rng.random_range(0..64),
            };
            let tasks: Vec<String> = (0..rng.random_range(0..6))
                .map(|_| {
                    let (a, b, c) = (number(&mut rng), number(&mut rng), number(&mut rng));
                    format!(r#"{{"wcet":{},"period":{},"deadline":{c}}}"#, a.min(b), a.max(b))
                })
                .collect();
            let line =
                format!(r#"{{"cores":{},"tasks":[{}]}}"#, rng.random_range(0..4), tasks.join(","));
            every_test(line.as_bytes());
        }
    }
}
