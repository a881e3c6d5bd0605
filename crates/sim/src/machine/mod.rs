//! The machine, request by request: cores with private caches and miss registers, a shared cache,
//! DRAM, DMA engines.
//!
//! Problem: experiments need the time of every miss under contention, with the regulators'
//! interrupts in between, at tens of millions of accesses a second. Rule: all shared parts (shared
//! cache, DRAM, devices) see accesses in the order of time. Between two such accesses a core
//! depends on no other part. So it runs on through its private caches in one go, until it needs a
//! shared part. Cores, DRAM and devices each keep the time of their next event, and the earliest
//! comes next. At equal times DRAM comes first, then devices, then cores by number. Idle time and
//! long computations cost one event.
//!
//! Costs. An operation costs its cycles; a hit in the first level nothing more. In the second level
//! or the shared cache a hit costs its latency if the core waits for it, nothing if it is posted. A
//! fill from DRAM costs the look-up of the shared cache, the overhead of controller and
//! interconnect (both before it queues), and the DRAM (docs/dram.md). Each fill holds a miss
//! register. A core without a free one stalls before the look-up of its next fill, even if it would
//! hit. Dirty lines travel down as posted writes and are counted on the core whose access evicted
//! them. A core with more than [`WRITE_BUFFER`] of them in front of the controller stalls before
//! its next use of the shared cache. A line is in a cache from the moment it is asked for; only its
//! own core waits for its data. As in a profile, `llc_accesses` are fills asked for by the private
//! caches and `llc_misses` those that go to DRAM; lines written back are in neither.
//!
//! Sharing. Frames of several programs or of a device are kept coherent, and their accesses are
//! made in the order of time. A write takes the line out of the other cores' private caches, a read
//! first moves another core's dirty line to the shared cache. Messages cost no time. A device's
//! write takes the line out of all caches; a device's read goes to DRAM.
//!
//! Error of the order. A core runs at most `quantum_ps` ahead, and never beyond the time of
//! [`Hardware::advance`]. So a dispatch that answers a notice of another core or device can take
//! effect up to a quantum late. Counters read at such a notice can be up to a quantum ahead. A
//! core's own notices are exact, and so is the whole state at the time of `advance`. A snooped line
//! can have left a cache up to a quantum early. Without dispatches the result does not depend on
//! how `advance` is called.
//!
//! Locked pages always hit; the ways they take must be kept out of the masks by the caller. With
//! lines shorter than a burst of the DRAM (32 B on a 64-bit channel), two lines share a burst, and
//! a read of one is answered from a waiting write of the other.
//! Prefetchers (`prefetch`) and translation buffers with page walks (`translation`) are off unless
//! the configuration names them. Lines that they ask for are among `llc_accesses`, `llc_misses` and
//! the reads of the core.
//! Not covered: wrong-path accesses, ports and banks of caches, time of coherence messages.

mod build;
mod clock;
mod config;
mod core;
mod dma;
mod events;
mod frames;
mod key;
mod layout;
mod loaded;
mod mshrs;
mod pages;
mod prefetch;
#[cfg(test)]
mod tests;
mod translation;

pub use config::{DmaSpec, MachineConfig, MachineError, Own, Stream, Translation};
pub use layout::Layout;

use self::clock::Clock;
use self::core::MachineCore;
use self::dma::Device;
use self::key::Kinds;
use crate::hardware::{Counters, DeviceId, Hardware, Notice, ProgramId, Transfer, Uncore};
use loaded::Loaded;
use solocore_cache::shared::Shared;
use solocore_dram::controller::{Answer, Controller};
use std::collections::VecDeque;

const NEVER: u64 = u64::MAX;

/// Most lines of a core that it has written and the memory controller has not taken yet.
pub const WRITE_BUFFER: u32 = solocore_model::platform::Pipeline::WRITE_BUFFER;

/// Most lines that one access can send to DRAM: one for each of its uses of the shared cache, and
/// one more for a fill that stores.
const PENDING_WRITES: u32 = self::core::PENDING as u32 + 1;

/// Next action of a core, or the reason for which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No program is dispatched.
    Idle,
    /// Runs on.
    Run,
    /// Uses the shared cache.
    Shared,
    /// Gives a signal.
    Signal,
    /// Waits for the data of a miss register.
    Line(u8),
    /// Waits for a free miss register.
    Register,
    /// Waits for its oldest load.
    Window,
    /// Waits for room in its write buffer.
    Writes,
    /// Waits until another core has released the program.
    Program,
}

