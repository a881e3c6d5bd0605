//! A core's performance counters for the guest's kernel.
//!
//! AMD: six counters of 48 bits, control and count in MSRs C0010200 to C001020B, the first four in
//! C0010000 to C0010007 as well (AMD APM volume 2, 13.2).
//! Intel: architectural version 2, four counters and three fixed ones (Intel SDM volume 3, chapter
//! on performance monitoring). The machine's events have the vendor's numbers where these exist
//! ([`amd`], [`intel`]). All of them are event 0xE7 with the unit mask 1 + their number in
//! [`Event`]. 0xE8 is the same for the vendor-free cycles (1) and instructions (2). An overflow
//! sends the core an NMI by the entry LVTPC of its local APIC, at the reference that caused it;
//! overflows of cycles and instructions are found at the end of their block.
//! Not covered: edge and threshold bits, PEBS, IBS, LBR. User cycles are those of user instructions
//! and of their waits.

use crate::config::PmuKind;
use crate::machine::{EVENTS, Event, Happened};

const WIDTH: u64 = (1 << 48) - 1;
/// Counters of either flavour: general ones, then Intel's fixed ones.
pub const COUNTERS: usize = 9;
const GENERAL_AMD: usize = 6;
const GENERAL_INTEL: usize = 4;
const FIXED: usize = 6;

/// Subject of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// No event of the board.
    #[default]
    Nothing,
    /// Any of these events.
    Events(u32),
    /// Core cycles in which the core is not halted.
    Cycles,
    /// Instructions.
    Instructions,
}

/// Cycles and instructions of a core so far: in programs, and in all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Cycles.
    pub cycles: [u64; 2],
    /// Instructions.
    pub instructions: [u64; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    select: u64,
    value: u64,
    counts: Counts,
    user: bool,
    kernel: bool,
    interrupt: bool,
    on: bool,
    /// Counts at the time when the value was valid.
    since: u64,
}

/// A core's counters.
#[derive(Debug)]
pub struct Pmu {
    kind: PmuKind,
    counters: [Counter; COUNTERS],
    /// Events that some counter counts, as a mask.
    watched: u32,
    timed: bool,
    global: u64,
    fixed_control: u64,
    status: u64,
    /// Number of interrupts that were asked for.
    pub interrupts: u64,
}

fn bits(events: &[Event]) -> u32 {
    events.iter().fold(0, |mask, &e| mask | 1 << e as u32)
}

/// The board's own events.
fn own(event: u64, unit: u64) -> Option<Counts> {
    match (event, unit) {
        (0xe7, 1..) if unit <= EVENTS as u64 => Some(Counts::Events(1 << (unit - 1))),
        (0xe8, 1) => Some(Counts::Cycles),
        (0xe8, 2) => Some(Counts::Instructions),
        _ => None,
    }
}

/// AMD's numbers (PPR for family 17h): cycles, instructions, L2 requests and misses, fills by their
/// source, hardware prefetches.
pub fn amd(select: u64) -> Counts {
    let event = select & 0xff | select >> 24 & 0xf00;
    let unit = select >> 8 & 0xff;
    let memory = unit & 0x48 != 0;
    own(event, unit).unwrap_or(match event {
        0x76 => Counts::Cycles,
        0xc0 => Counts::Instructions,
        // Fills of the core's demands, and any fills: of those, from memory.
        0x43 if memory => Counts::Events(bits(&[Event::LlcMisses])),
        0x44 if memory => Counts::Events(bits(&[Event::LlcMisses, Event::PrefetchMisses])),
        0x5a if memory => Counts::Events(bits(&[Event::PrefetchMisses])),
        0x5a => Counts::Events(bits(&[Event::PrefetchFills])),
        0x60 => Counts::Events(bits(&[Event::L1iMisses, Event::L1dMisses])),
        0x64 => Counts::Events(bits(&[Event::L2Misses])),
        0x41 => Counts::Events(bits(&[Event::L1dMisses])),
        0x45 => Counts::Events(bits(&[Event::PageWalks])),
        _ => Counts::Nothing,
    })
}

