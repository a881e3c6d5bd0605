//! The text of a system file for a user who has not seen one.
//!
//! Problem: a first system file is written by hand from documents, and mistakes show late.
//! Rule: the file explains each table beside the table. Proposed values are marked. A task without
//! numbers stands in comments, so that no plan rests on numbers that nobody measured.
//! Source: TOML v1.0.0.
//! Does not cover: tables of other schemes (partitions, levels, VCPUs).

use super::tasks::{Found, Proposal, period};
use crate::table::ms;
use solocore_model::Time;
use std::fmt::Write;

/// Column in which comments begin behind a key.
const COMMENTS: usize = 32;
/// Longest line of a comment.
const WIDTH: usize = 100;
/// The period of a task without a known time.
const GUESS: Time = Time::from_ns(100_000_000);

const HEAD: &str = "\
# A system for `solocore plan`: a machine, how its cores share the memory, and tasks.
# `solocore init` wrote this file. Change it as you need; the comments say what each key means.
";

const REGULATION: &str = "
# Each core has a budget of memory accesses in each period. A core without budget waits for the
# next period. So the plan knows how much one core can slow the others down.
[regulation]
policy = \"memguard\"             # the planner chooses the budgets; docs/shares.md has other ways
period = \"1 ms\"                 # each core gets its budget again after this time
";

/// Lines for this machine: with them, no part has to keep promises on pages and other programs.
const ANYWHERE: &str = "\
# Pages lie where the kernel puts them. Nobody has to place them then, and bounds count on no hit in
# the shared cache. Without this line each core gets a part of the cache and banks of its own, which
# need `solocore run --resctrl`, colours or a lockable cache (docs/promises.md).
pages = \"anywhere\"
# Other programs of this machine run on all cores, within the budgets. Remove this line, for lower
# bounds, if nothing else may run on cores of analysed tasks.
other_programs = true
";

const TASKS: &str = "
# Each [[task]] starts its command once in each period, in the directory of this file.
# The command must end before the deadline. `solocore plan` profiles it and bounds its time.
# Tasks of criticality A, B and C get a bound and a verdict. Level D is best effort: it gets none.
# The planner chooses the core of each task, unless the task states one, like `core = 0`.
";

const EXAMPLE: &str = "
# An example: put your own task in its place.
[[task]]
name = \"example\"
period = \"100 ms\"               # the time between two starts
# deadline = \"100 ms\"           # default: the period
criticality = \"B\"
# criticality = \"D\"             # best effort; takes the place of the line above
wcet = \"10 ms\"                  # the longest time of one job alone
misses = 10000                  # memory accesses of one job
# command = [\"./program\", \"argument\"]   # takes the place of wcet and misses
";

/// The machine of a system file.
pub struct Machine<'a> {
    /// Value of the key `platform`.
    pub key: &'a str,
    /// Description of this value, for a comment.
    pub what: &'a str,
    /// Whether it is this machine.
    pub here: bool,
}

/// The whole file; `asked` is the period that the user asks for.
pub fn system(machine: &Machine, tasks: &[Proposal], asked: Option<Time>) -> String {
    let mut out = format!("{HEAD}\n");
    key(&mut out, &format!("platform = {}", quoted(machine.key)), machine.what);
    out += REGULATION;
    if machine.here {
        out += ANYWHERE;
    }
    out += TASKS;
    if tasks.iter().all(|t| matches!(t.found, Found::Failed(_))) {
        out += EXAMPLE;
    }
    for proposal in tasks {
        out.push('\n');
        match &proposal.found {
            Found::Failed(why) => without_profile(&mut out, proposal, why, asked),
            found => {
                head(&mut out, proposal);
                times(&mut out, found, asked);
                out += "criticality = \"B\"\n";
                let effort = "best effort; takes the place of the line above";
                key(&mut out, "# criticality = \"D\"", effort);
            }
        }
    }
    out
}

fn head(out: &mut String, task: &Proposal) {
    let words: Vec<String> = task.command.iter().map(|word| quoted(word)).collect();
    let _ = writeln!(out, "[[task]]\nname = {}", quoted(&task.name));
    let _ = writeln!(out, "command = [{}]", words.join(", "));
}

