//! The DRAM model under adversarial and random traffic, against the bounds of `memory::latency`.
//!
//! Problem: the bounds are derived by hand from the decisions of the controller of crates/dram.
//! Rule: cores with a given number of outstanding reads send the most harmful requests (row hits in
//! the victim's bank just before it closes, other banks and ranks, conflicts), with many seeds,
//! mixes and think times. No read of any core may take longer than the bound for its contention.

use solocore_analysis::memory::latency::{
    Contention, Controller, Dram, delay_per_access, job_time, read_latency, solo_latency, window,
    with_arrivals,
};
use solocore_analysis::memory::latency_explained::{explain, explain_arrivals, explain_job};
use solocore_dram::random::Random;
use solocore_dram::{Completion, Memory, Options, PRESETS, Request, Spec};
use solocore_planner::memory::timings;

fn spec(name: &str, ranks: u32) -> Spec {
    let mut spec = Spec::find(name).unwrap();
    spec.organisation.ranks = ranks;
    spec.organisation.channels = 1;
    spec.check().unwrap();
    spec
}

/// Addresses by bank, row and column, found through the memory's own map.
struct Places {
    /// By bank of the channel: an address in it, row 0.
    base: Vec<u64>,
    row_step: u64,
    line: u64,
    lines: u64,
}

impl Places {
    fn new(spec: &Spec, memory: &Memory) -> Self {
        let o = &spec.organisation;
        let mut base = vec![None; o.channel_banks() as usize];
        let line = o.line_bytes();
        let row_step = line * u64::from(o.lines_per_row()) * u64::from(o.channel_banks());
        for address in (0..row_step).step_by(usize::try_from(line).unwrap()) {
            let place = memory.place(address);
            if place.column == 0 && place.row == 0 {
                base[place.bank as usize].get_or_insert(address);
            }
        }
        let base: Vec<u64> = base.into_iter().map(|a| a.expect("row 0 has every bank")).collect();
        let places = Self { base, row_step, line, lines: u64::from(o.lines_per_row()) };
        let there = memory.place(places.address(1, 5, 3));
        assert_eq!((there.bank, there.row, there.column), (1, 5, 3));
        places
    }

    fn address(&self, bank: usize, row: u64, column: u64) -> u64 {
        self.base[bank] + row * self.row_step + column % self.lines * self.line
    }
}

/// A core's choice of its next read.
#[derive(Clone, Copy, Debug)]
struct Habit {
    /// Its banks: the first of them, and their number.
    bank: usize,
    banks: u64,
    /// Chance, in eighths, that it stays in a row.
    hits: u64,
    /// Number of rows that it chooses from.
    rows: u64,
    outstanding: u64,
    /// Most cycles from an answer to the next request.
    think: u64,
    /// Chance, in eighths, that it writes.
    writes: u64,
}

struct RandomCore {
    habit: Habit,
    row: u64,
    column: u64,
    /// Cycles at which free places send.
    ready: Vec<u64>,
}

impl RandomCore {
    fn next(&mut self, places: &Places, random: &mut Random) -> (u64, bool) {
        let h = &self.habit;
        if random.below(8) >= h.hits {
            self.row = random.below(h.rows);
        }
        self.column += 1;
        let bank = h.bank + usize::try_from(random.below(h.banks)).unwrap();
        (places.address(bank, self.row, self.column), random.below(8) < h.writes)
    }
}

/// Runs the cores; returns the longest latency of a read of each.
fn run(
    spec: &Spec,
    cap: Option<u32>,
    habits: &[Habit],
    cycles: u64,
    random: &mut Random,
) -> Vec<u64> {
    let mut worst = vec![0; habits.len()];
    for c in record(spec, cap, habits, None, cycles, random).iter().filter(|c| !c.write) {
        let seen = &mut worst[usize::from(c.core)];
        *seen = (c.at - c.arrived).max(*seen);
    }
    worst
}

