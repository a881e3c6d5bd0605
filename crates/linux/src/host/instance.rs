//! One solocore at a time: two would count the same accesses and throttle each other's CPUs.

use crate::error::LinuxError;
use crate::sys;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

const PATH: &str = "/run/solocore.lock";

/// The exclusive right to regulate this machine, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Instance {
    _lock: File,
}

impl Instance {
    /// Takes the right.
    ///
    /// # Errors
    /// Another solocore has it.
    pub fn take() -> Result<Self, LinuxError> {
        Self::at(Path::new(PATH))
    }

    fn at(path: &Path) -> Result<Self, LinuxError> {
        let fail = |e: std::io::Error| {
            LinuxError::of_io(&path.display().to_string(), &e, "run as root, with a writable /run")
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // A process that can open the file can lock it, and so keep every solocore from
            // starting.
            .mode(0o600)
            .open(path)
            .map_err(fail)?;
        file.set_permissions(Permissions::from_mode(0o600)).map_err(fail)?;
        if !sys::try_lock(&file).map_err(fail)? {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            return Err(LinuxError::Machine(format!(
                "another solocore regulates this machine (process {}); stop it first",
                if pid.trim().is_empty() { "unknown" } else { pid.trim() }
            )));
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(fail)?;
        Ok(Self { _lock: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_hears_who_is_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Instance::at(&path).unwrap();
        let error = Instance::at(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(first);
        Instance::at(&path).unwrap();
        assert!(matches!(Instance::at(&dir.path().join("no/lock")), Err(LinuxError::Machine(_))));
    }
}
