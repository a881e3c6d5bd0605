//! One channel: FR-FCFS over the banks' queues, open page, write drain, staggered refresh; in clock
//! cycles.
//!
//! Rule: of all commands that bring a waiting request forward, the one that may go first goes.
//! Among several that may go in the same cycle, the oldest request's goes. Within a bank, requests
//! to the open row go before others, at most `row_hit_cap` of them past an older one; the row then
//! closes for the oldest. Reads go before writes; writes are drained from `DRAIN_FROM` down to
//! `DRAIN_TO`, and while no read waits; meanwhile banks without writes serve reads, so that banks
//! stay in parallel. A row opened for a request is not closed before the request's column command,
//! except that of a write at the end of a drain. With a cap, ranks and directions take turns on the
//! data bus as well, and a drain ends after `DRAIN_MOST` writes for waiting reads. When the refresh
//! of a rank is due, its banks finish their open rows, close, and refresh; the other ranks
//! continue. A write behind a pending read of the same line waits for it: in that bank, reads go
//! first.
//!
//! A chosen command stays until it goes or the state changes, so cycles without a command cost
//! nothing. The first-ready rule is that of Rixner et al. (ISCA 2000), the cap that of Mutlu and
//! Moscibroda (MICRO 2007). Not covered: closed-page policies, power-down, same-bank and per-bank
//! refresh, postponed refreshes.

mod arrive;
mod choose;
mod issue;
mod refresh;

use crate::command::{Command, CommandKind};
use crate::gaps::{CLASSES, Gaps};
use crate::queue::{BankQueue, ReadPool, WRITES, WriteQueue};
use crate::request::{Completion, Counters};
use crate::spec::{MAX_BANKS, Spec};
use std::collections::VecDeque;

/// The write queue is drained from this many writes down to `DRAIN_TO`,
const DRAIN_FROM: u32 = 40;
const DRAIN_TO: u32 = 8;
/// while no read waits from this many down to `IDLE_TO`,
const IDLE_FROM: u32 = 9;
const IDLE_TO: u32 = 4;
/// and from this many down to `URGENT_TO` nothing else is served.
const URGENT_FROM: u32 = 56;
const URGENT_TO: u32 = 20;
/// With a row-hit cap: writes of one drain after which waiting reads are served first. A queue that
/// is filled as fast as it drains would otherwise keep them out for ever.
const DRAIN_MOST: u32 = 32;
/// With a row-hit cap: column commands of one rank, without a break, after which younger ones wait
/// for an older one of another rank. Otherwise the data bus would stay in a busy rank for ever, as
/// a change costs a gap.
const RANK_TURN: u32 = 16;
/// The same for reads and writes: while other banks are read, a write that is due may otherwise
/// never go, nor the requests behind it.
const DIRECTION_TURN: u32 = 16;
/// Cycles without arrival or command after which the writes left are drained while no read waits.
const FLUSH_AFTER: u64 = 200;
/// Cycles from the end of the data to the answer: the controller's way out. The way in takes one as
/// well, because a request that arrives in a cycle is seen in the next.
const ANSWER: u64 = 1;

/// Sizes of the controller's queues, and the length of drains while reads wait: for bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Places of the write queue.
    pub writes: u32,
    /// With a row-hit cap, writes of one drain after which waiting reads are served.
    pub drain_most: u32,
    /// Reads in the queue of each bank.
    pub bank_reads: u32,
    /// Reads that wait behind those of all banks.
    pub reads: u32,
}

impl Limits {
    /// Limits of the modelled controller.
    pub const MODELLED: Self = Self {
        writes: WRITES as u32,
        drain_most: DRAIN_MOST,
        bank_reads: crate::queue::BANK_QUEUE as u32,
        reads: crate::queue::TRANSACTIONS as u32,
    };
}

const NEVER: u64 = u64::MAX;
const NO_ROW: u32 = u32::MAX;
const BANKS: usize = MAX_BANKS as usize;
const RANKS: usize = 8;

