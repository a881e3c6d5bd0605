//! Properties of the calling thread, and flushes of lines from the caches.
//!
//! Source: getrusage(2), clock_gettime(2); Intel SDM vol. 2 CLFLUSH; Arm ARM, DC CIVAC.
//! Does not cover: caches that a hypervisor or a device keeps in front of the memory.

use rustix::time::ClockId;
use std::time::Duration;

/// Time that the calling thread has run.
#[must_use]
pub fn run_time() -> Duration {
    rustix::time::clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// Number of times that the calling thread gave up its CPU or lost it.
#[must_use]
pub fn switches() -> u64 {
    // SAFETY: all zero bytes are valid numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the usage, which lives through the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if result != 0 {
        return 0;
    }
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    count(usage.ru_nvcsw) + count(usage.ru_nivcsw)
}

/// Can [`flush`] flush lines from every cache here?
pub const CAN_FLUSH: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Has this CPU CLFLUSHOPT? Its flushes overlap (CLFLUSH waits for each: 20 times as long).
#[cfg(target_arch = "x86_64")]
fn flushes_overlap() -> bool {
    static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
    // SAFETY: every x86-64 has the instruction; leaf 7 is asked for only if there is one.
    let ask = || unsafe {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx >> 23 & 1 == 1
    };
    *KNOWN.get_or_init(ask)
}

/// Flushes the lines of these objects from every cache, and waits until it is done. Where this is
/// impossible, nothing happens.
pub fn flush<'a, T: 'a>(objects: impl Iterator<Item = &'a T>) {
    #[cfg(target_arch = "x86_64")]
    let overlap = flushes_overlap();
    for object in objects {
        let start = std::ptr::from_ref(object);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the object lives; flushing changes no value. The CPU has the instruction.
        unsafe {
            if overlap {
                std::arch::asm!("clflushopt [{}]", in(reg) start, options(nostack, preserves_flags));
            } else {
                std::arch::x86_64::_mm_clflush(start.cast());
            }
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the object lives; cleaning and invalidating changes no value. Linux lets programs
        // do it (SCTLR_EL1.UCI).
        unsafe {
            std::arch::asm!("dc civac, {}", in(reg) start, options(nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = start;
    }
    fence();
}

/// Waits until all accesses so far are done, stores and flushes as well. On other CPUs than
/// x86-64 and aarch64 nothing happens.
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: only orders accesses. Every x86-64 has the instruction.
    unsafe {
        std::arch::x86_64::_mm_mfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: only orders accesses.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_its_time_and_switches() {
        let (time, count) = (run_time(), switches());
        let mut sum = 0u64;
        while run_time() == time {
            sum = std::hint::black_box(sum + 1);
        }
        std::thread::sleep(Duration::from_millis(1));
        assert!(switches() > count, "sleeping is a switch");
    }

    #[test]
    fn flushing_changes_no_value() {
        let values: Vec<u64> = (0..1000).collect();
        flush(values.iter());
        assert!(values.iter().zip(0..).all(|(&v, n)| v == n));
    }
}
