//! Plans with VCPUs: where each goes, whether it fits, and how long the jobs of its tasks take.
//!
//! Problem: a task that shares a core with others is to meet its deadline whatever these do. Rule:
//! it is bound to a VCPU, a sporadic server `(C, T)`, rate monotonic on its core (maracas, section
//! II). VCPUs without a core go, heaviest first, to the core with the least utilisation that admits
//! them; admission is by exact response times of fixed priorities, each capacity lengthened by the
//! overhead of a switch and a late timer, the best-effort VCPU of each core among them: as on Linux
//! (crates/linux/src/schedule/vcpus/admission.rs). The jobs of a VCPU end within its longest busy
//! window: the shortest window that supplies (`solocore_analysis::uniprocessor::supply`) all that
//! may be released in it. That holds for any order inside the VCPU, so also for threads that take
//! turns.
//! Does not cover: VCPUs that balancing moves (such systems have no analysed task), what a
//! preemption by another VCPU costs a job in its private caches (stated times must include it;
//! plans of profiled tasks say so).

use crate::core_plan::CorePlan;
use crate::demand::Demand;
use crate::explain;
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::Derivation;
use solocore_analysis::task_set::SporadicTask;
use solocore_analysis::uniprocessor::plain;
use solocore_analysis::uniprocessor::supply::{Rounds, Supply};
use solocore_model::plan::{Plan, PlanTask, PlanVcpu, Scheme, VcpuScheduling, VcpusPlan};
use solocore_model::vcpus::{BEST_EFFORT, Settings, Vcpus};
use solocore_model::{System, Time};

/// A busy window beyond this is none.
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Steps of a busy window, after which it is taken for unbounded.
const STEPS: u32 = 1_000_000;

/// A server that wants its capacity: a VCPU by number, or the best-effort one of its core.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// `None`: best effort, which comes first among equal periods.
    vcpu: Option<usize>,
    capacity_ns: u64,
    period_ns: u64,
}

/// The claims of a core, highest rate first, and when each has its capacity.
struct Admission {
    claims: Vec<Claim>,
    responses: Vec<Option<u64>>,
}

impl Admission {
    fn of(mut claims: Vec<Claim>, overhead_ns: u64) -> Self {
        claims.sort_by_key(|c| (c.period_ns, c.vcpu));
        let tasks: Vec<SporadicTask> = claims
            .iter()
            .map(|c| SporadicTask {
                wcet: c.capacity_ns.saturating_add(overhead_ns),
                period: c.period_ns,
                deadline: c.period_ns,
            })
            .collect();
        Self { responses: plain::response_times(&tasks), claims }
    }

    fn fits(&self) -> bool {
        self.claims.iter().zip(&self.responses).all(|(c, r)| r.is_some_and(|r| r <= c.period_ns))
    }

    fn response(&self, vcpu: Option<usize>) -> Option<u64> {
        self.claims.iter().position(|c| c.vcpu == vcpu).and_then(|at| self.responses[at])
    }

    /// Sum of the claims, each with its overhead.
    fn load(&self, overhead_ns: u64) -> f64 {
        self.claims.iter().map(|c| (c.capacity_ns + overhead_ns) as f64 / c.period_ns as f64).sum()
    }
}

/// What VCPUs there are, and where.
struct Placed<'a> {
    vcpus: &'a Vcpus,
    overhead_ns: u64,
    /// By VCPU.
    core: Vec<Option<u32>>,
}

