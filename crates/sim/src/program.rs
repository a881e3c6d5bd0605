//! Programs that run on a core: a stream of computation, memory accesses and signals.
//!
//! A [`Program`] knows nothing of time, caches or other programs: the same stream runs on the
//! request-level machine, is measured for the fluid one, and can be profiled. Addresses are virtual
//! line numbers; [`Space`] places their pages.

use schemars::JsonSchema;
use serde::Deserialize;
use solocore_cache::trace::Kind;

/// One operation, packed: computation, then perhaps an access or a signal.
///
/// Bits 0 to 3 are the kind, 4 to 23 the cycles of computation before it (its own included), 24 to
/// 63 the virtual line (or the signal, or more cycles).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Op(u64);

/// Action of an operation after its computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    /// No access and no signal.
    Compute = 0,
    /// A load whose data the program does not need at once: it goes on while miss registers are
    /// free.
    Load = 1,
    /// A load whose data the next operation needs: the core waits.
    LoadWait = 2,
    /// A store: posted; a miss fetches the line and holds a miss register meanwhile.
    Store = 3,
    /// An instruction fetch: the core waits.
    Fetch = 4,
    /// A store of a whole line that is not read first (a non-temporal store, a cleared cache line,
    /// an evicted dirty line).
    StoreLine = 5,
    /// Tells the kernel something; the core stops until the kernel dispatches again.
    Signal = 6,
    /// A prefetch: posted, nothing waits for its data; a miss holds a miss register.
    Prefetch = 7,
}

/// Message of a program to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The job is complete; the next operations belong to the next job.
    JobEnd,
    /// Enters a memory-performance critical section (`bw_lock()`).
    Lock,
    /// Leaves the critical section.
    Unlock,
    /// Gives the core up for this many microseconds (a timed wait, a device).
    Sleep(u32),
    /// Passes a point that an observer counts, with the program's own number.
    Mark(u32),
}

/// Kind by the lowest four bits of an operation.
const KINDS: [OpKind; 16] = {
    let mut kinds = [OpKind::Signal; 16];
    kinds[0] = OpKind::Compute;
    kinds[1] = OpKind::Load;
    kinds[2] = OpKind::LoadWait;
    kinds[3] = OpKind::Store;
    kinds[4] = OpKind::Fetch;
    kinds[5] = OpKind::StoreLine;
    kinds[7] = OpKind::Prefetch;
    kinds
};

/// The kinds with an access, and the kinds that write, as bit masks.
const ACCESSES: u32 = 1 << OpKind::Load as u32
    | 1 << OpKind::LoadWait as u32
    | 1 << OpKind::Prefetch as u32
    | 1 << OpKind::Fetch as u32
    | WRITES;
const WRITES: u32 = 1 << OpKind::Store as u32 | 1 << OpKind::StoreLine as u32;

impl Op {
    /// Most cycles that fit beside an access.
    pub const MAX_GAP: u64 = (1 << 20) - 1;
    /// Most cycles of one [`Op::compute`].
    pub const MAX_COMPUTE: u64 = (1 << 40) - 1;

    /// Computation only; `cycles` up to [`Op::MAX_COMPUTE`].
    #[must_use]
    pub const fn compute(cycles: u64) -> Self {
        assert!(cycles <= Self::MAX_COMPUTE);
        Self(cycles << 24)
    }

    /// `gap` cycles of computation up to [`Op::MAX_GAP`], then an access to a virtual line below
    /// 2^40.
    #[must_use]
    pub const fn access(kind: OpKind, gap: u64, line: u64) -> Self {
        assert!(gap <= Self::MAX_GAP && line < 1 << 40);
        Self(kind as u64 | gap << 4 | line << 24)
    }

    /// A signal, without computation.
    #[must_use]
    pub const fn signal(signal: Signal) -> Self {
        let (tag, value) = match signal {
            Signal::JobEnd => (0, 0),
            Signal::Lock => (1, 0),
            Signal::Unlock => (2, 0),
            Signal::Sleep(us) => (3, us),
            Signal::Mark(mark) => (4, mark),
        };
        Self(OpKind::Signal as u64 | tag << 4 | (value as u64) << 24)
    }

    /// Kind of the operation.
    #[must_use]
    pub const fn kind(self) -> OpKind {
        // A table: compilers turn a match into a jump here, which no CPU predicts.
        KINDS[(self.0 & 15) as usize]
    }

    /// Has it an access? Then [`Op::gap`] and [`Op::writes`] hold.
    pub(crate) const fn is_access(self) -> bool {
        ACCESSES >> (self.0 & 15) & 1 == 1
    }

