//! Message queues in shared memory, with buffers in the places that the plan wants: the Rust
//! binding of `client/c/solocore_ipc.h`.
//!
//! Rule: a queue lies in [`Shared`] memory, which processes that were forked from this one share,
//! or processes with its descriptor. There is one [`Receiver`], and one [`Sender`] for each lane.
//! Sending and receiving never wait.
//!
//! ```
//! use solocore_client::queue::{Place, Receiver, Sender, Shape, Shared};
//! let memory = Shared::new(&Shape { lanes: 1, slots: 8, message_bytes: 256 }, Place::Cached).unwrap();
//! let (mut sender, mut receiver) = (Sender::open(&memory).unwrap(), Receiver::open(&memory).unwrap());
//! sender.send(b"frame 1").unwrap();
//! let mut message = [0; 256];
//! assert_eq!(receiver.receive(&mut message).unwrap(), Some(7));
//! assert_eq!(receiver.receive(&mut message).unwrap(), None);
//! ```
//!
//! Does not cover: the same cases as `solocore_ipc.h`.

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

const RIGHTS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// `struct sc_queue`.
#[repr(C)]
#[derive(Debug)]
struct Side {
    memory: *mut u8,
    numbers: [u32; 8],
    owner: u64,
    other: u64,
}

unsafe extern "C" {
    fn sc_queue_bytes(lanes: c_uint, slots: c_uint, message_bytes: usize) -> usize;
    fn sc_queue_create(
        at: *mut c_void,
        size: usize,
        lanes: c_uint,
        slots: c_uint,
        bytes: usize,
        place: c_uint,
    ) -> c_int;
    fn sc_queue_open_sender(side: *mut Side, at: *mut c_void, size: usize) -> c_int;
    fn sc_queue_open_receiver(side: *mut Side, at: *mut c_void, size: usize) -> c_int;
    fn sc_queue_send(side: *mut Side, data: *const c_void, length: usize) -> c_int;
    fn sc_queue_peek(
        side: *mut Side,
        data: *mut c_void,
        capacity: usize,
        length: *mut usize,
    ) -> c_int;
    fn sc_queue_done(side: *mut Side) -> c_int;
    fn sc_queue_count(side: *const Side) -> u64;
    fn sc_queue_close(side: *mut Side);
    fn sc_strqueue(status: c_int) -> *const c_char;
}

/// Reason why a call did nothing.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The receiver has to take messages first.
    #[error("{}", text(2))]
    Full,
    /// The message is too long for the queue, or for the receiver's memory, which needs this number
    /// of bytes.
    #[error("{} ({} bytes)", text(3), .0)]
    TooLong(usize),
    /// Another status of `enum sc_queue_status`.
    #[error("{}", text(*.0))]
    Status(i32),
    /// There is no memory.
    #[error("shared memory: {0}; ask for less, or free some")]
    Memory(#[from] io::Error),
}

fn text(status: i32) -> &'static str {
    // SAFETY: for every number the function returns a string that lives for ever.
    unsafe { CStr::from_ptr(sc_strqueue(status)) }.to_str().unwrap_or("no text")
}

fn result(status: c_int) -> Result<(), QueueError> {
    match status {
        0 => Ok(()),
        2 => Err(QueueError::Full),
        other => Err(QueueError::Status(other)),
    }
}

/// Treatment of the lines of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Ordinary accesses.
    Cached = 0,
    /// Accesses past the caches (SBP).
    Bypass = 1,
    /// Ordinary accesses to locked pages (CL).
    Locked = 2,
}

/// Size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Maximum number of senders at a time.
    pub lanes: u32,
    /// Maximum number of waiting messages of each sender: a power of two.
    pub slots: u32,
    /// Length of the longest message, bytes.
    pub message_bytes: usize,
}

impl Shape {
    /// Size of its memory in bytes; `None`: the shape is impossible.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        // SAFETY: the function only computes.
        Some(unsafe { sc_queue_bytes(self.lanes, self.slots, self.message_bytes) })
            .filter(|&b| b > 0)
    }
}

/// Memory with a queue in it.
#[derive(Debug)]
pub struct Shared {
    at: NonNull<u8>,
    bytes: usize,
    /// Whether this value unmaps the memory.
    mapped: bool,
}

