//! Levels A and B of one core against a simulation in unit steps: a table, rate-monotonic tasks
//! below it, and the kernel's costs at their real places. Accepted systems never miss, and rejected
//! ones without overheads do.

#[path = "support/gedf.rs"]
mod gedf;

use gedf::Draw as Random;
use solocore_analysis::levels::{
    CoreVerdict, Interrupt, Level, LevelsTask, Noise, Overheads, Pets, hyperperiod, level_a,
    level_b, level_b_response, overheads::PreemptionCentric,
};
use std::collections::VecDeque;

fn task(period: u64, a: u64, b: u64) -> LevelsTask {
    LevelsTask { period, pets: Pets { a, b, c: b } }
}

/// Per instant of the hyperperiod, the task of level A that has the slot: by rate, with A-PETs.
/// None if a job does not fit.
fn table(a: &[LevelsTask]) -> Option<Vec<Option<usize>>> {
    let length = hyperperiod(a)?;
    let mut left = vec![0; a.len()];
    let mut slots = Vec::new();
    for now in 0..length {
        for (i, task) in a.iter().enumerate().filter(|(_, task)| now.is_multiple_of(task.period)) {
            if left[i] > 0 {
                return None;
            }
            left[i] = task.pets.a;
        }
        let mut order: Vec<usize> = (0..a.len()).filter(|&i| left[i] > 0).collect();
        order.sort_by_key(|&i| (a[i].period, i));
        slots.push(order.first().copied());
        if let Some(&i) = order.first() {
            left[i] -= 1;
        }
    }
    left.iter().all(|&left| left == 0).then_some(slots)
}

/// Most separate slots of a job of `task`.
fn pieces(slots: &[Option<usize>], task: usize, period: u64) -> u64 {
    let starts = |job: &[Option<usize>]| {
        (0..job.len())
            .filter(|&at| job[at] == Some(task) && (at == 0 || job[at - 1] != Some(task)))
            .count() as u64
    };
    slots.chunks(usize::try_from(period).unwrap()).map(starts).max().unwrap_or(0)
}

#[derive(Clone, Copy, Default)]
struct Job {
    left: u64,
    ready: bool,
    started: bool,
    preempted: bool,
}

/// A core with its events.
struct World<'a> {
    /// A, then B by priority; costs without any overhead.
    tasks: &'a [LevelsTask],
    of_a: usize,
    slots: &'a [Option<usize>],
    overheads: Overheads,
    devices: &'a [Interrupt],
    reload: &'a [u64],
    /// Execution times of this level.
    level: Level,
    /// Do all delays and costs take their largest value?
    worst: bool,
}

impl World<'_> {
    /// The task of level A that has the slot.
    fn slot(&self, now: u64) -> Option<usize> {
        self.slots[usize::try_from(now % self.slots.len() as u64).unwrap()]
    }

    fn delay(&self, random: &mut Random, most: u64) -> u64 {
        if self.worst { most } else { random.within(0, most) }
    }

    /// Is a deadline of a task that `level` guarantees missed before `end`?
    fn misses(&self, random: &mut Random, end: u64) -> bool {
        let mut state = State::new(self, random);
        (0..end).any(|now| {
            let missed = state.releases(self, random, now);
            state.interrupts(self, random, now);
            state.step(self, random, now);
            missed
        })
    }
}

/// Nothing runs.
const IDLE: usize = usize::MAX;
/// A job has just ended: even to idle is a switch.
const ENDED: usize = usize::MAX - 1;

struct State {
    jobs: Vec<Job>,
    due: Vec<u64>,
    /// Handlers in order of arrival: cost, and the task that is ready after it.
    handlers: VecDeque<(u64, Option<usize>)>,
    nominal: Vec<u64>,
    arrival: Vec<u64>,
    section: u64,
    current: usize,
    slot_from: u64,
}

impl State {
    fn new(world: &World, random: &mut Random) -> Self {
        let nominal: Vec<u64> = world
            .devices
            .iter()
            .map(|d| if world.worst { 0 } else { random.below(d.period) })
            .collect();
        let n = world.tasks.len();
        Self {
            jobs: vec![Job::default(); n],
            due: vec![0; n],
            handlers: VecDeque::new(),
            arrival: nominal.clone(),
            nominal,
            section: 0,
            current: IDLE,
            slot_from: 0,
        }
    }

