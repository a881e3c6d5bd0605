//! The files of the conditions, below a root folder.
//!
//! Problem: a condition must be tested in every state on any machine. Rule: all reads go through a
//! root, and a file that is missing, is not text or holds no number is `None`. Where debugfs is not
//! mounted, a private mount is used, as for the engines.
//! Does not cover: MSRs; host/prefetch.rs reads them by their offset.

use crate::host::machine::{cpu_list, parse_cpu_list};
use crate::sys;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Folder of the files of CPUs.
pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// The files of a machine.
pub(in crate::doctor) struct Root {
    path: PathBuf,
    debugfs: io::Result<PathBuf>,
    /// Mount that the path `debugfs` leads into.
    _mount: Option<OwnedFd>,
}

impl Root {
    /// This machine.
    pub(in crate::doctor) fn machine() -> Self {
        let (debugfs, mount) = match sys::debugfs() {
            Ok(fd) => (Ok(format!("/proc/self/fd/{}", fd.as_raw_fd()).into()), Some(fd)),
            Err(e) => (Err(e), None),
        };
        Self { path: PathBuf::from("/"), debugfs, _mount: mount }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Contents of a file, without surrounding space.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path.join(path)).ok()?.trim().to_owned())
    }

    /// The number in a file.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.path.join(path).exists()
    }

    /// Target of a symbolic link.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        Some(fs::read_link(self.path.join(path)).ok()?.to_string_lossy().into_owned())
    }

    /// Names in a folder, sorted; none if it cannot be read.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Numbers in the names `prefixN` of a folder, in order.
    pub(super) fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = self.names(folder).iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The online CPUs; none if the list cannot be read.
    pub(super) fn online(&self) -> Vec<u32> {
        parse_cpu_list(&self.text(&format!("{CPUS}/online")).unwrap_or_default())
    }

    /// Contents of a file of each online CPU that has it.
    pub(super) fn of_cpus(&self, file: &str) -> Vec<(u32, String)> {
        let one = |cpu: u32| Some((cpu, self.text(&format!("{CPUS}/cpu{cpu}/{file}"))?));
        self.online().into_iter().filter_map(one).collect()
    }

    /// Contents of a file of debugfs.
    pub(super) fn debug(&self, path: &str) -> io::Result<String> {
        let copy = |e: &io::Error| io::Error::new(e.kind(), e.to_string());
        let folder = self.debugfs.as_ref().map_err(copy)?;
        Ok(fs::read_to_string(folder.join(path))?.trim().to_owned())
    }

    /// Whether this process may mount debugfs; true if that is unknown.
    pub(super) fn may_mount(&self) -> bool {
        const CAP_SYS_ADMIN: u32 = 21;
        let status = self.text("proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
        let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
        mask.is_none_or(|mask| mask >> CAP_SYS_ADMIN & 1 == 1)
    }

    /// Whether systemd manages this machine.
    pub(super) fn has_systemd(&self) -> bool {
        self.has("run/systemd/system")
    }
}

/// `CPU 3`, or `CPUs 0-3`.
pub(super) fn named(cpus: &[u32]) -> String {
    let plural = if cpus.len() == 1 { "" } else { "s" };
    format!("CPU{plural} {}", cpu_list(cpus))
}

/// Equal values with their CPUs, in the order of the first CPU of each.
pub(super) fn grouped<T: PartialEq>(
    values: impl IntoIterator<Item = (u32, T)>,
) -> Vec<(T, Vec<u32>)> {
    let mut out: Vec<(T, Vec<u32>)> = Vec::new();
    for (cpu, value) in values {
        match out.iter_mut().find(|(known, _)| *known == value) {
            Some((_, cpus)) => cpus.push(cpu),
            None => out.push((value, vec![cpu])),
        }
    }
    out
}

#[cfg(test)]
pub(super) mod fixture {
    use super::*;

    /// A root with some files; they are removed when this is dropped.
    pub(in crate::doctor::conditions) struct Fixture {
        dir: tempfile::TempDir,
        pub root: Root,
    }

    impl Fixture {
        pub(in crate::doctor::conditions) fn of(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let debugfs = Ok(dir.path().join("sys/kernel/debug"));
            let root = Root { path: dir.path().to_owned(), debugfs, _mount: None };
            let made = Self { dir, root };
            for (path, text) in files {
                made.write(path, text.as_bytes());
            }
            made
        }

        /// A root without a mountable debugfs.
        pub(in crate::doctor::conditions) fn locked(files: &[(&str, &str)]) -> Self {
            let mut made = Self::of(files);
            made.root.debugfs = Err(io::ErrorKind::PermissionDenied.into());
            made
        }

        pub(in crate::doctor::conditions) fn write(&self, path: &str, bytes: &[u8]) {
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        pub(in crate::doctor::conditions) fn link(&self, path: &str, target: &str) {
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::Fixture;
    use super::*;

    #[test]
    fn files_that_are_missing_or_no_text_are_none() {
        let made =
            Fixture::of(&[("a", " 7 \n"), ("n/node1/x", ""), ("n/node10/x", ""), ("n/nodex", "")]);
        made.write("b", &[0xff, 0xfe]);
        assert_eq!((made.root.text("a"), made.root.number("a")), (Some("7".to_owned()), Some(7)));
        assert_eq!(
            (made.root.text("b"), made.root.number("none"), made.root.text("n")),
            (None, None, None)
        );
        assert_eq!(made.root.numbered("n", "node"), [1, 10]);
        assert!(made.root.online().is_empty() && made.root.link("a").is_none());
        assert_eq!(
            Fixture::locked(&[]).root.debug("x").unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
    }

    #[test]
    fn equal_values_are_one_group() {
        assert_eq!(grouped([(0, 'a'), (1, 'b'), (2, 'a')]), [('a', vec![0, 2]), ('b', vec![1])]);
        assert_eq!((named(&[4]), named(&[0, 1, 2, 5])), ("CPU 4".into(), "CPUs 0-2,5".into()));
    }
}
