//! A handover to other budgets, on an engine.
//!
//! Problem: the CPUs follow one after the other, and a CPU may be offline, or its state may not be
//! readable for a moment. The sender of a plan that is given up must not hear of it while other
//! budgets are still in force. Rule: each round goes on from the last one (`go_on`), and repeats a
//! request that the engine has refused. If a CPU does not follow in the first step for
//! [`PATIENCE_NS`], all are asked for their old budgets. The handover ends when these are in force.
//! It also ends after the same time once more: a CPU that still begins no period has kept its old
//! budget. While samples change, a period may have what the proof in regulate/handover.rs allows:
//! in a budget that falls, the old one, and in one that rises, both samples more. Does not cover:
//! the choice of budgets and samples (`regulate/regulation`), and their order
//! (`regulate/handover.rs`).

use crate::error::LinuxError;
use crate::regulate::engine::Engine;
use crate::regulate::handover::{Asked, Change, Handover, Step};
use crate::regulate::regulation::CoreBudget;
use std::collections::BTreeMap;

/// Longest time for the first step of a handover, in which nothing has risen yet.
pub(super) const PATIENCE_NS: u64 = 2_000_000_000;

/// The end of a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The new budgets are in force.
    Taken,
    /// The old budgets are in force again.
    GivenUp,
}

/// See the module.
pub(super) struct Handing {
    handover: Handover,
    /// CPUs before and after it.
    cores: Vec<(CoreBudget, CoreBudget)>,
    begun_ns: u64,
    /// CPUs with counters that are still to get another sample.
    unsampled: Vec<u32>,
    /// Budgets that the CPUs are still to be asked for after that.
    unasked: Asked,
    given_up: bool,
}

impl Handing {
    /// Begins it. `dips`: a budget may fall below both for a moment, because no bound rests on it.
    ///
    /// # Errors
    /// The engine refuses it; no CPU was asked for another budget then.
    pub fn begin(
        engine: &dyn Engine,
        cores: Vec<(CoreBudget, CoreBudget)>,
        dips: bool,
        now_ns: u64,
    ) -> Result<Self, LinuxError> {
        let (handover, asked) = Handover::begin(changes(&cores, dips));
        let (unsampled, unasked) = (Vec::new(), Vec::new());
        let handing =
            Self { handover, cores, begun_ns: now_ns, unsampled, unasked, given_up: false };
        engine.tolerate(&handing.tolerances(&|old, new| meanwhile(old, new, dips)))?;
        if let Err(error) = engine.ask(&asked) {
            let _ = engine.tolerate(&handing.tolerances(&|old, _| old.tolerance));
            return Err(error);
        }
        Ok(handing)
    }

    /// Goes on with it; `None`: it has not ended. After an error the next round tries again.
    ///
    /// # Errors
    /// The engine refuses something at the moment.
    pub fn go_on(&mut self, engine: &dyn Engine, now_ns: u64) -> Result<Option<End>, LinuxError> {
        let nothing_left = self.unsampled.is_empty() && self.unasked.is_empty();
        if nothing_left && self.look(engine, now_ns) {
            let given_up = self.given_up;
            let in_force = |old: &CoreBudget, new: &CoreBudget| {
                if given_up { old.tolerance } else { new.tolerance }
            };
            engine.tolerate(&self.tolerances(&in_force))?;
            return Ok(Some(if self.given_up { End::GivenUp } else { End::Taken }));
        }
        while let Some(&cpu) = self.unsampled.last() {
            let core = self.cores.iter().find(|(_, new)| new.cpu == cpu);
            core.map_or(Ok(()), |(_, new)| engine.resample(cpu, new.sample))?;
            self.unsampled.pop();
        }
        engine.ask(&self.unasked)?;
        self.unasked.clear();
        Ok(None)
    }

