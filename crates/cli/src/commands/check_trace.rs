//! `solocore check-trace`.

use crate::args::Format;
use crate::args::scheduling::CheckTraceArgs;
use crate::fail::Failure;
use crate::print::print;
use serde::Serialize;
use solocore_check::{LevelsReport, Report, UNCHECKABLE, VcpuReport, Violation, check};
use solocore_model::files;
use solocore_model::sched_trace::SchedTrace;
use std::fs::File;
use std::process::ExitCode;

/// The answer.
#[derive(Serialize)]
struct Answer<'a> {
    format: &'static str,
    holds: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<&'a Violation>,
}

/// Checks and prints; exit code 1 if a rule is broken.
pub fn run(args: &CheckTraceArgs) -> Result<ExitCode, Failure> {
    let wrong = |what: String| Failure::Input(format!("{}: {what}", args.trace.display()));
    let file = File::open(files::source(&args.trace))
        .map_err(|e| wrong(format!("cannot be read: {e}; name a trace of --sched-trace")))?;
    let mut trace = SchedTrace::read(file).map_err(|e| {
        let said = e.to_string();
        wrong(if said.contains(';') {
            said
        } else {
            format!("{said}; write the trace again with --sched-trace")
        })
    })?;
    if let Some(tolerance) = args.tolerance {
        trace.about.insert("tolerance_ns".to_owned(), tolerance.ns_ceil().to_string());
    }
    let result = check(&trace);
    if let Err(violation) = &result
        && violation.rule == UNCHECKABLE
    {
        return Err(wrong(violation.what.clone()));
    }
    let answer = Answer {
        format: "solocore-check-trace/1",
        holds: result.is_ok(),
        report: result.as_ref().ok(),
        violation: result.as_ref().err(),
    };
    match args.format {
        Format::Json => print(&files::to_json(&answer))?,
        Format::Text => {
            let said = result.as_ref().map_or_else(|v| format!("a rule is broken: {v}\n"), text);
            print(&format!("{}: {said}", args.trace.display()))?;
        }
    }
    Ok(ExitCode::from(u8::from(result.is_err())))
}

fn text(report: &Report) -> String {
    match report {
        Report::Levels(report) => text_of_levels(report),
        Report::Vcpus(report) => text_of_vcpus(report),
    }
}

fn text_of_vcpus(report: &VcpuReport) -> String {
    let mut out =
        format!("{} events in {:.3} s, no violation\n", report.events, report.span_ns as f64 / 1e9);
    for (rule, count) in &report.checked {
        out += &format!("  {rule}: {count} times\n");
    }
    for note in &report.notes {
        out += &format!("  {note}\n");
    }
    out
}

fn text_of_levels(r: &LevelsReport) -> String {
    let us = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
    format!(
        "{}: no rule is broken in {} events: {} decisions, {} jobs released, {} completed, {} \
            overruns\nat most: decisions {} late, jobs in slots or windows {} late, {} run without \
            being chosen, {} beyond a budget, {} tardy\n",
        r.scheduler,
        r.events,
        r.decisions,
        r.jobs,
        r.completed,
        r.overruns,
        us(r.max_decision_late_ns),
        us(r.max_start_late_ns),
        us(r.max_stray_ns),
        us(r.max_over_budget_ns),
        us(r.max_tardiness_ns)
    )
}
