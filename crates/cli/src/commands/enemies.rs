//! Enemies on other cores: memory hogs. They are processes of their own, as threads of this one are
//! never throttled.
//!
//! Rule: each is `solocore bench bandwidth` on a CPU, stopped while the program runs alone. They
//! end with this process, for whatever reason.

use crate::args::enemy::Enemy;
use crate::fail::Failure;
use solocore_buffers::caches;
use solocore_linux::LinuxError;
use solocore_linux::daemon::Part;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time until earlier accesses have settled, or the enemies run again.
const SETTLE: Duration = Duration::from_millis(5);
/// Size of a cache where no file tells it.
const UNKNOWN: u64 = 64 << 20;
const MOST: u64 = 1 << 30;

/// Enemies; they end when this is dropped.
pub struct Enemies(Vec<Child>);

/// Kind of each enemy.
#[derive(Clone, Copy, Debug)]
pub struct Weapon<'a> {
    pub enemy: Enemy,
    /// Size of its memory, bytes.
    pub bytes: u64,
    /// Bank functions, for the kind that keeps to a bank.
    pub map: Option<&'a Path>,
}

impl Enemies {
    /// Starts one enemy on each of these CPUs.
    pub fn start(cpus: &[u32], weapon: Weapon<'_>) -> Result<Self, Failure> {
        let (access, order) = weapon.enemy.way();
        let bytes = weapon.enemy.bytes(weapon.bytes);
        let mut all = Self(Vec::new());
        for cpu in cpus {
            let mut command = Command::new("/proc/self/exe");
            command.args(["bench", "bandwidth", "-t", "0", "-a", access, "-c", &cpu.to_string()]);
            command.args(["-m", &format!("{} KiB", bytes >> 10), "--order", order]);
            if let Some(map) = weapon.map {
                command.arg("--map").arg(map);
            }
            command.arg("--announce");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            // SAFETY: prctl() may be called between fork and exec.
            unsafe { command.pre_exec(end_with_parent) };
            let child = command.spawn().map_err(|e| {
                Failure::Machine(format!("an enemy cannot be started: {e}; free some memory"))
            })?;
            all.0.push(child);
        }
        // All touch their memory at once, and each says when it has.
        let ready = |child: &mut Child| {
            let mut word = [0; 6];
            child.stdout.as_mut().is_some_and(|out| out.read_exact(&mut word).is_ok())
        };
        if !all.0.iter_mut().all(ready) {
            return Err(Failure::Machine(format!(
                "an enemy ({}) with {} MiB ended at once; give less --memory, and for enemies of \
                a bank the --map of this machine",
                weapon.enemy.name(),
                bytes >> 20
            )));
        }
        Ok(all)
    }

    /// Stops the enemies.
    pub fn rest(&mut self) -> Result<(), LinuxError> {
        self.tell(libc::SIGSTOP)
    }

    /// Continues the enemies.
    pub fn go_on(&mut self) -> Result<(), LinuxError> {
        self.tell(libc::SIGCONT)
    }

    fn tell(&mut self, signal: i32) -> Result<(), LinuxError> {
        for child in &mut self.0 {
            if !matches!(child.try_wait(), Ok(None)) {
                return Err(LinuxError::Machine(
                    "an enemy has ended: another program killed it, or memory ran out".to_owned(),
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

/// In a run, enemies rest until all parts before them have started: their accesses before
/// regulation are not counted against the run.
impl Part for Enemies {
    fn start(&mut self) -> Result<(), LinuxError> {
        self.go_on()
    }

    fn end(&mut self) {
        self.0.drain(..).for_each(end);
    }
}

impl Drop for Enemies {
    fn drop(&mut self) {
        self.0.drain(..).for_each(end);
    }
}

fn end(mut enemy: Child) {
    let _ = enemy.kill();
    let _ = enemy.wait();
}

fn end_with_parent() -> std::io::Result<()> {
    // SAFETY: asks for a signal at the parent's end.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Twice the last-level cache of the first CPU, 1 GiB at most.
pub fn default_memory() -> u64 {
    match caches::here().shared_bytes {
        0 => UNKNOWN,
        shared => (2 * shared).min(MOST),
    }
}
