//! Quantities with units, read from strings such as `"10 ms"`, `"200 MB/s"`, `"4 KiB"`.
//!
//! Problem: a bare `10` in a timing file has been read as milliseconds by one tool and as
//! microseconds by the next. Rule: a quantity with a dimension is a string with its unit; a bare
//! number is refused. Decimal fractions are exact (no floating point), so `49.6 ns` is 49,600 ps.
//! MB is 10^6 bytes and MiB is 2^20; the two are never mixed silently.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A span of time in picoseconds: fine enough for DRAM timing, and 213 days fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    ps: u64,
}

impl Time {
    /// Picoseconds in a nanosecond.
    pub const PS_PER_NS: u64 = 1_000;

    /// From picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self { ps }
    }

    /// From nanoseconds. A time that does not fit becomes the largest one.
    pub const fn from_ns(ns: u64) -> Self {
        Self { ps: ns.saturating_mul(Self::PS_PER_NS) }
    }

    /// Picoseconds, exact.
    pub const fn ps(self) -> u64 {
        self.ps
    }

    /// Nanoseconds, rounded up, so that an upper bound stays one.
    pub const fn ns_ceil(self) -> u64 {
        self.ps.div_ceil(Self::PS_PER_NS)
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(pub u64);

/// Cycles per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frequency(pub u64);

impl Frequency {
    /// Time of a number of cycles in picoseconds, rounded up.
    pub fn cycles_to_ps(self, cycles: u64) -> u64 {
        let ps = (u128::from(cycles) * 1_000_000_000_000).div_ceil(u128::from(self.0.max(1)));
        u64::try_from(ps).unwrap_or(u64::MAX)
    }
}

/// Core clock cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cycles(pub u64);

const TIME_UNITS: &[(&str, u64)] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
];
const BYTE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const BANDWIDTH_UNITS: &[(&str, u64)] = &[
    ("B/s", 1),
    ("KB/s", 1_000),
    ("kB/s", 1_000),
    ("MB/s", 1_000_000),
    ("GB/s", 1_000_000_000),
    ("KiB/s", 1 << 10),
    ("MiB/s", 1 << 20),
    ("GiB/s", 1 << 30),
];
const FREQUENCY_UNITS: &[(&str, u64)] =
    &[("Hz", 1), ("kHz", 1_000), ("MHz", 1_000_000), ("GHz", 1_000_000_000)];
const CYCLE_UNITS: &[(&str, u64)] = &[("cycles", 1), ("cycle", 1)];

/// Parses `"12.5 ms"` exactly into multiples of the smallest unit.
fn parse_quantity(
    text: &str,
    kind: &str,
    example: &str,
    units: &[(&str, u64)],
) -> Result<u64, String> {
    let text = text.trim();
    let split =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_' || c == '-' || c == '+'));
    let (number, unit) = match split {
        Some(at) => (text[..at].trim(), text[at..].trim()),
        None => (text, ""),
    };
    let names = || {
        let mut seen: Vec<&str> = units.iter().map(|(n, _)| *n).collect();
        seen.retain(|n| *n != "µs" && *n != "kB" && *n != "kB/s" && *n != "cycle");
        seen.join(", ")
    };
    if unit.is_empty() {
        return Err(format!(
            "`{text}` has no unit; a {kind} is written like \"{example}\" (units: {})",
            names()
        ));
    }
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(format!(
            "unknown unit `{unit}` in `{text}`; a {kind} takes one of {}",
            names()
        ));
    };
    if number.starts_with('-') {
        return Err(format!("`{text}` is negative; a {kind} is zero or more, like \"{example}\""));
    }
    let digits: String = number.trim_start_matches('+').chars().filter(|&c| c != '_').collect();
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let bad =
        || format!("`{text}` is not a number with a unit; a {kind} is written like \"{example}\"");
    let large = || format!("`{text}` is too large for a {kind}; give less");
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return Err(bad());
    }
    let fraction = fraction.trim_end_matches('0');
    let mut value: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        value = value.checked_mul(10).map(|v| v + u128::from(digit - b'0')).ok_or_else(large)?;
    }
    let divisor =
        u32::try_from(fraction.len()).ok().and_then(|n| 10u128.checked_pow(n)).ok_or_else(bad)?;
    let scaled = value.checked_mul(u128::from(scale)).ok_or_else(large)?;
    // A rate rounds down by less than one byte a second; a time or a size that is not whole is a
    // slip.
    if scaled % divisor != 0 && !unit.ends_with("/s") {
        let smallest = units.iter().min_by_key(|(_, s)| *s).map_or("", |(n, _)| n);
        return Err(format!("`{text}` is finer than one {smallest}; round it"));
    }
    u64::try_from(scaled / divisor).map_err(|_| large())
}

/// The regular expression, for JSON Schema, of the texts that [`parse_quantity`] accepts.
fn pattern(units: &[(&str, u64)]) -> String {
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    let digits = r"([0-9_]+(\.[0-9_]*)?|\.[0-9_]+)";
    format!(r"^\s*\+*{digits}\s*({})\s*$", names.join("|"))
}

