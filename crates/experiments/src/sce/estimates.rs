//! SCE Fig. 10 and section 3.2: a task's time alone, measured beside memory-intensive tasks, and
//! `C_sce`; and whether the measured one holds for other software on the other cores.
//!
//! Set-up (the paper names no task): three tasks of core 0, in its own banks, whose accesses all go
//! to DRAM: a chase of pointers, a stream, and scattered accesses between computation. "Fully
//! experimental": the other seven cores run memory-intensive tasks (they write), MemGuard gives
//! each an eighth. Then the same with other software there: readers, chases, the task itself.

use super::setup::{Job, c_sce, hog, memguard, one_job, own_banks, regulation};
use crate::run::{ms, platform, points};
use crate::{Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Table, row};
use solocore_model::{Bytes, Cycles, Platform};
use solocore_sim::board::{Board, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::program::PageKind;
use solocore_sim::workload::params::{BandwidthHog, Latency, Pattern, Phases, Section};
use solocore_sim::workload::{Job as End, WorkloadSpec};

pub const FIG10: Experiment = Experiment {
    id: "sce-fig10",
    source: "SCE Fig. 10",
    title: "Three tasks alone, measured beside memory-intensive tasks, and their C_sce",
    run,
};

/// Name, pattern, accesses, cycles of an access (all assumed).
const TASKS: [(&str, Pattern, u64, u64); 3] = [
    ("pointers", Pattern::Chase, 16_000, 20),
    ("stream", Pattern::Sequential, 32_000, 10),
    ("scattered", Pattern::Random, 8_000, 300),
];
/// Bytes of a task's array: beyond the shared cache.
const ARRAY: u64 = 4 << 20;

/// Software of the other cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Alone,
    Writers,
    Readers,
    Chases,
    Same,
}

const OTHERS: [(Others, &str); 5] = [
    (Others::Alone, "alone"),
    (Others::Writers, "memory-intensive"),
    (Others::Readers, "readers"),
    (Others::Chases, "chases"),
    (Others::Same, "the same task"),
];

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let platform = platform("p4080")?;
    let all: Vec<(usize, Others)> =
        (0..TASKS.len()).flat_map(|t| OTHERS.map(|(others, _)| (t, others))).collect();
    let found = points(context, &all, |&(t, others)| measure(context, &platform, t, others))?;
    let split = regulation(&platform, platform.cores);
    let mut table = Table::new(&["task", "other_cores", "time_ms", "transactions", "c_sce_ms"]);
    let mut outcome = Outcome::new(Table::default());
    let (mut bounds, mut covers, mut bars) = (Vec::new(), Vec::new(), Vec::new());
    for (jobs, (name, ..)) in found.chunks(OTHERS.len()).zip(TASKS) {
        let bound = c_sce(context, &split, jobs[0]);
        for (job, (_, others)) in jobs.iter().zip(OTHERS) {
            table.push(row![name, others, ms(job.execution_ps), job.transactions, ms(bound)]);
        }
        let experimental = jobs[1].execution_ps as f64;
        let longest = jobs[1..].iter().map(|j| j.execution_ps).max().unwrap_or(0);
        bounds.push(bound as f64 / longest as f64);
        covers.extend(jobs[2..].iter().map(|j| experimental / j.execution_ps as f64));
        bars.push([jobs[0].execution_ps, jobs[1].execution_ps, bound].map(ms));
    }
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let (bound, cover) = (least(&bounds), least(&covers));
    outcome.claim(
        "C_sce is conservative for all three tasks (the least quotient of bound and longest time)",
        Paper::more(1.0, "section 3.2, Fig. 10"),
        bound,
        Mutation::NoStall,
        quotients(&bounds),
    );
    outcome.claim(
        "the time beside memory-intensive tasks is not exceeded when the software of the other \
            cores changes (the least quotient; above 0.99)",
        Paper::more(0.99, "section 3.2, fully experimental approach"),
        cover,
        Mutation::SameLoad,
        quotients(&covers),
    );
    outcome.table = table;
    let of = |i: usize| bars.iter().map(|b: &[f64; 3]| Some(b[i])).collect();
    let names = ["solo", "experimental", "C_sce"];
    let series = names.iter().enumerate().map(|(i, n)| ((*n).to_owned(), of(i))).collect();
    let groups = TASKS.iter().map(|t| t.0.to_owned()).collect();
    outcome.charts.push(Chart::bars(
        "P4080: three tasks on eight cores",
        "execution time, ms",
        groups,
        series,
    ));
    outcome.differs("The paper does not name its three tasks; patterns and lengths are assumed.");
    Ok(outcome)
}

fn quotients(of: &[f64]) -> String {
    of.iter().map(|q| format!("{q:.2}")).collect::<Vec<_>>().join(", ")
}

fn task(which: usize) -> WorkloadSpec {
    let (name, pattern, accesses, gap) = TASKS[which];
    let section = Section {
        name: name.to_owned(),
        region: "data".to_owned(),
        size: Bytes(ARRAY),
        accesses,
        cycles: Cycles(accesses * gap),
        pattern,
        ..Section::default()
    };
    WorkloadSpec::Phases(Phases { sections: vec![section], job: Some(End::Passes(1)) })
}

/// The worst of several jobs, at points of the regulation period.
fn measure(
    context: &Context,
    platform: &Platform,
    which: usize,
    others: Others,
) -> Result<Job, ExperimentError> {
    let same = context.mutated(Mutation::SameLoad) && others == Others::Writers;
    let others = if same { Others::Alone } else { others };
    let jobs: Result<Vec<Job>, _> = (0..context.pick(3, 12))
        .map(|index| measure_one(context, platform, which, others, index))
        .collect();
    Ok(Job::worst(&jobs?))
}

fn measure_one(
    context: &Context,
    platform: &Platform,
    which: usize,
    others: Others,
    index: u64,
) -> Result<Job, ExperimentError> {
    let mut board = Board::new(platform, context.seed)?;
    let place = |core| Place::banks(&own_banks(platform, core)).kind(PageKind::Bypass);
    let task = board.add_at("task", &task(which), &place(0))?;
    board.task(task).core = Some(0);
    if others == Others::Alone {
        return one_job(context, board, KernelConfig::default(), index);
    }
    for core in 1..platform.cores {
        neighbour(&mut board, core, others, which, &place(core))?;
    }
    let config = memguard(&regulation(platform, platform.cores), platform.cores);
    one_job(context, board, config, index)
}

fn neighbour(
    board: &mut Board,
    core: u32,
    others: Others,
    which: usize,
    place: &Place,
) -> Result<(), ExperimentError> {
    let spec = match others {
        Others::Writers | Others::Alone => {
            let hog = hog(board, core, &Place::banks(&own_banks(board.platform(), core)))?;
            board.space(hog).ways = 0;
            return Ok(());
        }
        Others::Readers => {
            WorkloadSpec::Bandwidth(BandwidthHog { size: Bytes(ARRAY), ..BandwidthHog::default() })
        }
        Others::Chases => {
            WorkloadSpec::Latency(Latency { size: Bytes(ARRAY), ..Latency::default() })
        }
        Others::Same => task(which),
    };
    let task = board.add_at(&format!("other {core}"), &spec, place)?;
    board.task(task).core = Some(core as usize);
    Ok(())
}
