//! The process of a job.

use crate::host::stopped::MARK;
use crate::schedule::placed::Placed;
use crate::sys::Scheduling;
use rustix::io::FdFlags;
use solocore_space::coloured::HOLD;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a job with the scheduling of this thread, as its user. Its output goes to solocore's
/// stderr, unless it is to be quiet. With a socket in `hold`, it is an ordinary process that waits
/// there for its release.
/// Returns its number.
pub(super) fn spawn(
    placed: &Placed,
    program: &Path,
    arguments: &[String],
    directory: &Path,
    hold: Option<&OwnedFd>,
) -> io::Result<u32> {
    let errors: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
    let output = if placed.quiet { Stdio::null() } else { errors.into() };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory)
        .env(MARK, std::process::id().to_string())
        .envs(placed.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output);
    if placed.window.is_some() {
        // A job that is stopped when solocore dies would get SIGHUP, except in a session of its
        // own.
        let session = || Ok(rustix::process::setsid().map(drop)?);
        // SAFETY: setsid() is safe to call between fork and exec.
        unsafe { command.pre_exec(session) };
    } else {
        command.process_group(0);
    }
    if let Some(hold) = hold.map(AsRawFd::as_raw_fd) {
        command.env(HOLD, format!("{hold}:{}", placed.touched_pages));
        let ordinary = move || {
            // SAFETY: the socket is open until after the call of spawn() below.
            rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(hold) }, FdFlags::empty())?;
            Scheduling::ordinary().apply()
        };
        // SAFETY: it makes system calls only, and allocates nothing.
        unsafe { command.pre_exec(ordinary) };
    }
    if let Some(account) = placed.account.clone() {
        command.envs(account.environment());
        // SAFETY: it makes system calls only, and allocates nothing.
        unsafe { command.pre_exec(move || account.become_it()) };
    }
    #[allow(clippy::zombie_processes, reason = "reaped by number, with its CPU time")]
    let child = command.spawn()?;
    Ok(child.id())
}
