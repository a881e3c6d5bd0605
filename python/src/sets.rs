//! Many task sets: drawn, and tested.

use crate::columns::{Column, Output};
use crate::errors::Error;
use crate::work;
use pyo3::prelude::*;
use solocore_analysis::named::{Analyst, Test};
use solocore_analysis::{Derivation, SporadicTask, TaskSet};
use solocore_study::sporadic::{self, Deadlines, Periods, Scratch, Simplex, Utilizations};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of sets that a thread takes at a time.
const CHUNK: usize = 256;
/// The verdict of a refused set.
const REFUSED: u8 = 2;

/// Names of all tests.
pub fn names() -> Vec<&'static str> {
    Test::ALL.map(Test::name).to_vec()
}

fn named(test: &str) -> Result<Test, Error> {
    Test::ALL.into_iter().find(|t| t.name() == test).ok_or_else(|| {
        let (test, all) = (test.escape_debug(), names().join(", "));
        Error::input(format!("tests: there is no test `{test}`; take one of: {all}"))
    })
}

/// Columns of task sets.
struct Sets<'a> {
    offsets: &'a [i64],
    wcet: &'a [u64],
    period: &'a [u64],
    deadline: &'a [u64],
    cores: &'a [u32],
}

impl Sets<'_> {
    /// Checks that the offsets fit the columns.
    fn check(&self) -> Result<(), Error> {
        let tasks = self.wcet.len();
        let fit = self.offsets.len() == self.cores.len() + 1
            && self.period.len() == tasks
            && self.deadline.len() == tasks
            && self.offsets[0] == 0
            && self.offsets.is_sorted()
            && usize::try_from(self.offsets[self.cores.len()]).is_ok_and(|end| end == tasks);
        if fit { Ok(()) } else { Err(Error::input("columns: their lengths do not fit together")) }
    }

    /// Range of a set's tasks.
    fn range(&self, set: usize) -> std::ops::Range<usize> {
        // `check` has found the offsets in order, from 0 to the number of tasks.
        let at = |i: usize| usize::try_from(self.offsets[i]).unwrap_or(0);
        at(set)..at(set + 1)
    }

    fn load(&self, set: usize, into: &mut TaskSet) {
        let range = self.range(set);
        into.cores = self.cores[set];
        into.tasks.clear();
        let numbers = self.wcet[range.clone()].iter().zip(&self.period[range.clone()]);
        let task = |((&wcet, &period), &deadline)| SporadicTask { wcet, period, deadline };
        into.tasks.extend(numbers.zip(&self.deadline[range]).map(task));
    }
}

