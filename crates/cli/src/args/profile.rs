//! Arguments of `solocore profile`.

use super::given::Given;
use clap::ValueEnum;
use solocore_model::Time;
use solocore_model::system::Job;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// QEMU user-mode emulation; needs no counters and no privileges.
    #[default]
    Qemu,
    /// Counters of this machine. Where they show more than the emulator, the profile has the larger
    /// number.
    Perf,
}

#[derive(Debug, clap::Args)]
pub struct ProfileArgs {
    /// Board whose caches are modelled: a preset or a platform file [default: p4080; with --engine
    /// perf this machine, as `solocore platform detect` sees it].
    #[arg(long)]
    pub platform: Option<String>,
    /// The core that runs the task. The profile is then for the private caches of its core type
    /// only, and for tasks with this `core` [default: any core, the worst over all core types].
    #[arg(long, value_name = "CORE")]
    pub core: Option<u32>,
    /// The engine that counts.
    #[arg(long, value_enum, default_value_t)]
    pub engine: Engine,
    /// Write the profile here [default: PROGRAM.profile.json]; the trace lies beside it.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Largest number of shared-cache accesses to record for the simulator.
    #[arg(long, default_value_t = solocore_profile::TRACE_LIMIT)]
    pub trace_limit: u64,
    /// Arguments to add to the command, one quoted text for each input, like "a.pgm"; split as a
    /// shell does. Each input is a run, and the profile has the worst per quantity. May be
    /// repeated.
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub input: Vec<String>,
    /// End the program after this time, like "60 s", and write nothing.
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Time>,
    #[command(flatten)]
    pub counting: Counting,
    /// Raise the profile of a task to the times in the result of a run of its plan (FILE of
    /// `solocore run -o` or `solocore sim -o`). Needs --plan and --task.
    #[arg(long, value_name = "FILE", requires_all = ["plan", "task"], conflicts_with_all = ["command", "engine"])]
    pub from: Option<PathBuf>,
    /// The plan that ran, with its profiles.
    #[arg(long, value_name = "PLAN", requires = "from")]
    pub plan: Option<PathBuf>,
    /// The task in that plan.
    #[arg(long, value_name = "NAME", requires = "from")]
    pub task: Option<String>,
    /// Options on the command line.
    #[arg(skip)]
    pub given: Given,
    /// Program and arguments.
    #[arg(last = true, required_unless_present = "from", value_name = "CMD")]
    pub command: Vec<String>,
}

/// Options of `--engine perf`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "With --engine perf")]
pub struct Counting {
    /// Number of measured jobs for each input. With --job, the program is started again until it
    /// has run this number of jobs.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub jobs: u32,
    /// The CPU that the jobs run on. With core types the profile is then for cores of its type only
    /// [default: the last one; with --core, the last one of that core's type].
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// The event that counts accesses to memory: llc-misses, or rHEX as perf writes it [default:
    /// llc-misses; where this CPU has no such counter, page-faults as a substitute].
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// The event that counts lines written back to memory, as rHEX [default: the table's].
    #[arg(long, value_name = "EVENT")]
    pub write_event: Option<String>,
    /// A profile that the emulator has made of the same command for the same caches; without it the
    /// emulator runs first.
    #[arg(long, value_name = "PROFILE")]
    pub base: Option<PathBuf>,
    /// Kind of a job: "process", a start of the program; "function:NAME", a call of a function; or
    /// "wakeup", from one sleep of the program's first thread to the next. The emulator's numbers
    /// stay those of a whole start.
    #[arg(long, value_name = "JOB", default_value = "process", value_parser = Job::of)]
    pub job: Job,
    /// Start the program once more for each input, and sample the addresses of its accesses to
    /// memory: one of PERIOD events (0: a period that suits the event). If the CPU samples no
    /// addresses, page faults are the substitute.
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub sample_addresses: Option<u64>,
    /// Keep the cache contents of the previous job, instead of sweeping the caches before each job.
    #[arg(long)]
    pub warm: bool,
}
