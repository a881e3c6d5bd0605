//! `solocore restore`: what a killed run left is put back.

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
    /// Runs that had left something.
    runs: usize,
    /// Settings and threads that they had changed.
    entries: usize,
    /// Number of these that could not be put back.
    failed: usize,
}

/// Puts it back; exit code 3 if something refuses.
pub fn run(format: Format) -> Result<ExitCode, Failure> {
    let _instance = Instance::take()?;
    let restored = keeper::restore()?;
    let (runs, entries, failed) = (restored.journals, restored.entries, restored.failed);
    if format == Format::Json {
        print(&files::to_json(&Report { format: "solocore-restore/1", runs, entries, failed }))?;
    } else if runs == 0 {
        print("nothing was left to be put back\n")?;
    } else {
        print(&format!(
            "put back {} of {entries} changes of {runs} runs\n",
            entries - failed.min(entries)
        ))?;
    }
    Ok(ExitCode::from(if failed > 0 { 3 } else { 0 }))
}
