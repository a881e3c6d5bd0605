//! A measurement makes a profile larger.
//!
//! Problem: the emulator's profile assumes the time of an instruction and knows nothing of the
//! kernel. Rule: a measurement only raises the profile's numbers, so that a plan's numbers are
//! never below the measured ones.

use super::Profile;
use super::measured::{Measured, Raised, quantity};
use super::origin::Worst;
use crate::platform::{Pace, Platform};

impl Profile {
    /// Raises the numbers of the profile to the values measured on a machine like `platform`.
    ///
    /// * Time: a job's time alone is its computation and its waits for memory. A plan adds the
    ///   waits again, each at its worst. The waits within the measured time are not counted, so all
    ///   of it is taken for computation. `private_cycles` becomes at least the cycles of each job,
    ///   and at least its time on the CPU at the clock of the fastest core, because a plan may put
    ///   the task on any core. Where the measurement is for one type of cores (`core_type`), its
    ///   clock counts. A plan adds cycles for each instruction there ([`Pace::cycles`]), so the
    ///   cycles here are the rest: both together are the measured ones.
    /// * Misses: the excess over the emulator's count with the whole shared cache belongs to no
    ///   page of the program. It is added to every element of both curves; no locked page and no
    ///   way saves it. Where write-backs are not counted, each such read is charged with one.
    ///
    /// A count that only stands in for a quantity raises nothing.
    pub fn raise(&mut self, platform: &Platform, measured: Measured) {
        let seen = |name| measured.most(name);
        let pace = pace_of_type(platform, measured.core_type.as_deref());
        let by_clock = |ns: u64| {
            let cycles = (u128::from(ns) * u128::from(pace.clock.0)).div_ceil(1_000_000_000);
            u64::try_from(cycles).unwrap_or(u64::MAX)
        };
        let cycles = [
            seen(quantity::CYCLES),
            seen(quantity::CPU_TIME).map(|(ns, input)| (by_clock(ns), input)),
        ];
        let mut worst = Vec::new();
        let mut note = |quantity: &str, input: usize| {
            if measured.inputs.len() > 1 {
                worst.push(Worst { quantity: format!("measured {quantity}"), input });
            }
        };
        let mut raised = Raised::default();
        if let Some((most, _)) = seen(quantity::INSTRUCTIONS) {
            self.instructions = self.instructions.max(most);
        }
        if let Some((most, input)) = cycles.into_iter().flatten().max_by_key(|(most, _)| *most) {
            let most = most.saturating_sub(pace.cycles(0, self.instructions));
            raised.private_cycles = most.saturating_sub(self.private_cycles);
            note("cycles", input);
        }
        let (reads, writes) = self.levels.last().map_or((0, 0), |l| (l.misses, l.writebacks));
        if let Some((most, input)) = seen(quantity::MISSES) {
            raised.reads = most.saturating_sub(reads);
            note("misses", input);
        }
        raised.writes = match seen(quantity::WRITE_BACKS) {
            Some((most, _)) => most.saturating_sub(writes),
            None => raised.reads,
        };
        self.private_cycles = self.private_cycles.saturating_add(raised.private_cycles);
        let more = raised.reads.saturating_add(raised.writes);
        let curves = self.lockdown.iter_mut().chain(&mut self.by_ways);
        curves.for_each(|n| *n = n.saturating_add(more));
        self.origin.worst.append(&mut worst);
        self.origin.raised = raised;
        self.engine = "perf".to_owned();
        self.origin.measured = Some(measured);
    }
}

