//! A description as the text of a platform file.
//!
//! Problem: names of machines may hold any characters, and a file with a wrong quote is not valid
//! TOML. Rule: a key is a line with its source behind it; control characters are left out of names.
//! Source: TOML v1.0.0, section "String". Does not cover: values; they are checked by the model's
//! own parser.

use crate::description::Description;
use crate::known::Fact;
use std::fmt::Write;

/// Column in which comments begin, where the value leaves room.
const COMMENTS: usize = 27;
/// Longest line of a comment at the head.
const WIDTH: usize = 110;

/// Explanation of the comments.
const HEAD: &str = "\
# Behind each number stands its source. read: a file of the machine. table: a document. assumed: nothing says so;
# after the semicolon stands what would make it known. Assumed values are chosen so that bounds come out larger.
# The heads of the presets say what times mean (`solocore platform show core-i5-2500k`).
#
# Found beside the keys:
";

/// A TOML string.
pub fn quoted(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A short name: `intel-core-i5-2500k-cpu` of `Intel(R) Core(TM) i5-2500K CPU @ 3.30GHz`.
pub fn slug(title: &str) -> String {
    let title = title.replace("(R)", " ").replace("(TM)", " ").to_ascii_lowercase();
    let title = title.split(" @ ").next().unwrap_or_default();
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    if name.is_empty() { "machine".to_owned() } else { name.chars().take(60).collect() }
}

/// The keys with their comments.
pub fn keys(facts: &[Fact]) -> String {
    let (mut out, mut table) = (String::new(), "");
    for fact in facts {
        let (own, key) = fact.key.split_once('.').unwrap_or(("", &fact.key));
        if own != table {
            // `core_type[2]` is a table of a list.
            let _ = match own.split_once('[') {
                Some((list, _)) => writeln!(out, "[[{list}]]"),
                None => writeln!(out, "[{own}]"),
            };
            table = own;
        }
        let line = format!("{key} = {}", fact.value);
        let _ = writeln!(out, "{line:COMMENTS$} # {}", fact.comment());
    }
    out
}

/// The whole file.
pub fn file(description: &Description) -> String {
    let mut out =
        format!("# {}, as `solocore platform detect` found it.\n#\n", description.platform.title);
    out += HEAD;
    for fact in &description.found {
        comment(&mut out, &format!("{} = {} ({})", fact.key, fact.value, fact.comment()));
    }
    if !description.notes.is_empty() {
        out += "#\n# Read before you plan with it:\n";
    }
    for note in &description.notes {
        comment(&mut out, &note.line());
    }
    out.push('\n');
    out + &keys(&description.facts)
}

/// An item of a list, wrapped.
fn comment(out: &mut String, text: &str) {
    let mut line = "# *".to_owned();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty())
    {
        if line.len() + word.len() >= WIDTH {
            let _ = writeln!(out, "{line}");
            line = "#  ".to_owned();
        }
        line.push(' ');
        line += word;
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_strings_are_strings() {
        assert_eq!(slug("Intel(R) Core(TM) i5-2500K CPU @ 3.30GHz"), "intel-core-i5-2500k-cpu");
        assert_eq!(slug("??"), "machine");
        assert_eq!(quoted("a\"b\\c\n"), r#""a\"b\\c""#);
    }
}