/// Limit on the requests of all cores but the first in each period.
#[derive(Clone, Copy)]
struct Regulator {
    budget: u64,
    period: u64,
}

/// Runs the cores and returns all answers.
fn record(
    spec: &Spec,
    cap: Option<u32>,
    habits: &[Habit],
    regulator: Option<Regulator>,
    cycles: u64,
    random: &mut Random,
) -> Vec<Completion> {
    let cores = u16::try_from(habits.len()).unwrap();
    let mut memory = Memory::new(spec, Options { row_hit_cap: cap, cores }).unwrap();
    let places = Places::new(spec, &memory);
    let start = |habit: &Habit| RandomCore {
        habit: *habit,
        row: 0,
        column: 0,
        ready: vec![0; usize::try_from(habit.outstanding).unwrap()],
    };
    let mut cores: Vec<RandomCore> = habits.iter().map(start).collect();
    let (mut all, mut out): (Vec<Completion>, Vec<Completion>) = (Vec::new(), Vec::new());
    let (mut now, mut period, mut left) = (0, 0, u64::MAX);
    while now < cycles {
        if let Some(r) = regulator.filter(|r| now / r.period >= period) {
            (left, period) = (r.budget, now / r.period + 1);
        }
        for (number, core) in cores.iter_mut().enumerate() {
            while let Some(at) = core.ready.iter().position(|&r| r <= now) {
                if number > 0 && left == 0 {
                    break;
                }
                let (address, write) = core.next(&places, random);
                let request =
                    Request { address, write, core: u16::try_from(number).unwrap(), tag: 0 };
                if !memory.enqueue(now, request) {
                    assert!(write, "at most 40 reads are never refused");
                    break;
                }
                left -= u64::from(number > 0);
                core.ready.swap_remove(at);
            }
        }
        let next = cores
            .iter()
            .flat_map(|c| &c.ready)
            .copied()
            .filter(|&r| r > now)
            .min()
            .unwrap_or(u64::MAX);
        let event = memory.next_event().unwrap_or(u64::MAX);
        let tick = regulator.map_or(u64::MAX, |r| period * r.period);
        now = next.min(event).min(tick).max(now + 1).min(cycles);
        out.clear();
        memory.advance_to(now, &mut out);
        for c in &out {
            let core = &mut cores[usize::from(c.core)];
            let think = if core.habit.think == 0 { 0 } else { random.below(core.habit.think + 1) };
            core.ready.push(c.at + think);
        }
        all.extend_from_slice(&out);
    }
    all
}

/// A victim with random rows in bank 0, and attackers.
fn habits(
    random: &mut Random,
    cores: u64,
    banks: u64,
    private: bool,
    reads_only: bool,
) -> Vec<Habit> {
    let one = |i: u64, random: &mut Random| {
        let outstanding = if i == 0 || random.below(2) == 0 { 1 } else { 1 + random.below(3) };
        let (bank, span) = match (private, i, random.below(3)) {
            // The victim keeps bank 0; the others take the rest of both ranks.
            (true, 0, _) => (0, 1),
            (true, _, 0) => (1 + random.below(banks - 1), 1),
            (true, _, _) => (1, banks - 1),
            (false, 0, _) | (false, _, 0) => (0, 1),
            (false, _, 1) => (random.below(banks), 1),
            (false, _, _) => (0, banks),
        };
        Habit {
            bank: usize::try_from(bank).unwrap(),
            banks: span,
            hits: if i == 0 { 0 } else { [8, 7, 4, 0][usize::try_from(random.below(4)).unwrap()] },
            rows: 1 + random.below(64),
            outstanding,
            think: [0, 0, 1, 5, 40][usize::try_from(random.below(5)).unwrap()],
            writes: if reads_only { 0 } else { random.below(9) },
        }
    };
    (0..cores).map(|i| one(i, random)).collect()
}

