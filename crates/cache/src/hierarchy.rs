//! The private caches of a thread and the shared stage behind them.

use crate::l1::{Evicted, L1, Slow};
use crate::lru::LruCache;
use crate::stack::StackCache;
use crate::trace::{Access, Kind};
use serde::{Deserialize, Serialize};
use solocore_model::Platform;
use solocore_model::platform::Pace;
use solocore_model::profile::Level;

/// Fixed-point cycles: 256 units to the cycle.
const Q: u64 = Pace::PARTS;

/// The numbers of a platform that the cache model works with.
#[derive(Clone, Debug)]
pub struct Geometry {
    l1i: (u32, u32),
    l1d: (u32, u32),
    l2: Option<(u32, u32, u64)>,
    llc: (u32, u32),
    /// log2 of the line size.
    pub line_shift: u32,
    /// log2 of the page size.
    pub page_shift: u32,
    cpi_q: u64,
    llc_latency: u64,
    frequency: u64,
    conflict_ps: u64,
    conflict_q: u64,
}

impl Geometry {
    /// Takes the numbers from a checked platform.
    pub fn of(p: &Platform) -> Self {
        let line = p.llc.line.0;
        let sets = |size: u64, ways: u32| {
            u32::try_from(size / (u64::from(ways) * line)).expect("checked: at most 1 GiB")
        };
        Self {
            l1i: (sets(p.l1i.size.0, p.l1i.ways), p.l1i.ways),
            l1d: (sets(p.l1d.size.0, p.l1d.ways), p.l1d.ways),
            l2: p.l2.as_ref().map(|c| (sets(c.size.0, c.ways), c.ways, c.latency.0)),
            llc: (p.llc_sets(), p.llc.ways),
            line_shift: line.trailing_zeros(),
            page_shift: p.page.0.trailing_zeros(),
            cpi_q: Pace::parts(p.cpi),
            llc_latency: p.llc.latency.0,
            frequency: p.frequency.0,
            conflict_ps: p.row_conflict().ps(),
            conflict_q: cycles_q(p.row_conflict().ps(), p.frequency.0),
        }
    }

    /// Time of a thread so far, alone on the machine, in 1/256 cycles: its execution, `reads` of
    /// the shared cache, and `misses` of it, each with a row conflict. It waits for no write-back.
    #[must_use]
    pub fn time_alone_q(&self, private: &Private, reads: u64, misses: u64) -> u64 {
        self.private_q(private) + reads * self.llc_latency * Q + misses * self.conflict_q
    }

    /// A time in 1/256 cycles, in nanoseconds.
    #[must_use]
    pub fn ns_of_q(&self, time_q: u64) -> u64 {
        let ns = u128::from(time_q) * 1_000_000_000
            / (u128::from(self.frequency.max(1)) * u128::from(Q));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn private_q(&self, private: &Private) -> u64 {
        let l2_latency = self.l2.map_or(0, |l2| l2.2);
        private.instructions * self.cpi_q + private.l2_hits * l2_latency * Q
    }

    fn lines_per_page_shift(&self) -> u32 {
        self.page_shift - self.line_shift
    }
}

/// A time in 1/256 cycles.
fn cycles_q(ps: u64, frequency: u64) -> u64 {
    let q = u128::from(ps) * u128::from(frequency) * u128::from(Q) / 1_000_000_000_000;
    u64::try_from(q).unwrap_or(u64::MAX)
}

/// Gives each virtual page its frame, in order of first touch. Physically indexed caches see
/// frames, so that a profile does not depend on where the loader put the program.
pub trait Frames {
    /// The frame of virtual page `vpage`; the same until the page is unmapped.
    fn frame(&mut self, vpage: u64) -> u32;
}

/// Counts of one frame.
#[derive(Clone, Debug, Default)]
pub struct PageCounts {
    /// All references.
    pub references: u64,
    /// Reads that reached the shared cache.
    pub llc_reads: u64,
    /// Dirty lines written back to the shared cache.
    pub llc_writes: u64,
}

/// A shared-cache read, handed back so that the caller can attribute it to code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Did the whole shared cache miss the line?
    pub miss: bool,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    accesses: u64,
    misses: u64,
    writebacks: u64,
}

