//! Steps 3 to 5, again and again: durations with slack, partitions to cores, I/O, verification; and
//! a log of it.
//!
//! Rule: single-core-equivalence, section 3.1: where step 4 or 5 fails, back to step 3 with another
//! allocation. Stated durations stay as they are. The others begin with the requested slack; when
//! no allocation has a table with it, with half of it, then with none. Allocations: worst fit by
//! decreasing share on the cores where no pair collides; then the cores that the search for offsets
//! finds. The least durations are found first, against the worst that other partitions may leave
//! behind, as they depend on neither cores nor offsets; step 5 verifies with the real neighbours on
//! each core. Searches end after a fixed number of steps, so that a plan depends on the system
//! alone and not on the machine. Not covered: slack that differs between partitions.

use super::inside::{Inside, Locked, Others};
use super::solver::{Answer, Problem, solve, table};
use solocore_analysis::uniprocessor::edf::gcd;
use solocore_model::Time;
use solocore_model::plan::windows::Round;
use solocore_model::windows::WindowsInput;
use solocore_model::windows::table::Row;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most times that a search asks whether to go on: about ten seconds of work without a result.
const ASKS: u64 = 40_000;

/// Properties of a partition before it has a core.
pub struct Choice {
    /// Locked pages.
    pub locked: Locked,
    /// Least duration against the worst neighbours.
    pub least_ns: Option<u64>,
    /// The same, alone on a core.
    pub alone_ns: Option<u64>,
}

/// Result of a round.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The step that failed; 6 if all were passed.
    pub step: u32,
    /// Duration of each partition.
    pub durations_ns: Vec<u64>,
    /// Core of each partition.
    pub cores: Vec<Option<u32>>,
    /// The table's rows; empty where step 4 was not passed.
    pub rows: Vec<Row>,
}

/// The partitions of a system on their way to cores.
pub struct Rounds<'a> {
    /// The instance, with durations as stated.
    pub input: &'a WindowsInput,
    /// The same partitions, with their tasks.
    pub inside: &'a [Inside<'a>],
    /// Pages and least durations.
    pub choices: &'a [Choice],
    /// Requested slack, in percent.
    pub slack: u32,
    /// Does the caller want to stop?
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// Rule for the choice of cores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allocation {
    Stated,
    WorstFit,
    Search,
}

impl Allocation {
    const fn name(self) -> &'static str {
        match self {
            Self::Stated => "cores as stated",
            Self::WorstFit => "worst fit",
            Self::Search => "chosen with the offsets",
        }
    }
}

/// The step that failed, and the reason.
struct Failed(u32, String);

fn time(ns: u64) -> Time {
    Time::from_ns(ns)
}

