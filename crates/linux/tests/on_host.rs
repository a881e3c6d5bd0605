//! Headers of `bpf/`, compiled for this machine and run by the programs of `tests/bpf`.

use std::path::Path;
use std::process::Command;

/// Compiles a program and runs it; it must end with 0.
fn run(name: &str, arguments: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-w", "-Itests/bpf/include", "-Ibpf", "-Ipolicy/include", "-o"]);
    let made = cc.arg(&program).arg(format!("tests/bpf/{name}.c")).current_dir(&root).status();
    assert!(made.expect("a compiler").success());
    let run = Command::new(&program).args(arguments).output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    println!("{}", said.lines().last().unwrap_or_default());
    assert!(run.status.success(), "{}", said.lines().take(5).collect::<Vec<_>>().join("\n"));
}

#[test]
fn an_overflow_in_the_middle_of_a_change_of_tasks_loses_nothing() {
    run("nested", &[]);
}

#[test]
fn control_groups_have_their_time_and_no_more() {
    run("groups", &["1", "500"]);
}
