//! Each workload's stream has the properties that it claims.

mod refused;
mod traces;

use super::*;
use crate::program::{Entry, Op, OpKind, Signal};
use solocore_model::Platform;
use std::collections::BTreeSet;
use std::path::Path;

fn context(seed: u64) -> BuildContext {
    let platform = Platform::find("p4080", Path::new(".")).unwrap();
    BuildContext::new(&platform, seed, Path::new("."))
}

fn parse(toml: &str) -> WorkloadSpec {
    toml::from_str(toml).unwrap_or_else(|e| panic!("{toml}: {e}"))
}

fn build(toml: &str) -> Workload {
    parse(toml).build(&context(1)).unwrap_or_else(|e| panic!("{toml}: {e}"))
}

fn refusal(toml: &str) -> String {
    match toml::from_str::<WorkloadSpec>(toml) {
        Err(e) => e.message().to_owned(),
        Ok(spec) => spec.build(&context(1)).expect_err(toml).to_string(),
    }
}

/// At least `count` operations.
fn operations(workload: &mut Workload, count: usize) -> Vec<Op> {
    let mut out = Vec::new();
    while out.len() < count {
        let before = out.len();
        workload.program.refill(&mut out);
        assert!((1..2000).contains(&(out.len() - before)), "a refill of {}", out.len() - before);
        let ends = out[before..].iter().rposition(|&op| recording::ends_job(op));
        assert!(
            ends.is_none_or(|at| at == out.len() - before - 1),
            "a refill goes beyond the end of a job"
        );
    }
    out
}

fn accesses(ops: &[Op]) -> Vec<Op> {
    ops.iter().copied().filter(|&op| jobs::is_access(op)).collect()
}

/// Operations of each of the first `count` jobs.
fn jobs_of(workload: &mut Workload, count: usize) -> Vec<Vec<Op>> {
    let mut jobs = vec![Vec::new()];
    while jobs.len() <= count {
        let mut out = Vec::new();
        workload.program.refill(&mut out);
        for op in out {
            if recording::ends_job(op) {
                jobs.push(Vec::new());
            } else if let Some(job) = jobs.last_mut() {
                job.push(op);
            }
        }
    }
    jobs.truncate(count);
    jobs
}

fn lines(ops: &[Op]) -> BTreeSet<u64> {
    ops.iter().map(|op| op.line()).collect()
}

/// A description of each kind, small; files are written to `dir`.
fn examples(dir: &Path) -> Vec<String> {
    std::fs::write(
        dir.join("t.csv"),
        "cycles,kind,address\n3,load,64\n9,compute\n0,job\n2,w,0x1000\nend,4\n",
    )
    .unwrap();
    let mut examples = Vec::new();
    for d in describe() {
        let more = match d.kind {
            "phases" => {
                "sections = [{ size = \"1 MiB\", accesses = 5000, cycles = \"70000 cycles\", \
                    writes = 0.25, lock = true }, \
                 { cycles = \"99 cycles\" }]"
            }
            "profile-like" => "wcet = \"1 ms\"\nmisses = 1000",
            "spread" => "wcet = \"1 ms\"\nmisses = 1000",
            "trace" => "file = \"t.csv\"",
            "profile" => continue,
            _ => "",
        };
        examples.push(format!("kind = \"{}\"\n{more}\n", d.kind));
    }
    examples
}

#[test]
fn every_kind_builds_stays_in_its_pages_and_repeats() {
    let dir = tempfile::tempdir().unwrap();
    let at = |seed| BuildContext { base_dir: dir.path().to_owned(), ..context(seed) };
    for toml in examples(dir.path()) {
        let spec = parse(&toml);
        let mut workload = spec.build(&at(1)).unwrap_or_else(|e| panic!("{toml}: {e}"));
        let ops = operations(&mut workload, 300_000);
        let pages = workload.program.pages();
        let limit = u64::from(pages) * 64;
        assert!(accesses(&ops).iter().all(|op| op.line() < limit), "{toml}");
        let mut next = 0;
        for (_, range) in workload.regions() {
            assert_eq!(range.start, next, "{toml}");
            next = range.end;
        }
        assert_eq!(next, pages, "{toml}");
        assert!(ops == operations(&mut spec.build(&at(1)).unwrap(), 300_000), "{toml}");
        let other = operations(&mut spec.build(&at(2)).unwrap(), 300_000);
        let drawn =
            ["latency", "mwalk", "synthetic", "matrix", "cortex", "eembc"].contains(&spec.kind());
        assert_eq!(ops != other, drawn, "{toml}");
    }
}

