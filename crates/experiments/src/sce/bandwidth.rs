//! SCE Fig. 3: misses of the last-level cache in each millisecond, without and with MemGuard; Fig.
//! 4: instructions per cycle of libquantum alone and beside a memory hog, under three regimes.
//!
//! Set-up: 462.libquantum as streaming updates in phases (the workload `libquantum`), for Fig. 4
//! beside a hog that writes line after line. The paper does not name Fig. 3's program: 10 cycles a
//! line in the fastest phase, 160 in the slowest, so that its rate lies on both sides of the
//! reservation. In Fig. 4 "the benchmark demands more than its reserved bandwidth": with 4 and 64
//! cycles it does so in all phases. Only two cores are on in Fig. 4.
//! The regulators count misses, as the paper's do on this board: 1000 MB/s are 16,384 a millisecond
//! (section 2.2), 200 MB/s 3276.

use super::setup::hog;
use crate::run::{MS, machine, platform, points};
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_model::Cycles;
use solocore_policy::UNLIMITED;
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::hardware::Hardware;
use solocore_sim::kernel::config::{Budget, RegulatorSpec, Role, Sharing};
use solocore_sim::kernel::{KernelConfig, Unobserved};
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::Libquantum;

pub const FIG3: Experiment = Experiment {
    id: "sce-fig3",
    source: "SCE Fig. 3",
    title: "Misses of the last-level cache over time, without and with MemGuard",
    run: over_time,
};

pub const FIG4: Experiment = Experiment {
    id: "sce-fig4",
    source: "SCE Fig. 4",
    title: "Instructions per cycle of libquantum alone and beside a hog, under MemGuard",
    run: isolation,
};

/// 1000 MB/s and 200 MB/s, in misses per ms.
const BUDGETS: [u64; 2] = [16_384, 3_276];
/// Cycles of a line in the fastest phase, Fig. 3 and Fig. 4. Assumed.
const GAPS: [u64; 2] = [10, 4];
const BOARD: &str = "xeon-w3530";
/// Misses that a core takes at once from budgets that others do not need. Assumed.
const CHUNK: u64 = 64;

fn libquantum(gap: u64) -> WorkloadSpec {
    WorkloadSpec::Libquantum(Libquantum { gap: Cycles(gap), ..Libquantum::default() })
}

/// MemGuard with a budget of misses on core 0 and 1; `shared`: the rest is reclaimed and shared.
fn memguard(cores: u32, shared: bool) -> KernelConfig {
    let role =
        if shared { Role { hard: false, predict: true, reclaim: true } } else { Role::default() };
    let budget = |reads| (Budget::Apart { reads, writes: UNLIMITED }, role);
    let cores = (0..cores as usize)
        .map(|core| BUDGETS.get(core).map_or((Budget::Unlimited, role), |&reads| budget(reads)))
        .collect();
    let sharing = if shared { Sharing::Spare } else { Sharing::None };
    let regulator = RegulatorSpec::MemGuard { period_ps: MS, cores, sharing, chunk: CHUNK };
    KernelConfig { regulator, ..KernelConfig::default() }
}

