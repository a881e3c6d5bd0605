//! A memory with known truths, and the disturbances of a busy machine.
//!
//! Rule: each answer is the truth with noise of its own; some pieces have an interrupt, which is
//! reported, and some a stall that is not, as in a guest.

use solocore_buffers::walk::Random;
use solocore_machine::measure::{Access, Case, Cause, Pattern, Piece, Probe, Shape};
use std::cell::Cell;
use std::time::Duration;

/// True values of the memory. Times in ns.
#[derive(Clone, Debug)]
pub struct Truth {
    /// An instruction.
    pub instruction: f64,
    /// Bytes of a level, and a load from it beyond the first.
    pub levels: Vec<(u64, f64)>,
    /// A first-level load.
    pub first: f64,
    /// Time of the controller.
    pub overhead: f64,
    /// Precharge, activate, column, burst.
    pub timing: [f64; 4],
    /// Longest wait of a read behind a write to its bank.
    pub recovery: f64,
    /// Service time of a posted write; 0: it is served at once.
    pub serve: f64,
    /// The same if each write opens a row.
    pub opening: f64,
    /// Time between two writes of the core, and from the last to the read behind it.
    pub core: f64,
    /// Masks of address bits; two addresses share a bank if all parities agree.
    pub banks: Vec<u64>,
    /// Address bits of a row.
    pub row: u64,
    /// Loads of a row in pages by turns, the one that opens it included; 0: it is open.
    pub row_loads: u32,
    /// Loads of a piece of pages by turns.
    pub pair_loads: u32,
    /// A refresh that all loads wait for, and the time from one to the next.
    pub refresh: [f64; 2],
    /// Is a row left open?
    pub open: bool,
    /// Misses that a core can have under way.
    pub mshrs: u32,
    /// Relative growth of all loads for each further load under way.
    pub crowding: f64,
    /// Time between two lines when the memory is full, ns.
    pub full: f64,
    /// Relative noise of a piece.
    pub noise: f64,
    /// Share of pieces with an interrupt.
    pub interrupts: f64,
    /// Time of an interrupt.
    pub interrupt: f64,
    /// Share of pieces with a stall that is not reported.
    pub stalls: f64,
    /// Share of single accesses that meet a refresh.
    pub refreshes: f64,
    /// Does the memory have huge pages?
    pub huge: bool,
    /// Is it known where several huge pages lie?
    pub far: bool,
    /// Can lines be flushed?
    pub flushes: bool,
    /// Share of walks through the shared cache with lines that others have evicted.
    pub pushed_out: f64,
    /// Cores.
    pub cores: u32,
    /// Bytes of a line.
    pub line: u64,
}

impl Truth {
    /// The values of a quiet desktop.
    pub fn desktop() -> Self {
        Self {
            instruction: 0.3,
            levels: vec![(256 << 10, 2.42), (6 << 20, 8.18)],
            first: 1.2,
            overhead: 14.576,
            timing: [13.5, 13.5, 13.5, 6.0],
            recovery: 36.0,
            serve: 0.0,
            opening: 0.0,
            core: 0.0,
            banks: vec![1 << 13 | 1 << 17, 1 << 14 | 1 << 18, 1 << 15 | 1 << 19],
            row: 0b111 << 17,
            row_loads: 0,
            pair_loads: 768,
            refresh: [0.0, f64::INFINITY],
            open: true,
            mshrs: 10,
            crowding: 0.0,
            full: 3.0,
            noise: 0.01,
            interrupts: 0.0,
            interrupt: 5000.0,
            stalls: 0.0,
            refreshes: 0.05,
            huge: true,
            far: false,
            flushes: true,
            pushed_out: 0.0,
            cores: 4,
            line: 64,
        }
    }

    /// A load from memory beyond the first level, its row open or another one.
    pub fn load(&self, conflict: bool) -> f64 {
        let [rp, rcd, cl, burst] = self.timing;
        let llc = self.levels.last().map_or(0.0, |l| l.1);
        llc + self.overhead + cl + burst + if conflict { rp + rcd } else { 0.0 }
    }

    /// Wait of a read `gap` after `writes` writes to this number of rows. The writes are served one
    /// after another. A read ends that when four are left; while there are more, it waits for them.
    fn behind(&self, writes: u32, rows: usize, gap: f64) -> f64 {
        if self.serve == 0.0 {
            return (self.recovery - gap).max(0.0);
        }
        let serve = if rows > 1 { self.opening } else { self.serve };
        let mut served = vec![0.0_f64];
        for write in 1..=writes {
            let before = served.last().copied().unwrap_or(0.0);
            served.push((before + serve).max(f64::from(write) * self.core));
        }
        let arrives = f64::from(writes + 1) * self.core + gap;
        let few = served[writes.saturating_sub(4) as usize];
        let begins = arrives.max(few);
        let last = served.into_iter().filter(|&at| at <= begins).fold(0.0, f64::max);
        (self.recovery - (begins - last)).max(0.0) + begins - arrives
    }

    /// The worst time of an access by itself, beyond the shared cache.
    pub fn latency_max(&self) -> f64 {
        self.load(true) - self.levels.last().map_or(0.0, |l| l.1) + self.recovery
    }
}

/// The memory.
pub struct MadeUp {
    pub truth: Truth,
    random: Random,
    attacked: bool,
    /// Time that has passed, ns, so that no test waits.
    pub now: Cell<f64>,
    /// Pieces after which the user stops the measurement.
    pub patience: Cell<u64>,
}

