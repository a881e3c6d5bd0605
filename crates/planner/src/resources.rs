//! Each core's share of the machine.

use solocore_analysis::stall::Regulation;
use solocore_model::platform::Partition;
use solocore_model::system::{Policy, Share};
use solocore_model::{Platform, System};

/// The shares a system asks for cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) String);

/// What every core gets.
#[derive(Clone, Debug)]
pub struct Resources {
    /// Cores that may access memory (`m`).
    pub cores: u32,
    /// The numbers of the bounds.
    pub regulation: Regulation,
    /// Accesses per period and core; `None` without regulation.
    pub budgets: Option<Vec<u64>>,
    /// Budgets differ between cores.
    pub explicit: bool,
    /// The bound with carry-in.
    pub carry_in: bool,
    /// Ways of the shared cache per core.
    pub ways: u32,
    /// Pages a core can hold locked.
    pub lock_capacity: u64,
    /// The board.
    pub platform: Platform,
}

impl Resources {
    /// Shares the machine out as the system asks.
    ///
    /// # Errors
    /// When budgets are impossible.
    pub fn of(system: &System) -> Result<Self, PlanError> {
        let p = &system.platform;
        let cores = system.active_cores();
        let regulation =
            Regulation { period_ps: system.regulation.period.ps(), latency_ps: p.dram.latency_max.ps(), cores };
        let budgets = match (system.regulation.policy, system.regulation.share) {
            (Policy::None | Policy::Bwlock | Policy::Dynamic | Policy::Maracas, _) => None,
            (_, Share::Even) => Some(vec![even_budget(&regulation)?; cores as usize]),
            (_, Share::Explicit) => Some(explicit_budgets(system, &regulation)?),
        };
        Ok(Self {
            cores,
            regulation,
            budgets,
            explicit: system.regulation.share == Share::Explicit,
            carry_in: system.regulation.carry_in,
            ways: p.llc.ways / cores,
            lock_capacity: lock_capacity(p, cores),
            platform: p.clone(),
        })
    }

    /// Bandwidth of a budget, bytes per second.
    pub fn bandwidth(&self, budget: u64) -> u64 {
        let bytes = u128::from(budget) * u128::from(self.platform.llc.line.0);
        u64::try_from(bytes * 1_000_000_000_000 / u128::from(self.regulation.period_ps)).unwrap_or(u64::MAX)
    }

    /// A core's own DRAM banks: first and count; `None` where there are fewer banks than cores.
    pub fn banks(&self, core: u32) -> Option<(u32, u32)> {
        let each = self.platform.total_banks() / self.cores;
        (each > 0).then_some((core * each, each))
    }

    /// Time alone of `accesses` extra reads.
    pub fn access_ps(&self, accesses: u64) -> u64 {
        let p = &self.platform;
        accesses.saturating_mul(p.dram.latency_max.ps().saturating_add(p.cycles_to_ps(p.llc.latency.0)))
    }

    /// Longest time one access can hold the core when every other core has one before it.
    pub fn blocking_ps(&self) -> u64 {
        self.regulation.latency_ps.saturating_mul(u64::from(self.cores))
    }
}

fn even_budget(r: &Regulation) -> Result<u64, PlanError> {
    let budget = r.even_budget();
    if budget == 0 {
        return Err(PlanError(format!(
            "[regulation] period = {} ns leaves no core a whole access of {} ps; lengthen the period",
            r.period_ps / 1000,
            r.latency_ps
        )));
    }
    Ok(budget)
}

/// Stated bandwidths in accesses; cores that state none share evenly what is left.
fn explicit_budgets(system: &System, r: &Regulation) -> Result<Vec<u64>, PlanError> {
    let total = r.period_ps / r.latency_ps;
    let line = u128::from(system.platform.llc.line.0);
    let stated = |core: u32| system.cores.iter().find(|c| c.id == core).and_then(|c| c.bandwidth);
    let accesses = |bytes: u64| {
        u64::try_from(u128::from(bytes) * u128::from(r.period_ps) / 1_000_000_000_000 / line).unwrap_or(u64::MAX)
    };
    let used: u64 = (0..r.cores).filter_map(stated).map(|b| accesses(b.0)).fold(0, u64::saturating_add);
    let guaranteed = system.platform.guaranteed_bandwidth();
    if used > total {
        return Err(PlanError(format!(
            "the cores state {used} accesses a period, but only {total} are guaranteed ({guaranteed}); lower their bandwidths"
        )));
    }
    let open = (0..r.cores).filter(|&c| stated(c).is_none()).count() as u64;
    let each = (total - used).checked_div(open).unwrap_or(0);
    (0..r.cores)
        .map(|core| match stated(core).map(|b| accesses(b.0)) {
            Some(0) => Err(PlanError(format!("core {core}: its bandwidth is below one access a period; raise it"))),
            None if each == 0 => Err(PlanError(format!(
                "core {core} states no bandwidth and nothing is left of the guaranteed {guaranteed}; state less elsewhere, or set active_cores"
            ))),
            budget => Ok(budget.unwrap_or(each)),
        })
        .collect()
}

/// Pages that one core's even share of the shared cache can hold for certain. Where the rest of the
/// share must stay usable for what is not locked, a way or a colour is kept for it.
fn lock_capacity(p: &Platform, cores: u32) -> u64 {
    let (ways, colours) = (u64::from(p.llc.ways), u64::from(p.colours()));
    let cores = u64::from(cores);
    match p.llc.partition {
        Partition::Lock => ways / cores * colours,
        Partition::Way => (ways / cores).saturating_sub(1) * colours,
        Partition::Colour => (colours / cores).saturating_sub(1) * ways,
    }
}
