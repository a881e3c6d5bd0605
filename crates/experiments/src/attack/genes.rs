//! Attacks by number: each gene is one of a few choices.
//!
//! Rule: decoding asks for the same genes in the same order for any values, so that the number of
//! choices of each is known and a neighbour of a point is an attack as well. All rivals are of two
//! kinds, a and b; each core has one of these or none.

use super::climb::Genes;
use super::program::{Beat, Job, ROWS, SHAPES, Shape};
use super::system::{Analysed, Attack, Bursts, Policy, miss_ps};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_model::Platform;
use solocore_model::plan::PlanLock;
use solocore_model::platform::PRESETS;
use solocore_sim::program::OpKind;
use std::fmt::Write as _;
use std::path::Path;

/// The presets, which are gene 0.
pub const BOARDS: [&str; 7] = [
    "imx6q",
    "xeon-w3530",
    "p4080",
    "core-i5-2500k",
    "raspberry-pi-4",
    "xeon-x5650",
    "xeon-gold-6338",
];
/// Cores with a gene of their own; those beyond repeat them.
const MOST_CORES: usize = 8;
/// Approximate time that others' posted writes can add to one access, ns.
const DRAINS_NS: u64 = 6_000;

/// Reads genes, and notes the number of choices of each.
pub struct Cursor<'a> {
    genes: &'a [u16],
    at: usize,
    sizes: Vec<u16>,
}

impl<'a> Cursor<'a> {
    /// From the first gene; genes that are missing are 0.
    pub fn new(genes: &'a [u16]) -> Self {
        Self { genes, at: 0, sizes: Vec::new() }
    }

    /// The next gene's choice.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let chosen = usize::from(self.genes.get(self.at).copied().unwrap_or(0)) % from.len();
        self.at += 1;
        self.sizes.push(u16::try_from(from.len()).unwrap());
        from[chosen]
    }

    /// Choices of each gene so far.
    pub fn sizes(self) -> Vec<u16> {
        self.sizes
    }
}

/// A rival's stream; pauses and leads are parts of `period_cycles`.
fn beat(c: &mut Cursor, period_cycles: u64) -> Beat {
    let part = |thousandths: u64| period_cycles * thousandths / 1000;
    let mix = c.pick(&[
        (1, 0),
        (0, 1),
        (1, 1),
        (4, 1),
        (1, 4),
        (8, 8),
        (16, 16),
        (8, 40),
        (64, 64),
        (32, 8),
    ]);
    Beat {
        read_rows: c.pick(&ROWS),
        read: c.pick(&[OpKind::Prefetch, OpKind::Load, OpKind::LoadWait]),
        reads: mix.0,
        writes: mix.1,
        write_rows: c.pick(&ROWS),
        write: c.pick(&[OpKind::StoreLine, OpKind::Store]),
        bank: c.pick(&[0, 1, 2, 3]),
        gap: c.pick(&[0, 1, 4, 16, 64, 256]),
        burst: c.pick(&[0, 8, 16, 40, 56, 64, 128, 512, 2048]),
        pause: part(c.pick(&[20, 100, 250, 500, 800, 900, 1000])),
        lead: part(c.pick(&[0, 100, 250, 500, 750, 900, 980, 1000, 1900])),
    }
}

/// Without budgets a simulated microsecond costs the simulator most, so that jobs are shorter.
fn job(policy: Policy, c: &mut Cursor) -> Job {
    let few = matches!(
        policy,
        Policy::None | Policy::Bwlock | Policy::HeldJobs | Policy::Maracas | Policy::Levels
    );
    let most = if few {
        [20, 1, 2, 3, 5, 10, 30, 50, 100, 150, 200]
    } else {
        [20, 1, 2, 5, 10, 50, 100, 200, 400, 800, 1600]
    };
    Job {
        misses: c.pick(&most),
        cycles: 0,
        read_rows: c.pick(&ROWS),
        read: c.pick(&[OpKind::LoadWait, OpKind::Load]),
        write_each: c.pick(&[0, 8, 4, 2, 1]),
        bank: c.pick(&[0, 1]),
        shape: c.pick(&SHAPES),
        empty_each: 0,
    }
}

