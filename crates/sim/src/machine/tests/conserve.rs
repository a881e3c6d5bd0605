//! Counts add up, results repeat, memory does not grow.

use super::*;
use crate::hardware::{Counters, Uncore};
use crate::machine::{Stream, Translation};
use solocore_cache::prefetch::PrefetcherKind;
use solocore_model::platform::Replacement;
use solocore_model::{Bytes, Cycles};

fn stream(into_memory: bool, first: u64) -> DmaSpec {
    DmaSpec {
        name: "stream".to_owned(),
        frames: (first..first + 4).collect(),
        block_lines: 16,
        wait_ps: 100_000,
        outstanding: 4,
        autonomous: Some(Stream {
            into_memory,
            bytes_per_s: None,
            start_ps: 5_000,
            stop_ps: u64::MAX,
        }),
    }
}

fn busy(seed: u64, devices: bool) -> Machine {
    let mut c = config(4);
    c.pipeline.mshrs = 1 + u32::try_from(seed % 8).unwrap();
    c.pipeline.window = Cycles(seed * 13 % 100);
    c.row_hit_cap = (!seed.is_multiple_of(3)).then_some(4);
    c.llc.replacement = [Replacement::Lru, Replacement::Plru, Replacement::Random]
        [usize::try_from(seed % 3).unwrap()];
    c.prefetcher = [PrefetcherKind::Off, PrefetcherKind::NextLine, PrefetcherKind::Stride]
        [usize::try_from(seed / 2 % 3).unwrap()];
    c.translation = (seed % 4 > 1).then_some(Translation {
        entries: 64,
        ways: 4,
        entry: Bytes(8),
        tagged: seed % 4 == 3,
    });
    let programs: Programs = (0..4u64)
        .map(|i| {
            let program: Box<dyn Program> = Box::new(Mixed::new(seed * 7 + i, 1024, 5 * i));
            let tables = vec![7000 + 2 * i, 7001 + 2 * i];
            (program, Space { tables, ..space(i * 1024, 1024, &c) })
        })
        .collect();
    let devices = if devices { vec![stream(true, 5000), stream(false, 6000)] } else { vec![] };
    let mut m = machine(&c, programs, devices);
    (0..4).for_each(|core| m.dispatch(core, Some(ProgramId(u32::try_from(core).unwrap())), 0));
    m
}

fn all(m: &Machine) -> (Vec<Counters>, Vec<Counters>, Uncore) {
    let programs = (0..4).map(|p| m.program(ProgramId(p))).collect();
    ((0..4).map(|core| m.core(core)).collect(), programs, m.uncore())
}

#[test]
fn results_do_not_depend_on_how_time_is_cut() {
    for seed in [1, 2, 3, 8, 10] {
        let end = 150_000_000;
        let mut whole = busy(seed, true);
        run(&mut whole, end);
        let expect = all(&whole);
        assert!(expect.2.reads > 3000 && expect.2.writes > 500, "{expect:?}");
        for step in [1_000_000u64, 333_337, 49_999] {
            let mut m = busy(seed, true);
            let mut now = 0;
            while now < end {
                now = (now + step).min(end);
                run(&mut m, now);
                assert_eq!(m.now_ps(), now);
            }
            assert_eq!(all(&m), expect, "seed {seed} step {step}");
        }
        let mut again = busy(seed, true);
        run(&mut again, end);
        assert_eq!(all(&again), expect);
    }
}

#[test]
fn every_request_is_answered_and_counted_once() {
    for seed in 1..7 {
        let mut m = busy(seed, seed % 2 == 0);
        run(&mut m, 100_000_000);
        let (cores, programs, uncore) = all(&m);
        let sum = |of: fn(&Counters) -> u64, list: &[Counters]| list.iter().map(of).sum::<u64>();
        let transactions = sum(Counters::transactions, &cores);
        assert_eq!(transactions, sum(Counters::transactions, &programs));
        assert_eq!(transactions + uncore.device, uncore.reads + uncore.writes);
        assert!(cores.iter().all(|c| c.busy_ps == 100_000_000 && c.accesses > 100));
        for seat in &m.seats {
            assert!(seat.writes_waiting <= super::super::WRITE_BUFFER);
        }
        if seed % 2 == 1 {
            drain(&mut m);
            assert!(m.seats.iter().all(|s| s.core.mshrs.busy == 0 && s.writes_waiting == 0));
            assert_eq!(m.controller.queued(), 0);
            let uncore = m.uncore();
            let later = m.now_ps() + 1_000_000_000_000;
            run(&mut m, later);
            assert_eq!(m.uncore(), uncore);
        }
    }
}

/// Queues do not grow over ten times the time; a second of idle time is one step.
#[test]
fn memory_does_not_grow_with_time() {
    let mut m = busy(5, true);
    run(&mut m, 50_000_000);
    let size = |m: &Machine| m.notices.capacity() + m.answers.capacity() + m.controller.capacity();
    let before = size(&m);
    run(&mut m, 500_000_000);
    assert!(size(&m) <= 2 * before.max(256), "{before} {}", size(&m));
}

/// A written line leaves the core that fetched it unasked, which fetches it again, from the shared
/// cache.
#[test]
fn prefetched_lines_are_coherent() {
    let mut c = config(2);
    c.prefetcher = PrefetcherKind::NextLine;
    let write: Vec<Op> = (0..64).map(|i| Op::access(OpKind::Store, 50, i)).collect();
    let read: Vec<Op> = (0..32).map(|i| Op::access(OpKind::LoadWait, 50, 2 * i)).collect();
    let programs: Programs = vec![
        (Box::new(Loop(write, 1)), space(0, 1, &c)),
        (Box::new(Loop(read, 1)), space(0, 1, &c)),
    ];
    let mut m = machine(&c, programs, vec![]);
    (0..2).for_each(|core| m.dispatch(core, Some(ProgramId(u32::try_from(core).unwrap())), 0));
    run(&mut m, 100_000_000);
    // The second core reads 32 lines and fetches 32 more, all of them again and again.
    let got = m.core(1);
    assert!(got.accesses > 1000 && got.llc_accesses > got.accesses * 3 / 2, "{got:?}");
    assert_eq!(m.uncore().reads, 64);
}

/// Two cores that use the same frames: a line that one core wrote is read by the other from the
/// shared cache, not from a stale copy.
#[test]
fn shared_frames_are_coherent() {
    let c = config(2);
    let write: Vec<Op> = (0..64).map(|i| Op::access(OpKind::Store, 50, i)).collect();
    let read: Vec<Op> = (0..64).map(|i| Op::access(OpKind::LoadWait, 50, i)).collect();
    let run_two = |other: u64| {
        let programs: Programs = vec![
            (Box::new(Loop(write.clone(), 1)), space(0, 1, &c)),
            (Box::new(Loop(read.clone(), 1)), space(other, 1, &c)),
        ];
        let mut m = machine(&c, programs, vec![]);
        (0..2).for_each(|core| m.dispatch(core, Some(ProgramId(u32::try_from(core).unwrap())), 0));
        run(&mut m, 100_000_000);
        m
    };
    let (shared, apart) = (run_two(0), run_two(1));
    assert!(apart.core(1).llc_accesses == 64 && shared.core(1).llc_accesses > 1000);
    assert_eq!((apart.uncore().reads, shared.uncore().reads), (128, 64));
}
