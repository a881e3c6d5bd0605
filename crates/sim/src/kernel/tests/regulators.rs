//! Regulators by hand. The reader makes an access 10 ns after it may run, which takes 90 ns: at 10,
//! 110, 210...

use super::*;
use crate::program::Signal;

fn memguard(period: u64, budgets: &[Budget], sharing: Sharing, role: Role) -> RegulatorSpec {
    RegulatorSpec::MemGuard {
        period_ps: period * NS,
        cores: budgets.iter().map(|&b| (b, role)).collect(),
        sharing,
        chunk: 1,
    }
}

fn regulated(regulator: RegulatorSpec) -> KernelConfig {
    KernelConfig { regulator, ..KernelConfig::default() }
}

#[test]
fn the_access_that_uses_the_budget_up_stops_the_core_until_the_next_period() {
    let spec = memguard(1000, &[Budget::Together(3)], Sharing::None, Role::default());
    let mut watch = Watch::default();
    let board = TestBoard::new(1, 90, &[reads(10)]);
    let (r, _) = run_watched(board, regulated(spec), vec![task(0, 0, 1)], 3000, &mut watch);
    assert_eq!(
        watch.throttled[..4],
        [(210, 0, true), (1000, 0, false), (1210, 0, true), (2000, 0, false)]
    );
    assert_eq!(
        (r.cores[0].throttled_ps, r.cores[0].max_transactions_per_period),
        (3 * 790 * NS, 3)
    );
    assert_eq!(r.cores[0].counters.transactions(), 9);
}

#[test]
fn skid_and_delay_let_some_through() {
    let spec = memguard(1000, &[Budget::Together(3)], Sharing::None, Role::default());
    for (costs, most) in [
        (Costs { skid_transactions: 2, ..Costs::default() }, 5),
        (Costs { interrupt_delay_ps: 150 * NS, ..Costs::default() }, 4),
        (Costs { interrupt_delay_ps: 50 * NS, ..Costs::default() }, 3),
    ] {
        let config = KernelConfig { costs, ..regulated(spec.clone()) };
        let (r, _) = run(TestBoard::new(1, 90, &[reads(10)]), config, vec![task(0, 0, 1)], 4000);
        assert_eq!(r.cores[0].max_transactions_per_period, most, "{costs:?}");
        assert_eq!(r.cores[0].counters.transactions(), 4 * most);
    }
}

#[test]
fn interrupts_cost_time() {
    let spec = memguard(1000, &[Budget::Together(3)], Sharing::None, Role::default());
    let costs = Costs { timer_ps: 30 * NS, overflow_ps: 20 * NS, ..Costs::default() };
    let config = KernelConfig { costs, ..regulated(spec) };
    let mut watch = Watch::default();
    let (r, _) = run_watched(
        TestBoard::new(1, 90, &[reads(10)]),
        config,
        vec![task(0, 0, 1)],
        2000,
        &mut watch,
    );
    assert_eq!(watch.throttled, [(210, 0, true), (1000, 0, false), (1240, 0, true)]);
    assert_eq!(r.cores[0].overhead_ps, (20 + 30 + 20) * NS);
}

#[test]
fn budgets_apart_stop_at_the_first_that_is_used_up() {
    let spec =
        memguard(2000, &[Budget::Apart { reads: 6, writes: 2 }], Sharing::None, Role::default());
    let access = |kind| Op::access(kind, 10, 0);
    let program = vec![
        access(crate::program::OpKind::LoadWait),
        access(crate::program::OpKind::LoadWait),
        access(crate::program::OpKind::Store),
    ];
    let mut watch = Watch::default();
    let config =
        KernelConfig { costs: Costs { overflow_ps: NS, ..Costs::default() }, ..regulated(spec) };
    let (r, _) = run_watched(
        TestBoard::new(1, 90, &[program]),
        config,
        vec![task(0, 0, 1)],
        2000,
        &mut watch,
    );
    assert_eq!(watch.throttled, [(510, 0, true)]);
    let c = r.cores[0].counters;
    assert_eq!((c.dram_reads, c.dram_writes, r.cores[0].overhead_ps), (4, 2, NS));
}

