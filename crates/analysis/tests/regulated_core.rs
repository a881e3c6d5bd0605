//! Both halves together: fixed-priority tasks on a regulated core, simulated, never exceed their
//! response times.
//!
//! Jobs run random programs of computing and accesses, other cores load the memory at random or as
//! much as possible, and releases are sporadic. One tick is one picosecond. Accesses cannot be
//! preempted, hence the carry-in with one in flight.

use proptest::prelude::*;
use solocore_analysis::{Regulation, RtaTask, Window, carry_in_in_flight, response_times, stall};

const LATENCY: u64 = 2;

#[derive(Debug, Clone)]
struct Scenario {
    budgets: Vec<u64>,
    slack: u64,
    /// Per task: the program (true: an access), the period.
    tasks: Vec<(Vec<bool>, u64)>,
    /// Chance in 8 that an idle core issues a request, and that a due task waits another tick for
    /// its release.
    eagerness: u64,
    lateness: u64,
    seed: u64,
}

struct Dice(u64);

impl Dice {
    /// True in `chance` of 8 cases (splitmix64).
    fn roll(&mut self, chance: u64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 8 < chance
    }
}

impl Scenario {
    fn regulation(&self) -> Regulation {
        let period_ps = self.budgets.iter().sum::<u64>() * LATENCY + self.slack;
        Regulation {
            period_ps,
            latency_ps: LATENCY,
            cores: u32::try_from(self.budgets.len()).unwrap(),
        }
    }

    fn analysed(&self) -> Vec<Option<u64>> {
        let (r, budget) = (self.regulation(), self.budgets[0]);
        let window = Window {
            once_ps: carry_in_in_flight(&r, budget),
            stall: &|all| stall(&r, budget, all.misses),
        };
        let tasks = self.tasks.iter().map(|(program, period_ps)| {
            let misses = program.iter().filter(|&&access| access).count() as u64;
            let wcet_ps = program.len() as u64 + misses * (LATENCY - 1);
            RtaTask::new(wcet_ps, misses, *period_ps, *period_ps)
        });
        response_times(&tasks.collect::<Vec<_>>(), &window)
    }

    /// Longest response of each task within `ticks`; core 0 runs the tasks. One long function, so
    /// that a tick reads from top to bottom.
    fn simulate(&self, ticks: u64) -> Vec<u64> {
        let (period, cores) = (self.regulation().period_ps, self.budgets.len());
        let mut dice = Dice(self.seed);
        let mut due: Vec<u64> = self.tasks.iter().map(|(_, t)| self.seed % t).collect();
        let mut queues: Vec<std::collections::VecDeque<(u64, usize)>> =
            vec![Default::default(); self.tasks.len()];
        let (mut used, mut pending) = (vec![0; cores], vec![false; cores]);
        let (mut serving, mut last, mut accessor) = (None, 0, None);
        let mut worst = vec![0; self.tasks.len()];
        for now in 0..ticks {
            if now % period == 0 {
                used.fill(0);
            }
            for (i, (_, t)) in self.tasks.iter().enumerate() {
                if due[i] <= now && !dice.roll(self.lateness) {
                    queues[i].push_back((now, 0));
                    due[i] = now + t;
                }
            }
            for core in 1..cores {
                if !pending[core] && used[core] < self.budgets[core] && dice.roll(self.eagerness) {
                    (pending[core], used[core]) = (true, used[core] + 1);
                }
            }
            let ready = queues.iter().position(|jobs| !jobs.is_empty());
            let free = accessor.is_none() && used[0] < self.budgets[0];
            let mut ran = ready.filter(|_| free);
            if let Some(i) = ran.take_if(|i| self.tasks[*i].0[queues[*i][0].1]) {
                (pending[0], used[0], accessor) = (true, used[0] + 1, Some(i));
            }
            if serving.is_none() {
                let next =
                    (1..=cores).map(|step| (last + step) % cores).find(|&core| pending[core]);
                serving = next.map(|core| (core, LATENCY));
            }
            if let Some((core, left)) = serving {
                serving = Some((core, left - 1)).filter(|&(_, left)| left > 0);
                if left == 1 {
                    (pending[core], last) = (false, core);
                    if core == 0 {
                        ran = accessor.take();
                    }
                }
            }
            if let Some(i) = ran {
                queues[i][0].1 += 1;
                if queues[i][0].1 == self.tasks[i].0.len() {
                    let (release, _) = queues[i].pop_front().unwrap();
                    worst[i] = worst[i].max(now + 1 - release);
                }
            }
        }
        worst
    }
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let program = prop::collection::vec(prop::bool::weighted(0.4), 1..12);
    let tasks = prop::collection::vec((program, 15u64..300), 1..5);
    let budgets = prop::collection::vec(1u64..6, 2..4);
    (budgets, 0u64..6, tasks, 1u64..9, 0u64..6, any::<u64>())
        .prop_map(|(budgets, slack, tasks, eagerness, lateness, seed)| Scenario {
            budgets,
            slack,
            tasks,
            eagerness,
            lateness,
            seed,
        })
        .prop_filter("no task has a bound", |scenario| scenario.analysed()[0].is_some())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn simulated_responses_stay_within_the_analysis(scenario in scenarios()) {
        let simulated = scenario.simulate(4000);
        for (i, (bound, worst)) in scenario.analysed().into_iter().zip(simulated).enumerate() {
            if let Some(bound) = bound {
                prop_assert!(worst <= bound, "task {i}: simulated {worst}, bound {bound}");
            }
        }
    }
}
