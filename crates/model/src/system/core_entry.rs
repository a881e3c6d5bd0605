//! `[[core]]`: what a file states of one core.

use super::regulation::{Regulation, Share};
use crate::Bandwidth;
use crate::platform::Platform;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[[core]]`: the share of one core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreEntry {
    /// Number of the core, from 0.
    pub id: u32,
    /// With `share = "explicit"`: its part of the guaranteed bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// The part of `bandwidth` that is for writes only. The rest is then for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Bandwidth>,
    /// Ways of the shared cache, where the planner does not choose them. Cores without a statement
    /// share the rest evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub ways: Option<u32>,
}

/// The other remedy for a core that is not active, where the platform has this core.
pub(super) fn or_more_cores(core: u32, platform: &Platform) -> &'static str {
    if core < platform.cores { ", or raise [regulation] active_cores" } else { "" }
}

/// Stated shares are stated for a core at least.
pub(super) fn check_stated(regulation: &Regulation, cores: &[CoreEntry]) -> Result<(), String> {
    if regulation.share() == Share::Explicit && cores.iter().all(|core| core.bandwidth.is_none()) {
        return Err(
            "[regulation] share = \"explicit\" takes the cores' bandwidths, and no [[core]] \
                states one; add a [[core]] with id and bandwidth, or set share = \"even\""
                .to_owned(),
        );
    }
    Ok(())
}

/// Checks a `[[core]]` by itself; `seen` are those above it in the file.
pub(super) fn check_core(
    core: &CoreEntry,
    seen: &[CoreEntry],
    regulation: &Regulation,
    platform: &Platform,
) -> Result<(), String> {
    let active = regulation.active_cores.unwrap_or(platform.cores);
    if core.id >= active {
        return Err(format!(
            "core {} is out of range: the active cores of {} are 0 to {}; name one of these{}",
            core.id,
            platform.name,
            active - 1,
            or_more_cores(core.id, platform)
        ));
    }
    if seen.iter().any(|c| c.id == core.id) {
        return Err(format!("core {} is described twice; merge the two tables", core.id));
    }
    if core.bandwidth.is_some() && regulation.share() != Share::Explicit {
        return Err(format!(
            "core {} states a bandwidth, which needs [regulation] share = \"explicit\"; set that, \
                or remove the bandwidth",
            core.id
        ));
    }
    if core.write_bandwidth.is_some() && regulation.skid > 0 {
        return Err(format!(
            "core {} states a write_bandwidth, and [regulation] skid is not supported together \
                with it; remove one of the two",
            core.id
        ));
    }
    if core.bandwidth.is_some_and(|b| b.0 == 0) {
        return Err(format!(
            "core {} has bandwidth zero, so no task could run there; give it some",
            core.id
        ));
    }
    check_ways(core, seen, regulation, platform)
}

/// Checks the ways that a core states: each core without a statement needs one, too.
fn check_ways(
    core: &CoreEntry,
    seen: &[CoreEntry],
    regulation: &Regulation,
    platform: &Platform,
) -> Result<(), String> {
    let Some(ways) = core.ways else { return Ok(()) };
    let id = core.id;
    if regulation.share() == Share::Optimal || !regulation.pages.is_own() {
        let key = if regulation.pages.is_own() {
            "[regulation] share = \"optimal\" chooses the ways"
        } else {
            "[regulation] pages = \"anywhere\" gives no core ways of its own"
        };
        return Err(format!("core {id} states ways, and {key}; remove one of the two"));
    }
    let others: Vec<u32> = seen.iter().filter_map(|c| c.ways).collect();
    let cores = regulation.active_cores.unwrap_or(platform.cores);
    let without = u64::from(cores) - others.len() as u64 - 1;
    let all = u64::from(platform.llc.ways);
    let left = all.saturating_sub(others.iter().map(|&w| u64::from(w)).sum::<u64>() + without);
    if left == 0 {
        return Err(format!(
            "core {id} states ways, and the shared cache of {} has {all}, too few for {cores} cores \
                beside those that are stated; remove it",
            platform.name
        ));
    }
    if ways == 0 || u64::from(ways) > left {
        return Err(format!(
            "core {id} states {ways} ways, but the shared cache of {} has {all} and each core needs \
                one at least; give 1 to {left}",
            platform.name
        ));
    }
    Ok(())
}

/// Ways of each active core, where a file states some: the other cores share the rest evenly.
pub fn stated_ways(cores: &[CoreEntry], active: u32, all: u32) -> Option<Vec<u32>> {
    let stated = |id: u32| cores.iter().find(|core| core.id == id).and_then(|core| core.ways);
    let known: Vec<u32> = (0..active).filter_map(stated).collect();
    let without = active.checked_sub(known.len() as u32).filter(|_| !known.is_empty())?;
    let even = all.saturating_sub(known.iter().sum()).checked_div(without).unwrap_or_default();
    Some((0..active).map(|id| stated(id).unwrap_or(even)).collect())
}
