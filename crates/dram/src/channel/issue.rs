//! Effects of a command: on the bank, the rank's timers, and the request that it served.

use super::{ANSWER, BANKS, Candidate, Channel, Claim, NO_ROW, RANKS};
use crate::command::{Command, CommandKind};
use crate::queue::{Slot, WRITES};
use crate::request::Completion;

impl Channel {
    #[inline]
    pub(super) fn issue(&mut self, bank: u8, at: u64) {
        let candidate = self.candidates[usize::from(bank) & (BANKS - 1)];
        match candidate.kind {
            CommandKind::Act => {
                self.activate(bank, at, candidate);
                self.follow(bank);
            }
            CommandKind::Pre => {
                self.precharge(bank, at);
                self.follow(bank);
            }
            CommandKind::Rd => {
                self.read(bank, at, candidate.at);
                self.update(bank);
            }
            CommandKind::Wr => {
                self.write(bank, at, candidate.at);
                self.update(bank);
            }
            CommandKind::Ref => {}
        }
    }

    pub(super) fn record(&mut self, cycle: u64, kind: CommandKind, bank: u8, row: u32) {
        let b = &self.banks[usize::from(bank)];
        let rank = u32::from(b.rank);
        let in_rank = self.ranks[usize::from(b.rank)].banks.count_ones();
        if let Some(trace) = &mut self.trace {
            let bank = if kind == CommandKind::Ref { 0 } else { u32::from(bank) - rank * in_rank };
            trace.push(Command { cycle, kind, channel: self.index, rank, bank, row });
        }
    }

    #[inline]
    fn activate(&mut self, bank: u8, at: u64, candidate: Candidate) {
        let b = usize::from(bank) & (BANKS - 1);
        let gaps = &self.gaps;
        let state = &mut self.banks[b];
        let (row, claim) = if candidate.write {
            (self.writes.get(candidate.at.into()).row, Claim::Write)
        } else {
            (state.reads.row(candidate.at.into()), Claim::Read)
        };
        state.open_row = row;
        state.claim = claim;
        state.fresh = true;
        state.column_from = at + gaps.rcd;
        state.pre_from = at + gaps.ras;
        state.act_from = at + gaps.ras + gaps.rp;
        self.open |= 1 << bank;
        self.bus_from = at + gaps.command;
        let (rank_number, group) =
            (usize::from(state.rank) & (RANKS - 1), usize::from(state.group));
        let rank = &mut self.ranks[rank_number];
        rank.activates[rank.next_activate & 3] = at + gaps.faw;
        rank.next_activate += 1;
        let window = rank.activates[rank.next_activate & 3];
        let per_rank = gaps.groups / self.rank_count;
        let groups = rank_number * per_rank..(rank_number + 1) * per_rank;
        let from = &mut self.class_from[gaps.classes.act..][groups.clone()];
        for (from, gap) in from.iter_mut().zip(&gaps.after_act[group][groups]) {
            *from = (*from).max(at + gap).max(window);
        }
        if self.trace.is_some() {
            self.record(at, CommandKind::Act, bank, row);
        }
    }

    #[inline]
    pub(super) fn precharge(&mut self, bank: u8, at: u64) {
        let state = &mut self.banks[usize::from(bank) & (BANKS - 1)];
        state.open_row = NO_ROW;
        state.act_from = state.act_from.max(at + self.gaps.rp);
        self.open &= !(1 << bank);
        self.bus_from = at + 1;
        if self.gaps.ppd > 1 {
            let from = &mut self.class_from[self.gaps.classes.pre + usize::from(state.rank)];
            *from = at + self.gaps.ppd;
        }
        if self.trace.is_some() {
            self.record(at, CommandKind::Pre, bank, 0);
        }
    }

    /// The common part of RD and WR.
    #[inline]
    fn column(&mut self, bank: u8, at: u64, write: bool) -> bool {
        let gaps = &self.gaps;
        let state = &mut self.banks[usize::from(bank) & (BANKS - 1)];
        let hit = !state.fresh;
        state.fresh = false;
        state.claim = Claim::Nobody;
        let (gap, to_pre) =
            if write { (&gaps.after_wr, gaps.wr_to_pre) } else { (&gaps.after_rd, gaps.rd_to_pre) };
        state.pre_from = state.pre_from.max(at + to_pre);
        self.bus_from = at + gaps.command;
        self.rank_turn = if state.rank == self.last_rank { self.rank_turn + 1 } else { 1 };
        self.last_rank = state.rank;
        self.direction_turn = if write == self.last_write { self.direction_turn + 1 } else { 1 };
        self.last_write = write;
        let gap = &gap[usize::from(state.group)];
        let from = &mut self.class_from[gaps.classes.rd..gaps.classes.pre];
        for (from, gap) in from.iter_mut().zip(gap) {
            *from = (*from).max(at + gap);
        }
        hit
    }

    #[inline]
    fn read(&mut self, bank: u8, at: u64, position: u8) {
        let hit = self.column(bank, at, false);
        let state = &mut self.banks[usize::from(bank) & (BANKS - 1)];
        let number = state.reads.remove(position.into());
        state.passed = if position > 0 { state.passed + 1 } else { 0 };
        if state.reads.waiting > 0
            && let Some(next) = self.pool.next_of(bank)
        {
            state.reads.waiting -= 1;
            state.reads.push(self.pool.get(next).row, next);
        }
        if state.reads.len() == 0 && state.writes == 0 {
            self.occupied &= !(1 << bank);
        }
        let Slot { tag, arrived, core, row, .. } = self.pool.release(number);
        self.reads -= 1;
        let done = at + self.gaps.rd_data + ANSWER;
        let counters = &mut self.counters[usize::from(core)];
        counters.accesses += 1;
        counters.row_hits += u64::from(hit);
        counters.read_cycles += done - arrived;
        self.answer_at = self.answer_at.min(done);
        self.done_reads.push_back(Completion { at: done, arrived, tag, core, write: false });
        if self.trace.is_some() {
            self.record(at, CommandKind::Rd, bank, row);
        }
        self.change_mode();
    }

    #[inline]
    fn write(&mut self, bank: u8, at: u64, place: u8) {
        let hit = self.column(bank, at, true);
        let Slot { tag, arrived, core, row, .. } = self.writes.remove(place.into());
        let state = &mut self.banks[usize::from(bank) & (BANKS - 1)];
        state.writes &= !(1 << (u32::from(place) & (WRITES as u32 - 1)));
        if state.reads.len() == 0 && state.writes == 0 {
            self.occupied &= !(1 << bank);
        }
        self.drained += 1;
        let counters = &mut self.counters[usize::from(core)];
        counters.accesses += 1;
        counters.row_hits += u64::from(hit);
        let done = at + self.gaps.wr_data + ANSWER;
        self.answer_at = self.answer_at.min(done);
        self.done_writes.push_back(Completion { at: done, arrived, tag, core, write: true });
        if self.trace.is_some() {
            self.record(at, CommandKind::Wr, bank, row);
        }
        self.change_mode();
    }
}
