//! The board's memory: private caches, the shared cache, prefetchers, and the effects of each
//! reference on them.
//!
//! Rule: references come in the order in which the vCPUs make them, one vCPU at a time. Every cache
//! decides at once, so counts of hits and misses are final when the reference returns; only time is
//! settled later ([`crate::front`], [`crate::replay`]). A fill asks the second level first, then
//! the shared cache; evicted lines follow, the second level's victim before the first level's, as
//! in the profiler and in the simulator. Dirty lines travel down; one that falls out of the shared
//! cache goes to DRAM. Caches are those of `solocore-cache`, all physically indexed, neither
//! inclusive nor exclusive; cores do not take lines from each other.
//! Not covered: coherence (a line that another core wrote is found in the shared cache or in DRAM,
//! and may stay in both private caches), ports and banks, uncached memory other than devices.

mod access;
mod flush;

pub use access::Access;

use crate::front::{Front, Need, Shape};
use crate::replay::Replay;
use crate::trace::{Kind as TraceKind, Trace};
use crate::worker::Worker;
use solocore_cache::prefetch::{Prefetcher, PrefetcherKind};
use solocore_cache::private::{NONE, Private};
use solocore_cache::shared::{Shared, Slices};
use solocore_dram::Spec;
use solocore_model::Platform;

/// Counted events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Event {
    /// Lines fetched into the first instruction cache.
    L1iMisses,
    /// Lines fetched into the first data cache, page tables included.
    L1dMisses,
    /// Lines of both kinds that missed the second level.
    L2Misses,
    /// Fills that references asked of the shared cache.
    LlcReferences,
    /// References that missed the shared cache: lines from DRAM that the core asked for.
    LlcMisses,
    /// Fetches of instructions that missed the shared cache.
    LlcFetchMisses,
    /// Dirty lines from the second level to the shared cache.
    L2Writebacks,
    /// Dirty lines to DRAM.
    LlcWritebacks,
    /// Lines that a prefetcher asked for.
    PrefetchFills,
    /// Lines from DRAM that a prefetcher asked for.
    PrefetchMisses,
    /// Misses of the translation buffer.
    PageWalks,
}

/// Number of events.
pub const EVENTS: usize = 11;
/// All events.
pub const ALL: [Event; EVENTS] = [
    Event::L1iMisses,
    Event::L1dMisses,
    Event::L2Misses,
    Event::LlcReferences,
    Event::LlcMisses,
    Event::LlcFetchMisses,
    Event::L2Writebacks,
    Event::LlcWritebacks,
    Event::PrefetchFills,
    Event::PrefetchMisses,
    Event::PageWalks,
];

/// Sizes and times of a board.
#[derive(Clone, Debug)]
pub struct Geometry {
    l1i: (u64, u32),
    l1d: (u64, u32),
    l2: Option<(u64, u32)>,
    /// log2 of the size of a line.
    pub line_shift: u32,
    /// log2 of the size of a page.
    pub page_shift: u32,
    /// Times and registers of a core.
    pub shape: Shape,
    /// Ways of the shared cache.
    pub llc_ways: u32,
}

/// Lines of a frame that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Lines that references or prefetchers brought from DRAM.
    pub fills: u32,
    /// Dirty lines that went to DRAM.
    pub writebacks: u32,
}

/// A core's caches and counts.
#[derive(Debug)]
pub struct BoardCore {
    l1i: Private,
    l1d: Private,
    l2: Option<Private>,
    /// Its misses.
    pub front: Front,
    prefetcher: Prefetcher,
    /// Counts since the begin.
    pub counts: [u64; EVENTS],
    /// Ways of the shared cache for data and for instructions, as masks.
    pub masks: [u64; 2],
    /// Class of monitoring.
    pub monitor: u32,
    /// Least distance of two lines from DRAM (memory bandwidth allocation); 0: none.
    pub gap_ps: u64,
}

/// Purpose of a fill.
#[derive(Clone, Copy)]
struct Ask {
    need: Need,
    value: u64,
    fetch: bool,
}

/// Counts of events since the reader cleared them, for the counters of the guest.
#[derive(Clone, Debug, Default)]
pub struct Happened {
    /// Bits of the events.
    pub mask: u32,
    /// Count of each event.
    pub times: [u8; EVENTS],
}

impl Happened {
    #[inline]
    fn add(&mut self, event: Event) {
        self.mask |= 1 << event as u32;
        self.times[event as usize] = self.times[event as usize].saturating_add(1);
    }

