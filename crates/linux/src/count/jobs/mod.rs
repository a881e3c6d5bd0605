//! Counters of the jobs within one start of a program.
//!
//! Problem: a program that goes on has its jobs inside: calls of a function, or what it does from
//! one sleep to the next. Rule: the counters are one group with the event that bounds the jobs, and
//! the kernel writes the whole group's counts into each of that event's records. So counts and
//! bounds belong to the same instant, and nothing is scaled. A function is bounded by probes at its
//! entry and its return; the outermost call is the job. A wakeup's job ends when the thread goes to
//! sleep interruptibly (`sched_switch`), and the next begins there, because no event of a thread
//! counts while it sleeps. The first begins with the program, the last ends with it.
//! Source: perf_event_open(2) (`PERF_SAMPLE_READ`, `PERF_FORMAT_GROUP`), `clients::functions` for
//! the kinds of jobs.
//! Does not cover: jobs of further threads and of children. Calls of the function by other
//! processes on any CPU are counted separately, and refused. A call counts its two probes as well,
//! some microseconds of the kernel.

use super::addresses::tracepoint;
use super::child::{self, Refused, Start};
use super::counters::{Counter, Counters, refused};
use super::listener::{Listener, Taker};
use super::records::{self, Fields, GROUP_WITH_NUMBERS, Record, Sample};
use crate::error::LinuxError;
use crate::host::machine;
use crate::sys::ring::{self, Ring};
use crate::sys::{self, PERF_DISABLED, PERF_ON_EXEC, PERF_PINNED, PerfAttr, Whom};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Unit of probes at places of programs.
const UPROBE: &str = "/sys/bus/event_source/devices/uprobe/type";
const TRACEPOINT: u32 = 2;
/// A probe's `config`: at the return of the function that begins there.
const AT_RETURN: u64 = 1;

/// Bounds of the jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Calls of the function that begins at this byte of a file.
    Function {
        /// The program.
        file: PathBuf,
        /// Where in it the function begins, bytes.
        offset: u64,
    },
    /// Sleeps of the program's first thread.
    Wakeup,
}

/// Jobs of one start, or of its passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// From entry to return, ns; empty for wakeups, where the time asleep is not counted.
    pub times_ns: Vec<u64>,
    /// By counter, in their order: each job's count.
    pub counts: Vec<Vec<u64>>,
    /// Calls within calls, which are not jobs.
    pub nested: u64,
    /// Calls that had not returned when the program ended, which are not jobs.
    pub open: u64,
}

impl Counters {
    /// Counts the jobs of a start.
    ///
    /// # Errors
    /// [`Refused`]: also if records were lost, or the function was called elsewhere.
    pub fn inside(&mut self, start: &Start<'_>, bounds: &Bounds) -> Result<Inside, Refused> {
        let events = Bounding::of(bounds)?;
        let mut inside =
            Inside { counts: vec![Vec::new(); self.counters.len()], ..Inside::default() };
        let mut at = 0;
        while let Some(pass) = self.passes.get(at).cloned() {
            let counters: Vec<&Counter> = pass.iter().map(|&n| &self.counters[n]).collect();
            let seen = once(start, self.cpu, &events, &counters)?;
            if seen.whole {
                for (&n, values) in pass.iter().zip(seen.counts) {
                    inside.counts[n] = values;
                }
                inside.nested = inside.nested.max(seen.nested);
                inside.open = inside.open.max(seen.depth);
                inside.times_ns = seen.times_ns;
                at += 1;
            } else {
                self.divide(at)?;
            }
        }
        Ok(inside)
    }
}

/// The events that bound the jobs.
struct Bounding {
    /// Its records end jobs, and it leads the group.
    ends: PerfAttr,
    /// Its records begin jobs; without it an end is a beginning.
    begins: Option<PerfAttr>,
    /// Filter of the kernel for its records.
    filter: Option<&'static str>,
    /// The probes' file, which the attributes point to.
    _file: CString,
}

