//! Groups, and what is done to them.

use crate::errno::Errno;
use crate::group::{Group, Mode, Monitor};
use crate::hardware::Hardware;
use crate::masks;
use std::collections::{BTreeMap, BTreeSet};

/// A group's mode, CPUs, tasks, and masks of its first line by cache.
pub type Seen = (Mode, Vec<u32>, Vec<u32>, Vec<u32>);

/// A file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file, and whether it may be written.
    File(bool),
}

/// Who a file belongs to: indices of the group, and of a monitoring group in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub group: usize,
    pub monitor: Option<usize>,
}

/// See the crate.
pub struct Double {
    pub(crate) hardware: Hardware,
    pub(crate) groups: Vec<Group>,
    pub(crate) status: String,
    used_closids: BTreeSet<u32>,
    used_rmids: BTreeSet<u32>,
    /// Is there such a task? By default every number is one.
    pub task_exists: fn(u32) -> bool,
    /// What a counter reads, by number for monitoring and event; where nothing is set, occupancy is
    /// what the group may have at most, and bytes grow by 1 MB with each read.
    pub readings: BTreeMap<(u32, String), String>,
    pub(crate) reads: u64,
}

impl Double {
    /// As it is right after mounting.
    #[must_use]
    pub fn new(hardware: Hardware) -> Self {
        let caches = hardware.caches.len();
        let first = Group {
            name: String::new(),
            closid: 0,
            rmid: 0,
            mode: Mode::Shareable,
            cpus: (0..hardware.cpus).collect(),
            tasks: BTreeSet::new(),
            masks: vec![vec![hardware.all_ways(); caches]; hardware.cache_lines().len()],
            bandwidth: hardware
                .bandwidth
                .map_or(Vec::new(), |b| vec![if b.in_mib { u32::MAX } else { 100 }; caches]),
            locked: None,
            monitors: Vec::new(),
        };
        Self {
            groups: vec![first],
            status: String::new(),
            used_closids: [0].into(),
            used_rmids: [0].into(),
            task_exists: |_| true,
            readings: BTreeMap::new(),
            reads: 0,
            hardware,
        }
    }

