//! Tasks for which only the computation and the number of misses are known.
//!
//! Problem: an analysis or a table gives execution times and miss counts, not programs (dynamic
//! budgeting Tables I and II; tasks with `wcet` and `misses` in a system file). Rule: the
//! computation of a job is cut into equal slots, with misses between them: one each, or several at
//! once; or one at a random point of each slot. Cycles and misses of every job are exact. The core
//! waits for each miss. Misses that would not fit into the stated time one after another are
//! prefetched, evenly spread. Not covered: the bunching of a real program's misses.

use super::jobs::{BATCH, Pattern};
use super::sections::Even;
use super::walk::Walk;
use crate::program::{Op, OpKind};
use solocore_dram::random::Random;

/// The jobs of such a task; a pass is one.
#[derive(Debug)]
pub(super) struct Spread {
    misses: u64,
    /// Misses that follow each other without computation.
    burst: u64,
    /// Cycles of a slot, and the remainder of the division.
    slot: u64,
    remainder: Even,
    /// The misses that are prefetched.
    ahead: Even,
    jitter: Option<Random>,
    walk: Walk,
    done: u64,
    /// Cycles owed to the next miss, from the slot before.
    owed: u64,
}

impl Spread {
    /// `cycles` of computation and `misses` misses a job, `burst` at once (at least 1); with
    /// `jitter`, each at a random point of its slot.
    pub(super) fn new(
        cycles: u64,
        misses: u64,
        burst: u64,
        jitter: Option<Random>,
        walk: Walk,
    ) -> Self {
        let slots = misses.div_ceil(burst) + 1;
        let remainder = Even::new(cycles % slots, slots);
        let ahead = Even::new(0, misses.max(1));
        Self {
            misses,
            burst,
            slot: cycles / slots,
            remainder,
            ahead,
            jitter,
            walk,
            done: 0,
            owed: 0,
        }
    }

    /// Lets `ahead` of the misses be prefetched.
    pub(super) fn prefetched(self, ahead: u64) -> Self {
        Self { ahead: Even::new(ahead.min(self.misses), self.misses.max(1)), ..self }
    }

    fn slot(&mut self) -> u64 {
        self.slot + u64::from(self.remainder.step())
    }
}

/// Appends computation of any length.
pub(super) fn compute(mut cycles: u64, out: &mut Vec<Op>) {
    while cycles > 0 {
        let part = cycles.min(Op::MAX_COMPUTE);
        out.push(Op::compute(part));
        cycles -= part;
    }
}

/// Appends an access after a gap of any length.
pub(super) fn access(kind: OpKind, gap: u64, line: u64, out: &mut Vec<Op>) {
    compute(gap.saturating_sub(Op::MAX_GAP), out);
    out.push(Op::access(kind, gap.min(Op::MAX_GAP), line));
}

impl Pattern for Spread {
    fn fill(&mut self, out: &mut Vec<Op>) -> bool {
        let before = out.len();
        for _ in 0..(self.misses - self.done).min(BATCH) {
            let mut gap = 0;
            if self.done.is_multiple_of(self.burst) {
                let slot = self.slot();
                let now = self.jitter.as_mut().map_or(slot, |random| random.below(slot + 1));
                gap = self.owed + now;
                self.owed = slot - now;
            }
            let kind = if self.ahead.step() { OpKind::Prefetch } else { OpKind::LoadWait };
            self.walk.run(1, |line| access(kind, gap, line, out));
            self.done += 1;
        }
        if self.done < self.misses {
            return false;
        }
        let last = self.owed + self.slot();
        compute(last, out);
        if out.len() == before {
            // An empty job still takes a step.
            out.push(Op::compute(0));
        }
        (self.done, self.owed) = (0, 0);
        true
    }

    fn rewind(&mut self) {
        if self.misses.is_multiple_of(self.walk.lines()) {
            self.walk.reset();
        }
        (self.done, self.owed) = (0, 0);
        (self.remainder, self.ahead) = (self.remainder.restarted(), self.ahead.restarted());
    }
}
