//! A task whose accesses scatter over its pages, hot pages more often: the stand-in for the vision
//! benchmarks of SCE section 4.
//!
//! Problem: the paper gives of each benchmark its pages, its times, and (by eq. (1)) its misses,
//! not its program. Rule: a job makes a number of dependent accesses to random lines of random
//! pages, with computation in pieces of random length between them. The pages are drawn evenly, or
//! the hotter of two draws wins: then the share of accesses falls linearly with the rank, and the
//! colder half of the pages has a quarter of them. The ranks of the pages are shuffled. The number
//! of accesses of a job differs by up to 5 % with its input; the computation does not. The accesses
//! go straight to the shared cache: the paper keeps the levels above it disabled. Not covered:
//! stores.

use solocore_dram::random::Random;
use solocore_model::Bytes;
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::program::{Entry, Op, OpKind, Program, Signal};
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::Latency;
use std::path::Path;

/// A job in figures.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Pages.
    pub pages: u32,
    /// Accesses of a job, on average over inputs.
    pub accesses: u64,
    /// Cycles of computation of a job.
    pub cycles: u64,
    /// Does the share of accesses fall with the rank of the page, and their number vary with the
    /// input?
    pub hot: bool,
    /// Does a job that touches every line once come first?
    pub warm: bool,
}

/// The program.
struct Scatter {
    shape: Shape,
    lines: u64,
    random: Random,
    /// Page of each rank.
    order: Vec<u32>,
    /// Accesses and cycles left of this job.
    left: u64,
    cycles: u64,
    /// Lines to touch before the first job.
    touch: u64,
    /// Twice the mean gap.
    gap: u64,
}

impl Scatter {
    /// `input` decides the work of a job, `seed` the hot pages.
    fn new(shape: Shape, lines: u32, seed: u64, input: u64) -> Self {
        let mut random = Random::new(seed);
        let mut order: Vec<u32> = (0..shape.pages).collect();
        for last in (1..order.len()).rev() {
            let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(0);
            order.swap(last, other);
        }
        let random = Random::new(seed ^ input.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut program = Self {
            shape,
            lines: u64::from(lines),
            random,
            order,
            left: 0,
            cycles: 0,
            touch: 0,
            gap: 0,
        };
        program.touch = if shape.warm { u64::from(shape.pages) * program.lines } else { 0 };
        program.begin();
        program
    }

    fn begin(&mut self) {
        let mean = self.shape.accesses.max(1);
        let vary = if self.shape.hot { mean / 10 } else { 0 };
        self.left = mean - vary / 2 + self.random.below(vary + 1);
        self.cycles = self.shape.cycles;
        self.gap = 2 * self.cycles / self.left;
    }

    fn line(&mut self) -> u64 {
        let ranks = self.order.len() as u64;
        let mut rank = self.random.below(ranks);
        if self.shape.hot {
            rank = rank.min(self.random.below(ranks));
        }
        let page = self.order.get(usize::try_from(rank).unwrap_or(0)).copied().unwrap_or(0);
        u64::from(page) * self.lines + self.random.below(self.lines)
    }
}

impl Program for Scatter {
    fn refill(&mut self, out: &mut Vec<Op>) {
        if self.touch > 0 {
            let rest = self.touch - self.touch.min(256);
            out.extend((rest..self.touch).map(|line| Op::access(OpKind::LoadWait, 0, line)));
            self.touch = rest;
            out.extend((rest == 0).then_some(Op::signal(Signal::JobEnd)));
            return;
        }
        for _ in 0..self.left.min(256) {
            let gap = self.random.below(self.gap + 1).min(self.cycles).min(Op::MAX_GAP);
            self.cycles -= gap;
            self.left -= 1;
            let line = self.line();
            out.push(Op::access(OpKind::LoadWait, gap, line));
        }
        if self.left == 0 {
            out.push(Op::compute(self.cycles.min(Op::MAX_COMPUTE)));
            out.push(Op::signal(Signal::JobEnd));
            self.begin();
        }
    }

    fn entry(&self) -> Entry {
        Entry::Shared
    }

    fn pages(&self) -> u32 {
        self.shape.pages
    }

    fn abandon_job(&mut self) {
        self.begin();
    }
}

/// Adds the task as task 0 on core 0; its first job is that of `input`.
pub fn add(
    board: &mut Board,
    name: &str,
    shape: Shape,
    place: &Place,
    input: u64,
) -> Result<usize, BoardError> {
    let page = board.platform().page.0;
    let context = board.context(Path::new("."));
    // The pages of a chase over an array of that size; what walks over them is put in its place.
    let array = Latency { size: Bytes(u64::from(shape.pages) * page), ..Latency::default() };
    let mut workload = WorkloadSpec::Latency(array).build(&context)?;
    workload.program = Box::new(Scatter::new(shape, context.lines_per_page, context.seed, input));
    let task = board.add_workload(name, workload, place, &[])?;
    board.task(task).core = Some(0);
    Ok(task)
}

/// Pages by the number of their accesses in a job, most first: the profile. It is of another input
/// than those measured.
pub fn ranked(shape: Shape, lines: u32, seed: u64) -> Vec<u32> {
    let mut program = Scatter::new(Shape { warm: false, ..shape }, lines, seed, u64::MAX / 2);
    let mut counts = vec![0u64; shape.pages as usize];
    let mut ops = Vec::new();
    loop {
        ops.clear();
        program.refill(&mut ops);
        for op in &ops {
            match op.kind() {
                OpKind::LoadWait => {
                    let page = usize::try_from(op.line() / u64::from(lines)).unwrap_or(0);
                    counts[page] += 1;
                }
                OpKind::Signal => {
                    let mut pages: Vec<u32> = (0..shape.pages).collect();
                    pages.sort_by_key(|&p| std::cmp::Reverse(counts[p as usize]));
                    return pages;
                }
                _ => {}
            }
        }
    }
}
