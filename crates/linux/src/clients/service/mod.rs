//! The daemon's side of the lock: it gives pages to programs and takes them back.
//!
//! Rule: one thread waits for connections, requests, ends of connections and of processes; a thread
//! that ends, or a process that passed its connection on, shows in none of these and is found
//! within [`LOOK`]. The kernel reuses the number of a dead thread, so an owner is a number and a
//! start time, here and in the BPF programs. [`OF_SLOTS`] limits the slots of a user.
//! The daemon never waits for a client.

mod options;

pub use options::ServiceOptions;

use super::door::{Door, Places};
use super::silent::{Own, OwnPages, pages};
use super::slots::Board;
use super::table::{
    LockCounts, Owner, Page, REQUEST_BYTES, Refusal, Request, Returned, SLOTS, Scope, Table, answer,
};
use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::host::said;
use crate::host::threads::{ThreadChange, What, printable, start_of};
use crate::regulate::engine::Engine;
use crate::sys::seqpacket::{self, Peer};
use crate::sys::{Scheduling, tasks};
use solocore_model::run::{RunClient, RunClientTransfer, RunTransfer};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Interval between two looks at the clients.
const LOOK: Duration = Duration::from_millis(20);
/// Time after which a connection without a request is closed.
const PATIENCE: Duration = Duration::from_secs(2);
/// Slots.
const OF_SLOTS: Places = Places { all: SLOTS as usize, of_user: 64 };
/// Connections at a time.
const CONNECTIONS: Places = Places { all: 2 * SLOTS as usize, of_user: OF_SLOTS.of_user + 16 };

/// State that the thread and the daemon share.
#[derive(Default)]
struct Shared {
    clients: Vec<RunClient>,
    cores: Vec<LockCounts>,
    messages: Vec<String>,
    board: Board,
}

/// The thread that serves clients. When it is dropped, nobody holds the lock any more.
pub struct Service {
    stop: Arc<AtomicBool>,
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
    notes: Vec<String>,
    pages: OwnPages,
}

