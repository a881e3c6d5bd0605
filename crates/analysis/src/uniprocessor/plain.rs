//! Response times of plain task sets under preemptive fixed priorities on a whole core, fast.
//!
//! # Problem
//! Studies and searches analyse millions of task sets. The textbook recurrence (Joseph and Pandya
//! 1986, Audsley et al. 1993; arbitrary deadlines: Lehoczky, RTSS 1990) starts over for every task
//! and divides once per task and step.
//!
//! # Rule
//! All levels are windows of one schedule, in which all tasks are released at 0 and then as often
//! as possible. A job one level down ends only when the busy window of the level above has ended.
//! The first job of level `i+1` takes at least that window and its own execution time, and every
//! job counted in that window counts here too. So one pass goes through all levels, and never
//! counts a job twice. Jobs are not counted by division. Each task remembers the instant up to
//! which its jobs are counted (`covered`), and a pass over the tasks adds up to two jobs to each
//! task whose next ones are due. Two bounds save passes: if the earliest `covered` lies beyond the
//! window, it is done; if passes do not end (a period much shorter than the window), one that
//! divides catches up.
//!
//! # Exactness
//! A pass works on four tasks at once (`quad.rs`), with integers below 2^52. Execution times add up
//! to at most [`LIMIT`] = 2^50, periods are at most `LIMIT`, and a pass is made for a window of at
//! most `LIMIT`. So `covered` stays at most `2*LIMIT`, a period beyond it at most `3*LIMIT`, and
//! the work at most `3*LIMIT`, because a pass counts two jobs of a task. Larger numbers go to
//! [`fixed_priority`](super::fixed_priority), which computes with more.
//!
//! # Not covered
//! Jitter, blocking, supplies, non-preemptive sections: see
//! [`fixed_priority`](super::fixed_priority).

#[cfg(target_arch = "x86_64")]
use super::quad::Wide;
use super::quad::{Baseline, Four, NEVER, Quad, ZERO};
use super::{MAX_STEPS, fits, fixed_priority};
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};

/// Largest window and period, and sum of execution times, of the fast path.
const LIMIT: u64 = 1 << 50;
/// The same as an instant.
const END: u64 = ZERO + LIMIT;
/// Tasks handled at once.
const LANES: usize = 4;
/// Passes for one job after which a pass divides.
const PATIENCE: u64 = 32;
/// Passes for one level after which the utilisation is tested: above 1 they would not end.
const SUSPICION: u64 = 16;
/// Passes between further tests of the utilisation.
const DOUBT: u64 = 256;

/// Four tasks of higher priority.
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Jobs counted so far times the period: they are all that can be released before this instant.
    /// [`NEVER`] for none.
    covered: Four,
    period: Four,
    wcet: Four,
}

impl Lane {
    /// Up to four tasks with no release yet.
    fn of(tasks: &[SporadicTask]) -> Self {
        let (covered, mut period, mut wcet) = (Four([NEVER; 4]), Four([0; 4]), Four([0; 4]));
        for (place, task) in tasks.iter().enumerate().take(LANES) {
            (period.0[place], wcet.0[place]) = (task.period, task.wcet);
        }
        Self { covered, period, wcet }
    }
}

/// Memory for the analysis, to be used again: after the largest set so far, nothing is allocated.
#[derive(Debug, Default)]
pub struct Scratch {
    lanes: Vec<Lane>,
}

/// The schedule up to now.
struct Window<'a, Q> {
    lanes: &'a mut [Lane],
    /// Tasks admitted.
    tasks: usize,
    /// Execution time of all counted jobs: the end of the window if no job is missing.
    work: Q,
    /// The least of the four is the least `covered` of all.
    next: Q,
}

/// Reason for which the fast path stopped.
enum Stop {
    /// A number is too large for it.
    Large,
    /// The window does not end, or not in [`MAX_STEPS`].
    Endless,
}

