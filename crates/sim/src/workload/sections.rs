//! Programs that are a sequence of sections, again and again.
//!
//! Problem: an application uses memory in phases: some functions stream, some compute, a few need
//! protection (BWLOCK sections 2 and 5). Rule: a section has a number of accesses in one order over
//! one array, an exact amount of computation spread evenly over them, and an exact share of writes.
//! It may lie inside a memory-performance critical section. Most of the papers' synthetic programs
//! are one such section.
//!
//! Not covered: control flow that depends on data, and accesses to several arrays within one
//! section.

use super::jobs::{BATCH, Pattern};
use super::walk::Walk;
use crate::program::{Op, OpKind, Signal};

/// Spreads `extra` units over `of` steps as evenly as whole numbers allow, exactly `extra` in each
/// round of `of`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Even {
    extra: u64,
    of: u64,
    sum: u64,
}

impl Even {
    /// `extra` is at most `of`.
    pub(super) fn new(extra: u64, of: u64) -> Self {
        Self { extra, of, sum: 0 }
    }

    /// The same sequence from its start.
    pub(super) fn restarted(self) -> Self {
        Self { sum: 0, ..self }
    }

    #[inline]
    pub(super) fn step(&mut self) -> bool {
        self.sum += self.extra;
        let one = self.extra > 0 && self.sum >= self.of;
        self.sum -= if one { self.of } else { 0 };
        one
    }
}

/// End of a section, after its accesses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    /// Mark for an observer.
    pub(super) mark: Option<u32>,
    /// Wait, in microseconds.
    pub(super) sleep_us: Option<u32>,
}

/// A section. Signals, accesses or computation: it has at least one of them.
#[derive(Clone, Debug)]
pub(super) struct Section {
    /// The order over its array.
    walk: Walk,
    /// Steps of a pass; each is an access, or with `update` a load and a store of one line.
    steps: u64,
    /// Cycles of a step, its accesses included.
    cycles: u64,
    /// One more cycle in some steps, so that the sum is exact.
    remainder: Even,
    load: OpKind,
    store: OpKind,
    writes: Even,
    update: bool,
    /// Takes the memory lock at its begin, and gives it back at its end.
    lock: (bool, bool),
    /// Computation of a section without accesses.
    compute: u64,
    tail: Tail,
}

impl Section {
    /// `steps` loads, each the last of `cycles` cycles.
    pub(super) fn new(walk: Walk, steps: u64, load: OpKind, cycles: u64) -> Self {
        let none = Even::default();
        Self {
            walk,
            steps,
            cycles,
            remainder: none,
            load,
            store: OpKind::Store,
            writes: none,
            update: false,
            lock: (false, false),
            compute: 0,
            tail: Tail::default(),
        }
    }

    /// Spreads `total` cycles over all steps of a pass, exactly.
    pub(super) fn total_cycles(mut self, total: u64) -> Self {
        match total.checked_div(self.steps) {
            Some(each) => {
                (self.cycles, self.remainder) = (each, Even::new(total % self.steps, self.steps))
            }
            None => self.compute = total,
        }
        self
    }

    /// Lets `writes` of every `of` steps store.
    pub(super) fn writes(mut self, writes: u64, of: u64) -> Self {
        self.writes = Even::new(writes, of);
        self
    }

    /// Lets each step load a line and store it.
    pub(super) fn update(mut self, update: bool) -> Self {
        self.update = update;
        self
    }

    /// Lets the section call `bw_lock()` at its begin, `bw_unlock()` at its end.
    pub(super) fn lock(mut self, begin: bool, end: bool) -> Self {
        self.lock = (begin, end);
        self
    }

    pub(super) fn tail(mut self, tail: Tail) -> Self {
        self.tail = tail;
        self
    }

    fn begin(&self, out: &mut Vec<Op>) {
        if self.lock.0 {
            out.push(Op::signal(Signal::Lock));
        }
        if self.compute > 0 {
            out.push(Op::compute(self.compute));
        }
    }

    fn end(&self, out: &mut Vec<Op>) {
        if self.lock.1 {
            out.push(Op::signal(Signal::Unlock));
        }
        out.extend(self.tail.mark.map(|mark| Op::signal(Signal::Mark(mark))));
        out.extend(self.tail.sleep_us.map(|us| Op::signal(Signal::Sleep(us))));
    }

    fn steps(&mut self, count: u64, out: &mut Vec<Op>) {
        let (load, store, cycles) = (self.load, self.store, self.cycles);
        let plain = self.remainder.extra == 0 && cycles <= Op::MAX_GAP && !self.update;
        if plain && (self.writes.extra == 0 || self.writes.extra == self.writes.of) {
            let kind = if self.writes.extra == 0 { load } else { store };
            self.walk.run(count, |line| out.push(Op::access(kind, cycles, line)));
            return;
        }
        // Copies, which the compiler keeps in registers.
        let (mut remainder, mut writes, update) = (self.remainder, self.writes, self.update);
        self.walk.run(count, |line| {
            let mut gap = cycles + u64::from(remainder.step());
            if gap > Op::MAX_GAP {
                out.push(Op::compute(gap - Op::MAX_GAP));
                gap = Op::MAX_GAP;
            }
            let kind = if writes.step() { store } else { load };
            out.push(Op::access(kind, gap, line));
            if update {
                out.push(Op::access(store, 0, line));
            }
        });
        (self.remainder, self.writes) = (remainder, writes);
    }

    fn rewind(&mut self) {
        if self.steps.is_multiple_of(self.walk.lines()) {
            self.walk.reset();
        }
        (self.writes, self.remainder) = (self.writes.restarted(), self.remainder.restarted());
    }
}

/// Sections in turn; a pass is each of them once.
#[derive(Debug)]
pub(super) struct Sections {
    sections: Vec<Section>,
    current: usize,
    /// Steps done of the current one; `None` before it begins.
    done: Option<u64>,
}

impl Sections {
    /// At least one.
    pub(super) fn new(sections: Vec<Section>) -> Self {
        Self { sections, current: 0, done: None }
    }
}

impl Pattern for Sections {
    fn fill(&mut self, out: &mut Vec<Op>) -> bool {
        let section = &mut self.sections[self.current];
        let done = self.done.unwrap_or_else(|| {
            section.begin(out);
            0
        });
        let count = (section.steps - done).min(BATCH);
        section.steps(count, out);
        if done + count < section.steps {
            self.done = Some(done + count);
            return false;
        }
        section.end(out);
        self.done = None;
        self.current = (self.current + 1) % self.sections.len();
        self.current == 0
    }

    fn rewind(&mut self) {
        (self.current, self.done) = (0, None);
        self.sections.iter_mut().for_each(Section::rewind);
    }
}
