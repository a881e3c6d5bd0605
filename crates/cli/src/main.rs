//! The `solocore` command.

mod args;
mod commands;
mod dask;
mod fail;
mod print;
mod progress;
mod table;

use solocore_linux::host::{keeper, said::say};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::read();
    progress::handle_signals();
    let code = match commands::run(args.command) {
        Ok(code) => code,
        Err(failure) => {
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
