//! Dynamic budgets (`dynamic_budget.h`; dynamic-budgeting, section IV): budgets of the soft cores
//! while jobs of the hard tasks run. The soft cores are not limited when these jobs end early.
//!
//! A job starts when it first runs. Each soft core has a policy of its own, and learns of starts
//! and ends by interrupts between cores.

use super::interface::{Made, Message, Regulator, error};
use crate::kernel::config::{KernelError, TaskSpec, span_ns};
use crate::kernel::cores::CoreSet;
use solocore_policy::UNLIMITED;
use solocore_policy::dynamic_budget::{Decision, DynamicBudget};

/// The regulator of dynamic budgets. See the module.
pub struct DynamicRegulator {
    /// By core; `None`: the core is not limited.
    soft: Vec<Option<(DynamicBudget, Decision)>>,
    /// By task: its number in the policy, in the order of priority.
    rank: Vec<Option<u32>>,
    listeners: CoreSet,
}

impl DynamicRegulator {
    pub fn new(
        hard: &[usize],
        soft: &[usize],
        tasks: &[TaskSpec],
        cores: usize,
        now_ns: u64,
    ) -> Result<Self, KernelError> {
        if let Some(core) = hard.iter().chain(soft).find(|&&core| core >= cores) {
            return Err(error(format!(
                "names core {core}, but the board has cores 0 to {}",
                cores - 1
            )));
        }
        if let Some(core) = hard.iter().find(|core| soft.contains(core)) {
            return Err(error(format!("core {core} is both hard and soft; choose one")));
        }
        let mut order: Vec<usize> =
            (0..tasks.len()).filter(|&t| tasks[t].budget.is_some()).collect();
        order.sort_by_key(|&t| (tasks[t].priority, t));
        let mut rank = vec![None; tasks.len()];
        let mut policies: Vec<Option<(DynamicBudget, Decision)>> =
            (0..cores).map(|_| None).collect();
        let mut listeners = CoreSet::default();
        for &core in soft {
            let policy = DynamicBudget::new(now_ns);
            let decision = policy.decide();
            policies[core] = Some((policy, decision));
            listeners.insert(core);
        }
        for (number, &t) in (0u32..).zip(&order) {
            rank[t] = Some(number);
            define(&mut policies, number, &tasks[t], hard)?;
        }
        Ok(Self { soft: policies, rank, listeners })
    }
}

fn define(
    policies: &mut [Option<(DynamicBudget, Decision)>],
    number: u32,
    task: &TaskSpec,
    hard: &[usize],
) -> Result<(), KernelError> {
    let Some(budget) = task.budget else { return Ok(()) };
    let Some(core) = task.core.filter(|core| hard.contains(core)) else {
        return Err(KernelError::task(
            task,
            "has a budget for soft cores, but is not on a hard core; place it there",
        ));
    };
    let length =
        span_ns(budget.length_ps, &format!("task `{}`", task.name), "the length of a budget")?;
    for (policy, _) in policies.iter_mut().flatten() {
        if !policy.define(number, u32::try_from(core).unwrap_or(u32::MAX), budget.accesses, length)
        {
            return Err(KernelError::task(
                task,
                format!("has a budget of {} accesses, not 1 to 2^32-1", budget.accesses),
            ));
        }
    }
    Ok(())
}

impl Regulator for DynamicRegulator {
    fn account(&mut self, core: usize, made: Made, now_ns: u64, _: &mut CoreSet) -> bool {
        let Some((policy, decision)) = &mut self.soft[core] else { return false };
        let made = made.reads + made.writes;
        let used_up = decision.go && decision.limit != UNLIMITED && made >= decision.limit;
        *decision = policy.event(now_ns, made);
        used_up
    }

    fn follows(&self, task: usize) -> bool {
        self.rank[task].is_some()
    }

    fn listeners(&self) -> CoreSet {
        self.listeners
    }

    fn deliver(&mut self, message: Message, now_ns: u64) {
        for (policy, decision) in self.soft.iter_mut().flatten() {
            let answer = match message {
                Message::Started(task) => {
                    self.rank[task].and_then(|number| policy.started(number, now_ns, 0))
                }
                Message::Finished(task) => {
                    self.rank[task].and_then(|number| policy.finished(number, now_ns, 0))
                }
                Message::LockChanged => None,
            };
            if let Some(answer) = answer {
                *decision = answer;
            }
        }
    }

    fn timeout_ns(&self, core: usize) -> u64 {
        self.soft[core].as_ref().map_or(UNLIMITED, |(_, decision)| decision.timeout_ns)
    }

    fn stopped(&self, core: usize) -> bool {
        self.soft[core].as_ref().is_some_and(|(_, decision)| !decision.go)
    }

    fn sample(&self, core: usize) -> Option<u64> {
        let (_, decision) = self.soft[core].as_ref()?;
        (decision.go && decision.limit != UNLIMITED).then_some(decision.sample)
    }
}
