//! How long one read can take in a DRAM controller that serves the first ready, oldest command first.
//!
//! # Problem
//! All bounds of this crate start from `L`: the longest that one access takes, or delays another. What is it for given
//! timings, a given number of reads that others have outstanding, and banks that are shared or not?
//!
//! # Rule
//! After H. Kim, de Niz, Andersson, Klein, Mutlu, Rajkumar, "Bounding Memory Interference Delay in COTS-based Multi-Core Systems", RTAS
//! 2014: a request-driven bound (what can pass one request) and a job-driven one (what others are served meanwhile), each
//! the sum of what happens between banks and within the bank. The terms are not the paper's: they are derived here for
//! the controller of crates/dram (docs/dram.md). All times are clock cycles. With `s`/`l` the least distance of two commands of a kind in different / the same bank groups:
//!
//! **Passing.** A command that may go in a cycle goes then unless an older request's may, too. So a waiting request is delayed by
//! older ones, each of which issues PRE, ACT and RD at most once more, and by younger ones only while its own command
//! may not go yet. These move its time once: by one gap (`first`), plus, where `l > s`, once more, as a younger one of
//! another bank group may go before it; after that all its competitors may go at the same time and age decides. ACT:
//! gap `max(rrd, faw - 3*rrd)`. RD: gap `ccd`.
//! Ranks: a change of rank costs `sw = burst + rtrs` on the data bus, so younger reads of the rank that has it go first, until
//! it had `rank_turn` in a row. With two ranks and `ccd_l < sw` that happens once: after a column command of its own rank no other
//! rank's goes before it. With `ccd_l = sw` it happens once more for each two older requests (one in either rank), otherwise
//! for each. Without a hit cap the controller has no turns, and there is no bound.
//!
//! **Within the bank.** Reads to an open row pass the oldest at most `cap` times, each time just before its precharge would go. So `k`
//! older reads in the bank cost `k + 1` row cycles and `(k + 1) * cap` hits. A hit is young: everything in other banks passes it.
//!
//! **Refresh.** A due refresh waits until rows opened for somebody have been used and all banks have closed; `block` bounds
//! that and the refresh. A window of `R` meets `floor((R + block)/refi) + 1`.
//!
//! **Reads, by count.** Each command of another core moves at most one command in wait, by one gap, and one in the same bank
//! takes a row cycle: [`delay_per_access`], the `L` of analyses that count accesses. A job of `H` reads beside `A` others waits for at
//! most `H` times what a read takes alone, `A` such delays, and the refreshes: [`job_time`].
//!
//! **Any traffic, by count.** If a request waits, no rank refreshes, and no row is open for somebody, some bank precharges, opens and reads or
//! writes: two column commands are at most
//! `gap = max(max(write to precharge, read to precharge) + rp, faw) + max(rcd, write to read) + banks*(1 + command)` apart, whoever's they are. So if others
//! are served `A` times meanwhile, a read takes at most `A + 1` gaps, in all modes of the write queue, with any cap: [`window`].
//!
//! # Not covered
//! * Writes, by request: reads of other banks pass a write whose row is open (a write needs `cl + sw - cwl` after a read, a read
//!   `ccd`), and a drain goes on while it is fed. A controller that gives them no turns starves a read behind; for
//!   one that does, no bound by request is derived here. [`with_arrivals`] bounds reads among writes whose rate is bounded.
//! * Requests that the controller does not accept: with at most 40 reads outstanding it takes all of them. The latency
//!   counts from the acceptance. Channels are independent: give what can be in one.

use crate::Derivation;
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

/// What the controller is set to.
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

/// Who else has reads under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// Reads outstanding in the channel besides the one looked at: the sum over the other cores of what each can have
    /// outstanding, and what its own core has besides.
    pub others: u64,
    /// How many of these can be for the same bank; 0 with private banks and one outstanding read.
    pub same_bank: u64,
}

