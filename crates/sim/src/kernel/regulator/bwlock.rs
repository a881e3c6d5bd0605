//! BWLOCK (`bwlock.h`; bwlock, section 3): while a running real-time task holds the lock, the tasks
//! that are not real-time have a small budget per core and period.

use super::interface::{Made, Message, Regulator, error};
use crate::kernel::config::{KernelError, RegulatorSpec, TaskSpec, span_ns};
use crate::kernel::cores::CoreSet;
use solocore_policy::UNLIMITED;
use solocore_policy::bwlock::BwLock;

/// See the module.
pub struct BwLockRegulator {
    policy: BwLock,
    cores: usize,
    period_ps: u64,
    immediate: bool,
    /// Was the lock held at the last message to the others?
    told: bool,
}

impl BwLockRegulator {
    pub fn new(
        spec: &RegulatorSpec,
        tasks: &[TaskSpec],
        cores: usize,
        now_ns: u64,
    ) -> Result<Self, KernelError> {
        let &RegulatorSpec::BwLock { period_ps, max_budget, min_budget, immediate } = spec else {
            return Err(error("is not BWLOCK"));
        };
        let period = span_ns(period_ps, "regulator", "a period")?;
        let max = max_budget.unwrap_or(UNLIMITED);
        let count = u32::try_from(cores).unwrap_or(u32::MAX);
        let mut policy = BwLock::new(period, max, min_budget, count, now_ns).ok_or_else(|| {
            error(format!(
                "budgets {min_budget} (held) and {max} (free) are not 1 <= held <= free < 2^32"
            ))
        })?;
        for (index, task) in tasks.iter().enumerate() {
            if !policy.add(u32::try_from(index).unwrap_or(u32::MAX), task.realtime) {
                return Err(KernelError::task(task, "is one too many: at most 4096 are possible"));
            }
        }
        Ok(Self { policy, cores, period_ps, immediate, told: false })
    }
}

fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl Regulator for BwLockRegulator {
    fn period_ps(&self) -> Option<u64> {
        Some(self.period_ps)
    }

    fn account(&mut self, core: usize, made: Made, _: u64, _: &mut CoreSet) -> bool {
        let before = self.stopped(core);
        let go = self.policy.account(id(core), made.reads + made.writes).unwrap_or(true);
        !before && !go
    }

    fn tick(&mut self, core: usize, now_ns: u64) {
        self.policy.tick(id(core), now_ns);
    }

    fn switch(&mut self, core: usize, task: Option<usize>) {
        self.policy.switch(id(core), task.map(id), 0);
    }

    fn lock(&mut self, task: usize, locks: bool) -> bool {
        if locks { self.policy.lock(id(task)) } else { self.policy.unlock(id(task)) }
    }

    fn lock_changed(&mut self) -> bool {
        let held = self.policy.holders() > 0;
        self.immediate && std::mem::replace(&mut self.told, held) != held
    }

    fn listeners(&self) -> CoreSet {
        if self.immediate { CoreSet::all(self.cores) } else { CoreSet::default() }
    }

    fn deliver(&mut self, message: Message, _: u64) {
        if message == Message::LockChanged {
            (0..self.cores).for_each(|core| {
                self.policy.update(id(core));
            });
        }
    }

    fn stopped(&self, core: usize) -> bool {
        self.policy.throttled(id(core)).unwrap_or(false)
    }

    fn sample(&self, core: usize) -> Option<u64> {
        let limited = self.policy.budget(id(core)).is_some_and(|budget| budget != UNLIMITED);
        if limited && !self.stopped(core) { self.policy.sample(id(core)) } else { None }
    }
}
