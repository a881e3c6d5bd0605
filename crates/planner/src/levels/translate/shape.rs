//! The time of a task's jobs by ways, alone and under contention.
//!
//! Problem: the time of a job depends on its ways and on the others' use of the memory. Rule: the
//! rule of [`super`], term by term: [`Memory`] prices an access, a reload and a refresh; a
//! [`Shape`] has the times of a task at each size. Does not cover: buffers of messages and devices,
//! which are not a part of a task.

use crate::demand::{Demand, inside_ps};
use crate::memory;
use solocore_analysis::interference::{self, Requester, Sharing};
use solocore_model::levels::{Contention, Isolation};
use solocore_model::system::{Criticality, Model, SystemTask};
use solocore_model::{Platform, System};

/// Added to each job, so that no rounding of floating point makes a PET too small.
const ROUNDING_PS: u64 = 1000;

/// An analysed task by ways.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its index in the system.
    pub index: usize,
    /// Time alone, ps; `None` where a region of that size is impossible.
    pub alone_ps: Vec<Option<u64>>,
    /// DRAM accesses of a job.
    pub misses: Vec<u64>,
    /// Time under contention, ps.
    pub contended_ps: Vec<Option<u64>>,
    /// Per job: preemptions, accesses under way, rounding.
    pub fixed_ps: u64,
}

impl Shape {
    /// Time alone with this number of ways, ps; with one way where 0 is impossible.
    pub fn alone(&self, ways: usize) -> u64 {
        self.alone_ps
            .get(ways)
            .copied()
            .flatten()
            .or(self.alone_ps.get(1).copied().flatten())
            .unwrap_or(0)
    }

    pub fn whole(&self) -> u64 {
        self.contended_ps.last().copied().flatten().unwrap_or(1).max(1)
    }
}

/// Cost of an access.
pub struct Memory<'a> {
    platform: &'a Platform,
    /// `L_max`.
    pub latency_ps: u64,
    /// One access with the delay by others, ps; `L_max` if contention was measured.
    access_ps: u64,
    /// Time of the accesses that may be under way as a piece of a job begins, ps.
    under_way_ps: u64,
    pub bounded: bool,
    ways: usize,
    /// Time of a refresh, and the time from one to the next, ps.
    refresh: [u64; 2],
}

impl<'a> Memory<'a> {
    pub fn of(system: &'a System, isolation: &Isolation) -> Self {
        let bounded = isolation.settings.contention == Contention::Bounded;
        let latency_ps = system.platform.dram.latency_max.ps();
        let (access_ps, under_way_ps) = match (bounded, system.regulation.model()) {
            (false, _) => (latency_ps, 0),
            (true, Model::Sce) => {
                let masters = u64::from(system.active_cores()) + isolation.io.len() as u64;
                let turn = latency_ps.saturating_mul(masters);
                (turn, turn)
            }
            // Without a bound, the time is larger than any period.
            (true, Model::Sound) => Self::interference(system, isolation.io.len())
                .and_then(|c| Some((latency_ps.saturating_add(c.request_ps?), c.left_ps)))
                .unwrap_or((u64::MAX, u64::MAX)),
        };
        Self {
            platform: &system.platform,
            latency_ps,
            access_ps,
            under_way_ps,
            bounded,
            ways: isolation.ways(&system.platform) as usize,
            refresh: [isolation.settings.refresh.ps(), isolation.settings.refresh_period.ps()],
        }
    }

    /// Costs of accesses beside the other cores and the devices, each of which has one line under
    /// way.
    fn interference(system: &System, devices: usize) -> Option<interference::Costs> {
        let own = memory::core(&system.platform);
        let others = std::iter::repeat_n(own, system.active_cores().saturating_sub(1) as usize)
            .chain(std::iter::repeat_n(Requester { reads: 1, writes: 1 }, devices))
            .collect();
        let cache_mshrs = system.platform.llc.mshrs.map(u64::from);
        memory::of(&system.platform).ok()?.costs(&Sharing {
            own,
            others,
            private: false,
            cache_mshrs,
        })
    }

    /// One access with the delay by others, ps.
    pub fn access_ps(&self) -> u64 {
        self.access_ps
    }

    /// Longest time of a part that takes `alone_ps` alone, if all of it may be waiting for the
    /// memory, ps.
    pub fn all_waiting(&self, alone_ps: u64) -> u64 {
        let accesses = alone_ps.div_ceil(self.latency_ps.max(1));
        accesses.saturating_mul(self.access_ps).max(alone_ps)
    }

    /// A time with the refreshes that this number of accesses can wait for in it: at most one each,
    /// at most one per period and one under way at either end.
    pub fn with_refresh(&self, time: u64, accesses: u64) -> u64 {
        let [length, period] = self.refresh;
        if !self.bounded || period == 0 {
            return time;
        }
        let mut out = time;
        loop {
            let number = (out / period).saturating_add(2).min(accesses);
            let next = time.saturating_add(number.saturating_mul(length));
            if next <= out {
                return out;
            }
            out = next;
        }
    }

    /// If others take lines from a task's ways while it runs, so that no hit in them is counted.
    fn shares_ways(&self, task: &SystemTask) -> bool {
        self.bounded && task.criticality == Criticality::C
    }

