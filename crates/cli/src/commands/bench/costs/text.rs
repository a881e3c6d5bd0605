//! Costs as lines of a system file.
//!
//! Rule: a line has the median, and a comment the least and the largest sample. Costs that were
//! left out are comments. `[levels.costs]` wants times of messages in the order CL, CE, SBP; where a
//! measurement says otherwise by its noise, the larger one's limit is given, and said.

use super::measured::{Costs, Entry, Outcome};
use crate::commands::bench::output::{self, Output};
use crate::fail::Failure;
use crate::print::print;
use solocore_model::{Bandwidth, Bytes};
use std::fmt::Write;
use std::process::ExitCode;

/// The keys in the order of the reference.
const KEYS: [&str; 11] = [
    "dma_bus",
    "dma_bank",
    "dma_saturation",
    "bank_sharing_c",
    "sharing_saturation",
    "io_copy",
    "send_ce",
    "receive_ce",
    "send_cl",
    "receive_cl",
    "eviction",
];
/// The least number above zero that is written.
const LEAST: f64 = 0.0001;

/// Puts the costs in order, and within the limits of a system file.
pub fn finish(costs: &mut Costs) {
    let place = |name: &str| KEYS.iter().position(|&key| key == name);
    costs.costs.sort_by_key(|entry| place(entry.name));
    costs.left.sort_by_key(|left| place(left.name));
    for (name, above) in [
        ("send_ce", None),
        ("receive_ce", None),
        ("send_cl", Some("send_ce")),
        ("receive_cl", Some("receive_ce")),
    ] {
        let most = above.map_or(Some(1.0), |above| median(costs, above));
        let Some(entry) = costs.costs.iter_mut().find(|entry| entry.name == name) else { continue };
        let measured = entry.median;
        entry.median = measured.max(LEAST).min(most.unwrap_or(1.0));
        if measured > entry.median {
            let limit = above.map_or_else(|| "the time under SBP".to_owned(), |a| format!("`{a}`"));
            costs.notes.push(format!(
                "`{name}` was {measured:.4}, and at most {limit} may be given; no difference was seen"
            ));
        }
    }
    costs.notes.sort();
    costs.notes.dedup();
}

fn median(costs: &Costs, name: &str) -> Option<f64> {
    costs.costs.iter().find(|entry| entry.name == name).map(|entry| entry.median)
}

impl Entry {
    /// A value of it, as a system file has it.
    fn value(&self, number: f64) -> String {
        if self.is_bandwidth {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
            let bandwidth = Bandwidth(number.max(1.0) as u64);
            return format!("\"{bandwidth:.1}\"");
        }
        format!("{number:.4}")
    }
}

/// The lines of a system file.
pub fn toml(outcome: &Outcome) -> String {
    let (cpu, others) = (outcome.cpu, outcome.other_cpus.len());
    let mut text = format!(
        "# Measured by `solocore bench costs` on CPU {cpu} beside {others} others: medians of {} \
         repetitions, with the least and the\n# largest. The job that was slowed only reads memory \
         ({}); other jobs are slowed less.\n[levels.costs]\n",
        outcome.repetitions,
        Bytes(outcome.memory_bytes)
    );
    for entry in &outcome.costs.costs {
        let [median, least, most] =
            [entry.median, entry.least, entry.most].map(|number| entry.value(number));
        let line = format!("{} = {median}", entry.name);
        let _ = writeln!(text, "{line:<32} # {least} to {most}");
    }
    for left in &outcome.costs.left {
        let _ = writeln!(text, "# {} is not measured: {}", left.name, left.why);
    }
    for note in &outcome.costs.notes {
        let _ = writeln!(text, "# note: {note}");
    }
    text
}

/// Prints the result.
pub fn show(format: Output, outcome: &Outcome) -> Result<ExitCode, Failure> {
    if format == Output::Text {
        print(&toml(outcome))?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["cost", "median", "low", "high", "least", "most", "repetitions"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for e in &outcome.costs.costs {
        let mut row = vec![e.name.to_owned()];
        row.extend([e.median, e.low, e.high, e.least, e.most].map(|number| format!("{number:.4}")));
        row.push(e.repetitions.to_string());
        rows.push(row);
    }
    output::show(format, outcome, &rows, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::levels;
    use std::collections::BTreeMap;

    fn outcome(costs: Costs) -> Outcome {
        Outcome {
            format: "solocore-bench-costs/1",
            cpu: 0,
            other_cpus: vec![1],
            repetitions: 3,
            message_bytes: 64,
            memory_bytes: 64 << 20,
            costs,
        }
    }

    /// What the reader of system files makes of the lines.
    fn read(costs: Costs) -> levels::Costs {
        let text = toml(&outcome(costs));
        let mut tables: BTreeMap<String, levels::LevelsSettings> = toml::from_str(&text).unwrap();
        tables.remove("levels").and_then(|levels| levels.costs).unwrap()
    }

    #[test]
    fn the_lines_are_those_of_a_system_file() {
        let mut costs = Costs::default();
        for (number, name) in (1..).zip(KEYS.into_iter().rev()) {
            match name {
                "dma_saturation" => costs.bandwidth(name, vec![61e6, 59e6, 60e6]),
                _ => costs.shares(name, vec![0.01 * f64::from(number); 3]),
            }
        }
        finish(&mut costs);
        assert_eq!(costs.costs.iter().map(|e| e.name).collect::<Vec<_>>(), KEYS);
        assert_eq!(costs.notes, [""; 0]);
        let read = read(costs);
        assert_eq!(read.dma_saturation, Bandwidth(60_000_000));
        assert_eq!(
            [read.eviction, read.receive_cl, read.send_ce, read.dma_bus],
            [0.01, 0.02, 0.05, 0.11]
        );
    }

    #[test]
    fn costs_that_are_left_out_are_the_studys() {
        let mut costs = Costs::default();
        costs.shares("io_copy", vec![0.5, 0.25, f64::NAN]);
        costs.shares("eviction", vec![]);
        costs.leave("dma_bus", "give --file");
        finish(&mut costs);
        let text = toml(&outcome(costs));
        assert!(text.contains("io_copy = 0.5000") && text.contains("# 0.2500 to 0.5000"), "{text}");
        assert!(text.contains("# dma_bus is not measured: give --file\n"), "{text}");
        assert!(text.contains("# eviction is not measured: "), "{text}");
        assert_eq!(read(Costs::default()), levels::Costs::default());
    }

    #[test]
    fn times_of_messages_keep_their_order() {
        let mut costs = Costs::default();
        for (name, value) in
            [("send_ce", 0.3), ("send_cl", 0.4), ("receive_ce", 1.5), ("receive_cl", 0.0)]
        {
            costs.shares(name, vec![value; 3]);
        }
        finish(&mut costs);
        assert_eq!(costs.notes.len(), 2, "{:?}", costs.notes);
        let read = read(costs);
        assert_eq!([read.send_ce, read.send_cl, read.receive_ce], [0.3, 0.3, 1.0]);
        assert!(read.receive_cl > 0.0);
    }
}
