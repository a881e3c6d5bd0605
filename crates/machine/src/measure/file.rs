//! Writes findings into a platform file.
//!
//! Rule: a key's value is replaced, and the comment behind it says `measured`, the date, the
//! interval and the method. All other text is kept, comments included. `dram.latency_max` is the
//! larger of the measured value and the value by the memory's timing for the measured overhead: a
//! measurement may not have met the worst case. `dram.latency_max_paper` follows the overhead.
//! A number of a type of cores is put into its `[[core_type]]`; where that has no such key yet, the
//! key begins with the platform's value. Source: <https://docs.rs/toml_edit> for edits that keep a
//! file's text. Does not cover: a key in an inline table.

use super::finding::{Finding, Key};
use crate::error::MachineError;
use solocore_model::Platform;
use solocore_model::units::Time;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use toml_edit::{DocumentMut, Item, Table, Value};

/// `L_max` of a platform's memory, by its timing.
pub type Derive<'a> = &'a dyn Fn(&Platform) -> Option<Time>;

/// A day of the Gregorian calendar in UTC, like 2026-11-23.
#[must_use]
pub fn date(now: SystemTime) -> String {
    let mut days = now.duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs() / 86_400);
    let leap = |y: u64| y.is_multiple_of(4) && !y.is_multiple_of(100) || y.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// A number of ns in the form of a file, rounded up to a tenth.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
fn time(ns: f64) -> Time {
    Time::from_ps(((ns * 10.0 - 1e-6).ceil().max(0.0) as u64) * 100)
}

/// Whole cycles, rounded up. The clock's rate is known to a thousandth.
fn whole(cycles: f64) -> f64 {
    (cycles * 0.999).ceil()
}

/// The value of a key, as TOML.
fn value(finding: &Finding) -> Value {
    match finding.key {
        Key::Cpi => Value::from((finding.value * 1000.0).ceil() / 1000.0),
        #[allow(clippy::cast_possible_truncation, reason = "1 to 64")]
        Key::Mshrs => Value::from(finding.value.ceil() as i64),
        Key::L2 | Key::Llc => Value::from(format!("{:.0} cycles", whole(finding.value))),
        _ => Value::from(time(finding.value).to_string()),
    }
}

/// The place of a key in the file, or in a table of it.
fn place<'a>(file: &'a mut Table, key: &str) -> Option<&'a mut Item> {
    match key.split_once('.') {
        Some((table, key)) => file.get_mut(table)?.as_table_mut()?.get_mut(key),
        None => file.get_mut(key),
    }
}

/// The table of a type of cores.
fn type_of<'a>(file: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    let all = file.get_mut("core_type")?.as_array_of_tables_mut()?;
    all.iter_mut().find(|table| table.get("name").and_then(Item::as_str) == Some(name))
}

/// Gives a type the key of a number that it had from the platform.
fn own(kind: &mut Table, key: Key, platform: &Platform) {
    let with = |keys: Vec<(&str, Value)>| {
        let mut table = Table::new();
        table.set_dotted(true);
        keys.into_iter().for_each(|(key, value)| drop(table.insert(key, Item::Value(value))));
        Item::Table(table)
    };
    let (name, item) = match (key, &platform.l2) {
        (Key::Cpi, _) => ("cpi", Item::Value(Value::from(platform.cpi))),
        (Key::Mshrs, _) => {
            let p = platform.pipeline;
            let window = Value::from(p.window.to_string());
            ("pipeline", with(vec![("mshrs", i64::from(p.mshrs).into()), ("window", window)]))
        }
        (Key::L2, Some(l2)) => {
            let size = Value::from(l2.size.to_string());
            let latency = Value::from(l2.latency.to_string());
            let ways = i64::from(l2.ways).into();
            ("l2", with(vec![("size", size), ("ways", ways), ("latency", latency)]))
        }
        _ => return,
    };
    if !kind.contains_key(name) {
        drop(kind.insert(name, item));
    }
}

/// Puts a value in a key's place, with a comment behind it; returns the former value.
fn put(file: &mut Table, key: &str, new: Value, comment: &str) -> Option<String> {
    let item = place(file, key)?;
    let old = item.as_value()?.clone();
    let before = old.clone().decorated("", "").to_string();
    let mut text = new.to_string();
    let pad = 24usize.saturating_sub(text.len()).max(1);
    text = format!("{}# {comment}", " ".repeat(pad));
    *item = Item::Value(new.decorated(" ", text));
    let source = old.decor().suffix().and_then(|s| s.as_str()).unwrap_or_default();
    let source =
        source.trim().trim_start_matches("# ").split([':', ';']).next().unwrap_or_default();
    let known = ["read", "table", "assumed", "measured"].contains(&source);
    Some(if known { format!("{before}, {source}") } else { before })
}

/// Comment of a finding.
fn comment(finding: &Finding, date: &str) -> String {
    format!(
        "measured: {date}, 95 % [{:.3}, {:.3}] {} by order statistics of {} samples, {} left out; {}",
        finding.ci_low,
        finding.ci_high,
        finding.unit,
        finding.samples,
        finding.left_out.sum(),
        finding.method
    )
}

