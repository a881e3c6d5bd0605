//! A discrete round-robin memory under the policies that run, against the bounds for best-effort regulation, the
//! bandwidth lock and MemGuard's reclaiming.
//!
//! The memory serves one request at a time, each in `L` ticks, round robin, one outstanding per core. An adversary chooses when the
//! others issue, and when the core under analysis does. Budgets are kept by `solocore-policy`; accesses count when issued.

use std::collections::HashMap;

use solocore_analysis::memory::best_effort::BestEffort;
use solocore_analysis::memory::bwlock::{BwLock as Lock, Section};
use solocore_analysis::memory::reclaim::{self, Reservation};
use solocore_analysis::{Regulation, Task, carry_in, stall};
use solocore_dram::random::Random;
use solocore_policy::UNLIMITED;
use solocore_policy::bwlock::BwLock;
use solocore_policy::memguard::{Core, Kind, MemGuard, Role, Sharing, Verdict};

struct Bus {
    latency: u64,
    pending: Vec<bool>,
    serving: Option<(usize, u64)>,
    last: usize,
}

impl Bus {
    fn new(cores: usize, latency: u64) -> Self {
        Self { latency, pending: vec![false; cores], serving: None, last: 0 }
    }

    /// One tick; the core that is served in it.
    fn tick(&mut self) -> Option<usize> {
        let cores = self.pending.len();
        if self.serving.is_none() {
            let next = (1..=cores).map(|step| (self.last + step) % cores).find(|&c| self.pending[c]);
            self.serving = next.map(|c| (c, self.latency));
        }
        let (core, left) = self.serving?;
        self.serving = Some((core, left - 1));
        if left == 1 {
            (self.serving, self.last, self.pending[core]) = (None, core, false);
        }
        Some(core)
    }
}

/// What the core under analysis still has to do: ticks without memory, and accesses.
#[derive(Clone, Copy)]
struct Program {
    compute: u64,
    accesses: u64,
}

impl Program {
    fn is_done(&self, pending: bool) -> bool {
        self.compute == 0 && self.accesses == 0 && !pending
    }

    /// Issue now? Only when nothing is pending and the core may run.
    fn issues(&self, random: &mut Random, eager: u64) -> bool {
        self.accesses > 0 && (self.compute == 0 || random.below(8) < eager)
    }
}

#[derive(Default)]
struct Ratio {
    cases: u32,
    reached: u32,
    best: f64,
    sum: f64,
}

impl Ratio {
    fn add(&mut self, seen: u64, bound: u64) {
        self.cases += 1;
        self.reached += u32::from(seen == bound);
        self.best = self.best.max(seen as f64 / bound.max(1) as f64);
    }

    fn print(&self, what: &str) {
        println!("{what}: {} cases, bound reached in {}, largest ratio {:.3}", self.cases, self.reached, self.best);
    }
}

/// Throttled cores with budgets of their own and a common period; `hoard`: nothing before this phase of a period.
struct Throttled {
    thresholds: Vec<u64>,
    used: Vec<u64>,
    period: u64,
    hoard: u64,
}

#[test]
fn best_effort_cores_cannot_hold_a_job_up_for_longer() {
    let mut random = Random::new(5);
    let mut ratio = Ratio::default();
    for _ in 0..6000 {
        let (latency, period) = (1 + random.below(3), 10 + random.below(30));
        let cores = 1 + random.below(3);
        let thresholds: Vec<u64> = (0..cores).map(|_| random.below(6)).collect();
        let mut program = Program { compute: random.below(30), accesses: random.below(20) };
        let solo = program.compute + program.accesses * latency;
        if solo == 0 {
            continue;
        }
        let task = Task {
            wcet_ps: solo,
            misses: program.accesses,
            period_ps: 100_000,
            deadline_ps: 100_000,
            preemption_ps: 0,
        };
        let synchronised = random.below(3) == 0;
        let model = BestEffort {
            period_ps: period,
            latency_ps: latency,
            thresholds: thresholds.clone(),
            skid: 0,
            outstanding: 1,
            round_robin: true,
            synchronised,
        };
        let bound = model.response_time(&[task], 0).unwrap();
        assert!(BestEffort { round_robin: false, ..model }.response_time(&[task], 0).is_none_or(|b| b >= bound));
        let mut others = Throttled { used: vec![0; thresholds.len()], thresholds, period, hoard: random.below(period) };
        let start = period * 2 + if synchronised { 0 } else { random.below(period) };
        let (eager, keen) = (random.below(9), 5 + random.below(4));
        let mut bus = Bus::new(others.used.len() + 1, latency);
        let mut now = 0;
        while now < start || !program.is_done(bus.pending[0]) {
            if now % others.period == 0 {
                others.used.fill(0);
            }
            for c in 0..others.used.len() {
                let may = others.used[c] < others.thresholds[c] && !bus.pending[c + 1];
                let wants = now >= start || now % others.period >= others.hoard;
                if may && wants && random.below(8) < keen {
                    (bus.pending[c + 1], others.used[c]) = (true, others.used[c] + 1);
                }
            }
            let free = now >= start && !bus.pending[0];
            if free && program.issues(&mut random, eager) {
                (bus.pending[0], program.accesses) = (true, program.accesses - 1);
            } else if free {
                program.compute -= 1;
            }
            bus.tick();
            now += 1;
        }
        assert!(now - start <= bound, "took {}, bound {bound}", now - start);
        ratio.add(now - start, bound);
    }
    ratio.print("best effort");
}

