//! Response times under global EDF.
//!
//! # Problem
//! The window of a job is usually shorter than its deadline; less work of others fits into a
//! shorter window.
//!
//! # Rule
//! In the first `L` time units after its release, a job of `k` meets at most
//! `W_i(L) = N*C_i + min(C_i, X - N*T_i)`, `X = L + D_i - C_i - S_i`, `N = floor(X/T_i)`, of any
//! work of task `i`. It meets at most the work with deadlines in its own window (`bcl.rs`). `R_k`
//! is `C_k + x` for the least `x` that is at least the interference by the works for `L = C_k + x`;
//! then `S_k = D_k - R_k`, and again until nothing improves.
//!
//! # Source
//! Bertogna, Cirinei: "Response-time analysis for globally scheduled symmetric multiprocessor
//! platforms", RTSS 2007, theorem 6 and section 4.2. Their interference is capped at `R_k - C_k +
//! 1` and rounded down (integral time); here it is capped at the interference that `m` cores can
//! cause and rounded up (`interference.rs`), so that releases may be at any time. The difference
//! matters: as printed, the tasks `(C, T, D)` = (1, 6, 3), (1, 6, 3), (4, 6, 5), (1, 8, 4) pass on
//! two cores, and miss with releases at halves. `bcl_iterative.rs` shows that slacks may be used
//! before all tasks have passed.
//!
//! # Not covered
//! Deadlines beyond periods. If a task is not shown to meet its deadline, no response is claimed
//! for any.

use super::bcl::edf_work_of;
use super::int::{Int, narrow};
use super::interference;
use crate::derivation::Derivation;
use crate::task_set::{SporadicTask, TaskSet, TaskSetError};

/// Most rounds; then the present results must suffice. Slacks only grow, so stopping is safe.
const MAX_ROUNDS: u32 = 256;
/// Most steps of one fixed point; then the interference of the whole window is taken, which is a
/// solution too, if not the least.
const MAX_STEPS: u32 = 1 << 14;

/// Is the set schedulable by response times? Constrained deadlines. Pseudo-polynomial, O(n^2) a
/// step of all tasks.
///
/// # Errors
/// Impossible numbers, a deadline beyond its period, or more utilisation than cores.
pub fn schedulable(set: &TaskSet) -> Result<bool, TaskSetError> {
    super::check_constrained(set)?;
    Ok(holds(set))
}

/// Response-time bounds in the set's unit, or `None` if the analysis does not show all deadlines.
///
/// # Errors
/// As [`schedulable`].
pub fn responses(set: &TaskSet) -> Result<Option<Vec<u64>>, TaskSetError> {
    super::check_constrained(set)?;
    let (responses, all) = analyse(set, true);
    Ok(all.then_some(responses))
}

/// As [`schedulable`], with the reasons: the bound on each task's response time.
///
/// # Errors
/// As [`schedulable`].
pub fn schedulable_explained(set: &TaskSet) -> Result<Derivation, TaskSetError> {
    super::check_constrained(set)?;
    let (responses, all) = analyse(set, true);
    let mut derivation = Derivation::new(
        "R_k = C_k + I_k(min(W_i(R_k), W_i^EDF)) <= D_k for each k, with slacks S_k = D_k - R_k \
            fed back",
        "Bertogna, Cirinei 2007, theorem 6 and section 4.2",
    )
    .input("m", u64::from(set.cores));
    for (k, response) in responses.into_iter().enumerate() {
        derivation = derivation.step(format!("R_{k}"), response);
    }
    Ok(derivation.result(all))
}

/// The verdict alone, for a set that was checked; stops as soon as it is known.
pub(super) fn holds(set: &TaskSet) -> bool {
    analyse(set, false).1
}

/// Response bounds (meaningful if all tasks pass, with `refine` as small as the method gets) and
/// whether all pass.
pub(super) fn analyse(set: &TaskSet, refine: bool) -> (Vec<u64>, bool) {
    if narrow(set) {
        Analysis::<u64>::new(set).run(refine)
    } else {
        Analysis::<u128>::new(set).run(refine)
    }
}

