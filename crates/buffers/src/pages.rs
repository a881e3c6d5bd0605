//! Sources of pages.

use crate::BufferError;
use rustix::mm::{MapFlags, ProtFlags};
use std::any::Any;
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A page.
pub const PAGE: usize = 4096;
/// A huge page.
pub const HUGE: usize = 2 << 20;

const RIGHTS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// MC2's lists of free pages (mc2-os-isolation, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Levels A and B of a core.
    Core(u32),
    /// Level C and all other programs.
    LevelC,
}

/// Memory that is available without taking it from other programs, bytes; `None`: the kernel does
/// not give it.
fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// A source of pages: ordinary ones, or a coloured pool.
pub trait Frames {
    /// `bytes` bytes, rounded up to whole pages, which are resident and stay where they are.
    ///
    /// # Errors
    /// The list is empty, or the machine gives no memory.
    fn frames(&self, list: List, bytes: usize) -> Result<Mapping, BufferError>;

    /// Do the lists mean anything?
    fn placed(&self) -> bool;
}

/// Any pages of the kernel: no list is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyFrames;

impl Frames for AnyFrames {
    fn frames(&self, _: List, bytes: usize) -> Result<Mapping, BufferError> {
        let mapping = Mapping::new(bytes)?;
        mapping.pin()?;
        Ok(mapping)
    }

    fn placed(&self) -> bool {
        false
    }
}

/// Pages of memory, from a page's beginning on; zero at first.
pub struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
    /// Owner that gets the pages back when this is dropped; `None`: they are unmapped here.
    owner: Option<Box<dyn Any + Send>>,
}

// SAFETY: it is memory that this value alone hands out.
unsafe impl Send for Mapping {}
// SAFETY: shared references only read it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Ordinary pages.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(bytes: usize) -> Result<Self, BufferError> {
        Self::map(bytes, MapFlags::empty())
    }

    /// Ordinary pages that come as they are touched, each by a page fault.
    ///
    /// # Errors
    /// There is no memory.
    pub fn untouched(bytes: usize) -> Result<Self, BufferError> {
        Self::map_with(bytes, MapFlags::PRIVATE)
    }

    /// Huge pages, which must have been set aside.
    ///
    /// # Errors
    /// There are not enough huge pages.
    pub fn huge(bytes: usize) -> Result<Self, BufferError> {
        Self::map(bytes.next_multiple_of(HUGE), MapFlags::HUGETLB).map_err(|_| {
            BufferError::Machine(format!(
                "there are no {} free huge pages of 2 MiB; set some aside: sysctl \
                    vm.nr_hugepages={0}",
                bytes.div_ceil(HUGE)
            ))
        })
    }

    /// Ordinary memory that the kernel is asked to put into huge pages of 2 MiB; it begins at a
    /// multiple of that. Only smaps shows whether the kernel does so.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn advised(bytes: usize) -> Result<Self, BufferError> {
        let bytes = bytes.max(1).next_multiple_of(HUGE);
        let raw = Self::map_with(bytes + HUGE, MapFlags::PRIVATE)?;
        let (first, end) = (raw.at.as_ptr(), raw.bytes);
        let skip = first.addr().next_multiple_of(HUGE) - first.addr();
        std::mem::forget(raw);
        // SAFETY: both ends belong to the mapping above, whose only owner was forgotten.
        unsafe {
            let _ = rustix::mm::munmap(first.cast(), skip);
            let rest = first.add(skip + bytes);
            let _ = rustix::mm::munmap(rest.cast(), end - skip - bytes);
        }
        // SAFETY: it lies within the mapping, so it is not zero.
        let at = unsafe { NonNull::new_unchecked(first.add(skip)) };
        let mut mapping = Self { at, bytes, owner: None };
        // SAFETY: the range is this mapping's. A kernel without huge pages refuses, which smaps
        // shows.
        let _ = unsafe {
            rustix::mm::madvise(at.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage)
        };
        for page in mapping.chunks_mut(PAGE) {
            page[0] = 0;
        }
        Ok(mapping)
    }

    fn map(bytes: usize, flags: MapFlags) -> Result<Self, BufferError> {
        Self::map_with(bytes, MapFlags::PRIVATE | MapFlags::POPULATE | flags)
    }

    fn map_with(bytes: usize, flags: MapFlags) -> Result<Self, BufferError> {
        let bytes = bytes.checked_next_multiple_of(PAGE).filter(|&b| b > 0).ok_or_else(|| {
            BufferError::Input(format!(
                "a buffer of {bytes} bytes is impossible; give at least one"
            ))
        })?;
        // The kernel promises more memory than it has, and kills a program when the memory is used.
        if let Some(available) = available().filter(|&a| bytes > a) {
            return Err(BufferError::Machine(format!(
                "{} of memory are more than the {} that are available; ask for less, or free some",
                mebibytes(bytes),
                mebibytes(available)
            )));
        }
        // SAFETY: a new mapping touches no memory in use.
        let at = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, RIGHTS, flags) };
        let what = format!("{} of memory", mebibytes(bytes));
        Self::at(at, bytes, &what, "ask for less, or free some")
    }

    /// The mapping at the address of the kernel's answer.
    fn at(
        at: rustix::io::Result<*mut c_void>,
        bytes: usize,
        what: &str,
        remedy: &str,
    ) -> Result<Self, BufferError> {
        let at = at.map_err(|e| BufferError::io(what, &e.into(), remedy))?;
        // A mapping never begins at zero here.
        let at = NonNull::new(at.cast())
            .ok_or_else(|| BufferError::Machine("memory at 0; try again".to_owned()))?;
        Ok(Self { at, bytes, owner: None })
    }

    /// Memory that a device offers, like a pseudo-locked region.
    ///
    /// # Errors
    /// The device cannot be opened or mapped. A pseudo-locked region can only be mapped by a thread
    /// that may run on its cache's CPUs alone.
    pub fn of_device(path: &std::path::Path, bytes: usize) -> Result<Self, BufferError> {
        let shown = path.display().to_string();
        let remedy = "run as root, on CPUs of that cache only";
        let file = std::fs::File::options().read(true).write(true).open(path);
        let file = file.map_err(|e| BufferError::io(&shown, &e, remedy))?;
        let bytes = bytes.next_multiple_of(PAGE);
        // SAFETY: a new mapping touches no memory in use; it outlives the descriptor.
        let at = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, RIGHTS, MapFlags::SHARED, &file, 0)
        };
        Self::at(at, bytes, &shown, remedy)
    }

    /// Pages of an owner that gets them back when this is dropped.
    ///
    /// # Safety
    /// They are mapped for reading and writing, and no other code touches them while this lives.
    ///
    /// # Errors
    /// They do not begin at a page boundary.
    pub unsafe fn of(
        at: NonNull<u8>,
        bytes: usize,
        owner: Box<dyn Any + Send>,
    ) -> Result<Self, BufferError> {
        if !at.as_ptr().addr().is_multiple_of(PAGE) || bytes == 0 {
            return Err(BufferError::Input(
                "a buffer must begin at the beginning of a page and have pages; give page-aligned \
                memory"
                    .to_owned(),
            ));
        }
        Ok(Self { at, bytes, owner: Some(owner) })
    }

    /// Pins the pages in memory, so that they stay where they are.
    ///
    /// # Errors
    /// The limit of locked memory is exceeded.
    pub fn pin(&self) -> Result<(), BufferError> {
        // SAFETY: the range is this mapping's.
        let pinned = unsafe { rustix::mm::mlock(self.at.as_ptr().cast(), self.bytes) };
        pinned.map_err(|e| {
            BufferError::io(
                &format!("{} bytes cannot be kept in memory", self.bytes),
                &e.into(),
                "raise the limit (ulimit -l), or run as root",
            )
        })
    }

    /// Pages 0 to n, by their addresses.
    #[must_use]
    pub fn page(&self, number: usize) -> Option<&[u8]> {
        self.get(number * PAGE..(number + 1) * PAGE)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the pages are mapped as long as this lives, and were zero when they were made.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and there is no other reference.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.owner.is_none() {
            // SAFETY: this mapping was made here, and there is no reference any more.
            let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
        }
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({:p}, {} bytes)", self.at, self.bytes)
    }
}

