//! How others see what a running solocore does: a socket for `solocore top`, and Prometheus metrics
//! over HTTP.
//!
//! Rule: the daemon answers between two looks at its engine, one connection after the other; a
//! client that does not read or write within a tenth of a second is let go. Regulation goes on in
//! the kernel meanwhile.
//! Does not cover: who may ask for metrics; bind them to a local address.

use crate::error::LinuxError;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a running solocore listens; only root may connect.
pub const SOCKET: &str = "/run/solocore.sock";
const PATIENCE: Duration = Duration::from_millis(100);

/// The places where a daemon answers, until it is dropped.
pub struct Status {
    path: PathBuf,
    socket: UnixListener,
    metrics: Option<TcpListener>,
}

impl Status {
    /// Opens them. Only who holds the [`crate::Instance`] may, so what lies in the socket's place
    /// is left over.
    ///
    /// # Errors
    /// The address is taken or not allowed.
    pub fn open(metrics: Option<SocketAddr>) -> Result<Self, LinuxError> {
        Self::at(Path::new(SOCKET), metrics)
    }

    fn at(path: &Path, metrics: Option<SocketAddr>) -> Result<Self, LinuxError> {
        let listen = |address: SocketAddr| {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let refused = |address, e: io::Error| {
            LinuxError::of_io(
                &format!("--metrics {address}"),
                &e,
                "choose another address, like 127.0.0.1:9184",
            )
        };
        let metrics =
            metrics.map(|address| listen(address).map_err(|e| refused(address, e))).transpose()?;
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

    /// Answers whoever waits: `snapshot` on the socket, `metrics` over HTTP.
    pub fn serve(&self, snapshot: impl Fn() -> String, metrics: impl Fn() -> String) {
        while let Ok((mut client, _)) = self.socket.accept() {
            // A client that goes away gets nothing, and that is all.
            let _ = client
                .set_write_timeout(Some(PATIENCE))
                .and_then(|()| client.write_all(snapshot().as_bytes()));
        }
        while let Some(Ok((mut client, _))) = self.metrics.as_ref().map(TcpListener::accept) {
            let _ = client
                .set_nonblocking(false)
                .and_then(|()| client.set_read_timeout(Some(PATIENCE)))
                .and_then(|()| client.set_write_timeout(Some(PATIENCE)))
                .and_then(|()| client.read(&mut [0; 4096]))
                .and_then(|_| client.write_all(http(&metrics()).as_bytes()));
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

/// What a running solocore says of itself now.
///
/// # Errors
/// None runs, or this process may not ask.
pub fn ask() -> Result<String, LinuxError> {
    let fail = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => LinuxError::Machine(
            "no solocore regulates this machine; start one: solocore run PLAN".to_owned(),
        ),
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
    Ok(text)
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
        let address = status.metrics.as_ref().unwrap().local_addr().unwrap();
        let mut local = UnixStream::connect(&path).unwrap();
        let mut remote = std::net::TcpStream::connect(address).unwrap();
        remote.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        status.serve(|| "snapshot".to_owned(), || "metrics\n".to_owned());
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
        assert!(!dir.path().join("other").exists());
        drop(status);
        assert!(!path.exists());
    }
}
