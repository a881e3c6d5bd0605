//! Hand-made attacks (issue 18), each rebuilt as one system with the programs that break its bound.
//!
//! Rule: no promise of the plan is exceeded, or the plan promises nothing: no `wcrt_ns`, and not
//! schedulable.

use solocore_experiments::attack::evaluate::{planned, simulated, worst};
use solocore_experiments::attack::genes::BOARDS;
use solocore_experiments::attack::program::{Beat, Job, Rows, Shape};
use solocore_experiments::attack::system::{Analysed, Attack, Policy};
use solocore_model::plan::Plan;
use solocore_sim::program::OpKind;
use std::path::Path;

/// Reads rows of one bank with all its miss registers.
const PREFETCH: Beat = Beat {
    read_rows: Rows::Conflicts,
    read: OpKind::Prefetch,
    reads: 1,
    writes: 0,
    write_rows: Rows::Conflicts,
    write: OpKind::StoreLine,
    bank: 0,
    gap: 0,
    burst: 0,
    pause: 0,
    lead: 0,
};

/// Reads at the rate of the bus: its banks in turn, each with an open row.
const FASTEST: Beat = Beat { read_rows: Rows::OpenBanks, ..PREFETCH };

/// Posts writes to rows of one bank.
const WRITES: Beat = Beat { reads: 0, writes: 1, ..PREFETCH };

/// One load after the other, each to another row.
pub fn victim(compute_ns: u64, misses: u64, period_ns: u64) -> Analysed {
    let job = Job {
        misses,
        cycles: 0,
        read_rows: Rows::Conflicts,
        read: OpKind::LoadWait,
        write_each: 0,
        bank: 0,
        shape: Shape::Even,
        empty_each: 0,
    };
    Analysed { job, compute_ns, period_ns, deadline_ps: None, phase_ns: 0 }
}

pub fn attack(policy: Policy, board: &str, cores: u32, victim: Analysed) -> Attack {
    Attack {
        policy,
        board: board.to_owned(),
        cores,
        period_ns: 1_000_000,
        share: 250,
        knob: 0,
        victim,
        mates: Vec::new(),
        jobs: None,
        write_part: 0,
        devices: 0,
        own: None,
        others: vec![None; cores.saturating_sub(1) as usize],
        seed: 1,
    }
}

fn promises_nothing(plan: &Plan) -> bool {
    !plan.schedulable && plan.tasks.iter().all(|t| t.wcrt_ns.is_none())
}

/// Runs this number of jobs of the victim; returns the ratio of seen time to bound, and a sentence.
/// The ratio is 0 without a bound.
fn seen(attack: &Attack, jobs: u64) -> (f64, String) {
    let plan = planned(attack, Path::new(".")).unwrap();
    if promises_nothing(&plan) {
        return (0.0, "no bound".to_owned());
    }
    let duration = attack.victim.phase_ns + jobs * attack.victim.period_ns;
    let result = simulated(attack, &plan, duration).unwrap();
    worst(attack, &plan, &result)
}