/// The attack of these genes.
///
/// A variant of a board becomes a file in `dir`.
///
/// # Panics
/// If that file cannot be written.
pub fn decode(policy: Policy, dir: &Path, c: &mut Cursor) -> Attack {
    let board = c.pick(&BOARDS);
    let platform = Platform::find(board, Path::new(".")).unwrap();
    let wanted = c.pick(&[4, 2, 1, 3, 8, 16]);
    // Partitions leave the last core to I/O.
    let cores = wanted.max(if policy == Policy::Windows { 2 } else { 1 }).min(platform.cores);
    let period_ns = c.pick(&[1_000_000, 250_000, 100_000, 50_000, 25_000]);
    let cycles = |ns: u64| {
        u64::try_from(u128::from(ns) * u128::from(platform.frequency.0) / 1_000_000_000).unwrap()
    };
    let share = c.pick(&[250, 50, 100, 500, 700]);
    let knob =
        c.pick(&[0, 1, 2, 3, 7, 12, 19, 24, 30, 37, 42, 48, 55, 62, 72, 80, 95, 200, 1000, 5000]);
    let victim = job(policy, c);
    // A VCPU's budget is used up only by jobs that compute for long.
    let factor = if policy == Policy::Maracas { 5 } else { 1 };
    let compute_ns = factor * c.pick(&[10_000, 1_000, 3_000, 30_000, 60_000]);
    let stretch = c.pick(&[2, 3, 4, 8, 16]);
    let odd = c.pick(&[3_003, 0, 333, 11_000, 71_000]);
    let phase_ns = period_ns
        * c.pick(&[0, 10, 100, 250, 500, 750, 900, 950, 990, 1000, 20, 35, 50, 75, 150, 200, 300])
        / 1000;
    // Long enough for the victim's longest delay, by the simplest of bounds.
    let alone_ns = compute_ns + victim.misses * miss_ps(&platform) / 1000;
    let drains_ns = if cores > 1 { DRAINS_NS } else { 0 };
    let held_ns = match policy {
        Policy::None | Policy::Bwlock | Policy::Maracas | Policy::Levels => {
            victim.misses * drains_ns + 20_000
        }
        _ => victim.misses * u64::from(cores) * miss_ps(&platform) / 1000,
    };
    let victim_period_ns = match policy {
        // Time tables want few different periods.
        Policy::Windows => {
            (stretch * (alone_ns + held_ns) + 6 * period_ns + odd).next_multiple_of(1_000)
        }
        Policy::Levels => (stretch * (alone_ns + 2 * held_ns)).next_multiple_of(20_000),
        Policy::None | Policy::Bwlock | Policy::Dynamic => stretch * (alone_ns + held_ns) + odd,
        // A job may be lost time until the others have seen its lock.
        Policy::HeldJobs => {
            stretch * (alone_ns + held_ns + 2 * PlanLock::reaction_to_jobs(period_ns)) + odd
        }
        Policy::Maracas => stretch * 2 * (alone_ns + held_ns) + 600_000 + odd,
        _ => stretch * (alone_ns + held_ns) / 2 + 2 * period_ns + odd,
    };
    let victim = Analysed {
        job: victim,
        compute_ns,
        period_ns: victim_period_ns,
        deadline_ps: None,
        phase_ns,
    };
    let (mate_there, mate_job, mate_factor) =
        (c.pick(&[false, false, false, true]), job(policy, c), c.pick(&[2, 4, 1, 8]));
    let mate_job = shorter(mate_job, victim.job.misses);
    let mate = Analysed {
        job: mate_job,
        compute_ns: compute_ns / 4 + 500,
        period_ns: match policy {
            Policy::Windows | Policy::Levels => victim_period_ns * mate_factor,
            _ => (victim_period_ns / 4 * mate_factor).max(4 * alone_ns),
        },
        deadline_ps: None,
        phase_ns: 0,
    };
    let (own_there, own) = (c.pick(&[true, false]), beat(c, cycles(period_ns)));
    let (a, b) = (beat(c, cycles(period_ns)), beat(c, cycles(period_ns)));
    let others: Vec<Option<Beat>> =
        (1..MOST_CORES).map(|_| c.pick(&[Some(a), Some(a), Some(b), None])).collect();
    let seed = c.pick(&[1, 2, 3]);
    let more = more(policy, c, &platform, &victim);
    let running = if policy == Policy::Windows { cores - 1 } else { cores };
    // Best effort on this core, or on any other core, would remove the others' jobs from the bound.
    let own_allowed = policy != Policy::Dynamic && more.jobs.is_none();
    let mut mates = Vec::new();
    if mate_there {
        mates.push(Analysed { phase_ns: victim_period_ns * more.mate_phase / 1000, ..mate });
        if more.second_mate {
            mates.push(Analysed {
                period_ns: mate.period_ns * 2,
                phase_ns: mate.period_ns / 3,
                ..mate
            });
        }
    }
    Attack {
        policy,
        board: more.board.map_or_else(
            || board.to_owned(),
            |(mshrs, cap, banks)| varied(board, dir, mshrs, cap, banks),
        ),
        cores,
        period_ns,
        share,
        knob,
        victim,
        mates,
        own: (own_there && own_allowed).then_some(own),
        others: others.iter().copied().cycle().take(running.saturating_sub(1) as usize).collect(),
        jobs: more.jobs,
        write_part: more.write_part,
        devices: more.devices,
        seed,
    }
}