macro_rules! unit_serde {
    ($type:ty, $kind:literal, $example:literal, $units:ident, $make:expr) => {
        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                parse_quantity(text, $kind, $example, $units).map($make)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": concat!("A ", $kind, " with its unit, like \"", $example, "\"."),
                    "pattern": pattern($units),
                })
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct V;
                impl Visitor<'_> for V {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                        write!(f, "a {} with its unit, like \"{}\"", $kind, $example)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(V)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

unit_serde!(Time, "time", "10 ms", TIME_UNITS, |ps| Time { ps });
unit_serde!(Bytes, "size", "4 KiB", BYTE_UNITS, Bytes);
unit_serde!(Bandwidth, "bandwidth", "200 MB/s", BANDWIDTH_UNITS, Bandwidth);
unit_serde!(Frequency, "frequency", "1.5 GHz", FREQUENCY_UNITS, Frequency);
unit_serde!(Cycles, "number of cycles", "11 cycles", CYCLE_UNITS, Cycles);

/// Writes `value / scale` as an exact decimal: 49,600 ps over 1,000 becomes `49.6`.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, scale: u64) -> fmt::Result {
    write!(f, "{}", value / scale)?;
    let mut rest = value % scale;
    if rest > 0 {
        write!(f, ".")?;
        while rest > 0 {
            rest *= 10;
            write!(f, "{}", rest / scale)?;
            rest %= scale;
        }
    }
    Ok(())
}

/// Shows a quantity in the largest of `units` (largest first) that is not above it.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (name, scale) =
        units.iter().find(|(_, s)| value >= *s).or(units.last()).copied().unwrap_or(("", 1));
    write_decimal(f, value, scale)?;
    write!(f, " {name}")
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("s", 1_000_000_000_000),
            ("ms", 1_000_000_000),
            ("us", 1_000_000),
            ("ns", 1_000),
            ("ps", 1),
        ];
        write_scaled(f, self.ps, &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Binary units only where they are exact, as in every cache size.
        let unit = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        let exact = unit.iter().find(|(_, s)| self.0 >= *s && self.0.is_multiple_of(*s));
        let (name, scale) = exact.copied().unwrap_or(("B", 1));
        write!(f, "{} {name}", self.0 / scale)
    }
}

/// Exact, as files need it. A precision, as in `{:.2}`, is the largest number of decimals.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GB/s", 1_000_000_000), ("MB/s", 1_000_000), ("KB/s", 1_000), ("B/s", 1)];
        let Some(decimals) = f.precision() else { return write_scaled(f, self.0, &units) };
        let (name, scale) = units.iter().find(|(_, s)| self.0 >= *s).unwrap_or(&units[3]);
        let text = format!("{:.decimals$}", self.0 as f64 / *scale as f64);
        let short = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        write!(f, "{short} {name}")
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(
            f,
            self.0,
            &[("GHz", 1_000_000_000), ("MHz", 1_000_000), ("kHz", 1_000), ("Hz", 1)],
        )
    }
}

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cycles", self.0)
    }
}

/// Reads a time that must be above zero (a period, a deadline, a duration).
pub(crate) fn positive_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let time = Time::deserialize(deserializer)?;
    if time.ps == 0 {
        return Err(D::Error::custom(
            "a period, deadline or duration must be more than zero, like \"10 ms\"",
        ));
    }
    Ok(time)
}

/// As [`positive_time`], for a key that may be left out.
pub(crate) fn positive_time_option<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Time>, D::Error> {
    positive_time(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_fractions_are_exact() {
        assert_eq!("49.6 ns".parse(), Ok(Time::from_ps(49_600)));
        assert_eq!("0.001ms".parse(), Ok(Time::from_ns(1_000)));
        assert_eq!("1.2 GiB/s".parse(), Ok(Bandwidth(1_288_490_188)));
        assert_eq!("1.5 GiB/s".parse(), Ok(Bandwidth(1_610_612_736)));
        assert_eq!("1_000 KB".parse(), Ok(Bytes(1_000_000)));
    }

    #[test]
    fn a_time_that_does_not_fit_is_the_largest() {
        assert_eq!(Time::from_ns(u64::MAX / 1000), Time::from_ps(u64::MAX / 1000 * 1000));
        assert_eq!(Time::from_ns(u64::MAX / 1000 + 1), Time::from_ps(u64::MAX));
    }

    #[test]
    fn a_bandwidth_is_exact_but_for_readers() {
        assert_eq!(Bandwidth(1_290_322_580).to_string(), "1.29032258 GB/s");
        assert_eq!(format!("{:.2}", Bandwidth(1_290_322_580)), "1.29 GB/s");
        assert_eq!(format!("{:.2}", Bandwidth(200_000_000)), "200 MB/s");
        assert_eq!(format!("{:.0}", Bandwidth(20_499)), "20 KB/s");
        assert_eq!(format!("{:.1}", Bandwidth(0)), "0 B/s");
    }

    #[test]
    fn refuses_what_is_not_a_quantity() {
        for bad in [
            "10",
            "ms",
            "-1 ms",
            "1.2.3 ms",
            "10 parsecs",
            "",
            "1e3 ms",
            "99999999999999 s",
            "0.1 ps",
        ] {
            assert!(bad.parse::<Time>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn shows_what_it_reads() {
        for text in ["49.6 ns", "10 ms", "1 s", "0 ps", "1.5 us"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert_eq!(Bytes(4096).to_string(), "4 KiB");
        assert_eq!(Bytes(1000).to_string(), "1000 B");
    }
}
