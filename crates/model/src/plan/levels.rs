//! The part of a plan for a system with `[levels]`: levels, regions of the cache, banks, buffers, time
//! tables.
//!
//! Problem: a run of such a plan must know the ways, banks and slots of each task, and its reader
//! the reasons.
//! Rule: ways are numbered from 0: those of core 0, of core 1 and so on, of locked buffers, of
//! level C and the OS. Core `k` has bank `k`, level C and the OS the others (mc2-os-isolation, Fig.
//! 3).

use super::choice::Choice;
use super::task::PlanTask;
use crate::derivation::Derivation;
use crate::levels::{BufferScheme, Contention, Direction};
use crate::platform::Platform;
use crate::system::Criticality;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Consecutive ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ways {
    /// Number of the first.
    pub first: u32,
    /// Number of ways.
    pub count: u32,
}

impl Ways {
    /// The ways as a bit mask.
    #[must_use]
    pub fn mask(self) -> u64 {
        let ones = u64::MAX.checked_shr(64 - self.count.min(64)).unwrap_or(0);
        ones.checked_shl(self.first).unwrap_or(0)
    }
}

/// A core under MC2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelsCore {
    /// Number of the core.
    pub id: u32,
    /// Ways of its levels A and B.
    pub ways: Ways,
    /// DRAM bank of its levels A and B.
    pub bank: u32,
    /// Utilization of level A, with level-A PETs.
    pub level_a: f64,
    /// Utilization of levels A and B, with level-B PETs.
    pub level_b: f64,
    /// Utilization of levels A and B, with level-C PETs. Level C does not get this part of the
    /// core.
    pub level_c: f64,
}

/// A task under MC2; best effort has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelsPets {
    /// Name of the task.
    pub task: String,
    /// Ways of the cache that it runs in.
    pub ways: u32,
    /// Provisioned execution time for the guarantees of level A.
    pub a_ns: u64,
    /// Provisioned execution time for the guarantees of level B: the longest.
    pub b_ns: u64,
    /// Provisioned execution time for the guarantees of level C.
    pub c_ns: u64,
}

/// Treatment of a message buffer (section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Method {
    /// In the banks of level C, uncacheable (selective bypass).
    #[serde(rename = "SBP")]
    Bypass,
    /// In the bank of the core that both tasks are on (concurrency elimination).
    #[serde(rename = "CE")]
    Together,
    /// Locked in the cache.
    #[serde(rename = "CL")]
    Locked,
    /// In the banks of level C, cacheable.
    #[serde(rename = "C")]
    LevelC,
}

/// A message buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelsMessage {
    /// Name of the task that sends.
    pub from: String,
    /// Name of the task that receives.
    pub to: String,
    /// Size of the buffer.
    pub bytes: u64,
    /// Treatment of the buffer.
    pub method: Method,
    /// Bank of the buffer; `null`: those of level C.
    pub bank: Option<u32>,
}

/// An I/O buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelsIo {
    /// Name of the task.
    pub task: String,
    /// Name of the device.
    pub device: String,
    /// DMA traffic of the device.
    pub bytes_per_s: u64,
    /// Size of the buffer.
    pub bytes: u64,
    /// Into memory, or out of it.
    pub direction: Direction,
    /// DMA goes to the buffer itself.
    pub direct: bool,
    /// Bank of the buffer; `null`: those of level C.
    pub bank: Option<u32>,
}

/// A slot of level A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Start of the slot, from the start of the frame.
    pub start_ns: u64,
    /// End of the slot, from the start of the frame; the first instant after it.
    pub end_ns: u64,
    /// Index of the task in the plan.
    pub task: u32,
}

/// Level A of a core, repeated from time 0 on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelsTable {
    /// Number of the core.
    pub core: u32,
    /// Length of the frame; the slots repeat after it.
    pub frame_ns: u64,
    /// Slots of level A, in order of time.
    pub slots: Vec<Slot>,
}

