//! A run from the command to its results.

use crate::cache::Cache;
use crate::error::BoardError;
use crate::guest::{GuestTask, TASK};
use crate::image::{HOME, Image};
use crate::job::{Job, Model, find_program};
use crate::machine::{Followed, Machine, messages};
use crate::plugin::TRUTH;
use crate::qemu::Qemu;
use crate::watch::Watch;
use crate::{elf, initramfs, kernel, plugin, qemu, types};
use serde::Serialize;
use solocore_model::{ModelError, files};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Outcome of a run.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Exit code of the program.
    pub exit_code: u8,
    /// Time of the program by the guest's clock.
    pub simulated_ns: u64,
    /// Wall time of the program.
    pub wall_ns: u64,
    /// Wall time of the boot.
    pub boot_ns: u64,
    /// QEMU's version.
    pub qemu: String,
    /// The kernel's version.
    pub kernel: String,
    /// The plugin's counts, without those of each frame; null without a plugin.
    pub truth: serde_json::Value,
}

/// Boots a board and runs a program on it, or a shell.
///
/// # Errors
/// [`BoardError`]; no process and no file is left then, except in the cache.
pub fn run(job: &Job, watch: &mut dyn Watch) -> Result<Outcome, BoardError> {
    job.check()?;
    let here = std::env::current_dir().map_err(|e| BoardError::file(Path::new("."), "read", &e))?;
    let program = job.command.first().map(|name| find_program(name, &here)).transpose()?;
    plugin::find()?;
    let cache = Cache::find()?;
    let qemu = qemu::obtain(&cache, watch)?;
    let kernel = kernel::obtain(&cache, job.kernel.as_deref(), watch)?;
    watch.stage("collecting the guest's files");
    let image = collect(job, program, &here, &qemu)?;
    job.check_memory(image.size())?;
    let scratch = tempfile::Builder::new().prefix("solocore-board-").tempdir();
    let scratch = scratch.map_err(|e| BoardError::file(&std::env::temp_dir(), "write", &e))?;
    write_files(job, &image, scratch.path())?;
    watch.stage(&format!(
        "booting Linux {} on {} ({} CPUs)",
        kernel.version, job.platform.title, job.cpus
    ));
    let followed = {
        let mut machine = Machine::start(job, &qemu, &kernel, scratch.path())?;
        machine.follow(job, watch)
    };
    if let Some(path) = &job.console {
        files::write_atomically(path, messages(scratch.path()).as_bytes())?;
    }
    let followed = followed?;
    if let Some(path) = &job.truth {
        keep_truth(scratch.path(), path)?;
    }
    Ok(outcome(&followed, qemu, kernel.version, scratch.path()))
}

/// The plugin's file and its snapshots, `NAME.LABEL`, beside each other.
fn keep_truth(directory: &Path, place: &Path) -> Result<(), BoardError> {
    let fail = |e: std::io::Error| BoardError::file(directory, "read", &e);
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(label) = name.strip_prefix(TRUTH) {
            let mut place = place.as_os_str().to_owned();
            place.push(label);
            files::write_atomically(Path::new(&place), &std::fs::read(&path).map_err(fail)?)?;
        }
    }
    Ok(())
}

fn outcome(followed: &Followed, qemu: Qemu, kernel: String, directory: &Path) -> Outcome {
    let ns = |d: std::time::Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let mut truth: serde_json::Value = files::read_json(&directory.join(TRUTH)).unwrap_or_default();
    if let Some(all) = truth.as_object_mut() {
        // A line for each frame of the memory.
        all.remove("frames");
    }
    Outcome {
        exit_code: followed.code.unwrap_or(0),
        simulated_ns: followed.simulated_ns,
        wall_ns: ns(followed.wall),
        boot_ns: ns(followed.boot),
        qemu: qemu.version,
        kernel,
        truth,
    }
}

