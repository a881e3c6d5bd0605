//! MC2 Table 1: the tasks that cause and experience each interference, by the task's level and the
//! place of its buffer.
//!
//! Set-up (section 4.4): each cell is measured with a probe and an interferer. Interference in the
//! sense of the table is that of shared banks and shared cache space; bus and controller are shared
//! by all and always cost something. So a probe's time beside the interferer (`with`) is compared
//! with its time beside the same interferer moved to a bank and to ways that nobody else has
//! (`without`); `alone` is for the record. The table says whether there is interference, not how
//! much, so a cell says Yes if the time grows by more than 1 %. `moved`, beside the interferer in
//! yet another free bank, shows what comes of where pages are drawn: 0.1 % at most.
//!
//! The task is on core 0. A DMA engine moves 200 MB/s (the top of Table 3) into the buffer of the
//! task, or into one that belongs to core 1; CPU-sourced interference comes from a program that
//! reads at random. A probe that uses the buffer reads it in order; one for all other execution
//! reads other pages in random order. Cells that the same simulation decides are one claim.

use self::claims::judge;
use super::samples::{Samples, take};
use super::setup::{FIRST_C, LEVEL_C, add, board, engine, ways};
use crate::run::{MS, points};
use crate::{Chart, Context, Experiment, ExperimentError, Mutation, Outcome, Table, row};
use solocore_model::{Bytes, Cycles};
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::kernel::config::Release;
use solocore_sim::machine::Stream;
use solocore_sim::workload::params::{BandwidthHog, SceBenchmark};
use solocore_sim::workload::{Job, WorkloadSpec};

#[path = "sharing_claims.rs"]
mod claims;

pub const TABLE1: Experiment = Experiment {
    id: "mc2-table1",
    source: "MC2 Table 1",
    title: "Interference that a task causes and experiences, by its level and the place of its \
        buffer",
    run,
};

/// Growth of the time that counts as interference. A move of the interferer to another free bank
/// makes 0.1 % at most in any cell.
const GROWTH: f64 = 0.01;

/// Pages and ways: of levels A and B of a core, of level C, or of no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Core(u32),
    C,
    Spare,
    Another,
}

impl Share {
    fn bank(self, context: &Context) -> u32 {
        match self {
            Self::Core(_) if context.mutated(Mutation::SharedBanks) => FIRST_C,
            Self::Core(core) => core,
            Self::C => FIRST_C,
            Self::Spare => LEVEL_C[3],
            Self::Another => LEVEL_C[2],
        }
    }

    fn ways(self) -> u64 {
        match self {
            Self::Core(core) => ways(3 + 3 * core, 3),
            Self::C => ways(0, 3),
            Self::Spare | Self::Another => ways(15, 1),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dma,
    Cpu,
}

/// The probe: its pages, its ways, its core; with the buffer, or with other pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Probe {
    core: usize,
    pages: Share,
    ways: Share,
    buffer: bool,
}

/// The interferer: its kind, its core, its pages, its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interferer {
    kind: Kind,
    core: usize,
    pages: Share,
    ways: Share,
}

/// A column: level and place of the buffer.
#[derive(Clone, Copy, Debug)]
struct Column {
    level: char,
    place: Share,
}

const COLUMNS: [Column; 5] = [
    Column { level: 'A', place: Share::Core(0) },
    Column { level: 'A', place: Share::C },
    Column { level: 'B', place: Share::Core(0) },
    Column { level: 'B', place: Share::C },
    Column { level: 'C', place: Share::C },
];

/// A row: other tasks are on the same core or not, the task causes interference or experiences it,
/// from DMA or CPU.
#[derive(Clone, Copy, Debug)]
struct Row {
    same: bool,
    causes: bool,
    kind: Kind,
}

const fn row_of(same: bool, causes: bool, kind: Kind) -> Row {
    Row { same, causes, kind }
}

const ROWS: [Row; 8] = [
    row_of(true, true, Kind::Dma),
    row_of(true, false, Kind::Dma),
    row_of(true, true, Kind::Cpu),
    row_of(true, false, Kind::Cpu),
    row_of(false, true, Kind::Dma),
    row_of(false, false, Kind::Dma),
    row_of(false, true, Kind::Cpu),
    row_of(false, false, Kind::Cpu),
];

/// The paper's table, by row; `*`: only when accessing the buffer, `+` (a dagger there): only to
/// level C's tasks.
const PAPER: [[&str; 5]; 8] = [
    ["Yes", "Yes+", "Yes", "Yes+", "Yes"],
    ["Yes", "Yes*", "Yes", "Yes*", "Yes"],
    ["No", "No", "No", "No", "No"],
    ["No", "No", "No", "No", "No"],
    ["No", "Yes+", "No", "Yes+", "Yes"],
    ["No", "Yes*", "No", "Yes*", "Yes"],
    ["No", "Yes", "No", "Yes", "Yes"],
    ["No", "Yes*", "No", "Yes*", "Yes"],
];