/// Request for which a row was opened that has not been used yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Claim {
    #[default]
    Nobody,
    Read,
    Write,
}

#[derive(Clone, Copy, Debug)]
struct Bank {
    open_row: u32,
    /// Younger row hits since the oldest read came to the front.
    passed: u32,
    claim: Claim,
    /// Has there been no column command since the activate?
    fresh: bool,
    rank: u8,
    group: u8,
    act_from: u64,
    pre_from: u64,
    column_from: u64,
    reads: BankQueue,
    /// Places in the write queue.
    writes: u64,
}

/// The command that brings a bank's requests forward.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// First cycle by the rules within the bank.
    from: u64,
    /// Age of the request and bank; the lowest goes first.
    order: u64,
    kind: CommandKind,
    class: u8,
    /// Position in the bank's queue, or place in the write queue.
    at: u8,
    write: bool,
}

/// A key orders candidates: cycles until it may go (20 bits), age (38 bits), bank (6 bits).
const CYCLE_SHIFT: u32 = 44;
const AGE_SHIFT: u32 = 6;
const AGE_AND_BANK: u64 = (1 << CYCLE_SHIFT) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Reads are served; writes wait.
    Reads,
    /// Banks that have writes serve them, the others reads.
    Drain,
    /// Writes alone are served; reads wait.
    Urgent,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Command { bank: u8 },
    RefreshDue { rank: u8 },
    Close { bank: u8 },
    Refresh { rank: u8 },
    Flush,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    refresh_due: u64,
    /// Its banks.
    banks: u64,
    /// The last four activates.
    activates: [u64; 4],
    next_activate: usize,
}

/// A channel.
#[derive(Debug)]
pub(crate) struct Channel {
    gaps: Gaps,
    banks: [Bank; BANKS],
    candidates: [Candidate; BANKS],
    class_from: [u64; CLASSES],
    ranks: [Rank; RANKS],
    rank_count: usize,
    /// Banks with a candidate.
    active: u64,
    /// Banks with a RD or WR as candidate, and banks whose candidate serves a write.
    columns: u64,
    writing: u64,
    /// Banks with a request.
    occupied: u64,
    /// Banks with an open row.
    open: u64,
    /// Ranks whose refresh is due.
    refreshing: u32,
    next_due: u64,
    mode: Mode,
    reads: u32,
    /// A drain ends at this many writes.
    drain_to: u32,
    /// Writes of this drain.
    drained: u32,
    /// Reads with sequence numbers below this go before the next drain, as the last one was cut
    /// short for them.
    owed: u64,
    pool: ReadPool,
    writes: WriteQueue,
    sequence: u64,
    hit_cap: u32,
    /// First free cycle of the command bus.
    bus_from: u64,
    next: Next,
    next_at: u64,
    next_order: u64,
    /// Must `next` be chosen again?
    stale: bool,
    done_reads: VecDeque<Completion>,
    done_writes: VecDeque<Completion>,
    /// Requests answered without DRAM: forwarded reads and merged writes.
    done_short: VecDeque<Completion>,
    /// Rank of the last column command, and the length of its sequence without a break.
    last_rank: u8,
    /// The same for writes and reads.
    direction_turn: u32,
    last_write: bool,
    rank_turn: u32,
    /// The earliest answer in the three queues.
    answer_at: u64,
    index: u32,
    trace: Option<Vec<Command>>,
    pub counters: Vec<Counters>,
    pub refreshes: u64,
}

