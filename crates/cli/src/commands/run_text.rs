//! A run for people: a table for each of its parts.

use crate::commands::promises;
use crate::table;
use solocore_linux::host::machine;
use solocore_model::Plan;
use solocore_model::run::{
    RunColoured, RunFunctions, RunGroup, RunLevelCpu, RunLevelIntruder, RunLevels, RunLock,
    RunLocked, RunMigration, RunRegulation, RunResult, RunTask, RunThrottling, RunTransfer,
    RunVcpu, RunVcpuCpu, RunVcpuIntruder, RunVcpus, RunWindow,
};

/// The text of a run.
pub fn text(run: &RunResult) -> String {
    let mut out = run.regulation.as_ref().map_or_else(String::new, regulation);
    out += &run
        .levels
        .as_ref()
        .map_or_else(String::new, |levels| level_tasks(run, levels) + &level_cpus(levels));
    out += &run.vcpus.as_ref().map_or_else(String::new, vcpus);
    if run.levels.is_none() {
        // A scheduler of levels says more of its tasks.
        out += &tasks(run.tasks.iter().chain(&run.drivers));
    }
    out += &windows(&run.windows);
    out += &transfers(run);
    out += &groups(&run.groups);
    out += &functions(&run.functions);
    out += &coloured(&run.coloured);
    out += &locked(&run.locked_pages);
    out += &run.lock.as_ref().map_or_else(String::new, lock);
    out += &promises(run);
    out += &handovers(run);
    out + &format!("\n{}, {:.3} s; ended by {}\n", by(run), run.duration_ns as f64 / 1e9, run.ended)
}

/// Handovers to other plans, a line each; those that are not listed, on one line.
fn handovers(run: &RunResult) -> String {
    let earlier = match run.earlier_handovers {
        0 => String::new(),
        earlier => format!("handovers before those below: {earlier}\n"),
    };
    let listed: String = run.handovers.iter().map(|handover| handover.text() + "\n").collect();
    earlier + &listed
}

/// The parts that kept the plan's promises, the broken ones, and a note on a partial run.
fn promises(run: &RunResult) -> String {
    let mut out = promises::answered(&run.promises);
    if !run.broken.is_empty() {
        out += &format!("broken while it ran: {}\n", run.broken.join(", "));
    }
    if run.partial {
        out += "partial: bounds that rest on open promises do not hold\n";
    }
    out
}

/// The scheduler of the run, or its engine and event.
fn by(run: &RunResult) -> String {
    if run.levels.is_some() {
        format!("{} scheduler", run.scheme.name())
    } else if let Some(vcpus) = &run.vcpus {
        format!("VCPUs, background {}", vcpus.background)
    } else if let Some(r) = &run.regulation {
        format!("{} engine, {} per {} us", r.engine, r.event, r.period_ns / 1000)
    } else {
        "nothing regulated".to_owned()
    }
}

/// A warning that a plan does not keep all deadlines: it may be enforced, but proves none of them.
pub fn unschedulable(plan: &Plan) -> Option<String> {
    if plan.schedulable {
        return None;
    }
    let names: Vec<&str> =
        plan.tasks.iter().filter(|t| !t.schedulable).map(|t| t.name.as_str()).collect();
    let of = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    Some(format!(
        "the plan is not schedulable: deadlines may be missed{of}; `solocore plan` names changes \
            that help"
    ))
}