#[derive(Default)]
struct Ratio {
    best: f64,
    bound: u64,
    seen: u64,
}

impl Ratio {
    fn add(&mut self, seen: u64, bound: u64) {
        let ratio = seen as f64 / bound as f64;
        if ratio > self.best {
            (self.best, self.bound, self.seen) = (ratio, bound, seen);
        }
    }
}

fn attack_reads(name: &str, ranks: u32, private: bool, seeds: u64) {
    let spec = spec(name, ranks);
    let dram = timings(&spec);
    let banks = u64::from(spec.organisation.channel_banks());
    let mut ratios: Vec<Ratio> = Vec::new();
    ratios.resize_with(9, Ratio::default);
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let cores = 1 + seed % 8;
        let cap = [4, 4, 1, 0][usize::try_from(random.below(4)).unwrap()];
        let habits = habits(&mut random, cores, banks, private, true);
        let worst = run(&spec, Some(cap), &habits, 12_000 + dram.refi * 2, &mut random);
        let others: u64 = habits[1..].iter().map(|h| h.outstanding).sum();
        let contention = Contention { others, same_bank: if private { 0 } else { others } };
        let controller = Controller { hit_cap: Some(cap.into()), ..Controller::default() };
        let bound = read_latency(&dram, &controller, &contention).unwrap();
        assert!(
            worst[0] <= bound,
            "{name} x{ranks} seed {seed}: {} cycles, bound {bound}, {habits:?}",
            worst[0]
        );
        ratios[usize::try_from(others.min(8)).unwrap()].add(worst[0], bound);
    }
    let ns = |c: u64| c as f64 * dram.clock_ps as f64 / 1000.0;
    for (others, r) in ratios.iter().enumerate().filter(|(_, r)| r.bound > 0) {
        let kind = if private { "private" } else { "shared" };
        println!(
            "{name} x{ranks} {kind}: {others} others, seen {:.0} ns, bound {:.0} ns, {:.2}",
            ns(r.seen),
            ns(r.bound),
            r.best
        );
    }
}

#[test]
fn private_banks() {
    for (name, _) in PRESETS {
        for ranks in [1, 2] {
            attack_reads(name, ranks, true, 300);
        }
    }
}

#[test]
fn shared_banks() {
    for (name, _) in PRESETS {
        for ranks in [1, 2] {
            attack_reads(name, ranks, false, 300);
        }
    }
}

/// A core alone: the bound is the cost of its own row conflicts and refreshes.
#[test]
fn alone() {
    let spec = spec("ddr3-1333", 1);
    let (dram, controller) = (timings(&spec), Controller::default());
    let none = Contention { others: 0, same_bank: 0 };
    let solo = solo_latency(&dram, &controller).unwrap();
    let bound = read_latency(&dram, &controller, &none).unwrap();
    let habit = Habit { bank: 0, banks: 1, hits: 0, rows: 64, outstanding: 1, think: 7, writes: 0 };
    let worst = run(&spec, Some(4), &[habit], 400_000, &mut Random::new(3))[0];
    println!("alone: without refresh {solo}, bound {bound}, seen {worst} cycles");
    assert!(worst <= bound && bound < worst + worst / 3);
}

