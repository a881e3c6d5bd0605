//! MARACAS section V: the cost of moving a VCPU, against the equations for `C_m`.
//!
//! `C_m >= 2 E_lock + E_struct`, and with page colours `+ P_max E_page`. The paper measures none of
//! the terms ("further studies of the exact costs" are left to future work). Here each term is
//! measured by itself, beside the three `m_jump` of Fig. 5 on the other cores, and its longest time
//! counts. Then whole moves are measured in the same place, and compared with the sum.
//!
//! Set-up: the migration thread runs on core 0 of the board of Table I. A lock is a line that is
//! read, waited for, and written. A VCPU's structure has four such lines (assumed). A page is
//! copied line by line, 8 cycles each (assumed), from the colours of the first core to those of the
//! last one (section VI-D). `P_max` is the 1 MB of `mwalk`. Each move has other pages than the move
//! before, so that no page is in the cache already. A move without pages is in the table only: its
//! few lines stay in the shared cache here.

use super::colours::own;
use super::setup::{DELAYS, board, m_jump};
use crate::mc2::samples::{Samples, Times, take};
use crate::run::{MS, points};
use crate::{Chart, Context, Experiment, ExperimentError, Outcome, Table, row};
use solocore_model::Bytes;
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::program::{Entry, Op, OpKind, Program, Signal};
use solocore_sim::workload::WorkloadSpec;
use solocore_sim::workload::params::Latency;
use std::path::Path;

pub const MOVES: Experiment = Experiment {
    id: "maracas-moves",
    source: "MARACAS section V",
    title: "Time of a VCPU's move beside three m_jump, and the equations for C_m",
    run,
};

/// Pages of the largest address space: 1 MB.
const P_MAX: u64 = 256;
/// Pages between which moves go, on either side: more than the cache has.
const POOL: u64 = 2048;
/// Lines of a VCPU's structure.
const STRUCTURE: u64 = 4;
/// Cycles of the copy of a line.
const COPY: u64 = 8;
/// Cycles between two moves.
const PAUSE: u64 = 100_000;

/// The operations that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Lock,
    Structure,
    Page,
    /// A whole move with this number of pages.
    Move(u64),
}

const PARTS: [(Part, &str); 5] = [
    (Part::Lock, "E_lock"),
    (Part::Structure, "E_struct"),
    (Part::Page, "E_page"),
    (Part::Move(0), "a move without pages"),
    (Part::Move(P_MAX), "a move of 256 pages"),
];

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let found = points(context, &PARTS, |&(part, _)| measure(context, part))?;
    let mut table = Table::new(&["operation", "longest_us", "mean_us"]);
    for ((_, name), t) in PARTS.iter().zip(&found) {
        table.push(row![*name, t.moet_us, t.acet_us]);
    }
    let mut outcome = Outcome::new(table);
    let [lock, structure, page, bare, whole] = [0, 1, 2, 3, 4].map(|at| found[at]);
    let plain = 2.0 * lock.moet_us + structure.moet_us;
    let coloured = plain + P_MAX as f64 * page.moet_us;
    outcome.untestable(
        "with colours 2 E_lock + E_struct + P_max E_page covers each move",
        "section V",
        &format!(
            "the simulated move is these very operations, and the sum has the longest time of \
                each: {:.2} us at the longest, the sum {coloured:.2} us. On Linux a move is let \
                through by `C_m >= B + P E` with stated costs, and its time is measured: some take \
                longer (docs/vcpus.md)",
            whole.moet_us
        ),
    );
    outcome.untestable(
        "a move takes longer when pages are recoloured",
        "section V",
        &format!(
            "a page more is work more: {:.2} us with {P_MAX} pages, {:.2} us without",
            whole.acet_us, bare.acet_us
        ),
    );
    let bars = vec![
        ("longest".to_owned(), vec![Some(bare.moet_us), Some(whole.moet_us)]),
        ("equation".to_owned(), vec![Some(plain), Some(coloured)]),
    ];
    let groups = vec!["without pages".to_owned(), format!("{P_MAX} pages")];
    outcome.charts.push(Chart::bars("Time of a move", "us", groups, bars));
    outcome.differs(
        "The paper measures no term and no move; the lines of the structure, the cycles of a copy \
            and the largest address space are assumed.",
    );
    outcome.differs(
        "The machine has no coherence traffic: a lock that another core has held comes from the \
            shared cache or from the memory.",
    );
    Ok(outcome)
}

