//! Misses by function, as a flame graph: the program, its files, their functions.
//!
//! A profile knows the function that missed, and not its callers, so the graph has three rows. The
//! width of a block is its share of the program's misses of the shared cache. A function too narrow
//! to be seen is part of its file's block all the same; the table has the first of them. A name is
//! cut to the width that its block has on a telephone or on paper, and cut again for a wide page.
//! The style sheet shows one of both, and the tooltip has the whole name.

use crate::format;
use crate::svg;
use maud::{Markup, html};
use solocore_model::Profile;
use solocore_model::profile::FunctionProfile;
use std::collections::BTreeMap;

const ROW: usize = 24;
/// Narrower blocks are left out of the last row.
const LEAST: f64 = 0.002;
/// Width of a letter, as a part of the narrowest drawing (368 px).
const LETTER: f64 = 0.023;
/// The same on a page of 64rem or more, where the drawing has at least 976 px.
const WIDE_LETTER: f64 = 0.0087;

/// The figure; nothing for a profile without misses by function.
pub fn figure(index: usize, task: &str, profile: &Profile) -> Markup {
    let total: u64 = profile.functions.iter().map(|f| f.llc_misses).sum();
    if total == 0 {
        return html! {};
    }
    let mut files: BTreeMap<&str, Vec<&FunctionProfile>> = BTreeMap::new();
    for function in &profile.functions {
        files.entry(&function.file).or_default().push(function);
    }
    let sum = |of: &[&FunctionProfile]| of.iter().map(|f| f.llc_misses).sum::<u64>();
    let mut files: Vec<(&str, Vec<&FunctionProfile>)> = files.into_iter().collect();
    files.sort_by_key(|(name, of)| (std::cmp::Reverse(sum(of)), *name));
    let id = format!("flame-{index}");
    let (mut file_at, mut function_at) = (0, 0);
    html! {
        figure.chart.whole {
            figcaption id=(id) {
                "Misses of the shared cache by file and function: " (format::count(total)) ". "
                span.muted { "Widths are shares. The profile has no call stacks." }
            }
            svg.flame width="100%" height=(3 * ROW) role="img" aria-labelledby=(id) {
                g.mark tabindex="0" role="img" aria-label=(format!("{task}: {} misses by function", format::count(total))) {
                    (block(task, "program", 0, total, total, 0))
                    @for (file, functions) in &files {
                        (block(file, "file", file_at, sum(functions), total, 1))
                        @for function in functions {
                            (block(&function.name, "function", function_at, function.llc_misses, total, 2))
                            ({ function_at += function.llc_misses; "" })
                        }
                        ({ file_at += sum(functions); "" })
                    }
                }
            }
        }
    }
}

fn block(name: &str, kind: &str, at: u64, misses: u64, total: u64, row: usize) -> Markup {
    let share = svg::fraction(misses, total);
    if share < LEAST {
        return html! {};
    }
    let x = svg::percent(at, total);
    let fill = ["#e69f00", "#f0e442", "#56b4e9"][row];
    let (narrow, wide) = (cut(name, share / LETTER), cut(name, share / WIDE_LETTER));
    let labels = if narrow == wide {
        vec![("", narrow)]
    } else {
        vec![("on-narrow", narrow), ("on-wide", wide)]
    };
    html! {
        rect x=(x) y=(row * ROW) width=(svg::percent(misses, total)) height=(ROW - 2) fill=(fill)
            data-kind=(kind) data-name=(name) data-misses=(misses) {
            title { (name) ": " (format::count(misses)) " misses, " (format::percent(share)) }
        }
        @for (class, label) in labels.iter().filter(|(_, label)| !label.is_empty()) {
            text class={ "number on-light block " (class) } data-fill=(fill) x=(x) dx="4" y=(row * ROW + 15) { (label) }
        }
    }
}

/// The part of a name for which there is room, in letters; nothing where that says too little.
fn cut(name: &str, room: f64) -> String {
    let room = room as usize;
    if name.chars().count() <= room {
        name.to_owned()
    } else if room > 3 {
        name.chars().take(room - 1).chain(['…']).collect()
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_the_room_of_narrow_and_of_wide_pages() {
        let name = "interpolate_subpixel";
        assert_eq!(cut(name, 20.9), name);
        assert_eq!(cut(name, 8.0), "interpo…");
        assert_eq!(cut(name, 3.9), "");
        let wide = block(name, "function", 0, 25, 100, 2).into_string();
        assert!(
            wide.contains(
                r##"on-narrow" data-fill="#56b4e9" x="0.0000%" dx="4" y="63">interpola…<"##
            )
        );
        assert!(wide.contains("on-wide") && wide.contains(">interpolate_subpixel</text>"));
        let narrow = block(name, "function", 0, 5, 100, 2).into_string();
        assert!(!narrow.contains("on-narrow") && narrow.contains(">inte…</text>"));
        assert!(!block("f", "function", 0, 25, 100, 2).into_string().contains("on-wide"));
    }
}
