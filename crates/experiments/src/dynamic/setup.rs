//! Benchmarks of the paper as tasks, on its board.
//!
//! Problem: AutoBench does not run here. Rule: a [`Benchmark`] is computation with single uncached
//! accesses, at the rate of Table I, taken as misses for each instruction. Data caches are off in
//! the paper, so accesses take a large part of the time. A benchmark with twice the rate spends
//! twice the time on accesses beside the same computation; its share of the time is less than
//! doubled.

use crate::run::{platform, requests};
use crate::{Context, ExperimentError, Outcome};
use solocore_dram::random::Random;
use solocore_model::{Bytes, Platform, Time};
use solocore_sim::board::{Board, Place};
use solocore_sim::hardware::Counters;
use solocore_sim::kernel::KernelConfig;
use solocore_sim::program::PageKind;
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::{Distribution, ProfileLike};

/// A benchmark: its name, and its normalised miss rate in thousandths (Table I; it lists aifftr
/// twice, the second is taken for aiifft).
pub type Benchmark = (&'static str, u64);

pub const BENCHMARKS: [Benchmark; 16] = [
    ("a2time", 1408),
    ("aifftr", 1767),
    ("aifirf", 1123),
    ("aiifft", 1405),
    ("basefp", 1202),
    ("bitmnp", 1454),
    ("cacheb", 1179),
    ("canrdr", 1000),
    ("idctrn", 1422),
    ("iirfft", 1488),
    ("matrix", 1981),
    ("pntrch", 2306),
    ("puwmod", 1620),
    ("rspeed", 1387),
    ("tblock", 1460),
    ("ttsprk", 1384),
];

/// The benchmark that is slowed most in the paper.
pub const PNTRCH: usize = 11;

/// Share of canrdr's time that its accesses take, in thousandths. Fitted, see [`FIT`].
const MEMORY: u64 = 325;

/// Pages of a benchmark's data. Assumed: AutoBench works on some kilobytes.
pub const PAGES: usize = 2;
/// Banks from which a program's pages are drawn where layouts differ. Fitted, see [`FIT`].
const POOL: u64 = 3;
/// The layouts of figures: is it one bank, and its name. The paper's is not known; its section V
/// says that benchmarks lie differently, so the claims are of banks at random. One bank for all is
/// a limit.
pub const LAYOUTS: [(bool, &str); 2] = [(false, "banks at random"), (true, "one bank")];
/// What is fitted, for people.
pub const FIT: &str = "Fitted, for all figures of this paper together, by the odd rows of \
    Table I: accesses take 32.5 % of canrdr's time, and a program's banks are drawn among 3. \
    It is the least sum of squares of the logarithm (quick runs, medians of seeds 101 to 104): \
    0.22. Tried were 20 % with 2 banks, 25 % with 2, 3 and 4, 27.5 % with 2, and \
    30 % with 2, 3, 4 and 6. So were 35 % with 3, 4, 6 and 8, 37.5 % with 4 and 5, \
    40 % with 4, 5, 6 and 8, and 45 % with 6, 8 and 12. They give 0.25 and more. \
    The even rows did not enter these two values. But they decided that programs are loaded \
    again for each pairing: the odd rows have 0.20 with the same banks in all pairings. \
    Figs. 3 and 4 are held out.";
/// All pages in one bank.
const ONE_BANK: [u32; PAGES] = [0; PAGES];

/// Banks of a benchmark on a core: drawn at random, or all the same.
pub fn layout(context: &Context, benchmark: usize, core: usize, one_bank: bool) -> [u32; PAGES] {
    if one_bank {
        return ONE_BANK;
    }
    let key = (benchmark * 16 + core) as u64;
    let mut random = Random::new(context.seed ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    [(); PAGES].map(|()| random.below(POOL) as u32)
}

/// The number by which [`layout`] knows a benchmark beside a hard one. Each pairing is a run of its
/// own, for which the programs of the soft cores are loaded, and lie elsewhere.
pub const fn beside(hard: usize, soft: usize) -> usize {
    // Numbers below are those of benchmarks alone, and of Fig. 4's hard tasks.
    soft + (hard + 2) * BENCHMARKS.len()
}

pub fn board(context: &Context) -> Result<(Platform, Board), ExperimentError> {
    let platform = platform("xeon-x5650")?;
    let board = Board::new(&platform, context.seed)?;
    Ok((platform, board))
}

/// A page of a benchmark's data in each of these banks, in no cache.
pub fn pages(board: &mut Board, banks: &[u32; PAGES]) -> Result<Place, ExperimentError> {
    let mut frames = Vec::new();
    for &bank in banks {
        frames.extend(board.pages("data", 1, &Place::banks(&[bank]))?);
    }
    Ok(Place::frames(&frames).kind(PageKind::Uncached))
}

/// Share of a benchmark's time that its accesses take, in thousandths, from its normalised miss
/// rate: with `f` of canrdr's time, `r f / (r f + 1 - f)`.
const fn share(rate: u64) -> u64 {
    let accesses = MEMORY * rate;
    accesses * 1000 / (accesses + (1000 - MEMORY) * 1000)
}

/// Adds a benchmark to a core; its jobs, of `wcet_ps` alone, follow each other. Returns the task.
pub fn benchmark(
    board: &mut Board,
    (name, rate): Benchmark,
    (core, wcet_ps): (usize, u64),
    banks: &[u32; PAGES],
) -> Result<usize, ExperimentError> {
    let place = pages(board, banks)?;
    let p = board.platform();
    let miss_ps = p.latency_of_paper().ps() + p.cycles_to_ps(p.llc.latency.0);
    let spec = ProfileLike {
        wcet: Some(Time::from_ns(wcet_ps / 1000)),
        misses: Some(wcet_ps / 1000 * share(rate) / miss_ps),
        spread: Distribution::Random,
        size: Some(Bytes(PAGES as u64 * p.page.0)),
        ..ProfileLike::default()
    };
    let task = board.add_at(name, &WorkloadSpec::ProfileLike(spec), &place)?;
    board.task(task).core = Some(core);
    Ok(task)
}

/// Accesses per nanosecond: the speed of a benchmark, for any length of its jobs.
pub fn speed(counters: &Counters, ps: u64) -> f64 {
    counters.accesses as f64 * 1e3 / ps as f64
}

/// Speed of a benchmark alone.
pub fn alone(
    context: &Context,
    program: Benchmark,
    wcet_ps: u64,
    banks: &[u32; PAGES],
) -> Result<f64, ExperimentError> {
    let (_, mut board) = board(context)?;
    benchmark(&mut board, program, (0, wcet_ps), banks)?;
    let r = requests(context, board, KernelConfig::default(), 4 * wcet_ps)?;
    Ok(speed(&r.tasks[0].counters, r.simulated_ps))
}

pub fn differences(outcome: &mut Outcome) {
    outcome.differs(
        "Two memory channels with 8 GiB instead of three channels: the simulated memory \
            takes powers of two.",
    );
    outcome.differs(
        "AutoBench itself does not run here. A benchmark is computation with single accesses at \
            random distances; accesses take 32.5 % of canrdr's time (fitted). The others make as \
            many more for an instruction as Table I says, on two pages (assumed).",
    );
    outcome.differs(
        "Jobs take milliseconds instead of hundreds of them, and starts and ends of jobs are \
            signalled in no time; the paper measures 2.5 \
         to 7 us a job, negligible beside its jobs.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hard_task_is_the_papers() {
        assert_eq!(BENCHMARKS[PNTRCH].0, "pntrch");
    }

    #[test]
    fn twice_the_rate_is_twice_the_time_of_accesses_beside_the_same_computation() {
        assert_eq!(share(1000), MEMORY);
        let beside = |rate| share(rate) as f64 / (1000 - share(rate)) as f64;
        assert!((beside(2000) / beside(1000) - 2.0).abs() < 0.02, "{}", beside(2000));
        assert!(share(2306) < 1000);
    }
}
