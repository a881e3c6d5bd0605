//! Plans with VCPUs: the core of each, its admission, and the response times of its tasks.
//!
//! Problem: a task that shares a core with others is to meet its deadline for any behaviour of the
//! others. Rule: it is bound to a VCPU, a sporadic server `(C, T)`, rate monotonic on its core
//! (maracas, section II). VCPUs without a core go, heaviest first, to the core with the least
//! utilisation that admits them. Admission is by exact response times of fixed priorities, with the
//! best-effort VCPU of each core. Each capacity is lengthened by the overhead of a switch and a
//! late timer, as on Linux (crates/linux/src/schedule/vcpus/admission.rs). The jobs of a VCPU end
//! within its longest busy window: the shortest window that supplies
//! (`solocore_analysis::uniprocessor::supply`) all jobs that may be released in it. That holds for
//! any order inside the VCPU, so also for threads that take turns. Does not cover: VCPUs that
//! balancing moves (such systems have no analysed task). The cost of a preemption by another VCPU
//! in a job's private caches is not covered either (stated times must include it; plans of profiled
//! tasks say so).

mod admission;
mod reasons;
mod window;

use crate::core_plan::{CoreBounds, CorePlan};
use crate::resources::Resources;
use crate::waterfall;
use crate::work::Work;
use admission::{Admission, Placed};
use reasons::{assumptions, reasons};
use solocore_analysis::Derivation;
use solocore_model::plan::{Plan, PlanTask, PlanVcpu, Scheme, VcpuScheduling, VcpusPlan};
use solocore_model::vcpus::{BEST_EFFORT, Settings, Vcpus};
use solocore_model::{System, Time};
use window::window;

/// Plans a system under the policy `maracas`.
pub(crate) fn plan(system: &System, vcpus: &Vcpus, work: &[Work], resources: &Resources) -> Plan {
    let settings = &vcpus.settings;
    let resources = &in_colours(settings, resources);
    let core = vcpus.vcpus.iter().map(|v| v.core).collect();
    let mut placed = Placed { vcpus, overhead_ns: settings.overhead.ns_ceil(), core };
    placed.place(resources.cores);
    let admissions: Vec<Admission> =
        (0..resources.cores).map(|c| placed.admission(c, None)).collect();
    let plan_vcpus: Vec<PlanVcpu> = (0..vcpus.vcpus.len())
        .map(|v| {
            let core = placed.core[v].unwrap_or(0);
            plan_vcpu(vcpus, work, v, core, &admissions[core as usize], placed.overhead_ns)
        })
        .collect();
    let placement = places(vcpus, work, &plan_vcpus, resources.cores);
    let cores: Vec<CorePlan> = (0..resources.cores)
        .map(|c| {
            CorePlan::first(
                c,
                (0..work.len()).filter(|&t| placement[t] == c).collect(),
                work,
                resources,
            )
        })
        .collect();
    let mut tasks: Vec<PlanTask> =
        work.iter().enumerate().map(|(t, w)| cores[placement[t] as usize].task(t, w)).collect();
    for (t, w) in work.iter().enumerate() {
        let found =
            vcpus.of_task(t).filter(|_| w.hard()).map(|v| (&vcpus.vcpus[v].tasks, &plan_vcpus[v]));
        let bound =
            found.and_then(|(inside, v)| window(v, inside, &tasks, work, settings, resources));
        let busy = bound.as_ref().map(|b| b.0);
        let core = &cores[placement[t] as usize];
        let once_ps = CoreBounds { core: core.core, resources }.once(false);
        let numbers = core.tasks().iter().find(|numbers| numbers.index == t);
        let task = &mut tasks[t];
        task.wcrt_ns = busy.map(|b| b.window_ns);
        task.waterfall =
            numbers.map_or_else(Vec::new, |n| waterfall::in_vcpu(w, n, once_ps, resources, busy));
        // `deadline_ns` is rounded down.
        task.schedulable =
            !w.hard() || matches!((task.wcrt_ns, task.deadline_ns), (Some(r), Some(d)) if r <= d);
        task.derivation = bound.map(|b| b.1.because(core.demand(t, w, resources)));
    }
    let plan_cores = cores.iter().map(|c| crate::whole::plan_core(c, &tasks, resources)).collect();
    let fits = admissions.iter().all(Admission::fits)
        && colours_fit(settings, &plan_vcpus, resources.cores);
    let schedulable = fits && tasks.iter().all(|t| t.schedulable);
    let mut plan = crate::whole::whole(system, tasks, plan_cores, resources, schedulable);
    plan.scheme =
        Scheme::Vcpus(Box::new(VcpusPlan { scheduling: scheduling(settings), vcpus: plan_vcpus }));
    plan.reasons = reasons(&plan, vcpus, work, resources, &admissions);
    plan.assumptions = assumptions(&plan, work);
    plan
}

