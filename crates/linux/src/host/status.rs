//! Views of a running solocore: a socket for `solocore top`, and Prometheus metrics over HTTP.
//!
//! Rule: the daemon answers on the socket between two looks at its engine; only root may ask there,
//! and a client that does not read within a tenth of a second is disconnected. Anybody may ask for
//! metrics, or connect and send nothing. So a separate thread answers these, from a text that the
//! daemon renews twice a second: such clients keep the daemon neither from its parts nor from its
//! watchdog. Does not cover: access control for metrics; bind them to a local address.

use crate::error::LinuxError;
use std::cell::Cell;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Socket of a running solocore; only root may connect.
pub const SOCKET: &str = "/run/solocore.sock";
const PATIENCE: Duration = Duration::from_millis(100);
/// Time for which figures count as new.
const RENEWED: Duration = Duration::from_millis(500);

/// The sockets of a daemon, until it is dropped.
pub struct Status {
    path: PathBuf,
    socket: UnixListener,
    metrics: Option<Metrics>,
}

/// Metrics over HTTP.
struct Metrics {
    address: SocketAddr,
    text: Arc<Mutex<String>>,
    renewed: Cell<Option<Instant>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (text, stop) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (Arc::clone(&text), Arc::clone(&stop));
        let thread =
            std::thread::Builder::new().name("solocore/http".to_owned()).spawn(move || {
                while let Ok((client, _)) = listener.accept() {
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let text = shared.lock().unwrap_or_else(|e| e.into_inner()).clone();
                    // A client that disconnects gets no answer, which is no error.
                    let _ = answer(client, &text);
                }
            })?;
        Ok(Self { address, text, renewed: Cell::new(None), stop, thread: Some(thread) })
    }

    /// Renews the figures, if they are old.
    fn renew(&self, metrics: impl Fn() -> String) {
        if self.renewed.get().is_some_and(|since| since.elapsed() < RENEWED) {
            return;
        }
        self.renewed.set(Some(Instant::now()));
        let text = metrics();
        *self.text.lock().unwrap_or_else(|e| e.into_inner()) = text;
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A thread that waits for a connection gets one.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// Reads a request of any length, and answers it.
fn answer(mut client: TcpStream, text: &str) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let _ = client.read(&mut [0; 4096])?;
    client.write_all(http(text).as_bytes())
}

impl Status {
    /// Opens the sockets. The caller holds the [`crate::Instance`], so a socket that is found at
    /// this path is left over.
    ///
    /// # Errors
    /// The address is taken or not allowed.
    pub fn open(metrics: Option<SocketAddr>) -> Result<Self, LinuxError> {
        Self::at(Path::new(SOCKET), metrics)
    }

    fn at(path: &Path, metrics: Option<SocketAddr>) -> Result<Self, LinuxError> {
        let refused = |address, e: io::Error| {
            LinuxError::of_io(
                &format!("--metrics {address}"),
                &e,
                "choose another address, like 127.0.0.1:9184",
            )
        };
        let metrics = metrics.map(|a| Metrics::open(a).map_err(|e| refused(a, e))).transpose()?;
        let fail = |e: io::Error| {
            LinuxError::of_io(&path.display().to_string(), &e, "run as root, with a writable /run")
        };
        let _ = fs::remove_file(path);
        let socket = UnixListener::bind(path).map_err(fail)?;
        let status = Self { path: path.to_owned(), socket, metrics };
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(fail)?;
        status.socket.set_nonblocking(true).map_err(fail)?;
        Ok(status)
    }

    /// Answers the clients that wait: `snapshot` on the socket, `metrics` over HTTP.
    pub fn serve(&self, snapshot: impl Fn() -> String, metrics: impl Fn() -> String) {
        while let Ok((mut client, _)) = self.socket.accept() {
            // A client that disconnects gets no answer, which is no error.
            let _ = client
                .set_write_timeout(Some(PATIENCE))
                .and_then(|()| client.write_all(snapshot().as_bytes()));
        }
        if let Some(served) = &self.metrics {
            served.renew(metrics);
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn http(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: \
            {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The present state of a running solocore.
///
/// # Errors
/// None runs, or this process may not ask.
pub fn ask() -> Result<String, LinuxError> {
    let nobody = || {
        LinuxError::Machine(
            "no solocore regulates this machine; start one: solocore run PLAN".to_owned(),
        )
    };
    let fail = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset => nobody(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LinuxError::Machine(format!(
            "{SOCKET}: no answer in 10 s: the daemon is stopped or busy; try again"
        )),
        _ => LinuxError::of_io(SOCKET, &e, "run as root"),
    };
    let mut text = String::new();
    let mut stream = UnixStream::connect(SOCKET).map_err(fail)?;
    stream
        .set_read_timeout(Some(100 * PATIENCE))
        .and_then(|()| stream.read_to_string(&mut text))
        .map_err(fail)?;
    // A daemon that ends just now closes what it took.
    if text.is_empty() { Err(nobody()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        fs::write(&path, "left over").unwrap();
        let status = Status::at(&path, Some(([127, 0, 0, 1], 0).into())).unwrap();
        let address = status.metrics.as_ref().unwrap().address;
        let mut local = UnixStream::connect(&path).unwrap();
        // A silent client delays only the next one there, for a moment.
        let idle: Vec<_> = (0..8).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let since = Instant::now();
        status.serve(|| "snapshot".to_owned(), || "metrics\n".to_owned());
        assert!(since.elapsed() < PATIENCE, "the daemon waits for clients");
        let mut remote = std::net::TcpStream::connect(address).unwrap();
        remote.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        local.read_to_string(&mut text).unwrap();
        assert_eq!(text, "snapshot");
        text.clear();
        remote.read_to_string(&mut text).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nmetrics\n"),
            "{text}"
        );
        assert!(matches!(
            Status::at(&dir.path().join("other"), Some(address)),
            Err(LinuxError::Machine(_))
        ));
        drop(idle);
        assert!(!dir.path().join("other").exists());
        drop(status);
        assert!(!path.exists());
    }
}
