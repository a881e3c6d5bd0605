//! A system file as text, with changed keys that the file on disk does not get.
//!
//! Problem: a plan with another period should not need a second file, and a fault must be refused
//! in the same words as in a file. Rule: a change `KEY=VALUE` edits the text, and the text is read
//! like every system file. `KEY` is a dotted path: tables by key (`regulation.period`), elements of
//! arrays by their `name` or `id` (`task.canny.period`, `core.2.bandwidth`), others by their number
//! from 0. A value is TOML; other text is a string, so that `1 ms` needs no quotes. A missing key
//! is added, and so is its `[[core]]`. Values are replaced in their places and added lines are not
//! counted, so that errors name the lines of the file. Does not cover: removing a key, and adding
//! elements of arrays other than `[[core]]`.

use super::System;
use crate::error::ModelError;
use crate::files;
use crate::provenance::{InputRole, PlanInput};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a system file, perhaps with changes.
#[derive(Clone, Debug)]
pub struct SystemText {
    path: PathBuf,
    text: String,
    /// The file without changes.
    file: PlanInput,
    /// Lines of the text that the file does not have, in the order in which they were added.
    added: Vec<usize>,
}

impl SystemText {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Ok(Self::new(path, files::read_text(path)?))
    }

    /// A text that stands for a file.
    #[must_use]
    pub fn new(path: &Path, text: String) -> Self {
        let file = PlanInput::of(InputRole::System, path.to_string_lossy(), &text);
        Self { path: path.to_owned(), text, file, added: Vec::new() }
    }

    /// The text with one key changed: `change` is `KEY=VALUE`. [`SystemText::system`] checks that
    /// the result is a system.
    ///
    /// # Errors
    /// When the file has no place for the key, or is not TOML.
    pub fn with(&self, change: &str) -> Result<Self, ModelError> {
        let root = DeTable::parse(&self.text)
            .map_err(|e| ModelError::from_toml(&self.path, &self.text, &e))?;
        let edit = edit(&self.text, root.get_ref(), change).map_err(|message| {
            ModelError::Invalid { path: self.path.clone(), line: None, message }
        })?;
        let mut out = self.clone();
        out.text.replace_range(edit.at.clone(), &edit.text);
        if edit.adds_line {
            out.added
                .push(line(&self.text, edit.at.start) + usize::from(!edit.text.ends_with('\n')));
        }
        Ok(out)
    }

    /// The system that the text describes.
    ///
    /// # Errors
    /// As [`System::load`].
    pub fn system(&self) -> Result<System, ModelError> {
        let mut system = System::parse(&self.path, &self.text)
            .map_err(|e| e.on_lines(|line| self.line_of_file(line)))?;
        system.inputs.insert(0, self.file.clone());
        for task in &mut system.tasks {
            task.line = self.line_of_file(task.line);
        }
        Ok(system)
    }

    /// The file's line for one of the text; an added line counts as the one before it.
    fn line_of_file(&self, line: usize) -> usize {
        self.added
            .iter()
            .rev()
            .fold(line, |line, &added| if line >= added { line - 1 } else { line })
            .max(1)
    }
}

/// Line of an offset, from 1.
fn line(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|&&b| b == b'\n').count() + 1
}

/// Replacement of a part of the text.
struct Edit {
    at: Range<usize>,
    text: String,
    adds_line: bool,
}

impl Edit {
    fn replace(at: Range<usize>, value: &str) -> Self {
        Self { at, text: toml_of(value), adds_line: false }
    }

    fn insert(at: usize, text: String, adds_line: bool) -> Self {
        Self { at: at..at, text, adds_line }
    }
}

/// A value as TOML; text that is not TOML becomes a string.
fn toml_of(value: &str) -> String {
    value
        .parse::<toml::Value>()
        .unwrap_or_else(|_| toml::Value::String(value.to_owned()))
        .to_string()
}

/// A table on the way to a key.
struct Here<'a> {
    text: &'a str,
    /// Range of its begin: its header, its brace, or its name in a dotted key; `None` for the whole
    /// file.
    at: Option<Range<usize>>,
    table: &'a DeTable<'a>,
    /// The keys up to it, each with its dot.
    path: String,
}

