//! Speed of the request-level machine: core accesses per second of one thread. The speed is given
//! by wall time and by the thread's CPU time (where Linux tells it), which depends less on
//! other work on the computer.
//!
//! `cargo run --release -p solocore-sim --example speed [MILLISECONDS] [MIX]`. Four cores of the
//! Xeon W3530 preset (32 KiB L1, 256 KiB L2, 8 MiB shared, one channel of DDR3-1066), each
//! dispatched once:
//! * `mix`: three of four accesses to 8 KiB (they stay in the first level), one to a random line of
//!   1, 2, 4 or 8 MiB, by core; of 16 operations, three are stores and two are waits; each has two
//!   cycles of computation;
//! * `l1`: all of them to 8 KiB; `llc`: random lines of 1 MiB on each core;
//! * `stream`: loads of one line after the other over 64 MiB each: every access a DRAM read;
//! * `chase`: one waiting load after the other to random lines of 64 MiB each.

use solocore_dram::random::Random;
use solocore_model::Platform;
use solocore_sim::hardware::{Hardware, ProgramId};
use solocore_sim::machine::{Machine, MachineConfig};
use solocore_sim::program::{Op, OpKind, Program, Space};
use std::path::Path;
use std::time::Instant;

const LINES_PER_PAGE: u64 = 64;
const L1_LINES: u64 = 128;

/// Of 16 operations, three are stores and two are waits.
const KINDS: [OpKind; 16] = {
    let mut kinds = [OpKind::Load; 16];
    (kinds[0], kinds[1], kinds[2]) = (OpKind::Store, OpKind::Store, OpKind::Store);
    (kinds[3], kinds[4]) = (OpKind::LoadWait, OpKind::LoadWait);
    kinds
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// Random lines; `near` of four accesses go to lines nearby.
    Random {
        near: u64,
    },
    Stream,
    Chase,
}

/// One number drawn for each operation.
struct Synthetic {
    pattern: Pattern,
    random: Random,
    at: u64,
    pages: u32,
}

impl Program for Synthetic {
    fn refill(&mut self, out: &mut Vec<Op>) {
        let far = u64::from(self.pages) * LINES_PER_PAGE - 1;
        for _ in 0..500 {
            self.at = (self.at + 1) & far;
            let drawn = self.random.next();
            out.push(match self.pattern {
                Pattern::Stream => Op::access(OpKind::Load, 2, self.at),
                Pattern::Chase => Op::access(OpKind::LoadWait, 2, drawn & far),
                Pattern::Random { near } => {
                    let kind = KINDS[(drawn >> 60) as usize & 15];
                    // From a table: the program is to cost little beside the machine.
                    let lines = [L1_LINES - 1, far];
                    Op::access(kind, 2, drawn & lines[usize::from(drawn >> 58 & 3 >= near)])
                }
            });
        }
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn abandon_job(&mut self) {}
}

/// Time on a CPU of this thread, in ns.
fn processor_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ms: u64 = std::env::args().nth(1).map_or(Ok(20), |a| a.parse())?;
    let config = MachineConfig::of(&Platform::find("xeon-w3530", Path::new("."))?, 1)?;
    println!(
        "{:>8} {:>14} {:>12} {:>12} {:>12} {:>14}",
        "mix", "accesses", "LLC", "DRAM", "M/s wall", "M/s processor"
    );
    let only = std::env::args().nth(2);
    let mixes = [
        ("mix", Pattern::Random { near: 3 }),
        ("l1", Pattern::Random { near: 4 }),
        ("llc", Pattern::Random { near: 0 }),
        ("stream", Pattern::Stream),
        ("chase", Pattern::Chase),
    ];
    for (mix, pattern) in mixes {
        if only.as_ref().is_some_and(|only| only != mix) {
            continue;
        }
        let programs = (0..4u64).map(|core| {
            let pages: u32 = match mix {
                "mix" => 256 << core,
                "llc" => 256,
                "l1" => 4,
                _ => 16384,
            };
            // Frames of a core lie together; page numbers stay as they are.
            let frames = (0..u64::from(pages)).map(|page| core * 32768 + page).collect();
            let space = Space { frames, kinds: Vec::new(), ways: 0xffff, ..Space::default() };
            let program = Synthetic { pattern, random: Random::new(core + 1), at: 0, pages };
            (Box::new(program) as Box<dyn Program>, space)
        });
        let mut machine = Machine::new(config.clone(), programs.collect(), Vec::new())?;
        (0..4).for_each(|core| machine.dispatch(core as usize, Some(ProgramId(core)), 0));
        machine.advance(ms * 200_000_000);
        let before: u64 = (0..4).map(|core| machine.core(core).accesses).sum();
        let (start, begin) = (Instant::now(), processor_ns());
        for step in 1..=10 {
            machine.advance(ms * 200_000_000 + step * ms * 100_000_000);
        }
        let wall = start.elapsed();
        let busy =
            begin.zip(processor_ns()).map_or(wall.as_secs_f64(), |(a, b)| (b - a) as f64 / 1e9);
        let counts: Vec<_> = (0..4).map(|core| machine.core(core)).collect();
        let accesses = counts.iter().map(|c| c.accesses).sum::<u64>() - before;
        let llc: u64 = counts.iter().map(|c| c.llc_accesses).sum();
        let dram = machine.uncore().reads + machine.uncore().writes;
        let million = accesses as f64 / 1e6;
        let (rate, of_cpu) = (million / wall.as_secs_f64(), million / busy);
        println!("{mix:>8} {accesses:>14} {llc:>12} {dram:>12} {rate:>12.1} {of_cpu:>14.1}");
    }
    Ok(())
}
