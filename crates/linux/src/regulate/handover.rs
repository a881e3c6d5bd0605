//! The handover from the budgets of one plan to those of another, while the CPUs go on.
//!
//! Problem: CPUs begin their periods one after the other, and each takes another budget only when
//! its own period begins. If all were asked for the new budgets at once, one CPU could begin a
//! period with more before another one has ended its period with too much. Together they would make
//! more accesses than either plan allows. Rule: there are two steps. First each CPU is asked for
//! the least of its two budgets. When every CPU has begun a period with that, each is asked for its
//! new budget. If a CPU does not follow in the first step, each is asked for its old budget again.
//! A counter gets the sample of its new budget between the two steps, where it needs another one,
//! and forgets the part of a sample that it has counted. So a CPU can exceed its budget by both
//! samples together (s) until it has begun a period after that. A budget that falls is in force
//! before its sample changes, and no other budget rises before that period has begun. A budget that
//! rises first rises to its new value less s. Only then its sample changes, and the last s accesses
//! follow. Proof: a CPU has one budget in a period (`asked` in solocore/memguard.h). Let o and n be
//! its old and new budget, and m the smaller one. In the first step it has o or m; all together
//! have at most the sum of o. The second step begins when every CPU has begun a period with m, so
//! no period with o is left. From then on it has m or n; all together have at most the sum of n. So
//! at each moment the budgets in force are together at most the larger one of the two sums, and
//! each CPU has at least m. Samples change only where o and n differ by at least s. So a CPU with a
//! budget that falls makes at most n + s <= o accesses while the others have at most o. One with a
//! budget that rises makes at most n - s + s while the others have at most n, and has at least n -
//! s >= o. Beside the bandwidth lock no bound rests on the least budget of a CPU, so budgets dip.
//! In the first step a CPU has at most the larger one of o and n less s. Its sample changes then,
//! and it makes at most that larger one meanwhile. Which bounds hold: a plan bounds a job of core k
//! while k has at least its budget of that plan, and each other core at most its own. If the budget
//! of k does not fall and no other one rises, that is true for the old plan at each moment before,
//! during and after the handover. If the budget of k does not rise and no other one falls, it is
//! true for the new plan at each of these moments. So a job that is released before the handover
//! and ends after it has one of the two bounds. In all other cases neither plan covers such a job,
//! and the daemon refuses the new plan (`daemon/covered.rs`; it also has the conditions of bounds
//! that count on the jobs of other cores). Source: own derivation. Does not cover: another length
//! of a period, another sample of a counter of writes, and dynamic budgets (`dynamic.rs`). Where
//! cores reclaim or share budget, samples stay. A program that preempts the daemon between the two
//! halves of a change of sample can exceed its budget by more; the counts of periods say so
//! (`daemon/handing.rs`). Two handovers that one busy interval of a core spans: each is covered,
//! both together are not.

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
    /// Old and new sample of the counter of accesses together; 0: the sample stays. At most the
    /// difference of the two budgets, or below the larger one where the budget dips.
    pub samples: u64,
    /// No bound rests on the CPU's having its budget, so it may have less for a moment.
    pub dips: bool,
}

impl Change {
    fn falls(&self) -> bool {
        self.new.accesses < self.old.accesses || self.new.writes < self.old.writes
    }

    fn rises(&self) -> bool {
        self.new.accesses > self.old.accesses || self.new.writes > self.old.writes
    }

    /// The budgets of the first step.
    pub(crate) fn least(&self) -> Budgets {
        let least = self.old.least(self.new);
        if !self.dips || self.samples == 0 {
            return least;
        }
        let room = self.old.accesses.max(self.new.accesses).saturating_sub(self.samples).max(1);
        Budgets { accesses: least.accesses.min(room), ..least }
    }

    /// Whether the sample changes after a budget of accesses has risen, or before that.
    fn is_resampled(&self, risen: bool) -> bool {
        self.samples > 0 && (!self.dips && self.new.accesses > self.old.accesses) == risen
    }

