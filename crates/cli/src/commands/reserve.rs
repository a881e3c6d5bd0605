//! `solocore reserve`: holds the frames of cache colours and DRAM banks, so that the kernel serves
//! itself and other programs from the rest.
//!
//! Rule: drop files, take the frames in passes, compact, and take again. Then look at the held
//! frames each second, lend some to programs of their colours and to buffers of a plan's tasks, and
//! try for the rest after longer and longer waits. Requests are answered between the pieces of a
//! census, and end a pass. All memory goes back with the process; the one setting is the keeper's
//! to put back. Does not cover: pages that boot has placed, which are counted.

use super::memory_map::{choice_of, map_of};
use super::reserve_plan;
use crate::args::Format;
use crate::args::space::ReserveArgs;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{computing, stopped};
use serde::Serialize;
use solocore_linux::Instance;
use solocore_linux::host::reclaim::Reclaim;
use solocore_linux::host::said::say;
use solocore_linux::host::{keeper, notify};
use solocore_model::files;
use solocore_space::census::{Census, Counts};
use solocore_space::hold::{End, Hold, Pass};
use solocore_space::lend::Lender;
use solocore_space::map::{Choice, Map, PAGE};
use solocore_space::room;
use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Passes before the first report.
const PASSES: usize = 5;
/// A pass that holds less than this part of all frames, one in 1000, does not pay.
const LITTLE: u64 = 1000;
/// Blocks that passes of huge and small pages do not meet, in KiB, and the memory that a pass of
/// them takes at most.
const BLOCKS: [u64; 4] = [1024, 512, 256, 128];
const OF_BLOCKS: u64 = 128 << 20;
/// Interval of looks at the held frames, where the kernel has moved any pages meanwhile. A look at
/// all of them touches as much memory as the kernel's table of frames has for them, in all colours.
const LOOK: Duration = Duration::from_secs(1);
/// Waits between two tries for the rest: the first, and the longest.
const TRIES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(320)];
/// Time for which lent frames may lie unused on a CPU's list: the library gives them back a tenth
/// of a second after they came.
const UNUSED: Duration = Duration::from_millis(300);
/// Score that makes the kernel end this process first while it takes memory.
const FIRST: &str = "1000";

#[derive(Serialize)]
struct Report {
    format: &'static str,
    /// All frames of these colours and banks.
    frames: u64,
    /// Of these, frames that are held.
    held: u64,
    held_percent: f64,
    /// Held ones of those that are not the kernel's own.
    held_of_others_percent: f64,
    /// What has the others.
    left: Counts,
    /// Frames that the kernel took from the reserve by moving their pages.
    lost: u64,
    /// Frames that programs of these colours, and buffers, were given.
    lent: u64,
    /// Frames that programs gave back, at their ends or unused, and that are held again.
    back: u64,
    /// Time from the start to the first report.
    filled_ns: u64,
    passes: Vec<Pass>,
}

struct Reserve {
    map: Map,
    choice: Choice,
    hold: Hold,
    lender: Lender,
    settings: Reclaim,
    passes: Vec<Pass>,
    lent: u64,
}

