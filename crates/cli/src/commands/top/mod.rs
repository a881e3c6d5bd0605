//! `solocore top`: what a running `solocore run` does, a table a look.

mod levels;

use crate::args::TopArgs;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use crate::table;
use serde::Deserialize;
use solocore_linux::{GroupRun, host::status};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Of the summary so far, what is shown.
#[derive(Deserialize)]
struct Snapshot {
    engine: String,
    event: String,
    period_ns: u64,
    duration_ns: u64,
    cores: Vec<Core>,
    lock: Option<Lock>,
    #[serde(default)]
    transfers: Vec<Transfer>,
    #[serde(default)]
    groups: Vec<GroupRun>,
}

/// A transfer of the time table.
#[derive(Deserialize)]
struct Transfer {
    name: String,
    late: u64,
    missed: u64,
    attached: bool,
}

/// The transfer that a client is.
#[derive(Deserialize)]
struct ClientTransfer {
    name: String,
    slots: u64,
    inside: bool,
}

/// The bandwidth lock.
#[derive(Deserialize)]
struct Lock {
    clients: Vec<Client>,
}

/// Who is attached to it.
#[derive(Deserialize)]
struct Client {
    pid: u32,
    thread: u32,
    uid: u32,
    name: String,
    scope: String,
    sections: u64,
    depth: u64,
    cpu: Option<u32>,
    cut: bool,
    task: Option<String>,
    jobs: u64,
    in_job: bool,
    transfer: Option<ClientTransfer>,
}

#[derive(Clone, Copy, Deserialize)]
struct Core {
    cpu: u32,
    budget: u64,
    periods: u64,
    throttled_periods: u64,
    throttled_ns: u64,
    accesses: u64,
    max_accesses_per_period: u64,
    periods_over_budget: u64,
    longest_period_ns: u64,
    write_budget: Option<u64>,
    writes: Option<u64>,
    periods_over_write_budget: Option<u64>,
}

/// Looks until it is told to stop, or the daemon ends.
pub fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let every = Duration::from_nanos(args.every.ns_ceil());
    if every < Duration::from_millis(10) {
        return Err(Failure::Input(format!("--every {} is below 10 ms; give for example \"1 s\"", args.every)));
    }
    let mut before = look()?;
    let mut looks = 0;
    while args.count.is_none_or(|count| looks < count) {
        wait(every);
        if stopped() {
            break;
        }
        let now = look()?;
        // On a terminal each look takes the place of the last.
        let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
        print(&format!("{clear}{}\n", shown(&before, &now)))?;
        before = now;
        looks += 1;
    }
    Ok(ExitCode::SUCCESS)
}

fn wait(time: Duration) {
    let since = Instant::now();
    while !stopped() && since.elapsed() < time {
        std::thread::sleep((time - since.elapsed().min(time)).min(Duration::from_millis(50)));
    }
}

/// What the daemon does: regulate, or schedule levels.
enum Seen {
    Budgets(Box<Snapshot>),
    Levels(levels::Snapshot),
}

fn look() -> Result<Seen, Failure> {
    let text = status::ask()?;
    if let Ok(levels) = serde_json::from_str(&text) {
        return Ok(Seen::Levels(levels));
    }
    serde_json::from_str(&text).map(Seen::Budgets).map_err(|e| {
        Failure::Machine(format!("the running solocore answers what this one does not know: {e}; use the same version"))
    })
}

/// What happened since; all that happened where another daemon answers now.
fn shown(before: &Seen, now: &Seen) -> String {
    match (before, now) {
        (Seen::Budgets(before), Seen::Budgets(now)) => text(before, now),
        (_, Seen::Budgets(now)) => text(now, now),
        (Seen::Levels(before), Seen::Levels(now)) => levels::text(Some(before), now),
        (_, Seen::Levels(now)) => levels::text(None, now),
    }
}

