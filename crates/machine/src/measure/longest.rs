//! The longest access: a search over the accesses before it.
//!
//! Problem: an access is longest right behind a write of another row of its bank that was just
//! served. A controller serves writes at once, in bursts, or after a while. Rule: cases are tried
//! over lines, numbers of writes, and pauses between them and the access; then those beside the
//! longest one. A case is repeated, and its time is its median: differences between repetitions of
//! one case have other causes (a refresh, devices, other guests), and refreshes are a term of the
//! bounds. The longest cases are measured again with more repetitions, so that chance does not
//! choose. Right behind the last write that was served an access waits for that one: this is
//! `L_max`. An access that comes while several writes are still to be served may wait for them as
//! well. They are accesses of their own, but no counter shows them. So both cases are searched and
//! shown, and the larger one counts. Source: crates/analysis/src/memory/costs.rs, `L_max`. Does not
//! cover: cases that were not tried. So the file gets no less than the value by the memory's timing
//! and the measured overhead ([`super::file`]).

use super::effort::Effort;
use super::probe::{Access, Case, Probe};
use super::sampling::{Ended, LeftOut, Sampled, sample};
use solocore_buffers::HUGE;
use std::collections::BTreeSet;
use std::time::Duration;

/// Cases that are measured again.
const FINALISTS: usize = 4;
/// Times that the cases beside the longest one are tried.
const REFINED: usize = 3;
/// Time of a case.
const LEAST: Duration = Duration::from_millis(20);
/// Writes in front of a read that comes when the last of them was served: more than controllers
/// hold back, and more than the number by which writes are faster than the core.
const BURSTS: [u32; 2] = [12, 32];
/// The latest such read, in ns: the longest service of a write to an open row, and to another one;
/// the recovery.
const SERVED: u32 = 10;
const OPENED: u32 = 100;
const LATEST: u32 = 100;
/// Steps to an earlier read, in ns: until a peak is seen, and around it.
const COARSE: u32 = 8;
const FINE: usize = 2;
/// Coarse steps before a peak that are looked at again: chance may have hidden the peak itself.
const EARLIER: u32 = 3;
/// Time by which a peak exceeds the latest read, which is more than a precharge, and by which a
/// read after the peak is shorter, in ns.
const RISE: f64 = 16.0;
const DROP: f64 = 2.5;

/// Result of a search.
pub struct Longest {
    /// The longest case.
    pub case: Case,
    /// Its time, measured again.
    pub best: Sampled,
    /// The longest access of any case.
    pub worst: f64,
    /// Accesses of all cases.
    pub samples: usize,
    /// Accesses that do not count.
    pub left_out: LeftOut,
}

const AFTER_READ: Case =
    Case { offset: 0, writes: 0, rows: [0; 3], gap_ns: 0, access: Access::Read };

/// Cases after a read, and after writes.
fn cases() -> Vec<Case> {
    let mut cases = vec![AFTER_READ, Case { access: Access::Write, ..AFTER_READ }];
    for writes in [1, 8, 16, 32, 64] {
        for gap_ns in [0, 30, 100, 300] {
            for access in [Access::Read, Access::Write] {
                cases.push(Case { writes, gap_ns, access, ..AFTER_READ });
            }
        }
    }
    cases
}

/// Cases a little earlier and later, and of several writes with a few less and more.
fn beside(case: Case) -> Vec<Case> {
    if case.writes == 0 {
        return Vec::new();
    }
    let gaps = [-24, -16, -12, -8, -4, 4, 8, 12, 16, 24];
    let gaps = gaps.into_iter().filter_map(|by| case.gap_ns.checked_add_signed(by));
    let writes = [-3, -2, -1, 1, 2, 3].into_iter().filter_map(|by| {
        case.writes.checked_add_signed(by).filter(|n| case.writes > 1 && (2..=64).contains(n))
    });
    gaps.map(|gap_ns| Case { gap_ns, ..case })
        .chain(writes.map(|writes| Case { writes, ..case }))
        .collect()
}