/// Holds the frames until the end.
pub fn run(args: &ReserveArgs) -> Result<ExitCode, Failure> {
    let begin = Instant::now();
    let map = map_of(&args.map, args.colours.is_some() || args.plan.is_some())?;
    if args.banks.is_some() && map.banks.is_empty() {
        return Err(Failure::Input(
            "--banks: no bank functions are known; give a map that has them (--map; solocore space \
                map makes one)"
                .into(),
        ));
    }
    let tasks = args.plan.as_ref().map(|path| reserve_plan::tasks(path, &map)).transpose()?;
    let choice = match &tasks {
        Some(tasks) if args.colours.is_none() && args.banks.is_none() => reserve_plan::all(tasks)?,
        _ => choice_of(&map, args.colours.as_deref(), args.banks.as_deref())?,
    };
    room::check(Path::new("/"), choice.share())?;
    // What a killed reserve or run has left is put back first.
    if let Ok(_instance) = Instance::take() {
        keeper::restore()?;
    }
    let hold = Hold::new(choice.clone())?;
    // Nothing is held or changed yet.
    computing(|| Census::of_machine(&Map::default(), None))?;
    let lender = Lender::new(tasks)?;
    let settings = Reclaim::begin()?;
    let mut reserve = Reserve { map, choice, hold, lender, settings, passes: Vec::new(), lent: 0 };
    reserve.fill(!args.no_drop)?;
    reserve.settings.quiet()?;
    if stopped() {
        return Err(Failure::Interrupted);
    }
    let filled_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut report = reserve.report(filled_ns)?;
    say(report.line());
    notify::send("READY=1");
    let end = args.duration.map(|d| begin + Duration::from_nanos(d.ns_ceil()));
    let (mut wait, mut tried, mut looked) = (TRIES[0], Instant::now(), Instant::now());
    let (mut quiet, mut loose) = (tried, false);
    let (mut lent_at, mut lent_before) = (tried, reserve.lent);
    let (mut moved, mut told) = (None, 0);
    while !stopped() && end.is_none_or(|end| Instant::now() < end) {
        let lent = reserve.answer(Duration::from_millis(50));
        let gone = reserve.lender.returned() > 0;
        if lent > 0 || gone {
            wait = TRIES[0];
        }
        // Frames that a program has freed, or that another one took before it.
        loose |= gone || lent > 0;
        // Also between the pieces of a census.
        if reserve.lent > lent_before {
            (lent_at, lent_before) = (Instant::now(), reserve.lent);
        }
        let used = lent_at.elapsed() >= UNUSED;
        if loose && used {
            loose = false;
            reserve.take_lists();
        }
        if lent > 0 && tried.elapsed() < wait * 2 {
            // They are about to be used, and must not be taken again. But programs that start all
            // the time also end, and must not use up the reserve.
            quiet = Instant::now();
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let now = room::moved_pages(Path::new("/"));
            let any = now.is_none() || now != moved;
            moved = now;
            if any {
                reserve.hold.look()?;
            } else {
                reserve.hold.rest();
            }
            // A pass may have found some as well.
            let lost = reserve.hold.lost() - told;
            told += lost;
            if lost > 0 {
                say(format_args!(
                    "solocore: the kernel has moved {lost} held pages to other frames"
                ));
            }
        }
        if tried.elapsed() >= wait && quiet.elapsed() >= LOOK {
            let before = reserve.lent;
            let more = reserve.try_again(used)?;
            if more {
                report = reserve.report(filled_ns)?;
                say(report.line());
            }
            tried = Instant::now();
            let asked = reserve.lent > before;
            wait = if more || asked { TRIES[0] } else { (wait * 2).min(TRIES[1]) };
            quiet = if asked { tried } else { quiet };
        }
    }
    notify::send("STOPPING=1");
    // A census takes seconds, and a signal does not wait for one.
    report = if stopped() {
        reserve.seen(report.frames, report.left, filled_ns)
    } else {
        reserve.report(filled_ns)?
    };
    match args.format {
        Format::Json => print(&files::to_json(&report))?,
        Format::Text => print(&format!("{}\n", report.line()))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Reserve {
    /// Answers requests within this time; returns the number of frames that were lent.
    fn answer(&mut self, limit: Duration) -> u64 {
        let lent = self.lender.serve(limit, &mut self.hold);
        self.lent += lent;
        lent
    }

    /// Takes the frames that are available at once.
    fn fill(&mut self, drop: bool) -> Result<(), Failure> {
        if drop {
            self.settings.drop_files()?;
        }
        for n in 0..PASSES {
            let pass = self.pass(false)?;
            if stopped() || (n > 0 && pass.kept * LITTLE < self.hold.held()) {
                break;
            }
            // After the first pass: what moves now goes to frames of other colours.
            if n == 0 && drop {
                self.settings.compact()?;
            }
        }
        self.blocks()
    }

    /// Takes the frames of blocks that no pass meets. The kernel compacts memory for these, and
    /// would move pages of programs in the reserve later.
    fn blocks(&mut self) -> Result<(), Failure> {
        let _score = Score::first();
        for kib in BLOCKS.into_iter().take_while(|_| !stopped()) {
            let hold = &mut self.hold;
            let pages = usize::try_from((kib << 10) / PAGE).unwrap_or(usize::MAX);
            let pass = || hold.pass_of_blocks(pages, OF_BLOCKS, &stopped);
            self.passes.extend(self.settings.with_blocks(kib, pass)?.transpose()?);
        }
        Ok(())
    }

    /// Takes frames until others need the rest, or, `until_asked`, until a request waits.
    fn pass(&mut self, until_asked: bool) -> Result<Pass, Failure> {
        let score = Score::first();
        let lender = RefCell::new(&mut self.lender);
        let stop = || stopped() || (until_asked && lender.borrow_mut().is_asked());
        let pass = self.hold.pass(u64::MAX, &stop)?;
        drop(score);
        self.passes.push(pass);
        Ok(pass)
    }

    /// Takes what CPUs have on lists of their own. Without memory for that, they keep it.
    fn take_lists(&mut self) {
        let _ = self.hold.take_lists();
    }

    /// Takes frames that have become free; returns whether that was worth it. `used`: the frames
    /// that were lent last are on no list.
    fn try_again(&mut self, used: bool) -> Result<bool, Failure> {
        let before = self.lent;
        if used {
            self.take_lists();
        }
        let [chosen, _] = self.census()?;
        // What was lent meanwhile is about to be used.
        if self.lent > before || chosen.free * LITTLE / 2 < chosen.all() {
            return Ok(false);
        }
        let pass = self.pass(true)?;
        Ok(pass.end != End::Stopped && pass.kept * LITTLE >= chosen.all())
    }

    /// Answers requests meanwhile.
    fn census(&mut self) -> Result<[Counts; 2], Failure> {
        let mut answer = || self.lent += self.lender.serve(Duration::ZERO, &mut self.hold);
        let census = Census::in_pieces(&self.map, Some(&self.choice), &mut answer)?;
        let chosen = census.chosen().unwrap_or_default();
        self.hold.avoid(census.blocks_of_kernel());
        Ok(chosen)
    }

    fn report(&mut self, filled_ns: u64) -> Result<Report, Failure> {
        let [mut left, _] = self.census()?;
        let frames = left.all();
        left.anonymous = left.anonymous.saturating_sub(self.hold.held());
        Ok(self.seen(frames, left, filled_ns))
    }

    /// The report with these results of a census.
    fn seen(&self, frames: u64, left: Counts, filled_ns: u64) -> Report {
        let held = self.hold.held();
        let percent = |of: u64| (held as f64 * 10_000.0 / of.max(1) as f64).floor() / 100.0;
        Report {
            format: "solocore-reserve/1",
            frames,
            held,
            held_percent: percent(frames),
            held_of_others_percent: percent(frames - left.kernels()),
            left,
            lost: self.hold.lost(),
            lent: self.lent,
            back: self.lender.back(),
            filled_ns,
            passes: self.passes.clone(),
        }
    }
}

impl Report {
    fn line(&self) -> String {
        let left = &self.left;
        format!(
            "holding {} of {} frames ({} %; {} % of the frames that are not the kernel's own); left: free \
                {}, programs {}, files {}, kernel {}, reserved at boot {}",
            self.held,
            self.frames,
            self.held_percent,
            self.held_of_others_percent,
            left.free,
            left.anonymous + left.shared_memory + left.huge,
            left.file,
            left.slab + left.page_table + left.kernel + left.unusable,
            left.reserved
        )
    }
}

/// While memory is taken, the kernel ends this process before any other.
struct Score(Option<String>);

impl Score {
    const PATH: &str = "/proc/self/oom_score_adj";

    fn first() -> Self {
        let before = std::fs::read_to_string(Self::PATH).ok();
        Self(before.filter(|_| std::fs::write(Self::PATH, FIRST).is_ok()))
    }
}

impl Drop for Score {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = std::fs::write(Self::PATH, before.trim());
        }
    }
}
