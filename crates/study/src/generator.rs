//! Synthetic task systems by the paper's procedure (section 6.1, "Task-system generation").
//!
//! # Rule
//! 1. A share of the utilization per level is drawn from category 1 and the three are scaled to a
//!    sum of 1. Tasks with utilizations from category 3 and periods from category 2 are added to a
//!    level until its share is reached; the last is cut to fit. Utilization is that of level-A
//!    PETs, in an idle system with the whole cache.
//! 2. A share of each level's tasks exchange messages: chains of senders and receivers of one level
//!    and one period (tasks of level C in a chain take the period of its first). Sizes are from
//!    category 5.
//! 3. A bandwidth is drawn from category 6, and tasks in random order get I/O buffers until it is
//!    met (the last is cut) or no task is left. A job moves the data that it copies, at the speed
//!    of its copy.
//! 4. Each I/O task receives its data directly by DMA or through a copy of the kernel, by the share
//!    drawn from category 7.
//!
//! Values that the paper leaves open are drawn from [`Parameters`]. The order of draws is fixed:
//! per level the tasks, then the chains, then I/O. One (seed, scenario, utilization, index) always
//! gives the same system.
//!
//! # Not covered
//! Precedence: tasks of a chain have one period and no order. Messages between levels, as in the
//! paper.

use crate::parameters::Parameters;
use crate::random::{Range, Stream};
use crate::scenario::Scenario;
use solocore_analysis::levels::Level;
use solocore_planner::levels::optimiser::curve::{decay, power, saturation};
use solocore_planner::levels::optimiser::tasks::{
    Accesses, BANKS, Edge, IoBuffer, OptimiserTask, TaskSystem,
};

/// Cores of the study's machine, each with its own DRAM bank for levels A and B.
pub const CORES: usize = 4;

/// Replaces a system by the one of that name. `milli` is the utilization in thousandths.
pub fn generate(
    out: &mut TaskSystem,
    p: &Parameters,
    seed: u64,
    scenario: Scenario,
    milli: u32,
    index: u64,
) {
    let mut stream = Stream::new([seed, u64::from(scenario.index()), u64::from(milli), index]);
    out.cores = CORES;
    out.curves.clear();
    out.pins.clear();
    out.tasks.clear();
    out.edges.clear();
    out.order.clear();
    out.groups.clear();
    let percents = scenario.criticality().map(|range| stream.within(range));
    let unit = f64::from(milli) / 1000.0 / percents.iter().sum::<f64>();
    let mut draw = Draw { out, p, stream, scenario };
    for (at, level) in [Level::A, Level::B, Level::C].into_iter().enumerate() {
        if at > 0 {
            draw.out.starts[at - 1] = draw.out.tasks.len();
        }
        draw.add_tasks(level, percents[at] * unit);
    }
    draw.add_messages();
    draw.add_io();
    out.bus_load = saturation(out.dma, p.dma.saturation_mb_per_s);
}

/// A system during its generation.
struct Draw<'a> {
    out: &'a mut TaskSystem,
    p: &'a Parameters,
    stream: Stream,
    scenario: Scenario,
}

