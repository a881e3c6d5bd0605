//! `solocore space` and `solocore recolor`: maps of the memory, and the places of a process's
//! pages.

use super::census;
use super::memory_map::{choice_of, geometry, map_of};
use crate::args::Format;
use crate::args::space::{AuditCommand, MapCommand, RecolourArgs, SpaceCommand};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{computing, computing_apart, stopped};
use crate::table;
use serde::Serialize;
use solocore_model::files;
use solocore_space::audit::Audit;
use solocore_space::geometry::in_guest;
use solocore_space::map::{Map, parse_list};
use solocore_space::probe::Probe;
use solocore_space::recolour::{self, Moved};
use solocore_space::solve::{self, Found};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Number of timed lines.
const LINES: usize = 16_384;
/// Longest time for moving a program.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `solocore space ...`.
pub fn run(command: &SpaceCommand) -> Result<ExitCode, Failure> {
    match command {
        SpaceCommand::Map(args) => map(args),
        SpaceCommand::Audit(args) => computing(|| audit(args)),
    }
}

fn map(args: &MapCommand) -> Result<ExitCode, Failure> {
    let cache = geometry(args.platform.as_deref());
    let mut notes = vec![
        "solocore memory map: XOR functions of physical address bits, a bank function a line"
            .to_owned(),
    ];
    let mut map = Map::default();
    match cache {
        Ok(cache) => {
            notes.push(format!("colours: {}; {}", cache.name, cache.source));
            map.colours = cache.colours();
        }
        Err(error) if args.no_banks || args.platform.is_some() => return Err(error),
        Err(error) => {
            eprintln!("solocore: note: no colours: {}", error.message())
        }
    }
    if in_guest() && args.platform.is_none() {
        let note = "this is a guest: the hypervisor places its frames, so the map may not be that \
        of the machine";
        eprintln!("solocore: note: {note}");
        notes.push(note.to_owned());
    }
    if !args.no_banks {
        let bytes = usize::try_from(args.memory.0).ok().filter(|&b| b >= 16 << 20);
        let bytes = bytes.ok_or_else(|| {
            Failure::Input("--memory: less than 16 MiB cannot show banks; give more".into())
        })?;
        eprintln!("solocore: timing {LINES} lines of {}", args.memory);
        let found = computing_apart(|| -> Result<Found, Failure> {
            let mut probe = Probe::new(bytes, LINES, args.seed)?;
            solve::solve(&mut probe, args.seed).map_err(|e| Failure::Machine(e.to_string()))
        })?;
        notes.extend(confidence(&found));
        map.banks = found.banks;
    }
    let text = map.print(&notes);
    match &args.output {
        Some(path) => files::write_atomically(path, text.as_bytes())?,
        None => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn confidence(found: &Found) -> Vec<String> {
    let (fast, slow, limit) = found.times;
    vec![
        format!(
            "banks: found by timing; different banks take {fast:.0} cycles, rows of one bank \
                {slow:.0}, limit {limit:.0}"
        ),
        format!("they explain {} of {} slow pairs", found.pairs.1, found.pairs.0),
        format!(
            "confidence: of new pairs, {:.1} % of one bank were slow, {:.1} % of others fast",
            found.slow_as_said * 100.0,
            found.fast_as_said * 100.0
        ),
        format!("looked at address bits {}", solocore_space::map::bits_of(found.bits)),
    ]
}

fn audit(args: &AuditCommand) -> Result<ExitCode, Failure> {
    let Some(pid) = args.pid else { return census::run(args) };
    let map = map_of(&args.map, args.colours.is_some())?;
    let choice = choice_of(&map, args.colours.as_deref(), args.banks.as_deref())?;
    if !Path::new("/proc").join(pid.to_string()).exists() {
        return Err(Failure::Input(format!("there is no process {pid}; check the number")));
    }
    let audit = Audit::of(pid, &choice)?;
    match args.format {
        Format::Json => print(&files::to_json(&audit))?,
        Format::Text => print(&format!("{}\n", audit.describe()))?,
    }
    Ok(ExitCode::from(u8::from(audit.anonymous.wrong > 0)))
}

#[derive(Serialize)]
struct Recoloured {
    format: &'static str,
    processes: Vec<Moved>,
}

/// Runs `solocore recolor`.
pub fn recolour(args: &RecolourArgs) -> Result<ExitCode, Failure> {
    for (option, list) in [("--colors", &args.colours), ("--banks", &args.banks)] {
        if let Some(list) = list {
            parse_list(list).map_err(|e| Failure::Input(format!("{option}: {e}")))?;
        }
    }
    let colours = args.colours.as_deref().unwrap_or_default();
    let done = recolour::recolour(args.pid, colours, args.banks.as_deref(), PATIENCE, &stopped);
    let processes = done.map_err(|e| if stopped() { Failure::Interrupted } else { e.into() })?;
    let right = processes.iter().all(|p| p.stuck == 0 && p.wrong == 0);
    if args.format == Format::Json {
        print(&files::to_json(&Recoloured { format: "solocore-recolor/1", processes }))?;
        return Ok(ExitCode::from(u8::from(!right)));
    }
    let head = [
        "pid",
        "pages moved",
        "stuck",
        "ns/page",
        "GB/s",
        "ns/page, all",
        "GB/s, all",
        "private pages",
        "wrong",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for p in &processes {
        let per_page = |ns: u64| format!("{:.0}", ns as f64 / f64::from(p.pages.max(1)));
        let rate = |ns: u64| format!("{:.2}", f64::from(p.pages) * 4096.0 / ns.max(1) as f64);
        rows.push(vec![
            p.pid.to_string(),
            p.pages.to_string(),
            p.stuck.to_string(),
            per_page(p.move_ns),
            rate(p.move_ns),
            per_page(p.all_ns),
            rate(p.all_ns),
            p.resident.to_string(),
            p.wrong.to_string(),
        ]);
    }
    print(&table::render(&rows))?;
    print("all: includes finding pages of the new colours and giving the old pages back\n")?;
    Ok(ExitCode::from(u8::from(!right)))
}
