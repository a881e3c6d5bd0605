//! Configuration of a machine.
//!
//! Rule: [`MachineConfig::of`] takes everything from a platform; its fields are public, so that
//! experiments vary one of them. The memory is the one that `dram.memory` names, with the
//! platform's channels, ranks, banks, row and capacity put in. Banks are given out by page (PALLOC,
//! SCE section 2.1), so where the memory's own order puts the channel below the column, and there
//! are several channels, the channel goes above it. A page then lies in one bank of one channel. A
//! memory file whose map has XOR functions is taken as it is; [`Layout::one_bank`] gives the
//! result.

use schemars::JsonSchema;
use serde::Deserialize;
use solocore_cache::prefetch::PrefetcherKind;
use solocore_dram::{OfPlatform, Spec};
use solocore_model::platform::{L1, L2, Llc, Pipeline, PrivateCaches};
use solocore_model::{Bytes, ModelError, Platform};

/// Highest clock of a core, in Hz.
const MOST_HZ: u64 = 100_000_000_000;

/// Faults of a machine that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A value of the configuration is impossible.
    #[error("machine: {key}: {message}")]
    Config {
        /// The key of the platform file that it comes from.
        key: &'static str,
        /// The fault and its remedy.
        message: String,
    },
    /// A program does not fit the machine.
    #[error("program {program}: {message}")]
    Program {
        /// Its index.
        program: usize,
        /// The fault and its remedy.
        message: String,
    },
    /// A device does not fit the machine.
    #[error("device `{name}`: {message}")]
    Device {
        /// Its name.
        name: String,
        /// The fault and its remedy.
        message: String,
    },
    /// The memory that `dram.memory` names is missing or impossible.
    #[error("dram.memory: {0}")]
    Memory(#[from] ModelError),
}

impl From<OfPlatform> for MachineError {
    fn from(error: OfPlatform) -> Self {
        match error {
            OfPlatform::Key { key, message } => config_error(key, message),
            OfPlatform::Memory(error) => Self::Memory(error),
        }
    }
}

pub(super) fn config_error(key: &'static str, message: impl Into<String>) -> MachineError {
    MachineError::Config { key, message: message.into() }
}

/// A stream of a DMA engine that runs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Into memory, or out of it.
    pub into_memory: bool,
    /// Rate in bytes per second; `None`: as fast as the waits and the memory allow.
    pub bytes_per_s: Option<u64>,
    /// Time of its first block.
    pub start_ps: u64,
    /// No line is sent at or after this time.
    pub stop_ps: u64,
}

/// A DMA engine. It moves blocks of lines between a device and a buffer in DRAM, past the caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmaSpec {
    /// For messages.
    pub name: String,
    /// Page frames of its buffer; they determine its banks.
    pub frames: Vec<u64>,
    /// Lines of a block.
    pub block_lines: u32,
    /// Wait states: time from the end of a block to the begin of the next.
    pub wait_ps: u64,
    /// Lines under way at once.
    pub outstanding: u32,
    /// Its own traffic; `None`: it waits for orders.
    pub autonomous: Option<Stream>,
}

/// A core's translation buffer, and the page tables behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Translation {
    /// Entries of the buffer, 1 to 65536.
    pub entries: u32,
    /// Its ways, 1 to 64.
    pub ways: u32,
    /// Bytes of a page table's entry: 8, or 4 with the short descriptors of 32-bit Arm.
    #[serde(default = "long")]
    pub entry: Bytes,
    /// Are its entries marked by address space (ASID, PCID)? Without marks it is emptied when
    /// another task comes.
    #[serde(default)]
    pub tagged: bool,
}

const fn long() -> Bytes {
    Bytes(8)
}

impl Translation {
    /// Checks that the values are possible.
    pub(super) fn check(&self) -> Result<(), MachineError> {
        let Self { entries, ways, entry, tagged: _ } = *self;
        if !(1..=64).contains(&ways) {
            return Err(config_error("translation.ways", format!("{ways}; give 1 to 64")));
        }
        if !(entries / ways).is_power_of_two() || !entries.is_multiple_of(ways) || entries > 65536 {
            let message = format!(
                "{entries} entries in {ways} ways is not a power-of-two number of sets; give at \
                    most 65536"
            );
            return Err(config_error("translation.entries", message));
        }
        if !matches!(entry.0, 4 | 8) {
            let message = format!("{} bytes; give 4 or 8", entry.0);
            return Err(config_error("translation.entry", message));
        }
        Ok(())
    }

