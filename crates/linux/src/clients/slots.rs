//! Input and output by the time table: a driver attaches as a transfer and waits for its slots.
//!
//! Problem: the table keeps transfers apart, and inputs before the windows that use them, only if
//! drivers move data in their slots. Rule (single-core-equivalence, section 2.4): the n-th slot of
//! an activity begins at offset + n * period after the first release, which the windows of the
//! partitions share. The daemon writes begin, length and period on the client's page before it
//! grants it; from then on the client waits by the clock alone (client/c, `sc_wait_slot`). A slot
//! is missed once its start has passed; it is not made up for. A device's transfer is bound to the
//! I/O core; each slot has one client. A client records its transfers on its page. The daemon reads
//! the page at every look and counts the missed slots itself, also for a client that hangs.
//! Does not cover: a driver that moves data outside its slots, a device that continues by itself,
//! and the priority of a driver that solocore did not start.

use crate::contract::{self, sc_page, sc_slot, sc_transfer};
use crate::sys::latest::{self, Latest, SHOWN};
use crate::sys::tasks;
use solocore_model::Plan;
use solocore_model::run::{RunJob, RunTransfer};
use solocore_model::windows::table::{Row, Stage};
use std::sync::{Arc, OnceLock};
use zerocopy::FromZeros;

/// Longest name in a request, in bytes (`SC_NAME_BYTES` less the zero).
pub(crate) const LONGEST_NAME: usize = contract::SC_NAME_BYTES as usize - 1;
/// Number of transfers that a page records (`SC_SLOTS_KEPT`).
const KEPT: u64 = contract::SC_SLOTS_KEPT as u64;

/// Fields of `struct sc_page`, by offset.
pub(crate) mod page_at {
    use crate::contract::sc_page;
    use std::mem::offset_of;

    pub const FROM: usize = offset_of!(sc_page, slot.from);
    pub const BEGUN: usize = offset_of!(sc_page, slot.begun);
    pub const NEXT: usize = offset_of!(sc_page, slot.next);
    pub const LATE: usize = offset_of!(sc_page, slot.late);
    pub const START_LATE: usize = offset_of!(sc_page, slot.start_late_ns);
    pub const END_LATE: usize = offset_of!(sc_page, slot.end_late_ns);
    pub const LATEST: usize = offset_of!(sc_page, slot.latest);
}

/// A strictly periodic transfer of the table. Times in nanoseconds from the first release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Name of partition, chain and stage: `nav/1/device-input`.
    pub name: String,
    /// `io-core` or `device NAME`.
    pub resource: String,
    /// I/O core of a device's transfer.
    pub core: Option<u32>,
    /// Start of the first slot.
    pub offset_ns: u64,
    /// Length of a slot, margin included.
    pub length_ns: u64,
    /// Period of the slots.
    pub period_ns: u64,
}

/// The transfers of a plan, and the time of its first release.
#[derive(Clone, Debug, Default)]
pub struct SlotTable {
    /// Slots in the order of the table.
    pub slots: Vec<Slot>,
    /// First release, ns by `CLOCK_MONOTONIC`; set once the tasks are in their places.
    pub(crate) epoch: Arc<OnceLock<u64>>,
}

impl SlotTable {
    /// The table of a plan; empty in a plan without partitions or devices.
    pub fn of(plan: &Plan) -> Self {
        let Some(windows) = plan.windows() else { return Self::default() };
        let slot = |row: &Row| {
            let chain = row.chain.filter(|_| row.stage != Stage::Processing)?;
            Some(Slot {
                name: format!("{}/{chain}/{}", row.partition, row.stage.name()),
                resource: row.resource.clone(),
                core: windows.io_core.filter(|_| row.is_transfer()),
                offset_ns: row.offset_ns,
                length_ns: row.duration_ns,
                period_ns: row.period_ns.max(1),
            })
        };
        Self { slots: windows.table.iter().filter_map(slot).collect(), epoch: Arc::default() }
    }

    /// A table of these slots, for use without a plan.
    pub fn new(slots: Vec<Slot>) -> Self {
        Self { slots, epoch: Arc::default() }
    }

    /// Sets the time of the first release, ns by `CLOCK_MONOTONIC`. Only the first call counts.
    pub fn release_at(&self, ns: u64) {
        let _ = self.epoch.set(ns);
    }
}

