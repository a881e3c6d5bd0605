//! The question for which shares are chosen: what is the same for all candidates.
//!
//! Rule: best effort cannot come first where there is none; the objective is the margin then. Does
//! not cover: candidates.

use super::analysed::WHOLE;
use super::outcome::Value;
use super::speed::Need;
use crate::core_plan::TaskPlan;
use crate::resources::Resources;
use crate::work::Work;
use solocore_model::system::Objective;

/// Least accesses in a period that a counter's interrupts can enforce: `solocore run` counts by
/// samples of 100, and a budget must be several samples.
pub const LEAST: u64 = 800;
/// Accesses of a program in its busiest periods, relative to its average: an assumption, on which
/// only the speed of best effort depends.
const BURST: u64 = 2;

/// Values that are the same for all candidates.
#[derive(Debug)]
pub struct Problem<'a> {
    /// The tasks.
    pub work: &'a [Work<'a>],
    /// The machine, with even shares.
    pub base: Resources,
    /// The objective.
    pub objective: Objective,
    /// The wanted slowdown, in thousandths.
    pub wish: Option<u64>,
    /// Time alone on the slowest core with the whole cache, by task, ps.
    pub alone: Vec<u64>,
    /// Demands of the best-effort programs.
    pub needs: Vec<Need>,
    /// Accesses a period that no core can exceed.
    pub bus: u64,
    /// `t` beyond which no program gets faster.
    pub most: u64,
    /// `t` that other objectives keep for best effort.
    pub floor: u64,
}

impl<'a> Problem<'a> {
    pub fn new(
        work: &'a [Work<'a>],
        base: Resources,
        objective: Objective,
        wish: Option<u64>,
    ) -> Self {
        let period = base.regulation.period_ps;
        let needs: Vec<Need> = work
            .iter()
            .enumerate()
            .filter(|(_, w)| !w.hard())
            .map(|(t, w)| Need::of(t, w, &base))
            .collect();
        let bus = (period / base.platform.dram.t_burst.ps().max(1)).max(1);
        let most = needs.iter().map(Need::most).fold(0.0, f64::max).ceil() as u64;
        let most =
            if needs.is_empty() { period / base.platform.row_hit().ps().max(1) } else { most };
        let even = base.budgets.as_ref().and_then(|b| b.first()).copied().unwrap_or(1);
        // Best effort cannot come first where there is none and every core runs analysed tasks or
        // nothing.
        let objective = if objective == Objective::BestEffort && needs.is_empty() {
            Objective::Margin
        } else {
            objective
        };
        let alone = work.iter().map(|w| w.alone_ps(&base)).collect();
        Self {
            work,
            objective,
            wish,
            alone,
            needs,
            bus,
            most: most.clamp(1, bus),
            floor: (even / 4).max(1),
            base,
        }
    }

    /// Accesses a period that each of these best-effort programs can use on a core: [`BURST`] times
    /// those beyond which none of them gets faster on average, and no less than a counter can
    /// enforce.
    pub fn usable(&self, core: u32, programs: &[usize]) -> u64 {
        let of = self.needs.iter().filter(|need| programs.contains(&need.task));
        let most = of.map(|need| need.most_on(core)).fold(0.0, f64::max);
        BURST.saturating_mul(most.ceil() as u64).max(LEAST).min(self.bus)
    }

    /// The wanted slowdown as one of [`Limits`](super::analysed::Limits); the largest number: none.
    pub fn wished(&self) -> u64 {
        self.wish.map_or(u64::MAX, |wish| wish.saturating_mul(WHOLE / 1000))
    }

    /// Are verdicts all that is asked for?
    pub const fn quick(&self) -> bool {
        self.base.verdict_only
    }

    /// Bound of an execution beside the other cores, relative to the time alone.
    pub fn slowdown(&self, task: &TaskPlan) -> f64 {
        task.wcet_ps.saturating_add(task.stall_ps) as f64 / self.alone[task.index].max(1) as f64
    }

    /// The objective in words.
    pub fn objective_words(&self) -> &'static str {
        match self.objective {
            Objective::Margin => "the largest part of a deadline that a response takes",
            Objective::Bounds => "the largest slowdown that a bound allows",
            _ => "the speed of best effort",
        }
    }

    /// A value in words.
    pub fn words(&self, value: &Value) -> String {
        if !value.meets() {
            return "not schedulable".to_owned();
        }
        let missed = if value.keeps_wish() { "" } else { " (the wanted slowdown is missed)" };
        match self.objective {
            Objective::Margin => {
                format!("{:.1} % of the deadline{missed}", -100.0 * value.objective)
            }
            Objective::Bounds => format!("{:.3} times the time alone{missed}", -value.objective),
            _ => format!("{:.1} % of the speed alone, estimated{missed}", 100.0 * value.objective),
        }
    }

    /// Message that the wanted slowdown cannot be reached; `None` if it is.
    pub fn missed_wish(&self, value: &Value) -> Option<String> {
        let wish = self.wish.filter(|_| !value.keeps_wish())? as f64 / 1000.0;
        Some(format!(
            "slowdown: no candidate keeps all bounds within {wish} times the time alone; raise \
                [regulation] slowdown, set objective = \"bounds\" for the least there is, or use \
                fewer active_cores"
        ))
    }
}
