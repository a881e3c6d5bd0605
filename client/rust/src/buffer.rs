//! Buffers in frames of a task's cache colours and DRAM banks: the Rust binding of
//! `client/c/solocore_buffer.h`.
//!
//! Problem: devices and other tasks write into buffers, and a buffer in any frames evicts the lines
//! of other tasks. Rule: [`Buffer::new`] gets memory in frames of a task of the plan, from a
//! running `solocore reserve --plan`, or from the library of a program that solocore has started in
//! colours as this task. Otherwise there is no buffer. Source: mc2-os-isolation, section 3.2.
//!
//! ```no_run
//! use std::io::Read;
//! let mut frame = solocore_client::buffer::Buffer::new("video", 400 << 10)?;
//! std::fs::File::open("/dev/video0")?.read_exact(&mut frame)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Does not cover: the limits of `solocore_buffer.h`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;

/// `struct sc_memory`.
#[repr(C)]
#[derive(Debug)]
struct Memory {
    at: *mut c_void,
    bytes: usize,
    file: c_int,
    connection: c_int,
}

unsafe extern "C" {
    fn sc_buffer(memory: *mut Memory, task: *const c_char, bytes: usize) -> c_int;
    fn sc_buffer_free(memory: *mut Memory);
    fn sc_strbuffer(status: c_int) -> *const c_char;
}

/// Reason why there is no buffer (`enum sc_buffer_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub enum BufferError {
    /// No reserve has a plan here, and the program does not run in colours as this task.
    NoReserve,
    /// The reserve serves root alone.
    Denied,
    /// The plan has no such task, or no frames of its own for it.
    Unknown,
    /// The reserve holds too few frames of the task.
    Few,
    /// The name or the size is impossible.
    Argument,
    /// The reserve is of another version, or does not answer in time.
    Refused,
    /// A system call failed, or the kernel gave other frames than those that were freed.
    System,
}

impl BufferError {
    const ALL: [Self; 7] = [
        Self::NoReserve,
        Self::Denied,
        Self::Unknown,
        Self::Few,
        Self::Argument,
        Self::Refused,
        Self::System,
    ];

    fn of(status: c_int) -> Option<Self> {
        let at = usize::try_from(status).ok()?.checked_sub(1)?;
        Some(Self::ALL.get(at).copied().unwrap_or(Self::System))
    }

    fn text(self) -> &'static str {
        let number = Self::ALL.iter().position(|&s| s == self).map_or(0, |at| at + 1);
        // SAFETY: for every number the function returns a string that lives for ever.
        let text = unsafe { CStr::from_ptr(sc_strbuffer(c_int::try_from(number).unwrap_or(0))) };
        text.to_str().unwrap_or("no text")
    }
}

/// Memory in frames of a task; whole pages, zero at first. The frames go back when it is dropped.
#[derive(Debug)]
pub struct Buffer(Memory);

// SAFETY: it is memory that this value alone hands out; the descriptors belong to no thread.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read it.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// At least `bytes` bytes in frames of this task of the plan. Takes some 10 us a page, and up
    /// to some seconds while the reserve is looking for frames.
    ///
    /// # Errors
    /// Nobody has frames of this task for it.
    pub fn new(task: &str, bytes: usize) -> Result<Self, BufferError> {
        let task = CString::new(task).map_err(|_| BufferError::Argument)?;
        let mut memory = Memory { at: std::ptr::null_mut(), bytes: 0, file: -1, connection: -1 };
        // SAFETY: the name lives through the call, which writes the memory's description only.
        let status = unsafe { sc_buffer(&raw mut memory, task.as_ptr(), bytes) };
        match BufferError::of(status) {
            Some(error) => Err(error),
            None => Ok(Self(memory)),
        }
    }

    /// Address and size in bytes, for devices.
    #[must_use]
    pub fn range(&self) -> (*mut u8, usize) {
        (self.0.at.cast(), self.0.bytes)
    }

    /// The file for other processes to map, shared; `None`: the memory is this process's own.
    ///
    /// # Safety
    /// While another process writes to it, the caller reads the buffer by [`Buffer::range`] only,
    /// or as a [`crate::queue::Shared`].
    #[must_use]
    pub unsafe fn file(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as this lives.
        (self.0.file >= 0).then(|| unsafe { BorrowedFd::borrow_raw(self.0.file) })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is mapped as long as this lives, and was zero at first; others that
        // write to it are the business of `file`'s caller.
        unsafe { std::slice::from_raw_parts(self.0.at.cast(), self.0.bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and there is no other reference.
        unsafe { std::slice::from_raw_parts_mut(self.0.at.cast(), self.0.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the memory is what `sc_buffer` has made, and there is no reference any more.
        unsafe { sc_buffer_free(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_reason() {
        assert_eq!(BufferError::of(0), None);
        assert_eq!(BufferError::of(99), Some(BufferError::System));
        for (at, error) in (1..).zip(BufferError::ALL) {
            assert_eq!(BufferError::of(at), Some(error));
            let text = error.to_string();
            assert!(text.contains("; ") && text != "no status of a buffer", "{text}");
        }
        assert!(BufferError::Denied.to_string().contains("root"));
    }

    #[test]
    fn impossible_buffers_are_refused_before_anybody_is_asked() {
        for (task, bytes) in [("", 1), ("a\0b", 1), ("a", 0), ("a", usize::MAX)] {
            assert_eq!(Buffer::new(task, bytes).err(), Some(BufferError::Argument), "{task:?}");
        }
        assert_eq!(Buffer::new(&"x".repeat(64), 1).err(), Some(BufferError::Argument));
    }

    /// The C compiler's layout of `struct sc_memory`.
    #[test]
    fn the_memory_is_laid_out_as_in_c() {
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../c/solocore_buffer.h");
        let (size, file) = (size_of::<Memory>(), std::mem::offset_of!(Memory, file));
        let program = format!(
            "#include \"{header}\"\n_Static_assert(sizeof(struct sc_memory) == {size} && \
             offsetof(struct sc_memory, file) == {file}, \"layout\");\n"
        );
        let mut compiler = std::process::Command::new("cc")
            .args(["-x", "c", "-std=gnu11", "-fsyntax-only", "-"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = compiler.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, program.as_bytes()).unwrap();
        drop(input);
        assert!(compiler.wait().unwrap().success());
    }
}
