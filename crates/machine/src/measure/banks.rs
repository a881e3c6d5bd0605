//! Finds the pages that share a bank with a page, by timing.
//!
//! Problem: the longest access meets another row of its bank, and no file lists the addresses of a
//! bank. Rule: within a huge page a program's address bits are the memory's. Two pages whose
//! addresses differ in some bits are read by turns; where the banks' functions are XORs of address
//! bits, all pairs with the same difference are alike. So differences form a fast and a slow group,
//! and a difference must be in the same group again. Where a memory has more banks than a huge page
//! has rows, no two pages of one huge page share a bank. Then differences between several huge
//! pages are tried, if their addresses are known. Source: DRAMA (Pessl et al. 2016); the groups are
//! those of [`solocore_space::solve::split`]. Does not cover: controllers that close rows at once,
//! maps that are not XORs.

use super::effort::Effort;
use super::probe::{Piece, Probe};
use super::sampling::{Ended, FEWEST, LeftOut, Sampled};
use crate::error::MachineError;
use solocore_buffers::median::Median;
use solocore_buffers::walk::Random;
use solocore_space::solve::split;

/// Times in one bank and in two.
#[derive(Clone, Debug)]
pub struct Banks {
    /// Differences of pages that share a bank, in bytes.
    pub same: Vec<u64>,
    /// A load whose row is open, a first-level hit included.
    pub hit: Sampled,
    /// A load that meets another row of its bank.
    pub conflict: Sampled,
}

/// Rounds over all differences.
const ROUNDS: usize = 3;
/// Differences that make no groups.
const TOO_FEW: usize = 64;
/// Differences between several pages for each one that is tried within a page: of 256 banks, one
/// in 256 is slow, and some slow ones are needed.
const FARTHER: usize = 8;

/// The banks, or the reason why they cannot be distinguished.
///
/// # Errors
/// See [`Ended`].
pub fn find<P: Probe + ?Sized>(
    probe: &mut P,
    effort: &Effort,
) -> Result<Result<Banks, String>, Ended> {
    let step = probe.offset_step();
    let pages = usize::try_from(probe.offsets() / step).unwrap_or(0);
    if pages < TOO_FEW {
        return Ok(Err("address bits are the memory's in huge pages only, and there are none \
            (vm.nr_hugepages, or transparent_hugepage/enabled = madvise)"
            .to_owned()));
    }
    let mut offsets: Vec<u64> = (1..pages as u64).map(|page| page * step).collect();
    Random::new(7).shuffle(&mut offsets);
    let most = (effort.pairs / ROUNDS).max(TOO_FEW);
    offsets.truncate(most);
    let why = match among(probe, &offsets)? {
        Ok(banks) => return Ok(Ok(banks)),
        Err(why) => why,
    };
    let far = probe.far();
    if far.is_empty() {
        return Ok(Err(format!(
            "{why}; only differences within one huge page were tried, because \
                /proc/self/pagemap shows addresses to root alone, or there is one huge page"
        )));
    }
    let found = among(probe, &farther(far, pages, step, FARTHER * most))?;
    Ok(found.map_err(|again| format!("{why}; of several huge pages: {again}")))
}

/// About `count` differences between several pages: for some of theirs, all within a page. So each
/// bank that a page has a row of is met.
fn farther(mut far: Vec<u64>, pages: usize, step: u64, count: usize) -> Vec<u64> {
    let mut random = Random::new(13);
    random.shuffle(&mut far);
    far.truncate((count / pages).max(1));
    let within = |high: u64| (0..pages as u64).map(move |page| high | (page * step));
    let mut all: Vec<u64> = far.into_iter().flat_map(within).collect();
    random.shuffle(&mut all);
    all
}

/// The banks by the times of these differences, or the reason why they show none.
fn among<P: Probe + ?Sized>(
    probe: &mut P,
    offsets: &[u64],
) -> Result<Result<Banks, String>, Ended> {
    let (times, left_out) = times(probe, offsets, ROUNDS)?;
    let known: Vec<(u64, f64)> = medians(offsets, &times);
    if known.len() < TOO_FEW {
        return Ok(Err(format!(
            "of {} differences only {} were timed without interrupts",
            offsets.len(),
            known.len()
        )));
    }
    let groups = match split(&known.iter().map(|&(_, ns)| ns).collect::<Vec<_>>()) {
        Ok(groups) => groups,
        Err(unclear) => return Ok(Err(unclear.0)),
    };
    let slow: Vec<u64> = known.iter().filter(|k| k.1 > groups.limit).map(|k| k.0).collect();
    let mut fast: Vec<u64> = known.iter().filter(|k| k.1 <= groups.limit).map(|k| k.0).collect();
    fast.truncate(slow.len().max(32));
    let again = |probe: &mut P, offsets: &[u64]| -> Result<(Vec<u64>, Vec<f64>, LeftOut), Ended> {
        let (times, left_out) = times_of(probe, offsets)?;
        let known = medians(offsets, &times);
        let slow = known.iter().filter(|k| k.1 > groups.limit).map(|k| k.0).collect();
        Ok((slow, times.into_iter().flatten().collect(), left_out))
    };
    let (same, slow_times, out_slow) = again(probe, &slow)?;
    let (wrong, fast_times, out_fast) = again(probe, &fast)?;
    if same.len() * 20 < slow.len() * 17 || wrong.len() * 20 > fast.len() {
        return Ok(Err(format!(
            "of {} slow differences {} are slow again, of {} fast ones {}",
            slow.len(),
            same.len(),
            fast.len(),
            wrong.len()
        )));
    }
    let sampled = |times: Vec<f64>, out: LeftOut| {
        Sampled::of(times, left_out.and(out)).filter(|s| s.median.samples >= FEWEST)
    };
    match (sampled(fast_times, out_fast), sampled(slow_times, out_slow)) {
        (Some(hit), Some(conflict)) => Ok(Ok(Banks { same, hit, conflict })),
        _ => Ok(Err("too few pairs were timed without interrupts".to_owned())),
    }
}

/// Times of each offset, only of pieces that count.
type Times = Vec<Vec<f64>>;

fn times<P: Probe + ?Sized>(
    probe: &mut P,
    offsets: &[u64],
    rounds: usize,
) -> Result<(Times, LeftOut), Ended> {
    let (mut times, mut left_out) = (vec![Vec::new(); offsets.len()], LeftOut::default());
    for _ in 0..rounds {
        if probe.stopped() {
            return Err(Ended::Stopped);
        }
        for (times, Piece { ns, cause }) in times.iter_mut().zip(probe.pairs(offsets)) {
            match cause {
                Some(cause) => left_out.count(cause),
                None => times.push(ns),
            }
        }
    }
    Ok((times, left_out))
}

/// The times of all offsets, measured until intervals are possible.
fn times_of<P: Probe + ?Sized>(probe: &mut P, offsets: &[u64]) -> Result<(Times, LeftOut), Ended> {
    if offsets.is_empty() {
        return Err(Ended::Failed(MachineError::Machine(
            "dram.latency_max: no pair of pages was timed; free this CPU, or name another with \
                --cpu"
                .to_owned(),
        )));
    }
    times(probe, offsets, (64 / offsets.len()).clamp(ROUNDS, 64))
}

fn medians(offsets: &[u64], times: &Times) -> Vec<(u64, f64)> {
    let of = |(&offset, times): (&u64, &Vec<f64>)| Some((offset, Median::of(times.clone())?.value));
    offsets.iter().zip(times).filter_map(of).collect()
}
