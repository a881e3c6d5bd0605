//! Each workload's stream has the properties that it claims. Long, as all of them are tried by the
//! same few helpers.

use super::*;
use crate::program::{Entry, Op, OpKind, Signal};
use solocore_cache::trace::{Access, Encoder, Kind};
use solocore_model::Platform;
use std::collections::BTreeSet;
use std::io::Write as _;
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
        // A function that does not go through its whole array goes on there; the rest begins anew.
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

#[test]
fn impossible_values_name_their_key() {
    for (toml, key) in [
        ("kind = \"latency\"\nsize = \"0 B\"", "size"),
        ("kind = \"latency\"\nsize = \"100 B\"", "size"),
        ("kind = \"latency\"\nsize = 4096", "with its unit"),
        ("kind = \"latency\"\nsize = \"16777216 GiB\"", "size"),
        ("kind = \"latency\"\ngap = \"0 cycles\"", "gap"),
        ("kind = \"latency\"\nsiez = \"4 KiB\"", "siez"),
        ("kind = \"latency\"\njob = { passes = 0 }", "job.passes"),
        ("kind = \"latency\"\njob = { turns = 1 }", "turns"),
        ("kind = \"m_jump\"\ndelay = \"2000000 cycles\"", "delay"),
        ("kind = \"m_jump\"\njump = \"100 MiB\"", "jump"),
        ("kind = \"bandwidth\"\nrate = \"0 B/s\"", "rate"),
        ("kind = \"bandwidth\"\naccess = \"copy\"", "copy"),
        ("kind = \"matrix\"\ndimension = 0", "dimension"),
        ("kind = \"message-sender\"\nsize = \"3 B\"", "size"),
        ("kind = \"message-sender\"\nword = \"3 B\"", "word"),
        ("kind = \"framecopy\"\nframes = 0", "frames"),
        ("kind = \"ssd-load\"\ninterval = \"0 s\"", "interval"),
        ("kind = \"phases\"", "sections"),
        ("kind = \"phases\"\nsections = [{ accesses = 5 }]", "sections[0].size"),
        (
            "kind = \"phases\"\nsections = [{ cycles = \"5 cycles\", writes = 2.0 }]",
            "sections[0].writes",
        ),
        (
            "kind = \"phases\"\nsections = [{ cycles = \"5 cycles\", writes = nan }]",
            "sections[0].writes",
        ),
        (
            "kind = \"phases\"\nsections = [{ cycles = \"5 cycles\" }]\njob = { accesses = 3 }",
            "job.accesses",
        ),
        ("kind = \"cortex\"\nlock = \"1\"\njob = { accesses = 3 }", "job.accesses"),
        ("kind = \"spread\"\nmisses = 3", "wcet"),
        ("kind = \"profile-like\"\nmisses = 3", "wcet"),
        ("kind = \"eembc\"\nmemory = 0.9\nbenchmark = \"pntrch\"", "memory"),
        ("kind = \"trace\"", "file"),
        ("kind = \"trace\"\nfile = \"no/such/file\"", "no/such/file"),
        ("kind = \"profile\"\nfile = \"no/such/file\"", "no/such/file"),
    ] {
        let message = refusal(toml);
        assert!(message.contains(key) && message.lines().count() == 1, "{toml}: {message}");
    }
}

