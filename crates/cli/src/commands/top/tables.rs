//! The tables of `solocore top`: the time since the last look, and the longest of the run.

use super::levels;
use super::since::since;
use crate::commands::promises;
use crate::commands::run_text::{self, bandwidth, limit};
use crate::table;
use solocore_model::run::{RunClient, RunGroup, RunLock, RunRegulation, RunResult};

/// The run in a line: what enforces it, and since when, with the plan of the last handover.
pub fn headline(now: &RunResult) -> String {
    let handed = now.handovers.last().map_or_else(String::new, |handover| {
        let since_s = handover.ended_ns as f64 / 1e9;
        format!(", plan {} since {since_s:.1} s", handover.name())
    });
    by(now) + &handed
}

fn by(now: &RunResult) -> String {
    let seconds = now.duration_ns as f64 / 1e9;
    match &now.regulation {
        Some(r) => {
            format!(
                "{} engine, {} per {} us, {seconds:.1} s",
                r.engine,
                r.event,
                r.period_ns / 1000
            )
        }
        None if now.vcpus.is_some() => format!("VCPUs, {seconds:.1} s"),
        None => format!("scheduler of {}, {seconds:.1} s", now.scheme.name()),
    }
}

/// Changes since the last look; all counts where another daemon answers now.
pub fn shown(before: &RunResult, now: &RunResult) -> String {
    let before = (before.duration_ns <= now.duration_ns).then_some(before);
    let promised = promises::answered(&now.promises);
    if let Some(levels) = &now.levels {
        let before = before.and_then(|b| b.levels.as_ref());
        return levels::text(&headline(now), before, levels) + &promised;
    }
    if let Some(vcpus) = &now.vcpus {
        return format!("{}\n\n{}{promised}", headline(now), run_text::vcpus(vcpus));
    }
    let regulated = |run: &RunResult| run.regulation.clone().unwrap_or_default();
    let before = before.filter(|b| b.regulation.is_some()).unwrap_or(now);
    text((before, &regulated(before)), (now, &regulated(now)))
}

fn text(
    (before, old): (&RunResult, &RunRegulation),
    (now, new): (&RunResult, &RunRegulation),
) -> String {
    let head =
        ["CPU", "budget", "MB/s", "use", "most", "throttled %", "time %", "over", "longest ms"];
    let apart = new.cores.iter().any(|c| c.writes.is_some());
    let of_writes: &[&str] = if apart { &["write budget", "writes", "over"] } else { &[] };
    let mut rows = vec![head.iter().chain(of_writes).map(|&h| h.to_owned()).collect::<Vec<_>>()];
    let elapsed = now.duration_ns.saturating_sub(before.duration_ns).max(1) as f64;
    for core in &new.cores {
        let was = old.cores.iter().find(|c| c.cpu == core.cpu);
        let grown = since(core, was);
        let since = |of| grown(of) as f64;
        let periods = since(|c| c.periods).max(1.0);
        let mut row = vec![
            core.cpu.to_string(),
            limit(core.budget),
            bandwidth(core.budget, new.period_ns, new.stands_in),
            format!("{:.1}", since(|c| c.accesses) / periods),
            core.max_accesses_per_period.to_string(),
            format!("{:.1}", 100.0 * since(|c| c.throttled_periods) / periods),
            format!("{:.1}", 100.0 * since(|c| c.throttled_ns) / elapsed),
            format!("{}", since(|c| c.periods_over_budget)),
            format!("{:.3}", core.longest_period_ns as f64 / 1e6),
        ];
        if apart {
            row.extend([
                limit(core.writes.map_or(u64::MAX, |w| w.write_budget)),
                format!("{:.1}", since(|c| c.writes.map_or(0, |w| w.writes)) / periods),
                format!("{}", since(|c| c.writes.map_or(0, |w| w.periods_over_write_budget))),
            ]);
        }
        rows.push(row);
    }
    let alone: Vec<&str> =
        now.transfers.iter().filter(|t| !t.attached).map(|t| t.name.as_str()).collect();
    let mut clients =
        now.lock.as_ref().map_or_else(String::new, |lock| clients(before, now, lock, elapsed));
    if !alone.is_empty() {
        clients += &format!("transfers without a driver: {}\n", alone.join(", "));
    }
    format!(
        "{}\n\n{}{clients}{}{}",
        headline(now),
        table::render(&rows),
        groups(before, now, elapsed),
        promises::answered(&now.promises)
    )
}

