//! Occupancy and transfers of the groups.
//!
//! Rule: a group's counters are summed over the caches; bytes count since the group was made. Where
//! the kernel has no figure (`Unavailable`, `Error`, or no such counter) there is none here either.
//! Does not cover: the delay of the hardware (occupancy follows the cache by up to some
//! milliseconds); lines that a group brought in before are its own until they leave.

use super::held::lost;
use super::shares::{Members, Shares};
use super::tree::{Mounted, Tree};
use solocore_model::run::RunGroup;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The groups that were made, to be read.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    root: PathBuf,
    groups: Vec<(RunGroup, [Option<u64>; 2])>,
    shares: Shares,
}

const BYTES: [&str; 2] = ["mbm_total_bytes", "mbm_local_bytes"];

/// The sum over the caches of one counter; none if any cannot be read.
pub(super) fn counter(tree: &dyn Tree, group: &str, caches: &[String], event: &str) -> Option<u64> {
    if caches.is_empty() {
        return None;
    }
    let one = |cache: &String| {
        tree.read(&format!("{group}/mon_data/{cache}/{event}")).ok()?.trim().parse::<u64>().ok()
    };
    caches.iter().map(one).sum()
}

impl Groups {
    /// The groups, right after they were made.
    pub fn new(root: PathBuf, shares: &Shares) -> Self {
        let mut groups = Self { root, groups: Vec::new(), shares: shares.clone() };
        for g in &shares.groups {
            let cpu = match g.members {
                Members::Cpu(cpu) => Some(cpu),
                Members::Tasks => None,
            };
            let schemata = g.schemata.lines().map(str::to_owned).collect();
            let run = RunGroup {
                group: g.name.clone(),
                cpu,
                schemata,
                exclusive: g.exclusive,
                ..RunGroup::default()
            };
            let begun = BYTES.map(|event| groups.read(&g.name, event));
            groups.groups.push((run, begun));
        }
        groups
    }

    fn read(&self, group: &str, event: &str) -> Option<u64> {
        let directory = self.root.join(group).join("mon_data");
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let caches: Vec<String> = entries
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with("mon_L3_"))
            .collect();
        counter(&Mounted(self.root.clone()), group, &caches, event)
    }

    /// The groups' counts now.
    pub fn runs(&self) -> Vec<RunGroup> {
        let one = |(run, begun): &(RunGroup, [Option<u64>; 2])| {
            let since = |at: usize| {
                let now = self.read(&run.group, BYTES[at])?;
                Some(now.saturating_sub(begun[at]?))
            };
            RunGroup {
                occupancy_bytes: self.read(&run.group, "llc_occupancy"),
                total_bytes: since(0),
                local_bytes: since(1),
                ..run.clone()
            }
        };
        self.groups.iter().map(one).collect()
    }

    /// The same groups have other shares from now on.
    pub fn have(&mut self, shares: &Shares) {
        for ((run, _), group) in self.groups.iter_mut().zip(&shares.groups) {
            run.schemata = group.schemata.lines().map(str::to_owned).collect();
        }
        self.shares = shares.clone();
    }

    /// Reason why a core's ways are not its own now; `None` while they are.
    pub fn lost(&self, core: u32) -> Option<String> {
        lost(&Mounted(self.root.clone()), &self.shares, core)
    }

    /// File for the threads of a task, if it has a group of its own.
    pub fn tasks_file(&self, task: &str) -> Option<PathBuf> {
        self.shares.tasks.get(task).map(|group| self.root.join(group).join("tasks"))
    }

    /// Files through which threads join the groups of locked pages, by core.
    pub fn lock_files(&self) -> BTreeMap<u32, PathBuf> {
        self.shares
            .locks
            .iter()
            .map(|(&core, group)| (core, self.root.join(group).join("tasks")))
            .collect()
    }

    /// File through which threads join the first group.
    pub fn first_tasks_file(&self) -> PathBuf {
        self.root.join("tasks")
    }
}
