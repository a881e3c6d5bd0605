//! `[regulation]`: the regulation of memory traffic.

use crate::platform::Platform;
use crate::units::{Bandwidth, Time, positive_time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Way in which DRAM accesses are regulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// They are not regulated.
    None,
    /// A budget per core and period (MemGuard; SCE section 2.2).
    #[default]
    Memguard,
    /// Best-effort cores are limited while a memory lock is held (BWLOCK).
    Bwlock,
    /// Budgets of the other cores follow the running hard task (dynamic budgeting).
    Dynamic,
    /// VCPUs; background time is throttled by memory latency (MARACAS).
    Maracas,
    /// The planner takes `memguard`, `bwlock` with `lock = "jobs"`, or `dynamic`: the one with
    /// which every deadline is met and `objective` is best. A plan has the one that was taken.
    Any,
}

impl Policy {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memguard => "memguard",
            Self::Bwlock => "bwlock",
            Self::Dynamic => "dynamic",
            Self::Maracas => "maracas",
            Self::Any => "any",
        }
    }
}

/// Way in which the guaranteed bandwidth is shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Every core gets the same.
    #[default]
    Even,
    /// As `[[core]]` tables state bandwidths; cores without one share the rest evenly.
    Explicit,
    /// Cores of the tasks, cache and budgets are chosen together, for an [`Objective`].
    Optimal,
}

/// Objective, once every deadline is met: of the largest safe budgets under the policy `dynamic`
/// (the first two), or of shares (`share = "optimal"`, the others).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The largest possible smallest budget. The default under `dynamic`.
    MaxMin,
    /// The most accesses per second in all.
    TotalBandwidth,
    /// The highest speed of best effort. The default of optimal shares.
    BestEffort,
    /// The smallest possible largest response time, as a part of its deadline.
    Margin,
    /// The smallest possible largest execution time beside the other cores, as a multiple of the
    /// time alone.
    Bounds,
}

impl Objective {
    /// Is it one of optimal shares?
    const fn of_shares(self) -> bool {
        matches!(self, Self::BestEffort | Self::Margin | Self::Bounds)
    }
}

/// The model of the memory that bounds rest on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// A controller with several reads of each core under way, posted writes and refreshes
    /// (`solocore_analysis::interference`).
    #[default]
    Sound,
    /// The papers' model: one request of each core, served in turn (single-core-equivalence, eq.
    /// (1)).
    Sce,
}

impl Model {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Sce => "sce",
        }
    }
}

/// Rule for the places of the tasks' pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// Each core has ways of the shared cache and DRAM banks of its own; a plan may lock pages. Way
    /// masks, colours, or a locked cache must keep that.
    #[default]
    Own,
    /// Pages lie where the kernel puts them: the cores share the cache and the banks, and no page
    /// is locked.
    Anywhere,
}

impl Pages {
    /// Is it the default?
    pub const fn is_own(&self) -> bool {
        matches!(self, Self::Own)
    }
}

/// Use of the rest of a period in which every core has used its budget up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// All cores wait for the next period.
    #[default]
    None,
    /// All cores go on without a limit until the period ends.
    Spare,
    /// Each core gets its budget once more, as often as all have used it up.
    Proportional,
}

