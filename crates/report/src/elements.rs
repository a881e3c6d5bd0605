//! Elements that several sections draw.
//!
//! Problem: names and tables are too wide for a narrow page. Rule: a name is cut, with the whole of
//! it in its tooltip. On a telephone each row of a table becomes a card with the name of its column
//! before each value, so that no column is out of sight. A wide table on a wider page scrolls by
//! itself.

use maud::{Markup, html};
use solocore_model::Plan;
use solocore_model::plan::{Choice, PlanTask};
use solocore_model::system::Criticality;

/// A task's name: cut by the style sheet where there is no room, whole in its tooltip.
pub fn task_name(name: &str) -> Markup {
    html! { span.name title=(name) { (name) } }
}

/// Level C of a plan of levels runs on any core.
pub fn is_global(plan: &Plan, task: &PlanTask) -> bool {
    plan.levels().is_some() && task.criticality == Criticality::C
}

/// The core of a task, for tables.
pub fn core_of(plan: &Plan, task: &PlanTask) -> String {
    if is_global(plan, task) { "all".to_owned() } else { task.core.to_string() }
}

/// A table's caption, which stays in view when the table scrolls.
pub fn caption(text: &Markup) -> Markup {
    html! { caption { span { (text) } } }
}

/// A table that scrolls sideways by itself, also by keyboard.
pub fn wide_table(label: &str, table: &Markup) -> Markup {
    html! { div.wide tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// A table of rows. A column of numbers has `#` before its name; the text behind an underscore is
/// lowered. The style sheet reads the names of columns from properties `--c1`, `--c2` and so on.
pub fn data_table(caption: &Markup, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        table style=(names(columns)) {
            (caption)
            thead { tr { @for column in columns { (head(column)) } } }
            tbody { (rows) }
        }
    }
}

fn head(column: &str) -> Markup {
    let name = column.trim_start_matches('#');
    let (base, low) = name.split_once('_').unwrap_or((name, ""));
    html! {
        th.num[name.len() < column.len()] scope="col" { (base) @if !low.is_empty() { sub { (low) } } }
    }
}

/// The names of columns for CSS. They are this crate's own; quotes and backslashes would end a
/// string of CSS, and are left out.
fn names(columns: &[&str]) -> String {
    let plain = |c: &char| !matches!(c, '\'' | '\\' | '\n');
    let of = |(at, column): (usize, &&str)| {
        let name: String = column.trim_start_matches('#').chars().filter(plain).collect();
        format!("--c{}:'{name}'", at + 1)
    };
    columns.iter().enumerate().map(of).collect::<Vec<_>>().join(";")
}

/// Content that is shown on demand.
pub fn folded(summary: &str, content: &Markup) -> Markup {
    html! { details.folded { summary { (summary) } (content) } }
}

/// Choices with their prices.
pub fn choices(choices: &[Choice]) -> Markup {
    html! {
        ul {
            @for c in choices {
                li data-choice=(c.of) { strong { (c.of) } ": " (c.chosen) ": " (c.why) ". Next best: " (c.next_best) "." }
            }
        }
    }
}
