//! Costs are those of the timing; bounds grow with the limits of the others.

use super::*;
use crate::memory::latency::{Controller, Dram};
use crate::response::Demand;
use proptest::prelude::*;

/// DDR3-1333 9-9-9, one channel of two ranks (crates/dram/memories/ddr3-1333.toml).
fn memory() -> Memory {
    let dram = Dram {
        clock_ps: 1500,
        ranks: 2,
        groups: 1,
        banks: 8,
        burst: 4,
        command: 1,
        cl: 9,
        cwl: 7,
        rcd: 9,
        rp: 9,
        ras: 24,
        rfc: 174,
        refi: 5200,
        rrd_s: 4,
        rrd_l: 4,
        wtr_s: 5,
        wtr_l: 5,
        faw: 20,
        wr: 10,
        rtp: 5,
        ccd_s: 4,
        ccd_l: 4,
        ccd_l_write: 0,
        ppd: 0,
        rtrs: 2,
    };
    let queue = Queue { writes: 64, drain_most: 32, bank_reads: 8, reads: 32 };
    Memory { dram, controller: Controller::default(), queue, overhead_ps: 10_000, cycle_ps: 300 }
}

fn sharing(others: usize, private: bool) -> Sharing {
    let core = Requester { reads: 10, writes: 16 };
    Sharing { own: core, others: vec![core; others], private, cache_mshrs: None }
}

fn costs(others: usize) -> Costs {
    memory().costs(&sharing(others, true)).unwrap()
}

/// Derived by hand from the timing: a write keeps its bank for cwl + burst + wr + rp + rcd = 39
/// clocks.
#[test]
fn costs_are_those_of_the_timing() {
    let c = costs(3);
    assert_eq!(c.write_ps, 39 * 1500);
    assert_eq!(c.any_ps, c.write_ps, "a write is the costlier kind");
    assert_eq!(c.latency_ps, (24 + 9 + 9 + 9 + 4 + 3) * 1500 + 10_000 + 300);
    assert_eq!(c.service_ps, (9 + 9 + 9 + 4 + 3) * 1500 + 10_300);
    // The others' reads, a full queue, and four write buffers.
    assert_eq!(c.left_ps, (40 * 33 + (64 + 64) * 39) * 1500);
    let refresh = c.refresh;
    assert_eq!((refresh.every_ps, refresh.ranks), (5200 * 1500, 2));
    assert_eq!(refresh.within(0), 2 * refresh.each_ps);
    assert_eq!(refresh.within(refresh.every_ps), 4 * refresh.each_ps);
    // Two drains, one already under way, and 30 older reads.
    let request = c.request_ps.unwrap();
    assert!(request > 63 * 39 * 1500 && request < 63 * 39 * 1500 + 2_000_000, "{request}");
    assert_eq!(costs(0).request_ps, Some(0));
}

#[test]
fn where_nothing_limits_the_others_there_is_no_bound() {
    let mut m = memory();
    m.controller.hit_cap = None;
    let open = m.costs(&sharing(1, true)).unwrap();
    assert_eq!(open.request_ps, None, "the controller gives no turns");
    let unlimited =
        Stall { costs: open, others: Others::Unlimited, jobs: None, counted_ps: open.latency_ps };
    assert_eq!(unlimited.of(Demand { work_ps: 1_000_000, ..Demand::accesses(1) }), u64::MAX);
    assert_eq!(unlimited.of(Demand { work_ps: 1_000_000, ..Demand::accesses(0) }), 0);
    let held = memory().costs(&Sharing { cache_mshrs: Some(12), ..sharing(1, true) }).unwrap();
    assert_eq!(held.request_ps, None, "a hit may wait for a miss register of the shared cache");
    let many = Requester { reads: 64, writes: 16 };
    let full = memory().costs(&Sharing { others: vec![many; 3], ..sharing(0, false) }).unwrap();
    assert_eq!(full.request_ps, None, "reads wait in front of a full queue");
    assert!(full.read_ps >= costs(3).read_ps);
}

fn budgets(costs: Costs, own: Budget, other: Budget, others: usize) -> Stall {
    let others = Others::Budgets { period_ps: 1_000_000_000, own, others: vec![other; others] };
    Stall { costs, others, jobs: None, counted_ps: costs.latency_ps }
}