    /// Starts the periods that begin now; true if a guaranteed job of the last one was not done.
    fn releases(&mut self, world: &World, random: &mut Random, now: u64) -> bool {
        let mut missed = false;
        for (i, task) in world.tasks.iter().enumerate() {
            if now.is_multiple_of(task.period) {
                missed |= self.jobs[i].left > 0 && (world.level == Level::B || i < world.of_a);
                let cost = task.pets.at(world.level);
                let left = if world.worst { cost } else { cost - random.within(0, cost / 4) };
                self.jobs[i] = Job { left, ..Job::default() };
                self.due[i] = now + world.delay(random, world.overheads.latency);
                if self.current == i {
                    self.current = ENDED;
                }
            }
            if self.due[i] == now {
                self.handlers.push_back((world.overheads.release, Some(i)));
            }
        }
        missed
    }

    fn interrupts(&mut self, world: &World, random: &mut Random, now: u64) {
        let o = world.overheads;
        for (k, device) in world.devices.iter().enumerate() {
            while self.arrival[k] <= now {
                self.handlers.push_back((device.cost, None));
                let spread = if world.worst || random.below(2) == 0 { 0 } else { random.below(9) };
                self.nominal[k] += device.period + spread;
                let late =
                    if world.worst { 0 } else { random.within(0, device.jitter + o.latency) };
                self.arrival[k] = (self.nominal[k] + late).max(self.arrival[k]);
            }
        }
        if o.quantum > 0 && now.is_multiple_of(o.quantum) {
            self.handlers.push_back((o.tick, None));
        }
    }

    /// Ends the handler at the head if its work is done.
    fn end_handlers(&mut self) {
        while self.handlers.front().is_some_and(|handler| handler.0 == 0) {
            if let Some((_, Some(i))) = self.handlers.pop_front() {
                self.jobs[i].ready = true;
            }
        }
    }

    /// The task to run: the task of the slot, else the first of level B.
    fn choice(&self, world: &World, now: u64) -> usize {
        let pending = |&i: &usize| self.jobs[i].ready && self.jobs[i].left > 0;
        let slot = world.slot(now).filter(|_| now >= self.slot_from).filter(pending);
        slot.or_else(|| (world.of_a..self.jobs.len()).find(pending)).unwrap_or(IDLE)
    }

    fn switch_to(&mut self, world: &World, chosen: usize) {
        if let Some(old) = self.jobs.get_mut(self.current) {
            old.preempted |= old.left > 0 && old.started;
        }
        if let Some(new) = self.jobs.get_mut(chosen).filter(|new| new.preempted) {
            new.preempted = false;
            new.left += world.reload[chosen];
        }
        self.current = chosen;
        self.section = world.overheads.schedule + world.overheads.switch;
    }

    /// One unit of time of the core: a section of the scheduler, else a handler, else a job.
    fn step(&mut self, world: &World, random: &mut Random, now: u64) {
        let slot = world.slot(now);
        if slot.is_some() && (now == 0 || world.slot(now - 1) != slot) {
            self.slot_from = now + world.delay(random, world.overheads.latency);
        }
        if self.section == 0 {
            self.end_handlers();
            if let Some(handler) = self.handlers.front_mut() {
                handler.0 -= 1;
                self.end_handlers();
                return;
            }
            let chosen = self.choice(world, now);
            if chosen != self.current {
                self.switch_to(world, chosen);
            }
        }
        if self.section > 0 {
            self.section -= 1;
        } else if let Some(job) = self.jobs.get_mut(self.current) {
            job.left -= 1;
            job.started = true;
            if job.left == 0 {
                self.current = ENDED;
            }
        }
    }
}

/// A core of at most five tasks with full or nearly full demand, and its reload times.
fn draw(random: &mut Random) -> (Vec<LevelsTask>, Vec<LevelsTask>) {
    let base = 6 * (random.below(12) + 3);
    let mut period = base;
    let mut of_level = |random: &mut Random, most: u64| {
        let mut tasks = Vec::new();
        for _ in 0..random.below(most) + 1 {
            let b = random.below(period / 4) + 1;
            tasks.push(task(period, b + random.within(0, b / 2), b));
            period *= random.below(2) + 1;
        }
        tasks
    };
    let a = of_level(random, 2);
    let b = of_level(random, 3);
    (a, b)
}

