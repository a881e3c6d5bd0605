//! The handover from the budgets of one plan to those of another, while the CPUs go on.
//!
//! Problem: CPUs begin their periods one after the other, and each takes another budget only when
//! its own period begins. If all were asked for the new budgets at once, one CPU could begin a
//! period with more before another one has ended its period with too much. Together they would make
//! more accesses than either plan allows.
//! Rule: there are two steps. First each CPU is asked for the least of its two budgets. When every
//! CPU has begun a period with that, each is asked for its new budget. If a CPU does not follow in
//! the first step, each is asked for its old budget again.
//! Proof: a CPU has one budget in a period (`asked` in solocore/memguard.h). Let o and n be its old
//! and new budget, and m the smaller one. In the first step it has o or m; all together have at most
//! the sum of o. The second step begins when every CPU has begun a period with m, so no period with
//! o is left. From then on it has m or n; all together have at most the sum of n. So at each moment
//! the budgets in force are together at most the larger one of the two sums, and each CPU has at
//! least m.
//! Which bounds hold: a plan bounds a job of core k while k has at least its budget of that plan, and
//! each other core at most its own. If the budget of k does not fall and no other one rises, that is
//! true for the old plan at each moment before, during and after the handover. If the budget of k
//! does not rise and no other one falls, it is true for the new plan at each of these moments. So a
//! job that is released before the handover and ends after it has one of the two bounds. In all other
//! cases neither plan covers such a job ([`covers`]), and the daemon refuses the new plan.
//! Source: own derivation.
//! Does not cover: another length of a period, another sample of a counter, the bandwidth lock, and
//! dynamic budgets. Two handovers that one busy interval of a core spans: each is covered, both
//! together are not.

use super::shared::UNLIMITED;

/// Accesses of a CPU per period. Where writes are counted apart, `accesses` are the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Accesses per period; `UNLIMITED`: no limit.
    pub accesses: u64,
    /// Writes per period; `UNLIMITED`: no limit of their own.
    pub writes: u64,
}

impl Budgets {
    /// No limit of any kind.
    pub const NONE: Self = Self { accesses: UNLIMITED, writes: UNLIMITED };

    fn least(self, other: Self) -> Self {
        Self { accesses: self.accesses.min(other.accesses), writes: self.writes.min(other.writes) }
    }
}

/// Budgets of a CPU before and after a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the CPU.
    pub cpu: u32,
    /// Before it.
    pub old: Budgets,
    /// After it.
    pub new: Budgets,
}

impl Change {
    fn falls(&self) -> bool {
        self.new.accesses < self.old.accesses || self.new.writes < self.old.writes
    }

    fn rises(&self) -> bool {
        self.new.accesses > self.old.accesses || self.new.writes > self.old.writes
    }

    fn least(&self) -> Budgets {
        self.old.least(self.new)
    }
}

/// Whether one of the plans bounds each job of this core that is active during the handover.
#[must_use]
pub fn covers(changes: &[Change], core: u32) -> bool {
    let own = |what: fn(&Change) -> bool| changes.iter().any(|c| c.cpu == core && what(c));
    let other = |what: fn(&Change) -> bool| changes.iter().any(|c| c.cpu != core && what(c));
    let by_old = !own(Change::falls) && !other(Change::rises);
    let by_new = !own(Change::rises) && !other(Change::falls);
    by_old || by_new
}

/// Budgets that CPUs are to be asked for.
pub type Asked = Vec<(u32, Budgets)>;

/// The next step of a handover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// CPUs have not begun their periods yet.
    Wait,
    /// CPUs are to be asked for these budgets.
    Ask(Asked),
    /// Every CPU has its new budget.
    Done,
}

/// A handover, from its first step on.
#[derive(Clone, Debug)]
pub struct Handover {
    changes: Vec<Change>,
    raising: bool,
}

impl Handover {
    /// A handover of these CPUs, which are all that have a budget, and the budgets that the CPUs are
    /// to be asked for first.
    #[must_use]
    pub fn begin(changes: Vec<Change>) -> (Self, Asked) {
        let lowered = changes.iter().filter(|c| c.least() != c.old);
        let asked = lowered.map(|c| (c.cpu, c.least())).collect();
        (Self { changes, raising: false }, asked)
    }

