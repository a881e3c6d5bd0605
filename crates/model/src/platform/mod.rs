//! A board: cores, private caches, the shared last-level cache (LLC) and DRAM.
//!
//! Presets live in `platforms/*.toml`, every number with its source in a comment. The same type
//! drives the profiler's cache geometry, the planner's bounds and the simulator's machine.

mod clocks;
mod core_types;
mod each_core;
mod find;
mod pace;
mod private;
mod row_hit_cap;
mod slices;
#[cfg(test)]
mod tests;

pub use core_types::CoreType;
pub use pace::Pace;
pub use private::{L1, L2, Pipeline, PrivateCaches};
pub use row_hit_cap::RowHitCap;

use crate::error::ModelError;
use crate::units::{Bandwidth, Bytes, Cycles, Frequency, Time};
use crate::{kind::Kind, missing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Instruction set of a board or a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Isa {
    #[serde(rename = "x86_64")]
    X86_64,
    I386,
    Aarch64,
    Arm,
    Powerpc,
    Powerpc64,
    Powerpc64le,
    Riscv64,
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::I386 => "i386",
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
            Self::Powerpc => "powerpc",
            Self::Powerpc64 => "powerpc64",
            Self::Powerpc64le => "powerpc64le",
            Self::Riscv64 => "riscv64",
        })
    }
}

/// Way in which the shared cache can be divided between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Partition {
    /// Lines can be locked in place (`dcbls` on the P4080, lockdown by master on the PL310).
    Lock,
    /// Allocation masks over ways (Intel CAT, Arm MPAM).
    Way,
    /// Only page colouring: sets are divided by physical page number.
    Colour,
}

/// The line that a set of the shared cache replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The least recently used line. The profiler counts misses by ways in this way.
    #[default]
    Lru,
    /// Tree pseudo-LRU.
    Plru,
    /// Any line, drawn with the seed of the simulation.
    Random,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_lru(r: &Replacement) -> bool {
    *r == Replacement::Lru
}

/// `[llc]`: the shared last-level cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Llc {
    /// Capacity.
    pub size: Bytes,
    /// Associativity.
    pub ways: u32,
    /// Cycles that a hit costs beyond a first-level hit.
    pub latency: Cycles,
    /// Way in which it can be divided.
    pub partition: Partition,
    /// Slices that a hash of the address spreads lines over; page colours come from the sets of
    /// one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(extend("default" = 1))]
    pub slices: u32,
    /// For each bit of a slice's number, the physical address bits whose parity it is, as a mask.
    /// Left out: unknown, and the simulator takes a hash of its own. With them the pages of a
    /// colour can be spread evenly over the slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slice_functions: Vec<u64>,
    /// Line size of every level; one DRAM access moves one line (`S_line`).
    pub line: Bytes,
    /// The line of a set that is replaced.
    #[serde(default, skip_serializing_if = "is_lru")]
    #[schemars(extend("default" = "lru"))]
    pub replacement: Replacement,
    /// Most misses that it can have under way for all cores together. With fewer than the cores'
    /// miss registers, a core waits for others' misses even on a hit (Valsan et al., RTAS 2016).
    /// Left out: no such limit. The simulator models none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mshrs: Option<u32>,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_one(n: &u32) -> bool {
    *n == 1
}

/// `[dram]`: main memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// The devices of the request-level simulator: a memory of crates/dram by name, or a file.
    /// Channels, ranks, banks, row and capacity are those given here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Total capacity.
    pub capacity: Bytes,
    /// Independent channels.
    pub channels: u32,
    /// Ranks of a channel.
    pub ranks: u32,
    /// Banks of a rank.
    pub banks: u32,
    /// Row-buffer size of a rank.
    pub row: Bytes,
    /// Column access (CAS) latency.
    pub t_cl: Time,
    /// Row activate to column command.
    pub t_rcd: Time,
    /// Precharge.
    pub t_rp: Time,
    /// Row activate to precharge.
    pub t_ras: Time,
    /// Time of one line on the data bus.
    pub t_burst: Time,
    /// Time of interconnect and controller for a request, beyond the DRAM commands and the clocks
    /// in which the model's controller takes a request in and out (`latency_max` has them).
    pub overhead: Time,
    /// `L_max`: worst service time of a request that meets no request of another core: a row
    /// conflict right after a write, refresh apart.
    pub latency_max: Time,
    /// `L_max` of the papers' memory, which posts no writes; `[regulation] model = "sce"` uses it.
    /// Left out, `latency_max` is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_max_paper: Option<Time>,
    /// Most younger row hits that may pass an older request of their bank; `"off"`: any number.
    #[serde(default, skip_serializing_if = "RowHitCap::is_default")]
    #[schemars(extend("default" = 4))]
    pub row_hit_cap: RowHitCap,
    /// An event that `solocore run` knows counts each core's write-backs apart from its reads. Then
    /// plans give budgets of writes where these lower the bounds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub counts_writes: bool,
}