/// By count, with writes, drains and any cap: each read of the victim, and all of them together.
#[test]
fn what_others_are_served_bounds_any_read() {
    let controller = Controller::default();
    for (name, _) in PRESETS {
        let mut best = Ratio::default();
        for seed in 0..120 {
            let mut random = Random::new(seed);
            let spec = spec(name, 1 + u32::try_from(seed % 2).unwrap());
            let dram = timings(&spec);
            let banks = u64::from(spec.organisation.channel_banks());
            let mut habits = habits(&mut random, 2 + seed % 6, banks, seed % 3 == 0, false);
            (habits[0].writes, habits[0].think) = (0, 0);
            habits.iter_mut().skip(1).for_each(|h| h.outstanding = 1 + random.below(16));
            habits.iter_mut().skip(1).filter(|h| h.outstanding > 5).for_each(|h| h.writes = 8);
            let cap = [None, Some(0), Some(4)][usize::try_from(random.below(3)).unwrap()];
            let answers = record(&spec, cap, &habits, None, 12_000 + dram.refi, &mut random);
            // Forwarded and merged requests have no column command and are answered in two cycles.
            let column = |c: &&Completion| c.core != 0 && c.at - c.arrived > 2;
            let end =
                |c: &Completion| c.at - 1 - dram.burst - if c.write { dram.cwl } else { dram.cl };
            let mut columns: Vec<u64> = answers.iter().filter(column).map(end).collect();
            columns.sort_unstable();
            let between = |from: u64, to: u64| {
                (columns.partition_point(|&c| c < to) - columns.partition_point(|&c| c < from))
                    as u64
            };
            let reads: Vec<&Completion> = answers.iter().filter(|c| c.core == 0).collect();
            for c in &reads {
                let bound = window(&dram, &controller, 1, between(c.arrived, c.at)).unwrap();
                assert!(
                    c.at - c.arrived <= bound,
                    "{name} {seed}: {} cycles, bound {bound}",
                    c.at - c.arrived
                );
                best.add(c.at - c.arrived, bound);
            }
            let total: u64 = reads.iter().map(|c| c.at - c.arrived).sum();
            let last = reads.last().map_or(0, |c| c.at);
            let own = reads.len() as u64;
            assert!(
                total <= window(&dram, &controller, own, between(0, last)).unwrap(),
                "{name} {seed}"
            );
        }
        println!(
            "{name} by count: seen {} cycles, bound {}, {:.2}",
            best.seen, best.bound, best.best
        );
    }
}

/// Writers held to a budget per period: drains end, and reads among them have a bound.
#[test]
fn regulated_writers() {
    let spec = spec("ddr3-1333", 1);
    let (dram, controller) = (timings(&spec), Controller::default());
    let mut best = Ratio::default();
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let regulator = Regulator { budget: 4 + random.below(30), period: 6000 };
        let mut habits = habits(&mut random, 5, 8, seed % 2 == 0, true);
        (habits[0].outstanding, habits[0].writes) = (1, 0);
        habits.iter_mut().skip(1).for_each(|h| (h.outstanding, h.writes) = (12, 7));
        let answers = record(&spec, Some(4), &habits, Some(regulator), 60_000, &mut random);
        // At most 48 are outstanding.
        let bound =
            with_arrivals(&dram, &controller, 48, regulator.budget, regulator.period).unwrap();
        for c in answers.iter().filter(|c| c.core == 0) {
            assert!(
                c.at - c.arrived <= bound,
                "{seed}: {} cycles, bound {bound}",
                c.at - c.arrived
            );
            best.add(c.at - c.arrived, bound);
        }
    }
    println!(
        "regulated writers: seen {} cycles, bound {}, {:.2}",
        best.seen, best.bound, best.best
    );
    assert_eq!(with_arrivals(&dram, &controller, 0, 1000, 1000), None);
}

