//! The functions and the bandwidth that the planner chooses for a wanted slowdown, against enemies.
//!
//! A task reads in its locked section and a little outside of it; three other cores write or read
//! rows of their own banks without end. Under the plan no job takes longer than its bound, and the
//! bound is within the wanted slowdown; with one access more it is not. Fails where a term of the
//! bound is left out, or a larger bandwidth would do.

use solocore_experiments::attack::program::{Rows, Visit};
use solocore_model::plan::{LockedTask, Plan};
use solocore_model::results::Mode;
use solocore_model::{Profile, System};
use solocore_planner::Demand;
use solocore_sim::plan::{banks, layout};
use solocore_sim::program::{Entry, Op, OpKind, PageKind, Program, Signal};
use solocore_sim::{Options, StandIn, simulate_with};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const INSIDE: u64 = 3000;
const OUTSIDE: u64 = 5;
/// Cycles of computation before each access.
const GAP: u64 = 20;

/// `filter` reads, `main` does the rest. No page can be locked.
fn profile() -> Profile {
    let all = INSIDE + OUTSIDE;
    let calls = |reads: u64, held_ns: u64| {
        format!(
            r#"{{"calls":1,"llc_misses":{reads},"llc_reads":{reads},"llc_writes":0,
                "held_ns":{held_ns},"longest_ns":{held_ns}}}"#
        )
    };
    let text = format!(
        r#"{{"format":"solocore-profile/1","command":["./video"],"isa":"x86_64","engine":"qemu",
        "platform":"core-i5-2500k","geometry":"g","exit_code":0,"instructions":{cycles},
        "loads":{all},"stores":0,"references":{all},"threads":1,"children":0,"exec":null,
        "levels":[],"private_cycles":{cycles},"working_set":{{"pages":0,"lines":0,"bytes":0}},
        "lockdown":[{all}],"by_ways":[],"pages":[],"functions":[
        {{"name":"filter","file":"video","llc_misses":{INSIDE},"llc_accesses":{INSIDE},
            "share":0.99,"calls":{filter},"lock":"function:filter",
            "callers":[{{"functions":["main"],"llc_misses":{INSIDE},"llc_accesses":{INSIDE}}}]}},
        {{"name":"main","file":"video","llc_misses":{OUTSIDE},"llc_accesses":{OUTSIDE},
            "share":0.01,"calls":{main},"lock":"function:main"}}],
        "bandwidth":{{"interval_ns":1,"bytes_per_s":[]}},"trace":null,
        "origin":{{"processes":{{"switches":0,"reads":{all},"writes":0}}}}}}"#,
        cycles = all * GAP,
        filter = calls(INSIDE, 200_000),
        main = calls(all, 5_000_000),
    );
    serde_json::from_str(&text).unwrap()
}

fn planned(slowdown: f64, more: &str) -> Result<Plan, String> {
    let mut text = format!(
        "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"bwlock\"\n{more}[[task]]\nname = \
            \"video\"\ncore = 0\nperiod = \"5.3 ms\"\nprofile = \"p.json\"\nlock = \
            \"auto\"\nslowdown = {slowdown:?}\n"
    );
    for core in 1..4 {
        text += &format!(
            "[[task]]\nname = \"hog{core}\"\ncore = {core}\ncriticality = \"D\"\nwcet = \"1 \
                ms\"\nmisses = 10\n"
        );
    }
    let system = System::parse(Path::new("system.toml"), &text).map_err(|e| e.to_string())?;
    let of = |task: &solocore_model::system::SystemTask| {
        Demand::stated(&task.demand).unwrap_or_else(|| Demand::Profiled {
            path: PathBuf::from("p.json"),
            profile: Box::new(profile()),
        })
    };
    let demands: Vec<Demand> = system.tasks.iter().map(of).collect();
    solocore_planner::plan(&system, &demands).map_err(|e| e.to_string())
}

fn chosen(plan: &Plan) -> &LockedTask {
    &plan.lock.as_ref().unwrap().tasks[0]
}

/// A job of `ops`, again and again.
#[derive(Clone)]
struct Loop {
    ops: Vec<Op>,
    pages: u32,
    at: usize,
}

impl Program for Loop {
    fn refill(&mut self, out: &mut Vec<Op>) {
        let to = self.ops.len().min(self.at + 256);
        out.extend_from_slice(&self.ops[self.at..to]);
        self.at = to % self.ops.len();
    }

