//! The tests of global EDF and the tardiness bounds against independent references in Python, in
//! exact fractions.
//!
//! `SOLOCORE_SETS` sets the number of task sets (4,000; `make nightly`: 100,000).

#[path = "support/gedf.rs"]
mod gedf;

use gedf::Draw;
use serde::Deserialize;
use solocore_analysis::multiprocessor::restricted::{self, CoreSupply};
use solocore_analysis::multiprocessor::tardiness::{self, PriorityPoint};
use solocore_analysis::multiprocessor::{bar, bcl, bcl_iterative, ffdbf, gfb, response};
use solocore_analysis::{SporadicTask, TaskSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

#[derive(Deserialize)]
struct Reference {
    gfb: bool,
    ffdbf: bool,
    ffdbf_edge: bool,
    gel: Vec<u64>,
    gfl: Vec<u64>,
    da: Option<Vec<u64>>,
    restricted: Option<Vec<f64>>,
    bcl: Option<bool>,
    bcl_iterative: Option<bool>,
    bar: Option<bool>,
    response: Option<bool>,
    responses: Option<Vec<u64>>,
}

/// A set whose hyperperiod is at most 24, with the tasks of a higher level on each core.
fn draw_case(draw: &mut Draw) -> (TaskSet, Vec<SporadicTask>) {
    loop {
        let cores = 1 + draw.below(3) as u32;
        let kind = draw.below(4);
        let tasks = (0..cores as u64 + 1 + draw.below(4)).map(|_| {
            let period = [2, 3, 4, 6, 8, 12, 24][draw.below(7) as usize];
            let wcet =
                draw.within(1, period).min(draw.within(1, period)).min(draw.within(1, period));
            let deadline = match kind {
                0 => period,
                1 | 2 => draw.within(wcet.max(period / 2), period),
                _ => draw.within(wcet, 2 * period),
            };
            SporadicTask { wcet, period, deadline }
        });
        let set = TaskSet { cores, tasks: tasks.collect() };
        if solocore_analysis::task_set::utilization_at_most(&set.tasks, cores) {
            let taken = (0..draw.below(u64::from(cores) + 1)).map(|_| SporadicTask {
                wcet: 1,
                period: 7,
                deadline: 7,
            });
            let taken = taken.collect();
            return (set, taken);
        }
    }
}

fn to_json(set: &TaskSet, taken: &[SporadicTask]) -> String {
    let list = |tasks: &[SporadicTask], deadline: bool| {
        let one = |t: &SporadicTask| {
            if deadline {
                format!("[{},{},{}]", t.wcet, t.period, t.deadline)
            } else {
                format!("[{},{}]", t.wcet, t.period)
            }
        };
        tasks.iter().map(one).collect::<Vec<_>>().join(",")
    };
    format!(
        "{{\"cores\":{},\"tasks\":[{}],\"taken\":[{}]}}",
        set.cores,
        list(&set.tasks, true),
        list(taken, false)
    )
}

/// Runs the references over all cases, in two processes.
fn references(cases: &[(TaskSet, Vec<SporadicTask>)]) -> Vec<Reference> {
    let (first, second) = cases.split_at(cases.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run_references(second));
        let mut all = run_references(first);
        all.extend(other.join().expect("the second process ends"));
        all
    })
}

fn run_references(cases: &[(TaskSet, Vec<SporadicTask>)]) -> Vec<Reference> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/multiprocessor.py");
    let mut input = String::new();
    for (set, taken) in cases {
        writeln!(input, "{}", to_json(set, taken)).expect("a string takes all");
    }
    let mut child = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts; scripts/setup.sh test installs it");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("python3 ends");
    writer.join().expect("the writer ends").expect("python3 reads all");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("the reference prints its fields"))
        .collect()
}

fn compare(set: &TaskSet, taken: &[SporadicTask], reference: &Reference) {
    assert_eq!(gfb::schedulable(set), Ok(reference.gfb), "gfb {set:?}");
    let ffdbf = ffdbf::schedulable(set);
    // One sigma, at which windows have no bound, is left out by rule.
    assert!(
        ffdbf == Ok(reference.ffdbf) || (reference.ffdbf_edge && ffdbf == Ok(false)),
        "ffdbf {set:?}: {ffdbf:?}"
    );
    assert_eq!(bcl::schedulable(set).ok(), reference.bcl, "bcl {set:?}");
    assert_eq!(
        bcl_iterative::schedulable(set).ok(),
        reference.bcl_iterative,
        "bcl_iterative {set:?}"
    );
    assert_eq!(bar::schedulable(set).ok(), reference.bar, "bar {set:?}");
    assert_eq!(response::schedulable(set).ok(), reference.response, "response {set:?}");
    assert_eq!(response::responses(set).ok().flatten(), reference.responses, "responses {set:?}");
    for (point, expected) in
        [(PriorityPoint::Deadline, &reference.gel), (PriorityPoint::FairLateness, &reference.gfl)]
    {
        let bounds = tardiness::bounds(set, point).ok().flatten().map(|b| b.response);
        assert_eq!(bounds.as_ref(), Some(expected), "{point:?} {set:?}");
    }
    let closed = tardiness::devi_anderson(set).ok().flatten().map(|b| b.tardiness);
    assert_eq!(closed, reference.da, "closed form {set:?}");
    compare_restricted(set, taken, reference);
}

/// Rounded up, step by step, in each term: never below the reference, and above it by few units
/// only.
fn compare_restricted(set: &TaskSet, taken: &[SporadicTask], reference: &Reference) {
    let mut supplies = vec![CoreSupply::full(); set.cores as usize];
    for (supply, task) in supplies.iter_mut().zip(taken) {
        *supply = CoreSupply::left_by(&[*task]).expect("1/7 leaves 6/7");
    }
    let bounds = restricted::bounds(set, &supplies, PriorityPoint::Deadline)
        .ok()
        .flatten()
        .map(|b| b.response);
    assert_eq!(bounds.is_some(), reference.restricted.is_some(), "{set:?} {taken:?}");
    for (bound, exact) in bounds.iter().flatten().zip(reference.restricted.iter().flatten()) {
        let bound = *bound as f64;
        assert!(bound >= exact - 1e-6, "{set:?} {taken:?}: {bound} < {exact}");
        assert!(bound <= 3.0 * exact + 30.0, "{set:?} {taken:?}: {bound} far above {exact}");
    }
}

#[test]
fn equal_to_the_references() {
    let count =
        std::env::var("SOLOCORE_SETS").ok().and_then(|text| text.parse().ok()).unwrap_or(4_000);
    let mut draw = Draw(31);
    let cases: Vec<_> = (0..count).map(|_| draw_case(&mut draw)).collect();
    let references = references(&cases);
    assert_eq!(references.len(), cases.len());
    for ((set, taken), reference) in cases.iter().zip(&references) {
        compare(set, taken, reference);
    }
    let share = |pick: fn(&Reference) -> bool| {
        references.iter().filter(|r| pick(r)).count() * 100 / references.len()
    };
    let shares = [
        share(|r| r.gfb),
        share(|r| r.ffdbf),
        share(|r| r.bar == Some(true)),
        share(|r| r.response == Some(true)),
    ];
    assert!(
        count < 1000 || shares.iter().all(|s| (5..=95).contains(s)),
        "sets are too easy or too hard: {shares:?} %"
    );
}
