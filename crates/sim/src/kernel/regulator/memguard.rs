//! MemGuard (`memguard.h`; single-core-equivalence, section 2.2): a budget of accesses per core
//! and period.
//!
//! Budgets for both kinds together are the policy's reads. With budgets apart, the hardware's one
//! counter is armed for the nearer of the two, and armed again until one is used up. No budget is
//! ever exceeded by this, and an interrupt is charged only for a budget that is used up.

use super::interface::{Made, Regulator, error};
use crate::kernel::config::{Budget, KernelError, RegulatorSpec, span_ns};
use crate::kernel::cores::CoreSet;
use solocore_policy::UNLIMITED;
use solocore_policy::memguard::{Kind, MemGuard, MemGuardCore, Verdict};

/// See the module.
pub struct MemGuardRegulator {
    shared: MemGuard,
    cores: Vec<MemGuardCore>,
    /// By core: are reads and writes counted as one?
    together: Vec<bool>,
    period_ps: u64,
}

impl MemGuardRegulator {
    pub fn new(spec: &RegulatorSpec, cores: usize, now_ns: u64) -> Result<Self, KernelError> {
        let RegulatorSpec::MemGuard { period_ps, cores: budgets, sharing, chunk } = spec else {
            return Err(error("is not MemGuard"));
        };
        if budgets.len() != cores {
            return Err(error(format!(
                "budgets are given for {} cores, but the board has {cores}",
                budgets.len()
            )));
        }
        let period = span_ns(*period_ps, "regulator", "a period")?;
        // A core without a limit never uses its budget up, and no shared round waits for it.
        let limited = budgets.iter().filter(|(budget, _)| *budget != Budget::Unlimited).count();
        let count = u32::try_from(limited.max(1)).unwrap_or(u32::MAX);
        let mut shared = MemGuard::new(period, *chunk, *sharing, count)
            .ok_or_else(|| error(format!("a chunk of {chunk} is not 1 to 2^32-1; give another")))?;
        let mut policies = Vec::new();
        for (core, &(budget, role)) in budgets.iter().enumerate() {
            let (reads, writes) = match budget {
                Budget::Unlimited => (UNLIMITED, UNLIMITED),
                Budget::Together(accesses) => (accesses, UNLIMITED),
                Budget::Apart { reads, writes } => (reads, writes),
            };
            let policy = MemGuardCore::new(&mut shared, reads, writes, role, now_ns);
            policies.push(policy.ok_or_else(|| {
                error(format!("core {core} has a budget of 0 or above 2^32-1; give another"))
            })?);
        }
        let together =
            budgets.iter().map(|(budget, _)| matches!(budget, Budget::Together(_))).collect();
        Ok(Self { shared, cores: policies, together, period_ps: *period_ps })
    }
}

impl Regulator for MemGuardRegulator {
    fn period_ps(&self) -> Option<u64> {
        Some(self.period_ps)
    }

    fn account(&mut self, core: usize, made: Made, _: u64, touched: &mut CoreSet) -> bool {
        let kinds = if self.together[core] {
            [(Kind::Read, made.reads + made.writes), (Kind::Write, 0)]
        } else {
            [(Kind::Read, made.reads), (Kind::Write, made.writes)]
        };
        let mut used_up = false;
        for (kind, accesses) in kinds {
            let c = &mut self.cores[core];
            if accesses == 0 {
                continue;
            }
            used_up |= c.limited(kind)
                && !c.throttled()
                && c.used(kind).saturating_add(accesses) >= c.budget(kind);
            if c.account(&mut self.shared, kind, accesses) == Verdict::GoAll {
                for (other, c) in self.cores.iter_mut().enumerate() {
                    c.resume(&mut self.shared);
                    touched.insert(other);
                }
            }
        }
        used_up
    }

    fn tick(&mut self, core: usize, now_ns: u64) {
        self.cores[core].replenish(&mut self.shared, now_ns);
    }

    fn stopped(&self, core: usize) -> bool {
        self.cores[core].throttled()
    }

    fn sample(&self, core: usize) -> Option<u64> {
        let c = &self.cores[core];
        let kinds = [Kind::Read, Kind::Write].into_iter().filter(|&kind| c.limited(kind));
        if c.throttled() { None } else { kinds.map(|kind| c.sample(kind)).min() }
    }
}
