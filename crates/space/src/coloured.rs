//! Programs in their colours: solocore's side.
//!
//! Problem: the program runs unmodified, so a library in it (crates/space/preload) moves its pages.
//! Another process must give it the library and the colours, check its pages from outside, and pass
//! on changes, for which [`crate::recolour`] asks. Rule: library and colours are files in memory of
//! the process that starts the program, which stays until the program ends. Every process of the
//! program connects, and sends a message when its pages are in their colours, and before it ends;
//! its pages are then counted here. Changes are numbered: an answer to one that is no longer asked
//! for counts for no later one. Source: maracas IV-D (migration to pages of other colours). Does
//! not cover: processes that are killed: their pages are not checked at the end.

use crate::audit::{Audit, Look, SharedFile};
use crate::error::SpaceError;
use crate::lend::Borrower;
use crate::locked::{Found, Lockdown, Wanted};
use crate::map::{Choice, Map, parse_list};
use crate::socket::{listen, peer_of, receive, send, wait};
use crate::sys::memory_file;
use crate::wire::{self, Packet, kind};
use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketFlags;
use rustix::process::{Pid, PidfdFlags};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The library that is preloaded; empty where there is none for the CPU.
pub(crate) const LIBRARY: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/libsolocore-colours.so"));
/// The variable of a program's environment that has the address of its server.
pub const SPACE: &str = "SOLOCORE_SPACE";
/// The variable that has a socket and a number of pages, for a process that is started before its
/// release (`preload/hold.c`).
pub const HOLD: &str = "SOLOCORE_HOLD";
/// Bytes of a task's name with its end (`SC_TASK_BYTES`).
const LONGEST_TASK: usize = 64;
/// Most notes of a program.
const MOST_NOTES: usize = 20;
/// Most processes that wait to be connected (crates/space/src/socket.rs).
const MOST_WAITING: usize = 128;
/// Memory that the library leaves to other programs when it searches for frames, bytes.
const RESERVE: u64 = 512 << 20;

/// A process of the program that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its number.
    pub pid: u32,
    /// Its pages just before its end.
    pub audit: Audit,
    /// Files of shared memory that it had then.
    pub shared: Vec<SharedFile>,
    /// Pages that the kernel had moved to other frames, and that were moved back.
    pub moved_back: u32,
}

/// Events so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Processes that were coloured.
    pub coloured: BTreeSet<u32>,
    /// Starts that no release waits for: children, and programs that a process becomes, too.
    pub unheld: u64,
    /// Processes that ended by themselves.
    pub ended: Vec<Ended>,
    /// Processes that ended because their colours had no memory left, with the reason.
    pub failed: Vec<(u32, String)>,
    /// Programs that were started and cannot be coloured, with the reason.
    pub uncoloured: Vec<String>,
    /// Frames that a reserve gave for them.
    pub borrowed: u64,
    /// Message queues that are not in their colours, with the reason; the first few.
    pub notes: BTreeSet<String>,
    /// Locked pages of processes just before their ends.
    pub locked: Vec<Found>,
}

/// Serves the processes of one program.
#[derive(Debug)]
pub struct Coloured {
    map: Map,
    choice: Choice,
    prefill: u64,
    listener: OwnedFd,
    config: File,
    library: File,
    name: String,
    peers: Vec<Peer>,
    /// Readable when the program's first process has ended.
    child: Option<OwnedFd>,
    asking: Option<Asking>,
    /// Number of requests to move to other colours.
    requests: u64,
    reserve: Borrower,
    lockdown: Option<Lockdown>,
    /// Events so far.
    pub events: Events,
}

#[derive(Debug)]
struct Peer {
    socket: OwnedFd,
    pid: u32,
    /// Has it sent its hello? Then it is a process of the program.
    coloured: bool,
    /// Are the pages that it began with in its frames? Before, they are wrong.
    placed: bool,
    /// Requests to move to other colours when it connected: it reads the colours after that.
    requests: u64,
}

/// A `solocore recolor` that waits.
#[derive(Debug)]
struct Asking {
    socket: RawFd,
    request: u64,
    waiting: Vec<u32>,
}

