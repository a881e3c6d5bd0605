//! The first program of the guest: it starts the user's program and tells the host how it ended.
//!
//! Rule: it mounts the file systems that programs expect, reads the [`GuestTask`], switches the
//! memory model on, runs the program, switches the model off, sends the files in /out and turns the
//! power off. All messages to the host go through the [`Channel`]; the console has the kernel's messages
//! only.

use crate::channel::{Channel, Kind, LONGEST, Way};
use crate::image::HOME;
use crate::input;
use rustix::mount::MountFlags;
use rustix::process::{Pid, Signal};
use rustix::system::RebootCommand;
use rustix::termios::Winsize;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Path of the [`GuestTask`] in the guest.
pub const TASK: &str = "/board/task.json";

/// Task of the guest.
#[derive(Debug, Serialize, Deserialize)]
pub struct GuestTask {
    /// The program's file.
    pub program: PathBuf,
    /// Its name and its arguments.
    pub command: Vec<String>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
    /// Whether to switch the memory model on while it runs.
    pub switch: bool,
    /// Rows and columns of the console, if the program runs there.
    pub terminal: Option<(u16, u16)>,
    /// Whether its standard input comes from the host; else it is the console, or empty.
    pub input: bool,
}

/// Messages of the guest.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// The program starts.
    Started {
        /// Time since the guest's boot by its clock, ns.
        ns: u64,
    },
    /// It ended.
    Ended {
        /// Its exit code, as a shell gives it.
        code: u8,
        /// Time since the guest's boot by its clock, ns.
        ns: u64,
    },
    /// A file of /out; its bytes follow.
    File {
        /// Path below /out.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// Its length in bytes.
        size: u64,
    },
    /// No more messages follow.
    Done,
    /// The guest could not do its task.
    Failed {
        /// Reason on one line.
        what: String,
    },
}

/// Requests of a program to the board (`cpuid` with a leaf that no CPU has).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[repr(u32)]
pub enum Request {
    /// Switch the memory model on.
    ModelOn = 1,
    /// Switch the memory model off: references then take no memory time, and nothing is counted.
    ModelOff = 0,
    /// Write the counts so far to the file of --truth, with the label at the end of its name.
    Snapshot = 3,
    /// Reset the counts.
    Reset = 4,
}

/// Answer of the board in EAX.
const ANSWER: u32 = 0x5343_0001;

/// Runs the guest's task and turns the power off. Does not return inside a guest.
///
/// # Errors
/// This is not the first process of a machine.
pub fn main() -> Result<(), String> {
    if std::process::id() != 1 {
        return Err(
            "`board guest` is the first program of a board's guest; use `board run` or `board \
                shell`"
                .to_owned(),
        );
    }
    mount_all();
    match open_channel(Way::ToHost) {
        Err(e) => eprintln!("solocore: no channel to the host: {e}"),
        Ok(channel) => {
            let line = Line(Arc::new(Mutex::new(channel)));
            if let Err(what) = serve(&line) {
                line.tell(&Event::Failed { what });
            }
            line.tell(&Event::Done);
        }
    }
    rustix::fs::sync();
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
    Err("the power does not go off".to_owned())
}

fn serve(line: &Line) -> Result<(), String> {
    let text = std::fs::read_to_string(TASK).map_err(|e| format!("{TASK}: {e}"))?;
    let task: GuestTask = serde_json::from_str(&text).map_err(|e| format!("{TASK}: {e}"))?;
    let ended = run(&task, line)?;
    line.tell(&ended);
    send_files(Path::new("/out"), Path::new(""), line).map_err(|e| format!("/out: {e}"))
}

fn run(task: &GuestTask, line: &Line) -> Result<Event, String> {
    let mut command = Command::new(&task.program);
    command.arg0(&task.command[0]).args(&task.command[1..]).current_dir(&task.directory);
    command.env_clear().envs(&task.environment);
    match task.terminal {
        Some(size) => on_console(&mut command, size).map_err(|e| format!("/dev/ttyS0: {e}"))?,
        None => {
            command.stdin(if task.input { Stdio::piped() } else { Stdio::null() });
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
    }
    let typed = task.input.then(|| open_channel(Way::ToGuest)).transpose();
    let typed = typed.map_err(|e| format!("no input from the host: {e}"))?;
    line.tell(&Event::Started { ns: clock_ns() });
    if task.switch {
        ask(Request::ModelOn, "");
    }
    let started = command.spawn();
    let mut child = started.map_err(|e| {
        ask(Request::ModelOff, "");
        format!(
            "{}: cannot be started: {e}; check that it is made for this machine",
            task.command[0]
        )
    })?;
    if let Some((to, from)) = child.stdin.take().zip(typed) {
        std::thread::spawn(move || input::write(to, from));
    }
    let outputs = [
        child.stdout.take().map(|o| line.relay(o, Kind::Out)),
        child.stderr.take().map(|e| line.relay(e, Kind::Err)),
    ];
    let status = child.wait();
    let ns = clock_ns();
    if task.switch {
        ask(Request::ModelOff, "");
    }
    let status = status.map_err(|e| format!("{}: {e}", task.command[0]))?;
    // Processes that it left running would hold the pipes open. All processes but process 1 are
    // such.
    let _ = rustix::process::kill_process_group(Pid::INIT, Signal::KILL);
    for output in outputs.into_iter().flatten() {
        let _ = output.join();
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(Event::Ended { code: u8::try_from(code).unwrap_or(u8::MAX), ns })
}

/// Makes the console the program's terminal.
fn on_console(command: &mut Command, (rows, columns): (u16, u16)) -> io::Result<()> {
    let terminal = File::options().read(true).write(true).open("/dev/ttyS0")?;
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let _ = rustix::termios::tcsetwinsize(&terminal, size);
    command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    // SAFETY: between fork and exec only two system calls are made.
    unsafe {
        command.pre_exec(|| {
            let _ = rustix::process::setsid();
            let _ = rustix::process::ioctl_tiocsctty(rustix::stdio::stdin());
            Ok(())
        });
    }
    Ok(())
}

/// The connection to the host, for several threads.
#[derive(Clone)]
struct Line(Arc<Mutex<Channel>>);

impl Line {
    fn send(&self, kind: Kind, bytes: &[u8]) {
        if let Ok(mut channel) = self.0.lock() {
            channel.send(kind, bytes, || std::thread::sleep(Duration::from_millis(1)));
        }
    }

    fn tell(&self, event: &Event) {
        self.send(Kind::Event, &serde_json::to_vec(event).unwrap_or_default());
    }

    fn relay(
        &self,
        mut from: impl Read + Send + 'static,
        kind: Kind,
    ) -> std::thread::JoinHandle<()> {
        let line = self.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n) = from.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                line.send(kind, &buffer[..n]);
            }
        })
    }
}

