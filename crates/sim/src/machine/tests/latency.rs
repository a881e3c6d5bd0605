//! Times worked out by hand: DDR3-1333 in cycles of 1.5 ns, a core of 1.5 GHz.

use super::*;
use crate::hardware::Notice;
use crate::machine::Translation;
use crate::program::Signal;
use solocore_cache::prefetch::PrefetcherKind;
use solocore_model::{Bytes, Cycles};

const MARK: Op = Op::signal(Signal::Mark(0));

/// Cycles of the core between the marks of a program that is dispatched again at once.
fn between_marks(config: &MachineConfig, ops: Vec<Op>, count: usize) -> Vec<u64> {
    let mut m = single(config, ops);
    let mut times = Vec::new();
    while times.len() < count {
        match m.advance(u64::MAX / 2) {
            Some(Notice::Signal { .. }) => {
                times.push(m.now_ps());
                m.dispatch(0, Some(ProgramId(0)), 0);
            }
            other => panic!("{other:?}"),
        }
    }
    times.windows(2).map(|w| cycles(w[1] - w[0])).collect()
}

/// The cycle that begins at a time.
fn cycles(ps: u64) -> u64 {
    (ps * 3 + 1000) / 2000
}

fn wait(line: u64) -> Op {
    Op::access(OpKind::LoadWait, 10, line)
}

/// Core cycles of a read that arrives in memory cycle `n` and takes `clocks`, sent at core cycle 0.
fn dram(config: &MachineConfig, at_ps: u64, clocks: u64) -> u64 {
    let arrival = (at_ps + config.llc.latency.0 * 2000 / 3 + config.overhead_ps).div_ceil(1500);
    ((arrival + clocks) * 1500 * 3).div_ceil(2000)
}

#[test]
fn hits_cost_the_latency_of_their_level() {
    let mut c = config(1);
    let far = |i: u64| wait(i * 64);
    // Nine lines of one L1 set; the second level has 256 sets, the stride of 64 puts three lines in
    // a set.
    let mut ops = vec![MARK, wait(0), MARK, wait(0), MARK];
    ops.extend((1..9).map(far));
    ops.extend([MARK, wait(0), MARK]);
    let got = between_marks(&c, ops, 5);
    assert_eq!(got[1], 10, "first level");
    assert_eq!(got[3], 10 + 11, "second level");
    c.l2 = None;
    let mut ops: Vec<Op> = (0..9).map(far).collect();
    ops.extend([MARK, wait(0), MARK]);
    assert_eq!(between_marks(&c, ops, 2), [10 + 40], "shared cache");
}

/// A core of twice the clock computes in half the time; the shared cache takes as long as before.
#[test]
fn a_fast_core_has_its_own_cycles() {
    let mut c = config(2);
    c.l2 = None;
    c.clocks = vec![2 * c.frequency, c.frequency];
    let mut ops: Vec<Op> = (0..9).map(|i| wait(i * 64)).collect();
    ops.extend([MARK, wait(0), MARK]);
    assert_eq!(between_marks(&c, ops, 2), [5 + 40]);
    let ops = vec![Op::compute(3000), MARK, Op::compute(Op::MAX_COMPUTE)];
    let program = |first| -> (Box<dyn Program>, Space) {
        (Box::new(Loop(ops.clone(), 64)), space(first, 64, &c))
    };
    let mut m = machine(&c, vec![program(0), program(64)], vec![]);
    m.dispatch(0, Some(ProgramId(0)), 0);
    m.dispatch(1, Some(ProgramId(1)), 0);
    let ends: Vec<u64> = run(&mut m, 3_000_000).iter().map(|(at, _)| *at).collect();
    assert_eq!(ends, [1_000_000, 2_000_000]);
}

/// Eight lines of one set stay in a first level of eight ways, and leave one of two. Breaks when a
/// core has the caches of another one.
#[test]
fn each_core_has_its_own_caches() {
    let mut c = config(2);
    c.l2 = None;
    c.own = vec![c.own_of(0), c.own_of(1)];
    let l1d = &mut c.own[1].caches.l1d;
    (l1d.size.0, l1d.ways) = (l1d.size.0 / u64::from(l1d.ways) * 2, 2);
    let set = |i: u64| wait(i * 64);
    let mut ops: Vec<Op> = (0..8).map(set).collect();
    ops.extend([MARK, wait(0), MARK]);
    let time_of = |core: usize| {
        let program: (Box<dyn Program>, Space) =
            (Box::new(Loop(ops.clone(), 64)), space(0, 64, &c));
        let mut m = machine(&c, vec![program], vec![]);
        let mut at = Vec::new();
        while at.len() < 2 {
            m.dispatch(core, Some(ProgramId(0)), 0);
            match m.advance(u64::MAX / 2) {
                Some(Notice::Signal { .. }) => at.push(m.now_ps()),
                other => panic!("{other:?}"),
            }
        }
        at[1] - at[0]
    };
    let (large, small) = (time_of(0), time_of(1));
    assert!(small >= large + 20_000, "{large} and {small} ps: a look-up of 40 cycles more");
}