/// Intel's architectural numbers (SDM volume 3, table of architectural events).
pub fn intel(select: u64) -> Counts {
    let (event, unit) = (select & 0xff, select >> 8 & 0xff);
    own(event, unit).unwrap_or(match (event, unit) {
        (0x3c, _) => Counts::Cycles,
        (0xc0, 0) => Counts::Instructions,
        (0x2e, 0x41) => Counts::Events(bits(&[Event::LlcMisses])),
        (0x2e, 0x4f) => Counts::Events(bits(&[Event::LlcReferences])),
        (0x51, 1) => Counts::Events(bits(&[Event::L1dMisses])),
        (0x24, 0x3f) => Counts::Events(bits(&[Event::L2Misses])),
        _ => Counts::Nothing,
    })
}

/// Meaning of an MSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Msr {
    Select(usize),
    Count(usize),
    FixedControl,
    Global,
    Status,
    Clear,
    /// A register that is read as this value, and ignores writes.
    Constant(u64),
}

impl Pmu {
    /// Stopped counters.
    pub fn new(kind: PmuKind) -> Self {
        Self {
            kind,
            counters: [Counter::default(); COUNTERS],
            watched: 0,
            timed: false,
            global: if kind == PmuKind::Intel { 0 } else { u64::MAX },
            fixed_control: 0,
            status: 0,
            interrupts: 0,
        }
    }

    fn msr(&self, number: u32) -> Option<Msr> {
        let at = |base: u32| (number - base) as usize;
        match (self.kind, number) {
            (PmuKind::Amd, 0xc001_0000..0xc001_0004) => Some(Msr::Select(at(0xc001_0000))),
            (PmuKind::Amd, 0xc001_0004..0xc001_0008) => Some(Msr::Count(at(0xc001_0004))),
            (PmuKind::Amd, 0xc001_0200..0xc001_020c) if number & 1 == 0 => {
                Some(Msr::Select(at(0xc001_0200) / 2))
            }
            (PmuKind::Amd, 0xc001_0200..0xc001_020c) => Some(Msr::Count(at(0xc001_0200) / 2)),
            (PmuKind::Intel, 0x186..0x18a) => Some(Msr::Select(at(0x186))),
            (PmuKind::Intel, 0xc1..0xc5) => Some(Msr::Count(at(0xc1))),
            (PmuKind::Intel, 0x4c1..0x4c5) => Some(Msr::Count(at(0x4c1))),
            (PmuKind::Intel, 0x309..0x30c) => Some(Msr::Count(FIXED + at(0x309))),
            (PmuKind::Intel, 0x38d) => Some(Msr::FixedControl),
            (PmuKind::Intel, 0x38e) => Some(Msr::Status),
            (PmuKind::Intel, 0x38f) => Some(Msr::Global),
            (PmuKind::Intel, 0x390) => Some(Msr::Clear),
            // Full-width writes; no debug store.
            (PmuKind::Intel, 0x345) => Some(Msr::Constant(1 << 13)),
            _ => None,
        }
    }

    fn now_of(counter: &Counter, now: &Now) -> u64 {
        let of = |pair: [u64; 2]| match (counter.user, counter.kernel) {
            (true, true) => pair[1],
            (true, false) => pair[0],
            (false, true) => pair[1].saturating_sub(pair[0]),
            (false, false) => 0,
        };
        match counter.counts {
            Counts::Cycles => of(now.cycles),
            Counts::Instructions => of(now.instructions),
            _ => 0,
        }
    }

    fn value(&self, at: usize, now: &Now) -> u64 {
        let counter = &self.counters[at];
        if !counter.on || !matches!(counter.counts, Counts::Cycles | Counts::Instructions) {
            return counter.value;
        }
        // Time may be set back a little when misses were faster than estimated.
        counter.value.wrapping_add(Self::now_of(counter, now).saturating_sub(counter.since)) & WIDTH
    }

