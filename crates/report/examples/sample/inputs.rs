//! Hand-made inputs: five tasks on eight cores, one of them best effort without a period, one with
//! a hostile name.

use solocore_model::Platform;
use solocore_model::plan::waterfall::{Cause, Term};
use solocore_model::plan::{self, Plan, PlanCore, PlanRegulation, PlanTask, Scheme, Verdict};
use solocore_model::profile::{
    self, BandwidthSeries, CallChain, FunctionCalls, FunctionProfile, Level, PageName, PageProfile,
    Profile, TraceRef, WorkingSet,
};
use solocore_model::results::{
    self, Activity, CoreResult, Mode, Segment, SimResult, TaskResult, TimelineJob,
};
use solocore_model::system::{Criticality, Model, Pages, Policy, Share, Sharing};
use std::path::{Path, PathBuf};

/// A name that breaks a page without escaping.
pub const HOSTILE: &str = "<script>alert(1)</script>";
const MS: u64 = 1_000_000;

/// Everything that a report can show.
pub struct Sample {
    /// The plan.
    pub plan: Plan,
    /// Solo, unmanaged and managed.
    pub results: [SimResult; 3],
    /// Profiles by task.
    pub profiles: Vec<(String, Profile)>,
}

struct Row {
    name: &'static str,
    core: u32,
    level: Criticality,
    period_ns: Option<u64>,
    solo_ns: u64,
    unmanaged_ns: u64,
    managed_ns: u64,
    bound_ns: u64,
    locked: u64,
}

fn rows() -> Vec<Row> {
    let row = |name, core, level, period_ns, times: [u64; 4], locked| {
        let [solo_ns, unmanaged_ns, managed_ns, bound_ns] = times;
        Row { name, core, level, period_ns, solo_ns, unmanaged_ns, managed_ns, bound_ns, locked }
    };
    use Criticality::{A, B, C, D};
    vec![
        row(
            "tracking",
            0,
            A,
            Some(100 * MS),
            [23_412_345, 81_234_567, 41_000_001, 62_345_678],
            217,
        ),
        row(
            "disparity",
            1,
            A,
            Some(1_000 * MS),
            [312_000_000, 1_204_500_000, 520_250_000, 801_000_000],
            96,
        ),
        row("imu-filter", 2, B, Some(5 * MS), [412_345, 903_210, 498_001, 700_123], 0),
        row(HOSTILE, 0, C, Some(200 * MS), [1_250_000, 9_870_000, 2_003_456, 3_900_000], 12),
        row(
            "a-best-effort-task-with-a-very-long-name-that-nobody-should-have-to-read-in-full",
            5,
            D,
            None,
            [80 * MS, 95 * MS, 310 * MS, 420 * MS],
            0,
        ),
    ]
}

/// Makes the inputs.
pub fn sample() -> Sample {
    let rows = rows();
    let result = |mode, pick: fn(&Row) -> u64| sim_result(&rows, mode, pick);
    let profiles =
        vec![("tracking".to_owned(), long_profile()), (HOSTILE.to_owned(), short_profile())];
    Sample {
        plan: plan(&rows, &profiles),
        results: [
            result(Mode::Solo, |r| r.solo_ns),
            result(Mode::Unmanaged, |r| r.unmanaged_ns),
            result(Mode::Managed, |r| r.managed_ns),
        ],
        profiles,
    }
}

fn plan(rows: &[Row], profiles: &[(String, Profile)]) -> Plan {
    let platform = Platform::find("p4080", Path::new(".")).expect("a preset");
    Plan {
        format: plan::FORMAT.to_owned(),
        schedulable: true,
        model: Model::Sce,
        tasks: rows.iter().map(|r| plan_task(r, profiles)).collect(),
        cores: (0..8).map(plan_core).collect(),
        reasons: vec![
            "budget: BW_min = 64 B / 49.6 ns = 1.29 GB/s, shared evenly between 8 cores: Q = 2520 \
                accesses per 1 ms"
                .to_owned(),
            "ways: 32 ways over 8 cores, 4 each; 64 pages can be locked per core".to_owned(),
            format!(
                "core 0: {HOSTILE} below tracking by rate-monotonic priority; R = 66.2 ms <= \
                200 ms"
            ),
        ],
        assumptions: vec![
            "No DMA master is active beyond its share.".to_owned(),
            "L_max = 49.6 ns bounds one DRAM access, refresh not included.".to_owned(),
        ],
        promises: Vec::new(),
        regulation: PlanRegulation {
            policy: Policy::Memguard,
            period_ns: MS,
            share: Share::Even,
            carry_in: true,
            pages: Pages::default(),
            other_programs: false,
            reclaim: false,
            sharing: Sharing::None,
            active_cores: 8,
            lock_budget_accesses: None,
            lock_reaction_ns: None,
            skid: 0,
        },
        lock: None,
        platform,
        best_effort_speed: None,
        certificate: None,
        repair: Vec::new(),
        what_if: None,
        inputs: Vec::new(),
        choices: Vec::new(),
        carried: std::collections::BTreeMap::new(),
        scheme: Scheme::Budgets,
    }
}

