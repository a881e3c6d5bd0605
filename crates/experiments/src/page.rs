//! docs/reproduction.md from the outcomes.

use crate::{Record, Scale};
use std::fmt::Write;

/// Most rows of a table shown on the page; the CSV file has all.
const ROWS: usize = 24;

/// The page. `images` is the path from the page to the directory of the SVG files.
#[must_use]
pub fn markdown(records: &[Record], images: &str) -> String {
    let mut out = String::new();
    let scale = match records.first().map(|r| r.scale) {
        Some(Scale::Quick) => " --quick",
        _ => "",
    };
    let holding = records.iter().filter(|r| r.holds).count();
    let _ = write!(
        out,
        "# What the papers measured, on simulated boards\n\n\
         Written by `solocore reproduce --all{scale} --page docs/reproduction.md --images \
         img/reproduction`; do not edit. Shapes and orders are the claims; absolute numbers\n\
         belong to the papers' boards. All claims hold in {holding} of {} figures and tables.\n\n\
         | experiment | shows | claims that hold |\n|---|---|---|\n",
        records.len()
    );
    for r in records {
        let checks = &r.outcome.checks;
        let held = checks.iter().filter(|c| c.holds).count();
        let _ = writeln!(
            out,
            "| [{}](#{}) | {}: {} | {held} of {} |",
            r.id,
            r.id,
            r.source,
            r.title,
            checks.len()
        );
    }
    for r in records {
        section(&mut out, r, images);
    }
    out
}

fn section(out: &mut String, r: &Record, images: &str) {
    let _ = write!(
        out,
        "\n## {}\n\n{}: {}. `solocore reproduce {}`, seed {}.\n\n",
        r.id, r.source, r.title, r.id, r.seed
    );
    for check in &r.outcome.checks {
        let verdict = if check.holds { "holds" } else { "**does not hold**" };
        let _ = writeln!(out, "* {} — {verdict}: {}", check.claim, check.found);
    }
    let _ = write!(out, "\n![{}]({images}/{}.svg)\n", r.title, r.id);
    if !r.outcome.differs.is_empty() {
        out.push_str("\nWhat differs from the paper:\n\n");
        for what in &r.outcome.differs {
            let _ = writeln!(out, "* {what}");
        }
    }
    let table = &r.outcome.table;
    if table.rows.len() > ROWS {
        let _ = writeln!(out, "\n{} rows of figures: `{}.csv`.", table.rows.len(), r.id);
        return;
    }
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    out.push('\n');
    out.push_str(&line(&table.columns));
    out.push_str(&line(&vec!["---".to_owned(); table.columns.len()]));
    for row in &table.rows {
        out.push_str(&line(&row.iter().map(ToString::to_string).collect::<Vec<_>>()));
    }
}
