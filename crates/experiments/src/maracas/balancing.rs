//! MARACAS Fig. 8: background progress of two tasks with VCPUs that stay, and with VCPU load
//! balancing.
//!
//! Set-up: section VI-C. 16 compress tasks, started a second apart, C of 1 to 14 ms, T = 100 ms, D
//! of 2 to 11 minutes; task1 and task2 run to the end. Ten sets of parameters, each run with the
//! initial placement (`FIND_HOST_CPU`) alone and with all of Algorithm 2, ten minutes from when all
//! tasks are there.

use super::setup::{SECOND, board, fluid, scheduled};
use crate::run::{MS, points};
use crate::{Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Table, row};
use solocore_sim::kernel::config::{Balancing, SchedulerSpec, VcpuSpec};
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::{Compute, Kernel};

pub const FIG8: Experiment = Experiment {
    id: "maracas-fig8",
    source: "MARACAS Fig. 8",
    title: "Background instructions of task1 and task2, static and with load balancing",
    run,
};

const SETS: u64 = 10;
const TASKS: usize = 16;

/// Capacity in ms and duration in seconds of a minute's scale.
struct Parameters {
    capacities_ms: Vec<u64>,
    durations_ms: Vec<u64>,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let cases: Vec<(u64, bool)> = (0..SETS).flat_map(|set| [(set, false), (set, true)]).collect();
    let found = points(context, &cases, |&(set, full)| measure(context, set, full))?;
    let mut table =
        Table::new(&["set", "group", "task1_background_1e9", "task2_background_1e9", "migrations"]);
    for (&(set, full), (progress, moves)) in cases.iter().zip(&found) {
        let group = if full { "VLB" } else { "static" };
        table.push(row![format!("k{set}"), group, progress[0], progress[1], *moves]);
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, &found);
    let groups: Vec<String> = (0..SETS).map(|s| format!("k{s}")).collect();
    let series = |task: usize, at: usize| {
        found.iter().skip(at).step_by(2).map(|f| Some(f.0[task])).collect::<Vec<_>>()
    };
    for (at, name) in ["static", "VLB"].into_iter().enumerate() {
        let bars = vec![("task1".to_owned(), series(0, at)), ("task2".to_owned(), series(1, at))];
        let title = format!("Instructions in the background, {name}");
        outcome.charts.push(Chart::bars(&title, "instructions, 10^9", groups.clone(), bars));
    }
    outcome.differs(
        "Background instructions are counted from the first task's start, 15 seconds \
            before all are there.",
    );
    Ok(outcome)
}

/// A number of 0 to `range - 1` from a seed (splitmix64).
pub fn random(state: &mut u64, range: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % range
}

fn parameters(seed: u64, set: u64, minute_ms: u64) -> Parameters {
    let mut state = seed.wrapping_mul(0x1000).wrapping_add(set);
    let capacities_ms = (0..TASKS).map(|_| 1 + random(&mut state, 14)).collect();
    let durations_ms =
        (0..TASKS).map(|_| 2 * minute_ms + random(&mut state, 9 * minute_ms)).collect();
    Parameters { capacities_ms, durations_ms }
}

/// Background instructions of task1 and task2 in 10^9, and VCPUs that moved.
fn measure(context: &Context, set: u64, full: bool) -> Result<([f64; 2], u64), ExperimentError> {
    // Quick: a minute is six seconds.
    let minute_ms: u64 = context.pick(6_000, 60_000);
    let parameters = parameters(context.seed, set, minute_ms);
    let mut board = board(context)?;
    let mut vcpus = Vec::new();
    for task in 0..TASKS {
        let spec =
            WorkloadSpec::Compute(Compute { program: Kernel::Compress, ..Compute::default() });
        let index = board.add(&format!("compress {task}"), &spec)?;
        let start_ps = task as u64 * (minute_ms * MS / 60);
        let t = board.task(index);
        (t.vcpu, t.start_ps) = (Some(task), start_ps);
        // The last two are task1 and task2: they run all the time.
        t.stop_ps = (task < TASKS - 2).then(|| start_ps + parameters.durations_ms[task] * MS);
        let capacity_ps = parameters.capacities_ms[task] * MS;
        vcpus.push(VcpuSpec { capacity_ps, period_ps: 100 * MS, core: None, colours: 0 });
    }
    let mut kernel = scheduled(vcpus, None);
    if let (SchedulerSpec::Vcpu(config), true) = (&mut kernel.scheduler, full) {
        config.balancing = Balancing::Full { limit: 1 };
    }
    let ps = 10 * minute_ms * MS + minute_ms * MS / 4;
    debug_assert!(ps < 1000 * SECOND);
    let result = fluid(context, board, kernel, ps)?;
    let progress = [TASKS - 2, TASKS - 1].map(|t| {
        let task = &result.tasks[t];
        (task.counters.compute_cycles - task.foreground.compute_cycles) as f64 / 1e9
    });
    Ok((progress, result.vcpu_migrations))
}

/// Largest less smallest, over the mean.
fn spread(values: &[f64]) -> f64 {
    let (low, high) =
        values.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &v| (l.min(v), h.max(v)));
    (high - low) * values.len() as f64 / values.iter().sum::<f64>()
}

fn judge(outcome: &mut Outcome, found: &[([f64; 2], u64)]) {
    let group = |at: usize, task: usize| {
        found.iter().skip(at).step_by(2).map(|f| f.0[task]).collect::<Vec<_>>()
    };
    for task in 0..2 {
        let (still, moved) = (spread(&group(0, task)), spread(&group(1, task)));
        outcome.claim(
            &format!(
                "task{}: progress varies less over the sets with load balancing (its spread over \
                    the static one)",
                task + 1
            ),
            Paper::less(1.0, "section VI-C, Fig. 8"),
            moved / still,
            Mutation::Unbalanced,
            format!("largest less smallest over the mean: {moved:.2} with VLB, {still:.2} static"),
        );
    }
    let gap = |at: usize| {
        let gaps = found
            .iter()
            .skip(at)
            .step_by(2)
            .map(|f| (f.0[0] - f.0[1]).abs() / (f.0[0] + f.0[1]) * 2.0);
        gaps.sum::<f64>() * 2.0 / found.len() as f64
    };
    let (still, moved) = (gap(0), gap(1));
    outcome.claim(
        "the two tasks of a set progress more alike with load balancing (the mean difference over \
            the static one)",
        Paper::less(1.0, "section VI-C, Fig. 8"),
        moved / still,
        Mutation::Unbalanced,
        format!("mean difference over their mean: {moved:.2} with VLB, {still:.2} static"),
    );
}
