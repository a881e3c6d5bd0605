//! SCE Fig. 2: latency of dependent row misses while other cores do the same, in one bank or each
//! in its own.
//!
//! Set-up: the benchmark of section 2.1 on every core, one outstanding read, each access in another
//! row. SameBank puts all pages in bank 0; DiffBank gives core k the banks k, k + m, ...

use crate::run::{MS, ns, platform, points, requests};
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_sim::board::{Board, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::SceBenchmark;

pub const FIG2: Experiment = Experiment {
    id: "sce-fig2",
    source: "SCE Fig. 2",
    title: "DRAM latency against the cores that interfere, same bank and different banks",
    run,
};

const BOARDS: [(&str, u32); 2] = [("xeon-w3530", 4), ("p4080", 8)];

struct Point {
    board: &'static str,
    cores: u32,
    same: bool,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let mut all = Vec::new();
    for (board, most) in BOARDS {
        for same in [true, false] {
            all.extend((1..=most).map(|cores| Point { board, cores, same }));
        }
    }
    let latencies = points(context, &all, |p| latency(context, p))?;
    let mut table = Table::new(&["board", "placement", "interfering_cores", "latency_ns"]);
    for (p, latency) in all.iter().zip(&latencies) {
        table.push(row![
            p.board,
            if p.same { "same bank" } else { "different banks" },
            p.cores - 1,
            *latency
        ]);
    }
    let mut outcome = Outcome::new(table);
    for (board, _) in BOARDS {
        judge(&mut outcome, board, &all, &latencies);
    }
    outcome.differs("The paper's Xeon is not named; the board of the BWLOCK paper stands for it.");
    Ok(outcome)
}

/// Mean time from one access of core 0 to the next, in ns, less nothing: look-ups and overheads are
/// in it, as in a measurement by the clock.
fn latency(context: &Context, p: &Point) -> Result<f64, ExperimentError> {
    let platform = platform(p.board)?;
    let mut board = Board::new(&platform, context.seed)?;
    let banks = platform.total_banks();
    for core in 0..p.cores {
        let own: Vec<u32> =
            if p.same { vec![0] } else { (core..banks).step_by(platform.cores as usize).collect() };
        // Random order over an array well beyond the caches: every access misses and opens a row.
        let spec = SceBenchmark {
            size: solocore_model::Bytes(4 * platform.llc.size.0),
            stride: solocore_model::Bytes(0),
            ..SceBenchmark::default()
        };
        let task = board.add_at(
            &format!("core {core}"),
            &WorkloadSpec::SceBenchmark(spec),
            &Place::banks(&own),
        )?;
        board.task(task).core = Some(core as usize);
    }
    let result = requests(context, board, KernelConfig::default(), context.pick(2, 10) * MS)?;
    let c = result.tasks[0].counters;
    Ok(ns(c.busy_ps) / c.accesses.max(1) as f64)
}

fn judge(outcome: &mut Outcome, board: &str, all: &[Point], latencies: &[f64]) {
    let line = |same: bool| -> Vec<(f64, f64)> {
        let ours = all.iter().zip(latencies).filter(|(p, _)| p.board == board && p.same == same);
        ours.map(|(p, l)| (f64::from(p.cores - 1), *l)).collect()
    };
    let (same, different) = (line(true), line(false));
    let growth = |l: &[(f64, f64)]| l[l.len() - 1].1 / l[0].1;
    let steps = same.windows(2).map(|w| w[1].1 / w[0].1);
    outcome.claim(
        &format!(
            "{board}: in one bank the latency rises with every core that interferes (the least \
                step; above 5 %)"
        ),
        Paper::more(1.05, "section 2.1, Fig. 2"),
        steps.fold(f64::INFINITY, f64::min),
        Mutation::AnyBank,
        format!("{:.1} ns alone, {:.2} times that with all cores", same[0].1, growth(&same)),
    );
    outcome.claim(
        &format!(
            "{board}: with a bank for each core it is not affected (below 1.05 times with all \
                cores)"
        ),
        Paper::less(1.05, "section 2.1, Fig. 2"),
        growth(&different),
        Mutation::OneBank,
        format!(
            "{:.1} ns alone, {:.2} times that with all cores",
            different[0].1,
            growth(&different)
        ),
    );
    outcome.charts.push(Chart::lines(
        &format!("{board}: mean latency of dependent row misses"),
        "interfering cores",
        "latency, ns",
        vec![Series::new("same bank", same), Series::new("different banks", different)],
    ));
}