/// Tests sets: fills `verdicts` (0 no, 1 yes, 2 refused), and unless they are None `bounds` and
/// `known` (whether there is a bound), one for each task. Gives the reasons of refused sets by
/// index.
#[pyfunction]
#[pyo3(signature = (test, offsets, wcet, period, deadline, cores, verdicts, bounds, known, threads, progress))]
#[allow(clippy::too_many_arguments, reason = "columns of one call; python/solocore names them")]
pub fn analyze(
    py: Python<'_>,
    test: &str,
    offsets: &Bound<'_, PyAny>,
    wcet: &Bound<'_, PyAny>,
    period: &Bound<'_, PyAny>,
    deadline: &Bound<'_, PyAny>,
    cores: &Bound<'_, PyAny>,
    verdicts: &Bound<'_, PyAny>,
    bounds: Option<&Bound<'_, PyAny>>,
    known: Option<&Bound<'_, PyAny>>,
    threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(usize, String)>> {
    let test = named(test)?;
    let columns = (
        Column::of(offsets, "offsets")?,
        Column::of(wcet, "wcet")?,
        Column::of(period, "period")?,
        Column::of(deadline, "deadline")?,
        Column::of(cores, "cores")?,
    );
    let sets = Sets {
        offsets: columns.0.values(),
        wcet: columns.1.values(),
        period: columns.2.values(),
        deadline: columns.3.values(),
        cores: columns.4.values(),
    };
    sets.check()?;
    let (count, tasks) = (sets.cores.len(), sets.wcet.len());
    let verdicts = Output::<u8>::of(verdicts, count, "verdicts")?;
    let outputs = match (bounds, known) {
        (Some(bounds), Some(known)) => Some((
            Output::<u64>::of(bounds, tasks, "bounds")?,
            Output::<u8>::of(known, tasks, "known")?,
        )),
        _ => None,
    };
    // SAFETY: python/solocore allocates the outputs for this call, and no other code has them.
    let verdicts_at = unsafe { verdicts.place() };
    // SAFETY: as above.
    let outputs_at = outputs.as_ref().map(|(b, k)| unsafe { (b.place(), k.place()) });
    work::run(py, progress, |watch| {
        let (next, reasons) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let test_some = || {
            let mut analyst = Analyst::new(test);
            let mut set = TaskSet { cores: 0, tasks: Vec::new() };
            loop {
                let begin = next.fetch_add(CHUNK, Relaxed);
                if begin >= count || !watch.step(begin as f64 / count as f64) {
                    return;
                }
                for index in begin..(begin + CHUNK).min(count) {
                    if watch.stopped() {
                        return;
                    }
                    sets.load(index, &mut set);
                    let decided = analyst.decide(&set);
                    // SAFETY: each index belongs to one thread.
                    let verdict = unsafe { verdicts_at.part(index..index + 1) };
                    verdict[0] = decided.as_ref().map_or(REFUSED, |yes| u8::from(*yes));
                    if let Err(error) = &decided
                        && let Ok(mut reasons) = reasons.lock()
                    {
                        reasons.push((index, error.to_string()));
                    }
                    let Some((bounds, known)) = &outputs_at else { continue };
                    // SAFETY: sets have disjoint ranges of tasks, each set belongs to one thread.
                    let (bounds, known) =
                        unsafe { (bounds.part(sets.range(index)), known.part(sets.range(index))) };
                    let found = analyst.bounds().iter().map(|b| b.filter(|_| decided.is_ok()));
                    for ((bound, known), found) in bounds.iter_mut().zip(known).zip(found) {
                        (*bound, *known) = (found.unwrap_or(0), u8::from(found.is_some()));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.clamp(1, count.div_ceil(CHUNK).max(1)) {
                scope.spawn(test_some);
            }
            test_some();
        });
        let mut reasons = reasons.into_inner().unwrap_or_default();
        reasons.sort_unstable();
        Ok(reasons)
    })
}

/// The derivation of the verdict on a set: as JSON, and as text.
#[pyfunction]
pub fn explain(
    test: &str,
    cores: u32,
    wcet: Vec<u64>,
    period: Vec<u64>,
    deadline: Vec<u64>,
) -> PyResult<(String, String)> {
    let tasks = wcet.iter().zip(&period).zip(&deadline);
    let tasks = tasks
        .map(|((&wcet, &period), &deadline)| SporadicTask { wcet, period, deadline })
        .collect();
    let found = Analyst::new(named(test)?)
        .explain(&TaskSet { cores, tasks })
        .map_err(|e| Error::input(e.to_string()))?;
    Ok((serde_json::to_string(&found).unwrap_or_default(), found.to_string()))
}

/// A derivation, given as JSON, as text.
#[pyfunction]
pub fn derivation_text(json: &str) -> PyResult<String> {
    let found: Derivation = serde_json::from_str(json)
        .map_err(|e| Error::input(format!("derivation: {e}; give one of a plan")))?;
    Ok(found.to_string())
}

/// A distribution of task sets.
#[pyclass(frozen)]
pub struct Generator {
    inner: sporadic::Generator,
    tasks: usize,
}

#[pymethods]
impl Generator {
    /// `periods` is (kind, low, high, step); (kind, milliseconds, 0, 0) for "automotive".
    #[new]
    fn new(
        lower: Vec<f64>,
        upper: Vec<f64>,
        utilization: f64,
        method: &str,
        periods: (String, u64, u64, u64),
        deadlines: &str,
        seed: u64,
    ) -> PyResult<Self> {
        let tasks = lower.len();
        let simplex = Simplex::new(&lower, &upper, utilization).map_err(Error::from)?;
        let utilizations = match method {
            "simplex" => Utilizations::Simplex(simplex),
            "uunifast-discard" => Utilizations::Discard(simplex),
            other => return Err(choice("method", other, "simplex, uunifast-discard")),
        };
        let (kind, low, high, step) = periods;
        let periods = match kind.as_str() {
            "log-uniform" => Periods::log_uniform(low, high, step),
            "harmonic" => Periods::harmonic(low, high),
            "automotive" => Periods::automotive(low),
            other => return Err(choice("periods", other, "log-uniform, harmonic, automotive")),
        }
        .map_err(Error::from)?;
        let deadlines = match deadlines {
            "implicit" => Deadlines::Implicit,
            "constrained" => Deadlines::Constrained,
            other => return Err(choice("deadlines", other, "implicit, constrained")),
        };
        let inner = sporadic::Generator { utilizations, periods, deadlines, seed };
        Ok(Self { inner, tasks })
    }

    /// Fills columns with `count` sets from index `first` on.
    #[allow(clippy::too_many_arguments, reason = "columns of one call")]
    fn fill(
        &self,
        py: Python<'_>,
        first: u64,
        count: usize,
        wcet: &Bound<'_, PyAny>,
        period: &Bound<'_, PyAny>,
        deadline: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<()> {
        let n = self.tasks;
        let total = count.checked_mul(n).ok_or_else(|| Error::input("sets: are too many"))?;
        let columns = (
            Output::<u64>::of(wcet, total, "wcet")?,
            Output::<u64>::of(period, total, "period")?,
            Output::<u64>::of(deadline, total, "deadline")?,
        );
        // SAFETY: python/solocore allocates the columns for this call, and no other code has them.
        let places = unsafe { (columns.0.place(), columns.1.place(), columns.2.place()) };
        work::run(py, None, |watch| {
            let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
            let draw_some = || {
                let (mut scratch, mut tasks) = (Scratch::default(), Vec::new());
                loop {
                    let begin = next.fetch_add(CHUNK, Relaxed);
                    if begin >= count {
                        return;
                    }
                    for index in begin..(begin + CHUNK).min(count) {
                        if watch.stopped() {
                            return;
                        }
                        let drawn = self.inner.set(first + index as u64, &mut scratch, &mut tasks);
                        if let Err(error) = drawn {
                            next.store(count, Relaxed);
                            if let Ok(mut failed) = failed.lock() {
                                *failed = Some(error);
                            }
                            return;
                        }
                        let range = index * n..(index + 1) * n;
                        // SAFETY: each index belongs to one thread.
                        let (c, t, d) = unsafe {
                            (
                                places.0.part(range.clone()),
                                places.1.part(range.clone()),
                                places.2.part(range),
                            )
                        };
                        for (i, task) in tasks.iter().enumerate() {
                            (c[i], t[i], d[i]) = (task.wcet, task.period, task.deadline);
                        }
                    }
                }
            };
            std::thread::scope(|scope| {
                for _ in 1..threads.clamp(1, count.div_ceil(CHUNK).max(1)) {
                    scope.spawn(draw_some);
                }
                draw_some();
            });
            failed.into_inner().ok().flatten().map_or(Ok(()), |e| Err(e.into()))
        })
    }
}

fn choice(key: &str, found: &str, choices: &str) -> PyErr {
    let found = found.escape_debug();
    Error::input(format!("{key}: there is no `{found}`; take one of: {choices}")).into()
}
