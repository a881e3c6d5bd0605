//! What the scheduler of levels has seen, in Prometheus' text format.

use super::shared::{CpuRun, Intruder, TaskRun};
use std::fmt::Write as _;

/// Name, kind, meaning, value.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

const SECOND: f64 = 1e9;

const OF_TASKS: &[Metric<TaskRun>] = &[
    ("jobs_total", "counter", "Jobs released.", |t| t.jobs as f64),
    ("jobs_completed_total", "counter", "Jobs that were done.", |t| t.completed as f64),
    ("jobs_skipped_total", "counter", "Releases at which the task slept.", |t| t.skipped as f64),
    ("overruns_total", "counter", "Jobs that used their execution time up.", |t| t.overruns as f64),
    ("late_total", "counter", "Jobs done after their deadlines.", |t| t.late as f64),
    ("max_start_late_seconds", "gauge", "Longest time from release or slot to the first instruction.", |t| {
        t.max_start_late_ns as f64 / SECOND
    }),
    ("max_response_seconds", "gauge", "Longest time from release to end.", |t| t.max_response_ns as f64 / SECOND),
    ("max_tardiness_seconds", "gauge", "Longest time from deadline to end.", |t| t.max_tardiness_ns as f64 / SECOND),
    ("execution_seconds_total", "counter", "Execution in all.", |t| t.ran_ns as f64 / SECOND),
];

const OF_CPUS: &[Metric<CpuRun>] = &[
    ("decisions_total", "counter", "Decisions of the scheduler.", |c| c.decisions as f64),
    ("max_decision_seconds", "gauge", "Longest decision.", |c| c.max_decision_ns as f64 / SECOND),
    ("max_timer_late_seconds", "gauge", "Longest time from when a timer was to fire to the decision.", |c| {
        c.max_timer_late_ns as f64 / SECOND
    }),
    ("intrusions_total", "counter", "How often a real-time thread ran beside the levels.", |c| c.intrusions as f64),
    ("intruder_seconds_total", "counter", "For how long.", |c| c.intruder_ns as f64 / SECOND),
];

fn put<T>(out: &mut String, metrics: &[Metric<T>], all: &[T], labels: impl Fn(&T) -> String) {
    for (name, kind, meaning, value) in metrics {
        let _ = writeln!(out, "# HELP solocore_level_{name} {meaning}\n# TYPE solocore_level_{name} {kind}");
        for one in all {
            let _ = writeln!(out, "solocore_level_{name}{{{}}} {}", labels(one), value(one));
        }
    }
}

/// All of it.
pub fn prometheus(tasks: &[TaskRun], cpus: &[CpuRun], intruders: &[Intruder]) -> String {
    let mut out = String::new();
    let escaped = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    put(&mut out, OF_TASKS, tasks, |t| format!("task=\"{}\",level=\"{}\"", escaped(&t.name), t.level));
    put(&mut out, OF_CPUS, cpus, |c| format!("cpu=\"{}\"", c.cpu));
    let _ = writeln!(
        out,
        "# HELP solocore_level_intruders Real-time threads that ran beside the levels.\n# TYPE solocore_level_intruders gauge\nsolocore_level_intruders {}",
        intruders.len()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_cpus_have_a_line_each() {
        let task = TaskRun {
            name: "a\"b".to_owned(),
            level: "A".into(),
            jobs: 7,
            late: 2,
            max_response_ns: 2_500_000,
            ..TaskRun::default()
        };
        let cpu = CpuRun { cpu: 3, intrusions: 4, ..CpuRun::default() };
        let text = prometheus(&[task, TaskRun::default()], &[cpu], &[Intruder::default()]);
        for line in [
            "solocore_level_jobs_total{task=\"a\\\"b\",level=\"A\"} 7",
            "solocore_level_late_total{task=\"a\\\"b\",level=\"A\"} 2",
            "solocore_level_max_response_seconds{task=\"a\\\"b\",level=\"A\"} 0.0025",
            "solocore_level_intrusions_total{cpu=\"3\"} 4",
            "solocore_level_intruders 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        let of = |kind: &str| text.lines().filter(|l| l.starts_with(kind)).count();
        assert_eq!(
            (of("# HELP"), of("# TYPE")),
            (OF_TASKS.len() + OF_CPUS.len() + 1, OF_TASKS.len() + OF_CPUS.len() + 1)
        );
    }
}