/// The words that a client writes on its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    pub from: u64,
    pub begun: u64,
    pub inside: bool,
    pub next: u64,
    pub late: u64,
    pub start_late_ns: u64,
    pub end_late_ns: u64,
}

impl Words {
    /// Reads the words of a page by `at`. The client wrote them, so any value is possible.
    pub fn read(at: impl Fn(usize) -> u64) -> Self {
        let begun = at(page_at::BEGUN);
        Self {
            from: at(page_at::FROM),
            begun: begun >> 1,
            inside: begun & 1 == 1,
            next: at(page_at::NEXT),
            late: at(page_at::LATE),
            start_late_ns: at(page_at::START_LATE),
            end_late_ns: at(page_at::END_LATE),
        }
    }
}

/// A client of a slot.
#[derive(Debug, Default)]
struct Live {
    from: u64,
    words: Words,
    /// Number of transfers that were recorded.
    taken: u64,
}

#[derive(Debug)]
struct State {
    slot: Slot,
    past: RunTransfer,
    live: Option<Live>,
    latest: Latest,
}

/// All transfers, as of the last look.
#[derive(Debug, Default)]
pub(crate) struct Board {
    table: SlotTable,
    states: Vec<State>,
    now_ns: u64,
}

impl Board {
    pub fn new(table: &SlotTable) -> Self {
        let places = latest::share(table.slots.len());
        let state = |slot: &Slot| {
            let Slot { name, resource, core, length_ns, period_ns, .. } = slot.clone();
            let past = RunTransfer {
                name,
                resource,
                core,
                length_ns,
                period_ns,
                ..RunTransfer::default()
            };
            State { slot: slot.clone(), past, live: None, latest: Latest::of(places) }
        };
        Self { table: table.clone(), states: table.slots.iter().map(state).collect(), now_ns: 0 }
    }

    /// Whether clients can be answered: the start of their slots is known.
    pub fn is_open(&self) -> bool {
        self.states.is_empty() || self.table.epoch.get().is_some()
    }

    /// Number of the slot of this name, if it has no client.
    pub fn free(&self, name: &str) -> Option<u32> {
        let at = self.states.iter().position(|s| s.slot.name == name && s.live.is_none())?;
        u32::try_from(at).ok()
    }

    pub fn slot(&self, number: u32) -> Option<&Slot> {
        self.states.get(number as usize).map(|s| &s.slot)
    }

    fn epoch(&self) -> u64 {
        self.table.epoch.get().copied().unwrap_or(u64::MAX)
    }

    /// Gives this slot to a client. Returns the first contents of its page.
    pub fn attach(&mut self, number: u32, now_ns: u64) -> Option<sc_page> {
        let epoch = self.epoch();
        let state = self.states.get_mut(number as usize)?;
        let first = epoch.saturating_add(state.slot.offset_ns);
        // The first slot that begins later than now.
        let from = now_ns.checked_sub(first).map_or(0, |since| since / state.slot.period_ns + 1);
        let (period_ns, length_ns) = (state.slot.period_ns, state.slot.length_ns);
        let slot = sc_slot { first_ns: first, period_ns, length_ns, from, ..sc_slot::new_zeroed() };
        let page = sc_page { slot, ..sc_page::new_zeroed() };
        let words = Words { from, ..Words::default() };
        state.live = Some(Live { from, words, taken: 0 });
        state.past.clients += 1;
        Some(page)
    }

    /// Reads a client's page.
    pub fn look(&mut self, number: u32, now_ns: u64, at: impl Fn(usize) -> u64) -> Words {
        let epoch = self.epoch();
        self.now_ns = self.now_ns.max(now_ns);
        let Some(state) = self.states.get_mut(number as usize) else { return Words::default() };
        let Some(live) = &mut state.live else { return Words::default() };
        // The daemon knows the start of the slots; the value on the page does not count.
        live.words = Words { from: live.from, ..Words::read(&at) };
        let (first, period) = (epoch.saturating_add(state.slot.offset_ns), state.slot.period_ns);
        let done = live.words.begun - u64::from(live.words.inside && live.words.begun > 0);
        // A page records `KEPT` transfers; one of them may be written right now.
        for k in live.taken.max(done.saturating_sub(KEPT - 1))..done {
            let place = page_at::LATEST + (k % KEPT) as usize * size_of::<sc_transfer>();
            let (start_ns, end_ns) = (at(place), at(place + 8));
            let Some(since) = start_ns.checked_sub(first).filter(|_| end_ns >= start_ns) else {
                continue;
            };
            let release_ns = start_ns - since % period;
            state.latest.add(RunJob { release_ns, start_ns, end_ns });
        }
        live.taken = done;
        live.words
    }

