//! Writes the trace. The file is opened for each block only: the program may close every
//! descriptor it did not open itself, and must not find one of ours among its own.

use solocore_cache::trace::{Access, Encoder};
use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The trace file.
#[derive(Debug)]
pub struct Recorder {
    sink: Sink,
    encoder: Encoder,
    limit: u64,
    /// Cycle count at the last record.
    pub cycles: u64,
    /// Whether the limit was reached.
    pub truncated: bool,
    /// First write error; recording stops there.
    pub error: Option<Error>,
}

#[derive(Debug)]
struct Sink {
    path: PathBuf,
    length: u64,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Recorder {
    /// A recorder that writes at most `limit` accesses to `path`.
    pub fn new(path: PathBuf, limit: u64) -> Self {
        let sink = Sink { path, length: 0 };
        Self { sink, encoder: Encoder::default(), limit, cycles: 0, truncated: false, error: None }
    }

    /// Adds an access.
    pub fn push(&mut self, access: Access) {
        if self.error.is_some() {
            return;
        }
        if self.encoder.records() >= self.limit {
            self.truncated = true;
            return;
        }
        self.cycles = access.at_cycles;
        self.error = self.encoder.push(access, &mut self.sink).err();
    }

    /// Ends the file as it stands; returns the number of records. Recording may go on afterwards (a
    /// failed `execve`): later records overwrite the end mark.
    pub fn end(&mut self) -> u64 {
        let mut encoder = std::mem::take(&mut self.encoder);
        match encoder.finish(&mut self.sink) {
            Ok(records) if self.error.is_none() => {
                // The end mark is eight zero bytes and the count.
                self.sink.length = if records == 0 { 0 } else { self.sink.length - 16 };
                self.encoder = encoder;
                records
            }
            Ok(_) => 0,
            Err(error) => {
                self.error.get_or_insert(error);
                0
            }
        }
    }
}