    /// Frames of the last level of the page table of a program.
    #[must_use]
    pub fn tables(&self, pages: u32, page: u64) -> u32 {
        u32::try_from((u64::from(pages) * self.entry.0).div_ceil(page)).unwrap_or(u32::MAX)
    }
}

/// The private parts of each core of a platform with types.
fn own(p: &Platform) -> Vec<Own> {
    let typed = if p.core_types.is_empty() { 0 } else { p.cores };
    let own = |core| Own { caches: p.private_of(core), pipeline: p.pipeline_of(core) };
    (0..typed).map(own).collect()
}

/// The parts of a core that it does not share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Its private caches.
    pub caches: PrivateCaches,
    /// Its miss registers and window.
    pub pipeline: Pipeline,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// Cores, 1 to 256.
    pub cores: u32,
    /// Core clock in Hz, 1 MHz to 100 GHz; with clocks of their own, that of the slowest core. The
    /// latency of the shared cache is in its cycles.
    pub frequency: u64,
    /// Clock of each core in Hz, where they differ; empty otherwise.
    pub clocks: Vec<u64>,
    /// Bytes of a page.
    pub page: u64,
    /// Private caches and pipeline of each core, where they differ; empty otherwise. They take the
    /// place of `l1i`, `l1d`, `l2` and `pipeline`.
    pub own: Vec<Own>,
    /// Private instruction cache of each core.
    pub l1i: L1,
    /// Private data cache of each core.
    pub l1d: L1,
    /// Private second level of each core.
    pub l2: Option<L2>,
    /// Shared cache; its line is the line of every level.
    pub llc: Llc,
    /// Miss registers and window of each core.
    pub pipeline: Pipeline,
    /// The DRAM.
    pub memory: Spec,
    /// Most younger row hits that may pass an older request of their bank; `None`: any number.
    pub row_hit_cap: Option<u32>,
    /// Controller and interconnect time of a request, spent before it queues, in ps.
    pub overhead_ps: u64,
    /// Longest time that a core may run ahead of the others within its private caches, ps. A
    /// dispatch that answers another core's notice is late by at most this.
    pub quantum_ps: u64,
    /// Lines that each core fetches unasked.
    pub prefetcher: PrefetcherKind,
    /// Translation buffer of each core; `None`: every translation is there, at no cost.
    pub translation: Option<Translation>,
    /// Seed of random replacement.
    pub seed: u64,
}

impl MachineConfig {
    /// Run-ahead within private caches unless stated: 200 ns.
    pub const QUANTUM_PS: u64 = 200_000;

    /// The machine of a platform.
    ///
    /// # Errors
    /// The key at fault; a platform without `dram.memory` cannot be simulated request by request.
    pub fn of(p: &Platform, seed: u64) -> Result<Self, MachineError> {
        let config = Self {
            cores: p.cores,
            frequency: p.frequency.0,
            clocks: p.clocks().iter().map(|clock| clock.0).collect(),
            page: p.page.0,
            own: own(p),
            l1i: p.l1i.clone(),
            l1d: p.l1d.clone(),
            l2: p.l2.clone(),
            llc: p.llc.clone(),
            pipeline: p.pipeline,
            memory: Spec::of_platform(p)?,
            row_hit_cap: p.dram.row_hit_cap.limit(),
            overhead_ps: p.dram.overhead.ps(),
            quantum_ps: Self::QUANTUM_PS,
            prefetcher: PrefetcherKind::Off,
            translation: None,
            seed,
        };
        config.check()?;
        Ok(config)
    }

