//! MC2 Figs. 13 and 14: Synthetic's MOET against the bandwidth of a disk, with the disk's buffers
//! in Synthetic's bank and in level C's.
//!
//! Set-up (section 5.3): Synthetic on core 0 writes 256 KB at random, again and again;
//! Load-Generators on cores 1 to 3 have 400 KB read from the SSD at a fixed interval, which sets
//! the bandwidth. Level-A/B: all their buffers in core 0's bank. Level-C/OS: in banks 4 to 7. Fig.
//! 14 puts a share of each buffer into level C's banks, its pages in turn.
//!
//! Assumed: the small LLC region is 1 way, the large one 8, twice Synthetic's array (its pages are
//! drawn at random, so sets have unequal shares of it). A job has enough passes over the array to
//! see several reads of the disk. The disk moves bursts of 128 bytes, at most 300 MB/s (SATA II,
//! section 2).

use super::samples::{Samples, Times, percent, take};
use super::setup::{LEVEL_C, add, add_regions, board, engine, synthetic, ways};
use crate::run::{MS, points};
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_model::{Bytes, Time};
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::hardware::{DeviceId, Transfer};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::kernel::config::Action;
use solocore_sim::workload::params::SsdLoad;
use solocore_sim::workload::{Job, WorkloadSpec};

pub const FIG13: Experiment = Experiment {
    id: "mc2-fig13",
    source: "MC2 Fig. 13",
    title: "Synthetic's MOET against DMA bandwidth, I/O buffers in its bank or in level C's, small \
        and large LLC region",
    run: fig13,
};

pub const FIG14: Experiment = Experiment {
    id: "mc2-fig14",
    source: "MC2 Fig. 14",
    title: "Synthetic's MOET against the share of the I/O buffers in level C's banks",
    run: fig14,
};

/// Bytes that a Load-Generator reads at once.
const BLOCK: u64 = 400_000;
/// MB/s.
const BANDWIDTHS: &[u64] = &[0, 40, 80, 120, 160, 200];
const QUICK: &[u64] = &[0, 100, 200];
/// Ways of Synthetic, and passes of a job, which then takes about 18 ms.
type Region = (u32, u64);
const SMALL: Region = (1, 30);
const LARGE: Region = (8, 200);
/// Parts of the buffers in level C's banks, in per cent.
const SHARES: &[u64] = &[0, 20, 40, 60, 80, 100];
const QUICK_SHARES: &[u64] = &[0, 40, 100];

#[derive(Clone, Copy, PartialEq, Eq)]
struct Point {
    region: Region,
    /// Part of the buffers in level C's banks, in per cent.
    share: u64,
    mb_per_s: u64,
}

fn fig13(context: &Context) -> Result<Outcome, ExperimentError> {
    let bandwidths = context.pick(QUICK, BANDWIDTHS);
    let mut all = Vec::new();
    for region in [SMALL, LARGE] {
        for share in [0, 100] {
            all.extend(bandwidths.iter().map(|&mb_per_s| Point { region, share, mb_per_s }));
        }
    }
    let found = measure_all(context, &all)?;
    let mut table =
        Table::new(&["llc_ways", "buffers", "mb_per_s", "mb_per_s_reached", "moet_us", "acet_us"]);
    for (p, (reached, t)) in all.iter().zip(&found) {
        let name = if p.share == 0 { "Level-A/B" } else { "Level-C/OS" };
        table.push(row![p.region.0, name, p.mb_per_s, *reached, t.moet_us, t.acet_us]);
    }
    let mut outcome = Outcome::new(table);
    judge13(&mut outcome, bandwidths, &found);
    let names = ["small, Level-A/B", "small, Level-C/OS", "large, Level-A/B", "large, Level-C/OS"];
    let lines = names
        .iter()
        .enumerate()
        .map(|(at, n)| Series::new(*n, growth(&curve(&found, bandwidths.len(), at))));
    let title = "Synthetic with a small and a large LLC region";
    outcome.charts.push(Chart::lines(title, "DMA bandwidth, MB/s", GROWTH, lines.collect()));
    outcome.differs("The sizes of the LLC regions and the length of a job are assumed.");
    outcome.differs(
        "With a large region Synthetic's array is in the cache and nothing of it reaches the DRAM, \
            so DMA delays nothing that is simulated, \
         and MOET stays the same. On the board DMA also shares the on-chip bus with the accesses \
         of the OS on Synthetic's core, and the kernel invalidates the buffer's lines in the \
         cache controller that all cores share. Neither is simulated. With a region in which some \
         of the array misses (6 ways), buffers in level C's banks even shorten MOET by up to 1.5 \
         %. The disk's writes fill the controller's write queue. It is then emptied more often, \
         each time with fewer of Synthetic's own write-backs in the way of its reads. (With as \
         many reads by the disk MOET rises there by 1 %.)",
    );
    outcome.differs(
        "Page walks do not explain the large region. The Cortex-A9's main TLB has 128 entries in 2 \
            ways (one of the sizes in Arm's Technical Reference Manual), and Synthetic's array has \
            64 pages. With such a TLB the times of the large region stay the same (quick runs, 3 \
            seeds, 2026-11-28). The board has none here: Fig. 8's claims would agree less.",
    );
    Ok(outcome)
}

