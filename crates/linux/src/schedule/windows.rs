//! Windows of partitions: the jobs of a partition run only in its windows.
//!
//! Rule (single-core-equivalence, section 2.4): the n-th window of a partition begins at `offset +
//! n * period` after the first release. On each core with windows a thread, above all tasks in
//! priority, stops a partition's jobs (SIGSTOP to their process groups) when its window ends and
//! continues them (SIGCONT) when the next one begins. A job that is started outside is stopped at
//! once. A window's margin belongs to it. If solocore is killed, the keeper continues the stopped
//! jobs, which it knows by a variable of their environment (host/stopped.rs).
//! Does not cover: the table's input and output, which drivers start; prefetch and locking of
//! pages; processes of a job in another process group; attached processes.

use super::placed::Placed;
use solocore_model::Plan;

/// Priority of the threads that keep windows: above every task of a plan.
pub(super) const PRIORITY: i32 = 95;

/// A partition's windows. Times in nanoseconds, from the first release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Name of the partition.
    pub partition: String,
    /// Start of the first window.
    pub offset_ns: u64,
    /// Length of a window, margin included.
    pub length_ns: u64,
    /// Period of the windows.
    pub period_ns: u64,
}

impl Window {
    /// Whether a window is open at this time.
    pub(super) fn is_open(&self, at_ns: u64) -> bool {
        at_ns
            .checked_sub(self.offset_ns)
            .is_some_and(|since| since % self.period_ns < self.length_ns)
    }

    /// Time of the first begin or end of a window after this time.
    pub(super) fn next_edge(&self, at_ns: u64) -> u64 {
        let Some(since) = at_ns.checked_sub(self.offset_ns) else { return self.offset_ns };
        let begin = at_ns - since % self.period_ns;
        let end = begin.saturating_add(self.length_ns);
        if at_ns < end { end } else { begin.saturating_add(self.period_ns) }
    }
}

/// The window of a task's partition; `None` in a plan without partitions.
pub(super) fn of(plan: &Plan, task: &solocore_model::plan::PlanTask) -> Option<Window> {
    let row = plan.windows()?.window(task.partition.as_ref()?)?;
    Some(Window {
        partition: row.partition.clone(),
        offset_ns: row.offset_ns,
        length_ns: row.duration_ns,
        period_ns: row.period_ns.max(1),
    })
}

/// The windows of a core, each partition once.
pub(super) fn on_core<'a>(placed: impl Iterator<Item = &'a Placed>, core: u32) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for window in placed.filter(|p| p.core == core).filter_map(|p| p.window.as_ref()) {
        if !windows.contains(window) {
            windows.push(window.clone());
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_windows() {
        let window = Window { partition: "p".into(), offset_ns: 30, length_ns: 20, period_ns: 100 };
        let open: Vec<u64> = (0..260).filter(|&at| window.is_open(at)).collect();
        let expected: Vec<u64> = (30..50).chain(130..150).chain(230..250).collect();
        assert_eq!(open, expected);
        for at in 0..260 {
            let edge = window.next_edge(at);
            assert!(edge > at && window.is_open(edge) != window.is_open(edge - 1), "{at} {edge}");
            assert!((at + 1..edge).all(|t| window.is_open(t) == window.is_open(at)), "{at} {edge}");
        }
        // It fills its period: there is no end to speak of.
        let whole = Window { partition: "p".into(), offset_ns: 0, length_ns: 100, period_ns: 100 };
        assert!((0..300).all(|at| whole.is_open(at)));
    }
}
