//! One profile for several inputs: the worst of each quantity.
//!
//! Problem: a job may get any of its inputs, and a bound must hold for each. Rule: every number of
//! the merged profile is at least that of each input at the same place.
//! * Cycles, levels, lines, accesses by ways, traffic: the maximum, element by element.
//! * A page has the most reads and the most writes that any input gives it. So with any set of
//!   pages locked, reads and writes of the other pages are at least those of each input.
//! * The lockdown curve is tighter than the sum over these pages: element `k` is the maximum, over
//!   the inputs, of the rest of the input with the `k` first pages of the merged order locked.
//! * The trace is that of the input that takes longest with nothing locked, because a simulator can
//!   replay only one run.
//!
//! A sum of maxima may exceed every input: merging never gives less, and often more.

use super::origin::{InputFile, InputRun, Origin, Worst};
use super::{FunctionCalls, FunctionProfile, Level, PageName, PageProfile, Profile};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Merges the profiles of one program with several inputs. `time` gives the time of a job, in any
/// unit, and `arguments` the additions of each input to the command.
///
/// Returns the profile and the place of the input whose trace it names; `None` without profiles.
#[must_use]
pub fn worst(
    profiles: Vec<Profile>,
    arguments: &[Vec<String>],
    time: impl Fn(&Profile) -> u64,
) -> Option<(Profile, usize)> {
    let slowest = place_of_largest(&profiles, time)?;
    let runs: Vec<InputRun> = profiles.iter().zip(arguments).map(|(p, a)| run(p, a)).collect();
    let mut out = profiles[slowest].clone();
    let first_free = u32::try_from(out.pages.len()).unwrap_or(u32::MAX);
    out.pages = pages(&profiles, &out.pages, first_free);
    out.lockdown = lockdown(&profiles, &out.pages);
    out.functions = functions(&profiles);
    out.command.clone_from(&profiles[0].command);
    for p in &profiles {
        out.instructions = out.instructions.max(p.instructions);
        out.loads = out.loads.max(p.loads);
        out.stores = out.stores.max(p.stores);
        out.references = out.references.max(p.references);
        out.threads = out.threads.max(p.threads);
        out.children = out.children.max(p.children);
        out.exec = out.exec.or_else(|| p.exec.clone());
        out.private_cycles = out.private_cycles.max(p.private_cycles);
        out.working_set.pages = out.working_set.pages.max(p.working_set.pages);
        out.working_set.lines = out.working_set.lines.max(p.working_set.lines);
        out.working_set.bytes = out.working_set.bytes.max(p.working_set.bytes);
        raise(&mut out.by_ways, &p.by_ways);
        levels(&mut out.levels, &p.levels);
        if p.bandwidth.interval_ns == out.bandwidth.interval_ns {
            raise(&mut out.bandwidth.bytes_per_s, &p.bandwidth.bytes_per_s);
        }
    }
    out.origin = Origin { worst: worsts(&runs, slowest), inputs: runs, ..Origin::default() };
    for p in &profiles {
        let (all, one) = (&mut out.origin.processes, &p.origin.processes);
        all.switches = all.switches.max(one.switches);
        all.reads = all.reads.max(one.reads);
        all.writes = all.writes.max(one.writes);
        out.origin.chains_cut |= p.origin.chains_cut;
        join(&mut out.origin, &p.origin);
    }
    Some((out, slowest))
}

/// Raises each level to the maximum of those with its name. Behind other private caches a second
/// level may be missing; it comes before the last then.
fn levels(most: &mut Vec<Level>, other: &[Level]) {
    for theirs in other {
        match most.iter_mut().find(|level| level.name == theirs.name) {
            Some(level) => {
                level.accesses = level.accesses.max(theirs.accesses);
                level.misses = level.misses.max(theirs.misses);
                level.writebacks = level.writebacks.max(theirs.writebacks);
            }
            None => most.insert(most.len().saturating_sub(1), theirs.clone()),
        }
    }
}

/// Raises each element to the maximum, also beyond the end.
fn raise(most: &mut Vec<u64>, other: &[u64]) {
    most.resize(most.len().max(other.len()), 0);
    most.iter_mut().zip(other).for_each(|(a, &b)| *a = (*a).max(b));
}

fn run(p: &Profile, arguments: &[String]) -> InputRun {
    InputRun {
        arguments: arguments.to_vec(),
        private_cycles: p.private_cycles,
        llc_reads: p.llc_reads(),
        llc_writes: p.kinds(0).1,
        misses: p.by_ways.last().copied().unwrap_or_else(|| p.llc_accesses()),
        lines: p.working_set.lines,
    }
}

