//! Vectors: sequences of events with the answers that a paper, or a calculation by hand, asks for
//! (`policy/vectors/<mechanism>.toml`).
//!
//! ```toml
//! [[sequence]]
//! name = "the_lower_id_first"
//! source = "heap.h, the rule"
//! events = [
//!   { op = "init", answer = [1] },
//!   { op = "push", id = 5, a = 10, answer = [1, 5, 10, 1, 1] },
//!   { op = "look", id = 6, answer = [0, 5, 10, 1] },
//! ]
//! ```
//!
//! Operands (`id`, `now`, `a` to `d`) and words of the answer that are left out are 0. A number
//! above 2^63 - 1, which TOML cannot write, is a string; "none" is 2^32 - 1 (`SC_NONE`) and
//! "unlimited" 2^64 - 1. An operation is named, or numbered to try one that does not exist.

use crate::backend::Backend;
use crate::{Answer, Event, Operations};
use std::fmt::Write;
use std::path::Path;
use toml::{Table, Value};

/// A sequence of events for a fresh world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// What it shows; unique in its file.
    pub name: String,
    /// Where the answers come from.
    pub source: String,
    /// What happens.
    pub events: Vec<Event>,
    /// What must be answered to each event.
    pub answers: Vec<Answer>,
}

/// What is wrong with a vector file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}{what}")]
pub struct VectorError {
    /// The file.
    pub file: String,
    /// "sequence `x`, event 3: ", counted from 1, or less where less is known.
    pub place: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// Reads the vectors of a mechanism.
pub fn load(path: &Path, operations: Operations) -> Result<Vec<Sequence>, VectorError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| VectorError {
        file: file.clone(),
        place: String::new(),
        what: format!("cannot be read: {e}"),
    })?;
    parse(&text, &file, operations)
}

/// Reads vectors from the text of a file.
pub fn parse(text: &str, file: &str, operations: Operations) -> Result<Vec<Sequence>, VectorError> {
    let file_error =
        |what: String| VectorError { file: file.to_owned(), place: String::new(), what };
    let top: Table = text.parse().map_err(|e| file_error(format!("{e}")))?;
    known_keys(&top, &["sequence"]).map_err(file_error)?;
    let tables = match top.get("sequence") {
        Some(Value::Array(tables)) if !tables.is_empty() => tables,
        _ => return Err(file_error("no [[sequence]]".into())),
    };
    let mut sequences: Vec<Sequence> = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        let sequence = sequence(table, index + 1, operations)
            .map_err(|(place, what)| VectorError { file: file.to_owned(), place, what })?;
        if sequences.iter().any(|s| s.name == sequence.name) {
            return Err(file_error(format!("two sequences are named `{}`", sequence.name)));
        }
        sequences.push(sequence);
    }
    Ok(sequences)
}

/// The error is a place and what is wrong there.
fn sequence(
    value: &Value,
    number: usize,
    operations: Operations,
) -> Result<Sequence, (String, String)> {
    let nameless = |what| (format!("sequence {number}: "), what);
    let table = value.as_table().ok_or_else(|| nameless("must be a table".into()))?;
    let name = text(table, "name").map_err(nameless)?;
    let here = |what| (format!("sequence `{name}`: "), what);
    known_keys(table, &["name", "source", "events"]).map_err(here)?;
    let source = text(table, "source").map_err(here)?;
    let list = match table.get("events") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        _ => return Err(here("`events` must be a list of one event or more".into())),
    };
    let (mut events, mut answers) = (Vec::new(), Vec::new());
    for (index, value) in list.iter().enumerate() {
        let (event, answer) = step(value, operations)
            .map_err(|what| (format!("sequence `{name}`, event {}: ", index + 1), what))?;
        events.push(event);
        answers.push(answer);
    }
    Ok(Sequence { name, source, events, answers })
}

fn step(value: &Value, operations: Operations) -> Result<(Event, Answer), String> {
    let table = value.as_table().ok_or("must be a table: { op = \"...\", answer = [...] }")?;
    known_keys(table, &["op", "id", "now", "a", "b", "c", "d", "answer"])?;
    let operand =
        |key: &str| table.get(key).map_or(Ok(0), |v| number(v).map_err(|e| format!("`{key}` {e}")));
    let event = Event {
        op: operation(table.get("op").ok_or("`op` is missing")?, operations)?,
        id: u32::try_from(operand("id")?).map_err(|_| "`id` does not fit 32 bits")?,
        now: operand("now")?,
        a: operand("a")?,
        b: operand("b")?,
        c: operand("c")?,
        d: operand("d")?,
    };
    let mut answer = Answer::default();
    if let Some(value) = table.get("answer") {
        let words = value.as_array().ok_or("`answer` must be a list of words")?;
        if words.len() > answer.word.len() {
            return Err(format!(
                "`answer` has {} words; an answer has {}",
                words.len(),
                answer.word.len()
            ));
        }
        for (index, (word, value)) in answer.word.iter_mut().zip(words).enumerate() {
            *word = number(value).map_err(|e| format!("word {index} of `answer` {e}"))?;
        }
    }
    Ok((event, answer))
}

