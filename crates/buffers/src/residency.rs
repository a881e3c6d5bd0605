//! How much of a piece of memory is in the cache: each line timed.
//!
//! Problem: no interface says whether a line is in a cache; that locked pages stayed there has to be seen.
//! Rule: a load that takes less than a threshold hit. The threshold is the one that tells lines that were just read (and pushed out of
//! the first-level cache) from lines that were just flushed with the fewest mistakes, on this machine; where it makes more than one
//! mistake in twenty, nothing is said. One line of each pair of neighbours is timed, as fetching one may fetch the other; a
//! pair of each page is given up to the address translation; the order is random.
//! Source: single-core-equivalence, section 2.3 (its lockdown is verified by hit counts); the method is that of a flush-and-reload timing.
//! Does not cover: which cache it hit (a private one counts as well); timing a line brings it in, so a page is timed once per question.

use crate::timing::{Clock, ticks};
use crate::walk::Random;
use crate::{BufferError, LINE, Mapping, PAGE};

/// Mistakes in a hundred beyond which hits and misses cannot be told apart.
const MOST_MISTAKES: f64 = 0.05;
/// Lines of a pair that one fetch may bring.
const PAIR: usize = 2;

/// Takes lines out of every cache; false: this processor does not let programs.
pub fn flush(memory: &[u8]) -> bool {
    for line in memory.chunks(LINE) {
        if !flush_line(line.as_ptr()) {
            return false;
        }
    }
    fence();
    true
}

#[cfg(target_arch = "x86_64")]
fn flush_line(line: *const u8) -> bool {
    // SAFETY: every x86-64 has it, and the line is mapped.
    unsafe { std::arch::x86_64::_mm_clflush(line) };
    true
}

#[cfg(target_arch = "aarch64")]
fn flush_line(line: *const u8) -> bool {
    // SAFETY: Linux lets programs do it, and the line is mapped.
    unsafe { std::arch::asm!("dc civac, {}", in(reg) line) };
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn flush_line(_: *const u8) -> bool {
    false
}

fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Ticks that one load takes.
fn time_load(line: &[u8]) -> u64 {
    let begun = ticks();
    // SAFETY: the slice is not empty.
    let _ = unsafe { std::ptr::read_volatile(line.as_ptr()) };
    ticks().saturating_sub(begun)
}

/// How hits are told from misses here.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    clock: Clock,
    /// Loads of fewer ticks are hits.
    ticks: u64,
    /// Share of mistakes that it makes.
    pub mistakes: f64,
    /// Median of loads that hit, ns.
    pub hit_ns: f64,
    /// Median of loads that miss, ns.
    pub miss_ns: f64,
}

/// What was seen of a piece of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Residency {
    /// Lines that were timed.
    pub timed: u64,
    /// Of these, so many hit.
    pub resident: u64,
    /// Mean of all.
    pub mean_ns: f64,
}

impl Residency {
    /// Between 0 and 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.resident as f64 / self.timed.max(1) as f64
    }
}

/// Which lines of a page are timed: the first pair is for the translation, of each other pair one line.
fn order(random: &mut Random) -> Vec<usize> {
    let pairs = PAGE / LINE / PAIR;
    let mut lines: Vec<usize> = (1..pairs).map(|pair| pair * PAIR + random.below(PAIR)).collect();
    random.shuffle(&mut lines);
    lines
}

fn time_pages(memory: &[u8], random: &mut Random, mut seen: impl FnMut(u64)) {
    let mut pages: Vec<&[u8]> = memory.chunks_exact(PAGE).collect();
    random.shuffle(&mut pages);
    for page in pages {
        time_load(page);
        for line in order(random) {
            seen(time_load(&page[line * LINE..]));
        }
    }
}

/// The number of ticks with which the fewest of both are on the wrong side, and how many that are.
fn best_threshold(hits: &mut [u64], misses: &mut [u64]) -> (u64, usize) {
    hits.sort_unstable();
    misses.sort_unstable();
    let mistakes = |limit: u64| {
        let late = hits.len() - hits.partition_point(|&t| t < limit);
        late + misses.partition_point(|&t| t < limit)
    };
    let candidates = hits.iter().map(|&t| t + 1).chain(misses.iter().copied());
    candidates.map(|limit| (limit, mistakes(limit))).min_by_key(|&(limit, wrong)| (wrong, limit)).unwrap_or((0, 0))
}

