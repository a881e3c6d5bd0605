//! `solocore reproduce`.

use crate::args::{Format, ReproduceArgs};
use crate::dask;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, stopped};
use crate::table;
use serde_json::json;
use solocore_experiments::claim::short;
use solocore_experiments::summary::{compared, tried};
use solocore_experiments::{
    Context, Counts, Experiment, ExperimentError, Record, Scale, Tried, all, named, page,
};
use solocore_model::{ModelError, files};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

/// Runs experiments and prints verdicts; exit code 1 if a claim differs.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args.format);
    }
    if args.mutations {
        return mutations(args);
    }
    let runs = runs(args)?;
    files::check_directory(&args.output)?;
    if let Some(address) = &args.dask {
        remote(address, &runs, args)?;
    }
    let mut records = Vec::new();
    for run in &runs {
        records.push(outcome(run, args)?);
    }
    let foreign = records.iter().filter(|record| record.of_another_build()).count();
    if foreign > 0 {
        let again = match args.dask {
            Some(_) => "made by workers or kept",
            None => "and were kept; --fresh makes them again",
        };
        let all = records.len();
        eprintln!("{foreign} of {all} outcomes are of another build of solocore, {again}");
    }
    if let Some(path) = &args.page {
        let images = args.images.clone().unwrap_or_else(|| args.output.display().to_string());
        let made = made(SystemTime::now(), args.machine.as_deref());
        files::write_atomically(path, page::markdown(&records, &images, &made).as_bytes())?;
    }
    let counts = Counts::of(&compared(&records));
    match args.format {
        Format::Json => print(&files::to_json(&documents(&records)))?,
        Format::Text => print(&text(&records, args))?,
    }
    Ok(ExitCode::from(u8::from(counts.differs > 0)))
}

/// The day, and the kind of machine where it is told.
fn made(now: SystemTime, machine: Option<&str>) -> String {
    let time = super::profiles::date(now);
    let day = time.split('T').next().unwrap_or_default();
    machine.map_or_else(|| day.to_owned(), |machine| format!("{day}, {machine}"))
}

