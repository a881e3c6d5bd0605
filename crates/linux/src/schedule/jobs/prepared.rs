//! The process of a job that is started before the job's release.
//!
//! Problem: a program that starts on frames of its colours first has its pages moved there. That
//! takes many times as long as the start that was profiled, and no bound has this time. Rule: the
//! process of the next job is started as the job before it ends; that of the first job, before all
//! tasks are released. Until its release it is an ordinary process, without rank and without
//! real-time priority: it takes time that analysed tasks leave, and accesses within the budget of
//! its core. The library in it (crates/space/preload/hold.c) says over a socket that all is in its
//! place, and waits for the release before the program's own first instruction. It also says when
//! the program ends: an ordinary process makes the last look at its pages, after the job.
//! A process that is not ready by its release goes on with the job's scheduling, and the job counts
//! as unprepared. So does a process that does not take that scheduling. A process whose solocore
//! has gone ends by itself. Does not cover: tasks in windows of a partition, whose processes are
//! stopped outside of them, and tasks under a scheduler of solocore.

use super::job_task::{JobTask, LOOK};
use super::reaper::Dead;
use super::spawn::spawn;
use crate::error::LinuxError;
use crate::host::newcomers::each_thread;
use crate::host::threads::start_of;
use crate::sys::{Scheduling, tasks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::Signal;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest time that a start may take before the tasks are released without it.
const LONGEST: Duration = Duration::from_secs(20);

/// The library's words: all is in its place; the program has done its work.
const READY: u8 = b'r';
const DONE: u8 = b'd';

/// A process that waits for its release, or is on its way there.
pub(super) struct Prepared {
    /// Its number; it leads its process group.
    pub child: u32,
    /// `None`: it was released.
    socket: Option<OwnedFd>,
    ready: bool,
    /// Whether it says nothing any more: it ends.
    silent: bool,
    /// Where it goes if it was not.
    dead: Dead,
}

/// A process that was released.
pub(super) struct Released {
    socket: OwnedFd,
    /// Its number.
    pub child: u32,
    /// Whether all was in its place by then, and has its scheduling.
    pub ready: bool,
    /// CPU time before that, ns.
    pub spent_ns: u64,
}

/// The end of a job.
pub(super) struct End {
    /// Its time by `CLOCK_MONOTONIC`, ns.
    pub end_ns: u64,
    /// Whether the program has said so itself, and its process may go on for a while.
    pub said: bool,
}

impl Prepared {
    /// Starts the process of a task's next job.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(task: &JobTask) -> io::Result<Self> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let hold = Some(&theirs);
        let child = spawn(&task.placed, &task.program, &task.arguments, &task.directory, hold)?;
        Ok(Self { child, socket: Some(ours), ready: false, silent: false, dead: task.dead.clone() })
    }

    /// Whether it waits for its release. Waits for that as long as this at most.
    fn is_ready(&mut self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).ok();
        if let Some(socket) = self.socket.as_ref().filter(|_| !self.ready) {
            let mut polled = [PollFd::new(socket, PollFlags::IN)];
            let some = poll(&mut polled, limit.as_ref()).is_ok_and(|n| n > 0);
            let heard = if some { hear(socket) } else { None };
            self.ready = heard == Some(READY);
            self.silent |= some && heard.is_none();
        }
        self.ready
    }

    /// Waits until it is ready, has ended or takes too long.
    pub fn wait(&mut self, stop: &AtomicBool) {
        let since = Instant::now();
        while !stop.load(Ordering::SeqCst)
            && since.elapsed() < LONGEST
            && !self.is_ready(LOOK)
            // A real-time thread that looked on would keep it from its end.
            && !self.silent
        {}
    }

    /// Lets the job begin, with the scheduling of its task; `None`: it was released before.
    pub fn release(mut self, task: &JobTask) -> Option<Released> {
        let ready = self.is_ready(Duration::ZERO);
        let (child, socket) = (self.child, self.socket.take()?);
        let ready = schedule(child, task, true).is_ok() && ready;
        let spent_ns = tasks::cpu_time_ns(child).unwrap_or(0);
        let _ = rustix::net::send(&socket, &[1], SendFlags::NOSIGNAL);
        Some(Released { socket, child, ready, spent_ns })
    }
}

impl Released {
    /// Waits until the program has done its work: the process has ended, or says so before its last
    /// look at its pages. Makes it an ordinary process then.
    ///
    /// # Errors
    /// This process has no such child.
    pub fn wait_for_end(&self, task: &JobTask) -> io::Result<End> {
        let said = tasks::open_process(self.child).is_ok_and(|process| self.is_done(&process));
        let end_ns = tasks::monotonic_ns();
        if said {
            // An ordinary process that keeps the priority is late, but the job is done.
            let _ = schedule(self.child, task, false);
            return Ok(End { end_ns, said });
        }
        tasks::wait_for_end(self.child)?;
        Ok(End { end_ns: tasks::monotonic_ns(), said })
    }

    /// Waits until the program says that it has done its work; false: it will not, because the
    /// process has ended, or became another program.
    fn is_done(&self, process: &OwnedFd) -> bool {
        loop {
            let mut polled =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(process, PollFlags::IN)];
            let any = rustix::io::retry_on_intr(|| poll(&mut polled, None));
            if any.is_err() || polled[0].revents().is_empty() {
                return false;
            }
            match hear(&self.socket) {
                Some(DONE) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// CPU time of the process up to now, ns.
    pub fn cpu_time_ns(&self) -> u64 {
        tasks::cpu_time_ns(self.child).unwrap_or(0)
    }
}

/// The next word of a process; `None`: it says nothing any more.
fn hear(socket: &OwnedFd) -> Option<u8> {
    let mut byte = [0];
    let got = rustix::net::recv(socket, &mut byte, RecvFlags::DONTWAIT);
    got.is_ok_and(|(n, _)| n == 1).then_some(byte[0])
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.socket.is_some() {
            tasks::signal_group(self.child, Signal::KILL);
            let _ = self.dead.send(self.child);
        }
    }
}

/// Gives the threads of a process the scheduling of their task, or makes them ordinary ones.
///
/// # Errors
/// A thread that lives does not take it. The others have it.
pub(super) fn schedule(child: u32, task: &JobTask, runs: bool) -> Result<(), LinuxError> {
    let mut refused = None;
    each_thread(child, |thread| {
        let taken = schedule_thread(thread.tid, task, runs);
        if let Err(why) = taken
            && start_of(thread.tgid, thread.tid) == Some(thread.start)
        {
            refused.get_or_insert(why);
        }
        Ok::<(), LinuxError>(())
    })?;
    refused.map_or(Ok(()), Err)
}

fn schedule_thread(thread: u32, task: &JobTask, runs: bool) -> Result<(), LinuxError> {
    let placed = &task.placed;
    let fifo = placed.fifo.map_or(Ok(()), |priority| {
        let fifo = Scheduling::fifo_inherited(priority);
        let wanted = if runs { fifo } else { Scheduling::ordinary() };
        wanted.apply_to(thread).map_err(|e| {
            LinuxError::of_io("a thread of a job", &e, "raise the limit of real-time priorities")
        })
    });
    let rank = match (placed.rank, &task.ranks) {
        (Some(rank), Some(ranks)) => ranks.rank(thread, if runs { rank } else { 0 }, false),
        _ => Ok(()),
    };
    fifo.and(rank)
}
