//! Shares of cache and bandwidth given by the hardware, through the kernel's resctrl.
//!
//! Problem: budgets of accesses are enforced by interrupts; ways of the shared cache cannot be enforced by them at all.
//! Rule: each core gets a group of its own (`solocore-cpuN`) with the plan's ways as a mask of contiguous bits, lowest core lowest,
//! and the plan's bandwidth as MB percentage of what all cores get, rounded down to the hardware's steps; or, where the file
//! system is mounted with `mba_MBps`, in MiB/s. All groups or none: whatever is refused, the groups are removed again, and what
//! the kernel says of it (`info/last_cmd_status`) is reported. They are removed at the end, by the keeper.
//! Source: Documentation/filesystems/resctrl.rst of Linux.
//! Does not cover: what a percentage means (the hardware throttles requests approximately; no bound rests on it, the
//! counters go on); code and data apart (CDP); cores of several caches (each gets the same mask in all). Tried on an imitation
//! of the files only: no machine of this project has the hardware.

use crate::doctor::Finding;
use crate::error::LinuxError;
use solocore_model::Plan;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where it is mounted.
pub const ROOT: &str = "/sys/fs/resctrl";

/// The files of resctrl, or what imitates them. Paths are relative.
pub(crate) trait Tree {
    fn read(&self, path: &str) -> io::Result<String>;
    fn write(&mut self, path: &str, text: &str) -> io::Result<()>;
    fn make(&mut self, group: &str) -> io::Result<()>;
    fn remove(&mut self, group: &str) -> io::Result<()>;
}

/// The kernel's own.
pub(crate) struct Mounted(pub PathBuf);

impl Tree for Mounted {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.0.join(path))
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        fs::OpenOptions::new().write(true).open(self.0.join(path))?.write_all_at_once(text)
    }

    fn make(&mut self, group: &str) -> io::Result<()> {
        fs::create_dir(self.0.join(group))
    }

    fn remove(&mut self, group: &str) -> io::Result<()> {
        fs::remove_dir(self.0.join(group))
    }
}

/// The kernel takes a schemata in one write.
trait AtOnce {
    fn write_all_at_once(self, text: &str) -> io::Result<()>;
}

impl AtOnce for fs::File {
    fn write_all_at_once(mut self, text: &str) -> io::Result<()> {
        io::Write::write_all(&mut self, text.as_bytes())
    }
}

/// The shared cache's ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    pub mask: u64,
    pub least_bits: u32,
    /// Ways that other devices use as well.
    pub shared: u64,
}

/// Throttling of bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttling {
    pub least: u64,
    pub step: u64,
    /// Values are MiB/s, not percent.
    pub in_mib: bool,
}

/// What the hardware can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    pub cache: Option<Cache>,
    pub throttling: Option<Throttling>,
    /// Groups that there may be beside the first.
    pub groups: u64,
    /// Numbers of the caches and memory controllers.
    pub cache_domains: Vec<u64>,
    pub memory_domains: Vec<u64>,
}

/// `L3:0=fffff;1=fffff`: the numbers before the equals signs.
fn domains(schemata: &str, resource: &str) -> Vec<u64> {
    let line = schemata.lines().find_map(|l| l.trim().strip_prefix(resource)?.strip_prefix(':'));
    line.into_iter().flat_map(|l| l.split(';')).filter_map(|d| d.split_once('=')?.0.trim().parse().ok()).collect()
}

