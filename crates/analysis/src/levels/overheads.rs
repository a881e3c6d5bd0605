//! Costs of interrupts, of the scheduler and of preemptions, as longer execution times or as time
//! taken from a window.
//!
//! # Problem
//! The tests assume that a core does nothing but jobs. A kernel takes time for releases, scheduling
//! decisions, context switches, ticks and device interrupts, and a preempted job reloads its cache.
//! Each must be charged to a quantity of the tests.
//!
//! # Rule
//! Brandenburg, "Scheduling and Locking in Multiprocessor Real-Time Operating Systems" (2011),
//! chapter 3; Brandenburg, Leontyev, Anderson, "An Overview of Interrupt Accounting Techniques"
//! (JSA 2011); the paper of [`levels`](super), section 6. All costs are rounded up.
//! * Dispatching, one core or global: a job that starts `s` times after others ran pays
//!   `s*(2*(schedule + switch) + reload)`. That is one decision and switch to it, one away from it
//!   at its end, and the reload of the job that it preempts. [`Overheads::dispatch`].
//! * Interrupts in a window, one core: source `k` takes at most `ceil((w + J_k)/T_k)*c_k` of a
//!   window of `w`, also with interrupts under way as it begins. [`Noise::within`]. Charged once
//!   per window in the test of level B, or to each job with the window of its period
//!   ([`task_centric`], as section 6 of the paper does for CPU 0).
//! * Slots of a table, a job in `p` pieces: least
//!   `l = C + p*blocking + sum of (ceil((l + p*J_k)/T_k) + p - 1)*c_k`. [`slot_length`].
//! * Preemption-centric: a job that executes in `s` separate pieces is over after at most
//!   `(C + s*sum of (c_k + U_k*J_k))/(1 - sum of U_k)` of CPU time, `U_k = c_k/T_k`. Charging
//!   `s = 2` per start, one of them for the job it preempts, gives Brandenburg's
//!   `(e + ...)/(1 - U) + 2*c_pre`. [`PreemptionCentric`].
//! * Quantum-centric: with decisions only at ticks, a quantum `Q` leaves
//!   `Q' = Q - tick - interrupts - schedule - switch - reload` to its job, and the job needs
//!   `ceil(C/Q')*Q`. [`quantum_centric`].
//!
//! # Interrupts in any interval
//! At most `F(w) = sum of ceil((w + J)/T)*c` of interrupt work is *executed* in `[t, t + w)`,
//! although some may be under way at `t`: let that run of interrupts have begun at `t - g`. Up to
//! `t + w - g` at most `F(w)` arrives, and `g` of it is done before `t`; after `t + w - g` no more
//! than `g` can be executed. A section of the scheduler that holds interrupts up as the interval
//! begins delays them by no more than the part of it that lies before the interval. Its full
//! length, charged to the window as blocking, covers both.
//!
//! # What is proved
//! On one core, for level B, the charge to the preempting job is safe, as it has the higher
//! priority and so is in every demand that the preempted job is in. For level C that holds for sums
//! of demand. A *preempted* job of global EDF itself exceeds its inflated cost; the literature
//! neglects this, and so does the numeric tardiness bound. To be on the safe side, give
//! [`PreemptionCentric::charge`] the number of pieces of the job itself, and the job its own
//! reloads.
//!
//! # Not covered
//! Locks in the kernel, and handlers that wait for other cores.

use super::{LevelsTask, Pets};
use serde::{Deserialize, Serialize};

/// Steps after which a fixed point counts as not found.
const MAX_STEPS: u32 = 1 << 16;

/// A source of interrupts on one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// Longest time that one takes.
    pub cost: u64,
    /// Least time between two, without jitter. Not zero.
    pub period: u64,
    /// Largest delay of one beyond its period.
    pub jitter: u64,
}

/// Time that a window of one core loses, other than to jobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noise<'a> {
    /// Sources on this core: [`Overheads::sources`].
    pub interrupts: &'a [Interrupt],
    /// Once per window: [`Overheads::blocking`].
    pub blocking: u64,
}

impl Noise<'_> {
    /// Most time lost in a window of length `window`. `None` if it does not fit in 64 bits or a
    /// period is zero.
    #[must_use]
    pub fn within(&self, window: u64) -> Option<u64> {
        arrivals(self.interrupts, window, 0)?.checked_add(self.blocking)
    }
}

