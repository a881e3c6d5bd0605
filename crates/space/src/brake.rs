//! The end of a pass before others suffer.
//!
//! Rule: no step is made without room for it beyond the kernel's marks, and none while tasks wait
//! for memory. Under pressure it waits a little for an end of that. Source: `room`. Does not cover:
//! memory that others take during the step.

use crate::error::SpaceError;
use crate::room::{self, Memory};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time within which the pressure must fall again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Part of the time, in percent, that tasks may wait for memory.
const PRESSURE: u128 = 20;

/// Why a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Other programs need the rest of the memory.
    Room,
    /// Tasks waited for memory.
    Pressure,
    /// Memory of the last steps had no frame of the choice.
    Barren,
    /// It was asked to stop.
    Stopped,
}

/// Ends a pass before others suffer.
pub(crate) struct Brake {
    /// Time of the last question, and how long tasks had waited by then.
    last: Option<(Instant, u64)>,
}

impl Brake {
    /// Nothing has been asked yet.
    pub fn new() -> Self {
        Self { last: None }
    }

    /// Whether the next step, of this number of bytes, must not be made, and why. Waits a little
    /// under pressure.
    pub fn holds(
        &mut self,
        bytes: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<End>, SpaceError> {
        let begin = Instant::now();
        loop {
            if stop() {
                return Ok(Some(End::Stopped));
            }
            if Memory::of(Path::new("/"))?.room() < bytes {
                return Ok(Some(End::Room));
            }
            if !self.pressed() {
                return Ok(None);
            }
            if begin.elapsed() > PATIENCE {
                return Ok(Some(End::Pressure));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether tasks waited for memory since the last question for too much of the time.
    fn pressed(&mut self) -> bool {
        let Some(stalled) = room::stalled_us(Path::new("/")) else { return false };
        let now = Instant::now();
        match self.last {
            None => self.last = Some((now, stalled)),
            // Of a shorter time, a single wait would be much.
            Some((then, _)) if now - then < Duration::from_millis(20) => {}
            Some((then, before)) => {
                self.last = Some((now, stalled));
                let waited = u128::from(stalled.saturating_sub(before));
                return waited * 100 > (now - then).as_micros() * PRESSURE;
            }
        }
        false
    }
}
