//! `solocore bench NAME`: the micro-benchmarks, a file each.

mod bandwidth;
mod banks;
mod camera;
mod colour_start;
mod colours;
mod costs;
mod function_lock;
mod io_load;
mod ipc;
mod latency;
mod lockdown;
mod output;
mod pool;

use crate::fail::Failure;
use crate::progress::{computing, computing_apart};
use std::process::ExitCode;

/// The benchmarks.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Bandwidth of reads or writes of memory (takes the flags of IsolBench's `bandwidth`).
    #[command(
        after_help = "Examples:\n  solocore bench bandwidth -m 8192 -a read -t 1 -c 2\n  solocore \
            bench bandwidth -m 64M -a write -t 0 -c 1 &    # a hog; end it with kill %1"
    )]
    Bandwidth(bandwidth::Args),
    /// Latency of dependent reads (takes the flags of IsolBench's `latency`).
    #[command(
        after_help = "Examples:\n  solocore bench latency -m 65536 -c 0\n  solocore bench latency \
            -m 65536 -s -i 10 --format json"
    )]
    Latency(latency::Args),
    /// Times to send and to receive a message by its size and the place of its buffers (MC2 Fig.
    /// 8).
    #[command(
        after_help = "Examples:\n  solocore bench ipc\n  solocore bench ipc --sizes 64,4096 \
            --policies sbp,ce --hogs 0 --format json\n  solocore bench ipc --format csv --svg \
            ipc.svg"
    )]
    Ipc(ipc::Args),
    /// Share of locked memory that stays in the cache, alone and beside programs that fill it.
    #[command(
        after_help = "Examples:\n  solocore bench lockdown\n  solocore bench lockdown --size \"4 \
            MiB\" --time \"2 s\" --format json\n\nAs root, on a CPU with resctrl, the memory gets \
            cache ways of its own. Elsewhere its pages are only prefetched, and other programs \
            can replace their lines."
    )]
    Lockdown(lockdown::Args),
    /// Reads of a file at an interval, straight into pinned buffers (MC2's Load-Generator).
    #[command(
        after_help = "Examples:\n  solocore bench io-load disk.img\n  solocore bench io-load \
            disk.img --size \"400 KB\" --interval \"2 ms\" --engine uring -c 1\n  solocore bench \
            io-load disk.img --plan plan.json --task video"
    )]
    IoLoad(io_load::Args),
    /// Frames of a V4L2 device, straight into pinned buffers.
    #[command(
        after_help = "Examples:\n  solocore bench camera /dev/video0\n  solocore bench camera \
            /dev/video0 --colored --level-c 50\n\nNeeds a driver that takes user pointers. Exit \
            code 1: a page lay in a frame of another list."
    )]
    Camera(camera::Args),
    /// The entries of [levels.costs] on this machine, as lines for a system file.
    #[command(
        after_help = "Examples:\n  solocore bench costs\n  solocore bench costs --file disk.img \
            --repetitions 31 >> system.toml\n  sudo solocore bench costs --file disk.img --map \
            map.txt --format json\n\nMeasures on a quiet machine. The lines need contention = \
            \"measured\" in [levels]. Costs that are not measured keep the study's values \
            (docs/levels.md)."
    )]
    Costs(costs::Args),
    /// Cost of a page or object of a coloured pool, compared with mmap and munmap.
    #[command(
        after_help = "Examples:\n  solocore bench pool\n  solocore bench pool --memory \"256 MiB\" \
            --format json\n\nAs root, the pool has real frames of this machine. Otherwise it has \
            made-up frame numbers, which do not change the cost of the lists."
    )]
    Pool(pool::Args),
    /// Cost of holding the bandwidth lock in a function of an unmodified program.
    #[command(
        after_help = "Examples:\n  solocore bench function-lock\n  solocore bench function-lock \
            --calls 10000 --format json\n\nNeeds root. The command puts its probes into its own program. Exit code 3: the \
            kernel lost some of the calls."
    )]
    FunctionLock(function_lock::Args),
    /// Time of reads from two rows of one DRAM bank, compared with rows of two banks.
    #[command(
        after_help = "Examples:\n  solocore bench banks --map map.txt\n  solocore bench banks \
            --map map.txt --format json\n\nNeeds root and a map with banks (`solocore space \
            map`). If the times do not differ, the output says so."
    )]
    Banks(banks::Args),
    /// Time of reads with cache colours that a neighbour uses too, compared with own colours.
    #[command(
        after_help = "Examples:\n  solocore bench colors\n  solocore bench colors --size \"8 \
            MiB\" --neighbour \"128 MiB\" --format json\n\nNeeds root and two CPUs. If the times \
            do not differ, the output says so.",
        name = "colors",
        alias = "colours"
    )]
    Colours(colours::Args),
    /// Time to start and run a program in its colours, compared with a plain start.
    #[command(
        after_help = "Examples:\n  solocore bench color-start\n  solocore bench color-start \
            --colors 0-15 --runs 20\n  solocore bench color-start --colors 0-7 -- ./detect \
            a.pgm\n\nNeeds root. The default command is dd, which fills a buffer of 64 MiB.",
        name = "color-start",
        alias = "colour-start"
    )]
    ColourStart(colour_start::Args),
}

/// Runs a benchmark.
pub fn run(bench: &Bench) -> Result<ExitCode, Failure> {
    match bench {
        Bench::Bandwidth(args) => computing_apart(|| bandwidth::run(args)),
        Bench::Latency(args) => computing_apart(|| latency::run(args)),
        Bench::Ipc(args) => ipc::run(args),
        Bench::Lockdown(args) => lockdown::run(args),
        Bench::IoLoad(args) => io_load::run(args),
        Bench::Camera(args) => camera::run(args),
        Bench::Costs(args) => costs::run(args),
        Bench::Pool(args) => computing_apart(|| pool::run(args)),
        Bench::FunctionLock(args) => computing(|| function_lock::run(args)),
        Bench::Banks(args) => computing_apart(|| banks::run(args)),
        Bench::Colours(args) => computing_apart(|| colours::run(args)),
        Bench::ColourStart(args) => colour_start::run(args),
    }
}
