//! SCE Fig. 1: delay spikes of a task beside memory-intensive tasks, unmanaged and under
//! single-core equivalence.
//!
//! Set-up (the paper names neither task nor sizes; assumed): a job of the task on core 0 reads 512
//! KiB of input line after line. Then it follows pointers 16 times (quick: 8) through 256 KiB, 20
//! cycles an access. All of it fits the shared cache of 2 MiB. Only lines in use fit the private
//! ones. Unmanaged: pages anywhere, the cache shared. SCE (section 3.1): each core its own banks
//! and 4 of the 32 ways. The task's are locked and hold the 256 KiB; the input is not cached.
//! MemGuard splits the guaranteed bandwidth evenly over the `m` active cores.

use super::setup::{Job, Jobs, c_sce, hog, memguard, one_job, own_banks, regulation};
use crate::run::{MS, finish, machine, ms, platform, points};
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_model::{Bytes, Cycles};
use solocore_sim::board::{Board, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::program::PageKind;
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::{Pattern, Phases, Section};

pub const FIG1: Experiment = Experiment {
    id: "sce-fig1",
    source: "SCE Fig. 1",
    title: "Execution time against the number of active cores, unmanaged and under SCE",
    run,
};

const HOT: u64 = 256 << 10;
const INPUT: u64 = 512 << 10;
const GAP: u64 = 20;
const LINE: u64 = 64;
/// Ways of each core under SCE: 32 ways, 8 cores.
const WAYS: u32 = 4;

struct Point {
    active: u32,
    managed: bool,
}

/// A bar of the figure.
struct Bar {
    worst_ps: u64,
    transactions: u64,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let active: &[u32] = context.pick(&[1, 2, 7, 8], &[1, 2, 3, 4, 5, 6, 7, 8]);
    let bars = |managed| active.iter().map(move |&active| Point { active, managed });
    let all: Vec<Point> = bars(false).chain(bars(true)).collect();
    let found = points(context, &all, |p| {
        if p.managed { managed(context, p.active) } else { unmanaged(context, p.active) }
    })?;
    let (free, sce) = found.split_at(active.len());
    let solo = Job { execution_ps: sce[0].worst_ps, transactions: sce[0].transactions };
    let platform = platform("p4080")?;
    let bounds: Vec<u64> =
        active.iter().map(|&m| c_sce(context, &regulation(&platform, m), solo)).collect();
    let mut table = Table::new(&[
        "active_cores",
        "unmanaged_ms",
        "sce_ms",
        "c_sce_ms",
        "sce_transactions",
        "sce_budget_per_ms",
    ]);
    for (at, &m) in active.iter().enumerate() {
        let budget = regulation(&platform, m).even_budget();
        table.push(row![
            m,
            ms(free[at].worst_ps),
            ms(sce[at].worst_ps),
            ms(bounds[at]),
            sce[at].transactions,
            budget
        ]);
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, active, free, sce, &bounds);
    Ok(outcome)
}

/// A job reads its input and works on the data that it keeps.
fn task(
    context: &Context,
    board: &mut Board,
    input: &Place,
    hot: &Place,
) -> Result<(), ExperimentError> {
    let section = |region: &str, size: u64, accesses: u64, pattern| Section {
        name: region.to_owned(),
        region: region.to_owned(),
        size: Bytes(size),
        accesses,
        cycles: Cycles(accesses * GAP),
        pattern,
        ..Section::default()
    };
    let sections = vec![
        section("input", INPUT, INPUT / LINE, Pattern::Sequential),
        section("hot", HOT, context.pick(8, 16) * HOT / LINE, Pattern::Chase),
    ];
    let spec = WorkloadSpec::Phases(Phases {
        sections,
        job: Some(solocore_sim::workload::Job::Passes(1)),
    });
    let regions = [("input", input.clone()), ("hot", hot.clone())];
    let task = board.add_regions("task", &spec, input, &regions)?;
    board.task(task).core = Some(0);
    Ok(())
}

/// Jobs back to back; the first one, with empty caches, does not count.
fn unmanaged(context: &Context, active: u32) -> Result<Bar, ExperimentError> {
    let mut board = Board::new(&platform("p4080")?, context.seed)?;
    task(context, &mut board, &Place::default(), &Place::default())?;
    for core in 1..active {
        hog(&mut board, core, &Place::default())?;
    }
    let mut kernel = machine(context, board, KernelConfig::default())?;
    let (mut jobs, mut stop) = (Jobs::default(), |_| (context.progress)(f64::NAN));
    let wanted = context.pick(2, 6);
    while jobs.0.len() < wanted && kernel.now_ps() < 10_000 * MS {
        let until = kernel.now_ps() + MS;
        kernel.run(until, &mut jobs, &mut stop).map_err(solocore_sim::BoardError::from)?;
    }
    let result = finish(context, kernel, 0, &mut jobs)?;
    let count = jobs.0.len().max(1) as u64;
    let transactions = result.tasks[0].counters.transactions() / count;
    Ok(Bar { worst_ps: jobs.0.iter().skip(1).copied().max().unwrap_or(0), transactions })
}

/// Jobs at several points of the regulation period.
fn managed(context: &Context, active: u32) -> Result<Bar, ExperimentError> {
    let platform = platform("p4080")?;
    let mut jobs = Vec::new();
    for index in 0..context.pick(2, 8) {
        let mut board = Board::new(&platform, context.seed)?;
        let own = Place::banks(&own_banks(&platform, 0));
        task(
            context,
            &mut board,
            &own.clone().kind(PageKind::Bypass),
            &own.kind(PageKind::Locked),
        )?;
        for core in 1..active {
            let hog = hog(&mut board, core, &Place::banks(&own_banks(&platform, core)))?;
            board.space(hog).ways = ((1 << WAYS) - 1) << (WAYS * core);
        }
        jobs.push(one_job(
            context,
            board,
            memguard(&regulation(&platform, active), platform.cores),
            index,
        )?);
    }
    let worst = Job::worst(&jobs);
    Ok(Bar { worst_ps: worst.execution_ps, transactions: worst.transactions })
}

fn judge(outcome: &mut Outcome, active: &[u32], free: &[Bar], sce: &[Bar], bounds: &[u64]) {
    let alone = free[0].worst_ps as f64;
    let (peak_at, peak) = free
        .iter()
        .enumerate()
        .max_by_key(|(_, b)| b.worst_ps)
        .map_or((0, 0), |(at, b)| (at, b.worst_ps));
    let spike = peak as f64 / alone;
    outcome.claim(
        "unmanaged, the longest execution time is a multiple of that alone",
        Paper::number(6.0, 1.0, "section 1"),
        spike,
        Mutation::Quiet,
        format!(
            "{:.2} ms alone, at most {spike:.1} times that, with {} active cores",
            alone / 1e9,
            active[peak_at]
        ),
    );
    let most = f64::from(active[active.len() - 1]);
    outcome.claim(
        "unmanaged, the longest time is not that with all cores: it peaks with 7 of 8 active",
        Paper::number(7.0, most, "section 1"),
        f64::from(active[peak_at]),
        Mutation::Quiet,
        format!("the peak is at {} of {most:.0}", active[peak_at]),
    );
    let last = sce.len() - 1;
    outcome.claim(
        "under SCE the time with all cores active is much shorter (below half of the unmanaged)",
        Paper::less(0.5, "section 1, Fig. 1"),
        sce[last].worst_ps as f64 / free[last].worst_ps as f64,
        Mutation::Quiet,
        format!("{:.2} ms against {:.2} ms", ms(sce[last].worst_ps), ms(free[last].worst_ps)),
    );
    let step = |w: &[Bar]| w[1].worst_ps as f64 / w[0].worst_ps as f64;
    outcome.claim(
        "under SCE the time rises with each active core (the least step)",
        Paper::more(1.0, "section 1, Fig. 1"),
        sce.windows(2).map(step).fold(f64::INFINITY, f64::min),
        Mutation::Alone,
        sce.iter().map(|b| format!("{:.2}", ms(b.worst_ps))).collect::<Vec<_>>().join(", ") + " ms",
    );
    let least = sce
        .iter()
        .zip(bounds)
        .map(|(b, &c)| c as f64 / b.worst_ps as f64)
        .fold(f64::INFINITY, f64::min);
    outcome.claim(
        "C_sce(m) bounds the measured time for every number m of active cores (the least quotient)",
        Paper::more(1.0, "section 3.2, Fig. 10"),
        least,
        Mutation::NoStall,
        format!("the bound is at least {least:.2} times the measured time"),
    );
    let line = |of: &dyn Fn(usize) -> u64| {
        active.iter().enumerate().map(|(at, &m)| (f64::from(m), ms(of(at)))).collect()
    };
    outcome.charts.push(Chart::lines(
        "P4080: worst execution time of the task on core 0",
        "active cores",
        "execution time, ms",
        vec![
            Series::new("unmanaged", line(&|at| free[at].worst_ps)),
            Series::new("SCE, measured", line(&|at| sce[at].worst_ps)),
            Series::new("C_sce(m)", line(&|at| bounds[at])),
        ],
    ));
    outcome.differs(
        "The paper's task is not known, nor are its co-runners; a task with a hot part and an \
            input stands for it.",
    );
    outcome.differs("Interrupts and the kernel's own memory accesses cost nothing here.");
    outcome.differs(
        "Here each further core adds its load, so the peak is with all eight. The paper does not \
            say why its eighth core relieves the others; its testbed is not section 4's board.",
    );
}
