//! System calls on other tasks: their CPUs, their scheduling, their ends.

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::ClockId;
use std::io;
use std::os::fd::OwnedFd;

/// The kernel's number of the calling thread.
pub(crate) fn thread_number() -> u32 {
    rustix::thread::gettid().as_raw_pid().unsigned_abs()
}

/// CPUs that a thread may run on now (0: the calling thread), in order.
pub(crate) fn affinity_of(tid: u32) -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(thread(tid)?)?;
    Ok((0u32..).zip(0..CpuSet::MAX_CPU).filter(|c| set.is_set(c.1)).map(|c| c.0).collect())
}

/// A descriptor of a thread (`PIDFD_THREAD`, Linux 6.9).
pub(crate) fn open_thread(tid: u32) -> io::Result<OwnedFd> {
    let flag = PidfdFlags::from_bits_retain(libc::O_EXCL.unsigned_abs());
    Ok(rustix::process::pidfd_open(somebody(tid)?, flag)?)
}

/// A descriptor of a process, which is readable once it has ended.
pub(crate) fn open_process(pid: u32) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(somebody(pid)?, PidfdFlags::empty())?)
}

/// Lets a thread (0: the calling one) run on these CPUs only.
pub(crate) fn bind(tid: u32, cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().map(|&cpu| cpu as usize) {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(thread(tid)?, &set)?)
}

