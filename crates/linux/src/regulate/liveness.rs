//! Is every regulated CPU still regulated?
//!
//! Problem: a CPU's timer and counter go when it is taken offline, also for a moment, when the
//! machine sleeps, or when the kernel puts a pinned counter in error; nothing says so, and the CPU
//! would go unregulated for the rest of the run. Rule: periods of each CPU must go on. One whose
//! count stands still for [`PATIENCE`] (and ten periods, and ten looks in which another CPU went
//! on, where there is one) is regulated no longer.
//! Does not cover: starting its events anew.

use crate::error::LinuxError;
use crate::regulate::shared::Counts;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(500);
const LOOKS: u32 = 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    seen: BTreeMap<u32, Seen>,
}

#[derive(Debug)]
struct Seen {
    periods: u64,
    since: Instant,
    /// Looks since then in which another CPU went on.
    looks: u32,
}

impl Liveness {
    /// Looks at the counts of all regulated CPUs.
    ///
    /// # Errors
    /// One is regulated no longer.
    pub fn look(&mut self, counts: &[(u32, Counts)], period_ns: u64) -> Result<(), LinuxError> {
        let patience = PATIENCE.max(Duration::from_nanos(period_ns.saturating_mul(10)));
        let mut went_on = counts.len() == 1;
        for (cpu, now) in counts {
            let seen = self.seen.entry(*cpu).or_insert(Seen {
                periods: u64::MAX,
                since: Instant::now(),
                looks: 0,
            });
            if seen.periods != now.periods {
                *seen = Seen { periods: now.periods, since: Instant::now(), looks: 0 };
                went_on = true;
            }
        }
        if !went_on {
            return Ok(());
        }
        for (cpu, seen) in &mut self.seen {
            seen.looks += 1;
            if seen.looks > LOOKS && seen.since.elapsed() > patience {
                return Err(LinuxError::Machine(format!(
                    "CPU {cpu} is regulated no longer: its timer has not come for {} ms (was it \
                        offline for a moment, or did the machine sleep?); start solocore again",
                    seen.since.elapsed().as_millis()
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(liveness: &mut Liveness, periods: [u64; 2]) -> Result<(), LinuxError> {
        let of = |periods| Counts { periods, ..Counts::default() };
        liveness.look(&[(0, of(periods[0])), (1, of(periods[1]))], 1_000_000)
    }

    #[test]
    fn a_cpu_that_stands_still_while_another_goes_on_is_named() {
        let mut liveness = Liveness::default();
        for i in 0..=u64::from(LOOKS) {
            looked(&mut liveness, [i, 7]).unwrap();
        }
        // Not before its patience is over, however many looks there were.
        looked(&mut liveness, [100, 7]).unwrap();
        std::thread::sleep(PATIENCE + Duration::from_millis(10));
        let error = looked(&mut liveness, [101, 7]).unwrap_err().to_string();
        assert!(error.contains("CPU 1 is regulated no longer"), "{error}");
    }

    #[test]
    fn a_machine_that_stands_still_as_a_whole_is_not_blamed() {
        let mut liveness = Liveness::default();
        looked(&mut liveness, [1, 1]).unwrap();
        std::thread::sleep(PATIENCE + Duration::from_millis(10));
        for _ in 0..3 * LOOKS {
            looked(&mut liveness, [1, 1]).unwrap();
        }
        looked(&mut liveness, [2, 1]).unwrap();
        looked(&mut liveness, [2, 2]).unwrap();
    }
}
