//! Debian's stock kernels.
//!
//! Rule: a kernel is asked for by its version, with `-rt` or `-cloud` for these flavours. Only
//! `vmlinuz` is kept: the guest needs no module. The default is the kernel of the measured figures,
//! or without it the newest of its series.

use crate::archive::{Archive, Index, Package};
use crate::cache::Cache;
use crate::error::BoardError;
use crate::helper;
use crate::version;
use crate::watch::Watch;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernel of the board's measured figures.
pub const TESTED: &str = "6.19.14";
/// First version of stock kernels with wrong type information for sched_ext
/// (docs/linux-figures.md).
const BELOW: &str = "7.2";
const SUITES: &[&str] = &["trixie-backports", "trixie"];
const DIRECTORY: &str = "kernels";

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Version in the form of `--kernel`.
    pub version: String,
    /// File that QEMU boots.
    pub image: PathBuf,
}

/// The versions in the cache, the oldest first.
pub fn cached(cache: &Cache) -> Vec<String> {
    let mut names = cache.names(DIRECTORY);
    names.sort_by_key(|n| version::key(n));
    names
}

/// The versions that the archive has, the oldest first.
///
/// # Errors
/// [`BoardError::Machine`] when the archive cannot be reached.
pub fn available(
    archive: &Archive,
    scratch: &Path,
    watch: &mut dyn Watch,
) -> Result<Vec<String>, BoardError> {
    Ok(versions(&archive.index(SUITES[0], scratch, watch)?))
}

/// The kernel of a version, or a suitable one; it is fetched if the cache lacks it.
///
/// # Errors
/// [`BoardError::Machine`] when it cannot be obtained.
pub fn obtain(
    cache: &Cache,
    asked: Option<&str>,
    watch: &mut dyn Watch,
) -> Result<Kernel, BoardError> {
    if let Some(found) = in_cache(cache, asked.unwrap_or(TESTED)) {
        return Ok(found);
    }
    match find_in_archive(cache, asked, watch) {
        // Without the archive, any kernel in the cache will do.
        Err(BoardError::Machine(text)) if asked.is_none() => {
            let found = preferred(&cached(cache)).and_then(|v| in_cache(cache, &v));
            found.ok_or(BoardError::Machine(text))
        }
        result => result,
    }
}

fn find_in_archive(
    cache: &Cache,
    asked: Option<&str>,
    watch: &mut dyn Watch,
) -> Result<Kernel, BoardError> {
    let lock = cache.lock(watch)?;
    let scratch = cache.scratch(&lock)?;
    let archive = Archive::find()?;
    let mut known = Vec::new();
    for suite in SUITES {
        let index = archive.index(suite, scratch.path(), watch)?;
        let versions = versions(&index);
        let wanted = asked.map(str::to_owned).or_else(|| preferred(&versions));
        if let Some(version) = wanted
            && let Some(package) = package(&index, &version)
        {
            // Another process may have fetched it meanwhile.
            return match in_cache(cache, &version) {
                Some(found) => Ok(found),
                None => fetch(&archive, package, &version, cache, scratch.path(), watch),
            };
        }
        known.extend(versions);
    }
    known.sort_by_key(|v| version::key(v));
    Err(BoardError::Machine(format!(
        "{} has no kernel {}; choose another with --kernel: {}",
        archive.address(),
        asked.unwrap_or(TESTED),
        known.join(", ")
    )))
}

fn in_cache(cache: &Cache, version: &str) -> Option<Kernel> {
    let image = cache.root().join(DIRECTORY).join(version).join("vmlinuz");
    image.is_file().then(|| Kernel { version: version.to_owned(), image })
}

/// The tested kernel, else the newest that runs sched_ext, else the newest.
fn preferred(versions: &[String]) -> Option<String> {
    let tested = versions.iter().find(|v| *v == TESTED);
    let older = || versions.iter().rfind(|v| version::key(v) < version::key(BELOW));
    tested.or_else(older).or_else(|| versions.last()).cloned()
}

