//! Attack on VCPUs: random scenarios and plans on the simulated board. Every trace must pass the
//! checker, which knows the promises by itself, and under a plan no job may respond later than its
//! bound.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_model::System;
use solocore_model::results::Mode;
use solocore_model::sched_trace::{Kind, SchedTrace};
use solocore_planner::Demand;
use solocore_sim::Options;
use solocore_sim::scenario::{Scenario, prepare, run};
use std::fmt::Write as _;
use std::path::Path;

/// Cores, and VCPUs that fit on them by the bound for rate-monotonic scheduling, with periodic,
/// sporadic and endless tasks.
fn scenario(seed: u64, background: &str, strict: bool, migrations: u32, throttled: bool) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut text = format!(
        "[simulation]\nplatform = \"core-i5-2500k\"\nduration = \"60 ms\"\nseed = \
            {seed}\n[scheduler]\nkind = \"vcpu\"\nadmission = true\nbackground = \"{background}\"\nstrict = {strict}\nmigrations = {migrations}\n"
    );
    if throttled {
        let latency = rng.random_range(1..200u32);
        writeln!(
            text,
            "throttle = {{ max_latency = \
            \"{latency} ns\", idle_per_mille = 500, period = \"7 ms\", check = \"300 us\" \
            }}"
        )
        .unwrap();
    }
    let count = rng.random_range(1..9u32);
    for v in 0..count {
        let period = rng.random_range(500..9_000u32);
        let capacity = (period * rng.random_range(20..300) / 1000).max(20);
        // Stated cores only where they cannot be too full.
        let core = if rng.random_bool(0.3) { format!("core = {}\n", v % 4) } else { String::new() };
        write!(
            text,
            "[[vcpu]]\nname = \"v{v}\"\ncapacity = \"{capacity} us\"\nperiod = \"{period} \
            us\"\n{core}"
        )
        .unwrap();
        for t in 0..rng.random_range(1..3u32) {
            let release = match rng.random_range(0..3u32) {
                0 => String::new(),
                1 => format!(
                    "period = \"{} us\"\nphase = \"{} us\"\n",
                    rng.random_range(300..9000),
                    rng.random_range(0..3000)
                ),
                _ => format!(
                    "sporadic = \"{} us\"\nsporadic_max = \"9 ms\"\n",
                    rng.random_range(300..9000)
                ),
            };
            let wcet = rng.random_range(10..1500u32);
            let misses = if throttled { wcet * 5 } else { rng.random_range(0..20) };
            write!(
                text,
                "[[task]]\nname = \"t{v}-{t}\"\nvcpu = \"v{v}\"\nworkload = \
                    {{ kind = \"spread\", wcet = \"{} us\", misses = {misses} }}\n{release}",
                wcet + misses
            )
            .unwrap();
        }
    }
    text
}