    /// Clears the counts.
    #[inline]
    pub fn clear(&mut self) {
        if self.mask != 0 {
            *self = Self::default();
        }
    }
}

/// Lines of the shared cache and bytes of memory by class of monitoring (CMT, MBM).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Monitored {
    /// Lines now in the shared cache.
    pub lines: i64,
    /// Lines moved between it and DRAM.
    pub moved: u64,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    /// Sizes and times that the platform states for all cores.
    pub geometry: Geometry,
    /// Cores.
    pub cores: Vec<BoardCore>,
    llc: Shared,
    /// The replay, which determines time.
    worker: Worker,
    /// Counts by frame.
    pub frames: Vec<FrameCounts>,
    /// Events of the last reference.
    pub happened: Happened,
    /// File of every reference, if one is configured.
    pub trace: Option<Trace>,
    /// By class of monitoring; empty without allocation.
    pub monitored: Vec<Monitored>,
    /// Class of monitoring that brought each line of the shared cache, by its place; empty without
    /// allocation.
    owners: Vec<u8>,
    changes: Vec<i64>,
}

/// Classes of monitoring (RMIDs).
pub const MONITORS: u32 = 64;
/// Maximum number of frames with counts of their own.
const MOST_FRAMES: usize = 1 << 28;
/// Owner of a place without a line.
const NOBODY: u8 = u8::MAX;

impl Geometry {
    /// Sizes and times of a core of a checked platform; `None`: those that it states for all cores.
    pub fn of(p: &Platform, core: Option<u32>) -> Self {
        let core = core.unwrap_or(u32::MAX);
        let (own, pipeline, clock) = (p.private_of(core), p.pipeline_of(core), p.clock_of(core));
        let line = p.llc.line.0;
        let sets = |size: u64, ways: u32| (size / (u64::from(ways) * line), ways);
        let d = &p.dram;
        Self {
            l1i: sets(own.l1i.size.0, own.l1i.ways),
            l1d: sets(own.l1d.size.0, own.l1d.ways),
            l2: own.l2.as_ref().map(|c| sets(c.size.0, c.ways)),
            line_shift: line.trailing_zeros(),
            page_shift: p.page.0.trailing_zeros(),
            shape: Shape {
                mshrs: pipeline.mshrs as usize,
                window_ps: clock.cycles_to_ps(pipeline.window.0),
                l2_ps: own.l2.as_ref().map_or(0, |c| clock.cycles_to_ps(c.latency.0)),
                llc_ps: p.cycles_to_ps(p.llc.latency.0),
                overhead_ps: d.overhead.ps(),
                dram_ps: d.t_rcd.ps() + d.t_cl.ps() + d.t_burst.ps(),
            },
            llc_ways: p.llc.ways,
        }
    }

    /// Number of sets of the first data cache.
    pub fn l1d_sets(&self) -> u64 {
        self.l1d.0
    }
}

impl Machine {
    /// An idle machine of `cpus` cores.
    ///
    /// # Errors
    /// A part of the platform cannot be modelled.
    pub fn new(
        p: &Platform,
        cpus: usize,
        seed: u64,
        prefetcher: PrefetcherKind,
        monitoring: bool,
    ) -> Result<Self, String> {
        let geometry = Geometry::of(p, None);
        let spec = Spec::of_platform(p).map_err(|e| e.to_string())?;
        let cores = u16::try_from(cpus).map_err(|_| "too many cores".to_owned())?;
        let own: Vec<Geometry> =
            (0..u32::from(cores)).map(|core| Geometry::of(p, Some(core))).collect();
        let shapes = own.iter().map(|geometry| geometry.shape).collect();
        let cap = p.dram.row_hit_cap.limit();
        let replay = Replay::new(shapes, &spec, cap, p.llc.line.0, p.llc.mshrs);
        let replay = replay.map_err(|e| e.to_string())?;
        let all = u64::MAX >> (64 - p.llc.ways);
        let core = |geometry: &Geometry| BoardCore {
            l1i: Private::new(geometry.l1i.0, geometry.l1i.1),
            l1d: Private::new(geometry.l1d.0, geometry.l1d.1),
            l2: geometry.l2.map(|(sets, ways)| Private::new(sets, ways)),
            front: Front::new(geometry.shape),
            prefetcher: Prefetcher::new(prefetcher, geometry.page_shift - geometry.line_shift),
            counts: [0; EVENTS],
            masks: [all; 2],
            monitor: 0,
            gap_ps: 0,
        };
        let sets = u64::from(p.llc_sets()) / u64::from(p.llc.slices);
        let functions = &p.llc.slice_functions;
        let slices = Slices { count: p.llc.slices, functions, line: p.llc.line.0 };
        Ok(Self {
            cores: own.iter().map(core).collect(),
            llc: Shared::new(sets, slices, p.llc.ways, p.llc.replacement, seed),
            worker: Worker::new(replay),
            frames: Vec::new(),
            happened: Happened::default(),
            trace: None,
            monitored: vec![Monitored::default(); if monitoring { MONITORS as usize } else { 0 }],
            owners: vec![
                NOBODY;
                if monitoring { p.llc_sets() as usize * p.llc.ways as usize } else { 0 }
            ],
            changes: Vec::new(),
            geometry,
        })
    }

