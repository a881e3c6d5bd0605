//! The part of a piece of memory that is in the cache: each line is timed.
//!
//! Problem: no interface shows whether a line is in a cache, but it must be checked that locked
//! pages stayed there. Rule: a load is a hit if it is faster than 98 of 100 loads of lines that
//! were just flushed. So at most some 2 % of the other lines are called resident, and slow hits
//! count as misses. If lines that were just read are not called hits, there is no result. One line
//! of a page is timed in a round, pages in random order: fetching a line fetches its neighbours,
//! and a second or third access to a page all of it. Another line of the page is read before, far
//! from it, for the address translation. Rounds time different lines, so that many rounds, each
//! after the memory was brought in again, time all. Source: single-core-equivalence, section 2.3
//! (its lockdown is verified by hit counts); the method is that of a flush-and-reload timing. Does
//! not cover: the level of the cache (a private one counts as well).

use crate::timing::{Clock, ticks};
use crate::walk::{Access, Random, pass};
use crate::{BufferError, LINE, Mapping, PAGE};

/// Largest share of flushed lines that may be called resident.
const FALSE_HITS: f64 = 0.02;
/// Least share of lines just read that must be called resident.
const TRUE_HITS: f64 = 0.9;
/// Lines of a page.
const LINES: usize = PAGE / LINE;
/// Lines on either side of the one for the translation that are not timed: they may have come with
/// it.
const NEAR: usize = 4;

/// Flushes lines from every cache; false: this CPU does not let programs do it.
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

/// Ticks of one load.
fn time_load(line: &[u8]) -> u64 {
    let begun = ticks();
    // SAFETY: the slice is not empty.
    let _ = unsafe { std::ptr::read_volatile(line.as_ptr()) };
    ticks().saturating_sub(begun)
}

/// Distinction of hits and misses on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    clock: Clock,
    /// Loads of fewer ticks are hits.
    ticks: u64,
    /// Share of lines just read that it calls misses.
    pub missed_hits: f64,
    /// Median of lines just read, ns.
    pub hit_ns: f64,
    /// Median of lines that were moved out of the private caches, ns; some of them have left the
    /// shared one as well.
    pub shared_ns: f64,
    /// Median of flushed lines, ns.
    pub miss_ns: f64,
}

/// Observations of a piece of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Residency {
    /// Lines that were timed.
    pub timed: u64,
    /// Timed lines that were hits.
    pub resident: u64,
    /// Mean time of all lines, ns.
    pub mean_ns: f64,
}

impl Residency {
    /// Share of hits, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.resident as f64 / self.timed.max(1) as f64
    }
}

/// The line for the translation and the one that is timed in a round.
fn lines_of(page: usize, round: usize) -> (usize, usize) {
    // 37 and 64 have no common divisor: 64 rounds time all lines.
    let timed = (page * 11 + round * 37) % LINES;
    let apart = NEAR + (page + round) % (LINES - 2 * NEAR);
    ((timed + apart) % LINES, timed)
}

fn time_pages(memory: &[u8], random: &mut Random, round: usize, mut seen: impl FnMut(u64)) {
    let mut pages: Vec<(usize, &[u8])> = memory.chunks_exact(PAGE).enumerate().collect();
    random.shuffle(&mut pages);
    for (number, page) in pages {
        let (translated, timed) = lines_of(number, round);
        time_load(&page[translated * LINE..]);
        seen(time_load(&page[timed * LINE..]));
    }
}

impl Threshold {
    /// Learns the threshold from a buffer of its own, in some tens of milliseconds. `private` is
    /// the size of the private caches.
    ///
    /// # Errors
    /// Lines cannot be flushed here, or hits and misses cannot be distinguished.
    pub fn learn(private: usize, seed: u64) -> Result<Self, BufferError> {
        let clock = Clock::measured();
        let mut random = Random::new(seed);
        let mut probe = Mapping::new(64 * PAGE)?;
        let mut other = Mapping::new((2 * private).clamp(1 << 20, 64 << 20))?;
        probe.fill(1);
        let (mut hits, mut shared, mut misses) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..32 {
            if !flush(&probe) {
                return Err(BufferError::Machine(
                    "this CPU does not let programs flush lines, so residency cannot be measured; \
                        use x86-64 or aarch64"
                        .to_owned(),
                ));
            }
            time_pages(&probe, &mut random, round, |t| misses.push(t));
            pass(&mut probe, Access::Read);
            time_pages(&probe, &mut random, round, |t| hits.push(t));
            if round % 8 == 0 {
                pass(&mut other, Access::Read);
                time_pages(&probe, &mut random, round, |t| shared.push(t));
            }
        }
        Self::of(clock, hits, shared, misses)
    }

