//! The command line.

pub mod isolation;
pub mod latency;
pub mod scheduling;
pub mod space;
pub mod vcpu;

use clap::{Parser, Subcommand, ValueEnum};
use solocore_model::{Bandwidth, Time};
use std::path::PathBuf;

/// What counts as an access where nobody says.
pub const DEFAULT_EVENT: &str = "llc-misses";

const EXIT_CODES: &str = "Exit codes: 0 success, 1 a negative answer (unschedulable, deadline missed), 2 bad input, 3 this machine cannot do it.";

/// Makes every core of a multicore machine behave like a chip of its own.
#[derive(Debug, Parser)]
#[command(name = "solocore", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Learn how a program uses memory.
    #[command(
        after_help = "Examples:\n  solocore profile -- ./tracking a.pgm b.pgm\n  solocore profile --platform imx6q -o t.json -- ./tracking-arm a.pgm b.pgm\n\nThe program's input, output and exit code pass through; the summary goes to stderr."
    )]
    Profile(ProfileArgs),
    /// Decide cores, cache and budgets, and prove that they suffice.
    #[command(
        after_help = "Examples:\n  solocore plan system.toml\n  solocore plan system.toml -o plan.json --format json\n  solocore plan examples/ima-sce/system.toml --method sce --explain"
    )]
    Plan(PlanArgs),
    /// Run a plan on a simulated board.
    #[command(
        after_help = "Examples:\n  solocore sim plan.json --duration \"2 s\"\n  solocore sim system.toml --unmanaged --format json\n  solocore sim plan.json --sched-trace t.csv && solocore check-trace t.csv"
    )]
    Sim(SimArgs),
    /// Draw a plan and its measurements as one HTML page.
    #[command(
        after_help = "Examples:\n  solocore report plan.json solo.json unmanaged.json managed.json -o report.html\n  solocore report out/ -o report.html\n  solocore report table.json -o table.html   # of schedule-io"
    )]
    Report(ReportArgs),
    /// All of it: profile, plan, simulate alone, unmanaged and managed, and report.
    #[command(after_help = "Example:\n  solocore assess examples/vision/system.toml -o out")]
    Assess(AssessArgs),
    /// Test the task sets of a corpus for schedulability.
    #[command(
        after_help = "Examples:\n  solocore analyze --test fp-rta corpus.jsonl\n  zcat corpus.jsonl.gz | solocore analyze --test gedf -\n  solocore analyze --test edf --explain --format text corpus.jsonl\n  solocore analyze --test fp-rta --repeat 100 corpus.jsonl >/dev/null\n\nA line of the corpus: {\"cores\": 1, \"tasks\": [{\"wcet\": 1, \"period\": 4, \"deadline\": 4}, ...]}, in one integer unit, tasks in priority order.\nIts answer: {\"schedulable\": true, \"response\": [1, ...]}; null where the test has no bound. A response may exceed its deadline.\nWith tardiness, \"tardiness\" takes the place of \"response\", and schedulable means that all are 0.\nBlank lines are skipped. A line without an answer gets {\"error\": \"line 17: ...\", \"line\": 17} in its place.\n\nExit codes: 0 all lines have an answer (an unschedulable set is an answer), 2 some have none, or bad usage."
    )]
    Analyze(AnalyzeArgs),
    /// Find conflict-free offsets for IMA partitions and their I/O.
    #[command(
        after_help = "Examples:\n  solocore schedule-io examples/ima-sce/instance.toml\n  solocore schedule-io instance.toml -o table.json --time-limit \"5 min\"\n  solocore schedule-io instance.toml --format json --seed 2\n\nSame instance and seed, same answer, on any machine; the time limit only decides whether there is one.\nExit code 1: there is no table, or none was found; the answer says which, and why."
    )]
    ScheduleIo(ScheduleIoArgs),
    /// Check a table of schedule-io against its instance, by unrolling.
    #[command(
        after_help = "Examples:\n  solocore check-io instance.toml table.json\n  solocore check-io instance.toml table.json --executions 100 --seed 7 --format json\n  solocore check-io system.toml plan.json\n\nExit code 1: a rule is broken; the first violation is shown, with both activities, their lines and the time."
    )]
    CheckIo(CheckIoArgs),
    /// Run synthetic traffic through the DRAM model alone.
    #[command(
        after_help = "Examples:\n  solocore dram --memory ddr3-1333 --pattern random --load \"5 GB/s\" --writes 0.333\n  solocore dram --memory lpddr4-3200 --pattern chase --format json\n  solocore dram --pattern stream4 --check --trace-commands commands.csv\n  solocore dram --pattern attack --attackers 1 --outstanding 16 --same-bank --row-hit-cap off\n\nLatencies run from the arrival at the controller to the data, of reads only; there are no caches.\nSame arguments, same figures, on any machine; wall_ns aside."
    )]
    Dram(DramArgs),
    /// Run the papers' experiments on simulated boards, with a verdict on each claim.
    #[command(
        after_help = "Examples:\n  solocore reproduce --list\n  solocore reproduce sce-fig2 -o out\n  solocore reproduce maracas --quick\n  solocore reproduce --all --page docs/reproduction.md\n\nEach writes ID.csv, ID.svg and ID.json. What an earlier run left in the directory, with the same\nscale and seed, is kept: an interrupted run goes on where it was. Exit code 1: a claim does not hold."
    )]
    Reproduce(ReproduceArgs),
    /// Run the MC2 schedulability study: the share of random task systems that each scheme can schedule.
    #[command(
        after_help = "Examples:\n  solocore study --all -o study\n  solocore study --scenario \"C-Light,Short,Medium,Slow,Large,High,Many\" -o one\n  solocore study --scenario \"*,Long,*,Slow,*,High,*\" --schemes \"C|C,O|C,O|opt\" --utilization 1:4:0.1 -o some\n  solocore study --resume study\n  solocore study --all --shard 1/4 -o part1\n  solocore study --merge part1 part2 part3 part4 -o whole\n\nWrites points.csv, sua.csv, sua_by_scenario.csv, observations.csv and a plot (SVG) per scenario. An interrupted\nstudy keeps its points; --resume goes on where it was. The same seed gives the same files on any machine.\nRAYON_NUM_THREADS limits the threads."
    )]
    Study(StudyArgs),
    /// Regulate this machine as a plan says, until Ctrl-C.
    #[command(
        after_help = "Examples:\n  solocore run plan.json\n  solocore run plan.json --duration \"10 s\" --format json -o run.json\n  solocore run plan.json --dry-run\n  solocore run plan.json --event page-faults --engine helper\n\nNeeds root. When it ends, however it ends, the machine is as it was. The plan's core i is CPU i.\nExit code 3: this machine is not the plan's, lacks something, or is regulated already; nothing was changed."
    )]
    Run(RunArgs),
    /// Run a program under the bandwidth lock, on a core of its own, within a bandwidth, in a VCPU, or in cache colours and banks of its own.
    #[command(
        after_help = "Examples:\n  solocore exec --lock -- ./detect a.pgm\n  solocore exec --lock --core 2 -- ./detect a.pgm\n  solocore exec --core 3 --budget \"200 MB/s\" -- make\n  solocore exec --ways 4 --core 2 -- ./detect a.pgm\n  solocore exec --vcpu 6ms/100ms -- ./detect a.pgm\n  solocore exec --colors 0-7 -- ./detect a.pgm\n  solocore exec --colors 0-7 --banks 2,3 --map map.txt -- ./detect a.pgm\n\nThe program's input, output and exit code pass through. With --lock, whenever the program or a descendant of it runs, the other\ncores may do for tasks that are not real-time only what the running plan allows beside a lock; where no solocore runs, root\nregulates for as long as the program takes. With --colors or --banks its pages, and those of what it starts, are moved to such\nframes before it begins, and later ones come from them; how many lie elsewhere at the end goes to stderr (docs/space.md). Exit code 3: it is not allowed, or this machine cannot do it."
    )]
    Exec(ExecArgs),
    /// Give threads a share of a core in every period, whatever else runs: VCPUs.
    #[command(
        after_help = "Examples:\n  solocore vcpu serve --vcpu video=6ms/20ms --vcpu audio=1ms/5ms@1\n  solocore vcpu create control 2ms/10ms --pid 4711\n  solocore vcpu list\n  solocore vcpu move control 2\n  solocore exec --vcpu 6ms/100ms -- ./detect a.pgm\n\nNeeds root and a kernel with sched_ext. A VCPU that does not fit is refused, and nothing changes. When `serve` ends, however it\nends, the kernel's own scheduler goes on with every thread."
    )]
    Vcpu(vcpu::VcpuArgs),
    /// Check a trace of scheduling decisions: each followed from the policy, and the promises were kept.
    #[command(
        after_help = "Examples:\n  solocore vcpu serve --vcpu video=6ms/20ms --duration \"10 s\" --sched-trace t.csv && solocore check-trace t.csv\n  solocore run plan.json --duration \"10 s\" --sched-trace t.csv && solocore check-trace t.csv\n  solocore sim plan.json --sched-trace t.csv && solocore check-trace t.csv --format json\n\nExit code 1: a rule is broken; the first violation is shown, with its time, core and numbers."
    )]
    CheckTrace(scheduling::CheckTraceArgs),
    /// Move a program that runs in its colours to others.
    #[command(
        after_help = "Examples:\n  solocore recolor 1234 --colors 8-15\n  solocore recolor 1234 --colors 8-15 --banks 0,1 --format json\n\nMoves the program that `solocore exec --colors` started, with all its processes, while it runs; new pages come from\nthe new colours. Exit code 1: some pages could not be moved. Exit code 3: it was not started in colours."
    )]
    Recolor(space::RecolorArgs),
    /// Cache colours and DRAM banks of this machine, and where a process's pages lie.
    #[command(subcommand)]
    Space(space::SpaceCommand),
    /// Say what this machine can do, what it lacks, and how to get it.
    #[command(
        after_help = "Examples:\n  solocore doctor\n  solocore doctor --event r412e --format json\n\nExit code 0: `solocore run` can run here, by the counter or by what stands in for it; 1: it cannot."
    )]
    Doctor(DoctorArgs),
    /// Watch what a running `solocore run` does.
    #[command(
        after_help = "Examples:\n  solocore top\n  solocore top --every \"100 ms\" --count 10\n\nNeeds root. Figures are those of the time since the last look; `most` is that of the whole run."
    )]
    Top(TopArgs),
    /// Show how long requests to memory take, how many each CPU makes, and what would be throttled.
    #[command(
        after_help = "Examples:\n  solocore latency --every \"100 ms\" --count 20\n  solocore latency --calibrate\n  solocore latency --threshold 150 --event page-faults\n  solocore latency --rule rate --threshold 2000000\n  solocore latency --source probe --cpu 1 --rate 1000 --format json --count 50\n\nCounters of the memory controller tell the latency where the machine has them and root asks; else a probe does: timed loads\nfrom lines that no cache holds. --threshold only says what Algorithm 1 of MARACAS would throttle; nothing is throttled.\nWith --calibrate, memory hogs run on the other CPUs for a few seconds. docs/latency.md explains the figures."
    )]
    Latency(latency::LatencyArgs),
    /// Measure this machine: bandwidth, latency, messages, locked memory, I/O, coloured pages.
    #[command(
        after_help = "Each has --help with examples. bandwidth, latency and io-load take IsolBench's -c, -p and -r."
    )]
    Bench {
        /// Which benchmark.
        #[command(subcommand)]
        name: crate::commands::bench::Bench,
    },
    /// Wait for the end of the input, then put the kernel's settings back that it names.
    #[command(name = solocore_linux::keeper::ARGUMENT, hide = true)]
    KeepSettings,
    /// List the boards that come with solocore, or print one.
    Platforms {
        /// Print this board's file.
        name: Option<String>,
    },
    /// List the workloads that scenarios can name, with their parameters and defaults.
    #[command(
        after_help = "Examples:\n  solocore workloads\n  solocore workloads latency\n  solocore workloads --format json"
    )]
    Workloads {
        /// Only this kind, with its parameters.
        kind: Option<String>,
        /// What to print.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON document on stdout.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Tasks to cores, and response times on each core.
    Cores,
    /// IMA partitions to windows, with their I/O: the five steps of single-core equivalence.
    Sce,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// QEMU user-mode emulation; needs no counters and no privileges.
    #[default]
    Qemu,
    /// Hardware counters.
    Perf,
}

