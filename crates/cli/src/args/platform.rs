//! Options of `solocore platform`.

use super::format::Format;
use clap::Subcommand;
use solocore_model::Time;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum PlatformCommand {
    /// Describe this machine, or another from copies of its files, as a platform file.
    ///
    /// Each number has its source beside it: read, table, or assumed with a way to learn it.
    #[command(
        after_help = "Examples:\n  sudo solocore platform detect -o machine.toml\n  solocore \
            platform detect --from board -o board.toml\n  solocore platform detect --cpus 4-5 \
            --format json\n\nNothing is changed or measured. As root, the command also reads the \
            list of memory modules. stderr lists facts that a platform file cannot state, each \
            with the command \
            that changes it (docs/machine.md). Exit code 3: the files of the machine do not state \
            enough."
    )]
    Detect(DetectArgs),
    /// Measure the numbers that no file of this machine states, and put them into a platform file.
    #[command(
        after_help = "Examples:\n  sudo solocore platform measure machine.toml\n  solocore platform \
            measure machine.toml -o measured.toml --only cpi,llc.latency\n  solocore platform \
            measure machine.toml --dry-run --format json --cpu 1\n\nOf each measured interval, \
            the file gets the end that makes bounds larger, with the source \"measured\" beside \
            it. Other keys and comments stay. Ctrl-C, and a number that the memory's timing does \
            not allow, leave \
            the file as it was. As root, the command switches prefetchers off during the \
            measurement, where it can. Run nothing else meanwhile (docs/machine.md). Exit code 2: \
            the file is of another machine; 3: this \
            machine cannot be measured."
    )]
    Measure(MeasureArgs),
    /// Copy the files that `detect` reads, to describe the machine elsewhere.
    #[command(
        after_help = "Examples:\n  sudo solocore platform collect -o board\n  solocore platform \
            collect --script | ssh pi sudo sh -s files && scp -r pi:files board\n\nThe script \
            needs a POSIX shell, but no part of solocore. A copy made by root holds the serial \
            numbers of \
            SMBIOS."
    )]
    Collect(CollectArgs),
    /// List the platforms that come with solocore.
    #[command(
        after_help = "Examples:\n  solocore platform list\n  solocore platform list --format \
            json"
    )]
    List {
        /// Format of the output.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Print a platform file, checked.
    #[command(after_help = "Examples:\n  solocore platform show raspberry-pi-4 >mine.toml\n  \
            solocore platform show ./machine.toml --format json")]
    Show {
        /// A preset, or the path of a file.
        #[arg(value_name = "NAME|FILE")]
        platform: String,
        /// Format of the output. JSON has the derived numbers as well.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Compare a platform file with this machine, and list the keys that differ.
    #[command(
        after_help = "Examples:\n  solocore platform check machine.toml\n  solocore platform \
            check raspberry-pi-4 --from board --format json\n\nOnly facts that the machine \
            reports are compared; latencies and other times are not. Exit code 1: a key differs."
    )]
    Check(CheckArgs),
}

/// The machine to look at.
#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// Look at the files that `collect` or its script copied here [default: this machine].
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// The CPUs to look at, like 0-3 [default: the largest group of CPUs that share a last-level
    /// cache].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct DetectArgs {
    /// Write the platform file here [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Format of the output. JSON has each fact with its source.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct MeasureArgs {
    /// The platform file, as `solocore platform detect -o FILE` wrote it.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the file with the measured numbers here [default: replace FILE].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure only these keys, separated by commas: cpi, l2.latency, llc.latency, pipeline.mshrs,
    /// dram.overhead, dram.latency_max, writes, attack, bandwidth.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The CPUs that the file describes, as for `detect --cpus` [default: the largest group of CPUs
    /// that share a last-level cache].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// The CPU that measures [default: the last of the described ones that this process may use;
    /// with core types, the last of these that has a type].
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Approximate time for all measurements, 1 s to 3600 s.
    #[arg(long, value_name = "TIME", default_value = "60 s")]
    pub time: Time,
    /// Measure and print, and write no file.
    #[arg(long)]
    pub dry_run: bool,
    /// Format of the output. JSON has each key with its interval, samples, and the samples that
    /// were left out.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct CollectArgs {
    /// The directory to write; it must be empty or not exist.
    #[arg(short, long, value_name = "DIR", default_value = "solocore-machine")]
    pub output: PathBuf,
    /// Print a script that does the same without solocore.
    #[arg(long, conflicts_with = "output")]
    pub script: bool,
}

#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// A preset, or the path of a file.
    #[arg(value_name = "NAME|FILE")]
    pub platform: String,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