/// Tries the change that each claim names; exit code 1 if a verdict does not fall.
fn mutations(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    let mut all: Vec<Tried> = Vec::new();
    for experiment in chosen(args)? {
        let progress = Progress::new(&format!("{}: {}", experiment.id, experiment.title));
        let step = |_| !stopped();
        let context =
            Context { scale: scale(args), seed: args.seed, progress: &step, mutation: None };
        let found = tried(&context, &experiment).map_err(|e| match e {
            ExperimentError::Interrupted => Failure::Interrupted,
            other => Failure::from(other).of(experiment.id),
        })?;
        drop(progress);
        all.extend(found);
    }
    let stood = all.iter().filter(|t| !t.fell()).count();
    match args.format {
        Format::Json => print(&files::to_json(&all))?,
        Format::Text => {
            let mut out = String::new();
            for t in &all {
                let fell = if t.fell() { "falls" } else { "DOES NOT FALL" };
                let (before, after) = (t.before.name(), t.after.name());
                out += &format!(
                    "{}: {fell} from {before} to {after} where {}\n  {}\n      {}\n",
                    t.experiment,
                    t.mutation.says(),
                    t.claim,
                    t.found
                );
            }
            let fell = all.len() - stood;
            print(&format!("{out}\nthe verdicts of {fell} of {} claims fall\n", all.len()))?;
        }
    }
    Ok(ExitCode::from(u8::from(stood > 0)))
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

/// An experiment with one seed, and the directory of its files.
struct Run {
    experiment: Experiment,
    seed: u64,
    dir: PathBuf,
}

impl Run {
    /// Record of an earlier run.
    fn kept(&self, args: &ReproduceArgs) -> Option<Record> {
        Record::find(&self.dir, self.experiment.id, scale(args), self.seed)
    }
}

fn scale(args: &ReproduceArgs) -> Scale {
    if args.quick { Scale::Quick } else { Scale::Full }
}

/// Every experiment with every seed; each of several seeds has a directory of its own.
fn runs(args: &ReproduceArgs) -> Result<Vec<Run>, Failure> {
    let mut out = Vec::new();
    for experiment in chosen(args)? {
        for more in 0..args.seeds.unwrap_or(1) {
            let seed = args.seed.checked_add(more).ok_or_else(|| {
                Failure::Input(format!(
                    "--seeds {}: the seeds from {} on do not fit in 64 bits; begin with a smaller \
                        --seed",
                    args.seeds.unwrap_or(1),
                    args.seed
                ))
            })?;
            let dir = match args.seeds {
                Some(_) => args.output.join(format!("seed-{seed}")),
                None => args.output.clone(),
            };
            out.push(Run { experiment, seed, dir });
        }
    }
    Ok(out)
}

/// Makes workers compute the missing experiments; with the same sources their files equal those
/// of a run here.
fn remote(address: &str, runs: &[Run], args: &ReproduceArgs) -> Result<(), Failure> {
    let missing: Vec<&Run> =
        runs.iter().filter(|run| args.fresh || run.kept(args).is_none()).collect();
    let point = |run: &&Run| json!({"experiment": run.experiment.id, "quick": args.quick, "of_seed": run.seed});
    let points: Vec<_> = missing.iter().map(point).collect();
    let done = dask::campaign(address, "reproduce", &points, &mut |at, answer| {
        let (run, id) = (missing[at], missing[at].experiment.id);
        std::fs::create_dir_all(&run.dir)
            .map_err(|source| ModelError::Write { path: run.dir.clone(), source })?;
        // The JSON file last, as it says that the others are there.
        for kind in ["csv", "svg", "json"] {
            let path = run.dir.join(format!("{id}.{kind}"));
            files::write_atomically(&path, dask::text(answer, kind)?.as_bytes())?;
        }
        match run.kept(args) {
            Some(_) => Ok(()),
            None => Err(Failure::Machine(format!(
                "--dask: a worker's answer for {id} is not an outcome of it; install solocore again"
            ))),
        }
    });
    done.map_err(|failure| match failure {
        Failure::Interrupted => interrupted(args),
        other => other,
    })
}

/// The failure of an interrupted command, with the directory if some experiment's outcome is there.
fn interrupted(args: &ReproduceArgs) -> Failure {
    if !runs(args).is_ok_and(|runs| runs.iter().any(|run| run.kept(args).is_some())) {
        return Failure::Interrupted;
    }
    Failure::Stopped(format!(
        "the finished part is kept in {}; run the same command again to go on",
        args.output.display()
    ))
}

/// The record of an earlier run or of workers, or a new one if there is none, or if fresh figures
/// are asked for.
fn outcome(run: &Run, args: &ReproduceArgs) -> Result<Record, Failure> {
    let Run { experiment, seed, dir } = run;
    if (!args.fresh || args.dask.is_some())
        && let Some(record) = run.kept(args)
    {
        if args.dask.is_none() {
            eprintln!("{}: done before, kept (--fresh runs it again)", experiment.id);
        }
        return Ok(record);
    }
    let progress = Progress::new(&format!("{}: {}", experiment.id, experiment.title));
    let step = |share: f64| {
        if share.is_finite() {
            progress.share(share);
        }
        !stopped()
    };
    let context = Context { scale: scale(args), seed: *seed, progress: &step, mutation: None };
    let outcome = (experiment.run)(&context).map_err(|e| match e {
        ExperimentError::Interrupted => interrupted(args),
        other => Failure::from(other).of(experiment.id),
    })?;
    let record = Record::new(experiment, scale(args), *seed, outcome);
    record.write(dir)?;
    Ok(record)
}

/// The results of each run, each claim over all seeds, and the number of claims with each verdict.
fn documents(records: &[Record]) -> serde_json::Value {
    let one = |r: &Record| json!({"id": r.id, "source": r.source, "title": r.title, "holds": r.holds, "seed": r.seed, "checks": r.outcome.checks, "differs": r.outcome.differs});
    let claims = compared(records);
    json!({
        "experiments": records.iter().map(one).collect::<Vec<_>>(),
        "claims": claims,
        "summary": Counts::of(&claims),
    })
}

fn text(records: &[Record], args: &ReproduceArgs) -> String {
    let mut out = String::new();
    let claims = compared(records);
    for same in records.chunk_by(|a, b| a.id == b.id) {
        let first = &same[0];
        out += &format!("{}: {}, {}\n", first.id, first.source, first.title);
        for c in claims.iter().filter(|c| c.experiment == first.id) {
            let seeds = match (c.differs, c.seeds) {
                (0, _) | (_, 1) => String::new(),
                (n, seeds) => format!(" ({n} of {seeds} seeds differ)"),
            };
            out += &format!("  {}{seeds}: {}\n", c.verdict.name(), c.claim);
            let ratio = c.ratio.map_or(String::new(), |r| format!(", ratio {}", short(r)));
            if c.ours.is_some() {
                out += &format!("      paper {}; ours {}{ratio}\n", c.paper, page::spread(c));
            }
            out += &format!("      {}\n", c.found);
        }
        let dir = args.output.join(if args.seeds.is_some() { "seed-*" } else { "" });
        out += &format!("  {}\n", dir.join(format!("{}.csv, .svg", first.id)).display());
    }
    out + &format!("\n{}\n", Counts::of(&claims))
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
