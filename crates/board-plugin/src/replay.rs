//! The records of all cores through the DRAM, in the order of time.
//!
//! Problem: quanta run one after another, so requests reach the model in the order of quanta. Rule:
//! at the end of a window the records of all cores ([`crate::front`]) are run side by side. Each
//! core is a machine of computation, miss registers and window; its requests go through the
//! controller of `solocore-dram`. The run ends half a quantum before the window's end; the
//! remaining records are run with those of the next window. The half quantum is for cores whose
//! misses were faster than estimated: they go on from a time before the window's end. The replay of
//! a window runs on a CPU of its own while the vCPUs run the next window; its corrections
//! come at the end of the latter. Their time does not depend on the speed of the replay. So every
//! core meets the requests of the others at their times, in any order of the quanta, and none has
//! an advantage. A core whose misses took longer than estimated is ahead of the window when it has
//! run its quantum; it then waits for the window.
//! Not covered: the order of accesses to the shared cache within a quantum (a line that two cores
//! use within 10 us may be brought in by the other one).

use crate::front::{Front, Record, Shape, What};
use solocore_dram::Spec;
use solocore_dram::controller::{Answer, Controller, Uncore};
use solocore_model::ModelError;
use solocore_model::platform::Pipeline;
use std::collections::VecDeque;

const NEVER: u64 = u64::MAX;

/// A line under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    line: u64,
    tag: u64,
    issued: u64,
    /// Time of arrival; `None`: the DRAM has it.
    done: Option<u64>,
    computed: u64,
    load: bool,
    store: bool,
}

/// A core of the replay.
#[derive(Debug, Default)]
struct Back {
    records: VecDeque<Record>,
    /// Waits of the core after the last of them, by the estimate.
    estimated: i64,
    /// Mean of its last lines from DRAM, from issue to data.
    miss_ps: u64,
    waited: i64,
    flights: Vec<Flight>,
    /// The answer for which the core waits, and the start of the wait.
    blocked: Option<(u64, u64)>,
    /// Writes that were sent to the controller and not taken.
    writes: u32,
    /// Time of its next event.
    next: u64,
    /// Earliest time of the next line from DRAM.
    not_before: u64,
    next_tag: u64,
    /// Whether all its records were done at the last horizon.
    caught_up: bool,
}

/// Latencies that a core saw, from issue to data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Lines from DRAM.
    pub lines: u64,
    /// Their sum.
    pub sum_ps: u64,
    /// The longest.
    pub max_ps: u64,
}

/// All cores and the DRAM.
#[derive(Debug)]
pub struct Replay {
    /// Of each core.
    shapes: Vec<Shape>,
    /// Maximum number of misses that the shared cache can have under way; `usize::MAX`: any number.
    llc_mshrs: usize,
    under_way: usize,
    cores: Vec<Back>,
    controller: Controller,
    answers: Vec<Answer>,
    /// The horizon, and that of the run before.
    horizon_ps: u64,
    reached_ps: u64,
    /// Time that cores lost because their records came too late for it, summed.
    pub lost_ps: u64,
    /// By core.
    pub latencies: Vec<Latencies>,
    /// The largest change of a core's time so far, either way.
    pub largest_correction_ps: u64,
    /// Their absolute values, summed.
    pub sum_corrections_ps: u64,
}

fn time(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}

fn signed(ps: u64) -> i64 {
    i64::try_from(ps).unwrap_or(i64::MAX)
}

impl Replay {
    /// An idle machine.
    ///
    /// # Errors
    /// The memory is impossible.
    pub fn new(
        shapes: Vec<Shape>,
        spec: &Spec,
        row_hit_cap: Option<u32>,
        line: u64,
        llc_mshrs: Option<u32>,
    ) -> Result<Self, ModelError> {
        let cores = u16::try_from(shapes.len()).unwrap_or(u16::MAX);
        let guess = |shape: &Shape| shape.llc_ps + shape.overhead_ps + shape.dram_ps;
        Ok(Self {
            llc_mshrs: llc_mshrs.map_or(usize::MAX, |n| n as usize),
            under_way: 0,
            cores: shapes
                .iter()
                .map(|shape| Back { next: NEVER, miss_ps: guess(shape), ..Back::default() })
                .collect(),
            shapes,
            controller: Controller::new(spec, row_hit_cap, line, cores, 1)?,
            answers: Vec::new(),
            horizon_ps: 0,
            reached_ps: 0,
            lost_ps: 0,
            latencies: vec![Latencies::default(); usize::from(cores)],
            largest_correction_ps: 0,
            sum_corrections_ps: 0,
        })
    }

