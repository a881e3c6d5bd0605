//! Settings of the kernel's memory that a reserve of frames needs.
//!
//! Problem: compaction moves pages, also locked ones. A reserve would lose its frames to it, and
//! programs in the reserve theirs. The page cache fills frames that nobody needs, and programs get
//! no free block of some sizes.
//! Rule: as long as this lives, locked pages are left where they are
//! (vm.compact_unevictable_allowed). Once the reserve has its frames, the kernel does not compact
//! ahead of time (vm.compaction_proactiveness), nor for blocks of more than eight pages
//! (vm.extfrag_threshold). It could hardly make such blocks: frames of a reserve, which stay, lie
//! in all parts of the memory. The keeper puts these settings back, also after a kill. Dropping
//! clean files and compacting are done once, and leave no setting. Blocks of a size are allowed for
//! a moment. Source: Documentation/admin-guide/sysctl/vm.rst and mm/transhuge.rst of Linux (6.8 and
//! later for blocks below a huge page). Does not cover: movements of pages by memory hot-plug, CMA
//! and gigantic pages; compaction for small blocks.

use super::keeper::Changes;
use crate::error::LinuxError;
use std::io;

/// A setting with its value while a reserve lives.
type Setting = (&'static str, &'static str);
const UNEVICTABLE: Setting = ("/proc/sys/vm/compact_unevictable_allowed", "0");
/// With a threshold of 1000 no lack of a large block counts as one that compaction could end.
const QUIET: [Setting; 2] =
    [("/proc/sys/vm/compaction_proactiveness", "0"), ("/proc/sys/vm/extfrag_threshold", "1000")];
const DROP: &str = "/proc/sys/vm/drop_caches";
const COMPACT: &str = "/proc/sys/vm/compact_memory";

/// Locked pages stay in their frames as long as this lives, and nearly all others.
pub struct Reclaim {
    changes: Changes,
}

impl Reclaim {
    /// From here on locked pages stay.
    ///
    /// # Errors
    /// This process may not.
    pub fn begin() -> Result<Self, LinuxError> {
        let mut all = Self { changes: Changes::begin()? };
        all.set(UNEVICTABLE)?;
        Ok(all)
    }

    /// From here on the kernel compacts for small blocks only.
    ///
    /// # Errors
    /// This process may not.
    pub fn quiet(&mut self) -> Result<(), LinuxError> {
        QUIET.into_iter().try_for_each(|setting| self.set(setting))
    }

    /// Changes a setting. A kernel without it does not compact, or not in that way.
    fn set(&mut self, (path, value): Setting) -> Result<(), LinuxError> {
        match self.changes.set(path, value) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(LinuxError::of_io(path, &e, "run as root")),
            Ok(_) => Ok(()),
        }
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
