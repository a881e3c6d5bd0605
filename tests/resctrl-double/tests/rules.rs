//! The kernel's rules, one by one: what is refused, with which number and text, and what is changed
//! then (nothing).

use libc::{E2BIG, EACCES, EEXIST, EINVAL, EISDIR, ENOENT, ENOSPC, EPERM, ESRCH};
use solocore_resctrl_double::{Bandwidth, Double, Hardware, Kind, Mode};

fn said(double: &mut Double) -> String {
    double.read("info/last_cmd_status").unwrap()
}

/// Everything that can be read, but for counters.
fn state(double: &mut Double) -> Vec<String> {
    let mut groups: Vec<String> = double.names().into_iter().map(|n| format!("{n}/")).collect();
    groups.push(String::new());
    let files = ["schemata", "size", "mode", "cpus", "cpus_list", "tasks"];
    groups
        .iter()
        .flat_map(|g| files.map(|f| format!("{g}{f}")))
        .map(|p| double.read(&p).unwrap_or_default())
        .collect()
}

#[test]
fn a_schemata_is_refused_as_the_kernel_refuses_it() {
    let cases = [
        ("L3:0=7", EINVAL, "ok"),
        ("L3:0=5\n", EINVAL, "The mask 5 has non-consecutive 1-bits"),
        ("L3:0=0\n", EINVAL, "Mask out of range"),
        ("L3:0=800\n", EINVAL, "Mask out of range"),
        ("L3:0=1\n", EINVAL, "Need at least 2 bits in the mask"),
        ("L3:0=g\n", EINVAL, "Non-hex character in the mask g"),
        ("L3:0=3;0=3\n", EINVAL, "Duplicate domain 0"),
        ("L3:0\n", EINVAL, "Missing '=' or non-numeric domain"),
        ("L3:x=3\n", EINVAL, "Missing '=' or non-numeric domain"),
        ("L3:\n", EINVAL, "Missing 'L3' value"),
        ("L3\n", EINVAL, "Missing ':'"),
        ("L9:0=3\n", EINVAL, "Unknown or unsupported resource name 'L9'"),
        ("L3:1=3\n", EINVAL, "ok"),
        ("MB:0=101\n", EINVAL, "MB value 101 out of range [10,100]"),
        ("MB:0=5\n", EINVAL, "MB value 5 out of range [10,100]"),
        ("MB:0=x\n", EINVAL, "Invalid MB value x"),
        ("L3:0=3\nMB:0=9\n", EINVAL, "MB value 9 out of range [10,100]"),
        ("L3:0=3\n\n", EINVAL, "Missing ':'"),
    ];
    for (text, errno, status) in cases {
        let mut double = Double::new(Hardware { least_bits: 2, ..Hardware::intel() });
        double.mkdir("g").unwrap();
        let before = state(&mut double);
        assert_eq!(double.write("g/schemata", text), Err(errno), "{text:?}");
        assert_eq!(said(&mut double), format!("{status}\n"), "{text:?}");
        assert_eq!(state(&mut double), before, "{text:?} changes nothing");
    }
}

#[test]
fn a_schemata_is_taken_as_the_kernel_takes_it() {
    let mut double = Double::new(Hardware { caches: vec![0, 1], ..Hardware::intel() });
    double.mkdir("g").unwrap();
    for (text, after) in [
        ("L3:0=3\n", "    L3:0=3;1=7ff\n    MB:0=100;1=100\n"),
        ("  L3:1=0x1c0;0=ff\nMB:1= 55\n", "    L3:0=ff;1=1c0\n    MB:0=100;1=60\n"),
        ("L3:0=1;\n", "    L3:0=1;1=1c0\n    MB:0=100;1=60\n"),
    ] {
        double.write("g/schemata", text).unwrap();
        assert_eq!(double.read("g/schemata").unwrap(), after, "{text:?}");
    }
    assert_eq!(double.read("g/size").unwrap(), "    L3:0=1048576;1=3145728\n    MB:0=100;1=60\n");
    // What is read can be written back.
    let first = double.read("schemata").unwrap();
    double.write("schemata", first.lines().next().unwrap()).unwrap_err();
    double.write("schemata", &first).unwrap();
}