    /// The new budget, less the samples where one changes after the budget has risen.
    fn near(&self) -> Budgets {
        let less = if self.is_resampled(true) { self.samples } else { 0 };
        Budgets { accesses: self.new.accesses.saturating_sub(less), ..self.new }
    }
}

/// Whether the budgets of the old plan bound each job of this core that is active during the
/// handover.
#[must_use]
pub fn covers_by_old(changes: &[Change], core: u32) -> bool {
    changes.iter().all(|c| if c.cpu == core { !c.falls() } else { !c.rises() })
}

/// Whether those of the new plan do.
#[must_use]
pub fn covers_by_new(changes: &[Change], core: u32) -> bool {
    changes.iter().all(|c| if c.cpu == core { !c.rises() } else { !c.falls() })
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
    /// The counters of these CPUs get their new samples; then the CPUs are to be asked for these
    /// budgets.
    Resample(Asked),
    /// Every CPU has its new budget, or its old one if the handover was given up.
    Done,
}

/// The budgets that CPUs are to have, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The least ones.
    Lower,
    /// The least ones, in a period that began after samples have changed.
    Settle,
    /// The new ones, less the samples that are still to change.
    Near,
    /// The new ones.
    Raise,
    /// The old ones: the handover is given up.
    Back,
}

/// A handover, from its first step on.
#[derive(Clone, Debug)]
pub struct Handover {
    changes: Vec<Change>,
    stage: Stage,
}

impl Handover {
    /// A handover of these CPUs, which are all that have a budget, and the budgets that the CPUs
    /// are to be asked for first.
    #[must_use]
    pub fn begin(changes: Vec<Change>) -> (Self, Asked) {
        let lowered = changes.iter().filter(|c| c.least() != c.old);
        let asked = lowered.map(|c| (c.cpu, c.least())).collect();
        (Self { changes, stage: Stage::Lower }, asked)
    }

    fn wanted(&self, change: &Change) -> Budgets {
        match self.stage {
            Stage::Lower | Stage::Settle => change.least(),
            Stage::Near => change.near(),
            Stage::Raise => change.new,
            Stage::Back => change.old,
        }
    }

    /// The next step. `in_force`: the budgets of a CPU's present period; `None` while it has not
    /// taken those that it was asked for. A CPU that was just starting can have lost them: then it
    /// is asked again.
    pub fn look(&mut self, in_force: impl Fn(u32) -> Option<Budgets>) -> Step {
        let others = self.changes.iter().filter(|c| in_force(c.cpu) != Some(self.wanted(c)));
        let others: Vec<&Change> = others.collect();
        if !others.is_empty() {
            let lost = others.into_iter().filter(|c| in_force(c.cpu).is_some());
            let lost: Asked = lost.map(|c| (c.cpu, self.wanted(c))).collect();
            return if lost.is_empty() { Step::Wait } else { Step::Ask(lost) };
        }
        loop {
            let step = match self.stage {
                Stage::Lower => {
                    self.stage = Stage::Settle;
                    Step::Resample(self.asked(|c| c.is_resampled(false)))
                }
                Stage::Settle => {
                    self.stage = Stage::Near;
                    Step::Ask(self.asked(|c| c.near() != c.least()))
                }
                Stage::Near => {
                    self.stage = Stage::Raise;
                    Step::Resample(self.asked(|c| c.is_resampled(true)))
                }
                Stage::Raise | Stage::Back => return Step::Done,
            };
            if !matches!(&step, Step::Ask(none) | Step::Resample(none) if none.is_empty()) {
                return step;
            }
        }
    }

    /// The budgets of this stage, for some of the CPUs.
    fn asked(&self, of: fn(&Change) -> bool) -> Asked {
        self.changes.iter().filter(|c| of(c)).map(|c| (c.cpu, self.wanted(c))).collect()
    }

    /// Gives it up: the budgets that the CPUs are to be asked for. `None`: the first step is over,
    /// and it goes on; or it is given up already.
    pub fn give_up(&mut self) -> Option<Asked> {
        if self.stage != Stage::Lower {
            return None;
        }
        self.stage = Stage::Back;
        Some(self.asked(|c| c.least() != c.old))
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
        /// Counters with their new samples.
        resampled: Vec<bool>,
        /// Counters of which the sample has changed, or does not divide the budget in force.
        inexact: Vec<bool>,
    }

