//! Accesses one by one, and pages by turns.
//!
//! Rule: a line that must come from memory is flushed from the caches, or evicted by a pass through
//! another region. The accesses that open a row of its bank, or fill the write queue, come between.
//! The clock waits for all accesses before it. Where time is emulated, it is right only over many
//! accesses that wait for each other, or after a while without accesses. So chains of pairs are
//! longer there, and a single access lies between two rests. The time of the same sequence with a
//! line of the first level in the access's place is subtracted.

use super::{Machine, rounds};
use crate::measure::Probe;
use crate::measure::probe::{Access, Case, Piece};
use solocore_buffers::median::Median;
use solocore_buffers::thread::fence;
use solocore_buffers::timing::ticks;
use solocore_buffers::{HUGE, PAGE};
use std::collections::BTreeSet;

/// Single accesses between two readings of the counters.
const GROUP: usize = 8;
/// Lines of a page that a pair of pages uses, at most.
const OF_PAGE: usize = 32;
/// Accesses to the first level for the time that is subtracted.
const BASE: usize = 3;

impl Machine {
    /// Lines of a page, a power of two.
    fn page_lines(&self) -> usize {
        PAGE / self.lines.line()
    }

    /// Lines of a page that a pair of pages uses.
    pub(super) fn columns(&self) -> usize {
        (self.page_lines() / 2).min(OF_PAGE)
    }

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

    /// A line of the targets, and the one with this offset; both even, in one huge page, or in two
    /// with this difference.
    fn partners(&mut self, offset: u64) -> (usize, usize) {
        let of_huge = HUGE / self.lines.line();
        let pages = (self.targets.len() / of_huge).max(1);
        let within = offset % HUGE as u64;
        let pair = self.far.pair(offset - within, &mut self.random);
        let (first, second) = pair.unwrap_or_else(|| {
            let page = self.random.below(pages);
            (page, page)
        });
        let base = self.random.below(of_huge) & !1;
        let bits = usize::try_from(within).unwrap_or(0) / self.lines.line();
        let line = |page: usize, line: usize| self.targets.start + page * of_huge + line;
        (line(first, base), line(second, base ^ bits & (of_huge - 2)))
    }

