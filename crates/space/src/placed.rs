//! Files in memory whose pages lie in chosen frames.
//!
//! Problem: a process can move its own pages only; another process, or a device, gets memory as a
//! file, whose pages are the kernel's to choose. Rule: on one CPU, a held frame goes back to the
//! kernel, and the file's next page is touched. Linux hands out the latest freed frame of a CPU
//! first, so the page gets that frame, which is looked at. A page with another frame goes back, and
//! the next held frame is tried. At the end the pages are locked, which keeps them in place while
//! vm.compact_unevictable_allowed is 0. Source: mc2-os-isolation, section 3.2 (I/O buffers from the
//! list of a task).
//! Does not cover: pages that another process punches out of the file: they come back in any frame.

use crate::error::SpaceError;
use crate::hold::Hold;
use crate::map::{Choice, PAGE};
use crate::sys::{self, Area};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use std::fs::File;

/// Frames that may go to others, for each page and in all, before the kernel is given up.
const STRAYS: [usize; 2] = [4, 256];

/// A file in memory. Its frames are free when this is dropped and no process has the file any more.
#[derive(Debug)]
pub(crate) struct Placed {
    file: File,
    area: Area,
}

impl Placed {
    /// A file of this number of pages, in frames of a choice that the hold gives up for it; `None`:
    /// it holds too few.
    ///
    /// # Errors
    /// There is no memory for it, or the kernel gives other frames than the ones that were freed.
    pub fn new(pages: usize, choice: &Choice, hold: &mut Hold) -> Result<Option<Self>, SpaceError> {
        let wanted = |frame: u64| choice.allows(frame);
        if pages == 0 || hold.frames().filter(|&f| wanted(f)).count() < pages {
            return Ok(None);
        }
        let placed = Self::empty(pages)?;
        let pagemap = pagemap()?;
        let (mut next, mut strays, mut failed) = (0, 0, None);
        hold.hand_over(&wanted, &mut || {
            match placed.touch(&pagemap, next) {
                Ok(frame) if wanted(frame) => next += 1,
                Ok(_) => {
                    strays += 1;
                    failed = placed.punch(next).err();
                }
                Err(error) => failed = Some(error),
            }
            failed.is_none() && next < pages && strays <= STRAYS[0] * pages + STRAYS[1]
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if next < pages {
            return Err(SpaceError::Machine(format!(
                "a buffer: of {pages} pages, {next} got a frame that was freed for them; other \
                    programs were quicker, so ask again"
            )));
        }
        placed.area.lock()?;
        placed.check(&pagemap, pages, choice)?;
        Ok(Some(placed))
    }

    fn empty(pages: usize) -> Result<Self, SpaceError> {
        let remedy = "free some memory, and raise the limit on descriptors (ulimit -n)";
        let failed = |e: rustix::io::Errno| SpaceError::of_io("a buffer", &e.into(), remedy);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create(c"solocore-buffer", flags).map_err(failed)?);
        let bytes = pages * PAGE as usize;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(failed)?;
        // A process with the file could otherwise take pages from under the others.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(failed)?;
        let area = Area::of_file(&file, bytes)?;
        area.advise_huge(0, pages, false);
        Ok(Self { file, area })
    }

    /// Puts a page under an address, and returns its frame.
    fn touch(&self, pagemap: &File, page: usize) -> Result<u64, SpaceError> {
        let mut entry = [0];
        if self.area.populate(page, 1) {
            sys::entries_of(pagemap, &self.area, page, &mut entry)?;
        }
        sys::frame_of(entry[0]).ok_or_else(|| {
            SpaceError::Machine("a buffer: the kernel has no page for it; free some memory".into())
        })
    }

    /// Gives a page of the file back.
    fn punch(&self, page: usize) -> Result<(), SpaceError> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, page as u64 * PAGE, PAGE).map_err(|e| {
            SpaceError::of_io("a page of a buffer", &e.into(), "use Linux 3.5 or newer")
        })
    }

    /// Checks the frames once the pages are locked: the kernel may have moved some before.
    fn check(&self, pagemap: &File, pages: usize, choice: &Choice) -> Result<(), SpaceError> {
        let mut entries = vec![0; pages];
        sys::entries_of(pagemap, &self.area, 0, &mut entries)?;
        let right = |&&e: &&u64| sys::frame_of(e).is_some_and(|frame| choice.allows(frame));
        let wrong = pages - entries.iter().filter(right).count();
        if wrong > 0 {
            return Err(SpaceError::Machine(format!(
                "a buffer: the kernel moved {wrong} of {pages} pages before they were locked; ask \
                    again"
            )));
        }
        Ok(())
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.area.bytes()
    }
}

fn pagemap() -> Result<File, SpaceError> {
    let path = "/proc/self/pagemap";
    File::open(path).map_err(|e| SpaceError::of_io(path, &e, "mount /proc"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;
    use crate::sys::on_this_cpu;
    use std::os::unix::fs::FileExt;

    /// Frames are shown to root only, and taken where enough memory is free.
    fn hold() -> Option<(Hold, Choice)> {
        let map =
            Map { colours: (12..16).map(|b| 1 << b).collect(), banks: vec![], slices: Vec::new() };
        let choice = |colours: &[u32]| Choice::new(&map, Some(colours), None).expect("valid");
        let mut hold = match Hold::new(choice(&[0, 1, 2, 3])) {
            Ok(hold) => hold,
            Err(SpaceError::Machine(why)) if why.contains("CAP_SYS_ADMIN") => return None,
            Err(other) => panic!("{other}"),
        };
        let pass = hold.pass(64 << 20, &|| false).expect("taken");
        (pass.kept > 2000).then(|| (hold, choice(&[2, 3])))
    }

    #[test]
    fn a_file_lies_in_frames_of_its_choice() {
        let Some((mut hold, choice)) = hold() else { return };
        let held = hold.held();
        let placed = on_this_cpu(|| Placed::new(300, &choice, &mut hold)).expect("made");
        let placed = placed.expect("there are enough");
        assert_eq!(placed.bytes(), 300 * 4096);
        let mut entries = vec![0; 300];
        sys::entries_of(&pagemap().expect("shown"), &placed.area, 0, &mut entries).expect("read");
        assert!(entries.iter().all(|&e| sys::frame_of(e).is_some_and(|f| choice.allows(f))));
        // Nearly each frame that was given up became a page of the file.
        assert!((300..400).contains(&(held - hold.held())), "{} of {held}", hold.held());
        assert_eq!(hold.frames().count() as u64, hold.held());
        // Others see what is written, and cannot change the size.
        placed.file().write_all_at(b"frame", 4096).expect("written");
        // SAFETY: the page is mapped, and nobody else writes to it.
        let seen =
            unsafe { std::slice::from_raw_parts((placed.area.start() + 4096) as *const u8, 5) };
        assert_eq!(seen, b"frame");
        assert!(placed.file().set_len(0).is_err());
    }

    #[test]
    fn too_few_frames_are_none() {
        let Some((mut hold, choice)) = hold() else { return };
        let all = hold.frames().filter(|&f| choice.allows(f)).count();
        assert!(Placed::new(all + 1, &choice, &mut hold).expect("looked").is_none());
        assert!(Placed::new(0, &choice, &mut hold).expect("looked").is_none());
        assert_eq!(hold.frames().filter(|&f| choice.allows(f)).count(), all, "none was given up");
    }
}
