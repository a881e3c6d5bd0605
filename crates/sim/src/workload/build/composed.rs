//! Programs of several parts.

use super::{Builder, Has, PLAIN, Result};
use crate::program::{Entry, Op, OpKind};
use crate::workload::copy::{Copy, Header, Side};
use crate::workload::jobs::Length;
use crate::workload::matrix::Matrix;
use crate::workload::sections::Section;
use crate::workload::walk::{Order, Walk};
use crate::workload::{Workload, WorkloadError, presets, spec};
use solocore_dram::random::Random;
use solocore_model::{Bytes, Cycles};

impl Builder<'_> {
    pub(super) fn matrix(mut self, p: &spec::Matrix) -> Result<Workload> {
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

    pub(super) fn message(mut self, p: &spec::Message, sends: bool) -> Result<Workload> {
        /// `struct msg_msg` of Linux on 32 bits; messages beyond a page are cut into segments
        /// there, which is left out.
        const HEADER: u64 = 24;
        let (word, line, gap) = (self.word(p.word)?, self.ctx.line_bytes, self.gap("gap", p.gap)?);
        if p.size.0 == 0 || !p.size.0.is_multiple_of(word) || p.size.0 > 1 << 30 {
            return self.refuse(
                "size",
                p.size,
                format!("give a multiple of the word of {word} bytes, up to 1 GiB"),
            );
        }
        self.within("messages", p.messages, 1..=1 << 32)?;
        self.within("between", p.between.0, 0..=Op::MAX_COMPUTE)?;
        let block = (p.size.0 + HEADER).div_ceil(line) * line;
        let user = self.region("data", "size", p.size.0.div_ceil(line))? * line;
        let kernel = self.region("buffer", "messages", block / line * p.messages)? * line;
        let user = Side { base: user, block: 0, blocks: 1, header: 0, words: 1 };
        let kernel = Side { base: kernel, block, blocks: p.messages, header: HEADER, words: 1 };
        let (source, target, header) =
            if sends { (user, kernel, Header::New) } else { (kernel, user, Header::Taken) };
        let (units, between, marks) = (p.size.0 / word, p.between.0, p.marks);
        let copy = Copy {
            source,
            target,
            header,
            word,
            line,
            units,
            gap,
            between,
            marks,
            at: 0,
            done: None,
        };
        self.finish(copy, Length::Endless, PLAIN, Entry::Private)
    }

    pub(super) fn video(mut self, p: &spec::Video, grey: bool) -> Result<Workload> {
        let (word, line) = (self.word(p.word)?, self.ctx.line_bytes);
        self.within("frames", p.frames, 1..=1 << 16)?;
        self.within("width", p.width, 1..=1 << 16)?;
        self.within("height", p.height, 1..=1 << 16)?;
        // Two bytes of YUYV a pixel; two words of it make a word of grey.
        let (loads, frame) = (if grey { 2 } else { 1 }, p.width * p.height * 2);
        let gap = self.gap("gap", p.gap.unwrap_or(Cycles(if grey { word } else { 8 })))?;
        if !frame.is_multiple_of(word * loads) {
            return self.refuse(
                "word",
                p.word,
                format!("a frame of {frame} bytes is not a whole number of words"),
            );
        }
        let block = frame.div_ceil(line) * line;
        let source = self.region("buffer", "frames", block / line * p.frames)? * line;
        let target = self.region("data", "height", (frame / loads).div_ceil(line))? * line;
        let source = Side { base: source, block, blocks: p.frames, header: 0, words: loads };
        let target = Side { base: target, block: 0, blocks: 1, header: 0, words: 1 };
        let (header, units, marks) = (Header::None, frame / (word * loads), p.marks);
        let copy = Copy {
            source,
            target,
            header,
            word,
            line,
            units,
            gap,
            between: 0,
            marks,
            at: 0,
            done: None,
        };
        self.finish(copy, Length::Endless, PLAIN, Entry::Private)
    }

    pub(super) fn phases(mut self, p: &spec::Phases) -> Result<Workload> {
        if p.sections.is_empty() {
            return Err(WorkloadError::Missing {
                kind: self.kind,
                key: "sections",
                message: "give at least one",
            });
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
            // A program of computation alone still needs a page.
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
            return self.refuse(
                &key("writes"),
                s.writes,
                "give the share of accesses that store, 0 to 1",
            );
        }
        let lines = if s.accesses == 0 { 1 } else { self.lines(&key("size"), s.size)? };
        let walk = match (s.pattern, s.stride) {
            (spec::Pattern::Stride, Some(stride)) => {
                let jump = self.lines(&key("stride"), stride)?;
                if jump > lines {
                    return self.refuse(
                        &key("stride"),
                        stride,
                        format!("it is longer than the array of {}", s.size),
                    );
                }
                Walk::new(base, lines, Order::Stride(jump))
            }
            (spec::Pattern::Stride, None) => {
                return self.refuse(
                    &key("pattern"),
                    "\"stride\"",
                    "give `stride` too, like \"8 KiB\"",
                );
            }
            (_, Some(stride)) => {
                return self.refuse(
                    &key("stride"),
                    stride,
                    "only the pattern \"stride\" has one; remove it",
                );
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
            spec::Pattern::Sequential | spec::Pattern::Stride => {
                Walk::new(base, lines, Order::Sequential)
            }
            spec::Pattern::Shuffled | spec::Pattern::Chase => self.shuffled(base, lines),
            spec::Pattern::Random => {
                Walk::new(base, lines, Order::Random(Random::new(self.seed())))
            }
        }
    }

    pub(super) fn cortex(mut self, p: &spec::Cortex) -> Result<Workload> {
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

    pub(super) fn canny(mut self, p: &spec::Canny) -> Result<Workload> {
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
            let section =
                Section::new(walk, lines, OpKind::Load, 0).total_cycles(pixels * s.cycles);
            section.writes(s.write, s.read + s.write)
        });
        let sections = sections.collect();
        self.sections(sections, PLAIN)
    }

    pub(super) fn libquantum(mut self, p: &spec::Libquantum) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        self.within("phase", p.phase, 1..=1 << 40)?;
        // Each phase streams through a third, so that none finds lines that the one before left in
        // the cache.
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
