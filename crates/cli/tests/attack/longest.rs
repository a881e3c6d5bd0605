//! `L_max` against the simulated memory: the worst single read of a task that is alone.
//!
//! Problem: every bound counts accesses at `latency_max`; if one read alone can take longer, all of
//! them are wrong, and if none comes near it, all of them are loose. Rule: a job reads one line,
//! some time after it has written others of other rows of the same bank, or has read one. The time
//! between them sweeps over the writes' service; every run ends before the first refresh. The
//! read's own time is the response without that of the same job without the read, and without the
//! look-up of the shared cache.
//!
//! The job posts enough writes that the controller begins to drain them while nothing else waits. A
//! read during the drain waits for writes that are the job's own accesses, each with a service of
//! its own; a read right after the last write waits for that write only.

use super::found;
use solocore_experiments::attack::evaluate::planned;
use solocore_experiments::attack::program::Rows;
use solocore_experiments::attack::program::Visit;
use solocore_experiments::attack::system::{Attack, Policy};
use solocore_model::plan::Plan;
use solocore_model::platform::PRESETS;
use solocore_model::results::Mode;
use solocore_sim::machine::Layout;
use solocore_sim::program::{Entry, Op, OpKind, PageKind, Program, Signal};
use solocore_sim::{Options, StandIn, simulate_with};
use std::path::Path;
use std::sync::Arc;

/// Every preset's first refresh comes later than this.
const RUN_NS: u64 = 3_000;

/// Number of writes that are drained at once while no read waits (crates/dram, `IDLE_FROM`).
const POSTED: u64 = 9;

/// Accesses of one kind, a pause, and the measured read, if there is one: each to another row of
/// one bank.
#[derive(Clone)]
struct Single {
    first: OpKind,
    count: u64,
    pause: u64,
    read: bool,
    lines: Vec<u64>,
    pages: u32,
}

impl Program for Single {
    fn refill(&mut self, out: &mut Vec<Op>) {
        let mut lines = self.lines.iter().copied();
        for _ in 0..self.count {
            out.push(Op::access(self.first, 0, lines.next().unwrap()));
        }
        out.push(Op::compute(self.pause));
        if self.read {
            out.push(Op::access(OpKind::LoadWait, 0, lines.next().unwrap()));
        }
        out.push(Op::signal(Signal::JobEnd));
    }

    fn entry(&self) -> Entry {
        Entry::Shared
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn abandon_job(&mut self) {}
}

fn alone(board: &str) -> Attack {
    found::attack(Policy::None, board, 1, found::victim(1_000, POSTED + 1, 1_000_000))
}

/// Response of the first job, in ns.
fn response(plan: &Plan, layout: &Layout, single: &Single) -> u64 {
    let banks: Vec<u32> = (0..layout.banks()).collect();
    let lines = u64::from(plan.platform.lines_per_page());
    let visit = Visit::new(layout, &banks, 0, Rows::Conflicts, 0, lines);
    let pages = u32::try_from(visit.frames.len()).unwrap();
    let program = Single { lines: visit.lines, pages, ..single.clone() };
    let program: Arc<dyn Fn() -> Box<dyn Program> + Send + Sync> =
        Arc::new(move || Box::new(program.clone()) as _);
    let stand_in = StandIn {
        task: 0,
        program,
        frames: visit.frames,
        kind: Some(PageKind::Bypass),
        phase_ns: 0,
    };
    let options = Options { mode: Mode::Managed, duration_ns: RUN_NS, seed: 1, timeline_ns: 0 };
    let result = simulate_with(plan, &options, &[stand_in], &|_| true).unwrap();
    assert_eq!(result.tasks[0].jobs, 1, "{:?}", result.tasks[0]);
    result.tasks[0].max_response_ns
}

/// The longest of the reads right after the last write: the first peak of the reads, in the order
/// of their times, latest first.
fn first_peak(reads: impl Iterator<Item = f64>) -> f64 {
    let mut peak = 0.0f64;
    for read in reads {
        if read < peak - 10.0 {
            break;
        }
        peak = peak.max(read);
    }
    peak
}

/// Found with it: where `t_ras` is longer than write to precharge (all presets' memories), a read
/// that comes just after the row of a posted write was opened closes it again, `t_ras` after it was
/// opened; `L_max` counted the shorter time only.
#[test]
fn longest_single_access() {
    let mut broken = Vec::new();
    for (board, _) in PRESETS {
        let plan = planned(&alone(board), Path::new(".")).unwrap();
        let layout = solocore_sim::plan::layout(&plan).unwrap();
        let platform = &plan.platform;
        let most_ns = platform.dram.latency_max.ps() as f64 / 1000.0;
        let look_up_ns = platform.cycles_to_ps(platform.llc.latency.0) as f64 / 1000.0;
        let cycles = |ns: u64| {
            u64::try_from(u128::from(platform.frequency.0) * u128::from(ns) / 1_000_000_000)
                .unwrap()
        };
        let read = |first: OpKind, count: u64, pause: u64| {
            let of = |read| Single { first, count, pause, read, lines: Vec::new(), pages: 0 };
            let [with, without] = [true, false].map(|read| response(&plan, &layout, &of(read)));
            (with - without) as f64 - look_up_ns
        };
        let pauses = (1..cycles(1_200)).rev().step_by(usize::try_from(cycles(1)).unwrap().max(1));
        let after_write = first_peak(pauses.map(|pause| read(OpKind::StoreLine, POSTED, pause)));
        let after_read = (1..20).map(|pause| read(OpKind::LoadWait, 1, pause)).fold(0.0, f64::max);
        println!(
            "{board}: latency_max {most_ns:.3} ns; a read right after a write took \
                {after_write:.3}, after a read {after_read:.3}"
        );
        let longest = after_write.max(after_read);
        // Responses are whole nanoseconds, so that their difference is off by less than one.
        if longest >= most_ns + 1.0 || longest < 0.9 * most_ns {
            broken.push(format!(
                "{board}: the longest read took {longest:.3} ns, latency_max is {most_ns:.3} ns"
            ));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
