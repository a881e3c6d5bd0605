//! MARACAS Fig. 2: the sync effect.
//!
//! Set-up: section IV. Two tasks on two cores may make a fixed number of memory requests in each
//! period T. Released together they exhaust their budgets together and are both idle until T: the
//! rate falls, the contention does not. The figure is a sketch; here `m_jump` makes 4000 requests
//! in each millisecond, both released at once, or half a period apart, and is compared with itself
//! without a budget. Every request is simulated.

use super::setup::{board, latency_cycles, traffic_gb};
use crate::run::{MS, points, requests};
use crate::{Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Table, row};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::kernel::config::Release;
use solocore_sim::workload::Job;
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::MJump;

pub const FIG2: Experiment = Experiment {
    id: "maracas-fig2",
    source: "MARACAS Fig. 2",
    title: "Sync effect: request budgets that are used at the same time",
    run,
};

/// Requests in a period.
const BUDGET: u64 = 4000;

/// Phase of the second task in ms/2; `None`: no budgets.
const CASES: [(&str, Option<u64>); 3] =
    [("no budgets", None), ("in phase", Some(0)), ("half a period apart", Some(MS / 2))];

struct Found {
    latency: f64,
    traffic: f64,
    /// Time from a release to the end of the budget, us.
    use_us: f64,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let found = points(context, &CASES, |&(_, phase)| measure(context, phase))?;
    let mut table =
        Table::new(&["case", "latency_cycles", "traffic_gb_per_5_min", "time_of_4000_requests_us"]);
    for ((name, _), f) in CASES.iter().zip(&found) {
        table.push(row![*name, f.latency, f.traffic, f.use_us]);
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, &found);
    let groups: Vec<String> =
        ["no budgets", "in phase", "apart"].iter().map(|&n| n.to_owned()).collect();
    let bars = |of: fn(&Found) -> f64| found.iter().map(|f| Some(of(f))).collect::<Vec<_>>();
    outcome.charts = vec![
        Chart::bars(
            "Time to make 4000 requests",
            "us",
            groups.clone(),
            vec![("time".into(), bars(|f| f.use_us))],
        ),
        Chart::bars(
            "Bus traffic",
            "GB in 5 minutes",
            groups,
            vec![("traffic".into(), bars(|f| f.traffic))],
        ),
    ];
    outcome.differs("The paper's figure is a sketch without numbers; the budget is this set-up's.");
    Ok(outcome)
}

fn measure(context: &Context, phase: Option<u64>) -> Result<Found, ExperimentError> {
    let mut board = board(context)?;
    for core in 0..2usize {
        // Beyond the cache for each task alone: every access is a request, budgets or not.
        let size = solocore_model::Bytes(4 * board.platform().llc.size.0);
        let spec = WorkloadSpec::MJump(MJump {
            size,
            job: Some(Job::Accesses(BUDGET)),
            ..MJump::default()
        });
        let task = board.add(&format!("task{}", core + 1), &spec)?;
        board.task(task).core = Some(core);
        if let Some(second) = phase {
            let second = if context.mutated(Mutation::Apart) { MS / 2 } else { second };
            let phase_ps = if core == 0 { 0 } else { second };
            board.task(task).release = Release::Periodic { period_ps: MS, phase_ps, jitter_ps: 0 };
        }
    }
    let ps = context.pick(if phase.is_some() { 80 } else { 40 }, 400) * MS;
    let result = requests(context, board, KernelConfig::default(), ps)?;
    let task = &result.tasks[0];
    let used = task.counters.busy_ps as f64 / task.counters.accesses.max(1) as f64 * BUDGET as f64;
    Ok(Found { latency: latency_cycles(&result), traffic: traffic_gb(&result), use_us: used / 1e6 })
}

fn judge(outcome: &mut Outcome, found: &[Found]) {
    let (free, same, apart) = (&found[0], &found[1], &found[2]);
    outcome.untestable(
        "in phase, the access rate falls",
        "section IV, Fig. 2",
        &format!(
            "4000 requests in each millisecond are put in; {:.0} GB in 5 minutes, {:.0} without",
            same.traffic, free.traffic
        ),
    );
    outcome.claim(
        "yet the contention in [0, t] is not reduced (the time of the requests over that without \
            budgets; above 0.9)",
        Paper::more(0.9, "section IV, Fig. 2"),
        same.use_us / free.use_us,
        Mutation::Apart,
        format!("{:.0} us for 4000 requests against {:.0}", same.use_us, free.use_us),
    );
    let alike = (apart.traffic / same.traffic - 1.0).abs() < 0.02;
    outcome.claim(
        "at the same rate, budgets that do not overlap let both tasks go faster (the quotient of \
            the times; below 0.9)",
        Paper::less(0.9, "section IV, Fig. 2"),
        if alike { apart.use_us / same.use_us } else { f64::NAN },
        Mutation::Quiet,
        format!(
            "{:.0} us apart, {:.0} in phase; {:.0} and {:.0} GB",
            apart.use_us, same.use_us, apart.traffic, same.traffic
        ),
    );
}