/// Nothing in a DRAM takes so many cycles; larger values would only overflow.
const LIMIT: u64 = 1 << 40;
/// Steps of a recurrence, after which there is no bound.
const MAX_STEPS: u32 = 1 << 16;

/// The distances that the bounds are made of, in cycles.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// First delay of a PRE, ACT and RD that would be ready, by what went before.
    first: [u128; 3],
    /// Delay by an older request, over its three commands.
    older: u128,
    /// Delay of a RD of the open row by an older request of another bank.
    older_of_hit: u128,
    /// From a read of a bank until its row may close.
    read_to_pre: u128,
    /// A refresh of the own rank, from when it is due.
    block: u128,
    /// Refreshes of the other ranks, once each.
    elsewhere: u128,
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

    fn sw(&self) -> u64 {
        self.burst + self.rtrs
    }

    /// The longest gap that one column command forces on another.
    pub(crate) fn column_gap(&self) -> u64 {
        let write_to_read = self.cwl + self.burst + self.wtr_l.max(self.wtr_s);
        let read_to_write = (self.cl + self.sw()).saturating_sub(self.cwl);
        write_to_read.max(read_to_write).max(self.ccd_l).max(self.ccd_l_write).max(self.sw())
    }

    /// First delay and delay per older command, for gaps `s` and `l` and a longest gap `h` that holds for all bank groups.
    fn between_banks(&self, s: u64, l: u64, h: u64) -> (u64, u64) {
        // A younger command in another bank group may take the bus just before, for as long as it lasts.
        let sneak = self.command - 1;
        if self.groups > 1 && l > s {
            (l + h - 2 + 2 * sneak, l - 1 + h + 2 * sneak)
        } else {
            (l.max(h) - 1 + sneak, l.max(h) + sneak)
        }
    }

    fn activate(&self) -> (u64, u64) {
        let s = if self.groups > 1 { self.rrd_s } else { self.rrd_l };
        self.between_banks(s, self.rrd_l, s.max(self.faw.saturating_sub(3 * s)))
    }

    /// After a column command in the own rank, none of another rank can go before the next of the own rank.
    fn one_turn(&self) -> bool {
        self.ranks == 2 && self.ccd_l.max(self.burst) + self.command - 1 < self.sw()
    }

    /// As `activate`, for RD: `None` if ranks have no turns, and somebody else could keep the bus.
    fn column(&self, controller: &Controller, others: u64) -> Option<(u64, u64)> {
        let (s, l) = (self.ccd_s.max(self.burst), self.ccd_l.max(self.burst));
        let s = if self.groups > 1 { s } else { l };
        let (first, older) = self.between_banks(s, l, s);
        if self.ranks == 1 || others == 0 {
            return Some((first, older));
        }
        controller.hit_cap?;
        let (sw, sneak) = (self.sw(), self.command - 1);
        // A turn: each of its commands goes a cycle before this one may, and moves it by another change of rank.
        let step = sw - 1 + sneak;
        // One that passes can pass again only when it has been answered. If all of them pass in less time than that takes,
        // each passes once.
        let back = (self.cl + self.burst).checked_add(controller.way_out)?.checked_add(controller.way_in)?;
        let once = others.checked_mul(step)? < back;
        let turn = if once { controller.rank_turn.min(others) } else { controller.rank_turn }.checked_mul(step)?;
        let (first, older) = (first.max(sw - 1 + sneak), older.max(sw + sneak));
        if self.one_turn() {
            return Some((first.checked_add(turn)?, older));
        }
        let per_older = if self.ranks == 2 && l <= sw { turn.div_ceil(2) } else { turn };
        Some((first.checked_add(l)?.checked_add(turn)?, older.checked_add(l)?.checked_add(per_older)?))
    }

    fn terms(&self, controller: &Controller, others: u64) -> Option<Terms> {
        let sneak = self.command - 1;
        let pre = self.ppd.max(1) + sneak;
        let (activate_first, activate) = self.activate();
        let (column_first, column) = self.column(controller, others)?;
        let wide = |v: u64| u128::from(v);
        let older = wide(pre) + wide(activate.max(self.command)) + wide(column.max(self.command));
        // Claimed rows of the rank are used first, each of somebody else; those of other ranks go on.
        let claimed = wide(self.banks.min(others));
        let foreign = if self.ranks > 1 { wide(others).checked_mul(older)? } else { 0 };
        let close = wide(self.banks).checked_mul(wide(pre))?;
        let used = match others {
            0 => 0,
            _ if self.one_turn() => wide(self.rcd) + wide(column_first) + claimed.checked_mul(wide(column))?,
            _ => wide(self.rcd) + claimed.checked_mul(wide(column_first) + 1)?,
        };
        let block = used
            .checked_add(wide(self.read_to_pre()) + wide(self.rp) + wide(self.command) + wide(self.rfc))?
            .checked_add(close)?
            .checked_add(foreign)?;
        Some(Terms {
            first: [wide(self.ppd.max(1) - 1) + wide(sneak), wide(activate_first), wide(column_first)],
            older,
            older_of_hit: wide(column) + 1 + wide(self.command) + 2 * wide(sneak),
            read_to_pre: self.read_to_pre().into(),
            block,
            elsewhere: (wide(self.ranks) - 1).checked_mul((wide(self.banks) + 1).checked_mul(wide(self.command))?)?,
        })
    }
}

