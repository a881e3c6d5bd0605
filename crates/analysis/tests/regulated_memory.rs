//! Exhaustive search for the worst stall on a regulated round-robin memory, against the closed
//! bounds.
//!
//! Problem: the bounds in `stall.rs` are derived by hand. Rule: step the memory tick by tick, let
//! an adversary choose at each tick whether each core issues a request (or, for the core under
//! analysis, computes), and take the maximum over all choices, all starts that an earlier task on
//! the core can cause, and all programs with up to `mu` accesses. The search shares no formula with
//! the bounds. It covers two or three cores and periods of 4 to 12 ticks.

use std::collections::HashMap;

use solocore_analysis::{
    Regulation, carry_in, carry_in_in_flight, fast_service, stall, stall_explicit, stall_paper,
};

/// Core 0 is the one under analysis.
const OWN: usize = 0;

#[derive(Clone, Copy, PartialEq)]
enum Counting {
    AtIssue,
    AtCompletion,
}

struct Memory {
    period: u8,
    /// Ticks to serve a request of another core: the longest service time `L`.
    latency: u8,
    /// Ticks to serve a request of the core under analysis.
    own_latency: u8,
    budgets: Vec<u8>,
    counting: Counting,
}

/// The state at the start of a tick, budgets already refilled if a period starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    phase: u8,
    used: [u8; 3],
    pending: [bool; 3],
    /// The core being served and the ticks left.
    serving: Option<(u8, u8)>,
    /// The core served last: the others come first.
    last: u8,
}

impl Memory {
    fn new(period: u8, latency: u8, budgets: &[u8]) -> Self {
        let (own_latency, counting) = (latency, Counting::AtIssue);
        Self { period, latency, own_latency, budgets: budgets.to_vec(), counting }
    }

    fn may_issue(&self, state: &State, core: usize) -> bool {
        !state.pending[core] && state.used[core] < self.budgets[core]
    }

    fn throttled(&self, state: &State) -> bool {
        !state.pending[OWN] && state.used[OWN] >= self.budgets[OWN]
    }

    /// One tick in which the cores of the bit mask `issue` issue a request. Also returns whether
    /// the core under analysis made no progress.
    fn tick(&self, mut state: State, issue: usize) -> (State, bool) {
        let cores = self.budgets.len();
        for core in (0..cores).filter(|core| issue & (1 << core) != 0) {
            state.pending[core] = true;
            if self.counting == Counting::AtIssue {
                state.used[core] += 1;
            }
        }
        if state.serving.is_none() {
            let next = (1..=cores)
                .map(|step| (usize::from(state.last) + step) % cores)
                .find(|&c| state.pending[c]);
            state.serving = next.map(|core| {
                let ticks = if core == OWN { self.own_latency } else { self.latency };
                (u8::try_from(core).unwrap(), ticks)
            });
        }
        let own_served = state.serving.is_some_and(|(core, _)| usize::from(core) == OWN);
        let stalled = if state.pending[OWN] { !own_served } else { self.throttled(&state) };
        if let Some((core, left)) = state.serving {
            state.serving = Some((core, left - 1));
            if left == 1 {
                state.serving = None;
                state.last = core;
                state.pending[usize::from(core)] = false;
                if self.counting == Counting::AtCompletion {
                    state.used[usize::from(core)] += 1;
                }
            }
        }
        state.phase += 1;
        if state.phase == self.period {
            state.phase = 0;
            state.used = [0; 3];
        }
        (state, stalled)
    }
}

struct Edge {
    to: usize,
    own_issues: bool,
    stalled: bool,
}

/// All states that cores starting together on full budgets can reach, with all their moves.
struct Search<'a> {
    memory: &'a Memory,
    states: Vec<State>,
    edges: Vec<Vec<Edge>>,
    /// State indices by phase, latest first, so that most values are final when first computed.
    order: Vec<usize>,
}

/// Worst delays by number of accesses, for three kinds of start.
struct Worst {
    /// The earlier task has not used the budget of the period of the start.
    fresh: Vec<u64>,
    /// Any start with no access of the core in flight.
    any: Vec<u64>,
    /// An access of the earlier task has just been issued; the job waits for all of it.
    in_flight: Vec<u64>,
}

