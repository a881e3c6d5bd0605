//! Synthetic traffic, straight into the controller: no caches, latency from arrival to data.
//!
//! * `chase`: one dependent random read at a time; `chase-stream`: one dependent sequential read at
//!   a time.
//! * `random`: uniform over the lines of the first 8 GiB; `stream4`: four sequential streams in
//!   turn, in banks of their own; arrivals without memory (a Bernoulli trial every cycle) at the
//!   offered load.
//! * `attack`: a victim with one random-row read at a time in one bank, and attackers that keep
//!   requests outstanding. Those go to one row after the other from end to end or to random rows,
//!   in the victim's bank or in others. Latencies are the victim's.
//!
//! A request that finds its queue full waits outside; its latency runs from the time at which it
//! gets in.

use crate::command::Command;
use crate::memory::{Memory, Options};
use crate::random::{Gaps, Random, fraction};
use crate::request::{Completion, Counters, Request};
use crate::spec::Spec;
use solocore_model::{Bandwidth, ModelError};
use std::collections::VecDeque;

/// Pattern of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One dependent random read at a time.
    Chase,
    /// One dependent sequential read at a time.
    ChaseStream,
    /// Uniform over all lines, open loop.
    Random,
    /// Four sequential streams in turn, open loop.
    Stream4,
    /// A victim and its attackers.
    Attack(Attack),
}

/// Attackers and their pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attack {
    /// Attackers.
    pub attackers: u16,
    /// Requests that each keeps outstanding.
    pub outstanding: u16,
    /// Do they use the victim's bank, or each another one?
    pub same_bank: bool,
    /// Do they use random rows in place of row after row?
    pub random_rows: bool,
}

/// Traffic to run.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Pattern of the requests.
    pub pattern: Pattern,
    /// Offered load of the open-loop patterns.
    pub load: Bandwidth,
    /// Share of writes of the open-loop patterns, as a 64-bit fraction.
    pub writes: u64,
    /// Requests; those of the victim in an attack.
    pub requests: u64,
    /// Seed of addresses and arrivals.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Latencies of the reads that count, in cycles.
    pub latency: Histogram,
    /// Requests answered.
    pub answered: u64,
    /// Cycles to the last answer.
    pub cycles: u64,
    /// Counts of all cores.
    pub total: Counters,
    /// Counts of each core.
    pub cores: Vec<Counters>,
    /// Refreshes of all ranks.
    pub refreshes: u64,
}

/// Addresses that random traffic covers.
const SPAN: u64 = 8 << 30;

/// Latencies in cycles, one bin each; the last one takes all longer ones.
#[derive(Clone, Debug)]
pub struct Histogram {
    bins: Vec<u64>,
    count: u64,
    sum: u64,
    longest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bins: vec![0; 1 << 15], count: 0, sum: 0, longest: 0 }
    }
}

impl Histogram {
    #[inline]
    fn add(&mut self, cycles: u64) {
        let bin = usize::try_from(cycles).unwrap_or(usize::MAX).min(self.bins.len() - 1);
        self.bins[bin] += 1;
        self.count += 1;
        self.sum += cycles;
        self.longest = self.longest.max(cycles);
    }

    /// Latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; 0 for none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The longest.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The least latency that `percent` of them do not exceed.
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        for (cycles, &n) in (0u64..).zip(&self.bins) {
            seen += u128::from(n);
            if seen >= wanted {
                return cycles;
            }
        }
        self.longest
    }
}

/// Takes part in a run, every few thousand requests.
pub trait Observer {
    /// The share of the requests sent, 0 to 1; `false` stops the run.
    fn progress(&mut self, share: f64) -> bool;

    /// Does it want the commands?
    fn wants_commands(&self) -> bool {
        false
    }

    /// The commands since the last call, by channel, then time.
    fn commands(&mut self, _commands: &[Command]) {}
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _share: f64) -> bool {
        true
    }
}

struct Run<'a> {
    memory: Memory,
    done: Vec<Completion>,
    report: Report,
    random: Random,
    /// Core whose latencies count; `None`: all.
    watched: Option<u16>,
    observer: &'a mut dyn Observer,
}

/// Requests between two calls of the observer.
const PIECE: u64 = 4096;

