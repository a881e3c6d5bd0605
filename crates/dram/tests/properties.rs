//! Random traffic on every memory: no command breaks a rule, every request is answered once, counts
//! add up.

use proptest::prelude::*;
use solocore_dram::{Checker, Completion, Memory, Options, PRESETS, Request, Spec};

/// A request: gap to the one before, line, write, core.
type Step = (u64, u64, bool, u16);

const CORES: u16 = 4;

#[derive(Clone, Debug)]
struct Case {
    memory: usize,
    channels: u32,
    ranks: u32,
    cap: Option<u32>,
    hashed: bool,
    steps: Vec<Step>,
}

fn cases() -> impl Strategy<Value = Case> {
    // Few lines, so that reads meet writes of the same line, or many rows of few banks, or all
    // lines.
    let line = prop_oneof![0..16u64, (0..64u64).prop_map(|n| n << 14), 0..1u64 << 24];
    let gap = prop_oneof![8 => 0..4u64, 4 => 0..60u64, 1 => 0..20_000u64];
    let steps = prop::collection::vec((gap, line, prop::bool::weighted(0.4), 0..CORES), 1..600);
    let cap = prop_oneof![Just(None), (0..9u32).prop_map(Some)];
    (0..PRESETS.len(), 0..2u32, 0..2u32, cap, any::<bool>(), steps).prop_map(
        |(memory, channels, ranks, cap, hashed, steps)| Case {
            memory,
            channels: 1 << channels,
            ranks: 1 << ranks,
            cap,
            hashed,
            steps,
        },
    )
}

fn spec_of(case: &Case) -> Spec {
    let mut spec = Spec::find(PRESETS[case.memory].0).expect("a preset");
    spec.organisation.channels = case.channels;
    spec.organisation.ranks = case.ranks;
    if case.hashed {
        // Each bank bit with a row bit.
        let o = &spec.organisation;
        let low = 6 + (o.channels * o.lines_per_row() * o.ranks * o.bank_groups).trailing_zeros();
        let width = o.banks.trailing_zeros();
        spec.map.bank = (0..width).map(|i| 1 << (low + i) | 1 << (low + width + i)).collect();
    }
    spec
}

struct Outcome {
    answers: Vec<Completion>,
    memory: Memory,
}

fn drive(case: &Case, spec: &Spec, checker: &mut Checker, stepwise: bool) -> Outcome {
    let mut memory =
        Memory::new(spec, Options { row_hit_cap: case.cap, cores: CORES }).expect("a legal memory");
    memory.record_commands(true);
    let mut answers = Vec::new();
    let mut now = 0;
    for (tag, &(gap, line, write, core)) in (1..).zip(&case.steps) {
        now += gap;
        if stepwise {
            while memory.next_event().is_some_and(|at| at <= now) {
                let at = memory.next_event().expect("just seen");
                memory.advance_to(at, &mut answers);
            }
        }
        let request = Request { address: line * 64 + line % 64, write, core, tag };
        while !memory.enqueue(now, request) {
            now = memory.next_event().expect("a full queue moves").max(now + 1);
        }
    }
    while !memory.is_idle() {
        now = memory.advance_to_completion(u64::MAX, &mut answers);
    }
    // Refreshes go on without requests.
    memory.advance_to(now + 100_000, &mut answers);
    memory.take_commands().into_iter().for_each(|c| checker.check(c));
    checker.finish(now + 100_000);
    Outcome { answers, memory }
}

