//! `solocore bench bandwidth`: reads or writes each line of a piece of memory, again and again.
//!
//! Rule: lines come in the order of their addresses, as in IsolBench, or in one that loads another
//! part of the memory (`solocore_buffers::order`).

use super::output::{Output, Place, duration, memory_size, show};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use clap::ValueEnum;
use serde::Serialize;
use solocore_buffers::order::{Order, Walk};
use solocore_buffers::walk::{self, Access};
use solocore_buffers::{LINE, Mapping};
use solocore_space::backing::Pool;
use solocore_space::gf2::values;
use solocore_space::map::{Map, PAGE};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    #[default]
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sequence {
    /// By address; prefetchers help.
    #[default]
    Lines,
    /// At random; no access waits for another, and each opens a row of some bank.
    Random,
    /// One line of each page, at random; the TLB misses too.
    Pages,
    /// The lines of one DRAM bank (root, and --map).
    Bank,
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Size of the memory: a bare number is in KiB; or like 64M, 1G or "8 MiB".
    #[arg(short, long, default_value = "16384", value_name = "SIZE", value_parser = memory_size)]
    memory: usize,
    /// Kind of access to each line.
    #[arg(short, long, value_enum, default_value_t)]
    access: Kind,
    /// Run time, like "5 s"; a bare number is in seconds, as in IsolBench; 0: until Ctrl-C.
    #[arg(short, long, default_value = "5 s", value_name = "TIME", value_parser = duration)]
    time: Duration,
    /// Passes; 0: as many as fit in the time.
    #[arg(short, long, default_value_t = 0, value_name = "PASSES")]
    iterations: u64,
    /// Huge pages of 2 MiB.
    #[arg(short = 'x', long)]
    huge_pages: bool,
    /// Order of the lines.
    #[arg(long, value_enum, default_value_t)]
    order: Sequence,
    /// Bank functions, as `solocore space map` writes them, for --order bank.
    #[arg(long, value_name = "FILE", required_if_eq("order", "bank"))]
    map: Option<PathBuf>,
    /// Say on stdout when all memory has been touched.
    #[arg(long, hide = true)]
    announce: bool,
    #[command(flatten)]
    place: Place,
    /// Format of the output.
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
const PIECE: usize = 4096;

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    args.place.take()?;
    let mut memory =
        if args.huge_pages { Mapping::huge(args.memory)? } else { Mapping::new(args.memory)? };
    let access = if args.access == Kind::Read { Access::Read } else { Access::Write };
    walk::pass(&mut memory, Access::Write);
    let order = match (args.order, &args.map) {
        (Sequence::Lines, _) => Order::Lines,
        (Sequence::Random, _) => Order::Random,
        (Sequence::Pages, _) => Order::Pages,
        (Sequence::Bank, map) => {
            lines_of_a_bank(&memory, map.as_deref().unwrap_or(Path::new("map.txt")))?
        }
    };
    let mut walk = Walk::new(memory, order);
    if args.announce {
        print("ready\n")?;
    }
    let limit = Some(args.time).filter(|time| !time.is_zero());
    let (begun, mut touched, mut passes) = (Instant::now(), 0usize, 0u64);
    'all: loop {
        let mut left = walk.lines();
        while left > 0 {
            let lines = walk.go(PIECE, access);
            left -= lines;
            touched += lines;
            if stopped() || limit.is_some_and(|l| begun.elapsed() >= l) {
                break 'all;
            }
        }
        passes += 1;
        if args.iterations > 0 && passes == args.iterations {
            break;
        }
    }
    let bytes = (touched * LINE) as u64;
    let seconds = begun.elapsed().as_secs_f64();
    let outcome = Outcome {
        format: "solocore-bench-bandwidth/1",
        cpu: args.place.cpu,
        access: if access == Access::Read { "read" } else { "write" },
        memory_bytes: walk.bytes(),
        huge_pages: args.huge_pages,
        passes: touched as f64 / walk.lines() as f64,
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

/// Lines of the bank with most of the memory's lines.
fn lines_of_a_bank(memory: &Mapping, path: &Path) -> Result<Order, Failure> {
    let map = Map::read(path)?;
    let of_page = PAGE as usize / LINE;
    let frames = Pool::frames(memory.as_ptr().addr(), memory.len())?;
    let mut banks: Vec<Vec<u32>> = vec![Vec::new(); 1 << map.banks.len()];
    for (page, frame) in frames.iter().enumerate() {
        for line in 0..of_page {
            let bank = values(&map.banks, frame * PAGE + (line * LINE) as u64);
            let number = u32::try_from(page * of_page + line).unwrap_or(u32::MAX);
            banks[bank as usize].push(number);
        }
    }
    let most = banks.into_iter().max_by_key(Vec::len).filter(|_| !map.banks.is_empty());
    most.map(Order::Only).ok_or_else(|| {
        Failure::Input(format!(
            "{}: there is no bank function; make a map with `solocore space map`",
            path.display()
        ))
    })
}
