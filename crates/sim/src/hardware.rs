//! A board as the kernel sees it: cores that run programs, counters that overflow, devices that
//! move data.
//!
//! Two implementations share this interface: `machine` computes every request, `fluid` whole
//! intervals. This module decides nothing: the kernel chooses the programs and handles overflows,
//! and asks `solocore-policy` for both.
//!
//! Protocol. The kernel calls [`Hardware::advance`] with the time of its next timer. The hardware
//! moves to that time, or to the first event that the kernel must see, if that is earlier, and
//! returns it. The kernel may then dispatch programs, arm counters or start devices, all at the
//! current time, and calls `advance` again. Times are picoseconds and never go back.

use crate::program::Signal;
pub use solocore_dram::Uncore;

/// Index of a program, in the order in which the hardware was given them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub u32);

/// Index of a DMA engine, in the order in which the hardware was given them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// An event that the kernel must see. Its time is [`Hardware::now_ps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The counter of a core reached the number that it was armed with. It is no longer armed; the
    /// core runs on.
    Overflow {
        /// Number of the core.
        core: usize,
    },
    /// A program reached a signal. Its core idles until it is dispatched again.
    Signal {
        /// Number of the core on which it ran.
        core: usize,
        /// Index of the program.
        program: ProgramId,
        /// The signal.
        signal: Signal,
    },
    /// A device finished the transfer that it was ordered to make.
    Transferred {
        /// Index of the device.
        device: DeviceId,
    },
}

/// Counters of a core or of a program. They never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Cycles of computation without stalls. Instructions retired are these cycles over the
    /// platform's cycles per instruction.
    pub compute_cycles: u64,
    /// Time dispatched, with stalls, without idle time and overheads.
    pub busy_ps: u64,
    /// Accesses by operations.
    pub accesses: u64,
    /// Accesses to the shared cache.
    pub llc_accesses: u64,
    /// Misses of the shared cache.
    pub llc_misses: u64,
    /// Lines read from DRAM.
    pub dram_reads: u64,
    /// Lines written to DRAM: dirty lines that its accesses evicted, and lines that it wrote past
    /// the cache.
    pub dram_writes: u64,
}

impl Counters {
    /// DRAM accesses, as a regulator counts them.
    #[must_use]
    pub const fn transactions(&self) -> u64 {
        self.dram_reads + self.dram_writes
    }
}

/// A device's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// First line, counted in the device's own buffer, modulo its length.
    pub offset_lines: u64,
    /// Lines to move.
    pub lines: u64,
    /// Into memory (the device reads from outside and writes to DRAM), or out of it.
    pub into_memory: bool,
}

/// Cores, memory and devices.
pub trait Hardware {
    /// Number of cores.
    fn cores(&self) -> usize;

    /// The current time, ps.
    fn now_ps(&self) -> u64;

    /// From now on `core` runs `program` from where it stopped, after `overhead_ps` without useful
    /// work; `None` idles. The program that ran there keeps its state and can be dispatched
    /// anywhere later. The caller dispatches a program on one core at a time.
    ///
    /// A core that waits for data takes no interrupt: the change happens when the data are there. A
    /// program that has been dispatched elsewhere meanwhile then begins there. Overheads add up:
    /// the rest of an earlier one passes first.
    fn dispatch(&mut self, core: usize, program: Option<ProgramId>, overhead_ps: u64);

    /// The program that is dispatched on a core.
    fn running(&self, core: usize) -> Option<ProgramId>;

    /// Gives up the current job of a program that is not dispatched.
    fn abandon_job(&mut self, program: ProgramId);

    /// Moves to `until_ps`, or to the first notice before or at it. Events at one time come in a
    /// fixed order.
    fn advance(&mut self, until_ps: u64) -> Option<Notice>;

    /// Arms the counter of a core: it gives a notice after this number of further accesses,
    /// reads and write-backs together. `None` disarms it. Zero gives a notice at once.
    fn arm(&mut self, core: usize, transactions: Option<u64>);

    /// Counts of a core.
    fn core(&self, core: usize) -> Counters;

    /// Counts of a program.
    fn program(&self, program: ProgramId) -> Counters;

    /// Cost of preemption within a program's busy time, ps; it is not an execution time of a job.
    /// It is the time of the operations that [`Program::resumed`](crate::program::Program::resumed)
    /// added, and the wait for accesses of the program before it on its core. 0 where it is not
    /// known separately.
    fn recovered_ps(&self, program: ProgramId) -> u64 {
        let _ = program;
        0
    }

    /// Counts of the memory controller.
    fn uncore(&self) -> Uncore;

    /// Starts a transfer; the device must be idle.
    fn transfer(&mut self, device: DeviceId, order: Transfer);
}
