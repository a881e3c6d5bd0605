//! Reference model of the sporadic server: Stanovich, Baker, Wang and Harbour, "Defects of the
//! POSIX Sporadic Server and How to Correct Them", RTAS 2010, section V (the corrected server:
//! replenishments are split, merged only when back to back, and postponed when the list is full),
//! with the bounded list of Danish, Li and West, RTAS 2011. MARACAS (RTSS 2016), section II-A, uses
//! it for each VCPU.
//!
//! The list is a `Vec` of (time, amount); the head is at index 0.

use crate::{Answer, Event, World};

/// 2^62: later times are read as this one.
pub const MAX_TIME: u64 = 1 << 62;
/// 2^42: the longest period, capacity or budget.
pub const MAX_SPAN: u64 = 1 << 42;
/// The longest list of replenishments.
pub const MAX_REPLENISHMENTS: u64 = 16;

/// Reads a clock.
pub fn clock(now: u64) -> u64 {
    now.min(MAX_TIME)
}

/// An amount of time that may be used from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// First instant at which it may be used.
    pub time: u64,
    /// How long it may be used, in ns.
    pub amount: u64,
}

impl Chunk {
    fn end(self) -> u64 {
        self.time.saturating_add(self.amount)
    }
}

/// A server: its chunks always sum to its capacity.
#[derive(Clone, Debug)]
pub struct Server {
    capacity: u64,
    period: u64,
    strict: bool,
    limit: usize,
    chunks: Vec<Chunk>,
}

impl Server {
    /// A full server, or `None` when a parameter is out of range.
    pub fn new(now: u64, capacity: u64, period: u64, flags: u64, limit: u64) -> Option<Self> {
        let valid = 1 <= capacity && capacity <= period && period <= MAX_SPAN;
        if !valid || !(1..=MAX_REPLENISHMENTS).contains(&limit) {
            return None;
        }
        let chunks = vec![Chunk { time: clock(now), amount: capacity }];
        Some(Self {
            capacity,
            period,
            strict: flags & 1 != 0,
            limit: usize::try_from(limit).ok()?,
            chunks,
        })
    }

    /// Is the bound to hold in every sliding window?
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// T, in ns.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Joins to the head what follows back to back or overlaps: the time at which the later chunk
    /// comes is reached while the head is used, so nothing is supplied early.
    fn merge(&mut self) {
        while self.chunks.len() > 1 && self.chunks[1].time <= self.chunks[0].end() {
            let next = self.chunks.remove(1);
            self.chunks[0].amount += next.amount;
        }
    }

    /// How long it may run from `now` on.
    pub fn available(&mut self, now: u64) -> u64 {
        self.merge();
        if self.chunks[0].time <= clock(now) { self.chunks[0].amount } else { 0 }
    }

    /// When there will be, or was, budget.
    pub fn next_time(&mut self) -> u64 {
        self.merge();
        self.chunks[0].time
    }

    /// It has become runnable at `now` or, when strict, is dispatched: what it uses counts from now
    /// on.
    pub fn wake(&mut self, now: u64) {
        if self.chunks[0].time < clock(now) {
            self.chunks[0].time = clock(now);
            self.merge();
        }
    }

    /// It ran for `used` ns, or a whole capacity if that is less.
    pub fn charge(&mut self, used: u64) {
        let mut used = used.min(self.capacity);
        while used > 0 {
            let head = self.chunks[0];
            let back = head.time.saturating_add(self.period);
            if used >= head.amount {
                used -= head.amount;
                self.chunks.remove(0);
                self.append(back, head.amount);
            } else {
                self.chunks[0] =
                    Chunk { time: head.time.saturating_add(used), amount: head.amount - used };
                self.append(back, used);
                used = 0;
            }
        }
    }

    /// What was used comes back at `time`, or later if the list is full.
    fn append(&mut self, time: u64, amount: u64) {
        let full = self.chunks.len() >= self.limit;
        let Some(last) = self.chunks.last_mut() else {
            self.chunks.push(Chunk { time, amount });
            return;
        };
        let time = time.max(last.time);
        if last.end() >= time {
            last.amount += amount;
        } else if full {
            *last = Chunk { time, amount: last.amount + amount };
        } else {
            self.chunks.push(Chunk { time, amount });
        }
    }

