//! The single-core-equivalence method: from partitions of single-core systems to a multicore time
//! table with a proof.
//!
//! Problem: IMA partitions that each had a chip (or a share of one) are to run side by side, with
//! their tasks' deadlines kept and their I/O free of conflicts. Rule: single-core-equivalence,
//! section 3.1: (1) the properties of the board (`hardware`), (2) even shares of cache, banks and
//! bandwidth (`crate::resources`), (3) partitions to cores with slack, (4) offsets of windows and
//! I/O ([`solver`]). Step (5) is lockdown, C_sce and schedulability inside each window (`inside`),
//! and it goes back to (3) where that fails (`rounds`). Not covered: moving tasks between
//! partitions, changing periods.

mod hardware;
mod inside;
mod rounds;
pub mod solver;
mod words;

use crate::core_plan::TaskPlan;
use crate::resources::Resources;
use crate::waterfall;
use crate::whole::whole;
use crate::work::Work;
use inside::{Inside, Others};
use rounds::{Attempt, Choice, Rounds, neighbours};
use solocore_analysis::response::Demand as Asked;
use solocore_model::plan::windows::{PlanMargin, PlanPartition, PlanTransfer, WindowsPlan};
use solocore_model::plan::{Plan, PlanCore, PlanTask, Scheme};
use solocore_model::system::System;
use solocore_model::windows::WindowsInput;
use solocore_model::windows::table::Stage;

const PS: u64 = 1000;

/// Plans a system with partitions.
pub fn plan(
    system: &System,
    input: &WindowsInput,
    work: &[Work],
    resources: &Resources,
    stop: &(dyn Fn() -> bool + Sync),
) -> Plan {
    let inside = Inside::all(input, work, resources);
    let choices = choices(input, &inside, resources);
    let rounds = Rounds {
        input,
        inside: &inside,
        choices: &choices,
        slack: system.windows_settings.slack,
        stop,
    };
    let (attempt, log) = rounds.run();
    let found = Found { inside: &inside, choices: &choices, attempt: &attempt, resources };
    let results: Vec<Vec<TaskPlan>> = (0..inside.len()).map(|p| found.results(p)).collect();
    let tasks: Vec<PlanTask> = (0..work.len()).filter_map(|t| found.task(t, &results)).collect();
    let cores = (0..resources.cores).map(|core| found.core(core, &tasks)).collect();
    let schedulable = attempt.step > 5;
    let mut plan = whole(system, tasks, cores, resources, schedulable);
    plan.scheme = Scheme::Windows(Box::new(WindowsPlan {
        hardware: hardware::check(system, resources),
        rounds: log,
        cores: input.cores,
        io_core: (!input.devices.is_empty()).then_some(input.cores),
        margin: PlanMargin {
            physical_ns: input.margin.physical_ns,
            device_ns: input.margin.device_ns,
            processing_ns: input.margin.processing_ns,
        },
        partitions: (0..inside.len()).map(|p| found.partition(p, &results[p])).collect(),
        transfers: transfers(input),
        table: attempt.rows.clone(),
    }));
    plan.reasons = words::reasons(&plan, work, resources);
    plan.assumptions = crate::assumptions::assumptions(&plan, work);
    words::assume(&mut plan, input);
    plan
}

/// Pages and least durations, with the worst rest that other partitions may leave, and alone.
fn choices(input: &WindowsInput, inside: &[Inside], resources: &Resources) -> Vec<Choice> {
    // Where budgets differ, a partition without a core is given the smallest.
    let budget = |core: &u32| {
        resources.budgets.as_ref().map_or(0, |b| b.get(*core as usize).copied().unwrap_or(0))
    };
    let worst = (0..input.cores).min_by_key(budget).unwrap_or(0);
    let lines = u64::from(resources.platform.lines_per_page());
    let choose = |own: &Inside| {
        let others: Vec<&Inside> =
            inside.iter().filter(|q| q.index != own.index && near(own, q)).collect();
        let all = Others {
            any: others.iter().any(|q| !q.tasks().is_empty()),
            locked_lines: others
                .iter()
                .map(|q| q.lockable().saturating_mul(lines))
                .fold(0, u64::saturating_add),
            private_lines: others.iter().map(|q| q.cached_lines()).fold(0, u64::saturating_add),
        };
        let core = own.partition.core.unwrap_or(worst);
        let (locked, least_ns) = own.lock(core, all);
        let alone_ns = own.least_ns(core, &locked, Others::default());
        Choice { locked, least_ns, alone_ns }
    };
    inside.iter().map(choose).collect()
}

/// May they share a core?
fn near(a: &Inside, b: &Inside) -> bool {
    match (a.partition.core, b.partition.core) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

/// A finished search.
struct Found<'a> {
    inside: &'a [Inside<'a>],
    choices: &'a [Choice],
    attempt: &'a Attempt,
    resources: &'a Resources,
}

