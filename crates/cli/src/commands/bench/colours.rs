//! `solocore bench colours`: tests whether a neighbour in the same cache colours slows a program,
//! and one in other colours does not.
//!
//! Rule: a thread follows a chain of lines over pages of eight colours; a thread on another CPU
//! writes through pages of the same colours, of others, or rests. The three take turns, so that
//! other work of the machine slows all alike.
//! Source: maracas IV-D, mc2-os-isolation 3.2.
//! Does not cover: other guests in a cache that this one does not own.

use super::output::{Output, median, show};
use crate::commands::memory_map::map_of;
use crate::fail::Failure;
use serde::Serialize;
use solocore_linux::host::machine;
use solocore_model::Bytes;
use solocore_space::backing::{Mapping, Pool};
use solocore_space::map::{Choice, Map};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Instant;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Memory that is read, in the first quarter of the colours.
    #[arg(long, value_name = "SIZE", default_value = "4 MiB")]
    size: Bytes,
    /// Memory that the neighbour writes through.
    #[arg(long, value_name = "SIZE", default_value = "64 MiB")]
    neighbour: Bytes,
    /// Rounds; the median counts.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    rounds: u32,
    #[command(flatten)]
    map: crate::args::space::MapArgs,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

#[derive(Serialize)]
struct Report {
    format: &'static str,
    colours: u32,
    alone_ns: f64,
    other_colours_ns: f64,
    shared_colours_ns: f64,
    separated: bool,
}

const REST: u8 = 0;
const OTHER: u8 = 1;
const SHARED: u8 = 2;
const END: u8 = 3;

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let cpus = machine::online_cpus()?;
    let [first, second, ..] = cpus[..] else {
        return Err(Failure::Machine(
            "one CPU has no neighbour; run it on a machine with two".into(),
        ));
    };
    let limit = |name: &str, bytes: Bytes| {
        let bytes = usize::try_from(bytes.0).ok().filter(|b| (1 << 16..1 << 31).contains(b));
        bytes.ok_or_else(|| {
            Failure::Input(format!("{name}: too little or too much; give from 64 KiB to 2 GiB"))
        })
    };
    let (size, neighbour) = (limit("--size", args.size)?, limit("--neighbour", args.neighbour)?);
    let map = map_of(&args.map, true)?;
    let choices = quarters(&map)?;
    // A quarter of the colours, with a little to spare.
    let mut pool = Pool::new((size + neighbour) * 5, false, &choices)?;
    // The pages of a mapping lie anywhere, and the kernel limits the number of separate pieces.
    let mut mine = pool.map(0, size)?;
    let mut shared = pool.map(0, neighbour)?;
    let mut other = pool.map(1, neighbour)?;
    let chain = Chain::over(&mut mine);
    machine::keep_on(first)?;
    let what = AtomicU8::new(REST);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    std::thread::scope(|scope| {
        scope.spawn(|| hog(second, &what, shared.bytes_mut(), other.bytes_mut()));
        chain.follow(2);
        for _ in 0..args.rounds {
            for state in [REST, OTHER, SHARED] {
                what.store(state, Relaxed);
                // Wait until the neighbour runs at full speed, and the lines that it evicted are
                // back.
                chain.follow(1);
                times[usize::from(state)].push(chain.follow(2));
            }
        }
        what.store(END, Relaxed);
    });
    let [rest, others, shareds] = &mut times;
    let separated =
        super::output::above(shareds, others) >= 0.8 && median(shareds) > 1.05 * median(others);
    let report = Report {
        format: "solocore-bench-colours/1",
        colours: map.colour_count(),
        alone_ns: median(rest),
        other_colours_ns: median(others),
        shared_colours_ns: median(shareds),
        separated,
    };
    let row = |what: &str, ns: f64| vec![what.to_owned(), format!("{ns:.2}")];
    let rows = [
        vec!["neighbour".to_owned(), "ns per read".to_owned()],
        row("rests", report.alone_ns),
        row("in other colours", report.other_colours_ns),
        row("in the same colours", report.shared_colours_ns),
    ];
    let verdict = if separated { "colours separate\n" } else { "no separation seen\n" };
    show(args.format, &report, &rows, verdict)
}

/// The first and the last quarter of the colours.
fn quarters(map: &Map) -> Result<[Choice; 2], Failure> {
    let count = map.colour_count();
    if count < 4 {
        return Err(Failure::Machine(format!(
            "the map has {count} colours, and four are needed; give another (--map)"
        )));
    }
    let quarter =
        |from: u32| Choice::new(map, Some(&(from..from + count / 4).collect::<Vec<_>>()), None);
    Ok([quarter(0)?, quarter(count / 4 * 3)?])
}

/// Lines in a random circle.
struct Chain {
    first: usize,
    lines: usize,
}

impl Chain {
    fn over(memory: &mut Mapping) -> Self {
        let lines = memory.bytes() / 64;
        let (start, mut order) = (memory.address(), (0..lines).collect::<Vec<usize>>());
        // A full period over a power of two would keep to the low bits; a shuffle by a fixed
        // generator does not.
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        for i in (1..lines).rev() {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            order.swap(i, (seed % (i as u64 + 1)) as usize);
        }
        let bytes = memory.bytes_mut();
        for i in 0..lines {
            let (from, to) = (order[i] * 64, start + order[(i + 1) % lines] * 64);
            bytes[from..from + 8].copy_from_slice(&to.to_ne_bytes());
        }
        Self { first: start + order[0] * 64, lines }
    }

    /// Nanoseconds per read over a number of rounds.
    fn follow(&self, rounds: usize) -> f64 {
        let begin = Instant::now();
        let mut at = self.first;
        for _ in 0..rounds * self.lines {
            // SAFETY: every line of the chain holds the address of the next, in memory that
            // outlives this.
            at = unsafe { (at as *const usize).read_volatile() };
        }
        std::hint::black_box(at);
        begin.elapsed().as_nanos() as f64 / (rounds * self.lines) as f64
    }
}

fn hog(cpu: u32, what: &AtomicU8, shared: &mut [u8], other: &mut [u8]) {
    // Without that CPU, it runs on another one.
    let _ = machine::keep_on(cpu);
    loop {
        let memory = match what.load(Relaxed) {
            END => return,
            OTHER => &mut *other,
            SHARED => &mut *shared,
            _ => {
                std::thread::yield_now();
                continue;
            }
        };
        let state = what.load(Relaxed);
        for line in memory.chunks_mut(64) {
            line[0] = line[0].wrapping_add(1);
            if what.load(Relaxed) != state {
                break;
            }
        }
    }
}