#[test]
fn the_software_controller_takes_any_value_at_once() {
    let bandwidth = Some(Bandwidth { least: 10, step: 10, closids: 8, in_mib: true });
    let mut double = Double::new(Hardware { bandwidth, ..Hardware::intel() });
    double.mkdir("g").unwrap();
    assert!(double.read("g/schemata").unwrap().contains("MB:0=4294967295"));
    // A later line is refused, and this value is there all the same.
    assert_eq!(double.write("g/schemata", "MB:0=5\nL3:0=0\n"), Err(EINVAL));
    assert!(double.read("g/schemata").unwrap().contains("MB:0=5\n"));
    assert_eq!(double.kind("g/mba_MBps_event"), Some(Kind::File(true)));
}

#[test]
fn classes_and_numbers_run_out() {
    let mut double = Double::new(Hardware { rmids: 4, ..Hardware::intel() });
    for n in 0..3 {
        double.mkdir(&format!("g{n}")).unwrap();
    }
    assert_eq!(double.mkdir("g3"), Err(ENOSPC));
    assert_eq!(said(&mut double), "Out of RMIDs\n");
    double.rmdir("g1").unwrap();
    double.mkdir("g0/mon_groups/m").unwrap();
    assert_eq!(double.mkdir("g3"), Err(ENOSPC), "monitoring groups take numbers as well");
    double.rmdir("g0").unwrap();
    assert_eq!(double.mkdir("g3"), Ok(()), "and give them back with their group");

    let mut double = Double::new(Hardware::intel());
    for n in 0..7 {
        double.mkdir(&format!("g{n}")).unwrap();
    }
    assert_eq!(double.mkdir("g7"), Err(ENOSPC));
    assert_eq!(said(&mut double), "Out of CLOSIDs\n");
    assert_eq!(double.mkdir("g6"), Err(EEXIST));
    double.rmdir("g2").unwrap();
    assert_eq!(double.mkdir("g7"), Ok(()));
    let cdp = Double::new(Hardware { cdp: true, bandwidth: None, ..Hardware::intel() });
    assert_eq!({ cdp }.read("info/L3CODE/num_closids").unwrap(), "8\n", "half of them");
}

#[test]
fn directories_are_made_where_the_kernel_lets() {
    let mut double = Double::new(Hardware::intel());
    double.mkdir("g").unwrap();
    for (path, errno) in [
        ("g/x", EPERM),
        ("info/x", EPERM),
        ("g/mon_groups/mon_groups", EPERM),
        ("no/mon_groups/x", ENOENT),
        ("a\nb", EINVAL),
        ("", EEXIST),
        ("info", EEXIST),
    ] {
        assert_eq!(double.mkdir(path), Err(errno), "{path:?}");
    }
    for (path, errno) in
        [("no", ENOENT), ("info", EPERM), ("mon_data", EPERM), ("g/mon_groups", EPERM), ("", EPERM)]
    {
        assert_eq!(double.rmdir(path), Err(errno), "{path:?}");
    }
    double.mkdir("g/mon_groups/m").unwrap();
    assert!(double.read("g/mon_groups/m/mon_data/mon_L3_00/llc_occupancy").is_ok());
    double.rmdir("g/mon_groups/m").unwrap();
    let mut none = Double::new(Hardware { rmids: 0, ..Hardware::intel() });
    assert!(none.list("").unwrap().iter().all(|(name, _)| !name.starts_with("mon_")));
    assert_eq!(none.mkdir("mon_groups/m"), Err(EPERM));
    assert_eq!((double.read("g"), double.read("nothing")), (Err(EISDIR), Err(ENOENT)));
    assert_eq!(
        (double.write("g/size", "1\n"), double.write("nothing", "1\n")),
        (Err(EACCES), Err(ENOENT))
    );
}

