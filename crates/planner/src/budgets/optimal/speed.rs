//! Speed of best-effort programs beside given budgets.
//!
//! Rule: a best-effort program has a part of its core's time, a part of the accesses that the
//! core's budget leaves, and a part of the ways without locked pages. Its speed is its number of
//! jobs a second under these limits, relative to the program alone on the machine. The speed is an
//! estimate to compare plans; nothing is promised.

use super::candidate::Candidate;
use crate::core_plan::{CorePlan, TaskPlan};
use crate::demand::{Demand, inside_ps};
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::interference::Budget;
use solocore_model::platform::Pace;
use std::borrow::Borrow;

/// Demand of a best-effort job.
#[derive(Debug)]
pub struct Need {
    /// Its number in the system.
    pub task: usize,
    /// By ways, from none on: time alone on the slowest core in ps, and DRAM accesses.
    by_ways: Vec<(f64, f64)>,
    /// See [`Need::most_on`], by core.
    most: Vec<f64>,
    /// Part of its accesses that are writes; one half where that is not known.
    writes: f64,
}

impl Need {
    /// The demand of a best-effort task.
    pub fn of(task: usize, w: &Work, r: &Resources) -> Self {
        let (reads, writes) = w.demand.kinds(0);
        let all = reads as f64 + writes as f64;
        let period = r.regulation.period_ps as f64;
        let on = |core: u32| most(&by_ways(w, r, r.platform.pace_of(core)), period);
        Self {
            task,
            by_ways: by_ways(w, r, r.platform.slowest_pace()),
            most: (0..r.cores).map(on).collect(),
            writes: if all > 0.0 { writes as f64 / all } else { 0.5 },
        }
    }

    /// Do its numbers depend on its ways?
    pub fn has_ways(&self) -> bool {
        self.by_ways.len() > 1
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

    /// Accesses in a period beyond which it is no faster with this part of the time, and ways of
    /// its own.
    pub fn enough(&self, time: f64, period_ps: f64, ways: u32) -> f64 {
        let (work, misses) = self.with(ways);
        time * period_ps * misses / work.max(1.0)
    }

    /// Accesses of a budget that it can use, with its part of writes.
    fn usable(&self, budget: Budget) -> f64 {
        match budget {
            Budget::Together(all) => all as f64,
            Budget::Apart { reads, writes } => {
                let of = |budget: u64, part: f64| {
                    if part > 0.0 { budget as f64 / part } else { f64::INFINITY }
                };
                of(reads, 1.0 - self.writes).min(of(writes, self.writes))
            }
        }
    }

    /// Accesses in a period beyond which a larger budget has no effect on a core, at the core's own
    /// pace.
    pub fn most_on(&self, core: u32) -> f64 {
        self.most.get(core as usize).copied().unwrap_or(1.0)
    }

    /// The same on the core where it can use most.
    pub fn most(&self) -> f64 {
        self.most.iter().copied().fold(1.0, f64::max)
    }
}

/// By ways, from none on: time alone at this pace in ps, and DRAM accesses.
fn by_ways(w: &Work, r: &Resources, pace: Pace) -> Vec<(f64, f64)> {
    let Demand::Profiled { profile, .. } = w.demand else {
        return vec![(w.wcet_with(0, r, pace) as f64, w.misses(0, r) as f64)];
    };
    let inside = inside_ps(profile, &r.platform, pace) as f64;
    let hit = r.platform.row_hit().ps() as f64;
    let all = std::iter::once(profile.llc_accesses()).chain(profile.by_ways.iter().copied());
    all.map(|n| (inside + n as f64 * hit, n as f64)).collect()
}

/// Accesses in a period of a program that nothing holds up, with the ways with which it makes most.
fn most(by_ways: &[(f64, f64)], period_ps: f64) -> f64 {
    let rate = |(work, misses): &(f64, f64)| period_ps * misses / work.max(1.0);
    by_ways.iter().map(rate).fold(1.0, f64::max)
}

/// The share of a best-effort program on its core, without the core's budget.
#[derive(Debug)]
pub struct Share<'n> {
    need: &'n Need,
    /// Its core.
    pub core: u32,
    /// Part of the core's time.
    time: f64,
    /// Accesses of the analysed tasks in a period, on average.
    taken: f64,
    /// Programs on the core.
    programs: f64,
    /// Ways of its own.
    ways: u32,
}

