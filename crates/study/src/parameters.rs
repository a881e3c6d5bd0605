//! The ranges that the generator and the cost model draw from, and their file.
//!
//! Problem: the paper prints the distributions of Table 3 but not those behind its cost model.
//! Rule: every assumed range is in one file, `parameters.toml`, each with its reason; a study
//! records the file that it used.

use crate::StudyError;
use crate::random::Range;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use solocore_model::{ModelError, files};
use solocore_planner::levels::optimiser::Machine;
use solocore_planner::levels::optimiser::ways::MOST_WAYS;
use std::path::Path;

/// The file that comes with solocore.
pub const DEFAULT_PARAMETERS: &str = include_str!("../parameters.toml");

/// All assumed values. Reasons are in `parameters.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The shared cache.
    pub machine: MachineParameters,
    /// Execution times.
    pub execution: ExecutionParameters,
    /// Interrupts, all on core 0.
    pub interrupts: InterruptParameters,
    /// Costs of DMA.
    pub dma: DmaParameters,
    /// Costs of I/O buffers.
    pub io: IoParameters,
    /// Costs of sharing a DRAM bank.
    pub sharing: SharingParameters,
    /// Messages.
    pub ipc: IpcParameters,
}

/// The shared cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineParameters {
    /// Ways, at most [`MOST_WAYS`].
    pub ways: usize,
    /// Bytes of a way.
    pub way_bytes: u64,
    /// Ways that level C and the OS have at least.
    pub least_ways_of_c: usize,
    /// Ways per core assumed when tasks are placed.
    pub placement_ways: usize,
}

/// Execution times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionParameters {
    /// Level-A PET over level-B PET, at least 1.
    pub level_a_over_b: f64,
    /// Level-C PET over level-B PET, at most 1.
    pub average_over_longest: Range,
    /// `s` in `1 + s*e^(-d*w)`.
    pub slowdown: Range,
    /// `d` in `1 + s*e^(-d*w)`, per way.
    pub decay: Range,
}

/// Interrupts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterruptParameters {
    /// Microseconds between ticks.
    pub tick_period_us: f64,
    /// Microseconds of a tick.
    pub tick_us: f64,
    /// Bytes moved by DMA per interrupt.
    pub device_block_bytes: u64,
    /// Microseconds of a device's interrupt.
    pub device_us: f64,
}

/// DMA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DmaParameters {
    /// Traffic at which the effect has reached 63 %, in 10^6 bytes per second.
    pub saturation_mb_per_s: f64,
    /// Longer by this share on a busy bus.
    pub bus: Range,
    /// Longer by this share, without ways, if the traffic goes to the task's bank.
    pub bank: Range,
}

/// I/O buffers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoParameters {
    /// Share of the idle time that copies I/O data.
    pub copy_share: Range,
    /// Speed of copying, in 10^6 bytes per second.
    pub copy_mb_per_s: Range,
    /// The copy is longer by this share if the buffer is in a bank that others access.
    pub cpu_sourced: Range,
}

/// Shared banks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharingParameters {
    /// Levels A and B: longer by this share if others access the task's bank all the time.
    pub victim: Range,
    /// The same for level C, whose PETs are averages.
    pub victim_of_c: Range,
    /// Cores' worth of accesses at which the effect has reached 63 %.
    pub saturation_cores: f64,
}

/// Messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpcParameters {
    /// Share of the tasks of a level that send or receive.
    pub communicating: Range,
    /// Fewest and most tasks of a chain, both included.
    pub chain: [u32; 2],
    /// Share of the idle time in a buffer of small messages.
    pub share_small: Range,
    /// Share of the idle time in a buffer of large messages.
    pub share_large: Range,
    /// Time to send under CE over that under SBP.
    pub send_ce_over_sbp: Range,
    /// Time to receive under CE over that under SBP.
    pub receive_ce_over_sbp: Range,
    /// Time to send under CL over that under SBP.
    pub send_cl_over_sbp: Range,
    /// Time to receive under CL over that under SBP.
    pub receive_cl_over_sbp: Range,
    /// A cacheable buffer in a bank of level C costs this share more than an uncacheable one.
    pub eviction: Range,
}

/// A range by name, its largest permitted value, and whether zero is refused.
struct Named<'a> {
    name: &'static str,
    range: &'a mut Range,
    most: f64,
    positive: bool,
}

