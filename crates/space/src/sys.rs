//! System calls that the standard library lacks.

use crate::error::SpaceError;
use crate::map::PAGE;
use crate::room::Memory;
use rustix::fs::MemfdFlags;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, UserfaultfdFlags};
use rustix::thread::CpuSet;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

const FRAME: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;

/// Anonymous memory of this process, unmapped at the end.
#[derive(Debug)]
pub(crate) struct Area {
    start: usize,
    bytes: usize,
}

impl Area {
    /// `bytes` bytes, with a page under each, in huge pages where the kernel has some and `huge`
    /// asks for them.
    pub fn populated(bytes: usize, huge: bool) -> Result<Self, SpaceError> {
        /// Bytes that are not asked about.
        const FEW: usize = 2 << 20;
        // The kernel would kill programs for it before it refuses.
        if bytes > FEW
            && let Ok(memory) = Memory::of(Path::new("/"))
            && bytes as u64 > memory.available
        {
            let (asked, available) = (bytes >> 20, memory.available >> 20);
            return Err(SpaceError::Machine(format!(
                "{asked} MiB of memory are more than the {available} MiB that are available; ask \
                    for less, or end other programs"
            )));
        }
        let area = Self::reserved(bytes)?;
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        let start = area.start as *mut c_void;
        // SAFETY: the area is this object's. A kernel without huge pages refuses, which is
        // sufficient; it writes zeroes to fresh pages.
        let populated = unsafe {
            let _ = rustix::mm::madvise(start, area.bytes, advice);
            rustix::mm::madvise(start, area.bytes, Advice::LinuxPopulateWrite)
        };
        populated.map_err(|e| {
            SpaceError::of_io(
                &format!("{} MiB of memory cannot be obtained", bytes >> 20),
                &e.into(),
                "ask for less, or end other programs (Linux 5.14 is needed)",
            )
        })?;
        Ok(area)
    }

    /// Addresses without pages, aligned to a huge page.
    pub fn reserved(bytes: usize) -> Result<Self, SpaceError> {
        const HUGE: usize = 2 << 20;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let (any, rights) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe { rustix::mm::mmap_anonymous(any, bytes + HUGE, rights, flags) };
        let at = at.map_err(|e| {
            SpaceError::of_io(
                &format!("{} MiB cannot be mapped", bytes >> 20),
                &e.into(),
                "ask for less",
            )
        })?;
        let (at, start) = (at as usize, (at as usize).next_multiple_of(HUGE));
        for (from, to) in [(at, start), (start + bytes, at + bytes + HUGE)] {
            // SAFETY: an end of the mapping above, which no other code uses; an empty one is
            // refused.
            let _ = unsafe { rustix::mm::munmap(from as *mut c_void, to - from) };
        }
        Ok(Self { start, bytes })
    }

    /// First address.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Addresses of pages of the area, as far as it reaches.
    fn range(&self, first: usize, pages: usize) -> (*mut c_void, usize) {
        let first = first.min(self.bytes / PAGE as usize);
        let pages = pages.min(self.bytes / PAGE as usize - first);
        ((self.start + first * PAGE as usize) as *mut c_void, pages * PAGE as usize)
    }

    /// Whether further pages come in huge ones, where the kernel has some.
    pub fn advise_huge(&self, first: usize, pages: usize, huge: bool) {
        let (at, bytes) = self.range(first, pages);
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: the pages are this object's, and the advice does not change their contents. A
        // kernel without huge pages refuses, which is sufficient.
        let _ = unsafe { rustix::mm::madvise(at, bytes, advice) };
    }

