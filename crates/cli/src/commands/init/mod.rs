//! `solocore init`: a first system file.
//!
//! Problem: the way from a program to a first plan should take a minute, not a manual.
//! Rule: the machine is described, each program is profiled, and a file is written that
//! `solocore plan` takes as it is. All is checked before the first program runs, the whole file is
//! parsed before it is written, and both files are written or neither.
//! Does not cover: partitions, levels and VCPUs; the documents of each have an example.

mod place;
mod steps;
mod tasks;
mod text;
mod words;

use crate::args::init::InitArgs;
use crate::commands::platform;
use crate::commands::profiles::{Profiles, Wanted};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use place::Place;
use solocore_model::platform::{PRESETS, Platform};
use solocore_model::{System, files};
use solocore_profile::Program;
use std::path::Path;
use std::process::ExitCode;
use steps::Outcome;
use tasks::{Found, Proposal};

/// Writes the files and prints the next steps; exit code 1 if a program could not be profiled.
pub fn run(args: &InitArgs) -> Result<ExitCode, Failure> {
    let place = Place::of(args)?;
    let commands = commands(args, &place)?;
    let board = Board::of(args, &place)?;
    let tasks = proposals(args, &place, &board.platform, commands)?;
    let machine = text::Machine { key: &board.key, what: board.what, here: board.file.is_some() };
    let text = text::system(&machine, &tasks, args.period);
    System::parse_for(&place.system, &text, &board.platform)?;
    if stopped() {
        return Err(Failure::Interrupted);
    }
    place.write(&text, board.file.as_deref(), args.force)?;
    for task in &tasks {
        warn(task);
    }
    let failed = tasks.iter().filter(|t| matches!(t.found, Found::Failed(_))).count();
    let count = match tasks.len() - failed {
        0 => "an example task".to_owned(),
        1 => "1 task".to_owned(),
        n => format!("{n} tasks"),
    };
    let outcome = Outcome {
        profiles: args.profiling.profiles.as_deref(),
        here: board.file.is_some(),
        example: tasks.len() == failed,
    };
    let steps = steps::next(&place, &outcome);
    print(&format!("{}{}: {count}\n{steps}", board.summary, place.system.display()))?;
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// The machine to plan for.
struct Board {
    platform: Platform,
    /// Name of the machine in the system file.
    key: String,
    /// Description of the machine, for a comment.
    what: &'static str,
    /// The text of machine.toml, if it is to be written.
    file: Option<String>,
    summary: String,
}

impl Board {
    fn of(args: &InitArgs, place: &Place) -> Result<Self, Failure> {
        match &args.platform {
            Some(name) => Self::named(name, place),
            None => Self::detected(place),
        }
    }

    fn named(name: &str, place: &Place) -> Result<Self, Failure> {
        let platform = Platform::find(name, Path::new("."))?;
        let preset = PRESETS.iter().any(|(preset, _)| *preset == name);
        let here = files::parent_dir(&place.system) == Path::new(".");
        let key = if preset || here { name.to_owned() } else { absolute(name) };
        let what = if preset {
            "a board that comes with solocore (`solocore platform list`)"
        } else {
            "a platform file"
        };
        Ok(Self { platform, key, what, file: None, summary: String::new() })
    }

    fn detected(place: &Place) -> Result<Self, Failure> {
        let found = platform::this_machine(None).map_err(with_platform)?;
        for note in &found.notes {
            eprintln!("solocore: note: {}", note.line());
        }
        Ok(Self {
            key: "machine.toml".to_owned(),
            what: "this machine, as `solocore platform detect` sees it",
            file: Some(solocore_machine::file(&found)),
            summary: platform::summary(&place.machine(), &found),
            platform: found.platform,
        })
    }
}

/// The failure for a machine that cannot be described.
fn with_platform(failure: Failure) -> Failure {
    let more = |text| format!("{text}; name a preset or that file with --platform");
    match failure {
        Failure::Input(text) => Failure::Input(more(text)),
        Failure::Machine(text) => Failure::Machine(more(text)),
        Failure::Interrupted | Failure::Stopped(_) => failure,
    }
}

/// A path with the same meaning in another directory.
fn absolute(path: &str) -> String {
    Path::new(path).canonicalize().map_or_else(|_| path.to_owned(), |p| p.display().to_string())
}

/// The words of each command. Its program must exist if it is to be profiled.
fn commands(args: &InitArgs, place: &Place) -> Result<Vec<Vec<String>>, Failure> {
    let dir = files::parent_dir(&place.system);
    let checked = |line: &String| {
        let wrong =
            |what: String| Failure::Input(format!("program \"{}\": {what}", line.escape_debug()));
        let words = words::split(line).map_err(wrong)?;
        if !args.no_profile {
            Program::find(&words[0], dir).map_err(wrong)?;
        }
        Ok(words)
    };
    args.programs.iter().map(checked).collect()
}

/// A task for each command.
fn proposals(
    args: &InitArgs,
    place: &Place,
    platform: &Platform,
    commands: Vec<Vec<String>>,
) -> Result<Vec<Proposal>, Failure> {
    let dir = files::parent_dir(&place.system);
    let names = tasks::names(&commands);
    let mut profiles = Profiles::new(&args.profiling);
    let mut propose = |(name, command): (String, Vec<String>)| {
        let found = if args.no_profile {
            Found::Nothing
        } else {
            let wanted =
                Wanted { task: &name, platform, core: None, command: &command, inputs: &[], dir };
            match profiles.get(wanted) {
                Ok(kept) => Found::of(kept.profile, platform, args.period),
                Err(failure) => Found::failed(failure)?,
            }
        };
        Ok(Proposal { name, command, found })
    };
    names.into_iter().zip(commands).map(&mut propose).collect()
}

/// Prints notes on a task that the user must know.
fn warn(task: &Proposal) {
    let name = &task.name;
    match &task.found {
        Found::Nothing => {}
        Found::Alone { notes, .. } => {
            notes.iter().for_each(|note| eprintln!("solocore: note: {name}: {note}"));
        }
        Found::Failed(why) => {
            eprintln!("solocore: note: {name}: {why}; the system file has its task as a comment");
        }
    }
}
