//! The guest's output on its way to the host, and the input of its shell: shared memory.
//!
//! Problem: a serial line is slow and Debian has the drivers of faster devices as modules; and a
//! program must not wait for the host, as the host's speed would then show in simulated time. Rule:
//! a PCI device (`ivshmem-plain`) has a file of the host as its memory, which the guest maps
//! through sysfs without a driver. Each half of it is a ring of messages, the first from the guest
//! to the host and the second back. The writer moves `head`, the reader `tail`; both count all
//! bytes ever passed. The guest waits only when the host is a whole ring behind. No byte is lost or
//! changed on the way, whether the reader reads already or not. A terminal does not promise that:
//! it drops what it has no room for, and a Ctrl-D that it gets before its reader is ready ends
//! nothing.

use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of the shared memory in bytes.
pub const SIZE: usize = 16 << 20;
/// Offset of a ring in its half; `head` and `tail` lie before it, each in a cache line of its own.
const RING: usize = 4096;
const HEAD: usize = 64;
const TAIL: usize = 128;
/// Size of the kind and the length of a message, in bytes.
const HEADER: u64 = 8;
/// Longest message in bytes; longer ones are split, so that a ring holds several.
pub const LONGEST: usize = 1 << 20;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// The program's standard output.
    Out = 1,
    /// The program's standard error.
    Err = 2,
    /// An [`Event`](crate::guest::Event) as JSON.
    Event = 3,
    /// More of the file that the last event opened. From the host: input of the guest's shell; an
    /// empty message is its end.
    Data = 4,
}

/// Direction of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the guest to the host.
    ToHost,
    /// From the host to the guest.
    ToGuest,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Self::Out, Self::Err, Self::Event, Self::Data].into_iter().find(|k| *k as u32 == number)
    }
}

/// One ring of the mapped shared memory.
#[derive(Debug)]
pub struct Channel {
    memory: *mut u8,
    /// Length of the mapping, bytes.
    length: usize,
    /// Offset of the ring's half in the mapping, and the length of a half, bytes.
    base: usize,
    half: usize,
}

// SAFETY: the memory lives as long as the value. `head` and `tail`, which decide the owner of each
// byte of it, are atomic.
unsafe impl Send for Channel {}