#[derive(Debug, clap::Args)]
pub struct ProfileArgs {
    /// Board whose caches are modelled: a preset or a platform file.
    #[arg(long, default_value = "p4080")]
    pub platform: String,
    /// What counts.
    #[arg(long, value_enum, default_value_t)]
    pub engine: Engine,
    /// Where to write the profile [default: PROGRAM.profile.json]; the trace lies beside it.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Most shared-cache accesses to record for the simulator.
    #[arg(long, default_value_t = solocore_profile::TRACE_LIMIT)]
    pub trace_limit: u64,
    /// Program and arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct Profiling {
    /// Directory where profiles made on the way are kept [default: the user's cache directory].
    #[arg(long, value_name = "DIR")]
    pub profiles: Option<PathBuf>,
    /// Profile again, even if nothing known has changed.
    #[arg(long)]
    pub fresh: bool,
}

#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// System description (TOML).
    pub system: PathBuf,
    /// Write the plan here.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// How to plan [default: sce for a system with partitions, else cores].
    #[arg(long, value_enum)]
    pub method: Option<Method>,
    /// Add how each response time came about: rule, inputs, intermediate values.
    #[arg(long)]
    pub explain: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profiling: Profiling,
}

#[derive(Debug, clap::Args)]
pub struct SimArgs {
    /// Plan (JSON), system description (TOML), or scenario (TOML with a [simulation] table).
    pub input: PathBuf,
    /// Everything together on the plain machine, without the plan's protection.
    #[arg(long, conflicts_with = "solo")]
    pub unmanaged: bool,
    /// Each task by itself on the plain machine.
    #[arg(long)]
    pub solo: bool,
    /// Simulated time, like "1 s" [default: 1 s, or the scenario's].
    #[arg(long)]
    pub duration: Option<Time>,
    /// Seed of page placement [default: 1, or the scenario's].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Add the timeline of this first stretch to the result, like "50 ms".
    #[arg(long, value_name = "TIME")]
    pub timeline: Option<Time>,
    /// Write the whole timeline here as a Perfetto trace.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write every decision of the scheduler here, of criticality levels or of VCPUs, for `solocore check-trace`.
    #[arg(long, value_name = "FILE", conflicts_with = "solo")]
    pub sched_trace: Option<PathBuf>,
    /// Write the result here as well.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub profiling: Profiling,
}

