use super::*;
use proptest::prelude::*;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A record with this body, filled up to a multiple of eight bytes.
fn whole(kind: u32, misc: u16, mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(8), 0);
    let size = u16::try_from(body.len() + 8).unwrap();
    [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), &body].concat()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|l| l.to_ne_bytes()).collect()
}

/// Two words as one number.
fn pair(first: u32, second: u32) -> u64 {
    let bytes = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
    u64::from_ne_bytes(bytes.try_into().unwrap())
}

/// A sample with an address. The tracepoint's part has four bytes more than a multiple of eight.
pub(in crate::count) fn sample(s: &Sample<'_>) -> Vec<u8> {
    let raw: &[u8] = if s.raw.is_empty() { &[0; 4] } else { s.raw };
    let mut body = longs(&[s.event, pair(s.process, s.thread), s.address]);
    body.extend(u32::try_from(raw.len()).unwrap().to_ne_bytes());
    body.extend(raw);
    body.extend(s.source.to_ne_bytes());
    whole(SAMPLE, if s.in_program { MODE_USER } else { 1 }, body)
}

/// A sample with counts.
pub(in crate::count) fn counted(s: &Sample<'_>) -> Vec<u8> {
    let mut body = longs(&[s.event, pair(s.process, s.thread), s.time_ns, s.counts.len() as u64]);
    body.extend(longs(&[s.enabled_ns, s.running_ns]));
    for (number, count) in &s.counts {
        body.extend(longs(&[*count, *number]));
    }
    whole(SAMPLE, MODE_USER, body)
}

pub(in crate::count) fn mapped(
    process: u32,
    start: u64,
    length: u64,
    offset: u64,
    writable: bool,
    name: &Path,
) -> Vec<u8> {
    let protection = if writable { 3 } else { 1 };
    let mut body = longs(&[pair(process, process), start, length, offset, 0, 0, 0]);
    body.extend(longs(&[pair(protection, 2)]));
    body.extend(name.as_os_str().as_bytes());
    body.push(0);
    whole(MMAP2, 0, body)
}

pub(in crate::count) fn became(process: u32) -> Vec<u8> {
    let mut body = longs(&[pair(process, process)]);
    body.extend(b"name\0");
    whole(COMM, WITH_PROGRAM, body)
}

pub(in crate::count) fn lost(records: u64) -> Vec<u8> {
    whole(LOST, 0, longs(&[1, records]))
}

fn all(mut bytes: &[u8], fields: Fields) -> Vec<Result<Record<'_>, Broken>> {
    let mut records = Vec::new();
    while let Some(record) = next(&mut bytes, fields) {
        let broken = record.is_err();
        records.push(record);
        if broken {
            break;
        }
    }
    records
}

#[test]
fn each_kind_is_told_apart() {
    let bytes = [
        lost(12),
        whole(LOST_SAMPLES, 0, longs(&[3])),
        whole(THROTTLE, 0, longs(&[1, 2, 3])),
        became(9),
        // A name that a thread gave itself, and the end of a process.
        whole(COMM, 0, longs(&[pair(9, 9), 0])),
        whole(4, 0, longs(&[0, 0, 0])),
        mapped(9, 1, 2, 3, true, Path::new("/a b")),
    ]
    .concat();
    let mapped = Record::Mapped {
        process: 9,
        start: 1,
        length: 2,
        offset: 3,
        writable: true,
        name: PathBuf::from("/a b"),
    };
    let expected = [
        Record::Lost(12),
        Record::Lost(3),
        Record::Throttled,
        Record::Became { process: 9 },
        Record::Other,
        Record::Other,
        mapped,
    ];
    assert_eq!(all(&bytes, Fields::Addresses), expected.map(Ok));
}

fn any_sample() -> impl Strategy<Value = (Sample<'static>, Vec<u8>)> {
    let raw = proptest::collection::vec(any::<u64>(), 0..8);
    (any::<[u64; 3]>(), any::<[u32; 2]>(), any::<bool>(), raw).prop_map(|(n, ids, own, raw)| {
        let raw: Vec<u8> = raw.into_iter().flat_map(u64::to_ne_bytes).chain([7; 4]).collect();
        let sample = Sample {
            event: n[0],
            address: n[1],
            source: n[2],
            process: ids[0],
            thread: ids[1],
            in_program: own,
            ..Sample::default()
        };
        (sample, raw)
    })
}

fn any_counted() -> impl Strategy<Value = Sample<'static>> {
    let counts = proptest::collection::vec(any::<(u64, u64)>(), 0..12);
    (any::<[u64; 4]>(), any::<[u32; 2]>(), counts).prop_map(|(n, ids, counts)| Sample {
        event: n[0],
        time_ns: n[1],
        enabled_ns: n[2],
        running_ns: n[3],
        process: ids[0],
        thread: ids[1],
        in_program: true,
        counts,
        ..Sample::default()
    })
}

proptest! {
    #[test]
    fn samples_come_back(samples in proptest::collection::vec(any_sample(), 0..20)) {
        let of = |(sample, raw): &(Sample<'static>, Vec<u8>)| {
            super::tests::sample(&Sample { raw, ..sample.clone() })
        };
        let bytes: Vec<u8> = samples.iter().flat_map(of).collect();
        let expected: Vec<_> = samples
            .iter()
            .map(|(sample, raw)| Ok(Record::Sample(Sample { raw, ..sample.clone() })))
            .collect();
        prop_assert_eq!(all(&bytes, Fields::Addresses), expected);
    }

    /// A record that lacks its end gives nothing, and what was before it stands.
    #[test]
    fn what_is_cut_off_is_broken(
        samples in proptest::collection::vec(any_counted(), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let each: Vec<Vec<u8>> = samples.iter().map(counted).collect();
        let bytes = each.concat();
        let cut = cut.index(bytes.len());
        let read = all(&bytes[..cut], Fields::Counts);
        let mut before = 0;
        let whole = each.iter().take_while(|one| { before += one.len(); before <= cut }).count();
        let boundary = each[..whole].iter().map(Vec::len).sum::<usize>() == cut;
        let expected = samples[..whole].iter().map(|s| Ok(Record::Sample(s.clone())));
        let expected: Vec<_> = expected.chain((!boundary).then_some(Err(Broken))).collect();
        prop_assert_eq!(read, expected);
    }

    /// For any bytes: each record takes at least a header, and nothing panics.
    #[test]
    fn noise_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for fields in [Fields::Addresses, Fields::Counts] {
            prop_assert!(all(&bytes, fields).len() <= bytes.len() / 8 + 1);
        }
    }

    /// A length that says more or less than the fields have is not a sample.
    #[test]
    fn a_wrong_length_is_broken(sample in any_counted(), events in any::<u64>()) {
        let mut bytes = counted(&sample);
        bytes[32..40].copy_from_slice(&events.to_ne_bytes());
        let read = all(&bytes, Fields::Counts);
        if events == sample.counts.len() as u64 {
            prop_assert_eq!(read, vec![Ok(Record::Sample(sample))]);
        } else {
            prop_assert_eq!(read, vec![Err(Broken)]);
        }
    }
}
