//! Requests of clients and their answers (`client/c/solocore_page.h`), and the maps that hold their
//! pages (`bpf/lock_intf.h`).

use crate::contract::{
    self, run_clients, run_lock, run_owner, run_slot, sc_answer, sc_page, sc_request,
};
use crate::error::LinuxError;
use crate::regulate::attach::Attached;
use crate::regulate::bpf::{self, inside};
use crate::regulate::dynamic;
use crate::regulate::lock::Serving;
use crate::regulate::paced::Paced;
use crate::sys::Mapped;
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapHandle, MapType, Object};
use std::ffi::CStr;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Maximum number of clients at a time (`RUN_SLOTS`).
pub(crate) const SLOTS: u32 = contract::RUN_SLOTS;
/// Size of a page in bytes (`SC_PAGE_BYTES`).
pub(crate) const PAGE_BYTES: usize = size_of::<sc_page>();
/// Size of a request in bytes.
pub(crate) const REQUEST_BYTES: usize = size_of::<sc_request>();
const MMAPABLE: u32 = 1 << 10;
/// Accesses per interrupt while there are no clients; every counter can count down from this
/// number.
const SELDOM: u64 = 1 << 30;

/// A request to the daemon (`struct sc_request`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub protocol: u32,
    pub scope: Scope,
    pub thread: u32,
    pub task: String,
}

/// The kind of its owner (`SC_SCOPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A thread.
    Thread,
    /// A process and its descendants.
    Program,
    /// A thread that is a transfer of the time table.
    Slot,
}

impl Scope {
    /// Name of the kind in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Program => "program",
            Self::Slot => "slot",
        }
    }
}

impl Request {
    /// Reads a request from a message; `None` for a message of another size.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let request = sc_request::read_from_bytes(bytes).ok()?;
        let scope = match request.scope {
            contract::SC_SCOPE_THREAD => Scope::Thread,
            contract::SC_SCOPE_PROGRAM => Scope::Program,
            contract::SC_SCOPE_SLOT => Scope::Slot,
            _ => return None,
        };
        let task =
            CStr::from_bytes_until_nul(request.task.as_bytes()).ok()?.to_str().ok()?.to_owned();
        Some(Self { protocol: request.protocol, scope, thread: request.thread, task })
    }
}

/// Reason for a refusal (`SC_*` of the verdicts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Refusal {
    NotAllowed = contract::SC_NOT_ALLOWED,
    NoRoom = contract::SC_NO_ROOM,
    NoTask = contract::SC_NO_TASK,
    BadRequest = contract::SC_BAD_REQUEST,
    NotServed = contract::SC_NOT_SERVED,
}

/// The answer to a client.
pub(crate) fn answer(verdict: Result<u32, Refusal>, max_hold_ns: u64) -> sc_answer {
    let (verdict, slot) =
        verdict.map_or_else(|refusal| (refusal as u32, 0), |slot| (contract::SC_GRANTED, slot));
    sc_answer { verdict, slot, max_hold_ns }
}

/// Actions of the lock on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LockCounts {
    /// Number of the CPU.
    pub cpu: u32,
    /// Number of periods at the end of which a program held the lock.
    pub held_periods: u64,
    /// Number of times that the CPU was stopped.
    pub stops: u64,
    /// Number of times that the CPU was released before its period ended, because nobody held the
    /// lock any more.
    pub early_releases: u64,
    /// Slot of the client that runs there.
    #[serde(skip)]
    pub slot: Option<u32>,
}

/// A client's page. The client has it mapped, too.
pub(crate) struct Page {
    map: MapHandle,
    words: Mapped,
}

impl Page {
    pub fn new() -> Result<Self, LinuxError> {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as u64,
            map_flags: MMAPABLE,
            ..Default::default()
        };
        let map =
            MapHandle::create(MapType::Array, Some("lock_page"), 4, PAGE_BYTES as u32, 1, &options)
                .map_err(|e| {
                    LinuxError::Machine(format!(
                        "the kernel refuses a client's page: {e}; free some memory"
                    ))
                })?;
        let words = Mapped::new(&map, PAGE_BYTES)?;
        Ok(Self { map, words })
    }

    /// The same page, reset to zeros.
    pub fn anew(self) -> Result<Self, LinuxError> {
        self.fill(&sc_page::new_zeroed())?;
        Ok(self)
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Writes the whole page, before any client has it.
    pub fn fill(&self, page: &sc_page) -> Result<(), LinuxError> {
        contract::put(&self.map, 0, page)
            .map_err(|e| inside(&format!("a client's page cannot be written: {e}")))
    }

    /// Word at this offset of the page.
    pub fn at(&self, place: usize) -> u64 {
        self.words.double_word(place)
    }

    /// Number of jobs begun so far, and whether one is under way.
    pub fn jobs(&self) -> (u64, bool) {
        let word = self.at(offset_of!(sc_page, jobs));
        (word >> 1, word & 1 == 1)
    }

    /// Number of sections begun so far, and depth of the nested sections.
    pub fn sections(&self) -> (u32, u32) {
        let word = self.at(offset_of!(sc_page, sections));
        ((word >> 32) as u32, word as u32)
    }
}

