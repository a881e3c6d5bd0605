//! The proposed tasks: names, periods, and measured times.
//!
//! Problem: a user has programs, and a plan needs tasks with periods.
//! Rule: a task is named after its program. Its period is ten times its time alone in the profile,
//! rounded up to 1, 2 or 5 times a power of ten of milliseconds. So ten tasks of such periods ask
//! for one core.
//! Does not cover: the true period; the file says that the user must set it.

use crate::fail::Failure;
use crate::table::ms;
use solocore_model::{Platform, Profile, Time};
use solocore_planner::Demand;
use std::path::{Path, PathBuf};

/// Ratio of a proposed period to the time alone.
const TIMES: u64 = 10;
/// The shortest period that is proposed.
const SHORTEST: Time = Time::from_ns(1_000_000);

/// A task for the file.
#[derive(Debug)]
pub struct Proposal {
    pub name: String,
    pub command: Vec<String>,
    pub found: Found,
}

/// Knowledge of a program.
#[derive(Debug)]
pub enum Found {
    /// There is no profile, as none was asked for.
    Nothing,
    /// Time of a job alone, and notes on it.
    Alone { time: Time, notes: Vec<String> },
    /// Reason why there is no profile.
    Failed(String),
}

impl Found {
    /// The facts of a profile on a platform; the period may be given.
    pub fn of(profile: Profile, platform: &Platform, asked: Option<Time>) -> Self {
        let mut notes = notes(&profile, platform);
        let demand = Demand::Profiled { path: PathBuf::new(), profile: Box::new(profile) };
        let time = Time::from_ps(demand.alone(platform).0);
        if asked.is_some_and(|period| period < time) {
            let alone = ms(Some(time.ns_ceil()));
            notes.push(format!("one job takes {alone} ms, more than its period; raise --period"));
        }
        Self::Alone { time, notes }
    }

    /// The facts of a failure; a failure that ends the whole command is passed on.
    pub fn failed(failure: Failure) -> Result<Self, Failure> {
        match failure {
            Failure::Input(why) | Failure::Machine(why) => Ok(Self::Failed(why)),
            Failure::Interrupted | Failure::Stopped(_) => Err(failure),
        }
    }
}

/// Gaps of the profile.
fn notes(profile: &Profile, platform: &Platform) -> Vec<String> {
    let mut notes = Vec::new();
    if profile.isa != platform.isa {
        notes.push(format!(
            "it is a program for {}, and {} has {} cores; build it for these",
            profile.isa, platform.name, platform.isa
        ));
    }
    if profile.children > 0 {
        let n = profile.children;
        notes.push(format!("it is {n} child process(es) as well, one after the other on its core"));
    }
    notes
}

/// The period proposed for a job that takes `alone`.
pub fn period(alone: Time) -> Time {
    let least = alone.ps().saturating_mul(TIMES);
    let mut decade = SHORTEST.ps();
    loop {
        let nice = [1, 2, 5].into_iter().map(|n| decade.saturating_mul(n)).find(|&p| p >= least);
        if let Some(nice) = nice {
            return Time::from_ps(nice);
        }
        decade = decade.saturating_mul(10);
    }
}

/// A name for each command: that of its program, with a number where several have the same.
pub fn names(commands: &[Vec<String>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for command in commands {
        let program = program(command);
        let numbered = (2..).map(|n| format!("{program}-{n}"));
        let mut free = std::iter::once(program.clone()).chain(numbered);
        names.extend(free.find(|name| !names.contains(name)));
    }
    names
}

/// The program's name without characters that need quotes on a command line.
fn program(command: &[String]) -> String {
    let path = command.first().map(Path::new).and_then(Path::file_name);
    let plain = |c: char| if c.is_alphanumeric() || "-_.+".contains(c) { c } else { '-' };
    let name: String = path.unwrap_or_default().to_string_lossy().chars().map(plain).collect();
    if name.is_empty() { "task".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_round_and_long_enough() {
        for (alone, expect) in [
            ("0 ps", "1 ms"),
            ("100 us", "1 ms"),
            ("100.001 us", "2 ms"),
            ("200 us", "2 ms"),
            ("201 us", "5 ms"),
            ("501 us", "10 ms"),
            ("41.2 ms", "500 ms"),
            ("99 ms", "1 s"),
            ("1.5 s", "20 s"),
        ] {
            let alone: Time = alone.parse().unwrap();
            assert_eq!(period(alone).to_string(), expect, "{alone}");
        }
        assert_eq!(period(Time::from_ps(u64::MAX)), Time::from_ps(u64::MAX));
    }

    #[test]
    fn names_are_unique() {
        let of = |programs: &[&str]| {
            let commands: Vec<Vec<String>> =
                programs.iter().map(|p| vec![(*p).to_owned(), "x".to_owned()]).collect();
            names(&commands)
        };
        assert_eq!(of(&["xz", "/usr/bin/xz", "xz"]), ["xz", "xz-2", "xz-3"]);
        assert_eq!(of(&["xz-2", "xz", "./xz", "xz-2"]), ["xz-2", "xz", "xz-3", "xz-2-2"]);
        assert_eq!(of(&["./a b=c", "python3.11", "/", "ü"]), ["a-b-c", "python3.11", "task", "ü"]);
    }
}