#[test]
fn descriptions_are_what_is_parsed() {
    let all = describe();
    for d in &all {
        assert!(!d.what.is_empty() && !d.source.is_empty());
        let spec = parse(&format!("kind = \"{}\"", d.kind));
        let json = serde_json::to_value(&spec).unwrap();
        let keys: BTreeSet<&str> =
            json.as_object().unwrap().keys().map(String::as_str).filter(|k| *k != "kind").collect();
        assert_eq!(keys, d.parameters.iter().map(|p| p.name).collect(), "{}", d.kind);
        for p in d.parameters.iter().filter(|p| p.default != "-") {
            assert!(!p.meaning.is_empty() && !p.meaning.contains("  "), "{}: {}", d.kind, p.name);
            let again = parse(&format!("kind = \"{}\"\n{} = {}", d.kind, p.name, p.default));
            assert_eq!(again, spec, "{}: {}", d.kind, p.name);
        }
    }
    let unknown = refusal("kind = \"bandwith\"");
    assert!(all.iter().all(|d| unknown.contains(d.kind)), "{unknown}");
}

#[test]
fn chases_cover_every_line_once_in_each_cycle() {
    for (kind, size, count) in
        [("latency", 3 << 20, 49152), ("mwalk", 1 << 20, 16384), ("sce-benchmark", 1 << 20, 16384)]
    {
        let mut w =
            build(&format!("kind = \"{kind}\"\nsize = \"{size} B\"\njob = {{ passes = 1 }}"));
        let jobs = jobs_of(&mut w, 3);
        for job in &jobs {
            assert_eq!((job.len(), lines(job).len()), (count, count), "{kind}");
            assert_eq!(job, &jobs[0], "{kind}");
            assert!(
                job.iter().all(|op| op.kind()
                    == if kind == "mwalk" { OpKind::Store } else { OpKind::LoadWait })
            );
        }
    }
}

#[test]
fn sequential_programs_go_line_by_line() {
    for (toml, kind, gap) in [
        ("kind = \"bandwidth\"\nsize = \"256 KiB\"", OpKind::Load, 4),
        ("kind = \"bandwidth\"\nsize = \"256 KiB\"\naccess = \"write\"", OpKind::Store, 4),
        ("kind = \"hog\"\nsize = \"256 KiB\"", OpKind::Load, 16),
    ] {
        let ops = operations(&mut build(toml), 10_000);
        for (at, op) in (0..).zip(&ops) {
            assert_eq!((op.kind(), op.cycles(), op.line()), (kind, gap, at % 4096));
        }
    }
}

#[test]
fn m_jump_writes_every_line_8_kib_apart() {
    let mut w = build("kind = \"m_jump\"\ndelay = \"100 cycles\"\njob = { passes = 1 }");
    let job = &jobs_of(&mut w, 1)[0];
    assert_eq!((job.len(), lines(job).len()), (98304, 98304));
    assert!(job.iter().all(|op| op.kind() == OpKind::Store && op.cycles() == 104));
    assert!(job[..768].windows(2).all(|w| w[1].line() - w[0].line() == 128));
    assert_eq!((job[768].line(), job[98303].line()), (1, 98303));
}

#[test]
fn a_rate_limits_a_bandwidth_hog() {
    let ops = operations(&mut build("kind = \"bandwidth\"\nrate = \"100 MB/s\""), 1000);
    // 64 B at 100 MB/s are 640 ns, 960 cycles of 1.5 GHz.
    assert!(ops.iter().all(|op| op.cycles() == 960));
    let ops = operations(&mut build("kind = \"bandwidth\"\nrate = \"1 KB/s\""), 1000);
    assert_eq!(ops[0].cycles() + ops[1].cycles(), 96_000_000);
}

