//! Answers against trying all offsets, on instances small enough for that; the same answer for any
//! number of threads.

use proptest::prelude::*;
use solocore_model::WindowsInput;
use solocore_planner::windows::solver::{Answer, Problem, solve};
use std::path::Path;
use std::time::{Duration, Instant};

/// Milliseconds of a partition: period, window, bound to core 0, and a chain (physical, transfer)
/// in and out.
type Part = (u32, u32, bool, Option<(u32, u32)>, Option<(u32, u32)>);

fn instance(cores: u32, age: u32, parts: &[Part]) -> WindowsInput {
    let mut text = format!("cores = {cores}\n[[device]]\nname = \"d\"\n");
    for (n, (period, window, bound, input, output)) in parts.iter().enumerate() {
        text += &format!(
            "[[partition]]\nname = \"p{n}\"\nperiod = \"{period} ms\"\nduration = \"{window} ms\"\n"
        );
        if *bound {
            text += "core = 0\n";
        }
        if input.is_some() || output.is_some() {
            text += &format!("[[partition.chain]]\nage = \"{} ms\"\n", age * period);
        }
        for (key, half) in [("input", input), ("output", output)] {
            if let Some((physical, transfer)) = half {
                text += &format!(
                    "{key} = {{ device = \"d\", physical = \
                        \"{physical} ms\", transfer = \"{transfer} ms\" }}\n"
                );
            }
        }
    }
    WindowsInput::parse(Path::new("instance.toml"), &text).expect("valid")
}

/// An activity of the brute force: resource, period, duration, and the activity whose end it must
/// wait for.
#[derive(Clone, Copy)]
struct Act {
    resource: u32,
    period: i64,
    dur: i64,
    after: Option<usize>,
    /// First activity of the chain, and the chain's age limit.
    first: usize,
    age: i64,
}

/// Are two periodic activities apart? By unrolling.
fn apart(a: Act, x: i64, b: Act, y: i64) -> bool {
    let hyper = (1..).map(|k| a.period * k).find(|h| h % b.period == 0).expect("a common multiple");
    let starts = |act: Act, o: i64| {
        (0..hyper / act.period).map(move |k| (o + k * act.period).rem_euclid(hyper))
    };
    starts(a, x).all(|s| {
        starts(b, y)
            .all(|t| (t - s).rem_euclid(hyper) >= a.dur && (s - t).rem_euclid(hyper) >= b.dur)
    })
}

/// Is there a table? Tries all cores, and all whole offsets within the age limits. Answers no when
/// that takes too long.
fn possible(cores: u32, age: u32, parts: &[Part]) -> bool {
    fn choose(cores: u32, age: u32, parts: &[Part], on: &mut Vec<u32>, left: &mut u32) -> bool {
        if on.len() == parts.len() {
            return place(&activities(age, parts, on, cores), &mut Vec::new(), left);
        }
        let range = if parts[on.len()].2 { 0..1 } else { 0..cores };
        for core in range {
            on.push(core);
            if choose(cores, age, parts, on, left) {
                return true;
            }
            on.pop();
        }
        false
    }
    choose(cores, age, parts, &mut Vec::new(), &mut 100_000)
}

fn activities(age: u32, parts: &[Part], on: &[u32], cores: u32) -> Vec<Act> {
    let mut acts: Vec<Act> = Vec::new();
    for ((period, window, _, input, output), core) in parts.iter().zip(on) {
        let first = acts.len();
        let mut push = |resource, dur: u32| {
            let after = (acts.len() > first).then(|| acts.len() - 1);
            let (period, age) = (i64::from(*period), i64::from(age * period));
            acts.push(Act { resource, period, dur: i64::from(dur), after, first, age });
        };
        if let Some((physical, transfer)) = input {
            push(cores + 1, *physical);
            push(cores, *transfer);
        }
        push(*core, *window);
        if let Some((physical, transfer)) = output {
            push(cores, *transfer);
            push(cores + 1, *physical);
        }
    }
    acts
}

fn place(acts: &[Act], at: &mut Vec<i64>, left: &mut u32) -> bool {
    let n = at.len();
    if *left == 0 {
        return false;
    }
    *left -= 1;
    if n == acts.len() {
        return true;
    }
    let act = acts[n];
    let (low, high) = match act.after {
        None => (0, act.period - 1),
        // A partition without a chain has no second activity; with one, the age limits it.
        Some(before) => (at[before] + acts[before].dur, at[act.first] + act.age - act.dur),
    };
    for x in low..=high {
        if (0..n).all(|m| acts[m].resource != act.resource || apart(acts[m], at[m], act, x)) {
            at.push(x);
            if place(acts, at, left) {
                return true;
            }
            at.pop();
        }
    }
    false
}

fn answer(instance: &WindowsInput, seed: u64, threads: usize) -> Answer {
    let end = Instant::now() + Duration::from_secs(20);
    solve(&Problem::new(instance), seed, threads, &|| Instant::now() > end)
}

fn part() -> impl Strategy<Value = Part> {
    let half = || prop::option::weighted(0.4, (1u32..3, 1u32..3));
    (prop::sample::select(vec![4u32, 6, 8, 12]), 1u32..4, any::<bool>(), half(), half())
}

/// A window of 3 ms is longer than the 2 ms that the three periods have in common, and yet: 0, 4
/// and 3 ms.
#[test]
fn a_window_may_exceed_the_common_divisor_of_others() {
    let parts = [(12, 3, true, None, None), (6, 1, true, None, None), (4, 1, true, None, None)];
    assert!(matches!(answer(&instance(1, 1, &parts), 1, 1), Answer::Found(..)));
}

fn agree(cores: u32, age: u32, parts: &[Part]) -> Result<(), TestCaseError> {
    let instance = instance(cores, age, parts);
    match answer(&instance, 1, 1) {
        Answer::Found(solution, _) => {
            let holds = Problem::new(&instance).holds(&solution);
            prop_assert!(holds);
        }
        Answer::Infeasible(reason) => prop_assert!(!possible(cores, age, parts), "{}", reason),
        Answer::NotFound(_) => prop_assert!(false, "not decided"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn answers_are_those_of_trying_all(cores in 1u32..3, age in 1u32..3, parts in prop::collection::vec(part(), 1..4)) {
        agree(cores, age, &parts)?;
    }

    #[test]
    fn answers_without_chains_are_those_of_trying_all(
        cores in 1u32..3,
        parts in prop::collection::vec((prop::sample::select(vec![4u32, 6, 8, 10, 12, 15, 18, 24, 30]), 1u32..5), 2..8)
    ) {
        let fits = |p: &(u32, u32)| (p.0, p.1.min(p.0 - 1), false, None, None);
        agree(cores, 2, &parts.iter().map(fits).collect::<Vec<Part>>())?;
    }

    #[test]
    fn threads_change_nothing(seed in any::<u64>(), parts in prop::collection::vec(part(), 3..9)) {
        let instance = instance(3, 2, &parts);
        prop_assert_eq!(answer(&instance, seed, 1), answer(&instance, seed, 3));
    }
}
