//! The plan's shares on an imitation that keeps the kernel's rules.

use super::info::{Cache, Throttling};
use super::monitor::counter;
use super::shares::{First, Group, Members, left_over, throttle, ways_mask};
use super::*;
use solocore_model::plan::Scheme;
use solocore_model::plan::levels::{LevelsPlan, Ways};
use solocore_resctrl_double::{Bandwidth, Double, Hardware, Kind, Mode};
use std::cell::RefCell;
use std::path::Path;

/// The imitation behind the trait.
pub(super) struct Tested(RefCell<Double>);

impl Tested {
    pub(super) fn new(hardware: Hardware) -> Self {
        Self(RefCell::new(Double::new(hardware)))
    }

    fn groups(&self) -> Vec<String> {
        self.0.borrow().names().into_iter().map(str::to_owned).collect()
    }

    fn snapshot(&self) -> String {
        let mut double = self.0.borrow_mut();
        ["schemata", "cpus_list", "mode", "info/L3/bit_usage"]
            .map(|f| double.read(f).unwrap_or_default())
            .concat()
    }
}

impl Tree for Tested {
    fn read(&self, path: &str) -> io::Result<String> {
        self.0.borrow_mut().read(path).map_err(io::Error::from_raw_os_error)
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.0.get_mut().write(path, text).map_err(io::Error::from_raw_os_error)
    }

    fn make(&mut self, group: &str) -> io::Result<()> {
        self.0.get_mut().mkdir(group).map_err(io::Error::from_raw_os_error)
    }

    fn remove(&mut self, group: &str) -> io::Result<()> {
        self.0.get_mut().rmdir(group).map_err(io::Error::from_raw_os_error)
    }

    fn directories(&self) -> Vec<String> {
        let list = self.0.borrow().list("").unwrap_or_default();
        list.into_iter()
            .filter(|(_, kind)| *kind == Kind::Directory)
            .map(|(name, _)| name)
            .collect()
    }
}

/// A keeper for tests, which may stop listening; it puts back as the real one does.
#[derive(Default)]
pub(super) struct Told {
    groups: Vec<String>,
    lines: Vec<String>,
    deaf_after: Option<usize>,
}

impl Record for Told {
    fn group(&mut self, name: &str) -> io::Result<()> {
        if self.deaf_after == Some(self.groups.len()) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.groups.push(name.to_owned());
        Ok(())
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.lines.push(line.to_owned());
        Ok(())
    }
}

impl Told {
    fn put_back(&self, tree: &mut Tested) {
        for group in self.groups.iter().rev() {
            tree.remove(group).unwrap();
        }
        for line in &self.lines {
            tree.write("schemata", &format!("{line}\n")).unwrap();
        }
    }
}

/// Two cores with 5 and 3 of 11 ways, and three quarters and one quarter of the bandwidth.
pub(super) fn plan() -> Plan {
    let mut plan: Plan = serde_json::from_str(include_str!("../../../tests/plan.json")).unwrap();
    plan.platform.llc.ways = 11;
    plan.cores.truncate(2);
    for (core, (ways, bandwidth)) in plan.cores.iter_mut().zip([(5, 750), (3, 250)]) {
        core.ways = ways;
        core.bandwidth_bytes_per_s = Some(bandwidth);
    }
    plan
}

pub(super) fn given(plan: &Plan, tree: &Tested) -> Result<Shares, LinuxError> {
    shares(plan, &Info::read(tree, "")?, tree)
}

