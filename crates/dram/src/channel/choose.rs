//! Choice of the next command: each bank's candidate, and the best of them.

use super::{
    AGE_AND_BANK, AGE_SHIFT, BANKS, Bank, CYCLE_SHIFT, Candidate, Channel, Claim, DIRECTION_TURN,
    FLUSH_AFTER, Mode, NEVER, NO_ROW, Next, RANK_TURN, RANKS, bits, small,
};
use crate::command::CommandKind;
use crate::gaps::CLASSES;

impl Channel {
    /// Chooses the next command.
    #[inline]
    pub(super) fn choose(&mut self) {
        self.stale = false;
        let base = self.bus_from;
        let mut best = u64::MAX;
        let mut banks = self.active;
        while banks != 0 {
            // Two at once, the last perhaps twice: the loop ends less often, which is hard to
            // predict.
            let first = banks.trailing_zeros() as usize;
            banks &= banks - 1;
            let second = if banks == 0 { first } else { banks.trailing_zeros() as usize };
            banks &= banks.wrapping_sub(1);
            best = best.min(self.key(first, base)).min(self.key(second, base));
        }
        if best == u64::MAX {
            self.next_at = NEVER;
        } else {
            self.choose_key(best, base);
            if self.hit_cap != u32::MAX {
                let changed = self.rank_turn >= RANK_TURN && {
                    let here = self.ranks[usize::from(self.last_rank) & (RANKS - 1)].banks;
                    self.change(base, here)
                };
                if !changed && self.direction_turn >= DIRECTION_TURN {
                    let here = if self.last_write { self.writing } else { !self.writing };
                    self.change(base, here);
                }
            }
        }
        if self.reads == 0 && self.mode == Mode::Reads && self.occupied != 0 {
            let at = self.bus_from + FLUSH_AFTER;
            if at < self.next_at {
                (self.next_at, self.next_order, self.next) = (at, 0, Next::Flush);
            }
        }
        if self.refreshing != 0 {
            self.choose_refresh();
        }
        if self.next_due <= self.next_at {
            let rank = (0..self.rank_count).min_by_key(|&r| self.ranks[r].refresh_due).unwrap_or(0);
            self.next_at = self.next_due;
            self.next_order = 0;
            self.next = Next::RefreshDue { rank: u8::try_from(rank).unwrap_or(0) };
        }
    }

    /// One rank, or one direction, has long had the data bus: its column commands, those of the
    /// banks in `here`, must wait for an older one of the others. Is there one?
    #[inline]
    fn change(&mut self, base: u64, here: u64) -> bool {
        let columns = self.active & self.columns;
        if columns & !here == 0 {
            return false;
        }
        self.change_to(base, columns & here, columns & !here);
        true
    }

    /// Chooses without the candidates of `waiting` that are younger than the oldest of `others`.
    #[cold]
    fn change_to(&mut self, base: u64, waiting: u64, others: u64) {
        let order = |b: u32| self.candidates[b as usize].order;
        let oldest = bits(others).map(order).min().unwrap_or(0);
        let younger =
            bits(waiting).filter(|&b| order(b) > oldest).fold(0u64, |mask, b| mask | 1 << b);
        if let Some(key) = bits(self.active & !younger).map(|b| self.key(b as usize, base)).min() {
            self.choose_key(key, base);
        }
    }

    #[inline(always)]
    pub(super) fn key(&self, bank: usize, base: u64) -> u64 {
        let c = &self.candidates[bank & (BANKS - 1)];
        let at = c.from.max(self.class_from[usize::from(c.class) & (CLASSES - 1)]);
        at.saturating_sub(base) << CYCLE_SHIFT | c.order
    }

    #[inline(always)]
    pub(super) fn choose_key(&mut self, key: u64, base: u64) {
        self.next_at = base + (key >> CYCLE_SHIFT);
        self.next_order = key & AGE_AND_BANK;
        self.next = Next::Command { bank: key.to_le_bytes()[0] & 63 };
    }

    /// The bank's requests changed: is its command better than the chosen one?
    #[inline]
    pub(super) fn reconsider(&mut self, bank: u8) {
        self.update(bank);
        if self.stale {
            return;
        }
        match self.next {
            Next::Command { bank: chosen } if chosen != bank => {}
            Next::RefreshDue { .. } => {}
            _ => {
                self.stale = true;
                return;
            }
        }
        if self.active & 1 << bank != 0 {
            let base = self.bus_from;
            let key = self.key(bank.into(), base);
            let chosen = self.next_at.saturating_sub(base) << CYCLE_SHIFT | self.next_order;
            if key < chosen {
                self.choose_key(key, base);
                self.stale = self.rank_turn >= RANK_TURN || self.direction_turn >= DIRECTION_TURN;
            }
        }
    }