/// Pages that clients returned, each with its user. A program that had such a page may still hold
/// it. So no other user gets the page. Its own user gets it before a new one: no user holds more
/// pages than slots.
#[derive(Default)]
pub(super) struct Returned(Vec<(u32, Page)>);

impl Returned {
    pub fn put(&mut self, uid: u32, page: Page) {
        self.0.push((uid, page));
    }

    /// A page for this user: a returned one, or a new one.
    pub fn take(&mut self, uid: u32) -> Result<Page, LinuxError> {
        match self.0.iter().position(|(of, _)| *of == uid) {
            Some(at) => self.0.swap_remove(at).1.anew(),
            None => Page::new(),
        }
    }
}

/// The owner of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub scope: Scope,
    /// Number of the thread, or of the process for a program.
    pub number: u32,
    /// Start time of the owner, in hundredths of a second since boot.
    pub started: u64,
    /// Whether no limit of time holds for it.
    pub endless: bool,
    /// The task for which it signals jobs.
    pub task: Option<u32>,
    /// The slot of the time table that it has.
    pub slot: Option<u32>,
}

/// The maps of a loaded object, and the ticks and counters of the CPUs.
pub(crate) struct Table {
    clients: MapHandle,
    threads: MapHandle,
    programs: MapHandle,
    slots: MapHandle,
    pages: MapHandle,
    cores: MapHandle,
    tasks: MapHandle,
    ticks: Vec<Paced>,
    counters: Vec<Paced>,
    pub serving: Serving,
    counts: [u32; 2],
}

impl Table {
    /// The maps of a loaded object whose programs are attached.
    pub fn new(object: &Object, events: &Attached, serving: Serving) -> Result<Self, LinuxError> {
        let handle = |name: &str| {
            MapHandle::try_from(&bpf::map(object, name)?)
                .map_err(|e| inside(&format!("the map `{name}` cannot be shared: {e}")))
        };
        let table = Self {
            clients: handle("lock_clients")?,
            threads: handle("lock_threads")?,
            programs: handle("lock_programs")?,
            slots: handle("lock_slots")?,
            pages: handle("lock_pages")?,
            cores: handle("lock_cores")?,
            tasks: handle("dynamic_tasks")?,
            ticks: events.ticks.clone(),
            counters: events.counters.clone(),
            serving,
            counts: [0; 2],
        };
        if !table.serving.slots_only {
            table.pace(false)?;
        }
        Ok(table)
    }

    /// Sets the intervals of the CPUs' ticks and counters. Interrupts cost time, so CPUs check the
    /// lock only while there are clients.
    fn pace(&self, clients: bool) -> Result<(), LinuxError> {
        let set = |p: &Paced, period: Option<u64>| {
            p.pace(period)
                .map_err(|e| inside(&format!("an event of CPU {} cannot be changed: {e}", p.cpu)))
        };
        self.ticks.iter().try_for_each(|p| set(p, clients.then_some(self.serving.look_ns)))?;
        self.counters.iter().try_for_each(|p| set(p, (!clients).then_some(SELDOM)))
    }

    /// Gives a slot to an owner.
    pub fn admit(&mut self, slot: u32, owner: Owner, page: &Page) -> Result<(), LinuxError> {
        let fail = |e| inside(&format!("a client cannot be admitted: {e}"));
        if self.unknown(owner) {
            return Ok(());
        }
        let state = run_slot { endless: owner.endless.into(), ..run_slot::new_zeroed() };
        contract::put(&self.slots, slot, &state).map_err(fail)?;
        contract::put(&self.pages, slot, &page.map.as_fd().as_raw_fd()).map_err(fail)?;
        let whose = run_owner { started: owner.started, slot, reserved: 0 };
        contract::put(self.owners(owner.scope), owner.number, &whose).map_err(fail)?;
        if let Some(task) = owner.task {
            dynamic::set_page(&self.tasks, task, Some(slot))?;
        }
        self.count(owner.scope, 1)
    }

    /// Gives a slot to the processes that a thread will start; it takes effect once [`own`] has
    /// named the thread. `endless`: no limit of time holds for its sections.
    pub fn admit_program(
        &mut self,
        slot: u32,
        endless: bool,
    ) -> Result<(Page, MapHandle), LinuxError> {
        let fail = |e| inside(&format!("a program cannot be admitted: {e}"));
        let page = Page::new()?;
        let state = run_slot { endless: endless.into(), ..run_slot::new_zeroed() };
        contract::put(&self.slots, slot, &state).map_err(fail)?;
        contract::put(&self.pages, slot, &page.map.as_fd().as_raw_fd()).map_err(fail)?;
        self.count(Scope::Program, 1)?;
        let programs = MapHandle::try_from(&self.programs).map_err(fail)?;
        Ok((page, programs))
    }

