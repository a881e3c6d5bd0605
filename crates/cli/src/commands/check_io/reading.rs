//! Reads a table, and refuses one that does not belong to the instance, with the line.

use super::expected::{Expected, Key, PROCESSING, STAGES, Slot, activities};
use super::violation::at;
use crate::fail::Failure;
use serde::Deserialize;
use solocore_model::WindowsInput;
use solocore_model::{ModelError, files};
use std::collections::HashMap;
use std::path::Path;

/// Latest accepted offset, 20 days in nanoseconds: no chain is that old.
const LATEST_NS: u64 = 20 * 24 * 3600 * 1_000_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    activities: Vec<RowEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowEntry {
    partition: String,
    chain: Option<usize>,
    stage: String,
    resource: String,
    offset_ns: u64,
    duration_ns: u64,
    period_ns: u64,
}

/// The parts of a plan that are needed here.
#[derive(Deserialize)]
struct PlanFile {
    sce: PlanTable,
}

#[derive(Deserialize)]
struct PlanTable {
    table: Vec<RowEntry>,
}

/// The activities of a table, each once, with the requirements of the instance.
pub fn slots(path: &Path, instance: &WindowsInput) -> Result<Vec<Slot>, Failure> {
    let text = files::read_text(path)?;
    let (table, lines) = table(path, &text)?;
    let names: HashMap<&str, usize> =
        instance.partitions.iter().enumerate().map(|(n, p)| (p.name.as_str(), n)).collect();
    let expected = activities(instance);
    let known: HashMap<Key, &Expected> = expected.iter().map(|e| (e.key, e)).collect();
    let mut seen: HashMap<Key, usize> = HashMap::new();
    let mut slots = Vec::with_capacity(table.activities.len());
    for (n, row) in table.activities.iter().enumerate() {
        let line = lines.get(n).copied().unwrap_or(1);
        let refuse = |message: String| ModelError::Invalid {
            path: path.to_owned(),
            line: Some(line),
            message,
        };
        let key = key(row, &names).map_err(refuse)?;
        let Some(expected) = known.get(&key) else {
            return Err(refuse(format!(
                "the instance has no {}; take the line out, or check against its own instance",
                name(row)
            ))
            .into());
        };
        if let Some(first) = seen.insert(key, line) {
            return Err(refuse(format!(
                "{} is there twice, first on line {first}; remove one",
                name(row)
            ))
            .into());
        }
        let slot = slot(row, expected, instance.cores, line).map_err(refuse)?;
        slots.push(slot);
    }
    if let Some(missing) = expected.iter().find(|e| !seen.contains_key(&e.key)) {
        let (p, _, stage) = missing.key;
        let message = format!(
            "{} of `{}` is missing; every activity of the instance needs a line: add it, or \
                schedule again",
            STAGES[stage], instance.partitions[p].name
        );
        return Err(ModelError::Invalid { path: path.to_owned(), line: None, message }.into());
    }
    Ok(slots)
}

/// The rows of a table, or of a plan's table, and their lines.
fn table(path: &Path, text: &str) -> Result<(TableFile, Vec<usize>), ModelError> {
    let plan: Option<PlanFile> = serde_json::from_str(text).ok();
    if let Some(plan) = plan {
        let start =
            text.rfind("\"table\"").and_then(|key| Some(key + text[key..].find('[')?)).unwrap_or(0);
        let before = text[..start].matches('\n').count();
        // As deep as in a table by itself.
        let lines =
            lines(&format!("{{{}", &text[start..])).into_iter().map(|line| line + before).collect();
        return Ok((TableFile { activities: plan.sce.table }, lines));
    }
    let table = serde_json::from_str(text).map_err(|e| ModelError::from_json(path, &e))?;
    Ok((table, lines(text)))
}

fn name(row: &RowEntry) -> String {
    match row.chain {
        Some(k) => format!("{} of `{}` (chain {k})", row.stage, row.partition),
        None => format!("{} of `{}`", row.stage, row.partition),
    }
}

fn key(row: &RowEntry, names: &HashMap<&str, usize>) -> Result<Key, String> {
    let Some(partition) = names.get(row.partition.as_str()) else {
        return Err(format!("the instance has no partition `{}`; correct the name", row.partition));
    };
    let Some(stage) = STAGES.iter().position(|s| *s == row.stage) else {
        return Err(format!("`{}` is not a stage; use one of {}", row.stage, STAGES.join(", ")));
    };
    match row.chain {
        None if stage != PROCESSING => {
            Err(format!("{} names no chain; give its number, from 1", name(row)))
        }
        Some(_) if stage == PROCESSING => {
            Err(format!("{} names a chain; processing serves all of them, write null", name(row)))
        }
        chain => Ok((*partition, chain.unwrap_or(0), stage)),
    }
}

fn slot(row: &RowEntry, expected: &Expected, cores: u32, line: usize) -> Result<Slot, String> {
    let name = name(row);
    if row.duration_ns != expected.length {
        let (has, needs) = (at(row.duration_ns), at(expected.length));
        return Err(format!(
            "duration of {name} is {has}, but the instance says {needs}, margin included; correct \
                it"
        ));
    }
    if row.period_ns != expected.period {
        let (has, needs) = (at(row.period_ns), at(expected.period));
        return Err(format!(
            "period of {name} is {has}, but the instance says {needs}; correct it"
        ));
    }
    let right = match &expected.resource {
        Some(resource) => row.resource == *resource,
        None => (0..cores).any(|c| row.resource == format!("core {c}")),
    };
    if !right {
        let last = cores - 1;
        let needs =
            expected.resource.clone().unwrap_or_else(|| format!("one of core 0 to core {last}"));
        return Err(format!("{name} is on `{}`, but belongs on {needs}; correct it", row.resource));
    }
    if row.offset_ns > LATEST_NS {
        return Err(format!("offset of {name} is above 20 days; no chain is that old, correct it"));
    }
    Ok(Slot {
        key: expected.key,
        name,
        resource: row.resource.clone(),
        offset: row.offset_ns,
        length: expected.length,
        margin: expected.margin,
        period: expected.period,
        line,
    })
}

/// The lines on which the objects inside the outermost array start: strings are skipped, depth is
/// counted.
fn lines(text: &str) -> Vec<usize> {
    let (mut line, mut depth, mut string, mut escaped) = (1, 0u32, false, false);
    let mut out = Vec::new();
    for byte in text.bytes() {
        match byte {
            b'\n' => line += 1,
            _ if string => {
                let end = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                string = !end;
            }
            b'"' => string = true,
            b'{' | b'[' => {
                if byte == b'{' && depth == 2 {
                    out.push(line);
                }
                depth += 1;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_lines_past_strings() {
        assert_eq!(
            super::lines("{\"activities\": [\n {\"a\": \"}{\\\"[\"},\n\n {\"b\": 1}]}"),
            [2, 4]
        );
    }
}
