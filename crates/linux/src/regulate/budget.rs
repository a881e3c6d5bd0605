//! A CPU's budget in whole samples, and the user's options for it.
//!
//! Rule: the counter interrupts every `sample` accesses; the sample divides the budget, so that the
//! error of counting is one-sided (bpf/core.h). Where writes are counted apart, each kind has a
//! budget and a sample of its own.

use super::event::Event;
use super::handover::Budgets;
use super::shared::{Counts, UNLIMITED};
use crate::error::LinuxError;
use solocore_model::Plan;
use solocore_model::plan::PlanCore;
use solocore_model::run::{RunCore, RunSpan, RunWrites};
use solocore_model::system::{self, Policy};

/// Largest budget (`SC_MAX_ACCESSES`).
const MOST_ACCESSES: u64 = 0xffff_ffff;
/// Shortest time between two accesses of a core, ns: lines of 64 bytes at 32 GB/s. Assumed; a
/// channel of the fastest memory of the presets takes 2.5 ns for a line.
const FASTEST_ACCESS_NS: u64 = 2;
/// Shortest time between two interrupts of a counter, ns. Assumed: one that runs a BPF program
/// takes longer.
const SHORTEST_INTERRUPT_NS: u64 = 500;
/// Accesses that the fastest core makes in that time.
const LEAST_FREE_SAMPLE: u64 = SHORTEST_INTERRUPT_NS / FASTEST_ACCESS_NS;

/// Use of the remaining time when every core has used its budget up (memguard.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// They wait for the next period.
    #[default]
    None,
    /// All go on without limit until the period ends.
    Spare,
    /// Each gets another budget.
    Proportional,
}

/// The user's options beside the plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// Event that counts accesses.
    pub event: Event,
    /// Accesses per interrupt; none: about an eighth of each budget.
    pub sample: Option<u64>,
    /// Whether cores may use the part of other cores' budgets that these are not predicted to use.
    pub reclaim: bool,
    /// Use of the remaining time.
    pub sharing: Sharing,
    /// Policy `bwlock`: longest time for which a section counts, ns; 0: no limit.
    pub max_hold_ns: u64,
    /// Event that counts writes, if this machine can count them.
    pub write_event: Option<Event>,
    /// Whether to count writes also where the plan gives them no budget.
    pub count_writes: bool,
    /// Whether to enforce the plan's write budgets.
    pub write_budgets: bool,
    /// The plan's skid: a core is stopped at its budget or at most this number of accesses later;
    /// 0: at its budget or up to a sample before.
    pub skid: u64,
}

impl Options {
    /// The user's rule for the remaining time; without one, the plan's.
    pub(super) fn sharing_of(&self, plan: &Plan) -> Sharing {
        match (self.sharing, plan.regulation.sharing) {
            (Sharing::None, system::Sharing::None) => Sharing::None,
            (Sharing::None, system::Sharing::Spare) => Sharing::Spare,
            (Sharing::None, system::Sharing::Proportional) => Sharing::Proportional,
            (stated, _) => stated,
        }
    }

    /// Do cores exceed their budgets in a way that the plan does not have? Its bounds do not depend
    /// on the rule for the remaining time.
    pub(super) fn beyond(&self, plan: &Plan) -> bool {
        let shares = self.sharing != Sharing::None && plan.regulation.sharing.is_none();
        shares || (self.reclaim && !plan.regulation.reclaim)
    }

    /// The default options with an event.
    #[must_use]
    pub fn of(event: Event) -> Self {
        Self {
            event,
            sample: None,
            reclaim: false,
            sharing: Sharing::None,
            max_hold_ns: 0,
            write_event: None,
            count_writes: false,
            write_budgets: true,
            skid: 0,
        }
    }
}

/// A CPU's budget of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct WriteBudget {
    /// Writes per period of the plan.
    pub write_planned: u64,
    /// The enforced budget: the planned one, rounded down to whole samples.
    pub write_budget: u64,
    /// Writes per interrupt.
    pub write_sample: u64,
}

