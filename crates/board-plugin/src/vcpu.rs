//! A vCPU: its local time, the effects of its references, its counters.
//!
//! Local time is a number of the scoreboard. The translated code adds each block's instructions
//! times cpi to it, and callbacks add stalls. Its base is set when a quantum begins, so that the
//! number reaches [`FIRE`] at the quantum's end. QEMU shares translated code between vCPUs, and the
//! addition is a constant of the code. So the code adds the time of an instruction on the quickest
//! core. A vCPU of a slower core adds the rest by its count of instructions, exactly. Its number
//! may reach [`FIRE`] before the quantum's end; it is then set again. Rule: a reference whose line
//! is the most recent of its set in the first data cache changes nothing and costs nothing.
//! `filter` knows these lines by virtual address, one for each set that a page's lines fall into:
//! one compare, no question to QEMU. It is emptied when the guest changes its translations.

use crate::machine::{Access, EVENTS, Machine};
use crate::pmu::{Now, Pmu};
use crate::qemu::{Cpu, Regs, qemu};
use crate::walk::Walker;

/// Value of the scoreboard at which a quantum is over.
pub const FIRE: u64 = 1 << 42;

/// An entry of the scoreboard.
#[repr(C)]
#[derive(Debug)]
pub struct Score {
    /// Local time less the base, in ps.
    pub time: u64,
    /// Instructions of programs and of the kernel.
    pub instructions: [u64; 2],
    /// Physical line of the last instruction fetched.
    pub last_line: u64,
}

/// Number of lines of a page that the filter distinguishes.
const FILTER: usize = 64;
const NO_LINE: u64 = u64::MAX;

/// Totals of a vCPU at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Instructions of programs and of the kernel.
    pub instructions: [u64; 2],
    /// Time in which it was not halted.
    pub busy_ps: u64,
    /// Events.
    pub events: [u64; EVENTS],
}

impl Totals {
    /// Difference from the earlier totals `before`.
    pub fn since(&self, before: &Self) -> Self {
        let mut events = self.events;
        events.iter_mut().zip(before.events).for_each(|(e, b)| *e -= b);
        let [user, kernel] = self.instructions;
        Self {
            instructions: [user - before.instructions[0], kernel - before.instructions[1]],
            // Corrections can set time back a little.
            busy_ps: self.busy_ps.saturating_sub(before.busy_ps),
            events,
        }
    }

    /// Adds other totals.
    pub fn add(&mut self, other: &Self) {
        self.events.iter_mut().zip(other.events).for_each(|(e, o)| *e += o);
        self.instructions.iter_mut().zip(other.instructions).for_each(|(e, o)| *e += o);
        self.busy_ps += other.busy_ps;
    }
}

/// A vCPU.
pub struct Vcpu {
    filter: [u64; FILTER],
    filter_mask: u64,
    store_bit: u32,
    line_shift: u32,
    /// Its number.
    pub index: usize,
    /// QEMU's vCPU.
    pub cpu: *mut Cpu,
    /// Its entry of the scoreboard; null until all vCPUs are there.
    pub score: *mut Score,
    base: i64,
    /// End of its quantum.
    pub end_ps: u64,
    /// The latest time that the guest has read on this vCPU.
    pub shown_ns: u64,
    /// Stalls in programs.
    stalled_user: i64,
    cpi_ps: u64,
    /// Time of an instruction beyond that which the translated code adds.
    more_ps: u64,
    idle_ps: u64,
    frequency: u64,
    /// Registers.
    pub regs: Regs,
    /// Counters.
    pub pmu: Pmu,
    /// Translation buffer and walks; `None`: not modelled.
    pub walker: Option<Walker>,
    /// Number of its program.
    pub program: usize,
    /// Its totals when the program came.
    pub since: Totals,
    /// Whether the end of its quantum has been reported.
    pub ending: bool,
    /// Leaf and sub-leaf of the `cpuid` that it executes, if the answer must be changed.
    pub cpuid: Option<(u32, u32)>,
    /// Number of overflows while the local APIC's entry was masked.
    pub masked: u64,
}

/// Numbers for all vCPUs.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Time of an instruction on the quickest core.
    pub cpi_ps: u64,
    /// Clock of the time stamp counter, Hz: that of the slowest core.
    pub frequency: u64,
    /// log2 of the size of a line.
    pub line_shift: u32,
}