impl Placed<'_> {
    fn claim(&self, vcpu: usize) -> Claim {
        let v = &self.vcpus.vcpus[vcpu];
        Claim { vcpu: Some(vcpu), capacity_ns: v.capacity_ns, period_ns: v.period_ns }
    }

    /// The VCPUs of a core, and perhaps one more.
    fn admission(&self, core: u32, more: Option<usize>) -> Admission {
        let best = self.vcpus.settings.best_effort;
        let best = Claim {
            vcpu: None,
            capacity_ns: best.capacity.ns_ceil(),
            period_ns: best.period.ns_ceil(),
        };
        let there = (0..self.core.len()).filter(|&v| self.core[v] == Some(core) && Some(v) != more);
        let claims = there.chain(more).map(|v| self.claim(v)).chain([best]).collect();
        Admission::of(claims, self.overhead_ns)
    }

    fn colours_fit(&self, core: u32, more: usize) -> bool {
        let Some(most) = self.vcpus.settings.core_colours else { return true };
        let there = (0..self.core.len()).filter(|&v| self.core[v] == Some(core)).chain([more]);
        there.map(|v| self.vcpus.vcpus[v].colours).fold(0, u64::saturating_add) <= most
    }

    /// Worst fit, heaviest first; where nothing admits it, the core with the least utilisation.
    fn place(&mut self, cores: u32) {
        let load = |v: usize| {
            self.vcpus.vcpus[v].capacity_ns as f64 / self.vcpus.vcpus[v].period_ns as f64
        };
        let mut open: Vec<usize> =
            (0..self.core.len()).filter(|&v| self.core[v].is_none()).collect();
        open.sort_by(|&a, &b| load(b).total_cmp(&load(a)).then(a.cmp(&b)));
        for vcpu in open {
            let mut order: Vec<(f64, u32)> =
                (0..cores).map(|c| (self.admission(c, None).load(self.overhead_ns), c)).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let fits = |&&(_, c): &&(f64, u32)| {
                self.colours_fit(c, vcpu) && self.admission(c, Some(vcpu)).fits()
            };
            let core = order.iter().find(fits).or(order.first()).map_or(0, |o| o.1);
            self.core[vcpu] = Some(core);
        }
    }
}

