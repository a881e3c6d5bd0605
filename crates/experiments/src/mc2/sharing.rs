//! MC2 Table 1: who causes and who experiences which interference, by the task's level and the place of its buffer.
//!
//! Set-up (section 4.4): each cell is measured with a probe and an interferer. Interference in the sense of the table
//! is that of shared banks and shared cache space; bus and controller are shared by all and always cost something. So a probe's
//! time beside the interferer (`with`) is compared with its time beside the same interferer moved to a bank and to ways that
//! nobody else has (`without`); `alone` is for the record. A cell says Yes if the time grows by at least 3 %, the least
//! inflation that the paper reports (Observation 3).
//!
//! The task is on core 0. A DMA engine moves 200 MB/s (the top of Table 3) into the buffer of the task, or into one that
//! belongs to core 1; CPU-sourced interference comes from a program that reads at random. A probe that uses the buffer reads it in
//! order; one for all other execution reads other pages in random order.

use super::{FIRST_C, Samples, add, board, engine, take, ways};
use crate::run::{MS, points};
use crate::{Chart, Context, Experiment, ExperimentError, Outcome, Table, row};
use solocore_model::{Bytes, Cycles};
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::kernel::config::Release;
use solocore_sim::machine::Stream;
use solocore_sim::workload::params::{BandwidthHog, SceBenchmark};
use solocore_sim::workload::{Job, WorkloadSpec};

pub const TABLE1: Experiment = Experiment {
    id: "mc2-table1",
    source: "MC2 Table 1",
    title: "Interference that a task causes and experiences, by its level and the place of its buffer",
    run,
};

/// Growth from which on a cell says Yes.
const GROWTH: f64 = 1.03;

/// Whose pages and ways: levels A and B of a core, level C, or nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Core(u32),
    C,
    Spare,
}

impl Share {
    fn bank(self) -> u32 {
        match self {
            Self::Core(core) => core,
            Self::C => FIRST_C,
            Self::Spare => 7,
        }
    }

    fn ways(self) -> u64 {
        match self {
            Self::Core(core) => ways(3 + 3 * core, 3),
            Self::C => ways(0, 3),
            Self::Spare => ways(15, 1),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dma,
    Cpu,
}

/// The probe: which pages, whose ways, on which core; with the buffer, or with anything else.
#[derive(Clone, Copy, Debug)]
struct Probe {
    core: usize,
    pages: Share,
    ways: Share,
    buffer: bool,
}

/// The interferer: what it is, where it runs, which pages it uses, whose ways.
#[derive(Clone, Copy, Debug)]
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

/// A row: other tasks are on the same core or not, the task causes interference or experiences it, from DMA or CPU.
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

/// The paper's table, by row; `*`: only when accessing the buffer, `+` (a dagger there): only to level C's tasks.
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
    alone_us: f64,
}

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let cells = (0..ROWS.len()).flat_map(|r| (0..COLUMNS.len()).map(move |c| (r, c)));
    let all: Vec<Point> = cells.flat_map(comparisons).collect();
    let found = points(context, &all, |p| measure(context, p))?;
    let mut table = Table::new(&[
        "others", "interference", "level", "buffer", "paper", "probe", "alone_us", "without_us", "with_us", "growth",
    ]);
    for (p, f) in all.iter().zip(&found) {
        let (r, c) = p.cell;
        table.push(row![
            others(ROWS[r]),
            title(ROWS[r]),
            COLUMNS[c].level.to_string(),
            place(COLUMNS[c]),
            PAPER[r][c],
            p.what,
            f.alone_us,
            f.without_us,
            f.with_us,
            f.with_us / f.without_us,
        ]);
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, &all, &found);
    draw(&mut outcome, &all, &found);
    outcome.differs("Levels A and B differ in scheduling only, which a probe alone on its core does not see; each has its own draw of pages.");
    outcome.differs("In the text at hand the daggers of level B's columns are missing; the paragraph below the table speaks of both levels, and both are checked.");
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

const LEVEL_AB: &str = "level A/B";
const LEVEL_C: &str = "level C";
const BUFFER: &str = "buffer";
const REST: &str = "other execution";

/// What is measured for a cell: whom the task troubles, by level, or in what it is troubled.
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
            point(LEVEL_AB, probe(Share::Core(other)), interferer),
            point(LEVEL_C, probe(Share::C), interferer),
        ];
    }
    // Others' buffers and pages: on the same core where the task's buffer is; on other cores in level C's banks where the task
    // has its buffer there, else in their own.
    let pages = if row.same || column.place == Share::C { column.place } else { Share::Core(1) };
    let whose = if pages == Share::C { Share::C } else { Share::Core(other) };
    let interferer = Interferer { kind: row.kind, core: other as usize, pages, ways: whose };
    vec![point(BUFFER, at_buffer, interferer), point(REST, task, interferer)]
}

fn measure(context: &Context, p: &Point) -> Result<Found, ExperimentError> {
    let away = Interferer { pages: Share::Spare, ways: Share::Spare, ..p.interferer };
    Ok(Found {
        with_us: time(context, p, Some(p.interferer))?,
        without_us: time(context, p, Some(away))?,
        alone_us: time(context, p, None)?,
    })
}

