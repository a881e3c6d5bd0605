//! A comparison for people: a table, and the distribution of the times.

use super::comparison::Comparison;
use crate::table::{ms, render};
use solocore_model::{Times, list};

/// Rows of a histogram.
const BINS: usize = 12;
/// Columns of a case's bar.
const BAR: u64 = 20;

pub fn of(c: &Comparison) -> String {
    let cases = cases(c);
    let head = ["ms", "median", "99 %", "longest", "longest by alone's"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (name, times) in &cases {
        let slower = times.max_ns as f64 / c.alone.max_ns.max(1) as f64;
        let numbers = [times.p50_ns, times.p99_ns, times.max_ns].map(|ns| ms(Some(ns)));
        let row = std::iter::once((*name).to_owned()).chain(numbers);
        rows.push(row.chain([format!("{slower:.2}")]).collect());
    }
    let mut out = format!(
        "{} on CPU {}, {} runs each; enemies on CPU {}: {} of {} MiB each\n\n",
        c.command.join(" "),
        c.core,
        c.runs,
        list(&c.enemies),
        c.enemy,
        c.enemy_bytes >> 20
    );
    out += &render(&rows);
    out.push('\n');
    out += &histogram(&cases);
    out += &match c.protected {
        Some(_) => format!("\nprotected by {}\n", c.protection),
        None => format!("\nnot protected: {}\n", c.protection),
    };
    out + "These are measured times, not bounds: solocore plan has bounds.\n"
}

fn cases(c: &Comparison) -> Vec<(&'static str, &Times)> {
    let mut cases = vec![("alone", &c.alone), ("beside enemies", &c.beside)];
    cases.extend(c.protected.as_ref().map(|p| ("protected", p)));
    cases
}

/// Runs by time, in bins of one width, a bar for each case.
fn histogram(cases: &[(&str, &Times)]) -> String {
    let all = || cases.iter().flat_map(|(_, t)| t.times_ns.iter().copied());
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    let width = ((most - least) / BINS as u64 + 1).max(1);
    let bins: Vec<Vec<u64>> = cases.iter().map(|(_, t)| counts(t, least, width)).collect();
    let largest = bins.iter().flatten().copied().max().unwrap_or(1).max(1);
    let head = std::iter::once("ms".to_owned()).chain(cases.iter().map(|(n, _)| (*n).to_owned()));
    let mut out = line(head);
    for bin in 0..BINS {
        let begin = ms(Some(least + width * bin as u64));
        let bars = bins.iter().map(|counts| {
            let cells = (counts[bin] * BAR).div_ceil(largest);
            "#".repeat(usize::try_from(cells).unwrap_or(0))
        });
        out += &line(std::iter::once(begin).chain(bars));
    }
    out
}

fn counts(times: &Times, least: u64, width: u64) -> Vec<u64> {
    let mut counts = vec![0; BINS];
    for &time in &times.times_ns {
        let bin = usize::try_from((time - least) / width).unwrap_or(0);
        counts[bin.min(BINS - 1)] += 1;
    }
    counts
}

/// The first cell to the right, bars to the left.
fn line(cells: impl Iterator<Item = String>) -> String {
    let width = usize::try_from(BAR).unwrap_or(0) + 2;
    let cells = cells.enumerate().map(|(at, cell)| match at {
        0 => format!("{cell:>12}  "),
        _ => format!("{cell:<width$}"),
    });
    let text: String = cells.collect();
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_in_a_bin() {
        let of = |times: &[u64]| Times::of(times.to_vec());
        for (a, b) in [(&[5, 5, 5][..], &[5][..]), (&[1, 2, 3, 1000], &[10_000]), (&[0], &[1])] {
            let (a, b) = (of(a), of(b));
            let all = a.times_ns.iter().chain(&b.times_ns);
            let (least, most) = (*all.clone().min().unwrap(), *all.max().unwrap());
            let width = ((most - least) / BINS as u64 + 1).max(1);
            let sum: u64 = [&a, &b].map(|t| counts(t, least, width).iter().sum()).iter().sum();
            assert_eq!(sum as usize, a.times_ns.len() + b.times_ns.len());
            assert_eq!(histogram(&[("a", &a), ("b", &b)]).lines().count(), BINS + 1);
        }
    }
}
