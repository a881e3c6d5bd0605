//! The bounds and the verdict of shares that another method has chosen.
//!
//! Problem: methods of allocation can be compared only if one analysis judges them all. Rule: a
//! [`Judge`] knows the tasks of a system and its machine. It bounds the execution of a job beside
//! other cores, which is the input of such methods. It says whether every deadline is met with
//! given cores, ways and budgets. The rules are those of a plan: pages are locked where they save
//! most, and without best effort the jobs of the other cores are known. Not covered: budgets with a
//! part for writes, moves of budgets that a plan refuses (`reclaim`), and other schemes than
//! budgets.

use super::known::with_rivals;
use crate::core_plan::{CoreBounds, CorePlan};
use crate::error::PlanError;
use crate::resources::Resources;
use crate::work::Work;
use std::collections::HashMap;

/// The core of each task, and the share of each core.
#[derive(Debug, Clone)]
pub struct Allotment {
    /// Core of each task.
    pub placement: Vec<u32>,
    /// Ways of the shared cache, by core.
    pub ways: Vec<u32>,
    /// Accesses in a regulation period, by core.
    pub budgets: Vec<u64>,
    /// Locked pages by task, tried after the pages that save most; `None`: only those are tried.
    pub pages: Option<Vec<usize>>,
}

/// Judges allotments of one system.
#[derive(Debug)]
pub struct Judge<'a> {
    work: &'a [Work<'a>],
    even: Resources,
}