/// Counts a pass, or a job of the task itself; fails if further ones are useless.
#[inline(always)]
fn step(level: &[SporadicTask], passes: &mut u64) -> Result<(), Stop> {
    *passes += 1;
    let doubtful = *passes == SUSPICION || passes.is_multiple_of(DOUBT);
    let endless = *passes > MAX_STEPS || (doubtful && !fits(level));
    if endless { Err(Stop::Endless) } else { Ok(()) }
}

/// Counts up to two more jobs of every task that are due before `work`: the work with these, and
/// the least `covered`.
///
/// # Safety
/// The machine has the instructions of `Q`.
#[inline(always)]
unsafe fn pass<Q: Quad>(lanes: &mut [Lane], work: Q) -> (Q, Q) {
    // SAFETY: the caller's; as for the loads below.
    let (none, mut next) = unsafe { (Q::all(0), Q::all(NEVER)) };
    let (mut first, mut second) = (none, none);
    for lane in lanes {
        // SAFETY: as above.
        let (covered, period, wcet) =
            unsafe { (Q::load(&lane.covered), Q::load(&lane.period), Q::load(&lane.wcet)) };
        let then = covered.add(period);
        let counted =
            covered.add(period.where_before(covered, work)).add(period.where_before(then, work));
        first = first.add(wcet.where_before(covered, work));
        second = second.add(wcet.where_before(then, work));
        counted.store(&mut lane.covered);
        next = next.min(counted);
    }
    (work.add(first.add(second).sum()), next)
}

/// Counts all jobs of the first `tasks` that are released before `work`, by division: the work with
/// these, and the least `covered`.
#[cold]
#[inline(never)]
fn catch_up(lanes: &mut [Lane], tasks: usize, work: u64) -> Result<(u64, u64), Stop> {
    let (window, mut next) = (work - ZERO, NEVER);
    let mut work = u128::from(window);
    for i in 0..tasks {
        let Lane { covered, period, wcet } = &mut lanes[i / LANES];
        let (covered, period) = (&mut covered.0[i % LANES], period.0[i % LANES]);
        let jobs = window.saturating_sub(*covered - ZERO).div_ceil(period);
        *covered += jobs * period;
        work += u128::from(jobs) * u128::from(wcet.0[i % LANES]);
        next = next.min(*covered);
    }
    match u64::try_from(work) {
        Ok(work) if work <= LIMIT => Ok((ZERO + work, next)),
        _ => Err(Stop::Large),
    }
}

impl<'a, Q: Quad> Window<'a, Q> {
    /// A window before any release.
    ///
    /// # Safety
    /// The machine has the instructions of `Q`.
    #[inline(always)]
    unsafe fn new(lanes: &'a mut [Lane]) -> Self {
        // SAFETY: the caller's.
        let (work, next) = unsafe { (Q::all(ZERO), Q::all(NEVER)) };
        Self { lanes, tasks: 0, work, next }
    }

    /// Extends the window until every job released in it is counted.
    #[inline(always)]
    fn close(&mut self, level: &[SporadicTask], passes: &mut u64) -> Result<(), Stop> {
        let used = self.tasks.div_ceil(LANES);
        let mut tries = 0;
        while self.next.any_before(self.work) && self.work.first() <= END {
            step(level, passes)?;
            tries += 1;
            if tries > PATIENCE {
                let (work, next) = catch_up(self.lanes, self.tasks, self.work.first())?;
                // SAFETY: `self` has a `Q`, so the machine has its instructions.
                (self.work, self.next) = unsafe { (Q::all(work), Q::all(next)) };
            } else {
                // SAFETY: as above.
                (self.work, self.next) = unsafe { pass(&mut self.lanes[..used], self.work) };
            }
        }
        if self.work.first() > END { Err(Stop::Large) } else { Ok(()) }
    }

