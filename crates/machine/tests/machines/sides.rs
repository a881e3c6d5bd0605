//! Assumed values lie on the side with larger bounds.

use super::fixtures::{self, Machine};
use solocore_machine::file;
use solocore_model::System;
use solocore_planner::Demand;

/// The longest response of a plan for a platform file, ns: even budgets, a task on each of `cores`
/// cores.
fn response(platform: &str, cores: u32) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.toml"), platform).unwrap();
    let head = "platform = \"./m.toml\"\n[regulation]\npolicy = \"memguard\"\nperiod = \"1 ms\"\n";
    let mut text = format!("{head}share = \"even\"\n");
    for core in 0..cores {
        text += &format!("[[task]]\nname = \"t{core}\"\ncore = {core}\nperiod = \"1 s\"\n");
        text += "wcet = \"10 ms\"\nmisses = 100000\n";
    }
    let system = System::parse(&dir.path().join("system.toml"), &text).unwrap();
    let demands: Vec<Demand> =
        system.tasks.iter().map(|task| Demand::stated(&task.demand).unwrap()).collect();
    let plan = solocore_planner::plan(&system, &demands).unwrap();
    plan.tasks.iter().map(|task| task.wcrt_ns.unwrap()).max().unwrap()
}

fn text(machine: &Machine) -> String {
    file(&machine.described())
}

/// A desktop whose firmware lists one module.
fn with_module(kind: u8, speed: u16, ranks: u8) -> String {
    let machine = fixtures::desktop();
    let table = fixtures::dmi(&[("DIMM 0", kind, 8192, speed, ranks)]);
    text(machine.put("sys/firmware/dmi/tables/DMI", table))
}

/// A key of the text with another value.
fn with(text: &str, key: &str, value: &str) -> String {
    let line = text.lines().find(|l| l.starts_with(&format!("{key} = "))).unwrap();
    text.replace(line, &format!("{key} = {value}"))
}

#[test]
fn a_memory_of_which_nothing_is_known_has_the_largest_bounds() {
    let machine = fixtures::desktop();
    machine.remove("sys/firmware");
    let unknown = text(&machine);
    for cores in [1, 2, 4] {
        let ours = response(&unknown, cores);
        for (kind, speed) in [(0x18, 1066), (0x18, 1333), (0x1a, 2400), (0x22, 4800), (0x1e, 3200)]
        {
            for ranks in [1, 2] {
                let known = response(&with_module(kind, speed, ranks), cores);
                assert!(
                    ours * 100 >= known * 99,
                    "{cores} cores, type {kind:#x}, {ranks} ranks: {ours} ns, known {known} ns"
                );
            }
        }
    }
}

#[test]
fn ranks_and_registers_that_nothing_tells_make_bounds_larger() {
    let unknown = with_module(0x18, 1333, 0);
    let ours = response(&unknown, 4);
    for ranks in [1, 2, 4] {
        let known = response(&with_module(0x18, 1333, ranks), 4);
        assert!(ours >= known, "{ranks} ranks: {ours} ns, known {known} ns");
    }
    for (key, value) in [("mshrs", "10"), ("channels", "2"), ("frequency", "\"4 GHz\"")] {
        let known = response(&with(&unknown, key, value), 4);
        assert!(ours >= known, "{key} = {value}: {ours} ns, known {known} ns");
    }
}
