//! Actions at an event: uses of the shared cache, answers of the memory, devices, dispatches that
//! take effect.

use super::core::{How, PENDING, Pending, Stop, What};
use super::dma::Action;
use super::{
    Counters, Machine, NEVER, Notice, PENDING_WRITES, ProgramId, Seat, State, WRITE_BUFFER, sum,
};
use crate::hardware::DeviceId;
use crate::program::PageKind;
use solocore_cache::private::NONE;

impl Seat {
    /// Adds a DRAM access; true if it causes the notice.
    #[inline]
    fn transaction(&mut self, write: bool) -> bool {
        if write {
            self.core.live.dram_writes += 1;
            self.writes_waiting += 1;
        } else {
            self.core.live.dram_reads += 1;
        }
        self.transactions += 1;
        let reached = self.transactions == self.armed_at;
        if reached {
            self.armed_at = NEVER;
            self.interrupted = true;
        }
        reached
    }
}

impl Machine {
    #[inline]
    pub(super) fn core_event(&mut self, core: usize) {
        let seat = &mut self.seats[core];
        match seat.state {
            State::Run => {
                let at = seat.event;
                self.run(core, at);
            }
            State::Shared => self.use_shared(core),
            State::Signal => self.signal(core),
            _ => self.next[core] = NEVER,
        }
    }

    /// Runs a core from cycle `now` to where it stops.
    #[inline]
    fn run(&mut self, core: usize, now: u64) {
        if self.translates {
            self.run_as::<true>(core, now);
        } else {
            self.run_as::<false>(core, now);
        }
    }

    #[inline(never)]
    fn run_as<const TRANSLATES: bool>(&mut self, core: usize, now: u64) {
        if self.seats[core].recovers_since_ps != NEVER {
            self.recover(core);
        }
        let seat = &mut self.seats[core];
        let limit = (now + seat.quantum).min(seat.until);
        let Some((_, loaded)) = &mut seat.loaded else { return };
        let (state, event) = match seat.core.run::<TRANSLATES>(loaded, now, limit) {
            Stop::Later(at) => (State::Run, at),
            Stop::Shared(at) => {
                // Events of other cores come in between; meanwhile the set is fetched.
                self.shared.prepare(seat.core.pending[0].key);
                (State::Shared, at)
            }
            Stop::Signal => (State::Signal, seat.core.cycle),
            Stop::Line(register) => (State::Line(register), NEVER),
            Stop::Window => (State::Window, NEVER),
        };
        (seat.state, seat.event) = (state, event);
        self.next[core] = if event == NEVER { NEVER } else { seat.clock.ps(event) };
    }

    /// Before a core runs on: ends the time of coming back, if it is over.
    #[cold]
    fn recover(&mut self, core: usize) {
        let seat = &mut self.seats[core];
        let Some((program, loaded)) = &seat.loaded else { return };
        if loaded.at >= loaded.recovered_at {
            let since = std::mem::replace(&mut seat.recovers_since_ps, NEVER);
            let end = seat.clock.ps(seat.core.cycle);
            self.programs[program.0 as usize].recovered_ps += end.saturating_sub(since);
        }
    }

    /// Goes on after an access: a waiting dispatch takes effect, or the core runs on, but not past
    /// a notice.
    #[inline]
    fn go_on(&mut self, core: usize, now: u64) {
        let seat = &mut self.seats[core];
        // The interrupt comes before the next access. Without this cycle, all accesses that are due
        // at this instant would be made first.
        seat.core.cycle += u64::from(std::mem::take(&mut seat.interrupted));
        if seat.switch.is_some() {
            let from = self.now.max(seat.clock.ps(seat.core.cycle));
            self.take_hold(core, from);
        } else if self.notices.is_empty() {
            self.run(core, now);
        } else {
            (seat.state, seat.event) = (State::Run, seat.core.cycle);
            self.next[core] = self.now.max(seat.clock.ps(seat.event));
        }
    }

    /// Makes all uses of the shared cache of an access, if there is room for all their requests.
    fn use_shared(&mut self, core: usize) {
        let seat = &mut self.seats[core];
        let event = seat.event;
        if seat.core.mshrs.is_full() && self.needs_register(core) {
            self.seats[core].state = State::Register;
            self.next[core] = NEVER;
            return;
        }
        let seat = &mut self.seats[core];
        // A prefetch alone waits for nothing.
        if seat.writes_waiting > WRITE_BUFFER - PENDING_WRITES && seat.core.pending_count > 0 {
            seat.state = State::Writes;
            self.next[core] = NEVER;
            return;
        }
        let mut wait = seat.core.then_wait.take();
        for i in 0..seat.core.pending_count {
            let Pending { key, what } = self.seats[core].core.pending[i & (PENDING - 1)];
            match what {
                What::Snoop(write) => self.snoop(core, key, write),
                What::Write => self.write(core, key),
                What::Read(how) => wait = self.read(core, event, key, how).or(wait),
            }
        }
        if self.seats[core].core.chosen != NONE {
            self.prefetch(core, event);
        }
        let seat = &mut self.seats[core];
        seat.core.pending_count = 0;
        match wait.filter(|&register| seat.core.mshrs.busy >> register & 1 == 1) {
            Some(register) => {
                seat.state = State::Line(register);
                self.next[core] = NEVER;
            }
            None => self.go_on(core, event),
        }
    }