#[test]
fn misses_cost_look_up_overhead_and_dram() {
    let mut c = config(1);
    c.llc.latency = Cycles(30);
    let first = |line| {
        let mut m = single(&c, vec![wait(line), MARK]);
        assert!(m.advance(u64::MAX / 2).is_some());
        cycles(m.now_ps())
    };
    // Seen a cycle after the arrival: activate, 9 to the read, 9 to the data, 4 of data, one more
    // to the answer.
    assert_eq!(first(0), dram(&c, 10 * 2000 / 3, 1 + 9 + 9 + 4 + 1));
    // The same row is a hit: no activate; another row of the bank: precharge as well. The row has
    // 128 lines, the bank comes again after 16 rows, and much later tRAS has passed.
    let far = Op::compute(1000);
    let time = |line: u64| {
        let mut m = single(&c, vec![wait(0), far, MARK, wait(line), MARK]);
        m.advance(u64::MAX / 2);
        let begin = m.now_ps();
        m.dispatch(0, Some(ProgramId(0)), 0);
        m.advance(u64::MAX / 2);
        (m.now_ps(), begin)
    };
    for (line, clocks) in [(1, 15), (128 * 16, 15 + 9 + 9)] {
        let (end, begin) = time(line);
        let sent = begin + 10 * 2000 / 3;
        assert_eq!(cycles(end), dram(&c, sent, clocks), "line {line}");
    }
}

#[test]
fn computation_costs_its_cycles_and_nothing_adds_up() {
    let c = config(1);
    let mut m = single(&c, vec![Op::compute(7), Op::compute(1), Op::access(OpKind::Load, 2, 5)]);
    run(&mut m, 1_000_000_000);
    let got = m.core(0);
    // 1.5 million cycles in 1 ms, less the one miss, which is posted and outside a window of 0.
    assert!((1_499_850..1_500_000).contains(&got.compute_cycles), "{got:?}");
    assert_eq!(got.busy_ps, 1_000_000_000);
    assert_eq!((got.llc_misses, got.dram_reads), (1, 1));
}

#[test]
fn posted_loads_overlap_up_to_the_window_and_the_registers() {
    let mut c = config(1);
    let loads = |n: u64, gap: u64| {
        (0..n).map(|i| Op::access(OpKind::Load, gap, i * 64)).chain([MARK]).collect()
    };
    let time = |c: &MachineConfig, ops: Vec<Op>| {
        let mut m = single(c, ops);
        m.advance(u64::MAX / 2);
        m.now_ps()
    };
    // A window of 0: every load waits; one of 20 cycles hides one load of gap 15 behind another.
    let blocking = time(&c, loads(4, 15));
    c.pipeline.window = Cycles(20);
    let some = time(&c, loads(4, 15));
    c.pipeline.window = Cycles(1000);
    c.pipeline.mshrs = 1;
    let one = time(&c, loads(4, 15));
    c.pipeline.mshrs = 4;
    let all = time(&c, loads(4, 15));
    assert!(blocking > some && some > all && one > all, "{blocking} {some} {one} {all}");
    assert_eq!(all, 40_000, "60 cycles of computation, nothing else");
    // A second load of a line under way joins its register; a wait for it waits.
    c.pipeline.mshrs = 1;
    let joined =
        time(&c, vec![Op::access(OpKind::Load, 0, 0), Op::access(OpKind::Load, 3, 0), MARK]);
    assert_eq!(joined, 2000);
    let waited =
        time(&c, vec![Op::access(OpKind::Load, 0, 0), Op::access(OpKind::LoadWait, 3, 0), MARK]);
    let alone = time(&c, vec![Op::access(OpKind::LoadWait, 0, 0), MARK]);
    assert_eq!(waited, alone);
}