/// Runs traffic through an idle memory; `None` if the observer stopped it.
///
/// # Errors
/// When the memory's values are impossible.
pub fn run(
    spec: &Spec,
    row_hit_cap: Option<u32>,
    traffic: &Traffic,
    observer: &mut dyn Observer,
) -> Result<Option<Report>, ModelError> {
    let cores = match traffic.pattern {
        Pattern::Attack(a) => a.attackers + 1,
        _ => 1,
    };
    let mut memory = Memory::new(spec, Options { row_hit_cap, cores })?;
    memory.record_commands(observer.wants_commands());
    let mut run = Run {
        memory,
        done: Vec::with_capacity(64),
        report: Report::default(),
        random: Random::new(traffic.seed),
        watched: None,
        observer,
    };
    let finished = match traffic.pattern {
        Pattern::Chase => run.chase(spec, traffic, true),
        Pattern::ChaseStream => run.chase(spec, traffic, false),
        Pattern::Random => run.open_loop(spec, traffic, true),
        Pattern::Stream4 => run.open_loop(spec, traffic, false),
        Pattern::Attack(attack) => run.attack(spec, traffic, attack),
    };
    if finished.is_none() || !run.step(1.0) {
        return Ok(None);
    }
    let mut report = run.report;
    report.total = run.memory.total();
    report.cores = (0..cores).map(|c| run.memory.core(c)).collect();
    report.refreshes = run.memory.refreshes();
    Ok(Some(report))
}

fn lines(spec: &Spec) -> u64 {
    spec.organisation.capacity().min(SPAN) / spec.organisation.line_bytes()
}

impl Run<'_> {
    /// Takes in the answers; they stay in `done` for the caller.
    #[inline]
    fn count(&mut self) {
        for c in &self.done {
            self.report.answered += 1;
            self.report.cycles = c.at;
            if !c.write && self.watched.is_none_or(|w| w == c.core) {
                self.report.latency.add(c.at - c.arrived);
            }
        }
    }

    /// Calls the observer; `false` stops the run.
    fn step(&mut self, share: f64) -> bool {
        if self.observer.wants_commands() {
            self.observer.commands(&self.memory.take_commands());
        }
        self.observer.progress(share)
    }

    /// Calls the observer from time to time; `None` stops the run.
    #[inline]
    fn pace(&mut self, sent: u64, of: u64) -> Option<()> {
        (!sent.is_multiple_of(PIECE) || self.step(sent as f64 / of as f64)).then_some(())
    }

    fn chase(&mut self, spec: &Spec, traffic: &Traffic, random: bool) -> Option<()> {
        let (lines, line) = (lines(spec), spec.organisation.line_bytes());
        let mut now = 0;
        for i in 0..traffic.requests {
            let at = if random { self.random.below(lines) } else { i % lines };
            self.memory.enqueue(now, Request { address: at * line, write: false, core: 0, tag: i });
            self.done.clear();
            now = self.memory.advance_to_completion(u64::MAX, &mut self.done);
            self.count();
            self.pace(i, traffic.requests)?;
        }
        Some(())
    }

    fn open_loop(&mut self, spec: &Spec, traffic: &Traffic, random: bool) -> Option<()> {
        let (lines, line) = (lines(spec), spec.organisation.line_bytes());
        let clock = u128::from(spec.timing.clock.ps());
        let chance =
            fraction(u128::from(traffic.load.0) * clock, u128::from(line) * 1_000_000_000_000);
        let gaps = Gaps::new(chance);
        // Streams start a quarter of the span apart and in the banks that follow, so they share
        // none.
        let stride = lines / 4
            + u64::from(
                spec.organisation.channels
                    * spec.organisation.ranks
                    * spec.organisation.lines_per_row(),
            );
        let mut streams: [u64; 4] = std::array::from_fn(|s| s as u64 * stride);
        let (mut arrival, mut now) = (0, 0);
        for i in 0..traffic.requests {
            arrival += gaps.draw(&mut self.random);
            now = arrival.max(now + 1);
            let at = if random {
                self.random.below(lines)
            } else {
                let stream = &mut streams[(i & 3) as usize];
                *stream += 1;
                *stream % lines
            };
            let write = traffic.writes > 0 && self.random.next() < traffic.writes;
            now = self.send(now, Request { address: at * line, write, core: 0, tag: i });
            // Answers are kept; taking them in groups is faster.
            if i & 15 == 0 {
                self.done.clear();
                self.memory.advance_to(now, &mut self.done);
                self.count();
                self.pace(i, traffic.requests)?;
            }
        }
        self.drain();
        Some(())
    }

    /// Sends a request at `now` or as soon as it is accepted; returns the cycle of its acceptance.
    #[inline]
    fn send(&mut self, mut now: u64, request: Request) -> u64 {
        while !self.memory.enqueue(now, request) {
            now = self
                .memory
                .next_event()
                .expect("a full queue has something under way")
                .max(now + 1);
        }
        now
    }

    fn drain(&mut self) {
        while !self.memory.is_idle() {
            self.done.clear();
            self.memory.advance_to_completion(u64::MAX, &mut self.done);
            self.count();
        }
    }

    fn attack(&mut self, spec: &Spec, traffic: &Traffic, attack: Attack) -> Option<()> {
        self.watched = Some(0);
        let o = &spec.organisation;
        let places = AttackPlaces {
            rows: u64::from(o.rows),
            columns: u64::from(o.lines_per_row()),
            finder: Finder::new(&self.memory, spec),
        };
        // Banks in the order rank by rank, as consecutive rows of an address lie.
        let (ranks, rank_banks) = (u64::from(o.ranks), u64::from(o.rank_banks()));
        let bank_of = |core: u16| {
            let i = if attack.same_bank { 0 } else { u64::from(core) % (ranks * rank_banks) };
            i % ranks * rank_banks + i / ranks
        };
        let mut position = vec![0u64; usize::from(attack.attackers) + 1];
        // Requests that found the queue full, in order.
        let mut refused: VecDeque<Request> = VecDeque::new();
        let next = |core: u16, random: &mut Random, position: &mut [u64]| {
            let (row, column) = if core == 0 || attack.random_rows {
                (random.below(places.rows), random.below(places.columns))
            } else {
                // Rows one after the other, each from end to end.
                let at = position[usize::from(core)];
                position[usize::from(core)] += 1;
                let stride = u64::from(attack.attackers) + 1;
                (
                    (u64::from(core) + at / places.columns * stride) % places.rows,
                    at % places.columns,
                )
            };
            Request {
                address: places.finder.address(bank_of(core), row, column),
                write: false,
                core,
                tag: 0,
            }
        };
        for core in 1..=attack.attackers {
            for _ in 0..attack.outstanding {
                refused.push_back(next(core, &mut self.random, &mut position));
            }
        }
        refused.push_back(next(0, &mut self.random, &mut position));
        let (mut now, mut rounds) = (0, 0u64);
        while self.report.latency.count() < traffic.requests {
            while let Some(&request) = refused.front() {
                if !self.memory.enqueue(now, request) {
                    break;
                }
                refused.pop_front();
            }
            let limit = if refused.is_empty() {
                u64::MAX
            } else {
                self.memory.next_event().unwrap_or(now).max(now + 1)
            };
            self.done.clear();
            now = self.memory.advance_to_completion(limit, &mut self.done);
            self.count();
            for c in &self.done {
                refused.push_back(next(c.core, &mut self.random, &mut position));
            }
            rounds += 1;
            if rounds.is_multiple_of(PIECE) {
                let share = self.report.latency.count() as f64 / traffic.requests as f64;
                self.step(share).then_some(())?;
            }
        }
        Some(())
    }
}

