//! One run of a program that begins once its counters are open.

use crate::error::LinuxError;
use crate::sys;
use crate::sys::tasks::signal_group;
use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Interval between two checks for a request to end.
const LOOK: Duration = Duration::from_millis(20);

/// Time that a program may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// The run of a program.
pub struct Start<'a> {
    /// The program and its arguments.
    pub command: &'a [String],
    /// Working directory of the program.
    pub dir: &'a Path,
    /// Time after which the run is ended.
    pub timeout: Option<Duration>,
    /// Bytes of memory that are read before the run, so that the caches hold nothing of an earlier
    /// run; 0: none.
    pub sweep: usize,
    /// Whether the user asks for the end.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Reason for a missing count.
#[derive(Debug)]
pub enum Refused {
    /// A fault of the machine or of the program's file.
    Linux(LinuxError),
    /// The program ended with this code (128 and the signal's number); its last output.
    Failed(i32, String),
    /// The program took longer than its timeout.
    TimedOut,
    /// The user asked for the end.
    Stopped,
}

impl From<LinuxError> for Refused {
    fn from(error: LinuxError) -> Self {
        Self::Linux(error)
    }
}

/// Runs the program on a CPU; `open` is called with its process before the program begins. Returns
/// the run time and the result of `open`.
pub fn run<T>(
    start: &Start<'_>,
    cpu: u32,
    open: impl FnOnce(u32) -> Result<T, LinuxError>,
) -> Result<(Duration, T), Refused> {
    let fail = |e| LinuxError::of_io("a pipe", &e, "close some files");
    let (mut told, tell) = std::io::pipe().map_err(fail)?;
    let (wait, go) = std::io::pipe().map_err(fail)?;
    let mut said = said().map_err(fail)?;
    let mut command = Command::new(&start.command[0]);
    command.args(&start.command[1..]).current_dir(start.dir).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone().map_err(fail)?);
    // The program has neither end: all of them are closed as it begins.
    hold(&mut command, OwnedFd::from(tell), OwnedFd::from(wait), go.as_raw_fd());
    std::thread::scope(|scope| {
        let (send, ended) = channel();
        let sweep = start.sweep;
        // The call that starts a process returns when the program has begun.
        scope.spawn(move || {
            let started = sys::pin_to(cpu).and_then(|()| {
                swept(sweep);
                command.spawn()
            });
            // Both ends of the child's pipes are the child's alone now.
            drop(command);
            drop(send.send(started));
        });
        let mut pid = [0; 4];
        // The pipe stays empty where no process could be made.
        let opened = match told.read_exact(&mut pid) {
            Ok(()) => Some(open(u32::from_ne_bytes(pid))),
            Err(_) => None,
        };
        let mut go = Some(go);
        // Its own thread may have to wait for the CPU until the program leaves it.
        let begun = Instant::now();
        if let Some(Ok(_)) = &opened {
            go.as_mut().map(|go| go.write_all(&[1]));
        }
        // Without the word the child ends itself.
        drop(go.take());
        let child = match ended.recv() {
            Ok(Ok(child)) => child,
            Ok(Err(e)) => {
                opened.transpose()?;
                let program = &start.command[0];
                return Err(LinuxError::Input(format!(
                    "{program}: it does not start: {e}; give the path of a program that this user \
                        may run"
                ))
                .into());
            }
            Err(_) => {
                return Err(LinuxError::Machine(
                    "the thread that starts programs ended; start solocore again".to_owned(),
                )
                .into());
            }
        };
        let (status, took) = wait_for(child, begun, start)?;
        if !status.success() {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            return Err(Refused::Failed(code, last_line(&mut said)));
        }
        match opened {
            Some(Ok(opened)) => Ok((took, opened)),
            Some(Err(e)) => Err(e.into()),
            None => Err(LinuxError::Machine(
                "a started process did not report its process number; start solocore again"
                    .to_owned(),
            )
            .into()),
        }
    })
}

