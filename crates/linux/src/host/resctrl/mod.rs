//! Shares of cache and bandwidth given by the hardware, through the kernel's resctrl.
//!
//! Problem: budgets of accesses are enforced by interrupts; ways of the shared cache cannot be
//! enforced by them at all.
//! Rule: the shares of a plan are computed (`shares`) and checked against the hardware (`info`)
//! before anything is changed; then all groups are made or none (`apply`). After a refusal,
//! everything is put back, and the kernel's reason (`info/last_cmd_status`) is reported. At the end
//! the keeper removes the groups and puts the first group's lines back, also after `kill -9`. The
//! occupancy and the transfers of the groups are read meanwhile (`monitor`).
//! Source: Documentation/filesystems/resctrl.rst of Linux; Documentation/arch/arm64/mpam.rst for
//! Arm, with the same files (docs/ways.md lists the differences).
//! Does not cover: the meaning of a percentage of bandwidth (the hardware throttles requests
//! approximately; no bound rests on it, the counters go on); ways of the second-level cache. No
//! machine of this project has the hardware: the code was tried on an imitation of the kernel's
//! rules (tests/resctrl-double).

mod held;
#[cfg(test)]
mod held_tests;
mod info;
mod monitor;
mod other;
#[cfg(test)]
mod other_tests;
pub(crate) mod pseudo_lock;
pub(crate) mod reserve;
mod shares;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use held::lost;
pub(crate) use info::Info;
pub(crate) use monitor::Groups;
pub(crate) use other::Other;
#[cfg(test)]
pub(crate) use shares::Group;
pub(crate) use shares::{Members, Shares, shares};
pub(crate) use tree::{Mounted, Record, Tree, root};

use super::finding::Finding;
use crate::error::LinuxError;
use crate::host::keeper::Changes;
use solocore_model::Plan;
use std::fs;
use std::io;

impl Record for Changes {
    fn group(&mut self, name: &str) -> io::Result<()> {
        self.made_directory(&root().join(name).display().to_string())
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.note_setting(&root().join("schemata").display().to_string(), line)
    }
}

/// Gives all shares, or none.
pub(crate) fn apply(
    tree: &mut dyn Tree,
    shares: &Shares,
    record: &mut dyn Record,
) -> Result<(), LinuxError> {
    let mut made = Vec::new();
    let Err((at, e)) = change(tree, shares, record, &mut made) else { return Ok(()) };
    let said = tree::said(tree);
    for name in made.iter().rev() {
        // The group was made here, and no other program knows it yet.
        let _ = tree.remove(name);
    }
    // Only now: the groups may be exclusive.
    for line in shares.first.iter().flat_map(|f| &f.back) {
        let _ = tree.write("schemata", &format!("{line}\n"));
    }
    let remedy = if e.kind() == io::ErrorKind::AlreadyExists {
        format!("remove what is left over: rmdir {}", root().join(&at).display())
    } else {
        "leave --resctrl out, or plan with what `solocore doctor` says".to_owned()
    };
    Err(LinuxError::Machine(format!("resctrl refuses {at}: {e}{said}; {remedy}")))
}

/// Makes the changes; an error names the group or line that was changed.
fn change(
    tree: &mut dyn Tree,
    shares: &Shares,
    record: &mut dyn Record,
    made: &mut Vec<String>,
) -> Result<(), (String, io::Error)> {
    // Recorded first, so that it is put back last: the groups are gone by then.
    for line in shares.first.iter().flat_map(|f| &f.back) {
        record.line(line).map_err(|e| ("the first group".to_owned(), e))?;
    }
    for group in &shares.groups {
        let fail = |e| (group.name.clone(), e);
        // A group of this name that another program made must not be removed at the end.
        if tree.read(&format!("{}/tasks", group.name)).is_ok() {
            return Err(fail(io::ErrorKind::AlreadyExists.into()));
        }
        record.group(&group.name).map_err(fail)?;
        tree.make(&group.name).map_err(fail)?;
        made.push(group.name.clone());
        if !group.schemata.is_empty() {
            tree.write(&format!("{}/schemata", group.name), &group.schemata).map_err(fail)?;
        }
    }
    for line in shares.first.iter().flat_map(|f| &f.lines) {
        tree.write("schemata", &format!("{line}\n"))
            .map_err(|e| ("the first group".to_owned(), e))?;
    }
    for group in &shares.groups {
        let fail = |e| (group.name.clone(), e);
        if group.exclusive {
            tree.write(&format!("{}/mode", group.name), "exclusive\n").map_err(fail)?;
        }
        if let Members::Cpu(cpu) = group.members {
            // Last: it takes effect only now.
            tree.write(&format!("{}/cpus_list", group.name), &format!("{cpu}\n")).map_err(fail)?;
        }
    }
    Ok(())
}

/// Puts the plan's shares in place, for the lifetime of the keeper.
///
/// # Errors
/// The machine cannot give them, or the plan is for another machine.
pub(crate) fn give(
    plan: &Plan,
    changes: &mut Changes,
) -> Result<(Groups, Vec<String>), LinuxError> {
    let shares = look(plan)?;
    apply(&mut Mounted(root()), &shares, changes)?;
    Ok((Groups::new(root(), &shares), shares.notes))
}

/// The shares that the plan would get here.
pub(crate) fn look(plan: &Plan) -> Result<Shares, LinuxError> {
    let tree = Mounted(root());
    shares(plan, &Info::read(&tree, &mounts())?, &tree)
}

/// The change to the shares of another plan, while those of a run are in force.
///
/// # Errors
/// As [`look`], or the new shares cannot follow the old ones.
pub(crate) fn look_at_other(old: &Shares, plan: &Plan) -> Result<Other, LinuxError> {
    let tree = Mounted(root());
    Other::of(old, plan, &Info::read(&tree, &mounts())?, &tree)
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mounts").unwrap_or_default()
}

/// Shares that the machine can enforce beside budgets, for `solocore doctor`.
pub(crate) fn findings(cpuinfo: &str) -> Vec<Finding> {
    let flags = cpuinfo
        .lines()
        .find(|l| l.starts_with("flags") || l.starts_with("Features"))
        .unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    let hardware = match Info::read(&Mounted(root()), &mounts()) {
        Ok(info) => Finding::new("resctrl", true, info.text()),
        Err(e) if has("cat_l3") || has("mba") => Finding::new("resctrl", false, e.to_string()),
        Err(_) => Finding::new(
            "resctrl",
            false,
            "this CPU has no hardware shares of cache or bandwidth (Intel CAT and MBA, AMD QoS, \
                Arm MPAM), or hides them; nothing to be done: the ways of a plan are not \
                enforced"
                .to_owned(),
        ),
    };
    let (good, found) = pseudo_lock::finding(cpuinfo);
    vec![
        hardware,
        Finding::new("pseudo-locking", good, found),
        Finding::new(
            "locked pages and colours",
            false,
            "no interface of stock Linux locks lines in a shared cache: `solocore run --resctrl` \
                reads locked pages into ways of their own where the CPU has ways to share out, and \
                bounds that rest on locked pages do not hold by that (docs/ways.md). Colours and \
                banks: `solocore run --colors` places the pages of started programs (docs/space.md)"
                .to_owned(),
        ),
    ]
}
