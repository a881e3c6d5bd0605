//! The way into DRAM: requests on their way, requests that a full queue refused, and the counters
//! at the memory controller.
//!
//! Rule: a request arrives at the controller some time after it was sent (look-up and
//! interconnect), at the next edge of the memory clock. A refused one waits in front of its
//! channel, reads and writes apart, in order; it tries again whenever the memory moves. The number
//! of waiting requests is bounded by the senders: miss registers, write buffers, lines under way of
//! a device. A write is complete for its sender when the controller has taken it. Read occupancy is
//! integrated over time: every read counts from its arrival to its data (MARACAS section IV-A).

use crate::memory::{Memory, Options};
use crate::request::{Completion, Request};
use crate::spec::Spec;
use solocore_model::ModelError;
use std::collections::VecDeque;

const NEVER: u64 = u64::MAX;

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    cycle: u64,
    request: Request,
}

/// An event that a sender waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Core, or number of cores plus device.
    pub source: u16,
    /// Miss register of the core, for reads.
    pub tag: u64,
    /// A write was taken; otherwise the data of a read are there.
    pub write: bool,
}

/// Counts at the memory controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncore {
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
    /// Reads and writes of devices among both.
    pub device: u64,
    /// Sum over reads of the time from arrival at the controller to data: occupancy integrated over
    /// time. Over `reads` it is the mean latency (MARACAS section IV-A).
    pub read_occupancy_ps: u64,
}

/// The way into DRAM.
#[derive(Debug)]
pub struct Controller {
    memory: Memory,
    clock_ps: u64,
    line: u64,
    /// By cycle of arrival.
    arrivals: VecDeque<Arrival>,
    /// Refused requests of each channel: reads, writes.
    refused: Vec<[VecDeque<Arrival>; 2]>,
    refused_count: usize,
    /// The cycle before which no event occurs, and that of the memory alone.
    next_cycle: u64,
    /// Last cycle that the memory has been told.
    latest: u64,
    next_ps: u64,
    memory_next: u64,
    done: Vec<Completion>,
    counts: Uncore,
    devices_from: u16,
    /// Reads that have arrived and wait for data, and the sum of (data times less arrival times),
    /// modulo 2^64.
    waiting: u64,
    area_ps: u64,
}

