//! The core of each task, and the ways of the shared cache of each core.

use crate::resources::Resources;
use crate::work::Work;
use solocore_model::platform::Pace;

/// A choice of cores and ways.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Core of each task.
    pub placement: Vec<u32>,
    /// Ways of each core.
    pub ways: Vec<u32>,
}

/// The analysed tasks on 1 to all cores, and from one way to an even share of ways for each core
/// without them.
pub fn first(work: &[Work], resources: &Resources) -> Vec<Candidate> {
    let mut out = Vec::new();
    let mut add = |placement: Vec<u32>| {
        for ways in with_gains(&placement, work, resources) {
            let candidate = Candidate { placement: placement.clone(), ways };
            if !out.contains(&candidate) {
                out.push(candidate);
            }
        }
    };
    for most in (1..=resources.cores).rev() {
        place(work, resources, most, Order::Load).into_iter().for_each(&mut add);
    }
    for full in [0.0, 0.6, 0.8] {
        place(work, resources, resources.cores, Order::Memory(full)).into_iter().for_each(&mut add);
    }
    place(work, resources, resources.cores, Order::Period).into_iter().for_each(&mut add);
    out
}

/// Ways of each core by the savings of its tasks, from an even share to one way for each core
/// without analysed tasks.
fn with_gains(
    placement: &[u32],
    work: &[Work],
    resources: &Resources,
) -> impl Iterator<Item = Vec<u32>> {
    (1..=resources.ways.max(1)).rev().map(|others| ways(placement, others, work, resources))
}

/// Even ways, and the ways that optimal shares begin with for this placement.
pub fn ways_tried(placement: &[u32], work: &[Work], resources: &Resources) -> Vec<Vec<u32>> {
    let mut out = vec![vec![resources.ways; resources.cores as usize]];
    for ways in with_gains(placement, work, resources) {
        if !out.contains(&ways) {
            out.push(ways);
        }
    }
    out
}

/// The order in which tasks are placed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// The largest first, each on the least loaded core.
    Load,
    /// Those that use memory most first, core after core up to this load, at least the mean one.
    /// The budgets that they need are then those of few cores.
    Memory(f64),
    /// Those with the shortest period first, core after core up to the mean load: jobs preempt few
    /// others then.
    Period,
}

/// Time alone of a job on the slowest core with as many pages locked as the whole cache holds,
/// relative to its period.
pub fn load(w: &Work, resources: &Resources) -> f64 {
    load_at(w, resources, resources.platform.slowest_pace())
}

/// The same on a core with this pace.
pub fn load_at(w: &Work, resources: &Resources, pace: Pace) -> f64 {
    let pages = usize::try_from(resources.lock_capacity_in(resources.platform.llc.ways))
        .unwrap_or(usize::MAX);
    let period = w.task.period.map_or(f64::INFINITY, |p| p.ps() as f64);
    w.wcet_with(pages.min(w.demand.page_accesses().count()), resources, pace) as f64 / period
}

/// Places the analysed tasks on `most` cores in an order; the others on the core with most time
/// left. `None` if the stated cores are more than `most`.
fn place(work: &[Work], resources: &Resources, most: u32, order: Order) -> Option<Vec<u32>> {
    let mut placed: Vec<Option<u32>> = work.iter().map(|w| w.task.core).collect();
    let mut loads = vec![0.0; resources.cores as usize];
    let mut used: Vec<u32> = Vec::new();
    for (w, core) in work.iter().zip(&placed) {
        if let (true, Some(core)) = (w.hard(), *core) {
            loads[core as usize] += load(w, resources);
            if !used.contains(&core) {
                used.push(core);
            }
        }
    }
    if used.len() > most as usize {
        return None;
    }
    let more = (0..resources.cores)
        .filter(|c| !used.contains(c))
        .take(most as usize - used.len())
        .collect::<Vec<_>>();
    used.extend(more);
    let mut open: Vec<(usize, f64)> = (0..work.len())
        .filter(|&t| placed[t].is_none() && work[t].hard())
        .map(|t| (t, load(&work[t], resources)))
        .collect();
    let all: f64 = loads.iter().sum::<f64>() + open.iter().map(|(_, load)| load).sum::<f64>();
    let rank = |t: usize, load: f64| match order {
        Order::Load => -load,
        Order::Memory(_) => -memory(&work[t], resources),
        Order::Period => work[t].task.period.map_or(f64::INFINITY, |p| p.ps() as f64),
    };
    open.sort_by(|a, b| rank(a.0, a.1).total_cmp(&rank(b.0, b.1)).then(a.0.cmp(&b.0)));
    let mean = all / used.len().max(1) as f64;
    let full = match order {
        Order::Load => 0.0,
        Order::Memory(full) => mean.max(full),
        Order::Period => mean,
    };
    let least = |loads: &[f64]| {
        let by_load =
            |a: &&u32, b: &&u32| loads[**a as usize].total_cmp(&loads[**b as usize]).then(a.cmp(b));
        used.iter().min_by(by_load).copied()
    };
    for (task, load) in open {
        // The first core with room for half of the task at least.
        let room = |&&core: &&u32| loads[core as usize] + load / 2.0 <= full;
        let core = match used.iter().find(room) {
            Some(&core) if order != Order::Load => core,
            _ => least(&loads)?,
        };
        placed[task] = Some(core);
        loads[core as usize] += load;
    }
    let mut company = vec![0u32; loads.len()];
    (0..work.len())
        .filter(|&t| !work[t].hard())
        .filter_map(|t| placed[t])
        .for_each(|c| company[c as usize] += 1);
    for core in placed.iter_mut().filter(|c| c.is_none()) {
        let left = |c: usize| (1.0 - loads[c]).max(0.0) / f64::from(company[c] + 1);
        let most = (0..loads.len()).max_by(|&a, &b| left(a).total_cmp(&left(b)).then(b.cmp(&a)))?;
        company[most] += 1;
        *core = u32::try_from(most).ok();
    }
    placed.into_iter().collect()
}

