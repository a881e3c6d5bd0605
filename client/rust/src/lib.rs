//! Messages of a program to a running solocore: the Rust binding of `client/c/solocore.h`.
//!
//! Problem: only the program knows which of its sections suffer from other cores' accesses, and
//! when its jobs begin.
//! Rule: a [`Lock`] holds the bandwidth lock from when it is taken until it is dropped, for the
//! thread that took it and while that thread runs. A [`Job`] is a job of the thread's task. Both
//! are stores to memory and cost a few nanoseconds. They never wait. Without a running solocore
//! they do nothing; `Lock::taken` reports that. A driver that moves data for a partition attaches
//! as a transfer of the plan's time table and waits for its slots ([`wait_slot`]).
//! Source: bwlock, sections 3 and 4.2; dynamic-budgeting, section IV; single-core-equivalence,
//! section 2.4.
//!
//! ```
//! let sum = {
//!     let _lock = solocore_client::lock();
//!     (0..1000u64).sum::<u64>() // memory-performance critical section
//! };
//! # assert_eq!(sum, 499_500);
//! ```
//!
//! Does not cover: a child of a fork is not attached until it calls again.

pub mod buffer;
pub mod queue;

use std::ffi::{CStr, CString, c_char, c_int, c_ulonglong};
use std::marker::PhantomData;
use std::time::Duration;

unsafe extern "C" {
    fn bw_lock() -> c_int;
    fn bw_unlock() -> c_int;
    fn sc_job_begin() -> c_int;
    fn sc_job_end() -> c_int;
    fn sc_attach() -> c_int;
    fn sc_attach_task(task: *const c_char) -> c_int;
    fn sc_attach_slot(slot: *const c_char) -> c_int;
    fn sc_wait_slot(missed: *mut c_ulonglong) -> c_int;
    fn sc_slot_end() -> c_int;
    fn sc_detach();
    fn sc_check() -> c_int;
    fn sc_hold_program() -> c_int;
    fn sc_max_hold_ns() -> c_ulonglong;
    fn sc_strstatus(status: c_int) -> *const c_char;
}

/// Reason why a call did nothing (`enum sc_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub enum Status {
    /// No solocore with a service for clients runs here.
    NoDaemon,
    /// The user is not in the group of clients.
    Denied,
    /// Too many clients.
    Full,
    /// The running plan has no such task or slot, or another client has it already.
    Unknown,
    /// The version differs, or the daemon does not know the thread.
    Refused,
    /// A system call failed.
    System,
    /// An end came without a beginning, a job began twice, or a thread that is not a transfer
    /// waited.
    Unmatched,
}

impl Status {
    const ALL: [Self; 7] = [
        Self::NoDaemon,
        Self::Denied,
        Self::Full,
        Self::Unknown,
        Self::Refused,
        Self::System,
        Self::Unmatched,
    ];

    fn text(self) -> &'static str {
        let number = Self::ALL.iter().position(|&s| s == self).map_or(0, |at| at + 1);
        // SAFETY: for every number the function returns a string that lives for ever.
        let text = unsafe { CStr::from_ptr(sc_strstatus(c_int::try_from(number).unwrap_or(0))) };
        text.to_str().unwrap_or("no text")
    }
}

fn result(status: c_int) -> Result<(), Status> {
    match usize::try_from(status) {
        Ok(0) => Ok(()),
        Ok(number) => Err(Status::ALL.get(number - 1).copied().unwrap_or(Status::System)),
        Err(_) => Err(Status::System),
    }
}

/// The bandwidth lock, held by the thread that took it until this is dropped. Locks nest.
#[derive(Debug)]
#[must_use = "the lock is held until this is dropped"]
pub struct Lock {
    taken: Result<(), Status>,
    /// It belongs to its thread.
    _here: PhantomData<*const ()>,
}

/// Takes the bandwidth lock, and attaches the thread if it is not attached yet.
pub fn lock() -> Lock {
    // SAFETY: the function acts on the calling thread only and has no preconditions; so do all
    // others here.
    Lock { taken: result(unsafe { bw_lock() }), _here: PhantomData }
}