    /// Does a pending use take a miss register?
    #[cold]
    fn needs_register(&self, core: usize) -> bool {
        let core = &self.seats[core].core;
        let joins =
            |p: &Pending| !self.kinds.is_uncached(p.key) && core.mshrs.find(p.key).is_some();
        core.pending[..core.pending_count]
            .iter()
            .any(|p| matches!(p.what, What::Read(_)) && !joins(p))
    }

    /// A fill; returns the register whose data the core waits for.
    #[inline(always)]
    pub(super) fn read(&mut self, core: usize, event: u64, key: u64, how: How) -> Option<u8> {
        let seat = &mut self.seats[core];
        let Some((_, loaded)) = &seat.loaded else { return None };
        let kind = self.kinds.kind(key);
        let ways = loaded.ways;
        let store = how == How::Posted(true);
        let mut hit = false;
        if kind != PageKind::Uncached {
            seat.core.live.llc_accesses += 1;
            if let Some(register) = seat.core.mshrs.find(key) {
                if store && kind == PageKind::Cached {
                    self.shared_access(core, key, true, ways);
                }
                return self.join(core, register, how);
            }
            hit = kind == PageKind::Locked;
            if kind == PageKind::Cached {
                hit = self.shared_access(core, key, store, ways);
            }
            self.seats[core].core.live.llc_misses += u64::from(!hit);
        }
        if hit {
            if how == How::Wait {
                let seat = &mut self.seats[core];
                seat.core.cycle = seat.core.cycle.max(event + seat.llc_latency);
            }
            return None;
        }
        if store && (kind == PageKind::Bypass || ways == 0) {
            // No cache keeps the line: it is read, changed and written.
            self.write_dram(core, key);
        }
        let seat = &mut self.seats[core];
        let register = seat.core.mshrs.take(key);
        if seat.transaction(false) {
            self.notices.push_back(Notice::Overflow { core });
        }
        let at = self.now + self.way_ps;
        self.controller.send(at, self.kinds.line(key), false, source(core), u64::from(register));
        self.join(core, register, how)
    }

    /// The access needs the data of a register.
    fn join(&mut self, core: usize, register: u8, how: How) -> Option<u8> {
        match how {
            How::Wait => return Some(register),
            How::Load => self.seats[core].core.load_waits_for(register),
            How::Posted(_) => {}
        }
        None
    }

    /// An access to a cached page in the shared cache; an evicted dirty line goes to DRAM. True for
    /// a hit.
    #[inline]
    fn shared_access(&mut self, core: usize, key: u64, write: bool, ways: u64) -> bool {
        let looked = self.shared.access(key, write, ways);
        if looked.victim != NONE {
            self.write_dram(core, looked.victim);
        }
        looked.hit
    }

    /// A dirty or whole line arrives at the shared cache.
    pub(super) fn write(&mut self, core: usize, key: u64) {
        let ways = self.seats[core].loaded.as_ref().map_or(0, |(_, l)| l.ways);
        let kept = match self.kinds.kind(key) {
            PageKind::Locked => true,
            PageKind::Cached => self.shared_access(core, key, true, ways) || ways != 0,
            PageKind::Bypass | PageKind::Uncached => false,
        };
        if !kept {
            self.write_dram(core, key);
        }
    }

    fn write_dram(&mut self, core: usize, key: u64) {
        if self.seats[core].transaction(true) {
            self.notices.push_back(Notice::Overflow { core });
        }
        let at = self.now + self.way_ps;
        self.controller.send(at, self.kinds.line(key), true, source(core), 0);
    }

    /// Other cores' private copies of a line, before a core reads or writes it.
    pub(super) fn snoop(&mut self, core: usize, key: u64, write: bool) {
        let mut dirty = false;
        for (_, seat) in self.seats.iter_mut().enumerate().filter(|(other, _)| *other != core) {
            dirty |= if write { seat.core.remove(key) } else { seat.core.clean(key) };
        }
        // A written line is dirty with its writer.
        if dirty && !write {
            self.write(core, key);
        }
    }

    fn signal(&mut self, core: usize) {
        let seat = &mut self.seats[core];
        let Some((program, loaded)) = &mut seat.loaded else { return };
        let Some(op) = loaded.ops.get(loaded.at) else { return };
        let (program, signal) = (*program, op.signal_value());
        loaded.at += 1;
        seat.running = None;
        self.notices.push_back(Notice::Signal { core, program, signal });
        self.let_go(core, self.now);
    }

    /// Answers of the memory at this time.
    pub(super) fn answered(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        for answer in answers.drain(..) {
            let source = usize::from(answer.source);
            if source >= self.seats.len() {
                self.devices[source - self.seats.len()].moved(self.now);
            } else if answer.write {
                self.seats[source].writes_waiting -= 1;
                if self.seats[source].state == State::Writes {
                    self.try_shared_again(source);
                }
            } else {
                self.filled(source, answer.tag.to_le_bytes()[0]);
            }
        }
        self.answers = answers;
    }

