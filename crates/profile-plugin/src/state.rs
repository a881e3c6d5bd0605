//! State that the callbacks share: the threads' own caches, and one state behind a gate.
//!
//! Rule: a thread touches only its own part; the gate is locked once there is a second thread.

use crate::chains::Chains;
use crate::code::Code;
use crate::files::Files;
use crate::frames::FrameTable;
use crate::guest::Target;
use crate::part::Part;
use crate::qemu;
use crate::recorder::Recorder;
use crate::syscalls::Call;
use rustc_hash::FxHashMap;
use solocore_cache::contract::{Config, PROGRESS_INSTRUCTIONS};
use solocore_cache::{Geometry, Private, Shared};
use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::ffi::c_uint;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};

pub const MAX_THREADS: usize = 4096;
pub static THREADS: [AtomicPtr<Thread>; MAX_THREADS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_THREADS];
pub static GLOBAL: OnceLock<Gate> = OnceLock::new();
/// Whether there is, or will soon be, a second thread: from then on the gate is locked.
pub static MANY: AtomicBool = AtomicBool::new(false);

/// The shared state. While the program has one thread, the lock (a third of the cost of a miss) is
/// left alone.
pub struct Gate {
    pub lock: Mutex<()>,
    pub global: UnsafeCell<Global>,
}

// SAFETY: the cell is reached only through `global`, by the only thread or with the lock held.
unsafe impl Sync for Gate {}

/// Access to the shared state.
pub struct Guard {
    global: &'static mut Global,
    _lock: Option<MutexGuard<'static, ()>>,
}

impl std::ops::Deref for Guard {
    type Target = Global;

    fn deref(&self) -> &Global {
        self.global
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Global {
        self.global
    }
}

#[repr(C)]
pub struct Thread {
    pub line_shift: u32,
    /// Bit of the access information that marks a store; 0: QEMU must be asked.
    pub store_bit: u32,
    pub last_fetch: u64,
    pub private: Private,
    pub chains: Chains,
    pub geometry: Geometry,
    pub unmaps_seen: usize,
    pub pending: Option<Pending>,
    /// Instruction count at which progress is written again.
    pub next_report: u64,
}

impl Thread {
    pub fn new(g: &Global) -> Self {
        Self {
            line_shift: g.geometry.line_shift,
            store_bit: find_store_bit(),
            last_fetch: u64::MAX,
            private: Private::new(&g.geometry),
            chains: Chains::new(),
            geometry: g.geometry.clone(),
            unmaps_seen: g.unmaps.len(),
            pending: None,
            next_report: PROGRESS_INSTRUCTIONS,
        }
    }
}

/// A system call that was entered and has not returned.
pub struct Pending {
    pub call: Call,
    pub args: [u64; 6],
    pub file: Option<PathBuf>,
    /// Path that it opens for reading.
    pub opened: Option<PathBuf>,
}

pub struct Global {
    pub config: Config,
    pub geometry: Geometry,
    pub target: Option<Target>,
    pub part: Part,
    pub files: Files,
    /// Files that the emulator itself had mapped before it loaded the program.
    pub emulators_own: HashSet<PathBuf>,
    pub shared: Shared,
    pub frames: FrameTable,
    pub recorder: Recorder,
    pub code: FxHashMap<(u32, u64), &'static Code>,
    pub guest_base: Option<u64>,
    pub unmaps: Vec<(u64, u64)>,
    pub threads: u32,
    pub children: u32,
}

pub fn global() -> Option<Guard> {
    let gate = GLOBAL.get()?;
    let lock = if MANY.load(Relaxed) { Some(gate.lock.lock().ok()?) } else { None };
    // SAFETY: with one thread no other code runs a callback, and no callback calls another while it
    // holds a guard; with several the lock is held. `on_thread` sets MANY in the thread that
    // creates the second one, before that one starts.
    let global = unsafe { &mut *gate.global.get() };
    Some(Guard { global, _lock: lock })
}

#[inline(always)]
pub fn thread(vcpu: c_uint) -> Option<&'static mut Thread> {
    let slot = THREADS.get(vcpu as usize)?;
    // SAFETY: the pointer is null or a leaked box; QEMU runs the callbacks of one vCPU in one
    // thread, and `finish` runs when QEMU has stopped all of them, so the reference is unique.
    unsafe { slot.load(Relaxed).as_mut() }
}

/// Finds the bit of the access information that marks stores, so that the hot path need not call
/// QEMU for it; 0 if it is not one bit.
fn find_store_bit() -> u32 {
    // SAFETY: a pure function of its argument.
    let is_store = |info| unsafe { qemu::qemu_plugin_mem_is_store(info) };
    let mut bits = (0..32).map(|b| 1u32 << b).filter(|&bit| is_store(bit));
    match (is_store(0), bits.next(), bits.next()) {
        (false, Some(bit), None) => bit,
        _ => 0,
    }
}