    /// Brings every counter's value up to date, and determines their subjects again.
    fn configure(&mut self, now: &Now, change: impl FnOnce(&mut Self)) {
        for at in 0..COUNTERS {
            self.counters[at].value = self.value(at, now);
        }
        change(self);
        let (kind, global, fixed) = (self.kind, self.global, self.fixed_control);
        (self.watched, self.timed) = (0, false);
        for (at, counter) in self.counters.iter_mut().enumerate() {
            if at < FIXED {
                let select = counter.select;
                counter.counts = if kind == PmuKind::Amd { amd(select) } else { intel(select) };
                counter.user = select >> 16 & 1 == 1;
                counter.kernel = select >> 17 & 1 == 1;
                counter.interrupt = select >> 20 & 1 == 1;
                counter.on =
                    select >> 22 & 1 == 1 && (kind == PmuKind::Amd || global >> at & 1 == 1);
            } else {
                let field = fixed >> (4 * (at - FIXED)) & 0xf;
                counter.counts = if at == FIXED { Counts::Instructions } else { Counts::Cycles };
                (counter.user, counter.kernel) = (field & 2 != 0, field & 1 != 0);
                counter.interrupt = field & 8 != 0;
                counter.on = kind == PmuKind::Intel
                    && field & 3 != 0
                    && global >> (32 + at - FIXED) & 1 == 1;
            }
            counter.since = Self::now_of(counter, now);
            if counter.on {
                match counter.counts {
                    Counts::Events(mask) => self.watched |= mask,
                    Counts::Cycles | Counts::Instructions => self.timed = true,
                    Counts::Nothing => {}
                }
            }
        }
    }

    /// Answers the guest's read of an MSR.
    pub fn read(&self, number: u32, now: &Now) -> Option<u64> {
        Some(match self.msr(number)? {
            Msr::Select(at) => self.counters[at].select,
            Msr::Count(at) => self.value(at, now),
            Msr::FixedControl => self.fixed_control,
            Msr::Global => self.global,
            Msr::Status => self.status,
            Msr::Clear => 0,
            Msr::Constant(value) => value,
        })
    }

    /// Takes the guest's write to an MSR; returns whether it is one of these.
    pub fn write(&mut self, number: u32, value: u64, now: &Now) -> bool {
        let Some(msr) = self.msr(number) else { return false };
        match msr {
            Msr::Select(at) => self.configure(now, |p| p.counters[at].select = value),
            Msr::Count(at) => self.configure(now, |p| p.counters[at].value = value & WIDTH),
            Msr::FixedControl => self.configure(now, |p| p.fixed_control = value),
            Msr::Global => self.configure(now, |p| p.global = value),
            Msr::Clear => self.status &= !value,
            Msr::Status | Msr::Constant(_) => {}
        }
        true
    }

    /// Answers the guest's `rdpmc`.
    pub fn rdpmc(&self, number: u32, now: &Now) -> Option<u64> {
        let general = if self.kind == PmuKind::Amd { GENERAL_AMD } else { GENERAL_INTEL };
        let at = match number {
            n if (n as usize) < general => n as usize,
            0x4000_0000..0x4000_0003 if self.kind == PmuKind::Intel => {
                FIXED + (number & 3) as usize
            }
            _ => return None,
        };
        Some(self.value(at, now))
    }

    /// Counts events in programs or in the kernel. `true`: an interrupt is due.
    #[inline]
    pub fn count(&mut self, happened: &Happened, kernel: bool) -> bool {
        happened.mask & self.watched != 0 && self.count_events(happened, kernel)
    }

    fn count_events(&mut self, happened: &Happened, kernel: bool) -> bool {
        let mut due = false;
        for (at, counter) in self.counters.iter_mut().enumerate() {
            let Counts::Events(mask) = counter.counts else { continue };
            let mut events = mask & happened.mask;
            if !counter.on || events == 0 || !(if kernel { counter.kernel } else { counter.user }) {
                continue;
            }
            let mut times = 0;
            while events != 0 {
                times += u64::from(happened.times[events.trailing_zeros() as usize]);
                events &= events - 1;
            }
            let sum = counter.value + times;
            counter.value = sum & WIDTH;
            if sum > WIDTH {
                self.status |= 1 << at;
                due |= counter.interrupt;
            }
        }
        self.interrupts += u64::from(due);
        due
    }

