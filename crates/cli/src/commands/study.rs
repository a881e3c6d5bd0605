//! `solocore study`.

use crate::args::{Format, StudyArgs};
use crate::dask;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, stopped};
use crate::table;
use solocore_model::{ModelError, files};
use solocore_planner::levels::optimiser::Scheme;
use solocore_study::journal::{self, Journal, Manifest, Points};
use solocore_study::output::{self, Summary};
use solocore_study::parameters::DEFAULT_PARAMETERS;
use solocore_study::shards;
use solocore_study::study::finished;
use solocore_study::{Parameters, Scenario, Study, StudyError, asked, changes, sensitivity};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// Directory of results without -o.
const OUTPUT: &str = "solocore-study";

/// Runs, resumes or merges a study, and prints its results.
pub fn run(args: &StudyArgs) -> Result<ExitCode, Failure> {
    if !args.merge.is_empty() {
        return merge(args);
    }
    if args.sensitivity {
        return sensitivity(args);
    }
    let prepared = match &args.resume {
        Some(from) => resume(args, from)?,
        None => begin(args)?,
    };
    let Prepared { dir, manifest, parameters, mut journal, mut points } = prepared;
    if let Some(address) = &args.dask {
        let done = remote(address, &dir, &manifest, &mut journal, &mut points);
        done.map_err(|failure| match failure {
            Failure::Interrupted => interrupted(&points, &dir),
            other => other,
        })?;
        return finish(args, &dir, &manifest, &points);
    }
    let title = format!(
        "study: {} scenarios, {} schemes",
        manifest.own_scenarios()?.len(),
        manifest.schemes.len()
    );
    let ticker = Ticker::new(&title);
    let progress = |share: f64| {
        ticker.share(share);
        !stopped()
    };
    let study = Study { parameters: &parameters, manifest: &manifest, progress: &progress };
    match study.run(Some(&mut journal), &mut points) {
        Ok(()) => {}
        Err(StudyError::Interrupted) => {
            drop(ticker);
            return Err(interrupted(&points, &dir));
        }
        Err(error) => return Err(error.into()),
    }
    drop(ticker);
    finish(args, &dir, &manifest, &points)
}

fn interrupted(points: &Points, dir: &Path) -> Failure {
    Failure::Stopped(format!(
        "{} points are kept, go on with `solocore study --resume {}`",
        points.len(),
        dir.display()
    ))
}

/// Makes workers compute the unfinished scenarios; their answers go to the journal and to `points`.
fn remote(
    address: &str,
    dir: &Path,
    manifest: &Manifest,
    journal: &mut Journal,
    points: &mut Points,
) -> Result<(), Failure> {
    let parameters = files::read_text(&dir.join("parameters.toml"))?;
    let utilizations = &manifest.utilizations;
    let mut missing = manifest.own_scenarios()?;
    missing.retain(|scenario| !finished(points, *scenario, utilizations));
    let milli: Vec<String> = utilizations.iter().map(u32::to_string).collect();
    let point = |scenario: &Scenario| {
        serde_json::json!({
            "parameters": parameters,
            "scenario": scenario.to_string(),
            "schemes": manifest.schemes.join(","),
            "utilizations": milli.join(","),
            "of_seed": manifest.seed,
        })
    };
    let asked: Vec<_> = missing.iter().map(point).collect();
    dask::campaign(address, "study", &asked, &mut |at, answer| {
        let wrong = |what: &str| {
            Failure::Machine(format!(
                "--dask: a worker's answer for {} {what}; install solocore again",
                missing[at]
            ))
        };
        for row in dask::text(answer, "lines")?.lines() {
            let (scenario, milli, point) = journal::parse(row, manifest.schemes.len())
                .filter(|(scenario, milli, _)| {
                    *scenario == missing[at] && utilizations.binary_search(milli).is_ok()
                })
                .ok_or_else(|| wrong("is not of this study"))?;
            match points.get(&(scenario, milli)) {
                Some(known) if *known != point => {
                    return Err(wrong("differs from the kept answer"));
                }
                Some(_) => {}
                None => {
                    journal.append(scenario, milli, &point)?;
                    points.insert((scenario, milli), point);
                }
            }
        }
        if finished(points, missing[at], utilizations) {
            Ok(())
        } else {
            Err(wrong("is not whole"))
        }
    })
}

