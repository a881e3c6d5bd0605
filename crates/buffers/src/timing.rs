//! A clock that costs a few nanoseconds, to time single accesses.
//!
//! Rule: the CPU's counter of constant rate, whose rate is measured once against the
//! monotonic clock. A reading waits for all code before it; the code after it waits for the
//! reading. Does not cover: CPUs with a counter that changes its rate or stops (`steady`
//! checks whether the kernel calls it constant).

use std::time::{Duration, Instant};

/// Time over which the rate is measured.
const MEASURED: Duration = Duration::from_millis(20);

/// The counter, now.
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 has both; they touch no memory.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// The counter, now.
#[cfg(target_arch = "aarch64")]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    let now: u64;
    // SAFETY: Linux lets programs read it; it touches no memory.
    unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) now) };
    now
}

/// Nanoseconds since the first call, where no counter is known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[must_use]
pub fn ticks() -> u64 {
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(FIRST.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Length of a tick.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ns_per_tick: f64,
    /// Ticks of an empty measurement: the least of many.
    pub overhead: u64,
}

impl Clock {
    /// Measures the rate, in some 20 ms.
    #[must_use]
    pub fn measured() -> Self {
        let (begun, first) = (Instant::now(), ticks());
        while begun.elapsed() < MEASURED {
            std::hint::spin_loop();
        }
        let (passed, last) = (begun.elapsed(), ticks());
        let overhead = (0..1000).map(|_| ticks().abs_diff(ticks())).min().unwrap_or(0);
        Self {
            ns_per_tick: passed.as_nanos() as f64 / last.saturating_sub(first).max(1) as f64,
            overhead,
        }
    }

    /// Time of `ticks` ticks, ns.
    #[must_use]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// A measured time without the time of measuring, ns.
    #[must_use]
    pub fn net_ns(&self, ticks: u64) -> f64 {
        self.ns(ticks.saturating_sub(self.overhead))
    }
}

/// Does the kernel call the counter constant? Otherwise times of single accesses are wrong.
#[must_use]
pub fn steady(cpuinfo: &str) -> bool {
    !cfg!(target_arch = "x86_64") || cpuinfo.split_whitespace().any(|flag| flag == "constant_tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_the_kernels() {
        let clock = Clock::measured();
        let (begun, first) = (Instant::now(), ticks());
        while begun.elapsed() < Duration::from_millis(5) {}
        let (ns, told) = (begun.elapsed().as_nanos() as f64, clock.ns(ticks() - first));
        // Another program may run in between, in either reading.
        assert!((0.5..2.0).contains(&(told / ns)), "{told} against {ns}");
        assert!(clock.ns(clock.overhead) < 10_000.0);
        assert!((clock.net_ns(clock.overhead) - 0.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_counter_that_changes_its_rate_is_seen() {
        assert!(steady("flags: fpu constant_tsc"));
        assert_eq!(steady("flags: fpu tsc"), !cfg!(target_arch = "x86_64"));
    }
}
