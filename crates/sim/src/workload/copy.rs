//! Programs that copy or convert buffers: messages and video frames.
//!
//! Problem: MC2 section 5 measures the cost of a shared buffer's place for the functions that copy
//! from it or to it: `load_msg()`, `do_msg_fill()`, copying a video frame, converting it to grey.
//! Rule: a block (a message, a frame) is moved in units; a unit loads some words of the source,
//! computes, and stores some words of the target. Source and target lie in different regions, so
//! that placement decides the cost of each.
//!
//! Accesses are words, not lines: in an uncached buffer (selective LLC bypass) each of them is a
//! DRAM access, and where caches hold it, all but the first of a line hit.

use super::jobs::{BATCH, Pattern};
use crate::program::{Op, OpKind, Signal};

/// One end of the copy, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    /// Address of the first block.
    pub(super) base: u64,
    /// Distance from one block to the next.
    pub(super) block: u64,
    /// Blocks, used in turn.
    pub(super) blocks: u64,
    /// Bytes of a block before its data.
    pub(super) header: u64,
    /// Words of a unit.
    pub(super) words: u64,
}

/// Use of the header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// There is no header.
    None,
    /// Written first: the target is a new message.
    New,
    /// Read first and written last: the source is a message that is taken and freed.
    Taken,
}

/// A copy, block after block; a pass is one block.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) source: Side,
    pub(super) target: Side,
    pub(super) header: Header,
    /// Bytes of a word.
    pub(super) word: u64,
    /// Bytes of a line.
    pub(super) line: u64,
    /// Units of a block.
    pub(super) units: u64,
    /// Cycles of a word loaded, the load included; a store takes one.
    pub(super) gap: u64,
    /// Cycles between blocks.
    pub(super) between: u64,
    /// [`Signal::Mark`] 0 before a block and 1 after it.
    pub(super) marks: bool,
    /// Number of the block.
    pub(super) at: u64,
    /// Units of the block that are done; `None` before it begins.
    pub(super) done: Option<u64>,
}

impl Copy {
    fn start(&self, side: &Side) -> u64 {
        side.base + self.at % side.blocks * side.block
    }

    fn begin(&self, out: &mut Vec<Op>) {
        if self.between > 0 {
            out.push(Op::compute(self.between));
        }
        if self.marks {
            out.push(Op::signal(Signal::Mark(0)));
        }
        match self.header {
            Header::None => {}
            Header::New => {
                out.push(Op::access(OpKind::Store, 1, self.start(&self.target) / self.line))
            }
            Header::Taken => {
                out.push(Op::access(OpKind::LoadWait, 1, self.start(&self.source) / self.line))
            }
        }
    }

    fn units(&self, from: u64, to: u64, out: &mut Vec<Op>) {
        let address = |side: &Side, unit: u64, word: u64| {
            (self.start(side) + side.header + (unit * side.words + word) * self.word) / self.line
        };
        for unit in from..to {
            for word in 0..self.source.words {
                out.push(Op::access(OpKind::Load, self.gap, address(&self.source, unit, word)));
            }
            for word in 0..self.target.words {
                out.push(Op::access(OpKind::Store, 1, address(&self.target, unit, word)));
            }
        }
    }

    fn end(&self, out: &mut Vec<Op>) {
        if self.header == Header::Taken {
            out.push(Op::access(OpKind::Store, 1, self.start(&self.source) / self.line));
        }
        if self.marks {
            out.push(Op::signal(Signal::Mark(1)));
        }
    }
}

impl Pattern for Copy {
    fn fill(&mut self, out: &mut Vec<Op>) -> bool {
        if self.done.is_none() {
            self.begin(out);
        }
        let done = self.done.unwrap_or(0);
        let to = self.units.min(done + BATCH.div_ceil(self.source.words + self.target.words));
        self.units(done, to, out);
        self.done = Some(to);
        if to < self.units {
            return false;
        }
        self.end(out);
        self.done = None;
        self.at += 1;
        true
    }

    fn rewind(&mut self) {
        if self.done.take().is_some() {
            self.at += 1;
        }
    }
}
