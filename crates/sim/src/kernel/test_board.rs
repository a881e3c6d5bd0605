//! A board for tests: every access takes the same time and is a DRAM access, every cycle 1 ns,
//! so that schedules can be worked out by hand. A core that waits for an access takes no interrupt;
//! a program that is dispatched elsewhere meanwhile begins there when its data arrive.

use crate::hardware::{Counters, DeviceId, Hardware, Notice, ProgramId, Transfer, Uncore};
use crate::program::{Op, OpKind, Signal};
use std::collections::VecDeque;

pub const NS: u64 = 1000;
pub const US: u64 = 1000 * NS;
pub const MS: u64 = 1000 * US;

#[derive(Clone)]
struct Script {
    ops: Vec<Op>,
    at: usize,
    /// Computation left before the present operation, ps.
    left_ps: Option<u64>,
    counters: Counters,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Doing {
    Nothing,
    Overhead,
    Computing,
    Waiting,
}

#[derive(Clone)]
struct TestCore {
    program: Option<usize>,
    doing: Doing,
    until_ps: u64,
    since_ps: u64,
    /// Time until which overheads last, ps.
    overhead_until_ps: u64,
    pending: Option<(Option<usize>, u64)>,
    /// A program that another core still waits for, and its overhead.
    expected: Option<(usize, u64)>,
    armed: Option<u64>,
    counters: Counters,
}

/// See the module.
#[derive(Clone)]
pub struct TestBoard {
    now_ps: u64,
    latency_ps: u64,
    scripts: Vec<Script>,
    cores: Vec<TestCore>,
    notices: VecDeque<Notice>,
    transfers: Vec<(u64, DeviceId)>,
    /// Every change of a core's program: (time in ns, core, program).
    pub log: Vec<(u64, usize, Option<u32>)>,
    pub logging: bool,
}

impl TestBoard {
    /// A board with `cores` cores, this time for an access, and programs that repeat these
    /// operations.
    pub fn new(cores: usize, latency_ns: u64, programs: &[Vec<Op>]) -> Self {
        let core = TestCore {
            program: None,
            doing: Doing::Nothing,
            until_ps: u64::MAX,
            since_ps: 0,
            overhead_until_ps: 0,
            pending: None,
            expected: None,
            armed: None,
            counters: Counters::default(),
        };
        let script = |ops: &Vec<Op>| Script {
            ops: ops.clone(),
            at: 0,
            left_ps: None,
            counters: Counters::default(),
        };
        Self {
            now_ps: 0,
            latency_ps: latency_ns * NS,
            scripts: programs.iter().map(script).collect(),
            cores: vec![core; cores],
            notices: VecDeque::new(),
            transfers: Vec::new(),
            log: Vec::new(),
            logging: true,
        }
    }

    /// Schedule up to now, in ns: (core, program, start, end), without stretches of length 0.
    pub fn runs(&self) -> Vec<(usize, u32, u64, u64)> {
        let mut open: Vec<Option<(u32, u64)>> = vec![None; self.cores.len()];
        let mut runs: Vec<(usize, u32, u64, u64)> = Vec::new();
        let ends = (0..self.cores.len()).map(|core| (self.now_ps / NS, core, None));
        for (time, core, program) in self.log.iter().copied().chain(ends) {
            if let Some((before, start)) = open[core].take()
                && time > start
            {
                match runs.iter_mut().rev().find(|r| r.0 == core) {
                    Some(last) if last.1 == before && last.3 == start => last.3 = time,
                    _ => runs.push((core, before, start, time)),
                }
            }
            open[core] = program.map(|p| (p, time));
        }
        runs.sort_by_key(|r| (r.0, r.2));
        runs
    }