    /// Puts a page under each of these addresses; false: the kernel has none.
    pub fn populate(&self, first: usize, pages: usize) -> bool {
        let (at, bytes) = self.range(first, pages);
        for _ in 0..100 {
            // SAFETY: the pages are this object's; the kernel writes zeroes to fresh ones.
            match unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxPopulateWrite) } {
                Ok(()) => return true,
                // A signal, or memory that is just being freed, only delays it.
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Writes to a page that [`Self::populate`] has made, so that it is not all zeroes.
    pub fn mark(&self, page: usize) {
        let (at, bytes) = self.range(page, 1);
        if bytes > 0 {
            // SAFETY: the page is this object's, writable, and there is no reference to it.
            unsafe { at.cast::<u8>().write_volatile(1) };
        }
    }

    /// Splits the huge page that begins at this page into small ones. Advice for a part of it makes
    /// the kernel do so at once; without it, the parts given back would stay with the whole.
    pub fn split(&self, first: usize) {
        let (at, bytes) = self.range(first, 1);
        // SAFETY: the page is this object's, and keeps its contents.
        let _ = unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxCold) };
    }

    /// Memory of a file, shared with all that map it.
    pub fn of_file(file: &File, bytes: usize) -> Result<Self, SpaceError> {
        let (any, rights) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe { rustix::mm::mmap(any, bytes, rights, MapFlags::SHARED, file, 0) };
        let at = at.map_err(|e| {
            SpaceError::of_io("a file in memory cannot be mapped", &e.into(), "free some memory")
        })?;
        Ok(Self { start: at as usize, bytes })
    }

    /// Frees pages that this CPU still has on lists of its own, as it has locked pages that were
    /// given back. The advice, for an area that is not locked, begins with that.
    pub fn settle(&self) {
        self.split(0);
    }

    /// Gives the pages of these addresses back, also locked ones.
    pub fn give_back(&self, first: usize, pages: usize) {
        const DONTNEED_LOCKED: libc::c_int = 24;
        let (at, bytes) = self.range(first, pages);
        if bytes > 0 {
            // SAFETY: the pages are this object's, and their contents are of no use to anybody.
            // Fails only where there is nothing to be given back.
            let _ = unsafe { libc::madvise(at, bytes, DONTNEED_LOCKED) };
        }
    }

    /// Keeps present and later pages from being swapped out, without adding any.
    pub fn lock(&self) -> Result<(), SpaceError> {
        // SAFETY: the area is this object's.
        let locked = unsafe {
            rustix::mm::mlock_with(
                self.start as *mut c_void,
                self.bytes,
                rustix::mm::MlockFlags::ONFAULT,
            )
        };
        locked.map_err(|e| {
            SpaceError::of_io(
                "memory cannot be locked",
                &e.into(),
                "run as root, or raise the limit on locked memory (ulimit -l)",
            )
        })
    }

    /// The blocks of this number of pages that are used, and that are side by side, as areas with
    /// the number of their first page. The rest is unmapped.
    pub fn parts(self, used: &[bool], block: usize) -> Vec<(usize, Self)> {
        let (mut parts, mut at) = (Vec::new(), 0);
        for run in used.chunk_by(|a, b| a == b) {
            let (start, bytes) = self.range(at * block, run.len() * block);
            let part = Self { start: start as usize, bytes };
            if run[0] {
                parts.push((at * block, part));
            } else {
                drop(part);
            }
            at += run.len();
        }
        // Its blocks belong to the parts now, or are gone.
        std::mem::forget(self);
        parts
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the area is this object's, and there is no reference to it any more.
        let _ = unsafe { rustix::mm::munmap(self.start as *mut c_void, self.bytes) };
    }
}

/// Moves a page from one address to another, both within areas of the caller.
pub(crate) fn move_page(from: usize, to: usize) -> io::Result<()> {
    let page = PAGE as usize;
    // The addresses stay reserved: otherwise another thread's mapping could take them.
    let flags = MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP;
    // SAFETY: the caller owns both places; the page at `to` is dropped.
    unsafe { rustix::mm::mremap_fixed(from as *mut c_void, page, page, flags, to as *mut c_void) }?;
    Ok(())
}

/// The frames under the pages of a range of this process.
///
/// # Errors
/// The kernel hides frames from this process (CAP_SYS_ADMIN), or has no pagemap.
pub(crate) fn frames_of(start: usize, pages: usize) -> Result<Vec<u64>, SpaceError> {
    const PATH: &str = "/proc/self/pagemap";
    let file = File::open(PATH).map_err(|e| SpaceError::of_io(PATH, &e, "mount /proc"))?;
    let mut bytes = vec![0; pages * 8];
    let at = start as u64 / PAGE * 8;
    file.read_exact_at(&mut bytes, at)
        .map_err(|e| SpaceError::of_io(PATH, &e, "is the memory there?"))?;
    let entries =
        bytes.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap_or_default()));
    let frames: Vec<u64> = entries.map(|e| if e & PRESENT == 0 { 0 } else { e & FRAME }).collect();
    if frames.contains(&0) {
        return Err(SpaceError::Machine(format!(
            "{PATH} hides the frames from this process; CAP_SYS_ADMIN is needed: run as root"
        )));
    }
    Ok(frames)
}

/// The entries of pages of an area in an open pagemap of this process.
pub(crate) fn entries_of(
    pagemap: &File,
    area: &Area,
    first: usize,
    entries: &mut [u64],
) -> Result<(), SpaceError> {
    let mut bytes = vec![0; entries.len() * 8];
    let at = (area.start as u64 / PAGE + first as u64) * 8;
    pagemap
        .read_exact_at(&mut bytes, at)
        .map_err(|e| SpaceError::of_io("/proc/self/pagemap", &e, "is the memory there?"))?;
    for (entry, word) in entries.iter_mut().zip(bytes.chunks_exact(8)) {
        *entry = u64::from_ne_bytes(word.try_into().unwrap_or_default());
    }
    Ok(())
}

