//! `solocore restore`: undoes the changes that a killed run left.

use crate::args::Format;
use crate::fail::Failure;
use crate::print::print;
use serde::Serialize;
use solocore_linux::Instance;
use solocore_linux::host::keeper;
use solocore_model::files;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report {
    format: &'static str,
    /// Number of runs that had left changes.
    runs: usize,
    /// Number of settings and threads that they had changed.
    entries: usize,
    /// Number of these that could not be put back.
    failed: usize,
}

/// Undoes them; exit code 3 if some change cannot be undone.
pub fn run(format: Format) -> Result<ExitCode, Failure> {
    let _instance = Instance::take()?;
    let restored = keeper::restore()?;
    let (runs, entries, failed) = (restored.journals, restored.entries, restored.failed);
    if format == Format::Json {
        print(&files::to_json(&Report { format: "solocore-restore/1", runs, entries, failed }))?;
    } else if runs == 0 {
        print("no settings were left to put back\n")?;
    } else {
        print(&format!(
            "put back {} of {entries} changes of {runs} runs\n",
            entries - failed.min(entries)
        ))?;
    }
    Ok(ExitCode::from(if failed > 0 { 3 } else { 0 }))
}
