//! The whole hierarchy against lists: every level an array of (line, dirty), the most recent first;
//! prefetchers and translation buffers by their rules alone.

use super::*;
use crate::machine::Translation;
use crate::program::{PageKind, Signal};
use proptest::prelude::*;
use solocore_cache::prefetch::PrefetcherKind;
use solocore_model::Bytes;
use solocore_model::platform::{L1, L2};

struct Level {
    sets: u64,
    ways: usize,
    lines: Vec<Vec<(u64, bool)>>,
}

impl Level {
    fn new(size: u64, ways: u32) -> Self {
        let sets = size / 64 / u64::from(ways);
        Self { sets, ways: ways as usize, lines: vec![Vec::new(); usize::try_from(sets).unwrap()] }
    }

    fn access(&mut self, line: u64, write: bool) -> (bool, Option<u64>) {
        let set = &mut self.lines[usize::try_from(line % self.sets).unwrap()];
        if let Some(at) = set.iter().position(|l| l.0 == line) {
            let old = set.remove(at);
            set.insert(0, (line, old.1 | write));
            return (true, None);
        }
        set.insert(0, (line, write));
        let out = if set.len() > self.ways { set.pop() } else { None };
        (false, out.filter(|l| l.1).map(|l| l.0))
    }
}

/// A page's last miss, and its distance to the one before.
struct Seen {
    page: u64,
    last: u64,
    distance: Option<u64>,
}

/// Chooses lines by their pages of 64 lines.
struct Chooser {
    kind: PrefetcherKind,
    /// The oldest first, at most 16.
    seen: Vec<Seen>,
}

impl Chooser {
    fn after(&mut self, line: u64) -> Option<u64> {
        let page = line / 64;
        let next = match self.kind {
            PrefetcherKind::Off => return None,
            PrefetcherKind::NextLine => line + 1,
            PrefetcherKind::Stride => {
                let Some(seen) = self.seen.iter_mut().find(|s| s.page == page) else {
                    self.seen.push(Seen { page, last: line, distance: None });
                    if self.seen.len() > 16 {
                        self.seen.remove(0);
                    }
                    return None;
                };
                let distance = Some(line.wrapping_sub(seen.last));
                let again = seen.distance == distance && line != seen.last;
                (seen.last, seen.distance) = (line, distance);
                if !again {
                    return None;
                }
                line.wrapping_add(distance?)
            }
        };
        (next / 64 == page).then_some(next)
    }
}

/// A translation buffer, and the page table in a frame after those of the program.
struct Tables {
    sets: Vec<Vec<u64>>,
    ways: usize,
    first_line: u64,
    entry: u64,
}

impl Tables {
    /// The line of the entry that must be read.
    fn miss(&mut self, page: u64) -> Option<u64> {
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[usize::try_from(page % sets).unwrap()];
        let held = set.iter().position(|&p| p == page).map(|at| set.remove(at));
        set.insert(0, page);
        set.truncate(self.ways);
        held.is_none().then(|| self.first_line + page * self.entry / 64)
    }
}

struct Model {
    chooser: Chooser,
    tables: Option<Tables>,
    mshrs: u32,
    l1i: Level,
    l1d: Level,
    l2: Option<Level>,
    llc: Level,
    kinds: Vec<PageKind>,
    cacheable: bool,
    /// Fills asked of the shared cache, those that missed, lines read, lines written.
    counts: [u64; 4],
}

impl Model {
    fn kind(&self, line: u64) -> PageKind {
        self.kinds[usize::try_from(line / 64).unwrap()]
    }

    fn access(&mut self, kind: OpKind, line: u64) {
        let write = matches!(kind, OpKind::Store | OpKind::StoreLine);
        if kind != OpKind::Fetch
            && let Some(entry) = self.tables.as_mut().and_then(|t| t.miss(line / 64))
        {
            self.cached(OpKind::LoadWait, entry);
        }
        if self.kind(line) == PageKind::Uncached {
            self.counts[if write { 3 } else { 2 }] += 1;
            return;
        }
        let misses = self.counts[1];
        let missed = self.cached(kind, line);
        if !missed || matches!(kind, OpKind::Fetch | OpKind::StoreLine) {
            return;
        }
        let Some(next) = self.chooser.after(line) else { return };
        if self.mshrs > 1 || self.counts[1] == misses {
            self.prefetch(next);
        }
    }

    /// An access to a page that private caches hold; true for a miss of the first level.
    fn cached(&mut self, kind: OpKind, line: u64) -> bool {
        let write = matches!(kind, OpKind::Store | OpKind::StoreLine);
        let first = if kind == OpKind::Fetch { &mut self.l1i } else { &mut self.l1d };
        let (hit, victim) = first.access(line, write);
        if hit {
            return false;
        }
        if kind != OpKind::StoreLine {
            let below = self.l2.as_mut().map_or((false, None), |l2| l2.access(line, false));
            if !below.0 {
                self.shared_read(line);
                below.1.into_iter().for_each(|v| self.shared_write(v));
            }
        }
        if let Some(victim) = victim {
            let fell = self.l2.as_mut().map_or(Some(victim), |l2| l2.access(victim, true).1);
            fell.into_iter().for_each(|v| self.shared_write(v));
        }
        true
    }

    fn prefetch(&mut self, line: u64) {
        let Some(l2) = &mut self.l2 else {
            if self.kind(line) == PageKind::Cached && self.cacheable {
                self.shared_read(line);
            }
            return;
        };
        if l2.lines.iter().flatten().all(|l| l.0 != line) {
            let fell = l2.access(line, false).1;
            self.shared_read(line);
            fell.into_iter().for_each(|v| self.shared_write(v));
        }
    }