impl Sharing {
    /// Is it the default?
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Programs that hold the bandwidth lock, and what rests on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Holders {
    /// Functions of tasks (`lock` of a task) and clients, while they ask for it. No response time
    /// rests on the lock.
    #[default]
    Sections,
    /// Each analysed task, while it runs. The planner chooses `lock_bandwidth` if it is not
    /// stated, and response times rest on the lock.
    Jobs,
}

impl Holders {
    /// Is it the default?
    pub const fn is_sections(&self) -> bool {
        matches!(self, Self::Sections)
    }
}

/// Upper limit of `skid`: no core makes more accesses in the time that stopping takes.
const MOST_SKID: u64 = 1_000_000;

/// `[regulation]`: the regulation of memory traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Regulation {
    /// The policy that regulates memory traffic.
    pub policy: Policy,
    /// `P`: the regulation period; budgets are replenished once in it.
    #[serde(deserialize_with = "positive_time")]
    pub period: Time,
    /// Way in which the guaranteed bandwidth is shared out. Default: `optimal` with `policy =
    /// "memguard"` or `"any"` and `model = "sound"`, unless the file has a `[[core]]`, a
    /// `[[partition]]` or more than 64 tasks; else `even`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// The model of the memory that bounds rest on. Default: `sound`, or `sce` where `carry_in =
    /// false`.
    pub model: Option<Model>,
    /// `true`: charge the budget that an earlier task may have drained. `false`: eq. (1) of
    /// single-core equivalence alone. With `model = "sce"`, `true` adds to eq. (1) the terms that
    /// it leaves out of its own model.
    pub carry_in: Option<bool>,
    /// `m`: cores that may access memory. Default: all cores of the platform.
    pub active_cores: Option<u32>,
    /// Objective of the planner, once every deadline is met: for budgets under `policy =
    /// "dynamic"`, or for optimal shares.
    pub objective: Option<Objective>,
    /// With `share = "optimal"`, `lock = "jobs"` or `policy = "dynamic"`: the execution time of an
    /// analysed task beside the other cores is at most this multiple of its time alone, as 2.0.
    #[serde(rename = "slowdown", with = "super::thousandths")]
    #[schemars(with = "Option<f64>", range(min = 1, max = 1000))]
    pub slowdown_permille: Option<u64>,
    /// Rule for the places of the tasks' pages: in ways and banks of their cores, or anywhere.
    pub pages: Pages,
    /// Policy `memguard`: programs outside of the plan run on its cores as well, within the budgets
    /// and below the analysed tasks. Bounds then count on the cores' budgets, not on their jobs.
    pub other_programs: bool,
    /// With `policy = "memguard"`: cores without analysed tasks give away the part of their budgets
    /// that they are not expected to use, and every core may take from it. The bounds stay the
    /// same.
    pub reclaim: bool,
    /// With `policy = "memguard"`: use of the rest of a period in which every core has used its
    /// budget up. The bounds count the accesses that a core has under way then as lost.
    pub sharing: Sharing,
    /// With `policy = "bwlock"`: bandwidth that each core has for tasks that are not real-time
    /// while a program holds the lock.
    pub lock_bandwidth: Option<Bandwidth>,
    /// With `policy = "bwlock"`: programs that hold the lock.
    pub lock: Holders,
    /// With `policy = "memguard"` or `lock = "jobs"`: most accesses of a core after its budget is
    /// used up, until it is stopped. They are samples of the counter, accesses under way, and the
    /// kernel's own on a stopped core. The bounds charge the other cores with them. 0: nothing is
    /// charged.
    pub skid: u64,
}

impl Regulation {
    /// The model in force.
    pub fn model(&self) -> Model {
        let of_carry_in = if self.carry_in == Some(false) { Model::Sce } else { Model::Sound };
        self.model.unwrap_or(of_carry_in)
    }

    /// The way of sharing in force.
    pub fn share(&self) -> Share {
        self.share.unwrap_or_default()
    }

    /// Sets optimal shares where the file states none, if the policy has budgets that can be chosen
    /// and `else_stated` is false; even ones otherwise.
    pub(super) fn settle_share(&mut self, else_stated: bool) {
        let budgets = matches!(self.policy, Policy::Memguard | Policy::Any);
        let chosen = budgets && self.model() == Model::Sound && !else_stated;
        self.share.get_or_insert(if chosen { Share::Optimal } else { Share::Even });
    }

    /// Is a used-up budget charged?
    pub fn carries_in(&self) -> bool {
        self.carry_in.unwrap_or(self.model() == Model::Sound)
    }
}

impl Default for Regulation {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            period: Time::from_ns(1_000_000),
            share: None,
            model: None,
            carry_in: None,
            active_cores: None,
            objective: None,
            slowdown_permille: None,
            pages: Pages::default(),
            other_programs: false,
            reclaim: false,
            sharing: Sharing::None,
            lock_bandwidth: None,
            lock: Holders::Sections,
            skid: 0,
        }
    }
}