fn plan_core(id: u32) -> PlanCore {
    PlanCore {
        id,
        ways: 4,
        budget_accesses: Some(2520),
        write_budget_accesses: None,
        bandwidth_bytes_per_s: Some(161_290_322),
        lock_capacity_pages: 256,
        locked_pages: [229, 96, 0, 0, 0, 0, 0, 0][id as usize],
        utilization: [0.643, 0.801, 0.14, 0.0, 0.0, 0.0, 0.0, 0.0][id as usize],
        banks: Some((4 * id, 4)),
        colours: None,
        soft: false,
        gives: false,
        margin: None,
    }
}

fn plan_task(row: &Row, profiles: &[(String, Profile)]) -> PlanTask {
    let profile = profiles.iter().find(|(name, _)| name == row.name).map(|(_, p)| p);
    let analysed = row.level != Criticality::D;
    PlanTask {
        name: row.name.to_owned(),
        core: row.core,
        criticality: row.level,
        wcet_ns: row.solo_ns + 5000,
        misses: profile
            .map_or(20_000, |p| p.residual_misses(usize::try_from(row.locked).expect("small"))),
        stall_ns: row.bound_ns - row.solo_ns - 5000,
        c_sce_ns: row.bound_ns,
        wcrt_ns: analysed.then_some(row.bound_ns + row.bound_ns / 10),
        deadline_ns: row.period_ns,
        schedulable: true,
        verdict: analysed.then_some(Verdict::Meets),
        assumes: Vec::new(),
        period_ns: row.period_ns,
        priority: row.core + 1,
        crpd_ns: 12_000,
        private_cycles: profile.map(|p| p.private_cycles),
        locked_pages: (0..row.locked).map(page_name).collect(),
        profile: profile.map(|_| PathBuf::from("task.profile.json")),
        profiled: None,
        program_files: Vec::new(),
        touched_pages: None,
        command: None,
        program: solocore_model::system::TaskProgram::default(),
        soft_budget: None,
        soft_budget_length_ns: None,
        partition: None,
        unlocked: None,
        tardiness_ns: None,
        margin: None,
        derivation: None,
        waterfall: if analysed { waterfall(row) } else { Vec::new() },
    }
}

/// A waterfall as of a planner; with locked pages, the cache lowers the sum.
fn waterfall(row: &Row) -> Vec<Term> {
    let of = |ns: u64| i64::try_from(ns).expect("small");
    let term = |term, ns, misses| Term { term, ns, misses };
    vec![
        term(Cause::Alone, of(row.solo_ns), Some(8954)),
        term(Cause::Cache, if row.locked > 0 { -5000 } else { 5000 }, Some(20_000)),
        term(Cause::Latency, if row.locked > 0 { 10_000 } else { 0 }, None),
        term(Cause::Others, of(row.bound_ns - row.solo_ns) - 7000, None),
        term(Cause::Once, 2000, None),
        term(Cause::Preemption, of(row.bound_ns / 10), None),
    ]
}

fn page_name(offset: u64) -> PageName {
    PageName { region: "heap".to_owned(), offset }
}

fn sim_result(rows: &[Row], mode: Mode, pick: fn(&Row) -> u64) -> SimResult {
    let task = |r: &Row| {
        let late = mode == Mode::Unmanaged && r.period_ns.is_some_and(|p| pick(r) > p);
        TaskResult {
            name: r.name.to_owned(),
            core: r.core,
            jobs: 40,
            misses_deadline: if late { 17 } else { 0 },
            moet_ns: pick(r),
            acet_ns: pick(r) * 9 / 10,
            max_response_ns: pick(r) + pick(r) / 20,
            execution_ns: (0..=8)
                .map(|i| (pick(r) / 10 * (9 + i / 8) - pick(r) / 100 * (8 - i), 5 * i))
                .skip(1)
                .collect(),
            accesses: 1_000_000,
        }
    };
    let throttled = |id| if mode == Mode::Managed && id == 5 { 60 * MS } else { 0 };
    let core = |id| CoreResult {
        id,
        accesses: 100_000,
        throttled_ns: throttled(id),
        max_accesses_per_period: 2520,
    };
    SimResult {
        format: results::FORMAT.to_owned(),
        mode,
        seed: 1,
        tasks: rows.iter().map(task).collect(),
        cores: (0..8).map(core).collect(),
        simulated_ns: 4_000 * MS,
        wall_ns: 300 * MS,
        requests: 12_345_678,
        io: None,
        timeline_ns: None,
        timeline: if mode == Mode::Solo { Vec::new() } else { timeline(mode == Mode::Managed) },
        jobs: if mode == Mode::Solo { Vec::new() } else { jobs(mode == Mode::Managed) },
    }
}

