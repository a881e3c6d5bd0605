//! Stated and recorded tasks.

use super::{Builder, Has, Result};
use crate::program::{Entry, Op};
use crate::workload::jobs::{Length, is_access};
use crate::workload::recording::Recording;
use crate::workload::replay::Replay;
use crate::workload::spec::Distribution;
use crate::workload::spread::Spread;
use crate::workload::walk::{Order, Walk};
use crate::workload::{Workload, WorkloadError, presets, replay, spec};
use solocore_dram::random::Random;
use solocore_model::Time;

impl Builder<'_> {
    /// Computation of an execution time: the rest after its misses are taken out.
    fn computation(&self, wcet: Time, misses: u64) -> u64 {
        let ps =
            u128::from(wcet.ps()).saturating_sub(u128::from(misses) * u128::from(self.ctx.miss_ps));
        u64::try_from(ps * u128::from(self.ctx.frequency_hz) / 1_000_000_000_000)
            .unwrap_or(u64::MAX)
    }

    /// Lines of a stated task's array: one for each miss, at most 16 MiB.
    fn stated_lines(&self, misses: u64) -> u64 {
        misses.clamp(1, ((16 << 20) / self.ctx.line_bytes).max(1))
    }

    fn stated(self, spread: Spread, misses: u64, cycles: u64) -> Result<Workload> {
        if cycles > Op::MAX_COMPUTE {
            return self.refuse(
                "wcet",
                format!("{cycles} cycles"),
                format!("give at most {}", Op::MAX_COMPUTE),
            );
        }
        let has = Has { accesses: misses > 0, cycles: cycles > 0, locks: false };
        self.finish(spread, Length::Passes(1), has, Entry::Shared)
    }

    pub(super) fn spread(mut self, p: &spec::Spread) -> Result<Workload> {
        let wcet = self.required("wcet", p.wcet, "give a time, like \"2 ms\"")?;
        let misses = self.required("misses", p.misses, "give a number")?;
        self.within("misses", misses, 0..=1 << 40)?;
        let lines = self.stated_lines(misses);
        let walk = Walk::new(self.region("data", "misses", lines)?, lines, Order::Sequential);
        let cycles = self.computation(wcet, misses);
        let spread =
            Spread::new(cycles, misses, 1, None, walk).prefetched(self.ahead(wcet, misses));
        self.stated(spread, misses, cycles)
    }

    /// Misses of a stated task that must overlap with others, because all of them one after another
    /// would take longer than the stated time. An overlapping miss is taken to need a third of the
    /// time of a waited-for miss.
    fn ahead(&self, wcet: Time, misses: u64) -> u64 {
        let miss = u128::from(self.ctx.miss_ps.max(1));
        let beyond = (u128::from(misses) * miss).saturating_sub(u128::from(wcet.ps()));
        u64::try_from((beyond * 3).div_ceil(miss * 2)).unwrap_or(u64::MAX)
    }

    pub(super) fn profile_like(mut self, p: &spec::ProfileLike) -> Result<Workload> {
        let misses = self.required("misses", p.misses, "give a number")?;
        self.within("misses", misses, 0..=1 << 40)?;
        let cycles = match (p.wcet, p.instructions) {
            (Some(wcet), None) => self.computation(wcet, misses),
            // One multiplication and a rounding: the same on every machine.
            (None, Some(n)) => {
                (self.within("instructions", n, 0..=1 << 48)? as f64 * self.ctx.cpi).round() as u64
            }
            (Some(_), Some(n)) => {
                return self.refuse("instructions", n, "give this or `wcet`, not both");
            }
            (None, None) => {
                self.required("wcet", None, "give a time, like \"2 ms\", or `instructions`")?
            }
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

    pub(super) fn eembc(mut self, p: &spec::EembcTask) -> Result<Workload> {
        if p.wcet.ps() == 0 {
            return self.refuse("wcet", p.wcet, "give more than zero");
        }
        if !(p.memory > 0.0 && p.memory <= 1.0) {
            return self.refuse("memory", p.memory, "give a share above 0, at most 1");
        }
        let share = u128::from((p.memory * 10_000.0).round() as u64)
            * u128::from(presets::miss_rate(p.benchmark));
        if share > 10_000 * 1000 {
            return self.refuse(
                "memory",
                p.memory,
                "with this benchmark's miss rate, misses would take all its time",
            );
        }
        let misses =
            u128::from(p.wcet.ps()) * share / 10_000_000 / u128::from(self.ctx.miss_ps.max(1));
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
            accesses: recording.ops.iter().any(|&op| is_access(op)),
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
            return Err(WorkloadError::Missing {
                kind: self.kind,
                key: "file",
                message: "give a file name",
            });
        }
        Ok(self.ctx.base_dir.join(file))
    }

    pub(super) fn trace(mut self, p: &spec::Trace) -> Result<Workload> {
        let path = self.file(&p.file)?;
        let (recording, found) = replay::open(&path, self.ctx)?;
        let entry = match (found, p.entry) {
            (Entry::Shared, Some(spec::EntryPoint::Private)) => {
                let message =
                    "the private caches have filtered this trace already; leave `entry` out";
                return self.refuse("entry", "\"private\"", message);
            }
            (_, Some(spec::EntryPoint::Shared)) => Entry::Shared,
            _ => found,
        };
        self.regions.push(("data".to_owned(), 0..recording.pages));
        self.replayed(recording, entry)
    }

    pub(super) fn profile(mut self, p: &spec::Profile) -> Result<Workload> {
        let path = self.file(&p.file)?;
        let (recording, names) = replay::profile(&path, p.streams, self.ctx)?;
        self.regions = replay::regions(&names);
        let mut workload = self.replayed(recording, Entry::Shared)?;
        workload.page_names = names;
        Ok(workload)
    }
}
