//! The part of a run that a process is: its number, and its work while children of it live.
//!
//! Rule: a part reports its start in a file of its own, so that one that dies before it writes its
//! counts is noticed.

use crate::clock::clock_ns;
use solocore_cache::contract::{Config, PartFile, Started};
use std::io::Write;

/// The part of this process.
#[derive(Debug)]
pub struct Part {
    pub number: u32,
    pub started: Started,
    /// Number of system calls made while a child lived.
    pub calls_beside_children: u64,
    /// Number of children that have not been waited for.
    pub living: u32,
    /// Number of instructions beside children that have ended.
    pub beside: u64,
    /// Instruction count when the first of the living children was forked.
    pub since: u64,
    /// Instruction count at the last report.
    pub reported: u64,
}

impl Part {
    /// Takes the next number and reports that the part has started.
    pub fn start(config: &Config, from: Option<u32>, forked: bool) -> std::io::Result<Self> {
        let started = Started { pid: std::process::id(), from, forked, at_ns: clock_ns() };
        let mut number = 0;
        loop {
            let path = config.file(PartFile::Started, number);
            match std::fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let text = serde_json::to_vec(&started).map_err(std::io::Error::from)?;
                    file.write_all(&text)?;
                    return Ok(Self::new(number, started));
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(e),
            }
        }
    }

    fn new(number: u32, started: Started) -> Self {
        Self {
            number,
            started,
            calls_beside_children: 0,
            living: 0,
            beside: 0,
            since: 0,
            reported: 0,
        }
    }

    /// Called when a system call begins.
    pub fn called(&mut self) {
        self.calls_beside_children += u64::from(self.living > 0);
    }

    /// Number of instructions executed while a child lived; `instructions` is the total count.
    pub fn beside_children(&self, instructions: u64) -> u64 {
        let open = if self.living > 0 { instructions.saturating_sub(self.since) } else { 0 };
        self.beside + open
    }
}