#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// A plan and results of `solocore sim` (JSON), directories that hold them, or a table of `solocore schedule-io`.
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
    #[arg(short, long, default_value = "solocore-out")]
    pub output: PathBuf,
    /// Simulated time, like "1 s".
    #[arg(long, default_value = "1 s")]
    pub duration: Time,
    /// Seed of page placement.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub profiling: Profiling,
}

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RunSharing {
    /// Cores that have used their budgets up wait for the next period.
    #[default]
    None,
    /// When all have, they go on without limit until the period ends.
    Spare,
    /// When all have, each gets its budget anew.
    Proportional,
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Plan (JSON).
    pub plan: PathBuf,
    /// Stop after so long, like "10 s" [default: at Ctrl-C or SIGTERM].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// How tasks are kept off a throttled CPU.
    #[arg(long, value_enum, default_value_t)]
    pub engine: RunEngine,
    /// What counts as an access: llc-misses, cache-misses, rHEX, or page-faults to try it without a counter; with :u programs' own only.
    #[arg(long, default_value = DEFAULT_EVENT, value_name = "NAME")]
    pub event: String,
    /// What counts as a write, where the plan has budgets of writes, or to count them beside it: an event as for --event
    /// [default: the CPU's own event of write-backs, where it has one].
    #[arg(long, value_name = "NAME")]
    pub write_event: Option<String>,
    /// Leave the plan's budgets of writes out: --event has each core's whole budget.
    #[arg(long)]
    pub no_write_budgets: bool,
    /// Accesses per interrupt [default: about an eighth of each budget].
    #[arg(long, value_name = "N")]
    pub sample: Option<u64>,
    /// Let cores use what others are not expected to need (the plan's bounds do not cover it).
    #[arg(long)]
    pub reclaim: bool,
    /// What happens with time that is left (the plan's bounds cover none only).
    #[arg(long, value_enum, default_value_t)]
    pub share: RunSharing,
    /// Whose members may hold the bandwidth lock (a plan with policy = "bwlock"), signal jobs and attach as transfers, beside root.
    #[arg(long, default_value = "solocore", value_name = "GROUP")]
    pub group: String,
    /// A section that holds the bandwidth lock counts for at most so long; "0 s": for ever.
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    pub max_hold: Time,
    /// Check everything, say what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Answer Prometheus at this address, like 127.0.0.1:9184.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<std::net::SocketAddr>,
    /// Write the summary here as well (JSON); `solocore report` draws it.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub isolation: isolation::IsolationArgs,
    #[command(flatten)]
    pub scheduling: scheduling::SchedulingArgs,
}

