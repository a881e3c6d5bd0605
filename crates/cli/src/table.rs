//! Plain tables for terminals.
//!
//! Rule: columns are those of the terminal. A wide character (CJK, emoji) takes two, a combining
//! mark none.

use solocore_model::plan::Verdict;
use unicode_width::UnicodeWidthStr as _;

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// A text with spaces behind it, up to this number of columns.
pub fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A text that takes at most this number of columns: a longer one ends with an ellipsis.
#[cfg(any(feature = "screen", test))]
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|&end| width(&text[..end]) < columns).last().unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Lines up columns; the first is left-aligned, the others right-aligned.
pub fn render(rows: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    rows.iter().for_each(|row| widen(&mut widths, row));
    rows.iter().map(|row| line(&widths, row)).collect()
}

/// The same of a head and one row for each item, made twice each: a million rows take gigabytes.
pub fn render_each<T>(head: &[String], items: &[T], row: impl Fn(&T) -> Vec<String>) -> String {
    let mut widths = Vec::new();
    widen(&mut widths, head);
    items.iter().for_each(|item| widen(&mut widths, &row(item)));
    let mut out = line(&widths, head);
    items.iter().for_each(|item| out += &line(&widths, &row(item)));
    out
}

/// Makes each column wide enough for a row.
fn widen(widths: &mut Vec<usize>, row: &[String]) {
    widths.resize(widths.len().max(row.len()), 0);
    for (all, cell) in widths.iter_mut().zip(row) {
        *all = width(cell).max(*all);
    }
}

fn line(widths: &[usize], row: &[String]) -> String {
    let mut line = String::new();
    for (c, cell) in row.iter().enumerate() {
        line += &match c {
            0 => padded(cell, widths[c]),
            _ => format!("  {}{cell}", " ".repeat(widths[c] - width(cell))),
        };
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// Nanoseconds as milliseconds with three decimals; a dash for none.
pub fn ms(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6))
}

/// A plan's statement on a task, in a word or two.
pub fn verdict(verdict: Option<Verdict>) -> String {
    verdict.map_or_else(|| "best effort".to_owned(), |v| v.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_and_combining_marks_leave_columns_in_line() {
        let names = ["任务", "e\u{301}e\u{301}", "🚀", "plain"];
        let rows = names.map(|name| [name, "1.000", "é"].map(str::to_owned).to_vec());
        let text = render(&rows);
        assert!(text.lines().all(|line| width(line) == width("plain  1.000  é")), "{text}");
        assert_eq!(render_each(&rows[0], &rows[1..], Clone::clone), text);
        assert_eq!(padded("任务", 5), "任务 ");
        assert_eq!(names.map(|name| cut(name, 4)), ["任务", "e\u{301}e\u{301}", "🚀", "pla…"]);
        assert_eq!([cut("任务任务", 4), cut("任务任务", 5)], ["任…", "任务…"]);
    }
}