/// First-level caches of one thread; they are touched without a lock.
#[derive(Debug)]
pub struct Private {
    /// Instruction side.
    pub l1i: L1,
    /// Data side.
    pub l1d: L1,
    /// Instructions executed.
    pub instructions: u64,
    /// Data stores. Loads are the rest of the lines' own counts.
    pub stores: u64,
    /// Data line accesses beyond the first of a reference (it crossed a line).
    pub splits: u64,
    l2: Option<LruCache>,
    l2_hits: u64,
    cycles_seen_q: u64,
    counts: [Counts; 3],
}

const L1I: usize = 0;
const L1D: usize = 1;
const L2: usize = 2;

impl Private {
    /// Empty caches.
    pub fn new(g: &Geometry) -> Self {
        Self {
            l1i: L1::new(g.l1i.0, g.l1i.1),
            l1d: L1::new(g.l1d.0, g.l1d.1),
            instructions: 0,
            stores: 0,
            splits: 0,
            l2: g.l2.map(|(sets, ways, _)| LruCache::new(sets, ways)),
            l2_hits: 0,
            cycles_seen_q: 0,
            counts: Default::default(),
        }
    }
}

/// Memory traffic in intervals that double when there are too many.
#[derive(Clone, Debug)]
struct Series {
    interval_ps: u64,
    transactions: Vec<u64>,
}

impl Series {
    const MAX: usize = 2048;

    fn add(&mut self, at_ps: u64, transactions: u64) {
        while at_ps / self.interval_ps >= Self::MAX as u64 {
            self.interval_ps *= 2;
            self.transactions = self.transactions.chunks(2).map(|c| c.iter().sum()).collect();
        }
        let at = usize::try_from(at_ps / self.interval_ps).expect("below MAX");
        if self.transactions.len() <= at {
            self.transactions.resize(at + 1, 0);
        }
        self.transactions[at] += transactions;
    }
}

/// All levels behind the first-level caches that threads share, and the counts.
#[derive(Debug)]
pub struct Shared {
    g: Geometry,
    llc: StackCache,
    llc_counts: Counts,
    /// Counts per frame.
    pub pages: Vec<PageCounts>,
    touched: Vec<u64>,
    words_per_page: usize,
    clock_q: u64,
    llc_reads: u64,
    llc_transactions: u64,
    series: Series,
}

/// Totals over all threads, for the profile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Levels, first level first.
    pub levels: Vec<Level>,
    /// Instructions.
    pub instructions: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Cycles with every shared-cache access free ([`solocore_model::Profile::private_cycles`]).
    pub private_cycles: u64,
    /// DRAM accesses by number of ways.
    pub by_ways: Vec<u64>,
    /// Interval of the series in nanoseconds.
    pub interval_ns: u64,
    /// DRAM accesses per interval.
    pub transactions: Vec<u64>,
}

impl Shared {
    /// Empty caches and counts.
    pub fn new(g: &Geometry) -> Self {
        Self {
            llc: StackCache::new(g.llc.0, g.llc.1),
            llc_counts: Counts::default(),
            pages: Vec::new(),
            touched: Vec::new(),
            words_per_page: (1usize << g.lines_per_page_shift()).div_ceil(64),
            clock_q: 0,
            llc_reads: 0,
            llc_transactions: 0,
            series: Series { interval_ps: 100_000_000, transactions: Vec::new() },
            g: g.clone(),
        }
    }

    /// Lines touched in a frame.
    pub fn lines_touched(&self, frame: usize) -> u32 {
        let at = frame * self.words_per_page;
        self.touched
            .get(at..at + self.words_per_page)
            .map_or(0, |w| w.iter().map(|b| b.count_ones()).sum())
    }

