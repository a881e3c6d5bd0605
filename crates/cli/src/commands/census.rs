//! `solocore space audit --kernel`: what each frame of the machine is used for, by colour and bank.

use super::memory_map::{choice_of, map_of};
use crate::args::Format;
use crate::args::space::AuditCommand;
use crate::fail::Failure;
use crate::print::print;
use crate::table;
use serde::Serialize;
use solocore_model::files;
use solocore_space::census::{Census, Counts, KINDS};
use std::process::ExitCode;

#[derive(Serialize)]
struct Numbered {
    id: usize,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
struct Report {
    format: &'static str,
    /// All frames.
    all: Counts,
    /// By colour; empty where the colours are not known.
    colours: Vec<Numbered>,
    /// By bank; empty without a map of banks.
    banks: Vec<Numbered>,
    /// Frames of the colours and banks that the options name.
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<Counts>,
    /// The other frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<Counts>,
}

/// Counts, and prints.
pub fn run(args: &AuditCommand) -> Result<ExitCode, Failure> {
    // Without a list, a machine without known colours still has kinds.
    let map = match map_of(&args.map, args.colours.is_some() || args.banks.is_none()) {
        Err(Failure::Machine(why)) if args.colours.is_none() && args.map.platform.is_none() => {
            eprintln!("solocore: note: no colours: {why}");
            map_of(&args.map, false)?
        }
        other => other?,
    };
    let some = args.colours.is_some() || args.banks.is_some();
    let choice = some
        .then(|| choice_of(&map, args.colours.as_deref(), args.banks.as_deref()))
        .transpose()?;
    let census = Census::of_machine(&map, choice.as_ref())?;
    let numbered = |counts: Vec<Counts>| {
        let all = counts.into_iter().enumerate();
        all.map(|(id, counts)| Numbered { id, counts }).collect::<Vec<_>>()
    };
    let report = Report {
        format: "solocore-census/1",
        all: census.all(),
        colours: if map.colours.is_empty() { Vec::new() } else { numbered(census.colours()) },
        banks: if map.banks.is_empty() { Vec::new() } else { numbered(census.banks()) },
        chosen: census.chosen().map(|[chosen, _]| chosen),
        others: census.chosen().map(|[_, others]| others),
    };
    match args.format {
        Format::Json => print(&files::to_json(&report))?,
        Format::Text => print(&table::render(&rows(&report)))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(report: &Report) -> Vec<Vec<String>> {
    let kinds = KINDS.iter().map(|kind| kind.name());
    let head = ["frames of"].into_iter().chain(kinds).chain(["all", "kernel's own"]);
    let mut rows = vec![head.map(str::to_owned).collect()];
    let mut add = |name: String, counts: &Counts| {
        let numbers = KINDS.iter().map(|&kind| counts.of(kind));
        let numbers = numbers.chain([counts.all()]).map(|n| n.to_string());
        let own = counts.kernels() as f64 * 100.0 / counts.all().max(1) as f64;
        rows.push([name].into_iter().chain(numbers).chain([format!("{own:.1} %")]).collect());
    };
    for colour in &report.colours {
        add(format!("colour {}", colour.id), &colour.counts);
    }
    for bank in &report.banks {
        add(format!("bank {}", bank.id), &bank.counts);
    }
    if let (Some(chosen), Some(others)) = (&report.chosen, &report.others) {
        add("chosen".to_owned(), chosen);
        add("others".to_owned(), others);
    }
    add("all".to_owned(), &report.all);
    rows
}