/// Genes that were added later: in an older list of genes they are all 0, which changes nothing.
struct More {
    mate_phase: u64,
    second_mate: bool,
    jobs: Option<Bursts>,
    board: Option<(u32, u32, u64)>,
    write_part: u64,
    devices: u32,
}

fn more(policy: Policy, c: &mut Cursor, platform: &Platform, victim: &Analysed) -> More {
    let mate_phase = c.pick(&[0, 20, 100, 250, 500, 900]);
    let second_mate = c.pick(&[false, true, false]);
    let there = c.pick(&[false, true, false]);
    let compute_ns = c.pick(&[500, 100, 2_000, 10_000]);
    let job = Job {
        misses: c.pick(&[20, 5, 50, 100, 200, 400]),
        cycles: 0,
        read_rows: c.pick(&ROWS),
        read: c.pick(&[OpKind::Prefetch, OpKind::Load, OpKind::LoadWait]),
        write_each: c.pick(&[0, 1, 2, 4]),
        bank: c.pick(&[0, 1]),
        shape: c.pick(&[Shape::Start, Shape::End, Shape::Even, Shape::Halves, Shape::Bursts]),
        empty_each: c.pick(&[0, 2, 3]),
    };
    // By the simplest of bounds it fits in half of this.
    let alone_ns = compute_ns + job.misses * miss_ps(platform) / 1000;
    let least_ns = 2
        * (alone_ns
            + victim.job.misses * 200
            + u64::from(platform.cores) * job.misses * 100
            + 20_000);
    let period_ns = least_ns.max(victim.period_ns * c.pick(&[0, 125, 250, 500, 1000, 2000]) / 1000);
    let deadline_ns = period_ns * c.pick(&[1000, 800, 600]) / 1000;
    let phase_ns = period_ns * c.pick(&[0, 250, 500, 750, 900, 980]) / 1000;
    let burst =
        Analysed { job, compute_ns, period_ns, deadline_ps: Some(deadline_ns * 1000), phase_ns };
    let held = c.pick(&[0, 200, 400, 500]);
    let holding = Job { misses: 0, write_each: 0, empty_each: c.pick(&[2, 0, 3]), ..job };
    let hold_ns = (deadline_ns * held / 1000).max(100);
    let hold =
        Analysed { job: holding, compute_ns: hold_ns, period_ns, deadline_ps: None, phase_ns };
    let stagger_ns = period_ns * c.pick(&[0, 20, 100, 333]) / 1000;
    let (mshrs, cap) = (c.pick(&[0, 0, 1, 2, 4, 8, 16]), c.pick(&[4, 4, 0, 1, 16]));
    let write_part = c.pick(&[0, 20, 100, 200, 400]);
    let devices = c.pick(&[0, 1, 2]);
    // Fewer banks than cores: they are shared.
    let banks = c.pick(if policy == Policy::Levels { &[0, 0, 2, 2] } else { &[0, 0, 1, 2] });
    let cores = match policy {
        Policy::None | Policy::Bwlock | Policy::HeldJobs => usize::MAX,
        Policy::Dynamic => 1,
        _ => 0,
    };
    More {
        mate_phase,
        second_mate,
        jobs: (there && cores > 0).then_some(Bursts { hold, burst, stagger_ns, cores }),
        board: (mshrs > 0 || cap != 4 || banks > 0).then_some((mshrs, cap, banks)),
        write_part,
        devices,
    }
}