    /// Handles a reference to `vline` (a virtual line number) that a first-level cache could not
    /// complete, with its result `slow`; `write` for stores, `fetch` for instructions. Accesses
    /// that reach the shared cache go to `sink`, in order. Returns the shared-cache read, if there
    /// was one.
    pub fn resolve(
        &mut self,
        private: &mut Private,
        frames: &mut impl Frames,
        vline: u64,
        slow: Slow,
        fetch: bool,
        sink: &mut impl FnMut(Access),
    ) -> Option<Event> {
        let evicted = match slow {
            Slow::CounterFull(evicted) => {
                let level = if fetch { L1I } else { L1D };
                self.settle(private, level, frames, &evicted);
                return None;
            }
            Slow::Miss(evicted) => evicted,
        };
        self.advance(private);
        let line = self.physical(frames, vline);
        self.touch(line);
        let level = if fetch { L1I } else { L1D };
        private.counts[level].misses += 1;
        let event = self.fill(private, line, fetch, sink);
        if let Some(evicted) = evicted {
            self.retire(private, level, frames, &evicted, sink);
        }
        event
    }

    /// Takes the lines of an unmapped range, or all of them at the end, out of a thread's caches.
    pub fn drain(
        &mut self,
        private: &mut Private,
        frames: &mut impl Frames,
        mut range: impl FnMut(u64) -> bool,
        all: bool,
        sink: &mut impl FnMut(Access),
    ) {
        self.advance(private);
        for level in [L1I, L1D] {
            let cache = if level == L1I { &mut private.l1i } else { &mut private.l1d };
            for evicted in cache.drain(&mut range) {
                self.retire(private, level, frames, &evicted, sink);
            }
        }
        if all && let Some(l2) = &mut private.l2 {
            // The job pays for the dirty lines that it leaves behind.
            for line in l2.flush() {
                private.counts[L2].writebacks += 1;
                self.llc_access(line, Kind::Write, sink);
            }
        }
    }