    /// Counts at the memory controller.
    pub fn uncore(&self, now_ps: u64) -> Uncore {
        self.controller.counts(now_ps)
    }

    /// Takes a core's records over.
    pub fn take(&mut self, core: usize, front: &mut Front) {
        let back = &mut self.cores[core];
        back.estimated = front.hand_over(&mut back.records);
    }

    /// Number of records that have not been run.
    pub fn waiting(&self) -> usize {
        self.cores.iter().map(|c| c.records.len()).sum()
    }

    /// Runs the records up to `horizon`.
    pub fn run(&mut self, horizon: u64) {
        self.horizon_ps = horizon;
        for core in 0..self.cores.len() {
            let Some(first) = self.cores[core].records.front().copied() else { continue };
            if self.cores[core].blocked.is_none() {
                // Before this the DRAM has gone on: a core that was much faster than estimated
                // loses the difference.
                let due = time(signed(first.computed) + self.cores[core].waited);
                let idle = matches!(first.what, What::Idle { .. });
                if self.cores[core].caught_up && !idle {
                    self.lost_ps += self.reached_ps.saturating_sub(due);
                }
                self.cores[core].next = due.max(self.reached_ps);
            }
        }
        self.reached_ps = self.reached_ps.max(horizon);
        loop {
            let (mut at, mut which) = (NEVER, 0);
            for (core, back) in self.cores.iter().enumerate() {
                if back.next < at {
                    (at, which) = (back.next, core);
                }
            }
            let until = at.min(horizon);
            if self.controller.next_ps() <= until {
                if let Some(now) = self.controller.advance(until, &mut self.answers) {
                    self.take_answers(now);
                }
                continue;
            }
            if at > horizon {
                break;
            }
            self.step(which, at);
        }
        for back in &mut self.cores {
            back.caught_up = back.records.is_empty();
        }
    }

    /// Makes the core act at `now`, as far as it can.
    fn step(&mut self, core: usize, now: u64) {
        let window_ps = self.shapes[core].window_ps;
        while let Some(&record) = self.cores[core].records.front() {
            let back = &mut self.cores[core];
            // Loads that the core needed before this.
            while let Some(at) =
                back.flights.iter().position(|f| f.load && f.computed + window_ps < record.computed)
            {
                let needed = signed(back.flights[at].computed + window_ps) + back.waited;
                let Some(done) = back.flights[at].done else {
                    back.next = NEVER;
                    return;
                };
                back.waited += (signed(done) - needed).max(0);
                back.flights[at].load = false;
            }
            let due = time(signed(record.computed) + back.waited);
            if due > now {
                back.next = due;
                return;
            }
            // It was held up until now.
            back.waited += signed(now - due);
            back.flights.retain(|f| f.done.is_none_or(|done| done > now));
            let on = match record.what {
                What::Idle { until_ps } => {
                    back.waited += signed(until_ps.saturating_sub(now));
                    true
                }
                What::Write => self.write(core, now, record.line),
                What::Fence { stores } => self.fence(core, now, stores),
                What::Join { block } => self.join(core, now, record.line, record.computed, block),
                What::Fill { miss, load, store, block, gap_ps } => {
                    let fill = Fill {
                        line: record.line,
                        computed: record.computed,
                        miss,
                        load,
                        store,
                        block,
                        gap_ps,
                    };
                    self.fill(core, now, fill)
                }
            };
            if !on {
                return;
            }
            self.cores[core].records.pop_front();
            if self.cores[core].blocked.is_some() {
                self.cores[core].next = NEVER;
                return;
            }
        }
        self.cores[core].next = NEVER;
    }

    fn write(&mut self, core: usize, now: u64, line: u64) -> bool {
        let back = &mut self.cores[core];
        if back.writes >= Pipeline::WRITE_BUFFER {
            back.next = NEVER;
            return false;
        }
        back.writes += 1;
        let at = now + self.shapes[core].llc_ps + self.shapes[core].overhead_ps;
        self.controller.send(at, line, true, u16::try_from(core).unwrap_or(0), 0);
        true
    }

    fn fence(&mut self, core: usize, now: u64, stores: bool) -> bool {
        let back = &mut self.cores[core];
        let mut until = now;
        for flight in back.flights.iter().filter(|f| f.load || stores && f.store) {
            // An answer of the DRAM has the core try again.
            until = until.max(flight.done.unwrap_or(NEVER));
        }
        back.next = until;
        until <= now
    }

