//! `solocore bench NAME`: the micro-benchmarks, a file each.

mod banks;
mod colour_start;
mod colours;
mod pool;

use crate::commands::print;
use crate::fail::Failure;
use crate::table;
use clap::ValueEnum;
use serde::Serialize;
use solocore_model::files;
use std::process::ExitCode;

/// Which one.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Getting and putting back pages and objects of a coloured pool, beside mmap and munmap.
    #[command(
        after_help = "Examples:\n  solocore bench pool\n  solocore bench pool --memory \"256 MiB\" --format json\n\nWith the frames of this machine as root, else with made-up ones: the lists do not know the difference."
    )]
    Pool(pool::Args),
    /// Reading two rows of one DRAM bank in turn, beside rows of two banks.
    #[command(
        after_help = "Examples:\n  solocore bench banks --map map.txt\n  solocore bench banks --map map.txt --format json\n\nNeeds root and a map with banks (`solocore space map`). Says so where the times do not differ."
    )]
    Banks(banks::Args),
    /// Reading memory whose cache colours a neighbour shares, beside colours of one's own.
    #[command(
        after_help = "Examples:\n  solocore bench colours\n  solocore bench colours --size \"8 MiB\" --neighbour \"128 MiB\" --format json\n\nNeeds root and two CPUs. Says so where the times do not differ."
    )]
    Colours(colours::Args),
    /// Starting a program coloured, beside its plain start.
    #[command(
        after_help = "Examples:\n  solocore bench colour-start\n  solocore bench colour-start --colors 0-15 --runs 20\n  solocore bench colour-start --colors 0-7 -- ./detect a.pgm\n\nNeeds root. Without a command: dd with a buffer of 64 MiB, which it fills."
    )]
    ColourStart(colour_start::Args),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON document on stdout.
    Json,
    /// A line a result, with a head.
    Csv,
}

/// Runs one.
pub fn run(bench: &Bench) -> Result<ExitCode, Failure> {
    match bench {
        Bench::Pool(args) => pool::run(args),
        Bench::Banks(args) => banks::run(args),
        Bench::Colours(args) => colours::run(args),
        Bench::ColourStart(args) => colour_start::run(args),
    }
}

/// Prints a result: the whole as JSON, or its rows; text has what is said below them as well.
fn show(format: Output, whole: &impl Serialize, rows: &[Vec<String>], below: &str) -> Result<ExitCode, Failure> {
    match format {
        Output::Json => print(&files::to_json(whole))?,
        Output::Csv => print(&rows.iter().map(|r| format!("{}\n", r.join(","))).collect::<String>())?,
        Output::Text => print(&format!("{}{below}", table::render(rows)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The middle one; 0 of none.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The chance that one of `high` is above one of `low`: 0.5 where they do not differ.
fn above(high: &[f64], low: &[f64]) -> f64 {
    let wins = |h: &f64| {
        low.iter()
            .map(|l| {
                if h > l {
                    1.0
                } else if h < l {
                    0.0
                } else {
                    0.5
                }
            })
            .sum::<f64>()
    };
    high.iter().map(wins).sum::<f64>() / (high.len() * low.len()).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances() {
        assert_eq!(above(&[2.0, 3.0], &[0.0, 1.0]), 1.0);
        assert_eq!(above(&[1.0, 2.0], &[1.0, 2.0]), 0.5);
        assert_eq!(above(&[], &[1.0]), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}
