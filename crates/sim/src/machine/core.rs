//! A core: runs its program through its private caches until it needs something shared.
//!
//! Rule: time is counted in core cycles. Between two uses of the shared cache no other core can
//! affect it, so the core runs on by itself, up to the limit that the machine sets. It stops where
//! it needs the shared cache ([`Stop::Shared`]), data that are under way, or room in its window.
//! Once it has computed `window` cycles past the issue of its oldest unfinished posted load, it
//! waits for that load. Lines are in the private caches from the moment they are asked for; an
//! access to one that is still under way joins its miss register. A fill asks the second level
//! first; its evicted line follows, then the line evicted from the first level, as in the cache
//! model of the profiler. The line that a prefetcher chooses comes last.

use super::config::Translation;
use super::key::{DIRECT_KIND, Kinds, ORDERED};
use super::loaded::Loaded;
use super::mshrs::Mshrs;
use super::pages::Pages;
use crate::hardware::Counters;
use crate::program::OpKind;
use solocore_cache::prefetch::{Prefetcher, PrefetcherKind};
use solocore_cache::private::{NONE, Private};

/// A use of the shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Other cores' copies of an ordered line: `true` for a write.
    Snoop(bool),
    /// A fill.
    Read(How),
    /// A dirty or whole line.
    Write,
}

/// Purpose of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The core waits.
    Wait,
    /// A load; the core does not wait for it.
    Load,
    /// A store or a prefetch; `true`: a store straight into the shared cache, which becomes dirty.
    Posted(bool),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub key: u64,
    pub what: What,
}

/// Most uses of the shared cache by one access: a snoop, a fill, a line from each private level.
pub(super) const PENDING: usize = 4;

/// Reason for which a core stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It may not go further yet; its next access, or the end of its window, is at this cycle.
    Later(u64),
    /// It needs the shared cache at this cycle.
    Shared(u64),
    /// It waits for the data of a miss register.
    Line(u8),
    /// It waits for its oldest load.
    Window,
    /// It reached a signal.
    Signal,
}

pub(super) struct MachineCore {
    /// Cycle up to which its operations have been carried out.
    pub cycle: u64,
    /// Cycles of computation.
    pub computed: u64,
    /// Cycle up to which it may compute before the data of its oldest load arrive.
    window_limit: u64,
    window: u64,
    /// Purpose of a fill, and whether the core waits for data, by kind of operation: tables, as
    /// kinds alternate.
    hows: [How; 8],
    waits: u32,
    l2_latency: u64,
    page_shift: u32,
    page_mask: u64,
    kinds: Kinds,
    pub l1i: Private,
    pub l1d: Private,
    pub l2: Option<Private>,
    pub mshrs: Mshrs,
    /// One entry more than the maximum: it is written without effect.
    pub pending: [Pending; PENDING + 1],
    pub pending_count: usize,
    /// Register of the data that the core waits for after the pending uses.
    pub then_wait: Option<u8>,
    /// Boxed, and none where it is off: cores without one stay small.
    pub prefetcher: Option<Box<Prefetcher>>,
    /// The line to fetch after the pending uses, with [`ORDERED`] if others use its page; [`NONE`]:
    /// there is none.
    pub chosen: u64,
    /// The pages whose translation it has, if that is modelled.
    pub translation: Option<Box<Pages>>,
    /// Counters of this program on this core since it was dispatched; time and computation are
    /// added at its end.
    pub live: Counters,
}

/// The key of a page. Programs keep to their pages; other numbers go to the first page.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "page numbers have at most 40 bits")]
fn page_of(pages: &[u64], page: u64) -> u64 {
    match pages.get(page as usize) {
        Some(&key) => key,
        None => first(pages),
    }
}

#[cold]
fn first(pages: &[u64]) -> u64 {
    pages.first().copied().unwrap_or(0)
}

/// Purpose of a fill, by kind of operation.
fn hows(window: u64) -> [How; 8] {
    let mut hows = [How::Wait; 8];
    if window > 0 {
        hows[OpKind::Load as usize] = How::Load;
    }
    hows[OpKind::Store as usize] = How::Posted(false);
    hows[OpKind::Prefetch as usize] = How::Posted(false);
    hows
}

