//! The seven vision benchmarks of section 4: the paper's figures of them, its machine, and the time
//! that an access takes there.
//!
//! Source: Tables 1 and 2. A benchmark is known by its profile pages, its times, and by eq. (1) its
//! misses with half of the pages locked: `(C_sce - Solo)/(m L_max)`.
//!
//! The machine: section 4 gives the P4080's memory a peak bandwidth and a guaranteed one. The
//! guaranteed one is measured (section 3.2): each access depends on the one before, and goes to
//! another row. So such an access takes `L_max`, 49.6 ns, with its way through the caches. The
//! platform's file takes `L_max` for the part in the memory alone, which is on the safe side for
//! bounds; there it is 83 ns.

use super::scatter::{Shape, add};
use super::setup::{one_job, own_banks, regulation};
use crate::{Context, ExperimentError};
use solocore_model::{Cycles, Platform};
use solocore_sim::board::{Board, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::program::PageKind;

/// A row of Tables 1 and 2.
pub struct Benchmark {
    pub name: &'static str,
    /// Profile pages.
    pub pages: u32,
    /// Time without a page over that with all of the cache, in hundredths.
    pub ratio: u64,
    /// Solo, MemGuard and C_sce, with half of the pages locked, in tenths of a millisecond.
    pub solo: u64,
    pub guarded: u64,
    pub bound: u64,
}

const fn row(name: &'static str, pages: u32, ratio: u64, times: [u64; 3]) -> Benchmark {
    let [solo, guarded, bound] = times;
    Benchmark { name, pages, ratio, solo, guarded, bound }
}

pub const BENCHMARKS: [Benchmark; 7] = [
    row("disparity", 173, 229, [1711, 3394, 5987]),
    row("localization", 80, 161, [633, 952, 1585]),
    row("mser", 115, 211, [151, 173, 225]),
    row("tracking", 217, 188, [1081, 2129, 3359]),
    row("multi-ncut", 87, 119, [6701, 7036, 7617]),
    row("sift", 930, 204, [4713, 6402, 9675]),
    row("texture", 404, 225, [4401, 8935, 14656]),
];
/// The one whose curve the paper shows.
pub const TRACKING: &Benchmark = &BENCHMARKS[3];

const TENTH_MS_PS: u64 = 100_000_000;

impl Benchmark {
    /// Misses of a job with half of the pages locked, by eq. (1).
    pub fn misses(&self, platform: &Platform) -> u64 {
        let split = regulation(platform, platform.cores);
        (self.bound - self.solo) * TENTH_MS_PS / (u64::from(split.cores) * split.latency_ps)
    }

    /// Cycles of a job beside accesses that take so long, with half of the pages locked.
    pub fn cycles(&self, platform: &Platform, accesses_ps: u64) -> u64 {
        let rest_ps = (self.solo * TENTH_MS_PS).saturating_sub(accesses_ps);
        let cycles = u128::from(rest_ps) * u128::from(platform.frequency.0) / 1_000_000_000_000;
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    /// A job whose accesses fall linearly with the rank of a page, as in Fig. 11: the colder half
    /// of the pages, which is not locked, has a quarter of them. `1/part` of it.
    pub fn shape(&self, platform: &Platform, ways: Ways, part: u64) -> Shape {
        let misses = self.misses(platform);
        let cycles = self.cycles(platform, misses * ways.miss_ps + 3 * misses * ways.hit_ps);
        Shape {
            pages: self.pages,
            accesses: 4 * misses / part,
            cycles: cycles / part,
            hot: true,
            warm: false,
        }
    }
}

/// The machine of section 4: the P4080 whose memory gives 2.5 GiB/s at most ("a peak bandwidth of
/// 2.5 GB/s"; its 1.2 GB/s are GiB/s, too). On each of two channels a line of 64 bytes then goes by
/// in 48 ns: 32 clocks from one access to the next, of one rank or of the other. A single access
/// takes `L_max` (see above). For that an idle row is closed beforehand, so that no access waits
/// for a precharge, and the shared cache is looked up in 12 cycles: both assumed. The text says
/// this of section 4 alone; its other figures are of other boards or name none.
pub fn board(context: &Context, platform: &Platform) -> Result<Board, ExperimentError> {
    const CLOCKS: u32 = 32;
    const LOOK_UP: Cycles = Cycles(12);
    let mut board = Board::new(platform, context.seed)?;
    let half_burst = board.config.memory.organisation.burst / 2;
    let timing = &mut board.config.memory.timing;
    (timing.t_ccd_s, timing.t_ccd_l, timing.t_rtrs) = (CLOCKS, CLOCKS, CLOCKS - half_burst);
    timing.t_rp = 1;
    (board.config.overhead_ps, board.config.llc.latency) = (0, LOOK_UP);
    Ok(board)
}

/// Times of an access, each after the one before.
#[derive(Clone, Copy)]
pub struct Ways {
    /// To a line that is in no cache.
    pub miss_ps: u64,
    /// To a locked line.
    pub hit_ps: u64,
}

impl Ways {
    /// The paper's experiment for `L_max`, without other cores, and the same in the shared cache.
    pub fn measured(context: &Context, platform: &Platform) -> Result<Self, ExperimentError> {
        let of = |pages: u32, kind: PageKind| -> Result<u64, ExperimentError> {
            let mut board = board(context, platform)?;
            let count = 20_000;
            let only = Shape { pages, accesses: count, cycles: 0, hot: false, warm: false };
            let place = Place::banks(&own_banks(platform, 0)).kind(kind);
            add(&mut board, "latency", only, &place, 0)?;
            Ok(one_job(context, board, KernelConfig::default(), 0)?.execution_ps / count)
        };
        Ok(Self { miss_ps: of(4096, PageKind::Bypass)?, hit_ps: of(64, PageKind::Locked)? })
    }
}

#[cfg(test)]
#[path = "vision_tests.rs"]
mod tests;
