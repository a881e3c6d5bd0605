//! The answer for an instance, as the command and Python print it.
//!
//! Problem: a search ends with a table, with a proof that there is none, or with neither. Rule: the
//! tasks inside the partitions are checked first; the three answers have one form.

use super::table::{Row, rows};
use super::{Answer, Problem, solve, tasks};
use serde_json::{Value, json};
use solocore_model::{Time, WindowsInput};

/// An answer in the command's words.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// `found`, `infeasible` or `not-found`.
    pub answer: &'static str,
    /// The part of the search that found the table.
    pub found_by: Option<&'static str>,
    /// Reasons for which there is no table.
    pub reasons: Vec<String>,
    /// The table; empty where there is none.
    pub rows: Vec<Row>,
}

/// Looks for a table until `stop` says so; `limit` is the limit that an answer `not-found` names.
///
/// A search that `stop` ended may have found no table; the caller knows its reason for stopping.
#[must_use]
pub fn search(
    instance: &WindowsInput,
    seed: u64,
    limit: Time,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome {
    let refuse = |answer, reasons| Outcome { answer, found_by: None, reasons, rows: Vec::new() };
    let missed = tasks::misses(instance);
    if !missed.is_empty() {
        return refuse("infeasible", missed);
    }
    let problem = Problem::new(instance);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match solve(&problem, seed, threads, stop) {
        Answer::Found(solution, by) => {
            let rows = rows(instance, &problem, &solution);
            Outcome { answer: "found", found_by: Some(by), reasons: Vec::new(), rows }
        }
        Answer::Infeasible(reason) => refuse("infeasible", vec![reason]),
        Answer::NotFound(left) => refuse("not-found", vec![not_found(limit, left)]),
    }
}

fn not_found(limit: Time, left: usize) -> String {
    format!(
        "no table was found within {limit}, and no proof that there is none; the best partial \
            table leaves {left} out; give a longer --time-limit, longer ages, or more cores"
    )
}

impl Outcome {
    /// Share of each core that the table's activities take, 0 to 1.
    #[must_use]
    pub fn loads(&self, instance: &WindowsInput) -> Vec<f64> {
        let mut loads = vec![0.0; instance.cores as usize];
        for row in &self.rows {
            let core = row.resource.strip_prefix("core ").and_then(|c| c.parse::<usize>().ok());
            if let Some(load) = core.and_then(|c| loads.get_mut(c)) {
                *load += row.duration_ns as f64 / row.period_ns as f64;
            }
        }
        loads
    }

    /// The answer as the command prints it, in JSON.
    #[must_use]
    pub fn document(&self, instance: &WindowsInput) -> Value {
        let cores: Vec<Value> = self
            .loads(instance)
            .iter()
            .enumerate()
            .map(|(id, load)| json!({"id": id, "load": (load * 1e6).round() / 1e6}))
            .collect();
        json!({
            "schedulable": self.answer == "found",
            "answer": self.answer,
            "found_by": self.found_by,
            "reasons": self.reasons,
            "cores": if self.rows.is_empty() { Vec::new() } else { cores },
            "io_core": {"load": (instance.io_load() * 1e6).round() / 1e6, "bytes_per_s": bytes_per_s(instance)},
            "activities": self.rows,
        })
    }
}

/// Bytes per second of all transfers that are given in bytes; at most [`u64::MAX`].
#[must_use]
pub fn bytes_per_s(instance: &WindowsInput) -> u64 {
    let of = |p: &solocore_model::windows::Partition| {
        let bytes =
            p.chains.iter().flat_map(|c| [c.input, c.output]).flatten().filter_map(|t| t.bytes);
        let sum: u128 = bytes.map(u128::from).sum();
        (sum * 1_000_000_000).div_ceil(u128::from(p.period_ns))
    };
    u64::try_from(instance.partitions.iter().map(of).sum::<u128>()).unwrap_or(u64::MAX)
}
