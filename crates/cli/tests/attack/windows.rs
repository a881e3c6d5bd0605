//! Attack on plans with partitions: random systems on the simulated board under their time tables,
//! with jitter within the margins. No job may respond later than its bound, no activities may
//! overlap or come too early, and no task may run outside its window.

use crate::recorded;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_cache::trace::{Access, Kind};
use solocore_model::plan::{Plan, Scheme};
use solocore_model::profile::Profile;
use solocore_model::results::Mode;
use solocore_model::system::{Model, SystemTask};
use solocore_model::windows::table::Row;
use solocore_model::{Platform, System};
use solocore_planner::Demand;
use solocore_sim::Options;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A made-up recorded program: reads and writes over a few pages, some of them hot.
fn program(
    rng: &mut ChaCha8Rng,
    platform: &Platform,
    dir: &Path,
    name: &str,
) -> (PathBuf, Profile) {
    let (pages, lines) = (rng.random_range(1..20u32), u64::from(platform.lines_per_page()));
    let (mut at, mut accesses) = (0u64, Vec::new());
    let hot = rng.random_range(1..=pages);
    for _ in 0..rng.random_range(10..1000u64) {
        at += rng.random_range(0..120);
        let reach = if rng.random_bool(0.8) { hot } else { pages };
        let page = u64::from(rng.random_range(0..reach));
        let kind = if rng.random_bool(0.25) { Kind::Write } else { Kind::Read };
        accesses.push(Access {
            at_cycles: at,
            line: page * lines + rng.random_range(0..lines),
            kind,
        });
    }
    recorded::write(&accesses, pages, rng.random_range(0..100_000), platform, dir, name)
}