impl Info {
    /// Reads `info/`.
    pub fn read(tree: &dyn Tree, mounts: &str) -> Result<Self, LinuxError> {
        let text = |path: &str| tree.read(path).ok().map(|t| t.trim().to_owned());
        let schemata = text("schemata").ok_or_else(|| {
            LinuxError::Machine(format!(
                "resctrl is not mounted at {ROOT}: mount it (mount -t resctrl resctrl {ROOT}), if the CPU has it (`solocore doctor`)"
            ))
        })?;
        let decimal = |path: &str| text(path).and_then(|t| t.parse::<u64>().ok());
        let hex = |path: &str| text(path).and_then(|t| u64::from_str_radix(&t, 16).ok());
        let cache = hex("info/L3/cbm_mask").filter(|&m| m != 0).map(|mask| Cache {
            mask,
            least_bits: decimal("info/L3/min_cbm_bits").and_then(|b| u32::try_from(b).ok()).unwrap_or(1),
            shared: hex("info/L3/shareable_bits").unwrap_or(0),
        });
        let in_mib = mounts.lines().any(|l| l.contains(" resctrl ") && l.contains("mba_MBps"));
        let throttling = decimal("info/MB/min_bandwidth").map(|least| Throttling {
            least,
            step: decimal("info/MB/bandwidth_gran").unwrap_or(10).max(1),
            in_mib,
        });
        let groups = [cache.map(|_| "info/L3/num_closids"), throttling.map(|_| "info/MB/num_closids")];
        let groups = groups.into_iter().flatten().filter_map(decimal).min().unwrap_or(1).saturating_sub(1);
        if cache.is_none() && throttling.is_none() {
            return Err(LinuxError::Machine(
                "resctrl offers neither ways of the shared cache (L3) nor bandwidth (MB); leave --resctrl out"
                    .to_owned(),
            ));
        }
        Ok(Self {
            cache,
            throttling,
            groups,
            cache_domains: domains(&schemata, "L3"),
            memory_domains: domains(&schemata, "MB"),
        })
    }
}

/// A core's share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub cpu: u32,
    pub schemata: String,
}

fn line(resource: &str, domains: &[u64], value: &str) -> String {
    let list: Vec<String> = domains.iter().map(|d| format!("{d}={value}")).collect();
    format!("{resource}:{}\n", list.join(";"))
}

/// The shares of a plan on this hardware, and what of it is not given.
pub(crate) fn shares(plan: &Plan, info: &Info) -> Result<(Vec<Share>, Vec<String>), LinuxError> {
    let wrong = |what: String| Err(LinuxError::Machine(what));
    if plan.cores.len() as u64 > info.groups {
        return wrong(format!(
            "the hardware has {} groups beside the first, the plan {} cores; leave --resctrl out",
            info.groups,
            plan.cores.len()
        ));
    }
    let mut notes = Vec::new();
    let (mut shares, mut from) = (Vec::new(), 0);
    let all: u64 = plan.cores.iter().filter_map(|c| c.bandwidth_bytes_per_s).sum();
    for core in &plan.cores {
        let mut schemata = String::new();
        if let Some(cache) = info.cache {
            let mask = ways_mask(cache, plan.platform.llc.ways, core.id, core.ways, from)?;
            if mask & cache.shared != 0 {
                notes.push(format!("core {}: devices use some of its ways as well", core.id));
            }
            from += core.ways;
            schemata += &line("L3", &info.cache_domains, &format!("{mask:x}"));
        }
        if let (Some(throttling), Some(bandwidth)) = (info.throttling, core.bandwidth_bytes_per_s) {
            let (value, raised) = throttle(throttling, bandwidth, all);
            if raised {
                notes.push(format!("core {}: the hardware gives at least {value}, more than the plan", core.id));
            }
            schemata += &line("MB", &info.memory_domains, &value.to_string());
        }
        shares.push(Share { cpu: core.id, schemata });
    }
    if info.cache.is_none() {
        notes.push(
            "the hardware cannot share out the ways of the cache: that part of the plan is not applied".to_owned(),
        );
    }
    if info.throttling.is_none() {
        notes.push("the hardware cannot throttle bandwidth; the counters do".to_owned());
    }
    Ok((shares, notes))
}

/// So many contiguous ways, from this one on.
fn ways_mask(cache: Cache, planned_ways: u32, core: u32, ways: u32, from: u32) -> Result<u64, LinuxError> {
    let has = cache.mask.count_ones();
    if planned_ways != has {
        return Err(LinuxError::Machine(format!(
            "the plan is for another machine: its shared cache has {planned_ways} ways, this one's {has}; plan with a platform file of this machine"
        )));
    }
    if ways < cache.least_bits.max(1) || from.saturating_add(ways) > has {
        return Err(LinuxError::Machine(format!(
            "core {core} has {ways} ways from way {from} on in the plan; the hardware gives {} to {has} in all: plan again, or leave --resctrl out",
            cache.least_bits.max(1)
        )));
    }
    let bits = if ways >= 64 { u64::MAX } else { (1 << ways) - 1 };
    Ok(bits << (cache.mask.trailing_zeros() + from))
}

