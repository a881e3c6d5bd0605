//! `bpf/lock_intf.h` and `client/c/solocore_page.h` seen from here, and the maps that hold the clients.
//!
//! As in regulate/shared.rs: bytes at offsets, which a test compares with the compiled objects.

use crate::error::LinuxError;
use crate::regulate::attach::{Attached, Paced};
use crate::regulate::bpf::{self, inside};
use crate::regulate::dynamic;
use crate::regulate::lock::Serving;
use crate::sys::{self, Mapped, seqpacket};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Clients at a time (`RUN_SLOTS`).
pub(crate) const SLOTS: u32 = 256;
/// Bytes of a page (`SC_PAGE_BYTES`).
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes of `struct sc_request` and `struct sc_answer`.
pub(crate) const REQUEST_BYTES: usize = 80;
const NAME_AT: usize = 16;
const MMAPABLE: u32 = 1 << 10;
/// Accesses per interrupt while there is nobody to protect; what every counter can count down.
const SELDOM: u64 = 1 << 30;

/// Fields of `struct run_lock`, by offset.
mod core_at {
    pub const SLOT: usize = 96;
    pub const HELD: usize = 128;
    pub const STOPS: usize = 136;
    pub const FREES: usize = 160;
}

/// Offset of `cut` in `struct run_slot`.
const CUT: usize = 16;

/// What is asked of the daemon (`struct sc_request`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub protocol: u32,
    pub scope: Scope,
    pub thread: u32,
    pub task: String,
}

/// Whose page it is (`SC_SCOPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A thread's.
    Thread,
    /// A process's and its descendants'.
    Program,
    /// A thread's that is a transfer of the time table.
    Slot,
}

impl Request {
    /// Of a message's bytes; `None` for one of another shape.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != REQUEST_BYTES {
            return None;
        }
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let scope = match word(4)? {
            1 => Scope::Thread,
            2 => Scope::Program,
            3 => Scope::Slot,
            _ => return None,
        };
        let name = bytes.get(NAME_AT..)?;
        let end = name.iter().position(|&b| b == 0)?;
        let task = std::str::from_utf8(&name[..end]).ok()?.to_owned();
        Some(Self { protocol: word(0)?, scope, thread: word(8)?, task })
    }
}

/// Why a client gets no page (`SC_*` of the verdicts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotAllowed = 1,
    NoRoom = 2,
    NoTask = 3,
    BadRequest = 4,
    NotServed = 5,
}

/// `struct sc_answer`.
pub(crate) fn answer(verdict: Result<u32, Refusal>, max_hold_ns: u64) -> [u8; 16] {
    let (verdict, slot) = verdict.map_or_else(|refusal| (refusal as u32, 0), |slot| (0, slot));
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&verdict.to_ne_bytes());
    bytes[4..8].copy_from_slice(&slot.to_ne_bytes());
    bytes[8..].copy_from_slice(&max_hold_ns.to_ne_bytes());
    bytes
}

/// What the lock did on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LockCounts {
    /// Which CPU.
    pub cpu: u32,
    /// Periods at whose end somebody held the lock.
    pub held_periods: u64,
    /// How often the CPU was stopped.
    pub stops: u64,
    /// How often it went on before its period ended, as nobody held the lock any more.
    pub early_releases: u64,
    /// Page of the client that runs there.
    #[serde(skip)]
    pub slot: Option<u32>,
}

/// A client's page. The client has it mapped, too.
pub(crate) struct Page {
    map: MapHandle,
    words: Mapped,
}

impl Page {
    fn new() -> Result<Self, LinuxError> {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as u64,
            map_flags: MMAPABLE,
            ..Default::default()
        };
        let map = MapHandle::create(MapType::Array, Some("lock_page"), 4, PAGE_BYTES as u32, 1, &options)
            .map_err(|e| LinuxError::Machine(format!("a client's page is refused: {e}; free some memory")))?;
        let words = Mapped::new(&map, PAGE_BYTES)?;
        Ok(Self { map, words })
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Writes it whole, before anybody else has it.
    pub fn fill(&self, bytes: &[u8; PAGE_BYTES]) -> Result<(), LinuxError> {
        let written = self.map.update(&0u32.to_ne_bytes(), bytes, MapFlags::ANY);
        written.map_err(|e| inside(&format!("a client's page cannot be written: {e}")))
    }

    /// A word of it.
    pub fn at(&self, place: usize) -> u64 {
        self.words.double_word(place)
    }

