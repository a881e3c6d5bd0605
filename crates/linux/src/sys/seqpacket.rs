//! Local sockets that keep messages apart and pass descriptors, and the process at their other end.

use super::tasks::somebody;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt::Timeout;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::PidfdFlags;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// The process that connected, as it was at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub pid: u32,
    pub uid: u32,
    /// Its main group and all others.
    pub groups: Vec<u32>,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Listens at an unused path.
pub(crate) fn listen(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, 64)?;
    Ok(socket)
}

/// Connects to a path; the process that answers has two seconds for each answer.
pub(crate) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let patience = Some(Duration::from_secs(2));
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Recv, patience)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// The next connection, if a client waits.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, FLAGS)?)
}

/// The process at the other end. rustix is not used here: its process numbers cannot be 0, and a
/// peer in another namespace has that number.
pub(crate) fn peer(socket: &OwnedFd) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, fd) = (libc::SOL_SOCKET, socket.as_raw_fd());
    // SAFETY: the kernel writes at most `length` bytes into the credentials, which live through the
    // call.
    check(unsafe {
        libc::getsockopt(
            fd,
            level,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    })?;
    let mut groups = vec![0u32; 65_536 / 4];
    let mut bytes = 65_536 as libc::socklen_t;
    const PEERGROUPS: libc::c_int = 59;
    // SAFETY: the kernel writes at most `bytes` bytes into the vector, which is as long.
    let got = unsafe {
        libc::getsockopt(fd, level, PEERGROUPS, groups.as_mut_ptr().cast(), &raw mut bytes)
    };
    groups.truncate(if got < 0 { 0 } else { bytes as usize / 4 });
    groups.push(credentials.gid);
    let pid =
        u32::try_from(credentials.pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Peer { pid, uid: credentials.uid, groups })
}

/// Receives one message; `Ok(0)`: the other end has closed, or the message is empty.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?.0)
}

/// Sends a message, and a descriptor with it.
pub(crate) fn send(
    socket: &OwnedFd,
    message: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if descriptor.is_some() {
        control.push(SendAncillaryMessage::ScmRights(descriptor.as_slice()));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut control, flags)?;
    Ok(())
}

/// Waits for a message, and the descriptor with it.
pub(crate) fn receive_with(
    socket: &OwnedFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let got = rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    Ok((got.bytes, descriptor))
}

/// A descriptor that becomes readable when this process ends.
pub(crate) fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(somebody(pid)?, PidfdFlags::empty())?)
}

/// A descriptor of the process at the other end, at the time of its connection. Before Linux 6.5 it
/// is found by its number, if the present process with that number has the same user.
pub(crate) fn peer_process(socket: &OwnedFd, peer: &Peer) -> io::Result<OwnedFd> {
    const PEERPIDFD: libc::c_int = 77;
    let mut descriptor: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the number, which lives through the
    // call; no other code has the new descriptor yet.
    unsafe {
        let (fd, place) = (socket.as_raw_fd(), (&raw mut descriptor).cast());
        if libc::getsockopt(fd, libc::SOL_SOCKET, PEERPIDFD, place, &raw mut length) == 0 {
            return Ok(OwnedFd::from_raw_fd(descriptor));
        }
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOPROTOOPT) => {
            let process = pidfd(peer.pid)?;
            let status = std::fs::read_to_string(format!("/proc/{}/status", peer.pid))?;
            let line = status.lines().find_map(|l| l.strip_prefix("Uid:"));
            let effective = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok());
            let same = effective == Some(peer.uid);
            if same { Ok(process) } else { Err(io::ErrorKind::NotFound.into()) }
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until one of the descriptors can be read; returns which ones.
pub(crate) fn wait(descriptors: &[BorrowedFd<'_>], longest: Duration) -> Vec<bool> {
    let mut polled: Vec<PollFd> =
        descriptors.iter().map(|&fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let longest = Timespec::try_from(longest).ok();
    let found = rustix::event::poll(&mut polled, longest.as_ref()).unwrap_or(0);
    polled.iter().map(|p| found > 0 && !p.revents().is_empty()).collect()
}

/// Sets the period of an event.
pub(crate) fn set_period(event: &OwnedFd, period: u64) -> io::Result<()> {
    const IOC_PERIOD: libc::c_ulong = 0x4008_2404;
    // SAFETY: the kernel reads the number, which lives through the call.
    check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_PERIOD, &raw const period) }).map(drop)
}

/// Lets the kernel raise an interrupt after each overflow of an event whose program asks for it. It
/// would also send a signal to the owner of the descriptor, and nobody is. This clears the other
/// flags of the descriptor; an event has none.
pub(crate) fn raise_interrupts(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: sets flags of an open descriptor; takes no pointers.
    check(unsafe { libc::fcntl(event.as_raw_fd(), libc::F_SETFL, libc::O_ASYNC) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_descriptor_is_passed_and_the_peer_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = listen(&path).unwrap();
        assert!(accept(&listener).is_err(), "nobody waits");
        let out = std::process::Command::new("python3")
            .args(["-c", CLIENT, path.to_str().unwrap()])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut child = out.unwrap();
        assert_eq!(wait(&[listener.as_fd()], Duration::from_secs(10)), [true]);
        let connection = accept(&listener).unwrap();
        let peer = peer(&connection).unwrap();
        assert_eq!(peer.pid, child.id());
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"passed").unwrap();
        assert_eq!(wait(&[connection.as_fd()], Duration::from_secs(10)), [true]);
        let mut buffer = [0; 16];
        assert_eq!(receive(&connection, &mut buffer).unwrap(), 5);
        let process = peer_process(&connection, &peer).unwrap();
        assert_eq!(wait(&[process.as_fd()], Duration::ZERO), [false], "it lives");
        send(&connection, b"answer", Some(file.as_fd())).unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "answer passed\n");
        assert!(child.wait().unwrap().success());
        assert_eq!(wait(&[process.as_fd()], Duration::ZERO), [true], "it has ended");
        let late = peer_process(&connection, &peer);
        let ended = |p: &OwnedFd| wait(&[p.as_fd()], Duration::ZERO) == [true];
        assert!(late.as_ref().map_or(true, ended), "nobody else is taken for it");
        assert_eq!(receive(&connection, &mut buffer).unwrap(), 0, "it has gone");
        let over = pidfd(std::process::id()).unwrap();
        assert_eq!(wait(&[over.as_fd()], Duration::ZERO), [false], "this process lives");
    }

    const CLIENT: &str = "
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.send(b'hello')
text, fds, _, _ = socket.recv_fds(s, 64, 1)
print(text.decode(), os.pread(fds[0], 64, 0).decode())
";

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        assert!(listen(Path::new(&"x".repeat(200))).is_err(), "too long a path");
    }
}
