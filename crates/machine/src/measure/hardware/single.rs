//! Accesses one by one, and pages by turns.
//!
//! Rule: a line that is to come from memory is put out of the caches, or was by a pass through
//! another region. What opens a row of its bank, or fills the write queue, comes between. The clock
//! waits for all accesses before it. Where time is emulated, it is right only over many accesses that
//! wait for each other: chains of pairs are longer there, and no access is timed alone.

use super::Machine;
use crate::measure::probe::{Access, Case, Piece};
use solocore_buffers::thread::fence;
use solocore_buffers::timing::ticks;
use solocore_buffers::{HUGE, LINE, PAGE};
use std::collections::BTreeSet;

/// Singles between two readings of the counters.
const GROUP: usize = 8;
/// Lines of a page that a pair of pages takes.
const OF_PAGE: usize = 32;
const PAGE_LINES: usize = PAGE / LINE;

impl Machine {
    /// Ticks of a write to a line of the first level, the fence included: the least of many.
    pub(super) fn least_write(&mut self) -> u64 {
        let line = self.targets.start;
        let mut time = || {
            let begin = ticks();
            self.lines.write(line);
            fence();
            ticks() - begin
        };
        (0..1000).map(|_| time()).min().unwrap_or(0)
    }

    /// A line of the targets, and the one with this offset; both even, in one huge page.
    fn partners(&mut self, offset: u64) -> (usize, usize) {
        let of_huge = HUGE / LINE;
        let pages = (self.targets.len() / of_huge).max(1);
        let first = self.targets.start + self.random.below(pages) * of_huge;
        let base = self.random.below(of_huge) & !1;
        let bits = usize::try_from(offset).unwrap_or(0) / LINE;
        (first + base, first + (base ^ bits & (of_huge - 2)))
    }

    /// See [`crate::measure::Probe::single`].
    pub(super) fn time_single(&mut self, case: Case, times: usize) -> Vec<Piece> {
        let pairs: Vec<_> = (0..times).map(|_| self.partners(case.offset)).collect();
        let ring = self.ring.clone();
        self.evict_by(ring);
        let mut all = Vec::with_capacity(times);
        for group in pairs.chunks(GROUP) {
            let mut found = Vec::with_capacity(GROUP);
            let watched = self.piece(|m| {
                found.extend(group.iter().map(|&(base, other)| m.one(case, base, other)));
                0.0
            });
            all.extend(found.into_iter().map(|ns| Piece { ns, cause: watched.cause }));
        }
        all
    }

    /// One access after its case.
    fn one(&mut self, case: Case, base: usize, other: usize) -> f64 {
        let page = other / PAGE_LINES * PAGE_LINES;
        let burst = |n: usize| page + (other + n) % PAGE_LINES;
        let writes = case.writes as usize;
        if self.flushes {
            // This brings the translations.
            self.lines.read(base);
            self.lines.read(other);
            self.lines.flush([base, other].into_iter());
        }
        if writes == 0 {
            self.lines.read(other);
        } else {
            for n in 0..writes {
                self.lines.write(burst(n));
            }
            self.lines.flush((0..writes).map(burst));
        }
        fence();
        let ready = ticks();
        while self.clock.ns(ticks() - ready) < f64::from(case.gap_ns) {}
        let begin = ticks();
        if case.access == Access::Read {
            self.lines.read(base);
            return self.clock.net_ns(ticks() - begin);
        }
        self.lines.write(base);
        fence();
        self.clock.ns((ticks() - begin).saturating_sub(self.write_ticks))
    }

    /// See [`crate::measure::Probe::pairs`].
    pub(super) fn time_pairs(&mut self, offsets: &[u64]) -> Vec<Piece> {
        let mut all = Vec::with_capacity(offsets.len());
        self.linked = super::Linked::Nothing;
        while all.len() < offsets.len() {
            if (self.stopped)() {
                break;
            }
            let chains = self.chains_of_pairs(&offsets[all.len()..]);
            for chain in &chains {
                self.lines.link(chain);
            }
            let ring = self.ring.clone();
            self.evict_by(ring);
            for chain in chains {
                if self.flushes {
                    self.lines.flush(chain.iter().copied());
                }
                // Odd lines are nobody's: this brings the translations.
                self.lines.read(chain[0] | 1);
                self.lines.read(chain[1] | 1);
                let mut at = [self.lines.address(chain[0])];
                let piece = self.piece(|m| {
                    let begin = ticks();
                    m.lines.follow(&mut at, chain.len());
                    m.clock.net_ns(ticks() - begin) / chain.len() as f64
                });
                all.push(piece);
            }
        }
        all
    }

    /// Chains for the first of these offsets: one alone where lines are put out one by one, else as
    /// many as find pages that no other has.
    fn chains_of_pairs(&mut self, offsets: &[u64]) -> Vec<Vec<usize>> {
        let (mut taken, mut chains) = (BTreeSet::new(), Vec::new());
        let most = if self.flushes { 1 } else { offsets.len() };
        for &offset in offsets.iter().take(most) {
            let mut chain = Vec::new();
            while chain.len() < self.turns * 2 * OF_PAGE {
                let Some(pages) = self.free_pages(offset, &mut taken) else { break };
                let mut columns: Vec<usize> = (0..PAGE_LINES).filter(|c| c % 2 == 0).collect();
                self.random.shuffle(&mut columns);
                columns.truncate(OF_PAGE);
                chain.extend(columns.iter().flat_map(|c| pages.map(|p| p * PAGE_LINES + c)));
            }
            // A region that is too small for one whole chain has a shorter one.
            if chain.is_empty() || chain.len() < self.turns * 2 * OF_PAGE && !chains.is_empty() {
                break;
            }
            chains.push(chain);
        }
        chains
    }

    /// Two pages with this offset that no chain has yet.
    fn free_pages(&mut self, offset: u64, taken: &mut BTreeSet<usize>) -> Option<[usize; 2]> {
        const TRIES: usize = 64;
        let pages = (0..TRIES)
            .map(|_| {
                let (base, other) = self.partners(offset);
                [base / PAGE_LINES, other / PAGE_LINES]
            })
            .find(|pages| pages.iter().all(|page| !taken.contains(page)))?;
        taken.extend(pages);
        Some(pages)
    }
}
