//! Makes the change of a [`Mutation`] where a board becomes a machine.
//!
//! Problem: an experiment must not be able to evade a change. Rule: [`apply`] changes the finished
//! board and the kernel's configuration just before they are simulated. What only one experiment
//! has it changes itself ([`crate::Context::mutated`]).

use crate::{ExperimentError, Mutation};
use solocore_sim::board::{Board, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::kernel::config::{Background, Balancing, RegulatorSpec, SchedulerSpec};
use solocore_sim::program::PageKind;
use std::collections::HashMap;

/// Changes a system just before it is simulated.
///
/// # Errors
/// When the memory is too small for the pages in one bank.
pub fn apply(
    mutation: Mutation,
    board: &mut Board,
    kernel: &mut KernelConfig,
) -> Result<(), ExperimentError> {
    match mutation {
        Mutation::Quiet => quiet(board),
        Mutation::Unregulated => unregulate(board, kernel),
        Mutation::Alone => {
            quiet(board);
            unregulate(board, kernel);
        }
        Mutation::OneBank => relocate(board, &Place::banks(&[0]))?,
        Mutation::AnyBank => relocate(board, &Place::default())?,
        Mutation::SharedCache => share(board),
        Mutation::SlowMemory => slow(board),
        Mutation::NoBackground
        | Mutation::KeptBackground
        | Mutation::Unthrottled
        | Mutation::Unbalanced => {
            schedule(mutation, kernel);
        }
        Mutation::NoStall
        | Mutation::NoReclaim
        | Mutation::OneRule
        | Mutation::Apart
        | Mutation::SharedBanks
        | Mutation::SameLoad
        | Mutation::OwnBuffer
        | Mutation::OnePolicy => {}
    }
    Ok(())
}

fn schedule(mutation: Mutation, kernel: &mut KernelConfig) {
    let SchedulerSpec::Vcpu(config) = &mut kernel.scheduler else { return };
    match mutation {
        Mutation::NoBackground => config.background = None,
        Mutation::KeptBackground => config.background = Some(Background::Keep),
        Mutation::Unthrottled => config.throttle = None,
        _ => config.balancing = Balancing::Static,
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

/// Moves every page; shared pages stay shared.
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
