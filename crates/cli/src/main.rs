//! The `solocore` command.

/// In the place of the standard library's, which panics where stderr takes nothing (`2>&1 | head`).
/// It stands before all modules, and so holds in all of them.
macro_rules! eprintln {
    ($($text:tt)*) => { solocore_linux::host::said::say(format_args!($($text)*)) };
}

mod args;
mod commands;
mod dask;
mod fail;
mod print;
mod progress;
mod table;

use fail::Failure;
use solocore_linux::host::{keeper, said::say};
use solocore_model::files;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::command_line::Args::read();
    progress::handle_signals();
    let code = match args.and_then(|args| commands::run(args.command)) {
        Ok(code) => code,
        Err(failure) => {
            // However the error of an input or an output that was given up is worded.
            let failure = if files::gave_up() { Failure::Interrupted } else { failure };
            say(format_args!("solocore: {}", failure.message()));
            ExitCode::from(failure.exit_code())
        }
    };
    if keeper::all_put_back() {
        return code;
    }
    // Whatever became of the work: the machine is not as before.
    say("solocore: not everything could be put back (see above); `solocore restore` tries again");
    ExitCode::from(3)
}
