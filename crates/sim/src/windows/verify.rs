//! Checks an execution of a time table against the rules.
//!
//! Rule: order along chains, at most one activity at a time on each resource, tasks inside their
//! windows.

use super::Execution;
use crate::hardware::{DeviceId, Notice};
use crate::kernel::config::Window;
use crate::kernel::{JobReport, Observer, Stretch, Timeline};
use crate::plan::options::PS;
use solocore_model::Time;
use solocore_model::plan::Plan;
use solocore_model::results::IoResult;
use std::collections::{BTreeMap, HashMap};

/// Records the schedule, the ends of transfers, and tasks outside their windows.
pub struct Watch {
    /// The schedule.
    pub timeline: Timeline,
    transferred: Vec<(DeviceId, u64)>,
    /// By core.
    windows: HashMap<usize, Vec<Window>>,
    partition_of: Vec<Option<usize>>,
    outside: Vec<String>,
}

impl Observer for Watch {
    fn noticed(&mut self, notice: Notice, now_ps: u64) {
        if let Notice::Transferred { device } = notice {
            self.transferred.push((device, now_ps));
        }
    }

    fn job_released(&mut self, task: usize, arrival_ps: u64, now_ps: u64) {
        self.timeline.job_released(task, arrival_ps, now_ps);
    }

    fn job_finished(&mut self, job: JobReport) {
        self.timeline.job_finished(job);
    }

    fn stretch(&mut self, stretch: Stretch) {
        self.timeline.stretch(stretch);
        let Stretch { core, task, start_ps, end_ps, .. } = stretch;
        let partition = self.partition_of.get(task).copied().flatten();
        let windows = self.windows.get(&core).map_or(&[][..], Vec::as_slice);
        let at = windows.partition_point(|w| w.start_ps <= start_ps);
        let inside = at
            .checked_sub(1)
            .is_some_and(|at| end_ps <= windows[at].end_ps && Some(windows[at].id) == partition);
        if !inside && self.outside.len() < 1000 {
            self.outside.push(format!(
                "core {core}: task {task} ran from {} to {}, which is not inside a window of its \
                    partition",
                Time::from_ps(start_ps),
                Time::from_ps(end_ps)
            ));
        }
    }
}

impl Execution<'_> {
    /// Checks the recorded execution against the rules.
    pub fn verify(mut self, watch: &Watch, end_ns: u64) -> IoResult {
        let mut found = watch.outside.clone();
        let done: HashMap<u32, Vec<u64>> =
            watch.transferred.iter().fold(HashMap::new(), |mut all, (device, at)| {
                all.entry(device.0).or_default().push(*at);
                all
            });
        let mut transfers = 0;
        for (device, orders) in (0u32..).zip(&self.orders) {
            let ends = done.get(&device).map_or(&[][..], Vec::as_slice);
            transfers += ends.len() as u64;
            for (k, &i) in orders.iter().enumerate() {
                let planned = self.instances[i].end_ns;
                match ends.get(k) {
                    Some(at) => self.instances[i].end_ns = at.div_ceil(PS),
                    None if planned <= end_ns => {
                        found.push(format!(
                            "{} had not ended by {}",
                            self.name(i),
                            Time::from_ns(end_ns)
                        ));
                    }
                    None => {}
                }
            }
        }
        found.extend(self.overlaps());
        found.extend(self.precedence());
        IoResult {
            activities: self.instances.len() as u64,
            transfers,
            lines: self.lines,
            violations: found.len() as u64,
            first_violation: found.into_iter().next(),
        }
    }

    fn name(&self, i: usize) -> String {
        let instance = &self.instances[i];
        let row = &self.windows.table[instance.row];
        let chain = row.chain.map_or(String::new(), |k| format!(" of chain {k}"));
        format!(
            "{}{chain} of `{}` at {}",
            row.stage.name(),
            row.partition,
            Time::from_ns(instance.start_ns)
        )
    }

    /// Pairs of activities at one time on one resource.
    fn overlaps(&self) -> Vec<String> {
        let mut on: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, instance) in self.instances.iter().enumerate() {
            on.entry(&self.windows.table[instance.row].resource).or_default().push(i);
        }
        let mut found = Vec::new();
        for (resource, mut all) in on {
            all.sort_by_key(|&i| self.instances[i].start_ns);
            for pair in all.windows(2) {
                let (a, b) = (self.instances[pair[0]], self.instances[pair[1]]);
                if b.start_ns < a.end_ns {
                    let until = Time::from_ns(a.end_ns);
                    found.push(format!(
                        "{resource}: {} while {} ran until {until}",
                        self.name(pair[1]),
                        self.name(pair[0])
                    ));
                }
            }
        }
        found
    }

    /// Instances of one chain that begin before the one before them has ended.
    fn precedence(&self) -> Vec<String> {
        let mut chains: BTreeMap<(&str, usize, u64), Vec<usize>> = BTreeMap::new();
        let mut windows: HashMap<(&str, u64), usize> = HashMap::new();
        for (i, instance) in self.instances.iter().enumerate() {
            let row = &self.windows.table[instance.row];
            match row.chain {
                Some(chain) => {
                    chains.entry((&row.partition, chain, instance.n)).or_default().push(i)
                }
                None => {
                    windows.insert((&row.partition, instance.n), i);
                }
            }
        }
        let mut found = Vec::new();
        for ((partition, _, n), mut path) in chains {
            path.extend(windows.get(&(partition, n)));
            path.sort_by_key(|&i| self.windows.table[self.instances[i].row].stage);
            for pair in path.windows(2) {
                let (a, b) = (self.instances[pair[0]], self.instances[pair[1]]);
                if b.start_ns < a.end_ns {
                    let until = Time::from_ns(a.end_ns);
                    found.push(format!(
                        "{} before {} ended at {until}",
                        self.name(pair[1]),
                        self.name(pair[0])
                    ));
                }
            }
        }
        found
    }

    /// Starts to watch an execution of the table.
    pub fn watch(&self, plan: &Plan, timeline: Timeline) -> Watch {
        let mut windows: HashMap<usize, Vec<Window>> = HashMap::new();
        for (core, window) in self.windows() {
            windows.entry(core as usize).or_default().push(window);
        }
        windows.values_mut().for_each(|w| w.sort_unstable_by_key(|w| w.start_ps));
        let of = |t: &solocore_model::plan::PlanTask| {
            t.partition.as_ref().and_then(|name| self.partition(name))
        };
        let mut partition_of: Vec<Option<usize>> = plan.tasks.iter().map(of).collect();
        partition_of.truncate(self.first_prefetch);
        partition_of.extend(self.prefetches.iter().map(|&p| Some(p)));
        Watch { timeline, transferred: Vec::new(), windows, partition_of, outside: Vec::new() }
    }
}
