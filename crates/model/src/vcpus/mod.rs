//! `[maracas]` and `[[vcpu]]` of a system: tasks with a capacity in each period of their own, and
//! the use of the remaining time.
//!
//! Problem: the share of a core for each task, and the use of the rest, must be stated before they
//! can be admitted. Rule: with `[regulation] policy = "maracas"` every analysed task is bound to a
//! VCPU. A task without a VCPU is best effort and shares the best-effort VCPU of its core. Names
//! are those of scenarios (`solocore_sim::scenario`). Source: maracas, sections II to V. Does not
//! cover: which colours a core has (the planner), response times (the planner).

mod migration;
mod throttle;

use crate::system::regulation::Policy;
use crate::system::task::{Criticality, SystemTask};
use crate::units::{Time, positive_time, positive_time_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use migration::{CoreColours, Migration};
pub use throttle::{Monitor, Throttle};

/// Longest period. It is below the time after which the kernel considers a thread that does not run
/// as lost.
pub const MAX_PERIOD_NS: u64 = 10_000_000_000;
/// Shortest capacity: less would be spent on switching.
pub const MIN_CAPACITY_NS: u64 = 10_000;
/// Most VCPUs of a machine, with the best-effort ones of its cores.
pub const MAX_VCPUS: usize = 1024;
/// First part of the names of best-effort VCPUs.
pub const BEST_EFFORT: &str = "best-effort/";
/// Name of the VCPU of the memory's monitor.
pub const MONITOR: &str = "memory-monitor";
/// Name of the VCPU of the threads that move pages.
pub const MIGRATION: &str = "page-migration";

/// The VCPU that runs when no VCPU has budget (maracas, section III).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Background {
    /// The one with the least background time so far.
    #[default]
    LeastTime,
    /// The one that ran before.
    Keep,
    /// The one with the fewest requests to memory in a millisecond of its execution.
    LeastMemory,
    /// No VCPU.
    None,
}

impl Background {
    /// Its name in messages and the files of runs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LeastTime => "least-time",
            Self::Keep => "keep",
            Self::LeastMemory => "least-memory",
            Self::None => "none",
        }
    }
}

/// A capacity in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// C: time on the core.
    #[serde(deserialize_with = "positive_time")]
    pub capacity: Time,
    /// T: the period.
    #[serde(deserialize_with = "positive_time")]
    pub period: Time,
}

/// `[maracas]`: rules of the VCPUs' scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Rule for the VCPU that gets background time.
    pub background: Background,
    /// `true`: no window of length T has more than C; a preempted VCPU may then get less. `false`:
    /// budgets are replenished one period after the VCPU woke.
    pub strict: bool,
    /// Most waiting replenishments of a VCPU.
    pub replenishments: u32,
    /// Share of a core, on each core, for all programs that no VCPU holds.
    pub best_effort: Reservation,
    /// Largest cost of a switch and a late timer. Admission adds it to each capacity.
    pub overhead: Time,
    /// Time from a change to the balancing of VCPUs between cores. If it is left out, VCPUs stay on
    /// their cores.
    #[serde(deserialize_with = "positive_time_option")]
    pub balance: Option<Time>,
    /// Page colours of each core: a number, or one for each core. Balancing moves a VCPU only to a
    /// core with enough free colours.
    pub core_colours: Option<CoreColours>,
    /// Pages of a VCPU's programs go with it to the colours of its core. If it is left out, pages
    /// stay where they are.
    pub migration: Option<Migration>,
    /// Throttling of background time.
    pub throttle: Option<Throttle>,
}

impl Default for Settings {
    fn default() -> Self {
        let ms = |n: u64| Time::from_ns(n * 1_000_000);
        Self {
            background: Background::default(),
            strict: true,
            replenishments: 16,
            best_effort: Reservation { capacity: ms(5), period: ms(100) },
            overhead: Time::from_ns(20_000),
            balance: None,
            core_colours: None,
            migration: None,
            throttle: None,
        }
    }
}