/// A task in the width of the computation, and its results so far.
#[derive(Clone, Copy)]
struct State<N> {
    wcet: N,
    period: N,
    deadline: N,
    /// Inverse of the period, for faster division.
    inverse: u64,
    slack: N,
    /// Is it shown to meet its deadline?
    passed: bool,
    /// Lower bound on the wait that the method can show.
    floor: N,
}

/// Work of a task with deadlines in the window of the task under analysis.
#[derive(Clone, Copy)]
struct Cap<N> {
    task: usize,
    work: N,
}

/// Method of the search for a wait.
#[derive(Clone, Copy, PartialEq)]
enum Search {
    /// The least fixed point.
    Least,
    /// One step down from the wait known so far: any value reached is safe, and it costs one
    /// evaluation.
    Step,
}

struct Analysis<N> {
    tasks: Vec<State<N>>,
    cores: u32,
    /// Works in the window of the task under analysis, and the most that EDF allows.
    works: Vec<N>,
    caps: Vec<Cap<N>>,
}

impl<N: Int> Analysis<N> {
    fn new(set: &TaskSet) -> Self {
        let state = |t: &SporadicTask| {
            let (wcet, period, deadline) =
                (N::time(t.wcet), N::time(t.period), N::time(t.deadline));
            let inverse = N::inverse(period);
            State {
                wcet,
                period,
                deadline,
                inverse,
                slack: N::default(),
                passed: false,
                floor: N::default(),
            }
        };
        let tasks: Vec<_> = set.tasks.iter().map(state).collect();
        let room = tasks.len();
        Self {
            tasks,
            cores: set.cores,
            works: Vec::with_capacity(room),
            caps: Vec::with_capacity(room),
        }
    }

    /// Rounds of single steps; when these change nothing, rounds of least fixed points. The end is
    /// stable under the latter. A verdict alone ends when all tasks pass or one is known to fail.
    fn run(mut self, refine: bool) -> (Vec<u64>, bool) {
        let mut bounding = !refine;
        for _ in 0..MAX_ROUNDS {
            let improved = self.round(Search::Step, false);
            if !refine && self.passes() {
                break;
            }
            if bounding {
                match self.bound() {
                    Some(changed) => bounding = changed,
                    None => break,
                }
            }
            // Tasks that fail are helped first.
            if !improved && !self.round(Search::Least, true) && !self.round(Search::Least, false) {
                break;
            }
        }
        let passes = self.passes();
        (self.responses(), passes)
    }

    fn passes(&self) -> bool {
        self.tasks.iter().all(|t| t.passed)
    }

    /// Examines all tasks, or only those that have not passed; true if a slack grew.
    fn round(&mut self, search: Search, failing_only: bool) -> bool {
        let mut improved = false;
        for k in 0..self.tasks.len() {
            if !(failing_only && self.tasks[k].passed) {
                improved |= self.improve(k, search);
            }
        }
        improved
    }

    fn responses(&self) -> Vec<u64> {
        self.tasks.iter().map(|t| (t.deadline - t.slack).saturated()).collect()
    }

    /// Raises the slack of task `k` if the slacks of the others allow it.
    fn improve(&mut self, k: usize, search: Search) -> bool {
        let task = self.tasks[k];
        if task.wcet > task.deadline {
            return false;
        }
        let room = task.deadline - task.wcet;
        self.prepare(k);
        let wait = match search {
            Search::Least => self.least(k),
            Search::Step => Some(self.wait(task.deadline - task.slack))
                .filter(|wait| *wait <= room - task.slack),
        };
        let Some(wait) = wait else { return false };
        let better = !task.passed || room - wait > task.slack;
        self.tasks[k].passed = true;
        self.tasks[k].slack = task.slack.max(room - wait);
        better
    }

