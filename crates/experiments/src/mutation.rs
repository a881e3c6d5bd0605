//! Changes of what is simulated by which verdicts must fall.
//!
//! Problem: a claim that still stands when its mechanism is off, or its cost doubled, was never
//! tested. Rule: a [`Mutation`] is one such change. Most are made where a board becomes a machine
//! ([`Mutation::apply`]), so that an experiment neither knows nor can evade them. The others are
//! asked for by the one experiment whose mechanism they turn off ([`crate::Context::mutated`]).

use crate::ExperimentError;
use serde::{Deserialize, Serialize};
use solocore_sim::board::{Board, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::kernel::config::{Background, Balancing, RegulatorSpec, SchedulerSpec};
use solocore_sim::program::PageKind;
use std::collections::HashMap;

/// A mechanism that is turned off, or a cost that is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mutation {
    /// Tasks of other cores than the first task's do not run; devices move nothing by themselves.
    Quiet,
    /// No regulator stops a core.
    Unregulated,
    /// Both of these.
    Alone,
    /// All pages lie in one bank of the DRAM.
    OneBank,
    /// All pages lie anywhere in the DRAM.
    AnyBank,
    /// All pages are cached, in all ways of the shared cache and in all of its colours.
    SharedCache,
    /// Rows of the DRAM take twice as long to open, to read and to close.
    SlowMemory,
    /// The bound of eq. (1) has no stall.
    NoStall,
    /// Nothing is reclaimed and nothing shared.
    NoReclaim,
    /// No VCPU has background time.
    NoBackground,
    /// The VCPU that has background time keeps it.
    KeptBackground,
    /// Background time is not throttled.
    Unthrottled,
    /// The rate rule throttles by latency.
    OneRule,
    /// VCPUs stay where they are.
    Unbalanced,
    /// Tasks that start together start half a period apart.
    Apart,
    /// Levels A and B have their pages in level C's bank.
    SharedBanks,
    /// The load that a figure varies stays the same.
    SameLoad,
    /// I/O buffers lie in the bank of the task that uses them, or that they are compared with.
    OwnBuffer,
    /// All message buffers are placed alike.
    OnePolicy,
}

impl Mutation {
    /// The change in words.
    #[must_use]
    pub const fn says(self) -> &'static str {
        match self {
            Self::Quiet => "nothing runs on other cores, and devices are idle",
            Self::Unregulated => "no core is regulated",
            Self::Alone => "nothing runs on other cores, and no core is regulated",
            Self::OneBank => "all pages lie in one bank",
            Self::AnyBank => "all pages lie in any bank",
            Self::SharedCache => "all pages are cached, and the cache is shared",
            Self::SlowMemory => "the DRAM is half as fast",
            Self::NoStall => "the bound has no stall",
            Self::NoReclaim => "nothing is reclaimed or shared",
            Self::NoBackground => "there is no background time",
            Self::KeptBackground => "background time stays with one VCPU",
            Self::Unthrottled => "background time is not throttled",
            Self::OneRule => "the rate rule throttles by latency",
            Self::Unbalanced => "VCPUs stay where they are",
            Self::Apart => "tasks start half a period apart",
            Self::SharedBanks => "levels A and B lie in level C's bank",
            Self::SameLoad => "the load does not vary",
            Self::OwnBuffer => "I/O buffers always lie in the task's own bank",
            Self::OnePolicy => "all message buffers are placed alike",
        }
    }

    /// Changes a system just before it is simulated.
    ///
    /// # Errors
    /// When the memory is too small for the pages in one bank.
    pub fn apply(
        self,
        board: &mut Board,
        kernel: &mut KernelConfig,
    ) -> Result<(), ExperimentError> {
        match self {
            Self::Quiet => quiet(board),
            Self::Unregulated => unregulate(board, kernel),
            Self::Alone => {
                quiet(board);
                unregulate(board, kernel);
            }
            Self::OneBank => relocate(board, &Place::banks(&[0]))?,
            Self::AnyBank => relocate(board, &Place::default())?,
            Self::SharedCache => share(board),
            Self::SlowMemory => slow(board),
            Self::NoBackground | Self::KeptBackground | Self::Unthrottled | Self::Unbalanced => {
                self.schedule(kernel);
            }
            Self::NoStall
            | Self::NoReclaim
            | Self::OneRule
            | Self::Apart
            | Self::SharedBanks
            | Self::SameLoad
            | Self::OwnBuffer
            | Self::OnePolicy => {}
        }
        Ok(())
    }

    fn schedule(self, kernel: &mut KernelConfig) {
        let SchedulerSpec::Vcpu(config) = &mut kernel.scheduler else { return };
        match self {
            Self::NoBackground => config.background = None,
            Self::KeptBackground => config.background = Some(Background::Keep),
            Self::Unthrottled => config.throttle = None,
            _ => config.balancing = Balancing::Static,
        }
    }
}

/// Beyond the end of any run, and far from the end of time.
const NEVER_PS: u64 = 1_000_000_000_000_000_000;

fn quiet(board: &mut Board) {
    if board.tasks() == 0 {
        return;
    }
    let (core, vcpu) = (board.task(0).core, board.task(0).vcpu);
    for index in 1..board.tasks() {
        let task = board.task(index);
        if task.core != core || task.vcpu != vcpu {
            task.start_ps = NEVER_PS;
            task.stop_ps = None;
        }
    }
    board.devices().iter_mut().for_each(|device| device.autonomous = None);
}

fn slow(board: &mut Board) {
    let timing = &mut board.config.memory.timing;
    for cycles in [&mut timing.cl, &mut timing.t_rcd, &mut timing.t_rp, &mut timing.t_ras] {
        *cycles *= 2;
    }
}

fn unregulate(board: &mut Board, kernel: &mut KernelConfig) {
    kernel.regulator = RegulatorSpec::None;
    (0..board.tasks()).for_each(|index| board.task(index).budget = None);
}

fn share(board: &mut Board) {
    let all = u64::MAX >> (64 - board.platform().llc.ways.clamp(1, 64));
    for index in 0..board.tasks() {
        let space = board.space(index);
        space.ways = all;
        space.kinds.fill(PageKind::Cached);
    }
}

/// Moves every page; what was shared stays shared.
fn relocate(board: &mut Board, place: &Place) -> Result<(), ExperimentError> {
    let mut frames: Vec<u64> = Vec::new();
    for index in 0..board.tasks() {
        frames.extend(&board.space(index).frames);
    }
    frames.extend(board.devices().iter().flat_map(|device| &device.frames));
    let mut seen = std::collections::HashSet::new();
    frames.retain(|frame| seen.insert(*frame));
    let count = u32::try_from(frames.len()).unwrap_or(u32::MAX);
    let moved = board.pages("mutated", count, place)?;
    let to: HashMap<u64, u64> = frames.into_iter().zip(moved).collect();
    let renumber = |of: &mut Vec<u64>| {
        of.iter_mut().for_each(|frame| *frame = to.get(frame).copied().unwrap_or(*frame));
    };
    for index in 0..board.tasks() {
        renumber(&mut board.space(index).frames);
    }
    board.devices().iter_mut().for_each(|device| renumber(&mut device.frames));
    Ok(())
}
