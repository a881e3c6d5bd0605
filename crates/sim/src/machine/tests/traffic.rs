//! Bandwidth, latency, rates of devices.

use super::*;
use crate::machine::Stream;
use solocore_model::{Bytes, Cycles};

#[test]
fn a_bandwidth_program_comes_near_the_peak_and_a_chase_has_the_latency() {
    let mut c = config(1);
    (c.pipeline.mshrs, c.pipeline.window) = (10, Cycles(10_000));
    (c.llc.size, c.llc.latency) = (Bytes(64 << 10), Cycles(20));
    let lines: Vec<Op> = (0..65_536).map(|i| Op::access(OpKind::Load, 1, i)).collect();
    let mut m = single(&c, lines);
    run(&mut m, 1_000_000_000);
    let bytes = m.uncore().reads * 64;
    // 10.67 GB/s at most.
    assert!((9_600_000..10_670_000).contains(&bytes), "{bytes} bytes in 1 ms");
    let mut random = Random::new(3);
    let chase: Vec<Op> =
        (0..20_000).map(|_| Op::access(OpKind::LoadWait, 1, random.below(65_536))).collect();
    let mut m = single(&c, chase);
    run(&mut m, 1_000_000_000);
    let u = m.uncore();
    let latency = u.read_occupancy_ps / u.reads;
    assert!((46_000..53_000).contains(&latency), "{latency} ps at the controller");
    let whole = 1_000_000_000 / u.reads;
    let beside = 20 * 667 + 3_100 + 667;
    assert!((beside + latency..beside + latency + 2_500).contains(&whole), "{whole} ps for each");
}

#[test]
fn streams_keep_their_rate_and_stop() {
    let c = config(1);
    let dma = |into_memory, rate| DmaSpec {
        name: "nic".to_owned(),
        frames: (700..764).collect(),
        block_lines: 24,
        wait_ps: 10_000,
        outstanding: 8,
        autonomous: Some(Stream {
            into_memory,
            bytes_per_s: rate,
            start_ps: 1_000_000,
            stop_ps: 501_000_000,
        }),
    };
    for into_memory in [true, false] {
        let mut m = machine(&c, vec![], vec![dma(into_memory, Some(1_000_000_007))]);
        run(&mut m, 1_000_000_000);
        let bytes = m.uncore().device * 64;
        assert!((500_000..=502_000).contains(&bytes), "{bytes}");
    }
    let mut m = machine(&c, vec![], vec![dma(false, None)]);
    run(&mut m, 1_000_000_000);
    assert!((1_500_000..5_000_000).contains(&(m.uncore().device * 64)), "{:?}", m.uncore());
}

/// A device's write takes a line out of the caches; a program that reads its buffer misses again
/// and again.
#[test]
fn devices_invalidate_what_they_write() {
    let c = config(1);
    let read: Vec<Op> = (0..64).map(|i| Op::access(OpKind::LoadWait, 1000, i)).collect();
    let reads = |frame: u64| {
        let dma = DmaSpec {
            name: "nic".to_owned(),
            frames: vec![frame],
            block_lines: 64,
            wait_ps: 0,
            outstanding: 4,
            autonomous: Some(Stream {
                into_memory: true,
                bytes_per_s: Some(200_000_000),
                start_ps: 0,
                stop_ps: u64::MAX,
            }),
        };
        let mut m =
            machine(&c, vec![(Box::new(Loop(read.clone(), 1)), space(5, 1, &c))], vec![dma]);
        m.dispatch(0, Some(ProgramId(0)), 0);
        run(&mut m, 1_000_000_000);
        m.core(0).dram_reads
    };
    assert_eq!(reads(6), 64);
    assert!(reads(5) > 1000);
}

#[test]
fn full_queues_hold_the_senders() {
    let mut c = config(4);
    (c.pipeline.mshrs, c.pipeline.window) = (64, Cycles(10_000));
    c.l2 = None;
    let programs: Programs = (0..4u64)
        .map(|i| {
            let mut random = Random::new(i);
            let ops = (0..50_000)
                .map(|_| Op::access(OpKind::StoreLine, 0, random.below(262_144)))
                .collect();
            let program: Box<dyn Program> = Box::new(Loop(ops, 4096));
            (program, Space { ways: 0, ..space(4096 * i, 4096, &c) })
        })
        .collect();
    let mut m = machine(&c, programs, vec![]);
    (0..4).for_each(|core| m.dispatch(core, Some(ProgramId(u32::try_from(core).unwrap())), 0));
    let before: u64 = (0..100)
        .map(|i| {
            run(&mut m, i * 1_000_000);
            assert!(m.controller.queued() <= 4 * 16);
            m.uncore().writes
        })
        .max()
        .unwrap();
    assert!(before > 5_000, "{before}");
    let counts: Vec<u64> = (0..4).map(|core| m.core(core).dram_writes).collect();
    assert!(counts.iter().all(|&n| n > before / 5), "each core has its share: {counts:?}");
}
