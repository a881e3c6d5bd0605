//! Frames of a reserve for programs of its colours.
//!
//! Problem: while a reserve holds every frame of its colours, `solocore exec --colors` finds none.
//! Rule: it asks the reserve over a socket, for a number of frames and a CPU. The reserve gives
//! back that many on this CPU. The CPU's short list of free frames hands out the latest first. The
//! reserve prefers frames of the zone that programs get memory of first, and frames whose neighbour
//! it keeps: these stay single, and the kernel hands out single ones before it breaks up blocks.
//! The library of the program stays on this CPU, takes as much memory, keeps the frames of its
//! colours, and asks again for the missing frames. When a process of the program has ended, its
//! heir gives its frames back a few at a time, and the reserve takes them at once ([`Back`]). The
//! connection ends with the program: then the reserve looks for those that are missing. A program
//! that needs a buffer for a task of the reserve's plan gets a file in memory on the same socket
//! (client/c/solocore_buffer.h, `placed`), and its frames are kept in place until the connection
//! closes. Only root is served, and only root is believed. Does not cover: another program, or the
//! kernel, that takes a frame in between, on the same CPU. The audit counts it; the reserve takes
//! frames that become free again.

use crate::back::Back;
use crate::buffers::{NAME, Request};
use crate::error::SpaceError;
use crate::hold::Hold;
use crate::map::{Choice, PAGE};
use crate::placed::Placed;
use crate::socket::{listen, peer_of, wait};
use crate::sys::{on_cpu, on_this_cpu};
use crate::wire;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Longest wait for the reserve: it may be taking its first frames, or giving others back.
const PATIENCE: Duration = Duration::from_secs(8);
/// Connections at a time: each process of a program has one. Each buffer takes two descriptors, of
/// usually 1024; without any, the next census would fail, which ends the reserve.
const MOST: usize = 300;
/// Longest request.
const LONGEST: usize = 16 << 10;

/// The reserve's side.
#[derive(Debug)]
pub struct Lender {
    listener: OwnedFd,
    peers: Vec<Peer>,
    /// Frames of the plan's tasks; `None`: there is no plan.
    tasks: Option<BTreeMap<String, Choice>>,
    /// Frames that peers had that are gone.
    returned: u64,
    /// Frames that heirs gave back, and that are held again.
    back: u64,
}

#[derive(Debug)]
struct Peer {
    socket: OwnedFd,
    /// Its frames are free when this is dropped.
    buffer: Option<Placed>,
    /// Frames that it was given so far.
    given: u64,
    /// Pages that are free once it has gone.
    last: Option<Back>,
}

impl Lender {
    /// Listens. `tasks` may have buffers, each in frames of its own.
    ///
    /// # Errors
    /// Another reserve does.
    pub fn new(tasks: Option<BTreeMap<String, Choice>>) -> Result<Self, SpaceError> {
        Self::at(NAME, tasks)
    }

    fn at(name: &str, tasks: Option<BTreeMap<String, Choice>>) -> Result<Self, SpaceError> {
        let listener = listen(name).map_err(|_| {
            SpaceError::Machine(
                "another solocore reserve holds frames of this machine; end it first".into(),
            )
        })?;
        Ok(Self { listener, peers: Vec::new(), tasks, returned: 0, back: 0 })
    }

    /// Answers requests within this time; returns the number of frames that were given.
    pub fn serve(&mut self, limit: Duration, hold: &mut Hold) -> u64 {
        let polled = std::iter::once(self.listener.as_fd());
        let polled = polled.chain(self.peers.iter().map(|peer| peer.socket.as_fd()));
        let mut polled: Vec<_> =
            polled.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if !wait(&mut polled, limit) {
            return 0;
        }
        let events: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        let mut given = 0;
        let mut events_of_peers = events[1..].iter();
        let tasks = self.tasks.as_ref();
        let back = &mut self.back;
        self.peers.retain_mut(|peer| {
            let gave = match events_of_peers.next() {
                // It has gone, and what it asked for would be of no use to it.
                Some(events) if events.contains(PollFlags::HUP) => None,
                Some(events) if !events.is_empty() => peer.serve(tasks, hold, back),
                _ => return true,
            };
            given += gave.unwrap_or(0);
            peer.given += gave.unwrap_or(0);
            if gave.is_none() {
                // An heir was given nothing itself, but its program's frames come back with it.
                let (freed, taken) = peer.last_words(hold);
                self.returned += peer.given + freed;
                *back += taken;
            }
            gave.is_some()
        });
        if !events[0].is_empty() {
            self.accept(limit);
        }
        given
    }

