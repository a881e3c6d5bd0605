//! Translation: a buffer of pages for each core, and the reads of page tables that its misses make.
//!
//! Rule, as on the virtual board: each load, store and prefetch of a program that runs through the
//! private caches looks its virtual page up, in a buffer of least recent use
//! (`solocore_cache::translation`). A miss reads the entry of the last level of the page table
//! through the first data cache and all levels below it, and the access waits for the entry. The
//! entries of a program lie in the frames that [`Space::tables`] names, in the order of its pages,
//! and are cached like its data. The buffer is emptied when another program comes, unless its
//! entries have marks of address spaces. A hit costs nothing.
//! Not covered: fetches of instructions (the board walks for none either); upper levels (the board
//! remembers the last 32 entries, which are all that 64 MiB need); large pages; writes of accessed
//! and dirty bits.

use super::config::MachineError;
use super::core::{MachineCore, Stop};
use super::key::Kinds;
use super::{DmaSpec, Layout, MachineConfig};
use crate::program::{Entry, OpKind, PageKind, Program, Space};

impl MachineCore {
    /// Reads the entry of a page that the buffer does not have; its line is `key`. The core waits
    /// for it as it does for an instruction, and no prefetcher follows it.
    #[cold]
    #[inline(never)]
    pub(super) fn walk(&mut self, page: u64, key: u64) -> Option<Stop> {
        self.translation.as_mut()?.insert(page);
        let looked = self.l1d.access(key, false);
        self.pending_count = 0;
        self.then_wait = None;
        if looked.hit {
            return if self.mshrs.busy == 0 { None } else { self.join(OpKind::Fetch, key) };
        }
        self.miss_pending(OpKind::Fetch, key, looked.victim, false)
    }
}

/// The line of the page table's entry of each page, as a key; empty without translation.
pub(super) fn entries(
    config: &MachineConfig,
    kinds: Kinds,
    (program, space): (&dyn Program, &Space),
) -> Vec<u64> {
    let Some(translation) = config.translation.filter(|_| program.entry() == Entry::Private) else {
        return Vec::new();
    };
    let line = config.llc.line.0;
    let key = |page: u32| {
        let at = u64::from(page) * translation.entry.0;
        let frame = space.tables[usize::try_from(at / config.page).unwrap_or(usize::MAX)];
        kinds.key((frame * config.page + at % config.page) / line, PageKind::Cached)
    };
    (0..program.pages()).map(key).collect()
}

/// Checks that each program has the frames of its page table, and that nothing else uses them: they
/// are read in no order of time.
pub(super) fn check_tables(
    config: &MachineConfig,
    layout: &Layout,
    programs: &[(Box<dyn Program>, Space)],
    devices: &[DmaSpec],
) -> Result<(), MachineError> {
    let Some(translation) = config.translation else { return Ok(()) };
    let data = programs.iter().flat_map(|(_, space)| &space.frames);
    let mut used: Vec<u64> = data.chain(devices.iter().flat_map(|d| &d.frames)).copied().collect();
    used.sort_unstable();
    for (index, (program, space)) in programs.iter().enumerate() {
        let fail = |message: String| Err(MachineError::Program { program: index, message });
        let wanted = translation.tables(program.pages(), config.page);
        if program.entry() != Entry::Private {
            continue;
        }
        if space.tables.len() < wanted as usize {
            return fail(format!(
                "{} frames for its page table; its {} pages need {wanted}",
                space.tables.len(),
                program.pages()
            ));
        }
        let taken = |f: &&u64| **f >= layout.frames() || used.binary_search(f).is_ok();
        if let Some(frame) = space.tables.iter().find(taken) {
            return fail(format!(
                "page frame {frame} of its page table is used as data or beyond the memory; give \
                    one of its own"
            ));
        }
    }
    Ok(())
}
