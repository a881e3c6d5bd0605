//! The kernel over the request-level machine: the properties of the test board hold there, too.

use super::*;
use crate::board::Board;
use crate::hardware::Hardware;
use crate::kernel::statistics::add;
use crate::workload::{
    Job, WorkloadSpec,
    params::{Access, BandwidthHog},
};
use solocore_model::{Bytes, Platform};
use std::path::Path;

/// Cores of the board, each with readers or writers of 4 MiB in jobs of 500 accesses, two to a
/// core.
fn board() -> Board {
    let platform = Platform::find("p4080", Path::new(".")).unwrap();
    let mut board = Board::new(&platform, 1).unwrap();
    for n in 0..8u32 {
        let access = if n % 2 == 0 { Access::Read } else { Access::Write };
        let hog = BandwidthHog {
            size: Bytes(4 << 20),
            access,
            job: Some(Job::Accesses(500)),
            ..BandwidthHog::default()
        };
        let index = board.add(&format!("hog {n}"), &WorkloadSpec::Bandwidth(hog)).unwrap();
        let core = (n / 2) as usize;
        let t = board.task(index);
        *t = TaskSpec {
            name: t.name.clone(),
            program: t.program,
            ..periodic(n, core, n, 800_000 + 30_000 * u64::from(n))
        };
    }
    board
}

fn go(config: KernelConfig, ns: u64) -> KernelResult {
    let mut kernel = board().requests(config).unwrap();
    assert!(kernel.hardware().cores() >= 4);
    kernel.run(ns * NS, &mut Unobserved, &mut |_| true).unwrap();
    kernel.finish(&mut Unobserved)
}

fn check(r: &KernelResult) {
    let mut sum = crate::hardware::Counters::default();
    for core in &r.cores {
        assert_eq!(
            core.busy_ps + core.throttled_ps + core.idle_ps + core.overhead_ps,
            r.simulated_ps
        );
        add(&mut sum, core.counters);
    }
    let tasks: u64 = r.tasks.iter().map(|t| t.counters.transactions()).sum();
    assert_eq!(
        (sum.dram_reads + sum.dram_writes, r.uncore.reads + r.uncore.writes),
        (tasks, tasks)
    );
    assert!(
        r.tasks.iter().all(|t| t.jobs > 0),
        "{:?}",
        r.tasks.iter().map(|t| t.jobs).collect::<Vec<_>>()
    );
}

#[test]
fn budgets_are_kept_but_for_what_is_under_way() {
    let cores = vec![(Budget::Together(300), Role::default()); 8];
    let regulator =
        RegulatorSpec::MemGuard { period_ps: 100 * US, cores, sharing: Sharing::None, chunk: 1 };
    let r = go(KernelConfig { regulator, ..KernelConfig::default() }, 5_000_000);
    check(&r);
    let most: Vec<u64> = r.cores.iter().map(|c| c.max_transactions_per_period).collect();
    // The access that ends the budget may push dirty lines out of the caches.
    assert!(most[..4].iter().all(|n| (300..=304).contains(n)), "{most:?}");
    assert!(r.cores[0].throttled_ps > r.simulated_ps / 10);
}

#[test]
fn tasks_that_migrate_run_on_one_core_at_a_time() {
    let costs =
        Costs { switch_ps: 500 * NS, timer_ps: 300 * NS, release_ps: 200 * NS, ..Costs::default() };
    let config =
        KernelConfig { scheduler: SchedulerSpec::GlobalEdf, costs, ..KernelConfig::default() };
    let r = go(config.clone(), 5_000_000);
    check(&r);
    assert_eq!(r, go(config, 5_000_000));
}
