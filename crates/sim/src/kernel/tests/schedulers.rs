//! Schedules by hand: releases, preemption, VCPUs, levels, tables, deadlines.

use super::*;
use crate::hardware::{DeviceId, Transfer};
use crate::program::Signal;
use solocore_model::results::Activity;

#[test]
fn the_more_urgent_task_preempts() {
    let board = TestBoard::new(1, 100, &[job(3), job(9)]);
    let tasks = vec![periodic(0, 0, 1, 10), periodic(1, 0, 2, 20)];
    let mut timeline = Timeline::new(12 * NS, 100);
    let (r, board) = run_watched(board, KernelConfig::default(), tasks, 20, &mut timeline);
    assert_eq!(board.runs(), [(0, 0, 0, 3), (0, 1, 3, 10), (0, 0, 10, 13), (0, 1, 13, 15)]);
    let t = &r.tasks[1];
    assert_eq!(
        (t.jobs, t.execution.max_ps(), t.response.max_ps(), t.preemptions),
        (1, 9 * NS, 15 * NS, 1)
    );
    assert_eq!((r.tasks[0].jobs, r.tasks[0].deadline_misses, r.cores[0].idle_ps), (2, 0, 5 * NS));
    // Jobs that arrived before the limit, with ends beyond it.
    let jobs: Vec<_> = timeline.take_jobs().collect();
    assert_eq!(jobs, [(0, 0, Some(3 * NS)), (0, 1, Some(15 * NS)), (10 * NS, 0, Some(13 * NS))]);
    let segments = timeline.segments();
    assert_eq!(
        segments.iter().map(|s| (s.task, s.start_ns, s.end_ns)).collect::<Vec<_>>(),
        [(0, 0, 3), (1, 3, 10), (0, 10, 12)]
    );
    assert!(segments.iter().all(|s| s.activity == Activity::Run));
}

#[test]
fn costs_lengthen_what_runs_but_a_switch_is_no_execution() {
    let board = TestBoard::new(1, 100, &[job(3), job(9)]);
    let tasks = vec![periodic(0, 0, 1, 10), periodic(1, 0, 2, 20)];
    let costs = Costs { switch_ps: NS, ..Costs::default() };
    let (r, board) =
        run(board, KernelConfig { costs, ..KernelConfig::default() }, tasks.clone(), 20);
    assert_eq!(board.runs(), [(0, 0, 0, 4), (0, 1, 4, 10), (0, 0, 10, 14), (0, 1, 14, 19)]);
    assert_eq!((r.tasks[1].execution.max_ps(), r.tasks[1].response.max_ps()), (9 * NS, 19 * NS));
    assert_eq!((r.cores[0].overhead_ps, r.cores[0].switches), (4 * NS, 4));
    // A release's cost adds to the switch's at the same instant, and interrupts count as execution.
    let costs = Costs { switch_ps: NS, release_ps: NS, ..Costs::default() };
    let board = TestBoard::new(1, 100, &[job(8), job(1)]);
    let tasks = vec![
        TaskSpec { release: at(&[0]), ..task(0, 0, 1) },
        TaskSpec { release: at(&[4]), ..task(1, 0, 2) },
    ];
    let (r, board) = run(board, KernelConfig { costs, ..KernelConfig::default() }, tasks, 20);
    assert_eq!(board.runs(), [(0, 0, 0, 11), (0, 1, 11, 13)]);
    assert_eq!((r.tasks[0].execution.max_ps(), r.tasks[1].response.max_ps()), (9 * NS, 9 * NS));
}

