//! Counters and gauges of a run for Prometheus, in its text format.
//!
//! Rule: the metrics of each section of a [`RunResult`] share a prefix: none for regulation,
//! `level_`, `vcpu_`.

use solocore_model::run::{
    RunCore, RunLevelCpu, RunLevelTask, RunLevels, RunRegulation, RunResult, RunVcpu, RunVcpuCpu,
    RunVcpus, RunWrites,
};
use std::fmt::Write as _;

/// Name, kind, meaning and value of a metric.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

const SECOND: f64 = 1e9;

const OF_CORES: &[Metric<RunCore>] = &[
    ("budget_accesses", "gauge", "Accesses that the CPU may make in a period.", |c| {
        limit(c.budget)
    }),
    ("periods_total", "counter", "Regulation periods that have ended.", |c| c.periods as f64),
    ("throttled_periods_total", "counter", "Periods in which the CPU was throttled.", |c| {
        c.throttled_periods as f64
    }),
    ("throttled_seconds_total", "counter", "Time for which the CPU was throttled.", |c| {
        c.throttled_ns as f64 / 1e9
    }),
    ("accesses_total", "counter", "Accesses, as counted by the counter.", |c| c.accesses as f64),
    ("max_accesses_per_period", "gauge", "Most accesses in one period.", |c| {
        c.max_accesses_per_period as f64
    }),
    (
        "periods_over_budget_total",
        "counter",
        "Periods with more accesses than budget and tolerance.",
        |c| c.periods_over_budget as f64,
    ),
    ("periods_skipped_total", "counter", "Periods without a recorded start.", |c| {
        c.periods_skipped as f64
    }),
    ("longest_period_seconds", "gauge", "Longest time between two ticks.", |c| {
        c.longest_period_ns as f64 / 1e9
    }),
];

/// Metrics of a core that counts its writes apart.
const OF_WRITES: &[Metric<RunWrites>] = &[
    ("write_budget_accesses", "gauge", "Writes that the CPU may make in a period.", |w| {
        limit(w.write_budget)
    }),
    ("writes_total", "counter", "Writes, as counted by their counter.", |w| w.writes as f64),
    ("max_writes_per_period", "gauge", "Most writes in one period.", |w| {
        w.max_writes_per_period as f64
    }),
    (
        "periods_over_write_budget_total",
        "counter",
        "Periods with more writes than their budget and one sample.",
        |w| w.periods_over_write_budget as f64,
    ),
];

const OF_LEVEL_TASKS: &[Metric<RunLevelTask>] = &[
    ("jobs_total", "counter", "Jobs released.", |t| t.jobs as f64),
    ("jobs_completed_total", "counter", "Jobs that were done.", |t| t.completed as f64),
    ("jobs_skipped_total", "counter", "Releases at which the task slept.", |t| t.skipped as f64),
    ("overruns_total", "counter", "Jobs that used their execution time up.", |t| t.overruns as f64),
    ("late_total", "counter", "Jobs done after their deadlines.", |t| t.late as f64),
    (
        "max_start_late_seconds",
        "gauge",
        "Longest time from release or slot to the first instruction.",
        |t| t.max_start_late_ns as f64 / SECOND,
    ),
    ("max_response_seconds", "gauge", "Longest time from release to end.", |t| {
        t.max_response_ns as f64 / SECOND
    }),
    ("max_tardiness_seconds", "gauge", "Longest time from deadline to end.", |t| {
        t.max_tardiness_ns as f64 / SECOND
    }),
    ("execution_seconds_total", "counter", "Execution in all.", |t| t.ran_ns as f64 / SECOND),
];

