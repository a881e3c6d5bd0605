//! Cache-related preemption delay (CRPD) on one core with fixed priorities.
//!
//! # Problem
//! A preempting job evicts cache blocks that the preempted one would have used again. The loads
//! must be charged to a job, and their number must be bounded.
//!
//! # Rule
//! The preempting task pays, per start. With a reload time per task (the "max reload time" of MC2's
//! Table 3, category 4), `j` pays the largest of those below it: [`caused`]. With cache sets known,
//! Altmeyer, Davis, Maiza, "Improved cache related pre-emption delay aware response time analysis"
//! (Real-Time Systems 2012), in `R_i = C_i + sum over j < i of ceil(R_i/T_j)*(C_j + g_ij)`, where
//! `aff = {j+1..=i}` can be preempted by `j` within the response of `i`:
//!
//! | [`Approach`] | `g_ij` is the reload time of a block times |
//! |---|---|
//! | `Evicting` | the sets that `j` uses |
//! | `Useful` | the most useful sets of a task in `aff` |
//! | `UsefulUnion` | the sets that `j` uses and that are useful to any task in `aff` |
//! | `EvictingUnion` | the most useful sets of a task in `aff` that `j` or any task above it uses |
//!
//! `UsefulUnion` and `EvictingUnion` are incomparable and place the cost of nested preemptions
//! differently: the smaller *response time* is safe ([`response_time`] takes it), a mixture of the
//! smaller `g_ij` is not.
//!
//! With `W` ways and LRU one foreign block in a set can cost all useful blocks in it: take `W`
//! times the reload time of a block. FIFO and random replacement, and caches in which time is lost
//! otherwise (write-back of dirty lines), are not covered; nor is a shared cache, which other cores
//! evict from.
//!
//! Level by level: at the check of level B, jobs of A and B on one core preempt one another; a job
//! of A pays for each piece of it in the table. At the check of level C, each start of a job of A
//! or B may preempt a job of C, so [`caused`] takes the reload times of level C too.

use crate::SporadicTask;

/// Steps after which the recurrence counts as endless.
const MAX_STEPS: u32 = 1 << 20;

/// Cache sets of a task; bit `b` of word `w` stands for set `64*w + b`. Missing words are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Sets with blocks that may be used again after a preemption (UCB).
    pub useful: Vec<u64>,
    /// Sets that the task uses at all (ECB). Includes `useful`.
    pub evicting: Vec<u64>,
}

/// Way of counting the sets that a preemption loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Approach {
    /// ECB only.
    Evicting,
    /// UCB only.
    Useful,
    /// UCB union (Tan and Mooney).
    UsefulUnion,
    /// ECB union (Altmeyer, Davis, Maiza).
    EvictingUnion,
}

impl Approach {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Evicting, Self::Useful, Self::UsefulUnion, Self::EvictingUnion];
}

/// Largest cost of one start of a task for another: the largest reload time of those that it may
/// preempt.
#[must_use]
pub fn caused(reloads_below: impl IntoIterator<Item = u64>) -> u64 {
    reloads_below.into_iter().max().unwrap_or(0)
}

/// A reload time given as `numerator/denominator` of an execution time, rounded up. `None` for a
/// zero denominator or a result beyond 64 bits.
#[must_use]
pub fn reload_share(cost: u64, numerator: u32, denominator: u32) -> Option<u64> {
    if denominator == 0 {
        return None;
    }
    u64::try_from((u128::from(cost) * u128::from(numerator)).div_ceil(u128::from(denominator))).ok()
}

/// Sets in the intersection of the unions of `left` and of `right`.
fn common<'a, L, R>(left: L, right: R) -> u64
where
    L: Iterator<Item = &'a [u64]> + Clone,
    R: Iterator<Item = &'a [u64]> + Clone,
{
    let words = left.clone().map(<[u64]>::len).max().unwrap_or(0);
    let at = |word: usize, sets: &mut dyn Iterator<Item = &'a [u64]>| {
        sets.fold(0, |all, set| all | set.get(word).copied().unwrap_or(0))
    };
    (0..words)
        .map(|word| {
            u64::from((at(word, &mut left.clone()) & at(word, &mut right.clone())).count_ones())
        })
        .sum()
}