#[test]
fn an_interrupt_during_a_switch_adds_to_it() {
    let board = TestBoard::new(1, 100, &[job(8), job(1), job(1)]);
    let tasks = vec![
        TaskSpec { release: at(&[0]), ..task(0, 0, 1) },
        TaskSpec { release: at(&[1]), ..task(1, 0, 2) },
        TaskSpec { release: at(&[30]), ..task(2, 0, 2) },
    ];
    let costs = Costs { switch_ps: 3 * NS, release_ps: 2 * NS, ..Costs::default() };
    let (r, board) = run(board, KernelConfig { costs, ..KernelConfig::default() }, tasks, 40);
    // Two and three from 0 on, two more from 1 on: eight of computation end at 15.
    assert_eq!(board.runs(), [(0, 0, 0, 15), (0, 1, 15, 19), (0, 2, 30, 36)]);
    assert_eq!(
        (r.tasks[0].execution.max_ps(), r.cores[0].overhead_ps),
        (10 * NS, (3 + 3 * 2 + 2 * 3) * NS)
    );
}

#[test]
fn late_jobs_wait_for_each_other() {
    let board = TestBoard::new(1, 100, &[job(15)]);
    let mut watch = Watch::default();
    let (r, _) =
        run_watched(board, KernelConfig::default(), vec![periodic(0, 0, 1, 10)], 100, &mut watch);
    assert_eq!(watch.jobs[..3], [(0, 0, 15), (0, 10, 30), (0, 20, 45)]);
    // Six finished late; those that arrived at 60, 70 and 80 are late at 100.
    assert_eq!((r.tasks[0].jobs, r.tasks[0].deadline_misses), (6, 9));
}

#[test]
fn releases_come_as_told() {
    let board = TestBoard::new(
        1,
        10,
        &[
            job(2),
            job(1),
            job(1),
            job(1),
            job(1),
            vec![Op::compute(1), Op::signal(Signal::Mark(7)), Op::signal(Signal::JobEnd)],
        ],
    );
    let ends = Release::Triggered { by: Trigger::JobEnd(0), delay_ps: 5 * NS };
    let moved = Release::Triggered { by: Trigger::Transferred(DeviceId(3)), delay_ps: 0 };
    let order = Transfer { offset_lines: 0, lines: 4, into_memory: true };
    let tasks = vec![
        TaskSpec { release: at(&[0, 30]), ..task(0, 0, 1) },
        TaskSpec { release: ends, ..task(1, 0, 2) },
        TaskSpec { release: moved, ..task(2, 0, 3) },
        TaskSpec { start_ps: 50 * NS, stop_ps: Some(80 * NS), ..periodic(3, 0, 4, 10) },
        TaskSpec {
            release: Release::Triggered { by: Trigger::Mark(5, 7), delay_ps: NS },
            ..task(4, 0, 5)
        },
        TaskSpec {
            release: at(&[90]),
            on_mark: vec![(7, Action::Transfer(DeviceId(3), order))],
            ..task(5, 0, 6)
        },
    ];
    let transfers =
        vec![TransferSpec { device: DeviceId(3), order, phase_ps: 20 * NS, period_ps: 1000 * NS }];
    let mut watch = Watch::default();
    run_watched(
        board,
        KernelConfig { transfers, ..KernelConfig::default() },
        tasks,
        200,
        &mut watch,
    );
    let of =
        |t: usize| watch.jobs.iter().filter(|j| j.0 == t).map(|j| (j.1, j.2)).collect::<Vec<_>>();
    assert_eq!(of(0), [(0, 2), (30, 32)]);
    assert_eq!(of(1), [(7, 8), (37, 38)]);
    assert_eq!(of(2), [(60, 61), (131, 132)], "4 lines of 10 ns from 20 and from 91 on");
    assert_eq!(of(3), [(50, 51), (60, 62), (70, 71)]);
    assert_eq!((of(4), watch.marks), (vec![(92, 93)], vec![(5, 7, 91)]));
}

