use super::draw;
use super::state::{Order, State, View};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use solocore_model::plan::{Answer, Promise, Subject};
use solocore_model::run::{
    RunClient, RunCore, RunJob, RunLevelCpu, RunLevelTask, RunLevels, RunLock, RunRegulation,
    RunResult, RunTask, RunVcpu, RunVcpus,
};
use std::time::Duration;

const MS: u64 = 1_000_000;

/// After `looks` seconds: CPU 2 makes 15 accesses of 20 in each period, CPU 3 has no budget.
fn regulated(looks: u64) -> RunResult {
    let periods = 1000 * looks;
    let core = |cpu, budget, each| RunCore {
        cpu,
        budget,
        periods,
        accesses: each * periods,
        throttled_ns: if budget == 20 { looks * 250 * MS } else { 0 },
        ..RunCore::default()
    };
    let task = |name: &str, response| RunTask {
        name: name.to_owned(),
        how: "started".to_owned(),
        jobs: looks,
        max_response_ns: 2 * response,
        latest: vec![RunJob { release_ns: 0, start_ns: 0, end_ns: response }],
        ..RunTask::default()
    };
    let client = |name: &str, depth| RunClient {
        name: name.to_owned(),
        depth,
        cpu: Some(1),
        ..RunClient::default()
    };
    RunResult {
        duration_ns: looks * 1000 * MS,
        regulation: Some(RunRegulation {
            engine: "sched-ext".into(),
            event: "misses".into(),
            period_ns: MS,
            cores: vec![core(2, 20, 15), core(3, u64::MAX, 90)],
            ..RunRegulation::default()
        }),
        tasks: vec![task("pi\nlot", 3 * MS), task("map", 8 * MS)],
        lock: Some(RunLock {
            clients: vec![client("idle", 0), client("player", 1)],
            ..RunLock::default()
        }),
        ..RunResult::default()
    }
}

fn drawn(state: &mut State, width: u16, height: u16) -> (Vec<String>, ratatui::buffer::Buffer) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let lines = (0..height)
        .map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>())
        .collect();
    (lines, buffer)
}

fn of<'a>(lines: &'a [String], what: &str) -> &'a str {
    lines.iter().find(|l| l.contains(what)).unwrap_or_else(|| panic!("{what}: {lines:#?}"))
}

/// Columns of the first bar in a line: its cells.
fn bar(line: &str) -> Vec<char> {
    line.chars().skip_while(|&c| c != '[').skip(1).take_while(|&c| c != ']').collect()
}

fn looked(looks: u64) -> State {
    let mut state = State::new(regulated(1), Duration::from_secs(1));
    (2..=looks).for_each(|n| state.push(regulated(n)));
    state
}

#[test]
fn a_bar_is_filled_by_use_and_its_budget_stands_at_four_fifths() {
    let (lines, buffer) = drawn(&mut looked(4), 120, 24);
    let line = of(&lines, "CPU 2");
    let cells = bar(line);
    let (line_at, full) = (
        cells.iter().position(|&c| c == '│').unwrap(),
        cells.iter().filter(|&&c| c == '█').count(),
    );
    let wide = cells.len() as f64;
    assert!((line_at as f64 / wide - 0.8).abs() < 1.5 / wide, "{line}");
    // 15 of 20 accesses: 0.6 of the bar.
    assert!((full as f64 / wide - 0.6).abs() < 1.5 / wide, "{line}");
    assert!(line.contains("15.0 of 20") && line.contains("throttled 25.0 %"), "{line}");
    // Each look is a column: a quarter of the time is the second of eight heights.
    assert!(line.contains("▂▂▂ "), "{line}");
    assert!(!line.contains("▂▂▂▂"), "{line}");
    let unlimited = bar(of(&lines, "CPU 3"));
    assert!(unlimited.iter().all(|&c| c == '█'), "the greatest use fills its bar: {unlimited:?}");
    let y = lines.iter().position(|l| l.contains("CPU 2")).unwrap();
    let x = line.chars().position(|c| c == '█').unwrap();
    let at = (u16::try_from(x).unwrap(), u16::try_from(y).unwrap());
    assert_eq!(buffer[at].fg, Color::Yellow, "it was throttled");
}

