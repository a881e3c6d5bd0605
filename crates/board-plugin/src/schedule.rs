//! The schedule of the vCPUs: windows of a quantum, one vCPU at a time, and the guest's clocks.
//!
//! Problem: QEMU's vCPUs run at the speed of the host, and its clock is the host's. Rule: global
//! time `T` goes in windows. In each, every vCPU that has work runs once, alone, until its local
//! time reaches the window's end; then the next does. When none is left, its thread, or the clock's
//! thread, runs the window's misses through the DRAM ([`crate::replay`]), moves `T`, and runs
//! QEMU's timers. When no vCPU has work, `T` jumps to the next timer. The guest's clocks (virtual
//! time and with it HPET, PIT, ACPI and the local APICs' timers; the TSC) show the local time of
//! the vCPU that asks. A vCPU that an interrupt wakes goes on at the local time of the one that
//! sent it, or at `T` if a timer did. The order in a window is that of the numbers, forwards and
//! backwards by turns; it only decides the first user of a line in the shared cache. The ends of
//! quanta are spread by up to a quarter of a quantum from the seed: with even ends two vCPUs that
//! spin for each other can miss each other for ever. A window ends early where a timer is due.
//!
//! QEMU wakes sleeping vCPUs for work of its own, when the host pleases; each time a window passes
//! in which none of them runs. So nothing here depends on how many windows there were: order and
//! ends are functions of the seed and of the time at which a window begins.
//!
//! Control of QEMU: a vCPU that may not run is paused (`cpu_pause`); the end of a quantum is
//! noticed by the translated code, which asks for work in the vCPU's thread, where pausing is
//! allowed. All of [`Schedule`] is used with QEMU's big lock held. No vCPU is released while the
//! machine is not running, as QEMU waits for all vCPUs to stop when it ends.

use crate::board::{self, MODEL, board};
use crate::config::{Config, ModelSwitch};
use crate::qemu::{AT_LEAST, BigLock, Cpu, VIRTUAL, qemu};
use crate::time::NOW_PS;
use crate::vcpu::{FIRE, Vcpu};
use solocore_model::random::Random;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Least length of a window that a timer cuts short.
const LEAST_PS: u64 = 2_000_000;
/// Factor of the quanta's length while the model is not asked for yet.
const UNMEASURED: u64 = 4;
/// A condition variable of QEMU's, which is smaller than this.
type Condition = [u64; 16];

/// State of a vCPU here.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    /// Whether the schedule has paused it.
    held: bool,
    /// Whether it has gone to sleep.
    asleep: bool,
    /// Time at which it was woken.
    woken_ps: u64,
}

/// Numbers of the schedule.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Statistics {
    /// Windows.
    pub windows: u64,
    /// Quanta.
    pub quanta: u64,
    /// Jumps over idle time.
    pub jumps: u64,
    /// Time that was jumped over.
    pub jumped_ps: u64,
}

/// The schedule.
pub struct Schedule {
    seats: Vec<Seat>,
    /// vCPUs that have started.
    pub started: usize,
    holder: Option<usize>,
    end_ps: u64,
    forwards: bool,
    seed: u64,
    quantum_ps: u64,
    clock_wanted: bool,
    condition: Box<Condition>,
    /// Statistics of the schedule.
    pub statistics: Statistics,
}

impl Schedule {
    /// The schedule of this number of vCPUs.
    pub fn new(cpus: usize, quantum_ps: u64, seed: u64) -> Self {
        Self {
            seats: vec![Seat::default(); cpus],
            started: 0,
            holder: None,
            end_ps: quantum_ps,
            forwards: true,
            seed,
            quantum_ps,
            clock_wanted: false,
            condition: Box::new([0; 16]),
            statistics: Statistics::default(),
        }
    }

    fn condition(&mut self) -> *mut c_void {
        (&raw mut *self.condition).cast()
    }

    /// Whether the vCPU has work, held or not.
    fn can_run(&self, vcpus: &[Vcpu], at: usize) -> bool {
        // SAFETY: a vCPU of QEMU, with the big lock held.
        self.seats[at].held || !unsafe { (qemu().cpu_is_idle)(vcpus[at].cpu) }
    }