#[test]
fn more_contention_never_lowers_the_bound_and_nothing_overflows() {
    let controller = Controller::default();
    for (name, _) in PRESETS {
        for ranks in [1, 2, 4] {
            let dram = Dram { ranks, ..timings(&spec(name, 1)) };
            let mut last = 0;
            for others in 0..20 {
                let private =
                    read_latency(&dram, &controller, &Contention { others, same_bank: 0 }).unwrap();
                let shared =
                    read_latency(&dram, &controller, &Contention { others, same_bank: others })
                        .unwrap();
                assert!(last <= private && private <= shared, "{name} {others}");
                last = private;
            }
            let open = Controller { hit_cap: None, ..controller };
            assert_eq!(read_latency(&dram, &open, &Contention { others: 1, same_bank: 1 }), None);
        }
    }
    let dram = timings(&spec("ddr4-2400", 1));
    let huge = Contention { others: u64::MAX, same_bank: u64::MAX };
    assert_eq!(read_latency(&dram, &controller, &huge), None);
    let wide = Controller {
        hit_cap: Some(u64::MAX),
        rank_turn: u64::MAX,
        way_in: u64::MAX,
        way_out: u64::MAX,
    };
    assert_eq!(
        read_latency(&Dram { ranks: 3, ..dram }, &wide, &Contention { others: 9, same_bank: 9 }),
        None
    );
    assert_eq!(
        read_latency(
            &Dram { refi: 0, ..dram },
            &controller,
            &Contention { others: 0, same_bank: 0 }
        ),
        None
    );
    assert_eq!(
        read_latency(
            &Dram { refi: 1, ..dram },
            &controller,
            &Contention { others: 0, same_bank: 0 }
        ),
        None
    );
    assert_eq!(window(&dram, &wide, u64::MAX, u64::MAX), None);
    let text = explain(&dram, &controller, &Contention { others: 3, same_bank: 3 }).to_string();
    assert!(text.contains("first delay of ACT") && !text.contains("no bound"), "{text}");
    let text =
        explain_job(&dram, &controller, &Contention { others: 3, same_bank: 0 }, 10, 50, 10_000)
            .to_string();
    assert!(text.contains("delay per access") && !text.contains("no bound"), "{text}");
    assert!(explain_arrivals(&dram, &controller, 64, 1000, 1000).to_string().contains("no bound"));
}

/// Jobs with pauses: all their waiting together, under reads of others, with and without a cap.
#[test]
fn jobs_with_pauses() {
    let controller = Controller::default();
    for (name, _) in PRESETS {
        let (mut by_request, mut by_count, mut best) = (0u32, 0u32, Ratio::default());
        for seed in 0..160 {
            let mut random = Random::new(seed);
            let (spec, private) =
                (spec(name, 1 + u32::try_from(seed / 2 % 2).unwrap()), seed % 2 == 0);
            let dram = timings(&spec);
            let banks = u64::from(spec.organisation.channel_banks());
            let mut habits = habits(&mut random, 2 + seed % 4, banks, private, true);
            habits[0].think = random.below(300);
            habits[1..].iter_mut().for_each(|h| h.think = random.below(2) * random.below(2000));
            let cap = if seed % 5 == 0 { None } else { Some(4) };
            let span = 20_000;
            let answers = record(&spec, cap, &habits, None, span, &mut random);
            let others: u64 = habits[1..].iter().map(|h| h.outstanding).sum();
            let contention = Contention { others, same_bank: if private { 0 } else { others } };
            let own: Vec<&Completion> = answers.iter().filter(|c| c.core == 0).collect();
            let served = answers.len() as u64 - own.len() as u64 + others;
            let (reads, waited) =
                (own.len() as u64, own.iter().map(|c| c.at - c.arrived).sum::<u64>());
            let controller = Controller { hit_cap: cap.map(u64::from), ..controller };
            let bound = job_time(&dram, &controller, &contention, reads, served, span).unwrap();
            assert!(waited <= bound, "{name} {seed}: {waited}, bound {bound}");
            best.add(waited, bound);
            let all = read_latency(&dram, &controller, &contention).map_or(u64::MAX, |l| l * reads);
            if bound < all { by_count += 1 } else { by_request += 1 }
        }
        let (near, far) = (timings(&spec(name, 1)), |same| {
            delay_per_access(&timings(&spec(name, 1)), same).unwrap()
        });
        println!(
            "{name}: jobs bound {by_request} times by request, {by_count} by count, largest ratio \
                {:.2}; L private {} shared {} ps",
            best.best,
            near.to_ps(far(false)).unwrap(),
            near.to_ps(far(true)).unwrap()
        );
        assert!(by_count > 0);
    }
}

