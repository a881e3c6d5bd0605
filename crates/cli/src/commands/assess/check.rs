//! `solocore assess --check`: an answer for each task, in the form that a merge needs.
//!
//! Problem: a reviewer of a merge reads a list of failed tests and a mark at a line, not a report.
//! Rule: each analysed task is a test. It fails where its plan says that it may miss, or gives it
//! no bound, and where a simulated job missed; each of these is a finding at the task's line. A
//! check without answers is an error in both files: those of an earlier check must not stand for
//! it. Source: JUnit's XML as Jenkins and GitLab read it (quick-junit); SARIF 2.1.0 (OASIS). Does
//! not cover: best effort, which has no promises; shrinking margins (`solocore diff`).

use crate::args::AssessArgs;
use crate::commands::{plan, sim};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::computing;
use crate::table::ms;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::{Value, json};
use solocore_model::plan::PlanTask;
use solocore_model::results::{Mode, TaskResult};
use solocore_model::{Plan, System, files};
use std::path::Path;
use std::process::ExitCode;

/// Faults of a task: a name for tools, and its meaning.
const RULES: [(&str, &str); 3] = [
    ("may-miss", "The bound on the response is beyond the deadline."),
    ("no-bound", "There is no bound on the response."),
    ("missed", "A simulated job under the plan missed its deadline, or was too tardy."),
];

/// An analysed task's answer.
struct Answer<'a> {
    task: &'a PlanTask,
    /// Line of the task in the system file.
    line: usize,
    /// Findings, each with a name from [`RULES`] and a text; empty: the task holds.
    findings: Vec<(&'static str, String)>,
}

/// Plans, simulates under the plan, and answers; exit code 1 if a task does not hold.
pub fn run(args: &AssessArgs) -> Result<ExitCode, Failure> {
    check(args).inspect_err(|failure| {
        let why = match failure {
            Failure::Interrupted | Failure::Stopped(_) => "the check was interrupted".to_owned(),
            Failure::Input(_) | Failure::Machine(_) => failure.message(),
        };
        // A fault in writing is not reported: the failure is.
        let _ = write(args, vec![error(&why)], &sarif(Vec::new(), Some(&why)));
    })
}

fn check(args: &AssessArgs) -> Result<ExitCode, Failure> {
    let system = computing(|| System::load(&args.system))?;
    let plan = plan::of(&system, &args.profiling, None)?;
    let options = sim::options(Mode::Managed, args.duration, args.seed, None)?;
    let managed = sim::simulate(&plan, &options)?;
    let answers = answers(&system, &plan, &managed.tasks);
    let found = results(&args.system, &answers);
    write(args, cases(&answers), &sarif(found, None))?;
    print(&text(&args.system, &answers))?;
    let holds = plan.schedulable && answers.iter().all(|a| a.findings.is_empty());
    Ok(ExitCode::from(u8::from(!holds)))
}

/// Writes the files that were asked for: both, or neither.
fn write(args: &AssessArgs, cases: Vec<TestCase>, sarif: &Value) -> Result<(), Failure> {
    let mut written: Vec<(&Path, Vec<u8>)> = Vec::new();
    if let Some(path) = &args.junit {
        written.push((path, junit(&args.system, cases)?.into_bytes()));
    }
    if let Some(path) = &args.sarif {
        written.push((path, files::to_json(sarif).into_bytes()));
    }
    let all: Vec<(&Path, &[u8])> = written.iter().map(|(path, bytes)| (*path, &**bytes)).collect();
    Ok(files::write_together(&all, true)?)
}

fn answers<'a>(system: &System, plan: &'a Plan, seen: &[TaskResult]) -> Vec<Answer<'a>> {
    let all = plan.tasks.iter().zip(seen).zip(&system.tasks);
    let analysed = all.filter(|((task, _), _)| !task.best_effort());
    analysed
        .map(|((task, seen), stated)| Answer {
            task,
            line: stated.line,
            findings: findings(task, seen),
        })
        .collect()
}