fn over_time(context: &Context) -> Result<Outcome, ExperimentError> {
    let found = points(context, &[false, true], |&guarded| misses(context, guarded))?;
    let mut table =
        Table::new(&["time_ms", "without_memguard_misses_per_ms", "with_memguard_misses_per_ms"]);
    for (at, (free, held)) in found[0].iter().zip(&found[1]).enumerate() {
        table.push(row![at, *free, *held]);
    }
    let mut outcome = Outcome::new(table);
    let (budget, most) = (BUDGETS[0], |of: &[u64]| of.iter().copied().max().unwrap_or(0));
    let least = found[0].iter().copied().min().unwrap_or(0);
    outcome.untestable(
        "without MemGuard the miss rate varies significantly over time",
        "section 2.2, Fig. 3",
        &format!(
            "the phases of the program are put in; here {least} to {} misses in a millisecond",
            most(&found[0])
        ),
    );
    let used = found[1].iter().filter(|&&n| n == budget).count();
    outcome.untestable(
        "with MemGuard the miss rate is regulated by the reservation of 1 GB/s",
        "section 2.2, Fig. 3",
        &format!(
            "the budget is put in, and the simulated regulator stops a core at its last miss; at \
                most {} misses in a millisecond, the budget itself in {used} of {}",
            most(&found[1]),
            found[1].len()
        ),
    );
    for (name, misses) in [("without MemGuard", &found[0]), ("with MemGuard, 1 GB/s", &found[1])] {
        let line = misses.iter().enumerate().map(|(at, &n)| (at as f64, n as f64)).collect();
        let chart =
            Chart::lines(name, "time, ms", "LLC misses per ms", vec![Series::new("misses", line)]);
        outcome.charts.push(chart.level("1 GB/s", budget as f64));
    }
    outcome.differs(
        "The paper's program and Xeon are not named: libquantum, of its Fig. 4, on the board of \
            the BWLOCK paper. Its 10 s are cut to the part that repeats.",
    );
    Ok(outcome)
}

/// Misses in each period; the first 20 ms, in which the cache fills, do not count.
fn misses(context: &Context, guarded: bool) -> Result<Vec<u64>, ExperimentError> {
    let platform = platform(BOARD)?;
    let mut board = Board::new(&platform, context.seed)?;
    let task = board.add("libquantum", &libquantum(GAPS[0]))?;
    board.task(task).core = Some(0);
    let config = if guarded { memguard(platform.cores, false) } else { KernelConfig::default() };
    let mut kernel = machine(context, board, config)?;
    let mut stop = |_| (context.progress)(f64::NAN);
    let (mut before, mut out) = (0, Vec::new());
    let warm = 20;
    for period in 1..=warm + context.pick(100, 1000) {
        kernel.run(period * MS, &mut Unobserved, &mut stop).map_err(BoardError::from)?;
        let now = kernel.hardware().core(0).llc_misses;
        if period > warm {
            out.push(now - before);
        }
        before = now;
    }
    Ok(out)
}

/// Regimes of Fig. 4.
const REGIMES: [&str; 3] = ["without MemGuard", "MemGuard", "MemGuard, reclaim+share"];

/// Alone and beside the hog, by regime.
type Program = [(f64, f64); REGIMES.len()];

fn isolation(context: &Context) -> Result<Outcome, ExperimentError> {
    // The program that demands more than its budget, then that of Fig. 3, some of whose phases
    // leave budget unused.
    let cases = [GAPS[1], GAPS[0]].map(|gap| [0, 1, 2].map(|regime| (regime, gap))).concat();
    let all: Vec<(usize, u64, bool)> =
        cases.iter().flat_map(|&(r, gap)| [(r, gap, false), (r, gap, true)]).collect();
    let found =
        points(context, &all, |&(regime, gap, beside)| ipc(context, (regime, gap), beside))?;
    let mut table =
        Table::new(&["regime", "cycles_of_a_line_at_least", "alone_ipc", "beside_hog_ipc"]);
    let pairs: Vec<(f64, f64)> = found.chunks(2).map(|p| (p[0], p[1])).collect();
    for ((regime, gap), (alone, beside)) in cases.iter().zip(&pairs) {
        table.push(row![REGIMES[*regime], *gap, *alone, *beside]);
    }
    let mut outcome = Outcome::new(table);
    let programs = [[pairs[0], pairs[1], pairs[2]], [pairs[3], pairs[4], pairs[5]]];
    judge(&mut outcome, &programs);
    let bars =
        |of: fn(&(f64, f64)) -> f64| programs[0].iter().map(|p| Some(of(p))).collect::<Vec<_>>();
    let series =
        vec![("run alone".to_owned(), bars(|p| p.0)), ("beside the hog".to_owned(), bars(|p| p.1))];
    let groups = ["no MemGuard", "MemGuard", "reclaim+share"].map(str::to_owned).to_vec();
    outcome.charts.push(Chart::bars("libquantum", "instructions per cycle", groups, series));
    outcome.differs(
        "The paper's Xeon is not named; the board of the BWLOCK paper stands for it. It has no \
            prefetchers here, so that the \
         benchmark alone is slower than on the paper's.",
    );
    outcome.differs(
        "libquantum's own demand is not known. Two programs stand for it, and of each claim but \
        the \
            last the worse one counts. One demands more than its reservation in all phases, as \
            the paper says of the benchmark. Under MemGuard its budget alone sets its speed. The \
            other is that of Fig. 3, whose slow phases demand less.",
    );
    outcome.differs(
        "The last claim is of the program with the paper's demand. With that of Fig. 3 the hog \
            takes the rest, and its interference costs the slow phases more than reclaiming gives: \
            the table has it.",
    );
    outcome.differs(
        "Only the two cores with tasks are on: sharing starts when every core has used its \
            reservation, which an idle core never does. \
         So run alone, the benchmark gains by reclaiming only, and less than beside the hog.",
    );
    outcome.differs(
        "When both have used their reservations, each may use as much of the rest as it can: \
            the spare sharing of the MemGuard paper.",
    );
    Ok(outcome)
}

