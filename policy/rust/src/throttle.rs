//! Latency-based throttling of background time (`policy/include/solocore/throttle.h`).

use crate::raw;

/// Cores that may use background time. 6 KiB.
pub use crate::raw::sc_throttle as Throttle;

/// Signs of a contended memory bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Rule {
    /// Cycles per request in the memory controller's queue, at or above the threshold.
    Latency = 0,
    /// Requests of the whole system per monitor period, at or above the threshold.
    Rate = 1,
}

impl Throttle {
    /// Throttling of this number of cores (1 to 256). `threshold`, at least 1, is in cycles per
    /// request or requests per period, by the rule; once requests are at or below `idle_per_mille`
    /// (0 to 1000) of the most seen, throttling is reduced. `None` if a value is out of range.
    pub fn new(cpus: u32, rule: Rule, threshold: u64, idle_per_mille: u32) -> Option<Box<Self>> {
        // SAFETY: integers only.
        let mut t: Box<Self> = unsafe { crate::zeroed() };
        // SAFETY: `t` is valid and of the layout that both sides check.
        let ok = unsafe {
            raw::sc_throttle_init(&raw mut *t, cpus, rule as u32, threshold, idle_per_mille)
        };
        (ok != 0).then_some(t)
    }

    /// Reports a core's requests in the period that ends; false if there is no such core.
    pub fn report(&mut self, cpu: u32, requests: u64) -> bool {
        // SAFETY: `self` is valid.
        unsafe { raw::sc_throttle_report(self, cpu, requests) != 0 }
    }

    /// Ends the monitor period with this occupancy (requests in the queue, summed over cycles) and
    /// this number of requests of the controller. Returns true if the bus was contended.
    pub fn monitor(&mut self, occupancy: u64, requests: u64) -> bool {
        // SAFETY: `self` is valid.
        unsafe { raw::sc_throttle_monitor(self, occupancy, requests) != 0 }
    }

    /// Reports that a core ran `ran_ns` in the background. Returns its virtual time: ns of this
    /// period times requests of the last; 0 if there is no such core.
    pub fn ran(&mut self, cpu: u32, ran_ns: u64) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { raw::sc_throttle_ran(self, cpu, ran_ns) }
    }

    /// Whether this core may use background time now.
    pub fn allowed(&self, cpu: u32) -> bool {
        // SAFETY: `self` is valid.
        unsafe { raw::sc_throttle_allowed(self, cpu) != 0 }
    }

    /// Number of cores.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Number of cores without background time.
    pub fn throttled(&self) -> u32 {
        self.num_throttle
    }

    /// Requests of all cores in the last period.
    pub fn requests(&self) -> u64 {
        self.r_cur
    }

    /// The most requests of a period since throttling began.
    pub fn most_requests(&self) -> u64 {
        self.r_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        static sc_size_throttle: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: a constant of the C side.
        assert_eq!(unsafe { sc_size_throttle }, size_of::<Throttle>() as u64);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        assert!(Throttle::new(0, Rule::Latency, 1, 0).is_none());
        assert!(Throttle::new(257, Rule::Latency, 1, 0).is_none());
        assert!(Throttle::new(1, Rule::Latency, 0, 0).is_none());
        assert!(Throttle::new(1, Rule::Rate, 1, 1001).is_none());
    }

    #[test]
    fn equal_cores_do_not_refuse_each_other() {
        let mut t = Throttle::new(4, Rule::Latency, 100, 500).unwrap();
        assert!(t.monitor(1000, 10) && t.throttled() == 1);
        assert_eq!([0, 1, 2, 3].map(|cpu| t.allowed(cpu)), [true, true, true, false]);
    }

    #[test]
    fn the_core_that_loads_the_bus_most_waits() {
        let mut t = Throttle::new(3, Rule::Latency, 100, 500).unwrap();
        assert!(t.report(0, 50) && t.report(1, 5) && !t.report(3, 1));
        assert!(t.monitor(1000, 10));
        assert_eq!([t.ran(0, 10), t.ran(1, 20), t.ran(2, 1000)], [500, 100, 0]);
        assert_eq!([0, 1, 2].map(|cpu| t.allowed(cpu)), [false, true, true]);
        // Not contended, and no requests: throttling ends.
        assert!(!t.monitor(999, 10) && t.throttled() == 0 && t.most_requests() == 0);
    }
}
