//! `solocore bench io-load`: MC2's Load-Generator (sections 5.3 and 5.4): reads of a file at an
//! interval, straight into pinned buffers.
//!
//! Rule: each read is released an interval after the one before and takes the file's next piece,
//! from the beginning again at its end. A read that takes longer than the interval delays the next,
//! which is counted. Buffers are placed by a plan, a share of them in level C's list and the rest
//! in the core's.
//! With --coloured the pages come from a pool of two lists, the core's (for levels A and B) and
//! level C's, by cache colour. These are the colours for the core's ways in the plan, or half of
//! all colours. Without it they are any pages, and the output says so.

use super::output::{Output, Place, UNPLACED, show};
use crate::args::space::MapArgs;
use crate::commands::exec_coloured;
use crate::commands::memory_map::map_of;
use crate::fail::Failure;
use crate::progress::stopped;
use clap::ValueEnum;
use serde::Serialize;
use solocore_buffers::io::{DirectFile, Ring};
use solocore_buffers::{AnyFrames, BufferError, Frames, List, Mapping};
use solocore_model::{Bytes, Plan, Time};
use solocore_space::SpaceError;
use solocore_space::backing::Pool;
use solocore_space::map::Choice;
use solocore_space::room::Memory;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// O_DIRECT reads.
    #[default]
    Direct,
    /// io_uring with registered buffers.
    Uring,
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to read. Its disk makes the traffic.
    file: PathBuf,
    /// Bytes of each read, rounded up to whole pages [default: 400 KiB, or the plan's].
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Time between two releases.
    #[arg(long, default_value = "10 ms", value_name = "TIME")]
    interval: Time,
    /// Duration of the run.
    #[arg(long, default_value = "2 s", value_name = "TIME")]
    duration: Time,
    /// Method of reading the file.
    #[arg(long, value_enum, default_value_t)]
    engine: Engine,
    /// Per cent of the buffer in level C's pages; the rest is in the core's own.
    #[arg(long, value_name = "PERCENT", conflicts_with = "plan", value_parser = clap::value_parser!(u32).range(0..=100))]
    level_c: Option<u32>,
    /// Size and place of the buffer are those of a task's I/O buffer in this plan.
    #[arg(long, value_name = "PLAN", requires = "task")]
    plan: Option<PathBuf>,
    /// The task of the plan.
    #[arg(long, value_name = "NAME", requires = "plan")]
    task: Option<String>,
    /// Take the buffer's pages from lists of their own cache colours; needs root.
    #[arg(long = "colored", alias = "coloured")]
    coloured: bool,
    #[command(flatten)]
    map: MapArgs,
    #[command(flatten)]
    place: Place,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Output,
}

/// A piece of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    list: List,
    bytes: usize,
}

#[derive(Serialize)]
struct Outcome {
    format: &'static str,
    engine: &'static str,
    /// Bytes of one read.
    bytes: usize,
    level_c_bytes: usize,
    /// Whether the pages lay in frames of their lists after the last read.
    placed: bool,
    /// Pages that did not; all of them without lists.
    wrong_pages: usize,
    interval_ns: u64,
    reads: u64,
    /// Reads that were released before the end of the one before.
    late: u64,
    seconds: f64,
    bandwidth_bytes_per_s: f64,
    mean_ns: f64,
    max_ns: u64,
}

const PAGE: usize = solocore_buffers::PAGE;

