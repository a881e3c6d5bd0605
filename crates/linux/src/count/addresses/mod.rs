//! Samples of the addresses that a program accesses, among the steps by which its memory came to
//! be.
//!
//! Problem: an address says nothing of the next run; a region and an offset do. The names of
//! regions follow from the order of the program's calls of mmap, munmap, mremap and brk (the
//! emulator's profile names them so). Rule: one start of the program is sampled apart from the jobs
//! that are counted. The kernel tells what it mapped as the program began, the calls from then on
//! (`raw_syscalls`), and the samples, all in one ring, so that each sample meets the memory as it
//! was. The caller follows the steps and names the regions.
//! Source: perf_event_open(2).
//! Does not cover: children, and a program that takes the first one's place by execve (both are
//! counted as elsewhere); samples of a program that moves itself to another CPU.

use super::address_event::AddressEvent;
use super::child::{self, Refused, Start};
use super::listener::{Listener, Taker};
use super::records::{self, Fields, Record, Sample};
use crate::error::LinuxError;
use crate::sys::ring::{self, Ring};
use crate::sys::{
    self, PERF_DISABLED, PERF_INHERIT, PERF_MAPPINGS, PERF_NAMES, PERF_ON_EXEC, PerfAttr, Whom,
};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

const TRACEPOINT: u32 = 2;
/// MAP_ANONYMOUS and PROT_WRITE, the same on all of these machines.
const ANONYMOUS: u64 = 0x20;
const WRITE: u64 = 2;

/// The calls that change memory. Machines of 32 bits have others.
#[cfg(target_pointer_width = "64")]
const CALLS: Option<[i64; 4]> =
    Some([libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_brk]);
#[cfg(not(target_pointer_width = "64"))]
const CALLS: Option<[i64; 4]> = None;

/// A step of the program. Addresses and lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The kernel mapped this before the program's first call: `name` is a file, or what the kernel
    /// calls it (`[stack]`, `//anon`).
    Given {
        /// Its first address.
        start: u64,
        /// Its bytes.
        length: u64,
        /// Where in the file it begins.
        offset: u64,
        /// The program may write there.
        writable: bool,
        /// The file, or the kernel's word.
        name: PathBuf,
    },
    /// A successful mmap.
    Mapped {
        /// Its first address.
        start: u64,
        /// Its bytes, whole pages.
        length: u64,
        /// The program may write there.
        writable: bool,
        /// The file, and where in it the mapping begins; `None`: anonymous memory.
        file: Option<(PathBuf, u64)>,
    },
    /// A range was unmapped.
    Unmapped {
        /// Its first address.
        start: u64,
        /// Its bytes, whole pages.
        length: u64,
    },
    /// The end of the heap.
    Break(u64),
    /// A sample: this address was accessed.
    Access(u64),
}

/// Counts of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Samples of the program, each of them a [`Step::Access`].
    pub samples: u64,
    /// Samples of its children, of a program in its place, of the kernel, or of data that a cache
    /// had.
    pub elsewhere: u64,
    /// Records that the kernel could not write.
    pub lost: u64,
    /// How often the kernel stopped the event for a while.
    pub throttled: u64,
}

/// Starts the program once on a CPU, and tells its steps in their order.
///
/// # Errors
/// [`Refused`]; the machine has no tracepoints of system calls, or this process may not use them.
pub fn sample(
    start: &Start<'_>,
    cpu: u32,
    event: &AddressEvent,
    told: impl FnMut(Step) + Send + 'static,
) -> Result<Sampled, Refused> {
    let calls = Calls::find()?;
    let mut listener = None;
    let open = |pid| {
        let events = open(&calls, event, Whom::ProcessOn(pid, cpu)).map_err(|e| {
            LinuxError::of_io(
                &format!("samples of event {}", event.name),
                &e,
                "run as root, and end other programs that sample (perf)",
            )
        })?;
        let follower = Follower::new(event.clone(), pid, events.numbers, told);
        listener = Some(Listener::begin(events.ring, follower));
        Ok(events.open)
    };
    let ran = child::run(start, cpu, open);
    let follower = listener.and_then(Listener::end);
    let (_, events) = ran?;
    drop(events);
    match follower {
        Some(follower) if !follower.broken => Ok(follower.sampled),
        _ => Err(LinuxError::Machine(
            "the kernel's records of samples cannot be read, because this kernel has another \
            format; profile without --sample-addresses"
                .to_owned(),
        )
        .into()),
    }
}