/// The text of the file with the findings in it. Fills in `before` and `after` of the findings.
/// `way`: time of the controller beside the overhead.
///
/// # Errors
/// The text is not TOML, a key has no place, or the whole is not a platform any more.
pub fn with(
    path: &Path,
    text: &str,
    findings: &mut [Finding],
    date: &str,
    derive: Derive,
    way: Time,
) -> Result<String, MachineError> {
    let shown = path.display();
    let mut file: DocumentMut = text
        .parse()
        .map_err(|e| MachineError::Input(format!("{shown}: {}", one_line(&format!("{e}")))))?;
    // In the order of dependence: the overhead decides on the least latency_max.
    let mut order: Vec<&mut Finding> =
        findings.iter_mut().filter(|f| f.key.is_written() && !f.keep).collect();
    order.sort_by_key(|f| f.key == Key::LatencyMax);
    let overhead = order.iter().any(|f| f.key == Key::Overhead);
    let measured = order.iter().find(|f| f.key == Key::LatencyMax).map(|f| f.value);
    if order.iter().any(|f| f.core_type.is_some()) {
        let old = Platform::parse(path, text)?;
        for finding in &order {
            if let Some(name) = &finding.core_type
                && let Some(kind) = type_of(&mut file, name)
            {
                own(kind, finding.key, &old);
            }
        }
    }
    for finding in order.iter_mut().filter(|f| f.key != Key::LatencyMax) {
        set(&mut file, finding, value(finding), &comment(finding, date), path)?;
    }
    if !overhead && measured.is_none() {
        return checked(path, &file);
    }
    // The value by the timing, of a file that is a platform in any case.
    let old = Platform::parse(path, text)?;
    let mut draft = old.clone();
    if let Some(finding) = order.iter().find(|f| f.key == Key::Overhead) {
        draft.dram.overhead = time(finding.value);
    }
    let paper = Time::from_ps(draft.row_conflict().ps() + way.ps());
    let derived = derive(&draft).unwrap_or(paper).max(paper);
    let derived = Time::from_ps(derived.ps().next_multiple_of(100));
    let reason =
        format!("{} ns of the memory's timing for this overhead", derived.ps() as f64 / 1000.0);
    if let Some(finding) = order.iter_mut().find(|f| f.key == Key::LatencyMax) {
        let own = time(finding.value);
        let mut text = comment(finding, date);
        if own < derived {
            text += &format!("; raised to the {reason}");
            finding.notes.push(format!(
                "the file gets the {reason}: a measurement may not have met the worst case"
            ));
        } else if own > derived {
            finding.notes.push(format!(
                "it is more than the {reason}: the file's timing is faster than this memory"
            ));
        }
        set(&mut file, finding, Value::from(own.max(derived).to_string()), &text, path)?;
    } else if overhead {
        let text = format!("derived: the {reason}; measure dram.latency_max as well");
        let least = Value::from(derived.to_string());
        put(&mut file, "dram.latency_max", least, &text);
    }
    if overhead && place(&mut file, "dram.latency_max_paper").is_some() {
        let text = "derived: overhead + the controller's clocks + t_rp + t_rcd + t_cl + t_burst, a row \
            conflict after a read";
        put(&mut file, "dram.latency_max_paper", Value::from(paper.to_string()), text);
    }
    checked(path, &file)
}

fn set(
    file: &mut DocumentMut,
    finding: &mut Finding,
    new: Value,
    comment: &str,
    path: &Path,
) -> Result<(), MachineError> {
    let key = finding.key.name();
    finding.after = Some(new.clone().decorated("", "").to_string());
    let table = match &finding.core_type {
        Some(name) => type_of(file, name),
        None => Some(&mut **file),
    };
    let before = table.and_then(|table| put(table, key, new, comment));
    finding.before = Some(before.ok_or_else(|| {
        MachineError::Input(format!(
            "{}: {} has no line of its own; write the file with `solocore platform detect -o`, \
                or add the key",
            path.display(),
            finding.name()
        ))
    })?);
    Ok(())
}

fn checked(path: &Path, file: &DocumentMut) -> Result<String, MachineError> {
    let text = file.to_string();
    Platform::parse(path, &text).map_err(|e| {
        MachineError::Machine(format!("the measured values contradict the file: {e}"))
    })?;
    Ok(text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_are_those_of_the_calendar() {
        // `date -u -d @SECONDS +%F`
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (1_795_392_000, "2026-11-23"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), day);
        }
    }

    #[test]
    fn cycles_are_rounded_up_beyond_what_the_clock_leaves_open() {
        for (cycles, in_file) in [(7.2, 8.0), (8.0, 8.0), (8.004, 8.0), (8.01, 9.0), (0.4, 1.0)] {
            assert!((whole(cycles) - in_file).abs() < f64::EPSILON, "{cycles}");
        }
    }

    #[test]
    fn times_are_rounded_up() {
        assert_eq!(time(14.576).to_string(), "14.6 ns");
        assert_eq!(time(14.6).to_string(), "14.6 ns");
        assert_eq!(time(-1.0).ps(), 0);
    }
}
