//! Work beside the interpreter.
//!
//! Problem: Ctrl-C must end any function within a second, and other threads of Python must go on.
//! Rule: the work runs in threads of its own. The calling thread sleeps without the interpreter's
//! lock, wakes 20 times a second, lets Python handle signals and reports the share done. When
//! Python raises, the work is told to stop, and the exception is Python's own. Work that checks
//! `stop` too seldom would delay Ctrl-C: every loop here checks it at least every 100 ms of work.

use crate::errors::{Error, panicked};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);

/// Communication with the work: its progress, and the request to stop.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    /// Share done, as the bits of a double.
    share: AtomicU64,
}

impl Watch {
    pub fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Reports a share, 0 to 1; returns whether to go on. Other values are ignored.
    pub fn step(&self, share: f64) -> bool {
        if share > 0.0 {
            self.share.store(share.to_bits(), Relaxed);
        }
        !self.stopped()
    }
}

/// Runs `work` and returns its result; `progress` is called with shares, 0 to 1.
pub fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watch) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let progress = progress.map(|p| p.clone().unbind());
    let watch = Watch::default();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(1);
            let worker = scope.spawn(|| {
                let done = work(&watch);
                let _ = send.send(());
                drop(send);
                done
            });
            let mut raised = None;
            while let Err(RecvTimeoutError::Timeout) = receive.recv_timeout(LOOK) {
                if raised.is_some() {
                    continue;
                }
                let looked = Python::attach(|py| {
                    py.check_signals()?;
                    let share = f64::from_bits(watch.share.load(Relaxed));
                    progress.as_ref().map_or(Ok(()), |p| p.call1(py, (share,)).map(drop))
                });
                if let Err(error) = looked {
                    watch.stop.store(true, Relaxed);
                    raised = Some(error);
                }
            }
            let done = worker.join().map_err(|_| panicked())?;
            match raised {
                Some(error) => Err(error),
                None => done.map_err(PyErr::from),
            }
        })
    })
}