    fn entry(&self) -> Entry {
        Entry::Shared
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn abandon_job(&mut self) {
        self.at = 0;
    }
}

/// The task with its section, and enemies in the other tasks' places.
fn stand_ins(plan: &Plan) -> Vec<StandIn> {
    let (layout, locked) = (layout(plan).unwrap(), chosen(plan));
    let per_page = u64::from(plan.platform.lines_per_page());
    let of = |task: usize| {
        let own: Vec<u32> = banks(plan, task).unwrap_or_else(|| (0..layout.banks()).collect());
        let slot = u32::try_from(task).unwrap();
        let visit = Visit::new(&layout, &own, 0, Rows::Conflicts, slot, per_page);
        let mut lines = visit.lines.iter().copied().cycle();
        let mut access = |kind, gap| Op::access(kind, gap, lines.next().unwrap());
        let ops: Vec<Op> = if task == 0 {
            let mut ops = vec![Op::signal(Signal::Lock)];
            ops.extend((0..locked.covered).map(|_| access(OpKind::LoadWait, GAP)));
            ops.push(Op::signal(Signal::Unlock));
            let outside = locked.accesses - locked.covered;
            ops.extend((0..outside).map(|_| access(OpKind::LoadWait, GAP)));
            ops.push(Op::signal(Signal::JobEnd));
            ops
        } else {
            let kind = if task == 2 { OpKind::Load } else { OpKind::StoreLine };
            (0..1024).map(|_| access(kind, 0)).collect()
        };
        let pages = u32::try_from(visit.frames.len()).unwrap();
        let program = Loop { ops, pages, at: 0 };
        StandIn {
            task,
            program: Arc::new(move || Box::new(program.clone()) as _),
            frames: visit.frames,
            kind: Some(PageKind::Bypass),
            phase_ns: 0,
        }
    };
    (0..plan.tasks.len()).map(of).collect()
}

/// Longest execution of a job, ns.
fn longest(plan: &Plan, mode: Mode) -> u64 {
    let options = Options { mode, duration_ns: 16_000_000, seed: 1, timeline_ns: 0 };
    let result = simulate_with(plan, &options, &stand_ins(plan), &|_| true).unwrap();
    assert!(result.tasks[0].jobs >= 3, "{:?}", result.tasks[0]);
    result.tasks[0].moet_ns
}

#[test]
fn enemies_do_not_exceed_the_wanted_slowdown() {
    let plan = planned(3.0, "").unwrap();
    let t = chosen(&plan);
    assert_eq!(plan.tasks[0].program.lock, t.functions, "as if the file named them");
    assert!(!t.functions.is_empty() && t.bound_ns <= t.limit_ns, "{t:?}");
    assert!(t.one_more_ns.is_none_or(|more| more > t.limit_ns), "one access more: {t:?}");
    assert!(t.unlocked_ns.is_none_or(|unlocked| unlocked > t.limit_ns), "{t:?}");
    let (managed, unmanaged) = (longest(&plan, Mode::Managed), longest(&plan, Mode::Unmanaged));
    println!(
        "limit {}, bound {}, managed {managed}, unmanaged {unmanaged}",
        t.limit_ns, t.bound_ns
    );
    assert!(managed <= t.bound_ns, "{managed} > {}", t.bound_ns);
    assert!(unmanaged > managed, "the lock must make a difference: {unmanaged} {managed}");
}

/// A stated bandwidth of one access more needs other functions, at a higher price, or is refused.
#[test]
fn a_larger_bandwidth_costs_more_or_is_refused() {
    let plan = planned(3.0, "").unwrap();
    let budget = plan.regulation.lock_budget_accesses.unwrap();
    let line = plan.platform.llc.line.0;
    let price = plan.lock.as_ref().unwrap().price_bytes_per_s;
    let stated =
        |budget: u64| planned(3.0, &format!("lock_bandwidth = \"{} B/s\"\n", budget * line * 1000));
    let same = stated(budget).unwrap();
    assert!(same.lock.as_ref().unwrap().stated);
    assert_eq!(chosen(&same).functions, chosen(&plan).functions);
    match stated(budget + 1) {
        Ok(more) => assert!(more.lock.unwrap().price_bytes_per_s >= price),
        Err(error) => {
            assert!(
                error.contains("keeps slowdown = 3") && error.contains("set slowdown"),
                "{error}"
            );
        }
    }
    let error = planned(1.001, "").unwrap_err();
    assert!(error.contains("set slowdown = ") && error.contains("task `video`"), "{error}");
    // Nothing is locked where the slowdown is kept anyway.
    let free = planned(900.0, "").unwrap();
    assert!(chosen(&free).functions.is_empty() && free.tasks[0].program.lock.is_empty());
}