#[test]
fn the_hardware_is_read() {
    let info = Info::read(&Tested::new(Hardware::intel()), "").unwrap();
    assert_eq!(
        info.cache,
        Some(Cache { mask: 0x7ff, least_bits: 1, shared: 0x600, sparse: false })
    );
    assert_eq!(info.throttling, Some(Throttling { least: 10, step: 10, in_mib: false }));
    assert_eq!((info.groups, info.cache_domains, info.memory_domains), (7, vec![0], vec![0]));
    assert_eq!(info.monitors, ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"]);
    let cdp =
        Info::read(&Tested::new(Hardware { cdp: true, bandwidth: None, ..Hardware::intel() }), "")
            .unwrap();
    assert_eq!((cdp.lines, cdp.groups, cdp.throttling), (vec!["L3CODE", "L3DATA"], 7, None));
    let mib = Bandwidth { least: 10, step: 10, closids: 8, in_mib: true };
    let mib = Tested::new(Hardware { bandwidth: Some(mib), ..Hardware::intel() });
    assert!(Info::read(&mib, "").unwrap().throttling.unwrap().in_mib, "a file says so");
    let mounts = "r /sys/fs/resctrl resctrl rw,mba_MBps 0 0";
    assert!(
        Info::read(&Tested::new(Hardware::intel()), mounts).unwrap().throttling.unwrap().in_mib
    );
    let none = Tested::new(Hardware { ways: 0, bandwidth: None, ..Hardware::intel() });
    let error = Info::read(&none, "").unwrap_err().to_string();
    assert!(error.contains("mount"), "a machine that only counts has no schemata: {error}");
}

#[test]
fn ways_follow_each_other() {
    let cache = Cache { mask: 0x7ff, least_bits: 1, shared: 0, sparse: false };
    assert_eq!(ways_mask(cache, "core 0", 3, 0).unwrap(), 0b111);
    assert_eq!(ways_mask(cache, "core 1", 8, 3).unwrap(), 0x7f8);
    for (ways, from) in [(0, 0), (3, 9), (u32::MAX, 2)] {
        assert!(ways_mask(cache, "core 0", ways, from).is_err(), "{ways} {from}");
    }
    let high = Cache { mask: 0xff0, least_bits: 2, ..cache };
    assert_eq!(ways_mask(high, "core 0", 2, 2).unwrap(), 0b1100_0000);
    assert!(ways_mask(high, "core 0", 1, 0).is_err());
    assert_eq!(left_over(cache, 0x3f), Some(0x7c0));
    assert_eq!(left_over(cache, 0x0f0), Some(0x00f), "four on one side, three on the other");
    assert_eq!(left_over(cache, 0x7ff), None);
    assert_eq!(
        left_over(Cache { least_bits: 2, ..cache }, 0x7fe),
        None,
        "one way is less than a mask must have"
    );
    assert_eq!(left_over(Cache { sparse: true, ..cache }, 0x0f0), Some(0x70f));
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
fn a_plan_is_shared_out_and_put_back() {
    let mut tree = Tested::new(Hardware::intel());
    let before = tree.snapshot();
    let shares = given(&plan(), &tree).unwrap();
    let mut told = Told::default();
    apply(&mut tree, &shares, &mut told).unwrap();
    assert_eq!(told.groups, ["solocore-cpu0", "solocore-cpu1"]);
    assert_eq!(told.lines, ["L3:0=7ff"]);
    let double = tree.0.borrow();
    assert_eq!(
        double.group("solocore-cpu0").unwrap(),
        (Mode::Exclusive, vec![0], vec![], vec![0x1f])
    );
    assert_eq!(
        double.group("solocore-cpu1").unwrap(),
        (Mode::Exclusive, vec![1], vec![], vec![0xe0])
    );
    assert_eq!(
        double.group("").unwrap(),
        (Mode::Shareable, vec![2, 3], vec![], vec![0x700]),
        "others keep to what is left"
    );
    drop(double);
    assert_eq!(tree.read("solocore-cpu0/schemata").unwrap(), "    L3:0=1f\n    MB:0=70\n");
    told.put_back(&mut tree);
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn locked_pages_have_ways_of_their_own() {
    let mut plan = plan();
    let page = |offset| solocore_model::profile::PageName { region: "heap".to_owned(), offset };
    // A way of this board's cache of 6 MiB and now 11 ways holds 139.6 pages.
    plan.tasks[0].core = 0;
    plan.tasks[0].locked_pages = (0..140).map(page).collect();
    let mut tree = Tested::new(Hardware::intel());
    let before = tree.snapshot();
    let shares = given(&plan, &tree).unwrap();
    let mut told = Told::default();
    apply(&mut tree, &shares, &mut told).unwrap();
    let of = |name: &str| tree.0.borrow().group(name).unwrap();
    assert_eq!(of("solocore-cpu0"), (Mode::Exclusive, vec![0], vec![], vec![0b111]));
    assert_eq!(
        of("solocore-lock0"),
        (Mode::Exclusive, vec![], vec![], vec![0b11000]),
        "nothing that runs is in it"
    );
    assert_eq!(shares.locks, [(0, "solocore-lock0".to_owned())].into());
    told.put_back(&mut tree);
    assert_eq!(tree.snapshot(), before);

    plan.tasks[0].locked_pages = (0..600).map(page).collect();
    let shares = given(&plan, &Tested::new(Hardware::intel())).unwrap();
    assert!(
        shares.locks.is_empty() && shares.notes.iter().any(|n| n.contains("600 locked pages")),
        "{:?}",
        shares.notes
    );
    plan.tasks[0].locked_pages.truncate(1);
    let few = Tested::new(Hardware { closids: 3, ..Hardware::intel() });
    assert!(given(&plan, &few).unwrap_err().to_string().contains("without locked pages"));
}

#[test]
fn whoever_would_use_the_plans_ways_is_seen_before() {
    let mut full = plan();
    full.cores[1].ways = 6;
    let error = given(&full, &Tested::new(Hardware::intel())).unwrap_err().to_string();
    assert!(error.contains("CPUs 2-3") && error.contains("offline"), "{error}");
    // With every CPU in the plan, no way needs to be left.
    let two = Tested::new(Hardware { cpus: 2, ..Hardware::intel() });
    let shares = given(&full, &two).unwrap();
    assert!(shares.first.is_none() && shares.groups.iter().all(|g| !g.exclusive));
    assert!(shares.notes.iter().any(|n| n.contains("core 1: devices use")), "{:?}", shares.notes);

    let mut tree = Tested::new(Hardware::intel());
    tree.make("other").unwrap();
    let error = given(&plan(), &tree).unwrap_err().to_string();
    assert!(error.contains("`other`") && error.contains("rmdir"), "{error}");
    tree.write("other/schemata", "L3:0=700\n").unwrap();
    assert!(given(&plan(), &tree).is_ok(), "its ways are not the plan's");
    tree.write("other/cpus_list", "1\n").unwrap();
    let error = given(&plan(), &tree).unwrap_err().to_string();
    assert!(error.contains("CPU 1 is in the group `other`"), "{error}");
}

#[test]
fn plans_for_other_machines_are_refused() {
    let machine = |h: Hardware| given(&plan(), &Tested::new(h)).unwrap_err().to_string();
    assert!(machine(Hardware::broadwell()).contains("another machine"));
    assert!(machine(Hardware { closids: 2, ..Hardware::intel() }).contains("1 groups"));
    assert!(machine(Hardware { least_bits: 4, ..Hardware::intel() }).contains("core 1 has 3 ways"));
    assert!(machine(Hardware { cpus: 1, ..Hardware::intel() }).contains("CPU 1 is not online"));
    let mut anywhere = plan();
    anywhere.regulation.pages = solocore_model::system::Pages::Anywhere;
    let refusal = given(&anywhere, &Tested::new(Hardware::intel())).unwrap_err().to_string();
    assert!(refusal.contains("leave --resctrl out"), "{refusal}");
    let mut none = plan();
    none.cores[0].ways = 0;
    assert!(given(&none, &Tested::new(Hardware::intel())).is_err());
    let only_bandwidth = Tested::new(Hardware { ways: 0, ..Hardware::intel() });
    let shares = given(&plan(), &only_bandwidth).unwrap();
    assert_eq!(shares.groups[0].schemata, "MB:0=70\n");
    assert!(shares.notes.iter().any(|n| n.contains("cannot share out the ways")));
}

#[test]
fn code_and_data_get_the_same_ways() {
    let mut tree = Tested::new(Hardware { cdp: true, caches: vec![0, 2], ..Hardware::intel() });
    let before = tree.snapshot();
    let mut told = Told::default();
    let shares = given(&plan(), &tree).unwrap();
    apply(&mut tree, &shares, &mut told).unwrap();
    let text = tree.read("solocore-cpu0/schemata").unwrap();
    assert_eq!(text, "L3CODE:0=1f;2=1f\nL3DATA:0=1f;2=1f\n    MB:0=70;2=70\n");
    assert_eq!(tree.read("solocore-cpu0/mode").unwrap(), "exclusive\n");
    told.put_back(&mut tree);
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn arm_has_the_same_files() {
    let mut plan = plan();
    plan.platform.llc.ways = 16;
    let mut tree = Tested::new(Hardware::arm());
    let shares = given(&plan, &tree).unwrap();
    // Devices may use every bit on this hardware, so no group can be exclusive.
    assert!(shares.groups.iter().all(|g| !g.exclusive));
    apply(&mut tree, &shares, &mut Told::default()).unwrap();
    assert_eq!(tree.read("solocore-cpu1/schemata").unwrap(), "    L3:0=e0\n    MB:0=25\n");
    assert_eq!(tree.read("schemata").unwrap(), "    L3:0=ff00\n    MB:0=100\n");
}

#[test]
fn all_groups_or_none() {
    let group = |name: &str, cpu, schemata: &str, exclusive| Group {
        name: name.to_owned(),
        members: Members::Cpu(cpu),
        schemata: schemata.to_owned(),
        exclusive,
    };
    let good = group("a", 0, "L3:0=3\nMB:0=70\n", true);
    let first =
        Some(First { lines: vec!["L3:0=1f0".to_owned()], back: vec!["L3:0=7ff".to_owned()] });
    let bad = [
        ("L3:0=5\n", false, 1, "The mask 5 has non-consecutive 1-bits"),
        ("L3:0=800\n", false, 1, "Mask out of range"),
        ("MB:0=5\n", false, 1, "MB value 5 out of range [10,100]"),
        ("L3:0=xyz\n", false, 1, "Non-hex character in the mask xyz"),
        ("L3:7=1\n", false, 1, "Invalid argument"),
        ("L2:0=1\n", false, 1, "Unknown or unsupported resource name 'L2'"),
        ("L3:0=3\n", true, 1, "Schemata overlaps"),
        ("L3:0=c\n", true, 9, "Can only assign online CPUs"),
    ];
    for (schemata, exclusive, cpu, said) in bad {
        let mut tree = Tested::new(Hardware::intel());
        let before = tree.snapshot();
        let groups = vec![good.clone(), group("b", cpu, schemata, exclusive)];
        let shares = Shares { groups, first: first.clone(), ..Shares::default() };
        let error = apply(&mut tree, &shares, &mut Told::default()).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("; "), "{schemata}: {error}");
        assert!(tree.groups().is_empty(), "{schemata}: nothing is left");
        assert_eq!(tree.snapshot(), before, "{schemata}");
    }
}

#[test]
fn classes_run_out_and_nothing_is_left() {
    let groups = (0..8).map(|n| Group {
        name: format!("g{n}"),
        members: Members::Tasks,
        schemata: "L3:0=1\n".to_owned(),
        exclusive: false,
    });
    let mut shares = Shares { groups: groups.collect(), ..Shares::default() };
    let mut tree = Tested::new(Hardware::intel());
    let error = apply(&mut tree, &shares, &mut Told::default()).unwrap_err().to_string();
    assert!(error.contains("g7") && error.contains("Out of CLOSIDs"), "{error}");
    assert!(tree.groups().is_empty());

    shares.groups.truncate(2);
    let mut deaf = Told { deaf_after: Some(1), ..Told::default() };
    assert!(apply(&mut tree, &shares, &mut deaf).is_err());
    assert!(tree.groups().is_empty(), "nothing is made that nobody would remove");

    tree.make("g1").unwrap();
    let mut told = Told::default();
    let error = apply(&mut tree, &shares, &mut told).unwrap_err().to_string();
    assert!(error.contains("rmdir") && error.contains("g1"), "{error}");
    assert_eq!(tree.groups(), ["g1"], "somebody else's group stays");
    assert!(!told.groups.contains(&"g1".to_owned()), "and nobody is told to remove it");
}

/// With levels, the members of groups are tasks, not CPUs.
#[test]
fn levels_get_their_regions() {
    let mut plan = plan();
    let region = |first, count| Ways { first, count };
    let core = |id: u32, ways| solocore_model::plan::levels::LevelsCore {
        id,
        ways,
        bank: id,
        ..Default::default()
    };
    plan.scheme = Scheme::Levels(Box::new(LevelsPlan {
        scheme: serde_json::from_value(serde_json::json!("C|C")).unwrap(),
        contention: solocore_model::levels::Contention::Measured,
        ways: 11,
        cores: vec![core(0, region(0, 3)), core(1, region(3, 2))],
        locked_ways: region(5, 2),
        level_c_ways: region(7, 4),
        ..LevelsPlan::default()
    }));
    plan.tasks[0].criticality = solocore_model::system::Criticality::A;
    plan.tasks[0].core = 0;
    let mut tree = Tested::new(Hardware::intel());
    let before = tree.snapshot();
    let shares = given(&plan, &tree).unwrap();
    assert_eq!(shares.tasks.get(&plan.tasks[0].name).map(String::as_str), Some("solocore-ab0"));
    let mut told = Told::default();
    apply(&mut tree, &shares, &mut told).unwrap();
    let of = |name: &str| tree.0.borrow().group(name).unwrap();
    assert_eq!(of("solocore-ab0"), (Mode::Exclusive, vec![], vec![], vec![0b111]));
    assert_eq!(of("solocore-ab1"), (Mode::Exclusive, vec![], vec![], vec![0b11000]));
    assert_eq!(of("solocore-locked"), (Mode::Exclusive, vec![], vec![], vec![0x60]));
    assert_eq!(of(""), (Mode::Shareable, vec![0, 1, 2, 3], vec![], vec![0x780]), "the CPUs stay");
    told.put_back(&mut tree);
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn counters_are_summed_and_missing_ones_are_missing() {
    let tree = Tested::new(Hardware { caches: vec![0, 1], ..Hardware::intel() });
    tree.0.borrow_mut().mkdir("g").unwrap();
    let caches = ["mon_L3_00".to_owned(), "mon_L3_01".to_owned()];
    assert_eq!(counter(&tree, "g", &caches, "mbm_total_bytes"), Some(3_000_000), "1 MB and 2 MB");
    let rmid = 1;
    for text in ["Unavailable", "Error"] {
        tree.0.borrow_mut().readings.insert((rmid, "mbm_local_bytes".to_owned()), text.to_owned());
        assert_eq!(counter(&tree, "g", &caches, "mbm_local_bytes"), None);
    }
    assert_eq!(counter(&tree, "g", &caches, "no_such"), None);
    assert_eq!(counter(&tree, "g", &[], "mbm_total_bytes"), None);
}

#[test]
fn the_kernel_locks_on_three_models() {
    let cpu = |family, model| {
        format!(
            "vendor_id\t: GenuineIntel\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: \
                x\n"
        )
    };
    assert_eq!(pseudo_lock::model(&cpu(6, 79)), Some("Broadwell-X"));
    assert_eq!(pseudo_lock::model(&cpu(6, 92)), Some("Goldmont"));
    assert_eq!(pseudo_lock::model(&cpu(6, 122)), Some("Goldmont Plus"));
    assert_eq!(pseudo_lock::model(&cpu(6, 143)), None);
    assert_eq!(pseudo_lock::model(&cpu(25, 79)), None);
    assert_eq!(pseudo_lock::model(&cpu(6, 79).replace("Genuine", "Other")), None);
    assert_eq!(pseudo_lock::model(""), None);

    let mut told = Told::default();
    let mut tree = Tested::new(Hardware::broadwell());
    let error = pseudo_lock::lock(&mut tree, "p", 0, 0x3, &mut told).unwrap_err().to_string();
    assert!(error.contains("Overlaps with other group"), "the first group has all ways: {error}");
    assert!(tree.groups().is_empty());
    tree.write("schemata", "L3:0=fff0\n").unwrap();
    let device = pseudo_lock::lock(&mut tree, "p", 0, 0x3, &mut told).unwrap();
    assert_eq!(device, Path::new("/dev/pseudo_lock/p"));
    assert_eq!(tree.read("p/schemata").unwrap(), "L3:0=3\n");
    assert_eq!(tree.read("p/mode").unwrap(), "pseudo-locked\n");
    let error = pseudo_lock::lock(&mut tree, "q", 0, 0xc, &mut told).unwrap_err().to_string();
    assert!(error.contains("Pseudo-locked region in hierarchy"), "{error}");

    let mut others = Tested::new(Hardware::intel());
    let error = pseudo_lock::lock(&mut others, "p", 0, 0x3, &mut told).unwrap_err().to_string();
    assert!(error.contains("Pseudo-locking not supported"), "{error}");
    assert!(others.groups().is_empty());
}

#[test]
fn ways_are_reserved_for_pages_that_stay() {
    let plan = |h: Hardware, ways| {
        let tree = Tested::new(h);
        reserve::plan(&Info::read(&tree, "").unwrap(), &tree, "solocore-locked", ways)
            .map(|p| (p, tree))
    };
    let ((shares, mask), mut tree) = plan(Hardware::intel(), 2).unwrap();
    assert_eq!(mask, 0b11);
    let (before, mut told) = (tree.snapshot(), Told::default());
    apply(&mut tree, &shares, &mut told).unwrap();
    let of = |name: &str| tree.0.borrow().group(name).unwrap();
    assert_eq!(of("solocore-locked"), (Mode::Exclusive, vec![], vec![], vec![0b11]));
    assert_eq!(of(""), (Mode::Shareable, vec![0, 1, 2, 3], vec![], vec![0x7fc]));
    told.put_back(&mut tree);
    assert_eq!(tree.snapshot(), before);
    // Nine ways are without devices: one of them has to be left free, or those of the devices.
    assert!(plan(Hardware::intel(), 9).is_ok());
    for (ways, hardware) in [
        (10, Hardware::intel()),
        (u64::MAX, Hardware::intel()),
        (1, Hardware::arm()),
        (1, Hardware { ways: 0, ..Hardware::intel() }),
    ] {
        let error = plan(hardware, ways).map(|p| p.0).unwrap_err().to_string();
        assert!(error.contains(';'), "{ways}: {error}");
    }
}

#[test]
fn doctor_says_what_is_missing() {
    for cpuinfo in ["", "flags\t\t: fpu cat_l3 mba"] {
        for f in findings(cpuinfo) {
            assert!(
                !f.found.is_empty() && (f.good || f.found.contains(':') || f.found.contains(';')),
                "{f:?}"
            );
        }
    }
}
