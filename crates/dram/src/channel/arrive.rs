//! Arrival of requests.

use super::{ANSWER, BANKS, Channel, small};
use crate::map::Place;
use crate::queue::Slot;
use crate::request::{Completion, Request};

impl Channel {
    /// Is there room? This depends on the queues alone, so a refused request fits once one of them
    /// moves.
    #[inline]
    pub fn accepts(&self, write: bool) -> bool {
        if write { !self.writes.is_full() } else { !self.pool.is_full() }
    }

    /// Takes a request that arrives at `now`; the channel must have advanced to `now`.
    #[inline]
    pub fn enqueue(&mut self, now: u64, place: Place, line: u64, request: Request) -> bool {
        let bank = small(place.bank);
        if self.writes.holds(self.banks[usize::from(bank) & (BANKS - 1)].writes, line) {
            self.answer_from_write_queue(now, request);
            return true;
        }
        if !self.accepts(request.write) {
            return false;
        }
        self.sequence += 1;
        let slot = Slot {
            tag: request.tag,
            arrived: now,
            sequence: self.sequence,
            line,
            row: place.row,
            core: request.core,
            bank,
        };
        let counters = &mut self.counters[usize::from(request.core)];
        counters.requests += 1;
        self.occupied |= 1 << bank;
        self.bus_from = self.bus_from.max(now + 1);
        if request.write {
            counters.writes += 1;
            let at = self.writes.add(slot);
            self.banks[usize::from(bank)].writes |= 1 << at;
        } else {
            counters.reads += 1;
            self.reads += 1;
            self.add_read(slot);
        }
        if !self.change_mode() {
            self.reconsider(bank);
        }
        true
    }

    fn add_read(&mut self, slot: Slot) {
        let queue = &mut self.banks[usize::from(slot.bank) & (BANKS - 1)].reads;
        let number = self.pool.add(slot);
        if queue.is_full() {
            queue.waiting += 1;
            self.pool.wait(number);
        } else {
            queue.push(slot.row, number);
        }
    }

    /// A read gets the data of a waiting write; a write replaces it.
    #[cold]
    fn answer_from_write_queue(&mut self, now: u64, request: Request) {
        let counters = &mut self.counters[usize::from(request.core)];
        counters.requests += 1;
        if request.write {
            counters.writes += 1;
            counters.merged += 1;
        } else {
            counters.reads += 1;
            counters.forwarded += 1;
            counters.read_cycles += ANSWER + 1;
        }
        let Request { tag, core, write, .. } = request;
        self.answer_at = self.answer_at.min(now + ANSWER + 1);
        self.done_short.push_back(Completion {
            at: now + ANSWER + 1,
            arrived: now,
            tag,
            core,
            write,
        });
    }
}