#[test]
fn jitter_and_sporadic_arrivals_keep_to_their_ranges_and_seed() {
    let release = Release::Periodic { period_ps: 100 * NS, phase_ps: 5 * NS, jitter_ps: 30 * NS };
    let sporadic = Release::Sporadic { min_ps: 50 * NS, max_ps: 90 * NS };
    let tasks = vec![
        TaskSpec { release, ..task(0, 0, 1) },
        TaskSpec { release: sporadic, ..task(1, 0, 2) },
    ];
    let go = |seed| {
        let mut watch = Watch::default();
        let config = KernelConfig { seed, ..KernelConfig::default() };
        let (r, _) = run_watched(
            TestBoard::new(1, 1, &[job(1), job(1)]),
            config,
            tasks.clone(),
            100_000,
            &mut watch,
        );
        (watch.released, r)
    };
    let (released, result) = go(1);
    assert_eq!((released.clone(), result), go(1));
    assert_ne!(released, go(2).0);
    let jittered: Vec<_> = released.iter().filter(|r| r.0 == 0).collect();
    assert!(
        jittered
            .iter()
            .enumerate()
            .all(|(k, r)| r.1 == 5 + 100 * k as u64 && (r.1..=r.1 + 30).contains(&r.2))
    );
    assert!(jittered.iter().any(|r| r.2 > r.1 + 25) && jittered.iter().any(|r| r.2 < r.1 + 5));
    let gaps: Vec<u64> = released
        .iter()
        .filter(|r| r.0 == 1)
        .map(|r| r.1)
        .collect::<Vec<_>>()
        .windows(2)
        .map(|w| w[1] - w[0])
        .collect();
    assert!(
        gaps.iter().all(|g| (50..=90).contains(g))
            && gaps.iter().any(|&g| g < 55)
            && gaps.iter().any(|&g| g > 85)
    );
}

#[test]
fn a_task_that_sleeps_leaves_the_core_to_others() {
    let sleeper = vec![
        Op::compute(200),
        Op::signal(Signal::Sleep(1)),
        Op::compute(300),
        Op::signal(Signal::JobEnd),
    ];
    let board = TestBoard::new(1, 10, &[sleeper, endless()]);
    let tasks = vec![TaskSpec { release: at(&[0]), ..task(0, 0, 1) }, task(1, 0, 2)];
    let (r, board) = run(board, KernelConfig::default(), tasks, 2000);
    assert_eq!(
        board.runs(),
        [(0, 0, 0, 200), (0, 1, 200, 1200), (0, 0, 1200, 1500), (0, 1, 1500, 2000)]
    );
    assert_eq!((r.tasks[0].execution.max_ps(), r.tasks[0].preemptions), (500 * NS, 0));
}

#[test]
fn jobs_in_the_background_follow_each_other_until_they_are_stopped() {
    let board = TestBoard::new(1, 10, &[job(30)]);
    let (r, board) = run(
        board,
        KernelConfig::default(),
        vec![TaskSpec { stop_ps: Some(100 * NS), ..task(0, 0, 1) }],
        200,
    );
    assert_eq!((board.runs(), r.tasks[0].jobs), (vec![(0, 0, 0, 100)], 3));
}

#[test]
fn partitions_run_in_their_windows() {
    let windows = vec![
        Window { start_ps: 0, end_ps: 5 * NS, id: 0 },
        Window { start_ps: 5 * NS, end_ps: 10 * NS, id: 1 },
    ];
    let scheduler =
        SchedulerSpec::Windows { tables: vec![CoreTable { core: 0, frame_ps: 10 * NS, windows }] };
    let tasks = vec![
        TaskSpec { partition: Some(0), ..periodic(0, 0, 1, 20) },
        TaskSpec { partition: Some(1), ..periodic(1, 0, 1, 10) },
    ];
    let board = TestBoard::new(2, 10, &[job(7), job(2)]);
    let (_, board) = run(board, KernelConfig { scheduler, ..KernelConfig::default() }, tasks, 20);
    assert_eq!(board.runs(), [(0, 0, 0, 5), (0, 1, 5, 7), (0, 0, 10, 12), (0, 1, 15, 17)]);
}

fn edf(p: u32, release: &[u64], deadline: u64) -> TaskSpec {
    TaskSpec { core: None, release: at(release), deadline_ps: Some(deadline * NS), ..task(p, 0, 0) }
}