/// The state of a job of core 0 beside throttled cores, at the start of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    phase: u64,
    used: [u64; 2],
    pending: [bool; 3],
    serving: Option<(usize, u64)>,
    last: usize,
    compute: u64,
    accesses: u64,
}

struct Exhaustive {
    latency: u64,
    period: u64,
    thresholds: Vec<u64>,
    known: HashMap<State, u64>,
}

impl Exhaustive {
    /// Longest time until the job is done, over all choices of all cores.
    fn longest(&mut self, s: State) -> u64 {
        if s.compute == 0 && s.accesses == 0 && !s.pending[0] {
            return 0;
        }
        if let Some(&known) = self.known.get(&s) {
            return known;
        }
        let cores = self.thresholds.len() + 1;
        let mut best = 0;
        for choice in 0..1usize << cores {
            let takes = |c: usize| choice & 1 << c != 0;
            let other = |c: usize| !takes(c) || (!s.pending[c] && s.used[c - 1] < self.thresholds[c - 1]);
            if (takes(0) && (s.pending[0] || s.accesses == 0)) || !(1..cores).all(other) {
                continue;
            }
            if !takes(0) && !s.pending[0] && s.compute == 0 {
                continue;
            }
            let mut t = s;
            for c in (0..cores).filter(|&c| takes(c)) {
                t.pending[c] = true;
                if c > 0 {
                    t.used[c - 1] += 1;
                }
            }
            t.accesses -= u64::from(takes(0));
            t.compute -= u64::from(!t.pending[0]);
            let (pending, serving, last) = (t.pending[..cores].to_vec(), t.serving, t.last);
            let mut bus = Bus { latency: self.latency, pending, serving, last };
            bus.tick();
            t.pending[..cores].copy_from_slice(&bus.pending);
            (t.serving, t.last, t.phase) = (bus.serving, bus.last, t.phase + 1);
            if t.phase == self.period {
                (t.phase, t.used) = (0, [0; 2]);
            }
            best = best.max(1 + self.longest(t));
        }
        self.known.insert(s, best);
        best
    }

    /// Over all starts: any phase, any budgets used, requests of the others just issued or being served.
    fn worst(&mut self, compute: u64, accesses: u64) -> u64 {
        let mut worst = 0;
        let cores = self.thresholds.len() + 1;
        let limit = self.thresholds.clone();
        for phase in 0..self.period {
            for used in 0..(limit[0] + 1) * (limit.get(1).copied().unwrap_or(0) + 1) {
                let used = [used % (limit[0] + 1), used / (limit[0] + 1)];
                for pending in 0..1usize << (cores - 1) {
                    let on = |c: usize| c > 0 && c < cores && pending & 1 << (c - 1) != 0;
                    let flags = [false, on(1), on(2)];
                    for last in 0..cores {
                        let s = State { phase, used, pending: flags, serving: None, last, compute, accesses };
                        worst = worst.max(self.longest(s));
                    }
                }
            }
        }
        worst
    }
}

