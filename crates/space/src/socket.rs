//! Sockets between solocore and the programs that it started: one packet a message.
//!
//! Rule: their names are in the kernel's name space, so no file is left where a process dies. Does
//! not cover: who may connect; the servers look at [`peer_of`].

use crate::error::SpaceError;
use crate::wire::{PACKET, Packet};
use rustix::event::{PollFd, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// A socket, and the address of this name in the kernel's name space, not a file.
fn socket(name: &str) -> io::Result<(OwnedFd, SocketAddrUnix)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    Ok((socket, SocketAddrUnix::new_abstract_name(name.as_bytes())?))
}

pub(crate) fn listen(name: &str) -> Result<OwnedFd, SpaceError> {
    let bound = || {
        let (socket, address) = socket(name)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, 128)?;
        Ok(socket)
    };
    bound().map_err(|e: io::Error| {
        SpaceError::of_io(
            "a socket for the program",
            &e,
            "raise the limit on descriptors (ulimit -n)",
        )
    })
}

pub(crate) fn connect(name: &str) -> io::Result<OwnedFd> {
    let (socket, address) = socket(name)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// Can one of them be read within this time?
pub(crate) fn wait(polled: &mut [PollFd<'_>], limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).ok();
    rustix::event::poll(polled, limit.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Process and user of the peer. Without rustix: its process numbers cannot be 0, which a peer in
/// another namespace has.
pub(crate) fn peer_of(socket: &OwnedFd) -> Option<(u32, u32)> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
    // SAFETY: the kernel writes at most `length` bytes to `who`, which lives through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some((u32::try_from(who.pid).ok()?, who.uid))
}

/// Sends a packet to a peer that may have gone; that is noticed when reading.
pub(crate) fn send(socket: &OwnedFd, packet: &Packet) {
    let _ = rustix::net::send(socket, &packet.encode(), SendFlags::NOSIGNAL);
}

/// The next packet; `None`: the peer has gone, or sent another kind of data.
pub(crate) fn receive(socket: &OwnedFd) -> Option<Packet> {
    let mut bytes = [0u8; PACKET];
    let (length, _) = rustix::net::recv(socket, &mut bytes, RecvFlags::empty()).ok()?;
    if length == PACKET { Packet::decode(&bytes) } else { None }
}
