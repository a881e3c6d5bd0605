//! `solocore bench lockdown`: the share of a piece of memory that stays in the cache for a time,
//! alone and beside hogs.
//!
//! Rule: the memory is flushed and brought in line by line. Then the same core reads other memory,
//! twice as much as its private caches hold, so that the remaining lines are in the shared one.
//! Then some time passes, beside hogs or not, and one line of each page is timed (crates/buffers,
//! residency). This is repeated, each time with other lines. There are three ways to keep the
//! memory: prefetching alone, ways that nobody else may allocate in, and the kernel's
//! pseudo-locking, as far as this machine has them.

use super::output::{Output, show};
use crate::fail::Failure;
use crate::progress::{Progress, stopped};
use serde::Serialize;
use solocore_buffers::hog::Hog;
use solocore_buffers::lockdown::prefetch;
use solocore_buffers::residency::{Residency, Threshold, flush};
use solocore_buffers::walk::{Access, cpus, keep_on, pass};
use solocore_buffers::{Mapping, caches};
use solocore_linux::Reservation;
use solocore_model::{Bytes, Time};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Memory to be kept, like "1 MiB".
    #[arg(long, default_value = "1 MiB", value_name = "SIZE")]
    size: Bytes,
    /// Time for which the memory is to stay in the cache.
    #[arg(long, default_value = "100 ms", value_name = "TIME")]
    time: Time,
    /// Number of rounds; 64 rounds time every line.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Number of enemies, each on a CPU of its own [default: one on each other CPU].
    #[arg(long, value_name = "N")]
    hogs: Option<usize>,
    /// Memory that each hog reads and writes again and again [default: twice the shared cache, at
    /// most 1 GiB].
    #[arg(long, value_name = "SIZE")]
    hog_size: Option<Bytes>,
    /// CPU that locks and looks [default: the first].
    #[arg(short, long, value_name = "CPU")]
    cpu: Option<u32>,
    /// Seed of the order in which lines are timed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

#[derive(Serialize)]
struct Case {
    method: &'static str,
    hogs: usize,
    #[serde(flatten)]
    seen: Residency,
    resident_share: f64,
}

#[derive(Serialize)]
struct Outcome {
    format: &'static str,
    bytes: usize,
    caches: caches::Caches,
    /// Medians of lines just read, pushed to the shared cache, and flushed.
    hit_ns: f64,
    shared_ns: f64,
    miss_ns: f64,
    /// Share of lines just read that are classified as misses; of flushed ones 2 % are classified
    /// as resident.
    missed_hits: f64,
    ways_mask: Option<String>,
    cases: Vec<Case>,
    notes: Vec<String>,
}

/// Sizes and CPUs, checked.
struct Setup {
    bytes: usize,
    hog_bytes: usize,
    cpu: u32,
    others: Vec<u32>,
    caches: caches::Caches,
}

fn setup(args: &Args) -> Result<Setup, Failure> {
    let caches = caches::here();
    let usable = cpus();
    let cpu = args.cpu.or(usable.first().copied()).unwrap_or(0);
    keep_on(cpu)?;
    let others: Vec<u32> = usable.into_iter().filter(|&c| c != cpu).collect();
    let hogs = args.hogs.unwrap_or(others.len());
    if hogs > others.len() {
        return Err(Failure::Input(format!(
            "--hogs {hogs}: beside CPU {cpu} this process may use {}; give at most that number",
            others.len()
        )));
    }
    let bytes = usize::try_from(args.size.0).unwrap_or(usize::MAX);
    if !(4096..=1 << 30).contains(&bytes) {
        return Err(Failure::Input(format!(
            "--size {}: between 4 KiB and 1 GiB; give for example \"1 MiB\"",
            args.size
        )));
    }
    let usual = (2 * caches.shared_bytes).clamp(64 << 20, 1 << 30);
    let hog_bytes = usize::try_from(args.hog_size.map_or(usual, |b| b.0)).unwrap_or(usize::MAX);
    if !(4096..=4 << 30).contains(&hog_bytes) {
        return Err(Failure::Input(
            "--hog-size: between 4 KiB and 4 GiB; give for example \"256 MiB\"".to_owned(),
        ));
    }
    if args.time.ns_ceil() > 60_000_000_000 {
        return Err(Failure::Input(format!(
            "--time {}: at most 60 s; give for example \"1 s\"",
            args.time
        )));
    }
    Ok(Setup { bytes, hog_bytes, cpu, others: others[..hogs].to_vec(), caches })
}