#[test]
fn the_earliest_deadlines_run_on_all_cores() {
    let config = KernelConfig { scheduler: SchedulerSpec::GlobalEdf, ..KernelConfig::default() };
    let board = TestBoard::new(2, 10, &[job(4), job(4), job(4)]);
    let (_, board) =
        run(board, config.clone(), vec![edf(0, &[0], 6), edf(1, &[0], 8), edf(2, &[0], 10)], 20);
    assert_eq!(board.runs(), [(0, 0, 0, 4), (0, 2, 4, 8), (1, 1, 0, 4)]);
    // One with an earlier deadline takes the core of the latest, which comes back there.
    let board = TestBoard::new(2, 10, &[job(10), job(10), job(2)]);
    let (r, board) =
        run(board, config.clone(), vec![edf(0, &[0], 20), edf(1, &[0], 12), edf(2, &[5], 3)], 20);
    assert_eq!(board.runs(), [(0, 1, 0, 10), (1, 0, 0, 5), (1, 2, 5, 7), (1, 0, 7, 12)]);
    assert_eq!(r.tasks.iter().map(|t| t.migrations).collect::<Vec<_>>(), [0, 0, 0]);
    // A displaced job first goes on where there is room.
    let board = TestBoard::new(2, 10, &[job(10), job(7), job(5)]);
    let (r, board) =
        run(board, config, vec![edf(0, &[0], 20), edf(1, &[0], 12), edf(2, &[5], 6)], 20);
    assert_eq!(board.runs(), [(0, 1, 0, 7), (0, 0, 7, 12), (1, 0, 0, 5), (1, 2, 5, 10)]);
    assert_eq!((r.tasks[0].migrations, r.tasks[0].preemptions), (1, 1));
}

fn level(level: Level, pet: u64, spec: TaskSpec) -> TaskSpec {
    TaskSpec { level: Some(level), pet_ps: Some(pet * NS).filter(|&p| p > 0), ..spec }
}

fn levels(windows: Vec<Window>) -> KernelConfig {
    let tables = vec![CoreTable { core: 0, frame_ps: 20 * NS, windows }];
    KernelConfig { scheduler: SchedulerSpec::Levels { tables }, ..KernelConfig::default() }
}

#[test]
fn levels_are_strictly_prioritised() {
    let board = TestBoard::new(2, 10, &[job(3), job(5), job(8), endless(), endless()]);
    let tasks = vec![
        level(Level::A, 4, periodic(0, 0, 0, 20)),
        level(Level::B, 6, periodic(1, 0, 0, 20)),
        level(Level::C, 10, periodic(2, 0, 0, 40)),
        level(Level::D, 0, task(3, 0, 0)),
        level(Level::D, 0, task(4, 1, 0)),
    ];
    let window = Window { start_ps: 0, end_ps: 4 * NS, id: 0 };
    let (_, board) = run(board, levels(vec![window]), tasks, 30);
    let runs = board.runs();
    assert_eq!(
        runs[..5],
        [(0, 0, 0, 3), (0, 1, 3, 8), (0, 3, 8, 20), (0, 0, 20, 23), (0, 1, 23, 28)]
    );
    assert_eq!(runs[6..], [(1, 2, 0, 8), (1, 4, 8, 30)]);
}

#[test]
fn overruns_end_at_level_a_and_wait_at_levels_b_and_c() {
    let board = TestBoard::new(2, 10, &[job(6), job(12)]);
    let tasks = vec![
        level(Level::A, 4, periodic(0, 0, 0, 20)),
        level(Level::C, 5, TaskSpec { release: at(&[0, 20, 40]), ..periodic(1, 1, 0, 20) }),
    ];
    let window = Window { start_ps: 0, end_ps: 5 * NS, id: 0 };
    let mut watch = Watch::default();
    let (r, board) = run_watched(board, levels(vec![window]), tasks, 60, &mut watch);
    assert_eq!((r.tasks[0].jobs, r.tasks[0].abandoned, r.tasks[0].deadline_misses), (0, 3, 3));
    assert_eq!(
        board.runs().iter().filter(|r| r.1 == 0).map(|r| (r.2, r.3)).collect::<Vec<_>>(),
        [(0, 4), (20, 24), (40, 44)]
    );
    // Twelve of execution in portions of five; the second job has the rest of the third release's
    // portion.
    assert_eq!(watch.jobs, [(1, 0, 42)]);
    assert_eq!(
        board.runs().iter().filter(|r| r.1 == 1).map(|r| (r.2, r.3)).collect::<Vec<_>>(),
        [(0, 5), (20, 25), (40, 45)]
    );
}

