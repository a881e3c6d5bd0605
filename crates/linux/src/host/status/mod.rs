//! Views of a running solocore: a socket for `solocore top`, and Prometheus metrics over HTTP. A
//! third socket takes another plan (`solocore run --replace`).
//!
//! Rule: a separate thread answers all clients (`server`). The daemon leaves it texts between two
//! looks at its engine: metrics twice a second, and a snapshot once a client has asked for one. So
//! no client keeps the daemon from its parts or from its watchdog. Only root may connect to a
//! socket in the file system; everybody may ask at an address.
//! Does not cover: access control at an address; bind it to a local one.

mod client;
mod sent;
mod server;

pub(crate) use sent::Sent;

use crate::error::LinuxError;
use client::{Kind, LONGEST_PLAN};
use server::Server;
use solocore_model::{ModelError, files};
use std::cell::Cell;
use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Socket of a running solocore; only root may connect.
pub const SOCKET: &str = "/run/solocore.sock";
/// Its socket for another plan; only root and the user of the run may connect.
const PLANS: &str = "/run/solocore.plan.sock";
/// Default socket of its metrics; only root may connect.
pub const METRICS: &str = "/run/solocore-metrics.sock";
/// Longest time for which `solocore top` and `solocore run --replace` wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for which metrics count as new.
const RENEWED: Duration = Duration::from_millis(500);

/// A place where metrics are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address and a port.
    Address(SocketAddr),
    /// A socket in the file system, for root.
    Socket(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::Socket(PathBuf::from(text)));
        }
        text.parse().map(Self::Address).map_err(|_| {
            format!(
                "neither an address with a port, like 127.0.0.1:9184, nor a path like {METRICS}"
            )
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// The sockets of a daemon, until it is dropped.
pub struct Status {
    server: Server,
    /// Time of the last renewal of the metrics; `None`: they are not served.
    renewed: Option<Cell<Option<Instant>>>,
    /// Removed with it.
    _files: Vec<File>,
}

/// The file of a socket.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens at a path, for root. A socket that a dead process left there is removed first.
fn listen(path: &Path) -> io::Result<(OwnedFd, File)> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let socket = UnixListener::bind(path)?;
    let file = File(path.to_owned());
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), file))
}

/// Checks that metrics can be read at a place, and leaves nothing there.
///
/// # Errors
/// The place is taken or not allowed.
pub(crate) fn check(metrics: Option<&Place>) -> Result<(), LinuxError> {
    let Some(place) = metrics else { return Ok(()) };
    let tried = match place {
        Place::Address(address) => bind(*address).map(drop),
        Place::Socket(path) => check_path(path),
    };
    tried.map_err(|e| refused(place, &e))
}

/// Whether [`listen`] would have this path.
fn check_path(path: &Path) -> io::Result<()> {
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() && UnixStream::connect(path).is_err() => Ok(()),
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(_) => match files::check_place(path) {
            Err(ModelError::Write { source, .. }) => Err(source),
            _ => Ok(()),
        },
    }
}

/// The error of a place of metrics.
fn refused(place: &Place, error: &io::Error) -> LinuxError {
    let remedy = "choose another place, like 127.0.0.1:9184 or /run/solocore-metrics.sock";
    LinuxError::of_io(&format!("--metrics {place}"), error, remedy)
}

/// Paths of the files that [`Status::open`] makes.
pub(crate) fn paths(metrics: Option<&Place>) -> Vec<PathBuf> {
    let own = [SOCKET, PLANS].map(PathBuf::from);
    let metrics = metrics.and_then(|place| match place {
        Place::Address(_) => None,
        Place::Socket(path) => Some(path.clone()),
    });
    own.into_iter().chain(metrics).collect()
}

impl Status {
    /// Opens the sockets. The caller holds the [`crate::Instance`].
    ///
    /// # Errors
    /// The place is taken or not allowed.
    pub fn open(metrics: Option<&Place>) -> Result<Self, LinuxError> {
        Self::at(Path::new(SOCKET), Path::new(PLANS), metrics)
    }

