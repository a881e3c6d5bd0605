//! The memory and its controller as the bounds see them: timings in clock cycles, and the terms for
//! one request that follow from them.

use serde::{Deserialize, Serialize};

/// Timings and organisation of one channel, in clock cycles (JEDEC's names).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are those of the standards, and of crates/dram")]
pub struct Dram {
    /// Clock period, in picoseconds.
    pub clock_ps: u64,
    /// Ranks of the channel.
    pub ranks: u64,
    /// Bank groups of a rank.
    pub groups: u64,
    /// Banks of a rank, over its groups.
    pub banks: u64,
    /// Cycles of a burst on the data bus, BL/2.
    pub burst: u64,
    /// Cycles of ACT, RD and WR on the command bus.
    pub command: u64,
    pub cl: u64,
    pub cwl: u64,
    pub rcd: u64,
    pub rp: u64,
    pub ras: u64,
    pub rfc: u64,
    pub refi: u64,
    pub rrd_s: u64,
    pub rrd_l: u64,
    pub wtr_s: u64,
    pub wtr_l: u64,
    pub faw: u64,
    pub wr: u64,
    pub rtp: u64,
    pub ccd_s: u64,
    pub ccd_l: u64,
    /// Write to write within a bank group, where it differs; 0: it does not.
    pub ccd_l_write: u64,
    /// Precharge to precharge of a rank; 0: no rule.
    pub ppd: u64,
    /// Idle cycles of the data bus when its driver changes.
    pub rtrs: u64,
}

/// Settings of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Younger row hits that may pass the oldest read of their bank; `None`: any number.
    pub hit_cap: Option<u64>,
    /// Column commands of a rank in a row after which it waits for older ones of another.
    pub rank_turn: u64,
    /// Cycles from the arrival until the request is seen.
    pub way_in: u64,
    /// Cycles from the end of its data to the answer.
    pub way_out: u64,
}

/// The controller of crates/dram as it is by default.
impl Default for Controller {
    fn default() -> Self {
        Self { hit_cap: Some(4), rank_turn: 16, way_in: 1, way_out: 1 }
    }
}

/// Reads of other cores that are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// Reads outstanding in the channel besides the one under analysis: the sum over the other
    /// cores of their outstanding reads, and the other ones of its own core.
    pub others: u64,
    /// Largest number of these for the same bank; 0 with private banks and one outstanding read.
    pub same_bank: u64,
}

/// Nothing in a DRAM takes this number of cycles; larger values would only overflow.
pub(super) const LIMIT: u64 = 1 << 40;
/// Steps of a recurrence, after which there is no bound.
pub(super) const MAX_STEPS: u32 = 1 << 16;

/// The distances that the bounds are made of, in cycles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// First delay of a PRE, ACT and RD that would be ready, by earlier commands.
    pub first: [u128; 3],
    /// Delay by an older request, over its three commands.
    pub older: u128,
    /// Delay of a RD of the open row by an older request of another bank.
    pub older_of_hit: u128,
    /// Time from a read of a bank until its row may close.
    pub read_to_pre: u128,
    /// Time of a refresh of the own rank, from the instant at which it is due.
    pub block: u128,
    /// Refreshes of the other ranks, once each.
    pub elsewhere: u128,
}

impl Dram {
    pub(crate) fn is_possible(&self) -> bool {
        let all = [
            self.clock_ps,
            self.ranks,
            self.groups,
            self.banks,
            self.burst,
            self.command,
            self.cl,
            self.cwl,
            self.rcd,
            self.rp,
            self.ras,
            self.rfc,
            self.refi,
            self.rrd_s,
            self.rrd_l,
            self.wtr_s,
            self.wtr_l,
            self.faw,
            self.wr,
            self.rtp,
            self.ccd_s,
            self.ccd_l,
        ];
        all.iter().all(|&v| v > 0 && v < LIMIT)
            && [self.ccd_l_write, self.ppd, self.rtrs].iter().all(|&v| v < LIMIT)
            && self.ras >= self.rcd
            && self.cl >= self.cwl
            && self.ccd_l >= self.ccd_s
            && self.rrd_l >= self.rrd_s
    }

    /// Cycles to picoseconds; `None` if they do not fit.
    #[must_use]
    pub fn to_ps(&self, cycles: u64) -> Option<u64> {
        cycles.checked_mul(self.clock_ps)
    }

    /// From a read until the row may close; the row was open `rcd` before the read.
    pub(crate) fn read_to_pre(&self) -> u64 {
        self.rtp.max(self.ras - self.rcd)
    }

    pub(crate) fn write_to_pre(&self) -> u64 {
        self.cwl + self.burst + self.wr
    }

    pub(super) fn sw(&self) -> u64 {
        self.burst + self.rtrs
    }

