//! Promises of colours and banks, and the checks before a start.

use super::*;
use crate::daemon::frames::example;
use crate::daemon::isolation::Confinement;
use crate::daemon::part::Settings;
use crate::schedule::placed::Wishes;

const COLOURS: [u64; 5] = [1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16];

/// Two cores, each with half of 32 colours and of four banks, and a task on each.
fn plan() -> Plan {
    let text = include_str!("../../tests/plan.json");
    let mut plan: Plan = serde_json::from_str(text).unwrap();
    plan.platform = solocore_model::Platform::find("core-i5-2500k", Path::new(".")).unwrap();
    (plan.platform.dram.ranks, plan.platform.dram.banks) = (1, 4);
    plan.cores.truncate(2);
    for (core, half) in plan.cores.iter_mut().zip(0..) {
        core.ways = 6;
        core.colours = Some((16 * half, 16));
        core.banks = Some((2 * half, 2));
    }
    let one = plan.tasks[0].clone();
    let task = |name: &str, core| solocore_model::plan::PlanTask {
        name: name.to_owned(),
        core,
        command: Some(vec!["/bin/sh".to_owned()]),
        ..one.clone()
    };
    plan.tasks = vec![task("one", 0), task("two", 1)];
    plan
}

fn wishes() -> Wishes {
    Wishes {
        start: true,
        commands: Vec::new(),
        attach: Vec::new(),
        directory: "/".into(),
        fifo: true,
        confine: false,
        irq_cpu: None,
        resctrl: false,
        trial: None,
    }
}

fn part(plan: &Plan, wishes: &Wishes, banks: Vec<u64>) -> Colours {
    let layout = Rc::new(Layout::new(plan, wishes).unwrap());
    Colours::new(
        plan,
        &layout,
        Map { colours: COLOURS.to_vec(), banks, slices: Vec::new() },
        "a map",
    )
}

fn banks() -> Vec<u64> {
    vec![1 << 20, 1 << 21]
}

fn promise(subject: Subject, core: u32) -> Promise {
    Promise::new(subject, &format!("core {core}"), vec!["one".into()], String::new())
}

/// The reason why nobody keeps it.
fn open(part: &Colours, subject: Subject) -> Option<String> {
    let answer = part.keeps(&promise(subject, 0)).expect("it concerns the part");
    answer.kept_by.is_none().then_some(answer.why)
}

#[test]
fn colours_and_banks_of_started_tasks_are_kept() {
    let part = part(&plan(), &wishes(), banks());
    assert_eq!([Subject::Ways, Subject::Banks].map(|s| open(&part, s)), [None, None]);
    assert!(part.keeps(&promise(Subject::Budget, 0)).is_none());
    assert!(part.keeps(&promise(Subject::Ways, 9)).is_none(), "no such core");
    let frames = part.planned.frames(Region::Core(1)).unwrap().unwrap();
    assert!((frames.choice.share() - 0.25).abs() < 1e-9, "half of both");
    assert!(frames.choice.allows(16 | 1 << 9) && !frames.choice.allows(16 | 1 << 8));
}

#[test]
fn what_is_not_known_or_not_started_is_open() {
    let without = part(&plan(), &wishes(), Vec::new());
    assert_eq!(open(&without, Subject::Ways), None);
    assert!(open(&without, Subject::Banks).unwrap().contains("--map"));
    let attach = Wishes { attach: vec![("two".into(), std::process::id())], ..wishes() };
    let attached = part(&plan(), &attach, banks());
    assert!(open(&attached, Subject::Ways).unwrap().contains("`two` is attached"));
    let mut odd = plan();
    // 7 of 12 ways are 18 2/3 colours.
    (odd.cores[0].ways, odd.cores[0].colours) = (7, Some((0, 18)));
    let odd = part(&odd, &wishes(), banks());
    assert!(open(&odd, Subject::Ways).unwrap().contains("hold less than the 7 ways"));
    let mut none = plan();
    none.cores.iter_mut().for_each(|c| (c.colours, c.banks) = (None, None));
    let mut none = part(&none, &wishes(), banks());
    assert!(none.check().unwrap_err().to_string().contains("gives colours to no core"));
}