    /// The next step. `in_force`: the budgets of a CPU's present period; `None` while it has not
    /// taken those that it was asked for. A CPU that was just starting can have lost them: then it
    /// is asked again.
    pub fn look(&mut self, in_force: impl Fn(u32) -> Option<Budgets>) -> Step {
        let wanted = |c: &Change| if self.raising { c.new } else { c.least() };
        let others = self.changes.iter().filter(|c| in_force(c.cpu) != Some(wanted(c)));
        let others: Vec<&Change> = others.collect();
        if !others.is_empty() {
            let lost = others.into_iter().filter(|c| in_force(c.cpu).is_some());
            let lost: Asked = lost.map(|c| (c.cpu, wanted(c))).collect();
            return if lost.is_empty() { Step::Wait } else { Step::Ask(lost) };
        }
        let raised = self.changes.iter().filter(|c| !self.raising && c.least() != c.new);
        let asked: Asked = raised.map(|c| (c.cpu, c.new)).collect();
        self.raising = true;
        if asked.is_empty() { Step::Done } else { Step::Ask(asked) }
    }

    /// Gives it up: the budgets that the CPUs are to be asked for. `None`: its second step has
    /// begun, and it goes on.
    #[must_use]
    pub fn give_up(&self) -> Option<Asked> {
        let lowered = self.changes.iter().filter(|c| c.least() != c.old);
        (!self.raising).then(|| lowered.map(|c| (c.cpu, c.old)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// CPUs that take their budgets as their periods begin.
    struct Cpus {
        changes: Vec<Change>,
        in_force: Vec<Budgets>,
        asked: Vec<Option<Budgets>>,
    }

    impl Cpus {
        fn new(changes: Vec<Change>) -> Self {
            let in_force: Vec<Budgets> = changes.iter().map(|c| c.old).collect();
            Self { asked: vec![None; in_force.len()], in_force, changes }
        }

        fn ask(&mut self, asked: Asked) {
            for (cpu, budgets) in asked {
                self.asked[cpu as usize] = Some(budgets);
            }
        }

        fn begins(&mut self, cpu: usize) {
            if let Some(budgets) = self.asked[cpu].take() {
                self.in_force[cpu] = budgets;
            }
        }

        fn of(&self, cpu: u32) -> Option<Budgets> {
            let cpu = cpu as usize;
            self.asked[cpu].is_none().then_some(self.in_force[cpu])
        }

        /// The rule at this moment.
        fn check(&self) {
            let kinds: [fn(&Budgets) -> u64; 2] = [|b| b.accesses, |b| b.writes];
            for kind in kinds {
                let now: u64 = self.in_force.iter().map(kind).sum();
                let old: u64 = self.changes.iter().map(|c| kind(&c.old)).sum();
                let new: u64 = self.changes.iter().map(|c| kind(&c.new)).sum();
                assert!(now <= old.max(new), "{now}: {:?}", self.changes);
            }
            for (c, now) in self.changes.iter().zip(&self.in_force) {
                assert_eq!(now.least(c.least()), c.least(), "{now:?}: {c:?}");
            }
        }
    }

    fn budgets() -> impl Strategy<Value = Budgets> {
        (1..100u64, 1..100u64).prop_map(|(accesses, writes)| Budgets { accesses, writes })
    }

    fn any_changes() -> impl Strategy<Value = Vec<Change>> {
        let of = |(cpu, (old, new))| Change { cpu, old, new };
        prop::collection::vec((budgets(), budgets()), 1..6)
            .prop_map(move |all| (0u32..).zip(all).map(of).collect())
    }

    proptest! {
        /// `events`: a CPU begins a period, or (beyond the last CPU) the daemon looks. After
        /// `patience` events a handover in its first step is given up.
        #[test]
        fn budgets_stay_between_the_plans(
            changes in any_changes(),
            events in prop::collection::vec(0..8usize, 0..60),
            patience in 0..80usize,
        ) {
            let mut cpus = Cpus::new(changes.clone());
            let (mut handover, first) = Handover::begin(changes.clone());
            cpus.ask(first);
            let (mut done, mut given_up) = (false, false);
            let settled = (0..20).flat_map(|_| 0..9usize);
            for (number, event) in events.into_iter().chain(settled).enumerate() {
                if event < changes.len() {
                    cpus.begins(event);
                } else if !given_up && !done {
                    match handover.look(|cpu| cpus.of(cpu)) {
                        Step::Wait => {}
                        Step::Ask(asked) => cpus.ask(asked),
                        Step::Done => done = true,
                    }
                }
                cpus.check();
                if number == patience && !done && let Some(asked) = handover.give_up() {
                    cpus.ask(asked);
                    given_up = true;
                }
            }
            prop_assert_ne!(done, given_up, "it ends");
            for (c, now) in changes.iter().zip(&cpus.in_force) {
                prop_assert_eq!(*now, if done { c.new } else { c.old });
            }
        }

        /// On a core that is covered, one of the plans holds at each moment of the handover.
        #[test]
        fn one_plan_covers_each_core(changes in any_changes()) {
            let all: Vec<u32> = changes.iter().map(|c| c.cpu).collect();
            for &core in &all {
                if !covers(&changes, core) {
                    continue;
                }
                let holds = |of: fn(&Change) -> Budgets| changes.iter().all(|c| {
                    let (plan, least) = (of(c), c.least());
                    let most = Budgets {
                        accesses: c.old.accesses.max(c.new.accesses),
                        writes: c.old.writes.max(c.new.writes),
                    };
                    if c.cpu == core { least.least(plan) == plan } else { most.least(plan) == most }
                });
                prop_assert!(holds(|c| c.old) || holds(|c| c.new));
            }
        }
    }

    fn change(cpu: u32, old: u64, new: u64) -> Change {
        let of = |accesses| Budgets { accesses, writes: UNLIMITED };
        Change { cpu, old: of(old), new: of(new) }
    }

    #[test]
    fn a_transfer_between_two_cores_is_covered_and_one_beside_a_third_is_not() {
        let transfer = [change(0, 200, 100), change(1, 100, 200), change(2, 50, 50)];
        assert_eq!([0, 1, 2].map(|core| covers(&transfer, core)), [true, true, false]);
        let single = [change(0, 200, 100), change(1, 100, 100), change(2, 50, 50)];
        assert_eq!([0, 1, 2].map(|core| covers(&single, core)), [true, true, true]);
    }

    #[test]
    fn nothing_rises_before_everything_has_fallen() {
        let (mut handover, first) = Handover::begin(vec![change(0, 200, 100), change(1, 100, 200)]);
        let of = |accesses| Budgets { accesses, writes: UNLIMITED };
        assert_eq!(first, [(0, of(100))]);
        assert_eq!(handover.look(|cpu| (cpu == 1).then(|| of(100))), Step::Wait);
        assert_eq!(handover.look(|_| None), Step::Wait);
        assert!(handover.give_up().is_some());
        assert_eq!(handover.look(|_| Some(of(100))), Step::Ask(vec![(1, of(200))]));
        assert_eq!(handover.give_up(), None);
        assert_eq!(handover.look(|cpu| (cpu == 0).then(|| of(100))), Step::Wait);
        assert_eq!(handover.look(|cpu| Some(of([100, 200][cpu as usize]))), Step::Done);
    }

    /// A CPU that starts as it is asked forgets the request (`sc_memguard_core_init`).
    #[test]
    fn a_cpu_that_lost_a_request_is_asked_again() {
        let (mut handover, first) = Handover::begin(vec![change(0, 200, 100), change(1, 100, 200)]);
        let of = |accesses| Budgets { accesses, writes: UNLIMITED };
        assert_eq!(handover.look(|cpu| Some(of([200, 100][cpu as usize]))), Step::Ask(first));
        let second = Step::Ask(vec![(1, of(200))]);
        assert_eq!(handover.look(|_| Some(of(100))), second);
        assert_eq!(handover.look(|_| Some(of(100))), second);
        assert_eq!(handover.look(|cpu| Some(of([100, 200][cpu as usize]))), Step::Done);
    }
}
