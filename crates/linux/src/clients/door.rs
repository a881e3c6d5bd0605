//! The socket to which clients connect. Root and the members of a group are allowed.

use super::table::{Refusal, Request};
use crate::error::LinuxError;
use crate::host::threads::start_of;
use crate::sys::accounts;
use crate::sys::seqpacket::{self, Peer};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Path of the socket at which clients ask for pages (`SC_CLIENT_SOCKET`).
pub const SOCKET: &str = "/run/solocore-client.sock";
/// Connections that are taken at a look. A client that connects without end would hold the caller.
const AT_ONCE: usize = 64;

/// Places that root can have, and nobody else: members of the group cannot keep the machine's own
/// programs out, however many they are.
const FOR_ROOT: usize = 16;

/// How many places of a kind there are, and how many a user other than root can have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub all: usize,
    pub of_user: usize,
}

impl Places {
    /// May this user have one more, who has `own` of the `taken` ones?
    pub const fn allow(&self, uid: u32, own: usize, taken: usize) -> bool {
        let others = self.all.saturating_sub(FOR_ROOT);
        if uid == 0 { taken < self.all } else { own < self.of_user && taken < others }
    }
}

/// The socket of clients; it is removed when this is dropped.
pub(super) struct Door {
    pub listener: OwnedFd,
    path: PathBuf,
    /// Group whose members are allowed.
    pub group: Option<u32>,
}

impl Door {
    /// Opens the socket. Its caller holds the [`crate::Instance`], so a socket that is found at
    /// this path is left over.
    pub fn open(path: &Path, group: &str) -> Result<Self, LinuxError> {
        let group = accounts::group(group);
        let fail = |e: io::Error| {
            LinuxError::of_io(&path.display().to_string(), &e, "run as root, with a writable /run")
        };
        let listener = listen(path, group).map_err(fail)?;
        Ok(Self { listener, path: path.to_owned(), group })
    }

    /// The connections that wait, at most `room` of them, with their users; none of those who have
    /// gone.
    pub fn waiting(&self, room: usize) -> impl Iterator<Item = (OwnedFd, u32)> {
        let taken = std::iter::from_fn(|| seqpacket::accept(&self.listener).ok());
        taken.take(room.min(AT_ONCE)).filter_map(|socket| {
            let uid = seqpacket::peer(&socket).ok()?.uid;
            Some((socket, uid))
        })
    }

    /// The process that asks, and the time at which its thread started. The thread belongs to that
    /// process: nobody attaches the threads of others, and none is taken of a process that has the
    /// number of one that has ended.
    pub fn thread(socket: &OwnedFd, peer: &Peer, thread: u32) -> Result<(OwnedFd, u64), Refusal> {
        let process = seqpacket::peer_process(socket, peer).map_err(|_| Refusal::BadRequest)?;
        let started = start_of(peer.pid, thread).ok_or(Refusal::BadRequest)?;
        if seqpacket::wait(&[process.as_fd()], Duration::ZERO) != [false] {
            return Err(Refusal::BadRequest);
        }
        Ok((process, started))
    }

    /// The process that asks and its request, if it is allowed.
    pub fn asked(&self, socket: &OwnedFd, message: &[u8]) -> Result<(Peer, Request), Refusal> {
        let peer = seqpacket::peer(socket).map_err(|_| Refusal::BadRequest)?;
        if !allowed(&peer, self.group) {
            return Err(Refusal::NotAllowed);
        }
        let request =
            Request::decode(message).filter(|r| r.protocol == 1).ok_or(Refusal::BadRequest)?;
        Ok((peer, request))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens for clients.
fn listen(path: &Path, group: Option<u32>) -> io::Result<OwnedFd> {
    let _ = fs::remove_file(path);
    let listener = seqpacket::listen(path)?;
    // The group is set first, so that nobody else connects in between.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    if group.is_some() {
        chown(path, None, group)?;
        fs::set_permissions(path, Permissions::from_mode(0o660))?;
    }
    Ok(listener)
}

/// Whether this peer is root or a member of the group.
fn allowed(peer: &Peer, group: Option<u32>) -> bool {
    peer.uid == 0 || group.is_some_and(|g| peer.groups.contains(&g))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_users_leave_root_its_places() {
        let places = Places { all: 128, of_user: 20 };
        // As many users as there are take as much as they may.
        let (mut taken, mut own) = (0, [0; 50]);
        for round in 0..30 {
            for (uid, own) in (1..).zip(&mut own) {
                if places.allow(uid, *own, taken) {
                    (taken, *own) = (taken + 1, *own + 1);
                }
                assert!(*own <= 20 && taken <= 112, "round {round}");
            }
        }
        assert_eq!(taken, 112);
        let of_root = (taken..200).take_while(|&taken| places.allow(0, taken - 112, taken));
        assert_eq!(of_root.count(), 16);
        assert!(places.allow(7, 19, 0) && !places.allow(7, 20, 20));
    }

    #[test]
    fn root_and_members_may() {
        let peer = |uid, groups: &[u32]| Peer { pid: 1, uid, groups: groups.to_vec() };
        assert!(allowed(&peer(0, &[]), None));
        assert!(allowed(&peer(1000, &[5, 7]), Some(7)));
        assert!(!allowed(&peer(1000, &[5]), Some(7)));
        assert!(!allowed(&peer(1000, &[0]), None));
    }

    #[test]
    fn clients_that_connect_without_end_hold_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let door = Door::open(&path, "no such group").unwrap();
        let me = rustix::process::getuid().as_raw();
        let some: Vec<OwnedFd> = (0..3).map(|_| seqpacket::connect(&path).unwrap()).collect();
        assert_eq!(door.waiting(2).map(|(_, uid)| uid).collect::<Vec<_>>(), [me, me]);
        assert_eq!(door.waiting(10).count(), 1);
        assert_eq!(door.waiting(10).count(), 0, "nobody waits");
        drop(some);
        // Whoever is taken comes back at once.
        let again = || seqpacket::connect(&path).map(drop);
        again().unwrap();
        let taken = door.waiting(usize::MAX).inspect(|_| again().unwrap()).count();
        assert!((AT_ONCE / 2..=AT_ONCE).contains(&taken), "{taken} are taken at a look");
    }
}
