//! The text of a plan with criticality levels.

use crate::commands::promises;
use crate::table;
use solocore_model::Plan;
use solocore_model::plan::Verdict;
use solocore_model::plan::levels::{LevelsPets, LevelsPlan, Method};
use solocore_model::system::Criticality;
use std::collections::HashMap;

pub fn text(plan: &Plan, levels: &LevelsPlan, explain: bool) -> String {
    let mut out = tasks(plan, levels);
    out.push('\n');
    out += &regions(plan, levels);
    out.push('\n');
    out += &buffers(levels);
    // The single choices are long; --explain prints them.
    let choice = |reason: &String| levels.choices.iter().any(|c| *reason == c.line());
    for reason in plan.reasons.iter().filter(|r| explain || !choice(r)) {
        out += &format!("- {reason}\n");
    }
    if explain {
        for task in &plan.tasks {
            if let Some(derivation) = &task.derivation {
                out += &format!("\n{}\n{derivation}", task.name);
            }
        }
        if let Some(derivation) = &levels.derivation {
            out += &format!("\nverdict (times in femtoseconds)\n{derivation}");
        }
    }
    out += &promises::of_plan(plan);
    out += if plan.schedulable { "\nschedulable\n" } else { "\nNOT schedulable\n" };
    out
}

fn tasks(plan: &Plan, levels: &LevelsPlan) -> String {
    let head = [
        "task",
        "level",
        "core",
        "ways",
        "alone ms",
        "mu",
        "PET ms",
        "period ms",
        "response ms",
        "tardy ms",
        "verdict",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let all: HashMap<&str, &LevelsPets> =
        levels.pets.iter().map(|p| (p.task.as_str(), p)).collect();
    for t in &plan.tasks {
        let pets = all.get(t.name.as_str());
        let pet = pets.map(|p| match t.criticality {
            Criticality::A => p.a_ns,
            Criticality::B => p.b_ns,
            Criticality::C | Criticality::D => p.c_ns,
        });
        rows.push(vec![
            t.name.clone(),
            format!("{:?}", t.criticality),
            if t.criticality == Criticality::C { "all".to_owned() } else { t.core.to_string() },
            pets.map_or("-".to_owned(), |p| p.ways.to_string()),
            table::ms(Some(t.wcet_ns)),
            t.misses.to_string(),
            table::ms(pet),
            table::ms(t.period_ns),
            table::ms(t.wcrt_ns),
            table::ms(t.tardiness_ns),
            table::verdict(Verdict::of(t)),
        ]);
    }
    table::render(&rows)
}

fn regions(plan: &Plan, levels: &LevelsPlan) -> String {
    let head = ["region", "ways", "bank", "A (A-PETs)", "A+B (B-PETs)", "C-PETs"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let ways = |w: solocore_model::plan::levels::Ways| match w.count {
        0 => "none".to_owned(),
        1 => w.first.to_string(),
        n => format!("{}-{}", w.first, w.first + n - 1),
    };
    for core in &levels.cores {
        let load = |u: f64| format!("{:.1} %", u * 100.0);
        rows.push(vec![
            format!("core {}", core.id),
            ways(core.ways),
            core.bank.to_string(),
            load(core.level_a),
            load(core.level_b),
            load(core.level_c),
        ]);
    }
    let dash = || "-".to_owned();
    rows.push(vec![
        "locked buffers".to_owned(),
        ways(levels.locked_ways),
        dash(),
        dash(),
        dash(),
        dash(),
    ]);
    let banks = format!("{}-{}", levels.cores.len(), plan.platform.total_banks().saturating_sub(1));
    let load = format!("{:.1} %", levels.level_c_utilization * 100.0);
    rows.push(vec![
        "level C and the OS".to_owned(),
        ways(levels.level_c_ways),
        banks,
        dash(),
        dash(),
        load,
    ]);
    table::render(&rows)
}

fn buffers(levels: &LevelsPlan) -> String {
    let mut rows = vec![["buffer", "bytes", "where"].map(str::to_owned).to_vec()];
    for m in &levels.messages {
        let place = match (m.method, m.bank) {
            (Method::Together, Some(bank)) => format!("CE: bank {bank}"),
            (Method::Together, None) => "CE".to_owned(),
            (Method::Locked, _) => "CL: locked in the cache".to_owned(),
            (Method::Bypass, _) => "SBP: level C's banks, uncacheable".to_owned(),
            (Method::LevelC, _) => "level C's banks".to_owned(),
        };
        rows.push(vec![format!("{} to {}", m.from, m.to), m.bytes.to_string(), place]);
    }
    for io in &levels.io {
        let place = io.bank.map_or("level C's banks".to_owned(), |bank| format!("bank {bank}"));
        rows.push(vec![format!("{} of {}", io.device, io.task), io.bytes.to_string(), place]);
    }
    if rows.len() == 1 {
        return String::new();
    }
    table::render(&rows) + "\n"
}