fn findings(task: &PlanTask, seen: &TaskResult) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let deadline = ms(task.deadline_ns);
    match task.wcrt_ns {
        _ if task.schedulable => {}
        Some(bound) => {
            let bound = ms(Some(bound));
            let what = format!("its response may take {bound} ms, its deadline is {deadline} ms");
            out.push(("may-miss", what));
        }
        None => out.push((
            "no-bound",
            format!("its response has no bound; its deadline is {deadline} ms"),
        )),
    }
    if task.broken_by(seen) {
        let what = format!(
            "{} simulated jobs missed the deadline of {deadline} ms; {} jobs finished, the longest \
                after {} ms",
            seen.misses_deadline,
            seen.jobs,
            ms(Some(seen.max_response_ns))
        );
        out.push(("missed", what));
    }
    out
}

fn text(system: &Path, answers: &[Answer<'_>]) -> String {
    let mut out = String::new();
    for answer in answers {
        let place = format!("{}:{}", system.display(), answer.line);
        let name = &answer.task.name;
        if answer.findings.is_empty() {
            let (bound, deadline) = (ms(answer.task.wcrt_ns), ms(answer.task.deadline_ns));
            out += &format!("{place}: {name}: holds: bound {bound} ms, deadline {deadline} ms\n");
        }
        for (rule, what) in &answer.findings {
            out += &format!("{place}: {name}: {rule}: {what}\n");
        }
    }
    let failed = answers.iter().filter(|a| !a.findings.is_empty()).count();
    let all = answers.len();
    match failed {
        0 => out + &format!("all {all} analysed tasks hold\n"),
        _ => out + &format!("{failed} of {all} analysed tasks do not hold\n"),
    }
}

/// A case for each task.
fn cases(answers: &[Answer<'_>]) -> Vec<TestCase> {
    let case = |answer: &Answer<'_>| {
        let mut status = TestCaseStatus::success();
        if let Some((rule, _)) = answer.findings.first() {
            status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let whats: Vec<&str> = answer.findings.iter().map(|(_, what)| what.as_str()).collect();
            status.set_type(*rule).set_message(whats.join("; "));
        }
        TestCase::new(answer.task.name.clone(), status)
    };
    answers.iter().map(case).collect()
}

/// The case of a check without answers.
fn error(why: &str) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_type("error").set_message(why);
    TestCase::new("assess", status)
}

/// A suite of the system's name, with these cases.
fn junit(system: &Path, cases: Vec<TestCase>) -> Result<String, Failure> {
    let mut suite = TestSuite::new(system.display().to_string());
    for mut case in cases {
        case.set_classname("solocore");
        suite.add_test_case(case);
    }
    let mut report = Report::new("solocore assess");
    report.add_test_suite(suite);
    report.to_string().map_err(|e| Failure::Input(format!("--junit: {e}; rename the task")))
}

/// The findings as results of SARIF.
fn results(system: &Path, answers: &[Answer<'_>]) -> Vec<Value> {
    let uri = uri(&system.display().to_string());
    let mut results = Vec::new();
    for answer in answers {
        for (rule, what) in &answer.findings {
            results.push(json!({
                "ruleId": rule,
                "level": "error",
                "message": {"text": format!("task {}: {what}", answer.task.name)},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": uri},
                    "region": {"startLine": answer.line},
                }}],
            }));
        }
    }
    results
}

/// The run of a check; `failed`: the reason why it has no results.
fn sarif(results: Vec<Value>, failed: Option<&str>) -> Value {
    let rule = |(id, text): &(&str, &str)| json!({"id": id, "shortDescription": {"text": text}});
    let mut invocation = json!({"executionSuccessful": failed.is_none()});
    if let Some(why) = failed {
        invocation["toolExecutionNotifications"] =
            json!([{"level": "error", "message": {"text": why}}]);
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "solocore",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": RULES.iter().map(rule).collect::<Vec<_>>(),
            }},
            "invocations": [invocation],
            "results": results,
        }],
    })
}

/// A path in the form of a URI (RFC 3986).
fn uri(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    let one = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    path.bytes().map(one).collect()
}