#[test]
fn what_is_left_when_all_have_used_their_budgets_is_shared() {
    let budgets = [Budget::Together(3), Budget::Together(3)];
    let board = || TestBoard::new(2, 90, &[reads(10), reads(60)]);
    let tasks = || vec![task(0, 0, 1), task(1, 1, 1)];
    // Core 0 is done at 210; core 1 at 60, 210, 360.
    let mut watch = Watch::default();
    run_watched(
        board(),
        regulated(memguard(1000, &budgets, Sharing::Spare, Role::default())),
        tasks(),
        1000,
        &mut watch,
    );
    assert_eq!(watch.throttled, [(210, 0, true), (360, 0, false)]);
    let mut watch = Watch::default();
    run_watched(
        board(),
        regulated(memguard(1000, &budgets, Sharing::Proportional, Role::default())),
        tasks(),
        1000,
        &mut watch,
    );
    // The second round: core 0 at 370, 470, 570; core 1 at 510, 660, 810; then the third.
    assert_eq!(watch.throttled, [(210, 0, true), (360, 0, false), (570, 0, true), (810, 0, false)]);
}

#[test]
fn no_shared_round_waits_for_a_core_without_a_limit() {
    let budgets = [Budget::Together(3), Budget::Unlimited];
    let mut watch = Watch::default();
    let spec = memguard(1000, &budgets, Sharing::Spare, Role::default());
    let board = TestBoard::new(2, 90, &[reads(10), reads(60)]);
    let (r, _) =
        run_watched(board, regulated(spec), vec![task(0, 0, 1), task(1, 1, 1)], 1000, &mut watch);
    assert!(watch.throttled.is_empty(), "{:?}", watch.throttled);
    assert_eq!(r.cores[0].counters.transactions(), 10);
}

#[test]
fn a_hard_core_takes_and_gives_nothing_away() {
    let both = Role { predict: true, reclaim: true, hard: false };
    let spec = RegulatorSpec::MemGuard {
        period_ps: 2000 * NS,
        cores: vec![
            (Budget::Together(8), both),
            (Budget::Together(8), Role { hard: true, ..both }),
            (Budget::Together(8), Role { hard: true, ..both }),
        ],
        sharing: Sharing::None,
        chunk: 1,
    };
    // Cores 0 and 1 make one access in each period. Core 0 keeps four of its budget in the end.
    let quiet = vec![Op::access(crate::program::OpKind::LoadWait, 1910, 0)];
    let mut watch = Watch::default();
    let board = TestBoard::new(3, 90, &[quiet.clone(), quiet, reads(10)]);
    let tasks = vec![task(0, 0, 1), task(1, 1, 1), task(2, 2, 1)];
    run_watched(board, regulated(spec), tasks, 20_001, &mut watch);
    assert_eq!(watch.periods[2], [8, 8 + 1, 8 + 2, 8 + 3, 12, 12, 12, 12, 12, 12]);
}

#[test]
fn what_others_give_away_is_reclaimed() {
    let role = Role { predict: true, reclaim: true, hard: false };
    let spec = memguard(2000, &[Budget::Together(8), Budget::Together(8)], Sharing::None, role);
    // Core 1 makes one access in each period; the expectation, rounded up, falls to four.
    let quiet = vec![Op::access(crate::program::OpKind::LoadWait, 1910, 0)];
    let mut watch = Watch::default();
    let board = TestBoard::new(2, 90, &[reads(10), quiet]);
    run_watched(board, regulated(spec), vec![task(0, 0, 1), task(1, 1, 1)], 20_001, &mut watch);
    assert_eq!(watch.periods[0], [8, 8 + 1, 8 + 2, 8 + 3, 12, 12, 12, 12, 12, 12]);
    assert!(watch.periods[1].iter().all(|&n| n == 1), "{:?}", watch.periods[1]);
}

