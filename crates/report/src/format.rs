//! Numbers as text for people: three significant digits and a unit that fits.

use maud::{Markup, html};

/// Three significant digits without trailing zeros, in the largest unit that leaves at least 1.
fn scaled(value: u64, units: &[(f64, &str)]) -> String {
    let exact = value as f64;
    let fits = units.iter().rposition(|(size, _)| exact >= *size).unwrap_or(0);
    for (index, (size, unit)) in units.iter().enumerate().skip(fits) {
        let text = three_digits(exact / size);
        // 999 950 ns rounds to 1000 µs, which is 1 ms.
        let next = units.get(index + 1).map_or(f64::INFINITY, |(next, _)| next / size);
        if text.parse::<f64>().unwrap_or(0.0) < next {
            return format!("{text}\u{a0}{unit}").trim_end().to_owned();
        }
    }
    value.to_string()
}

fn three_digits(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A time, as `12.3 ms`.
pub fn time(ns: u64) -> String {
    scaled(ns, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")])
}

/// A time in a table: rounded for readers, exact in the tooltip and for machines.
pub fn time_cell(ns: u64) -> Markup {
    html! { data value=(ns) title=(format!("{} ns", count(ns))) { (time(ns)) } }
}

/// A time that may be unbounded or not promised, which is shown as `absent`.
pub fn time_or(ns: Option<u64>, absent: &str) -> Markup {
    match ns {
        Some(ns) => time_cell(ns),
        None => html! { span.muted { (absent) } },
    }
}

/// A count with its thousands apart: `574 093`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Short, for axes: `1.2 M`.
pub fn short(value: u64) -> String {
    scaled(value, &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")])
}

/// Bytes, as `868 KiB`.
pub fn bytes(value: u64) -> String {
    scaled(value, &[(1.0, "B"), (1024.0, "KiB"), (1_048_576.0, "MiB"), (1_073_741_824.0, "GiB")])
}

/// A bandwidth, as `161 MB/s`, decimal.
pub fn bandwidth(bytes_per_s: u64) -> String {
    scaled(bytes_per_s, &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")])
}

/// A ratio, as `12.3 %`, or "not a number".
pub fn percent(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{:.1}\u{a0}%", ratio * 100.0)
    } else {
        "not a number".to_owned()
    }
}

/// `part / whole` in percent; a dash if `whole` is 0.
pub fn percent_of(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { percent(part as f64 / whole as f64) }
}

/// `2.1`, without its sign `×`.
pub fn times(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

/// A count with its noun: `1 task`, `2 tasks`.
pub fn plural(n: u64, noun: &str) -> String {
    let end = if noun.ends_with('s') { "es" } else { "s" };
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { end })
}

/// Number of items.
pub fn len<T>(items: &[T]) -> u64 {
    items.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_sensible_units() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (12_345, "12.3 µs"),
            (999_950, "1 ms"),
            (12_300_000, "12.3 ms"),
            (100_000_000, "100 ms"),
            (99_960_000, "100 ms"),
            (9_996_000, "10 ms"),
            (1_500_000_000, "1.5 s"),
            (3_600_000_000_000, "3600 s"),
        ] {
            assert_eq!(time(ns).replace('\u{a0}', " "), text);
        }
        assert!(time(u64::MAX).ends_with('s'));
    }

    #[test]
    fn counts_and_sizes() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567).replace('\u{202f}', " "), "1 234 567");
        assert_eq!(short(999), "999");
        assert_eq!(short(574_093).replace('\u{a0}', " "), "574 k");
        assert_eq!(bytes(888_832).replace('\u{a0}', " "), "868 KiB");
        assert_eq!(bytes(1023).replace('\u{a0}', " "), "1023 B");
        assert_eq!(bandwidth(161_290_322).replace('\u{a0}', " "), "161 MB/s");
        assert_eq!(percent(f64::NAN), "not a number");
        assert_eq!(percent_of(1, 0), "–");
        assert_eq!(plural(1, "task") + &plural(2, "job"), "1 task2 jobs");
    }
}
