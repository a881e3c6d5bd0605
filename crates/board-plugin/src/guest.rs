//! Code that the plugin adds to the guest's when QEMU translates it, and the instructions that the
//! board answers itself.
//!
//! Every block adds its instructions and their time, and asks whether the quantum is over. With the
//! model on it also fetches its lines, unless the last fetch was of the same line, and every
//! reference to memory is a callback. The board answers `rdmsr`, `wrmsr` and `rdpmc` of its
//! counters and of cache allocation, `cpuid` of its own leaves, and `cpuid` with EAX = 0x5343_0000
//! plus the operation, by which guests speak to it:
//!
//! | operation | does |
//! |---|---|
//! | 0 | model off |
//! | 1 | model on |
//! | 2 | names the program of this address space: eight bytes in RBX |
//! | 3 | writes a snapshot of the truth, labelled by eight bytes in RBX |
//! | 4 | sets the counts of the truth to nothing |
//!
//! They answer EAX = 0x5343_0001. An instruction that the board answers is skipped; the block's
//! rest, counted at its begin, is taken back. Physical addresses of code are asked for at
//! translation: QEMU keeps a block to its physical page. `pause` costs [`PAUSE_PS`]: spinning costs
//! time, but no more than the hint says.
//! A write to the port that switches q35 off ends the counts.
//! Not covered: the rest of a block that a page fault leaves is counted twice.