/// A dispatch that has not taken effect.
#[derive(Clone, Copy, Debug)]
struct Switch {
    target: Option<ProgramId>,
    overhead_ps: u64,
    /// Time of the request, ps.
    asked_ps: u64,
}

/// A core and its dispatches.
struct Seat {
    core: MachineCore,
    clock: Clock,
    /// Cycle beyond which it does not run: the end of this call of `advance`.
    until: u64,
    /// Cycles that it may run ahead of the others.
    quantum: u64,
    /// Cycles of a hit in the shared cache.
    llc_latency: u64,
    state: State,
    /// Cycle of the next event.
    event: u64,
    /// The program on the core, with its number.
    loaded: Option<(ProgramId, Box<Loaded>)>,
    /// The program of the last dispatch, even if that has not taken effect.
    running: Option<ProgramId>,
    switch: Option<Switch>,
    /// The program that ran here last.
    last: Option<ProgramId>,
    /// Begin of the busy time of the program on the core, ps.
    since_ps: u64,
    /// Begin of the cost of coming back for the program on the core, while it lasts, ps; [`NEVER`]
    /// else.
    recovers_since_ps: u64,
    computed_since: u64,
    /// Counters of the programs before it.
    past: Counters,
    transactions: u64,
    /// Number of the access that causes a notice.
    armed_at: u64,
    /// Has it caused a notice, without the core going on since?
    interrupted: bool,
    /// Lines written that the controller has not taken.
    writes_waiting: u32,
}

/// A program that is not on a core.
struct Resting {
    loaded: Option<Box<Loaded>>,
    past: Counters,
    on: Option<usize>,
    /// Does it give up its job as soon as its core releases it?
    abandon: bool,
    has_run: bool,
    /// Its time of coming back, and of waiting for accesses of the program before it, ps.
    recovered_ps: u64,
}

/// The request-level machine.
pub struct Machine {
    seats: Vec<Seat>,
    /// Time of each core's next event.
    next: Vec<u64>,
    programs: Vec<Resting>,
    shared: Shared,
    controller: Controller,
    devices: Vec<Device>,
    notices: VecDeque<Notice>,
    answers: Vec<Answer>,
    kinds: Kinds,
    now: u64,
    /// Time from the use of the shared cache to the arrival at the controller, ps.
    way_ps: u64,
    overhead_ps: u64,
    /// Have the cores translation buffers?
    translates: bool,
    layout: Layout,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("now_ps", &self.now)
            .field("cores", &self.seats.len())
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// Banks and colours of frames, for the page allocator.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The device whose event comes first.
    #[inline]
    fn device_next(&self) -> (u64, usize) {
        let (mut best, mut which) = (NEVER, 0);
        for (device, d) in self.devices.iter().enumerate() {
            (best, which) = if d.next_ps < best { (d.next_ps, device) } else { (best, which) };
        }
        (best, which)
    }

    /// The event of a core, and further ones of its events while no other event comes before or
    /// with them; all before `bound`.
    #[inline]
    fn core_events(&mut self, core: usize, at_ps: u64, bound: u64) {
        self.now = at_ps;
        loop {
            // A dispatch that takes effect can concern another core.
            let alone = self.seats[core].switch.is_none();
            self.core_event(core);
            let next = self.next[core];
            if !alone
                || next >= bound
                || next >= self.controller.next_ps()
                || !self.notices.is_empty()
            {
                return;
            }
            self.now = next;
        }
    }

    /// The core whose event comes first, and the time of the next core's.
    #[inline]
    fn core_next(&self) -> (u64, usize, u64) {
        // Minima without branches: no CPU predicts the next core.
        let (mut best, mut second, mut which) = (NEVER, NEVER, 0);
        for (core, &at) in self.next.iter().enumerate() {
            second = second.min(at.max(best));
            which = std::hint::select_unpredictable(at < best, core, which);
            best = best.min(at);
        }
        (best, which, second)
    }

    /// The counters of the program that is on a core, since it was dispatched there.
    fn live(&self, seat: &Seat) -> Counters {
        let Some((_, loaded)) = &seat.loaded else { return Counters::default() };
        let core = &seat.core;
        let mut partly = 0;
        if matches!(seat.state, State::Run | State::Signal) && self.now > seat.clock.ps(core.cycle)
        {
            partly = core.progress(loaded, seat.clock.at_or_before(self.now));
        }
        Counters {
            compute_cycles: core.computed - seat.computed_since + partly,
            busy_ps: self.now.saturating_sub(seat.since_ps),
            ..core.live
        }
    }
}