/// A preset with other miss registers (0: its own), another row-hit cap, and one channel with so
/// many banks (0: its own memory), as a platform file.
fn varied(board: &str, dir: &Path, mshrs: u32, cap: u32, banks: u64) -> String {
    let (_, text) = PRESETS.iter().find(|(name, _)| *name == board).unwrap();
    let platform = Platform::find(board, Path::new(".")).unwrap();
    let capacity = platform.dram.capacity.0 / u64::from(platform.total_banks()) * banks;
    let mut out = String::new();
    for line in text.lines() {
        match line.split('=').next().unwrap_or("").trim() {
            "mshrs" if mshrs > 0 => writeln!(out, "mshrs = {mshrs}").unwrap(),
            "capacity" if banks > 0 => {
                writeln!(out, "capacity = \"{} KiB\"", capacity / 1024).unwrap()
            }
            "channels" | "ranks" if banks > 0 => {
                writeln!(out, "{} = 1", line.split('=').next().unwrap()).unwrap();
            }
            "banks" if banks > 0 => writeln!(out, "banks = {banks}").unwrap(),
            "[dram]" => writeln!(out, "[dram]\nrow_hit_cap = {cap}").unwrap(),
            _ => writeln!(out, "{line}").unwrap(),
        }
    }
    let path = dir.join(format!("{board}-m{mshrs}-h{cap}-b{banks}.toml"));
    if !path.exists() {
        std::fs::write(&path, out).unwrap();
    }
    path.display().to_string()
}

/// The mate's job is no longer than the victim's.
fn shorter(job: Job, most: u64) -> Job {
    Job { misses: job.misses.min(most), ..job }
}

/// The number of choices of each gene.
pub fn sizes(policy: Policy) -> Genes {
    let mut cursor = Cursor::new(&[]);
    // No variant of a board: nothing is written.
    decode(policy, Path::new(""), &mut cursor);
    cursor.sizes()
}

/// The worst points of long searches on a board (`known.txt`, which `write_known` makes): this
/// policy's first, then the others'.
fn found_before(policy: Policy, board: &str) -> (Vec<Genes>, Vec<Genes>) {
    let genes = |line: &str| -> Genes {
        let numbers = line.split(' ').skip(2);
        numbers.map(|n| n.parse().expect("known.txt holds numbers")).collect()
    };
    let here =
        include_str!("known.txt").lines().filter(|line| line.split(' ').nth(1) == Some(board));
    let (own, others): (Vec<&str>, Vec<&str>) =
        here.partition(|line| line.split(' ').next() == Some(format!("{policy:?}").as_str()));
    (own.into_iter().map(genes).collect(), others.into_iter().map(genes).collect())
}

/// Points to begin with on a board: attacks that are known to hurt, and random ones.
pub fn starts(policy: Policy, board: u16, seed: u64) -> Vec<Genes> {
    let sizes = sizes(policy);
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ u64::from(board) << 32);
    let mut random = || -> Genes { sizes.iter().map(|&size| rng.random_range(0..size)).collect() };
    let zero = vec![0; sizes.len()];
    let (mut out, others) = found_before(policy, BOARDS[usize::from(board)]);
    for (_, known) in KNOWN {
        let mut genes = zero.clone();
        known.iter().for_each(|&(gene, choice)| genes[gene] = choice);
        out.push(genes);
    }
    out.extend(others);
    out.extend((0..3).map(|_| random()));
    for genes in &mut out {
        // Lists from before some genes existed.
        genes.resize(sizes.len(), 0);
        genes[0] = board;
    }
    out
}

