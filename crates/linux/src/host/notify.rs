//! Messages to the service manager (`sd_notify`): ready, alive, stopping. Without a manager they
//! are dropped.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state such as `READY=1` to `$NOTIFY_SOCKET`. Failures are ignored. Never waits: a
/// manager that reads nothing does not stop the daemon.
pub fn send(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(hidden) => SocketAddr::from_abstract_name(hidden),
        None => SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::new(
            std::str::from_utf8(name).unwrap_or_default(),
        ))),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
