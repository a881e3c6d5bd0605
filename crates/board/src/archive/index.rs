//! Indices of packages, and the dependencies of a package.
//!
//! Rule: a dependency is met by the first of its alternatives that an index has, by name or as a
//! provided name; the indices are asked in the order given. Backports are newer than the suite
//! beside them and are built on it, so asking them first needs no comparison of versions. Does not
//! cover: conflicts, and the scripts of an installation, because packages are only unpacked.

use std::collections::{BTreeMap, HashMap};

/// Packages for maintainers' scripts, which do not run here.
const NOT_NEEDED: &[&str] = &["adduser", "debconf", "debconf-2.0", "passwd"];

/// A package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Debian's version.
    pub version: String,
    /// Path in the archive.
    pub filename: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    depends: Vec<Vec<String>>,
    provides: Vec<String>,
}

/// The packages of a suite.
#[derive(Debug)]
pub struct Index {
    packages: BTreeMap<String, Package>,
    /// Package that provides each name.
    provided: HashMap<String, String>,
}

impl Index {
    /// Reads an index (`Packages`). Of several versions of a package the last one counts.
    pub fn parse(text: &str) -> Self {
        let mut packages = BTreeMap::new();
        let mut provided = HashMap::new();
        for package in text.split("\n\n").filter_map(paragraph) {
            for name in &package.provides {
                provided.entry(name.clone()).or_insert_with(|| package.name.clone());
            }
            packages.insert(package.name.clone(), package);
        }
        Self { packages, provided }
    }

    /// A package by its name.
    pub fn get(&self, name: &str) -> Option<&Package> {
        self.packages.get(name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(String::as_str)
    }

    fn provider(&self, name: &str) -> Option<&Package> {
        self.get(self.provided.get(name)?)
    }
}

fn paragraph(text: &str) -> Option<Package> {
    let mut fields = HashMap::new();
    for line in text.lines().filter(|l| !l.starts_with(' ')) {
        if let Some((key, value)) = line.split_once(": ") {
            fields.insert(key, value);
        }
    }
    let field = |key: &str| fields.get(key).map(|v| (*v).to_owned());
    let list = |key: &str| {
        fields.get(key).map(|v| v.split(',').map(str::trim).collect::<Vec<_>>()).unwrap_or_default()
    };
    let mut depends: Vec<Vec<String>> = Vec::new();
    for alternatives in list("Pre-Depends").into_iter().chain(list("Depends")) {
        depends.push(alternatives.split('|').map(bare).filter(|n| !n.is_empty()).collect());
    }
    Some(Package {
        name: field("Package")?,
        version: field("Version")?,
        filename: field("Filename")?,
        size: field("Size")?.parse().ok()?,
        sha256: field("SHA256")?,
        depends,
        provides: list("Provides").into_iter().map(bare).collect(),
    })
}

/// The name in `name:any (>= version) [arch]`.
fn bare(text: &str) -> String {
    text.trim().split([' ', ':', '(']).next().unwrap_or_default().to_owned()
}

/// Size and SHA-256 of a file that a release (`InRelease`) names.
pub fn release_entry(release: &str, file: &str) -> Option<(u64, String)> {
    let signed = release.split("-----BEGIN PGP SIGNATURE-----").next()?;
    let hashes = signed.split("\nSHA256:").nth(1)?;
    // The list ends at a line without indentation.
    for line in hashes.lines().skip(1).take_while(|l| l.starts_with(' ')) {
        let mut words = line.split_whitespace();
        if let (Some(hash), Some(size), Some(name)) = (words.next(), words.next(), words.next())
            && name == file
        {
            return Some((size.parse().ok()?, hash.to_owned()));
        }
    }
    None
}

/// The named packages and all their dependencies, sorted by name.
///
/// # Errors
/// No index has a dependency; the error names it.
pub fn resolve<'a>(indices: &'a [Index], roots: &[&str]) -> Result<Vec<&'a Package>, String> {
    let mut found: BTreeMap<&str, &Package> = BTreeMap::new();
    let mut open: Vec<(Vec<String>, String)> =
        roots.iter().map(|r| (vec![(*r).to_owned()], "the request".to_owned())).collect();
    while let Some((alternatives, by)) = open.pop() {
        if alternatives.iter().any(|a| NOT_NEEDED.contains(&a.as_str())) {
            continue;
        }
        let package =
            alternatives.iter().find_map(|name| find(indices, name)).ok_or_else(|| {
                format!("the archive has no {}, which {by} needs", alternatives.join(" or "))
            })?;
        if found.insert(&package.name, package).is_none() {
            open.extend(package.depends.iter().map(|d| (d.clone(), package.name.clone())));
        }
    }
    Ok(found.into_values().collect())
}

fn find<'a>(indices: &'a [Index], name: &str) -> Option<&'a Package> {
    indices
        .iter()
        .find_map(|i| i.get(name))
        .or_else(|| indices.iter().find_map(|i| i.provider(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nSuite: \
        test\nMD5Sum:\n 11 5 main/binary-amd64/Packages.xz\nSHA256:\n aa 7 \
        main/binary-arm64/Packages.xz\n bb 9 main/binary-amd64/Packages.xz\nOther: x\n cc 9 \
        late\n-----BEGIN PGP SIGNATURE-----\n dd 9 forged\n";

    fn package(name: &str, more: &str) -> String {
        format!(
            "Package: {name}\nVersion: 1\n{more}Description: x\n of several: lines\nFilename: \
                pool/{name}.deb\nSize: 3\nSHA256: ab\n\n"
        )
    }

    #[test]
    fn only_signed_hashes_of_the_right_list_count() {
        assert_eq!(
            release_entry(RELEASE, "main/binary-amd64/Packages.xz"),
            Some((9, "bb".to_owned()))
        );
        assert_eq!(release_entry(RELEASE, "late"), None);
        assert_eq!(release_entry(RELEASE, "forged"), None);
    }

    #[test]
    fn a_paragraph_gives_names_without_versions() {
        let text = package(
            "a",
            "Depends: b (>= 2:1.0), c:any | d (<< 3)\nPre-Depends: e\nProvides: f (= 1), g\n",
        );
        let index = Index::parse(&text);
        let a = index.get("a").expect("a package");
        assert_eq!(a.depends, [vec!["e"], vec!["b"], vec!["c", "d"]]);
        assert_eq!(a.provides, ["f", "g"]);
        assert_eq!((a.size, a.filename.as_str()), (3, "pool/a.deb"));
    }

    #[test]
    fn what_lacks_a_checksum_is_no_package() {
        assert_eq!(
            Index::parse("Package: a\nVersion: 1\nFilename: x\nSize: 3\n").names().count(),
            0
        );
    }

    #[test]
    fn the_first_index_wins_and_circles_end() {
        let newer = Index::parse(
            &package("a", "Depends: b, virtual | none\n").replace("Version: 1", "Version: 2"),
        );
        let older = package("a", "")
            + &package("b", "Depends: a, adduser\n")
            + &package("p", "Provides: virtual\n");
        let indices = [newer, Index::parse(&older)];
        let found = resolve(&indices, &["a"]).expect("resolved");
        let names: Vec<_> = found.iter().map(|p| (p.name.as_str(), p.version.as_str())).collect();
        assert_eq!(names, [("a", "2"), ("b", "1"), ("p", "1")]);
    }

    #[test]
    fn what_is_missing_is_named_with_who_needs_it() {
        let indices = [Index::parse(&package("a", "Depends: x | y\n"))];
        let error = resolve(&indices, &["a"]).expect_err("missing");
        assert_eq!(error, "the archive has no x or y, which a needs");
    }
}