fn pieces(args: &Args) -> Result<Vec<Piece>, Failure> {
    let core = List::Core(args.place.cpu.unwrap_or(0));
    let pages = |bytes: u64| usize::try_from(bytes.div_ceil(PAGE as u64)).unwrap_or(usize::MAX);
    let (bytes, share) = match (&args.plan, &args.task) {
        (Some(path), Some(task)) => {
            let plan = Plan::load(path)?;
            let wrong = |what: String| Failure::Input(format!("{}: {what}", path.display()));
            let buffers = plan.levels().map(|m| &m.io[..]).unwrap_or_default();
            let Some(io) = buffers.iter().find(|io| io.task == *task) else {
                let names: Vec<&str> = buffers.iter().map(|io| io.task.as_str()).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(wrong(format!(
                    "task `{task}` has no I/O buffer in it; those that have: {names}"
                )));
            };
            let of = plan.tasks.iter().find(|t| t.name == *task).map_or(0, |t| t.core);
            let list = if io.bank.is_some() { List::Core(of) } else { List::LevelC };
            let bytes = args.size.map_or(io.bytes, |b| b.0);
            return checked(vec![Piece { list, bytes: pages(bytes).saturating_mul(PAGE) }]);
        }
        _ => (args.size.map_or(400 << 10, |b| b.0), args.level_c.unwrap_or(100)),
    };
    let all = pages(bytes);
    let in_c = all.saturating_mul(share as usize) / 100;
    let piece = |list, pages: usize| Piece { list, bytes: pages.saturating_mul(PAGE) };
    let both = [piece(List::LevelC, in_c), piece(core, all - in_c)];
    checked(both.into_iter().filter(|p| p.bytes > 0).collect())
}

fn checked(pieces: Vec<Piece>) -> Result<Vec<Piece>, Failure> {
    let bytes: usize = pieces.iter().fold(0, |all, p| all.saturating_add(p.bytes));
    if bytes == 0 || bytes > 1 << 30 {
        return Err(Failure::Input(
            "--size: between 1 byte and 1 GiB; give for example \"400 KB\"".to_owned(),
        ));
    }
    Ok(pieces)
}

/// Two lists of a coloured pool: the core's, then level C's.
pub(super) struct ColouredFrames {
    pool: Arc<Mutex<Pool>>,
    choices: [Choice; 2],
}

/// Returns a buffer's pages.
struct Lent {
    pool: Arc<Mutex<Pool>>,
    mapping: Option<solocore_space::backing::Mapping>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            // Pages that cannot be moved back are lost to the pool, which ends with this program.
            let _ = self.pool.lock().unwrap_or_else(|e| e.into_inner()).unmap(mapping);
        }
    }
}

impl ColouredFrames {
    /// Two lists by the colours for a task's ways in a plan, or by half of all colours.
    pub(super) fn new(
        map: &MapArgs,
        task: Option<(&Path, &str)>,
        bytes: usize,
    ) -> Result<Self, Failure> {
        let map = map_of(map, true)?;
        let all = map.colour_count();
        let (mut of_level_c, mut banks) = (false, None);
        let mut own: Vec<u32> = (0..all / 2).collect();
        if let Some((path, task)) = task {
            let plan = Plan::load(path)?;
            (own, banks) = exec_coloured::of_plan(&plan, task, &map)
                .map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
            let planned = plan.tasks.iter().find(|t| t.name == task);
            of_level_c = planned.is_some_and(|t| exec_coloured::level_c(&plan, t).is_some());
        }
        let rest: Vec<u32> = (0..all).filter(|colour| !own.contains(colour)).collect();
        let own = Choice::new(&map, Some(&own), banks.as_deref())?;
        let rest = Choice::new(&map, Some(&rest), None)?;
        Self::of(if of_level_c { [rest, own] } else { [own, rest] }, bytes)
    }

    /// Two lists with these frames, each with at least this memory.
    pub(super) fn of(choices: [Choice; 2], bytes: usize) -> Result<Self, Failure> {
        // Enough for all of it in the smaller list, with room for frames that are not spread
        // evenly.
        let least = choices.iter().map(Choice::share).fold(1.0, f64::min).max(1e-3);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2 TiB")]
        let wanted = (bytes as f64 / least * 1.5) as usize + (16 << 20);
        let memory = Memory::of(Path::new("/"))?;
        let room = memory.available.saturating_sub(memory.floor());
        if wanted as u64 > room {
            return Err(Failure::Machine(format!(
                "memory: the search for {} in each of two lists of frames takes {} MiB, and other \
                programs can spare only {} MiB; ask for less memory (--size), or end other \
                programs",
                Bytes(bytes as u64),
                wanted >> 20,
                room >> 20
            )));
        }
        Ok(Self { pool: Arc::new(Mutex::new(Pool::new(wanted, false, &choices)?)), choices })
    }

