//! Tests of the events that count accesses to memory, on this machine.
//!
//! Problem: an event that leaves traffic out limits less traffic than a plan's bounds assume.
//! Rule: the table of events lists the traffic that each leaves out on each type of CPU; where an
//! event opens, known traffic of several kinds is made and counted.
//! Source: docs/events.md.
//! Does not cover: uncore counters (latency/).

use crate::error::LinuxError;
use crate::host::finding::Finding;
use crate::host::machine;
use crate::regulate::event::{Counted, CpuType, Event, Row, Tried, TriedCpu, TriedOn};
use solocore_model::list;

/// The event behind `llc-misses` on each type of CPU.
pub(super) fn cpu_types(types: &[CpuType]) -> Vec<Finding> {
    const UNKNOWN: &str =
        "the table of events lacks it; give its event for last-level misses as --event rHEX";
    if types.is_empty() {
        return vec![Finding::new("cpu", false, UNKNOWN)];
    }
    let several = types.len() > 1;
    let of = |t: &CpuType| {
        let which = if several { format!("{}: ", t.cpus()) } else { String::new() };
        match t.row {
            Some(row) => {
                let (title, event) = (row.title, row.event);
                let found = format!("{which}{title}: llc-misses is {}, {event}", row.spelling());
                Finding::new("cpu", true, found)
            }
            None => Finding::new("cpu", false, format!("{which}{UNKNOWN}")),
        }
    };
    types.iter().map(of).collect()
}

/// The traffic that an event leaves out, on CPUs of each type.
pub(super) fn left_out(event: &Event) -> Vec<Finding> {
    let several = event.known().len() > 1;
    let of = |t: &CpuType| {
        let which = if several { format!("{}: ", t.cpus()) } else { String::new() };
        let (good, text) = t.row.map_or_else(|| (false, not_in_the_table()), missed);
        Finding::new("traffic", good, format!("{which}{} {text}", event.name()))
    };
    event.known().iter().map(of).collect()
}

fn not_in_the_table() -> String {
    "is not an event of the table, so its traffic is not known; the bounds of a plan hold only if \
    it counts reads, stores and prefetches"
        .to_owned()
}

/// The traffic that an event of the table leaves out, and the consequence for the bounds of a plan.
fn missed(row: &'static Row) -> (bool, String) {
    let (no, unsure) = (row.that_are(Counted::No), row.that_are(Counted::Unknown));
    let text = match (no.as_slice(), unsure.as_slice()) {
        ([], []) => return (true, "counts all traffic of a core".to_owned()),
        ([], _) => format!("may leave out {}", unsure.join(", ")),
        (_, []) => format!("leaves out {}", no.join(", ")),
        _ => format!("does not count {}, and may not count {}", no.join(", "), unsure.join(", ")),
    };
    let mut text = text + ": no budget limits such traffic, and no bound of a plan covers it";
    let mut either = no.iter().chain(&unsure);
    if either.any(|kind| kind.contains("prefetches")) {
        text += "; turn prefetchers off";
    }
    if no.contains(&"write-backs") {
        text += if row.write_backs.is_some() {
            "; give write-backs a budget of their own (--write-event)"
        } else {
            "; write-backs need an event of their own (--write-event)"
        };
    }
    text += "; give an event that counts more as --event rHEX";
    if row.cache_hits == Counted::Yes {
        text += "; it also counts accesses that a cache behind it answers, so budgets are spent \
        sooner";
    }
    (no.is_empty(), text)
}

/// Whether reads and writes can be counted apart, for a plan with budgets of writes.
pub(super) fn write_backs(types: &[CpuType]) -> Option<Finding> {
    let rows: Vec<&Row> = types.iter().map(|t| t.row).collect::<Option<_>>()?;
    let first = rows.first()?;
    Some(match first.write_backs.filter(|_| rows.iter().all(|r| r.write_backs.is_some())) {
        Some((config, name)) => Finding::new(
            "write-backs",
            true,
            format!(
                "r{config:x}, {name}, counts them separately (not tried on hardware), for budgets \
                of writes"
            ),
        ),
        None => Finding::new(
            "write-backs",
            false,
            "this CPU's cores do not count them separately (only its memory controllers do): \
            budgets of writes need --write-event, or --no-write-budgets",
        ),
    })
}

/// Whether an event counts, and the kinds of traffic that it sees.
pub(super) fn counted(event: &Event) -> Vec<Finding> {
    let what = format!("event {}", event.name());
    match event.self_test() {
        Ok((made, counted)) => {
            let use_it =
                if event.is_software() { "; it only stands in for accesses to memory" } else { "" };
            let text = format!("of {made} made, {counted} were counted{use_it}");
            let mut found = vec![Finding::new(&what, true, text)];
            if !event.is_software() {
                let cpus = machine::online_cpus().unwrap_or_default();
                found.push(on_cpus(event.name(), event.self_test_of_cpus(&cpus)));
                found.extend(kinds(event));
            }
            found
        }
        Err(e) => vec![Finding::new(&what, false, e.to_string())],
    }
}

