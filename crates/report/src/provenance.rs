//! Origin of the page: enough to make it again, and to check that a file is the one from which it
//! was made.

use crate::elements::{caption, data_table, wide_table};
use crate::format;
use crate::inputs::{Inputs, Provenance};
use maud::{Markup, html};
use solocore_model::SimResult;
use solocore_model::provenance::PlanInput;

/// The section. Without [`Inputs::provenance`], it has only the versions and the runs.
pub fn section(inputs: &Inputs) -> Markup {
    let runs: [(&str, Option<&SimResult>); 4] = [
        ("Solo", inputs.solo),
        ("Unmanaged", inputs.unmanaged),
        ("Even", inputs.even),
        ("Managed", inputs.managed),
    ];
    html! {
        section #provenance aria-labelledby="provenance-h" {
            h2 #provenance-h { "How this page came about" }
            dl.facts {
                (made(inputs.provenance))
                @for (name, result) in runs {
                    @if let Some(r) = result {
                        (fact(&format!("{name} run"), &format!("{} simulated, seed {}", format::time(r.simulated_ns), r.seed)))
                    }
                }
                @if let Some(run) = inputs.run {
                    (fact("Run on the machine", &format!("{}, ended by {}", format::time(run.duration_ns), run.ended)))
                }
                (fact("Board", &inputs.plan.platform.name))
            }
            (files(inputs.provenance))
            @if !inputs.plan.inputs.is_empty() { (plan_files(&inputs.plan.inputs)) }
        }
    }
}

/// Files that the plan was made from, as it names them.
fn plan_files(files: &[PlanInput]) -> Markup {
    wide_table(
        "Files that the plan was made from",
        &data_table(
            &caption(&html! { "Files that the plan was made from, as they were then." }),
            &["File", "What it is", "SHA-256"],
            &html! {
                @for input in files {
                    tr data-plan-input=(input.file) {
                        th scope="row" { (input.file) }
                        td { (input.role.word()) }
                        td.code.words { (input.sha256) }
                    }
                }
            },
        ),
    )
}

/// The section of a page without a plan.
pub fn of_table(origin: Option<&Provenance>) -> Markup {
    html! {
        section #provenance aria-labelledby="provenance-h" {
            h2 #provenance-h { "How this page came about" }
            dl.facts {
                (made(origin))
            }
            (files(origin))
        }
    }
}

/// Version, date and machine.
fn made(origin: Option<&Provenance>) -> Markup {
    html! {
        (fact("solocore", env!("CARGO_PKG_VERSION")))
        @if let Some(p) = origin { (fact("Made", &p.date)) (fact("Made on", &p.host)) }
    }
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// Files that the page was made from; nothing without any.
fn files(origin: Option<&Provenance>) -> Markup {
    let Some(p) = origin.filter(|p| !p.inputs.is_empty()) else { return html! {} };
    wide_table(
        "Files that this page was made from",
        &data_table(
            &caption(&html! { "Its files; " code { "sha256sum" } " prints the same digits." }),
            &["File", "SHA-256"],
            &html! {
                @for (name, hash) in &p.inputs {
                    tr { th scope="row" { (name) } td.code.words { (hash) } }
                }
            },
        ),
    )
}
