//! Refreshes: each rank in its turn, while the others continue.

use super::{Channel, Claim, NEVER, Next, bits, small};
use crate::command::CommandKind;

impl Channel {
    /// The refresh of a rank is due: from now on its banks only finish their open rows.
    #[cold]
    pub(super) fn refresh_due(&mut self, rank: u8, until: u64) {
        let r = usize::from(rank);
        let due = self.ranks[r].refresh_due;
        let (refi, rfc, rp) = (self.gaps.refi, self.gaps.rfc, self.gaps.rp);
        // An idle rank refreshes on time repeatedly; only the last one can affect later commands.
        let closed = self.open & self.ranks[r].banks == 0;
        let skip = until.saturating_sub(due) / refi;
        if self.occupied == 0
            && closed
            && self.trace.is_none()
            && skip > 1
            && due > self.bus_from + rp + rfc
        {
            self.refreshes += skip - 1;
            self.ranks[r].refresh_due += (skip - 1) * refi;
        } else {
            self.refreshing |= 1 << rank;
            self.bus_from = self.bus_from.max(due);
            self.ranks[r].refresh_due += refi;
            self.update_all(self.occupied & self.ranks[r].banks);
        }
        self.next_due =
            self.ranks[..self.rank_count].iter().map(|r| r.refresh_due).min().unwrap_or(NEVER);
    }

    /// Closes and refreshes the ranks whose refresh is due; goes before requests in the same cycle.
    #[cold]
    pub(super) fn choose_refresh(&mut self) {
        let mut ranks = self.refreshing;
        while ranks != 0 {
            let rank = ranks.trailing_zeros();
            ranks &= ranks - 1;
            let banks = self.ranks[rank as usize].banks;
            let (mut at, mut next) = (self.bus_from, Next::Refresh { rank: small(rank) });
            if self.open & banks == 0 {
                at = bits(banks).map(|b| self.banks[b as usize].act_from).fold(at, u64::max);
            } else {
                let unused = |b: &u32| self.banks[*b as usize].claim == Claim::Nobody;
                let first = bits(self.open & banks)
                    .filter(unused)
                    .min_by_key(|&b| self.banks[b as usize].pre_from);
                // A claimed row gets its column command first.
                let Some(bank) = first else { continue };
                let class = self.gaps.classes.pre + rank as usize;
                at = at.max(self.banks[bank as usize].pre_from).max(self.class_from[class]);
                next = Next::Close { bank: small(bank) };
            }
            if at <= self.next_at {
                (self.next_at, self.next_order, self.next) = (at, 0, next);
            }
        }
    }

    #[cold]
    pub(super) fn refresh(&mut self, rank: u8, at: u64) {
        self.refreshing &= !(1 << rank);
        self.refreshes += 1;
        self.bus_from = at + 1;
        let banks = self.ranks[usize::from(rank)].banks;
        for b in bits(banks) {
            let bank = &mut self.banks[b as usize];
            bank.act_from = bank.act_from.max(at + self.gaps.rfc);
        }
        if self.trace.is_some() {
            self.record(at, CommandKind::Ref, small(banks.trailing_zeros()), 0);
        }
        self.update_all(self.occupied & banks);
    }
}
