//! Other ways and limits of bandwidth for the groups of a run that goes on.
//!
//! Problem: the kernel takes masks group by group. Meanwhile no core may have a way that another
//! core still has, and the kernel refuses masks that overlap an exclusive group. Rule: each group
//! that changes first gets the ways that it has in both plans, then its new ones. Then come the
//! limits of bandwidth. If the kernel refuses a line, the groups return in the same way: to the old
//! limits, to the common ways, then to the old ones. Proof: no two groups of one plan overlap.
//! Until all have their common ways, each has ways of the old plan only; after that, each has ways
//! of the new plan only. So no two groups overlap at any moment. A core with more ways than before
//! has at least its old ones throughout. A limit needs no order: a core has its old or its new one,
//! and no bound counts on those of other cores. Source: own derivation; resctrl.rst, "mode". Does
//! not cover, and refuses: a group without enough ways in common; another number or mode of groups;
//! ways of locked pages, which lie in their ways; a limit of bandwidth that comes or goes. Lines
//! that a core has in ways which it loses stay there until other cores evict them.

use super::info::Info;
use super::shares::{Group, Shares, all_ways, mask_lines, shares};
use super::tree::{Tree, said};
use crate::error::LinuxError;
use crate::host::machine::parse_cpu_list;
use solocore_model::Plan;
use std::io;

/// The schemata of a group that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    path: String,
    old: String,
    common: String,
    new: String,
}

/// The limit of bandwidth of a group that gets another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    path: String,
    old: String,
    new: String,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    files: Vec<File>,
    limits: Vec<Limit>,
    before: Shares,
    /// The shares of the new plan.
    pub shares: Shares,
}

impl Other {
    /// The shares that are in force before the change.
    pub fn before(&self) -> &Shares {
        &self.before
    }

    /// The change from shares that are in force to those of another plan. Changes nothing.
    ///
    /// # Errors
    /// The hardware does not give the new shares, or they cannot follow the old ones.
    pub fn of(old: &Shares, plan: &Plan, info: &Info, tree: &dyn Tree) -> Result<Self, LinuxError> {
        let mut new = shares(plan, info, &Before { tree, shares: old })?;
        check_groups(old, &new)?;
        let (mut files, mut limits) = (Vec::new(), Vec::new());
        for (old, new) in old.groups.iter().zip(&new.groups) {
            let path = format!("{}/schemata", new.name);
            let schemata = [old.schemata.as_str(), &new.schemata];
            files.extend(file(path.clone(), &format!("`{}`", new.name), schemata, info)?);
            limits.extend(limit(path, &new.name, schemata)?);
        }
        if let (Some(old), Some(new)) = (&old.first, &mut new.first) {
            new.back.clone_from(&old.back);
            let lines = [&old.lines, &new.lines].map(|lines| lines.join("\n") + "\n");
            let [old, new] = &lines;
            files.extend(file("schemata".to_owned(), "the first group", [old, new], info)?);
        }
        Ok(Self { files, limits, before: old.clone(), shares: new })
    }

    /// Gives the groups their new ways and limits.
    ///
    /// # Errors
    /// The kernel refuses a line; the groups have their old ways and limits again.
    pub fn give(&self, tree: &mut dyn Tree) -> Result<(), LinuxError> {
        let common = self.files.iter().map(|file| (&file.path, &file.common));
        let new = self.files.iter().map(|file| (&file.path, &file.new));
        let limits = self.limits.iter().map(|limit| (&limit.path, &limit.new));
        for (path, text) in common.chain(new).chain(limits) {
            if let Err(e) = tree.write(path, text) {
                let said = said(tree);
                self.take_back(tree);
                return Err(again(&format!("resctrl refuses {path}: {e}{said}")));
            }
        }
        Ok(())
    }

    /// Gives the groups their old ways and limits, after any of the steps above.
    pub fn take_back(&self, tree: &mut dyn Tree) {
        for limit in &self.limits {
            // One that stays costs its core time, and no other core.
            let _ = tree.write(&limit.path, &limit.old);
        }
        let steps: [fn(&File) -> &str; 2] = [|file| &file.common, |file| &file.old];
        for text in steps {
            for file in &self.files {
                // The masks are read again while the run goes on: one that stays is found.
                let _ = tree.write(&file.path, text(file));
            }
        }
    }
}