impl Parameters {
    /// The values that come with solocore.
    ///
    /// # Panics
    /// Never: a test reads them.
    #[must_use]
    pub fn standard() -> Self {
        Self::parse(Path::new("parameters.toml"), DEFAULT_PARAMETERS).expect("checked by a test")
    }

    /// Reads a parameter file.
    ///
    /// # Errors
    /// When it cannot be read, has unknown or missing keys, or a value out of its bounds.
    pub fn load(path: &Path) -> Result<Self, StudyError> {
        Self::parse(path, &files::read_text(path)?)
    }

    /// Reads the text of a parameter file; `path` is for messages.
    ///
    /// # Errors
    /// As [`Parameters::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, StudyError> {
        let mut out: Self =
            toml::from_str(text).map_err(|e| ModelError::from_toml(path, text, &e))?;
        match out.fault() {
            Some(message) => {
                Err(ModelError::Invalid { path: path.to_owned(), line: None, message }.into())
            }
            None => Ok(out),
        }
    }

    /// The machine for the optimiser.
    #[must_use]
    pub fn machine(&self) -> Machine {
        Machine {
            ways: self.machine.ways,
            way_bytes: self.machine.way_bytes,
            least_ways_of_c: self.machine.least_ways_of_c,
            placement_ways: self.machine.placement_ways,
            level_a_over_b: self.execution.level_a_over_b,
            tick_period_us: self.interrupts.tick_period_us,
            tick_us: self.interrupts.tick_us,
            device_block_bytes: self.interrupts.device_block_bytes,
            device_us: self.interrupts.device_us,
            dma_saturation_mb_per_s: self.dma.saturation_mb_per_s,
            sharing_saturation_cores: self.sharing.saturation_cores,
        }
    }

    /// A name for the values: the SHA-256 of them all, so that comments may change.
    ///
    /// # Panics
    /// Never: the type serialises.
    #[must_use]
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self).expect("numbers serialise");
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Every assumed range, for sensitivity studies; those stated by the paper are among them.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Self::standard().ranges().into_iter().map(|r| r.name).collect()
    }

    /// The same parameters with one range multiplied, cut to its permitted values. `None` if no
    /// range has this name.
    #[must_use]
    pub fn scaled(&self, name: &str, factor: f64) -> Option<Self> {
        let mut out = self.clone();
        let mut ranges = out.ranges();
        let found = ranges.iter_mut().find(|r| r.name == name)?;
        for end in found.range.iter_mut() {
            *end = (*end * factor).min(found.most);
        }
        out.dma.saturation_mb_per_s = out.dma.saturation_mb_per_s.max(f64::MIN_POSITIVE);
        Some(out)
    }

    fn ranges(&mut self) -> Vec<Named<'_>> {
        const FREE: f64 = 1e6;
        let named = |name, range, most, positive| Named { name, range, most, positive };
        let ipc = &mut self.ipc;
        vec![
            named(
                "execution.average_over_longest",
                &mut self.execution.average_over_longest,
                1.0,
                true,
            ),
            named("execution.slowdown", &mut self.execution.slowdown, FREE, false),
            named("execution.decay", &mut self.execution.decay, FREE, true),
            named("dma.bus", &mut self.dma.bus, FREE, false),
            named("dma.bank", &mut self.dma.bank, FREE, false),
            named("io.copy_share", &mut self.io.copy_share, 1.0, false),
            named("io.copy_mb_per_s", &mut self.io.copy_mb_per_s, FREE, true),
            named("io.cpu_sourced", &mut self.io.cpu_sourced, FREE, false),
            named("sharing.victim", &mut self.sharing.victim, FREE, false),
            named("sharing.victim_of_c", &mut self.sharing.victim_of_c, FREE, false),
            named("ipc.communicating", &mut ipc.communicating, 1.0, false),
            named("ipc.share_small", &mut ipc.share_small, 1.0, false),
            named("ipc.share_large", &mut ipc.share_large, 1.0, false),
            named("ipc.send_ce_over_sbp", &mut ipc.send_ce_over_sbp, 1.0, true),
            named("ipc.receive_ce_over_sbp", &mut ipc.receive_ce_over_sbp, 1.0, true),
            named("ipc.send_cl_over_sbp", &mut ipc.send_cl_over_sbp, 1.0, true),
            named("ipc.receive_cl_over_sbp", &mut ipc.receive_cl_over_sbp, 1.0, true),
            named("ipc.eviction", &mut ipc.eviction, FREE, false),
        ]
    }

    /// The fault and the remedy.
    fn fault(&mut self) -> Option<String> {
        for r in self.ranges() {
            let [low, high] = *r.range;
            let floor = if r.positive { low > 0.0 } else { low >= 0.0 };
            if !(floor && low <= high && high <= r.most) {
                let least = if r.positive { "above 0" } else { "0 or more" };
                return Some(format!(
                    "`{}` is [{low}, {high}]; give [low, high] with low {least}, not above high, \
                        and high at most {}",
                    r.name, r.most
                ));
            }
        }
        let machine = &self.machine;
        if !(1..=MOST_WAYS).contains(&machine.ways) {
            return Some(format!("`machine.ways` is {}; give 1 to {MOST_WAYS}", machine.ways));
        }
        if machine.least_ways_of_c > machine.ways || machine.placement_ways > machine.ways {
            return Some(format!(
                "`machine.least_ways_of_c` and `machine.placement_ways` must not exceed the {} \
                    ways",
                machine.ways
            ));
        }
        let [fewest, most] = self.ipc.chain;
        if fewest < 2 || most < fewest || most > 64 {
            return Some(format!(
                "`ipc.chain` is [{fewest}, {most}]; give 2 to 64 tasks, the fewest first"
            ));
        }
        let positive = [
            ("machine.way_bytes", machine.way_bytes as f64, 1.0),
            ("execution.level_a_over_b", self.execution.level_a_over_b, 1.0),
            ("interrupts.tick_period_us", self.interrupts.tick_period_us, 1.0),
            ("interrupts.device_block_bytes", self.interrupts.device_block_bytes as f64, 1.0),
            ("dma.saturation_mb_per_s", self.dma.saturation_mb_per_s, 1e-6),
            ("sharing.saturation_cores", self.sharing.saturation_cores, 1e-6),
            ("interrupts.tick_us", self.interrupts.tick_us, 0.0),
            ("interrupts.device_us", self.interrupts.device_us, 0.0),
        ];
        let (name, value, least) =
            positive.into_iter().find(|(_, v, least)| !(v.is_finite() && v >= least))?;
        Some(format!("`{name}` is {value}; give {least} or more"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(from: &str, to: &str) -> String {
        let text = DEFAULT_PARAMETERS.replacen(from, to, 1);
        assert_ne!(text, DEFAULT_PARAMETERS);
        Parameters::parse(Path::new("p.toml"), &text).unwrap_err().to_string()
    }

    #[test]
    fn the_standard_file_is_good() {
        let standard = Parameters::standard();
        assert_eq!(standard.digest().len(), 64);
        assert_eq!(standard.digest(), Parameters::standard().digest());
    }

    #[test]
    fn faults_name_the_key() {
        assert!(refused("bus = [0.02, 0.15]", "bus = [0.2, 0.15]").contains("`dma.bus`"));
        assert!(refused("bus = [0.02, 0.15]", "buss = [0.2, 0.15]").contains("buss"));
        assert!(refused("bus = [0.02, 0.15]", "bus = [0.02, nan]").contains("`dma.bus`"));
        assert!(refused("ways = 16", "ways = 17").contains("`machine.ways`"));
        assert!(refused("chain = [2, 4]", "chain = [1, 4]").contains("`ipc.chain`"));
        assert!(refused("level_a_over_b = 1.5", "level_a_over_b = 0.5").contains("level_a_over_b"));
        assert!(refused("tick_us = 4.0", "").contains("tick_us"));
    }

    #[test]
    fn scaling_changes_one_range_and_the_digest() {
        let standard = Parameters::standard();
        for name in Parameters::names() {
            for factor in [0.5, 1.5] {
                let mut scaled = standard.scaled(name, factor).unwrap();
                assert_ne!(scaled.digest(), standard.digest(), "{name}");
                assert_eq!(scaled.fault(), None, "{name}");
            }
        }
        assert_eq!(standard.scaled("nothing", 2.0), None);
    }
}