/// A CPU's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct CoreBudget {
    /// Number of the CPU.
    pub cpu: u32,
    /// Accesses per period of the plan.
    pub planned: u64,
    /// The enforced budget in whole samples: rounded down, or with a skid rounded up and one more,
    /// because a core is stopped up to a sample before.
    pub budget: u64,
    /// Accesses per interrupt.
    pub sample: u64,
    /// Accesses beyond its budget that a period may have without counting as over it.
    pub tolerance: u64,
    /// Budget of writes, where they are counted apart; the fields above are for reads then.
    #[serde(flatten)]
    pub writes: Option<WriteBudget>,
}

impl CoreBudget {
    /// The enforced budgets, for a handover.
    pub(crate) fn enforced(&self) -> Budgets {
        let writes = self.writes.map_or(UNLIMITED, |w| w.write_budget);
        Budgets { accesses: self.budget, writes }
    }

    /// Most accesses of a period that does not count as over its budget.
    pub(crate) fn most(&self) -> u64 {
        self.budget.saturating_add(self.tolerance)
    }

    /// The CPU in a run's result: its budget and its counts.
    #[must_use]
    pub fn seen(&self, counts: &Counts, period_ns: u64, series: Vec<RunSpan>) -> RunCore {
        let periods = counts.periods.saturating_add(counts.periods_skipped).max(1);
        let writes = self.writes.zip(counts.writes).map(|(b, c)| RunWrites {
            write_planned: b.write_planned,
            write_budget: b.write_budget,
            write_sample: b.write_sample,
            writes: c.writes,
            max_writes_per_period: c.max_writes_per_period,
            periods_over_write_budget: c.periods_over_write_budget,
            writes_reported_late: c.writes_reported_late,
        });
        RunCore {
            cpu: self.cpu,
            planned: self.planned,
            budget: self.budget,
            sample: self.sample,
            tolerance: self.tolerance,
            periods: counts.periods,
            throttled_periods: counts.throttled_periods,
            throttled_ns: counts.throttled_ns,
            throttled_share: counts.throttled_ns as f64 / (periods as f64 * period_ns as f64),
            accesses: counts.accesses,
            max_accesses_per_period: counts.max_accesses_per_period,
            periods_over_budget: counts.periods_over_budget,
            periods_skipped: counts.periods_skipped,
            accesses_reported_late: counts.accesses_reported_late,
            longest_period_ns: counts.longest_period_ns,
            times_held: counts.times_held,
            writes,
            split: counts.split,
            series,
            ..RunCore::default()
        }
    }
}

/// The sample and the budget in whole samples.
pub(super) fn core_budget(
    cpu: u32,
    planned: u64,
    options: &Options,
) -> Result<CoreBudget, LinuxError> {
    let least = options.event.least_sample();
    if planned > MOST_ACCESSES {
        let (budget, sample) = (UNLIMITED, 1 << 20);
        return Ok(CoreBudget { cpu, planned, budget, sample, tolerance: sample, writes: None });
    }
    // With a skid, half of it is for the two samples that an overflow may come late.
    let most = if options.skid > 0 { (options.skid / 4).max(1) } else { u64::MAX };
    let chosen = || choose_sample(planned).min(most).max(least);
    let sample = options.sample.unwrap_or_else(chosen);
    if sample < least {
        return Err(LinuxError::Input(format!(
            "--sample {sample} is below the {least} that the event {} allows; give more",
            options.event.name()
        )));
    }
    in_samples(cpu, planned, sample, options.skid)
}

/// A budget in whole samples.
fn in_samples(cpu: u32, planned: u64, sample: u64, skid: u64) -> Result<CoreBudget, LinuxError> {
    if planned < sample {
        return Err(LinuxError::Input(format!(
            "core {cpu}: its budget of {planned} accesses per period is below one sample \
                ({sample}); give the core more bandwidth"
        )));
    }
    let of =
        |budget, tolerance| CoreBudget { cpu, planned, budget, sample, tolerance, writes: None };
    if skid == 0 {
        return Ok(of(planned / sample * sample, sample));
    }
    let budget = planned.next_multiple_of(sample).saturating_add(sample);
    let most = planned.saturating_add(skid);
    if budget > most {
        return Err(LinuxError::Input(format!(
            "core {cpu}: two samples of {sample} accesses are more than the plan's skid of {skid}; \
                give a lower --sample, or plan with [regulation] skid = {} or more",
            4 * sample
        )));
    }
    Ok(of(budget, most - budget))
}

