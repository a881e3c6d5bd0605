//! Arguments of the commands for studies.

use super::format::Format;
use super::given::Given;
use clap::ValueEnum;
use solocore_analysis::named::Test;
use solocore_model::{Bandwidth, Time};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct ReproduceArgs {
    /// Figures and tables (`sce-fig2`), or papers (`sce`, `bwlock`, `dynamic`, `maracas`, `mc2`).
    #[arg(value_name = "FIGURE")]
    pub figures: Vec<String>,
    /// All figures and tables.
    #[arg(long, conflicts_with = "figures")]
    pub all: bool,
    /// List the figures and tables.
    #[arg(long)]
    pub list: bool,
    /// Directory for the results.
    #[arg(short, long, default_value = "solocore-reproduction", value_name = "DIR")]
    pub output: PathBuf,
    /// Fewer repetitions and shorter runs.
    #[arg(long)]
    pub quick: bool,
    /// Run experiments again that have results already.
    #[arg(long)]
    pub fresh: bool,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run with N seeds, from --seed on; each has a directory seed-K in the output.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: Option<u64>,
    /// Compute on the workers of this Dask scheduler, like tcp://host:8786; the files are the same.
    #[arg(long, alias = "scheduler", value_name = "ADDRESS")]
    pub dask: Option<String>,
    /// Write a page (Markdown) with all verdicts and figures here.
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Path by which the page refers to the directory of the pictures [default: the --output
    /// directory].
    #[arg(long, value_name = "PATH", requires = "page")]
    pub images: Option<String>,
    /// The kind of machine; the page names it beside the date.
    #[arg(long, value_name = "TEXT", requires = "page")]
    pub machine: Option<String>,
    /// Change the set-up so that each claim must fail, and say which does not.
    #[arg(long, hide = true, conflicts_with_all = ["seeds", "page", "dask", "fresh"])]
    pub mutations: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct AttackArgs {
    /// Policies of planning: none, even, anywhere, uneven, optimal, bwlock, held, dynamic, vcpus,
    /// windows, levels [default: all].
    #[arg(value_name = "POLICY")]
    pub policy: Vec<String>,
    /// Only on this board; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub board: Vec<String>,
    /// Systems to try on each board under each policy.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub attacks: u64,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory for the results: POLICY-BOARD.json.
    #[arg(short, long, default_value = "solocore-attack", value_name = "DIR")]
    pub output: PathBuf,
    /// Compute on the workers of this Dask scheduler, like tcp://host:8786; the files are the same.
    #[arg(long, alias = "scheduler", value_name = "ADDRESS")]
    pub dask: Option<String>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct AnalyzeArgs {
    /// The test.
    #[arg(long, value_enum, value_name = "NAME")]
    pub test: Test,
    /// Task sets, one JSON object a line; - reads standard input.
    pub corpus: PathBuf,
    /// Test each set N times more, and print task sets per second (one thread, without parsing) on
    /// stderr.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: Option<u64>,
    /// Add the derivation of each verdict.
    #[arg(long)]
    pub explain: bool,
    /// Format of the answers: JSON, one object a line, or text.
    #[arg(long, value_enum, default_value = "json")]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct ScheduleIoArgs {
    /// Partitions, chains and devices (TOML).
    pub instance: PathBuf,
    /// Write the table here (JSON, one activity per line).
    #[arg(short, long, value_name = "TABLE")]
    pub output: Option<PathBuf>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Give up after this time, like "60 s".
    #[arg(long, default_value = "60 s", value_name = "TIME")]
    pub time_limit: Time,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct CheckIoArgs {
    /// Partitions, chains and devices (TOML), or a system file with partitions.
    pub instance: PathBuf,
    /// The table, or the plan of that system (JSON).
    pub table: PathBuf,
    /// Also execute the table this number of times, with jitter within the margins.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub executions: u64,
    /// Seed of the jitter.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DramPattern {
    /// One dependent random read at a time.
    Chase,
    /// One dependent sequential read at a time.
    ChaseStream,
    /// Uniform over all lines of 8 GiB, memoryless arrivals at the offered load.
    Random,
    /// Four sequential streams in turn, memoryless arrivals at the offered load.
    Stream4,
    /// A victim with one random-row read at a time, and attackers; latencies are the victim's.
    Attack,
}

#[derive(Debug, clap::Args)]
pub struct DramArgs {
    /// Memory: a preset (ddr3-1066, ddr3-1333, ddr4-2400, ddr5-4800, lpddr4-3200) or a file of that
    /// form.
    #[arg(long, default_value = "ddr3-1333")]
    pub memory: String,
    /// Channels, in place of the memory's.
    #[arg(long)]
    pub channels: Option<u32>,
    /// Ranks of a channel, in place of the memory's.
    #[arg(long)]
    pub ranks: Option<u32>,
    /// Pattern of the requests.
    #[arg(long, value_enum)]
    pub pattern: DramPattern,
    /// Offered load; only with --pattern random or stream4.
    #[arg(long, default_value = "5 GB/s")]
    pub load: Bandwidth,
    /// Share of writes of random and stream4, 0 to 1.
    #[arg(long, default_value_t = 0.0)]
    pub writes: f64,
    /// Requests; those of the victim in an attack.
    #[arg(long, default_value_t = 1_000_000)]
    pub requests: u64,
    /// Seed of addresses and arrivals.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of younger row hits that may pass an older request of their bank; off: no limit.
    #[arg(long, default_value = "4", value_name = "N|off")]
    pub row_hit_cap: String,
    /// Attackers.
    #[arg(long, default_value_t = 1)]
    pub attackers: u16,
    /// Requests that each attacker keeps outstanding.
    #[arg(long, default_value_t = 16)]
    pub outstanding: u16,
    /// Attackers in the victim's bank; without it, each in another.
    #[arg(long)]
    pub same_bank: bool,
    /// Attackers read random rows; without it, row after row from end to end.
    #[arg(long)]
    pub random_rows: bool,
    /// Write every command here: cycle,command,channel,rank,bank,row.
    #[arg(long, value_name = "FILE")]
    pub trace_commands: Option<PathBuf>,
    /// Check every command against the timing rules; exit code 1 if one is broken.
    #[arg(long)]
    pub check: bool,
    /// Options on the command line.
    #[arg(skip)]
    pub given: Given,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct StudyArgs {
    /// Choices of Table 3, like "C-Light,Long,Light,Quick,Small,High,Many"; * stands for any. May
    /// be repeated.
    #[arg(long, value_name = "CHOICES")]
    pub scenario: Vec<String>,
    /// All 648 scenarios.
    #[arg(long, conflicts_with = "scenario")]
    pub all: bool,
    /// Schemes, separated by commas; all stands for the paper's nine and O|opt [default: the
    /// paper's nine].
    #[arg(long, value_name = "LIST")]
    pub schemes: Option<String>,
    /// System utilizations, FROM:TO:STEP [default: 0.2:8:0.2].
    #[arg(long, value_name = "RANGE")]
    pub utilization: Option<String>,
    /// Seed of all systems [default: 1].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Ranges of generator and cost model [default: those that come with solocore].
    #[arg(long, value_name = "FILE")]
    pub parameters: Option<PathBuf>,
    /// Go on with the study in this directory.
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Only every N-th scenario, from the K-th on.
    #[arg(long, value_name = "K/N")]
    pub shard: Option<String>,
    /// Run again with each assumed range multiplied by 0.5 and by 1.5, and list the figures that
    /// change.
    #[arg(long, conflicts_with_all = ["resume", "shard", "merge"])]
    pub sensitivity: bool,
    /// Compute on the workers of this Dask scheduler, like tcp://host:8786; the files are the same.
    #[arg(long, alias = "scheduler", value_name = "ADDRESS", conflicts_with_all = ["sensitivity", "merge"])]
    pub dask: Option<String>,
    /// Join the shards in these directories.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["scenario", "all", "schemes", "utilization", "seed", "parameters", "resume", "shard"])]
    pub merge: Vec<PathBuf>,
    /// Directory for the results [default: solocore-study, or the one that is resumed].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
