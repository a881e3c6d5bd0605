//! The commands of `solocore --help`, grouped by their purpose.
//!
//! Rule: clap has one list of commands without headings, so the list is written here, into the
//! help's template. Clap does not wrap that, so it is wrapped here, at the column at which clap
//! wraps the rest. A test compares it with clap's commands.

use clap::Command;
use std::fmt::Write as _;
use std::os::fd::{AsFd, BorrowedFd};

/// Headings, and the commands below each.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Plan a system",
        &[
            "init",
            "profile",
            "plan",
            "diff",
            "sim",
            "report",
            "assess",
            "schedule-io",
            "check-io",
            "platform",
            "platforms",
            "workloads",
        ],
    ),
    (
        "Run it here, or on a virtual board",
        &["run", "verify", "restore", "exec", "compare", "vcpu", "recolor", "reserve", "board"],
    ),
    ("Look", &["doctor", "top", "latency", "space", "bench", "check-trace"]),
    (
        "Laboratory: studies and papers, which run no system",
        &["analyze", "dram", "reproduce", "study"],
    ),
    ("Shell and editors", &["completions", "man", "schema", "help"]),
];

/// Width of the column of names.
const WIDTH: usize = 11;
/// Most columns of the help.
pub const COLUMNS: usize = 100;

/// The same commands without hidden commands and options, for completions: clap completes these as
/// well.
pub fn visible(command: &Command) -> Command {
    // clap keeps names for ever. This is called once, before the process ends.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut out = Command::new(name)
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|c| !c.is_hide_set()).map(visible));
    if let Some(about) = command.get_about() {
        out = out.about(about.clone());
    }
    if command.get_version().is_some() {
        out = out.version(env!("CARGO_PKG_VERSION"));
    }
    out
}

/// Columns of the terminal, found as clap finds them.
fn columns() -> usize {
    let of = |fd: BorrowedFd<'_>| {
        let size = rustix::termios::tcgetwinsize(fd).ok()?;
        Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
    };
    let (out, err, input) = (std::io::stdout(), std::io::stderr(), std::io::stdin());
    let terminal = [out.as_fd(), err.as_fd(), input.as_fd()].into_iter().find_map(of);
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(named).unwrap_or(COLUMNS).min(COLUMNS)
}

/// A text beside the names, in lines that end before the column `columns`.
fn wrapped(text: &str, columns: usize) -> String {
    /// Least width of the text, on any terminal.
    const LEAST: usize = 20;
    let indent = WIDTH + 4;
    let room = columns.saturating_sub(indent).max(LEAST);
    let (mut out, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            out.push('\n');
            out += &" ".repeat(indent);
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += length;
    }
    out
}

/// The command line with its commands in groups.
pub fn grouped(mut command: Command) -> Command {
    // The command `help` is made by this.
    command.build();
    let (heading, literal) =
        (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let (mut list, columns) = (String::new(), columns());
    for (name, commands) in GROUPS {
        let _ = writeln!(list, "{heading}{name}:{heading:#}");
        for name in commands {
            let about =
                command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(
                list,
                "  {literal}{name:WIDTH$}{literal:#}  {}",
                wrapped(&about.unwrap_or_default(), columns)
            );
        }
        list.push('\n');
    }
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} \
            {{usage}}\n\n{list}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// All commands below one.
    fn all(command: &Command) -> Vec<&Command> {
        std::iter::once(command).chain(command.get_subcommands().flat_map(all)).collect()
    }

    /// clap breaks long lines: one that is broken in the source as well would be broken twice.
    #[test]
    fn what_follows_a_help_is_in_whole_paragraphs() {
        let mut command = crate::args::command_line::Args::command();
        command.build();
        for command in all(&command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2).filter(|pair| !pair[1].is_empty()) {
                let broken = !pair[0].is_empty()
                    && !pair.iter().any(|line| line.starts_with(' '))
                    && !pair[0].ends_with(['.', ':', ')', '"']);
                assert!(!broken, "{}: {pair:?}", command.get_name());
            }
        }
    }

    #[test]
    fn texts_are_wrapped_beside_the_names() {
        let text = "Decide cores, cache and budgets, and prove that they suffice.";
        assert_eq!(wrapped(text, 100), text);
        let lines: Vec<String> = wrapped(text, 50).lines().map(str::to_owned).collect();
        let second = format!("{}and prove that they suffice.", " ".repeat(15));
        assert_eq!(lines, ["Decide cores, cache and budgets,", second.as_str()]);
        assert_eq!(wrapped("a verylongwordthatfitsnowhere b", 1).lines().count(), 3);
    }

    #[test]
    fn completions_offer_nothing_that_is_hidden() {
        let mut command = visible(&crate::args::command_line::Args::command());
        command.build();
        let hidden = all(&command)
            .into_iter()
            .any(|c| c.is_hide_set() || c.get_arguments().any(clap::Arg::is_hide_set));
        assert!(!hidden);
        assert!(
            command.find_subcommand("plan").is_some()
                && command.find_subcommand("attack").is_none()
        );
    }

    #[test]
    fn every_command_is_in_one_group_and_on_one_line() {
        let mut command = grouped(crate::args::command_line::Args::command());
        let visible =
            command.get_subcommands().filter(|c| !c.is_hide_set()).map(|c| c.get_name().to_owned());
        let mut there: Vec<String> = visible.collect();
        let mut listed: Vec<String> =
            GROUPS.iter().flat_map(|(_, names)| *names).map(|n| (*n).to_owned()).collect();
        there.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, there);
        let help = command.render_help().to_string();
        assert!(help.lines().all(|line| line.len() <= 100), "{help}");
        assert!(!help.contains("Commands:"), "{help}");
    }
}
