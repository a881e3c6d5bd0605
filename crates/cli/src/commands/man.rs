//! `solocore man`: manual pages, made of the same text as `--help`.

use crate::args::command_line::Args;
use crate::fail::Failure;
use crate::print::print;
use clap::{Command, CommandFactory};
use solocore_model::files;
use std::path::Path;
use std::process::ExitCode;

/// Prints one page, or writes all.
///
/// # Errors
/// There is no such command, or the directory cannot be written to.
pub fn run(names: &[String], output: Option<&Path>) -> Result<ExitCode, Failure> {
    if let Some(dir) = output {
        std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(Args::command(), dir))
            .map_err(|e| files::unwritten(dir, e))?;
    } else {
        // Printed as a whole: a pipe may be closed early.
        print(&String::from_utf8_lossy(&page(names)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(names: &[String]) -> Result<Vec<u8>, Failure> {
    let mut all = Args::command().disable_help_subcommand(true);
    all.build();
    let mut command: &Command = &all;
    for name in names {
        command = command.find_subcommand(name).ok_or_else(|| {
            Failure::Input(format!(
                "`{}` has no command `{name}`; `solocore help` lists them",
                command.get_display_name().unwrap_or("solocore").replace('-', " ")
            ))
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .render(&mut page)
        .map_err(|e| Failure::Machine(format!("a page cannot be made: {e}; report it")))?;
    Ok(page)
}
