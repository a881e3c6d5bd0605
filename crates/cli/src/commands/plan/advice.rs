//! The text of changes that would help, and of the effects of a change.

use crate::table;
use solocore_model::plan::advice::{Compared, Outcome, Repair, WhatIf};

/// Sufficient changes, one a line, in the form of `--what-if`.
pub fn repairs(repairs: &[Repair]) -> String {
    if repairs.is_empty() {
        return String::new();
    }
    let row = |r: &Repair| {
        let step =
            r.step.as_ref().map_or_else(String::new, |step| format!(" (in steps of {step})"));
        vec![format!("  {}", r.option()), format!("{}{step}", r.meaning)]
    };
    let rows: Vec<Vec<String>> = repairs.iter().map(row).collect();
    let width = rows.iter().map(|r| r[0].chars().count()).max().unwrap_or(0);
    let line = |r: &Vec<String>| {
        format!("{}{}  {}\n", r[0], " ".repeat(width - r[0].chars().count()), r[1])
    };
    format!(
        "\nany one of these changes makes the system schedulable:\n{}",
        rows.iter().map(line).collect::<String>()
    )
}

/// The tasks that a change concerns, before and after.
pub fn compared(what_if: &WhatIf) -> String {
    let mut out = format!("\nchanged: {}\n", what_if.changes.join(", "));
    if let Some(why) = &what_if.refused {
        return out + &format!("without the change, the file cannot be planned: {why}\n");
    }
    if what_if.tasks.is_empty() {
        return out + "the change does not alter a core, bound or verdict\n";
    }
    let head =
        ["task", "core", "response ms", "verdict", "core then", "response ms then", "verdict then"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(what_if.tasks.iter().map(row));
    out += &table::render(&rows);
    out
}

fn row(c: &Compared) -> Vec<String> {
    let of = |o: &Option<Outcome>| match o {
        None => ["-", "-", "no such task"].map(str::to_owned),
        Some(o) => [
            o.core.to_string(),
            table::ms(o.wcrt_ns),
            o.verdict.map_or("best effort".to_owned(), |v| v.to_string()),
        ],
    };
    std::iter::once(c.task.clone()).chain(of(&c.before)).chain(of(&c.after)).collect()
}