    impl Cpus {
        fn new(changes: Vec<Change>) -> Self {
            let in_force: Vec<Budgets> = changes.iter().map(|c| c.old).collect();
            let [resampled, inexact] = [(); 2].map(|()| vec![false; in_force.len()]);
            Self { asked: vec![None; in_force.len()], in_force, changes, resampled, inexact }
        }

        fn resample(&mut self, asked: &Asked) {
            for &(cpu, _) in asked {
                let cpu = cpu as usize;
                assert!(!self.resampled[cpu] && self.changes[cpu].samples > 0);
                (self.resampled[cpu], self.inexact[cpu]) = (true, true);
            }
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
            let Change { old, new, samples, .. } = self.changes[cpu];
            let of_sample = if self.resampled[cpu] { new } else { old };
            self.inexact[cpu] = samples > 0 && self.in_force[cpu].accesses != of_sample.accesses;
        }

        /// Accesses and writes that a CPU can make in its present period.
        fn most(&self, cpu: usize) -> Budgets {
            let now = self.in_force[cpu];
            let beyond = if self.inexact[cpu] { self.changes[cpu].samples } else { 0 };
            Budgets { accesses: now.accesses + beyond, ..now }
        }

        fn of(&self, cpu: u32) -> Option<Budgets> {
            let cpu = cpu as usize;
            self.asked[cpu].is_none().then_some(self.in_force[cpu])
        }

