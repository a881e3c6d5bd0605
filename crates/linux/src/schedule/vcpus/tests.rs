//! Names of VCPUs, and messages about a real-time thread.

use super::*;

#[test]
fn names() {
    for good in ["video", "exec-4711", "best-effort/1", "4711a", "two words"] {
        assert_eq!(check_name(good), Ok(()));
    }
    let long = "x".repeat(65);
    for (bad, word) in [
        ("", "empty"),
        ("7", "number"),
        ("a ", "blank"),
        ("a\nb", "control"),
        (long.as_str(), "64"),
    ] {
        let said = check_name(bad).unwrap_err();
        assert!(said.contains(word) && !said.contains('\n'), "{said}");
    }
}

#[test]
fn a_real_time_thread_is_described() {
    let mut seen = intruders::tests::rude();
    seen.lost_ns[2] = 250_000;
    let said = intruder(&seen).text();
    // The thread took 1.5 ms while the core idled; no VCPU lost this time.
    assert!(said.ends_with("lost: foreground 0.000 ms, background 0.250 ms"), "{said}");
    seen.lost_ns[1] = 750_000;
    assert_eq!(intruder(&seen).lost_foreground_ns, 750_000);
}

/// Fails when a request can bind this process, by its number or by that of one of its threads.
#[test]
fn the_process_with_the_scheduler_is_not_bound() {
    let (me, thread) = (std::process::id(), crate::sys::tasks::thread_number());
    for own in [me, thread] {
        let said = check_process(own).unwrap_err();
        assert!(
            matches!(&said, LinuxError::Input(t) if t.contains("is the solocore that schedules")),
            "{said}"
        );
    }
    let mut other = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let checked = check_process(other.id());
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(checked, Ok(()));
    assert!(matches!(check_process(u32::MAX - 9), Err(LinuxError::Machine(_))));
}