#[test]
fn a_period_over_budget_is_an_alarm() {
    let mut state = looked(2);
    let mut next = regulated(3);
    next.regulation.as_mut().unwrap().cores[0].periods_over_budget = 1;
    next.regulation.as_mut().unwrap().cores[0].accesses += 400_000;
    state.push(next);
    let (lines, buffer) = drawn(&mut state, 120, 24);
    let line = of(&lines, "CPU 2");
    assert!(line.contains("over 1"), "{line}");
    assert!(bar(line).iter().all(|&c| c == '█' || c == '│'), "it ends where the bar does: {line}");
    let y = u16::try_from(lines.iter().position(|l| l.contains("CPU 2")).unwrap()).unwrap();
    let x = u16::try_from(line.chars().position(|c| c == '█').unwrap()).unwrap();
    assert_eq!(buffer[(x, y)].fg, Color::Red);
}

#[test]
fn tasks_have_their_jobs_since_and_names_stay_on_a_line() {
    let (lines, _) = drawn(&mut looked(3), 120, 24);
    let cells: Vec<&str> = of(&lines, "pi?lot")[3..].split_whitespace().collect();
    assert_eq!(cells[..5], ["pi?lot", "0", "1", "3.000", "6.000"], "{cells:?}");
    // The holder of the lock comes first.
    let holds = lines.iter().position(|l| l.contains("player") && l.contains("holds")).unwrap();
    assert!(lines[holds + 1].contains("idle"), "{lines:#?}");
}

/// Deadlines of 20 and 10 ms, bounds of 12 and 9 ms.
fn with_deadlines(run: &mut RunResult) {
    for (task, (deadline, bound)) in run.tasks.iter_mut().zip([(20, 12), (10, 9)]) {
        (task.deadline_ns, task.bound_ns) = (Some(deadline * MS), Some(bound * MS));
    }
}

#[test]
fn a_task_beyond_its_deadline_is_red_and_first_by_urgency() {
    let mut state = looked(2);
    let mut next = regulated(3);
    with_deadlines(&mut next);
    next.tasks[1].misses_deadline = 3;
    state.push(next);
    let (lines, _) = drawn(&mut state, 160, 24);
    // pilot: 3 of 20 ms latest, 6 longest, 12 bound; a deadline at nine tenths of the bar.
    let cells = bar(of(&lines, "pi?lot"));
    let place = |c: char| cells.iter().position(|&k| k == c).map(|p| p as f64 / cells.len() as f64);
    let near = |c: char, share: f64| {
        let found = place(c).unwrap_or_else(|| panic!("{c}: {cells:?}"));
        assert!((found - share).abs() < 1.5 / cells.len() as f64, "{c} at {found}, not {share}");
    };
    near('│', 0.9);
    near(':', 0.9 * 6.0 / 20.0);
    near('b', 0.9 * 12.0 / 20.0);
    let first = |state: &mut State| {
        let (lines, buffer) = drawn(state, 160, 24);
        let at = lines.iter().position(|l| l.contains("longest ms")).unwrap() + 1;
        let x = u16::try_from(lines[at].chars().position(char::is_alphabetic).unwrap()).unwrap();
        let colour = buffer[(x, u16::try_from(at).unwrap())].fg;
        (lines[at][3..].split_whitespace().next().unwrap().to_owned(), colour)
    };
    assert_eq!(first(&mut state), ("pi?lot".to_owned(), Color::Reset));
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(state.order, Order::Urgency);
    // The longest job of map took 16 of 10 ms.
    assert_eq!(first(&mut state), ("map".to_owned(), Color::Red));
}

fn press(state: &mut State, code: KeyCode) {
    state.key(KeyEvent::new(code, KeyModifiers::NONE));
}

