//! The memory of this machine as a probe.
//!
//! Rule: where single lines can be flushed from the caches (a test of one line decides), each
//! load's line is flushed before it is timed. Elsewhere (an emulated machine) a region of four
//! times the last level is walked, and the timed lines lie in another region, which a pass through
//! the first evicts. Counters are read before and behind each piece ([`Counters`]). A walk through
//! flushed memory first fills the second level, so that its loads evict lines as a program's do.
//! Source: lmbench's lat_mem_rd (McVoy, Staelin 1996); DRAMA (Pessl et al. 2016) for pages by
//! turns. Lines have the size that the platform file states: a walk in larger steps leaves lines
//! of a cache untouched, and counts bytes that nobody moved. Does not cover: replacement that keeps
//! old lines; memory-side caches.

mod chains;
mod compute;
mod far;
mod single;

use self::chains::{BLOCK, Lines, order};
use self::compute::{CAN_COMPUTE, Data, ROUND};
use self::far::Far;
use super::probe::{Case, Cause, Pattern, Piece, Probe, Shape};
use crate::error::MachineError;
use solocore_buffers::disturbance::{Counters, Counts};
use solocore_buffers::hog::Hog;
use solocore_buffers::huge::{self, Backing};
use solocore_buffers::order::Walk;
use solocore_buffers::timing::{Clock, ticks};
use solocore_buffers::walk::{Random, keep_on};
use solocore_buffers::{BufferError, HUGE, thread};
use solocore_model::Platform;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Largest region that is walked: larger ones take longer to build than to measure.
const MOST: u64 = 256 << 20;
/// Chains that bring the lines of a level to the place where they are timed.
const SECTIONS: usize = 16;
/// Lines of a walk that goes round several times in a piece: the first two levels belong to one
/// core.
const SMALL: usize = 8192;
/// Approximate time of a piece of a walk, ns.
const PIECE_NS: f64 = 100_000.0;

/// CPUs and method of the measurement.
pub struct Setup<'a> {
    /// The measuring CPU.
    pub cpu: u32,
    /// CPUs of the others.
    pub others: Vec<u32>,
    /// Sizes of the caches.
    pub platform: &'a Platform,
    /// Is time emulated, so that each load is costly?
    pub emulated: bool,
    /// Has the user asked to stop?
    pub stopped: fn() -> bool,
}

/// Present linking of the chains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linked {
    Nothing,
    Level(u64),
    Memory,
}

/// The memory of this machine.
pub struct Machine {
    setup_cpus: Vec<u32>,
    stopped: fn() -> bool,
    counters: Counters,
    clock: Clock,
    lines: Lines,
    backing: Backing,
    flushes: bool,
    /// Lines that walks from memory go through.
    ring: Range<usize>,
    /// Lines that are timed one by one, or in pairs.
    targets: Range<usize>,
    /// Pairs of huge pages of these, by their difference in memory.
    far: Far,
    /// Lines of the second level, twice.
    fill: usize,
    linked: Linked,
    /// The lines of the linked chain, in order.
    order: Vec<usize>,
    /// Position of each chain, and the rounds left of the pass.
    at: Vec<usize>,
    left: usize,
    last_ns: f64,
    random: Random,
    data: Box<Data>,
    hogs: Vec<Hog>,
    /// This core's part of a pattern.
    own: Option<Walk>,
    pattern: Option<Pattern>,
    hog_bytes: usize,
    /// Pairs of pages of a chain.
    turns: usize,
    /// Is time emulated?
    emulated: bool,
    /// A round of [`rounds`], in ns.
    round_ns: f64,
    /// Bytes of a walk through the first level.
    first: u64,
    /// Times that are subtracted from accesses between rests, in ns, for each case without its
    /// offset.
    bases: Vec<(Case, f64)>,
    window: Duration,
    /// Ticks of a write to a first-level line, fence included.
    write_ticks: u64,
    begun: Instant,
}

/// The error as one of this crate.
fn failed(error: BufferError) -> MachineError {
    match error {
        BufferError::Input(text) => MachineError::Input(text),
        BufferError::Machine(text) => MachineError::Machine(text),
    }
}

fn bytes(of: u64) -> usize {
    usize::try_from(of).unwrap_or(usize::MAX / 2)
}