impl Found<'_> {
    fn place(&self, p: usize) -> (u32, u64, Others) {
        let others = neighbours(self.inside, self.choices, &self.attempt.cores, p);
        (self.attempt.cores[p].unwrap_or(0), self.attempt.durations_ns[p], others)
    }

    fn results(&self, p: usize) -> Vec<TaskPlan> {
        let (core, duration, others) = self.place(p);
        self.inside[p].results(core, duration, &self.choices[p].locked, others)
    }

    fn task(&self, index: usize, results: &[Vec<TaskPlan>]) -> Option<PlanTask> {
        let w = &self.inside.first()?.work[index];
        let p = w.task.partition?;
        let numbers = results[p].iter().find(|t| t.index == index)?;
        let (core, duration, others) = self.place(p);
        let (inside, locked) = (&self.inside[p], &self.choices[p].locked);
        let windows = inside.windows(core, duration, locked, others);
        let entry = numbers.entry(core, w);
        Some(PlanTask {
            partition: Some(inside.partition.name.clone()),
            // Without a table no partition runs.
            schedulable: !w.hard() || (numbers.meets && !self.attempt.rows.is_empty()),
            margin: inside.margin(index, core, duration, locked, others).filter(|_| w.hard()),
            derivation: inside.derivation(index, core, locked, &windows, numbers.response_ps),
            waterfall: waterfall::of(w, numbers, inside.bounds(core).once(false), self.resources),
            ..entry
        })
    }

    fn partition(&self, p: usize, results: &[TaskPlan]) -> PlanPartition {
        let (core, duration_ns, others) = self.place(p);
        let (inside, choice) = (&self.inside[p], &self.choices[p]);
        let start = inside.start(&choice.locked, others);
        let bounds = inside.bounds(core);
        let of = |n: u64| {
            let alone = bounds.resources.access_ps(n);
            alone
                .saturating_add(bounds.stall(Asked { work_ps: alone, ..Asked::accesses(n) }))
                .div_ceil(PS)
        };
        PlanPartition {
            name: inside.partition.name.clone(),
            core: self.attempt.cores[p],
            period_ns: inside.partition.period_ns,
            duration_ns,
            stated: inside.partition.duration_ns > 0,
            least_duration_ns: if results.iter().any(|t| inside.work[t.index].hard()) {
                inside.least_ns(core, &choice.locked, others)
            } else {
                Some(0)
            },
            locked_pages: choice.locked.values().map(|&k| k as u64).sum(),
            prefetch_accesses: start.prefetch,
            prefetch_ns: of(start.prefetch),
            switch_ns: of(start.refill).saturating_add(bounds.each_window().div_ceil(PS)),
            schedulable: results.iter().all(|t| t.meets),
        }
    }

    fn core(&self, core: u32, tasks: &[PlanTask]) -> PlanCore {
        let r = self.resources;
        let budget = r.budgets.as_ref().map(|b| b[core as usize]);
        let share = |t: &PlanTask| t.c_sce_ns as f64 / t.period_ns.unwrap_or(u64::MAX) as f64;
        let pages = |p: usize| self.choices[p].locked.values().map(|&k| k as u64).sum::<u64>();
        let on = (0..self.inside.len()).filter(|&p| self.attempt.cores[p] == Some(core));
        PlanCore {
            id: core,
            ways: r.ways,
            budget_accesses: budget,
            write_budget_accesses: None,
            bandwidth_bytes_per_s: budget.map(|q| r.bandwidth(q)),
            lock_capacity_pages: r.lock_capacity,
            // The pages of one partition at a time.
            locked_pages: on.map(pages).max().unwrap_or(0),
            utilization: tasks
                .iter()
                .filter(|t| t.core == core && !t.best_effort())
                .map(share)
                .fold(0.0, |a, b| a + b),
            banks: r.banks(core),
            colours: None,
            soft: false,
            gives: false,
            margin: None,
        }
    }
}

fn transfers(input: &WindowsInput) -> Vec<PlanTransfer> {
    let mut all = Vec::new();
    for p in &input.partitions {
        for (k, c) in p.chains.iter().enumerate() {
            let halves = [(Stage::DeviceInput, c.input), (Stage::DeviceOutput, c.output)];
            for (stage, t) in halves.into_iter().filter_map(|(s, t)| t.map(|t| (s, t))) {
                let dma = input.devices[t.device].dma.filter(|_| t.bytes.is_some());
                all.push(PlanTransfer {
                    partition: p.name.clone(),
                    chain: k + 1,
                    stage,
                    bytes: t.bytes,
                    block_bytes: dma.map(|d| d.block),
                    block_ps: dma.map(|d| {
                        let moving =
                            (u128::from(d.block) * 1_000_000_000_000).div_ceil(u128::from(d.bus));
                        u64::try_from(moving).unwrap_or(u64::MAX).saturating_add(d.wait_ps)
                    }),
                });
            }
        }
    }
    all
}