    /// Takes a slot back from its owner.
    pub fn dismiss(&mut self, slot: u32, owner: Owner) -> Result<(), LinuxError> {
        if self.unknown(owner) {
            return Ok(());
        }
        if let Some(task) = owner.task {
            dynamic::set_page(&self.tasks, task, None)?;
        }
        // An entry that is deleted already needs no deletion.
        let _ = self.owners(owner.scope).delete(owner.number.as_bytes());
        let _ = self.pages.delete(slot.as_bytes());
        self.count(owner.scope, -1)
    }

    /// Makes the page of this slot signal the task's jobs again.
    pub fn signalled_by(&self, task: u32, slot: u32) -> Result<(), LinuxError> {
        dynamic::set_page(&self.tasks, task, Some(slot))
    }

    /// Whether the programs do not know this owner. They know a transfer only where every client
    /// may hold the lock.
    fn unknown(&self, owner: Owner) -> bool {
        owner.slot.is_some() && !self.serving.holders
    }

    fn owners(&self, scope: Scope) -> &MapHandle {
        match scope {
            Scope::Thread | Scope::Slot => &self.threads,
            Scope::Program => &self.programs,
        }
    }

    /// Tells the programs the number of clients.
    fn count(&mut self, scope: Scope, by: i32) -> Result<(), LinuxError> {
        let before = self.counts[0] + self.counts[1];
        let count = &mut self.counts[usize::from(scope == Scope::Program)];
        *count = count.saturating_add_signed(by);
        let now = self.counts[0] + self.counts[1];
        let [threads, programs] = self.counts;
        contract::put(&self.clients, 0, &run_clients { threads, programs })
            .map_err(|e| inside(&format!("the number of clients cannot be set: {e}")))?;
        if (before == 0) == (now == 0) { Ok(()) } else { self.pace(now != 0) }
    }

    /// Number of the last section of this slot that was held for too long.
    pub fn cut(&self, slot: u32) -> Option<u32> {
        let seen: run_slot = contract::look_up(&self.slots, slot).ok()??;
        u32::try_from(seen.cut.checked_sub(1)?).ok()
    }

    /// Counts of the lock so far, by CPU.
    pub fn cores(&self) -> Vec<LockCounts> {
        let of = |cpu: u32| {
            let seen = contract::look_up(&self.cores, cpu)
                .ok()
                .flatten()
                .unwrap_or_else(run_lock::new_zeroed);
            LockCounts {
                cpu,
                held_periods: seen.held,
                stops: seen.stops,
                early_releases: seen.frees,
                slot: seen.slot.checked_sub(1).and_then(|s| u32::try_from(s).ok()),
            }
        };
        (0..if self.serving.holders { self.serving.cpus } else { 0 }).map(of).collect()
    }
}

/// Gives a slot to the processes that this thread starts from now on. `programs`: the map of
/// [`Table::admit_program`].
pub(super) fn own(programs: &MapHandle, slot: u32, owner: (u32, u64)) -> Result<(), LinuxError> {
    let (number, started) = owner;
    contract::put(programs, number, &run_owner { started, slot, reserved: 0 })
        .map_err(|e| inside(&format!("a program's page cannot be set: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn requests_of_another_shape_are_none() {
        let mut asked =
            sc_request { protocol: 1, scope: 2, thread: 77, ..sc_request::new_zeroed() };
        contract::set_text(&mut asked.task, "abc");
        let decoded = |request: sc_request| Request::decode(request.as_bytes());
        let request =
            Request { protocol: 1, scope: Scope::Program, thread: 77, task: "abc".to_owned() };
        assert_eq!(decoded(asked), Some(request));
        assert_eq!(Request::decode(&asked.as_bytes()[..79]), None);
        let mut endless_name = asked;
        contract::set_text(&mut endless_name.task, &"x".repeat(80));
        assert_eq!(decoded(endless_name), None);
        let mut no_text = asked;
        no_text.task.as_mut_bytes()[0] = 0xff;
        assert_eq!(decoded(no_text), None);
        assert_eq!(decoded(sc_request { scope: 3, ..asked }).map(|r| r.scope), Some(Scope::Slot));
        assert_eq!(decoded(sc_request { scope: 4, ..asked }), None);
        assert_eq!(answer(Err(Refusal::NoRoom), 5).verdict, 2);
        assert_eq!(answer(Ok(9), 5).slot, 9);
    }
}
