//! Stores that bypass the caches, and prefetches that a program asks for.

/// Stores a value to every word, without bringing lines into a cache; false: this instruction set
/// has no such store here, and nothing was written.
#[cfg(target_arch = "x86_64")]
pub(crate) fn store_past_caches(words: &mut [u64], value: u64) -> bool {
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si64};
    let value = value.cast_signed();
    for word in &mut *words {
        // SAFETY: `word` is a word of 8 bytes that nobody else has; every x86-64 has SSE2.
        unsafe { _mm_stream_si64((&raw mut *word).cast(), value) };
    }
    // The stores above are in no order with others until here; the words are read only after it.
    // SAFETY: every x86-64 has SSE.
    unsafe { _mm_sfence() };
    true
}

/// As the function above, without such stores on this instruction set.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn store_past_caches(_words: &mut [u64], _value: u64) -> bool {
    false
}

/// Asks for the line of each of these words; false: this instruction set has no such instruction
/// here.
#[cfg(target_arch = "x86_64")]
pub(crate) fn prefetch<'a>(words: impl Iterator<Item = &'a u64>) -> bool {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for word in words {
        // SAFETY: a prefetch changes nothing that a program can see; every x86-64 has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }
    true
}

/// As the function above.
#[cfg(target_arch = "aarch64")]
pub(crate) fn prefetch<'a>(words: impl Iterator<Item = &'a u64>) -> bool {
    for word in words {
        // SAFETY: a prefetch changes nothing that a program can see.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) word, options(nostack, readonly));
        }
    }
    true
}

/// As the function above, without such an instruction on this instruction set.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn prefetch<'a>(_words: impl Iterator<Item = &'a u64>) -> bool {
    false
}