    fn hold(&mut self, vcpus: &[Vcpu], at: usize) {
        self.seats[at].held = true;
        // SAFETY: as in `can_run`; called where QEMU allows it, in work or in the callback of a
        // vCPU that wakes.
        unsafe { (qemu().cpu_pause)(vcpus[at].cpu) };
    }

    fn release(&mut self, vcpus: &[Vcpu], at: usize) {
        if std::mem::take(&mut self.seats[at].held) {
            // SAFETY: as in `can_run`.
            unsafe { (qemu().cpu_resume)(vcpus[at].cpu) };
        }
    }

    /// Time at which a vCPU would go on.
    fn start_of(&self, vcpus: &[Vcpu], at: usize) -> u64 {
        let seat = self.seats[at];
        let woken = if seat.asleep { seat.woken_ps.max(NOW_PS.load(Relaxed)) } else { 0 };
        vcpus[at].local().max(woken)
    }

    fn want_clock(&mut self) {
        self.holder = None;
        self.clock_wanted = true;
        let condition = self.condition();
        // SAFETY: initialised before any vCPU runs, at an address that stays.
        unsafe { (qemu().cond_signal)(condition) };
    }

    /// Chooses the next vCPU of the window and releases it. `own` has not been paused: it only gets
    /// its new times.
    fn choose(&mut self, own: Option<usize>) -> Option<usize> {
        let (vcpus, machine) = board().vcpus_and_machine();
        // SAFETY: no arguments.
        if !unsafe { (qemu().is_running)() } {
            return None;
        }
        let count = vcpus.len();
        for k in 0..count {
            // There and back, so that the last of a window is the first of the next.
            let at = if self.forwards { k } else { count - 1 - k };
            let start = self.start_of(vcpus, at);
            if !self.can_run(vcpus, at) || start >= vcpus[at].end_ps {
                continue;
            }
            if let Some(own) = own.filter(|&own| own != at) {
                self.hold(vcpus, own);
            }
            self.release(vcpus, at);
            // The reason for its wake-up may be gone.
            if !self.can_run(vcpus, at) {
                continue;
            }
            self.holder = Some(at);
            self.statistics.quanta += 1;
            self.seats[at].asleep = false;
            let end = vcpus[at].end_ps;
            vcpus[at].go_on(machine, start, end);
            return Some(at);
        }
        None
    }

    /// The next vCPU of the window runs, or the clock's thread if there is none.
    fn pass_on(&mut self) {
        if self.choose(None).is_none() {
            self.want_clock();
        }
    }

    /// Ends the quantum of `at`, in its thread. The next vCPU runs; if the window is over, the next
    /// window begins here, which saves waking the clock's thread.
    fn end_of(&mut self, at: usize) {
        self.holder = None;
        loop {
            if self.choose(Some(at)).is_some() {
                return;
            }
            if !self.next_window(&mut 0) {
                break;
            }
        }
        let (vcpus, _) = board().vcpus_and_machine();
        if !self.seats[at].held {
            self.hold(vcpus, at);
        }
        self.want_clock();
    }

    /// The longest window. Until the guest asks for the model, nothing is measured, and longer
    /// windows save time.
    fn length_ps(&self) -> u64 {
        let asked = board().config.model == ModelSwitch::Asked && !MODEL.load(Relaxed);
        if asked { self.quantum_ps * UNMEASURED } else { self.quantum_ps }
    }

    /// Sets the order and spreads the ends of the quanta in the window that begins at this time.
    fn spread(&mut self, begin_ps: u64, vcpus: &mut [Vcpu]) {
        // There and back by turns, in windows that no timer cuts short.
        self.forwards = (begin_ps / self.quantum_ps).is_multiple_of(2);
        let mut random = Random::new(self.seed ^ Random::new(begin_ps).next());
        let spread = self.length_ps() / 4;
        for vcpu in vcpus {
            vcpu.end_ps = self.end_ps + random.below(spread);
        }
    }

