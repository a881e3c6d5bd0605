//! Descriptions of made-up machines, copies of them, and messages on garbage.

mod copies;
mod fixtures;
mod garbage;
mod sides;

use fixtures::{Machine, all};
use solocore_machine::check::compare;
use solocore_machine::{Description, MachineError, Source, file};
use solocore_model::Platform;
use solocore_model::platform::CoreType;
use std::path::Path;

fn preset(name: &str) -> Platform {
    Platform::find(name, Path::new(".")).unwrap()
}

/// The notes as lines.
fn notes(found: &Description) -> String {
    found.notes.iter().map(|note| note.line() + "\n").collect()
}

fn refused(machine: &Machine, cpus: Option<&[u32]>) -> String {
    match machine.describe(cpus) {
        Err(MachineError::Input(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn fact<'a>(found: &'a Description, key: &str) -> &'a solocore_machine::Fact {
    let mut facts = found.facts.iter().chain(&found.found);
    facts.find(|fact| fact.key == key).unwrap_or_else(|| panic!("no {key}"))
}

#[test]
fn files_are_read_back_as_they_are_meant() {
    for (name, machine) in all() {
        let found = machine.described();
        let text = file(&found);
        let read =
            Platform::parse(Path::new("m.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(read, found.platform, "{name}");
        assert_eq!(file(&machine.described()), text, "{name}: not the same twice");
        assert!(compare(&read, &found).differences.is_empty(), "{name}");
        for line in text.lines().filter(|l| l.contains(" = ") && !l.starts_with('#')) {
            let source = ["# read: /", "# read: the", "# table: ", "# assumed: "];
            assert!(source.iter().any(|s| line.contains(s)), "{name}: {line}");
        }
        for fact in &found.facts {
            assert_eq!(fact.known_by.is_some(), fact.source == Source::Assumed, "{name}: {fact:?}");
        }
    }
}

/// The values of a file's memory are those of the planner, rounded up to 0.1 ns.
#[test]
fn the_planner_has_a_memory_for_every_file() {
    for (name, machine) in all() {
        let p = machine.described().platform;
        let memory = solocore_planner::memory::of(&p).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (derived, stated) = (memory.latency_ps().unwrap(), p.dram.latency_max.ps());
        assert!((derived..derived + 101).contains(&stated), "{name}: {stated}, {derived} derived");
    }
}

/// `L_max` of every row of the table is that of its timing.
#[test]
fn each_memory_of_the_table_has_the_latency_of_its_timing() {
    for (kind, speed, name) in [
        (0x18, 1066, "ddr3-1066"),
        (0x18, 1600, "ddr3-1333"),
        (0x1a, 3200, "ddr4-2400"),
        (0x22, 5600, "ddr5-4800"),
        (0x1e, 4266, "lpddr4-3200"),
    ] {
        let machine = fixtures::desktop();
        let table = fixtures::dmi(&[("ChannelA-DIMM0", kind, 8192, speed, 1)]);
        let p = machine.put("sys/firmware/dmi/tables/DMI", table).described().platform;
        assert_eq!(p.dram.memory.as_deref(), Some(name));
        let derived = solocore_planner::memory::of(&p).unwrap().latency_ps().unwrap();
        let stated = p.dram.latency_max.ps();
        assert!((derived..derived + 101).contains(&stated), "{name}: {stated}, {derived} derived");
    }
}

/// Times, ranks and type stand in the modules, where a driver shows them.
#[test]
fn modules_that_show_their_own_data_need_no_firmware() {
    let bus = "sys/bus/i2c/devices";
    let machine = fixtures::desktop();
    std::fs::remove_file(machine.path().join("sys/firmware/dmi/tables/DMI")).unwrap();
    machine.put(&format!("{bus}/0-0050/name"), "ee1004\n");
    machine.put(&format!("{bus}/0-0050/eeprom"), fixtures::ddr4_module());
    // The EEPROM of another device, with the same bytes, is none of memory.
    machine.put(&format!("{bus}/1-0050/name"), "24c02\n");
    machine.put(&format!("{bus}/1-0050/eeprom"), fixtures::ddr4_module());
    let found = machine.described();
    let (p, d) = (&found.platform, &found.platform.dram);
    assert_eq!(d.memory.as_deref(), Some("ddr4-2400"));
    assert_eq!((d.ranks, d.channels), (1, 1));
    assert_eq!([d.t_cl, d.t_rcd, d.t_rp, d.t_ras].map(|t| t.ps()), [13321, 13321, 13321, 32000]);
    let derived = solocore_planner::memory::of(p).unwrap().latency_ps().unwrap();
    assert!((derived..derived + 101).contains(&d.latency_max.ps()), "{derived}");
    let cited = format!("read: /{bus}/0-0050/eeprom, the least that the modules allow");
    let comments: Vec<String> = found.facts.iter().map(|f| f.comment()).collect();
    assert_eq!(comments.iter().filter(|c| **c == cited).count(), 4, "{comments:?}");
    let said = notes(&found);
    assert!(said.contains("the speed of the DDR4 is not known"), "{said}");

    // A second one may share the channel, and the times are the longer ones.
    machine.put(&format!("{bus}/0-0051/name"), "ee1004\n");
    machine.put(&format!("{bus}/0-0051/eeprom"), fixtures::ddr4_module());
    assert_eq!(machine.described().platform.dram.ranks, 2);

    // A wrong checksum: as without the module.
    let mut worn = fixtures::ddr4_module();
    worn[24] = 0x50;
    for place in ["0-0050", "0-0051"] {
        machine.put(&format!("{bus}/{place}/eeprom"), worn.clone());
    }
    assert_eq!(machine.described().platform.dram.memory.as_deref(), Some("ddr5-4800"));

    // Firmware and module differ in type: it is said, and no time of the module counts.
    let machine = fixtures::desktop();
    machine.put(&format!("{bus}/0-0050/name"), "ee1004\n");
    machine.put(&format!("{bus}/0-0050/eeprom"), fixtures::ddr4_module());
    let found = machine.described();
    assert_eq!(found.platform.dram.t_cl.ps(), 13_500);
    let said = notes(&found);
    assert!(said.contains("SMBIOS has DDR3, and the module 0-0050 says DDR4"), "{said}");
}

#[test]
fn presets_come_back_with_exact_sizes() {
    for (name, machine) in [
        ("core-i5-2500k", fixtures::desktop()),
        ("raspberry-pi-4", fixtures::raspberry()),
        ("raspberry-pi-4", fixtures::raspberry_with_tree()),
    ] {
        let (found, preset) = (machine.described(), preset(name));
        let p = &found.platform;
        let comparison = compare(&preset, &found);
        assert!(comparison.differences.is_empty(), "{name}: {comparison:?}");
        for key in ["cores", "frequency", "l1i.ways", "l1d.size", "llc.size", "llc.ways"] {
            assert!(comparison.agree.iter().any(|k| k == key), "{name}: {key}");
        }
        assert_eq!((p.colours(), p.llc.slices), (preset.colours(), preset.llc.slices), "{name}");
        assert_eq!((&p.l1i, &p.l1d, p.page), (&preset.l1i, &preset.l1d, preset.page), "{name}");
        assert_eq!((p.llc.line, p.llc.partition), (preset.llc.line, preset.llc.partition));
        let (d, e) = (&p.dram, &preset.dram);
        assert_eq!(
            (&d.memory, d.capacity, d.banks, d.row),
            (&e.memory, e.capacity, e.banks, e.row)
        );
        assert!(d.latency_max >= e.latency_max && p.llc.latency >= preset.llc.latency, "{name}");
    }
    let d = fixtures::desktop().described().platform.dram;
    let e = preset("core-i5-2500k").dram;
    assert_eq!((d.channels, d.ranks, d.t_cl, d.t_ras), (e.channels, e.ranks, e.t_cl, e.t_ras));
}

#[test]
fn a_device_tree_comes_before_the_tables() {
    let found = fixtures::raspberry_with_tree().described();
    let from = |key| fact(&found, key).comment();
    assert_eq!(from("llc.size"), "read: /proc/device-tree/cpus/l2-cache0/cache-size");
    assert!(
        from("llc.ways").starts_with("read: /proc/device-tree/cpus/l2-cache0/cache-sets, size")
    );
    assert_eq!(fact(&found, "cache.l2.shared_by").value, "0-3");
    let found = fixtures::raspberry().described();
    assert!(fact(&found, "llc.size").comment().starts_with("table: BCM2711"));
    assert!(fact(&found, "l1i.ways").comment().starts_with("table: Cortex-A72 TRM"));
    assert_eq!(found.notes, []);
}

#[test]
fn a_governor_that_slows_is_said_with_its_command() {
    let said = notes(&fixtures::desktop().described());
    assert!(said.contains("frequency: the governor powersave"), "{said}");
    assert!(said.contains("echo performance | sudo tee"), "{said}");
}

/// Name, cores and MHz of each type.
fn types(found: &Description) -> Vec<(&str, Vec<u32>, u64)> {
    let of = |t: &CoreType| t.frequency.0 / 1_000_000;
    let all = found.platform.core_types.iter();
    all.map(|t| (t.name.as_str(), t.cores.clone(), of(t))).collect()
}

/// Four large cores of two threads each, and eight small ones.
#[test]
fn types_of_a_hybrid_are_described_together() {
    let machine = fixtures::hybrid();
    let found = machine.described();
    let expected: [(&str, Vec<u32>, u64); 2] =
        [("core", (0..4).collect(), 2700), ("atom", (4..12).collect(), 1800)];
    assert_eq!(types(&found), expected);
    let p = &found.platform;
    assert_eq!((p.cores, p.frequency.0), (12, 1_800_000_000));
    // The smallest of both, and no second level: small cores share theirs.
    assert_eq!((p.l1d.size.0, p.l1i.size.0, &p.l2), (32 << 10, 32 << 10, &None));
    // The large cores have their own ones, also at the second level.
    let (large, small) = (p.private_of(0), p.private_of(11));
    assert_eq!((large.l1d.size.0, large.l2.map(|l2| l2.size.0)), (48 << 10, Some(1280 << 10)));
    assert_eq!((&small.l1d, &small.l2), (&p.l1d, &None));
    assert!(fact(&found, "core_type[1].l2.size").comment().starts_with("read: "));
    assert_eq!(fact(&found, "cpus.types").value, "core: 0-7; atom: 8-15");
    assert_eq!(fact(&found, "core_type[2].name").comment(), "read: /sys/devices/cpu_atom/cpus");
    // Cores 4 to 11 are not the CPUs of these numbers.
    let cpus = |at: u32| fact(&found, &format!("core_type[{at}].cores")).from.clone();
    assert!(cpus(1).ends_with("topology, CPUs 0,2,4,6, one thread each"), "{}", cpus(1));
    assert!(cpus(2).ends_with("topology, CPUs 8-15"), "{}", cpus(2));
    // Breaks when a second thread has no type, or that of another core.
    assert_eq!(found.threads, [(0..8).collect::<Vec<u32>>(), (8..16).collect()]);
    assert!(fact(&found, "core_type[1].frequency").comment().contains("cpu0/cpufreq"));
    assert_eq!(p.dram.channels, 4, "two modules of two subchannels");
    let said = notes(&found);
    for expected in [
        "core_type: CPUs 0-7 (core) and 8-15 (atom) are of different types",
        "l2: CPUs 8-11 share this cache",
        "echo off | sudo tee /sys/devices/system/cpu/smt/control",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains("have different clocks") && !said.contains("not described:"), "{said}");
}

#[test]
fn one_type_of_a_hybrid_is_described_alone() {
    let machine = fixtures::hybrid();
    let small = machine.describe(Some(&[8, 9, 10, 11])).unwrap();
    assert_eq!((small.platform.cores, &small.platform.l2), (4, &None));
    assert!(types(&small).is_empty());
    let said = notes(&small);
    assert!(said.contains("l2: CPUs 8-11 share this cache"), "{said}");
    assert!(said.contains("CPUs 0-7,12-15 share the last-level cache and are not described"));
    let large = machine.describe(Some(&[0, 2, 4, 6])).unwrap().platform;
    assert_eq!((large.cores, large.frequency.0), (4, 2_700_000_000));
    assert_eq!((large.l1d.size.0, large.l2.unwrap().size.0), (48 << 10, 1280 << 10));
}

#[test]
fn types_behind_one_cache_have_the_smallest_private_ones() {
    let found = fixtures::shared_types().described();
    let expected: [(&str, Vec<u32>, u64); 2] = [
        ("Cortex-A55, capacity 414", (0..4).collect(), 1800),
        ("Cortex-A76, capacity 1024", (4..8).collect(), 2400),
    ];
    assert_eq!(types(&found), expected);
    let p = &found.platform;
    assert_eq!((p.l1d.size.0, p.llc.size.0), (32 << 10, 2 << 20));
    assert_eq!(p.l2.as_ref().map(|l2| l2.size.0), Some(128 << 10));
    assert!(file(&found).contains("\n[[core_type]]\nname = \"Cortex-A55, capacity 414\" "));
    assert_eq!(p.private_of(0).l2, p.l2);
    assert!(p.private_of(7).lines(p.llc.line) > p.private_of(0).lines(p.llc.line));
    let mut small = p.clone();
    small.core_types.iter_mut().for_each(|kind| kind.l2 = None);
    let differences = compare(&small, &found).differences;
    assert!(differences.iter().any(|d| d.key == "core_type[2].l2.size"), "{differences:?}");
    // The order of the types does not matter, and a file without them differs.
    let mut other = p.clone();
    other.core_types.swap(0, 1);
    assert!(compare(&other, &found).differences.is_empty());
    other.core_types.clear();
    let differences = compare(&other, &found).differences;
    assert_eq!(differences.len(), 1);
    assert_eq!((&*differences[0].file, &*differences[0].machine), ("none", "0-3 and 4-7"));
    assert!(differences[0].from.starts_with("read: /sys/devices/system/cpu/cpu*/topology"));
}

/// A guest of a virtual board: one model of CPU, and small cores that tell their first data cache
/// twice. Breaks when the types or clocks that the board states are not read, or when the second
/// first-level cache is taken for another one.
#[test]
fn the_types_that_a_virtual_board_states_are_described() {
    let machine = fixtures::desktop();
    for (folder, name, cpus, hz) in
        [("0", "large one", "0,1", "3300000000\n"), ("1", "small", "2,3,4", "1650000000\n")]
    {
        let folder = format!("board/types/{folder}");
        machine.put(&format!("{folder}/name"), format!("{name}\n"));
        machine.put(&format!("{folder}/cpus"), cpus).put(&format!("{folder}/hz"), hz);
    }
    for cpu in [2, 3] {
        let second = format!("sys/devices/system/cpu/cpu{cpu}/cache/index2");
        machine.put(&format!("{second}/level"), "1\n").put(&format!("{second}/type"), "Data\n");
        machine.put(&format!("{second}/size"), "32K\n");
        machine.put(&format!("{second}/number_of_sets"), "64\n");
    }
    let found = machine.described();
    assert_eq!(types(&found), [("large one", vec![0, 1], 3300), ("small", vec![2, 3], 1650)]);
    assert_eq!(found.threads, [[0, 1], [2, 3]]);
    let p = &found.platform;
    assert_eq!((p.frequency.0, &p.l2, p.cores), (1_650_000_000, &None, 4));
    assert_eq!(p.private_of(1).l2.map(|l2| l2.size.0), Some(256 << 10));
    assert_eq!((p.private_of(3).l1d, p.private_of(3).l2), (p.l1d.clone(), None));
    assert_eq!(fact(&found, "core_type[2].frequency").comment(), "read: /board/types/1/hz");
    assert_eq!(fact(&found, "core_type[1].name").comment(), "read: /board/types");
    assert!(compare(p, &found).differences.is_empty());
    assert!(!notes(&found).contains("cache.l"), "{}", notes(&found));
    // What the board does not state comes from the other files.
    machine.put("board/types/1/hz", "no number").remove("board/types/0/name");
    assert_eq!(types(&machine.described()).len(), 2);
}

#[test]
fn each_type_has_its_own_clock_in_a_comparison() {
    let found = fixtures::shared_types().described();
    let keys = |clocks: [u64; 2]| -> Vec<String> {
        let mut other = found.platform.clone();
        for (kind, mhz) in other.core_types.iter_mut().zip(clocks) {
            kind.frequency.0 = mhz * 1_000_000;
        }
        compare(&other, &found).differences.into_iter().map(|d| d.key).collect()
    };
    assert!(keys([1800, 2400]).is_empty());
    assert_eq!(keys([1800, 4800]), ["core_type[2].frequency"]);
    // The types have each other's clock.
    assert_eq!(keys([2400, 1800]), ["core_type[1].frequency", "core_type[2].frequency"]);
    let agree = compare(&found.platform, &found).agree;
    assert!(agree.iter().any(|key| key == "core_type[2].frequency"), "{agree:?}");
}

#[test]
fn clusters_with_caches_of_their_own_are_described_one_at_a_time() {
    let machine = fixtures::big_little();
    let found = machine.described();
    assert_eq!((found.platform.cores, found.platform.llc.size.0), (4, 512 << 10));
    let said = notes(&found);
    for expected in [
        "CPUs 0-3 (Cortex-A53, capacity 485) and 4-5 (Cortex-A72",
        "the file describes CPUs 0-3 alone, and `--cpus 4-5` describes others. ",
        "turn them off: echo 0 | sudo tee /sys/devices/system/cpu/cpu{4,5}/online",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(types(&found).is_empty());
    assert_eq!((&found.cpus[..], &found.others[..]), (&[0, 1, 2, 3][..], &[vec![4, 5]][..]));
    let error = refused(&machine, Some(&[0, 4]));
    assert!(error.contains("choose within one of 0-3 or 4-5"), "{error}");
    let large = machine.describe(Some(&[4, 5])).unwrap();
    assert!(notes(&large).contains("cores: the cores are CPUs 4-5, but"), "{}", notes(&large));
    assert!(notes(&large).contains("`--cpus 0-3` describes others"), "{}", notes(&large));
    assert!(notes(&large).contains("to memory: keep them idle"), "CPU 0 stays on");
    assert!(!notes(&found).contains("cores: "), "{}", notes(&found));
    let large = large.platform;
    assert_eq!((large.cores, large.llc.size.0, large.frequency.0), (2, 1 << 20, 1_800_000_000));
}

#[test]
fn sockets_are_described_one_at_a_time() {
    let machine = fixtures::server();
    let found = machine.described();
    let p = &found.platform;
    assert_eq!((p.cores, p.llc.ways, p.colours()), (8, 11, 32));
    assert_eq!(p.llc.partition, solocore_model::platform::Partition::Way);
    assert_eq!((p.dram.channels, p.dram.ranks, p.dram.capacity.0), (2, 2, 64 << 30));
    assert_eq!(
        fact(&found, "resctrl.L3").value,
        "mask 7ff, least bits 1, groups 16, bits of devices 600"
    );
    let said = notes(&found);
    assert!(said.contains("there are 2 NUMA nodes") && said.contains("0-7 and 8-15"), "{said}");
    assert!(said.contains("No bound counts the accesses of the other CPUs to memory"), "{said}");
    let second = machine.describe(Some(&[8, 9])).unwrap();
    assert_eq!(second.platform.cores, 2);
    // CPUs 10 to 15 share its cache, so they are no other group.
    assert_eq!((&second.cpus[..], second.others.len()), (&[8, 9][..], 1));
    assert!(notes(&second).contains("CPUs 10-15 share the last-level cache"));
    machine.remove("sys/fs");
    let said = notes(&machine.described());
    assert!(said.contains("llc.partition: ") && said.contains("mount -t resctrl"), "{said}");
}

#[test]
fn cpus_that_are_offline_are_not_described() {
    let machine = fixtures::desktop();
    machine.put("sys/devices/system/cpu/online", "0,2\n");
    let found = machine.described();
    assert_eq!(found.platform.cores, 2);
    let said = notes(&found);
    assert!(said.contains("cores: CPUs 1,3 are offline"), "{said}");
    assert!(said.contains("cpu{1,3}/online"), "{said}");
    machine.put("sys/devices/system/cpu/smt/control", "off\n");
    let said = notes(&machine.described());
    assert!(said.contains("cores: CPUs 1,3 are offline, and are not described; SMT is off"));
    assert!(!said.contains("cpu{1,3}/online"), "{said}");
    let error = refused(&machine, Some(&[0, 1]));
    assert!(error.contains("there is no CPU 1 online; choose among 0,2"), "{error}");
    machine.put("sys/devices/system/cpu/online", "2\n");
    let found = machine.described();
    assert_eq!(found.platform.cores, 1);
    assert!(notes(&found).contains("only CPU 2 is online"), "{}", notes(&found));
}

#[test]
fn what_nothing_tells_is_an_error_with_its_key() {
    let error = refused(&fixtures::container(), None);
    assert!(error.contains("llc.size: ") && error.contains("--from"), "{error}");
    let machine = fixtures::desktop();
    machine.remove("proc/meminfo").remove("sys/firmware");
    let error = refused(&machine, None);
    assert!(error.contains("dram.capacity: /proc/meminfo has no MemTotal"), "{error}");
    let machine = fixtures::desktop();
    machine.remove("sys/devices/system/cpu/online").remove("proc/cpuinfo");
    let error = refused(&machine, None);
    assert!(error.contains("cores: neither"), "{error}");
    let machine = fixtures::desktop();
    for file in ["ways_of_associativity", "number_of_sets"] {
        machine.remove(&format!("sys/devices/system/cpu/cpu0/cache/index3/{file}"));
    }
    let error = machine.describe(Some(&[0])).unwrap_err().to_string();
    assert!(error.contains("llc.ways: no file states its ways"), "{error}");
}

#[test]
fn numbers_that_contradict_each_other_are_said() {
    let machine = fixtures::desktop();
    for cpu in 0..4 {
        machine.put(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/size"), "8192K\n");
    }
    let found = machine.described();
    assert_eq!(found.platform.llc.size.0, 6 << 20);
    assert!(notes(&found).contains("llc.size: "), "{}", notes(&found));

    let machine = fixtures::desktop();
    machine.put("sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "1\n");
    let found = machine.described();
    assert_eq!(found.platform.cores, 3);
    assert!(notes(&found).contains("lists CPU 1, and that CPU lists others"), "{}", notes(&found));

    let machine = fixtures::desktop();
    machine.put("proc/meminfo", "MemTotal: 16777216 kB\n");
    let said = notes(&machine.described());
    assert!(said.contains("dram.capacity: the modules of SMBIOS have 8 GiB"), "{said}");

    let machine = fixtures::desktop();
    machine.put("sys/devices/system/cpu/online", "0-2\n");
    let said = notes(&machine.described());
    assert!(said.contains("says 0-2, and /proc/cpuinfo lists 0-3"), "{said}");

    let machine = fixtures::server();
    machine.put("sys/fs/resctrl/info/L3/cbm_mask", "fffff\n");
    let said = notes(&machine.described());
    assert!(said.contains("llc.ways: the mask of L3 has 20 bits"), "{said}");
}

#[test]
fn sets_that_are_no_power_of_two_are_rounded_down() {
    let machine = fixtures::desktop();
    for cpu in 0..4 {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
        machine.put(&format!("{dir}/number_of_sets"), "212992\n");
        machine.put(&format!("{dir}/ways_of_associativity"), "20\n");
        machine.put(&format!("{dir}/size"), "266240K\n");
    }
    let found = machine.described();
    let p = &found.platform;
    assert_eq!((p.llc.size.0, p.llc.slices, p.colours()), (160 << 20, 64, 32));
    assert!(notes(&found).contains("llc.size: 260 MiB are not a power-of-two number of sets"));
}

/// Only Intel's machines have an interface that shows slices.
#[test]
fn colours_that_a_hash_would_reduce_are_said() {
    let machine = fixtures::desktop();
    let text = std::fs::read_to_string(machine.path().join("proc/cpuinfo")).unwrap();
    machine.put("proc/cpuinfo", text.replace("GenuineIntel", "AuthenticAMD"));
    let found = machine.described();
    assert_eq!((found.platform.llc.slices, found.platform.colours()), (1, 128));
    assert!(notes(&found).contains("llc.slices: one slice is assumed, and 128 colours"));
    assert!(!notes(&fixtures::desktop().described()).contains("llc.slices"));
}

#[test]
fn a_file_of_another_machine_is_told_by_its_keys() {
    let found = fixtures::desktop().described();
    let comparison = compare(&preset("raspberry-pi-4"), &found);
    let keys: Vec<&str> = comparison.differences.iter().map(|d| d.key.as_str()).collect();
    for key in ["isa", "cores", "frequency", "l1i.size", "l1d.ways", "l2.size", "llc.size"] {
        assert_eq!(keys.contains(&key), key != "cores", "{key}: {keys:?}");
    }
    let mut turbo = found.platform.clone();
    turbo.frequency.0 = 3_700_000_000;
    assert!(compare(&turbo, &found).differences.is_empty(), "its highest clock is a clock of it");
}
