//! Dependencies between the crates point one way (ARCHITECTURE.md, "Layers").

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A crate and the crates of this project it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("policy", &[]),
    ("policy-check", &["policy"]),
    ("analysis", &["model"]),
    ("cache", &["model"]),
    ("check", &["model", "policy"]),
    ("dram", &["model"]),
    ("planner", &["model", "analysis", "dram"]),
    ("sim", &["model", "policy", "cache", "dram"]),
    ("experiments", &["model", "analysis", "planner", "policy", "dram", "sim"]),
    ("linux", &["model", "analysis", "policy", "buffers", "space"]),
    ("machine", &["model", "buffers", "space"]),
    ("resctrl-double", &[]),
    ("board", &["model", "plugin"]),
    ("board-plugin", &["model", "cache", "dram"]),
    ("buffers", &[]),
    ("plugin", &[]),
    ("client", &[]),
    ("space", &["model"]),
    ("study", &["model", "analysis", "planner"]),
    ("profile-plugin", &["model", "cache"]),
    ("profile", &["model", "cache", "plugin"]),
    ("report", &["model"]),
    ("python", &["model", "analysis", "planner", "sim", "experiments", "study", "profile"]),
    (
        "cli",
        &[
            "analysis",
            "board",
            "check",
            "buffers",
            "client",
            "dram",
            "experiments",
            "linux",
            "machine",
            "model",
            "planner",
            "plugin",
            "profile",
            "report",
            "sim",
            "space",
            "study",
        ],
    ),
];

/// The packages of the workspace, as cargo describes them.
fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// A package's name without the project's.
fn short_name(package: &serde_json::Value) -> &str {
    package["name"].as_str().and_then(|n| n.strip_prefix("solocore-")).expect("solocore-NAME")
}

#[test]
fn no_arrow_points_back() {
    let packages = packages();
    assert_eq!(packages.len(), LAYERS.len(), "a crate is missing from the table");
    for package in &packages {
        let name = short_name(package);
        let (_, allowed) = LAYERS
            .iter()
            .find(|(n, _)| *n == name)
            .unwrap_or_else(|| panic!("{name} has no layer"));
        let used: BTreeSet<&str> = package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            // Tests may look behind the layers.
            .filter(|d| d["kind"] != "dev")
            .filter_map(|d| d["name"].as_str()?.strip_prefix("solocore-"))
            .collect();
        for dependency in used {
            assert!(allowed.contains(&dependency), "{name} must not depend on {dependency}");
        }
    }
}

/// `check-io` judges time tables: it shares no code with the solver that makes them.
#[test]
fn the_checker_of_tables_does_not_know_the_search() {
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/check_io");
    for file in std::fs::read_dir(parts).expect("check_io/") {
        let path = file.expect("entry").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(!text.contains("solocore_planner"), "{} uses the planner", path.display());
    }
}

/// The simulator must never need the kernel, and only `policy` and `client` may speak to C, only
/// the plugins to QEMU. `policy-check` is a test that nothing depends on: it calls the drivers of
/// `policy/tests`, which are compiled into no other crate.
#[test]
fn foreign_functions_stay_in_their_crates() {
    for package in &packages() {
        if ["board-plugin", "client", "policy", "policy-check", "profile-plugin"]
            .contains(&short_name(package))
        {
            continue;
        }
        let manifest = Path::new(package["manifest_path"].as_str().expect("manifest_path"));
        let mut directories = vec![manifest.with_file_name("src")];
        while let Some(directory) = directories.pop() {
            for file in std::fs::read_dir(directory).expect("src/") {
                let path = file.expect("entry").path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    let text = std::fs::read_to_string(&path).expect("readable");
                    assert!(
                        !text.contains("extern \"C\" {"),
                        "{} declares foreign functions",
                        path.display()
                    );
                }
            }
        }
    }
}