    /// Response time of the last task of `level` below those admitted, and admits it.
    #[inline(always)]
    fn response(&mut self, level: &[SporadicTask], passes: &mut u64) -> Result<u64, Stop> {
        let Some(task) = level.last() else { return Err(Stop::Endless) };
        let (mut worst, mut release) = (0, ZERO);
        loop {
            // SAFETY: `self` has a `Q`, so the machine has its instructions.
            self.work = self.work.add(unsafe { Q::all(task.wcet) });
            self.close(level, passes)?;
            let work = self.work.first();
            worst = worst.max(work - release);
            release += task.period;
            if work <= release {
                break;
            }
            step(level, passes)?;
        }
        self.lanes[self.tasks / LANES].covered.0[self.tasks % LANES] = release;
        self.tasks += 1;
        // SAFETY: as above.
        self.next = self.next.min(unsafe { Q::all(release) });
        Ok(worst)
    }
}

/// Response times of all levels, up to the one at which the fast path stops.
///
/// # Safety
/// The machine has the instructions of `Q`.
#[inline(always)]
unsafe fn levels<Q: Quad>(
    tasks: &[SporadicTask],
    lanes: &mut [Lane],
    responses: &mut [Option<u64>],
) -> Result<(), (usize, Stop)> {
    // SAFETY: the caller's.
    let mut window = unsafe { Window::<Q>::new(lanes) };
    for (i, response) in responses.iter_mut().enumerate() {
        let found = window.response(&tasks[..=i], &mut 0);
        *response = Some(found.map_err(|stop| (i, stop))?);
    }
    Ok(())
}

/// [`levels`] with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn levels_wide(
    tasks: &[SporadicTask],
    lanes: &mut [Lane],
    responses: &mut [Option<u64>],
) -> Result<(), (usize, Stop)> {
    // SAFETY: AVX2 is there, as the function is called.
    unsafe { levels::<Wide>(tasks, lanes, responses) }
}

/// [`levels`] with the instructions of this machine.
fn levels_here(
    tasks: &[SporadicTask],
    lanes: &mut [Lane],
    responses: &mut [Option<u64>],
) -> Result<(), (usize, Stop)> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 is there.
        return unsafe { levels_wide(tasks, lanes, responses) };
    }
    // SAFETY: the architecture includes these instructions.
    unsafe { levels::<Baseline>(tasks, lanes, responses) }
}

/// Worst-case response times in the unit of the tasks, highest priority first, written to
/// `responses`, one for each task.
///
/// `None` where the level's busy window does not end (utilisation above 1), is not found to end
/// within [`MAX_STEPS`], or does not fit in 64 bits. It is `None` for all tasks if a period is zero
/// or the lengths differ. A response beyond the deadline is reported. The response is exact for
/// sporadic tasks that may be released together.
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
    scratch.lanes.extend(tasks.chunks(LANES).map(Lane::of));
    match levels_here(tasks, &mut scratch.lanes, responses) {
        Err((level, Stop::Large)) => slow(tasks, level, responses),
        Err((_, Stop::Endless)) | Ok(()) => {}
    }
}

/// The levels from `first` on, with integers.
fn slow(tasks: &[SporadicTask], first: usize, responses: &mut [Option<u64>]) {
    let general: Vec<fixed_priority::FixedPriorityTask> =
        tasks.iter().map(fixed_priority::FixedPriorityTask::from).collect();
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
/// response without a bound makes it false.
///
/// # Errors
/// See [`check`](super::check).
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    schedulable_into(set, &mut Scratch::default(), &mut vec![None; set.tasks.len()])
}