/// One comparison of a cell.
struct Point {
    cell: (usize, usize),
    what: &'static str,
    probe: Probe,
    interferer: Interferer,
}

/// Mean times of the probe's jobs.
struct Found {
    with_us: f64,
    without_us: f64,
    moved_us: f64,
    alone_us: f64,
}

impl Found {
    fn growth(&self) -> f64 {
        self.with_us / self.without_us - 1.0
    }
}

/// A simulation: probe, interferer. All have the same draw of pages.
type Run = (Probe, Option<Interferer>);

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let cells = (0..ROWS.len()).flat_map(|r| (0..COLUMNS.len()).map(move |c| (r, c)));
    let all: Vec<Point> = cells.flat_map(comparisons).collect();
    let found = measure_all(context, &all)?;
    let mut table = Table::new(&[
        "others",
        "interference",
        "level",
        "buffer",
        "paper",
        "probe",
        "alone_us",
        "without_us",
        "moved_us",
        "with_us",
        "growth",
    ]);
    for (p, f) in all.iter().zip(&found) {
        let (r, c) = p.cell;
        let (row, column) = (ROWS[r], COLUMNS[c]);
        table.push(row![
            others(row),
            title(row),
            column.level.to_string(),
            place(column),
            PAPER[r][c],
            p.what,
            f.alone_us,
            f.without_us,
            f.moved_us,
            f.with_us,
            f.growth(),
        ]);
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, &all, &found);
    draw(&mut outcome, &all, &found);
    outcome.differs(
        "Levels A and B differ in scheduling only, which a probe alone on its core does not see. \
            One simulation stands for both, and level B is not counted.",
    );
    outcome.differs(
        "In the available text the daggers of level B's columns are missing. The paragraph below \
            the table speaks of both levels, so they are taken to be those of level A.",
    );
    outcome.differs(
        "Several cells of the table rest on the same simulation. They are one claim here, and the \
            cell that is nearest to failing counts.",
    );
    Ok(outcome)
}

fn others(row: Row) -> &'static str {
    if row.same { "same core" } else { "other cores" }
}

fn title(row: Row) -> String {
    let kind = if row.kind == Kind::Dma { "DMA" } else { "CPU" };
    format!("{} {kind}-sourced", if row.causes { "causes" } else { "experiences" })
}

fn place(column: Column) -> &'static str {
    if column.place == Share::C { "C" } else { "A/B" }
}

const IN_AB: &str = "level A/B";
const IN_C: &str = "level C";
const BUFFER: &str = "buffer";
const REST: &str = "other execution";

/// Comparisons for a cell: with the tasks that the task disturbs, by level, or with the
/// disturbances of the task.
fn comparisons((r, c): (usize, usize)) -> Vec<Point> {
    let (row, column) = (ROWS[r], COLUMNS[c]);
    let own = if column.level == 'C' { Share::C } else { Share::Core(0) };
    let task = Probe { core: 0, pages: own, ways: own, buffer: false };
    let at_buffer = Probe { pages: column.place, buffer: true, ..task };
    let other = u32::from(!row.same);
    let probe = |level| Probe { core: other as usize, pages: level, ways: level, buffer: false };
    let point = |what, probe, interferer| Point { cell: (r, c), what, probe, interferer };
    if row.causes {
        let interferer = Interferer { kind: row.kind, core: 0, pages: column.place, ways: own };
        return vec![
            point(IN_AB, probe(Share::Core(other)), interferer),
            point(IN_C, probe(Share::C), interferer),
        ];
    }
    // Others' buffers and pages: on the same core where the task's buffer is; on other cores in
    // level C's banks where the task has its buffer there, else in their own.
    let pages = if row.same || column.place == Share::C { column.place } else { Share::Core(1) };
    let whose = if pages == Share::C { Share::C } else { Share::Core(other) };
    let interferer = Interferer { kind: row.kind, core: other as usize, pages, ways: whose };
    vec![point(BUFFER, at_buffer, interferer), point(REST, task, interferer)]
}

/// The simulations of a comparison: with the interferer, without, with it moved once more, alone.
fn runs(p: &Point) -> [Run; 4] {
    // A device has no core and no ways, and a task of level C has the same share on every core.
    let dma = p.interferer.kind == Kind::Dma;
    let plain = |i: Interferer| if dma { Interferer { core: 0, ways: i.pages, ..i } } else { i };
    let anywhere = dma && p.probe.ways == Share::C;
    let probe = if anywhere { Probe { core: 0, ..p.probe } } else { p.probe };
    let at = |share| Interferer { pages: share, ways: share, ..p.interferer };
    let interferers = [Some(p.interferer), Some(at(Share::Spare)), Some(at(Share::Another)), None];
    interferers.map(|interferer| (probe, interferer.map(plain)))
}

