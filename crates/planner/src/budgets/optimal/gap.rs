//! Largest distance of a choice from the best one.
//!
//! Rule: no choice exceeds the value of every task alone on the fastest core, with all pages locked
//! and no other core at work. The gap is the difference to that value. A choice that misses a
//! deadline or the wanted slowdown has the largest gap: that no choice keeps it is not proved. Does
//! not cover: a closer bound.

use super::outcome::Value;
use super::problem::Problem;
use crate::work::Work;
use solocore_model::system::Objective;

impl Problem<'_> {
    /// An upper bound on the objective over all choices.
    fn possible(&self) -> f64 {
        match self.objective {
            // No task is faster than alone, and together the tasks have at most the cores' time.
            Objective::BestEffort => {
                (f64::from(self.base.cores) / self.needs.len().max(1) as f64).min(1.0)
            }
            // With every page locked, and no other core at all.
            Objective::Margin => {
                let least = |w: &Work| {
                    self.fastest_ps(w) as f64
                        / w.task.deadline.map_or(f64::INFINITY, |d| d.ps() as f64)
                };
                -self.work.iter().filter(|w| w.hard()).map(least).fold(0.0, f64::max)
            }
            _ => {
                let least =
                    |(w, alone): (&Work, &u64)| self.fastest_ps(w) as f64 / (*alone).max(1) as f64;
                -self
                    .work
                    .iter()
                    .zip(&self.alone)
                    .filter(|(w, _)| w.hard())
                    .map(least)
                    .fold(0.0, f64::max)
            }
        }
    }

    /// Time of a job that no choice goes below, ps.
    fn fastest_ps(&self, w: &Work) -> u64 {
        w.wcet_with(usize::MAX, &self.base, self.base.platform.fastest_pace())
    }

    /// See [`super::Why::gap`]. Where a deadline or the wanted slowdown is missed, another choice
    /// may keep it, and the objective says nothing.
    pub fn gap(&self, value: &Value) -> f64 {
        let possible = self.possible();
        if !value.keeps_wish() || possible == 0.0 {
            return 1.0;
        }
        // The inverse, as this objective is to be small.
        let part =
            if possible > 0.0 { value.objective / possible } else { possible / value.objective };
        (1.0 - part).clamp(0.0, 1.0)
    }
}