impl<'n> Share<'n> {
    /// Those of all programs, with the pages that the cores lock.
    pub fn all<P: Borrow<CorePlan>>(
        needs: &'n [Need],
        work: &[Work],
        candidate: &Candidate,
        cores: &[P],
        r: &Resources,
    ) -> Vec<Self> {
        let period = r.regulation.period_ps as f64;
        let of = |need: &'n Need| {
            let core = candidate.placement[need.task];
            let plan = cores[core as usize].borrow();
            let programs = candidate.best_effort(core, work);
            let hard = || plan.tasks().iter().filter(|t| work[t.index].hard());
            let locked: usize = hard().map(|t| t.locked).sum();
            let per_way = (r.platform.pages_per_way() as usize).max(1);
            // Of a cache that all cores share, about an even part.
            let own =
                if r.pages.is_own() { r.ways_of(core) } else { r.platform.llc.ways / r.cores };
            let ways =
                own.saturating_sub(u32::try_from(locked.div_ceil(per_way)).unwrap_or(u32::MAX));
            let rate = |n: u64, t: &TaskPlan| {
                n as f64 / work[t.index].task.period.map_or(f64::INFINITY, |p| p.ps() as f64)
            };
            // Average time of the analysed jobs: their time alone, and their accesses.
            let time = 1.0 - hard().map(|t| rate(t.wcet_ps, t)).sum::<f64>();
            let taken = hard().map(|t| rate(t.misses, t) * period).sum::<f64>();
            Self {
                need,
                core,
                time: time.max(0.0) / programs as f64,
                taken,
                programs: programs as f64,
                ways: ways / (programs as u32).max(1),
            }
        };
        needs.iter().map(of).collect()
    }

    /// Accesses of each program of its core in a period at which an access begins to be worth more
    /// or less.
    pub fn turns(&self, period_ps: f64) -> [f64; 2] {
        let taken = self.taken / self.programs;
        [taken, taken + self.need.enough(self.time, period_ps, self.ways)]
    }

    /// Speed where each program of its core has this many accesses in a period.
    pub fn speed_of(&self, each: f64, period_ps: f64) -> f64 {
        let accesses = (each - self.taken / self.programs).max(0.0);
        self.need.speed(self.time, accesses, period_ps, self.ways)
    }

    /// Speed with the core's budget in `r`; 1 is the speed alone on the machine.
    pub fn speed(&self, r: &Resources) -> f64 {
        let budget = self.need.usable(r.budget(self.core));
        let accesses = (budget - self.taken).max(0.0) / self.programs;
        self.need.speed(self.time, accesses, r.regulation.period_ps as f64, self.ways)
    }
}

/// Mean speed of the best-effort programs.
pub fn mean(shares: &[Share], r: &Resources) -> f64 {
    if shares.is_empty() {
        return 0.0;
    }
    shares.iter().map(|share| share.speed(r)).sum::<f64>() / shares.len() as f64
}

#[cfg(test)]
mod tests {
    use crate::budgets::optimal::problem::Problem;
    use crate::demand::Demand;
    use crate::resources::Resources;
    use crate::work::Work;
    use solocore_model::Profile;
    use solocore_model::System;
    use solocore_model::platform::CoreType;
    use solocore_model::system::Objective;
    use solocore_model::units::Frequency;
    use std::path::{Path, PathBuf};

    /// A core of four times the clock lets a program make almost three times the accesses. With the
    /// numbers of the slowest core, twice these would be less than the program can use there.
    #[test]
    fn a_program_can_use_more_on_a_faster_core() {
        let text = "platform = \"core-i5-2500k\"\n[[task]]\nname = \"d\"\ncriticality = \"D\"\n\
            command = [\"p\"]\n";
        let mut system = System::parse(Path::new("system.toml"), text).unwrap();
        let slow = system.platform.frequency;
        system.platform.core_types = vec![
            CoreType::of_clock("big", vec![3], Frequency(4 * slow.0)),
            CoreType::of_clock("little", vec![0, 1, 2], slow),
        ];
        let text = r#"{"format":"solocore-profile/1","command":["p"],"isa":"x86_64",
            "engine":"qemu","platform":"p","geometry":"g","exit_code":0,"instructions":1,
            "loads":0,"stores":0,"references":0,"threads":1,"children":0,"exec":null,"levels":[],
            "private_cycles":33000000,"working_set":{"pages":0,"lines":0,"bytes":0},
            "lockdown":[100000],"by_ways":[100000],"pages":[],"functions":[],
            "bandwidth":{"interval_ns":1,"bytes_per_s":[]},"trace":null}"#;
        let profile: Profile = serde_json::from_str(text).unwrap();
        let demand = Demand::Profiled { path: PathBuf::from("p.json"), profile: Box::new(profile) };
        let work = [Work { task: &system.tasks[0], demand: &demand, priority: 1 }];
        let base = Resources::of(&system).unwrap();
        let problem = Problem::new(&work, base, Objective::BestEffort, None);
        let [on_slow, on_fast] = [0, 3].map(|core| problem.usable(core, &[0]));
        assert!(on_fast > 2 * on_slow, "{on_fast} {on_slow}");
        assert!(2 * problem.most >= on_fast && problem.most > on_slow, "{}", problem.most);
    }
}
