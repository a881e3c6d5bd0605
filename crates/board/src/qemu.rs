//! QEMU's system emulator, from Debian's archive.
//!
//! Problem: the board needs a QEMU that its plugin knows, and most machines have another or none.
//! Rule: Debian's packages are unpacked, none is installed; the emulator is started by its own
//! dynamic loader with its own libraries. Backports replace versions, so any version that the
//! plugin knows is taken, in an order of preference. Does not cover: hosts that are not x86-64 with
//! Linux.

use crate::archive::{Archive, Index, resolve};
use crate::cache::Cache;
use crate::error::BoardError;
use crate::helper;
use crate::version;
use crate::watch::Watch;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of QEMU for the board's measured figures.
pub const TESTED: &str = "11.1.3";
/// First version with the plugin interface that the board's plugin speaks.
const FROM: &str = "11.0";
/// Suites for QEMU, the best first; each with the suite beside its packages. Backports come and go,
/// so the next release stands behind.
const SUITES: &[&[&str]] = &[&["trixie-backports", "trixie"], &["forky"]];
/// Busybox gives the guest a shell and its tools.
const PACKAGES: &[&str] = &["qemu-system-x86", "busybox-static"];
const DIRECTORY: &str = "qemu";

/// An unpacked QEMU.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// Version by QEMU's own numbering.
    pub version: String,
    root: PathBuf,
}

impl Qemu {
    /// A statically linked busybox.
    pub fn busybox(&self) -> PathBuf {
        ["usr/bin/busybox", "bin/busybox"]
            .map(|p| self.root.join(p))
            .into_iter()
            .find(|p| p.is_file())
            .unwrap_or_else(|| self.root.join("usr/bin/busybox"))
    }

    /// The emulator, without arguments except the directory of its files.
    pub fn command(&self) -> Command {
        let libraries =
            ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|p| self.root.join(p));
        let loader = libraries.iter().map(|l| l.join("ld-linux-x86-64.so.2")).find(|l| l.is_file());
        let mut command =
            Command::new(loader.unwrap_or_else(|| self.root.join("ld-linux-x86-64.so.2")));
        let path = libraries.map(|l| l.to_string_lossy().into_owned()).join(":");
        command.arg("--library-path").arg(path).arg(self.root.join("usr/bin/qemu-system-x86_64"));
        command.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD");
        command.env("QEMU_MODULE_DIR", self.root.join("usr/lib/x86_64-linux-gnu/qemu"));
        for data in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(self.root.join(data));
        }
        command
    }
}

/// Whether the board's plugin speaks with this version.
fn is_known(version: &str) -> bool {
    version::key(version) >= version::key(FROM)
}

/// The QEMUs in the cache that the board's plugin knows, the preferred one first.
pub fn cached(cache: &Cache) -> Vec<Qemu> {
    let mut names = cache.names(DIRECTORY);
    names.retain(|name| is_known(name));
    names.sort_by_key(|n| (n.as_str() != TESTED, std::cmp::Reverse(version::key(n))));
    names
        .into_iter()
        .map(|n| Qemu { root: cache.root().join(DIRECTORY).join(&n), version: n })
        .collect()
}

/// The QEMU to use; it is fetched if the cache has none.
///
/// # Errors
/// [`BoardError::Machine`] when it cannot be obtained.
pub fn obtain(cache: &Cache, watch: &mut dyn Watch) -> Result<Qemu, BoardError> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(BoardError::Machine(
            "the board runs on x86-64 machines with Linux only; run it on such a machine"
                .to_owned(),
        ));
    }
    if let Some(found) = cached(cache).into_iter().next() {
        return Ok(found);
    }
    let lock = cache.lock(watch)?;
    // Another process may have fetched it meanwhile.
    if let Some(found) = cached(cache).into_iter().next() {
        return Ok(found);
    }
    let scratch = cache.scratch(&lock)?;
    let archive = Archive::find()?;
    let mut first: Option<String> = None;
    for suites in SUITES {
        match fetch(&archive, suites, cache, scratch.path(), watch) {
            Err(BoardError::Machine(text)) => first = first.or(Some(text)),
            Ok(found) => {
                if let Some(text) = first {
                    watch.note(&format!("QEMU {} is a substitute: {text}", found.version));
                }
                return Ok(found);
            }
            other => return other,
        }
    }
    Err(BoardError::Machine(first.unwrap_or_default()))
}

fn fetch(
    archive: &Archive,
    suites: &[&str],
    cache: &Cache,
    scratch: &Path,
    watch: &mut dyn Watch,
) -> Result<Qemu, BoardError> {
    let indices: Vec<Index> =
        suites.iter().map(|s| archive.index(s, scratch, watch)).collect::<Result<_, _>>()?;
    let wrong = |what: String| {
        BoardError::Machine(format!(
            "{}: {what}; name another mirror in SOLOCORE_DEBIAN",
            archive.address()
        ))
    };
    let packages = resolve(&indices, PACKAGES).map_err(wrong)?;
    let of_qemu =
        packages.iter().find(|p| p.name == PACKAGES[0]).map(|p| version::upstream(&p.version));
    let version = of_qemu.unwrap_or_default().to_owned();
    if !is_known(&version) {
        return Err(wrong(format!(
            "{} has QEMU {version}, and the board needs {FROM} or later",
            suites[0]
        )));
    }
    let downloads = cache.directory("downloads")?;
    let root = scratch.join("root");
    let all: u64 = packages.iter().map(|p| p.size).sum();
    watch.stage(&format!(
        "fetching QEMU {version}: {} packages, {} MB",
        packages.len(),
        all / 1_000_000
    ));
    let mut done = 0;
    let mut files = Vec::new();
    for package in &packages {
        let path = archive.package(
            package,
            &downloads,
            &mut Part { watch, done, of: all, size: package.size },
        )?;
        done += package.size;
        helper::run(
            Command::new("dpkg-deb").arg("-x").arg(&path).arg(&root),
            "dpkg",
            watch,
            |_| {},
        )?;
        files.push(path);
    }
    let root = cache.keep(&root, DIRECTORY, &version)?;
    for file in files {
        let _ = std::fs::remove_file(file);
    }
    Ok(Qemu { version, root })
}

/// Progress of one file among several, as a share of the whole.
struct Part<'a> {
    watch: &'a mut dyn Watch,
    done: u64,
    of: u64,
    size: u64,
}

impl Watch for Part<'_> {
    fn stage(&mut self, what: &str) {
        self.watch.stage(what);
    }
    fn share(&mut self, done: f64) {
        self.watch.share((self.done as f64 + done * self.size as f64) / self.of.max(1) as f64);
    }
    fn note(&mut self, text: &str) {
        self.watch.note(text);
    }
    fn speed(&mut self, simulated_ns: u64, wall_ns: u64) {
        self.watch.speed(simulated_ns, wall_ns);
    }
    fn output(&mut self, stream: crate::watch::Stream, bytes: &[u8]) {
        self.watch.output(stream, bytes);
    }
    fn hand_over(&mut self) {
        self.watch.hand_over();
    }
    fn stopped(&self) -> bool {
        self.watch.stopped()
    }
}
