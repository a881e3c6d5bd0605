//! Load balancing of VCPUs (`policy/include/solocore/balance.h`).

use crate::NONE;
use crate::raw::{self, sc_balance_move as RawMove};
use crate::ready_set::ReadySet;

/// The core of each VCPU. 240 KiB: in a box.
pub use crate::raw::sc_balance as Balance;

/// A core and its VCPUs.
pub use crate::raw::sc_balance_core as BalanceCore;

/// Moves of a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moves {
    /// Number of moved VCPUs, at least 1.
    pub count: u64,
    /// The last one that moved.
    pub vcpu: u32,
    /// The core to which they moved.
    pub to: u32,
}

impl BalanceCore {
    /// Slack per VCPU, 32 bits after the point, rounded down; [`crate::UNLIMITED`] without VCPUs.
    pub fn slack(&self) -> u64 {
        self.slack
    }

    /// Sum of the utilisations, 32 bits after the point, each rounded up.
    pub fn utilization(&self) -> u64 {
        self.utilization
    }

    /// Free page colours.
    pub fn colours(&self) -> u64 {
        self.colours
    }

    /// Ids of the core's VCPUs.
    pub fn vcpus(&self) -> &ReadySet {
        &self.vcpus
    }
}

impl Balance {
    /// This number of cores (1 to 256) without VCPUs and without colours. `cache_aware`: a VCPU
    /// only goes to a core with enough free page colours. `None` if there are no cores or too many.
    pub fn new(cores: u32, cache_aware: bool) -> Option<Box<Self>> {
        // SAFETY: integers only.
        let mut b: Box<Self> = unsafe { crate::zeroed() };
        // SAFETY: `b` is valid, zeroed and of the layout that both sides check.
        let ok = unsafe { raw::sc_balance_init(&raw mut *b, cores, cache_aware.into()) };
        (ok != 0).then_some(b)
    }

    /// Sets the number of free page colours of a core; false if there is no such core.
    pub fn set_colours(&mut self, core: u32, free: u64) -> bool {
        // SAFETY: `self` is valid.
        unsafe { raw::sc_balance_colours(self, core, free) != 0 }
    }

    /// Adds VCPU `id` (0 to 4095) to a core, with its utilisation from
    /// [`crate::admission::utilization`]. False if it is there already, the core is full (64), does
    /// not exist or has too few free colours.
    pub fn add(&mut self, id: u32, utilization: u64, core: u32, colours: u64) -> bool {
        // SAFETY: `self` is valid.
        unsafe { raw::sc_balance_add(self, id, utilization, core, colours) != 0 }
    }

    /// Removes a VCPU; false if there is no such VCPU.
    pub fn remove(&mut self, id: u32) -> bool {
        // SAFETY: `self` is valid.
        unsafe { raw::sc_balance_remove(self, id) != 0 }
    }

    /// Sets whether a VCPU stays on its core; at first it does not. False if there is no such VCPU.
    pub fn fix(&mut self, id: u32, fixed: bool) -> bool {
        // SAFETY: `self` is valid.
        unsafe { raw::sc_balance_fix(self, id, fixed.into()) != 0 }
    }

    /// The core of a VCPU.
    pub fn core_of(&self, id: u32) -> Option<u32> {
        // SAFETY: `self` is valid.
        let core = unsafe { raw::sc_balance_where(self, id) };
        (core != NONE).then_some(core)
    }

    /// The core with the most slack that can schedule this VCPU: its own if none is better.
    pub fn host(&self, id: u32) -> Option<u32> {
        // SAFETY: `self` is valid.
        let core = unsafe { raw::sc_balance_host(self, id) };
        (core != NONE).then_some(core)
    }

    /// The core with the least slack; its migration thread must be woken when a VCPU blocks. `None`
    /// if there are no VCPUs.
    pub fn trigger(&self) -> Option<u32> {
        // SAFETY: `self` is valid.
        let core = unsafe { raw::sc_balance_trigger(self) };
        (core != NONE).then_some(core)
    }

    /// Moves at most `limit` VCPUs of a core to a less loaded one; `None` if there was nothing to
    /// move.
    pub fn rebalance(&mut self, from: u32, limit: u32) -> Option<Moves> {
        let mut raw = RawMove::default();
        // SAFETY: `self` and `raw` are valid.
        let ok = unsafe { raw::sc_balance_rebalance(self, from, limit, &raw mut raw) };
        let vcpu = u32::try_from(raw.vcpu).unwrap_or(NONE);
        (ok != 0 && raw.moves != 0).then_some(Moves { count: raw.moves, vcpu, to: raw.to })
    }

    /// A core, if it exists.
    pub fn core(&self, core: u32) -> Option<&BalanceCore> {
        self.core.get(..self.cores as usize)?.get(core as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::utilization;

    unsafe extern "C" {
        static sc_size_balance: u64;
        static sc_size_balance_move: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: constants of the C side.
        let sizes = unsafe { [sc_size_balance, sc_size_balance_move] };
        assert_eq!(sizes, [size_of::<Balance>() as u64, size_of::<RawMove>() as u64]);
    }

    #[test]
    fn a_loaded_core_gives_to_an_empty_one() {
        let mut b = Balance::new(2, false).unwrap();
        for id in 0..4 {
            assert!(b.add(id, utilization(1, 5).unwrap(), 0, 0));
        }
        assert_eq!((b.trigger(), b.host(0)), (Some(0), Some(1)));
        assert_eq!(b.rebalance(0, 1), Some(Moves { count: 1, vcpu: 0, to: 1 }));
        assert_eq!(b.core_of(0), Some(1));
        assert_eq!(b.core(0).unwrap().vcpus().len(), 3);
    }

    #[test]
    fn who_is_fixed_stays() {
        let mut b = Balance::new(2, false).unwrap();
        for id in 0..3 {
            assert!(b.add(id, utilization(1 + u64::from(id), 9).unwrap(), 0, 0));
        }
        assert!(b.fix(0, true) && !b.fix(3, true));
        assert_eq!(b.rebalance(0, 1), Some(Moves { count: 1, vcpu: 1, to: 1 }));
        assert!(b.fix(2, true));
        assert_eq!(b.rebalance(0, 9), None);
    }

    #[test]
    fn without_colours_it_stays() {
        let mut b = Balance::new(2, true).unwrap();
        assert!(b.set_colours(0, 8) && b.set_colours(1, 3));
        assert!(
            b.add(0, utilization(1, 2).unwrap(), 0, 4)
                && b.add(1, utilization(1, 2).unwrap(), 0, 4)
        );
        assert!(!b.add(2, utilization(1, 2).unwrap(), 0, 1), "no colours left");
        assert_eq!((b.rebalance(0, 9), b.host(0)), (None, Some(0)));
        assert!(b.set_colours(1, 4));
        assert_eq!(b.rebalance(0, 9), Some(Moves { count: 1, vcpu: 0, to: 1 }));
        assert_eq!([0, 1].map(|core| b.core(core).unwrap().colours()), [4, 0]);
    }
}