    /// Number of pages of this memory with frames outside of the list.
    pub(super) fn wrong(&self, list: List, memory: &Mapping) -> Result<usize, Failure> {
        self.wrong_at(list, memory.as_ptr() as usize, memory.len())
    }

    fn wrong_at(&self, list: List, address: usize, bytes: usize) -> Result<usize, Failure> {
        let choice = &self.choices[usize::from(list == List::LevelC)];
        let frames = Pool::frames(address, bytes)?;
        Ok(frames.iter().filter(|&&frame| !choice.allows(frame)).count())
    }
}

impl Frames for ColouredFrames {
    fn frames(&self, list: List, bytes: usize) -> Result<Mapping, BufferError> {
        let failed = |e: SpaceError| BufferError::Machine(e.to_string());
        let mut pool = self.pool.lock().unwrap_or_else(|e| e.into_inner());
        let mapping = pool.map(usize::from(list == List::LevelC), bytes).map_err(failed)?;
        let at = NonNull::new(std::ptr::with_exposed_provenance_mut(mapping.address()));
        let at = at.ok_or_else(|| BufferError::Machine("memory at 0; try again".to_owned()))?;
        let bytes = mapping.bytes();
        let lent = Lent { pool: Arc::clone(&self.pool), mapping: Some(mapping) };
        // SAFETY: the pages are those of `lent`, which no other code has, until it is dropped.
        let mapping = unsafe { Mapping::of(at, bytes, Box::new(lent)) }?;
        mapping.pin()?;
        Ok(mapping)
    }

    fn placed(&self) -> bool {
        true
    }
}

/// Reads the pieces, one after the other.
enum Reader {
    Direct(Vec<Mapping>),
    Ring(Box<Ring>, Vec<usize>),
}

impl Reader {
    fn new(engine: Engine, buffers: Vec<Mapping>) -> Result<Self, Failure> {
        let sizes = buffers.iter().map(|b| b.len()).collect();
        Ok(match engine {
            Engine::Direct => Self::Direct(buffers),
            Engine::Uring => Self::Ring(Box::new(Ring::new(buffers)?), sizes),
        })
    }