pub(super) fn check_regulation(regulation: &Regulation, platform: &Platform) -> Result<(), String> {
    if regulation.policy == Policy::Maracas && regulation.share() == Share::Explicit {
        return Err("[regulation] share = \"explicit\" states budgets of cores, and policy = \
            \"maracas\" has no budgets of cores; remove share, and give [[vcpu]] tables"
            .to_owned());
    }
    if regulation.policy == Policy::Bwlock && regulation.share() == Share::Explicit {
        return Err("[regulation] share = \"explicit\" states budgets of cores, and policy = \
            \"bwlock\" has no budgets of cores; remove share, and give lock_bandwidth"
            .to_owned());
    }
    if regulation.lock_bandwidth.is_some() && regulation.policy != Policy::Bwlock {
        return Err(
            "[regulation] lock_bandwidth needs policy = \"bwlock\"; set that, or remove it"
                .to_owned(),
        );
    }
    if !regulation.lock.is_sections() && regulation.policy != Policy::Bwlock {
        return Err(
            "[regulation] lock = \"jobs\" needs policy = \"bwlock\"; set that, or remove it"
                .to_owned(),
        );
    }
    if !regulation.lock.is_sections() && regulation.model() == Model::Sce {
        return Err(
            "[regulation] lock = \"jobs\" needs model = \"sound\", because eq. (1) has no lock; \
                remove model and carry_in, or lock"
                .to_owned(),
        );
    }
    if regulation.other_programs && regulation.policy != Policy::Memguard {
        return Err(
            "[regulation] other_programs = true needs policy = \"memguard\", because budgets \
            limit programs outside of the plan; set that, or remove it"
                .to_owned(),
        );
    }
    let stops = regulation.policy == Policy::Memguard || !regulation.lock.is_sections();
    if regulation.skid > 0 && !stops {
        return Err(
            "[regulation] skid is for budgets of policy = \"memguard\", or beside lock = \"jobs\"; \
                set one of these, or remove it"
                .to_owned(),
        );
    }
    if regulation.skid > 0 && regulation.model() == Model::Sce {
        return Err(
            "[regulation] skid needs model = \"sound\", because eq. (1) cannot include it; \
            remove model and carry_in, or skid"
                .to_owned(),
        );
    }
    if regulation.skid > MOST_SKID {
        return Err(format!(
            "[regulation] skid = {} is more than the accesses that a core can make before it \
                stops; give at most {MOST_SKID}, a few hundred are usual",
            regulation.skid
        ));
    }
    if regulation.policy == Policy::Dynamic && regulation.share() == Share::Explicit {
        return Err("[regulation] share = \"explicit\" states budgets of cores, and policy = \
            \"dynamic\" has no budgets of cores; remove share"
            .to_owned());
    }
    check_objective(regulation)?;
    if regulation.model == Some(Model::Sound) && regulation.carry_in == Some(false) {
        return Err(
            "[regulation] carry_in = false belongs to eq. (1), that is model = \"sce\"; remove \
                carry_in, or model = \"sound\""
                .to_owned(),
        );
    }
    if !regulation.period.ps().is_multiple_of(1000) {
        return Err(format!(
            "[regulation] period = {} is not a whole number of nanoseconds; 1 ms is usual",
            regulation.period
        ));
    }
    if regulation.period.ps() < platform.dram.latency_max.ps() {
        return Err(format!(
            "[regulation] period = {} is shorter than one memory access ({}); 1 ms is usual",
            regulation.period, platform.dram.latency_max
        ));
    }
    if regulation.period.ps() > 1_000_000_000_000 {
        return Err(format!(
            "[regulation] period = {} is above one second; 1 ms is usual",
            regulation.period
        ));
    }
    match regulation.active_cores {
        Some(n) if n == 0 || n > platform.cores => Err(format!(
            "[regulation] active_cores = {n}, but {} has {} cores; give 1 to {}",
            platform.name, platform.cores, platform.cores
        )),
        _ => Ok(()),
    }
}

/// Checks the rule for pages; `placing`: partitions or levels decide places and times.
pub(super) fn check_placing(regulation: &Regulation, placing: bool) -> Result<(), String> {
    let keys = [
        (!regulation.pages.is_own(), "pages = \"anywhere\""),
        (regulation.other_programs, "other_programs = true"),
        (regulation.reclaim, "reclaim = true"),
        (!regulation.sharing.is_none(), "sharing"),
    ];
    match keys.into_iter().find(|(stated, _)| *stated && placing) {
        Some((_, key)) => Err(format!(
            "[regulation] {key} is for plans without [[partition]]s and [levels], because these \
            decide the places of tasks and pages; remove it"
        )),
        None => Ok(()),
    }
}

/// Checks optimal shares and their objective.
fn check_objective(regulation: &Regulation) -> Result<(), String> {
    let optimal = regulation.share() == Share::Optimal;
    if regulation.policy == Policy::Any && !optimal {
        return Err(
            "[regulation] policy = \"any\" is for at most 64 tasks without [[core]], [[partition]] \
                and model = \"sce\"; remove share and these, or state a policy"
                .to_owned(),
        );
    }
    if optimal && !matches!(regulation.policy, Policy::Memguard | Policy::Any) {
        return Err(
            "[regulation] share = \"optimal\" chooses budgets of policy = \"memguard\"; set that, \
                or remove it"
                .to_owned(),
        );
    }
    if optimal && regulation.model() == Model::Sce {
        return Err(
            "[regulation] share = \"optimal\" needs model = \"sound\"; remove model and carry_in, \
                or set share = \"even\""
                .to_owned(),
        );
    }
    let of_jobs = !regulation.lock.is_sections() || regulation.policy == Policy::Dynamic;
    if regulation.slowdown_permille.is_some() && !optimal && !of_jobs {
        return Err(
            "[regulation] slowdown needs share = \"optimal\", lock = \"jobs\" or policy = \
            \"dynamic\"; set one of these, or remove it"
                .to_owned(),
        );
    }
    match regulation.objective {
        Some(o) if o.of_shares() && !optimal => {
            Err("[regulation] objective = \"best_effort\", \"margin\" or \"bounds\" needs share = \
                \"optimal\"; set that, or remove it"
                .to_owned())
        }
        Some(o) if !o.of_shares() && regulation.policy != Policy::Dynamic => {
            Err("[regulation] objective = \"max_min\" or \"total_bandwidth\" needs policy = \
                \"dynamic\"; remove it"
                .to_owned())
        }
        _ => Ok(()),
    }
}
