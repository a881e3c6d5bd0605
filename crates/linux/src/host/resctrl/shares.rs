//! Shares of a plan, in resctrl's terms.
//!
//! Rule, of a plan without levels: each core gets a group (`solocore-cpuN`) with the plan's ways as
//! a mask of contiguous bits, lowest core lowest. It also gets the plan's bandwidth as percentage
//! of the sum of all cores, rounded down to the hardware's steps, or in MiB/s. CPUs outside the
//! plan use the ways that it leaves free. A plan that leaves none is refused: these CPUs would use
//! its cores' ways. Of a plan with levels: tasks of levels A and B of core N get a group
//! (`solocore-abN`) with the core's region. Level C and all other programs stay in the first group,
//! which is narrowed to level C's region. The region of locked buffers is a group without members
//! (`solocore-locked`). A group is made exclusive where no other group can have its ways, so that
//! none gets them later either. Where tasks of a core have locked pages, the ways that these pages
//! fill are a group of their own (`solocore-lockN`), without running members (schedule/locker.rs).
//! At least one way is left for everything else.
//! With code and data apart (CDP), both get the same mask.
//! Source: mc2-os-isolation, Fig. 3; resctrl.rst, "Resource groups" and "mode".

use super::info::{Cache, Info, Throttling, values};
use super::tree::{Tree, root};
use crate::error::LinuxError;
use crate::host::machine::{cpu_list, parse_cpu_list};
use solocore_model::Plan;
use solocore_model::system::Criticality;
use std::collections::BTreeMap;

/// The tasks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Members {
    /// All threads on this CPU that are in no other group.
    Cpu(u32),
    /// Tasks that are moved into the group.
    Tasks,
}

/// A group to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub name: String,
    pub members: Members,
    pub schemata: String,
    pub exclusive: bool,
}

/// New and old lines of the first group's schemata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct First {
    pub lines: Vec<String>,
    pub back: Vec<String>,
}

/// Shares of a plan: its groups, and their tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub groups: Vec<Group>,
    pub first: Option<First>,
    /// Group of each task of the plan.
    pub tasks: BTreeMap<String, String>,
    /// Group with the ways of each core's locked pages.
    pub locks: BTreeMap<u32, String>,
    /// Names of the lines of a schemata that hold a mask of ways; empty where the hardware cannot
    /// share them out.
    pub masks: Vec<&'static str>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Shares {
    /// Whether a group has a bandwidth.
    pub fn limit_bandwidth(&self) -> bool {
        let mut lines = self.groups.iter().flat_map(|group| group.schemata.lines());
        lines.any(|line| line.starts_with("MB"))
    }
}

fn refused<T>(what: String) -> Result<T, LinuxError> {
    Err(LinuxError::Machine(what))
}

fn line(resource: &str, domains: &[u64], value: &str) -> String {
    let list: Vec<String> = domains.iter().map(|d| format!("{d}={value}")).collect();
    format!("{resource}:{}", list.join(";"))
}

/// The lines of a schemata with this mask.
pub(super) fn mask_lines(info: &Info, mask: u64) -> Vec<String> {
    info.lines.iter().map(|l| line(l, &info.cache_domains, &format!("{mask:x}"))).collect()
}