const OF_LEVEL_CPUS: &[Metric<RunLevelCpu>] = &[
    ("decisions_total", "counter", "Decisions of the scheduler.", |c| c.decisions as f64),
    ("max_decision_seconds", "gauge", "Longest decision.", |c| c.max_decision_ns as f64 / SECOND),
    (
        "max_timer_late_seconds",
        "gauge",
        "Longest time from the due time of a timer to the decision.",
        |c| c.max_timer_late_ns as f64 / SECOND,
    ),
    (
        "intrusions_total",
        "counter",
        "Number of times that a real-time thread ran beside the levels.",
        |c| c.intrusions as f64,
    ),
    ("intruder_seconds_total", "counter", "For how long.", |c| c.intruder_ns as f64 / SECOND),
];

const OF_VCPUS: &[Metric<RunVcpu>] = &[
    ("foreground_seconds_total", "counter", "Time that the VCPU ran with budget.", |v| {
        v.foreground_ns as f64 / SECOND
    }),
    ("background_seconds_total", "counter", "Time that the VCPU ran without budget.", |v| {
        v.background_ns as f64 / SECOND
    }),
    ("moves_total", "counter", "Number of times that the VCPU moved to another core.", |v| {
        v.moves as f64
    }),
];

const OF_VCPU_CPUS: &[Metric<RunVcpuCpu>] = &[
    ("switches_total", "counter", "Threads of the VCPU that started to run.", |c| {
        c.switches as f64
    }),
    ("late_total", "counter", "Budgets that were exceeded because the timer came late.", |c| {
        c.late as f64
    }),
    ("max_late_seconds", "gauge", "Largest time by which a budget was exceeded.", |c| {
        c.longest_late_ns as f64 / SECOND
    }),
    ("intruder_seconds_total", "counter", "Time of real-time threads.", |c| {
        c.intruder_ns as f64 / SECOND
    }),
];

/// A budget of accesses as a metric's value.
fn limit(budget: u64) -> f64 {
    if budget == u64::MAX { f64::INFINITY } else { budget as f64 }
}