    /// Finds the candidate of a bank.
    #[inline]
    pub(super) fn update(&mut self, bank: u8) {
        let b = usize::from(bank) & (BANKS - 1);
        let (claim, rank) = (self.banks[b].claim, self.banks[b].rank);
        let write = match claim {
            Claim::Nobody if self.refreshing & 1 << rank != 0 => {
                self.active &= !(1 << bank);
                return;
            }
            Claim::Nobody => match self.mode {
                Mode::Reads => false,
                Mode::Drain => self.banks[b].writes != 0,
                Mode::Urgent => true,
            },
            Claim::Read => false,
            Claim::Write => true,
        };
        let found = if write { self.write_candidate(b) } else { self.read_candidate(b) };
        if found {
            self.active |= 1 << bank;
        } else {
            self.active &= !(1 << bank);
        }
    }

    #[inline(always)]
    pub(super) fn read_candidate(&mut self, b: usize) -> bool {
        let bank = &self.banks[b];
        if bank.reads.len() == 0 {
            return false;
        }
        let hit = if bank.open_row == NO_ROW { None } else { bank.reads.oldest_of(bank.open_row) };
        let at = match hit {
            Some(at) if at == 0 || bank.passed < self.hit_cap => at,
            _ => 0,
        };
        let hit = bank.open_row == bank.reads.row(at);
        let sequence = self.pool.get(bank.reads.slot(at)).sequence;
        self.set_candidate(b, false, hit, sequence, at);
        true
    }

    pub(super) fn write_candidate(&mut self, b: usize) -> bool {
        let bank = &self.banks[b];
        if bank.writes == 0 {
            return false;
        }
        let (hit, any) = self.writes.oldest(bank.writes, bank.open_row);
        let Some(at) = hit.or(any) else { return false };
        let write = self.writes.get(at);
        if bank.reads.len() > 0 && self.read_pending(bank, write.line) {
            return self.read_candidate(b);
        }
        let sequence = write.sequence;
        self.set_candidate(b, true, hit.is_some(), sequence, at as usize);
        true
    }

    /// Does a read of this line wait? It is older than any waiting write of the line, which would
    /// have answered it otherwise.
    pub(super) fn read_pending(&self, bank: &Bank, line: u64) -> bool {
        bank.reads.slots().iter().any(|&s| self.pool.get(s).line == line)
            || (bank.reads.waiting > 0 && self.pool.waits_for(line))
    }

    #[inline(always)]
    pub(super) fn set_candidate(
        &mut self,
        b: usize,
        write: bool,
        hit: bool,
        sequence: u64,
        at: usize,
    ) {
        let bank = &self.banks[b];
        let classes = &self.gaps.classes;
        let group = usize::from(bank.group);
        let (kind, from, class) = match (hit, write) {
            (true, true) => (CommandKind::Wr, bank.column_from, classes.wr + group),
            (true, false) => (CommandKind::Rd, bank.column_from, classes.rd + group),
            _ if bank.open_row == NO_ROW => (CommandKind::Act, bank.act_from, classes.act + group),
            _ => (CommandKind::Pre, bank.pre_from, classes.pre + usize::from(bank.rank)),
        };
        self.note(b, hit, write);
        self.candidates[b] = Candidate {
            from,
            order: (sequence << AGE_SHIFT) & AGE_AND_BANK | b as u64,
            kind,
            class: class.to_le_bytes()[0],
            at: at.to_le_bytes()[0],
            write,
        };
    }

    /// Keeps the masks of a bank's candidate.
    #[inline(always)]
    fn note(&mut self, b: usize, column: bool, write: bool) {
        let b = b & (BANKS - 1);
        self.columns = self.columns & !(1 << b) | u64::from(column) << b;
        self.writing = self.writing & !(1 << b) | u64::from(write) << b;
    }

    /// After a row command for a request, the request's next command.
    #[inline(always)]
    pub(super) fn follow(&mut self, bank: u8) {
        let b = usize::from(bank) & (BANKS - 1);
        let state = &self.banks[b];
        let classes = &self.gaps.classes;
        let candidate = &mut self.candidates[b];
        let (kind, from, class) = match (state.open_row == NO_ROW, candidate.write) {
            (true, _) => (CommandKind::Act, state.act_from, classes.act),
            (false, true) => (CommandKind::Wr, state.column_from, classes.wr),
            (false, false) => (CommandKind::Rd, state.column_from, classes.rd),
        };
        candidate.kind = kind;
        candidate.from = from;
        candidate.class = (class + usize::from(state.group)).to_le_bytes()[0];
        let (column, write) = (kind != CommandKind::Act, candidate.write);
        self.note(b, column, write);
    }

    pub(super) fn update_all(&mut self, mut banks: u64) {
        while banks != 0 {
            self.update(small(banks.trailing_zeros()));
            banks &= banks - 1;
        }
    }
}
