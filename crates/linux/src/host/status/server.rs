//! The thread that answers all clients of a running solocore.
//!
//! Problem: a client can stay silent, send a byte a second, or not read; a server that waits for it
//! delays all other clients, and the daemon. Rule: one thread waits for all sockets at once and for
//! none alone. A listener has at most [`MOST`] clients: one more takes the place of the oldest. So
//! memory and descriptors are bounded, and a client that asks at once is answered beside any
//! others. The thread parses the plans that come, so that the daemon does not. Does not cover: the
//! fraction of a second in which it parses a long plan; a flood of new connections in the time in
//! which one client asks.

use super::client::{Client, Figures, Kind};
use super::sent::Sent;
use crate::error::LinuxError;
use crate::sys::seqpacket;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clients of a listener at a time.
pub(super) const MOST: usize = 64;
/// Connections that are taken before those that are there are looked at again.
const AT_ONCE: usize = 16;
/// Time for which new connections wait when no descriptor is left for them.
const PAUSE: Duration = Duration::from_millis(20);

/// State that the daemon and the thread share.
#[derive(Default)]
struct Shared {
    /// Snapshots that clients wait for, by number.
    wanted: u64,
    made: u64,
    /// The snapshot that was made last, until the thread has taken it.
    snapshot: Option<Arc<str>>,
    metrics: Option<Arc<str>>,
    /// Plans that the daemon has not taken, by number.
    asked: VecDeque<(u64, Result<Sent, LinuxError>)>,
    /// Its answers that have not reached their clients, by number.
    decided: Vec<(u64, Arc<str>)>,
    stop: bool,
}

/// See the module.
pub(super) struct Server {
    shared: Arc<Mutex<Shared>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(|e| e.into_inner())
}