impl Controller {
    /// An idle memory, lines of `line` bytes; sources are the cores, then the devices.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn new(
        spec: &Spec,
        cap: Option<u32>,
        line: u64,
        cores: u16,
        devices: u16,
    ) -> Result<Self, ModelError> {
        let memory = Memory::new(spec, Options { row_hit_cap: cap, cores: cores + devices })?;
        Ok(Self {
            clock_ps: memory.clock().ps(),
            memory,
            line,
            arrivals: VecDeque::new(),
            refused: (0..spec.organisation.channels)
                .map(|_| [VecDeque::new(), VecDeque::new()])
                .collect(),
            refused_count: 0,
            next_cycle: NEVER,
            latest: 0,
            next_ps: NEVER,
            memory_next: NEVER,
            done: Vec::new(),
            counts: Uncore::default(),
            devices_from: cores,
            waiting: 0,
            area_ps: 0,
        })
    }

    /// Sends a request for a physical line that arrives at `at_ps`.
    #[inline]
    pub fn send(&mut self, at_ps: u64, line: u64, write: bool, source: u16, tag: u64) {
        if write {
            self.counts.writes += 1;
        } else {
            self.counts.reads += 1;
        }
        self.counts.device += u64::from(source >= self.devices_from);
        let cycle = at_ps.div_ceil(self.clock_ps);
        let request = Request { address: line * self.line, write, core: source, tag };
        self.next_cycle = self.next_cycle.min(cycle);
        self.next_ps = self.next_cycle * self.clock_ps;
        // Cores send in the order of time; requests of devices, which have a shorter way, are
        // inserted in their place.
        let mut at = self.arrivals.len();
        while at > 0 && self.arrivals[at - 1].cycle > cycle {
            at -= 1;
        }
        if at == self.arrivals.len() {
            self.arrivals.push_back(Arrival { cycle, request });
        } else {
            self.arrivals.insert(at, Arrival { cycle, request });
        }
    }

    /// The time before which no event occurs, ps.
    #[inline]
    pub fn next_ps(&self) -> u64 {
        self.next_ps
    }

    /// Moves on to `until_ps`, or to the first answers before or at it, which it appends; returns
    /// the time at which it stopped, `None` if there are none.
    pub fn advance(&mut self, until_ps: u64, out: &mut Vec<Answer>) -> Option<u64> {
        let limit = until_ps / self.clock_ps;
        while self.next_cycle <= limit {
            let cycle = self.step(limit, out);
            if !out.is_empty() {
                return Some(cycle * self.clock_ps);
            }
        }
        None
    }

    /// Moves to the next arrival, answer, or command before a waiting request.
    fn step(&mut self, limit: u64, out: &mut Vec<Answer>) -> u64 {
        let arrival = self.arrivals.front().map_or(NEVER, |a| a.cycle);
        let mut target = limit.min(arrival);
        if self.refused_count > 0 {
            target = target.min(self.memory_next);
        }
        let mut at = target;
        // An idle memory is not told the time: it catches up in one step when the next request
        // comes.
        if self.memory_next <= target {
            at = self.memory.advance_to_completion(target, &mut self.done);
            self.latest = self.latest.max(at);
            self.answers(out);
        }
        if self.refused_count > 0 {
            self.retry(at, out);
        }
        while let Some(&first) = self.arrivals.front()
            && first.cycle <= at
        {
            self.arrivals.pop_front();
            self.arrive(first, out);
        }
        let arrival = self.arrivals.front().map_or(NEVER, |a| a.cycle);
        // Commands alone change nothing here; they wait until an answer can come, or room for a
        // refused request.
        let next = if self.refused_count > 0 {
            self.memory.next_event()
        } else {
            self.memory.no_answer_before()
        };
        self.memory_next = next.unwrap_or(NEVER);
        self.next_cycle = self.memory_next.min(arrival);
        self.next_ps = self.next_cycle.saturating_mul(self.clock_ps);
        at
    }

    fn answers(&mut self, out: &mut Vec<Answer>) {
        for c in self.done.drain(..) {
            if !c.write {
                self.waiting -= 1;
                self.area_ps = self.area_ps.wrapping_add(c.at * self.clock_ps);
                out.push(Answer { source: c.core, tag: c.tag, write: false });
            }
        }
    }

    #[inline]
    fn arrive(&mut self, arrival: Arrival, out: &mut Vec<Answer>) {
        let Arrival { cycle, request } = arrival;
        self.latest = self.latest.max(cycle);
        if !request.write {
            self.waiting += 1;
            self.area_ps = self.area_ps.wrapping_sub(cycle * self.clock_ps);
        }
        if self.refused_count > 0 {
            let channel = self.memory.place(request.address).channel as usize;
            if !self.refused[channel][usize::from(request.write)].is_empty() {
                self.refuse(arrival);
                return;
            }
        }
        if !self.memory.enqueue(cycle, request) {
            self.refuse(arrival);
        } else if request.write {
            out.push(Answer { source: request.core, tag: request.tag, write: true });
        }
    }

    #[cold]
    fn refuse(&mut self, arrival: Arrival) {
        let channel = self.memory.place(arrival.request.address).channel as usize;
        self.refused[channel][usize::from(arrival.request.write)].push_back(arrival);
        self.refused_count += 1;
    }

    /// Refused requests try again at `cycle`, or at the last arrival's: the event of one channel
    /// may lie before the time that another has been told since.
    #[cold]
    fn retry(&mut self, cycle: u64, out: &mut Vec<Answer>) {
        let cycle = cycle.max(self.latest);
        self.latest = cycle;
        for (channel, queues) in (0..).zip(&mut self.refused) {
            for queue in queues {
                // The memory has refused the first request. A write is refused until there is room,
                // as no other write goes in before it; the check for room saves a search of the
                // full queue. A read may be answered by a write that came since.
                let writes = queue.front().is_some_and(|first| first.request.write);
                if writes && !self.memory.has_room_for_write(cycle, channel) {
                    continue;
                }
                while let Some(&Arrival { request, .. }) = queue.front()
                    && self.memory.enqueue(cycle, request)
                {
                    queue.pop_front();
                    self.refused_count -= 1;
                    if request.write {
                        out.push(Answer { source: request.core, tag: request.tag, write: true });
                    }
                }
            }
        }
    }

    /// Counters at a time that the controller has moved to.
    pub fn counts(&self, now_ps: u64) -> Uncore {
        let read_occupancy_ps = self.area_ps.wrapping_add(self.waiting.wrapping_mul(now_ps));
        Uncore { read_occupancy_ps, ..self.counts }
    }

    /// Places allocated for requests.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.arrivals.capacity()
            + self.done.capacity()
            + self.refused.iter().flatten().map(VecDeque::capacity).sum::<usize>()
    }

    /// Requests on their way or in front of a channel.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.arrivals.len() + self.refused_count
    }
}
