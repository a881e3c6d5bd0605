//! The lines of a shared cache that each program holds.
//!
//! Rule. Each program holds a number of lines of its partition, at most its footprint. Its misses
//! fill it. Free lines are taken first; then lines are lost, by each holder in proportion to its
//! lines and to the square of their age. The age is the time since it last ran plus the time of one
//! pass through its lines. (LRU evicts the oldest; with equal ages this is the effect of random
//! replacement. Footprints and fill rates: Xiang et al., "HOTL", ASPLOS 2013.) The misses of a
//! program follow from the lines that it holds, in [`LEVELS`] steps with a hysteresis of half a
//! step, so that rates are constant for a while. Steps of time are implicit: stable for any length.
//!
//! Not covered: single sets (conflicts beyond those in the calibration), and sharing of lines
//! between programs.

/// Steps of a program's share of its footprint.
pub(super) const LEVELS: usize = 64;
/// Shortest time until a level is updated, ps: 25 us.
const SHORTEST_PS: u64 = 25_000_000;
/// Longest time until a level is updated while any program loses lines, ps: 1 ms.
const LONGEST_PS: u64 = 1_000_000_000;

/// A program's part of a partition.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// Lines it holds.
    pub lines: f64,
    /// Lines it can hold, 1 at least.
    pub footprint: f64,
    /// Step of the level, 0 to [`LEVELS`].
    pub level: usize,
    /// Time at which it last ran, ps.
    pub left_ps: u64,
    /// Index of the partition.
    pub partition: usize,
    /// While it runs: lines filled per ps.
    pub fills: f64,
    /// While it runs: accesses to the shared cache per ps.
    pub accesses: f64,
    /// Is it running?
    pub running: bool,
    /// Do its misses depend on the lines that it holds?
    pub sensitive: bool,
}

impl Share {
    /// Square of the age of its lines, ps^2, for weighing.
    fn weight(&self, now_ps: u64) -> f64 {
        let idle = if self.running { 0.0 } else { (now_ps - self.left_ps) as f64 };
        let once = if self.accesses > 0.0 { self.lines / self.accesses } else { 1e9 };
        let age = idle + once + 1.0;
        age * age
    }

    /// Brings the level up to date; true if it changed.
    pub fn settle(&mut self) -> bool {
        if !self.sensitive {
            return false;
        }
        let x = self.lines * LEVELS as f64 / self.footprint;
        // Its own conflicts keep it a little below all.
        let exact = (x + 0.25) as usize;
        let level = self.level as f64;
        // Down only half a step below its lower edge.
        let new =
            if exact > self.level || x < level - 0.5 { exact.min(LEVELS) } else { self.level };
        std::mem::replace(&mut self.level, new) != new
    }
}

/// All partitions.
#[derive(Clone, Debug, Default)]
pub(super) struct Caches {
    pub shares: Vec<Share>,
    /// Lines of each partition.
    pub capacity: Vec<f64>,
    now_ps: u64,
    /// Time of the next update, ps.
    pub next_ps: u64,
    members: Vec<Vec<usize>>,
}

impl Caches {
    pub fn new(capacity: Vec<f64>, shares: Vec<Share>) -> Self {
        let mut members = vec![Vec::new(); capacity.len()];
        shares.iter().enumerate().for_each(|(i, s)| members[s.partition].push(i));
        Self { shares, capacity, now_ps: 0, next_ps: u64::MAX, members }
    }

    /// Moves a program to another partition, where it holds nothing.
    pub fn relocate(&mut self, program: usize, partition: usize) {
        let share = &mut self.shares[program];
        if share.partition != partition {
            self.members[share.partition].retain(|&p| p != program);
            self.members[partition].push(program);
            self.members[partition].sort_unstable();
            (share.partition, share.lines, share.level) = (partition, 0.0, 0);
        }
    }

    /// Lets time pass with the rates that are set.
    pub fn integrate(&mut self, to_ps: u64) {
        let elapsed = (to_ps - self.now_ps) as f64;
        if elapsed > 0.0 {
            for (members, &capacity) in self.members.iter().zip(&self.capacity) {
                pass(&mut self.shares, members, capacity, self.now_ps, elapsed);
            }
        }
        self.now_ps = to_ps;
    }

    /// Sets [`Caches::next_ps`] from the rates.
    pub fn plan(&mut self) {
        self.next_ps = u64::MAX;
        for (members, &capacity) in self.members.iter().zip(&self.capacity) {
            if !members.iter().any(|&i| self.shares[i].running && self.shares[i].sensitive) {
                continue;
            }
            let (loss, free, _) = losses(&self.shares, members, capacity, self.now_ps);
            let losing = free < 1.0 && loss > 0.0;
            for &i in members {
                let s = &self.shares[i];
                if !(s.running && s.sensitive) {
                    continue;
                }
                let lost = if losing { loss * s.weight(self.now_ps) * s.lines } else { 0.0 };
                if let Some(wait) = until_level(s, s.fills - lost) {
                    self.next_ps = self.next_ps.min(self.now_ps + wait);
                }
                if loss > 0.0 {
                    self.next_ps = self.next_ps.min(self.now_ps + LONGEST_PS);
                }
            }
        }
    }
}

/// Time until the level changes at this net rate, ps.
fn until_level(s: &Share, net: f64) -> Option<u64> {
    let step = s.footprint / LEVELS as f64;
    let edge = if net > 0.0 {
        if s.level >= LEVELS {
            return None;
        }
        ((s.level + 1) as f64 - 0.25) * step
    } else if net < 0.0 && s.level > 0 {
        (s.level as f64 - 0.5) * step
    } else {
        return None;
    };
    let wait = (edge - s.lines) / net;
    let wait = if wait > 0.0 { wait } else { 0.0 };
    (wait < 1e15).then(|| (wait as u64 + 1).max(SHORTEST_PS))
}

/// Lines lost per ps for each line held and unit of weight, once no line is free; the free lines;
/// and the lines filled per ps.
fn losses(shares: &[Share], members: &[usize], capacity: f64, now_ps: u64) -> (f64, f64, f64) {
    let (mut fills, mut weights, mut held) = (0.0, 0.0, 0.0);
    for s in members.iter().map(|&i| &shares[i]) {
        if s.running {
            fills += s.fills;
        }
        if s.lines > 0.0 {
            weights += s.weight(now_ps) * s.lines;
            held += s.lines;
        }
    }
    (if weights > 0.0 { fills / weights } else { 0.0 }, capacity - held, fills)
}

fn pass(shares: &mut [Share], members: &[usize], capacity: f64, now_ps: u64, elapsed: f64) {
    if !members.iter().any(|&i| shares[i].running && shares[i].fills > 0.0) {
        return;
    }
    let (loss, free, fills) = losses(shares, members, capacity, now_ps);
    // The part of the time in which nothing is free any more.
    let full = 1.0 - free / (fills * elapsed);
    let taken = if full > 0.0 { loss * full * elapsed } else { 0.0 };
    let mut held = 0.0;
    for &i in members {
        let s = &mut shares[i];
        let rate = if taken > 0.0 && s.lines > 0.0 { taken * s.weight(now_ps) } else { 0.0 };
        if s.running {
            s.lines += s.fills * elapsed;
        }
        if s.lines > 0.0 {
            s.lines /= 1.0 + rate;
            s.lines = if s.lines < s.footprint { s.lines } else { s.footprint };
            held += s.lines;
        }
    }
    if held > capacity {
        members.iter().for_each(|&i| shares[i].lines *= capacity / held);
    }
}
