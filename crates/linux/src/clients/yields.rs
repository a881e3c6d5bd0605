//! Programs that end their jobs by `sc_job_end()`.
//!
//! Problem: a program with jobs of the plan (client/c/solocore.h) should not depend on the
//! scheduler. Rule: a client that attaches is told that a yield ends a job (`SC_BY_YIELD`). It gets
//! no page: the library yields. A client that names a task becomes one of its threads, unless it is
//! one already. The daemon answers at its next look; the library waits for up to 2 s.
//! Does not cover: leaving a task. A thread stays in it until it ends.

use super::door::{Door, Places};
use super::table::{REQUEST_BYTES, Refusal, Scope, answer};
use crate::contract::SC_BY_YIELD;
use crate::error::LinuxError;
use crate::sys::seqpacket;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Connections at a time.
const CONNECTIONS: Places = Places { all: 512, of_user: 64 };
/// Time after which a connection without a request is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection and the process that asks.
struct Connection {
    socket: OwnedFd,
    uid: u32,
    since: Instant,
    granted: bool,
}

/// Makes a thread part of the task of this name. `Some(false)`: it was part of the task already.
/// `None`: there is no such task, or the thread belongs to another one.
pub type Join<'a> = dyn Fn(&str, u32) -> Option<bool> + 'a;

/// The socket of these clients, until it is dropped.
pub struct Yields {
    door: Door,
    connections: Vec<Connection>,
}

impl Yields {
    /// Opens the socket. The caller holds the [`crate::Instance`], so a socket that is found at
    /// this path is left over.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn open(path: &Path, group: &str) -> Result<Self, LinuxError> {
        Ok(Self { door: Door::open(path, group)?, connections: Vec::new() })
    }

    /// Answers the clients that wait. Returns the clients that became threads of a task, for the
    /// log.
    pub fn serve(&mut self, join: &Join<'_>) -> Vec<String> {
        let room = CONNECTIONS.all.saturating_sub(self.connections.len());
        for (socket, uid) in self.door.waiting(room) {
            let own = self.connections.iter().filter(|c| c.uid == uid).count();
            if CONNECTIONS.allow(uid, own, self.connections.len()) {
                self.connections.push(Connection {
                    socket,
                    uid,
                    since: Instant::now(),
                    granted: false,
                });
            }
        }
        let mut said = Vec::new();
        let door = &self.door;
        self.connections.retain_mut(|c| stays(c, door, join, &mut said));
        said
    }
}

/// Answers one connection, if it asks. Returns whether the connection stays.
fn stays(
    connection: &mut Connection,
    door: &Door,
    join: &Join<'_>,
    said: &mut Vec<String>,
) -> bool {
    let mut buffer = [0u8; REQUEST_BYTES + 1];
    let got = match seqpacket::receive(&connection.socket, &mut buffer) {
        Ok(0) => return false,
        Ok(got) => got,
        Err(e) => {
            let waits = e.kind() == io::ErrorKind::WouldBlock;
            return waits && (connection.granted || connection.since.elapsed() < PATIENCE);
        }
    };
    // One request for each connection.
    if connection.granted {
        return false;
    }
    let verdict = admit(&connection.socket, &buffer[..got], door, join, said);
    let mut message = answer(verdict.map(|()| 0), 0);
    if verdict.is_ok() {
        message.verdict = SC_BY_YIELD;
    }
    connection.granted = verdict.is_ok();
    // A refused client gets the reason, and its connection is closed.
    seqpacket::send(&connection.socket, message.as_bytes(), None).is_ok() && connection.granted
}