    pub(crate) const fn is_fetch(self) -> bool {
        self.0 & 15 == OpKind::Fetch as u64
    }

    /// Cycles of computation before an access.
    pub(crate) const fn gap(self) -> u64 {
        self.0 >> 4 & Self::MAX_GAP
    }

    /// Makes its access the line dirty?
    pub(crate) const fn writes(self) -> bool {
        WRITES >> (self.0 & 15) & 1 == 1
    }

    /// Cycles of computation before the access.
    #[must_use]
    pub const fn cycles(self) -> u64 {
        match self.kind() {
            OpKind::Compute => self.0 >> 24,
            OpKind::Signal => 0,
            _ => self.0 >> 4 & Self::MAX_GAP,
        }
    }

    /// Virtual line of an access.
    #[must_use]
    pub const fn line(self) -> u64 {
        self.0 >> 24
    }

    /// The signal of an operation of that kind.
    #[must_use]
    pub const fn signal_value(self) -> Signal {
        let value = (self.0 >> 24) as u32;
        match self.0 >> 4 & 15 {
            0 => Signal::JobEnd,
            1 => Signal::Lock,
            2 => Signal::Unlock,
            3 => Signal::Sleep(value),
            _ => Signal::Mark(value),
        }
    }
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind() {
            OpKind::Compute => write!(f, "compute {}", self.cycles()),
            OpKind::Signal => write!(f, "{:?}", self.signal_value()),
            kind => write!(f, "{} then {kind:?} {:#x}", self.cycles(), self.line()),
        }
    }
}

impl OpKind {
    /// The operation that replays a recorded access of a core that waits for each of its reads.
    #[must_use]
    pub const fn recorded(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::LoadWait,
            Kind::Fetch => Self::Fetch,
            Kind::Write => Self::StoreLine,
        }
    }
}

/// Level at which the accesses of a program enter the memory system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// At the core's private caches.
    Private,
    /// At the shared cache: a recorded stream that private caches have filtered already.
    Shared,
}

/// A stream of operations without end: jobs follow each other, each ended by [`Signal::JobEnd`]
/// where there are jobs.
///
/// Deterministic: the stream depends on how the program was made (its seed included) and on the
/// calls, never on time.
pub trait Program: Send {
    /// Appends the next operations to `out`: at least one, some hundreds at most.
    fn refill(&mut self, out: &mut Vec<Op>);

    /// Level at which its accesses enter.
    fn entry(&self) -> Entry {
        Entry::Private
    }

    /// Number of its virtual pages: lines are below this times the lines of a page.
    fn pages(&self) -> u32;

    /// Gives up the current job: the next operation is the first of the next job.
    fn abandon_job(&mut self);

    /// Appends the accesses that a return costs after another program had the core, beyond those
    /// that the machine's own private caches show. (For [`Entry::Shared`], the private caches'
    /// lines are read again.)
    fn resumed(&mut self, out: &mut Vec<Op>) {
        let _ = out;
    }
}

/// Treatment of a page by the memory system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// Cached in all ways that the program may use.
    #[default]
    Cached,
    /// Locked in the shared cache: every access is a hit there.
    Locked,
    /// Never allocated in the shared cache (private caches may hold it).
    Bypass,
    /// Never cached at all: every access is a DRAM access (device buffers on boards without
    /// coherent I/O).
    Uncached,
}

/// Page frames of a program, and their treatment.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Page frame of each virtual page.
    pub frames: Vec<u64>,
    /// Treatment of each page; pages beyond the end of the list are [`PageKind::Cached`].
    pub kinds: Vec<PageKind>,
    /// Ways of the shared cache that its misses may allocate in, as a bit mask; with 0 they
    /// allocate nowhere.
    pub ways: u64,
    /// Page frames of its page table, read where the machine has translation buffers.
    pub tables: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_keep_what_they_are_given() {
        let op = Op::access(OpKind::Store, Op::MAX_GAP, (1 << 40) - 1);
        assert_eq!(
            (op.kind(), op.cycles(), op.line()),
            (OpKind::Store, Op::MAX_GAP, (1 << 40) - 1)
        );
        let op = Op::compute(Op::MAX_COMPUTE);
        assert_eq!((op.kind(), op.cycles()), (OpKind::Compute, Op::MAX_COMPUTE));
        for s in
            [Signal::JobEnd, Signal::Lock, Signal::Unlock, Signal::Sleep(u32::MAX), Signal::Mark(7)]
        {
            let op = Op::signal(s);
            assert_eq!((op.kind(), op.cycles(), op.signal_value()), (OpKind::Signal, 0, s));
        }
    }
}
