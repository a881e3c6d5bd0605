//! Memory that the allocator has freed goes back to the kernel.
//!
//! Problem: the C library raises the size of the blocks that it maps apart as soon as a larger one
//! is freed. Later blocks of this size come from the heap, and their memory stays with the
//! process. A text for a client that grows by a digit can then add its whole length to the
//! daemon's memory, hours after the start.
//! Rule: the size is set once, and stays (mallopt(3), `M_MMAP_THRESHOLD`). Larger blocks are mapped
//! and unmapped, and the free end of a heap is cut when it is as large.
//! Does not cover: smaller blocks, which the heap keeps for the next ones; other C libraries than
//! the GNU one, where nothing is set.

/// Smallest size of a block that is mapped apart, and largest free end of a heap, in bytes. It is
/// the library's own first value.
#[cfg(target_env = "gnu")]
const APART: libc::c_int = 128 << 10;

/// Sets the size of blocks that are mapped apart, for the whole process.
#[cfg(target_env = "gnu")]
pub(crate) fn give_large_blocks_back() {
    for number in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: the C library changes a number of its own, under its own lock.
        unsafe { libc::mallopt(number, APART) };
    }
}

/// As the function above, with another C library: it does nothing.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn give_large_blocks_back() {}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Bytes of blocks that are mapped apart now.
    fn apart() -> usize {
        // SAFETY: it only reads counts of the allocator.
        unsafe { libc::mallinfo2() }.hblkhd
    }

    /// Fails where a freed block makes the heap take the next one of its size, which it keeps. A
    /// process of its own: another test's freed blocks may lie in the heap already.
    #[test]
    fn a_freed_block_does_not_change_the_next_ones() {
        let tests = std::env::current_exe().expect("this program");
        let alone = std::process::Command::new(tests)
            .args(["sys::heap::tests::alone_in_a_process", "--exact", "--ignored"])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    #[ignore = "the test above runs it"]
    fn alone_in_a_process() {
        const SIZE: usize = 8 << 20;
        give_large_blocks_back();
        for _ in 0..3 {
            let before = apart();
            let block = std::hint::black_box(vec![1u8; SIZE]);
            assert!(apart() >= before + SIZE, "{} bytes are apart", apart());
            drop(block);
        }
    }
}