/// Occupancy of the hardware's groups, and their transfers since the last look; empty without
/// groups.
fn groups(before: &RunResult, now: &RunResult, elapsed_ns: f64) -> String {
    if now.groups.is_empty() {
        return String::new();
    }
    let mut rows =
        vec![["group", "shares", "held KiB", "MB/s", "local MB/s"].map(str::to_owned).to_vec()];
    for g in &now.groups {
        let old = before.groups.iter().find(|o| o.group == g.group);
        let rate = |of: fn(&RunGroup) -> Option<u64>| {
            let moved = of(g).zip(old.and_then(of)).map(|(now, before)| now.saturating_sub(before));
            moved.map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 * 1e3 / elapsed_ns))
        };
        rows.push(vec![
            g.group.clone(),
            g.schemata.join(" "),
            g.occupancy_bytes.map_or("-".to_owned(), |b| (b >> 10).to_string()),
            rate(|g| g.total_bytes),
            rate(|g| g.local_bytes),
        ]);
    }
    format!("\n{}", table::render(&rows))
}

/// Clients of the bandwidth lock, and their use of it.
fn clients(before: &RunResult, now: &RunResult, lock: &RunLock, elapsed_ns: f64) -> String {
    if lock.clients.is_empty() {
        return "\nno client is attached\n".to_owned();
    }
    let head = ["client", "process", "thread", "user", "a second", "CPU", "state"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for c in &lock.clients {
        let old = before
            .lock
            .iter()
            .flat_map(|l| &l.clients)
            .find(|o| o.thread == c.thread && o.pid == c.pid);
        // A transfer makes slots, a task makes jobs, other clients make sections.
        let count = |c: &RunClient| match (&c.transfer, &c.task) {
            (Some(transfer), _) => transfer.slots,
            (None, Some(_)) => c.jobs,
            (None, None) => u64::from(c.sections),
        };
        let made = count(c).saturating_sub(old.map_or(count(c), count)) as f64;
        let seen =
            c.transfer.as_ref().and_then(|t| now.transfers.iter().find(|s| s.name == t.name));
        let so_far =
            seen.map_or_else(String::new, |s| format!(", {} late and {} missed", s.late, s.missed));
        let (name, state) = holder(c);
        rows.push(vec![
            name,
            c.pid.to_string(),
            if c.scope == "program" { "all".to_owned() } else { c.thread.to_string() },
            c.uid.to_string(),
            format!("{:.0}", made / elapsed_ns * 1e9),
            c.cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string()),
            format!("{state}{so_far}"),
        ]);
    }
    format!("\n{}", table::render(&rows))
}