    /// Takes a connection that waits; returns whether a program waits for an answer, or has gone.
    pub fn is_asked(&mut self) -> bool {
        let waits = |fd: &OwnedFd| wait(&mut [PollFd::new(fd, PollFlags::IN)], Duration::ZERO);
        if waits(&self.listener) {
            self.accept(Duration::ZERO);
        }
        self.peers.iter().any(|peer| waits(&peer.socket))
    }

    /// Frames that programs were given that have ended since the last question.
    pub fn returned(&mut self) -> u64 {
        std::mem::take(&mut self.returned)
    }

    /// Frames that programs gave back at their ends, or without having used them, and that are held
    /// again.
    pub fn back(&self) -> u64 {
        self.back
    }

    /// Takes the next connection, if it is root's and there is room for it.
    fn accept(&mut self, limit: Duration) {
        let Ok(socket) = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) else {
            // It still waits, so that the next poll would return at once.
            std::thread::sleep(limit);
            return;
        };
        if self.peers.len() < MOST && peer_of(&socket).is_some_and(|(_, user)| user == 0) {
            self.peers.push(Peer { socket, buffer: None, given: 0, last: None });
        }
    }
}

impl Peer {
    /// Answers its request; returns the number of frames that it was given. `None`: it has gone, or
    /// asks for frames that do not exist. `back` counts those that it gives back.
    fn serve(
        &mut self,
        tasks: Option<&BTreeMap<String, Choice>>,
        hold: &mut Hold,
        back: &mut u64,
    ) -> Option<u64> {
        let mut bytes = vec![0; LONGEST];
        let (length, _) = rustix::net::recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT).ok()?;
        let message = bytes.get(..length)?;
        if let Some(request) = Request::decode(message) {
            // The frames of the one that it had go back first.
            self.buffer = None;
            self.buffer = on_this_cpu(|| request.answer(&self.socket, tasks, hold)).ok()?;
            return Some(self.buffer.as_ref().map_or(0, |b| b.bytes() as u64 / PAGE));
        }
        if let Some(free) = Back::decode(message) {
            if free.last {
                self.last = Some(free);
            } else {
                let taken = take_back(free, hold);
                *back += taken;
                self.tell(taken)?;
            }
            return Some(0);
        }
        let (frames, cpu, choice) = decode(message)?;
        let gave = on_cpu(cpu, || hold.give(frames, &|frame| choice.allows(frame)));
        self.tell(gave)?;
        Some(gave)
    }

    /// Answers with a number; `None`: it has gone, or does not read its answers. That must not
    /// stop the reserve.
    fn tell(&self, number: u64) -> Option<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::send(&self.socket, &number.to_ne_bytes(), flags).ok()?;
        Some(())
    }

    /// It has gone, and what it said before may wait to be read. Takes the pages that went with it;
    /// returns their number, and that of the frames that are held again.
    fn last_words(&mut self, hold: &mut Hold) -> (u64, u64) {
        let mut bytes = [0; 32];
        while let Ok((length, _)) = rustix::net::recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT)
            && length > 0
        {
            let words = Back::decode(bytes.get(..length).unwrap_or_default());
            self.last = words.filter(|free| free.last).or(self.last);
        }
        self.last.take().map_or((0, 0), |free| (free.pages, take_back(free, hold)))
    }
}

/// Takes the pages that a CPU has freed last. The reserve looks for missing frames later.
fn take_back(free: Back, hold: &mut Hold) -> u64 {
    on_cpu(free.cpu, || hold.take_back(free.pages)).unwrap_or(0)
}

/// A program's side: its connection with a reserve, made when it is needed.
#[derive(Debug, Default)]
pub struct Borrower {
    socket: Option<OwnedFd>,
}