impl Lock {
    /// Whether it has an effect.
    ///
    /// # Errors
    /// The reason why it has none.
    pub fn taken(&self) -> Result<(), Status> {
        self.taken
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.taken.is_ok() {
            // SAFETY: as for bw_lock. If the thread was detached meanwhile, it says so, and that is
            // all.
            unsafe { bw_unlock() };
        }
    }
}

/// A job of the thread's task, under way until this is dropped.
#[derive(Debug)]
#[must_use = "the job ends when this is dropped"]
pub struct Job {
    _here: PhantomData<*const ()>,
}

/// Begins a job of the calling thread's task.
///
/// # Errors
/// A job is under way, or the thread cannot be attached.
pub fn begin_job() -> Result<Job, Status> {
    // SAFETY: as for bw_lock.
    result(unsafe { sc_job_begin() }).map(|()| Job { _here: PhantomData })
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: as for bw_lock.
        unsafe { sc_job_end() };
    }
}

/// Attaches the calling thread; else its first call does so.
///
/// # Errors
/// The reason why it cannot be attached.
pub fn attach() -> Result<(), Status> {
    // SAFETY: as for bw_lock.
    result(unsafe { sc_attach() })
}

/// Attaches the calling thread as a task of the plan; it signals the jobs of this task.
///
/// # Errors
/// The reason why it cannot be attached.
pub fn attach_task(task: &str) -> Result<(), Status> {
    let task = CString::new(task).map_err(|_| Status::Unknown)?;
    // SAFETY: the string is terminated and lives through the call.
    result(unsafe { sc_attach_task(task.as_ptr()) })
}

/// Attaches the calling thread as a transfer of the plan's time table: partition, chain and stage,
/// like `nav/1/device-input`. A device's transfer is bound to the I/O core until it detaches.
///
/// # Errors
/// The reason why it cannot be attached.
pub fn attach_slot(slot: &str) -> Result<(), Status> {
    let slot = CString::new(slot).map_err(|_| Status::Unknown)?;
    // SAFETY: the string is terminated and lives through the call.
    result(unsafe { sc_attach_slot(slot.as_ptr()) })
}

/// A transfer in its slot, until this is dropped.
#[derive(Debug)]
#[must_use = "the transfer ends when this is dropped"]
pub struct Transfer {
    missed: u64,
    /// It belongs to its thread.
    _here: PhantomData<*const ()>,
}

impl Transfer {
    /// Number of slots with a start that has passed since the transfer before, or since the thread
    /// was attached.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// Waits for the start of the calling thread's next slot.
///
/// # Errors
/// The thread is not a transfer, or solocore has ended.
pub fn wait_slot() -> Result<Transfer, Status> {
    let mut missed = 0;
    // SAFETY: the number is written during the call only.
    result(unsafe { sc_wait_slot(&raw mut missed) })?;
    Ok(Transfer { missed, _here: PhantomData })
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // SAFETY: as for bw_lock. If the next wait has ended it already, it says so, and that is
        // all.
        unsafe { sc_slot_end() };
    }
}

/// Detaches the calling thread: it holds no lock any more.
pub fn detach() {
    // SAFETY: as for bw_lock.
    unsafe { sc_detach() };
}

/// Checks that the calling thread is attached, and that the daemon still runs. Costs a system call.
///
/// # Errors
/// The reason why it is not.
pub fn check() -> Result<(), Status> {
    // SAFETY: as for bw_lock.
    result(unsafe { sc_check() })
}

/// Holds the lock from now on whenever this process or a descendant runs, until the process ends;
/// it still holds after it becomes another program.
///
/// # Errors
/// The reason why it cannot hold the lock.
pub fn hold_program() -> Result<(), Status> {
    // SAFETY: as for bw_lock.
    result(unsafe { sc_hold_program() })
}

/// Longest time for which a section of the calling thread counts; `None` without a limit.
pub fn max_hold() -> Option<Duration> {
    // SAFETY: as for bw_lock.
    let ns = unsafe { sc_max_hold_ns() };
    (ns != 0).then(|| Duration::from_nanos(ns))
}
