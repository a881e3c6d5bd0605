//! Moving a running program to other colours: the side that asks.
//!
//! Problem: the process that started the program serves it, and another one wants other colours for
//! it. Rule: the address of the server is in the environment of each process of the program; the
//! asker connects there, and waits until every process has answered. Source: maracas IV-D
//! (migration to pages of other colours). Does not cover: programs that were not started in
//! colours: nothing in them can move their pages.

use crate::coloured::SPACE;
use crate::error::SpaceError;
use crate::socket::{connect, receive, send, wait};
use crate::wire::{Packet, kind};
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::time::{Duration, Instant};

/// Result of moving a process.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Moved {
    /// Its number.
    pub pid: u32,
    /// Pages that were moved.
    pub pages: u32,
    /// Pages that could not be moved: a device may be writing to them.
    pub stuck: u64,
    /// Time of taking out, copying and putting back, in nanoseconds.
    pub move_ns: u64,
    /// The same time with the search for pages of the new colours, in nanoseconds.
    pub all_ns: u64,
    /// Its private pages after the move.
    pub resident: u64,
    /// Private pages in wrong colours.
    pub wrong: u64,
}

/// Server of a program that was started in colours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Server {
    name: String,
}

impl Server {
    /// By the program's variable of the environment: `NAME:PATH`.
    #[must_use]
    pub fn of_variable(value: &str) -> Option<Self> {
        let name = value.split(':').next().filter(|name| !name.is_empty())?;
        Some(Self { name: name.to_owned() })
    }

    /// The server of a process of the program.
    ///
    /// # Errors
    /// There is no such process, or it was not started in colours.
    pub fn of_process(pid: u32) -> Result<Self, SpaceError> {
        let path = format!("/proc/{pid}/environ");
        let environment = std::fs::read(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                SpaceError::Input(format!("there is no process {pid}; check the number"))
            }
            // Root is refused as well: where the kernel keeps capabilities or namespaces apart.
            _ if rustix::process::geteuid().is_root() => SpaceError::of_io(
                &path,
                &e,
                "it belongs to the system or to another container; name a program that \
                    `solocore exec --colors` started",
            ),
            _ => SpaceError::of_io(&path, &e, "run it as root"),
        })?;
        let prefix = format!("{SPACE}=");
        let mut entries = environment.split(|&b| b == 0);
        let found = entries.find_map(|entry| {
            Self::of_variable(std::str::from_utf8(entry).ok()?.strip_prefix(&prefix)?)
        });
        found.ok_or_else(|| {
            SpaceError::Machine(format!(
                "process {pid} was not started in colours, and nothing in it can move its pages; \
                    start it with solocore exec --colors"
            ))
        })
    }

    /// Moves its program to other colours. `who` names the program in messages; `stop` ends the
    /// wait for its answers.
    ///
    /// # Errors
    /// The server has ended, it does not answer, or the colours do not exist.
    pub fn recolour(
        &self,
        who: &str,
        colours: &str,
        banks: Option<&str>,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Moved>, SpaceError> {
        /// Time between two looks at `stop`.
        const LOOK: Duration = Duration::from_millis(50);
        let gone = "the solocore exec that started it has ended; start the program again";
        let socket = connect(&self.name).map_err(|e| SpaceError::of_io(who, &e, gone))?;
        send(&socket, &Packet::new(kind::ASK, &format!("{colours}/{}", banks.unwrap_or_default())));
        let (begin, mut moved) = (Instant::now(), Vec::new());
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            if !wait(&mut [PollFd::new(&socket, PollFlags::IN)], left.min(LOOK)) {
                if !left.is_zero() && !stop() {
                    continue;
                }
                return Err(SpaceError::Machine(format!("{who} does not answer; is it stopped?")));
            }
            let Some(packet) = receive(&socket) else {
                return Err(SpaceError::Machine(format!("{who}: {gone}")));
            };
            match packet.kind {
                kind::MOVED => moved.push(moved_of(&packet)),
                kind::DONE => return Ok(moved),
                kind::REFUSED => {
                    return Err(match packet.text.split_at_checked(1) {
                        Some(("2", why)) => SpaceError::Input(why.to_owned()),
                        Some((_, why)) => SpaceError::Machine(why.to_owned()),
                        None => SpaceError::Machine(format!("{who}: refused; start it again")),
                    });
                }
                _ => {}
            }
        }
    }
}

/// Moves a program that was started in colours, found by any of its processes, to other colours.
/// `stop` ends the wait for its answers.
///
/// # Errors
/// As [`Server::of_process`] and [`Server::recolour`].
pub fn recolour(
    pid: u32,
    colours: &str,
    banks: Option<&str>,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Moved>, SpaceError> {
    Server::of_process(pid)?.recolour(&format!("process {pid}"), colours, banks, limit, stop)
}

fn moved_of(packet: &Packet) -> Moved {
    let mut numbers = packet.text.split(' ').map(|n| n.parse::<u64>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    Moved {
        pid: u32::try_from(next()).unwrap_or(0),
        resident: next(),
        wrong: next(),
        pages: packet.pages,
        stuck: packet.stuck,
        move_ns: packet.move_ns,
        all_ns: packet.all_ns,
    }
}
