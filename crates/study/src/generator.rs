//! Synthetic task systems by the paper's procedure (section 6.1, "Task-system generation").
//!
//! # Rule
//! 1. A share of the utilization per level is drawn from category 1 and the three are scaled to a sum of 1. Tasks with
//!    utilizations from category 3 and periods from category 2 are added to a level until its share is reached; the last is
//!    cut to fit. Utilization is that of level-A PETs, in an idle system with the whole cache.
//! 2. A share of each level's tasks exchange messages: chains of senders and receivers of one level and one period
//!    (tasks of level C in a chain take the period of its first). Sizes are from category 5.
//! 3. A bandwidth is drawn from category 6, and tasks in random order get I/O buffers until it is met (the last is cut) or
//!    no task is left: a job moves what it copies, at the speed of its copy.
//! 4. Each I/O task receives its data directly by DMA or through a copy of the kernel, by the share drawn from category 7.
//!
//! What the paper leaves open is drawn from [`Parameters`]. The order of draws is fixed: per level the tasks, then the
//! chains, then I/O. One (seed, scenario, utilization, index) is one system, whatever else is drawn.
//!
//! # Not covered
//! Precedence: tasks of a chain have one period and no order. Messages between levels, as in the paper.

use crate::parameters::Parameters;
use crate::random::{Range, Stream, decay, saturation};
use crate::scenario::Scenario;
use crate::ways::SIZES;
use solocore_analysis::mc2::Level;

/// Cores of the study's machine, each with its own DRAM bank for levels A and B.
pub const CORES: usize = 4;

/// DRAM banks: bank `k` below [`CORES`] is core `k`'s, the others are for level C and the OS.
pub const BANKS: u32 = 8;

/// A task's I/O buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IoBuffer {
    /// Share of the job's idle time that copies the data.
    pub copy_share: f64,
    /// Data, in 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Longer by this share of the job's idle time, if others access the buffer's bank.
    pub penalty: f64,
    /// DMA goes to this buffer; else the kernel copies from others, which stay in the banks of level C.
    pub direct: bool,
    /// Where scheme R puts it.
    pub bank: u32,
    /// Among the half of its level's I/O tasks with the longest periods.
    pub long: bool,
    /// Among the half with the shortest periods.
    pub short: bool,
}

/// A task. Shares are of its execution time in an idle system with the whole cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task {
    /// Criticality.
    pub level: Level,
    /// Period, and deadline, in milliseconds.
    pub period_ms: f64,
    /// Utilization by the level-A PET.
    pub utilization: f64,
    /// Level-C PET over level-B PET.
    pub average: f64,
    /// With `w` ways a job takes `flat + steep*factor^w`: 1 with all ways.
    pub flat: f64,
    /// See `flat`.
    pub steep: f64,
    /// See `flat`.
    pub factor: f64,
    /// Longer by up to this share when DMA keeps the bus busy.
    pub bus: f64,
    /// Longer by up to this share times `factor^w` when DMA goes to its bank.
    pub bank: f64,
    /// Longer by up to this share when other cores access its bank.
    pub victim: f64,
    /// Longer by this share if it can be preempted (levels B and C).
    pub reload: f64,
    /// Its I/O buffer.
    pub io: Option<IoBuffer>,
}

/// What the accesses to a message buffer take, as shares of the idle time of the sender or the receiver, which has them at
/// the cost of CE.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accesses {
    /// Under CE: contained in the idle time.
    pub share: f64,
    /// Added by SBP.
    pub bypass: f64,
    /// Added by a cacheable buffer in the banks of level C; not below `bypass`.
    pub level_c: f64,
    /// Saved by CL, not negative.
    pub locked: f64,
}

/// A message buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Index of the task that sends.
    pub sender: usize,
    /// Index of the task that receives.
    pub receiver: usize,
    /// Size.
    pub bytes: u32,
    /// Where scheme R puts it.
    pub bank: u32,
    /// Costs of the sender.
    pub sending: Accesses,
    /// Costs of the receiver.
    pub receiving: Accesses,
}

