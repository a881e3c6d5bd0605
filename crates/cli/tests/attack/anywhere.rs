//! Pages that lie anywhere: reads of one core push out dirty lines of another.
//!
//! Rule: three writers fill a shared cache with dirty lines, as fast as their budgets let them. A
//! task reads each of its lines once. Each read costs its core a read and a write.

use crate::recorded;
use solocore_cache::trace::{Access, Kind};
use solocore_model::results::Mode;
use solocore_model::{Platform, System};
use solocore_planner::Demand;
use solocore_sim::Options;
use std::fmt::Write as _;
use std::path::Path;

/// Lines that the task reads in a job, about.
const READS: u64 = 6_000;

const REGULATION: &str = r#"
[regulation]
policy = "memguard"
active_cores = 4
share = "explicit"
pages = "anywhere"
"#;

const READER: &str = r#"
[[core]]
id = 0
bandwidth = "20 MB/s"
[[task]]
name = "reader"
core = 0
period = "200 ms"
command = ["reader"]
"#;

/// A program that goes once through `pages` pages, a line each 100 cycles.
fn through(pages: u32, kind: Kind, platform: &Platform, dir: &Path, name: &str) -> Demand {
    let lines = u64::from(pages) * u64::from(platform.lines_per_page());
    let access = |n: u64| Access { at_cycles: 100 * n, line: n, kind };
    let accesses: Vec<Access> = (0..lines).map(access).collect();
    let (path, profile) = recorded::write(&accesses, pages, 1_000, platform, dir, name);
    Demand::Profiled { path, profile: Box::new(profile) }
}

#[test]
fn reads_push_out_dirty_lines_of_others() {
    for board in ["imx6q", "p4080", "raspberry-pi-4"] {
        let dir = tempfile::tempdir().unwrap();
        let mut text = format!("platform = \"{board}\"\n{REGULATION}{READER}");
        for core in 1..4 {
            write!(
                text,
                "[[core]]\nid = {core}\nbandwidth = \"60 MB/s\"\n[[task]]\nname = \
                    \"writer{core}\"\ncore = {core}\ncriticality = \"D\"\ncommand = [\"w\"]\n"
            )
            .unwrap();
        }
        let system = System::parse(&dir.path().join("system.toml"), &text).unwrap();
        let platform = &system.platform;
        // Together the writers cover the cache one and a half times.
        let per_page = u64::from(platform.lines_per_page());
        let cache = u32::try_from(platform.llc.size.0 / platform.page.0).unwrap();
        let demands: Vec<Demand> = system
            .tasks
            .iter()
            .map(|task| match task.name.as_str() {
                "reader" => {
                    let pages = u32::try_from(READS.div_ceil(per_page)).unwrap();
                    through(pages, Kind::Read, platform, dir.path(), "reader")
                }
                name => through(cache / 2, Kind::Write, platform, dir.path(), name),
            })
            .collect();
        let plan = solocore_planner::plan(&system, &demands).unwrap();
        plan.check().unwrap();
        assert!(plan.tasks[0].wcrt_ns.is_some(), "{:#?}", plan.reasons);
        let options =
            Options { mode: Mode::Managed, duration_ns: 1_000_000_000, seed: 1, timeline_ns: 0 };
        let result = solocore_sim::simulate(&plan, &options, &|_| true).unwrap();
        let (planned, seen) = (&plan.tasks[0], &result.tasks[0]);
        let (reads, _) = demands[0].kinds(0);
        let (own, made) = (reads as f64, seen.accesses as f64 / seen.jobs as f64);
        println!(
            "{board}: {reads} reads, {made:.0} accesses a job; {} of {} ns",
            seen.max_response_ns,
            planned.wcrt_ns.unwrap()
        );
        assert!(seen.max_response_ns <= planned.wcrt_ns.unwrap(), "{board}");
        assert_eq!(planned.misses, 2 * reads, "{board}");
        // The promise of a bound that leaves the lines of the others out.
        let budget = plan.cores[0].budget_accesses.unwrap();
        let without = reads / budget * plan.regulation.period_ns;
        assert!(made > 1.5 * own, "{board}: the attack has no effect");
        assert!(
            seen.max_response_ns > without + without / 4,
            "{board}: {} ns is no more than {without} ns without others' lines",
            seen.max_response_ns
        );
    }
}