fn operation(value: &Value, operations: Operations) -> Result<u32, String> {
    if let Some(name) = value.as_str() {
        let index = operations.iter().position(|o| *o == name);
        let index = index.ok_or_else(|| {
            format!("no operation `{name}`; there are: {}", operations.join(", "))
        })?;
        return u32::try_from(index).map_err(|e| e.to_string());
    }
    let number = number(value).map_err(|e| format!("`op` {e}"))?;
    u32::try_from(number).map_err(|_| "`op` does not fit 32 bits".into())
}

fn number(value: &Value) -> Result<u64, String> {
    match value {
        Value::Integer(n) => u64::try_from(*n).map_err(|_| format!("is negative: {n}")),
        Value::String(s) if s == "none" => Ok(u64::from(u32::MAX)),
        Value::String(s) if s == "unlimited" => Ok(u64::MAX),
        Value::String(s) => s
            .parse()
            .map_err(|_| format!("is \"{s}\": neither a number below 2^64, none nor unlimited")),
        other => Err(format!("must be a number, not a {}", other.type_str())),
    }
}

fn text(table: &Table, key: &str) -> Result<String, String> {
    match table.get(key) {
        Some(Value::String(s)) if !s.trim().is_empty() => Ok(s.clone()),
        Some(_) => Err(format!("`{key}` must be a text")),
        None => Err(format!("`{key}` is missing")),
    }
}

fn known_keys(table: &Table, known: &[&str]) -> Result<(), String> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key `{key}`; known are: {}", known.join(", "))),
        None => Ok(()),
    }
}

/// An event and its answer as a line of a vector file.
pub fn step_text(operations: Operations, event: &Event, answer: &Answer) -> String {
    let mut line = match operations.get(event.op as usize) {
        Some(name) => format!("{{ op = \"{name}\""),
        None => format!("{{ op = {}", event.op),
    };
    let operands =
        [("now", event.now), ("a", event.a), ("b", event.b), ("c", event.c), ("d", event.d)];
    for (key, value) in [("id", u64::from(event.id))].into_iter().chain(operands) {
        if value != 0 {
            let _ = write!(line, ", {key} = {}", number_text(value));
        }
    }
    line + &format!(", answer = {} }}", answer_text(answer))
}

/// An answer as in a vector file, without the zeros at its end.
pub fn answer_text(answer: &Answer) -> String {
    let used = answer.word.iter().rposition(|w| *w != 0).map_or(0, |last| last + 1);
    let words: Vec<String> = answer.word[..used].iter().map(|w| number_text(*w)).collect();
    format!("[{}]", words.join(", "))
}

fn number_text(value: u64) -> String {
    match value {
        u64::MAX => "\"unlimited\"".into(),
        v if v == u64::from(u32::MAX) => "\"none\"".into(),
        v if i64::try_from(v).is_err() => format!("\"{v}\""),
        v => v.to_string(),
    }
}

