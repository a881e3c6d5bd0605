//! The commands.

mod analyze;
mod assess;
mod attack;
pub(crate) mod bench;
mod board;
mod board_list;
mod board_terminal;
mod census;
mod check_io;
mod check_trace;
mod compare;
mod daemon;
mod diff;
mod doctor;
mod dram;
mod enemies;
mod exec;
mod exec_coloured;
mod exec_functions;
mod exec_start;
mod exec_vcpu;
mod init;
mod isolation;
mod latency;
mod levels;
mod man;
mod memory_map;
mod other_machine;
mod plan;
mod platform;
mod platform_measure;
mod platform_measure_types;
mod profile;
mod profiles;
mod promises;
mod report;
mod reproduce;
mod reserve;
mod reserve_plan;
mod restore;
mod run;
mod run_options;
mod run_preview;
mod run_replace;
mod run_text;
mod run_vcpus;
mod sched_trace;
mod schedule_io;
mod schema;
mod sim;
mod space;
mod study;
mod top;
mod vcpu;
mod vcpu_drill;
mod verify;

use crate::args::Format;
use crate::args::command_line::{Args, Command};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::computing;
use solocore_model::platform::PRESETS;
use std::process::ExitCode;

/// Runs a command.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Init(args) => init::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Diff(args) => computing(|| diff::run(&args)),
        Command::Sim(args) => sim::run(&args),
        Command::Report(args) => computing(|| report::run(&args)),
        Command::Assess(args) => assess::run(&args),
        Command::Analyze(args) => computing(|| analyze::run(&args)),
        Command::ScheduleIo(args) => computing(|| schedule_io::run(&args)),
        Command::CheckIo(args) => computing(|| check_io::run(&args)),
        Command::Dram(args) => dram::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Attack(args) => attack::run(&args),
        Command::Study(args) => study::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Exec(args) => exec::run(&args),
        Command::Recolour(args) => space::recolour(&args),
        Command::Reserve(args) => reserve::run(&args),
        Command::Space(command) => space::run(&command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Restore { format } => restore::run(format),
        Command::Top(args) => top::run(&args),
        Command::CheckTrace(args) => computing(|| check_trace::run(&args)),
        Command::Vcpu(args) => vcpu::run(&args),
        Command::Latency(args) => latency::run(&args),
        Command::Board(command) => board::run(&command),
        Command::Bench { name } => bench::run(&name),
        Command::KeepSettings => {
            Ok(ExitCode::from(u8::from(solocore_linux::host::keeper::keep() > 0)))
        }
        Command::Platform(command) => platform::run(&command),
        Command::Platforms { name } => platforms(name.as_deref()),
        Command::Workloads { kind, format } => workloads(kind.as_deref(), format),
        Command::Schema { file } => schema::run(file),
        Command::Man { commands, output } => man::run(&commands, output.as_deref()),
        Command::Completions { shell } => {
            // Printed as a whole: clap panics when it writes to a closed pipe.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::visible(), "solocore", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn platforms(name: Option<&str>) -> Result<ExitCode, Failure> {
    if let Some(name) = name {
        let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) else {
            return Err(Failure::Input(format!(
                "no preset is called `{name}`; `solocore platforms` lists them"
            )));
        };
        print(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows =
        vec![["name", "board", "cores", "shared cache", "guaranteed"].map(str::to_owned).to_vec()];
    for (name, _) in PRESETS {
        let p = solocore_model::Platform::find(name, std::path::Path::new("."))?;
        rows.push(vec![
            (*name).to_owned(),
            p.title.clone(),
            p.cores.to_string(),
            format!("{}, {} ways", p.llc.size, p.llc.ways),
            format!("{:.2} GB/s", p.guaranteed_bandwidth().0 as f64 / 1e9),
        ]);
    }
    print(&crate::table::render(&rows))?;
    Ok(ExitCode::SUCCESS)
}

fn workloads(kind: Option<&str>, format: Format) -> Result<ExitCode, Failure> {
    let mut kinds = solocore_sim::workload::describe();
    if let Some(kind) = kind {
        kinds.retain(|k| k.kind == kind);
        if kinds.is_empty() {
            return Err(Failure::Input(format!(
                "no workload is called `{kind}`; `solocore workloads` lists them"
            )));
        }
    }
    if format == Format::Json {
        print(&solocore_model::files::to_json(&kinds))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = String::new();
    if kind.is_none() {
        let mut rows = vec![["kind", "what it does", "from"].map(str::to_owned).to_vec()];
        rows.extend(kinds.iter().map(|k| [k.kind, k.what, k.source].map(str::to_owned).to_vec()));
        out += &crate::table::render(&rows);
    }
    for k in kinds.iter().filter(|_| kind.is_some()) {
        out += &format!("{}: {} [{}]\n\n", k.kind, k.what, k.source);
        let mut rows = vec![["parameter", "default", "meaning"].map(str::to_owned).to_vec()];
        rows.extend(
            k.parameters
                .iter()
                .map(|p| vec![p.name.to_owned(), p.default.clone(), p.meaning.to_owned()]),
        );
        out += &crate::table::render(&rows);
    }
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}
