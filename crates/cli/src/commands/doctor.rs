//! `solocore doctor`: the abilities of this machine for `solocore run`, its gaps, and the remedies.

use crate::args::{DoctorArgs, Format, RunArgs};
use crate::commands::promises;
use crate::commands::run::prepared;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::computing;
use schemars::JsonSchema;
use serde::Serialize;
use solocore_linux::{doctor, host::machine};
use solocore_model::plan::{Answer, Subject};
use solocore_model::{Plan, files};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The findings on this machine.
#[derive(Serialize, JsonSchema)]
pub(super) struct Report {
    /// `solocore-doctor/1`.
    format: &'static str,
    /// Whether `solocore run` can run.
    regulates: bool,
    /// Whether an event counts accesses to memory, so that a plan's bounds can hold.
    counts_memory: bool,
    /// Findings, in the order of the text.
    findings: Vec<doctor::Finding>,
    /// The parts that would keep the plan's promises.
    #[serde(skip_serializing_if = "Option::is_none")]
    promises: Option<Vec<Answer>>,
}

/// Examines and prints; exit code 1 if no plan can be regulated here.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let plan = computing(|| args.plan.as_deref().map(Plan::load).transpose())?;
    let types = plan.as_ref().map_or(&[][..], |plan| &plan.platform.core_types);
    let findings = doctor::examine(args.event.as_deref(), &machine::cpuinfo(), types)?;
    let regulates = doctor::regulates(&findings);
    let counts_memory = doctor::counts_memory(&findings);
    let named = args.plan.as_deref().zip(plan);
    let promises =
        named.map(|(path, plan)| promised(path, plan, args.event.as_deref())).transpose()?;
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
    findings.iter().for_each(|f| out += &line(f));
    out += match (regulates, counts_memory) {
        (false, _) => "\nplans cannot be regulated on this machine\n",
        (true, false) => {
            "\nplans can be tried on this machine with --event page-faults; without a counter of \
                accesses to memory, no bound of a plan holds\n"
        }
        (true, true) => "\nplans can be regulated on this machine\n",
    };
    let answers = promises.as_deref().unwrap_or_default();
    out += &promises::answered(answers);
    out += &weakened(&findings, answers);
    print(&out)?;
    Ok(code)
}

/// A finding, with its remedy below.
fn line(f: &doctor::Finding) -> String {
    let mark = match (f.unknown, f.good) {
        (true, _) => "?  ",
        (false, true) => "yes",
        (false, false) => "no ",
    };
    let names: Vec<&str> = f.touches.iter().map(|subject| subject.name()).collect();
    let risk = if f.good || names.is_empty() {
        String::new()
    } else {
        format!(" (promises: {})", names.join(", "))
    };
    let command = f.command.as_ref().map(|line| format!("       {line}\n"));
    format!("{mark}  {}: {}{risk}\n{}", f.what, f.found, command.unwrap_or_default())
}

/// Conditions that are not good, by the promises of a plan that depend on them.
fn weakened(findings: &[doctor::Finding], answers: &[Answer]) -> String {
    let subjects: BTreeSet<Subject> = answers.iter().map(|a| a.promise.subject).collect();
    let line = |subject: &Subject| {
        let touching = findings.iter().filter(|f| !f.good && f.touches.contains(subject));
        let names: Vec<&str> = touching.map(|f| f.what.as_str()).collect();
        (!names.is_empty()).then(|| format!("  {}: {}\n", subject.name(), names.join(", ")))
    };
    let lines: String = subjects.iter().filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("\nthis machine weakens (see above):\n{lines}") }
}

/// The parts that would keep a plan's promises here, if all of it were started and this event
/// counted accesses.
fn promised(path: &Path, plan: Plan, event: Option<&str>) -> Result<Vec<Answer>, Failure> {
    let mut words = vec![OsString::from("run"), path.into()];
    words.extend(event.into_iter().flat_map(|event| ["--event", event]).map(OsString::from));
    if plan.tasks.iter().any(|t| t.command.is_some()) {
        words.push("--start".into());
    }
    if plan.levels().is_some() {
        words.extend(["--scheduler".into(), "levels".into()]);
    }
    let mut daemon = prepared(&RunArgs::of(&words)?, plan)?;
    let (preview, refused) = daemon.preview();
    if let Some(refused) = refused.filter(|_| preview.promises.is_empty()) {
        return Err(refused.into());
    }
    Ok(preview.promises)
}
