//! The board of a plan with criticality levels, and the banks and ways of its tasks on it.

use super::options::{Options, SimError};
use crate::board::Board;
use solocore_model::Plan;
use solocore_model::plan::PlanTask;
use solocore_model::plan::levels::{LevelsPlan, Ways};

/// Rows below banks in the address: a page's bank does not choose its sets of the cache.
const ORDER: [&str; 6] = ["bank", "bank_group", "rank", "row", "column", "channel"];

/// The board of such a plan.
pub fn board(plan: &Plan, options: &Options) -> Result<Board, SimError> {
    let mut board = Board::new(&plan.platform, options.seed)?;
    if plan.levels().is_some() {
        board.config.memory.map.order = ORDER.map(str::to_owned).to_vec();
    }
    Ok(board)
}

/// Banks and ways of a task under the plan.
pub(super) fn region(plan: &Plan, levels: &LevelsPlan, task: &PlanTask) -> (Vec<u32>, Ways) {
    match levels.core_of(task) {
        Some(core) => (vec![core.bank], core.ways),
        None => (shared_banks(plan, levels), levels.level_c_ways),
    }
}

/// Banks of level C and the OS.
pub(super) fn shared_banks(plan: &Plan, levels: &LevelsPlan) -> Vec<u32> {
    levels.shared_banks(plan.platform.total_banks())
}
