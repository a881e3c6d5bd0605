//! Each core's share of the machine.

use crate::alike::together;
use crate::error::PlanError;
use crate::lockable::lock_capacity;
use crate::{memory, writes};
use solocore_analysis::interference::{
    Budget, Costs, Job, Memory, Others, Requester, Rivals, Sharing, Stall,
};
use solocore_analysis::stall::Regulation;
use solocore_model::system::{Model, Pages, Policy, Share, stated_ways};
use solocore_model::{Bandwidth, Platform, System, Time};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The share of every core.
#[derive(Clone, Debug)]
pub struct Resources {
    /// Cores that may access memory (`m`).
    pub cores: u32,
    /// The numbers of the papers' bounds.
    pub regulation: Regulation,
    /// Accesses per period and core; `None` without regulation.
    pub budgets: Option<Vec<u64>>,
    /// The part of each core's budget for writes only; `None`: one budget for both kinds.
    pub write_budgets: Vec<Option<u64>>,
    /// Most accesses that a core makes beyond its budget, until it is stopped.
    pub skid: u64,
    /// Do budgets differ between cores?
    pub explicit: bool,
    /// Cores whose bandwidth the system file states; `None`: the planner chose all budgets.
    pub stated: Option<u32>,
    /// Does the papers' bound include the carry-in?
    pub carry_in: bool,
    /// The model of the memory that bounds rest on.
    pub model: Model,
    /// The memory of the bounds, or the reason why there is none.
    pub memory: Result<Memory, String>,
    /// Rule for the places of the tasks' pages.
    pub pages: Pages,
    /// Do programs outside of the plan run on its cores?
    pub other_programs: bool,
    /// Has each core DRAM banks of its own?
    pub private: bool,
    /// The core that moves the devices' data, and the lines that the devices may have under way.
    pub io: Option<(u32, Vec<Requester>)>,
    /// Costs of accesses for each core, under the interference model; empty without one.
    costs: Vec<Costs>,
    /// The stall of each core; empty without the model.
    pub stalls: Vec<Stall>,
    /// Longest time until the other cores have seen that a job holds the bandwidth lock, ps;
    /// `None`: jobs hold none.
    pub reaction_ps: Option<u64>,
    /// Does a response time beyond its deadline count as none, because only verdicts are asked for?
    pub verdict_only: bool,
    /// Ways of the shared cache per core, where they are shared out evenly.
    pub ways: u32,
    /// Pages that a core can then keep locked.
    pub lock_capacity: u64,
    /// Ways of each core, where they differ; empty otherwise.
    own_ways: Vec<u32>,
    /// The cores that use a channel of each core; none before they are known.
    meeting: Arc<[Vec<u32>]>,
    /// The board.
    pub platform: Platform,
}

