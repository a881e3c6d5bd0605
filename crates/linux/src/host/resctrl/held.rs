//! Whether the kernel still has the masks that a plan's cores were given.
//!
//! Problem: any program may write to resctrl, so a mask that was set need not be set any more.
//! Rule: the files are read again. A core's ways are its own while its group has the mask that it
//! was given, in each cache, and its CPU, and while no other group has one of its ways.
//! Does not cover: devices that use some of the ways (`shareable_bits`); lines that others brought
//! in before.

use super::info::values;
use super::shares::{Group, Members, Shares, all_ways};
use super::tree::Tree;
use crate::host::machine::parse_cpu_list;

/// Reason why a core's ways are not its own now; `None` while they are.
pub(crate) fn lost(tree: &dyn Tree, shares: &Shares, core: u32) -> Option<String> {
    if shares.masks.is_empty() {
        return Some(
            "the hardware cannot share out ways of the shared cache (resctrl has no L3 masks); \
                give --vouch ways, or, for a plan without [[partition]] and [levels], plan with \
                [regulation] pages = \"anywhere\""
                .to_owned(),
        );
    }
    let mine: Vec<&Group> = shares.groups.iter().filter(|g| is_of(shares, g, core)).collect();
    if mine.is_empty() {
        return Some(format!("no group of resctrl has the ways of core {core}; plan again"));
    }
    mine.iter()
        .find_map(|group| changed(tree, shares, group))
        .or_else(|| taken(tree, shares, &mine))
}

/// Whether a group has ways of this core.
fn is_of(shares: &Shares, group: &Group, core: u32) -> bool {
    group.members == Members::Cpu(core)
        || shares.locks.get(&core) == Some(&group.name)
        || group.name == format!("solocore-ab{core}")
}

/// The values of a line, as numbers by cache.
fn numbers(schemata: &str, line: &str) -> Vec<(String, u64)> {
    let parts = values(schemata, line).into_iter().flat_map(|v| v.split(';'));
    let of = |part: &str| {
        let (cache, mask) = part.split_once('=')?;
        Some((cache.trim().to_owned(), u64::from_str_radix(mask.trim(), 16).ok()?))
    };
    parts.filter_map(of).collect()
}

/// A group that no longer has what it was given.
fn changed(tree: &dyn Tree, shares: &Shares, group: &Group) -> Option<String> {
    let name = &group.name;
    let Ok(now) = tree.read(&format!("{name}/schemata")) else {
        return Some(format!("the group `{name}` of resctrl is gone; start again"));
    };
    for line in &shares.masks {
        if numbers(&now, line) != numbers(&group.schemata, line) {
            let has = values(&now, line).unwrap_or("nothing").trim();
            return Some(format!(
                "the group `{name}` of resctrl has {line}:{has} now, not the ways of the plan; \
                    start again, and leave its files alone"
            ));
        }
    }
    let Members::Cpu(cpu) = group.members else { return None };
    let cpus = parse_cpu_list(&tree.read(&format!("{name}/cpus_list")).unwrap_or_default());
    (!cpus.contains(&cpu))
        .then(|| format!("CPU {cpu} is no longer in the group `{name}` of resctrl; start again"))
}

/// Another group, or the first, with ways of these groups.
fn taken(tree: &dyn Tree, shares: &Shares, mine: &[&Group]) -> Option<String> {
    let own = mine.iter().fold(0, |all, g| all | all_ways(&shares.masks, &g.schemata));
    let has = |path: &str| all_ways(&shares.masks, &tree.read(path).unwrap_or_default());
    let foreign = |d: &String| mine.iter().all(|g| g.name != *d);
    let others: Vec<String> = tree.directories().into_iter().filter(foreign).collect();
    if let Some(other) = others.iter().find(|d| has(&format!("{d}/schemata")) & own != 0) {
        return Some(format!(
            "the group `{other}` of resctrl has some of its ways; remove that group"
        ));
    }
    // Where every way is a core's, the first group keeps its mask, and has no CPU.
    let empty = shares.first.is_none()
        && parse_cpu_list(&tree.read("cpus_list").unwrap_or_default()).is_empty();
    (!empty && has("schemata") & own != 0).then(|| {
        "the first group of resctrl has some of its ways; start again, and leave its schemata alone"
            .to_owned()
    })
}
