//! MARACAS Figs. 9 and 10: misses of `mwalk` with a shared cache and with page colours of each
//! core.
//!
//! Set-up: section VI-D. `mwalk` writes the 4-byte elements of its array in pseudo-random order, 40
//! cycles each. The text says that with 2 MB it may use up its budget of 6 ms before it has been
//! through the array, which is 38 cycles a write. Then 15 hogs started a second apart, C and D as
//! in Fig. 8, then `mwalk` (1 MB; C = 6 ms, T = 100 ms) for ten minutes, VCPU load balancing on.
//! `share`: no colours. `c0`, `c6`: colours 4 : 4 : 10 : 14 of 32 on the four cores; `mwalk` asks
//! for none, or for six. Pages follow a VCPU to the colours of its core within 100 ms.

use super::balancing::random;
use super::setup::{board, scheduled};
use crate::run::{MS, intervals, points, ratio};
use crate::{Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Table, row};
use solocore_model::{Bytes, Cycles};
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::hardware::ProgramId;
use solocore_sim::kernel::config::{Balancing, SchedulerSpec, VcpuSpec};
use solocore_sim::kernel::{KernelConfig, KernelError, Observer, RunMode};
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::{Hog, Synthetic};

pub const FIG9: Experiment = Experiment {
    id: "maracas-fig9",
    source: "MARACAS Fig. 9",
    title: "LLC miss ratio of mwalk: shared cache, colours without and with a request",
    run: fig9,
};

pub const FIG10: Experiment = Experiment {
    id: "maracas-fig10",
    source: "MARACAS Fig. 10",
    title: "LLC miss ratio of mwalk with working sets of 0.5, 1 and 2 MB",
    run: fig10,
};

const SETS: u64 = 10;
const HOGS: usize = 15;
const CORES: usize = 4;
/// Colours of each core, of 32.
const COLOURS: [u64; CORES] = [4, 4, 10, 14];

#[derive(Clone, Copy)]
struct Case {
    set: u64,
    kib: u64,
    /// Colours that `mwalk` asks for; `None`: the cache is shared.
    colours: Option<u64>,
}

/// Last core of each task.
struct Places {
    core: Vec<Option<usize>>,
}

impl Observer for Places {
    fn dispatched(&mut self, core: usize, task: Option<usize>, _: RunMode, _: u64) {
        if let Some(task) = task {
            self.core[task] = Some(core);
        }
    }
}

/// The colours of a core, in the board's numbers.
pub fn own(core: usize, all: u64) -> Vec<u32> {
    let first: u64 = COLOURS[..core].iter().sum();
    let scale = all / 32;
    (first * scale..(first + COLOURS[core]) * scale).filter_map(|c| u32::try_from(c).ok()).collect()
}

/// `mwalk`: one of the 16 elements of any line at a time.
fn mwalk(kib: u64) -> WorkloadSpec {
    WorkloadSpec::Synthetic(Synthetic {
        size: Bytes(kib << 10),
        gap: Cycles(40),
        ..Synthetic::default()
    })
}

/// The system, and whether colours are used.
fn build(
    context: &Context,
    case: Case,
    minute_ms: u64,
) -> Result<(Board, KernelConfig), ExperimentError> {
    let mut board = board(context)?;
    let all = board.config.layout().map_err(BoardError::from)?.colours();
    let mut state = context.seed.wrapping_mul(0x1000).wrapping_add(0x100 + case.set);
    let mut vcpus = Vec::new();
    for task in 0..=HOGS {
        let is_hog = task < HOGS;
        let spec = if is_hog { WorkloadSpec::Hog(Hog::default()) } else { mwalk(case.kib) };
        // First in the colours of some core, all four in use; they follow the VCPU at once. mwalk
        // is measured in the most.
        let core = if is_hog { task % CORES } else { CORES - 1 };
        let place = if case.colours.is_some() {
            Place::default().colours(&own(core, all))
        } else {
            Place::default()
        };
        let index = board.add_at(if is_hog { "hog" } else { "mwalk" }, &spec, &place)?;
        let (capacity, duration) =
            (1 + random(&mut state, 14), 2 * minute_ms + random(&mut state, 9 * minute_ms));
        let t = board.task(index);
        (t.vcpu, t.start_ps) = (Some(task), task as u64 * (minute_ms * MS / 60));
        t.stop_ps = is_hog.then(|| t.start_ps + duration * MS);
        let capacity_ps = if is_hog { capacity } else { 6 } * MS;
        let colours = if is_hog { 0 } else { case.colours.unwrap_or(0) };
        vcpus.push(VcpuSpec { capacity_ps, period_ps: 100 * MS, core: None, colours });
    }
    let mut kernel = scheduled(vcpus, None);
    if let SchedulerSpec::Vcpu(config) = &mut kernel.scheduler {
        config.balancing = Balancing::Full { limit: 1 };
        config.colours = case.colours.map(|_| COLOURS.to_vec());
    }
    Ok((board, kernel))
}