impl Resources {
    /// Shares the machine out as the system asks. Even budgets under the interference model are
    /// chosen later ([`Resources::with_budgets`]).
    ///
    /// # Errors
    /// When budgets are impossible.
    pub fn of(system: &System) -> Result<Self, PlanError> {
        let model = system.regulation.model();
        let p = &system.platform;
        let memory = memory::of(p);
        let cores = system.active_cores();
        let regulation = Regulation {
            period_ps: system.regulation.period.ps(),
            latency_ps: p.dram.latency_max.ps(),
            cores,
        };
        let pages = system.regulation.pages;
        let ways = if pages.is_own() { p.llc.ways / cores } else { 0 };
        let private = pages.is_own()
            && p.total_banks() >= cores
            && solocore_dram::Spec::of_platform(p).is_ok_and(|spec| spec.one_bank_a_page(p.page.0));
        let io = system.windows().filter(|windows| !windows.devices.is_empty()).map(|windows| {
            // One transfer at a time, one line of it under way.
            (windows.cores, vec![Requester { reads: 1, writes: 1 }])
        });
        let mut out = Self {
            cores,
            regulation,
            budgets: None,
            write_budgets: vec![None; cores as usize],
            skid: system.regulation.skid,
            explicit: system.regulation.share() == Share::Explicit,
            stated: (system.regulation.share() == Share::Explicit).then(|| stated(system, cores)),
            carry_in: system.regulation.carries_in(),
            model,
            memory,
            pages,
            other_programs: system.regulation.other_programs,
            private,
            io,
            costs: Vec::new(),
            stalls: Vec::new(),
            reaction_ps: None,
            verdict_only: false,
            ways,
            lock_capacity: lock_capacity(p, ways),
            own_ways: stated_ways(&system.cores, cores, p.llc.ways).unwrap_or_default(),
            meeting: Arc::default(),
            platform: p.clone(),
        };
        out.meeting = (0..cores).map(|core| out.on_its_channels(core)).collect();
        if let (Model::Sound, Ok(memory)) = (model, &out.memory) {
            let devices = out.io.as_ref().map_or(&[][..], |(_, devices)| devices);
            let of = |core: u32| memory.costs(&out.sharing(core, devices));
            out.costs = (0..cores).map_while(of).collect();
        }
        if !system.regulation.sharing.is_none() {
            // A shared round holds up what a core has under way.
            let own = memory::core(p);
            for costs in &mut out.costs {
                costs.unfinished = own.reads.saturating_add(own.writes);
            }
        }
        if system.regulation.policy == Policy::Memguard {
            let budgets = match (system.regulation.share(), model) {
                (Share::Explicit, _) => explicit_budgets(system, &out)?,
                (Share::Even | Share::Optimal, Model::Sce) => {
                    vec![even_budget(&regulation)?; cores as usize]
                }
                (Share::Even | Share::Optimal, Model::Sound) => {
                    vec![out.guaranteed()?; cores as usize]
                }
            };
            out.write_budgets = writes::stated(system, &budgets)?;
            out.budgets = Some(budgets);
        }
        out.settle();
        Ok(out)
    }

    /// The same with other budgets: accesses of each core, and the part for writes.
    #[must_use]
    pub fn with_budgets(&self, budgets: Vec<u64>, writes: Vec<Option<u64>>) -> Self {
        let mut out = self.clone();
        out.set_budgets(budgets, writes);
        for (new, old) in out.stalls.iter_mut().zip(&self.stalls) {
            new.jobs.clone_from(&old.jobs);
        }
        out
    }

    /// Sets other budgets; the jobs of the others are forgotten.
    pub fn set_budgets(&mut self, budgets: Vec<u64>, writes: Vec<Option<u64>>) {
        (self.budgets, self.write_budgets) = (Some(budgets), writes);
        self.settle();
    }

    /// For each core, the rivals that make no more accesses than these jobs.
    pub fn rivals_with(&self, jobs: &dyn Fn(u32, &Costs) -> Vec<Job>) -> Vec<Option<Arc<Rivals>>> {
        let of =
            |(core, costs): (u32, &Costs)| Some(Arc::new(Rivals::new(together(jobs(core, costs)))));
        (0..).zip(&self.costs).map(of).collect()
    }

    /// Gives each core its number of ways of the shared cache.
    pub fn set_ways(&mut self, ways: Vec<u32>) {
        self.own_ways = ways;
    }

    /// Ways of each core, where the file states some.
    pub fn stated_ways(&self) -> Option<Vec<u32>> {
        (!self.own_ways.is_empty()).then(|| self.own_ways.clone())
    }

    /// Ways of a core.
    pub fn ways_of(&self, core: u32) -> u32 {
        if !self.pages.is_own() {
            return 0;
        }
        self.own_ways.get(core as usize).copied().unwrap_or(self.ways)
    }

    /// Pages that a core can hold locked.
    pub fn lock_capacity_of(&self, core: u32) -> u64 {
        match self.own_ways.get(core as usize) {
            Some(&ways) => self.lock_capacity_in(ways),
            None => self.lock_capacity,
        }
    }