#[test]
fn best_effort_against_all_choices() {
    let mut ratio = Ratio::default();
    for latency in 1..=2 {
        for period in [4, 5, 7, 9] {
            for thresholds in [vec![1], vec![2], vec![3], vec![1, 1], vec![2, 1], vec![2, 2]] {
                let mut search = Exhaustive { latency, period, thresholds: thresholds.clone(), known: HashMap::new() };
                for (compute, accesses) in [(0, 1), (2, 3), (6, 3), (3, 7), (0, 8), (9, 6)] {
                    let worst = search.worst(compute, accesses);
                    let model = BestEffort {
                        period_ps: period,
                        latency_ps: latency,
                        thresholds: thresholds.clone(),
                        skid: 0,
                        outstanding: 1,
                        round_robin: true,
                        synchronised: false,
                    };
                    let wcet_ps = compute + accesses * latency;
                    let task = Task { wcet_ps, misses: accesses, period_ps: 999, deadline_ps: 999, preemption_ps: 0 };
                    let bound = model.response_time(&[task], 0).unwrap();
                    let case = format!("P={period} L={latency} b={thresholds:?} C={compute} mu={accesses}");
                    assert!(worst <= bound, "{case}: {worst}, bound {bound}");
                    ratio.add(worst, bound);
                    ratio.sum += bound as f64 / worst as f64;
                }
            }
        }
    }
    ratio.print("best effort, exhaustive");
    println!("mean bound over worst {:.3}", ratio.sum / f64::from(ratio.cases));
}

/// Core 0 holds the lock in one or two stretches; the others are throttled, or real-time.
#[test]
fn the_lock_bounds_its_holder() {
    let mut random = Random::new(17);
    let mut ratio = Ratio::default();
    for round in 0..4000u64 {
        let (latency, period, budget) = (1 + random.below(2), 12 + random.below(30), 1 + random.below(4));
        let (throttled, realtime) =
            (1 + u32::try_from(random.below(2)).unwrap(), u32::try_from(random.below(2)).unwrap());
        let cores = 1 + throttled + realtime;
        // At once, or at the next tick as in the paper.
        let reaction = if round % 2 == 0 { period } else { random.below(5) };
        let stretches = 1 + random.below(2);
        let mut program = Program { compute: 5 + random.below(60), accesses: 1 + random.below(60) };
        let section =
            Section { wcet_ps: program.compute + program.accesses * latency, misses: program.accesses, stretches };
        let model = Lock {
            period_ps: period,
            latency_ps: latency,
            min_budget: budget,
            skid: 0,
            reaction_ps: reaction,
            throttled_cores: throttled,
            realtime_cores: realtime,
        };
        let bound = model.section_time(&section, u64::MAX).unwrap();
        let mut policy = BwLock::new(period, UNLIMITED, budget, cores, 0).unwrap();
        for c in 0..cores {
            assert!(policy.add(c, c == 0 || c > throttled) && policy.switch(c, Some(c), 0).is_some());
        }
        let (eager, keen) = (random.below(9), 6 + random.below(3));
        let (start, away) = (period + random.below(period), 10 + random.below(20));
        let swap_at = (program.compute + program.accesses) / 2;
        let mut bus = Bus::new(cores as usize, latency);
        let (mut now, mut spent, mut taken, mut told, mut back) = (0, 0, 0, u64::MAX, start);
        while now < start || !program.is_done(bus.pending[0]) {
            if now == back {
                assert!(policy.lock(0));
                (taken, told) = (taken + 1, now + reaction);
            }
            for c in 0..cores {
                if now % period == 0 && now > 0 {
                    policy.tick(c, now);
                }
                if now == told && c > 0 {
                    policy.update(c);
                }
            }
            // Preempted for a while: the lock is released, at once for all.
            if taken > 0
                && taken < stretches
                && now > back
                && !bus.pending[0]
                && program.compute + program.accesses <= swap_at
            {
                assert!(policy.unlock(0));
                (1..cores).for_each(|c| assert!(policy.update(c).is_some()));
                (taken, told, back) = (stretches, u64::MAX, now + away);
                // `taken` says that no further stretch follows the next.
            }
            let holds = now >= back;
            for c in 1..cores {
                let at = c as usize;
                let may = !bus.pending[at] && policy.throttled(c) == Some(false);
                if may && random.below(8) < keen {
                    bus.pending[at] = true;
                    policy.account(c, 1);
                }
            }
            if holds && !bus.pending[0] && program.issues(&mut random, eager) {
                (bus.pending[0], program.accesses) = (true, program.accesses - 1);
            } else if holds && !bus.pending[0] {
                program.compute -= 1;
            }
            spent += u64::from(holds);
            bus.tick();
            now += 1;
        }
        assert!(spent <= bound, "{model:?} {section:?}: took {spent}, bound {bound}");
        ratio.add(spent, bound);
    }
    ratio.print("lock holder");
}

