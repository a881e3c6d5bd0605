//! The regulation of a plan on this machine, checked as a whole before anything is touched.
//!
//! Rule: the plan's core i is CPU i. A plan's bounds hold for one board, so the machine must have
//! the board's number of CPUs, all online. The counter interrupts every `sample` accesses; the
//! sample divides the budget, so that the error of counting is one-sided (bpf/core.h).
//! Source: single-core-equivalence, section 2.2.
//! Does not cover: plans with VCPUs (policy `maracas`), which have their own scheduler
//! (schedule/vcpus); cache ways and locked pages, which need the hardware's support (resctrl,
//! schedule/locker.rs); colours and banks.

mod replaced;

pub use super::budget::{CoreBudget, Options, Sharing, WriteBudget};

use super::budget::{core_budget, crowded, free_budget, lock_budget};
use super::budget::{most_interrupts, with_writes, write_event};
use crate::error::LinuxError;
use crate::regulate::dynamic::DynamicRegulation;
use crate::regulate::event::Event;
use crate::regulate::lock::{LockRegulation, Serving};
use crate::regulate::shared::{MAX_CPUS, UNLIMITED};
use solocore_model::Plan;
use solocore_model::plan::{PlanCore, PlanLock};
use solocore_model::system::Policy;

/// Shortest period: two interrupts of a few microseconds each should be a small part of it.
pub const SHORTEST_PERIOD_NS: u64 = 100_000;
/// Longest period: a throttled task waits for the rest of it.
pub const LONGEST_PERIOD_NS: u64 = 100_000_000;
/// Looks of a CPU at the lock in a period, while there are clients.
const LOOKS_PER_PERIOD: u64 = 10;
/// Shortest interval between looks, ns: each look is an interrupt.
const SHORTEST_LOOK_NS: u64 = 50_000;

/// A plan's regulation, checked for this machine.
#[derive(Clone, Debug)]
pub struct Regulation {
    /// Length of a period.
    pub period_ns: u64,
    /// CPUs with a budget, by number.
    pub cores: Vec<CoreBudget>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Event that counts accesses.
    pub event: Event,
    /// Event that counts writes, where they are counted apart.
    pub write_event: Option<Event>,
    /// Whether analysed tasks run at real-time priorities; plain MemGuard stops these as well.
    pub binds_fifo: bool,
    /// Whether cores may use budget that others give away.
    pub reclaim: bool,
    /// CPUs that then give away the part of their budgets that they are not predicted to use.
    pub givers: Vec<u32>,
    /// Use of the time when all budgets are used up.
    pub sharing: Sharing,
    /// Whether cores exceed their budgets in a way that the plan's bounds do not cover.
    pub beyond_plan: bool,
    /// CPUs with analysed tasks, which the lock does not limit.
    pub analysed: Vec<u32>,
    /// Policy `bwlock`: budgets hold only while a program holds the lock.
    pub lock: Option<LockRegulation>,
    /// Policy `dynamic`: budgets hold only during the jobs of hard tasks.
    pub dynamic: Option<DynamicRegulation>,
    /// Parts of the plan that are not applied, for the user.
    pub notes: Vec<String>,
    /// The user's options.
    pub options: Options,
}