    /// A reference of `cpu` to a physical line at the time `computed` of its computation; its
    /// virtual address and the value that it read are for dependences. Returns its addition to the
    /// core's computation and its waits.
    pub fn access(
        &mut self,
        cpu: usize,
        computed: u64,
        line: u64,
        address: u64,
        access: Access,
        value: impl FnOnce() -> u64,
    ) -> i64 {
        if let Some(trace) = &mut self.trace {
            trace.push(cpu, line, access.recorded());
        }
        let core = &mut self.cores[cpu];
        let write = access == Access::Store;
        let fetch = access == Access::Fetch;
        let first = if fetch { &mut core.l1i } else { &mut core.l1d };
        if first.hit(line, write) {
            return 0;
        }
        let before = core.front.total_wait();
        let victim = first.insert(line, write);
        let mut more = 0;
        let (need, value) = match access {
            Access::Load => (Need::Load, value()),
            Access::Store => (Need::Store, 0),
            Access::Fetch | Access::Walk => (Need::Now, 0),
        };
        if !fetch {
            more += core.front.depends(computed, address);
        }
        self.count(cpu, if fetch { Event::L1iMisses } else { Event::L1dMisses });
        more += self.fill(cpu, computed, line, Ask { need, value, fetch });
        if victim != NONE {
            self.write_down(cpu, computed, victim);
        }
        if !fetch && access != Access::Walk {
            self.prefetch(cpu, computed, line);
        }
        let waited = self.cores[cpu].front.total_wait() - before;
        waited + i64::try_from(more).unwrap_or(0)
    }

    #[inline]
    fn count(&mut self, cpu: usize, event: Event) {
        self.cores[cpu].counts[event as usize] += 1;
        self.happened.add(event);
    }

    /// Counts a miss of a core's translation buffer.
    pub fn count_walk(&mut self, cpu: usize) {
        self.happened.clear();
        self.count(cpu, Event::PageWalks);
    }

    /// A line for the first level. Returns its addition to the core's computation.
    fn fill(&mut self, cpu: usize, computed: u64, line: u64, ask: Ask) -> u64 {
        let core = &mut self.cores[cpu];
        if let Some(l2) = &mut core.l2 {
            let looked = l2.access(line, false);
            if looked.hit {
                return core.front.second_level_hit(computed, line, ask.need, ask.value);
            }
            self.count(cpu, Event::L2Misses);
            self.ask_shared(cpu, computed, line, ask);
            if looked.victim != NONE {
                self.count(cpu, Event::L2Writebacks);
                self.write_shared(cpu, computed, looked.victim);
            }
        } else {
            self.ask_shared(cpu, computed, line, ask);
        }
        0
    }

    fn ask_shared(&mut self, cpu: usize, computed: u64, line: u64, ask: Ask) {
        let Ask { need, value, fetch } = ask;
        let mask = self.cores[cpu].masks[usize::from(fetch)];
        let looked = self.llc.access(line, false, mask);
        let prefetch = need == Need::Prefetch;
        if !prefetch {
            self.count(cpu, Event::LlcReferences);
        }
        if !looked.hit {
            if prefetch {
                self.count(cpu, Event::PrefetchMisses);
            } else {
                self.count(cpu, Event::LlcMisses);
                if fetch {
                    self.count(cpu, Event::LlcFetchMisses);
                }
            }
            self.frame(line).fills += 1;
            self.moved(cpu);
            self.bring(cpu, line);
        }
        let core = &mut self.cores[cpu];
        core.front.fill(computed, line, !looked.hit, need, value, core.gap_ps);
        if looked.victim != NONE {
            self.write_memory(cpu, computed, looked.victim);
        }
    }