    fn of(
        clock: Clock,
        mut hits: Vec<u64>,
        mut shared: Vec<u64>,
        mut misses: Vec<u64>,
    ) -> Result<Self, BufferError> {
        for samples in [&mut hits, &mut shared, &mut misses] {
            samples.sort_unstable();
        }
        let few = (misses.len() as f64 * FALSE_HITS) as usize;
        let limit = misses.get(few).copied().unwrap_or(0);
        let late = hits.len() - hits.partition_point(|&t| t < limit);
        let missed_hits = late as f64 / hits.len().max(1) as f64;
        let median = |of: &[u64]| clock.net_ns(of.get(of.len() / 2).copied().unwrap_or(0));
        let (hit_ns, shared_ns, miss_ns) = (median(&hits), median(&shared), median(&misses));
        if missed_hits > 1.0 - TRUE_HITS {
            return Err(BufferError::Machine(format!(
                "hits and misses cannot be distinguished on this machine: medians {hit_ns:.0} and {miss_ns:.0} \
                    ns, {:.0} % of the hits are slower than the fastest misses; try on an idle \
                    machine that is not virtual",
                100.0 * missed_hits
            )));
        }
        Ok(Self { clock, ticks: limit, missed_hits, hit_ns, shared_ns, miss_ns })
    }

    /// Times one line of each page; `round` chooses the line.
    #[must_use]
    pub fn measure(&self, memory: &[u8], seed: u64, round: usize) -> Residency {
        let (mut random, mut sum) = (Random::new(seed.wrapping_add(round as u64)), 0.0);
        let mut seen = Residency::default();
        time_pages(memory, &mut random, round, |t| {
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
    fn few_flushed_lines_are_called_resident() {
        let clock = Clock::measured();
        let misses: Vec<u64> = (0..100).map(|n| 400 + n).collect();
        let far = Threshold::of(clock, vec![100; 100], vec![200; 100], misses.clone()).unwrap();
        assert_eq!((far.ticks, far.missed_hits), (402, 0.0), "two of a hundred are below");
        let some = (0..100).map(|n| if n < 5 { 900 } else { 100 }).collect();
        assert!(
            (Threshold::of(clock, some, vec![200; 100], misses.clone()).unwrap().missed_hits
                - 0.05)
                .abs()
                < 1e-9
        );
        let error =
            Threshold::of(clock, misses.clone(), vec![200; 100], misses).unwrap_err().to_string();
        assert!(error.contains("cannot be distinguished") && error.contains(';'), "{error}");
        assert!(
            Threshold::of(clock, Vec::new(), Vec::new(), Vec::new()).is_ok_and(|t| t.ticks == 0),
            "nothing is a hit"
        );
    }

    #[test]
    fn rounds_time_different_lines_far_from_the_first() {
        for page in 0..3 {
            let mut timed: Vec<usize> = (0..64).map(|round| lines_of(page, round).1).collect();
            for round in 0..64 {
                let (translated, timed) = lines_of(page, round);
                let apart = (translated + 64 - timed) % 64;
                assert!((NEAR..=64 - NEAR).contains(&apart), "{translated} and {timed}");
            }
            timed.sort_unstable();
            assert!(timed.into_iter().eq(0..64), "64 rounds time every line");
        }
    }

    /// On machines where it can be measured: flushed lines are misses, and lines just read are
    /// hits.
    #[test]
    fn flushed_lines_are_out_and_read_ones_are_in() {
        let Ok(threshold) = Threshold::learn(1 << 20, 1) else {
            eprintln!("skipped: hits and misses cannot be distinguished here");
            return;
        };
        let mut memory = Mapping::new(32 * PAGE).unwrap();
        memory.fill(1);
        // Other programs run beside; one of several tries is quiet.
        let tries: Vec<(f64, f64)> = (0..10)
            .map(|round| {
                let seed = 1;
                pass(&mut memory, Access::Read);
                let inside = threshold.measure(&memory, seed, round);
                flush(&memory);
                let outside = threshold.measure(&memory, seed, round);
                assert_eq!(inside.timed, 32);
                (inside.share(), outside.share())
            })
            .collect();
        assert!(tries.iter().any(|&(inside, outside)| inside > 0.9 && outside < 0.1), "{tries:?}");
    }
}
