//! The lines that a core fetches unasked (`solocore_cache::prefetch` chooses them).
//!
//! Rule, as on the virtual board: a miss of the first data cache that fetches its line lets the
//! prefetcher choose one, after the miss's own uses of the lower levels. A line that the second
//! level has is not fetched. Otherwise it comes into the second level; without one it comes into
//! the shared cache alone, for only operations fill the first level. It takes a miss register. It
//! is dropped if no register is free, if the core's write buffer could overflow, or if no cache
//! would keep it. The core never waits for it. All that it moves counts as accesses of the core.
//! Misses of instructions, of page walks and of whole-line stores choose no line.

use super::core::{How, MachineCore};
use super::key::ORDERED;
use super::{Machine, WRITE_BUFFER};
use crate::program::{OpKind, PageKind};
use solocore_cache::private::NONE;

/// Most lines that a prefetch can send to DRAM: a line that another core had dirty, and the victims
/// of two levels.
const WRITES: u32 = 3;

/// The kinds of operation whose misses fetch a line of data, as a bit mask.
const FETCHES: u32 = 1 << OpKind::Load as u32
    | 1 << OpKind::LoadWait as u32
    | 1 << OpKind::Store as u32
    | 1 << OpKind::Prefetch as u32;

impl MachineCore {
    /// The line to fetch after a miss of the first level, whose uses of the second are made.
    #[cold]
    #[inline(never)]
    pub(super) fn choose(&mut self, kind: OpKind, key: u64, ordered: bool) {
        if FETCHES >> (kind as u32) & 1 == 0 {
            return;
        }
        let Some(key) = self.prefetcher.as_mut().and_then(|p| p.next(key)) else { return };
        if !self.l2.as_ref().is_some_and(|l2| l2.holds(key)) {
            self.chosen = key | if ordered { ORDERED } else { 0 };
        }
    }
}

impl Machine {
    /// Fetches a line that the core's prefetcher chose.
    #[cold]
    #[inline(never)]
    pub(super) fn prefetch(&mut self, core: usize, event: u64) {
        let seat = &mut self.seats[core];
        let chosen = std::mem::replace(&mut seat.core.chosen, NONE);
        let (key, ordered) = (chosen & !ORDERED, chosen & ORDERED != 0);
        if seat.core.mshrs.is_full() || seat.writes_waiting > WRITE_BUFFER - WRITES {
            return;
        }
        let ways = seat.loaded.as_ref().map_or(0, |(_, loaded)| loaded.ways);
        let shared = self.kinds.kind(key) == PageKind::Cached && ways != 0;
        if seat.core.l2.is_none() && !shared {
            return;
        }
        if ordered {
            self.snoop(core, key, false);
        }
        let l2 = &mut self.seats[core].core.l2;
        let victim = l2.as_mut().map_or(NONE, |l2| l2.insert(key, false));
        self.read(core, event, key, How::Posted(false));
        if victim != NONE {
            self.write(core, victim);
        }
    }
}