impl Regulation {
    /// Checks a plan against the machine's online CPUs.
    ///
    /// # Errors
    /// [`LinuxError::Input`] if no machine can regulate the plan, [`LinuxError::Machine`] if this
    /// one cannot.
    pub fn new(plan: &Plan, options: &Options, online: &[u32]) -> Result<Self, LinuxError> {
        check_policy(plan)?;
        let period_ns = plan.regulation.period_ns;
        if !(SHORTEST_PERIOD_NS..=LONGEST_PERIOD_NS).contains(&period_ns) {
            return Err(LinuxError::Input(format!(
                "the plan's regulation.period_ns is {period_ns}; periods of 100 us to 100 ms can \
                    be regulated: change [regulation] period in the system file and plan again"
            )));
        }
        check_cpus(plan, online)?;
        let write_event = write_event(plan, options)?;
        let mut cores = Vec::new();
        for core in &plan.cores {
            if let Some(planned) = plan.regulation.lock_budget_accesses {
                let bounds = plan.regulation.lock_reaction_ns.is_some();
                cores.push(lock_budget((core.id, bounds), planned, options)?);
            } else if let Some(planned) = core.budget_accesses {
                cores.push(with_writes(core, planned, write_event.as_ref(), options)?);
            }
        }
        let lock = lock_of(plan, options, &cores)?;
        let dynamic = dynamic_of(plan, options)?;
        if let Some((dynamic, soft)) = &dynamic {
            let least = dynamic.least_budget().unwrap_or(0);
            cores = soft
                .iter()
                .map(|&cpu| free_budget(cpu, least, options))
                .collect::<Result<_, _>>()?;
        }
        let dynamic = dynamic.map(|(dynamic, _)| dynamic);
        if cores.is_empty() {
            return Err(LinuxError::Input(
                "no core of the plan has a budget (budget_accesses); plan with [regulation] policy \
                    = \"memguard\""
                    .to_owned(),
            ));
        }
        let cpus = u32::try_from(online.len()).unwrap_or(MAX_CPUS);
        let notes = notes(plan, options, &cores);
        let reclaim = options.reclaim || plan.regulation.reclaim;
        let gives = |core: &&PlanCore| core.gives || !plan.regulation.reclaim;
        let givers = plan.cores.iter().filter(gives).map(|core| core.id);
        Ok(Self {
            period_ns,
            cores,
            cpus,
            event: options.event.clone(),
            write_event,
            binds_fifo: false,
            reclaim,
            givers: givers.filter(|_| reclaim).collect(),
            sharing: options.sharing_of(plan),
            beyond_plan: options.beyond(plan),
            analysed: plan.tasks.iter().filter(|t| !t.best_effort()).map(|t| t.core).collect(),
            lock,
            dynamic,
            notes,
            options: options.clone(),
        })
    }

