//! Longest time of one read in a DRAM controller that serves the first ready, oldest command first.
//!
//! # Problem
//! All bounds of this crate start from `L`: the longest time of one access, or of its delay of
//! another. It depends on the timings, on the number of outstanding reads of others, and on the
//! sharing of banks.
//!
//! # Rule
//! After H. Kim, de Niz, Andersson, Klein, Mutlu, Rajkumar, "Bounding Memory Interference Delay in
//! COTS-based Multi-Core Systems", RTAS 2014. There is a request-driven bound (requests that can
//! pass one request) and a job-driven one (requests of others that are served meanwhile). Each is a
//! sum of delays between banks and within the bank. The terms are not the paper's: they are derived
//! here for the controller of crates/dram (docs/dram.md). All times are clock cycles. With `s`/`l`
//! the least distance of two commands of a kind in different / the same bank groups:
//!
//! **Passing.** A command that may go in a cycle goes then unless an older request's may, too. So a
//! waiting request is delayed by older ones, each of which issues PRE, ACT and RD at most once
//! more, and by younger ones only while its own command may not go yet. These move its time once:
//! by one gap (`first`), plus, where `l > s`, once more, because a younger one of another bank
//! group may go before it. After that all its competitors may go at the same time and age decides.
//! ACT: gap `max(rrd, faw - 3*rrd)`. RD: gap `ccd`.
//! Ranks: a change of rank costs `sw = burst + rtrs` on the data bus, so younger reads of the rank
//! that has it go first, until it had `rank_turn` in a row. With two ranks and `ccd_l < sw` that
//! happens once: after a column command of its own rank no other rank's goes before it. With `ccd_l
//! = sw` it happens once more for each two older requests (one in either rank), otherwise for each.
//! Without a hit cap the controller has no turns, and there is no bound.
//!
//! **Within the bank.** Reads to an open row pass the oldest at most `cap` times, each time just
//! before its precharge would go. So `k` older reads in the bank cost `k + 1` row cycles and
//! `(k + 1) * cap` hits. A hit is young: everything in other banks passes it.
//!
//! **Refresh.** A due refresh waits until rows opened for a request have been used and all banks
//! have closed; `block` bounds that and the refresh. A window of `R` meets
//! `floor((R + block)/refi) + 1`.
//!
//! **Reads, by count.** Each command of another core moves at most one command in wait, by one gap,
//! and one in the same bank takes a row cycle: [`delay_per_access`], the `L` of analyses that count
//! accesses. A job of `H` reads beside `A` others waits for at most `H` times the time of a read
//! alone, `A` such delays, and the refreshes: [`job_time`].
//!
//! **Any traffic, by count.** If a request waits, no rank refreshes, and no row is open for a
//! request, some bank precharges, opens and reads or writes. Two column commands are at most `gap =
//! max(max(write to precharge, read to precharge) + rp, faw) + max(rcd, write to read) + banks*(1 +
//! command)` apart, from any core. So if others are served `A` times meanwhile, a
//! read takes at most `A + 1` gaps, in all modes of the write queue, with any cap: [`window`].
//!
//! # Not covered
//! * Writes, by request: reads of other banks pass a write whose row is open (a write needs `cl +
//!   sw - cwl` after a read, a read `ccd`), and a drain goes on while writes arrive. A controller
//!   without turns starves a read behind them; for one with turns, no bound by request is derived
//!   here. [`with_arrivals`] bounds reads among writes whose rate is bounded.
//! * Requests that the controller does not accept: with at most 40 reads outstanding it takes all
//!   of them. The latency counts from the acceptance. Channels are independent: give the requests
//!   that can be in one.

pub use super::timing::{Contention, Controller, Dram};
use super::timing::{LIMIT, MAX_STEPS, Terms};