// SAFETY: both sides use the memory in ways that are meant for several threads.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The memory at a mapped address, for reading and writing.
    fn mapped(at: rustix::io::Result<*mut c_void>, bytes: usize) -> Result<Self, QueueError> {
        let at = NonNull::new(at.map_err(io::Error::from)?.cast());
        Ok(Self { at: at.ok_or_else(|| io::Error::other("memory at 0"))?, bytes, mapped: true })
    }

    fn create(&self, shape: &Shape, place: Place) -> Result<(), QueueError> {
        // SAFETY: the memory is mapped and as large as is said.
        result(unsafe {
            let (at, size) = (self.at.as_ptr().cast(), self.bytes);
            sc_queue_create(
                at,
                size,
                shape.lanes,
                shape.slots,
                shape.message_bytes,
                place as c_uint,
            )
        })
    }

    /// A new queue in ordinary memory that children share.
    ///
    /// # Errors
    /// The shape is impossible, there is no memory, or lines cannot be bypassed here.
    pub fn new(shape: &Shape, place: Place) -> Result<Self, QueueError> {
        let bytes = shape.bytes().ok_or(QueueError::Status(6))?;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping overlaps no memory in use.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, RIGHTS, flags) };
        let memory = Self::mapped(at, bytes)?;
        memory.create(shape, place)?;
        Ok(memory)
    }

    /// The queue in a file (a memfd, or one in /dev/shm) that another process made.
    ///
    /// # Errors
    /// It cannot be mapped, or has fewer bytes.
    pub fn of_file(fd: BorrowedFd<'_>, bytes: usize) -> Result<Self, QueueError> {
        let size = rustix::fs::fstat(fd).ok().and_then(|s| usize::try_from(s.st_size).ok());
        // Beyond the file's end there is memory only to look at.
        if bytes == 0 || size.is_none_or(|s| s < bytes) {
            return Err(QueueError::Status(6));
        }
        // SAFETY: a new mapping overlaps no memory in use.
        let at = unsafe { mmap(std::ptr::null_mut(), bytes, RIGHTS, MapFlags::SHARED, fd, 0) };
        Self::mapped(at, bytes)
    }

    /// A new queue in pages of the caller.
    ///
    /// # Safety
    /// They are shared memory, mapped for reading and writing for as long as this and its sides
    /// live, and only sides of the queue touch them.
    ///
    /// # Errors
    /// The pages are too few or do not begin at a page's beginning, or lines cannot be bypassed
    /// here.
    pub unsafe fn in_pages(
        at: NonNull<u8>,
        bytes: usize,
        shape: &Shape,
        place: Place,
    ) -> Result<Self, QueueError> {
        let memory = Self { at, bytes, mapped: false };
        memory.create(shape, place)?;
        Ok(memory)
    }

    /// Address and size in bytes, for locking or reading it.
    #[must_use]
    pub fn range(&self) -> (*const u8, usize) {
        (self.at.as_ptr(), self.bytes)
    }

    fn open(
        &self,
        open: unsafe extern "C" fn(*mut Side, *mut c_void, usize) -> c_int,
    ) -> Result<Side, QueueError> {
        let mut side = Side { memory: std::ptr::null_mut(), numbers: [0; 8], owner: 0, other: 0 };
        // SAFETY: the memory is mapped and as large as is said, and the side is written during the
        // call.
        result(unsafe { open(&raw mut side, self.at.as_ptr().cast(), self.bytes) })?;
        Ok(side)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: it was mapped here, and sides borrow it.
            let _ = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
        }
    }
}

/// A sender. It belongs to its thread: other processes check whether this thread lives.
#[derive(Debug)]
pub struct Sender<'m> {
    side: Side,
    _memory: &'m Shared,
}

impl<'m> Sender<'m> {
    /// Takes a free lane, or one whose sender has ended.
    ///
    /// # Errors
    /// No lane is free, or the memory holds no queue.
    pub fn open(memory: &'m Shared) -> Result<Self, QueueError> {
        Ok(Self { side: memory.open(sc_queue_open_sender)?, _memory: memory })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The queue is full, or the message too long.
    pub fn send(&mut self, message: &[u8]) -> Result<(), QueueError> {
        // SAFETY: the side is open, and the message lives through the call.
        match unsafe { sc_queue_send(&raw mut self.side, message.as_ptr().cast(), message.len()) } {
            3 => Err(QueueError::TooLong(message.len())),
            status => result(status),
        }
    }

    /// Number of messages that were published in this lane, also by earlier senders.
    #[must_use]
    pub fn published(&self) -> u64 {
        // SAFETY: the side is open.
        unsafe { sc_queue_count(&raw const self.side) }
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        // SAFETY: the side is open.
        unsafe { sc_queue_close(&raw mut self.side) };
    }
}

/// The receiver. It belongs to its thread.
#[derive(Debug)]
pub struct Receiver<'m> {
    side: Side,
    _memory: &'m Shared,
}

impl<'m> Receiver<'m> {
    /// Becomes the receiver.
    ///
    /// # Errors
    /// There is a receiver already, or the memory holds no queue.
    pub fn open(memory: &'m Shared) -> Result<Self, QueueError> {
        Ok(Self { side: memory.open(sc_queue_open_receiver)?, _memory: memory })
    }

    /// Copies the next message, which stays until [`Receiver::done`]. Returns its length, if there
    /// is a message.
    ///
    /// # Errors
    /// The message is longer than the given memory, or the queue was overwritten.
    pub fn peek(&mut self, message: &mut [u8]) -> Result<Option<usize>, QueueError> {
        let mut length = 0;
        // SAFETY: the side is open, and both are written during the call only.
        let status = unsafe {
            sc_queue_peek(
                &raw mut self.side,
                message.as_mut_ptr().cast(),
                message.len(),
                &raw mut length,
            )
        };
        match status {
            0 => Ok(Some(length)),
            1 => Ok(None),
            3 => Err(QueueError::TooLong(length)),
            other => Err(QueueError::Status(other)),
        }
    }

