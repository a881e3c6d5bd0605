//! A core's misses while the core runs: its waits, by an estimate of the DRAM's latency.
//!
//! Problem: a vCPU runs for a quantum alone, so the latency of its misses beside those of the
//! others is unknown while it runs. Rule: it runs on an estimate, and leaves a record of every
//! miss. At the end of the window [`crate::replay`] runs the records of all cores through the DRAM
//! in the order of time and gives the error of the estimate. The vCPU's clock is set right by that
//! difference, so no error stays; the estimate follows the mean of the core's own latencies.
//!
//! A miss takes a miss register (MSHR) until its line is there; with all taken the core waits for
//! the first to be free. A load's line must be there when the core has computed `window` past its
//! issue. Instruction fetches and page walks are waited for at once; stores and prefetches never. A
//! load whose address lies within [`REACH`] of the value of a load under way depends on it. The
//! core is taken to have waited for that load where it was issued, as `OpKind::LoadWait` of the
//! simulator does. So a chase of pointers pays every latency, and a walk over an array overlaps
//! them.
//! A fence waits for the accesses that it orders: LFENCE for loads, MFENCE for stores as well.
//! Not covered: dependences through arithmetic (an index that was loaded), the order of
//! speculation, store buffers beside the registers.
//!
//! Times are picoseconds. `computed` is the core's time without any wait or idleness; its own time
//! is `computed + waited + correction`.

use std::collections::VecDeque;

/// Range behind a loaded pointer, in bytes: an address in it belongs to the structure that the
/// pointer names.
pub const REACH: u64 = 4096;
/// The same range in front of it, in bytes.
const REACH_BACK: u64 = 512;
/// Number of loads with a remembered value that hit the second level.
const RECENT: usize = 4;

/// Numbers of a core.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of miss registers.
    pub mshrs: usize,
    /// Time of computation after which a load must be there; 0: at once.
    pub window_ps: u64,
    /// Time of a hit of the second level beyond that of the first.
    pub l2_ps: u64,
    /// Time of a hit of the shared cache beyond that of the first level.
    pub llc_ps: u64,
    /// Time from a miss of the shared cache to the memory controller.
    pub overhead_ps: u64,
    /// First guess of the DRAM's own time.
    pub dram_ps: u64,
}

/// Reason for fetching a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A load.
    Load,
    /// A store: nothing waits.
    Store,
    /// The core waits at once: an instruction, an entry of a page table.
    Now,
    /// A prefetch: no instruction has asked yet.
    Prefetch,
}

/// An action of the core, for the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A line came into the private caches, out of the DRAM if `miss`.
    Fill {
        /// Whether the shared cache missed, too.
        miss: bool,
        /// Whether the core waits for it at some time.
        load: bool,
        /// Whether a store asked for it.
        store: bool,
        /// Whether the core waits for it at once.
        block: bool,
        /// Earliest distance to the core's next line from DRAM.
        gap_ps: u64,
    },
    /// A load met a line that a prefetch had asked for.
    Join {
        /// Whether the core waits for it at once.
        block: bool,
    },
    /// A dirty line went to DRAM.
    Write,
    /// The core waited for its loads, and for its stores as well if `stores`.
    Fence {
        /// Whether it waits for all accesses.
        stores: bool,
    },
    /// The core did nothing until this time.
    Idle {
        /// End of the idle time, absolute.
        until_ps: u64,
    },
}

/// An action of the core, with its time.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Time of the action, in time of computation.
    pub computed: u64,
    /// Waits before it, by the estimate.
    pub waited: i64,
    /// Physical line.
    pub line: u64,
    /// The action.
    pub what: What,
}

/// A line under way.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    pub(crate) line: u64,
    /// Number of its record.
    pub(crate) record: u64,
    computed: u64,
    /// Time of arrival by the estimate, in the estimated time.
    pub(crate) done: i64,
    need: Need,
    value: u64,
}

/// The part of the core that runs on estimates.
#[derive(Debug)]
pub struct Front {
    shape: Shape,
    /// Estimated time of a line from DRAM, from issue to data.
    pub miss_ps: u64,
    waited: i64,
    /// Error that the replay has found: it is added to every estimated time.
    correction: i64,
    flights: Vec<Flight>,
    recent: [(u64, u64); RECENT],
    next_recent: usize,
    /// Records that the replay has not seen.
    pub records: VecDeque<Record>,
    /// Number of the first of them.
    pub first_record: u64,
    /// `waited` after the last record.
    pub waited_at_last: i64,
    /// Earliest time of the next line from DRAM, in estimated time (memory bandwidth allocation).
    not_before: i64,
    /// Whether loads and stores have missed since the last fence that waits for them.
    unfenced: [bool; 2],
}