fn measure(context: &Context, part: Part) -> Result<Times, ExperimentError> {
    let mut board = board(context)?;
    let task = mover(&mut board, part)?;
    for core in 1..4usize {
        let index = board.add(&format!("m_jump {core}"), &m_jump(DELAYS[0]))?;
        board.task(index).core = Some(core);
    }
    let wanted = match part {
        Part::Move(P_MAX) => context.pick(20, 200),
        _ => context.pick(500, 5000),
    };
    let mut samples = [Samples::marks(task, 10, wanted)];
    take(context, board, KernelConfig::default(), MS, &mut samples)?;
    Ok(samples[0].times())
}

/// Adds the migration thread to core 0.
fn mover(board: &mut Board, part: Part) -> Result<usize, ExperimentError> {
    let all = board.config.layout().map_err(BoardError::from)?.colours();
    let lines = u64::from(board.platform().lines_per_page());
    let pool = u32::try_from(POOL).unwrap_or(u32::MAX);
    let mut frames = board.pages("queues", 1, &Place::default())?;
    for (name, core) in [("from", 0), ("to", 3)] {
        frames.extend(board.pages(name, pool, &Place::default().colours(&own(core, all)))?);
    }
    let size = Bytes(frames.len() as u64 * board.platform().page.0);
    let mut workload = WorkloadSpec::Latency(Latency { size, ..Latency::default() })
        .build(&board.context(Path::new(".")))
        .map_err(BoardError::from)?;
    workload.program = Box::new(Mover { part, lines, copied: 0 });
    let task = board.add_workload("migration thread", workload, &Place::frames(&frames), &[])?;
    board.task(task).core = Some(0);
    Ok(task)
}

/// The program: the same operation for ever, between marks 0 and 1.
struct Mover {
    part: Part,
    lines: u64,
    /// Pages copied so far.
    copied: u64,
}

impl Mover {
    /// A line that is read, waited for, and written.
    fn change(out: &mut Vec<Op>, line: u64) {
        out.push(Op::access(OpKind::LoadWait, 0, line));
        out.push(Op::access(OpKind::Store, 0, line));
    }

    fn structure(out: &mut Vec<Op>) {
        // Beside the two locks, in the page of the queues.
        (2..2 + STRUCTURE).for_each(|line| Self::change(out, line));
    }

    fn page(&mut self, out: &mut Vec<Op>) {
        let page = 1 + self.copied % POOL;
        self.copied += 1;
        for line in 0..self.lines {
            out.push(Op::access(OpKind::Load, 0, page * self.lines + line));
            out.push(Op::access(OpKind::Store, COPY, (page + POOL) * self.lines + line));
        }
    }
}

impl Program for Mover {
    fn refill(&mut self, out: &mut Vec<Op>) {
        out.push(Op::signal(Signal::Mark(0)));
        match self.part {
            Part::Lock => Self::change(out, 0),
            Part::Structure => Self::structure(out),
            Part::Page => self.page(out),
            Part::Move(pages) => {
                (0..2).for_each(|lock| Self::change(out, lock));
                Self::structure(out);
                (0..pages).for_each(|_| self.page(out));
            }
        }
        out.push(Op::signal(Signal::Mark(1)));
        out.push(Op::compute(PAUSE));
    }

    fn entry(&self) -> Entry {
        Entry::Shared
    }

    fn pages(&self) -> u32 {
        u32::try_from(1 + 2 * POOL).unwrap_or(u32::MAX)
    }

    fn abandon_job(&mut self) {}
}
