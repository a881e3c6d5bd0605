//! Traces of scheduling decisions: the calls and runs of a kernel or a simulation, in the terms of
//! `policy/`, so that they can be repeated.
//!
//! Problem: a scheduler's promise (a budget in every period, a job on its tick) needs the proof
//! that the policy's decisions were executed. Rule: a trace is the sequence of calls of the policy
//! on each core, with their times and answers, and of the real runs. Files are CSV: a first line `#
//! solocore-sched-trace/1 KEY=VALUE ...` with the properties of the whole trace, a heading, and one
//! event a line in the order of time on each core.
//!
//! | event | id | a | b |
//! |---|---|---|---|
//! | vcpu-add | VCPU | capacity, ns | period, ns |
//! | vcpu-remove, vcpu-wake, vcpu-block | VCPU | answer | until when, ns |
//! | vcpu-leave | VCPU that moves to another core | answer | until when, ns |
//! | vcpu-tick, vcpu-pause, vcpu-resume | | answer | until when, ns |
//! | vcpu-allow | 1: background time is allowed | answer | until when, ns |
//! | vcpu-budget | VCPU that arrives | time of a replenishment, ns | amount, ns |
//! | vcpu-arrive | VCPU, after its vcpu-budget and vcpu-add | foreground time so far, ns | background time so far, ns |
//! | vcpu-intensity | VCPU | its use of memory | |
//! | level-add | task | period, ns | level << 56, or-ed with core << 48, or-ed with the PET in ns |
//! | level-table | | frame, ns | origin, ns |
//! | level-slot | task | start in the frame, ns | end, ns |
//! | level-release, level-complete | task | number of the job | |
//! | level-pick | task that runs, [`NONE`] | until when, ns | level: 0 to 3, 4 idle |
//! | level-overrun | task | number of the job | |
//! | runs | thread | VCPU or task + 1, 0: neither | |
//! | stops | thread | 1: it wants to go on | |
//! | intruder | thread | real-time priority, [`u64::MAX`]: SCHED_DEADLINE | |

//!
//! The answer of a call is the VCPU that runs, or [`NONE`], and the mode shifted by 32 bits: 0
//! idle, 1 foreground, 2 background. A vcpu-add or vcpu-arrive has none; VCPUs that arrive are
//! blocked.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};

/// Written at the head of every trace.
pub const FORMAT: &str = "solocore-sched-trace/1";
/// No VCPU, no task.
pub const NONE: u32 = u32::MAX;

/// Kind of an event. The numbers are those of `bpf/sched_trace.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum Kind {
    /// A VCPU is created.
    VcpuAdd = 1,
    /// A VCPU is destroyed.
    VcpuRemove = 2,
    /// A VCPU has work.
    VcpuWake = 3,
    /// A VCPU has no work.
    VcpuBlock = 4,
    /// Time has passed.
    VcpuTick = 5,
    /// Background time is allowed or refused.
    VcpuAllow = 6,
    /// The picked VCPU does not run.
    VcpuPause = 7,
    /// A replenishment that a VCPU brings along.
    VcpuBudget = 8,
    /// A VCPU arrives from another core.
    VcpuArrive = 9,
    /// Memory use of a VCPU.
    VcpuIntensity = 10,
    /// A VCPU moves to another core.
    VcpuLeave = 11,
    /// The picked VCPU runs.
    VcpuResume = 12,
    /// A task of a level.
    LevelAdd = 32,
    /// A job is released.
    LevelRelease = 33,
    /// A job is done.
    LevelComplete = 34,
    /// The answer of a pick.
    LevelPick = 35,
    /// A job has used up its PET.
    LevelOverrun = 36,
    /// A slot of the core's table.
    LevelSlot = 37,
    /// The core's table.
    LevelTable = 38,
    /// A thread runs.
    Runs = 64,
    /// A thread runs no more.
    Stops = 65,
    /// A real-time thread ran that is not under the scheduler.
    Intruder = 66,
}

impl Kind {
    const ALL: [Self; 22] = [
        Self::VcpuAdd,
        Self::VcpuRemove,
        Self::VcpuWake,
        Self::VcpuBlock,
        Self::VcpuTick,
        Self::VcpuAllow,
        Self::VcpuPause,
        Self::VcpuBudget,
        Self::VcpuArrive,
        Self::VcpuIntensity,
        Self::VcpuLeave,
        Self::VcpuResume,
        Self::LevelAdd,
        Self::LevelRelease,
        Self::LevelComplete,
        Self::LevelPick,
        Self::LevelOverrun,
        Self::LevelSlot,
        Self::LevelTable,
        Self::Runs,
        Self::Stops,
        Self::Intruder,
    ];

    /// The event of a number of `bpf/sched_trace.h`.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == number)
    }
}

/// An event. The module defines the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time of the event, ns.
    pub time_ns: u64,
    /// Number of the core.
    pub cpu: u32,
    /// Kind of event.
    pub event: Kind,
    /// Number of the VCPU, task or thread.
    pub id: u32,
    /// First detail.
    pub a: u64,
    /// Second detail.
    pub b: u64,
}

