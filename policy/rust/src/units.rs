//! Bandwidth in bytes per second, and accesses per period (`policy/include/solocore/units.h`). All
//! are rounded down; a result that does not fit is [`crate::UNLIMITED`]; a period or line of 0
//! gives 0.

use crate::raw;
/// Number of accesses of `line` bytes in `period_ns` at this number of bytes per second.
pub fn events(bytes_per_s: u64, line: u64, period_ns: u64) -> u64 {
    // SAFETY: numbers only.
    unsafe { raw::sc_units_events(bytes_per_s, line, period_ns) }
}

/// Bytes per second of a number of accesses of `line` bytes in `period_ns`.
pub fn bandwidth(events: u64, line: u64, period_ns: u64) -> u64 {
    // SAFETY: numbers only.
    unsafe { raw::sc_units_bandwidth(events, line, period_ns) }
}

/// Bandwidth as [`bandwidth`], in MB/s (10^6 bytes).
pub fn megabytes(events: u64, line: u64, period_ns: u64) -> u64 {
    // SAFETY: numbers only.
    unsafe { raw::sc_units_megabytes(events, line, period_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Small numbers, large numbers and those in between, equally often.
    fn operand() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64).prop_map(|(x, shift)| x >> shift)
    }

    #[test]
    fn a_gigabyte_per_second_in_a_millisecond() {
        assert_eq!(events(1_000_000_000, 64, 1_000_000), 15_625);
        assert_eq!(bandwidth(15_625, 64, 1_000_000), 1_000_000_000);
        assert_eq!(megabytes(15_625, 64, 1_000_000), 1000);
        assert_eq!(
            (events(1, 0, 1), events(1, 1, 0), bandwidth(1, 0, 1), bandwidth(1, 1, 0)),
            (0, 0, 0, 0)
        );
    }

    proptest! {
        #[test]
        fn events_are_exact(rate in operand(), line in operand(), period in operand()) {
            prop_assume!(line != 0 && period != 0);
            let exact = u128::from(rate) * u128::from(period) / (u128::from(line) * 1_000_000_000);
            prop_assert_eq!(events(rate, line, period), u64::try_from(exact).unwrap_or(u64::MAX));
        }

        #[test]
        fn bandwidth_is_exact(events in operand(), line in operand(), period in operand()) {
            prop_assume!(line != 0 && period != 0);
            let product = (u128::from(events) * u128::from(line)).checked_mul(1_000_000_000);
            let exact = product.map_or(u64::MAX, |p| u64::try_from(p / u128::from(period)).unwrap_or(u64::MAX));
            prop_assert_eq!(bandwidth(events, line, period), exact);
        }
    }
}