impl MadeUp {
    pub fn new(truth: Truth, seed: u64) -> Self {
        Self {
            truth,
            random: Random::new(seed),
            attacked: false,
            now: Cell::new(0.0),
            patience: Cell::new(u64::MAX),
        }
    }

    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The truth as a piece of `loads` loads; noise is the sum of several draws, nearly normal.
    fn piece(&mut self, ns: f64, loads: f64) -> Piece {
        let noise: f64 = (0..6).map(|_| self.uniform() - 0.5).sum::<f64>() * self.truth.noise;
        let mut piece = Piece { ns: ns * (1.0 + noise), cause: None };
        if self.uniform() < self.truth.interrupts {
            piece.ns += self.truth.interrupt / loads;
            piece.cause = Some(Cause::Interrupt);
        }
        if self.uniform() < self.truth.stalls {
            piece.ns += 30_000.0 / loads;
        }
        self.now.set(self.now.get() + 50_000.0 + ns * loads);
        self.patience.set(self.patience.get().saturating_sub(1));
        piece
    }

    /// Do two lines with these differing bits share a bank, in different rows?
    fn conflicts(&self, offset: u64) -> bool {
        let same = self.truth.banks.iter().all(|m| (m & offset).count_ones().is_multiple_of(2));
        same && offset & self.truth.row != 0
    }

    /// A load of a walk that waits for each refresh, from its outside of the memory on.
    fn refreshed(&self, ns: f64) -> f64 {
        let [refresh, every] = self.truth.refresh;
        let llc = self.truth.levels.last().map_or(0.0, |l| l.1);
        let outside = self.truth.first + llc + self.truth.overhead;
        ns / (1.0 - (refresh - outside).max(0.0) / every)
    }

    fn slowed(&self, ns: f64) -> f64 {
        if self.attacked { ns * 1.5 } else { ns }
    }
}

impl Probe for MadeUp {
    fn compute(&mut self) -> Piece {
        self.piece(self.truth.instruction, 40_000.0)
    }

    fn level(&mut self, bytes: u64) -> Piece {
        let all = [(32 << 10, 0.0)].into_iter().chain(self.truth.levels.iter().copied());
        let level = all.clone().find(|l| bytes <= l.0).map(|l| l.1);
        let shared = bytes > 256 << 10 && self.uniform() < self.truth.pushed_out;
        let level = level.filter(|_| !shared);
        let ns = self.truth.first + level.unwrap_or_else(|| self.truth.load(true));
        self.piece(ns, 1000.0)
    }

    fn memory(&mut self, chains: u32) -> Piece {
        let under_way = f64::from(chains.min(self.truth.mshrs));
        // Loads anywhere meet another row.
        let alone = self.truth.first + self.truth.load(true);
        let crowded = alone * (1.0 + self.truth.crowding * (under_way - 1.0));
        let ns = self.slowed((crowded / under_way).max(self.truth.full));
        self.piece(self.refreshed(ns), 1000.0)
    }

    fn pairs(&mut self, offsets: &[u64]) -> Vec<Piece> {
        let time = |m: &Self, offset: u64| {
            let ns = |conflict| m.truth.first + m.truth.load(conflict);
            let conflict = !m.truth.open || m.conflicts(offset);
            let opening = if m.truth.row_loads == 0 { 0.0 } else { ns(true) - ns(conflict) };
            m.refreshed(ns(conflict) + opening / f64::from(m.truth.row_loads.max(1)))
        };
        offsets.iter().map(|&o| self.piece(time(self, o), 64.0)).collect()
    }

    fn pairs_shape(&self) -> Shape {
        // More than any noise, where rows are open from the beginning.
        let row_loads = if self.truth.row_loads == 0 { u32::MAX } else { self.truth.row_loads };
        Shape { row_loads, loads: self.truth.pair_loads }
    }

    fn single(&mut self, case: Case, times: usize) -> Vec<Piece> {
        let conflict = self.conflicts(case.offset) || !self.truth.open;
        let mut ns = self.truth.first + self.truth.load(conflict);
        // The recovery passes while the access waits for its turn.
        if conflict && case.writes > 0 {
            let rows = case.row_count();
            assert!((0..rows).all(|row| self.conflicts(case.offset ^ case.row(row))));
            assert!((1..rows).all(|row| self.conflicts(case.row(row))), "a row is met twice");
            ns += self.truth.behind(case.writes, rows, f64::from(case.gap_ns));
        }
        let _ = case.access == Access::Write;
        let ns = self.slowed(ns);
        let of = |m: &mut Self| {
            let mut piece = m.piece(ns, 1.0);
            if m.uniform() < m.truth.refreshes {
                piece.ns += 200.0;
            }
            piece
        };
        (0..times).map(|_| of(self)).collect()
    }

    fn stream(
        &mut self,
        active: u32,
        pattern: &Pattern,
    ) -> Result<Piece, solocore_machine::MachineError> {
        let write = if pattern.access == Access::Write { 2.0 } else { 1.0 };
        let ns = (20.0 / f64::from(active)).max(self.truth.full) * write;
        Ok(self.piece(ns, 1000.0))
    }

    fn attack(&mut self, pattern: Option<&Pattern>) -> Result<(), solocore_machine::MachineError> {
        self.attacked = pattern.is_some();
        Ok(())
    }

    fn cores(&self) -> u32 {
        self.truth.cores
    }

    fn offsets(&self) -> u64 {
        if self.truth.huge { 2 << 20 } else { 0 }
    }

    fn far(&self) -> Vec<u64> {
        if self.truth.far { (1..32).map(|page| page << 21).collect() } else { Vec::new() }
    }

    fn line(&self) -> u64 {
        self.truth.line
    }

    fn flushes(&self) -> bool {
        self.truth.flushes
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now.get() as u64)
    }

    fn stopped(&self) -> bool {
        self.patience.get() == 0
    }
}
