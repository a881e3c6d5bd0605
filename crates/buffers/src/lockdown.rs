//! Pages put into the cache line by line, so that they are there when a job needs them.
//!
//! Problem: a page stays in a shared cache only while no other lines are put into its ways or
//! colours. It must be brought into these, not only be anywhere in the cache. Rule: each line is
//! flushed first, so that it is allocated again. It is then read by a thread that may allocate
//! where the page is to stay (resctrl's group of these ways, or a page of a colour with no other
//! user). If a shared cache gets lines only when private ones evict them, the CPU is told to do so
//! (cldemote). A page is brought in when a job first uses it ([`Lockdown::use_pages`]), and nothing
//! remains at the end: the lines are ordinary ones then. Source: single-core-equivalence, section
//! 2.3 (Colored Lockdown: prefetch into colours, then lock; here, instead of a lock bit, no other
//! program may allocate there). Does not cover: permissions to allocate (crates/linux, resctrl);
//! lines that a device's DMA or another CPU's flush removes.

use crate::residency::flush;
use crate::walk::{Access, pass};
use crate::{LINE, Mapping, PAGE};

/// Does this CPU have the instruction that moves a line outwards?
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn can_demote() -> bool {
    // Leaf 7, ECX bit 25.
    let known = std::arch::x86_64::__cpuid(0).eax >= 7;
    known && std::arch::x86_64::__cpuid_count(7, 0).ecx >> 25 & 1 == 1
}

/// Does this CPU have the instruction that moves a line outwards?
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn can_demote() -> bool {
    false
}

/// Moves lines from the private caches to the shared one, where the CPU can.
pub fn demote(memory: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if can_demote() {
        for line in memory.chunks(LINE) {
            // SAFETY: it is a hint, and the line is mapped.
            unsafe {
                std::arch::asm!("cldemote [{}]", in(reg) line.as_ptr(), options(nostack, preserves_flags))
            };
        }
    }
    let _ = (memory, LINE);
}

/// Brings memory into the cache again.
pub fn prefetch(memory: &mut [u8]) {
    for page in memory.chunks_mut(PAGE) {
        flush(page);
        pass(page, Access::Read);
    }
    demote(memory);
}

/// Pages that are brought in when they are first used.
#[derive(Debug)]
pub struct Lockdown {
    memory: Mapping,
    inside: Vec<bool>,
}

impl Lockdown {
    /// A lockdown before any page is brought in.
    #[must_use]
    pub fn new(memory: Mapping) -> Self {
        Self { inside: vec![false; memory.len() / PAGE], memory }
    }

    /// A job is about to use these pages: those that are not in yet are brought in. Returns their
    /// number.
    pub fn use_pages(&mut self, pages: std::ops::Range<usize>) -> usize {
        let pages = pages.start.min(self.inside.len())..pages.end.min(self.inside.len());
        let mut brought = 0;
        for number in pages {
            if !std::mem::replace(&mut self.inside[number], true) {
                prefetch(&mut self.memory[number * PAGE..(number + 1) * PAGE]);
                brought += 1;
            }
        }
        brought
    }

    /// Pages that were brought in.
    #[must_use]
    pub fn inside(&self) -> usize {
        self.inside.iter().filter(|&&i| i).count()
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &Mapping {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_brought_in_once() {
        let mut lockdown = Lockdown::new(Mapping::new(8 * PAGE).unwrap());
        assert_eq!(lockdown.inside(), 0);
        assert_eq!(lockdown.use_pages(2..5), 3);
        assert_eq!(lockdown.use_pages(0..4), 2, "the first two");
        assert_eq!(lockdown.use_pages(0..8), 3);
        assert_eq!((lockdown.use_pages(0..100), lockdown.use_pages(90..91)), (0, 0));
        assert_eq!(lockdown.inside(), 8);
        assert!(lockdown.memory().iter().all(|&b| b == 0), "prefetching changes nothing");
    }
}
