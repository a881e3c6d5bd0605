//! Dynamic budgeting Fig. 3: the gain of the soft cores from reclaimed slack, by the safety margin
//! of the hard task.
//!
//! Set-up (section V-A): pntrch on one core, with period, deadline and WCET of 123.8 % of its time
//! alone, half of its slowdown by four instances of bitmnp. These are on the soft cores, each with
//! a quarter of the budget. With a safety margin of `m`, the budget slows pntrch to `m` before its
//! deadline. The delay by one access is measured without budgets, in the longest job, as the
//! longest job and not the mean decides about a deadline. Both methods have the same
//! budget, renewed at each release of pntrch; with reclamation it is lifted when pntrch ends.

use super::setup::{
    BENCHMARKS, BITMNP, FIT, LAYOUTS, PNTRCH, alone, benchmark, board, differences, layout, speed,
};
use crate::run::{MS, points, requests};
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_sim::kernel::config::{RegulatorSpec, Release, TaskBudget};
use solocore_sim::kernel::{KernelConfig, KernelResult};

pub const FIG3: Experiment = Experiment {
    id: "dynamic-fig3",
    source: "Dynamic budgeting Fig. 3",
    title: "Execution time of the soft task with and without reclamation, by the hard task's \
        safety margin",
    run,
};

const SOFT: [usize; 4] = [1, 2, 3, 4];
/// Period, deadline and WCET in thousandths of the time alone.
const PERIOD: u64 = 1238;
/// Safety margins in thousandths of the time alone.
const MARGINS: [u64; 9] = [10, 25, 50, 75, 100, 125, 150, 175, 200];

/// Results without budgets.
struct Base {
    one_bank: bool,
    /// Time of a job alone, and beside the soft cores.
    solo_ps: u64,
    corun_ps: u64,
    /// Longest job beside them.
    longest_ps: u64,
    /// Accesses of all soft cores during that.
    soft: f64,
    /// Speed of bitmnp alone.
    speed: f64,
}

impl Base {
    fn period_ps(&self) -> u64 {
        // Policies count whole nanoseconds.
        self.solo_ps * PERIOD / 1_000_000 * 1000
    }

    /// Accesses per job of each soft core.
    fn budget(&self, margin: u64) -> u64 {
        let delay_ps =
            (self.longest_ps - self.solo_ps.min(self.longest_ps)) as f64 / self.soft.max(1.0);
        let spare_ps = self.solo_ps * (PERIOD - 1000 - margin) / 1000;
        (spare_ps as f64 / delay_ps.max(1.0) / SOFT.len() as f64)
            .clamp(1.0, f64::from(u32::MAX - 1)) as u64
    }
}

/// Results of a method at one margin.
struct Found {
    /// Execution time of bitmnp, 1 = alone.
    normalised: f64,
    /// Longest job of pntrch.
    response_ps: u64,
    misses: u64,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let mut outcome = Outcome::new(Table::new(&[
        "layout",
        "margin_percent",
        "budget_per_soft_core",
        "periodic_normalised",
        "reclaiming_normalised",
        "gain",
        "periodic_longest_job_percent",
        "reclaiming_longest_job_percent",
    ]));
    for (one_bank, name) in LAYOUTS {
        under(context, &mut outcome, &base(context, one_bank)?, name)?;
    }
    differences(&mut outcome);
    outcome.differs(FIT);
    outcome.differs(
        "Where the programs lie is not known: the claims are of banks at random, as in Table I. \
            The rows of one bank are a limit.",
    );
    Ok(outcome)
}

/// The figure with the programs in one layout.
fn under(
    context: &Context,
    outcome: &mut Outcome,
    base: &Base,
    name: &str,
) -> Result<(), ExperimentError> {
    let slowdown = (base.corun_ps as f64 / base.solo_ps as f64 - 1.0) * 100.0;
    if !base.one_bank {
        outcome.claim(
            "without budgets bitmnp slows pntrch, in %",
            Paper::number(47.6, 0.0, "section V"),
            slowdown,
            Mutation::Quiet,
            format!("{slowdown:.1} %; above 23.8 % it would miss its deadline"),
        );
    }
    let all: Vec<(u64, bool)> = MARGINS.iter().flat_map(|&m| [(m, false), (m, true)]).collect();
    let found =
        points(context, &all, |&(margin, reclaim)| measure(context, base, margin, reclaim))?;
    for (margin, pair) in MARGINS.iter().zip(found.chunks(2)) {
        let percent = |f: &Found| f.response_ps as f64 / base.solo_ps as f64 * 100.0;
        let (p, r) = (&pair[0], &pair[1]);
        let gain = p.normalised / r.normalised;
        let margin_percent = *margin as f64 / 10.0;
        let budget = base.budget(*margin);
        outcome.table.push(row![
            name,
            margin_percent,
            budget,
            p.normalised,
            r.normalised,
            gain,
            percent(p),
            percent(r)
        ]);
    }
    if !base.one_bank {
        judge(outcome, &found);
    }
    draw(outcome, name, &found);
    Ok(())
}