/// Numbers of a vCPU's core.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Time of an instruction, not less than that of the quickest core.
    pub cpi_ps: u64,
    /// Clock, Hz.
    pub frequency: u64,
    /// Number of sets of the first data cache.
    pub l1d_sets: u64,
}

/// The time that the translated code adds while `ps` pass without a wait on a core whose
/// instructions take `cpi_ps`; the code leaves out `more_ps` of these. With waits it is reached
/// earlier.
pub fn by_code(ps: u64, cpi_ps: u64, more_ps: u64) -> u64 {
    if more_ps == 0 {
        return ps;
    }
    let quickest = u128::from(cpi_ps - more_ps);
    u64::try_from(u128::from(ps) * quickest / u128::from(cpi_ps.max(1))).unwrap_or(ps)
}

impl Vcpu {
    /// The vCPU of this thread.
    pub fn new(
        index: usize,
        cpu: *mut Cpu,
        (common, own): (Common, Own),
        regs: Regs,
        pmu: Pmu,
        walker: Option<Walker>,
    ) -> Self {
        Self {
            filter: [NO_LINE; FILTER],
            // With fewer sets than lines of a page, two lines of a page share a set, and so an
            // entry.
            filter_mask: own.l1d_sets.min(FILTER as u64) - 1,
            store_bit: store_bit(),
            line_shift: common.line_shift,
            index,
            cpu,
            score: std::ptr::null_mut(),
            base: 0,
            end_ps: 0,
            shown_ns: 0,
            stalled_user: 0,
            cpi_ps: own.cpi_ps,
            more_ps: own.cpi_ps.saturating_sub(common.cpi_ps),
            idle_ps: 0,
            frequency: own.frequency,
            regs,
            pmu,
            walker,
            program: 0,
            since: Totals::default(),
            ending: false,
            cpuid: None,
            masked: 0,
        }
    }

    /// Its entry of the scoreboard.
    #[inline(always)]
    pub fn score(&mut self) -> &mut Score {
        // SAFETY: set before any vCPU runs, to an entry that moves only when vCPUs are added, which
        // the board does not allow. The translated code of this vCPU writes it only while neither a
        // callback of the vCPU nor the clock's thread runs.
        unsafe { &mut *self.score }
    }

    fn read_score(&self) -> &Score {
        // SAFETY: as in `score`.
        unsafe { &*self.score }
    }

    /// Its time, with all known waits.
    #[inline(always)]
    pub fn local(&self) -> u64 {
        let added = self.read_score().time.wrapping_add(self.beyond());
        self.base.wrapping_add(added.cast_signed()).max(0).cast_unsigned()
    }

    /// Time of its instructions so far beyond that which the translated code has added.
    #[inline(always)]
    fn beyond(&self) -> u64 {
        let [user, kernel] = self.read_score().instructions;
        (user + kernel).wrapping_mul(self.more_ps)
    }

    /// Computation so far.
    #[inline(always)]
    fn computed(&self, machine: &Machine) -> u64 {
        (self.local().cast_signed() - machine.cores[self.index].front.total_wait())
            .max(0)
            .cast_unsigned()
    }

    /// Waits for the lines that the core needs by now.
    pub fn settle(&mut self, machine: &mut Machine) {
        let computed = self.computed(machine);
        let front = &mut machine.cores[self.index].front;
        let before = front.total_wait();
        front.settle(computed);
        let waited = front.total_wait() - before;
        self.score().time = self.score().time.wrapping_add_signed(waited);
    }

    /// Continues at `at_ps`, or at its own time if that is later, until `end_ps`.
    pub fn go_on(&mut self, machine: &mut Machine, at_ps: u64, end_ps: u64) {
        if at_ps > self.local() {
            let computed = self.computed(machine);
            let before = self.local();
            let front = &mut machine.cores[self.index].front;
            front.idle(computed, at_ps);
            let local = computed.wrapping_add_signed(front.total_wait());
            self.idle_ps += local.saturating_sub(before);
            self.base = self.base.wrapping_add_unsigned(local.wrapping_sub(before));
        }
        self.end_ps = end_ps;
        self.arm();
    }