    fn busy(&mut self, core: usize) {
        let c = &mut self.cores[core];
        let passed = self.now_ps - std::mem::replace(&mut c.since_ps, self.now_ps);
        if let (Some(p), true) =
            (c.program, c.doing == Doing::Computing || c.doing == Doing::Waiting)
        {
            c.counters.busy_ps += passed;
            self.scripts[p].counters.busy_ps += passed;
        }
    }

    /// Takes the program off, in any state.
    fn stop(&mut self, core: usize) {
        self.busy(core);
        let c = &mut self.cores[core];
        if let (Some(p), Doing::Computing) = (c.program, c.doing) {
            self.scripts[p].left_ps = Some(c.until_ps - self.now_ps);
        }
        (c.program, c.doing, c.until_ps) = (None, Doing::Nothing, u64::MAX);
        c.expected = None;
    }

    fn start(&mut self, core: usize, program: Option<usize>, overhead_ps: u64) {
        self.stop(core);
        if self.logging {
            self.log.push((self.now_ps / NS, core, program.map(|p| u32::try_from(p).unwrap())));
        }
        let Some(p) = program else { return };
        if let Some(other) = self.cores.iter().find(|c| c.program == Some(p)) {
            assert!(other.pending.is_some(), "program {p} runs on two cores");
            self.cores[core].expected = Some((p, overhead_ps));
            return;
        }
        let c = &mut self.cores[core];
        c.program = Some(p);
        c.overhead_until_ps = c.overhead_until_ps.max(self.now_ps) + overhead_ps;
        if c.overhead_until_ps > self.now_ps {
            (c.doing, c.until_ps) = (Doing::Overhead, c.overhead_until_ps);
        } else {
            self.next_op(core);
        }
    }

    fn next_op(&mut self, core: usize) {
        self.busy(core);
        let c = &mut self.cores[core];
        let Some(p) = c.program else { return };
        let s = &mut self.scripts[p];
        let op = s.ops[s.at];
        if op.kind() == OpKind::Signal {
            s.at = (s.at + 1) % s.ops.len();
            (c.doing, c.until_ps) = (Doing::Nothing, u64::MAX);
            let program = ProgramId(u32::try_from(p).unwrap());
            self.notices.push_back(Notice::Signal { core, program, signal: op.signal_value() });
            return;
        }
        let left = s.left_ps.take().unwrap_or(op.cycles() * NS);
        (c.doing, c.until_ps) = (Doing::Computing, self.now_ps + left);
    }

    fn computed(&mut self, core: usize) {
        self.busy(core);
        let c = &mut self.cores[core];
        let Some(p) = c.program else { return };
        let s = &mut self.scripts[p];
        let op = s.ops[s.at];
        s.at = (s.at + 1) % s.ops.len();
        for counters in [&mut c.counters, &mut s.counters] {
            counters.compute_cycles += op.cycles();
            if op.kind() != OpKind::Compute {
                counters.accesses += 1;
                let write = matches!(op.kind(), OpKind::Store | OpKind::StoreLine);
                *(if write { &mut counters.dram_writes } else { &mut counters.dram_reads }) += 1;
            }
        }
        if op.kind() == OpKind::Compute {
            return self.next_op(core);
        }
        (c.doing, c.until_ps) = (Doing::Waiting, self.now_ps + self.latency_ps);
        if let Some(left) = &mut c.armed {
            *left -= 1;
            if *left == 0 {
                c.armed = None;
                self.notices.push_back(Notice::Overflow { core });
            }
        }
    }

    fn data(&mut self, core: usize) {
        self.busy(core);
        match self.cores[core].pending.take() {
            Some((program, overhead)) => {
                let left = self.cores[core].program;
                self.cores[core].doing = Doing::Nothing;
                self.start(core, program, overhead);
                let next = self
                    .cores
                    .iter()
                    .position(|c| c.expected.is_some_and(|(p, _)| Some(p) == left));
                if let Some((next, (p, overhead))) =
                    next.and_then(|n| self.cores[n].expected.map(|e| (n, e)))
                {
                    self.start(next, Some(p), overhead);
                }
            }
            None => self.next_op(core),
        }
    }
}

impl Hardware for TestBoard {
    fn cores(&self) -> usize {
        self.cores.len()
    }

