//! Configuration of the kernel: tasks, a scheduler, a regulator, costs.
//!
//! Problem: the papers' systems differ in their scheduler, their regulator and the cost of
//! interrupts. Rule: a system has one scheduler and one regulator, in any combination; every number
//! is an argument, costs are 0 unless stated. Times are picoseconds; where a policy counts
//! nanoseconds, they must be whole ones.

use crate::hardware::{DeviceId, ProgramId, Transfer};
use solocore_model::vcpus::{self, Throttle};
use solocore_model::{Bandwidth, Platform, Time};
pub use solocore_policy::levels::Level;
pub use solocore_policy::memguard::{Role, Sharing};
pub use solocore_policy::throttle::Rule;
pub use solocore_policy::vcpu::Background;

/// Faults of a system that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A task asks for something impossible, or for something that the system lacks.
    #[error("task `{task}`: {what}")]
    Task {
        /// Name of the task.
        task: String,
        /// The fault and its remedy.
        what: String,
    },
    /// Another part of the configuration is impossible.
    #[error("{place}: {what}")]
    Config {
        /// Place: `scheduler`, `regulator`, `board`, `transfer 3`...
        place: String,
        /// The fault and its remedy.
        what: String,
    },
    /// Time stands still: a program gives signals without computing.
    #[error(
        "at {at_ps} ps: a million events at one instant; does a program (last: `{task}`) signal \
            without computing?"
    )]
    Stuck {
        /// Task of the last event.
        task: String,
        /// Time of the instant, ps.
        at_ps: u64,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl KernelError {
    pub(super) fn task(task: &TaskSpec, what: impl Into<String>) -> Self {
        Self::Task { task: task.name.clone(), what: what.into() }
    }

    pub(super) fn config(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Config { place: place.into(), what: what.into() }
    }
}

/// Event that releases a job of a [`Release::Triggered`] task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A job of this task (its index) ends.
    JobEnd(usize),
    /// This task passes a mark of this number.
    Mark(usize, u32),
    /// A transfer of this device ends.
    Transferred(DeviceId),
}

/// Arrivals of jobs. Times count from the task's `start_ps`, except [`Release::At`]'s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// The program runs whenever it may; where it has jobs, one follows the other.
    #[default]
    Background,
    /// Job k arrives at `phase_ps + k * period_ps`, and is released up to `jitter_ps` later
    /// (uniform). Response times and deadlines count from the arrival.
    Periodic {
        /// Time between arrivals.
        period_ps: u64,
        /// Arrival of the first job.
        phase_ps: u64,
        /// Largest delay of a release.
        jitter_ps: u64,
    },
    /// The first job arrives at the start, each other one `min_ps` to `max_ps` after the one before
    /// (uniform).
    Sporadic {
        /// Least time between arrivals.
        min_ps: u64,
        /// Most time between arrivals.
        max_ps: u64,
    },
    /// Each time that an event happens, after a delay.
    Triggered {
        /// The event.
        by: Trigger,
        /// Delay after the event.
        delay_ps: u64,
    },
    /// At these times, in rising order.
    At(Vec<u64>),
}

/// Action of the kernel when a task passes a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Orders a transfer; orders to one device queue up.
    Transfer(DeviceId, Transfer),
}

/// Budget that a hard task's job gives each soft core (dynamic-budgeting, section IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskBudget {
    /// `B_i`: accesses of each soft core, 1 to 2^32-1.
    pub accesses: u64,
    /// `A_i`: longest time for which the budget is in force: the WCET with that interference.
    pub length_ps: u64,
}

/// A task. [`TaskSpec::new`] gives one that runs in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Name, for messages.
    pub name: String,
    /// The program that it runs; no other task has it.
    pub program: ProgramId,
    /// The core on which it runs. Not needed with a VCPU, at level C and under global EDF.
    pub core: Option<usize>,
    /// Arrivals of its jobs.
    pub release: Release,
    /// Deadline from the arrival; `None`: it has no promise of a deadline.
    pub deadline_ps: Option<u64>,
    /// A lower number is more urgent; ties go to the lower index. Used by fixed priorities, inside
    /// partitions and VCPUs, and as the order of dynamic budgets.
    pub priority: u32,
    /// Level of a system with criticality levels.
    pub level: Option<Level>,
    /// Execution time provisioned for a job at levels A to C (PET).
    pub pet_ps: Option<u64>,
    /// VCPU that runs it.
    pub vcpu: Option<usize>,
    /// Partition of a time table.
    pub partition: Option<usize>,
    /// Real-time by BWLOCK's rule: never throttled, may lock.
    pub realtime: bool,
    /// Budget of the soft cores while its jobs run.
    pub budget: Option<TaskBudget>,
    /// Time before which no job of it arrives.
    pub start_ps: u64,
    /// Time from which on no job arrives, and at which a background task ends.
    pub stop_ps: Option<u64>,
    /// Actions on marks, by the mark's number.
    pub on_mark: Vec<(u32, Action)>,
}