#[test]
fn jobs_have_their_exact_length() {
    for kind in [
        "latency",
        "synthetic",
        "matrix",
        "framecopy",
        "message-receiver",
        "libquantum",
        "compute",
        "canny",
    ] {
        for n in [1, 7, 255, 256, 257, 1000] {
            for job in
                jobs_of(&mut build(&format!("kind = \"{kind}\"\njob = {{ accesses = {n} }}")), 20)
            {
                assert_eq!(accesses(&job).len(), n, "{kind}");
            }
            let mut w = build(&format!("kind = \"{kind}\"\njob = {{ cycles = \"{n} cycles\" }}"));
            for job in jobs_of(&mut w, 20) {
                assert_eq!(job.iter().map(|op| op.cycles()).sum::<u64>(), n as u64, "{kind}");
            }
        }
    }
}

#[test]
fn cutting_jobs_loses_nothing() {
    for toml in ["kind = \"matrix\"", "kind = \"cortex\"", "kind = \"message-sender\""] {
        let whole = accesses(&operations(&mut build(toml), 60_000));
        for job in ["accesses = 77", "cycles = \"1001 cycles\""] {
            let cut =
                accesses(&operations(&mut build(&format!("{toml}\njob = {{ {job} }}")), 60_000));
            // Only the gaps differ: a job of cycles may end within one.
            let same =
                whole.iter().zip(&cut).all(|(a, b)| (a.kind(), a.line()) == (b.kind(), b.line()));
            assert!(same, "{toml} {job}");
        }
    }
}

#[test]
fn an_abandoned_job_is_followed_by_the_first_operation_of_a_job() {
    for kind in [
        "latency",
        "m_jump",
        "hog",
        "matrix",
        "cortex\"\nlock = \"2",
        "spread\"\nwcet = \"1 ms\"\nmisses = \"x",
    ] {
        let toml = format!("kind = \"{kind}\"\njob = {{ passes = 1 }}").replace("\"x\"", "5000");
        let first = operations(&mut build(&toml), 2000);
        let mut w = build(&toml);
        operations(&mut w, 1500);
        w.program.abandon_job();
        let after = operations(&mut w, 2000);
        // A function that does not go through its whole array goes on there; the rest begins again.
        let shape = |op: &Op| {
            (op.kind(), op.cycles(), if kind.starts_with("cortex") { 0 } else { op.line() })
        };
        assert!(first[..2000].iter().map(shape).eq(after[..2000].iter().map(shape)), "{toml}");
        // The first job after it is whole.
        let mut fresh = build(&toml);
        w.program.abandon_job();
        assert_eq!(jobs_of(&mut w, 1)[0].len(), jobs_of(&mut fresh, 1)[0].len(), "{toml}");
    }
    let mut w = build("kind = \"hog\"\njob = { accesses = 1000 }");
    operations(&mut w, 300);
    w.program.abandon_job();
    assert_eq!(accesses(&jobs_of(&mut w, 1)[0]).len(), 1000);
}

#[test]
fn messages_move_between_their_regions() {
    for (kind, to_buffer) in [("message-sender", true), ("message-receiver", false)] {
        let toml = format!(
            "kind = \"{kind}\"\nsize = \"1 KiB\"\nmessages = 3\nmarks = true\njob = \
                {{ passes = 1 }}"
        );
        let mut w = build(&toml);
        let buffer = w.region("buffer").unwrap();
        let jobs = jobs_of(&mut w, 6);
        let mut touched = BTreeSet::new();
        for job in &jobs {
            let (mut loads, mut stores) = (0, 0);
            for op in accesses(job) {
                let in_buffer = buffer.contains(&u32::try_from(op.line() / 64).unwrap());
                if in_buffer {
                    touched.insert(op.line());
                }
                match op.kind() {
                    OpKind::Load => (loads, _) = (loads + 1, assert_ne!(in_buffer, to_buffer)),
                    OpKind::Store => stores += usize::from(in_buffer == to_buffer),
                    _ => assert!(in_buffer && !to_buffer),
                }
            }
            // 256 words, and the header of the buffer.
            assert_eq!((loads, stores), (256, 256 + usize::from(to_buffer)), "{kind}");
            let marks: Vec<_> = job
                .iter()
                .filter(|op| op.kind() == OpKind::Signal)
                .map(|op| op.signal_value())
                .collect();
            assert_eq!(marks, [Signal::Mark(0), Signal::Mark(1)]);
        }
        // 1 KiB and 24 B of header are 17 lines.
        assert_eq!(touched.len(), 3 * 17);
        assert_eq!(jobs[0], jobs[3]);
        assert_ne!(jobs[0], jobs[1]);
    }
}

