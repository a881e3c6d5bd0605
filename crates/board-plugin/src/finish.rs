//! The end of the output: the truth and the trace, when QEMU ends or the guest switches off.

use crate::board::{Board, is_live};
use crate::schedule::schedule;
use crate::truth::write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the truth has been written.
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Writes the remaining output, once.
pub fn finish(board: &Board) {
    if FINISHED.swap(true, Relaxed) || !is_live() {
        return;
    }
    let (vcpus, machine) = board.vcpus_and_machine();
    if let Some(path) = &board.config.truth {
        let host = schedule().statistics;
        write(path, &board.truth().json(vcpus, machine, &host, "exit"));
    }
    if let Some(trace) = &mut machine.trace
        && !trace.finish()
    {
        eprintln!("solocore-board: the trace could not be written whole");
    }
}