    /// Prepares the next step; whether the handover has ended.
    fn look(&mut self, engine: &dyn Engine, now_ns: u64) -> bool {
        let mut in_force = BTreeMap::new();
        for (core, _) in &self.cores {
            // A CPU that cannot be read has not followed, and the patience with it ends.
            in_force.insert(core.cpu, engine.in_force(core.cpu).ok().flatten());
        }
        let waited_ns = now_ns.saturating_sub(self.begun_ns);
        match self.handover.look(|cpu| in_force.get(&cpu).copied().flatten()) {
            Step::Done => return true,
            Step::Ask(asked) => self.unasked = asked,
            Step::Resample(asked) => {
                self.unsampled = asked.iter().map(|(cpu, _)| *cpu).collect();
                self.unasked = asked;
            }
            Step::Wait if self.given_up => return waited_ns > 2 * PATIENCE_NS,
            Step::Wait if waited_ns > PATIENCE_NS => {
                if let Some(old) = self.handover.give_up() {
                    (self.unasked, self.given_up) = (old, true);
                }
            }
            Step::Wait => {}
        }
        false
    }

    /// Tolerances of the CPUs where these or the samples differ.
    fn tolerances(&self, of: Tolerance<'_>) -> Vec<(u32, u64)> {
        let differs = |(old, new): &&(CoreBudget, CoreBudget)| {
            (old.sample, old.tolerance) != (new.sample, new.tolerance)
        };
        self.cores.iter().filter(differs).map(|(old, new)| (old.cpu, of(old, new))).collect()
    }
}

/// A tolerance of a CPU, from its budgets before and after.
type Tolerance<'t> = &'t dyn Fn(&CoreBudget, &CoreBudget) -> u64;

/// The tolerance of a CPU until the handover has ended.
fn meanwhile(old: &CoreBudget, new: &CoreBudget, dips: bool) -> u64 {
    let tolerance = old.tolerance.max(new.tolerance);
    if old.sample == new.sample {
        return tolerance;
    }
    if dips || new.budget < old.budget {
        let least = change(old, new, dips).least().accesses;
        return old.most().max(new.most()).saturating_sub(least);
    }
    old.sample.saturating_add(new.sample).saturating_add(tolerance)
}

/// Budgets before and after a handover.
pub(super) fn changes(cores: &[(CoreBudget, CoreBudget)], dips: bool) -> Vec<Change> {
    cores.iter().map(|(old, new)| change(old, new, dips)).collect()
}