/// The shares of a plan on this hardware.
///
/// # Errors
/// The plan is for another machine, or the hardware gives less.
pub(crate) fn shares(plan: &Plan, info: &Info, tree: &dyn Tree) -> Result<Shares, LinuxError> {
    if !plan.regulation.pages.is_own() {
        return refused(
            "the plan leaves the shared cache to all cores ([regulation] pages = \"anywhere\"), \
            so there is nothing to divide; leave --resctrl out"
                .to_owned(),
        );
    }
    if let Some(cache) = info.cache {
        let has = cache.mask.count_ones();
        if plan.platform.llc.ways != has {
            return refused(format!(
                "the plan is for another machine: its shared cache has {} ways, this one's {has}; \
                    plan with a platform file of this machine",
                plan.platform.llc.ways
            ));
        }
    }
    let mut shares =
        if plan.levels().is_some() { of_levels(plan, info)? } else { of_cores(plan, info, tree)? };
    if shares.groups.len() as u64 > info.groups {
        return refused(format!(
            "the hardware has {} groups beside the first, the plan needs {}; leave --resctrl out",
            info.groups,
            shares.groups.len()
        ));
    }
    shares.masks.clone_from(&info.lines);
    check_others(&shares, tree)?;
    if let (Some(first), Some(_)) = (&mut shares.first, info.cache) {
        let schemata = tree.read("schemata").unwrap_or_default();
        let old = |l: &&str| values(&schemata, l).map(|v| format!("{l}:{}", v.trim()));
        first.back = info.lines.iter().filter_map(old).collect();
    }
    if info.cache.is_none() {
        shares.notes.push(
            "the hardware cannot share out the ways of the cache: that part of the plan is not \
                applied"
                .to_owned(),
        );
    }
    if info.throttling.is_none() {
        shares.notes.push("the hardware cannot throttle bandwidth; the counters do".to_owned());
    }
    Ok(shares)
}

/// A mask of `ways` contiguous ways, from the way `from` on.
pub(super) fn ways_mask(cache: Cache, who: &str, ways: u32, from: u32) -> Result<u64, LinuxError> {
    let has = cache.mask.count_ones();
    let least = cache.least_bits.max(1);
    if ways < least || from.saturating_add(ways) > has {
        return refused(format!(
            "{who} has {ways} ways from way {from} on in the plan; the hardware gives {least} to \
                {has} in all: plan again, or leave --resctrl out"
        ));
    }
    let bits = if ways >= 64 { u64::MAX } else { (1 << ways) - 1 };
    Ok(bits << (cache.mask.trailing_zeros() + from))
}

/// The longest run of free ways, if it is long enough for a mask.
pub(super) fn left_over(cache: Cache, used: u64) -> Option<u64> {
    let free = cache.mask & !used;
    if cache.sparse {
        return (free.count_ones() >= cache.least_bits.max(1)).then_some(free);
    }
    let mut best = 0u64;
    let mut rest = free;
    while rest != 0 {
        let from = rest.trailing_zeros();
        let length = (rest >> from).trailing_ones();
        let run = u64::MAX.checked_shr(64 - length).unwrap_or(0) << from;
        if run.count_ones() > best.count_ones() {
            best = run;
        }
        rest &= !run;
    }
    (best.count_ones() >= cache.least_bits.max(1)).then_some(best)
}