/// Core 1 is throttled while core 0 takes and releases the lock.
#[test]
fn the_lock_bounds_what_it_costs_the_others() {
    let mut random = Random::new(23);
    let mut ratio = Ratio::default();
    for round in 0..4000u64 {
        let (latency, budget) = (1 + random.below(2), 1 + random.below(4));
        let period = 12 + random.below(30);
        let unlimited = round % 2 == 0;
        let max = if unlimited { UNLIMITED } else { budget + random.below(4) };
        let cores = 2 + u32::try_from(random.below(2)).unwrap();
        let mut policy = BwLock::new(period, max, budget, cores, 0).unwrap();
        for c in 0..cores {
            assert!(policy.add(c, c != 1) && policy.switch(c, Some(c), 0).is_some());
        }
        let reaction = random.below(4);
        let mut program = Program { compute: 1 + random.below(20), accesses: random.below(16) };
        let (work, misses) = (program.compute + program.accesses * latency, program.accesses);
        let (start, eager) = (period * 2 + random.below(period), random.below(9));
        let mut bus = Bus::new(cores as usize, latency);
        let (mut now, mut held, mut stretches, mut told, mut change) = (0, 0, 0, u64::MAX, random.below(60));
        // A load of the program before may be under way: the window opens when it is back.
        let mut opened = None;
        while opened.is_none() || !program.is_done(bus.pending[1]) {
            if now % period == 0 && now > 0 {
                (0..cores).for_each(|c| assert!(policy.tick(c, now).is_some()));
            }
            if now == change {
                let locked = policy.holders() > 0;
                assert!(if locked { policy.unlock(0) } else { policy.lock(0) });
                stretches += u64::from(!locked && opened.is_some());
                (told, change) = (now + reaction, now + reaction + 1 + random.below(50));
            }
            if now == told {
                policy.update(1);
            }
            if now >= start && opened.is_none() && !bus.pending[1] {
                // A stretch that has just ended may not have been noticed: it counts.
                (opened, held, stretches) = (Some(now), 0, 1);
            }
            let is_held = policy.holders() > 0;
            held += u64::from(is_held && opened.is_some());
            for c in (0..cores as usize).filter(|&c| c != 1) {
                bus.pending[c] |= random.below(8) < 7;
            }
            let may = !bus.pending[1] && policy.throttled(1) == Some(false);
            let early = opened.is_none() && random.below(4) > 0;
            if may && (early || opened.is_some() && program.issues(&mut random, eager)) {
                bus.pending[1] = true;
                program.accesses -= u64::from(opened.is_some());
                policy.account(1, 1);
            } else if may && opened.is_some() {
                program.compute -= 1;
            }
            bus.tick();
            now += 1;
        }
        let seen = now - opened.unwrap() - work;
        let model = Lock {
            period_ps: period,
            latency_ps: latency,
            min_budget: budget,
            skid: 0,
            reaction_ps: reaction,
            throttled_cores: 0,
            realtime_cores: cores - 1,
        };
        let bound = model.throttled_stall(misses, held, stretches, unlimited);
        assert!(seen <= bound, "{model:?} mu={misses} held={held} x{stretches}: {seen}, bound {bound}");
        ratio.add(seen, bound);
    }
    ratio.print("throttled by the lock");
}

struct Guarded {
    shared: MemGuard,
    cores: Vec<Core>,
    period: u64,
}

impl Guarded {
    fn new(period: u64, chunk: u64, sharing: Sharing, cores: &[(u64, Role)]) -> Self {
        let mut shared = MemGuard::new(period, chunk, sharing, u32::try_from(cores.len()).unwrap()).unwrap();
        let core = |&(q, role): &(u64, Role)| Core::new(&mut shared, q, UNLIMITED, role, 0).unwrap();
        let cores = cores.iter().map(core).collect();
        Self { shared, cores, period }
    }

