//! `solocore bench costs`: the entries of `[levels.costs]` on this machine.
//!
//! Problem: with `contention = "measured"` a plan of levels is as good as these costs, whose
//! defaults are the study's and of another board. Rule: each cost is measured as its key says
//! (docs/levels.md), in a number of repetitions. Each repetition has its own reference, so that
//! other work of the machine slows both. The medians are printed as lines for a system file, with
//! their spread. Costs that this machine cannot show are left out, with the reason. Source:
//! mc2-os-isolation, section 5. Does not cover: the execution times of tasks.

mod args;
mod dma;
mod fit;
mod job;
mod measured;
mod messages;
mod sharing;
mod text;

pub use self::args::Args;
use self::job::Job;
use self::measured::{Costs, Outcome};
use super::io_load::ColouredFrames;
use crate::fail::Failure;
use crate::progress::Progress;
use solocore_buffers::walk::{cpus, keep_on};
use solocore_buffers::{Frames, List, Mapping};
use solocore_space::map::{Choice, Map};
use std::process::ExitCode;

/// Measures, and prints.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (usable, memory) = (cpus(), args.memory());
    let bytes = usize::try_from(memory.0).ok().filter(|b| (1 << 20..4 << 30).contains(b));
    let bytes = bytes.ok_or_else(|| {
        Failure::Input(format!(
            "--size {memory} is not 1 MiB to 4 GiB; give a size like \"128 MiB\""
        ))
    })?;
    let (file, frames) = (dma::opened(args)?, frames(args, bytes)?);
    let cpu = args.cpu.or(usable.first().copied()).unwrap_or(0);
    let mut other_cpus: Vec<u32> = usable.into_iter().filter(|&c| c != cpu).collect();
    other_cpus.truncate(args.hogs.unwrap_or(usize::MAX));
    let progress = Progress::new("measuring costs");
    // Messages, sharing, DMA.
    let (mut part, all) = (0.0, 3.0 * f64::from(args.repetitions));
    let mut done = || {
        part += 1.0;
        progress.share(part / all);
    };
    let mut costs = Costs::default();
    // It finds the CPUs by itself, so this thread is not on one of them yet.
    messages::measure(args, &mut costs, &mut done)?;
    keep_on(cpu)?;
    let mut job = Job::new(match &frames {
        Some(frames) => frames.frames(List::Core(0), bytes)?,
        None => Mapping::new(bytes)?,
    })?;
    sharing::measure(args, &mut job, &other_cpus, &mut costs, &mut done)?;
    dma::measure(
        (args, file.as_ref()),
        &mut job,
        frames.as_ref(),
        &other_cpus,
        &mut costs,
        &mut done,
    )?;
    drop(progress);
    text::finish(&mut costs);
    let outcome = Outcome {
        format: "solocore-bench-costs/1",
        cpu,
        other_cpus,
        repetitions: args.repetitions,
        message_bytes: args.message,
        memory_bytes: memory.0,
        costs,
    };
    text::show(args.format, &outcome)
}

/// Pages of one bank, and of another one.
fn frames(args: &Args, bytes: usize) -> Result<Option<ColouredFrames>, Failure> {
    let Some(path) = &args.map else { return Ok(None) };
    let map = Map::read(path)?;
    if map.bank_count() < 2 {
        return Err(Failure::Input(format!(
            "--map {}: it has no function of banks; make a map with `solocore space map`",
            path.display()
        )));
    }
    let bank = |number: u32| Choice::new(&map, None, Some(&[number]));
    Ok(Some(ColouredFrames::of([bank(0)?, bank(1)?], bytes)?))
}