/// The process that asks, if it is allowed.
fn admit(
    socket: &OwnedFd,
    message: &[u8],
    door: &Door,
    join: &Join<'_>,
    said: &mut Vec<String>,
) -> Result<(), Refusal> {
    let (peer, request) = door.asked(socket, message)?;
    if request.scope != Scope::Thread {
        return Err(Refusal::NotServed);
    }
    Door::thread(socket, &peer, request.thread)?;
    if !request.task.is_empty() && join(&request.task, request.thread).ok_or(Refusal::NoTask)? {
        said.push(format!(
            "thread {} of process {} belongs to task `{}`",
            request.thread, peer.pid, request.task
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, sc_answer, sc_request};
    use std::cell::RefCell;
    use std::os::fd::{AsRawFd, FromRawFd};
    use zerocopy::{FromBytes, FromZeros};

    /// A client of this process, for its answers.
    struct Client(OwnedFd);

    impl Client {
        fn connect(path: &Path) -> Self {
            // SAFETY: a zeroed address is one without a path.
            let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
            address.sun_family = libc::AF_UNIX as libc::sa_family_t;
            for (place, byte) in address.sun_path.iter_mut().zip(path.to_str().unwrap().bytes()) {
                *place = libc::c_char::from_ne_bytes([byte]);
            }
            let size = size_of::<libc::sockaddr_un>() as libc::socklen_t;
            // SAFETY: takes no pointers; nobody else uses the descriptor.
            let socket = unsafe {
                OwnedFd::from_raw_fd(libc::socket(
                    libc::AF_UNIX,
                    libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
                    0,
                ))
            };
            // SAFETY: the kernel reads the address, which lives through the call and has this
            // length.
            let connected =
                unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size) };
            assert_eq!(connected, 0);
            Self(socket)
        }

        fn ask(&self, scope: u32, thread: u32, task: &str) {
            let mut request = sc_request { protocol: 1, scope, thread, ..sc_request::new_zeroed() };
            contract::set_text(&mut request.task, task);
            seqpacket::send(&self.0, request.as_bytes(), None).unwrap();
        }

        fn verdict(&self) -> Option<u32> {
            let mut bytes = [0u8; 17];
            let got = seqpacket::receive(&self.0, &mut bytes).ok()?;
            sc_answer::read_from_bytes(&bytes[..got]).ok().map(|answer| answer.verdict)
        }
    }

    #[test]
    fn who_asks_is_told_to_yield_and_joins_the_task_that_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let mut clients = Yields::open(&path, "no such group").unwrap();
        let joined = RefCell::new(Vec::new());
        let join = |name: &str, thread: u32| match name {
            "pilot" => {
                joined.borrow_mut().push(thread);
                Some(true)
            }
            "mine" => Some(false),
            _ => None,
        };
        let me = crate::sys::tasks::thread_number();
        let verdict = |clients: &mut Yields, scope, thread, task: &str| {
            let client = Client::connect(&path);
            client.ask(scope, thread, task);
            let said = clients.serve(&join);
            (client.verdict(), said.len(), client)
        };
        let (answer, said, stays) = verdict(&mut clients, 1, me, "pilot");
        assert_eq!((answer, said), (Some(SC_BY_YIELD), 1));
        assert_eq!(*joined.borrow(), [me]);
        assert_eq!(verdict(&mut clients, 1, me, "").0, Some(SC_BY_YIELD));
        assert_eq!(verdict(&mut clients, 1, me, "mine").1, 0, "nothing has changed");
        // Refused requests: another task, a thread of another process, a request for a page, noise.
        assert_eq!(verdict(&mut clients, 1, me, "nobody").0, Some(Refusal::NoTask as u32));
        assert_eq!(verdict(&mut clients, 1, 1, "pilot").0, Some(Refusal::BadRequest as u32));
        assert_eq!(verdict(&mut clients, 2, me, "").0, Some(Refusal::NotServed as u32));
        assert_eq!(verdict(&mut clients, 9, me, "").0, Some(Refusal::BadRequest as u32));
        assert_eq!(joined.borrow().len(), 1);
        // Only the first connection is open still; a second request ends it.
        clients.serve(&join);
        assert_eq!(clients.connections.len(), 1);
        stays.ask(1, me, "");
        clients.serve(&join);
        assert_eq!((stays.verdict(), clients.connections.len()), (None, 0));
        drop(clients);
        assert!(!path.exists());
    }
}
