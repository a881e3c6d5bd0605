//! The ring of memory into which the kernel writes the records of events.
//!
//! Rule: the kernel says up to where it wrote (`data_head`), we say up to where we read
//! (`data_tail`); both only grow, and a place in the ring is one of them modulo its size. What does
//! not fit is left out by the kernel, which says how much (`PERF_RECORD_LOST`).
//! Source: perf_event_open(2), "MMAP layout".

use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of data, a power of two: 4 MiB with pages of 4 KiB.
const PAGES: usize = 1024;
/// Places in the first page of the ends of written and read records, and of the data.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

const SET_OUTPUT: libc::c_ulong = 0x2405;
const SET_FILTER: libc::c_ulong = 0x4008_2406;
const ID: libc::c_ulong = 0x8008_2407;

/// Records of an event, and of those that write into its ring.
pub(crate) struct Ring {
    start: *mut u8,
    page: usize,
    bytes: usize,
    read: u64,
}

// SAFETY: the mapping belongs to this value alone until it is dropped.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring for an event.
    ///
    /// # Errors
    /// The kernel gives none: too much memory is locked, or children inherit the event and it is
    /// not bound to a CPU.
    pub fn new(event: &OwnedFd) -> io::Result<Self> {
        // SAFETY: the call only tells a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let bytes = PAGES * page;
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                page + bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event.as_fd(),
                0,
            )
        }?;
        Ok(Self { start: start.cast(), page, bytes, read: 0 })
    }

    /// A number in the first page.
    fn end(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the number lies in the first page, is aligned, and lives as long as the mapping.
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast()) }
    }

    /// Appends all whole records that were written since the last call.
    pub fn take(&mut self, into: &mut Vec<u8>) {
        let head = self.end(HEAD).load(Ordering::Acquire);
        // SAFETY: the data follow the first page. The kernel writes only what was read before
        // `data_tail`, so nothing between the two changes meanwhile.
        let data = unsafe { std::slice::from_raw_parts(self.start.add(self.page), self.bytes) };
        let (first, second) = between(data, self.read, head);
        into.extend_from_slice(first);
        into.extend_from_slice(second);
        self.read = head;
        self.end(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and nobody reads it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.page + self.bytes) };
    }
}

/// What lies between two ends, in a ring: up to its last byte, and from its first one on.
fn between(data: &[u8], tail: u64, head: u64) -> (&[u8], &[u8]) {
    let size = data.len() as u64;
    let length = usize::try_from(head.saturating_sub(tail).min(size)).unwrap_or(0);
    let at = usize::try_from(tail % size.max(1)).unwrap_or(0);
    let first = length.min(data.len() - at);
    (&data[at..at + first], &data[..length - first])
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An event's records go into the ring of another one.
pub(crate) fn write_into(event: &OwnedFd, other: &OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors are open, and the call takes no memory.
    check(unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, other.as_raw_fd()) })
}

/// Limits a tracepoint's event to records that pass the kernel's filter.
pub(crate) fn filter(event: &OwnedFd, text: &str) -> io::Result<()> {
    let text = CString::new(text)?;
    // SAFETY: the text ends with NUL and outlives the call.
    check(unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER, text.as_ptr()) })
}

/// The number by which records name an event.
pub(crate) fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes eight bytes.
    check(unsafe { libc::ioctl(event.as_raw_fd(), ID, &raw mut id) })?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn what_goes_over_the_end_goes_on_at_the_beginning() {
        let data: Vec<u8> = (0..16).collect();
        assert_eq!(between(&data, 4, 8), (&data[4..8], &data[..0]));
        assert_eq!(between(&data, 12, 20), (&data[12..], &data[..4]));
        assert_eq!(between(&data, 16 * 9 + 15, 16 * 10 + 15), (&data[15..], &data[..15]));
        assert_eq!(between(&data, 20, 20), (&data[..0], &data[..0]));
    }
}
