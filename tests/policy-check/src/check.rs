//! All tests of one mechanism: vectors, then random events, through all backends.

use crate::backend::bpf::{self, BpfProgram, Clang};
use crate::backend::host::Driver;
use crate::backend::{Backend, Local};
use crate::random::{self, Sides, Tally};
use crate::{Mechanism, policy_directory, vectors};
use std::fmt;

/// What to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Random events for each mechanism.
    pub events: u64,
    /// Seed of the random events.
    pub seed: u64,
    /// Compilers for BPF; none: no BPF.
    pub clangs: Vec<Clang>,
}

/// What was done for a mechanism, and what failed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The mechanism.
    pub name: &'static str,
    /// Sequences in its vector file.
    pub vectors: u64,
    /// Events in them.
    pub vector_events: u64,
    /// Random events.
    pub random: Tally,
    /// Events through BPF, of vectors and random ones, summed over the compilers.
    pub bpf_events: u64,
    /// Compiler, and instructions verified of the program that loads (0: the kernel does not tell).
    pub programs: Vec<(String, Option<u32>)>,
    /// What failed.
    pub failures: Vec<String>,
}

/// The compilers to use, or why BPF cannot be tested here. An error of a compiler that was asked
/// for is the caller's to report (`Clang::find`).
pub fn bpf_clangs(asked: Vec<Clang>) -> Result<Vec<Clang>, String> {
    bpf::available()?;
    if asked.is_empty() { Clang::installed() } else { Ok(asked) }
}

/// Tests a mechanism; `progress` is told the number of random events done.
pub fn mechanism(
    mechanism: &Mechanism,
    settings: &Settings,
    progress: &mut dyn FnMut(u64),
) -> Report {
    let mut report = Report { name: mechanism.name, ..Report::default() };
    let local = local_sides(mechanism, &mut report);
    let programs = load_programs(mechanism, settings, &mut report);
    let every: Vec<&dyn Backend> = local.iter().map(|l| l as &dyn Backend).collect();
    let sampled: Vec<&dyn Backend> = programs.iter().map(|p| p as &dyn Backend).collect();
    replay_vectors(mechanism, &every, &sampled, &mut report);
    let sides = Sides { every: &every, sampled: &sampled };
    let (tally, result) = random::run(mechanism, sides, settings.events, settings.seed, progress);
    report.random = tally;
    report.bpf_events += tally.sampled_events;
    report.failures.extend(result.err());
    report
}

/// The host's C comes first: its answers are the ones that others are compared with.
fn local_sides(mechanism: &Mechanism, report: &mut Report) -> Vec<Local> {
    let mut sides = Vec::new();
    match Driver::find(mechanism.name) {
        Some(driver) => sides.push(Local::new("host C", move || driver.world())),
        None => report.failures.push(format!("policy/tests/drive/{}.h is missing", mechanism.name)),
    }
    sides.push(Local::new("model", mechanism.model));
    sides.push(Local::new("binding", mechanism.binding));
    sides
}

fn load_programs(
    mechanism: &Mechanism,
    settings: &Settings,
    report: &mut Report,
) -> Vec<BpfProgram> {
    let mut programs = Vec::new();
    if Driver::find(mechanism.name).is_none() {
        return programs;
    }
    for clang in &settings.clangs {
        match BpfProgram::load(clang, &policy_directory(), mechanism.name) {
            Ok(program) => {
                report.programs.push((clang.name().into(), Some(program.verified_insns())));
                programs.push(program);
            }
            Err(error) => {
                report.programs.push((clang.name().into(), None));
                report.failures.push(error);
            }
        }
    }
    programs
}

fn replay_vectors(
    mechanism: &Mechanism,
    local: &[&dyn Backend],
    bpf: &[&dyn Backend],
    report: &mut Report,
) {
    let path = policy_directory().join(format!("vectors/{}.toml", mechanism.name));
    let sequences = match vectors::load(&path, mechanism.operations) {
        Ok(sequences) => sequences,
        Err(error) => return report.failures.push(error.to_string()),
    };
    for sequence in &sequences {
        let events = sequence.events.len() as u64;
        report.vectors += 1;
        report.vector_events += events;
        report.bpf_events += events * bpf.len() as u64;
        for side in local.iter().chain(bpf) {
            report.failures.extend(vectors::replay(*side, sequence, mechanism.operations).err());
        }
    }
}

/// One line: what was done.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let verdict = if self.failures.is_empty() { "equal " } else { "FAILED" };
        write!(
            f,
            "{:<15} {verdict}  {:>3} vectors ({:>4} events)",
            self.name, self.vectors, self.vector_events
        )?;
        write!(f, "  {:>7} random events", self.random.events)?;
        if !self.programs.is_empty() {
            write!(f, "  {:>6} through BPF", self.bpf_events)?;
        }
        for (clang, verified) in &self.programs {
            match verified {
                Some(0) => write!(f, "; {clang}: loads")?,
                Some(count) => write!(f, "; {clang}: loads, {count} instructions verified")?,
                None => write!(f, "; {clang}: DOES NOT LOAD")?,
            }
        }
        Ok(())
    }
}

/// The last line of a run, and whether all was equal. `skipped` says why BPF was not tested.
pub fn summary(reports: &[Report], skipped: Option<&str>) -> (String, bool) {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let failed: Vec<&str> =
        reports.iter().filter(|r| !r.failures.is_empty()).map(|r| r.name).collect();
    let bpf = match skipped {
        None => format!("{} events through BPF", sum(|r| r.bpf_events)),
        Some(why) => format!("BPF SKIPPED ({why})"),
    };
    let verdict = match failed.as_slice() {
        [] => "all equal".into(),
        names => format!("{} FAILED: {}", names.len(), names.join(", ")),
    };
    let line = format!(
        "policy-check: {} mechanisms, {} vectors, {} random events, {bpf}: {verdict}",
        reports.len(),
        sum(|r| r.vectors),
        sum(|r| r.random.events),
    );
    (line, failed.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &'static str, failures: &[&str]) -> Report {
        let random = Tally { sequences: 2, events: 400, sampled_events: 200 };
        let programs = vec![("clang 14.0.6".into(), Some(77)), ("clang 19.1.7".into(), None)];
        let failures = failures.iter().map(|f| (*f).to_owned()).collect();
        Report { name, vectors: 3, vector_events: 30, random, bpf_events: 230, programs, failures }
    }

    #[test]
    fn a_line_tells_what_was_done() {
        assert_eq!(
            report("heap", &[]).to_string(),
            "heap            equal     3 vectors (  30 events)      400 random events     230 \
                through BPF; \
             clang 14.0.6: loads, 77 instructions verified; clang 19.1.7: DOES NOT LOAD"
        );
    }

    #[test]
    fn the_summary_counts_and_never_hides() {
        let good = [report("a", &[]), report("b", &[])];
        assert_eq!(
            summary(&good, None),
            (
                "policy-check: 2 mechanisms, 6 vectors, 800 random events, 460 events through BPF: \
                    all equal".into(),
                true
            )
        );
        let (line, ok) = summary(&good, Some("no clang"));
        assert!(ok && line.contains("BPF SKIPPED (no clang): all equal"), "{line}");
        let (line, ok) = summary(&[report("a", &[]), report("b", &["x", "y"])], None);
        assert!(!ok && line.ends_with(": 1 FAILED: b"), "{line}");
    }
}
