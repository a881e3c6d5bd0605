//! Costs of sharing banks with other cores: `bank_sharing_c`, `sharing_saturation`, `io_copy`.
//!
//! Rule: a thread on each other CPU writes lines at random for a part of the time. The time of a
//! job is measured beside several such parts. The load is the sum of the parts, in cores' worth of
//! accesses. A buffer that no cache holds is copied alone, and beside accesses without a pause.
//! Source: mc2-os-isolation, section 5.4 (Obs. 2 and 3). Does not cover: single banks: the kernel
//! chooses the pages, so they share all banks, as those of level C do.

use super::args::Args;
use super::fit;
use super::job::Job;
use super::measured::Costs;
use crate::commands::bench::output::median;
use crate::fail::Failure;
use crate::progress::stopped;
use solocore_buffers::Mapping;
use solocore_buffers::order::{Order, Walk};
use solocore_buffers::residency::flush;
use solocore_buffers::walk::{Access, keep_on};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Per mille of the time in which each thread writes.
const PARTS: [u32; 5] = [25, 50, 100, 300, 1000];
/// Time in which a thread writes once and pauses once.
const PERIOD: Duration = Duration::from_millis(1);
/// Lines between two readings of the clock.
const PIECE: usize = 64;
/// Bytes of a buffer that is copied: an image, as in the paper's experiments.
const IMAGE: usize = 100 * solocore_buffers::PAGE;
/// Copies of one measurement.
const COPIES: usize = 20;

/// Orders to the threads.
#[derive(Default)]
struct Told {
    part: AtomicU32,
    end: AtomicBool,
}

/// Ends the threads, also when the measurement fails.
struct Ending<'t>(&'t Told);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Relaxed);
    }
}

/// Measures all; `done` hears of each repetition.
pub fn measure(
    args: &Args,
    job: &mut Job,
    others: &[u32],
    costs: &mut Costs,
    done: &mut dyn FnMut(),
) -> Result<(), Failure> {
    if others.is_empty() {
        for name in ["bank_sharing_c", "sharing_saturation", "io_copy"] {
            costs.leave(name, "the measurement needs another CPU to access memory meanwhile");
        }
        return Ok(());
    }
    let size = usize::try_from(args.memory().0).unwrap_or(usize::MAX);
    let walk = |_: &u32| Ok::<_, Failure>(Walk::new(Mapping::new(size)?, Order::Random));
    let walks = others.iter().map(walk).collect::<Result<Vec<_>, _>>()?;
    let told = Told::default();
    std::thread::scope(|scope| {
        let ending = Ending(&told);
        for (&cpu, walk) in others.iter().zip(walks) {
            let told = &told;
            scope.spawn(move || write(cpu, walk, told));
        }
        let measured = repeated(args, job, others.len(), &told, costs, done);
        drop(ending);
        measured
    })
}

fn repeated(
    args: &Args,
    job: &mut Job,
    threads: usize,
    told: &Told,
    costs: &mut Costs,
    done: &mut dyn FnMut(),
) -> Result<(), Failure> {
    let (mut shares, mut saturations, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    let mut image = Mapping::new(IMAGE)?;
    let mut copy = Mapping::new(IMAGE)?;
    image.fill(1);
    for _ in 0..args.repetitions {
        if stopped() {
            return Err(Failure::Interrupted);
        }
        told.part.store(0, Relaxed);
        let (alone, copy_alone) = (job.time(), copy_time(&image, &mut copy));
        let points = PARTS.map(|part| {
            told.part.store(part, Relaxed);
            (f64::from(part) / 1000.0 * threads as f64, job.time() / alone - 1.0)
        });
        // The last part is all of the time.
        if let Some((alone, busy)) = copy_alone.zip(copy_time(&image, &mut copy)) {
            copies.push((busy / alone - 1.0).max(0.0));
        }
        if let Some(fit) = fit::fit(&points) {
            shares.push(fit.share);
            saturations.extend((fit.share > 0.0).then_some(fit.saturation));
        }
        done();
    }
    costs.shares("bank_sharing_c", shares);
    if saturations.len() * 2 > args.repetitions as usize {
        costs.shares("sharing_saturation", saturations);
    } else {
        costs.leave("sharing_saturation", "the other CPUs did not slow the job");
    }
    if copies.is_empty() {
        costs.leave("io_copy", "this CPU does not let programs flush cache lines");
    } else {
        costs.shares("io_copy", copies);
    }
    Ok(())
}

/// Writes for a part of each period, until the end.
fn write(cpu: u32, mut walk: Walk, told: &Told) {
    // Without that CPU, it runs on another one.
    let _ = keep_on(cpu);
    while !told.end.load(Relaxed) {
        let begun = Instant::now();
        let busy = PERIOD * told.part.load(Relaxed) / 1000;
        while begun.elapsed() < busy {
            walk.go(PIECE, Access::Write);
        }
        while begun.elapsed() < PERIOD && !told.end.load(Relaxed) {
            std::hint::spin_loop();
        }
    }
}

/// Median time to copy a buffer that no cache holds, ns; `None`: nothing can be flushed.
fn copy_time(image: &Mapping, copy: &mut Mapping) -> Option<f64> {
    let mut times = Vec::with_capacity(COPIES);
    for _ in 0..COPIES {
        if !flush(image) {
            return None;
        }
        let begun = Instant::now();
        copy.copy_from_slice(image);
        std::hint::black_box(copy.first());
        times.push(begun.elapsed().as_nanos() as f64);
    }
    Some(median(&mut times))
}
