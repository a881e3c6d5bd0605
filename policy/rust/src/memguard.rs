//! Bandwidth regulation of the cores (`policy/include/solocore/memguard.h`).

use crate::UNLIMITED;
use crate::raw;

/// State that the cores share. Here the caller keeps one core at a time in it.
pub use crate::raw::sc_memguard as MemGuard;

/// The regulator of one core.
pub use crate::raw::sc_memguard_core as MemGuardCore;

/// Reads or writes: they have budgets of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Accesses that read.
    Read = 0,
    /// Accesses that write.
    Write = 1,
}

/// Use of the rest of a period when every core has used its reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Sharing {
    /// Nothing: all wait for the next period.
    #[default]
    None = 0,
    /// No limit until the period ends.
    Spare = 1,
    /// Another reservation each.
    Proportional = 2,
}

/// Role of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Whether it never gives budget away.
    pub hard: bool,
    /// Whether it gives away the part of its budget that it is not predicted to use.
    pub predict: bool,
    /// Whether it takes budget that others gave away.
    pub reclaim: bool,
}

impl Role {
    fn flags(self) -> u32 {
        u32::from(self.hard) | u32::from(self.predict) << 1 | u32::from(self.reclaim) << 2
    }
}

/// Verdict on a core after its accesses were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Stop until the next period or round.
    Stop,
    /// Go on.
    Go,
    /// A shared round begins: every core, this one too, calls [`MemGuardCore::resume`].
    GoAll,
}

impl Verdict {
    fn of(word: u32) -> Self {
        match word {
            0 => Verdict::Stop,
            1 => Verdict::Go,
            _ => Verdict::GoAll,
        }
    }
}

impl MemGuard {
    /// Regulation with periods of `period_ns`, `chunk` accesses taken from the pool at a time, for
    /// this number of cores. `None` if a value is out of range (period 1 ns to 73 minutes, chunk 1
    /// to 2^32-1, cores 1 to 256).
    pub fn new(period_ns: u64, chunk: u64, sharing: Sharing, cores: u32) -> Option<Self> {
        let mut g = Self::default();
        // SAFETY: `g` is valid and of the layout that both sides check.
        let ok =
            unsafe { raw::sc_memguard_init(&raw mut g, period_ns, chunk, sharing as u32, cores) };
        (ok != 0).then_some(g)
    }

    /// Accesses given away in the latest period in which a core gave or looked.
    pub fn pool(&self, kind: Kind) -> u64 {
        self.pool[kind as usize] & u64::from(u32::MAX)
    }
}

impl MemGuardCore {
    /// A core whose first period starts at `now_ns`, with `reads` and `writes` accesses per period
    /// ([`UNLIMITED`] for a kind that is not regulated); `None` if one is 0 or above 2^32-1.
    pub fn new(
        shared: &mut MemGuard,
        reads: u64,
        writes: u64,
        role: Role,
        now_ns: u64,
    ) -> Option<Self> {
        let mut core = Self::default();
        let reservation = [reads, writes];
        // SAFETY: both structures are valid, and the reservations are two words.
        let ok = unsafe {
            raw::sc_memguard_core_init(
                shared,
                &raw mut core,
                reservation.as_ptr(),
                role.flags(),
                now_ns,
            )
        };
        (ok != 0).then_some(core)
    }

    /// Asks for another reservation from the next period on; false if it is out of range.
    pub fn request(&mut self, kind: Kind, reservation: u64) -> bool {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_memguard_request(self, kind as u32, reservation) != 0 }
    }

    /// The timer of the period fired; true if a new period has begun.
    pub fn replenish(&mut self, shared: &mut MemGuard, now_ns: u64) -> bool {
        // SAFETY: both are valid.
        unsafe { raw::sc_memguard_replenish(shared, self, now_ns) != 0 }
    }

    /// Counts accesses that the core made.
    pub fn account(&mut self, shared: &mut MemGuard, kind: Kind, accesses: u64) -> Verdict {
        // SAFETY: both are valid.
        Verdict::of(unsafe { raw::sc_memguard_account(shared, self, kind as u32, accesses) })
    }

    /// Takes part in a shared round, if there is one; true if the core may run.
    pub fn resume(&mut self, shared: &mut MemGuard) -> bool {
        // SAFETY: both are valid.
        unsafe { raw::sc_memguard_resume(shared, self) != 0 }
    }

    /// Number of accesses after which a counter must interrupt: 1 to 2^31-1.
    pub fn sample(&self, kind: Kind) -> u64 {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_memguard_sample(self, kind as u32) }
    }

    /// Whether the core must not run.
    pub fn throttled(&self) -> bool {
        self.throttled != 0
    }

    /// Accesses in this period.
    pub fn used(&self, kind: Kind) -> u64 {
        self.used[kind as usize]
    }

    /// Accesses granted in this period so far.
    pub fn budget(&self, kind: Kind) -> u64 {
        self.budget[kind as usize]
    }

    /// Accesses expected per period.
    pub fn predicted(&self, kind: Kind) -> u64 {
        self.predicted[kind as usize]
    }

    /// Number of shared rounds in this period.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Start of the next period, in ns.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Whether the kind is limited at all.
    pub fn limited(&self, kind: Kind) -> bool {
        self.reservation[kind as usize] != UNLIMITED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        static sc_size_memguard: u64;
        static sc_size_memguard_core: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: constants of the C side.
        let sizes = unsafe { [sc_size_memguard, sc_size_memguard_core] };
        assert_eq!(sizes, [size_of::<MemGuard>() as u64, size_of::<MemGuardCore>() as u64]);
    }

    #[test]
    fn the_budgets_last_access_stops_the_core() {
        let mut g = MemGuard::new(1000, 1, Sharing::None, 1).unwrap();
        let mut c = MemGuardCore::new(&mut g, 3, UNLIMITED, Role::default(), 0).unwrap();
        assert_eq!(c.sample(Kind::Read), 3);
        assert_eq!(c.account(&mut g, Kind::Read, 2), Verdict::Go);
        assert_eq!(c.account(&mut g, Kind::Write, 9), Verdict::Go);
        assert_eq!(c.account(&mut g, Kind::Read, 1), Verdict::Stop);
        assert!(!c.replenish(&mut g, 999) && c.throttled());
        assert!(c.replenish(&mut g, 1000) && !c.throttled());
        assert_eq!((c.used(Kind::Read), c.next_ns()), (0, 2000));
    }
}
