//! Programs that were recorded: the streams of `solocore profile`, and text traces of others.
//!
//! Problem: a real program's accesses are neither random nor regular. Rule: a recording is replayed
//! operation by operation; a pass is one job of it. A stream of `solocore profile` enters at the
//! shared cache, because the private caches were modelled when it was recorded. So the cost of a
//! preemption in these caches is added here: the lines that the job read last are read again, up to
//! the caches' capacity (as the bounds charge it). A stream has the cycles of the platform's least
//! cycles per instruction. On a core that needs more, all its times are stretched alike, so that a
//! job computes for the time that a plan has.
//!
//! Not covered: a program whose accesses depend on time. Text traces are described in `text`.

use super::jobs::{BATCH, Pattern};
use super::recording::{MAX_OPS, Recording};
use super::streams::Streams;
use super::{BuildContext, WorkloadError, spread, text};
use crate::program::{Entry, Op, OpKind};
use rustc_hash::FxHashSet;
use solocore_cache::trace;
use solocore_model::profile::PageName;
use solocore_model::{Profile, files};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

/// Latest cycle of a recording: 8 days at 1.5 GHz. A later one is damage.
const MAX_CYCLE: u64 = 1 << 50;

/// A recording and the position of its replay.
#[derive(Debug)]
pub(super) struct Replay {
    recording: Recording,
    /// Number of the job.
    job: usize,
    at: usize,
    /// Lines to read again when resumed.
    reload: usize,
}

impl Replay {
    pub(super) fn new(recording: Recording, reload: usize) -> Self {
        Self { recording, job: 0, at: 0, reload }
    }

    fn start(&self) -> usize {
        self.job.checked_sub(1).map_or(0, |last| self.recording.jobs[last])
    }

    fn next_job(&mut self) {
        self.job = (self.job + 1) % self.recording.jobs.len();
        self.at = self.start();
    }
}

impl Pattern for Replay {
    fn fill(&mut self, out: &mut Vec<Op>) -> bool {
        let end = self.recording.jobs[self.job];
        let to = end.min(self.at + usize::try_from(BATCH).unwrap_or(1));
        out.extend_from_slice(&self.recording.ops[self.at..to]);
        self.at = to;
        if to == end {
            self.next_job();
        }
        to == end
    }

    fn rewind(&mut self) {
        if self.at != self.start() {
            self.next_job();
        }
    }

    /// Counted from the operations handed out, up to one refill ahead of execution.
    fn resumed(&self, out: &mut Vec<Op>) {
        let first = out.len();
        let mut seen = FxHashSet::default();
        for op in self.recording.ops[self.start()..self.at].iter().rev() {
            if seen.len() == self.reload {
                break;
            }
            if matches!(op.kind(), OpKind::Load | OpKind::LoadWait | OpKind::Fetch)
                && seen.insert(op.line())
            {
                out.push(Op::access(OpKind::LoadWait, 0, op.line()));
            }
        }
        out[first..].reverse();
    }
}

/// Reads any trace file; the first bytes tell its kind.
pub(super) fn open(path: &Path, ctx: &BuildContext) -> Result<(Recording, Entry), WorkloadError> {
    let io = |e: std::io::Error| {
        WorkloadError::trace(path, None, format!("cannot read: {e}; give the name of a trace"))
    };
    let mut file = File::open(path).map_err(io)?;
    let mut head = Vec::new();
    (&mut file).take(8).read_to_end(&mut head).map_err(io)?;
    file.rewind().map_err(io)?;
    if head == *b"solotrc1" {
        return Ok((recorded(path, file, ctx, None, None)?, Entry::Shared));
    }
    let input: Box<dyn Read> = match head.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(zstd::stream::read::Decoder::new(file).map_err(io)?)
        }
        _ => Box::new(file),
    };
    Ok((text::read(path, BufReader::new(input), ctx)?, Entry::Private))
}

/// Properties of the trace according to its profile.
struct Expected {
    records: u64,
    cycles: u64,
    pages: u32,
    /// Cycles of the core, and those of the profile in the same time.
    stretch: (u64, u64),
}

impl Expected {
    /// The cycle of the core at a cycle of the stream.
    fn on_core(&self, cycle: u64) -> u64 {
        let (own, profiled) = self.stretch;
        let at = u128::from(cycle) * u128::from(own) / u128::from(profiled.max(1));
        u64::try_from(at).unwrap_or(u64::MAX)
    }
}

