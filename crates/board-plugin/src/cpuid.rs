//! Answers of `cpuid` beyond QEMU's CPU: the platform's caches, counters, and cache
//! allocation.
//!
//! Caches are told by leaf 4 (Intel) and leaf 8000001D with TOPOEXT (AMD APM volume 3, appendix E).
//! They are the first level of the vCPU's core, its second if there is one, the shared cache with
//! all vCPUs as its users. The kernel shows them in /sys/devices/system/cpu/cpu0/cache and makes
//! one domain of allocation of them. Linux finds the users of a cache by its sub-leaf. Before 6.13
//! it has one number of sub-leaves for all CPUs (arch/x86/kernel/cpu/cacheinfo.c,
//! `__cache_amd_cpumap_setup`, `num_cache_leaves`). So a sub-leaf has the same level on all vCPUs
//! but one: where only other cores have a second level, a core tells its first data cache twice.
//!
//! Problem: the board adds bits to answers that only QEMU knows. Rule: the instruction runs; the
//! instruction behind it has a callback that changes the registers. That one is in the same block,
//! or begins a block that is translated later: such addresses are remembered.

use crate::board::board;
use crate::config::PmuKind;
use crate::vcpu::Vcpu;
use solocore_model::Platform;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
fn caches(p: &Platform, core: usize, sub: u32) -> Option<Cache> {
    let line = u32::try_from(p.llc.line.0).unwrap_or(64);
    let of = |kind, level, size: u64, ways: u32, shared| {
        let sets = u32::try_from(size / (u64::from(ways) * u64::from(line))).unwrap_or(1);
        Some(Cache { kind, level, line, ways, sets, shared })
    };
    let own = p.private_of(u32::try_from(core).unwrap_or(u32::MAX));
    // The shared cache has one level and one sub-leaf on all cores, also on those without a second
    // level.
    let any = (0..p.cores).any(|core| p.private_of(core).l2.is_some());
    let last = if any { 3 } else { 2 };
    match (sub, &own.l2) {
        (1, _) => of(2, 1, own.l1i.size.0, own.l1i.ways, false),
        (2, Some(l2)) => of(3, 2, l2.size.0, l2.ways, false),
        (n, _) if n == last => of(3, last, p.llc.size.0, p.llc.ways, true),
        (0 | 2, _) => of(1, 1, own.l1d.size.0, own.l1d.ways, false),
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
    let told = matches!(leaf, 4 | 0x8000_001d);
    if let Some(cache) = caches(&board().platform, v.index, sub).filter(|_| told) {
        let sharing = if cache.shared { board().config.cpus as u32 - 1 } else { 0 };
        let eax = cache.kind | cache.level << 5 | 1 << 8 | sharing << 14;
        // Cores of the package: leaf 4 only.
        let cores = if leaf == 4 { (board().config.cpus as u32 - 1) << 26 } else { 0 };
        answer = [eax | cores, (cache.line - 1) | (cache.ways - 1) << 22, cache.sets - 1, 0];
    } else if told {
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

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::platform::CoreType;

    /// Kind and level of each sub-leaf of a core.
    fn told(p: &Platform, core: usize) -> Vec<(u32, u32)> {
        (0..8).map_while(|sub| caches(p, core, sub)).map(|c| (c.kind, c.level)).collect()
    }

    /// Breaks when cores with and without a second level differ in their number of sub-leaves, or
    /// have the shared cache in different ones: Linux then writes beyond its list of caches.
    #[test]
    fn each_core_has_the_shared_cache_in_the_same_sub_leaf() {
        let mut p = crate::tests::platform();
        let second = p.l2.take();
        assert!(second.is_some());
        assert_eq!(told(&p, 0), [(1, 1), (2, 1), (3, 2)], "no core has a second level");
        let mut big = CoreType::of_clock("big", vec![1], p.frequency);
        big.l2.clone_from(&second);
        p.core_types = vec![CoreType::of_clock("little", vec![0], p.frequency), big];
        assert_eq!(told(&p, 1), [(1, 1), (2, 1), (3, 2), (3, 3)]);
        assert_eq!(told(&p, 0), [(1, 1), (2, 1), (1, 1), (3, 3)]);
        assert_eq!(caches(&p, 0, 2), caches(&p, 0, 0), "the same cache twice");
        assert_eq!(caches(&p, 0, 3), caches(&p, 1, 3));
        p.core_types.clear();
        p.l2 = second;
        assert_eq!(told(&p, 0), [(1, 1), (2, 1), (3, 2), (3, 3)]);
    }
}