/// Bandwidth reached and MOET of the points of one curve.
fn curve(found: &[(f64, Times)], points: usize, at: usize) -> Vec<(f64, f64)> {
    found[at * points..][..points].iter().map(|(reached, t)| (*reached, t.moet_us)).collect()
}

const GROWTH: &str = "growth of MOET over that without DMA, %";

/// Growth of a curve from its first point on, in per cent.
fn growth(curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let first = curve.first().map_or(1.0, |p| p.1);
    curve.iter().map(|(x, y)| (*x, (y / first - 1.0) * 100.0)).collect()
}

fn judge13(outcome: &mut Outcome, bandwidths: &[u64], found: &[(f64, Times)]) {
    let curves: Vec<Vec<(f64, f64)>> =
        (0..4).map(|at| curve(found, bandwidths.len(), at)).collect();
    let last = bandwidths.len() - 1;
    let rises = |at: usize| {
        let steps = curves[at].windows(2).map(|w| w[1].1 / w[0].1);
        steps.fold(f64::INFINITY, f64::min)
    };
    let said = |at: usize| {
        let (first, end) = (curves[at][0], curves[at][last]);
        format!("{:.3} times at {:.0} MB/s", end.1 / first.1, end.0)
    };
    for (at, inset) in [(0, "small"), (2, "large")] {
        let alone = curves[at][0].1;
        outcome.claim(
            &format!(
                "{inset} region: MOET rises with DMA bandwidth, wherever the buffers are (the \
                    least step)"
            ),
            Paper::more(1.0, "Observation 4"),
            rises(at).min(rises(at + 1)),
            Mutation::Quiet,
            format!(
                "{alone:.1} us without DMA; Level-A/B {}, Level-C/OS {}",
                said(at),
                said(at + 1)
            ),
        );
    }
    let gap = |inset: usize, i: usize| curves[inset][i].1 / curves[inset + 1][i].1 - 1.0;
    let gaps = |inset: usize| (1..=last).map(move |i| gap(inset, i));
    let list = |inset: usize| gaps(inset).map(percent).collect::<Vec<_>>().join(", ");
    outcome.claim(
        "small region: buffers in the task's own bank cost more than buffers in level C's (the \
            least difference)",
        Paper::more(0.0, "Observation 5"),
        gaps(0).fold(f64::INFINITY, f64::min),
        Mutation::OwnBuffer,
        format!("by {} at {} MB/s", list(0), solocore_model::list(&bandwidths[1..])),
    );
    outcome.untestable(
        "large region: the difference becomes much less",
        "section 5.3, Fig. 13(b)",
        &format!(
            "all of the array is in the cache and nothing of it reaches the DRAM, so all points \
                are alike; by {}",
            list(2)
        ),
    );
}

fn fig14(context: &Context) -> Result<Outcome, ExperimentError> {
    let (bandwidths, shares) = context.pick((QUICK, QUICK_SHARES), (BANDWIDTHS, SHARES));
    let mut all = Vec::new();
    for &share in shares {
        all.extend(bandwidths.iter().map(|&mb_per_s| Point { region: SMALL, share, mb_per_s }));
    }
    let found = measure_all(context, &all)?;
    let mut table = Table::new(&[
        "share_in_level_c_percent",
        "mb_per_s",
        "mb_per_s_reached",
        "moet_us",
        "acet_us",
    ]);
    for (p, (reached, t)) in all.iter().zip(&found) {
        table.push(row![p.share, p.mb_per_s, *reached, t.moet_us, t.acet_us]);
    }
    let mut outcome = Outcome::new(table);
    for (i, mb_per_s) in bandwidths.iter().enumerate().skip(1) {
        let moets: Vec<f64> =
            (0..shares.len()).map(|at| curve(&found, bandwidths.len(), at)[i].1).collect();
        outcome.claim(
            &format!(
                "{mb_per_s} MB/s: MOET decreases as the share of the buffers in level C's banks \
                increases (the least step)"
            ),
            Paper::more(1.0, "Observation 6"),
            moets.windows(2).map(|w| w[0] / w[1]).fold(f64::INFINITY, f64::min),
            Mutation::OwnBuffer,
            format!(
                "{} us",
                moets.iter().map(|m| format!("{m:.1}")).collect::<Vec<_>>().join(", ")
            ),
        );
    }
    let line = |at| growth(&curve(&found, bandwidths.len(), at));
    let series = shares
        .iter()
        .enumerate()
        .map(|(at, share)| Series::new(format!("{share} % in level C"), line(at)));
    let title = "Synthetic, small LLC region";
    outcome.charts.push(Chart::lines(title, "DMA bandwidth, MB/s", GROWTH, series.collect()));
    outcome
        .differs("The size of the LLC region and the length of a job are assumed, as in Fig. 13.");
    Ok(outcome)
}

