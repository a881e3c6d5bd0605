//! One self-contained HTML page from a plan and its measurements.
//!
//! Problem: a reader trusts a plan only if its promises, their reasons and the measurements can be
//! compared. The page must be readable years later, by mail, offline, on paper and by screen
//! reader. Rule: everything is inline (CSS, SVG, data). One script of a few kB (`zoom.js`) zooms
//! the timelines; the content security policy names it by its hash, and forbids any other and any
//! request. Without it only the zoom is missing. Every drawn mark carries the number it stands for
//! in a `data-` attribute or as its coordinates. Every chart has its numbers in a table. The plan
//! and the results are embedded whole as JSON. Not covered: computing anything. A bound is shown as
//! the plan states it, a measurement as the simulator states it; the page only shows them side by
//! side and points out contradictions.

mod bargain;
mod bars;
mod contradiction;
mod contradictions;
mod curves;
mod distributions;
mod elements;
mod facts;
mod flame;
mod format;
mod inputs;
mod levels;
mod machine;
mod perfetto;
mod perfetto_run;
mod perfetto_sched;
mod perfetto_vcpus;
mod plan;
mod promises;
mod provenance;
mod regulated;
mod schedulers;
mod svg;
mod timeline;
mod verdict;
mod verification;
mod waterfall;
mod windows;

pub use inputs::{Inputs, Provenance};
pub use perfetto::perfetto;
pub use perfetto_run::{RunTrace, TracedCore, TracedPeriod, TracedTask, perfetto_run};
pub use perfetto_sched::perfetto_sched;
pub use perfetto_vcpus::perfetto_vcpus;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use solocore_model::run::RunResult;
use solocore_model::windows::table::TableFile;
use solocore_model::{Plan, Platform, SimResult};

/// The script that zooms the timelines.
const ZOOM: &str = include_str!("zoom.js");

/// Draws the page: one HTML document that needs no other file.
///
/// `<script type="application/json" id="solocore-data">` holds
/// `{"plan", "solo", "unmanaged", "managed", "even", "run", "verification", "provenance"}` as given
/// (`null` where absent),
/// `id="solocore-curves"` holds the whole lockdown curve of each profiled task by name. Text of the
/// inputs is escaped throughout. A part that cannot be written as JSON (a path that is not UTF-8)
/// is embedded as `null`.
pub fn html(inputs: &Inputs) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(inputs.title))
            body {
                a.skip href="#verdict" { "Skip to the verdict" }
                (svg::definitions(inputs.plan.tasks.len().max(inputs.plan.windows().map_or(0, |s| s.partitions.len()))))
                header {
                    h1 { (inputs.title) } p.muted { (subtitle(inputs.plan)) }
                    p.paper-only { "On paper: the verdict, the charts, the plan and its promises. Lockdown curves, profiles and derivations are on the page." }
                    (contents(inputs))
                }
                main {
                    (verdict::section(inputs))
                    (verification::section(inputs))
                    (bars::section(inputs))
                    (waterfall::section(inputs.plan))
                    (curves::section(inputs))
                    (windows::section(inputs.plan))
                    (timeline::section(inputs))
                    (machine::section(inputs))
                    (plan::section(inputs.plan))
                    (promises::section(inputs))
                    (facts::section(inputs))
                    (assumptions(inputs.plan))
                    (provenance::section(inputs))
                }
                footer.muted {
                    p { "Made by solocore. The plan and the results are embedded in this page as \
                        JSON (" code { "#solocore-data" } ")." }
                }
                (embedded("solocore-data", &data(inputs)))
                (embedded("solocore-curves", &curve_data(inputs)))
                script { (PreEscaped(ZOOM)) }
            }
        }
    };
    page.into_string()
}

/// Draws a page of a time table alone: a file of `solocore schedule-io`. The table is embedded as
/// `solocore-table`.
pub fn table_html(title: &str, table: &TableFile, origin: Option<&Provenance>) -> String {
    let mut names: Vec<&str> = table.activities.iter().map(|r| r.partition.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                (svg::definitions(names.len()))
                header { h1 { (title) } p.muted { (format::plural(format::len(&names), "partition")) } }
                main {
                    section #time-table aria-labelledby="time-table-h" {
                        h2 #time-table-h { "Time table" }
                        (windows::figure(&table.activities, None))
                    }
                    (provenance::of_table(origin))
                }
                footer.muted { p { "Made by solocore. The table is embedded in this page as JSON \
                    (" code { "#solocore-table" } ")." } }
                (embedded("solocore-table", &serde_json::to_value(table).unwrap_or(Value::Null)))
            }
        }
    };
    page.into_string()
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy"
                content=(format!(
                    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; img-src data:; \
                        base-uri 'none'; form-action 'none'",
                    BASE64.encode(Sha256::digest(ZOOM)),
                ));
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content=(concat!("solocore ", env!("CARGO_PKG_VERSION")));
            title { (title) }
            link rel="icon" href="data:,";
            style { (PreEscaped(include_str!("style.css"))) }
        }
    }
}

