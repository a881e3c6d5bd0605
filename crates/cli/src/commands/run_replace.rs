//! `solocore run --replace`: another plan for the solocore that runs.
//!
//! Rule: the running daemon checks the plan and hands over (`solocore_linux::daemon::replace`);
//! this command sends it the plan, waits for the answer and prints it. The options of the run stay.

use crate::args::{Format, RunArgs};
use crate::commands::run_text::{self, limit};
use crate::fail::Failure;
use crate::print::print;
use crate::table;
use solocore_linux::daemon;
use solocore_linux::host::said::say;
use solocore_model::run::{RunHandover, RunOtherBudget, RunOtherJobBudget};
use solocore_model::{Plan, files};
use std::process::ExitCode;

/// Sends the plan, and prints the budgets that changed.
pub fn run(args: &RunArgs, plan: &Plan) -> Result<ExitCode, Failure> {
    if let Some(option) = args.given.beside(&["plan", "replace", "format"]) {
        return Err(Failure::Input(format!(
            "{option} has no effect with --replace, because the run keeps its options; leave it out"
        )));
    }
    let handover = daemon::replace(&args.plan, plan)?;
    if let Some(note) = run_text::unschedulable(plan) {
        say(format_args!("solocore: note: {note}"));
    }
    match args.format {
        Format::Json => print(&files::to_json(&handover))?,
        Format::Text => print(&text(&handover))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(handover: &RunHandover) -> String {
    let head = ["CPU", "budget before", "budget", "writes before", "writes"];
    let apart = handover.cores.iter().any(|c| c.write_budget.is_some());
    let columns = if apart { head.len() } else { 3 };
    let row = |c: &RunOtherBudget| {
        let writes = |budget: Option<u64>| budget.map_or_else(|| "-".to_owned(), limit);
        let row = [
            c.cpu.to_string(),
            limit(c.before),
            limit(c.budget),
            writes(c.writes_before),
            writes(c.write_budget),
        ];
        row.into_iter().take(columns).collect()
    };
    let head = head.into_iter().take(columns).map(str::to_owned).collect();
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(handover.cores.iter().map(row)).collect();
    let table = if !handover.tasks.is_empty() {
        of_jobs(handover)
    } else if handover.cores.is_empty() {
        "no budget differs\n".to_owned()
    } else {
        table::render(&rows)
    };
    let ms = handover.ended_ns.saturating_sub(handover.begun_ns) as f64 / 1e6;
    format!(
        "{table}\nplan {} in force since {:.3} s of the run; the handover took {ms:.1} ms\n",
        handover.name(),
        handover.ended_ns as f64 / 1e9
    )
}

/// The dynamic budgets that changed, by task.
fn of_jobs(handover: &RunHandover) -> String {
    let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    let head = ["task", "budget before", "budget", "in force before", "in force"];
    let row = |t: &RunOtherJobBudget| {
        let [before, budget] = [t.before, t.budget].map(limit);
        vec![t.task.clone(), before, budget, ms(t.length_before_ns), ms(t.length_ns)]
    };
    let head = head.map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(handover.tasks.iter().map(row)).collect();
    table::render(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_budget_that_changed_has_a_row() {
        let cores =
            vec![RunOtherBudget { cpu: 2, before: 200, budget: 50, ..RunOtherBudget::default() }];
        let handover = RunHandover {
            plan: "night.json".to_owned(),
            begun_ns: 1_000_000_000,
            ended_ns: 1_040_000_000,
            cores,
            tasks: Vec::new(),
        };
        let text = text(&handover);
        let cells = |line: usize| -> Vec<&str> {
            text.lines().nth(line).unwrap_or_default().split_whitespace().collect()
        };
        assert_eq!(cells(1), ["2", "200", "50"], "{text}");
        assert!(!text.contains("writes"), "{text}");
        assert!(
            text.ends_with(
                "plan night.json in force since 1.040 s of the run; the handover took 40.0 ms\n"
            ),
            "{text}"
        );
    }
}
