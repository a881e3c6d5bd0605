//! `solocore check-io`: does a table keep all rules of its instance?
//!
//! Problem: a solver that errs would pass a check that errs the same way. Rule: written from the definition
//! (single-core-equivalence, section 2.4) by unrolling the hyperperiod of each resource, with no code of the solver; what
//! is shared is the reading of the instance file. Durations, margins and resources of activities are worked out anew.

mod execute;
mod expected;
mod reading;
mod unroll;

use crate::args::{CheckIoArgs, Format};
use crate::commands::print;
use crate::fail::Failure;
use expected::Slot;
use serde_json::json;
use solocore_ima::Instance;
use solocore_model::{Time, files};
use std::process::ExitCode;

/// A rule that a table breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In nanoseconds from the start.
    pub time_ns: u64,
    /// Which rule.
    pub rule: &'static str,
    /// Lines of the table, the later activity's first.
    pub lines: Vec<usize>,
    /// Both activities and the time.
    pub message: String,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Instances of activities unrolled.
    pub instances: u64,
    /// Resources whose hyperperiod is too long to unroll; they were checked pair by pair as well.
    pub long: usize,
}

/// Checks; exit code 1 at a violation.
pub fn run(args: &CheckIoArgs) -> Result<ExitCode, Failure> {
    let instance = Instance::load(&args.instance)?;
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

fn document(first: Option<&Violation>, count: usize, effort: Effort) -> serde_json::Value {
    let violation =
        first.map(|v| json!({"rule": v.rule, "time_ns": v.time_ns, "lines": v.lines, "message": v.message}));
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
    let mut out = format!("all rules hold: {} activities, {} instances unrolled", slots.len(), effort.instances);
    if effort.long > 0 {
        out += &format!(
            "; {} resources have too long a hyperperiod to unroll in full and were checked pair by pair as well",
            effort.long
        );
    }
    if args.executions > 0 {
        out += &format!("; {} executions with jitter", args.executions);
    }
    out + "\n"
}

/// Nanoseconds for people.
fn at(ns: u64) -> Time {
    Time::from_ns(ns)
}