fn pick<T: Copy>(rng: &mut ChaCha8Rng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

/// Inputs and outputs of a partition, on random devices.
fn chains(rng: &mut ChaCha8Rng, devices: u32, text: &mut String) {
    for _ in 0..rng.random_range(0..3u32) {
        let half = |rng: &mut ChaCha8Rng| {
            let device = rng.random_range(0..devices);
            let transfer = if rng.random_bool(0.5) {
                format!("{} KiB", rng.random_range(1..16u32))
            } else {
                format!("{} us", rng.random_range(10..150u32))
            };
            format!(
                "{{ device = \"d{device}\", physical = \"{} us\", transfer = \"{transfer}\" }}",
                rng.random_range(20..400u32)
            )
        };
        let (input, output) = (half(rng), half(rng));
        text.push_str("[[partition.chain]]\nage = \"100 ms\"\n");
        let which = rng.random_range(0..3u32);
        if which != 0 {
            writeln!(text, "input = {input}").unwrap();
        }
        if which != 1 {
            writeln!(text, "output = {output}").unwrap();
        }
    }
}

/// A few partitions on few cores, tasks recorded or stated, some aligned with the windows and some
/// not, best effort among them.
fn system(rng: &mut ChaCha8Rng, dir: &Path) -> (System, Vec<Demand>) {
    let board = pick(rng, &["p4080", "imx6q", "xeon-w3530", "core-i5-2500k", "raspberry-pi-4"]);
    let (devices, cores) = (rng.random_range(0..4u32), rng.random_range(2..5u32));
    let period = pick(rng, &["1 ms", "250 us", "100 us"]);
    let policy = if rng.random_bool(0.9) { "memguard" } else { "none" };
    let mut text = format!(
        "platform = \"{board}\"\n[regulation]\npolicy = \"{policy}\"\nperiod = \
            \"{period}\"\nactive_cores = {cores}\n[sce]\nslack = {}\n",
        pick(rng, &[0, 0, 10, 30])
    );
    if policy == "memguard" && rng.random_bool(0.2) {
        // The I/O core's share is stated, the others have the rest.
        let guaranteed = Platform::find(board, Path::new(".")).unwrap().guaranteed_bandwidth().0
            / 1_000_000
            / u64::from(cores);
        let (share, bandwidth) =
            ("share = \"explicit\"", rng.random_range(20..80u32).min(guaranteed as u32));
        text = text.replacen(
            "[sce]",
            &format!(
                "{share}\n[[core]]\nid = {}\nbandwidth = \"{bandwidth} MB/s\"\n[sce]",
                cores - 1
            ),
            1,
        );
    }
    if rng.random_bool(0.7) {
        let mut margin = || rng.random_range(0..60u32);
        let (a, b, c) = (margin(), margin(), margin());
        write!(
            text,
            "[margin]\nphysical = \"{a} us\"\ndevice = \"{b} us\"\nprocessing = \"{c} us\"\n"
        )
        .unwrap();
    }
    if devices > 0 {
        text.push_str("[dma]\nbus = \"1 GB/s\"\nblock = \"256 B\"\n");
    }
    (0..devices).for_each(|d| write!(text, "[[device]]\nname = \"d{d}\"\n").unwrap());
    let (partitions, mut tasks) = (rng.random_range(1..6u32), String::new());
    for p in 0..partitions {
        let period = pick(rng, &[16u32, 24, 32, 48, 48, 96]);
        write!(text, "[[partition]]\nname = \"p{p}\"\nperiod = \"{period} ms\"\n").unwrap();
        if rng.random_bool(0.2) {
            writeln!(text, "duration = \"{} us\"", rng.random_range(500..period * 400)).unwrap();
        }
        if rng.random_bool(0.3) {
            writeln!(text, "core = {}", rng.random_range(0..cores - 1)).unwrap();
        }
        if devices > 0 {
            chains(rng, devices, &mut text);
        }
        for t in 0..rng.random_range(1..4u32) {
            let period = if rng.random_bool(0.7) {
                period * pick(rng, &[1, 1, 2, 3])
            } else {
                rng.random_range(20..160)
            };
            // The first is analysed, so that there is something to find a window for.
            let level = if t > 0 && rng.random_bool(0.25) { "D" } else { "B" };
            write!(
                tasks,
                "[[task]]\nname = \"t{p}.{t}\"\npartition = \"p{p}\"\nperiod = \
                \"{period} ms\"\ncriticality = \"{level}\"\n"
            )
            .unwrap();
            let misses = rng.random_range(0..600u32);
            // At least the time of its misses, at L_max below 200 ns on all boards.
            let wcet = misses / 4 + rng.random_range(50..800u32);
            tasks.push_str(&match rng.random_range(0..4u32) {
                0 => format!("wcet = \"{wcet} us\"\nmisses = {misses}\n"),
                1 => format!(
                    "curve = [{{ wcet = \"{} us\", misses = {} }}, {{ wcet = \
                        \"{wcet} us\", misses = {misses} }}]\n",
                    wcet + 300,
                    misses + 300
                ),
                _ => format!("command = [\"t{p}.{t}\"]\n"),
            });
        }
    }
    let text = text + &tasks;
    let system =
        System::parse(&dir.join("system.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let platform = system.platform.clone();
    let demand = |t: &SystemTask| {
        Demand::stated(&t.demand).unwrap_or_else(|| {
            let (path, profile) = program(rng, &platform, dir, &t.name);
            Demand::Profiled { path, profile: Box::new(profile) }
        })
    };
    let demands = system.tasks.iter().map(demand).collect();
    (system, demands)
}

/// Jobs seen, the ratio of the closest response to its bound, and whether the plan was schedulable.
fn attack(case: u64) -> (u64, f64, bool) {
    let mut rng = ChaCha8Rng::seed_from_u64(case);
    let dir = tempfile::tempdir().unwrap();
    let (system, demands) = system(&mut rng, dir.path());
    let plan: Plan = solocore_planner::plan(&system, &demands).unwrap();
    assert_eq!(plan.check(), Ok(()), "case {case}");
    let windows = plan.windows().unwrap();
    assert_eq!(plan.schedulable, windows.rounds.last().unwrap().found, "case {case}");
    if windows.table.is_empty() {
        assert!(!plan.schedulable, "case {case}");
        return (0, 0.0, false);
    }
    let options =
        Options { mode: Mode::Managed, duration_ns: 400_000_000, seed: case, timeline_ns: 0 };
    let result = solocore_sim::simulate(&plan, &options, &|_| true)
        .unwrap_or_else(|e| panic!("case {case}: {e}"));
    let io = result.io.as_ref().unwrap();
    assert_eq!(io.violations, 0, "case {case}: {:?}", io.first_violation);
    let (mut jobs, mut tightest) = (0, 0.0f64);
    for (planned, seen) in plan.tasks.iter().zip(&result.tasks).filter(|(t, _)| !t.best_effort()) {
        jobs += seen.jobs;
        let what = format!("case {case}, {}: {planned:?} against {seen:?}", plan.platform.name);
        if let Some(wcrt) = planned.wcrt_ns {
            assert!(seen.max_response_ns <= wcrt, "response beyond its bound: {what}");
            tightest = tightest.max(seen.max_response_ns as f64 / wcrt as f64);
            // The cost of a window's start is not in C_sce.
            let home = windows
                .partitions
                .iter()
                .find(|p| planned.partition.as_ref() == Some(&p.name))
                .unwrap();
            let starts = (wcrt / home.period_ns + 1) * home.switch_ns;
            assert!(
                seen.moet_ns <= planned.c_sce_ns + starts,
                "execution beyond C_sce and window starts: {what}"
            );
        }
        if planned.schedulable {
            assert_eq!(seen.misses_deadline, 0, "{what}");
        }
    }
    (jobs, tightest, plan.schedulable)
}

#[test]
fn no_execution_breaks_table_or_bounds() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(50);
    let (mut jobs, mut tightest, mut schedulable) = (0, 0.0f64, 0u64);
    for case in 0..cases {
        let (some, ratio, yes) = attack(case);
        jobs += some;
        tightest = tightest.max(ratio);
        schedulable += u64::from(yes);
    }
    println!(
        "{cases} systems, {schedulable} schedulable, {jobs} jobs; the closest response came to \
            {:.1} % of its bound",
        100.0 * tightest
    );
    assert!(schedulable * 3 > cases && jobs > cases, "the attack ran hardly anything");
}

/// A device's line waits for one line of every other core. A plan with a share above the remaining
/// bandwidth was accepted, and no engine kept it.
#[test]
fn an_io_core_states_no_more_than_its_turns_leave() {
    let of = |bandwidth: &str| {
        let text = format!(
            "platform = \"imx6q\"\n[regulation]\npolicy = \"memguard\"\nshare = \"explicit\"\n[[core]]\nid = 3\nbandwidth = \"{bandwidth}\"\n\
             [dma]\nbus = \"1 GB/s\"\nblock = \"256 B\"\n[[device]]\nname = \"d0\"\n[[partition]]\nname = \"p\"\nperiod = \"16 ms\"\n\
             [[task]]\nname = \"t\"\npartition = \"p\"\nperiod = \"16 ms\"\nwcet = \"1 \
             ms\"\nmisses = 10\n"
        );
        System::parse(Path::new("system.toml"), &text).map(|_| ()).map_err(|e| e.to_string())
    };
    // 32 B in 4 * 167.2 ns: 47.85 MB/s.
    assert_eq!(of("47 MB/s"), Ok(()));
    assert!(of("66 MB/s").unwrap_err().contains("at most 47.846"), "{:?}", of("66 MB/s"));
}

/// The simulation would notice: a table with a window moved onto another, or a transfer before its
/// data, is reported.
fn rows_of(plan: &mut Plan) -> &mut Vec<Row> {
    let Scheme::Windows(windows) = &mut plan.scheme else { panic!("a plan with windows") };
    &mut windows.table
}

#[test]
fn broken_tables_are_noticed() {
    let text = include_str!("../../../../examples/ima-sce/system.toml");
    let system = System::parse(Path::new("system.toml"), text).unwrap();
    let demand = |t: &SystemTask| Demand::stated(&t.demand).expect("no profiles in this example");
    let demands: Vec<Demand> = system.tasks.iter().map(demand).collect();
    let plan = solocore_planner::plan(&system, &demands).unwrap();
    let options = Options { mode: Mode::Managed, duration_ns: 80_000_000, seed: 1, timeline_ns: 0 };
    let violations = |plan: &Plan| {
        let result = solocore_sim::simulate(plan, &options, &|_| true).unwrap();
        result.io.unwrap().first_violation
    };
    assert_eq!(violations(&plan), None);
    let mut early = plan.clone();
    let rows = rows_of(&mut early);
    let input = rows.iter().position(|r| r.is_transfer()).unwrap();
    rows[input].offset_ns = rows[input].offset_ns.saturating_sub(500_000);
    assert!(violations(&early).unwrap().contains("before"));
    let mut twice = plan;
    let rows = rows_of(&mut twice);
    let outputs: Vec<usize> =
        (0..rows.len()).filter(|&r| rows[r].stage.name() == "device-output").collect();
    rows[outputs[1]].offset_ns = rows[outputs[0]].offset_ns + 20_000;
    assert!(violations(&twice).unwrap().contains("io-core"));
}

/// Under the papers' model the same systems are planned as well, and no fewer of them are
/// schedulable.
#[test]
fn the_papers_model_plans_the_same_systems() {
    let (mut sound, mut sce) = (0, 0);
    for case in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let (mut system, demands) = system(&mut ChaCha8Rng::seed_from_u64(case), dir.path());
        sound += u64::from(solocore_planner::plan(&system, &demands).unwrap().schedulable);
        system.regulation.model = Some(Model::Sce);
        let plan = solocore_planner::plan(&system, &demands).unwrap();
        assert_eq!(plan.check(), Ok(()), "case {case}");
        sce += u64::from(plan.schedulable);
    }
    assert!(
        sce >= sound && sce > 0,
        "{sce} of 10 under the papers' model, {sound} under the sound one"
    );
}