#[test]
fn vcpus_and_levels_have_bars_of_time() {
    let vcpu = |looks: u64| RunVcpu {
        name: "main".to_owned(),
        capacity_ns: 5 * MS,
        period_ns: 10 * MS,
        state: "foreground".to_owned(),
        foreground_ns: looks * 250 * MS,
        background_ns: looks * 125 * MS,
        ..RunVcpu::default()
    };
    let at = |looks: u64| RunResult {
        duration_ns: looks * 1000 * MS,
        vcpus: Some(RunVcpus { vcpus: vec![vcpu(looks)], ..RunVcpus::default() }),
        ..RunResult::default()
    };
    let mut state = State::new(at(1), Duration::from_secs(1));
    state.push(at(2));
    let (lines, _) = drawn(&mut state, 120, 20);
    let line = of(&lines, "main");
    let cells = bar(line);
    let full = cells.iter().filter(|&&c| c == '█').count() as f64 / cells.len() as f64;
    assert!((full - 0.375).abs() < 1.5 / cells.len() as f64, "{line}");
    let line_at = cells.iter().position(|&c| c == '│').unwrap() as f64 / cells.len() as f64;
    assert!((line_at - 0.5).abs() < 1.5 / cells.len() as f64, "C/T: {line}");
    assert!(line.contains("foreground 25.0 %") && line.contains("background 12.5 %"), "{line}");

    let task = |name: &str, core: Option<u32>, looks: u64| RunLevelTask {
        name: name.to_owned(),
        level: if core.is_none() { "C".into() } else { "A".into() },
        core,
        completed: 10 * looks,
        ran_ns: looks * 300 * MS,
        ..RunLevelTask::default()
    };
    let at = |looks: u64| RunResult {
        duration_ns: looks * 1000 * MS,
        levels: Some(RunLevels {
            tasks: vec![task("rudder", Some(1), looks), task("map", None, looks)],
            cpus: vec![RunLevelCpu { cpu: 1, ..RunLevelCpu::default() }],
            ..RunLevels::default()
        }),
        ..RunResult::default()
    };
    let mut state = State::new(at(1), Duration::from_secs(1));
    state.push(at(3));
    let (lines, _) = drawn(&mut state, 120, 20);
    assert!(of(&lines, "CPU 1").contains("30.0 % by its own tasks"), "{lines:#?}");
    assert_eq!(
        of(&lines, "rudder")[3..].split_whitespace().take(4).collect::<Vec<_>>(),
        ["rudder", "1", "A", "20"]
    );
    assert!(of(&lines, "map").contains("all C"));
}

#[test]
fn keys_do_what_the_help_says() {
    let mut state = looked(3);
    press(&mut state, KeyCode::Char('?'));
    assert!(of(&drawn(&mut state, 100, 24).0, "hold the picture").contains("p, space"));
    press(&mut state, KeyCode::Esc);
    assert!(!state.help && !state.ended);
    press(&mut state, KeyCode::Char('+'));
    assert_eq!(state.every, Duration::from_secs(2));
    (0..9).for_each(|_| press(&mut state, KeyCode::Char('+')));
    assert_eq!(state.every, Duration::from_secs(10));
    (0..20).for_each(|_| press(&mut state, KeyCode::Char('-')));
    assert_eq!(state.every, Duration::from_millis(100));
    press(&mut state, KeyCode::Char('p'));
    assert!(of(&drawn(&mut state, 100, 24).0, "solocore top").contains("held"));
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.view, View::Tables);
    press(&mut state, KeyCode::End);
    let (lines, _) = drawn(&mut state, 100, 8);
    let all = super::super::tables::shown(&state.before, &state.now).lines().count();
    assert!(lines[1].contains(&format!("to {all} of {all}")), "{lines:#?}");
    press(&mut state, KeyCode::Up);
    assert!(drawn(&mut state, 100, 8).0[1].contains(&format!("to {} of {all}", all - 1)));
    state.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(state.ended);
}