/// Budgets whose cost fills the period leave only the bound by request; with half of it the
/// work takes about twice as long.
#[test]
fn budgets_bound_what_a_period_loses() {
    let c = costs(3);
    let half = Budget::Together(
        (500_000_000 - c.left_ps - c.refresh.within(1_000_000_000)) / 3 / c.any_ps,
    );
    let stall = budgets(c, Budget::Together(1_000_000), half, 3);
    let lost = stall.in_period();
    assert!((498_000_000..=502_000_000).contains(&lost), "{lost}");
    let work = Demand { work_ps: 10_000_000_000, ..Demand::accesses(100_000) };
    let seen = stall.of(work);
    assert!((9_800_000_000..=10_700_000_000).contains(&seen), "{seen}");
    let full = budgets(c, Budget::Together(1_000_000), Budget::Together(10_000), 3);
    assert!(full.in_period() > 1_000_000_000);
    assert_eq!(full.of(work), full.by_request(work));
    // A core that is stopped in each period: 100 periods of 1000 accesses, for any accesses of the
    // others.
    let own = budgets(c, Budget::Together(1000), Budget::Together(1), 3);
    let seen = own.of(work) + work.work_ps;
    assert!((100_000_000_000..120_000_000_000).contains(&seen), "{seen}");
    assert_eq!(own.once(), 1_000_000_000 + c.left_ps);
}

/// Each of 100 periods in which the core is stopped holds 26 accesses that may not have ended as
/// the others go on without a limit.
#[test]
fn accesses_under_way_as_a_shared_round_begins_are_no_progress() {
    let c = costs(3);
    let of = |costs| budgets(costs, Budget::Together(1000), Budget::Together(1), 3);
    let (alone, shared) = (of(c), of(Costs { unfinished: 26, ..c }));
    let work = Demand { work_ps: 10_000_000_000, ..Demand::accesses(100_000) };
    let (more, least) = (shared.of(work) - alone.of(work), 100 * 26 * c.latency_ps);
    assert!((least..=least + alone.in_period()).contains(&more), "{more} {least}");
    assert_eq!((shared.in_period(), shared.once()), (alone.in_period(), alone.once()));
    // A budget that may all be under way makes no progress.
    let small =
        budgets(Costs { unfinished: 26, ..c }, Budget::Together(20), Budget::Together(1), 3);
    let one = Demand { work_ps: 10_000_000, ..Demand::accesses(20) };
    assert!(small.of(one) >= 1_000_000_000);
}

#[test]
fn jobs_of_others_bound_what_they_add() {
    let c = costs(1);
    let mut stall =
        Stall { costs: c, others: Others::Unlimited, jobs: None, counted_ps: c.latency_ps };
    let work = Demand { work_ps: 5_000_000_000, ..Demand::accesses(50_000) };
    let beside_anything = stall.of(work);
    stall.jobs = Some(Arc::new(Rivals::new(vec![Job {
        period_ps: 100_000_000_000,
        reach_ps: 100_000_000_000,
        cost_ps: 40_000_000,
    }])));
    let beside_a_job = stall.of(work);
    // Two jobs in reach, the rest, and the refreshes.
    let least = 2 * 40_000_000 + c.left_ps + c.refresh.within(5_000_000_000);
    assert!(beside_a_job >= least && beside_a_job < least * 12 / 10, "{beside_a_job} {least}");
    assert!(beside_a_job * 10 < beside_anything);
}

#[test]
fn extremes_give_no_small_numbers() {
    let c = costs(3);
    for own in [
        Budget::Together(0),
        Budget::Apart { reads: 0, writes: 0 },
        Budget::Apart { reads: 1, writes: 0 },
    ] {
        assert_eq!(
            budgets(c, own, Budget::Together(1), 3)
                .of(Demand { work_ps: 1, ..Demand::accesses(9) }),
            u64::MAX
        );
    }
    let huge = Demand { work_ps: u64::MAX / 2, ..Demand::accesses(u64::MAX) };
    assert_eq!(budgets(c, Budget::Together(5), Budget::Together(5), 3).of(huge), u64::MAX);
    let impossible = Memory { dram: Dram { ras: 1, ..memory().dram }, ..memory() };
    assert!(impossible.costs(&sharing(1, true)).is_none());
}

