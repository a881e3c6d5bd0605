//! A factor of at least 1 in thousandths, in files a number.

use serde::{Deserialize, Deserializer, Serializer};

pub fn serialize<S: Serializer>(factor: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    match factor {
        Some(permille) => to.serialize_some(&(*permille as f64 / 1000.0)),
        None => to.serialize_none(),
    }
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(f64),
        Other(serde::de::IgnoredAny),
    }
    let factor = match Option::<Given>::deserialize(from)? {
        None => return Ok(None),
        Some(Given::Number(factor)) => factor,
        Some(Given::Other(_)) => {
            return Err(serde::de::Error::custom("slowdown is not a number; 2.0 is a usual one"));
        }
    };
    if !(1.0..=1000.0).contains(&factor) {
        return Err(serde::de::Error::custom(format!(
            "slowdown = {factor} is not within 1 and 1000; 2.0 is a usual one"
        )));
    }
    // Rounded to the strict side, except for the error of the decimal fraction.
    Ok(Some((factor * 1000.0 + 1e-6).floor() as u64))
}