/// A task system. Its buffers are used again by the next [`System::generate`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct System {
    /// Cores of its machine, 1 to [`MOST_CORES`](crate::ways::MOST_CORES).
    pub cores: usize,
    /// Tasks: level A, then B, then C.
    pub tasks: Vec<Task>,
    /// Where level B starts, and level C.
    pub starts: [usize; 2],
    /// Message buffers of levels A and B, then those of level C.
    pub edges: Vec<Edge>,
    /// How many message buffers levels A and B have.
    pub bound_edges: usize,
    /// The tasks of levels A and B with each chain in one piece.
    pub order: Vec<usize>,
    /// Pieces of `order`: chains, and tasks that exchange nothing.
    pub groups: Vec<(usize, usize)>,
    /// All DMA, in 10^6 bytes per second.
    pub dma: f64,
    /// How far bus contention by DMA has come, 0 to 1.
    pub bus_load: f64,
    /// Of systems that were not drawn: by task, what takes the place of `factor^w` by ways. Empty, or one for each task.
    pub curves: Vec<[f64; SIZES]>,
    /// Cores that tasks of levels A and B must be on. Empty, or one for each of these tasks.
    pub pins: Vec<Option<usize>>,
    shuffled: Vec<usize>,
}

impl System {
    /// An empty system.
    #[must_use]
    pub fn new() -> Self {
        Self { cores: CORES, ..Self::default() }
    }

    /// Which core a task of levels A and B must be on.
    #[must_use]
    pub fn pin(&self, task: usize) -> Option<usize> {
        self.pins.get(task).copied().flatten()
    }

    /// Share of a task's `steep` that is left with so many ways.
    #[must_use]
    pub fn remaining(&self, task: usize, ways: usize) -> f64 {
        self.curves.get(task).map_or_else(|| power(self.tasks[task].factor, ways), |curve| curve[ways])
    }

    /// [`System::remaining`] by ways.
    #[must_use]
    pub fn curve(&self, task: usize) -> [f64; SIZES] {
        self.curves.get(task).copied().unwrap_or_else(|| powers(self.tasks[task].factor))
    }

    /// Tasks of levels A and B.
    #[must_use]
    pub fn bound(&self) -> &[Task] {
        &self.tasks[..self.starts[1]]
    }

    /// Tasks of level C.
    #[must_use]
    pub fn global(&self) -> &[Task] {
        &self.tasks[self.starts[1]..]
    }

    /// Replaces this system by the one of that name. `milli` is the utilization in thousandths.
    pub fn generate(&mut self, p: &Parameters, seed: u64, scenario: Scenario, milli: u32, index: u64) {
        let mut stream = Stream::new([seed, u64::from(scenario.index()), u64::from(milli), index]);
        self.cores = CORES;
        self.curves.clear();
        self.pins.clear();
        self.tasks.clear();
        self.edges.clear();
        self.order.clear();
        self.groups.clear();
        let percents = scenario.criticality().map(|range| stream.within(range));
        let unit = f64::from(milli) / 1000.0 / percents.iter().sum::<f64>();
        for (at, level) in [Level::A, Level::B, Level::C].into_iter().enumerate() {
            if at > 0 {
                self.starts[at - 1] = self.tasks.len();
            }
            self.add_tasks(p, &mut stream, scenario, level, percents[at] * unit);
        }
        self.add_messages(p, &mut stream, scenario);
        self.add_io(p, &mut stream, scenario);
        self.bus_load = saturation(self.dma, p.dma.saturation_mb_per_s);
    }

