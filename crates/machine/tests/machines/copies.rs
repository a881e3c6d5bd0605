//! Copies by solocore and by its script are the same, and are complete or absent.

use super::fixtures::{self, all};
use solocore_machine::{MachineError, Root, collect, describe, file};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files below a directory, with their content.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The shells on this machine, of those that boards have.
fn shells() -> Vec<Vec<&'static str>> {
    let all = [vec!["sh"], vec!["dash"], vec!["busybox", "sh"]];
    let there = |shell: &Vec<&str>| {
        Command::new(shell[0]).args(&shell[1..]).args(["-c", "exit 0"]).status().is_ok()
    };
    all.into_iter().filter(there).collect()
}

fn run(shell: &[&str], script: &Path, words: &[&Path]) -> (bool, String) {
    let done = Command::new(shell[0]).args(&shell[1..]).arg(script).args(words).output().unwrap();
    (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn script_and_solocore_copy_the_same() {
    let work = tempfile::tempdir().unwrap();
    let script = work.path().join("collect.sh");
    std::fs::write(&script, collect::script()).unwrap();
    for (name, machine) in all() {
        machine
            .put("proc/version", "not read\n")
            .put("sys/devices/system/cpu/cpufreq/boost", "1\n");
        let ours = work.path().join(name);
        let copied = collect::collect(&machine.root(), &ours).unwrap();
        let files = tree(&ours);
        assert_eq!(copied.files, files.len());
        assert!(!files.keys().any(|f| f.ends_with("version") || f.ends_with("boost")));
        for (n, shell) in shells().iter().enumerate() {
            let theirs = work.path().join(format!("{name} by {n}"));
            let (good, said) = run(shell, &script, &[&theirs, machine.path()]);
            assert!(good && said.is_empty(), "{shell:?}: {said}");
            assert!(tree(&theirs) == files, "{name}: {shell:?} copies others");
        }
        let described = describe(&Root::collected(&ours).unwrap(), None).unwrap();
        assert_eq!(file(&described), file(&machine.described()), "{name}");
    }
    let parts = std::fs::read_dir(work.path()).unwrap().filter(|e| {
        let name = e.as_ref().unwrap().file_name().into_string().unwrap();
        name.contains(".part.") || name.starts_with('.')
    });
    assert_eq!(parts.count(), 0, "a temporary directory is left");
}

/// No file of a fixture is outside the list: all files that are read are copied.
#[test]
fn everything_of_the_fixtures_is_copied() {
    let work = tempfile::tempdir().unwrap();
    for (name, machine) in all() {
        let copy = work.path().join(name);
        collect::collect(&machine.root(), &copy).unwrap();
        assert!(tree(&copy) == tree(machine.path()), "{name}");
    }
}

#[test]
fn nothing_is_overwritten() {
    let machine = fixtures::raspberry();
    let work = tempfile::tempdir().unwrap();
    let script = work.path().join("collect.sh");
    std::fs::write(&script, collect::script()).unwrap();
    let full = work.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("mine"), "kept").unwrap();
    for (place, why) in [(full.clone(), "not empty"), (full.join("mine"), "not a directory")] {
        match collect::collect(&machine.root(), &place) {
            Err(MachineError::Input(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let missing = work.path().join("a/b");
    assert!(matches!(collect::collect(&machine.root(), &missing), Err(MachineError::Model(_))));
    for shell in shells() {
        let (good, said) = run(&shell, &script, &[&full, machine.path()]);
        assert!(!good && said.contains("not empty"), "{shell:?}: {said}");
        let (good, said) = run(&shell, &script, &[]);
        assert!(!good && said.contains("usage"), "{shell:?}: {said}");
    }
    assert_eq!(tree(&full).len(), 1);
    let empty = work.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    collect::collect(&machine.root(), &empty).unwrap();
    let by_script = work.path().join("empty too");
    std::fs::create_dir(&by_script).unwrap();
    assert!(run(&["sh"], &script, &[&by_script, machine.path()]).0);
    assert!(tree(&by_script) == tree(&empty));
}

#[test]
fn a_directory_that_is_no_copy_is_refused() {
    let work = tempfile::tempdir().unwrap();
    for (dir, why) in [(work.path().join("x"), "not a directory"), (work.path().into(), "neither")]
    {
        match Root::collected(&dir) {
            Err(MachineError::Input(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
