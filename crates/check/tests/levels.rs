//! The checker passes the policy's decisions, and each of its rules fails when a trace is changed.

use proptest::prelude::*;
use solocore_check::{LevelsReport, Report, Violation, check};
use solocore_model::sched_trace::{Event, Kind, NONE, SchedTrace};
use solocore_policy::levels::{Level, Levels, State};

/// Level, core, period, PET, execution of a job.
type TaskRow = (Level, u32, u64, u64, u64);

/// All levels at once: a core with levels A and B, another for level C and D. Periods in ns are
/// short, so that time can go by single ns.
const TASKS: [TaskRow; 6] = [
    (Level::A, 0, 100, 20, 15),
    (Level::A, 0, 200, 30, 40),
    (Level::B, 0, 100, 20, 20),
    (Level::C, 0, 150, 60, 50),
    (Level::C, 0, 120, 50, 70),
    (Level::D, 1, 0, 0, 1000),
];
const SLOTS: [(u64, u64, u32); 3] = [(0, 20, 0), (20, 50, 1), (100, 120, 0)];
const FRAME: u64 = 200;
const CORES: u32 = 2;

struct World {
    policy: Levels,
    events: Vec<Event>,
    jobs: Vec<u64>,
    left: Vec<u64>,
    current: Vec<Option<u32>>,
}

impl World {
    fn new(tasks: &[TaskRow]) -> Self {
        let mut policy = Levels::new(CORES, 0).unwrap();
        let mut events = Vec::new();
        let mut put =
            |cpu, event, id, a, b| events.push(Event { time_ns: 0, cpu, event, id, a, b });
        for (id, &(level, core, period, pet, _)) in (0..).zip(tasks) {
            let any = if period == 0 { 1_000_000_000 } else { period };
            assert!(policy.add(id, level, core, any, pet));
            put(
                core,
                Kind::LevelAdd,
                id,
                period,
                (level as u64) << 56 | u64::from(core) << 48 | pet,
            );
        }
        put(0, Kind::LevelTable, 0, FRAME, 0);
        for (start, end, task) in SLOTS {
            assert!(policy.slot(0, start, end, task, FRAME));
            put(0, Kind::LevelSlot, task, start, end);
        }
        let count = tasks.len();
        Self {
            policy,
            events,
            jobs: vec![0; count],
            left: vec![0; count],
            current: vec![None; CORES as usize],
        }
    }

    fn put(&mut self, now: u64, cpu: u32, event: Kind, id: u32, a: u64, b: u64) {
        self.events.push(Event { time_ns: now, cpu, event, id, a, b });
    }

    fn state(&self, id: u32) -> State {
        self.policy.task(id).unwrap().state()
    }

    fn release(&mut self, tasks: &[TaskRow], id: u32, now: u64) {
        let (level, core, period, _, execution) = tasks[id as usize];
        let ready = self.state(id) == State::Ready;
        // A late job at C keeps its deadline: here the next release is left out.
        if ready && (level == Level::C || level == Level::D) {
            return;
        }
        if period == 0 && now > 0 {
            return;
        }
        self.policy.release(id, now);
        self.jobs[id as usize] += 1;
        self.left[id as usize] = execution;
        self.put(now, core, Kind::LevelRelease, id, self.jobs[id as usize], now);
    }

    fn pick(&mut self, core: u32, now: u64) -> bool {
        let old = self.current[core as usize];
        let overruns = |w: &Self| old.map_or(0, |id| w.policy.task(id).unwrap().overruns());
        let before = overruns(self);
        let choice = self.policy.pick(core, now).unwrap();
        if overruns(self) != before {
            let id = old.unwrap();
            self.put(now, core, Kind::LevelOverrun, id, self.jobs[id as usize], 0);
        }
        let level = choice.level.map_or(4, |l| l as u64);
        self.put(now, core, Kind::LevelPick, choice.task.unwrap_or(NONE), choice.until_ns, level);
        if choice.task != old {
            self.put(
                now,
                core,
                Kind::Runs,
                100 + choice.task.unwrap_or(0),
                choice.task.map_or(0, |t| u64::from(t) + 1),
                0,
            );
        }
        self.current[core as usize] = choice.task;
        choice.task != old
    }

