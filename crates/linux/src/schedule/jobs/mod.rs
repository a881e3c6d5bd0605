//! The plan's tasks, started: one run of a command is one job.
//!
//! Rule: a thread per task, bound to the task's core and scheduled as the task, starts a job at
//! each release and waits for its end; the job inherits the thread's core and scheduling. Releases
//! lie a period apart by `CLOCK_MONOTONIC`. A job that is released while the last one runs begins
//! at the end of the latter; its response time counts from its release. A task without a period is
//! started again as soon as it ends; a driver likewise, from shortly before the first release. A
//! task that is measured rests between its jobs (`Trial`). Three failures in a row end a task. At
//! the end, running jobs get SIGTERM, and half a second later SIGKILL, with their whole process
//! group. A task under a scheduler of solocore (`Placed::free`) has runs of its program as jobs,
//! too; the scheduler keeps releases and places. A program that goes on (`Placed::goes_on`) has the
//! jobs that probes report (`Jobs::record`); it is started at the first release, and again when it
//! ends. A program in colours of its own is started before its release (`jobs/prepared.rs`).
//! The memory for the record of its jobs is there before the first one (`sys/latest.rs`).
//! A job that is being started is its task's only until it runs its program: it may wait for the
//! budget of its VCPU before that. Only its own thread waits with it; looks at the run do not.
//! Does not cover: processes of a job in another process group. If solocore is killed, running jobs
//! go on to their end, and no more are released. The end of a run waits for a job that is being
//! started, because its process has no number until then.

mod guard;
mod job_task;
mod one;
mod place;
mod prepared;
mod reaper;
mod spawn;

