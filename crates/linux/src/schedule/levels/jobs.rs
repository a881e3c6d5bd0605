//! Programs started as tasks of the scheduler.
//!
//! Rule: a thread per task starts its program, waits for its end and starts it again. The program belongs to the task from its first
//! instruction on, so it waits until the task's next release: one that ends does one job a run; one that goes on does one between two
//! yields (`sched_yield`, `sc_job_end`) or waits. Three failures in a row end a task. At the end the scheduler goes first, so that
//! whoever was held back hears that it should end (SIGTERM; SIGKILL half a second later).
//! Does not cover: what a program leaves in another process group.

use crate::error::LinuxError;
use crate::sys::tasks;
use serde::Serialize;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Failures in a row after which a program is not started again.
const FAILURES: u32 = 3;
/// How long who is asked to end may take.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);

/// What became of a task's program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobRun {
    /// The task.
    pub name: String,
    /// How often its program was started.
    pub starts: u64,
    /// How often it failed.
    pub failed: u64,
}

#[derive(Default)]
struct State {
    starts: AtomicU64,
    failed: AtomicU64,
    /// Leader of the process group that runs; 0: none does.
    running: AtomicU32,
    given_up: AtomicBool,
}

struct Program {
    name: String,
    command: Vec<String>,
    directory: PathBuf,
    state: State,
}

/// The programs, until [`Self::end`].
pub struct Jobs {
    stop: Arc<AtomicBool>,
    programs: Vec<Arc<Program>>,
    threads: Vec<JoinHandle<()>>,
}

impl Jobs {
    /// Starts these programs, by the index of their tasks; `claim` makes children of a thread the task's.
    ///
    /// # Errors
    /// A thread is refused, or cannot be claimed.
    pub fn start(
        programs: Vec<(usize, String, Vec<String>)>,
        directory: &Path,
        mut claim: impl FnMut(usize, u32) -> Result<(), LinuxError>,
    ) -> Result<Self, LinuxError> {
        let mut jobs = Self { stop: Arc::default(), programs: Vec::new(), threads: Vec::new() };
        for (task, name, command) in programs {
            let state = State::default();
            let program = Arc::new(Program { name, command, directory: directory.to_owned(), state });
            let (number, numbers) = channel();
            let (go, allowed) = channel();
            let (own, stop) = (Arc::clone(&program), Arc::clone(&jobs.stop));
            let thread = std::thread::Builder::new().name("solocore/job".to_owned());
            let spawned = thread.spawn(move || follow(&own, &stop, &number, &allowed));
            jobs.threads.push(
                spawned.map_err(|e| {
                    LinuxError::of_io("a thread is refused", &e, "raise the limit of threads (ulimit -u)")
                })?,
            );
            jobs.programs.push(program);
            // If it is refused, `go` is dropped, and the thread ends.
            let thread = numbers.recv().map_err(|_| crate::regulate::bpf::inside("a task's thread ended"))?;
            claim(task, thread)?;
            let _ = go.send(());
        }
        Ok(jobs)
    }

    /// What became of them so far.
    pub fn seen(&self) -> Vec<JobRun> {
        let of = |p: &Arc<Program>| JobRun {
            name: p.name.clone(),
            starts: p.state.starts.load(Ordering::Relaxed),
            failed: p.state.failed.load(Ordering::Relaxed),
        };
        self.programs.iter().map(of).collect()
    }

    /// For the user.
    pub fn notes(&self) -> Vec<String> {
        let given_up = self.programs.iter().filter(|p| p.state.given_up.load(Ordering::Relaxed));
        let note = |p: &Arc<Program>| {
            format!(
                "task `{}` failed {FAILURES} times in a row and is not started again; run its command by hand",
                p.name
            )
        };
        given_up.map(note).collect()
    }

    fn signal(&self, signal: i32) {
        for program in &self.programs {
            let leader = program.state.running.load(Ordering::SeqCst);
            if leader != 0 {
                tasks::signal_group(leader, signal);
            }
        }
    }

    /// Ends them. The scheduler must have gone.
    pub fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let since = Instant::now();
        while self.threads.iter().any(|t| !t.is_finished()) {
            self.signal(if since.elapsed() < PATIENCE { libc::SIGTERM } else { libc::SIGKILL });
            std::thread::sleep(LOOK);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The life of a program's thread.
fn follow(program: &Program, stop: &AtomicBool, number: &Sender<u32>, allowed: &Receiver<()>) {
    let _ = number.send(tasks::thread_number());
    if allowed.recv().is_err() {
        return;
    }
    let mut in_a_row = 0;
    while !stop.load(Ordering::SeqCst) && in_a_row < FAILURES {
        let ended = run(program, stop);
        if stop.load(Ordering::SeqCst) {
            return;
        }
        if matches!(ended, Ok(true)) {
            in_a_row = 0;
        } else {
            in_a_row += 1;
            program.state.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
    program.state.given_up.store(in_a_row >= FAILURES, Ordering::Relaxed);
}

/// One run: did it end with 0?
fn run(program: &Program, stop: &AtomicBool) -> io::Result<bool> {
    let errors: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
    #[allow(clippy::zombie_processes, reason = "reaped by number")]
    let child = Command::new(&program.command[0])
        .args(&program.command[1..])
        .current_dir(&program.directory)
        .stdin(Stdio::null())
        .stdout(errors)
        .process_group(0)
        .spawn()?
        .id();
    program.state.running.store(child, Ordering::SeqCst);
    program.state.starts.fetch_add(1, Ordering::Relaxed);
    if stop.load(Ordering::SeqCst) {
        tasks::signal_group(child, libc::SIGTERM);
    }
    tasks::wait_for_end(child)?;
    program.state.running.store(0, Ordering::SeqCst);
    // Its children end with it.
    tasks::signal_group(child, libc::SIGKILL);
    Ok(tasks::reap(child)?.0)
}
