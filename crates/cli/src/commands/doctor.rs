//! `solocore doctor`: what this machine can do for `solocore run`, what it lacks, and how to get
//! it.

use crate::args::{DoctorArgs, Format, RunArgs};
use crate::commands::promises;
use crate::commands::run::{prepared, read_plan};
use crate::fail::Failure;
use crate::print::print;
use serde::Serialize;
use solocore_linux::{doctor, host::machine};
use solocore_model::files;
use solocore_model::plan::Answer;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report {
    format: &'static str,
    /// Can `solocore run` run?
    regulates: bool,
    /// Does an event count accesses to memory, so that a plan's bounds can hold?
    counts_memory: bool,
    findings: Vec<doctor::Finding>,
    /// Who would keep the plan's promises.
    #[serde(skip_serializing_if = "Option::is_none")]
    promises: Option<Vec<Answer>>,
}

/// Looks, tests and tells; exit code 1 if no plan can be regulated here.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let findings = doctor::examine(args.event.as_deref(), &machine::cpuinfo())?;
    let regulates = doctor::regulates(&findings);
    let counts_memory = doctor::counts_memory(&findings);
    let promises = args.plan.as_deref().map(promised).transpose()?;
    let open = promises.iter().flatten().any(|a| a.kept_by.is_none());
    let code = ExitCode::from(u8::from(!regulates || open));
    if args.format == Format::Json {
        print(&files::to_json(&Report {
            format: "solocore-doctor/1",
            regulates,
            counts_memory,
            findings,
            promises,
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
    out += &promises::answered(promises.as_deref().unwrap_or_default());
    print(&out)?;
    Ok(code)
}

/// Who would keep a plan's promises here, if all of it were started.
fn promised(path: &Path) -> Result<Vec<Answer>, Failure> {
    let plan = read_plan(path)?;
    let mut words = vec![OsString::from("run"), path.into()];
    if plan.tasks.iter().any(|t| t.command.is_some()) {
        words.push("--start".into());
    }
    if plan.levels().is_some() {
        words.extend(["--scheduler".into(), "levels".into()]);
    }
    let mut daemon = prepared(&RunArgs::of(&words)?)?;
    let (preview, refused) = daemon.preview();
    if let Some(refused) = refused.filter(|_| preview.promises.is_empty()) {
        return Err(refused.into());
    }
    Ok(preview.promises)
}