    /// Counts the slots that pass without a client.
    pub fn passed(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Removes the client of a slot.
    pub fn detach(&mut self, number: u32) {
        let (epoch, now) = (self.epoch(), self.now_ns);
        if let Some(state) = self.states.get_mut(number as usize) {
            state.past = state.seen(epoch, now);
            state.live = None;
        }
    }

    /// Counts of all transfers so far, with the last few of each.
    pub fn seen(&self) -> Vec<RunTransfer> {
        self.with_latest(SHOWN)
    }

    /// The same, with all transfers that are kept.
    pub fn recorded(&self) -> Vec<RunTransfer> {
        self.with_latest(usize::MAX)
    }

    fn with_latest(&self, most: usize) -> Vec<RunTransfer> {
        let of = |state: &State| {
            let mut run = state.seen(self.epoch(), self.now_ns);
            run.attached = state.live.is_some();
            run.latest = state.latest.last(most);
            run
        };
        self.states.iter().map(of).collect()
    }
}

impl State {
    /// Counts of the past clients and the present one together.
    fn seen(&self, epoch: u64, now: u64) -> RunTransfer {
        let (mut run, slot) = (self.past.clone(), &self.slot);
        let since_end =
            now.checked_sub(epoch.saturating_add(slot.offset_ns).saturating_add(slot.length_ns));
        run.slots = since_end.map_or(0, |since| since / slot.period_ns + 1);
        let mut counted = run.begun.saturating_add(run.missed);
        if let Some(Live { words, .. }) = &self.live {
            // The slot of the last transfer may not have ended yet.
            let ended = words.begun.saturating_sub(u64::from(words.next > run.slots));
            let missed = run.slots.saturating_sub(words.from).saturating_sub(ended);
            let overdue = words.inside && words.next <= run.slots;
            run.begun = run.begun.saturating_add(words.begun);
            run.missed = run.missed.saturating_add(missed);
            run.late = run.late.saturating_add(words.late).saturating_add(u64::from(overdue));
            run.max_start_late_ns = run.max_start_late_ns.max(words.start_late_ns);
            run.max_end_late_ns = run.max_end_late_ns.max(words.end_late_ns);
            counted = counted.saturating_add(ended).saturating_add(missed);
        }
        run.unattended = run.slots.saturating_sub(counted);
        run
    }
}

/// Present time for [`SlotTable::release_at`], ns by `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    tasks::monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Slots with a length of 20 at 30, 130, 230... after a first release at 1000.
    fn board() -> Board {
        let slot = Slot {
            name: "nav/1/device-input".into(),
            resource: "io-core".into(),
            core: Some(1),
            offset_ns: 30,
            length_ns: 20,
            period_ns: 100,
        };
        let table = SlotTable::new(vec![slot]);
        let board = Board::new(&table);
        assert!(!board.is_open(), "nobody knows yet when slots begin");
        table.release_at(1000);
        table.release_at(5000);
        assert!(board.is_open());
        board
    }

    #[test]
    fn a_page_says_when_slots_begin() {
        for (now, from) in
            [(0, 0), (1029, 0), (1030, 1), (1031, 1), (1129, 1), (1130, 2), (9999, 90)]
        {
            let mut board = board();
            let slot = board.attach(0, now).unwrap().slot;
            assert_eq!(
                [slot.first_ns, slot.period_ns, slot.length_ns, slot.from],
                [1030, 100, 20, from],
                "{now}"
            );
            assert_eq!(board.free("nav/1/device-input"), None, "one client a slot");
        }
        let mut board = board();
        assert_eq!(board.free("nav/1/device-input"), Some(0));
        assert_eq!(board.free("nav/1/device-output"), None);
        assert!(board.attach(1, 0).is_none());
    }