    /// Checks whether cycles or instructions have overflowed. `true`: an interrupt is due.
    pub fn check_time(&mut self, now: &Now) -> bool {
        if !self.timed {
            return false;
        }
        let mut due = false;
        for at in 0..COUNTERS {
            let counter = &self.counters[at];
            if !counter.on || !matches!(counter.counts, Counts::Cycles | Counts::Instructions) {
                continue;
            }
            let reached = Self::now_of(counter, now);
            let gone = reached.saturating_sub(counter.since);
            if gone > 0 && counter.value + gone > WIDTH {
                self.status |= if at < FIXED { 1 << at } else { 1 << (32 + at - FIXED) };
                due |= counter.interrupt;
            }
            let counter = &mut self.counters[at];
            counter.value = (counter.value + gone) & WIDTH;
            counter.since = counter.since.max(reached);
        }
        self.interrupts += u64::from(due);
        due
    }

    /// The least number of cycles or instructions until one of them overflows, with an interrupt.
    pub fn until_overflow(&self, now: &Now) -> Option<u64> {
        if !self.timed {
            return None;
        }
        let timed = |c: &&Counter| {
            c.on && c.interrupt && matches!(c.counts, Counts::Cycles | Counts::Instructions)
        };
        let left = |c: &Counter| {
            WIDTH + 1 - c.value - Self::now_of(c, now).saturating_sub(c.since).min(WIDTH - c.value)
        };
        self.counters.iter().filter(timed).map(left).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(event: Event) -> Happened {
        let mut happened = Happened { mask: 1 << event as u32, ..Happened::default() };
        happened.times[event as usize] = 1;
        happened
    }

    #[test]
    fn solocores_event_overflows_after_its_period() {
        let mut pmu = Pmu::new(PmuKind::Amd);
        let now = Now::default();
        // Event 0x43, unit mask 0x48, in programs only, with interrupt.
        assert!(pmu.write(0xc001_0200, 0x4843 | 1 << 16 | 1 << 20 | 1 << 22, &now));
        assert!(pmu.write(0xc001_0201, 100u64.wrapping_neg(), &now));
        let miss = one(Event::LlcMisses);
        assert!((0..1000).all(|_| !pmu.count(&miss, true)), "the kernel's do not count");
        let due: Vec<bool> = (0..250).map(|_| pmu.count(&miss, false)).collect();
        assert_eq!(due.iter().filter(|&&d| d).count(), 1);
        assert!(due[99]);
        assert_eq!(pmu.read(0xc001_0201, &now), Some(150));
        assert_eq!(pmu.read(0xc001_0005, &now), Some(0), "the second counter");
        assert_eq!(pmu.read(0xc001_0004, &now), Some(150), "the first counter's old name");
        assert_eq!(pmu.rdpmc(0, &now), Some(150));
        assert_eq!((pmu.read(0x186, &now), pmu.rdpmc(6, &now)), (None, None));
    }

    #[test]
    fn cycles_of_programs_and_of_all() {
        let mut pmu = Pmu::new(PmuKind::Amd);
        let mut now = Now { cycles: [10, 30], instructions: [1, 2] };
        pmu.write(0xc001_0200, 0x76 | 1 << 16 | 1 << 22, &now);
        pmu.write(0xc001_0202, 0x76 | 3 << 16 | 1 << 20 | 1 << 22, &now);
        pmu.write(0xc001_0203, 50u64.wrapping_neg(), &now);
        assert_eq!(pmu.until_overflow(&now), Some(50));
        now.cycles = [15, 70];
        assert_eq!((pmu.read(0xc001_0201, &now), pmu.until_overflow(&now)), (Some(5), Some(10)));
        assert!(!pmu.check_time(&now));
        now.cycles = [15, 81];
        assert!(pmu.check_time(&now) && !pmu.check_time(&now));
        assert_eq!(pmu.read(0xc001_0203, &now), Some(1));
    }

    #[test]
    fn intels_counters_obey_the_global_switch() {
        let mut pmu = Pmu::new(PmuKind::Intel);
        let now = Now::default();
        pmu.write(0x186, 0x412e | 3 << 16 | 1 << 20 | 1 << 22, &now);
        pmu.write(0xc1, 1u64.wrapping_neg(), &now);
        let miss = one(Event::LlcMisses);
        assert!(!pmu.count(&miss, true));
        pmu.write(0x38f, 1, &now);
        assert!(pmu.count(&miss, true));
        assert_eq!(pmu.read(0x38e, &now), Some(1));
        pmu.write(0x390, 1, &now);
        assert_eq!(pmu.read(0x38e, &now), Some(0));
    }
}
