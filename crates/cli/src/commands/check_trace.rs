//! `solocore check-trace`: is a trace of scheduling decisions what the policy decides, and were the promises kept?

use crate::args::{CheckTraceArgs, Format};
use crate::commands::print;
use crate::fail;
use serde::Serialize;
use solocore_check::{Failure, Report, check};
use solocore_model::files;
use solocore_model::sched_trace::{Event, SchedTrace};
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Kept(Report),
    Broken { rule: &'static str, what: String, event: Event, line: usize },
}

/// Reads, checks, and says what came out.
pub fn run(args: &CheckTraceArgs) -> Result<ExitCode, fail::Failure> {
    let path = args.trace.display();
    let wrong = |what: String| fail::Failure::Input(format!("{path}: {what}"));
    let file = File::open(&args.trace).map_err(|e| wrong(format!("{e}; is the name right?")))?;
    let trace = SchedTrace::read(BufReader::new(file)).map_err(|e| wrong(e.to_string()))?;
    let verdict = match check(&trace) {
        Ok(report) => Verdict::Kept(report),
        Err(Failure::Violation(v)) => Verdict::Broken { rule: v.rule, what: v.what, event: v.event, line: v.index + 3 },
        Err(Failure::Unusable(what)) => return Err(wrong(what)),
    };
    match args.format {
        Format::Json => print(&files::to_json(&verdict))?,
        Format::Text => print(&text(&verdict, &path.to_string()))?,
    }
    Ok(ExitCode::from(u8::from(matches!(verdict, Verdict::Broken { .. }))))
}

fn text(verdict: &Verdict, path: &str) -> String {
    match verdict {
        Verdict::Kept(report) => {
            let mut out =
                format!("{}: {} events in {:.3} s, no violation\n", path, report.events, report.span_ns as f64 / 1e9);
            for (rule, count) in &report.checked {
                let _ = writeln!(out, "  {rule}: {count} times");
            }
            for note in &report.notes {
                let _ = writeln!(out, "  {note}");
            }
            out
        }
        Verdict::Broken { rule, what, event, line } => {
            format!("{path}:{line}: at {} ns on core {}: {rule}: {what}\n", event.time_ns, event.cpu)
        }
    }
}