    #[test]
    fn slots_are_begun_missed_or_unattended() {
        let mut board = board();
        let mut page: HashMap<usize, u64> = HashMap::new();
        board.passed(1049);
        assert_eq!(board.seen()[0].slots, 0);
        // The first two pass before a client attaches.
        board.passed(1160);
        let run = board.seen().remove(0);
        assert_eq!((run.slots, run.unattended, run.clients), (2, 2, 0));
        board.attach(0, 1160).unwrap();
        // In slot 2 at 1232, until 1241.
        page.extend([
            (page_at::BEGUN, 3),
            (page_at::NEXT, 3),
            (page_at::LATEST, 1232),
            (page_at::START_LATE, 2),
        ]);
        let look = |board: &mut Board, page: &HashMap<usize, u64>, now| {
            board.look(0, now, |at| page.get(&at).copied().unwrap_or(0));
            board.seen().remove(0)
        };
        let run = look(&mut board, &page, 1235);
        assert_eq!((run.slots, run.begun, run.missed, run.unattended, run.late), (2, 1, 0, 2, 0));
        assert!(run.attached && run.latest.is_empty());
        // A transfer is overdue once its slot is over and it has not ended.
        assert_eq!(look(&mut board, &page, 1250).late, 1);
        page.extend([(page_at::BEGUN, 2), (page_at::LATEST + 8, 1241)]);
        let run = look(&mut board, &page, 1251);
        assert_eq!((run.slots, run.begun, run.missed, run.late), (3, 1, 0, 0));
        assert_eq!(run.latest, [RunJob { release_ns: 1230, start_ns: 1232, end_ns: 1241 }]);
        // The client hangs through slots 3 and 4, is in slot 5 until after its end, and leaves.
        let run = look(&mut board, &page, 1455);
        assert_eq!((run.slots, run.begun, run.missed, run.unattended), (5, 1, 2, 2));
        page.extend([
            (page_at::BEGUN, 4),
            (page_at::NEXT, 6),
            (page_at::LATE, 1),
            (page_at::END_LATE, 9),
        ]);
        page.extend([(page_at::LATEST + 16, 1530), (page_at::LATEST + 24, 1559)]);
        look(&mut board, &page, 1560);
        board.detach(0);
        board.passed(1760);
        let run = board.seen().remove(0);
        assert_eq!((run.slots, run.begun, run.missed, run.unattended, run.late), (8, 2, 2, 4, 1));
        assert_eq!((run.max_start_late_ns, run.max_end_late_ns, run.clients), (2, 9, 1));
        assert!(!run.attached && run.latest.len() == 2);
        assert_eq!(board.free("nav/1/device-input"), Some(0), "the next may come");
    }

    #[test]
    fn what_a_client_writes_cannot_hurt() {
        let mut board = board();
        board.attach(0, 0).unwrap();
        for value in [u64::MAX, u64::MAX - 1, 1, 1 << 63] {
            board.look(0, 1_000_000, |_| value);
            board.seen();
        }
        board.look(7, 1_000_000, |_| u64::MAX);
        board.detach(7);
        board.detach(0);
        board.attach(0, 1_000_000).unwrap();
        board.look(0, 2_000_000, |at| if at == page_at::BEGUN { u64::MAX } else { 0 });
        assert!(board.seen()[0].latest.len() <= 2 * KEPT as usize);
    }

    #[test]
    fn more_transfers_than_a_page_holds() {
        let mut board = board();
        board.attach(0, 0).unwrap();
        let mut total = 0;
        for done in [1, 40, 64, 150, 213] {
            board.look(0, 1_000_000, |at| match at {
                page_at::BEGUN => done << 1,
                at if at >= page_at::LATEST => 2000 + (at as u64 - page_at::LATEST as u64) % 16,
                _ => 0,
            });
            total = board.recorded()[0].latest.len();
        }
        // Of 150 - 64 and 213 - 150 the page has the last 63 each.
        assert_eq!(total, 64 + 63 + 63);
        assert_eq!(board.seen()[0].latest.len(), SHOWN, "a look at the run does not grow");
        assert_eq!(board.seen()[0].latest, board.recorded()[0].latest[total - SHOWN..]);
    }
}
