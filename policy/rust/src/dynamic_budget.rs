//! Budgets of a soft real-time core per job of the hard real-time tasks
//! (`policy/include/solocore/dynamic_budget.h`; dynamic-budgeting, section IV).

use crate::raw::{self, sc_dynamic as State, sc_dynamic_decision as RawDecision};

const STARTED: u32 = 0;
const FINISHED: u32 = 1;
const EVENT: u32 = 2;

/// Limits of the soft core until the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may run.
    pub go: bool,
    /// Accesses until it must stop; [`UNLIMITED`](crate::UNLIMITED) if no budget is in force.
    pub limit: u64,
    /// Number of accesses after which its counter must interrupt: 1 to 2^31-1.
    pub sample: u64,
    /// Latest time for reporting an [event](DynamicBudget::event), in ns;
    /// [`UNLIMITED`](crate::UNLIMITED): never.
    pub timeout_ns: u64,
}

/// An active budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Remaining accesses.
    pub left: u64,
    /// Remaining time in force, in ns.
    pub left_ns: u64,
    /// Whether the job has finished; the budget then has no effect any more.
    pub finished: bool,
}

/// The budgets of one soft core. A task's number is its priority, 0 the highest; numbers are below
/// [`MAX_TASKS`](crate::MAX_TASKS).
pub struct DynamicBudget(Box<State>);

impl DynamicBudget {
    /// No tasks; the clock starts at `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        // SAFETY: integers all the way down; zero is the state without tasks.
        let mut state = unsafe { crate::zeroed::<State>() };
        // SAFETY: `state` is valid and of the layout that both sides check.
        unsafe { raw::sc_dynamic_init(&raw mut *state, now_ns) };
        Self(state)
    }

    /// Defines a task of a hard core, or changes it from its next job on. Each of its jobs allows
    /// this soft core `budget` accesses (1 to 2^32-1) in `length_ns` (1 ns to 73 minutes: the
    /// task's WCET with that interference). False if a value is out of range, or the task's budget
    /// is active on another core.
    pub fn define(&mut self, task: u32, core: u32, budget: u64, length_ns: u64) -> bool {
        // SAFETY: the state is valid.
        unsafe { raw::sc_dynamic_define(&raw mut *self.0, task, core, budget, length_ns) != 0 }
    }

    fn apply(&mut self, what: u32, task: u32, now_ns: u64, accesses: u64) -> Option<Decision> {
        // SAFETY: the state is valid.
        let ok = unsafe { raw::sc_dynamic_apply(&raw mut *self.0, what, task, now_ns, accesses) };
        (ok != 0).then(|| self.decide())
    }

    /// A job of the task started at `now_ns`; the soft core has made `accesses` since the last
    /// event. `None`, without any change, if the task is not defined.
    pub fn started(&mut self, task: u32, now_ns: u64, accesses: u64) -> Option<Decision> {
        self.apply(STARTED, task, now_ns, accesses)
    }

    /// The job of the task finished; an event like any other if its budget is not active. `None`,
    /// without any change, if the number is too large.
    pub fn finished(&mut self, task: u32, now_ns: u64, accesses: u64) -> Option<Decision> {
        self.apply(FINISHED, task, now_ns, accesses)
    }

    /// The counter overflowed or the timer fired.
    pub fn event(&mut self, now_ns: u64, accesses: u64) -> Decision {
        // SAFETY: the state is valid; an event is never refused.
        unsafe { raw::sc_dynamic_apply(&raw mut *self.0, EVENT, 0, now_ns, accesses) };
        self.decide()
    }

    /// Limits of the core, as of the last event.
    pub fn decide(&self) -> Decision {
        let mut raw = RawDecision::default();
        // SAFETY: both are valid.
        unsafe { raw::sc_dynamic_decide(&raw const *self.0, &raw mut raw) };
        Decision {
            go: raw.verdict != 0,
            limit: raw.limit,
            sample: raw.sample,
            timeout_ns: raw.timeout_ns,
        }
    }

    /// The task's budget, if it is active.
    pub fn entry(&self, task: u32) -> Option<Entry> {
        let t = self.0.task.get(task as usize).filter(|t| t.active != 0)?;
        Some(Entry { left: t.left, left_ns: t.left_ns, finished: t.finished != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNLIMITED;
    use proptest::prelude::*;

    unsafe extern "C" {
        static sc_size_dynamic_budget: u64;
        static sc_size_dynamic_decision: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: constants of the C side.
        let sizes = unsafe { [sc_size_dynamic_budget, sc_size_dynamic_decision] };
        assert_eq!(sizes, [size_of::<State>() as u64, size_of::<RawDecision>() as u64]);
    }

    /// The paper's figure 1: task 1 is preempted by task 0, which finishes early.
    #[test]
    fn a_higher_budget_takes_over_and_gives_back() {
        let mut d = DynamicBudget::new(0);
        assert!(d.define(0, 0, 2, 5) && d.define(1, 0, 9, 20) && d.started(2, 1, 0).is_none());
        assert_eq!(d.started(1, 0, 7).map(|x| (x.limit, x.timeout_ns)), Some((9, 20)));
        assert!(!d.define(1, 1, 9, 20), "it is active");
        assert_eq!(d.started(0, 10, 4).map(|x| (x.limit, x.timeout_ns)), Some((2, 15)));
        assert_eq!(d.event(12, 2), Decision { go: false, limit: 0, sample: 1, timeout_ns: 15 });
        assert_eq!(d.finished(0, 13, 0).map(|x| (x.go, x.limit)), Some((true, UNLIMITED)));
        assert_eq!((d.event(15, 1000).limit, d.entry(0)), (5, None));
        assert_eq!(d.entry(1), Some(Entry { left: 5, left_ns: 10, finished: false }));
    }

    #[test]
    fn the_smallest_of_the_hard_cores_budgets_limits() {
        let mut d = DynamicBudget::new(0);
        assert!(d.define(0, 0, 10, 50) && d.define(1, 255, 4, 100) && !d.define(2, 256, 1, 1));
        d.started(0, 0, 0);
        assert_eq!(d.started(1, 0, 0).map(|x| (x.limit, x.timeout_ns)), Some((4, 50)));
        assert!(!d.event(1, 4).go);
        assert_eq!(d.finished(1, 2, 0).map(|x| x.limit), Some(6), "both were consumed");
        assert_eq!(d.event(50, 0).limit, UNLIMITED);
        assert_eq!(d.event(100, 0).timeout_ns, UNLIMITED);
    }

    proptest! {
        /// From its start to its expiry, a lone task sees at most its budget if the core stops on
        /// command.
        #[test]
        fn no_job_sees_more_than_its_budget(budget in 1u64..50, gaps in prop::collection::vec(0u64..9, 1..200)) {
            let mut d = DynamicBudget::new(0);
            d.define(0, 0, budget, 300);
            let (mut now, mut made, mut go) = (0, 0, d.started(0, 0, 0).is_some_and(|x| x.go));
            for gap in gaps {
                now += gap;
                if now >= 300 {
                    break;
                }
                made += u64::from(go);
                go = d.event(now, u64::from(go)).go;
            }
            prop_assert!(made <= budget);
        }
    }
}
