//! `solocore doctor`: what this machine can do for `solocore run`, what it lacks, and how to get
//! it.

use crate::args::{DoctorArgs, Format};
use crate::fail::Failure;
use crate::print::print;
use serde::Serialize;
use solocore_linux::{doctor, host::machine};
use solocore_model::files;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report {
    format: &'static str,
    /// Can `solocore run` run?
    regulates: bool,
    /// Does an event count accesses to memory, so that a plan's bounds can hold?
    counts_memory: bool,
    findings: Vec<doctor::Finding>,
}

/// Looks, tests and tells; exit code 1 if no plan can be regulated here.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let findings = doctor::examine(args.event.as_deref(), &machine::cpuinfo())?;
    let regulates = doctor::regulates(&findings);
    let counts_memory = doctor::counts_memory(&findings);
    let code = ExitCode::from(u8::from(!regulates));
    if args.format == Format::Json {
        print(&files::to_json(&Report {
            format: "solocore-doctor/1",
            regulates,
            counts_memory,
            findings,
        }))?;
        return Ok(code);
    }
    let mut out = String::new();
    for f in &findings {
        let mark = if f.good { "yes" } else { "no " };
        out += &format!("{mark}  {}: {}\n", f.what, f.found);
    }
    out += match (regulates, counts_memory) {
        (false, _) => "\nplans cannot be regulated on this machine\n",
        (true, false) => {
            "\nplans can be tried on this machine with --event page-faults; without a counter of \
                accesses to memory, no bound of a plan holds\n"
        }
        (true, true) => "\nplans can be regulated on this machine\n",
    };
    print(&out)?;
    Ok(code)
}