fn place_of_largest<T>(of: &[T], value: impl Fn(&T) -> u64) -> Option<usize> {
    // The first among equals.
    (0..of.len()).rev().max_by_key(|&at| value(&of[at]))
}

fn worsts(runs: &[InputRun], slowest: usize) -> Vec<Worst> {
    type Quantity = (&'static str, fn(&InputRun) -> u64);
    let quantities: [Quantity; 5] = [
        ("private_cycles", |r| r.private_cycles),
        ("llc_reads", |r| r.llc_reads),
        ("llc_writes", |r| r.llc_writes),
        ("misses", |r| r.misses),
        ("lines", |r| r.lines),
    ];
    let of = |(quantity, value): Quantity| {
        Some(Worst { quantity: quantity.to_owned(), input: place_of_largest(runs, value)? })
    };
    let time = Worst { quantity: "time".to_owned(), input: slowest };
    quantities.into_iter().filter_map(of).chain([time]).collect()
}

/// The pages of all inputs, most accesses first. Those of the trace keep their frames; the others
/// get frames from `free` on.
fn pages(profiles: &[Profile], traced: &[PageProfile], free: u32) -> Vec<PageProfile> {
    let mut all: BTreeMap<&PageName, Vec<PageProfile>> = BTreeMap::new();
    // A page that was unmapped and mapped again has several frames with one name: the n-th of a
    // name is merged with the n-th of another input.
    let mut add = |pages: &'_ [PageProfile]| {
        let mut seen: HashMap<PageName, usize> = HashMap::new();
        let mut by_frame: Vec<&PageProfile> = pages.iter().collect();
        by_frame.sort_by_key(|p| p.frame);
        by_frame
            .into_iter()
            .map(|page| {
                let nth = seen.entry(page.name.clone()).or_default();
                *nth += 1;
                (page.clone(), *nth - 1)
            })
            .collect::<Vec<_>>()
    };
    let numbered: Vec<Vec<(PageProfile, usize)>> = std::iter::once(traced)
        .chain(profiles.iter().map(|p| &p.pages[..]))
        .map(&mut add)
        .collect();
    let mut next = free;
    for (which, list) in numbered.iter().enumerate() {
        for (page, nth) in list {
            let known = all.entry(&page.name).or_default();
            match known.get_mut(*nth) {
                Some(most) => {
                    most.references = most.references.max(page.references);
                    most.llc_reads = most.llc_reads.max(page.llc_reads);
                    most.llc_writes = most.llc_writes.max(page.llc_writes);
                    most.lines = most.lines.max(page.lines);
                }
                None if which == 0 => known.push(page.clone()),
                None => {
                    known.push(PageProfile { frame: next, ..page.clone() });
                    next = next.saturating_add(1);
                }
            }
        }
    }
    let mut out: Vec<PageProfile> = all.into_values().flatten().collect();
    super::by_heat(&mut out);
    out
}

/// Element `k`: the largest rest of an input with the `k` first of `order` locked.
fn lockdown(profiles: &[Profile], order: &[PageProfile]) -> Vec<u64> {
    let hot = order.iter().take_while(|p| p.llc_accesses() > 0).count();
    let mut curve = vec![0; hot + 1];
    for p in profiles {
        // All frames of a name: locking the first of a name does not lock a later one, so that each
        // place in the order takes one of them, the coldest first.
        let mut of_name: HashMap<&PageName, Vec<u64>> = HashMap::new();
        for q in p.pages.iter().filter(|q| q.llc_accesses() > 0) {
            of_name.entry(&q.name).or_default().push(q.llc_accesses());
        }
        of_name.values_mut().for_each(|v| v.sort_unstable_by(|a, b| b.cmp(a)));
        let mut left = p.llc_accesses();
        curve[0] = curve[0].max(left);
        for (k, page) in order.iter().take(hot).enumerate() {
            left = left.saturating_sub(of_name.get_mut(&page.name).and_then(Vec::pop).unwrap_or(0));
            curve[k + 1] = curve[k + 1].max(left);
        }
    }
    curve
}