#[test]
fn throttling_by_budget_that_others_used_is_no_execution() {
    let spec = memguard(1000, &[Budget::Together(5)], Sharing::None, Role::default());
    // The long job makes 15 accesses; at 300 the urgent job takes the core and makes two.
    let read = Op::access(crate::program::OpKind::LoadWait, 10, 0);
    let jobs = |n: usize| [vec![read; n], vec![Op::signal(Signal::JobEnd)]].concat();
    let board = TestBoard::new(1, 90, &[jobs(2), jobs(15)]);
    let tasks = vec![
        TaskSpec { release: at(&[300]), ..task(0, 0, 1) },
        TaskSpec { release: at(&[0]), ..task(1, 0, 2) },
    ];
    let (r, _) = run(board, regulated(spec), tasks, 4000);
    // Three accesses by 300 and none more. The urgent job's two use up the budget at 410, but it
    // ends only at 500, as it may run again at 1000.
    assert_eq!(r.tasks[0].response.max_ps(), 700 * NS);
    // The long job: three by 300, five until the stop at 1410, five until the one at 2410, two
    // until 3200.
    assert_eq!(r.tasks[1].response.max_ps(), 3200 * NS);
    // Of the stops, the first is in the period of its return and not counted, the second is its
    // own.
    assert_eq!(r.tasks[1].execution.max_ps(), (300 + 410 + 1000 + 200) * NS);
}

fn locker() -> Vec<Op> {
    vec![
        Op::compute(1500),
        Op::signal(Signal::Lock),
        Op::compute(2000),
        Op::signal(Signal::Unlock),
        Op::compute(1500),
        Op::signal(Signal::JobEnd),
    ]
}

#[test]
fn the_bandwidth_lock_takes_hold_at_the_next_period_or_at_once() {
    let spec = |immediate| RegulatorSpec::BwLock {
        period_ps: 1000 * NS,
        max_budget: None,
        min_budget: 2,
        immediate,
    };
    let tasks =
        || vec![TaskSpec { release: at(&[0]), realtime: true, ..task(0, 0, 1) }, task(1, 1, 1)];
    for (immediate, periods) in [(false, [10, 10, 2, 2, 10]), (true, [10, 5, 2, 7, 10])] {
        let mut watch = Watch::default();
        let board = TestBoard::new(2, 90, &[locker(), reads(10)]);
        let (r, board) = run_watched(board, regulated(spec(immediate)), tasks(), 5000, &mut watch);
        assert_eq!(watch.periods[1][..4], periods[..4]);
        assert_eq!(board.runs()[0], (0, 0, 0, 5000), "a real-time task is never throttled");
        assert_eq!(r.cores[1].counters.transactions(), periods.iter().sum::<u64>());
    }
}

#[test]
fn a_preempted_holder_does_not_hold() {
    let spec = RegulatorSpec::BwLock {
        period_ps: 1000 * NS,
        max_budget: None,
        min_budget: 2,
        immediate: true,
    };
    let holder = vec![
        Op::signal(Signal::Lock),
        Op::compute(4000),
        Op::signal(Signal::Unlock),
        Op::signal(Signal::JobEnd),
    ];
    let board = TestBoard::new(2, 90, &[holder, job(1000), reads(10)]);
    let tasks = vec![
        TaskSpec { release: at(&[0]), realtime: true, ..task(0, 0, 2) },
        TaskSpec { release: at(&[1000]), realtime: true, ..task(1, 0, 1) },
        task(2, 1, 1),
    ];
    let mut watch = Watch::default();
    run_watched(board, regulated(spec), tasks, 3000, &mut watch);
    assert_eq!(watch.periods[1], [2, 10], "held in the first period, not in the second");
}

