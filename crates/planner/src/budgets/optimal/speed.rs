//! Speed of best-effort programs beside given budgets.
//!
//! Rule: a best-effort program has a part of its core's time, a part of the accesses that the
//! core's budget leaves, and a part of the ways without locked pages. Its speed is its number of
//! jobs a second under these limits, relative to the program alone on the machine. The speed is an
//! estimate to compare plans; nothing is promised.

use crate::demand::{Demand, inside_ps};
use crate::resources::Resources;
use crate::work::Work;

/// Demand of a best-effort job.
#[derive(Debug)]
pub struct Need {
    /// Its number in the system.
    pub task: usize,
    /// By ways, from none on: time alone in ps, and DRAM accesses.
    by_ways: Vec<(f64, f64)>,
}

impl Need {
    /// The demand of a best-effort task.
    pub fn of(task: usize, w: &Work, r: &Resources) -> Self {
        let hit = r.platform.row_hit().ps() as f64;
        let by_ways = match w.demand {
            Demand::Profiled { profile, .. } => {
                let inside = inside_ps(profile, &r.platform) as f64;
                let all =
                    std::iter::once(profile.llc_accesses()).chain(profile.by_ways.iter().copied());
                all.map(|n| (inside + n as f64 * hit, n as f64)).collect()
            }
            _ => vec![(w.wcet_ps(0, r) as f64, w.misses(0, r) as f64)],
        };
        Self { task, by_ways }
    }

    fn with(&self, ways: u32) -> (f64, f64) {
        let at = (ways as usize).min(self.by_ways.len() - 1);
        self.by_ways[at]
    }

    /// Speed with this part of the time, these accesses in a period, and ways of its own; 1 is the
    /// speed alone on the machine.
    pub fn speed(&self, time: f64, accesses: f64, period_ps: f64, ways: u32) -> f64 {
        let (alone, _) = self.by_ways[self.by_ways.len() - 1];
        let (work, misses) = self.with(ways);
        let by_time = time * alone / work.max(1.0);
        if misses > 0.0 { by_time.min(accesses / period_ps * alone / misses) } else { by_time }
    }

    /// Accesses in a period beyond which a larger budget has no effect.
    pub fn most(&self, period_ps: f64) -> f64 {
        self.by_ways
            .iter()
            .map(|(work, misses)| period_ps * misses / work.max(1.0))
            .fold(1.0, f64::max)
    }
}