/// The value, and whether it is more than planned because the hardware cannot give less.
fn throttle(t: Throttling, bandwidth: u64, all: u64) -> (u64, bool) {
    let wanted = if t.in_mib {
        bandwidth >> 20
    } else {
        u64::try_from(u128::from(bandwidth) * 100 / u128::from(all.max(1))).unwrap_or(100)
    };
    let value = if t.in_mib { wanted } else { wanted / t.step * t.step };
    (value.max(t.least).max(1), value < t.least.max(1))
}

fn group(cpu: u32) -> String {
    format!("solocore-cpu{cpu}")
}

/// Makes all groups, or none. `record` is told of each before it is made.
pub(crate) fn apply(
    tree: &mut dyn Tree,
    shares: &[Share],
    mut record: impl FnMut(&str) -> io::Result<()>,
) -> Result<(), LinuxError> {
    for (at, share) in shares.iter().enumerate() {
        let name = group(share.cpu);
        let made = record(&name).and_then(|()| tree.make(&name));
        let result = made.and_then(|()| tree.write(&format!("{name}/schemata"), &share.schemata)).and_then(|()| {
            // Last: only now does it hold for anybody.
            tree.write(&format!("{name}/cpus_list"), &share.cpu.to_string())
        });
        if let Err(e) = result {
            let said = tree.read("info/last_cmd_status").unwrap_or_default();
            let mut undo: Vec<String> = shares[..at].iter().map(|s| group(s.cpu)).collect();
            if e.kind() != io::ErrorKind::AlreadyExists {
                undo.push(name.clone());
            }
            for name in undo.iter().rev() {
                // It was not made, or it goes.
                let _ = tree.remove(name);
            }
            let said = if said.trim().is_empty() || said.trim() == "ok" {
                String::new()
            } else {
                format!(" ({})", said.trim())
            };
            let remedy = if e.kind() == io::ErrorKind::AlreadyExists {
                format!("remove what is left over: rmdir {ROOT}/{name}")
            } else {
                "leave --resctrl out, or plan with what `solocore doctor` says".to_owned()
            };
            return Err(LinuxError::Machine(format!("resctrl refuses {name}: {e}{said}; {remedy}")));
        }
    }
    Ok(())
}

