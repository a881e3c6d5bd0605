//! Misses by function, as a flame graph: the program, the callers, the functions that missed.
//!
//! The width of a block is its share of the program's misses of the shared cache, and a function
//! lies below its callers. Misses with unknown callers lie in the first row of functions. A profile
//! of an older version has no callers: its rows are the program, its files, their functions. A
//! function too narrow to be seen, or below the last row, is part of the block above it all the
//! same; the table has the first of them. A name is cut to the width that its block has on a
//! telephone or on paper, and cut again for a wide page. The style sheet shows one of both, and the
//! tooltip has the whole name.

use crate::format;
use crate::svg;
use maud::{Markup, html};
use solocore_model::Profile;
use solocore_model::profile::FunctionProfile;
use std::collections::BTreeMap;

const ROW: usize = 24;
/// Maximum number of rows.
const ROWS: usize = 16;
/// Narrower blocks are left out, but for the program's.
const LEAST: f64 = 0.002;
/// Width of a letter, as a part of the narrowest drawing (368 px).
const LETTER: f64 = 0.023;
/// The same on a page of 64rem or more, where the drawing has at least 976 px.
const WIDE_LETTER: f64 = 0.0087;
/// Space beside a name, in letters, so that those of two blocks do not touch.
const GAP: f64 = 0.6;

/// A function in its chain of callers, or a file; the misses are those of all below it, too.
#[derive(Default)]
struct Node<'a> {
    misses: u64,
    below: BTreeMap<&'a str, Node<'a>>,
}

/// A block to draw.
struct Block<'a> {
    name: &'a str,
    kind: &'static str,
    at: u64,
    misses: u64,
    row: usize,
}

/// The figure; nothing for a profile without misses by function.
pub fn figure(index: usize, task: &str, profile: &Profile) -> Markup {
    let callers = profile.functions.iter().any(|f| !f.callers.is_empty());
    let root = tree(profile, callers);
    let total = root.misses;
    if total == 0 {
        return html! {};
    }
    let mut blocks = vec![Block { name: task, kind: "program", at: 0, misses: total, row: 0 }];
    root.blocks(0, 1, if callers { "function" } else { "file" }, total, &mut blocks);
    let rows = blocks.iter().map(|b| b.row + 1).max().unwrap_or(1);
    let id = format!("flame-{index}");
    let (by, note) = if callers {
        ("by function and its callers", "A function lies below its callers.")
    } else {
        ("by file and function", "The profile has no callers.")
    };
    html! {
        figure.chart.whole {
            figcaption id=(id) {
                "Misses of the shared cache " (by) ": " (format::count(total)) ". "
                span.muted { "Widths are shares. " (note) }
            }
            svg.flame width="100%" height=(rows * ROW) role="img" aria-labelledby=(id) {
                g.mark tabindex="0" role="img" aria-label=(format!("{task}: {} misses by function", format::count(total))) {
                    @for b in &blocks { (block(b.name, b.kind, b.at, b.misses, total, b.row)) }
                }
            }
        }
    }
}

/// The tree of all misses: by chains of callers, or by file and function.
fn tree(profile: &Profile, callers: bool) -> Node<'_> {
    let mut root = Node::default();
    profile.functions.iter().for_each(|f| root.add_function(f, callers));
    root
}

impl<'a> Node<'a> {
    fn add_function(&mut self, f: &'a FunctionProfile, callers: bool) {
        let mut left = f.llc_misses;
        for chain in &f.callers {
            let misses = chain.llc_misses.min(left);
            left -= misses;
            let path = chain.functions.iter().map(String::as_str).chain([f.name.as_str()]);
            self.add(path, misses);
        }
        let file = (!callers).then_some(f.file.as_str());
        self.add(file.into_iter().chain([f.name.as_str()]), left);
    }