/// Writes a line for each of `all`; `of`: the prefix of their names.
fn put<'a, T: 'a>(
    out: &mut String,
    of: &str,
    metrics: &[Metric<T>],
    all: impl Iterator<Item = (&'a T, String)> + Clone,
) {
    for (name, kind, meaning, value) in metrics {
        let _ = writeln!(
            out,
            "# HELP solocore_{of}{name} {meaning}\n# TYPE solocore_{of}{name} {kind}"
        );
        for (one, labels) in all.clone() {
            let value = value(one);
            let value = if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() };
            let _ = writeln!(out, "solocore_{of}{name}{{{labels}}} {value}");
        }
    }
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn cpu(cpu: u32) -> String {
    format!("cpu=\"{cpu}\"")
}

/// The text of all metrics.
pub(super) fn prometheus(run: &RunResult) -> String {
    let mut out = String::new();
    run.regulation.iter().for_each(|r| {
        regulation(&mut out, r);
        plan(&mut out, run);
    });
    run.levels.iter().for_each(|l| levels(&mut out, l));
    run.vcpus.iter().for_each(|v| vcpus(&mut out, v));
    out
}

fn regulation(out: &mut String, r: &RunRegulation) {
    let _ = writeln!(
        out,
        "# HELP solocore_engine The engine that regulates.\n# TYPE solocore_engine \
            gauge\nsolocore_engine{{engine=\"{}\"}} 1",
        r.engine
    );
    put(out, "", OF_CORES, r.cores.iter().map(|c| (c, cpu(c.cpu))));
    if r.cores.iter().any(|c| c.writes.is_some()) {
        put(
            out,
            "",
            OF_WRITES,
            r.cores.iter().filter_map(|c| Some((c.writes.as_ref()?, cpu(c.cpu)))),
        );
    }
}

/// The plan in force.
fn plan(out: &mut String, run: &RunResult) {
    let since_ns = run.handovers.last().map_or(0, |handover| handover.ended_ns);
    let seconds = run.duration_ns.saturating_sub(since_ns) as f64 / SECOND;
    let _ = writeln!(
        out,
        "# HELP solocore_handovers_total Handovers to other plans.\n# TYPE solocore_handovers_total \
            counter\nsolocore_handovers_total {}\n# HELP solocore_plan_seconds Time for which the \
            present plan is in force.\n# TYPE solocore_plan_seconds gauge\nsolocore_plan_seconds \
            {seconds}",
        run.earlier_handovers + run.handovers.len() as u64
    );
}

fn levels(out: &mut String, l: &RunLevels) {
    let labels = |t: &RunLevelTask| format!("task=\"{}\",level=\"{}\"", escaped(&t.name), t.level);
    put(out, "level_", OF_LEVEL_TASKS, l.tasks.iter().map(|t| (t, labels(t))));
    put(out, "level_", OF_LEVEL_CPUS, l.cpus.iter().map(|c| (c, cpu(c.cpu))));
    let _ = writeln!(
        out,
        "# HELP solocore_level_intruders Real-time threads that ran beside the levels.\n# TYPE \
            solocore_level_intruders gauge\nsolocore_level_intruders {}",
        l.intruders.len()
    );
}

fn vcpus(out: &mut String, v: &RunVcpus) {
    put(
        out,
        "vcpu_",
        OF_VCPUS,
        v.vcpus.iter().map(|v| (v, format!("vcpu=\"{}\"", escaped(&v.name)))),
    );
    put(out, "vcpu_", OF_VCPU_CPUS, v.cpus.iter().map(|c| (c, cpu(c.cpu))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::run::{RunHandover, RunLevelIntruder};
    use std::collections::BTreeMap;

    #[test]
    fn metrics_have_a_line_per_cpu() {
        let core = RunCore {
            cpu: 3,
            budget: 20,
            periods: 7,
            throttled_ns: 1_500_000_000,
            ..RunCore::default()
        };
        let free = RunCore { cpu: 4, budget: u64::MAX, ..RunCore::default() };
        let of = |cores| {
            let regulation =
                RunRegulation { engine: "helper".to_owned(), cores, ..RunRegulation::default() };
            prometheus(&RunResult { regulation: Some(regulation), ..RunResult::default() })
        };
        let text = of(vec![core.clone(), free]);
        assert!(text.contains("solocore_engine{engine=\"helper\"} 1\n"));
        assert!(text.contains("solocore_periods_total{cpu=\"3\"} 7\n"));
        assert!(text.contains("solocore_throttled_seconds_total{cpu=\"3\"} 1.5\n"));
        assert!(text.contains("solocore_budget_accesses{cpu=\"4\"} +Inf\n"));
        assert_eq!(text.lines().filter(|l| l.starts_with("# TYPE")).count(), OF_CORES.len() + 3);
        let writes = RunWrites { write_budget: 8, writes: 70, ..RunWrites::default() };
        let text = of(vec![RunCore { writes: Some(writes), ..core }]);
        assert!(text.contains("solocore_write_budget_accesses{cpu=\"3\"} 8\n"));
        assert!(text.contains("solocore_writes_total{cpu=\"3\"} 70\n"));
        assert_eq!(
            text.lines().filter(|l| l.starts_with("# TYPE")).count(),
            OF_CORES.len() + OF_WRITES.len() + 3
        );
    }

    #[test]
    fn the_age_of_the_plan_counts_from_the_last_handover() {
        let handover = |ended_ns| RunHandover { ended_ns, ..RunHandover::default() };
        let run = RunResult {
            regulation: Some(RunRegulation::default()),
            duration_ns: 5_000_000_000,
            ..RunResult::default()
        };
        let text = prometheus(&run);
        assert!(text.contains("solocore_handovers_total 0\n"), "{text}");
        assert!(text.contains("solocore_plan_seconds 5\n"), "{text}");
        let handovers = vec![handover(1_000_000_000), handover(4_500_000_000)];
        let text = prometheus(&RunResult { handovers, earlier_handovers: 3, ..run });
        assert!(text.contains("solocore_handovers_total 5\n"), "{text}");
        assert!(text.contains("solocore_plan_seconds 0.5\n"), "{text}");
    }

    /// Each metric and label that the dashboard reads is exported, and each section has a panel.
    #[test]
    fn the_dashboard_reads_what_is_exported() {
        let core = RunCore { writes: Some(RunWrites::default()), ..RunCore::default() };
        let run = RunResult {
            regulation: Some(RunRegulation { cores: vec![core], ..RunRegulation::default() }),
            levels: Some(RunLevels {
                tasks: vec![RunLevelTask::default()],
                cpus: vec![RunLevelCpu::default()],
                ..RunLevels::default()
            }),
            vcpus: Some(RunVcpus {
                vcpus: vec![RunVcpu::default()],
                cpus: vec![RunVcpuCpu::default()],
                ..RunVcpus::default()
            }),
            ..RunResult::default()
        };
        let text = prometheus(&run);
        let exported: BTreeMap<&str, &str> =
            text.lines().filter_map(|l| l.split_once('{')).collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana.json");
        let file = std::fs::read_to_string(path).expect("the dashboard");
        let dashboard: serde_json::Value = serde_json::from_str(&file).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let all = panels.iter().filter_map(|p| p["targets"].as_array()).flatten();
        let mut read = std::collections::BTreeSet::new();
        for target in all {
            let expr = target["expr"].as_str().expect("an expression");
            let legend = target["legendFormat"].as_str().expect("a legend");
            let used: Vec<&str> = words(expr).filter(|w| w.starts_with("solocore_")).collect();
            assert!(!used.is_empty(), "{expr}");
            for name in used {
                let labels = exported.get(name).unwrap_or_else(|| panic!("{name} is not exported"));
                let shown = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
                let filtered = Some("cpu").filter(|_| expr.contains("cpu=~"));
                for label in shown.chain(filtered) {
                    assert!(has(labels, label), "{name} has no label {label}");
                }
                read.insert(name);
            }
        }
        let variable = dashboard["templating"]["list"][1]["query"]["query"].as_str().expect("cpu");
        for name in words(variable).filter(|w| w.starts_with("solocore_")) {
            assert!(exported.get(name).is_some_and(|labels| has(labels, "cpu")), "{name}");
        }
        for of in ["solocore_level_", "solocore_vcpu_", "solocore_write", "solocore_throttled"] {
            assert!(read.iter().any(|name| name.starts_with(of)), "{of}");
        }
    }

    /// `labels`: the text behind the brace.
    fn has(labels: &str, label: &str) -> bool {
        labels.split(',').any(|one| one.split_once('=').is_some_and(|(name, _)| name == label))
    }

    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
    }

    #[test]
    fn vcpus_have_a_line_each() {
        let vcpu = RunVcpu { name: "video".to_owned(), moves: 2, ..RunVcpu::default() };
        let vcpus = RunVcpus { vcpus: vec![vcpu], ..RunVcpus::default() };
        let text = prometheus(&RunResult { vcpus: Some(vcpus), ..RunResult::default() });
        assert!(text.contains("solocore_vcpu_moves_total{vcpu=\"video\"} 2\n"), "{text}");
    }

    #[test]
    fn tasks_and_cpus_have_a_line_each() {
        let task = RunLevelTask {
            name: "a\"b".to_owned(),
            level: "A".into(),
            jobs: 7,
            late: 2,
            max_response_ns: 2_500_000,
            ..RunLevelTask::default()
        };
        let cpu = RunLevelCpu { cpu: 3, intrusions: 4, ..RunLevelCpu::default() };
        let levels = RunLevels {
            tasks: vec![task, RunLevelTask::default()],
            cpus: vec![cpu],
            intruders: vec![RunLevelIntruder::default()],
            events_lost: None,
        };
        let text = prometheus(&RunResult { levels: Some(levels), ..RunResult::default() });
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
            (
                OF_LEVEL_TASKS.len() + OF_LEVEL_CPUS.len() + 1,
                OF_LEVEL_TASKS.len() + OF_LEVEL_CPUS.len() + 1
            )
        );
    }
}