/// A number of bytes for people, in MiB, rounded up.
fn mebibytes(bytes: usize) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn pages_are_whole_zero_and_writable() {
        let mut pages = AnyFrames.frames(List::Core(1), 5000).unwrap();
        assert_eq!((pages.len(), pages.as_ptr().addr() % PAGE), (8192, 0));
        assert!(pages.iter().all(|&b| b == 0) && !AnyFrames.placed());
        pages[8191] = 7;
        assert_eq!(pages.page(1).map(|p| p[4095]), Some(7));
        assert!(pages.page(2).is_none());
        for bytes in [0, usize::MAX] {
            assert!(Mapping::new(bytes).unwrap_err().to_string().contains(';'), "{bytes}");
        }
    }

    struct Owner(Arc<AtomicBool>);

    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn somebodys_pages_go_back() {
        let (mut pages, back) = (Mapping::new(PAGE).unwrap(), Arc::new(AtomicBool::new(false)));
        let at = NonNull::new(pages.as_mut_ptr()).unwrap();
        // SAFETY: `pages` lives longer and is not touched meanwhile.
        let borrowed =
            unsafe { Mapping::of(at, PAGE, Box::new(Owner(Arc::clone(&back)))) }.unwrap();
        assert_eq!(borrowed.len(), PAGE);
        assert!(!back.load(Ordering::SeqCst));
        drop(borrowed);
        assert!(back.load(Ordering::SeqCst));
        pages[0] = 1;
        // SAFETY: it is refused.
        let odd = unsafe { Mapping::of(at.add(64), PAGE, Box::new(())) };
        assert!(odd.unwrap_err().to_string().contains("page-aligned"));
    }
}
