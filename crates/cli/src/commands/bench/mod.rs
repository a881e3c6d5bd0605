//! `solocore bench NAME`: the micro-benchmarks, a file each.

mod bandwidth;
mod banks;
mod camera;
mod colour_start;
mod colours;
mod io_load;
mod ipc;
mod latency;
mod lockdown;
mod pool;

use crate::commands::print;
use crate::fail::Failure;
use crate::table;
use clap::ValueEnum;
use serde::Serialize;
use solocore_buffers::BufferError;
use solocore_model::files;
use std::process::ExitCode;

/// Below the figures of a bench whose buffers nobody placed.
const UNPLACED: &str = "\nnote: the pages are whichever the kernel gave: no coloured pool places them\n";

/// Which one.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// How fast memory is read or written, in order (IsolBench's `bandwidth`, its flags).
    #[command(
        after_help = "Examples:\n  solocore bench bandwidth -m 8192 -a read -t 1 -c 2\n  solocore bench bandwidth -m 64M -a write -t 0 -c 1 &    # a hog, until it is ended"
    )]
    Bandwidth(bandwidth::Args),
    /// How long an access takes that waits for the one before (IsolBench's `latency`, its flags).
    #[command(
        after_help = "Examples:\n  solocore bench latency -m 65536 -c 0\n  solocore bench latency -m 65536 -s -i 10 --format json"
    )]
    Latency(latency::Args),
    /// Times to send and to receive a message by size and by where its buffers lie (MC2 Fig. 8).
    #[command(
        after_help = "Examples:\n  solocore bench ipc\n  solocore bench ipc --sizes 64,4096 --policies sbp,ce --hogs 0 --format json\n  solocore bench ipc --format csv --svg ipc.svg"
    )]
    Ipc(ipc::Args),
    /// How much of locked memory stays in the cache, alone and beside programs that fill it.
    #[command(
        after_help = "Examples:\n  solocore bench lockdown\n  solocore bench lockdown --size \"4 MiB\" --time \"2 s\" --format json\n\nWays of its own it has as root, where the CPU has resctrl; elsewhere pages are prefetched, and what stays is what nobody replaced."
    )]
    Lockdown(lockdown::Args),
    /// Reads of a file at an interval, straight into pinned buffers (MC2's Load-Generator).
    #[command(
        after_help = "Examples:\n  solocore bench io-load disk.img\n  solocore bench io-load disk.img --size \"400 KB\" --interval \"2 ms\" --engine uring -c 1\n  solocore bench io-load disk.img --plan plan.json --task video"
    )]
    IoLoad(io_load::Args),
    /// Frames of a V4L2 device, straight into pinned buffers.
    #[command(
        after_help = "Examples:\n  solocore bench camera /dev/video0\n  solocore bench camera /dev/video0 --coloured --level-c 50\n\nNeeds a driver that takes user pointers. Exit code 1: a page lay in a frame of another list."
    )]
    Camera(camera::Args),
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
        Bench::Bandwidth(args) => bandwidth::run(args),
        Bench::Latency(args) => latency::run(args),
        Bench::Ipc(args) => ipc::run(args),
        Bench::Lockdown(args) => lockdown::run(args),
        Bench::IoLoad(args) => io_load::run(args),
        Bench::Camera(args) => camera::run(args),
        Bench::Pool(args) => pool::run(args),
        Bench::Banks(args) => banks::run(args),
        Bench::Colours(args) => colours::run(args),
        Bench::ColourStart(args) => colour_start::run(args),
    }
}

impl From<BufferError> for Failure {
    fn from(error: BufferError) -> Self {
        match error {
            BufferError::Input(text) => Self::Input(text),
            BufferError::Machine(text) => Self::Machine(text),
        }
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

/// IsolBench's sizes: KiB, or MiB and GiB with M and G; also ours, like "4 MiB".
fn memory_size(text: &str) -> Result<usize, String> {
    let wrong = || format!("`{text}` is no size; write KiB as a number (8192), 8M, 1G, or \"8 MiB\"");
    let (number, unit) = match text.chars().last() {
        Some('M' | 'm') => (&text[..text.len() - 1], 1 << 20),
        Some('G' | 'g') => (&text[..text.len() - 1], 1 << 30),
        Some('K' | 'k') => (&text[..text.len() - 1], 1 << 10),
        _ => (text, 1 << 10),
    };
    let bytes = match number.trim().parse::<u64>() {
        Ok(n) => n.checked_mul(unit),
        Err(_) => text.parse::<solocore_model::Bytes>().ok().map(|b| b.0),
    };
    let bytes = bytes.and_then(|b| usize::try_from(b).ok()).filter(|&b| (4096..=1 << 40).contains(&b));
    bytes.ok_or_else(wrong)
}

/// The CPU to run on, and nice value and real-time priority, as IsolBench takes them.
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
    fn take(&self) -> Result<(), Failure> {
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
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } != 0 {
                return failed(format!("-r {priority}"));
            }
        }
        Ok(())
    }
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
    use super::{above, median, memory_size};

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
        for text in ["", "M", "x", "-1", "0", "1", "99999999999999999999", "9999999G", "3 apples"] {
            assert!(memory_size(text).unwrap_err().contains("no size"), "{text}");
        }
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