impl Coloured {
    /// A server for a program on these colours and banks, with `prefill` bytes of them ready before
    /// it starts. It runs as this task of a plan, if there is one, and may have buffers of it.
    ///
    /// # Errors
    /// The machine has no files in memory or no sockets for it.
    pub fn new(
        map: Map,
        choice: Choice,
        prefill: u64,
        task: Option<&str>,
    ) -> Result<Self, SpaceError> {
        let prefill = prefill / 4096;
        let mut reserve = Borrower::default();
        let config = memory_file(
            c"solocore-colours",
            &wire::config(&choice, prefill, RESERVE, reserve.is_served()),
        )?;
        let library = memory_file(c"solocore-preload", LIBRARY)?;
        let name = next_name(task);
        let listener = listen(&name)?;
        let (peers, events) = (Vec::new(), Events::default());
        Ok(Self {
            map,
            choice,
            prefill,
            listener,
            config,
            library,
            name,
            peers,
            child: None,
            asking: None,
            requests: 0,
            reserve,
            lockdown: None,
            events,
        })
    }

    /// The same server; some pages of the program get frames of colours that its other pages do not
    /// get. All of these colours are among those of the program.
    ///
    /// # Errors
    /// The file of its configuration cannot be written.
    pub fn locking(mut self, wanted: Wanted) -> Result<Self, SpaceError> {
        let lends = self.reserve.is_served();
        let mut config = wire::config(&wanted.ordinary, self.prefill, RESERVE, lends);
        let lockdown = Lockdown::new(wanted);
        let (mask, rest) = lockdown.words();
        wire::lock(&mut config, mask, rest);
        self.write(&config, 0)?;
        self.lockdown = Some(lockdown);
        Ok(self)
    }

    /// Writes to the file that the program's processes read.
    fn write(&self, bytes: &[u8], at: u64) -> Result<(), SpaceError> {
        let written = self.config.write_all_at(bytes, at);
        written.map_err(|e| SpaceError::of_io("a file in memory", &e, "free some memory"))
    }

    /// The locked pages of the process that has them now.
    pub fn locked(&self) -> Option<Found> {
        self.lockdown.as_ref()?.look(None)
    }

    /// The locked pages of a process that begins, behind the configuration; returns their number.
    fn lock_pages(&mut self, fd: RawFd, pid: u32) -> u32 {
        let locked = self.lockdown.as_mut().map_or_else(Vec::new, |l| l.begin(fd, pid));
        match self.write(&wire::locked(&locked), wire::CONFIG as u64) {
            Ok(()) => u32::try_from(locked.len()).unwrap_or(0),
            Err(_) => 0,
        }
    }

    /// Variables for the program's environment; `preload` is its LD_PRELOAD so far.
    pub fn environment(&self, preload: Option<OsString>) -> [(&'static str, OsString); 2] {
        let path = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let mut list = OsString::from(path(&self.library));
        if let Some(others) = preload.filter(|p| !p.is_empty()) {
            list.push(":");
            list.push(others);
        }
        [("LD_PRELOAD", list), (SPACE, format!("{}:{}", self.name, path(&self.config)).into())]
    }

    /// The present choice.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The pages of each process that runs now in its colours. They may change meanwhile: a page
    /// that is wrong once may be on its way.
    pub fn running(&self) -> Vec<(u32, Look)> {
        let of = |p: &Peer| Look::at(p.pid, &self.choice).ok().map(|look| (p.pid, look));
        self.peers.iter().filter(|p| p.placed).filter_map(of).collect()
    }

    /// [`Coloured::serve`] returns when this process ends, too.
    pub fn watch(&mut self, pid: u32) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        self.child = pid.and_then(|p| rustix::process::pidfd_open(p, PidfdFlags::empty()).ok());
    }

    /// Answers packets within this time; returns sooner after an answer.
    pub fn serve(&mut self, limit: Duration) {
        let peers = self.peers.iter().map(|p| p.socket.as_fd());
        let mut polled: Vec<PollFd> = std::iter::once(self.listener.as_fd())
            .chain(peers)
            .chain(self.child.as_ref().map(AsFd::as_fd))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        if !wait(&mut polled, limit) {
            return;
        }
        let ready = |fd: &PollFd| !fd.revents().is_empty();
        let connects = ready(&polled[0]);
        let readable = self.peers.iter().zip(&polled[1..]).filter(|(_, fd)| ready(fd));
        let readable: Vec<RawFd> = readable.map(|(p, _)| p.socket.as_raw_fd()).collect();
        for fd in readable {
            self.serve_peer(fd);
        }
        if connects {
            self.accept_waiting();
        }
    }

