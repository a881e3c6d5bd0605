//! A profile for people.

use crate::table;
use solocore_model::Profile;
use solocore_model::platform::Isa;
use solocore_model::profile::{
    AddressSamples, FunctionProfile, Measured, Quantity, Raised, best_to_lock,
};
use std::collections::BTreeMap;
use std::path::Path;

/// The summary on stderr.
pub fn summarise(p: &Profile, out: &Path) {
    eprintln!("solocore: {} instructions, {} loads, {} stores", p.instructions, p.loads, p.stores);
    for level in &p.levels {
        let rate = 100.0 * level.misses as f64 / level.accesses.max(1) as f64;
        eprintln!(
            "  {:4} {:>14} accesses {:>12} misses ({rate:.2} %) {:>12} write-backs",
            level.name, level.accesses, level.misses, level.writebacks
        );
    }
    eprintln!(
        "  working set {} pages, {} bytes in touched lines",
        p.working_set.pages, p.working_set.bytes
    );
    let useful = p.lockdown.len().saturating_sub(1);
    let points: Vec<String> = [0, useful / 8, useful / 4, useful / 2, useful]
        .iter()
        .map(|&k| format!("{k}: {}", p.residual_misses(k)))
        .collect();
    eprintln!("  misses left with pages locked: {}", points.join(", "));
    let hot: Vec<String> =
        p.pages.iter().take(5).map(|h| format!("{}+{}", h.name.region, h.name.offset)).collect();
    eprintln!("  hottest pages: {}", hot.join(", "));
    say_functions(p);
    eprintln!(
        "  {} thread(s), {} child process(es){}",
        p.threads,
        p.children,
        if p.children > 0 { ", included, one after the other" } else { "" }
    );
    for worst in &p.origin.worst {
        if let Some(input) = p.origin.inputs.get(worst.input) {
            let (number, arguments) = (worst.input + 1, input.arguments.join(" "));
            eprintln!("  worst {}: input {number} ({arguments})", worst.quantity);
        }
    }
    if !p.origin.rests_on.not_covered.is_empty() {
        eprintln!("  not covered by its files: {}", p.origin.rests_on.not_covered.join(", "));
    }
    if p.trace.as_ref().is_some_and(|t| t.truncated) {
        let cut = p
            .trace
            .as_ref()
            .filter(|t| t.truncated)
            .map(|t| format!("the trace was cut after {} accesses; ", t.records));
        eprintln!("  note: {}", cut.unwrap_or_default());
    }
    if let Some(measured) = &p.origin.measured {
        say(measured, &p.origin.raised);
    }
    eprintln!("  written to {}", out.display());
}

/// The functions with the most misses, and the line of a system file that locks the best one.
fn say_functions(p: &Profile) {
    let first = || p.functions.iter().take(5).filter(|f| f.llc_misses > 0);
    for f in first() {
        eprintln!("  {:>5.1} % of misses in {}", 100.0 * f.share, place(f));
    }
    let total: u64 = p.functions.iter().map(|f| f.llc_misses).sum();
    if total == 0 {
        return;
    }
    if let Some((f, calls)) = best_to_lock(&p.functions) {
        let name = f.lock.as_deref().unwrap_or_default();
        eprintln!(
            "  lock = [\"{name}\"]   # {:.1} % of misses; its {} call(s) hold the lock for {}, the \
                longest for {}",
            100.0 * calls.llc_misses as f64 / total as f64,
            calls.calls,
            milliseconds(calls.held_ns),
            milliseconds(calls.longest_ns)
        );
    } else {
        eprintln!(
            "  {}; `solocore exec --lock` holds the lock for the whole program",
            no_best(p.isa)
        );
    }
    // Reasons for small shares would be longer than the list.
    for why in first().filter(|f| f.share >= 0.05).filter_map(|f| f.no_lock.as_ref()) {
        eprintln!("  no lock: {why}");
    }
    if p.origin.chains_cut {
        eprintln!("  note: there was no room for all chains of calls, so some callers are missing");
    }
}

/// Reason why there is no best function to lock.
fn no_best(isa: Isa) -> &'static str {
    match isa {
        Isa::Arm => "the calls of programs for 32-bit Arm are not known, so no function is chosen",
        _ => "no function but main covers misses and has a symbol of its own",
    }
}