/// All files of the guest.
fn collect(
    job: &Job,
    program: Option<PathBuf>,
    here: &Path,
    qemu: &Qemu,
) -> Result<Image, BoardError> {
    let mut image = Image::new()?;
    add_solocore(&mut image)?;
    add_tools(&mut image, qemu)?;
    image.directory(here)?;
    for share in &job.shares {
        image.share(share)?;
    }
    let shell = PathBuf::from(format!("{HOME}/busybox"));
    if let Some(program) = &program
        && !is_solocore(program)
    {
        image.file(program)?;
    }
    for argument in job.command.iter().skip(1) {
        let path = here.join(argument);
        if !argument.is_empty()
            && path.is_file()
            && !path.starts_with("/dev")
            && !path.starts_with("/proc")
        {
            image.file(&path)?;
        }
    }
    // Unless the host's own was added, a script's /bin/sh is busybox.
    image.link(Image::real_directory("/bin").join("sh"), &shell);
    let command = if job.command.is_empty() { vec!["sh".to_owned()] } else { job.command.clone() };
    let program = program.map(|p| if is_solocore(&p) { SOLOCORE.into() } else { p });
    let task = GuestTask {
        program: program.unwrap_or(shell),
        command,
        directory: here.to_owned(),
        environment: environment(job),
        switch: job.model == Model::Asked,
        terminal: job.on_terminal().then(terminal_size),
        input: job.command.is_empty() && !job.on_terminal(),
    };
    image.make(TASK, files::to_json(&task), 0o644);
    types::add(&mut image, &job.platform, job.cpus);
    Ok(image)
}

const SOLOCORE: &str = "/board/solocore";

fn is_solocore(program: &Path) -> bool {
    let own = std::env::current_exe().and_then(|p| p.canonicalize()).ok();
    own.is_some() && program.canonicalize().ok() == own
}

/// Adds this program itself, without its unloaded parts, as the first program of the guest and as
/// `solocore` in its PATH.
fn add_solocore(image: &mut Image) -> Result<(), BoardError> {
    let path = std::env::current_exe()
        .map_err(|e| BoardError::file(Path::new("/proc/self/exe"), "read", &e))?;
    let bytes = std::fs::read(&path).map_err(|e| BoardError::file(&path, "read", &e))?;
    image.libraries(&path, &bytes)?;
    image.make(SOLOCORE, elf::loaded_part(bytes), 0o755);
    image.make("/init", format!("#!{HOME}/busybox sh\nexec {SOLOCORE} board guest\n"), 0o755);
    Ok(())
}

/// Busybox and links for its tools, behind all other directories of PATH.
fn add_tools(image: &mut Image, qemu: &Qemu) -> Result<(), BoardError> {
    let path = qemu.busybox();
    let bytes = std::fs::read(&path).map_err(|e| BoardError::file(&path, "read", &e))?;
    image.make(format!("{HOME}/busybox"), bytes, 0o755);
    let list = Command::new(&path)
        .arg("--list")
        .output()
        .map_err(|e| BoardError::file(&path, "start", &e))?;
    let bin = PathBuf::from(format!("{HOME}/bin"));
    image.new_directory(&bin);
    for tool in String::from_utf8_lossy(&list.stdout).lines() {
        image.link(bin.join(tool), "../busybox");
    }
    image.link(bin.join("solocore"), "../solocore");
    Ok(())
}

fn environment(job: &Job) -> BTreeMap<String, String> {
    let path = format!("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{HOME}/bin");
    let mut all = BTreeMap::from(
        [
            ("PATH", path.as_str()),
            ("HOME", "/root"),
            ("USER", "root"),
            ("LANG", "C.UTF-8"),
            ("SOLOCORE_BOARD", &job.platform.name),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned())),
    );
    if job.on_terminal() {
        let kind = std::env::var("TERM").unwrap_or_else(|_| "vt100".to_owned());
        all.extend([
            ("TERM".to_owned(), kind),
            ("PS1".to_owned(), format!("{}# ", job.platform.name)),
        ]);
    }
    all
}

/// Rows and columns of this terminal.
fn terminal_size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(std::io::stdin()).ok().filter(|s| s.ws_row > 0);
    size.map_or((24, 80), |s| (s.ws_row, s.ws_col))
}

/// Writes the archive for the kernel and the configuration of the plugin.
fn write_files(job: &Job, image: &Image, directory: &Path) -> Result<(), BoardError> {
    let path = directory.join("initramfs");
    let fail = |e: std::io::Error| BoardError::file(&path, "write", &e);
    let mut out = BufWriter::new(File::create(&path).map_err(fail)?);
    initramfs::write(image.tree(), &mut out).map_err(fail)?;
    out.flush().map_err(fail)?;
    let board = directory.join("platform.toml");
    let text = toml::to_string(&job.platform)
        .map_err(|e| ModelError::Write { path: board.clone(), source: std::io::Error::other(e) })?;
    Ok(files::write_atomically(&board, text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::Platform;
    use solocore_model::platform::PRESETS;

    #[test]
    fn every_preset_comes_back_from_the_file_that_the_plugin_reads() {
        for (name, _) in PRESETS {
            let platform = Platform::find(name, Path::new(".")).expect("a preset");
            let text = toml::to_string(&platform).expect("written");
            assert_eq!(Platform::parse(Path::new("x.toml"), &text).expect("read"), platform);
        }
    }
}