/// A walk over a page: with the next line under way or there, each line after the first costs the
/// second level alone, and the first line of the next page the memory again.
#[test]
fn a_prefetched_line_costs_the_second_level() {
    let mut c = config(1);
    let walk: Vec<Op> = (62..66).flat_map(|i| [MARK, wait(i), MARK, Op::compute(1000)]).collect();
    let times = |c: &MachineConfig| -> Vec<u64> {
        between_marks(c, walk.clone(), 8).into_iter().step_by(2).collect()
    };
    let off = times(&c);
    assert!(off.iter().all(|&t| t > 10 + 40), "{off:?}");
    c.prefetcher = PrefetcherKind::NextLine;
    let on = times(&c);
    assert_eq!((on[0], on[1], on[3]), (off[0], 10 + 11, 10 + 11));
    assert!(on[2] > 10 + 40, "{on:?}");
    // Asked for while under way: the rest of its time.
    c.l2.as_mut().unwrap().latency = Cycles(1);
    let at_once = vec![MARK, wait(0), MARK, Op::access(OpKind::LoadWait, 0, 1), MARK];
    let got = between_marks(&c, at_once, 3);
    assert!((2..got[0]).contains(&got[1]), "{got:?}");
}

/// The only register is taken by the miss itself: the prefetcher's line is dropped, and no core
/// waits for a register of a prefetch.
#[test]
fn a_prefetch_without_a_register_is_dropped() {
    let mut c = config(1);
    (c.pipeline.mshrs, c.prefetcher) = (1, PrefetcherKind::NextLine);
    let mut m = single(&c, vec![wait(0), Op::compute(1000), MARK]);
    m.advance(u64::MAX / 2);
    assert_eq!(m.core(0).dram_reads, 1);
    c.pipeline.mshrs = 2;
    let mut m = single(&c, vec![wait(0), Op::compute(1000), MARK]);
    m.advance(u64::MAX / 2);
    assert_eq!(m.core(0).dram_reads, 2);
}

fn translated(entries: u32, ways: u32) -> MachineConfig {
    let mut c = config(1);
    c.l2 = None;
    c.translation = Some(Translation { entries, ways, entry: Bytes(8), tagged: false });
    c
}

/// Reads line 0 of page 0; then lines of its set from pages whose entries lie in other sets. So both
/// the line and the entry leave the first level.
fn out_of_the_first_level() -> Vec<Op> {
    let mut ops = vec![wait(0)];
    ops.extend((1..10).map(|i| wait(i * 8 * 64)));
    ops
}

#[test]
fn a_miss_of_the_translation_buffer_costs_the_read_of_its_entry() {
    let program = |ops| -> (Box<dyn Program>, Space) {
        let c = translated(1, 1);
        (Box::new(Loop(ops, 128)), Space { tables: vec![4096], ..space(0, 128, &c) })
    };
    let time = |c: &MachineConfig, other: bool| {
        let mut ops = out_of_the_first_level();
        ops.extend([MARK, wait(0), MARK, wait(1), MARK]);
        let second = vec![wait(0), MARK];
        let mut m = machine(
            c,
            vec![
                program(ops),
                (Box::new(Loop(second, 1)), Space { tables: vec![4097], ..space(512, 1, c) }),
            ],
            vec![],
        );
        let mut at = Vec::new();
        while at.len() < 3 {
            if other && at.len() == 1 {
                m.dispatch(0, Some(ProgramId(1)), 0);
                m.advance(u64::MAX / 2);
            }
            let begin = m.now_ps();
            m.dispatch(0, Some(ProgramId(0)), 0);
            m.advance(u64::MAX / 2);
            at.push(cycles(m.now_ps()) - cycles(begin));
        }
        // Cold: the entry and the line.
        assert_eq!(m.program(ProgramId(1)).llc_accesses, if other { 2 } else { 0 });
        (at[1], at[2])
    };
    // Line 1 is in the memory only, whatever the buffer has.
    let (held, second) = time(&translated(64, 64), false);
    assert_eq!(held, 10 + 40, "the shared cache");
    let (walked, same) = time(&translated(2, 1), false);
    assert_eq!(walked, 10 + 40 + 40, "entry and data from the shared cache");
    assert!(same.abs_diff(second) <= 3, "the page is there now: {same} {second}");
    assert_eq!(time(&translated(64, 64), true).0, 10 + 40 + 40, "another program came between");
    let mut marked = translated(64, 64);
    marked.translation.as_mut().unwrap().tagged = true;
    assert_eq!(time(&marked, true).0, 10 + 40, "its entries have a mark of their own");
}

#[test]
fn programs_need_frames_for_their_page_tables() {
    let c = translated(64, 2);
    let refused = |tables: Vec<u64>| {
        let program: (Box<dyn Program>, Space) =
            (Box::new(Loop(vec![wait(0)], 1024)), Space { tables, ..space(0, 1024, &c) });
        Machine::new(c.clone(), vec![program], vec![]).unwrap_err().to_string()
    };
    assert!(refused(vec![1024]).contains("its 1024 pages need 2"));
    assert!(refused(vec![1024, 3]).contains("page frame 3 of its page table"));
}