impl<'a> Search<'a> {
    fn new(memory: &'a Memory) -> Self {
        let cores = memory.budgets.len();
        let start =
            |last| State { phase: 0, used: [0; 3], pending: [false; 3], serving: None, last };
        let mut states: Vec<State> = (0..u8::try_from(cores).unwrap()).map(start).collect();
        let mut index: HashMap<State, usize> =
            states.iter().enumerate().map(|(i, &s)| (s, i)).collect();
        let mut edges = Vec::new();
        while edges.len() < states.len() {
            let from = states[edges.len()];
            let able = (0..cores)
                .filter(|&c| memory.may_issue(&from, c))
                .fold(0usize, |mask, c| mask | 1 << c);
            let moves = (0..1usize << cores).filter(|mask| mask & !able == 0).map(|mask| {
                let (next, stalled) = memory.tick(from, mask);
                let to = *index.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() - 1
                });
                Edge { to, own_issues: mask & (1 << OWN) != 0, stalled }
            });
            let moves = moves.collect();
            edges.push(moves);
        }
        let mut order: Vec<usize> = (0..states.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(states[i].phase));
        Self { memory, states, edges, order }
    }

    /// The rest of a suspension, which delays the program's computing after its last access.
    fn suspension_left(&self, at: usize) -> u64 {
        let state = &self.states[at];
        if self.memory.throttled(state) { u64::from(self.memory.period - state.phase) } else { 0 }
    }

    /// Raises `values` until no move improves on them. Cycles (computing on and on) cost nothing,
    /// so this ends.
    fn settle(&self, values: &mut [u64], best: impl Fn(&[u64], usize) -> u64) {
        loop {
            let mut changed = false;
            for &at in &self.order {
                let value = best(values, at);
                changed |= value > values[at];
                values[at] = values[at].max(value);
            }
            if !changed {
                return;
            }
        }
    }

    /// `previous` holds the values with one access less to make.
    fn stall_layer(&self, previous: Option<&[u64]>) -> Vec<u64> {
        let mut values = vec![0; self.states.len()];
        self.settle(&mut values, |values, at| {
            let moves = self.edges[at].iter().filter_map(|edge| {
                let rest = if edge.own_issues { previous?[edge.to] } else { values[edge.to] };
                Some(u64::from(edge.stalled) + rest)
            });
            moves.max().unwrap_or(0).max(self.suspension_left(at))
        });
        values
    }

    /// Delay of a job released just after an access of the earlier task is issued; `after` holds
    /// its stall from then.
    fn in_flight(&self, after: &[u64]) -> u64 {
        let pending = |at: usize| self.states[at].pending[OWN];
        let mut values: Vec<u64> =
            (0..after.len()).map(|at| if pending(at) { 0 } else { after[at] }).collect();
        self.settle(&mut values, |values, at| {
            let wait = self.edges[at].iter().map(|edge| 1 + values[edge.to]).max().unwrap_or(0);
            if pending(at) { wait } else { after[at] }
        });
        self.edges
            .iter()
            .flatten()
            .filter(|edge| edge.own_issues)
            .map(|edge| 1 + values[edge.to])
            .max()
            .unwrap_or(0)
    }

    fn worst(&self, max_accesses: u64) -> Worst {
        let mut worst = Worst { fresh: Vec::new(), any: Vec::new(), in_flight: Vec::new() };
        let mut previous: Option<Vec<u64>> = None;
        for _ in 0..=max_accesses {
            let layer = self.stall_layer(previous.as_deref());
            let over = |keep: &dyn Fn(&State) -> bool| {
                let starts = self
                    .states
                    .iter()
                    .zip(&layer)
                    .filter(|(state, _)| !state.pending[OWN] && keep(state));
                starts.map(|(_, &value)| value).max().unwrap()
            };
            worst.fresh.push(over(&|state| state.used[OWN] == 0));
            worst.any.push(over(&|_| true));
            worst.in_flight.push(self.in_flight(&layer));
            previous = Some(layer);
        }
        worst
    }
}

impl Memory {
    fn regulation(&self) -> Regulation {
        let (period_ps, latency_ps) = (u64::from(self.period), u64::from(self.latency));
        Regulation { period_ps, latency_ps, cores: u32::try_from(self.budgets.len()).unwrap() }
    }