fn text(before: &Snapshot, now: &Snapshot) -> String {
    let head = ["CPU", "budget", "use", "most", "throttled %", "time %", "over", "longest ms"];
    let apart = now.cores.iter().any(|c| c.writes.is_some());
    let of_writes: &[&str] = if apart { &["write budget", "writes", "over"] } else { &[] };
    let mut rows = vec![head.iter().chain(of_writes).map(|&h| h.to_owned()).collect::<Vec<_>>()];
    let elapsed = now.duration_ns.saturating_sub(before.duration_ns).max(1) as f64;
    for core in &now.cores {
        let old = before.cores.iter().find(|c| c.cpu == core.cpu).copied();
        let since = |of: fn(&Core) -> u64| of(core).saturating_sub(old.as_ref().map_or(0, of)) as f64;
        let periods = since(|c| c.periods).max(1.0);
        let limit = |budget: u64| if budget == u64::MAX { "none".to_owned() } else { budget.to_string() };
        let mut row = vec![
            core.cpu.to_string(),
            limit(core.budget),
            format!("{:.1}", since(|c| c.accesses) / periods),
            core.max_accesses_per_period.to_string(),
            format!("{:.1}", 100.0 * since(|c| c.throttled_periods) / periods),
            format!("{:.1}", 100.0 * since(|c| c.throttled_ns) / elapsed),
            format!("{}", since(|c| c.periods_over_budget)),
            format!("{:.3}", core.longest_period_ns as f64 / 1e6),
        ];
        if apart {
            row.extend([
                limit(core.write_budget.unwrap_or(u64::MAX)),
                format!("{:.1}", since(|c| c.writes.unwrap_or(0)) / periods),
                format!("{}", since(|c| c.periods_over_write_budget.unwrap_or(0))),
            ]);
        }
        rows.push(row);
    }
    let alone: Vec<&str> = now.transfers.iter().filter(|t| !t.attached).map(|t| t.name.as_str()).collect();
    let mut clients = now.lock.as_ref().map_or_else(String::new, |lock| clients(before, now, lock, elapsed));
    if !alone.is_empty() {
        clients += &format!("transfers without a driver: {}\n", alone.join(", "));
    }
    format!(
        "{} engine, {} per {} us, {:.1} s\n\n{}{clients}{}",
        now.engine,
        now.event,
        now.period_ns / 1000,
        now.duration_ns as f64 / 1e9,
        table::render(&rows),
        groups(before, now, elapsed)
    )
}