#[test]
fn frames_are_copied_and_converted() {
    for (kind, loads, stores) in [("framecopy", 19200, 19200), ("yuv2gray", 19200, 9600)] {
        let mut w = build(&format!("kind = \"{kind}\"\njob = {{ passes = 1 }}"));
        let buffer = w.region("buffer").unwrap();
        assert_eq!(buffer.len(), 600);
        let jobs = jobs_of(&mut w, 5);
        let count = |kind| jobs[0].iter().filter(|op| op.kind() == kind).count();
        assert_eq!((count(OpKind::Load), count(OpKind::Store)), (loads, stores));
        let read: BTreeSet<u64> =
            jobs[0].iter().filter(|op| op.kind() == OpKind::Load).map(|op| op.line()).collect();
        assert_eq!(read, (0..9600).collect());
        assert!(jobs[0] != jobs[1] && jobs[0] == jobs[4]);
    }
}

#[test]
fn sections_have_their_cycles_writes_and_locks() {
    let toml = r#"
        kind = "phases"
        job = { passes = 1 }
        sections = [
            { size = "1 MiB", accesses = 4000, cycles = "10001 cycles", writes = 0.25, lock = true },
            { cycles = "777 cycles" },
            { region = "table", size = "64 KiB", accesses = 1000, cycles = "3000000000 cycles", pattern = "random", update = true },
            { region = "table", size = "128 KiB", accesses = 2048, cycles = "2048 cycles", pattern = "chase" },
        ]"#;
    let mut w = build(toml);
    assert!(w.locks);
    assert_eq!(w.regions(), [("data".to_owned(), 0..256), ("table".to_owned(), 256..288)]);
    for job in jobs_of(&mut w, 3) {
        assert_eq!(
            job.iter().map(|op| op.cycles()).sum::<u64>(),
            10_001 + 777 + 3_000_000_000 + 2048
        );
        assert_eq!((job[0], job[4001]), (Op::signal(Signal::Lock), Op::signal(Signal::Unlock)));
        let first = &job[1..4001];
        assert_eq!(first.iter().filter(|op| op.kind() == OpKind::Store).count(), 1000);
        // Evenly: one in each four.
        assert!(
            first.chunks(4).all(|c| c.iter().filter(|op| op.kind() == OpKind::Store).count() == 1)
        );
        assert_eq!(job[4002], Op::compute(777));
        let updates = accesses(&job[4003..]);
        assert!(
            updates[..2000]
                .chunks(2)
                .all(|c| c[0].line() == c[1].line() && c[1].kind() == OpKind::Store)
        );
        assert_eq!(lines(&updates[2000..]).len(), 2048);
    }
}

#[test]
fn cortex_locks_as_many_functions_as_told() {
    for (lock, locks) in [("none", 0), ("1", 1), ("2", 2), ("3", 3), ("C", 1)] {
        let mut w = build(&format!("kind = \"cortex\"\nlock = \"{lock}\"\njob = {{ passes = 1 }}"));
        assert_eq!(w.locks, locks > 0);
        let job = &jobs_of(&mut w, 1)[0];
        let (mut held, mut taken, mut inside) = (false, 0, 0);
        for op in job {
            if op.kind() == OpKind::Signal {
                assert_eq!(op.signal_value(), if held { Signal::Unlock } else { Signal::Lock });
                taken += usize::from(!held);
                held = !held;
            } else {
                inside += usize::from(held);
            }
        }
        assert!(!held);
        assert_eq!(taken, locks);
        let functions = super::presets::functions(super::spec::Subject::Clustering);
        let under_lock = if lock == "C" { functions.len() } else { locks };
        assert_eq!(
            inside,
            200 * functions[..under_lock]
                .iter()
                .map(|f| usize::try_from(f.accesses).unwrap())
                .sum::<usize>()
        );
    }
}

