//! The whole hierarchy against lists: every level an array of (line, dirty), the most recent first.

use super::*;
use crate::program::PageKind;
use proptest::prelude::*;
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

struct Model {
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
        if self.kind(line) == PageKind::Uncached {
            self.counts[if write { 3 } else { 2 }] += 1;
            return;
        }
        let first = if kind == OpKind::Fetch { &mut self.l1i } else { &mut self.l1d };
        let (hit, victim) = first.access(line, write);
        if hit {
            return;
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// One operation at a time, so that no earlier one is under way.
    #[test]
    fn counts_are_those_of_a_naive_hierarchy(
        l2 in any::<bool>(), mask in 0u32..4, window in 0u64..2,
        trace in prop::collection::vec((0usize..6, 0u64..6 * 64), 100..2000),
    ) {
        let mut c = config(1);
        c.l1i = L1 { size: Bytes(2048), ways: 4 };
        c.l1d = L1 { size: Bytes(1024), ways: 2 };
        c.l2 = l2.then_some(L2 { size: Bytes(4096), ways: 8, latency: solocore_model::Cycles(5) });
        c.llc.size = Bytes(16 * 1024);
        c.llc.ways = 4;
        c.pipeline.window = solocore_model::Cycles(window * 100);
        let mut s = space(0, 6, &c);
        s.kinds = PAGES.to_vec();
        // With the ways of a mask only, a set is a smaller one.
        s.ways = (1 << mask) - 1;
        let llc = Level { ways: mask as usize, ..Level::new(16 * 1024, 4) };
        let mut model = Model {
            l1i: Level::new(2048, 4),
            l1d: Level::new(1024, 2),
            l2: l2.then(|| Level::new(4096, 8)),
            llc,
            kinds: PAGES.to_vec(),
            cacheable: mask > 0,
            counts: [0; 4],
        };
        let count = trace.len() as u64;
        let ops: Vec<Op> = trace.iter().map(|&(kind, line)| Op::access(KINDS[kind], 2000, line)).collect();
        trace.iter().for_each(|&(kind, line)| model.access(KINDS[kind], line));
        let mut m = machine(&c, vec![(Box::new(Loop(ops, 6)), s)], vec![]);
        m.dispatch(0, Some(ProgramId(0)), 0);
        let mut at = 0;
        while m.core(0).accesses < count {
            at += 700_000;
            run(&mut m, at);
        }
        let got = m.core(0);
        prop_assert_eq!(got.accesses, count);
        prop_assert_eq!([got.llc_accesses, got.llc_misses, got.dram_reads, got.dram_writes], model.counts);
    }
}