    /// The list, the head first.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }
}

#[derive(Default)]
struct Model {
    server: Option<Server>,
}

impl World for Model {
    fn apply(&mut self, event: &Event) -> Answer {
        let mut out = Answer::default();
        let now = event.now;
        let Some(server) = self.server.as_mut() else {
            if event.op == 0 {
                self.server = Server::new(now, event.a, event.b, event.c, event.d);
                out.word[0] = u64::from(self.server.is_some());
            }
            return out;
        };
        match event.op {
            1 => {
                server.wake(now);
                out.word[..3].copy_from_slice(&[
                    server.available(now),
                    server.next_time(),
                    server.chunks.len() as u64,
                ]);
            }
            2 | 3 => {
                if event.op == 2 {
                    server.charge(event.a);
                }
                out.word[0] = server.available(now);
                out.word[1] = server.next_time();
                out.word[2] = server.chunks.len() as u64;
                out.word[3] = server.chunks[0].amount;
            }
            4 => {
                if let Some(chunk) = server.chunks.get(event.id as usize) {
                    let sum = server.chunks.iter().map(|chunk| chunk.amount).sum();
                    out.word[..3].copy_from_slice(&[chunk.time, chunk.amount, sum]);
                }
            }
            _ => {}
        }
        out
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::<Model>::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(server: &Server) -> Vec<(u64, u64)> {
        server.chunks().iter().map(|chunk| (chunk.time, chunk.amount)).collect()
    }

    /// A chunk that is used in parts comes back in parts, each one period after it was used.
    #[test]
    fn a_split_chunk_returns_in_parts() {
        let mut server = Server::new(0, 10, 40, 0, 8).unwrap();
        server.charge(4);
        assert_eq!(list(&server), [(4, 6), (40, 4)]);
        server.wake(10);
        server.charge(6);
        assert_eq!(list(&server), [(40, 4), (50, 6)]);
        assert_eq!((server.available(39), server.available(40)), (0, 4));
    }

    /// Premature replenishment (Stanovich et al., section IV-B): what was used at 0 and at 10 must
    /// not come back together at 40.
    #[test]
    fn replenishments_are_not_merged_early() {
        let mut server = Server::new(0, 10, 40, 0, 8).unwrap();
        server.charge(4);
        server.wake(10);
        server.charge(6);
        server.wake(40);
        assert_eq!(list(&server), [(40, 4), (50, 6)]);
        server.charge(4);
        assert_eq!(server.available(44), 0);
    }

    /// Waking late pulls together what is due or comes while it runs; nothing is lost
    /// (amplification).
    #[test]
    fn a_late_wake_merges_what_can_be_reached() {
        let mut server = Server::new(0, 10, 40, 0, 8).unwrap();
        server.charge(4);
        server.wake(10);
        server.charge(6);
        server.wake(47);
        assert_eq!(list(&server), [(47, 10)]);
    }

    #[test]
    fn a_full_list_postpones() {
        let mut server = Server::new(0, 10, 40, 0, 2).unwrap();
        server.charge(2);
        server.wake(5);
        server.charge(2);
        // (7, 6), (40, 2): the 2 used from 5 on come back at 45, and the list is full.
        assert_eq!(list(&server), [(7, 6), (45, 4)]);
        let mut single = Server::new(0, 10, 40, 0, 1).unwrap();
        single.charge(3);
        assert_eq!(list(&single), [(40, 10)]);
    }

    #[test]
    fn an_overrun_borrows_from_the_future() {
        let mut server = Server::new(0, 10, 40, 0, 8).unwrap();
        server.charge(4);
        server.wake(10);
        // 6 are left; it ran for 8: 2 of the 4 that are due at 40 are gone.
        server.charge(8);
        assert_eq!(list(&server), [(42, 2), (50, 6), (80, 2)]);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        assert!(Server::new(0, 0, 10, 0, 1).is_none());
        assert!(Server::new(0, 11, 10, 0, 1).is_none());
        assert!(Server::new(0, 1, MAX_SPAN + 1, 0, 1).is_none());
        assert!(Server::new(0, 1, 10, 0, 0).is_none());
        assert!(Server::new(0, 1, 10, 0, 17).is_none());
        assert!(Server::new(0, 0, 0, 0, 1).is_none());
    }
}