#[test]
fn under_levels_ways_are_not_promised_by_colours() {
    let part = part(&example::plan(), &wishes(), vec![1 << 20, 1 << 21, 1 << 22]);
    assert_eq!(open(&part, Subject::Banks), None);
    assert!(open(&part, Subject::Ways).unwrap().contains("stand for its 4 ways"));
    let message = Promise::new(Subject::Buffer, "message a to b", Vec::new(), String::new());
    assert!(part.keeps(&message).unwrap().why.contains("in --queues"));
    let part = part.with_queues("all".parse().ok()).beside_masks(true);
    assert_eq!(part.keeps(&message).unwrap().kept_by.as_deref(), Some("colours"));
    assert!(part.keeps(&promise(Subject::Ways, 0)).is_none(), "that is resctrl's");
}

#[test]
fn tasks_without_frames_are_named_beside_queues() {
    let mut plan = plan();
    (plan.cores[1].colours, plan.cores[1].banks) = (None, None);
    let part = part(&plan, &wishes(), banks());
    assert_eq!(part.without_queues(), None);
    let note = part.with_queues("/frames".parse().ok()).without_queues().unwrap();
    assert!(note.contains("cores of `two`; these tasks use the kernel's queues"), "{note}");
}

#[test]
fn what_is_seen_of_a_task_decides() {
    let of = |seen: RunColoured| fault(&RunColoured { task: "t".into(), ..seen });
    assert_eq!(of(RunColoured { processes: 3, pages: 99, ..RunColoured::default() }), None);
    let wrong = RunColoured { wrong: 2, ..RunColoured::default() };
    assert!(of(wrong).unwrap().contains("2 pages of task `t`"));
    let moved = RunColoured { moved_back: 5, ..RunColoured::default() };
    assert!(of(moved).unwrap().contains("moved 5 pages"));
    let faults = vec!["static: it ran without colours".to_owned()];
    assert!(of(RunColoured { faults, ..RunColoured::default() }).unwrap().contains("static"));
}

#[test]
fn tasks_that_cannot_be_coloured_and_too_few_frames_are_refused_first() {
    let mut user = plan();
    user.tasks[0].program.user = Some("root".to_owned());
    let error = part(&user, &wishes(), banks()).check().unwrap_err().to_string();
    assert!(error.contains("task `one`") && error.contains("user `root`"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let commands = vec![("two".to_owned(), vec![text.display().to_string()])];
    let error = part(&plan(), &Wishes { commands, ..wishes() }, banks()).check();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("task `two`") && error.contains("neither an ELF"), "{error}");

    let mut large = plan();
    large.tasks[1].touched_pages = Some(1000);
    let large = part(&large, &wishes(), banks());
    // A quarter of the frames has the colours and the banks.
    let enough = LEFT + 4 * 1000 * PAGE;
    assert!(large.check_footprint(enough).is_ok());
    let error = large.check_footprint(enough - 4 * PAGE).unwrap_err().to_string();
    assert!(error.contains("core 1") && error.contains("1000 pages"), "{error}");
}

/// Fails where bounds that count on the demands of jobs leave out the starts of their processes.
#[test]
fn others_are_open_where_processes_start_before_their_release() {
    let mut plan = plan();
    plan.tasks.truncate(1);
    let wishes = Wishes { confine: true, ..wishes() };
    let layout = Rc::new(Layout::new(&plan, &wishes).unwrap());
    let part = self::part(&plan, &wishes, banks());
    let confinement = || Confinement::new(&layout, &Settings::default());
    let kept = |confinement: Confinement| {
        confinement.keeps(&promise(Subject::Others, 0)).unwrap().kept_by.is_some()
    };
    assert!(kept(confinement()) && !kept(confinement().in_colours(&part)));
    plan.tasks[0].program.job = solocore_model::system::Job::Wakeup;
    let goes_on = Rc::new(Layout::new(&plan, &wishes).unwrap());
    let part = self::part(&plan, &wishes, banks());
    assert!(kept(Confinement::new(&goes_on, &Settings::default()).in_colours(&part)));
}
