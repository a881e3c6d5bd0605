//! From descriptions to programs: checks every parameter, lays out the regions, and puts the parts
//! together.

mod composed;
mod recorded;
mod simple;

use super::jobs::{Jobs, Length, Pattern};
use super::sections::{Section, Sections};
use super::spec::{Job, WorkloadSpec};
use super::walk::{Order, Permutation, Walk};
use super::{BuildContext, Workload, WorkloadError};
use crate::program::{Entry, Op};
use solocore_dram::random::Random;
use solocore_model::{Bytes, Cycles};
use std::ops::Range;

type Result<T> = std::result::Result<T, WorkloadError>;

/// Parts of one workload.
struct Builder<'a> {
    kind: &'static str,
    ctx: &'a BuildContext,
    job: Option<Job>,
    /// Regions so far.
    regions: Vec<(String, Range<u32>)>,
    pages: u32,
    /// Number of random draws so far: each has a seed of its own.
    draws: u64,
}

/// Kinds of operations in a pass, so that a job measured by it ends.
#[derive(Clone, Copy)]
struct Has {
    accesses: bool,
    cycles: bool,
    locks: bool,
}

const PLAIN: Has = Has { accesses: true, cycles: true, locks: false };

impl WorkloadSpec {
    /// Makes the program.
    ///
    /// # Errors
    /// [`WorkloadError`]: an impossible value with its key, or a file with the place and the
    /// reason.
    pub fn build(&self, ctx: &BuildContext) -> Result<Workload> {
        check_context(ctx)?;
        let kind = self.kind();
        let b = Builder { kind, ctx, job: self.job(), regions: Vec::new(), pages: 0, draws: 0 };
        match self {
            Self::Latency(p) => b.latency(p),
            Self::Bandwidth(p) => b.bandwidth(p),
            Self::MJump(p) => b.m_jump(p),
            Self::Mwalk(p) => b.mwalk(p),
            Self::Hog(p) => b.hog(p),
            Self::Synthetic(p) => b.synthetic(p),
            Self::Matrix(p) => b.matrix(p),
            Self::MessageSender(p) => b.message(p, true),
            Self::MessageReceiver(p) => b.message(p, false),
            Self::Framecopy(p) => b.video(p, false),
            Self::Yuv2gray(p) => b.video(p, true),
            Self::SsdLoad(p) => b.ssd_load(p),
            Self::SceBenchmark(p) => b.sce_benchmark(p),
            Self::Compute(p) => b.compute(p),
            Self::Phases(p) => b.phases(p),
            Self::Cortex(p) => b.cortex(p),
            Self::Canny(p) => b.canny(p),
            Self::Libquantum(p) => b.libquantum(p),
            Self::Eembc(p) => b.eembc(p),
            Self::ProfileLike(p) => b.profile_like(p),
            Self::Spread(p) => b.spread(p),
            Self::Trace(p) => b.trace(p),
            Self::Profile(p) => b.profile(p),
        }
    }
}

fn check_context(ctx: &BuildContext) -> Result<()> {
    let bad = |message: String| Err(WorkloadError::Platform(message));
    if !ctx.line_bytes.is_power_of_two() || ctx.line_bytes > 1 << 16 || ctx.lines_per_page == 0 {
        return bad(format!("lines of {} bytes, {} in a page", ctx.line_bytes, ctx.lines_per_page));
    }
    if u64::from(ctx.lines_per_page).checked_mul(ctx.line_bytes) != Some(ctx.page_bytes) {
        return bad(format!(
            "a page of {} bytes is not {} lines of {}",
            ctx.page_bytes, ctx.lines_per_page, ctx.line_bytes
        ));
    }
    if ctx.frequency_hz == 0 || !ctx.cpi.is_finite() || ctx.cpi <= 0.0 {
        return bad(format!("{} Hz, {} cycles per instruction", ctx.frequency_hz, ctx.cpi));
    }
    Ok(())
}

