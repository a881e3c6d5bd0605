//! The board's parts, and the threads that may touch them.
//!
//! Rule: at any time one vCPU runs, the schedule's holder, or the clock's thread while there is
//! none. That one has the machine and all vCPUs to itself; the hand-over goes through QEMU's big
//! lock. The schedule ([`crate::schedule`]) is used with the big lock held.

use crate::allocation::Allocation;
use crate::config::{Config, ModelSwitch};
use crate::machine::{Geometry, Machine};
use crate::qemu::{Member, qemu};
use crate::truth::Truth;
use crate::vcpu::{Common, Own, Score, Vcpu};
use solocore_model::Platform;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The time stamp counter, as a count, of a CPU with this clock in Hz after `ns` nanoseconds.
/// It counts the platform's clock on every core, as an invariant counter does, so that the guest
/// finds the platform's frequency.
#[must_use]
pub fn ticks(ns: i64, frequency: u64) -> i64 {
    let ticks = i128::from(ns) * i128::from(frequency) / 1_000_000_000;
    i64::try_from(ticks).unwrap_or(i64::MAX)
}

/// Whether all vCPUs exist and time runs.
static LIVE: AtomicBool = AtomicBool::new(false);
/// Whether references go through the model of memory.
pub static MODEL: AtomicBool = AtomicBool::new(false);

thread_local! {
    static THIS: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Whether time runs.
#[inline]
pub fn is_live() -> bool {
    LIVE.load(Relaxed)
}

/// Starts the time.
pub fn set_live() {
    LIVE.store(true, Relaxed);
}

/// The vCPU of this thread.
#[inline]
pub fn this_vcpu() -> Option<usize> {
    let at = THIS.get();
    (at != usize::MAX).then_some(at)
}

/// Marks this thread as that of a vCPU.
pub fn set_this_vcpu(at: usize) {
    THIS.set(at);
}

/// Calls a function in this thread as if it belonged to no vCPU: clocks then show global time.
pub fn as_no_vcpu<T>(what: impl FnOnce() -> T) -> T {
    let this = THIS.replace(usize::MAX);
    let result = what();
    THIS.set(this);
    result
}

/// The board.
pub struct Board {
    /// Configuration by the host.
    pub config: Config,
    /// The platform.
    pub platform: Platform,
    /// Numbers of all vCPUs.
    pub common: Common,
    /// Numbers of each vCPU's core.
    pub own: Vec<Own>,
    scoreboard: *mut c_void,
    machine: UnsafeCell<Machine>,
    vcpus: UnsafeCell<Vec<Vcpu>>,
    truth: UnsafeCell<Truth>,
    allocation: UnsafeCell<Allocation>,
}

// SAFETY: the head of this file names the threads that may touch each part.
unsafe impl Sync for Board {}
// SAFETY: as above; QEMU's pointers belong to no thread.
unsafe impl Send for Board {}

static BOARD: OnceLock<Board> = OnceLock::new();

/// The board; made before any callback is registered.
#[inline(always)]
pub fn board() -> &'static Board {
    match BOARD.get() {
        Some(board) => board,
        None => unreachable!("made before callbacks are registered"),
    }
}

/// Numbers of a core; `stated` is the time of an instruction, if one is stated for all.
fn own(p: &Platform, core: u32, stated: Option<u64>) -> Own {
    let clock = p.clock_of(core);
    // One place after the point is enough: cpi is about 1, a cycle hundreds of picoseconds.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: 0.01 to 1000 cycles"
    )]
    let by_cycles = (p.cpi_of(core) * clock.cycles_to_ps(1000) as f64 / 1000.0).round() as u64;
    Own {
        cpi_ps: stated.unwrap_or(by_cycles).max(1),
        frequency: clock.0,
        l1d_sets: Geometry::of(p, Some(core)).l1d_sets(),
    }
}

/// Makes the board.
///
/// # Errors
/// One line: a part of the platform is missing or cannot be modelled.
pub fn make(config: Config) -> Result<&'static Board, String> {
    let path = &config.platform;
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let platform = Platform::parse(path, &text).map_err(|e| e.to_string())?;
    let mut machine =
        Machine::new(&platform, config.cpus, config.seed, config.prefetcher, config.allocation)?;
    if let Some(path) = &config.trace {
        machine.trace = Some(crate::trace::Trace::create(path)?);
    }
    let cores = 0..u32::try_from(config.cpus).unwrap_or(1);
    let own: Vec<Own> = cores.map(|core| own(&platform, core, config.cpi_ps)).collect();
    let common = Common {
        cpi_ps: own.iter().map(|own| own.cpi_ps).min().unwrap_or(1),
        frequency: platform.frequency.0,
        line_shift: machine.geometry.line_shift,
    };
    MODEL.store(config.model == ModelSwitch::On, Relaxed);
    // SAFETY: as the interface asks, before any vCPU runs.
    let scoreboard = unsafe { (qemu().scoreboard_new)(size_of::<Score>()) };
    let allocation = Allocation::new(&config, &platform);
    let board = Board {
        common,
        own,
        scoreboard,
        truth: UnsafeCell::new(Truth::default()),
        machine: UnsafeCell::new(machine),
        vcpus: UnsafeCell::new(Vec::with_capacity(config.cpus)),
        allocation: UnsafeCell::new(allocation),
        platform,
        config,
    };
    Ok(BOARD.get_or_init(|| board))
}

impl Board {
    /// The vCPUs and the machine.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "see the head of this file")]
    pub fn vcpus_and_machine(&self) -> (&mut Vec<Vcpu>, &mut Machine) {
        // SAFETY: see the head of this file.
        unsafe { (&mut *self.vcpus.get(), &mut *self.machine.get()) }
    }

    /// The counts of programs.
    #[allow(clippy::mut_from_ref, reason = "see the head of this file")]
    pub fn truth(&self) -> &mut Truth {
        // SAFETY: see the head of this file.
        unsafe { &mut *self.truth.get() }
    }

    /// Registers of cache allocation.
    #[allow(clippy::mut_from_ref, reason = "see the head of this file")]
    pub fn allocation(&self) -> &mut Allocation {
        // SAFETY: see the head of this file.
        unsafe { &mut *self.allocation.get() }
    }

    /// The scoreboard's member for local time.
    pub fn time(&self) -> Member {
        Member { score: self.scoreboard, offset: offset_of!(Score, time) }
    }

    /// The scoreboard's member for instructions of programs, or of the kernel.
    pub fn instructions(&self, kernel: bool) -> Member {
        Member {
            score: self.scoreboard,
            offset: offset_of!(Score, instructions) + 8 * usize::from(kernel),
        }
    }

    /// The scoreboard's member for the last fetched line.
    pub fn last_line(&self) -> Member {
        Member { score: self.scoreboard, offset: offset_of!(Score, last_line) }
    }

    /// The entry of a vCPU; QEMU may move it until all vCPUs exist.
    pub fn entry(&self, at: usize) -> *mut Score {
        let at = std::ffi::c_uint::try_from(at).unwrap_or(0);
        // SAFETY: the vCPU exists.
        unsafe { (qemu().scoreboard_find)(self.scoreboard, at) }.cast()
    }
}