    /// A regulation without a plan, for one program: a bandwidth for one CPU, or a limit for every
    /// CPU beside the bandwidth lock.
    ///
    /// # Errors
    /// The bandwidth is below one sample, or the machine has more CPUs than are supported.
    pub fn of_program(
        cpu: Option<u32>,
        bytes_per_s: u64,
        line_bytes: u64,
        options: &Options,
        online: &[u32],
    ) -> Result<Self, LinuxError> {
        let period_ns = 1_000_000;
        let cpus = online.iter().max().map_or(1, |&last| last + 1);
        if cpus > MAX_CPUS {
            return Err(LinuxError::Machine(format!(
                "{cpus} CPUs are more than the {MAX_CPUS} that are supported; boot with \
                    maxcpus={MAX_CPUS}"
            )));
        }
        // Divided only: a product of both would not fit.
        let planned = bytes_per_s / line_bytes.max(1) / (1_000_000_000 / period_ns);
        let chosen: Vec<u32> = cpu.map_or_else(|| online.to_vec(), |cpu| vec![cpu]);
        let cores = chosen
            .iter()
            .map(|&c| {
                if cpu.is_some() {
                    core_budget(c, planned, options)
                } else {
                    lock_budget((c, false), planned, options)
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        let look_ns = period_ns / LOOKS_PER_PERIOD;
        let lock = LockRegulation { max_hold_ns: options.max_hold_ns, look_ns, cpus };
        let options = options.clone();
        let Options { event, reclaim, sharing, .. } = options.clone();
        let lock = cpu.is_none().then_some(lock);
        let crowded = crowded(&cores, &event).filter(|_| lock.is_some());
        let (write_event, dynamic, notes) = (None, None, crowded.into_iter().collect());
        Ok(Self {
            period_ns,
            cores,
            cpus,
            event,
            write_event,
            binds_fifo: false,
            reclaim,
            givers: chosen.into_iter().filter(|_| reclaim).collect(),
            sharing,
            beyond_plan: reclaim || sharing != Sharing::None,
            analysed: Vec::new(),
            lock,
            dynamic,
            notes,
            options,
        })
    }

    /// Whether no bound rests on the least budget of a CPU: the lock limits best effort only.
    pub(crate) fn dips(&self) -> bool {
        self.lock.is_some()
    }

    /// The daemon's settings for serving clients, where the policy has clients.
    pub(crate) fn serving(&self) -> Option<Serving> {
        if let Some(lock) = self.lock {
            let LockRegulation { look_ns, max_hold_ns, cpus, .. } = lock;
            return Some(Serving {
                look_ns,
                max_hold_ns,
                cpus,
                tasks: Vec::new(),
                holders: true,
                slots_only: false,
            });
        }
        let dynamic = self.dynamic.as_ref()?;
        let tasks = dynamic.tasks.iter().map(|t| t.name.clone()).collect();
        let (look_ns, cpus) = (dynamic.look_ns, dynamic.cpus);
        Some(Serving { look_ns, max_hold_ns: 0, cpus, tasks, holders: false, slots_only: false })
    }

    /// Whether budgets bind tasks at real-time priorities. Those of the lock and of dynamic budgets
    /// bind only other tasks.
    pub(crate) fn stops_fifo(&self) -> bool {
        self.binds_fifo && self.serving().is_none()
    }

    /// Longest time for which a CPU can be stopped, plus two periods.
    pub(crate) fn longest_stop_ns(&self) -> u64 {
        let jobs = self.dynamic.as_ref().map_or(0, DynamicRegulation::longest_stop_ns);
        self.period_ns.saturating_mul(2).saturating_add(jobs)
    }

    /// The CPUs with a budget.
    pub fn regulated(&self) -> Vec<u32> {
        self.cores.iter().map(|c| c.cpu).collect()
    }

    /// Interrupts that a CPU's busiest event makes in a period while its budget lasts, or while
    /// nothing limits it beside clients.
    pub fn interrupts_per_period(&self) -> u64 {
        // Without a limit a CPU goes on at its own speed. The kernel must not switch its counter
        // off for that, because then no look finds its accesses after a lock (engine/rate.rs).
        if let (Some(serving), false) = (self.serving(), self.event.is_software()) {
            let looks = self.period_ns / serving.look_ns.max(1) + 8;
            let sample = self.cores.iter().map(|c| c.sample).min().unwrap_or(1);
            return looks.max(most_interrupts(self.period_ns, sample));
        }
        // The kernel does not throttle software events that happen one by one: only the tick
        // counts.
        let of = |event: &Event, each: &dyn Fn(&CoreBudget) -> Option<(u64, u64)>| {
            let limited =
                self.cores.iter().filter_map(each).filter(|&(budget, _)| budget != UNLIMITED);
            if event.is_software() {
                1
            } else {
                let most = |sample| most_interrupts(self.period_ns, sample);
                limited.map(|(b, sample)| (b / sample + 1).min(most(sample))).max().unwrap_or(1)
            }
        };
        let reads = of(&self.event, &|c| Some((c.budget, c.sample)));
        // The kernel limits each event by itself.
        let writes = self
            .write_event
            .as_ref()
            .map_or(1, |event| of(event, &|c| c.writes.map(|w| (w.write_budget, w.write_sample))));
        reads.max(writes)
    }

    /// Flags of the policy for a CPU: `SC_RECLAIM` with `SC_PREDICT`, or with `SC_HARD` where it
    /// gives nothing away; or none.
    pub(crate) fn flags(&self, cpu: u32) -> u32 {
        match (self.reclaim, self.givers.contains(&cpu)) {
            (false, _) => 0,
            (true, true) => 2 | 4,
            (true, false) => 1 | 4,
        }
    }

    /// Accesses that a core reclaims at a time: the largest sample, at least 1.
    pub(crate) fn chunk(&self) -> u64 {
        self.cores.iter().map(|c| c.sample).max().unwrap_or(1).max(1)
    }

    /// Number of the sharing rule: `SC_SHARE_*`.
    pub(crate) fn sharing_number(&self) -> u32 {
        match self.sharing {
            Sharing::None => 0,
            Sharing::Spare => 1,
            Sharing::Proportional => 2,
        }
    }
}

fn check_policy(plan: &Plan) -> Result<(), LinuxError> {
    if plan.windows().is_some_and(|windows| windows.table.is_empty()) {
        return Err(LinuxError::Input(
            "the plan has partitions, but no time table was found for them; plan again (its \
                reasons say what does not fit)"
                .to_owned(),
        ));
    }
    let what = match plan.regulation.policy {
        Policy::Memguard | Policy::Bwlock | Policy::Dynamic => return Ok(()),
        Policy::None if plan.levels().is_some() => {
            "none, because a plan with [levels] has no budgets; give --scheduler levels"
        }
        Policy::None => {
            "none, so there is nothing to regulate; plan with [regulation] policy = \"memguard\""
        }
        Policy::Maracas => "maracas, and the plan has no VCPUs to schedule; plan again",
        Policy::Any => "any, which no plan has; plan again",
    };
    Err(LinuxError::Input(format!("the plan's regulation.policy is {what}")))
}

/// The plan's dynamic budgets, if it has any, and its soft cores.
fn dynamic_of(
    plan: &Plan,
    options: &Options,
) -> Result<Option<(DynamicRegulation, Vec<u32>)>, LinuxError> {
    if plan.regulation.policy != Policy::Dynamic {
        return Ok(None);
    }
    if options.reclaim || options.sharing != Sharing::None {
        return Err(LinuxError::Input(
            "--reclaim and --share are for policy = \"memguard\"; leave them out, because dynamic \
            budgets have no periods"
                .to_owned(),
        ));
    }
    let look_ns = (plan.regulation.period_ns / LOOKS_PER_PERIOD).max(SHORTEST_LOOK_NS);
    DynamicRegulation::of(plan, look_ns).map(Some)
}

/// The plan's bandwidth lock, if it has one.
fn lock_of(
    plan: &Plan,
    options: &Options,
    cores: &[CoreBudget],
) -> Result<Option<LockRegulation>, LinuxError> {
    if plan.regulation.policy != Policy::Bwlock {
        return Ok(None);
    }
    let Some(budget) = cores.first().map(|c| c.budget) else {
        return Err(LinuxError::Input(
            "the plan has no regulation.lock_budget_accesses, which policy = \"bwlock\" needs; \
                plan again"
                .to_owned(),
        ));
    };
    if budget == UNLIMITED {
        return Err(LinuxError::Input(
            "the plan's regulation.lock_budget_accesses is too large to be counted; lower \
                [regulation] lock_bandwidth"
                .to_owned(),
        ));
    }
    if options.reclaim || options.sharing != Sharing::None {
        return Err(LinuxError::Input(
            "--reclaim and --share are for policy = \"memguard\"; leave them out, because no core \
            has a reservation beside a lock"
                .to_owned(),
        ));
    }
    // The bounds of a planned lock count on it.
    let look_ns = PlanLock::reaction_of(plan.regulation.period_ns);
    Ok(Some(LockRegulation {
        max_hold_ns: options.max_hold_ns,
        look_ns,
        cpus: plan.platform.cores,
    }))
}

/// Checks that this machine has the size of the plan's board.
fn check_cpus(plan: &Plan, online: &[u32]) -> Result<(), LinuxError> {
    let (wanted, board) = (plan.platform.cores, &plan.platform.title);
    let isa = plan.platform.isa.to_string();
    if isa != std::env::consts::ARCH {
        return Err(LinuxError::Machine(format!(
            "the plan is for another machine: its platform ({board}) is {isa}, this one is {}; \
                plan with a platform file of this machine",
            std::env::consts::ARCH
        )));
    }
    if u32::try_from(online.len()).ok() != Some(wanted) {
        return Err(LinuxError::Machine(format!(
            "the plan is for another machine: its platform ({board}) has {wanted} cores, this one \
                has {} CPUs online; plan with a platform file of this machine, or set CPUs on- or \
                offline",
            online.len()
        )));
    }
    if wanted > MAX_CPUS {
        return Err(LinuxError::Machine(format!(
            "the plan has {wanted} cores, and {MAX_CPUS} are supported; boot with \
                maxcpus={MAX_CPUS} and plan for these CPUs"
        )));
    }
    if let Some((at, cpu)) =
        online.iter().enumerate().find(|&(at, &cpu)| u32::try_from(at).ok() != Some(cpu))
    {
        return Err(LinuxError::Machine(format!(
            "the online CPUs are not numbered 0 to {}: CPU {cpu} stands where CPU {at} should; set \
                CPU {at} online",
            wanted - 1
        )));
    }
    Ok(())
}

/// Notes for the user on the limits of the regulation.
fn notes(plan: &Plan, options: &Options, cores: &[CoreBudget]) -> Vec<String> {
    let mut notes = Vec::new();
    if options.event.is_software() {
        notes.push(format!(
            "the event {} stands in for accesses to memory: this tries the mechanism, and no bound \
                of the plan holds",
            options.event.name()
        ));
    }
    if options.event.is_of_programs_only() {
        notes.push(format!(
            "the event {} leaves out the kernel's accesses for programs, so budgets do too: no \
                bound of the plan holds",
            options.event.name()
        ));
    }
    let locked: u64 = plan.cores.iter().map(|c| c.locked_pages).sum();
    if locked > 0 {
        notes.push(format!(
            "pages of the plan that are locked in the shared cache: {locked}; bounds that rest on \
                them do not hold here (docs/ways.md)"
        ));
    }
    if !options.write_budgets && plan.cores.iter().any(|c| c.write_budget_accesses.is_some()) {
        notes.push(
            "the plan's budgets of writes are not enforced (--no-write-budgets): the event counts \
            against the whole budget"
                .to_owned(),
        );
    }
    let always = plan.regulation.policy == Policy::Memguard;
    notes.extend(crowded(cores, &options.event).filter(|_| !always));
    let unregulated = plan.platform.cores as usize - cores.len();
    if unregulated > 0 {
        notes.push(format!("CPUs that have no budget and are not regulated: {unregulated}"));
    }
    notes
}

#[cfg(test)]
mod tests;