    /// Ends a window. Returns whether there is a vCPU to run.
    fn next_window(&mut self, idle_for: &mut u32) -> bool {
        let q = qemu();
        let (vcpus, machine) = board().vcpus_and_machine();
        let now = NOW_PS.load(Relaxed);
        // SAFETY: no arguments.
        let running = unsafe { (q.is_running)() };
        let any = (0..vcpus.len()).any(|at| self.can_run(vcpus, at));
        let mut next = self.end_ps;
        // SAFETY: a clock of QEMU's; all attributes.
        let deadline = unsafe { (q.deadline_ns)(VIRTUAL, -1) };
        if !any || !running {
            if deadline < 0 || !running {
                *idle_for += 1;
                return false;
            }
            let due = now + (deadline.cast_unsigned() + 1) * 1000;
            if due > next {
                self.statistics.jumps += 1;
                self.statistics.jumped_ps += due - next;
                next = due;
            }
        }
        *idle_for = 0;
        let behind = self.quantum_ps / 2;
        let changes = machine.replay(next.saturating_sub(behind));
        for (vcpu, &change) in vcpus.iter_mut().zip(changes) {
            vcpu.correct(change);
        }
        NOW_PS.store(next, Relaxed);
        self.statistics.windows += 1;
        board::as_no_vcpu(|| {
            // SAFETY: with the big lock held, as QEMU's main loop does it.
            unsafe { (q.run_timers)(VIRTUAL) }
        });
        // SAFETY: as above.
        let deadline = unsafe { (q.deadline_ns)(VIRTUAL, -1) };
        let until_timer =
            u64::try_from(deadline).map_or(u64::MAX, |ns| (ns + 1).saturating_mul(1000));
        self.end_ps = next + until_timer.clamp(LEAST_PS.min(self.quantum_ps), self.length_ps());
        self.spread(next, vcpus);
        // SAFETY: as above.
        running && unsafe { (q.is_running)() } && (0..vcpus.len()).any(|at| self.can_run(vcpus, at))
    }

    /// An interrupt has woken a sleeping vCPU: it goes on at the time of its sender.
    fn wake(&mut self, at: usize, now_ps: u64) {
        if self.seats[at].asleep && self.seats[at].woken_ps == 0 {
            self.seats[at].woken_ps = now_ps;
        }
    }
}

/// The one schedule, which every thread uses with the big lock held.
struct Shared(UnsafeCell<Schedule>);

// SAFETY: all of it is used with QEMU's big lock held.
unsafe impl Sync for Shared {}

static SCHEDULE: OnceLock<Shared> = OnceLock::new();

/// Makes the schedule of a board, before any callback is registered.
pub fn make(config: &Config) {
    let new = || Schedule::new(config.cpus, config.quantum_ns * 1000, config.seed);
    SCHEDULE.get_or_init(|| Shared(UnsafeCell::new(new())));
}

/// The schedule; the caller holds the big lock.
pub fn schedule() -> &'static mut Schedule {
    match SCHEDULE.get() {
        // SAFETY: with the big lock held no other thread uses it.
        Some(shared) => unsafe { &mut *shared.0.get() },
        None => unreachable!("made before callbacks are registered"),
    }
}

/// Runs the clock's thread.
pub fn clock_thread() {
    let _lock = BigLock::take();
    let mut idle_for = 0;
    loop {
        let schedule = schedule();
        while !schedule.clock_wanted {
            let condition = schedule.condition();
            // SAFETY: initialised; this thread holds the big lock.
            unsafe { (qemu().cond_wait_bql)(condition) };
        }
        schedule.clock_wanted = false;
        while !schedule.next_window(&mut idle_for) {
            // SAFETY: taken above, and taken again at once.
            unsafe { (qemu().bql_unlock)() };
            if idle_for == 0 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(200));
            }
            // SAFETY: given back above.
            unsafe { (qemu().bql_lock)(c"board-plugin".as_ptr(), 1) };
        }
        schedule.pass_on();
    }
}

/// Makes the condition variable, before any vCPU runs.
pub fn prepare() {
    let condition = schedule().condition();
    // SAFETY: a buffer of its own that is large enough and does not move.
    unsafe { (qemu().cond_init)(condition) };
}

/// Begins the schedule: all vCPUs exist.
pub fn begin() {
    let schedule = schedule();
    let (vcpus, _) = board().vcpus_and_machine();
    for seat in &mut schedule.seats {
        seat.asleep = true;
    }
    schedule.spread(0, vcpus);
    schedule.want_clock();
}