impl Draw<'_> {
    fn add_tasks(&mut self, level: Level, target: f64) {
        let at = level as usize;
        let range = self.scenario.task_utilization()[at];
        let mut left = target;
        while left > 0.0 {
            let drawn = self.stream.within(range);
            // A rest of a target by rounding is not a task.
            let utilization = if drawn > left - 1e-9 { left } else { drawn };
            left = if utilization < left { left - utilization } else { 0.0 };
            let period_ms = match level {
                Level::C => self.stream.within(self.scenario.global_periods()),
                _ => f64::from(
                    self.scenario.bound_periods()[at][usize::from(self.stream.below(2) == 1)],
                ),
            };
            let (slowdown, rate) = (
                self.stream.within(self.p.execution.slowdown),
                self.stream.within(self.p.execution.decay),
            );
            let factor = decay(rate);
            let whole = 1.0 + slowdown * power(factor, self.p.machine.ways);
            self.out.tasks.push(OptimiserTask {
                level,
                period_ms,
                utilization,
                average: self.stream.within(self.p.execution.average_over_longest),
                flat: 1.0 / whole,
                steep: slowdown / whole,
                factor,
                bus: self.stream.within(self.p.dma.bus),
                bank: self.stream.within(self.p.dma.bank),
                victim: self.stream.within(if level == Level::C {
                    self.p.sharing.victim_of_c
                } else {
                    self.p.sharing.victim
                }),
                reload: self.stream.within(self.scenario.reload()),
                io: None,
            });
        }
    }

    fn add_messages(&mut self) {
        let [b, c] = self.out.starts;
        for (level, tasks) in [0..b, b..c].into_iter().enumerate() {
            let share = self.stream.within(self.p.ipc.communicating);
            for period in self.scenario.bound_periods()[level] {
                let same = |s: &Self, i: usize| s.out.tasks[i].period_ms == f64::from(period);
                self.add_chains(share, tasks.clone(), same);
            }
        }
        self.out.bound_edges = self.out.edges.len();
        let pieces = (self.out.order.len(), self.out.groups.len());
        let share = self.stream.within(self.p.ipc.communicating);
        self.add_chains(share, c..self.out.tasks.len(), |_, _| true);
        // Only tasks of levels A and B are placed.
        self.out.order.truncate(pieces.0);
        self.out.groups.truncate(pieces.1);
    }

    /// Chains of the first tasks of a range that `same` picks; the others stay alone.
    fn add_chains(
        &mut self,
        share: f64,
        tasks: std::ops::Range<usize>,
        same: impl Fn(&Self, usize) -> bool,
    ) {
        let first = self.out.order.len();
        for task in tasks {
            if same(self, task) {
                self.out.order.push(task);
            }
        }
        let count = self.out.order.len() - first;
        let mut talking = rounded(share * count as f64).min(count);
        let mut at = first;
        while talking >= 2 {
            let [fewest, most] = self.p.ipc.chain;
            let drawn = fewest + self.stream.below(most - fewest + 1);
            let length = usize::try_from(drawn).unwrap_or(2).min(talking);
            for i in at..at + length - 1 {
                self.add_edge(self.out.order[i], self.out.order[i + 1]);
            }
            self.out.groups.push((at, at + length));
            at += length;
            talking -= length;
        }
        self.out.groups.extend((at..self.out.order.len()).map(|i| (i, i + 1)));
    }

    fn add_edge(&mut self, sender: usize, receiver: usize) {
        self.out.tasks[receiver].period_ms = self.out.tasks[sender].period_ms;
        let share = if self.scenario.large_messages() {
            self.p.ipc.share_large
        } else {
            self.p.ipc.share_small
        };
        let bytes = self.scenario.message_bytes()[usize::from(self.stream.below(2) == 1)];
        let bank = self.stream.below(BANKS);
        let mut accesses = |ce: Range, cl: Range| {
            let (share, ce, eviction) = (
                self.stream.within(share),
                self.stream.within(ce),
                self.stream.within(self.p.ipc.eviction),
            );
            // Locked buffers are never slower than buffers that may be evicted.
            let cl = self.stream.within(cl).min(ce);
            let bypass = share * (1.0 / ce - 1.0);
            let level_c = share * ((1.0 + eviction) / ce - 1.0);
            Accesses {
                share,
                bypass,
                level_c: level_c.max(bypass),
                locked: share * (1.0 - cl / ce),
            }
        };
        let sending = accesses(self.p.ipc.send_ce_over_sbp, self.p.ipc.send_cl_over_sbp);
        let receiving = accesses(self.p.ipc.receive_ce_over_sbp, self.p.ipc.receive_cl_over_sbp);
        self.out.edges.push(Edge { sender, receiver, bytes, bank, sending, receiving });
    }

    fn add_io(&mut self) {
        let target = self.stream.within(self.scenario.io_bandwidth());
        let direct = [(); 3].map(|()| self.stream.within(self.scenario.direct()));
        let mut shuffled: Vec<usize> = (0..self.out.tasks.len()).collect();
        self.out.dma = 0.0;
        for at in 0..shuffled.len() {
            if self.out.dma >= target {
                break;
            }
            let left = u32::try_from(shuffled.len() - at).unwrap_or(u32::MAX);
            let other = at + usize::try_from(self.stream.below(left)).unwrap_or(0);
            shuffled.swap(at, other);
            let task = &mut self.out.tasks[shuffled[at]];
            let (share, speed) = (
                self.stream.within(self.p.io.copy_share),
                self.stream.within(self.p.io.copy_mb_per_s),
            );
            let wanted = share * task.utilization / self.p.execution.level_a_over_b * speed;
            let mb_per_s = wanted.min(target - self.out.dma);
            let copy_share = if wanted > 0.0 { share * (mb_per_s / wanted) } else { 0.0 };
            task.io = Some(IoBuffer {
                copy_share,
                mb_per_s,
                penalty: copy_share * self.stream.within(self.p.io.cpu_sourced),
                direct: self.stream.unit() < direct[task.level as usize],
                bank: self.stream.below(BANKS),
                long: false,
                short: false,
            });
            self.out.dma += mb_per_s;
        }
        let [b, c] = self.out.starts;
        mark_halves(&mut self.out.tasks[..b]);
        mark_halves(&mut self.out.tasks[b..c]);
    }
}