impl Server {
    /// Answers at these listeners, which do not block, until it is dropped.
    pub fn start(listeners: Vec<(OwnedFd, Kind)>) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(rustix::event::eventfd(0, flags)?);
        let shared = Arc::new(Mutex::new(Shared::default()));
        let mut rounds = Rounds {
            shared: Arc::clone(&shared),
            wake: Arc::clone(&wake),
            listeners,
            clients: Vec::new(),
            plans: 0,
        };
        let thread = std::thread::Builder::new()
            .name("solocore/status".to_owned())
            .spawn(move || while rounds.round() {})?;
        Ok(Self { shared, wake, thread: Some(thread) })
    }

    /// New metrics.
    pub fn put_metrics(&self, text: String) {
        lock(&self.shared).metrics = Some(Arc::from(text));
    }

    /// A snapshot, if a client waits for one.
    pub fn put_snapshot(&self, snapshot: impl Fn() -> String) {
        let number = {
            let shared = lock(&self.shared);
            if shared.wanted == shared.made {
                return;
            }
            shared.wanted
        };
        let text = snapshot();
        let mut shared = lock(&self.shared);
        shared.made = number;
        shared.snapshot = Some(Arc::from(text));
        drop(shared);
        self.wake();
    }

    /// The next plan that a client has sent, and its number.
    pub fn plan(&self) -> Option<(u64, Result<Sent, LinuxError>)> {
        lock(&self.shared).asked.pop_front()
    }

    /// Answers the client that sent the plan with this number.
    pub fn decide(&self, number: u64, answer: String) {
        lock(&self.shared).decided.push((number, Arc::from(answer)));
        self.wake();
    }

    fn wake(&self) {
        // It fails only where the thread is to wake already.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        lock(&self.shared).stop = true;
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether the process at the other end is of root, or of the user of this run.
fn may_replace(socket: &OwnedFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    seqpacket::peer(socket).is_ok_and(|peer| peer.uid == 0 || peer.uid == own)
}

/// The state of the thread. Clients are in the order of their connections.
struct Rounds {
    shared: Arc<Mutex<Shared>>,
    wake: Arc<OwnedFd>,
    listeners: Vec<(OwnedFd, Kind)>,
    clients: Vec<Client>,
    /// Plans that came so far; the last one has this number.
    plans: u64,
}

impl Rounds {
    /// Waits for something to do, and does it; `false`: it is to end.
    fn round(&mut self) -> bool {
        let waits = self.wait();
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        for (listener, _) in waits.iter().enumerate().filter(|(_, waits)| **waits) {
            self.accept(listener);
        }
        let (stop, made, snapshot, metrics, decided) = {
            let mut shared = lock(&self.shared);
            let text = |text: Option<Arc<str>>| text.unwrap_or_else(|| Arc::from(""));
            // All that wait for the snapshot are answered below, so it is not kept for others.
            let (snapshot, metrics) = (text(shared.snapshot.take()), text(shared.metrics.clone()));
            let decided = std::mem::take(&mut shared.decided);
            (shared.stop, shared.made, snapshot, metrics, decided)
        };
        for (number, answer) in &decided {
            self.clients.iter_mut().for_each(|client| client.decided(*number, answer));
        }
        let figures = Figures { made, snapshot: &snapshot, metrics: &metrics };
        self.clients = self.clients.drain(..).filter_map(|client| client.go_on(&figures)).collect();
        self.hand_in();
        !stop
    }

    /// Leaves the plans that have come for the daemon.
    fn hand_in(&mut self) {
        for client in &mut self.clients {
            let Some(text) = client.asked(self.plans + 1) else { continue };
            self.plans += 1;
            // Before the lock, for which the daemon may wait.
            let sent = Sent::parse(&text);
            lock(&self.shared).asked.push_back((self.plans, sent));
        }
    }

    /// Until a socket is ready or a client's time is over; at which listeners a client waits.
    fn wait(&self) -> Vec<bool> {
        let first = self.clients.iter().map(|client| client.until).min();
        let limit = first.map(|at| at.saturating_duration_since(Instant::now()));
        // A nanosecond early would be a round for nothing.
        let limit = limit.and_then(|l| Timespec::try_from(l + Duration::from_millis(1)).ok());
        let of = |fd, flags| PollFd::from_borrowed_fd(fd, flags);
        let listeners = self.listeners.iter().map(|(fd, _)| of(fd.as_fd(), PollFlags::IN));
        let clients = self.clients.iter();
        let clients = clients.filter_map(|c| Some(of(c.socket.as_fd(), c.waits_for()?)));
        let wake = std::iter::once(of(self.wake.as_fd(), PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> = listeners.chain(wake).chain(clients).collect();
        // Interrupted: nothing is ready, and the next round waits again.
        let ready = rustix::event::poll(&mut polled, limit.as_ref()).unwrap_or(0) > 0;
        let waits = |fd: &PollFd<'_>| ready && !fd.revents().is_empty();
        polled[..self.listeners.len()].iter().map(waits).collect()
    }

    /// Takes some of the connections that wait at a listener.
    fn accept(&mut self, listener: usize) {
        for _ in 0..AT_ONCE {
            let (socket, kind) = &self.listeners[listener];
            match seqpacket::accept(socket) {
                Ok(client) => self.admit(client, *kind),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    // No descriptor or memory is left: the oldest client makes room.
                    if !self.clients.is_empty() {
                        self.clients.remove(0);
                    }
                    std::thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, kind: Kind) {
        // The socket's mode says the same; a plan that another user sent would be theirs.
        if kind == Kind::Plan && !may_replace(&socket) {
            return;
        }
        let of_kind = |client: &Client| client.kind == kind;
        if self.clients.iter().filter(|c| of_kind(c)).count() >= MOST {
            let oldest = self.clients.iter().position(of_kind);
            oldest.into_iter().for_each(|at| drop(self.clients.remove(at)));
        }
        let mut shared = lock(&self.shared);
        shared.wanted += u64::from(kind == Kind::Snapshot);
        self.clients.push(Client::new(socket, kind, shared.wanted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Fails where the text of a look stays with the daemon after its clients have it.
    #[test]
    fn a_snapshot_is_gone_once_it_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let server = Server::start(vec![(listener.into(), Kind::Snapshot)]).unwrap();
        for _ in 0..2 {
            let mut client = UnixStream::connect(&path).unwrap();
            let mut text = String::new();
            std::thread::scope(|scope| {
                let read = scope.spawn(|| client.read_to_string(&mut text).unwrap());
                while !read.is_finished() {
                    server.put_snapshot(|| "snapshot".to_owned());
                    std::thread::yield_now();
                }
            });
            assert_eq!(text, "snapshot");
            assert!(lock(&server.shared).snapshot.is_none());
        }
    }
}
