//! Inclusion of the private caches in the last cache.
//!
//! Problem: an inclusive cache takes a line that it gives up out of the private caches as well, and
//! no file of the kernel tells of it. Rule: bit 1 of EDX in the CPU's own description of its last
//! cache (CPUID leaf 4; 0x8000001d on AMD) is asked on this machine. Sources: Intel, Software
//! Developer's Manual, volume 2A, CPUID; AMD, Architecture Programmer's Manual, volume 3, appendix
//! E. Does not cover: other machines, whose copied files do not hold it; other instruction sets;
//! hypervisors that answer for another CPU.

/// Is the last cache of this machine inclusive? `None`: it does not tell.
#[cfg(target_arch = "x86_64")]
pub fn of_this_machine() -> Option<bool> {
    use std::arch::x86_64::__cpuid_count;
    let ask = |leaf, part| __cpuid_count(leaf, part);
    let highest = |base: u32| ask(base, 0).eax;
    // "AuthenticAMD" and "HygonGenuine" have the leaf of AMD.
    let amd = matches!(ask(0, 0).ebx, 0x6874_7541 | 0x6f67_7948);
    let leaf = if amd { 0x8000_001d } else { 4 };
    if highest(leaf & 0x8000_0000) < leaf {
        return None;
    }
    last((0..16).map(|part| {
        let found = ask(leaf, part);
        (found.eax, found.edx)
    }))
}

/// Other machines do not tell.
#[cfg(not(target_arch = "x86_64"))]
pub fn of_this_machine() -> Option<bool> {
    None
}

/// From the parts of the leaf, EAX and EDX of each, up to the one of no kind: the highest level.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn last(parts: impl Iterator<Item = (u32, u32)>) -> Option<bool> {
    let level = |eax: u32| eax >> 5 & 7;
    let caches = parts.take_while(|(eax, _)| eax & 0x1f != 0);
    caches
        .max_by_key(|(eax, _)| level(*eax))
        .filter(|(eax, _)| level(*eax) > 1)
        .map(|(_, edx)| edx & 2 != 0)
}

#[cfg(test)]
mod tests {
    use super::last;

    /// Kind and level in EAX; EDX.
    const L1: (u32, u32) = (1 | 1 << 5, 0);
    const L2: (u32, u32) = (3 | 2 << 5, 0);

    #[test]
    fn the_highest_level_decides() {
        let l3 = |edx| (3 | 3 << 5, edx);
        let none = (0, 0);
        let of = |parts: &[(u32, u32)]| last(parts.iter().copied());
        assert_eq!(of(&[L1, L2, l3(0b110), none]), Some(true), "Intel Core before 2020");
        assert_eq!(
            of(&[L1, L2, l3(0b100), none, l3(0b110)]),
            Some(false),
            "nothing behind the end"
        );
        assert_eq!(of(&[(1 | 1 << 5, 2), (3 | 2 << 5, 2)]), Some(true), "a second level is last");
        assert_eq!(of(&[L1]), None, "a private cache alone");
        assert_eq!(of(&[none]), None);
    }
}
