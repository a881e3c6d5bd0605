//! A client without a running daemon: it does nothing, returns the reason, and is quick.
//!
//! With a daemon it is tested in crates/linux/tests/lock.rs.

use solocore_client as client;
use solocore_client::Status;

/// Every test needs a socket path without a listener; it is set before any thread asks.
fn nobody_listens() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the tests below call this first, and no other code of this program reads the
    // environment before.
    ONCE.call_once(|| unsafe {
        std::env::set_var("SOLOCORE_SOCKET", "/nonexistent/solocore.sock")
    });
}

#[test]
fn without_a_daemon_nothing_happens() {
    nobody_listens();
    let lock = client::lock();
    assert_eq!(lock.taken(), Err(Status::NoDaemon));
    drop(lock);
    assert_eq!(client::attach(), Err(Status::NoDaemon));
    assert_eq!(client::begin_job().err(), Some(Status::NoDaemon));
    assert_eq!(client::check(), Err(Status::NoDaemon));
    assert_eq!(client::hold_program(), Err(Status::NoDaemon));
    assert_eq!(client::attach_task("video"), Err(Status::NoDaemon));
    assert_eq!(client::attach_task(&"x".repeat(64)), Err(Status::Unknown), "too long a name");
    assert_eq!(client::attach_task("a\0b"), Err(Status::Unknown));
    assert_eq!(client::attach_task(""), Err(Status::Unknown));
    assert_eq!(client::attach_slot("nav/1/device-input"), Err(Status::NoDaemon));
    assert_eq!(client::wait_slot().err(), Some(Status::NoDaemon), "it does not wait");
    assert_eq!(client::attach_slot(""), Err(Status::Unknown));
    assert_eq!(client::max_hold(), None);
    client::detach();
}

#[test]
fn every_status_says_something_of_its_own() {
    let all = [
        Status::NoDaemon,
        Status::Denied,
        Status::Full,
        Status::Unknown,
        Status::Refused,
        Status::System,
        Status::Unmatched,
    ];
    let texts: std::collections::BTreeSet<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), all.len());
    assert!(Status::NoDaemon.to_string().contains("solocore run"));
}

#[test]
fn threads_and_children_are_no_matter() {
    nobody_listens();
    let thread = std::thread::spawn(|| client::lock().taken());
    assert_eq!(thread.join().unwrap(), Err(Status::NoDaemon));
    // Standard library children are made with vfork or fork; the handlers must not stand in their
    // way.
    assert!(std::process::Command::new("true").status().unwrap().success());
    assert_eq!(client::lock().taken(), Err(Status::NoDaemon));
}
