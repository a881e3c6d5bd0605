//! Bandwidths of a plan's devices, as a part: limits of control groups (`io.max`).
//!
//! Problem: `[[io]]` states what a device moves for a task, and nobody holds the device to that.
//! Rule: the device must be a disk of this machine, and the task's control group must have no other
//! programs. Then `io.max` of the group limits reads from the disk (`direction = "in"`) or writes
//! to it. The limit is the sum of the plan's bandwidths there. An attached task has its own group,
//! a started one that of solocore. A lower limit that is there stays. Every transfer without a
//! limit is a reason against the promise `devices`. That promise stays open in any case: other
//! programs and devices have no limit. Does not cover: a limit that another program changes
//! meanwhile; groups of version 1.

use super::part::{Part, Settings};
use crate::error::LinuxError;
use crate::host::cgroup;
use crate::host::keeper::Changes;
use crate::host::threads::{self, printable};
use crate::schedule::isolate::Layout;
use crate::schedule::placed::How;
use solocore_model::levels::Direction;
use solocore_model::plan::{Answer, Promise, Subject};
use solocore_model::{Bandwidth, Plan};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Disks of the machine.
const DISKS: &str = "/sys/class/block";

/// The part that limits the plan's transfers.
pub struct Devices {
    limits: Vec<Limit>,
    /// Transfers without a limit, with the reasons.
    left: Vec<String>,
    settings: Option<Settings>,
}

/// A transfer of the plan, for a task that runs.
struct Transfer<'a> {
    task: &'a str,
    device: &'a str,
    direction: Direction,
    bytes_per_s: u64,
    /// The process, if the task is attached.
    process: Option<u32>,
}

/// The limit of a control group for a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    /// `io.max` of the group.
    file: PathBuf,
    /// Name of the disk in the plan.
    device: String,
    /// Number of the disk, like `8:0`.
    number: String,
    direction: Direction,
    bytes_per_s: u64,
}

/// Directory of a process's control group (`None`: of solocore's), or the reason against a limit
/// there.
type GroupOf<'a> = dyn Fn(Option<u32>) -> Result<PathBuf, String> + 'a;

impl Devices {
    /// The part for a plan; `places` tells the ways in which tasks are started. Changes nothing.
    #[must_use]
    pub fn new(plan: &Plan, places: &Layout, settings: &Settings) -> Self {
        let how = |task: &str| places.tasks.iter().find(|p| p.name == task).map(|p| &p.how);
        let mut transfers = Vec::new();
        for io in plan.levels().into_iter().flat_map(|levels| &levels.io) {
            let process = match how(&io.task) {
                Some(How::Attach(process)) => Some(*process),
                Some(How::Start(_)) => None,
                _ => continue,
            };
            transfers.push(Transfer {
                task: &io.task,
                device: &io.device,
                direction: io.direction,
                bytes_per_s: io.bytes_per_s,
                process,
            });
        }
        let (limits, left) = divided(&transfers, Path::new(DISKS), &own_group);
        Self { limits, left, settings: Some(settings.clone()) }
    }
}

/// The limits for these transfers, and the reasons why others have none.
fn divided(
    transfers: &[Transfer<'_>],
    disks: &Path,
    group: &GroupOf<'_>,
) -> (Vec<Limit>, Vec<String>) {
    let (mut limits, mut left) = (Vec::<Limit>::new(), Vec::new());
    for transfer in transfers {
        let new = match limit(transfer, disks, group) {
            Ok(new) => new,
            Err(why) => {
                left.push(format!(
                    "no part of the run limits device `{}` of task `{}` to {}, as {why}",
                    transfer.device,
                    transfer.task,
                    Bandwidth(transfer.bytes_per_s)
                ));
                continue;
            }
        };
        let same = |l: &&mut Limit| {
            l.file == new.file && l.number == new.number && l.direction == new.direction
        };
        match limits.iter_mut().find(same) {
            Some(old) => old.bytes_per_s = old.bytes_per_s.saturating_add(new.bytes_per_s),
            None => limits.push(new),
        }
    }
    (limits, left)
}

fn limit(transfer: &Transfer<'_>, disks: &Path, group: &GroupOf<'_>) -> Result<Limit, String> {
    let number = number_of(disks, transfer.device)
        .ok_or_else(|| "this machine has no disk of that name".to_owned())?;
    let file = group(transfer.process)?.join("io.max");
    if !file.is_file() {
        return Err("the controller `io` is off in its control group".to_owned());
    }
    let (device, direction) = (transfer.device.to_owned(), transfer.direction);
    Ok(Limit { file, device, number, direction, bytes_per_s: transfer.bytes_per_s })
}

/// Number of a disk, or of the disk of a partition.
fn number_of(disks: &Path, device: &str) -> Option<String> {
    let name = if device.starts_with("/dev/") {
        fs::canonicalize(device).ok()?.file_name()?.to_str()?.to_owned()
    } else {
        device.to_owned()
    };
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return None;
    }
    let disk = fs::canonicalize(disks.join(name)).ok()?;
    let disk = if disk.join("partition").exists() { disk.parent()?.to_owned() } else { disk };
    Some(fs::read_to_string(disk.join("dev")).ok()?.trim().to_owned())
}