fn wait(time: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if stopped() {
            return Err(Failure::Interrupted);
        }
        std::thread::sleep((time - begun.elapsed().min(time)).min(Duration::from_millis(20)));
    }
    Ok(())
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let setup = setup(args)?;
    let private = usize::try_from(setup.caches.private_bytes).unwrap_or(0).max(1 << 20);
    let threshold = Threshold::learn(private, args.seed)?;
    let progress = Progress::new("locking and looking");
    let mut memory = Mapping::new(setup.bytes)?;
    let other = Mapping::new(2 * private)?;
    memory.fill(1);
    let mut outcome = Outcome {
        format: "solocore-bench-lockdown/1",
        bytes: memory.len(),
        caches: setup.caches,
        hit_ns: threshold.hit_ns,
        shared_ns: threshold.shared_ns,
        miss_ns: threshold.miss_ns,
        missed_hits: threshold.missed_hits,
        ways_mask: None,
        cases: Vec::new(),
        notes: Vec::new(),
    };
    let add = |outcome: &mut Outcome, method, hogs, seen: Residency| {
        outcome.cases.push(Case { method, hogs, seen, resident_share: seen.share() });
        progress.share(outcome.cases.len() as f64 / 6.0);
    };
    let mut looks = Looks { threshold: &threshold, setup: &setup, other, args };
    add(&mut outcome, "flushed", 0, looks.flushed(&memory));
    add(&mut outcome, "just-read", 0, looks.just_read(&mut memory));
    let counts = if setup.others.is_empty() { vec![0] } else { vec![0, setup.others.len()] };
    for &hogs in &counts {
        let mut ours = Locked::Plain(&mut memory);
        add(&mut outcome, "prefetch", hogs, looks.after(&mut ours, hogs)?);
    }
    match Reservation::take(setup.bytes as u64, setup.caches.shared_bytes) {
        Err(e) => outcome.notes.push(format!("no ways of its own: {e}")),
        Ok(reservation) => {
            outcome.ways_mask = Some(format!("{:x}", reservation.mask));
            let mut locked = Locked::new(&reservation, &mut memory)?;
            for &hogs in &counts {
                add(&mut outcome, locked.method(), hogs, looks.after(&mut locked, hogs)?);
            }
        }
    }
    drop(progress);
    report(args, &outcome)
}

/// Locked memory: this program brings it into ways of its own or anywhere, or the kernel locks it.
enum Locked<'a> {
    Plain(&'a mut Mapping),
    Ours(&'a Reservation, &'a mut Mapping),
    Kernels(Mapping),
}

impl<'a> Locked<'a> {
    fn new(reservation: &'a Reservation, memory: &'a mut Mapping) -> Result<Self, Failure> {
        let Some(device) = &reservation.device else { return Ok(Self::Ours(reservation, memory)) };
        let bytes = memory.len().min(usize::try_from(reservation.bytes).unwrap_or(0));
        Ok(Self::Kernels(Mapping::of_device(device, bytes)?))
    }

    fn bring_in(&mut self) -> Result<(), Failure> {
        match self {
            Self::Plain(memory) => prefetch(memory),
            Self::Ours(reservation, memory) => {
                reservation.enter()?;
                prefetch(memory);
                reservation.leave()?;
            }
            Self::Kernels(_) => {}
        }
        Ok(())
    }

