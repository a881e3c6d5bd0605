//! Lists of small numbers, written like "0-3,8".

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// Numbers in ascending order, none twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(pub Vec<u32>);

/// Upper limit of a number: a bank, a colour, a way or a core.
const MOST: u32 = 1 << 20;

impl Ranges {
    /// As a mask; `None` when a number is 64 or more.
    #[must_use]
    pub fn mask(&self) -> Option<u64> {
        self.0
            .iter()
            .try_fold(0, |mask, &n| 1u64.checked_shl(n).filter(|_| n < 64).map(|bit| mask | bit))
    }

    /// As indices.
    #[must_use]
    pub fn indices(&self) -> Vec<usize> {
        self.0.iter().map(|&n| n as usize).collect()
    }
}

impl std::str::FromStr for Ranges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a list of numbers; write it like \"0-3,8\"");
        let number = |s: &str| s.trim().parse::<u32>().ok().filter(|n| *n < MOST).ok_or_else(bad);
        let mut out = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!(
                    "`{part}` in `{text}` goes backwards; write the smaller number first"
                ));
            }
            out.extend(first..=last);
        }
        out.sort_unstable();
        if out.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("`{text}` names a number twice"));
        }
        Ok(Self(out))
    }
}

impl JsonSchema for Ranges {
    fn schema_name() -> Cow<'static, str> {
        "Ranges".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let part = r"\s*\+?[0-9]+\s*(-\s*\+?[0-9]+\s*)?";
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": MOST - 1},
            {"type": "string", "pattern": format!("^{part}(,{part})*$")},
        ]})
    }
}

impl<'de> Deserialize<'de> for Ranges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Ranges;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number, or a list of numbers like \"0-3,8\"")
            }

            fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<Ranges, E> {
                n.to_string().parse().map_err(E::custom)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Ranges, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(V).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!("0-3,8".parse(), Ok(Ranges(vec![0, 1, 2, 3, 8])));
        assert_eq!("8, 2".parse::<Ranges>().unwrap().mask(), Some(0x104));
        assert_eq!("64".parse::<Ranges>().unwrap().mask(), None);
        for bad in ["", "a", "3-1", "1,1", "0-2,1", "1-", "-1", "99999999999", "0-4294967295"] {
            assert!(bad.parse::<Ranges>().is_err(), "{bad}");
        }
    }
}