fn judge(outcome: &mut Outcome, found: &[Found]) {
    let late: u64 = found.iter().map(|f| f.misses).sum();
    outcome.claim(
        "with budgets it meets every deadline, with reclamation and without (missed deadlines)",
        Paper::less(1.0, "section IV"),
        late as f64,
        Mutation::Unregulated,
        format!("{late} jobs missed it"),
    );
    let gains: Vec<f64> =
        found.chunks(2).map(|pair| pair[0].normalised / pair[1].normalised).collect();
    outcome.claim(
        "the larger the margin, the larger the gain of reclamation (the least step)",
        Paper::more(1.0, "section V-A, Fig. 3"),
        gains.windows(2).map(|w| w[1] / w[0]).fold(gains[0], f64::min),
        Mutation::NoReclaim,
        format!(
            "{:.2} times faster at the least margin, {:.2} at the largest",
            gains[0],
            gains[gains.len() - 1]
        ),
    );
    outcome.claim(
        "for large margins it is substantial (at the largest; above twice as fast)",
        Paper::more(2.0, "section V-A, Fig. 3"),
        gains[gains.len() - 1],
        Mutation::NoReclaim,
        format!("{:.2} times", gains[gains.len() - 1]),
    );
}

fn draw(outcome: &mut Outcome, name: &str, found: &[Found]) {
    let line = |which: usize| -> Vec<(f64, f64)> {
        let points = MARGINS.iter().zip(found.chunks(2));
        points.map(|(&m, pair)| (m as f64 / 10.0, pair[which].normalised)).collect()
    };
    outcome.charts.push(Chart::lines(
        &format!("{name}: bitmnp on the soft cores"),
        "safety margin of pntrch, % of its time alone",
        "execution time, 1 = alone",
        vec![Series::new("periodic budgets", line(0)), Series::new("with reclamation", line(1))],
    ));
}

/// Approximate time of a job alone, ps.
fn wcet_ps(context: &Context) -> u64 {
    context.pick(MS / 2, 5 * MS)
}

/// pntrch on core 0, bitmnp on the soft cores.
fn programs(
    context: &Context,
    soft: &[usize],
    one_bank: bool,
) -> Result<solocore_sim::board::Board, ExperimentError> {
    let (_, mut board) = board(context)?;
    let place = |which, core| layout(context, which, core, one_bank);
    benchmark(&mut board, BENCHMARKS[PNTRCH], (0, wcet_ps(context)), &place(PNTRCH, 0))?;
    for &core in soft {
        let banks = place(BITMNP, core);
        benchmark(&mut board, BENCHMARKS[BITMNP], (core, wcet_ps(context)), &banks)?;
    }
    Ok(board)
}

fn base(context: &Context, one_bank: bool) -> Result<Base, ExperimentError> {
    let time = context.pick(20, 40) * wcet_ps(context);
    let run = |soft: &[usize]| {
        requests(context, programs(context, soft, one_bank)?, KernelConfig::default(), time)
    };
    let (solo, corun) = (run(&[])?, run(&SOFT)?);
    let (mean_ps, longest_ps) =
        (corun.tasks[0].execution.mean_ps(), corun.tasks[0].execution.max_ps());
    let accesses = accesses(&corun);
    let place = layout(context, BITMNP, SOFT[0], one_bank);
    Ok(Base {
        one_bank,
        solo_ps: solo.tasks[0].execution.max_ps(),
        corun_ps: mean_ps,
        longest_ps,
        soft: accesses as f64 * longest_ps as f64 / corun.simulated_ps as f64,
        speed: alone(context, BENCHMARKS[BITMNP], wcet_ps(context), &place)?,
    })
}

/// Accesses by the soft cores.
fn accesses(result: &KernelResult) -> u64 {
    result.tasks[1..].iter().map(|t| t.counters.accesses).sum()
}

fn measure(
    context: &Context,
    base: &Base,
    margin: u64,
    reclaim: bool,
) -> Result<Found, ExperimentError> {
    let mut board = programs(context, &SOFT, base.one_bank)?;
    let reclaim = reclaim && !context.mutated(Mutation::NoReclaim);
    let (period_ps, accesses) = (base.period_ps(), base.budget(margin));
    let cores = board.platform().cores as usize;
    let hard = board.task(0);
    hard.release = Release::Periodic { period_ps, phase_ps: 0, jitter_ps: 0 };
    hard.deadline_ps = Some(period_ps);
    hard.budget = reclaim.then_some(TaskBudget { accesses, length_ps: period_ps });
    let regulator = if reclaim {
        RegulatorSpec::Dynamic { hard: vec![0], soft: SOFT.to_vec() }
    } else {
        RegulatorSpec::static_periodic(cores, &SOFT, accesses, period_ps)
    };
    let kernel = KernelConfig { regulator, ..KernelConfig::default() };
    let r = requests(context, board, kernel, context.pick(20, 60) * period_ps)?;
    let speeds = r.tasks[1..].iter().map(|t| speed(&t.counters, r.simulated_ps));
    Ok(Found {
        normalised: base.speed * SOFT.len() as f64 / speeds.sum::<f64>(),
        response_ps: r.tasks[0].response.max_ps(),
        misses: r.tasks[0].deadline_misses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_fills_what_the_margin_leaves() {
        let (solo_ps, corun_ps, longest_ps) = (MS, 5 * MS / 4, 3 * MS / 2);
        let base = Base { one_bank: true, solo_ps, corun_ps, longest_ps, soft: 1000.0, speed: 1.0 };
        // 500 ns an access; 23.8 % less 3.8 % of a millisecond are 400 accesses, a quarter for each
        // core.
        assert_eq!((base.budget(38), base.period_ps()), (100, 1_238_000_000));
        assert_eq!(base.budget(238), 1);
    }
}
