//! Quality of the climb: on a small memory, every point of a small space is tried, and the climb
//! must come near the worst of them.
//!
//! Rule: two cores, two banks of 64 rows. The first space is a part of the search's own genes; the
//! second is all sequences of a few requests that a rival may repeat. The climb has a fraction of
//! the evaluations of the full search, and must reach 95 % of the worst response.

use solocore_experiments::attack::climb::{Genes, climb};
use solocore_experiments::attack::evaluate::{planned, simulated};
use solocore_experiments::attack::genes::Cursor;
use solocore_experiments::attack::program::{Beat, Job, Rows, Shape};
use solocore_experiments::attack::system::{Analysed, Attack, Policy};
use solocore_model::platform::PRESETS;
use solocore_model::results::Mode;
use solocore_sim::program::{Entry, Op, OpKind, PageKind, Program};
use solocore_sim::{Options, StandIn, simulate_with};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A board with a memory of two banks and 64 rows, as a platform file.
fn board(dir: &Path) -> PathBuf {
    let (_, text) = PRESETS.iter().find(|(name, _)| *name == "imx6q").unwrap();
    let mut out = String::new();
    for line in text.lines() {
        let key = line.split('=').next().unwrap_or("").trim();
        out += &match key {
            "cores" => "cores = 2".to_owned(),
            "banks" => "banks = 2".to_owned(),
            "capacity" => "capacity = \"1 MiB\"".to_owned(),
            _ => line.to_owned(),
        };
        out.push('\n');
    }
    let path = dir.join("small.toml");
    std::fs::write(&path, out).unwrap();
    path
}

fn beat(c: &mut Cursor) -> Beat {
    let (reads, writes) = c.pick(&[(1, 0), (0, 1), (1, 1), (2, 6)]);
    Beat {
        read_rows: c.pick(&[Rows::Conflicts, Rows::Hits]),
        read: OpKind::Prefetch,
        reads,
        writes,
        write_rows: c.pick(&[Rows::Hits, Rows::Conflicts]),
        write: OpKind::StoreLine,
        bank: 0,
        gap: 0,
        burst: c.pick(&[0, 12, 48]),
        pause: c.pick(&[400, 4_000]),
        lead: c.pick(&[0, 3_000]),
    }
}

fn decode(policy: Policy, board: &Path, c: &mut Cursor) -> Attack {
    let rival = beat(c);
    let own = c.pick(&[None, Some(rival)]);
    let job = Job {
        misses: 12,
        cycles: 0,
        read_rows: Rows::Conflicts,
        read: c.pick(&[OpKind::LoadWait, OpKind::Load]),
        write_each: 0,
        bank: 0,
        shape: c.pick(&[Shape::Even, Shape::Start]),
        empty_each: 0,
    };
    let phase_ns = c.pick(&[0, 18_000]);
    let victim =
        Analysed { job, compute_ns: 2_000, period_ns: 61_000, deadline_ps: None, phase_ns };
    Attack {
        policy,
        board: board.display().to_string(),
        cores: 2,
        period_ns: 20_000,
        share: 250,
        knob: 0,
        victim,
        mates: Vec::new(),
        jobs: None,
        write_part: 0,
        devices: 0,
        own,
        others: vec![Some(rival)],
        seed: 1,
    }
}

/// The point of this number.
fn point(sizes: &[u16], mut number: u64) -> Genes {
    let digit = |&size: &u16| {
        let digit = number % u64::from(size);
        number /= u64::from(size);
        u16::try_from(digit).unwrap()
    };
    sizes.iter().map(digit).collect()
}

/// The number of a point.
fn index(sizes: &[u16], genes: &Genes) -> usize {
    let digits = sizes.iter().zip(genes).rev();
    digits.fold(0, |number, (&size, &gene)| number * usize::from(size) + usize::from(gene))
}

/// Tries all points, climbs a few times with a fraction of the evaluations, and compares.
fn compare(name: &str, sizes: &[u16], share: u64, value: &dyn Fn(&Genes) -> f64) {
    let all: u64 = sizes.iter().map(|&n| u64::from(n)).product();
    let values: Vec<f64> = (0..all).map(|n| value(&point(sizes, n))).collect();
    let worst = values.iter().copied().fold(0.0, f64::max);
    let near = values.iter().filter(|&&v| v >= 0.95 * worst).count();
    let mut least = f64::MAX;
    for seed in 0..8 {
        // From somewhere, as a real search.
        let start = point(sizes, seed * 7919 % all);
        let (_, top) = climb(sizes, &[], &[start], all / share, seed, &mut |genes| {
            values[index(sizes, genes)]
        });
        least = least.min(top);
    }
    println!(
        "{name}: {all} points, worst {worst} ns, {near} of them within 5 %; climbs of {} \
            evaluations reach {:.1} % and more",
        all / share,
        100.0 * least / worst
    );
    assert!(
        near as u64 * 5 < all,
        "{name}: {near} of {all} points are as bad as the worst: nothing to search"
    );
    assert!(least >= 0.95 * worst, "{name}: a climb reached {least} ns of {worst}");
}

