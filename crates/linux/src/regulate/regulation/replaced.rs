//! The regulation of another plan, for counters that go on.
//!
//! Rule: it is that of a start with the plan (`Regulation::new`), with samples that a handover can
//! give the counters. Does not cover: the handover (`regulate/handover.rs`, `daemon/handing.rs`).

use super::{CoreBudget, Regulation, Sharing};
use crate::error::LinuxError;
use crate::host::machine::{cpu_list, needed_rate, sample_rate};
use crate::regulate::budget::{Samples, counted_on, most_interrupts};
use crate::regulate::dynamic::DynamicRegulation;
use solocore_model::Plan;

impl Regulation {
    /// The regulation of another plan, which differs in budgets only, with the counters of this
    /// one. CPUs keep their samples, except where a handover can change them.
    ///
    /// # Errors
    /// As [`Self::new`], or the present counters cannot keep a budget of the plan.
    pub(crate) fn replaced_by(&self, plan: &Plan) -> Result<Self, LinuxError> {
        let online: Vec<u32> = (0..self.cpus).collect();
        let new = Self::new(plan, &self.options, &online)?;
        if new.regulated() != self.regulated() {
            return Err(LinuxError::Machine(format!(
                "the new plan gives budgets to CPUs {}, and the present one to CPUs {}; end the run \
                    and start it with the new plan",
                cpu_list(&new.regulated()),
                cpu_list(&self.regulated())
            )));
        }
        let hard = |dynamic: &Option<DynamicRegulation>| -> Vec<(String, u32)> {
            let tasks = dynamic.iter().flat_map(|d| &d.tasks);
            tasks.map(|t| (t.name.clone(), t.core)).collect()
        };
        if hard(&new.dynamic) != hard(&self.dynamic) {
            return Err(LinuxError::Machine(
                "the new plan has other hard tasks, or other priorities of these; end the run and \
                    start it with the new plan"
                    .to_owned(),
            ));
        }
        let samples = match (self.serving(), self.reclaim || self.sharing != Sharing::None) {
            _ if self.dips() => Samples::Beside,
            // A soft core is stopped when less than a sample is left, whatever its sample is.
            (Some(_), _) => Samples::Any,
            // Cores that reclaim or share budget do so by the samples at the start of the run.
            (None, true) => Samples::Stay,
            (None, false) => Samples::Apart,
        };
        let pairs = self.cores.iter().zip(&new.cores);
        let cores: Vec<CoreBudget> = pairs
            .map(|(old, new)| counted_on(old, new, self.options.skid, samples))
            .collect::<Result<_, _>>()?;
        let new = Self { cores, binds_fifo: self.binds_fifo, ..new };
        let needed = needed_rate(new.period_ns, self.interrupts_before(&new));
        match sample_rate() {
            Some(rate) if rate < needed => Err(LinuxError::Machine(format!(
                "the new budgets need {needed} interrupts a second with the present samples, and \
                    kernel.perf_event_max_sample_rate is {rate}; end the run and start it with the \
                    new plan"
            ))),
            _ => Ok(new),
        }
    }

    /// Most interrupts in a period of a CPU's busiest event under any plan that this one can be
    /// replaced by, where CPUs have no limit at times.
    pub(crate) fn interrupts_of_any_plan(&self) -> u64 {
        let free = self.serving().is_some() && !self.event.is_software();
        let any = if free { most_interrupts(self.period_ns, 1) } else { 0 };
        any.max(self.interrupts_per_period())
    }

    /// Most interrupts in a period until a handover ends: budgets rise before their samples do.
    fn interrupts_before(&self, next: &Self) -> u64 {
        let pairs = self.cores.iter().zip(&next.cores);
        let cores = pairs
            .map(|(old, new)| CoreBudget { sample: old.sample.min(new.sample), ..*new })
            .collect();
        Self { cores, ..next.clone() }.interrupts_per_period()
    }
}