#[test]
fn a_level_a_job_ends_when_the_next_is_released() {
    let board = TestBoard::new(1, 10, &[job(6)]);
    let tasks =
        vec![level(Level::A, 20, TaskSpec { release: at(&[0, 20, 27]), ..periodic(0, 0, 0, 20) })];
    let window = Window { start_ps: 0, end_ps: 4 * NS, id: 0 };
    let mut watch = Watch::default();
    let (r, _) = run_watched(board, levels(vec![window]), tasks, 60, &mut watch);
    // Four in the first frame, given up at 20; four, given up at 27; then four and two.
    assert_eq!((watch.jobs, r.tasks[0].abandoned), (vec![], 2));
}

/// VCPUs of (capacity, period) in ns on core 0, each with an endless task.
fn vcpus(shares: &[(u64, u64)], core: Option<usize>) -> (VcpuConfig, Vec<TaskSpec>, Vec<Vec<Op>>) {
    let spec = |&(c, t): &(u64, u64)| VcpuSpec {
        capacity_ps: c * NS,
        period_ps: t * NS,
        core,
        colours: 0,
    };
    let config = VcpuConfig { vcpus: shares.iter().map(spec).collect(), ..VcpuConfig::default() };
    let tasks = (0u32..)
        .zip(shares)
        .map(|(p, _)| TaskSpec { vcpu: Some(p as usize), ..TaskSpec::new("v", ProgramId(p)) });
    (config, tasks.collect(), shares.iter().map(|_| endless()).collect())
}

fn with(scheduler: VcpuConfig) -> KernelConfig {
    KernelConfig { scheduler: SchedulerSpec::Vcpu(scheduler), ..KernelConfig::default() }
}

#[test]
fn vcpus_run_by_right_and_then_in_the_background() {
    let (config, tasks, programs) = vcpus(&[(3, 20), (2, 10)], Some(0));
    let mut watch = Watch::default();
    let board = TestBoard::new(1, 10, &programs);
    let background = Some(Background::LeastTime);
    let (r, board) = run_watched(
        board,
        with(VcpuConfig { background, ..config.clone() }),
        tasks.clone(),
        20,
        &mut watch,
    );
    assert_eq!(board.runs(), [(0, 1, 0, 2), (0, 0, 2, 10), (0, 1, 10, 20)]);
    let modes: Vec<_> =
        watch.modes.iter().map(|m| (m.0, m.2, m.3 == RunMode::Foreground)).collect();
    assert_eq!(modes, [(0, 1, true), (2, 0, true), (5, 0, false), (10, 1, true), (12, 1, false)]);
    assert_eq!((r.tasks[0].foreground_ps, r.tasks[0].background_ps), (3 * NS, 5 * NS));
    assert_eq!((r.tasks[1].foreground_ps, r.tasks[1].background_ps), (4 * NS, 8 * NS));
    // Without background time the core idles.
    let (r, board) = run(TestBoard::new(1, 10, &programs), with(config), tasks, 20);
    assert_eq!(
        (board.runs(), r.cores[0].idle_ps),
        (vec![(0, 1, 0, 2), (0, 0, 2, 5), (0, 1, 10, 12)], 13 * NS)
    );
}

