//! Memory hogs on other cores: processes of their own, as threads of this one are never throttled.
//!
//! Rule: each is `solocore bench bandwidth` on a CPU, stopped while the program runs alone. They
//! end with this process, however it ends.

use crate::args::compare::Enemy;
use crate::fail::Failure;
use solocore_buffers::caches;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Until they have touched their memory once.
const WARM_UP: Duration = Duration::from_millis(500);
/// Until what they had under way has come to rest, or is under way again.
const SETTLE: Duration = Duration::from_millis(5);
/// Where nothing tells the size of a cache.
const LEAST: u64 = 64 << 20;
const MOST: u64 = 1 << 30;

/// See the module; they end when this is dropped.
pub struct Enemies(Vec<Child>);

impl Enemies {
    /// One on each of these CPUs, at work.
    pub fn start(cpus: &[u32], enemy: Enemy, bytes: u64) -> Result<Self, Failure> {
        let access = if enemy == Enemy::Read { "read" } else { "write" };
        let mut all = Self(Vec::new());
        for cpu in cpus {
            let mut command = Command::new("/proc/self/exe");
            command.args(["bench", "bandwidth", "-t", "0", "-a", access, "-c", &cpu.to_string()]);
            command.args(["-m", &format!("{} KiB", bytes >> 10)]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // SAFETY: prctl() may be called between fork and exec.
            unsafe { command.pre_exec(end_with_parent) };
            let child = command.spawn().map_err(|e| {
                Failure::Machine(format!("an enemy does not start: {e}; free some memory"))
            })?;
            all.0.push(child);
        }
        std::thread::sleep(WARM_UP);
        if all.0.iter_mut().any(|c| !matches!(c.try_wait(), Ok(None))) {
            return Err(Failure::Machine(format!(
                "an enemy with {} MiB ended at once; give less --memory",
                bytes >> 20
            )));
        }
        Ok(all)
    }

    /// They stop.
    pub fn rest(&mut self) -> Result<(), Failure> {
        self.tell(libc::SIGSTOP)
    }

    /// They work again.
    pub fn go_on(&mut self) -> Result<(), Failure> {
        self.tell(libc::SIGCONT)
    }

    fn tell(&mut self, signal: i32) -> Result<(), Failure> {
        for child in &mut self.0 {
            if !matches!(child.try_wait(), Ok(None)) {
                return Err(Failure::Machine(
                    "an enemy has ended; somebody killed it, or memory ran out".to_owned(),
                ));
            }
            let pid = libc::pid_t::try_from(child.id()).unwrap_or(0);
            // SAFETY: a signal to a child that has not been reaped.
            unsafe { libc::kill(pid, signal) };
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }
}

impl Drop for Enemies {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn end_with_parent() -> std::io::Result<()> {
    // SAFETY: asks for a signal at the parent's end.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Twice the last-level cache of the first CPU, from 64 MiB to 1 GiB.
pub fn default_memory() -> u64 {
    (2 * caches::here().shared_bytes).clamp(LEAST, MOST)
}
