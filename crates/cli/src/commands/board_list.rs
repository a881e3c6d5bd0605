//! `solocore board list`: boards, and the QEMUs and kernels for them.

use crate::args::Format;
use crate::commands::board_terminal::Terminal;
use crate::fail::Failure;
use crate::print::print;
use serde::Serialize;
use solocore_board::archive::Archive;
use solocore_board::cache::Cache;
use solocore_board::{BoardError, find_board, kernel, qemu};
use solocore_model::files;
use solocore_model::platform::{PRESETS, Platform};
use std::fmt::Write;
use std::process::ExitCode;

#[derive(Serialize)]
struct List {
    boards: Vec<Board>,
    cache: String,
    qemu: Vec<String>,
    kernels: Vec<String>,
    archive: Option<String>,
    /// Null where the archive cannot be reached.
    available_kernels: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Board {
    name: String,
    title: String,
    cores: u32,
    frequency: String,
    l1d: String,
    l2: Option<String>,
    llc: String,
    dram: String,
}

/// Prints the list.
pub fn run(format: Format) -> Result<ExitCode, Failure> {
    let list = gather(format)?;
    print(&if format == Format::Json { files::to_json(&list) } else { text(&list) })?;
    Ok(ExitCode::SUCCESS)
}

fn gather(format: Format) -> Result<List, Failure> {
    let boards = PRESETS
        .iter()
        .map(|(name, _)| Ok(board(find_board(name)?)))
        .collect::<Result<_, Failure>>()?;
    let cache = Cache::find()?;
    let archive = Archive::find().ok();
    let scratch = tempfile::tempdir()
        .map_err(|e| Failure::Machine(format!("no temporary directory: {e}; set TMPDIR")))?;
    let available =
        archive.as_ref().map(|a| kernel::available(a, scratch.path(), &mut Terminal::new(format)));
    let available = match available {
        Some(Ok(versions)) => Some(versions),
        Some(Err(BoardError::Interrupted)) => return Err(Failure::Interrupted),
        _ => None,
    };
    Ok(List {
        boards,
        cache: cache.root().display().to_string(),
        qemu: qemu::cached(&cache).into_iter().map(|q| q.version).collect(),
        kernels: kernel::cached(&cache),
        archive: archive.as_ref().map(|a| a.address().to_owned()),
        available_kernels: available,
    })
}

fn board(p: Platform) -> Board {
    let d = &p.dram;
    Board {
        cores: p.cores,
        frequency: p.frequency.to_string(),
        l1d: format!("{}, {} ways", p.l1d.size, p.l1d.ways),
        l2: p.l2.as_ref().map(|l| format!("{}, {} ways", l.size, l.ways)),
        llc: format!("{}, {} ways", p.llc.size, p.llc.ways),
        dram: format!("{} x {} x {} banks, {}", d.channels, d.ranks, d.banks, d.capacity),
        name: p.name,
        title: p.title,
    }
}

fn text(list: &List) -> String {
    let mut rows = vec![
        ["board", "cores", "clock", "L1 data", "L2", "shared cache", "DRAM"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for b in &list.boards {
        let l2 = b.l2.clone().unwrap_or_else(|| "-".to_owned());
        rows.push(vec![
            b.name.clone(),
            b.cores.to_string(),
            b.frequency.clone(),
            b.l1d.clone(),
            l2,
            b.llc.clone(),
            b.dram.clone(),
        ]);
    }
    let mut out = crate::table::render(&rows);
    let joined =
        |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let _ = writeln!(out, "\nkept in {}", list.cache);
    let _ = writeln!(out, "  QEMU: {} (tested: {})", joined(&list.qemu), qemu::TESTED);
    let _ = writeln!(out, "  kernels: {} (tested: {})", joined(&list.kernels), kernel::TESTED);
    let _ = match &list.available_kernels {
        Some(kernels) => {
            writeln!(
                out,
                "kernels at {}: {}",
                list.archive.as_deref().unwrap_or("the archive"),
                joined(kernels)
            )
        }
        None => match &list.archive {
            Some(address) => writeln!(out, "{address} cannot be reached"),
            None => writeln!(out, "no archive of Debian is known; name one with SOLOCORE_DEBIAN"),
        },
    };
    out
}