impl Rounds<'_> {
    /// Tries until a round passes all steps. Returns the last of the attempts that came furthest,
    /// and the log.
    pub fn run(&self) -> (Attempt, Vec<Round>) {
        let mut slacks = vec![self.slack, self.slack / 2, 0];
        if self.input.partitions.iter().all(|p| p.duration_ns > 0) {
            slacks = vec![0];
        }
        slacks.dedup();
        let stated = self.input.partitions.iter().all(|p| p.core.is_some());
        let allocations = if stated {
            &[Allocation::Stated][..]
        } else {
            &[Allocation::WorstFit, Allocation::Search]
        };
        let (mut log, mut furthest): (Vec<Round>, Option<Attempt>) = (Vec::new(), None);
        for slack in slacks {
            for &allocation in allocations {
                let (attempt, outcome) = self.attempt(slack, allocation);
                let found = attempt.step > 5;
                let hopeless = attempt.step == 5 && self.hopeless();
                log.push(Round {
                    slack_percent: slack,
                    allocation: allocation.name().to_owned(),
                    step: attempt.step.min(5),
                    found,
                    outcome,
                });
                if furthest.as_ref().is_none_or(|f| attempt.step >= f.step) {
                    furthest = Some(attempt);
                }
                if found || hopeless || (self.stop)() {
                    return (furthest.unwrap_or_else(|| self.nothing()), log);
                }
            }
        }
        (furthest.unwrap_or_else(|| self.nothing()), log)
    }

    fn nothing(&self) -> Attempt {
        let durations_ns = self.input.partitions.iter().map(|p| p.duration_ns).collect();
        Attempt {
            step: 3,
            durations_ns,
            cores: self.input.partitions.iter().map(|p| p.core).collect(),
            rows: Vec::new(),
        }
    }

    /// A stated duration that is too short even for the partition alone on a core: no allocation
    /// helps.
    fn hopeless(&self) -> bool {
        let short = |(p, c): (&solocore_model::windows::Partition, &Choice)| {
            p.duration_ns > 0 && c.alone_ns.is_none_or(|least| least > p.duration_ns)
        };
        self.input.partitions.iter().zip(self.choices).any(short)
    }

    fn attempt(&self, slack: u32, allocation: Allocation) -> (Attempt, String) {
        let mut attempt = self.nothing();
        match self.steps(&mut attempt, slack, allocation) {
            Ok(done) => (Attempt { step: 6, ..attempt }, done),
            Err(Failed(step, why)) => (Attempt { step, ..attempt }, why),
        }
    }

    fn steps(
        &self,
        attempt: &mut Attempt,
        slack: u32,
        allocation: Allocation,
    ) -> Result<String, Failed> {
        self.durations(attempt, slack)?;
        if allocation == Allocation::WorstFit {
            self.worst_fit(attempt)?;
        }
        let by = self.offsets(attempt, allocation)?;
        self.verify(attempt)?;
        Ok(format!("a table was found ({by}), and every task meets its deadline"))
    }

    /// Step 3: stated durations, or the least with slack. All are filled in, even if one fails.
    fn durations(&self, attempt: &mut Attempt, slack: u32) -> Result<(), Failed> {
        let mut failed = None;
        for (at, (inside, choice)) in self.inside.iter().zip(self.choices).enumerate() {
            if inside.partition.duration_ns > 0 {
                continue;
            }
            let (name, period) = (&inside.partition.name, time(inside.partition.period_ns));
            let longest = inside.longest_ns();
            let wanted = choice.least_ns.map(|least| {
                let wanted = u64::try_from(u128::from(least) * u128::from(100 + slack) / 100)
                    .unwrap_or(u64::MAX);
                wanted.div_ceil(inside.unit_ns).saturating_mul(inside.unit_ns)
            });
            attempt.durations_ns[at] = wanted.unwrap_or(longest).clamp(1, longest.max(1));
            let why = match (choice.least_ns, wanted) {
                (Some(least), Some(wanted)) if wanted > longest => format!(
                    "partition `{name}`: {} and {slack} percent of slack exceed its period \
                        {period} less margin by {}",
                    time(least),
                    time(wanted - longest)
                ),
                (Some(_), _) => continue,
                (None, _) => {
                    format!(
                        "partition `{name}`: no window of its period {period} is long enough for \
                            its tasks' C_sce"
                    )
                }
            };
            failed.get_or_insert(Failed(3, why));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Step 3: the least loaded core on which no pair collides, the largest share first.
    fn worst_fit(&self, attempt: &mut Attempt) -> Result<(), Failed> {
        let parts = &self.input.partitions;
        let slot =
            |p: usize| attempt.durations_ns[p].saturating_add(self.input.margin.processing_ns);
        let share =
            |p: usize| u128::from(slot(p)) * 1_000_000_000_000 / u128::from(parts[p].period_ns);
        let mut open: Vec<usize> = (0..parts.len()).filter(|&p| parts[p].core.is_none()).collect();
        open.sort_by_key(|&p| (std::cmp::Reverse(share(p)), p));
        let mut cores: Vec<Option<u32>> = parts.iter().map(|p| p.core).collect();
        for p in open {
            let on = |core: u32| {
                (0..parts.len()).filter(|&q| cores[q] == Some(core)).collect::<Vec<_>>()
            };
            let load = |core: u32| on(core).into_iter().map(share).sum::<u128>();
            let apart = |q: &usize| {
                slot(p).saturating_add(slot(*q)) <= gcd(parts[p].period_ns, parts[*q].period_ns)
            };
            let fits = |core: &u32| {
                load(*core) + share(p) <= 1_000_000_000_000 && on(*core).iter().all(apart)
            };
            let chosen = (0..self.input.cores).filter(fits).min_by_key(|&core| (load(core), core));
            let Some(core) = chosen else {
                let why = format!(
                    "partition `{}` ({} every {}) has no core on which its windows do not overlap \
                    those of the others",
                    parts[p].name,
                    time(slot(p)),
                    time(parts[p].period_ns)
                );
                return Err(Failed(3, why));
            };
            cores[p] = Some(core);
        }
        attempt.cores = cores;
        Ok(())
    }

    /// Step 4: offsets of windows and I/O.
    fn offsets(
        &self,
        attempt: &mut Attempt,
        allocation: Allocation,
    ) -> Result<&'static str, Failed> {
        let mut input = self.input.clone();
        for (at, p) in input.partitions.iter_mut().enumerate() {
            p.duration_ns = attempt.durations_ns[at];
            p.core = if allocation == Allocation::Search { p.core } else { attempt.cores[at] };
        }
        let problem = Problem::new(&input);
        let asked = AtomicU64::new(0);
        let stop = || (self.stop)() || asked.fetch_add(1, Ordering::Relaxed) >= ASKS;
        match solve(&problem, 1, 1, &stop) {
            Answer::Found(solution, by) => {
                attempt.rows = table::rows(&input, &problem, &solution);
                attempt.cores = solution.core.iter().map(|&c| u32::try_from(c).ok()).collect();
                Ok(by)
            }
            Answer::Infeasible(why) => Err(Failed(4, why)),
            Answer::NotFound(left) => Err(Failed(
                4,
                format!(
                    "the search found neither a table nor a proof that none exists; the best partial one \
                        leaves {left} partitions out"
                ),
            )),
        }
    }

    /// Step 5: with the neighbours that each core has.
    fn verify(&self, attempt: &Attempt) -> Result<(), Failed> {
        for (at, inside) in self.inside.iter().enumerate() {
            let others = neighbours(self.inside, self.choices, &attempt.cores, at);
            let core = attempt.cores[at].unwrap_or(0);
            let results =
                inside.results(core, attempt.durations_ns[at], &self.choices[at].locked, others);
            let Some(late) = results.iter().find(|t| !t.meets) else { continue };
            let least = inside.least_ns(core, &self.choices[at].locked, others);
            let by = match least {
                Some(least) => {
                    format!(
                        "{} are needed, {} more",
                        time(least),
                        time(least.saturating_sub(attempt.durations_ns[at]))
                    )
                }
                None => "no window of this period is long enough".to_owned(),
            };
            let why = format!(
                "partition `{}`: task `{}` may miss its deadline in windows of {} every {}; {by}",
                inside.partition.name,
                inside.work[late.index].task.name,
                time(attempt.durations_ns[at]),
                time(inside.partition.period_ns)
            );
            return Err(Failed(5, why));
        }
        Ok(())
    }
}

/// The worst rest that the other partitions leave for partition `own`: those on its core, or all
/// where cores are not known.
pub fn neighbours(
    inside: &[Inside],
    choices: &[Choice],
    cores: &[Option<u32>],
    own: usize,
) -> Others {
    let near = |q: &usize| {
        *q != own && (cores[own].is_none() || cores[*q].is_none() || cores[*q] == cores[own])
    };
    let near: Vec<usize> = (0..inside.len()).filter(near).collect();
    let lines = |q: &usize| {
        let pages: u64 = choices[*q].locked.values().map(|&k| k as u64).sum();
        pages.saturating_mul(u64::from(inside[*q].resources.platform.lines_per_page()))
    };
    Others {
        any: near.iter().any(|&q| !inside[q].tasks().is_empty()),
        locked_lines: near.iter().map(lines).fold(0, u64::saturating_add),
        private_lines: near.iter().map(|&q| inside[q].cached_lines()).fold(0, u64::saturating_add),
    }
}
