//! docs/reproduction.md from the outcomes.

use crate::claim::short;
use crate::papers::Shown;
use crate::store;
use crate::summary::compared;
use crate::{Compared, Counts, Record, Scale};
use std::fmt::Write;

/// Most rows of a table shown on the page; the CSV file has all.
const ROWS: usize = 24;

/// Where the programs of a figure lie, for all figures.
const LAYOUTS: &str = "*Where programs lie.* A place that the paper states is taken: one bank or \
each core's own, or the bank of a level. A place that it does not state is drawn by the seed, and \
the claims are of drawn places. There is one exception. MC2 does not say which of level C's banks \
a frame buffer shares, and mc2-fig10 and mc2-fig12 take Matrix's. The figures of dynamic budgeting \
also show all programs in one bank. That is a limit, and no claim is of it. Other figures have one \
layout only.";

/// The builds of the records: a paragraph.
fn origin(records: &[Record]) -> String {
    const AGAIN: &str = "`solocore reproduce --fresh` makes all of them with one.";
    match store::builds(records) {
        0 => String::new(),
        1 if records.iter().any(|r| r.build.is_empty()) => {
            format!("**The outcomes of this page name no build of solocore.** {AGAIN}\n\n")
        }
        1 => "All outcomes of this page come from one build of solocore.\n\n".to_owned(),
        n => {
            format!("**The outcomes of this page come from {n} builds of solocore.** {AGAIN}\n\n")
        }
    }
}

/// The page of some records, of one experiment together. `images` is the path from the page to the
/// directory of the SVG files, `made` the day and the kind of machine.
#[must_use]
pub fn markdown(records: &[Record], images: &str, made: &str) -> String {
    let claims = compared(records);
    let scale = match records.first().map(|r| r.scale) {
        Some(Scale::Quick) => " --quick",
        _ => "",
    };
    let groups: Vec<&[Record]> = records.chunk_by(|a, b| a.id == b.id).collect();
    let seeds = match groups.iter().map(|g| g.len()).max() {
        Some(n) if n > 1 => format!(" --seeds {n}"),
        _ => String::new(),
    };
    let mut out = format!(
        "# What the papers measured, on simulated boards\n\n\
         Written by `solocore reproduce --all{scale}{seeds} --page docs/reproduction.md --images \
         img/reproduction`, {made}; do not edit.\n\n\
         A claim is a comparison. It *agrees* where ours is in the paper's range, or within a \
         quarter of its number or of its distance from no effect; the smaller one counts.\n\
         The *direction agrees* where the effect is a tenth of the paper's at least, or the \
         paper's text gives no size. Of several seeds the median counts, and the claim *differs* \
         where one seed in ten differs.\n\
         A claim that is put in, is fitted, follows from others, or holds by construction *cannot \
         be tested here*. Each other claim has a change of the set-up by which its verdict falls; \
         `solocore reproduce --mutations` tries them.\n\n\
         {LAYOUTS}\n\n\
         {}{}\n\n\
         | experiment | shows | agree | direction | differ | not testable |\n\
         |---|---|---|---|---|---|\n",
        origin(records),
        Counts::of(&claims)
    );
    let of = |id: &str| claims.iter().filter(|c| c.experiment == id).cloned().collect::<Vec<_>>();
    for r in groups.iter().map(|g| &g[0]) {
        let Counts { agrees, direction, differs, untestable, .. } = Counts::of(&of(&r.id));
        let _ = writeln!(
            out,
            "| [{}](#{}) | {}: {} | {agrees} | {direction} | {differs} | {untestable} |",
            r.id, r.id, r.source, r.title
        );
    }
    if groups.len() > 1 {
        fitted(&mut out);
        papers(&mut out);
    }
    for group in groups {
        section(&mut out, group, &of(&group[0].id), images);
    }
    out
}

