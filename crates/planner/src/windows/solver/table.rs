//! The answer as a table that an I/O core and a cyclic executive can run: one line per activity.
//!
//! Offsets are absolute: the n-th instance starts at offset + n * period, and a chain's activities
//! of one instance are those with the same n, also where the chain spans periods. Every partition's
//! first activity starts within its first period.

use super::problem::{Place, Problem, Solution, Stage};
use solocore_model::windows::WindowsInput;
pub use solocore_model::windows::table::Row;
use std::fmt::Write as _;

/// The rows of a solution: partitions in file order, activities in the order of precedence.
pub fn rows(instance: &WindowsInput, problem: &Problem, solution: &Solution) -> Vec<Row> {
    let ns = |ticks: i64| ticks.unsigned_abs() * problem.tick_ns;
    let mut rows = Vec::with_capacity(problem.acts.len());
    for (p, part) in problem.parts.iter().enumerate() {
        let mut acts: Vec<usize> = (part.proc..part.end).collect();
        let rank = |a: &usize| {
            (
                problem.acts[*a].stage > Stage::Processing,
                problem.acts[*a].stage == Stage::Processing,
            )
        };
        acts.sort_by_key(|a| match rank(a) {
            (false, false) => (0, *a),
            (_, true) => (1, *a),
            _ => (2, *a),
        });
        rows.extend(acts.into_iter().map(|a| {
            let act = &problem.acts[a];
            let resource = match act.place {
                Place::Core => format!("core {}", solution.core[p]),
                Place::Io => "io-core".to_owned(),
                Place::Device(d) => format!("device {}", instance.devices[d].name),
            };
            Row {
                partition: instance.partitions[p].name.clone(),
                chain: act.chain.map(|k| k + 1),
                stage: act.stage,
                resource,
                offset_ns: ns(solution.offset[a]),
                duration_ns: ns(act.dur),
                period_ns: ns(act.period),
            }
        }));
    }
    rows
}

/// The table as JSON, one activity a line, so that it can be read, compared and quoted by line.
pub fn to_json(rows: &[Row]) -> String {
    let mut out = "{\"activities\": [\n".to_owned();
    for (n, row) in rows.iter().enumerate() {
        let comma = if n + 1 < rows.len() { "," } else { "" };
        // Rows hold strings and numbers only, which always serialise.
        let text = serde_json::to_string(row).unwrap_or_default();
        let _ = writeln!(out, "  {text}{comma}");
    }
    out + "]}\n"
}

impl Solution {
    /// Moved by whole periods so that each partition's first activity starts within its first
    /// period.
    #[must_use]
    pub fn settled(mut self, problem: &Problem) -> Self {
        for part in &problem.parts {
            let offsets = &mut self.offset[part.proc..part.end];
            let first = offsets.iter().copied().min().unwrap_or(0);
            let shift = first.div_euclid(part.period) * part.period;
            offsets.iter_mut().for_each(|o| *o -= shift);
        }
        self
    }
}