/// Its name in a report.
pub fn name(case: Case) -> String {
    let access = if case.access == Access::Read { "read" } else { "write" };
    match case.writes {
        0 => format!("a {access} after a read"),
        n if case.row_count() > 1 => {
            format!("a {access} {} ns after {n} writes to {} rows", case.gap_ns, case.row_count())
        }
        1 => format!("a {access} {} ns after a write", case.gap_ns),
        n => format!("a {access} {} ns after {n} writes", case.gap_ns),
    }
}

/// Differences of rows of the bank from each other: each combination is one of `same`, also from
/// the row of the read, which differs by `offset`. 0 where there are no more.
fn rows(offset: u64, same: &[u64]) -> [u64; 3] {
    let known: BTreeSet<u64> = same.iter().copied().collect();
    let (mut rows, mut all) = ([0; 3], vec![0]);
    for row in &mut rows {
        let good = |bits: u64| {
            all.iter().all(|c| known.contains(&(c ^ bits)) && known.contains(&(c ^ bits ^ offset)))
        };
        let Some(&bits) = same.iter().find(|&&bits| bits < HUGE as u64 && good(bits)) else {
            break;
        };
        *row = bits;
        all.extend(all.clone().into_iter().map(|c| c ^ bits));
    }
    rows
}

/// A read right behind the last write that was served: of reads after a burst of writes, the latest
/// first, the first peak. Earlier ones wait for writes that are still to be served. Writes to
/// several rows are served slower than a core writes, one by one: so a read comes in time, and does
/// not wait for two. Where they show no peak, or no rows are known, writes to one row do. `same`
/// are the differences of lines that share a bank; none: they are not known. `None`: no read
/// comes right behind a write.
///
/// # Errors
/// See [`Ended`].
pub fn behind_last<P: Probe + ?Sized>(
    probe: &mut P,
    key: &str,
    offset: u64,
    same: &[u64],
    effort: &Effort,
) -> Result<Option<Longest>, Ended> {
    let mut trial = Trial::new(key, effort);
    let one = Case { offset, ..AFTER_READ };
    let several = Case { rows: rows(offset, same), ..one };
    let mut bursts = vec![Case { writes: BURSTS[0], ..several }];
    bursts.extend(BURSTS.map(|writes| Case { writes, ..one }));
    // Where no further rows are known.
    bursts.dedup();
    for burst in bursts {
        if let Some(peak) = trial.first_peak(probe, burst)? {
            let best = trial.summit(probe, peak)?;
            return Ok(best.map(|(case, best)| trial.done(case, best)));
        }
    }
    Ok(None)
}

/// Measures cases, and sums up their common counts.
struct Trial<'a> {
    key: &'a str,
    effort: &'a Effort,
    left_out: LeftOut,
    samples: usize,
    worst: f64,
}

impl<'a> Trial<'a> {
    fn new(key: &'a str, effort: &'a Effort) -> Self {
        Self { key, effort, left_out: LeftOut::default(), samples: 0, worst: 0.0 }
    }

    fn time<P: Probe + ?Sized>(
        &mut self,
        probe: &mut P,
        case: Case,
        times: usize,
        share: Duration,
    ) -> Result<Sampled, Ended> {
        let singles = self.effort.singles;
        let found = sample(probe, self.key, times, share, |p| Ok(p.single(case, singles)))?;
        self.left_out = self.left_out.and(found.left_out);
        self.samples += found.median.samples;
        self.worst = self.worst.max(found.worst);
        Ok(found)
    }

