//! Arguments of `solocore diff`.

use super::format::Format;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The old plan (JSON).
    pub old: PathBuf,
    /// The new plan (JSON).
    pub new: PathBuf,
    /// Let each margin lose up to this many per cent of its deadline.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub allow: u32,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