/// A study ready to run.
struct Prepared {
    dir: PathBuf,
    manifest: Manifest,
    parameters: Parameters,
    journal: Journal,
    points: Points,
}

fn begin(args: &StudyArgs) -> Result<Prepared, Failure> {
    let (manifest, parameters, text) = asked_for(args)?;
    let dir = args.output.clone().unwrap_or_else(|| PathBuf::from(OUTPUT));
    let journal = Journal::create(&dir, &manifest, &text)?;
    Ok(Prepared { dir, manifest, parameters, journal, points: Points::new() })
}

/// A new study by the arguments; its parameters, and their text.
fn asked_for(args: &StudyArgs) -> Result<(Manifest, Parameters, String), Failure> {
    let text = parameter_text(args)?;
    let parameters = Parameters::parse(&parameter_name(args), &text)?;
    let scenarios = scenarios(args)?.ok_or_else(|| {
        Failure::Input(
            "no scenarios; name some with --scenario \"C-Light,Long,Light,Quick,Small,High,Many\" \
                (* stands for any choice), or give --all"
                .to_owned(),
        )
    })?;
    let schemes = schemes(args)?.unwrap_or_else(|| Scheme::paper().collect());
    let utilizations = match &args.utilization {
        Some(text) => utilizations(text)?,
        None => (200..=8000).step_by(200).collect(),
    };
    let seed = args.seed.unwrap_or(1);
    let manifest =
        Manifest::new(parameters.digest(), seed, &schemes, &scenarios, utilizations, shard(args)?);
    if manifest.own_scenarios()?.is_empty() {
        return Err(Failure::Input(
            "--shard: this shard has no scenario; use fewer shards than scenarios".to_owned(),
        ));
    }
    Ok((manifest, parameters, text))
}

