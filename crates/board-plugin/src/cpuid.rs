//! What `cpuid` says beyond QEMU's processor: counters, and cache allocation.
//!
//! Problem: the board adds bits to answers that only QEMU knows. Rule: the instruction runs; the instruction behind it has a callback that changes the registers.
//! That one is in the same block, or begins a block that is translated later: such addresses are remembered.

use crate::board::board;
use crate::config::PmuKind;
use crate::vcpu::Vcpu;

/// A vCPU is about to execute `cpuid`: must its answer be changed?
pub fn concerns(leaf: u32) -> bool {
    let counters = match board().config.pmu {
        PmuKind::Amd => leaf == 0x8000_0001,
        PmuKind::Intel => matches!(leaf, 0 | 1 | 0xa),
        PmuKind::None => false,
    };
    counters || board().allocation().concerns(leaf)
}

/// Changes the registers that the instruction has written.
pub fn change(v: &Vcpu, leaf: u32, sub: u32) {
    // EAX, EBX, ECX, EDX by their numbers.
    const ORDER: [usize; 4] = [0, 3, 1, 2];
    let word = |number: usize| u32::try_from(v.regs.get(number) & 0xffff_ffff).unwrap_or(0);
    let mut answer = ORDER.map(word);
    match (board().config.pmu, leaf) {
        // Six counters, in the MSRs from C0010200 on.
        (PmuKind::Amd, 0x8000_0001) => answer[2] |= 1 << 23,
        (PmuKind::Intel, 0) => answer[0] = answer[0].max(0xa),
        // The capabilities' MSR.
        (PmuKind::Intel, 1) => answer[2] |= 1 << 15,
        // Version 2: four counters and three fixed ones, of 48 bits; all seven architectural events.
        (PmuKind::Intel, 0xa) => answer = [2 | 4 << 8 | 48 << 16 | 7 << 24, 0, 0, 3 | 48 << 5],
        _ => {}
    }
    if board().allocation().concerns(leaf) {
        board().allocation().cpuid(leaf, sub, &mut answer);
    }
    for (number, value) in ORDER.into_iter().zip(answer) {
        v.regs.set(number, value.into());
    }
}