    fn now_ps(&self) -> u64 {
        self.now_ps
    }

    fn dispatch(&mut self, core: usize, program: Option<ProgramId>, overhead_ps: u64) {
        let program = program.map(|p| p.0 as usize);
        if self.cores[core].doing == Doing::Waiting {
            let before = self.cores[core].pending.map_or(0, |p| p.1);
            self.cores[core].pending = Some((program, before + overhead_ps));
        } else {
            self.start(core, program, overhead_ps);
        }
    }

    fn running(&self, core: usize) -> Option<ProgramId> {
        let c = &self.cores[core];
        let program = c.pending.map_or(c.program, |(program, _)| program);
        program.map(|p| ProgramId(u32::try_from(p).unwrap()))
    }

    fn abandon_job(&mut self, program: ProgramId) {
        let s = &mut self.scripts[program.0 as usize];
        s.left_ps = None;
        while s.ops[s.at] != Op::signal(Signal::JobEnd) {
            s.at = (s.at + 1) % s.ops.len();
        }
        s.at = (s.at + 1) % s.ops.len();
    }

    fn advance(&mut self, until_ps: u64) -> Option<Notice> {
        assert!(until_ps >= self.now_ps, "time goes back");
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Some(notice);
            }
            if let Some(at) = self.transfers.iter().position(|t| t.0 <= self.now_ps) {
                return Some(Notice::Transferred { device: self.transfers.remove(at).1 });
            }
            let core = (0..self.cores.len()).min_by_key(|&c| self.cores[c].until_ps)?;
            let transfer = self.transfers.iter().map(|t| t.0).min().unwrap_or(u64::MAX);
            let next = self.cores[core].until_ps.min(transfer);
            if next > until_ps {
                self.now_ps = until_ps;
                return None;
            }
            self.now_ps = next;
            if self.cores[core].until_ps > next {
                continue;
            }
            match self.cores[core].doing {
                Doing::Overhead => {
                    self.cores[core].since_ps = self.now_ps;
                    self.next_op(core);
                }
                Doing::Computing => self.computed(core),
                Doing::Waiting => self.data(core),
                Doing::Nothing => return None,
            }
        }
    }

    fn arm(&mut self, core: usize, transactions: Option<u64>) {
        self.cores[core].armed = transactions.filter(|&n| n > 0);
        if transactions == Some(0) {
            self.notices.push_back(Notice::Overflow { core });
        }
    }

    fn core(&self, core: usize) -> Counters {
        self.cores[core].counters
    }

    fn program(&self, program: ProgramId) -> Counters {
        self.scripts[program.0 as usize].counters
    }

    fn uncore(&self) -> Uncore {
        let sum = |f: fn(&Counters) -> u64| self.cores.iter().map(|c| f(&c.counters)).sum::<u64>();
        let reads = sum(|c| c.dram_reads);
        Uncore {
            reads,
            writes: sum(|c| c.dram_writes),
            device: 0,
            read_occupancy_ps: reads * self.latency_ps,
        }
    }

    fn transfer(&mut self, device: DeviceId, order: Transfer) {
        self.transfers.push((self.now_ps + order.lines * self.latency_ps, device));
    }
}

/// Computes for this number of ns, then ends the job.
pub fn job(ns: u64) -> Vec<Op> {
    vec![Op::compute(ns), Op::signal(Signal::JobEnd)]
}

/// Computes for ever.
pub fn endless() -> Vec<Op> {
    vec![Op::compute(1_000_000)]
}

/// A read every `gap_ns` + latency, for ever.
pub fn reads(gap_ns: u64) -> Vec<Op> {
    vec![Op::access(OpKind::LoadWait, gap_ns, 0)]
}
