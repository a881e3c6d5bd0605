//! Options of `solocore bench costs`.

use crate::commands::bench::output::Output;
use solocore_buffers::caches;
use solocore_model::Bytes;
use std::path::PathBuf;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Repetitions; the median of each cost counts.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub repetitions: u32,
    /// Size of the messages, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub message: u32,
    /// Memory that the measured job reads, and that each other CPU writes [default: twice the
    /// shared cache, from 64 MiB to 512 MiB].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// File on the device whose traffic is measured [default: none, and no costs of DMA].
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Bank functions of this machine, as `solocore space map` writes them, to tell dma_bank from
    /// dma_bus; needs root.
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// Number of other CPUs that access memory meanwhile [default: all].
    #[arg(long, value_name = "N")]
    pub hogs: Option<usize>,
    /// CPU of the measured job [default: the first].
    #[arg(short, long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Output,
}

impl Args {
    /// Memory of the job, and of each thread beside it.
    pub fn memory(&self) -> Bytes {
        let beyond = caches::here().shared_bytes * 2;
        self.size.unwrap_or(Bytes(beyond.clamp(64 << 20, 512 << 20)))
    }
}
