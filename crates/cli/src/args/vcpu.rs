//! `solocore vcpu`: arguments.

use super::format::Format;
use super::latency::Rule;
use clap::{Args, Subcommand, ValueEnum};
use solocore_linux::latency::Choice;
use solocore_linux::schedule::vcpus::drill::Fault;
use solocore_model::Time;
use std::path::PathBuf;
use std::str::FromStr;

/// Capacity C in each period T, like `6ms/100ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Capacity C.
    pub capacity_ns: u64,
    /// Period T.
    pub period_ns: u64,
}

impl Reservation {
    /// The form that `--vcpu` takes.
    pub fn text(self) -> String {
        format!("{}ns/{}ns", self.capacity_ns, self.period_ns)
    }
}

impl FromStr for Reservation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}` is not capacity/period; write it like 6ms/100ms");
        let (capacity, period) = text.split_once('/').ok_or_else(form)?;
        let ns = |part: &str| {
            part.trim().parse::<Time>().map(Time::ns_ceil).map_err(|e| format!("{}: {e}", form()))
        };
        Ok(Self { capacity_ns: ns(capacity)?, period_ns: ns(period)? })
    }
}

/// A reservation with or without its core: `1ms/20ms` or `1ms/20ms@CORE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedReservation {
    /// Capacity C in each period T.
    pub reservation: Reservation,
    /// Core; `None`: the one with the most room.
    pub core: Option<u32>,
}

impl FromStr for PlacedReservation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (reservation, core) = match text.split_once('@') {
            Some((reservation, core)) => {
                let number = core.parse::<u32>().map_err(|_| {
                    format!("`{text}` is not C/T or C/T@CORE; write it like 1ms/20ms@1")
                })?;
                (reservation, Some(number))
            }
            None => (text, None),
        };
        Ok(Self { reservation: reservation.parse()?, core })
    }
}

/// A VCPU on the command line: `NAME=6ms/100ms` or `NAME=6ms/100ms@CORE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name of the VCPU.
    pub name: String,
    /// Capacity C in each period T.
    pub reservation: Reservation,
    /// Core of the VCPU; `None`: the one with the most room.
    pub core: Option<u32>,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!("`{text}` is not NAME=C/T or NAME=C/T@CORE; write it like video=6ms/100ms@1")
        };
        let (name, rest) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(form)?;
        let (reservation, core) = match rest.split_once('@') {
            Some((reservation, core)) => (reservation, Some(core.parse().map_err(|_| form())?)),
            None => (rest, None),
        };
        Ok(Self { name: name.to_owned(), reservation: reservation.parse()?, core })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BackgroundPolicy {
    /// The VCPU with the least background time so far runs.
    #[default]
    LeastTime,
    /// The VCPU that ran before goes on.
    Keep,
    /// The VCPU with the fewest requests to memory (--event) in a millisecond of its execution
    /// runs.
    LeastMemory,
    /// No VCPU runs.
    None,
}

/// Options of the scheduler of VCPUs.
#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// Rule for background time: the time in which no runnable VCPU of a core has budget left.
    #[arg(long, value_enum, default_value_t)]
    pub background: BackgroundPolicy,
    /// Least share of each core for all programs that are bound to no VCPU.
    #[arg(long, default_value = "5ms/100ms", value_name = "C/T", allow_hyphen_values = true)]
    pub best_effort: Reservation,
    /// Largest cost of a switch and a late timer; admission adds it to each capacity.
    #[arg(long, default_value = "20 us", value_name = "TIME")]
    pub overhead: Time,
    /// Move VCPUs between cores, this time after a VCPU wakes, blocks, comes or goes, like "1 ms"
    /// [default: VCPUs stay on their cores].
    #[arg(long, value_name = "TIME")]
    pub balance: Option<Time>,
    /// Page colours of each core, like 8, or 4,4,10,14 from core 0 on; a VCPU goes only to a core
    /// with enough free colours.
    #[arg(
        long,
        alias = "core-colours",
        value_name = "N[,N...]",
        value_delimiter = ',',
        requires = "balance"
    )]
    pub core_colors: Vec<u64>,
    /// Move pages with their VCPUs, in a VCPU of its own like 2ms/50ms or 2ms/50ms@CORE, one VCPU
    /// in each period. A VCPU whose pages do not fit into the capacity stays on its core, and one
    /// with a program that was not started in colours.
    #[arg(long, value_name = "C/T", requires = "core_colors", allow_hyphen_values = true)]
    pub migration: Option<PlacedReservation>,
    /// Largest cost of moving a page, for --migration; `solocore recolor` measures it.
    #[arg(long, default_value = "50 us", value_name = "TIME", requires = "migration")]
    pub page_cost: Time,
    /// Largest cost of a move without pages, for --migration.
    #[arg(long, default_value = "500 us", value_name = "TIME", requires = "migration")]
    pub base_cost: Time,
    /// Replenish a budget one period after its VCPU woke, not one period after it was admitted. A
    /// preempted VCPU then gets C in each T of its own, and may have up to 2C in some window of T.
    #[arg(long)]
    pub lenient: bool,
    /// Most pending replenishments of a VCPU, 1 to 16.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=16), value_name = "N")]
    pub replenishments: u32,
    /// Write every decision, for `solocore check-trace`.
    #[arg(long, value_name = "FILE")]
    pub sched_trace: Option<PathBuf>,
    /// Write the decisions here as a Perfetto trace.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Throttling of background time (maracas, section IV).
