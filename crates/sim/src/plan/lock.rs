//! The bandwidth lock of a plan: the functions that the planner chose hold it.
//!
//! Problem: a recording has no calls, and the plan knows how many calls hold the lock and how many
//! accesses they cover at least. Rule: in each job, the recording is parted into as many pieces of
//! equal numbers of accesses as there are calls. In each piece the calls' share of accesses holds
//! the lock, where these take the least time. Accesses of locked pages do not count. Other cores
//! learn of the lock as late as the plan allows (`reaction_ns`), of its begin as of its end. A
//! stand-in takes the lock by its own signals. Under `lock = "jobs"` each analysed job takes the
//! lock first of all, and gives it back last, a stand-in's as well. Source: bwlock, section 3. Does
//! not cover: the true places of the calls; functions that a system file names, whose calls the
//! plan does not know.

use super::options::PS;
use crate::kernel::config::{Costs, RegulatorSpec};
use crate::program::{Entry, Op, OpKind, Program, Signal};
use crate::workload::Workload;
use solocore_model::plan::{LockedTask, Plan, PlanTask};
use solocore_model::profile::PageName;
use std::collections::HashSet;
use std::ops::Range;

/// The section of a job that holds the lock from its begin to its end.
const WHOLE_JOB: Range<usize> = 0..usize::MAX;

/// The regulator of a plan with a chosen lock, or with jobs that hold it.
pub fn regulator(plan: &Plan) -> RegulatorSpec {
    let r = &plan.regulation;
    match (plan.lock.is_some() || r.lock_reaction_ns.is_some(), r.lock_budget_accesses) {
        (true, Some(min_budget)) => RegulatorSpec::BwLock {
            period_ps: plan.regulation.period_ns * PS,
            max_budget: None,
            min_budget,
            immediate: true,
        },
        _ => RegulatorSpec::None,
    }
}

/// The time that a change of the lock takes to reach other cores.
pub fn costs(plan: &Plan, managed: bool) -> Costs {
    let of_sections = plan.lock.as_ref().map(|lock| lock.reaction_ns);
    let reaction_ns = of_sections.or(plan.regulation.lock_reaction_ns);
    let reaction_ns = reaction_ns.filter(|_| managed).unwrap_or(0);
    Costs { ipi_delay_ps: reaction_ns.saturating_mul(PS), ..Costs::default() }
}

/// The workload of a task, with its sections. `again` makes its program once more.
///
/// # Errors
/// Those of `again`.
pub fn with_sections<E>(
    (plan, task, managed): (&Plan, &PlanTask, bool),
    workload: Workload,
    again: impl FnOnce() -> Result<Workload, E>,
) -> Result<Workload, E> {
    let planned = plan.lock.as_ref().filter(|_| managed);
    let planned = planned.and_then(|lock| lock.tasks.iter().find(|t| t.name == task.name));
    let Some(planned) = planned.filter(|t| !t.functions.is_empty() && workload.has_jobs) else {
        return Ok(workload);
    };
    let hits: HashSet<&PageName> = task.locked_pages.iter().collect();
    let hit = |name: &Option<PageName>| name.as_ref().is_some_and(|name| hits.contains(name));
    let pages: Vec<bool> = workload.page_names.iter().map(hit).collect();
    let lines = u64::from(plan.platform.lines_per_page()).max(1);
    let counts = Counts::Unlocked { pages, lines };
    let sections = sections(planned, &gaps(again()?.program, &counts));
    Ok(locking(workload, counts, sections))
}

/// The workload of a task whose jobs hold the lock, where the plan has such.
pub fn held(plan: &Plan, task: &PlanTask, managed: bool, workload: Workload) -> Workload {
    if managed && plan.regulation.lock_reaction_ns.is_some() && !task.best_effort() {
        return locking(workload, Counts::All, vec![WHOLE_JOB]);
    }
    workload
}

/// The workload with the lock around these sections.
fn locking(mut workload: Workload, counts: Counts, sections: Vec<Range<usize>>) -> Workload {
    workload.program = Box::new(Locker::new(workload.program, counts, sections));
    workload.locks = true;
    workload
}

/// Operations that count.
#[derive(Clone, Debug)]
enum Counts {
    /// All of a job.
    All,
    /// Accesses to pages that are not locked.
    Unlocked {
        /// By page: is it locked?
        pages: Vec<bool>,
        /// Lines of a page.
        lines: u64,
    },
}