/// Checks of single values.
impl Builder<'_> {
    fn refuse<T>(
        &self,
        key: &str,
        value: impl std::fmt::Display,
        message: impl Into<String>,
    ) -> Result<T> {
        let (key, value) = (key.to_owned(), value.to_string());
        Err(WorkloadError::Value { kind: self.kind, key, value, message: message.into() })
    }

    /// Whole lines of an array.
    fn lines(&self, key: &str, size: Bytes) -> Result<u64> {
        let line = self.ctx.line_bytes;
        if size.0 == 0 || !size.0.is_multiple_of(line) {
            return self.refuse(
                key,
                size,
                format!("give a multiple of a line of {line} bytes, above zero"),
            );
        }
        self.line_count(key, size)
    }

    /// Lines that a size needs, rounded up.
    fn line_count(&self, key: &str, size: Bytes) -> Result<u64> {
        let lines = size.0.div_ceil(self.ctx.line_bytes);
        if lines == 0 || lines > self.ctx.max_lines() {
            return self.refuse(
                key,
                size,
                format!("give at least a line, and at most {} lines", self.ctx.max_lines()),
            );
        }
        Ok(lines)
    }

    /// Cycles before an access.
    fn gap(&self, key: &str, cycles: Cycles) -> Result<u64> {
        if cycles.0 == 0 || cycles.0 > Op::MAX_GAP {
            return self.refuse(key, cycles, format!("give 1 to {} cycles", Op::MAX_GAP));
        }
        Ok(cycles.0)
    }

    fn within(&self, key: &str, value: u64, range: std::ops::RangeInclusive<u64>) -> Result<u64> {
        if range.contains(&value) {
            return Ok(value);
        }
        self.refuse(key, value, format!("give {} to {}", range.start(), range.end()))
    }

    fn required<T>(&self, key: &'static str, value: Option<T>, message: &'static str) -> Result<T> {
        value.ok_or(WorkloadError::Missing { kind: self.kind, key, message })
    }

    /// A new region of whole pages; returns its first line.
    fn region(&mut self, name: &str, key: &str, lines: u64) -> Result<u64> {
        let per_page = u64::from(self.ctx.lines_per_page);
        let first = u64::from(self.pages) * per_page;
        let end = u64::from(self.pages).checked_add(lines.div_ceil(per_page));
        let end = end
            .filter(|&end| end <= self.ctx.max_lines() / per_page)
            .and_then(|end| u32::try_from(end).ok());
        let Some(end) = end else {
            return self.refuse(
                key,
                format!("{lines} lines"),
                "the program would have too many pages; give less",
            );
        };
        self.regions.push((name.to_owned(), self.pages..end));
        self.pages = end;
        Ok(first)
    }

    fn seed(&mut self) -> u64 {
        self.draws += 1;
        Random::new(self.ctx.seed ^ self.draws.wrapping_mul(0x9e6d_62d0_6f6a_9a9b)).next()
    }

    fn shuffled(&mut self, base: u64, lines: u64) -> Walk {
        let permutation = Permutation::new(lines, self.seed());
        Walk::new(base, lines, Order::Shuffled(permutation))
    }

    fn length(&self, none: Length, has: Has) -> Result<Length> {
        let positive =
            |key: &str, n: u64| if n == 0 { self.refuse(key, n, "give 1 or more") } else { Ok(n) };
        let whole = |key: &str, n: u64, can: bool| match (can, has.locks) {
            (true, false) => positive(key, n),
            (false, _) => self.refuse(key, n, "the program has no job of that kind; give passes"),
            (true, true) => {
                self.refuse(key, n, "a job could end with the memory lock held; give passes")
            }
        };
        Ok(match self.job {
            None => none,
            Some(Job::Endless) => Length::Endless,
            Some(Job::Passes(n)) => Length::Passes(positive("job.passes", n)?),
            Some(Job::Accesses(n)) => Length::Accesses(whole("job.accesses", n, has.accesses)?),
            Some(Job::Cycles(n)) => Length::Cycles(whole("job.cycles", n.0, has.cycles)?),
        })
    }

    fn finish(
        self,
        pattern: impl Pattern + 'static,
        none: Length,
        has: Has,
        entry: Entry,
    ) -> Result<Workload> {
        let length = self.length(none, has)?;
        Ok(Workload {
            program: Box::new(Jobs::new(pattern, length, entry, self.pages)),
            page_names: Vec::new(),
            locks: has.locks,
            has_jobs: length != Length::Endless,
            regions: self.regions,
        })
    }

    fn sections(self, sections: Vec<Section>, has: Has) -> Result<Workload> {
        self.finish(Sections::new(sections), Length::Endless, has, Entry::Private)
    }
}