/// `[[vcpu]]`: a share of a core in every period.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VcpuEntry {
    /// Unique name.
    name: String,
    /// C: time on its core that the VCPU has in each period.
    #[serde(deserialize_with = "positive_time")]
    capacity: Time,
    /// T: period of the capacity, at most 10 s.
    #[serde(deserialize_with = "positive_time")]
    period: Time,
    /// Core, from 0. If it is left out, the planner places the VCPU.
    core: Option<u32>,
    /// Page colours that the VCPU needs.
    #[serde(default)]
    colours: u64,
    /// Most pages of memory that its programs have together. With `migration`, their moving must
    /// fit into its capacity.
    pages: Option<u64>,
    /// Balancing leaves the VCPU on its core.
    #[serde(default)]
    fixed: bool,
    /// Names of its tasks. A task is bound to at most one VCPU.
    #[serde(default)]
    tasks: Vec<String>,
}

/// A VCPU, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpu {
    /// Unique name.
    pub name: String,
    /// C.
    pub capacity_ns: u64,
    /// T.
    pub period_ns: u64,
    /// Its core, where the file states one.
    pub core: Option<u32>,
    /// Page colours it needs.
    pub colours: u64,
    /// Balancing leaves it where it is.
    pub fixed: bool,
    /// Its tasks, by number.
    pub tasks: Vec<usize>,
    /// Line of its table in the file.
    pub line: usize,
}

/// The VCPUs of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpus {
    /// `[maracas]`.
    pub settings: Settings,
    /// `[[vcpu]]` in file order, then those of the memory's monitor ([`MONITOR`]) and of the moving
    /// of pages ([`MIGRATION`]).
    pub vcpus: Vec<Vcpu>,
}

/// A table and its line.
type Lined<T> = (T, usize);
/// The fault and its line.
type Fault = (usize, String);

impl Vcpus {
    /// Checks the tables of a system with this number of cores and of page colours of its shared
    /// cache; `None` under another policy.
    ///
    /// # Errors
    /// The line at fault and what to do.
    pub fn of(
        policy: Policy,
        settings: Option<Lined<Settings>>,
        entries: Vec<Lined<VcpuEntry>>,
        tasks: &[SystemTask],
        (cores, colours): (u32, u32),
    ) -> Result<Option<Self>, Fault> {
        if policy != Policy::Maracas {
            let first = settings
                .map(|s| (s.1, "[maracas]"))
                .into_iter()
                .chain(entries.first().map(|e| (e.1, "[[vcpu]]")));
            return match first.min_by_key(|f| f.0) {
                None => Ok(None),
                Some((line, what)) => Err((
                    line,
                    format!(
                        "{what} is read under [regulation] policy = \"maracas\" only; set that, or \
                            remove it"
                    ),
                )),
            };
        }
        let (settings, line) = settings.unwrap_or((Settings::default(), 0));
        check_settings(&settings, cores, colours)
            .map_err(|what| (line, format!("[maracas] {what}")))?;
        let monitor = usize::from(settings.throttle.is_some());
        let others = cores as usize + monitor + usize::from(settings.migration.is_some());
        if entries.is_empty() || entries.len() + others > MAX_VCPUS {
            let most = MAX_VCPUS - others;
            let remedy = if entries.is_empty() { "add one" } else { "remove some" };
            let what = format!(
                "policy = \"maracas\" takes 1 to {most} [[vcpu]] tables, and the file has {}; \
                    {remedy}",
                entries.len()
            );
            return Err((line, what));
        }
        let mut vcpus: Vec<Vcpu> = Vec::new();
        for (entry, line) in entries {
            let vcpu =
                check(entry, line, &settings, &vcpus, tasks, cores).map_err(|what| (line, what))?;
            vcpus.push(vcpu);
        }
        if let Some(throttle) = settings.throttle {
            let m = throttle.monitor.unwrap_or_default();
            let own = own(MONITOR, (m.capacity, m.period, m.core), line, cores);
            vcpus.push(own.map_err(|what| (line, format!("[maracas] throttle: monitor: {what}")))?);
        }
        if let Some(m) = settings.migration {
            let own = own(MIGRATION, (m.capacity, m.period, m.core), line, cores);
            vcpus.push(own.map_err(|what| (line, format!("[maracas] migration: {what}")))?);
        }
        let all = Self { settings, vcpus };
        for (index, task) in tasks.iter().enumerate() {
            all.check_task(index, task).map_err(|what| (task.line, what))?;
        }
        Ok(Some(all))
    }