impl Bounding {
    fn of(bounds: &Bounds) -> Result<Self, LinuxError> {
        match bounds {
            Bounds::Function { file, offset } => {
                let kind = std::fs::read_to_string(UPROBE).ok().and_then(|t| t.trim().parse().ok());
                let kind: u32 = kind.ok_or_else(|| {
                    LinuxError::Machine(
                        "calls of a function cannot be measured: the kernel has no uprobes \
                            (CONFIG_UPROBE_EVENTS); measure whole starts, without --job"
                            .to_owned(),
                    )
                })?;
                let name = path(file)?;
                let probe = |config| PerfAttr {
                    kind,
                    config,
                    config1: name.as_ptr().expose_provenance() as u64,
                    config2: *offset,
                    ..PerfAttr::default()
                };
                let (ends, begins) = (probe(AT_RETURN), Some(probe(0)));
                Ok(Self { ends, begins, filter: None, _file: name })
            }
            Bounds::Wakeup => {
                let config = tracepoint("sched/sched_switch").map_err(|e| {
                    LinuxError::of_io("the tracepoint sched_switch", &e, "run as root")
                })?;
                let ends = PerfAttr { kind: TRACEPOINT, config, ..PerfAttr::default() };
                // TASK_INTERRUPTIBLE: neither preempted nor waiting for a disk.
                let filter = Some("prev_state & 1");
                Ok(Self { ends, begins: None, filter, _file: CString::default() })
            }
        }
    }
}

fn path(file: &Path) -> Result<CString, LinuxError> {
    CString::new(file.as_os_str().as_bytes()).map_err(|_| {
        LinuxError::Input(format!(
            "{}: a path cannot hold NUL",
            file.display().to_string().escape_debug()
        ))
    })
}

/// The open events of a pass.
struct Group {
    leader: OwnedFd,
    /// All that count or bound; they end when these are dropped.
    members: Vec<OwnedFd>,
    /// All calls of the function, by CPU; empty for wakeups.
    everywhere: Vec<OwnedFd>,
}

/// Runs the program once with these counters.
fn once(
    start: &Start<'_>,
    cpu: u32,
    events: &Bounding,
    counters: &[&Counter],
) -> Result<Jobs, Refused> {
    let mut listener = None;
    let ran = child::run(start, cpu, |pid| {
        let (group, ring, jobs) = open(events, counters, pid)?;
        listener = Some(Listener::begin(ring, jobs));
        Ok(group)
    });
    let jobs = listener.and_then(Listener::end);
    let (_, group) = ran?;
    let again = || {
        LinuxError::Machine("the counts of jobs cannot be read; start solocore again".to_owned())
    };
    let mut jobs = jobs.ok_or_else(again)?;
    let (whole, counts) = sys::perf_read_numbered(&group.leader, group.members.len() + 1)
        .map_err(|e| LinuxError::of_io("the counts of jobs", &e, "start solocore again"))?;
    jobs.whole &= whole;
    if jobs.broken {
        return Err(again().into());
    }
    if jobs.lost > 0 {
        return Err(LinuxError::Machine(format!(
            "{} records of jobs were lost, because jobs follow each other too fast, so their \
            counts are not known; choose a function that is called less often",
            jobs.lost
        ))
        .into());
    }
    if events.begins.is_none() {
        // The last job ends with the program.
        jobs.bound(&counts, 0);
    }
    let calls: std::io::Result<u64> = group.everywhere.iter().map(sys::perf_read).sum();
    let all = calls
        .map_err(|e| LinuxError::of_io("the calls of all threads", &e, "start solocore again"))?;
    if all > jobs.entered && jobs.whole {
        return Err(LinuxError::Input(format!(
            "{} of {all} calls were made by other threads or processes, whose jobs are not counted; \
                choose a function that only the program's first thread calls, and end other \
                programs that run this file",
            all - jobs.entered
        ))
        .into());
    }
    Ok(jobs)
}