/// Whether counters can take other samples while they go on (`handover`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    /// They keep theirs.
    Stay,
    /// Where old and new budget differ by both samples or more.
    Apart,
    /// Where both samples together are less than the larger budget, because the CPU may have less
    /// than both budgets for a moment.
    Beside,
    /// They always take the new ones.
    Any,
}

/// The budget of a CPU in another plan, for counters that go on. `new` has the sample that a run
/// would begin with. The counter of accesses takes it where `samples` allows that. Else each
/// counter keeps its present sample, if that loses at most a fifth of the budget.
pub(super) fn counted_on(
    old: &CoreBudget,
    new: &CoreBudget,
    skid: u64,
    samples: Samples,
) -> Result<CoreBudget, LinuxError> {
    let cpu = old.cpu;
    let again = |why: &str| {
        LinuxError::Machine(format!(
            "core {cpu}: {why}; end the run and start it with the new plan"
        ))
    };
    let counted = |(budget, sample): (u64, u64), planned: u64, other: u64| {
        if (budget == UNLIMITED) != (other == UNLIMITED) {
            return Err(again("a limit of the core comes or goes, which needs another sample"));
        }
        if budget == UNLIMITED {
            let tolerance = sample;
            return Ok(CoreBudget { cpu, planned, budget, sample, tolerance, writes: None });
        }
        let counted = in_samples(cpu, planned, sample, skid)?;
        if counted.budget < planned / 5 * 4 {
            return Err(again(&format!(
                "the present sample of {sample} accesses would round its new budget of {planned} \
                    down to {}",
                counted.budget
            )));
        }
        Ok(counted)
    };
    let both = old.sample.saturating_add(new.sample);
    let limited = old.budget != UNLIMITED && new.budget != UNLIMITED;
    let takes = match samples {
        Samples::Stay => false,
        Samples::Apart => old.budget.abs_diff(new.budget) >= both,
        Samples::Beside => old.sample != new.sample && old.budget.max(new.budget) > both,
        Samples::Any => true,
    };
    let accesses = if limited && takes {
        *new
    } else {
        counted((old.budget, old.sample), new.planned, new.budget)?
    };
    let writes = match (old.writes, new.writes) {
        (None, None) => None,
        (Some(was), Some(new)) => {
            let of = (was.write_budget, was.write_sample);
            let writes =
                counted(of, new.write_planned, new.write_budget).map_err(|e| e.of("writes"))?;
            Some(WriteBudget {
                write_budget: writes.budget,
                write_planned: new.write_planned,
                ..was
            })
        }
        _ => return Err(again("its writes come to be counted apart, or no longer are")),
    };
    Ok(CoreBudget { writes, ..accesses })
}

/// The event for writes, where they are to be counted.
pub(super) fn write_event(plan: &Plan, options: &Options) -> Result<Option<Event>, LinuxError> {
    let planned = plan
        .cores
        .iter()
        .find(|c| c.write_budget_accesses.is_some())
        .filter(|_| options.write_budgets);
    if plan.regulation.policy != Policy::Memguard {
        let Some(event) = options.write_event.as_ref().filter(|_| options.count_writes) else {
            return Ok(None);
        };
        return Err(LinuxError::Input(format!(
            "--write-event {}: writes are counted apart under policy = \"memguard\" only; leave it \
                out",
            event.name()
        )));
    }
    match (planned, &options.write_event) {
        (Some(core), None) => Err(LinuxError::Machine(format!(
            "the plan gives core {} a budget of writes, and the table of events has none for those \
                of this CPU; give its event of write-backs as --write-event rHEX, or \
                --no-write-budgets",
            core.id
        ))),
        (None, _) if !options.count_writes => Ok(None),
        (_, event) => Ok(event.clone()),
    }
}

