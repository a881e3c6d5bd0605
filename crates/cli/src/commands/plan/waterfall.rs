//! The terms from the time alone to the bound, as a table.

use crate::table;
use solocore_model::plan::PlanTask;

/// The terms of a task's bound, or of its `C_sce` where nothing bounds its response time; empty
/// without terms.
pub fn text(task: &PlanTask) -> String {
    if task.waterfall.is_empty() {
        return String::new();
    }
    let title = match task.wcrt_ns {
        Some(_) => "from the time alone to the bound",
        None => "from the time alone to C_sce (no bound on the response)",
    };
    let head = [title, "ms", "sum ms", "mu"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut sum = 0;
    for term in &task.waterfall {
        sum += term.ns;
        let misses = term.misses.map_or_else(|| "-".to_owned(), |n| n.to_string());
        rows.push(vec![format!("  {}", term.term.words()), ms(term.ns), ms(sum), misses]);
    }
    table::render(&rows)
}

/// Milliseconds with all digits, so that the column adds up.
fn ms(ns: i64) -> String {
    format!(
        "{}{}.{:06}",
        if ns < 0 { "-" } else { "" },
        ns.unsigned_abs() / 1_000_000,
        ns.unsigned_abs() % 1_000_000
    )
}