fn functions(profiles: &[Profile]) -> Vec<FunctionProfile> {
    let mut most: BTreeMap<(&str, &str, Option<&str>), FunctionProfile> = BTreeMap::new();
    for f in profiles.iter().flat_map(|p| &p.functions) {
        let key = (f.name.as_str(), f.file.as_str(), f.inlined_into.as_deref());
        let known = most.entry(key).or_insert_with(|| f.clone());
        if f.llc_misses > known.llc_misses {
            // Its chains of callers are those of the input with the most of its misses.
            known.callers.clone_from(&f.callers);
        }
        known.llc_misses = known.llc_misses.max(f.llc_misses);
        known.llc_accesses = known.llc_accesses.max(f.llc_accesses);
        known.calls = most_calls(known.calls.take(), f.calls.as_ref());
    }
    let mut out: Vec<FunctionProfile> = most.into_values().collect();
    let total = out.iter().map(|f| f.llc_misses).fold(0, u64::saturating_add);
    out.iter_mut().for_each(|f| f.share = f.llc_misses as f64 / total.max(1) as f64);
    out.sort_by_key(|f| std::cmp::Reverse((f.llc_misses, f.llc_accesses)));
    out
}

/// The most of each number.
fn most_calls(a: Option<FunctionCalls>, b: Option<&FunctionCalls>) -> Option<FunctionCalls> {
    match (a, b) {
        (Some(a), Some(b)) => Some(FunctionCalls {
            calls: a.calls.max(b.calls),
            llc_misses: a.llc_misses.max(b.llc_misses),
            llc_reads: a.llc_reads.max(b.llc_reads),
            llc_writes: a.llc_writes.max(b.llc_writes),
            held_ns: a.held_ns.max(b.held_ns),
            longest_ns: a.longest_ns.max(b.longest_ns),
        }),
        (a, b) => a.or_else(|| b.cloned()),
    }
}

