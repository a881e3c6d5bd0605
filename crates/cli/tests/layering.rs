//! Dependencies between the crates point one way (ARCHITECTURE.md, "Layers").

use std::collections::BTreeSet;
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
    ("planner", &["model", "analysis", "dram", "ima", "study"]),
    ("sim", &["model", "policy", "cache", "dram"]),
    ("experiments", &["model", "analysis", "planner", "policy", "dram", "sim"]),
    ("ima", &["model"]),
    ("linux", &["model", "analysis", "policy"]),
    ("resctrl-double", &[]),
    ("buffers", &[]),
    ("client", &[]),
    ("space", &["model"]),
    ("study", &["model", "analysis"]),
    ("profile-plugin", &["model", "cache"]),
    ("profile", &["model", "cache"]),
    ("report", &["model"]),
    (
        "cli",
        &[
            "analysis",
            "check",
            "buffers",
            "client",
            "dram",
            "experiments",
            "ima",
            "linux",
            "model",
            "planner",
            "profile",
            "report",
            "sim",
            "space",
            "study",
        ],
    ),
];

#[test]
fn no_arrow_points_back() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert_eq!(packages.len(), LAYERS.len(), "a crate is missing from the table");
    for package in packages {
        let name = package["name"].as_str().and_then(|n| n.strip_prefix("solocore-")).expect("solocore-NAME");
        let (_, allowed) = LAYERS.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name} has no layer"));
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

/// The simulator must never need the kernel, and only `policy` and `client` may speak to C, only the plugin to QEMU. `policy-check` is a
/// test that nothing depends on: it calls the drivers of `policy/tests`, which are compiled into no other crate.
#[test]
fn foreign_functions_stay_in_their_crates() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in std::fs::read_dir(crates).expect("crates/") {
        let dir = entry.expect("entry").path();
        let name = dir.file_name().expect("name").to_string_lossy().into_owned();
        if ["client", "policy", "policy-check", "profile-plugin"].contains(&name.as_str()) {
            continue;
        }
        for file in std::fs::read_dir(dir.join("src")).expect("src/") {
            let path = file.expect("entry").path();
            if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("readable");
                assert!(!text.contains("extern \"C\" {"), "{} declares foreign functions", path.display());
            }
        }
    }
}