/// The largest cost of the last task of level B with which the core is accepted.
fn fill(b: &[LevelsTask], accepted: impl Fn(&[LevelsTask]) -> bool) -> Option<Vec<LevelsTask>> {
    let with = |cost: u64| {
        let mut b = b.to_vec();
        if let Some(last) = b.last_mut() {
            *last = task(last.period, cost, cost);
        }
        b
    };
    let top = b.last()?.period;
    (1..=top).rev().map(with).find(|b| accepted(b))
}

fn both(a: &[LevelsTask], b: &[LevelsTask]) -> Vec<LevelsTask> {
    a.iter().chain(b).copied().collect()
}

#[test]
fn without_overheads_the_test_of_level_b_is_exact() {
    let mut random = Random(1);
    let (mut full, mut rejected) = (0, 0);
    for _ in 0..3_000 {
        let (a, b) = draw(&mut random);
        let Some(slots) = table(&a) else {
            assert_ne!(level_a(&a), CoreVerdict::Schedulable);
            continue;
        };
        assert_eq!(level_a(&a), CoreVerdict::Schedulable);
        let passes =
            |b: &[LevelsTask]| level_b(&a, b, &Noise::default()) == CoreVerdict::Schedulable;
        let Some(b) = fill(&b, passes) else { continue };
        let end = 2 * b.last().unwrap().period;
        let run = |b: &[LevelsTask], worst: bool, random: &mut Random| {
            let tasks = both(&a, b);
            let reload = vec![0; tasks.len()];
            let overheads = Overheads::default();
            let level = Level::B;
            World {
                tasks: &tasks,
                of_a: a.len(),
                slots: &slots,
                overheads,
                devices: &[],
                reload: &reload,
                level,
                worst,
            }
            .misses(random, end + 1)
        };
        assert!(!run(&b, true, &mut random), "{a:?} {b:?}");
        assert!(!run(&b, false, &mut random), "{a:?} {b:?}");
        full += 1;
        let mut more = b.clone();
        more.last_mut().unwrap().pets.b += 1;
        assert!(!passes(&more));
        assert!(run(&more, true, &mut random), "rejected but schedulable: {a:?} {more:?}");
        rejected += 1;
    }
    assert!(full > 1_000 && rejected > 1_000, "{full} {rejected}");
}

/// A core with the kernel's costs charged as in the module.
struct Charged {
    a: Vec<LevelsTask>,
    slots: Vec<Option<usize>>,
    below: u64,
}

/// Slots for level A with up to as many pieces as the table then has. None if there is no table.
fn charge_table(
    a: &[LevelsTask],
    own: &[u64],
    below: u64,
    o: &Overheads,
    noise: &Noise,
) -> Option<Charged> {
    let mut most = vec![1; a.len()];
    loop {
        let charged: Vec<LevelsTask> = a
            .iter()
            .enumerate()
            .map(|(i, t)| o.table_driven(t, most[i], own[i], below, noise))
            .collect::<Option<_>>()?;
        if level_a(&charged) != CoreVerdict::Schedulable {
            return None;
        }
        let slots = table(&charged).expect("level A holds");
        let have: Vec<u64> =
            charged.iter().enumerate().map(|(i, t)| pieces(&slots, i, t.period)).collect();
        if have.iter().zip(&most).all(|(have, most)| have <= most) {
            return Some(Charged { a: charged, slots, below });
        }
        most = have.iter().zip(&most).map(|(have, most)| *have.max(most)).collect();
    }
}

