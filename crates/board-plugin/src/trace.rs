//! A file of every reference, for a replay that shares no code with the model
//! (`tests/board/replay.c`).
//!
//! A record is eight bytes, little-endian: line number (48 bits), core (8 bits), kind (8 bits: 0
//! load, 1 store, 2 fetch, 3 walk, 4 prefetch).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Load,
    Store,
    Fetch,
    Walk,
    Prefetch,
}

/// The file.
#[derive(Debug)]
pub struct Trace {
    file: BufWriter<File>,
    failed: bool,
}

impl Trace {
    /// Makes the file.
    ///
    /// # Errors
    /// One line with the path.
    pub fn create(path: &Path) -> Result<Self, String> {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file), failed: false })
    }

    /// Adds a reference.
    pub fn push(&mut self, cpu: usize, line: u64, kind: Kind) {
        let word = line & ((1 << 48) - 1) | (cpu as u64 & 0xff) << 48 | u64::from(kind as u8) << 56;
        self.failed |= self.file.write_all(&word.to_le_bytes()).is_err();
    }

    /// Writes the remaining records; returns whether all were written.
    pub fn finish(&mut self) -> bool {
        self.file.flush().is_ok() && !self.failed
    }
}
