//! `solocore bench latency`: a chase through all lines of a piece of memory; each access waits for
//! the one before.

use super::output::{Output, Place, memory_size, show};
use crate::fail::Failure;
use crate::progress::stopped;
use serde::Serialize;
use solocore_buffers::walk::{Chase, Random};
use solocore_buffers::{LINE, Mapping};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Size of the memory: a bare number is in KiB; or like 64M, 1G or "8 MiB".
    #[arg(short, long, default_value = "16384", value_name = "SIZE", value_parser = memory_size)]
    memory: usize,
    /// In the order of addresses, not at random.
    #[arg(short, long)]
    serial: bool,
    /// Passes through all lines.
    #[arg(short, long, default_value_t = 100, value_name = "PASSES", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Huge pages of 2 MiB.
    #[arg(short = 'x', long)]
    huge_pages: bool,
    /// Seed of the order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    order: &'static str,
    memory_bytes: usize,
    huge_pages: bool,
    passes: u64,
    seconds: f64,
    latency_ns: f64,
    /// Latency of the quickest pass: that of the undisturbed machine.
    least_latency_ns: f64,
    bandwidth_bytes_per_s: f64,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    args.place.take()?;
    let memory =
        if args.huge_pages { Mapping::huge(args.memory)? } else { Mapping::new(args.memory)? };
    let bytes = memory.len();
    let mut random = Random::new(args.seed);
    let mut chase = Chase::new(memory, (!args.serial).then_some(&mut random))?;
    let lines = chase.lines();
    chase.follow(lines);
    let (mut passes, mut seconds, mut least) = (0, 0.0, f64::INFINITY);
    while passes < args.iterations && !stopped() {
        let begun = Instant::now();
        chase.follow(lines);
        let pass = begun.elapsed().as_secs_f64();
        (seconds, least) = (seconds + pass, pass.min(least));
        passes += 1;
    }
    if passes == 0 {
        return Err(Failure::Interrupted);
    }
    let ns = |seconds: f64| seconds * 1e9 / lines as f64;
    let outcome = Outcome {
        format: "solocore-bench-latency/1",
        cpu: args.place.cpu,
        order: if args.serial { "serial" } else { "random" },
        memory_bytes: bytes,
        huge_pages: args.huge_pages,
        passes,
        seconds,
        latency_ns: ns(seconds / passes as f64),
        least_latency_ns: ns(least),
        bandwidth_bytes_per_s: LINE as f64 * lines as f64 * passes as f64 / seconds,
    };
    let head = ["CPU", "order", "memory KiB", "seconds", "ns an access", "least ns", "MB/s"];
    let row = vec![
        args.place.cpu.map_or("any".to_owned(), |c| c.to_string()),
        outcome.order.to_owned(),
        (bytes >> 10).to_string(),
        format!("{seconds:.3}"),
        format!("{:.2}", outcome.latency_ns),
        format!("{:.2}", outcome.least_latency_ns),
        format!("{:.1}", outcome.bandwidth_bytes_per_s / 1e6),
    ];
    show(args.format, &outcome, &[head.map(str::to_owned).to_vec(), row], "")
}