impl Counts {
    fn has(&self, op: Op) -> bool {
        let Self::Unlocked { pages, lines } = self else { return true };
        let page = usize::try_from(op.line() / lines).unwrap_or(usize::MAX);
        op.is_access() && !pages.get(page).copied().unwrap_or(false)
    }
}

/// Cycles before each access of the first job that counts.
fn gaps(mut program: Box<dyn Program>, counts: &Counts) -> Vec<u64> {
    let (mut out, mut ops, mut cycles) = (Vec::new(), Vec::new(), 0u64);
    loop {
        ops.clear();
        program.refill(&mut ops);
        for &op in &ops {
            if op.kind() == OpKind::Signal && op.signal_value() == Signal::JobEnd {
                return out;
            }
            cycles = cycles.saturating_add(op.cycles());
            if counts.has(op) {
                out.push(std::mem::take(&mut cycles));
            }
        }
    }
}

/// The accesses of a job that hold the lock, as ranges in order.
fn sections(planned: &LockedTask, gaps: &[u64]) -> Vec<Range<usize>> {
    let all = gaps.len();
    let covered = usize::try_from(planned.covered).unwrap_or(usize::MAX).min(all);
    let pieces = usize::try_from(planned.sections).unwrap_or(usize::MAX).clamp(1, covered.max(1));
    let part = |whole: usize, nth: usize| {
        // Below `whole`, so that it fits.
        (whole as u128 * nth as u128 / pieces as u128) as usize
    };
    let mut held = 0;
    (0..pieces)
        .filter_map(|nth| {
            let piece = part(all, nth)..part(all, nth + 1);
            // What did not fit in a shorter piece is held in the next ones.
            let length = (part(covered, nth + 1) - held).min(piece.len());
            held += length;
            (length > 0).then(|| densest(gaps, piece, length))
        })
        .collect()
}

/// The range of `length` accesses in a piece with the fewest cycles; the first among equals. The
/// piece is cut if it is shorter.
fn densest(gaps: &[u64], piece: Range<usize>, length: usize) -> Range<usize> {
    let length = length.min(piece.len());
    // The time before the first access is outside.
    let within = |from: usize| gaps[from..from + length].iter().skip(1).sum::<u64>();
    let (mut best, mut cycles) = (piece.start, within(piece.start));
    let mut least = cycles;
    for from in piece.start + 1..=piece.end - length {
        let entering = if length > 1 { gaps[from + length - 1] } else { 0 };
        let leaving = if length > 1 { gaps[from] } else { 0 };
        cycles = cycles + entering - leaving;
        if cycles < least {
            (best, least) = (from, cycles);
        }
    }
    best..best + length
}

/// A program that takes the lock around its sections.
struct Locker {
    program: Box<dyn Program>,
    counts: Counts,
    /// By operation of a job that counts.
    sections: Vec<Range<usize>>,
    /// Those of the job so far.
    at: usize,
    /// The section at hand, or the next one.
    next: usize,
    holds: bool,
    /// A job was given up, perhaps in a section.
    left: bool,
}

impl Locker {
    fn new(program: Box<dyn Program>, counts: Counts, sections: Vec<Range<usize>>) -> Self {
        Self { program, counts, sections, at: 0, next: 0, holds: false, left: false }
    }

    fn signal(&mut self, locks: bool, out: &mut Vec<Op>) {
        self.holds = locks;
        out.push(Op::signal(if locks { Signal::Lock } else { Signal::Unlock }));
    }

    fn pass(&mut self, op: Op, out: &mut Vec<Op>) {
        if op.kind() == OpKind::Signal && op.signal_value() == Signal::JobEnd {
            if self.holds {
                self.signal(false, out);
            }
            (self.at, self.next) = (0, 0);
            out.push(op);
            return;
        }
        if !self.counts.has(op) {
            out.push(op);
            return;
        }
        let section = self.sections.get(self.next).cloned().unwrap_or(usize::MAX..usize::MAX);
        if self.at == section.start {
            self.signal(true, out);
        }
        out.push(op);
        self.at += 1;
        if self.holds && self.at == section.end {
            self.signal(false, out);
            self.next += 1;
        }
    }
}