/// Pace of the cores of a type; without one, of the fastest.
fn pace_of_type(platform: &Platform, core_type: Option<&str>) -> Pace {
    let kind = platform.core_types.iter().find(|kind| Some(kind.name.as_str()) == core_type);
    let core = kind.and_then(|kind| kind.cores.first());
    core.map_or_else(|| platform.fastest_pace(), |&core| platform.pace_of(core))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::CoreType;
    use crate::profile::Level;
    use crate::profile::measured::{MeasuredInput, Quantity};
    use crate::profile::merge::tests::made_up;
    use crate::random::Random;
    use crate::units::Frequency;

    fn measured(of: &[(&str, u64)]) -> Measured {
        let quantity = |&(name, most): &(&str, u64)| Quantity::of(name, "x", vec![1, most, 2]);
        Measured {
            inputs: vec![MeasuredInput {
                quantities: of.iter().map(quantity).collect(),
                ..MeasuredInput::default()
            }],
            ..Measured::default()
        }
    }

    fn base() -> Profile {
        let mut base = made_up(&mut Random::new(5));
        base.private_cycles = 100;
        base.levels =
            vec![Level { name: "LLC".to_owned(), accesses: 90, misses: 60, writebacks: 20 }];
        base
    }

    #[test]
    fn what_was_seen_is_never_more_than_the_profile_says() {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let before = base();
        let of_level = before.levels.last().unwrap().clone();
        let mut raised = before.clone();
        raised.raise(
            &platform,
            measured(&[
                (quantity::CYCLES, 150),
                (quantity::MISSES, of_level.misses + 30),
                (quantity::WRITE_BACKS, of_level.writebacks + 5),
            ]),
        );
        assert_eq!(raised.private_cycles, 150);
        let more = |a: &[u64], b: &[u64]| a.iter().zip(b).all(|(a, b)| a - b == 35);
        assert!(more(&raised.lockdown, &before.lockdown) && more(&raised.by_ways, &before.by_ways));
        assert_eq!(raised.engine, "perf");
        let (reads, writes) = (before.kinds(0).0 + 30, before.kinds(0).1 + 5);
        assert_eq!(raised.kinds(0), (reads, writes));
        // Nothing is locked: all accesses that reach memory.
        assert_eq!(raised.lockdown[0], reads + writes);
    }

    #[test]
    fn a_fast_or_small_job_lowers_nothing() {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let mut raised = base();
        raised.raise(&platform, measured(&[(quantity::CYCLES, 7), (quantity::MISSES, 1)]));
        let as_before = Profile { engine: "perf".into(), origin: raised.origin.clone(), ..base() };
        assert_eq!(raised, as_before);
        assert_eq!(raised.origin.raised, Raised::default());
    }

    #[test]
    fn time_counts_where_no_cycles_do() {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let mut raised = base();
        raised.raise(&platform, measured(&[(quantity::CPU_TIME, 1_000_000)]));
        assert_eq!(raised.private_cycles, platform.frequency.0 / 1000);
        assert_eq!(raised.lockdown, base().lockdown);
        // It may have been a fast core, which has more cycles in that time.
        let mut typed = platform.clone();
        let frequency = Frequency(2 * platform.frequency.0);
        typed.core_types = vec![CoreType::of_clock("big", vec![0], frequency)];
        let mut raised = base();
        raised.raise(&typed, measured(&[(quantity::CPU_TIME, 1_000_000)]));
        assert_eq!(raised.private_cycles, frequency.0 / 1000);
    }

    /// A plan charges a core of the measured type no less than the measured time, and no more than
    /// its rounding. Breaks when another type's clock or cycles per instruction count.
    #[test]
    fn time_of_a_type_counts_at_its_clock_and_cycles_per_instruction() {
        let mut platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let fast = Frequency(2 * platform.frequency.0);
        let little = CoreType {
            cpi: Some(platform.cpi + 1.0),
            ..CoreType::of_clock("little", (0..4).collect(), platform.frequency)
        };
        platform.core_types = vec![little, CoreType::of_clock("big", (4..8).collect(), fast)];
        let ns = 100_000_000;
        for (kind, core) in [("little", 0), ("big", 4)] {
            let seen = measured(&[(quantity::CPU_TIME, ns), (quantity::INSTRUCTIONS, 1_000_000)]);
            let mut raised = base();
            raised.raise(&platform, Measured { core_type: Some(kind.to_owned()), ..seen });
            let ps = platform.pace_of(core).ps(raised.private_cycles, raised.instructions);
            assert!((ns * 1000..ns * 1000 + 1000).contains(&ps), "{kind}: {ps}");
        }
    }

    #[test]
    fn writes_that_nobody_counts_are_charged_with_the_reads() {
        let platform = Platform::find("p4080", std::path::Path::new(".")).unwrap();
        let mut raised = base();
        let misses = raised.levels.last().unwrap().misses;
        raised.raise(&platform, measured(&[(quantity::MISSES, misses + 9)]));
        assert_eq!((raised.origin.raised.reads, raised.origin.raised.writes), (9, 9));
        let mut stands_in = measured(&[(quantity::MISSES, misses + 9)]);
        stands_in.inputs[0].quantities[0].stands_in = Some("page faults".to_owned());
        let mut not_raised = base();
        not_raised.raise(&platform, stands_in);
        assert_eq!(not_raised.lockdown, base().lockdown);
    }
}
