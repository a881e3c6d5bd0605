//! `solocore platform`: machines as platform files.

use crate::args::Format;
use crate::args::platform::{CheckArgs, CollectArgs, DetectArgs, MachineArgs, PlatformCommand};
use crate::commands::platform_measure;
use crate::fail::Failure;
use crate::print::print;
use crate::table;
use serde::Serialize;
use solocore_machine::check::{self, Comparison};
use solocore_machine::{Description, Fact, Note, Root, Source, collect, describe};
use solocore_model::platform::{PRESETS, Platform};
use solocore_model::{Bandwidth, ModelError, files};
use std::path::Path;
use std::process::ExitCode;

/// Runs `solocore platform ...`.
pub fn run(command: &PlatformCommand) -> Result<ExitCode, Failure> {
    match command {
        PlatformCommand::Detect(args) => detect(args),
        PlatformCommand::Measure(args) => platform_measure::run(args),
        PlatformCommand::Collect(args) => copy(args),
        PlatformCommand::List { format } => list(*format),
        PlatformCommand::Show { platform, format } => show(platform, *format),
        PlatformCommand::Check(args) => hold(args),
    }
}

#[derive(Serialize)]
struct Detected<'a> {
    format: &'static str,
    platform: &'a Platform,
    facts: &'a [Fact],
    found: &'a [Fact],
    notes: &'a [Note],
}

fn described(args: &MachineArgs) -> Result<Description, Failure> {
    let root = match &args.from {
        Some(dir) => Root::collected(dir)?,
        None => Root::machine(),
    };
    let asked = platform_measure::listed(args.cpus.as_deref())?;
    Ok(describe(&root, asked.as_deref())?)
}

/// Description of this machine by `detect`; `cpus`: of these CPUs.
pub fn this_machine(cpus: Option<&[u32]>) -> Result<Description, Failure> {
    Ok(describe(&Root::machine(), cpus)?)
}

fn detect(args: &DetectArgs) -> Result<ExitCode, Failure> {
    let found = described(&args.machine)?;
    let text = solocore_machine::file(&found);
    if let Some(path) = &args.output {
        files::write_atomically(path, text.as_bytes())?;
    }
    for note in &found.notes {
        eprintln!("solocore: note: {}", note.line());
    }
    let json = || Detected {
        format: "solocore-machine/1",
        platform: &found.platform,
        facts: &found.facts,
        found: &found.found,
        notes: &found.notes,
    };
    match (args.format, &args.output) {
        (Format::Json, _) => print(&files::to_json(&json()))?,
        (Format::Text, Some(path)) => print(&summary(path, &found))?,
        (Format::Text, None) => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The known share of a description, on one line.
pub fn summary(path: &Path, found: &Description) -> String {
    let count = |source| found.facts.iter().filter(|fact| fact.source == source).count();
    format!(
        "{}: {} keys read, {} from tables, {} assumed\n",
        path.display(),
        count(Source::Read),
        count(Source::Table),
        count(Source::Assumed)
    )
}

fn copy(args: &CollectArgs) -> Result<ExitCode, Failure> {
    if args.script {
        print(&collect::script())?;
        return Ok(ExitCode::SUCCESS);
    }
    let root = Root::machine();
    let copied = collect::collect(&root, &args.output)?;
    for note in root.problems() {
        eprintln!("solocore: note: {}", note.line());
    }
    let dir = args.output.display();
    print(&format!("{dir}: {} files, {} bytes\n", copied.files, copied.bytes))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Preset {
    name: &'static str,
    title: String,
    cores: u32,
    frequency: String,
    llc: String,
    memory: String,
}

fn list(format: Format) -> Result<ExitCode, Failure> {
    let of =
        |(name, _): &(&'static str, _)| Ok(preset(name, &Platform::find(name, Path::new("."))?));
    let presets = PRESETS.iter().map(of).collect::<Result<Vec<_>, ModelError>>()?;
    if format == Format::Json {
        print(&files::to_json(&presets))?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["name", "cores", "clock", "shared cache", "memory"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(
        presets
            .into_iter()
            .map(|p| vec![p.name.to_owned(), p.cores.to_string(), p.frequency, p.llc, p.memory]),
    );
    print(&table::render(&rows))?;
    Ok(ExitCode::SUCCESS)
}

fn preset(name: &'static str, p: &Platform) -> Preset {
    let d = &p.dram;
    let memory = d.memory.as_deref().unwrap_or("memory");
    Preset {
        name,
        title: p.title.clone(),
        cores: p.cores,
        frequency: p.frequency.to_string(),
        llc: format!("{}, {} ways, {} colours", p.llc.size, p.llc.ways, p.colours()),
        memory: format!("{} of {memory}, channels: {}", d.capacity, d.channels),
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    platform: &'a Platform,
    colours: u32,
    banks: u32,
    guaranteed_bandwidth: Bandwidth,
}

fn show(name: &str, format: Format) -> Result<ExitCode, Failure> {
    let platform = Platform::find(name, Path::new("."))?;
    if format == Format::Json {
        print(&files::to_json(&Shown {
            colours: platform.colours(),
            banks: platform.total_banks(),
            guaranteed_bandwidth: platform.guaranteed_bandwidth(),
            platform: &platform,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    match PRESETS.iter().find(|(preset, _)| *preset == name) {
        Some((_, text)) => print(text)?,
        None => print(&files::read_text(Path::new(name))?)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Held<'a> {
    format: &'static str,
    same: bool,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

fn hold(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let file = Platform::find(&args.platform, Path::new("."))?;
    let machine = described(&args.machine)?;
    let comparison = check::compare(&file, &machine);
    let same = comparison.differences.is_empty();
    let code = ExitCode::from(u8::from(!same));
    match args.format {
        Format::Json => {
            let held = Held { format: "solocore-platform-check/1", same, comparison: &comparison };
            print(&files::to_json(&held))?;
        }
        Format::Text => print(&verdict(&args.platform, &machine, &comparison))?,
    }
    Ok(code)
}

fn verdict(name: &str, machine: &Description, comparison: &Comparison) -> String {
    let title = &machine.platform.title;
    if comparison.differences.is_empty() {
        let keys = comparison.agree.join(", ");
        return format!("{name} agrees with {title} on {keys}\n");
    }
    let mut rows = vec![["key", "file", "machine"].map(str::to_owned).to_vec()];
    let row = |d: &check::Difference| vec![d.key.clone(), d.file.clone(), d.machine.clone()];
    rows.extend(comparison.differences.iter().map(row));
    let mut out = table::render(&rows);
    for d in &comparison.differences {
        out += &format!("{}: {}\n", d.key, d.from);
    }
    out + &format!(
        "{name} contradicts {title}: the file is of another machine, or of other CPUs of this one (--cpus)\n"
    )
}
