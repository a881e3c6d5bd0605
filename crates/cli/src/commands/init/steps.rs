//! Next steps after `init`, as command lines.
//!
//! Problem: a run is refused while nobody keeps a promise of its plan, or where no access can be
//! counted. Rule: the lines have the options that this machine needs, as far as they are known
//! without a plan. `doctor --plan` names the others.
//! Does not cover: a board elsewhere; its `doctor` tells.

use super::place::Place;
use crate::table;
use solocore_linux::count::misses_event;
use solocore_linux::host::{machine, prefetch};
use std::path::Path;

/// Facts that the steps depend on.
pub struct Outcome<'a> {
    /// Directory of profiles, if the user names one.
    pub profiles: Option<&'a Path>,
    /// Whether the plan is for this machine.
    pub here: bool,
    /// Whether the example is the only task.
    pub example: bool,
}

/// The lines, one command each.
pub fn next(place: &Place, outcome: &Outcome) -> String {
    let path = |name: &str| quoted(&place.beside(name));
    let system = quoted(&place.system);
    let (plan, sim, run) = (path("plan.json"), path("sim.json"), path("run.json"));
    let store =
        outcome.profiles.map_or_else(String::new, |dir| format!(" --profiles {}", quoted(dir)));
    let machine = if outcome.here { "on this machine" } else { "on the board itself" };
    let machine = format!("{machine}; you vouch for the promises of --vouch (docs/promises.md)");
    let needs = needs(outcome.here);
    let report = path("report.html");
    let measure = (
        format!("sudo solocore platform measure {}", quoted(&place.machine())),
        "measures the numbers that are only assumed",
    );
    let lines = [
        (format!("solocore plan {system} -o {plan}{store}"), "decides, and bounds each task"),
        (format!("solocore sim {plan} -o {sim}"), "on a simulated board"),
        (
            format!("sudo solocore doctor --plan {plan}"),
            "names promises that nobody keeps; give --vouch for each",
        ),
        (format!("sudo solocore run {plan} --start{needs} -o {run}"), machine.as_str()),
        (
            format!("sudo solocore verify {plan}{needs}"),
            "each task under attack, beside its promise",
        ),
        (format!("solocore report {plan} {sim} {run} -o {report}"), "one page with all results"),
    ];
    let first = outcome.here.then_some(measure);
    let lines: Vec<(String, &str)> = first.into_iter().chain(lines).collect();
    let width = lines.iter().map(|(line, _)| table::width(line)).max().unwrap_or(0);
    let line =
        |(line, what): &(String, &str)| format!("  {}   # {what}\n", table::padded(line, width));
    let edit = if outcome.example {
        format!("  put your task in the place of the example in {}\n", place.system.display())
    } else {
        String::new()
    };
    format!("next:\n{edit}{}", lines.iter().map(line).collect::<String>())
}

/// Options that a run needs: promises that only the user can keep, and an event that stands in
/// where this machine counts no accesses. No bound holds with such an event.
fn needs(here: bool) -> String {
    let mut options = " --vouch devices".to_owned();
    if !here {
        return options;
    }
    if prefetch::is_unknown_here() {
        options += " --vouch prefetchers";
    }
    // Others than root cannot try whether this CPU counts.
    let event = machine::check_privileges().and_then(|()| misses_event(None));
    if event.is_ok_and(|(_, stands_in)| stands_in.is_some()) {
        options += " --event page-faults --partial";
    }
    options
}

/// A path quoted as one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    shlex::try_quote(&text).map_or_else(|_| text.clone(), std::borrow::Cow::into_owned)
}
