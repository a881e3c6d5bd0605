//! The checker passes windows of the policy, and each of its rules fails when a trace is changed.

use proptest::prelude::*;
use solocore_check::{LevelsReport, Report, Violation, check};
use solocore_model::sched_trace::{Event, Kind, NONE, SchedTrace};
use solocore_policy::ready_set::ReadySet;
use solocore_policy::time_table::Table;

/// Core, partition, rank, period, execution of a job.
type TaskRow = (u32, u32, u32, u64, u64);

/// Two cores with different major frames. Periods in ns are short, so that time can go by single
/// ns.
const TASKS: [TaskRow; 5] = [
    (0, 0, 0, 60, 10),
    (0, 0, 3, 120, 25),
    (0, 1, 1, 120, 20),
    (1, 2, 2, 50, 30),
    (1, 3, 4, 100, 12),
];
/// Core, frame, windows: begin, end, partition.
type Frame = (u32, u64, &'static [(u64, u64, u32)]);
const FRAMES: [Frame; 2] = [
    (0, 120, &[(0, 20, 0), (30, 55, 1), (60, 80, 0)]),
    (1, 100, &[(0, 35, 2), (35, 48, 3), (50, 85, 2)]),
];
/// Time at which frames begin, ns.
const ORIGIN: u64 = 7;

struct World {
    tasks: Vec<TaskRow>,
    tables: Vec<Box<Table>>,
    ready: Vec<ReadySet>,
    events: Vec<Event>,
    /// Number of the job, and its remaining execution.
    jobs: Vec<(u64, u64)>,
    current: [Option<u32>; 2],
    until: [u64; 2],
}

impl World {
    fn new(tasks: &[TaskRow]) -> Self {
        let mut events = Vec::new();
        let mut put =
            |cpu, event, id, a, b| events.push(Event { time_ns: 0, cpu, event, id, a, b });
        for (id, &(core, partition, rank, period, _)) in (0..).zip(tasks) {
            let b = 5 << 56 | u64::from(core) << 48 | u64::from(partition) << 16 | u64::from(rank);
            put(core, Kind::LevelAdd, id, period, b);
        }
        let mut tables = Vec::new();
        for (core, frame, windows) in FRAMES {
            put(core, Kind::LevelTable, 0, frame, ORIGIN);
            let mut table = Table::new(ORIGIN, frame).unwrap();
            for &(start, end, partition) in windows {
                assert!(table.append(start, end, partition));
                put(core, Kind::LevelSlot, partition, start, end);
            }
            tables.push(table);
        }
        let ready = (0..4).map(|_| ReadySet::new()).collect();
        let jobs = vec![(0, 0); tasks.len()];
        Self {
            tasks: tasks.to_vec(),
            tables,
            ready,
            events,
            jobs,
            current: [None; 2],
            until: [0; 2],
        }
    }

    fn put(&mut self, now: u64, cpu: u32, event: Kind, id: u32, a: u64, b: u64) {
        self.events.push(Event { time_ns: now, cpu, event, id, a, b });
    }

    fn pick(&mut self, core: usize, now: u64) {
        let cpu = u32::try_from(core).unwrap();
        let slot = self.tables[core].lookup(now);
        let rank = slot.id.and_then(|partition| self.ready[partition as usize].first());
        let task = rank
            .and_then(|rank| (0..).zip(&self.tasks).find(|(_, t)| t.2 == rank).map(|(id, _)| id));
        let level = if slot.id.is_some() { 5 } else { 4 };
        self.put(now, cpu, Kind::LevelPick, task.unwrap_or(NONE), slot.edge_ns, level);
        if task != self.current[core] {
            let thread = 100 + task.unwrap_or(0);
            self.put(now, cpu, Kind::Runs, thread, task.map_or(0, |t| u64::from(t) + 1), 0);
        }
        self.current[core] = task;
        self.until[core] = slot.edge_ns;
    }

    fn run(mut self, until: u64) -> SchedTrace {
        for now in 0..until {
            let mut asked = [now == 0, now == 0];
            for (core, asked) in asked.iter_mut().enumerate() {
                let cpu = u32::try_from(core).unwrap();
                *asked |= now >= self.until[core];
                let Some(id) = self.current[core] else { continue };
                let job = &mut self.jobs[id as usize];
                job.1 -= 1;
                if *job == (job.0, 0) {
                    let number = job.0;
                    let (_, partition, rank, ..) = self.tasks[id as usize];
                    assert!(self.ready[partition as usize].remove(rank));
                    self.put(now, cpu, Kind::LevelComplete, id, number, 0);
                    self.put(now, cpu, Kind::Stops, 100 + id, 0, 0);
                    (self.current[core], *asked) = (None, true);
                }
            }
            for id in 0..self.tasks.len() {
                let (core, partition, rank, period, execution) = self.tasks[id];
                // A late job goes on; the release is left out.
                if now < ORIGIN || !(now - ORIGIN).is_multiple_of(period) || self.jobs[id].1 > 0 {
                    continue;
                }
                self.jobs[id] = (self.jobs[id].0 + 1, execution);
                assert!(self.ready[partition as usize].add(rank));
                self.put(
                    now,
                    core,
                    Kind::LevelRelease,
                    u32::try_from(id).unwrap(),
                    self.jobs[id].0,
                    now,
                );
                asked[core as usize] = true;
            }
            for (core, _) in asked.iter().enumerate().filter(|(_, asked)| **asked) {
                self.pick(core, now);
            }
        }
        let about = [("scheduler", "levels"), ("source", "sim"), ("cpus", "2")];
        SchedTrace {
            about: about.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            events: self.events,
        }
    }
}

fn trace() -> SchedTrace {
    World::new(&TASKS).run(1500)
}

/// The violation of a trace after a change to its events.
fn after(change: impl FnOnce(&mut Vec<Event>)) -> Violation {
    let mut trace = trace();
    change(&mut trace.events);
    check(&trace).expect_err("the change must be noticed")
}

/// Decisions on a core at this time are left out, with their consequences.
fn without_picks(core: u32, at: u64) -> Violation {
    after(|events| {
        let decided = |e: &Event| matches!(e.event, Kind::LevelPick | Kind::Runs);
        let before = events.len();
        events.retain(|e| !(decided(e) && e.cpu == core && e.time_ns == at));
        assert!(events.len() < before, "nothing was decided then");
    })
}

fn report_of(trace: &SchedTrace) -> LevelsReport {
    match check(trace) {
        Ok(Report::Levels(report)) => report,
        other => panic!("no report of windows: {other:?}"),
    }
}

/// The n-th event of a kind for which `of` is true.
fn nth(events: &[Event], n: usize, of: impl Fn(&Event) -> bool) -> usize {
    events.iter().enumerate().filter(|(_, e)| of(e)).map(|(at, _)| at).nth(n).expect("there is one")
}

#[test]
fn what_the_policy_decides_passes() {
    let report = report_of(&trace());
    assert_eq!(report.scheduler, "windows");
    assert!(report.decisions > 150 && report.jobs > 60 && report.completed > 50, "{report:?}");
    assert_eq!(
        (report.max_decision_late_ns, report.max_start_late_ns, report.max_stray_ns),
        (0, 0, 0)
    );
}

#[test]
fn another_answer_than_the_policys() {
    for field in 0..2 {
        let said = after(|events| {
            let at = nth(events, 9, |e| e.event == Kind::LevelPick && e.id != NONE);
            if field == 0 { events[at].id = NONE } else { events[at].a += 1 }
        });
        assert_eq!(said.rule, "replay", "{said}");
    }
}

#[test]
fn jobs_that_cannot_be() {
    for kind in [Kind::LevelRelease, Kind::LevelComplete] {
        let said = after(|events| {
            let at = nth(events, 3, |e| e.event == kind);
            let twice = events[at];
            events.insert(at, twice);
        });
        assert_eq!(said.rule, "replay", "{said}");
        let said = after(|events| {
            let at = nth(events, 3, |e| e.event == kind);
            events[at].id = 77;
        });
        assert_eq!(said.rule, "replay", "{said}");
    }
}

#[test]
fn a_partition_that_goes_on_after_its_window() {
    // Task 3 (30 of 35) waits at 50 + 7 for its next window; task 1 does not finish in the first
    // one of core 0.
    let trace = trace();
    let cut = nth(&trace.events, 0, |e| {
        e.cpu == 0 && e.event == Kind::LevelPick && e.id == NONE && e.time_ns > ORIGIN
    });
    let at = trace.events[cut].time_ns;
    assert_eq!(at, ORIGIN + 20, "the window ends while a task runs");
    let said = without_picks(0, at);
    assert_eq!((said.rule, said.core), ("window", 0), "{said}");
    assert!(said.what.contains("Some(1) is still chosen"), "{said}");
}

#[test]
fn a_window_that_nobody_opens() {
    let said = without_picks(0, ORIGIN + 120 + 30);
    assert_eq!((said.rule, said.core), ("edge", 0), "{said}");
}

#[test]
fn a_task_that_waits_in_its_window() {
    // A job is done, and the next task of the partition is not chosen.
    let trace = trace();
    let done = nth(&trace.events, 2, |e| e.event == Kind::LevelComplete && e.id == 0);
    let at = trace.events[done].time_ns;
    let said = without_picks(0, at);
    assert_eq!((said.rule, said.core, said.time_ns), ("priority", 0, at), "{said}");
    // With a tolerance as long as the wait, it passes; only the thread has run without being
    // chosen.
    let mut tolerant = trace;
    tolerant.about.insert("tolerance_ns".to_owned(), "200".to_owned());
    tolerant.events.retain(|e| !(e.event == Kind::LevelPick && e.cpu == 0 && e.time_ns == at));
    assert!(report_of(&tolerant).max_stray_ns > 0);
}

#[test]
fn a_thread_that_runs_without_being_chosen() {
    let said = after(|events| {
        let at = nth(events, 10, |e| e.event == Kind::Runs && e.cpu == 0 && e.a != 0);
        events[at].a = if events[at].a == 3 { 1 } else { 3 };
    });
    assert_eq!((said.rule, said.core), ("runs", 0), "{said}");
}

#[test]
fn traces_that_cannot_be_checked() {
    for cpus in ["0", "1", "many", "1000"] {
        let mut trace = trace();
        trace.about.insert("cpus".to_owned(), cpus.to_owned());
        assert_eq!(check(&trace).unwrap_err().rule, "trace", "{cpus}");
    }
    for change in [|e: &mut Event| e.a = e.b, |e: &mut Event| e.b += 500, |e: &mut Event| e.a = 0] {
        let said = after(|events| {
            let at = nth(events, 1, |e| e.event == Kind::LevelSlot && e.cpu == 0);
            change(&mut events[at]);
        });
        assert_eq!(said.rule, "trace", "{said}");
    }
    let said = after(|events| events.retain(|e| e.event != Kind::LevelTable));
    assert_eq!(said.rule, "trace", "{said}");
}

proptest! {
    /// For any need and rate of the jobs, the policy keeps the rules that are written a second time
    /// in the checker.
    #[test]
    fn random_systems_pass(needs in proptest::collection::vec((1u64..60, 1u64..8), 5)) {
        let mut tasks = TASKS;
        for (task, (need, period)) in tasks.iter_mut().zip(needs) {
            (task.3, task.4) = (20 * period, need);
        }
        let report = check(&World::new(&tasks).run(900));
        prop_assert!(report.is_ok(), "{}", report.unwrap_err());
    }

    /// Nothing in a trace makes the checker panic.
    #[test]
    fn broken_traces_are_answered(at in 0usize..2000, id in any::<u32>(), a in any::<u64>(), b in any::<u64>(), cpu in 0u32..9, time in any::<u64>()) {
        let mut trace = trace();
        let at = at % trace.events.len();
        let e = &mut trace.events[at];
        (e.id, e.a, e.b, e.cpu) = (id, a, b, cpu);
        if at + 1 == trace.events.len() {
            trace.events[at].time_ns = time;
        }
        let _ = check(&trace);
    }
}