    fn add_tasks(&mut self, p: &Parameters, stream: &mut Stream, scenario: Scenario, level: Level, target: f64) {
        let at = level as usize;
        let range = scenario.task_utilization()[at];
        let mut left = target;
        while left > 0.0 {
            let drawn = stream.within(range);
            // What rounding leaves of a target is no task.
            let utilization = if drawn > left - 1e-9 { left } else { drawn };
            left = if utilization < left { left - utilization } else { 0.0 };
            let period_ms = match level {
                Level::C => stream.within(scenario.global_periods()),
                _ => f64::from(scenario.bound_periods()[at][usize::from(stream.below(2) == 1)]),
            };
            let (slowdown, rate) = (stream.within(p.execution.slowdown), stream.within(p.execution.decay));
            let factor = decay(rate);
            let whole = 1.0 + slowdown * power(factor, p.machine.ways);
            self.tasks.push(Task {
                level,
                period_ms,
                utilization,
                average: stream.within(p.execution.average_over_longest),
                flat: 1.0 / whole,
                steep: slowdown / whole,
                factor,
                bus: stream.within(p.dma.bus),
                bank: stream.within(p.dma.bank),
                victim: stream.within(if level == Level::C { p.sharing.victim_of_c } else { p.sharing.victim }),
                reload: stream.within(scenario.reload()),
                io: None,
            });
        }
    }

    fn add_messages(&mut self, p: &Parameters, stream: &mut Stream, scenario: Scenario) {
        let [b, c] = self.starts;
        for (level, tasks) in [0..b, b..c].into_iter().enumerate() {
            let share = stream.within(p.ipc.communicating);
            for period in scenario.bound_periods()[level] {
                let same = |s: &Self, i: usize| s.tasks[i].period_ms == f64::from(period);
                self.add_chains(p, stream, scenario, share, tasks.clone(), same);
            }
        }
        self.bound_edges = self.edges.len();
        let pieces = (self.order.len(), self.groups.len());
        let share = stream.within(p.ipc.communicating);
        self.add_chains(p, stream, scenario, share, c..self.tasks.len(), |_, _| true);
        // Only tasks of levels A and B are placed.
        self.order.truncate(pieces.0);
        self.groups.truncate(pieces.1);
    }

    /// Chains of the first tasks of a range that `same` picks; the others stay alone.
    fn add_chains(
        &mut self,
        p: &Parameters,
        stream: &mut Stream,
        scenario: Scenario,
        share: f64,
        tasks: std::ops::Range<usize>,
        same: impl Fn(&Self, usize) -> bool,
    ) {
        let first = self.order.len();
        for task in tasks {
            if same(self, task) {
                self.order.push(task);
            }
        }
        let count = self.order.len() - first;
        let mut talking = rounded(share * count as f64).min(count);
        let mut at = first;
        while talking >= 2 {
            let [fewest, most] = p.ipc.chain;
            let drawn = fewest + stream.below(most - fewest + 1);
            let length = usize::try_from(drawn).unwrap_or(2).min(talking);
            for i in at..at + length - 1 {
                self.add_edge(p, stream, scenario, self.order[i], self.order[i + 1]);
            }
            self.groups.push((at, at + length));
            at += length;
            talking -= length;
        }
        self.groups.extend((at..self.order.len()).map(|i| (i, i + 1)));
    }

    fn add_edge(&mut self, p: &Parameters, stream: &mut Stream, scenario: Scenario, sender: usize, receiver: usize) {
        self.tasks[receiver].period_ms = self.tasks[sender].period_ms;
        let share = if scenario.large_messages() { p.ipc.share_large } else { p.ipc.share_small };
        let bytes = scenario.message_bytes()[usize::from(stream.below(2) == 1)];
        let bank = stream.below(BANKS);
        let mut accesses = |ce: Range, cl: Range| {
            let (share, ce, eviction) = (stream.within(share), stream.within(ce), stream.within(p.ipc.eviction));
            // Locked buffers are never slower than buffers that may be evicted.
            let cl = stream.within(cl).min(ce);
            let bypass = share * (1.0 / ce - 1.0);
            let level_c = share * ((1.0 + eviction) / ce - 1.0);
            Accesses { share, bypass, level_c: level_c.max(bypass), locked: share * (1.0 - cl / ce) }
        };
        let sending = accesses(p.ipc.send_ce_over_sbp, p.ipc.send_cl_over_sbp);
        let receiving = accesses(p.ipc.receive_ce_over_sbp, p.ipc.receive_cl_over_sbp);
        self.edges.push(Edge { sender, receiver, bytes, bank, sending, receiving });
    }