#[derive(Debug, Args)]
pub struct ThrottlingArgs {
    /// Threshold from which background time is throttled. It is a latency in the unit that
    /// `solocore latency` shows, or with --rule rate the requests per --memory-period. `solocore
    /// latency --calibrate` suggests one in ns, for the probe.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub threshold: Option<u64>,
    /// Rule by which memory counts as contended.
    #[arg(long, value_enum, default_value_t, requires = "threshold")]
    pub rule: Rule,
    /// Source of the readings.
    #[arg(long, value_enum, default_value_t, requires = "threshold")]
    pub source: Choice,
    /// Time between two readings of the memory.
    #[arg(long, default_value = "2 s", value_name = "TIME", requires = "threshold")]
    pub memory_period: Time,
    /// VCPU of the thread that reads the memory and decides, like 1ms/20ms or 1ms/20ms@CORE.
    #[arg(
        long,
        default_value = "1ms/20ms",
        value_name = "C/T",
        requires = "threshold",
        allow_hyphen_values = true
    )]
    pub monitor: PlacedReservation,
    /// Event that counts accesses of a CPU, as for `solocore run` [default: llc-misses, else
    /// cache-misses, else page-faults]. Also for --background least-memory.
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Throttling is reduced once requests are at or below this share of the largest number seen, 0
    /// to 1.
    #[arg(long, default_value_t = 0.8, value_name = "SHARE", requires = "threshold")]
    pub idle: f64,
}

#[derive(Debug, Args)]
pub struct VcpuArgs {
    #[command(subcommand)]
    pub command: VcpuCommand,
}

#[derive(Debug, Subcommand)]
pub enum VcpuCommand {
    /// Schedule VCPUs until Ctrl-C.
    Serve(Box<ServeArgs>),
    /// Have the scheduler fail, again and again, and check that the kernel's own takes over and
    /// no object is left behind.
    #[command(hide = true)]
    Drill(DrillArgs),
    /// Create a VCPU.
    Create {
        /// Name of the VCPU.
        name: String,
        /// Budget C of CPU time in each period T, like 6ms/100ms.
        #[arg(allow_hyphen_values = true)]
        reservation: Reservation,
        /// Its core; without it, the one with the most room.
        #[arg(long, value_name = "N")]
        core: Option<u32>,
        /// Balancing never moves it.
        #[arg(long)]
        fixed: bool,
        /// Page colours that it needs.
        #[arg(long, alias = "colours", default_value_t = 0, value_name = "N")]
        colors: u64,
        /// Number of a process that the VCPU runs.
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
    },
    /// List the VCPUs.
    List {
        /// Format of the output.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Move a VCPU to another core, with its budget.
    Move {
        /// Name or number of the VCPU.
        vcpu: String,
        /// Number of the core.
        core: u32,
    },
    /// Destroy a VCPU; its threads become best effort.
    Destroy {
        /// Name or number of the VCPU.
        vcpu: String,
    },
    /// Have a VCPU run a process, or a control group as a whole.
    #[command(override_usage = "solocore vcpu bind <PID> [VCPU]\n       \
            solocore vcpu bind --cgroup <PATH> [VCPU]\n       solocore vcpu bind --unit <NAME> [VCPU]")]
    Bind(BindArgs),
}

#[derive(Debug, Args)]
pub struct BindArgs {
    /// Number of the process; left out with --cgroup and --unit.
    #[arg(required_unless_present_any = ["cgroup", "unit"])]
    pub pid: Option<String>,
    /// Name or number of the VCPU; without it, best effort.
    pub vcpu: Option<String>,
    /// Bind all processes of this control group and of those below it, also the ones that come
    /// later. PATH is below /sys/fs/cgroup, or as /proc/PID/cgroup has it.
    #[arg(long, value_name = "PATH", conflicts_with = "unit")]
    pub cgroup: Option<String>,
    /// Bind all processes of this unit of systemd (a service, a scope or a slice) likewise.
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
}

#[derive(Debug, Args)]
pub struct DrillArgs {
    /// Number of rounds; 0 counts the objects of BPF, and provokes no fault.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub times: u32,
    /// Faults to provoke, by turns; list one more than once to have it more often.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "error,exit",
        value_name = "LIST"
    )]
    pub faults: Vec<Fault>,
    /// A process that is in a VCPU each time, and must survive; may be repeated.
    #[arg(long = "pid", value_name = "PID")]
    pub pids: Vec<u32>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub scheduler: SchedulerArgs,
    /// Create this VCPU, like video=6ms/100ms or video=6ms/100ms@CORE; may be repeated.
    #[arg(long = "vcpu", value_name = "NAME=C/T")]
    pub vcpus: Vec<Named>,
    #[command(flatten)]
    pub throttling: ThrottlingArgs,
    /// End after this time.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// Write the summary to a file as well.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output at the end.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations() {
        let ms =
            |c: u64, t: u64| Reservation { capacity_ns: c * 1_000_000, period_ns: t * 1_000_000 };
        assert_eq!("6ms/100ms".parse(), Ok(ms(6, 100)));
        assert_eq!(" 6 ms / 0.1 s".parse(), Ok(ms(6, 100)));
        for bad in ["6ms", "6/100", "-6ms/100ms", "6ms/", ""] {
            assert!(bad.parse::<Reservation>().is_err(), "{bad}");
        }
        let named = Named { name: "a".to_owned(), reservation: ms(1, 2), core: Some(3) };
        assert_eq!("a=1ms/2ms@3".parse(), Ok(named));
        assert!("=1ms/2ms".parse::<Named>().is_err() && "a=1ms/2ms@x".parse::<Named>().is_err());
        let placed = |core| Ok(PlacedReservation { reservation: ms(1, 20), core });
        assert_eq!("1ms/20ms".parse(), placed(None));
        assert_eq!("1ms/20ms@2".parse(), placed(Some(2)));
        assert!("1ms/20ms@x".parse::<PlacedReservation>().is_err());
    }
}