/// `sum of (ceil((window + J)/T) + more)*c`.
fn arrivals(interrupts: &[Interrupt], window: u64, more: u64) -> Option<u64> {
    interrupts.iter().try_fold(0u64, |sum, source| {
        if source.period == 0 {
            return None;
        }
        let number =
            window.checked_add(source.jitter)?.div_ceil(source.period).checked_add(more)?;
        sum.checked_add(number.checked_mul(source.cost)?)
    })
}

/// Costs of the kernel, in the unit of the tasks. All zero by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overheads {
    /// Handling the release of one job.
    pub release: u64,
    /// One scheduling decision.
    pub schedule: u64,
    /// One context switch.
    pub switch: u64,
    /// From sending an interprocessor interrupt to its handler; only where one core schedules for
    /// another (level C).
    pub ipi: u64,
    /// Handling one tick.
    pub tick: u64,
    /// Time between ticks; zero if there are none.
    pub quantum: u64,
    /// From an event to the start of its handler.
    pub latency: u64,
}

impl Overheads {
    /// `cost` of a job with all its overheads in `starts` starts:
    /// `cost + starts*(2*(schedule + switch) + reload)`.
    ///
    /// `reload` is the largest cost of one preemption by this job for another one. A job of level B
    /// or C starts once, a job of level A in each of its pieces: [`Self::table_driven`]. `None` if
    /// it does not fit in 64 bits.
    #[must_use]
    pub fn dispatch(&self, cost: u64, starts: u64, reload: u64) -> Option<u64> {
        let section = self.schedule.checked_add(self.switch)?;
        let each = section.checked_mul(2)?.checked_add(reload)?;
        cost.checked_add(each.checked_mul(starts)?)
    }

    /// Waiting time of a window at its start: a section of the scheduler that is under way for a
    /// lower priority, and the latency of its own release. `None` if it does not fit in 64 bits.
    #[must_use]
    pub fn blocking(&self) -> Option<u64> {
        self.schedule.checked_add(self.switch)?.checked_add(self.latency)
    }

    /// All sources of interrupts of a core: `devices`, ticks, and the releases of the tasks that it
    /// handles.
    ///
    /// With all interrupts on CPU 0, as in the paper, that is the list for CPU 0, and the others
    /// have only their ticks. `None` if a jitter does not fit in 64 bits.
    #[must_use]
    pub fn sources<'a>(
        &self,
        devices: &[Interrupt],
        released: impl IntoIterator<Item = &'a LevelsTask>,
    ) -> Option<Vec<Interrupt>> {
        let ticks = (self.quantum > 0 && self.tick > 0).then_some((self.tick, self.quantum, 0));
        let releases = released
            .into_iter()
            .filter(|_| self.release > 0)
            .map(|task| (self.release, task.period, 0));
        let devices = devices.iter().map(|device| (device.cost, device.period, device.jitter));
        devices
            .chain(ticks)
            .chain(releases)
            .map(|(cost, period, jitter)| {
                Some(Interrupt { cost, period, jitter: jitter.checked_add(self.latency)? })
            })
            .collect()
    }

    /// A task of level A whose table has up to `pieces` slots per job.
    ///
    /// A slot cannot borrow from another: the job pays its own reload (`own`) in each piece, and
    /// the level-A PET becomes a slot length that holds against `noise`. For levels B and C each
    /// piece also pays the reload that it causes for a lower task (`below`). The level-A PET is
    /// raised to the others if they are longer. `None` if a value does not fit in 64 bits.
    #[must_use]
    pub fn table_driven(
        &self,
        task: &LevelsTask,
        pieces: u64,
        own: u64,
        below: u64,
        noise: &Noise,
    ) -> Option<LevelsTask> {
        let slots = slot_length(self.dispatch(task.pets.a, pieces, own)?, pieces, noise)?;
        let reload = own.checked_add(below)?;
        let (b, c) = (
            self.dispatch(task.pets.b, pieces, reload)?,
            self.dispatch(task.pets.c, pieces, reload)?,
        );
        Some(LevelsTask { pets: Pets { a: slots.max(b).max(c), b, c }, ..*task })
    }

    /// A task of level B with the costs of its starts in each PET; interrupts are not in it. `None`
    /// as for [`Self::dispatch`].
    #[must_use]
    pub fn partitioned(&self, task: &LevelsTask, starts: u64, reload: u64) -> Option<LevelsTask> {
        map_pets(task, |cost| self.dispatch(cost, starts, reload))
    }

    /// A task of level C, or one of A and B as level C sees it, by preemption-centric accounting.
    ///
    /// PETs become `(C + ipi + starts*(2*(schedule + switch) + reload) + 2*starts*N)/(1 - U)`, the
    /// period `T - latency`, as releases may be that much closer together; the tardiness bound then
    /// holds for the original deadlines. `None` if nothing is left of the period, or a value does
    /// not fit in 64 bits.
    #[must_use]
    pub fn global(
        &self,
        task: &LevelsTask,
        starts: u64,
        reload: u64,
        interrupts: &PreemptionCentric,
    ) -> Option<LevelsTask> {
        let segments = starts.checked_mul(2)?;
        let charged = map_pets(task, |cost| {
            let own = self.dispatch(cost, starts, reload)?.checked_add(self.ipi)?;
            interrupts.charge(own, segments)
        })?;
        let period = task.period.checked_sub(self.latency).filter(|period| *period > 0)?;
        Some(LevelsTask { period, ..charged })
    }
}

