//! Input of the optimiser: tasks with their costs, message buffers and I/O buffers.

use super::curve::{power, powers};
use super::scheme::Io;
use super::ways::SIZES;
use solocore_analysis::levels::Level;

/// DRAM banks from which scheme R draws: those below the number of cores are the cores', the others
/// are for level C and the OS.
pub const BANKS: u32 = 8;

/// A task's I/O buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IoBuffer {
    /// Share of the job's idle time that copies the data.
    pub copy_share: f64,
    /// Data, in 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Longer by this share of the job's idle time, if others access the buffer's bank.
    pub penalty: f64,
    /// DMA goes to this buffer; else the kernel copies from others, which stay in the banks of
    /// level C.
    pub direct: bool,
    /// Its bank under scheme R.
    pub bank: u32,
    /// Is it among the half of its level's I/O tasks with the longest periods?
    pub long: bool,
    /// Is it among the half with the shortest periods?
    pub short: bool,
}

/// A task. Shares are of its execution time in an idle system with the whole cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimiserTask {
    /// Criticality.
    pub level: Level,
    /// Period, and deadline, in milliseconds.
    pub period_ms: f64,
    /// Utilization by the level-A PET.
    pub utilization: f64,
    /// Level-C PET over level-B PET.
    pub average: f64,
    /// With `w` ways a job takes `flat + steep*factor^w`: 1 with all ways.
    pub flat: f64,
    /// See `flat`.
    pub steep: f64,
    /// See `flat`.
    pub factor: f64,
    /// Longer by up to this share when DMA keeps the bus busy.
    pub bus: f64,
    /// Longer by up to this share times `factor^w` when DMA goes to its bank.
    pub bank: f64,
    /// Longer by up to this share when other cores access its bank.
    pub victim: f64,
    /// Longer by this share if it can be preempted (levels B and C).
    pub reload: f64,
    /// Its I/O buffer.
    pub io: Option<IoBuffer>,
}

/// Time of the accesses to a message buffer, as shares of the idle time of the sender or receiver,
/// which contains them at the cost of CE.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accesses {
    /// Under CE: contained in the idle time.
    pub share: f64,
    /// Added by SBP.
    pub bypass: f64,
    /// Added by a cacheable buffer in the banks of level C; not below `bypass`.
    pub level_c: f64,
    /// Saved by CL, not negative.
    pub locked: f64,
}

/// A message buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Index of the sending task.
    pub sender: usize,
    /// Index of the receiving task.
    pub receiver: usize,
    /// Size.
    pub bytes: u32,
    /// Its bank under scheme R.
    pub bank: u32,
    /// Costs of the sender.
    pub sending: Accesses,
    /// Costs of the receiver.
    pub receiving: Accesses,
}

/// A task system.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskSystem {
    /// Cores of its machine, 1 to [`MOST_CORES`](super::ways::MOST_CORES).
    pub cores: usize,
    /// Tasks: level A, then B, then C.
    pub tasks: Vec<OptimiserTask>,
    /// Index of the first task of level B, and of level C.
    pub starts: [usize; 2],
    /// Message buffers of levels A and B, then those of level C.
    pub edges: Vec<Edge>,
    /// Number of message buffers of levels A and B.
    pub bound_edges: usize,
    /// The tasks of levels A and B with each chain in one piece.
    pub order: Vec<usize>,
    /// Pieces of `order`: chains, and tasks that exchange nothing.
    pub groups: Vec<(usize, usize)>,
    /// All DMA, in 10^6 bytes per second.
    pub dma: f64,
    /// The part of its limit that bus contention by DMA has reached, 0 to 1.
    pub bus_load: f64,
    /// By task, the values that replace `factor^w`, by ways. Empty (the study's tasks have
    /// `factor`), or one for each task.
    pub curves: Vec<[f64; SIZES]>,
    /// Cores to which tasks of levels A and B are bound. Empty, or one for each of these tasks.
    pub pins: Vec<Option<usize>>,
}

impl TaskSystem {
    /// The core to which a task of levels A and B is bound.
    #[must_use]
    pub fn pin(&self, task: usize) -> Option<usize> {
        self.pins.get(task).copied().flatten()
    }

    /// Share of a task's `steep` that is left with this number of ways.
    #[must_use]
    pub fn remaining(&self, task: usize, ways: usize) -> f64 {
        self.curves
            .get(task)
            .map_or_else(|| power(self.tasks[task].factor, ways), |curve| curve[ways])
    }

    /// [`TaskSystem::remaining`] by ways.
    #[must_use]
    pub fn curve(&self, task: usize) -> [f64; SIZES] {
        self.curves.get(task).copied().unwrap_or_else(|| powers(self.tasks[task].factor))
    }

    /// Tasks of levels A and B.
    #[must_use]
    pub fn bound(&self) -> &[OptimiserTask] {
        &self.tasks[..self.starts[1]]
    }

    /// Tasks of level C.
    #[must_use]
    pub fn global(&self) -> &[OptimiserTask] {
        &self.tasks[self.starts[1]..]
    }
}

/// Is the I/O buffer of a task in its core's bank under a rule of the paper?
#[must_use]
pub fn own_bank(task: &OptimiserTask, io: Io) -> bool {
    task.io.is_some_and(|buffer| match io {
        Io::All => true,
        Io::LongPeriods => buffer.long,
        Io::ShortPeriods => buffer.short,
        Io::LevelC | Io::Random | Io::PerBuffer => false,
    })
}