impl Machine {
    /// Prepares the CPU and the memory.
    ///
    /// # Errors
    /// The CPU cannot be used, the memory is too small, or the CPU is of another kind.
    pub fn new(setup: Setup) -> Result<Self, MachineError> {
        if !CAN_COMPUTE {
            return Err(MachineError::Machine(
                "measure knows the instructions of x86-64 and aarch64 only; copy the numbers from \
                    the CPU's manual"
                    .to_owned(),
            ));
        }
        keep_on(setup.cpu).map_err(failed)?;
        let llc = setup.platform.llc.size.0;
        let (probe, _) = huge::memory(HUGE).map_err(failed)?;
        let line = bytes(setup.platform.llc.line.0);
        let flushes = flushing_works(&Lines::new(probe, line));
        let whole = if flushes { (4 * llc).min(MOST) } else { 4 * llc };
        let extra = if flushes { 0 } else { 2 * llc };
        let (memory, backing) =
            huge::memory(bytes(whole + extra)).map_err(|e| match failed(e) {
                MachineError::Machine(text) => MachineError::Machine(format!(
                    "loads from memory need {} MiB: {text}",
                    (whole + extra) >> 20
                )),
                other => other,
            })?;
        let lines = Lines::new(memory, line);
        let line = lines.line();
        let whole = bytes(whole) / line;
        let targets = if flushes { 0..whole } else { whole..lines.len() };
        let l2 = setup.platform.l2.as_ref().map_or(setup.platform.l1d.size.0, |l2| l2.size.0);
        let clock = Clock::measured();
        let mut machine = Self {
            stopped: setup.stopped,
            counters: Counters::of(setup.cpu),
            clock,
            lines,
            backing,
            flushes,
            far: Far::default(),
            ring: 0..whole,
            targets,
            fill: 2 * bytes(l2) / line,
            linked: Linked::Nothing,
            order: Vec::new(),
            at: Vec::new(),
            left: 0,
            last_ns: 100.0,
            random: Random::new(1),
            data: Data::new(),
            hogs: Vec::new(),
            own: None,
            pattern: None,
            hog_bytes: bytes((2 * llc).min(MOST)) / if setup.emulated { 2 } else { 1 },
            turns: if flushes && !setup.emulated { 1 } else { 24 },
            emulated: setup.emulated,
            round_ns: round_ns(&clock),
            first: setup.platform.l1d.size.0 / 2,
            bases: Vec::new(),
            window: Duration::from_micros(if setup.emulated { 300 } else { 2000 }),
            write_ticks: 0,
            setup_cpus: setup.others,
            begun: Instant::now(),
        };
        machine.write_ticks = machine.least_write();
        machine.far = Far::of(&machine.huge_pages());
        Ok(machine)
    }

    /// Kind of the memory's pages.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// Can interrupts be counted?
    pub fn sees_interrupts(&self) -> bool {
        self.counters.sees_interrupts()
    }

    /// Bytes of the region for walks.
    pub fn region(&self) -> u64 {
        (self.ring.len() * self.lines.line()) as u64
    }

    /// Times a piece, with the events that disturbed it.
    fn piece(&mut self, time: impl FnOnce(&mut Self) -> f64) -> Piece {
        let before = self.counters.read();
        let ns = time(self);
        Piece { ns, cause: cause(before, self.counters.read()) }
    }

    /// Evicts all lines of the given region from the caches, where single lines cannot be flushed.
    fn evict_by(&mut self, other: Range<usize>) {
        if !self.flushes {
            self.lines.pass(other);
        }
    }

    /// Addresses of the huge pages of the timed lines; none where pages are small.
    fn huge_pages(&self) -> Vec<usize> {
        if self.backing == Backing::Small {
            return Vec::new();
        }
        let of_huge = HUGE / self.lines.line();
        self.targets.clone().step_by(of_huge).map(|line| self.lines.address(line)).collect()
    }

    /// Lines of a block that a walk stays in for a while; `None`: it need not.
    fn near(&self) -> Option<usize> {
        (self.backing == Backing::Small).then(|| BLOCK / self.lines.line())
    }

    /// Links the chain through memory.
    fn link_memory(&mut self) {
        if self.linked != Linked::Memory {
            self.order = order(self.ring.clone(), self.near(), &mut self.random);
            self.lines.link(&self.order);
            self.linked = Linked::Memory;
            self.at.clear();
        }
    }