    fn add(&mut self, path: impl Iterator<Item = &'a str>, misses: u64) {
        if misses == 0 {
            return;
        }
        self.misses += misses;
        let mut at = self;
        // Deeper ones are not drawn; a file of another origin may have any number of callers.
        for name in path.take(ROWS - 1) {
            at = at.below.entry(name).or_default();
            at.misses += misses;
        }
    }

    /// Adds the blocks below this one, which begins at `at`, the widest first.
    fn blocks(
        &self,
        mut at: u64,
        row: usize,
        kind: &'static str,
        total: u64,
        to: &mut Vec<Block<'a>>,
    ) {
        if row >= ROWS {
            return;
        }
        let mut below: Vec<(&&str, &Node<'_>)> = self.below.iter().collect();
        below.sort_by_key(|(name, node)| (std::cmp::Reverse(node.misses), **name));
        for (&name, node) in below {
            if svg::fraction(node.misses, total) >= LEAST {
                to.push(Block { name, kind, at, misses: node.misses, row });
                node.blocks(at, row + 1, "function", total, to);
            }
            at += node.misses;
        }
    }
}

fn block(name: &str, kind: &str, at: u64, misses: u64, total: u64, row: usize) -> Markup {
    let share = svg::fraction(misses, total);
    let x = svg::percent(at, total);
    let fill = match row {
        0 => "#e69f00",
        odd if odd % 2 == 1 => "#f0e442",
        _ => "#56b4e9",
    };
    let [narrow, wide] = [LETTER, WIDE_LETTER].map(|letter| cut(name, share / letter - GAP));
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
    use solocore_model::profile::CallChain;

    fn function(name: &str, misses: u64, chains: &[(&[&str], u64)]) -> FunctionProfile {
        let chain = |&(functions, llc_misses): &(&[&str], u64)| CallChain {
            functions: functions.iter().map(ToString::to_string).collect(),
            llc_misses,
            llc_accesses: llc_misses,
        };
        FunctionProfile {
            name: name.to_owned(),
            file: "p".to_owned(),
            llc_misses: misses,
            callers: chains.iter().map(chain).collect(),
            ..FunctionProfile::default()
        }
    }

    fn drawn(functions: &[FunctionProfile]) -> Vec<(String, u64, u64, usize)> {
        let callers = functions.iter().any(|f| !f.callers.is_empty());
        let mut root = Node::default();
        functions.iter().for_each(|f| root.add_function(f, callers));
        let mut blocks = Vec::new();
        let kind = if callers { "function" } else { "file" };
        root.blocks(0, 1, kind, root.misses, &mut blocks);
        blocks.into_iter().map(|b| (b.name.to_owned(), b.at, b.misses, b.row)).collect()
    }

    #[test]
    fn a_function_lies_below_each_of_its_callers() {
        let of = |name: &str, at: u64, misses: u64, row: usize| (name.to_owned(), at, misses, row);
        let copies: &[(&[&str], u64)] = &[(&["main", "a"], 60), (&["main", "b"], 20)];
        let functions = [
            function("copy", 90, copies),
            function("main", 5, &[]),
            function("a", 5, &[(&["main"], 5)]),
        ];
        let wanted = [
            of("main", 0, 90, 1),
            of("a", 0, 65, 2),
            of("copy", 0, 60, 3),
            of("b", 65, 20, 2),
            of("copy", 65, 20, 3),
            // Its callers are unknown.
            of("copy", 90, 10, 1),
        ];
        assert_eq!(drawn(&functions), wanted);
        let old = [function("f", 3, &[]), function("g", 7, &[])];
        assert_eq!(drawn(&old), [of("p", 0, 10, 1), of("g", 0, 7, 2), of("f", 7, 3, 2)]);
    }

    #[test]
    fn a_chain_of_any_length_is_drawn_to_the_last_row() {
        let callers = vec!["f"; 1_000_000];
        let all = drawn(&[function("g", 10, &[(callers.as_slice(), 10)])]);
        assert_eq!(all.len(), ROWS - 1);
        assert_eq!(all.last(), Some(&("f".to_owned(), 0, 10, ROWS - 1)));
    }

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
