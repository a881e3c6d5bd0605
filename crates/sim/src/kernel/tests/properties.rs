//! Random systems: against models that step through time ns by ns, and against properties that
//! always hold.

use super::*;
use crate::program::{OpKind, Signal};
use proptest::prelude::*;

/// (period, execution, deadline) in ns.
type Drawn = (u64, u64, u64);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec((5u64..60, 1u64..20, 5u64..80), 1..7)
}

fn specs(drawn: &[Drawn], cores: usize) -> Vec<TaskSpec> {
    (0u32..)
        .zip(drawn)
        .map(|(p, &(period, _, deadline))| {
            let spec = periodic(p, p as usize % cores, p % 3, period);
            TaskSpec { deadline_ps: Some(deadline * NS), ..spec }
        })
        .collect()
}

/// Jobs as (task, arrival, end), by a simulation that chooses at each ns. `choose` gets the ready
/// jobs, oldest of each task, as (task, arrival, core it ran on last), and returns the jobs that
/// run, with their cores.
fn by_the_ns(
    drawn: &[Drawn],
    end: u64,
    choose: impl Fn(&[(usize, u64)]) -> Vec<usize>,
) -> Vec<(usize, u64, u64)> {
    let mut jobs: Vec<std::collections::VecDeque<(u64, u64)>> =
        vec![Default::default(); drawn.len()];
    let mut done = Vec::new();
    for now in 0..end {
        for (t, &(period, execution, _)) in drawn.iter().enumerate() {
            if now % period == 0 {
                jobs[t].push_back((now, execution));
            }
        }
        let ready: Vec<(usize, u64)> =
            jobs.iter().enumerate().filter_map(|(t, q)| q.front().map(|j| (t, j.0))).collect();
        for t in choose(&ready) {
            let job = jobs[t].front_mut().unwrap();
            job.1 -= 1;
            if job.1 == 0 {
                done.push((t, job.0, now + 1));
                jobs[t].pop_front();
            }
        }
    }
    done.sort_unstable();
    done
}

fn finished(
    drawn: &[Drawn],
    cores: usize,
    config: KernelConfig,
    end: u64,
) -> Vec<(usize, u64, u64)> {
    let programs: Vec<_> = drawn.iter().map(|d| job(d.1)).collect();
    let mut watch = Watch::default();
    run_watched(TestBoard::new(cores, 10, &programs), config, specs(drawn, cores), end, &mut watch);
    watch.jobs.sort_unstable();
    watch.jobs
}

/// Ends of jobs by time only: where deadlines tie, tasks may change places.
fn some_combination() -> impl Strategy<Value = (u8, u8, Costs)> {
    (0u8..5, 0u8..4, any::<bool>(), 0u64..4, 0u64..3).prop_map(|(s, r, costs, skid, delay)| {
        let some = |ps: u64| if costs { ps } else { 0 };
        let costs = Costs {
            timer_ps: some(1300),
            overflow_ps: some(900),
            switch_ps: some(2100),
            ipi_ps: some(700),
            ipi_delay_ps: some(5000),
            release_ps: some(400),
            migration_ps: some(3300),
            interrupt_delay_ps: some(delay * 40_000),
            skid_transactions: skid,
        };
        (s, r, costs)
    })
}

fn combination(s: u8, r: u8, costs: Costs, tasks: &mut [TaskSpec], cores: usize) -> KernelConfig {
    let whole = |core| CoreTable {
        core,
        frame_ps: 400 * NS,
        windows: (0..4)
            .map(|w| Window {
                start_ps: 100 * w as u64 * NS,
                end_ps: (100 * w as u64 + 90) * NS,
                id: w,
            })
            .collect(),
    };
    for (t, task) in tasks.iter_mut().enumerate() {
        (task.vcpu, task.partition, task.realtime) = (Some(t), Some(t % 4), t % 3 == 0);
        task.level = Some([Level::B, Level::C, Level::D][t % 3]);
        task.pet_ps = Some(300 * NS);
        if r == 3 && t % cores == 0 {
            task.budget = Some(TaskBudget { accesses: 5, length_ps: 700 * NS });
        }
    }
    let vcpu = VcpuSpec { capacity_ps: 200 * NS, period_ps: 2000 * NS, core: None, colours: 0 };
    let scheduler = match s {
        0 => SchedulerSpec::FixedPriority,
        1 => SchedulerSpec::Vcpu(VcpuConfig {
            vcpus: vec![vcpu; tasks.len()],
            background: Some(Background::LeastTime),
            throttle: Some(ThrottleSpec {
                rule: Rule::Rate,
                threshold: 20,
                idle_per_mille: 300,
                period_ps: 3 * US,
                check_ps: 100 * NS,
            }),
            balancing: Balancing::Full { limit: 2 },
            ..VcpuConfig::default()
        }),
        2 => SchedulerSpec::Levels { tables: vec![] },
        3 => SchedulerSpec::Windows { tables: (0..cores).map(whole).collect() },
        _ => SchedulerSpec::GlobalEdf,
    };
    let budget = (Budget::Together(4), Role { predict: true, reclaim: false, hard: true });
    let regulator = match r {
        0 => RegulatorSpec::None,
        1 => RegulatorSpec::MemGuard {
            period_ps: 800 * NS,
            cores: vec![budget; cores],
            sharing: Sharing::None,
            chunk: 1,
        },
        2 => RegulatorSpec::BwLock {
            period_ps: 800 * NS,
            max_budget: Some(7),
            min_budget: 2,
            immediate: true,
        },
        _ => RegulatorSpec::Dynamic { hard: vec![0], soft: (1..cores).collect() },
    };
    KernelConfig { scheduler, regulator, costs, ..KernelConfig::default() }
}