use self::job_task::{JobTask, LOOK, State};
use self::one::one_job;
use self::prepared::Prepared;
use super::placed::{How, Placed};
use super::prefetch::Prefetch;
use crate::clients::OwnPages;
use crate::error::LinuxError;
use crate::regulate::engine::Ranker;
use crate::sys::latest::{self, Latest, SHOWN};
use crate::sys::{Scheduling, tasks};
use rustix::process::Signal;
use solocore_model::run::{RunJob, RunTask, RunWindow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Failures in a row after which a task is not started again.
const FAILURES: u64 = 3;
/// Time between the start of drivers and the first release, in which they attach, ns.
const DRIVERS_NS: u64 = 100_000_000;
/// Time that a process may take to end after a request.
const PATIENCE: Duration = Duration::from_millis(500);

/// The tasks that run, until this is dropped.
pub(crate) struct Jobs {
    stop: Arc<AtomicBool>,
    tasks: Vec<Arc<JobTask>>,
    windows: Arc<Mutex<Vec<RunWindow>>>,
    threads: Vec<JoinHandle<()>>,
    /// It ends when no task is left.
    reaper: Option<JoinHandle<()>>,
}

/// Time of the first release, once it is known, ns by `CLOCK_MONOTONIC`.
pub(crate) type Epoch = Arc<OnceLock<u64>>;

/// Adds a task's thread to a further group or scheduler.
pub type Bind<'a> = dyn Fn(&str, u32) -> Result<(), LinuxError> + 'a;

impl Jobs {
    /// Starts every task that is to be started. All are released together, at `epoch`, which is set
    /// here. Before that, `bind` is called with the name of each task and the number of the thread
    /// that gives its jobs their scheduling. Locked pages in `prefetch` are read when windows
    /// begin. Processes that are prepared get their rank by `ranks`; the others, by `bind`.
    pub fn start(
        placed: &[Placed],
        directory: &std::path::Path,
        epoch: &Epoch,
        bind: &Bind<'_>,
        signals: &OwnPages,
        prefetch: &Prefetch,
        ranks: Option<&Ranker>,
    ) -> Result<Self, LinuxError> {
        let (dead, thread) = reaper::start(placed).map_err(|e| no_thread(&e))?;
        let mut jobs = Self {
            stop: Arc::default(),
            tasks: Vec::new(),
            windows: Arc::default(),
            threads: Vec::new(),
            reaper: Some(thread),
        };
        let run = placed.iter().filter(|p| p.how != How::NotRun).count();
        for p in placed {
            let places = places(p, run);
            let run = RunTask {
                name: p.name.clone(),
                core: p.core,
                fifo: p.fifo,
                rank: p.rank,
                how: p.how.word().to_owned(),
                ..Default::default()
            };
            let command = p.how.command().and_then(<[String]>::split_first);
            let (program, arguments) =
                command.map(|(p, a)| (p.clone(), a.to_vec())).unwrap_or_default();
            let latest = Latest::of(places);
            let state = Mutex::new(State { run, latest, ..State::default() });
            let task = JobTask {
                placed: p.clone(),
                directory: directory.into(),
                program: program.into(),
                arguments,
                signal: signals.get(&p.name).filter(|_| !p.goes_on()).cloned(),
                ranks: ranks.cloned(),
                dead: dead.clone(),
                state,
            };
            jobs.tasks.push(Arc::new(task));
        }
        // If the release fails, `jobs` waits for the reaper, which ends with its last sender.
        drop(dead);
        jobs.release(epoch, bind, prefetch)?;
        Ok(jobs)
    }

    fn release(
        &mut self,
        barrier: &Epoch,
        bind: &Bind<'_>,
        prefetch: &Prefetch,
    ) -> Result<(), LinuxError> {
        let (ready, reports) = channel();
        let bound = Arc::new(OnceLock::new());
        for task in self.tasks.iter().filter(|t| t.placed.how.command().is_some()) {
            let (task, stop, ready) = (Arc::clone(task), Arc::clone(&self.stop), ready.clone());
            let (bound, first) = (Arc::clone(&bound), Arc::clone(barrier));
            let thread = std::thread::Builder::new().name(format!("solocore:{}", task.placed.core));
            let spawned = thread.spawn(move || follow(&task, &stop, ready, &bound, &first));
            self.threads.push(spawned.map_err(|e| no_thread(&e))?);
        }
        self.keep_windows(prefetch, &ready, barrier)?;
        drop(ready);
        // A thread that cannot be placed says so; the others find `stop` set when this is dropped.
        let report =
            || reports.recv().map_err(|_| crate::regulate::bpf::inside("a task's thread ended"))?;
        (0..self.threads.len()).try_for_each(|_| report())?;
        for task in &self.tasks {
            let thread = task.state().thread;
            thread.map_or(Ok(()), |tid| bind(&task.placed.name, tid))?;
        }
        let _ = bound.set(());
        let prepared = self.tasks.iter().filter(|t| t.placed.is_prepared()).count();
        (0..prepared).try_for_each(|_| report())?;
        let drivers = self.tasks.iter().any(|t| matches!(t.placed.how, How::Drive(_)));
        let _ = barrier.set(tasks::monotonic_ns() + if drivers { DRIVERS_NS } else { 1_000_000 });
        Ok(())
    }

    /// Counts of partitions' windows.
    pub fn windows(&self) -> Vec<RunWindow> {
        self.windows.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Counts of the tasks so far, with their last few jobs.
    pub fn seen(&self) -> Vec<RunTask> {
        let now = tasks::monotonic_ns();
        self.tasks.iter().map(|t| seen(t, now)).collect()
    }

    /// Gives each of these tasks all jobs that are recorded, up to the last one that it counts.
    pub fn recorded<'r>(&self, runs: impl Iterator<Item = &'r mut RunTask>) {
        for run in runs {
            let of =
                |t: &&Arc<JobTask>| t.placed.name == run.name && t.placed.how.word() == run.how;
            let Some(task) = self.tasks.iter().find(of) else { continue };
            let state = task.state();
            let later = usize::try_from(state.run.jobs.saturating_sub(run.jobs));
            run.latest = state.latest.before_the_last(later.unwrap_or(usize::MAX));
        }
    }

    /// Records an ended job of a task with a program that goes on.
    pub fn record(&self, task: &str, job: RunJob) {
        if let Some(task) = self.tasks.iter().find(|t| t.placed.name == task) {
            task.state().record(job, Some((true, 0)), task.placed.deadline_ns);
        }
    }

    /// Processes of the running jobs, by task.
    pub fn running(&self) -> Vec<(String, u32)> {
        let one =
            |t: &Arc<JobTask>| t.state().running.map(|(leader, _)| (t.placed.name.clone(), leader));
        self.tasks.iter().filter_map(one).collect()
    }

    /// Whether a task has made this number of jobs, or was given up.
    pub fn has_made(&self, task: &str, jobs: u64) -> bool {
        self.tasks.iter().filter(|t| t.placed.name == task).any(|t| {
            let state = t.state();
            state.run.jobs >= jobs || state.in_a_row >= FAILURES
        })
    }

    /// Messages about tasks that were given up.
    pub fn notes(&self) -> Vec<String> {
        let given_up = |t: &&Arc<JobTask>| t.state().in_a_row >= FAILURES;
        let note = |t: &Arc<JobTask>| {
            let what = if matches!(t.placed.how, How::Drive(_)) { "driver" } else { "task" };
            format!(
                "{what} `{}` failed {FAILURES} times in a row and is not started again",
                t.placed.name
            )
        };
        self.tasks.iter().filter(given_up).map(note).collect()
    }

    /// Sends a signal to the running jobs. Whether there are any, or one is being started.
    fn signal(&self, signal: Signal) -> bool {
        let mut any = false;
        for task in &self.tasks {
            // While the state is locked, no thread reaps the leader: its number stays its own.
            let state = task.state();
            if let Some((leader, _)) = state.running {
                tasks::signal_group(leader, signal);
            }
            any |= state.has_job();
        }
        any
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let since = Instant::now();
        let mut any = self.signal(Signal::TERM);
        // A stopped process group gets the signal, too.
        self.signal(Signal::CONT);
        while any && since.elapsed() < PATIENCE {
            std::thread::sleep(LOOK / 4);
            any = self.tasks.iter().any(|t| t.state().has_job());
        }
        while self.threads.iter().any(|t| !t.is_finished()) {
            self.signal(Signal::KILL);
            std::thread::sleep(LOOK / 4);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.tasks.clear();
        if let Some(reaper) = self.reaper.take() {
            let _ = reaper.join();
        }
    }
}

fn no_thread(error: &std::io::Error) -> LinuxError {
    LinuxError::of_io("a thread is refused", error, "raise the limit of threads (ulimit -u)")
}

/// Number of jobs that are kept of a task, beside this number of tasks that run. A task that is
/// measured needs all of its own: at most `MOST` (`verify --jobs`), the first one, which may not be
/// counted, and those that end before the run does.
fn places(task: &Placed, run: usize) -> usize {
    match task.how {
        How::NotRun => 1,
        _ if task.rest_ns.is_some() => latest::MOST + SHOWN,
        _ => latest::share(run),
    }
}

fn seen(task: &JobTask, now: u64) -> RunTask {
    let state = task.state();
    let mut run = state.run.clone();
    run.latest = state.latest.last(SHOWN);
    run.mean_response_ns =
        u64::try_from(state.response_sum / u128::from(run.jobs.max(1))).unwrap_or(u64::MAX);
    let release = state.running.map(|(_, release)| release).or(state.starting);
    if let (Some(release), Some(deadline)) = (release, task.placed.deadline_ns)
        && !task.placed.goes_on()
        && !state.done
        && now > release.saturating_add(deadline)
    {
        run.misses_deadline += 1;
    }
    run
}

/// Runs a task's thread until its end.
fn follow(
    task: &JobTask,
    stop: &AtomicBool,
    ready: Sender<Result<(), LinuxError>>,
    bound: &OnceLock<()>,
    first: &OnceLock<u64>,
) {
    let p = &task.placed;
    task.state().thread = Some(tasks::thread_number());
    let placed = if p.free { Ok(()) } else { tasks::bind(0, &[p.core]) }
        .and_then(|()| {
            p.fifo.map_or(Ok(()), |priority| Scheduling::fifo_inherited(priority).apply())
        })
        // Jobs inherit the thread's ways of the cache.
        .and_then(|()| {
            p.group.as_ref().map_or(Ok(()), |file| {
                std::fs::write(file, format!("{}\n", tasks::thread_number()))
            })
        })
        .map_err(|e| {
            LinuxError::of_io(
                &format!("task `{}` on CPU {}", p.name, p.core),
                &e,
                "run as root, and allow every CPU in solocore's own control group",
            )
        });
    let failed = placed.is_err();
    let _ = ready.send(placed);
    if failed {
        return;
    }
    let mut next = None;
    if p.is_prepared() {
        let Some(()) = wait_for(bound, stop) else { return };
        next = prepare(task, stop, true);
        let _ = ready.send(Ok(()));
    }
    drop(ready);
    let Some(begun) = wait_for(first, stop) else { return };
    let mut release = match p.how {
        How::Drive(_) => tasks::monotonic_ns(),
        _ => begun.saturating_add(p.window.as_ref().map_or(0, |w| w.offset_ns)),
    };
    let mut released = 0;
    while sleep_until(release, stop) && task.state().in_a_row < FAILURES {
        one_job(task, release, begun, stop, next.take());
        released += 1;
        if p.is_prepared() && task.state().in_a_row < FAILURES {
            // A task that is measured has time.
            next = prepare(task, stop, p.rest_ns.is_some());
        }
        release = match (p.rest_ns, p.period_ns.filter(|_| !p.goes_on())) {
            (Some(rest), _) => tasks::monotonic_ns().saturating_add(rested(rest, released)),
            (None, Some(period)) => release.saturating_add(period),
            (None, None) => tasks::monotonic_ns(),
        };
    }
}

/// A rest between one and two times the given one. The additions of successive numbers are spread
/// evenly (multiples of the golden ratio).
fn rested(rest_ns: u64, number: u32) -> u64 {
    const GOLDEN: u32 = 0x9e37_79b9;
    let part = (u128::from(rest_ns) * u128::from(number.wrapping_mul(GOLDEN))) >> 32;
    rest_ns.saturating_add(u64::try_from(part).unwrap_or(rest_ns))
}

/// Waits for a value; `None`: a request to end came first.
fn wait_for<T: Copy>(value: &OnceLock<T>, stop: &AtomicBool) -> Option<T> {
    while !stop.load(Ordering::SeqCst) {
        if let Some(&value) = value.get() {
            return Some(value);
        }
        std::thread::sleep(LOOK / 20);
    }
    None
}

/// Starts the process of the next job, and waits until it is ready if it is to. `None`: it cannot
/// be started now; the job will say why.
fn prepare(task: &JobTask, stop: &AtomicBool, wait: bool) -> Option<Prepared> {
    let mut next = Prepared::start(task).ok()?;
    task.state().prepared = Some(next.child);
    if wait {
        next.wait(stop);
    }
    Some(next)
}

/// Sleeps until a time by `CLOCK_MONOTONIC`, ns; false: a request to end came first.
fn sleep_until(at: u64, stop: &AtomicBool) -> bool {
    loop {
        let left = Duration::from_nanos(at.saturating_sub(tasks::monotonic_ns()));
        if stop.load(Ordering::SeqCst) {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests;