/// What the hardware's groups hold, and transferred since the last look; empty without any.
fn groups(before: &Snapshot, now: &Snapshot, elapsed_ns: f64) -> String {
    if now.groups.is_empty() {
        return String::new();
    }
    let mut rows = vec![["group", "shares", "held KiB", "MB/s", "local MB/s"].map(str::to_owned).to_vec()];
    for g in &now.groups {
        let old = before.groups.iter().find(|o| o.group == g.group);
        let rate = |of: fn(&GroupRun) -> Option<u64>| {
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

/// Who is attached to the bandwidth lock, and what they do with it.
fn clients(before: &Snapshot, now: &Snapshot, lock: &Lock, elapsed_ns: f64) -> String {
    if lock.clients.is_empty() {
        return "\nno client is attached\n".to_owned();
    }
    let head = ["client", "process", "thread", "user", "a second", "CPU", "state"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for c in &lock.clients {
        let old = before.lock.iter().flat_map(|l| &l.clients).find(|o| o.thread == c.thread && o.pid == c.pid);
        // What a transfer does is slots, what a task does is jobs, what others do is sections.
        let count = |c: &Client| match (&c.transfer, &c.task) {
            (Some(transfer), _) => transfer.slots,
            (None, Some(_)) => c.jobs,
            (None, None) => c.sections,
        };
        let made = count(c).saturating_sub(old.map_or(count(c), count)) as f64;
        let seen = c.transfer.as_ref().and_then(|t| now.transfers.iter().find(|s| s.name == t.name));
        let so_far = seen.map_or_else(String::new, |s| format!(", {} late and {} missed", s.late, s.missed));
        let state = match (c.depth > 0, c.cut, c.cpu) {
            _ if c.transfer.as_ref().is_some_and(|t| t.inside) => "in its slot",
            (false, ..) if c.transfer.is_some() => "waits for its slot",
            _ if c.in_job => "in a job",
            (true, true, _) => "held for too long, counts no more",
            (true, false, Some(_)) => "holds",
            (true, false, None) => "released, as it does not run",
            (false, ..) => "free",
        };
        // A name may hold anything; a table holds one line each.
        let what = c.transfer.as_ref().map(|t| &t.name).or(c.task.as_ref());
        let name = what.map_or_else(|| c.name.clone(), |what| format!("{} ({what})", c.name));
        let name: String = name.chars().map(|k| if k.is_control() { '?' } else { k }).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(periods: u64, accesses: u64, duration_ns: u64) -> Snapshot {
        let core = Core {
            cpu: 2,
            budget: 20,
            periods,
            throttled_periods: periods / 2,
            throttled_ns: duration_ns / 4,
            accesses,
            max_accesses_per_period: 20,
            periods_over_budget: 0,
            longest_period_ns: 1_001_000,
            write_budget: None,
            writes: None,
            periods_over_write_budget: None,
        };
        Snapshot {
            engine: "helper".into(),
            event: "page-faults".into(),
            period_ns: 1_000_000,
            duration_ns,
            cores: vec![core],
            lock: None,
            transfers: Vec::new(),
            groups: Vec::new(),
        }
    }

    #[test]
    fn groups_are_shown_with_what_they_moved_since() {
        let group = |total| GroupRun {
            group: "solocore-cpu2".to_owned(),
            schemata: vec!["L3:0=7".to_owned()],
            occupancy_bytes: Some(2 << 20),
            total_bytes: Some(total),
            ..GroupRun::default()
        };
        let at = |total, ns| Snapshot { groups: vec![group(total)], ..snapshot(1, 0, ns) };
        let text = text(&at(10_000_000, 1_000_000_000), &at(30_000_000, 3_000_000_000));
        let cells: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(cells, ["solocore-cpu2", "L3:0=7", "2048", "10.0", "-"]);
    }

    #[test]
    fn a_look_shows_what_happened_since_the_last() {
        let text = text(&snapshot(1000, 5000, 1_000_000_000), &snapshot(2000, 22_000, 2_000_000_000));
        let last = text.lines().last().unwrap();
        let cells: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(cells, ["2", "20", "17.0", "20", "50.0", "25.0", "0", "1.001"]);
        assert!(!text.contains("write"));
    }

    #[test]
    fn writes_are_shown_apart() {
        let with = |periods, accesses, ns, writes| {
            let mut snapshot = snapshot(periods, accesses, ns);
            let core = &mut snapshot.cores[0];
            (core.write_budget, core.writes, core.periods_over_write_budget) =
                (Some(5), Some(writes), Some(writes / 1000));
            snapshot
        };
        let text = text(&with(1000, 5000, 1_000_000_000, 100), &with(2000, 22_000, 2_000_000_000, 3100));
        let cells: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(cells[8..], ["5", "3.0", "3"]);
    }

    #[test]
    fn clients_are_shown_with_what_they_do() {
        let client = |thread, sections, depth, cpu, cut| Client {
            pid: 10,
            thread,
            uid: 1000,
            name: "a\nb".to_owned(),
            scope: "thread".to_owned(),
            sections,
            depth,
            cpu,
            cut,
            task: None,
            jobs: 0,
            in_job: false,
            transfer: None,
        };
        let clients =
            |n| vec![client(11, n, 1, Some(0), false), client(12, 7, 1, None, false), client(13, 7, 1, Some(1), true)];
        let at = |n, ns| Snapshot { lock: Some(Lock { clients: clients(n) }), ..snapshot(n, 0, ns) };
        let text = text(&at(100, 1_000_000_000), &at(150, 2_000_000_000));
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        assert!(lines[2].starts_with("a?b") && lines[2].ends_with("holds") && lines[2].contains(" 50 "), "{text}");
        assert!(lines[1].ends_with("released, as it does not run"), "{text}");
        assert!(lines[0].ends_with("held for too long, counts no more"), "{text}");
        let nobody = Snapshot { lock: Some(Lock { clients: Vec::new() }), ..snapshot(1, 0, 1) };
        assert!(super::text(&nobody, &nobody).ends_with("no client is attached\n"));
    }
}