/// The parameters that are fitted, and the claims that test them.
fn fitted(out: &mut String) {
    out.push_str(
        "\n## Fitted parameters\n\n\
         A parameter is fitted to one part of a paper's numbers, and tested on another. The first \
         part does not count as claims. Nothing is fitted to BWLOCK's numbers.\n\n\
         | parameter | fitted to, or follows from | tested on |\n|---|---|---|\n",
    );
    for row in crate::fitted::ALL {
        let tested: Vec<String> =
            row.tested.iter().map(|(id, what)| format!("[{id}](#{id}): {what}")).collect();
        let paper = crate::papers::title(row.paper);
        let _ =
            writeln!(out, "| {paper}: {} | {} | {} |", row.parameter, row.to, tested.join("; "));
    }
}

/// The figures and tables of the papers, each with its experiment or command.
fn papers(out: &mut String) {
    out.push_str("\n## Figures and tables of the papers\n\n| | shown by |\n|---|---|\n");
    for row in crate::papers::ALL {
        let by = match row.shown {
            Shown::By(id) => format!("[{id}](#{id})"),
            Shown::Elsewhere(how) => how.to_owned(),
            Shown::Drawing(of) => format!("no measurement: {of}"),
        };
        let _ = writeln!(out, "| {} | {by} |", row.name());
    }
}

fn section(out: &mut String, group: &[Record], claims: &[Compared], images: &str) {
    let (r, last) = (&group[0], &group[group.len() - 1]);
    let seeds = if group.len() > 1 {
        format!("seeds {} to {}; words, picture and table are of the first", r.seed, last.seed)
    } else {
        format!("seed {}", r.seed)
    };
    let _ = write!(
        out,
        "\n## {}\n\n{}: {}. `solocore reproduce {}`, {seeds}.\n\n",
        r.id, r.source, r.title, r.id
    );
    out.push_str("| claim | paper | ours | ratio | verdict | found |\n|---|---|---|---|---|---|\n");
    for claim in claims {
        let _ = writeln!(out, "{}", row(claim));
    }
    let _ = write!(out, "\n![{}]({images}/{}.svg)\n", r.title, r.id);
    if !r.outcome.differs.is_empty() {
        out.push_str("\nWhat differs from the paper:\n\n");
        for what in &r.outcome.differs {
            let _ = writeln!(out, "* {}", linked(what));
        }
    }
    let table = &r.outcome.table;
    if table.rows.len() > ROWS {
        let _ = writeln!(out, "\n{} rows of figures: `{}.csv`.", table.rows.len(), r.id);
        return;
    }
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    out.push('\n');
    out.push_str(&line(&table.columns));
    out.push_str(&line(&vec!["---".to_owned(); table.columns.len()]));
    for row in &table.rows {
        out.push_str(&line(&row.iter().map(ToString::to_string).collect::<Vec<_>>()));
    }
}

fn row(c: &Compared) -> String {
    let verdict = match c.differs {
        0 => c.verdict.name().to_owned(),
        _ if c.seeds == 1 => format!("**{}**", c.verdict.name()),
        n => format!("**{}** ({n} of {} seeds differ)", c.verdict.name(), c.seeds),
    };
    format!(
        "| {} | {} | {} | {} | {verdict} | {} |",
        c.claim,
        c.paper,
        spread(c),
        c.ratio.map_or("-".to_owned(), short),
        linked(&c.found)
    )
}

/// Names of other pages, `docs/NAME.md`, as links from this one, which is in the same folder.
fn linked(text: &str) -> String {
    const FOLDER: &str = "docs/";
    let mut parts = text.split(FOLDER);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(".md") {
            Some((name, rest)) if name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') => {
                let _ = write!(out, "[{name}.md]({name}.md){rest}");
            }
            _ => {
                let _ = write!(out, "{FOLDER}{part}");
            }
        }
    }
    out
}

/// The median, and the least and the largest where they differ.
#[must_use]
pub fn spread(c: &Compared) -> String {
    match c.ours {
        Some([low, median, high]) if c.seeds > 1 => {
            format!("{} ({} to {})", short(median), short(low), short(high))
        }
        Some([_, median, _]) => short(median),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pages_are_links() {
        let text = "in a guest (docs/linux-figures.md), and docs/a b.md";
        let links = "in a guest ([linux-figures.md](linux-figures.md)), and docs/a b.md";
        assert_eq!((linked(text), linked("none")), (links.to_owned(), "none".to_owned()));
    }
}