use crate::board::{MODEL, board};
use crate::config::ModelSwitch;
use crate::cpuid;
use crate::finish::finish;
use crate::operand::Operand;
use crate::qemu::{ADD, MEM_RW, NO_REGS, NOT_EQUAL, R_REGS, RW_REGS_PC, STORE, qemu};
use crate::schedule::{END, on_end, schedule};
use crate::special::{Special, special};
use crate::truth;
use std::ffi::{c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

/// Time of a `pause`.
pub const PAUSE_PS: u64 = 40_000;

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;

/// Physical addresses of the blocks after one that ended with `cpuid`.
static AFTER_CPUID: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Upper half of EAX of the guest's requests.
const MAGIC: u64 = 0x5343;

/// Place of such an instruction.
struct Site {
    special: Special,
    /// Begin of its block and the instruction behind it, by their addresses at translation.
    begin: u64,
    next: u64,
    /// Number of instructions behind it in its block.
    rest: u64,
    kernel: bool,
}

impl Site {
    /// The address of the instruction behind it. QEMU keeps a block by its physical page and uses
    /// it for every page that is mapped there, so the block's addresses differ by whole pages from
    /// those at translation; `rip` lies in the block.
    fn next_at(&self, rip: u64) -> u64 {
        const PAGE: u64 = 4096;
        self.next.wrapping_add(rip.wrapping_sub(self.begin) & !(PAGE - 1))
    }
}

/// A range of lines and its mode, in the pointer that QEMU hands back: first line (44 bits),
/// further lines (16), kernel (1).
fn pack(first: u64, more: u64, kernel: bool) -> *mut c_void {
    std::ptr::without_provenance_mut((first | more << 44 | u64::from(kernel) << 60) as usize)
}

fn unpack(packed: *mut c_void) -> (u64, u64, bool) {
    let word = packed.addr() as u64;
    (word & ((1 << 44) - 1), word >> 44 & 0xffff, word >> 60 & 1 == 1)
}

extern "C" fn on_fetch(vcpu: c_uint, packed: *mut c_void) {
    let (vcpus, machine) = board().vcpus_and_machine();
    let (first, more, kernel) = unpack(packed);
    for line in first..=first + more {
        vcpus[vcpu as usize].fetch(machine, line, kernel);
    }
}

extern "C" fn on_data(vcpu: c_uint, info: u32, vaddr: u64, kernel: *mut c_void) {
    let (vcpus, machine) = board().vcpus_and_machine();
    let v = &mut vcpus[vcpu as usize];
    if !v.is_most_recent(info, vaddr) {
        v.data(machine, info, vaddr, !kernel.is_null());
    }
}

/// Called when QEMU translates a block.
pub extern "C" fn on_translation(block: *mut c_void, _: *mut c_void) {
    let q = qemu();
    let b = board();
    // SAFETY: the block and its instructions are valid during this callback.
    let length = unsafe { (q.block_length)(block) };
    // SAFETY: as above.
    let instructions: Vec<_> = (0..length).map(|i| unsafe { (q.instruction)(block, i) }).collect();
    let Some(&first) = instructions.first() else { return };
    // SAFETY: as above.
    let begin = unsafe { (q.instruction_vaddr)(first) };
    let kernel = begin >> 63 == 1;
    let model = MODEL.load(Relaxed);
    let nobody = std::ptr::null_mut();
    let time = length as u64 * b.common.cpi_ps;
    // SAFETY: as above; members of the board's scoreboard, callbacks of the declared types.
    unsafe {
        (q.inline)(block, ADD, b.instructions(kernel), length as u64);
        (q.inline)(block, ADD, b.time(), time);
        let registers = if b.config.page_walks { R_REGS } else { NO_REGS };
        (q.on_block_if)(block, on_end, registers, END.0, b.time(), END.1, nobody);
    }
    if model {
        fetches(block, &instructions, kernel);
    }
    let mut behind_cpuid = AFTER_CPUID.lock().is_ok_and(|after| {
        !after.is_empty() && physical(begin).is_some_and(|p| after.contains(&p))
    });
    for (at, &instruction) in instructions.iter().enumerate() {
        if std::mem::take(&mut behind_cpuid) {
            // SAFETY: as above.
            unsafe { (q.on_instruction)(instruction, on_behind_cpuid, RW_REGS_PC, nobody) };
        }
        let mut bytes = [0u8; 15];
        // SAFETY: as above; at most 15 bytes are written.
        let size = unsafe { (q.instruction_data)(instruction, bytes.as_mut_ptr(), bytes.len()) };
        if let Some(special) = special(&bytes[..size.min(15)]) {
            if special == Special::Pause {
                // SAFETY: as above.
                unsafe { (q.inline)(block, ADD, b.time(), PAUSE_PS) };
            } else if model || !matches!(special, Special::Flush(_) | Special::Fence { .. }) {
                // SAFETY: as above.
                let next = unsafe { (q.instruction_vaddr)(instruction) } + size as u64;
                behind_cpuid = special == Special::Cpuid;
                if behind_cpuid
                    && at + 1 == length
                    && let (Some(next), Ok(mut after)) = (physical(next), AFTER_CPUID.lock())
                {
                    after.push(next);
                }
                let site = Site { special, begin, next, rest: (length - at - 1) as u64, kernel };
                let site = Box::into_raw(Box::new(site)).cast();
                // SAFETY: as above; the site lives for ever, as QEMU may run the block until the
                // end.
                unsafe { (q.on_instruction)(instruction, on_special, RW_REGS_PC, site) };
            }
        }
        if model {
            let user = std::ptr::without_provenance_mut(usize::from(kernel));
            // SAFETY: as above.
            unsafe { (q.on_memory)(instruction, on_data, NO_REGS, MEM_RW, user) };
        }
    }
}

/// Physical address of a virtual one; in the thread of the vCPU that translates.
fn physical(vaddr: u64) -> Option<u64> {
    let mut physical = 0;
    // SAFETY: in the thread of a vCPU; writes one number.
    unsafe { (qemu().translate)(vaddr, &raw mut physical) }.then_some(physical)
}

/// Adds callbacks that fetch the block's lines: one for each of the at most two pages.
fn fetches(block: *mut c_void, instructions: &[*mut c_void], kernel: bool) {
    let q = qemu();
    let b = board();
    let (Some(&first), Some(&last)) = (instructions.first(), instructions.last()) else { return };
    // SAFETY: valid during the translation.
    let (begin, end) = unsafe {
        let end = (q.instruction_vaddr)(last) + (q.instruction_size)(last) as u64;
        ((q.instruction_vaddr)(first), end - 1)
    };
    let page = b.platform.page.0;
    let shift = b.common.line_shift;
    let mut at = begin;
    let mut pieces = 0;
    while at <= end && pieces < 2 {
        let until = end.min(at | (page - 1));
        if let Some(physical) = physical(at) {
            let (from, to) = (physical >> shift, (physical + (until - at)) >> shift);
            let packed = pack(from, to - from, kernel);
            // SAFETY: as in `on_translation`.
            unsafe {
                if from == to {
                    (q.on_block_if)(
                        block,
                        on_fetch,
                        NO_REGS,
                        NOT_EQUAL,
                        b.last_line(),
                        from,
                        packed,
                    );
                } else {
                    (q.on_block)(block, on_fetch, NO_REGS, packed);
                }
                (q.inline)(block, STORE, b.last_line(), to);
            }
        }
        pieces += 1;
        let Some(next) = until.checked_add(1) else { break };
        at = next;
    }
}

extern "C" fn on_behind_cpuid(vcpu: c_uint, _: *mut c_void) {
    let v = &mut board().vcpus_and_machine().0[vcpu as usize];
    if let Some((leaf, sub)) = v.cpuid.take() {
        cpuid::change(v, leaf, sub);
    }
}

extern "C" fn on_special(vcpu: c_uint, site: *mut c_void) {
    // SAFETY: the `Site` that was registered with this callback.
    let site = unsafe { &*site.cast::<Site>() };
    let at = vcpu as usize;
    let answered = match site.special {
        Special::Cpuid => ask(at),
        Special::ReadMsr => read_msr(at),
        Special::WriteMsr => write_msr(at),
        Special::ReadCounter => read_counter(at),
        Special::Space(register) => {
            let (vcpus, machine) = board().vcpus_and_machine();
            let v = &mut vcpus[at];
            v.forget_translations();
            let totals = v.totals(machine);
            let space = v.regs.get(register.into());
            if let Some(walker) = &mut v.walker {
                walker.set_root(space);
            }
            board().truth().switch(v, totals, space);
            false
        }
        Special::Invalidate => {
            board().vcpus_and_machine().0[at].forget_translations();
            false
        }
        Special::Out => {
            power_off(at);
            false
        }
        Special::Flush(operand) => {
            flush(at, operand, site);
            false
        }
        Special::Fence { stores } => {
            let (vcpus, machine) = board().vcpus_and_machine();
            vcpus[at].fence(machine, stores, site.kernel);
            false
        }
        Special::Pause => false,
    };
    if answered {
        let v = &mut board().vcpus_and_machine().0[at];
        let cpi = board().common.cpi_ps;
        let score = v.score();
        score.time = score.time.saturating_sub(site.rest * cpi);
        let counted = &mut score.instructions[usize::from(site.kernel)];
        *counted = counted.saturating_sub(site.rest);
        // SAFETY: this callback was registered to write the program counter; no value here waits to
        // be dropped.
        unsafe { (qemu().set_pc)(site.next_at(v.regs.rip())) }
    }
}

/// Removes a line from all caches.
fn flush(at: usize, operand: Operand, site: &Site) {
    let (vcpus, machine) = board().vcpus_and_machine();
    let v = &vcpus[at];
    let next = site.next_at(v.regs.rip());
    let vaddr = operand.address(next, |register| v.regs.get(register));
    // An unmapped line raises at most a fault, and changes nothing.
    let Some(physical) = physical(vaddr) else { return };
    vcpus[at].flush(machine, vaddr, physical, site.kernel);
    for vcpu in vcpus.iter_mut() {
        vcpu.forget_line(vaddr);
    }
}

/// The guest switches the machine off: the counts end here. QEMU stops some wall time later.
fn power_off(at: usize) {
    const CONTROL: u64 = 0x604;
    const ENABLE: u64 = 1 << 13;
    const KIND: u64 = 7 << 10;
    let (vcpus, machine) = board().vcpus_and_machine();
    let v = &mut vcpus[at];
    let value = v.regs.get(RAX);
    if v.regs.get(RDX) & 0xffff == CONTROL && value & ENABLE != 0 && value & KIND == 0 {
        v.settle(machine);
        finish(board());
    }
}

fn read_msr(at: usize) -> bool {
    let (vcpus, machine) = board().vcpus_and_machine();
    let v = &mut vcpus[at];
    let number = u32::try_from(v.regs.get(RCX) & 0xffff_ffff).unwrap_or(0);
    v.settle(machine);
    let value =
        v.pmu.read(number, &v.now()).or_else(|| board().allocation().read(at, number, machine));
    let Some(value) = value else { return false };
    v.regs.set(RAX, value & 0xffff_ffff);
    v.regs.set(RDX, value >> 32);
    true
}

fn write_msr(at: usize) -> bool {
    let (vcpus, machine) = board().vcpus_and_machine();
    let v = &mut vcpus[at];
    let number = u32::try_from(v.regs.get(RCX) & 0xffff_ffff).unwrap_or(0);
    let value = v.regs.get(RAX) & 0xffff_ffff | v.regs.get(RDX) << 32;
    v.settle(machine);
    let now = v.now();
    if v.pmu.write(number, value, &now) {
        v.arm();
        return true;
    }
    board().allocation().write(at, number, value, machine)
}

fn read_counter(at: usize) -> bool {
    let (vcpus, machine) = board().vcpus_and_machine();
    let v = &mut vcpus[at];
    let number = u32::try_from(v.regs.get(RCX) & 0xffff_ffff).unwrap_or(0);
    v.settle(machine);
    let Some(value) = v.pmu.rdpmc(number, &v.now()) else { return false };
    v.regs.set(RAX, value & 0xffff_ffff);
    v.regs.set(RDX, value >> 32);
    true
}

fn ask(at: usize) -> bool {
    let (vcpus, machine) = board().vcpus_and_machine();
    let v = &mut vcpus[at];
    let leaf = v.regs.get(RAX) & 0xffff_ffff;
    if leaf >> 16 != MAGIC {
        let leaf = u32::try_from(leaf).unwrap_or(0);
        if cpuid::concerns(leaf) {
            v.cpuid = Some((leaf, u32::try_from(v.regs.get(RCX) & 0xffff_ffff).unwrap_or(0)));
        }
        return false;
    }
    let text = v.regs.get(RBX).to_le_bytes();
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_matches(char::from(0));
    let truth = board().truth();
    match leaf & 0xffff {
        0 => switch_model(at, false),
        1 => switch_model(at, true),
        2 => {
            let (totals, space) = (v.totals(machine), v.regs.cr3());
            truth.name(v, totals, space, text);
        }
        3 => {
            if let Some(path) = &board().config.truth {
                let (file, name) = truth.place(path, text);
                let host = schedule().statistics;
                truth::write(&file, &truth.json(vcpus, machine, &host, &name));
            }
        }
        4 => truth.reset(vcpus, machine),
        _ => return false,
    }
    vcpus[at].regs.set(RAX, MAGIC << 16 | 1);
    true
}

fn switch_model(at: usize, on: bool) {
    if board().config.model != ModelSwitch::Asked || MODEL.swap(on, Relaxed) == on {
        return;
    }
    let (vcpus, _) = board().vcpus_and_machine();
    for vcpu in vcpus.iter_mut() {
        vcpu.forget_translations();
    }
    // SAFETY: asks for the translated code of all vCPUs to be thrown away before this one goes on.
    unsafe { (qemu().flush)(vcpus[at].cpu) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_at_other_addresses() {
        let site = Site {
            special: Special::Cpuid,
            begin: 0x40_1ff0,
            next: 0x40_2003,
            rest: 0,
            kernel: false,
        };
        // Translated at 0x401ff0, run there and at 0x7f00_0000_1ff0, before and after the pointer
        // went on.
        for (rip, next) in [
            (0x40_1ff0, 0x40_2003),
            (0x40_2001, 0x40_2003),
            (0x7f00_0000_1ff5, 0x7f00_0000_2003),
            (0x1ff0, 0x2003),
        ] {
            assert_eq!(site.next_at(rip), next);
        }
    }

    #[test]
    fn a_packed_range_comes_back() {
        assert_eq!(unpack(pack((1 << 44) - 1, 7, true)), ((1 << 44) - 1, 7, true));
        assert_eq!(unpack(pack(3, 0, false)), (3, 0, false));
    }
}