/// Without DMA there are no buffers: one run stands for all shares.
fn measure_all(context: &Context, all: &[Point]) -> Result<Vec<(f64, Times)>, ExperimentError> {
    let one = |p: &Point| Point { share: if p.mb_per_s == 0 { 0 } else { p.share }, ..*p };
    let mut distinct: Vec<Point> = Vec::new();
    for point in all.iter().map(one) {
        if !distinct.contains(&point) {
            distinct.push(point);
        }
    }
    let found = points(context, &distinct, |p| measure(context, p))?;
    let of = |p: &Point| distinct.iter().position(|d| *d == one(p)).map(|at| found[at]);
    Ok(all.iter().filter_map(of).collect())
}

/// Bandwidth that the disk reached in MB/s, and Synthetic's times.
fn measure(context: &Context, p: &Point) -> Result<(f64, Times), ExperimentError> {
    let mut board = board(context)?;
    let spec = synthetic(Bytes(256 << 10), Some(Job::Passes(p.region.1)));
    let task = add(&mut board, "Synthetic", 0, ways(0, p.region.0), &spec, &Place::banks(&[0]))?;
    if p.mb_per_s > 0 {
        load(context, &mut board, p)?;
    }
    let mut samples = [Samples::jobs(task, 1, context.pick(2, 20))];
    let (moved, ps) = take(context, board, KernelConfig::default(), 10 * MS, &mut samples)?;
    Ok((moved as f64 * 1e6 / ps as f64, samples[0].times()))
}

/// Three Load-Generators and the disk that they share.
fn load(context: &Context, board: &mut Board, p: &Point) -> Result<(), BoardError> {
    /// SATA II moves 300 MB/s: time of a burst of 128 bytes, less about 60 ns in which it is
    /// written.
    const WAIT_PS: u64 = 128 * 1_000_000 / 300 - 60_000;
    /// Cycles that a request takes of its core, at 800 MHz.
    const WORK_NS: u64 = 62_500;
    // Bytes over MB/s are microseconds.
    let interval_ns = 3 * BLOCK * 1000 / p.mb_per_s;
    let (page, line) = (board.platform().page.0, board.platform().llc.line.0);
    let pages = BLOCK.div_ceil(page);
    let mut frames = Vec::new();
    let disk = DeviceId(0);
    let share = if context.mutated(Mutation::OwnBuffer) { 0 } else { p.share };
    for core in 1..4u32 {
        let offset_lines = frames.len() as u64 * (page / line);
        let buffer = spread(board, pages, share)?;
        let interval = Time::from_ns(interval_ns - WORK_NS);
        let spec =
            WorkloadSpec::SsdLoad(SsdLoad { block: Bytes(BLOCK), interval, ..SsdLoad::default() });
        let regions = [("buffer", Place::frames(&buffer))];
        let mask = ways(8 + 2 * core, 2);
        let name = format!("Load-Generator {core}");
        let task = add_regions(
            board,
            &name,
            core as usize,
            mask,
            &spec,
            &Place::banks(&[core]),
            &regions,
        )?;
        let order = Transfer { offset_lines, lines: BLOCK.div_ceil(line), into_memory: true };
        board.task(task).on_mark = vec![(0, Action::Transfer(disk, order))];
        board.task(task).start_ps = u64::from(core - 1) * interval_ns * 1000 / 3;
        frames.extend(buffer);
    }
    board.device(engine("ssd", frames, WAIT_PS, None));
    Ok(())
}

/// Page frames of a buffer, `share` per cent of them in level C's banks, evenly mixed with those in
/// core 0's bank.
fn spread(board: &mut Board, pages: u64, share: u64) -> Result<Vec<u64>, BoardError> {
    (0..pages)
        .map(|page| {
            let level_c = (page + 1) * share / 100 > page * share / 100;
            let place = Place::banks(if level_c { &LEVEL_C } else { &[0] });
            Ok(board.pages("buffer", 1, &place)?[0])
        })
        .collect()
}