    fn accept_waiting(&mut self) {
        for _ in 0..MOST_WAITING {
            if !wait(&mut [PollFd::new(&self.listener, PollFlags::IN)], Duration::ZERO) {
                return;
            }
            self.accept();
        }
    }

    fn accept(&mut self) {
        let Ok(socket) = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) else {
            return;
        };
        let me = rustix::process::geteuid().as_raw();
        // Any process may connect to the name; only this user and root are served.
        if let Some((pid, user)) = peer_of(&socket)
            && (user == me || user == 0)
        {
            self.peers.push(Peer {
                socket,
                pid,
                coloured: false,
                placed: false,
                requests: self.requests,
            });
        }
    }

    /// A packet to a peer, if it is still there.
    fn tell(&self, fd: RawFd, packet: &Packet) {
        if let Some(peer) = self.peers.iter().find(|p| p.socket.as_raw_fd() == fd) {
            send(&peer.socket, packet);
        }
    }

    fn serve_peer(&mut self, fd: RawFd) {
        let Some(at) = self.peers.iter().position(|p| p.socket.as_raw_fd() == fd) else { return };
        let Some(packet) = receive(&self.peers[at].socket) else {
            let gone = self.peers.swap_remove(at);
            self.lockdown.iter_mut().for_each(|l| l.gone(fd));
            self.answered(gone.pid);
            if self.asking.as_ref().is_some_and(|a| a.socket == fd) {
                self.asking = None;
            }
            return;
        };
        let pid = self.peers[at].pid;
        match packet.kind {
            kind::HELLO => {
                self.peers[at].coloured = true;
                self.events.coloured.insert(pid);
                self.events.unheld += u64::from(packet.pages == 0);
                let pages = self.lock_pages(fd, pid);
                self.tell(fd, &Packet { pages, ..Packet::new(kind::GO, "") });
                self.catch_up(at);
            }
            kind::PLACED => self.peers[at].placed = true,
            kind::EXIT => {
                if let Ok(Look { audit, shared }) = Look::at(pid, &self.choice) {
                    let (moved_back, wrong) = (packet.pages, audit.anonymous.wrong);
                    self.events.ended.push(Ended { pid, audit, shared, moved_back });
                    let found = self.lockdown.as_mut();
                    let found = found.and_then(|l| l.end(fd, packet.all_ns, wrong));
                    self.events.locked.extend(found);
                }
                self.tell(fd, &Packet::new(kind::GO, ""));
            }
            kind::NEED => {
                let cpu = u32::try_from(packet.stuck).unwrap_or(u32::MAX);
                let given = self.reserve.borrow(&self.choice, packet.pages.into(), cpu);
                self.events.borrowed += given.unwrap_or(0);
                let pages = u32::try_from(given.unwrap_or(0)).unwrap_or(u32::MAX);
                self.tell(fd, &Packet { kind: kind::GO, pages, ..packet });
            }
            kind::FAILED => self.events.failed.push((pid, packet.text)),
            kind::UNCOLOURED => self.events.uncoloured.push(packet.text),
            kind::NOTE if self.events.notes.len() < MOST_NOTES => {
                self.events.notes.insert(packet.text);
            }
            kind::MAPPED => self.lockdown.iter_mut().for_each(|l| l.mapped(fd, &packet)),
            kind::RECOLOURED => self.moved(fd, pid, packet),
            kind::ASK => {
                if let Err(error) = self.ask(fd, &packet.text) {
                    let code = if matches!(error, SpaceError::Input(_)) { 2 } else { 3 };
                    self.tell(fd, &Packet::new(kind::REFUSED, &format!("{code}{error}")));
                }
            }
            _ => {}
        }
    }

    /// Asks a process to move that may have read the colours before the newest request.
    fn catch_up(&mut self, at: usize) {
        let request = self.requests;
        let Some(peer) = self.peers.get(at).filter(|p| p.requests < request) else { return };
        send(&peer.socket, &Packet { request, ..Packet::new(kind::RECOLOUR, "") });
        if let Some(asking) = &mut self.asking {
            asking.waiting.push(peer.pid);
        }
    }

    /// Starts to move every process to other colours.
    fn ask(&mut self, asker: RawFd, text: &str) -> Result<(), SpaceError> {
        if self.asking.is_some() {
            return Err(SpaceError::Machine(
                "it is being recoloured already; wait for that".into(),
            ));
        }
        if self.lockdown.is_some() {
            return Err(SpaceError::Machine(
                "a plan locks its pages in colours of their own; end that run first".into(),
            ));
        }
        let (colours, banks) = text.split_once('/').unwrap_or((text, ""));
        let list = |option: &str, text: &str| match text {
            "" => Ok(None),
            text => {
                parse_list(text).map(Some).map_err(|e| SpaceError::Input(format!("{option}: {e}")))
            }
        };
        let (colours, banks) = (list("--colors", colours)?, list("--banks", banks)?);
        let choice = Choice::new(&self.map, colours.as_deref(), banks.as_deref())?;
        let config = wire::config(&choice, self.prefill, RESERVE, self.reserve.is_served());
        self.write(&config, 0)?;
        // A process that connects from here on reads the new colours.
        self.accept_waiting();
        self.choice = choice;
        self.requests += 1;
        let request = self.requests;
        let coloured = || self.peers.iter().filter(|p| p.coloured);
        let packet = Packet { request, ..Packet::new(kind::RECOLOUR, "") };
        coloured().for_each(|p| send(&p.socket, &packet));
        let waiting = coloured().map(|p| p.pid).collect();
        self.asking = Some(Asking { socket: asker, request, waiting });
        self.answered(0);
        Ok(())
    }

    /// Counts the pages of a process that has moved and waits for an answer. Those of an earlier
    /// request may not be in the present colours yet.
    fn moved(&mut self, fd: RawFd, pid: u32, mut packet: Packet) {
        let asking = self.asking.as_ref().filter(|a| a.request == packet.request);
        let Some(asker) = asking.map(|a| a.socket) else {
            return self.tell(fd, &Packet::new(kind::GO, ""));
        };
        let audit = Audit::of(pid, &self.choice).unwrap_or_default();
        self.tell(fd, &Packet::new(kind::GO, ""));
        packet.kind = kind::MOVED;
        packet.text = format!("{pid} {} {}", audit.anonymous.resident, audit.anonymous.wrong);
        self.tell(asker, &packet);
        self.answered(pid);
    }

    /// Counts one answer fewer to wait for.
    fn answered(&mut self, pid: u32) {
        let Some(asking) = &mut self.asking else { return };
        asking.waiting.retain(|&p| p != pid);
        if let Some(done) = self.asking.take_if(|a| a.waiting.is_empty()) {
            self.tell(done.socket, &Packet::new(kind::DONE, ""));
        }
    }
}

/// A name for a socket: the first of a process has its number alone. A task's follows, by which
/// client/c/solocore_buffer.c knows it; the colon ends the name in the environment, so a task with
/// one is not named.
fn next_name(task: Option<&str>) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let me = std::process::id();
    let name = match NEXT.fetch_add(1, Ordering::Relaxed) {
        0 => format!("solocore-space-{me}"),
        n => format!("solocore-space-{me}-{n}"),
    };
    match task.filter(|t| t.len() < LONGEST_TASK && !t.contains(':')) {
        Some(task) => format!("{name}/{task}"),
        None => name,
    }
}

/// Counts of all processes that ended.
pub fn total(ended: &[Ended]) -> Audit {
    let mut sum = Audit::default();
    for e in ended {
        for (to, from) in [
            (&mut sum.anonymous, e.audit.anonymous),
            (&mut sum.files, e.audit.files),
            (&mut sum.shared, e.audit.shared),
            (&mut sum.kernel, e.audit.kernel),
        ] {
            to.resident += from.resident;
            to.wrong += from.wrong;
        }
    }
    sum
}

#[cfg(test)]
#[path = "coloured_tests.rs"]
mod tests;