/// Tracepoints of the system calls that change memory.
struct Calls {
    enter: u64,
    exit: u64,
    filter: String,
}

impl Calls {
    fn find() -> Result<Self, LinuxError> {
        let Some(calls) = CALLS else {
            return Err(LinuxError::Machine(
                "--sample-addresses: machines of 32 bits are not covered; profile without it"
                    .to_owned(),
            ));
        };
        let remedy = "run as root, on a kernel with CONFIG_FTRACE_SYSCALLS";
        let number = |name| {
            tracepoint(&format!("raw_syscalls/{name}"))
                .map_err(|e| LinuxError::of_io("tracepoints of system calls", &e, remedy))
        };
        let filter: Vec<String> = calls.iter().map(|number| format!("id == {number}")).collect();
        let filter = filter.join(" || ");
        Ok(Self { enter: number("sys_enter")?, exit: number("sys_exit")?, filter })
    }
}

/// The number of a tracepoint.
pub(super) fn tracepoint(name: &str) -> io::Result<u64> {
    let mut text = String::new();
    let mut file = sys::open_at(&sys::tracefs()?, &format!("events/{name}/id"), false)?;
    io::Read::read_to_string(&mut file, &mut text)?;
    text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Numbers of the events in records.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    sample: u64,
    enter: u64,
    exit: u64,
}

struct Events {
    ring: Ring,
    numbers: Numbers,
    /// They end when these are dropped.
    open: Vec<OwnedFd>,
}

fn open(calls: &Calls, event: &AddressEvent, whom: Whom) -> io::Result<Events> {
    let begins = PERF_DISABLED | PERF_ON_EXEC;
    let of = |attributes: &PerfAttr, flags: u64| PerfAttr {
        sample_type: Fields::Addresses.sample_type(),
        flags: attributes.flags | PERF_INHERIT | flags,
        ..*attributes
    };
    let mut open = Vec::new();
    let sampling = PerfAttr { sample_period: event.period, ..event.attributes };
    let sampling = match &event.leader {
        None => sys::perf_open(&of(&sampling, begins | PERF_MAPPINGS | PERF_NAMES), whom)?,
        Some(leader) => {
            let leader = sys::perf_open(&of(leader, begins), whom)?;
            let follows = of(&sampling, PERF_MAPPINGS | PERF_NAMES);
            let sampling = sys::perf_open_beside(&follows, whom, Some(&leader))?;
            open.push(leader);
            sampling
        }
    };
    let ring = Ring::new(&sampling)?;
    let mut numbers = Numbers { sample: ring::id(&sampling)?, ..Numbers::default() };
    for (config, number) in [(calls.enter, &mut numbers.enter), (calls.exit, &mut numbers.exit)] {
        let call = PerfAttr { kind: TRACEPOINT, config, sample_period: 1, ..PerfAttr::default() };
        let call = sys::perf_open(&of(&call, begins), whom)?;
        ring::filter(&call, &calls.filter)?;
        ring::write_into(&call, &sampling)?;
        *number = ring::id(&call)?;
        open.push(call);
    }
    open.push(sampling);
    Ok(Events { ring, numbers, open })
}

/// A call that has not returned.
struct Pending {
    call: i64,
    arguments: [u64; 6],
}

/// Makes steps of records.
struct Follower<F> {
    event: AddressEvent,
    process: u32,
    numbers: Numbers,
    /// Programs that the process has become.
    programs: u32,
    /// The program has made its first call.
    begun: bool,
    /// By thread.
    pending: HashMap<u32, Pending>,
    /// What was mapped last: start, file and offset.
    mapped: Option<(u64, PathBuf, u64)>,
    broken: bool,
    sampled: Sampled,
    told: F,
}