    /// Jobs begun so far, and whether one is under way.
    pub fn jobs(&self) -> (u64, bool) {
        let (low, high) = if cfg!(target_endian = "little") { (8, 12) } else { (12, 8) };
        let word = u64::from(self.words.word(high)) << 32 | u64::from(self.words.word(low));
        (word >> 1, word & 1 == 1)
    }

    /// Sections begun so far, and in how many it is.
    pub fn sections(&self) -> (u32, u32) {
        let (low, high) = if cfg!(target_endian = "little") { (0, 4) } else { (4, 0) };
        (self.words.word(high), self.words.word(low))
    }
}

/// Whose page it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub scope: Scope,
    /// Of the thread, or of the process for a program.
    pub number: u32,
    /// When it started, in hundredths of a second since the machine did.
    pub started: u64,
    /// No limit holds for it.
    pub endless: bool,
    /// The task whose jobs it signals.
    pub task: Option<u32>,
    /// The slot of the time table that it has.
    pub slot: Option<u32>,
}

/// The maps of a loaded object, and the CPUs' ticks.
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
    /// Of a loaded object whose programs are called.
    pub fn new(object: &Object, events: &Attached, serving: Serving) -> Result<Self, LinuxError> {
        let handle = |name: &str| {
            MapHandle::try_from(&bpf::map(object, name)?)
                .map_err(|e| inside(&format!("the map `{name}` cannot be shared: {e}")))
        };
        let copies = |events: &[Paced]| -> Result<Vec<Paced>, LinuxError> {
            let copy = |p: &Paced| {
                let event = p.event.try_clone().map_err(|e| inside(&format!("an event cannot be shared: {e}")))?;
                Ok(Paced { event, ..*p })
            };
            events.iter().map(copy).collect()
        };
        let table = Self {
            clients: handle("lock_clients")?,
            threads: handle("lock_threads")?,
            programs: handle("lock_programs")?,
            slots: handle("lock_slots")?,
            pages: handle("lock_pages")?,
            cores: handle("lock_cores")?,
            tasks: handle("dynamic_tasks")?,
            ticks: copies(&events.ticks)?,
            counters: copies(&events.counters)?,
            serving,
            counts: [0; 2],
        };
        if !table.serving.slots_only {
            table.pace(false)?;
        }
        Ok(table)
    }

    /// With the first client every CPU begins to look, with the last one that ends: interrupts cost time.
    fn pace(&self, clients: bool) -> Result<(), LinuxError> {
        let set = |p: &Paced, period: u64| {
            sys::on_cpu(p.cpu, || seqpacket::set_period(&p.event, period))
                .map_err(|e| inside(&format!("an event of CPU {} cannot be changed: {e}", p.cpu)))
        };
        self.ticks.iter().try_for_each(|p| set(p, if clients { self.serving.look_ns } else { p.period }))?;
        self.counters.iter().try_for_each(|p| set(p, if clients { p.period } else { SELDOM }))
    }

    /// Gives a slot to an owner.
    pub fn admit(&mut self, slot: u32, owner: Owner) -> Result<Page, LinuxError> {
        let fail = |e| inside(&format!("a client cannot be admitted: {e}"));
        let page = Page::new()?;
        if self.unknown(owner) {
            return Ok(page);
        }
        let mut state = [0u8; 32];
        state[24..].copy_from_slice(&u64::from(owner.endless).to_ne_bytes());
        self.slots.update(&slot.to_ne_bytes(), &state, MapFlags::ANY).map_err(fail)?;
        let map = page.map.as_fd().as_raw_fd().to_ne_bytes();
        self.pages.update(&slot.to_ne_bytes(), &map, MapFlags::ANY).map_err(fail)?;
        let mut value = [0u8; 16];
        value[..8].copy_from_slice(&owner.started.to_ne_bytes());
        value[8..12].copy_from_slice(&slot.to_ne_bytes());
        self.owners(owner.scope).update(&owner.number.to_ne_bytes(), &value, MapFlags::ANY).map_err(fail)?;
        if let Some(task) = owner.task {
            dynamic::set_page(&self.tasks, task, Some(slot))?;
        }
        self.count(owner.scope, 1)?;
        Ok(page)
    }

    /// Takes it back.
    pub fn dismiss(&mut self, slot: u32, owner: Owner) -> Result<(), LinuxError> {
        if self.unknown(owner) {
            return Ok(());
        }
        if let Some(task) = owner.task {
            dynamic::set_page(&self.tasks, task, None)?;
        }
        // What is gone already is gone.
        let _ = self.owners(owner.scope).delete(&owner.number.to_ne_bytes());
        let _ = self.pages.delete(&slot.to_ne_bytes());
        self.count(owner.scope, -1)
    }

    /// Do the programs know nothing of it? A transfer is their business only where every client may hold the lock.
    fn unknown(&self, owner: Owner) -> bool {
        owner.slot.is_some() && !self.serving.holders
    }

    fn owners(&self, scope: Scope) -> &MapHandle {
        match scope {
            Scope::Thread | Scope::Slot => &self.threads,
            Scope::Program => &self.programs,
        }
    }

    /// Tells the programs how many clients there are.
    fn count(&mut self, scope: Scope, by: i32) -> Result<(), LinuxError> {
        let before = self.counts[0] + self.counts[1];
        let count = &mut self.counts[usize::from(scope == Scope::Program)];
        *count = count.saturating_add_signed(by);
        let now = self.counts[0] + self.counts[1];
        let mut value = [0u8; 8];
        value[..4].copy_from_slice(&self.counts[0].to_ne_bytes());
        value[4..].copy_from_slice(&self.counts[1].to_ne_bytes());
        self.clients
            .update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|e| inside(&format!("the number of clients cannot be set: {e}")))?;
        if (before == 0) == (now == 0) { Ok(()) } else { self.pace(now != 0) }
    }

    /// Number of the last section of this slot that was held for too long.
    pub fn cut(&self, slot: u32) -> Option<u32> {
        let bytes = self.slots.lookup(&slot.to_ne_bytes(), MapFlags::ANY).ok()??;
        u32::try_from(word(&bytes, CUT).checked_sub(1)?).ok()
    }

    /// What the lock did so far, by CPU.
    pub fn cores(&self) -> Vec<LockCounts> {
        let of = |cpu: u32| {
            let bytes = self.cores.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
            LockCounts {
                cpu,
                held_periods: word(&bytes, core_at::HELD),
                stops: word(&bytes, core_at::STOPS),
                early_releases: word(&bytes, core_at::FREES),
                slot: word(&bytes, core_at::SLOT).checked_sub(1).and_then(|s| u32::try_from(s).ok()),
            }
        };
        (0..if self.serving.holders { self.serving.cpus } else { 0 }).map(of).collect()
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().unwrap_or([0; 8])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulate::lock::SETTINGS_BYTES;
    use crate::regulate::shared::tests::{offset, size};

    #[test]
    fn every_offset_is_that_of_the_objects() {
        for object in [crate::regulate::bpf::SCHED_EXT, crate::regulate::bpf::HELPER] {
            for (member, at) in
                [("slot", core_at::SLOT), ("held", core_at::HELD), ("stops", core_at::STOPS), ("frees", core_at::FREES)]
            {
                assert_eq!(offset(object, "run_lock", member), at, "{member}");
            }
            for (member, at) in [("section", 0), ("since_ns", 8), ("cut", CUT), ("endless", 24)] {
                assert_eq!(offset(object, "run_slot", member), at, "{member}");
            }
            for (member, at) in [("max_budget", 0), ("min_budget", 8), ("max_hold_ns", 16), ("policy", 24)] {
                assert_eq!(offset(object, "lock_settings", member), at, "{member}");
            }
            assert_eq!(size(object, "lock_settings"), SETTINGS_BYTES);
            assert_eq!((offset(object, "run_owner", "started"), offset(object, "run_owner", "slot")), (0, 8));
            assert_eq!((offset(object, "run_clients", "threads"), offset(object, "run_clients", "programs")), (0, 4));
        }
    }

    #[test]
    fn requests_of_another_shape_are_none() {
        let mut bytes = [0u8; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&1u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&2u32.to_ne_bytes());
        bytes[8..12].copy_from_slice(&77u32.to_ne_bytes());
        bytes[NAME_AT..NAME_AT + 3].copy_from_slice(b"abc");
        let request = Request::decode(&bytes).unwrap();
        assert_eq!(request, Request { protocol: 1, scope: Scope::Program, thread: 77, task: "abc".to_owned() });
        assert_eq!(Request::decode(&bytes[..79]), None);
        let mut endless_name = bytes;
        endless_name[NAME_AT..].fill(b'x');
        assert_eq!(Request::decode(&endless_name), None);
        let mut no_text = bytes;
        no_text[NAME_AT] = 0xff;
        assert_eq!(Request::decode(&no_text), None);
        bytes[4] = 3;
        assert_eq!(Request::decode(&bytes).map(|r| r.scope), Some(Scope::Slot));
        bytes[4] = 4;
        assert_eq!(Request::decode(&bytes), None);
        assert_eq!(answer(Err(Refusal::NoRoom), 5)[..4], 2u32.to_ne_bytes());
        assert_eq!(answer(Ok(9), 5)[4..8], 9u32.to_ne_bytes());
    }
}