/// Whether the counter of each CPU sees reads.
fn on_cpus(name: &str, tried: Result<Vec<TriedCpu>, LinuxError>) -> Finding {
    let what = format!("counters of {name}");
    let tried = match tried {
        Ok(tried) => tried,
        Err(e) => return Finding::new(&what, false, e.to_string()),
    };
    let failed =
        |(cpu, result): &TriedCpu| Some(format!("CPU {cpu}: {}", result.as_ref()?.as_ref().err()?));
    let mut wrong: Vec<String> = tried.iter().filter_map(failed).collect();
    if !wrong.is_empty() {
        wrong.push("no budget holds there".to_owned());
    }
    let kept_out: Vec<u32> =
        tried.iter().filter(|(_, result)| result.is_none()).map(|(cpu, _)| *cpu).collect();
    if !kept_out.is_empty() {
        wrong.push(format!("not tried, as solocore may not run there: CPU {}", list(&kept_out)));
    }
    if wrong.is_empty() {
        return Finding::new(&what, true, format!("they count reads on {} CPUs", tried.len()));
    }
    Finding::new(&what, false, wrong.join("; "))
}

fn kinds(event: &Event) -> Vec<Finding> {
    let what = format!("seen by {}", event.name());
    let text = |TriedOn { cpu, kinds }: TriedOn| {
        let seen = |t: &Tried| {
            let answer = if t.counts() { "yes" } else { "no" };
            format!("{}: {answer} ({} of {})", t.what, t.counted, t.made)
        };
        let good = kinds.iter().all(Tried::counts);
        let all: Vec<_> = kinds.iter().map(seen).collect();
        let on = cpu.map_or_else(String::new, |cpu| format!("on CPU {cpu}: "));
        let so = if good { "" } else { "; no budget limits accesses that are not counted" };
        Finding::new(&what, good, on + &all.join(", ") + so)
    };
    match event.kinds_counted() {
        Ok(all) => all.into_iter().map(text).collect(),
        Err(e) => vec![Finding::new(&what, false, e.to_string())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulate::event;

    #[test]
    fn a_cpu_whose_counter_fails_is_named() {
        let broken = || Err(LinuxError::Machine("counted 0 where 9 were made".to_owned()));
        let found = on_cpus(
            "r1",
            Ok(vec![(0, Some(Ok((9, 9)))), (3, Some(broken())), (5, Some(broken()))]),
        );
        assert!(
            !found.good && found.found.starts_with("CPU 3: ") && !found.found.contains("CPU 0")
        );
        assert!(found.found.contains("; CPU 5: ") && found.found.contains("no budget holds"));
        let found = on_cpus("r1", Ok(vec![(0, Some(Ok((9, 9)))), (2, None), (7, None)]));
        assert_eq!(found.found, "not tried, as solocore may not run there: CPU 2, 7");
        let found = on_cpus("r1", Ok(vec![(0, Some(Ok((9, 9)))), (1, Some(Ok((9, 8))))]));
        assert_eq!((found.good, found.found.as_str()), (true, "they count reads on 2 CPUs"));
        assert!(!on_cpus("r1", Err(LinuxError::Machine("untested".to_owned()))).good);
    }

    #[test]
    fn what_an_event_misses_is_said_of_each_type() {
        let said = |name: &str, cpuinfo: &str| {
            let found = left_out(&Event::find(name, cpuinfo).unwrap());
            found.into_iter().map(|f| f.found).collect::<Vec<_>>()
        };
        let zen4 = "vendor_id: AuthenticAMD\ncpu family: 25\nmodel: 97\n";
        assert_eq!(
            said("llc-misses", zen4),
            ["llc-misses leaves out instruction fetches, second-level prefetches, non-temporal \
                stores, write-backs: no budget limits such traffic, and no bound of a plan covers \
                it; turn prefetchers off; write-backs need an event of their own (--write-event); \
                give an event that counts more as --event rHEX"]
        );
        assert!(said("r4843", zen4)[0].contains("its traffic is not known"));
        assert!(said("page-faults", zen4).is_empty());
        let part = |cpu: u32, part: &str| {
            format!("processor: {cpu}\nCPU implementer: 0x41\nCPU part: {part}\n\n")
        };
        let both = part(0, "0xd03") + &part(1, "0xd0b");
        let of_each = said("llc-misses", &both);
        assert!(of_each[0].starts_with("CPU 0: ") && of_each[0].contains("of their own"));
        assert!(of_each[1].starts_with("CPU 1: ") && of_each[1].contains("may not count"));
        let cpus: Vec<_> = cpu_types(&event::types(&both)).into_iter().map(|f| f.found).collect();
        assert_eq!(cpus[1], "CPU 1: cortex-a76: llc-misses is r37, LL_CACHE_MISS_RD");
        assert!(write_backs(&event::types(&both)).is_some_and(|f| !f.good), "the A76 has none");
        assert!(write_backs(&event::types(&part(0, "0xd03"))).is_some_and(|f| f.good));
        assert!(!cpu_types(&[])[0].good && write_backs(&[]).is_none());
    }
}
