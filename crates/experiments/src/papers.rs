//! Every figure and table of the five papers, and what becomes of it here.
//!
//! Problem: a figure that nobody tries is not seen to be missing. Rule: [`ALL`] has a row for each
//! figure and each table, in the order of the papers; a test holds it to the experiments and to the
//! number of figures that each paper has.

/// What becomes of a figure or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// An experiment compares it.
    By(&'static str),
    /// A command outside of `reproduce` shows it: the command, and the page with its results.
    Elsewhere(&'static str),
    /// It has no measurement: what it is.
    Drawing(&'static str),
}

/// A figure or table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Paper, as in the names of its experiments.
    pub paper: &'static str,
    /// Is it a table?
    pub table: bool,
    /// Its number.
    pub number: u32,
    /// What becomes of it.
    pub shown: Shown,
}

/// Papers: short name, figures, tables.
pub const PAPERS: [(&str, u32, u32); 5] =
    [("sce", 17, 2), ("bwlock", 3, 1), ("dynamic", 4, 2), ("maracas", 10, 2), ("mc2", 15, 3)];

const fn fig(paper: &'static str, number: u32, shown: Shown) -> Row {
    Row { paper, table: false, number, shown }
}

const fn table(paper: &'static str, number: u32, shown: Shown) -> Row {
    Row { paper, table: true, number, shown }
}

use Shown::{By, Drawing, Elsewhere};

/// A worked example of the paper, as an instance of the planner.
const EXAMPLE: Shown = Elsewhere(
    "`solocore plan examples/ima-sce/system.toml`, `solocore report` ([windows](windows.md))",
);

/// All of them.
pub const ALL: &[Row] = &[
    fig("sce", 1, By("sce-fig1")),
    fig("sce", 2, By("sce-fig2")),
    fig("sce", 3, By("sce-fig3")),
    fig("sce", 4, By("sce-fig4")),
    fig("sce", 5, Drawing("pages in a cache, locked and not")),
    fig("sce", 6, By("sce-fig6")),
    fig("sce", 7, By("sce-fig7")),
    fig("sce", 8, Drawing("the five parts of an I/O chain")),
    fig("sce", 9, By("sce-fig9")),
    fig("sce", 10, By("sce-fig10")),
    fig("sce", 11, By("sce-fig7")),
    fig("sce", 12, By("sce-fig12")),
    fig("sce", 13, EXAMPLE),
    fig("sce", 14, EXAMPLE),
    fig("sce", 15, EXAMPLE),
    fig("sce", 16, EXAMPLE),
    fig("sce", 17, EXAMPLE),
    table("sce", 1, By("sce-table1")),
    table("sce", 2, By("sce-table2")),
    fig("bwlock", 1, By("bwlock-fig1")),
    fig("bwlock", 2, Drawing("the parts of BWLOCK")),
    fig("bwlock", 3, By("bwlock-fig3a")),
    table("bwlock", 1, By("bwlock-fig3a")),
    fig("dynamic", 1, Drawing("an example of budgets on one core")),
    fig("dynamic", 2, Drawing("an example of budgets on two cores")),
    fig("dynamic", 3, By("dynamic-fig3")),
    fig("dynamic", 4, By("dynamic-fig4")),
    table("dynamic", 1, By("dynamic-table1")),
    table("dynamic", 2, By("dynamic-fig4")),
    fig("maracas", 1, Drawing("VCPUs on cores")),
    fig("maracas", 2, By("maracas-fig2")),
    fig("maracas", 3, Drawing("an example of occupancy and requests")),
    fig("maracas", 4, By("maracas-fig4")),
    fig("maracas", 5, By("maracas-fig5")),
    fig("maracas", 6, By("maracas-fig6")),
    fig("maracas", 7, By("maracas-fig7")),
    fig("maracas", 8, By("maracas-fig8")),
    fig("maracas", 9, By("maracas-fig9")),
    fig("maracas", 10, By("maracas-fig10")),
    table("maracas", 1, Drawing("the machine; it is the board `core-i5-2500k`")),
    table("maracas", 2, By("maracas-fig5")),
    fig("mc2", 1, Drawing("criticality levels")),
    fig("mc2", 2, Drawing("the CPU; it is the board `imx6q`")),
    fig("mc2", 3, Drawing("shares of cache and banks")),
    fig("mc2", 4, Drawing("direct disk I/O")),
    fig("mc2", 5, Drawing("I/O of a USB camera")),
    fig("mc2", 6, Drawing("a list of free blocks")),
    fig("mc2", 7, Drawing("lists of free blocks by bank")),
    fig("mc2", 8, By("mc2-fig8")),
    fig("mc2", 9, Drawing("places of tasks and buffers, those of `mc2-fig10`")),
    fig("mc2", 10, By("mc2-fig10")),
    fig("mc2", 11, By("mc2-fig10")),
    fig("mc2", 12, By("mc2-fig12")),
    fig("mc2", 13, By("mc2-fig13")),
    fig("mc2", 14, By("mc2-fig14")),
    fig(
        "mc2",
        15,
        Elsewhere("`solocore study --all` ([study](study.md), with Observations 7 to 11)"),
    ),
    table("mc2", 1, By("mc2-table1")),
    table("mc2", 2, Drawing("the programs of Figs. 10 to 14")),
    table("mc2", 3, Elsewhere("the scenarios of `solocore study` ([study](study.md))")),
];

/// A paper's name for people, by its short name.
#[must_use]
pub fn title(paper: &str) -> &'static str {
    match paper {
        "sce" => "SCE",
        "bwlock" => "BWLOCK",
        "dynamic" => "Dynamic budgeting",
        "maracas" => "MARACAS",
        _ => "MC2",
    }
}

impl Row {
    /// `SCE Fig. 9`.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = if self.table { "Table" } else { "Fig." };
        format!("{} {kind} {}", title(self.paper), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{all, find};

    #[test]
    fn every_figure_and_table_of_the_papers_has_one_row() {
        for (paper, figures, tables) in PAPERS {
            for (table, count) in [(false, figures), (true, tables)] {
                let rows = ALL.iter().filter(|r| r.paper == paper && r.table == table);
                let numbers: Vec<u32> = rows.map(|r| r.number).collect();
                assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "{paper}, tables: {table}");
            }
        }
        assert!(ALL.iter().all(|r| PAPERS.iter().any(|p| p.0 == r.paper)));
    }

    #[test]
    fn rows_and_experiments_name_each_other() {
        for row in ALL {
            if let Shown::By(id) = row.shown {
                assert!(find(id).is_some(), "{}: no experiment {id}", row.name());
                assert!(id.starts_with(row.paper), "{id} is of another paper");
            }
        }
        // The parts of BWLOCK Fig. 3 are experiments of their own; what else has no row is listed.
        let extra =
            ["bwlock-fig3b", "bwlock-fig3c", "bwlock-fig3d", "bwlock-overhead", "maracas-moves"];
        for experiment in all().iter().filter(|e| !extra.contains(&e.id)) {
            assert!(ALL.iter().any(|r| r.shown == Shown::By(experiment.id)), "{}", experiment.id);
        }
    }
}