    /// Begins a pass of `chains` chains, each through a part of the cycle.
    fn begin_pass(&mut self, chains: usize) {
        if self.flushes {
            self.lines.flush(self.order.iter().copied());
        } else {
            self.lines.pass(self.targets.clone());
        }
        let part = self.order.len() / chains;
        let shift = self.random.below(self.order.len());
        let start = |chain: usize| self.order[(shift + chain * part) % self.order.len()];
        self.at = (0..chains).map(|chain| self.lines.address(start(chain))).collect();
        self.left = part;
        if self.flushes {
            let rounds = (self.fill / chains).min(part / 2);
            self.lines.follow(&mut self.at, rounds);
            self.left -= rounds;
        }
    }

    /// Sets `wanted` of the other CPUs to work.
    fn hogs(&mut self, wanted: usize, pattern: &Pattern) -> Result<(), MachineError> {
        if self.pattern.as_ref() != Some(pattern) {
            self.hogs.clear();
            self.own = None;
        }
        self.pattern = Some(pattern.clone());
        self.hogs.truncate(wanted);
        while let Some(&cpu) =
            self.setup_cpus.get(self.hogs.len()).filter(|_| self.hogs.len() < wanted)
        {
            let (line, pattern) = (self.lines.line(), pattern.clone());
            let hog = Hog::of_lines(cpu, self.hog_bytes, line, pattern, &self.stopped);
            self.hogs.push(hog.map_err(failed)?);
        }
        Ok(())
    }
}

/// Executes `count` rounds of a few instructions without effect; the instructions are the same for
/// every caller.
#[inline(never)]
fn rounds(count: usize) {
    for round in 0..count {
        std::hint::black_box(round);
    }
}

/// Waits until an emulated clock is right: some of its windows.
fn rest() {
    const PAUSES: usize = 800;
    (0..PAUSES).for_each(|_| std::hint::spin_loop());
}

/// Time of a round, ns.
fn round_ns(clock: &Clock) -> f64 {
    const ROUNDS: usize = 20_000;
    rounds(ROUNDS / 10);
    let begin = ticks();
    rounds(ROUNDS);
    clock.net_ns(ticks() - begin) / ROUNDS as f64
}

/// The kind of event between two readings.
fn cause(before: Counts, after: Counts) -> Option<Cause> {
    if after.steal != before.steal {
        Some(Cause::Steal)
    } else if after.switches != before.switches {
        Some(Cause::Switch)
    } else {
        (after.interrupts != before.interrupts).then_some(Cause::Interrupt)
    }
}

/// Does a flushed line take longer than one that was not flushed?
fn flushing_works(lines: &Lines) -> bool {
    const TIMES: usize = 101;
    if !thread::CAN_FLUSH {
        return false;
    }
    let time = |flush: bool| {
        let mut times: Vec<u64> = (0..TIMES)
            .map(|_| {
                lines.read(0);
                if flush {
                    lines.flush(std::iter::once(0));
                }
                let begin = ticks();
                lines.read(0);
                ticks() - begin
            })
            .collect();
        times.sort_unstable();
        times[TIMES / 2]
    };
    let (cold, warm) = (time(true), time(false));
    cold > 2 * warm
}

impl Probe for Machine {
    fn compute(&mut self) -> Piece {
        const ROUNDS: u64 = 4000;
        self.data.run(ROUNDS / 4);
        self.piece(|m| {
            let begin = ticks();
            m.data.run(ROUNDS);
            m.clock.net_ns(ticks() - begin) / (ROUNDS * ROUND) as f64
        })
    }