fn of_cores(plan: &Plan, info: &Info, tree: &dyn Tree) -> Result<Shares, LinuxError> {
    let mut shares = Shares::default();
    let (mut from, mut used, mut locks) = (0, 0, Vec::new());
    let all: u64 = plan.cores.iter().filter_map(|c| c.bandwidth_bytes_per_s).sum();
    for core in &plan.cores {
        let mut lines = Vec::new();
        let mut mine = 0;
        if let Some(cache) = info.cache {
            mine = ways_mask(cache, &format!("core {}", core.id), core.ways, from)?;
            if mine & cache.shared != 0 {
                shares
                    .notes
                    .push(format!("core {}: devices use some of its ways as well", core.id));
            }
            from += core.ways;
            used |= mine;
            let (rest, locked) = locked_part(plan, core, mine, cache, &mut shares);
            lines.extend(mask_lines(info, rest));
            if locked != 0 {
                let schemata = mask_lines(info, locked).iter().map(|l| format!("{l}\n")).collect();
                let (name, exclusive) =
                    (format!("solocore-lock{}", core.id), locked & cache.shared == 0);
                shares.locks.insert(core.id, name.clone());
                locks.push(Group { name, members: Members::Tasks, schemata, exclusive });
            }
        }
        if let (Some(throttling), Some(bandwidth)) = (info.throttling, core.bandwidth_bytes_per_s) {
            let (value, raised) = throttle(throttling, bandwidth, all);
            if raised {
                let note = format!(
                    "core {}: the hardware gives at least {value}, more than the plan",
                    core.id
                );
                shares.notes.push(note);
            }
            lines.push(line("MB", &info.memory_domains, &value.to_string()));
        }
        let schemata = lines.iter().map(|l| format!("{l}\n")).collect();
        let exclusive = info.cache.is_some_and(|c| mine & c.shared == 0);
        let name = format!("solocore-cpu{}", core.id);
        shares.groups.push(Group { name, members: Members::Cpu(core.id), schemata, exclusive });
    }
    if (shares.groups.len() + locks.len()) as u64 <= info.groups {
        shares.groups.extend(locks);
    } else if !locks.is_empty() {
        return refused(format!(
            "the hardware has {} groups beside the first; cores and their locked pages need {}: \
                leave --resctrl out, or plan without locked pages",
            info.groups,
            shares.groups.len() + locks.len()
        ));
    }
    let outside = outside(plan, tree)?;
    let rest = info.cache.and_then(|c| left_over(c, used));
    match rest {
        Some(mask) => {
            shares.first = Some(First { lines: mask_lines(info, mask), back: Vec::new() })
        }
        None if info.cache.is_some() && !outside.is_empty() => {
            return refused(format!(
                "CPUs {} are not in the plan, which leaves no ways for them, so they would use \
                the ways of its cores; plan for every CPU, or take them offline",
                cpu_list(&outside)
            ));
        }
        // The first group then has no CPU, but it has ways: no group can be exclusive.
        None => shares.groups.iter_mut().for_each(|g| g.exclusive = false),
    }
    Ok(shares)
}

/// A core's ways without those of its locked pages, and the latter; `None` where no way would be
/// left.
fn locked_part(
    plan: &Plan,
    core: &solocore_model::plan::PlanCore,
    mine: u64,
    cache: Cache,
    shares: &mut Shares,
) -> (u64, u64) {
    let pages: u64 =
        plan.tasks.iter().filter(|t| t.core == core.id).map(|t| t.locked_pages.len() as u64).sum();
    let way = plan.platform.llc.size.0 / u64::from(plan.platform.llc.ways.max(1));
    if pages == 0 || way == 0 {
        return (mine, 0);
    }
    let least = cache.least_bits.max(1);
    let wanted = u32::try_from((pages * 4096).div_ceil(way)).unwrap_or(u32::MAX).max(least);
    let has = mine.count_ones();
    if wanted.saturating_add(least) > has {
        shares.notes.push(format!(
            "core {}: its {pages} locked pages would take {wanted} of its {has} ways and leave \
            none for other pages: they are not locked",
            core.id
        ));
        return (mine, 0);
    }
    // The highest of them.
    let rest = (1u64 << (mine.trailing_zeros() + has - wanted)) - 1;
    (mine & rest, mine & !rest)
}

/// CPUs that stay in the first group. The plan's CPUs must be in that group now; else they would
/// not return to their old place.
fn outside(plan: &Plan, tree: &dyn Tree) -> Result<Vec<u32>, LinuxError> {
    let first = parse_cpu_list(&tree.read("cpus_list").unwrap_or_default());
    if let Some(core) = plan.cores.iter().find(|c| !first.contains(&c.id)) {
        let has = |name: &String| {
            parse_cpu_list(&tree.read(&format!("{name}/cpus_list")).unwrap_or_default())
                .contains(&core.id)
        };
        let whose = tree.directories().into_iter().find(has);
        return refused(match whose {
            Some(name) => format!(
                "CPU {} is in the group `{name}` of resctrl; remove that: rmdir {}",
                core.id,
                root().join(&name).display()
            ),
            None => format!("CPU {} is not online; plan for the CPUs that are online", core.id),
        });
    }
    Ok(first.into_iter().filter(|cpu| plan.cores.iter().all(|c| c.id != *cpu)).collect())
}