/// The task with each PET replaced.
fn map_pets(task: &LevelsTask, charge: impl Fn(u64) -> Option<u64>) -> Option<LevelsTask> {
    let pets = Pets { a: charge(task.pets.a)?, b: charge(task.pets.b)?, c: charge(task.pets.c)? };
    Some(LevelsTask { pets, ..*task })
}

/// Task-centric accounting: all time that can be lost in a window of the period is added to each
/// PET.
///
/// Section 6 of the paper. Only for tasks
/// that do not outlast their period: levels A and B. `None` if it does not fit in 64 bits.
#[must_use]
pub fn task_centric(task: &LevelsTask, noise: &Noise) -> Option<LevelsTask> {
    let lost = noise.within(task.period)?;
    map_pets(task, |cost| cost.checked_add(lost))
}

/// Least total length of the `pieces` slots of a job, so that `cost` is done in them under any
/// interrupts.
///
/// Least `l` with `l = cost + p*blocking + sum of (ceil((l + p*J)/T) + p - 1)*c`, `p = pieces`. A
/// piece of length `l_k` loses at most `ceil((l_k + J)/T)*c` to a source, as any window does. The
/// sum over the pieces is at most that, as `p` numbers rounded up one by one exceed their sum
/// rounded up by at most `p - 1`. `None` if there is none in 64 bits.
#[must_use]
pub fn slot_length(cost: u64, pieces: u64, noise: &Noise) -> Option<u64> {
    let fixed = cost.checked_add(noise.blocking.checked_mul(pieces)?)?;
    let more = pieces.checked_sub(1)?;
    let mut length = fixed;
    for _ in 0..MAX_STEPS {
        let lost = noise.interrupts.iter().try_fold(0u64, |sum, source| {
            let jitter = source.jitter.checked_mul(pieces)?;
            sum.checked_add(arrivals(&[Interrupt { jitter, ..*source }], length, more)?)
        })?;
        let next = fixed.checked_add(lost)?;
        if next <= length {
            return Some(length);
        }
        length = next;
    }
    None
}

/// Interrupts on any core that a job may run on, reduced to the two numbers that preemption-centric
/// accounting needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreemptionCentric {
    /// `sum of (c + U*J)`, rounded up: most time per piece beyond the long-run share.
    burst: u64,
    /// `1 - sum of U` in steps of 2^-62, rounded down. Not zero.
    left: u64,
}

/// One in the steps of [`PreemptionCentric::left`].
const ONE: u64 = 1 << 62;

impl PreemptionCentric {
    /// `None` if the interrupts take all time, a period is zero, or a value does not fit in 64
    /// bits.
    #[must_use]
    pub fn new(interrupts: &[Interrupt]) -> Option<Self> {
        let (mut burst, mut left) = (0u64, ONE);
        for source in interrupts {
            if source.period == 0 {
                return None;
            }
            let (cost, period) = (u128::from(source.cost), u128::from(source.period));
            let late = u64::try_from((cost * u128::from(source.jitter)).div_ceil(period)).ok()?;
            burst = burst.checked_add(source.cost)?.checked_add(late)?;
            left = left.checked_sub(u64::try_from((cost << 62).div_ceil(period)).ok()?)?;
        }
        (left > 0).then_some(Self { burst, left })
    }

    /// CPU time of a job that executes for `cost` in at most `segments` pieces:
    /// `ceil((cost + segments*burst)/(1 - U))`. `None` if it does not fit in 64 bits.
    #[must_use]
    pub fn charge(&self, cost: u64, segments: u64) -> Option<u64> {
        let work = cost.checked_add(self.burst.checked_mul(segments)?)?;
        u64::try_from((u128::from(work) * u128::from(ONE)).div_ceil(u128::from(self.left))).ok()
    }
}

