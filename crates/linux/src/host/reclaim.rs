//! Settings of the kernel's memory that a reserve of frames needs.
//!
//! Problem: compaction moves pages, also locked ones, and a reserve would lose its frames to it;
//! the page cache fills frames that nobody needs, and programs get no free block of some sizes.
//! Rule: locked pages are left where they are as long as this lives
//! (vm.compact_unevictable_allowed; the keeper puts it back, also after a kill). Dropping clean
//! files and compacting are done once, and leave no setting. Blocks of a size are allowed for a
//! moment. Source: Documentation/admin-guide/sysctl/vm.rst and mm/transhuge.rst of Linux (6.8 and
//! later for blocks below a huge page). Does not cover: movements of pages by memory hot-plug, CMA
//! and gigantic pages.

use super::keeper::Changes;
use crate::error::LinuxError;
use std::io;

const UNEVICTABLE: &str = "/proc/sys/vm/compact_unevictable_allowed";
const DROP: &str = "/proc/sys/vm/drop_caches";
const COMPACT: &str = "/proc/sys/vm/compact_memory";

/// Locked pages stay in their frames as long as this lives.
pub struct Reclaim {
    changes: Changes,
}

impl Reclaim {
    /// Changes the setting.
    ///
    /// # Errors
    /// This process may not, or the kernel has no such setting: then it cannot compact either.
    pub fn begin() -> Result<Self, LinuxError> {
        let mut changes = Changes::begin()?;
        match changes.set(UNEVICTABLE, "0") {
            // A kernel without compaction.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(LinuxError::of_io(UNEVICTABLE, &e, "run as root")),
            Ok(_) => {}
        }
        Ok(Self { changes })
    }

    /// Writes files to their disks, and drops those that no program has mapped from memory, with
    /// the kernel's notes on them.
    ///
    /// # Errors
    /// This process may not.
    pub fn drop_files(&self) -> Result<(), LinuxError> {
        rustix::fs::sync();
        let done = self.changes.set_without_way_back(DROP, "3");
        done.map_err(|e| LinuxError::of_io(DROP, &e, "run as root"))
    }

    /// Lets programs that ask for huge pages have blocks of this size, does this, and puts the
    /// setting back; `None`: this kernel has no such blocks, or gives them without it.
    ///
    /// # Errors
    /// This process may not.
    pub fn with_blocks<T>(
        &mut self,
        kib: u64,
        body: impl FnOnce() -> T,
    ) -> Result<Option<T>, LinuxError> {
        let path = format!("/sys/kernel/mm/transparent_hugepage/hugepages-{kib}kB/enabled");
        if !std::fs::read_to_string(&path).is_ok_and(|text| text.contains("[never]")) {
            return Ok(None);
        }
        let done = self.changes.set_during(&path, "madvise", "never", body);
        done.map(Some).map_err(|e| LinuxError::of_io(&path, &e, "run as root"))
    }

    /// Moves the pages of programs and files together; returns whether the kernel can.
    ///
    /// # Errors
    /// This process may not.
    pub fn compact(&self) -> Result<bool, LinuxError> {
        match self.changes.set_without_way_back(COMPACT, "1") {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(LinuxError::of_io(COMPACT, &e, "run as root")),
            Ok(()) => Ok(true),
        }
    }
}
