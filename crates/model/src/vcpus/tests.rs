//! VCPUs have their tasks; bad ones are refused.

use crate::System;
use std::path::Path;

const GOOD: &str = r#"platform = "core-i5-2500k"
[regulation]
policy = "maracas"
[maracas]
background = "keep"
[[vcpu]]
name = "v"
capacity = "6 ms"
period = "20 ms"
core = 1
tasks = ["a"]
[[task]]
name = "a"
period = "100 ms"
wcet = "10 ms"
misses = 100
[[task]]
name = "d"
criticality = "D"
wcet = "1 ms"
misses = 0
"#;

#[test]
fn vcpus_have_their_tasks() {
    let system = System::parse(Path::new("s.toml"), GOOD).unwrap();
    let vcpus = system.vcpus().unwrap();
    assert_eq!((vcpus.of_task(0), vcpus.of_task(1)), (Some(0), None));
    assert_eq!((vcpus.vcpus[0].capacity_ns, vcpus.vcpus[0].core), (6_000_000, Some(1)));
    assert!(vcpus.settings.strict && vcpus.settings.background == super::Background::Keep);
}

/// Fails when the monitor of the memory has no VCPU, or another than the stated one.
#[test]
fn a_throttle_brings_the_vcpu_of_its_monitor() {
    let monitor = |throttle: &str| {
        let text = GOOD.replacen("\"keep\"", &format!("\"keep\"\n{throttle}"), 1);
        let system = System::parse(Path::new("s.toml"), &text).unwrap();
        let vcpus = system.vcpus().unwrap();
        let found = vcpus.vcpus.iter().find(|v| v.name == super::MONITOR);
        assert!(found.is_none_or(|v| v.fixed && v.tasks.is_empty()));
        found.map(|v| (v.capacity_ns, v.period_ns, v.core))
    };
    assert_eq!(monitor("strict = true"), None);
    let usual = "throttle = { max_latency = \"1 us\" }";
    assert_eq!(monitor(usual), Some((1_000_000, 20_000_000, None)));
    let stated = "throttle = { max_latency = \"1 us\", monitor = { capacity = \"3 ms\", period = \
        \"50 ms\", core = 2 } }";
    assert_eq!(monitor(stated), Some((3_000_000, 50_000_000, Some(2))));
}

#[test]
fn bad_input_names_line_and_remedy() {
    for (from, to, expect) in [
        (
            "\"6 ms\"",
            "\"21 ms\"",
            "s.toml:6: VCPU `v`: a capacity of 21 ms in a period of 20 ms is more than a whole \
                core",
        ),
        ("\"6 ms\"", "\"0 ms\"", "s.toml:8"),
        ("\"6 ms\"", "\"-6 ms\"", "negative"),
        ("\"6 ms\"", "\"6 us\"", "below 10 us, the least"),
        ("\"20 ms\"", "\"20 s\"", "above 10 s"),
        ("core = 1", "core = 4", "core 4 is out of range; there are cores 0 to 3"),
        ("core = 1", "colours = 3", "add [maracas] core_colours"),
        ("[\"a\"]", "[\"b\"]", "there is no task `b`"),
        ("[\"a\"]", "[\"a\", \"a\"]", "twice"),
        ("[\"a\"]", "[\"a\", \"d\"]", "VCPUs of their own"),
        ("[\"a\"]", "[\"d\"]", "s.toml:12: task `a` is of level B and bound to no VCPU"),
        ("name = \"v\"", "name = \"best-effort/0\"", "does not begin with"),
        ("name = \"v\"", "name = \"memory-monitor\"", "belongs to a VCPU of solocore's own"),
        (
            "\"keep\"",
            "\"keep\"\nthrottle = { max_latency = \"1 us\", monitor = { capacity = \"2 ms\", period \
                = \"1 ms\" } }",
            "s.toml:4: [maracas] throttle: monitor: a capacity of 2 ms in a period of 1 ms",
        ),
        (
            "\"keep\"",
            "\"keep\"\nthrottle = { max_latency = \"1 us\", monitor = { capacity = \"1 ms\", period \
                = \"9 ms\", core = 4 } }",
            "monitor: core 4 is out of range; there are cores 0 to 3",
        ),
        ("\"maracas\"", "\"none\"", "s.toml:4: [maracas] is read under [regulation] policy"),
        ("\"keep\"", "\"last\"", "s.toml:5"),
        ("\"keep\"", "\"keep\"\nbalance = \"1 ms\"", "balance moves VCPUs"),
        ("\"keep\"", "\"keep\"\nreplenishments = 17", "s.toml:4: [maracas] replenishments = 17"),
        ("\"keep\"", "\"keep\"\nthrottle = { check = \"1 ms\" }", "one of the two"),
        (
            "\"keep\"",
            "\"keep\"\nbest_effort = { capacity = \"2 ms\", period = \"1 ms\" }",
            "best_effort: a capacity",
        ),
        ("period = \"100 ms\"", "period = \"100 ms\"\ncore = 0", "state the core of `v`"),
        (
            "[[task]]\nname = \"d\"",
            "[[vcpu]]\nname = \"v\"\ncapacity = \"1 ms\"\nperiod = \"5 ms\"\n[[task]]\nname = \
                \"d\"",
            "defined twice",
        ),
        (
            "[[task]]\nname = \"d\"",
            "[[vcpu]]\nname = \"w\"\ncapacity = \"1 ms\"\nperiod = \"5 ms\"\ntasks = \
                [\"a\"]\n[[task]]\nname = \"d\"",
            "leave it in one",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = System::parse(Path::new("s.toml"), &GOOD.replacen(from, to, 1))
            .expect_err(to)
            .to_string();
        assert!(error.contains(expect), "{error}\nlacks {expect}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
