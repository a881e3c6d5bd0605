//! Impossible systems are refused, with the place and the reason.

use super::*;
use crate::kernel::KernelError;
use crate::program::Signal;

fn refused(config: KernelConfig, tasks: Vec<TaskSpec>) -> String {
    let board = TestBoard::new(2, 10, &[job(1), job(1)]);
    Kernel::new(board, config, tasks).err().expect("refused").to_string()
}

fn scheduler(scheduler: SchedulerSpec) -> KernelConfig {
    KernelConfig { scheduler, ..KernelConfig::default() }
}

#[test]
fn what_the_board_lacks_is_named() {
    let plain = KernelConfig::default;
    let wrong = |spec: TaskSpec| refused(plain(), vec![spec]);
    assert!(wrong(task(0, 2, 1)).contains("`t0`: is on core 2, but the board has cores 0 to 1"));
    assert!(wrong(TaskSpec { core: None, ..task(0, 0, 1) }).contains("has no core"));
    assert!(wrong(periodic(0, 0, 1, 0)).contains("period of 0"));
    assert!(wrong(TaskSpec { release: at(&[3, 2]), ..task(0, 0, 1) }).contains("out of order"));
    assert!(wrong(TaskSpec { deadline_ps: Some(0), ..task(0, 0, 1) }).contains("deadline of 0"));
    assert!(
        wrong(TaskSpec {
            budget: Some(TaskBudget { accesses: 1, length_ps: NS }),
            ..task(0, 0, 1)
        })
        .contains("not dynamic")
    );
    let late = Release::Triggered { by: Trigger::JobEnd(9), delay_ps: 0 };
    assert!(wrong(TaskSpec { release: late, ..task(0, 0, 1) }).contains("released by task 9"));
    assert!(
        refused(plain(), vec![task(0, 0, 1), task(0, 1, 1)])
            .contains("has the program of task `t0`")
    );
}

#[test]
fn what_a_scheduler_cannot_do_is_named() {
    let (one, tables) = (vec![task(0, 0, 1)], |core, end| {
        vec![CoreTable {
            core,
            frame_ps: 10 * NS,
            windows: vec![Window { start_ps: 0, end_ps: end, id: 0 }],
        }]
    });
    let levels = |core, end| scheduler(SchedulerSpec::Levels { tables: tables(core, end) });
    assert!(refused(levels(0, NS), one.clone()).contains("has no level"));
    let a = TaskSpec { level: Some(Level::A), pet_ps: Some(NS), ..periodic(0, 0, 1, 10) };
    assert!(
        refused(levels(0, NS), vec![TaskSpec { pet_ps: None, ..a.clone() }]).contains("has no PET")
    );
    assert!(refused(levels(5, NS), vec![a.clone()]).contains("a table is for core 5"));
    assert!(refused(levels(0, 11 * NS), vec![a.clone()]).contains("window 0 is empty, overlaps"));
    assert!(refused(levels(0, NS + 1), vec![a]).contains("not a whole number of nanoseconds"));
    let table = |core, end| scheduler(SchedulerSpec::Windows { tables: tables(core, end) });
    assert!(refused(table(0, NS), one.clone()).contains("has no partition"));
    assert!(
        refused(table(1, NS), vec![TaskSpec { partition: Some(0), ..task(0, 0, 1) }])
            .contains("no window on core 0")
    );
    let vcpu = |capacity, core, colours| VcpuSpec {
        capacity_ps: capacity * NS,
        period_ps: 10 * NS,
        core,
        colours,
    };
    let vcpus = |list: Vec<VcpuSpec>| VcpuConfig { vcpus: list, ..VcpuConfig::default() };
    let of = |config| scheduler(SchedulerSpec::Vcpu(config));
    let on = vec![TaskSpec { vcpu: Some(0), ..task(0, 0, 1) }];
    assert!(refused(of(vcpus(vec![])), one.clone()).contains("there are 0 VCPUs"));
    assert!(refused(of(vcpus(vec![vcpu(1, None, 0)])), one).contains("has no VCPU"));
    assert!(refused(of(vcpus(vec![vcpu(11, None, 0)])), on.clone()).contains("above its period"));
    assert!(
        refused(of(vcpus(vec![vcpu(1, Some(3), 0)])), on.clone()).contains("VCPU 0 is on core 3")
    );
    let coloured = VcpuConfig { colours: Some(vec![4, 4]), ..vcpus(vec![vcpu(1, None, 5)]) };
    assert!(refused(of(coloured), on.clone()).contains("needs 5 free page colours"));
    let full = VcpuConfig { admission: true, ..vcpus(vec![vcpu(6, Some(0), 0); 2]) };
    assert!(refused(of(full), on).contains("cannot have its capacity on core 0"));
}

