//! Options of `solocore init`.

use super::plan::Profiling;
use solocore_model::Time;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// Command line of a task, as one quoted argument, like "xz -k -c file". solocore splits it as
    /// a shell does, and runs it in the directory of the system file.
    #[arg(value_name = "PROGRAM")]
    pub programs: Vec<String>,
    /// The machine: a preset or a platform file [default: this machine, described in machine.toml
    /// beside the system file].
    #[arg(long, value_name = "NAME|FILE")]
    pub platform: Option<String>,
    /// The system file to write.
    #[arg(short, long, value_name = "FILE", default_value = "system.toml")]
    pub output: PathBuf,
    /// Period of every task, like "100 ms" [default: 10 times its time alone, rounded up].
    #[arg(long, value_name = "TIME")]
    pub period: Option<Time>,
    /// Do not run the programs now; `plan` profiles them later. The periods are guesses, and the
    /// programs need not exist yet.
    #[arg(long, conflicts_with_all = ["fresh", "profiles", "timeout"])]
    pub no_profile: bool,
    /// Replace files that exist already.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub profiling: Profiling,
}