/// The kinds of operation whose data the core waits for, as a bit mask.
fn waits(window: u64) -> u32 {
    1 << OpKind::LoadWait as u32
        | 1 << OpKind::Fetch as u32
        | u32::from(window == 0) << OpKind::Load as u32
}

/// Constants of a core.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreShape {
    pub window: u64,
    pub mshrs: u32,
    pub l2_latency: u64,
    pub page_shift: u32,
    pub kinds: Kinds,
    pub prefetcher: PrefetcherKind,
    pub translation: Option<Translation>,
}

impl MachineCore {
    pub fn new(shape: CoreShape, l1i: Private, l1d: Private, l2: Option<Private>) -> Self {
        Self {
            cycle: 0,
            computed: 0,
            window_limit: u64::MAX,
            window: shape.window,
            hows: hows(shape.window),
            waits: waits(shape.window),
            l2_latency: shape.l2_latency,
            page_shift: shape.page_shift,
            page_mask: (1 << shape.page_shift) - 1,
            kinds: shape.kinds,
            l1i,
            l1d,
            l2,
            mshrs: Mshrs::new(shape.mshrs),
            pending: [Pending { key: 0, what: What::Write }; PENDING + 1],
            pending_count: 0,
            then_wait: None,
            prefetcher: (shape.prefetcher != PrefetcherKind::Off)
                .then(|| Box::new(Prefetcher::new(shape.prefetcher, shape.page_shift))),
            chosen: NONE,
            translation: shape.translation.map(|t| Box::new(Pages::new(t))),
            live: Counters::default(),
        }
    }

    #[inline]
    fn push(&mut self, key: u64, what: What) {
        self.push_if(true, key, what);
    }

    /// Without a branch: no CPU predicts whether a dirty line is evicted.
    #[inline(always)]
    fn push_if(&mut self, needed: bool, key: u64, what: What) {
        self.pending[self.pending_count.min(PENDING)] = Pending { key, what };
        self.pending_count += usize::from(needed);
    }

