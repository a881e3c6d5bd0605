//! The kernel's own message queues (System V), to be measured beside those of solocore.

use crate::BufferError;
use std::io;

/// A queue of this process, removed when it is dropped.
#[derive(Debug)]
pub struct SysVQueue {
    id: i32,
    /// Most bytes of messages that it holds.
    pub capacity: usize,
    /// A message, after the eight bytes of its type.
    message: Vec<u8>,
}

const TYPE: usize = size_of::<libc::c_long>();

impl SysVQueue {
    /// A queue that holds `wanted` bytes, or as many as this process may have. Where
    /// `kernel.msgmnb` is less, root gets a namespace with limits of its own for this thread: the
    /// machine's settings stay unchanged.
    ///
    /// # Errors
    /// The kernel has no such queues, or no further one.
    pub fn new(wanted: usize, longest: usize) -> Result<Self, BufferError> {
        let queue = Self::within_limits(wanted, longest)?;
        if queue.capacity >= wanted {
            return Ok(queue);
        }
        drop(queue);
        raise_limits(wanted, longest);
        Self::within_limits(wanted, longest)
    }

    fn within_limits(wanted: usize, longest: usize) -> Result<Self, BufferError> {
        // SAFETY: the calls are given numbers, and a structure that they fill and read.
        unsafe {
            let id = libc::msgget(libc::IPC_PRIVATE, 0o600 | libc::IPC_CREAT);
            if id < 0 {
                return Err(BufferError::os(
                    "System V message queue",
                    "remove old ones (ipcrm), or leave sysv out",
                ));
            }
            let mut queue = Self { id, capacity: 0, message: vec![0; TYPE + longest] };
            let mut state: libc::msqid_ds = std::mem::zeroed();
            if libc::msgctl(id, libc::IPC_STAT, &raw mut state) == 0 {
                state.msg_qbytes = wanted as libc::msglen_t;
                // Beyond kernel.msgmnb only CAP_SYS_RESOURCE may.
                let _ = libc::msgctl(id, libc::IPC_SET, &raw mut state);
                libc::msgctl(id, libc::IPC_STAT, &raw mut state);
            }
            queue.capacity = usize::try_from(state.msg_qbytes).unwrap_or(0);
            queue.message[..TYPE].copy_from_slice(&(1 as libc::c_long).to_ne_bytes());
            Ok(queue)
        }
    }

    /// Prepares a message; this is not part of the measurement, as solocore's queues take any
    /// memory.
    pub fn prepare(&mut self, message: &[u8]) {
        self.message.truncate(TYPE);
        self.message.extend_from_slice(message);
    }

    /// Calls `msgsnd()` for the prepared message.
    ///
    /// # Errors
    /// The queue is full, or the message is longer than kernel.msgmax.
    pub fn send(&self) -> Result<(), io::Error> {
        let length = self.message.len() - TYPE;
        // SAFETY: the message begins with its type, and this number of bytes follows.
        match unsafe {
            libc::msgsnd(self.id, self.message.as_ptr().cast(), length, libc::IPC_NOWAIT)
        } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Calls `msgrcv()`; returns the length.
    ///
    /// # Errors
    /// There is no message, or it is too long.
    pub fn receive(&mut self, longest: usize) -> Result<usize, io::Error> {
        self.message.resize(TYPE + longest, 0);
        // SAFETY: there is room for a type and this number of bytes.
        let got = unsafe {
            libc::msgrcv(self.id, self.message.as_mut_ptr().cast(), longest, 0, libc::IPC_NOWAIT)
        };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    /// The message that was received last.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message[TYPE..]
    }
}

/// Gives this thread an IPC namespace of its own with higher limits, if it may have one; the queue
/// then states its capacity.
fn raise_limits(bytes: usize, longest: usize) {
    // SAFETY: a flag; the namespace has no queues of other programs.
    if unsafe { libc::unshare(libc::CLONE_NEWIPC) } != 0 {
        return;
    }
    for (limit, value) in [("msgmnb", bytes), ("msgmax", longest.max(8192))] {
        let _ = std::fs::write(format!("/proc/sys/kernel/{limit}"), value.to_string());
    }
}

impl Drop for SysVQueue {
    fn drop(&mut self) {
        // SAFETY: the queue is this one's.
        unsafe { libc::msgctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        let Ok(mut queue) = SysVQueue::new(4096, 100) else {
            return eprintln!("skipped: no System V queues here");
        };
        assert!(queue.capacity >= 4096);
        queue.prepare(b"frame");
        queue.send().unwrap();
        queue.prepare(b"");
        assert_eq!(queue.receive(100).unwrap(), 5);
        assert_eq!(&queue.message()[..5], b"frame");
        assert!(queue.receive(100).is_err(), "there is no more");
        let id = queue.id;
        drop(queue);
        // SAFETY: the structure is as large as the kernel's, which fills it if the queue is there.
        let there = unsafe {
            let mut state: libc::msqid_ds = std::mem::zeroed();
            libc::msgctl(id, libc::IPC_STAT, &raw mut state) == 0
        };
        assert!(!there, "it is removed");
    }

    #[test]
    fn root_gets_queues_beyond_the_limit_and_the_limit_stays() {
        let limit = || {
            std::fs::read_to_string("/proc/sys/kernel/msgmnb")
                .unwrap()
                .trim()
                .parse::<usize>()
                .unwrap()
        };
        let before = limit();
        let mine = std::thread::spawn(move || {
            let Ok(queue) = SysVQueue::new(before + 8192, 8192) else { return None };
            Some((queue.capacity, limit()))
        });
        // SAFETY: a flag; the thread ends at once.
        let may = std::thread::spawn(|| unsafe { libc::unshare(libc::CLONE_NEWIPC) } == 0)
            .join()
            .unwrap();
        match mine.join().unwrap() {
            Some((capacity, _)) if capacity < before + 8192 => {
                assert!(!may, "a namespace can be had; it got {capacity}");
                assert_eq!(capacity, before);
            }
            Some((capacity, _)) => assert_eq!(capacity, before + 8192),
            None => eprintln!("skipped: no System V queues here"),
        }
        assert_eq!(limit(), before, "the machine's limit is as it was");
    }
}