    /// If hits in the shared cache are counted: not in shared ways, and not on a board whose misses
    /// by ways are not the profile's.
    fn counts_hits(&self, task: &SystemTask) -> bool {
        !self.shares_ways(task) && self.platform.counts_by_ways()
    }

    /// Accesses of a profiled job's reload after a preemption: each useful line read, and one
    /// written back for it. Lines of the shared cache are useful where hits in it are counted.
    fn reload_accesses(&self, task: &SystemTask, demand: &Demand) -> u64 {
        let llc = &self.platform.llc;
        let shared = if self.counts_hits(task) { llc.size.0 / llc.line.0 } else { 0 };
        2 * demand.lines().min(self.platform.private_lines() + shared)
    }

    fn reload_ps(&self, task: &SystemTask, demand: &Demand) -> u64 {
        let stated = task.shape.reload.map(|alone| self.all_waiting(alone.ps()));
        let accesses = self.reload_accesses(task, demand);
        match stated {
            Some(time) => self.with_refresh(time, u64::MAX),
            None => self.with_refresh(accesses.saturating_mul(self.access_ps()), accesses),
        }
    }

    /// Time alone and DRAM accesses with `w` ways, and write-backs of lines that others left.
    fn with_ways(&self, task: &SystemTask, demand: &Demand, w: usize) -> (Option<u64>, u64, u64) {
        let shape = &task.shape;
        match demand {
            Demand::Given { .. } if !shape.wcet_by_ways.is_empty() => {
                let at = w.saturating_sub(1).min(shape.wcet_by_ways.len() - 1);
                let misses = shape.misses_by_ways.get(at).copied().unwrap_or(0);
                ((w > 0).then_some(shape.wcet_by_ways[at].ps()), misses, 0)
            }
            Demand::Given { wcet_ps, misses } => (Some(*wcet_ps), *misses, 0),
            // No pages are locked under levels; a system file with a curve is refused.
            Demand::Curve(points) => {
                points.first().map_or((None, 0, 0), |&(wcet_ps, misses)| (Some(wcet_ps), misses, 0))
            }
            Demand::Profiled { profile, .. } => {
                let p = self.platform;
                let hits = self.counts_hits(task);
                let by_ways = profile
                    .by_ways
                    .get(..w.min(profile.by_ways.len()))
                    .and_then(<[u64]>::last)
                    .copied();
                let misses = by_ways.filter(|_| hits).unwrap_or_else(|| profile.llc_accesses());
                // A job of level C may meet the private caches of each type (`Platform::views`).
                let parts = if task.criticality == Criticality::C { p.private_kinds() } else { 1 };
                let misses = misses.saturating_mul(parts);
                let inside = inside_ps(profile, p, p.slowest_pace()).saturating_mul(parts);
                let alone = inside.saturating_add(misses.saturating_mul(self.latency_ps));
                let lines = if self.shares_ways(task) {
                    u64::MAX
                } else {
                    u64::from(p.llc_sets()) * w as u64 + p.private_lines()
                };
                (Some(alone), misses, if self.bounded { misses.min(lines) } else { 0 })
            }
        }
    }

    pub fn shape(&self, index: usize, task: &SystemTask, demand: &Demand, fixed_ps: u64) -> Shape {
        let mut shape = Shape {
            index,
            alone_ps: Vec::new(),
            misses: Vec::new(),
            contended_ps: Vec::new(),
            fixed_ps,
        };
        for w in 0..=self.ways {
            let (alone, misses, left) = self.with_ways(task, demand, w);
            let waits = misses.saturating_mul(self.access_ps() - self.latency_ps);
            let more = waits.saturating_add(left.saturating_mul(self.access_ps()));
            shape.alone_ps.push(alone);
            shape.misses.push(misses);
            // One more: the access of the job that ran before.
            let accesses = misses.saturating_add(left).saturating_add(1);
            shape
                .contended_ps
                .push(alone.map(|t| self.with_refresh(t.saturating_add(more), accesses)));
        }
        shape
    }
}

/// Time of a job beyond its own execution, at any size, ps.
pub fn per_job(memory: &Memory, system: &System, demands: &[Demand], index: usize) -> u64 {
    let tasks = &system.tasks;
    let task = &tasks[index];
    let level_a = |i: usize| tasks[i].criticality == Criticality::A;
    let reload = |i: usize| memory.reload_ps(&tasks[i], &demands[i]);
    let preempted =
        |i: &usize| *i != index && matches!(tasks[*i].criticality, Criticality::B | Criticality::C);
    let below = (0..tasks.len()).filter(preempted).map(reload).max().unwrap_or(0);
    let shortest = (0..tasks.len()).filter(|&i| level_a(i)).filter_map(|i| tasks[i].period).min();
    let pieces = match (task.period, shortest) {
        (Some(own), Some(least)) if level_a(index) => own.ps().div_ceil(least.ps().max(1)),
        _ => 1,
    };
    // An access of the job that ran before may be under way as the piece begins.
    let under_way = memory.under_way_ps;
    let own = reload(index).saturating_mul(pieces - 1);
    pieces
        .saturating_mul(below.saturating_add(under_way))
        .saturating_add(own)
        .saturating_add(ROUNDING_PS)
}