    /// The first peak of the reads after these writes, the latest first; `None`: all are as short
    /// as the latest.
    fn first_peak<P: Probe + ?Sized>(
        &mut self,
        probe: &mut P,
        burst: Case,
    ) -> Result<Option<Case>, Ended> {
        let singles = self.effort.singles;
        let opened = if burst.row_count() > 1 { burst.writes * OPENED } else { 0 };
        let last = LATEST + burst.writes * SERVED + opened;
        let (mut latest, mut peak) = (None, None::<(Case, f64)>);
        for gap_ns in (0..=last).rev().step_by(COARSE as usize) {
            let case = Case { gap_ns, ..burst };
            let mut ns = self.time(probe, case, singles, LEAST)?.median.value;
            let latest = *latest.get_or_insert(ns);
            if ns > latest + RISE && peak.is_none_or(|p| ns > p.1) {
                // Refreshes may have met half of a few reads.
                ns = ns.min(self.time(probe, case, 4 * singles, LEAST)?.median.value);
            }
            let high = ns > latest + RISE;
            match peak {
                Some((_, most)) if ns < most - DROP => break,
                Some((_, most)) if ns <= most => {}
                _ if high => peak = Some((case, ns)),
                _ => {}
            }
        }
        Ok(peak.map(|p| p.0))
    }

    /// The longest of the cases beside this one. Those that are longest once are measured again.
    fn summit<P: Probe + ?Sized>(
        &mut self,
        probe: &mut P,
        near: Case,
    ) -> Result<Option<(Case, Sampled)>, Ended> {
        let singles = self.effort.singles;
        let mut tried = Vec::new();
        let earliest = near.gap_ns.saturating_sub(EARLIER * COARSE);
        for gap_ns in (earliest..=near.gap_ns + COARSE).step_by(FINE) {
            let case = Case { gap_ns, ..near };
            let found = self.time(probe, case, 2 * singles, LEAST)?;
            tried.push((case, found.median.value));
        }
        self.longest_of(probe, tried, self.effort.share(0.01))
    }

    /// The longest of these by many repetitions; `None`: there are none.
    fn longest_of<P: Probe + ?Sized>(
        &mut self,
        probe: &mut P,
        mut tried: Vec<(Case, f64)>,
        share: Duration,
    ) -> Result<Option<(Case, Sampled)>, Ended> {
        tried.sort_by(|a, b| b.1.total_cmp(&a.1));
        let times = 8 * self.effort.singles;
        let mut best: Option<(Case, Sampled)> = None;
        for &(case, _) in tried.iter().take(FINALISTS) {
            let found = self.time(probe, case, times, share)?;
            if best.as_ref().is_none_or(|(_, b)| found.median.high > b.median.high) {
                best = Some((case, found));
            }
        }
        Ok(best)
    }

    fn done(self, case: Case, best: Sampled) -> Longest {
        let Self { left_out, samples, worst, .. } = self;
        Longest { case, best, worst, samples, left_out }
    }
}

/// The longest of all cases and of those beside it; `None`: there are no offsets.
///
/// # Errors
/// See [`Ended`].
pub fn search<P: Probe + ?Sized>(
    probe: &mut P,
    key: &str,
    offsets: &[u64],
    effort: &Effort,
) -> Result<Option<Longest>, Ended> {
    let mut trial = Trial::new(key, effort);
    let cases = cases();
    let all = offsets.len() * cases.len();
    let share = effort.share(0.15) / u32::try_from(all.max(1)).unwrap_or(u32::MAX);
    let mut tried: Vec<(Case, f64)> = Vec::with_capacity(all);
    for &offset in offsets {
        for &case in &cases {
            let case = Case { offset, ..case };
            let found = trial.time(probe, case, effort.singles, share.max(LEAST))?;
            tried.push((case, found.median.value));
        }
    }
    for _ in 0..REFINED {
        tried.sort_by(|a, b| b.1.total_cmp(&a.1));
        let Some(&(top, _)) = tried.first() else { return Ok(None) };
        for case in beside(top) {
            if !tried.iter().any(|t| t.0 == case) {
                let found = trial.time(probe, case, effort.singles, LEAST)?;
                tried.push((case, found.median.value));
            }
        }
    }
    let best = trial.longest_of(probe, tried, effort.share(0.02))?;
    Ok(best.map(|(case, best)| trial.done(case, best)))
}