proptest! {
    /// Beginning at a lower limit finds the same solution, to the picosecond.
    #[test]
    fn a_start_close_to_the_solution_changes_nothing(
        jobs in prop::collection::vec((1u64..200, 0u64..400, 0u64..9, 0u32..40), 0..30),
        work in 0u64..100_000, misses in 0u64..100, plain in any::<bool>(), huge in 0u32..20,
    ) {
        let jobs: Vec<Job> = jobs
            .into_iter()
            .map(|(period_ps, reach_ps, cost_ps, far)| Job {
                period_ps,
                reach_ps: if far == 0 { u64::MAX - reach_ps } else { reach_ps },
                cost_ps: if far == 1 { u64::MAX / 2 - cost_ps } else { cost_ps },
            })
            .collect();
        let part: f64 = jobs.iter().map(|j| j.cost_ps as f64 / j.period_ps as f64).sum();
        // Both have a limit on their steps, and need more of them here.
        prop_assume!((part - 0.95).abs() > 0.1);
        let c = if plain { Costs { left_ps: 0, request_ps: None, latency_ps: 0, refresh: Refresh::default(), ..costs(1) } } else { costs(1) };
        let stall = Stall { costs: c, others: Others::Unlimited, jobs: None, counted_ps: c.latency_ps };
        let rivals = Rivals::new(jobs);
        let work_ps = if huge == 0 { u64::MAX / 2 + work } else { work };
        let demand = Demand { work_ps, ..Demand::accesses(misses) };
        let fixed = c.left_ps.saturating_add(stall.all_stops(demand));
        let from_the_work = stall.least_total(&rivals, demand, fixed, work_ps, u64::MAX);
        prop_assert_eq!(stall.by_jobs(&rivals, demand, u64::MAX), from_the_work);
        // A limit is all that it changes.
        for most in [from_the_work / 2, from_the_work, from_the_work.saturating_add(1)] {
            prop_assert_eq!(stall.by_jobs(&rivals, demand, most), from_the_work.min(most));
        }
    }

    /// More work, more accesses, larger budgets of others, more accesses of their jobs or a smaller
    /// budget of its own never lower the stall.
    #[test]
    fn monotone(
        work in 1_000_000u64..50_000_000_000, misses in 0u64..200_000, writes in 0u64..200_000,
        own in 10u64..5000, apart in any::<bool>(), other in 1u64..6000, more in 1u64..1000,
        jobs in prop::option::of(prop::collection::vec(
            (1_000_000_000u64..200_000_000_000, 0u64..200_000_000_000, 0u64..9_000_000_000), 0..12)),
    ) {
        let c = costs(2);
        let of = |own: u64| if apart { Budget::Apart { reads: own, writes: own / 2 + 1 } } else { Budget::Together(own) };
        let demand = |work_ps, misses: u64| {
            let writes = writes.min(misses);
            Demand { work_ps, misses, writes, reads: misses - writes }
        };
        let rivals = |more: u64| {
            let of = |&(period_ps, reach_ps, cost_ps)| Job { period_ps, reach_ps, cost_ps: cost_ps + more };
            jobs.as_ref().map(|jobs| Arc::new(Rivals::new(jobs.iter().map(of).collect())))
        };
        let with = |own: u64, other: u64, beside: u64| {
            Stall { jobs: rivals(beside), ..budgets(c, of(own), Budget::Together(other), 2) }
        };
        let base = with(own, other, 0);
        let now = base.of(demand(work, misses)).saturating_add(work);
        prop_assert!(base.of(demand(work + more * 1000, misses)).saturating_add(work + more * 1000) >= now);
        prop_assert!(base.of(demand(work, misses + more)) >= now - work);
        prop_assert!(with(own, other + more, 0).of(demand(work, misses)) >= now - work);
        prop_assert!(with(own, other, more * 1_000_000).of(demand(work, misses)) >= now - work);
        prop_assert!(base.of(demand(work, misses)) <= base.by_request(demand(work, misses)));
        // Budgets for writes alone have phases of their own, which grow with them.
        if !apart {
            prop_assert!(with(own + more, other, 0).of(demand(work, misses)) <= now - work);
        }
    }
}