/// Each read of the victim alone, by the count of the others' requests that are served meanwhile:
/// private and shared banks.
#[test]
fn one_access_delays_by_no_more_than_its_share() {
    for (name, _) in PRESETS {
        let mut best = [Ratio::default(), Ratio::default()];
        for seed in 0..160 {
            let mut random = Random::new(seed);
            let (spec, private) =
                (spec(name, 1 + u32::try_from(seed / 2 % 2).unwrap()), seed % 2 == 0);
            let dram = timings(&spec);
            let banks = u64::from(spec.organisation.channel_banks());
            let habits = habits(&mut random, 2 + seed % 7, banks, private, true);
            let cap = if seed % 5 == 0 { None } else { Some(4) };
            let controller = Controller { hit_cap: cap.map(u64::from), ..Controller::default() };
            let answers = record(&spec, cap, &habits, None, 20_000, &mut random);
            let others: u64 = habits[1..].iter().map(|h| h.outstanding).sum();
            let column = |c: &Completion| c.at - 1 - dram.burst - dram.cl;
            let mut columns: Vec<u64> =
                answers.iter().filter(|c| c.core != 0).map(column).collect();
            columns.sort_unstable();
            for c in answers.iter().filter(|c| c.core == 0) {
                let end = columns.partition_point(|&x| x < c.at);
                let begin = columns.partition_point(|&x| x + dram.faw + dram.ras < c.arrived);
                let contention = Contention { others, same_bank: u64::from(!private) };
                let count = (end - begin) as u64 + others;
                let open = Controller { hit_cap: None, rank_turn: 1, ..controller };
                let none = Dram { ranks: dram.ranks.max(2), ..dram };
                // Several ranks without a cap have no bound by request: only the count remains.
                let bound =
                    job_time(&none, &open, &contention, 1, count, c.at - c.arrived).unwrap();
                assert!(
                    c.at - c.arrived <= bound,
                    "{name} {seed}: {}, bound {bound}",
                    c.at - c.arrived
                );
                best[usize::from(private)].add(c.at - c.arrived, bound);
            }
        }
        println!(
            "{name} one read by count: largest ratio shared {:.2}, private {:.2}",
            best[0].best, best[1].best
        );
    }
}

/// Reads of other banks pass a write whose row is open, and a drain goes on while writes arrive.
/// Both take turns, so a read behind them waits for one drain of 32 writes, each with a row cycle
/// and a turn of 16 reads, and for the writes' own reads. (Without the turns it waited for 192,389
/// cycles.)
#[test]
fn writes_do_not_starve_reads() {
    let spec = spec("ddr3-1333", 1);
    let dram = timings(&spec);
    let write = dram.ras + dram.rp + 16 * dram.ccd_l + 2 * (dram.cl + dram.burst + dram.rcd);
    let reader = |bank: usize| Habit {
        bank,
        banks: 1,
        hits: 8,
        rows: 1,
        outstanding: 1,
        think: 0,
        writes: 0,
    };
    let victim = Habit { hits: 0, rows: 64, ..reader(0) };
    let mut longest = 0;
    for (seed, outstanding, rows) in [(2, 45, 64), (3, 45, 1), (4, 20, 64), (5, 100, 8)] {
        let writer =
            Habit { hits: 8 * u64::from(rows == 1), rows, outstanding, writes: 8, ..reader(0) };
        let habits = [victim, writer, reader(1), reader(2), reader(3), reader(4), reader(5)];
        let worst = run(&spec, Some(4), &habits, 2_000_000, &mut Random::new(seed))[0];
        println!("beside {outstanding} writes: {worst} cycles");
        assert!(worst <= 33 * write, "beside {outstanding} writes: {worst} cycles");
        longest = worst.max(longest);
    }
    assert!(longest > 500, "the writers do not disturb");
}