impl Service {
    /// Serves clients of the bandwidth lock and of dynamic budgets, where an engine's plan has
    /// them, and the transfers of its time table. Drop it before the engine.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn of(engine: &dyn Engine, options: ServiceOptions) -> Result<Option<Self>, LinuxError> {
        let Some(served) = engine.served() else { return Ok(None) };
        let Some(serving) = options.serving(served.policy) else { return Ok(None) };
        Self::start(Table::new(served.object, served.events, serving)?, options, served.priority)
            .map(Some)
    }

    /// Opens the socket and serves. The caller holds the [`crate::Instance`], so a socket that is
    /// found at this path is left over.
    fn start(mut table: Table, options: ServiceOptions, priority: i32) -> Result<Self, LinuxError> {
        let mut notes = Vec::new();
        let door = Door::open(&options.socket, &options.group)?;
        if door.group.is_none() && !options.group.is_empty() {
            notes.push(format!(
                "there is no group `{}`: only root may be a client (groupadd --system {})",
                options.group, options.group
            ));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let board = Board::new(&options.slots);
        let changes = options
            .slots
            .slots
            .iter()
            .any(|s| s.core.is_some())
            .then(Changes::begin)
            .transpose()?;
        let shared = Arc::new(Mutex::new(Shared { board, ..Shared::default() }));
        let seen = Arc::clone(&shared);
        let (own, pages) = pages(&mut table, &options.silent)?;
        let mut desk = Desk {
            table,
            door,
            connections: Vec::new(),
            next_slot: 0,
            shared: seen,
            changes,
            own,
            returned: Returned::default(),
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("solocore/lock".to_owned())
            .spawn(move || {
                if priority > 0 {
                    // Refused: then clients wait a little longer while helpers run.
                    let _ = Scheduling::fifo(priority).apply();
                }
                while !stopped.load(Ordering::SeqCst) {
                    desk.turn();
                }
            })
            .map_err(|e| {
                LinuxError::of_io(
                    "a thread is refused",
                    &e,
                    "raise the limit of threads (ulimit -u)",
                )
            })?;
        Ok(Self { stop, shared, thread: Some(thread), notes, pages })
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Pages of the tasks for which solocore signals.
    pub(crate) fn pages(&self) -> &OwnPages {
        &self.pages
    }

    /// Limits of the service on this machine, for the user.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Clients that are attached now.
    pub fn clients(&self) -> Vec<RunClient> {
        self.lock().clients.clone()
    }

    /// Counts of the time table's transfers so far, with the last few of each.
    pub(crate) fn transfers_seen(&self) -> Vec<RunTransfer> {
        self.lock().board.seen()
    }

    /// Counts of the time table's transfers so far, with all that are kept.
    pub fn transfers(&self) -> Vec<RunTransfer> {
        self.lock().board.recorded()
    }

    /// Counts of the lock so far, by CPU.
    pub fn cores(&self) -> Vec<LockCounts> {
        self.lock().cores.clone()
    }

    /// Messages since the last call, for the log.
    pub fn messages(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().messages)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection, with or without a page.
struct Connection {
    socket: OwnedFd,
    uid: u32,
    since: Instant,
    held: Option<Held>,
}

/// A page and its owner.
struct Held {
    slot: u32,
    owner: Owner,
    page: Page,
    pid: u32,
    uid: u32,
    end: OwnedFd,
    /// Change of the thread's affinity, with the one that it had before.
    bound: Option<ThreadChange>,
    /// Last section that was reported as held for too long.
    told: Option<u32>,
}

/// State that only the thread uses.
struct Desk {
    table: Table,
    door: Door,
    connections: Vec<Connection>,
    next_slot: u32,
    shared: Arc<Mutex<Shared>>,
    /// Threads that were bound; their affinity is restored when this is dropped.
    changes: Option<Changes>,
    own: Vec<Own>,
    returned: Returned,
}

impl Desk {
    /// Waits for an event, and handles it.
    fn turn(&mut self) {
        let open = self.board(|b| b.is_open());
        let mut watched = if open { vec![self.door.listener.as_fd()] } else { Vec::new() };
        for c in &self.connections {
            watched.push(c.socket.as_fd());
            if let Some(held) = &c.held {
                watched.push(held.end.as_fd());
            }
        }
        seqpacket::wait(&watched, LOOK);
        let mut messages = Vec::new();
        // A client that connects before the first release waits for its answer.
        let room = if open { CONNECTIONS.all.saturating_sub(self.connections.len()) } else { 0 };
        for (socket, uid) in self.door.waiting(room) {
            // A client that connects and asks for nothing must not keep others out.
            let of_user = self.connections.iter().filter(|c| c.uid == uid).count();
            if CONNECTIONS.allow(uid, of_user, self.connections.len()) {
                self.connections.push(Connection {
                    socket,
                    uid,
                    since: Instant::now(),
                    held: None,
                });
            }
        }
        for mut connection in std::mem::take(&mut self.connections) {
            match self.serve(&mut connection, &mut messages) {
                Ok(true) => self.connections.push(connection),
                Ok(false) => self.leave(connection, &mut messages),
                Err(e) => {
                    messages.push(e.to_string());
                    self.leave(connection, &mut messages);
                }
            }
        }
        let cores = self.table.cores();
        let clients = self.look(&cores, &mut messages);
        let mut shared = self.shared.lock().unwrap_or_else(|e| e.into_inner());
        shared.clients = clients;
        shared.cores = cores;
        said::leave(&mut shared.messages, messages);
        shared.board.passed(tasks::monotonic_ns());
    }

    fn board<T>(&self, what: impl FnOnce(&mut Board) -> T) -> T {
        what(&mut self.shared.lock().unwrap_or_else(|e| e.into_inner()).board)
    }

    fn leave(&mut self, connection: Connection, messages: &mut Vec<String>) {
        let Some(held) = connection.held else { return };
        if let Some(change) = held.bound.as_ref().filter(|_| lives(held.pid, held.owner)) {
            // The old affinity is restored, unless another program has bound the thread since.
            let _ = change.undo(held.owner.number);
        }
        if let Some(number) = held.owner.slot {
            self.board(|b| {
                b.look(number, tasks::monotonic_ns(), |at| held.page.at(at));
                b.detach(number);
            });
        }
        let own = self.own.iter().find(|o| o.task.is_some() && o.task == held.owner.task);
        let back = self.table.dismiss(held.slot, held.owner).and_then(|()| {
            own.and_then(|o| o.task.map(|task| (task, o.slot)))
                .map_or(Ok(()), |(task, slot)| self.table.signalled_by(task, slot))
        });
        if let Err(e) = back {
            messages.push(e.to_string());
        }
        self.returned.put(held.uid, held.page);
    }

    /// Serves a connection. Returns whether it stays.
    fn serve(
        &mut self,
        connection: &mut Connection,
        messages: &mut Vec<String>,
    ) -> Result<bool, LinuxError> {
        let mut buffer = [0u8; REQUEST_BYTES + 1];
        let got = match seqpacket::receive(&connection.socket, &mut buffer) {
            Ok(0) => return Ok(false),
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Ok(match &connection.held {
                    None => connection.since.elapsed() < PATIENCE,
                    Some(held) => lives(held.pid, held.owner),
                });
            }
            Err(_) => return Ok(false),
        };
        if connection.held.is_some() {
            // One page for each connection.
            return Ok(false);
        }
        let (verdict, held) = match self.admit(connection, &buffer[..got])? {
            Ok(mut held) => {
                self.bind(&mut held, messages);
                (Ok(held.slot), Some(held))
            }
            Err(refusal) => (Err(refusal), None),
        };
        let limit = held
            .as_ref()
            .map_or(0, |h| if h.owner.endless { 0 } else { self.table.serving.max_hold_ns });
        let descriptor = held.as_ref().map(|h| h.page.descriptor());
        let sent =
            seqpacket::send(&connection.socket, answer(verdict, limit).as_bytes(), descriptor);
        connection.held = held;
        Ok(connection.held.is_some() && sent.is_ok())
    }

    /// The owner and the slot of a process that asks, if it is allowed and a slot is free.
    fn admit(
        &mut self,
        connection: &Connection,
        message: &[u8],
    ) -> Result<Result<Held, Refusal>, LinuxError> {
        let (peer, request) = match self.door.asked(&connection.socket, message) {
            Ok(asked) => asked,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (task, transfer) = match self.named(&request) {
            Ok(named) => named,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let number = if request.scope == Scope::Program { peer.pid } else { request.thread };
        let (end, started) = match Door::thread(&connection.socket, &peer, number) {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // Whole programs of root hold the lock for as long as they run: this is their purpose.
        let endless = peer.uid == 0 && request.scope == Scope::Program;
        let owner = Owner { scope: request.scope, number, started, endless, task, slot: transfer };
        let Some(slot) = self.free_slot(&peer, owner) else { return Ok(Err(Refusal::NoRoom)) };
        let page = self.returned.take(peer.uid)?;
        self.table.admit(slot, owner, &page)?;
        if let Some(number) = transfer
            && let Some(slots) = self.board(|b| b.attach(number, tasks::monotonic_ns()))
        {
            page.fill(&slots).inspect_err(|_| self.board(|b| b.detach(number)))?;
        }
        Ok(Ok(Held {
            slot,
            owner,
            page,
            pid: peer.pid,
            uid: peer.uid,
            end,
            bound: None,
            told: None,
        }))
    }

    /// Binds a device's transfer to the I/O core. The caller has checked that the thread belongs to
    /// the client, and that its user is allowed.
    fn bind(&mut self, held: &mut Held, messages: &mut Vec<String>) {
        let core = held.owner.slot.and_then(|n| self.board(|b| b.slot(n)?.core));
        let (Some(core), Some(changes)) = (core, &mut self.changes) else { return };
        let (tid, start) = (held.owner.number, held.owner.started);
        let made = tasks::affinity_of(tid).and_then(|old| {
            let change = ThreadChange { tid, start, what: What::Cpus(old.clone(), vec![core]) };
            if old != [core] {
                changes.change(&change)?;
                held.bound = Some(change);
            }
            Ok(())
        });
        if let Err(e) = made {
            messages.push(format!(
                "thread {tid} of process {} moves data for the time table, and cannot be bound to \
                    the I/O core, CPU {core}: {e}",
                held.pid
            ));
        }
    }

    /// Numbers of the task and of the transfer that a request names.
    fn named(&self, request: &Request) -> Result<(Option<u32>, Option<u32>), Refusal> {
        if request.scope == Scope::Slot {
            let number = self.board(|b| b.free(&request.task)).ok_or(Refusal::NoTask)?;
            return Ok((None, Some(number)));
        }
        if self.table.serving.slots_only {
            return Err(Refusal::NotServed);
        }
        Ok((self.task(&request.task)?, None))
    }

    /// Number of a named task that has no client yet; `None` if the name is empty.
    fn task(&self, name: &str) -> Result<Option<u32>, Refusal> {
        if name.is_empty() {
            return Ok(None);
        }
        let number = self
            .table
            .serving
            .tasks
            .iter()
            .position(|t| t == name)
            .and_then(|at| u32::try_from(at).ok());
        let taken =
            self.connections.iter().filter_map(|c| c.held.as_ref()).any(|h| h.owner.task == number);
        if number.is_none() || taken { Err(Refusal::NoTask) } else { Ok(number) }
    }

    /// A free slot; the slots that were returned last are taken last. `None` for an owner with a
    /// slot, and for a user at the limit.
    fn free_slot(&mut self, peer: &Peer, owner: Owner) -> Option<u32> {
        let held = || self.connections.iter().filter_map(|c| c.held.as_ref());
        let of_user = held().filter(|h| h.uid == peer.uid).count();
        let twice = held().any(|h| {
            (h.owner.scope == Scope::Program) == (owner.scope == Scope::Program)
                && h.owner.number == owner.number
        });
        if twice || !OF_SLOTS.allow(peer.uid, of_user, held().count() + self.own.len()) {
            return None;
        }
        let free = |slot: &u32| {
            !held().any(|h| h.slot == *slot) && !self.own.iter().any(|o| o.slot == *slot)
        };
        let slot = (0..SLOTS).map(|i| (self.next_slot + i) % SLOTS).find(free)?;
        self.next_slot = (slot + 1) % SLOTS;
        Some(slot)
    }

    /// The clients as they are now. Reports each section once that was held for too long.
    fn look(&mut self, cores: &[LockCounts], messages: &mut Vec<String>) -> Vec<RunClient> {
        let (table, limit) = (&self.table, self.table.serving.max_hold_ns);
        let shared = Arc::clone(&self.shared);
        let of = |held: &mut Held| {
            let (sections, depth) = held.page.sections();
            let (jobs, in_job) = held.page.jobs();
            let transfer = held.owner.slot.and_then(|n| {
                // First the time, then the page: a slot that has ended by then stands there as
                // begun, if it was.
                let now = tasks::monotonic_ns();
                let board = &mut shared.lock().unwrap_or_else(|e| e.into_inner()).board;
                let words = board.look(n, now, |at| held.page.at(at));
                let name = board.slot(n)?.name.clone();
                Some(RunClientTransfer { name, slots: words.begun, inside: words.inside })
            });
            let task = held.owner.task.and_then(|t| table.serving.tasks.get(t as usize).cloned());
            let name =
                fs::read_to_string(format!("/proc/{}/task/{}/comm", held.pid, held.owner.number));
            let name = printable(name.unwrap_or_default().trim_end());
            let cut = table.cut(held.slot);
            if cut.is_some() && cut != held.told {
                held.told = cut;
                messages.push(format!(
                    "{name} (process {}, thread {}) held the bandwidth lock for more than {} ms; \
                        the thread's lock has no effect until its next section",
                    held.pid,
                    held.owner.number,
                    limit / 1_000_000
                ));
            }
            RunClient {
                pid: held.pid,
                thread: held.owner.number,
                uid: held.uid,
                name,
                scope: held.owner.scope.name().to_owned(),
                sections,
                depth,
                task,
                jobs,
                in_job,
                cpu: cores.iter().find(|c| c.slot == Some(held.slot)).map(|c| c.cpu),
                cut: depth > 0 && cut == Some(sections),
                transfer,
            }
        };
        self.connections.iter_mut().filter_map(|c| c.held.as_mut()).map(of).collect()
    }
}

fn lives(pid: u32, owner: Owner) -> bool {
    start_of(pid, owner.number) == Some(owner.started)
}

#[cfg(test)]
mod tests;
