//! Decisions of a scheduler as a Perfetto trace: the tasks on each CPU, and each task's jobs.
//!
//! Rule: a track for each CPU has a slice for each stretch of a thread, named by its task. A track
//! for each task has a slice for each job, from its release to its end, and one for each overrun.
//! Times count from the first event with a time.

use crate::perfetto::{slice, track};
use solocore_model::sched_trace::{Event, Kind, SchedTrace};
use std::collections::BTreeMap;

/// Drawn length of an instant, ns.
const MARK_NS: u64 = 1000;

/// A slice of a track: its category, its name, its begin and end.
type Slice = (&'static str, String, u64, u64);

/// The trace's bytes. `names` are those of the tasks (or VCPUs), by number.
#[must_use]
pub fn perfetto_sched(trace: &SchedTrace, names: &[String]) -> Vec<u8> {
    let begun = trace.events.iter().map(|e| e.time_ns).find(|&ns| ns > 0).unwrap_or(0);
    let since = |ns: u64| ns.saturating_sub(begun);
    let name = |id: u32| names.get(id as usize).cloned().unwrap_or_else(|| format!("task {id}"));
    let mut cpus: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    let mut tasks: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    let mut running: BTreeMap<u32, &Event> = BTreeMap::new();
    let mut released: BTreeMap<u32, u64> = BTreeMap::new();
    for e in &trace.events {
        match e.event {
            Kind::Runs => {
                running.insert(e.cpu, e);
            }
            Kind::Stops => {
                let Some(begin) = running.remove(&e.cpu).filter(|begin| begin.id == e.id) else {
                    continue;
                };
                let task = u32::try_from(begin.a).ok().and_then(|n| n.checked_sub(1));
                let what = task.map_or_else(|| format!("thread {}", e.id), name);
                let category = if task.is_some() { "task" } else { "other" };
                cpus.entry(e.cpu).or_default().push((
                    category,
                    what,
                    since(begin.time_ns),
                    since(e.time_ns),
                ));
            }
            Kind::Intruder => {
                let what = format!("real-time thread {}", e.id);
                let at = since(e.time_ns);
                cpus.entry(e.cpu).or_default().push(("intruder", what, at, at + MARK_NS));
            }
            Kind::LevelRelease => {
                released.insert(e.id, since(e.time_ns));
            }
            Kind::LevelComplete => {
                let Some(from) = released.remove(&e.id) else { continue };
                tasks.entry(e.id).or_default().push((
                    "job",
                    format!("job {}", e.a),
                    from,
                    since(e.time_ns),
                ));
            }
            Kind::LevelOverrun => {
                let (from, to) =
                    (released.remove(&e.id).unwrap_or(since(e.time_ns)), since(e.time_ns));
                tasks.entry(e.id).or_default().push((
                    "overrun",
                    format!("job {} overruns", e.a),
                    from,
                    to,
                ));
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    let tracks = cpus.into_iter().map(|(cpu, slices)| (format!("CPU {cpu}"), slices));
    let tracks = tracks.chain(tasks.into_iter().map(|(id, slices)| (name(id), slices)));
    for (id, (title, mut slices)) in (1..).zip(tracks) {
        track(&mut out, id, &title, false);
        slices.sort_by_key(|s| (s.2, s.3));
        for (category, what, from, to) in slices {
            slice(&mut out, id, (category, &what), from, to);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: u64, event: Kind, id: u32, a: u64) -> Event {
        Event { time_ns, cpu: 0, event, id, a, b: 0 }
    }

    #[test]
    fn threads_and_jobs_have_their_names() {
        let events = vec![
            event(0, Kind::LevelAdd, 0, 0),
            event(100, Kind::LevelRelease, 0, 1),
            event(110, Kind::Runs, 77, 1),
            event(150, Kind::LevelComplete, 0, 1),
            event(151, Kind::Stops, 77, 0),
            event(152, Kind::Runs, 78, 0),
            event(160, Kind::Stops, 78, 0),
            // Its beginning was not recorded.
            event(170, Kind::Stops, 79, 0),
        ];
        let bytes =
            perfetto_sched(&SchedTrace { events, ..SchedTrace::default() }, &["pilot".to_owned()]);
        let has = |text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
        for text in ["CPU 0", "pilot", "job 1", "thread 78"] {
            assert!(has(text), "{text}");
        }
        assert!(!has("thread 79") && !has("task 1"));
        assert!(perfetto_sched(&SchedTrace::default(), &[]).is_empty());
    }
}
