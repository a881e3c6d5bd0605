//! Test: the parser takes each command that the documents and the helps show.
//!
//! Problem: an option is renamed, and a page goes on to name the old one. Rule: whole commands of
//! fenced blocks parse as they stand. Commands in running text may leave out required arguments,
//! and the value of an option that is only named. Names in capitals stand for values. Not covered:
//! CHANGES.md, which names old commands; commands of other programs (`docs_paths.rs`); the effect
//! of a command (tests/cli/test_book_commands.py).

use super::command_line::Args;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, FromArgMatches};
use std::fmt::Write;
use std::path::Path;

/// Values for names in capitals, where the parser wants a number, a quantity or a known name; the
/// word before may be named too.
const VALUES: &[(&str, &str)] = &[
    ("PID", "4711"),
    ("N", "2"),
    ("M", "2"),
    ("C", "2"),
    ("P", "random"),
    ("W", "0.5"),
    ("L GB/s", "2 GB/s"),
    ("POLICY", "memguard"),
    ("COMMAND", "plan"),
    ("schema NAME", "system"),
    ("--test NAME", "edf"),
    ("ADDRESS", "127.0.0.1:9184"),
];

/// A command of a document.
#[derive(Debug, PartialEq)]
struct Shown {
    line: usize,
    words: Vec<String>,
    /// Whether it is a line of a block, and thus whole.
    whole: bool,
}

#[test]
fn the_parser_takes_each_command_of_the_documents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents = ["README.md", "ARCHITECTURE.md", "CAVEATS.md", "CONTRIBUTING.md"]
        .map(|name| root.join(name))
        .to_vec();
    let pages = std::fs::read_dir(root.join("docs")).expect("docs/");
    documents.extend(
        pages
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|e| e == "md")),
    );
    let (mut wrong, mut tried) = (String::new(), 0);
    for path in documents {
        let text = std::fs::read_to_string(&path).expect("a document");
        for shown in commands(&text) {
            tried += 1;
            if let Some(why) = refused(&shown) {
                let page = path.file_name().expect("a name").display();
                let _ = writeln!(wrong, "{page}:{}: {}: {why}", shown.line, shown.words.join(" "));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(tried > 400, "only {tried} commands were found");
}

/// Breaks when an example has an option that does not exist, a value that its option refuses, or
/// options that exclude each other.
#[test]
fn the_parser_takes_each_example_of_the_helps() {
    let (mut wrong, mut tried) = (String::new(), 0);
    for command in helps(&Args::grouped()) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        for line in examples.take_while(|line| !line.is_empty()) {
            for words in each(line) {
                tried += 1;
                if let Some(why) = refused(&Shown { line: 0, words, whole: true }) {
                    let _ = writeln!(wrong, "{} --help: {line}: {why}", command.get_name());
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(tried > 100, "only {tried} commands were found");
}

/// A command and all below it.
fn helps(command: &Command) -> Vec<&Command> {
    let mut found = vec![command];
    found.extend(command.get_subcommands().flat_map(helps));
    found
}

/// The parser's reason to refuse a command; none if it takes it.
fn refused(shown: &Shown) -> Option<String> {
    let found = Args::grouped()
        .try_get_matches_from(&shown.words)
        .and_then(|matches| Args::from_arg_matches(&matches));
    let error = found.err()?;
    let good = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !shown.whole,
        ErrorKind::InvalidValue => !shown.whole && without_value(&error),
        _ => false,
    };
    (!good).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// Whether an option has no value at all.
fn without_value(error: &Error) -> bool {
    matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(v)) if v.is_empty())
}

/// The commands of a document: lines of blocks, and code in running text.
fn commands(text: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let (mut block, mut output) = (false, false);
    let (mut begun, mut running) = (None::<(usize, String)>, String::new());
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            (block, output) = (!block, language == "text");
            running.push('\n');
        } else if block && output {
            running.push('\n');
        } else if block {
            let (first, mut whole) = begun.take().unwrap_or_default();
            let first = if whole.is_empty() { at + 1 } else { first };
            whole += line.trim_start_matches("$ ");
            match whole.strip_suffix('\\') {
                Some(half) => begun = Some((first, half.to_owned())),
                None => found.extend(each(&whole).map(|words| Shown {
                    line: first,
                    words,
                    whole: true,
                })),
            }
            running.push('\n');
        } else {
            running += line;
            running.push('\n');
        }
    }
    let mut line = 1;
    for (n, piece) in running.split('`').enumerate() {
        if n % 2 == 1 {
            for form in forms(&piece.replace('\n', " ")) {
                found.extend(each(&form).map(|words| Shown { line, words, whole: false }));
            }
        }
        line += piece.matches('\n').count();
    }
    found
}

/// The commands of a line, each without the text before and after it.
fn each(line: &str) -> impl Iterator<Item = Vec<String>> {
    let words = shlex::split(line).unwrap_or_default();
    let parts: Vec<Vec<String>> = words
        .split(|word| ["|", "&&", ";", "||", "&"].contains(&word.as_str()))
        .map(|part| {
            let from = part.iter().position(|word| word == "solocore").filter(|&from| {
                part[..from].iter().all(|w| w == "sudo" || w == "time" || w.contains('='))
            });
            let end = part.iter().position(|w| w.starts_with('#') || w == "<" || w.contains('>'));
            let end = end.unwrap_or(part.len());
            let own = &part[from.unwrap_or(end).min(end)..end];
            own.iter()
                .enumerate()
                .map(|(at, word)| {
                    let word = word.trim_end_matches(';');
                    let after = format!("{} {word}", at.checked_sub(1).map_or("", |b| &own[b]));
                    let value = VALUES.iter().find(|(name, _)| [word, &after].contains(name));
                    value.map_or(word, |(_, value)| value).to_owned()
                })
                .collect()
        })
        .collect();
    // A line such as `solocore: note: ...` is what a command says.
    parts.into_iter().filter(|words| words.len() > 1)
}

/// The forms of `solocore schema system|plan` and of `solocore man [COMMAND]`.
fn forms(code: &str) -> Vec<String> {
    let code = code.replace(['[', ']'], "").replace("...", "");
    let Some(word) = code.split(' ').find(|w| w.len() > 1 && w.contains('|') && !w.contains('"'))
    else {
        return vec![code];
    };
    word.split('|').map(|choice| code.replacen(word, choice, 1)).collect()
}

#[test]
fn commands_are_found_and_judged() {
    let text = "`solocore schema\nplan|system` and `solocore exec --budget`\n\n```\nsudo solocore run \\\n  p.json \
                --start &   # a word\nmake\n$ time solocore plan 'a b' | solocore diff x\n```\n`A=1 solocore man [COMMAND]`\n```text\nsolocore has said\n```\n";
    let found = commands(text);
    let words = |at: usize| found[at].words.join(" ");
    let all: Vec<String> = (0..found.len()).map(words).collect();
    assert_eq!(
        all,
        [
            "solocore run p.json --start",
            "solocore plan a b",
            "solocore diff x",
            "solocore schema plan",
            "solocore schema system",
            "solocore exec --budget",
            "solocore man plan",
        ]
    );
    let lines: Vec<usize> = found.iter().map(|s| s.line).collect();
    assert_eq!(lines, [5, 8, 8, 1, 1, 2, 10]);
    let wrong: Vec<usize> = (0..found.len()).filter(|&at| refused(&found[at]).is_some()).collect();
    assert_eq!(wrong, [2], "diff wants two plans in a block");
    let strange =
        Shown { line: 1, words: vec!["solocore".to_owned(), "pla".to_owned()], whole: false };
    assert!(refused(&strange).is_some());
}
