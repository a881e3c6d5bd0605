//! The commands of `solocore --help`, grouped by their purpose.
//!
//! Rule: clap has one list of commands without headings, so the list is written here, into the
//! help's template. A test compares it with clap's commands.

use clap::Command;
use std::fmt::Write as _;

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
        "Laboratory: studies and papers, which plan and run no system",
        &["analyze", "dram", "reproduce", "study"],
    ),
    ("Shell and editors", &["completions", "man", "schema", "help"]),
];

/// Width of the column of names.
const WIDTH: usize = 11;

/// The command line with its commands in groups.
pub fn grouped(mut command: Command) -> Command {
    // The command `help` is made by this.
    command.build();
    let (heading, literal) =
        (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let mut list = String::new();
    for (name, commands) in GROUPS {
        let _ = writeln!(list, "{heading}{name}:{heading:#}");
        for name in commands {
            let about =
                command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(
                list,
                "  {literal}{name:WIDTH$}{literal:#}  {}",
                about.unwrap_or_default()
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
        let mut command = crate::args::Args::command();
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
    fn every_command_is_in_one_group_and_on_one_line() {
        let mut command = grouped(crate::args::Args::command());
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
