//! Speed of the kernel alone: `cargo test --release -p solocore-sim kernel::tests::speed --
//! --ignored --nocapture`.

use super::*;
use crate::program::OpKind;

/// Four cores; sixteen tasks of 10 accesses each, every 40 to 100 us; a regulation period of 1 us:
/// mostly timers.
fn system(scheduler: SchedulerSpec) -> (TestBoard, KernelConfig, Vec<TaskSpec>) {
    let program = [vec![Op::access(OpKind::LoadWait, 100, 0); 10], job(200)].concat();
    let tasks = (0..16u32).map(|p| TaskSpec {
        vcpu: Some(p as usize),
        ..periodic(p, p as usize % 4, p, 40_000 + 4000 * u64::from(p))
    });
    let mut board = TestBoard::new(4, 50, &vec![program; 16]);
    board.logging = false;
    let regulator = RegulatorSpec::MemGuard {
        period_ps: US,
        cores: vec![(Budget::Together(3), Role::default()); 4],
        sharing: Sharing::None,
        chunk: 1,
    };
    (board, KernelConfig { scheduler, regulator, ..KernelConfig::default() }, tasks.collect())
}

#[test]
#[ignore = "a measurement"]
fn events_per_second() {
    let vcpu = VcpuSpec { capacity_ps: 2 * US, period_ps: 20 * US, core: None, colours: 0 };
    let vcpus = VcpuConfig {
        vcpus: vec![vcpu; 16],
        background: Some(Background::LeastTime),
        ..VcpuConfig::default()
    };
    for scheduler in
        [SchedulerSpec::FixedPriority, SchedulerSpec::Vcpu(vcpus), SchedulerSpec::GlobalEdf]
    {
        let (board, config, tasks) = system(scheduler.clone());
        let mut kernel = Kernel::new(board, config, tasks).unwrap();
        let start = std::time::Instant::now();
        kernel.run(1000 * MS, &mut Unobserved, &mut |_| true).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let result = kernel.finish(&mut Unobserved);
        let name = format!("{scheduler:?}").chars().take(13).collect::<String>();
        println!(
            "{name}: {} events, {:.2} million a second, the board included",
            result.events,
            result.events as f64 / seconds / 1e6
        );
    }
}