#[test]
fn the_table_of_promises_is_a_view_of_its_own() {
    let mut state = looked(3);
    press(&mut state, KeyCode::Tab);
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.view, View::Overview, "a run without a plan has no promises");
    let promise = |resource: &str| {
        let what = "it has its budget".to_owned();
        Promise::new(Subject::Budget, resource, vec!["pilot".to_owned()], what)
    };
    state.now.promises = vec![
        Answer::kept(&promise("core 0"), "regulation", true, "its counter"),
        Answer::open(&promise("core 1"), true, "a period went over its budget"),
    ];
    assert!(of(&drawn(&mut state, 100, 24).0, "nobody keeps 1").contains("of 2 promises"));
    press(&mut state, KeyCode::Tab);
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.view, View::Promises);
    let (lines, _) = drawn(&mut state, 100, 24);
    assert!(of(&lines, "core 0").contains("kept by regulation, checked: its counter"));
    assert!(of(&lines, "core 1").contains("NOBODY keeps it: a period went over its budget"));
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.view, View::Overview);
}

#[test]
fn promises_follow_the_tables_of_every_scheme() {
    let promise = Promise::new(Subject::Vcpu, "vcpu one", vec!["a".to_owned()], String::new());
    let promises = vec![Answer::open(&promise, true, "a thread took its time")];
    let levels = Some(RunLevels::default());
    let vcpus = Some(RunVcpus::default());
    for run in [
        RunResult { levels, promises: promises.clone(), ..RunResult::default() },
        RunResult { vcpus, promises: promises.clone(), ..RunResult::default() },
        RunResult { promises, ..regulated(1) },
    ] {
        let text = super::super::tables::shown(&run, &run);
        assert!(text.contains("NOBODY keeps it: a thread took its time"), "{text}");
    }
}

#[test]
fn another_daemon_counts_from_its_start_and_no_size_is_too_small() {
    let mut state = looked(5);
    state.push(regulated(2));
    assert_eq!(state.history["CPU 2"].len(), 1);
    assert!(of(&drawn(&mut state, 120, 24).0, "CPU 2").contains("15.0 of 20"));
    for (width, height) in [(1, 1), (3, 2), (20, 5), (40, 10), (80, 24), (300, 90)] {
        for keys in ["", "\t", "?"] {
            let mut state = looked(3);
            with_deadlines(&mut state.now);
            for key in keys.chars() {
                press(&mut state, if key == '\t' { KeyCode::Tab } else { KeyCode::Char(key) });
            }
            drawn(&mut state, width, height);
        }
    }
}

#[test]
fn a_long_name_leaves_the_figures_on_the_screen() {
    let mut state = looked(3);
    with_deadlines(&mut state.now);
    if let Some(task) = state.now.tasks.first_mut() {
        task.name = "a name that goes on ".repeat(4);
    }
    let (wide, narrow) = (drawn(&mut state, 80, 24).0, drawn(&mut state, 40, 24).0);
    assert!(of(&wide, "a name").contains('…'));
    let head = of(&wide, "task ");
    assert!(head.contains("bound ms  deadline ms  missed"), "{head}");
    let head = of(&narrow, "task ");
    assert!(head.contains("latest ms  deadline ms  missed"), "{head}");
    assert!(of(&narrow, "q leave").contains("? help"));
    assert!(!of(&drawn(&mut state, 200, 24).0, "a name").contains('…'), "there is room");
}

#[test]
fn long_lines_are_folded_and_nothing_is_lost() {
    let line = "budget of cores 0, 1: NOBODY keeps it: page-faults stand in for accesses; \
        give --event with a counter of misses";
    for width in 8..140 {
        let folded = draw::folded(line, width);
        assert!(folded.iter().all(|l| l.chars().count() <= width), "{width}: {folded:#?}");
        let words = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        assert_eq!(words(&folded.concat()), words(line), "{width}");
    }
    assert_eq!(draw::folded("", 20), [""]);
}
