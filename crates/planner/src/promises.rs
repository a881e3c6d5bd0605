//! The conditions of a plan's bounds, one promise for each resource.
//!
//! Rule: a bound rests on the place, the releases and the demand of the tasks that delay it. It
//! rests on the share of cache and banks of its core, and on its part of the scheme (window, slots,
//! VCPU). It also rests on the budgets of all cores, and on a machine that adds nothing: no
//! prefetcher, no device, no interrupts. Best effort is promised nothing. Where budgets limit best
//! effort, nothing is assumed about it. Source: the terms of each bound, docs/bounds.md;
//! single-core-equivalence, sections 2 and 2.2. Does not cover: properties of the hardware (prices
//! of its memory are one promise, `memory`); preemption and context switches, which no bound
//! charges (plan.assumptions).

use crate::explain::ways;
use crate::work::DETAILED;
use solocore_model::plan::{
    LevelsPlan, LockedTask, Plan, PlanCore, PlanLock, PlanRegulation, PlanTask, Promise, Scheme,
    Subject, VcpusPlan, WindowsPlan,
};
use solocore_model::system::{Criticality, Model, Policy, Scheme as SystemScheme};
use solocore_model::windows::table::Stage;
use solocore_model::{System, Time};
use std::collections::BTreeSet;

/// Promises of a plan, in the order of tasks and cores, those of the machine last.
pub fn of(system: &System, plan: &Plan) -> Vec<Promise> {
    let of_bounds = plan.tasks.iter().filter(|t| bounded(plan, t));
    let cores: BTreeSet<u32> = of_bounds.map(|t| t.core).collect();
    if cores.is_empty() {
        return Vec::new();
    }
    let list = List {
        plan,
        named: plan.tasks.len() <= DETAILED,
        held: plan.cores.iter().all(|c| c.budget_accesses.is_some()) && best_effort(plan),
        cores: cores.into_iter().collect(),
        of_level_c: level_c(plan),
        made: Vec::new(),
    };
    list.tasks(system).shares().scheme().budgets().lock().others().machine().made
}

/// Does the plan have programs without a bound?
fn best_effort(plan: &Plan) -> bool {
    plan.regulation.other_programs || plan.tasks.iter().any(PlanTask::best_effort)
}

/// Does it have a bound that can be broken, on its response or on its slowdown?
fn bounded(plan: &Plan, task: &PlanTask) -> bool {
    let locked = |lock: &PlanLock| lock.tasks.iter().any(|t| t.name == task.name);
    let bound = task.wcrt_ns.is_some() || task.tardiness_ns.is_some();
    !task.best_effort() && (bound || plan.lock.as_ref().is_some_and(locked))
}

/// The core numbers that a plan with levels has for its tasks of level C, which run on every core.
fn level_c(plan: &Plan) -> BTreeSet<u32> {
    let levels = plan.levels().is_some();
    let all = plan.tasks.iter().filter(|t| levels && bounded(plan, t));
    all.filter(|t| t.criticality == Criticality::C).map(|t| t.core).collect()
}

/// Tasks with bounds that rest on a promise.
#[derive(Clone)]
enum Whose {
    Tasks(Vec<String>),
    /// All bounded tasks of these cores: a list of names would be quadratic in the number of tasks.
    Cores(Vec<u32>),
}

struct List<'a> {
    plan: &'a Plan,
    /// Few enough tasks to name them with each promise.
    named: bool,
    /// Do budgets limit best effort? Then a task delays its own core only.
    held: bool,
    /// Cores with tasks that have bounds.
    cores: Vec<u32>,
    /// See [`level_c`].
    of_level_c: BTreeSet<u32>,
    made: Vec<Promise>,
}

/// The colours of a core, in words.
fn colours(core: &PlanCore) -> Option<String> {
    let (first, count) = core.colours?;
    Some(match count {
        1 => format!("the pages of colour {first}"),
        _ => format!("the pages of colours {first} to {}", first + count - 1),
    })
}