/// Builds a trace from bytes.
fn traced(dir: &Path, bytes: &[u8]) -> Result<Workload, WorkloadError> {
    std::fs::write(dir.join("trace"), bytes).unwrap();
    parse("kind = \"trace\"\nfile = \"trace\"")
        .build(&BuildContext { base_dir: dir.to_owned(), ..context(1) })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    let mut out = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    out.include_checksum(true).unwrap();
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Some accesses, as a recorded stream.
fn recorded(count: u64) -> (Vec<Access>, Vec<u8>) {
    let kinds = [Kind::Read, Kind::Write, Kind::Fetch];
    let list: Vec<Access> = (0..count)
        .map(|i| Access {
            at_cycles: i * i * 1000,
            line: i * 7919 % 1000,
            kind: kinds[(i % 3) as usize],
        })
        .collect();
    let (mut bytes, mut encoder) = (Vec::new(), Encoder::default());
    list.iter().for_each(|&a| encoder.push(a, &mut bytes).unwrap());
    encoder.finish(&mut bytes).unwrap();
    (list, bytes)
}

#[test]
fn traces_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let mut w = build(
        "kind = \"phases\"\nsections = \
            [{ size = \"8 KiB\", accesses = 300, cycles = \"2000000000 cycles\" }]",
    );
    let ops = operations(&mut w, 300);
    let text = to_text(&ops, 64);
    for bytes in [text.clone().into_bytes(), gzip(text.as_bytes()), zst(text.as_bytes())] {
        let mut w = traced(dir.path(), &bytes).unwrap();
        assert_eq!((w.program.pages(), w.program.entry()), (2, Entry::Private));
        assert_eq!(jobs_of(&mut w, 2)[1], ops);
    }
    let (list, bytes) = recorded(3000);
    let mut w = traced(dir.path(), &bytes).unwrap();
    assert_eq!((w.program.pages(), w.program.entry()), (16, Entry::Shared));
    let (job, mut at, mut back) = (&jobs_of(&mut w, 1)[0], 0, Vec::new());
    for op in job {
        at += op.cycles();
        if jobs::is_access(*op) {
            back.push((at, op.line(), op.kind()));
        }
    }
    let expected: Vec<_> =
        list.iter().map(|a| (a.at_cycles, a.line, OpKind::recorded(a.kind))).collect();
    assert_eq!(back, expected);
}

#[test]
fn text_traces_number_pages_and_split_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let text = "# by hand\r\n\n5,load,0x7fff0000f040\n1,store,0x1000\n0,job\n2,f,0x7fff0000f000\n9,line,64\n4,c\nend,6\n";
    let mut w = traced(dir.path(), text.as_bytes()).unwrap();
    assert_eq!(w.program.pages(), 3);
    let jobs = jobs_of(&mut w, 3);
    assert_eq!(jobs[0], [Op::access(OpKind::Load, 5, 1), Op::access(OpKind::Store, 1, 64)]);
    let second =
        [Op::access(OpKind::Fetch, 2, 0), Op::access(OpKind::StoreLine, 9, 129), Op::compute(4)];
    assert_eq!(jobs[1], second);
    assert_eq!(jobs[2], jobs[0]);
}

