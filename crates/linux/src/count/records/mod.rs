//! Records of events, as the kernel writes them.
//!
//! Problem: the records of several events lie one after the other in one ring, and what a record
//! holds depends on how its event was opened. Rule: all events of a ring are opened with the same
//! [`Fields`]; a record of another length than its fields have ends the reading ([`Broken`]), and
//! nothing of it is used.
//! Source: perf_event_open(2), "MMAP layout"; `linux/perf_event.h`.
//! Does not cover: call chains, registers, stacks, branches, auxiliary areas (Arm SPE).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

const LOST: u32 = 2;
const COMM: u32 = 3;
const THROTTLE: u32 = 5;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;

/// Bits of a record's `misc` that tell the CPU's mode; its value in a program.
const MODE: u16 = 7;
const MODE_USER: u16 = 2;
/// Bit of the `misc` of a process's name: the name came with another program.
const WITH_PROGRAM: u16 = 1 << 13;

const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ADDRESS: u64 = 1 << 3;
const SAMPLE_READ: u64 = 1 << 4;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_SOURCE: u64 = 1 << 15;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;
/// How a group is read: with both times and each event's number.
pub(super) const GROUP_WITH_NUMBERS: u64 = 1 | 2 | 4 | 8;

/// Contents of a ring's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// The address that was accessed, where its data came from, and what a tracepoint says.
    Addresses,
    /// The counts of the event's group.
    Counts,
}

impl Fields {
    /// For `sample_type`.
    pub fn sample_type(self) -> u64 {
        let own = match self {
            Self::Addresses => SAMPLE_ADDRESS | SAMPLE_RAW | SAMPLE_SOURCE,
            Self::Counts => SAMPLE_TIME | SAMPLE_READ,
        };
        SAMPLE_IDENTIFIER | SAMPLE_TID | own
    }
}

/// A sample of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    /// Number of the event.
    pub event: u64,
    pub process: u32,
    pub thread: u32,
    /// The program was running, not the kernel.
    pub in_program: bool,
    /// Clock, ns.
    pub time_ns: u64,
    pub address: u64,
    /// Where the data came from (`perf_mem_data_src`).
    pub source: u64,
    /// What a tracepoint says.
    pub raw: &'a [u8],
    /// For how long the group was to count, and for how long it did, ns.
    pub enabled_ns: u64,
    pub running_ns: u64,
    /// The group's counts, each with the number of its event.
    pub counts: Vec<(u64, u64)>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Sample(Sample<'a>),
    /// Memory was mapped, or its protection was changed.
    Mapped {
        process: u32,
        start: u64,
        length: u64,
        offset: u64,
        writable: bool,
        name: PathBuf,
    },
    /// A process became another program.
    Became {
        process: u32,
    },
    /// So many records did not fit.
    Lost(u64),
    /// The kernel stopped an event for a while, because its interrupts came too often.
    Throttled,
    /// Of no use here.
    Other,
}

/// Bytes that are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// Words that are taken from the front.
struct Front<'a>(&'a [u8]);

impl<'a> Front<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Broken)?;
        self.0 = rest;
        Ok(taken)
    }

    fn half(&mut self) -> Result<u16, Broken> {
        Ok(u16::from_ne_bytes(self.bytes(2)?.try_into().map_err(|_| Broken)?))
    }

    fn word(&mut self) -> Result<u32, Broken> {
        Ok(u32::from_ne_bytes(self.bytes(4)?.try_into().map_err(|_| Broken)?))
    }

    fn long(&mut self) -> Result<u64, Broken> {
        Ok(u64::from_ne_bytes(self.bytes(8)?.try_into().map_err(|_| Broken)?))
    }
}

/// Takes the first record from the bytes; `None` at their end.
pub(super) fn next<'a>(bytes: &mut &'a [u8], fields: Fields) -> Option<Result<Record<'a>, Broken>> {
    (!bytes.is_empty()).then(|| {
        let mut front = Front(bytes);
        let (kind, misc, size) = (front.word()?, front.half()?, front.half()?);
        let body = usize::from(size).checked_sub(8).ok_or(Broken)?;
        let body = Front(front.bytes(body)?);
        *bytes = front.0;
        record(kind, misc, body, fields)
    })
}

fn record(kind: u32, misc: u16, mut body: Front<'_>, fields: Fields) -> Result<Record<'_>, Broken> {
    Ok(match kind {
        SAMPLE => Record::Sample(sample(misc, body, fields)?),
        MMAP2 => {
            let (process, _thread) = (body.word()?, body.word()?);
            let (start, length, offset) = (body.long()?, body.long()?, body.long()?);
            // Device, inode and generation, or the program's build number.
            body.bytes(24)?;
            let (protection, _flags) = (body.word()?, body.word()?);
            let name = body.0.split(|&b| b == 0).next().unwrap_or_default();
            let name = PathBuf::from(OsString::from_vec(name.to_vec()));
            let writable = protection & 2 != 0;
            Record::Mapped { process, start, length, offset, writable, name }
        }
        COMM if misc & WITH_PROGRAM != 0 => Record::Became { process: body.word()? },
        LOST => {
            body.long()?;
            Record::Lost(body.long()?)
        }
        LOST_SAMPLES => Record::Lost(body.long()?),
        THROTTLE => Record::Throttled,
        _ => Record::Other,
    })
}

fn sample(misc: u16, mut body: Front<'_>, fields: Fields) -> Result<Sample<'_>, Broken> {
    let mut sample = Sample {
        event: body.long()?,
        process: body.word()?,
        thread: body.word()?,
        in_program: misc & MODE == MODE_USER,
        ..Sample::default()
    };
    match fields {
        Fields::Addresses => {
            sample.address = body.long()?;
            let raw = usize::try_from(body.word()?).map_err(|_| Broken)?;
            sample.raw = body.bytes(raw)?;
            sample.source = body.long()?;
        }
        Fields::Counts => {
            sample.time_ns = body.long()?;
            let events = body.long()?;
            (sample.enabled_ns, sample.running_ns) = (body.long()?, body.long()?);
            // A number that is not a number of events: the bytes end before.
            for _ in 0..events {
                let count = body.long()?;
                sample.counts.push((body.long()?, count));
            }
        }
    }
    if body.0.is_empty() { Ok(sample) } else { Err(Broken) }
}

#[cfg(test)]
pub(super) mod tests;
