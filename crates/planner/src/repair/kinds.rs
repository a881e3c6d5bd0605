//! The kinds of changes: a key, and its values in order of their distance from the file's.

use super::search::{above, below, step_of};
use crate::lockable::lock_capacity;
use solocore_model::plan::PlanTask;
use solocore_model::plan::advice::Repair;
use solocore_model::system::{Demand, Model, Policy, Scheme, Share, SystemTask};
use solocore_model::vcpus::{MONITOR, Vcpu};
use solocore_model::{Bandwidth, Plan, System, Time};

/// Greatest factor by which a time of the file may grow.
const MOST: u64 = 10;
/// Regulation periods that are tried, in ns.
const PERIODS: [u64; 13] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];
/// Most tasks that may miss their deadlines, and most tasks that preempt them: among more, no
/// single one decides.
const TASKS: usize = 8;

/// One kind of change.
pub struct Kind {
    /// The key of the system file.
    pub key: String,
    /// Its possible values.
    pub values: Values,
    /// In words; `{}` is the value.
    pub meaning: String,
    /// More words for each value of a list; empty: none.
    more: Vec<String>,
}

impl Kind {
    /// The change to the value with this number; it makes the plan schedulable.
    pub fn repair(&self, at: u64) -> Repair {
        let value = self.values.at(at);
        let step = if let Values::Steps(steps) = &self.values { Some(steps.step()) } else { None };
        let more = usize::try_from(at).ok().and_then(|at| self.more.get(at));
        let meaning = self.meaning.replace("{}", &value) + more.map_or("", String::as_str);
        Repair { change: self.key.clone(), value, verified: true, step, meaning }
    }
}

/// Values in order of their distance from the file's.
pub enum Values {
    /// These values; verdicts do not follow their order.
    Listed(Vec<String>),
    /// Equally far apart.
    Steps(Steps),
}

impl Values {
    /// Number of values.
    pub fn count(&self) -> u64 {
        match self {
            Self::Listed(all) => all.len() as u64,
            Self::Steps(steps) => steps.count(),
        }
    }

    /// The value with this number, as written in a file; beyond the last, an empty string.
    pub fn at(&self, at: u64) -> String {
        let value = match self {
            Self::Listed(all) => usize::try_from(at).ok().and_then(|at| all.get(at)).cloned(),
            Self::Steps(steps) => steps.value(at),
        };
        value.unwrap_or_default()
    }
}

/// Multiples of a step, away from the file's value.
pub struct Steps {
    from: u64,
    up: bool,
    show: fn(u64) -> String,
}

impl Steps {
    fn value(&self, at: u64) -> Option<String> {
        self.number(at).map(self.show)
    }

    fn number(&self, at: u64) -> Option<u64> {
        let step = step_of(self.from);
        if self.up {
            above(self.from, self.from.saturating_mul(MOST), step)(at)
        } else {
            below(self.from, step)(at)
        }
    }

    fn count(&self) -> u64 {
        let step = step_of(self.from);
        if self.up {
            self.from.saturating_mul(MOST) / step - self.from / step
        } else {
            (self.from.max(1) - 1) / step
        }
    }

    /// Distance between neighbours.
    fn step(&self) -> String {
        (self.show)(step_of(self.from))
    }
}

fn time(ps: u64) -> String {
    Time::from_ps(ps).to_string()
}

fn bandwidth(bytes: u64) -> String {
    Bandwidth(bytes).to_string()
}

fn listed<T: ToString>(key: &str, values: impl IntoIterator<Item = T>, meaning: &str) -> Kind {
    let values = values.into_iter().map(|v| v.to_string()).collect();
    Kind {
        key: key.to_owned(),
        values: Values::Listed(values),
        meaning: meaning.to_owned(),
        more: Vec::new(),
    }
}

fn steps(key: String, from: u64, up: bool, show: fn(u64) -> String, meaning: String) -> Kind {
    Kind { key, values: Values::Steps(Steps { from, up, show }), meaning, more: Vec::new() }
}

