//! Costs of DMA: `dma_bus`, `dma_bank`, `dma_saturation`.
//!
//! Rule: a thread on another CPU reads a file past the kernel's cache, without a pause and at parts
//! of that rate; the device writes into the thread's buffer. The time of a job is measured beside
//! each. With bank functions the buffer lies in another bank than the job's memory (`dma_bus`), and
//! then in the same one: what comes on top is `dma_bank`. Without them the buffer lies anywhere,
//! and `dma_bus` has conflicts in the banks as well. Source: mc2-os-isolation, section 5.4. Does
//! not cover: disks whose data is copied on the way (virtual, encrypted), where a CPU writes it.

use super::args::Args;
use super::fit;
use super::job::Job;
use super::measured::Costs;
use crate::commands::bench::io_load::ColouredFrames;
use crate::fail::Failure;
use crate::progress::stopped;
use solocore_buffers::io::DirectFile;
use solocore_buffers::walk::keep_on;
use solocore_buffers::{AnyFrames, BufferError, Frames, List, Mapping};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes of one read, as in the paper.
const PIECE: usize = 100 * solocore_buffers::PAGE;
/// Time over which the full rate is measured.
const FULL: Duration = Duration::from_millis(300);
/// Parts of the full rate: one over each.
const PARTS: [u64; 4] = [8, 4, 2, 1];
/// A read that ends later than this no longer makes the next ones follow at once.
const LATE: Duration = Duration::from_millis(100);
/// Bank of the job, and another one.
const SAME: List = List::Core(0);
const OTHER: List = List::LevelC;

/// Orders to the thread that reads, and its answers.
#[derive(Default)]
struct Told {
    /// Bytes per second; 0: rest.
    rate: AtomicU64,
    /// Number of the buffer.
    buffer: AtomicUsize,
    end: AtomicBool,
    moved: AtomicU64,
    failed: Mutex<Option<BufferError>>,
}

/// Ends the thread, also when the measurement fails.
struct Ending<'t>(&'t Told);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Relaxed);
    }
}

/// The file that is read, before anything is measured.
pub fn opened(args: &Args) -> Result<Option<DirectFile>, Failure> {
    let Some(path) = &args.file else { return Ok(None) };
    let file = DirectFile::open(path)?;
    if file.bytes < PIECE as u64 {
        return Err(Failure::Input(format!(
            "--file {}: it has {} bytes, and a read takes {PIECE}; name a larger file",
            path.display(),
            file.bytes
        )));
    }
    Ok(Some(file))
}

/// Measures all; `done` hears of each repetition.
pub fn measure(
    (args, file): (&Args, Option<&DirectFile>),
    job: &mut Job,
    frames: Option<&ColouredFrames>,
    others: &[u32],
    costs: &mut Costs,
    done: &mut dyn FnMut(),
) -> Result<(), Failure> {
    let why = match (file, others) {
        (None, _) => "give --file with a file on the device of the traffic",
        (_, []) => "the measurement needs another CPU to read a file meanwhile",
        _ => "",
    };
    let (Some(file), Some(&cpu)) = (file, others.first()) else {
        for name in ["dma_bus", "dma_bank", "dma_saturation"] {
            costs.leave(name, why);
        }
        return Ok(());
    };
    let buffers = match frames {
        Some(frames) => vec![frames.frames(OTHER, PIECE)?, frames.frames(SAME, PIECE)?],
        None => vec![AnyFrames.frames(OTHER, PIECE)?],
    };
    let (series, told) = (buffers.len(), Told::default());
    std::thread::scope(|scope| {
        let ending = Ending(&told);
        let told = &told;
        scope.spawn(move || {
            if let Err(error) = read(cpu, file, buffers, told) {
                *told.failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
            }
        });
        let measured = repeated(args, job, series, told, costs, done);
        drop(ending);
        measured
    })
}

fn repeated(
    args: &Args,
    job: &mut Job,
    series: usize,
    told: &Told,
    costs: &mut Costs,
    done: &mut dyn FnMut(),
) -> Result<(), Failure> {
    told.rate.store(u64::MAX, Relaxed);
    let begun = Instant::now();
    std::thread::sleep(FULL);
    let full = told.rate_since(begun, 0);
    told.check()?;
    if full <= 0.0 {
        return Err(Failure::Machine(
            "--file: no read ended within 300 ms; name a file on a faster device".to_owned(),
        ));
    }
    let (mut bus, mut bank, mut saturations) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repetitions {
        told.rate.store(0, Relaxed);
        let alone = job.time();
        let mut fits = Vec::new();
        for buffer in 0..series {
            told.buffer.store(buffer, Relaxed);
            let points = PARTS.map(|part| told.point(full, part, job, alone));
            fits.extend(fit::fit(&points));
        }
        told.check()?;
        if stopped() {
            return Err(Failure::Interrupted);
        }
        if let [anywhere, rest @ ..] = fits.as_slice() {
            bus.push(anywhere.share);
            bank.extend(rest.first().map(|same| (same.share - anywhere.share).max(0.0)));
        }
        let largest = fits.iter().max_by(|a, b| a.share.total_cmp(&b.share));
        saturations.extend(largest.filter(|fit| fit.share > 0.0).map(|fit| fit.saturation));
        done();
    }
    costs.shares("dma_bus", bus);
    if bank.is_empty() {
        costs.leave("dma_bank", "give --map with bank functions (`solocore space map`), as root");
    } else {
        costs.shares("dma_bank", bank);
    }
    if saturations.len() * 2 > args.repetitions as usize {
        costs.bandwidth("dma_saturation", saturations);
    } else {
        costs.leave("dma_saturation", "the traffic did not slow the job");
    }
    Ok(())
}

impl Told {
    /// The failure of the thread, if it has one.
    fn check(&self) -> Result<(), Failure> {
        match self.failed.lock().unwrap_or_else(|e| e.into_inner()).take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Bytes per second since a time at which this number of bytes had been moved.
    fn rate_since(&self, begun: Instant, before: u64) -> f64 {
        (self.moved.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64()
    }

    /// The traffic at a part of the full rate, in bytes per second, and the share by which the job
    /// is longer.
    fn point(&self, full: f64, part: u64, job: &mut Job, alone: f64) -> (f64, f64) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        let wanted = (full / part as f64) as u64;
        self.rate.store(if part == 1 { u64::MAX } else { wanted.max(1) }, Relaxed);
        let (begun, before) = (Instant::now(), self.moved.load(Relaxed));
        let time = job.time();
        (self.rate_since(begun, before), time / alone - 1.0)
    }
}

/// Reads the file into a buffer at the wanted rate, until the end.
fn read(
    cpu: u32,
    file: &DirectFile,
    mut buffers: Vec<Mapping>,
    told: &Told,
) -> Result<(), BufferError> {
    keep_on(cpu)?;
    let (mut offset, mut next) = (0, Instant::now());
    while !told.end.load(Relaxed) {
        let (rate, now) = (told.rate.load(Relaxed), Instant::now());
        if rate == 0 || now < next {
            // Short enough that a new order is not missed for long.
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        let Some(buffer) = buffers.get_mut(told.buffer.load(Relaxed)) else { continue };
        if offset + PIECE as u64 > file.bytes {
            offset = 0;
        }
        let moved = file.read_at(buffer, offset)? as u64;
        offset += PIECE as u64;
        told.moved.fetch_add(moved, Relaxed);
        next = next.max(now.checked_sub(LATE).unwrap_or(now))
            + Duration::from_secs_f64(PIECE as f64 / rate as f64);
    }
    Ok(())
}
