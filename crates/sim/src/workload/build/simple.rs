//! Programs of one section.

use super::{Builder, PLAIN, Result};
use crate::program::{Op, OpKind};
use crate::workload::sections::{Section, Tail};
use crate::workload::spec::Access;
use crate::workload::walk::{Order, Walk};
use crate::workload::{Workload, presets, spec};
use solocore_dram::random::Random;
use solocore_model::{Bytes, Cycles};

impl Builder<'_> {
    pub(super) fn latency(mut self, p: &spec::Latency) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let base = self.region("data", "size", lines)?;
        let walk = self.shuffled(base, lines);
        self.sections(vec![Section::new(walk, lines, OpKind::LoadWait, gap)], PLAIN)
    }

    pub(super) fn bandwidth(mut self, p: &spec::BandwidthHog) -> Result<Workload> {
        let (lines, mut gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        if let Some(rate) = p.rate {
            let cycles = u128::from(self.ctx.line_bytes) * u128::from(self.ctx.frequency_hz);
            let paced =
                cycles.checked_div(rate.0.into()).filter(|&c| c < u128::from(Op::MAX_COMPUTE));
            let Some(paced) = paced.and_then(|c| u64::try_from(c).ok()) else {
                return self.refuse(
                    "rate",
                    rate,
                    "give more: an access would take too many cycles",
                );
            };
            let exact = u128::from(paced) * u128::from(rate.0) == cycles;
            gap = gap.max(if exact { paced } else { paced + 1 });
        }
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        let section = Section::new(walk, lines, OpKind::Load, gap);
        self.sections(vec![section.writes(u64::from(p.access == Access::Write), 1)], PLAIN)
    }

    pub(super) fn m_jump(mut self, p: &spec::MJump) -> Result<Workload> {
        let (lines, jump, gap) =
            (self.lines("size", p.size)?, self.lines("jump", p.jump)?, self.gap("gap", p.gap)?);
        if jump > lines {
            return self.refuse(
                "jump",
                p.jump,
                format!("it is longer than the array of {}", p.size),
            );
        }
        let cycles = p.delay.0.checked_add(gap).filter(|&c| c <= Op::MAX_GAP);
        let Some(cycles) = cycles else {
            return self.refuse(
                "delay",
                p.delay,
                format!("too large; with gap it is at most {} cycles", Op::MAX_GAP),
            );
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

    pub(super) fn mwalk(mut self, p: &spec::Mwalk) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let base = self.region("data", "size", lines)?;
        let walk = self.shuffled(base, lines);
        self.sections(vec![Section::new(walk, lines, OpKind::Load, gap).writes(1, 1)], PLAIN)
    }

    pub(super) fn hog(mut self, p: &spec::Hog) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let integers = (self.ctx.line_bytes / 4).max(1);
        let cycles = self.gap("gap", Cycles(gap * integers))?;
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        self.sections(vec![Section::new(walk, lines, OpKind::Load, cycles)], PLAIN)
    }

    pub(super) fn synthetic(mut self, p: &spec::Synthetic) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let base = self.region("data", "size", lines)?;
        let walk = Walk::new(base, lines, Order::Random(Random::new(self.seed())));
        self.sections(vec![Section::new(walk, lines, OpKind::Load, gap).writes(1, 1)], PLAIN)
    }

    pub(super) fn sce_benchmark(mut self, p: &spec::SceBenchmark) -> Result<Workload> {
        let (lines, gap) = (self.lines("size", p.size)?, self.gap("gap", p.gap)?);
        let base = self.region("data", "size", lines)?;
        let walk = if p.stride.0 == 0 {
            self.shuffled(base, lines)
        } else {
            let stride = self.lines("stride", p.stride)?;
            if stride > lines {
                return self.refuse(
                    "stride",
                    p.stride,
                    format!("it is longer than the array of {}", p.size),
                );
            }
            Walk::new(base, lines, Order::Stride(stride))
        };
        let load = if p.dependent { OpKind::LoadWait } else { OpKind::Load };
        let section =
            Section::new(walk, lines, load, gap).writes(u64::from(p.access == Access::Write), 1);
        self.sections(vec![section], PLAIN)
    }

    pub(super) fn compute(mut self, p: &spec::Compute) -> Result<Workload> {
        let (size, cycles, writes) = presets::kernel(p.program);
        let lines = self.lines("size", p.size.unwrap_or(Bytes(size << 10)))?;
        let gap = self.gap("gap", p.gap.unwrap_or(Cycles(cycles)))?;
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        self.sections(
            vec![Section::new(walk, 10_000, OpKind::Load, gap).writes(writes, 100)],
            PLAIN,
        )
    }

    pub(super) fn ssd_load(mut self, p: &spec::SsdLoad) -> Result<Workload> {
        let (lines, block) = (self.lines("size", p.size)?, self.line_count("block", p.block)?);
        let us = p.interval.ps().div_ceil(1_000_000);
        let Some(us) = u32::try_from(us).ok().filter(|&us| us > 0) else {
            return self.refuse("interval", p.interval, "give 1 us to 71 minutes");
        };
        self.within("work", p.work.0, 1..=Op::MAX_COMPUTE)?;
        let walk = Walk::new(self.region("data", "size", lines)?, lines, Order::Sequential);
        self.region("buffer", "block", block)?;
        let tail = Tail { mark: Some(p.mark), sleep_us: Some(us) };
        let section = Section::new(walk, lines, OpKind::Load, 1)
            .total_cycles(p.work.0)
            .writes(1, 4)
            .tail(tail);
        self.sections(vec![section], PLAIN)
    }
}
