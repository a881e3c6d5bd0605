//! BWLOCK Fig. 1: latency of dependent misses against the bandwidth of three co-runners.
//!
//! Set-up (section 2): Latency alone on core 0, and beside three programs of one access a line,
//! each held to a rate. Every access misses the shared cache: the arrays are twice its size.

use super::setup::BOARD;
use crate::run::{MS, machine, ns, platform, points};
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_model::{Bandwidth, Bytes};
use solocore_sim::board::{Board, BoardError};
use solocore_sim::hardware::{Counters, Hardware};
use solocore_sim::kernel::{Kernel, KernelConfig, Unobserved};
use solocore_sim::machine::Machine;
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::{Access, BandwidthHog, Latency};

pub const FIG1: Experiment = Experiment {
    id: "bwlock-fig1",
    source: "BWLOCK Fig. 1",
    title: "Memory latency against the bandwidth of each of three co-runners",
    run,
};

/// Rates of each co-runner, in MB/s. The paper's axis ends at 1000; here it goes on to the
/// saturation of the memory.
const DEMANDS: &[u64] = &[
    0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 2000, 2500, 3000, 4000,
    6000, 8000,
];
/// Part of the increase with which the latency is saturated.
const FULL: f64 = 0.95;
/// An increase is larger than this, over the latency alone. The paper calls less negligible.
const INCREASE: f64 = 1.1;
const QUICK: &[u64] = &[0, 100, 300, 500, 1000, 1400, 2000, 4000, 8000];

/// Latency, bandwidth of the three co-runners together, and of the memory.
struct Found {
    latency_ns: f64,
    achieved_mb_s: f64,
    dram_mb_s: f64,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let demands = context.pick(QUICK, DEMANDS);
    let found = points(context, demands, |&demand| measure(context, demand))?;
    let alone = found[0].latency_ns;
    let mut table = Table::new(&[
        "demand_each_mb_s",
        "achieved_each_mb_s",
        "dram_total_mb_s",
        "latency_ns",
        "latency_normalised",
    ]);
    for (demand, f) in demands.iter().zip(&found) {
        let normalised = f.latency_ns / alone;
        table.push(row![*demand, f.achieved_mb_s / 3.0, f.dram_mb_s, f.latency_ns, normalised]);
    }
    let mut outcome = Outcome::new(table);
    let line: Vec<(f64, f64)> =
        demands.iter().zip(&found).map(|(&d, f)| (d as f64, f.latency_ns / alone)).collect();
    let used: Vec<(f64, f64)> =
        found.iter().map(|f| (f.achieved_mb_s / 3.0, f.latency_ns / alone)).collect();
    judge(&mut outcome, &line, &used);
    outcome.charts.push(Chart::lines(
        "Latency beside three co-runners",
        "bandwidth demand of each co-runner, MB/s",
        "mean access latency, 1 = alone",
        vec![Series::new("Latency", line)],
    ));
    differences(&mut outcome);
    Ok(outcome)
}

fn measure(context: &Context, demand: u64) -> Result<Found, ExperimentError> {
    let platform = platform(BOARD)?;
    let size = Bytes(2 * platform.llc.size.0);
    let mut board = Board::new(&platform, context.seed)?;
    let subject =
        board.add("Latency", &WorkloadSpec::Latency(Latency { size, ..Latency::default() }))?;
    board.task(subject).core = Some(0);
    for core in (1..4).take_while(|_| demand > 0) {
        let rate = Some(Bandwidth(demand * 1_000_000));
        let spec = BandwidthHog { size, access: Access::Write, rate, ..BandwidthHog::default() };
        let task = board.add(&format!("co-runner {core}"), &WorkloadSpec::Bandwidth(spec))?;
        board.task(task).core = Some(core);
    }
    let mut kernel = machine(context, board, KernelConfig::default())?;
    let run = |kernel: &mut Kernel<Machine>, until_ps| {
        kernel
            .run(until_ps, &mut Unobserved, &mut |_| (context.progress)(f64::NAN))
            .map_err(BoardError::from)
    };
    // Lines are written back as often as they are written only when the cache has been filled, here
    // twice.
    let lines = 2 * platform.llc.size.0 / platform.llc.line.0;
    let filled = |kernel: &Kernel<Machine>| {
        counters(kernel).iter().map(|c| c.llc_misses).sum::<u64>() >= lines
    };
    while !filled(&kernel) {
        let next_ps = kernel.now_ps() + MS;
        run(&mut kernel, next_ps)?;
    }
    let (before, memory) = (counters(&kernel), kernel.hardware().uncore());
    let time_ps = context.pick(2, 40) * MS;
    let to_ps = kernel.now_ps() + time_ps;
    run(&mut kernel, to_ps)?;
    let (after, memory_after) = (counters(&kernel), kernel.hardware().uncore());
    let made = |count: fn(&Counters) -> u64| count(&after[0]) - count(&before[0]);
    let mb_s = |lines: u64| lines as f64 * platform.llc.line.0 as f64 / (time_ps as f64 / 1e6);
    let others = |all: &[Counters]| all[1..].iter().map(|c| c.accesses).sum::<u64>();
    Ok(Found {
        latency_ns: ns(made(|c| c.busy_ps)) / made(|c| c.accesses).max(1) as f64,
        achieved_mb_s: mb_s(others(&after) - others(&before)),
        dram_mb_s: mb_s(memory_after.reads + memory_after.writes - memory.reads - memory.writes),
    })
}