    fn add_io(&mut self, p: &Parameters, stream: &mut Stream, scenario: Scenario) {
        let target = stream.within(scenario.io_bandwidth());
        let direct = [(); 3].map(|()| stream.within(scenario.direct()));
        self.shuffled.clear();
        self.shuffled.extend(0..self.tasks.len());
        self.dma = 0.0;
        for at in 0..self.shuffled.len() {
            if self.dma >= target {
                break;
            }
            let left = u32::try_from(self.shuffled.len() - at).unwrap_or(u32::MAX);
            let other = at + usize::try_from(stream.below(left)).unwrap_or(0);
            self.shuffled.swap(at, other);
            let task = &mut self.tasks[self.shuffled[at]];
            let (share, speed) = (stream.within(p.io.copy_share), stream.within(p.io.copy_mb_per_s));
            let wanted = share * task.utilization / p.execution.level_a_over_b * speed;
            let mb_per_s = wanted.min(target - self.dma);
            let copy_share = if wanted > 0.0 { share * (mb_per_s / wanted) } else { 0.0 };
            task.io = Some(IoBuffer {
                copy_share,
                mb_per_s,
                penalty: copy_share * stream.within(p.io.cpu_sourced),
                direct: stream.unit() < direct[task.level as usize],
                bank: stream.below(BANKS),
                long: false,
                short: false,
            });
            self.dma += mb_per_s;
        }
        let [b, c] = self.starts;
        mark_halves(&mut self.tasks[..b]);
        mark_halves(&mut self.tasks[b..c]);
    }
}

/// Marks the I/O tasks of a level that are in the half with the longest, and with the shortest periods. Of an odd number
/// both halves have the one in the middle; ties go by index. The level has at most two periods.
fn mark_halves(tasks: &mut [Task]) {
    let longest = tasks.iter().filter(|t| t.io.is_some()).map(|t| t.period_ms).fold(0.0, f64::max);
    let io = || tasks.iter().filter(|t| t.io.is_some());
    let (count, long) = (io().count(), io().filter(|t| t.period_ms == longest).count());
    let half = count.div_ceil(2);
    let (mut longs, mut shorts) = (0, 0);
    for task in tasks {
        let Some(io) = &mut task.io else { continue };
        let (from_longest, from_shortest) = if task.period_ms == longest {
            longs += 1;
            (longs - 1, count - long + longs - 1)
        } else {
            shorts += 1;
            (long + shorts - 1, shorts - 1)
        };
        (io.long, io.short) = (from_longest < half, from_shortest < half);
    }
}

/// A number of tasks to the nearest whole.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of tasks, not negative")]
fn rounded(x: f64) -> usize {
    (x + 0.5) as usize
}

/// `base^n` by multiplication alone, the same on every machine.
#[must_use]
pub fn power(base: f64, n: usize) -> f64 {
    (0..n).fold(1.0, |product, _| product * base)
}