    fn own_budget(&self) -> u64 {
        u64::from(self.budgets[OWN])
    }

    fn is_even(&self) -> bool {
        let demand = self.budgets.iter().map(|&q| q * self.latency).sum::<u8>();
        self.budgets.iter().all(|&q| q == self.budgets[OWN]) && demand == self.period
    }

    fn worst(&self, max_accesses: u64) -> Worst {
        Search::new(self).worst(max_accesses)
    }
}

/// All memories with budgets that fit in the period; the other cores' budgets may be zero.
fn memories(periods: std::ops::RangeInclusive<u8>, latency: u8) -> Vec<Memory> {
    let mut all = Vec::new();
    for period in periods {
        let slots = period / latency;
        for own in 1..=slots {
            for second in 0..=slots - own {
                all.push(Memory::new(period, latency, &[own, second]));
                all.extend(
                    (0..=slots - own - second)
                        .map(|third| Memory::new(period, latency, &[own, second, third])),
                );
            }
        }
    }
    all
}

#[derive(Default)]
struct Tightness {
    cases: u32,
    tight: u32,
    largest: f64,
    sum: f64,
}

impl Tightness {
    fn add(&mut self, bound: u64, worst: u64) {
        let ratio = if worst == 0 { 1.0 } else { bound as f64 / worst as f64 };
        self.cases += 1;
        self.tight += u32::from(bound == worst);
        self.largest = self.largest.max(ratio);
        self.sum += ratio;
    }

    fn print(&self, what: &str) {
        let mean = self.sum / f64::from(self.cases.max(1));
        println!(
            "{what}: {} cases, {} tight, largest ratio {:.3}, mean {mean:.3}",
            self.cases, self.tight, self.largest
        );
    }
}

fn check_all(memories: &[Memory]) {
    let (mut even, mut below, mut above) =
        (Tightness::default(), Tightness::default(), Tightness::default());
    for memory in memories {
        let (r, q) = (memory.regulation(), memory.own_budget());
        let budgets: Vec<u64> = memory.budgets.iter().map(|&q| q.into()).collect();
        let most = (2 * q + 1).min(9);
        let worst = memory.worst(most);
        for (mu, &any) in (0..=most).zip(&worst.any) {
            let case =
                format!("P={} L={} Q={:?} mu={mu}", memory.period, memory.latency, memory.budgets);
            let at = usize::try_from(mu).unwrap();
            let bound = stall(&r, q, mu) + carry_in(&r, q);
            assert!(bound >= any, "{case}: bound {bound} below the worst case {any}");
            let explicit = stall_explicit(&r, &budgets, OWN, mu) + carry_in(&r, q);
            assert_eq!(
                explicit, any,
                "{case}: the bound for explicit budgets is not the worst case"
            );
            assert!(
                stall(&r, q, mu) >= worst.fresh[at],
                "{case}: bound without carry-in, {} worst",
                worst.fresh[at]
            );
            let in_flight = stall(&r, q, mu) + carry_in_in_flight(&r, q);
            assert!(
                in_flight >= worst.in_flight[at],
                "{case}: {} with one in flight",
                worst.in_flight[at]
            );
            if memory.is_even() {
                assert_eq!(bound, any, "{case}: even, but not tight");
                assert_eq!(
                    stall(&r, q, mu),
                    worst.fresh[at],
                    "{case}: even, but not tight without carry-in"
                );
                assert_eq!(
                    in_flight, worst.in_flight[at],
                    "{case}: even, but not tight with one in flight"
                );
            }
            let cores = u64::from(r.cores);
            let kind = match q * cores * r.latency_ps {
                _ if memory.is_even() => &mut even,
                demand if demand <= r.period_ps => &mut below,
                _ => &mut above,
            };
            kind.add(bound, any);
        }
    }
    even.print("even");
    below.print("Q <= P/(mL), not even");
    above.print("Q > P/(mL)");
    assert!(even.cases > 0 && below.cases > 0 && above.cases > 0);
}

#[test]
fn bound_holds_and_is_tight_when_even() {
    check_all(&memories(4..=9, 1));
}

#[test]
fn bound_holds_with_periods_up_to_twelve() {
    check_all(&memories(10..=12, 1));
}

