//! Elements that several sections draw.
//!
//! Problem: names and tables are too wide for a narrow page. Rule: a name is cut, with the whole of
//! it in its tooltip; a table scrolls by itself.

use maud::{Markup, html};

/// A task's name: cut by the style sheet where there is no room, whole in its tooltip.
pub fn task_name(name: &str) -> Markup {
    html! { span.name title=(name) { (name) } }
}

/// A table's caption, which stays in view when the table scrolls.
pub fn caption(text: &Markup) -> Markup {
    html! { caption { span { (text) } } }
}

/// A table that scrolls sideways by itself, also by keyboard.
pub fn wide_table(label: &str, table: &Markup) -> Markup {
    html! { div.wide tabindex="0" role="region" aria-label=(label) { (table) } }
}