impl Threshold {
    /// Learns it from a buffer of its own, in some tens of milliseconds. `larger_than` is the size of the private caches, which
    /// the lines that hit should have left.
    ///
    /// # Errors
    /// Lines cannot be flushed here, or hits and misses cannot be told apart.
    pub fn learn(larger_than: usize, seed: u64) -> Result<Self, BufferError> {
        let clock = Clock::measured();
        let mut random = Random::new(seed);
        let mut probe = Mapping::new(64 * PAGE)?;
        let mut other = Mapping::new((2 * larger_than).clamp(1 << 20, 64 << 20))?;
        probe.fill(1);
        let (mut hits, mut misses) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            if !flush(&probe) {
                return Err(BufferError::Machine(
                    "this processor lets programs flush no lines, so residency cannot be measured; use x86-64 or aarch64".to_owned(),
                ));
            }
            time_pages(&probe, &mut random, |t| misses.push(t));
            // All of it is in the cache now; the private ones get other lines.
            crate::walk::pass(&mut probe, crate::walk::Access::Read);
            crate::walk::pass(&mut other, crate::walk::Access::Read);
            time_pages(&probe, &mut random, |t| hits.push(t));
        }
        Self::of(clock, hits, misses)
    }

    fn of(clock: Clock, mut hits: Vec<u64>, mut misses: Vec<u64>) -> Result<Self, BufferError> {
        let (limit, wrong) = best_threshold(&mut hits, &mut misses);
        let mistakes = wrong as f64 / (hits.len() + misses.len()).max(1) as f64;
        let median = |of: &[u64]| clock.net_ns(of.get(of.len() / 2).copied().unwrap_or(0));
        let (hit_ns, miss_ns) = (median(&hits), median(&misses));
        if mistakes > MOST_MISTAKES || miss_ns <= hit_ns {
            return Err(BufferError::Machine(format!(
                "hits and misses cannot be told apart here: medians {hit_ns:.0} and {miss_ns:.0} ns, {:.0} % mistaken; try on an idle machine that is not virtual",
                100.0 * mistakes
            )));
        }
        Ok(Self { clock, ticks: limit, mistakes, hit_ns, miss_ns })
    }

    /// Times one line of each pair. Afterwards all of them are in the cache.
    #[must_use]
    pub fn measure(&self, memory: &[u8], seed: u64) -> Residency {
        let (mut random, mut sum) = (Random::new(seed), 0.0);
        let mut seen = Residency::default();
        time_pages(memory, &mut random, |t| {
            seen.timed += 1;
            seen.resident += u64::from(t < self.ticks);
            sum += self.clock.net_ns(t);
        });
        seen.mean_ns = sum / seen.timed.max(1) as f64;
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_makes_the_fewest_mistakes() {
        assert_eq!(best_threshold(&mut [10, 12, 11], &mut [50, 60, 55]), (13, 0));
        assert_eq!(best_threshold(&mut [10, 11, 70], &mut [50, 60, 55]), (12, 1));
        assert_eq!(best_threshold(&mut [], &mut []), (0, 0));
        let clock = Clock::measured();
        let far = Threshold::of(clock, vec![100; 100], vec![400; 100]).unwrap();
        assert!(far.ticks == 101 && far.mistakes == 0.0);
        let error = Threshold::of(clock, vec![100; 100], vec![100; 100]).unwrap_err().to_string();
        assert!(error.contains("cannot be told apart") && error.contains(';'), "{error}");
        assert!(Threshold::of(clock, vec![400; 100], vec![100; 100]).is_err(), "the wrong way round");
    }

    #[test]
    fn a_line_of_each_pair_but_the_first() {
        let mut lines = order(&mut Random::new(1));
        lines.sort_unstable();
        assert_eq!(lines.len(), 31);
        for (at, line) in lines.into_iter().enumerate() {
            assert_eq!(line / 2, at + 1);
        }
    }

    /// Where it can be measured at all: what was flushed is out, what was read is in.
    #[test]
    fn flushed_lines_are_out_and_read_ones_are_in() {
        let Ok(threshold) = Threshold::learn(1 << 20, 1) else {
            eprintln!("skipped: hits and misses cannot be told apart here");
            return;
        };
        let mut memory = Mapping::new(32 * PAGE).unwrap();
        memory.fill(1);
        // Others run beside; one of several tries is quiet.
        let tries: Vec<(f64, f64)> = (0..10)
            .map(|seed| {
                crate::walk::pass(&mut memory, crate::walk::Access::Read);
                let inside = threshold.measure(&memory, seed);
                flush(&memory);
                let outside = threshold.measure(&memory, seed);
                assert_eq!(inside.timed, 32 * 31);
                (inside.share(), outside.share())
            })
            .collect();
        assert!(tries.iter().any(|&(inside, outside)| inside > 0.9 && outside < 0.1), "{tries:?}");
    }
}