    /// Totals; call once, after every thread was drained.
    pub fn finish<'a>(&mut self, threads: impl IntoIterator<Item = &'a Private>) -> Summary {
        self.llc_counts.writebacks += self.llc.flush();
        let mut totals: [Counts; 3] = Default::default();
        let (mut instructions, mut loads, mut stores) = (0, 0, 0);
        for thread in threads {
            instructions += thread.instructions;
            // A reference that crosses a line is one reference and two line accesses.
            loads += thread.counts[L1D].accesses.saturating_sub(thread.splits + thread.stores);
            stores += thread.stores;
            for (total, counts) in totals.iter_mut().zip(&thread.counts) {
                total.accesses += counts.accesses;
                total.misses += counts.misses;
                total.writebacks += counts.writebacks;
            }
        }
        let mut levels = Vec::new();
        let has_l2 = self.g.l2.is_some();
        let named = ["L1I", "L1D", "L2"]
            .into_iter()
            .zip(&totals)
            .filter(|(name, _)| *name != "L2" || has_l2);
        for (name, c) in named.chain([("LLC", &self.llc_counts)]) {
            levels.push(Level {
                name: name.to_owned(),
                accesses: c.accesses,
                misses: c.misses,
                writebacks: c.writebacks,
            });
        }
        Summary {
            levels,
            instructions,
            loads,
            stores,
            private_cycles: self.clock_q.div_ceil(Q),
            by_ways: self.llc.transactions_by_ways(),
            interval_ns: self.series.interval_ps / 1000,
            transactions: self.series.transactions.clone(),
        }
    }

    /// Adds the thread's own execution since it was last seen to the clock: threads share one core.
    fn advance(&mut self, private: &mut Private) {
        let now = self.g.private_q(private);
        self.clock_q += now.saturating_sub(private.cycles_seen_q);
        private.cycles_seen_q = now;
    }

    fn physical(&mut self, frames: &mut impl Frames, vline: u64) -> u64 {
        let shift = self.g.lines_per_page_shift();
        let frame = frames.frame(vline >> shift);
        self.grow(frame);
        u64::from(frame) << shift | (vline & ((1 << shift) - 1))
    }

    fn grow(&mut self, frame: u32) {
        let need = frame as usize + 1;
        if self.pages.len() < need {
            self.pages.resize(need, PageCounts::default());
            self.touched.resize(need * self.words_per_page, 0);
        }
    }

    fn touch(&mut self, line: u64) {
        let shift = self.g.lines_per_page_shift();
        let (frame, within) = ((line >> shift) as usize, (line & ((1 << shift) - 1)) as usize);
        self.touched[frame * self.words_per_page + within / 64] |= 1 << (within % 64);
    }

    /// Adds a departed line's references to its page and returns the page's frame.
    fn settle(
        &mut self,
        private: &mut Private,
        level: usize,
        frames: &mut impl Frames,
        evicted: &Evicted,
    ) -> u32 {
        private.counts[level].accesses += evicted.references;
        let frame = frames.frame(evicted.line >> self.g.lines_per_page_shift());
        self.grow(frame);
        self.pages[frame as usize].references += evicted.references;
        frame
    }

    /// Settles a line that has left a first-level cache, and writes it down if it is dirty.
    fn retire(
        &mut self,
        private: &mut Private,
        level: usize,
        frames: &mut impl Frames,
        evicted: &Evicted,
        sink: &mut impl FnMut(Access),
    ) {
        let page = self.settle(private, level, frames, evicted);
        if evicted.dirty {
            private.counts[level].writebacks += 1;
            let shift = self.g.lines_per_page_shift();
            let line = u64::from(page) << shift | (evicted.line & ((1 << shift) - 1));
            self.write_from_l1(private, line, sink);
        }
    }

    fn fill(
        &mut self,
        private: &mut Private,
        line: u64,
        fetch: bool,
        sink: &mut impl FnMut(Access),
    ) -> Option<Event> {
        let kind = if fetch { Kind::Fetch } else { Kind::Read };
        let Some(l2) = &mut private.l2 else {
            return self.llc_access(line, kind, sink);
        };
        private.counts[L2].accesses += 1;
        let got = l2.access(line, false);
        if got.hit {
            private.l2_hits += 1;
            return None;
        }
        private.counts[L2].misses += 1;
        let event = self.llc_access(line, kind, sink);
        if let Some(victim) = got.written_back {
            private.counts[L2].writebacks += 1;
            self.llc_access(victim, Kind::Write, sink);
        }
        event
    }

    fn write_from_l1(&mut self, private: &mut Private, line: u64, sink: &mut impl FnMut(Access)) {
        let Some(l2) = &mut private.l2 else {
            self.llc_access(line, Kind::Write, sink);
            return;
        };
        if let Some(victim) = l2.access(line, true).written_back {
            private.counts[L2].writebacks += 1;
            self.llc_access(victim, Kind::Write, sink);
        }
    }

    fn llc_access(
        &mut self,
        line: u64,
        kind: Kind,
        sink: &mut impl FnMut(Access),
    ) -> Option<Event> {
        let write = kind == Kind::Write;
        let page = &mut self.pages[(line >> self.g.lines_per_page_shift()) as usize];
        if write {
            page.llc_writes += 1;
        } else {
            page.llc_reads += 1;
            self.llc_reads += 1;
            self.llc_counts.accesses += 1;
        }
        let full = self.llc.access(line, write);
        let miss = !full.hit && !write;
        self.llc_counts.misses += u64::from(miss);
        self.llc_counts.writebacks += u64::from(full.wrote_back);
        let transactions = u64::from(miss) + u64::from(full.wrote_back);
        if transactions > 0 {
            self.llc_transactions += transactions;
            let cycles = self.clock_q / Q + self.llc_reads * self.g.llc_latency;
            let ps = u128::from(cycles) * 1_000_000_000_000 / u128::from(self.g.frequency)
                + u128::from(self.llc_transactions) * u128::from(self.g.conflict_ps);
            self.series.add(u64::try_from(ps).unwrap_or(u64::MAX), transactions);
        }
        sink(Access { at_cycles: self.clock_q / Q, line, kind });
        (!write).then_some(Event { miss })
    }
}
