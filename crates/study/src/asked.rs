//! Input of a study, in the words of the command line and of Python.

use crate::{Scenario, StudyError};
use solocore_planner::levels::optimiser::Scheme;

/// The scenarios of all names, each once, in the order of Table 3; `*` stands for any choice.
///
/// # Errors
/// When a name is not a scenario.
pub fn scenarios<S: AsRef<str>>(names: &[S]) -> Result<Vec<Scenario>, StudyError> {
    let mut out = Vec::new();
    for name in names {
        out.extend(Scenario::parse(name.as_ref())?);
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// The schemes of a list with commas, each once, in the order given; `all` stands for all.
///
/// # Errors
/// When a name is not a scheme.
pub fn schemes(list: &str) -> Result<Vec<Scheme>, StudyError> {
    let mut out: Vec<Scheme> = Vec::new();
    for name in list.split(',') {
        let found = if name.trim().eq_ignore_ascii_case("all") {
            Scheme::all().collect()
        } else {
            vec![Scheme::parse(name)?]
        };
        for scheme in found {
            if !out.contains(&scheme) {
                out.push(scheme);
            }
        }
    }
    Ok(out)
}

/// `FROM:TO:STEP` or one utilization, in thousandths.
///
/// # Errors
/// When the text is neither, or a number has more than three decimals.
pub fn utilizations(text: &str) -> Result<Vec<u32>, StudyError> {
    let wrong = || {
        StudyError::Input(format!(
            "`{text}` is not a range; give FROM:TO:STEP like 0.2:8:0.2, each above 0 \
                and at most 64, in whole thousandths"
        ))
    };
    let parts: Vec<u32> = text.split(':').map(milli).collect::<Option<_>>().ok_or_else(wrong)?;
    match parts[..] {
        [one] => Ok(vec![one]),
        [from, to, step] if from <= to => {
            Ok((from..=to).step_by(usize::try_from(step).map_err(|_| wrong())?).collect())
        }
        _ => Err(wrong()),
    }
}

/// A decimal number in thousandths, exactly; above 0 and at most 64.
fn milli(text: &str) -> Option<u32> {
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = part.trim_end_matches('0');
    if digits.len() > 3
        || !part.bytes().all(|b| b.is_ascii_digit())
        || !whole.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u32 = format!("{digits:0<3}").parse().ok()?;
    let all = whole.checked_mul(1000)?.checked_add(part)?;
    (1..=64_000).contains(&all).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilizations_are_exact() {
        assert_eq!(utilizations("0.2:8:0.2").unwrap().len(), 40);
        assert_eq!(utilizations("0.1:0.3:0.1").unwrap(), [100, 200, 300]);
        assert_eq!(utilizations("2.6").unwrap(), [2600]);
        for bad in [
            "",
            "0:1:0.1",
            "1:0.5:0.1",
            "1:2:0",
            "1:2",
            "x",
            "-1:2:1",
            "0.0001",
            "1:65:1",
            "1e1",
            "nan",
            "1:2:0.1:4",
        ] {
            assert!(utilizations(bad).is_err(), "{bad}");
        }
    }
}