/// All kinds for a plan that is not schedulable, the most promising first.
pub fn of(system: &System, plan: &Plan) -> Vec<Kind> {
    let late: Vec<usize> =
        (0..plan.tasks.len()).filter(|&t| !plan.tasks[t].schedulable).take(TASKS).collect();
    let preempts = |t: usize, other: usize| {
        let (own, other) = (&plan.tasks[t], &plan.tasks[other]);
        other.core == own.core && other.priority < own.priority && !other.best_effort()
    };
    let above = (0..plan.tasks.len())
        .filter(|t| !late.contains(t) && late.iter().any(|&l| preempts(l, *t)))
        .take(TASKS);
    let mut out = shares(system);
    for &t in &late {
        out.extend(of_late_task(&system.tasks[t], &plan.tasks[t], system));
    }
    out.extend(capacities(system));
    out.extend(cores(system));
    if system.regulation.share() == Share::Explicit {
        out.extend(bandwidths(system, plan));
    }
    out.extend(ways(system, plan));
    if matches!(system.regulation.policy, Policy::Memguard | Policy::Any) {
        let periods = periods(plan.regulation.period_ns);
        out.push(listed("regulation.period", periods, "a regulation period of {}"));
    }
    let above: Vec<usize> = above.collect();
    for &t in &above {
        out.extend(of_task(&system.tasks[t]));
    }
    out.extend(any_policy(system));
    out.extend(late.iter().chain(&above).map(|&t| shed(&system.tasks[t])));
    out
}

/// The policies beside budgets; each verdict takes long.
fn any_policy(system: &System) -> Option<Kind> {
    let regulation = &system.regulation;
    let budgets = regulation.policy == Policy::Memguard && regulation.share() == Share::Optimal;
    let meaning = "the best of budgets, the lock and dynamic budgets (policy {})";
    (budgets && matches!(system.scheme, Scheme::Budgets))
        .then(|| listed("regulation.policy", ["any"], meaning))
}

/// The task as best effort.
fn shed(task: &SystemTask) -> Kind {
    let name = &task.name;
    let meaning = format!("task {name} as best effort (criticality {{}}), without a bound");
    listed(&format!("task.{name}.criticality"), ["D"], &meaning)
}

/// Other ways to share the machine.
fn shares(system: &System) -> Vec<Kind> {
    let r = &system.regulation;
    let mut out = Vec::new();
    if let Some(stated) = r.lock_bandwidth.filter(|_| !r.lock.is_sections()) {
        let meaning = "a bandwidth of at most {} beside running tasks".to_owned();
        out.push(steps(
            "regulation.lock_bandwidth".to_owned(),
            stated.0,
            false,
            bandwidth,
            meaning,
        ));
    }
    if matches!(r.policy, Policy::None | Policy::Bwlock) && r.lock.is_sections() {
        out.push(listed("regulation.policy", ["memguard"], "a budget for each core (policy {})"));
    }
    // Stated bandwidths go with no other share.
    if r.policy == Policy::Memguard && r.share() == Share::Even && r.model() == Model::Sound {
        out.push(listed(
            "regulation.share",
            ["optimal"],
            "cores, cache and budgets chosen together (share {})",
        ));
    }
    out
}

/// Fewer active cores have larger shares, and more cores have more time.
fn cores(system: &System) -> [Kind; 2] {
    let (now, most) = (system.active_cores(), system.platform.cores);
    let key = "regulation.active_cores";
    [
        listed(key, (1..now).rev(), "{} active cores, not more"),
        listed(key, now + 1..=most, "{} active cores"),
    ]
}

/// Nearest first, by ratio.
fn periods(now_ns: u64) -> Vec<String> {
    let mut all: Vec<u64> = PERIODS.into_iter().filter(|&ns| ns != now_ns).collect();
    let ratio = |ns: u64| (ns as f64 / now_ns.max(1) as f64).ln().abs();
    all.sort_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
    all.into_iter().map(|ns| Time::from_ns(ns).to_string()).collect()
}

/// Changes of a task that may miss its deadline.
fn of_late_task(task: &SystemTask, planned: &PlanTask, system: &System) -> Vec<Kind> {
    let name = &task.name;
    let mut out = Vec::new();
    // Dynamic budgets give no bound once one task fails; elsewhere no deadline helps where there is
    // no bound.
    let bounded = planned.wcrt_ns.is_some() || system.regulation.policy == Policy::Dynamic;
    if let Some(deadline) = task.deadline.filter(|_| bounded) {
        let meaning = format!("deadline {{}} for task {name}");
        out.push(steps(format!("task.{name}.deadline"), deadline.ps(), true, time, meaning));
    }
    out.extend(of_task(task));
    if task.core.is_some() {
        // Its profile may hold for the private caches of its core only.
        let own = system.platform.private_of(planned.core);
        let cores = (0..system.active_cores())
            .filter(|&core| core != planned.core && system.platform.private_of(core) == own);
        out.push(listed(&format!("task.{name}.core"), cores, &format!("task {name} on core {{}}")));
    }
    if task.soft_budget.is_some() {
        let meaning = format!("the largest safe soft_budget for task {name}");
        out.push(listed(&format!("task.{name}.soft_budget"), ["max"], &meaning));
    }
    out
}