/// Removes a group; for the keeper.
pub(crate) fn remove(path: &str) -> io::Result<()> {
    match fs::remove_dir(Path::new(path)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The plan's shares in place, for as long as the keeper lives.
///
/// # Errors
/// The machine cannot, or the plan is for another one.
pub(crate) fn give(plan: &Plan, changes: &mut crate::keeper::Changes) -> Result<Vec<String>, LinuxError> {
    let (shares, notes) = look(plan)?;
    apply(&mut Mounted(ROOT.into()), &shares, |name| changes.made_directory(&format!("{ROOT}/{name}")))?;
    Ok(notes)
}

/// The shares that the plan would get here.
pub(crate) fn look(plan: &Plan) -> Result<(Vec<Share>, Vec<String>), LinuxError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    shares(plan, &Info::read(&Mounted(ROOT.into()), &mounts)?)
}

/// What the machine can enforce beside budgets, for `solocore doctor`.
pub(crate) fn findings(cpuinfo: &str) -> Vec<Finding> {
    let finding = |what: &str, good, found: String| Finding { what: what.to_owned(), good, found };
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags") || l.starts_with("Features")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let hardware = match Info::read(&Mounted(ROOT.into()), &mounts) {
        Ok(info) => {
            let ways = info.cache.map_or("none".to_owned(), |c| c.mask.count_ones().to_string());
            let bandwidth = info.throttling.map_or("none".to_owned(), |t| {
                if t.in_mib { "in MiB/s".to_owned() } else { format!("in steps of {} %", t.step) }
            });
            finding("resctrl", true, format!("ways of the shared cache: {ways}; bandwidth: {bandwidth}; {} groups: `solocore run --resctrl`", info.groups))
        }
        Err(e) if has("cat_l3") || has("mba") => finding("resctrl", false, e.to_string()),
        Err(_) => finding(
            "resctrl",
            false,
            "this CPU has no hardware shares of cache or bandwidth (Intel CAT and MBA, AMD QoS, Arm MPAM), or hides them; nothing to be done: the ways of a plan are not enforced".to_owned(),
        ),
    };
    vec![
        hardware,
        finding(
            "locked pages and colours",
            false,
            "no interface of stock Linux locks lines in a shared cache or chooses pages by colour or bank: those parts of a plan are not enforced, and bounds that rest on locked pages do not hold".to_owned(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Does what the kernel's documentation says of these files.
    struct Imitation {
        files: BTreeMap<String, String>,
        groups: Vec<String>,
        most_groups: usize,
    }

    impl Imitation {
        fn new() -> Self {
            let files = [
                ("schemata", "    L3:0=7ff;1=7ff\n    MB:0= 100;1= 100\n"),
                ("info/L3/cbm_mask", "7ff\n"),
                ("info/L3/min_cbm_bits", "1\n"),
                ("info/L3/shareable_bits", "600\n"),
                ("info/L3/num_closids", "16\n"),
                ("info/MB/min_bandwidth", "10\n"),
                ("info/MB/bandwidth_gran", "10\n"),
                ("info/MB/num_closids", "8\n"),
                ("info/last_cmd_status", "ok\n"),
            ];
            let files = files.map(|(p, t)| (p.to_owned(), t.to_owned())).into();
            Self { files, groups: Vec::new(), most_groups: 7 }
        }

        fn refuse(&mut self, kind: io::ErrorKind, why: &str) -> io::Result<()> {
            self.files.insert("info/last_cmd_status".to_owned(), format!("{why}\n"));
            Err(kind.into())
        }
    }

    impl Tree for Imitation {
        fn read(&self, path: &str) -> io::Result<String> {
            self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
            if path.ends_with("/schemata") {
                for line in text.lines() {
                    let (resource, list) = line.split_once(':').unwrap();
                    for part in list.split(';') {
                        let (domain, value) = part.split_once('=').unwrap();
                        if !["0", "1"].contains(&domain) {
                            return self.refuse(io::ErrorKind::InvalidInput, "Unknown or unsupported domain");
                        }
                        let bits = u64::from_str_radix(value, 16).unwrap();
                        let one_piece = bits >> bits.trailing_zeros() & ((bits >> bits.trailing_zeros()) + 1) == 0;
                        if resource == "L3" && (bits == 0 || bits & !0x7ff != 0 || !one_piece) {
                            return self.refuse(io::ErrorKind::InvalidInput, "Mask out of range");
                        }
                        let percent: u64 = value.parse().unwrap_or(0);
                        if resource == "MB" && !(10..=100).contains(&percent) {
                            return self.refuse(io::ErrorKind::InvalidInput, "MB value out of range");
                        }
                    }
                }
            }
            self.files.insert(path.to_owned(), text.to_owned());
            Ok(())
        }

        fn make(&mut self, group: &str) -> io::Result<()> {
            if self.groups.contains(&group.to_owned()) {
                return self.refuse(io::ErrorKind::AlreadyExists, "");
            }
            if self.groups.len() == self.most_groups {
                return self.refuse(io::ErrorKind::StorageFull, "Out of CLOSIDs");
            }
            self.groups.push(group.to_owned());
            Ok(())
        }

        fn remove(&mut self, group: &str) -> io::Result<()> {
            self.groups.retain(|g| g != group);
            Ok(())
        }
    }

    fn info() -> Info {
        Info::read(&Imitation::new(), "resctrl /sys/fs/resctrl resctrl rw 0 0").unwrap()
    }

    fn share(cpu: u32, schemata: &str) -> Share {
        Share { cpu, schemata: schemata.to_owned() }
    }

    #[test]
    fn the_hardware_is_read() {
        let info = info();
        assert_eq!(info.cache, Some(Cache { mask: 0x7ff, least_bits: 1, shared: 0x600 }));
        assert_eq!(info.throttling, Some(Throttling { least: 10, step: 10, in_mib: false }));
        assert_eq!((info.groups, info.cache_domains, info.memory_domains), (7, vec![0, 1], vec![0, 1]));
        let mut less = Imitation::new();
        less.files.retain(|path, _| !path.contains("/MB/"));
        assert_eq!(Info::read(&less, "").unwrap().throttling, None);
        less.files.retain(|path, _| !path.contains("/L3/"));
        assert!(Info::read(&less, "").unwrap_err().to_string().contains("neither"));
        less.files.clear();
        assert!(Info::read(&less, "").unwrap_err().to_string().contains("mount it"));
        assert!(
            Info::read(&Imitation::new(), "r /sys/fs/resctrl resctrl rw,mba_MBps 0 0")
                .unwrap()
                .throttling
                .unwrap()
                .in_mib
        );
    }

    #[test]
    fn ways_follow_each_other() {
        let cache = info().cache.unwrap();
        assert_eq!(ways_mask(cache, 11, 0, 3, 0).unwrap(), 0b111);
        assert_eq!(ways_mask(cache, 11, 1, 8, 3).unwrap(), 0x7f8);
        for (planned, ways, from) in [(12, 3, 0), (11, 0, 0), (11, 3, 9), (11, u32::MAX, 2)] {
            assert!(ways_mask(cache, planned, 0, ways, from).is_err(), "{planned} {ways} {from}");
        }
        let high = Cache { mask: 0xff0, least_bits: 2, shared: 0 };
        assert_eq!(ways_mask(high, 8, 0, 2, 2).unwrap(), 0b1100_0000);
        assert!(ways_mask(high, 8, 0, 1, 0).is_err());
    }

    #[test]
    fn bandwidth_is_rounded_down_unless_there_is_no_less() {
        let percent = Throttling { least: 10, step: 10, in_mib: false };
        assert_eq!(throttle(percent, 250, 1000), (20, false));
        assert_eq!(throttle(percent, 30, 1000), (10, true));
        assert_eq!(throttle(percent, 1000, 1000), (100, false));
        assert_eq!(throttle(percent, u64::MAX, u64::MAX), (100, false));
        let mib = Throttling { in_mib: true, ..percent };
        assert_eq!(throttle(mib, 150_000_000, 1), (143, false));
    }

    #[test]
    fn a_plan_is_shared_out() {
        let plan = plan();
        let (shares, notes) = shares(&plan, &info()).unwrap();
        assert_eq!(shares[0], share(0, "L3:0=3f;1=3f\nMB:0=70;1=70\n"));
        assert_eq!(shares[1], share(1, "L3:0=7c0;1=7c0\nMB:0=20;1=20\n"));
        assert!(notes.iter().any(|n| n.contains("core 1: devices use")), "{notes:?}");
        let few = Info { groups: 1, ..info() };
        assert!(super::shares(&plan, &few).unwrap_err().to_string().contains("1 groups"));
    }

    /// Two cores with 6 and 5 of 11 ways, and three and one quarters of the bandwidth.
    fn plan() -> Plan {
        let mut plan: Plan = serde_json::from_str(include_str!("../tests/plan.json")).unwrap();
        plan.platform.llc.ways = 11;
        plan.cores.truncate(2);
        for (core, (ways, bandwidth)) in plan.cores.iter_mut().zip([(6, 750), (5, 250)]) {
            core.ways = ways;
            core.bandwidth_bytes_per_s = Some(bandwidth);
        }
        plan
    }

    #[test]
    fn all_groups_or_none() {
        let good = [share(0, "L3:0=3f;1=3f\nMB:0=70;1=70\n"), share(1, "L3:0=7c0;1=7c0\n")];
        let mut tree = Imitation::new();
        let mut recorded = Vec::new();
        apply(&mut tree, &good, |name| {
            recorded.push(name.to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(tree.groups, ["solocore-cpu0", "solocore-cpu1"]);
        assert_eq!(recorded, tree.groups);
        assert_eq!(tree.read("solocore-cpu1/cpus_list").unwrap(), "1");
        let error = apply(&mut tree, &good, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("rmdir") && tree.groups.len() == 2, "{error}");

        for (bad, said) in [("L3:0=5\n", "Mask out of range"), ("MB:0=5\n", "MB value"), ("L3:7=1\n", "domain")] {
            let mut tree = Imitation::new();
            let error = apply(&mut tree, &[good[0].clone(), share(1, bad)], |_| Ok(())).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(tree.groups.is_empty(), "{bad}: nothing is left");
        }
        let many: Vec<Share> = (0..8).map(|cpu| share(cpu, "L3:0=1\n")).collect();
        let mut tree = Imitation::new();
        assert!(apply(&mut tree, &many, |_| Ok(())).unwrap_err().to_string().contains("Out of CLOSIDs"));
        assert!(tree.groups.is_empty());
        assert!(apply(&mut tree, &good, |_| Err(io::ErrorKind::NotConnected.into())).is_err());
        assert!(tree.groups.is_empty(), "nothing is made that nobody would remove");
    }

    #[test]
    fn doctor_says_what_is_missing() {
        for cpuinfo in ["", "flags\t\t: fpu cat_l3 mba"] {
            for f in findings(cpuinfo) {
                assert!(!f.found.is_empty() && (f.good || f.found.contains(':')), "{f:?}");
            }
        }
    }
}