#[test]
fn what_a_regulator_cannot_do_is_named() {
    let one = vec![task(0, 0, 1)];
    let of = |regulator| KernelConfig { regulator, ..KernelConfig::default() };
    let guard = |period_ps, cores| RegulatorSpec::MemGuard {
        period_ps,
        cores,
        sharing: Sharing::None,
        chunk: 1,
    };
    let budget = (Budget::Together(1), Role::default());
    assert!(
        refused(of(guard(NS, vec![budget])), one.clone()).contains("budgets are given for 1 cores")
    );
    assert!(
        refused(of(guard(NS + 1, vec![budget; 2])), one.clone())
            .contains("whole number of nanoseconds")
    );
    assert!(
        refused(of(guard(NS, vec![(Budget::Together(0), Role::default()); 2])), one.clone())
            .contains("core 0 has a budget of 0")
    );
    let lock = RegulatorSpec::BwLock {
        period_ps: NS,
        max_budget: Some(1),
        min_budget: 2,
        immediate: false,
    };
    assert!(refused(of(lock), one.clone()).contains("1 <= held <= free"));
    let dynamic = |hard, soft| of(RegulatorSpec::Dynamic { hard, soft });
    assert!(refused(dynamic(vec![0], vec![4]), one.clone()).contains("names core 4"));
    assert!(refused(dynamic(vec![0], vec![0]), one.clone()).contains("both hard and soft"));
    let hard =
        TaskSpec { budget: Some(TaskBudget { accesses: 0, length_ps: NS }), ..task(0, 0, 1) };
    assert!(
        refused(dynamic(vec![0], vec![1]), vec![hard.clone()]).contains("a budget of 0 accesses")
    );
    assert!(refused(dynamic(vec![1], vec![0]), vec![hard]).contains("not on a hard core"));
}

#[test]
fn a_program_that_only_signals_is_found_out() {
    let board = TestBoard::new(1, 10, &[vec![Op::signal(Signal::JobEnd)]]);
    let mut kernel = Kernel::new(board, KernelConfig::default(), vec![task(0, 0, 1)]).unwrap();
    let error = kernel.run(NS, &mut Unobserved, &mut |_| true).unwrap_err();
    assert_eq!(error, KernelError::Stuck { task: "t0".into(), at_ps: 0 });
}

#[test]
fn a_run_can_be_stopped_and_continued() {
    let board = TestBoard::new(1, 10, &[job(3)]);
    let tasks = vec![periodic(0, 0, 1, 10)];
    let mut kernel = Kernel::new(board.clone(), KernelConfig::default(), tasks.clone()).unwrap();
    let long = 1_000_000 * MS;
    assert_eq!(
        kernel.run(long, &mut Unobserved, &mut |now| now < MS),
        Err(KernelError::Interrupted)
    );
    let mut kernel = Kernel::new(board.clone(), KernelConfig::default(), tasks.clone()).unwrap();
    for until in [1, 7, 10, 13, 13, 40, 99] {
        kernel.run(until * NS, &mut Unobserved, &mut |_| true).unwrap();
    }
    let (whole, _) = run(board, KernelConfig::default(), tasks, 99);
    let parts = kernel.finish(&mut Unobserved);
    assert_eq!((parts.tasks, parts.cores), (whole.tasks, whole.cores));
}
