//! Edited plans and runs: each is refused, or can be regulated and drawn.

use super::{Mutator, inputs};
use crate::regulate::regulation::Regulation;
use crate::{Event, Options};
use serde_json::Value;
use solocore_model::Plan;
use solocore_model::run::{
    FORMAT, RunCore, RunJob, RunLevelTask, RunLevels, RunRegulation, RunResult, RunSpan, RunTask,
    RunVcpu, RunVcpus,
};
use solocore_report::{Inputs, html};

fn plan() -> Plan {
    serde_json::from_str(include_str!("../../tests/plan.json")).unwrap()
}

/// A run that has something of each section.
fn run(plan: &Plan) -> RunResult {
    let core = |cpu| RunCore {
        cpu,
        budget: 20,
        periods: 20,
        throttled_ns: 5,
        series: vec![RunSpan { periods: 10, accesses: 50, most: 9, throttled_ns: 4 }],
        ..RunCore::default()
    };
    let task = |name: &str| RunTask {
        name: name.to_owned(),
        how: "started".to_owned(),
        jobs: 1,
        max_response_ns: 3,
        latest: vec![RunJob { release_ns: 1, start_ns: 2, end_ns: 3 }],
        ..RunTask::default()
    };
    RunResult {
        format: FORMAT.to_owned(),
        regulation: Some(RunRegulation {
            engine: "helper".to_owned(),
            event: "page-faults".to_owned(),
            period_ns: 1_000_000,
            span_ns: 10_000_000,
            cores: vec![core(0), core(1)],
            ..RunRegulation::default()
        }),
        levels: Some(RunLevels { tasks: vec![RunLevelTask::default()], ..RunLevels::default() }),
        vcpus: Some(RunVcpus { vcpus: vec![RunVcpu::default()], ..RunVcpus::default() }),
        duration_ns: 20_000_000,
        tasks: plan.tasks.iter().map(|t| task(&t.name)).collect(),
        plan: Some(plan.clone()),
        ..RunResult::default()
    }
}

/// A number of inputs made of a document: of its nodes, and every eighth of its bytes.
fn edited(base: &Value, seed: u64, mut taken: impl FnMut(&str) -> bool) {
    let whole = base.to_string();
    let words = [&b"\""[..], b"{}", b"[", b"-1", b"1e999", b"18446744073709551616", b"\\ud800"];
    let (mut mutator, mut accepted, mut failed) = (Mutator::new(seed), 0, Vec::new());
    for number in 0..inputs() {
        let text = if number % 8 == 0 {
            String::from_utf8_lossy(&mutator.bytes(whole.as_bytes(), &words)).into_owned()
        } else {
            mutator.json(base).to_string()
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| taken(&text))) {
            Ok(taken) => accepted += u64::from(taken),
            Err(_) => failed.push(text),
        }
    }
    let first = failed.first();
    assert!(failed.is_empty(), "{} inputs end the process, like {first:?}", failed.len());
    assert!(accepted * 50 > inputs(), "{accepted} were accepted, so the test covers little");
}

#[test]
fn any_plan_is_refused_or_can_be_regulated() {
    let options = Options::of(Event::find("page-faults", "").unwrap());
    let base = serde_json::to_value(plan()).unwrap();
    edited(&base, 3, |text| {
        let Ok(plan) = serde_json::from_str::<Plan>(text) else { return false };
        if plan.check().is_err() {
            return false;
        }
        let online: Vec<u32> = (0..plan.platform.cores).collect();
        let regulated = Regulation::new(&plan, &options, &online);
        let page = html(&Inputs::of("Plan", &plan));
        assert!(page.contains("solocore-data"));
        regulated.is_ok_and(|r| r.interrupts_per_period() > 0)
    });
}

#[test]
fn any_run_is_refused_or_can_be_drawn() {
    let base = serde_json::to_value(run(&plan())).unwrap();
    edited(&base, 4, |text| {
        let Ok(mut run) = serde_json::from_str::<RunResult>(text) else { return false };
        let Some(plan) = run.plan.take().filter(|plan| plan.check().is_ok()) else { return false };
        let tasks = |r: &RunResult| r.tasks.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
        if run.check().is_err() || !plan.tasks.iter().map(|t| &t.name).eq(&tasks(&run)) {
            return false;
        }
        let page = html(&Inputs { run: Some(&run), ..Inputs::of("Run", &plan) });
        assert!(page.contains("solocore-data"));
        true
    });
}
