//! Probes at functions of unmodified programs, for their jobs and their sections of the lock.
//!
//! Problem: BWLOCK and dynamic budgets need a signal when a section or a job begins, and an
//! unmodified program sends none. Rule: BPF programs (bpf/functions.bpf.c) write the program's page
//! in its place, as it enters and leaves a function, or as it wakes and goes to sleep. Its pages
//! are those of `crate::clients`, so the rest of solocore needs no change.
//! Source: bwlock, section 4.2; dynamic-budgeting, section IV.
//! Does not cover: programs in a virtual machine, or in a container with its own process numbers.
//! Probes see the first namespace of the machine only.

mod symbols;

pub use symbols::Function;

use super::table::Page;
use crate::contract::{
    self, RUN_CALL_JOB, RUN_CALL_SECTION, RUN_WATCHED, run_ended_job, run_seen, run_watched,
};
use crate::error::LinuxError;
use crate::host::threads::start_of;
use crate::regulate::bpf::{self, inside};
use libbpf_rs::{Link, Object, ProgramMut, RingBufferBuilder, UprobeOpts};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, BorrowedFd};
use zerocopy::FromZeros;

/// Programs that are called at events of the whole machine.
const AT_ENDS: [&str; 2] = ["ends", "becomes"];
const AT_WAKEUPS: [&str; 3] = ["woken", "slept", "job_ends"];

/// Meaning of a call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The call holds the bandwidth lock.
    Section,
    /// The call is a job.
    Job,
}

impl Call {
    fn number(self) -> u32 {
        match self {
            Self::Section => RUN_CALL_SECTION,
            Self::Job => RUN_CALL_JOB,
        }
    }
}

/// Counts and times of a program's calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Calls {
    /// Number of outermost calls that have ended.
    pub made: u64,
    /// Number of calls within such a call.
    pub nested: u64,
    /// Number of calls that were left without a return.
    pub abandoned: u64,
    /// Sum of the times of these calls, in nanoseconds.
    pub sum_ns: u64,
    /// Time of the longest call, in nanoseconds.
    pub longest_ns: u64,
}

/// A job that has ended. Times by `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedJob {
    pub program: u32,
    pub begun_ns: u64,
    pub ended_ns: u64,
}

/// Probes in programs, until this is dropped.
pub struct Watch {
    object: Object,
    links: Vec<Link>,
}

impl Watch {
    /// Loads the programs; `wakeups`: a job of some program begins when it wakes up.
    ///
    /// # Errors
    /// The kernel refuses the programs.
    pub fn open(wakeups: bool) -> Result<Self, LinuxError> {
        let object = bpf::load_object(bpf::FUNCTIONS, |open| {
            for mut program in open.progs_mut() {
                let name = program.name().to_owned();
                if AT_WAKEUPS.iter().any(|&n| name == n) {
                    program.set_autoload(wakeups);
                }
            }
            Ok(())
        })?;
        let mut watch = Self { object, links: Vec::new() };
        let more = if wakeups { &AT_WAKEUPS[..] } else { &[] };
        for name in AT_ENDS.iter().chain(more) {
            let link = watch.program(name)?.attach().map_err(|e| refused(name, &e))?;
            watch.links.push(link);
        }
        Ok(watch)
    }

