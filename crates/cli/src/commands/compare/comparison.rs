//! The result of `solocore compare`.

use schemars::JsonSchema;
use serde::Serialize;
use solocore_model::Times;

/// The outcome.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// `solocore-compare/1`.
    pub(super) format: &'static str,
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// Runs of each kind.
    pub(super) runs: u32,
    /// CPU of the program.
    pub(super) core: u32,
    /// CPUs of the enemies.
    pub(super) enemies: Vec<u32>,
    /// Name of the enemy program.
    pub(super) enemy: &'static str,
    /// Memory of each enemy.
    pub(super) enemy_bytes: u64,
    /// Times alone.
    pub(super) alone: Times,
    /// Times beside the enemies.
    pub(super) beside: Times,
    /// Times under protection; `null` where this machine cannot protect.
    pub(super) protected: Option<Times>,
    /// Event that the protection counts, or the reason why there is none.
    pub(super) protection: String,
}
