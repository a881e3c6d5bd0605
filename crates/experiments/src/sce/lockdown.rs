//! SCE Fig. 6: a synthetic benchmark beside memory-intensive tasks, with and without Colored
//! Lockdown.
//!
//! Set-up: the benchmark of section 2.1 follows pointers in random order through 256 KiB, an eighth
//! of the shared cache and more than the private ones hold. With lockdown its pages are locked in 4
//! of the 32 ways, which others then do not use. Neither PALLOC nor MemGuard, as in the paper:
//! pages lie in any bank, and no core is stopped.

use super::setup::{Jobs, hog};
use crate::run::{MS, finish, machine, platform, points};
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_model::Bytes;
use solocore_sim::board::{Board, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::program::PageKind;
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::SceBenchmark;

pub const FIG6: Experiment = Experiment {
    id: "sce-fig6",
    source: "SCE Fig. 6",
    title: "A synthetic benchmark beside memory-intensive tasks, with and without Colored Lockdown",
    run,
};

const SIZE: u64 = 256 << 10;
const LOCKED_WAYS: u64 = 0xf;

struct Point {
    others: u32,
    locked: bool,
}

/// Cycles of a pass.
#[derive(Clone, Copy)]
struct Cycles {
    least: f64,
    mean: f64,
    most: f64,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let others: &[u32] = context.pick(&[0, 1, 3, 7], &[0, 1, 2, 3, 4, 5, 6, 7]);
    let all: Vec<Point> = [false, true]
        .into_iter()
        .flat_map(|locked| others.iter().map(move |&others| Point { others, locked }))
        .collect();
    let found = points(context, &all, |p| cycles(context, p))?;
    let mut table =
        Table::new(&["co_runners", "lockdown", "least_cycles", "mean_cycles", "most_cycles"]);
    for (p, c) in all.iter().zip(&found) {
        table.push(row![p.others, if p.locked { "yes" } else { "no" }, c.least, c.mean, c.most]);
    }
    let mut outcome = Outcome::new(table);
    let (free, locked) = found.split_at(others.len());
    judge(&mut outcome, free, locked);
    let line =
        |of: &[Cycles]| others.iter().zip(of).map(|(&n, c)| (f64::from(n), c.most / 1e3)).collect();
    outcome.charts.push(Chart::lines(
        "P4080: longest pass of the synthetic benchmark",
        "memory-intensive co-runners",
        "cycles, thousands",
        vec![
            Series::new("without lockdown", line(free)),
            Series::new("with lockdown", line(locked)),
        ],
    ));
    outcome.differs(
        "The paper does not say how large its benchmark is, nor how many co-runners it has; the \
            contention for the ports of the \
         shared cache, which lockdown does not take away, is not simulated.",
    );
    Ok(outcome)
}

fn cycles(context: &Context, p: &Point) -> Result<Cycles, ExperimentError> {
    let platform = platform("p4080")?;
    let mut board = Board::new(&platform, context.seed)?;
    let spec = SceBenchmark {
        size: Bytes(SIZE),
        stride: Bytes(0),
        job: Some(solocore_sim::workload::Job::Passes(1)),
        ..SceBenchmark::default()
    };
    let kind = if p.locked { PageKind::Locked } else { PageKind::Cached };
    let task = board.add_at(
        "benchmark",
        &WorkloadSpec::SceBenchmark(spec),
        &Place::default().kind(kind),
    )?;
    board.task(task).core = Some(0);
    for core in 1..=p.others {
        let hog = hog(&mut board, core, &Place::default())?;
        if p.locked {
            board.space(hog).ways &= !LOCKED_WAYS;
        }
    }
    let mut jobs = Jobs::default();
    let kernel = machine(context, board, KernelConfig::default())?;
    finish(context, kernel, context.pick(6, 40) * MS, &mut jobs)?;
    let per_ps = platform.frequency.0 as f64 / 1e12;
    // The first pass finds empty caches.
    let cycles: Vec<f64> = jobs.0.iter().skip(1).map(|&ps| ps as f64 * per_ps).collect();
    let extreme =
        |pick: fn(f64, f64) -> f64| cycles.iter().copied().reduce(pick).unwrap_or(f64::NAN);
    Ok(Cycles {
        least: extreme(f64::min),
        mean: cycles.iter().sum::<f64>() / cycles.len() as f64,
        most: extreme(f64::max),
    })
}

fn judge(outcome: &mut Outcome, free: &[Cycles], locked: &[Cycles]) {
    let last = free.len() - 1;
    let rise = |of: &[Cycles]| of[last].most / of[0].least;
    outcome.claim(
        "without lockdown, memory-intensive tasks take the cache from the benchmark (its longest \
            pass beside seven, over its shortest alone; above 2)",
        Paper::more(2.0, "section 2.3, Fig. 6"),
        rise(free),
        Mutation::Quiet,
        format!("{:.0} cycles alone, {:.0} beside seven", free[0].least, free[last].most),
    );
    outcome.untestable(
        "lockdown reduces the cycles and improves predictability significantly",
        "section 2.3, Fig. 6",
        &format!(
            "a locked page always hits in this model, with any program beside it; here {:.0} \
            cycles, \
                {:.2} times the shortest pass at most",
            locked[last].most,
            rise(locked)
        ),
    );
}