/// A board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Short name; for a preset the name of its file.
    pub name: String,
    /// Full name.
    pub title: String,
    /// Instruction set of its cores.
    pub isa: Isa,
    /// Number of cores.
    pub cores: u32,
    /// Core clock; with core types, that of the slowest.
    pub frequency: Frequency,
    /// Cycles per instruction when every reference hits the first-level caches.
    pub cpi: f64,
    /// Page size.
    pub page: Bytes,
    /// Memory time that a core hides.
    #[serde(default)]
    pub pipeline: Pipeline,
    /// Private instruction cache.
    pub l1i: L1,
    /// Private data cache.
    pub l1d: L1,
    /// Private second level, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2: Option<L2>,
    /// Shared last level.
    pub llc: Llc,
    /// Main memory.
    pub dram: Dram,
    /// Types of cores with a clock, cycles per instruction, pipeline or private caches of their
    /// own. Left out: all cores are alike.
    #[serde(default, rename = "core_type", skip_serializing_if = "Vec::is_empty")]
    pub core_types: Vec<CoreType>,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// The boards that come with solocore: name and TOML text.
        pub const PRESETS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../platforms/", $name, ".toml")))),*];
    };
}
presets!(
    "p4080",
    "imx6q",
    "xeon-w3530",
    "core-i5-2500k",
    "xeon-x5650",
    "raspberry-pi-4",
    "xeon-gold-6338"
);

