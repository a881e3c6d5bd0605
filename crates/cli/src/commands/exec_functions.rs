//! `solocore exec --lock-function`: functions of an unmodified program hold the bandwidth lock.
//!
//! Rule: as for `--lock`, a running solocore gives the page, or this process regulates for as long
//! as the program takes. Probes write the page (`solocore_linux::clients::functions`), so this
//! process stays beside the program, and reports the number of their calls at the end.
//! Does not cover: functions of libraries, and those that the compiler inlined everywhere.

use crate::args::ExecArgs;
use crate::commands::exec_start::{beside, cannot_run, program, say_unused};
use crate::fail::Failure;
use crate::progress::asked;
use solocore_linux::clients::Sections;
use solocore_linux::clients::functions::{Calls, Function};
use solocore_linux::daemon::wait_for;
use solocore_linux::host::machine;
use solocore_space::program::find;
use std::process::ExitCode;

/// Runs the program; its exit code.
pub fn run(args: &ExecArgs) -> Result<ExitCode, Failure> {
    let file = find(&args.command[0])?;
    let functions = args.lock_functions.iter().map(|name| Function::find(&file, name));
    let functions = functions.collect::<Result<Vec<Function>, _>>()?;
    machine::check_privileges()?;
    machine::check_numbers()?;
    let Some(sections) = Sections::of(&functions)? else { return beside(args) };
    say_unused(args);
    if let Some(core) = args.core {
        machine::keep_on(core)?;
    }
    let child = program(args).spawn().map_err(|error| cannot_run(args, &error))?;
    let code = wait_for(child, asked)?;
    eprintln!("solocore: note: {}", described(&args.lock_functions, sections.seen()));
    Ok(ExitCode::from(code))
}

fn described(names: &[String], calls: Calls) -> String {
    let us = |ns: u64| ns as f64 / 1000.0;
    let mut out = format!(
        "{}: {} sections under the lock, {:.1} us in all, the longest {:.1} us",
        names.join(", "),
        calls.made,
        us(calls.sum_ns),
        us(calls.longest_ns)
    );
    if calls.nested > 0 {
        out += &format!("; {} calls within them", calls.nested);
    }
    if calls.abandoned > 0 {
        out += &format!("; {} left without a return", calls.abandoned);
    }
    out
}
