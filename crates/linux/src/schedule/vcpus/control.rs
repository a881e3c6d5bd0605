//! Control of running VCPUs: a socket of the scheduler's process takes requests to create, list,
//! move and destroy them, and to bind processes and control groups.
//!
//! Rule: each connection has one request and one answer, each a line of JSON. Only root may
//! connect. The process answers between two looks at its scheduler: it takes [`AT_ONCE`] requests
//! at a look. A client whose line is not there within a tenth of a second, or is too long, is
//! disconnected.

use super::{Group, Vcpus, Wanted, check_process};
use crate::error::LinuxError;
use serde::{Deserialize, Serialize};
use solocore_model::run::RunVcpu;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Path of the socket.
pub const SOCKET: &str = "/run/solocore-vcpu.sock";
const PATIENCE: Duration = Duration::from_millis(100);
/// Requests at a look.
const AT_ONCE: usize = 2;
/// Most bytes of a request.
const LONGEST: usize = 1 << 16;

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Create a VCPU, and bind a process to it if there is one.
    Create {
        /// The new VCPU.
        wanted: Wanted,
        /// The process, with its threads.
        pid: Option<u32>,
    },
    /// List all VCPUs.
    List,
    /// Move a VCPU to another core.
    Move {
        /// Name or number of the VCPU.
        vcpu: String,
        /// Number of the core.
        core: u32,
    },
    /// Destroy a VCPU.
    Destroy {
        /// Name or number of the VCPU.
        vcpu: String,
    },
    /// Bind a process to a VCPU.
    Bind {
        /// Name or number of the VCPU; `None`: best effort.
        vcpu: Option<String>,
        /// Number of the process.
        pid: u32,
    },
    /// Bind all threads of a control group to a VCPU, and those that are new in it later.
    BindGroup {
        /// Name or number of the VCPU; `None`: best effort.
        vcpu: Option<String>,
        /// The group.
        group: Group,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Done; with the number and the core of the VCPU.
    Done {
        /// Number of the VCPU.
        id: Option<u32>,
        /// Core of the VCPU.
        core: Option<u32>,
    },
    /// A control group is bound.
    Bound {
        /// Path of the group below the mount.
        group: String,
        /// Number of its threads now.
        threads: usize,
    },
    /// The VCPUs.
    Vcpus(Vec<RunVcpu>),
    /// Refused: the request is wrong.
    Input(String),
    /// Refused: the machine cannot do it.
    Machine(String),
}

/// The socket, until it is dropped.
pub struct Control {
    socket: UnixListener,
}

impl Control {
    /// Opens the socket. The caller owns the scheduler, so a socket that is found at this path is
    /// left over.
    ///
    /// # Errors
    /// /run cannot be written to.
    pub fn open() -> Result<Self, LinuxError> {
        let path = Path::new(SOCKET);
        let fail =
            |e: io::Error| LinuxError::of_io(SOCKET, &e, "run as root, with a writable /run");
        let _ = fs::remove_file(path);
        let socket = UnixListener::bind(path).map_err(fail)?;
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        Ok(Self { socket })
    }

    /// Answers the clients that wait. Returns the actions taken, for the user.
    pub fn serve(&self, vcpus: &mut Vcpus) -> Vec<String> {
        let mut done = Vec::new();
        for (client, _) in std::iter::from_fn(|| self.socket.accept().ok()).take(AT_ONCE) {
            // A client that disconnects gets no answer, which is not an error.
            let _ = answer(client, vcpus, &mut done);
        }
        done
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(SOCKET);
    }
}

fn answer(client: UnixStream, vcpus: &mut Vcpus, done: &mut Vec<String>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let line = line_within(&client, PATIENCE)?;
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => carry_out(request, vcpus, done).unwrap_or_else(|e| match e {
            LinuxError::Input(what) => Answer::Input(what),
            LinuxError::Machine(what) => Answer::Machine(what),
        }),
        Err(e) => {
            Answer::Input(format!("no such request: {e}; use the `solocore` of the same version"))
        }
    };
    let text = serde_json::to_string(&answer).map_err(io::Error::other)?;
    writeln!(&client, "{text}")
}