/// `base^n` for each size of a region.
fn powers(base: f64) -> [f64; SIZES] {
    let mut out = [1.0; SIZES];
    for size in 1..SIZES {
        out[size] = out[size - 1] * base;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(scenario: &str, milli: u32, index: u64) -> (System, Scenario) {
        let scenario = Scenario::parse(scenario).unwrap()[0];
        let mut system = System::new();
        system.generate(&Parameters::standard(), 1, scenario, milli, index);
        (system, scenario)
    }

    #[test]
    fn one_name_is_one_system_whatever_came_before() {
        let (one, scenario) = system("C-Light,Short,Medium,Slow,Large,High,Many", 2600, 7);
        let mut other = System::new();
        for index in [3, 9, 7] {
            other.generate(&Parameters::standard(), 1, scenario, 2600, index);
        }
        assert_eq!(one.tasks, other.tasks);
        assert_eq!(one.edges, other.edges);
        assert_eq!((one.order, one.groups), (other.order, other.groups));
        let mut next = System::new();
        next.generate(&Parameters::standard(), 2, scenario, 2600, 7);
        assert_ne!(one.tasks, next.tasks);
    }

    #[test]
    fn every_scenario_keeps_to_table_3() {
        let p = Parameters::standard();
        let mut s = System::new();
        for scenario in Scenario::all() {
            for index in 0..3 {
                s.generate(&p, 5, scenario, 2400, index);
                let total: f64 = s.tasks.iter().map(|t| t.utilization).sum();
                assert!((total - 2.4).abs() < 1e-6, "{scenario}: {total}");
                let mut last = [true; 3];
                for task in s.tasks.iter().rev() {
                    let at = task.level as usize;
                    let [low, high] = scenario.task_utilization()[at];
                    // The last task of a level is cut.
                    assert!(task.utilization < high && (task.utilization >= low || last[at]), "{scenario} {task:?}");
                    last[at] = false;
                    let [low, high] = scenario.reload();
                    assert!((low..high).contains(&task.reload));
                    let full = task.flat + task.steep * power(task.factor, p.machine.ways);
                    assert!((full - 1.0).abs() < 1e-12);
                    let period_fits = match task.level {
                        Level::C => {
                            (scenario.global_periods()[0]..scenario.global_periods()[1]).contains(&task.period_ms)
                        }
                        level => {
                            scenario.bound_periods()[level as usize].iter().any(|&p| f64::from(p) == task.period_ms)
                        }
                    };
                    assert!(period_fits, "{scenario} {task:?}");
                }
                check_messages(&s, scenario);
                let [_, high] = scenario.io_bandwidth();
                assert!(
                    s.dma <= high
                        && (s.dma - s.tasks.iter().filter_map(|t| t.io).map(|io| io.mb_per_s).sum::<f64>()).abs()
                            < 1e-9
                );
            }
        }
    }

    fn check_messages(s: &System, scenario: Scenario) {
        for edge in &s.edges {
            let (sender, receiver) = (s.tasks[edge.sender], s.tasks[edge.receiver]);
            assert_eq!((sender.level, sender.period_ms), (receiver.level, receiver.period_ms));
            assert!(scenario.message_bytes().contains(&edge.bytes) && edge.bank < BANKS);
            for a in [edge.sending, edge.receiving] {
                assert!(a.level_c >= a.bypass && a.bypass >= 0.0 && a.locked >= 0.0 && a.locked <= a.share);
            }
        }
        let mut placed = s.order.clone();
        placed.sort_unstable();
        assert_eq!(placed, (0..s.starts[1]).collect::<Vec<_>>(), "each task of A and B once");
        let pieces: usize = s.groups.iter().map(|(from, to)| to - from).sum();
        assert_eq!(pieces, placed.len());
    }

    /// Kolmogorov and Smirnov's distance from uniform in `[low, high)` is below 1.95/sqrt(n) but once in a thousand.
    fn uniform(mut values: Vec<f64>, [low, high]: Range) {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let far = values.iter().enumerate().map(|(i, v)| ((v - low) / (high - low) - i as f64 / n).abs());
        let worst = far.fold(0.0, f64::max);
        assert!(values.len() > 500 && worst < 1.95 / n.sqrt() + 1.0 / n, "{worst} of {n} in [{low}, {high})");
    }

    #[test]
    fn distributions_are_uniform() {
        let p = Parameters::standard();
        let scenario = Scenario::parse("C-Heavy,Long,Light,Slow,Large,Medium,Many").unwrap()[0];
        let (mut s, mut tasks) = (System::new(), Vec::new());
        let (mut long, mut a_tasks, mut bandwidths, mut direct, mut io) = (0.0, 0.0, Vec::new(), 0.0, 0.0);
        for index in 0..600 {
            s.generate(&p, 3, scenario, 4000, index);
            bandwidths.push(s.dma);
            // Not the last of a level, which is cut.
            tasks.extend(s.tasks.windows(2).filter(|w| w[0].level == w[1].level).map(|w| w[0]));
            long += s.tasks[..s.starts[0]].iter().filter(|t| t.period_ms == 96.0).count() as f64;
            a_tasks += s.starts[0] as f64;
            io += s.tasks.iter().filter(|t| t.io.is_some()).count() as f64;
            direct += s.tasks.iter().filter(|t| t.io.is_some_and(|io| io.direct)).count() as f64;
        }
        // A task is only added where the level has room, which thins out large ones by less than the test sees.
        let of = |level| tasks.iter().filter(move |t: &&Task| t.level == level).take(5000);
        uniform(of(Level::C).map(|t| t.reload).collect(), scenario.reload());
        uniform(of(Level::B).map(|t| t.average).collect(), p.execution.average_over_longest);
        uniform(of(Level::A).map(|t| t.bank).collect(), p.dma.bank);
        uniform(of(Level::B).map(|t| t.steep / t.flat).collect(), p.execution.slowdown);
        uniform(of(Level::B).map(|t| -t.factor.ln()).collect(), p.execution.decay);
        uniform(bandwidths, scenario.io_bandwidth());
        assert!((long / a_tasks - 0.5).abs() < 0.03, "{}", long / a_tasks);
        assert!((direct / io - 0.85).abs() < 0.03, "{}", direct / io);
    }

    #[test]
    fn shares_of_the_levels_are_scaled_to_one() {
        let p = Parameters::standard();
        let mut s = System::new();
        for (name, [low, high]) in [("C-Light", [0.10, 0.30]), ("C-Heavy", [0.50, 0.70]), ("All-Mod", [0.28, 0.39])] {
            let scenario = Scenario::parse(&format!("{name},Short,Light,Quick,Small,Low,Few")).unwrap()[0];
            let ranges = scenario.criticality();
            let extreme = |own: f64, other: usize| own * 100.0 / (own * 100.0 + ranges[0][other] + ranges[1][other]);
            for index in 0..300 {
                s.generate(&p, 1, scenario, 3000, index);
                let share: f64 = s.global().iter().map(|t| t.utilization).sum::<f64>() / 3.0;
                assert!(share > extreme(low, 1) - 1e-9 && share < extreme(high, 0) + 1e-9, "{name} {share}");
            }
        }
    }

    #[test]
    fn halves_by_period() {
        let (mut s, _) = system("C-Light,Short,Light,Slow,Large,High,Many", 3000, 1);
        let tasks = &mut s.tasks[..];
        let io = |t: &&Task| t.level == Level::A && t.io.is_some();
        let count = tasks.iter().filter(io).count();
        let long: Vec<f64> = tasks.iter().filter(io).filter(|t| t.io.unwrap().long).map(|t| t.period_ms).collect();
        let short: Vec<f64> = tasks.iter().filter(io).filter(|t| t.io.unwrap().short).map(|t| t.period_ms).collect();
        assert_eq!((long.len(), short.len()), (count.div_ceil(2), count.div_ceil(2)));
        assert!(count > 10 && long.iter().sum::<f64>() > short.iter().sum::<f64>());
        assert!(long.iter().all(|p| *p == 24.0) || long.contains(&12.0) && !short.contains(&24.0));
    }
}