/// Checks that a task has one job at a time, and the accesses of each core in a period.
#[derive(Default)]
struct Invariants {
    last_end: Vec<u64>,
    on: Vec<Option<usize>>,
    now_ps: u64,
    most: u64,
}

impl Observer for Invariants {
    fn job_finished(&mut self, job: JobReport) {
        self.last_end.resize(self.last_end.len().max(job.task + 1), 0);
        assert!(
            job.end_ps >= self.last_end[job.task]
                && job.execution_ps
                    <= job.end_ps - self.last_end[job.task].max(job.arrival_ps).min(job.end_ps)
        );
        self.last_end[job.task] = job.end_ps;
    }
    fn dispatched(&mut self, core: usize, task: Option<usize>, _: RunMode, now_ps: u64) {
        // Within an instant, cores may exchange tasks one after the other.
        if now_ps > std::mem::replace(&mut self.now_ps, now_ps) {
            let mut on: Vec<usize> = self.on.iter().copied().flatten().collect();
            on.sort_unstable();
            assert!(on.windows(2).all(|w| w[0] != w[1]), "a task is on two cores: {:?}", self.on);
        }
        self.on.resize(self.on.len().max(core + 1), None);
        self.on[core] = task;
    }
    fn period_ended(&mut self, _: usize, transactions: u64, _: u64) {
        self.most = self.most.max(transactions);
    }
}

fn mixed_program(execution: u64, accesses: u64, locks: bool) -> Vec<Op> {
    let mut ops = Vec::new();
    if locks {
        ops.push(Op::signal(Signal::Lock));
    }
    for n in 0..accesses {
        ops.push(Op::access(
            if n % 3 == 0 { OpKind::Store } else { OpKind::LoadWait },
            execution,
            0,
        ));
    }
    ops.push(Op::compute(execution * 10));
    if locks {
        ops.push(Op::signal(Signal::Unlock));
    }
    ops.push(Op::signal(Signal::JobEnd));
    ops
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Partitioned fixed priorities against the model: every job ends at the same ns.
    #[test]
    fn fixed_priorities_are_as_by_the_ns(drawn in drawn(), cores in 1usize..3) {
        let specs = specs(&drawn, cores);
        let model = by_the_ns(&drawn, 400, |ready| {
            (0..cores).filter_map(|core| {
                ready.iter().filter(|r| specs[r.0].core == Some(core)).min_by_key(|r| (specs[r.0].priority, r.0)).map(|r| r.0)
            }).collect()
        });
        prop_assert_eq!(finished(&drawn, cores, KernelConfig::default(), 400), model);
    }

    /// Global EDF against the model, with deadlines made different so that no tie is to be broken.
    #[test]
    fn global_edf_is_as_by_the_ns(drawn in drawn(), cores in 1usize..4) {
        let model = by_the_ns(&drawn, 400, |ready| {
            let mut order: Vec<(u64, usize)> = ready.iter().map(|&(t, arrival)| (arrival + drawn[t].2, t)).collect();
            order.sort_unstable();
            order.into_iter().take(cores).map(|o| o.1).collect()
        });
        // The kernel may break a tie otherwise (a running task goes on), so the model is compared
        // only where no tie occurs.
        let mut deadlines: Vec<u64> = (0..drawn.len()).flat_map(|t| (0..400).step_by(usize::try_from(drawn[t].0).unwrap()).map(move |a| (a, t)))
            .map(|(a, t)| a as u64 + drawn[t].2).collect();
        deadlines.sort_unstable();
        if deadlines.windows(2).all(|w| w[0] != w[1]) {
            let config = KernelConfig { scheduler: SchedulerSpec::GlobalEdf, ..KernelConfig::default() };
            prop_assert_eq!(finished(&drawn, cores, config, 400), model);
        }
    }

    /// Every scheduler with every regulator, with costs or without: invariants hold, budgets are
    /// kept, and results repeat.
    #[test]
    fn any_combination_keeps_its_promises(
        (s, r, costs) in some_combination(),
        drawn in prop::collection::vec((300u64..4000, 1u64..12, 0u64..12), 1..7), cores in 1usize..4, seed in any::<u64>(),
    ) {
        let programs: Vec<_> = drawn.iter().enumerate().map(|(t, d)| mixed_program(d.1, d.2, r == 2 && t % 3 == 0)).collect();
        let mut tasks: Vec<TaskSpec> = (0u32..).zip(&drawn).map(|(p, d)| periodic(p, p as usize % cores, p % 3, d.0)).collect();
        for task in tasks.iter_mut().skip(2).step_by(2) {
            task.release = Release::Sporadic { min_ps: 500 * NS, max_ps: 1500 * NS };
        }
        let config = KernelConfig { seed, ..combination(s, r, costs, &mut tasks, cores) };
        let mut watch = Invariants::default();
        let (result, board) = run_watched(TestBoard::new(cores, 90, &programs), config.clone(), tasks.clone(), 20_000, &mut watch);
        if r == 1 {
            // One access more may be under way for each 100 ns of an interrupt's delay.
            let most = 4 + costs.skid_transactions + costs.interrupt_delay_ps.div_ceil(90 * NS);
            prop_assert!(watch.most <= most, "{} of {most}", watch.most);
        }
        prop_assert_eq!(result.uncore.reads + result.uncore.writes, result.tasks.iter().map(|t| t.counters.transactions()).sum::<u64>());
        let again = run(TestBoard::new(cores, 90, &programs), config, tasks, 20_000);
        prop_assert_eq!((result, board.log), (again.0, again.1.log));
    }
}
