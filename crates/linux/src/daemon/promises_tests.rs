use super::*;
use solocore_model::plan::{LockedTask, PlanLock};

/// A plan of one bounded task, which a chosen lock keeps to its wanted slowdown.
fn plan() -> Plan {
    let mut plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
    let task = LockedTask {
        name: "video".to_owned(),
        functions: vec!["walk".to_owned()],
        covered: 5,
        accesses: 6,
        sections: 1,
        held_ns: 10,
        alone_ns: 100,
        limit_ns: 130,
        bound_ns: 120,
        verdict: Some(Verdict::Meets),
        unlocked_ns: None,
        one_more_ns: None,
        derivation: None,
    };
    plan.tasks.iter_mut().filter(|t| t.name == "video").for_each(|t| t.verdict = Verdict::of(t));
    plan.lock = Some(PlanLock {
        bandwidth_bytes_per_s: 64,
        stated: false,
        reaction_ns: 100_000,
        price_bytes_per_s: 1,
        next: None,
        tasks: vec![task],
    });
    let promise = |subject, resource: &str| {
        Promise::new(subject, resource, vec!["video".to_owned()], String::new())
    };
    plan.promises = vec![
        promise(Subject::Demand, "task video"),
        promise(Subject::Sections, "task video"),
        promise(Subject::LockBudget, "core 0"),
    ];
    plan
}

/// The plan's verdicts on the deadline and on the slowdown, where nobody keeps one promise.
fn without(open: Option<Subject>) -> (Option<Verdict>, Option<Verdict>, Option<u64>) {
    let mut plan = plan();
    let answer = |p: &Promise| match Some(p.subject) == open {
        true => Answer::open(p, false, "nobody"),
        false => Answer::kept(p, "part", true, "kept"),
    };
    let answers: Vec<Answer> = plan.promises.iter().map(answer).collect();
    let task = solocore_model::run::RunTask { name: "video".to_owned(), ..Default::default() };
    let mut run =
        RunResult { tasks: vec![task], promises: answers.clone(), ..RunResult::default() };
    limits(&plan, &mut run);
    in_force(&mut plan, &answers);
    let task = plan.tasks.iter().find(|t| t.name == "video").unwrap();
    let locked = &plan.lock.as_ref().unwrap().tasks[0];
    (task.verdict, locked.verdict, run.tasks[0].slowdown_bound_ns)
}

#[test]
fn a_bound_on_a_slowdown_is_in_force_while_all_its_promises_are_kept() {
    let deadline = Some(Verdict::Meets);
    assert_eq!(without(None), (deadline, Some(Verdict::Meets), Some(120)));
    // No response time rests on the lock.
    for subject in [Subject::Sections, Subject::LockBudget] {
        assert_eq!(without(Some(subject)), (deadline, Some(Verdict::NoBound), None), "{subject:?}");
    }
    let none = Some(Verdict::NoBound);
    assert_eq!(without(Some(Subject::Demand)), (none, none, None));
}

#[test]
fn promises_of_a_lock_are_open_where_no_part_keeps_them() {
    let plan = plan();
    let answers = answers(&plan, &[], &[], &[]);
    let open = |subject: Subject| {
        answers.iter().any(|a| a.promise.subject == subject && a.kept_by.is_none())
    };
    assert!(open(Subject::Sections) && open(Subject::LockBudget) && !open(Subject::Demand));
    let why = refusal(&plan, &answers).unwrap();
    assert!(why.contains("sections:task-video") && why.contains("lock-budget:core-0"), "{why}");
}