        /// The rule at this moment.
        fn check(&self) {
            let kinds: [fn(&Budgets) -> u64; 2] = [|b| b.accesses, |b| b.writes];
            for kind in kinds {
                let now: u64 = (0..self.changes.len()).map(|cpu| kind(&self.most(cpu))).sum();
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
        let of = |(cpu, (old, new, samples)): (u32, (Budgets, Budgets, u64))| {
            let samples = samples.min(old.accesses.abs_diff(new.accesses));
            Change { cpu, old, new, samples, dips: false }
        };
        prop::collection::vec((budgets(), budgets(), 0..100u64), 1..6)
            .prop_map(move |all| (0u32..).zip(all).map(of).collect())
    }

    /// As the budgets beside the lock, which are the same for all CPUs.
    fn changes_alike() -> impl Strategy<Value = Vec<Change>> {
        (budgets(), budgets(), 0..100u64, 1..6u32).prop_map(|(old, new, samples, cpus)| {
            let samples = samples.min(old.accesses.max(new.accesses) - 1);
            (0..cpus).map(|cpu| Change { cpu, old, new, samples, dips: true }).collect()
        })
    }

    proptest! {
        /// `events`: a CPU begins a period, or (beyond the last CPU) the daemon looks. After
        /// `patience` events a handover in its first step is given up.
        #[test]
        fn budgets_stay_between_the_plans(
            changes in prop_oneof![any_changes(), changes_alike()],
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
                } else if !done {
                    match handover.look(|cpu| cpus.of(cpu)) {
                        Step::Wait => {}
                        Step::Ask(asked) => cpus.ask(asked),
                        Step::Resample(asked) => {
                            cpus.resample(&asked);
                            cpus.ask(asked);
                        }
                        Step::Done => done = true,
                    }
                }
                cpus.check();
                if number == patience && !done && let Some(asked) = handover.give_up() {
                    cpus.ask(asked);
                    given_up = true;
                }
            }
            prop_assert!(done, "it ends");
            for (cpu, c) in changes.iter().enumerate() {
                let (budgets, resampled) =
                    if given_up { (c.old, false) } else { (c.new, c.samples > 0) };
                prop_assert_eq!(cpus.most(cpu), budgets);
                prop_assert_eq!(cpus.resampled[cpu], resampled);
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

    fn covers(changes: &[Change], core: u32) -> bool {
        covers_by_old(changes, core) || covers_by_new(changes, core)
    }

    fn change(cpu: u32, old: u64, new: u64) -> Change {
        let of = |accesses| Budgets { accesses, writes: UNLIMITED };
        Change { cpu, old: of(old), new: of(new), samples: 0, dips: false }
    }

    #[test]
    fn a_transfer_between_two_cores_is_covered_and_one_beside_a_third_is_not() {
        let transfer = [change(0, 200, 100), change(1, 100, 200), change(2, 50, 50)];
        assert_eq!([0, 1, 2].map(|core| covers(&transfer, core)), [true, true, false]);
        let single = [change(0, 200, 100), change(1, 100, 100), change(2, 50, 50)];
        assert_eq!([0, 1, 2].map(|core| covers(&single, core)), [true, true, true]);
    }

    /// Budgets of 600 and 500 beside the lock, with samples of 300 and 250.
    #[test]
    fn a_budget_that_nobody_rests_on_dips_while_its_sample_changes() {
        let of = |accesses| Budgets { accesses, writes: UNLIMITED };
        for (old, new) in [(600, 500), (500, 600)] {
            let dips = Change { samples: 550, dips: true, ..change(0, old, new) };
            let (mut handover, first) = Handover::begin(vec![dips]);
            assert_eq!(first, [(0, of(50))]);
            assert_eq!(handover.look(|_| Some(of(50))), Step::Resample(first));
            assert_eq!(handover.look(|_| None), Step::Wait);
            assert_eq!(handover.look(|_| Some(of(50))), Step::Ask(vec![(0, of(new))]));
            assert_eq!(handover.look(|_| Some(of(new))), Step::Done);
        }
    }

    #[test]
    fn nothing_rises_before_everything_has_fallen() {
        let (mut handover, first) = Handover::begin(vec![change(0, 200, 100), change(1, 100, 200)]);
        let of = |accesses| Budgets { accesses, writes: UNLIMITED };
        assert_eq!(first, [(0, of(100))]);
        assert_eq!(handover.look(|cpu| (cpu == 1).then(|| of(100))), Step::Wait);
        assert_eq!(handover.look(|_| None), Step::Wait);
        assert!(handover.clone().give_up().is_some());
        assert_eq!(handover.look(|_| Some(of(100))), Step::Ask(vec![(1, of(200))]));
        assert_eq!(handover.give_up(), None);
        assert_eq!(handover.look(|cpu| (cpu == 0).then(|| of(100))), Step::Wait);
        assert_eq!(handover.look(|cpu| Some(of([100, 200][cpu as usize]))), Step::Done);
    }

    #[test]
    fn a_handover_that_is_given_up_ends_when_the_old_budgets_are_in_force() {
        let (mut handover, _) = Handover::begin(vec![change(0, 200, 100), change(1, 100, 200)]);
        let of = |accesses| Budgets { accesses, writes: UNLIMITED };
        assert_eq!(handover.give_up(), Some(vec![(0, of(200))]));
        assert_eq!(handover.give_up(), None);
        assert_eq!(handover.look(|cpu| (cpu == 1).then(|| of(100))), Step::Wait);
        assert_eq!(handover.look(|cpu| Some(of([200, 100][cpu as usize]))), Step::Done);
    }

    /// Budgets of 160 and 600 with samples of 20 and 75 change places.
    #[test]
    fn a_sample_changes_after_a_fall_and_before_the_end_of_a_rise() {
        let resampled = |cpu, old, new| Change { samples: 95, ..change(cpu, old, new) };
        let (mut handover, first) =
            Handover::begin(vec![resampled(0, 600, 160), resampled(1, 160, 600)]);
        let of = |accesses| Budgets { accesses, writes: UNLIMITED };
        let both = |zero, one| move |cpu: u32| Some(of([zero, one][cpu as usize]));
        assert_eq!(first, [(0, of(160))]);
        assert_eq!(handover.look(both(160, 160)), Step::Resample(first));
        assert_eq!(handover.look(|cpu| (cpu == 1).then(|| of(160))), Step::Wait);
        assert_eq!(handover.look(both(160, 160)), Step::Ask(vec![(1, of(505))]));
        assert_eq!(handover.look(both(160, 505)), Step::Resample(vec![(1, of(600))]));
        assert_eq!(handover.look(both(160, 600)), Step::Done);
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
