//! Response times of the tasks inside a partition, in its windows.
//!
//! Rule: rate monotonic inside the partition (single-core-equivalence, section 5.0), deadlines at
//! the ends of the periods, one window of `duration` in every partition period, always at the same
//! place. Where every task's period is a multiple of the partition's, jobs are released when a
//! window begins and, counted in window time only, the recurrence of Joseph and Pandya (1986)
//! applies unchanged. Otherwise a job may be released right after a window, which costs period -
//! duration.
//! Not covered: the partition's switch and prefetch, which belong into its tasks' execution times.

use solocore_model::windows::{Partition, PartitionTask, WindowsInput, time};

/// A reason for every task that does not fit.
pub fn misses(instance: &WindowsInput) -> Vec<String> {
    instance.partitions.iter().flat_map(of_partition).collect()
}

fn of_partition(p: &Partition) -> Vec<String> {
    let mut order: Vec<&PartitionTask> = p.tasks.iter().collect();
    // Stable: the file's order among equals.
    order.sort_by_key(|t| t.period_ns);
    let aligned = order.iter().all(|t| t.period_ns.is_multiple_of(p.period_ns));
    let refuse = |(n, t): (usize, &&PartitionTask)| {
        let demand = |at: u64| -> u128 {
            let of = |h: &&PartitionTask| {
                u128::from(at).div_ceil(u128::from(h.period_ns)) * u128::from(h.wcet_ns)
            };
            order[..n].iter().map(of).sum::<u128>() + u128::from(t.wcet_ns)
        };
        let fits = finish(p, aligned, t.period_ns, demand);
        (!fits).then(|| {
            format!(
                "task `{}` of partition `{}` ({} every {}) can miss its deadline in windows of {} \
                    every {}; lengthen the partition's duration or shorten the task",
                t.name,
                p.name,
                time(t.wcet_ns),
                time(t.period_ns),
                time(p.duration_ns),
                time(p.period_ns)
            )
        })
    };
    order.iter().enumerate().filter_map(refuse).collect()
}

/// Iterates the time by which the windows have supplied the demand, until it no longer grows or
/// exceeds `deadline`.
fn finish(p: &Partition, aligned: bool, deadline: u64, demand: impl Fn(u64) -> u128) -> bool {
    let (period, window) = (u128::from(p.period_ns), u128::from(p.duration_ns));
    let wait = if aligned { 0 } else { period - window };
    let mut at = 1u64;
    loop {
        let needed = demand(at);
        // Whole windows before the one in which the last piece is served.
        let before = (needed - 1) / window;
        let end = wait + before * period + (needed - before * window);
        match u64::try_from(end) {
            Ok(end) if end <= at => return at <= deadline,
            Ok(end) if end <= deadline => at = end,
            _ => return false,
        }
    }
}