/// Ways of a core, as the pages of colours that stand for them where there are such; is it one?
fn part_of_cache(core: Option<&PlanCore>, count: u32) -> (String, bool) {
    match core.and_then(colours) {
        Some(pages) => (pages, false),
        None => (ways(count as usize), count == 1),
    }
}

/// The ways in which the plan lets a core exceed its budget, in words behind those on the budget.
pub fn spared(regulation: &PlanRegulation) -> &'static str {
    match (regulation.reclaim, regulation.sharing.is_none()) {
        (false, true) => "",
        (true, true) => "; more only from budget that cores without analysed tasks give away",
        (false, false) => "; more only once every core has used its budget up",
        (true, false) => {
            "; more only from budget that cores without analysed tasks give away, or once every \
                core has used its budget up"
        }
    }
}

/// The accesses of a core beyond its budget until it is stopped, in words behind those on the
/// budget.
fn beyond(regulation: &PlanRegulation) -> String {
    match regulation.skid {
        0 => String::new(),
        skid => format!(", and {skid} beyond it until it is stopped"),
    }
}

fn time(ns: u64) -> Time {
    Time::from_ns(ns)
}

impl List<'_> {
    fn add(&mut self, subject: Subject, resource: &str, bound_of: Whose, what: String) {
        match bound_of {
            Whose::Tasks(names) if !names.is_empty() => {
                self.made.push(Promise::new(subject, resource, names, what));
            }
            Whose::Cores(cores) if !cores.is_empty() => {
                let promise = Promise::new(subject, resource, Vec::new(), what);
                self.made.push(promise.of_cores(cores));
            }
            Whose::Tasks(_) | Whose::Cores(_) => {}
        }
    }

    fn names(&self, which: impl Fn(&PlanTask) -> bool) -> Whose {
        let all = self.plan.tasks.iter().filter(|t| bounded(self.plan, t) && which(t));
        Whose::Tasks(all.map(|t| t.name.clone()).collect())
    }

    fn all(&self) -> Whose {
        if self.named { self.names(|_| true) } else { Whose::Cores(self.cores.clone()) }
    }

    fn of_core(&self, core: u32) -> Whose {
        if self.named {
            // Level C of MC2 runs on every core.
            self.names(|t| t.core == core || self.everywhere(t))
        } else {
            // More tasks than those concerned: the core of level C has others, too.
            let concerned = |c: &u32| *c == core || self.of_level_c.contains(c);
            Whose::Cores(self.cores.iter().copied().filter(concerned).collect())
        }
    }

    fn everywhere(&self, task: &PlanTask) -> bool {
        self.plan.levels().is_some() && task.criticality == Criticality::C
    }

    /// The tasks that a task delays: those of its core, or all where only their jobs limit the
    /// cores' accesses.
    fn delayed_by(&self, task: &PlanTask) -> Whose {
        if self.held && !self.everywhere(task) { self.of_core(task.core) } else { self.all() }
    }

    fn tasks(mut self, system: &System) -> Self {
        let levels = system.levels().is_some();
        let measured = matches!(&system.scheme, SystemScheme::Levels(m)
            if m.settings.contention == solocore_model::levels::Contention::Measured);
        for task in self.plan.tasks.iter().filter(|t| bounded(self.plan, t)) {
            let (resource, delayed) = (format!("task {}", task.name), self.delayed_by(task));
            let place = match (&task.partition, self.everywhere(task)) {
                (_, true) => "runs on any core that is free for its level".to_owned(),
                (Some(partition), _) => {
                    format!("runs on core {}, in the windows of {partition}", task.core)
                }
                (None, _) if levels => format!("runs on core {} at its level", task.core),
                _ => format!("runs on core {} at priority {}", task.core, task.priority),
            };
            self.add(Subject::Place, &resource, delayed.clone(), place);
            if let Some(period) = task.period_ns {
                let what = format!("jobs are released {} apart or more", time(period));
                self.add(Subject::Releases, &resource, delayed.clone(), what);
            }
            let under = if measured { ", beside the programs there" } else { ", alone" };
            let what = format!(
                "a job takes at most {} and {} accesses{under}",
                time(task.wcet_ns),
                task.misses
            );
            self.add(Subject::Demand, &resource, delayed, what);
            self.of_dynamic(task, &resource);
            if !task.locked_pages.is_empty() {
                let what = format!("{} pages stay in the shared cache", task.locked_pages.len());
                self.add(Subject::LockedPages, &resource, self.of_core(task.core), what);
            }
            if self.counts_by_ways(task, measured) {
                let what = format!(
                    "page n in the order of first touch has colour n modulo {}, and its ways \
                        replace the least recently used line",
                    self.plan.platform.colours()
                );
                self.add(Subject::PageColours, &resource, self.delayed_by(task), what);
            }
        }
        self
    }

    /// Does the plan count on the misses by ways of a task's profile? Level C counts on no hit
    /// where contention is bounded.
    fn counts_by_ways(&self, task: &PlanTask, measured: bool) -> bool {
        let has_ways = |levels: &LevelsPlan| levels.pets_of(&task.name).is_some_and(|p| p.ways > 0);
        task.profile.is_some()
            && self.plan.platform.counts_by_ways()
            && (measured || !self.everywhere(task))
            && self.plan.levels().is_some_and(has_ways)
    }

    fn of_dynamic(&mut self, task: &PlanTask, resource: &str) {
        let (Policy::Dynamic, Some(budget)) = (self.plan.regulation.policy, task.soft_budget)
        else {
            return;
        };
        let delayed = self.of_core(task.core);
        let what = "begin and end of each job are signalled".to_owned();
        self.add(Subject::Jobs, resource, delayed.clone(), what);
        let what = format!("while a job runs, soft cores together make at most {budget} accesses");
        self.add(Subject::SoftBudget, resource, delayed, what);
    }

    /// Cache and banks of cores.
    fn shares(mut self) -> Self {
        if self.plan.levels().is_some() {
            return self;
        }
        let (plan, alone) = (self.plan, self.plan.cores.len() == 1);
        for core in &plan.cores {
            let resource = format!("core {}", core.id);
            if core.ways > 0 && !alone {
                let (what, one) = part_of_cache(Some(core), core.ways);
                let are = if one { "is" } else { "are" };
                let what = format!("{what} of the shared cache {are} its own");
                self.add(Subject::Ways, &resource, self.of_core(core.id), what);
            }
            if let Some((first, count)) = core.banks.filter(|_| !alone) {
                let what = format!("DRAM banks {first} to {} are its own", first + count - 1);
                self.add(Subject::Banks, &resource, self.of_core(core.id), what);
            }
        }
        self
    }

    fn scheme(mut self) -> Self {
        let plan = self.plan;
        if let Some(windows) = plan.windows() {
            self.windows(windows);
        } else if let Some(levels) = plan.levels() {
            self.levels(levels);
        } else if let Some(vcpus) = plan.vcpus() {
            self.vcpus(vcpus);
        }
        self
    }

    fn windows(&mut self, windows: &WindowsPlan) {
        for partition in &windows.partitions {
            let resource = format!("partition {}", partition.name);
            let inside = self.names(|t| t.partition.as_ref() == Some(&partition.name));
            let (length, period) = (time(partition.duration_ns), time(partition.period_ns));
            let what = format!("it has its core to itself for {length} in each {period}");
            self.add(Subject::Window, &resource, inside.clone(), what);
            if partition.locked_pages > 0 {
                let pages = partition.locked_pages;
                let what = format!("{pages} pages are in the shared cache when a window begins");
                self.add(Subject::Prefetch, &resource, inside, what);
            }
        }
        for row in windows.table.iter().filter(|r| r.stage != Stage::Processing) {
            let chain = row.chain.unwrap_or(0);
            let resource = format!("transfer {}/{chain}/{}", row.partition, row.stage.name());
            let inside = self.names(|t| t.partition.as_ref() == Some(&row.partition));
            let (length, period) = (time(row.duration_ns), time(row.period_ns));
            let what = format!("it keeps to its slot of {length} in each {period}");
            self.add(Subject::Transfer, &resource, inside, what);
        }
    }

    fn levels(&mut self, levels: &LevelsPlan) {
        for core in &levels.cores {
            let (resource, inside) = (format!("core {}", core.id), self.of_core(core.id));
            if let Some(table) = levels.tables.iter().find(|t| t.core == core.id) {
                let what = format!("level A has its {} slots", table.slots.len());
                self.add(Subject::Slots, &resource, inside.clone(), what);
            }
            let what = "a higher level runs before a lower one, and no job runs beyond its \
                provisioned time"
                .to_owned();
            self.add(Subject::Levels, &resource, inside.clone(), what);
            if core.ways.count > 0 {
                let planned = self.plan.cores.iter().find(|c| c.id == core.id);
                let (what, one) = part_of_cache(planned, core.ways.count);
                let are = if one { "is that" } else { "are those" };
                let what = format!("{what} {are} of its levels A and B");
                self.add(Subject::Ways, &resource, inside.clone(), what);
            }
            let what = format!("DRAM bank {} is that of its levels A and B", core.bank);
            self.add(Subject::Banks, &resource, inside, what);
        }
        for message in &levels.messages {
            let resource = format!("message {} to {}", message.from, message.to);
            let inside = self.names(|t| t.name == message.from || t.name == message.to);
            let what = format!("its buffer of {} bytes lies where the plan has it", message.bytes);
            self.add(Subject::Buffer, &resource, inside, what);
        }
        for io in &levels.io {
            let resource = format!("buffer {} of {}", io.device, io.task);
            let inside = self.names(|t| t.name == io.task);
            let what = format!("its {} bytes lie where the plan has them", io.bytes);
            self.add(Subject::Buffer, &resource, inside, what);
        }
    }

    fn vcpus(&mut self, vcpus: &VcpusPlan) {
        for vcpu in &vcpus.vcpus {
            let (capacity, period) = (time(vcpu.capacity_ns), time(vcpu.period_ns));
            let what = format!("it has {capacity} of core {} in each {period}", vcpu.core);
            let inside = self.of_core(vcpu.core);
            self.add(Subject::Vcpu, &format!("vcpu {}", vcpu.name), inside, what);
        }
    }

    fn budgets(mut self) -> Self {
        let plan = self.plan;
        if plan.regulation.policy != Policy::Memguard {
            return self;
        }
        let (period, spared) = (time(plan.regulation.period_ns), spared(&plan.regulation));
        for core in &plan.cores {
            let resource = format!("core {}", core.id);
            if let Some(budget) = core.budget_accesses {
                let beyond = beyond(&plan.regulation);
                let what =
                    format!("it makes at most {budget} accesses in each {period}{beyond}{spared}");
                self.add(Subject::Budget, &resource, self.all(), what);
            }
            if let Some(writes) = core.write_budget_accesses {
                let what =
                    format!("at most {writes} of its accesses in each {period} are writes{spared}");
                self.add(Subject::WriteBudget, &resource, self.all(), what);
            }
        }
        self
    }

    /// The lock: the jobs that hold it, or the sections that were chosen for wanted slowdowns, and
    /// the other cores beside them.
    fn lock(mut self) -> Self {
        let plan = self.plan;
        if let (Some(reaction), Some(budget)) =
            (plan.regulation.lock_reaction_ns, plan.regulation.lock_budget_accesses)
        {
            self.beside_jobs(time(reaction), budget);
            return self;
        }
        let (Some(lock), Some(budget)) = (&plan.lock, plan.regulation.lock_budget_accesses) else {
            return self;
        };
        let (period, reaction) = (time(plan.regulation.period_ns), time(lock.reaction_ns));
        let held: Vec<&LockedTask> =
            lock.tasks.iter().filter(|t| !t.functions.is_empty()).collect();
        for task in &held {
            let what = format!("each call of {} holds the lock", task.functions.join(", "));
            let whose = Whose::Tasks(vec![task.name.clone()]);
            self.add(Subject::Sections, &format!("task {}", task.name), whose, what);
        }
        for core in &plan.cores {
            let whose =
                self.names(|t| t.core != core.id && held.iter().any(|task| task.name == t.name));
            let what = format!(
                "programs other than analysed tasks make at most {budget} accesses there in each \
                    {period} in which such a call goes on, from {reaction} after its beginning on"
            );
            self.add(Subject::LockBudget, &format!("core {}", core.id), whose, what);
        }
        self
    }

    fn beside_jobs(&mut self, reaction: Time, budget: u64) {
        let (period, beyond) =
            (time(self.plan.regulation.period_ns), beyond(&self.plan.regulation));
        for task in self.plan.tasks.iter().filter(|t| !t.best_effort()) {
            let what = "it holds the bandwidth lock while it runs".to_owned();
            self.add(Subject::Holds, &format!("task {}", task.name), self.all(), what);
        }
        for core in &self.plan.cores {
            let what = format!(
                "programs other than analysed tasks make at most {budget} accesses there in each \
                    {period} in which an analysed task of another core runs, from {reaction} after \
                    a job's beginning on{beyond}"
            );
            self.add(Subject::BesideJobs, &format!("core {}", core.id), self.all(), what);
        }
    }

    /// Without best effort, bounds count on the accesses of the other cores' jobs, and on no other
    /// programs there (`budgets::with_known_rivals`).
    fn others(mut self) -> Self {
        let plan = self.plan;
        let budgets = matches!(plan.scheme, Scheme::Budgets);
        let locked = plan.regulation.lock_reaction_ns.is_some();
        if !budgets || locked || plan.model == Model::Sce || best_effort(plan) {
            return self;
        }
        let with_tasks: BTreeSet<u32> = plan.tasks.iter().map(|t| t.core).collect();
        for core in &plan.cores {
            if with_tasks.contains(&core.id) || core.budget_accesses.is_none() {
                let elsewhere = match self.named {
                    true => self.names(|t| t.core != core.id),
                    false => {
                        let cores = self.cores.iter().copied();
                        Whose::Cores(cores.filter(|&c| c != core.id).collect())
                    }
                };
                let what = "only the plan's tasks make accesses there".to_owned();
                self.add(Subject::Others, &format!("core {}", core.id), elsewhere, what);
            }
        }
        self
    }

    fn machine(mut self) -> Self {
        let plan = self.plan;
        for core in &plan.cores {
            let inside = self.of_core(core.id);
            let what = "interrupts are handled elsewhere: no bound charges them".to_owned();
            self.add(Subject::Interrupts, &format!("core {}", core.id), inside, what);
        }
        let machine = "machine";
        let idle = plan.platform.cores.saturating_sub(plan.regulation.active_cores);
        if idle > 0 {
            let what = format!("{idle} of {} cores make no accesses", plan.platform.cores);
            self.add(Subject::IdleCores, machine, self.all(), what);
        }
        let what = "no prefetcher adds traffic".to_owned();
        self.add(Subject::Prefetchers, machine, self.all(), what);
        let what = if plan.windows().is_some() {
            "devices move data in their slots only"
        } else {
            "no device moves data outside of the plan"
        };
        self.add(Subject::Devices, machine, self.all(), what.to_owned());
        let latency = plan.platform.dram.latency_max;
        let what = match plan.model {
            Model::Sound => format!(
                "it is as {} has it, with L_max = {latency} for an access by itself; the shared \
                cache evicts no lines from the private ones",
                plan.platform.dram.memory.as_deref().unwrap_or("the platform file")
            ),
            Model::Sce => format!(
                "each core has one access under way, the memory serves cores in turn, and \
                    L_max = {latency} holds every access"
            ),
        };
        self.add(Subject::Memory, machine, self.all(), what);
        self
    }
}
