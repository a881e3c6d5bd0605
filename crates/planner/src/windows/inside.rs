//! Step 5, one partition: the locked pages of its tasks, the length of its window, and the tasks'
//! response times.
//!
//! Rule: the recurrence of `solocore_analysis::window`. Each window pays for the rest of its core's
//! former user: a used-up budget and an access under way; foreign lines in the private caches, and
//! a refill of them. It also pays for prefetch and lock of its pages (single-core-equivalence,
//! sections 2.3 and 5.0): each line is read, and may evict a dirty line that another partition had
//! locked there. A page is locked only where it saves more accesses than its prefetch costs. Times
//! are those of the slowest core, because the solver may choose the core of a partition later. Not
//! covered: several partitions that share locked pages.

use crate::core_plan::{CoreBounds, Level, TaskPlan, preemption_accesses};
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::response::RtaTask;
use solocore_analysis::window::{Windows, explain, least_duration, response_time, schedulable};
use solocore_analysis::{Derivation, sensitivity::largest_passing};
use solocore_model::plan::TaskMargin;
use solocore_model::windows::{Partition, WindowsInput};
use std::collections::{BinaryHeap, HashMap};

const PS: u64 = 1000;
/// Rounds in which more pages are given to the task that needs the longest window.
const ROUNDS: u32 = 5;
/// Upper limit of the search for miss counts.
const MOST_MISSES: u64 = 1 << 48;

/// The worst rest that other partitions leave on a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Does the core have any other work?
    pub any: bool,
    /// Lines that they have locked.
    pub locked_lines: u64,
    /// Lines of theirs in the private caches.
    pub private_lines: u64,
}

/// A partition with its tasks.
#[derive(Clone, Copy)]
pub struct Inside<'a> {
    /// Its number.
    pub index: usize,
    /// The partition in the system file.
    pub partition: &'a Partition,
    /// The demands of all tasks.
    pub work: &'a [Work<'a>],
    /// Each core's share.
    pub resources: &'a Resources,
    /// Time reserved at the end of its windows.
    pub margin_ns: u64,
    /// Durations are multiples of this.
    pub unit_ns: u64,
}

/// Locked pages of each task, by its number in the system.
pub type Locked = HashMap<usize, usize>;

/// The costs of a window's start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// Accesses of prefetch and lock.
    pub prefetch: u64,
    /// Accesses that refill the private caches and clear them of foreign lines.
    pub refill: u64,
}