impl Platform {
    /// Parses and checks the text of a platform file.
    ///
    /// # Errors
    /// [`ModelError::Parse`] or [`ModelError::Invalid`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let platform: Self = missing::parsed(path, text, Kind::Platform)?;
        platform.check().map_err(|message| ModelError::Invalid {
            path: path.to_owned(),
            line: None,
            message,
        })?;
        Ok(platform)
    }

    /// Checks that the values are possible and fit together.
    ///
    /// # Errors
    /// The key, its value, and the remedy.
    pub fn check(&self) -> Result<(), String> {
        let power = |what: &str, v: u64| {
            if v.is_power_of_two() {
                Ok(())
            } else {
                Err(format!("{what} is {v}; it must be a power of two"))
            }
        };
        if !(1..=256).contains(&self.cores) {
            return Err(format!("cores = {}; a platform has 1 to 256", self.cores));
        }
        private::check_cpi("", self.cpi)?;
        private::check_pipeline("", self.pipeline)?;
        if !core_types::FREQUENCIES.contains(&self.frequency.0) {
            return Err(format!("frequency = {}; give 1 MHz to 100 GHz", self.frequency));
        }
        core_types::check(&self.core_types, self.cores, self.frequency)?;
        power("llc.line", self.llc.line.0)?;
        if !(16..=1024).contains(&self.llc.line.0) {
            return Err(format!("llc.line = {}; give 16 B to 1 KiB", self.llc.line));
        }
        power("llc.slices", u64::from(self.llc.slices))?;
        slices::check(self.llc.slices, self.llc.line.0, &self.llc.slice_functions)?;
        power("page", self.page.0)?;
        if !(self.llc.line.0..=65536).contains(&self.page.0) || self.page.0 / self.llc.line.0 > 1024
        {
            return Err(format!(
                "page = {}; give a page of 4 to 64 KiB, and at most 1024 lines",
                self.page
            ));
        }
        self.check_caches()?;
        for kind in &self.core_types {
            let first = [&self.l1i, &self.l1d];
            kind.check_own(first, self.l2.as_ref(), self.llc.size, self.llc.line)?;
        }
        let d = &self.dram;
        if !(1..=16).contains(&d.channels) {
            return Err(format!("dram.channels is {}; give 1 to 16", d.channels));
        }
        for (what, v) in [("ranks", d.ranks), ("banks", d.banks)] {
            power(&format!("dram.{what}"), u64::from(v))?;
        }
        power("dram.row", d.row.0)?;
        if d.row.0 < self.llc.line.0 {
            return Err(format!(
                "dram.row = {} is smaller than a line of {}",
                d.row, self.llc.line
            ));
        }
        if d.capacity.0 < self.page.0 || d.t_burst.ps() == 0 {
            return Err(
                "dram.capacity must hold a page and dram.t_burst must be more than zero".to_owned()
            );
        }
        if d.t_ras < d.t_rcd {
            return Err(format!(
                "dram.t_ras = {} is below dram.t_rcd = {}, and a row is open for t_rcd at least; \
                    correct one",
                d.t_ras, d.t_rcd
            ));
        }
        let conflict = self.row_conflict();
        let cycle = Time::from_ps(d.t_ras.ps() + d.t_rp.ps());
        if d.latency_max < conflict || d.latency_max < cycle {
            return Err(format!(
                "dram.latency_max = {} is below the row conflict (overhead + t_rp + t_rcd + t_cl + \
                    t_burst = {conflict}) or the row cycle (t_ras + t_rp = {cycle}); it must bound \
                    both",
                d.latency_max
            ));
        }
        Ok(())
    }

    fn check_caches(&self) -> Result<(), String> {
        let mut caches =
            vec![("l1i", self.l1i.size, self.l1i.ways), ("l1d", self.l1d.size, self.l1d.ways)];
        if let Some(l2) = &self.l2 {
            caches.push(("l2", l2.size, l2.ways));
        }
        caches.push(("llc", self.llc.size, self.llc.ways));
        caches.into_iter().try_for_each(|(what, size, ways)| {
            private::check_cache(what, size, ways, self.llc.line)
        })
    }

    /// Service time of a request that meets another row in its bank: the slowest single request.
    pub fn row_conflict(&self) -> Time {
        let d = &self.dram;
        Time::from_ps(d.overhead.ps() + d.t_rp.ps() + d.t_rcd.ps() + d.t_cl.ps() + d.t_burst.ps())
    }

    /// Service time of a request that finds its row open: the fastest single request.
    pub fn row_hit(&self) -> Time {
        Time::from_ps(self.dram.overhead.ps() + self.dram.t_cl.ps() + self.dram.t_burst.ps())
    }

    /// `L_max` of the papers' memory, where the file has one.
    pub fn latency_of_paper(&self) -> Time {
        self.dram.latency_max_paper.unwrap_or(self.dram.latency_max)
    }

    /// Guaranteed bandwidth `BW_min = S_line / L_max` (SCE section 3.2), rounded down.
    pub fn guaranteed_bandwidth(&self) -> Bandwidth {
        let per_second = u128::from(self.llc.line.0) * 1_000_000_000_000
            / u128::from(self.dram.latency_max.ps());
        Bandwidth(u64::try_from(per_second).unwrap_or(u64::MAX))
    }

    /// Lines in a page.
    pub fn lines_per_page(&self) -> u32 {
        u32::try_from(self.page.0 / self.llc.line.0).expect("checked: at most 1024")
    }

    /// Sets of the shared cache.
    pub fn llc_sets(&self) -> u32 {
        u32::try_from(self.llc.size.0 / (u64::from(self.llc.ways) * self.llc.line.0))
            .expect("checked: at most 1 GiB")
    }

    /// Page colours of the shared cache: pages of different colours share no set. In a sliced cache
    /// only the set index within a slice follows from the page number.
    pub fn colours(&self) -> u32 {
        (self.llc_sets() / self.llc.slices / self.lines_per_page()).max(1)
    }

    /// Pages that one way of the shared cache holds.
    pub fn pages_per_way(&self) -> u32 {
        (self.llc_sets() / self.lines_per_page()).max(1)
    }

    /// Pages of one colour that the shared cache holds: its ways in each slice. In a sliced cache
    /// the pages of a colour must be spread evenly over the slices' hash.
    pub fn pages_per_colour(&self) -> u32 {
        self.llc.ways * (self.pages_per_way() / self.colours()).max(1)
    }

    /// For pages of one colour, the functions by which they differ in their slices: masks of
    /// address bits above those of the colour. Empty where no function is known.
    #[must_use]
    pub fn slice_functions_of_pages(&self) -> Vec<u64> {
        let low = self.page.0.saturating_mul(u64::from(self.colours())).saturating_sub(1);
        slices::above(&self.llc.slice_functions, low)
    }

    /// Do a profile's misses by ways hold for its shared cache? They are counted under LRU, in sets
    /// that follow from the page number alone; a hash over slices gives lines other sets.
    pub fn counts_by_ways(&self) -> bool {
        self.llc.replacement == Replacement::Lru && self.llc.slices == 1
    }

    /// All DRAM banks, over channels and ranks.
    pub fn total_banks(&self) -> u32 {
        self.dram.channels * self.dram.ranks * self.dram.banks
    }

    /// Time of `cycles` at `frequency` in picoseconds, rounded up: enough on every core.
    pub fn cycles_to_ps(&self, cycles: u64) -> u64 {
        self.frequency.cycles_to_ps(cycles)
    }
}