/// The frame of an entry; `None`: no page is present.
pub(crate) fn frame_of(entry: u64) -> Option<u64> {
    (entry & PRESENT != 0).then_some(entry & FRAME)
}

/// Can userfaultfd move pages here?
pub(crate) fn can_move_pages() -> Result<(), SpaceError> {
    const API: libc::c_ulong = 0xc018_aa3f;
    // UFFD_FEATURE_PAGEFAULT_FLAG_WP, UFFD_FEATURE_MOVE.
    let mut api = [0xaau64, 1 | 1 << 16, 0];
    let remedy = "Linux 6.8 or newer with CONFIG_USERFAULTFD is needed, and CAP_SYS_PTRACE";
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
    // SAFETY: no memory is registered with it.
    let fd = unsafe { rustix::mm::userfaultfd(flags) };
    let fd = fd.map_err(|e| SpaceError::of_io("userfaultfd", &e.into(), remedy))?;
    // SAFETY: the kernel reads and writes three words, which live through the call.
    if unsafe { libc::ioctl(fd.as_raw_fd(), API, api.as_mut_ptr()) } != 0 {
        return Err(SpaceError::os("userfaultfd cannot move pages", remedy));
    }
    Ok(())
}

/// A file without a name, with these bytes. Programs that this process starts do not inherit it.
pub(crate) fn memory_file(name: &std::ffi::CStr, bytes: &[u8]) -> Result<File, SpaceError> {
    let remedy = "is /proc/sys/vm/memfd_noexec 2?";
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)
        .map_err(|e| SpaceError::of_io("memfd_create", &e.into(), remedy))?;
    let file = File::from(fd);
    file.write_all_at(bytes, 0)
        .map_err(|e| SpaceError::of_io("a file in memory", &e, "free some memory"))?;
    Ok(file)
}

/// Page ranges of a process that have a page under them: first address, end, and whether it is the
/// kernel's page of zeroes.
pub(crate) fn present_ranges(
    pagemap: &File,
    start: u64,
    end: u64,
) -> io::Result<Vec<(u64, u64, bool)>> {
    // PAGEMAP_SCAN of 12 words; PAGE_IS_PRESENT, PAGE_IS_PFNZERO.
    const SCAN: libc::c_ulong = 0xc060_6610;
    const IS_PRESENT: u64 = 1 << 3;
    const IS_ZERO: u64 = 1 << 5;
    let (mut found, mut at) = (Vec::new(), start);
    while at < end {
        let mut regions = [[0u64; 3]; 256];
        let mut scan = [
            96,
            0,
            at,
            end,
            0,
            regions.as_mut_ptr() as u64,
            regions.len() as u64,
            0,
            0,
            IS_PRESENT,
            0,
            IS_PRESENT | IS_ZERO,
        ];
        // SAFETY: the kernel reads and writes `scan` and `regions`, which live through the call.
        let n = unsafe { libc::ioctl(pagemap.as_raw_fd(), SCAN, scan.as_mut_ptr()) };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        found.extend(regions[..n].iter().map(|r| (r[0], r[1], r[2] & IS_ZERO != 0)));
        if scan[4] <= at {
            break;
        }
        at = scan[4];
    }
    Ok(found)
}

/// The CPU that this thread is on.
pub(crate) fn this_cpu() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX)
}

/// The CPUs that this thread may be on.
pub(crate) fn usable_cpus() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU as u32).filter(|&cpu| set.is_set(cpu as usize)).collect()
}

/// Does something without moving to another CPU.
pub(crate) fn on_this_cpu<T>(act: impl FnOnce() -> T) -> T {
    on_cpu(this_cpu(), act)
}

/// Does something on a CPU, if this thread may go there.
pub(crate) fn on_cpu<T>(cpu: u32, act: impl FnOnce() -> T) -> T {
    let before = rustix::thread::sched_getaffinity(None).ok();
    let mut one = CpuSet::new();
    if (cpu as usize) < CpuSet::MAX_CPU {
        one.set(cpu as usize);
        let _ = rustix::thread::sched_setaffinity(None, &one);
    }
    let done = act();
    if let Some(set) = &before {
        // A CPU that has gone meanwhile leaves this thread where it is.
        let _ = rustix::thread::sched_setaffinity(None, set);
    }
    done
}