/// Jobs that hold the bandwidth lock, against an enemy that uses all that the rule leaves it.
mod held {
    use super::*;
    use crate::response::{RtaTask, Window, response_time};

    /// Beside cores that see the lock `reaction` after a job begins or goes on.
    struct Enemy {
        costs: Costs,
        period: u64,
        budget: u64,
        cores: u64,
        reaction: u64,
    }

    impl Enemy {
        fn unseen(&self) -> u64 {
            self.reaction + self.costs.left_ps
        }

        /// Bound on the response of the second task, which the first one preempts.
        fn bound(&self, tasks: [(u64, u64); 2]) -> Option<u64> {
            let job = Job::of_budget(self.period, self.budget, &self.costs);
            let stall = Stall {
                costs: self.costs,
                others: Others::Locked { unseen_ps: self.unseen() },
                jobs: Some(Arc::new(Rivals::new(vec![job; self.cores as usize]))),
                counted_ps: 1,
            };
            let preemption_ps = 2 * self.unseen();
            let tasks = tasks.map(|(work, period)| RtaTask {
                preemption_ps,
                ..RtaTask::new(work, 1_000_000, period, period)
            });
            let of = |demand: Demand| stall.of(demand);
            let window = Window { once_ps: stall.once(), stall: &of };
            response_time(&tasks, 1, &window, 100_000)
        }

        /// Response of the second task, released `after` the first one. The enemy takes all of the
        /// time until it sees the lock. Then each core takes its budget and four accesses as soon
        /// as a period begins, in the first one as late as it can, so that two budgets follow.
        fn seen(&self, tasks: [(u64, u64); 2], after: u64, (phase, late): (u64, bool)) -> u64 {
            let each = self.cores * (self.budget + OVERSHOOT) * self.costs.any_ps;
            let [(first, every), (mut low, _)] = tasks;
            let (mut now, mut next, mut high) = (0, 0, 0);
            let (mut used_in, mut running) = (u64::MAX, 0);
            while low > 0 {
                while next <= now {
                    (high, next) = (high + first, next + every);
                    // A job that begins, also behind another of its task, is not seen at once.
                    running = 0;
                }
                let task = if high > 0 { 1 } else { 2 };
                if task == 2 && now < after {
                    now += 1;
                    continue;
                }
                if running != task {
                    now += self.unseen();
                    running = task;
                    continue;
                }
                let current = (now + phase) / self.period;
                let last =
                    !late || used_in < u64::MAX || (now + phase + 1).is_multiple_of(self.period);
                if current != used_in && last {
                    used_in = current;
                    now += each;
                    continue;
                }
                now += 1;
                if task == 1 { high -= 1 } else { low -= 1 }
            }
            now - after
        }
    }

    proptest! {
        /// Fails where a begin, a return, a period or the overshoot of a core is left out.
        #[test]
        fn no_enemy_exceeds_the_bound(
            (high, every, low) in (1u64..60, 300u64..2000, 1u64..900),
            (any, left, reaction) in (1u64..3, 0u64..20, 0u64..60),
            (budget, cores, period) in (1u64..9, 1u64..3, 100u64..400),
            (after, phase, late) in (0u64..600, 0u64..400, any::<bool>()),
        ) {
            let enemy = Enemy { costs: Costs::plain(any, left), period, budget, cores, reaction };
            let tasks = [(high, every), (low, 50_000)];
            if let Some(bound) = enemy.bound(tasks) {
                let seen = enemy.seen(tasks, after, (phase % period, late));
                prop_assert!(seen <= bound, "{seen} > {bound}");
            }
        }
    }

    #[test]
    fn an_enemy_comes_near_to_the_bound() {
        let enemy =
            Enemy { costs: Costs::plain(2, 10), period: 300, budget: 6, cores: 2, reaction: 50 };
        let tasks = [(40, 900), (500, 50_000)];
        let bound = enemy.bound(tasks).unwrap();
        let seen = (0..300).flat_map(|phase| [false, true].map(|late| (phase, late)));
        let most = seen.map(|at| enemy.seen(tasks, 0, at)).max().unwrap();
        assert!(most <= bound && most * 100 > bound * 70, "{most} of {bound}");
    }
}