    fn join(&mut self, core: usize, now: u64, line: u64, computed: u64, block: bool) -> bool {
        let back = &mut self.cores[core];
        if let Some(flight) = back.flights.iter_mut().find(|f| f.line == line) {
            match (block, flight.done) {
                (true, Some(done)) => back.waited += signed(done.saturating_sub(now)),
                (true, None) => back.blocked = Some((flight.tag, now)),
                (false, _) => (flight.load, flight.computed) = (true, computed),
            }
        }
        true
    }

    fn fill(&mut self, core: usize, now: u64, fill: Fill) -> bool {
        let shape = self.shapes[core];
        let back = &mut self.cores[core];
        if back.flights.len() >= shape.mshrs {
            // The first that is known to come; an answer of the DRAM may come before.
            back.next = back.flights.iter().filter_map(|f| f.done).min().unwrap_or(NEVER);
            return false;
        }
        if self.under_way >= self.llc_mshrs {
            back.next = NEVER;
            return false;
        }
        let mut at = now;
        if fill.miss && fill.gap_ps > 0 {
            if back.not_before > now && fill.load {
                back.next = back.not_before;
                return false;
            }
            at = at.max(back.not_before);
            back.not_before = at + fill.gap_ps;
        }
        let tag = back.next_tag;
        back.next_tag += 1;
        let done = (!fill.miss).then_some(now + shape.llc_ps);
        if fill.miss {
            self.under_way += 1;
            let arrives = at + shape.llc_ps + shape.overhead_ps;
            self.controller.send(arrives, fill.line, false, u16::try_from(core).unwrap_or(0), tag);
        }
        match done {
            Some(done) if fill.block => back.waited += signed(done - now),
            _ => {
                let load = fill.load && !fill.block;
                back.flights.push(Flight {
                    line: fill.line,
                    tag,
                    issued: now,
                    done,
                    computed: fill.computed,
                    load,
                    store: fill.store,
                });
                if fill.block {
                    back.blocked = Some((tag, now));
                }
            }
        }
        true
    }

    fn take_answers(&mut self, now: u64) {
        let mut answers = std::mem::take(&mut self.answers);
        for answer in answers.drain(..) {
            let core = usize::from(answer.source);
            if core >= self.cores.len() {
                continue;
            }
            if answer.write {
                self.cores[core].writes = self.cores[core].writes.saturating_sub(1);
            } else {
                self.under_way = self.under_way.saturating_sub(1);
                self.arrived(core, answer.tag, now);
            }
            if self.cores[core].blocked.is_none() {
                self.step(core, now);
            }
        }
        self.answers = answers;
        if self.llc_mshrs != usize::MAX {
            // Cores that waited for a register of the shared cache go on.
            for core in 0..self.cores.len() {
                if self.cores[core].blocked.is_none() && self.cores[core].next == NEVER {
                    self.step(core, now);
                }
            }
        }
    }

    fn arrived(&mut self, core: usize, tag: u64, now: u64) {
        let back = &mut self.cores[core];
        if let Some(flight) = back.flights.iter_mut().find(|f| f.tag == tag) {
            flight.done = Some(now);
            let latency = now - flight.issued;
            let seen = &mut self.latencies[core];
            seen.lines += 1;
            seen.sum_ps += latency;
            seen.max_ps = seen.max_ps.max(latency);
            back.miss_ps = (back.miss_ps * 15 + latency) / 16;
        }
        if let Some((_, since)) = back.blocked.filter(|b| b.0 == tag) {
            back.blocked = None;
            back.waited += signed(now - since);
        }
    }

    /// Passes the results of its records to a core; returns the change of its time.
    pub fn correct(&mut self, core: usize, front: &mut Front) -> i64 {
        let back = &self.cores[core];
        let horizon = self.horizon_ps;
        let (mut waited, mut estimated) = (back.waited, back.estimated);
        if let Some((_, since)) = back.blocked {
            waited += signed(horizon.saturating_sub(since).max(back.miss_ps));
        }
        if let Some(record) = back.records.front() {
            // The remaining records are not before the horizon.
            estimated = record.waited;
            waited = waited.max(signed(horizon) - signed(record.computed));
        }
        front.miss_ps = back.miss_ps;
        let flights = &back.flights;
        let done =
            |line: u64| flights.iter().find(|f| f.line == line).and_then(|f| f.done).map(signed);
        let change = front.correct(waited, estimated, signed(horizon), done);
        self.largest_correction_ps = self.largest_correction_ps.max(change.unsigned_abs());
        self.sum_corrections_ps += change.unsigned_abs();
        change
    }
}

/// A line to fetch.
struct Fill {
    line: u64,
    computed: u64,
    miss: bool,
    load: bool,
    store: bool,
    block: bool,
    gap_ps: u64,
}
