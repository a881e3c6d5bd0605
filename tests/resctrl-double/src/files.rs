//! Which files there are, and what is read from them and written to them.

use crate::errno::Errno;
use crate::group::Mode;
use crate::groups::{Double, Kind, Owner};
use crate::schemata;
use std::collections::BTreeSet;

/// Files of a group, and whether they may be written; those of a group for monitoring are the first
/// three.
const OF_A_GROUP: &[(&str, bool)] = &[
    ("cpus", true),
    ("cpus_list", true),
    ("tasks", true),
    ("mode", true),
    ("schemata", true),
    ("size", false),
];
const OF_CACHE: &[&str] =
    &["bit_usage", "cbm_mask", "min_cbm_bits", "num_closids", "shareable_bits", "sparse_masks"];
const OF_BANDWIDTH: &[&str] = &["bandwidth_gran", "delay_linear", "min_bandwidth", "num_closids"];
const OF_MONITORING: &[&str] = &["max_threshold_occupancy", "mon_features", "num_rmids"];
/// Width of the names in a schemata.
const WIDTH: usize = 6;

/// `0-2,5`, as the kernel reads it; none: it cannot be read.
fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last > 4096 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

fn cpu_mask(text: &str) -> Option<BTreeSet<u32>> {
    let mask = u64::from_str_radix(&text.trim().replace(',', ""), 16).ok()?;
    Some((0..64).filter(|bit| mask >> bit & 1 == 1).collect())
}

