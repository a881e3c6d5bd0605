//! Cuts an endless pattern of accesses into jobs.
//!
//! Problem: the same pattern serves as an endless co-runner and as a task whose jobs have a length.
//! Rule: a pattern knows only its passes; [`Jobs`] counts passes, accesses or cycles and puts
//! [`Signal::JobEnd`] exactly at the end of a job. A refill never reaches beyond the end of a job,
//! so a machine's buffered operations belong to one job.
//!
//! Jobs of accesses or cycles go on in the pattern at the end of the last one, like a program that
//! is sampled at intervals. Jobs of passes start at the beginning of a pass.

use crate::program::{Entry, Op, OpKind, Program, Signal};

/// Approximate number of operations that a pattern makes at once.
pub(super) const BATCH: u64 = 256;

/// A stream without jobs.
pub(super) trait Pattern: Send {
    /// Appends operations: at least one, about [`BATCH`], none beyond the end of a pass. Returns
    /// whether a pass ended.
    fn fill(&mut self, out: &mut Vec<Op>) -> bool;

    /// Goes to the beginning of a pass.
    fn rewind(&mut self);

    /// See [`Program::resumed`].
    fn resumed(&self, out: &mut Vec<Op>) {
        let _ = out;
    }
}

/// Length of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Endless,
    Passes(u64),
    Accesses(u64),
    Cycles(u64),
}

/// A pattern with its jobs.
pub(super) struct Jobs<P> {
    pattern: P,
    length: Length,
    /// The rest of the current job, in the unit of `length`.
    left: u64,
    /// Operations that are made and not yet handed out; jobs of accesses and cycles only.
    made: Vec<Op>,
    next: usize,
    entry: Entry,
    pages: u32,
}

impl<P: Pattern> Jobs<P> {
    /// `length` is above zero.
    pub(super) fn new(pattern: P, length: Length, entry: Entry, pages: u32) -> Self {
        let mut jobs = Self { pattern, length, left: 0, made: Vec::new(), next: 0, entry, pages };
        jobs.begin();
        jobs
    }

    fn begin(&mut self) {
        self.left = match self.length {
            Length::Endless => 0,
            Length::Passes(n) | Length::Accesses(n) | Length::Cycles(n) => n,
        };
    }

    /// Hands out operations that are made, at most to the end of the job.
    fn cut(&mut self, out: &mut Vec<Op>, cost: impl Fn(Op) -> u64, split: bool) {
        if self.next == self.made.len() {
            self.made.clear();
            self.next = 0;
            self.pattern.fill(&mut self.made);
        }
        while let Some(op) = self.made.get_mut(self.next) {
            let cycles = cost(*op);
            if split && cycles > self.left {
                out.push(Op::compute(self.left));
                *op = later(*op, self.left);
                self.left = 0;
            } else {
                out.push(*op);
                self.left -= cycles;
                self.next += 1;
            }
            if self.left == 0 {
                out.push(Op::signal(Signal::JobEnd));
                self.begin();
                return;
            }
        }
    }
}

/// The operation without the first `cycles` of its computation.
fn later(op: Op, cycles: u64) -> Op {
    match op.kind() {
        OpKind::Compute => Op::compute(op.cycles() - cycles),
        OpKind::Signal => op,
        kind => Op::access(kind, op.cycles() - cycles, op.line()),
    }
}

/// Whether an operation is an access.
pub(super) fn is_access(op: Op) -> bool {
    !matches!(op.kind(), OpKind::Compute | OpKind::Signal)
}

impl<P: Pattern> Program for Jobs<P> {
    fn refill(&mut self, out: &mut Vec<Op>) {
        match self.length {
            Length::Endless => {
                self.pattern.fill(out);
            }
            Length::Passes(_) => {
                if self.pattern.fill(out) {
                    self.left -= 1;
                    if self.left == 0 {
                        out.push(Op::signal(Signal::JobEnd));
                        self.begin();
                    }
                }
            }
            Length::Accesses(_) => self.cut(out, |op| u64::from(is_access(op)), false),
            Length::Cycles(_) => self.cut(out, Op::cycles, true),
        }
    }

    fn entry(&self) -> Entry {
        self.entry
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn abandon_job(&mut self) {
        if matches!(self.length, Length::Endless | Length::Passes(_)) {
            self.pattern.rewind();
        }
        self.begin();
    }

    fn resumed(&mut self, out: &mut Vec<Op>) {
        self.pattern.resumed(out);
    }
}
