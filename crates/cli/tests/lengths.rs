//! No file of source is longer than 500 lines, except those with a reason at their heads.

use std::path::{Path, PathBuf};

const LONGEST: usize = 500;
/// Files with a reason at their heads.
const EXCEPTIONS: &[&str] = &["crates/sim/src/workload/spec.rs"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("it can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_file_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "policy/rust", "client/rust", "python"] {
        sources(&root.join(folder), &mut found);
    }
    let in_src = |path: &&PathBuf| path.components().any(|c| c.as_os_str() == "src");
    let sources: Vec<&PathBuf> = found.iter().filter(in_src).collect();
    assert!(sources.len() > 500, "{} files of source were found", sources.len());
    let lines = |path: &Path| std::fs::read_to_string(path).expect("it is text").lines().count();
    let excepted = |path: &Path| EXCEPTIONS.iter().any(|e| path.ends_with(e));
    let long: Vec<String> = sources
        .iter()
        .filter(|path| !excepted(path) && lines(path) > LONGEST)
        .map(|path| format!("{}: {} lines", path.display(), lines(path)))
        .collect();
    assert!(long.is_empty(), "longer than {LONGEST} lines:\n{}", long.join("\n"));
}
