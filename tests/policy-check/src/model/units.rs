//! Accesses per period from bytes per second, and back (single-core-equivalence, section 2.2: a
//! reservation of 1 GB/s is 16384 misses of 64 bytes in each millisecond, where GB is 2^30 and the
//! millisecond 2^-10 s).
//!
//! The exact rational, rounded down; what does not fit 64 bits is 2^64 - 1.

use crate::{Answer, Event, World};

const NS_PER_S: u128 = 1_000_000_000;

#[derive(Default)]
struct Units {
    ready: bool,
}

/// What fits 64 bits, or the largest number that does.
fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// floor(bytes_per_s * period / (1e9 * line)).
fn events(bytes_per_s: u64, line: u64, period_ns: u64) -> u64 {
    if line == 0 || period_ns == 0 {
        return 0;
    }
    saturate(u128::from(bytes_per_s) * u128::from(period_ns) / (NS_PER_S * u128::from(line)))
}

/// floor(events * line * 1e9 / period), by whole periods' worth of bytes and the rest, which keeps
/// it in 128 bits.
fn bytes_per_s(events: u64, line: u64, period_ns: u64) -> u128 {
    if line == 0 || period_ns == 0 {
        return 0;
    }
    let bytes = u128::from(events) * u128::from(line);
    let period = u128::from(period_ns);
    (bytes / period).saturating_mul(NS_PER_S).saturating_add(bytes % period * NS_PER_S / period)
}

impl World for Units {
    fn apply(&mut self, event: &Event) -> Answer {
        let mut answer = Answer::default();
        match event.op {
            0 if !self.ready => {
                self.ready = true;
                answer.word[0] = 1;
            }
            1 if self.ready => answer.word[0] = events(event.a, event.b, event.c),
            2 if self.ready => {
                let rate = bytes_per_s(event.a, event.b, event.c);
                answer.word[0] = saturate(rate);
                // Megabytes of the saturated rate: the two words are the same figure in two units.
                answer.word[1] = saturate(rate) / 1_000_000;
            }
            _ => {}
        }
        answer
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(Units::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabyte_per_second_is_16384_lines_per_1024th_of_a_second() {
        // 2^30 bytes/s, 64 bytes, 976562.5 ns would be 2^-10 s: two of those periods are a whole
        // number of ns.
        assert_eq!(events(1 << 30, 64, 1_953_125), 2 * 16384);
        // In a true millisecond: 1073741824 / 64 / 1000 = 16777.2
        assert_eq!(events(1 << 30, 64, 1_000_000), 16777);
    }

    #[test]
    fn there_and_back_never_gains() {
        for rate in [1, 999, 100_000_000, 123_456_789_012] {
            let back = bytes_per_s(events(rate, 64, 1_000_000), 64, 1_000_000);
            assert!(back <= u128::from(rate) && u128::from(rate) - back < 64_000, "{rate}: {back}");
        }
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(events(u64::MAX, 1, u64::MAX), u64::MAX);
        assert_eq!(events(u64::MAX, u64::MAX, u64::MAX), u64::MAX / 1_000_000_000);
        assert_eq!(events(5, 0, 5), 0);
        assert_eq!(bytes_per_s(5, 5, 0), 0);
        assert_eq!(saturate(bytes_per_s(u64::MAX, u64::MAX, 1)), u64::MAX);
        assert_eq!(bytes_per_s(u64::MAX, 64, 1_000_000_000), u128::from(u64::MAX) * 64);
    }
}