    /// Bounds from the other side: `None` if some task fails even with the largest slacks that the
    /// method could ever show, so that no round helps; else true if a bound changed.
    ///
    /// The least waits with the largest slacks are lower bounds (`floor`) of all later waits, and
    /// the resulting slacks are upper bounds. Tasks that have not passed come first: they are
    /// likely to fail.
    fn bound(&mut self) -> Option<bool> {
        let slacks: Vec<N> = self.tasks.iter().map(|t| t.slack).collect();
        for t in &mut self.tasks {
            t.slack = t.deadline.minus(t.wcet + t.floor);
        }
        let failing = self.raise_floors(false);
        let passing = failing.and_then(|_| self.raise_floors(true));
        for (t, slack) in self.tasks.iter_mut().zip(slacks) {
            t.slack = slack;
        }
        Some(failing? | passing?)
    }

    /// Raises the lower bounds of the tasks that have passed, or of the others; `None` if one
    /// cannot pass.
    fn raise_floors(&mut self, passed: bool) -> Option<bool> {
        let mut changed = false;
        for k in 0..self.tasks.len() {
            let task = self.tasks[k];
            if task.passed != passed {
                continue;
            }
            self.prepare(k);
            // One step towards the least fixed point is a lower bound too, and enough for tasks
            // that will not fail.
            let wait = if passed {
                self.wait(task.wcet + task.floor).max(task.floor)
            } else {
                self.least(k)?
            };
            changed |= wait > task.floor;
            self.tasks[k].floor = wait;
            self.tasks[k].slack = task.deadline.minus(task.wcet + wait);
        }
        Some(changed)
    }

    /// The least wait of task `k` that the slacks show, if it is short enough; after
    /// [`Self::prepare`].
    fn least(&mut self, k: usize) -> Option<N> {
        let task = self.tasks[k];
        if task.wcet > task.deadline {
            return None;
        }
        let room = task.deadline - task.wcet;
        let mut wait = task.floor;
        for _ in 0..MAX_STEPS {
            let next = self.wait(task.wcet + wait);
            if next <= wait {
                return Some(wait);
            }
            if next > room {
                return None;
            }
            wait = next;
        }
        (self.wait(task.deadline) <= room).then_some(room)
    }

    /// Interference in a window of `length`; lengths must not fall from one call to the next after
    /// [`Self::prepare`].
    fn wait(&mut self, length: N) -> N {
        let total = self.update(length);
        interference::most(&self.works, total, self.cores)
    }

    /// Lists the other tasks and the works that EDF allows them in the window of task `k`.
    fn prepare(&mut self, k: usize) {
        self.works.clear();
        self.caps.clear();
        let window = self.tasks[k].deadline;
        for (task, t) in self.tasks.iter().enumerate() {
            if task != k {
                let jobs = window.quotient_with(t.period, t.inverse);
                self.caps
                    .push(Cap { task, work: edf_work_of(jobs, window, t.wcet, t.period, t.slack) });
                self.works.push(N::default());
            }
        }
    }

    /// Works for a window of `length`, and their sum. A work that has reached its cap stays there:
    /// both are monotone.
    fn update(&mut self, length: N) -> N {
        let mut total = N::default();
        for (cap, work) in self.caps.iter().zip(&mut self.works) {
            if *work < cap.work {
                *work = any_work(length, &self.tasks[cap.task]).min(cap.work);
            }
            total += *work;
        }
        total
    }
}

/// Work that a task may do in a window of `length`, for any priority.
fn any_work<N: Int>(length: N, t: &State<N>) -> N {
    // C <= D - S whenever a slack was shown; a task with C > D has slack 0 and fails by itself.
    let reach = (length + t.deadline).minus(t.wcet + t.slack);
    let jobs = reach.quotient_with(t.period, t.inverse);
    jobs * t.wcet + t.wcet.min(reach - jobs * t.period)
}
