//! The board of MC2's experiments, and the programs on it.
//!
//! Problem: levels are kept apart by banks and ways, which each figure splits in its own way. Rule:
//! [`board`] puts the bank on top of an address; a task gets the ways of its mask, and the banks of
//! its place.

use crate::run::platform;
use crate::{Context, ExperimentError};
use solocore_model::{Bytes, Cycles};
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::machine::{DmaSpec, Stream};
use solocore_sim::workload::params::Synthetic;
use solocore_sim::workload::{Job, WorkloadSpec};

/// Banks of level C and of the OS.
pub const LEVEL_C: [u32; 4] = [4, 5, 6, 7];
/// The bank of level C in which small footprints lie: without bank interleaving a bank is 128 MiB
/// in one piece, and an allocator fills one after the other.
pub const FIRST_C: u32 = LEVEL_C[0];

pub fn board(context: &Context) -> Result<Board, ExperimentError> {
    let mut board = Board::new(&platform("imx6q")?, context.seed)?;
    // The memory's own order has rows above banks, whose bits would then choose sets of the cache
    // as well.
    let order = ["bank", "bank_group", "rank", "row", "column", "channel"];
    board.config.memory.map.order = order.map(str::to_owned).to_vec();
    Ok(board)
}

/// `count` ways from `first` on.
pub fn ways(first: u32, count: u32) -> u64 {
    ((1 << count) - 1) << first
}

/// Adds a task on a core whose misses allocate in `mask`.
pub fn add(
    board: &mut Board,
    name: &str,
    core: usize,
    mask: u64,
    spec: &WorkloadSpec,
    place: &Place,
) -> Added {
    add_regions(board, name, core, mask, spec, place, &[])
}

type Added = Result<usize, BoardError>;

pub fn add_regions(
    board: &mut Board,
    name: &str,
    core: usize,
    mask: u64,
    spec: &WorkloadSpec,
    place: &Place,
    regions: &[(&str, Place)],
) -> Added {
    let task = board.add_regions(name, spec, place, regions)?;
    board.space(task).ways = mask;
    board.task(task).core = Some(core);
    Ok(task)
}

/// Synthetic: writes to random lines, as fast as possible.
pub fn synthetic(size: Bytes, job: Option<Job>) -> WorkloadSpec {
    WorkloadSpec::Synthetic(Synthetic { size, gap: Cycles(8), job })
}

/// Lines of an engine's block: bursts of 128 bytes (assumed: 16 beats of the 64-bit bus).
pub const BLOCK_LINES: u32 = 4;

/// An engine that moves blocks of lines, all lines of a block under way.
pub fn engine(name: &str, frames: Vec<u64>, wait_ps: u64, autonomous: Option<Stream>) -> DmaSpec {
    let (block_lines, outstanding) = (BLOCK_LINES, BLOCK_LINES);
    DmaSpec { name: name.to_owned(), frames, block_lines, wait_ps, outstanding, autonomous }
}
