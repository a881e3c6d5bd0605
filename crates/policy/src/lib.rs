//! The run-time decisions of `policy/`, callable from Rust: the only foreign-function interface to
//! them. The simulator runs these very functions; the kernel adapters will include the same headers.

/// Budget of one core (`policy/include/solocore/regulate.h`).
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Regulator {
    budget: u64,
    period_ns: u64,
    used: u64,
    next_ns: u64,
    throttled: u32,
    reserved: u32,
}

const _: () = assert!(size_of::<Regulator>() == 40);

unsafe extern "C" {
    fn sc_regulator_init(r: *mut Regulator, budget: u64, period_ns: u64, now_ns: u64) -> u32;
    fn sc_regulator_account(r: *mut Regulator, accesses: u64) -> u32;
    fn sc_regulator_replenish(r: *mut Regulator, now_ns: u64) -> u32;
    fn sc_fixed_priority_pick(priority: *const u32, count: u32) -> u32;
}

impl Regulator {
    /// A regulator whose first period starts at `now_ns`; `None` for a zero budget or period.
    pub fn new(budget: u64, period_ns: u64, now_ns: u64) -> Option<Self> {
        let mut r = Self { budget: 0, period_ns: 0, used: 0, next_ns: 0, throttled: 0, reserved: 0 };
        // SAFETY: `r` is a valid regulator of the layout both sides assert.
        let ok = unsafe { sc_regulator_init(&raw mut r, budget, period_ns, now_ns) };
        (ok != 0).then_some(r)
    }

    /// Counts accesses; true if the core must stop until the next period.
    pub fn account(&mut self, accesses: u64) -> bool {
        // SAFETY: as in `new`.
        unsafe { sc_regulator_account(self, accesses) != 0 }
    }

    /// The period's timer fired; true if the core was stopped and may go on.
    pub fn replenish(&mut self, now_ns: u64) -> bool {
        // SAFETY: as in `new`.
        unsafe { sc_regulator_replenish(self, now_ns) != 0 }
    }

    /// Is the core stopped?
    pub fn throttled(&self) -> bool {
        self.throttled != 0
    }

    /// Accesses in this period.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// When the next period starts.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }
}

/// Index of the ready task of highest priority (1 is highest, 0 marks a task that is not ready).
pub fn fixed_priority_pick(priority: &[u32]) -> Option<usize> {
    let count = u32::try_from(priority.len()).unwrap_or(u32::MAX);
    // SAFETY: the slice holds `count` elements, or more than the policy looks at.
    let at = unsafe { sc_fixed_priority_pick(priority.as_ptr(), count) };
    (at != u32::MAX).then_some(at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_zero_period_or_budget_is_refused() {
        assert!(Regulator::new(0, 1_000_000, 0).is_none());
        assert!(Regulator::new(10, 0, 0).is_none());
    }

    #[test]
    fn the_budgets_last_access_stops_the_core() {
        let mut r = Regulator::new(3, 1000, 0).unwrap();
        assert_eq!([r.account(1), r.account(1), r.account(1)], [false, false, true]);
        assert!(!r.replenish(999) && r.throttled());
        assert!(r.replenish(1000) && !r.throttled());
        assert_eq!((r.used(), r.next_ns()), (0, 2000));
    }

    #[test]
    fn a_late_timer_saves_no_budget() {
        let mut r = Regulator::new(3, 1000, 0).unwrap();
        r.replenish(5500);
        assert_eq!((r.used(), r.next_ns()), (0, 6000));
        assert!(r.account(u64::MAX) && r.account(1), "a huge count must not wrap");
    }

    proptest! {
        /// In no period does a core that stops when told make more accesses than its budget.
        #[test]
        fn no_period_exceeds_its_budget(budget in 1u64..50, wants in prop::collection::vec(0u64..100, 1..50)) {
            let mut r = Regulator::new(budget, 1000, 0).unwrap();
            for (period, want) in wants.iter().enumerate() {
                let mut made = 0u64;
                while made < *want && !r.throttled() {
                    r.account(1);
                    made += 1;
                }
                prop_assert_eq!(made, (*want).min(budget));
                r.replenish((period as u64 + 1) * 1000);
            }
        }

        #[test]
        fn the_pick_is_the_first_of_the_highest(priority in prop::collection::vec(0u32..6, 0..40)) {
            let expect = priority.iter().enumerate().filter(|(_, p)| **p > 0).min_by_key(|(i, p)| (**p, *i)).map(|(i, _)| i);
            prop_assert_eq!(fixed_priority_pick(&priority), expect);
        }
    }
}