/// Without refreshes, and with `k` older reads in the bank.
fn without_refresh(d: &Dram, c: &Controller, n: &Contention, t: &Terms, k: u64) -> Option<u128> {
    let cap = if n.same_bank == 0 { 0 } else { u128::from(c.hit_cap?) };
    let [pre, act, column] = t.first;
    let (fronts, others) = (u128::from(k) + 1, u128::from(n.others));
    let row = t.read_to_pre + pre + u128::from(d.rp) + act + u128::from(d.rcd) + column;
    let mut total = fronts.checked_mul(row)?;
    // The read before was this core's own, and its answer is out: the row has been open for at
    // least that time.
    if n.same_bank == 0 {
        let answered = u128::from(d.cl + d.burst) + u128::from(c.way_out);
        total = total - t.read_to_pre + t.read_to_pre.saturating_sub(answered);
    }
    // Of the others, k - j wait in the bank while the (j+1)-th front does, one is the hit, and the
    // rest may pass it: from `first_passing` at j = 0, one more with each front, to all but the
    // hit.
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
pub(super) fn worst(d: &Dram, c: &Controller, n: &Contention, t: &Terms) -> Option<(u64, u128)> {
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

/// Longest time from the arrival of a read to its answer, in cycles, if there are only reads: the
/// request-driven bound.
///
/// `None` if there is none (others share the bank, or there are several ranks, and the controller
/// has no hit cap), or if a timing is impossible (zero, `ras < rcd`, ...). Also if more of others
/// can be in the bank than are outstanding.
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

/// As [`read_latency`], alone and without refresh: the cost of a row conflict.
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

/// Largest delay of one read of a core by the others' reads, in cycles, if there are only reads:
/// [`read_latency`] without its own service and without refreshes. `None` as there.
#[must_use]
pub fn read_delay(dram: &Dram, controller: &Controller, contention: &Contention) -> Option<u64> {
    if !dram.is_possible() || contention.same_bank > contention.others {
        return None;
    }
    let terms = dram.terms(controller, contention.others)?;
    let (_, base) = worst(dram, controller, contention, &terms)?;
    u64::try_from(base).ok()?.checked_sub(solo_latency(dram, controller)?)
}

/// Largest delay of a read by one earlier command of each kind, in cycles: the first delays of PRE,
/// ACT and RD. `None` as for [`read_latency`].
#[must_use]
pub fn first_delay(dram: &Dram, controller: &Controller, others: u64) -> Option<u64> {
    let first: u128 = dram.terms(controller, others)?.first.iter().sum();
    u64::try_from(first).ok()
}

/// Longest gap between two column commands of the channel while a request waits and no rank
/// refreshes, in cycles.
pub(super) fn service_gap(d: &Dram) -> u128 {
    let banks = u128::from(d.ranks) * u128::from(d.banks);
    let close = u128::from(d.write_to_pre().max(d.read_to_pre()).max(d.ppd)) + u128::from(d.rp);
    let open = u128::from(d.rcd.max(d.column_gap()));
    let bus = banks * (1 + u128::from(d.command)) + u128::from(d.ppd) * banks;
    close.max(d.faw.into()).max(d.rrd_l.into()) + open + bus
}

fn refresh_gap(d: &Dram) -> u128 {
    let close = u128::from(d.banks) * (u128::from(d.ppd.max(1)) + u128::from(d.command));
    u128::from(d.write_to_pre().max(d.read_to_pre()))
        + close
        + u128::from(d.rp + d.command)
        + u128::from(d.rfc)
}

/// Time of one refresh of every rank, and the longest time of one that was due before.
fn refreshes(d: &Dram) -> Option<(u128, u128)> {
    let one = refresh_gap(d).checked_add(service_gap(d))?;
    Some((one.checked_mul(d.ranks.into())?, one))
}

fn without_refreshes(d: &Dram, c: &Controller, own: u64, others: u128) -> Option<u128> {
    let ways = u128::from(c.way_in) + u128::from(d.cl + d.burst) + u128::from(c.way_out);
    others
        .checked_add(own.into())?
        .checked_mul(service_gap(d))?
        .checked_add(ways.checked_mul(own.into())?)
}

fn window_with(d: &Dram, c: &Controller, own: u64, others: u128) -> Option<u64> {
    let (each, reach) = refreshes(d)?;
    with_refresh(without_refreshes(d, c, own, others)?, each, reach, d.refi)
}

/// Largest cost of one read of another core, in cycles: each of its commands moves at most one
/// command in wait, by one gap, and in the same bank it also takes a row cycle.
fn per_access(d: &Dram, same_bank: bool) -> u128 {
    let (s, l) = (d.ccd_s.max(d.burst), d.ccd_l.max(d.burst));
    let (_, column) = d.between_banks(if d.groups > 1 { s } else { l }, l, s);
    let switch = if d.ranks > 1 { d.sw() + d.command - 1 } else { 0 };
    let (_, activate) = d.activate();
    let moved =
        d.ppd.max(1) + d.command - 1 + activate.max(d.command) + column.max(switch).max(d.command);
    u128::from(moved) + if same_bank { u128::from(d.read_to_pre() + d.rp + d.rcd + 1) } else { 0 }
}

/// Do a core's own commands never move its next ones? They are a read apart.
fn own_commands_are_past(d: &Dram) -> bool {
    let s = if d.groups > 1 { d.rrd_s } else { d.rrd_l };
    let read = d.cl + d.burst;
    d.ccd_l <= read && d.rrd_l.max(d.faw.saturating_sub(3 * s)).max(d.ppd) <= d.rcd + read
}

/// Largest delay of a core with one outstanding read by one read of another core, in cycles, if
/// there are only reads: `L` of the analyses that count accesses. With private banks only its
/// commands count, else a row cycle as well.
///
/// Holds with any hit cap and any number of ranks. `None` if a timing is impossible.
#[must_use]
pub fn delay_per_access(dram: &Dram, same_bank: bool) -> Option<u64> {
    (dram.is_possible() && own_commands_are_past(dram))
        .then(|| u64::try_from(per_access(dram, same_bank)).ok())?
}

/// Reads only: each own read as if alone, each read of others once, and the refreshes of `span`
/// cycles.
pub(super) fn by_count(
    d: &Dram,
    c: &Controller,
    same_bank: bool,
    own: u64,
    others: u64,
    span: u64,
) -> Option<u64> {
    let solo = u128::from(solo_latency(d, c)?).checked_mul(own.into())?;
    let delay = u128::from(delay_per_access(d, same_bank)?).checked_mul(others.into())?;
    let close = u128::from(d.banks).checked_mul(u128::from(d.ppd.max(1) + d.command - 1))?
        + u128::from(d.command);
    let block = u128::from(d.rcd + d.read_to_pre() + d.rp + d.rfc);
    let each = block.checked_add(close.checked_mul(d.ranks.into())?)?;
    let number = (u128::from(span) + each) / u128::from(d.refi) + 1;
    u64::try_from(solo.checked_add(delay)?.checked_add(number.checked_mul(each)?)?).ok()
}

/// Longest time of `own` reads of a core that come back to back, from the first arrival to the last
/// answer, in cycles. Meanwhile others have `others` column commands of any kind: the job-driven
/// bound. Holds in drains, and without a cap.
#[must_use]
pub fn window(dram: &Dram, controller: &Controller, own: u64, others: u64) -> Option<u64> {
    if !dram.is_possible() {
        return None;
    }
    window_with(dram, controller, own, others.into())
}

/// Longest time that a job spends waiting for its `own` reads, one at a time, in cycles: the lesser
/// of the request-driven bound for each and the job-driven bound for all. There are only reads,
/// with others' `contention`; `others` of theirs are served or under way while the job's wait; all
/// of it happens within `span` cycles, which bounds the refreshes.
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

/// Longest latency of one read, in cycles, if others' requests of any kind are `queued` at its
/// arrival, at most. In any window of `t` cycles at most `budget * (ceil(t/period) + 1)` arrive
/// (the limit of a regulator with that period).
///
/// `None` if the arrivals can keep the memory busy without end.
#[must_use]
pub fn with_arrivals(
    dram: &Dram,
    controller: &Controller,
    queued: u64,
    budget: u64,
    period: u64,
) -> Option<u64> {
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
