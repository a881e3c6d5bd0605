//! The run of a program under the emulator, from the command to the files.
//!
//! Problem: a run may be interrupted, or leave half of its files. Rule: it writes into a directory
//! of its own; both files take their places at the end, or neither does.

use crate::elf::Program;
use crate::error::ProfileError;
use crate::job::{Job, Seen, of_session};
use crate::parts::{Parts, started};
use rustix::fs::FlockOperation;
use solocore_cache::contract::{Config, PartFile, STACK_BYTES};
use solocore_model::{ModelError, Platform, Profile, files};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Default limit of recorded accesses: about half a gigabyte of address stream, a tenth of that on
/// disk.
pub const TRACE_LIMIT: u64 = 1 << 26;

/// Interval between two looks at a run.
const LOOK: Duration = Duration::from_secs(1);
/// Time for a program to end after a request, and for children that go on after it.
const GRACE: Duration = Duration::from_secs(2);

/// Process of the running emulator, for [`stop_child`].
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Whether the user asked for the end.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Ends the emulated program, if one is running; safe to call from a signal thread.
pub fn stop_child() {
    STOPPED.store(true, SeqCst);
    let pid = CHILD.load(SeqCst);
    if pid > 0 {
        // SAFETY: plain system call; the child is reaped only after CHILD is cleared.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

/// Profiles a program behind the private caches of `view` and writes `out` and, beside it, `out`
/// with `.trace` added.
///
/// # Errors
/// [`ProfileError`]; nothing is left at `out` then, and no process of the program runs on.
pub fn one_run(
    view: &Platform,
    job: &Job,
    out: &Path,
) -> Result<(Profile, ExitStatus), ProfileError> {
    let program = Program::find(&job.command[0], job.dir).map_err(ProfileError::Input)?;
    let emulator = program.emulator()?;
    let plugin = solocore_plugin::PROFILE.find()?;
    if out.is_dir() {
        return Err(ProfileError::Input(format!(
            "{}: it is a directory; name a file with -o",
            out.display()
        )));
    }
    let scratch = scratch(out)?;
    let config = Config {
        platform: view.clone(),
        dir: scratch.path().canonicalize().unwrap_or_else(|_| scratch.path().to_owned()),
        trace_limit: job.trace_limit,
        plugin,
        program: program.path.clone(),
        sysroot: program.sysroot()?,
    };
    let config_path = config.dir.join("config.json");
    files::write_json(&config_path, &config).map_err(|e| said_of(e, out))?;
    if out.exists() && !out.is_file() {
        return Err(ProfileError::Machine(format!(
            "{}: is not a regular file, and the trace has to lie beside it; name a file with -o",
            out.display()
        )));
    }
    let command = emulated(job, &program, &emulator, &config, &config_path);
    let _all = Processes(&config);
    let (status, main) = run(command, job, &config)?;

    if STOPPED.load(SeqCst) && status.signal().is_some() {
        return Err(ProfileError::Interrupted);
    }
    if let Ok(reason) = std::fs::read_to_string(config.error()) {
        return Err(ModelError::Write {
            path: out.to_owned(),
            source: std::io::Error::other(reason),
        }
        .into());
    }
    let parts = whole(&config, main)?;
    let name = &job.command[0];
    if parts.raw.is_empty() || parts.unended().any(|(_, s)| s.pid == main) {
        return Err(no_result(status, name));
    }
    if let Some(why) = parts.refusal(main) {
        let why = if STOPPED.load(SeqCst) { return Err(ProfileError::Interrupted) } else { why };
        return Err(ProfileError::Input(format!("{name}: {why}")));
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let trace = config.dir.join("trace");
    let file = trace_path(out).file_name().map(PathBuf::from).unwrap_or_default();
    let profile = parts.profile(&config, job, &program, code, &trace, file)?;
    // The store is private: no other process can hold it.
    let store = job.quiet.then(|| files::parent_dir(out));
    let _lock = store.and_then(|dir| lock(dir, FlockOperation::LockExclusive));
    put(&profile, &config.dir, Some(&trace), out)?;
    Ok((profile, status))
}

/// Moves a profile and its trace to their places: both are complete in `scratch` before either is
/// moved.
///
/// # Errors
/// There is no room, or no right to write.
pub fn put(
    profile: &Profile,
    scratch: &Path,
    trace: Option<&Path>,
    out: &Path,
) -> Result<(), ModelError> {
    let ready = scratch.join("profile.json");
    files::write_json(&ready, profile).map_err(|e| said_of(e, out))?;
    let write = |source| ModelError::Write { path: out.to_owned(), source };
    if let Some(trace) = trace {
        std::fs::rename(trace, trace_path(out)).map_err(write)?;
    }
    std::fs::rename(&ready, out).map_err(write)
}

/// The error for a file beside `out`, which is the only name that users know.
fn said_of(error: ModelError, out: &Path) -> ModelError {
    match error {
        ModelError::Write { source, .. } => ModelError::Write { path: out.to_owned(), source },
        other => other,
    }
}

/// A directory beside `out` for the files of the run; it is removed when the returned value is
/// dropped.
///
/// # Errors
/// There is no such place, or no right to write.
pub fn scratch(out: &Path) -> Result<TempDir, ModelError> {
    tempfile::Builder::new()
        .prefix(".solocore-")
        .tempdir_in(files::parent_dir(out))
        .map_err(|source| ModelError::Write { path: out.to_owned(), source })
}

/// Locks a directory for processes that replace a profile and its trace together, or read both.
/// `None` where the file system has no locks: the two are then checked against each other when they
/// are read.
pub(crate) fn lock(dir: &Path, how: FlockOperation) -> Option<File> {
    let file = File::open(dir).ok()?;
    rustix::fs::flock(&file, how).ok()?;
    Some(file)
}

/// The emulator's command line.
fn emulated(
    job: &Job,
    program: &Program,
    emulator: &Path,
    config: &Config,
    config_path: &Path,
) -> Command {
    let mut command = Command::new(emulator);
    command.arg("-s").arg(STACK_BYTES.to_string()).args(["-seed", "1"]);
    if let Some(sysroot) = &config.sysroot {
        command.arg("-L").arg(sysroot);
    }
    let quoted = |path: &Path| path.to_string_lossy().replace(',', ",,");
    let plugin = format!("file={},config={}", quoted(&config.plugin), quoted(config_path));
    command
        .arg("-plugin")
        .arg(plugin)
        .arg("-0")
        .arg(&job.command[0])
        .arg(&program.path)
        .args(&job.command[1..])
        .current_dir(job.dir);
    if job.quiet {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(n, _)| of_session(&n.to_string_lossy())) {
            command.env_remove(name);
        }
    }
    command
}

/// The results of a run, once its processes have ended.
fn whole(config: &Config, main: u32) -> Result<Parts, ProfileError> {
    let began = Instant::now();
    loop {
        let parts = Parts::read(config)?;
        let alive = parts.unended().find(|(_, s)| s.pid != main && is_of_run(s.pid, config));
        match alive {
            None => return Ok(parts),
            Some((_, s)) if began.elapsed() >= GRACE => {
                return Err(ProfileError::Input(format!(
                    "its child process {} goes on after the program has ended, so the end of the \
                    job is not known; let the program wait for its children",
                    s.pid
                )));
            }
            Some(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The processes of a run; all are ended when this is dropped.
struct Processes<'a>(&'a Config);

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        end_all(self.0);
    }
}

/// Ends every process of a run. A process that starts meanwhile writes a file, and the next look
/// finds it.
fn end_all(config: &Config) {
    let began = Instant::now();
    while began.elapsed() < GRACE {
        let alive: Vec<u32> = started(config)
            .into_iter()
            .map(|s| s.pid)
            .filter(|&pid| is_of_run(pid, config))
            .collect();
        if alive.is_empty() {
            return;
        }
        for pid in alive.into_iter().filter_map(|pid| i32::try_from(pid).ok()) {
            // SAFETY: plain system call.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether this is a living process of the run. Its command line has the run's directory; an ended
/// process has none.
fn is_of_run(pid: u32, config: &Config) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let dir = config.dir.to_string_lossy().replace(',', ",,");
    !dir.is_empty() && String::from_utf8_lossy(&line).contains(&dir)
}

/// Path of the trace of the profile at `out`.
pub fn trace_path(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".trace");
    PathBuf::from(name)
}

/// Runs the emulator to its end; returns its status and process.
fn run(
    mut command: Command,
    job: &Job,
    config: &Config,
) -> Result<(ExitStatus, u32), ProfileError> {
    let failed = |e: std::io::Error| {
        ProfileError::Machine(format!("cannot start the emulator for {}: {e}", job.command[0]))
    };
    let mut child = command.spawn().map_err(failed)?;
    let pid = child.id();
    CHILD.store(i32::try_from(pid).unwrap_or(0), SeqCst);
    let (sender, ended) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || drop(sender.send(child.wait())));
    let began = Instant::now();
    let deadline = job.timeout.map(|limit| began + limit);
    let mut asked: Option<Instant> = None;
    let mut over = false;
    let status = loop {
        let left = deadline.map_or(LOOK, |d| d.saturating_duration_since(Instant::now()).min(LOOK));
        match ended.recv_timeout(if over { LOOK } else { left }) {
            Ok(status) => break status,
            Err(RecvTimeoutError::Disconnected) => {
                break Err(std::io::Error::other("nobody waits for it"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if deadline.is_some_and(|d| Instant::now() >= d) {
            over = true;
            end_all(config);
            kill(pid);
        } else if STOPPED.load(SeqCst) {
            // A program may take no notice of SIGTERM.
            if asked.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                end_all(config);
                kill(pid);
            }
        } else {
            (job.watch)(seen(config, began));
        }
    };
    CHILD.store(0, SeqCst);
    let _ = waiter.join();
    if over {
        let limit = job.timeout.unwrap_or_default().as_secs_f64();
        let so_far = seen(config, began).instructions;
        return Err(ProfileError::Input(format!(
            "`{}` did not end within {limit} s ({} million instructions), and was ended with all \
            its processes; give it less work, or raise --timeout",
            job.command.join(" "),
            so_far / 1_000_000
        )));
    }
    Ok((status.map_err(failed)?, pid))
}

/// The emulator itself, which may not have loaded the plugin yet.
fn kill(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        // SAFETY: plain system call; the child is reaped by a thread that tells it first.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// Progress of all processes.
fn seen(config: &Config, began: Instant) -> Seen {
    let mut seen = Seen { time: began.elapsed(), ..Seen::default() };
    for number in (0u32..).take(started(config).len()) {
        let bytes = std::fs::read(config.file(PartFile::Progress, number)).unwrap_or_default();
        if let Some((a, b)) = bytes.split_at_checked(8) {
            let number = |b: &[u8]| b.try_into().map_or(0, u64::from_le_bytes);
            seen.instructions += number(a);
            seen.references += number(b);
        }
    }
    seen
}

fn no_result(status: ExitStatus, program: &str) -> ProfileError {
    match status.signal() {
        Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP) => ProfileError::Interrupted,
        Some(signal) => ProfileError::Input(format!(
            "{program}: died of signal {signal} before it ended; a profile needs a run to the end, \
                so make the program work by itself first"
        )),
        None => ProfileError::Machine(format!(
            "{program}: the emulator left no counts (exit code {}); see its message above. It \
                needs QEMU 4.2 to 8.2 with plugins, like Debian 12's qemu-user",
            status.code().unwrap_or(-1)
        )),
    }
}
