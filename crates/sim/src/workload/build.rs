//! From descriptions to programs: checks every parameter, lays out the regions, and puts the parts together.

use super::copy::{Copy, Header, Side};
use super::jobs::{Jobs, Length, Pattern};
use super::matrix::Matrix;
use super::recording::Recording;
use super::replay::{self, Replay};
use super::sections::{Section, Sections, Tail};
use super::spec::{self, Access, Distribution, Job, WorkloadSpec};
use super::spread::Spread;
use super::walk::{Order, Permutation, Walk};
use super::{BuildContext, Workload, WorkloadError, presets};
use crate::program::{Entry, Op, OpKind};
use solocore_dram::random::Random;
use solocore_model::{Bytes, Cycles, Time};
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
    /// Random things so far: each has a seed of its own.
    draws: u64,
}

/// What a pass has, so that a job measured by it ends.
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
    /// [`WorkloadError`]: an impossible value with its key, or a file with the place and the reason.
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
    fn refuse<T>(&self, key: &str, value: impl std::fmt::Display, message: impl Into<String>) -> Result<T> {
        let (key, value) = (key.to_owned(), value.to_string());
        Err(WorkloadError::Value { kind: self.kind, key, value, message: message.into() })
    }

    /// Whole lines of an array.
    fn lines(&self, key: &str, size: Bytes) -> Result<u64> {
        let line = self.ctx.line_bytes;
        if size.0 == 0 || !size.0.is_multiple_of(line) {
            return self.refuse(key, size, format!("give a multiple of a line of {line} bytes, above zero"));
        }
        self.line_count(key, size)
    }

    /// Lines that a size needs, rounded up.
    fn line_count(&self, key: &str, size: Bytes) -> Result<u64> {
        let lines = size.0.div_ceil(self.ctx.line_bytes);
        if lines == 0 || lines > self.ctx.max_lines() {
            return self.refuse(key, size, format!("give at least a line, and at most {} lines", self.ctx.max_lines()));
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
        let end = end.filter(|&end| end <= self.ctx.max_lines() / per_page).and_then(|end| u32::try_from(end).ok());
        let Some(end) = end else {
            return self.refuse(key, format!("{lines} lines"), "the program would have too many pages; give less");
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
        let positive = |key: &str, n: u64| if n == 0 { self.refuse(key, n, "give 1 or more") } else { Ok(n) };
        let whole = |key: &str, n: u64, can: bool| match (can, has.locks) {
            (true, false) => positive(key, n),
            (false, _) => self.refuse(key, n, "the program has nothing of that kind; give passes"),
            (true, true) => self.refuse(key, n, "a job could end with the memory lock held; give passes"),
        };
        Ok(match self.job {
            None => none,
            Some(Job::Endless) => Length::Endless,
            Some(Job::Passes(n)) => Length::Passes(positive("job.passes", n)?),
            Some(Job::Accesses(n)) => Length::Accesses(whole("job.accesses", n, has.accesses)?),
            Some(Job::Cycles(n)) => Length::Cycles(whole("job.cycles", n.0, has.cycles)?),
        })
    }

    fn finish(self, pattern: impl Pattern + 'static, none: Length, has: Has, entry: Entry) -> Result<Workload> {
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

/// Programs of one section.
impl Builder<'_> {
    fn latency(mut self, p: &spec::Latency) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let base = self.region("data", "size", lines)?;
        let walk = self.shuffled(base, lines);
        self.sections(vec![Section::new(walk, lines, OpKind::LoadWait, gap)], PLAIN)
    }

    fn bandwidth(mut self, p: &spec::BandwidthHog) -> Result<Workload> {
        let (lines, mut gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        if let Some(rate) = p.rate {
            let cycles = u128::from(self.ctx.line_bytes) * u128::from(self.ctx.frequency_hz);
            let paced = cycles.checked_div(rate.0.into()).filter(|&c| c < u128::from(Op::MAX_COMPUTE));
            let Some(paced) = paced.and_then(|c| u64::try_from(c).ok()) else {
                return self.refuse("rate", rate, "give more: an access would take more cycles than one can");
            };
            let exact = u128::from(paced) * u128::from(rate.0) == cycles;
            gap = gap.max(if exact { paced } else { paced + 1 });
        }
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        let section = Section::new(walk, lines, OpKind::Load, gap);
        self.sections(vec![section.writes(u64::from(p.access == Access::Write), 1)], PLAIN)
    }

    fn m_jump(mut self, p: &spec::MJump) -> Result<Workload> {
        let (lines, jump, gap) = (self.lines("size", p.size)?, self.lines("jump", p.jump)?, self.gap("gap", p.gap)?);
        if jump > lines {
            return self.refuse("jump", p.jump, format!("it is longer than the array of {}", p.size));
        }
        let cycles = p.delay.0.checked_add(gap).filter(|&c| c <= Op::MAX_GAP);
        let Some(cycles) = cycles else {
            return self.refuse("delay", p.delay, format!("too large; with gap it is at most {} cycles", Op::MAX_GAP));
        };
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Stride(jump));
        let section = if p.dependent {
            // The line is waited for, then written.
            Section::new(walk, lines, OpKind::LoadWait, cycles).update(true)
        } else {
            Section::new(walk, lines, OpKind::Load, cycles).writes(1, 1)
        };
        self.sections(vec![section], PLAIN)
    }

    fn mwalk(mut self, p: &spec::Mwalk) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let base = self.region("data", "size", lines)?;
        let walk = self.shuffled(base, lines);
        self.sections(vec![Section::new(walk, lines, OpKind::Load, gap).writes(1, 1)], PLAIN)
    }

    fn hog(mut self, p: &spec::Hog) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let integers = (self.ctx.line_bytes / 4).max(1);
        let cycles = self.gap("gap", Cycles(gap * integers))?;
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        self.sections(vec![Section::new(walk, lines, OpKind::Load, cycles)], PLAIN)
    }

    fn synthetic(mut self, p: &spec::Synthetic) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let base = self.region("data", "size", lines)?;
        let walk = Walk::new(base, lines, Order::Random(Random::new(self.seed())));
        self.sections(vec![Section::new(walk, lines, OpKind::Load, gap).writes(1, 1)], PLAIN)
    }

    fn sce_benchmark(mut self, p: &spec::SceBenchmark) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let base = self.region("data", "size", lines)?;
        let walk = if p.stride.0 == 0 {
            self.shuffled(base, lines)
        } else {
            let stride = self.lines("stride", p.stride)?;
            if stride > lines {
                return self.refuse("stride", p.stride, format!("it is longer than the array of {}", p.size));
            }
            Walk::new(base, lines, Order::Stride(stride))
        };
        let load = if p.dependent { OpKind::LoadWait } else { OpKind::Load };
        let section = Section::new(walk, lines, load, gap).writes(u64::from(p.access == Access::Write), 1);
        self.sections(vec![section], PLAIN)
    }

    fn compute(mut self, p: &spec::Compute) -> Result<Workload> {
        let (size, cycles, writes) = presets::kernel(p.program);
        let lines = self.lines("size", p.size.unwrap_or(Bytes(size << 10)))?;
        let gap = self.gap("gap", p.gap.unwrap_or(Cycles(cycles)))?;
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        self.sections(vec![Section::new(walk, 10_000, OpKind::Load, gap).writes(writes, 100)], PLAIN)
    }

    fn ssd_load(mut self, p: &spec::SsdLoad) -> Result<Workload> {
        let (lines, block) = (self.lines("size", p.size)?, self.line_count("block", p.block)?);
        let us = p.interval.ps().div_ceil(1_000_000);
        let Some(us) = u32::try_from(us).ok().filter(|&us| us > 0) else {
            return self.refuse("interval", p.interval, "give 1 us to 71 minutes");
        };
        self.within("work", p.work.0, 1..=Op::MAX_COMPUTE)?;
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        self.region("buffer", "block", block)?;
        let tail = Tail { mark: Some(p.mark), sleep_us: Some(us) };
        let section = Section::new(walk, lines, OpKind::Load, 1).total_cycles(p.work.0).writes(1, 4).tail(tail);
        self.sections(vec![section], PLAIN)
    }
}