    /// Pages that this number of ways can hold locked.
    pub fn lock_capacity_in(&self, ways: u32) -> u64 {
        if !self.pages.is_own() {
            return 0;
        }
        lock_capacity(&self.platform, ways)
    }

    /// Derives the stalls from the budgets.
    fn settle(&mut self) {
        let stall = |(core, costs): (u32, &Costs)| {
            let counted_ps = self.regulation.latency_ps;
            Stall { costs: *costs, others: self.accesses_beside(core), jobs: None, counted_ps }
        };
        self.stalls = (0..).zip(&self.costs).map(stall).collect();
    }

    /// The accesses that the others may make beside a core.
    fn accesses_beside(&self, core: u32) -> Others {
        match &self.budgets {
            None if self.reaction_ps.is_some() => {
                Others::Locked { unseen_ps: self.unseen_ps(core) }
            }
            None => Others::Unlimited,
            Some(_) => Others::Budgets {
                period_ps: self.regulation.period_ps,
                own: self.budget(core),
                others: self.rival_budgets(core),
            },
        }
    }

    /// The same with jobs that hold the bandwidth lock, which others see within `reaction_ps`.
    #[must_use]
    pub fn with_lock(&self, reaction_ps: u64) -> Self {
        let mut out = Self { reaction_ps: Some(reaction_ps), ..self.clone() };
        out.settle();
        out
    }

    /// Longest delay of a job of this core until the others have seen that it holds the lock, ps; 0
    /// where jobs hold none.
    pub fn unseen_ps(&self, core: u32) -> u64 {
        let left_ps = self.costs.get(core as usize).map_or(0, |c| c.left_ps);
        self.reaction_ps.map_or(0, |reaction| reaction.saturating_add(left_ps))
    }

    /// Sets other budgets for the bounds of one core. The stalls of the other cores are then not to
    /// be asked for.
    pub fn try_budgets(&mut self, core: u32, budgets: &[u64], writes: &[Option<u64>]) {
        budgets.clone_into(self.budgets.get_or_insert_default());
        writes.clone_into(&mut self.write_budgets);
        let others = self.accesses_beside(core);
        if let Some(stall) = self.stalls.get_mut(core as usize) {
            stall.others = others;
        }
    }

    /// Sets the jobs of each core's rivals, after which budgets may change.
    pub fn set_rivals(&mut self, rivals: &[Option<Arc<Rivals>>]) {
        for (stall, jobs) in self.stalls.iter_mut().zip(rivals) {
            stall.jobs.clone_from(jobs);
        }
    }

    /// Most accesses of a core in a period: its budget, and the accesses until it is stopped;
    /// `None` without budgets.
    pub fn most_in_period(&self, core: u32) -> Option<Budget> {
        self.budgets.as_ref().map(|_| with_skid(self.budget(core), self.skid))
    }

    /// Accesses in a period of the cores that share a channel with this one: their budgets, and the
    /// accesses until they are stopped. For the I/O core, the paced lines of its devices.
    fn rival_budgets(&self, core: u32) -> Vec<Budget> {
        let rivals = self.rivals(core);
        let of = |other: &u32| match &self.io {
            Some((io, _)) if io == other => Budget::Together(self.paced()),
            _ => with_skid(self.budget(*other), self.skid),
        };
        let everywhere = self.io.iter().filter(|(io, _)| *io != core && !rivals.contains(io));
        rivals.iter().chain(everywhere.map(|(io, _)| io)).map(of).collect()
    }

    /// Most lines that the I/O core's devices move in one period: each line waits for the turns of
    /// the others.
    fn paced(&self) -> u64 {
        let r = &self.regulation;
        let wait = u64::from(r.cores.saturating_sub(1)).saturating_mul(r.latency_ps);
        r.period_ps.checked_div(wait).map_or(u64::MAX, |n| n.saturating_add(2))
    }

    /// Budget of a core.
    pub fn budget(&self, core: u32) -> Budget {
        let at = core as usize;
        let all = self.budgets.as_ref().and_then(|b| b.get(at)).copied().unwrap_or(u64::MAX);
        match self.write_budgets.get(at).copied().flatten() {
            Some(writes) => Budget::Apart { reads: all.saturating_sub(writes), writes },
            None => Budget::Together(all),
        }
    }