    fn llc(&mut self, line: u64, write: bool) -> bool {
        let (hit, victim) = self.llc.access(line, write);
        self.counts[3] += u64::from(victim.is_some());
        hit
    }

    fn shared_read(&mut self, line: u64) {
        self.counts[0] += 1;
        let hit = match self.kind(line) {
            PageKind::Locked => true,
            PageKind::Cached if self.cacheable => self.llc(line, false),
            _ => false,
        };
        self.counts[1] += u64::from(!hit);
        self.counts[2] += u64::from(!hit);
    }

    fn shared_write(&mut self, line: u64) {
        match self.kind(line) {
            PageKind::Locked => {}
            PageKind::Cached if self.cacheable => {
                self.llc(line, true);
            }
            _ => self.counts[3] += 1,
        }
    }
}

const KINDS: [OpKind; 6] = [
    OpKind::Load,
    OpKind::LoadWait,
    OpKind::Store,
    OpKind::Fetch,
    OpKind::StoreLine,
    OpKind::Prefetch,
];
const PAGES: [PageKind; 6] = [
    PageKind::Cached,
    PageKind::Locked,
    PageKind::Bypass,
    PageKind::Uncached,
    PageKind::Cached,
    PageKind::Cached,
];

/// Pages of the program; the next one has its page table.
const COUNT: u64 = 24;

fn kinds() -> Vec<PageKind> {
    PAGES.into_iter().cycle().take(usize::try_from(COUNT).unwrap()).collect()
}

/// Runs of accesses at a stride, near or anywhere.
fn traces() -> impl Strategy<Value = Vec<(OpKind, u64)>> {
    let run = (0usize..6, any::<bool>(), 0..COUNT * 64, 0u64..7, 1u64..8);
    prop::collection::vec(run, 40..500).prop_map(|runs| {
        let lines = |(kind, near, first, stride, count): (usize, bool, u64, u64, u64)| {
            let first = if near { first % 384 } else { first };
            (0..count).map(move |i| {
                (KINDS[kind], (COUNT * 64 + first + i * stride - i * 3) % (COUNT * 64))
            })
        };
        runs.into_iter().flat_map(lines).collect()
    })
}

fn prefetchers() -> impl Strategy<Value = PrefetcherKind> {
    prop::sample::select(vec![
        PrefetcherKind::Off,
        PrefetcherKind::NextLine,
        PrefetcherKind::Stride,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// One operation at a time, so that no earlier one is under way; counts agree after each.
    #[test]
    fn counts_are_those_of_a_naive_hierarchy(
        l2 in any::<bool>(), mask in 0u32..4, window in 0u64..2, trace in traces(),
        prefetcher in prefetchers(), mshrs in 1u32..4,
        buffer in prop::option::of((0u32..3, 1u32..4, prop::sample::select(vec![4u64, 8]))),
    ) {
        let mut c = config(1);
        c.l1i = L1 { size: Bytes(2048), ways: 4 };
        c.l1d = L1 { size: Bytes(1024), ways: 2 };
        c.l2 = l2.then_some(L2 { size: Bytes(4096), ways: 8, latency: solocore_model::Cycles(5) });
        c.llc.size = Bytes(16 * 1024);
        c.llc.ways = 4;
        c.pipeline.window = solocore_model::Cycles(window * 100);
        (c.pipeline.mshrs, c.prefetcher) = (mshrs, prefetcher);
        c.translation = buffer.map(|(bits, ways, entry)| {
            Translation { entries: ways << bits, ways, entry: Bytes(entry), tagged: false }
        });
        let mut s = space(0, COUNT, &c);
        (s.kinds, s.tables) = (kinds(), vec![COUNT]);
        // With the ways of a mask only, a set is a smaller one.
        s.ways = (1 << mask) - 1;
        let llc = Level { ways: mask as usize, ..Level::new(16 * 1024, 4) };
        let mut kinds = kinds();
        kinds.push(PageKind::Cached);
        let mut model = Model {
            chooser: Chooser { kind: prefetcher, seen: Vec::new() },
            tables: buffer.map(|(bits, ways, entry)| Tables {
                sets: vec![Vec::new(); 1 << bits],
                ways: ways as usize,
                first_line: COUNT * 64,
                entry,
            }),
            mshrs,
            l1i: Level::new(2048, 4),
            l1d: Level::new(1024, 2),
            l2: l2.then(|| Level::new(4096, 8)),
            llc,
            kinds,
            cacheable: mask > 0,
            counts: [0; 4],
        };
        let op = |&(kind, line): &(OpKind, u64)| {
            [Op::access(kind, 7, line), Op::compute(2000), Op::signal(Signal::Mark(0))]
        };
        let ops: Vec<Op> = trace.iter().flat_map(op).collect();
        let mut m = machine(&c, vec![(Box::new(Loop(ops, 24)), s)], vec![]);
        for (at, &(kind, line)) in trace.iter().enumerate() {
            m.dispatch(0, Some(ProgramId(0)), 0);
            let stopped = matches!(m.advance(u64::MAX / 2), Some(Notice::Signal { .. }));
            prop_assert!(stopped);
            model.access(kind, line);
            let got = m.core(0);
            prop_assert_eq!(got.accesses, at as u64 + 1);
            let counts = [got.llc_accesses, got.llc_misses, got.dram_reads, got.dram_writes];
            prop_assert_eq!(counts, model.counts, "operation {} {:?} {}", at, kind, line);
        }
    }
}
