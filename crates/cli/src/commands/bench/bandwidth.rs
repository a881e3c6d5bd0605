//! `solocore bench bandwidth`: reads or writes each line of a piece of memory in order, again and
//! again.

use super::output::{Output, Place, memory_size, show};
use crate::fail::Failure;
use crate::progress::stopped;
use clap::ValueEnum;
use serde::Serialize;
use solocore_buffers::walk::{self, Access};
use solocore_buffers::{LINE, Mapping};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    #[default]
    Read,
    Write,
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Memory: KiB, or with M or G, or like "8 MiB".
    #[arg(short, long, default_value = "16384", value_name = "SIZE", value_parser = memory_size)]
    memory: usize,
    /// What is done to each line.
    #[arg(short, long, value_enum, default_value_t)]
    access: Kind,
    /// Seconds to run; 0: until Ctrl-C.
    #[arg(short, long, default_value_t = 5, value_name = "SECONDS")]
    time: u64,
    /// Passes; 0: as many as fit in the time.
    #[arg(short, long, default_value_t = 0, value_name = "PASSES")]
    iterations: u64,
    /// Huge pages of 2 MiB.
    #[arg(short = 'x', long)]
    huge_pages: bool,
    #[command(flatten)]
    place: Place,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

#[derive(Serialize)]
struct Outcome {
    format: &'static str,
    cpu: Option<u32>,
    access: &'static str,
    memory_bytes: usize,
    huge_pages: bool,
    passes: f64,
    bytes: u64,
    seconds: f64,
    bandwidth_bytes_per_s: f64,
    ns_per_line: f64,
}

/// Lines between two looks at the clock.
const PIECE: usize = 4096 * LINE;

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    args.place.take()?;
    let mut memory =
        if args.huge_pages { Mapping::huge(args.memory)? } else { Mapping::new(args.memory)? };
    let access = if args.access == Kind::Read { Access::Read } else { Access::Write };
    walk::pass(&mut memory, Access::Write);
    let limit = (args.time > 0).then(|| Duration::from_secs(args.time));
    let (begun, mut bytes, mut passes) = (Instant::now(), 0u64, 0u64);
    'all: loop {
        for piece in memory.chunks_mut(PIECE) {
            std::hint::black_box(walk::pass(piece, access));
            bytes += piece.len() as u64;
            if stopped() || limit.is_some_and(|l| begun.elapsed() >= l) {
                break 'all;
            }
        }
        passes += 1;
        if args.iterations > 0 && passes == args.iterations {
            break;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let outcome = Outcome {
        format: "solocore-bench-bandwidth/1",
        cpu: args.place.cpu,
        access: if access == Access::Read { "read" } else { "write" },
        memory_bytes: memory.len(),
        huge_pages: args.huge_pages,
        passes: bytes as f64 / memory.len() as f64,
        bytes,
        seconds,
        bandwidth_bytes_per_s: bytes as f64 / seconds,
        ns_per_line: seconds * 1e9 / (bytes as f64 / LINE as f64),
    };
    let cpu = args.place.cpu.map_or("any".to_owned(), |c| c.to_string());
    let head = ["CPU", "access", "memory KiB", "seconds", "MB/s", "MiB/s", "ns a line"];
    let row = vec![
        cpu,
        outcome.access.to_owned(),
        (outcome.memory_bytes >> 10).to_string(),
        format!("{seconds:.3}"),
        format!("{:.1}", outcome.bandwidth_bytes_per_s / 1e6),
        format!("{:.1}", outcome.bandwidth_bytes_per_s / f64::from(1 << 20)),
        format!("{:.3}", outcome.ns_per_line),
    ];
    show(args.format, &outcome, &[head.map(str::to_owned).to_vec(), row], "")
}
