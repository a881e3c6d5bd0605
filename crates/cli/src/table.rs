//! Plain tables for terminals.

/// Lines up columns; the first is left-aligned, the others right-aligned.
pub fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            line += &if c == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Nanoseconds as milliseconds with three decimals; a dash for none.
pub fn ms(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6))
}
