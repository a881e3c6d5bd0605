//! Arguments of the commands that act on this machine, or look at it.

use super::format::Format;
use super::given::Given;
use super::isolation::IsolationArgs;
use super::scheduling::SchedulingArgs;
use super::{space, vcpu};
use clap::ValueEnum;
use solocore_linux::host::status::{METRICS, Place};
use solocore_model::{Bandwidth, Time};
use std::path::PathBuf;

/// Event that counts accesses by default.
pub const DEFAULT_EVENT: &str = "llc-misses";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RunEngine {
    /// The first of the others that this machine can run.
    #[default]
    Auto,
    /// A scheduler that gives nothing to a throttled CPU (Linux 6.14 or later with sched_ext).
    SchedExt,
    /// A real-time thread per CPU that occupies it while it is throttled.
    Helper,
}

impl RunEngine {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RunSharing {
    /// Cores that have used their budgets up wait for the next period.
    #[default]
    None,
    /// When all cores have used their budgets up, they go on without limit until the period ends.
    Spare,
    /// When all cores have used their budgets up, each core gets its budget again.
    Proportional,
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Plan (JSON).
    pub plan: PathBuf,
    /// Stop after this time, like "10 s" [default: at Ctrl-C or SIGTERM].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// Engine that keeps tasks off a throttled CPU.
    #[arg(long, value_enum, default_value_t)]
    pub engine: RunEngine,
    /// Event that counts accesses: llc-misses (each CPU type's own event), cache-misses, or a raw
    /// event as perf writes it, like r412e. page-faults is for trials without a counter. With :u at
    /// the end, the kernel's accesses do not count.
    #[arg(long, default_value = DEFAULT_EVENT, value_name = "NAME")]
    pub event: String,
    /// Event that counts writes, named as for --event. The plan's budgets of writes use it; in a
    /// plan without them, writes are counted only if this option is given [default: the CPU's own
    /// event of write-backs, where it has one].
    #[arg(long, value_name = "NAME")]
    pub write_event: Option<String>,
    /// Do not enforce the plan's budgets of writes. Each core then has its whole budget for the
    /// accesses that --event counts.
    #[arg(long)]
    pub no_write_budgets: bool,
    /// Accesses per interrupt [default: about an eighth of each budget].
    #[arg(long, value_name = "N")]
    pub sample: Option<u64>,
    /// Let cores use budget that others are not expected to need. A plan with reclaim = true does
    /// so by itself; the bounds of other plans do not cover this.
    #[arg(long)]
    pub reclaim: bool,
    /// Use of the time that is left in a period when all budgets are used up. With `none`, the
    /// plan's own rule holds. The bounds of a plan without `sharing` do not cover the other two.
    #[arg(long, value_enum, default_value_t)]
    pub share: RunSharing,
    /// Group of users who may, beside root, hold the bandwidth lock (a plan with policy =
    /// "bwlock"), signal jobs and attach as transfers.
    #[arg(long, default_value = "solocore", value_name = "GROUP")]
    pub group: String,
    /// Longest time for which a section that holds the bandwidth lock counts; "0 s": no limit.
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    pub max_hold: Time,
    /// Check everything, say what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Have the solocore that runs go over to this plan, which may differ from its present one in
    /// budgets, and with --resctrl in ways. The run goes on with its options. A refused plan
    /// changes nothing.
    #[arg(long)]
    pub replace: bool,
    /// Run even if nobody keeps some promises of the plan. The run then repeats no verdict that
    /// rests on these promises.
    #[arg(long)]
    pub partial: bool,
    /// Declare that you keep this promise yourself: its id or subject, like prefetchers or
    /// banks:core-2. May be repeated.
    #[arg(long = "vouch", value_name = "PROMISE")]
    pub vouched: Vec<String>,
    /// Serve metrics to Prometheus at PLACE: the path of a socket, or an address like
    /// 127.0.0.1:9184. Without PLACE, the socket is /run/solocore-metrics.sock. Only root may
    /// connect to a socket.
    #[arg(long, value_name = "PLACE", num_args = 0..=1, default_missing_value = METRICS)]
    pub metrics: Option<Place>,
    /// Write the summary here as well (JSON); `solocore report` draws it.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub isolation: IsolationArgs,
    #[command(flatten)]
    pub scheduling: SchedulingArgs,
    /// Options on the command line.
    #[arg(skip)]
    pub given: Given,
}

#[derive(Debug, clap::Args)]
pub struct ExecArgs {
    /// Hold the bandwidth lock while it runs.
    #[arg(long)]
    pub lock: bool,
    /// Hold the bandwidth lock in this function of the program; the program needs no change. May be
    /// repeated (root).
    #[arg(long = "lock-function", value_name = "NAME", conflicts_with_all = ["lock", "budget", "ways", "vcpu"])]
    pub lock_functions: Vec<String>,
    /// Run it in a VCPU with a budget C of CPU time in each period T, like 6ms/100ms.
    #[arg(long, value_name = "C/T", conflicts_with_all = ["lock", "budget", "ways"], allow_hyphen_values = true)]
    pub vcpu: Option<vcpu::Reservation>,
    /// Keep it on this CPU.
    #[arg(long, value_name = "N")]
    pub core: Option<u32>,
    /// Limit the bandwidth of its core, like "200 MB/s"; needs --core, and no other running
    /// solocore.
    #[arg(long, value_name = "BANDWIDTH", requires = "core", conflicts_with = "lock")]
    pub budget: Option<Bandwidth>,
    /// Give it this number of ways of the shared cache, which no other program may fill (resctrl;
    /// root).
    #[arg(long, value_name = "N", conflicts_with_all = ["lock", "budget"], value_parser = clap::value_parser!(u32).range(1..=63))]
    pub ways: Option<u32>,
    /// If no solocore runs: bandwidth of each other core while the lock is held; needs --lock or
    /// --lock-function.
    #[arg(long, default_value = "100 MB/s", value_name = "BANDWIDTH")]
    pub lock_bandwidth: Bandwidth,
    /// If no solocore runs: the event that counts accesses, as for `solocore run`.
    #[arg(long, default_value = DEFAULT_EVENT, value_name = "NAME")]
    pub event: String,
    /// If no solocore runs: the engine that keeps tasks off a throttled CPU.
    #[arg(long, value_enum, default_value_t)]
    pub engine: RunEngine,
    #[command(flatten)]
    pub colours: space::ColourArgs,
    /// Options on the command line.
    #[arg(skip)]
    pub given: Given,
    /// The program and its arguments.
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

impl RunArgs {
    /// Reads a command line that begins with `run`.
    ///
    /// # Errors
    /// The same as on the command line.
    pub fn of(words: &[std::ffi::OsString]) -> Result<Self, crate::fail::Failure> {
        let command = <Self as clap::Args>::augment_args(clap::Command::new("run"));
        let matches = command.try_get_matches_from(words);
        matches
            .and_then(|m| <Self as clap::FromArgMatches>::from_arg_matches(&m))
            .map_err(|e| crate::fail::Failure::Input(e.to_string()))
    }
}

#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// Time between two snapshots, at least 10 ms, like "1 s".
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    pub every: Time,
    /// Print N snapshots as tables, then exit [default: until Ctrl-C].
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Print tables on a terminal as well, as into a pipe.
    #[arg(long)]
    pub plain: bool,
    /// Format of the output. With json, one snapshot of the whole run is printed, and --every and
    /// --count have no effect.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Test this event as well.
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Say which part would keep each promise of this plan here, if its tasks were started.
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
