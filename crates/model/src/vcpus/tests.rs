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