/// Mean execution time of the probe's jobs, in us.
fn time(context: &Context, p: &Point, interferer: Option<Interferer>) -> Result<f64, ExperimentError> {
    // Levels have draws of their own.
    let seed = context.seed.wrapping_add(u64::from(u32::from(COLUMNS[p.cell.1].level)) << 32);
    let mut board = board(&Context { seed, ..*context })?;
    let job = Some(Job::Accesses(10_000));
    let spec = if p.probe.buffer {
        WorkloadSpec::Bandwidth(BandwidthHog { size: Bytes(400 << 10), gap: Cycles(8), job, ..BandwidthHog::default() })
    } else {
        random(job)
    };
    let probe = add(&mut board, "probe", p.probe.core, p.probe.ways.ways(), &spec, &Place::banks(&[p.probe.pages.bank()]))?;
    // Jobs leave half of the core to others.
    board.task(probe).release = Release::Periodic { period_ps: 6 * MS, phase_ps: 0, jitter_ps: 0 };
    if let Some(i) = interferer {
        interfere(&mut board, i)?;
    }
    let mut samples = [Samples::jobs(probe, 1, context.pick(3, 30))];
    take(context, board, KernelConfig::default(), 6 * MS, &mut samples)?;
    Ok(samples[0].times().acet_us)
}

/// Reads in random order over 1 MiB, more than any share of the cache; reads leave nothing behind that others must
/// write back.
fn random(job: Option<Job>) -> WorkloadSpec {
    let (size, stride) = (Bytes(1 << 20), Bytes(0));
    WorkloadSpec::SceBenchmark(SceBenchmark { size, stride, dependent: false, job, ..SceBenchmark::default() })
}

fn interfere(board: &mut Board, i: Interferer) -> Result<(), BoardError> {
    let place = Place::banks(&[i.pages.bank()]);
    if i.kind == Kind::Cpu {
        let task = add(board, "interferer", i.core, i.ways.ways(), &random(None), &place)?;
        board.task(task).priority = 1;
        return Ok(());
    }
    let frames = board.pages("buffer", 98, &place)?;
    let stream = Stream { into_memory: true, bytes_per_s: Some(200_000_000), start_ps: 0, stop_ps: u64::MAX };
    board.device(engine("device", frames, 0, Some(stream)));
    Ok(())
}

fn judge(outcome: &mut Outcome, all: &[Point], found: &[Found]) {
    for (r, c) in (0..ROWS.len()).flat_map(|r| (0..COLUMNS.len()).map(move |c| (r, c))) {
        let growths: Vec<(&str, f64)> = all
            .iter()
            .zip(found)
            .filter(|(p, _)| p.cell == (r, c))
            .map(|(p, f)| (p.what, f.with_us / f.without_us))
            .collect();
        let says = |what: &str| growths.iter().any(|g| g.0 == what && g.1 >= GROWTH);
        let holds = match PAPER[r][c] {
            "No" => growths.iter().all(|g| g.1 < GROWTH),
            "Yes+" => says(LEVEL_C) && !says(LEVEL_AB),
            "Yes*" => says(BUFFER) && !says(REST),
            _ if ROWS[r].causes => says(LEVEL_AB) || says(LEVEL_C),
            _ => says(BUFFER) && says(REST),
        };
        let each: Vec<String> = growths.iter().map(|(what, g)| format!("{what} {}", super::percent(g - 1.0))).collect();
        outcome.check(
            &format!(
                "level {}, buffer in {}: {}, {}: {}",
                COLUMNS[c].level, place(COLUMNS[c]), title(ROWS[r]), others(ROWS[r]), PAPER[r][c]
            ),
            holds,
            format!("growth of the time: {}", each.join(", ")),
        );
    }
}

/// The larger growth of each cell.
fn draw(outcome: &mut Outcome, all: &[Point], found: &[Found]) {
    let largest = |cell| {
        let ours = all.iter().zip(found).filter(|(p, _)| p.cell == cell);
        ours.map(|(_, f)| (f.with_us / f.without_us - 1.0) * 100.0).fold(f64::MIN, f64::max)
    };
    for same in [true, false] {
        let rows: Vec<usize> = (0..ROWS.len()).filter(|&r| ROWS[r].same == same).collect();
        let groups = rows.iter().map(|&r| {
            let kind = if ROWS[r].kind == Kind::Dma { "DMA" } else { "CPU" };
            format!("{} {kind}", if ROWS[r].causes { "causes" } else { "experiences" })
        });
        let series = COLUMNS.iter().enumerate().map(|(c, column)| {
            (format!("{}, buffer in {}", column.level, place(*column)), rows.iter().map(|&r| Some(largest((r, c)))).collect())
        });
        let title = format!("Growth of execution times, {}", others(ROWS[rows[0]]));
        outcome.charts.push(Chart::bars(&title, "growth, %", groups.collect(), series.collect()));
    }
}