proptest! {
    #[test]
    fn commands_obey_and_counts_add_up(case in cases()) {
        let spec = spec_of(&case);
        let mut checker = Checker::new(&spec);
        let Outcome { answers, memory } = drive(&case, &spec, &mut checker, false);
        prop_assert_eq!(checker.violations(), 0, "{}", checker.first()[0]);

        let mut tags: Vec<u64> = answers.iter().map(|c| c.tag).collect();
        tags.sort_unstable();
        prop_assert!(tags.iter().copied().eq(1..=case.steps.len() as u64), "every request is \
            answered once");
        prop_assert!(answers.is_sorted_by_key(|c| c.at), "answers come in order");
        prop_assert!(answers.iter().all(|c| c.at > c.arrived));

        let total = memory.total();
        let mut sum = solocore_dram::Counters::default();
        (0..CORES).for_each(|c| sum.add(&memory.core(c)));
        prop_assert_eq!(sum, total);
        let writes = case.steps.iter().filter(|s| s.2).count() as u64;
        prop_assert_eq!((total.requests, total.writes), (case.steps.len() as u64, writes));
        prop_assert_eq!(total.reads + total.writes, total.requests);
        prop_assert_eq!(total.accesses + total.forwarded + total.merged, total.requests);
        let latencies: u64 = answers.iter().filter(|c| !c.write).map(|c| c.at - c.arrived).sum();
        prop_assert_eq!(total.read_cycles, latencies);
        prop_assert!(total.row_hits <= total.accesses);
    }

    /// The number of calls of the machine makes no difference.
    #[test]
    fn looking_in_changes_nothing(case in cases()) {
        let spec = spec_of(&case);
        let one = drive(&case, &spec, &mut Checker::new(&spec), false);
        let mut two = drive(&case, &spec, &mut Checker::new(&spec), true);
        let by_tag = |c: &Completion| c.tag;
        let mut answers = one.answers;
        answers.sort_by_key(by_tag);
        two.answers.sort_by_key(by_tag);
        prop_assert_eq!(answers, two.answers);
        prop_assert_eq!(one.memory.total(), two.memory.total());
    }
}

/// A write behind a pending read of its line, with every other request of the bank in the way.
#[test]
fn a_write_after_a_read_of_the_same_line_is_no_deadlock() {
    let spec = Spec::find("ddr3-1333").unwrap();
    let mut memory = Memory::new(&spec, Options::default()).unwrap();
    let mut answers = Vec::new();
    let mut now = 0;
    for tag in 0..4000u64 {
        now += 1;
        let request = Request { address: (tag / 2) % 48 * 64, write: tag % 2 == 1, core: 0, tag };
        while !memory.enqueue(now, request) {
            now = memory.next_event().unwrap().max(now + 1);
        }
        memory.advance_to(now, &mut answers);
    }
    while !memory.is_idle() {
        memory.advance_to_completion(u64::MAX, &mut answers);
    }
    assert_eq!(answers.len(), 4000);
}

/// The refresh of one rank must not delay the other: a reader of the other rank never waits for
/// tRFC.
#[test]
fn a_refresh_holds_only_its_rank() {
    let spec = Spec::find("ddr3-1333").unwrap();
    let mut memory = Memory::new(&spec, Options::default()).unwrap();
    let (mut now, mut answers) = (0, Vec::new());
    let mut longest = 0;
    // Rank 0 refreshes at 2600, 7800 and so on, rank 1 at 5200, 10400: read from the other one,
    // from shortly before.
    for tag in 0..3000u64 {
        let rank = (now + 100) / 2600 % 2;
        let request = Request { address: rank * 8192 + tag % 128 * 64, write: false, core: 0, tag };
        assert!(memory.enqueue(now, request));
        answers.clear();
        now = memory.advance_to_completion(u64::MAX, &mut answers);
        longest = longest.max(answers[0].at - answers[0].arrived);
    }
    assert!(longest < 60, "{longest} cycles");
    assert!(memory.refreshes() > 10);
}

/// Idle time costs one step, and its refreshes are counted.
#[test]
fn a_day_of_idleness_is_one_step() {
    let spec = Spec::find("ddr3-1333").unwrap();
    let mut memory = Memory::new(&spec, Options::default()).unwrap();
    let mut answers = Vec::new();
    let day = 86_400_000_000_000_000 / 1500;
    let start = std::time::Instant::now();
    for i in 1..=100 {
        assert!(
            memory.enqueue(i * day, Request { address: i << 20, write: false, core: 0, tag: i })
        );
        memory.advance_to_completion(u64::MAX, &mut answers);
        assert_eq!(memory.next_event(), None);
    }
    assert_eq!(answers.len(), 100);
    let due = 100 * day / 5200 * 2;
    assert!(memory.refreshes().abs_diff(due) <= 4, "{} for {due}", memory.refreshes());
    assert!(start.elapsed().as_secs() < 5, "each refresh was simulated");
}
