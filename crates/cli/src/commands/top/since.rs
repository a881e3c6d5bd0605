//! Growth of counters between two looks.

/// Growth of a counter since an earlier look; all of it where there is none.
pub fn since<'a, T>(now: &'a T, was: Option<&'a T>) -> impl Fn(fn(&T) -> u64) -> u64 + 'a {
    move |of| of(now).saturating_sub(was.map_or(0, of))
}
