//! Options of `solocore run` for the scheduler.

use super::format::Format;
use clap::ValueEnum;
use solocore_model::Time;
use std::path::PathBuf;

/// Scheduler of the plan's tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RunScheduler {
    /// The kernel's scheduler: tasks run under SCHED_FIFO, and signals switch the windows of
    /// partitions. Plans with VCPUs always have a scheduler of their own.
    #[default]
    None,
    /// MC2's levels A to D, or the windows of partitions, decided in the kernel (Linux 6.14 or
    /// later with sched_ext).
    Levels,
}

/// The scheduler.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scheduling")]
pub struct SchedulingArgs {
    /// Scheduler of the plan's tasks.
    #[arg(long, value_enum, default_value_t)]
    pub scheduler: RunScheduler,
    /// Write every decision here, for `solocore check-trace`; needs --scheduler levels, or a plan
    /// with VCPUs.
    #[arg(long, value_name = "FILE")]
    pub sched_trace: Option<PathBuf>,
}

/// A trace to check.
#[derive(Debug, clap::Args)]
pub struct CheckTraceArgs {
    /// Trace (CSV) that --sched-trace of `solocore run`, `sim` or `vcpu serve` wrote.
    pub trace: PathBuf,
    /// Longest delay of a decision, or of a thread that must stop [default: 10 ms in a kernel's
    /// trace, 0 in a simulation's].
    #[arg(long, value_name = "TIME")]
    pub tolerance: Option<Time>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