/// The clocks of the cores, from the slowest to the fastest.
fn clocks(platform: &Platform) -> String {
    let (slowest, fastest) = (platform.frequency, platform.fastest());
    if slowest == fastest { slowest.to_string() } else { format!("{slowest} to {fastest}") }
}

fn subtitle(plan: &Plan) -> String {
    let platform = &plan.platform;
    format!(
        "{}: {} at {}, {} of shared cache; {} on {} in the plan",
        platform.title,
        format::plural(u64::from(platform.cores), "core"),
        clocks(platform),
        platform.llc.size,
        format::plural(format::len(&plan.tasks), "task"),
        format::plural(u64::from(plan.regulation.active_cores), "active core"),
    )
}

fn contents(inputs: &Inputs) -> Markup {
    const SECTIONS: [(&str, &str); 13] = [
        ("verdict", "Verdict"),
        ("verified", "Verified"),
        ("times", "Times"),
        ("gap", "The gap"),
        ("curves", "Lockdown curves"),
        ("time-table", "Time table"),
        ("timeline", "Timeline"),
        ("machine", "On the machine"),
        ("plan", "Plan"),
        ("promises", "Promises"),
        ("profiles", "Profiles"),
        ("assumptions", "Assumptions"),
        ("provenance", "Provenance"),
    ];
    let there = |(id, _): &&(&str, &str)| match *id {
        "machine" => inputs.run.is_some(),
        "verified" => inputs.verification.is_some(),
        "gap" => waterfall::there(inputs.plan),
        "times" => !inputs.plan.tasks.is_empty(),
        "curves" => curves::there(inputs),
        "timeline" => timeline::there(inputs),
        "profiles" => !inputs.profiles.is_empty(),
        "promises" => !inputs.plan.promises.is_empty(),
        "time-table" => inputs.plan.windows().is_some(),
        _ => true,
    };
    html! {
        nav aria-label="Sections" { ul { @for (id, name) in SECTIONS.iter().filter(there) { li { a href=(format!("#{id}")) { (name) } } } } }
    }
}

fn assumptions(plan: &Plan) -> Markup {
    html! {
        section #assumptions aria-labelledby="assumptions-h" {
            h2 #assumptions-h { "Assumptions" }
            @if plan.assumptions.is_empty() {
                p { "The plan states no assumptions." }
            } @else {
                p { "The verdict holds as far as these hold." }
                ul { @for assumption in &plan.assumptions { li { (assumption) } } }
            }
        }
    }
}

fn data(inputs: &Inputs) -> Value {
    let result = |r: Option<&SimResult>| serde_json::to_value(r).unwrap_or(Value::Null);
    json!({
        "plan": serde_json::to_value(inputs.plan).unwrap_or(Value::Null),
        "solo": result(inputs.solo),
        "unmanaged": result(inputs.unmanaged),
        "managed": result(inputs.managed),
        "even": result(inputs.even),
        "run": run_data(inputs.run),
        "verification": serde_json::to_value(inputs.verification).unwrap_or(Value::Null),
        "provenance": serde_json::to_value(inputs.provenance).unwrap_or(Value::Null),
    })
}

/// The run, without its plan, which is embedded already.
fn run_data(run: Option<&RunResult>) -> Value {
    run.map_or(Value::Null, |r| {
        serde_json::to_value(RunResult { plan: None, ..r.clone() }).unwrap_or(Value::Null)
    })
}

fn curve_data(inputs: &Inputs) -> Value {
    inputs.profiles.iter().map(|(task, profile)| (task.clone(), json!(profile.lockdown))).collect()
}

/// `<` occurs in JSON only inside strings, so that its escape is always possible; it keeps
/// `</script>` and `<!--` out.
fn embedded(id: &str, value: &Value) -> Markup {
    html! { script type="application/json" id=(id) { (PreEscaped(value.to_string().replace('<', "\\u003c"))) } }
}