impl Channel {
    /// Maps a file of at least four pages, for messages of one direction.
    ///
    /// # Errors
    /// An error of the system.
    pub fn map(file: &File, way: Way) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        // The counters of the second half are aligned as those of the first.
        let half = (length / 2) & !7;
        if half <= RING {
            return Err(io::Error::other("the shared memory is too small"));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let memory = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)
        }?;
        let base = if way == Way::ToHost { 0 } else { half };
        Ok(Self { memory: memory.cast(), length, base, half })
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset is aligned and lies in the mapping, which lives as long as `self`;
        // both sides use it as an atomic.
        unsafe { &*self.memory.add(self.base + offset).cast::<AtomicU64>() }
    }

    fn room(&self) -> u64 {
        (self.half - RING) as u64
    }

    /// Offset of the ring's first byte.
    fn ring(&self) -> usize {
        self.base + RING
    }

    /// Offset of a byte, and the number of bytes after it before the ring begins again.
    fn place(&self, position: u64) -> (usize, usize) {
        let at = usize::try_from(position % self.room()).unwrap_or(0);
        (self.ring() + at, self.half - RING - at)
    }

    fn put(&self, position: u64, bytes: &[u8]) {
        let (at, most) = self.place(position);
        let first = bytes.len().min(most);
        // SAFETY: both parts lie in the ring, and no byte of them is the reader's: the writer made
        // sure that there is room.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.add(at), first);
            std::ptr::copy_nonoverlapping(
                bytes[first..].as_ptr(),
                self.memory.add(self.ring()),
                bytes.len() - first,
            );
        }
    }

    fn get(&self, position: u64, bytes: &mut [u8]) {
        let (at, most) = self.place(position);
        let first = bytes.len().min(most);
        let rest = bytes.len() - first;
        // SAFETY: both parts lie in the ring and behind `head`, so the writer leaves them alone.
        unsafe {
            std::ptr::copy_nonoverlapping(self.memory.add(at), bytes.as_mut_ptr(), first);
            let start = self.memory.add(self.ring());
            std::ptr::copy_nonoverlapping(start, bytes[first..].as_mut_ptr(), rest);
        }
    }

    /// Sends a message of at most [`LONGEST`] bytes; `wait` is called while there is no room. One
    /// thread at a time.
    pub fn send(&mut self, kind: Kind, bytes: &[u8], mut wait: impl FnMut()) {
        assert!(bytes.len() <= LONGEST, "longer messages are taken apart");
        let head = self.counter(HEAD).load(Ordering::Relaxed);
        let need = HEADER + bytes.len() as u64;
        // The other side may be a guest that has written anything to both counters.
        let filled = |tail: u64| head.wrapping_sub(tail).saturating_add(need);
        while filled(self.counter(TAIL).load(Ordering::Acquire)) > self.room() {
            wait();
        }
        let length = u32::try_from(bytes.len()).unwrap_or(0);
        let header = u64::from(kind as u32) | u64::from(length) << 32;
        self.put(head, &header.to_le_bytes());
        self.put(head.wrapping_add(HEADER), bytes);
        self.counter(HEAD).store(head.wrapping_add(need), Ordering::Release);
    }

    /// The next message, if one is there.
    ///
    /// # Errors
    /// The writer wrote no valid message.
    pub fn receive(&mut self) -> io::Result<Option<(Kind, Vec<u8>)>> {
        let tail = self.counter(TAIL).load(Ordering::Relaxed);
        let filled = self.counter(HEAD).load(Ordering::Acquire).wrapping_sub(tail);
        if filled == 0 {
            return Ok(None);
        }
        let mut header = [0; 8];
        self.get(tail, &mut header);
        let header = u64::from_le_bytes(header);
        let length = header >> 32;
        let kind = Kind::of((header & 0xffff_ffff) as u32);
        let (Some(kind), true) =
            (kind, filled >= HEADER + length && length <= LONGEST as u64 && filled <= self.room())
        else {
            return Err(io::Error::other("the guest's messages are damaged"));
        };
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.get(tail.wrapping_add(HEADER), &mut bytes);
        self.counter(TAIL).store(tail.wrapping_add(HEADER + length), Ordering::Release);
        Ok(Some((kind, bytes)))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, which no code uses any more.
        let _ = unsafe { rustix::mm::munmap(self.memory.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of a ring that takes `length` bytes of the memory.
    fn pair(length: u64) -> (Channel, Channel) {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(2 * length).expect("grown");
        let map = || Channel::map(&file, Way::ToHost).expect("mapped");
        (map(), map())
    }

    #[test]
    fn messages_come_in_order_across_the_end_of_the_ring() {
        let (mut guest, mut host) = pair(RING as u64 + 1000);
        for round in 0..200_u8 {
            let length = usize::from(round) * 3;
            guest.send(Kind::Out, &vec![round; length], || panic!("there is room"));
            guest.send(Kind::Err, &[round], || panic!("there is room"));
            assert_eq!(host.receive().expect("whole"), Some((Kind::Out, vec![round; length])));
            assert_eq!(host.receive().expect("whole"), Some((Kind::Err, vec![round])));
            assert_eq!(host.receive().expect("whole"), None);
        }
    }

    #[test]
    fn a_full_ring_waits_for_the_reader() {
        let (mut guest, mut host) = pair(RING as u64 + 100);
        guest.send(Kind::Data, &[1; 80], || panic!("there is room"));
        let mut waited = 0;
        guest.send(Kind::Data, &[2; 80], || {
            waited += 1;
            assert_eq!(host.receive().expect("whole"), Some((Kind::Data, vec![1; 80])));
        });
        assert_eq!(waited, 1);
    }

    #[test]
    fn the_two_directions_do_not_touch() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(2 * (RING as u64 + 200)).expect("grown");
        let map = |way| Channel::map(&file, way).expect("mapped");
        let (mut out, mut back) = (map(Way::ToHost), map(Way::ToGuest));
        let (mut host, mut guest) = (map(Way::ToHost), map(Way::ToGuest));
        for round in 0..50_u8 {
            out.send(Kind::Out, &[round; 150], || panic!("there is room"));
            back.send(Kind::Data, &[!round; 170], || panic!("there is room"));
            assert_eq!(host.receive().expect("whole"), Some((Kind::Out, vec![round; 150])));
            assert_eq!(guest.receive().expect("whole"), Some((Kind::Data, vec![!round; 170])));
        }
        back.send(Kind::Data, &[], || panic!("there is room"));
        assert_eq!(guest.receive().expect("whole"), Some((Kind::Data, Vec::new())));
        assert_eq!((host.receive().expect("whole"), guest.receive().expect("whole")), (None, None));
    }

    /// Fails where a counter is added to without regard to its end, as tests stop at an overflow.
    #[test]
    fn a_guest_may_write_any_counter() {
        let (mut guest, mut host) = pair(RING as u64 + 1000);
        for counter in [HEAD, TAIL] {
            host.counter(counter).store(u64::MAX - 3, Ordering::Release);
        }
        guest.send(Kind::Out, &[7; 50], || panic!("there is room"));
        assert_eq!(host.receive().expect("whole"), Some((Kind::Out, vec![7; 50])));
        assert_eq!(host.receive().expect("whole"), None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let (guest, mut host) = pair(RING as u64 + 100);
        guest.put(0, &[9, 0, 0, 0, 1, 0, 0, 0, 5]);
        guest.counter(HEAD).store(9, Ordering::Release);
        assert!(host.receive().is_err());
    }
}
