//! The command line: each command, with its help and its examples.
//!
//! It names the arguments of all commands, those of `bench` in its own files too. So no command
//! imports this file; only the dispatch and the pages of the manual do.

use super::diff::DiffArgs;
use super::format::Format;
use super::given::Given;
use super::plan::{AssessArgs, PlanArgs, ReportArgs, SimArgs};
use super::profile::ProfileArgs;
use super::run::{DoctorArgs, ExecArgs, RunArgs, TopArgs};
use super::schema::SchemaFile;
use super::studies::{
    AnalyzeArgs, AttackArgs, CheckIoArgs, DramArgs, ReproduceArgs, ScheduleIoArgs, StudyArgs,
};
use super::{
    board, compare, groups, init, latency, negative, outputs, platform, scheduling, space, vcpu,
    verify,
};
use crate::commands::bench::Bench;
use crate::fail::Failure;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes: 0 success, 1 a negative answer (unschedulable, a simulated deadline missed), 2 bad input, 3 this machine cannot do it, 130 interrupted before the result (Ctrl-C or SIGTERM). Commands that run until Ctrl-C end with 0 then. `exec`, `profile` and `board run` pass the program's exit code on.";

/// Makes every core of a multicore machine behave like a chip of its own.
#[derive(Debug, Parser)]
#[command(name = "solocore", version, after_help = EXIT_CODES, max_term_width = groups::COLUMNS)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// The command line, with its commands in groups.
    pub fn grouped() -> clap::Command {
        groups::grouped(negative::taken(Self::command()))
    }

    /// The command line without its hidden commands and options.
    pub fn visible() -> clap::Command {
        groups::visible(&Self::command())
    }

    /// Reads the command line, and notes which options it contains where a mode of the command
    /// leaves some out. Bad usage ends the process.
    ///
    /// # Errors
    /// An output is an input as well, or cannot be written.
    pub fn read() -> Result<Self, Failure> {
        let mut command = Self::grouped();
        let matches = command.get_matches_mut();
        let mut args = Self::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
        outputs::check(&command, &matches)?;
        if let Some((name, matches)) = matches.subcommand()
            && let Some(command) = command.find_subcommand(name)
        {
            let given = Given::of(command, matches);
            match &mut args.command {
                Command::Run(run) => run.given = given,
                Command::Exec(exec) => exec.given = given,
                Command::Profile(profile) => profile.given = given,
                Command::Dram(dram) => dram.given = given,
                _ => {}
            }
        }
        Ok(args)
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a first system file: this machine, and a task for each program.
    #[command(after_help = "Examples:\n  solocore init \"xz -k -c data.bin\" \"sort -o sorted \
            words\"\n  solocore init --platform raspberry-pi-4 --no-profile \"./tracking \
            a.pgm\"\n  mkdir -p robot && solocore init -o robot/system.toml\n\nEach program is profiled, as `plan` \
            does, and `plan` uses these profiles again. The comments in the file say what to set. \
            Without --force, the command writes nothing where a file exists already. Exit code 1: \
            a program could not be profiled; the file then has its task as a comment.")]
    Init(init::InitArgs),
    /// Learn how a program uses memory.
    #[command(
        after_help = "Examples:\n  solocore profile -- ./tracking a.pgm b.pgm\n  solocore profile \
            --platform imx6q -o t.json -- ./tracking-arm a.pgm b.pgm\n  solocore profile --input \
            a.pgm --input \"-x b.pgm\" --timeout \"60 s\" -- ./tracking\n  solocore profile --engine perf \
            --jobs 100 -o t.json -- ./tracking a.pgm\n  solocore profile --from run.json --plan plan.json \
            --task tracking -o t.json\n\nThe program's input, \
            output and exit code pass through; the summary goes to stderr. The profile is the sum \
            of all processes of the program. A program with processes that run at the same time is refused."
    )]
    Profile(ProfileArgs),
    /// Decide cores, cache and budgets, and prove that they suffice.
    #[command(
        after_help = "Examples:\n  solocore plan system.toml\n  solocore plan system.toml -o \
            plan.json --format json\n  solocore plan system.toml --fresh --timeout \"60 s\"\n  solocore plan examples/ima-sce/system.toml --method sce --explain\n\nExit code 1: an analysed task may miss its deadline or has no bound."
    )]
    Plan(PlanArgs),
    /// Compare two plans: bounds, margins, verdicts, budgets.
    #[command(
        after_help = "Examples:\n  solocore diff old.json plan.json\n  solocore diff --allow 2 \
            old.json plan.json --format json\n\nA margin is the deadline minus the bound. Exit code 1: a margin shrinks by more than --allow, a verdict is worse, or a task is gone."
    )]
    Diff(DiffArgs),
    /// Run a plan on a simulated board.
    #[command(
        after_help = "Examples:\n  solocore sim plan.json --duration \"2 s\"\n  solocore sim \
            system.toml --unmanaged --format json\n  solocore sim levels.json --sched-trace t.csv && solocore check-trace t.csv   # a plan with [levels] or [[vcpu]]\n\nExit code 1: a simulated task missed its deadline, or a transfer broke a rule."
    )]
    Sim(SimArgs),
    /// Draw a plan and its measurements as one HTML page.
    #[command(
        after_help = "Examples:\n  solocore report plan.json solo.json unmanaged.json managed.json \
            -o report.html\n  solocore report plan.json run.json -o run.html\n  solocore report out/ -o \
            report.html\n  solocore report table.json -o table.html   # of schedule-io"
    )]
    Report(ReportArgs),
    /// Do it all: profile, plan, simulate alone, unmanaged and managed, and report.
    #[command(
        after_help = "Examples:\n  solocore assess examples/vision/system.toml -o out\n  solocore \
            assess system.toml --check --junit junit.xml --sarif findings.sarif\n\nExit code 1: the plan is not schedulable, or a task missed its deadline in the simulation under the plan. If the plan's shares are optimal, even shares are simulated too, for comparison."
    )]
    Assess(AssessArgs),
    /// Test the task sets of a corpus for schedulability.
    #[command(after_help = "Examples:\n  solocore analyze --test fp-rta corpus.jsonl\n  zcat \
            corpus.jsonl.gz | solocore analyze --test gedf -\n  solocore analyze --test edf \
            --explain --format text corpus.jsonl\n  solocore analyze --test fp-rta --repeat 100 \
            corpus.jsonl >/dev/null\n\nA line of the corpus: {\"cores\": 1, \"tasks\": [{\"wcet\": \
            1, \"period\": 4, \"deadline\": 4}, ...]}, in one integer unit, tasks in priority \
            order.\nIts answer: {\"schedulable\": true, \"response\": [1, ...]}; null where the \
            test has no bound. A response may exceed its deadline.\nWith --test tardiness, \
            \"tardiness\" takes the place of \"response\", and schedulable means that each \
            tardiness is 0.\nBlank lines \
            are skipped. A line without an answer gets {\"error\": \"line 17: ...\", \"line\": 17} \
            in its place.\n\nExit codes: 0 all lines have an answer (an unschedulable set is an \
            answer), 2 some have none, or bad usage.")]
    Analyze(AnalyzeArgs),
    /// Find conflict-free offsets for IMA partitions and their I/O.
    #[command(
        after_help = "Examples:\n  solocore schedule-io examples/ima-sce/instance.toml\n  solocore \
            schedule-io instance.toml -o table.json --time-limit \"5 min\"\n  solocore schedule-io \
            instance.toml --format json --seed 2\n\nThe same instance and seed give the same answer on any machine. The time limit only decides whether an answer is found in time. IMA is integrated modular avionics.\nExit code 1: no table exists, or none was found; the output says which of the two, and why."
    )]
    ScheduleIo(ScheduleIoArgs),
    /// Check a table of schedule-io against its instance, by unrolling.
    #[command(
        after_help = "Examples:\n  solocore check-io instance.toml table.json\n  solocore check-io \
            instance.toml table.json --executions 100 --seed 7 --format json\n  solocore check-io \
            system.toml plan.json\n\nExit code 1: a rule is broken; the first violation is shown, \
            with both activities, their lines and the time."
    )]
    CheckIo(CheckIoArgs),
    /// Run synthetic traffic through the DRAM model alone.
    #[command(
        after_help = "Examples:\n  solocore dram --memory ddr3-1333 --pattern random --load \"5 \
            GB/s\" --writes 0.333\n  solocore dram --memory lpddr4-3200 --pattern chase --format \
            json\n  solocore dram --pattern stream4 --check --trace-commands commands.csv\n  solocore dram --pattern attack --attackers 1 --outstanding 16 --same-bank --row-hit-cap off\n\nA latency is the time of a read from its arrival at the controller to its data. The model has no caches.\nThe same arguments give the same figures on any machine, except wall_ns."
    )]
    Dram(DramArgs),
    /// Run the papers' experiments on simulated boards, with a verdict on each claim.
    #[command(
        after_help = "Examples:\n  solocore reproduce --list\n  solocore reproduce sce-fig2 -o out\n  solocore reproduce maracas --quick\n  solocore reproduce --all --page docs/reproduction.md\n  solocore reproduce maracas --seeds 20 --dask tcp://head:8786\n\nEach experiment writes ID.csv, ID.svg and ID.json. Results of an earlier run in the directory are kept if the seed and --quick are the same, so an interrupted run can continue. A claim agrees in size (within the paper's range, or a quarter of its number), agrees in direction, or differs. With --seeds, the median counts. Exit code 1: a claim differs."
    )]
    Reproduce(ReproduceArgs),
    /// Search for systems and programs that come near to the bounds of their plans, or beyond.
    #[command(
        hide = true,
        after_help = "Examples:\n  solocore attack even windows --attacks 1000\n  solocore attack --attacks 10000 --dask tcp://head:8786 -o found\n\nThe answers of an earlier run of the same search in the directory are kept. Exit code 1: a bound was exceeded."
    )]
    Attack(AttackArgs),
    /// Run the MC2 schedulability study of random task systems.
    ///
    /// The study computes the share of random task systems that each scheme can schedule.
    #[command(
        after_help = "Examples:\n  solocore study --all -o study\n  solocore study --scenario \"C-Light,Short,Medium,Slow,Large,High,Many\" -o one\n  solocore study --scenario \"*,Long,*,Slow,*,High,*\" --schemes \"C|C,O|C,O|opt\" --utilization 1:4:0.1 -o some\n  solocore study --resume study\n  solocore study --all --shard 1/4 -o part1\n  solocore study --merge part1 part2 part3 part4 -o whole\n  solocore study --all --dask tcp://head:8786 -o study\n\nWrites points.csv, sua.csv, sua_by_scenario.csv, observations.csv and a plot (SVG) per scenario. An interrupted study keeps its points; --resume goes on where it was. The same seed gives the same files on any machine.\nRAYON_NUM_THREADS limits the threads."
    )]
    Study(StudyArgs),
    /// Regulate this machine as a plan says, until Ctrl-C.
    #[command(
        after_help = "Examples:\n  solocore run plan.json --start --dry-run\n  solocore run \
            plan.json --start --vouch prefetchers --vouch devices\n  solocore run plan.json --start \
            --partial --duration \"10 s\" --format json -o run.json\n  solocore run plan.json \
            --partial --event page-faults --engine helper\n  solocore run night.json --replace   # \
            other budgets for the run that goes on\n\nNeeds root. When the command ends, \
            for whatever reason, the machine is as it was. The plan's core i is CPU i.\nExit code \
            1: a promise was broken, and --partial was not given; missed deadlines alone do not \
            change the exit code. Exit code 3, before any change: this machine is not the plan's, \
            lacks something, or is regulated already; or nobody keeps a promise of the plan \
            (docs/promises.md). A run that has to stop early also ends with 3."
    )]
    Run(RunArgs),
    /// Measure each task of a plan under attack on this machine, beside its promise.
    ///
    /// In a plan of budgets, each task is measured alone, beside enemies, and beside enemies while
    /// the plan is enforced. In a plan with windows, levels or VCPUs, all tasks run at once under
    /// the plan.
    #[command(
        after_help = "Examples:\n  sudo solocore verify plan.json --vouch devices\n  sudo solocore \
            verify plan.json --partial --jobs 1000 --map map.txt -o verify.json && solocore report \
            plan.json verify.json -o report.html\n  sudo solocore verify plan.json --task video --enemy write --vouch devices \
            --vouch prefetchers\n\nNeeds root. A task that is measured by itself runs beside the kind of enemy that slows it most. Like `solocore run`, the command refuses a plan with a promise that nobody keeps. Exit code 1: a task exceeded its promise, or a promise was broken and --partial was not given. Exit code 2: a job failed. Exit code 3: this machine cannot do it, or a job took far too long."
    )]
    Verify(verify::VerifyArgs),
    /// Time a program alone, beside enemies, and protected from them.
    ///
    /// Enemies read or write memory on all other cores.
    #[command(
        after_help = "Examples:\n  solocore compare -- ./detect a.pgm\n  sudo solocore compare -n \
            100 --lock-bandwidth \"50 MB/s\" -- ./detect a.pgm\n  solocore compare --enemy read \
            --core 2 --format json -o compare.json -- ./detect a.pgm\n\nEvery run is a process of \
            its own; its output is thrown away. The protected runs need root and a counter. Without these, the output has only the other two cases, and the reason. Exit code 2: the program failed."
    )]
    Compare(compare::CompareArgs),
    /// Run a program under the lock, on a core, in a VCPU, or in its colours.
    ///
    /// Options choose the protection: the bandwidth lock, a fixed core, a limit of bandwidth, cache
    /// ways, a VCPU, or cache colours and DRAM banks of its own. Without options, the program just
    /// runs.
    #[command(
        after_help = "Examples:\n  solocore exec --lock -- ./detect a.pgm\n  solocore exec --lock --core 2 -- ./detect a.pgm\n  solocore exec --lock-function filter_image -- ./detect a.pgm\n  solocore exec --core 3 --budget \"200 MB/s\" -- make\n  solocore exec --ways 4 --core 2 -- ./detect a.pgm\n  solocore exec --vcpu 6ms/100ms -- ./detect a.pgm\n  solocore exec --colors 0-7 -- ./detect a.pgm\n  solocore exec --colors 0-7 --banks 2,3 --map map.txt -- ./detect a.pgm\n  solocore exec --colors 0-7 --queues /frames,0x4d2 -- ./detect a.pgm\n\nThe program's input, output and exit code pass through. With --lock, the program and its descendants hold the bandwidth lock whenever they run. Tasks of other cores that are not real-time then get only the accesses that the running plan allows beside a lock. If no solocore runs and root starts the command, it regulates the other cores until the program ends. With --lock-function, a thread holds the lock only in that function. With --colors, --banks or --plan, the pages of the program and its descendants are moved to frames of these colours and banks before it begins. Later pages come from such frames too. At the end, stderr says how many pages lie elsewhere (docs/space.md). Message queues lie in the kernel's memory, but those of --queues in frames of the program that makes them (docs/buffers.md). Exit code 3: the user may not do this, or this machine cannot do it."
    )]
    Exec(ExecArgs),
    /// Give threads a guaranteed share of a core in every period: VCPUs.
    #[command(
        after_help = "Examples:\n  solocore vcpu serve --vcpu video=6ms/20ms --vcpu audio=1ms/5ms@1\n  solocore vcpu create control 2ms/10ms --pid 4711\n  solocore vcpu list\n  solocore vcpu move control 2\n  solocore exec --vcpu 6ms/100ms -- ./detect a.pgm\n\nNeeds root and a kernel with sched_ext. A VCPU that does not fit is refused, and nothing changes. When `serve` ends, for whatever reason, the kernel's own scheduler goes on with every thread."
    )]
    Vcpu(vcpu::VcpuArgs),
    /// Check that a trace of scheduling decisions follows from the policy.
    ///
    /// Each decision must follow from the policy, and the promises must be kept.
    #[command(
        after_help = "Examples:\n  solocore vcpu serve --vcpu video=6ms/20ms --duration \"10 s\" \
            --sched-trace t.csv && solocore check-trace t.csv\n  sudo solocore run plan.json --start --scheduler levels --duration \"10 s\" --sched-trace t.csv && solocore check-trace t.csv\n  solocore sim plan.json --sched-trace t.csv && solocore check-trace t.csv --format json\n\nA plan needs [levels] or [[vcpu]] to give such a trace. Exit code 1: a rule is broken; the first violation is shown, with its time, core and numbers."
    )]
    CheckTrace(scheduling::CheckTraceArgs),
    /// Move a program that runs in its colours to other colours.
    #[command(
        name = "recolor",
        alias = "recolour",
        after_help = "Examples:\n  solocore recolor 1234 --colors 8-15\n  solocore recolor 1234 --colors 8-15 --banks 0,1 --format json\n\nMoves the program that `solocore exec --colors` started, with all its processes, while it runs; new pages come from the new colours. Exit code 1: some pages could not be moved. Exit code 3: the program was not started with colours."
    )]
    Recolour(space::RecolourArgs),
    /// Keep cache colours and DRAM banks free of the kernel and of other programs.
    ///
    /// The command holds all frames of these colours and banks that it can get, until it ends. The
    /// kernel then uses other frames.
    #[command(
        after_help = "Examples:\n  sudo solocore reserve --colors 0-7\n  sudo solocore reserve \
            --colors 0-7 --banks 2,3 --map map.txt\n  sudo solocore reserve --plan plan.json\n  \
            sudo solocore reserve --colors 0-7 --duration \"60 s\" --format json\n\nNeeds root. The command first drops the page cache. Then it takes nearly all free memory for a moment, in steps, and leaves the memory that other programs need. At its end, stderr names the number of frames held, and the uses of the others. `solocore exec --colors` gets its frames from this reserve. All frames are given back at the end, also after Ctrl-C or a kill.\nExit code 3: this machine cannot do it; stderr says \
            why (docs/reserve.md)."
    )]
    Reserve(space::ReserveArgs),
    /// Find cache colours and DRAM banks, and where a process's pages lie.
    #[command(subcommand)]
    Space(space::SpaceCommand),
    /// Say what this machine can do, what it lacks, and how to get it.
    #[command(
        after_help = "Examples:\n  solocore doctor\n  solocore doctor --plan plan.json\n  solocore \
            doctor --event r412e --format json\n\nExit code 0: `solocore run` can run here, with a counter of accesses or with an event that stands in for it. Exit code 1: it cannot, or nobody would keep a promise of the plan. Exit code 3: the plan is for another machine."
    )]
    Doctor(DoctorArgs),
    /// Put back the settings of a run that was killed together with its keeper.
    #[command(
        after_help = "Examples:\n  solocore restore\n  solocore restore --format json\n\nNeeds root. \
            The next `solocore run` does the same when it starts. While a solocore runs, the command changes nothing. The keeper is the child process that puts settings back when solocore is killed. Exit code 3: a setting could not be put back; stderr names it."
    )]
    Restore {
        /// Format of the output.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Watch a running `solocore run`.
    ///
    /// On a terminal: bars with budget lines, throttle history, tasks with deadlines, locks. Into a
    /// pipe: tables.
    #[command(after_help = "Examples:\n  solocore top\n  solocore top --every \"100 ms\" --count \
            10\n  solocore top --plain | tee snapshots.txt\n\nNeeds root. Figures cover the time since the last snapshot; `most` and longest times cover the whole run. The key ? \
            shows the keys.")]
    Top(TopArgs),
    /// Show how long requests to memory take, and how many each CPU makes.
    ///
    /// With --threshold, the output also says which cores would be throttled.
    #[command(
        after_help = "Examples:\n  solocore latency --every \"100 ms\" --count 20\n  solocore latency --calibrate\n  solocore latency --threshold 150 --event page-faults\n  solocore latency --rule rate --threshold 2000000\n  solocore latency --source probe --cpu 1 --rate 1000 --format json --count 50\n\nCounters of the memory controller give the latency if the machine has them and the command runs as root. Otherwise a probe times loads from lines that no cache holds. --threshold only says what Algorithm 1 of MARACAS would throttle; nothing is throttled.\nWith --calibrate, memory hogs run on the other CPUs for a few seconds. docs/latency.md explains the figures."
    )]
    Latency(latency::LatencyArgs),
    /// Run programs on a virtual board: stock Debian with a board's cores, caches and memory.
    #[command(subcommand)]
    Board(board::BoardCommand),
    /// Measure this machine: memory, messages, I/O, coloured pages.
    #[command(
        after_help = "Each benchmark has --help with examples. bandwidth, latency, io-load and camera take IsolBench's -c, -p and -r."
    )]
    Bench {
        /// The benchmark.
        #[command(subcommand)]
        name: Bench,
    },
    /// Wait for the end of the input, then put the kernel's settings back that it names.
    #[command(name = solocore_linux::host::keeper::ARGUMENT, hide = true)]
    KeepSettings,
    /// Describe machines as platform files: this machine, or others from copies of their files.
    #[command(subcommand)]
    Platform(platform::PlatformCommand),
    /// List the boards that come with solocore, or print one.
    Platforms {
        /// Print this board's file.
        name: Option<String>,
    },
    /// List the workloads that scenarios can name, with their parameters and defaults.
    #[command(
        after_help = "Examples:\n  solocore workloads\n  solocore workloads latency\n  solocore \
            workloads --format json"
    )]
    Workloads {
        /// Only this kind, with its parameters.
        kind: Option<String>,
        /// Format of the output.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Print the JSON Schema of a file or an output, for editors and scripts.
    #[command(
        after_help = "Examples:\n  solocore schema system > system.schema.json\n  solocore schema \
            plan > plan.schema.json\n  solocore schema scenario > scenario.schema.json\n\nWith \
            `#:schema system.schema.json` in its first line, taplo and its extension for VS Code \
            complete and check a system file."
    )]
    Schema {
        /// The file or the output.
        #[arg(value_enum)]
        file: SchemaFile,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a command's manual page, or write all of them.
    #[command(
        after_help = "Examples:\n  solocore man plan | man -l -\n  solocore man board run | man -l -\n  \
            solocore man -o /usr/local/share/man/man1"
    )]
    Man {
        /// The command; without one, the page of solocore itself.
        #[arg(value_name = "COMMAND", conflicts_with = "output")]
        commands: Vec<String>,
        /// Write the pages of all commands into this directory.
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}