    /// The VCPU of a task; `None`: best effort.
    #[must_use]
    pub fn of_task(&self, task: usize) -> Option<usize> {
        self.vcpus.iter().position(|v| v.tasks.contains(&task))
    }

    fn check_task(&self, index: usize, task: &SystemTask) -> Result<(), String> {
        let name = &task.name;
        let analysed = task.criticality != Criticality::D;
        match self.of_task(index).map(|v| &self.vcpus[v].name) {
            None if analysed => Err(format!(
                "task `{name}` is of level {:?} and bound to no VCPU, so it has no promise; name \
                it in the tasks of a [[vcpu]], or give it criticality = \"D\"",
                task.criticality
            )),
            Some(vcpu) if task.core.is_some() => Err(format!(
                "task `{name}` states a core, but runs on the core of its VCPU; state the core of \
                    `{vcpu}`"
            )),
            _ if analysed && self.settings.balance.is_some() => Err(format!(
                "task `{name}` is of level {:?}, but [maracas] balance moves VCPUs by \
                utilisation, which does not bound response times; remove balance, or give it \
                criticality = \"D\"",
                task.criticality
            )),
            _ => Ok(()),
        }
    }
}

fn check_settings(s: &Settings, cores: u32, colours: u32) -> Result<(), String> {
    let (capacity, period) = (s.best_effort.capacity.ns_ceil(), s.best_effort.period.ns_ceil());
    check_times(capacity, period).map_err(|what| format!("best_effort: {what}"))?;
    if s.replenishments == 0 || s.replenishments > 16 {
        return Err(format!("replenishments = {}; give 1 to 16", s.replenishments));
    }
    if s.overhead.ns_ceil() > MAX_PERIOD_NS {
        return Err(format!(
            "overhead = {} is longer than any period; some 20 us are usual",
            s.overhead
        ));
    }
    if s.core_colours.is_some() && s.balance.is_none() {
        return Err(
            "core_colours say where balancing may move VCPUs; add balance, or remove it".to_owned()
        );
    }
    s.core_colours.as_ref().map_or(Ok(()), |colours| colours.check(cores))?;
    s.migration.map_or(Ok(()), |m| m.check(s.core_colours.as_ref(), cores, colours))?;
    let Some(t) = &s.throttle else { return Ok(()) };
    if t.max_latency.is_some() == t.max_rate.is_some() {
        return Err("throttle: give max_latency or max_rate, one of the two".to_owned());
    }
    if t.max_rate.is_some_and(|rate| rate.0 == 0) {
        return Err("throttle: max_rate is zero, so no VCPU could run in the background; raise it"
            .to_owned());
    }
    if t.idle_per_mille > 1000 {
        return Err(format!("throttle: idle_per_mille = {}; give 0 to 1000", t.idle_per_mille));
    }
    Ok(())
}