/// Counters of the programs: the subject's, and the co-runners'.
fn counters(kernel: &Kernel<Machine>) -> Vec<Counters> {
    (0..4)
        .filter_map(|core| kernel.hardware().running(core))
        .map(|p| kernel.hardware().program(p))
        .collect()
}

/// The bandwidth from which the latency has nearly all of its increase; none without an increase.
fn risen_from(line: &[(f64, f64)]) -> f64 {
    let end = line.last().map_or(f64::NAN, |p| p.1);
    let risen = |p: &&(f64, f64)| end > INCREASE && p.1 >= 1.0 + FULL * (end - 1.0);
    line.iter().find(risen).map_or(f64::NAN, |p| p.0)
}

fn at(line: &[(f64, f64)], demand: f64) -> f64 {
    line.iter().find(|p| p.0 == demand).map_or(f64::NAN, |p| p.1)
}

/// The latency by the demand of each co-runner, and by the bandwidth that it uses.
fn judge(outcome: &mut Outcome, line: &[(f64, f64)], used: &[(f64, f64)]) {
    let [low, middle, high] = [100.0, 500.0, 1000.0].map(|d| at(line, d));
    outcome.claim(
        "at 100 MB/s each the impact is negligible (below 1.1 times the latency alone)",
        Paper::less(INCREASE, "section 2, Fig. 1"),
        low,
        Mutation::OneBank,
        format!("{:.1} % more latency", (low - 1.0) * 100.0),
    );
    let rises = line.windows(2).filter(|w| w[1].0 <= 1000.0).all(|w| w[1].1 > w[0].1);
    outcome.claim(
        "from 100 to 1000 MB/s the latency rises ever faster (the increase over the second half \
            of the way, divided by that over the first)",
        Paper::more(1.0, "section 2, Fig. 1"),
        if rises { (high - middle) / (middle - low) } else { f64::NAN },
        Mutation::Quiet,
        format!("{low:.2} at 100, {middle:.2} at 500, {high:.2} at 1000 MB/s"),
    );
    let (end, before) = (line[line.len() - 1].1, line[line.len() - 3].1);
    let steepest =
        line.windows(2).map(|w| (w[1].1 - w[0].1) / (w[1].0 - w[0].0)).fold(0.0, f64::max);
    let last = (end - before) / (line[line.len() - 1].0 - line[line.len() - 3].0);
    outcome.claim(
        "then it saturates at some demand (the slope at the end of the axis over the \
            steepest; below a tenth)",
        Paper::less(0.1, "section 2, Fig. 1"),
        last.abs() / steepest,
        Mutation::Quiet,
        format!(
            "{end:.2} at the end; {:.2} a GB/s there, {:.2} a GB/s at the steepest",
            last * 1e3,
            steepest * 1e3
        ),
    );
    let from = risen_from(used);
    outcome.claim(
        "it saturates between 100 and 1000 MB/s each (the bandwidth used from which the latency \
            has 95 % of its increase, MB/s)",
        Paper::at_most(1000.0, "section 2, Fig. 1"),
        from,
        Mutation::Quiet,
        format!("{high:.2} at 1000 MB/s, {end:.2} at the end; 95 % from {from:.0} MB/s on"),
    );
}

fn differences(outcome: &mut Outcome) {
    outcome.differs(
        "The paper does not say what the co-runners access nor how their bandwidth is controlled. \
            Here they write line after line, as in \
         Fig. 3, with equal gaps between the accesses; a line written is a read and a write-back, \
         two DRAM accesses, \
         and the demand counts lines.",
    );
    outcome.differs(
        "The axis goes beyond the paper's 1000 MB/s, to where the memory gives no more. \
            Within 1000 MB/s nothing saturates here. Beyond it the co-runners use less bandwidth \
            than they demand, and the paper's axis is of the bandwidth used. The co-runners of \
            the paper are held to their bandwidth in a way that it does not state.",
    );
}

#[cfg(test)]
mod tests {
    use super::risen_from;

    #[test]
    fn an_increase_has_an_end_and_no_increase_has_none() {
        let rising = [(0.0, 1.0), (100.0, 1.05), (500.0, 2.0), (900.0, 3.95), (1000.0, 4.0)];
        assert_eq!(risen_from(&rising), 900.0);
        assert!(risen_from(&[(0.0, 1.0), (100.0, 1.0), (1000.0, 1.05)]).is_nan());
    }
}