/// With the ways of each core for which its colours stand, where pages move with their VCPU.
fn in_colours(settings: &Settings, resources: &Resources) -> Resources {
    let mut own = resources.clone();
    if let Some(have) = settings.core_colours.as_ref().filter(|_| settings.migration.is_some()) {
        let (all, colours) = (resources.platform.llc.ways, u64::from(resources.platform.colours()));
        let until = |colour: u64| colour * u64::from(all) / colours.max(1);
        let ways = (0..resources.cores).map(|core| {
            let (first, count) = have.range(core);
            u32::try_from(until(first + count) - until(first)).unwrap_or(all)
        });
        own.set_ways(ways.collect());
    }
    own
}

fn scheduling(s: &Settings) -> VcpuScheduling {
    VcpuScheduling {
        background: s.background,
        strict: s.strict,
        replenishments: s.replenishments,
        best_effort_ns: (s.best_effort.capacity.ns_ceil(), s.best_effort.period.ns_ceil()),
        overhead_ns: s.overhead.ns_ceil(),
        balance_ns: s.balance.map(Time::ns_ceil),
        core_colours: s.core_colours.clone(),
        migration: s.migration,
        throttle: s.throttle,
    }
}

fn plan_vcpu(
    vcpus: &Vcpus,
    work: &[Work],
    index: usize,
    core: u32,
    admission: &Admission,
    overhead_ns: u64,
) -> PlanVcpu {
    let v = &vcpus.vcpus[index];
    let response_ns = admission.response(Some(index));
    let mut derivation = Derivation::new(
        "R = C + o + sum over VCPUs of a shorter period (best effort first, then in file order, \
            among equals) of ceil(R/T_j)*(C_j + o)",
        "maracas section II; crates/analysis/src/uniprocessor/plain.rs; a sporadic server loads \
            its core as a periodic task (Stanovich et al. 2010)",
    )
    .input("C ns", v.capacity_ns)
    .input("T ns", v.period_ns)
    .input("o ns", overhead_ns);
    for c in admission.claims.iter().take_while(|c| c.vcpu != Some(index)) {
        let name =
            c.vcpu.map_or_else(|| format!("{BEST_EFFORT}{core}"), |o| vcpus.vcpus[o].name.clone());
        derivation = derivation
            .input(format!("C of {name} ns"), c.capacity_ns)
            .input(format!("T of {name} ns"), c.period_ns);
    }
    let derivation = response_ns.map(|r| derivation.result(r));
    PlanVcpu {
        name: v.name.clone(),
        core,
        capacity_ns: v.capacity_ns,
        period_ns: v.period_ns,
        response_ns,
        admitted: response_ns.is_some_and(|r| r <= v.period_ns),
        fixed: v.fixed,
        colours: v.colours,
        tasks: v.tasks.iter().map(|&t| work[t].task.name.clone()).collect(),
        derivation,
    }
}

/// Core of every task: its VCPU's. Best effort runs on the stated core, or on that with the fewest
/// tasks.
fn places(vcpus: &Vcpus, work: &[Work], plan: &[PlanVcpu], cores: u32) -> Vec<u32> {
    let mut out: Vec<Option<u32>> = (0..work.len())
        .map(|t| vcpus.of_task(t).map(|v| plan[v].core).or(work[t].task.core))
        .collect();
    for t in 0..out.len() {
        if out[t].is_none() {
            let count = |core: u32| out.iter().filter(|&&c| c == Some(core)).count();
            out[t] = (0..cores).min_by_key(|&c| (count(c), c));
        }
    }
    out.into_iter().map(|core| core.unwrap_or(0)).collect()
}

fn colours_fit(settings: &Settings, vcpus: &[PlanVcpu], cores: u32) -> bool {
    let used = |core| {
        vcpus.iter().filter(|v| v.core == core).map(|v| v.colours).fold(0, u64::saturating_add)
    };
    let have = settings.core_colours.as_ref();
    have.is_none_or(|have| (0..cores).all(|core| used(core) <= have.of(core)))
}
