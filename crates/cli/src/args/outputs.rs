//! Options that name a file to write, looked at before a command begins.
//!
//! Problem: an output that is also an input destroys it, and a file that cannot be written may show
//! after hours of work. Rule: each option that takes a path is listed here as an output or as an
//! input; a test finds one that is not. An output is refused where it is an input or another
//! output, or where no file can be written. Inputs are also the results in a directory of `report`,
//! and files that a file of TOML names, such as the platform, the profiles and the programs of a
//! system file. The look changes nothing. Does not cover: files that a plan names. Nor names that a
//! command makes up itself, such as the trace beside a profile. Directories of results are made by
//! each command before it works.

use super::plan::RESULTS;
use crate::fail::Failure;
use clap::{Arg, ArgMatches, Command};
use solocore_model::files;
use std::any::TypeId;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Options that name a file to write, or a directory of results (with the value DIR).
const OUTPUTS: &[&str] = &[
    "output",
    "out",
    "trace",
    "sched_trace",
    "trace_commands",
    "junit",
    "sarif",
    "page",
    "pages",
    "console",
    "truth",
    "svg",
    "protected_into",
];
/// Options that name a file to read or a directory, and arguments that may be one: a preset or a
/// file, a program and its arguments.
const INPUTS: &[&str] = &[
    "from",
    "plan",
    "base",
    "map",
    "parameters",
    "share",
    "merge",
    "resume",
    "directory",
    "profiles",
    "platform",
    "memory",
    "board",
    "command",
    "file",
];
/// The command that replaces its input.
const IN_PLACE: &str = "measure";
/// The command that takes directories of results for these results.
const OF_RESULTS: &str = "report";
/// Most bytes of a file that is searched for names of others.
const MOST: u64 = 1 << 20;

/// A path on the command line, or in a file that it names.
struct Named {
    /// The option or the argument, as the help spells it, or the file.
    spelt: String,
    path: PathBuf,
    written: bool,
}

/// Looks at the outputs of the command that was given.
///
/// # Errors
/// Two options name one file, or a file cannot be written.
pub fn check(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    if let Some((name, below)) = matches.subcommand() {
        return command.find_subcommand(name).map_or(Ok(()), |command| check(command, below));
    }
    refuse_directories_on_stdout(command, matches)?;
    let all = command.get_arguments().flat_map(|argument| named(argument, matches));
    let (outputs, mut inputs): (Vec<Named>, Vec<Named>) = all.partition(|name| name.written);
    if command.get_name() == IN_PLACE || outputs.is_empty() {
        inputs.clear();
    }
    let results = command.get_name() == OF_RESULTS;
    let further: Vec<Named> = inputs.iter().flat_map(|input| within(input, results)).collect();
    inputs.extend(further);
    for (at, output) in outputs.iter().enumerate() {
        let is_same = |other: &&Named| {
            identity(&output.path).is_some_and(|file| identity(&other.path) == Some(file))
        };
        let (path, spelt) = (output.path.display(), &output.spelt);
        if let Some(input) = inputs.iter().find(is_same) {
            return Err(Failure::Input(format!(
                "{path}: {spelt} would overwrite this file, which {} names as an input; give {spelt} another name",
                input.spelt
            )));
        }
        if let Some(other) = outputs.iter().take(at).find(is_same) {
            return Err(Failure::Input(format!(
                "{path}: {} and {spelt} name the same file; give each a file of its own",
                other.spelt
            )));
        }
        files::check_place(&output.path)?;
    }
    files::want(outputs.into_iter().map(|output| output.path).collect());
    Ok(())
}

/// A directory has no place on standard output, and `-` is hardly meant as the name of one.
fn refuse_directories_on_stdout(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let mut directories = command.get_arguments().filter(|a| is_written(a) && is_directory(a));
    let on_stdout = |argument: &&Arg| {
        let words = matches.try_get_raw(argument.get_id().as_str()).ok().flatten();
        words.into_iter().flatten().any(|word| word == OsStr::new("-"))
    };
    directories.find(on_stdout).map_or(Ok(()), |argument| {
        let spelt = spelt(argument);
        Err(Failure::Input(format!(
            "-: {spelt} names a directory, and none can go to standard output; name a directory"
        )))
    })
}

