//! The choice of a policy of regulation (`policy = "any"`).
//!
//! Problem: budgets of periods limit the other cores all the time. The bandwidth lock and dynamic
//! budgets limit them only while analysed tasks run, but each job waits until they are limited.
//! Which of the three leaves more depends on the system. Rule: the system is planned under each
//! policy. First every deadline must be met, then the wanted slowdown kept; then the objective
//! decides, and last the speed of best effort. Of equal plans the first one is taken, and the one
//! with budgets where every policy misses a deadline. Does not cover: windows, levels and VCPUs,
//! which need tables or capacities that the file does not state; functions that hold the lock.

use crate::error::PlanError;
use crate::work::within_slowdown;
use solocore_model::plan::{Choice, Plan, PlanTask};
use solocore_model::system::{Criticality, Holders, Objective, Policy, Share};
use solocore_model::{System, Time};

/// The policies, those that are taken first where plans are equal.
const POLICIES: [Policy; 3] = [Policy::Memguard, Policy::Bwlock, Policy::Dynamic];

/// The system under each policy.
pub fn candidates(system: &System) -> impl Iterator<Item = System> {
    POLICIES.into_iter().map(|policy| under(system, policy))
}

/// The best plan of all policies, with the reason for it. `alone`: time alone of each task's job,
/// ps. `prices`: the plan has the price of each choice.
///
/// # Errors
/// No policy has a plan: the error of the first.
pub fn best(
    system: &System,
    alone: &[u64],
    prices: bool,
    plan: impl Fn(&System) -> Result<Plan, PlanError>,
) -> Result<Plan, PlanError> {
    let asked = Asked::of(system, alone);
    let with = |policy| {
        let plan = plan(&under(system, policy));
        let value = plan.as_ref().map_or(Value::default(), |plan| asked.value(plan));
        Tried { policy, plan, value }
    };
    let mut tried: Vec<Tried> = POLICIES.into_iter().map(with).collect();
    let better = |a: usize, b: usize| if tried[b].value > tried[a].value { b } else { a };
    let best = (0..tried.len()).fold(0, better);
    let others = (0..tried.len()).filter(|&at| at != best);
    let next = others.clone().reduce(better).map(|at| asked.named(&tried[at])).unwrap_or_default();
    let words: Vec<String> = others.map(|at| asked.named(&tried[at])).collect();
    let reason = format!("policy: {}; {}", asked.named(&tried[best]), words.join("; "));
    let choice = Choice {
        of: "policy".to_owned(),
        chosen: tried[best].policy.name().to_owned(),
        why: asked.words(&tried[best]),
        next_best: next,
    };
    let mut plan = tried.swap_remove(best).plan?;
    plan.reasons.insert(0, reason);
    if prices {
        plan.choices.insert(0, choice);
    }
    Ok(plan)
}

/// A plan under a policy.
struct Tried {
    policy: Policy,
    plan: Result<Plan, PlanError>,
    value: Value,
}

/// Value of a plan: greater is better, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
struct Value {
    /// 3: deadlines and the wanted slowdown are met; 2: only deadlines; 1: not all deadlines; 0:
    /// there is no plan.
    class: u8,
    objective: f64,
    speed: f64,
}

/// What plans are compared by.
struct Asked<'a> {
    objective: Objective,
    slowdown_permille: u64,
    alone: &'a [u64],
}

impl<'a> Asked<'a> {
    fn of(system: &System, alone: &'a [u64]) -> Self {
        let stated = system.regulation.objective.unwrap_or(Objective::BestEffort);
        // Best effort cannot come first where there is none, as with optimal shares.
        let some = system.tasks.iter().any(|t| t.criticality == Criticality::D);
        let objective =
            if stated == Objective::BestEffort && !some { Objective::Margin } else { stated };
        let slowdown_permille = system.regulation.slowdown_permille.unwrap_or(u64::MAX);
        Self { objective, slowdown_permille, alone }
    }

    fn value(&self, plan: &Plan) -> Value {
        if !plan.schedulable {
            return Value { class: 1, ..Value::default() };
        }
        let slowdown = self.slowdown(plan);
        let speed = plan.best_effort_speed.unwrap_or_default();
        let objective = match self.objective {
            Objective::Margin => -margin(plan),
            Objective::Bounds => -slowdown,
            _ => speed,
        };
        Value { class: 2 + u8::from(self.keeps_wish(plan)), objective, speed }
    }

    /// Is the wanted slowdown kept? A plan's bounds are the sum of two times that are rounded up.
    fn keeps_wish(&self, plan: &Plan) -> bool {
        let keeps = |(task, &alone): (&PlanTask, &u64)| {
            let bound_ps = task.c_sce_ns.saturating_sub(2).saturating_mul(Time::PS_PER_NS);
            within_slowdown(bound_ps, alone, self.slowdown_permille)
        };
        let all = plan.tasks.iter().zip(self.alone);
        all.filter(|(task, _)| !task.best_effort()).all(keeps)
    }

    /// The largest bound on an execution beside the other cores, as a multiple of the time alone.
    fn slowdown(&self, plan: &Plan) -> f64 {
        let of = |(task, &alone): (&PlanTask, &u64)| {
            let bound_ps = task.c_sce_ns as f64 * Time::PS_PER_NS as f64;
            bound_ps / alone.max(1) as f64
        };
        let all = plan.tasks.iter().zip(self.alone);
        all.filter(|(task, _)| !task.best_effort()).map(of).fold(0.0, f64::max)
    }

    /// A policy and its value.
    fn named(&self, tried: &Tried) -> String {
        let how = if tried.policy == Policy::Bwlock { " with lock = \"jobs\"" } else { "" };
        format!("{}{how}: {}", tried.policy.name(), self.words(tried))
    }

    fn words(&self, tried: &Tried) -> String {
        let value = &tried.value;
        match &tried.plan {
            Err(e) => return format!("no plan ({e})"),
            Ok(_) if value.class == 1 => return "a deadline is missed".to_owned(),
            Ok(_) => {}
        }
        let missed = if value.class > 2 { "" } else { " (the wanted slowdown is missed)" };
        match self.objective {
            Objective::Margin => {
                format!(
                    "responses take {:.1} % of a deadline at most{missed}",
                    -100.0 * value.objective
                )
            }
            Objective::Bounds => format!("{:.3} times the time alone{missed}", -value.objective),
            _ => format!(
                "best effort has {:.1} % of the speed alone, estimated{missed}",
                100.0 * value.objective
            ),
        }
    }
}

/// The largest response time bound as a part of its deadline.
fn margin(plan: &Plan) -> f64 {
    let of = |task: &PlanTask| {
        let bound = task.wcrt_ns.map_or(f64::INFINITY, |ns| ns as f64);
        bound / task.deadline_ns.map_or(f64::INFINITY, |ns| ns as f64)
    };
    plan.tasks.iter().filter(|t| !t.best_effort()).map(of).fold(0.0, f64::max)
}

/// The system under one policy.
pub fn under(system: &System, policy: Policy) -> System {
    let mut out = system.clone();
    let regulation = &mut out.regulation;
    regulation.policy = policy;
    if policy == Policy::Memguard {
        return out;
    }
    if policy == Policy::Bwlock {
        regulation.lock = Holders::Jobs;
    }
    regulation.share = Some(Share::Even);
    // It is a key of optimal shares.
    regulation.objective = None;
    out
}