impl Channel {
    pub fn new(spec: &Spec, index: u32, hit_cap: Option<u32>, cores: usize) -> Self {
        let o = &spec.organisation;
        let gaps = Gaps::new(spec);
        let bank = |i: usize| {
            let i = u32::try_from(i).unwrap_or(0).min(o.channel_banks() - 1);
            Bank {
                open_row: NO_ROW,
                passed: 0,
                claim: Claim::Nobody,
                fresh: false,
                rank: small(i / o.rank_banks()),
                group: small(i / o.banks),
                act_from: 0,
                pre_from: 0,
                column_from: 0,
                reads: BankQueue::default(),
                writes: 0,
            }
        };
        let rank_banks = u64::MAX >> (64 - o.rank_banks());
        let stagger = gaps.refi / u64::from(o.ranks);
        let rank = |r: usize| Rank {
            refresh_due: if r < o.ranks as usize { (r as u64 + 1) * stagger } else { NEVER },
            banks: if r < o.ranks as usize {
                rank_banks << (r * o.rank_banks() as usize)
            } else {
                0
            },
            activates: [0; 4],
            next_activate: 0,
        };
        let idle =
            Candidate { from: 0, order: 0, kind: CommandKind::Pre, class: 0, at: 0, write: false };
        Self {
            banks: std::array::from_fn(bank),
            candidates: [idle; BANKS],
            class_from: [0; CLASSES],
            ranks: std::array::from_fn(rank),
            rank_count: o.ranks as usize,
            active: 0,
            columns: 0,
            writing: 0,
            occupied: 0,
            open: 0,
            refreshing: 0,
            next_due: stagger,
            mode: Mode::Reads,
            reads: 0,
            drain_to: 0,
            drained: 0,
            owed: 0,
            pool: ReadPool::new(o.channel_banks() as usize),
            writes: WriteQueue::new(),
            sequence: 0,
            hit_cap: hit_cap.unwrap_or(u32::MAX),
            bus_from: 0,
            next: Next::RefreshDue { rank: 0 },
            next_at: stagger,
            next_order: 0,
            stale: true,
            done_reads: VecDeque::with_capacity(256),
            done_writes: VecDeque::with_capacity(256),
            done_short: VecDeque::with_capacity(256),
            last_rank: 0,
            direction_turn: 0,
            last_write: false,
            rank_turn: 0,
            answer_at: NEVER,
            index,
            trace: None,
            counters: vec![Counters::default(); cores],
            refreshes: 0,
            gaps,
        }
    }

    pub fn set_trace(&mut self, on: bool) {
        self.trace = on.then(Vec::new);
    }

    pub fn take_trace(&mut self) -> Vec<Command> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The cycle of the next command or answer; `None` if nothing is under way.
    #[inline]
    pub fn next_event(&mut self) -> Option<u64> {
        let answer = self.next_answer();
        if self.occupied == 0 {
            return (answer != NEVER).then_some(answer);
        }
        Some(self.next_command().min(answer))
    }

    /// A cycle before which no answer comes, for any commands until then; `None` if nothing is
    /// under way.
    #[inline]
    pub fn no_answer_before(&mut self) -> Option<u64> {
        let answer = self.next_answer();
        if self.occupied == 0 {
            return (answer != NEVER).then_some(answer);
        }
        let data = self.gaps.rd_data.min(self.gaps.wr_data);
        Some((self.next_command() + data + ANSWER).min(answer))
    }

    /// The cycle of the next command, refresh or decision.
    #[inline]
    pub fn next_command(&mut self) -> u64 {
        if self.stale {
            self.choose();
        }
        self.next_at
    }

    /// The cycle of the earliest answer that is settled.
    #[inline]
    pub fn next_answer(&self) -> u64 {
        self.answer_at
    }

    pub fn is_idle(&self) -> bool {
        self.occupied == 0
    }

    /// Issues every command up to and including cycle `until`.
    #[inline]
    pub fn run(&mut self, until: u64) {
        while self.next_command() <= until {
            self.step(until);
        }
    }

    /// As `run`, but stops with the commands that are due before an answer; returns the cycle at
    /// which it stopped.
    #[inline]
    pub fn run_to_answer(&mut self, limit: u64) -> u64 {
        loop {
            let answer = self.next_answer();
            if answer <= limit.min(self.next_command()) {
                return answer;
            }
            if self.next_at > limit {
                return limit;
            }
            self.step(limit);
        }
    }

