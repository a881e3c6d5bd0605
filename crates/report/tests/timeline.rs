//! The drawn timeline: its axis, and the core of each job's arrows.

#[path = "../examples/sample/inputs.rs"]
mod inputs;

use inputs::{HOSTILE, Sample, sample};
use solocore_model::results::{Activity, Segment, TimelineJob};
use solocore_report::{Inputs, html};

const MS: u64 = 1_000_000;

/// The page of the managed run.
fn page(sample: &Sample) -> String {
    let managed = sample.results.last();
    html(&Inputs { managed, profiles: &sample.profiles, ..Inputs::of("t", &sample.plan) })
}

/// The lane of a core.
fn lane(page: &str, core: u32) -> &str {
    let start = format!("data-core=\"{core}\" data-ran-ns=");
    let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("no lane {core}"));
    rest.split("class=\"mark lane").next().unwrap_or(rest)
}

/// Nothing runs after 120 ms, and 250 ms were recorded.
#[test]
fn the_axis_spans_the_recorded_time() {
    let mut sample = sample();
    assert!(page(&sample).contains("data-end-ns=\"120000000\""), "an older result");
    sample.results[2].timeline_ns = Some(250 * MS);
    let page = page(&sample);
    assert!(page.contains("data-end-ns=\"250000000\""));
    assert!(page.contains("the first 250\u{a0}ms of 4\u{a0}s simulated"));
    assert!(lane(&page, 1).contains("viewBox=\"0 0 250000000 10\""));
}

/// A task that may run on any core: the arrows of each job are on the core where it first ran.
#[test]
fn arrows_are_where_the_job_ran() {
    let mut sample = sample();
    let task = 3;
    assert_eq!(sample.results[2].tasks[task].name, HOSTILE);
    let job = |n: u64, end_ns| TimelineJob {
        task: 3,
        release_ns: n * 10 * MS,
        deadline_ns: n * 10 * MS + 9 * MS,
        end_ns,
        late: end_ns.is_none(),
    };
    let ran = |core, from: u64, to: u64| Segment {
        core,
        task: 3,
        start_ns: from * MS,
        end_ns: to * MS,
        activity: Activity::Run,
    };
    // The first job begins on core 6 and ends on core 7, after the second one's release; the third
    // one never runs.
    sample.results[2].timeline = vec![ran(6, 1, 4), ran(7, 5, 12), ran(4, 12, 13)];
    sample.results[2].jobs = vec![job(0, Some(12 * MS)), job(1, Some(13 * MS)), job(2, None)];
    sample.results[2].timeline_ns = Some(40 * MS);
    let page = page(&sample);
    let released = |core: u32| -> Vec<u64> {
        let numbers = lane(&page, core).split("data-release-ns=\"").skip(1);
        numbers.map(|rest| rest.split('"').next().unwrap().parse::<u64>().unwrap() / MS).collect()
    };
    assert_eq!((released(6), released(7), released(4)), (vec![0], vec![], vec![10]));
    assert_eq!(released(0), [20], "a job that did not run is on its task's core");
}