fn again(why: &str) -> LinuxError {
    LinuxError::Machine(format!("{why}; end the run and start it with the new plan"))
}

/// Checks that both plans have the same groups.
fn check_groups(old: &Shares, new: &Shares) -> Result<(), LinuxError> {
    let names = |shares: &Shares| -> Vec<String> {
        shares.groups.iter().map(|group| group.name.clone()).collect()
    };
    if names(old) != names(new) || old.first.is_some() != new.first.is_some() {
        return Err(again(&format!(
            "the new plan needs other groups of resctrl ({}) than the present one ({}), or only one \
                of them leaves ways free",
            names(new).join(", "),
            names(old).join(", ")
        )));
    }
    let pairs = || old.groups.iter().zip(&new.groups);
    let differs = |what: fn(&Group, &Group) -> bool| pairs().find(|(o, n)| what(o, n));
    if let Some((group, _)) = differs(|o, n| o.exclusive != n.exclusive || o.members != n.members) {
        return Err(again(&format!(
            "the group `{}` would be exclusive in one of the plans only, because devices use some \
                of the ways",
            group.name
        )));
    }
    let locked = |name: &String| old.locks.values().any(|lock| lock == name);
    match pairs().find(|(o, n)| locked(&n.name) && o.schemata != n.schemata) {
        Some((group, _)) => Err(again(&format!(
            "the ways of the group `{}` would change, and locked pages lie in them",
            group.name
        ))),
        None => Ok(()),
    }
}

/// The change of one group's limit of bandwidth; `None`: it stays, or there is none.
fn limit(path: String, name: &str, [old, new]: [&str; 2]) -> Result<Option<Limit>, LinuxError> {
    let of = |schemata: &str| -> String {
        let lines = schemata.lines().filter(|line| line.starts_with("MB:"));
        lines.map(|line| format!("{line}\n")).collect()
    };
    let (old, new) = (of(old), of(new));
    if old.is_empty() != new.is_empty() {
        return Err(again(&format!(
            "the limit of bandwidth of the group `{name}` in resctrl would come or go"
        )));
    }
    Ok((old != new).then_some(Limit { path, old, new }))
}

/// The change of one schemata; `None`: its ways stay.
fn file(
    path: String,
    name: &str,
    [old, new]: [&str; 2],
    info: &Info,
) -> Result<Option<File>, LinuxError> {
    let ways = |schemata: &str| all_ways(&info.lines, schemata);
    let (before, after) = (ways(old), ways(new));
    if before == after {
        return Ok(None);
    }
    let common = before & after;
    let least = info.cache.map_or(1, |cache| cache.least_bits.max(1));
    if common.count_ones() < least {
        return Err(again(&format!(
            "the ways of {name} in resctrl would change from {before:x} to {after:x}, and these \
                masks have too few ways in common"
        )));
    }
    let text = |mask: u64| -> String {
        mask_lines(info, mask).iter().map(|line| format!("{line}\n")).collect()
    };
    Ok(Some(File { path, old: text(before), common: text(common), new: text(after) }))
}

/// The files as they were before the groups of a run were made.
struct Before<'t> {
    tree: &'t dyn Tree,
    shares: &'t Shares,
}

impl Tree for Before<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        if path != "cpus_list" {
            return self.tree.read(path);
        }
        let of = |path: &str| parse_cpu_list(&self.tree.read(path).unwrap_or_default());
        let mut cpus = of(path);
        let groups = self.shares.groups.iter();
        cpus.extend(groups.flat_map(|group| of(&format!("{}/cpus_list", group.name))));
        cpus.sort_unstable();
        let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
        Ok(cpus.join(","))
    }

    fn write(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn make(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn directories(&self) -> Vec<String> {
        let own = |name: &String| self.shares.groups.iter().any(|group| group.name == *name);
        self.tree.directories().into_iter().filter(|name| !own(name)).collect()
    }
}
