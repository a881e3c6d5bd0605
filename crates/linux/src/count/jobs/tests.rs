use super::super::records::tests::{counted, lost};
use super::*;

const END: u64 = 1;
const ENTRY: u64 = 2;

/// A record at `time` with the counts of two counters.
fn at(event: u64, time_ns: u64, counts: [u64; 2]) -> Vec<u8> {
    let (first, second) = ((31, counts[0]), (32, counts[1]));
    // The kernel writes the group in its own order.
    let counts = vec![(END, time_ns), second, first];
    counted(&Sample { event, time_ns, enabled_ns: 5, running_ns: 5, counts, ..Sample::default() })
}

fn jobs(entry: Option<u64>, records: &[Vec<u8>]) -> Jobs {
    let mut jobs = Jobs { entry, numbers: vec![31, 32], ..Jobs::new(2, END) };
    for record in records {
        jobs.take(record);
    }
    jobs
}

#[test]
fn the_outermost_call_is_the_job() {
    let seen = jobs(
        Some(ENTRY),
        &[
            at(ENTRY, 100, [10, 1]),
            at(ENTRY, 110, [11, 1]),
            at(END, 130, [13, 2]),
            at(END, 150, [17, 5]),
            at(ENTRY, 200, [20, 5]),
            at(END, 260, [50, 5]),
            at(ENTRY, 300, [60, 6]),
        ],
    );
    assert_eq!(seen.times_ns, [50, 60]);
    assert_eq!(seen.counts, [[7, 30], [4, 0]]);
    assert_eq!((seen.entered, seen.nested, seen.depth), (4, 1, 1));
    assert!(seen.whole && !seen.broken);
}

#[test]
fn what_was_called_before_is_no_job() {
    let seen = jobs(Some(ENTRY), &[at(END, 10, [1, 1]), at(ENTRY, 20, [2, 2])]);
    assert!(seen.times_ns.is_empty() && seen.counts == [[0; 0], [0; 0]]);
}

#[test]
fn between_sleeps_lie_jobs_and_the_first_begins_with_the_program() {
    let mut seen = jobs(None, &[at(END, 10, [3, 1]), at(END, 30, [10, 4])]);
    seen.bound(&[(31, 11), (32, 9)], 0);
    assert_eq!(seen.counts, [[3, 7, 1], [1, 3, 5]]);
    assert!(seen.times_ns.is_empty());
}

#[test]
fn what_was_not_seen_whole_is_known() {
    let part = Sample { event: END, enabled_ns: 9, running_ns: 8, ..Sample::default() };
    let part = Sample { counts: vec![(31, 1), (32, 1)], ..part };
    assert!(!jobs(None, &[counted(&part)]).whole);
    assert_eq!(jobs(None, &[lost(3), at(END, 1, [1, 1]), lost(2)]).lost, 5);
    let other = Sample { counts: vec![(31, 1)], enabled_ns: 8, ..part.clone() };
    assert!(jobs(None, &[counted(&other)]).broken, "a count is missing");
    let cut = at(END, 1, [1, 1]);
    assert!(jobs(None, &[cut[..20].to_vec()]).broken);
}
