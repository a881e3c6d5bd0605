//! The output of `solocore run --dry-run`, for people.

use crate::commands::promises;
use crate::commands::run_text::{bandwidth, limit};
use crate::table;
use solocore_linux::daemon::{IsolationPreview, LevelPreview, Preview, RegulationPreview};
use solocore_linux::host::machine::cpu_list;
use solocore_model::plan::PlanVcpu;

/// The text of a preview.
pub fn text(preview: &Preview) -> String {
    let mut out = preview.regulation.as_ref().map_or_else(String::new, regulation);
    out += &preview.levels.as_deref().map_or_else(String::new, levels);
    for t in &preview.tables {
        out +=
            &format!("core {}: {} slots in {:.3} ms\n", t.core, t.slots, t.frame_ns as f64 / 1e6);
    }
    out += &preview.vcpus.as_deref().map_or_else(String::new, vcpus);
    out += &preview.isolation.as_ref().map_or_else(String::new, isolation);
    out += &promises::answered(&preview.promises);
    for note in &preview.notes {
        out += &format!("note: {note}\n");
    }
    out + "nothing was changed\n"
}

fn regulation(r: &RegulationPreview) -> String {
    let apart = r.cores.iter().any(|c| c.writes.is_some());
    let head = ["CPU", "planned", "MB/s", "budget", "sample", "write budget", "write sample"];
    let columns = if apart { head.len() } else { 5 };
    let mut rows = vec![head[..columns].iter().map(|&h| h.to_owned()).collect::<Vec<_>>()];
    for c in &r.cores {
        let mut row = vec![
            c.cpu.to_string(),
            c.planned.to_string(),
            bandwidth(c.planned, r.period_ns, false),
            limit(c.budget),
            c.sample.to_string(),
        ];
        row.extend(
            c.writes.iter().flat_map(|w| [limit(w.write_budget), w.write_sample.to_string()]),
        );
        rows.push(row);
    }
    let tried = r.self_test_made.zip(r.self_test_counted);
    let tried = tried.map_or_else(String::new, |(made, counted)| {
        format!("; of {made} made, {counted} were counted")
    });
    let why = r
        .sched_ext
        .as_ref()
        .filter(|_| r.engine == "helper")
        .map_or_else(String::new, |why| format!(" ({why})"));
    let (event, engine) = (&r.event, r.engine);
    table::render(&rows)
        + &format!("\n{event} per {} us{tried}; engine: {engine}{why}\n", r.period_ns / 1000)
}

fn levels(tasks: &[LevelPreview]) -> String {
    let mut rows =
        vec![["task", "level", "core", "period ms", "PET ms", "how"].map(str::to_owned).to_vec()];
    for t in tasks {
        let time = |ns: u64| table::ms((ns > 0).then_some(ns));
        let row =
            [&t.task, t.level, &t.core.to_string(), &time(t.period_ns), &time(t.pet_ns), t.how];
        rows.push(row.map(str::to_owned).to_vec());
    }
    table::render(&rows)
}

fn vcpus(vcpus: &[PlanVcpu]) -> String {
    let mut rows =
        vec![["VCPU", "core", "C ms", "T ms", "response ms", "tasks"].map(str::to_owned).to_vec()];
    rows.extend(vcpus.iter().map(|v| {
        let times = [Some(v.capacity_ns), Some(v.period_ns), v.response_ns].map(table::ms);
        let names = [v.name.clone(), v.core.to_string()];
        names.into_iter().chain(times).chain([v.tasks.join(" ")]).collect()
    }));
    table::render(&rows) + "\n"
}

fn isolation(preview: &IsolationPreview) -> String {
    let list =
        |numbers: &[u32]| if numbers.is_empty() { "none".to_owned() } else { cpu_list(numbers) };
    let mut out = format!("cores of analysed tasks: {}\n", list(&preview.hard_cores));
    for (name, core, fifo, how) in &preview.tasks {
        let scheduling =
            fifo.map_or("as an ordinary task".to_owned(), |p| format!("SCHED_FIFO {p}"));
        let (what, how) = if *how == "driver" { ("driver", "started") } else { ("task", *how) };
        out += &format!("{what} {name} on core {core}, {scheduling}: would be {how}\n");
    }
    out += &format!(
        "interrupts that would be moved to CPU {}: {}\n",
        preview.irq_cpu,
        list(&preview.irqs)
    );
    if let Some(confine) = &preview.confine {
        out += &format!(
            "other programs that would be kept off: {} threads by affinity, control groups {}; threads that \
                are bound there and would stay: {}\n",
            confine.threads,
            if confine.groups.is_empty() { "none".to_owned() } else { confine.groups.join(", ") },
            confine.bound.len()
        );
    }
    out
}