/// Without refreshes, and with `k` older reads in the bank.
fn without_refresh(d: &Dram, c: &Controller, n: &Contention, t: &Terms, k: u64) -> Option<u128> {
    let cap = if n.same_bank == 0 { 0 } else { u128::from(c.hit_cap?) };
    let [pre, act, column] = t.first;
    let (fronts, others) = (u128::from(k) + 1, u128::from(n.others));
    let row = t.read_to_pre + pre + u128::from(d.rp) + act + u128::from(d.rcd) + column;
    let mut total = fronts.checked_mul(row)?;
    // The read before was this core's own, and its answer is out: the row has been open for that long.
    if n.same_bank == 0 {
        let answered = u128::from(d.cl + d.burst) + u128::from(c.way_out);
        total = total - t.read_to_pre + t.read_to_pre.saturating_sub(answered);
    }
    // Of the others, k - j wait in the bank while the (j+1)-th front does, one is the hit, and the rest may pass it: from
    // `first_passing` at j = 0, one more with each front, to all but the hit.
    let hit = u128::from(d.rtp) + pre + 1 + column;
    let first_passing = others.saturating_sub(1).saturating_sub(u128::from(k));
    let last_passing = others.saturating_sub(1);
    let passing = (first_passing + last_passing).checked_mul(fronts)?.div_ceil(2);
    let hits = fronts.checked_mul(hit)?.checked_add(passing.checked_mul(t.older_of_hit)?)?;
    total = total.checked_add(cap.checked_mul(hits)?)?;
    total = total.checked_add((others - u128::from(k)).checked_mul(t.older)?)?;
    total.checked_add(u128::from(c.way_in) + u128::from(d.cl + d.burst) + u128::from(c.way_out))
}

/// The least `R = base + refreshes(R) * each`, with `floor((R + reach)/refi) + 1` refreshes.
fn with_refresh(base: u128, each: u128, reach: u128, refi: u64) -> Option<u64> {
    let mut total = base;
    for _ in 0..MAX_STEPS {
        let refreshes = (total.checked_add(reach)?) / u128::from(refi) + 1;
        let next = base.checked_add(refreshes.checked_mul(each)?)?;
        if next <= total {
            return u64::try_from(total).ok();
        }
        total = next;
    }
    None
}

/// The worst number of older reads in the bank, and the latency without refreshes.
fn worst(d: &Dram, c: &Controller, n: &Contention, t: &Terms) -> Option<(u64, u128)> {
    let most = n.same_bank.min(n.others);
    if most > 1 << 16 {
        return None;
    }
    let mut best = (0, 0);
    for k in 0..=most {
        let total = without_refresh(d, c, n, t, k)?;
        if total > best.1 {
            best = (k, total);
        }
    }
    Some(best)
}