    /// Takes the message of the last [`Receiver::peek`].
    ///
    /// # Errors
    /// There was no such message.
    pub fn done(&mut self) -> Result<(), QueueError> {
        // SAFETY: the side is open.
        result(unsafe { sc_queue_done(&raw mut self.side) })
    }

    /// Copies the next message and takes it.
    ///
    /// # Errors
    /// As [`Receiver::peek`].
    pub fn receive(&mut self, message: &mut [u8]) -> Result<Option<usize>, QueueError> {
        let length = self.peek(message)?;
        length.map(|_| self.done()).transpose()?;
        Ok(length)
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        // SAFETY: the side is open.
        unsafe { sc_queue_close(&raw mut self.side) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C compiler's size of `struct sc_queue`.
    #[test]
    fn the_side_is_as_large_as_in_c() {
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../c/solocore_ipc.h");
        let size = size_of::<Side>();
        let program = format!(
            "#include \"{header}\"\n_Static_assert(sizeof(struct sc_queue) == {size}, \"size\");\n"
        );
        let compiler = std::process::Command::new("cc")
            .args(["-x", "c", "-fsyntax-only", "-"])
            .stdin(std::process::Stdio::piped())
            .spawn();
        let mut compiler = compiler.unwrap();
        io::Write::write_all(&mut compiler.stdin.take().unwrap(), program.as_bytes()).unwrap();
        assert!(compiler.wait().unwrap().success());
    }

    #[test]
    fn what_is_impossible_is_refused() {
        let shape = Shape { lanes: 1, slots: 2, message_bytes: 64 };
        assert!(Shared::new(&Shape { slots: 3, ..shape }, Place::Cached).is_err());
        let memory = Shared::new(&shape, Place::Locked).unwrap();
        let mut sender = Sender::open(&memory).unwrap();
        assert!(Sender::open(&memory).unwrap_err().to_string().contains("living sender"));
        let mut receiver = Receiver::open(&memory).unwrap();
        assert!(
            receiver.done().is_err()
                && matches!(sender.send(&[0; 65]), Err(QueueError::TooLong(65)))
        );
        sender.send(&[1; 64]).unwrap();
        sender.send(&[]).unwrap();
        assert!(matches!(sender.send(&[]), Err(QueueError::Full)));
        let mut little = [0; 8];
        assert!(matches!(receiver.peek(&mut little), Err(QueueError::TooLong(64))));
        let mut enough = [0; 64];
        assert_eq!(receiver.peek(&mut enough).unwrap(), Some(64));
        assert_eq!(receiver.receive(&mut enough).unwrap(), Some(64), "it was not taken");
        assert_eq!(receiver.receive(&mut []).unwrap(), Some(0));
        assert_eq!((receiver.receive(&mut []).unwrap(), sender.published()), (None, 2));
        drop(sender);
        assert_eq!(
            Sender::open(&memory).unwrap().published(),
            2,
            "the next one knows where to go on"
        );
    }

    #[test]
    fn a_file_can_hold_one() {
        use std::os::fd::AsFd;
        let shape = Shape { lanes: 1, slots: 2, message_bytes: 8 };
        let bytes = shape.bytes().unwrap();
        let file = rustix::fs::memfd_create("queue", rustix::fs::MemfdFlags::empty()).unwrap();
        assert!(Shared::of_file(file.as_fd(), bytes).is_err(), "it is empty");
        rustix::fs::ftruncate(&file, bytes as u64).unwrap();
        let ours = Shared::of_file(file.as_fd(), bytes).unwrap();
        assert!(Sender::open(&ours).is_err(), "there is no queue yet");
        ours.create(&shape, Place::Cached).unwrap();
        let theirs = Shared::of_file(file.as_fd(), bytes).unwrap();
        Sender::open(&ours).unwrap().send(b"x").unwrap();
        assert_eq!(Receiver::open(&theirs).unwrap().receive(&mut [0; 8]).unwrap(), Some(1));
    }

    #[test]
    fn lanes_are_served_in_turn() {
        let memory = Shared::new(&Shape { lanes: 2, slots: 4, message_bytes: 1 }, Place::Bypass);
        let Ok(memory) = memory else { return eprintln!("skipped: {}", memory.unwrap_err()) };
        let (mut a, mut b) = (Sender::open(&memory).unwrap(), Sender::open(&memory).unwrap());
        for n in 0..3 {
            a.send(&[n]).unwrap();
            b.send(&[n + 10]).unwrap();
        }
        let (mut receiver, mut byte, mut got) = (Receiver::open(&memory).unwrap(), [0], Vec::new());
        while receiver.receive(&mut byte).unwrap().is_some() {
            got.push(byte[0]);
        }
        assert_eq!(got, [0, 10, 1, 11, 2, 12]);
    }
}
