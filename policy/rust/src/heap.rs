//! An ordered queue of tasks (`policy/include/solocore/heap.h`).

use crate::NONE;
use crate::raw;

/// A min-heap of (key, id); the lower id first among equals. Zeroed, it is empty. 64 KiB: keep it
/// in a box.
pub use crate::raw::sc_heap as Heap;

impl Heap {
    /// An empty heap.
    pub fn new() -> Box<Self> {
        // SAFETY: integers only; zero is the empty heap.
        unsafe { crate::zeroed() }
    }

    /// Adds an id; false if it is out of range (4096 and above) or already there.
    pub fn push(&mut self, key: u64, id: u32) -> bool {
        // SAFETY: `self` is a valid heap.
        unsafe { raw::sc_heap_push(self, key, id) != 0 }
    }

    /// Removes an id; false if it is not in the heap.
    pub fn remove(&mut self, id: u32) -> bool {
        // SAFETY: `self` is a valid heap.
        unsafe { raw::sc_heap_remove(self, id) != 0 }
    }

    /// Key and id of the first entry.
    pub fn top(&self) -> Option<(u64, u32)> {
        // SAFETY: `self` is a valid heap.
        let (key, id) = unsafe { (raw::sc_heap_top_key(self), raw::sc_heap_top(self)) };
        (id != NONE).then_some((key, id))
    }

    /// Whether the id is in the heap.
    pub fn contains(&self, id: u32) -> bool {
        // SAFETY: `self` is a valid heap.
        unsafe { raw::sc_heap_contains(self, id) != 0 }
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        static sc_size_heap: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: a constant of the C side.
        assert_eq!(unsafe { sc_size_heap }, size_of::<Heap>() as u64);
    }

    #[test]
    fn the_lower_id_is_first_among_equals() {
        let mut h = Heap::new();
        assert!(h.push(5, 7) && h.push(5, 3) && h.push(9, 1) && !h.push(1, 7));
        assert_eq!(h.top(), Some((5, 3)));
        assert!(h.remove(3) && !h.remove(3));
        assert_eq!((h.top(), h.len()), (Some((5, 7)), 2));
    }
}