/// Writes the period and its reason.
fn times(out: &mut String, found: &Found, asked: Option<Time>) {
    let (why, proposed) = match found {
        Found::Alone { time, .. } => {
            let alone = format!("One job takes {} ms alone", ms(Some(time.ns_ceil())));
            (format!("{alone}, by its profile. "), period(*time))
        }
        Found::Nothing | Found::Failed(_) => (String::new(), GUESS),
    };
    let said = match (asked, found) {
        (Some(_), _) => "The period is the one of --period.",
        (None, Found::Alone { .. }) => {
            "The period is a proposal: 10 times that, rounded up. Set it to the time between two \
                starts."
        }
        (None, _) => "The period is a guess. Set it to the time between two starts.",
    };
    if let Found::Alone { notes, .. } = found {
        notes.iter().for_each(|note| comment(out, &format!("Note: {note}.")));
    }
    comment(out, &format!("{why}{said}"));
    let period = asked.unwrap_or(proposed);
    let _ = writeln!(out, "period = \"{period}\"");
    key(out, &format!("# deadline = \"{period}\""), "default: the period");
}

/// Writes a task in comments.
fn without_profile(out: &mut String, task: &Proposal, why: &str, asked: Option<Time>) {
    comment(out, &format!("This task is not planned: {why}."));
    comment(out, "Remove the # of its lines when its program runs, or state wcet and misses.");
    let mut lines = String::new();
    head(&mut lines, task);
    let _ = writeln!(lines, "period = \"{}\"", asked.unwrap_or(GUESS));
    lines += "criticality = \"B\"\n";
    for line in lines.lines() {
        let _ = writeln!(out, "# {line}");
    }
    key(out, "# wcet = \"10 ms\"", "the longest time of one job alone: measure it");
    key(out, "# misses = 10000", "memory accesses of one job: measure them");
}

/// Writes a line with its comment behind it.
fn key(out: &mut String, line: &str, comment: &str) {
    let _ = writeln!(out, "{line:COMMENTS$}# {comment}");
}

/// Writes a comment on lines of its own.
fn comment(out: &mut String, text: &str) {
    let mut line = "#".to_owned();
    let gap = |c: char| c.is_whitespace() || c.is_control();
    for word in text.split(gap).filter(|word| !word.is_empty()) {
        if line.chars().count() + word.chars().count() >= WIDTH && line != "#" {
            let _ = writeln!(out, "{line}");
            line = "#".to_owned();
        }
        line.push(' ');
        line += word;
    }
    let _ = writeln!(out, "{line}");
}

/// A TOML string on one line.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESET: Machine = Machine { key: "p4080", what: "a preset", here: false };
    use solocore_model::{Platform, System};
    use std::path::Path;

    fn task(name: &str, found: Found) -> Proposal {
        let command = ["./a b", "\"\\\u{7f}\n", "ü"].map(str::to_owned).to_vec();
        Proposal { name: name.to_owned(), command, found }
    }

    fn parsed(text: &str) -> System {
        let platform = Platform::find("p4080", Path::new(".")).unwrap();
        System::parse_for(Path::new("system.toml"), text, &platform)
            .unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    #[test]
    fn every_file_is_one_and_commands_come_through() {
        let alone = Found::Alone { time: "41.2 ms".parse().unwrap(), notes: vec!["x".into()] };
        let tasks = [
            task("a", alone),
            task("b", Found::Nothing),
            task("c", Found::Failed("`c`\nfailed ".repeat(20))),
        ];
        let text = system(&PRESET, &tasks, None);
        let system = parsed(&text);
        let periods: Vec<String> =
            system.tasks.iter().filter_map(|t| t.period.map(|p| p.to_string())).collect();
        assert_eq!(periods, ["500 ms", "100 ms"]);
        assert_eq!(system.tasks[0].command.as_ref(), Some(&tasks[0].command));
        assert!(text.contains("takes 41.200 ms alone"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn without_numbers_the_example_stands_alone() {
        for tasks in [&[][..], &[task("a", Found::Failed("why".into()))]] {
            let text = system(&PRESET, tasks, None);
            let names: Vec<String> = parsed(&text).tasks.into_iter().map(|t| t.name).collect();
            assert_eq!(names, ["example"]);
        }
    }

    #[test]
    fn a_task_in_comments_is_one_without_them() {
        let text = system(&PRESET, &[task("a", Found::Failed("why".into()))], None);
        let (before, after) = text.split_once("# [[task]]\n").unwrap();
        let bare: String = after.lines().map(|line| format!("{}\n", &line[2..])).collect();
        let system = parsed(&format!("{before}[[task]]\n{bare}"));
        assert_eq!(system.tasks[1].command.as_ref().map(Vec::len), Some(3));
    }

    #[test]
    fn the_period_asked_for_is_taken() {
        let asked = "20 ms".parse().ok();
        let text = system(&PRESET, &[task("a", Found::Nothing)], asked);
        assert_eq!(parsed(&text).tasks[0].period, asked);
    }
}
