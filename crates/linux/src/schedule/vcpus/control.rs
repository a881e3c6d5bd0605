//! Control of running VCPUs: a socket of the scheduler's process takes requests to create, list,
//! move and destroy them, and to bind processes and control groups.
//!
//! Rule: each connection has one request and one answer, each a line of JSON. Only root may
//! connect. The process answers between two looks at its scheduler; a client that does not write or
//! read within a tenth of a second is disconnected.

use super::{Group, Vcpus, Wanted, check_process};
use crate::error::LinuxError;
use serde::{Deserialize, Serialize};
use solocore_model::run::RunVcpu;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Path of the socket.
pub const SOCKET: &str = "/run/solocore-vcpu.sock";
const PATIENCE: Duration = Duration::from_millis(100);

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
        while let Ok((client, _)) = self.socket.accept() {
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
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(&client).read_line(&mut line)?;
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