#[test]
fn damaged_traces_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ops = operations(&mut build("kind = \"m_jump\""), 40);
    let text = to_text(&ops[..40], 64);
    let (_, stream) = recorded(60);
    for whole in [text.clone().into_bytes(), gzip(text.as_bytes()), zst(text.as_bytes()), stream] {
        let mut good = traced(dir.path(), &whole).unwrap();
        let good = jobs_of(&mut good, 1);
        for cut in 0..whole.len() {
            let error =
                traced(dir.path(), &whole[..cut]).map(|_| ()).expect_err("a cut trace").to_string();
            assert!(error.contains("trace") && error.lines().count() == 1, "{error}");
        }
        if whole == text.as_bytes() {
            continue;
        }
        for at in 0..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 0x10;
            // Headers have bits without a meaning: a flip there may pass if the data are whole.
            let outcome = traced(dir.path(), &bad);
            assert!(
                outcome.is_err() || jobs_of(&mut outcome.unwrap(), 1) == good,
                "bit flipped at {at}"
            );
        }
    }
    for (text, reason) in [
        ("1,load\nend,1\n", "line 1: `load` needs an address"),
        ("1,load,64\n1,jump,64\nend,2\n", "line 2: unknown kind `jump`"),
        ("1,load,64\nend,2\n", "line 2: `end,2`, but 1 operations"),
        ("1,load,64\nend,1\n1,load,64\n", "line 3: comes after"),
        ("1,load,64\n", "no last line `end,1`"),
        ("-1,load,64\nend,1\n", "line 1: `-1` is not"),
        ("1,load,64,3\nend,1\n", "line 1: `1,load,64,3` has more"),
        ("0,job\nend,1\n", "line 1: ends a job in which nothing"),
        ("99999999999999,compute\nend,1\n", "line 1: 99999999999999 cycles"),
        ("end,0\n", "has no operations"),
        ("1,load,\u{e4}\nend,1\n", "line 1: `\u{e4}` is not"),
    ] {
        let error = traced(dir.path(), text.as_bytes()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_resumed_recording_reads_its_last_lines_again() {
    let dir = tempfile::tempdir().unwrap();
    let (list, bytes) = recorded(3000);
    std::fs::write(dir.path().join("trace"), bytes).unwrap();
    let ctx = BuildContext { base_dir: dir.path().to_owned(), private_lines: 40, ..context(1) };
    let mut w = parse("kind = \"trace\"\nfile = \"trace\"").build(&ctx).unwrap();
    let mut again = Vec::new();
    w.program.resumed(&mut again);
    assert!(again.is_empty());
    let mut done = Vec::new();
    while done.len() < 2000 {
        w.program.refill(&mut done);
    }
    w.program.resumed(&mut again);
    let so_far = accesses(&done).len();
    let mut expected = Vec::new();
    for a in list[..so_far].iter().rev().filter(|a| a.kind != Kind::Write) {
        if expected.len() < 40 && !expected.contains(&a.line) {
            expected.insert(0, a.line);
        }
    }
    assert_eq!(again.iter().map(|op| op.line()).collect::<Vec<_>>(), expected);
}

#[test]
fn profiles_replay_their_trace_by_region() {
    let dir = tempfile::tempdir().unwrap();
    let (_, bytes) = recorded(300);
    std::fs::write(dir.path().join("x.trace"), bytes).unwrap();
    let ctx = BuildContext { base_dir: dir.path().to_owned(), ..context(1) };
    let pages: Vec<_> = (0..16)
        .map(|frame| {
            let region = if frame < 10 { "heap" } else { "stack" };
            serde_json::json!({ "region": region, "offset": frame, "references": 1, "llc_reads": 1, "llc_writes": 0,
                "lines": 1, "frame": frame })
        })
        .collect();
    let profile = |records: u64, geometry: &str| {
        let json = serde_json::json!({ "format": "solocore-profile/1", "command": ["x"], "isa": "powerpc", "engine": "qemu",
            "platform": "p4080", "geometry": geometry, "exit_code": 0, "instructions": 1, "loads": 1, "stores": 1,
            "references": 2, "threads": 1, "children": 0, "exec": null, "levels": [], "private_cycles": 100_000_000,
            "working_set": { "pages": 16, "lines": 16, "bytes": 1024 }, "lockdown": [], "by_ways": [], "pages": pages,
            "functions": [], "bandwidth": { "interval_ns": 1, "bytes_per_s": [] },
            "trace": { "file": "x.trace", "records": records, "cycles": 1, "truncated": false } });
        std::fs::write(dir.path().join("x.json"), json.to_string()).unwrap();
        parse("kind = \"profile\"\nfile = \"x.json\"").build(&ctx)
    };
    let geometry = ctx.geometry.clone().unwrap();
    let mut w = profile(300, &geometry).unwrap();
    assert_eq!(w.regions(), [("heap".to_owned(), 0..10), ("stack".to_owned(), 10..16)]);
    assert_eq!(w.page_names.len(), 16);
    let job = &jobs_of(&mut w, 1)[0];
    assert_eq!(
        (accesses(job).len(), job.iter().map(|op| op.cycles()).sum::<u64>()),
        (300, 100_000_000)
    );
    assert!(profile(299, &geometry).unwrap_err().to_string().contains("300 records"));
    assert!(profile(300, "other").unwrap_err().to_string().contains("not for this platform's"));
}

/// Time that this thread had a processor, where the system tells; so that other work does not
/// count.
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