/// Instructions per cycle of libquantum, throttled cycles included.
fn ipc(
    context: &Context,
    (regime, gap): (usize, u64),
    beside: bool,
) -> Result<f64, ExperimentError> {
    let mut platform = platform(BOARD)?;
    platform.cores = 2;
    let mut board = Board::new(&platform, context.seed)?;
    let task = board.add("libquantum", &libquantum(gap))?;
    board.task(task).core = Some(0);
    if beside {
        hog(&mut board, 1, &Place::default())?;
    }
    let shared = regime == 2 && !context.mutated(Mutation::NoReclaim);
    let config =
        if regime == 0 { KernelConfig::default() } else { memguard(platform.cores, shared) };
    let result = crate::run::requests(context, board, config, context.pick(60, 400) * MS)?;
    let cycles = result.simulated_ps as f64 / 1e12 * platform.frequency.0 as f64;
    Ok(result.tasks[0].counters.compute_cycles as f64 / platform.cpi / cycles)
}

fn judge(outcome: &mut Outcome, programs: &[Program; 2]) {
    let least = |of: fn(&Program) -> f64| programs.iter().map(of).fold(f64::INFINITY, f64::min);
    let each = |of: &dyn Fn(&Program) -> String| programs.each_ref().map(of).join("; the other ");
    let pair = |of: (f64, f64)| format!("{:.4} alone, {:.4} beside the hog", of.0, of.1);
    outcome.claim(
        "without MemGuard the hog takes a share of the benchmark's instructions per cycle",
        Paper::at_least(0.5, 0.0, "section 2.2: more than 50 %"),
        least(|[free, ..]| 1.0 - free.1 / free.0),
        Mutation::Quiet,
        each(&|p| pair(p[0])),
    );
    outcome.claim(
        "with MemGuard (1000 MB/s and 200 MB/s) both are almost identical (the difference; below \
            5 %)",
        Paper::less(0.05, "section 2.2, Fig. 4"),
        -least(|[_, held, _]| -(held.1 / held.0 - 1.0).abs()),
        Mutation::Unregulated,
        each(&|p| pair(p[1])),
    );
    outcome.claim(
        "its price: run alone, the benchmark is faster without MemGuard",
        Paper::more(1.0, "section 2.2, Fig. 4"),
        least(|[free, held, _]| free.0 / held.0),
        Mutation::Unregulated,
        each(&|p| format!("{:.4} against {:.4}", p[0].0, p[1].0)),
    );
    let [_, held, shared] = programs[0];
    outcome.claim(
        "reclaiming and sharing makes both better (the lesser gain)",
        Paper::more(1.0, "section 2.2, Fig. 4"),
        (shared.0 / held.0).min(shared.1 / held.1),
        Mutation::NoReclaim,
        each(&|p| pair(p[2])),
    );
}