impl Borrower {
    /// Whether a reserve is there.
    pub fn is_served(&mut self) -> bool {
        self.connect();
        self.socket.is_some()
    }

    /// Asks for frames of a choice, to be free on this CPU. Returns their number; `None`: no
    /// reserve answers.
    pub fn borrow(&mut self, choice: &Choice, frames: u64, cpu: u32) -> Option<u64> {
        self.connect();
        // Kept only after an answer: a late one would be taken for the next.
        let socket = self.socket.take()?;
        let request = encode(choice, frames, cpu);
        rustix::net::send(&socket, &request, SendFlags::NOSIGNAL).ok()?;
        if !wait(&mut [PollFd::new(&socket, PollFlags::IN)], PATIENCE) {
            return None;
        }
        let mut answer = [0; 8];
        let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty()).ok()?;
        self.socket = Some(socket).filter(|_| length == answer.len());
        self.socket.as_ref().map(|_| u64::from_ne_bytes(answer))
    }

    /// Connects again where the reserve has ended, or was not there before.
    fn connect(&mut self) {
        // Nobody sends unasked: something to read is the end.
        let ended =
            |socket: &OwnedFd| wait(&mut [PollFd::new(socket, PollFlags::IN)], Duration::ZERO);
        self.socket = self.socket.take().filter(|socket| !ended(socket)).or_else(connected);
    }
}

fn connected() -> Option<OwnedFd> {
    let socket = crate::socket::connect(NAME).ok()?;
    // Any program may listen at the name; only root is believed.
    peer_of(&socket).is_some_and(|(_, user)| user == 0).then_some(socket)
}

fn encode(choice: &Choice, frames: u64, cpu: u32) -> Vec<u8> {
    let mut bytes = frames.to_ne_bytes().to_vec();
    bytes.extend(cpu.to_ne_bytes());
    bytes.extend(wire::config(choice, 0, 0, false));
    bytes
}

