//! A handover to other dynamic budgets, on an engine.
//!
//! Problem: each soft CPU sees the jobs of the hard tasks by itself. If one CPU had the old budget
//! of a job and another one its new budget, the job could end later than the shorter one of both
//! lengths. The CPU with that length would then have no limit while the job still runs. Rule: there
//! are two steps. First each CPU takes the smaller one of both budgets of each task, with the
//! longer one of both lengths. When every CPU has taken that, each takes the new budgets and
//! lengths. A job keeps the pair that it began with on a CPU. Proof: a CPU looks for jobs before it
//! takes a pair (bpf/dynamic.h). So the CPUs' pairs for one job are those of one step, or of two
//! steps that follow each other. In each of these cases all lengths are the longer one, or all
//! budgets are the smaller one. In the second case the job ends within the shorter length. So the
//! plan with the larger budgets and lengths bounds each job (`regulate/dynamic.rs`, `covers`). A
//! counter that gets another sample forgets the part of the old one that it has counted. So in the
//! first step a CPU already stops when less than both samples are left. The sample changes between
//! the two steps. If a CPU does not follow in the first step for [`PATIENCE_NS`], all take the old
//! budgets again. Source: own derivation from dynamic-budgeting, section IV. Does not cover: tasks
//! with a budget that falls and a length that grows, or the reverse. A CPU that comes back in the
//! midst of a handover begins without the jobs that go on.

use super::handing::{End, PATIENCE_NS};
use crate::error::LinuxError;
use crate::regulate::dynamic::RunHardTask;
use crate::regulate::engine::Engine;
use crate::regulate::regulation::CoreBudget;
use solocore_model::run::RunOtherJobBudget;
use std::collections::BTreeSet;

/// What the CPUs are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The smaller budgets, with the longer lengths.
    Middle,
    New,
    /// The handover is given up.
    Old,
}

/// See the module.
pub(super) struct HandingJobs {
    old: Vec<RunHardTask>,
    new: Vec<RunHardTask>,
    /// The soft CPUs before and after it.
    cores: Vec<(CoreBudget, CoreBudget)>,
    stage: Stage,
    /// The CPUs are still to be asked.
    unasked: bool,
    /// CPUs with the new sample. A further change would forget what the counter has counted.
    resampled: BTreeSet<u32>,
    begun_ns: u64,
}

impl HandingJobs {
    /// Begins it. The tasks are the same in both lists, by their number.
    ///
    /// # Errors
    /// The engine refuses it; no CPU was asked then.
    pub fn begin(
        engine: &dyn Engine,
        (old, new): (Vec<RunHardTask>, Vec<RunHardTask>),
        cores: Vec<(CoreBudget, CoreBudget)>,
        begun_ns: u64,
    ) -> Result<Self, LinuxError> {
        let (stage, resampled) = (Stage::Middle, BTreeSet::new());
        let mut handing = Self { old, new, cores, stage, unasked: true, resampled, begun_ns };
        if let Err(error) = handing.ask(engine) {
            // A CPU that begins again takes the budgets that are written.
            let _ = engine.ask_for_jobs(&handing.old);
            let _ =
                handing.other_samples().try_for_each(|(old, _)| engine.expect(old.cpu, old.sample));
            return Err(error);
        }
        Ok(Self { unasked: false, ..handing })
    }

    /// Goes on with it; `None`: it has not ended. After an error the next round tries again.
    ///
    /// # Errors
    /// The engine refuses something at the moment.
    pub fn go_on(&mut self, engine: &dyn Engine, now_ns: u64) -> Result<Option<End>, LinuxError> {
        if self.unasked {
            self.ask(engine)?;
            self.unasked = false;
            return Ok(None);
        }
        let waited_ns = now_ns.saturating_sub(self.begun_ns);
        let stage = match (self.stage, self.taken(engine)) {
            (Stage::Middle, true) => Stage::New,
            (Stage::New, true) => return Ok(Some(End::Taken)),
            (Stage::Middle, false) if waited_ns > PATIENCE_NS => Stage::Old,
            (Stage::Old, taken) if taken || waited_ns > 2 * PATIENCE_NS => {
                return Ok(Some(End::GivenUp));
            }
            _ => return Ok(None),
        };
        (self.stage, self.unasked) = (stage, true);
        self.go_on(engine, now_ns)
    }

    /// The tasks with other budgets or lengths.
    pub fn changed(&self) -> Vec<RunOtherJobBudget> {
        let pairs = self.old.iter().zip(&self.new).filter(|(old, new)| old != new);
        pairs
            .map(|(old, new)| RunOtherJobBudget {
                task: old.name.clone(),
                before: old.budget,
                budget: new.budget,
                length_before_ns: old.length_ns,
                length_ns: new.length_ns,
            })
            .collect()
    }

    /// The CPUs whose counters get another sample.
    fn other_samples(&self) -> impl Iterator<Item = &(CoreBudget, CoreBudget)> {
        self.cores.iter().filter(|(old, new)| old.sample != new.sample)
    }

    fn ask(&mut self, engine: &dyn Engine) -> Result<(), LinuxError> {
        let samples: Vec<_> =
            self.other_samples().map(|(a, b)| (a.cpu, a.sample, b.sample)).collect();
        for (cpu, old, new) in samples {
            match self.stage {
                Stage::Middle => engine.expect(cpu, old.saturating_add(new))?,
                Stage::New if self.resampled.contains(&cpu) => {}
                Stage::New => {
                    engine.resample(cpu, new)?;
                    self.resampled.insert(cpu);
                }
                Stage::Old => engine.expect(cpu, old)?,
            }
        }
        let middle = |(old, new): (&RunHardTask, &RunHardTask)| RunHardTask {
            budget: old.budget.min(new.budget),
            length_ns: old.length_ns.max(new.length_ns),
            ..old.clone()
        };
        engine.ask_for_jobs(&match self.stage {
            Stage::Middle => self.old.iter().zip(&self.new).map(middle).collect(),
            Stage::New => self.new.clone(),
            Stage::Old => self.old.clone(),
        })?;
        let asked: Vec<_> = self.wanted().map(|c| (c.cpu, c.enforced())).collect();
        engine.ask(&asked)
    }

    /// The budgets that CPUs show after this step. They differ from the present ones or not: a CPU
    /// that was asked has none in force until it has taken them.
    fn wanted(&self) -> impl Iterator<Item = &CoreBudget> {
        let back = self.stage == Stage::Old;
        self.cores.iter().map(move |(old, new)| if back { old } else { new })
    }

    /// Whether every CPU has taken its wish. One that cannot be read has not.
    fn taken(&self, engine: &dyn Engine) -> bool {
        let has = |core: &CoreBudget| engine.in_force(core.cpu).ok().flatten();
        self.wanted().all(|core| has(core) == Some(core.enforced()))
    }
}

#[cfg(test)]
#[path = "handing_jobs_tests.rs"]
mod tests;