fn as_list(cpus: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let text = |&(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

impl Double {
    /// Is there such a file or directory? The root is the empty path.
    #[must_use]
    pub fn kind(&self, path: &str) -> Option<Kind> {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Some(Kind::Directory);
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.list(parent)?.into_iter().find(|(n, _)| n == name).map(|(_, kind)| kind)
    }

    /// What is in a directory.
    #[must_use]
    pub fn list(&self, directory: &str) -> Option<Vec<(String, Kind)>> {
        let directory = directory.trim_matches('/');
        if let Some(rest) = directory.strip_prefix("info") {
            return self.list_info(rest.trim_matches('/'));
        }
        if let Some(owner) = self.owner(directory) {
            return Some(self.list_group(owner));
        }
        let (parent, last) = directory.rsplit_once('/').unwrap_or(("", directory));
        let names =
            |names: &[&str], kind| Some(names.iter().map(|&n| (n.to_owned(), kind)).collect());
        if self.hardware.rmids == 0 {
            return None;
        }
        if last == "mon_groups" {
            let owner = self.owner(parent).filter(|o| o.monitor.is_none())?;
            let monitors = &self.groups[owner.group].monitors;
            return Some(monitors.iter().map(|m| (m.name.clone(), Kind::Directory)).collect());
        }
        if last == "mon_data" {
            self.owner(parent)?;
            let caches = self.hardware.caches.iter();
            return Some(caches.map(|c| (format!("mon_L3_{c:02}"), Kind::Directory)).collect());
        }
        self.owner(parent.strip_suffix("mon_data")?.trim_end_matches('/'))?;
        self.cache_named(last)?;
        names(&self.hardware.events, Kind::File(false))
    }

    fn cache_named(&self, directory: &str) -> Option<usize> {
        let id: u32 = directory.strip_prefix("mon_L3_")?.parse().ok()?;
        self.hardware.caches.iter().position(|&c| c == id)
    }

    fn list_info(&self, rest: &str) -> Option<Vec<(String, Kind)>> {
        let names: Vec<&str> = match rest {
            "" => {
                let mut all: Vec<(String, Kind)> = self
                    .hardware
                    .cache_lines()
                    .iter()
                    .map(|&l| (l.to_owned(), Kind::Directory))
                    .collect();
                all.extend(self.hardware.bandwidth.map(|_| ("MB".to_owned(), Kind::Directory)));
                if self.hardware.rmids > 0 {
                    all.push(("L3_MON".to_owned(), Kind::Directory));
                }
                all.push(("last_cmd_status".to_owned(), Kind::File(false)));
                return Some(all);
            }
            "MB" if self.hardware.bandwidth.is_some() => OF_BANDWIDTH.to_vec(),
            "L3_MON" if self.hardware.rmids > 0 => OF_MONITORING.to_vec(),
            line if self.hardware.cache_lines().contains(&line) => OF_CACHE.to_vec(),
            _ => return None,
        };
        Some(names.into_iter().map(|n| (n.to_owned(), Kind::File(false))).collect())
    }

    fn list_group(&self, owner: Owner) -> Vec<(String, Kind)> {
        let shares = self.can_share() && owner.monitor.is_none();
        let files = &OF_A_GROUP[..if shares { OF_A_GROUP.len() } else { 3 }];
        let mut all: Vec<(String, Kind)> =
            files.iter().map(|&(n, w)| (n.to_owned(), Kind::File(w))).collect();
        if shares && self.hardware.bandwidth.is_some_and(|b| b.in_mib) {
            all.push(("mba_MBps_event".to_owned(), Kind::File(true)));
        }
        let mut directory = |name: &str| all.push((name.to_owned(), Kind::Directory));
        if self.hardware.rmids > 0 {
            directory("mon_data");
            if owner.monitor.is_none() {
                directory("mon_groups");
            }
        }
        if owner == (Owner { group: 0, monitor: None }) {
            directory("info");
            self.groups[1..].iter().for_each(|g| directory(&g.name));
        }
        all
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As the kernel.
    pub fn read(&mut self, path: &str) -> Result<String, Errno> {
        let path = path.trim_matches('/');
        match self.kind(path) {
            None => return Err(libc::ENOENT),
            Some(Kind::Directory) => return Err(libc::EISDIR),
            Some(Kind::File(_)) => {}
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if let Some(rest) = parent.strip_prefix("info") {
            return Ok(self.read_info(rest.trim_matches('/'), name));
        }
        match self.owner(parent) {
            Some(owner) => Ok(self.read_group(owner, name)),
            None => Ok(self.read_counter(parent, name)),
        }
    }

    fn read_info(&self, line: &str, name: &str) -> String {
        let (h, b) = (&self.hardware, self.hardware.bandwidth);
        let text = match name {
            "last_cmd_status" if self.status.is_empty() => "ok".to_owned(),
            "last_cmd_status" => return self.status.clone(),
            "cbm_mask" => format!("{:x}", h.all_ways()),
            "min_cbm_bits" => h.least_bits.to_string(),
            "shareable_bits" => format!("{:x}", h.shareable),
            "sparse_masks" => u8::from(h.sparse).to_string(),
            "num_closids" => h.closids_of(line).to_string(),
            "bit_usage" => self.bit_usage(line),
            "bandwidth_gran" => b.map_or(0, |b| b.step).to_string(),
            "min_bandwidth" => b.map_or(0, |b| b.least).to_string(),
            "delay_linear" => "1".to_owned(),
            "num_rmids" => h.rmids.to_string(),
            "mon_features" => h.events.join("\n"),
            _ => "65536".to_owned(),
        };
        text + "\n"
    }

    /// Per cache, from the highest bit: X and H: devices use it; S, E and P: shared, exclusive,
    /// pseudo-locked; 0: unused.
    fn bit_usage(&self, line: &str) -> String {
        let at = self.hardware.cache_lines().iter().position(|&l| l == line).unwrap_or(0);
        let of = |cache: usize, mode: Mode| {
            self.groups.iter().filter(|g| g.mode == mode).fold(0, |all, g| all | g.masks[at][cache])
        };
        let one = |(cache, id): (usize, &u32)| {
            let (shared, exclusive) = (of(cache, Mode::Shareable), of(cache, Mode::Exclusive));
            let locked = self
                .groups
                .iter()
                .filter_map(|g| g.locked)
                .filter(|l| l.0 == cache)
                .fold(0, |all, l| all | l.1);
            let letter = |bit: u32| {
                let has = |mask: u32| mask >> bit & 1 == 1;
                match (has(self.hardware.shareable), has(shared)) {
                    (true, true) => 'X',
                    (true, false) => 'H',
                    (false, true) => 'S',
                    _ if has(exclusive) => 'E',
                    _ if has(locked) => 'P',
                    _ => '0',
                }
            };
            format!("{id}={}", (0..self.hardware.ways).rev().map(letter).collect::<String>())
        };
        self.hardware.caches.iter().enumerate().map(one).collect::<Vec<_>>().join(";")
    }

    fn read_group(&self, owner: Owner, name: &str) -> String {
        let group = &self.groups[owner.group];
        let (cpus, tasks) = match owner.monitor {
            Some(at) => (&group.monitors[at].cpus, &group.monitors[at].tasks),
            None => (&group.cpus, &group.tasks),
        };
        match name {
            "cpus_list" => as_list(cpus) + "\n",
            "cpus" => {
                let digits = self.hardware.cpus.div_ceil(4).max(1) as usize;
                let mask = cpus.iter().filter(|&&c| c < 64).fold(0u64, |all, c| all | 1 << c);
                format!("{mask:0digits$x}\n")
            }
            "tasks" => tasks.iter().map(|t| format!("{t}\n")).collect(),
            "mode" => format!("{}\n", group.mode.text()),
            "mba_MBps_event" => "mbm_local_bytes\n".to_owned(),
            name => self.read_shares(owner.group, name == "size"),
        }
    }

    fn read_shares(&self, at: usize, as_bytes: bool) -> String {
        let (h, group) = (&self.hardware, &self.groups[at]);
        let lines = h.cache_lines();
        if group.mode == Mode::LockSetup && !as_bytes {
            let names = lines.iter().copied().chain(h.bandwidth.map(|_| "MB"));
            return names.map(|l| format!("{l}:uninitialized\n")).collect();
        }
        let bytes =
            |mask: u32| h.cache_bytes / u64::from(h.ways.max(1)) * u64::from(mask.count_ones());
        if let (Mode::Locked, Some((cache, mask))) = (group.mode, group.locked) {
            let (id, name) = (h.caches[cache], lines[0]);
            return if as_bytes {
                format!("{name:>WIDTH$}:{id}={}\n", bytes(mask))
            } else {
                format!("{name}:{id}={mask:x}\n")
            };
        }
        let value = |mask: u32| match (as_bytes, group.mode) {
            (false, _) => format!("{mask:x}"),
            (true, Mode::LockSetup) => "0".to_owned(),
            (true, _) => bytes(mask).to_string(),
        };
        let row = |name: &str, values: Vec<String>| {
            let parts: Vec<String> =
                h.caches.iter().zip(values).map(|(id, v)| format!("{id}={v}")).collect();
            format!("{name:>WIDTH$}:{}\n", parts.join(";"))
        };
        let mut out = String::new();
        for (line, masks) in lines.iter().zip(&group.masks) {
            out += &row(line, masks.iter().map(|&m| value(m)).collect());
        }
        if h.bandwidth.is_some() {
            out += &row("MB", group.bandwidth.iter().map(u32::to_string).collect());
        }
        out
    }

    fn read_counter(&mut self, directory: &str, event: &str) -> String {
        let (owner, cache) = directory.rsplit_once('/').unwrap_or(("", directory));
        let owner =
            self.owner(owner.strip_suffix("mon_data").unwrap_or_default().trim_end_matches('/'));
        let owner = owner.unwrap_or(Owner { group: 0, monitor: None });
        let group = &self.groups[owner.group];
        let (rmid, used) = match owner.monitor {
            Some(at) => (group.monitors[at].rmid, !group.monitors[at].cpus.is_empty()),
            None => (group.rmid, !group.cpus.is_empty() || !group.tasks.is_empty()),
        };
        if let Some(text) = self.readings.get(&(rmid, event.to_owned())) {
            return format!("{text}\n");
        }
        if event == "llc_occupancy" {
            let at = self.cache_named(cache).unwrap_or(0);
            let mask = group.masks.first().map_or(self.hardware.all_ways(), |m| m[at]);
            let way = self.hardware.cache_bytes / u64::from(self.hardware.ways.max(1));
            return format!("{}\n", if used { way * u64::from(mask.count_ones()) } else { 0 });
        }
        self.reads += 1;
        format!("{}\n", self.reads * 1_000_000)
    }

    /// Writes a file, all of it in one piece.
    ///
    /// # Errors
    /// As the kernel.
    pub fn write(&mut self, path: &str, text: &str) -> Result<(), Errno> {
        let path = path.trim_matches('/');
        match self.kind(path) {
            None => return Err(libc::ENOENT),
            Some(Kind::Directory) => return Err(libc::EISDIR),
            Some(Kind::File(false)) => return Err(libc::EACCES),
            Some(Kind::File(true)) => {}
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(owner) = self.owner(parent) else { return Err(libc::EINVAL) };
        match name {
            "cpus_list" => self.set_cpus(owner, cpu_list(text)),
            "cpus" => self.set_cpus(owner, cpu_mask(text)),
            "tasks" => self.add_tasks(owner, text),
            "mode" => self.set_mode(owner.group, text),
            "mba_MBps_event" => Ok(()),
            _ => schemata::write(self, owner.group, text),
        }
    }
}