#[test]
fn exclusive_ways_are_nobody_elses() {
    let mut double = Double::new(Hardware::intel());
    double.mkdir("a").unwrap();
    double.mkdir("b").unwrap();
    assert_eq!(double.write("a/mode", "exclusive\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Schemata overlaps\n");
    double.write("a/schemata", "L3:0=3\n").unwrap();
    double.write("b/schemata", "L3:0=c\n").unwrap();
    double.write("schemata", "L3:0=7f0\n").unwrap();
    double.write("a/mode", "exclusive\n").unwrap();
    assert_eq!(double.read("info/L3/bit_usage").unwrap(), "0=XXSSSSSSSEE\n");
    assert_eq!(double.write("b/schemata", "L3:0=e\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Overlaps with exclusive group\n");
    assert_eq!(double.write("a/schemata", "L3:0=7\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Overlaps with other group\n");
    // A new group gets what may be shared.
    double.mkdir("c").unwrap();
    assert_eq!(double.group("c").unwrap().3, [0x7fc]);
    // Devices' ways cannot be exclusive.
    double.write("schemata", "L3:0=1f0\n").unwrap();
    double.write("b/schemata", "L3:0=c\n").unwrap();
    double.write("c/schemata", "L3:0=600\n").unwrap();
    assert_eq!(double.write("c/mode", "exclusive\n"), Err(EINVAL));
    assert_eq!(double.write("a/mode", "exclusive"), Err(EINVAL), "without an end of the line");
    assert_eq!(double.write("a/mode", "mine\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Unknown or unsupported mode\n");
    double.write("a/mode", "shareable\n").unwrap();
    double.write("b/schemata", "L3:0=e\n").unwrap();
}

#[test]
fn no_space_is_left_for_a_group() {
    let mut double = Double::new(Hardware { shareable: 0, ways: 4, ..Hardware::intel() });
    double.mkdir("a").unwrap();
    double.write("a/schemata", "L3:0=7\n").unwrap();
    double.write("schemata", "L3:0=8\n").unwrap();
    double.write("a/mode", "exclusive\n").unwrap();
    double.write("mode", "exclusive\n").unwrap();
    assert_eq!(double.mkdir("b"), Err(ENOSPC));
    assert_eq!(said(&mut double), "No space on L3:0\n");
    double.rmdir("a").unwrap();
    assert_eq!(double.mkdir("b"), Ok(()), "its class was given back");
}

#[test]
fn code_and_data_share_ways() {
    let mut double = Double::new(Hardware { cdp: true, shareable: 0, ..Hardware::intel() });
    double.mkdir("a").unwrap();
    double.write("schemata", "L3CODE:0=7f0\nL3DATA:0=7f0\n").unwrap();
    double.write("a/schemata", "L3CODE:0=3\nL3DATA:0=c\n").unwrap();
    double.write("a/mode", "exclusive\n").unwrap();
    // The ways of its data are closed to others' code as well.
    assert_eq!(double.write("schemata", "L3CODE:0=7fc\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Overlaps with exclusive group\n");
    assert_eq!(double.write("a/mode", "pseudo-locksetup\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "CDP enabled\n");
}

#[test]
fn cpus_are_in_one_group() {
    let mut double = Double::new(Hardware::intel());
    double.mkdir("a").unwrap();
    double.mkdir("b").unwrap();
    double.write("a/cpus_list", "1-2\n").unwrap();
    double.write("b/cpus", "4\n").unwrap();
    let cpus = |d: &Double, name: &str| d.group(name).unwrap().1;
    assert_eq!(
        (cpus(&double, ""), cpus(&double, "a"), cpus(&double, "b")),
        (vec![0, 3], vec![1], vec![2])
    );
    for (text, status) in [
        ("9\n", "Can only assign online CPUs"),
        ("x\n", "Bad CPU list/mask"),
        ("3-1\n", "Bad CPU list/mask"),
    ] {
        assert_eq!(double.write("a/cpus_list", text), Err(EINVAL), "{text:?}");
        assert_eq!(said(&mut double), format!("{status}\n"));
    }
    assert_eq!(double.write("cpus_list", "0\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Can't drop CPUs from default group\n");
    double.mkdir("a/mon_groups/m").unwrap();
    assert_eq!(double.write("a/mon_groups/m/cpus_list", "2\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Can only add CPUs to mongroup that belong to parent\n");
    double.write("a/mon_groups/m/cpus_list", "1\n").unwrap();
    double.rmdir("a").unwrap();
    assert_eq!(cpus(&double, ""), [0, 1, 3]);
    assert_eq!(double.read("b/cpus").unwrap(), "4\n");
}

#[test]
fn tasks_are_moved_one_by_one() {
    let mut double = Double::new(Hardware::intel());
    double.task_exists = |pid| pid < 100;
    double.mkdir("a").unwrap();
    assert_eq!(double.write("a/tasks", "1, 2,300,4\n"), Err(ESRCH));
    assert_eq!(said(&mut double), "No task 300\nError while processing task 300\n");
    assert_eq!(double.group("a").unwrap().2, [1, 2], "those before it are there");
    for (text, status) in [("x\n", "Task list parsing error pid x"), ("-3\n", "Invalid pid -3")] {
        assert_eq!(double.write("a/tasks", text), Err(EINVAL));
        assert_eq!(said(&mut double), format!("{status}\n"));
    }
    double.mkdir("a/mon_groups/m").unwrap();
    double.write("a/mon_groups/m/tasks", "1\n").unwrap();
    assert_eq!(double.write("a/mon_groups/m/tasks", "5\n"), Err(EINVAL));
    assert!(said(&mut double).starts_with("Can't move task to different control group\n"));
    double.write("tasks", "1\n").unwrap();
    assert_eq!(double.group("a").unwrap().2, [2]);
}

#[test]
fn locked_ways_leave_everybody() {
    let mut double = Double::new(Hardware::broadwell());
    assert_eq!(double.write("mode", "pseudo-locksetup\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Cannot pseudo-lock default group\n");
    double.mkdir("p").unwrap();
    double.write("p/cpus_list", "1\n").unwrap();
    assert_eq!(double.write("p/mode", "pseudo-locksetup\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "CPUs assigned to resource group\n");
    double.write("p/cpus_list", "\n").unwrap();
    double.write("schemata", "L3:0=3fff0\n").unwrap();
    double.write("p/mode", "pseudo-locksetup\n").unwrap();
    assert_eq!(double.read("p/schemata").unwrap(), "L3:uninitialized\n");
    assert_eq!(double.write("p/tasks", "1\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Pseudo-locking in progress\n");
    assert_eq!(double.write("p/schemata", "L3:0=f0\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Overlaps with other group\n");
    double.write("p/schemata", "L3:0=f\n").unwrap();
    assert_eq!(double.group("p").unwrap().0, Mode::Locked);
    assert_eq!(double.write("p/mode", "shareable\n"), Err(EINVAL));
    assert_eq!(double.write("p/schemata", "L3:0=3\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "Resource group is pseudo-locked\n");
    assert_eq!(double.write("schemata", "L3:0=fffff\n"), Err(EINVAL));
    assert_eq!(said(&mut double), "CBM overlaps with pseudo-locked region\n");
    assert!(double.read("info/L3/bit_usage").unwrap().ends_with("PPPP\n"));
    double.rmdir("p").unwrap();
    double.write("schemata", "L3:0=fffff\n").unwrap();
    let large = Double::new(Hardware { cache_bytes: 200 << 20, ..Hardware::broadwell() });
    let mut large = large;
    large.mkdir("p").unwrap();
    large.write("schemata", "L3:0=10000\n").unwrap();
    large.write("p/mode", "pseudo-locksetup\n").unwrap();
    assert_eq!(large.write("p/schemata", "L3:0=1\n"), Err(E2BIG));
    assert_eq!(said(&mut large), "Requested region exceeds maximum size\n");
    assert_eq!(large.group("p").unwrap().0, Mode::LockSetup, "it may be tried again");
}
