//! The board of BWLOCK's experiments.
//!
//! Problem: figures compare only on one machine. Rule: all of them take [`BOARD`].

/// The paper's machine.
pub const BOARD: &str = "xeon-w3530";