    fn level(&mut self, of: u64) -> Piece {
        if self.linked != Linked::Level(of) {
            let lines = (bytes(of) / self.lines.line()).min(self.ring.len());
            self.order = order(0..lines, self.near(), &mut self.random);
            self.lines.link(&self.order);
            self.linked = Linked::Level(of);
            self.last_ns = 10.0;
        }
        // All lines, in sections side by side: other users of the level have less time to evict
        // lines. Then the section that began first is timed, one load after the other.
        let section = self.order.len() / SECTIONS;
        let starts = (0..SECTIONS).map(|n| self.lines.address(self.order[n * section]));
        let mut at: Vec<usize> = starts.collect();
        self.lines.follow(&mut at, section);
        at.truncate(1);
        at[0] = self.lines.address(self.order[0]);
        // A small walk first goes round in its own order. Lines that the sections left in the inner
        // level would make the level too quick, and evictions by reading the counters too slow. Of
        // a large walk's section, the inner level may still hold the last quarter.
        let (lead, loads) = if self.order.len() <= SMALL {
            (self.order.len(), loads(self.last_ns))
        } else {
            let loads = loads(self.last_ns).min(section / 2);
            (loads / 4, loads - loads / 4)
        };
        let piece = self.piece(|m| {
            m.lines.follow(&mut at, lead);
            let begin = ticks();
            m.lines.follow(&mut at, loads);
            m.clock.net_ns(ticks() - begin) / loads as f64
        });
        self.last_ns = piece.ns;
        piece
    }

    fn memory(&mut self, chains: u32) -> Piece {
        self.link_memory();
        let chains = (chains as usize).clamp(1, self.order.len() / 64);
        let rounds = loads(self.last_ns * chains as f64).min(self.order.len() / chains / 4).max(1);
        if self.at.len() != chains || self.left < 2 * rounds {
            self.begin_pass(chains);
        }
        // The first loads bring back translations that reading the counters evicted.
        let lead = rounds / 3;
        self.left = self.left.saturating_sub(lead + rounds);
        let piece = self.piece(|m| {
            m.lines.follow(&mut m.at, lead);
            let begin = ticks();
            m.lines.follow(&mut m.at, rounds);
            m.clock.net_ns(ticks() - begin) / (rounds * chains) as f64
        });
        self.last_ns = piece.ns;
        piece
    }

    fn pairs(&mut self, offsets: &[u64]) -> Vec<Piece> {
        self.time_pairs(offsets)
    }

    fn pairs_shape(&self) -> Shape {
        let number = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
        // Half of a chain is not timed where time is emulated.
        let timed = if self.emulated { 1 } else { 2 };
        let columns = self.columns();
        Shape { row_loads: number(columns), loads: number(self.turns * columns * timed) }
    }

    fn single(&mut self, case: Case, times: usize) -> Vec<Piece> {
        self.time_single(case, times)
    }

    fn stream(&mut self, active: u32, pattern: &Pattern) -> Result<Piece, MachineError> {
        const STEP: usize = 2048;
        self.hogs(active.saturating_sub(1) as usize, pattern)?;
        let mut walk = match self.own.take() {
            Some(walk) => walk,
            None => {
                let (memory, _) = huge::memory(self.hog_bytes).map_err(failed)?;
                Walk::of_lines(memory, pattern.order.clone(), self.lines.line())
            }
        };
        let piece = self.piece(|m| {
            let done = |m: &Self| m.hogs.iter().map(Hog::bytes).sum::<u64>();
            let (before, begin, mut own) = (done(m), Instant::now(), 0);
            while begin.elapsed() < m.window {
                own += walk.go(STEP, pattern.access);
            }
            let ns = begin.elapsed().as_nanos() as f64;
            let lines = own as f64 + (done(m) - before) as f64 / m.lines.line() as f64;
            ns / lines
        });
        self.own = Some(walk);
        Ok(piece)
    }

    fn attack(&mut self, pattern: Option<&Pattern>) -> Result<(), MachineError> {
        match pattern {
            Some(pattern) => self.hogs(self.setup_cpus.len(), pattern),
            None => {
                self.hogs.clear();
                Ok(())
            }
        }
    }

    fn cores(&self) -> u32 {
        u32::try_from(self.setup_cpus.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    fn offsets(&self) -> u64 {
        if self.backing == Backing::Small { 0 } else { HUGE as u64 }
    }

    fn far(&self) -> Vec<u64> {
        self.far.differences()
    }

    fn line(&self) -> u64 {
        self.lines.line() as u64
    }

    fn flushes(&self) -> bool {
        self.flushes
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn stopped(&self) -> bool {
        (self.stopped)()
    }
}

/// Number of loads in a piece.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the limits")]
fn loads(each_ns: f64) -> usize {
    (PIECE_NS / each_ns.max(0.5)).clamp(64.0, 40_000.0) as usize
}