impl TaskSpec {
    /// A background task without a core of its own, priority 0, no deadline.
    pub fn new(name: impl Into<String>, program: ProgramId) -> Self {
        Self {
            name: name.into(),
            program,
            core: None,
            release: Release::Background,
            deadline_ps: None,
            priority: 0,
            level: None,
            pet_ps: None,
            vcpu: None,
            partition: None,
            realtime: false,
            budget: None,
            start_ps: 0,
            stop_ps: None,
            on_mark: Vec::new(),
        }
    }

    /// Time between arrivals, where there is a least one.
    pub(super) fn period_ps(&self) -> Option<u64> {
        match self.release {
            Release::Periodic { period_ps, .. } => Some(period_ps),
            Release::Sporadic { min_ps, .. } => Some(min_ps),
            _ => None,
        }
    }
}

/// A VCPU (maracas, section II-A).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpuSpec {
    /// Budget per period.
    pub capacity_ps: u64,
    /// Period.
    pub period_ps: u64,
    /// Its core; `None`: `FIND_HOST_CPU` gives one when the VCPU is created, in the order of the
    /// list.
    pub core: Option<usize>,
    /// Page colours it needs.
    pub colours: u64,
}

/// Throttling of background time (maracas, Algorithm 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleSpec {
    /// By latency or by rate.
    pub rule: Rule,
    /// Latency rule: mean latency of a read in ps (MAX_MEM_LAT); rate rule: accesses per
    /// period.
    pub threshold: u64,
    /// IDLE_MEM in thousandths.
    pub idle_per_mille: u32,
    /// MEM_PERIOD.
    pub period_ps: u64,
    /// Interval after which a core asks again whether it may use background time, while some core
    /// may not.
    pub check_ps: u64,
}

impl ThrottleSpec {
    /// From a file's table, on this platform; `None` if the table has neither rule, or both.
    pub fn of(platform: &Platform, t: &Throttle) -> Option<Self> {
        let (rule, threshold) = match (t.max_latency, t.max_rate) {
            (Some(latency), None) => (Rule::Latency, latency.ps()),
            (None, Some(rate)) => (Rule::Rate, lines(platform, rate, t.period)),
            _ => return None,
        };
        Some(Self {
            rule,
            threshold,
            idle_per_mille: t.idle_per_mille,
            period_ps: t.period.ps(),
            check_ps: t.check.ps(),
        })
    }
}

/// Lines in a period at a rate, rounded down.
pub fn lines(platform: &Platform, rate: Bandwidth, period: Time) -> u64 {
    let bytes = u128::from(rate.0) * u128::from(period.ps()) / 1_000_000_000_000;
    u64::try_from(bytes / u128::from(platform.llc.line.0)).unwrap_or(u64::MAX)
}

/// The VCPU that gets background time, from a file's word.
pub fn background(wanted: vcpus::Background) -> Option<Background> {
    match wanted {
        vcpus::Background::LeastTime => Some(Background::LeastTime),
        vcpus::Background::Keep => Some(Background::Keep),
        vcpus::Background::LeastMemory => Some(Background::LeastMemory),
        vcpus::Background::None => None,
    }
}

/// Balancing of VCPUs (maracas, Algorithm 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancing {
    /// Each stays on its first core.
    #[default]
    Static,
    /// Each time that a VCPU blocks or wakes, up to `limit` VCPUs move.
    Full {
        /// Moves per run of the migration thread.
        limit: u32,
    },
}

/// VCPU scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuConfig {
    /// The VCPUs.
    pub vcpus: Vec<VcpuSpec>,
    /// The VCPU that gets background time; `None`: no VCPU (maracas, Fig. 4, case `vcpu`).
    pub background: Option<Background>,
    /// Servers keep to their capacity in every window of a period's length (`sporadic_server.h`).
    pub strict: bool,
    /// Throttling of background time.
    pub throttle: Option<ThrottleSpec>,
    /// Balancing.
    pub balancing: Balancing,
    /// VCPUs that balancing does not move, by number.
    pub fixed: Vec<usize>,
    /// Most waiting replenishments of a VCPU; `None`: the policy's maximum.
    pub replenishments: Option<u32>,
    /// Page colours of each core, if VCPUs only move to cores where their colours are free (section
    /// V-B).
    pub colours: Option<Vec<u64>>,
    /// Admit only VCPUs that a core can schedule (RMS bound, or response times); otherwise all.
    pub admission: bool,
}

/// A stretch of a repeating table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start of the window, from the start of the frame.
    pub start_ps: u64,
    /// First instant after it.
    pub end_ps: u64,
    /// Task (levels) or partition (time table).
    pub id: usize,
}

/// The table of a core, repeated from time 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreTable {
    /// Number of the core.
    pub core: usize,
    /// Major frame.
    pub frame_ps: u64,
    /// In order, not overlapping.
    pub windows: Vec<Window>,
}

