//! `solocore verify`.

use super::enemy::Enemy;
use super::scheduling::RunScheduler;
use super::{DEFAULT_EVENT, Format, RunEngine};
use solocore_model::{Bytes, Time};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Plan (JSON).
    pub plan: PathBuf,
    /// Jobs of each task in each of the three cases.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub jobs: u64,
    /// Jobs beside each kind of enemy, to find the one that hurts most.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub search_jobs: u64,
    /// Only this task; may be repeated [default: all analysed tasks that have a command].
    #[arg(long = "task", value_name = "NAME")]
    pub tasks: Vec<String>,
    /// Only this kind of enemy; may be repeated [default: all that this machine can have].
    #[arg(long = "enemy", value_enum)]
    pub enemies: Vec<Enemy>,
    /// Memory of each enemy [default: twice the last-level cache].
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Map of this machine's colours and bank functions, as `solocore space map` writes it. The
    /// enemy `bank` needs it, and --colors takes it.
    #[arg(long, value_name = "FILE", required_if_eq("enemies", "bank"))]
    pub map: Option<PathBuf>,
    /// Also put enemies on cores for which the bounds assume only the demand of the plan's tasks.
    /// Enemies may exceed that demand, so a bound may be exceeded.
    #[arg(long)]
    pub everywhere: bool,
    /// Event that counts accesses, as for `solocore run`.
    #[arg(long, default_value = DEFAULT_EVENT, value_name = "NAME")]
    pub event: String,
    /// Engine that keeps tasks off a throttled CPU.
    #[arg(long, value_enum, default_value_t)]
    pub engine: RunEngine,
    /// Scheduler of the plan's tasks, as for `solocore run`.
    #[arg(long, value_enum, default_value_t)]
    pub scheduler: RunScheduler,
    /// Time for which all tasks run at once, as planned, beside each kind of enemy. The default is
    /// --jobs + 1 times the longest period. A plan of budgets with one analysed task on each core
    /// has no such run by default.
    #[arg(long, value_name = "TIME")]
    pub together: Option<Time>,
    /// Accesses per interrupt [default: about an eighth of each budget].
    #[arg(long, value_name = "N")]
    pub sample: Option<u64>,
    /// Have the hardware give each core its ways of the shared cache (resctrl).
    #[arg(long)]
    pub resctrl: bool,
    /// While the plan is enforced, start each program on frames of its core's cache colours and
    /// DRAM banks, as `solocore run --colors` does. An enemy would lie in any colours. So no enemy
    /// runs then, and the plan's programs run on all other cores, best effort as well.
    #[arg(long, alias = "colours", conflicts_with = "everywhere")]
    pub colors: bool,
    /// Measure even if nobody keeps some promises of the plan.
    #[arg(long)]
    pub partial: bool,
    /// Declare that you keep this promise yourself: its id or subject, like prefetchers or
    /// banks:core-2. May be repeated.
    #[arg(long = "vouch", value_name = "PROMISE")]
    pub vouched: Vec<String>,
    /// Start COMMAND in place of the task's command (split at spaces). May be repeated.
    #[arg(long = "command", value_name = "TASK=COMMAND")]
    pub commands: Vec<String>,
    /// Directory in which commands run [default: the plan's directory].
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Write the result here as well (JSON); `solocore report` draws it.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