impl<F: FnMut(Step) + Send + 'static> Taker for Follower<F> {
    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(record) = records::next(&mut bytes, Fields::Addresses) {
            match record {
                Ok(record) => self.follow(record),
                Err(records::Broken) => {
                    self.broken = true;
                    return;
                }
            }
        }
    }
}

impl<F: FnMut(Step)> Follower<F> {
    /// Before the first record.
    fn new(event: AddressEvent, process: u32, numbers: Numbers, told: F) -> Self {
        Self {
            event,
            process,
            numbers,
            programs: 0,
            begun: false,
            pending: HashMap::new(),
            mapped: None,
            broken: false,
            sampled: Sampled::default(),
            told,
        }
    }

    fn follow(&mut self, record: Record<'_>) {
        match record {
            Record::Lost(records) => self.sampled.lost += records,
            Record::Throttled => self.sampled.throttled += 1,
            Record::Became { process } if process == self.process => self.programs += 1,
            Record::Mapped { process, start, length, offset, writable, name }
                if process == self.process && self.programs < 2 =>
            {
                // The stack grows without a call.
                if !self.begun || name.as_os_str() == "[stack]" {
                    (self.told)(Step::Given { start, length, offset, writable, name });
                } else {
                    self.mapped = Some((start, name, offset));
                }
            }
            Record::Sample(sample) => self.sample(&sample),
            _ => {}
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let own = sample.process == self.process && self.programs < 2;
        if sample.event == self.numbers.sample {
            let seen = self.event.stands_in.is_some() || sample.in_program;
            if own && seen && self.event.is_of_memory(sample.source) {
                self.sampled.samples += 1;
                (self.told)(Step::Access(sample.address));
            } else {
                self.sampled.elsewhere += 1;
            }
        } else if own && sample.event == self.numbers.enter {
            self.begun = true;
            if let (Some(call), Some(arguments)) = (long(sample.raw, 0), arguments(sample.raw)) {
                self.pending.insert(sample.thread, Pending { call: call.cast_signed(), arguments });
            }
        } else if own && sample.event == self.numbers.exit {
            let pending = self.pending.remove(&sample.thread);
            if let (Some(pending), Some(result)) = (pending, long(sample.raw, 1))
                && !(-4095..0).contains(&result.cast_signed())
                && let Some(step) = self.returned(&pending, result)
            {
                (self.told)(step);
            }
        }
    }

    /// The change of memory by a call that succeeded.
    fn returned(&mut self, pending: &Pending, result: u64) -> Option<Step> {
        let [map, unmap, remap, brk] = CALLS?;
        let [start, length, third, flags, _, from] = pending.arguments;
        let whole = |length: u64| length.checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        match pending.call {
            call if call == map => {
                let known = self.mapped.take().filter(|(at, ..)| *at == result);
                let known = known.map_or((PathBuf::new(), from), |(_, name, at)| (name, at));
                let file = (flags & ANONYMOUS == 0).then_some(known);
                let (length, writable) = (whole(length), third & WRITE != 0);
                Some(Step::Mapped { start: result, length, writable, file })
            }
            call if call == unmap => Some(Step::Unmapped { start, length: whole(length) }),
            call if call == remap => {
                (self.told)(Step::Unmapped { start, length: whole(length) });
                let length = whole(third);
                Some(Step::Mapped { start: result, length, writable: true, file: None })
            }
            call if call == brk => Some(Step::Break(result)),
            _ => None,
        }
    }
}

/// A number in a record of a tracepoint of system calls, behind the eight bytes that all have.
fn long(raw: &[u8], at: usize) -> Option<u64> {
    let bytes = raw.get(8 + 8 * at..16 + 8 * at)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

fn arguments(raw: &[u8]) -> Option<[u64; 6]> {
    let mut all = [0; 6];
    for (at, argument) in all.iter_mut().enumerate() {
        *argument = long(raw, at + 1)?;
    }
    Some(all)
}

#[cfg(test)]
mod tests;