    /// Sets the scoreboard so that it reaches [`FIRE`] at the quantum's end, or when a counter
    /// overflows.
    pub fn arm(&mut self) {
        let local = self.local();
        let mut end = self.end_ps;
        if let Some(left) = self.pmu.until_overflow(&self.now()) {
            // Cycles are not shorter than half a cycle of cpi; instructions take cpi each.
            let ps = (left * self.cpi_ps)
                .min(left.saturating_mul(1_000_000_000_000 / self.frequency.max(1)));
            end = end.min(local + ps.max(self.cpi_ps));
        }
        let left = by_code(end.saturating_sub(local), self.cpi_ps, self.more_ps).min(FIRE);
        self.score().time = FIRE - left;
        let shown = (FIRE - left).wrapping_add(self.beyond());
        self.base = local.cast_signed() - shown.cast_signed();
    }

    /// Corrects its time by the result of the replay.
    pub fn correct(&mut self, change: i64) {
        self.base = self.base.wrapping_add(change);
    }

    /// Cycles and instructions so far.
    pub fn now(&self) -> Now {
        let [user, kernel] = self.read_score().instructions;
        let cycles = |ps: u64| {
            let product = u128::from(ps) * u128::from(self.frequency) / 1_000_000_000_000;
            u64::try_from(product).unwrap_or(u64::MAX)
        };
        let busy = self.busy_ps();
        let in_programs = (user * self.cpi_ps).saturating_add_signed(self.stalled_user).min(busy);
        Now { cycles: [cycles(in_programs), cycles(busy)], instructions: [user, user + kernel] }
    }

    fn busy_ps(&self) -> u64 {
        self.local().saturating_sub(self.idle_ps)
    }

    /// Its totals so far.
    pub fn totals(&self, machine: &Machine) -> Totals {
        Totals {
            instructions: self.read_score().instructions,
            busy_ps: self.busy_ps(),
            events: machine.cores[self.index].counts,
        }
    }

    /// Called when the guest's translations change.
    pub fn forget_translations(&mut self) {
        self.filter = [NO_LINE; FILTER];
        if let Some(walker) = &mut self.walker {
            walker.forget();
        }
    }

    /// Whether a reference to data may be to the most recent line of its set: then there is nothing
    /// to do.
    #[inline(always)]
    pub fn is_most_recent(&self, info: u32, vaddr: u64) -> bool {
        let line = vaddr >> self.line_shift;
        let known = self.filter[(line & self.filter_mask) as usize & (FILTER - 1)];
        // A known line is `line << 1 | dirty`; a store needs the dirty bit.
        let store = info & self.store_bit != 0;
        (known ^ line << 1) <= 1 && (known & 1 == 1 || !store) && !self.crosses(vaddr)
    }

    /// Whether an address is near the end of a line.
    #[inline(always)]
    fn crosses(&self, vaddr: u64) -> bool {
        let size = 1u64 << self.line_shift;
        (vaddr & (size - 1)) + 8 > size
    }

    /// Handles a reference to data.
    #[inline(never)]
    pub fn data(&mut self, machine: &mut Machine, info: u32, vaddr: u64, kernel: bool) {
        let q = qemu();
        // SAFETY: `info` and `vaddr` are those that QEMU gave to this callback, which has not
        // returned.
        let physical = unsafe {
            let handle = (q.hwaddr)(info, vaddr);
            if handle.is_null() || (q.hwaddr_is_io)(handle) {
                return;
            }
            (q.hwaddr_physical)(handle)
        };
        let store = info & self.store_bit != 0;
        self.walk(machine, vaddr, kernel);
        self.line_of_data(machine, physical, vaddr, info, store, kernel);
        if self.crosses(vaddr) {
            // SAFETY: a function of `info`.
            let bytes = 1u64 << unsafe { (q.size_shift)(info) };
            let size = 1u64 << self.line_shift;
            let second = (vaddr | (size - 1)).wrapping_add(1);
            if second < vaddr + bytes {
                let physical = self.second_half(machine, physical, vaddr, second, kernel);
                self.line_of_data(machine, physical, second, info, store, kernel);
            }
        }
    }

    /// Physical address of the second line of a reference: in the same page, or in the next.
    fn second_half(
        &mut self,
        machine: &mut Machine,
        physical: u64,
        first: u64,
        second: u64,
        kernel: bool,
    ) -> u64 {
        let page = 1u64 << machine.geometry.page_shift;
        if second & (page - 1) != 0 {
            return physical + (second - first);
        }
        self.walk(machine, second, kernel);
        let mut at = 0;
        // SAFETY: in the vCPU's thread; writes one number.
        if unsafe { (qemu().translate)(second, &raw mut at) } { at } else { physical }
    }

