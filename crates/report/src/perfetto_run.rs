//! A run on a real machine as a Perfetto trace: throttling and use of every CPU, and the jobs of
//! every task.
//!
//! A CPU has a track with a slice for each time it was throttled, and a counter of its accesses in
//! each period. A task has a track with a slice from the start of a job to its end. If the job had
//! to wait, another slice before it goes from its release to its start. Times are nanoseconds from
//! the start of the run.

use crate::perfetto::{field, number, packet, slice, track};

/// `TrackEvent.counter_value` and the type of counters' events.
const EVENT_COUNTER_VALUE: u64 = 30;
const COUNTER: u64 = 4;

/// A period of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct TracedPeriod {
    /// Begin of the period, ns.
    pub start_ns: u64,
    /// End of the period, ns.
    pub end_ns: u64,
    /// Begin of the throttling that lasts at the period's end, ns; `None` without it.
    pub stopped_ns: Option<u64>,
    /// Accesses in it.
    pub accesses: u64,
}

/// A CPU's periods.
#[derive(Clone, Debug)]
pub struct TracedCore {
    /// Number of the CPU.
    pub cpu: u32,
    /// Periods in order of time.
    pub periods: Vec<TracedPeriod>,
}

/// A task's jobs, or the transfers of a slot of the time table.
#[derive(Clone, Debug)]
pub struct TracedTask {
    /// Its name.
    pub name: String,
    /// Place where it runs: `core 2`, `io-core`.
    pub place: String,
    /// Release, start and end of each.
    pub jobs: Vec<(u64, u64, u64)>,
}

/// Content of a trace.
#[derive(Clone, Debug)]
pub struct RunTrace {
    /// CPUs.
    pub cores: Vec<TracedCore>,
    /// Tasks.
    pub tasks: Vec<TracedTask>,
}

fn count(out: &mut Vec<u8>, track: u64, at: u64, value: u64) {
    let mut event = Vec::new();
    number(&mut event, field::EVENT_TYPE, COUNTER);
    number(&mut event, field::EVENT_TRACK, track);
    number(&mut event, EVENT_COUNTER_VALUE, value);
    packet(out, Some(at), field::PACKET_EVENT, &event);
}

/// The trace's bytes.
pub fn perfetto_run(trace: &RunTrace) -> Vec<u8> {
    let mut out = Vec::new();
    let mut id = 0;
    let mut next = || {
        id += 1;
        id
    };
    for core in &trace.cores {
        let (throttling, use_of) = (next(), next());
        track(&mut out, throttling, &format!("CPU {} throttled", core.cpu), false);
        track(&mut out, use_of, &format!("CPU {} accesses per period", core.cpu), true);
        for period in &core.periods {
            count(&mut out, use_of, period.start_ns, period.accesses);
            if let Some(stopped) = period.stopped_ns {
                slice(&mut out, throttling, ("throttled", "throttled"), stopped, period.end_ns);
            }
        }
    }
    for task in &trace.tasks {
        let id = next();
        track(&mut out, id, &format!("{} ({})", task.name, task.place), false);
        for &(release, start, end) in &task.jobs {
            if start > release {
                slice(&mut out, id, ("waiting", "waits to start"), release, start);
            }
            slice(&mut out, id, ("job", &task.name), start, end);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field numbers and lengths of the packets of a trace, and their time stamps.
    fn stamps(mut trace: &[u8]) -> Vec<Option<u64>> {
        fn varint(from: &mut &[u8]) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = from[0];
                *from = &from[1..];
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        }
        let mut found = Vec::new();
        while !trace.is_empty() {
            assert_eq!(varint(&mut trace), field::TRACE_PACKET << 3 | 2);
            let length = usize::try_from(varint(&mut trace)).unwrap();
            let mut packet = &trace[..length];
            trace = &trace[length..];
            let stamped = varint(&mut packet) == field::PACKET_TIMESTAMP << 3;
            found.push(stamped.then(|| varint(&mut packet)));
        }
        found
    }

    #[test]
    fn every_time_is_in_the_trace() {
        let period = |start_ns, stopped_ns| TracedPeriod {
            start_ns,
            end_ns: start_ns + 1000,
            stopped_ns,
            accesses: 7,
        };
        let trace = RunTrace {
            cores: vec![TracedCore {
                cpu: 3,
                periods: vec![period(1000, None), period(2000, Some(2600))],
            }],
            tasks: vec![TracedTask {
                name: "t".into(),
                place: "core 1".into(),
                jobs: vec![(50, 60, 70), (150, 150, 170)],
            }],
        };
        let bytes = perfetto_run(&trace);
        let times: Vec<u64> = stamps(&bytes).into_iter().flatten().collect();
        assert_eq!(times, [1000, 2000, 2600, 3000, 50, 60, 60, 70, 150, 170]);
        assert_eq!(stamps(&bytes).iter().filter(|s| s.is_none()).count(), 3, "tracks");
        let text = String::from_utf8_lossy(&bytes);
        for name in ["CPU 3 throttled", "CPU 3 accesses per period", "t (core 1)"] {
            assert!(text.contains(name), "{name}");
        }
    }
}
