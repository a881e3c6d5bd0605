//! The programs of an attack: the places of their accesses, their mix, and their times.
//!
//! Rule: a [`Beat`] is an endless stream of a best-effort task; a [`Job`] is the work of an
//! analysed task in each of its jobs, with exactly the accesses that its system states. Both know
//! their frames: rows of chosen banks, which random pages would never be. Each access is one DRAM
//! access: it enters at the shared cache, and its pages are kept out of it.

use solocore_sim::machine::Layout;
use solocore_sim::program::{Entry, Op, OpKind, Program, Signal};

/// Approximate number of operations of one refill.
const BATCH: u64 = 256;

/// Rows and banks that a stream visits, one access after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Another row of one bank each time: conflicts.
    Conflicts,
    /// The same with fewer rows, so that a queue holds several accesses of each.
    Few,
    /// Line after line of one row of one bank: hits.
    Hits,
    /// The task's banks in turn, another row each round.
    Banks,
    /// The task's banks in turn, always the same row of each.
    OpenBanks,
    /// Any row of any of its banks.
    Random,
    /// Runs of four lines of a row, then another row of the same bank: as many hits as the cap lets
    /// pass.
    Runs,
}

/// Every kind of rows.
pub const ROWS: [Rows; 7] = [
    Rows::Conflicts,
    Rows::Few,
    Rows::Hits,
    Rows::Banks,
    Rows::OpenBanks,
    Rows::Random,
    Rows::Runs,
];

/// Frames and lines that a stream visits repeatedly.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Page frames.
    pub frames: Vec<u64>,
    /// Virtual lines, in order.
    pub lines: Vec<u64>,
}

/// Rows that one stream has for itself, where the banks have enough: more than the write queue
/// holds, so that no two writes in it are of one row.
const OWN_ROWS: u32 = 80;
/// Approximate number of streams of one system.
const SLOTS: u32 = 24;

impl Visit {
    /// The lines of `rows` in `banks`, from `bank` on. `slot` keeps streams apart: each has rows of
    /// its own.
    pub fn new(
        layout: &Layout,
        banks: &[u32],
        bank: usize,
        rows: Rows,
        slot: u32,
        lines_per_page: u64,
    ) -> Self {
        // Where channels are interleaved below the page, no page begins in the banks of the second.
        let begin: Vec<u32> =
            banks.iter().copied().filter(|&b| !layout.frames_of(b, 0).is_empty()).collect();
        let banks: Vec<u32> = (0..begin.len()).map(|i| begin[(bank + i) % begin.len()]).collect();
        let own = (layout.rows() / SLOTS).clamp(1, OWN_ROWS);
        let (many_banks, many_rows) = match rows {
            Rows::Conflicts => (1, own),
            Rows::Few | Rows::Runs => (1, own.min(16)),
            Rows::Hits => (1, 1),
            Rows::Banks | Rows::Random => (banks.len().min(16), own.min(8)),
            Rows::OpenBanks => (banks.len().min(16), 1),
        };
        let mut frames = Vec::new();
        for row in 0..many_rows {
            let row = (slot * own + row) % layout.rows();
            for &bank in &banks[..many_banks] {
                frames.push(*layout.frames_of(bank, row).first().expect("every bank has this row"));
            }
        }
        let pages = frames.len() as u64;
        let at = |page: u64, line: u64| page % pages * lines_per_page + line % lines_per_page;
        let count = 8 * lines_per_page.max(64);
        let lines = (0..count).map(|n| match rows {
            // The line changes with every round, so that no two accesses under way share one.
            Rows::Conflicts | Rows::Few | Rows::Banks | Rows::OpenBanks | Rows::Hits => {
                at(n, n / pages)
            }
            Rows::Runs => at(n / 4, n / 4 / pages * 4 + n % 4),
            Rows::Random => {
                let draw = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                at(draw >> 40, draw >> 20 & 0xfff)
            }
        });
        Self { lines: lines.collect(), frames }
    }

    /// The same lines behind `pages` other pages.
    fn behind(&self, pages: usize, lines_per_page: u64) -> Vec<u64> {
        self.lines.iter().map(|line| line + pages as u64 * lines_per_page).collect()
    }
}

/// Reads and writes of one program: each kind has its own lines.
#[derive(Clone, Debug)]
pub struct Lines {
    reads: Vec<u64>,
    writes: Vec<u64>,
    pages: u32,
}

/// Puts two visits into one program: its frames and its lines.
pub fn join(reads: &Visit, writes: &Visit, lines_per_page: u64) -> (Vec<u64>, Lines) {
    let frames: Vec<u64> = reads.frames.iter().chain(&writes.frames).copied().collect();
    let pages = u32::try_from(frames.len()).unwrap();
    let writes = writes.behind(reads.frames.len(), lines_per_page);
    (frames, Lines { reads: reads.lines.clone(), writes, pages })
}

/// A stream without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Rows of its reads.
    pub read_rows: Rows,
    /// Kind of its reads.
    pub read: OpKind,
    /// Reads in a row, before the writes.
    pub reads: u64,
    /// Writes in a row, before the next reads.
    pub writes: u64,
    /// Rows of its writes.
    pub write_rows: Rows,
    /// Kind of its writes.
    pub write: OpKind,
    /// Its first bank, among the task's.
    pub bank: usize,
    /// Cycles of computation before each access.
    pub gap: u64,
    /// Accesses of a burst; 0: no pauses.
    pub burst: u64,
    /// Cycles between bursts.
    pub pause: u64,
    /// Cycles before the first access.
    pub lead: u64,
}