    fn line_of_data(
        &mut self,
        machine: &mut Machine,
        physical: u64,
        vaddr: u64,
        info: u32,
        store: bool,
        kernel: bool,
    ) {
        let line = physical >> self.line_shift;
        let access = if store { Access::Store } else { Access::Load };
        // SAFETY: `info` is that of the callback that has not returned.
        let value = || unsafe { (qemu().value)(info) }.data[0];
        self.reference(machine, line, vaddr, access, value, kernel);
        let vline = vaddr >> self.line_shift;
        let slot = &mut self.filter[(vline & self.filter_mask) as usize & (FILTER - 1)];
        // It stays dirty if it was.
        let dirty = store || *slot == vline << 1 | 1;
        *slot = vline << 1 | u64::from(dirty);
        if machine.trace.is_some() {
            *slot = NO_LINE;
        }
    }

    /// Fetches a line of instructions.
    pub fn fetch(&mut self, machine: &mut Machine, line: u64, kernel: bool) {
        self.reference(machine, line, 0, Access::Fetch, || 0, kernel);
    }

    /// Removes a line from all caches; `physical` is its physical address.
    pub fn flush(&mut self, machine: &mut Machine, vaddr: u64, physical: u64, kernel: bool) {
        self.walk(machine, vaddr, kernel);
        let computed = self.computed(machine);
        machine.happened.clear();
        let waited = machine.flush(self.index, computed, physical >> self.line_shift);
        self.lengthen(waited, kernel);
        if self.pmu.count(&machine.happened, kernel) {
            self.interrupt();
        }
    }

    /// Forgets a line that is in no cache any more. Lines of all its addresses have this place in
    /// the filter, as it is a part of the page's offset.
    pub fn forget_line(&mut self, vaddr: u64) {
        let vline = vaddr >> self.line_shift;
        self.filter[(vline & self.filter_mask) as usize & (FILTER - 1)] = NO_LINE;
    }

    /// Waits for its loads, and if `stores` for its stores as well.
    pub fn fence(&mut self, machine: &mut Machine, stores: bool, kernel: bool) {
        let computed = self.computed(machine);
        let waited = machine.fence(self.index, computed, stores);
        self.lengthen(waited, kernel);
    }

    fn lengthen(&mut self, waited: i64, kernel: bool) {
        self.score().time = self.score().time.wrapping_add_signed(waited);
        self.stalled_user += if kernel { 0 } else { waited };
    }

    fn walk(&mut self, machine: &mut Machine, vaddr: u64, kernel: bool) {
        let Some(walker) = &mut self.walker else { return };
        let Some(entries) = walker.walk(vaddr, &self.regs) else { return };
        machine.count_walk(self.index);
        let due = self.pmu.count(&machine.happened, kernel);
        for entry in entries.into_iter().flatten() {
            let line = entry >> self.line_shift;
            self.reference(machine, line, 0, Access::Walk, || 0, kernel);
            // It is the most recent of its set now.
            self.filter[(line & self.filter_mask) as usize & (FILTER - 1)] = NO_LINE;
        }
        if due {
            self.interrupt();
        }
    }

    #[inline]
    fn reference(
        &mut self,
        machine: &mut Machine,
        line: u64,
        vaddr: u64,
        access: Access,
        value: impl FnOnce() -> u64,
        kernel: bool,
    ) {
        let computed = self.computed(machine);
        machine.happened.clear();
        let more = machine.access(self.index, computed, line, vaddr, access, value);
        if more != 0 {
            self.lengthen(more, kernel);
        }
        if self.pmu.count(&machine.happened, kernel) {
            self.interrupt();
        }
    }

    /// A counter overflowed: an NMI to itself, if the local APIC's entry LVTPC lets it.
    pub fn interrupt(&mut self) {
        const LVTPC: u64 = 0xfee0_0340;
        const ICR: u64 = 0xfee0_0300;
        const TO_SELF: u32 = 1 << 18;
        let entry = u32::try_from(self.regs.physical(LVTPC, 4)).unwrap_or(0);
        if entry >> 16 & 1 == 1 {
            self.masked += 1;
            return;
        }
        self.regs.write_physical(ICR, TO_SELF | entry & 0x7ff);
    }
}

/// The bit of the access information that marks stores.
fn store_bit() -> u32 {
    // SAFETY: a pure function of its argument.
    (0..32).map(|bit| 1u32 << bit).find(|&bit| unsafe { (qemu().is_store)(bit) }).unwrap_or(0)
}