/// The function, its file, and its callers with their parts of its misses.
fn place(f: &FunctionProfile) -> String {
    let mut callers: BTreeMap<&str, u64> = BTreeMap::new();
    for chain in &f.callers {
        if let Some(last) = chain.functions.last() {
            *callers.entry(last).or_default() += chain.llc_misses;
        }
    }
    let mut callers: Vec<(&str, u64)> = callers.into_iter().collect();
    callers.sort_by_key(|(_, misses)| std::cmp::Reverse(*misses));
    let part = |misses: u64| 100.0 * misses as f64 / f.llc_misses.max(1) as f64;
    let parts = callers.iter().take(3).map(|(name, n)| format!("{name} {:.0} %", part(*n)));
    let parts: Vec<String> = parts.collect();
    match &f.inlined_into {
        Some(into) => format!("{}, inlined into {into} ({})", f.name, f.file),
        None if parts.is_empty() => format!("{} ({})", f.name, f.file),
        None => format!("{} ({}), called by {}", f.name, f.file, parts.join(", ")),
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// Observations of counters.
fn say(measured: &Measured, raised: &Raised) {
    let what = match measured.jobs_are.as_str() {
        "process" if measured.cold => "caches swept before each job",
        "process" => "caches as the previous job left them",
        "run" => "jobs of a run of the plan",
        "sim" => "jobs of a simulation",
        inside => &format!("jobs are {inside}"),
    };
    let kind = measured.core_type.as_ref();
    eprintln!(
        "measured on CPU {}{} of {}, {}, {what}",
        measured.cpu,
        kind.map_or_else(String::new, |kind| format!(" (core type `{kind}`)")),
        measured.machine,
        measured.date
    );
    for input in &measured.inputs {
        if measured.inputs.len() > 1 || !input.arguments.is_empty() {
            eprintln!("  with {}", input.arguments.join(" "));
        }
        let head = ["", "event", "jobs", "min", "p50", "p90", "p99", "max", "1e-6 *"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(input.quantities.iter().map(row));
        for line in table::render(&rows).lines() {
            eprintln!("  {line}");
        }
        for q in &input.quantities {
            if let Some(other) = &q.stands_in {
                eprintln!("  note: {other} stand in for {}; they do not raise the profile", q.name);
            }
        }
        if let Some(why) = input.quantities.iter().find_map(|q| q.no_extreme.as_ref()) {
            eprintln!("  * {why}");
        } else {
            eprintln!(
                "  * exceeded by one job in a million, by an extreme-value distribution; \
                    \"?\": a test contradicts it. No bound rests on it."
            );
        }
    }
    for samples in measured.inputs.iter().filter_map(|input| input.addresses.as_ref()) {
        say_sampled(samples);
    }
    eprintln!(
        "  raised over the emulator: {} cycles, {} reads, {} writes",
        raised.private_cycles, raised.reads, raised.writes
    );
    for note in &measured.notes {
        eprintln!("  note: {note}");
    }
}

/// Samples of addresses.
fn say_sampled(s: &AddressSamples) {
    eprintln!(
        "  {} samples of addresses, one of {} {}; {} elsewhere, {} lost; {} on pages of the profile",
        s.samples, s.period, s.event, s.elsewhere, s.lost, s.matched
    );
    let place = |rank: Option<u64>| rank.map_or_else(|| "not there".to_owned(), |r| r.to_string());
    let hot =
        s.pages.iter().take(5).map(|p| {
            format!("{}+{} ({}; {})", p.name.region, p.name.offset, p.samples, place(p.rank))
        });
    let hot: Vec<String> = hot.collect();
    eprintln!("  hottest pages by samples (and place in the profile): {}", hot.join(", "));
    if let Some(other) = &s.stands_in {
        eprintln!("  note: {other}, stand in for accesses to memory");
    }
}

fn row(q: &Quantity) -> Vec<String> {
    let rare = q.extreme.as_ref().map_or_else(String::new, |e| {
        let value = e.exceeded.iter().find(|(chance, _)| *chance <= 1e-6).map(|(_, v)| *v);
        let doubt = if e.plausible { "" } else { "?" };
        value.map_or_else(String::new, |v| format!("{v}{doubt}"))
    });
    let numbers = [q.jobs, q.min, q.p50, q.p90, q.p99, q.max].map(|n| n.to_string());
    let mut row = vec![q.name.clone(), q.event.clone()];
    row.extend(numbers);
    row.push(rare);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_calls_are_not_taken_for_missing_symbols() {
        assert!(no_best(Isa::Arm).contains("calls of programs for 32-bit Arm are not known"));
        assert!(no_best(Isa::Aarch64).contains("symbol"));
    }
}