/// The client's name with that of its task or transfer, and its state. A name may
/// contain anything; a row of a table has one line.
pub fn holder(c: &RunClient) -> (String, &'static str) {
    let state = match (c.depth > 0, c.cut, c.cpu) {
        _ if c.transfer.as_ref().is_some_and(|t| t.inside) => "in its slot",
        (false, ..) if c.transfer.is_some() => "waits for its slot",
        _ if c.in_job => "in a job",
        (true, true, _) => "held for too long, no longer counts",
        (true, false, Some(_)) => "holds",
        (true, false, None) => "released, because it does not run",
        (false, ..) => "free",
    };
    let what = c.transfer.as_ref().map(|t| &t.name).or(c.task.as_ref());
    let name = what.map_or_else(|| c.name.clone(), |what| format!("{} ({what})", c.name));
    (name.chars().map(|k| if k.is_control() { '?' } else { k }).collect(), state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::run::{RunCore, RunHandover, RunWrites};

    #[test]
    fn the_headline_names_the_plan_of_the_last_handover() {
        let handover = RunHandover {
            plan: "night.json".to_owned(),
            ended_ns: 2_500_000_000,
            ..RunHandover::default()
        };
        let run = RunResult { handovers: vec![handover], ..snapshot(1, 1, 4_000_000_000) };
        assert!(
            headline(&run).ends_with(" 4.0 s, plan night.json since 2.5 s"),
            "{}",
            headline(&run)
        );
        assert!(!headline(&snapshot(1, 1, 1)).contains("plan"));
    }

    fn snapshot(periods: u64, accesses: u64, duration_ns: u64) -> RunResult {
        let core = RunCore {
            cpu: 2,
            budget: 20,
            periods,
            throttled_periods: periods / 2,
            throttled_ns: duration_ns / 4,
            accesses,
            max_accesses_per_period: 20,
            longest_period_ns: 1_001_000,
            ..RunCore::default()
        };
        let regulation = RunRegulation {
            engine: "helper".into(),
            event: "page-faults".into(),
            period_ns: 1_000_000,
            cores: vec![core],
            ..RunRegulation::default()
        };
        RunResult { duration_ns, regulation: Some(regulation), ..RunResult::default() }
    }

    #[test]
    fn groups_are_shown_with_what_they_moved_since() {
        let group = |total| RunGroup {
            group: "solocore-cpu2".to_owned(),
            schemata: vec!["L3:0=7".to_owned()],
            occupancy_bytes: Some(2 << 20),
            total_bytes: Some(total),
            ..RunGroup::default()
        };
        let at = |total, ns| RunResult { groups: vec![group(total)], ..snapshot(1, 0, ns) };
        let text = shown(&at(10_000_000, 1_000_000_000), &at(30_000_000, 3_000_000_000));
        let cells: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(cells, ["solocore-cpu2", "L3:0=7", "2048", "10.0", "-"]);
    }

    #[test]
    fn a_look_shows_what_happened_since_the_last() {
        let text =
            shown(&snapshot(1000, 5000, 1_000_000_000), &snapshot(2000, 22_000, 2_000_000_000));
        let last = text.lines().last().unwrap();
        let cells: Vec<&str> = last.split_whitespace().collect();
        // 20 lines of 64 B in a millisecond are 1.28 MB/s.
        assert_eq!(cells, ["2", "20", "1.3", "17.0", "20", "50.0", "25.0", "0", "1.001"]);
        assert!(!text.contains("write"));
    }

    #[test]
    fn writes_are_shown_apart() {
        let with = |periods, accesses, ns, writes| {
            let mut snapshot = snapshot(periods, accesses, ns);
            let seen = RunWrites {
                write_budget: 5,
                writes,
                periods_over_write_budget: writes / 1000,
                ..RunWrites::default()
            };
            snapshot.regulation.as_mut().unwrap().cores[0].writes = Some(seen);
            snapshot
        };
        let text =
            shown(&with(1000, 5000, 1_000_000_000, 100), &with(2000, 22_000, 2_000_000_000, 3100));
        let cells: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(cells[9..], ["5", "3.0", "3"]);
    }

    #[test]
    fn clients_are_shown_with_what_they_do() {
        let client = |thread, sections, depth, cpu, cut| RunClient {
            pid: 10,
            thread,
            uid: 1000,
            name: "a\nb".to_owned(),
            scope: "thread".to_owned(),
            sections,
            depth,
            cpu,
            cut,
            ..RunClient::default()
        };
        let lock = |clients| RunLock { clients, ..RunLock::default() };
        let clients = |n| {
            vec![
                client(11, n, 1, Some(0), false),
                client(12, 7, 1, None, false),
                client(13, 7, 1, Some(1), true),
            ]
        };
        let at = |n, ns| RunResult { lock: Some(lock(clients(n))), ..snapshot(1, 0, ns) };
        let text = shown(&at(100, 1_000_000_000), &at(150, 2_000_000_000));
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        assert!(
            lines[2].starts_with("a?b") && lines[2].ends_with("holds") && lines[2].contains(" 50 "),
            "{text}"
        );
        assert!(lines[1].ends_with("released, because it does not run"), "{text}");
        assert!(lines[0].ends_with("held for too long, no longer counts"), "{text}");
        let nobody = RunResult { lock: Some(lock(Vec::new())), ..snapshot(1, 0, 1) };
        assert!(shown(&nobody, &nobody).ends_with("no client is attached\n"));
    }
}
