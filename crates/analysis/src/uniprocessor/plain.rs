//! Response times of plain task sets under preemptive fixed priorities on a whole core, fast.
//!
//! # Problem
//! Studies and searches analyse millions of task sets. The textbook recurrence (Joseph and Pandya
//! 1986, Audsley et al. 1993; arbitrary deadlines: Lehoczky, RTSS 1990) starts over for every task
//! and divides once per task and step.
//!
//! # Rule
//! All levels are windows of one schedule, the one in which all tasks are released at 0 and then as
//! often as they may. A job one level down ends only when the busy window of the level above has
//! ended: the first job of level `i+1` takes at least that window and its own execution time, and
//! every job counted in that window counts here too. So one pass goes through all levels, and never
//! counts a job twice. Jobs are not counted by division: each task remembers up to when its jobs
//! are counted (`covered`), and a pass over the tasks adds one job to each task whose next one is
//! due. Two bounds save passes: if the earliest `covered` lies beyond the window, it is done; if
//! passes do not end (a period much shorter than the window), one that divides catches up.
//!
//! # Exactness
//! A pass works on doubles, in pairs (`pair.rs`): the baseline instructions of x86-64 compare and
//! add these two at a time, but not 64-bit integers. Doubles hold integers up to 2^53 exactly.
//! Execution times add up to at most [`LIMIT`] = 2^51, periods are at most `LIMIT`, and a pass is
//! made only for a window of at most `LIMIT`: so `covered` stays at most `2*LIMIT`, and the work
//! too. What exceeds this goes to [`fixed_priority`](super::fixed_priority), which computes with
//! integers.
//!
//! # Not covered
//! Jitter, blocking, supplies, non-preemptive sections: see
//! [`fixed_priority`](super::fixed_priority).

use super::pair::Pair;
use super::{MAX_STEPS, fits, fixed_priority};
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};

/// Largest window and period, and sum of execution times, of the fast path.
const LIMIT: u64 = 1 << 51;
/// The same as a double.
const LIMIT_F: f64 = LIMIT as f64;
/// Tasks handled at once.
const LANES: usize = 4;
/// Passes for one job after which a pass divides.
const PATIENCE: u64 = 32;
/// Passes for one level after which the utilisation is looked at: above 1 they would not end.
const SUSPICION: u64 = 256;

/// Four tasks of higher priority, as two pairs.
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Jobs counted so far times the period: they are all that can be released before this instant.
    /// Infinite for none.
    covered: [Pair; 2],
    period: [Pair; 2],
    wcet: [Pair; 2],
}

impl Lane {
    fn empty() -> Self {
        let zero = [Pair::both(0.0); 2];
        Self { covered: [Pair::both(f64::INFINITY); 2], period: zero, wcet: zero }
    }

    fn set(&mut self, place: usize, covered: f64, period: f64, wcet: f64) {
        let (pair, half) = (place / 2 % 2, place % 2);
        self.covered[pair].set(half, covered);
        self.period[pair].set(half, period);
        self.wcet[pair].set(half, wcet);
    }
}

/// Memory for the analysis, to be used again: after the largest set so far, nothing is allocated.
#[derive(Debug, Default)]
pub struct Scratch {
    lanes: Vec<Lane>,
}

/// The schedule up to now.
struct Window<'a> {
    lanes: &'a mut [Lane],
    /// Tasks admitted.
    tasks: usize,
    /// Execution time of all jobs counted: the end of the window if none is missing.
    work: f64,
    /// Least `covered` of all.
    next: f64,
}

/// Why the fast path stopped.
enum Stop {
    /// A number is too large for it.
    Large,
    /// The window does not end, or not in [`MAX_STEPS`].
    Endless,
}

/// Counts a pass, or a job of the task itself; fails if there is no use in more.
#[inline]
fn step(level: &[SporadicTask], passes: &mut u64) -> Result<(), Stop> {
    *passes += 1;
    let endless = *passes > MAX_STEPS || (passes.is_multiple_of(SUSPICION) && !fits(level));
    if endless { Err(Stop::Endless) } else { Ok(()) }
}

/// Counts the next job of every task that has one due before `work`: the work with these, and the
/// least `covered`.
#[inline]
fn pass(lanes: &mut [Lane], work: f64) -> (f64, f64) {
    let window = Pair::both(work);
    let (mut added, mut next) = ([Pair::both(0.0); 2], [Pair::both(f64::INFINITY); 2]);
    for lane in lanes {
        for p in 0..2 {
            let covered = lane.covered[p];
            lane.covered[p] = covered.add(lane.period[p].where_less(covered, window));
            added[p] = added[p].add(lane.wcet[p].where_less(covered, window));
            next[p] = next[p].min(lane.covered[p]);
        }
    }
    let ([a, b], [c, d]) = (added[0].add(added[1]).get(), next[0].min(next[1]).get());
    (work + (a + b), if c < d { c } else { d })
}