/// The scheduler that decides what runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SchedulerSpec {
    /// Each task on its core, by priority.
    #[default]
    FixedPriority,
    /// VCPUs (maracas).
    Vcpu(VcpuConfig),
    /// Criticality levels (mc2-os-isolation, section 2); the tables are level A's.
    Levels {
        /// At most one for a core.
        tables: Vec<CoreTable>,
    },
    /// Partitions in windows, priorities inside (single-core-equivalence, section 2.4).
    Windows {
        /// At most one for a core; a core without one is never used.
        tables: Vec<CoreTable>,
    },
    /// One queue for all cores, by absolute deadline (by period for tasks without a deadline); no
    /// budgets.
    GlobalEdf,
}

/// Traffic that a core may make in a regulation period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// No limit.
    Unlimited,
    /// Reads and writes together: the plan's budgets.
    Together(u64),
    /// Each kind by itself.
    Apart {
        /// Lines read.
        reads: u64,
        /// Lines written.
        writes: u64,
    },
}

/// The regulator that stops cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RegulatorSpec {
    /// No core is stopped.
    #[default]
    None,
    /// MemGuard (single-core-equivalence, section 2.2).
    MemGuard {
        /// Regulation period.
        period_ps: u64,
        /// Budget and role of each core, by number.
        cores: Vec<(Budget, Role)>,
        /// Rule for the time after all budgets are used.
        sharing: Sharing,
        /// Accesses taken from the pool at a time.
        chunk: u64,
    },
    /// BWLOCK (bwlock, section 3).
    BwLock {
        /// Regulation period.
        period_ps: u64,
        /// Accesses per period and core while no task holds the lock; `None`: no limit.
        max_budget: Option<u64>,
        /// Accesses per period and core while a task holds the lock.
        min_budget: u64,
        /// A change of the lock reaches other cores by IPI at once; otherwise at their next period
        /// (the paper) or switch.
        immediate: bool,
    },
    /// Budgets per job of the hard tasks (dynamic-budgeting, section IV), from the tasks'
    /// `budget`s.
    Dynamic {
        /// Cores of the tasks with budgets; they are not limited.
        hard: Vec<usize>,
        /// Cores that the budgets limit.
        soft: Vec<usize>,
    },
}

impl RegulatorSpec {
    /// The static budgets with which dynamic-budgeting compares itself: each soft core has
    /// `accesses` in each period.
    pub fn static_periodic(cores: usize, soft: &[usize], accesses: u64, period_ps: u64) -> Self {
        let budget = |core| {
            if soft.contains(&core) { Budget::Together(accesses) } else { Budget::Unlimited }
        };
        let cores = (0..cores).map(|core| (budget(core), Role::default())).collect();
        Self::MemGuard { period_ps, cores, sharing: Sharing::None, chunk: 1 }
    }
}

/// Costs of the kernel's own work; all 0 by default. A cost lengthens the execution of the task on
/// the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// A timer interrupt: a regulation period, an end of a budget, a window's edge.
    pub timer_ps: u64,
    /// A counter's overflow interrupt.
    pub overflow_ps: u64,
    /// A switch to another task.
    pub switch_ps: u64,
    /// An interrupt by another core.
    pub ipi_ps: u64,
    /// Time from sending an IPI to its effect.
    pub ipi_delay_ps: u64,
    /// A release, on the task's core (global schedulers: core 0).
    pub release_ps: u64,
    /// Moving a VCPU, on the core it leaves (maracas, section V: 2 E_lock + E_struct).
    pub migration_ps: u64,
    /// Time from a counter's overflow to its interrupt.
    pub interrupt_delay_ps: u64,
    /// Accesses between the overflow and the time at which it is seen.
    pub skid_transactions: u64,
}

/// Transfers that the kernel orders by the clock (single-core-equivalence, section 4: the I/O
/// core's table).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSpec {
    /// The device.
    pub device: DeviceId,
    /// The order.
    pub order: Transfer,
    /// Time of the first order.
    pub phase_ps: u64,
    /// Time between orders.
    pub period_ps: u64,
}

/// A system without its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelConfig {
    /// The scheduler that chooses the tasks.
    pub scheduler: SchedulerSpec,
    /// The regulator that stops cores.
    pub regulator: RegulatorSpec,
    /// Costs of the kernel's work.
    pub costs: Costs,
    /// Period in which accesses are counted where the regulator has none; `None`: they are not
    /// counted.
    pub observe_period_ps: Option<u64>,
    /// Transfers by the clock.
    pub transfers: Vec<TransferSpec>,
    /// Seed of jitter and sporadic arrivals.
    pub seed: u64,
}

/// Whole nanoseconds in the range of the policies' spans (1 ns to 2^42 ns).
pub(super) fn span_ns(ps: u64, place: &str, what: &str) -> Result<u64, KernelError> {
    if ps == 0 || !ps.is_multiple_of(1000) || ps / 1000 > 1 << 42 {
        return Err(KernelError::config(
            place,
            format!(
                "{what} of {ps} ps is not a whole number of nanoseconds from 1 ns to 73 minutes; \
                    give such a time"
            ),
        ));
    }
    Ok(ps / 1000)
}
