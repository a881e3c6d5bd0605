//! A thread that empties a ring while its program runs.

use crate::sys::ring::Ring;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// How often the ring is emptied. It holds 4 MiB: 20,000 records of 200 bytes.
const EACH: Duration = Duration::from_millis(1);

/// A consumer of records.
pub(super) trait Taker: Send + 'static {
    /// Takes whole records, in the order in which they were written.
    fn take(&mut self, bytes: &[u8]);
}

/// The thread; it ends with this value.
pub(super) struct Listener<T> {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Taker> Listener<T> {
    /// Begins to empty the ring.
    pub fn begin(mut ring: Ring, mut taker: T) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&done);
        let thread = spawn(move || {
            let mut bytes = Vec::new();
            loop {
                // Asked first, so that the last round comes after the end.
                let last = told.load(Ordering::Acquire);
                bytes.clear();
                ring.take(&mut bytes);
                taker.take(&bytes);
                if last {
                    return taker;
                }
                sleep(EACH);
            }
        });
        Self { done, thread: Some(thread) }
    }

    /// Takes what is left, and gives the taker back; `None` if its thread panicked.
    pub fn end(mut self) -> Option<T> {
        self.done.store(true, Ordering::Release);
        self.thread.take()?.join().ok()
    }
}

impl<T> Drop for Listener<T> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
    }
}
