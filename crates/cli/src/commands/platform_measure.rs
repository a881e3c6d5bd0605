//! `solocore platform measure`: measures numbers that no file of this machine tells, for a platform
//! file.

use crate::args::Format;
use crate::args::platform::MeasureArgs;
use crate::commands::platform_measure_types::{Types, of_types, own_view, typed_cpu};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, stopped};
use crate::table;
use schemars::JsonSchema;
use serde::Serialize;
use solocore_linux::host::{machine, prefetch};
use solocore_linux::latency::calibrate::usable_cpus;
use solocore_machine::measure::hardware::{Machine, Setup};
use solocore_machine::measure::{self, Apart, Effort, Finding, Key, Plan, Row};
use solocore_machine::{Description, Root, check, describe, lists};
use solocore_model::platform::Platform;
use solocore_model::{Time, files};
use solocore_planner::memory;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Variable that is set in the guest of a virtual board, which has an emulated time.
const BOARD: &str = "SOLOCORE_BOARD";
/// Keys of notes on the machine that matter to a measurement.
const TELLING: [&str; 3] = ["frequency", "guest", "cores"];

/// The numbers that were measured.
#[derive(Serialize, JsonSchema)]
pub(super) struct Outcome<'a> {
    /// `solocore-measure/1`.
    format: &'static str,
    /// Date of the measurement.
    date: String,
    /// Platform file that was measured for.
    file: &'a Path,
    /// File that was written; `None`: no file.
    written: Option<PathBuf>,
    /// CPU of the measuring thread.
    cpu: u32,
    /// Duration of the measurement, in seconds.
    seconds: f64,
    /// Finding for each key.
    findings: &'a [Finding],
    /// Notes for the user.
    notes: &'a [String],
}