/// Longest time from the arrival of a read to its answer, in cycles, if there are only reads: the request-driven bound.
///
/// `None` if there is none (others share the bank, or there are several ranks, and the controller has no hit cap), if a
/// timing is impossible (zero, `ras < rcd`, ...), or more of others can be in the bank than are outstanding.
#[must_use]
pub fn read_latency(dram: &Dram, controller: &Controller, contention: &Contention) -> Option<u64> {
    if !dram.is_possible() || contention.same_bank > contention.others {
        return None;
    }
    let terms = dram.terms(controller, contention.others)?;
    let (_, base) = worst(dram, controller, contention, &terms)?;
    let again: u128 = terms.first.iter().sum();
    let each = terms.block.checked_add(again)?.checked_add(terms.elsewhere)?;
    with_refresh(base, each, terms.block, dram.refi)
}

/// As [`read_latency`], alone and without refresh: what a row conflict costs.
#[must_use]
pub fn solo_latency(dram: &Dram, controller: &Controller) -> Option<u64> {
    if !dram.is_possible() {
        return None;
    }
    let alone = Contention { others: 0, same_bank: 0 };
    let terms = dram.terms(controller, 0)?;
    let quiet = Terms { first: [0; 3], ..terms };
    u64::try_from(without_refresh(dram, controller, &alone, &quiet, 0)?).ok()
}

/// What the others' reads can add to one read of a core, at most, in cycles, if there are only reads: [`read_latency`] without its own
/// service and without refreshes. `None` as there.
#[must_use]
pub fn read_delay(dram: &Dram, controller: &Controller, contention: &Contention) -> Option<u64> {
    if !dram.is_possible() || contention.same_bank > contention.others {
        return None;
    }
    let terms = dram.terms(controller, contention.others)?;
    let (_, base) = worst(dram, controller, contention, &terms)?;
    u64::try_from(base).ok()?.checked_sub(solo_latency(dram, controller)?)
}

/// What one command of each kind that went before can add to a read, in cycles: the first delays of PRE, ACT and RD. `None` as for
/// [`read_latency`].
#[must_use]
pub fn first_delay(dram: &Dram, controller: &Controller, others: u64) -> Option<u64> {
    let first: u128 = dram.terms(controller, others)?.first.iter().sum();
    u64::try_from(first).ok()
}

/// Longest gap between two column commands of the channel while a request waits and no rank refreshes, in cycles.
fn service_gap(d: &Dram) -> u128 {
    let banks = u128::from(d.ranks) * u128::from(d.banks);
    let close = u128::from(d.write_to_pre().max(d.read_to_pre()).max(d.ppd)) + u128::from(d.rp);
    let open = u128::from(d.rcd.max(d.column_gap()));
    let bus = banks * (1 + u128::from(d.command)) + u128::from(d.ppd) * banks;
    close.max(d.faw.into()).max(d.rrd_l.into()) + open + bus
}

fn refresh_gap(d: &Dram) -> u128 {
    let close = u128::from(d.banks) * (u128::from(d.ppd.max(1)) + u128::from(d.command));
    u128::from(d.write_to_pre().max(d.read_to_pre())) + close + u128::from(d.rp + d.command) + u128::from(d.rfc)
}

/// One refresh of every rank, and how long one can last that was due before.
fn refreshes(d: &Dram) -> Option<(u128, u128)> {
    let one = refresh_gap(d).checked_add(service_gap(d))?;
    Some((one.checked_mul(d.ranks.into())?, one))
}

fn without_refreshes(d: &Dram, c: &Controller, own: u64, others: u128) -> Option<u128> {
    let ways = u128::from(c.way_in) + u128::from(d.cl + d.burst) + u128::from(c.way_out);
    others.checked_add(own.into())?.checked_mul(service_gap(d))?.checked_add(ways.checked_mul(own.into())?)
}

