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

/// A file with stated ways, and the message that refuses it.
fn with_ways(regulation: &str, cores: &[(u32, u32)], more: &str) -> Result<System, String> {
    let cores: String =
        cores.iter().map(|(id, ways)| format!("[[core]]\nid = {id}\nways = {ways}\n")).collect();
    let text = format!(
        "platform = \"core-i5-2500k\"\n[regulation]\n{regulation}\n{cores}[[task]]\nname = \
            \"t\"\nperiod = \"10 ms\"\nwcet = \"1 ms\"\nmisses = 10\n{more}"
    );
    System::parse(Path::new("s.toml"), &text).map_err(|e| e.to_string())
}

#[test]
fn cores_without_stated_ways_share_the_rest() {
    let of = |cores: &[(u32, u32)]| {
        let system = with_ways("", cores, "").unwrap();
        stated_ways(&system.cores, 4, system.platform.llc.ways)
    };
    assert_eq!(of(&[(2, 6)]), Some(vec![2, 2, 6, 2]));
    assert_eq!(of(&[(0, 5), (3, 4)]), Some(vec![5, 1, 1, 4]));
    assert_eq!(of(&[(0, 3), (1, 3), (2, 3), (3, 3)]), Some(vec![3; 4]));
    assert_eq!(of(&[(0, 9)]), Some(vec![9, 1, 1, 1]));
    assert_eq!(of(&[]), None);
}

#[test]
fn impossible_ways_are_refused() {
    let says = |regulation: &str, cores: &[(u32, u32)]| {
        with_ways(regulation, cores, "").expect_err("it is refused")
    };
    assert!(says("", &[(0, 0)]).contains("give 1 to 9"));
    assert!(says("", &[(0, 10)]).contains("give 1 to 9"));
    assert!(says("", &[(0, 5), (1, 6)]).contains("give 1 to 5"));
    assert!(says("", &[(0, u32::MAX)]).contains("give 1 to 9"));
    assert!(says("active_cores = 2", &[(0, 12)]).contains("give 1 to 11"));
    assert!(says("share = \"optimal\"", &[(0, 3)]).contains("chooses the ways"));
    assert!(says("pages = \"anywhere\"", &[(0, 3)]).contains("gives no core ways"));
    let vcpu = "[[vcpu]]\nname = \"v\"\ncore = 0\ncapacity = \"2 ms\"\nperiod = \"10 ms\"\ntasks = [\"t\"]\n";
    let maracas = "policy = \"maracas\"";
    assert!(with_ways(maracas, &[], vcpu).is_ok(), "{:?}", with_ways(maracas, &[], vcpu));
    let error = with_ways(maracas, &[(0, 3)], vcpu).expect_err("it is refused");
    assert!(error.contains("states ways, which is for plans without [[partition]]s"), "{error}");
}