    /// The largest even budget that each core can use up in every period, for any use of the
    /// others' budgets.
    fn guaranteed(&self) -> Result<u64, PlanError> {
        if self.costs.is_empty() {
            return even_budget(&self.regulation);
        }
        let mut least = u64::MAX;
        for (core, costs) in (0..).zip(&self.costs) {
            let rivals = self.rivals(core).len() as u64;
            let r = &self.regulation;
            let free = r
                .period_ps
                .saturating_sub(costs.left_ps)
                .saturating_sub(costs.refresh.within(r.period_ps));
            let each = costs.service_ps.saturating_add(costs.any_ps.saturating_mul(rivals));
            least = least.min(free / each.max(1));
        }
        if least == 0 || least == u64::MAX {
            return Err(PlanError(format!(
                "[regulation] period = {} does not leave a whole access to each core beside the \
                accesses of other cores that are under way; lengthen the period",
                Time::from_ps(self.regulation.period_ps)
            )));
        }
        Ok(least)
    }

    /// Most accesses in a period that all cores of a channel may state together.
    pub fn stated_most(&self) -> u64 {
        let r = &self.regulation;
        let each = self.costs.first().map_or(r.latency_ps, |c| c.any_ps);
        r.period_ps / each.max(1)
    }

    /// Bandwidth of a budget, bytes per second.
    pub fn bandwidth(&self, budget: u64) -> u64 {
        let bytes = u128::from(budget) * u128::from(self.platform.llc.line.0);
        u64::try_from(bytes * 1_000_000_000_000 / u128::from(self.regulation.period_ps))
            .unwrap_or(u64::MAX)
    }

    /// A core's own DRAM banks: first and count; `None` where cores share them.
    pub fn banks(&self, core: u32) -> Option<(u32, u32)> {
        if !self.pages.is_own() {
            return None;
        }
        let each = self.platform.total_banks() / self.cores;
        (each > 0).then_some((core * each, each))
    }

    /// Time alone of `accesses` extra reads.
    pub fn access_ps(&self, accesses: u64) -> u64 {
        let p = &self.platform;
        accesses
            .saturating_mul(p.dram.latency_max.ps().saturating_add(p.cycles_to_ps(p.llc.latency.0)))
    }

    /// The channels that a core's banks lie in; all of them where banks are shared.
    fn channels(&self, core: u32) -> RangeInclusive<u32> {
        let p = &self.platform;
        match self.banks(core).filter(|_| self.private) {
            Some((first, count)) => {
                let each = (p.dram.ranks * p.dram.banks).max(1);
                first / each..=(first + count - 1) / each
            }
            None => 0..=p.dram.channels.max(1) - 1,
        }
    }

    /// The cores that use a channel of this core. With banks of their own, cores share a channel
    /// where their banks do.
    pub fn rivals(&self, core: u32) -> &[u32] {
        self.meeting.get(core as usize).map_or(&[], Vec::as_slice)
    }

    fn on_its_channels(&self, core: u32) -> Vec<u32> {
        let own = self.channels(core);
        let meets = |other: &u32| {
            let theirs = self.channels(*other);
            theirs.start() <= own.end() && own.start() <= theirs.end()
        };
        (0..self.cores).filter(|&other| other != core).filter(meets).collect()
    }

    /// Cores that share the memory with a core; `devices` are the devices' engines, which share it,
    /// too.
    fn sharing(&self, core: u32, devices: &[Requester]) -> Sharing {
        let own = memory::core(&self.platform);
        let others = self.rivals(core).iter().map(|_| own).chain(devices.iter().copied()).collect();
        Sharing {
            own,
            others,
            private: self.private,
            cache_mshrs: self.platform.llc.mshrs.map(u64::from),
        }
    }