/// The control group of a process (`None`: of solocore), if nobody else is in it.
fn own_group(process: Option<u32>) -> Result<PathBuf, String> {
    let mount =
        cgroup::mount().ok_or_else(|| "no control groups of version 2 are mounted".to_owned())?;
    let proc = Path::new("/proc");
    let process = process.unwrap_or_else(std::process::id);
    let group = cgroup::group_of(proc, process)
        .ok_or_else(|| format!("process {process} has no control group"))?;
    if group.is_empty() {
        return Err("the root control group has no limits".to_owned());
    }
    let family = threads::family(&threads::all(proc, None), process);
    match is_own(&mount.join(&group), &family) {
        true => Ok(mount.join(group)),
        false => Err(format!("control group /{} has other programs too", printable(&group))),
    }
}

/// Whether a group has no process beside these, and no groups below it.
fn is_own(group: &Path, family: &[u32]) -> bool {
    let Ok(inside) = fs::read_to_string(group.join("cgroup.procs")) else { return false };
    let mut below = fs::read_dir(group).into_iter().flatten().flatten();
    inside
        .lines()
        .filter_map(|line| line.trim().parse::<u32>().ok())
        .all(|pid| family.contains(&pid))
        && !below.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

impl Limit {
    fn key(&self) -> &'static str {
        match self.direction {
            Direction::In => "rbps",
            Direction::Out => "wbps",
        }
    }

    /// The present limit in the text of `io.max`; `None`: there is none.
    fn present(&self, text: &str) -> Option<u64> {
        let line = text.lines().find_map(|line| {
            let (number, limits) = line.split_once(' ')?;
            (number == self.number).then_some(limits)
        })?;
        let mut limits = line.split_whitespace().filter_map(|word| word.split_once('='));
        limits.find(|(key, _)| *key == self.key())?.1.parse().ok()
    }

    /// The line that sets the limit, and the line that puts the present one back; `None`: the
    /// present one is not above it.
    fn lines(&self, text: &str) -> Option<(String, String)> {
        let line = |value: &str| format!("{} {}={value}", self.number, self.key());
        let old = self.present(text);
        if old.is_some_and(|old| old <= self.bytes_per_s) {
            return None;
        }
        let back = old.map_or_else(|| "max".to_owned(), |old| old.to_string());
        Some((line(&self.bytes_per_s.to_string()), line(&back)))
    }

    fn set(&self, changes: &mut Changes) -> io::Result<()> {
        match self.lines(&fs::read_to_string(&self.file)?) {
            Some((new, back)) => {
                changes.set_with_way_back(&self.file.display().to_string(), &new, &back)
            }
            None => Ok(()),
        }
    }

    fn what(&self) -> String {
        let what = match self.direction {
            Direction::In => "reads from",
            Direction::Out => "writes to",
        };
        format!("{what} `{}`", self.device)
    }
}

impl Part for Devices {
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        if promise.subject != Subject::Devices {
            return None;
        }
        let why = match self.left.as_slice() {
            [] if self.limits.is_empty() => return None,
            [] => "io.max limits the plan's own transfers only; keep other devices and programs \
                quiet and give --vouch devices"
                .to_owned(),
            [first, more @ ..] => {
                let more = match more.len() {
                    0 => String::new(),
                    more => format!(" (and {more} more transfers of the plan)"),
                };
                format!("{first}{more}; keep devices to the plan and give --vouch devices")
            }
        };
        Some(Answer::open(promise, false, why))
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let Some(settings) = self.settings.clone() else { return Ok(()) };
        for limit in std::mem::take(&mut self.limits) {
            match settings.change(|changes| Ok(limit.set(changes)))? {
                Ok(()) => self.limits.push(limit),
                Err(e) => self.left.push(format!("{} are not limited ({e})", limit.what())),
            }
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let note = |limit: &Limit| {
            format!(
                "{}: at most {} ({})",
                limit.what(),
                Bandwidth(limit.bytes_per_s),
                printable(&limit.file.display().to_string())
            )
        };
        self.limits.iter().map(note).collect()
    }

