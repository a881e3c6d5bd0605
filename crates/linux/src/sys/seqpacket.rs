//! Local sockets that keep messages apart and pass descriptors, and who is at their other end.

use super::owned;
use std::ffi::{CString, OsStr};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Who connected, as of then.
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

/// Listens at a path that nothing occupies.
pub(crate) fn listen(path: &Path) -> io::Result<OwnedFd> {
    let bytes = OsStr::new(path).as_bytes();
    // SAFETY: a zeroed address is one without a path.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (place, &byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    let flags = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    let socket = owned(libc::c_long::from(unsafe { libc::socket(libc::AF_UNIX, flags, 0) }))?;
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the kernel reads the address, which lives through the call and has this length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    // SAFETY: takes no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), 64) })?;
    Ok(socket)
}

/// The next connection, if one waits.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let none = std::ptr::null_mut();
    // SAFETY: the kernel writes no address where none is asked for.
    owned(libc::c_long::from(unsafe {
        libc::accept4(listener.as_raw_fd(), none, std::ptr::null_mut(), flags)
    }))
}

/// Who is at the other end.
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

/// One message; `Ok(0)`: the other end has closed, or the message is empty.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the buffer's length into it.
    let got = unsafe {
        libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Sends a message, and a descriptor with it.
pub(crate) fn send(
    socket: &OwnedFd,
    message: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut part =
        libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
    let mut control = Control([0; 64]);
    // SAFETY: a zeroed header is an empty message.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if let Some(fd) = descriptor {
        let bytes = size_of::<libc::c_int>() as libc::c_uint;
        header.msg_control = (&raw mut control).cast();
        // SAFETY: computes a length.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
        // SAFETY: the control buffer is aligned and large enough for one descriptor, so its first
        // header lies within it.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
            libc::CMSG_DATA(first).cast::<libc::c_int>().write_unaligned(fd.as_raw_fd());
        }
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: everything that the header names lives through the call, and the kernel only reads
    // it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A descriptor that becomes readable when this process ends.
pub(crate) fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) })
}

/// A descriptor of this very thread.
pub(crate) fn thread_fd(thread: u32) -> io::Result<OwnedFd> {
    /// `PIDFD_THREAD`, from Linux 6.9 on.
    const THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: takes no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(thread), THREAD) })
}

/// Waits until one of the descriptors can be read; which ones can.
pub(crate) fn wait(descriptors: &[BorrowedFd<'_>], longest: Duration) -> Vec<bool> {
    let entry =
        |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<libc::pollfd> = descriptors.iter().map(entry).collect();
    let milliseconds = libc::c_int::try_from(longest.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads and writes as many entries as the vector has.
    let found =
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    polled.iter().map(|p| found > 0 && p.revents != 0).collect()
}

/// The number of a group; `None` if there is none of this name.
pub(crate) fn group(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0u8; 65_536];
    let mut result = std::ptr::null_mut();
    // SAFETY: a zeroed entry is one without members; the strings go into the buffer, whose length
    // is told; all live through the call.
    unsafe {
        let mut entry: libc::group = zeroed();
        let space = buffer.as_mut_ptr().cast();
        let code =
            libc::getgrnam_r(name.as_ptr(), &raw mut entry, space, buffer.len(), &raw mut result);
        (code == 0 && !result.is_null()).then_some(entry.gr_gid)
    }
}

/// Another length of period for an event.
pub(crate) fn set_period(event: &OwnedFd, period: u64) -> io::Result<()> {
    const IOC_PERIOD: libc::c_ulong = 0x4008_2404;
    // SAFETY: the kernel reads the number, which lives through the call.
    check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_PERIOD, &raw const period) }).map(drop)
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
        // SAFETY: asks for a number.
        assert_eq!(peer.uid, unsafe { libc::getuid() });
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"passed").unwrap();
        assert_eq!(wait(&[connection.as_fd()], Duration::from_secs(10)), [true]);
        let mut buffer = [0; 16];
        assert_eq!(receive(&connection, &mut buffer).unwrap(), 5);
        send(&connection, b"answer", Some(file.as_fd())).unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "answer passed\n");
        assert!(child.wait().unwrap().success());
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
    fn groups_have_numbers() {
        assert_eq!(group("root"), Some(0));
        assert_eq!(group("no such group"), None);
        assert_eq!(group("a\0b"), None);
        assert!(listen(Path::new(&"x".repeat(200))).is_err(), "too long a path");
    }
}