/// Reads a stream that `solocore profile` recorded. With `streams`, the core does not wait for
/// reads that continue a stream.
fn recorded(
    path: &Path,
    file: File,
    ctx: &BuildContext,
    expected: Option<&Expected>,
    mut streams: Option<Streams>,
) -> Result<Recording, WorkloadError> {
    let (mut ops, mut last, mut top, mut fault) = (Vec::new(), 0, 0, None);
    let mut record = 0u64;
    let outcome = trace::read(BufReader::new(file), |a| {
        record += 1;
        let a = trace::Access {
            at_cycles: expected.map_or(a.at_cycles, |e| e.on_core(a.at_cycles)),
            ..a
        };
        if a.line >= ctx.max_lines()
            || ops.len() >= MAX_OPS
            || !(last..MAX_CYCLE).contains(&a.at_cycles)
        {
            fault.get_or_insert((record, a));
            return;
        }
        let kind = match OpKind::recorded(a.kind) {
            OpKind::LoadWait if streams.as_mut().is_some_and(|s| s.goes_on(a.line)) => OpKind::Load,
            kind => kind,
        };
        spread::access(kind, a.at_cycles - last, a.line, &mut ops);
        (last, top) = (a.at_cycles, top.max(a.line));
    });
    let count = outcome.map_err(|e| WorkloadError::trace(path, None, e.to_string()))?;
    if let Some((record, a)) = fault {
        let message = if ops.len() >= MAX_OPS {
            format!("is longer than {MAX_OPS} operations; record a shorter run")
        } else {
            format!(
                "line {:#x} at cycle {} is out of range or order; record it again",
                a.line, a.at_cycles
            )
        };
        return Err(WorkloadError::trace(path, Some(format!("record {record}")), message));
    }
    let needed = top / u64::from(ctx.lines_per_page) + 1;
    let mut pages = u32::try_from(needed).unwrap_or(u32::MAX);
    if let Some(expected) = expected {
        if expected.records != count || needed > u64::from(expected.pages) {
            let message = format!(
                "has {count} records on {needed} pages, the profile {} on {}",
                expected.records, expected.pages
            );
            return Err(WorkloadError::trace(path, None, format!("{message}; profile again")));
        }
        let cycles = expected.on_core(expected.cycles);
        spread::compute(cycles.min(MAX_CYCLE).saturating_sub(last), &mut ops);
        pages = expected.pages;
    }
    if ops.is_empty() {
        return Err(WorkloadError::trace(
            path,
            None,
            "has no records; record a run that accesses memory".to_owned(),
        ));
    }
    let jobs = vec![ops.len()];
    Ok(Recording { ops, jobs, pages })
}

/// Reads a profile and its trace; returns the name of each page, too. With `streams`, the core does
/// not wait for reads that continue a stream.
pub(super) fn profile(
    path: &Path,
    streams: bool,
    ctx: &BuildContext,
) -> Result<(Recording, Vec<Option<PageName>>), WorkloadError> {
    let profile: Profile = files::read_json(path)?;
    let refuse = |message: String| Err(WorkloadError::trace(path, None, message));
    let fits = |g: &Option<String>| g.as_ref().is_some_and(|g| *g == profile.geometry);
    if ctx.geometry.is_some() && !fits(&ctx.geometry) && !fits(&ctx.own_geometry) {
        return refuse(format!(
            "was made for the caches of {}, not for this platform's; profile again",
            profile.platform
        ));
    }
    let Some(reference) = &profile.trace else {
        return refuse("has no trace to replay; profile again".to_owned());
    };
    let trace = files::parent_dir(path).join(&reference.file);
    let cycles = if reference.truncated { reference.cycles } else { profile.private_cycles };
    let pages = u32::try_from(profile.pages.len()).unwrap_or(u32::MAX);
    let file = File::open(&trace).map_err(|e| {
        WorkloadError::trace(&trace, None, format!("cannot read: {e}; give the name of a trace"))
    })?;
    // A profile of no cycles has none to stretch.
    let profiled = profile.private_cycles;
    let own = if profiled == 0 { 0 } else { ctx.pace.cycles(profiled, profile.instructions) };
    let stretch = if own == profiled { (1, 1) } else { (own, profiled) };
    let expected = Expected { records: reference.records, cycles, pages, stretch };
    let recording = recorded(&trace, file, ctx, Some(&expected), streams.then(Streams::new))?;
    let mut names = vec![None; profile.pages.len()];
    for page in profile.pages {
        if let Some(slot) = names.get_mut(page.frame as usize) {
            *slot = Some(page.name);
        }
    }
    Ok((recording, names))
}

/// Runs of pages of one region, in the order of the program's pages.
pub(super) fn regions(names: &[Option<PageName>]) -> Vec<(String, std::ops::Range<u32>)> {
    let mut regions: Vec<(String, std::ops::Range<u32>)> = Vec::new();
    for (page, name) in (0u32..).zip(names) {
        let name = name.as_ref().map_or("unknown", |n| n.region.as_str());
        match regions.last_mut() {
            Some((last, range)) if last == name => range.end = page + 1,
            _ => regions.push((name.to_owned(), page..page + 1)),
        }
    }
    regions
}