#[test]
fn stated_tasks_have_their_misses_and_cycles() {
    // L_max and 40 cycles of 1.5 GHz, rounded up.
    let p4080 = Platform::find("p4080", Path::new(".")).unwrap();
    let miss_ps = p4080.dram.latency_max.ps() + 26_667;
    let left = |wcet_us: u64, misses: u64| (wcet_us * 1_000_000 - misses * miss_ps) * 3 / 2000;
    let toml = "kind = \"spread\"\nwcet = \"2 ms\"\nmisses = 10_000";
    let mut w = build(toml);
    assert!(w.has_jobs && w.program.entry() == Entry::Shared);
    let jobs = jobs_of(&mut w, 2);
    assert_eq!(accesses(&jobs[0]).len(), 10_000);
    let mut at = 0;
    for (index, op) in (0u64..).zip(accesses(&jobs[0])) {
        at += op.cycles();
        assert_eq!(at, left(2000, 10_000) * (index + 1) / 10_001);
    }
    for spread in ["even", "random", "bursts"] {
        for misses in [0u64, 1, 63, 64, 65, 1000] {
            let toml = format!(
                "kind = \"profile-like\"\nspread = \"{spread}\"\nwcet = \"1 ms\"\nmisses = {misses}"
            );
            for job in jobs_of(&mut build(&toml), 4) {
                assert_eq!(accesses(&job).len() as u64, misses);
                assert_eq!(
                    job.iter().map(|op| op.cycles()).sum::<u64>(),
                    left(1000, misses),
                    "{toml}"
                );
            }
        }
    }
    let rate = |benchmark: &str| {
        let mut w =
            build(&format!("kind = \"eembc\"\nwcet = \"10 ms\"\nbenchmark = \"{benchmark}\""));
        accesses(&jobs_of(&mut w, 1)[0]).len() as f64
    };
    assert!((rate("pntrch") / rate("canrdr") - 2.306).abs() < 0.001);
}

#[test]
fn the_disk_reader_marks_and_sleeps() {
    let mut w = build("kind = \"ssd-load\"\nmark = 3\njob = { passes = 1 }");
    assert_eq!(w.region("buffer").unwrap().len(), 98);
    let job = &jobs_of(&mut w, 2)[1];
    let end: Vec<_> = job.iter().rev().take(2).map(|op| op.signal_value()).collect();
    assert_eq!(end, [Signal::Sleep(10_000), Signal::Mark(3)]);
    assert_eq!(job.iter().map(|op| op.cycles()).sum::<u64>(), 50_000);
}

/// CPU time of this thread, where the system tells it, so that other work does not count.
fn processor_seconds(started: std::time::Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    ns.map_or_else(|| started.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}

/// `cargo test --release -p solocore-sim workload::tests::speed -- --ignored --nocapture`
#[test]
#[ignore = "a benchmark"]
fn speed() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = BuildContext { base_dir: dir.path().to_owned(), ..context(1) };
    let origin = std::time::Instant::now();
    for toml in examples(dir.path()) {
        let mut w = parse(&toml).build(&ctx).unwrap();
        let mut out = Vec::with_capacity(4096);
        let (started, mut total) = (processor_seconds(origin), 0);
        while total < 50_000_000 {
            out.clear();
            w.program.refill(&mut out);
            total += std::hint::black_box(&out).len();
        }
        let kind = toml.lines().next().unwrap_or_default();
        let rate = total as f64 / (processor_seconds(origin) - started) / 1e6;
        println!("{kind:28} {rate:6.0} million operations a second");
    }
}