/// The files of all runs.
fn join(all: &mut Origin, one: &Origin) {
    let files: BTreeSet<InputFile> =
        all.rests_on.files.drain(..).chain(one.rests_on.files.iter().cloned()).collect();
    all.rests_on.files = files.into_iter().collect();
    all.rests_on.not_covered.extend_from_slice(&one.rests_on.not_covered);
    all.rests_on.not_covered.sort();
    all.rests_on.not_covered.dedup();
    let not_whole = one.rests_on.not_whole.clone();
    all.rests_on.not_whole = all.rests_on.not_whole.take().or(not_whole);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::platform::Platform;
    use crate::profile::{BandwidthSeries, CallChain, FORMAT, Processes, WorkingSet};
    use crate::random::Random;
    use std::collections::HashSet;

    /// Few names, so that inputs share some of them and a name has several frames.
    pub fn made_up(random: &mut Random) -> Profile {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let count = u32::try_from(random.below(8)).unwrap();
        let mut pages: Vec<PageProfile> = (0..count)
            .map(|frame| PageProfile {
                name: PageName { region: "heap".to_owned(), offset: random.below(6) },
                references: random.below(9),
                llc_reads: random.below(4) * random.below(30),
                llc_writes: random.below(3) * random.below(20),
                lines: 1,
                frame,
            })
            .collect();
        super::super::by_heat(&mut pages);
        let switches = random.below(2) * random.below(50);
        let mut lockdown = vec![0; pages.len() + 1];
        for k in (0..=pages.len()).rev() {
            let left: u64 = pages[k..].iter().map(PageProfile::llc_accesses).sum();
            lockdown[k] = left + 2 * switches;
        }
        let mut by_ways: Vec<u64> = (0..4).map(|_| random.below(100)).collect();
        by_ways.sort_unstable_by(|a, b| b.cmp(a));
        Profile {
            format: FORMAT.to_owned(),
            command: Vec::new(),
            isa: platform.isa,
            engine: "made up".to_owned(),
            platform: platform.name.clone(),
            geometry: platform.geometry(),
            exit_code: 0,
            instructions: random.below(100),
            loads: 0,
            stores: 0,
            references: 0,
            threads: 1,
            children: 0,
            exec: None,
            levels: Vec::new(),
            private_cycles: random.below(1000),
            working_set: WorkingSet { pages: 0, lines: random.below(100), bytes: 0 },
            lockdown,
            by_ways,
            pages,
            functions: Vec::new(),
            bandwidth: BandwidthSeries::default(),
            trace: None,
            origin: Origin {
                processes: Processes { switches, reads: switches, writes: switches },
                ..Origin::default()
            },
        }
    }

    /// Rest of an input with these names locked, as `sim` locks them: every frame of a name.
    fn left(p: &Profile, locked: &[&PageName]) -> (u64, u64) {
        let open = p.pages.iter().filter(|q| !locked.contains(&&q.name));
        let processes = &p.origin.processes;
        open.fold((processes.reads, processes.writes), |(r, w), q| {
            (r + q.llc_reads, w + q.llc_writes)
        })
    }

    /// Breaks when levels are merged by their place: a second level is missing behind some caches.
    #[test]
    fn levels_are_merged_by_name() {
        let level = |name: &str, misses| Level {
            name: name.to_owned(),
            accesses: misses,
            misses,
            writebacks: 0,
        };
        let mut most = vec![level("L1D", 5), level("LLC", 3)];
        levels(&mut most, &[level("L1D", 4), level("L2", 9), level("LLC", 7)]);
        let found: Vec<(&str, u64)> = most.iter().map(|l| (l.name.as_str(), l.misses)).collect();
        assert_eq!(found, [("L1D", 5), ("L2", 9), ("LLC", 7)]);
    }

    #[test]
    fn no_input_is_worse_than_the_merged_profile() {
        let mut random = Random::new(7);
        for _ in 0..3000 {
            let inputs: Vec<Profile> =
                (0..=random.below(3)).map(|_| made_up(&mut random)).collect();
            let arguments = vec![Vec::new(); inputs.len()];
            let (merged, slowest) =
                worst(inputs.clone(), &arguments, |p| p.private_cycles).unwrap();
            let frames: HashSet<u32> = merged.pages.iter().map(|p| p.frame).collect();
            assert_eq!(frames.len(), merged.pages.len());
            assert!(frames.iter().all(|&f| (f as usize) < merged.pages.len()));
            for page in &inputs[slowest].pages {
                let same = merged.pages.iter().find(|p| p.frame == page.frame);
                assert_eq!(same.map(|p| &p.name), Some(&page.name), "the trace keeps its frames");
            }
            assert!(merged.lockdown.is_sorted_by(|a, b| a >= b), "the curve never rises");
            for p in &inputs {
                assert!(merged.private_cycles >= p.private_cycles);
                assert!(merged.working_set.lines >= p.working_set.lines);
                assert!(merged.llc_reads() >= p.llc_reads());
                assert!(merged.by_ways.iter().zip(&p.by_ways).all(|(a, b)| a >= b));
                for k in 0..=merged.pages.len() + 1 {
                    let names = merged.pages.iter().take(k).map(|q| &q.name);
                    let (reads, writes) = left(p, &names.collect::<Vec<_>>());
                    assert!(merged.residual_misses(k) >= reads + writes, "{k} pages locked");
                    let kinds = merged.kinds(k);
                    assert!(kinds.0 >= reads && kinds.1 >= writes, "{k} pages locked");
                }
            }
        }
    }

    #[test]
    fn a_function_has_the_most_of_each_number_and_the_callers_of_its_most_misses() {
        let mut random = Random::new(1);
        let mut with = |llc_misses, caller: &str, held_ns, longest_ns| {
            let functions = vec![caller.to_owned()];
            let function = FunctionProfile {
                name: "f".to_owned(),
                llc_misses,
                calls: Some(FunctionCalls {
                    calls: 1,
                    llc_misses,
                    llc_reads: llc_misses,
                    llc_writes: held_ns,
                    held_ns,
                    longest_ns,
                }),
                callers: vec![CallChain { functions, llc_misses, llc_accesses: llc_misses }],
                ..FunctionProfile::default()
            };
            Profile { functions: vec![function], ..made_up(&mut random) }
        };
        let inputs = vec![with(5, "a", 90, 10), with(9, "b", 20, 20)];
        let (merged, _) = worst(inputs, &[Vec::new(), Vec::new()], |_| 0).unwrap();
        let [f] = &merged.functions[..] else { panic!("one function") };
        assert_eq!((f.llc_misses, f.callers.len()), (9, 1));
        assert_eq!(f.callers[0].functions, ["b"]);
        let most = FunctionCalls {
            calls: 1,
            llc_misses: 9,
            llc_reads: 9,
            llc_writes: 90,
            held_ns: 90,
            longest_ns: 20,
        };
        assert_eq!(f.calls, Some(most));
    }

    #[test]
    fn one_input_is_itself() {
        let mut random = Random::new(3);
        for _ in 0..300 {
            let one = made_up(&mut random);
            let (merged, _) = worst(vec![one.clone()], &[Vec::new()], |_| 0).unwrap();
            let hot = one.pages.iter().filter(|p| p.llc_accesses() > 0).count();
            for k in 0..=hot {
                assert!(merged.residual_misses(k) >= one.residual_misses(k));
            }
            assert_eq!(merged.residual_misses(hot), one.residual_misses(hot));
            assert_eq!(merged.llc_accesses(), one.llc_accesses());
            assert_eq!((merged.by_ways, merged.pages), (one.by_ways, one.pages));
        }
    }
}