    /// A dirty line of the first level.
    fn write_down(&mut self, cpu: usize, computed: u64, line: u64) {
        let Some(l2) = &mut self.cores[cpu].l2 else {
            self.write_shared(cpu, computed, line);
            return;
        };
        let looked = l2.access(line, true);
        if looked.victim != NONE {
            self.count(cpu, Event::L2Writebacks);
            self.write_shared(cpu, computed, looked.victim);
        }
    }

    /// A dirty line of the second level.
    fn write_shared(&mut self, cpu: usize, computed: u64, line: u64) {
        let mask = self.cores[cpu].masks[0];
        let looked = self.llc.access(line, true, mask);
        if !looked.hit && mask == 0 {
            self.write_memory(cpu, computed, line);
        } else if !looked.hit {
            self.bring(cpu, line);
        }
        if looked.victim != NONE {
            self.write_memory(cpu, computed, looked.victim);
        }
    }

    fn write_memory(&mut self, cpu: usize, computed: u64, line: u64) {
        self.count(cpu, Event::LlcWritebacks);
        self.frame(line).writebacks += 1;
        self.moved(cpu);
        self.cores[cpu].front.write(computed, line);
    }

    fn prefetch(&mut self, cpu: usize, computed: u64, line: u64) {
        let core = &mut self.cores[cpu];
        let Some(next) = core.prefetcher.next(line) else { return };
        let held = core.l2.as_ref().is_some_and(|l2| l2.holds(next));
        if held || !core.front.has_register(computed) {
            return;
        }
        if let Some(trace) = &mut self.trace {
            trace.push(cpu, next, TraceKind::Prefetch);
        }
        self.count(cpu, Event::PrefetchFills);
        // Without a second level the line goes to the shared cache alone: only references fill the
        // first.
        let victim = self.cores[cpu].l2.as_mut().map_or(NONE, |l2| l2.insert(next, false));
        self.ask_shared(cpu, computed, next, Ask { need: Need::Prefetch, value: 0, fetch: false });
        if victim != NONE {
            self.count(cpu, Event::L2Writebacks);
            self.write_shared(cpu, computed, victim);
        }
    }

    fn frame(&mut self, line: u64) -> &mut FrameCounts {
        let frame = usize::try_from(line >> (self.geometry.page_shift - self.geometry.line_shift))
            .unwrap_or(0);
        // No board has memory beyond a terabyte: one entry stands for all of it.
        let frame = frame.min(MOST_FRAMES);
        if frame >= self.frames.len() {
            self.frames.resize((frame + 1).next_power_of_two(), FrameCounts::default());
        }
        &mut self.frames[frame]
    }

    /// Counts a line that came into the shared cache for the core's class of monitoring.
    #[inline]
    fn bring(&mut self, cpu: usize, line: u64) {
        if !self.monitored.is_empty() {
            self.own(cpu, line);
        }
    }

    fn own(&mut self, cpu: usize, line: u64) {
        let monitor = self.cores[cpu].monitor;
        let Some(owner) = self.llc.place(line).and_then(|place| self.owners.get_mut(place)) else {
            return;
        };
        if let Some(before) = self.monitored.get_mut(usize::from(*owner)) {
            before.lines -= 1;
        }
        *owner = u8::try_from(monitor).unwrap_or(NOBODY);
        if let Some(now) = self.monitored.get_mut(monitor as usize) {
            now.lines += 1;
        }
    }

    #[inline]
    fn moved(&mut self, cpu: usize) {
        if let Some(monitored) = self.monitored.get_mut(self.cores[cpu].monitor as usize) {
            monitored.moved += 1;
        }
    }

    /// Ends a window: starts the replay of the cores' records up to `horizon` through the DRAM.
    /// Returns the change of each core's time by the replay of the window before.
    pub fn replay(&mut self, horizon_ps: u64) -> &[i64] {
        let replay = self.worker.replay();
        self.changes.clear();
        for (at, core) in self.cores.iter_mut().enumerate() {
            self.changes.push(replay.correct(at, &mut core.front));
            replay.take(at, &mut core.front);
        }
        self.worker.run(horizon_ps);
        &self.changes
    }

    /// The replay so far.
    pub fn replayed(&mut self) -> &Replay {
        self.worker.replay()
    }
}
