//! The longest busy window of a VCPU's tasks.
//!
//! Problem: the longest time of a job whose VCPU has `C` in each `T`, for any order of the VCPU's
//! threads. Rule: it is the shortest window that supplies all jobs that may be released in it. The
//! window and the budget that may be used up before it depend on each other, and are shortened step
//! by step. Does not cover: a VCPU that is not admitted, and tasks without a period: they have no
//! window.

use crate::resources::Resources;
use crate::waterfall::Busy;
use crate::work::Work;
use solocore_analysis::Derivation;
use solocore_analysis::uniprocessor::supply::{Rounds, Supply};
use solocore_model::plan::{PlanTask, PlanVcpu};
use solocore_model::vcpus::Settings;

/// A longer busy window counts as unbounded.
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Most steps of a busy window; then it is taken to be unbounded.
const STEPS: u32 = 1_000_000;

/// Demand of the tasks of a VCPU.
struct Inside {
    /// Work of a job with its stall, and the least time between two releases, in ns.
    jobs: Vec<(u64, u64)>,
    /// Accesses under way when the VCPU is let in, in each of its periods, ns.
    blocking: u64,
    period_ns: u64,
}

impl Inside {
    /// `None` if a task has no period.
    fn of(
        v: &PlanVcpu,
        inside: &[usize],
        tasks: &[PlanTask],
        work: &[Work],
        settings: &Settings,
        resources: &Resources,
    ) -> Option<Self> {
        // Each time it is let in, an access of the one that ran before may be under way; the plan
        // assumes no more of them.
        let blocking = resources
            .blocking_ps()
            .div_ceil(1000)
            .saturating_mul(u64::from(settings.replenishments));
        let mut jobs = Vec::new();
        for &t in inside {
            // Rounded down: no more jobs can come.
            let period_ns = work[t].task.period.map(|p| p.ps() / 1000);
            jobs.push((tasks[t].c_sce_ns, period_ns.filter(|&p| p > 0)?));
        }
        Some(Self { jobs, blocking, period_ns: v.period_ns })
    }

    /// Most work in a window that begins with a release.
    fn demand(&self, window: u64) -> Option<u64> {
        let blocked = self.blocking.checked_mul(window.div_ceil(self.period_ns) + 1)?;
        self.executed(window)?.checked_add(blocked)
    }

    /// The part of it that the tasks' jobs execute.
    fn executed(&self, window: u64) -> Option<u64> {
        self.jobs.iter().try_fold(0u64, |sum, &(c, period)| {
            sum.checked_add(c.checked_mul(window.div_ceil(period).max(1))?)
        })
    }

    /// Most budget used in the last period before such a window, if every job ends within `window`
    /// of its release. It is used by jobs that have ended, released in a period and a window
    /// before. The task that is released as the window begins has one job less there.
    fn used(&self, window: u64) -> u64 {
        let span = self.period_ns.saturating_add(window);
        let all = self.jobs.iter().map(|&(c, period)| c.saturating_mul(span.div_ceil(period)));
        let first = self.jobs.iter().map(|&(c, _)| c).min().unwrap_or(0);
        match all.fold(0, u64::saturating_add).saturating_sub(first) {
            0 => 0,
            work => work.saturating_add(self.blocking.saturating_mul(2)),
        }
    }

    /// Shortest window that supplies its own demand.
    fn window(&self, supply: &Rounds) -> Option<u64> {
        let mut window = 0;
        for _ in 0..STEPS {
            let next = supply.window_for(self.demand(window)?)?;
            if next == window {
                return Some(window);
            }
            if next > LONGEST_NS {
                return None;
            }
            window = next;
        }
        None
    }
}

/// The longest busy window of a VCPU's tasks, which bounds the response times of all their jobs;
/// `None` if it is not bounded.
pub fn window(
    v: &PlanVcpu,
    inside: &[usize],
    tasks: &[PlanTask],
    work: &[Work],
    settings: &Settings,
    resources: &Resources,
) -> Option<(Busy, Derivation)> {
    let response = v.response_ns.filter(|_| v.admitted)?;
    let asked = Inside::of(v, inside, tasks, work, settings, resources)?;
    let supply = |used| {
        Rounds::sporadic_server_after(v.capacity_ns, v.period_ns, response, settings.strict, used)
            .ok()
    };
    let (mut used, mut supplied) = (v.capacity_ns, supply(v.capacity_ns)?);
    let mut window = asked.window(&supplied)?;
    // Shorter windows leave less budget that can have been used before, and the reverse.
    for _ in 0..STEPS {
        let less = asked.used(window).min(v.capacity_ns);
        let Some((better, with)) = supply(less).and_then(|s| Some((asked.window(&s)?, s))) else {
            break;
        };
        if better >= window {
            break;
        }
        (used, supplied, window) = (less, with, better);
    }
    let mut d = Derivation::new(
        "window W = shortest that supplies (ceil(W/T) + 1)*b + sum over the VCPU's tasks of \
            ceil(W/T_i)*C_sce_i; every job ends within it, in whatever order they run; u of C were \
            used before, by jobs that end within W of their release",
        "crates/planner/src/vcpus/window.rs; supply of the sporadic server: \
            crates/analysis/src/uniprocessor/supply.rs",
    )
    .input("C ns", v.capacity_ns)
    .input("T ns", v.period_ns)
    .input("R of the VCPU ns", response)
    .input("b: accesses under way when it starts to run ns", asked.blocking);
    for &t in inside {
        d = d.input(format!("C_sce of {} ns", tasks[t].name), tasks[t].c_sce_ns);
    }
    let d = d
        .step("u: budget used in T before ns", used)
        .step("longest time without supply ns", supplied.delay())
        .step("work in W ns", asked.demand(window)?);
    let busy = Busy { window_ns: window, jobs_ns: asked.executed(window)? };
    Some((busy, d.because(v.derivation.clone()?).result(window)))
}
