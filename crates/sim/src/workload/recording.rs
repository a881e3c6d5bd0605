//! The form of a trace after reading.
//!
//! Problem: recorded streams and text traces are replayed alike. Rule: both become a [`Recording`]:
//! operations, and the ends of its jobs.

use crate::program::{Op, OpKind, Signal};

/// Most operations of a recording: 1 GiB of them.
pub(super) const MAX_OPS: usize = 1 << 27;

/// Content of a trace file.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) ops: Vec<Op>,
    /// Ends of the jobs within `ops`; the last is their number. At least one, and no job is empty.
    pub(super) jobs: Vec<usize>,
    pub(super) pages: u32,
}

/// Whether an operation is the end of a job.
pub(super) fn ends_job(op: Op) -> bool {
    op.kind() == OpKind::Signal && op.signal_value() == Signal::JobEnd
}