fn edit(text: &str, root: &DeTable, change: &str) -> Result<Edit, String> {
    if change.contains(char::is_control) {
        return Err(
            "a change is one line, KEY=VALUE; remove line breaks and other control characters"
                .to_owned(),
        );
    }
    if !change.contains('=') {
        return Err(no_value(change));
    }
    in_table(&Here { text, at: None, table: root, path: String::new() }, change)
}

fn no_value(key: &str) -> String {
    format!("`{key}` has no value; write KEY=VALUE, like regulation.period=2 ms")
}

/// Finds the edit of a change. `rest` is the change from this table on: `KEY=VALUE` or
/// `KEY.MORE=VALUE`.
fn in_table(here: &Here, rest: &str) -> Result<Edit, String> {
    let path = &here.path;
    let Some(end) = rest.find(['.', '=']) else {
        return Err(no_value(&format!("{path}{rest}")));
    };
    let (key, after) = (rest[..end].trim(), &rest[end + 1..]);
    if key.is_empty() {
        return Err(format!(
            "there is no key in `{path}{rest}`; write KEY=VALUE, like regulation.period=2 ms"
        ));
    }
    let found = here.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value);
    match (found, &rest[end..=end]) {
        (Some(value), "=") if has_header(here.text, value) => Err(format!(
            "`{path}{key}` is a table; name one of its keys, like regulation.period=2 ms"
        )),
        (Some(value), "=") => Ok(Edit::replace(value.span(), after)),
        (Some(value), _) => in_value(here.text, value, &format!("{path}{key}."), after),
        (None, "=") => Ok(add_key(here, key, after)),
        (None, _) => add_table(here, key, after),
    }
}

/// Does a value have a `[header]` of its own, and not follow an equals sign?
fn has_header(text: &str, value: &Spanned<DeValue>) -> bool {
    match value.get_ref() {
        DeValue::Table(_) => !text[value.span()].starts_with('{'),
        DeValue::Array(all) => {
            all.iter().next().is_some_and(|v| v.get_ref().is_table() && has_header(text, v))
        }
        _ => false,
    }
}

fn in_value(text: &str, value: &Spanned<DeValue>, path: &str, rest: &str) -> Result<Edit, String> {
    match value.get_ref() {
        DeValue::Table(table) => {
            in_table(&Here { text, at: Some(value.span()), table, path: path.to_owned() }, rest)
        }
        DeValue::Array(all) => {
            let all: Vec<&Spanned<DeValue>> = all.iter().collect();
            in_array(text, &all, path, rest)
        }
        _ => {
            Err(format!("`{}` has no keys; remove the text behind it", path.trim_end_matches('.')))
        }
    }
}

/// Name of an element of an array: its name, its id, or its number.
fn name_of(at: usize, element: &DeValue) -> String {
    let key = |key: &str| {
        element.as_table()?.iter().find(|(k, _)| k.get_ref() == key).map(|(_, v)| v.get_ref())
    };
    match (key("name"), key("id")) {
        (Some(DeValue::String(name)), _) => name.to_string(),
        (_, Some(DeValue::Integer(id))) => id.to_string(),
        _ => at.to_string(),
    }
}

/// Finds the edit within an array. Names may have dots: the longest name that fits counts.
fn in_array(text: &str, all: &[&Spanned<DeValue>], path: &str, rest: &str) -> Result<Edit, String> {
    let names: Vec<String> =
        all.iter().enumerate().map(|(at, e)| name_of(at, e.get_ref())).collect();
    let after = |name: &str| rest.strip_prefix(name).filter(|r| r.starts_with(['.', '=']));
    let fitting = names.iter().enumerate().filter_map(|(at, name)| Some((at, name, after(name)?)));
    let Some((at, name, after)) = fitting.max_by_key(|(_, name, _)| name.len()) else {
        let array = path.trim_end_matches('.');
        if let Some((id, key)) = rest.split_once('.').filter(|_| array == "core") {
            return new_core(text, id, key);
        }
        let wanted = rest.split(['.', '=']).next().unwrap_or(rest);
        return Err(format!("no {array} is called `{wanted}`; name one of {}", names.join(", ")));
    };
    match (after.strip_prefix('.'), after.strip_prefix('=')) {
        (Some(rest), _) => in_value(text, all[at], &format!("{path}{name}."), rest),
        (None, Some(new)) if !has_header(text, all[at]) => Ok(Edit::replace(all[at].span(), new)),
        _ => Err(format!(
            "`{path}{name}` is a table; name one of its keys, like {path}{name}.period=2 ms"
        )),
    }
}