    /// Runs to the next stop. Accesses beyond cycle `limit` are left, ordered ones beyond `now`.
    /// Two instances, so that a core without a translation buffer does not ask for one at each
    /// access.
    pub fn run<const TRANSLATES: bool>(
        &mut self,
        program: &mut Loaded,
        now: u64,
        limit: u64,
    ) -> Stop {
        loop {
            if let Some(stop) = self.stretch::<TRANSLATES>(program, limit) {
                return stop;
            }
            let Some(&op) = program.ops.get(program.at) else {
                program.refill();
                continue;
            };
            let gap = op.cycles();
            if self.computed + gap >= self.window_limit {
                let left = self.window_limit - self.computed;
                let stall = self.cycle + left;
                if stall > limit {
                    return Stop::Later(stall);
                }
                program.computed(left);
                self.cycle = stall;
                self.computed += left;
                return Stop::Window;
            }
            let when = self.cycle + gap;
            if when > limit {
                return Stop::Later(when);
            }
            let kind = op.kind();
            match kind {
                OpKind::Compute => {
                    (self.cycle, self.computed, program.at) =
                        (when, self.computed + gap, program.at + 1);
                    continue;
                }
                OpKind::Signal => return Stop::Signal,
                _ => {}
            }
            let line = op.line();
            let page = page_of(&program.pages, line >> self.page_shift);
            if page & ORDERED != 0 && when > now {
                return Stop::Later(when);
            }
            if TRANSLATES && !self.has_page(kind == OpKind::Fetch || program.direct, line) {
                let number = line >> self.page_shift;
                let entry = page_of(&program.entries, number);
                program.computed(gap);
                (self.cycle, self.computed) = (when, self.computed + gap);
                match self.walk(number, entry) {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
            (self.cycle, self.computed, program.at) = (when, self.computed + gap, program.at + 1);
            self.live.accesses += 1;
            let key = (page & !ORDERED & !DIRECT_KIND) + (line & self.page_mask);
            if let Some(stop) = self.special(kind, key, page, program.direct) {
                return stop;
            }
        }
    }

    /// Is the page of an access translated? Accesses of some kinds need no translation.
    #[inline(always)]
    fn has_page(&mut self, needs_none: bool, line: u64) -> bool {
        let page = line >> self.page_shift;
        needs_none || self.translation.as_mut().is_none_or(|pages| pages.hit(page))
    }

    /// Operations on pages of this program alone, until [`MachineCore::run`] must act: no time
    /// left, a signal, another page, a page without translation, the end of the buffer.
    #[inline(always)]
    fn stretch<const TRANSLATES: bool>(
        &mut self,
        program: &mut Loaded,
        limit: u64,
    ) -> Option<Stop> {
        if program.direct {
            return None;
        }
        let (ops, pages) = (program.ops.as_slice(), program.pages.as_slice());
        loop {
            if self.cycle > limit || self.computed >= self.window_limit {
                return None;
            }
            // Cycles that may pass, and cycles that have passed, before the next miss or wait.
            let most = (limit - self.cycle).min(self.window_limit - self.computed - 1);
            let (mut passed, first, mut at) = (0, program.at, program.at);
            let mut computations = 0;
            let missed = loop {
                let Some(&op) = ops.get(at) else { break None };
                if !op.is_access() {
                    let cycles = op.cycles();
                    if op.kind() == OpKind::Signal || passed + cycles > most {
                        break None;
                    }
                    (passed, at, computations) = (passed + cycles, at + 1, computations + 1);
                    continue;
                }
                let gap = op.gap();
                if passed + gap > most {
                    break None;
                }
                let page = page_of(pages, op.line() >> self.page_shift);
                if page >= DIRECT_KIND {
                    break None;
                }
                if TRANSLATES && !self.has_page(op.is_fetch(), op.line()) {
                    break None;
                }
                (passed, at) = (passed + gap, at + 1);
                let key = page + (op.line() & self.page_mask);
                let l1 = if op.is_fetch() { &mut self.l1i } else { &mut self.l1d };
                if !l1.hit(key, op.writes()) {
                    break Some((op.kind(), key, false));
                }
                if self.mshrs.may_have(key) {
                    break Some((op.kind(), key, true));
                }
            };
            program.at = at;
            self.cycle += passed;
            self.computed += passed;
            self.live.accesses += (at - first - computations) as u64;
            let (kind, key, hit) = missed?;
            let stop = if hit { self.join(kind, key) } else { self.miss(kind, key) };
            if stop.is_some() {
                return stop;
            }
        }
    }

    /// A hit on a line whose data may be under way.
    pub(super) fn join(&mut self, kind: OpKind, key: u64) -> Option<Stop> {
        let register = self.mshrs.find(key)?;
        if self.waits(kind) {
            return Some(Stop::Line(register));
        }
        if kind == OpKind::Load {
            self.load_waits_for(register);
        }
        None
    }

    /// Does the core wait for the data of such an access?
    #[inline]
    fn waits(&self, kind: OpKind) -> bool {
        self.waits >> (kind as u32) & 1 == 1
    }

    /// A posted load needs the data of a register: it counts against the window.
    pub fn load_waits_for(&mut self, register: u8) {
        if self.mshrs.loads >> register & 1 == 0 {
            self.mshrs.loads |= 1 << register;
            self.mshrs.issued[usize::from(register) & 63] = self.computed;
            self.window_limit = self.window_limit.min(self.computed + self.window);
        }
    }

    /// A miss of the first level.
    fn miss(&mut self, kind: OpKind, key: u64) -> Option<Stop> {
        let write = matches!(kind, OpKind::Store | OpKind::StoreLine);
        let l1 = if kind == OpKind::Fetch { &mut self.l1i } else { &mut self.l1d };
        let victim = l1.insert(key, write);
        self.pending_count = 0;
        self.miss_pending(kind, key, victim, false)
    }

    /// A miss of the first level, which evicted `victim`, behind the pending uses; `ordered` if
    /// others use the page, too.
    #[inline(never)]
    pub(super) fn miss_pending(
        &mut self,
        kind: OpKind,
        key: u64,
        victim: u64,
        ordered: bool,
    ) -> Option<Stop> {
        let when = self.cycle;
        let mut stop = None;
        if kind != OpKind::StoreLine {
            let below = self.l2.as_mut().map(|l2| l2.access(key, false));
            match below {
                Some(found) if found.hit => stop = self.hit_below(kind, key),
                _ => {
                    self.push(key, What::Read(self.how(kind)));
                    let fell = below.map_or(NONE, |found| found.victim);
                    self.push_if(fell != NONE, fell, What::Write);
                }
            }
        }
        if victim != NONE {
            let fell = self.l2.as_mut().map_or(victim, |l2| l2.access(victim, true).victim);
            self.push_if(fell != NONE, fell, What::Write);
        }
        if self.prefetcher.is_some() {
            self.choose(kind, key, ordered);
        }
        if self.pending_count == 0 && self.chosen == NONE {
            return stop;
        }
        self.then_wait = if let Some(Stop::Line(register)) = stop { Some(register) } else { None };
        Some(Stop::Shared(when))
    }

    /// A hit in the second level.
    fn hit_below(&mut self, kind: OpKind, key: u64) -> Option<Stop> {
        if self.waits(kind) {
            self.cycle += self.l2_latency;
        }
        if self.mshrs.busy == 0 { None } else { self.join(kind, key) }
    }

    fn how(&self, kind: OpKind) -> How {
        self.hows[kind as usize & 7]
    }

    /// An access that others must see in the order of time, or that bypasses the private caches.
    #[inline(never)]
    fn special(&mut self, kind: OpKind, key: u64, page: u64, direct: bool) -> Option<Stop> {
        let write = matches!(kind, OpKind::Store | OpKind::StoreLine);
        let uncached = self.kinds.is_uncached(key);
        self.pending_count = 0;
        self.then_wait = None;
        if direct || uncached {
            if page & ORDERED != 0 && !uncached {
                self.push(key, What::Snoop(write));
            }
            let what = match kind {
                OpKind::Store if !uncached => What::Read(How::Posted(true)),
                OpKind::Store | OpKind::StoreLine => What::Write,
                _ => What::Read(self.how(kind)),
            };
            self.push(key, what);
            return Some(Stop::Shared(self.cycle));
        }
        let l1 = if kind == OpKind::Fetch { &mut self.l1i } else { &mut self.l1d };
        let looked = l1.access(key, write);
        if write || !looked.hit {
            self.push(key, What::Snoop(write));
        }
        if !looked.hit {
            return self.miss_pending(kind, key, looked.victim, true);
        }
        let stop = if self.mshrs.busy == 0 { None } else { self.join(kind, key) };
        if self.pending_count == 0 {
            return stop;
        }
        self.then_wait = if let Some(Stop::Line(register)) = stop { Some(register) } else { None };
        Some(Stop::Shared(self.cycle))
    }

    /// The data of a register are there; it is free again.
    pub fn filled(&mut self, register: u8) {
        if !self.mshrs.free(register) {
            return;
        }
        let mut rest = self.mshrs.loads;
        let mut oldest = u64::MAX;
        while rest != 0 {
            oldest = oldest.min(self.mshrs.issued[rest.trailing_zeros() as usize]);
            rest &= rest - 1;
        }
        self.window_limit = oldest.saturating_add(self.window);
    }

    /// May it compute again?
    pub fn window_open(&self) -> bool {
        self.computed < self.window_limit
    }

    /// Another program comes: loads under way finish in the background.
    pub fn forget_loads(&mut self) {
        self.mshrs.loads = 0;
        self.window_limit = u64::MAX;
    }

    /// Cycles of the next operation's computation that are done by cycle `now`, if it is
    /// interrupted then.
    pub fn progress(&self, program: &Loaded, now: u64) -> u64 {
        let gap = program.ops.get(program.at).map_or(0, |op| op.cycles());
        now.saturating_sub(self.cycle).min(gap).min(self.window_limit.saturating_sub(self.computed))
    }

    /// Takes a line out of all private caches; was it dirty in one?
    pub fn remove(&mut self, key: u64) -> bool {
        let first = self.l1i.remove(key) | self.l1d.remove(key);
        self.l2.as_mut().is_some_and(|l2| l2.remove(key)) | first
    }

    /// Makes a line clean in all private caches; was it dirty in one?
    pub fn clean(&mut self, key: u64) -> bool {
        let first = self.l1d.clean(key);
        self.l2.as_mut().is_some_and(|l2| l2.clean(key)) | first
    }
}