#[test]
fn with_overheads_accepted_cores_never_miss() {
    let mut random = Random(2);
    let mut accepted = 0;
    for _ in 0..15_000 {
        let (a, b) = draw(&mut random);
        let o = Overheads {
            release: random.below(3),
            schedule: random.below(2),
            switch: random.below(2),
            ipi: 0,
            tick: random.below(2),
            quantum: random.below(2) * 12,
            latency: random.below(3),
        };
        let devices: Vec<Interrupt> = (0..random.below(3))
            .map(|_| Interrupt {
                cost: random.below(2) + 1,
                period: random.below(60) + 8,
                jitter: random.below(6),
            })
            .collect();
        let sources = o.sources(&devices, a.iter().chain(&b)).unwrap();
        let noise = Noise { interrupts: &sources, blocking: o.blocking().unwrap() };
        let reload: Vec<u64> = (0..a.len() + b.len()).map(|_| random.below(4)).collect();
        let below = reload[a.len()..].iter().copied().max().unwrap_or(0);
        let Some(Charged { a: charged_a, slots, below }) =
            charge_table(&a, &reload, below, &o, &noise)
        else {
            continue;
        };
        assert!(below < 4);
        let passes = |b: &[LevelsTask]| {
            let charged: Vec<LevelsTask> = b
                .iter()
                .enumerate()
                .map(|(i, t)| {
                    o.partitioned(
                        t,
                        1,
                        reload[a.len() + i + 1..].iter().copied().max().unwrap_or(0),
                    )
                    .unwrap()
                })
                .collect();
            level_b(&charged_a, &charged, &noise) == CoreVerdict::Schedulable
        };
        let Some(b) = fill(&b, passes) else { continue };
        accepted += 1;
        let tasks = both(&a, &b);
        let end = 2 * b.last().unwrap().period;
        for level in [Level::A, Level::B] {
            for worst in [true, false, false] {
                let (of_a, reload) = (a.len(), reload.as_slice());
                let (tasks, slots, devices) =
                    (tasks.as_slice(), slots.as_slice(), devices.as_slice());
                let world =
                    World { tasks, of_a, slots, overheads: o, devices, reload, level, worst };
                assert!(
                    !world.misses(&mut random, end + 1),
                    "{level:?} {o:?} {devices:?} {reload:?} {a:?} {b:?}"
                );
            }
        }
    }
    assert!(accepted > 500, "{accepted}");
}

/// Interrupt work that arrives at each instant.
fn arriving(random: &mut Random, sources: &[Interrupt], length: u64) -> Vec<u64> {
    let mut arriving = vec![0; index(length)];
    for source in sources {
        let mut nominal = random.below(source.period);
        let mut late = source.jitter;
        while nominal < length {
            // One late handler, with the rest in time, is the worst for those after it.
            arriving[index((nominal + late).min(length - 1))] += source.cost;
            late = if random.below(4) == 0 { random.within(0, source.jitter) } else { 0 };
            nominal += source.period + random.below(5) / 4;
        }
    }
    arriving
}

/// Handlers in order of arrival, and the largest execution of them in any interval.
#[test]
fn no_interval_executes_more_interrupts_than_counted() {
    let mut random = Random(4);
    let mut reached = 0;
    for _ in 0..3_000 {
        let sources: Vec<Interrupt> = (0..random.below(3) + 1)
            .map(|_| Interrupt {
                cost: random.below(5) + 1,
                period: random.below(12) + 6,
                jitter: random.below(8),
            })
            .collect();
        let length = 160;
        let mut backlog = 0;
        let executed: Vec<u64> = arriving(&mut random, &sources, length)
            .iter()
            .map(|work| {
                backlog += work;
                let one = u64::from(backlog > 0);
                backlog -= one;
                one
            })
            .collect();
        let noise = Noise { interrupts: &sources, blocking: 0 };
        for window in 1..40 {
            let worst =
                executed.windows(window).map(|span| span.iter().sum::<u64>()).max().unwrap();
            let bound = noise.within(window as u64).unwrap();
            assert!(worst <= bound, "{worst} > {bound} in {window}: {sources:?}");
            reached += u32::from(worst == bound);
        }
    }
    assert!(reached > 1_000, "{reached}");
}

