//! The system calls that the standard library lacks. All of this crate's `unsafe` is here and
//! below, for calls that rustix lacks as well.

pub(crate) mod accounts;
pub(crate) mod heap;
pub(crate) mod latest;
pub(crate) mod ring;
pub(crate) mod stores;

pub(crate) mod tasks;

pub(crate) mod seqpacket;

pub(crate) use tasks::Scheduling;

use crate::error::LinuxError;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The first 72 bytes of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER1`), which every kernel knows
/// from 2.6.33 on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerfAttr {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub sample_period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub wakeup_events: u32,
    pub breakpoint: u32,
    pub config1: u64,
    pub config2: u64,
}

/// Flag of an event that starts switched off.
pub(crate) const PERF_DISABLED: u64 = 1;
/// Flag of an event that the children of the counted thread inherit.
pub(crate) const PERF_INHERIT: u64 = 1 << 1;
/// Flag of an event that is switched on as the program begins.
pub(crate) const PERF_ON_EXEC: u64 = 1 << 12;
/// Flag of an event that is always on the counter, or in error.
pub(crate) const PERF_PINNED: u64 = 1 << 2;
/// Flags of an event whose ring gets a record of each mapping: of code (`mmap`), of data
/// (`mmap_data`), with the protection (`mmap2`).
pub(crate) const PERF_MAPPINGS: u64 = 1 << 8 | 1 << 17 | 1 << 23;
/// Flags of an event whose ring gets a record of each process that becomes another program.
pub(crate) const PERF_NAMES: u64 = 1 << 9 | 1 << 24;
/// Place in the flags of the precision of samples: 0 to 3, where 2 is no distance to the
/// instruction.
pub(crate) const PERF_PRECISE_SHIFT: u32 = 15;
/// Flag of an event that leaves out the kernel's work.
pub(crate) const PERF_EXCLUDE_KERNEL: u64 = 1 << 5;

/// Subject of an event's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// Everything on a CPU.
    Cpu(u32),
    /// The calling thread.
    Me,
    /// A process with a single thread so far, on any CPU.
    Process(u32),
    /// The same process while it is on this CPU. An event that children inherit has a ring of
    /// records only if it is bound to a CPU.
    ProcessOn(u32, u32),
}

/// `perf_event_open`.
pub(crate) fn perf_open(attr: &PerfAttr, whom: Whom) -> io::Result<OwnedFd> {
    perf_open_beside(attr, whom, None)
}

/// As [`perf_open`], in the group of another event: both count in the same stretches of time.
pub(crate) fn perf_open_beside(
    attr: &PerfAttr,
    whom: Whom,
    leader: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    let mut attr = *attr;
    attr.size = u32::try_from(size_of::<PerfAttr>()).unwrap_or(72);
    let number =
        |n: u32| i32::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (pid, cpu) = match whom {
        Whom::Cpu(cpu) => (-1, number(cpu)?),
        Whom::Me => (0, -1),
        Whom::Process(pid) => (number(pid)?, -1),
        Whom::ProcessOn(pid, cpu) => (number(pid)?, number(cpu)?),
    };
    let leader = leader.map_or(-1, AsRawFd::as_raw_fd);
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: `attr` lives through the call and says its size; the kernel only reads it.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, pid, cpu, leader, CLOSE_ON_EXEC)
    };
    owned(fd)
}

/// The count of an event.
pub(crate) fn perf_read(event: &OwnedFd) -> io::Result<u64> {
    let mut bytes = [0; 8];
    let mut file = File::from(event.try_clone()?);
    io::Read::read_exact(&mut file, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Read format for [`perf_read_timed`].
pub(crate) const PERF_READ_TIMED: u64 = 1 | 2;

/// The count of an event, and whether it counted during its whole enabled time.
pub(crate) fn perf_read_timed(event: &OwnedFd) -> io::Result<(u64, bool)> {
    let mut bytes = [0; 24];
    let mut file = File::from(event.try_clone()?);
    io::Read::read_exact(&mut file, &mut bytes)?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    Ok((word(0), word(8) == word(16)))
}

/// Read format for [`perf_read_group`], for the leader.
pub(crate) const PERF_READ_GROUP: u64 = 1 | 2 | 8;

/// Enabled time and running time of a group (both in ns), and the counts of its events.
pub(crate) fn perf_read_group(leader: &OwnedFd, events: usize) -> io::Result<(u64, u64, Vec<u64>)> {
    let mut bytes = vec![0; 8 * (3 + events)];
    let mut file = File::from(leader.try_clone()?);
    io::Read::read_exact(&mut file, &mut bytes)?;
    let mut words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .skip(1);
    let (enabled, running) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    Ok((enabled, running, words.collect()))
}

/// The same of a group that was opened with `PERF_FORMAT_ID` as well: whether it counted all the
/// time, and pairs of an event's number and its count.
pub(crate) fn perf_read_numbered(
    leader: &OwnedFd,
    events: usize,
) -> io::Result<(bool, Vec<(u64, u64)>)> {
    let (enabled, running, words) = perf_read_group(leader, 2 * events)?;
    let counts = words.chunks_exact(2).map(|pair| (pair[1], pair[0])).collect();
    Ok((enabled == running, counts))
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: a system call has just returned this descriptor, and no other code has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Binds the calling thread to a CPU.
pub(crate) fn pin_to(cpu: u32) -> io::Result<()> {
    tasks::bind(0, &[cpu])
}

/// Calls a function on a CPU, if the thread may go there, and returns to the old CPUs. Opening and
/// closing a CPU's events on that CPU spares the kernel an interrupt to it, for which it would wait
/// in a busy loop.
pub(crate) fn on_cpu<T>(cpu: u32, what: impl FnOnce() -> T) -> T {
    match pinned(cpu) {
        Ok(back) => {
            let result = what();
            back();
            result
        }
        Err(_) => what(),
    }
}

/// Goes to a CPU. Returns the way back to the old CPUs, which are allowed again.
fn pinned(cpu: u32) -> io::Result<impl FnOnce()> {
    let before = sched_getaffinity(None)?;
    pin_to(cpu)?;
    Ok(move || {
        let _ = sched_setaffinity(None, &before);
    })
}

/// Calls a function on a CPU, and returns to the old CPUs.
///
/// # Errors
/// The thread may not go there; the function is not called.
pub(crate) fn only_on_cpu<T>(cpu: u32, what: impl FnOnce() -> T) -> io::Result<T> {
    let back = pinned(cpu)?;
    let result = what();
    back();
    Ok(result)
}

/// Ignores signals that ask a process to end, from now on.
pub(crate) fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: ignoring a signal installs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Takes an exclusive lock on an open file; `Ok(false)` if another process has it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

/// A directory handle on a private debugfs, which is not mounted anywhere; it exists as long as the
/// handle.
pub(crate) fn debugfs() -> io::Result<OwnedFd> {
    mounted_nowhere(c"debugfs")
}

/// The same of tracefs.
pub(crate) fn tracefs() -> io::Result<OwnedFd> {
    mounted_nowhere(c"tracefs")
}

fn mounted_nowhere(kind: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let (flags, attributes) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
    Ok(rustix::mount::fsmount(context.as_fd(), flags, attributes)?)
}

/// Opens a file below a directory handle.
pub(crate) fn open_at(dir: &impl AsFd, path: &str, write: bool) -> io::Result<File> {
    let how = if write { OFlags::WRONLY | OFlags::TRUNC } else { OFlags::RDONLY };
    Ok(rustix::fs::openat(dir, path, how | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// An array map, mapped for reading.
pub(crate) struct Mapped {
    start: *const u8,
    length: usize,
}

// SAFETY: the mapping is used through atomics only, and lives until it is dropped.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `length` bytes.
    pub fn new(map: &impl AsFd, length: usize) -> Result<Self, LinuxError> {
        Self::with(map, length, ProtFlags::READ)
    }

    fn with(map: &impl AsFd, length: usize, may: ProtFlags) -> Result<Self, LinuxError> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, may, flags, map, 0) };
        let start = start.map_err(|e| {
            LinuxError::of_io(
                "the counts of the CPUs cannot be mapped",
                &e.into(),
                "free some memory",
            )
        })?;
        Ok(Self { start: start.cast_const().cast(), length })
    }

    /// The present 32-bit word at this offset; 0 beyond the end.
    pub fn word(&self, at: usize) -> u32 {
        if !at.is_multiple_of(4) || at + 4 > self.length {
            return 0;
        }
        // SAFETY: the word lies within the mapping, is aligned, and is written by the kernel's
        // programs only.
        unsafe { AtomicU32::from_ptr(self.start.add(at).cast_mut().cast()) }.load(Ordering::Relaxed)
    }

    /// The 64-bit word at this offset; everything that was written before it is visible, too. 0
    /// beyond the end.
    pub fn double_word(&self, at: usize) -> u64 {
        if !at.is_multiple_of(8) || at + 8 > self.length {
            return 0;
        }
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast_mut().cast()) }.load(Ordering::Acquire)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and no code reads it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.cast_mut().cast(), self.length) };
    }
}

/// An array map, mapped for reading and for stores of single words.
pub(crate) struct MappedWords(Mapped);

impl MappedWords {
    /// Maps `length` bytes.
    pub fn new(map: &impl AsFd, length: usize) -> Result<Self, LinuxError> {
        Mapped::with(map, length, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    /// As [`Mapped::word`].
    pub fn word(&self, at: usize) -> u32 {
        self.0.word(at)
    }

    /// As [`Mapped::double_word`].
    pub fn double_word(&self, at: usize) -> u64 {
        self.0.double_word(at)
    }

    /// Stores a 64-bit word at this offset; everything that was stored before it is visible first.
    /// Nothing beyond the end.
    pub fn store(&self, at: usize, value: u64) {
        if !at.is_multiple_of(8) || at + 8 > self.0.length {
            return;
        }
        // SAFETY: the word lies within the mapping, which may be written, and is aligned. The
        // kernel's programs change it by whole words as well.
        unsafe { AtomicU64::from_ptr(self.0.start.add(at).cast_mut().cast()) }
            .store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_size_that_every_kernel_knows() {
        assert_eq!(size_of::<PerfAttr>(), 72);
    }

    /// The kernel gives no bytes of a pinned event in error, and a count of zero is another answer.
    #[test]
    fn an_event_in_error_has_no_count() {
        let event = OwnedFd::from(File::open("/dev/null").unwrap());
        let refused = |result: io::Result<u64>| result.unwrap_err().kind();
        assert_eq!(refused(perf_read(&event)), io::ErrorKind::UnexpectedEof);
        let timed = perf_read_timed(&event).map(|(count, _)| count);
        assert_eq!(refused(timed), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_lock_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = File::create(&path).unwrap();
        let second = File::create(&path).unwrap();
        assert!(try_lock(&first).unwrap());
        assert!(!try_lock(&second).unwrap());
        drop(first);
        assert!(try_lock(&second).unwrap());
    }
}