/// A plan of criticality levels on isolated hardware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelsPlan {
    /// Places of the buffers.
    pub scheme: BufferScheme,
    /// Way in which contention is accounted for.
    pub contention: Contention,
    /// Number of ways that are shared out.
    pub ways: u32,
    /// Cores, by number.
    pub cores: Vec<LevelsCore>,
    /// Ways of level C and the OS.
    pub level_c_ways: Ways,
    /// Ways of locked buffers.
    pub locked_ways: Ways,
    /// Total utilization of level C, with level-C PETs. The split of ways makes it least.
    pub level_c_utilization: f64,
    /// Analysed tasks, in the order of the plan.
    pub pets: Vec<LevelsPets>,
    /// Message buffers, in the order of the system file.
    pub messages: Vec<LevelsMessage>,
    /// I/O buffers, in the order of the system file.
    pub io: Vec<LevelsIo>,
    /// Time tables of level A, by core.
    pub tables: Vec<LevelsTable>,
    /// Each choice with its reason and the next best.
    pub choices: Vec<Choice>,
    /// The verdict of the independent tests, in femtoseconds.
    pub derivation: Option<Derivation>,
}

impl LevelsPlan {
    /// Provisioned times of a task.
    #[must_use]
    pub fn pets_of(&self, task: &str) -> Option<&LevelsPets> {
        self.pets.iter().find(|p| p.task == task)
    }

    /// The core with the ways and the bank of a task; `None`: it has those of level C and the OS.
    #[must_use]
    pub fn core_of(&self, task: &PlanTask) -> Option<&LevelsCore> {
        let own = matches!(task.criticality, Criticality::A | Criticality::B);
        self.cores.get(task.core as usize).filter(|_| own)
    }

    /// Banks of level C and the OS, of the number of banks of the board: those of no core.
    #[must_use]
    pub fn shared_banks(&self, banks: u32) -> Vec<u32> {
        (0..banks).filter(|bank| self.cores.iter().all(|core| core.bank != *bank)).collect()
    }

    /// Checks that it can be run as it stands.
    pub(crate) fn check(
        &self,
        tasks: &[PlanTask],
        cores: usize,
        platform: &Platform,
    ) -> Result<(), String> {
        if self.cores.len() != cores
            || self.cores.iter().enumerate().any(|(at, core)| core.id as usize != at)
        {
            return Err(format!("it has cores other than the {cores} of the plan"));
        }
        let regions =
            self.cores.iter().map(|c| c.ways).chain([self.level_c_ways, self.locked_ways]);
        let mut used = 0u64;
        for region in regions {
            if region.first.saturating_add(region.count) > platform.llc.ways
                || used & region.mask() != 0
            {
                return Err("its regions of the cache overlap or leave it".to_owned());
            }
            used |= region.mask();
        }
        let banks = platform.total_banks();
        let named =
            self.cores.iter().map(|c| Some(c.bank)).chain(self.messages.iter().map(|m| m.bank));
        if named.chain(self.io.iter().map(|io| io.bank)).flatten().any(|bank| bank >= banks)
            || banks as usize <= cores
        {
            return Err(format!(
                "it names banks that the platform lacks ({banks} in all), or leaves level C none"
            ));
        }
        for task in tasks.iter().filter(|t| t.criticality != Criticality::D) {
            if self.pets_of(&task.name).is_none_or(|p| p.a_ns == 0 || p.b_ns == 0 || p.c_ns == 0)
                || task.period_ns.is_none()
            {
                return Err(format!(
                    "task `{}` has no provisioned execution times or no period: each must be above \
                        0 ns",
                    task.name
                ));
            }
        }
        for table in &self.tables {
            let fits = |s: &Slot| {
                let task = tasks.get(s.task as usize);
                s.start_ns < s.end_ns
                    && s.end_ns <= table.frame_ns
                    && task.is_some_and(|t| t.core == table.core && t.criticality == Criticality::A)
            };
            let core = table.core;
            if let Some(s) = table.slots.iter().find(|s| !fits(s)) {
                return Err(format!(
                    "the time table of core {core} has impossible slots: one of task {} from {} to \
                        {} ns in a frame of {} ns",
                    s.task, s.start_ns, s.end_ns, table.frame_ns
                ));
            }
            if let Some(two) = table.slots.windows(2).find(|w| w[0].end_ns > w[1].start_ns) {
                return Err(format!(
                    "the time table of core {core} has slots that overlap: one ends at {} ns, the \
                        next starts at {} ns",
                    two[0].end_ns, two[1].start_ns
                ));
            }
        }
        Ok(())
    }
}
