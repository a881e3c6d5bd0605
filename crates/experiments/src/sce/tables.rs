//! SCE Fig. 9: the heuristic of section 2.4 (HOS) and an exact search for time tables of IMA
//! partitions, by their number.
//!
//! Set-up (the paper's instances are not known; assumed): 2 to 12 partitions on two cores, half of
//! the cores' time, periods of 20 or 40 ms. Each partition has one chain through an input and an
//! output at one of four devices. HOS and the exact search are those of `solocore schedule-io`,
//! each by itself. Their work is counted in look-ups, not in time, so that a run repeats. The exact
//! search stands for the paper's constraint solver; `bench/schedule_io.py --lone` has CP-SAT.

use crate::run::points;
use crate::{
    Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Paper, Series, Table, row,
};
use solocore_dram::random::Random;
use solocore_model::WindowsInput;
use solocore_planner::windows::solver::{Lone, Problem, alone};
use std::fmt::Write;
use std::path::Path;

pub const FIG9: Experiment = Experiment {
    id: "sce-fig9",
    source: "SCE Fig. 9",
    title: "Work of HOS and of an exact search for a time table, by the number of partitions",
    run,
};

const COUNTS: [usize; 5] = [2, 4, 6, 8, 12];
/// Look-ups after which a search is given up.
const MOST: u64 = 3_000_000;

struct Point {
    count: usize,
    index: u64,
    which: Lone,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let each = context.pick(9, 50);
    let exact_only = context.mutated(Mutation::OnePolicy);
    let searches = [if exact_only { Lone::Exact } else { Lone::Hos }, Lone::Exact];
    let of = |&count: &usize| {
        (0..each).flat_map(move |index| searches.map(|which| Point { count, index, which }))
    };
    let all: Vec<Point> = COUNTS.iter().flat_map(of).collect();
    let found = points(context, &all, |p| {
        let problem = Problem::new(&instance(context.seed, p.count, p.index)?);
        let stop = || !(context.progress)(f64::NAN);
        Ok(alone(&problem, p.which, context.seed ^ p.index, MOST, &stop))
    })?;
    context.done(1.0)?;
    let mut table = Table::new(&["partitions", "search", "instances", "solved", "median_look_ups"]);
    let mut medians: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for (chunk, count) in found.chunks(2 * each as usize).zip(COUNTS) {
        for (at, name) in ["HOS", "exact"].into_iter().enumerate() {
            let mut work: Vec<u64> =
                chunk.iter().skip(at).step_by(2).map(|w| w.map_or(MOST, |w| w.look_ups)).collect();
            work.sort_unstable();
            let median = work[work.len() / 2];
            let solved = chunk.iter().skip(at).step_by(2).flatten().filter(|w| w.found).count();
            table.push(row![count, name, work.len(), solved, median]);
            medians[at].push(median as f64);
        }
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, &medians);
    let line = |at: usize| COUNTS.iter().zip(&medians[at]).map(|(&c, &w)| (c as f64, w)).collect();
    let series = vec![Series::new("HOS", line(0)), Series::new("exact", line(1))];
    let chart = Chart::lines("Work to a table", "partitions", "look-ups, median", series);
    outcome.charts.push(chart.logarithmic());
    outcome.differs(
        "The exact search is solocore's own, with bounds and propagation, in the place of a \
            constraint solver; beyond 60 activities it gives no table, so the figure ends at 12 \
            partitions. `bench/schedule_io.py --lone` compares HOS itself with CP-SAT, and the \
            exact search's answers, too (docs/performance.md).",
    );
    Ok(outcome)
}

fn judge(outcome: &mut Outcome, [hos, exact]: &[Vec<f64>; 2]) {
    let last = COUNTS.len() - 1;
    let found = format!(
        "{:.0} look-ups against {:.0} with {} partitions, {:.0} against {:.0} with {}",
        hos[last], exact[last], COUNTS[last], hos[0], exact[0], COUNTS[0]
    );
    outcome.claim(
        "HOS finds a table quickly: with the most partitions, the exact search works longer (the \
            quotient of the medians)",
        Paper::more(1.0, "section 2.4, Fig. 9"),
        exact[last] / hos[last],
        Mutation::OnePolicy,
        found.clone(),
    );
    let growth = |of: &[f64]| of[last] / of[0];
    outcome.claim(
        "HOS scales well: the work of the exact search grows faster (the quotient of the growths)",
        Paper::more(1.0, "section 2.4, Fig. 9"),
        growth(exact) / growth(hos),
        Mutation::OnePolicy,
        found,
    );
}

/// A random instance: half of two cores' time, shared out evenly with a spread of a half.
fn instance(seed: u64, count: usize, index: u64) -> Result<WindowsInput, ExperimentError> {
    let mut random =
        Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index << 8 | count as u64));
    let mut text = "cores = 2\n".to_owned();
    for device in 0..4 {
        let _ = write!(text, "[[device]]\nname = \"d{device}\"\n");
    }
    for n in 0..count {
        let period = if random.below(2) == 0 { 20_000 } else { 40_000 };
        // Of the period, in thousandths: 500 of each of two cores over the partitions of both.
        let share = 2 * 500 / count as u64;
        let part = |random: &mut Random, of: u64| {
            (period * of * (750 + random.below(501)) / 1_000_000 / 100).max(1) * 100
        };
        let window = part(&mut random, share);
        let _ = write!(
            text,
            "[[partition]]\nname = \"p{n}\"\nperiod = \"{period} us\"\nduration = \"{window} us\"\n\
             core = {}\n[[partition.chain]]\nage = \"{} us\"\n",
            n % 2,
            2 * period
        );
        for key in ["input", "output"] {
            // The I/O core has 30 % of its time for all transfers.
            let transfer = part(&mut random, 150 / count as u64);
            let physical = transfer + part(&mut random, 150 / count as u64);
            let device = random.below(4);
            let _ = writeln!(
                text,
                "{key} = {{ device = \"d{device}\", physical = \"{physical} us\", transfer = \
                    \"{transfer} us\" }}"
            );
        }
    }
    Ok(WindowsInput::parse(Path::new("fig9.toml"), &text)?)
}
