//! DRAM with channels and banks, open rows, and first-ready first-come first-served banks.
//!
//! Rule: a request waits for its bank; the bank takes row hits first, but at most `hit_cap` of them in
//! a row ahead of an older request; then the line crosses the channel's data bus in the first gap.
//! Times from the platform: hit `t_cl`, closed row `t_rcd + t_cl`, other row `t_rp + t_rcd + t_cl`
//! (not before `t_ras` after its activation), then `t_burst`; `overhead` before the bank.
//! Invariant: a request that meets no other core's takes at most `latency_max`.
//! Not covered: refresh, write recovery and turnaround, rank switches, tFAW and tRRD.

use crate::memory::{MemoryModel, Request};
use solocore_model::Platform;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

#[derive(Clone, Debug, Default)]
struct Bank {
    /// Requests with their rows, oldest first.
    queue: VecDeque<(u64, Request)>,
    open_row: Option<u64>,
    activated_ps: u64,
    free_ps: u64,
    hits_in_a_row: u32,
    busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request reached bank `.0` (index into the waiting list is the bank's queue).
    Arrive(u32),
    /// The request of core `.1` left bank `.0`.
    Done(u32, u32),
}

/// The banks and buses of a platform.
#[derive(Debug)]
pub struct Dram {
    banks: Vec<Bank>,
    /// Busy stretches of each channel's bus, in order.
    buses: Vec<VecDeque<(u64, u64)>>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    arriving: Vec<VecDeque<(u64, Request)>>,
    channels: u32,
    lines_per_page: u64,
    pages_per_row: u64,
    t_cl: u64,
    t_rcd: u64,
    t_rp: u64,
    t_ras: u64,
    t_burst: u64,
    overhead: u64,
    hit_cap: u32,
}

impl Dram {
    /// Row hits that may pass an older request when banks are shared.
    pub const HIT_CAP: u32 = 4;