fn signed(ps: u64) -> i64 {
    i64::try_from(ps).unwrap_or(i64::MAX)
}

impl Front {
    /// A core in its initial state.
    pub fn new(shape: Shape) -> Self {
        Self {
            miss_ps: shape.llc_ps + shape.overhead_ps + shape.dram_ps,
            shape,
            waited: 0,
            correction: 0,
            flights: Vec::with_capacity(shape.mshrs + 1),
            recent: [(u64::MAX, 0); RECENT],
            next_recent: 0,
            records: VecDeque::new(),
            first_record: 0,
            waited_at_last: 0,
            not_before: i64::MIN,
            unfenced: [false; 2],
        }
    }

    /// All waits and idleness so far, corrections included: the core's time beyond its computation.
    #[inline]
    pub fn total_wait(&self) -> i64 {
        self.waited + self.correction
    }

    #[inline]
    fn now(&self, computed: u64) -> i64 {
        signed(computed) + self.waited
    }

    fn push(&mut self, computed: u64, line: u64, what: What) -> u64 {
        self.records.push_back(Record { computed, waited: self.waited, line, what });
        self.first_record + self.records.len() as u64 - 1
    }

    /// Waits for the loads that the core needed up to this time of computation.
    #[inline]
    pub fn settle(&mut self, computed: u64) {
        if !self.flights.is_empty() {
            self.settle_flights(computed);
        }
    }

    fn settle_flights(&mut self, computed: u64) {
        for flight in &self.flights {
            let needed = flight.computed.saturating_add(self.shape.window_ps);
            if flight.need == Need::Load && needed < computed {
                let at = signed(needed) + self.waited;
                self.waited += (flight.done - at).max(0);
            }
        }
        let now = self.now(computed);
        self.flights.retain(|f| f.done > now);
    }

    /// Whether a miss register is free, without waiting.
    pub fn has_register(&mut self, computed: u64) -> bool {
        self.settle(computed);
        self.flights.len() < self.shape.mshrs
    }

    /// A line comes from the shared cache, or if `miss` from DRAM. `value` is the value that a load
    /// read, for dependences.
    pub fn fill(
        &mut self,
        computed: u64,
        line: u64,
        miss: bool,
        need: Need,
        value: u64,
        gap_ps: u64,
    ) {
        self.settle(computed);
        if self.flights.len() >= self.shape.mshrs {
            let first = self.flights.iter().map(|f| f.done).min().unwrap_or(0);
            self.waited = self.waited.max(first - signed(computed));
            let now = self.now(computed);
            self.flights.retain(|f| f.done > now);
        }
        if miss && gap_ps > 0 {
            if need != Need::Prefetch {
                self.waited = self.waited.max(self.not_before.saturating_sub(signed(computed)));
            }
            self.not_before = self.now(computed) + signed(gap_ps);
        }
        let latency = if miss { self.miss_ps } else { self.shape.llc_ps };
        let block = need == Need::Now || (need == Need::Load && self.shape.window_ps == 0);
        let load = need == Need::Load || need == Need::Now;
        let store = need == Need::Store;
        self.unfenced[0] |= load;
        self.unfenced[1] |= store;
        let record = self.push(computed, line, What::Fill { miss, load, store, block, gap_ps });
        let done = self.now(computed) + signed(latency);
        if block {
            self.waited += signed(latency);
        } else {
            self.flights.push(Flight { line, record, computed, done, need, value });
        }
        self.waited_at_last = self.waited;
    }

    /// A reference found its line in the second level. Returns its addition to the core's
    /// computation.
    #[inline]
    pub fn second_level_hit(&mut self, computed: u64, line: u64, need: Need, value: u64) -> u64 {
        if need == Need::Store {
            return 0;
        }
        if !self.flights.is_empty() && self.join(computed, line, need, value) {
            return 0;
        }
        if need == Need::Now || self.shape.window_ps == 0 {
            return self.shape.l2_ps;
        }
        self.recent[self.next_recent % RECENT] = (value, self.shape.l2_ps);
        self.next_recent += 1;
        0
    }