/// Called by the translated code at a quantum's end.
pub extern "C" fn on_end(vcpu: c_uint, _: *mut c_void) {
    let at = vcpu as usize;
    let (vcpus, machine) = board().vcpus_and_machine();
    let Some(v) = vcpus.get_mut(at) else { return };
    if v.ending {
        return;
    }
    v.settle(machine);
    if let Some(walker) = v.walker.as_mut().filter(|w| w.needs_root()) {
        walker.set_root(v.regs.cr3());
    }
    if v.pmu.check_time(&v.now()) {
        v.interrupt();
    }
    if v.local() < v.end_ps {
        v.arm();
        return;
    }
    v.ending = true;
    // SAFETY: a vCPU of QEMU, and a function that may run in its thread.
    unsafe { (qemu().async_run_on_cpu)(v.cpu, work, at) };
}

/// Work in the vCPU's thread, outside the translated code, with the big lock held.
extern "C" fn work(_: *mut Cpu, at: usize) {
    let (vcpus, machine) = board().vcpus_and_machine();
    let schedule = schedule();
    vcpus[at].ending = false;
    if schedule.holder != Some(at) {
        schedule.hold(vcpus, at);
        return;
    }
    vcpus[at].settle(machine);
    if vcpus[at].local() < vcpus[at].end_ps {
        vcpus[at].arm();
        return;
    }
    schedule.end_of(at);
}

/// Called when a vCPU has nothing to do; QEMU holds the big lock.
pub extern "C" fn on_idle(vcpu: c_uint, _: *mut c_void) {
    let at = vcpu as usize;
    let schedule = schedule();
    if !board::is_live() || schedule.seats[at].held {
        return;
    }
    let seat = &mut schedule.seats[at];
    (seat.asleep, seat.woken_ps) = (true, 0);
    if schedule.holder == Some(at) {
        let (vcpus, machine) = board().vcpus_and_machine();
        vcpus[at].settle(machine);
        schedule.pass_on();
    }
}

/// Called when a vCPU has something to do; QEMU holds the big lock.
pub extern "C" fn on_resume(vcpu: c_uint, _: *mut c_void) {
    let at = vcpu as usize;
    let schedule = schedule();
    if !board::is_live() || schedule.holder == Some(at) {
        return;
    }
    let (vcpus, _) = board().vcpus_and_machine();
    schedule.hold(vcpus, at);
    if schedule.holder.is_none() && !schedule.clock_wanted {
        schedule.want_clock();
    }
}

/// Replaces `tcg_handle_interrupt`.
pub extern "C" fn handle_interrupt(cpu: *mut Cpu, mask: c_int) {
    // SAFETY: QEMU's own function with QEMU's own arguments.
    unsafe { (qemu().handle_interrupt)(cpu, mask) };
    if !board::is_live() {
        return;
    }
    // SAFETY: no arguments.
    if !unsafe { (qemu().bql_locked)() } {
        return;
    }
    let schedule = schedule();
    let (vcpus, _) = board().vcpus_and_machine();
    if let Some(at) = vcpus.iter().position(|v| v.cpu == cpu)
        && schedule.seats[at].asleep
        && schedule.can_run(vcpus, at)
    {
        schedule.wake(at, local_now_ps());
    }
}

/// The time of this thread's vCPU, else global time.
fn local_now_ps() -> u64 {
    let now = NOW_PS.load(Relaxed);
    let Some(at) = board::this_vcpu().filter(|_| board::is_live()) else { return now };
    let (vcpus, machine) = board().vcpus_and_machine();
    let v = &mut vcpus[at];
    if schedule().holder == Some(at) {
        v.settle(machine);
    }
    v.local().max(now)
}

/// Replaces `cpus_get_virtual_clock`: nanoseconds, never back on one vCPU.
pub extern "C" fn virtual_clock() -> i64 {
    let ns = local_now_ps() / 1000;
    shown(ns).cast_signed()
}

fn shown(ns: u64) -> u64 {
    match board::this_vcpu().filter(|_| board::is_live()) {
        Some(at) => {
            let (vcpus, _) = board().vcpus_and_machine();
            let v = &mut vcpus[at];
            v.shown_ns = v.shown_ns.max(ns);
            v.shown_ns
        }
        None => ns,
    }
}

/// Replaces `cpus_get_elapsed_ticks`: the TSC.
pub extern "C" fn elapsed_ticks() -> i64 {
    board::ticks(virtual_clock(), board().common.frequency)
}

/// The condition of a block's end.
pub const END: (c_int, u64) = (AT_LEAST, FIRE);