#[test]
fn new_vcpus_go_where_there_is_room() {
    let (config, tasks, programs) = vcpus(&[(1, 5); 4], None);
    let (r, _) = run(
        TestBoard::new(4, 10, &programs),
        with(VcpuConfig { admission: true, ..config }),
        tasks,
        50,
    );
    assert!(r.cores.iter().all(|c| c.busy_ps == 10 * NS), "one each: {:?}", r.cores);
}

#[test]
fn a_loaded_core_gives_vcpus_away_and_they_keep_their_budgets() {
    let (config, mut tasks, programs) = vcpus(&[(1, 5); 4], Some(0));
    // The last two wake at 2, when the others have used their budgets.
    tasks[2].start_ps = 2 * NS;
    tasks[3].start_ps = 2 * NS;
    let config = VcpuConfig { balancing: Balancing::Full { limit: 1 }, ..config };
    let mut watch = Watch::default();
    let (r, board) =
        run_watched(TestBoard::new(2, 10, &programs), with(config), tasks, 50, &mut watch);
    assert_eq!((r.vcpu_migrations, watch.moves.len()), (2, 2), "{:?}", watch.moves);
    for p in 0..4 {
        let runs: Vec<_> = board.runs().into_iter().filter(|r| r.1 == p).collect();
        let total: u64 = runs.iter().map(|r| r.3 - r.2).sum();
        assert!(total <= 10, "never more than one in five: {runs:?}");
        assert!(total >= 9, "{runs:?}");
    }
}

#[test]
fn contention_takes_background_time_away() {
    let (config, tasks, _) = vcpus(&[(100, 1000)], Some(0));
    let throttle = ThrottleSpec {
        rule: Rule::Latency,
        threshold: 50 * NS,
        idle_per_mille: 50,
        period_ps: 10 * US,
        check_ps: US,
    };
    let config =
        VcpuConfig { background: Some(Background::LeastTime), throttle: Some(throttle), ..config };
    let mut watch = Watch::default();
    // Reads of 90 ns are above the threshold of 50.
    let (r, _) = run_watched(
        TestBoard::new(1, 90, &[reads(10)]),
        with(config.clone()),
        tasks.clone(),
        30_000,
        &mut watch,
    );
    assert_eq!(watch.monitored[..2], [(true, 1), (true, 1)]);
    // Ten us in all, then a tenth of twenty.
    assert_eq!(r.cores[0].busy_ps, 12 * US);
    assert_eq!((r.tasks[0].background_ps, r.tasks[0].foreground_ps), (9 * US, 3 * US));
    assert_eq!(r.tasks[0].foreground.dram_reads, 30);
    // Reads of 40 ns are not.
    let (r, _) = run(TestBoard::new(1, 40, &[reads(10)]), with(config), tasks, 30_000);
    assert_eq!(r.cores[0].idle_ps, 0);
}

#[test]
fn vcpus_only_go_where_their_colours_are_free() {
    let (config, tasks, programs) = vcpus(&[(1, 5); 4], Some(0));
    let mut config = VcpuConfig {
        balancing: Balancing::Full { limit: 8 },
        colours: Some(vec![16, 5]),
        ..config
    };
    config.vcpus.iter_mut().for_each(|v| v.colours = 4);
    let mut watch = Watch::default();
    let (r, _) = run_watched(TestBoard::new(2, 10, &programs), with(config), tasks, 50, &mut watch);
    assert_eq!((r.vcpu_migrations, watch.moves), (1, vec![(0, 0, 1, 0)]), "there is room for one");
}

#[test]
fn the_least_memory_intensive_has_the_background_time() {
    let (config, tasks, _) = vcpus(&[(10_000, 100_000), (10_000, 100_000)], Some(0));
    let config = VcpuConfig { background: Some(Background::LeastMemory), ..config };
    let board = TestBoard::new(1, 90, &[reads(10), reads(400)]);
    let (r, _) = run(board, with(config), tasks, 5_000_000);
    // Both count as equal until the first monitor, after the longest period.
    let background: Vec<u64> = r.tasks.iter().map(|t| t.background_ps / US).collect();
    assert_eq!(background, [80, 3920]);
}
