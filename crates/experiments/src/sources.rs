//! The sources that decide outcomes, and a hash of them.
//!
//! Problem: two builds differ in many ways, but only some change an outcome. Rule: those of this
//! crate count, those of every crate of the workspace that it is built from, and what these crates
//! include from elsewhere ([`BESIDE`]). Tests do not count. `build.rs` compiles this file, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Beside the crates: what they include, and the versions of all other crates.
const BESIDE: [&str; 4] = ["Cargo.lock", "Cargo.toml", "platforms", "policy/include"];
/// Folders of a crate that no program is built from.
const APART: [&str; 4] = ["tests", "benches", "examples", "target"];

/// The files and folders that decide outcomes, in the workspace at `root`.
#[derive(Debug)]
pub struct Sources {
    root: PathBuf,
    /// The crates of the workspace, by name.
    pub crates: BTreeSet<String>,
    /// From the root on.
    pub paths: BTreeSet<PathBuf>,
}

impl Sources {
    /// Those of the crate `name` and of the crates that it is built from.
    ///
    /// # Errors
    /// When a manifest or a folder cannot be read.
    pub fn of(root: &Path, name: &str) -> std::io::Result<Self> {
        let places = places(&std::fs::read_to_string(root.join("Cargo.toml"))?);
        let mut out =
            Self { root: root.to_owned(), crates: BTreeSet::new(), paths: BTreeSet::new() };
        out.paths.extend(BESIDE.map(PathBuf::from));
        let mut next = vec![name.to_owned()];
        while let Some(name) = next.pop() {
            let Some(place) = places.get(&name).filter(|_| out.crates.insert(name)) else {
                continue;
            };
            next.extend(built_from(&std::fs::read_to_string(root.join(place).join("Cargo.toml"))?));
            for entry in std::fs::read_dir(root.join(place))? {
                let name = entry?.file_name();
                if !APART.iter().any(|apart| name == *apart) {
                    out.paths.insert(Path::new(place).join(name));
                }
            }
        }
        Ok(out)
    }

    /// Hash of the names and bytes of all files, in 16 hexadecimal digits.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn hash(&self) -> std::io::Result<String> {
        let mut files = BTreeSet::new();
        for path in &self.paths {
            list(&self.root, path, &mut files)?;
        }
        // FNV-1a with 64 bits, http://www.isthe.com/chongo/tech/comp/fnv/: it tells builds apart.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut take = |bytes: &[u8]| {
            let length = (bytes.len() as u64).to_le_bytes();
            for byte in length.iter().chain(bytes) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for file in files {
            take(file.as_os_str().as_encoded_bytes());
            take(&std::fs::read(self.root.join(&file))?);
        }
        Ok(format!("{hash:016x}"))
    }
}

/// Folders of the workspace's crates, by name, in its manifest.
fn places(manifest: &str) -> BTreeMap<String, String> {
    let lines = manifest.lines().filter(|line| line.starts_with("solocore-"));
    let place = |line: &str| {
        let (name, rest) = line.split_once('=')?;
        let path = rest.split_once("path = \"")?.1.split('"').next()?;
        Some((name.trim().to_owned(), path.to_owned()))
    };
    lines.filter_map(place).collect()
}

/// The crates of the workspace that a crate is built from, by its manifest.
fn built_from(manifest: &str) -> Vec<String> {
    let (mut out, mut counts) = (Vec::new(), false);
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = ["[dependencies]", "[build-dependencies]"].contains(&line.trim());
        } else if counts && line.starts_with("solocore-") {
            out.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    out
}

/// The files under a path. A test beside its code does not count.
fn list(root: &Path, path: &Path, out: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
    if !root.join(path).is_dir() {
        let test = path.to_string_lossy().ends_with("_tests.rs");
        out.extend((!test).then(|| path.to_owned()));
        return Ok(());
    }
    for entry in std::fs::read_dir(root.join(path))? {
        list(root, &path.join(entry?.file_name()), out)?;
    }
    Ok(())
}
