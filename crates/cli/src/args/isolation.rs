//! Options of `solocore run` beside budgets: places of tasks, and files to write.

use solocore_linux::schedule::placed::Trial;
use solocore_space::queues::Queues;
use std::path::PathBuf;

/// Places of tasks and of other programs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tasks and isolation")]
pub struct IsolationArgs {
    /// Start the plan's commands on their cores: one run is one job, released every period.
    #[arg(long)]
    pub start: bool,
    /// Start COMMAND (split at spaces) in place of the task's command, also without --start. With
    /// the name of a transfer in the time table, like "nav/1/device-input", in place of TASK,
    /// COMMAND is the driver of the transfer. May be repeated.
    #[arg(long = "command", value_name = "TASK=COMMAND", value_parser = pair)]
    pub commands: Vec<(String, String)>,
    /// Bind a running process to its task's core. May be repeated.
    #[arg(long, value_name = "TASK=PID", value_parser = pair)]
    pub attach: Vec<(String, String)>,
    /// Directory in which commands run [default: the plan's directory].
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Do not run analysed tasks under SCHED_FIFO. Their budgets still hold, but the plan's
    /// response times do not.
    #[arg(long)]
    pub no_fifo: bool,
    /// The CPU for interrupts [default: the first without analysed tasks].
    #[arg(long, value_name = "CPU")]
    pub irq_cpu: Option<u32>,
    /// Leave interrupts where they are.
    #[arg(long)]
    pub no_move_irqs: bool,
    /// Let other programs run on the cores of analysed tasks.
    #[arg(long)]
    pub no_confine: bool,
    /// Let the hardware (resctrl) also enforce each core's ways of the shared cache and its
    /// bandwidth. Locked pages get ways of their own.
    #[arg(long)]
    pub resctrl: bool,
    /// Start each program on frames of its core's cache colours and DRAM banks; in a plan with
    /// levels, on those of its level (root, Linux 6.8 or later).
    #[arg(long, alias = "colours")]
    pub colors: bool,
    /// Map of this machine's colours and bank functions, as `solocore space map` writes it, for
    /// --colors [default: those of the plan's board].
    #[arg(long, value_name = "FILE", requires = "colors")]
    pub map: Option<PathBuf>,
    /// Hold the frames of the plan's tasks meanwhile, so that neither the kernel nor other programs
    /// get them: a `solocore reserve` that ends with the run. Until it has them, no task starts.
    #[arg(long, requires = "colors")]
    pub reserve: bool,
    /// Keep message queues of these POSIX names and System V keys in frames of the task that makes
    /// them, for --colors, like /frames,0x4d2, or all queues: `all`; also what goes through
    /// `pipes` of the tasks, their UNIX `sockets`, and named pipes: fifo:/PATH.
    #[arg(long, value_name = "NAMES", requires = "colors")]
    pub queues: Option<Queues>,
    /// Write a Perfetto trace: throttling and use of each period, and jobs (the last 250,000
    /// periods of each CPU).
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The one task that `solocore verify` measures.
    #[arg(skip)]
    pub trial: Option<Trial>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.trim().is_empty() => {
            Ok((name.to_owned(), value.trim().to_owned()))
        }
        _ => {
            Err("it is written TASK=..., with the name of a task of the plan (or of a transfer of \
            its time table)"
                .to_owned())
        }
    }
}
