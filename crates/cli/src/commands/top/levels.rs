//! `solocore top` beside a scheduler of levels: jobs by task and level, CPUs, and threads that
//! intrude.

use super::since::since;
use crate::table;
use solocore_model::run::{RunLevelTask, RunLevels};

/// Jobs since the last look, and the longest times of all.
fn row(task: &RunLevelTask, old: Option<&RunLevelTask>) -> Vec<String> {
    let grown = since(task, old);
    let since = |of| grown(of).to_string();
    let some = |ns: u64| table::ms((task.completed > 0).then_some(ns));
    vec![
        // A name may contain anything; a row of a table has one line.
        task.name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
        task.level.to_string(),
        task.core.map_or("all".to_owned(), |core| core.to_string()),
        since(|t| t.jobs),
        since(|t| t.completed),
        since(|t| t.skipped),
        since(|t| t.late),
        since(|t| t.overruns),
        format!("{:.1}", task.max_start_late_ns as f64 / 1e3),
        some(task.max_response_ns),
        some(task.max_tardiness_ns),
    ]
}

/// All tasks of each level in one.
fn by_level(tasks: &[RunLevelTask]) -> Vec<RunLevelTask> {
    let mut levels: Vec<RunLevelTask> = Vec::new();
    for task in tasks {
        if !levels.iter().any(|l| l.level == task.level) {
            let name = if task.level == "window" {
                "all windows".to_owned()
            } else {
                format!("level {}", task.level)
            };
            levels.push(RunLevelTask {
                name,
                level: task.level.clone(),
                ..RunLevelTask::default()
            });
        }
        let Some(level) = levels.iter_mut().find(|l| l.level == task.level) else { continue };
        level.jobs += task.jobs;
        level.completed += task.completed;
        level.skipped += task.skipped;
        level.late += task.late;
        level.overruns += task.overruns;
        level.max_start_late_ns = level.max_start_late_ns.max(task.max_start_late_ns);
        level.max_response_ns = level.max_response_ns.max(task.max_response_ns);
        level.max_tardiness_ns = level.max_tardiness_ns.max(task.max_tardiness_ns);
    }
    levels
}

/// Changes since the last look.
pub fn text(head_line: &str, before: Option<&RunLevels>, now: &RunLevels) -> String {
    let old_tasks = before.map_or(&[][..], |b| &b.tasks);
    let head = [
        "task",
        "level",
        "core",
        "jobs",
        "done",
        "skipped",
        "missed",
        "overruns",
        "start us",
        "longest ms",
        "tardy ms",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (tasks, old) in
        [(by_level(&now.tasks), by_level(old_tasks)), (now.tasks.clone(), old_tasks.to_vec())]
    {
        rows.extend(tasks.iter().map(|t| row(t, old.iter().find(|o| o.name == t.name))));
    }
    let head =
        ["CPU", "decisions", "mean us", "longest us", "timer late us", "intrusions", "lost ms"];
    let mut cpus = vec![head.map(str::to_owned).to_vec()];
    for c in &now.cpus {
        let old = before.and_then(|b| b.cpus.iter().find(|o| o.cpu == c.cpu));
        let since = since(c, old);
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        cpus.push(vec![
            c.cpu.to_string(),
            since(|c| c.decisions).to_string(),
            us(c.mean_decision_ns),
            us(c.max_decision_ns),
            us(c.max_timer_late_ns),
            since(|c| c.intrusions).to_string(),
            format!("{:.3}", since(|c| c.intruder_ns) as f64 / 1e6),
        ]);
    }
    let mut out = format!("{}\n\n{}\n{}", head_line, table::render(&rows), table::render(&cpus));
    for intruder in &now.intruders {
        out += &format!("real-time thread beside the levels: {}\n", intruder.text());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::run::{RunIntruder, RunLevelCpu, RunLevelIntruder};

    #[test]
    fn levels_and_tasks_are_shown_with_what_happened_since() {
        let task = |name: &str, level: &'static str, jobs, late| RunLevelTask {
            name: name.to_owned(),
            level: level.into(),
            core: (level != "C").then_some(1),
            jobs,
            completed: jobs,
            late,
            max_response_ns: 2_500_000,
            ..RunLevelTask::default()
        };
        let at = |jobs| RunLevels {
            tasks: vec![
                task("pilot", "A", jobs, 0),
                task("rud\nder", "A", jobs / 2, 1),
                task("map", "C", 3, 2),
            ],
            cpus: vec![RunLevelCpu {
                cpu: 1,
                decisions: 10 * jobs,
                intrusions: 2,
                ..RunLevelCpu::default()
            }],
            intruders: vec![RunLevelIntruder {
                seen: RunIntruder {
                    name: "rude".to_owned(),
                    policy: "SCHED_FIFO".into(),
                    ..RunIntruder::default()
                },
                ..RunLevelIntruder::default()
            }],
            events_lost: None,
        };
        let text = text("levels", Some(&at(100)), &at(150));
        let cells = |name: &str| -> Vec<String> {
            let line = text
                .lines()
                .find(|l| l.starts_with(name))
                .unwrap_or_else(|| panic!("{name}: {text}"));
            line[name.len()..].split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(cells("level A ")[..6], ["A", "all", "75", "75", "0", "0"], "{text}");
        assert_eq!(cells("pilot")[..6], ["A", "1", "50", "50", "0", "0"]);
        assert_eq!(cells("rud?der")[..4], ["A", "1", "25", "25"]);
        assert_eq!(cells("map")[..3], ["C", "all", "0"]);
        assert_eq!(cells("1 ")[0], "500");
        assert!(
            text.contains("real-time thread beside the levels: rude (0, SCHED_FIFO 0)"),
            "{text}"
        );
        // The first look at another daemon shows all of it.
        assert!(super::text("levels", None, &at(100)).contains("150"));
    }
}