fn window_with(d: &Dram, c: &Controller, own: u64, others: u128) -> Option<u64> {
    let (each, reach) = refreshes(d)?;
    with_refresh(without_refreshes(d, c, own, others)?, each, reach, d.refi)
}

/// What one read of another core can cost, in cycles: each of its commands moves at most one command in wait, by one gap, and
/// in the same bank it takes a row cycle besides.
fn per_access(d: &Dram, same_bank: bool) -> u128 {
    let (s, l) = (d.ccd_s.max(d.burst), d.ccd_l.max(d.burst));
    let (_, column) = d.between_banks(if d.groups > 1 { s } else { l }, l, s);
    let switch = if d.ranks > 1 { d.sw() + d.command - 1 } else { 0 };
    let (_, activate) = d.activate();
    let moved = d.ppd.max(1) + d.command - 1 + activate.max(d.command) + column.max(switch).max(d.command);
    u128::from(moved) + if same_bank { u128::from(d.read_to_pre() + d.rp + d.rcd + 1) } else { 0 }
}

/// Do a core's own commands never move its next ones? They lie a read apart.
fn own_commands_are_past(d: &Dram) -> bool {
    let s = if d.groups > 1 { d.rrd_s } else { d.rrd_l };
    let read = d.cl + d.burst;
    d.ccd_l <= read && d.rrd_l.max(d.faw.saturating_sub(3 * s)).max(d.ppd) <= d.rcd + read
}

/// How much one read of another core can delay a core that has one read outstanding, at most, in cycles, if there are only reads:
/// `L` of the analyses that count accesses. With private banks its commands alone count, else a row cycle as well.
///
/// Holds with any hit cap and any number of ranks. `None` if a timing is impossible.
#[must_use]
pub fn delay_per_access(dram: &Dram, same_bank: bool) -> Option<u64> {
    (dram.is_possible() && own_commands_are_past(dram)).then(|| u64::try_from(per_access(dram, same_bank)).ok())?
}

/// Reads only: each own read as if alone, each of others once, and the refreshes of `span` cycles.
fn by_count(d: &Dram, c: &Controller, same_bank: bool, own: u64, others: u64, span: u64) -> Option<u64> {
    let solo = u128::from(solo_latency(d, c)?).checked_mul(own.into())?;
    let delay = u128::from(delay_per_access(d, same_bank)?).checked_mul(others.into())?;
    let close = u128::from(d.banks).checked_mul(u128::from(d.ppd.max(1) + d.command - 1))? + u128::from(d.command);
    let block = u128::from(d.rcd + d.read_to_pre() + d.rp + d.rfc);
    let each = block.checked_add(close.checked_mul(d.ranks.into())?)?;
    let number = (u128::from(span) + each) / u128::from(d.refi) + 1;
    u64::try_from(solo.checked_add(delay)?.checked_add(number.checked_mul(each)?)?).ok()
}

/// Longest time of `own` reads of a core that come back to back, from the first arrival to the last answer, in cycles, if
/// meanwhile others have `others` column commands of any kind: the job-driven bound. Holds in drains, and without a cap.
#[must_use]
pub fn window(dram: &Dram, controller: &Controller, own: u64, others: u64) -> Option<u64> {
    if !dram.is_possible() {
        return None;
    }
    window_with(dram, controller, own, others.into())
}

