//! Debian's archive: packages by name, checked.
//!
//! Problem: QEMU and kernels are not part of solocore, and the files of a mirror cannot be trusted.
//! Rule: Debian's signature covers `InRelease`, its hashes cover the indices of packages, and these
//! cover the packages. Files come by curl, which resumes an interrupted transfer.
//! Does not cover: expiry (`Valid-Until`), because the files of an old mirror are as valid as
//! before.

mod index;
mod signature;

pub use index::{Index, Package, resolve};

use crate::error::BoardError;
use crate::helper;
use crate::watch::Watch;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// An archive.
#[derive(Debug)]
pub struct Archive {
    /// Address without `/` at its end.
    address: String,
    proxy: Option<String>,
}

impl Archive {
    /// The archive that `SOLOCORE_DEBIAN` names, else the one of this machine's apt.
    ///
    /// # Errors
    /// [`BoardError::Machine`] when neither names one.
    pub fn find() -> Result<Self, BoardError> {
        let named = std::env::var("SOLOCORE_DEBIAN").ok().filter(|a| !a.is_empty());
        let none = "this machine's apt knows no Debian archive; set SOLOCORE_DEBIAN to the address \
            of a mirror";
        let address = named.or_else(of_apt).ok_or_else(|| BoardError::Machine(none.to_owned()))?;
        let address = address.trim_end_matches('/').to_owned();
        let proxy = proxy_of_apt(address.split(':').next().unwrap_or("http"));
        Ok(Self { address, proxy })
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The packages of a suite for this architecture; `scratch` is a directory for files on the
    /// way.
    ///
    /// # Errors
    /// [`BoardError::Machine`] when the archive cannot be reached or its files do not match their
    /// checksums.
    pub fn index(
        &self,
        suite: &str,
        scratch: &Path,
        watch: &mut dyn Watch,
    ) -> Result<Index, BoardError> {
        watch.stage(&format!("reading {}/dists/{suite}", self.address));
        // Of its own, so that no part of another suite's index is taken for its beginning.
        let scratch = tempfile::Builder::new().prefix(suite).tempdir_in(scratch);
        let scratch = scratch.map_err(|e| BoardError::file(Path::new(suite), "write", &e))?;
        let scratch = scratch.path();
        let release = scratch.join("InRelease");
        self.fetch(&format!("dists/{suite}/InRelease"), &release, None, watch)?;
        let text = signature::check(&release, suite, watch)?;
        let name = "main/binary-amd64/Packages.xz";
        let wrong = |what: &str| {
            BoardError::Machine(format!(
                "{}: {suite}: {what}; name another mirror in SOLOCORE_DEBIAN",
                self.address
            ))
        };
        let (size, sha256) = index::release_entry(&text, name)
            .ok_or_else(|| wrong("InRelease has no index for amd64"))?;
        let packed = scratch.join("Packages.xz");
        // By its hash, so that an archive that changes at this moment still fits together.
        let by_hash = format!("dists/{suite}/main/binary-amd64/by-hash/SHA256/{sha256}");
        if self.fetch(&by_hash, &packed, Some(size), watch).is_err() {
            let _ = std::fs::remove_file(&packed);
            self.fetch(&format!("dists/{suite}/{name}"), &packed, Some(size), watch)?;
        }
        if hash_of(&packed)? != sha256 {
            return Err(wrong("the index of packages is not the one that InRelease names"));
        }
        let plain = scratch.join("Packages");
        let out = File::create(&plain).map_err(|e| BoardError::file(&plain, "write", &e))?;
        helper::run(
            Command::new("xz").arg("-dc").arg(&packed).stdout(out),
            "xz-utils",
            watch,
            |_| {},
        )?;
        Ok(Index::parse(&solocore_model::files::read_text(&plain)?))
    }

    /// Fetches a package into `directory` and returns its path; existing parts are not fetched
    /// again.
    ///
    /// # Errors
    /// [`BoardError::Machine`], also when its checksum is wrong; the file is then removed.
    pub fn package(
        &self,
        package: &Package,
        directory: &Path,
        watch: &mut dyn Watch,
    ) -> Result<std::path::PathBuf, BoardError> {
        let path = directory.join(format!("{}.deb", package.sha256));
        if std::fs::metadata(&path).map_or(0, |m| m.len()) != package.size {
            self.fetch(&package.filename, &path, Some(package.size), watch)?;
        }
        if hash_of(&path)? == package.sha256 {
            return Ok(path);
        }
        let _ = std::fs::remove_file(&path);
        Err(BoardError::Machine(format!(
            "{}: {} does not match its checksum and was removed; try again, or name another mirror \
                in SOLOCORE_DEBIAN",
            self.address, package.filename
        )))
    }

    fn fetch(
        &self,
        file: &str,
        to: &Path,
        size: Option<u64>,
        watch: &mut dyn Watch,
    ) -> Result<(), BoardError> {
        let url = format!("{}/{file}", self.address);
        let mut curl = Command::new("curl");
        curl.args([
            "-fsSL",
            "--retry",
            "3",
            "--connect-timeout",
            "20",
            "--speed-limit",
            "1",
            "--speed-time",
            "60",
        ]);
        if let Some(proxy) = &self.proxy {
            curl.args(["--proxy", proxy]);
        }
        if size.is_some() {
            curl.args(["-C", "-"]);
        }
        curl.arg("-o").arg(to).arg(&url);
        let done = || std::fs::metadata(to).map_or(0, |m| m.len());
        helper::run(&mut curl, "curl", watch, |watch| {
            if let Some(size) = size {
                watch.share(done() as f64 / size.max(1) as f64);
            }
        })
        .map_err(|e| match e {
            BoardError::Machine(text) => BoardError::Machine(format!(
                "cannot fetch {url}: {}; check the network, or name another mirror in \
                    SOLOCORE_DEBIAN",
                text.trim_end_matches("; try again")
            )),
            other => other,
        })
    }
}

/// The SHA-256 of a file, in hexadecimal.
fn hash_of(path: &Path) -> Result<String, BoardError> {
    let fail = |e: std::io::Error| BoardError::file(path, "read", &e);
    let mut file = File::open(path).map_err(fail)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer).map_err(fail)?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// The archive that apt uses.
fn of_apt() -> Option<String> {
    let output =
        Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .map(|l| l.trim_end_matches('/'))
        .find(|l| l.ends_with("/debian"))
        .map(str::to_owned)
}

/// The proxy that apt uses for a scheme. curl reads those of the environment itself.
fn proxy_of_apt(scheme: &str) -> Option<String> {
    let key = format!("Acquire::{scheme}::Proxy");
    let output =
        Command::new("apt-config").args(["dump", "--format", "%f=%v%n", &key]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = text.lines().find_map(|l| l.strip_prefix(&format!("{key}=")))?.trim().to_owned();
    (!value.is_empty() && value != "DIRECT").then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_hash_that_everybody_computes() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "abc").expect("written");
        let hash = hash_of(file.path()).expect("readable");
        assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