fn send_files(root: &Path, below: &Path, line: &Line) -> io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(root.join(below))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        let kind = entry.metadata()?;
        if kind.is_dir() {
            send_files(root, &path, line)?;
        } else if kind.is_file() {
            let mode = kind.permissions().mode() & 0o777;
            line.tell(&Event::File { path, mode, size: kind.len() });
            send_bytes(&entry.path(), kind.len(), line)?;
        }
    }
    Ok(())
}

fn send_bytes(path: &Path, size: u64, line: &Line) -> io::Result<()> {
    let mut file = File::open(path)?.take(size);
    let mut buffer = vec![0; LONGEST];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        line.send(Kind::Data, &buffer[..n]);
    }
}

/// Finds the shared memory among the PCI devices and maps it.
fn open_channel(way: Way) -> io::Result<Channel> {
    for entry in std::fs::read_dir("/sys/bus/pci/devices")? {
        let device = entry?.path();
        let id = |name: &str| std::fs::read_to_string(device.join(name)).unwrap_or_default();
        if id("vendor").trim() == "0x1af4" && id("device").trim() == "0x1110" {
            std::fs::write(device.join("enable"), "1")?;
            return Channel::map(
                &File::options().read(true).write(true).open(device.join("resource2"))?,
                way,
            );
        }
    }
    Err(io::Error::other("the machine has no shared memory"))
}

/// Mounts the file systems that programs expect; those that a kernel lacks are left out.
fn mount_all() {
    let list = [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("devpts", "/dev/pts"),
        ("tmpfs", "/dev/shm"),
        ("tmpfs", "/run"),
        ("cgroup2", "/sys/fs/cgroup"),
        ("bpf", "/sys/fs/bpf"),
        ("debugfs", "/sys/kernel/debug"),
        ("tracefs", "/sys/kernel/tracing"),
    ];
    for (kind, place) in list {
        // The directories below /sys exist already.
        let _ = std::fs::create_dir(place);
        let _ = rustix::mount::mount(kind, place, kind, MountFlags::empty(), None);
    }
    let _ = std::fs::write("/proc/sys/kernel/hostname", "board");
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdout", "fd/1"),
        ("/dev/stderr", "fd/2"),
        ("/dev/stdin", "fd/0"),
    ] {
        let _ = std::os::unix::fs::symlink(target, link);
    }
    let _ = std::env::set_current_dir(HOME);
}

/// The guest's clock, which on a board is the simulated one.
fn clock_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Sends a request to the board, with a label of at most eight bytes: its plugin sees the leaf
/// before the CPU does. Returns whether a board answered.
pub fn ask(request: Request, label: &str) -> bool {
    let mut bytes = [0; 8];
    for (byte, given) in bytes.iter_mut().zip(label.bytes()) {
        *byte = given;
    }
    let asked = 0x5343_0000 | request as u32;
    // No other CPU has a board.
    #[cfg(not(target_arch = "x86_64"))]
    let answer = asked;
    #[cfg(target_arch = "x86_64")]
    let answer: u32;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `cpuid` changes these four registers only; rbx, which the compiler reserves, is
    // restored.
    unsafe {
        std::arch::asm!(
            "xchg {label}, rbx",
            "cpuid",
            "xchg {label}, rbx",
            label = inout(reg) u64::from_le_bytes(bytes) => _,
            inout("eax") asked => answer,
            inout("ecx") 0 => _,
            out("edx") _,
        );
    }
    answer == ANSWER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sent_with_their_place_in_order() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("b")).expect("made");
        std::fs::write(directory.path().join("b/two"), vec![5; LONGEST + 1]).expect("written");
        std::fs::write(directory.path().join("a"), "").expect("written");
        let file = tempfile::tempfile().expect("a file");
        file.set_len(crate::channel::SIZE as u64).expect("grown");
        let map = || Channel::map(&file, Way::ToHost).expect("mapped");
        let mut host = map();
        let line = Line(Arc::new(Mutex::new(map())));
        send_files(directory.path(), Path::new(""), &line).expect("sent");
        let mut said = Vec::new();
        while let Some((kind, bytes)) = host.receive().expect("whole") {
            match kind {
                Kind::Event => match serde_json::from_slice(&bytes).expect("an event") {
                    Event::File { path, size, .. } => {
                        said.push(format!("{} {size}", path.display()))
                    }
                    other => panic!("{other:?}"),
                },
                _ => said.push(bytes.len().to_string()),
            }
        }
        assert_eq!(said, ["a 0", "b/two 1048577", "1048576", "1"]);
    }

    #[test]
    fn this_machine_is_no_guest() {
        assert!(main().is_err());
        assert!(!ask(Request::Snapshot, "longer than eight"));
    }
}