    fn memory(&self) -> &Mapping {
        match self {
            Self::Plain(memory) | Self::Ours(_, memory) => memory,
            Self::Kernels(memory) => memory,
        }
    }

    fn method(&self) -> &'static str {
        match self {
            Self::Plain(_) => "prefetch",
            Self::Ours(..) => "exclusive-ways",
            Self::Kernels(_) => "pseudo-locked",
        }
    }
}

/// State of the timing.
struct Looks<'a> {
    threshold: &'a Threshold,
    setup: &'a Setup,
    /// Memory that the core reads meanwhile, so that its private caches get other lines.
    other: Mapping,
    args: &'a Args,
}

impl Looks<'_> {
    fn add(all: Residency, seen: Residency) -> Residency {
        let timed = all.timed + seen.timed;
        let sum = all.mean_ns * all.timed as f64 + seen.mean_ns * seen.timed as f64;
        Residency {
            timed,
            resident: all.resident + seen.resident,
            mean_ns: sum / timed.max(1) as f64,
        }
    }

    /// Classification of lines that are in no cache.
    fn flushed(&self, memory: &Mapping) -> Residency {
        let one = |round| {
            flush(memory);
            self.threshold.measure(memory, self.args.seed, round)
        };
        (0..self.args.rounds as usize).map(one).fold(Residency::default(), Self::add)
    }

    /// Classification of lines that are in the private caches.
    fn just_read(&self, memory: &mut Mapping) -> Residency {
        let one = |round| {
            let page = solocore_buffers::PAGE;
            // At most the size of any private cache, so that no line of it has left again.
            let part = &mut memory[..self.args.size.0.min(128 << 10) as usize / page * page];
            pass(part, Access::Read);
            self.threshold.measure(part, self.args.seed, round)
        };
        (0..self.args.rounds as usize).map(one).fold(Residency::default(), Self::add)
    }

    /// The lines that remain after the given time, over all rounds.
    fn after(&mut self, locked: &mut Locked<'_>, hogs: usize) -> Result<Residency, Failure> {
        let time = Duration::from_nanos(self.args.time.ns_ceil());
        let hogs = self.setup.others[..hogs].iter();
        let hogs = hogs.map(|&cpu| Hog::begin(cpu, self.setup.hog_bytes, Access::Write));
        let hogs: Vec<Hog> = hogs.collect::<Result<_, _>>()?;
        keep_on(self.setup.cpu)?;
        let mut all = Residency::default();
        for round in 0..self.args.rounds as usize {
            locked.bring_in()?;
            std::hint::black_box(pass(&mut self.other, Access::Read));
            wait(time)?;
            all = Self::add(all, self.threshold.measure(locked.memory(), self.args.seed, round));
        }
        drop(hogs);
        Ok(all)
    }
}

fn report(args: &Args, outcome: &Outcome) -> Result<ExitCode, Failure> {
    let mut rows = vec![
        ["kept by", "hogs", "lines timed", "resident", "%", "mean ns"].map(str::to_owned).to_vec(),
    ];
    for case in &outcome.cases {
        rows.push(vec![
            case.method.to_owned(),
            case.hogs.to_string(),
            case.seen.timed.to_string(),
            case.seen.resident.to_string(),
            format!("{:.1}", 100.0 * case.resident_share),
            format!("{:.1}", case.seen.mean_ns),
        ]);
    }
    let mut below = format!(
        "\n{} KiB; a line just read takes {:.0} ns, one in the shared cache {:.0} ns, a flushed \
            one {:.0} ns; {:.1} % of lines just read count as evicted\n",
        outcome.bytes >> 10,
        outcome.hit_ns,
        outcome.shared_ns,
        outcome.miss_ns,
        100.0 * outcome.missed_hits
    );
    outcome.notes.iter().for_each(|note| below += &format!("note: {note}\n"));
    show(args.format, outcome, &rows, &below)
}
