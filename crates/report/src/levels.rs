//! Plans with criticality levels: regions, buffers, and every choice beside its next best.

use crate::elements::{choices, data_table, wide_table};
use crate::format;
use maud::{Markup, html};
use solocore_model::plan::levels::{LevelsPlan, Method, Ways};

pub fn part(levels: &LevelsPlan) -> Markup {
    html! {
        h3 #levels { "Levels: regions and buffers" }
        p {
            "Buffers by " (levels.scheme.name()) "; level C takes " (format::percent(levels.level_c_utilization))
            " of a core (C-PETs). Level-A PETs are checked against level A, B-PETs against A and \
                B, C-PETs against all."
        }
        (wide_table("Regions of the shared cache and the DRAM banks", &regions(levels)))
        @if !levels.messages.is_empty() || !levels.io.is_empty() {
            (wide_table("Message and I/O buffers", &buffers(levels)))
        }
        @if !levels.choices.is_empty() {
            h3 { "Choices, and the cost of the next best" }
            (choices(&levels.choices))
        }
    }
}

fn ways(ways: Ways) -> String {
    match ways.count {
        0 => "none".to_owned(),
        1 => ways.first.to_string(),
        n => format!("{}–{}", ways.first, ways.first.saturating_add(n - 1)),
    }
}

fn regions(levels: &LevelsPlan) -> Markup {
    html! {
        (data_table(&html! {}, &["Region", "#Ways", "#Bank", "#Level A", "#Levels A and B", "#By C-PETs"], &html! {
                @for core in &levels.cores {
                    tr {
                        th scope="row" { "core " (core.id) }
                        td.num { (ways(core.ways)) }
                        td.num { (core.bank) }
                        td.num.bad[core.level_a > 1.0] { (format::percent(core.level_a)) }
                        td.num.bad[core.level_b > 1.0] { (format::percent(core.level_b)) }
                        td.num { (format::percent(core.level_c)) }
                    }
                }
                @for (name, region) in [("locked buffers", levels.locked_ways), ("level C and the \
                    OS", levels.level_c_ways)] {
                    tr {
                        th scope="row" { (name) }
                        td.num { (ways(region)) }
                        td.num { "the others" } td.num { "–" } td.num { "–" } td.num { "–" }
                    }
                }
            }))
    }
}

fn buffers(levels: &LevelsPlan) -> Markup {
    let bank = |bank: Option<u32>| {
        bank.map_or("level C's banks".to_owned(), |bank| format!("bank {bank}"))
    };
    let method = |method: Method| match method {
        Method::Bypass => "SBP: uncacheable",
        Method::Together => "CE: both tasks on one core",
        Method::Locked => "CL: locked in the cache",
        Method::LevelC => "cacheable",
    };
    html! {
        (data_table(&html! {}, &["Buffer", "#Bytes", "Bank", "How"], &html! {
                @for m in &levels.messages {
                    tr {
                        th scope="row" { (m.from) " to " (m.to) }
                        td.num { (format::count(m.bytes)) }
                        td { (bank(m.bank)) }
                        td { (method(m.method)) }
                    }
                }
                @for io in &levels.io {
                    tr {
                        th scope="row" { (io.device) " of " (io.task) }
                        td.num { (format::count(io.bytes)) }
                        td { (bank(io.bank)) }
                        td { (format::bandwidth(io.bytes_per_s)) @if !io.direct { ", copied by the \
                            kernel" } }
                    }
                }
            }))
    }
}