/// Plans a system under the policy `maracas`.
pub(crate) fn plan(system: &System, vcpus: &Vcpus, work: &[Work], resources: &Resources) -> Plan {
    let settings = &vcpus.settings;
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
        let task = &mut tasks[t];
        task.wcrt_ns = bound.as_ref().map(|b| b.0);
        // `deadline_ns` is rounded down.
        task.schedulable =
            !w.hard() || matches!((task.wcrt_ns, task.deadline_ns), (Some(r), Some(d)) if r <= d);
        let demand = cores[placement[t] as usize].demand(t, w, resources);
        task.derivation = bound.map(|b| b.1.because(demand));
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

fn scheduling(s: &Settings) -> VcpuScheduling {
    VcpuScheduling {
        background: s.background,
        strict: s.strict,
        replenishments: s.replenishments,
        best_effort_ns: (s.best_effort.capacity.ns_ceil(), s.best_effort.period.ns_ceil()),
        overhead_ns: s.overhead.ns_ceil(),
        balance_ns: s.balance.map(Time::ns_ceil),
        core_colours: s.core_colours,
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

/// Core of every task: its VCPU's; best effort where it is stated, or where the fewest are.
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

/// What the tasks of a VCPU ask of it.
struct Inside {
    /// Work of a job with its stall, and the least time between two releases, in ns.
    jobs: Vec<(u64, u64)>,
    /// Accesses that are under way as the VCPU is let in, in each of its periods, in ns.
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
        // Each time it is let in, an access of what ran before may be under way; so often at most,
        // as the plan assumes.
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
        self.jobs.iter().try_fold(blocked, |sum, &(c, period)| {
            sum.checked_add(c.checked_mul(window.div_ceil(period).max(1))?)
        })
    }

    /// Most budget used in the last period before such a window, if every job ends within `window`
    /// of its release: by jobs that have ended, released in the time of a period and a window
    /// before. The task that is released as the window begins has one less of them.
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
fn window(
    v: &PlanVcpu,
    inside: &[usize],
    tasks: &[PlanTask],
    work: &[Work],
    settings: &Settings,
    resources: &Resources,
) -> Option<(u64, Derivation)> {
    let response = v.response_ns.filter(|_| v.admitted)?;
    let asked = Inside::of(v, inside, tasks, work, settings, resources)?;
    let supply = |used| {
        Rounds::sporadic_server_after(v.capacity_ns, v.period_ns, response, settings.strict, used)
            .ok()
    };
    let (mut used, mut supplied) = (v.capacity_ns, supply(v.capacity_ns)?);
    let mut window = asked.window(&supplied)?;
    // Shorter windows leave less that can have been used before, and the reverse.
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
        "crates/planner/src/vcpus.rs; supply of the sporadic server: \
            crates/analysis/src/uniprocessor/supply.rs",
    )
    .input("C ns", v.capacity_ns)
    .input("T ns", v.period_ns)
    .input("R of the VCPU ns", response)
    .input("b: accesses under way as it is let in ns", asked.blocking);
    for &t in inside {
        d = d.input(format!("C_sce of {} ns", tasks[t].name), tasks[t].c_sce_ns);
    }
    let d = d
        .step("u: budget used in T before ns", used)
        .step("longest time without supply ns", supplied.delay())
        .step("work in W ns", asked.demand(window)?);
    Some((window, d.because(v.derivation.clone()?).result(window)))
}

fn colours_fit(settings: &Settings, vcpus: &[PlanVcpu], cores: u32) -> bool {
    let used = |core| {
        vcpus.iter().filter(|v| v.core == core).map(|v| v.colours).fold(0, u64::saturating_add)
    };
    settings.core_colours.is_none_or(|most| (0..cores).all(|core| used(core) <= most))
}

fn time(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// The VCPUs of a plan.
fn planned(plan: &Plan) -> &[PlanVcpu] {
    plan.vcpus().map_or(&[], |v| &v.vcpus)
}

fn reasons(
    plan: &Plan,
    vcpus: &Vcpus,
    work: &[Work],
    r: &Resources,
    admissions: &[Admission],
) -> Vec<String> {
    let s = &vcpus.settings;
    let overhead = s.overhead.ns_ceil();
    let mut out = explain::shares(plan, r, None);
    out.push(format!(
        "VCPUs: sporadic servers, rate monotonic on each core; each capacity is counted with {} \
            for a switch and a late timer; best effort has {} in {} on each core; in any window of \
            T no VCPU has more than {} of foreground time",
        s.overhead,
        s.best_effort.capacity,
        s.best_effort.period,
        if s.strict { "C (strict)" } else { "2C" }
    ));
    for (core, admission) in (0u32..).zip(admissions) {
        let best = admission
            .response(None)
            .map_or_else(|| "at no bounded time".to_owned(), |r| format!("after {}", time(r)));
        out.push(format!(
            "core {core}: utilisation {:.3} with the overhead of {} VCPUs; best effort has its \
                capacity {best}",
            admission.load(overhead),
            admission.claims.len()
        ));
    }
    for (v, stated) in planned(plan).iter().zip(&vcpus.vcpus) {
        out.push(vcpu_reason(v, stated.core.is_some()));
    }
    for (t, w) in plan.tasks.iter().zip(work) {
        out.push(task_reason(plan, t));
        out.extend(explain::warnings(t, w, plan));
    }
    out.push(verdict(plan, vcpus, admissions));
    out
}

fn vcpu_reason(v: &PlanVcpu, stated: bool) -> String {
    let when = v.response_ns.map_or_else(
        || "at no bounded time".to_owned(),
        |r| format!("{} after it is there", time(r)),
    );
    let tasks = if v.tasks.is_empty() { "no tasks yet".to_owned() } else { v.tasks.join(", ") };
    format!(
        "VCPU {}: {} in {} on core {} ({}); it has its capacity {when} at the latest; {tasks}",
        v.name,
        time(v.capacity_ns),
        time(v.period_ns),
        v.core,
        if stated { "stated" } else { "worst fit" }
    )
}

fn task_reason(plan: &Plan, t: &PlanTask) -> String {
    let Some(v) = planned(plan).iter().find(|v| v.tasks.contains(&t.name)) else {
        return format!(
            "{}: best effort, in what is left on core {} and its best-effort VCPU; nothing is \
                promised",
            t.name, t.core
        );
    };
    if t.best_effort() {
        return format!(
            "{}: best effort in VCPU {} on core {}; no deadline is promised",
            t.name, v.name, t.core
        );
    }
    let response =
        t.wcrt_ns.map_or_else(|| "is not bounded".to_owned(), |r| format!("at most {}", time(r)));
    let company = match v.tasks.len() {
        1 => "alone".to_owned(),
        2 => "with one other, in any order".to_owned(),
        n => format!("with {} others, in any order", n - 1),
    };
    format!(
        "{}: C = {}, stall of {} accesses {}, C_sce = {}; in VCPU {} {company}: response time \
            {response}",
        t.name,
        time(t.wcet_ns),
        t.misses,
        time(t.stall_ns),
        time(t.c_sce_ns),
        v.name
    )
}

/// Why it is schedulable, or the first thing that does not fit, with its numbers.
fn verdict(plan: &Plan, vcpus: &Vcpus, admissions: &[Admission]) -> String {
    let overhead = vcpus.settings.overhead.ns_ceil();
    let mut wrong = Vec::new();
    for (core, admission) in admissions.iter().enumerate() {
        for (claim, response) in admission.claims.iter().zip(&admission.responses) {
            if response.is_some_and(|r| r <= claim.period_ns) {
                continue;
            }
            let name = claim
                .vcpu
                .map_or_else(|| format!("{BEST_EFFORT}{core}"), |v| vcpus.vcpus[v].name.clone());
            let when = response
                .map_or_else(|| "at no bounded time".to_owned(), |r| format!("after {}", time(r)));
            wrong.push(format!(
                "VCPU {name} on core {core} would have its {} {when}, not within {} (utilisation \
                    {:.3})",
                time(claim.capacity_ns),
                time(claim.period_ns),
                admission.load(overhead)
            ));
        }
    }
    if let Some(most) = vcpus.settings.core_colours {
        for core in 0..admissions.len() {
            let used: u64 =
                planned(plan).iter().filter(|v| v.core as usize == core).map(|v| v.colours).sum();
            if used > most {
                wrong.push(format!("the VCPUs of core {core} need {used} page colours of {most}"));
            }
        }
    }
    for t in plan.tasks.iter().filter(|t| !t.schedulable) {
        wrong.push(match (t.wcrt_ns, t.deadline_ns) {
            (Some(r), Some(d)) => {
                format!(
                    "{} may take {}, {} beyond its deadline",
                    t.name,
                    time(r),
                    time(r.saturating_sub(d))
                )
            }
            _ => format!(
                "{} has no bounded response time: its VCPU supplies less than its {} in {}",
                t.name,
                time(t.c_sce_ns),
                time(t.period_ns.unwrap_or(0))
            ),
        });
    }
    if wrong.is_empty() {
        return "verdict: every VCPU fits, and every analysed task meets its deadline".to_owned();
    }
    format!(
        "verdict: not schedulable: {}; give VCPUs more capacity or a shorter period where a task \
            is late, less where a core is full, or spread them over more cores",
        wrong.join("; ")
    )
}

fn assumptions(plan: &Plan, work: &[Work]) -> Vec<String> {
    let mut out = explain::assumptions(plan, work);
    if let Some(last) = out.last_mut() {
        *last = "interrupts, kernel threads and real-time tasks, which no VCPU holds, and timer \
            ticks are not charged; a switch and a late timer together cost at most the \
            overhead"
            .to_owned();
    }
    out.push(format!(
        "no VCPU is set aside and let in again more often in its T than its list has entries ({}): \
            a full list brings budget back later than the bounds count on",
        plan.vcpus().map_or(0, |v| v.scheduling.replenishments)
    ));
    if work.iter().any(|w| w.hard() && matches!(w.demand, Demand::Profiled { .. })) {
        out.push(
            "a profiled job finds its lines in the private caches again after another VCPU \
            has run (not safe: what their reload costs is not charged; state wcet and misses that \
            include it)"
                .to_owned(),
        );
    }
    out.push(
        "a task's jobs do not block before they end, and nothing but the plan's tasks runs in a \
            VCPU that has any"
            .to_owned(),
    );
    out
}