impl Program for Locker {
    fn refill(&mut self, out: &mut Vec<Op>) {
        if std::mem::take(&mut self.left) {
            out.push(Op::signal(Signal::Unlock));
        }
        let mut ops = Vec::new();
        self.program.refill(&mut ops);
        ops.into_iter().for_each(|op| self.pass(op, out));
    }

    fn entry(&self) -> Entry {
        self.program.entry()
    }

    fn pages(&self) -> u32 {
        self.program.pages()
    }

    fn abandon_job(&mut self) {
        self.program.abandon_job();
        (self.at, self.next, self.holds, self.left) = (0, 0, false, true);
    }

    fn resumed(&mut self, out: &mut Vec<Op>) {
        self.program.resumed(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two jobs of six accesses, the pages of which are 0, 1, 0, 1...; page 2 is locked.
    struct Six;

    impl Program for Six {
        fn refill(&mut self, out: &mut Vec<Op>) {
            for (gap, line) in [(50, 0), (9, 1), (1, 2), (1, 0), (40, 1), (2, 0), (2, 1)] {
                out.push(Op::access(OpKind::LoadWait, gap, line));
            }
            out.push(Op::signal(Signal::JobEnd));
        }

        fn pages(&self) -> u32 {
            3
        }

        fn abandon_job(&mut self) {}
    }

    fn planned(covered: u64, sections: u64) -> LockedTask {
        LockedTask {
            name: "t".to_owned(),
            functions: vec!["f".to_owned()],
            covered,
            accesses: 6,
            sections,
            held_ns: 1,
            alone_ns: 1,
            limit_ns: 2,
            bound_ns: 2,
            verdict: None,
            unlocked_ns: None,
            one_more_ns: None,
            derivation: None,
        }
    }

    fn counts() -> Counts {
        Counts::Unlocked { pages: vec![false, false, true], lines: 1 }
    }

    /// Fails where a section has another number of accesses than planned, or a sparser place.
    #[test]
    fn sections_lie_where_accesses_are_densest() {
        let gaps = gaps(Box::new(Six), &counts());
        assert_eq!(gaps, [50, 9, 2, 40, 2, 2]);
        let of = |covered, calls| -> Vec<(usize, usize)> {
            let found = sections(&planned(covered, calls), &gaps);
            found.into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(of(3, 1), [(3, 6)]);
        assert_eq!(of(4, 2), [(1, 3), (3, 5)]);
        assert_eq!(of(6, 1), [(0, 6)]);
        assert_eq!(of(2, 9), [(0, 1), (3, 4)]);
        assert_eq!(of(9, 1), [(0, 6)]);
        assert!(of(0, 3).is_empty());
        // The fourth of seven pieces has one access, and two would be its share.
        let seven = sections(&planned(9, 7), &[1; 10]);
        assert_eq!(seven.iter().map(ExactSizeIterator::len).sum::<usize>(), 9);
    }

    #[test]
    fn each_job_takes_the_lock_and_gives_it_back() {
        let gaps = gaps(Box::new(Six), &counts());
        let sections = sections(&planned(3, 1), &gaps);
        let mut program = Locker::new(Box::new(Six), counts(), sections);
        for _ in 0..2 {
            let mut ops = Vec::new();
            program.refill(&mut ops);
            let place = |signal| ops.iter().position(|&op| op == Op::signal(signal));
            let (locks, unlocks) = (place(Signal::Lock), place(Signal::Unlock));
            assert_eq!((locks, unlocks), (Some(4), Some(8)), "{ops:?}");
            assert_eq!(ops.len(), 10);
        }
        program.abandon_job();
        let mut ops = Vec::new();
        program.refill(&mut ops);
        assert_eq!(ops[0], Op::signal(Signal::Unlock));
    }

    #[test]
    fn a_whole_job_holds_the_lock() {
        let mut program = Locker::new(Box::new(Six), Counts::All, vec![WHOLE_JOB]);
        for _ in 0..2 {
            let mut ops = Vec::new();
            program.refill(&mut ops);
            assert_eq!(ops[0], Op::signal(Signal::Lock));
            assert_eq!(ops[8..], [Op::signal(Signal::Unlock), Op::signal(Signal::JobEnd)]);
        }
    }
}