    /// Moves the answers up to `until` to `out`, earliest first.
    #[inline]
    pub fn answers(&mut self, until: u64, out: &mut Vec<Completion>) {
        while self.answer_at <= until {
            let at = self.answer_at;
            self.answer_at = NEVER;
            for queue in [&mut self.done_reads, &mut self.done_short, &mut self.done_writes] {
                while let Some(first) = queue.front() {
                    if first.at > at {
                        self.answer_at = self.answer_at.min(first.at);
                        break;
                    }
                    out.extend(queue.pop_front());
                }
            }
        }
    }

    /// Carries out the chosen command.
    #[inline]
    fn step(&mut self, until: u64) {
        self.stale = true;
        let at = self.next_at;
        // Nearly always the case; first, as a jump over all five is harder to predict.
        if let Next::Command { bank } = self.next {
            return self.issue(bank, at);
        }
        match self.next {
            Next::Command { .. } => {}
            Next::RefreshDue { rank } => self.refresh_due(rank, until),
            Next::Close { bank } => {
                self.precharge(bank, at);
                self.update(bank);
            }
            Next::Refresh { rank } => self.refresh(rank, at),
            Next::Flush => self.flush(at),
        }
    }

    /// Changes between reads and writes. Returns whether the mode changed.
    #[inline]
    fn change_mode(&mut self) -> bool {
        let writes = self.writes.len();
        if writes == 0 && self.mode == Mode::Reads {
            return false;
        }
        let mode = match self.mode {
            _ if writes == 0 => Mode::Reads,
            Mode::Reads if self.owed > 0 && self.owes() => Mode::Reads,
            Mode::Drain | Mode::Urgent
                if self.drained >= DRAIN_MOST && self.reads > 0 && self.hit_cap != u32::MAX =>
            {
                self.owed = self.sequence + 1;
                Mode::Reads
            }
            Mode::Urgent if writes > URGENT_TO => Mode::Urgent,
            _ if writes >= URGENT_FROM => Mode::Urgent,
            Mode::Drain | Mode::Urgent if writes > self.drain_to || self.reads == 0 => Mode::Drain,
            _ if writes >= DRAIN_FROM || (self.reads == 0 && writes >= IDLE_FROM) => Mode::Drain,
            _ => Mode::Reads,
        };
        let changed = mode != self.mode;
        if changed {
            if self.mode == Mode::Reads {
                (self.drained, self.owed) = (0, 0);
                self.drain_to = if writes >= DRAIN_FROM { DRAIN_TO } else { IDLE_TO };
            }
            self.set_mode(mode);
        }
        changed
    }

    /// Does a read wait for which the last drain was cut short?
    #[cold]
    fn owes(&self) -> bool {
        bits(self.occupied).any(|b| {
            let reads = &self.banks[b as usize].reads;
            reads.len() > 0 && self.pool.get(reads.slot(0)).sequence < self.owed
        })
    }

    #[cold]
    fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        if mode == Mode::Reads {
            // A row opened for a write would block its bank's reads: while other banks are read,
            // the write may never go.
            for bank in bits(self.open) {
                let bank = &mut self.banks[bank as usize];
                bank.claim = if bank.claim == Claim::Write { Claim::Nobody } else { bank.claim };
            }
        }
        self.stale = true;
        self.update_all(self.occupied);
    }

    /// No command goes and writes wait: they go, until a read comes.
    #[cold]
    fn flush(&mut self, at: u64) {
        self.bus_from = self.bus_from.max(at);
        self.drain_to = u32::MAX;
        (self.drained, self.owed) = (0, 0);
        self.set_mode(Mode::Drain);
    }
}

/// The set bits, lowest first.
fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros());
        mask &= mask.wrapping_sub(1);
        bit
    })
}

/// Bank, rank and bank group numbers are below 64.
#[inline]
fn small(value: u32) -> u8 {
    value.to_le_bytes()[0]
}
