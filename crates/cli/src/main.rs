//! The `solocore` command.

mod args;
mod commands;
mod dask;
mod fail;
mod print;
mod progress;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::read();
    progress::handle_signals();
    match commands::run(args.command) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("solocore: {}", failure.message());
            ExitCode::from(failure.exit_code())
        }
    }
}
