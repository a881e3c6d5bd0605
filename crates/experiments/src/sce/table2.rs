//! SCE Table 2: seven benchmarks alone, under MemGuard with seven memory-intensive co-runners, and
//! their `C_sce`.
//!
//! Set-up: of each benchmark the paper gives the time alone and `C_sce`, so that eq. (1) gives the
//! misses: (C_sce - Solo)/(m L_max) (examples/sce-table2). A job makes that number of dependent
//! misses, each in a random page of 16 MiB in the core's own banks. They lie at random points of
//! the computation. It has the rest of the solo time, at the cost that a miss has on this board
//! alone. Locked pages cost no misses, so their accesses are part of the computation. The
//! co-runners write in their own banks, without room in the shared cache. The memory has the peak
//! bandwidth and the latency of section 4 ([`board`]). With more bandwidth the budgets of all cores
//! are used up in a small part of a period, and no miss of the rest waits.

use super::scatter::{Shape, add};
use super::setup::{Job, c_sce, hog, memguard, one_job, own_banks, regulation};
use super::vision::{BENCHMARKS, Ways, board};
use crate::run::{ms, platform, points};
use crate::{Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Table, row};
use solocore_model::Platform;
use solocore_sim::board::Place;
use solocore_sim::kernel::KernelConfig;
use solocore_sim::program::PageKind;

pub const TABLE2: Experiment = Experiment {
    id: "sce-table2",
    source: "SCE Table 2",
    title: "Seven vision benchmarks alone, under MemGuard, and their C_sce",
    run,
};

const ARRAY_PAGES: u32 = 4096;

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let platform = platform("p4080")?;
    let split = regulation(&platform, platform.cores);
    let miss_ps = Ways::measured(context, &platform)?.miss_ps;
    // The longest jobs first: the last ones to finish are short.
    let mut all: Vec<(usize, bool)> =
        (0..BENCHMARKS.len()).flat_map(|b| [(b, false), (b, true)]).collect();
    all.sort_by_key(|&(b, beside)| std::cmp::Reverse((beside, BENCHMARKS[b].guarded)));
    let found = points(context, &all, |&(b, beside)| {
        measure(context, &platform, shape(context, &platform, b, miss_ps), beside)
    })?;
    let of = |wanted: (usize, bool)| {
        all.iter().zip(&found).find(|(p, _)| **p == wanted).map_or(Job::default(), |(_, j)| *j)
    };
    let mut table = Table::new(&[
        "benchmark",
        "solo_ms",
        "memguard_ms",
        "c_sce_ms",
        "transactions",
        "paper_solo_ms",
        "paper_memguard_ms",
        "paper_c_sce_ms",
    ]);
    let mut rows = Vec::new();
    for (at, of_paper) in BENCHMARKS.iter().enumerate() {
        let (alone, beside) = (of((at, false)), of((at, true)));
        let c = c_sce(context, &split, alone);
        let tenths = |t: u64| t as f64 / 10.0;
        table.push(row![
            of_paper.name,
            ms(alone.execution_ps),
            ms(beside.execution_ps),
            ms(c),
            alone.transactions,
            tenths(of_paper.solo),
            tenths(of_paper.guarded),
            tenths(of_paper.bound)
        ]);
        rows.push((alone.execution_ps, beside.execution_ps, c));
    }
    let mut outcome = Outcome::new(table);
    judge(context, &mut outcome, &rows);
    Ok(outcome)
}

/// Jobs are cut to this part.
fn part(context: &Context) -> u64 {
    context.pick(10, 1)
}

fn shape(context: &Context, platform: &Platform, benchmark: usize, miss_ps: u64) -> Shape {
    let of_paper = &BENCHMARKS[benchmark];
    let misses = of_paper.misses(platform);
    let cycles = of_paper.cycles(platform, misses * miss_ps) / part(context);
    Shape { pages: ARRAY_PAGES, accesses: misses / part(context), cycles, hot: false, warm: false }
}

fn measure(
    context: &Context,
    platform: &Platform,
    shape: Shape,
    beside: bool,
) -> Result<Job, ExperimentError> {
    let count = context.pick(2, 3);
    let jobs: Result<Vec<Job>, _> =
        (0..count).map(|i| measure_one(context, platform, shape, beside, i)).collect();
    Ok(Job::worst(&jobs?))
}

fn measure_one(
    context: &Context,
    platform: &Platform,
    shape: Shape,
    beside: bool,
    index: u64,
) -> Result<Job, ExperimentError> {
    let mut board = board(context, platform)?;
    let place = Place::banks(&own_banks(platform, 0)).kind(PageKind::Bypass);
    add(&mut board, "benchmark", shape, &place, index)?;
    if !beside {
        return one_job(context, board, KernelConfig::default(), index);
    }
    for core in 1..platform.cores {
        let hog = hog(&mut board, core, &Place::banks(&own_banks(platform, core)))?;
        board.space(hog).ways = 0;
    }
    let config = memguard(&regulation(platform, platform.cores), platform.cores);
    one_job(context, board, config, index)
}