fn trace_of(text: &str) -> SchedTrace {
    let scenario =
        Scenario::parse(Path::new("random.toml"), text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let prepared = prepare(&scenario).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let result =
        run(&scenario, prepared, 0, true, &|_| true).unwrap_or_else(|e| panic!("{e}\n{text}"));
    result.sched_trace.expect("it was asked for")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn traces_of_random_scenarios_keep_every_rule(
        seed in any::<u64>(),
        background in prop::sample::select(vec!["least_time", "keep", "least_memory", "none"]),
        strict in any::<bool>(),
        migrations in prop::sample::select(vec![0u32, 1, 4]),
        throttled in any::<bool>(),
    ) {
        let text = scenario(seed, background, strict, migrations, throttled);
        let trace = trace_of(&text);
        prop_assert!(trace.events.len() > 20, "{text}");
        let checked = solocore_check::check(&trace);
        prop_assert!(checked.is_ok(), "{checked:?}\n{text}");
    }
}

/// Contents of the passing traces: without them, the test above would prove nothing.
#[test]
fn the_random_scenarios_reach_what_is_checked() {
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    let (mut moves, mut refusals) = (0, 0);
    for seed in 0..12 {
        let (background, throttled) = ([("keep", false), ("least_time", true)])[seed as usize % 2];
        let trace = trace_of(&scenario(seed, background, seed % 3 != 0, 4, throttled));
        moves += trace.events.iter().filter(|e| e.event == Kind::VcpuLeave).count();
        refusals += trace.events.iter().filter(|e| e.event == Kind::VcpuAllow && e.id == 0).count();
        let solocore_check::Report::Vcpus(report) = solocore_check::check(&trace).unwrap() else {
            panic!("VCPUs")
        };
        for (rule, n) in report.checked {
            *counts.entry(rule).or_default() += n;
        }
    }
    for rule in ["answer", "runs", "window", "supply"] {
        assert!(counts.get(rule).copied().unwrap_or(0) > 100, "{rule}: {counts:?}");
    }
    assert!(moves > 2 && refusals > 10, "{moves} moves, {refusals} refusals");
}

/// A system near the limit of its cores.
fn system(seed: u64) -> (System, Vec<Demand>, String) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (strict, background) =
        (rng.random_bool(0.5), ["least_time", "keep", "none"][rng.random_range(0..3usize)]);
    let mut text = format!(
        "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"maracas\"\nactive_cores = \
            {}\n[maracas]\nstrict = {strict}\nbackground = \"{background}\"\noverhead = \"0 \
            us\"\nbest_effort = {{ capacity = \"200 us\", period = \"9 ms\" }}\n",
        rng.random_range(1..4u32)
    );
    let mut tasks = String::new();
    for v in 0..rng.random_range(1..7u32) {
        let period = rng.random_range(500..5_000u32);
        let capacity = period * rng.random_range(150..450) / 1000;
        let mut names = Vec::new();
        for t in 0..rng.random_range(1..3u32) {
            // Periods from less than the VCPU's to several times it.
            let own = period * rng.random_range(400..6000) / 1000;
            let wcet = (u64::from(own) * u64::from(capacity) / u64::from(period)
                * rng.random_range(100..450)
                / 1000)
                .max(5);
            let misses = rng.random_range(0..=wcet / 8);
            names.push(format!("\"t{v}-{t}\""));
            write!(
                tasks,
                "[[task]]\nname = \"t{v}-{t}\"\nperiod = \"{own} us\"\ndeadline = \"{} us\"\nwcet \
                    = \"{wcet} us\"\nmisses = {misses}\n",
                own * rng.random_range(10..40) / 10
            )
            .unwrap();
        }
        write!(
            text,
            "[[vcpu]]\nname = \"v{v}\"\ncapacity = \"{capacity} us\"\nperiod = \"{period} \
                us\"\ntasks = [{}]\n",
            names.join(", ")
        )
        .unwrap();
    }
    text += &tasks;
    for d in 0..rng.random_range(0..3u32) {
        write!(
            text,
            "[[task]]\nname = \"d{d}\"\ncriticality = \"D\"\nwcet = \"1 ms\"\nmisses = 3000\n"
        )
        .unwrap();
    }
    let system =
        System::parse(Path::new("system.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let demands = system
        .tasks
        .iter()
        .map(|t| match &t.demand {
            solocore_model::system::Demand::Given { wcet, misses } => {
                Demand::Given { wcet_ps: wcet.ps(), misses: *misses }
            }
            other => panic!("{other:?}"),
        })
        .collect();
    (system, demands, text)
}

#[test]
fn jobs_under_a_plan_respond_within_their_bounds() {
    let (mut bounded, mut jobs, mut closest) = (0, 0, 0.0f64);
    for seed in 0..40 {
        let (system, demands, text) = system(seed);
        let plan =
            solocore_planner::plan(&system, &demands).unwrap_or_else(|e| panic!("{e}\n{text}"));
        plan.check().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let options =
            Options { mode: Mode::Managed, duration_ns: 60_000_000, seed, timeline_ns: 0 };
        let (result, trace) = solocore_sim::simulate_traced(&plan, &options, true, &|_| true)
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
        let fits = plan.vcpus().is_none_or(|p| p.vcpus.iter().all(|v| v.admitted));
        if fits {
            let checked = solocore_check::check(&trace.expect("VCPUs are scheduled"));
            assert!(checked.is_ok(), "seed {seed}: {checked:?}\n{text}");
        }
        for (t, seen) in plan.tasks.iter().zip(&result.tasks) {
            let Some(bound) = t.wcrt_ns else { continue };
            assert!(
                seen.max_response_ns <= bound,
                "seed {seed}: {} took {} ns, its bound is {bound}\n{text}",
                t.name,
                seen.max_response_ns
            );
            bounded += 1;
            jobs += seen.jobs;
            closest = closest.max(seen.max_response_ns as f64 / bound as f64);
        }
        assert!(
            !plan.schedulable || result.tasks.iter().all(|t| t.misses_deadline == 0),
            "seed {seed}\n{text}"
        );
    }
    assert!(bounded > 60 && jobs > 500, "{bounded} bounds, {jobs} jobs");
    // Bounds that no response comes near would pass with any supply.
    assert!(closest > 0.5, "{closest}");
}