impl<'a> Inside<'a> {
    /// The partitions of a system.
    pub fn all(
        input: &'a WindowsInput,
        work: &'a [Work<'a>],
        resources: &'a Resources,
    ) -> Vec<Self> {
        let of = |(index, partition)| Self {
            index,
            partition,
            work,
            resources,
            margin_ns: input.margin.processing_ns,
            unit_ns: input.base_ns,
        };
        input.partitions.iter().enumerate().map(of).collect()
    }

    /// Its tasks, highest priority first, best effort last.
    pub fn tasks(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.work.len())
            .filter(|&t| self.work[t].task.partition == Some(self.index))
            .collect();
        order.sort_by_key(|&t| self.work[t].priority);
        order
    }

    fn hard(&self) -> Vec<usize> {
        self.tasks().into_iter().filter(|&t| self.work[t].hard()).collect()
    }

    /// Longest window that there can be.
    pub fn longest_ns(&self) -> u64 {
        self.partition.period_ns.saturating_sub(self.margin_ns)
    }

    fn lines(&self, pages: u64) -> u64 {
        pages.saturating_mul(u64::from(self.resources.platform.lines_per_page()))
    }

    /// Lines that its tasks may have in the private caches.
    pub fn cached_lines(&self) -> u64 {
        self.tasks().iter().map(|&t| self.work[t].demand.lines()).fold(0, u64::saturating_add)
    }

    /// Pages that it could lock.
    pub fn lockable(&self) -> u64 {
        let capacity = self.resources.lock_capacity;
        let room = usize::try_from(capacity).unwrap_or(usize::MAX);
        let pages = |t: &usize| self.work[*t].demand.page_accesses().take(room).count() as u64;
        self.hard().iter().map(pages).fold(0, u64::saturating_add).min(capacity)
    }

    /// Costs of the start of each window.
    pub fn start(&self, locked: &Locked, others: Others) -> Start {
        let pages: u64 = locked.values().map(|&k| k as u64).sum();
        let lines = self.lines(pages);
        let private = self.resources.platform.private_lines();
        let own = self.hard().iter().map(|&t| self.work[t].demand.lines()).max().unwrap_or(0);
        // Its own tasks leave dirty lines behind as well, for each other and for their next jobs.
        let foreign = self.cached_lines().saturating_add(others.private_lines).min(private);
        let refill = if others.any { 2 * own.min(private) } else { 0 };
        Start {
            prefetch: lines.saturating_add(lines.min(others.locked_lines)),
            refill: refill.saturating_add(foreign),
        }
    }

    /// Its windows on a core, of this length.
    pub fn windows(&self, core: u32, duration_ns: u64, locked: &Locked, others: Others) -> Windows {
        let bounds = self.bounds(core);
        let start = self.start(locked, others);
        let each_misses = start.prefetch.saturating_add(start.refill);
        Windows {
            period_ps: self.partition.period_ns.saturating_mul(PS),
            duration_ps: duration_ns.saturating_mul(PS),
            late_ps: self.margin_ns.saturating_mul(PS),
            each_ps: bounds.each_window().saturating_add(bounds.resources.access_ps(each_misses)),
            each_misses,
        }
    }

    /// The stall bounds of its core.
    pub fn bounds(&self, core: u32) -> CoreBounds<'a> {
        CoreBounds { core, resources: self.resources }
    }

    /// Its analysed tasks as the analysis sees them.
    fn levels(&self, core: u32, locked: &Locked) -> Vec<Level> {
        let (bounds, hard) = (self.bounds(core), self.hard());
        hard.iter().filter_map(|&t| bounds.level(t, &hard, true, locked, self.work)).collect()
    }

    /// Least duration in ns, a multiple of the unit, with these pages.
    pub fn least_ns(&self, core: u32, locked: &Locked, others: Others) -> Option<u64> {
        let levels: Vec<Vec<RtaTask>> = self.levels(core, locked).iter().map(tasks_of).collect();
        let bounds = self.bounds(core);
        let windows = self.windows(core, self.unit_ns, locked, others);
        let most = self.longest_ns().saturating_mul(PS);
        let least = least_duration(
            &levels,
            &windows,
            &|asked| bounds.stall(asked),
            self.unit_ns.saturating_mul(PS),
            most,
        )?;
        Some(least / PS)
    }

    /// Do all tasks meet their deadlines?
    fn fits(&self, core: u32, duration_ns: u64, locked: &Locked, others: Others) -> bool {
        let levels: Vec<Vec<RtaTask>> = self.levels(core, locked).iter().map(tasks_of).collect();
        let bounds = self.bounds(core);
        schedulable(&levels, &self.windows(core, duration_ns, locked, others), &|asked| {
            bounds.stall(asked)
        })
    }

    /// The pages with the least duration among those tried: greedily by accesses saved per second,
    /// with more weight for the task that alone would need the longest window; and no pages.
    pub fn lock(&self, core: u32, others: Others) -> (Locked, Option<u64>) {
        let mut best = (Locked::new(), self.least_ns(core, &Locked::new(), others));
        let mut weights: HashMap<usize, u64> = self.hard().into_iter().map(|t| (t, 1)).collect();
        for _ in 0..ROUNDS {
            let locked = self.share(&weights, others);
            let least = self.least_ns(core, &locked, others);
            let shorter = match (least, best.1) {
                (Some(new), Some(old)) => new < old,
                (Some(_), None) => true,
                // Where nothing fits, the pages that save most are the better start for the reader.
                (None, None) => best.0.is_empty(),
                (None, Some(_)) => false,
            };
            let critical = self.critical(core, &locked, others, least);
            if shorter {
                best = (locked, least);
            }
            let Some(critical) = critical else { break };
            *weights.entry(critical).or_insert(1) *= 4;
        }
        best
    }

    /// The task with the least relative room in this window.
    fn critical(
        &self,
        core: u32,
        locked: &Locked,
        others: Others,
        least: Option<u64>,
    ) -> Option<usize> {
        let windows = self.windows(core, least.unwrap_or(self.longest_ns()), locked, others);
        let bounds = self.bounds(core);
        let room = |level: &Level| {
            let tasks = tasks_of(level);
            let last = tasks.last()?;
            let limit = last.deadline_ps.saturating_mul(4);
            let response = response_time(
                &tasks,
                tasks.len() - 1,
                &windows,
                &|asked| bounds.stall(asked),
                limit,
            );
            let share = u128::from(response.unwrap_or(limit)) * 1_000_000
                / u128::from(last.deadline_ps.max(1));
            Some((share, std::cmp::Reverse(level.index)))
        };
        self.levels(core, locked).iter().filter_map(room).max().map(|(_, index)| index.0)
    }

    /// The pages that save most, limited by a core's share and by the cost of their prefetch.
    fn share(&self, weights: &HashMap<usize, u64>, others: Others) -> Locked {
        let lines = self.lines(1);
        let cost = u128::from(lines + lines.min(others.locked_lines)) * 1_000_000_000_000
            / u128::from(self.partition.period_ns);
        let room = usize::try_from(self.resources.lock_capacity).unwrap_or(usize::MAX);
        let curves: HashMap<usize, Vec<u64>> = self
            .hard()
            .into_iter()
            .map(|t| (t, self.work[t].demand.page_accesses().take(room).collect()))
            .collect();
        let gain = |task: usize, at: usize| -> Option<u128> {
            let accesses = u128::from(*curves.get(&task)?.get(at)?);
            let period = u128::from(self.work[task].task.period?.ps() / PS).max(1);
            let saved = accesses * 1_000_000_000_000 / period;
            (saved > cost)
                .then(|| (saved - cost) * u128::from(weights.get(&task).copied().unwrap_or(1)))
        };
        let mut heap: BinaryHeap<_> =
            curves.keys().filter_map(|&t| gain(t, 0).map(|g| (g, std::cmp::Reverse(t)))).collect();
        let mut taken = Locked::new();
        for _ in 0..room {
            let Some((_, std::cmp::Reverse(task))) = heap.pop() else { break };
            let count = taken.entry(task).or_insert(0);
            *count += 1;
            if let Some(next) = gain(task, *count) {
                heap.push((next, std::cmp::Reverse(task)));
            }
        }
        taken
    }

    /// The numbers of all its tasks in these windows.
    pub fn results(
        &self,
        core: u32,
        duration_ns: u64,
        locked: &Locked,
        others: Others,
    ) -> Vec<TaskPlan> {
        let bounds = self.bounds(core);
        let windows = self.windows(core, duration_ns, locked, others);
        let (order, levels) = (self.tasks(), self.levels(core, locked));
        let of = |&index: &usize| {
            let w = &self.work[index];
            let k = locked.get(&index).copied().unwrap_or(0);
            let level = levels.iter().find(|l| l.index == index);
            let response_ps = level.and_then(|l| {
                let tasks = tasks_of(l);
                let limit = tasks.iter().map(|t| t.period_ps).max()?.saturating_mul(100);
                response_time(
                    &tasks,
                    tasks.len() - 1,
                    &windows,
                    &|asked| bounds.stall(asked),
                    limit,
                )
            });
            let late = !matches!((response_ps, w.task.deadline), (Some(r), Some(d)) if r <= d.ps());
            let misses = w.demand.misses(k);
            TaskPlan {
                index,
                locked: k,
                pace: self.resources.platform.slowest_pace(),
                wcet_ps: w.wcet_ps(k, self.resources),
                misses,
                stall_ps: bounds
                    .stall(w.asked(k, self.resources))
                    .saturating_add(bounds.once(false)),
                crpd_ps: bounds.resources.access_ps(preemption_accesses(
                    index,
                    &order,
                    self.work,
                    self.resources,
                )),
                response_ps,
                meets: !(w.hard() && late),
            }
        };
        order.iter().map(of).collect()
    }

    /// Derivation of a response time.
    pub fn derivation(
        &self,
        index: usize,
        core: u32,
        locked: &Locked,
        windows: &Windows,
        response: Option<u64>,
    ) -> Option<Derivation> {
        let (levels, bounds) = (self.levels(core, locked), self.bounds(core));
        let tasks = tasks_of(levels.iter().find(|l| l.index == index)?);
        let k = locked.get(&index).copied().unwrap_or(0);
        let platform = &self.resources.platform;
        let demand = self.work[index].demand.explain(k, platform, platform.slowest_pace());
        let last = tasks.len().checked_sub(1)?;
        let d = explain(&tasks, last, windows, &|asked| bounds.stall(asked), response);
        Some(d.because(demand).because(bounds.explain()))
    }

    /// The growth of a task until one task of the partition misses its deadline; the window stays.
    pub fn margin(
        &self,
        index: usize,
        core: u32,
        duration_ns: u64,
        locked: &Locked,
        others: Others,
    ) -> Option<TaskMargin> {
        if !self.fits(core, duration_ns, locked, others) {
            return None;
        }
        let windows = self.windows(core, duration_ns, locked, others);
        let bounds = self.bounds(core);
        let levels = self.levels(core, locked);
        let own = *levels.iter().find(|l| l.index == index)?.tasks.last()?;
        let passes = |change: &dyn Fn(&RtaTask) -> Option<RtaTask>| {
            let changed = |l: &Level| -> Option<Vec<RtaTask>> {
                l.tasks
                    .iter()
                    .map(|(t, task)| if *t == index { change(task) } else { Some(*task) })
                    .collect()
            };
            let levels: Option<Vec<Vec<RtaTask>>> = levels.iter().map(changed).collect();
            levels
                .is_some_and(|levels| schedulable(&levels, &windows, &|asked| bounds.stall(asked)))
        };
        let k = locked.get(&index).copied().unwrap_or(0);
        let mu = self.work[index].demand.misses(k);
        let wcet = largest_passing(0, own.1.deadline_ps, own.1.wcet_ps, |wcet_ps| {
            passes(&|t| Some(RtaTask { wcet_ps, ..*t }))
        });
        let misses = largest_passing(0, MOST_MISSES, mu, |n| {
            passes(&|t| t.with_misses(t.misses, (t.misses - mu).checked_add(n)?))
        });
        Some(TaskMargin {
            wcet_ns: wcet.passes.map(|ps| ps / PS),
            misses: misses.fails.and(misses.passes),
        })
    }
}

fn tasks_of(level: &Level) -> Vec<RtaTask> {
    level.tasks.iter().map(|(_, t)| *t).collect()
}
