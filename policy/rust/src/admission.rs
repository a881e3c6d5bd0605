//! Admission under fixed priorities (`policy/include/solocore/admission.h`).

use crate::NONE;
use crate::raw::{self, sc_response as RawResponse};

/// Tasks of a core, in order of priority, the highest first.
pub use crate::raw::sc_admission as Admission;

/// Maximum number of tasks in a set (`SC_MAX_ADMITTED`).
pub const MAX_ADMITTED: usize = raw::SC_MAX_ADMITTED as usize;

/// Result for a task's worst-case response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// It passes the deadline.
    Late,
    /// It has this length in ns, and meets the deadline.
    Fits(u64),
    /// The computation took too long: do not admit the task.
    Unknown,
}

/// C/T with 32 bits after the point, rounded up; `None` if not 1 <= C <= T <= 73 minutes (2^42 ns).
pub fn utilization(wcet_ns: u64, period_ns: u64) -> Option<u64> {
    // SAFETY: numbers only.
    let utilization = unsafe { raw::sc_utilization(wcet_ns, period_ns) };
    (utilization != 0).then_some(utilization)
}

impl Admission {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a task of the lowest priority, with its deadline from release (`None`: the period).
    /// Returns its index; `None` if the set is full or not 1 <= C <= T and 1 <= D <= T, all at most
    /// 73 minutes. Tests nothing.
    pub fn add(&mut self, wcet_ns: u64, period_ns: u64, deadline_ns: Option<u64>) -> Option<u32> {
        if deadline_ns == Some(0) {
            return None;
        }
        // SAFETY: `self` is a valid set.
        let index =
            unsafe { raw::sc_admission_add(self, wcet_ns, period_ns, deadline_ns.unwrap_or(0)) };
        (index != NONE).then_some(index)
    }

    /// Removes all tasks.
    pub fn clear(&mut self) {
        // SAFETY: `self` is a valid set.
        unsafe { raw::sc_admission_init(self) }
    }

    /// Sum of the utilisations, 32 bits after the point, each rounded up.
    pub fn utilization(&self) -> u64 {
        // SAFETY: `self` is a valid set.
        unsafe { raw::sc_admission_utilization(self) }
    }

    /// Whether the set passes the bound of Liu and Layland. For rate-monotonic priorities and D =
    /// T.
    pub fn passes_rms(&self) -> bool {
        // SAFETY: `self` is a valid set.
        unsafe { raw::sc_admission_rms(self) != 0 }
    }

    /// Whether the set passes the hyperbolic bound. For rate-monotonic priorities and D = T.
    pub fn passes_hyperbolic(&self) -> bool {
        // SAFETY: `self` is a valid set.
        unsafe { raw::sc_admission_hyperbolic(self) != 0 }
    }

    /// The worst-case response time of a task; `None` if there is no such task.
    pub fn response(&self, index: u32) -> Option<Response> {
        let mut raw = RawResponse::default();
        // SAFETY: `self` and `raw` are valid.
        let found = unsafe { raw::sc_admission_response(self, index, &raw mut raw) };
        (found != 0).then_some(match raw.verdict {
            0 => Response::Late,
            1 => Response::Fits(raw.response_ns),
            _ => Response::Unknown,
        })
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    unsafe extern "C" {
        static sc_size_admission: u64;
        static sc_size_response: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: constants of the C side.
        let sizes = unsafe { [sc_size_admission, sc_size_response] };
        assert_eq!(sizes, [size_of::<Admission>() as u64, size_of::<RawResponse>() as u64]);
    }

    #[test]
    fn response_times_of_a_known_set() {
        let mut a = Admission::new();
        for (wcet, period) in [(1, 4), (2, 6), (3, 12)] {
            a.add(wcet, period, None).unwrap();
        }
        assert_eq!(
            [0, 1, 2].map(|i| a.response(i).unwrap()),
            [Response::Fits(1), Response::Fits(3), Response::Fits(10)]
        );
        assert!(!a.passes_rms() && !a.passes_hyperbolic() && a.response(3).is_none());
    }

    #[test]
    fn a_whole_core_is_admitted_and_not_more() {
        let mut a = Admission::new();
        a.add(1000, 1000, None).unwrap();
        assert!(a.passes_rms() && a.passes_hyperbolic());
        a.add(1, 1 << 42, None).unwrap();
        assert!(!a.passes_rms() && !a.passes_hyperbolic());
        assert_eq!(a.response(1), Some(Response::Unknown), "it grows by 1000 ns at a time");
        assert!(
            a.add(2, 1, None).is_none()
                && a.add(1, 2, Some(3)).is_none()
                && a.add(1, 2, Some(0)).is_none()
        );
    }

    #[test]
    fn a_long_search_is_cut_off() {
        let mut a = Admission::new();
        a.add((1 << 20) - 1, 1 << 20, None).unwrap();
        a.add(1 << 20, 1 << 42, None).unwrap();
        assert_eq!(a.response(1), Some(Response::Unknown));
    }

    proptest! {
        /// The rounding is upwards and small.
        #[test]
        fn utilization_is_never_understated(period in 1u64..=1 << 42, part in 0.0f64..1.0) {
            let wcet = ((period as f64 * part) as u64).clamp(1, period);
            let exact = (u128::from(wcet) << 32).div_ceil(u128::from(period));
            let got = u128::from(utilization(wcet, period).unwrap());
            prop_assert!(got >= exact && got <= exact + 16, "{got} {exact}");
        }

        /// With rate-monotonic priorities, response times admit every set that RMS admits.
        #[test]
        fn the_bounds_are_sufficient(mut tasks in prop::collection::vec((1u64..200, 50u64..2000), 1..8)) {
            tasks.sort_by_key(|&(_, period)| period);
            let mut a = Admission::new();
            for &(wcet, period) in &tasks {
                a.add(wcet.min(period), period, None).unwrap();
            }
            if a.passes_rms() || a.passes_hyperbolic() {
                for i in 0..tasks.len() {
                    prop_assert_ne!(a.response(u32::try_from(i).unwrap()), Some(Response::Late));
                }
            }
        }
    }
}