#[test]
fn bound_holds_with_service_across_period_starts() {
    check_all(&memories(4..=12, 2));
    check_all(&memories(9..=10, 3));
}

#[test]
fn eq1_alone_is_violated_for_few_misses_after_a_drained_budget() {
    let memory = Memory::new(6, 1, &[3, 3]);
    let (r, worst) = (memory.regulation(), memory.worst(4));
    for mu in 0..=4u64 {
        let any = worst.any[usize::try_from(mu).unwrap()];
        // (P - Q*L)/L = 3 misses make up for the carry-in.
        assert_eq!(
            stall_paper(&r, mu) < any,
            mu < 3,
            "mu={mu}: eq. (1) {}, worst {any}",
            stall_paper(&r, mu)
        );
    }
}

#[test]
fn carry_in_alone_is_violated_by_an_access_in_flight() {
    let memory = Memory::new(6, 1, &[3, 3]);
    let (r, worst) = (memory.regulation(), memory.worst(0));
    assert_eq!(worst.in_flight[0], carry_in(&r, 3) + 1);
}

#[test]
fn counting_at_completion_costs_more_per_full_period() {
    let mut violations = 0;
    for mut memory in memories(4..=8, 1).into_iter().chain(memories(4..=8, 2)) {
        memory.counting = Counting::AtCompletion;
        let (r, q) = (memory.regulation(), memory.own_budget());
        let most = (2 * q + 1).min(7);
        let slot = u64::from(r.cores) * r.latency_ps;
        for (mu, &any) in (0..=most).zip(&memory.worst(most).any) {
            let bound = stall(&r, q, mu) + carry_in(&r, q);
            violations += u32::from(bound < any);
            // The period that opens the window is a full one too, with the rest of an earlier task.
            let repaired = bound + (mu / q + 1) * slot;
            assert!(
                repaired >= any,
                "P={} L={} Q={:?} mu={mu}",
                memory.period,
                memory.latency,
                memory.budgets
            );
        }
    }
    println!("counting at completion: {violations} cases above the bound for counting at issue");
    assert!(violations > 0);
}

#[test]
fn fast_accesses_in_the_solo_time_need_their_slack() {
    let mut violations = 0;
    for mut memory in memories(4..=10, 2) {
        memory.own_latency = 1;
        let (r, q) = (memory.regulation(), memory.own_budget());
        let most = (2 * q + 1).min(7);
        for (mu, &any) in (0..=most).zip(&memory.worst(most).any) {
            let bound = stall(&r, q, mu) + carry_in(&r, q);
            violations += u32::from(bound < any);
            let repaired = bound + fast_service(&r, 1, mu) + fast_service(&r, 1, q);
            assert!(
                repaired >= any,
                "P={} Q={:?} mu={mu}: {repaired} below {any}",
                memory.period,
                memory.budgets
            );
        }
    }
    assert!(violations > 0);
}

/// The best of all distributions of `misses` to periods, by trying every size of the last period.
fn best_distribution(r: &Regulation, budgets: &[u64], misses: u64) -> u64 {
    let one_period = |n: u64| match n {
        n if n == budgets[OWN] => r.period_ps - n * r.latency_ps,
        n => r.latency_ps * budgets[1..].iter().map(|&q| q.min(n)).sum::<u64>(),
    };
    let mut best = vec![0u64];
    for total in 1..=misses {
        let options = (1..=budgets[OWN].min(total))
            .map(|n| one_period(n) + best[usize::try_from(total - n).unwrap()]);
        best.push(options.max().unwrap());
    }
    best[usize::try_from(misses).unwrap()]
}

#[test]
fn explicit_is_the_exact_maximum_over_distributions() {
    let mut cases = 0;
    for latency in 1..=3 {
        for memory in memories(4..=14, latency) {
            let (r, budgets) = (
                memory.regulation(),
                memory.budgets.iter().map(|&q| q.into()).collect::<Vec<u64>>(),
            );
            for mu in 0..=20 {
                let exact = best_distribution(&r, &budgets, mu);
                assert_eq!(
                    stall_explicit(&r, &budgets, OWN, mu),
                    exact,
                    "{r:?} {budgets:?} mu={mu}"
                );
                cases += 1;
            }
        }
    }
    println!("explicit: {cases} cases equal");
}