    fn run(mut self, tasks: &[TaskRow], until: u64) -> SchedTrace {
        for now in 0..until {
            for core in 0..CORES {
                let Some(id) = self.current[core as usize].filter(|_| now > 0) else { continue };
                self.left[id as usize] = self.left[id as usize].saturating_sub(1);
                if self.left[id as usize] == 0
                    && self.state(id) == State::Ready
                    && tasks[id as usize].0 != Level::D
                {
                    assert!(self.policy.complete(id, now));
                    self.put(now, core, Kind::LevelComplete, id, self.jobs[id as usize], 0);
                    self.put(now, core, Kind::Stops, 100 + id, 0, 0);
                    self.current[core as usize] = None;
                }
            }
            for id in 0..u32::try_from(tasks.len()).unwrap() {
                let period = tasks[id as usize].2;
                if now % period.max(1) == 0 {
                    self.release(tasks, id, now);
                }
            }
            // Until no core changes its decision.
            let mut changed = true;
            while changed {
                changed = false;
                for core in 0..CORES {
                    changed |= self.pick(core, now);
                }
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
    World::new(&TASKS).run(&TASKS, 1200)
}

/// The violation of a trace after a change to its events.
fn after(change: impl FnOnce(&mut Vec<Event>)) -> Violation {
    let mut trace = trace();
    change(&mut trace.events);
    check(&trace).expect_err("the change must be noticed")
}

/// Index of the n-th event of a kind, and of a task where one is given.
fn nth(events: &[Event], kind: Kind, id: Option<u32>, n: usize) -> usize {
    let all = events
        .iter()
        .enumerate()
        .filter(|(_, e)| e.event == kind && id.is_none_or(|id| id == e.id));
    all.map(|(at, _)| at).nth(n).expect("there is one")
}

fn report_of(trace: &SchedTrace) -> LevelsReport {
    match check(trace) {
        Ok(Report::Levels(report)) => report,
        other => panic!("no report of levels: {other:?}"),
    }
}

#[test]
fn what_the_policy_decides_passes() {
    let report = report_of(&trace());
    assert!(report.decisions > 1000 && report.jobs > 30 && report.completed > 15, "{report:?}");
    // Tasks 1 and 4 need more than their PET.
    assert!(report.overruns > 5, "{report:?}");
    assert_eq!(
        (report.max_decision_late_ns, report.max_start_late_ns, report.max_stray_ns),
        (0, 0, 0)
    );
    assert_eq!(report.max_over_budget_ns, 0);
}

#[test]
fn another_answer_than_the_policys() {
    for field in 0..3 {
        let said = after(|events| {
            let at = nth(events, Kind::LevelPick, Some(2), 3);
            match field {
                0 => events[at].id = NONE,
                1 => events[at].a += 1,
                _ => events[at].b = 2,
            }
        });
        assert_eq!(said.rule, "replay", "{said}");
    }
}

#[test]
fn a_job_that_ends_without_having_begun() {
    let said = after(|events| {
        let at = nth(events, Kind::LevelComplete, Some(2), 1);
        let twice = events[at];
        events.insert(at, twice);
    });
    assert_eq!(said.rule, "budget", "{said}");
    let said = after(|events| {
        let at = nth(events, Kind::LevelRelease, Some(2), 1);
        events[at].id = 77;
    });
    assert_eq!(said.rule, "replay", "{said}");
}

/// The decisions of a stretch are left out: a task that should have been chosen waits.
fn without_picks(from: u64, to: u64) -> Violation {
    after(|events| {
        events.retain(|e| {
            let gone = matches!(e.event, Kind::LevelPick | Kind::Runs | Kind::Stops);
            !(gone && (from..to).contains(&e.time_ns))
        });
    })
}

#[test]
fn a_slot_that_begins_late() {
    let said = without_picks(400, 402);
    assert_eq!((said.rule, said.time_ns, said.core), ("slot", 400, 0), "{said}");
}

#[test]
fn a_release_that_nobody_looks_at() {
    // Core 1 runs level C while none of its tasks waits; a new job must be chosen at once.
    let trace = trace();
    let release = trace
        .events
        .iter()
        .find(|e| e.event == Kind::LevelRelease && e.id == 3 && e.time_ns > 0)
        .unwrap();
    let said = after(|events| {
        events.retain(|e| {
            let gone = matches!(e.event, Kind::LevelPick | Kind::Runs);
            !(gone && (release.time_ns..release.time_ns + 2).contains(&e.time_ns))
        });
    });
    assert!(
        ["level", "priority", "slot", "budget"].contains(&said.rule)
            && said.time_ns <= release.time_ns + 2,
        "{said}"
    );
}

#[test]
fn a_budget_that_is_not_kept() {
    // The decision at the end of the budget comes late.
    let trace = trace();
    let overrun = trace.events.iter().find(|e| e.event == Kind::LevelOverrun && e.id == 4).unwrap();
    let (core, at) = (overrun.cpu, overrun.time_ns);
    let said = after(|events| {
        events.retain(|e| !(e.cpu == core && e.time_ns == at && e.event != Kind::LevelRelease));
    });
    assert_eq!(said.rule, "budget", "{said}");
    // It is counted although some time was left.
    let said = after(|events| {
        let at = nth(events, Kind::LevelPick, Some(2), 5);
        let early = Event { event: Kind::LevelOverrun, id: 2, a: 1, b: 0, ..events[at + 1] };
        events.insert(at + 1, early);
    });
    assert_eq!(said.rule, "budget", "{said}");
}

#[test]
fn a_thread_that_runs_without_being_chosen() {
    let said = after(|events| {
        let at = nth(events, Kind::Runs, None, 10);
        events[at].a = 6;
        events[at].cpu = 0;
    });
    assert_eq!(said.rule, "runs", "{said}");
}

#[test]
fn releases_keep_their_period_in_a_kernels_trace() {
    let of_kernel = |change: &dyn Fn(&mut Event)| {
        let mut trace = trace();
        trace.about.insert("source".to_owned(), "linux".to_owned());
        let at = nth(&trace.events, Kind::LevelRelease, Some(2), 4);
        change(&mut trace.events[at]);
        check(&trace)
    };
    of_kernel(&|_| {}).unwrap();
    let changes: [&dyn Fn(&mut Event); 4] =
        [&|e| e.b -= 1, &|e| e.a += 1, &|e| e.b += 1, &|e| e.b -= 100];
    for change in changes {
        let said = of_kernel(change).unwrap_err();
        assert_eq!(said.rule, "release", "{said}");
    }
}

#[test]
fn traces_that_cannot_be_checked() {
    let with = |key: &str, value: &str| {
        let mut trace = trace();
        trace.about.insert(key.to_owned(), value.to_owned());
        check(&trace).unwrap_err()
    };
    assert!(with("lost", "3").what.contains("3 events were overwritten"));
    assert!(with("scheduler", "other").what.contains("no checker"));
    for cpus in ["0", "1", "many", "1000"] {
        assert_eq!(with("cpus", cpus).rule, "trace", "{cpus}");
    }
    let said = after(|events| events.swap(20, 400));
    assert_eq!(said.rule, "trace", "{said}");
    let said = after(|events| events.retain(|e| e.event != Kind::LevelTable));
    assert_eq!(said.rule, "trace", "{said}");
    assert!(
        check(&SchedTrace::default()).unwrap_err().what.contains("does not name its scheduler")
    );
}

proptest! {
    /// For any need of the jobs, the policy keeps the rules that are written a second time in the
    /// checker.
    #[test]
    fn random_systems_pass(needs in proptest::collection::vec(1u64..90, 6), pets in proptest::collection::vec(1u64..60, 4)) {
        let mut tasks = TASKS;
        for (task, need) in tasks.iter_mut().zip(needs) {
            task.4 = need;
        }
        for (at, pet) in [2, 3, 4, 0].into_iter().zip(pets) {
            tasks[at].3 = pet;
        }
        let report = check(&World::new(&tasks).run(&tasks, 700));
        prop_assert!(report.is_ok(), "{}", report.unwrap_err());
    }

    /// Nothing in a trace makes the checker panic.
    #[test]
    fn broken_traces_are_answered(at in 0usize..2000, id in any::<u32>(), a in any::<u64>(), b in any::<u64>(), cpu in 0u32..9) {
        let mut trace = trace();
        let at = at % trace.events.len();
        let e = &mut trace.events[at];
        (e.id, e.a, e.b, e.cpu) = (id, a, b, cpu);
        let _ = check(&trace);
    }
}
