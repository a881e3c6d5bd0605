//! Traces and profiles from files are replayed whole, or refused.

use super::*;
use solocore_cache::trace::{Access, Encoder, Kind};
use solocore_model::platform::Pace;
use std::io::Write as _;

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
    // A core that needs two cycles more for the profile's one instruction.
    let ctx = BuildContext { pace: Pace { more: 512, ..ctx.pace }, ..ctx.clone() };
    let mut w = parse("kind = \"profile\"\nfile = \"x.json\"").build(&ctx).unwrap();
    let cycles = jobs_of(&mut w, 1)[0].iter().map(|op| op.cycles()).sum::<u64>();
    assert_eq!(cycles, 100_000_002);
    let other = BuildContext { own_geometry: Some("other".to_owned()), ..ctx };
    assert!(profile(300, "other").is_err());
    assert!(parse("kind = \"profile\"\nfile = \"x.json\"").build(&other).is_ok());
    assert!(profile(299, &geometry).unwrap_err().to_string().contains("300 records"));
    assert!(profile(300, "other").unwrap_err().to_string().contains("not for this platform's"));
}