/// A heading and rows, as a table after an empty line.
fn shown(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let head = head.iter().map(|&h| h.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    format!("\n{}", table::render(&rows))
}

/// A budget of accesses.
pub fn limit(budget: u64) -> String {
    if budget == u64::MAX { "none".to_owned() } else { budget.to_string() }
}

/// A budget as bandwidth in MB/s; a dash where the event counts no accesses, or there is no limit.
pub fn bandwidth(budget: u64, period_ns: u64, stands_in: bool) -> String {
    if budget == u64::MAX || stands_in || period_ns == 0 {
        return "-".to_owned();
    }
    let bytes = budget as f64 * machine::cache_line() as f64;
    format!("{:.1}", bytes * 1e3 / period_ns as f64)
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

fn regulation(r: &RunRegulation) -> String {
    let head = [
        "CPU",
        "budget",
        "MB/s",
        "sample",
        "periods",
        "throttled",
        "time %",
        "max",
        "over",
        "skipped",
        "longest ms",
    ];
    let rows = r.cores.iter().map(|c| {
        vec![
            c.cpu.to_string(),
            limit(c.budget),
            bandwidth(c.budget, r.period_ns, r.stands_in),
            c.sample.to_string(),
            c.periods.to_string(),
            c.throttled_periods.to_string(),
            format!("{:.1}", 100.0 * c.throttled_share),
            c.max_accesses_per_period.to_string(),
            c.periods_over_budget.to_string(),
            c.periods_skipped.to_string(),
            format!("{:.3}", c.longest_period_ns as f64 / 1e6),
        ]
    });
    shown(&head, rows).trim_start().to_owned() + &writes(r) + &split(r)
}

/// The owners of the accesses of periods over budget, if there were any.
fn split(r: &RunRegulation) -> String {
    let over = r.cores.iter().filter(|c| c.periods_over_budget > 0);
    let rows: Vec<Vec<String>> = over
        .filter_map(|c| Some((c.cpu, c.split?)))
        .map(|(cpu, s)| {
            let numbers = [
                s.periods_over_budget_limited,
                s.periods_over_budget_before_stop,
                s.max_limited_per_period,
                s.max_after_stop_per_period,
                s.max_exempt_per_period,
            ];
            std::iter::once(u64::from(cpu)).chain(numbers).map(|n| n.to_string()).collect()
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "CPU",
        "over by programs",
        "before a stop",
        "max of programs",
        "max after a stop",
        "max of exempt threads",
    ];
    shown(&head, rows)
}

/// Writes, where they are counted apart.
fn writes(r: &RunRegulation) -> String {
    let Some(event) = &r.write_event else { return String::new() };
    let head = ["CPU", "write budget", "sample", "writes", "max", "over"];
    let rows = r.cores.iter().filter_map(|c| Some((c.cpu, c.writes?))).map(|(cpu, w)| {
        let numbers =
            [w.write_sample, w.writes, w.max_writes_per_period, w.periods_over_write_budget];
        let numbers = numbers.map(|n| n.to_string());
        [cpu.to_string(), limit(w.write_budget)].into_iter().chain(numbers).collect()
    });
    format!("{}writes are {event}\n", shown(&head, rows))
}

fn level_tasks(run: &RunResult, levels: &RunLevels) -> String {
    let head = [
        "task",
        "level",
        "core",
        "how",
        "jobs",
        "done",
        "skipped",
        "overruns",
        "missed",
        "start us",
        "longest ms",
        "tardy ms",
        "bound ms",
        "charged ms",
    ];
    let rows = levels.tasks.iter().map(|t| {
        let some = |ns: u64| table::ms((t.completed > 0).then_some(ns));
        let planned = run.plan.as_ref().and_then(|p| p.tasks.iter().find(|p| p.name == t.name));
        vec![
            t.name.clone(),
            t.level.clone(),
            t.core.map_or("all".to_owned(), |c| c.to_string()),
            t.how.clone(),
            t.jobs.to_string(),
            t.completed.to_string(),
            t.skipped.to_string(),
            t.overruns.to_string(),
            t.late.to_string(),
            us(t.max_start_late_ns),
            some(t.max_response_ns),
            some(t.max_tardiness_ns),
            table::ms(planned.and_then(|p| p.tardiness_ns)),
            some(t.max_charged_ns),
        ]
    });
    shown(&head, rows).trim_start().to_owned()
}

fn level_cpus(levels: &RunLevels) -> String {
    let head =
        ["CPU", "decisions", "mean us", "longest us", "timer late us", "intrusions", "lost ms"];
    let row = |c: &RunLevelCpu| {
        vec![
            c.cpu.to_string(),
            c.decisions.to_string(),
            us(c.mean_decision_ns),
            us(c.max_decision_ns),
            us(c.max_timer_late_ns),
            c.intrusions.to_string(),
            format!("{:.3}", c.intruder_ns as f64 / 1e6),
        ]
    };
    shown(&head, levels.cpus.iter().map(row))
        + &intruders("levels", levels.intruders.iter().map(RunLevelIntruder::text))
}

/// Real-time threads beside a scheduler, a line each.
fn intruders(beside: &str, all: impl Iterator<Item = String>) -> String {
    all.map(|text| format!("real-time thread beside the {beside}: {text}\n")).collect()
}

/// Observations of a scheduler of VCPUs.
pub fn vcpus(v: &RunVcpus) -> String {
    vcpus_list(&v.vcpus)
        + &vcpu_cpus(&v.cpus)
        + &v.throttling.as_ref().map_or_else(String::new, RunThrottling::text)
        + &v.migration.as_ref().map_or_else(String::new, RunMigration::text)
        + &intruders("VCPUs", v.intruders.iter().map(RunVcpuIntruder::text))
}

/// VCPUs, a line each.
pub fn vcpus_list(vcpus: &[RunVcpu]) -> String {
    let head =
        ["VCPU", "id", "core", "C ms", "T ms", "state", "foreground ms", "background ms", "moves"];
    let counted = vcpus.iter().any(|v| v.requests_per_ms.is_some());
    let head: Vec<&str> = head.into_iter().chain(counted.then_some("requests a ms")).collect();
    let row = |v: &RunVcpu| {
        let row = [
            v.name.clone(),
            v.id.to_string(),
            v.core.to_string(),
            table::ms(Some(v.capacity_ns)),
            table::ms(Some(v.period_ns)),
            v.state.clone(),
            table::ms(Some(v.foreground_ns)),
            table::ms(Some(v.background_ns)),
            v.moves.to_string(),
        ];
        let requests = counted.then(|| v.requests_per_ms.unwrap_or(0).to_string());
        row.into_iter().chain(requests).collect()
    };
    shown(&head, vcpus.iter().map(row)).trim_start().to_owned()
}

fn vcpu_cpus(cpus: &[RunVcpuCpu]) -> String {
    let head = [
        "CPU",
        "switches",
        "late",
        "longest us",
        "strays",
        "moves",
        "background ms",
        "real-time ms",
    ];
    let row = |c: &RunVcpuCpu| {
        vec![
            c.cpu.to_string(),
            c.switches.to_string(),
            c.late.to_string(),
            us(c.longest_late_ns),
            c.strays.to_string(),
            c.moves.to_string(),
            table::ms(Some(c.background_ns)),
            table::ms(Some(c.intruder_ns)),
        ]
    };
    shown(&head, cpus.iter().map(row))
}

/// Tasks that solocore ran; empty if there were none.
fn tasks<'a>(tasks: impl Iterator<Item = &'a RunTask>) -> String {
    let run: Vec<&RunTask> = tasks.filter(|t| t.how != "not run").collect();
    if run.is_empty() {
        return String::new();
    }
    let head = [
        "task",
        "core",
        "how",
        "scheduling",
        "jobs",
        "failed",
        "missed",
        "longest ms",
        "mean ms",
        "CPU ms",
    ];
    let row = |t: &RunTask| {
        let some = |ns: u64| table::ms((t.jobs > 0).then_some(ns));
        vec![
            t.name.clone(),
            t.core.to_string(),
            t.how.clone(),
            scheduling(t),
            t.jobs.to_string(),
            t.failed.to_string(),
            t.misses_deadline.to_string(),
            some(t.max_response_ns),
            some(t.mean_response_ns),
            some(t.max_cpu_ns),
        ]
    };
    shown(&head, run.into_iter().map(row))
}

fn scheduling(t: &RunTask) -> String {
    match (t.fifo, t.rank) {
        (Some(priority), _) => format!("fifo {priority}"),
        (None, Some(rank)) => format!("rank {rank}"),
        (None, None) => "normal".to_owned(),
    }
}

/// Windows that were kept by stopping jobs; empty without partitions.
fn windows(windows: &[RunWindow]) -> String {
    if windows.is_empty() {
        return String::new();
    }
    let row = |w: &RunWindow| {
        let late = [us(w.max_start_late_ns), us(w.max_late_ns)];
        let read = [w.prefetched_pages.to_string(), us(w.max_prefetch_ns)];
        let what = [w.partition.clone(), w.core.to_string(), w.windows.to_string()];
        what.into_iter().chain(late).chain(read).collect()
    };
    let head = [
        "partition",
        "core",
        "windows",
        "begun late us",
        "stopped late us",
        "pages read",
        "longest read us",
    ];
    shown(&head, windows.iter().map(row))
}

/// Groups that the hardware gave shares; empty without any.
fn groups(groups: &[RunGroup]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let some =
        |n: Option<u64>, unit: f64| n.map_or("-".to_owned(), |n| format!("{:.1}", n as f64 / unit));
    let row = |g: &RunGroup| {
        let exclusive = if g.exclusive { "yes" } else { "no" }.to_owned();
        let (held, moved) = (some(g.occupancy_bytes, 1024.0), some(g.total_bytes, 1e6));
        vec![g.group.clone(), g.schemata.join(" "), exclusive, held, moved]
    };
    shown(&["group", "shares", "exclusive", "held KiB", "transferred MB"], groups.iter().map(row))
}

/// Observations by probes; empty without any.
fn functions(seen: &[RunFunctions]) -> String {
    if seen.is_empty() {
        return String::new();
    }
    let head = ["task", "of", "is a", "calls", "within", "left", "mean us", "max us"];
    let row = |f: &RunFunctions| {
        let of = if f.functions.is_empty() { "wakeups".to_owned() } else { f.functions.join(", ") };
        vec![
            f.task.clone(),
            of,
            f.what.clone(),
            f.calls.to_string(),
            f.nested.to_string(),
            f.abandoned.to_string(),
            us(f.sum_ns / f.calls.max(1)),
            us(f.longest_ns),
        ]
    };
    shown(&head, seen.iter().map(row))
}

/// Tasks in their colours and banks; empty without any.
fn coloured(tasks: &[RunColoured]) -> String {
    if tasks.is_empty() {
        return String::new();
    }
    let head = ["task", "colours", "banks", "processes", "pages", "wrong", "moved back"];
    let list = |of: Option<(u32, u32)>| {
        of.map_or("any".to_owned(), |(first, n)| format!("{first}-{}", (first + n).max(1) - 1))
    };
    let row = |t: &RunColoured| {
        let numbers = [t.processes, t.pages, t.wrong, t.moved_back].map(|n| n.to_string());
        [t.task.clone(), list(t.colours), list(t.banks)].into_iter().chain(numbers).collect()
    };
    let faults = tasks.iter().flat_map(|t| t.faults.iter().map(move |f| (&t.task, f)));
    let faults: String = faults.map(|(task, fault)| format!("task {task}: {fault}\n")).collect();
    shown(&head, tasks.iter().map(row)) + &faults
}

/// Locked pages; empty without any.
fn locked(runs: &[RunLocked]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let head = [
        "locked pages of",
        "planned",
        "found",
        "used",
        "moved",
        "verified",
        "reads",
        "ns a page",
        "processes",
    ];
    let some = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let row = |r: &RunLocked| {
        let pages = [Some(r.pages), Some(r.found), Some(r.present), r.moved, r.verified];
        let reads = [r.reads, r.mean_read_ns, r.processes];
        let numbers = pages.into_iter().chain(reads.map(Some)).map(some);
        std::iter::once(r.task.clone()).chain(numbers).collect()
    };
    let faults = runs.iter().filter_map(|r| Some((&r.task, r.fault.as_ref()?)));
    let faults: String = faults.map(|(task, fault)| format!("task {task}: {fault}\n")).collect();
    shown(&head, runs.iter().map(row)) + &faults
}

/// Input and output of the time table; empty without any.
fn transfers(run: &RunResult) -> String {
    if run.transfers.is_empty() {
        return String::new();
    }
    let head =
        ["transfer", "on", "slots", "begun", "late", "missed", "no driver", "start us", "over us"];
    let row = |t: &RunTransfer| {
        let some = |ns: u64| if t.begun > 0 { us(ns) } else { "-".to_owned() };
        let numbers = [t.slots, t.begun, t.late, t.missed, t.unattended].map(|n| n.to_string());
        let names = [t.name.clone(), t.resource.clone()];
        names
            .into_iter()
            .chain(numbers)
            .chain([some(t.max_start_late_ns), some(t.max_end_late_ns)])
            .collect()
    };
    let alone = run.unattended().map_or_else(String::new, |text| format!("{text}\n"));
    shown(&head, run.transfers.iter().map(row)) + &alone
}

fn lock(lock: &RunLock) -> String {
    if lock.cores.is_empty() {
        return String::new();
    }
    let rows = lock.cores.iter().map(|c| {
        [u64::from(c.cpu), c.held_periods, c.stops, c.early_releases]
            .map(|n| n.to_string())
            .to_vec()
    });
    shown(&["CPU", "periods with a lock", "stopped by it", "freed early"], rows)
}