#[derive(Debug, clap::Args)]
pub struct ExecArgs {
    /// Hold the bandwidth lock while it runs.
    #[arg(long)]
    pub lock: bool,
    /// Give it a VCPU: so much time in each period, like 6ms/100ms.
    #[arg(long, value_name = "C/T", conflicts_with_all = ["lock", "budget"], allow_hyphen_values = true)]
    pub vcpu: Option<vcpu::Reservation>,
    /// Keep it on this core.
    #[arg(long, value_name = "N")]
    pub core: Option<u32>,
    /// Let its core transfer at most so much, like "200 MB/s"; needs --core, and no other running solocore.
    #[arg(long, value_name = "BANDWIDTH", requires = "core", conflicts_with = "lock")]
    pub budget: Option<Bandwidth>,
    /// Give it so many ways of the shared cache that nobody else may fill (resctrl; root).
    #[arg(long, value_name = "N", conflicts_with_all = ["lock", "budget"], value_parser = clap::value_parser!(u32).range(1..=63))]
    pub ways: Option<u32>,
    /// Where no solocore runs: what each core may transfer beside the lock.
    #[arg(long, default_value = "100 MB/s", value_name = "BANDWIDTH")]
    pub lock_bandwidth: Bandwidth,
    /// Where no solocore runs: what counts as an access, as for `solocore run`.
    #[arg(long, default_value = DEFAULT_EVENT, value_name = "NAME")]
    pub event: String,
    /// Where no solocore runs: how tasks are kept off a throttled CPU.
    #[arg(long, value_enum, default_value_t)]
    pub engine: RunEngine,
    #[command(flatten)]
    pub colours: space::ColourArgs,
    /// The program and its arguments.
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// Time between two looks, like "1 s".
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    pub every: Time,
    /// Look so often, and end [default: until Ctrl-C].
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Test this event as well.
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct ReproduceArgs {
    /// Figures and tables (`sce-fig2`), or papers (`sce`, `bwlock`, `dynamic`, `maracas`, `mc2`).
    #[arg(value_name = "FIGURE")]
    pub figures: Vec<String>,
    /// All of them.
    #[arg(long, conflicts_with = "figures")]
    pub all: bool,
    /// Say which there are.
    #[arg(long)]
    pub list: bool,
    /// Directory for the results.
    #[arg(short, long, default_value = "solocore-reproduction")]
    pub output: PathBuf,
    /// Fewer repetitions and shorter runs.
    #[arg(long)]
    pub quick: bool,
    /// Run again what is there already.
    #[arg(long)]
    pub fresh: bool,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write a page (Markdown) with all verdicts and figures here.
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// How the page refers to the directory of the pictures [default: the --output directory].
    #[arg(long, value_name = "PATH", requires = "page")]
    pub images: Option<String>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnalyzeTest {
    /// One core, preemptive fixed priorities: exact response times.
    FpRta,
    /// One core, earliest deadline first: exact.
    Edf,
    /// Global EDF: Goossens, Funk, Baruah (density).
    GedfGfb,
    /// Global EDF: Bertogna, Cirinei, Lipari.
    GedfBcl,
    /// Global EDF: the same, iterated with slacks.
    GedfBclIterative,
    /// Global EDF: Baruah.
    GedfBar,
    /// Global EDF: forced-forward demand.
    GedfFfdbf,
    /// Global EDF: response times of Bertogna and Cirinei.
    GedfRta,
    /// Global EDF: all of them, best answer.
    Gedf,
    /// Global EDF: bounds of tardiness.
    Tardiness,
}

#[derive(Debug, clap::Args)]
pub struct AnalyzeArgs {
    /// Which test.
    #[arg(long, value_enum, value_name = "NAME")]
    pub test: AnalyzeTest,
    /// Task sets, one JSON object a line; - reads standard input.
    pub corpus: PathBuf,
    /// Test each set N times more, and print task sets per second (one thread, without parsing) on stderr.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: Option<u64>,
    /// Add how each verdict came about.
    #[arg(long)]
    pub explain: bool,
    /// How answers look: JSON, one object a line, or text.
    #[arg(long, value_enum, default_value = "json")]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct ScheduleIoArgs {
    /// Partitions, chains and devices (TOML).
    pub instance: PathBuf,
    /// Write the table here (JSON, one activity a line).
    #[arg(short, long, value_name = "TABLE")]
    pub output: Option<PathBuf>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Give up after so long, like "60 s".
    #[arg(long, default_value = "60 s", value_name = "TIME")]
    pub time_limit: Time,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct CheckIoArgs {
    /// Partitions, chains and devices (TOML), or a system file with partitions.
    pub instance: PathBuf,
    /// The table, or the plan of that system (JSON).
    pub table: PathBuf,
    /// Also execute the table so often, with jitter within the margins.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub executions: u64,
    /// Seed of the jitter.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What to print.
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
    /// Memory: a preset (ddr3-1066, ddr3-1333, ddr4-2400, ddr5-4800, lpddr4-3200) or a file of that form.
    #[arg(long, default_value = "ddr3-1333")]
    pub memory: String,
    /// Channels, in place of the memory's.
    #[arg(long)]
    pub channels: Option<u32>,
    /// Ranks of a channel, in place of the memory's.
    #[arg(long)]
    pub ranks: Option<u32>,
    /// What the requests look like.
    #[arg(long, value_enum)]
    pub pattern: DramPattern,
    /// Offered load of random and stream4.
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
    /// Younger row hits that may pass an older request of their bank: a number, or off for any.
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
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, clap::Args)]
pub struct StudyArgs {
    /// Choices of Table 3, like "C-Light,Long,Light,Quick,Small,High,Many"; * stands for any. May be repeated.
    #[arg(long, value_name = "CHOICES")]
    pub scenario: Vec<String>,
    /// All 648 scenarios.
    #[arg(long, conflicts_with = "scenario")]
    pub all: bool,
    /// Schemes, separated by commas; all stands for the paper's nine and O|opt [default: the paper's nine].
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
    /// Run again with each assumed range halved and half as large again, and say what that changes.
    #[arg(long, conflicts_with_all = ["resume", "shard", "merge"])]
    pub sensitivity: bool,
    /// Join the shards in these directories.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["scenario", "all", "schemes", "utilization", "seed", "parameters", "resume", "shard"])]
    pub merge: Vec<PathBuf>,
    /// Directory for the results [default: solocore-study, or the one that is resumed].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