/// A core's budget for reads, and that for writes where they are counted apart.
pub(super) fn with_writes(
    core: &PlanCore,
    planned: u64,
    event: Option<&Event>,
    options: &Options,
) -> Result<CoreBudget, LinuxError> {
    let Some(event) = event else { return core_budget(core.id, planned, options) };
    let share = core.write_budget_accesses.filter(|_| options.write_budgets);
    let of_event = Options { event: event.clone(), sample: None, ..options.clone() };
    let writes =
        core_budget(core.id, share.unwrap_or(UNLIMITED), &of_event).map_err(|e| match e {
            LinuxError::Input(text) => LinuxError::Input(format!("writes: {text}")),
            other => other,
        })?;
    let reads = core_budget(core.id, planned.saturating_sub(share.unwrap_or(0)), options)?;
    let CoreBudget { planned, budget, sample, .. } = writes;
    let writes =
        Some(WriteBudget { write_planned: planned, write_budget: budget, write_sample: sample });
    Ok(CoreBudget { writes, ..reads })
}

/// Most interrupts in a period of a counter with this sample, at any number of accesses.
pub(super) fn most_interrupts(period_ns: u64, sample: u64) -> u64 {
    let apart_ns = sample.saturating_mul(FASTEST_ACCESS_NS).max(SHORTEST_INTERRUPT_NS);
    period_ns / apart_ns + 1
}

/// Least sample of a core that has no limit at the moment: it must not be interrupted all the time,
/// unless a quarter of its budget is less.
fn least_free_sample(planned: u64, options: &Options) -> u64 {
    LEAST_FREE_SAMPLE.min(planned / 4).max(options.event.least_sample())
}

/// As [`core_budget`], for a budget that does not hold all the time. Meanwhile accesses are as fast
/// as the memory allows. A stated sample must leave a core time between its interrupts, unless a
/// quarter of the budget is less.
pub(super) fn free_budget(
    cpu: u32,
    planned: u64,
    options: &Options,
) -> Result<CoreBudget, LinuxError> {
    let least = least_free_sample(planned, options);
    let stated = options.sample.filter(|&sample| sample < least && !options.event.is_software());
    if let Some(sample) = stated {
        return Err(LinuxError::Input(format!(
            "--sample {sample}: a core that has no limit at the moment may make {sample} accesses \
                in {} ns, and an interrupt takes {SHORTEST_INTERRUPT_NS}; give {least} or more",
            sample.saturating_mul(FASTEST_ACCESS_NS)
        )));
    }
    core_budget(cpu, planned, options)
}

/// A note for the user where budgets of [`free_budget`] have samples of so few accesses that
/// interrupts can take all the time of a fast core.
pub(super) fn crowded(cores: &[CoreBudget], event: &Event) -> Option<String> {
    let sample = cores.iter().map(|c| c.sample).min()?;
    let few = sample < LEAST_FREE_SAMPLE && !event.is_software();
    few.then(|| {
        format!(
            "a CPU that has no limit at the moment is interrupted after each {sample} accesses \
                while there are clients. One that makes {} in a microsecond has no time for \
                programs then: plan with a larger budget",
            sample.saturating_mul(1000) / SHORTEST_INTERRUPT_NS
        )
    })
}

/// As [`with_writes`], for a budget that holds only while a program holds the bandwidth lock.
/// Without the lock, a counter should not interrupt every few hundred accesses. `bounds`: response
/// times rest on it.
pub(super) fn lock_budget(
    (cpu, bounds): (u32, bool),
    planned: u64,
    options: &Options,
) -> Result<CoreBudget, LinuxError> {
    let half = (planned / 2).max(options.event.least_sample());
    let least = least_free_sample(planned, options);
    let chosen = match options.skid {
        0 if bounds => choose_sample(planned).max(least),
        0 => half,
        skid => (skid / 4).max(least),
    };
    let sample = options.sample.or((!options.event.is_software()).then_some(chosen));
    free_budget(cpu, planned, &Options { sample, ..options.clone() })
}

/// A sample of about an eighth of the budget. Among the samples from a sixteenth to a sixth of it,
/// the one that loses least by rounding the budget down; of several, the closest to an eighth.
pub(super) fn choose_sample(budget: u64) -> u64 {
    let eighth = (budget / 8).max(1);
    if budget > 4096 {
        return eighth;
    }
    let lost = |sample: u64| (budget % sample, sample.abs_diff(eighth));
    (budget.div_ceil(16).max(1)..=(budget / 6).max(1)).min_by_key(|&s| lost(s)).unwrap_or(eighth)
}