/// Replays a sequence; the error tells the first event whose answer is not the stated one.
pub fn replay(
    side: &dyn Backend,
    sequence: &Sequence,
    operations: Operations,
) -> Result<(), String> {
    let mut answers = Vec::new();
    let end = side.replay(&sequence.events, &mut answers);
    let wrong = answers.iter().zip(&sequence.answers).position(|(got, expected)| got != expected);
    let (at, got) = match (wrong, end) {
        (Some(at), _) => (at, answer_text(&answers[at])),
        (None, Err(error)) => (answers.len(), error),
        (None, Ok(())) => return Ok(()),
    };
    let (event, expected) = (&sequence.events[at], &sequence.answers[at]);
    Err(format!(
        "{}: sequence `{}`, event {}: {}\n    expected {}\n    got      {got}",
        side.name(),
        sequence.name,
        at + 1,
        step_text(operations, event, expected),
        answer_text(expected),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;
    use crate::backend::Local;

    const OPERATIONS: Operations = &["init", "push"];

    fn with_event(event: &str) -> String {
        format!(
            "[[sequence]]\nname = \"s\"\nsource = \"t\"\nevents = [\n  \
                {{ op = \"init\", answer = [1] }},\n  {event},\n]\n"
        )
    }

    fn error(text: &str) -> String {
        parse(text, "v.toml", OPERATIONS).unwrap_err().to_string()
    }

    #[test]
    fn what_is_left_out_is_zero() {
        let text = with_event(
            r#"{ op = "push", id = "none", a = "unlimited", d = "18446744073709551614", answer = [0, 0x10] }"#,
        );
        let sequences = parse(&text, "v.toml", OPERATIONS).unwrap();
        assert_eq!(
            (sequences.len(), sequences[0].name.as_str(), sequences[0].source.as_str()),
            (1, "s", "t")
        );
        let event = Event { op: 1, id: u32::MAX, now: 0, a: u64::MAX, b: 0, c: 0, d: u64::MAX - 1 };
        assert_eq!(sequences[0].events, [Event::default(), event]);
        assert_eq!(
            sequences[0].answers.iter().map(|a| a.word).collect::<Vec<_>>(),
            [[1, 0, 0, 0, 0, 0], [0, 16, 0, 0, 0, 0]]
        );
    }

    #[test]
    fn an_error_names_file_sequence_and_event() {
        let at = "v.toml: sequence `s`, event 2: ";
        for (event, what) in [
            (r#"{ op = "pop" }"#, "no operation `pop`; there are: init, push"),
            (
                r#"{ op = "push", key = 1 }"#,
                "unknown key `key`; known are: op, id, now, a, b, c, d, answer",
            ),
            (r#"{ id = 1 }"#, "`op` is missing"),
            (r#"{ op = "push", a = -1 }"#, "`a` is negative: -1"),
            (r#"{ op = "push", a = 1.5 }"#, "`a` must be a number, not a float"),
            (
                r#"{ op = "push", a = "18446744073709551616" }"#,
                "`a` is \"18446744073709551616\": neither a number below 2^64, none nor unlimited",
            ),
            (r#"{ op = "push", id = 4294967296 }"#, "`id` does not fit 32 bits"),
            (r#"{ op = "push", id = "unlimited" }"#, "`id` does not fit 32 bits"),
            (
                r#"{ op = "push", answer = [1, 2, 3, 4, 5, 6, 7] }"#,
                "`answer` has 7 words; an answer has 6",
            ),
            (
                r#"{ op = "push", answer = ["many"] }"#,
                "word 0 of `answer` is \"many\": neither a number below 2^64, none nor unlimited",
            ),
            (r#"{ op = "push", answer = 1 }"#, "`answer` must be a list of words"),
            ("7", "must be a table: { op = \"...\", answer = [...] }"),
        ] {
            assert_eq!(error(&with_event(event)), format!("{at}{what}"));
        }
    }

    #[test]
    fn an_error_of_a_sequence_or_file_names_it() {
        let event = "events = [{ op = \"init\" }]\n";
        let one = format!("[[sequence]]\nname = \"s\"\nsource = \"t\"\n{event}");
        for (text, what) in [
            (String::new(), "no [[sequence]]"),
            ("sequences = 1".into(), "unknown key `sequences`; known are: sequence"),
            (format!("[[sequence]]\nsource = \"t\"\n{event}"), "sequence 1: `name` is missing"),
            (format!("[[sequence]]\nname = \"s\"\n{event}"), "sequence `s`: `source` is missing"),
            (
                format!("{one}note = 1\n"),
                "sequence `s`: unknown key `note`; known are: name, source, events",
            ),
            (
                "[[sequence]]\nname = \"s\"\nsource = \"t\"\nevents = []".into(),
                "sequence `s`: `events` must be a list of one event or more",
            ),
            (format!("{one}{one}"), "two sequences are named `s`"),
        ] {
            assert_eq!(error(&text), format!("v.toml: {what}"));
        }
        assert!(error("[[sequence").starts_with("v.toml: TOML parse error at line 1"));
        let missing = load(Path::new("/nonexistent.toml"), OPERATIONS).unwrap_err().to_string();
        assert!(missing.starts_with("/nonexistent.toml: cannot be read: "), "{missing}");
    }

    #[test]
    fn what_is_printed_reads_back() {
        let event = Event { op: 1, id: u32::MAX, now: 1, a: u64::MAX, b: 1 << 63, c: 0, d: 5 };
        let answer = Answer { word: [0, u64::MAX, 3, 0, 0, 0] };
        let unknown = Event { op: 9, ..event };
        for event in [event, unknown] {
            let line = step_text(OPERATIONS, &event, &answer);
            let sequences = parse(&with_event(&line), "v.toml", OPERATIONS).unwrap();
            assert_eq!(
                (sequences[0].events[1], sequences[0].answers[1]),
                (event, answer),
                "{line}"
            );
        }
    }

    struct Echo;

    impl World for Echo {
        fn apply(&mut self, event: &Event) -> Answer {
            assert!(event.d == 0, "no d");
            Answer { word: [1, event.a, 0, 0, 0, 0] }
        }
    }

    #[test]
    fn a_wrong_answer_is_told() {
        let side = Local::new("echo", || Box::new(Echo));
        let replayed = |event: &str| {
            let sequences = parse(&with_event(event), "v.toml", OPERATIONS).unwrap();
            replay(&side, &sequences[0], OPERATIONS)
        };
        assert_eq!(replayed(r#"{ op = "push", a = 4, answer = [1, 4] }"#), Ok(()));
        assert_eq!(
            replayed(r#"{ op = "push", a = 4, answer = [1, 5] }"#).unwrap_err(),
            "echo: sequence `s`, event 2: { op = \"push\", a = 4, answer = [1, 5] }\n    expected \
                [1, 5]\n    got      [1, 4]"
        );
        let panicked = replayed(r#"{ op = "push", d = 4, answer = [1] }"#).unwrap_err();
        assert!(panicked.contains("event 2") && panicked.contains("no d"), "{panicked}");
    }
}