impl Window<'_> {
    /// Counts all jobs released before `work`.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "integers below 2^53"
    )]
    fn catch_up(&mut self) -> Result<(), Stop> {
        let (window, mut work, mut next) = (self.work as u64, self.work as u128, f64::INFINITY);
        for i in 0..self.tasks {
            let (lane, pair, half) = (&mut self.lanes[i / LANES], i / 2 % 2, i % 2);
            let of = |pairs: &[Pair; 2]| pairs[pair].get()[half] as u64;
            let (covered, period) = (of(&lane.covered), of(&lane.period));
            let jobs = window.saturating_sub(covered).div_ceil(period);
            let covered = (covered + jobs * period) as f64;
            work += u128::from(jobs) * u128::from(of(&lane.wcet));
            lane.covered[pair].set(half, covered);
            next = next.min(covered);
        }
        if work > u128::from(LIMIT) {
            return Err(Stop::Large);
        }
        (self.work, self.next) = (work as f64, next);
        Ok(())
    }

    /// Extends the window until every job released in it is counted.
    #[inline]
    fn close(&mut self, level: &[SporadicTask], passes: &mut u64) -> Result<(), Stop> {
        let used = self.tasks.div_ceil(LANES);
        let mut tries = 0;
        while self.next < self.work && self.work <= LIMIT_F {
            step(level, passes)?;
            tries += 1;
            if tries > PATIENCE {
                self.catch_up()?;
            } else {
                (self.work, self.next) = pass(&mut self.lanes[..used], self.work);
            }
        }
        if self.work > LIMIT_F { Err(Stop::Large) } else { Ok(()) }
    }

    /// Response time of the last task of `level` below those admitted, and admits it.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "integers below 2^53"
    )]
    fn response(&mut self, level: &[SporadicTask], passes: &mut u64) -> Result<u64, Stop> {
        let Some(task) = level.last() else { return Err(Stop::Endless) };
        let (wcet, period) = (task.wcet as f64, task.period as f64);
        let (mut worst, mut release) = (0.0f64, 0.0);
        loop {
            self.work += wcet;
            self.close(level, passes)?;
            let response = self.work - release;
            worst = if response > worst { response } else { worst };
            release += period;
            if self.work <= release {
                break;
            }
            step(level, passes)?;
        }
        self.lanes[self.tasks / LANES].set(self.tasks % LANES, release, period, wcet);
        self.tasks += 1;
        self.next = if release < self.next { release } else { self.next };
        Ok(worst as u64)
    }
}

/// Worst-case response times in the unit of the tasks, highest priority first, written to
/// `responses`, one for each task.
///
/// `None` where the level's busy window does not end (utilisation above 1), is not found to end
/// within [`MAX_STEPS`], or does not fit in 64 bits; for all tasks if a period is zero or the
/// lengths differ. A response beyond the deadline is reported. The response is exact for sporadic
/// tasks that may be released together.
pub fn response_times_into(
    tasks: &[SporadicTask],
    scratch: &mut Scratch,
    responses: &mut [Option<u64>],
) {
    responses.fill(None);
    let (mut wcets, mut longest, mut shortest, mut least) = (0u64, 0, u64::MAX, u64::MAX);
    for t in tasks {
        (wcets, least) = (wcets.saturating_add(t.wcet), least.min(t.wcet));
        (longest, shortest) = (longest.max(t.period), shortest.min(t.period));
    }
    if shortest == 0 || responses.len() != tasks.len() {
        return;
    }
    if least == 0 || wcets > LIMIT || longest > LIMIT {
        return slow(tasks, 0, responses);
    }
    scratch.lanes.clear();
    scratch.lanes.resize(tasks.len().div_ceil(LANES), Lane::empty());
    let mut window = Window { lanes: &mut scratch.lanes, tasks: 0, work: 0.0, next: f64::INFINITY };
    for i in 0..tasks.len() {
        let mut passes = 0;
        match window.response(&tasks[..=i], &mut passes) {
            Ok(response) => responses[i] = Some(response),
            Err(Stop::Large) => return slow(tasks, i, responses),
            Err(Stop::Endless) => return,
        }
    }
}

/// The levels from `first` on, with integers.
fn slow(tasks: &[SporadicTask], first: usize, responses: &mut [Option<u64>]) {
    let general: Vec<fixed_priority::Task> = tasks.iter().map(fixed_priority::Task::from).collect();
    for i in first..tasks.len() {
        // Above 1 no window ends; otherwise the recurrence would go on to its limit, for every
        // task.
        responses[i] = if fits(&tasks[..=i]) {
            fixed_priority::response_time(&super::supply::Dedicated, &general, i)
        } else {
            None
        };
        if responses[i].is_none() {
            return;
        }
    }
}

/// [`response_times_into`] with memory of its own.
#[must_use]
pub fn response_times(tasks: &[SporadicTask]) -> Vec<Option<u64>> {
    let mut responses = vec![None; tasks.len()];
    response_times_into(tasks, &mut Scratch::default(), &mut responses);
    responses
}

/// Does every task meet its deadline, given its response times?
#[must_use]
pub fn deadlines_met(tasks: &[SporadicTask], responses: &[Option<u64>]) -> bool {
    tasks.len() == responses.len()
        && tasks
            .iter()
            .zip(responses)
            .all(|(task, response)| response.is_some_and(|r| r <= task.deadline))
}

/// The test by response times: exact for preemptive fixed priorities, arbitrary deadlines; a
/// response that cannot be bounded makes it no.
///
/// # Errors
/// See [`check`](super::check).
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check(set)?;
    Ok(deadlines_met(&set.tasks, &response_times(&set.tasks)))
}

/// [`schedulable`] with its reasons, one derivation for each task.
///
/// # Errors
/// See [`check`](super::check).
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    super::check(set)?;
    let responses = response_times(&set.tasks);
    let mut whole = Derivation::new(
        "schedulable iff R_i <= D_i for every task i",
        "Joseph and Pandya 1986; Lehoczky, RTSS 1990; crates/analysis/src/uniprocessor/plain.rs",
    )
    .result(deadlines_met(&set.tasks, &responses));
    for (i, response) in responses.iter().enumerate() {
        whole = whole.because(fixed_priority::explain(&set.tasks[..=i], *response));
    }
    Ok(whole)
}
