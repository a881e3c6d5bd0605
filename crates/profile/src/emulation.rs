//! The run of a program under the emulator, from the command to the files.
//!
//! Problem: a run may be interrupted, or leave half of its files. Rule: it writes into a directory
//! of its own; both files take their places at the end, or neither does.

use crate::build;
use crate::elf::Program;
use crate::error::ProfileError;
use crate::job::Job;
use solocore_cache::contract::{Config, Raw, STACK_BYTES};
use solocore_model::profile::TraceRef;
use solocore_model::{ModelError, Profile, files};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// Accesses recorded when nothing else is said: about half a gigabyte of address stream, a tenth of
/// that on disk.
pub const TRACE_LIMIT: u64 = 1 << 26;

/// The running emulator, for [`stop_child`].
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Ends the emulated program, if one is running; safe to call from a signal thread.
pub fn stop_child() {
    let pid = CHILD.load(SeqCst);
    if pid > 0 {
        // SAFETY: plain system call; the child is reaped only after CHILD is cleared.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

/// Profiles a program and writes `out` and, beside it, `out` with `.trace` added.
///
/// # Errors
/// [`ProfileError`]; nothing is left at `out` then.
pub fn profile(job: &Job, out: &Path) -> Result<(Profile, ExitStatus), ProfileError> {
    let program = Program::find(&job.command[0], job.dir).map_err(ProfileError::Input)?;
    let emulator = program.emulator()?;
    let plugin = find_plugin()?;
    if out.is_dir() {
        return Err(ProfileError::Input(format!(
            "{}: it is a directory; name a file with -o",
            out.display()
        )));
    }
    let scratch = tempfile::Builder::new()
        .prefix(".solocore-")
        .tempdir_in(files::parent_dir(out))
        .map_err(|source| ModelError::Write { path: out.to_owned(), source })?;
    let scratch_dir = scratch.path().canonicalize().unwrap_or_else(|_| scratch.path().to_owned());
    let config = Config {
        platform: job.platform.clone(),
        output: scratch_dir.join("raw.json"),
        trace: Some(scratch_dir.join("trace")),
        trace_limit: job.trace_limit,
    };
    let config_path = scratch_dir.join("config.json");
    let no_room = |error: ModelError| match error {
        ModelError::Write { source, .. } => ModelError::Write { path: out.to_owned(), source },
        other => other,
    };
    files::write_json(&config_path, &config).map_err(no_room)?;

    let mut command = Command::new(emulator);
    command.arg("-s").arg(STACK_BYTES.to_string()).args(["-seed", "1"]);
    if let Some(sysroot) = program.sysroot()? {
        command.arg("-L").arg(sysroot);
    }
    let quoted = |path: &Path| path.to_string_lossy().replace(',', ",,");
    command.arg("-plugin").arg(format!("file={},config={}", quoted(&plugin), quoted(&config_path)));
    command
        .arg("-0")
        .arg(&job.command[0])
        .arg(&program.path)
        .args(&job.command[1..])
        .current_dir(job.dir);
    if job.quiet {
        command.stdin(Stdio::null()).stdout(Stdio::null());
    }
    if out.exists() && !out.is_file() {
        return Err(ProfileError::Machine(format!(
            "{}: is not a regular file, and the trace has to lie beside it; name a file with -o",
            out.display()
        )));
    }
    let status = run(command, job)?;

    let failure = scratch_dir.join("raw.error");
    if let Ok(reason) = std::fs::read_to_string(&failure) {
        return Err(ModelError::Write {
            path: out.to_owned(),
            source: std::io::Error::other(reason),
        }
        .into());
    }
    if !config.output.exists() {
        return Err(no_result(status, &job.command[0]));
    }
    let raw: Raw = files::read_json(&config.output)?;
    if let Some(error) = &raw.trace_error {
        let source = std::io::Error::other(error.clone());
        return Err(ModelError::Write { path: trace_path(out), source }.into());
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let trace = TraceRef {
        file: trace_path(out).file_name().map(PathBuf::from).unwrap_or_default(),
        records: raw.trace_records,
        cycles: raw.trace_cycles,
        truncated: raw.trace_truncated,
    };
    let profile = build::profile(raw, job, &program, code, trace);
    let write = |source| ModelError::Write { path: out.to_owned(), source };
    // Both are whole before either takes its place.
    let whole = scratch_dir.join("profile.json");
    files::write_json(&whole, &profile).map_err(no_room)?;
    std::fs::rename(scratch_dir.join("trace"), trace_path(out)).map_err(write)?;
    std::fs::rename(&whole, out).map_err(write)?;
    Ok((profile, status))
}

/// Where the trace of the profile at `out` lies.
pub fn trace_path(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".trace");
    PathBuf::from(name)
}

fn run(mut command: Command, job: &Job) -> Result<ExitStatus, ProfileError> {
    let failed = |e: std::io::Error| {
        ProfileError::Machine(format!("cannot start the emulator for {}: {e}", job.command[0]))
    };
    let mut child = command.spawn().map_err(failed)?;
    CHILD.store(i32::try_from(child.id()).unwrap_or(0), SeqCst);
    let status = child.wait();
    CHILD.store(0, SeqCst);
    status.map_err(failed)
}

fn no_result(status: ExitStatus, program: &str) -> ProfileError {
    match status.signal() {
        Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP) => ProfileError::Interrupted,
        Some(signal) => ProfileError::Input(format!(
            "{program}: died of signal {signal} before it ended; a profile needs a run to the end, \
                so make it work by itself first"
        )),
        None => ProfileError::Machine(format!(
            "{program}: the emulator left no counts (exit code {}); see its message above. It \
                needs QEMU 4.2 to 8.2 with plugins, like Debian 12's qemu-user",
            status.code().unwrap_or(-1)
        )),
    }
}

/// The plugin lies beside the program, or in `../lib/solocore` of an installation.
fn find_plugin() -> Result<PathBuf, ProfileError> {
    const NAME: &str = "libsolocore_qemu.so";
    let mut places = Vec::new();
    if let Some(path) = std::env::var_os("SOLOCORE_PLUGIN") {
        places.push(PathBuf::from(path));
    } else if let Some(dir) =
        std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned))
    {
        places.extend([
            dir.join(NAME),
            dir.join("..").join(NAME),
            dir.join("../lib/solocore").join(NAME),
        ]);
    }
    places.iter().find(|p| p.is_file()).cloned().ok_or_else(|| {
        ProfileError::Machine(format!(
            "the profiler plugin {NAME} is not beside the solocore \
            program; build it with `make build` or name it in SOLOCORE_PLUGIN"
        ))
    })
}
