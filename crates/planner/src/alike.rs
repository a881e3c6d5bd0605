//! Jobs of other cores that come alike, as one.

use solocore_analysis::interference::Job;

/// Tasks with equal periods and deadlines cost as much as one task with the sum of their costs: a
/// window has the same number of jobs of each.
pub fn together(mut jobs: Vec<Job>) -> Vec<Job> {
    jobs.sort_unstable_by_key(|j| (j.period_ps, j.reach_ps));
    jobs.dedup_by(|next, first| {
        let same = (next.period_ps, next.reach_ps) == (first.period_ps, first.reach_ps);
        if same {
            first.cost_ps = first.cost_ps.saturating_add(next.cost_ps);
        }
        same
    });
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_come_alike_cost_together() {
        let job = |period_ps, reach_ps, cost_ps| Job { period_ps, reach_ps, cost_ps };
        let all =
            vec![job(10, 5, 1), job(20, 5, 1), job(10, 5, 2), job(10, 7, 4), job(20, 5, u64::MAX)];
        assert_eq!(together(all), [job(10, 5, 3), job(10, 7, 4), job(20, 5, u64::MAX)]);
        assert_eq!(together(Vec::new()), []);
    }
}
