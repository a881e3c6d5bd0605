//! Shared parts of all benchmarks: their CPU and priority, formats of results, sizes and medians.

use crate::fail::Failure;
use crate::print::print;
use crate::table;
use clap::ValueEnum;
use serde::Serialize;
use solocore_buffers::BufferError;
use solocore_model::files;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Note below the figures of a bench with unplaced buffers.
pub const UNPLACED: &str = "\nnote: the pages have any colours: no coloured pool places them\n";

/// Formats of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON document on stdout.
    Json,
    /// CSV: one line for each result, with a head.
    Csv,
}

impl From<BufferError> for Failure {
    fn from(error: BufferError) -> Self {
        match error {
            BufferError::Input(text) => Self::Input(text),
            BufferError::Machine(text) => Self::Machine(text),
        }
    }
}

/// Prints a result: the whole as JSON, or its rows; text format also has the lines below them.
pub fn show(
    format: Output,
    whole: &impl Serialize,
    rows: &[Vec<String>],
    below: &str,
) -> Result<ExitCode, Failure> {
    match format {
        Output::Json => print(&files::to_json(whole))?,
        Output::Csv => {
            print(&rows.iter().map(|r| format!("{}\n", r.join(","))).collect::<String>())?
        }
        Output::Text => print(&format!("{}{below}", table::render(rows)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads IsolBench's sizes: KiB, or MiB and GiB with M and G; also those with a unit, like "4 MiB".
pub fn memory_size(text: &str) -> Result<usize, String> {
    let wrong =
        || format!("`{text}` is not a size; write KiB as a number (8192), 8M, 1G, or \"8 MiB\"");
    let (number, unit) = match text.chars().last() {
        Some('M' | 'm') => (&text[..text.len() - 1], 1 << 20),
        Some('G' | 'g') => (&text[..text.len() - 1], 1 << 30),
        Some('K' | 'k') => (&text[..text.len() - 1], 1 << 10),
        _ => (text, 1 << 10),
    };
    let bytes = match number.trim().parse::<u64>() {
        Ok(n) => n.saturating_mul(unit),
        Err(_) => text.parse::<solocore_model::Bytes>().map_err(|_| wrong())?.0,
    };
    let beyond = || format!("`{text}` is not from 4 KiB to 1 TiB; give a size in between");
    let bytes = usize::try_from(bytes).ok().filter(|b| (4096..=1 << 40).contains(b));
    bytes.ok_or_else(beyond)
}

/// Reads a time, like "5 s"; a bare number is in seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let is_bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let unit = if is_bare { " s" } else { "" };
    let time = format!("{text}{unit}").parse::<solocore_model::Time>()?;
    Ok(Duration::from_nanos(time.ns_ceil()))
}

/// The CPU, the nice value and the real-time priority, in IsolBench's form.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Place {
    /// CPU to run on [default: any].
    #[arg(short, long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// Nice value.
    #[arg(short = 'p', long, value_name = "NICE", allow_hyphen_values = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub nice: Option<i32>,
    /// Real-time priority (SCHED_FIFO).
    #[arg(short = 'r', long, value_name = "PRIORITY", value_parser = clap::value_parser!(i32).range(1..=99))]
    pub rt_priority: Option<i32>,
}

impl Place {
    pub fn take(&self) -> Result<(), Failure> {
        if let Some(cpu) = self.cpu {
            solocore_buffers::walk::keep_on(cpu)?;
        }
        let failed = |what: String| {
            let e = std::io::Error::last_os_error();
            Err(Failure::Machine(format!("{what}: {e}; run as root, or leave it out")))
        };
        if let Some(nice) = self.nice {
            // SAFETY: the call takes numbers only.
            if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
                return failed(format!("-p {nice}"));
            }
        }
        if let Some(priority) = self.rt_priority {
            let parameters = libc::sched_param { sched_priority: priority };
            // SAFETY: the structure lives through the call.
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } != 0
            {
                return failed(format!("-r {priority}"));
            }
        }
        Ok(())
    }
}

/// The median; 0 of no values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Cost of one of many pieces of work, in nanoseconds.
#[derive(Serialize)]
pub struct Cost {
    pub what: &'static str,
    /// Median of the runs, and the least one: other work of the machine only adds time. ns.
    pub ns: f64,
    pub least_ns: f64,
}

impl Cost {
    /// Cost of `count` pieces of work per run, done by one call of `work`.
    pub fn of(what: &'static str, (runs, count): (u32, u32), work: &mut dyn FnMut(u32)) -> Self {
        let mut times: Vec<f64> = (0..runs)
            .map(|_| {
                let begin = Instant::now();
                work(count);
                begin.elapsed().as_nanos() as f64 / f64::from(count)
            })
            .collect();
        let ns = median(&mut times);
        Self { what, ns, least_ns: times.first().copied().unwrap_or(ns) }
    }
}

/// The probability that a value of `high` is above one of `low`: 0.5 where they do not differ.
pub fn above(high: &[f64], low: &[f64]) -> f64 {
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
    use super::{above, duration, median, memory_size};

    #[test]
    fn sizes_are_isolbenchs_or_ours() {
        for (text, bytes) in [
            ("8192", 8 << 20),
            ("8M", 8 << 20),
            ("1G", 1 << 30),
            ("16k", 16 << 10),
            ("8 MiB", 8 << 20),
            ("4096 B", 4096),
        ] {
            assert_eq!(memory_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "x", "-1", "99999999999999999999", "3 apples"] {
            assert!(memory_size(text).unwrap_err().contains("not a size"), "{text}");
        }
        for text in ["0", "1", "9999999G", "9999999999999999999G", "2 B"] {
            assert!(memory_size(text).unwrap_err().contains("from 4 KiB to 1 TiB"), "{text}");
        }
    }

    #[test]
    fn bare_times_are_in_seconds() {
        let ms = |text| duration(text).map(|d| d.as_millis());
        assert_eq!([ms("5"), ms("5 s"), ms("20 ms"), ms("0")], [Ok(5000), Ok(5000), Ok(20), Ok(0)]);
        assert!(ms("5 apples").is_err() && ms("-1").is_err());
    }

    #[test]
    fn chances() {
        assert_eq!(above(&[2.0, 3.0], &[0.0, 1.0]), 1.0);
        assert_eq!(above(&[1.0, 2.0], &[1.0, 2.0]), 0.5);
        assert_eq!(above(&[], &[1.0]), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}