fn change(old: &CoreBudget, new: &CoreBudget, dips: bool) -> Change {
    let samples = if old.sample == new.sample { 0 } else { old.sample.saturating_add(new.sample) };
    Change { cpu: old.cpu, old: old.enforced(), new: new.enforced(), samples, dips }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulate::engine::quiet_engine;
    use crate::regulate::handover::Budgets;
    use crate::regulate::shared::UNLIMITED;
    use std::cell::RefCell;

    /// A CPU of the engine below.
    #[derive(Clone, Copy)]
    struct Cpu {
        in_force: Budgets,
        asked: Option<Budgets>,
        sample: u64,
        tolerance: u64,
    }

    /// An engine with CPUs that take their budgets when a test says so.
    struct Asking(RefCell<Vec<Cpu>>);

    impl Asking {
        fn begins(&self, cpu: usize) {
            let mut cpus = self.0.borrow_mut();
            let of = &mut cpus[cpu];
            of.in_force = of.asked.take().unwrap_or(of.in_force);
        }

        fn now(&self, cpu: usize) -> (u64, u64, u64) {
            let of = self.0.borrow()[cpu];
            (of.in_force.accesses, of.sample, of.tolerance)
        }
    }

    impl Engine for Asking {
        quiet_engine!();

        fn ask(&self, asked: &[(u32, Budgets)]) -> Result<(), LinuxError> {
            let mut cpus = self.0.borrow_mut();
            for &(cpu, budgets) in asked {
                let absent = || LinuxError::Machine(format!("CPU {cpu} is not there"));
                cpus.get_mut(cpu as usize).ok_or_else(absent)?.asked = Some(budgets);
            }
            Ok(())
        }

        fn resample(&self, cpu: u32, sample: u64) -> Result<(), LinuxError> {
            self.0.borrow_mut()[cpu as usize].sample = sample;
            Ok(())
        }

        fn expect(&self, _: u32, _: u64) -> Result<(), LinuxError> {
            Ok(())
        }

        fn tolerate(&self, tolerances: &[(u32, u64)]) -> Result<(), LinuxError> {
            for &(cpu, tolerance) in tolerances {
                self.0.borrow_mut()[cpu as usize].tolerance = tolerance;
            }
            Ok(())
        }

        fn in_force(&self, cpu: u32) -> Result<Option<Budgets>, LinuxError> {
            let of = self.0.borrow()[cpu as usize];
            Ok(of.asked.is_none().then_some(of.in_force))
        }
    }

    fn unlimited_writes(accesses: u64) -> Budgets {
        Budgets { accesses, writes: UNLIMITED }
    }

    fn core(cpu: u32, budget: u64, sample: u64) -> CoreBudget {
        CoreBudget { cpu, planned: budget, budget, sample, tolerance: sample, writes: None }
    }

    /// CPUs 0 and 1 change their budgets and samples, and the handover has begun at 0.
    fn begun() -> (Asking, Handing) {
        let day = [core(0, 600, 75), core(1, 160, 20)];
        let night = [core(0, 160, 20), core(1, 600, 75)];
        let cpu = |core: &CoreBudget| Cpu {
            in_force: unlimited_writes(core.budget),
            asked: None,
            sample: core.sample,
            tolerance: core.tolerance,
        };
        let engine = Asking(RefCell::new(day.iter().map(cpu).collect()));
        let cores = day.into_iter().zip(night).collect();
        let handing = Handing::begin(&engine, cores, false, 0).unwrap();
        (engine, handing)
    }

    #[test]
    fn budgets_samples_and_tolerances_are_those_of_the_new_plan_at_the_end() {
        let (engine, mut handing) = begun();
        assert_eq!(engine.now(0), (600, 75, 515), "it may have 675 when its budget is 160");
        assert_eq!(engine.now(1), (160, 20, 170), "it may have 675 when its budget is 505");
        let mut rounds = 0;
        while handing.go_on(&engine, 1).unwrap().is_none() {
            (0..2).for_each(|cpu| engine.begins(cpu));
            rounds += 1;
            assert!(rounds < 20);
        }
        assert_eq!([0, 1].map(|cpu| engine.now(cpu)), [(160, 20, 20), (600, 75, 75)]);
    }

    #[test]
    fn one_that_does_not_begin_leaves_the_tolerances() {
        let (engine, _) = begun();
        engine.0.borrow_mut()[0].tolerance = 75;
        let absent = (core(2, 600, 75), core(2, 525, 75));
        let cores = vec![(core(0, 600, 75), core(0, 160, 20)), absent];
        assert!(Handing::begin(&engine, cores, false, 0).is_err());
        assert_eq!(engine.now(0).2, 75);
    }

    #[test]
    fn the_end_of_one_that_is_given_up_waits_for_the_old_budgets() {
        let (engine, mut handing) = begun();
        // CPU 0 follows; as if CPU 1 could not be read.
        engine.begins(0);
        engine.0.borrow_mut()[1].asked = Some(unlimited_writes(160));
        assert_eq!(handing.go_on(&engine, PATIENCE_NS), Ok(None));
        assert_eq!(handing.go_on(&engine, PATIENCE_NS + 1), Ok(None), "it is given up");
        engine.begins(1);
        assert_eq!(engine.now(0).0, 160);
        assert_eq!(handing.go_on(&engine, PATIENCE_NS + 2), Ok(None), "CPU 0 has a lower one");
        engine.begins(0);
        assert_eq!(handing.go_on(&engine, PATIENCE_NS + 3), Ok(Some(End::GivenUp)));
        assert_eq!([0, 1].map(|cpu| engine.now(cpu)), [(600, 75, 75), (160, 20, 20)]);
    }

    #[test]
    fn a_cpu_that_never_follows_keeps_no_sender_waiting() {
        let (engine, mut handing) = begun();
        assert_eq!(handing.go_on(&engine, PATIENCE_NS + 1), Ok(None));
        assert_eq!(handing.go_on(&engine, 2 * PATIENCE_NS), Ok(None));
        assert_eq!(handing.go_on(&engine, 2 * PATIENCE_NS + 1), Ok(Some(End::GivenUp)));
        assert_eq!(engine.now(0), (600, 75, 75));
    }
}
