//! The data of a time table's transfers, and the DMA engines that move them.
//!
//! Problem: a plan states the time of a transfer, but a DMA engine takes lines and waits. Rule: a
//! transfer is paced so that each block takes the time that the plan grants it at worst ([`Load`]);
//! on the plain machine each device moves its data at once ([`unmanaged`]).

use crate::board::{Board, Place};
use crate::hardware::{DeviceId, Transfer};
use crate::kernel::KernelConfig;
use crate::kernel::config::TransferSpec;
use crate::machine::DmaSpec;
use crate::plan::options::{PS, SimError};
use solocore_model::plan::Plan;
use solocore_model::plan::windows::{PlanTransfer, WindowsPlan};
use solocore_model::windows::table::{Row, Stage};
use std::collections::BTreeMap;

/// Pages of a DMA engine's buffer.
const BUFFER_PAGES: u32 = 16;

/// Banks of a core, where each core has its own.
pub fn banks(plan: &Plan, core: usize) -> Option<Vec<u32>> {
    let private = plan.cores.iter().all(|c| c.banks.is_some());
    let (first, count) = plan.cores.get(core)?.banks.filter(|_| private)?;
    Some((first..first + count).collect())
}

pub fn engine(
    plan: &Plan,
    board: &mut Board,
    io: usize,
    block_lines: u32,
    wait_ps: u64,
    outstanding: u32,
) -> Result<DeviceId, SimError> {
    let name = "DMA of the I/O core";
    let place = Place { banks: banks(plan, io), ..Place::default() };
    let frames = board.pages(name, BUFFER_PAGES, &place)?;
    let spec = DmaSpec {
        name: name.to_owned(),
        frames,
        block_lines,
        wait_ps,
        outstanding,
        autonomous: None,
    };
    Ok(board.device(spec))
}

/// Data and pace of a transfer.
pub struct Load {
    pub lines: u64,
    pub block_lines: u32,
    pub wait_ps: u64,
}

impl Load {
    /// A paced transfer moves its bytes. Each block takes, with its wait, at most the time that the
    /// plan grants it; each of its lines takes `m * L_max` of that at worst. A transfer of a stated
    /// time moves the largest number of lines that surely fits.
    pub fn of(plan: &Plan, windows: &WindowsPlan, row: &Row) -> Self {
        let m = u64::from(plan.regulation.active_cores.max(1));
        let service_ps = plan.platform.dram.latency_max.ps();
        let line_ps = service_ps.saturating_mul(m).max(1);
        // Line by line at the I/O core's share: each line waits for the turns of the others.
        let turns_ps = line_ps.saturating_sub(service_ps);
        let line = plan.platform.llc.line.0;
        let same = |t: &&PlanTransfer| {
            t.partition == row.partition && Some(t.chain) == row.chain && t.stage == row.stage
        };
        let paced = windows
            .transfers
            .iter()
            .find(same)
            .and_then(|t| Some((t.bytes?, t.block_bytes?, t.block_ps?)));
        let Some((bytes, block, block_ps)) = paced else {
            let length =
                row.duration_ns.saturating_sub(windows.margin.of(row.stage)).saturating_mul(PS);
            return Self { lines: length / line_ps, block_lines: 1, wait_ps: turns_ps };
        };
        // Blocks shorter than a line have several waits for each line.
        let block_lines = (block / line).max(1);
        let block_ps =
            if block < line { block_ps.saturating_mul(line / block.max(1)) } else { block_ps };
        Self {
            lines: bytes.div_ceil(line),
            block_lines: 1,
            wait_ps: (block_ps / block_lines).saturating_sub(service_ps).max(turns_ps),
        }
    }
}

/// The same I/O on the plain machine: each device moves its data at once when a period begins, at
/// full speed.
///
/// # Errors
/// When the board has no room.
pub fn unmanaged(
    plan: &Plan,
    board: &mut Board,
    kernel: &mut KernelConfig,
) -> Result<(), SimError> {
    let Some(windows) = plan.windows() else { return Ok(()) };
    let mut engines: BTreeMap<String, DeviceId> = BTreeMap::new();
    for row in windows.table.iter().filter(|r| r.is_transfer()) {
        let load = Load::of(plan, windows, row);
        if load.lines == 0 {
            continue;
        }
        // The device is that of the physical half of the same chain.
        let physical = if row.stage == Stage::DeviceInput {
            Stage::PhysicalInput
        } else {
            Stage::PhysicalOutput
        };
        let half =
            |r: &&Row| r.partition == row.partition && r.chain == row.chain && r.stage == physical;
        let name = windows
            .table
            .iter()
            .find(half)
            .map_or_else(|| row.resource.clone(), |r| r.resource.clone());
        let device = match engines.get(&name) {
            Some(device) => *device,
            None => {
                let place = Place::default();
                let frames = board.pages(&name, BUFFER_PAGES, &place)?;
                let spec = DmaSpec {
                    name: name.clone(),
                    frames,
                    block_lines: 16,
                    wait_ps: 0,
                    outstanding: 8,
                    autonomous: None,
                };
                *engines.entry(name).or_insert(board.device(spec))
            }
        };
        let order = Transfer {
            offset_lines: 0,
            lines: load.lines,
            into_memory: row.stage == Stage::DeviceInput,
        };
        kernel.transfers.push(TransferSpec {
            device,
            order,
            phase_ps: 0,
            period_ps: row.period_ns * PS,
        });
    }
    Ok(())
}
