//! Options of commands for colours and banks.

use super::format::Format;
use solocore_model::{Bytes, Time};
use solocore_space::queues::Queues;
use std::path::PathBuf;

/// Sources of colours and banks.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MapArgs {
    /// Map of this machine's colours and bank functions, as `solocore space map` writes it.
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// Preset or platform file; its shared cache gives the colours [default: this machine's, as far
    /// as they are known].
    #[arg(long, value_name = "BOARD")]
    pub platform: Option<String>,
}

/// Frames that a program may have.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Colours and banks")]
pub struct ColourArgs {
    /// Keep its pages in these cache colours, like 0-7.
    #[arg(long = "colors", alias = "colours", value_name = "LIST")]
    pub colours: Option<String>,
    /// Keep its pages in these DRAM banks, like 2,3; needs a map with banks.
    #[arg(long, value_name = "LIST")]
    pub banks: Option<String>,
    #[command(flatten)]
    pub map: MapArgs,
    /// Take colours and banks from the core of --task in this plan.
    #[arg(long, value_name = "PLAN", requires = "task", conflicts_with_all = ["colours", "banks"])]
    pub plan: Option<PathBuf>,
    /// A task of that plan.
    #[arg(long, value_name = "NAME", requires = "plan")]
    pub task: Option<String>,
    /// Memory in its colours that is reserved before it starts; more is reserved on demand.
    #[arg(long, value_name = "SIZE", default_value = "2 MiB")]
    pub pool: Bytes,
    /// Keep its message queues with these POSIX names and System V keys in its frames, like
    /// /frames,0x4d2, or all its queues: `all`; also what goes through its `pipes`, its UNIX
    /// `sockets`, and named pipes: fifo:/PATH.
    #[arg(long, value_name = "NAMES")]
    pub queues: Option<Queues>,
    /// At the end, write the number of its pages in each colour to this file (JSON).
    #[arg(long, value_name = "FILE")]
    pub pages: Option<PathBuf>,
}

impl ColourArgs {
    /// Whether any of these options is given.
    pub fn any(&self) -> bool {
        self.colours.is_some() || self.banks.is_some() || self.plan.is_some()
    }
}

/// `solocore recolor`.
#[derive(Debug, clap::Args)]
pub struct RecolourArgs {
    /// A process of a program that `solocore exec --colors` started.
    pub pid: u32,
    /// Move its pages to these cache colours, like 8-15.
    #[arg(
        long = "colors",
        alias = "colours",
        value_name = "LIST",
        required_unless_present = "banks"
    )]
    pub colours: Option<String>,
    /// Move its pages to these DRAM banks, like 2,3.
    #[arg(long, value_name = "LIST")]
    pub banks: Option<String>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `solocore reserve`.
#[derive(Debug, clap::Args)]
pub struct ReserveArgs {
    /// Hold the frames of these cache colours, like 0-7.
    #[arg(
        long = "colors",
        alias = "colours",
        value_name = "LIST",
        required_unless_present_any = ["banks", "plan"]
    )]
    pub colours: Option<String>,
    /// Hold the frames of these DRAM banks, like 2,3; needs a map with banks.
    #[arg(long, value_name = "LIST")]
    pub banks: Option<String>,
    /// Give programs buffers (sc_buffer) in frames of this plan's tasks. Without --colors and
    /// --banks, hold the frames of all its tasks.
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    #[command(flatten)]
    pub map: MapArgs,
    /// Give the frames back after this time [default: at Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// Leave the page cache and movable pages where they are.
    #[arg(long)]
    pub no_drop: bool,
    /// Format of the report at the end.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `solocore space`.
#[derive(Debug, clap::Subcommand)]
pub enum SpaceCommand {
    /// Find the colours and the bank functions of this machine.
    #[command(
        after_help = "Examples:\n  solocore space map -o map.txt\n  solocore space map --memory \"2 GiB\" -o map.txt\n  solocore space map --no-banks --platform raspberry-pi-4\n\nThe map has one XOR function of a bank per line, as the numbers of its physical address bits. Colours are in comments (`# colour: 12`). Bank functions are found by timing, which needs root and a quiet machine.\nExit code 3: the times do not separate the banks, and nothing is written. This is so in most guests."
    )]
    Map(MapCommand),
    /// Count the pages of a process that lie outside of given colours and banks.
    ///
    /// With --kernel, count all frames of the machine, by colour, bank and use.
    #[command(
        after_help = "Examples:\n  solocore space audit 1234 --colors 0-7\n  solocore space audit \
            1234 --colors 0-7 --banks 2,3 --map map.txt --format json\n  solocore space audit \
            --kernel\n  solocore space audit --kernel --colors 0-7 --format json\n\nNeeds root. \
            Exit code 1: private pages of the process lie outside the given colours and banks."
    )]
    Audit(AuditCommand),
}

/// `solocore space map`.
#[derive(Debug, clap::Args)]
pub struct MapCommand {
    /// Write the map here [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Memory to look at. A function of address bits that are the same in all of it is not found.
    #[arg(long, value_name = "SIZE", default_value = "1 GiB")]
    pub memory: Bytes,
    /// Only the colours, without timing anything.
    #[arg(long)]
    pub no_banks: bool,
    /// Preset or platform file; its shared cache gives the colours [default: this machine's, as far
    /// as they are known].
    #[arg(long, value_name = "BOARD")]
    pub platform: Option<String>,
    /// Seed of the addresses and the samples.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `solocore space audit`.
#[derive(Debug, clap::Args)]
pub struct AuditCommand {
    /// Number of the process.
    #[arg(required_unless_present = "kernel", conflicts_with = "kernel")]
    pub pid: Option<u32>,
    /// Count all frames of the machine: free ones, programs', files' and the kernel's.
    #[arg(long)]
    pub kernel: bool,
    /// The cache colours that it should have, like 0-7; with --kernel, colours to count apart.
    #[arg(
        long = "colors",
        alias = "colours",
        value_name = "LIST",
        required_unless_present_any = ["banks", "kernel"]
    )]
    pub colours: Option<String>,
    /// The DRAM banks that it should have, like 2,3; with --kernel, banks to count apart.
    #[arg(long, value_name = "LIST")]
    pub banks: Option<String>,
    #[command(flatten)]
    pub map: MapArgs,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
