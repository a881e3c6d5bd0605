//! The cells of MC2's Table 1 as claims.
//!
//! Problem: several cells rest on the same simulation, and would count it several times. Rule: the
//! cells that one pair of probe and interferer decides are one claim, and the cell that is nearest
//! to failing counts.

use super::{
    BUFFER, COLUMNS, Found, GROWTH, IN_AB, IN_C, Kind, PAPER, Point, REST, ROWS, Run, Share,
    others, place, runs, title,
};
use crate::{Mutation, Outcome, Paper};
use std::collections::BTreeSet;

/// A cell's claim: the comparison that decides it, the number that is compared, and the change that
/// refutes it.
struct Claim {
    cell: (usize, usize),
    /// Probe and interferer that decide the cell. Cells with the same ones are one claim.
    by: (Run, bool),
    value: f64,
    meaning: &'static str,
    mutation: Mutation,
    found: String,
}

impl Claim {
    fn of(cell: (usize, usize), all: &[Point], found: &[Found]) -> Self {
        let (r, c) = cell;
        let ours: Vec<(&Point, f64)> = all
            .iter()
            .zip(found)
            .filter(|(p, _)| p.cell == cell)
            .map(|(p, f)| (p, f.growth()))
            .collect();
        let of = |what: &str| ours.iter().find(|g| g.0.what == what).map_or(f64::NAN, |g| g.1);
        let least = ours.iter().map(|g| g.1).fold(f64::INFINITY, f64::min);
        let most = ours.iter().map(|g| g.1).fold(f64::NEG_INFINITY, f64::max);
        let beyond = |here: f64, there: f64| if there <= GROWTH { here } else { f64::NAN };
        let own = if COLUMNS[c].place == Share::C { IN_C } else { IN_AB };
        let no = PAPER[r][c] == "No";
        let (meaning, decides, value) = match PAPER[r][c] {
            "No" => ("no growth", ours[0].0.what, most),
            "Yes+" => ("growth at level C, none at A and B", IN_C, beyond(of(IN_C), of(IN_AB))),
            "Yes*" => {
                ("growth at the buffer, none elsewhere", BUFFER, beyond(of(BUFFER), of(REST)))
            }
            _ if ROWS[r].causes => ("growth of some", own, most),
            _ => ("growth of all", REST, least),
        };
        // Without the interferer no cell grows, so the cells of a group have the same change.
        let mutation = if no { Mutation::SharedBanks } else { Mutation::Quiet };
        let point = ours.iter().find(|g| g.0.what == decides).unwrap_or(&ours[0]).0;
        let each: Vec<String> =
            ours.iter().map(|(p, g)| format!("{} {:.2} %", p.what, g * 100.0)).collect();
        Self { cell, by: (runs(point)[0], no), value, meaning, mutation, found: each.join(", ") }
    }

    fn words(&self) -> String {
        let (r, c) = self.cell;
        format!(
            "level {}, buffer in {}: {}, {}: {} ({})",
            COLUMNS[c].level,
            place(COLUMNS[c]),
            title(ROWS[r]),
            others(ROWS[r]),
            PAPER[r][c],
            self.meaning
        )
    }
}

/// The cells that can be tested, those of one simulation together.
fn claims(all: &[Point], found: &[Found]) -> Vec<Vec<Claim>> {
    let testable = |r: usize, c: usize| {
        !(ROWS[r].same && ROWS[r].kind == Kind::Cpu) && COLUMNS[c].level != 'B'
    };
    let cells = (0..ROWS.len()).flat_map(|r| (0..COLUMNS.len()).map(move |c| (r, c)));
    let mut groups: Vec<Vec<Claim>> = Vec::new();
    for cell in cells.filter(|&(r, c)| testable(r, c)) {
        let claim = Claim::of(cell, all, found);
        match groups.iter_mut().find(|g| g[0].by == claim.by) {
            Some(group) => group.push(claim),
            None => groups.push(vec![claim]),
        }
    }
    groups
}

/// The verdicts on the table.
pub fn judge(outcome: &mut Outcome, all: &[Point], found: &[Found]) {
    for group in claims(all, found) {
        let no = group[0].by.1;
        // The cell that is nearest to failing counts; one that fails has no number.
        let worse = |a: f64, b: f64| match (a.is_nan() || b.is_nan(), no) {
            (true, _) => f64::NAN,
            (_, true) => a.max(b),
            _ => a.min(b),
        };
        let ours = group.iter().map(|c| c.value).reduce(worse).unwrap_or(f64::NAN);
        let paper =
            if no { Paper::less(GROWTH, "Table 1") } else { Paper::more(GROWTH, "Table 1") };
        // Cells of one simulation mostly have the same growths.
        let join = |of: fn(&Claim) -> String| {
            let each: BTreeSet<String> = group.iter().map(of).collect();
            each.into_iter().collect::<Vec<_>>().join("; ")
        };
        outcome.claim(
            &join(Claim::words),
            paper,
            ours,
            group[0].mutation,
            format!("growth of the time: {}", join(|c| c.found.clone())),
        );
    }
    outcome.untestable(
        "no task causes CPU-sourced interference to tasks of its core, or experiences it from them",
        "Table 1",
        "a task of the same core only runs while the probe does not, and nothing of the probe's \
            array stays in its ways",
    );
    outcome.untestable(
        "level B is as level A",
        "Table 1",
        "a probe that is alone on its core does not see its level: the two are one simulation",
    );
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