/// Versions of the plain flavour, the oldest first.
fn versions(index: &Index) -> Vec<String> {
    let plain = |name: &str| {
        let rest =
            name.strip_prefix("linux-binary-").or_else(|| name.strip_prefix("linux-image-"))?;
        let (version, flavour) = rest.split_once('+')?;
        let whole = flavour.split_once('-')?.1 == "amd64"
            && version.starts_with(|c: char| c.is_ascii_digit());
        whole.then(|| version.to_owned())
    };
    let mut versions: Vec<String> = index.names().filter_map(plain).collect();
    versions.sort_by_key(|v| version::key(v));
    versions.dedup();
    versions
}

/// The package with the image: a separate one since 6.19, before that the one with the modules.
fn package<'a>(index: &'a Index, asked: &str) -> Option<&'a Package> {
    let (version, flavour) =
        asked.split_once('-').map_or((asked, String::new()), |(v, f)| (v, format!("{f}-")));
    ["linux-binary", "linux-image"]
        .iter()
        .find_map(|kind| index.get(&format!("{kind}-{version}+deb13-{flavour}amd64")))
}

fn fetch(
    archive: &Archive,
    package: &Package,
    version: &str,
    cache: &Cache,
    scratch: &Path,
    watch: &mut dyn Watch,
) -> Result<Kernel, BoardError> {
    watch.stage(&format!("fetching Linux {version}: {} MB", package.size / 1_000_000));
    let file = archive.package(package, &cache.directory("downloads")?, watch)?;
    let root = scratch.join("kernel");
    helper::run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&root), "dpkg", watch, |_| {})?;
    let image = find_image(&root).ok_or_else(|| {
        BoardError::Machine(format!(
            "{} holds no vmlinuz; choose another --kernel",
            package.filename
        ))
    })?;
    let made = scratch.join("made");
    let fail = |e: std::io::Error| BoardError::file(&made, "write", &e);
    std::fs::create_dir(&made).map_err(fail)?;
    std::fs::rename(image, made.join("vmlinuz")).map_err(fail)?;
    let place = cache.keep(&made, DIRECTORY, version)?;
    let _ = std::fs::remove_file(file);
    Ok(Kernel { version: version.to_owned(), image: place.join("vmlinuz") })
}

/// Finds the image: in /boot, or from about 7.1 on below /usr/lib.
fn find_image(directory: &Path) -> Option<PathBuf> {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().ok()?;
        if kind.is_file() && entry.file_name().to_string_lossy().starts_with("vmlinuz") {
            return Some(path);
        }
        if kind.is_dir()
            && let Some(found) = find_image(&path)
        {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(names: &[&str]) -> Index {
        let text: String = names
            .iter()
            .map(|n| {
                format!("Package: {n}\nVersion: 1\nFilename: pool/{n}.deb\nSize: 1\nSHA256: a\n\n")
            })
            .collect();
        Index::parse(&text)
    }

    #[test]
    fn versions_are_those_of_the_plain_flavour_in_order() {
        let index = index(&[
            "linux-binary-7.0.13+deb13-amd64",
            "linux-binary-7.0.4+deb13-amd64",
            "linux-binary-7.0.4+deb13-rt-amd64",
            "linux-image-7.0.4+deb13-amd64",
            "linux-image-7.0.4+deb13-amd64-dbg",
            "linux-image-6.18.5+deb13-amd64",
            "linux-binary-unsigned-7.3.4+deb13-amd64",
            "linux-image-amd64",
        ]);
        assert_eq!(versions(&index), ["6.18.5", "7.0.4", "7.0.13"]);
        assert_eq!(
            package(&index, "7.0.4-rt").expect("there").name,
            "linux-binary-7.0.4+deb13-rt-amd64"
        );
        assert_eq!(
            package(&index, "6.18.5").expect("there").name,
            "linux-image-6.18.5+deb13-amd64"
        );
        assert!(package(&index, "6.18.5-rt").is_none());
    }

    #[test]
    fn sched_ext_decides_without_the_tested_kernel() {
        let of =
            |list: &[&str]| preferred(&list.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["6.18.5", TESTED, "7.1.3", "7.2.12"]).as_deref(), Some(TESTED));
        assert_eq!(of(&["6.18.5", "7.1.3", "7.2.12"]).as_deref(), Some("7.1.3"));
        assert_eq!(of(&["7.2.12", "7.3.4"]).as_deref(), Some("7.3.4"));
        assert_eq!(of(&[]), None);
    }
}
