//! `solocore top`: a running `solocore run`, on a screen of its own, or as a table a look.

mod levels;
#[cfg(feature = "screen")]
mod screen;
mod since;
mod tables;

use crate::args::{Format, TopArgs};
use crate::fail::Failure;
use crate::print::{print, print_if_read};
use crate::progress::stopped;
use solocore_linux::host::status;
use solocore_model::files;
use solocore_model::run::RunResult;
#[cfg(feature = "screen")]
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Prints looks until it is told to stop, or the daemon ends.
pub fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let every = Duration::from_nanos(args.every.ns_ceil());
    if every < Duration::from_millis(10) {
        return Err(Failure::Input(format!(
            "--every {} is below 10 ms; give for example \"1 s\"",
            args.every
        )));
    }
    let mut before = look()?;
    if args.format == Format::Json {
        print(&files::to_json(&before))?;
        return Ok(ExitCode::SUCCESS);
    }
    #[cfg(feature = "screen")]
    if args.count.is_none() && !args.plain && screen_is_there() {
        screen::run(look, before, every)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut looks = 0;
    while args.count.is_none_or(|count| looks < count) {
        wait(every);
        if stopped() {
            break;
        }
        let now = look()?;
        if !print_if_read(&format!("{}\n", tables::shown(&before, &now)))? {
            break;
        }
        before = now;
        looks += 1;
    }
    Ok(ExitCode::SUCCESS)
}

/// Keys come from a terminal, and the picture goes to one that can move its cursor.
#[cfg(feature = "screen")]
fn screen_is_there() -> bool {
    let able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    able && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

fn wait(time: Duration) {
    let since = Instant::now();
    while !stopped() && since.elapsed() < time {
        std::thread::sleep((time - since.elapsed().min(time)).min(Duration::from_millis(50)));
    }
}

fn look() -> Result<RunResult, Failure> {
    let text = status::ask()?;
    let run: RunResult = serde_json::from_str(&text).map_err(|e| {
        Failure::Machine(format!(
            "this solocore cannot read the answer of the running one: {e}; use the same version"
        ))
    })?;
    Ok(run)
}
