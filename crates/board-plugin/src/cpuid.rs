//! Answers of `cpuid` beyond QEMU's CPU: the platform's caches, counters, and cache
//! allocation.
//!
//! Caches are told by leaf 4 (Intel) and leaf 8000001D with TOPOEXT (AMD APM volume 3, appendix E).
//! They are the first level of the vCPU's core, its second if there is one, the shared cache with
//! all vCPUs as its users. The kernel shows them in /sys/devices/system/cpu/cpu0/cache and makes one domain of
//! allocation of them.
//!
//! Problem: the board adds bits to answers that only QEMU knows. Rule: the instruction runs; the
//! instruction behind it has a callback that changes the registers. That one is in the same block,
//! or begins a block that is translated later: such addresses are remembered.

use crate::board::board;
use crate::config::PmuKind;
use crate::vcpu::Vcpu;

/// Whether the answer of a `cpuid` that a vCPU is about to execute must be changed.
pub fn concerns(leaf: u32) -> bool {
    if matches!(leaf, 4 | 0x8000_0000 | 0x8000_0001 | 0x8000_001d | 0x8000_001e) {
        return true;
    }
    let counters = match board().config.pmu {
        PmuKind::Amd => leaf == 0x8000_0001,
        PmuKind::Intel => matches!(leaf, 0 | 1 | 0xa),
        PmuKind::None => false,
    };
    counters || board().allocation().concerns(leaf)
}

/// A cache as the leaves describe it.
struct Cache {
    /// Kind: 1 data, 2 instructions, 3 both.
    kind: u32,
    level: u32,
    line: u32,
    ways: u32,
    sets: u32,
    shared: bool,
}

/// The cache that a sub-leaf describes.
fn caches(core: usize, leaf: u32, sub: u32) -> Option<Cache> {
    if !matches!(leaf, 4 | 0x8000_001d) {
        return None;
    }
    let p = &board().platform;
    let line = u32::try_from(p.llc.line.0).unwrap_or(64);
    let of = |kind, level, size: u64, ways: u32, shared| {
        let sets = u32::try_from(size / (u64::from(ways) * u64::from(line))).unwrap_or(1);
        Some(Cache { kind, level, line, ways, sets, shared })
    };
    let own = p.private_of(u32::try_from(core).unwrap_or(u32::MAX));
    // The shared cache has one level on all cores, also on those without a second one.
    let any = (0..p.cores).any(|core| p.private_of(core).l2.is_some());
    let last = if any { 3 } else { 2 };
    let shared = if own.l2.is_some() { 3 } else { 2 };
    match (sub, &own.l2) {
        (0, _) => of(1, 1, own.l1d.size.0, own.l1d.ways, false),
        (1, _) => of(2, 1, own.l1i.size.0, own.l1i.ways, false),
        (2, Some(l2)) => of(3, 2, l2.size.0, l2.ways, false),
        (n, _) if n == shared => of(3, last, p.llc.size.0, p.llc.ways, true),
        _ => None,
    }
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
        // Version 2: four counters and three fixed ones, of 48 bits; all seven architectural
        // events.
        (PmuKind::Intel, 0xa) => answer = [2 | 4 << 8 | 48 << 16 | 7 << 24, 0, 0, 3 | 48 << 5],
        _ => {}
    }
    if let Some(cache) = caches(v.index, leaf, sub) {
        let sharing = if cache.shared { board().config.cpus as u32 - 1 } else { 0 };
        let eax = cache.kind | cache.level << 5 | 1 << 8 | sharing << 14;
        // Cores of the package: leaf 4 only.
        let cores = if leaf == 4 { (board().config.cpus as u32 - 1) << 26 } else { 0 };
        answer = [eax | cores, (cache.line - 1) | (cache.ways - 1) << 22, cache.sets - 1, 0];
    } else if matches!(leaf, 4 | 0x8000_001d) {
        answer = [0; 4];
    }
    match leaf {
        0x8000_0000 => answer[0] = answer[0].max(0x8000_001e),
        0x8000_0001 if board().config.pmu != PmuKind::Intel => answer[2] |= 1 << 22,
        // One thread per core, one node.
        0x8000_001e => {
            let at = v.index as u32;
            answer = [at, at, 0, 0];
        }
        _ => {}
    }
    if board().allocation().concerns(leaf) {
        board().allocation().cpuid(leaf, sub, &mut answer);
    }
    for (number, value) in ORDER.into_iter().zip(answer) {
        v.regs.set(number, value.into());
    }
}