    /// Names of the groups beside the first, in the order in which they were made.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.groups[1..].iter().map(|g| g.name.as_str()).collect()
    }

    /// A group; the first one has no name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<Seen> {
        let g = self.groups.iter().find(|g| g.name == name)?;
        let masks = g.masks.first().cloned().unwrap_or_default();
        Some((g.mode, g.cpus.iter().copied().collect(), g.tasks.iter().copied().collect(), masks))
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.status += text;
        self.status.push('\n');
    }

    /// Says why, and refuses.
    pub(crate) fn refuse<T>(&mut self, errno: Errno, text: &str) -> Result<T, Errno> {
        self.say(text);
        Err(errno)
    }

    /// Allocation or monitoring?
    pub(crate) fn can_share(&self) -> bool {
        self.hardware.closids_in_all() > 0
    }

    /// The owner of a directory: of the root, of a group, or of a monitoring group.
    pub(crate) fn owner(&self, directory: &str) -> Option<Owner> {
        let parts: Vec<&str> = directory.split('/').filter(|p| !p.is_empty()).collect();
        let group =
            |name: &str| self.groups.iter().skip(1).position(|g| g.name == name).map(|at| at + 1);
        let monitor = |group: usize, name: &str| {
            let at = self.groups[group].monitors.iter().position(|m| m.name == name)?;
            Some(Owner { group, monitor: Some(at) })
        };
        match parts[..] {
            [] => Some(Owner { group: 0, monitor: None }),
            ["mon_groups", name] => monitor(0, name),
            [name] => Some(Owner { group: group(name)?, monitor: None }),
            [name, "mon_groups", m] => monitor(group(name)?, m),
            _ => None,
        }
    }

    /// Makes a group.
    ///
    /// # Errors
    /// As the kernel.
    pub fn mkdir(&mut self, path: &str) -> Result<(), Errno> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if self.kind(path).is_some() {
            return Err(libc::EEXIST);
        }
        if name.contains('\n') || name.is_empty() {
            return Err(libc::EINVAL);
        }
        if parent.is_empty() && self.can_share() {
            return self.make_group(name);
        }
        if self.hardware.rmids == 0 {
            return Err(libc::EPERM);
        }
        self.status.clear();
        let of = parent.strip_suffix("mon_groups").map(|p| p.trim_end_matches('/'));
        match of.and_then(|p| self.owner(p)) {
            Some(Owner { group, monitor: None }) if name != "mon_groups" => {
                self.make_monitor(group, name)
            }
            _ if self.kind(parent).is_none() => Err(libc::ENOENT),
            _ => Err(libc::EPERM),
        }
    }

    fn make_group(&mut self, name: &str) -> Result<(), Errno> {
        self.status.clear();
        let Some(closid) =
            (0..self.hardware.closids_in_all()).find(|c| !self.used_closids.contains(c))
        else {
            return self.refuse(libc::ENOSPC, "Out of CLOSIDs");
        };
        let rmid = self.free_rmid()?;
        let masks = match masks::first_masks(&self.hardware, &self.groups) {
            Ok(masks) => masks,
            Err(why) => return self.refuse(libc::ENOSPC, &why),
        };
        let bandwidth = self.groups[0].bandwidth.iter().map(|_| self.most_bandwidth()).collect();
        self.used_closids.insert(closid);
        self.used_rmids.insert(rmid);
        self.groups.push(Group {
            name: name.to_owned(),
            closid,
            rmid,
            mode: Mode::Shareable,
            cpus: BTreeSet::new(),
            tasks: BTreeSet::new(),
            masks,
            bandwidth,
            locked: None,
            monitors: Vec::new(),
        });
        Ok(())
    }

    fn most_bandwidth(&self) -> u32 {
        if self.hardware.bandwidth.is_some_and(|b| b.in_mib) { u32::MAX } else { 100 }
    }

    fn free_rmid(&mut self) -> Result<u32, Errno> {
        if self.hardware.rmids == 0 {
            return Ok(0);
        }
        match (0..self.hardware.rmids).find(|r| !self.used_rmids.contains(r)) {
            Some(rmid) => Ok(rmid),
            None => self.refuse(libc::ENOSPC, "Out of RMIDs"),
        }
    }

    fn make_monitor(&mut self, group: usize, name: &str) -> Result<(), Errno> {
        if matches!(self.groups[group].mode, Mode::LockSetup | Mode::Locked) {
            return self.refuse(libc::EINVAL, "Pseudo-locking in progress");
        }
        let rmid = self.free_rmid()?;
        self.used_rmids.insert(rmid);
        let monitor =
            Monitor { name: name.to_owned(), rmid, cpus: BTreeSet::new(), tasks: BTreeSet::new() };
        self.groups[group].monitors.push(monitor);
        Ok(())
    }

    /// Removes a group; its CPUs and tasks fall to the first.
    ///
    /// # Errors
    /// As the kernel.
    pub fn rmdir(&mut self, path: &str) -> Result<(), Errno> {
        if self.kind(path).is_none() {
            return Err(libc::ENOENT);
        }
        match self.owner(path) {
            Some(Owner { group, monitor: Some(at) }) => {
                let gone = self.groups[group].monitors.remove(at);
                self.used_rmids.remove(&gone.rmid);
                Ok(())
            }
            Some(Owner { group, monitor: None }) if group > 0 => {
                let gone = self.groups.remove(group);
                self.groups[0].cpus.extend(gone.cpus);
                // A locked group has given its class back already.
                if gone.mode != Mode::Locked {
                    self.used_closids.remove(&gone.closid);
                }
                if !matches!(gone.mode, Mode::LockSetup | Mode::Locked) {
                    self.used_rmids.remove(&gone.rmid);
                }
                for monitor in gone.monitors {
                    self.used_rmids.remove(&monitor.rmid);
                }
                Ok(())
            }
            _ => Err(libc::EPERM),
        }
    }

    /// Writes to `mode`.
    pub(crate) fn set_mode(&mut self, group: usize, text: &str) -> Result<(), Errno> {
        let Some(text) = text.strip_suffix('\n') else { return Err(libc::EINVAL) };
        self.status.clear();
        let old = self.groups[group].mode;
        if text == old.text() {
            return Ok(());
        }
        if old == Mode::Locked {
            return self.refuse(libc::EINVAL, "Cannot change pseudo-locked group");
        }
        let new = match text {
            "shareable" => Mode::Shareable,
            "exclusive" => {
                if self.hardware.ways == 0 {
                    return self.refuse(libc::EINVAL, "Cannot be exclusive without CAT/CDP");
                }
                if masks::overlaps_anything(&self.hardware, &self.groups, group) {
                    return self.refuse(libc::EINVAL, "Schemata overlaps");
                }
                Mode::Exclusive
            }
            "pseudo-locksetup" => {
                self.begin_locking(group)?;
                Mode::LockSetup
            }
            _ => return self.refuse(libc::EINVAL, "Unknown or unsupported mode"),
        };
        if old == Mode::LockSetup {
            let rmid = self.free_rmid()?;
            self.used_rmids.insert(rmid);
            self.groups[group].rmid = rmid;
        }
        self.groups[group].mode = new;
        Ok(())
    }

    fn begin_locking(&mut self, group: usize) -> Result<(), Errno> {
        let g = &self.groups[group];
        let why = if group == 0 {
            "Cannot pseudo-lock default group"
        } else if self.hardware.cdp {
            "CDP enabled"
        } else if !self.hardware.pseudo_lock {
            "Pseudo-locking not supported"
        } else if !g.monitors.is_empty() {
            "Monitoring in progress"
        } else if !g.tasks.is_empty() {
            "Tasks assigned to resource group"
        } else if !g.cpus.is_empty() {
            "CPUs assigned to resource group"
        } else {
            let rmid = g.rmid;
            self.used_rmids.remove(&rmid);
            return Ok(());
        };
        self.refuse(libc::EINVAL, why)
    }

    /// A schemata was written to a group in `pseudo-locksetup`.
    pub(crate) fn lock(&mut self, group: usize, cache: usize, mask: u32) -> Result<(), Errno> {
        /// The largest piece of memory that the kernel hands out (KMALLOC_MAX_SIZE of x86-64).
        const MOST: u64 = 4 << 20;
        let bytes = self.hardware.cache_bytes / u64::from(self.hardware.ways.max(1))
            * u64::from(mask.count_ones());
        if bytes > MOST {
            return self.refuse(libc::E2BIG, "Requested region exceeds maximum size");
        }
        let g = &mut self.groups[group];
        g.mode = Mode::Locked;
        g.locked = Some((cache, mask));
        let closid = g.closid;
        self.used_closids.remove(&closid);
        Ok(())
    }

    /// Writes to `cpus` or `cpus_list`, which is read already; none: it cannot be read.
    pub(crate) fn set_cpus(
        &mut self,
        owner: Owner,
        cpus: Option<BTreeSet<u32>>,
    ) -> Result<(), Errno> {
        self.status.clear();
        if matches!(self.groups[owner.group].mode, Mode::LockSetup | Mode::Locked) {
            return self.refuse(libc::EINVAL, "Pseudo-locking in progress");
        }
        let Some(new) = cpus else { return self.refuse(libc::EINVAL, "Bad CPU list/mask") };
        if new.iter().any(|&cpu| cpu >= self.hardware.cpus) {
            return self.refuse(libc::EINVAL, "Can only assign online CPUs");
        }
        if let Some(at) = owner.monitor {
            if !new.is_subset(&self.groups[owner.group].cpus) {
                return self
                    .refuse(libc::EINVAL, "Can only add CPUs to mongroup that belong to parent");
            }
            for monitor in &mut self.groups[owner.group].monitors {
                monitor.cpus.retain(|cpu| !new.contains(cpu));
            }
            self.groups[owner.group].monitors[at].cpus = new;
            return Ok(());
        }
        let dropped: Vec<u32> = self.groups[owner.group].cpus.difference(&new).copied().collect();
        if owner.group == 0 && !dropped.is_empty() {
            return self.refuse(libc::EINVAL, "Can't drop CPUs from default group");
        }
        self.groups[0].cpus.extend(dropped);
        for group in &mut self.groups {
            group.cpus.retain(|cpu| !new.contains(cpu));
            for monitor in &mut group.monitors {
                monitor.cpus.retain(|cpu| group.cpus.contains(cpu));
            }
        }
        self.groups[owner.group].cpus = new;
        Ok(())
    }

    /// Writes to `tasks`: those before the first that is refused are moved.
    pub(crate) fn add_tasks(&mut self, owner: Owner, text: &str) -> Result<(), Errno> {
        self.status.clear();
        if matches!(self.groups[owner.group].mode, Mode::LockSetup | Mode::Locked) {
            return self.refuse(libc::EINVAL, "Pseudo-locking in progress");
        }
        for word in text.lines().next().unwrap_or_default().split(',') {
            let word = word.trim();
            let Ok(pid) = word.parse::<i64>() else {
                return self.refuse(libc::EINVAL, &format!("Task list parsing error pid {word}"));
            };
            let Ok(pid) = u32::try_from(pid) else {
                return self.refuse(libc::EINVAL, &format!("Invalid pid {pid}"));
            };
            if pid != 0 && !(self.task_exists)(pid) {
                self.say(&format!("No task {pid}"));
                return self.refuse(libc::ESRCH, &format!("Error while processing task {pid}"));
            }
            self.move_task(owner, pid)?;
        }
        Ok(())
    }

    fn move_task(&mut self, owner: Owner, pid: u32) -> Result<(), Errno> {
        let from = self.groups.iter().position(|g| g.tasks.contains(&pid)).unwrap_or(0);
        if owner.monitor.is_some() && from != owner.group {
            self.say("Can't move task to different control group");
            return self.refuse(libc::EINVAL, &format!("Error while processing task {pid}"));
        }
        for group in &mut self.groups {
            group.tasks.remove(&pid);
            for monitor in &mut group.monitors {
                monitor.tasks.remove(&pid);
            }
        }
        // Who is in no group is in the first.
        if owner.group > 0 {
            self.groups[owner.group].tasks.insert(pid);
        }
        if let Some(at) = owner.monitor {
            self.groups[owner.group].monitors[at].tasks.insert(pid);
        }
        Ok(())
    }
}