    /// Starts the periods, others first or last: the order decides who finds the pool full.
    fn tick(&mut self, now: u64) {
        if now.is_multiple_of(self.period) && now > 0 {
            for core in &mut self.cores {
                core.replenish(&mut self.shared, now);
            }
        }
    }

    fn issue(&mut self, core: usize) {
        if self.cores[core].account(&mut self.shared, Kind::Read, 1) == Verdict::GoAll {
            self.cores.iter_mut().for_each(|c| assert!(c.resume(&mut self.shared) || c.throttled()));
        }
    }
}

/// Stall of one window of core 0, which before it idles for `idle` periods and then uses what it likes until `start`.
fn guarded_window(g: &mut Guarded, latency: u64, program: Program, idle: u64, start: u64, random: &mut Random) -> u64 {
    let mut program = program;
    let work = program.compute + program.accesses * latency;
    let mut bus = Bus::new(g.cores.len(), latency);
    let (eager, before, keen) = (random.below(9), random.below(9), 6 + random.below(3));
    let (mut now, mut opened) = (0, None);
    loop {
        g.tick(now);
        if now >= start && opened.is_none() && !bus.pending[0] {
            opened = Some(now);
        }
        // The others first: they take the pool.
        for c in 1..g.cores.len() {
            if !bus.pending[c] && !g.cores[c].throttled() && random.below(8) < keen {
                bus.pending[c] = true;
                g.issue(c);
            }
        }
        let may = !bus.pending[0] && !g.cores[0].throttled();
        let early = opened.is_none() && now / g.period >= idle && random.below(8) < before;
        if may && (early || opened.is_some() && program.issues(random, eager)) {
            bus.pending[0] = true;
            program.accesses -= u64::from(opened.is_some());
            g.issue(0);
        } else if may && opened.is_some() {
            program.compute -= 1;
        }
        bus.tick();
        now += 1;
        if let Some(opened) = opened.filter(|_| program.is_done(bus.pending[0])) {
            return now - opened - work;
        }
    }
}

#[test]
fn reclaiming_keeps_the_bound_of_hard_cores_and_of_no_others() {
    let mut random = Random::new(31);
    let (mut hard, mut giver, mut beyond) = (Ratio::default(), Ratio::default(), 0);
    for round in 0..6000u64 {
        let gives = round % 2 == 1;
        let (latency, own) = (1 + random.below(2), 1 + random.below(if gives { 12 } else { 6 }));
        let others = 1 + random.below(2);
        let q: Vec<u64> = (0..others).map(|_| 1 + random.below(6)).collect();
        let sum = own + q.iter().sum::<u64>();
        let period = sum * latency + random.below(20);
        let sharing = [Sharing::None, Sharing::Spare, Sharing::Proportional][usize::try_from(random.below(3)).unwrap()];
        let role = Role { hard: !gives, predict: true, reclaim: random.below(2) == 0 };
        let mut all = vec![(own, role)];
        all.extend(q.iter().map(|&q| (q, Role { hard: false, predict: random.below(2) == 0, reclaim: true })));
        let mut g = Guarded::new(period, 1 + random.below(4), sharing, &all);
        let program = Program { compute: 1 + random.below(10), accesses: random.below(30) };
        let idle = if gives { random.below(30) } else { 1 };
        let start = (idle + 1) * period + random.below(period);
        let seen = guarded_window(&mut g, latency, program, idle, start, &mut random);
        let r = Regulation { period_ps: period, latency_ps: latency, cores: u32::try_from(all.len()).unwrap() };
        let core = Reservation { reservation: own, gives, least_use: 0 };
        let bound = reclaim::stall(&r, &core, program.accesses) + reclaim::carry_in(&r, &core);
        assert!(
            seen <= bound,
            "{r:?} {core:?} {sharing:?} {program_accesses}: {seen}, bound {bound}",
            program_accesses = program.accesses
        );
        if gives { &mut giver } else { &mut hard }.add(seen, bound);
        beyond += u32::from(gives && seen > stall(&r, own, program.accesses) + carry_in(&r, own));
    }
    hard.print("hard core under reclaiming");
    giver.print("core that gives");
    println!("cores that give: {beyond} windows beyond the bound of their reservation");
    assert!(beyond > 0);
}