    /// A load of a line that a prefetch asked for; `false` if no prefetch has it under way.
    fn join(&mut self, computed: u64, line: u64, need: Need, value: u64) -> bool {
        self.settle(computed);
        let Some(at) = self.flights.iter().position(|f| f.line == line && f.need == Need::Prefetch)
        else {
            return false;
        };
        let block = need == Need::Now || self.shape.window_ps == 0;
        let record = self.push(computed, line, What::Join { block });
        let now = self.now(computed);
        let flight = &mut self.flights[at];
        if block {
            self.waited += (flight.done - now).max(0);
        } else {
            *flight = Flight { line, record, computed, done: flight.done, need: Need::Load, value };
        }
        self.waited_at_last = self.waited;
        true
    }

    /// Handles a reference to a virtual address that the first level does not hold. If a load under
    /// way loaded its address, the core has waited for that load. Returns its addition to the
    /// core's computation.
    #[inline]
    pub fn depends(&mut self, computed: u64, address: u64) -> u64 {
        let of =
            |value: u64| address.wrapping_sub(value).wrapping_add(REACH_BACK) < REACH + REACH_BACK;
        if let Some(at) = self.flights.iter().rposition(|f| f.need == Need::Load && of(f.value)) {
            self.settle(computed);
            if let Some(at) = self.flights.get(at).filter(|f| of(f.value)).map(|_| at) {
                self.wait_for(at, computed);
            }
            return 0;
        }
        for recent in &mut self.recent {
            if recent.1 > 0 && of(recent.0) {
                return std::mem::take(&mut recent.1);
            }
        }
        0
    }

    /// Waits for a load at the time of its issue.
    fn wait_for(&mut self, at: usize, computed: u64) {
        let flight = self.flights.remove(at);
        let wait = (flight.done - signed(flight.computed) - self.waited).max(0);
        let seen = flight
            .record
            .checked_sub(self.first_record)
            .and_then(|i| self.records.get_mut(usize::try_from(i).ok()?));
        match seen.map(|record| &mut record.what) {
            Some(What::Fill { block, .. } | What::Join { block }) => *block = true,
            // Replayed already, but not answered.
            _ => {
                self.push(computed, flight.line, What::Join { block: true });
            }
        }
        self.waited += wait;
        self.waited_at_last += wait;
    }

    /// A dirty line leaves for DRAM.
    pub fn write(&mut self, computed: u64, line: u64) {
        self.push(computed, line, What::Write);
        self.waited_at_last = self.waited;
    }

    /// Whether a line of a load or a store is under way, by the estimate.
    pub fn expects(&self, line: u64) -> bool {
        self.flights.iter().any(|f| f.line == line && f.need != Need::Prefetch)
    }

    /// The core waits for its loads, and if `stores` for its stores as well.
    pub fn fence(&mut self, computed: u64, stores: bool) {
        if !(self.unfenced[0] || stores && self.unfenced[1]) {
            return;
        }
        self.unfenced = [false, self.unfenced[1] && !stores];
        self.settle(computed);
        let waits = |f: &&Flight| f.need == Need::Load || stores && f.need == Need::Store;
        let last = self.flights.iter().filter(waits).map(|f| f.done).max();
        self.push(computed, 0, What::Fence { stores });
        if let Some(last) = last {
            self.waited = self.waited.max(last - signed(computed));
            let now = self.now(computed);
            self.flights.retain(|f| f.done > now);
        }
        self.waited_at_last = self.waited;
    }

    /// The core does nothing until `until_ps`.
    pub fn idle(&mut self, computed: u64, until_ps: u64) {
        self.settle(computed);
        self.push(computed, 0, What::Idle { until_ps });
        self.waited = self.waited.max(signed(until_ps) - signed(computed) - self.correction);
        self.waited_at_last = self.waited;
    }

    /// Passes its records on, and its waits after the last of them.
    pub fn hand_over(&mut self, to: &mut VecDeque<Record>) -> i64 {
        self.first_record += self.records.len() as u64;
        to.extend(self.records.drain(..));
        self.waited_at_last
    }

    /// Takes over the result of the replay: `waited` is the actual wait of the core where
    /// `estimated` was the estimate; `done` is the arrival time of a line, if there is one. Returns
    /// the change of the core's time.
    pub fn correct(
        &mut self,
        waited: i64,
        estimated: i64,
        horizon: i64,
        done: impl Fn(u64) -> Option<i64>,
    ) -> i64 {
        let before = std::mem::replace(&mut self.correction, waited - estimated);
        let correction = self.correction;
        for flight in &mut self.flights {
            flight.done = match done(flight.line) {
                Some(at) => at - correction,
                None => flight.done.max(horizon - correction),
            };
        }
        correction - before
    }
}