/// The line that a client writes, in this time.
fn line_within(mut client: &UnixStream, time: Duration) -> io::Result<String> {
    let until = Instant::now() + time;
    let mut all = Vec::new();
    while !all.contains(&b'\n') {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || all.len() > LONGEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        let mut some = [0; 4096];
        match client.read(&mut some) {
            Ok(0) => break,
            Ok(got) => all.extend_from_slice(&some[..got]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    if let Some(end) = all.iter().position(|&byte| byte == b'\n') {
        all.truncate(end + 1);
    }
    String::from_utf8(all).map_err(io::Error::other)
}

fn carry_out(
    request: Request,
    vcpus: &mut Vcpus,
    done: &mut Vec<String>,
) -> Result<Answer, LinuxError> {
    let of = |vcpus: &Vcpus, id: u32| Answer::Done {
        id: Some(id),
        core: vcpus.list().iter().find(|v| v.id == id).map(|v| v.core),
    };
    match request {
        Request::List => Ok(Answer::Vcpus(vcpus.list())),
        Request::Create { wanted, pid } => {
            pid.map_or(Ok(()), check_process)?;
            let id = vcpus.create(&wanted)?;
            if let Some(pid) = pid
                && let Err(e) = vcpus.bind_process(pid, Some(id))
            {
                vcpus.destroy(id)?;
                return Err(e);
            }
            done.push(format!("created VCPU {id}, {}", vcpus.describe(id)));
            Ok(of(vcpus, id))
        }
        Request::Move { vcpu, core } => {
            let id = vcpus.find(&vcpu)?;
            vcpus.move_to(id, core)?;
            let when = match vcpus.options().scheduling.migration {
                Some(_) => ", when its pages are there",
                None => "",
            };
            done.push(format!("VCPU {id} moves to core {core}{when}"));
            Ok(Answer::Done { id: Some(id), core: Some(core) })
        }
        Request::Destroy { vcpu } => {
            let id = vcpus.find(&vcpu)?;
            let what = vcpus.describe(id);
            vcpus.destroy(id)?;
            done.push(format!("destroyed VCPU {id}, {what}"));
            Ok(Answer::Done { id: Some(id), core: None })
        }
        Request::Bind { vcpu, pid } => {
            let id = vcpu.map(|vcpu| vcpus.find(&vcpu)).transpose()?;
            vcpus.bind_process(pid, id)?;
            Ok(Answer::Done { id, core: None })
        }
        Request::BindGroup { vcpu, group } => {
            let id = vcpu.map(|vcpu| vcpus.find(&vcpu)).transpose()?;
            let (group, threads) = vcpus.bind_group(&group, id)?;
            let what = id.map_or_else(|| "best effort".to_owned(), |id| vcpus.describe(id));
            done.push(format!("control group {group} is bound to {what}; threads now: {threads}"));
            Ok(Answer::Bound { group, threads })
        }
    }
}

/// Sends a request to the process with the scheduler.
///
/// # Errors
/// No process has a scheduler, this process may not ask, or the request is refused.
pub fn ask(request: &Request) -> Result<Answer, LinuxError> {
    let fail = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => LinuxError::Machine(
            "no solocore schedules VCPUs on this machine; start one: solocore vcpu serve, or \
            solocore run PLAN"
                .to_owned(),
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LinuxError::Machine(format!(
            "{SOCKET}: no answer in 10 s: the process is stopped or \
                busy; try again"
        )),
        _ => LinuxError::of_io(SOCKET, &e, "run as root"),
    };
    let mut stream = UnixStream::connect(SOCKET).map_err(fail)?;
    stream.set_read_timeout(Some(100 * PATIENCE)).map_err(fail)?;
    let text = serde_json::to_string(request).map_err(|e| fail(io::Error::other(e)))?;
    writeln!(stream, "{text}").map_err(fail)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(fail)?;
    match serde_json::from_str(&line) {
        Ok(Answer::Input(what)) => Err(LinuxError::Input(what)),
        Ok(Answer::Machine(what)) => Err(LinuxError::Machine(what)),
        Ok(answer) => Ok(answer),
        Err(e) => Err(LinuxError::Machine(format!(
            "{SOCKET}: an answer that cannot be read: {e}; use the `solocore` of the same version"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the scheduler's process reads of a client that behaves like this.
    fn read_of(behave: impl FnOnce(UnixStream) + Send + 'static) -> (io::Result<String>, Duration) {
        let (client, server) = UnixStream::pair().unwrap();
        let client = std::thread::spawn(move || behave(client));
        let begun = Instant::now();
        let read = line_within(&server, PATIENCE);
        let took = begun.elapsed();
        drop(server);
        client.join().unwrap();
        (read, took)
    }

    #[test]
    fn a_line_in_pieces_is_one_line() {
        let (line, _) = read_of(|mut client| {
            for piece in ["\"li", "st\"", "\nmore"] {
                client.write_all(piece.as_bytes()).unwrap();
            }
        });
        assert_eq!(line.unwrap(), "\"list\"\n");
    }

    /// Each byte comes in time, but the line does not.
    #[test]
    fn a_slow_client_does_not_hold_the_scheduler() {
        let (line, took) = read_of(|mut client| {
            for _ in 0..200 {
                std::thread::sleep(Duration::from_millis(10));
                if client.write_all(b"x").is_err() {
                    return;
                }
            }
        });
        assert!(line.is_err() && took < Duration::from_secs(1), "{took:?}");
    }

    #[test]
    fn an_endless_line_is_refused() {
        let (line, _) = read_of(|mut client| while client.write_all(&[b'x'; 4096]).is_ok() {});
        assert!(line.is_err());
    }
}
