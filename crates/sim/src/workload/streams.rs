//! Reads that need no earlier read's data: those of arrays that a program walks through.
//!
//! Problem: a recording has the addresses, not the data from which they came. If the core waited
//! for every read, a program that copies memory would be ten times too slow, and so a harmless
//! neighbour. Rule: a read of the line after that of a recent read continues a stream: its address
//! is counted up, and comes from no data. So the core need not wait for it, within its window and
//! its miss registers. Not covered: independent reads in another order; reads that follow pointers
//! which happen to lie side by side.

/// Streams followed at a time: two for each of the eight pointers that a loop holds in registers.
/// Assumed.
const STREAMS: usize = 16;

/// The streams of a recording so far.
#[derive(Debug)]
pub(super) struct Streams {
    /// The next line of each stream, least recently used first.
    next: [u64; STREAMS],
}

impl Streams {
    pub(super) const fn new() -> Self {
        Self { next: [u64::MAX; STREAMS] }
    }

    /// Does a read of this line continue a stream? Otherwise it begins one.
    pub(super) fn goes_on(&mut self, line: u64) -> bool {
        let found = self.next.iter().position(|&next| next == line);
        self.next[found.unwrap_or(0)..].rotate_left(1);
        self.next[STREAMS - 1] = line + 1;
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_streams_and_pointers_are_not() {
        let mut streams = Streams::new();
        // Two arrays in turn, and one that is walked downwards.
        let arrays = (0..100u64).flat_map(|i| [i, 1000 + i, 5000 - i]);
        let waited: Vec<u64> = arrays.filter(|&line| !streams.goes_on(line)).collect();
        let expected: Vec<u64> =
            [0, 1000, 5000].into_iter().chain((1..100).map(|i| 5000 - i)).collect();
        assert_eq!(waited, expected);
        let mut streams = Streams::new();
        assert!((0..100u64).all(|i| !streams.goes_on(i * 7919 % 6007)));
    }

    #[test]
    fn a_stream_that_others_crowd_out_begins_anew() {
        let mut streams = Streams::new();
        assert!(!streams.goes_on(5));
        assert!((0..STREAMS as u64).all(|i| !streams.goes_on(1000 + 10 * i)));
        assert!(!streams.goes_on(6));
        assert!(streams.goes_on(7));
    }
}