    fn read(&mut self, file: &DirectFile, mut offset: u64) -> Result<usize, Failure> {
        let mut read = 0;
        match self {
            Self::Direct(buffers) => {
                for buffer in buffers {
                    read += file.read_at(buffer, offset)?;
                    offset += buffer.len() as u64;
                }
            }
            Self::Ring(ring, sizes) => {
                for (number, &bytes) in sizes.iter().enumerate() {
                    read += ring.read(file, number, bytes, offset)?;
                    offset += bytes as u64;
                }
            }
        }
        Ok(read)
    }
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let pieces = pieces(args)?;
    let bytes: usize = pieces.iter().map(|p| p.bytes).sum();
    let file = DirectFile::open(&args.file)?;
    if file.bytes < bytes as u64 {
        return Err(Failure::Input(format!(
            "{}: it has {} bytes, a read takes {bytes}; name a larger file, or give a smaller \
                --size",
            args.file.display(),
            file.bytes
        )));
    }
    if args.interval.ns_ceil() == 0 || args.duration.ns_ceil() < args.interval.ns_ceil() {
        return Err(Failure::Input(
            "--duration is shorter than --interval, or that is 0; give for example \"2 s\" and \
                \"10 ms\""
                .to_owned(),
        ));
    }
    args.place.take()?;
    let task = args.plan.as_deref().zip(args.task.as_deref());
    let coloured =
        args.coloured.then(|| ColouredFrames::new(&args.map, task, bytes)).transpose()?;
    let frames: &dyn Frames = coloured.as_ref().map_or(&AnyFrames, |c| c);
    let buffers =
        pieces.iter().map(|p| frames.frames(p.list, p.bytes)).collect::<Result<Vec<_>, _>>()?;
    let memory: Vec<(List, usize, usize)> = (pieces.iter().zip(&buffers))
        .map(|(piece, buffer)| (piece.list, buffer.as_ptr() as usize, buffer.len()))
        .collect();
    let mut reader = Reader::new(args.engine, buffers)?;
    let level_c_bytes = pieces.iter().filter(|p| p.list == List::LevelC).map(|p| p.bytes).sum();
    let mut outcome = Outcome {
        format: "solocore-bench-io-load/1",
        engine: if args.engine == Engine::Direct { "direct" } else { "uring" },
        bytes,
        level_c_bytes,
        placed: false,
        wrong_pages: bytes / PAGE,
        interval_ns: args.interval.ns_ceil(),
        reads: 0,
        late: 0,
        seconds: 0.0,
        bandwidth_bytes_per_s: 0.0,
        mean_ns: 0.0,
        max_ns: 0,
    };
    load(args, &file, &mut reader, &mut outcome)?;
    if let Some(coloured) = &coloured {
        // The reader still has them.
        let wrong = memory.iter().map(|&(list, at, bytes)| coloured.wrong_at(list, at, bytes));
        outcome.wrong_pages = wrong.sum::<Result<_, _>>()?;
        outcome.placed = outcome.wrong_pages == 0;
    }
    drop(reader);
    report(args, &outcome)
}

fn load(
    args: &Args,
    file: &DirectFile,
    reader: &mut Reader,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let (interval, duration) = (
        Duration::from_nanos(args.interval.ns_ceil()),
        Duration::from_nanos(args.duration.ns_ceil()),
    );
    let (begun, mut release, mut offset, mut busy, mut moved) =
        (Instant::now(), Duration::ZERO, 0, 0u64, 0u64);
    while release < duration && !stopped() {
        let now = begun.elapsed();
        if now < release {
            std::thread::sleep(release - now);
        } else if outcome.reads > 0 && now > release {
            outcome.late += 1;
        }
        if offset + outcome.bytes as u64 > file.bytes {
            offset = 0;
        }
        let start = Instant::now();
        moved += reader.read(file, offset)? as u64;
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        (busy, outcome.max_ns) = (busy.saturating_add(took), outcome.max_ns.max(took));
        outcome.reads += 1;
        offset += outcome.bytes as u64;
        // A late read does not make the next ones come in a burst.
        release = (release + interval).max(begun.elapsed());
    }
    outcome.seconds = begun.elapsed().max(release.min(duration)).as_secs_f64();
    outcome.bandwidth_bytes_per_s = moved as f64 / outcome.seconds.max(1e-9);
    outcome.mean_ns = busy as f64 / outcome.reads.max(1) as f64;
    Ok(())
}

fn report(args: &Args, o: &Outcome) -> Result<ExitCode, Failure> {
    let head =
        ["engine", "KiB a read", "in level C %", "reads", "late", "MB/s", "mean us", "max us"];
    let row = vec![
        o.engine.to_owned(),
        (o.bytes >> 10).to_string(),
        format!("{:.0}", 100.0 * o.level_c_bytes as f64 / o.bytes as f64),
        o.reads.to_string(),
        o.late.to_string(),
        format!("{:.1}", o.bandwidth_bytes_per_s / 1e6),
        format!("{:.1}", o.mean_ns / 1e3),
        format!("{:.1}", o.max_ns as f64 / 1e3),
    ];
    let below = if o.placed { "" } else { UNPLACED };
    show(args.format, o, &[head.map(str::to_owned).to_vec(), row], below)
}