fn number(tid: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(tid).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The number of a thread; `None`: the calling thread.
fn thread(tid: u32) -> io::Result<Option<Pid>> {
    Ok(Pid::from_raw(number(tid)?))
}

pub(super) fn somebody(pid: u32) -> io::Result<Pid> {
    thread(pid)?.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Scheduling of a thread: policy and real-time priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheduling {
    policy: i32,
    priority: i32,
}

impl Scheduling {
    /// `SCHED_FIFO` with this priority (1 to 99); children of the thread do not inherit it.
    pub fn fifo(priority: i32) -> Self {
        Self { policy: libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority }
    }

    /// The scheduling of an ordinary thread.
    pub fn ordinary() -> Self {
        Self { policy: libc::SCHED_OTHER, priority: 0 }
    }

    /// `SCHED_IDLE`: the thread has some thousandths of a CPU beside ordinary ones.
    pub fn idle() -> Self {
        Self { policy: libc::SCHED_IDLE, priority: 0 }
    }

    /// The scheduling of the calling thread.
    pub fn mine() -> io::Result<Self> {
        Self::of(0)
    }

    /// Applies this scheduling to the calling thread.
    pub fn apply(self) -> io::Result<()> {
        self.apply_to(0)
    }

    /// `SCHED_FIFO` with this priority; children of the thread inherit it.
    pub fn fifo_inherited(priority: i32) -> Self {
        Self { policy: libc::SCHED_FIFO, priority }
    }

    /// Policy and priority as numbers of the kernel.
    pub fn numbers(self) -> (i32, i32) {
        (self.policy, self.priority)
    }

    /// The reverse of [`Self::numbers`].
    pub fn from_numbers(policy: i32, priority: i32) -> Self {
        Self { policy, priority }
    }

    /// The scheduling of a thread.
    pub fn of(tid: u32) -> io::Result<Self> {
        let tid = number(tid)?;
        // SAFETY: asks for a number.
        let policy = unsafe { libc::sched_getscheduler(tid) };
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel writes the parameters, which live through the call.
        if policy < 0 || unsafe { libc::sched_getparam(tid, &raw mut parameters) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { policy, priority: parameters.sched_priority })
    }

    /// Applies this scheduling to a thread.
    pub fn apply_to(self, tid: u32) -> io::Result<()> {
        let parameters = libc::sched_param { sched_priority: self.priority };
        // SAFETY: the kernel reads the parameters, which live through the call.
        let result =
            unsafe { libc::sched_setscheduler(number(tid)?, self.policy, &raw const parameters) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Copies memory of another process.
pub(crate) fn read_of(process: u32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the kernel checks the other process's range, and writes to `into` only.
    let read = unsafe {
        libc::process_vm_readv(number(process)?, &raw const local, 1, &raw const remote, 1, 0)
    };
    match usize::try_from(read) {
        Ok(n) if n == into.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Time by `CLOCK_MONOTONIC` in nanoseconds. It is the clock of the BPF programs; stepping the wall
/// clock does not change it.
pub(crate) fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Waits until a child has ended, without reaping it: until then, no other process gets its number.
pub(crate) fn wait_for_end(child: u32) -> io::Result<()> {
    let (child, how) =
        (WaitId::Pid(somebody(child)?), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    rustix::io::retry_on_intr(|| rustix::process::waitid(child.clone(), how))?;
    Ok(())
}

/// CPU time of a process so far, without that of its children, ns.
pub(crate) fn cpu_time_ns(process: u32) -> io::Result<u64> {
    let mut clock = 0;
    // SAFETY: the kernel's number of the clock is written, which lives through the call.
    let refused = unsafe { libc::clock_getcpuclockid(number(process)?, &raw mut clock) };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time, which lives through the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether it exited with 0.
    pub succeeded: bool,
    /// Whether a signal ended it.
    pub killed: bool,
    /// CPU time of it and its children, ns.
    pub cpu_ns: u64,
}

/// The end of a child that has ended. It is not reaped: until then, no other process gets its
/// number.
pub(crate) fn outcome(child: u32) -> io::Result<Outcome> {
    // SAFETY: zeros are valid in both.
    let (mut info, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOWAIT;
    let child = number(child)?;
    // SAFETY: the kernel writes both, which live through the call. The C library's function leaves
    // the usage out.
    let ended = unsafe {
        let (info, usage) = (&raw mut info, &raw mut usage);
        libc::syscall(libc::SYS_waitid, libc::P_PID, child, info, flags, usage)
    };
    if ended != 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |t: libc::timeval| {
        u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000
            + u64::try_from(t.tv_usec).unwrap_or(0) * 1000
    };
    // SAFETY: the kernel has set the status of an ended child.
    let status = unsafe { info.si_status() };
    let exited = info.si_code == libc::CLD_EXITED;
    Ok(Outcome {
        succeeded: exited && status == 0,
        killed: !exited,
        cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
    })
}

/// Reaps a child that has ended, or when it ends. Not for real-time threads: the kernel takes the
/// child's entries of /proc away, and waits in a loop for a task that uses one. On its CPU, a
/// real-time thread would wait for ever.
pub(crate) fn reap(child: u32) -> io::Result<()> {
    let (child, how) = (WaitId::Pid(somebody(child)?), WaitIdOptions::EXITED);
    rustix::io::retry_on_intr(|| rustix::process::waitid(child.clone(), how))?;
    Ok(())
}

/// Sends a signal to a group of processes whose leader has not been reaped yet.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    if let Some(leader) = somebody(leader).ok().filter(|p| !p.is_init()) {
        let _ = rustix::process::kill_process_group(leader, signal);
    }
}

/// Sends a signal to one process.
pub(crate) fn signal_one(process: u32, signal: Signal) {
    if let Some(process) = somebody(process).ok().filter(|p| !p.is_init()) {
        let _ = rustix::process::kill_process(process, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_and_let_go() {
        std::thread::spawn(|| {
            let before = affinity_of(0).unwrap();
            let last = *before.last().unwrap();
            bind(0, &[last]).unwrap();
            assert_eq!(affinity_of(0).unwrap(), [last]);
            bind(0, &before).unwrap();
            assert_eq!(affinity_of(0).unwrap(), before);
            assert!(bind(0, &[]).is_err());
            assert!(bind(0, &[1 << 20]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn children_are_waited_for_and_reaped() {
        for (program, good) in [("true", true), ("false", false)] {
            #[allow(clippy::zombie_processes, reason = "reaped below, by number")]
            let child = std::process::Command::new(program).spawn().unwrap();
            wait_for_end(child.id()).unwrap();
            // As often as wanted, with the same answer.
            let (first, again) = (outcome(child.id()).unwrap(), outcome(child.id()).unwrap());
            assert_eq!((first.succeeded, first.killed, first), (good, false, again));
            reap(child.id()).unwrap();
            assert!(reap(child.id()).is_err() && outcome(child.id()).is_err(), "only once");
        }
    }
}