/// [`schedulable`] with working memory of the caller, which contains the response times afterwards.
///
/// # Errors
/// See [`check`](super::check).
pub fn schedulable_into(
    set: &TaskSet,
    scratch: &mut Scratch,
    responses: &mut [Option<u64>],
) -> Result<bool, TaskSetError> {
    super::check_numbers(set)?;
    response_times_into(&set.tasks, scratch, responses);
    // A window that ends with all tasks' jobs shows that they fit: its work is at least its length
    // times the utilisation.
    if responses.last().is_none_or(Option::is_none)
        && let Err(error) = super::check(set)
    {
        responses.fill(None);
        return Err(error);
    }
    Ok(deadlines_met(&set.tasks, responses))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniprocessor::supply::Dedicated;
    use proptest::prelude::*;

    /// Responses by the kind of instructions `Q`, with integers where it stops.
    ///
    /// # Safety
    /// The machine has the instructions of `Q`.
    unsafe fn by<Q: Quad>(tasks: &[SporadicTask]) -> Vec<Option<u64>> {
        let mut responses = vec![None; tasks.len()];
        let mut lanes: Vec<Lane> = tasks.chunks(LANES).map(Lane::of).collect();
        // SAFETY: the caller's.
        match unsafe { levels::<Q>(tasks, &mut lanes, &mut responses) } {
            Err((level, Stop::Large)) => slow(tasks, level, &mut responses),
            Err((_, Stop::Endless)) | Ok(()) => {}
        }
        responses
    }

    /// Periods and loads at which a path ends: small ones that tie, windows of thousands of jobs
    /// (divided), sums and windows about [`LIMIT`], utilisations of exactly 1.
    fn adversarial() -> impl Strategy<Value = Vec<SporadicTask>> {
        let period = prop_oneof![
            1..20u64,
            1..5000u64,
            (0..50u32).prop_map(|k| 1 << k),
            LIMIT / 20..LIMIT,
            (0..40u64).prop_map(|k| LIMIT - k),
        ];
        let task = (period, prop_oneof![0.0..0.2, 0.0..1.0]).prop_map(|(period, share)| {
            let wcet = ((period as f64 * share) as u64).clamp(1, period);
            SporadicTask { wcet, period, deadline: period }
        });
        (prop::collection::vec(task, 1..12), any::<bool>()).prop_map(|(mut tasks, full)| {
            while tasks.len() > 1 && !fits(&tasks) {
                tasks.pop();
            }
            if full {
                let last = tasks[tasks.len() - 1];
                tasks.push(SporadicTask { wcet: last.period.div_ceil(2), ..last });
            }
            tasks
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

        /// With any instructions the responses are those of the recurrence.
        #[test]
        fn all_kinds_of_instructions_agree_with_the_recurrence(tasks in adversarial()) {
            let found = response_times(&tasks);
            // Windows with hundreds of thousands of jobs, where one of the two may give up. A window
            // is at most the work of a job of each task, divided by the part of the time left.
            let endless = |tasks: &[SporadicTask]| {
                let short = tasks.iter().map(|t| t.period).min().unwrap_or(1);
                let (load, work) = tasks.iter().fold((0.0, 0.0), |(load, work), t| {
                    (load + t.wcet as f64 / t.period as f64, work + t.wcet as f64)
                });
                work / (1.0 - load).max(f64::EPSILON) / short as f64 > (MAX_STEPS / 16) as f64
            };
            // SAFETY: the architecture includes these instructions.
            let baseline = unsafe { by::<Baseline>(&tasks) };
            // Instructions take different steps to the same response, and each counts its own.
            let apart = baseline.iter().zip(&found).position(|(a, b)| a != b);
            if let Some(i) = apart {
                prop_assert!(baseline[i].is_none() || found[i].is_none(), "task {} of {:?}", i, &tasks);
                prop_assert!(endless(&tasks[..=i]), "task {} of {:?}", i, &tasks);
            }
            let general: Vec<_> =
                tasks.iter().map(fixed_priority::FixedPriorityTask::from).collect();
            for (i, response) in found.iter().enumerate() {
                if !fits(&tasks[..=i]) {
                    prop_assert_eq!(*response, None);
                    continue;
                }
                // Both count their steps, but in different ways: so either may give up before the
                // other in a window with hundreds of thousands of jobs.
                if response.is_none() {
                    prop_assert!(endless(&tasks[..=i]), "task {} of {:?}", i, &tasks);
                    break;
                }
                if let Some(exact) = fixed_priority::response_time(&Dedicated, &general, i) {
                    prop_assert_eq!(*response, Some(exact), "task {} of {:?}", i, &tasks);
                }
            }
            let set = TaskSet { cores: 1, tasks };
            let verdict = super::super::check(&set).map(|()| deadlines_met(&set.tasks, &found));
            prop_assert_eq!(schedulable(&set), verdict);
        }
    }
}
