use super::THIS;
use crate::sources::Sources;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Cargo's own list of the crates that this one is built from.
fn by_cargo() -> BTreeSet<String> {
    let cargo = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let found: serde_json::Value = serde_json::from_slice(&cargo.stdout).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = found["packages"].as_array().expect("packages");
    let needs = |package: &serde_json::Value| -> Vec<String> {
        let all = package["dependencies"].as_array().expect("dependencies");
        all.iter().filter(|d| d["kind"] != "dev").map(|d| text(&d["name"])).collect()
    };
    let by_name: BTreeMap<String, Vec<String>> =
        packages.iter().map(|p| (text(&p["name"]), needs(p))).collect();
    let (mut out, mut next) = (BTreeSet::new(), vec![env!("CARGO_PKG_NAME").to_owned()]);
    while let Some(name) = next.pop() {
        if let Some(needs) = by_name.get(&name).filter(|_| out.insert(name)) {
            next.extend(needs.iter().filter(|n| by_name.contains_key(*n)).cloned());
        }
    }
    out
}

#[test]
fn it_is_the_hash_of_the_sources_of_all_crates_that_cargo_names() {
    let sources = Sources::of(&root(), env!("CARGO_PKG_NAME")).expect("the sources");
    assert_eq!(sources.crates, by_cargo());
    assert_eq!(sources.hash().expect("a hash"), THIS);
    assert!(THIS.len() == 16 && THIS.bytes().all(|b| b.is_ascii_hexdigit()), "{THIS}");
}

/// A file that a crate includes from outside of its folder is among the sources, too.
#[test]
fn included_files_are_among_the_sources() {
    let sources = Sources::of(&root(), env!("CARGO_PKG_NAME")).expect("the sources");
    let has = |path: &str| sources.paths.iter().any(|p| Path::new(path).starts_with(p));
    for path in [
        "platforms/p4080.toml",
        "crates/dram/memories",
        "policy/include/solocore/memguard.h",
        "policy/rust/src/shim.c",
        "crates/sim/src/lib.rs",
        "crates/experiments/build.rs",
    ] {
        assert!(root().join(path).exists() && has(path), "{path}");
    }
    assert!(!has("crates/sim/tests") && !has("crates/linux/src/lib.rs"));
}

#[test]
fn a_changed_source_changes_it_and_a_test_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        std::fs::write(path, text).expect("it is written");
    };
    let hash = || Sources::of(dir.path(), "solocore-a").and_then(|s| s.hash()).expect("a hash");
    let places = "solocore-a = { path = \"a\" }\nsolocore-b = { path = \"b\" }\n\
        solocore-c = { path = \"c\" }\n";
    write("Cargo.toml", &format!("[workspace.dependencies]\n{places}"));
    write(
        "a/Cargo.toml",
        "[dependencies]\nsolocore-b.workspace = true\n[dev-dependencies]\n\
        solocore-c.workspace = true\n",
    );
    for path in ["Cargo.lock", "platforms/x.toml", "policy/include/x.h", "b/Cargo.toml"] {
        write(path, "");
    }
    write("b/src/lib.rs", "fn b() {}");
    write("c/src/lib.rs", "fn c() {}");
    let mut seen = BTreeSet::from([hash()]);
    for (path, text, counts) in [
        ("b/src/lib.rs", "fn b() {;}", true),
        ("b/src/more.rs", "", true),
        ("platforms/x.toml", "a = 1", true),
        ("policy/include/x.h", "int x;", true),
        ("Cargo.lock", "a", true),
        ("b/tests/all.rs", "fn test() {}", false),
        ("b/src/more_tests.rs", "fn test() {}", false),
        ("c/src/lib.rs", "fn other() {}", false),
    ] {
        write(path, text);
        assert_eq!(seen.insert(hash()), counts, "{path}");
    }
}