fn budget(accesses: u64, length: u64) -> Option<TaskBudget> {
    Some(TaskBudget { accesses, length_ps: length * NS })
}

#[test]
fn dynamic_budgets_as_in_the_papers_first_figure() {
    // t1 preempts t0 at 1000, ends at 1300 although its budget lasts to 1500; t0 ends at 1800, its
    // budget lasts to 2500.
    let board = TestBoard::new(2, 90, &[job(1500), job(300), reads(10)]);
    let tasks = vec![
        TaskSpec { release: at(&[0]), budget: budget(15, 2000), ..task(0, 0, 2) },
        TaskSpec { release: at(&[1000]), budget: budget(2, 500), ..task(1, 0, 1) },
        task(2, 1, 1),
    ];
    let spec = RegulatorSpec::Dynamic { hard: vec![0], soft: vec![1] };
    let config = KernelConfig { observe_period_ps: Some(100 * NS), ..regulated(spec) };
    let mut watch = Watch::default();
    let (r, _) = run_watched(board, config, tasks, 3000, &mut watch);
    // Ten until 1000, two until 1110, without limit from 1300 to 1500; five of t0's are left from
    // then on.
    assert_eq!(watch.throttled, [(1110, 1, true), (1300, 1, false)]);
    assert_eq!(r.cores[1].counters.transactions(), 10 + 2 + 2 + 15);
}

#[test]
fn dynamic_budgets_as_in_the_papers_second_figure() {
    // Hard tasks of (1, 2) and (2, 3), in us, on two cores; the smallest budget limits the soft
    // core.
    let board = TestBoard::new(3, 90, &[job(1000), job(2000), reads(10)]);
    let tasks = vec![
        TaskSpec { budget: budget(6, 2000), ..periodic(0, 0, 1, 2000) },
        TaskSpec { budget: budget(20, 3000), ..periodic(1, 1, 1, 3000) },
        task(2, 2, 1),
    ];
    let spec = RegulatorSpec::Dynamic { hard: vec![0, 1], soft: vec![2] };
    let mut watch = Watch::default();
    let (r, _) = run_watched(board, regulated(spec), tasks, 4000, &mut watch);
    assert_eq!(
        watch.throttled,
        [(510, 2, true), (1000, 2, false), (2510, 2, true), (3000, 2, false)]
    );
    assert_eq!(r.cores[2].counters.transactions(), 6 + 10 + 6 + 10);
}

#[test]
fn signals_between_cores_take_and_cost_time() {
    let board = TestBoard::new(2, 90, &[job(1000), reads(10)]);
    let tasks = vec![
        TaskSpec { release: at(&[0]), budget: budget(3, 5000), ..task(0, 0, 1) },
        task(1, 1, 1),
    ];
    let costs = Costs { ipi_delay_ps: 50 * NS, ipi_ps: 5 * NS, ..Costs::default() };
    let spec = RegulatorSpec::Dynamic { hard: vec![0], soft: vec![1] };
    let mut watch = Watch::default();
    let config = KernelConfig { costs, ..regulated(spec) };
    let (r, _) = run_watched(board, config, tasks, 2000, &mut watch);
    // The first access, at 10, comes before the budget; the message at 50 waits for its data until
    // 100: 115, 215, 315.
    assert_eq!(watch.throttled, [(315, 1, true), (1050, 1, false)]);
    assert_eq!(r.cores[1].overhead_ps, 10 * NS);
}

#[test]
fn static_budgets_limit_the_soft_cores_only() {
    let board = TestBoard::new(2, 90, &[reads(10), reads(10)]);
    let config = regulated(RegulatorSpec::static_periodic(2, &[1], 4, 1000 * NS));
    let mut watch = Watch::default();
    run_watched(board, config, vec![task(0, 0, 1), task(1, 1, 1)], 3000, &mut watch);
    assert_eq!(watch.periods, [vec![10, 10], vec![4, 4]]);
}
