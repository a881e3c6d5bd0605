//! `solocore compare`.

use super::enemy::Enemy;
use super::{DEFAULT_EVENT, Format, RunEngine};
use solocore_model::{Bandwidth, Bytes};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// Runs in each of the three cases.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// The core of the program [default: the last; enemies run on all others].
    #[arg(long, value_name = "N")]
    pub core: Option<u32>,
    /// Kind of enemies.
    #[arg(long, value_enum, default_value_t)]
    pub enemy: Enemy,
    /// Bank functions, as `solocore space map` writes them, for --enemy bank.
    #[arg(long, value_name = "FILE", required_if_eq("enemy", "bank"))]
    pub map: Option<PathBuf>,
    /// Memory of each enemy [default: twice the last-level cache].
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Bandwidth of each other core beside the protected program.
    #[arg(long, default_value = "100 MB/s", value_name = "BANDWIDTH")]
    pub lock_bandwidth: Bandwidth,
    /// Event that counts accesses, as for `solocore run`.
    #[arg(long, default_value = DEFAULT_EVENT, value_name = "NAME")]
    pub event: String,
    /// Engine that keeps enemies off a throttled CPU.
    #[arg(long, value_enum, default_value_t)]
    pub engine: RunEngine,
    /// Write the times here as well, as JSON.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Measure under the lock of a running solocore, and write the times here.
    #[arg(long, hide = true, value_name = "FILE")]
    pub protected_into: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    pub command: Vec<OsString>,
}