fn sum(a: Counters, b: Counters) -> Counters {
    Counters {
        compute_cycles: a.compute_cycles + b.compute_cycles,
        busy_ps: a.busy_ps + b.busy_ps,
        accesses: a.accesses + b.accesses,
        llc_accesses: a.llc_accesses + b.llc_accesses,
        llc_misses: a.llc_misses + b.llc_misses,
        dram_reads: a.dram_reads + b.dram_reads,
        dram_writes: a.dram_writes + b.dram_writes,
    }
}

impl Hardware for Machine {
    fn cores(&self) -> usize {
        self.seats.len()
    }

    fn now_ps(&self) -> u64 {
        self.now
    }

    /// A program that another core has not released yet begins when it is released. A dispatch
    /// replaces an earlier one that has not taken effect; their overheads add up.
    fn dispatch(&mut self, core: usize, program: Option<ProgramId>, overhead_ps: u64) {
        let now = self.now;
        let seat = &mut self.seats[core];
        seat.running = program;
        let before = seat.switch.map_or(0, |s| s.overhead_ps);
        seat.switch =
            Some(Switch { target: program, overhead_ps: before + overhead_ps, asked_ps: now });
        match seat.state {
            State::Run | State::Signal => {
                if let Some((_, loaded)) = &mut seat.loaded {
                    let done = seat.core.progress(loaded, seat.clock.at_or_before(now));
                    loaded.computed(done);
                    seat.core.cycle += done;
                    seat.core.computed += done;
                }
                let from = now.max(seat.clock.ps(seat.core.cycle));
                self.take_hold(core, from);
            }
            State::Idle | State::Program => {
                let from = now.max(seat.clock.ps(seat.core.cycle));
                self.take_hold(core, from);
            }
            // First its accesses must be made, and the data that it waits for must come.
            _ => {}
        }
    }

    fn running(&self, core: usize) -> Option<ProgramId> {
        self.seats[core].running
    }

    fn abandon_job(&mut self, program: ProgramId) {
        let resting = &mut self.programs[program.0 as usize];
        match &mut resting.loaded {
            Some(loaded) => loaded.abandon_job(),
            None => resting.abandon = true,
        }
    }

    fn advance(&mut self, until_ps: u64) -> Option<Notice> {
        let until_ps = until_ps.max(self.now);
        for seat in &mut self.seats {
            seat.until = seat.clock.at_or_before(until_ps);
        }
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Some(notice);
            }
            let (core_at, core, then) = self.core_next();
            let (device_at, device) = self.device_next();
            let first = core_at.min(device_at);
            if self.controller.next_ps() <= first.min(until_ps) {
                if let Some(at) = self.controller.advance(first.min(until_ps), &mut self.answers) {
                    self.now = at;
                    self.answered();
                }
            } else if first > until_ps {
                self.now = until_ps;
                return None;
            } else if device_at <= core_at {
                self.now = device_at;
                self.device_event(device);
            } else {
                self.core_events(
                    core,
                    core_at,
                    then.min(device_at).min(until_ps.saturating_add(1)),
                );
            }
        }
    }

    fn arm(&mut self, core: usize, transactions: Option<u64>) {
        let seat = &mut self.seats[core];
        seat.armed_at = transactions.map_or(NEVER, |n| seat.transactions.saturating_add(n));
        if transactions == Some(0) {
            seat.armed_at = NEVER;
            self.notices.push_back(Notice::Overflow { core });
        }
    }

    fn core(&self, core: usize) -> Counters {
        let seat = &self.seats[core];
        sum(seat.past, self.live(seat))
    }

    fn program(&self, program: ProgramId) -> Counters {
        let resting = &self.programs[program.0 as usize];
        resting.on.map_or(resting.past, |core| sum(resting.past, self.live(&self.seats[core])))
    }

    fn recovered_ps(&self, program: ProgramId) -> u64 {
        let resting = &self.programs[program.0 as usize];
        let now = |core: usize| self.now.saturating_sub(self.seats[core].recovers_since_ps);
        resting.recovered_ps + resting.on.map_or(0, now)
    }

    fn uncore(&self) -> Uncore {
        self.controller.counts(self.now)
    }

    /// An order for a device that is at work waits for its turn.
    fn transfer(&mut self, device: DeviceId, order: Transfer) {
        self.devices[device.0 as usize].order(self.now, order);
    }
}