/// A job that runs in pieces, at any times, under interrupts: with the pieces counted, its
/// CPU time is covered.
#[test]
fn preemption_centric_charges_cover_jobs_in_pieces() {
    let mut random = Random(5);
    let (mut covered, mut nearest) = (0, 0.0f64);
    for _ in 0..20_000 {
        let sources: Vec<Interrupt> = (0..random.below(3) + 1)
            .map(|_| Interrupt {
                cost: random.below(8) + 1,
                period: random.below(40) + 12,
                jitter: random.below(60),
            })
            .collect();
        let Some(accounting) = PreemptionCentric::new(&sources) else { continue };
        let arriving = arriving(&mut random, &sources, 400);
        let (mut backlog, mut left, mut taken) = (0, random.below(12) + 1, 0);
        let (cost, mut pieces, mut here) = (left, 0, false);
        let likely = random.below(20) + 1;
        for work in arriving {
            backlog += work;
            // Preempted or resumed at random; the piece has the interrupts that come during it.
            if random.below(likely) == 0 {
                here = !here;
                pieces += u64::from(here);
            }
            taken += u64::from(here);
            if backlog > 0 {
                backlog -= 1;
            } else if here {
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        if left == 0 {
            let bound = accounting.charge(cost, pieces).unwrap();
            assert!(taken <= bound, "{taken} > {bound}: {sources:?}, {cost} in {pieces}");
            covered += 1;
            nearest = nearest.max(taken as f64 / bound as f64);
        }
    }
    assert!(covered > 3_000 && nearest > 0.8, "{covered} {nearest}");
}

fn index(time: u64) -> usize {
    usize::try_from(time).unwrap()
}

/// Times at which a job of level A may run: anywhere in its period. The table puts it early and
/// late by turns.
fn scattered(random: &mut Random, a: &[LevelsTask], length: u64) -> Vec<bool> {
    let mut busy = vec![false; usize::try_from(length).unwrap()];
    for task in a {
        for start in (0..length).step_by(usize::try_from(task.period).unwrap()) {
            let window =
                usize::try_from(start).unwrap()..usize::try_from(start + task.period).unwrap();
            let mut free: Vec<usize> = window.filter(|&at| !busy[at]).collect();
            match random.below(3) {
                0 => {}
                1 => free.reverse(),
                _ => (1..free.len()).rev().for_each(|i| {
                    free.swap(i, usize::try_from(random.within(0, i as u64)).unwrap())
                }),
            }
            free.iter().take(usize::try_from(task.pets.b).unwrap()).for_each(|&at| busy[at] = true);
        }
    }
    busy
}

#[test]
fn responses_hold_under_any_table_and_sporadic_releases() {
    let mut random = Random(3);
    let (mut bounded, mut reached) = (0, 0);
    for _ in 0..4_000 {
        let base = random.below(20) + 6;
        let a: Vec<LevelsTask> = (0..random.below(2) + 1)
            .map(|k| {
                let cost = random.below(base / 3) + 1;
                task(base << k, cost, cost)
            })
            .collect();
        let b: Vec<LevelsTask> = (0..random.below(3) + 1)
            .map(|_| {
                let cost = random.below(8) + 1;
                task(random.below(60) + 12, cost, cost)
            })
            .collect();
        let bounds: Vec<Option<u64>> =
            (0..b.len()).map(|i| level_b_response(&a, &b, i, &Noise::default())).collect();
        let length = base * 2 * 12;
        let busy = scattered(&mut random, &a, length);
        let mut worst = vec![0; b.len()];
        let mut queue: Vec<VecDeque<(u64, u64)>> = vec![VecDeque::new(); b.len()];
        let mut next: Vec<u64> = b.iter().map(|_| random.below(base)).collect();
        for now in 0..length {
            for i in 0..b.len() {
                if next[i] == now {
                    queue[i].push_back((now, b[i].pets.b));
                    next[i] = now + b[i].period + random.below(2) * random.below(9);
                }
            }
            let first = queue.iter().position(|jobs| !jobs.is_empty());
            if let Some(i) = first.filter(|_| !busy[usize::try_from(now).unwrap()]) {
                let job = queue[i].front_mut().unwrap();
                job.1 -= 1;
                if job.1 == 0 {
                    worst[i] = worst[i].max(now + 1 - job.0);
                    queue[i].pop_front();
                }
            }
        }
        for (i, bound) in bounds.iter().enumerate() {
            if let Some(bound) = bound {
                assert!(worst[i] <= *bound, "task {i}: {} > {bound}: {a:?} {b:?}", worst[i]);
                bounded += 1;
                reached += u32::from(worst[i] == *bound);
            }
        }
    }
    assert!(bounded > 3_000 && reached > 10, "{bounded} {reached}");
}
