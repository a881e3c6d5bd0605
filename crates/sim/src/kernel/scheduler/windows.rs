//! IMA partitions: each core's table says which partition is active when (`time_table.h`), and
//! inside a partition the most urgent task runs (`ready_set.h`; single-core-equivalence, section
//! 2.4).
//!
//! A window that no task of its partition uses stays idle. A job that is interrupted by the end of
//! its window goes on in the partition's next window.

use super::interface::{Call, JobTimes, Pick, Scheduler};
use super::places::{core_of, id, ranks};
use crate::kernel::config::{CoreTable, KernelError, TaskSpec, span_ns};
use solocore_policy::UNLIMITED;
use solocore_policy::ready_set::ReadySet;
use solocore_policy::time_table::Table;

/// See the module.
pub struct WindowScheduler {
    /// By core.
    tables: Vec<Option<Box<Table>>>,
    core: Vec<usize>,
    partition: Vec<usize>,
    rank: Vec<u32>,
    order: Vec<usize>,
    /// By partition: ranks of tasks that have a job.
    ready: Vec<ReadySet>,
}

impl WindowScheduler {
    pub fn new(specs: &[CoreTable], tasks: &[TaskSpec], cores: usize) -> Result<Self, KernelError> {
        let core: Vec<usize> = tasks.iter().map(|t| core_of(t, cores)).collect::<Result<_, _>>()?;
        let of = |t: &TaskSpec| {
            t.partition.ok_or_else(|| KernelError::task(t, "has no partition; name one"))
        };
        let partition: Vec<usize> = tasks.iter().map(of).collect::<Result<_, _>>()?;
        let mut tables: Vec<Option<Box<Table>>> = (0..cores).map(|_| None).collect();
        for spec in specs {
            check_place(spec, cores, tables.get(spec.core).is_some_and(Option::is_some))?;
            tables[spec.core] = Some(table(spec)?);
        }
        for (t, spec) in tasks.iter().enumerate() {
            let windows = specs.iter().filter(|s| s.core == core[t]).flat_map(|s| &s.windows);
            if !windows.into_iter().any(|w| w.id == partition[t]) {
                let what = format!(
                    "partition {} has no window on core {}; give it one",
                    partition[t], core[t]
                );
                return Err(KernelError::task(spec, what));
            }
        }
        let count = partition.iter().max().map_or(0, |&p| p + 1);
        let (rank, order) = ranks(tasks);
        Ok(Self {
            tables,
            core,
            partition,
            rank,
            order,
            ready: vec![ReadySet::new(); count * cores],
        })
    }

    /// A partition may have windows on several cores, and has a queue on each.
    fn queue(&self, partition: usize, core: usize) -> usize {
        partition * self.tables.len() + core
    }

    fn queue_of(&self, task: usize) -> usize {
        self.queue(self.partition[task], self.core[task])
    }
}

/// Is the table's core one of the board's, without a table yet?
pub fn check_place(spec: &CoreTable, cores: usize, taken: bool) -> Result<(), KernelError> {
    if spec.core >= cores {
        let what = format!(
            "a table is for core {}, but the board has cores 0 to {}",
            spec.core,
            cores - 1
        );
        return Err(KernelError::config("scheduler", what));
    }
    if taken {
        return Err(KernelError::config(
            "scheduler",
            format!("core {} has two tables; leave one out", spec.core),
        ));
    }
    Ok(())
}

/// The windows of a table in whole ns: (start, end, id).
pub fn windows_ns(spec: &CoreTable) -> Result<Vec<(u64, u64, usize)>, KernelError> {
    let place = format!("scheduler, table of core {}", spec.core);
    let edge = |ps: u64| if ps == 0 { Ok(0) } else { span_ns(ps, &place, "an edge") };
    spec.windows.iter().map(|w| Ok((edge(w.start_ps)?, edge(w.end_ps)?, w.id))).collect()
}

/// The error of a window that the policy refuses.
pub fn refused(spec: &CoreTable, window: usize) -> KernelError {
    let what = format!(
        "window {window} is empty, overlaps the one before it, leaves the frame, or names a \
            partition that is not there"
    );
    KernelError::config(format!("scheduler, table of core {}", spec.core), what)
}

fn table(spec: &CoreTable) -> Result<Box<Table>, KernelError> {
    let place = format!("scheduler, table of core {}", spec.core);
    let frame = span_ns(spec.frame_ps, &place, "the frame")?;
    let mut table = Table::new(0, frame)
        .ok_or_else(|| KernelError::config(place, "the frame is out of range"))?;
    for (at, (start, end, partition)) in windows_ns(spec)?.into_iter().enumerate() {
        if !table.append(start, end, id(partition)) {
            return Err(refused(spec, at));
        }
    }
    Ok(table)
}

impl Scheduler for WindowScheduler {
    fn unready(&mut self, task: usize, call: &mut Call<'_>) {
        let queue = self.queue_of(task);
        self.ready[queue].remove(self.rank[task]);
        call.dirty.insert(self.core[task]);
    }

    fn woken(&mut self, task: usize, _: JobTimes, call: &mut Call<'_>) {
        let queue = self.queue_of(task);
        self.ready[queue].add(self.rank[task]);
        call.dirty.insert(self.core[task]);
    }

    fn pick(&mut self, core: usize, call: &mut Call<'_>) -> Pick {
        let Some(table) = &self.tables[core] else { return Pick::new(None, UNLIMITED) };
        let slot = table.lookup(call.now_ns());
        let ready =
            slot.id.and_then(|partition| self.ready.get(self.queue(partition as usize, core)));
        let rank = ready.and_then(ReadySet::first);
        Pick::new(rank.map(|rank| self.order[rank as usize]), slot.edge_ns)
    }

    fn home(&self, task: usize) -> usize {
        self.core[task]
    }
}