struct AttackPlaces {
    rows: u64,
    columns: u64,
    finder: Finder,
}

/// Addresses of places, found through the map: it is linear over GF(2), so the address of a place
/// is the XOR of the addresses of its bits.
struct Finder {
    bank: Vec<u64>,
    row: Vec<u64>,
    column: Vec<u64>,
}

impl Finder {
    fn new(memory: &Memory, spec: &Spec) -> Self {
        let o = &spec.organisation;
        let bits = (o.capacity() / o.line_bytes()).trailing_zeros();
        let shift = o.line_bytes().trailing_zeros();
        // Gauss-Jordan on the pairs of an address and its place, written as one number.
        let key = |address: u64| {
            let p = memory.place(address);
            u128::from(p.channel) << 96
                | u128::from(p.bank) << 64
                | u128::from(p.row) << 32
                | u128::from(p.column)
        };
        let mut pairs: Vec<(u128, u64)> =
            (0..bits).map(|i| (key(1 << (i + shift)), 1 << (i + shift))).collect();
        for i in 0..pairs.len() {
            let pivot = (i..pairs.len()).max_by_key(|&j| pairs[j].0).unwrap_or(i);
            pairs.swap(i, pivot);
            let (head, address) = pairs[i];
            let top = 127 - head.leading_zeros();
            for (j, pair) in pairs.iter_mut().enumerate() {
                if j != i && pair.0 >> top & 1 == 1 {
                    *pair = (pair.0 ^ head, pair.1 ^ address);
                }
            }
        }
        let of = |low: u32, n: u32| -> Vec<u64> {
            let find =
                |i| pairs.iter().find(|(k, _)| *k == 1u128 << (low + i)).map_or(0, |&(_, a)| a);
            (0..n).map(find).collect()
        };
        Self {
            bank: of(64, o.channel_banks().trailing_zeros()),
            row: of(32, o.rows.trailing_zeros()),
            column: of(0, o.lines_per_row().trailing_zeros()),
        }
    }

    fn address(&self, bank: u64, row: u64, column: u64) -> u64 {
        let part = |bits: &[u64], value: u64| {
            bits.iter()
                .enumerate()
                .filter(|(i, _)| value >> i & 1 == 1)
                .fold(0, |sum, (_, a)| sum ^ a)
        };
        part(&self.bank, bank) ^ part(&self.row, row) ^ part(&self.column, column)
    }
}