    /// The longest gap that one column command forces on another.
    pub(crate) fn column_gap(&self) -> u64 {
        let write_to_read = self.cwl + self.burst + self.wtr_l.max(self.wtr_s);
        let read_to_write = (self.cl + self.sw()).saturating_sub(self.cwl);
        write_to_read.max(read_to_write).max(self.ccd_l).max(self.ccd_l_write).max(self.sw())
    }

    /// First delay and delay per older command, for gaps `s` and `l` and a longest gap `h` that
    /// holds for all bank groups.
    pub(super) fn between_banks(&self, s: u64, l: u64, h: u64) -> (u64, u64) {
        // A younger command in another bank group may take the bus just before, for as long as it
        // lasts.
        let sneak = self.command - 1;
        if self.groups > 1 && l > s {
            (l + h - 2 + 2 * sneak, l - 1 + h + 2 * sneak)
        } else {
            (l.max(h) - 1 + sneak, l.max(h) + sneak)
        }
    }

    pub(super) fn activate(&self) -> (u64, u64) {
        let s = if self.groups > 1 { self.rrd_s } else { self.rrd_l };
        self.between_banks(s, self.rrd_l, s.max(self.faw.saturating_sub(3 * s)))
    }

    /// After a column command in the own rank, none of another rank can go before the next of the
    /// own rank.
    fn one_turn(&self) -> bool {
        self.ranks == 2 && self.ccd_l.max(self.burst) + self.command - 1 < self.sw()
    }

    /// As `activate`, for RD: `None` if ranks have no turns, and another rank could keep the bus.
    fn column(&self, controller: &Controller, others: u64) -> Option<(u64, u64)> {
        let (s, l) = (self.ccd_s.max(self.burst), self.ccd_l.max(self.burst));
        let s = if self.groups > 1 { s } else { l };
        let (first, older) = self.between_banks(s, l, s);
        if self.ranks == 1 || others == 0 {
            return Some((first, older));
        }
        controller.hit_cap?;
        let (sw, sneak) = (self.sw(), self.command - 1);
        // A turn: each of its commands goes a cycle before this one could, and moves it by another
        // change of rank.
        let step = sw - 1 + sneak;
        // A read that passes can pass again only after its answer. If all of them pass in less time
        // than that takes, each passes once.
        let back = (self.cl + self.burst)
            .checked_add(controller.way_out)?
            .checked_add(controller.way_in)?;
        let once = others.checked_mul(step)? < back;
        let turn = if once { controller.rank_turn.min(others) } else { controller.rank_turn }
            .checked_mul(step)?;
        let (first, older) = (first.max(sw - 1 + sneak), older.max(sw + sneak));
        if self.one_turn() {
            return Some((first.checked_add(turn)?, older));
        }
        let per_older = if self.ranks == 2 && l <= sw { turn.div_ceil(2) } else { turn };
        Some((
            first.checked_add(l)?.checked_add(turn)?,
            older.checked_add(l)?.checked_add(per_older)?,
        ))
    }

    pub(super) fn terms(&self, controller: &Controller, others: u64) -> Option<Terms> {
        let sneak = self.command - 1;
        let pre = self.ppd.max(1) + sneak;
        let (activate_first, activate) = self.activate();
        let (column_first, column) = self.column(controller, others)?;
        let wide = |v: u64| u128::from(v);
        let older = wide(pre) + wide(activate.max(self.command)) + wide(column.max(self.command));
        // Claimed rows of the rank are used first, each by another request; those of other ranks go
        // on.
        let claimed = wide(self.banks.min(others));
        let foreign = if self.ranks > 1 { wide(others).checked_mul(older)? } else { 0 };
        let close = wide(self.banks).checked_mul(wide(pre))?;
        let used = match others {
            0 => 0,
            _ if self.one_turn() => {
                wide(self.rcd) + wide(column_first) + claimed.checked_mul(wide(column))?
            }
            _ => wide(self.rcd) + claimed.checked_mul(wide(column_first) + 1)?,
        };
        let block = used
            .checked_add(
                wide(self.read_to_pre()) + wide(self.rp) + wide(self.command) + wide(self.rfc),
            )?
            .checked_add(close)?
            .checked_add(foreign)?;
        Some(Terms {
            first: [
                wide(self.ppd.max(1) - 1) + wide(sneak),
                wide(activate_first),
                wide(column_first),
            ],
            older,
            older_of_hit: wide(column) + 1 + wide(self.command) + 2 * wide(sneak),
            read_to_pre: self.read_to_pre().into(),
            block,
            elsewhere: (wide(self.ranks) - 1)
                .checked_mul((wide(self.banks) + 1).checked_mul(wide(self.command))?)?,
        })
    }
}