fn of_levels(plan: &Plan, info: &Info) -> Result<Shares, LinuxError> {
    let mut shares = Shares::default();
    let (Some(levels), Some(cache)) = (plan.levels(), info.cache) else {
        return refused(
            "the plan's levels have regions of the cache, and the hardware cannot share out its \
                ways; leave --resctrl out"
                .to_owned(),
        );
    };
    let mut add = |name: String,
                   who: &str,
                   ways: solocore_model::plan::levels::Ways|
     -> Result<(), LinuxError> {
        let mask = ways_mask(cache, who, ways.count, ways.first)?;
        if mask & cache.shared != 0 {
            shares.notes.push(format!("{who}: devices use some of its ways as well"));
        }
        let schemata = mask_lines(info, mask).iter().map(|l| format!("{l}\n")).collect();
        let exclusive = mask & cache.shared == 0;
        shares.groups.push(Group { name, members: Members::Tasks, schemata, exclusive });
        Ok(())
    };
    for core in levels.cores.iter().filter(|c| c.ways.count > 0) {
        add(
            format!("solocore-ab{}", core.id),
            &format!("levels A and B of core {}", core.id),
            core.ways,
        )?;
    }
    if levels.locked_ways.count > 0 {
        add("solocore-locked".to_owned(), "the region of locked buffers", levels.locked_ways)?;
    }
    let rest = ways_mask(cache, "level C", levels.level_c_ways.count, levels.level_c_ways.first)?;
    shares.first = Some(First { lines: mask_lines(info, rest), back: Vec::new() });
    for task in
        plan.tasks.iter().filter(|t| matches!(t.criticality, Criticality::A | Criticality::B))
    {
        let name = format!("solocore-ab{}", task.core);
        if !shares.groups.iter().any(|g| g.name == name) {
            return refused(format!(
                "task `{}` of level A or B is on core {}, which has no ways in the plan; plan \
                    again",
                task.name, task.core
            ));
        }
        shares.tasks.insert(task.name.clone(), name);
    }
    Ok(shares)
}

/// Every way that the lines of a schemata name, in any cache.
pub(super) fn all_ways(lines: &[&str], schemata: &str) -> u64 {
    let parts = lines.iter().filter_map(|l| values(schemata, l)).flat_map(|v| v.split(';'));
    let hex = |part: &str| u64::from_str_radix(part.split_once('=')?.1.trim(), 16).ok();
    parts.filter_map(hex).fold(0, |all, mask| all | mask)
}

/// Checks that no other program's group has the plan's own ways.
pub(super) fn check_others(shares: &Shares, tree: &dyn Tree) -> Result<(), LinuxError> {
    let masks = |schemata: &str| all_ways(&shares.masks, schemata);
    let mut used = 0;
    for group in &shares.groups {
        let mine = masks(&group.schemata);
        if mine & used != 0 {
            return refused(format!(
                "the ways of `{}` overlap others of the plan; plan again",
                group.name
            ));
        }
        used |= mine;
    }
    let ours = |name: &str| shares.groups.iter().any(|g| g.name == name);
    for name in tree.directories() {
        let theirs = masks(&tree.read(&format!("{name}/schemata")).unwrap_or_default());
        if !ours(&name) && theirs & used != 0 {
            return refused(format!(
                "the group `{name}` of resctrl has ways ({theirs:x}) that the plan gives to its \
                    cores; remove it: rmdir {}",
                root().join(&name).display()
            ));
        }
    }
    Ok(())
}

/// The value, and whether it is more than planned because the hardware cannot give less.
pub(super) fn throttle(t: Throttling, bandwidth: u64, all: u64) -> (u64, bool) {
    let wanted = if t.in_mib {
        bandwidth >> 20
    } else {
        u64::try_from(u128::from(bandwidth) * 100 / u128::from(all.max(1))).unwrap_or(100)
    };
    let value = if t.in_mib { wanted } else { wanted / t.step * t.step };
    (value.max(t.least).max(1), value < t.least.max(1))
}