/// Marks the I/O tasks of a level that are in the half with the longest, and with the shortest
/// periods. Of an odd number both halves have the one in the middle; ties go by index. The level
/// has at most two periods.
fn mark_halves(tasks: &mut [OptimiserTask]) {
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
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of tasks, not negative"
)]
fn rounded(x: f64) -> usize {
    (x + 0.5) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(scenario: &str, milli: u32, index: u64) -> (TaskSystem, Scenario) {
        let scenario = Scenario::parse(scenario).unwrap()[0];
        let mut system = TaskSystem::default();
        generate(&mut system, &Parameters::standard(), 1, scenario, milli, index);
        (system, scenario)
    }

    #[test]
    fn one_name_is_one_system_whatever_came_before() {
        let (one, scenario) = system("C-Light,Short,Medium,Slow,Large,High,Many", 2600, 7);
        let mut other = TaskSystem::default();
        for index in [3, 9, 7] {
            generate(&mut other, &Parameters::standard(), 1, scenario, 2600, index);
        }
        assert_eq!(one.tasks, other.tasks);
        assert_eq!(one.edges, other.edges);
        assert_eq!((one.order, one.groups), (other.order, other.groups));
        let mut next = TaskSystem::default();
        generate(&mut next, &Parameters::standard(), 2, scenario, 2600, 7);
        assert_ne!(one.tasks, next.tasks);
    }

    #[test]
    fn every_scenario_keeps_to_table_3() {
        let p = Parameters::standard();
        let mut s = TaskSystem::default();
        for scenario in Scenario::all() {
            for index in 0..3 {
                generate(&mut s, &p, 5, scenario, 2400, index);
                let total: f64 = s.tasks.iter().map(|t| t.utilization).sum();
                assert!((total - 2.4).abs() < 1e-6, "{scenario}: {total}");
                let mut last = [true; 3];
                for task in s.tasks.iter().rev() {
                    let at = task.level as usize;
                    let [low, high] = scenario.task_utilization()[at];
                    // The last task of a level is cut.
                    assert!(
                        task.utilization < high && (task.utilization >= low || last[at]),
                        "{scenario} {task:?}"
                    );
                    last[at] = false;
                    let [low, high] = scenario.reload();
                    assert!((low..high).contains(&task.reload));
                    let full = task.flat + task.steep * power(task.factor, p.machine.ways);
                    assert!((full - 1.0).abs() < 1e-12);
                    let period_fits = match task.level {
                        Level::C => (scenario.global_periods()[0]..scenario.global_periods()[1])
                            .contains(&task.period_ms),
                        level => scenario.bound_periods()[level as usize]
                            .iter()
                            .any(|&p| f64::from(p) == task.period_ms),
                    };
                    assert!(period_fits, "{scenario} {task:?}");
                }
                check_messages(&s, scenario);
                let [_, high] = scenario.io_bandwidth();
                assert!(
                    s.dma <= high
                        && (s.dma
                            - s.tasks
                                .iter()
                                .filter_map(|t| t.io)
                                .map(|io| io.mb_per_s)
                                .sum::<f64>())
                        .abs()
                            < 1e-9
                );
            }
        }
    }

    fn check_messages(s: &TaskSystem, scenario: Scenario) {
        for edge in &s.edges {
            let (sender, receiver) = (s.tasks[edge.sender], s.tasks[edge.receiver]);
            assert_eq!((sender.level, sender.period_ms), (receiver.level, receiver.period_ms));
            assert!(scenario.message_bytes().contains(&edge.bytes) && edge.bank < BANKS);
            for a in [edge.sending, edge.receiving] {
                assert!(
                    a.level_c >= a.bypass
                        && a.bypass >= 0.0
                        && a.locked >= 0.0
                        && a.locked <= a.share
                );
            }
        }
        let mut placed = s.order.clone();
        placed.sort_unstable();
        assert_eq!(placed, (0..s.starts[1]).collect::<Vec<_>>(), "each task of A and B once");
        let pieces: usize = s.groups.iter().map(|(from, to)| to - from).sum();
        assert_eq!(pieces, placed.len());
    }

    /// Kolmogorov and Smirnov's distance from uniform in `[low, high)` is below 1.95/sqrt(n),
    /// except once in a thousand.
    fn uniform(mut values: Vec<f64>, [low, high]: Range) {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let far =
            values.iter().enumerate().map(|(i, v)| ((v - low) / (high - low) - i as f64 / n).abs());
        let worst = far.fold(0.0, f64::max);
        assert!(
            values.len() > 500 && worst < 1.95 / n.sqrt() + 1.0 / n,
            "{worst} of {n} in [{low}, {high})"
        );
    }

    #[test]
    fn distributions_are_uniform() {
        let p = Parameters::standard();
        let scenario = Scenario::parse("C-Heavy,Long,Light,Slow,Large,Medium,Many").unwrap()[0];
        let (mut s, mut tasks) = (TaskSystem::default(), Vec::new());
        let (mut long, mut a_tasks, mut bandwidths, mut direct, mut io) =
            (0.0, 0.0, Vec::new(), 0.0, 0.0);
        for index in 0..600 {
            generate(&mut s, &p, 3, scenario, 4000, index);
            bandwidths.push(s.dma);
            // Not the last of a level, which is cut.
            tasks.extend(s.tasks.windows(2).filter(|w| w[0].level == w[1].level).map(|w| w[0]));
            long += s.tasks[..s.starts[0]].iter().filter(|t| t.period_ms == 96.0).count() as f64;
            a_tasks += s.starts[0] as f64;
            io += s.tasks.iter().filter(|t| t.io.is_some()).count() as f64;
            direct += s.tasks.iter().filter(|t| t.io.is_some_and(|io| io.direct)).count() as f64;
        }
        // A task is only added where the level has room. This removes large tasks, by less than the
        // test can see.
        let of = |level| tasks.iter().filter(move |t: &&OptimiserTask| t.level == level).take(5000);
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
        let mut s = TaskSystem::default();
        for (name, [low, high]) in
            [("C-Light", [0.10, 0.30]), ("C-Heavy", [0.50, 0.70]), ("All-Mod", [0.28, 0.39])]
        {
            let scenario =
                Scenario::parse(&format!("{name},Short,Light,Quick,Small,Low,Few")).unwrap()[0];
            let ranges = scenario.criticality();
            let extreme = |own: f64, other: usize| {
                own * 100.0 / (own * 100.0 + ranges[0][other] + ranges[1][other])
            };
            for index in 0..300 {
                generate(&mut s, &p, 1, scenario, 3000, index);
                let share: f64 = s.global().iter().map(|t| t.utilization).sum::<f64>() / 3.0;
                assert!(
                    share > extreme(low, 1) - 1e-9 && share < extreme(high, 0) + 1e-9,
                    "{name} {share}"
                );
            }
        }
    }

    #[test]
    fn halves_by_period() {
        let (mut s, _) = system("C-Light,Short,Light,Slow,Large,High,Many", 3000, 1);
        let tasks = &mut s.tasks[..];
        let io = |t: &&OptimiserTask| t.level == Level::A && t.io.is_some();
        let count = tasks.iter().filter(io).count();
        let long: Vec<f64> =
            tasks.iter().filter(io).filter(|t| t.io.unwrap().long).map(|t| t.period_ms).collect();
        let short: Vec<f64> =
            tasks.iter().filter(io).filter(|t| t.io.unwrap().short).map(|t| t.period_ms).collect();
        assert_eq!((long.len(), short.len()), (count.div_ceil(2), count.div_ceil(2)));
        assert!(count > 10 && long.iter().sum::<f64>() > short.iter().sum::<f64>());
        assert!(long.iter().all(|p| *p == 24.0) || long.contains(&12.0) && !short.contains(&24.0));
    }
}