/// Checks that all of these hold; prints both numbers of each.
fn hold(attacks: impl IntoIterator<Item = (Attack, u64)>) {
    let mut broken = Vec::new();
    for (attack, jobs) in attacks {
        let (ratio, what) = seen(&attack, jobs);
        let line = format!(
            "{:?} on {}, {} cores: {ratio:.3}, {what}",
            attack.policy, attack.board, attack.cores
        );
        println!("{line}");
        if ratio > 1.0 {
            broken.push(line);
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Best effort on the victim's own core drains the budget at the rate of the bus, not one access
/// after the other. The releases move against the periods, so that one of them comes just after.
fn drained(board: &str, cores: u32) -> Attack {
    let mut victim = victim(10_000, 20, 7_003_000);
    victim.deadline_ps = Some(900_000_000);
    Attack { own: Some(FASTEST), ..attack(Policy::Even, board, cores, victim) }
}

#[test]
fn carry_in_of_a_budget_drained_at_the_rate_of_the_bus() {
    let phases = |attack: Attack| {
        (0..20).map(move |n| {
            let phase_ns = 3_000_000 + n * 10_000;
            (Attack { victim: Analysed { phase_ns, ..attack.victim }, ..attack.clone() }, 1)
        })
    };
    let rivals = Attack { others: vec![Some(PREFETCH); 3], ..drained("imx6q", 4) };
    hold(phases(rivals).chain(phases(drained("imx6q", 4))));
}

#[test]
fn carry_in_on_one_core() {
    let releases = BOARDS.iter().flat_map(|board| {
        (0..6).map(|n| {
            let mut attack = drained(board, 1);
            attack.victim.phase_ns =
                3_000_000 + [5_000, 20_000, 50_000, 100_000, 300_000, 600_000][n];
            attack.victim.deadline_ps = None;
            (attack, 1)
        })
    });
    hold(releases);
}

/// A window that starts after best effort of another partition has drained the budget.
#[test]
fn carry_in_at_the_start_of_a_window() {
    // The windows move against the regulation's periods; best effort has four fifths of the core.
    let windows = ["imx6q", "xeon-w3530", "p4080"].map(|board| {
        let victim = victim(10_000, 20, 7_030_000);
        let attack = Attack { period_ns: 250_000, ..attack(Policy::Windows, board, 3, victim) };
        (Attack { knob: 3, own: Some(FASTEST), others: vec![Some(PREFETCH)], ..attack }, 35)
    });
    hold(windows);
}

/// A neighbour posts writes to rows of one of its own banks: the write queue stays full, and each
/// read of the victim waits for a drain.
fn drains(policy: Policy) -> Attack {
    let victim = victim(1_000_000, 40_000, 40_000_000);
    Attack { others: vec![Some(WRITES)], ..attack(policy, "xeon-w3530", 2, victim) }
}

#[test]
fn write_drains_without_regulation() {
    let short = victim(100_000, 4_000, 8_000_000);
    hold(
        [Policy::None, Policy::Bwlock]
            .map(|policy| (Attack { victim: short, ..drains(policy) }, 1)),
    );
}

#[test]
fn write_drains_beside_jobs_that_hold_the_lock() {
    let short = victim(100_000, 4_000, 8_000_000);
    let of = |period_ns| Attack { victim: short, period_ns, ..drains(Policy::HeldJobs) };
    hold([(of(1_000_000), 1), (of(100_000), 1)]);
}

#[test]
fn write_drains_under_even_budgets() {
    hold([(drains(Policy::Even), 2)]);
}

#[test]
fn write_drains_under_stated_budgets() {
    hold([(drains(Policy::Uneven), 2), (Attack { share: 500, ..drains(Policy::Uneven) }, 2)]);
}

#[test]
fn write_drains_under_dynamic_budgets() {
    let budgets = [500, 1_000, 2_000, 4_000].map(|knob| {
        let victim = victim(10_000, 1_000, 4_000_000);
        (Attack { knob, victim, ..drains(Policy::Dynamic) }, 2)
    });
    hold(budgets);
}

#[test]
fn write_drains_beside_a_vcpu() {
    // The victim's VCPU has nine tenths of the core.
    hold([(Attack { knob: 18, ..drains(Policy::Maracas) }, 1)]);
}

#[test]
fn write_drains_in_a_window() {
    hold([(Attack { cores: 3, ..drains(Policy::Windows) }, 3)]);
}

#[test]
fn write_drains_beside_level_b() {
    hold([("imx6q", 2), ("imx6q", 4), ("p4080", 2)].map(|(board, cores)| {
        let others = vec![Some(WRITES); cores as usize - 1];
        (
            Attack {
                knob: 1,
                others,
                ..attack(Policy::Levels, board, cores, victim(20_000, 100, 1_000_000))
            },
            2,
        )
    }));
}

/// A task alone on one core that reads another row of its bank each time takes no longer than its
/// `C`: `L_max` holds for the simulated board.
#[test]
fn the_longest_access_is_that_of_the_board() {
    let alone = BOARDS.iter().flat_map(|board| {
        [Rows::Conflicts, Rows::Random].map(|read_rows| {
            let mut victim = victim(1_000, 20_000, 20_000_000);
            victim.job.read_rows = read_rows;
            (attack(Policy::None, board, 1, victim), 2)
        })
    });
    hold(alone);
}

/// The pending accesses of the core's other task at a release: all its miss registers, and the
/// writes that it posted.
#[test]
fn what_is_under_way_at_a_release() {
    let mixes = [(1, 0), (0, 1), (1, 1), (8, 8), (8, 40)];
    let releases = BOARDS.iter().flat_map(|board| {
        mixes.iter().map(|&(reads, writes)| {
            let mut victim = victim(300, 2, 20_333);
            victim.job.shape = Shape::Start;
            let own = Some(Beat { reads, writes, ..PREFETCH });
            (Attack { own, ..attack(Policy::None, board, 1, victim) }, 20)
        })
    });
    hold(releases);
}

/// A bound that the plan prints does not pass a deadline that is shorter by a fraction of a
/// nanosecond. All inputs here are whole nanoseconds: four accesses of 72.25 ns may be under way.
#[test]
fn no_response_passes_a_deadline_by_rounding() {
    let mut rounded =
        attack(Policy::Maracas, "xeon-gold-6338", 4, victim(2_000_000, 0, 40_000_000));
    rounded.knob = 48;
    let bound = planned(&rounded, Path::new(".")).unwrap().tasks[0].wcrt_ns.expect("it fits");
    for tenths in 1..=12 {
        let deadline_ps = bound * 1000 - tenths * 100;
        rounded.victim.deadline_ps = Some(deadline_ps);
        let plan = planned(&rounded, Path::new(".")).unwrap();
        let task = &plan.tasks[0];
        println!(
            "bound {:?} ns, deadline {deadline_ps} ps: schedulable {}",
            task.wcrt_ns, task.schedulable
        );
        let within = task.wcrt_ns.is_some_and(|bound| bound * 1000 <= deadline_ps);
        assert!(
            within || !task.schedulable,
            "a bound of {bound} ns passes a deadline of {deadline_ps} ps"
        );
    }
}