    fn program(&self, name: &str) -> Result<ProgramMut<'_>, LinuxError> {
        let found = self.object.progs_mut().find(|p| p.name() == name);
        found.ok_or_else(|| inside(&format!("there is no program `{name}`")))
    }

    /// Adds a program's page, and the process whose calls count, together with its descendants. For
    /// a thread's number, the processes that the thread starts count. `started`: in hundredths of a
    /// second since boot.
    ///
    /// # Errors
    /// Too many programs.
    pub fn add(
        &self,
        program: u32,
        page: BorrowedFd<'_>,
        (number, started): (u32, u64),
        wakeups: bool,
    ) -> Result<(), LinuxError> {
        let full = |e| {
            LinuxError::Machine(format!(
                "functions of program {program} cannot be watched: {e}; at most {RUN_WATCHED} \
                    programs can"
            ))
        };
        let whose = run_watched { started, program, wakeups: wakeups.into() };
        let pages = bpf::map(&self.object, "watched_pages")?;
        contract::put(&pages, program, &page.as_raw_fd()).map_err(full)?;
        contract::put(&bpf::map(&self.object, "watched")?, number, &whose).map_err(full)
    }

    /// Counts calls of a function by a program from now on.
    ///
    /// # Errors
    /// The kernel sets no probe there.
    pub fn call(
        &mut self,
        program: u32,
        function: &Function,
        call: Call,
    ) -> Result<(), LinuxError> {
        let cookie = u64::from(program) << 1 | u64::from(call.number());
        // The probe at the return comes first: an entry without a seen return would hold the lock.
        for (name, retprobe) in [("returned", true), ("entered", false)] {
            let options = UprobeOpts { cookie, retprobe, ..UprobeOpts::default() };
            let offset = usize::try_from(function.offset).unwrap_or(usize::MAX);
            let link = self
                .program(name)?
                .attach_uprobe_with_opts(-1, &function.file, offset, options)
                .map_err(|e| refused(&format!("function `{}`", function.name), &e))?;
            self.links.push(link);
        }
        Ok(())
    }

    /// Counts and times of a program's calls so far.
    pub fn seen(&self, program: u32, call: Call) -> Calls {
        let seen = bpf::map(&self.object, "watched_seen")
            .ok()
            .and_then(|map| contract::look_up::<run_seen>(&map, program).ok()?)
            .unwrap_or_else(run_seen::new_zeroed);
        let calls = seen.calls[call.number() as usize];
        Calls {
            made: calls.made,
            nested: calls.nested,
            abandoned: calls.abandoned,
            sum_ns: calls.sum_ns,
            longest_ns: calls.longest_ns,
        }
    }

    /// Takes the jobs that have ended since the last call.
    pub(crate) fn ended(&self) -> Vec<EndedJob> {
        let jobs = RefCell::new(Vec::new());
        let Ok(map) = bpf::map(&self.object, "ended_jobs") else { return Vec::new() };
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            let job: run_ended_job = contract::read(bytes);
            jobs.borrow_mut().push(EndedJob {
                program: job.program,
                begun_ns: job.begun_ns,
                ended_ns: job.ended_ns,
            });
            0
        };
        if builder.add(&map, take).is_ok()
            && let Ok(ring) = builder.build()
        {
            let _ = ring.consume_raw();
        }
        jobs.take()
    }
}

/// A probe at a function of this program itself, which measures the probe's cost. It is removed
/// when this is dropped.
pub struct OwnProbe {
    watch: Watch,
    _page: Page,
}

impl OwnProbe {
    /// Sets a probe at this address. `own`: calls of this process count; else no calls count.
    ///
    /// # Errors
    /// The kernel sets no probe there.
    pub fn at(address: u64, own: bool) -> Result<Self, LinuxError> {
        let (me, page) = (std::process::id(), Page::new()?);
        let function = Function::at(address)
            .ok_or_else(|| inside(&format!("nothing is mapped at {address:#x}")))?;
        let mut watch = Watch::open(false)?;
        if own {
            watch.add(0, page.descriptor(), (me, start_of(me, me).unwrap_or(0)), false)?;
        }
        watch.call(0, &function, Call::Section)?;
        Ok(Self { watch, _page: page })
    }

    /// Number of outermost calls that have ended.
    pub fn made(&self) -> u64 {
        self.watch.seen(0, Call::Section).made
    }
}

fn refused(what: &str, error: &libbpf_rs::Error) -> LinuxError {
    LinuxError::Machine(format!(
        "{what} cannot be watched: {error}; it needs uprobes (CONFIG_UPROBES), root, and Linux \
            5.15 or newer"
    ))
}

#[cfg(test)]
mod tests;