fn timeline(managed: bool) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut push = |core, task, start_ns, end_ns, activity| {
        segments.push(Segment { core, task, start_ns, end_ns, activity });
    };
    let end = if managed { 41 * MS } else { 81 * MS };
    push(0, 0, 0, end, Activity::Run);
    push(0, 3, end, end + 2 * MS, Activity::Run);
    push(1, 1, 0, 120 * MS, Activity::Run);
    for job in 0..24 {
        push(
            2,
            2,
            job * 5 * MS,
            job * 5 * MS + if managed { 498_001 } else { 903_210 },
            Activity::Run,
        );
    }
    for period in 0..12 {
        let start = period * 10 * MS;
        if managed {
            push(5, 4, start, start + 4 * MS, Activity::Run);
            push(5, 4, start + 4 * MS, start + 10 * MS, Activity::Throttled);
        } else {
            push(5, 4, start, start + 10 * MS, Activity::Run);
        }
    }
    segments
}

/// Jobs of `tracking` and `imu-filter`; unmanaged, the second job of `imu-filter` is tardy, and its
/// last one does not end.
fn jobs(managed: bool) -> Vec<TimelineJob> {
    let tracking = TimelineJob {
        task: 0,
        release_ns: 0,
        deadline_ns: 100 * MS,
        end_ns: Some(if managed { 41 * MS } else { 81 * MS }),
        late: false,
    };
    let filter = |job: u64| TimelineJob {
        task: 2,
        release_ns: job * 5 * MS,
        deadline_ns: (job + 1) * 5 * MS,
        end_ns: (managed || job < 23)
            .then_some(job * 5 * MS + if !managed && job == 1 { 6 * MS } else { MS }),
        late: !managed && (job == 1 || job == 23),
    };
    std::iter::once(tracking).chain((0..24).map(filter)).collect()
}

fn long_profile() -> Profile {
    let lockdown: Vec<u64> =
        (0..3000_u64).map(|k| 120_000 + 574_093 * 150 / (150 + k * k / 60)).collect();
    let page = |k: u64| PageProfile {
        name: page_name(k),
        references: 900_000 / (k + 1),
        llc_reads: 30_000 / (k + 1),
        llc_writes: 4_000 / (k + 1),
        lines: 64,
        frame: 0,
    };
    let function = |(i, name): (usize, &str)| FunctionProfile {
        name: name.to_owned(),
        file: "tracking".to_owned(),
        llc_misses: 200_000 >> i,
        llc_accesses: 300_000 >> i,
        share: 0.5 / f64::from(1_u32 << i),
        callers: callers(name, 200_000 >> i),
        calls: (name == "gradient").then_some(FunctionCalls {
            calls: 3,
            llc_misses: 225_000,
            llc_reads: 310_000,
            llc_writes: 60_000,
            held_ns: 9_000_000,
            longest_ns: 4_000_000,
        }),
        lock: (name == "gradient").then(|| "function:gradient".to_owned()),
        ..FunctionProfile::default()
    };
    let names = [
        "gradient",
        "interpolate_subpixel_window_with_bilinear_weights<float, 21>",
        "main",
        "memcpy",
    ];
    Profile {
        lockdown,
        pages: (0..40).map(page).collect(),
        functions: names.into_iter().enumerate().map(function).collect(),
        bandwidth: BandwidthSeries {
            interval_ns: 100_000,
            bytes_per_s: (0..500).map(|i: u64| (i * 7919 % 97) * (i % 120) * 60_000).collect(),
        },
        ..short_profile()
    }
}

/// All functions are called by `main`, and `memcpy` by the first one.
fn callers(name: &str, llc_misses: u64) -> Vec<CallChain> {
    let functions: &[&str] = match name {
        "main" => return Vec::new(),
        "memcpy" => &["main", "gradient"],
        _ => &["main"],
    };
    let functions = functions.iter().map(ToString::to_string).collect();
    vec![CallChain { functions, llc_misses, llc_accesses: llc_misses }]
}

fn short_profile() -> Profile {
    let level = |name: &str, accesses, misses| Level {
        name: name.to_owned(),
        accesses,
        misses,
        writebacks: misses / 3,
    };
    Profile {
        format: profile::FORMAT.to_owned(),
        command: vec!["./tracking".to_owned(), "a.pgm".to_owned(), HOSTILE.to_owned()],
        isa: solocore_model::platform::Isa::Powerpc,
        engine: "qemu".to_owned(),
        platform: "p4080".to_owned(),
        geometry: String::new(),
        exit_code: 0,
        instructions: 123_456_789,
        loads: 30_000_000,
        stores: 8_000_000,
        references: 38_000_000,
        threads: 1,
        children: 2,
        exec: None,
        levels: vec![
            level("L1I", 120_000_000, 12_345),
            level("L1D", 38_000_000, 1_200_000),
            level("L2", 1_212_345, 694_093),
            level("LLC", 694_093, 120_000),
        ],
        private_cycles: 130_000_000,
        working_set: WorkingSet { pages: 640, lines: 39_000, bytes: 2_496_000 },
        lockdown: (0..30).map(|k: u64| 9_000_u64.saturating_sub(k * 400)).collect(),
        by_ways: Vec::new(),
        pages: Vec::new(),
        functions: Vec::new(),
        bandwidth: BandwidthSeries::default(),
        trace: Some(TraceRef {
            file: PathBuf::from("t.bin"),
            records: 1,
            cycles: 1,
            truncated: true,
        }),
        origin: profile::Origin::default(),
    }
}