/// Genes of [`decode`] by position, where an attack that is known sets them; others are 0.
const CORES: usize = 1;
const PERIOD: usize = 2;
const SHARE: usize = 3;
const KNOB: usize = 4;
const MISSES: usize = 5;
const READ: usize = 7;
const WRITE_EACH: usize = 8;
const SHAPE: usize = 10;
const COMPUTE: usize = 11;
const ODD: usize = 13;
const PHASE: usize = 14;
const OWN: usize = 23;
const OWN_MIX: usize = 24;
const OWN_ROWS: usize = 25;
const RIVAL_MIX: usize = 34;
const JOBS: usize = 64;
const BURST_MISSES: usize = 66;
const BURST_READ: usize = 68;
const BURST_WRITES: usize = 69;
const BURST_EMPTY: usize = 72;
const HELD: usize = 76;
const REGISTERS: usize = 79;
const CAP: usize = 80;
const WRITE_PART: usize = 81;
const DEVICES: usize = 82;
const BANKS: usize = 83;
/// Kinds of attack, by name: the genes that differ from 0, and their choices.
pub const KNOWN: [(&str, &[(usize, u16)]); 23] = [
    ("all prefetch rows of one bank, best effort on the victim's core as well", &[]),
    ("all others post writes to rows of one bank", &[(OWN, 1), (RIVAL_MIX, 1), (MISSES, 7)]),
    (
        "one other posts writes to rows of one bank",
        &[(CORES, 1), (OWN, 1), (RIVAL_MIX, 1), (MISSES, 7)],
    ),
    (
        "the same, many misses over many short periods",
        &[(CORES, 1), (PERIOD, 2), (OWN, 1), (RIVAL_MIX, 1), (MISSES, 10)],
    ),
    (
        "the same, the victim's loads overlap",
        &[(CORES, 1), (OWN, 1), (RIVAL_MIX, 1), (MISSES, 7), (READ, 1)],
    ),
    ("all others read and write in turns of 16", &[(OWN, 1), (RIVAL_MIX, 6), (MISSES, 7)]),
    (
        "all others post writes, own best effort too; few misses, at once",
        &[(OWN_MIX, 1), (RIVAL_MIX, 1), (MISSES, 3), (SHAPE, 1)],
    ),
    ("budget drained at the bus's rate, one core", &[(CORES, 2), (OWN_ROWS, 4), (PHASE, 3)]),
    ("budget drained at the bus's rate, others prefetch", &[(OWN_ROWS, 4), (PHASE, 12)]),
    (
        "budget drained, one other posts writes",
        &[(CORES, 1), (SHARE, 3), (OWN_ROWS, 4), (RIVAL_MIX, 1), (PHASE, 4), (KNOB, 3)],
    ),
    (
        "window after best effort has drained the budget",
        &[(PERIOD, 1), (OWN_ROWS, 4), (KNOB, 3), (ODD, 3)],
    ),
    ("alone: row conflicts", &[(CORES, 2), (OWN, 1), (MISSES, 7)]),
    (
        "alone: row conflicts, every fourth access a write",
        &[(CORES, 2), (OWN, 1), (MISSES, 7), (WRITE_EACH, 2)],
    ),
    (
        "one core: best effort leaves reads and writes under way",
        &[(CORES, 2), (OWN_MIX, 8), (MISSES, 2), (SHAPE, 1), (COMPUTE, 1)],
    ),
    (
        "others' jobs post writes as late as they may, then at once again",
        &[(JOBS, 1), (BURST_WRITES, 1), (HELD, 3)],
    ),
    (
        "the same with many writes, and reads without a pause between empty jobs",
        &[
            (JOBS, 1),
            (BURST_WRITES, 2),
            (BURST_MISSES, 4),
            (HELD, 3),
            (BURST_EMPTY, 1),
            (MISSES, 6),
        ],
    ),
    (
        "others' jobs read rows of one bank, one job after the other",
        &[(JOBS, 1), (BURST_MISSES, 3), (BURST_READ, 0)],
    ),
    (
        "sixteen miss registers, no row hit passes",
        &[(REGISTERS, 6), (CAP, 2), (OWN, 1), (RIVAL_MIX, 6)],
    ),
    (
        "writes have budgets of their own; all others post writes",
        &[(WRITE_PART, 3), (RIVAL_MIX, 1), (MISSES, 7)],
    ),
    (
        "one bank for all; all others post writes",
        &[(BANKS, 2), (OWN, 1), (RIVAL_MIX, 1), (MISSES, 7)],
    ),
    (
        "two banks for all; all others read rows of one",
        &[(BANKS, 3), (PERIOD, 2), (MISSES, 7), (KNOB, 10)],
    ),
    (
        "a VCPU's budget is used up, and each time it starts to run, it waits for the accesses \
        that best effort left",
        &[(CORES, 2), (KNOB, 13), (MISSES, 1), (COMPUTE, 4)],
    ),
    (
        "devices move data for partitions whose rivals post writes",
        &[(DEVICES, 2), (RIVAL_MIX, 1), (PERIOD, 2)],
    ),
];