/// DRAM accesses of a job with an even share of the pages locked, relative to its time.
fn memory(w: &Work, resources: &Resources) -> f64 {
    let pages = usize::try_from(resources.lock_capacity).unwrap_or(usize::MAX);
    w.misses(pages, resources) as f64 / w.wcet_ps(pages, resources).max(1) as f64
}

/// `others` ways for each core without analysed tasks, at least one for each with them; the rest
/// one by one to the core with the largest saving.
fn ways(placement: &[u32], others: u32, work: &[Work], resources: &Resources) -> Vec<u32> {
    let (all, cores) = (resources.platform.llc.ways, resources.cores);
    let hard = |core: u32| analysed(placement, core, work);
    let analysed = (0..cores).filter(|&c| hard(c)).count() as u32;
    let shared = !resources.pages.is_own();
    if shared || analysed == 0 || all < cores || others * (cores - analysed) + analysed > all {
        return vec![resources.ways; cores as usize];
    }
    let mut out: Vec<u32> = (0..cores).map(|c| if hard(c) { 1 } else { others }).collect();
    let gains: Vec<Vec<f64>> = (0..cores).map(|c| gains(c, placement, work)).collect();
    for _ in out.iter().sum::<u32>()..all {
        let gain = |core: u32| {
            let at = core as usize;
            let pages = |ways: u32| resources.lock_capacity_in(ways) as usize;
            gains[at].iter().take(pages(out[at] + 1)).skip(pages(out[at])).sum::<f64>()
        };
        let mut best = (f64::NEG_INFINITY, 0);
        for core in (0..cores).filter(|&c| hard(c)) {
            let saved = gain(core);
            if saved > best.0 {
                best = (saved, core as usize);
            }
        }
        out[best.1] += 1;
    }
    out
}

/// Accesses per second that each further locked page of a core saves, most first.
fn gains(core: u32, placement: &[u32], work: &[Work]) -> Vec<f64> {
    let mut out: Vec<f64> = (0..work.len())
        .filter(|&t| placement[t] == core && work[t].hard())
        .flat_map(|t| {
            let period = work[t].task.period.map_or(f64::INFINITY, |p| p.ps() as f64);
            work[t].demand.page_accesses().map(move |n| n as f64 / period)
        })
        .collect();
    out.sort_by(|a, b| b.total_cmp(a));
    out
}

/// Has a core analysed tasks?
fn analysed(placement: &[u32], core: u32, work: &[Work]) -> bool {
    (0..work.len()).any(|t| placement[t] == core && work[t].hard())
}

impl Candidate {
    /// Tasks on a core.
    pub fn on(&self, core: u32) -> Vec<usize> {
        (0..self.placement.len()).filter(|&t| self.placement[t] == core).collect()
    }

    /// Has a core analysed tasks?
    pub fn analysed(&self, core: u32, work: &[Work]) -> bool {
        analysed(&self.placement, core, work)
    }

    /// Best-effort programs on a core.
    pub fn best_effort(&self, core: u32, work: &[Work]) -> u64 {
        self.on(core).into_iter().filter(|&t| !work[t].hard()).count() as u64
    }

    /// Has a core best-effort programs beside analysed tasks?
    pub fn mixed(&self, core: u32, work: &[Work]) -> bool {
        self.analysed(core, work) && self.best_effort(core, work) > 0
    }

    /// Cores with analysed tasks.
    pub fn analysed_cores(&self, work: &[Work]) -> usize {
        (0..).zip(&self.ways).filter(|&(core, _)| self.analysed(core, work)).count()
    }
}