/// Changes of any analysed task.
fn of_task(task: &SystemTask) -> Vec<Kind> {
    let name = &task.name;
    let mut out = Vec::new();
    if let Some(period) = task.period {
        let meaning = format!("period {{}} for task {name}");
        out.push(steps(format!("task.{name}.period"), period.ps(), true, time, meaning));
    }
    if let Demand::Given { wcet, misses } = &task.demand {
        let meaning = format!("wcet at most {{}} for task {name}");
        out.push(steps(format!("task.{name}.wcet"), wcet.ps(), false, time, meaning));
        let meaning = format!("misses at most {{}} for task {name}");
        out.push(steps(format!("task.{name}.misses"), *misses, false, |n| n.to_string(), meaning));
    }
    out
}

/// Larger capacities for VCPUs with tasks that may miss their deadlines, or smaller ones for the
/// others.
fn capacities(system: &System) -> Vec<Kind> {
    let all = system.vcpus().map_or(&[][..], |v| &v.vcpus);
    let of = |up: bool, words: &str, v: &Vcpu| {
        let meaning = format!("capacity {words}{{}} for VCPU {}", v.name);
        steps(
            format!("vcpu.{}.capacity", v.name),
            v.capacity_ns.saturating_mul(1000),
            up,
            time,
            meaning,
        )
    };
    // That of the memory's monitor has no table in the file.
    let stated = all.iter().filter(|v| v.name != MONITOR);
    stated.take(TASKS).flat_map(|v| [of(true, "", v), of(false, "at most ", v)]).collect()
}

/// More ways of the shared cache, and so more locked pages, for the cores of tasks that may miss
/// their deadlines, where the planner does not choose them.
fn ways(system: &System, plan: &Plan) -> Vec<Kind> {
    let (llc, regulation) = (&system.platform.llc, &system.regulation);
    let any = system.cores.iter().any(|core| core.ways.is_some());
    let by_lock = !regulation.lock.is_sections() && !any;
    let chosen = regulation.share() == Share::Optimal || by_lock;
    if chosen || !regulation.pages.is_own() || !matches!(system.scheme, Scheme::Budgets) {
        return Vec::new();
    }
    let stated = |id: u32| system.cores.iter().find(|core| core.id == id).and_then(|c| c.ways);
    let late = |id: u32| plan.tasks.iter().any(|task| task.core == id && !task.schedulable);
    let of = |id: u32, now: u32| {
        // Each core without a statement needs one.
        let others = (0..system.active_cores()).filter(|&other| other != id);
        let taken: u32 = others.map(|other| stated(other).unwrap_or(1)).sum();
        let values = now + 1..=llc.ways.saturating_sub(taken);
        let pages = |ways: u32| lock_capacity(&system.platform, ways);
        let words = |ways: u32| {
            let more = pages(ways).saturating_sub(pages(now));
            format!(", and up to {more} more locked pages")
        };
        Kind {
            more: values.clone().map(words).collect(),
            ..listed(&format!("core.{id}.ways"), values, &format!("{{}} ways for core {id}"))
        }
    };
    let cores = plan.cores.iter().filter(|core| late(core.id));
    cores.take(TASKS).map(|core| of(core.id, core.ways)).collect()
}

/// More bandwidth for the cores of tasks that may miss their deadlines, less for the others.
fn bandwidths(system: &System, plan: &Plan) -> Vec<Kind> {
    let late = |core: u32| plan.tasks.iter().any(|t| t.core == core && !t.schedulable);
    let (more, less): (Vec<_>, Vec<_>) = plan.cores.iter().partition(|core| late(core.id));
    let of = |id: u32, from: u64, up: bool, words: &str| {
        let meaning = format!("{words}{{}} on core {id}");
        steps(format!("core.{id}.bandwidth"), from, up, bandwidth, meaning)
    };
    let stated =
        |id: u32| system.cores.iter().find(|c| c.id == id).and_then(|c| c.bandwidth).map(|b| b.0);
    let now = |id: u32, planned: Option<u64>| stated(id).or(planned).filter(|&b| b > 0);
    let more =
        more.iter().filter_map(|c| Some(of(c.id, now(c.id, c.bandwidth_bytes_per_s)?, true, "")));
    let less = less
        .iter()
        .filter_map(|c| Some(of(c.id, now(c.id, c.bandwidth_bytes_per_s)?, false, "at most ")));
    more.chain(less).collect()
}