#[test]
fn climbs_come_near_the_worst_of_all_points() {
    let dir = tempfile::tempdir().unwrap();
    let board = board(dir.path());
    for policy in [Policy::None, Policy::Even] {
        let mut cursor = Cursor::new(&[]);
        decode(policy, &board, &mut cursor);
        let sizes = cursor.sizes();
        let value = |genes: &Genes| {
            let attack = decode(policy, &board, &mut Cursor::new(genes));
            let plan = planned(&attack, dir.path()).unwrap();
            let result = simulated(&attack, &plan, attack.victim.phase_ns + 61_000).unwrap();
            result.tasks[0].max_response_ns as f64
        };
        compare(&format!("{policy:?}"), &sizes, 10, &value);
    }
}

/// Requests that a rival repeats, each to a line of its own.
struct Script {
    steps: Vec<u16>,
    /// Lines of one row, and lines that each lie in another row than the one before.
    hits: Vec<u64>,
    conflicts: Vec<u64>,
    pages: u32,
    done: usize,
}

/// Requests of a script, and the choices of each: reads and writes of an open row or another one,
/// and short and long computations.
const STEPS: usize = 4;
const CHOICES: u16 = 6;

impl Program for Script {
    fn refill(&mut self, out: &mut Vec<Op>) {
        for step in &self.steps {
            let hit = self.hits[self.done % self.hits.len()];
            let conflict = self.conflicts[self.done % self.conflicts.len()];
            out.push(match step {
                0 => Op::compute(20),
                1 => Op::access(OpKind::Prefetch, 0, hit),
                2 => Op::access(OpKind::Prefetch, 0, conflict),
                3 => Op::access(OpKind::StoreLine, 0, hit),
                4 => Op::access(OpKind::StoreLine, 0, conflict),
                _ => Op::compute(300),
            });
            self.done += 1;
        }
    }

    fn entry(&self) -> Entry {
        Entry::Shared
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn abandon_job(&mut self) {}
}

#[test]
fn climbs_come_near_the_worst_of_all_sequences() {
    let dir = tempfile::tempdir().unwrap();
    let board = board(dir.path());
    let mut attack = Attack { own: None, ..decode(Policy::None, &board, &mut Cursor::new(&[])) };
    (attack.victim.compute_ns, attack.victim.job.shape) = (1_000, Shape::Even);
    let plan = planned(&attack, dir.path()).unwrap();
    let layout = solocore_sim::plan::layout(&plan).unwrap();
    let lines = u64::from(plan.platform.lines_per_page());
    // Every other row of the second bank; the first page has the hits.
    let frames: Vec<u64> =
        (0..layout.rows()).step_by(2).map(|row| layout.frames_of(1, row)[0]).collect();
    let pages = u32::try_from(frames.len()).unwrap();
    let others = u64::from(pages) - 1;
    let conflicts: Vec<u64> =
        (0..others * lines).map(|n| (1 + n % others) * lines + n / others).collect();
    let value = |genes: &Genes| {
        let mut stand_ins = attack.stand_ins(&plan, &layout);
        let (steps, conflicts) = (genes.clone(), conflicts.clone());
        let program = Arc::new(move || {
            let hits = (0..lines).collect();
            Box::new(Script {
                steps: steps.clone(),
                hits,
                conflicts: conflicts.clone(),
                pages,
                done: 0,
            }) as Box<dyn Program>
        });
        let (frames, kind) = (frames.clone(), Some(PageKind::Bypass));
        stand_ins[1] = StandIn { task: 1, program, frames, kind, phase_ns: 0 };
        let options = Options { mode: Mode::Managed, duration_ns: 70_000, seed: 1, timeline_ns: 0 };
        let result = simulate_with(&plan, &options, &stand_ins, &|_| true).unwrap();
        result.tasks[0].max_response_ns as f64
    };
    compare("sequences", &[CHOICES; STEPS], 5, &value);
}
