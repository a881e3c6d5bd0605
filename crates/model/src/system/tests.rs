//! Defaults of a system file, and messages on a bad one.

use super::*;
use crate::units::Time;

const GOOD: &str = r#"
platform = "p4080"
[[task]]
name = "a"
core = 0
period = "100 ms"
wcet = "10 ms"
misses = 100
"#;

fn error_of(text: &str) -> String {
    System::parse(Path::new("s.toml"), text).expect_err("was accepted").to_string()
}

#[test]
fn defaults_are_the_interfaces() {
    let s = System::parse(Path::new("s.toml"), GOOD).unwrap();
    assert!(s.regulation.carries_in());
    assert_eq!(s.regulation.period, Time::from_ns(1_000_000));
    assert_eq!(s.tasks[0].deadline, s.tasks[0].period);
    assert_eq!(s.active_cores(), 8);
}

/// More active cores are offered only where the platform has the core.
#[test]
fn more_active_cores_are_a_remedy_where_there_are_more() {
    let of = |core: u32, active: &str| {
        let task = GOOD.replace("core = 0", &format!("core = {core}"));
        let bandwidth = format!("{GOOD}[[core]]\nid = {core}\n");
        [task, bandwidth].map(|text| {
            let error = error_of(&format!("{text}[regulation]\n{active}"));
            assert!(
                error.contains("out of range") && error.contains("name one of these"),
                "{error}"
            );
            error.ends_with(", or raise [regulation] active_cores")
        })
    };
    assert_eq!(of(5, "active_cores = 4"), [true, true]);
    assert_eq!(of(8, "active_cores = 4"), [false, false]);
    assert_eq!(of(8, ""), [false, false]);
}

#[test]
fn bad_input_names_line_and_remedy() {
    for (from, to, expect) in [
        (
            "\"100 ms\"",
            "100",
            "s.toml:6:10: invalid type: integer `100`, expected a time with its unit",
        ),
        ("\"100 ms\"", "\"0 ms\"", "s.toml:6:10: a period"),
        ("\"100 ms\"", "\"-5 ms\"", "negative"),
        (
            "\"100 ms\"",
            "\"5 ms\"",
            "s.toml:3: task `a` is wider than its period: wcet 10 ms > period 5 ms",
        ),
        ("core = 0", "core = 8", "p4080 are 0 to 7"),
        ("core = 0", "core = -1", "s.toml:5:8"),
        ("core = 0", "cor = 0", "unknown field `cor`"),
        ("\"p4080\"", "\"p4081\"", "no preset is called `p4081`"),
        ("misses = 100", "", "wcet without misses"),
        (
            "misses = 100",
            "misses = 100\n[[task]]\nname = \"a\"\nperiod=\"1 s\"\nwcet=\"1 ms\"\nmisses=1",
            "defined twice",
        ),
        ("misses = 100", "misses = 100\n[[core]]\nid = 9", "core 9 is out of range"),
        (
            "misses = 100",
            "misses = 100\n[[core]]\nid = 0\nbandwidth=\"1 MB/s\"",
            "share = \"explicit\"",
        ),
        (
            "misses = 100",
            "misses = 100\n[regulation]\nshare = \"explicit\"",
            "no [[core]] states one; add a [[core]]",
        ),
        (
            "misses = 100",
            "misses = 100\n[regulation]\nshare = \"explicit\"\n[[core]]\nid = 0",
            "no [[core]] states one; add a [[core]]",
        ),
        ("name = \"a\"", "name = \"a", "s.toml:4"),
    ] {
        let error = error_of(&GOOD.replacen(from, to, 1));
        assert!(error.contains(expect), "{error}\nlacks {expect}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
