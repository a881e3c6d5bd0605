//! `solocore reproduce`.

use crate::args::{Format, ReproduceArgs};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, stopped};
use crate::table;
use serde_json::json;
use solocore_experiments::{Context, Experiment, ExperimentError, Record, Scale, all, named, page};
use solocore_model::files;
use std::path::Path;
use std::process::ExitCode;

/// Runs experiments and prints verdicts; exit code 1 if a claim does not hold.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args.format);
    }
    let experiments = chosen(args)?;
    let mut records = Vec::new();
    for experiment in &experiments {
        records.push(outcome(experiment, args)?);
    }
    if let Some(path) = &args.page {
        let images = args.images.clone().unwrap_or_else(|| args.output.display().to_string());
        files::write_atomically(path, page::markdown(&records, &images).as_bytes())?;
    }
    match args.format {
        Format::Json => print(&files::to_json(&documents(&records)))?,
        Format::Text => print(&text(&records, &args.output))?,
    }
    Ok(ExitCode::from(u8::from(!records.iter().all(|r| r.holds))))
}

fn list(format: Format) -> Result<ExitCode, Failure> {
    let experiments = all();
    match format {
        Format::Json => {
            let names: Vec<_> = experiments
                .iter()
                .map(|e| json!({"id": e.id, "source": e.source, "title": e.title}))
                .collect();
            print(&files::to_json(&names))?;
        }
        Format::Text => {
            let mut rows = vec![["experiment", "paper", "shows"].map(str::to_owned).to_vec()];
            rows.extend(
                experiments.iter().map(|e| [e.id, e.source, e.title].map(str::to_owned).to_vec()),
            );
            print(&table::render(&rows))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The experiments that the arguments name.
fn chosen(args: &ReproduceArgs) -> Result<Vec<Experiment>, Failure> {
    if args.all {
        return Ok(all());
    }
    let out = named(&args.figures)?;
    if out.is_empty() {
        return Err(Failure::Input(
            "name an experiment, or give --all; `solocore reproduce --list` names them".to_owned(),
        ));
    }
    Ok(out)
}

/// What is there already from an earlier run counts, unless fresh figures are asked for.
fn outcome(experiment: &Experiment, args: &ReproduceArgs) -> Result<Record, Failure> {
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    if !args.fresh
        && let Some(record) = Record::find(&args.output, experiment.id, scale, args.seed)
    {
        eprintln!("{}: done before, kept (--fresh runs it again)", experiment.id);
        return Ok(record);
    }
    let progress = Progress::new(&format!("{}: {}", experiment.id, experiment.title));
    let step = |share: f64| {
        if share.is_finite() {
            progress.share(share);
        }
        !stopped()
    };
    let context = Context { scale, seed: args.seed, progress: &step };
    let outcome = (experiment.run)(&context).map_err(|e| match e {
        ExperimentError::Interrupted => Failure::Stopped(format!(
            "what is finished is kept in {}; the same command goes on from there",
            args.output.display()
        )),
        other => Failure::from(other).of(experiment.id),
    })?;
    let record = Record::new(experiment, scale, args.seed, outcome);
    record.write(&args.output)?;
    Ok(record)
}

fn documents(records: &[Record]) -> serde_json::Value {
    let one = |r: &Record| json!({"id": r.id, "source": r.source, "title": r.title, "holds": r.holds, "seed": r.seed, "checks": r.outcome.checks, "differs": r.outcome.differs});
    json!({"experiments": records.iter().map(one).collect::<Vec<_>>()})
}

fn text(records: &[Record], dir: &Path) -> String {
    let mut out = String::new();
    for r in records {
        out += &format!("{}: {}, {}\n", r.id, r.source, r.title);
        for check in &r.outcome.checks {
            let verdict = if check.holds { "holds" } else { "DOES NOT HOLD" };
            out += &format!("  {verdict}: {}\n      {}\n", check.claim, check.found);
        }
        out += &format!("  {}\n", dir.join(format!("{}.csv, .svg", r.id)).display());
    }
    let held = records.iter().filter(|r| r.holds).count();
    out + &format!("\nall claims hold in {held} of {}\n", records.len())
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Interrupted => Self::Interrupted,
            ExperimentError::Setup(text) => Self::Input(text),
            ExperimentError::Files(inner) => inner.into(),
        }
    }
}