fn decode(bytes: &[u8]) -> Option<(u64, u32, Choice)> {
    let (frames, rest) = bytes.split_at_checked(8)?;
    let (cpu, config) = rest.split_at_checked(4)?;
    let frames = u64::from_ne_bytes(frames.try_into().ok()?);
    Some((frames, u32::from_ne_bytes(cpu.try_into().ok()?), wire::choice_of(config)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;

    #[test]
    fn requests_come_back() {
        let map = Map {
            colours: (12..16).map(|b| 1 << b).collect(),
            banks: vec![1 << 17],
            slices: Vec::new(),
        };
        let choice = Choice::new(&map, Some(&[1, 9]), Some(&[0])).expect("valid");
        let bytes = encode(&choice, 77, 3);
        assert!(bytes.len() < LONGEST);
        assert_eq!(decode(&bytes), Some((77, 3, choice)));
        for cut in [0, 7, 11, 20, bytes.len() - 1] {
            assert_eq!(decode(&bytes[..cut]), None, "{cut}");
        }
    }

    /// Colours of 16.
    fn colours_of(colours: &[u32]) -> Choice {
        let map =
            Map { colours: (12..16).map(|b| 1 << b).collect(), banks: vec![], slices: Vec::new() };
        Choice::new(&map, Some(colours), None).expect("valid")
    }

    /// A reserve of four colours of 16; of these, task `video` has two; frames are shown to root
    /// only.
    fn reserve(name: &str) -> Option<(Lender, Hold)> {
        let mut hold = match Hold::new(colours_of(&[0, 1, 2, 3])) {
            Ok(hold) => hold,
            Err(SpaceError::Machine(why)) if why.contains("CAP_SYS_ADMIN") => return None,
            Err(other) => panic!("{other}"),
        };
        let pass = hold.pass(64 << 20, &|| false).expect("taken");
        let tasks = [("video".to_owned(), colours_of(&[0, 1]))].into();
        let lender = Lender::at(name, Some(tasks)).expect("nobody else listens");
        (pass.kept > 2000).then_some((lender, hold))
    }

    /// A program that asks for a buffer: its connection, the status, and the file if there is one.
    fn ask(name: &str, task: &str, bytes: u64, lender: &mut Lender, hold: &mut Hold) -> Asked {
        let socket = crate::socket::connect(name).expect("it listens");
        let request = crate::buffers::tests::request(task, bytes);
        rustix::net::send(&socket, &request, SendFlags::NOSIGNAL).expect("sent");
        let soon = Duration::from_secs(1);
        assert_eq!(lender.serve(soon, hold), 0, "it connects first");
        let given = lender.serve(soon, hold);
        let mut answer = [0; 16];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut parts = [std::io::IoSliceMut::new(&mut answer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&socket, &mut parts, &mut control, flags).expect("answered");
        let file = control.drain().find_map(|message| match message {
            rustix::net::RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        let status = u32::from_ne_bytes(answer[4..8].try_into().expect("four"));
        Asked { socket, given, status, file }
    }

    struct Asked {
        socket: OwnedFd,
        given: u64,
        status: u32,
        file: Option<OwnedFd>,
    }

    #[test]
    fn programs_get_buffers_of_the_plans_tasks() {
        let name = format!("solocore-reserve-test-{}", std::process::id());
        let Some((mut lender, mut hold)) = reserve(&name) else { return };
        let held = hold.held();
        let got = ask(&name, "video", 5 * 4096 - 1, &mut lender, &mut hold);
        assert_eq!((got.status, got.given), (0, 5));
        let file = got.file.expect("it comes with the answer");
        assert_eq!(rustix::fs::fstat(&file).map(|s| s.st_size), Ok(5 * 4096));
        assert!(hold.held() <= held - 5);
        let of = |task, bytes, lender: &mut Lender, hold: &mut Hold| {
            let asked = ask(&name, task, bytes, lender, hold);
            assert!(asked.file.is_none() && asked.given == 0, "{task}: {}", asked.given);
            asked.status
        };
        assert_eq!(of("audio", 4096, &mut lender, &mut hold), 3, "no such task");
        assert_eq!(of("video", 1 << 40, &mut lender, &mut hold), 4, "too few frames");
        assert_eq!(of("video", 0, &mut lender, &mut hold), 5, "no size");
        lender.tasks = None;
        assert_eq!(of("video", 4096, &mut lender, &mut hold), 1, "no plan");
        // The buffer lives as long as its connection.
        let buffers = |lender: &Lender| lender.peers.iter().filter(|p| p.buffer.is_some()).count();
        assert_eq!(buffers(&lender), 1);
        drop(got.socket);
        lender.serve(Duration::from_secs(1), &mut hold);
        assert_eq!(buffers(&lender), 0);
    }

    #[test]
    fn what_programs_had_is_known_to_be_free() {
        let name = format!("solocore-reserve-test-{}-back", std::process::id());
        let Some((mut lender, mut hold)) = reserve(&name) else { return };
        let mut program =
            Borrower { socket: Some(crate::socket::connect(&name).expect("it listens")) };
        let choice = colours_of(&[2, 3]);
        let held = hold.held();
        std::thread::scope(|scope| {
            let asking = scope
                .spawn(|| [program.borrow(&choice, 30, 0), program.borrow(&choice, u64::MAX, 0)]);
            while !asking.is_finished() {
                lender.serve(Duration::from_millis(50), &mut hold);
            }
            let got = asking.join().expect("it ends");
            assert_eq!(got[0], Some(30));
            assert_eq!(got[1], Some(held - hold.held() - 30), "the rest, over the same connection");
        });
        assert!(hold.frames().all(|frame| frame % 16 < 2));
        assert_eq!((lender.returned(), lender.peers.len()), (0, 1), "it still has them");
        drop(program);
        lender.serve(Duration::from_secs(1), &mut hold);
        assert_eq!((lender.returned(), lender.returned()), (held - hold.held(), 0));
    }

    /// An heir says that pages are free, and then that its last ones are free once it has gone. It
    /// fails if either is not taken. Another program on the CPU may be quicker, but not each time.
    #[test]
    fn what_heirs_give_back_is_held_again() {
        let name = format!("solocore-reserve-test-{}-heir", std::process::id());
        let Some((mut lender, mut hold)) = reserve(&name) else { return };
        let cpu = u32::try_from(rustix::thread::sched_getcpu()).expect("small");
        let soon = Duration::from_secs(1);
        let mut both = || {
            let heir = crate::socket::connect(&name).expect("it listens");
            assert_eq!(lender.serve(soon, &mut hold), 0, "it connects first");
            let say = |last: u32, hold: &mut Hold, lender: &Lender| {
                let message = crate::back::tests::message(50, cpu, last);
                on_cpu(cpu, || assert_eq!(hold.give(50, &|_| true), 50));
                rustix::net::send(&heir, &message, SendFlags::NOSIGNAL).expect("sent");
                lender.back()
            };
            let before = say(0, &mut hold, &lender);
            assert_eq!(lender.serve(soon, &mut hold), 0, "nothing was lent");
            let first = lender.back() - before;
            let mut answer = [0; 8];
            rustix::net::recv(&heir, &mut answer, RecvFlags::DONTWAIT).expect("answered");
            assert_eq!(u64::from_ne_bytes(answer), first);
            let before = say(1, &mut hold, &lender);
            drop(heir);
            lender.serve(soon, &mut hold);
            assert!(lender.peers.is_empty());
            assert_eq!(
                (lender.returned(), lender.returned()),
                (50, 0),
                "the reserve looks for more"
            );
            first >= 45 && lender.back() - before >= 45
        };
        assert!((0..20).any(|_| both()), "in no try");
        assert!(hold.frames().all(|frame| frame % 16 < 4));
    }

    #[test]
    fn a_request_waits_neither_for_a_census_nor_for_a_pass() {
        let name = format!("solocore-reserve-test-{}-census", std::process::id());
        let Some((mut lender, mut hold)) = reserve(&name) else { return };
        assert!(!lender.is_asked());
        let socket = crate::socket::connect(&name).expect("it listens");
        assert!(!lender.is_asked(), "it has not asked yet");
        let request = encode(&colours_of(&[2, 3]), 30, 0);
        rustix::net::send(&socket, &request, SendFlags::NOSIGNAL).expect("sent");
        let asked = std::cell::RefCell::new(&mut lender);
        let pass = hold.pass(64 << 20, &|| asked.borrow_mut().is_asked()).expect("taken");
        assert_eq!((pass.taken, pass.end), (0, crate::hold::End::Stopped));
        let (mut given, mut pieces) = (Vec::new(), 0);
        let mut between = || {
            pieces += 1;
            let lent = lender.serve(Duration::ZERO, &mut hold);
            if lent > 0 {
                given.push((pieces, lent));
            }
        };
        crate::census::Census::in_pieces(&Map::default(), None, &mut between).expect("shown");
        assert_eq!(given, [(1, 30)], "one of {pieces} pieces");
        assert!(pieces > 2 && !lender.is_asked());
        let mut answer = [0; 8];
        rustix::net::recv(&socket, &mut answer, RecvFlags::DONTWAIT).expect("answered");
        assert_eq!(u64::from_ne_bytes(answer), 30);
    }

    #[test]
    fn connections_are_limited_and_end() {
        let name = format!("solocore-reserve-test-{}-many", std::process::id());
        let Some((mut lender, mut hold)) = reserve(&name) else { return };
        let connect = |lender: &mut Lender, hold: &mut Hold| {
            let socket = crate::socket::connect(&name).expect("it listens");
            lender.serve(Duration::from_secs(1), hold);
            socket
        };
        let sockets: Vec<_> = (0..=MOST).map(|_| connect(&mut lender, &mut hold)).collect();
        assert_eq!(lender.peers.len(), MOST);
        drop(sockets);
        lender.serve(Duration::from_secs(1), &mut hold);
        let socket = connect(&mut lender, &mut hold);
        assert_eq!(lender.peers.len(), 1);
        // A program that has gone gets nothing any more.
        let (held, request) = (hold.held(), crate::buffers::tests::request("video", 4096));
        rustix::net::send(&socket, &request, SendFlags::NOSIGNAL).expect("sent");
        drop(socket);
        assert_eq!(lender.serve(Duration::from_secs(1), &mut hold), 0);
        assert_eq!((hold.held(), lender.peers.len()), (held, 0));
    }
}
