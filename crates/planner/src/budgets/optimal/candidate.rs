//! The core of each task, and the ways of the shared cache of each core.

use crate::resources::Resources;
use crate::work::Work;

/// A choice of cores and ways.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    for most in (1..=resources.cores).rev() {
        let Some(placement) = place(work, resources, most) else { continue };
        for others in (1..=resources.ways.max(1)).rev() {
            let ways = ways(&placement, others, work, resources);
            let candidate = Candidate { placement: placement.clone(), ways };
            if !out.contains(&candidate) {
                out.push(candidate);
            }
        }
    }
    out
}

/// Time alone of a job with as many pages locked as the whole cache holds, relative to its period.
fn load(w: &Work, resources: &Resources) -> f64 {
    let pages = usize::try_from(resources.lock_capacity_in(resources.platform.llc.ways))
        .unwrap_or(usize::MAX);
    let period = w.task.period.map_or(f64::INFINITY, |p| p.ps() as f64);
    w.wcet_ps(pages.min(w.demand.page_accesses().count()), resources) as f64 / period
}

/// Places the analysed tasks on `most` cores: the largest first, each on the least loaded core; the
/// others on the core with most time left. `None` if the stated cores are more than `most`.
fn place(work: &[Work], resources: &Resources, most: u32) -> Option<Vec<u32>> {
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
    open.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    for (task, load) in open {
        let core = *used
            .iter()
            .min_by(|&&a, &&b| loads[a as usize].total_cmp(&loads[b as usize]).then(a.cmp(&b)))?;
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

    /// Cores with analysed tasks.
    pub fn analysed_cores(&self, work: &[Work]) -> usize {
        (0..).zip(&self.ways).filter(|&(core, _)| self.analysed(core, work)).count()
    }

    /// Candidates that differ in one way, or in the core of one task without a stated core.
    pub fn neighbours(&self, work: &[Work], resources: &Resources) -> Vec<Self> {
        let mut out = Vec::new();
        let cores = self.ways.len();
        for (from, to) in (0..cores).flat_map(|a| (0..cores).map(move |b| (a, b))) {
            if from != to && self.ways[from] > 1 {
                let mut next = self.clone();
                next.ways[from] -= 1;
                next.ways[to] += 1;
                out.push(next);
            }
        }
        for (task, w) in work.iter().enumerate().filter(|(_, w)| w.task.core.is_none()) {
            for core in (0..resources.cores).filter(|&c| c != self.placement[task]) {
                let mut next = self.clone();
                next.placement[task] = core;
                // Best effort first: it never costs a bound of its old core.
                if w.hard() { out.push(next) } else { out.insert(0, next) }
            }
        }
        out
    }
}
