//! Options that the user has typed, as opposed to those that have their defaults.
//!
//! Problem: an option without an effect in the chosen mode does nothing, silently. Rule: an option
//! acts, or the command refuses it with one line that names it. Does not cover: options that clap
//! refuses by itself (`requires`, `conflicts_with`).

use crate::fail::Failure;
use clap::parser::ValueSource;

/// Options on the command line of one command: each with its id and its spelling.
#[derive(Clone, Debug, Default)]
pub struct Given(Vec<(String, String)>);

impl Given {
    /// The options of a command that `matches` has from the command line.
    pub fn of(command: &clap::Command, matches: &clap::ArgMatches) -> Self {
        let typed = |argument: &&clap::Arg| {
            let source = matches.value_source(argument.get_id().as_str());
            source == Some(ValueSource::CommandLine)
        };
        let spelt = |argument: &clap::Arg| {
            let id = argument.get_id().to_string();
            let long = argument.get_long().map(|long| format!("--{long}"));
            (id.clone(), long.unwrap_or(id))
        };
        Self(command.get_arguments().filter(typed).map(spelt).collect())
    }

    /// The first of these options that was given, as it is spelt.
    pub fn first(&self, options: &[&[&str]]) -> Option<&str> {
        let mut options = options.iter().copied().flatten();
        let found = options.find_map(|id| self.0.iter().find(|(given, _)| given == id));
        found.map(|(_, option)| option.as_str())
    }

    /// The first option that was given beside these, as it is spelt.
    pub fn beside(&self, options: &[&str]) -> Option<&str> {
        let found = self.0.iter().find(|(given, _)| !options.contains(&given.as_str()));
        found.map(|(_, option)| option.as_str())
    }

    /// Refuses the first of these options that was given, with the reason.
    ///
    /// # Errors
    /// One of them was given.
    pub fn refuse(&self, options: &[&[&str]], why: &str) -> Result<(), Failure> {
        let refused = |option| Err(Failure::Input(format!("{option} {why}")));
        self.first(options).map_or(Ok(()), refused)
    }
}