    fn end(&mut self) {
        // It may hold the last settings.
        self.settings = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Disks `vda` (254:0) with the partition `vda1`, and a control group with `io.max`.
    fn machine() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("disks")).unwrap();
        fs::create_dir_all(at("devices/vda/vda1")).unwrap();
        fs::create_dir_all(at("group")).unwrap();
        fs::write(at("devices/vda/dev"), "254:0\n").unwrap();
        fs::write(at("devices/vda/vda1/dev"), "254:1\n").unwrap();
        fs::write(at("devices/vda/vda1/partition"), "1\n").unwrap();
        fs::write(at("group/io.max"), "").unwrap();
        for (name, to) in [("vda", "../devices/vda"), ("vda1", "../devices/vda/vda1")] {
            std::os::unix::fs::symlink(to, at("disks").join(name)).unwrap();
        }
        let group = at("group");
        (dir, group)
    }

    fn transfer(device: &str, direction: Direction, bytes_per_s: u64) -> Transfer<'_> {
        Transfer { task: "video", device, direction, bytes_per_s, process: None }
    }

    #[test]
    fn bandwidths_of_a_group_and_a_disk_are_added() {
        let (dir, group) = machine();
        let transfers = [
            transfer("vda", Direction::In, 3_000_000),
            transfer("vda1", Direction::In, 2_000_000),
            transfer("vda", Direction::Out, 1_000_000),
            transfer("receiver", Direction::In, 2_000_000),
            transfer("../vda", Direction::In, 2_000_000),
        ];
        let found = divided(&transfers, &dir.path().join("disks"), &|_| Ok(group.clone()));
        let (limits, left) = found;
        let seen: Vec<_> =
            limits.iter().map(|l| (l.number.as_str(), l.key(), l.bytes_per_s)).collect();
        assert_eq!(seen, [("254:0", "rbps", 5_000_000), ("254:0", "wbps", 1_000_000)]);
        assert_eq!(
            left[0],
            "no part of the run limits device `receiver` of task `video` to 2 MB/s, as this machine has no \
                disk of that name"
        );
        assert_eq!(left.len(), 2);
    }

    #[test]
    fn a_group_that_cannot_be_limited_is_a_reason() {
        let (dir, group) = machine();
        fs::remove_file(group.join("io.max")).unwrap();
        let transfers = [transfer("vda", Direction::In, 1)];
        let disks = dir.path().join("disks");
        let off = divided(&transfers, &disks, &|_| Ok(group.clone())).1;
        assert!(off[0].ends_with("the controller `io` is off in its control group"), "{off:?}");
        let shared = divided(&transfers, &disks, &|_| Err("others".to_owned())).1;
        assert!(shared[0].ends_with("to 1 B/s, as others"), "{shared:?}");
        fs::write(group.join("cgroup.procs"), "7\n9\n").unwrap();
        assert!(is_own(&group, &[9, 7, 8]) && !is_own(&group, &[7]));
        fs::create_dir(group.join("below")).unwrap();
        assert!(!is_own(&group, &[9, 7, 8]));
    }

    #[test]
    fn a_lower_limit_stays_and_a_higher_one_comes_back() {
        let limit = Limit {
            file: PathBuf::from("/io.max"),
            device: "sda".to_owned(),
            number: "8:0".to_owned(),
            direction: Direction::In,
            bytes_per_s: 5000,
        };
        let lines = |text: &str| limit.lines(text);
        let new = |back: &str| Some(("8:0 rbps=5000".to_owned(), format!("8:0 rbps={back}")));
        assert_eq!(lines(""), new("max"));
        assert_eq!(lines("8:16 rbps=1 wbps=max riops=max wiops=max\n"), new("max"));
        assert_eq!(lines("8:0 rbps=max wbps=7 riops=max wiops=max\n"), new("max"));
        assert_eq!(lines("8:0 rbps=6000 wbps=7 riops=max wiops=max\n"), new("6000"));
        assert_eq!(lines("8:16 rbps=max\n8:0 rbps=5000 wbps=7 riops=max wiops=max\n"), None);
        let out = Limit { direction: Direction::Out, ..limit.clone() };
        assert_eq!(out.lines("8:0 rbps=1 wbps=7000\n").unwrap().1, "8:0 wbps=7000");
    }

    #[test]
    fn devices_are_never_kept_and_the_reason_is_told() {
        let promise = |subject| Promise::new(subject, "machine", Vec::new(), String::new());
        let why = |limits, left: &[&str]| {
            let left = left.iter().map(|&l| l.to_owned()).collect();
            let part = Devices { limits, left, settings: None };
            assert_eq!(part.keeps(&promise(Subject::Banks)), None);
            part.keeps(&promise(Subject::Devices)).map(|answer| (answer.kept_by, answer.why))
        };
        assert_eq!(why(Vec::new(), &[]), None, "the plan has no transfers");
        let (by, text) = why(Vec::new(), &["one", "two", "three"]).unwrap();
        assert_eq!(by, None);
        assert!(text.starts_with("one (and 2 more transfers of the plan); "), "{text}");
        assert!(text.ends_with("give --vouch devices"), "{text}");
    }
}