/// Measures and writes.
pub fn run(args: &MeasureArgs) -> Result<ExitCode, Failure> {
    let keys = keys(&args.only)?;
    let target = args.output.as_ref().unwrap_or(&args.file);
    let text = files::read_text(&args.file)?;
    if !args.dry_run {
        files::check_place(target)?;
    }
    let platform = Platform::parse(&args.file, &text)?;
    let time = time(args.time)?;
    let here = describe(&Root::machine(), listed(args.cpus.as_deref())?.as_deref())?;
    same_machine(&args.file, &platform, &here)?;
    // Read before this thread keeps to one CPU.
    let usable = usable_cpus()?;
    let asked = args.cpu.or_else(|| typed_cpu(&platform, &here, &usable));
    let (cpu, others) = cpus(asked, &platform, &here)?;
    let view = own_view(&args.file, &platform, &here, cpu)?;
    let mut notes = notes(&here);
    notes.extend(unmeasured(&here));
    let progress = Progress::new("measuring this machine");
    let begun = Instant::now();
    let off = match prefetch::switch_off(Path::new("/")) {
        Ok(Some(off)) => {
            notes.push("prefetchers were switched off meanwhile (their MSR)".to_owned());
            Some(off)
        }
        Ok(None) => None,
        Err(why) => {
            notes.push(format!(
                "prefetchers may be on: {why}. Latencies are measured on random lines that no \
                    prefetcher guesses; bandwidths include prefetches"
            ));
            None
        }
    };
    let emulated = std::env::var_os(BOARD).is_some();
    let effort = if emulated { Effort::emulated(time) } else { Effort::full(time) };
    let typed = !platform.core_types.is_empty();
    let (of_cores, keys): (Vec<Key>, Vec<Key>) =
        keys.into_iter().partition(|key| typed && key.is_of_core());
    let mut probe =
        Machine::new(Setup { cpu, others: others.clone(), platform: &view, emulated, stopped })?;
    notes.extend(of_probe(&probe, &platform, others.len()));
    let bound = memory::access_beside(&platform, u32::try_from(others.len()).unwrap_or(u32::MAX));
    let way = Time::from_ps(memory::way_ps(&platform).unwrap_or(0));
    let (refresh_ps, every_ps) = memory::refresh_ps(&platform).unwrap_or((0, 0));
    let ns = |ps: u64| ps as f64 / 1e3;
    let apart = Apart { way_ns: ns(way.ps()), refresh_ns: ns(refresh_ps), every_ns: ns(every_ps) };
    let plan = Plan { platform: &view, keys: &keys, effort, apart, bound_ns: bound.map(ns) };
    let said = |what: &str, share: f64| {
        progress.share(share);
        progress.say_now(what);
    };
    let found = measure::measure(&mut probe, &plan, &said)?;
    drop(probe);
    let types = Types {
        platform: &platform,
        here: &here,
        keys: &of_cores,
        usable: &usable,
        effort,
        emulated,
    };
    let of_types = of_types(&types, &said, &mut notes)?;
    drop((off, progress));
    let found = found.zip(of_types).filter(|_| !stopped());
    let Some((found, of_types)) = found else { return Err(Failure::Interrupted) };
    let mut found = [of_types, found].concat();
    let date = measure::file::date(SystemTime::now());
    let derive = |p: &Platform| memory::of(p).ok()?.latency_ps().map(Time::from_ps);
    let new = measure::file::with(&args.file, &text, &mut found, &date, &derive, way)?;
    let written = (!args.dry_run).then(|| target.clone());
    if let Some(path) = &written {
        if path == &args.file && files::read_text(path)? != text {
            return Err(Failure::Input(format!(
                "{}: another program has changed it meanwhile; measure again, or give -o",
                path.display()
            )));
        }
        files::write_atomically(path, new.as_bytes())?;
    }
    let outcome = Outcome {
        format: "solocore-measure/1",
        date,
        file: &args.file,
        written,
        cpu,
        seconds: begun.elapsed().as_secs_f64(),
        findings: &found,
        notes: &notes,
    };
    match args.format {
        Format::Json => print(&files::to_json(&outcome))?,
        Format::Text => print(&shown(&outcome))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn keys(only: &[String]) -> Result<Vec<Key>, Failure> {
    if only.is_empty() {
        return Ok(Key::ALL.to_vec());
    }
    let of = |name: &String| {
        Key::of(name).ok_or_else(|| {
            let all: Vec<&str> = Key::ALL.into_iter().map(Key::name).collect();
            Failure::Input(format!(
                "--only {name}: it is not a measured key; choose among {}",
                all.join(", ")
            ))
        })
    };
    only.iter().map(of).collect()
}

fn time(time: Time) -> Result<Duration, Failure> {
    let time = Duration::from_nanos(time.ns_ceil());
    if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time) {
        return Err(Failure::Input(format!(
            "--time {time:?} is too short or too long; give 1 s to 3600 s"
        )));
    }
    Ok(time)
}

/// Refuses the file of another machine.
pub fn same_machine(file: &Path, platform: &Platform, here: &Description) -> Result<(), Failure> {
    let differences = check::compare(platform, here).differences;
    if differences.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = differences
        .iter()
        .map(|d| format!("{} is {} in the file and {} here", d.key, d.file, d.machine))
        .collect();
    // All but the cores agree: `detect --cpus` may have written it.
    let part = differences.iter().all(|d| d.key == "cores");
    let remedy =
        if part { "if it is of some CPUs alone, name them with --cpus; else " } else { "" };
    Err(Failure::Input(format!(
        "{}: it is of another machine: {}; {remedy}write one of this machine: solocore platform \
            detect -o machine.toml",
        file.display(),
        all.join(", ")
    )))
}

/// The numbers of `--cpus`.
pub fn listed(list: Option<&str>) -> Result<Option<Vec<u32>>, Failure> {
    let wrong = |list: &str| {
        Failure::Input(format!("--cpus {list} is not a list of CPUs; give one like 0-3,6"))
    };
    list.map(|list| lists::parse(list).ok_or_else(|| wrong(list))).transpose()
}

/// The CPU that measures, and the other CPUs, all behind the last-level cache that is described.
/// Where cores have types, the caller refuses a CPU without one.
pub fn cpus(
    asked: Option<u32>,
    platform: &Platform,
    here: &Description,
) -> Result<(u32, Vec<u32>), Failure> {
    let usable = usable_cpus()?;
    let own = |cpu: &u32| here.cpus.contains(cpu);
    let shown = || machine::cpu_list(&usable.iter().copied().filter(own).collect::<Vec<_>>());
    let cpu = match asked {
        None => *usable.iter().rfind(|cpu| own(cpu)).ok_or_else(|| {
            Failure::Machine(format!(
                "this process may use none of the CPUs {}, which are described; see its cpuset",
                machine::cpu_list(&here.cpus)
            ))
        })?,
        Some(cpu) if !usable.contains(&cpu) => {
            return Err(Failure::Input(format!(
                "--cpu {cpu}: it is offline, or this process may not use it; choose among {}",
                shown()
            )));
        }
        Some(cpu) if !own(&cpu) && platform.core_types.is_empty() => {
            return Err(Failure::Input(format!(
                "--cpu {cpu}: llc: it is not among the CPUs that are described; choose among {}, or \
                    describe it in a file of its own (`solocore platform detect --cpus {cpu}`)",
                shown()
            )));
        }
        Some(cpu) => cpu,
    };
    let most = platform.cores.saturating_sub(1) as usize;
    let others = usable.iter().copied().filter(|&other| other != cpu && own(&other));
    Ok((cpu, others.take(most).collect()))
}

/// A note on the CPUs behind other last-level caches.
fn unmeasured(here: &Description) -> Option<String> {
    let first = here.others.first()?;
    let all: Vec<String> = here.others.iter().map(|cpus| lists::show(cpus)).collect();
    let one = lists::show(first);
    Some(format!(
        "llc: nothing was measured on or beside the CPUs {}, which are behind other last-level \
            caches. Measure each by itself: solocore platform detect --cpus {one} -o other.toml, \
            then solocore platform measure other.toml --cpus {one}",
        all.join(" and ")
    ))
}

/// Notes on the machine.
pub fn notes(here: &Description) -> Vec<String> {
    here.notes.iter().filter(|n| TELLING.contains(&n.key.as_str())).map(|n| n.line()).collect()
}

/// Notes on the walked memory.
fn of_probe(probe: &Machine, platform: &Platform, others: usize) -> Vec<String> {
    use solocore_buffers::huge::Backing;
    let mut notes = Vec::new();
    if probe.backing() == Backing::Small {
        notes.push(
            "there are no huge pages: walks stay within 128 KiB for a while, and banks are not \
            known; set some aside: sysctl vm.nr_hugepages=256"
                .to_owned(),
        );
    }
    if !probe.sees_interrupts() {
        notes.push(
            "/proc/interrupts has no column for this CPU: pieces with an interrupt are not left \
                out"
            .to_owned(),
        );
    }
    let llc = platform.llc.size.0;
    if probe.region() < 2 * llc {
        notes.push(format!(
            "bandwidth: each core walks {} MiB, and the shared cache has {} MiB: parts of its \
            data may come from there",
            probe.region() >> 20,
            llc >> 20
        ));
    }
    if others + 1 < platform.cores as usize {
        notes.push(format!(
            "{} of {} cores can be used: nothing was measured beside the other cores",
            others + 1,
            platform.cores
        ));
    }
    notes
}

/// The outcome for people.
fn shown(outcome: &Outcome) -> String {
    let head = ["key", "was", "is", "95 %", "unit", "samples", "left out"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let row = |f: &Finding| {
        vec![
            f.name(),
            f.before.clone().unwrap_or_else(|| "-".to_owned()),
            f.after.clone().unwrap_or_else(|| format!("{:.1}", f.value)),
            format!("{:.2} to {:.2}", f.ci_low, f.ci_high),
            f.unit.to_owned(),
            f.samples.to_string(),
            f.left_out.sum().to_string(),
        ]
    };
    rows.extend(outcome.findings.iter().map(row));
    let mut out = table::render(&rows);
    for finding in outcome.findings {
        for row in &finding.rows {
            out += &format!("{}: {}\n", finding.name(), part(row, finding.unit));
        }
        for note in &finding.notes {
            out += &format!("{}: note: {note}\n", finding.name());
        }
        if let Some(larger) = larger(finding) {
            out += &larger;
        }
    }
    for note in outcome.notes {
        out += &format!("note: {note}\n");
    }
    let place = outcome.written.as_ref().map_or_else(
        || format!("{} stays as it is (--dry-run)", outcome.file.display()),
        |path| format!("{} is written", path.display()),
    );
    out + &format!("{:.1} s on CPU {}; {place}\n", outcome.seconds, outcome.cpu)
}

fn part(row: &Row, unit: &str) -> String {
    let worst = row.worst.map_or_else(String::new, |w| format!(", longest {w:.1}"));
    let of = if unit == "registers" { "ns" } else { unit };
    format!("{}: {:.1} {of}, {:.1} to {:.1}{worst}", row.of, row.median, row.ci_low, row.ci_high)
}

/// Warns of an assumed value on the unsafe side.
fn larger(finding: &Finding) -> Option<String> {
    let number = |text: &str| {
        let digits: String = text
            .trim_matches('"')
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        digits.parse::<f64>().ok()
    };
    let (before, after) = (finding.before.as_ref()?, finding.after.as_ref()?);
    let assumed = before.ends_with(", assumed");
    (assumed && number(after)? > number(before)?).then(|| {
        format!(
            "{}: note: the measured value is above the assumed one: bounds of plans that used the \
                assumed value were too small\n",
            finding.name()
        )
    })
}