fn open(
    events: &Bounding,
    counters: &[&Counter],
    pid: u32,
) -> Result<(Group, Ring, Jobs), LinuxError> {
    let bounds = |e: std::io::Error| {
        let remedy = "run as root; probes need CONFIG_UPROBES, and a file that is not a script";
        LinuxError::of_io("what bounds the jobs", &e, remedy)
    };
    let whom = Whom::Process(pid);
    let begins = PERF_DISABLED | PERF_ON_EXEC;
    let sampled = |attributes: &PerfAttr, flags| PerfAttr {
        sample_period: 1,
        sample_type: Fields::Counts.sample_type(),
        read_format: GROUP_WITH_NUMBERS,
        flags,
        ..*attributes
    };
    let leader = sys::perf_open(&sampled(&events.ends, begins), whom).map_err(bounds)?;
    if let Some(text) = events.filter {
        ring::filter(&leader, text).map_err(bounds)?;
    }
    let ring = Ring::new(&leader).map_err(bounds)?;
    let mut jobs = Jobs::new(counters.len(), ring::id(&leader).map_err(bounds)?);
    let mut members = Vec::new();
    let mut everywhere = Vec::new();
    if let Some(attributes) = &events.begins {
        let entry = sampled(attributes, 0);
        let entry = sys::perf_open_beside(&entry, whom, Some(&leader)).map_err(bounds)?;
        ring::write_into(&entry, &leader).map_err(bounds)?;
        jobs.entry = Some(ring::id(&entry).map_err(bounds)?);
        members.push(entry);
        // Children cannot inherit a probe: the kernel would read its path in their memory, and the
        // program's fork would fail.
        for cpu in machine::online_cpus()? {
            everywhere.push(sys::perf_open(attributes, Whom::Cpu(cpu)).map_err(bounds)?);
        }
    }
    for counter in counters {
        let flags = counter.attributes.flags & !(PERF_PINNED | PERF_DISABLED);
        let attributes = PerfAttr { flags, read_format: GROUP_WITH_NUMBERS, ..counter.attributes };
        let opened = sys::perf_open_beside(&attributes, whom, Some(&leader));
        let opened = opened.map_err(|e| refused(counter, &e))?;
        jobs.numbers.push(ring::id(&opened).map_err(bounds)?);
        members.push(opened);
    }
    Ok((Group { leader, members, everywhere }, ring, jobs))
}

/// Makes jobs of records.
#[derive(Debug, Default)]
struct Jobs {
    /// Numbers of the events at jobs' ends, at their beginnings, and of the counters.
    end: u64,
    entry: Option<u64>,
    numbers: Vec<u64>,
    /// Calls under way.
    depth: u64,
    entered: u64,
    nested: u64,
    /// When the job under way began, and the counts then.
    begun: Option<(u64, Vec<u64>)>,
    times_ns: Vec<u64>,
    counts: Vec<Vec<u64>>,
    lost: u64,
    broken: bool,
    /// The group counted all the time.
    whole: bool,
}

impl Jobs {
    fn new(counters: usize, end: u64) -> Self {
        let counts = vec![Vec::new(); counters];
        // Sleeps bound jobs on both sides: the first begins with the program.
        let begun = Some((0, vec![0; counters]));
        Self { end, counts, begun, whole: true, ..Self::default() }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.whole &= sample.enabled_ns == sample.running_ns;
        if Some(sample.event) == self.entry {
            self.entered += 1;
            self.depth += 1;
            if self.depth == 1 {
                self.begun = self.values(&sample.counts).map(|v| (sample.time_ns, v));
            } else {
                self.nested += 1;
            }
        } else if sample.event == self.end && self.entry.is_none() {
            self.bound(&sample.counts, sample.time_ns);
        } else if sample.event == self.end && self.depth > 0 {
            self.depth -= 1;
            if self.depth == 0
                && let Some((then, _)) = self.begun
            {
                self.times_ns.push(sample.time_ns.saturating_sub(then));
                self.bound(&sample.counts, sample.time_ns);
                self.begun = None;
            }
        }
    }

    /// A job ends, and the next may begin.
    fn bound(&mut self, counts: &[(u64, u64)], time_ns: u64) {
        let Some(values) = self.values(counts) else { return };
        if let Some((_, before)) = &self.begun {
            for ((all, now), before) in self.counts.iter_mut().zip(&values).zip(before) {
                all.push(now.saturating_sub(*before));
            }
        }
        self.begun = Some((time_ns, values));
    }

    /// The counters' counts, in their order.
    fn values(&mut self, counts: &[(u64, u64)]) -> Option<Vec<u64>> {
        let of = |number: &u64| counts.iter().find(|(n, _)| n == number).map(|(_, count)| *count);
        let values: Option<Vec<u64>> = self.numbers.iter().map(of).collect();
        self.broken |= values.is_none();
        values
    }
}

impl Taker for Jobs {
    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(record) = records::next(&mut bytes, Fields::Counts) {
            match record {
                Ok(Record::Sample(sample)) => self.sample(&sample),
                Ok(Record::Lost(records)) => self.lost += records,
                // Those that are missing are jobs that nobody saw.
                Ok(Record::Throttled) => self.lost += 1,
                Ok(_) => {}
                Err(records::Broken) => {
                    self.broken = true;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