/// The paths of an argument that names files.
fn named(argument: &Arg, matches: &ArgMatches) -> Vec<Named> {
    let id = argument.get_id().as_str();
    let written = is_output(argument);
    let read = INPUTS.contains(&id) || (argument.is_positional() && is_path(argument));
    if !written && !read {
        return Vec::new();
    }
    // The shell's rule: a program without a slash is looked for in PATH.
    let elsewhere = |(at, word): &(usize, &OsStr)| {
        argument.is_last_set() && *at == 0 && !word.as_encoded_bytes().contains(&b'/')
    };
    let stdin = |word: &OsStr| !written && word == OsStr::new("-");
    let words = matches.try_get_raw(id).ok().flatten();
    let words = words.into_iter().flatten().enumerate().filter(|word| !elsewhere(word));
    words
        .filter(|(_, word)| !stdin(word))
        .map(|(_, word)| Named { spelt: spelt(argument), path: PathBuf::from(word), written })
        .collect()
}

/// Files that are read for an input, besides the input itself: with `results` those in a directory,
/// and the files that a file of TOML names, from its directory on.
fn within(input: &Named, results: bool) -> Vec<Named> {
    let of = |spelt: String, path: PathBuf| Named { spelt, path, written: false };
    if results {
        let all = RESULTS.iter().map(|name| input.path.join(name));
        return all
            .filter(|path| path.is_file())
            .map(|path| of(input.spelt.clone(), path))
            .collect();
    }
    let is_toml = input.path.extension().is_some_and(|extension| extension == "toml");
    let small = |file: &std::fs::Metadata| file.is_file() && file.len() <= MOST;
    if !is_toml || !std::fs::metadata(&input.path).is_ok_and(|file| small(&file)) {
        return Vec::new();
    }
    let text = std::fs::read_to_string(&input.path).unwrap_or_default();
    // The command itself says what is wrong with the file.
    let table = toml::from_str::<toml::Table>(&text).unwrap_or_default();
    let directory = files::parent_dir(&input.path);
    let paths = table.values().flat_map(strings).map(|text| directory.join(text));
    let spelt = || input.path.display().to_string();
    paths.filter(|path| path.is_file()).map(|path| of(spelt(), path)).collect()
}

/// All strings in a value.
fn strings(value: &toml::Value) -> Vec<&str> {
    match value {
        toml::Value::String(text) => vec![text],
        toml::Value::Array(list) => list.iter().flat_map(strings).collect(),
        toml::Value::Table(table) => table.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

/// Whether it names a file to write.
fn is_output(argument: &Arg) -> bool {
    is_written(argument) && !is_directory(argument)
}

/// Whether it names a file to write, or a directory of results.
fn is_written(argument: &Arg) -> bool {
    !argument.is_positional() && OUTPUTS.contains(&argument.get_id().as_str())
}

fn is_directory(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().any(|name| name.as_str() == "DIR")
}

fn is_path(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == TypeId::of::<PathBuf>()
}

/// The option, or the argument's name in the help.
fn spelt(argument: &Arg) -> String {
    let name = argument.get_value_names().and_then(|names| names.first());
    let name = || name.map_or_else(|| argument.get_id().to_string(), ToString::to_string);
    argument.get_long().map_or_else(name, |long| format!("--{long}"))
}

/// What two names of one file share.
#[derive(PartialEq)]
enum Identity {
    Stdout,
    /// Device and number of a file.
    There(u64, u64),
    /// Path of a file that is not there yet.
    New(PathBuf),
}

/// The file behind a name; none for devices, pipes and directories.
fn identity(path: &Path) -> Option<Identity> {
    if path == Path::new("-") {
        return Some(Identity::Stdout);
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Some(Identity::There(found.dev(), found.ino())),
        Ok(_) => None,
        Err(_) => {
            let place = files::place_of(path).ok()?;
            let dir = files::parent_dir(&place).canonicalize().ok()?;
            Some(Identity::New(dir.join(place.file_name()?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// All arguments of the commands below one, each with its command.
    fn all(command: &Command) -> Vec<(&Command, &Arg)> {
        let own = command.get_arguments().map(|argument| (command, argument));
        own.chain(command.get_subcommands().flat_map(all)).collect()
    }

    #[test]
    fn every_option_of_a_path_is_an_output_or_an_input() {
        let mut command = crate::args::command_line::Args::command();
        command.build();
        let all = all(&command);
        let options = || all.iter().filter(|(_, a)| !a.is_positional() && is_path(a));
        for (command, argument) in options() {
            let id = argument.get_id().as_str();
            let of = format!("`{}` --{id}", command.get_name());
            let lists = (OUTPUTS.contains(&id), INPUTS.contains(&id));
            assert!(lists.0 != lists.1, "{of}: it must be in one of OUTPUTS and INPUTS");
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(lists.0 || !help.starts_with("Write"), "{of}: an output among the inputs");
        }
        for id in OUTPUTS.iter().chain(INPUTS) {
            assert!(all.iter().any(|(_, a)| a.get_id().as_str() == *id), "{id}: no such option");
        }
    }
}