fn judge(context: &Context, outcome: &mut Outcome, rows: &[(u64, u64, u64)]) {
    let least = rows.iter().map(|r| r.2 as f64 / r.1 as f64).fold(f64::INFINITY, f64::min);
    for (of_paper, &(alone, beside, _)) in BENCHMARKS.iter().zip(rows) {
        let paper = of_paper.guarded as f64 / of_paper.solo as f64;
        let ours = beside as f64 / alone as f64;
        let claim = format!("{}: its time under MemGuard over its time alone", of_paper.name);
        outcome.claim_times(&claim, "Table 2", paper, ours, Mutation::Alone);
    }
    outcome.untestable(
        "C_sce bounds the time measured under MemGuard for all seven",
        "Table 2",
        &format!(
            "the misses are computed from the printed C_sce by eq. (1), which is then the bound; \
                it is at least {least:.3} times the measured time"
        ),
    );
    let scale = part(context) as f64;
    let off = BENCHMARKS
        .iter()
        .zip(rows)
        .map(|(b, r)| (ms(r.0) * scale / (b.solo as f64 / 10.0) - 1.0).abs());
    let off = off.fold(0.0, f64::max);
    outcome.untestable(
        "alone, each takes the printed time",
        "Table 2",
        &format!("the computation is chosen for it; at most {:.1} % off", 100.0 * off),
    );
    let bars =
        |of: fn(&(u64, u64, u64)) -> u64| rows.iter().map(|r| Some(ms(of(r)))).collect::<Vec<_>>();
    let series = vec![
        ("solo".to_owned(), bars(|r| r.0)),
        ("MemGuard, measured".to_owned(), bars(|r| r.1)),
        ("C_sce".to_owned(), bars(|r| r.2)),
    ];
    let groups = BENCHMARKS.iter().map(|b| b.name.to_owned()).collect();
    outcome.charts.push(Chart::bars(
        "Seven benchmarks on eight cores",
        "execution time, ms",
        groups,
        series,
    ));
    outcome.differs(
        "The benchmarks are stood for by their times and misses; their misses lie at random in a \
            job. Where the real ones' misses bunch, MemGuard stops them more.",
    );
    if part(context) > 1 {
        outcome.differs("A quick run simulates a tenth of each job.");
    }
    outcome.differs(
        "The misses follow from the table by eq. (1); on the board part of them were the \
            operating system's, which are \
         the benchmark's own here. So MemGuard stops disparity and texture, which are at their \
         budget, more here: the paper names this as a source of its pessimism. The table itself \
         shows it: budgets of 2520 a millisecond allow 855,000 accesses in disparity's 339.4 \
         ms, and eq. (1) gives 1,078,000.",
    );
    outcome.differs(
        "The co-runners use their budgets as early in each period as the memory lets them. Their \
            own pace is not known; it decides how many misses of mser and multi-ncut, which are \
            far below their budget, wait. The paper turns the private caches off, which can mean \
            fewer lines under way for a core than the five assumed. With one, two and three mser \
            takes 1.08, 1.12 and 1.16 times as long as alone, and multi-ncut 1.02, 1.04 and 1.05. \
            But sift takes 1.12, 1.21 and 1.27 against the paper's 1.36 (quick runs, seed 1). So \
            none of them is taken.",
    );
    outcome.differs(
        "The paper has two bandwidths, 1.2 GB/s guaranteed and 2.5 GB/s at the peak. The budgets \
            share the guaranteed one, by its section 2.2 and eq. (1): 2520 accesses a \
            millisecond. Table 2 speaks for more: 2520 cannot give disparity, tracking and \
            texture their printed times. Budgets that share the peak were tried, beside \
            co-runners whose stores fetch no line. Then disparity takes 1.98 times as long as \
            alone, tracking 1.90, texture 1.93 and mser 1.16. But localization takes 1.70 times \
            as long, sift 1.46 and multi-ncut 1.01 (quick runs, medians of seeds 1 to 5). The \
            first three rows suggested the trial; of the other four, one agrees then and two \
            agree now. So it is not taken.",
    );
    outcome.differs(
        "Section 4 leaves the co-runners no cache, so that their stores need fetch no line. Stores \
            that go to the memory as they are were tried (quick runs, seed 1). Then localization \
            takes 1.51 times as long as alone, tracking 2.08, mser 1.08, multi-ncut 1.01 and sift \
            1.18. Fig. 12's task after 140 pages takes 1.16 times as long in place of 1.32. Two of \
            the seven agree in place of three, so it is not taken.",
    );
    outcome.differs(
        "One share of the misses for all seven, the rest the operating system's, was fitted to the \
            odd rows: 80 %. The even rows, held out, then have 0.77, 0.72 and 0.89 of the paper's \
            effect, in place of 1.04, 1.13 and 1.00 (quick runs, medians of seeds 1 to 3). So it \
            is not taken.",
    );
}