/// A trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedTrace {
    /// Properties of the whole trace: `scheduler` (`vcpu` or `levels`), `cpus`, `source` (`linux`
    /// or `sim`), and for VCPUs `background` (`least-time`, `keep`, `least-memory`); `lost`: events
    /// that were overwritten before they were read.
    pub about: BTreeMap<String, String>,
    /// Events, on each core in the order of time.
    pub events: Vec<Event>,
}

/// Fails once a line is longer than any of a trace, such as that of a device, which has no end.
struct Lines<R> {
    from: R,
    /// Bytes since the last end of a line.
    line_bytes: usize,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        const LONGEST: usize = 1 << 20;
        let read = self.from.read(to)?;
        let ends = to.iter().take(read).rposition(|&byte| byte == b'\n');
        self.line_bytes = ends.map_or(self.line_bytes + read, |at| read - at - 1);
        if self.line_bytes > LONGEST {
            return Err(io::Error::other(format!(
                "a line is longer than 1 MiB; name a trace of --sched-trace, which begins with \
                    `# {FORMAT}`"
            )));
        }
        Ok(read)
    }
}

/// A fault in a trace's file.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is not an event.
    #[error("line {line}: {what}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// The fault in it.
        what: String,
    },
}

impl SchedTrace {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TraceError`], with the line.
    pub fn read(from: impl Read) -> Result<Self, TraceError> {
        let mut from = BufReader::new(Lines { from, line_bytes: 0 });
        let mut head = Vec::new();
        from.read_until(b'\n', &mut head)?;
        let head = String::from_utf8_lossy(&head);
        let rest =
            head.trim_end().strip_prefix("# ").and_then(|h| h.strip_prefix(FORMAT)).ok_or_else(
                || {
                    let what = format!(
                        "a trace begins with `# {FORMAT}`; write one with `--sched-trace FILE`"
                    );
                    TraceError::Line { line: 1, what }
                },
            )?;
        let mut about = BTreeMap::new();
        for word in rest.split_whitespace() {
            let Some((key, value)) = word.split_once('=') else {
                return Err(TraceError::Line {
                    line: 1,
                    what: format!("`{word}` is not KEY=VALUE"),
                });
            };
            about.insert(key.to_owned(), value.to_owned());
        }
        let mut events = Vec::new();
        for (at, row) in csv::Reader::from_reader(from).into_deserialize::<Event>().enumerate() {
            let line = at as u64 + 3;
            events.push(row.map_err(|e| TraceError::Line { line, what: e.to_string() })?);
        }
        Ok(Self { about, events })
    }

    /// Writes a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        write!(to, "# {FORMAT}")?;
        for (key, value) in &self.about {
            write!(to, " {key}={value}")?;
        }
        writeln!(to)?;
        let mut csv = csv::Writer::from_writer(to);
        if self.events.is_empty() {
            csv.write_record(["time_ns", "cpu", "event", "id", "a", "b"])?;
        }
        for event in &self.events {
            csv.serialize(event)?;
        }
        csv.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let about = [("scheduler", "vcpu"), ("cpus", "4")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let mut at = 0;
        let events = Kind::ALL.map(|event| {
            at += 1;
            Event { time_ns: at, cpu: 1, event, id: NONE, a: u64::MAX, b: 3 }
        });
        for events in [events.to_vec(), Vec::new()] {
            let trace = SchedTrace { about: std::collections::BTreeMap::clone(&about), events };
            let mut file = Vec::new();
            trace.write(&mut file).unwrap();
            assert_eq!(SchedTrace::read(file.as_slice()).unwrap(), trace);
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let text = format!(
            "# {FORMAT} \
                cpus=1\ntime_ns,cpu,event,id,a,b\n1,0,vcpu-tick,0,0,0\n2,0,vcpu-tock,0,0,0\n"
        );
        let said = SchedTrace::read(text.as_bytes()).unwrap_err().to_string();
        assert!(said.starts_with("line 4:") && said.contains("vcpu-tock"), "{said}");
        assert!(
            SchedTrace::read(b"time_ns,cpu\n".as_slice())
                .unwrap_err()
                .to_string()
                .contains("line 1")
        );
    }

    #[test]
    fn an_input_without_lines_is_no_trace() {
        let head = format!("# {FORMAT} cpus=1\ntime_ns,cpu,event,id,a,b\n");
        let end = || io::repeat(b'0').take(1 << 30);
        for said in [SchedTrace::read(end()), SchedTrace::read(head.as_bytes().chain(end()))] {
            let said = said.unwrap_err().to_string();
            assert!(said.contains("longer than 1 MiB"), "{said}");
        }
        let said = SchedTrace::read(b"\xff\xfe\n".as_slice()).unwrap_err().to_string();
        assert!(said.starts_with("line 1: a trace begins with"), "{said}");
    }

    #[test]
    fn numbers_lead_to_their_events() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind as u32), Some(kind));
        }
        assert_eq!(Kind::from_number(31), None);
    }
}