/// Misses per reference of `mwalk` at the shared cache.
fn measure(context: &Context, case: Case) -> Result<f64, ExperimentError> {
    let shared = context.mutated(Mutation::SharedCache);
    let case = Case { colours: case.colours.filter(|_| !shared), ..case };
    // Quick: a minute is six seconds.
    let minute_ms: u64 = context.pick(6_000, 60_000);
    let (board, kernel) = build(context, case, minute_ms)?;
    let mut kernel = intervals(context, board, kernel)?;
    let mut places = Places { core: vec![None; HOGS + 1] };
    let mut homes: Vec<Option<usize>> = vec![None; HOGS + 1];
    let end_ps = 10 * minute_ms * MS + minute_ms * MS / 4;
    for step in 1..=end_ps / (100 * MS) {
        let mut go_on = |_| (context.progress)(f64::NAN);
        kernel
            .run(step * 100 * MS, &mut places, &mut go_on)
            .map_err(|e: KernelError| BoardError::from(e))?;
        if case.colours.is_none() {
            continue;
        }
        for (task, home) in homes.iter_mut().enumerate() {
            if let (true, Some(core)) = (*home != places.core[task], places.core[task]) {
                *home = Some(core);
                let program = ProgramId(u32::try_from(task).unwrap_or(u32::MAX));
                // Parts of the cache are numbered as the first four hogs took them: by core.
                kernel.hardware_mut().relocate(program, core).map_err(BoardError::from)?;
            }
        }
    }
    let result = kernel.finish(&mut places);
    let counters = result.tasks[HOGS].counters;
    Ok(ratio(counters.llc_misses, counters.llc_accesses))
}

fn sets() -> Vec<String> {
    (0..SETS).map(|s| format!("t{s}")).collect()
}

fn table(name: &str, cases: &[Case], labels: &[&str], found: &[f64]) -> Table {
    let mut table = Table::new(&["set", name, "llc_miss_ratio"]);
    for (at, (case, ratio)) in cases.iter().zip(found).enumerate() {
        table.push(row![format!("t{}", case.set), labels[at % labels.len()], *ratio]);
    }
    table
}

fn column(found: &[f64], at: usize) -> Vec<f64> {
    found.iter().skip(at).step_by(3).copied().collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn chart(title: &str, labels: &[&str; 3], found: &[f64]) -> Chart {
    let bars = |at: usize| column(found, at).into_iter().map(Some).collect::<Vec<_>>();
    let series =
        labels.iter().enumerate().map(|(at, label)| ((*label).to_owned(), bars(at))).collect();
    Chart::bars(title, "LLC misses per reference", sets(), series)
}

fn differs(outcome: &mut Outcome) {
    outcome.differs(
        "Misses are counted from the start of mwalk to the end, in whole intervals; recolouring \
            costs no time.",
    );
    outcome.differs(
        "How fast mwalk and hog go is not stated: 40 cycles a write, at which 2 MB \
        take about the budget, and one a number.",
    );
}

fn fig9(context: &Context) -> Result<Outcome, ExperimentError> {
    let colours = [None, Some(0), Some(6)];
    let cases: Vec<Case> =
        (0..SETS).flat_map(|set| colours.map(|colours| Case { set, kib: 1024, colours })).collect();
    let found = points(context, &cases, |&case| measure(context, case))?;
    let labels = ["share", "c0", "c6"];
    let mut outcome = Outcome::new(table("case", &cases, &labels, &found));
    let [share, c0, c6] = [0, 1, 2].map(|at| column(&found, at));
    let said =
        format!("means: share {:.3}, c0 {:.3}, c6 {:.3}", mean(&share), mean(&c0), mean(&c6));
    let each = share.iter().zip(&c6).map(|(s, c)| s / c).fold(f64::INFINITY, f64::min);
    outcome.claim(
        "a shared cache misses more than c6 in every set (the least quotient)",
        Paper::more(1.0, "section VI-D, Fig. 9"),
        each,
        Mutation::SharedCache,
        said.clone(),
    );
    let sets = |of: &dyn Fn(usize) -> bool| (0..share.len()).filter(|&at| of(at)).count() as f64;
    let half = share.len() as f64 / 2.0;
    outcome.claim(
        "a shared cache has a very high ratio (sets in which it is the highest; above half)",
        Paper::more(half, "section VI-D, Fig. 9"),
        sets(&|at| share[at] > c0[at] && share[at] > c6[at]),
        Mutation::SharedCache,
        said.clone(),
    );
    outcome.claim(
        "in general c6 is best (sets in which it is; above half)",
        Paper::more(half, "section VI-D, Fig. 9"),
        sets(&|at| c6[at] < c0[at] && c6[at] < share[at]),
        Mutation::SharedCache,
        said.clone(),
    );
    outcome.claim(
        "c0 does not always perform well (sets in which it misses more than c6 by a fifth)",
        Paper::at_least(3.0, 0.0, "section VI-D: for example t3, t4 and t6"),
        sets(&|at| c0[at] > 1.2 * c6[at]),
        Mutation::SharedCache,
        said,
    );
    outcome.charts.push(chart("mwalk of 1 MB", &labels, &found));
    differs(&mut outcome);
    Ok(outcome)
}

fn fig10(context: &Context) -> Result<Outcome, ExperimentError> {
    // Colours that hold the array: 6 MB in 32 colours.
    let sizes = [(512, 3), (1024, 6), (2048, 11)];
    let case = |set: u64| sizes.map(|(kib, colours)| Case { set, kib, colours: Some(colours) });
    let cases: Vec<Case> = (0..SETS).flat_map(case).collect();
    let found = points(context, &cases, |&case| measure(context, case))?;
    let labels = ["0.5 MB", "1 MB", "2 MB"];
    let mut outcome = Outcome::new(table("working_set", &cases, &labels, &found));
    let [half, one, two] = [0, 1, 2].map(|at| mean(&column(&found, at)));
    outcome.claim(
        "the larger the working set, the more mwalk misses (the lesser quotient of the means)",
        Paper::more(1.0, "section VI-D, Fig. 10"),
        (one / half).min(two / one),
        Mutation::Quiet,
        format!("0.5 MB {half:.3}, 1 MB {one:.3}, 2 MB {two:.3}"),
    );
    outcome.charts.push(chart("mwalk with the colours that it needs", &labels, &found));
    differs(&mut outcome);
    Ok(outcome)
}