    /// See [`crate::measure::Probe::single`].
    pub(super) fn time_single(&mut self, case: Case, times: usize) -> Vec<Piece> {
        let pairs: Vec<_> = (0..times).map(|_| self.partners(case.offset)).collect();
        if self.emulated && self.flushes {
            return self.time_rested(case, &pairs);
        }
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

    /// Accesses between rests.
    fn time_rested(&mut self, case: Case, pairs: &[(usize, usize)]) -> Vec<Piece> {
        let of = |m: &mut Self, pair: &(usize, usize), alone: bool| {
            let mut ns = 0.0;
            let piece = m.piece(|m| {
                // Reading the counters has evicted this program's text.
                m.rested(case, pair.0, pair.1, false);
                ns = m.rested(case, pair.0, pair.1, alone);
                0.0
            });
            Piece { ns, ..piece }
        };
        let like = Case { offset: 0, ..case };
        if !self.bases.iter().any(|b| b.0 == like) {
            let base = (0..10 * BASE)
                .map(|n| of(self, &pairs[n % pairs.len()], false))
                .filter_map(|piece| piece.cause.is_none().then_some(piece.ns))
                .take(BASE);
            let Some(base) = Median::of(base.collect()) else { return Vec::new() };
            // A piece has a first-level hit in it.
            let hit = Median::of((0..BASE).map(|_| self.level(self.first).ns).collect());
            self.bases.push((like, base.value - hit.map_or(0.0, |hit| hit.value)));
        }
        let base = self.bases.iter().find(|b| b.0 == like).map_or(0.0, |b| b.1);
        pairs
            .iter()
            .map(|pair| of(self, pair, true))
            .map(|piece| Piece { ns: piece.ns - base, ..piece })
            .collect()
    }

    /// Every other line of a page from this one on, round and round, in each row by turns: those of
    /// the writes of a case. Two lines of 32 bytes may be one write of the memory.
    fn burst(&self, case: Case, other: usize) -> impl Fn(usize) -> usize + Copy + use<> {
        let (mask, line) = (self.page_lines() - 1, self.lines.line());
        let (shift, rows) = (case.row_count().trailing_zeros(), case.row_count() - 1);
        #[allow(clippy::cast_possible_truncation, reason = "within a huge page")]
        let row = move |n: usize| case.row(n) as usize / line;
        move |n| (other & !mask | (other + 2 * (n >> shift)) & mask) ^ row(n & rows)
    }

    /// One access after its case, between two rests; `memory`: or one to the first level.
    fn rested(&mut self, case: Case, base: usize, other: usize, memory: bool) -> f64 {
        let (writes, burst) = (case.writes as usize, self.burst(case, other));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let gap = (f64::from(case.gap_ns) / self.round_ns) as usize;
        let near = self.targets.start;
        // A controller that was idle may hold a single write back: a load comes before.
        let first = near + 2;
        self.lines.flush([base, other, first].into_iter());
        for n in 0..writes {
            self.lines.write(burst(n));
        }
        self.lines.write(near);
        fence();
        super::rest();
        let line = if memory { base } else { near };
        let begin = ticks();
        if writes == 0 {
            self.lines.read(other);
        } else {
            self.lines.read(first);
            self.lines.flush((0..writes).map(burst));
        }
        fence();
        rounds(gap);
        match case.access {
            Access::Read => self.lines.read(line),
            Access::Write => self.lines.write(line),
        }
        fence();
        super::rest();
        self.clock.ns(ticks() - begin)
    }

    /// One access after its case.
    fn one(&mut self, case: Case, base: usize, other: usize) -> f64 {
        let (writes, burst) = (case.writes as usize, self.burst(case, other));
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
                // Odd lines belong to no chain: this brings the translations.
                self.lines.read(chain[0] | 1);
                self.lines.read(chain[1] | 1);
                let mut at = [self.lines.address(chain[0])];
                // An emulated clock shows the time of accesses some windows later.
                let lead = if self.emulated { (chain.len() / 2) & !1 } else { 0 };
                let piece = self.piece(|m| {
                    m.lines.follow(&mut at, lead);
                    let begin = ticks();
                    m.lines.follow(&mut at, chain.len() - lead);
                    m.clock.net_ns(ticks() - begin) / (chain.len() - lead) as f64
                });
                all.push(piece);
            }
        }
        all
    }

    /// Chains for the first of these offsets: one alone where lines are flushed one by one, else as
    /// many as have pages of their own.
    fn chains_of_pairs(&mut self, offsets: &[u64]) -> Vec<Vec<usize>> {
        let (mut taken, mut chains) = (BTreeSet::new(), Vec::new());
        let most = if self.flushes { 1 } else { offsets.len() };
        for &offset in offsets.iter().take(most) {
            let mut chain = Vec::new();
            while chain.len() < self.turns * 2 * OF_PAGE {
                let Some(pages) = self.free_pages(offset, &mut taken) else { break };
                let of_page = self.page_lines();
                let mut columns: Vec<usize> = (0..of_page).filter(|c| c % 2 == 0).collect();
                self.random.shuffle(&mut columns);
                columns.truncate(self.columns());
                chain.extend(columns.iter().flat_map(|c| pages.map(|p| p * of_page + c)));
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
        let of_page = self.page_lines();
        let pages = (0..TRIES)
            .map(|_| {
                let (base, other) = self.partners(offset);
                [base / of_page, other / of_page]
            })
            .find(|pages| pages.iter().all(|page| !taken.contains(page)))?;
        taken.extend(pages);
        Some(pages)
    }
}