    /// An idle memory with closed rows.
    pub fn new(p: &Platform, hit_cap: u32) -> Self {
        let banks = p.total_banks() as usize;
        Self {
            banks: vec![Bank::default(); banks],
            buses: vec![VecDeque::new(); p.dram.channels as usize],
            events: BinaryHeap::new(),
            sequence: 0,
            arriving: vec![VecDeque::new(); banks],
            channels: p.dram.channels,
            lines_per_page: u64::from(p.lines_per_page()),
            pages_per_row: (p.dram.row.0 / p.page.0).max(1),
            t_cl: p.dram.t_cl.ps(),
            t_rcd: p.dram.t_rcd.ps(),
            t_rp: p.dram.t_rp.ps(),
            t_ras: p.dram.t_ras.ps(),
            t_burst: p.dram.t_burst.ps(),
            overhead: p.dram.overhead.ps(),
            hit_cap,
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    /// Pages go round the banks, so a page lies in one row of one bank.
    fn bank_and_row(&self, line: u64) -> (u32, u64) {
        let frame = line / self.lines_per_page;
        let banks = self.banks.len() as u64;
        let bank = u32::try_from(frame % banks).expect("banks fit");
        (bank, frame / banks / self.pages_per_row)
    }

    /// The bank takes its next request, if it is free and has one.
    fn start(&mut self, bank_index: u32, now: u64) {
        let bank = &mut self.banks[bank_index as usize];
        if bank.busy || bank.queue.is_empty() {
            return;
        }
        let hit = bank.queue.iter().position(|&(row, _)| Some(row) == bank.open_row);
        let pick = match hit {
            Some(at) if at == 0 || bank.hits_in_a_row < self.hit_cap => at,
            _ => 0,
        };
        bank.hits_in_a_row = if pick > 0 { bank.hits_in_a_row + 1 } else { 0 };
        let Some((row, request)) = bank.queue.remove(pick) else { return };
        let start = now.max(bank.free_ps);
        let ready = match bank.open_row {
            Some(open) if open == row => start + self.t_cl,
            open => {
                let closed = if open.is_some() { start.max(bank.activated_ps + self.t_ras) + self.t_rp } else { start };
                bank.activated_ps = closed;
                bank.open_row = Some(row);
                closed + self.t_rcd + self.t_cl
            }
        };
        bank.busy = true;
        let done = self.reserve_bus(bank_index % self.channels, ready, now);
        self.banks[bank_index as usize].free_ps = done;
        self.at(done, Event::Done(bank_index, request.core));
    }

    /// First gap on the bus at or after `ready`; returns the end of the transfer.
    fn reserve_bus(&mut self, channel: u32, ready: u64, now: u64) -> u64 {
        let length = self.t_burst;
        let bus = &mut self.buses[channel as usize];
        while bus.front().is_some_and(|&(_, end)| end <= now) {
            bus.pop_front();
        }
        let mut start = ready;
        let mut at = 0;
        for (i, &(from, to)) in bus.iter().enumerate() {
            if start + length <= from {
                break;
            }
            start = start.max(to);
            at = i + 1;
        }
        bus.insert(at, (start, start + length));
        start + length
    }
}

impl MemoryModel for Dram {
    fn submit(&mut self, now_ps: u64, request: Request) {
        let (bank, row) = self.bank_and_row(request.line);
        self.arriving[bank as usize].push_back((row, request));
        self.at(now_ps + self.overhead, Event::Arrive(bank));
    }

    fn next_event(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((time, _, _))| *time)
    }

    fn advance(&mut self, now_ps: u64, done: &mut Vec<u32>) {
        while let Some(&Reverse((time, _, event))) = self.events.peek() {
            if time > now_ps {
                break;
            }
            self.events.pop();
            match event {
                Event::Arrive(bank) => {
                    if let Some(entry) = self.arriving[bank as usize].pop_front() {
                        self.banks[bank as usize].queue.push_back(entry);
                    }
                    self.start(bank, time);
                }
                Event::Done(bank, core) => {
                    self.banks[bank as usize].busy = false;
                    done.push(core);
                    self.start(bank, time);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Service times of requests that arrive one after the other.
    fn chase(dram: &mut Dram, lines: &[u64]) -> Vec<u64> {
        let (mut now, mut out) = (0, Vec::new());
        for &line in lines {
            dram.submit(now, Request { core: 0, line, write: false });
            let start = now;
            let mut done = Vec::new();
            while done.is_empty() {
                now = dram.next_event().expect("a request is under way");
                dram.advance(now, &mut done);
            }
            out.push(now - start);
        }
        out
    }

    #[test]
    fn one_core_never_waits_longer_than_l_max() {
        for (name, _) in solocore_model::platform::PRESETS {
            let p = Platform::find(name, Path::new(".")).unwrap();
            let mut dram = Dram::new(&p, Dram::HIT_CAP);
            let lines: Vec<u64> = (0..5000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect();
            let worst = chase(&mut dram, &lines).into_iter().max().unwrap();
            assert!(worst <= p.dram.latency_max.ps(), "{name}: {worst}");
        }
    }

    #[test]
    fn rows_hit_and_conflict() {
        let p = Platform::find("p4080", Path::new(".")).unwrap();
        let (banks, per_page) = (u64::from(p.total_banks()), u64::from(p.lines_per_page()));
        let other_row = banks * per_page * 2;
        let times = chase(&mut Dram::new(&p, Dram::HIT_CAP), &[0, 1, other_row]);
        let d = &p.dram;
        let hit = d.overhead.ps() + d.t_cl.ps() + d.t_burst.ps();
        assert_eq!(times[0], hit + d.t_rcd.ps());
        assert_eq!(times[1], hit);
        assert_eq!(times[2], p.row_conflict().ps());
    }

    /// One outstanding request a core in one bank: nobody waits for more than one of each other core.
    #[test]
    fn same_bank_waits_at_most_m_times_l() {
        let p = Platform::find("p4080", Path::new(".")).unwrap();
        let stride = u64::from(p.total_banks()) * u64::from(p.lines_per_page()) * 2;
        let mut dram = Dram::new(&p, 0);
        let mut since = [0u64; 8];
        let mut next = 0u64;
        for core in 0..8 {
            dram.submit(0, Request { core, line: stride * u64::from(core), write: false });
        }
        let mut worst = 0;
        for _ in 0..4000 {
            let now = dram.next_event().unwrap();
            let mut done = Vec::new();
            dram.advance(now, &mut done);
            for core in done {
                worst = worst.max(now - since[core as usize]);
                since[core as usize] = now;
                next += 17;
                dram.submit(now, Request { core, line: stride * (next % 97), write: false });
            }
        }
        assert!(worst <= 8 * p.dram.latency_max.ps() && worst > 4 * p.dram.latency_max.ps(), "{worst}");
    }
}