/// Execution time in whole quanta, where decisions fall only on ticks: `ceil(C/Q')*Q`, with
/// `Q' = Q - tick - sum of ceil((Q + J)/T)*c - schedule - switch - reload`.
///
/// It helps where preemptions are many and cannot be counted per job. `interrupts` must not have
/// the tick itself. `None` if a quantum leaves nothing to its job, there is no quantum, or the
/// result does not fit in 64 bits.
#[must_use]
pub fn quantum_centric(
    cost: u64,
    overheads: &Overheads,
    interrupts: &[Interrupt],
    reload: u64,
) -> Option<u64> {
    let lost = arrivals(interrupts, overheads.quantum, 0)?
        .checked_add(overheads.tick)?
        .checked_add(overheads.schedule)?
        .checked_add(overheads.switch)?
        .checked_add(reload)?;
    let useful = overheads.quantum.checked_sub(lost).filter(|left| *left > 0)?;
    cost.div_ceil(useful).checked_mul(overheads.quantum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERHEADS: Overheads =
        Overheads { release: 1, schedule: 2, switch: 3, ipi: 4, tick: 5, quantum: 100, latency: 6 };

    #[test]
    fn formulas_on_small_numbers() {
        assert_eq!(OVERHEADS.dispatch(10, 2, 7), Some(10 + 2 * (10 + 7)));
        assert_eq!(OVERHEADS.blocking(), Some(11));
        let device = Interrupt { cost: 2, period: 10, jitter: 4 };
        let noise = Noise { interrupts: &[device], blocking: 3 };
        assert_eq!(noise.within(16), Some(3 + 2 * 2));
        assert_eq!(noise.within(17), Some(3 + 3 * 2));
        // 20 % of the time and 2 + 0.8 (rounded up) per piece: (10 + 3)/0.8.
        let accounting = PreemptionCentric::new(&[device]).unwrap();
        assert_eq!(accounting.charge(10, 1), Some(17));
        assert_eq!(PreemptionCentric::new(&[]).unwrap().charge(10, 5), Some(10));
        assert_eq!(PreemptionCentric::new(&[Interrupt { cost: 10, period: 10, jitter: 0 }]), None);
        // 100 - 5 - 11*2 - 2 - 3 - 1 = 67 per quantum.
        assert_eq!(quantum_centric(68, &OVERHEADS, &[device], 1), Some(200));
        assert_eq!(quantum_centric(67, &OVERHEADS, &[device], 1), Some(100));
        assert_eq!(quantum_centric(1, &OVERHEADS, &[device], 68), None);
        let task = LevelsTask { period: 50, pets: Pets { a: 3, b: 2, c: 1 } };
        let sources = OVERHEADS.sources(&[device], [&task]).unwrap();
        assert_eq!(sources.len(), 3);
        assert_eq!(sources[2], Interrupt { cost: 1, period: 50, jitter: 6 });
        assert_eq!(slot_length(10, 1, &Noise { interrupts: &[device], blocking: 0 }), Some(14));
        // In two pieces: 10 + (ceil((14 + 8)/10) + 1)*2 = 18, 10 + (ceil((18 + 8)/10) + 1)*2 = 18.
        assert_eq!(slot_length(10, 2, &Noise { interrupts: &[device], blocking: 0 }), Some(18));
    }

    #[test]
    fn extremes_give_none() {
        let max = u64::MAX;
        let huge = Overheads {
            release: max,
            schedule: max,
            switch: max,
            ipi: max,
            tick: max,
            quantum: max,
            latency: max,
        };
        let source = Interrupt { cost: max, period: 1, jitter: max };
        assert_eq!(huge.dispatch(1, 1, 1), None);
        assert_eq!(huge.blocking(), None);
        assert_eq!(Noise { interrupts: &[source], blocking: max }.within(max), None);
        assert_eq!(PreemptionCentric::new(&[source]), None);
        assert_eq!(slot_length(max, max, &Noise { interrupts: &[source], blocking: max }), None);
        assert_eq!(slot_length(1, 0, &Noise::default()), None);
        assert_eq!(quantum_centric(max, &huge, &[], 0), None);
        assert_eq!(
            quantum_centric(max, &Overheads { quantum: 10, ..Overheads::default() }, &[], 9),
            None
        );
        let busy = Interrupt { cost: 1, period: 1, jitter: 0 };
        assert_eq!(slot_length(1, 1, &Noise { interrupts: &[busy], blocking: 0 }), None);
        assert_eq!(
            Noise { interrupts: &[Interrupt { period: 0, ..busy }], blocking: 0 }.within(1),
            None
        );
    }
}
