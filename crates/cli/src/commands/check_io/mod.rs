//! `solocore check-io`: checks that a table keeps all rules of its instance.
//!
//! Problem: a solver that errs would pass a check that errs the same way. Rule: written from the
//! definition (single-core-equivalence, section 2.4) by unrolling the hyperperiod of each resource,
//! with no code of the solver; only the reader of the instance file is shared. Durations, margins
//! and resources of activities are computed again.

mod execute;
mod expected;
mod reading;
mod unroll;
mod violation;

use crate::args::{CheckIoArgs, Format};
use crate::fail::Failure;
use crate::print::print;
use expected::Slot;
use serde_json::json;
use solocore_model::system::Scheme;
use solocore_model::{Plan, System, WindowsInput, files};
use std::process::ExitCode;
use violation::{Effort, Violation};

/// Checks; exit code 1 at a violation.
pub fn run(args: &CheckIoArgs) -> Result<ExitCode, Failure> {
    let instance = instance_of(args)?;
    let slots = reading::slots(&args.table, &instance)?;
    let mut effort = Effort::default();
    let mut found = expected::pinned(&instance, &slots);
    found.extend(expected::chains(&instance, &slots));
    found.extend(unroll::overlaps(&slots, &mut effort)?);
    if found.is_empty() && args.executions > 0 {
        found.extend(execute::executions(&instance, &slots, args.executions, args.seed)?);
    }
    found.sort_by(|a, b| (a.time_ns, &a.message).cmp(&(b.time_ns, &b.message)));
    match args.format {
        Format::Json => print(&files::to_json(&document(found.first(), found.len(), effort)))?,
        Format::Text => print(&text(args, &slots, found.first(), effort))?,
    }
    Ok(ExitCode::from(u8::from(!found.is_empty())))
}

/// The instance, or that of a system file; values that such a file leaves to the planner are taken
/// from the plan.
fn instance_of(args: &CheckIoArgs) -> Result<WindowsInput, Failure> {
    let text = files::read_text(&args.instance)?;
    if !toml::from_str::<toml::Table>(&text).is_ok_and(|t| t.contains_key("platform")) {
        return Ok(WindowsInput::parse(&args.instance, &text)?);
    }
    let bad =
        |path: &std::path::Path, what: &str| Failure::Input(format!("{}: {what}", path.display()));
    let Scheme::Windows(mut instance) = System::parse(&args.instance, &text)?.scheme else {
        return Err(bad(
            &args.instance,
            "is a system without partitions; there is no table to check",
        ));
    };
    let plan: Plan = files::read_json(&args.table).map_err(|e| {
        Failure::Input(format!("{e}; with a system file, give the plan that was made from it"))
    })?;
    let Some(windows) = plan.windows().filter(|s| !s.table.is_empty()) else {
        return Err(bad(
            &args.table,
            "is not a plan with a time table; make one with `solocore plan`",
        ));
    };
    for p in instance.partitions.iter_mut().filter(|p| p.duration_ns == 0) {
        p.duration_ns =
            windows.partitions.iter().find(|q| q.name == p.name).map_or(0, |q| q.duration_ns);
    }
    Ok(*instance)
}

fn document(first: Option<&Violation>, count: usize, effort: Effort) -> serde_json::Value {
    let violation = first.map(
        |v| json!({"rule": v.rule, "time_ns": v.time_ns, "lines": v.lines, "message": v.message}),
    );
    json!({
        "holds": first.is_none(),
        "violation": violation,
        "violations": count,
        "instances": effort.instances,
        "resources_by_pairs": effort.long,
    })
}

fn text(args: &CheckIoArgs, slots: &[Slot], first: Option<&Violation>, effort: Effort) -> String {
    if let Some(v) = first {
        let line = v.lines.first().map_or(String::new(), |l| format!(":{l}"));
        return format!("{}{line}: {}\n", args.table.display(), v.message);
    }
    let mut out = format!(
        "all rules hold: {} activities, {} instances unrolled",
        slots.len(),
        effort.instances
    );
    if effort.long > 0 {
        out += &format!(
            "; {} resources have too long a hyperperiod to unroll in full and were checked pair by \
                pair as well",
            effort.long
        );
    }
    if args.executions > 0 {
        out += &format!("; {} executions with jitter", args.executions);
    }
    out + "\n"
}
