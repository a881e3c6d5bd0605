//! Options of `solocore board`.

use super::format::Format;
use clap::{Subcommand, ValueEnum};
use solocore_board::guest::Request;
use solocore_board::{Counters, Model, Prefetcher};
use solocore_model::Time;
use solocore_model::units::Bytes;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum BoardCommand {
    /// Boot a board, run a program on it, and turn it off.
    #[command(
        after_help = "Examples:\n  solocore board run core-i5-2500k -- ./detect a.pgm\n  solocore board run core-i5-2500k --share plans --out results -- sh -c \"solocore run plans/a.json --start --partial -o /out/run.json\"\n  solocore board run my-board.toml --cpus 2 --model on --format json -- ./detect a.pgm\n\nThe guest has copies of the program, of the files that its arguments name, of the libraries that they need, and of the files that --share names, at the same paths. The program runs in a directory with the path of the current one. The guest can change nothing of the host; with --out, its files in /out are copied back.\nThe first run fetches QEMU and a kernel from Debian's archive (docs/board.md). The exit code is the program's. Exit code 3: the board could not be started, or the guest failed."
    )]
    Run(RunArgs),
    /// Boot a board with a shell on this terminal, until `exit`.
    #[command(after_help = "Examples:\n  solocore board shell core-i5-2500k --share . --out \
            results\n  solocore board shell core-i5-2500k < script\n\nCtrl-C goes to the guest. Ctrl-A \
            x ends the guest, even if it hangs.\nA shell whose input is a pipe or a file prints no \
            prompt, and ends with its input.")]
    Shell(ShellArgs),
    /// List boards, and the QEMUs and kernels that are here or can be fetched.
    List {
        /// Format of the output.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Inside a guest: send a request to the board.
    #[command(after_help = "Examples, in a script that `board run` runs:\n  solocore board ask \
            model-off\n  solocore board ask snapshot before\n\nExit code 3: this machine is not \
            the guest of a board.")]
    Ask {
        /// The request.
        #[arg(value_enum)]
        what: Request,
        /// With `snapshot`: the label at the end of the file's name, at most 8 characters.
        #[arg(default_value = "")]
        label: String,
    },
    /// First process of a board's guest.
    #[command(hide = true)]
    Guest,
}

/// A feature that is on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// They do.
    #[default]
    On,
    /// They do not.
    Off,
}

/// Options that `run` and `shell` share.
#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// The board: a preset or a platform file.
    #[arg(value_name = "BOARD")]
    pub board: String,
    /// The kernel's version, like 7.0.13 or 7.0.13-rt [default: 6.19.14, or the newest suitable one
    /// where the archive no longer has it].
    #[arg(long, value_name = "V")]
    pub kernel: Option<String>,
    /// CPUs of the guest [default: the board's cores].
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory of the guest, like "2 GiB" or 2G.
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = memory)]
    pub memory: Bytes,
    /// Time during which the memory model computes. Without it every reference takes the same time,
    /// and the board runs faster.
    #[arg(long, value_enum, default_value_t)]
    pub model: Model,
    /// Prefetchers of the caches.
    #[arg(long, value_enum, default_value_t)]
    pub prefetcher: Prefetcher,
    /// Whether reads of page tables go through the caches. With off, the board runs faster.
    #[arg(long, value_enum, default_value_t)]
    pub page_walks: Switch,
    /// Type of the CPU counters that the guest finds.
    #[arg(long, value_enum, default_value_t)]
    pub counters: Counters,
    /// The guest can share out the shared cache and its bandwidth (resctrl).
    #[arg(long)]
    pub allocation: bool,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Copy this file or directory into the guest, at the same path; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub share: Vec<PathBuf>,
    /// Copy the files that the guest wrote to /out into this directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// End the run after this time, boot included.
    #[arg(long, value_name = "T", default_value = "60 min")]
    pub time_limit: Time,
    /// Write the messages of the kernel and of QEMU to this file.
    #[arg(long, value_name = "FILE")]
    pub console: Option<PathBuf>,
    /// Write all counts of the board to this file, with those of each frame of memory. Snapshots
    /// lie beside it, as FILE.LABEL.
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// Format of the output. With json, the program's output goes to stderr.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Program and arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct ShellArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Reads a size with its unit, or in the form of QEMU: 768M, 2G.
fn memory(text: &str) -> Result<Bytes, String> {
    let of_qemu =
        text.strip_suffix('M').map(|n| (n, 20)).or_else(|| text.strip_suffix('G').map(|n| (n, 30)));
    if let Some((number, shift)) = of_qemu
        && let Ok(n) = number.trim().parse::<u64>()
        && n < 1 << 20
    {
        return Ok(Bytes(n << shift));
    }
    text.parse()
}