/// Waits for the program's end, and forces it at the timeout.
fn wait_for(
    mut child: Child,
    begun: Instant,
    start: &Start<'_>,
) -> Result<(ExitStatus, Duration), Refused> {
    let group = child.id();
    let (send, ended) = channel();
    // A thread of its own sees the end at once.
    let waiting = std::thread::spawn(move || {
        let status = child.wait();
        drop(send.send((status, begun.elapsed())));
    });
    let refused = loop {
        match ended.recv_timeout(LOOK) {
            Ok((status, took)) => {
                drop(waiting.join());
                let status =
                    status.map_err(|e| LinuxError::of_io("the program", &e, "start it again"))?;
                // Processes that it left in the background end with it.
                signal_group(group, Signal::KILL);
                return Ok((status, took));
            }
            Err(RecvTimeoutError::Disconnected) => break Refused::Stopped,
            Err(RecvTimeoutError::Timeout) if (start.stopped)() => break Refused::Stopped,
            Err(RecvTimeoutError::Timeout)
                if start.timeout.is_some_and(|limit| begun.elapsed() > limit) =>
            {
                break Refused::TimedOut;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    end_within(group, &ended);
    drop(waiting.join());
    Err(refused)
}

fn end_within<T>(group: u32, ended: &Receiver<T>) {
    signal_group(group, Signal::TERM);
    drop(ended.recv_timeout(GRACE));
    signal_group(group, Signal::KILL);
}

/// The child sends its number and waits for a word; the parent writes the word to `go`.
fn hold(command: &mut Command, tell: OwnedFd, wait: OwnedFd, go: RawFd) {
    let ready = move || {
        let pid = std::process::id().to_ne_bytes();
        let mut word = [0u8];
        // Closed in the child, so that it reads the end when the parent is gone. SAFETY: the calls
        // may be made between fork and exec, the buffers outlive them, and nothing in the child
        // uses `go`.
        let heard = unsafe {
            libc::close(go);
            libc::write(tell.as_raw_fd(), pid.as_ptr().cast(), pid.len());
            libc::read(wait.as_raw_fd(), word.as_mut_ptr().cast(), 1)
        };
        if heard == 1 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(libc::ECANCELED)) }
    };
    // SAFETY: the closure makes three system calls and takes no memory.
    unsafe { command.pre_exec(ready) };
}

/// A file in memory for the program's stderr.
fn said() -> std::io::Result<File> {
    let file = rustix::fs::memfd_create("said", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(file))
}

fn last_line(said: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = said.seek(SeekFrom::Start(0)).and_then(|_| said.read_to_end(&mut bytes));
    let text = read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let last = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
    last.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// Reads enough bytes to replace all old lines in the caches.
fn swept(bytes: usize) {
    const LINE: usize = 64;
    if bytes == 0 {
        return;
    }
    // Filled, so that each page is a frame of its own.
    let memory = vec![1u8; bytes];
    let sum: u64 = memory.iter().step_by(LINE).map(|&b| u64::from(b)).sum();
    std::hint::black_box(sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{PERF_INHERIT, PERF_ON_EXEC, PERF_READ_TIMED, PerfAttr, Whom};

    fn start<'a>(command: &'a [String], stopped: &'a dyn Fn() -> bool) -> Start<'a> {
        Start { command, dir: Path::new("/"), timeout: None, sweep: 0, stopped }
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    /// Counter of page faults of the process and its children; `None` where this process may not
    /// count.
    fn faults(pid: u32) -> Result<Option<OwnedFd>, LinuxError> {
        let attr = PerfAttr {
            kind: 1,
            config: 2,
            flags: 1 | PERF_INHERIT | PERF_ON_EXEC,
            read_format: PERF_READ_TIMED,
            ..PerfAttr::default()
        };
        Ok(sys::perf_open(&attr, Whom::Process(pid)).ok())
    }

    #[test]
    fn counters_begin_with_the_program_and_see_its_children() {
        let of = |script: &str| {
            let command = words(&["/bin/sh", "-c", script]);
            let (_, event) = run(&start(&command, &|| false), 0, faults).unwrap();
            event.map(|event| sys::perf_read_timed(&event).unwrap())
        };
        let (Some((plain, true)), Some((twice, true))) = (of("exit 0"), of("/bin/true; exit 0"))
        else {
            // This process may not count here; doctor reports that.
            return;
        };
        assert!(plain > 10 && twice > plain + 20, "{plain} {twice}");
    }

    #[test]
    fn what_fails_says_why() {
        let never = || false;
        let of = |command: &[&str]| {
            let command = words(command);
            run(&start(&command, &never), 0, |_| Ok(())).map(|_| ()).unwrap_err()
        };
        match of(&["/bin/sh", "-c", "echo hello >&2; echo what is wrong >&2; exit 7"]) {
            Refused::Failed(7, said) => assert_eq!(said, "what is wrong"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(of(&["/bin/sh", "-c", "kill -9 $$"]), Refused::Failed(137, _)));
        match of(&["/nowhere/program"]) {
            Refused::Linux(LinuxError::Input(why)) => assert!(why.contains("/nowhere/program")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_counter_that_is_refused_ends_the_child_before_it_begins() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("ran").display().to_string();
        let command = words(&["/usr/bin/touch", &mark]);
        let never = || false;
        let error = run(&start(&command, &never), 0, |_| {
            Err::<(), _>(LinuxError::Machine("no counter".to_owned()))
        })
        .unwrap_err();
        assert!(matches!(error, Refused::Linux(LinuxError::Machine(why)) if why == "no counter"));
        assert!(!Path::new(&mark).exists());
    }

    #[test]
    fn a_program_ends_when_it_is_asked_to() {
        let command = words(&["/bin/sh", "-c", "trap '' TERM; sleep 100 & wait; sleep 100"]);
        let yes = || true;
        let asked = run(&start(&command, &yes), 0, |_| Ok(())).unwrap_err();
        assert!(matches!(asked, Refused::Stopped));
        let command = words(&["/bin/sleep", "100"]);
        let never = || false;
        let limited = Start { timeout: Some(Duration::from_millis(50)), ..start(&command, &never) };
        assert!(matches!(run(&limited, 0, |_| Ok(())).unwrap_err(), Refused::TimedOut));
    }
}