/// Cache sets that one preemption by `j` costs within the response of `i`, `j < i`. `None` if there
/// is no such task.
#[must_use]
pub fn lost_sets(footprints: &[Footprint], i: usize, j: usize, approach: Approach) -> Option<u64> {
    let affected = footprints.get(j.checked_add(1)?..=i).filter(|tasks| !tasks.is_empty())?;
    let own = || std::iter::once(footprints[j].evicting.as_slice());
    let above = || footprints[..=j].iter().map(|task| task.evicting.as_slice());
    let useful =
        |task: &Footprint| task.useful.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
    Some(match approach {
        Approach::Evicting => common(own(), own()),
        Approach::Useful => affected.iter().map(useful).max().unwrap_or(0),
        Approach::UsefulUnion => common(affected.iter().map(|task| task.useful.as_slice()), own()),
        Approach::EvictingUnion => affected
            .iter()
            .map(|task| common(std::iter::once(task.useful.as_slice()), above()))
            .max()
            .unwrap_or(0),
    })
}

/// Response time of task `i` with CRPD counted by `approach`; index 0 has the highest priority,
/// `block` is the time to load a set again.
///
/// `None` if it exceeds the deadline or the period, does not fit in 64 bits, a period is zero, or
/// there is no task or footprint `i`.
#[must_use]
pub fn response_time_by(
    tasks: &[SporadicTask],
    footprints: &[Footprint],
    i: usize,
    block: u64,
    approach: Approach,
) -> Option<u64> {
    let (task, higher) = tasks.get(..=i)?.split_last()?;
    if i >= footprints.len() || tasks.iter().any(|task| task.period == 0) {
        return None;
    }
    let costs = higher
        .iter()
        .enumerate()
        .map(|(j, t)| {
            t.wcet.checked_add(lost_sets(footprints, i, j, approach)?.checked_mul(block)?)
        })
        .collect::<Option<Vec<u64>>>()?;
    let mut response = task.wcet;
    for _ in 0..MAX_STEPS {
        let next = higher.iter().zip(&costs).try_fold(task.wcet, |sum, (t, cost)| {
            sum.checked_add(response.max(1).div_ceil(t.period).checked_mul(*cost)?)
        })?;
        if next > task.constrained_deadline() {
            return None;
        }
        if next == response {
            return Some(response);
        }
        response = next;
    }
    None
}

/// The least of [`response_time_by`] over the approaches.
#[must_use]
pub fn response_time(
    tasks: &[SporadicTask],
    footprints: &[Footprint],
    i: usize,
    block: u64,
) -> Option<u64> {
    Approach::ALL
        .iter()
        .filter_map(|&approach| response_time_by(tasks, footprints, i, block, approach))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approaches_on_a_small_cache() {
        let print = |useful: u64, evicting: u64| Footprint {
            useful: vec![useful],
            evicting: vec![evicting],
        };
        // Highest first; sets 0..8.
        let tasks = [
            print(0, 0b0000_1111),
            print(0b0000_0011, 0b0011_0011),
            print(0b0011_1100, 0b0011_1100),
        ];
        let lost = |i, j, approach| lost_sets(&tasks, i, j, approach).unwrap();
        assert_eq!(Approach::ALL.map(|approach| lost(2, 0, approach)), [4, 4, 4, 2]);
        assert_eq!(Approach::ALL.map(|approach| lost(2, 1, approach)), [4, 4, 2, 4]);
        assert_eq!(lost_sets(&tasks, 1, 1, Approach::Useful), None);
        assert_eq!(lost_sets(&tasks, 3, 1, Approach::Useful), None);
    }

    #[test]
    fn reloads() {
        assert_eq!(caused([3, 7, 5]), 7);
        assert_eq!(caused([]), 0);
        assert_eq!(reload_share(101, 10, 100), Some(11));
        assert_eq!(reload_share(u64::MAX, u32::MAX, 1), None);
        assert_eq!(reload_share(1, 1, 0), None);
    }
}