/// The study again with each range of the parameters halved and half as large again:
/// `sensitivity.csv`, and the figure of it.
fn sensitivity(args: &StudyArgs) -> Result<ExitCode, Failure> {
    let (manifest, parameters, _) = asked_for(args)?;
    let dir = args.output.clone().unwrap_or_else(|| PathBuf::from(OUTPUT));
    files::check_directory(&dir)?;
    let ticker =
        Ticker::new(&format!("sensitivity: {} scenarios", manifest.own_scenarios()?.len()));
    let progress = |share: f64| {
        ticker.share(share);
        !stopped()
    };
    let changes = sensitivity::run(&parameters, &manifest, &progress)?;
    drop(ticker);
    std::fs::create_dir_all(&dir)
        .map_err(|source| ModelError::Write { path: dir.clone(), source })?;
    files::write_atomically(&dir.join("sensitivity.csv"), &sensitivity::to_csv(&changes)?)?;
    if let Some(figure) = changes::svg(&changes)? {
        files::write_atomically(&dir.join("sensitivity.svg"), figure.as_bytes())?;
    }
    let broken = sensitivity::broken(&changes);
    match args.format {
        Format::Json => {
            let all: Vec<_> = broken
                .iter()
                .map(|(o, by)| serde_json::json!({"observation": o, "broken_by": by}))
                .collect();
            print(&files::to_json(
                &serde_json::json!({"directory": dir.display().to_string(), "observations": all}),
            ))?;
        }
        Format::Text => {
            let mut out = String::new();
            for (number, by) in &broken {
                let name =
                    if *number == 0 { "O|opt".to_owned() } else { format!("Observation {number}") };
                let by: Vec<&str> = by.iter().map(String::as_str).collect();
                let verdict = if by.is_empty() {
                    "holds under every change".to_owned()
                } else {
                    format!("does not hold with {}", by.join(", "))
                };
                out += &format!("{name}: {verdict}\n");
            }
            print(&(out + &format!("\n{}\n", dir.join("sensitivity.csv").display())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Resumes an earlier study. Given arguments must equal those of its beginning; missing ones are
/// taken from there.
fn resume(args: &StudyArgs, from: &Path) -> Result<Prepared, Failure> {
    let found = Manifest::read(from)?;
    let text = match &args.parameters {
        Some(_) => parameter_text(args)?,
        None => files::read_text(&from.join("parameters.toml"))?,
    };
    let parameters = Parameters::parse(
        &args.parameters.clone().unwrap_or_else(|| from.join("parameters.toml")),
        &text,
    )?;
    let mut wanted = Manifest {
        parameters: parameters.digest(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: args.seed.unwrap_or(found.seed),
        ..found.clone()
    };
    if let Some(scenarios) = scenarios(args)? {
        wanted.scenarios = scenarios.iter().map(ToString::to_string).collect();
    }
    if let Some(schemes) = schemes(args)? {
        wanted.schemes = schemes.iter().map(ToString::to_string).collect();
    }
    if let Some(text) = &args.utilization {
        wanted.utilizations = utilizations(text)?;
    }
    if args.shard.is_some() {
        wanted.shard = shard(args)?;
    }
    if let Some(what) = found.difference(&wanted, true) {
        return Err(Failure::Input(format!(
            "{}: the study there was begun with other {what}; give the same ones, or start in \
            another directory",
            from.display()
        )));
    }
    let dir = args.output.clone().unwrap_or_else(|| from.to_owned());
    let (journal, points) = if same(&dir, from) {
        let (journal, points, dropped) = Journal::resume(from, &found)?;
        if dropped > 0 {
            eprintln!(
                "{}: the last line was cut off ({dropped} bytes); its point is computed again",
                from.display()
            );
        }
        (journal, points)
    } else {
        let points = journal::points(from, &found)?;
        let mut journal = Journal::create(&dir, &found, &text)?;
        for ((scenario, milli), point) in &points {
            journal.append(*scenario, *milli, point)?;
        }
        (journal, points)
    };
    eprintln!("{}: {} points are there already", from.display(), points.len());
    Ok(Prepared { dir, manifest: found, parameters, journal, points })
}

fn same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn merge(args: &StudyArgs) -> Result<ExitCode, Failure> {
    let (manifest, points) = shards::merge(&args.merge)?;
    let dir = args.output.clone().unwrap_or_else(|| PathBuf::from(OUTPUT));
    let text = files::read_text(&args.merge[0].join("parameters.toml"))?;
    let mut journal = Journal::create(&dir, &manifest, &text)?;
    for ((scenario, milli), point) in &points {
        journal.append(*scenario, *milli, point)?;
    }
    finish(args, &dir, &manifest, &points)
}

fn finish(
    args: &StudyArgs,
    dir: &Path,
    manifest: &Manifest,
    points: &Points,
) -> Result<ExitCode, Failure> {
    let summary = output::write(dir, manifest, points)?;
    match args.format {
        Format::Json => print(&files::to_json(&document(dir, manifest, &summary)))?,
        Format::Text => print(&text(dir, &summary))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn document(dir: &Path, manifest: &Manifest, summary: &Summary) -> serde_json::Value {
    let sua: Vec<_> =
        summary.sua.iter().map(|(s, a)| serde_json::json!({"scheme": s, "sua": a})).collect();
    serde_json::json!({
        "directory": dir.display().to_string(),
        "seed": manifest.seed,
        "parameters": manifest.parameters,
        "shard": manifest.shard,
        "points": summary.points,
        "systems": summary.systems,
        "undecided": summary.undecided,
        "sua": sua,
        "observations": summary.observations,
    })
}

fn text(dir: &Path, summary: &Summary) -> String {
    let mut rows = vec![["scheme", "SUA", "over the first"].map(str::to_owned).to_vec()];
    let first = summary.sua.first().map_or(0.0, |(_, area)| *area);
    for (scheme, area) in &summary.sua {
        let over = if first > 0.0 {
            format!("{:+.1} %", 100.0 * (area / first - 1.0))
        } else {
            "-".to_owned()
        };
        rows.push(vec![scheme.clone(), format!("{area:.3}"), over]);
    }
    let mut out = table::render(&rows) + "\n";
    for o in &summary.observations {
        let verdict = match o.holds {
            Some(true) => "holds",
            Some(false) => "DOES NOT HOLD",
            None => "not decided by this study",
        };
        let name =
            if o.number == 0 { "O|opt".to_owned() } else { format!("Observation {}", o.number) };
        out += &format!("{name}: {verdict}: {}\n", o.claim);
        for figure in &o.figures {
            let number = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), percent);
            let paper = figure
                .paper
                .map_or_else(String::new, |_| format!(" (paper: {})", number(figure.paper)));
            out += &format!("    {}: {}{paper}\n", figure.what, number(figure.here));
        }
    }
    if summary.undecided > 0 {
        out += &format!(
            "O|opt was left open on {} systems; they count as not schedulable\n",
            summary.undecided
        );
    }
    out + &format!(
        "\n{} points, {} systems: {}\n",
        summary.points,
        summary.systems,
        dir.join("points.csv").display()
    )
}

/// A share in per cent, with one decimal, or four below 0.1 %.
fn percent(x: f64) -> String {
    if x != 0.0 && x.abs() < 0.1 { format!("{x:.4} %") } else { format!("{x:.1} %") }
}

fn parameter_name(args: &StudyArgs) -> PathBuf {
    args.parameters.clone().unwrap_or_else(|| PathBuf::from("parameters.toml"))
}

fn parameter_text(args: &StudyArgs) -> Result<String, Failure> {
    match &args.parameters {
        Some(path) => Ok(files::read_text(path)?),
        None => Ok(DEFAULT_PARAMETERS.to_owned()),
    }
}

/// The scenarios asked for; `None` if none were.
fn scenarios(args: &StudyArgs) -> Result<Option<Vec<Scenario>>, Failure> {
    if args.all {
        return Ok(Some(Scenario::all().collect()));
    }
    let found = asked::scenarios(&args.scenario)?;
    Ok((!found.is_empty()).then_some(found))
}

/// The schemes asked for.
fn schemes(args: &StudyArgs) -> Result<Option<Vec<Scheme>>, Failure> {
    Ok(args.schemes.as_deref().map(asked::schemes).transpose()?)
}

fn utilizations(text: &str) -> Result<Vec<u32>, Failure> {
    asked::utilizations(text).map_err(|e| Failure::from(e).of("--utilization"))
}

fn shard(args: &StudyArgs) -> Result<Option<[u32; 2]>, Failure> {
    let Some(text) = &args.shard else { return Ok(None) };
    let parts = text
        .split_once('/')
        .and_then(|(k, n)| Some([k.trim().parse().ok()?, n.trim().parse().ok()?]));
    match parts {
        Some([k, n]) if k >= 1 && k <= n => Ok(Some([k, n])),
        _ => Err(Failure::Input(format!(
            "--shard `{text}` is not a shard of a study; give k/n with k from 1 to n, like 1/4"
        ))),
    }
}

/// A bar with the time left on a terminal, else a line for every tenth.
struct Ticker {
    bar: Progress,
    lines: bool,
    begun: Instant,
    tenths: Mutex<u32>,
}

impl Ticker {
    fn new(what: &str) -> Self {
        let lines = !std::io::stderr().is_terminal();
        Self { bar: Progress::new(what), lines, begun: Instant::now(), tenths: Mutex::new(0) }
    }

    /// Shows a share; one below 0 is ignored.
    fn share(&self, share: f64) {
        if share < 0.0 {
            return;
        }
        self.bar.share(share);
        let Ok(mut tenths) = self.tenths.lock() else { return };
        if self.lines && share * 10.0 >= f64::from(*tenths + 1) && share < 1.0 {
            while share * 10.0 >= f64::from(*tenths + 1) {
                *tenths += 1;
            }
            let left = self.begun.elapsed().as_secs_f64() * (1.0 - share) / share;
            eprintln!("{:.0} %, {left:.0} s left", share * 100.0);
        }
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Files(inner) => inner.into(),
            StudyError::Interrupted => Self::Interrupted,
            other => Self::Input(other.to_string()),
        }
    }
}
