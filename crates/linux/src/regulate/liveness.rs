//! Checks that every regulated CPU is still regulated.
//!
//! Problem: a CPU loses its timer and counter when it is taken offline, also for a moment, when the
//! machine sleeps, or when the kernel puts a pinned counter in error. No message says so, and the
//! CPU would be unregulated for the rest of the run. Rule: periods of each CPU must go on. A CPU
//! without a new period for [`PATIENCE`], ten periods, and ten looks with progress of another CPU
//! (if there is one) is no longer regulated.
//! Does not cover: restarting its events.

use crate::error::LinuxError;
use crate::regulate::history::Taken;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(500);
const LOOKS: u32 = 10;

/// The progress of each CPU.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    seen: BTreeMap<u32, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Time of the last look that found an ended period.
    since: Instant,
    /// Looks since then in which another CPU made progress.
    looks: u32,
}

impl Liveness {
    /// Looks at the periods that have ended on each regulated CPU since the last look.
    ///
    /// # Errors
    /// A CPU is no longer regulated.
    pub fn look(&mut self, taken: &[Taken], period_ns: u64) -> Result<(), LinuxError> {
        let patience = PATIENCE.max(Duration::from_nanos(period_ns.saturating_mul(10)));
        let mut went_on = taken.len() == 1;
        for (cpu, periods, lost) in taken {
            let now = Seen { since: Instant::now(), looks: 0 };
            if !periods.is_empty() || *lost > 0 {
                self.seen.insert(*cpu, now);
                went_on = true;
            } else {
                self.seen.entry(*cpu).or_insert(now);
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
    use crate::regulate::history::Period;

    /// A look that finds this number of new periods on each CPU.
    fn looked(liveness: &mut Liveness, ended: [usize; 2]) -> Result<(), LinuxError> {
        let of = |cpu: u32, ended| (cpu, vec![Period::default(); ended], 0);
        liveness.look(&[of(0, ended[0]), of(1, ended[1])], 1_000_000)
    }

    #[test]
    fn a_cpu_that_stands_still_while_another_goes_on_is_named() {
        let mut liveness = Liveness::default();
        for _ in 0..=LOOKS {
            looked(&mut liveness, [1, 0]).unwrap();
        }
        // An error needs the end of its patience, after any number of looks.
        looked(&mut liveness, [1, 0]).unwrap();
        std::thread::sleep(PATIENCE + Duration::from_millis(10));
        let error = looked(&mut liveness, [1, 0]).unwrap_err().to_string();
        assert!(error.contains("CPU 1 is regulated no longer"), "{error}");
    }

    #[test]
    fn a_machine_that_stands_still_as_a_whole_is_not_blamed() {
        let mut liveness = Liveness::default();
        looked(&mut liveness, [1, 1]).unwrap();
        std::thread::sleep(PATIENCE + Duration::from_millis(10));
        for _ in 0..3 * LOOKS {
            looked(&mut liveness, [0, 0]).unwrap();
        }
        looked(&mut liveness, [1, 0]).unwrap();
        looked(&mut liveness, [0, 1]).unwrap();
    }
}
