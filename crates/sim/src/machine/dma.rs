//! DMA engines: blocks of lines, wait states, lines under way.
//!
//! Rule: an engine sends the lines of a block, never more than `outstanding` at once; when the last
//! of the block has been moved it waits `wait_ps`, then begins the next. A read is moved when its
//! data are there, a write when the memory controller has taken it. A stream with a rate begins its
//! blocks at least the time of a block apart (remainders carried); blocks that the memory delays
//! are not caught up. Lines go to DRAM, past the caches; the machine invalidates the copies of a
//! line that a device writes.
//! Not covered: devices that read dirty lines out of caches, descriptors and their traffic.

use super::config::{DmaSpec, Stream};
use crate::hardware::Transfer;
use std::collections::VecDeque;

const NEVER: u64 = u64::MAX;

/// Present work of a device.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Next line of the buffer.
    at: u64,
    /// Lines that have not been sent.
    to_send: u64,
    into_memory: bool,
    /// Time from which on nothing is sent, ps.
    stop_ps: u64,
    /// Did the kernel order it? Then the kernel is told of its end.
    ordered: bool,
}

#[derive(Debug)]
pub(super) struct Device {
    frames: Vec<u64>,
    lines_per_page: u64,
    block_lines: u64,
    wait_ps: u64,
    outstanding: u64,
    orders: VecDeque<Transfer>,
    work: Option<Work>,
    /// Lines of the block that have not been sent.
    block_left: u64,
    in_flight: u64,
    /// Begin of the next block of a stream with a rate, and the remainder of its time in 1/rate ps.
    due_ps: u64,
    due_rest: u64,
    stream: Option<Stream>,
    line: u64,
    pub next_ps: u64,
}

/// Request of a device at its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Sends this physical line, and asks again.
    Send { line: u64, into_memory: bool },
    /// Waits for another event.
    Wait,
    /// An order is complete.
    Transferred,
}

impl Device {
    pub fn new(spec: DmaSpec, lines_per_page: u64, line: u64) -> Self {
        let stream = spec.autonomous;
        Self {
            frames: spec.frames,
            lines_per_page,
            block_lines: u64::from(spec.block_lines),
            wait_ps: spec.wait_ps,
            outstanding: u64::from(spec.outstanding),
            orders: VecDeque::new(),
            work: stream.map(|s| Work {
                at: 0,
                to_send: u64::MAX,
                into_memory: s.into_memory,
                stop_ps: s.stop_ps,
                ordered: false,
            }),
            block_left: 0,
            in_flight: 0,
            due_ps: 0,
            due_rest: 0,
            stream,
            line,
            next_ps: stream.map_or(NEVER, |s| s.start_ps),
        }
    }

    /// Takes an order; an order during other work waits for its turn.
    pub fn order(&mut self, now: u64, order: Transfer) {
        self.orders.push_back(order);
        if self.work.is_none() {
            self.next_ps = now;
        }
    }

    /// A line has been moved.
    pub fn moved(&mut self, now: u64) {
        self.in_flight -= 1;
        if self.block_left > 0 {
            self.next_ps = now;
        } else if self.in_flight == 0 {
            // The end of an order needs no wait.
            let more = self.work.is_some_and(|w| w.to_send > 0);
            self.next_ps =
                if more { now.saturating_add(self.wait_ps).max(self.due_ps) } else { now };
        }
    }

    /// The action at `next_ps`, which is `now`.
    pub fn act(&mut self, now: u64) -> Action {
        self.next_ps = NEVER;
        let Some(mut work) = self.work else { return self.take_order(now) };
        if now >= work.stop_ps {
            // The rest of a stream is not sent.
            (work.to_send, self.block_left) = (0, 0);
            self.work = Some(work);
        }
        if work.to_send == 0 {
            if self.in_flight > 0 {
                return Action::Wait;
            }
            self.work = None;
            self.next_ps = if self.orders.is_empty() { NEVER } else { now };
            return if work.ordered { Action::Transferred } else { Action::Wait };
        }
        if self.block_left == 0 {
            if self.in_flight > 0 {
                return Action::Wait;
            }
            self.block_left = self.block_lines.min(work.to_send);
            self.begin_block(now);
        }
        if self.in_flight == self.outstanding {
            return Action::Wait;
        }
        let lines = self.frames.len() as u64 * self.lines_per_page;
        let at = work.at % lines;
        let page = usize::try_from(at / self.lines_per_page).unwrap_or(0);
        let line = self.frames[page] * self.lines_per_page + at % self.lines_per_page;
        work.at = at + 1;
        work.to_send -= 1;
        self.block_left -= 1;
        self.in_flight += 1;
        self.work = Some(work);
        self.next_ps =
            if self.block_left > 0 && self.in_flight < self.outstanding { now } else { NEVER };
        Action::Send { line, into_memory: work.into_memory }
    }

    fn take_order(&mut self, now: u64) -> Action {
        let Some(order) = self.orders.pop_front() else { return Action::Wait };
        self.work = Some(Work {
            at: order.offset_lines,
            to_send: order.lines,
            into_memory: order.into_memory,
            stop_ps: NEVER,
            ordered: true,
        });
        self.due_ps = now;
        self.next_ps = now;
        Action::Wait
    }

    /// Sets the time of the next block.
    fn begin_block(&mut self, now: u64) {
        let ordered = self.work.is_some_and(|w| w.ordered);
        let Some(rate) = self.stream.and_then(|s| s.bytes_per_s).filter(|_| !ordered) else {
            return;
        };
        let time = u128::from(self.block_lines * self.line) * 1_000_000_000_000
            + u128::from(self.due_rest);
        let late = now > self.due_ps;
        self.due_ps = now.saturating_add(u64::try_from(time / u128::from(rate)).unwrap_or(NEVER));
        self.due_rest = if late { 0 } else { u64::try_from(time % u128::from(rate)).unwrap_or(0) };
    }
}
