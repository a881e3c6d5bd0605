//! Threads that walk through memory to disturb measured programs.
//!
//! Rule: a hog touches memory of its own, line by line, until it is dropped. A paused one keeps its
//! CPU busy without memory: only the accesses differ. Source: the use of IsolBench's `bandwidth`
//! beside a victim. Does not cover: patterns that are the worst for one bank.

use crate::order::{Pattern, Walk};
use crate::walk::keep_on;
use crate::{BufferError, LINE, Mapping, huge};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines between two readings of the hog's orders.
const PIECE: usize = 2048;
/// Longest time that a hog may take for its first pieces.
const PATIENCE: Duration = Duration::from_secs(60);

/// Messages between a hog and its owner.
#[derive(Debug, Default)]
struct Told {
    stop: AtomicBool,
    pause: AtomicBool,
    /// Does it make no accesses, and will it make none before an order?
    quiet: AtomicBool,
    bytes: AtomicU64,
}

/// A thread that walks through memory of its own for as long as this lives.
#[derive(Debug)]
pub struct Hog {
    told: Arc<Told>,
    size: u64,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Starts a hog on a CPU that reads or writes `bytes` bytes repeatedly; returns when it has
    /// begun.
    ///
    /// # Errors
    /// No such CPU, no memory, no thread, or no time on its CPU for a minute.
    pub fn begin(cpu: u32, bytes: usize, how: impl Into<Pattern>) -> Result<Self, BufferError> {
        Self::begin_unless(cpu, bytes, how.into(), &|| false)
    }

    /// As [`Hog::begin`]; `stopped` ends the wait for its beginning.
    ///
    /// # Errors
    /// As [`Hog::begin`].
    pub fn begin_unless(
        cpu: u32,
        bytes: usize,
        how: Pattern,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Self, BufferError> {
        Self::of_lines(cpu, bytes, LINE, how, stopped)
    }

    /// As [`Hog::begin_unless`], with lines of `line` bytes, a power of two of at most a page.
    ///
    /// # Errors
    /// As [`Hog::begin`].
    pub fn of_lines(
        cpu: u32,
        bytes: usize,
        line: usize,
        how: Pattern,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Self, BufferError> {
        let (memory, _) = huge::memory(bytes)?;
        let told = Arc::new(Told::default());
        let (say, heard) = std::sync::mpsc::channel();
        let (size, own) = (memory.len() as u64, Arc::clone(&told));
        let walk = move || {
            let placed = keep_on(cpu);
            let go_on = placed.is_ok();
            let _ = say.send(placed);
            if go_on {
                work(memory, line, how, &own);
            }
        };
        let thread = std::thread::Builder::new().name("solocore:hog".to_owned()).spawn(walk);
        let thread = thread.map_err(|e| {
            BufferError::io("a thread is refused", &e, "raise the limit (ulimit -u)")
        })?;
        let hog = Self { told, size, thread: Some(thread) };
        heard.recv().unwrap_or_else(|_| {
            Err(BufferError::Machine("the hog has ended; try again".to_owned()))
        })?;
        if !hog.wait(PATIENCE, |hog| hog.bytes() > 0 || stopped()) {
            return Err(BufferError::Machine(format!(
                "a memory hog got no time on CPU {cpu} for a minute; free that CPU of real-time \
                    tasks"
            )));
        }
        Ok(hog)
    }

    /// Lets it rest, or go on, and waits until it does so.
    pub fn pause(&self, pause: bool) {
        self.told.pause.store(pause, Ordering::Release);
        // A hog without time makes no accesses either.
        self.wait(Duration::from_secs(1), |hog| hog.told.quiet.load(Ordering::Acquire) == pause);
    }

    /// Bytes of the lines that it has touched so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.told.bytes.load(Ordering::Relaxed)
    }

    /// Passes through all its memory so far.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.bytes() / self.size.max(1)
    }

    /// Waits until `so` is true; false if it was not within `at_most`, or if the hog has ended.
    fn wait(&self, at_most: Duration, so: impl Fn(&Self) -> bool) -> bool {
        let begin = Instant::now();
        while !so(self) {
            if begin.elapsed() > at_most || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
            {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }
}

/// Passes through memory until an order to stop.
fn work(memory: Mapping, line: usize, how: Pattern, told: &Told) {
    let going = || !told.stop.load(Ordering::Relaxed);
    let mut walk = Walk::of_lines(memory, how.order, line);
    while going() {
        while told.pause.load(Ordering::Acquire) && going() {
            told.quiet.store(true, Ordering::Release);
            std::hint::spin_loop();
        }
        told.quiet.store(false, Ordering::Release);
        let lines = walk.go(PIECE, how.access);
        told.bytes.fetch_add((lines * line) as u64, Ordering::Relaxed);
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.told.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A hog that panicked has stopped, too.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::{Access, cpus};

    #[test]
    fn a_hog_works_until_it_is_dropped() {
        let hog = Hog::begin(cpus()[0], 1 << 20, Access::Write).unwrap();
        while hog.passes() == 0 {
            std::thread::yield_now();
        }
        drop(hog);
        let none = Hog::begin(1023, crate::PAGE, Access::Read).unwrap_err().to_string();
        assert!(none.contains("1023"), "{none}");
        assert!(keep_on(u32::MAX).is_err());
    }

    #[test]
    fn a_paused_hog_touches_nothing() {
        let hog = Hog::begin(cpus()[0], 1 << 20, Access::Read).unwrap();
        hog.pause(true);
        // It may not have run since; then it is quiet as well, or will say so when it runs.
        hog.wait(PATIENCE, |hog| hog.told.quiet.load(Ordering::Acquire));
        let before = hog.bytes();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(hog.bytes(), before);
        hog.pause(false);
        assert!(hog.wait(PATIENCE, |hog| hog.bytes() > before));
    }
}
