//! Interrupts in the middle of the BPF programs: `tests/bpf/nested.c`, compiled and run.

use std::path::Path;
use std::process::Command;

#[test]
fn an_overflow_in_the_middle_of_a_change_of_tasks_loses_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("nested");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-w", "-Itests/bpf/include", "-Ibpf", "-Ipolicy/include", "-o"]);
    let made = cc.arg(&program).arg("tests/bpf/nested.c").current_dir(&root).status();
    assert!(made.expect("a compiler").success());
    let run = Command::new(&program).output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    println!("{}", said.lines().last().unwrap_or_default());
    assert!(run.status.success(), "{}", said.lines().take(5).collect::<Vec<_>>().join("\n"));
}
