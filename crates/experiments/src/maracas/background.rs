//! MARACAS Fig. 4: progress with and without background scheduling.
//!
//! Set-up: section VI-A. compress, adpcm, fir and matmult on one core, each on a VCPU of capacity C
//! and a period of 100 ms, for five minutes; `vcpu` without background time, `vcpu + bg` with it.

use super::setup::{SECOND, board, fluid, scheduled, vcpu};
use crate::run::points;
use crate::{Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Table, row};
use solocore_sim::kernel::config::SchedulerSpec;
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::{Compute, Kernel};

pub const FIG4: Experiment = Experiment {
    id: "maracas-fig4",
    source: "MARACAS Fig. 4",
    title: "Instructions of four programs on one core, with and without background scheduling",
    run,
};

const PROGRAMS: [(&str, Kernel); 4] = [
    ("compress", Kernel::Compress),
    ("adpcm", Kernel::Adpcm),
    ("fir", Kernel::Fir),
    ("matmult", Kernel::Matmult),
];

/// Capacities in ms: the text names none; the largest keeps four VCPUs below the rate-monotonic
/// bound.
const CAPACITIES: [u64; 4] = [3, 6, 12, 18];

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let cases: Vec<(u64, bool)> =
        CAPACITIES.iter().flat_map(|&c| [(c, false), (c, true)]).collect();
    let found =
        points(context, &cases, |&(capacity, background)| measure(context, capacity, background))?;
    let mut table = Table::new(&["capacity_ms", "case", "program", "instructions_1e9"]);
    for (&(capacity, background), values) in cases.iter().zip(&found) {
        for ((name, _), value) in PROGRAMS.iter().zip(values) {
            table.push(row![
                capacity,
                if background { "vcpu + bg" } else { "vcpu" },
                *name,
                *value
            ]);
        }
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, &found);
    draw(&mut outcome, &cases, &found);
    outcome.differs(
        "The text does not name the capacities of the figure; 3, 6, 12 and 18 ms are assumed.",
    );
    outcome.differs(
        "The programs are access patterns like those of the suite, with working sets in \
            the private caches.",
    );
    Ok(outcome)
}

/// Instructions of each program in 10^9.
fn measure(
    context: &Context,
    capacity: u64,
    background: bool,
) -> Result<Vec<f64>, ExperimentError> {
    let mut board = board(context)?;
    for (at, (name, program)) in PROGRAMS.into_iter().enumerate() {
        let spec = WorkloadSpec::Compute(Compute { program, ..Compute::default() });
        let task = board.add(name, &spec)?;
        board.task(task).vcpu = Some(at);
    }
    let mut kernel = scheduled(vec![vcpu(capacity, 100, 0); 4], None);
    if let (SchedulerSpec::Vcpu(config), false) = (&mut kernel.scheduler, background) {
        config.background = None;
    }
    let result = fluid(context, board, kernel, context.pick(20, 300) * SECOND)?;
    Ok(result.tasks.iter().map(|t| t.counters.compute_cycles as f64 / 1e9).collect())
}

/// Largest over smallest.
fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().fold(0.0, f64::max) / values.fold(f64::INFINITY, f64::min)
}

fn judge(outcome: &mut Outcome, found: &[Vec<f64>]) {
    let without: Vec<&Vec<f64>> = found.iter().step_by(2).collect();
    let with: Vec<&Vec<f64>> = found.iter().skip(1).step_by(2).collect();
    let pairs = with.iter().zip(&without).flat_map(|(a, b)| a.iter().zip(b.iter()));
    let least = pairs.map(|(a, b)| a / b).fold(f64::INFINITY, f64::min);
    outcome.claim(
        "background scheduling improves progress in every case (the least quotient)",
        Paper::more(1.0, "section VI-A, Fig. 4"),
        least,
        Mutation::NoBackground,
        format!("by {least:.2} times at least"),
    );
    let across = (0..PROGRAMS.len()).map(|p| spread(with.iter().map(|v| v[p]))).fold(0.0, f64::max);
    outcome.claim(
        "with it, the instructions of each program are approximately equal for different C (the \
            largest over the smallest; below 1.05)",
        Paper::less(1.05, "section VI-A, Fig. 4"),
        across,
        Mutation::NoBackground,
        format!("{across:.3} at most"),
    );
    let between = with.iter().map(|v| spread(v.iter().copied())).fold(0.0, f64::max);
    outcome.claim(
        "background time is shared fairly between the programs (the largest over the smallest; \
            below 1.1)",
        Paper::less(1.1, "section VI-A, Fig. 4"),
        between,
        Mutation::KeptBackground,
        format!("{between:.3} at most"),
    );
    let (first, last) = (without[0][0], without[without.len() - 1][0]);
    outcome.untestable(
        "greater C raises the instructions that a VCPU has by its guarantee",
        "section VI-A, Fig. 4",
        &format!(
            "without background time they are the capacity times the clock; compress {first:.1} to \
                {last:.1} 10^9"
        ),
    );
}

fn draw(outcome: &mut Outcome, cases: &[(u64, bool)], found: &[Vec<f64>]) {
    for wanted in [false, true] {
        let of = |p: usize| {
            let ours = cases.iter().zip(found).filter(|((_, bg), _)| *bg == wanted);
            ours.map(|(_, v)| Some(v[p])).collect::<Vec<_>>()
        };
        let series =
            PROGRAMS.iter().enumerate().map(|(p, (name, _))| ((*name).to_owned(), of(p))).collect();
        let groups = CAPACITIES.iter().map(|c| format!("C = {c} ms")).collect();
        let title = if wanted { "vcpu + bg" } else { "vcpu" };
        outcome.charts.push(Chart::bars(
            &format!("Instructions retired, {title}"),
            "instructions, 10^9",
            groups,
            series,
        ));
    }
}
