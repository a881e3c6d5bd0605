//! Windows of partitions: the jobs of a partition run only in its windows.
//!
//! Rule (single-core-equivalence, section 2.4): the n-th window of a partition begins at `offset +
//! n * period` after the first release. On each core with windows a thread, above all tasks in
//! priority, stops a partition's jobs (SIGSTOP to their process groups) when its window ends and
//! continues them (SIGCONT) when the next one begins. A job that is started outside is stopped at
//! once. A window's margin belongs to it. If solocore is killed, the keeper continues the stopped
//! jobs, which it knows by a variable of their environment (host/stopped.rs). Locked pages are read
//! when a window begins (`prefetch`).
//! Does not cover: the table's input and output, which drivers start; processes of a job in another
//! process group; attached processes.

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
    /// Time that the plan charges to each window for the reads of locked pages at its start.
    pub prefetch_ns: u64,
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

/// The turns that a window has taken. Each is expected once, so a turn that was missed makes the
/// next one late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    /// Windows that were begun, or missed.
    begun: u64,
    open: bool,
}

impl Turns {
    /// The turn that is due now: whether the window opens, and the time at which it should have.
    pub(super) fn due(&mut self, window: &Window, now_ns: u64) -> Option<(bool, u64)> {
        let number = now_ns.checked_sub(window.offset_ns)? / window.period_ns;
        let begin = |n: u64| window.offset_ns.saturating_add(n.saturating_mul(window.period_ns));
        let inside = window.is_open(now_ns);
        if !self.open {
            let expected = begin(self.begun);
            return inside.then(|| {
                (self.begun, self.open) = (number + 1, true);
                (true, expected)
            });
        }
        if inside && window.length_ns >= window.period_ns {
            self.begun = number + 1;
        }
        if inside && number + 1 == self.begun {
            return None;
        }
        self.open = false;
        Some((false, begin(self.begun.saturating_sub(1)).saturating_add(window.length_ns)))
    }
}

/// The window of a task's partition; `None` in a plan without partitions.
pub(super) fn of(plan: &Plan, task: &solocore_model::plan::PlanTask) -> Option<Window> {
    let windows = plan.windows()?;
    let row = windows.window(task.partition.as_ref()?)?;
    let planned = windows.partitions.iter().find(|p| p.name == row.partition);
    Some(Window {
        partition: row.partition.clone(),
        offset_ns: row.offset_ns,
        length_ns: row.duration_ns,
        period_ns: row.period_ns.max(1),
        prefetch_ns: planned.map_or(0, |p| p.prefetch_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_windows() {
        let of = |offset_ns, length_ns| Window {
            partition: "p".into(),
            offset_ns,
            length_ns,
            period_ns: 100,
            prefetch_ns: 0,
        };
        let window = of(30, 20);
        let open: Vec<u64> = (0..260).filter(|&at| window.is_open(at)).collect();
        let expected: Vec<u64> = (30..50).chain(130..150).chain(230..250).collect();
        assert_eq!(open, expected);
        for at in 0..260 {
            let edge = window.next_edge(at);
            assert!(edge > at && window.is_open(edge) != window.is_open(edge - 1), "{at} {edge}");
            assert!((at + 1..edge).all(|t| window.is_open(t) == window.is_open(at)), "{at} {edge}");
        }
        // Turns at their instants, and the lateness of those that were missed.
        let mut turns = Turns::default();
        let times = [0, 30, 40, 55, 130, 131, 351, 360, 455];
        let seen: Vec<Option<(bool, u64)>> =
            times.iter().map(|&at| turns.due(&window, at)).collect();
        let expected = [
            None,
            Some((true, 30)),
            None,
            Some((false, 50)),
            Some((true, 130)),
            None,
            // The end at 150 was missed, and the windows at 230 and 330.
            Some((false, 150)),
            None,
            None,
        ];
        assert_eq!(seen, expected);
        assert_eq!(turns.due(&window, 533), Some((true, 230)), "it should have opened long ago");
        // It fills its period: there is no end to speak of.
        let whole = of(0, 100);
        assert!((0..300).all(|at| whole.is_open(at)));
        let mut turns = Turns::default();
        let seen: Vec<u64> = (0..300).filter(|&at| turns.due(&whole, at).is_some()).collect();
        assert_eq!(seen, [0]);
    }
}
