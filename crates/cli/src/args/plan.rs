//! Arguments of the commands that profile, plan, simulate and report.

use super::format::Format;
use clap::ValueEnum;
use solocore_model::Time;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Tasks to cores, and response times on each core.
    Cores,
    /// IMA partitions to windows, with their I/O: the five steps of single-core equivalence.
    Sce,
}

#[derive(Debug, clap::Args)]
pub struct Profiling {
    /// Directory for the profiles that the command makes; nobody else may write to it [default: the
    /// user's cache directory].
    #[arg(long, value_name = "DIR")]
    pub profiles: Option<PathBuf>,
    /// Profile again, even if the program and its files have not changed.
    #[arg(long)]
    pub fresh: bool,
    /// End a profiled program after this time, like "60 s", and the command with it.
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Time>,
}

#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// System description (TOML).
    pub system: PathBuf,
    /// Write the plan here.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Method of planning [default: sce for a system with partitions, else cores].
    #[arg(long, value_enum)]
    pub method: Option<Method>,
    /// Add the derivation of each response time: rule, inputs, intermediate values, and the terms
    /// from the time alone to the bound. For optimal shares, also what the next best core of each
    /// task, the next number of ways of each core, other locked pages, another budget, and one
    /// active core less would cost.
    #[arg(long)]
    pub explain: bool,
    /// Plan with one key of the system file changed, like "task.NAME.period=50 ms", and compare;
    /// the file stays as it is. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub what_if: Vec<String>,
    /// Search for better shares of cache and bandwidth for up to this time, like "10 s" [default:
    /// the search tries a fixed number of candidates, so each machine finds the same plan].
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<Time>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profiling: Profiling,
}

#[derive(Debug, clap::Args)]
pub struct SimArgs {
    /// Plan (JSON), system description (TOML), or scenario (TOML with a [simulation] table).
    pub input: PathBuf,
    /// Run everything together on the plain machine, without the plan's protection.
    #[arg(long, conflicts_with = "solo")]
    pub unmanaged: bool,
    /// Run each task by itself on the plain machine.
    #[arg(long)]
    pub solo: bool,
    /// Simulated time, like "1 s" [default: 1 s, or the scenario's].
    #[arg(long)]
    pub duration: Option<Time>,
    /// Seed of page placement [default: 1, or the scenario's].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Add the timeline of the first TIME to the result, like "50 ms".
    #[arg(long, value_name = "TIME")]
    pub timeline: Option<Time>,
    /// Write the whole timeline here as a Perfetto trace.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write every decision of the scheduler here, for `solocore check-trace`. A plan needs
    /// [levels] or [[vcpu]] for this; a scenario needs a scheduler of kind "vcpu".
    #[arg(long, value_name = "FILE", conflicts_with = "solo")]
    pub sched_trace: Option<PathBuf>,
    /// Write the result here as well.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profiling: Profiling,
}

/// Files that `solocore report` reads in a directory.
pub const RESULTS: [&str; 7] = [
    "plan.json",
    "solo.json",
    "unmanaged.json",
    "managed.json",
    "even.json",
    "run.json",
    "verify.json",
];

#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// A plan and results of `solocore sim`, `run` or `verify` (JSON), or a table of `solocore
    /// schedule-io`. In a directory, these are read: plan.json, solo.json, unmanaged.json,
    /// managed.json, even.json, run.json, verify.json.
    #[arg(required = true)]
    pub results: Vec<PathBuf>,
    /// The page to write.
    #[arg(short, long, default_value = "report.html")]
    pub output: PathBuf,
    /// Heading of the page.
    #[arg(long, default_value = "solocore report")]
    pub title: String,
}

#[derive(Debug, clap::Args)]
pub struct AssessArgs {
    /// System description (TOML).
    pub system: PathBuf,
    /// Directory for the plan, the results and the report.
    #[arg(
        short,
        long,
        default_value = "solocore-out",
        value_name = "DIR",
        conflicts_with = "check"
    )]
    pub output: PathBuf,
    /// Simulated time, like "1 s".
    #[arg(long, default_value = "1 s")]
    pub duration: Time,
    /// Seed of page placement.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Report for each analysed task whether its bound meets the deadline, and whether a simulated
    /// job missed it. Write no plan or report. Use this as a check before a merge.
    #[arg(long)]
    pub check: bool,
    /// With --check: also write the answers as JUnit's XML, with a test case for each task.
    #[arg(long, value_name = "FILE", requires = "check")]
    pub junit: Option<PathBuf>,
    /// With --check: also write the failures as SARIF 2.1.0, with the line of each task.
    #[arg(long, value_name = "FILE", requires = "check")]
    pub sarif: Option<PathBuf>,
    #[command(flatten)]
    pub profiling: Profiling,
}