/// Programs of several parts.
impl Builder<'_> {
    fn matrix(mut self, p: &spec::Matrix) -> Result<Workload> {
        let (line, gap) = (self.ctx.line_bytes, self.gap("gap", p.gap)?);
        self.within("dimension", p.dimension, 1..=1 << 32)?;
        self.within("row", p.row, 1..=1 << 20)?;
        self.within("iterations", p.iterations, 1..=u64::from(u32::MAX))?;
        self.within("gap", gap * (line / 8).max(1), 1..=Op::MAX_GAP)?;
        let Some(bytes) = Matrix::footprint(p.dimension, p.row, line) else {
            return self.refuse("dimension", p.dimension, "the arrays are too large; give less");
        };
        let lines = self.line_count("dimension", Bytes(bytes))?;
        self.region("data", "dimension", lines)?;
        let matrix = Matrix::new(p.dimension, p.row, p.iterations, gap, line, self.seed());
        self.finish(matrix, Length::Endless, PLAIN, Entry::Private)
    }

    fn word(&self, word: Bytes) -> Result<u64> {
        if !word.0.is_power_of_two() || word.0 > 4096 {
            return self.refuse("word", word, "give a power of two up to 4 KiB");
        }
        Ok(word.0)
    }

    fn message(mut self, p: &spec::Message, sends: bool) -> Result<Workload> {
        /// `struct msg_msg` of Linux on 32 bits; messages beyond a page are cut into segments there, which is left out.
        const HEADER: u64 = 24;
        let (word, line, gap) = (self.word(p.word)?, self.ctx.line_bytes, self.gap("gap", p.gap)?);
        if p.size.0 == 0 || !p.size.0.is_multiple_of(word) || p.size.0 > 1 << 30 {
            return self.refuse("size", p.size, format!("give a multiple of the word of {word} bytes, up to 1 GiB"));
        }
        self.within("messages", p.messages, 1..=1 << 32)?;
        self.within("between", p.between.0, 0..=Op::MAX_COMPUTE)?;
        let block = (p.size.0 + HEADER).div_ceil(line) * line;
        let user = self.region("data", "size", p.size.0.div_ceil(line))? * line;
        let kernel = self.region("buffer", "messages", block / line * p.messages)? * line;
        let user = Side { base: user, block: 0, blocks: 1, header: 0, words: 1 };
        let kernel = Side { base: kernel, block, blocks: p.messages, header: HEADER, words: 1 };
        let (source, target, header) = if sends { (user, kernel, Header::New) } else { (kernel, user, Header::Taken) };
        let (units, between, marks) = (p.size.0 / word, p.between.0, p.marks);
        let copy = Copy { source, target, header, word, line, units, gap, between, marks, at: 0, done: None };
        self.finish(copy, Length::Endless, PLAIN, Entry::Private)
    }

    fn video(mut self, p: &spec::Video, grey: bool) -> Result<Workload> {
        let (word, line) = (self.word(p.word)?, self.ctx.line_bytes);
        self.within("frames", p.frames, 1..=1 << 16)?;
        self.within("width", p.width, 1..=1 << 16)?;
        self.within("height", p.height, 1..=1 << 16)?;
        // Two bytes of YUYV a pixel; two words of it make a word of grey.
        let (loads, frame) = (if grey { 2 } else { 1 }, p.width * p.height * 2);
        let gap = self.gap("gap", p.gap.unwrap_or(Cycles(if grey { word } else { 8 })))?;
        if !frame.is_multiple_of(word * loads) {
            return self.refuse("word", p.word, format!("a frame of {frame} bytes is not a whole number of words"));
        }
        let block = frame.div_ceil(line) * line;
        let source = self.region("buffer", "frames", block / line * p.frames)? * line;
        let target = self.region("data", "height", (frame / loads).div_ceil(line))? * line;
        let source = Side { base: source, block, blocks: p.frames, header: 0, words: loads };
        let target = Side { base: target, block: 0, blocks: 1, header: 0, words: 1 };
        let (header, units, marks) = (Header::None, frame / (word * loads), p.marks);
        let copy = Copy { source, target, header, word, line, units, gap, between: 0, marks, at: 0, done: None };
        self.finish(copy, Length::Endless, PLAIN, Entry::Private)
    }

    fn phases(mut self, p: &spec::Phases) -> Result<Workload> {
        if p.sections.is_empty() {
            return Err(WorkloadError::Missing { kind: self.kind, key: "sections", message: "give at least one" });
        }
        // A region is as large as its largest section.
        let mut names: Vec<(&str, u64)> = Vec::new();
        for (index, s) in p.sections.iter().enumerate().filter(|(_, s)| s.accesses > 0) {
            let lines = self.lines(&format!("sections[{index}].size"), s.size)?;
            match names.iter_mut().find(|(name, _)| *name == s.region) {
                Some((_, most)) => *most = lines.max(*most),
                None => names.push((&s.region, lines)),
            }
        }
        let mut bases = Vec::new();
        for (name, lines) in names {
            bases.push((name, self.region(name, "sections", lines)?));
        }
        if bases.is_empty() {
            // A program of computation alone still lies somewhere.
            self.region("data", "sections", 1)?;
        }
        let mut sections = Vec::new();
        for (index, s) in p.sections.iter().enumerate() {
            let base = bases.iter().find(|(name, _)| *name == s.region).map_or(0, |b| b.1);
            sections.push(self.section(index, s, base)?);
        }
        let has = Has {
            accesses: p.sections.iter().any(|s| s.accesses > 0),
            cycles: p.sections.iter().any(|s| s.cycles.0 > 0),
            locks: p.sections.iter().any(|s| s.lock),
        };
        self.sections(sections, has)
    }

    fn section(&mut self, index: usize, s: &spec::Section, base: u64) -> Result<Section> {
        let key = |name: &str| format!("sections[{index}].{name}");
        if s.accesses == 0 && s.cycles.0 == 0 {
            return self.refuse(&key("accesses"), 0, "a section needs accesses or cycles");
        }
        self.within(&key("cycles"), s.cycles.0, 0..=Op::MAX_COMPUTE)?;
        if !(0.0..=1.0).contains(&s.writes) {
            return self.refuse(&key("writes"), s.writes, "give the share of accesses that store, 0 to 1");
        }
        let lines = if s.accesses == 0 { 1 } else { self.lines(&key("size"), s.size)? };
        let walk = match (s.pattern, s.stride) {
            (spec::Pattern::Stride, Some(stride)) => {
                let jump = self.lines(&key("stride"), stride)?;
                if jump > lines {
                    return self.refuse(&key("stride"), stride, format!("it is longer than the array of {}", s.size));
                }
                Walk::new(base, lines, Order::Stride(jump))
            }
            (spec::Pattern::Stride, None) => {
                return self.refuse(&key("pattern"), "\"stride\"", "give `stride` too, like \"8 KiB\"");
            }
            (_, Some(stride)) => {
                return self.refuse(&key("stride"), stride, "only the pattern \"stride\" has one; remove it");
            }
            (pattern, None) => self.walk(pattern, base, lines),
        };
        let load = if s.pattern == spec::Pattern::Chase { OpKind::LoadWait } else { OpKind::Load };
        // 0 to 10,000: exact in a double.
        let writes = (s.writes * 10_000.0).round() as u64;
        let section = Section::new(walk, s.accesses, load, 0).total_cycles(s.cycles.0);
        Ok(section.writes(writes, 10_000).update(s.update).lock(s.lock, s.lock))
    }

    fn walk(&mut self, pattern: spec::Pattern, base: u64, lines: u64) -> Walk {
        match pattern {
            spec::Pattern::Sequential | spec::Pattern::Stride => Walk::new(base, lines, Order::Sequential),
            spec::Pattern::Shuffled | spec::Pattern::Chase => self.shuffled(base, lines),
            spec::Pattern::Random => Walk::new(base, lines, Order::Random(Random::new(self.seed()))),
        }
    }

    fn cortex(mut self, p: &spec::Cortex) -> Result<Workload> {
        self.within("accesses", p.accesses, 1000..=1 << 40)?;
        let functions = presets::functions(p.subject);
        let locked = match p.lock {
            spec::Lock::None | spec::Lock::Complete => 0,
            spec::Lock::One => 1,
            spec::Lock::Two => 2,
            spec::Lock::Three => 3,
        };
        let complete = p.lock == spec::Lock::Complete;
        let mut sections = Vec::new();
        for (index, f) in functions.iter().enumerate() {
            let lines = self.line_count("subject", Bytes(f.size_kib << 10))?;
            let base = self.region(&format!("function{index}"), "subject", lines)?;
            let walk = self.walk(f.pattern, base, lines);
            let steps = p.accesses / 1000 * f.accesses;
            let (first, last) = (complete && index == 0, complete && index == functions.len() - 1);
            let section = Section::new(walk, steps, OpKind::Load, f.cycles).writes(f.writes, 100);
            sections.push(section.lock(index < locked || first, index < locked || last));
        }
        self.sections(sections, Has { locks: p.lock != spec::Lock::None, ..PLAIN })
    }

    fn canny(mut self, p: &spec::Canny) -> Result<Workload> {
        self.within("width", p.width, 1..=1 << 16)?;
        self.within("height", p.height, 1..=1 << 16)?;
        let pixels = p.width * p.height;
        let most = presets::CANNY.iter().map(|s| s.read + s.write).max().unwrap_or(1);
        let lines = |bytes: u64| (pixels * bytes).div_ceil(self.ctx.line_bytes);
        let all = lines(most);
        let steps: Vec<u64> = presets::CANNY.iter().map(|s| lines(s.read + s.write)).collect();
        let base = self.region("data", "height", all)?;
        let sections = presets::CANNY.iter().zip(steps).map(|(s, lines)| {
            let walk = Walk::new(base, lines, Order::Sequential);
            let section = Section::new(walk, lines, OpKind::Load, 0).total_cycles(pixels * s.cycles);
            section.writes(s.write, s.read + s.write)
        });
        let sections = sections.collect();
        self.sections(sections, PLAIN)
    }

    fn libquantum(mut self, p: &spec::Libquantum) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        self.within("phase", p.phase, 1..=1 << 40)?;
        // Each phase streams through a third, so that none finds what the one before left in the cache.
        let third = lines / 3;
        if third == 0 {
            return self.refuse("size", p.size, "give at least three lines");
        }
        let base = self.region("data", "size", lines)?;
        let phase = |(index, factor)| {
            let walk = Walk::new(base + index * third, third, Order::Sequential);
            Section::new(walk, p.phase, OpKind::Load, gap * factor).update(true)
        };
        let sections = [(0, 1), (1, 16), (2, 4)].map(phase).into();
        self.sections(sections, PLAIN)
    }
}