/// Many cells need the same simulation; it is made once.
fn measure_all(context: &Context, all: &[Point]) -> Result<Vec<Found>, ExperimentError> {
    let mut distinct: Vec<Run> = Vec::new();
    for run in all.iter().flat_map(runs) {
        if !distinct.contains(&run) {
            distinct.push(run);
        }
    }
    let times = points(context, &distinct, |run| time(context, run))?;
    let of = |run: Run| distinct.iter().position(|&d| d == run).map_or(f64::NAN, |at| times[at]);
    let found = all.iter().map(|p| {
        let [with_us, without_us, moved_us, alone_us] = runs(p).map(of);
        Found { with_us, without_us, moved_us, alone_us }
    });
    Ok(found.collect())
}

/// Mean execution time of the probe's jobs, in us.
fn time(context: &Context, &(probe, interferer): &Run) -> Result<f64, ExperimentError> {
    const PERIOD_PS: u64 = 5 * MS / 2;
    let mut board = board(context)?;
    let job = Some(Job::Accesses(10_000));
    let spec = if probe.buffer {
        WorkloadSpec::Bandwidth(BandwidthHog {
            size: ARRAY,
            gap: Cycles(8),
            job,
            ..BandwidthHog::default()
        })
    } else {
        random(job)
    };
    let place = Place::banks(&[probe.pages.bank(context)]);
    let task = add(&mut board, "probe", probe.core, probe.ways.ways(), &spec, &place)?;
    // Jobs leave half of the core to others.
    board.task(task).release =
        Release::Periodic { period_ps: PERIOD_PS, phase_ps: 0, jitter_ps: 0 };
    if let Some(i) = interferer {
        interfere(context, &mut board, i)?;
    }
    let mut samples = [Samples::jobs(task, 1, context.pick(2, 30))];
    take(context, board, KernelConfig::default(), PERIOD_PS, &mut samples)?;
    Ok(samples[0].times().acet_us)
}

/// Array that probes and interferers read. No part of it stays in a share of 3 ways until it is
/// read again, and no line must be written back. The rest that another task on the same core leaves
/// would cost a preempted task time, which the table does not count.
const ARRAY: Bytes = Bytes(1 << 20);

fn random(job: Option<Job>) -> WorkloadSpec {
    let (size, stride) = (ARRAY, Bytes(0));
    WorkloadSpec::SceBenchmark(SceBenchmark {
        size,
        stride,
        dependent: false,
        job,
        ..SceBenchmark::default()
    })
}

fn interfere(context: &Context, board: &mut Board, i: Interferer) -> Result<(), BoardError> {
    let place = Place::banks(&[i.pages.bank(context)]);
    if i.kind == Kind::Cpu {
        let task = add(board, "interferer", i.core, i.ways.ways(), &random(None), &place)?;
        board.task(task).priority = 1;
        return Ok(());
    }
    let frames = board.pages("buffer", 98, &place)?;
    let stream = Stream {
        into_memory: true,
        bytes_per_s: Some(200_000_000),
        start_ps: 0,
        stop_ps: u64::MAX,
    };
    board.device(engine("device", frames, 0, Some(stream)));
    Ok(())
}

/// The larger growth of each cell.
fn draw(outcome: &mut Outcome, all: &[Point], found: &[Found]) {
    let largest = |cell| {
        let ours = all.iter().zip(found).filter(|(p, _)| p.cell == cell);
        ours.map(|(_, f)| f.growth() * 100.0).fold(f64::MIN, f64::max)
    };
    for (kind, name) in [(Kind::Dma, "DMA"), (Kind::Cpu, "CPU")] {
        let rows: Vec<usize> = (0..ROWS.len()).filter(|&r| ROWS[r].kind == kind).collect();
        let groups = rows.iter().map(|&r| {
            let who = if ROWS[r].same { "same" } else { "others" };
            format!("{who}: {}", if ROWS[r].causes { "causes" } else { "suffers" })
        });
        let series = COLUMNS.iter().enumerate().map(|(c, column)| {
            let values = rows.iter().map(|&r| Some(largest((r, c)))).collect();
            (format!("{}, buffer in {}", column.level, place(*column)), values)
        });
        let title = format!("{name}-sourced interference, same core and other cores");
        outcome.charts.push(Chart::bars(
            &title,
            "growth of time, %",
            groups.collect(),
            series.collect(),
        ));
    }
}