    /// Checks that the values are possible.
    ///
    /// # Errors
    /// The key, its value, and the remedy.
    pub fn check(&self) -> Result<(), MachineError> {
        let fail = |key, message: String| Err(config_error(key, message));
        if !(1..=256).contains(&self.cores) {
            return fail("cores", format!("{}; give 1 to 256", self.cores));
        }
        if !(1_000_000..=MOST_HZ).contains(&self.frequency) {
            return fail("frequency", format!("{} Hz; give 1 MHz to 100 GHz", self.frequency));
        }
        let apart = self.clocks.len() != self.cores as usize && !self.clocks.is_empty();
        if apart || self.clocks.iter().any(|clock| !(self.frequency..=MOST_HZ).contains(clock)) {
            let message = "give each core a clock from frequency to 100 GHz".to_owned();
            return fail("core_type", message);
        }
        let line = self.llc.line.0;
        if !line.is_power_of_two() || !(16..=1024).contains(&line) {
            return fail("llc.line", format!("{line} bytes; give a power of two from 16 to 1024"));
        }
        if !self.page.is_power_of_two() || !(line..=65536).contains(&self.page) {
            return fail(
                "page",
                format!("{} bytes; give a power of two from a line to 64 KiB", self.page),
            );
        }
        if self.own.len() != self.cores as usize && !self.own.is_empty() {
            let message = "give each core its private caches and pipeline".to_owned();
            return fail("core_type", message);
        }
        if self.overhead_ps > 1_000_000_000 || self.quantum_ps > 1_000_000_000 {
            return fail("dram.overhead", "overhead and quantum are at most 1 ms".to_owned());
        }
        let Llc { size, ways, slices, latency, .. } = &self.llc;
        self.check_level("llc.size", (size.0, *ways, *slices), latency.0)?;
        let functions = self.llc.slice_functions.len();
        if functions != 0 && functions != slices.trailing_zeros() as usize {
            let message = format!("{functions} masks for {slices} slices; give one a bit");
            return fail("llc.slice_functions", message);
        }
        let all = self.own.iter().cloned();
        for own in all.chain(self.own.is_empty().then(|| self.own_of(0))) {
            self.check_own(&own)?;
        }
        self.translation.as_ref().map_or(Ok(()), Translation::check)?;
        self.memory
            .check()
            .map_err(|(key, message)| config_error("dram.memory", format!("{key}: {message}")))?;
        if self.memory.organisation.capacity() < self.page {
            return fail("dram.capacity", "the memory holds no page".to_owned());
        }
        Ok(())
    }

    /// Clock of a core in Hz.
    #[must_use]
    pub fn clock_of(&self, core: usize) -> u64 {
        self.clocks.get(core).copied().unwrap_or(self.frequency)
    }

    /// Private caches and pipeline of a core.
    #[must_use]
    pub fn own_of(&self, core: usize) -> Own {
        self.own.get(core).cloned().unwrap_or_else(|| Own {
            caches: PrivateCaches {
                l1i: self.l1i.clone(),
                l1d: self.l1d.clone(),
                l2: self.l2.clone(),
            },
            pipeline: self.pipeline,
        })
    }

    fn check_own(&self, own: &Own) -> Result<(), MachineError> {
        let mshrs = own.pipeline.mshrs;
        if !(1..=64).contains(&mshrs) {
            return Err(config_error("pipeline.mshrs", format!("{mshrs}; give 1 to 64")));
        }
        let PrivateCaches { l1i, l1d, l2 } = &own.caches;
        self.check_level("l1i.size", (l1i.size.0, l1i.ways, 1), 0)?;
        self.check_level("l1d.size", (l1d.size.0, l1d.ways, 1), 0)?;
        l2.as_ref()
            .map_or(Ok(()), |c| self.check_level("l2.size", (c.size.0, c.ways, 1), c.latency.0))
    }

    /// Checks a cache of this size in ways and slices.
    fn check_level(
        &self,
        key: &'static str,
        (size, ways, slices): (u64, u32, u32),
        latency: u64,
    ) -> Result<(), MachineError> {
        self.check_cache(key, size, ways, slices)?;
        if latency > 1_000_000 {
            let message = format!("a latency of {latency} cycles; give at most 1000000");
            return Err(config_error(key, message));
        }
        Ok(())
    }