fn check(
    e: VcpuEntry,
    line: usize,
    settings: &Settings,
    seen: &[Vcpu],
    tasks: &[SystemTask],
    cores: u32,
) -> Result<Vcpu, String> {
    let name = e.name;
    if name.is_empty() || name.chars().any(char::is_control) || name.starts_with(BEST_EFFORT) {
        return Err(format!(
            "a VCPU needs a name without control characters that does not begin with \
                `{BEST_EFFORT}`"
        ));
    }
    if name == MONITOR || name == MIGRATION {
        return Err(format!(
            "the name `{name}` belongs to a VCPU of solocore's own; choose another, or state that one \
                as throttle's `monitor` or as `migration`"
        ));
    }
    if let Some(twin) = seen.iter().find(|v| v.name == name) {
        return Err(format!(
            "VCPU `{name}` is defined twice (first on line {}); rename one",
            twin.line
        ));
    }
    let (capacity_ns, period_ns) = (e.capacity.ns_ceil(), e.period.ns_ceil());
    check_times(capacity_ns, period_ns).map_err(|what| format!("VCPU `{name}`: {what}"))?;
    if let Some(core) = e.core.filter(|&core| core >= cores) {
        return Err(format!(
            "VCPU `{name}`: core {core} is out of range; there are cores 0 to {}",
            cores - 1
        ));
    }
    match &settings.core_colours {
        None if e.colours > 0 => {
            return Err(format!(
                "VCPU `{name}` needs page colours, but no core has any; add [maracas] core_colours"
            ));
        }
        Some(have) if e.colours > have.most(cores, e.core) => {
            return Err(format!(
                "VCPU `{name}` needs {} page colours, but {} has {}; give less",
                e.colours,
                e.core.map_or("no core".to_owned(), |core| format!("core {core}")),
                have.most(cores, e.core)
            ));
        }
        _ => {}
    }
    if let (Some(migration), Some(pages), false) = (settings.migration, e.pages, e.fixed) {
        migration.check_pages(pages).map_err(|what| format!("VCPU `{name}`: {what}"))?;
    }
    let bound = tasks_of(&name, &e.tasks, seen, tasks)?;
    let level =
        |best: bool| bound.iter().find(|&&t| (tasks[t].criticality == Criticality::D) == best);
    if let (Some(&hard), Some(&best)) = (level(false), level(true)) {
        return Err(format!(
            "VCPU `{name}` has `{}` of level {:?} and `{}`, which is best effort and may use any \
                time; give them VCPUs of their own",
            tasks[hard].name, tasks[hard].criticality, tasks[best].name
        ));
    }
    Ok(Vcpu {
        name,
        capacity_ns,
        period_ns,
        core: e.core,
        colours: e.colours,
        fixed: e.fixed,
        tasks: bound,
        line,
    })
}

/// A VCPU of solocore's own with C, T and its core, if that is stated. It stays on its core.
fn own(
    name: &str,
    (capacity, period, core): (Time, Time, Option<u32>),
    line: usize,
    cores: u32,
) -> Result<Vcpu, String> {
    let (capacity_ns, period_ns) = (capacity.ns_ceil(), period.ns_ceil());
    check_times(capacity_ns, period_ns)?;
    if let Some(core) = core.filter(|&core| core >= cores) {
        return Err(format!("core {core} is out of range; there are cores 0 to {}", cores - 1));
    }
    Ok(Vcpu {
        name: name.to_owned(),
        capacity_ns,
        period_ns,
        core,
        colours: 0,
        fixed: true,
        tasks: Vec::new(),
        line,
    })
}

/// Numbers of the tasks that a VCPU names.
fn tasks_of(
    vcpu: &str,
    names: &[String],
    seen: &[Vcpu],
    tasks: &[SystemTask],
) -> Result<Vec<usize>, String> {
    let mut bound = Vec::new();
    for name in names {
        let Some(task) = tasks.iter().position(|t| &t.name == name) else {
            return Err(format!(
                "VCPU `{vcpu}`: there is no task `{name}`; add a [[task]] of that name, or remove \
                    it"
            ));
        };
        if bound.contains(&task) {
            return Err(format!("VCPU `{vcpu}` names task `{name}` twice; remove one"));
        }
        if let Some(other) = seen.iter().find(|v| v.tasks.contains(&task)) {
            return Err(format!(
                "task `{name}` is in the VCPUs `{}` and `{vcpu}`; leave it in one",
                other.name
            ));
        }
        bound.push(task);
    }
    Ok(bound)
}

/// Are these times any VCPU's?
///
/// # Errors
/// The fault in them.
pub fn check_times(capacity_ns: u64, period_ns: u64) -> Result<(), String> {
    let time = |ns: u64| Time::from_ns(ns);
    if capacity_ns > period_ns {
        return Err(format!(
            "a capacity of {} in a period of {} is more than a whole core; give at most the period",
            time(capacity_ns),
            time(period_ns)
        ));
    }
    if capacity_ns < MIN_CAPACITY_NS {
        return Err(format!(
            "a capacity of {} is below {}, the least; give more",
            time(capacity_ns),
            time(MIN_CAPACITY_NS)
        ));
    }
    if period_ns > MAX_PERIOD_NS {
        return Err(format!(
            "a period of {} is above {}, the kernel's limit for waiting threads; give less",
            time(period_ns),
            time(MAX_PERIOD_NS)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