    /// As [`Status::open`], at these paths.
    pub(crate) fn at(
        path: &Path,
        plans: &Path,
        metrics: Option<&Place>,
    ) -> Result<Self, LinuxError> {
        let fail = |path: &Path, e: io::Error| {
            LinuxError::of_io(&path.display().to_string(), &e, "run as root, with a writable /run")
        };
        let (mut listeners, mut files) = (Vec::new(), Vec::new());
        for (path, kind) in [(path, Kind::Snapshot), (plans, Kind::Plan)] {
            let (socket, file) = listen(path).map_err(|e| fail(path, e))?;
            listeners.push((socket, kind));
            files.push(file);
        }
        if let Some(place) = metrics {
            let socket = match place {
                Place::Address(address) => bind(*address).map_err(|e| refused(place, &e))?,
                Place::Socket(path) => {
                    let (socket, file) = listen(path).map_err(|e| refused(place, &e))?;
                    files.push(file);
                    socket
                }
            };
            listeners.push((socket, Kind::Metrics));
        }
        let server = Server::start(listeners).map_err(|e| fail(path, e))?;
        Ok(Self { server, renewed: metrics.map(|_| Cell::default()), _files: files })
    }

    /// Leaves texts for the clients: `snapshot` if one waits for it, `metrics` if they are old.
    /// Never waits.
    pub fn serve(&self, snapshot: impl Fn() -> String, metrics: impl Fn() -> String) {
        self.server.put_snapshot(snapshot);
        let Some(renewed) = &self.renewed else { return };
        if renewed.get().is_none_or(|since| since.elapsed() >= RENEWED) {
            renewed.set(Some(Instant::now()));
            self.server.put_metrics(metrics());
        }
    }

    /// The next plan that a client has sent, and its number; or the reason why it is none.
    pub(crate) fn plan(&self) -> Option<(u64, Result<Sent, LinuxError>)> {
        self.server.plan()
    }

    /// Answers the client that sent the plan with this number. Never waits.
    pub fn decide(&self, number: u64, answer: String) {
        self.server.decide(number, answer);
    }
}

fn bind(address: SocketAddr) -> io::Result<OwnedFd> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener.into())
}

/// The present state of a running solocore.
///
/// # Errors
/// None runs, or this process may not ask.
pub fn ask() -> Result<String, LinuxError> {
    let mut text = String::new();
    UnixStream::connect(SOCKET)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read_to_string(&mut text)
        })
        .map_err(|e| unanswered(SOCKET, &e))?;
    // A daemon that ends just now closes what it took.
    if text.is_empty() { Err(nobody()) } else { Ok(text) }
}

/// Sends another plan to a running solocore, and waits for its answer.
///
/// # Errors
/// None runs, this process may not ask, or the run ended before it answered.
pub(crate) fn send_plan(text: &str) -> Result<String, LinuxError> {
    if text.len() > LONGEST_PLAN {
        return Err(LinuxError::Input(format!(
            "the new plan has {} bytes, and a run takes {LONGEST_PLAN}; end the run and start it with \
                the new plan",
            text.len()
        )));
    }
    let fail = |e: io::Error| unanswered(PLANS, &e);
    let mut stream = UnixStream::connect(PLANS).map_err(fail)?;
    let mut answer = String::new();
    stream
        .set_write_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
        // A plan that is cut off here changes nothing.
        .and_then(|()| stream.write_all(text.as_bytes()))
        .and_then(|()| stream.shutdown(Shutdown::Write))
        .map_err(fail)?;
    stream.read_to_string(&mut answer).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LinuxError::Machine(format!(
            "{PLANS}: no answer in 10 s, and the plan may still come into force; `solocore top` \
                shows the plan"
        )),
        _ => fail(e),
    })?;
    if answer.is_empty() {
        return Err(LinuxError::Machine(
            "the run ended or was busy before it answered, or its user is another one; `solocore top` \
                shows whether it goes on, and its plan"
                .to_owned(),
        ));
    }
    Ok(answer)
}

fn nobody() -> LinuxError {
    LinuxError::Machine(
        "no solocore regulates this machine; start one: solocore run PLAN".to_owned(),
    )
}

/// The error of a connection to a running solocore.
fn unanswered(socket: &str, error: &io::Error) -> LinuxError {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset => nobody(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LinuxError::Machine(format!(
            "{socket}: no answer in 10 s: the daemon is stopped or busy; try again"
        )),
        _ => LinuxError::of_io(socket, error, "run as root"),
    }
}

#[cfg(test)]
mod tests;