/// A [`Beat`] under way.
pub struct Stream {
    beat: Beat,
    lines: Lines,
    done: u64,
    reads: u64,
    writes: u64,
}

impl Stream {
    /// From its beginning.
    pub fn new(beat: Beat, lines: Lines) -> Self {
        Self { beat, lines, done: 0, reads: 0, writes: 0 }
    }

    fn next(&mut self) -> (OpKind, u64) {
        let b = &self.beat;
        let at = self.done % (b.reads + b.writes).max(1);
        let turn = |lines: &[u64], n: &mut u64| {
            let line = lines[usize::try_from(*n).unwrap() % lines.len()];
            *n += 1;
            line
        };
        if at < b.reads || b.writes == 0 {
            (b.read, turn(&self.lines.reads, &mut self.reads))
        } else {
            (b.write, turn(&self.lines.writes, &mut self.writes))
        }
    }
}

impl Program for Stream {
    fn refill(&mut self, out: &mut Vec<Op>) {
        if self.done == 0 && self.beat.lead > 0 {
            out.push(Op::compute(self.beat.lead));
        }
        for _ in 0..BATCH {
            let (kind, line) = self.next();
            out.push(Op::access(kind, self.beat.gap, line));
            self.done += 1;
            if self.beat.burst > 0 && self.done.is_multiple_of(self.beat.burst) {
                out.push(Op::compute(self.beat.pause));
            }
        }
    }

    fn entry(&self) -> Entry {
        Entry::Shared
    }

    fn pages(&self) -> u32 {
        self.lines.pages
    }

    fn abandon_job(&mut self) {}
}

/// Distribution of a job's accesses over its computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Evenly spread.
    Even,
    /// All at its start.
    Start,
    /// All at its end.
    End,
    /// Half at its start, half at its end.
    Halves,
    /// In bursts of eight, evenly spread.
    Bursts,
}

/// Every shape.
pub const SHAPES: [Shape; 5] =
    [Shape::Even, Shape::Start, Shape::End, Shape::Halves, Shape::Bursts];

/// Work of an analysed task in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// DRAM accesses.
    pub misses: u64,
    /// Cycles of computation.
    pub cycles: u64,
    /// Rows of its reads.
    pub read_rows: Rows,
    /// Kind of its reads.
    pub read: OpKind,
    /// One access of this number is a write; 0: none is.
    pub write_each: u64,
    /// Its first bank.
    pub bank: usize,
    /// Distribution of the accesses.
    pub shape: Shape,
    /// One job of this number computes nothing and makes no access; 0: none is empty.
    pub empty_each: u64,
}

impl Job {
    /// The larger of the numbers of its reads and its writes.
    pub fn most_of_a_kind(&self) -> u64 {
        let writes = self.misses.checked_div(self.write_each).unwrap_or(0);
        writes.max(self.misses - writes)
    }
}

/// A [`Job`], repeated.
pub struct Jobs {
    job: Job,
    lines: Lines,
    done: u64,
    computed: u64,
    visited: usize,
    ended: u64,
}

impl Jobs {
    /// From the start of a job.
    pub fn new(job: Job, lines: Lines) -> Self {
        Self { job, lines, done: 0, computed: 0, visited: 0, ended: 0 }
    }

    /// Cycles of computation before access `n` of a job.
    fn before(&self, n: u64) -> u64 {
        let share = |n: u64, of: u64| {
            u64::try_from(u128::from(self.job.cycles) * u128::from(n) / u128::from(of.max(1)))
                .unwrap()
        };
        let misses = self.job.misses;
        match self.job.shape {
            Shape::Even => share(n + 1, misses + 1),
            Shape::Start => 0,
            Shape::End => self.job.cycles,
            Shape::Halves if n < misses / 2 => 0,
            Shape::Halves => self.job.cycles,
            Shape::Bursts => share(n / 8 + 1, misses / 8 + 2),
        }
    }
}

impl Program for Jobs {
    fn refill(&mut self, out: &mut Vec<Op>) {
        let mut compute = |computed: &mut u64, upto: u64| {
            if upto > *computed {
                out.push(Op::compute(upto - *computed));
                *computed = upto;
            }
        };
        let each = self.job.empty_each;
        let empty = each > 0 && self.ended % each == each - 1;
        if empty || self.done == self.job.misses {
            compute(&mut self.computed, if empty { 1 } else { self.job.cycles });
            out.push(Op::signal(Signal::JobEnd));
            self.ended += 1;
            (self.done, self.computed) = (0, 0);
            return;
        }
        let upto = self.before(self.done);
        compute(&mut self.computed, upto);
        let write =
            self.job.write_each > 0 && self.done % self.job.write_each == self.job.write_each - 1;
        let lines = if write { &self.lines.writes } else { &self.lines.reads };
        let kind = if write { OpKind::StoreLine } else { self.job.read };
        out.push(Op::access(kind, 0, lines[self.visited % lines.len()]));
        self.visited += 1;
        self.done += 1;
    }

    fn entry(&self) -> Entry {
        Entry::Shared
    }

    fn pages(&self) -> u32 {
        self.lines.pages
    }

    fn abandon_job(&mut self) {
        (self.done, self.computed) = (0, 0);
    }
}
