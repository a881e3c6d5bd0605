//! The files of the QEMU plugins.
//!
//! Problem: the emulator loads a plugin from a file, and the command may be the only file that was
//! copied. Rule: a plugin is the file that its variable names, or part of the command itself
//! (feature `carry`), or beside the command, or in `../lib/solocore` of an installation. The
//! command shows its own plugin to the emulator as a sealed file in memory. A carried plugin
//! precedes one beside the command, because others may be able to write there.
//! Not covered: an emulator that runs as another user cannot open the file in memory.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Reason for a missing plugin.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// There is no such file.
    #[error(
        "the plugin {name} is not beside the solocore program; build it with `make build`, or name \
            it in {variable}"
    )]
    Missing {
        /// Name of the file.
        name: &'static str,
        /// Variable that names another file.
        variable: &'static str,
    },
    /// The command carries it, and cannot show it to the emulator.
    #[error(
        "the plugin {name} cannot be unpacked into memory: {source}; name a file in {variable}"
    )]
    Unpack {
        /// Name of the file.
        name: &'static str,
        /// Variable that names another file.
        variable: &'static str,
        /// Error of the kernel.
        source: std::io::Error,
    },
}

/// A plugin of this project.
#[derive(Debug)]
pub struct Plugin {
    name: &'static str,
    variable: &'static str,
    carried: Option<&'static [u8]>,
    /// The carried plugin, unpacked. It is open as long as this process lives, as the emulator and
    /// the programs that it starts may load it at any time.
    unpacked: OnceLock<OwnedFd>,
}

#[cfg(feature = "carry")]
macro_rules! carried {
    ($name:literal) => {
        Some(include_bytes!(concat!(env!("OUT_DIR"), "/", $name)).as_slice())
    };
}
#[cfg(not(feature = "carry"))]
macro_rules! carried {
    ($name:literal) => {
        None
    };
}

/// Counts the effects of a program on the caches (`crates/profile-plugin`).
pub static PROFILE: Plugin =
    Plugin::new("libsolocore_qemu.so", "SOLOCORE_PLUGIN", carried!("libsolocore_qemu.so"));
/// Makes a guest a board (`crates/board-plugin`).
pub static BOARD: Plugin = Plugin::new(
    "libsolocore_board_plugin.so",
    "SOLOCORE_BOARD_PLUGIN",
    carried!("libsolocore_board_plugin.so"),
);

impl Plugin {
    const fn new(
        name: &'static str,
        variable: &'static str,
        carried: Option<&'static [u8]>,
    ) -> Self {
        Self { name, variable, carried, unpacked: OnceLock::new() }
    }

    /// The file that the user's variable names, even if it does not exist.
    pub fn named(&self) -> Option<PathBuf> {
        std::env::var_os(self.variable).filter(|name| !name.is_empty()).map(PathBuf::from)
    }

    /// A file that an emulator can load while this process lives.
    ///
    /// # Errors
    /// There is no such file, or the kernel gives no file in memory.
    pub fn find(&self) -> Result<PathBuf, PluginError> {
        let here = std::env::current_exe().ok();
        self.find_from(self.named(), here.as_deref().and_then(Path::parent))
    }

    fn find_from(
        &self,
        named: Option<PathBuf>,
        here: Option<&Path>,
    ) -> Result<PathBuf, PluginError> {
        let mut places: Vec<PathBuf> = named.into_iter().collect();
        if places.is_empty() {
            if let Some(bytes) = self.carried {
                return self.unpack(bytes);
            }
            let relative = ["", "deps", "..", "../lib/solocore"];
            places.extend(
                here.iter().flat_map(|here| relative.map(|dir| here.join(dir).join(self.name))),
            );
        }
        let found = places.iter().find(|path| path.is_file());
        found
            .map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()))
            .ok_or(PluginError::Missing { name: self.name, variable: self.variable })
    }

    fn unpack(&self, bytes: &[u8]) -> Result<PathBuf, PluginError> {
        if self.unpacked.get().is_none() {
            let fd = in_memory(self.name, bytes).map_err(|source| PluginError::Unpack {
                name: self.name,
                variable: self.variable,
                source,
            })?;
            // If two threads come at once, one keeps its file.
            let _ = self.unpacked.set(fd);
        }
        let fd = self.unpacked.get().map_or(-1, AsRawFd::as_raw_fd);
        Ok(format!("/proc/{}/fd/{fd}", std::process::id()).into())
    }
}

/// A file without a place on a disk, which nobody can change any more.
fn in_memory(name: &str, bytes: &[u8]) -> std::io::Result<OwnedFd> {
    // Its code is mapped, never executed as a program, which some machines forbid
    // (vm.memfd_noexec = 2). Kernels before 6.3 do not know this flag.
    let fd = match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?,
        other => other?,
    };
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, all)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_is_whole_and_sealed() {
        let plugin = Plugin::new("a.so", "A", Some(b"\x7fELF and more"));
        let path = plugin.find_from(None, None).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"\x7fELF and more");
        let written = File::options().write(true).open(&path).and_then(|mut f| f.write_all(b"x"));
        assert_eq!(written.unwrap_err().raw_os_error(), Some(Errno::PERM.raw_os_error()));
        let cut = File::options().write(true).truncate(true).open(&path);
        assert_eq!(cut.unwrap_err().raw_os_error(), Some(Errno::PERM.raw_os_error()));
        assert_eq!(plugin.find_from(None, None).unwrap(), path, "it is unpacked once");
    }

    #[test]
    fn carried_comes_after_named_and_before_beside() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib/solocore"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        let alone = Plugin::new("a.so", "A", None);
        let missing = alone.find_from(None, Some(&bin)).unwrap_err().to_string();
        assert!(missing.contains("a.so") && missing.contains("name it in A"), "{missing}");
        std::fs::write(lib.join("a.so"), "").unwrap();
        let installed = lib.join("a.so").canonicalize().unwrap();
        assert_eq!(alone.find_from(None, Some(&bin)).unwrap(), installed);
        std::fs::write(bin.join("a.so"), "").unwrap();
        let beside = bin.join("a.so").canonicalize().unwrap();
        assert_eq!(alone.find_from(None, Some(&bin)).unwrap(), beside);
        let carrying = Plugin::new("a.so", "A", Some(b"\x7fELF"));
        assert!(carrying.find_from(None, Some(&bin)).unwrap().starts_with("/proc"));
        assert_eq!(carrying.find_from(Some(beside.clone()), Some(&bin)).unwrap(), beside);
        carrying.find_from(Some(dir.path().join("none.so")), Some(&bin)).unwrap_err();
    }
}
