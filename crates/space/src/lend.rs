//! Frames of a reserve for programs of its colours.
//!
//! Problem: while a reserve holds every frame of its colours, `solocore exec --colors` finds
//! none. Rule: it asks the reserve over a socket, for a number of frames and a CPU. The reserve
//! gives back that many on this CPU. The CPU's short list of free frames hands out the latest
//! first. The reserve prefers frames whose neighbour it keeps: these stay single, and the kernel
//! hands out single ones before it breaks up blocks. The library of the program then takes free
//! memory and keeps what has its colours, as without a reserve. Only root is served, and only
//! root is believed.
//! Does not cover: another program, or the kernel, that takes a frame in between. The audit
//! counts it; the reserve takes frames that become free again.

use crate::coloured::{listen, peer_of, wait};
use crate::error::SpaceError;
use crate::hold::Hold;
use crate::map::Choice;
use crate::wire;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use rustix::thread::CpuSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The address of the socket, in the kernel's name space.
const NAME: &str = "solocore-reserve";
/// Longest wait for the reserve: it may be in the middle of a pass.
const PATIENCE: Duration = Duration::from_secs(8);
/// Longest request.
const LONGEST: usize = 16 << 10;

/// The reserve's side.
#[derive(Debug)]
pub struct Lender {
    listener: OwnedFd,
    peers: Vec<OwnedFd>,
}

impl Lender {
    /// Listens.
    ///
    /// # Errors
    /// Another reserve does.
    pub fn new() -> Result<Self, SpaceError> {
        let listener = listen(NAME).map_err(|_| {
            SpaceError::Machine(
                "another solocore reserve holds frames of this machine; end it first".into(),
            )
        })?;
        Ok(Self { listener, peers: Vec::new() })
    }

    /// Answers requests within this time; returns the number of frames that were given.
    pub fn serve(&mut self, limit: Duration, hold: &mut Hold) -> u64 {
        let polled = std::iter::once(self.listener.as_fd());
        let polled = polled.chain(self.peers.iter().map(AsFd::as_fd));
        let mut polled: Vec<_> =
            polled.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if !wait(&mut polled, limit) {
            return 0;
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut given = 0;
        let mut ready_peers = ready[1..].iter();
        self.peers.retain(|peer| {
            if !ready_peers.next().copied().unwrap_or(false) {
                return true;
            }
            let mut bytes = vec![0; LONGEST];
            let Ok((length, _)) = rustix::net::recv(peer, &mut bytes, RecvFlags::DONTWAIT) else {
                return false;
            };
            let Some((frames, cpu, choice)) = decode(&bytes[..length]) else { return false };
            let gave = on_cpu(cpu, || hold.give(frames, &|frame| choice.allows(frame)));
            given += gave;
            rustix::net::send(peer, &gave.to_ne_bytes(), SendFlags::NOSIGNAL).is_ok()
        });
        if ready[0]
            && let Ok(peer) = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC)
            && peer_of(&peer).is_some_and(|(_, user)| user == 0)
        {
            self.peers.push(peer);
        }
        given
    }
}

/// Asks a reserve for frames of a choice, to be free on this CPU. Returns their number; `None`: no
/// reserve answers.
pub fn borrow(choice: &Choice, frames: u64, cpu: u32) -> Option<u64> {
    let socket = connected()?;
    let request = encode(choice, frames, cpu);
    rustix::net::send(&socket, &request, SendFlags::NOSIGNAL).ok()?;
    if !wait(&mut [PollFd::new(&socket, PollFlags::IN)], PATIENCE) {
        return None;
    }
    let mut answer = [0; 8];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty()).ok()?;
    (length == 8).then(|| u64::from_ne_bytes(answer))
}

/// Whether a reserve is there.
pub fn is_there() -> bool {
    connected().is_some()
}

fn connected() -> Option<OwnedFd> {
    let socket = crate::coloured::connect(NAME).ok()?;
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

/// Does something on a CPU, if this thread may go there.
fn on_cpu<T>(cpu: u32, act: impl FnOnce() -> T) -> T {
    let before = rustix::thread::sched_getaffinity(None).ok();
    let mut one = CpuSet::new();
    if (cpu as usize) < CpuSet::MAX_CPU {
        one.set(cpu as usize);
        let _ = rustix::thread::sched_setaffinity(None, &one);
    }
    let done = act();
    if let Some(set) = &before {
        // A CPU that has gone meanwhile leaves this thread where it is.
        let _ = rustix::thread::sched_setaffinity(None, set);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;

    #[test]
    fn requests_come_back() {
        let map = Map { colours: (12..16).map(|b| 1 << b).collect(), banks: vec![1 << 17] };
        let choice = Choice::new(&map, Some(&[1, 9]), Some(&[0])).expect("valid");
        let bytes = encode(&choice, 77, 3);
        assert!(bytes.len() < LONGEST);
        assert_eq!(decode(&bytes), Some((77, 3, choice)));
        for cut in [0, 7, 11, 20, bytes.len() - 1] {
            assert_eq!(decode(&bytes[..cut]), None, "{cut}");
        }
    }
}
