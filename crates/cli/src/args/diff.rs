//! Arguments of `solocore diff`.

use super::format::Format;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The plan of before (JSON).
    pub old: PathBuf,
    /// The plan of now (JSON).
    pub new: PathBuf,
    /// Let each margin lose up to this many per cent of its deadline.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub allow: u32,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
