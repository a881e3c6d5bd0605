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
        [format!("  {}", r.option()), format!("{}{step}", r.meaning)]
    };
    let rows: Vec<[String; 2]> = repairs.iter().map(row).collect();
    let width = rows.iter().map(|[option, _]| table::width(option)).max().unwrap_or(0);
    let line =
        |[option, meaning]: &[String; 2]| format!("{}  {meaning}\n", table::padded(option, width));
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
        Some(o) => [o.core.to_string(), table::ms(o.wcrt_ns), table::verdict(o.verdict)],
    };
    std::iter::once(c.task.clone()).chain(of(&c.before)).chain(of(&c.after)).collect()
}