    fn check_cache(
        &self,
        key: &'static str,
        size: u64,
        ways: u32,
        slices: u32,
    ) -> Result<(), MachineError> {
        let sets = sets(size, ways, self.llc.line.0);
        let whole = sets * u64::from(ways) * self.llc.line.0 == size;
        if !(1..=64).contains(&ways) || !whole || !sets.is_power_of_two() || size > 1 << 30 {
            return Err(config_error(
                key,
                format!(
                    "{size} bytes in {ways} ways is not a power-of-two number of sets of 1 to 64 \
                        ways"
                ),
            ));
        }
        if !slices.is_power_of_two() || u64::from(slices) > sets.min(256) {
            return Err(config_error(
                "llc.slices",
                format!("{slices}; give a power of two up to {}", sets.min(256)),
            ));
        }
        let bits = (sets / u64::from(slices)).trailing_zeros();
        // A tag and the kind of its page fit in 31 bits, and not all of them are set.
        if self.line_bits() + 2 > bits + 31 {
            return Err(config_error(
                "dram.capacity",
                format!(
                    "{} bytes are too many for tags of 29 bits in {key}; give less memory or more \
                        sets",
                    self.capacity()
                ),
            ));
        }
        Ok(())
    }

    /// Bits of a physical line number.
    pub(super) fn line_bits(&self) -> u32 {
        // One more value than there are lines keeps a tag of ones free.
        (self.capacity() / self.llc.line.0).next_power_of_two().trailing_zeros() + 1
    }

    fn capacity(&self) -> u64 {
        self.memory.organisation.capacity()
    }
}

/// Sets of a cache.
pub(super) fn sets(size: u64, ways: u32, line: u64) -> u64 {
    size / (u64::from(ways.max(1)) * line.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn buffer(entries: u32, ways: u32, entry: u64) -> Option<Translation> {
        Some(Translation { entries, ways, entry: Bytes(entry), tagged: false })
    }

    #[test]
    fn platforms_become_machines_whose_pages_have_one_bank() {
        for (name, _) in solocore_model::platform::PRESETS {
            let p = Platform::find(name, Path::new(".")).unwrap();
            let config = MachineConfig::of(&p, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
            let layout = config.layout().unwrap();
            assert!(layout.one_bank(), "{name}");
            assert_eq!(layout.frames(), p.dram.capacity.0 / p.page.0, "{name}");
            assert_eq!(layout.banks(), p.total_banks(), "{name}");
            assert_eq!(layout.colours(), u64::from(p.colours()), "{name}");
            // Every bank has its share of the frames.
            let mut frames = vec![0u64; layout.banks() as usize];
            let step = u64::from(layout.banks()) * p.dram.row.0 / p.page.0;
            (0..step).for_each(|f| frames[layout.bank(f) as usize] += 1);
            assert!(frames.iter().all(|&n| n == step / frames.len() as u64), "{name}: {frames:?}");
        }
    }

    #[test]
    fn interleaving_below_the_page_is_seen() {
        let p = Platform::find("p4080", Path::new(".")).unwrap();
        let mut config = MachineConfig::of(&p, 1).unwrap();
        config.memory.map.order =
            ["row", "bank", "bank_group", "rank", "column", "channel"].map(str::to_owned).to_vec();
        let layout = config.layout().unwrap();
        assert!(!layout.one_bank());
        assert_eq!(layout.banks_of(0), [0, 16]);
    }

    #[test]
    fn impossible_values_name_their_key() {
        let p = Platform::find("p4080", Path::new(".")).unwrap();
        let base = MachineConfig::of(&p, 1).unwrap();
        type Change = fn(&mut MachineConfig);
        let cases: [(&str, Change); 12] = [
            ("cores", |c| c.cores = 0),
            ("page", |c| c.page = 3000),
            ("core_type", |c| c.clocks = vec![c.frequency - 1; c.cores as usize]),
            ("llc.size", |c| c.llc.ways = 65),
            ("pipeline.mshrs", |c| c.pipeline.mshrs = 0),
            ("core_type", |c| c.own = vec![c.own_of(0)]),
            ("l1d.size", |c| {
                c.own = (0..c.cores as usize).map(|core| c.own_of(core)).collect();
                c.own[1].caches.l1d.ways = 65;
            }),
            ("llc.slices", |c| c.llc.slices = 3),
            ("translation.ways", |c| c.translation = buffer(64, 0, 8)),
            ("translation.entries", |c| c.translation = buffer(96, 2, 8)),
            ("translation.entry", |c| c.translation = buffer(64, 2, 3)),
            ("dram.memory", |c| c.memory.timing.t_ras = 1),
        ];
        for (key, change) in cases {
            let mut config = base.clone();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("machine: {key}: ")), "{error}");
        }
        let mut p = p;
        p.dram.memory = None;
        assert!(MachineConfig::of(&p, 1).unwrap_err().to_string().contains("dram.memory"));
    }
}
