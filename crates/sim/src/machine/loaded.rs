//! A program and its next operations.

use crate::program::{Entry, Op, OpKind, Program};

/// A program with its operations and pages.
pub(super) struct Loaded {
    pub program: Box<dyn Program>,
    pub ops: Vec<Op>,
    /// The next operation.
    pub at: usize,
    /// Key of each virtual page's first line; `ORDERED` marks frames that others use as well.
    pub pages: Vec<u64>,
    /// Key of the line of each page's entry in the page table; empty without translation.
    pub entries: Vec<u64>,
    pub ways: u64,
    pub direct: bool,
    /// Index up to which operations are the cost of coming back.
    pub recovered_at: usize,
}

impl Loaded {
    pub fn new(program: Box<dyn Program>, pages: Vec<u64>, entries: Vec<u64>, ways: u64) -> Self {
        let direct = program.entry() == Entry::Shared;
        Self { program, ops: Vec::new(), at: 0, pages, entries, ways, direct, recovered_at: 0 }
    }

    /// Makes sure that there is a next operation.
    #[cold]
    #[inline(never)]
    pub fn refill(&mut self) {
        self.ops.clear();
        (self.at, self.recovered_at) = (0, 0);
        self.program.refill(&mut self.ops);
        if self.ops.is_empty() {
            // A program has no end; one without operations computes.
            self.ops.push(Op::compute(Op::MAX_COMPUTE));
        }
    }

    /// Puts the accesses of coming back first.
    pub fn resumed(&mut self) {
        let rest = self.ops.split_off(self.at);
        // The rest of an earlier return belongs to it as well.
        let left = self.recovered_at.saturating_sub(self.at);
        self.ops.clear();
        self.at = 0;
        self.program.resumed(&mut self.ops);
        self.recovered_at = self.ops.len() + left;
        self.ops.extend(rest);
    }

    /// The next operation is the first of the next job.
    pub fn abandon_job(&mut self) {
        let end = Op::signal(crate::program::Signal::JobEnd);
        // The program may be ahead by the operations in the buffer: then it has ended the job
        // already.
        if let Some(end) = self.ops[self.at..].iter().position(|&op| op == end) {
            self.at += end + 1;
        } else {
            self.at = self.ops.len();
            self.program.abandon_job();
        }
    }

    /// Shortens the computation before the next operation.
    pub fn computed(&mut self, cycles: u64) {
        if cycles == 0 {
            return;
        }
        if let Some(op) = self.ops.get_mut(self.at) {
            let rest = op.cycles().saturating_sub(cycles);
            *op = match op.kind() {
                OpKind::Compute => Op::compute(rest),
                OpKind::Signal => *op,
                kind => Op::access(kind, rest, op.line()),
            };
        }
    }
}