/// Longest time that a job spends waiting for its `own` reads, one at a time, in cycles: the lesser of the request-driven bound for
/// each and the job-driven bound for all. There are only reads, with others' `contention`; `others` of theirs are served or under
/// way while the job's wait; all of it happens within `span` cycles, which bounds the refreshes.
#[must_use]
pub fn job_time(
    dram: &Dram,
    controller: &Controller,
    contention: &Contention,
    own: u64,
    others: u64,
    span: u64,
) -> Option<u64> {
    if !dram.is_possible() {
        return None;
    }
    let each = read_latency(dram, controller, contention).and_then(|l| l.checked_mul(own));
    match (each, by_count(dram, controller, contention.same_bank > 0, own, others, span)) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Longest latency of one read, in cycles, if others' requests of any kind are `queued` at its arrival, at most, and in any window of
/// `t` cycles at most `budget * (ceil(t/period) + 1)` arrive (what a regulator with that period lets through).
///
/// `None` if what arrives can keep the memory busy without end.
#[must_use]
pub fn with_arrivals(dram: &Dram, controller: &Controller, queued: u64, budget: u64, period: u64) -> Option<u64> {
    if !dram.is_possible() || period == 0 {
        return None;
    }
    let mut total = 0u64;
    for _ in 0..MAX_STEPS {
        let arrived = (u128::from(total.div_ceil(period)) + 1).checked_mul(budget.into())?;
        let next = window_with(dram, controller, 1, arrived.checked_add(queued.into())?)?;
        if next <= total {
            return Some(total);
        }
        if next > LIMIT {
            return None;
        }
        total = next;
    }
    None
}

/// How the latency of a read comes about.
#[must_use]
pub fn explain(dram: &Dram, controller: &Controller, contention: &Contention) -> Derivation {
    let latency = read_latency(dram, controller, contention);
    let narrow = |v: u128| u64::try_from(v).ok();
    let mut d = Derivation::new(
        "(k+1) row cycles + (k+1)*cap hits + (others - k)*older + way in and out + refreshes, in cycles, worst k",
        "memory/latency.rs, after H. Kim et al., RTAS 2014",
    )
    .input("others", contention.others)
    .input("same bank", contention.same_bank)
    .input("hit cap", controller.hit_cap)
    .input("clock in ps", dram.clock_ps);
    if let (Some(_), Some(t)) = (latency, dram.terms(controller, contention.others))
        && let Some((k, base)) = worst(dram, controller, contention, &t)
    {
        for (name, value) in ["first delay of PRE", "first delay of ACT", "first delay of RD"].into_iter().zip(t.first)
        {
            d = d.step(name, narrow(value));
        }
        d = d
            .step("delay by an older request", narrow(t.older))
            .step("delay of a hit by an older request", narrow(t.older_of_hit))
            .step("k", k)
            .step("without refreshes", narrow(base))
            .step("a refresh", narrow(t.block));
    }
    d.result(latency)
}

/// How the waiting of a job comes about ([`job_time`]).
#[must_use]
pub fn explain_job(
    dram: &Dram,
    controller: &Controller,
    contention: &Contention,
    own: u64,
    others: u64,
    span: u64,
) -> Derivation {
    let each = read_latency(dram, controller, contention);
    let same_bank = contention.same_bank > 0;
    let count = dram.is_possible().then(|| by_count(dram, controller, same_bank, own, others, span)).flatten();
    Derivation::new(
        "min(own * R, own * solo + others * L + refreshes of the span), in cycles",
        "memory/latency.rs, after H. Kim et al., RTAS 2014: request-driven and job-driven",
    )
    .input("own", own)
    .input("others", others)
    .input("span", span)
    .step("solo", solo_latency(dram, controller))
    .step("delay per access L", delay_per_access(dram, same_bank))
    .step("by request, each", each)
    .step("by count", count)
    .result(job_time(dram, controller, contention, own, others, span))
    .because(explain(dram, controller, contention))
}

/// How the latency among regulated requests comes about ([`with_arrivals`]).
#[must_use]
pub fn explain_arrivals(dram: &Dram, controller: &Controller, queued: u64, budget: u64, period: u64) -> Derivation {
    let gap = if dram.is_possible() { u64::try_from(service_gap(dram)).ok() } else { None };
    Derivation::new(
        "R = (queued + budget*(ceil(R/period) + 1) + 1) * gap + way in and out + refreshes, in cycles",
        "memory/latency.rs",
    )
    .input("queued", queued)
    .input("budget", budget)
    .input("period", period)
    .step("gap", gap)
    .result(with_arrivals(dram, controller, queued, budget, period))
}