    /// The data of a miss register are there.
    fn filled(&mut self, core: usize, register: u8) {
        let seat = &mut self.seats[core];
        seat.core.filled(register);
        match seat.state {
            State::Line(waited) if waited == register => {}
            State::Window if seat.core.window_open() => {}
            State::Register => return self.try_shared_again(core),
            _ => return,
        }
        let at = seat.clock.at_or_after(self.now);
        seat.core.cycle = seat.core.cycle.max(at);
        self.go_on(core, at);
    }

    /// A register or a place in the write buffer is free.
    fn try_shared_again(&mut self, core: usize) {
        let seat = &mut self.seats[core];
        seat.event = seat.event.max(seat.clock.at_or_after(self.now));
        seat.core.cycle = seat.core.cycle.max(seat.event);
        seat.state = State::Shared;
        self.next[core] = seat.clock.ps(seat.event);
    }

    pub(super) fn device_event(&mut self, device: usize) {
        match self.devices[device].act(self.now) {
            Action::Send { line, into_memory } => {
                if into_memory {
                    self.take_out(line);
                }
                let source = source(self.seats.len() + device);
                self.controller.send(self.now + self.overhead_ps, line, into_memory, source, 0);
            }
            Action::Transferred => {
                let device = DeviceId(u32::try_from(device).unwrap_or(u32::MAX));
                self.notices.push_back(Notice::Transferred { device });
            }
            Action::Wait => {}
        }
    }

    /// A device writes a line: no cache has it any more.
    fn take_out(&mut self, line: u64) {
        for kind in [PageKind::Cached, PageKind::Bypass, PageKind::Locked] {
            let key = self.kinds.key(line, kind);
            self.seats.iter_mut().for_each(|seat| {
                seat.core.remove(key);
            });
        }
        self.shared.remove(self.kinds.key(line, PageKind::Cached));
    }

    /// A dispatch takes effect at `from_ps`.
    pub(super) fn take_hold(&mut self, core: usize, from_ps: u64) {
        self.let_go(core, from_ps);
        let seat = &mut self.seats[core];
        let Some(switch) = seat.switch else { return };
        // The cost of the interrupt passes even if the core is idle after it.
        let start = seat.clock.at_or_after(from_ps + switch.overhead_ps);
        let Some(program) = switch.target else {
            seat.switch = None;
            seat.core.cycle = seat.core.cycle.max(start);
            return;
        };
        let resting = &mut self.programs[program.0 as usize];
        let Some(mut loaded) = resting.loaded.take() else {
            seat.state = State::Program;
            return;
        };
        if seat.last != Some(program) {
            resting.recovered_ps += from_ps.saturating_sub(switch.asked_ps);
            if resting.has_run {
                loaded.resumed();
            }
            seat.core.translation.iter_mut().for_each(|pages| pages.enter(program.0));
        }
        (resting.on, resting.has_run) = (Some(core), true);
        seat.switch = None;
        seat.last = Some(program);
        seat.recovers_since_ps =
            if loaded.at < loaded.recovered_at { seat.clock.ps(start) } else { NEVER };
        seat.loaded = Some((program, loaded));
        seat.core.cycle = start;
        seat.core.live = Counters::default();
        seat.computed_since = seat.core.computed;
        seat.since_ps = seat.clock.ps(start);
        (seat.state, seat.event) = (State::Run, start);
        self.next[core] = seat.since_ps;
    }

    /// The program on a core leaves it at `at_ps`; a core that waits for the program takes it.
    fn let_go(&mut self, core: usize, at_ps: u64) {
        let mut live = self.live(&self.seats[core]);
        let seat = &mut self.seats[core];
        self.next[core] = NEVER;
        seat.state = State::Idle;
        let Some((program, mut loaded)) = seat.loaded.take() else { return };
        live.compute_cycles = seat.core.computed - seat.computed_since;
        live.busy_ps = at_ps.saturating_sub(seat.since_ps);
        seat.past = sum(seat.past, live);
        seat.core.forget_loads();
        let resting = &mut self.programs[program.0 as usize];
        resting.past = sum(resting.past, live);
        let since = std::mem::replace(&mut seat.recovers_since_ps, NEVER);
        resting.recovered_ps += at_ps.saturating_sub(since);
        resting.on = None;
        if std::mem::take(&mut resting.abandon) {
            loaded.abandon_job();
        }
        resting.loaded = Some(loaded);
        self.hand_over(core, program, at_ps);
    }

    fn hand_over(&mut self, from: usize, program: ProgramId, at_ps: u64) {
        let waits = |seat: &Seat| {
            seat.state == State::Program && seat.switch.is_some_and(|s| s.target == Some(program))
        };
        let found = (0..self.seats.len()).find(|&other| other != from && waits(&self.seats[other]));
        if let Some(other) = found {
            let seat = &self.seats[other];
            let from_ps = at_ps.max(seat.clock.ps(seat.core.cycle));
            self.take_hold(other, from_ps);
        }
    }
}

/// The owner of a request: cores, then devices.
fn source(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}