/// Adds a key that a table does not have.
fn add_key(here: &Here, key: &str, value: &str) -> Edit {
    let value = toml_of(value);
    let Some(at) = &here.at else { return Edit::insert(0, format!("{key} = {value}\n"), true) };
    match here.text.as_bytes()[at.start] {
        b'[' => {
            let end = here.text[at.end..].find('\n').map_or(here.text.len(), |n| at.end + n);
            Edit::insert(end, format!("\n{key} = {value}"), true)
        }
        b'{' => {
            let comma = if here.table.is_empty() { "" } else { "," };
            Edit::insert(at.start + 1, format!(" {key} = {value}{comma}"), false)
        }
        // The table exists by dotted keys of the file's head.
        _ => Edit::insert(0, format!("{}{key} = {value}\n", here.path), true),
    }
}

/// Adds a table that the file does not have; only tables without tables inside.
fn add_table(here: &Here, key: &str, rest: &str) -> Result<Edit, String> {
    let path = &here.path;
    if let Some((id, key)) = rest.split_once('.').filter(|_| key == "core" && path.is_empty()) {
        return new_core(here.text, id, key);
    }
    match rest.split_once('=') {
        Some((inner, value)) if path.is_empty() && !inner.contains('.') => {
            let text = format!("\n[{key}]\n{} = {}\n", inner.trim(), toml_of(value));
            Ok(Edit::insert(here.text.len(), text, false))
        }
        _ => Err(format!(
            "there is no `{path}{key}` in the file; correct the key, or add it to the file"
        )),
    }
}

