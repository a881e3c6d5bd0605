//! Sporadic servers (`policy/include/solocore/sporadic_server.h`): budgets that come back one
//! period after they were used (Stanovich et al., RTAS 2010).

use crate::raw::{self, sc_server_config as RawConfig};

/// An amount of budget, and the time of its return.
pub use crate::raw::sc_replenishment as Replenishment;

/// A server. The amounts of its replenishments always add up to its capacity.
pub use crate::raw::sc_server as Server;

/// Maximum number of entries of a list of replenishments (`SC_MAX_REPLENISHMENTS`).
pub const MAX_REPLENISHMENTS: usize = raw::SC_MAX_REPLENISHMENTS as usize;

/// Parameters of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Budget per period in ns: 1 to the period.
    pub capacity_ns: u64,
    /// Period in ns: 1 to 2^42 (73 minutes).
    pub period_ns: u64,
    /// Whether [`crate::vcpu::VcpuCore`] wakes it at every dispatch, so that no window of a
    /// period's length has more than the capacity; otherwise only when it unblocks, so that
    /// preemption costs it nothing.
    pub strict: bool,
    /// Entries of the list of replenishments: 1 to [`MAX_REPLENISHMENTS`].
    pub limit: u32,
}

impl From<Config> for RawConfig {
    fn from(config: Config) -> Self {
        let Config { capacity_ns, period_ns, strict, limit } = config;
        Self { capacity_ns, period_ns, flags: strict.into(), limit }
    }
}

impl Server {
    /// A server with its whole capacity at `now_ns`; `None` if the configuration is out of range.
    pub fn new(config: Config, now_ns: u64) -> Option<Self> {
        let mut server = Self::default();
        // SAFETY: `server` and the configuration are valid and of the layouts that both sides
        // check.
        let ok = unsafe { raw::sc_server_init(&raw mut server, &RawConfig::from(config), now_ns) };
        (ok != 0).then_some(server)
    }

    /// A server with these replenishments, for one that comes from another core. `None` if the
    /// configuration is out of range, there are none or too many, or they do not add up to the
    /// capacity.
    pub fn with_budget(config: Config, budget: &[Replenishment]) -> Option<Self> {
        let mut server = Self::new(config, 0)?;
        let sum = budget.iter().try_fold(0u64, |sum, r| sum.checked_add(r.amount_ns))?;
        if budget.is_empty() || budget.len() > config.limit as usize || sum != config.capacity_ns {
            return None;
        }
        server.entry.get_mut(..budget.len())?.copy_from_slice(budget);
        server.count = u32::try_from(budget.len()).ok()?;
        Some(server)
    }

    /// The server became runnable (or is dispatched, if strict) at `now_ns`. It uses its budget
    /// from now on, together with replenishments that fall due before that budget is used up.
    pub fn wake(&mut self, now_ns: u64) {
        // SAFETY: `self` is a valid server.
        unsafe { raw::sc_server_wake(self, now_ns) }
    }

    /// The server ran for `used_ns`; at most the capacity of it is counted. Use beyond its budget
    /// is taken from later replenishments.
    pub fn charge(&mut self, used_ns: u64) {
        // SAFETY: `self` is a valid server.
        unsafe { raw::sc_server_charge(self, used_ns) }
    }

    /// Time in ns for which it may run from `now_ns` on; 0 if it has to wait until
    /// [`Self::next_ns`].
    pub fn available_ns(&self, now_ns: u64) -> u64 {
        // SAFETY: `self` is a valid server.
        unsafe { raw::sc_server_available(self, now_ns) }
    }

    /// Time of the first budget, in ns: in the past if there is some.
    pub fn next_ns(&self) -> u64 {
        // SAFETY: `self` is a valid server.
        unsafe { raw::sc_server_next(self) }
    }

    /// The replenishments, earliest first.
    pub fn replenishments(&self) -> impl ExactSizeIterator<Item = Replenishment> + '_ {
        (0..self.count as usize).map(|k| self.entry[(self.first as usize + k) % MAX_REPLENISHMENTS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    unsafe extern "C" {
        static sc_size_server: u64;
        static sc_size_server_config: u64;
    }

    fn server(capacity_ns: u64, period_ns: u64, limit: u32) -> Server {
        Server::new(Config { capacity_ns, period_ns, strict: false, limit }, 0).unwrap()
    }

    fn list(server: &Server) -> Vec<(u64, u64)> {
        server.replenishments().map(|r| (r.time_ns, r.amount_ns)).collect()
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: constants of the C side.
        let sizes = unsafe { [sc_size_server, sc_size_server_config] };
        assert_eq!(sizes, [size_of::<Server>() as u64, size_of::<RawConfig>() as u64]);
    }

    #[test]
    fn what_is_used_comes_back_a_period_later() {
        let mut s = server(4, 10, 8);
        s.charge(3);
        assert_eq!(list(&s), [(3, 1), (10, 3)]);
        s.wake(9);
        assert_eq!((list(&s), s.available_ns(9)), (vec![(9, 4)], 4));
        s.charge(4);
        assert_eq!((list(&s), s.available_ns(18), s.next_ns()), (vec![(19, 4)], 0, 19));
    }

    #[test]
    fn an_overrun_is_taken_from_the_future() {
        let mut s = server(4, 10, 8);
        s.charge(1);
        s.wake(5);
        s.charge(3);
        assert_eq!(list(&s), [(10, 1), (15, 3)]);
        s.charge(2);
        assert_eq!(list(&s), [(16, 2), (20, 1), (25, 1)]);
    }

    #[test]
    fn a_full_list_postpones() {
        let mut s = server(4, 10, 1);
        s.charge(1);
        assert_eq!(list(&s), [(10, 4)]);
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for (capacity_ns, period_ns, limit) in
            [(0, 1, 1), (2, 1, 1), (1, (1 << 42) + 1, 1), (1, 1, 0), (1, 1, 17)]
        {
            assert!(
                Server::new(Config { capacity_ns, period_ns, strict: false, limit }, 0).is_none()
            );
        }
    }

    proptest! {
        /// Budget is neither lost nor made, and the list is sorted, with gaps, and within its
        /// limit.
        #[test]
        fn the_capacity_is_conserved(
            period in 1u64..200, share in 1u64..=100, limit in 1u32..=16,
            steps in prop::collection::vec((any::<bool>(), 0u64..60), 0..200),
        ) {
            let capacity = (period * share / 100).max(1);
            let mut s = server(capacity, period, limit);
            let mut now = 0;
            for (wake, ns) in steps {
                now += ns;
                if wake { s.wake(now) } else { s.charge(ns) }
                let list: Vec<_> = s.replenishments().collect();
                prop_assert_eq!(list.iter().map(|r| r.amount_ns).sum::<u64>(), capacity);
                prop_assert!((1..=limit as usize).contains(&list.len()));
                prop_assert!(list.iter().all(|r| r.amount_ns > 0));
                prop_assert!(list.windows(2).all(|w| w[0].time_ns + w[0].amount_ns < w[1].time_ns));
            }
        }
    }
}