    /// Longest time that earlier accesses under way can delay a core, ps.
    pub fn blocking_ps(&self) -> u64 {
        match self.model {
            Model::Sce => self.regulation.latency_ps.saturating_mul(u64::from(self.cores)),
            Model::Sound => self.stalls.iter().map(|s| s.costs.left_ps).max().unwrap_or(u64::MAX),
        }
    }
}

fn even_budget(r: &Regulation) -> Result<u64, PlanError> {
    let budget = r.even_budget();
    if budget == 0 {
        return Err(PlanError(format!(
            "[regulation] period = {} is shorter than one access of each core, each of {}; \
                lengthen the period",
            Time::from_ps(r.period_ps),
            Time::from_ps(r.latency_ps)
        )));
    }
    Ok(budget)
}

/// Number of the active cores that state a bandwidth.
fn stated(system: &System, cores: u32) -> u32 {
    let states = |core: &u32| system.cores.iter().any(|c| c.id == *core && c.bandwidth.is_some());
    (0..cores).filter(states).count() as u32
}

/// Stated bandwidths in accesses; the other cores share the rest evenly.
fn explicit_budgets(system: &System, resources: &Resources) -> Result<Vec<u64>, PlanError> {
    let r = &resources.regulation;
    let total = resources.stated_most();
    let line = u128::from(system.platform.llc.line.0);
    let stated = |core: u32| system.cores.iter().find(|c| c.id == core).and_then(|c| c.bandwidth);
    let accesses = |bytes: u64| {
        u64::try_from(u128::from(bytes) * u128::from(r.period_ps) / 1_000_000_000_000 / line)
            .unwrap_or(u64::MAX)
    };
    let used: u64 =
        (0..r.cores).filter_map(stated).map(|b| accesses(b.0)).fold(0, u64::saturating_add);
    let guaranteed = Bandwidth(resources.bandwidth(total));
    if used > total {
        return Err(PlanError(format!(
            "the cores state {used} accesses a period, but only {total} are guaranteed \
                ({guaranteed}); lower their bandwidths"
        )));
    }
    let open = (0..r.cores).filter(|&c| stated(c).is_none()).count() as u64;
    let each = (total - used).checked_div(open).unwrap_or(0);
    (0..r.cores)
        .map(|core| match stated(core).map(|b| accesses(b.0)) {
            Some(0) => Err(PlanError(format!(
                "core {core}: its bandwidth is below one access a \
                period; raise it"
            ))),
            None if each == 0 => Err(PlanError(format!(
                "core {core} states no bandwidth and no bandwidth is left of the guaranteed \
                    {guaranteed}; state less elsewhere, or set active_cores"
            ))),
            budget => Ok(budget.unwrap_or(each)),
        })
        .collect()
}

/// A budget, with a number of accesses of each kind added.
const fn with_skid(budget: Budget, skid: u64) -> Budget {
    match budget {
        Budget::Together(all) => Budget::Together(all.saturating_add(skid)),
        Budget::Apart { reads, writes } => {
            Budget::Apart { reads: reads.saturating_add(skid), writes: writes.saturating_add(skid) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The costs of shared rounds are there from the start, so that all searches count with them.
    #[test]
    fn shared_rounds_are_charged_under_all_budgets() {
        let of = |sharing: &str| {
            let text = format!(
                "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\n\
                other_programs = true\nsharing = \"{sharing}\"\n\
                [[task]]\nname = \"a\"\nperiod = \"9 ms\"\nwcet = \"1 ms\"\nmisses = 1\n"
            );
            let system = System::parse(Path::new("system.toml"), &text).unwrap();
            let made = Resources::of(&system).unwrap();
            let other = made.with_budgets(vec![100; 4], vec![None; 4]);
            [made, other].map(|r| r.stalls.iter().map(|s| s.costs.unfinished).collect::<Vec<_>>())
        };
        assert_eq!(of("spare"), [[26; 4], [26; 4]]);
        assert_eq!(of("none"), [[0; 4], [0; 4]]);
    }
}