/// A `[[core]]` with one key more.
fn new_core(text: &str, id: &str, rest: &str) -> Result<Edit, String> {
    let Some((key, value)) = rest.split_once('=').filter(|(key, _)| !key.contains('.')) else {
        return Err(format!(
            "`core.{id}.{rest}` has no value; write KEY=VALUE, like core.0.bandwidth=200 MB/s"
        ));
    };
    if id.parse::<u32>().is_err() {
        return Err(format!(
            "`core.{id}`: a core is named by its number; write it like core.0.bandwidth=200 MB/s"
        ));
    }
    let new = format!("\n[[core]]\nid = {id}\n{} = {}\n", key.trim(), toml_of(value));
    Ok(Edit::insert(text.len(), new, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    const FILE: &str = "platform = \"p4080\" # the board\n[regulation] # shared\nperiod = \"1 \
        ms\"\n\
        [[task]]\nname = \"a\"\nperiod = \"100 ms\"\nwcet = \"1 ms\"\nmisses = 10\n\
        [[task]]\nname = \"a.b\"\nperiod = \"50 ms\"\ncurve = [{ wcet = \"2 ms\", misses = 9 }, { \
        wcet = \"1 ms\", misses = 3 }]\n";

    fn changed(changes: &[&str]) -> Result<SystemText, String> {
        let start = SystemText::new(Path::new("s.toml"), FILE.to_owned());
        changes.iter().try_fold(start, |text, change| text.with(change)).map_err(|e| e.to_string())
    }

    fn system(changes: &[&str]) -> System {
        let text = changed(changes).unwrap();
        text.system().unwrap_or_else(|e| panic!("{e}\n{}", text.text))
    }

    fn refusal(changes: &[&str]) -> String {
        changed(changes)
            .and_then(|text| text.system().map(drop).map_err(|e| e.to_string()))
            .unwrap_err()
    }

    #[test]
    fn each_kind_of_key_is_changed_where_it_stands() {
        let ms = |ms: u64| Time::from_ns(ms * 1_000_000);
        assert_eq!(system(&["regulation.period=2 ms"]).regulation.period, ms(2));
        assert_eq!(system(&["regulation.active_cores=3"]).regulation.active_cores, Some(3));
        assert_eq!(system(&["task.a.period=20 ms"]).tasks[0].period, Some(ms(20)));
        assert_eq!(
            system(&["task.a.b.period=20 ms"]).tasks[1].period,
            Some(ms(20)),
            "a name with a dot"
        );
        assert_eq!(system(&["task.a.core=5"]).tasks[0].core, Some(5));
        assert_eq!(system(&["platform=raspberry-pi-4"]).platform.name, "raspberry-pi-4");
        let curve = &system(&["task.a.b.curve.1.misses=2"]).tasks[1].demand;
        assert!(format!("{curve:?}").ends_with("misses: 2 }])"), "{curve:?}");
        let two = system(&[
            "regulation.share=explicit",
            "core.2.bandwidth=100 MB/s",
            "core.2.write_bandwidth=10 MB/s",
        ]);
        assert_eq!((two.cores[0].id, two.cores[0].bandwidth.unwrap().0), (2, 100_000_000));
        assert!(two.cores[0].write_bandwidth.is_some());
        // The last word counts.
        assert_eq!(system(&["task.a.core=5", "task.a.core=6"]).tasks[0].core, Some(6));
    }

    #[test]
    fn tables_that_are_not_there_are_added() {
        let bare = FILE.replace("[regulation] # shared\nperiod = \"1 ms\"\n", "");
        let of = |text: &str, change: &str| {
            SystemText::new(Path::new("s.toml"), text.to_owned())
                .with(change)
                .unwrap()
                .system()
                .unwrap()
        };
        assert_eq!(of(&bare, "regulation.period=2 ms").regulation.period, Time::from_ns(2_000_000));
        let dotted = format!("regulation.period = \"1 ms\"\n{bare}");
        assert_eq!(of(&dotted, "regulation.active_cores=2").regulation.active_cores, Some(2));
        let inline = format!("regulation = {{ period = \"1 ms\" }}\n{bare}");
        assert_eq!(of(&inline, "regulation.active_cores=2").regulation.active_cores, Some(2));
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let system = system(&["regulation.active_cores=3", "task.a.core=1"]);
        assert_eq!(system.tasks.iter().map(|t| t.line).collect::<Vec<_>>(), [4, 9]);
        let beside =
            refusal(&["regulation.active_cores=3", "task.a.core=1", "task.a.b.priority=0"]);
        assert!(beside.starts_with("s.toml:9: task `a.b`: priority 0"), "{beside}");
        let value = refusal(&["task.a.core=1", "task.a.b.period=1"]);
        assert!(value.starts_with("s.toml:11:10: "), "a value in its place: {value}");
    }

    #[test]
    fn what_is_wrong_is_said_as_of_a_file() {
        for (change, expect) in [
            ("regulation.perod=1 ms", "unknown field `perod`"),
            ("regulatin.period=1 ms", "unknown field `regulatin`"),
            ("regulation.period=1", "s.toml:3:10"),
            ("regulation.period=1 parsec", "unknown unit `parsec`"),
            ("regulation.period", "has no value; write KEY=VALUE"),
            ("task.a", "`task.a` has no value"),
            ("task.a.period", "`task.a.period` has no value"),
            ("regulation=5", "`regulation` is a table; name one of its keys"),
            ("task=5", "`task` is a table"),
            ("task.a=5", "`task.a` is a table; name one of its keys"),
            ("task.x.period=1 ms", "no task is called `x`; name one of a, a.b"),
            ("task.a.period.x=1", "`task.a.period` has no keys"),
            ("task.a.core=9", "core 9 is out of range"),
            ("core.one.bandwidth=1 MB/s", "named by its number"),
            ("core.1.bandwidth=1 MB/s", "share = \"explicit\""),
            ("vcpu.v.capacity=1 ms", "there is no `vcpu` in the file"),
            ("=5", "there is no key"),
            ("", "has no value"),
            ("task.a.name=b\nmisses = 5", "one line"),
        ] {
            let error = refusal(&[change]);
            assert!(error.contains(expect), "{change}: {error}\nlacks {expect}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
