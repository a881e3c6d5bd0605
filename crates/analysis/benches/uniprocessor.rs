//! Task sets per second on one core: the fast path, the general one, EDF, and the peer, on the same
//! sets.
//!
//! Sets: n = 20 (and 5, 50), utilisation uniform in 0.7..0.95 (UUniFast), periods log-uniform in 10
//! ms..1 s, in ns, rate-monotonic order, deadlines the periods; EDF with deadlines uniform in the
//! upper half of the period. One set an iteration, in turn: divan's `item/s` are sets per second.
//! Target: 3 times the peer.

use response_time_analysis::{arrival, demand, fixed_priority as peer, time, wcet};
use solocore_analysis::SporadicTask;
use solocore_analysis::uniprocessor::supply::Dedicated;
use solocore_analysis::uniprocessor::{edf, fixed_priority, plain};
use std::cell::Cell;

const SETS: usize = 1000;
const SIZES: [usize; 3] = [5, 20, 50];

fn main() {
    divan::main();
}

/// splitmix64, as a number in 0..1.
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

fn set(n: usize, state: &mut u64) -> Vec<SporadicTask> {
    let mut rest = 0.7 + 0.25 * unit(state);
    let mut tasks = Vec::new();
    for i in 0..n {
        let left = n - i - 1;
        let next = if left == 0 { 0.0 } else { rest * unit(state).powf(1.0 / left as f64) };
        let period = (1e7 * 100f64.powf(unit(state))) as u64;
        let wcet = (((rest - next) * period as f64) as u64).max(1);
        tasks.push(SporadicTask { wcet, period, deadline: period });
        rest = next;
    }
    tasks.sort_by_key(|t| t.period);
    tasks
}

fn sets(n: usize) -> Vec<Vec<SporadicTask>> {
    let mut state = 1;
    (0..SETS).map(|_| set(n, &mut state)).collect()
}

/// Runs `analyse` on one set after the other.
fn run<T>(
    bencher: divan::Bencher,
    n: usize,
    sets: &[Vec<SporadicTask>],
    analyse: impl Fn(&[SporadicTask]) -> T,
) {
    assert!(sets.iter().all(|s| s.len() == n));
    let next = Cell::new(0);
    bencher.counter(divan::counter::ItemsCount::new(1usize)).bench_local(|| {
        next.set((next.get() + 1) % SETS);
        analyse(&sets[next.get()])
    });
}

#[divan::bench(args = SIZES, sample_size = 10_000)]
fn fixed_priority_plain(bencher: divan::Bencher, n: usize) {
    let memory = std::cell::RefCell::new((plain::Scratch::default(), vec![None; n]));
    run(bencher, n, &sets(n), |tasks| {
        let (scratch, responses) = &mut *memory.borrow_mut();
        plain::response_times_into(tasks, scratch, responses);
        responses[n - 1]
    });
}

#[divan::bench(args = SIZES, sample_size = 1000)]
fn fixed_priority_general(bencher: divan::Bencher, n: usize) {
    run(bencher, n, &sets(n), |tasks| {
        let tasks: Vec<_> = tasks.iter().map(fixed_priority::FixedPriorityTask::from).collect();
        fixed_priority::response_times(&Dedicated, &tasks)
    });
}

#[divan::bench(args = SIZES, sample_size = 1000)]
fn fixed_priority_peer(bencher: divan::Bencher, n: usize) {
    type Rbf = demand::RBF<arrival::Sporadic, wcet::Scalar>;
    let rbf = |t: &SporadicTask| -> Rbf {
        let arrivals = arrival::Sporadic::new_zero_jitter(time::Duration::from(t.period));
        demand::RBF::new(arrivals, wcet::Scalar::new(time::Service::from(t.wcet)))
    };
    let sets = sets(n);
    let prepared: Vec<Vec<Rbf>> = sets.iter().map(|s| s.iter().map(rbf).collect()).collect();
    let next = Cell::new(0);
    bencher.counter(divan::counter::ItemsCount::new(1usize)).bench_local(|| {
        next.set((next.get() + 1) % SETS);
        let level = &prepared[next.get()];
        let response = |i: usize| {
            peer::fully_preemptive::dedicated_uniproc_rta(
                &level[i],
                &level[..i],
                time::Duration::from(1u64 << 40),
            )
        };
        (0..n).filter(|i| response(*i).is_ok()).count()
    });
}

#[divan::bench(args = SIZES, sample_size = 1000)]
fn edf_exact(bencher: divan::Bencher, n: usize) {
    let mut sets = sets(n);
    let mut state = 2;
    for t in sets.iter_mut().flatten() {
        t.deadline = (t.period as f64 * (0.5 + 0.5 * unit(&mut state))) as u64;
    }
    run(bencher, n, &sets, |tasks| edf::test(&Dedicated, tasks));
}