/// Stated and recorded tasks.
impl Builder<'_> {
    /// Computation that is left of an execution time when its misses are taken out.
    fn computation(&self, wcet: Time, misses: u64) -> u64 {
        let ps = u128::from(wcet.ps()).saturating_sub(u128::from(misses) * u128::from(self.ctx.miss_ps));
        u64::try_from(ps * u128::from(self.ctx.frequency_hz) / 1_000_000_000_000).unwrap_or(u64::MAX)
    }

    /// The array of a stated task: what its misses touch, at most 16 MiB.
    fn stated_lines(&self, misses: u64) -> u64 {
        misses.clamp(1, ((16 << 20) / self.ctx.line_bytes).max(1))
    }

    fn stated(self, spread: Spread, misses: u64, cycles: u64) -> Result<Workload> {
        if cycles > Op::MAX_COMPUTE {
            return self.refuse("wcet", format!("{cycles} cycles"), format!("give at most {}", Op::MAX_COMPUTE));
        }
        let has = Has { accesses: misses > 0, cycles: cycles > 0, locks: false };
        self.finish(spread, Length::Passes(1), has, Entry::Shared)
    }

    fn spread(mut self, p: &spec::Spread) -> Result<Workload> {
        let wcet = self.required("wcet", p.wcet, "give a time, like \"2 ms\"")?;
        let misses = self.required("misses", p.misses, "give a number")?;
        self.within("misses", misses, 0..=1 << 40)?;
        let lines = self.stated_lines(misses);
        let walk = Walk::new(self.region("data", "misses", lines)?, lines, Order::Sequential);
        let cycles = self.computation(wcet, misses);
        let spread = Spread::new(cycles, misses, 1, None, walk).prefetched(self.ahead(wcet, misses));
        self.stated(spread, misses, cycles)
    }

    /// Misses of a stated task that must overlap with others, because the board takes longer for all of them one after another
    /// than the task as it is stated. An overlapping miss is taken to need a third of the time of one that is waited for.
    fn ahead(&self, wcet: Time, misses: u64) -> u64 {
        let miss = u128::from(self.ctx.miss_ps.max(1));
        let beyond = (u128::from(misses) * miss).saturating_sub(u128::from(wcet.ps()));
        u64::try_from((beyond * 3).div_ceil(miss * 2)).unwrap_or(u64::MAX)
    }

    fn profile_like(mut self, p: &spec::ProfileLike) -> Result<Workload> {
        let misses = self.required("misses", p.misses, "give a number")?;
        self.within("misses", misses, 0..=1 << 40)?;
        let cycles = match (p.wcet, p.instructions) {
            (Some(wcet), None) => self.computation(wcet, misses),
            // One multiplication and a rounding: the same on every machine.
            (None, Some(n)) => (self.within("instructions", n, 0..=1 << 48)? as f64 * self.ctx.cpi).round() as u64,
            (Some(_), Some(n)) => return self.refuse("instructions", n, "give this or `wcet`, not both"),
            (None, None) => self.required("wcet", None, "give a time, like \"2 ms\", or `instructions`")?,
        };
        let burst = match p.spread {
            Distribution::Bursts => self.within("burst", p.burst, 1..=1 << 32)?,
            Distribution::Even | Distribution::Random => 1,
        };
        let jitter = (p.spread == Distribution::Random).then(|| Random::new(self.seed()));
        let lines = match p.size {
            Some(size) => self.lines("size", size)?,
            None => self.stated_lines(misses),
        };
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        self.stated(Spread::new(cycles, misses, burst, jitter, walk), misses, cycles)
    }

    fn eembc(mut self, p: &spec::EembcTask) -> Result<Workload> {
        if p.wcet.ps() == 0 {
            return self.refuse("wcet", p.wcet, "give more than zero");
        }
        if !(p.memory > 0.0 && p.memory <= 1.0) {
            return self.refuse("memory", p.memory, "give a share above 0, at most 1");
        }
        let share = u128::from((p.memory * 10_000.0).round() as u64) * u128::from(presets::miss_rate(p.benchmark));
        if share > 10_000 * 1000 {
            return self.refuse("memory", p.memory, "with this benchmark's miss rate, misses would take all its time");
        }
        let misses = u128::from(p.wcet.ps()) * share / 10_000_000 / u128::from(self.ctx.miss_ps.max(1));
        let misses = self.within("wcet", u64::try_from(misses).unwrap_or(u64::MAX), 0..=1 << 40)?;
        let lines = self.stated_lines(u64::MAX);
        let base = self.region("data", "wcet", lines)?;
        let walk = match p.benchmark {
            spec::Eembc::Pntrch => self.shuffled(base, lines),
            _ => Walk::new(base, lines, Order::Sequential),
        };
        let jitter = Some(Random::new(self.seed()));
        let cycles = self.computation(p.wcet, misses);
        self.stated(Spread::new(cycles, misses, 1, jitter, walk), misses, cycles)
    }

    fn replayed(mut self, recording: Recording, entry: Entry) -> Result<Workload> {
        let has = Has {
            accesses: recording.ops.iter().any(|&op| super::jobs::is_access(op)),
            cycles: recording.ops.iter().any(|op| op.cycles() > 0),
            locks: false,
        };
        self.pages = recording.pages;
        let reload = match entry {
            Entry::Private => 0,
            Entry::Shared => usize::try_from(self.ctx.private_lines).unwrap_or(usize::MAX),
        };
        self.finish(Replay::new(recording, reload), Length::Passes(1), has, entry)
    }

    fn file(&self, file: &std::path::Path) -> Result<std::path::PathBuf> {
        if file.as_os_str().is_empty() {
            return Err(WorkloadError::Missing { kind: self.kind, key: "file", message: "give a file name" });
        }
        Ok(self.ctx.base_dir.join(file))
    }

    fn trace(mut self, p: &spec::Trace) -> Result<Workload> {
        let path = self.file(&p.file)?;
        let (recording, found) = replay::open(&path, self.ctx)?;
        let entry = match (found, p.entry) {
            (Entry::Shared, Some(spec::EntryPoint::Private)) => {
                let message = "the private caches have filtered this trace already; leave `entry` out";
                return self.refuse("entry", "\"private\"", message);
            }
            (_, Some(spec::EntryPoint::Shared)) => Entry::Shared,
            _ => found,
        };
        self.regions.push(("data".to_owned(), 0..recording.pages));
        self.replayed(recording, entry)
    }

    fn profile(mut self, p: &spec::Profile) -> Result<Workload> {
        let path = self.file(&p.file)?;
        let (recording, names) = replay::profile(&path, self.ctx)?;
        self.regions = replay::regions(&names);
        let mut workload = self.replayed(recording, Entry::Shared)?;
        workload.page_names = names;
        Ok(workload)
    }
}