impl<'a> Judge<'a> {
    /// `even`: the machine with even shares.
    pub(crate) const fn new(work: &'a [Work<'a>], even: Resources) -> Self {
        Self { work, even }
    }

    /// The tasks, and the machine with even shares.
    pub(super) const fn parts(&self) -> (&'a [Work<'a>], &Resources) {
        (self.work, &self.even)
    }

    /// Budget of a core under even shares.
    #[must_use]
    pub fn even_budget(&self) -> u64 {
        self.even.budgets.as_ref().and_then(|b| b.first()).copied().unwrap_or(1)
    }

    /// Accesses in a regulation period that the budgets of all cores may have together, as in
    /// system files.
    #[must_use]
    pub fn bus(&self) -> u64 {
        self.even.stated_most()
    }

    /// Pages that a core with this number of ways can lock.
    #[must_use]
    pub fn pages_in(&self, ways: u32) -> u64 {
        self.even.lock_capacity_in(ways)
    }

    /// Stall that a core is charged once per busy window, ps; it does not depend on budgets.
    #[must_use]
    pub fn once_ps(&self) -> u64 {
        CoreBounds { core: 0, resources: &self.even }.once(true)
    }

    /// Execution time of a job beside the other cores, ps, by task and then by number of its locked
    /// pages. It is the time alone and the stall, without [`Judge::once_ps`]. `own`: budget of the
    /// task's core; `others`: budgets of the other cores. `None`: there is no bound.
    #[must_use]
    pub fn executions_ps(
        &self,
        own: u64,
        others: &[u64],
        pages: &[usize],
    ) -> Vec<Vec<Option<u64>>> {
        let budgets: Vec<u64> = std::iter::once(own).chain(others.iter().copied()).collect();
        let none = vec![None; budgets.len()];
        let resources = self.even.with_budgets(budgets, none);
        let bounds = CoreBounds { core: 0, resources: &resources };
        let of = |w: &Work, locked: usize| {
            let asked = w.asked(locked, &resources);
            let stall = bounds.stall(asked);
            (stall != u64::MAX).then(|| asked.work_ps.saturating_add(stall))
        };
        self.work.iter().map(|w| pages.iter().map(|&locked| of(w, locked)).collect()).collect()
    }

    /// Does every analysed task meet its deadline with these shares?
    ///
    /// # Errors
    /// [`PlanError`] where the allotment does not fit the system or the machine.
    pub fn meets(&self, allotment: &Allotment) -> Result<bool, PlanError> {
        self.check(allotment)?;
        let resources = self.with(allotment);
        let on = |core: u32| -> Vec<usize> {
            (0..self.work.len()).filter(|&t| allotment.placement[t] == core).collect()
        };
        let usual = (0..resources.cores).map(|c| CorePlan::best(c, on(c), self.work, &resources));
        if self.all_meet(usual.collect(), &resources) {
            return Ok(true);
        }
        let Some(pages) = &allotment.pages else { return Ok(false) };
        let locked: HashMap<usize, usize> = pages.iter().copied().enumerate().collect();
        let of = |c: u32| CorePlan::with_pages(c, &on(c), &locked, self.work, &resources);
        Ok(self.all_meet((0..resources.cores).map(of).collect(), &resources))
    }

    fn all_meet(&self, cores: Vec<CorePlan>, resources: &Resources) -> bool {
        let (cores, _) = with_rivals(cores, self.work, resources.clone());
        cores.iter().all(CorePlan::schedulable)
    }

    /// The machine with the shares of an allotment.
    fn with(&self, allotment: &Allotment) -> Resources {
        let mut resources = self.with_ways(allotment.ways.clone());
        resources.set_budgets(allotment.budgets.clone(), vec![None; allotment.budgets.len()]);
        resources
    }

    /// The machine with these ways of each core, for a verdict.
    pub(super) fn with_ways(&self, ways: Vec<u32>) -> Resources {
        let mut resources = self.even.clone();
        resources.set_ways(ways);
        resources.explicit = true;
        resources.verdict_only = true;
        resources
    }

    fn check(&self, allotment: &Allotment) -> Result<(), PlanError> {
        let (cores, tasks) = (self.even.cores, self.work.len());
        let refuse = |message: String| Err(PlanError(format!("the allotment {message}")));
        let Allotment { placement, ways, budgets, pages } = allotment;
        if placement.len() != tasks || pages.as_ref().is_some_and(|p| p.len() != tasks) {
            return refuse(format!("is not one of {tasks} tasks; list a core for each task"));
        }
        if [ways.len(), budgets.len()] != [cores as usize; 2] {
            return refuse(format!("is not one of {cores} cores; list a share for each core"));
        }
        if let Some(core) = placement.iter().find(|&&core| core >= cores) {
            return refuse(format!("uses core {core}; cores are numbered from 0 to {}", cores - 1));
        }
        let (sum, all) = (ways.iter().map(|&w| u64::from(w)).sum::<u64>(), self.ways());
        if sum > u64::from(all) {
            return refuse(format!("shares out {sum} ways; the cache has {all}"));
        }
        if budgets.contains(&0) {
            return refuse("has a budget of 0; give each core one access at least".to_owned());
        }
        for (core, &ways) in (0..).zip(ways) {
            let own = (0..tasks).filter(|&t| placement[t] == core);
            let locked: u64 =
                pages.iter().flat_map(|p| own.clone().map(move |t| p[t] as u64)).sum();
            let most = self.even.lock_capacity_in(ways);
            if locked > most {
                return refuse(format!("locks {locked} pages on core {core}; lock {most} at most"));
            }
        }
        Ok(())
    }

    /// Ways of the shared cache.
    #[must_use]
    pub const fn ways(&self) -> u32 {
        self.even.platform.llc.ways
    }

    /// Cores that run tasks.
    #[must_use]
    pub const fn cores(&self) -> u32 {
        self.even.cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::Demand;
    use crate::planning::{judge, plan};
    use solocore_model::System;
    use std::path::Path;

    /// Two tasks on two cores of a board with colours; with 80 pages locked, `t0` makes no access.
    fn system(share: &str) -> (System, Vec<Demand>) {
        let point = |k: u64| {
            let misses = (80 - k) * 1000;
            format!("{{ wcet = \"{} ns\", misses = {misses} }}", 1_000_000 + 110 * misses)
        };
        let curve: Vec<String> = (0..=80).map(point).collect();
        let text = format!(
            "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\n{share}\n\
             [[task]]\nname = \"t0\"\ncore = 0\nperiod = \"11 ms\"\ncurve = [{}]\n\
             [[task]]\nname = \"t1\"\ncore = 1\nperiod = \"40 ms\"\nwcet = \"8 ms\"\nmisses = 40000",
            curve.join(", ")
        );
        let system = System::parse(Path::new("system.toml"), &text).expect("a system");
        let demands = system.tasks.iter().filter_map(|t| Demand::stated(&t.demand)).collect();
        (system, demands)
    }

    fn allotment(ways: [u32; 4]) -> Allotment {
        Allotment {
            placement: vec![0, 1],
            ways: ways.to_vec(),
            budgets: vec![2000; 4],
            pages: None,
        }
    }

    fn asked<T>(ask: impl FnOnce(&Judge) -> T) -> T {
        let (system, demands) = system("share = \"even\"");
        judge(&system, &demands, ask).expect("even shares can be had")
    }

    /// Execution times fall with locked pages and rise with the others' budgets.
    #[test]
    fn executions_follow_pages_and_budgets() {
        asked(|judge| {
            let few = judge.executions_ps(2000, &[1000; 3], &[0, 40, 80]);
            let many = judge.executions_ps(2000, &[3000; 3], &[0, 40, 80]);
            let of = |table: &[Vec<Option<u64>>], at: usize| table[0][at].expect("a bound");
            assert!(of(&few, 0) > of(&few, 1) && of(&few, 1) > of(&few, 2));
            assert_eq!(of(&few, 2), 1_000_000_000, "without accesses there is no stall");
            assert!(of(&many, 1) > of(&few, 1));
            assert!(judge.bus() > 4000 && judge.once_ps() > 0);
        });
    }

    /// `t0` meets its deadline only where its core has the ways for its pages.
    #[test]
    fn the_verdict_depends_on_ways_and_pages() {
        asked(|judge| {
            let meets = |a: &Allotment| judge.meets(a).expect("it fits the machine");
            assert!(meets(&allotment([3, 3, 3, 3])));
            assert!(!meets(&allotment([1, 5, 3, 3])));
            let stated = Allotment { pages: Some(vec![0, 0]), ..allotment([1, 5, 3, 3]) };
            assert!(!meets(&stated));
        });
    }

    /// Even shares get the verdict of their plan.
    #[test]
    fn even_shares_are_judged_as_planned() {
        let (system, demands) = system("share = \"even\"");
        let planned = plan(&system, &demands).expect("even shares can be had");
        let budgets =
            planned.cores.iter().map(|c| c.budget_accesses.expect("a budget")).collect::<Vec<_>>();
        let even = Allotment { budgets, ..allotment([3, 3, 3, 3]) };
        assert_eq!(asked(|judge| judge.meets(&even).expect("it fits")), planned.schedulable);
    }

    /// An allotment that does not fit is refused with the reason.
    #[test]
    fn what_does_not_fit_is_refused() {
        let says = |a: Allotment| asked(|j| j.meets(&a).expect_err("refused").to_string());
        assert!(says(allotment([4, 4, 4, 1])).contains("shares out 13 ways"));
        let nowhere = Allotment { placement: vec![0, 4], ..allotment([3; 4]) };
        assert!(says(nowhere).contains("uses core 4"));
        let locked = Allotment { pages: Some(vec![80, 0]), ..allotment([1, 5, 3, 3]) };
        assert!(says(locked).contains("locks 80 pages on core 0; lock 48 at most"));
        let short = Allotment { placement: vec![0], ..allotment([3; 4]) };
        assert!(says(short).contains("2 tasks"));
        let nothing = Allotment { budgets: vec![1, 0, 1, 1], ..allotment([3; 4]) };
        assert!(says(nothing).contains("budget of 0"));
    }
}
