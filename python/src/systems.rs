//! Systems planned and simulated, and time tables.

use crate::errors::Error;
use crate::work;
use pyo3::prelude::*;
use solocore_model::results::Mode;
use solocore_model::system;
use solocore_model::system::text::SystemText;
use solocore_model::{Time, WindowsInput, files};
use solocore_planner::windows::solver::{outcome, table};
use solocore_planner::{Demand, Patience};
use solocore_profile::carried;
use solocore_sim::Options;
use solocore_sim::scenario::{self, Scenario};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Default simulated time of a plan, ns.
const SECOND_NS: u64 = 1_000_000_000;

/// The text of a file, unless the caller has it.
fn text_of(path: &Path, text: Option<String>) -> Result<String, Error> {
    Ok(text.map_or_else(|| files::read_text(path), Ok)?)
}

/// Plans a system: the plan as JSON; None if a task's command must be profiled first.
#[pyfunction]
pub fn plan(
    py: Python<'_>,
    path: PathBuf,
    text: Option<String>,
    changes: Vec<String>,
    limit_s: Option<f64>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<String>> {
    let limit = limit_s.map(Duration::try_from_secs_f64).transpose();
    let limit = limit.map_err(|e| Error::input(format!("time_limit: {e}; give seconds")))?;
    work::run(py, progress, |watch| {
        let mut text = SystemText::new(&path, text_of(&path, text)?);
        for change in &changes {
            text = text.with(change)?;
        }
        let system = text.system()?;
        let mut demands = Vec::with_capacity(system.tasks.len());
        for task in &system.tasks {
            demands.push(match &task.demand {
                system::Demand::Command(_) => return Ok(None),
                system::Demand::Profile(file) => {
                    let core = system.pinned(task);
                    Demand::of_file(&system.dir().join(file), &system.platform, core)?
                }
                stated => match Demand::stated(stated) {
                    Some(demand) => demand,
                    None => return Ok(None),
                },
            });
        }
        let began = Instant::now();
        let stop = || watch.stopped() || limit.is_some_and(|limit| began.elapsed() >= limit);
        let share = |done: f64| {
            watch.step(done);
        };
        let patience =
            Patience { stop: &stop, share: &share, endless: limit.is_some(), prices: None };
        let mut plan = solocore_planner::plan_until(&system, &demands, patience)
            .map_err(|e| Error::from(e).of(&path))?;
        let stop = || watch.stopped();
        solocore_planner::repair(&text, &system, &demands, &plan, &stop).write_into(&mut plan);
        Ok(Some(files::to_json(&plan)))
    })
}

/// Writes a plan, given as JSON, with the profiles that it refers to.
#[pyfunction]
pub fn save_plan(py: Python<'_>, json: String, path: PathBuf) -> PyResult<()> {
    work::run(py, None, |_| {
        let plan = serde_json::from_str(&json)
            .map_err(|e| Error::input(format!("plan: {e}; give what `plan` gave")))?;
        Ok(carried::write(&path, &plan)?)
    })
}

/// Simulates a plan, given as JSON, or a scenario, given as TOML: the result as JSON. The defaults
/// of duration and seed are those of the scenario, or a second and 1.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "python/solocore names them")]
pub fn simulate(
    py: Python<'_>,
    path: PathBuf,
    text: Option<String>,
    mode: &str,
    duration_ns: Option<u64>,
    seed: Option<u64>,
    timeline_ns: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let mode = match mode {
        "managed" => Mode::Managed,
        "unmanaged" => Mode::Unmanaged,
        "solo" => Mode::Solo,
        other => {
            let other = other.escape_debug();
            let why = format!("mode: there is no `{other}`; take one of: managed, unmanaged, solo");
            return Err(Error::input(why).into());
        }
    };
    if duration_ns.is_some_and(|d| d == 0 || d > 24 * 3600 * 1_000_000_000) {
        return Err(Error::input(
            "duration: is not within a nanosecond and 24 hours; give seconds above 0",
        )
        .into());
    }
    work::run(py, progress, |watch| {
        let text = text_of(&path, text)?;
        if Scenario::is_one(&text) {
            let mut scenario = Scenario::parse(&path, &text)?;
            if mode != Mode::Managed {
                return Err(Error::input(format!(
                    "mode: {} is a scenario, which says itself how its tasks run; leave mode out",
                    path.display()
                )));
            }
            let s = &mut scenario.simulation;
            s.duration = duration_ns.map_or(s.duration, Time::from_ns);
            s.seed = seed.unwrap_or(s.seed);
            let (prepared, step) = (scenario::prepare(&scenario)?, |share| watch.step(share));
            let result = scenario::run(&scenario, prepared, timeline_ns, false, &step)?;
            return Ok(files::to_json(&result));
        }
        let (duration_ns, seed) = (duration_ns.unwrap_or(SECOND_NS), seed.unwrap_or(1));
        let options = Options { mode, duration_ns, seed, timeline_ns };
        let (plan, _carried) = carried::open(&path, &text)?;
        let result = solocore_sim::simulate(&plan, &options, &|share| watch.step(share))?;
        Ok(files::to_json(&result))
    })
}

/// Looks for a time table: the answer in the form of the command, and the table in the form of its
/// file.
#[pyfunction]
pub fn schedule_io(
    py: Python<'_>,
    path: PathBuf,
    text: Option<String>,
    seed: u64,
    limit_s: f64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    let limit = Duration::try_from_secs_f64(limit_s)
        .map_err(|e| Error::input(format!("time_limit: {e}; give seconds")))?;
    let named = Time::from_ns(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 1000));
    work::run(py, progress, |watch| {
        let instance = WindowsInput::parse(&path, &text_of(&path, text)?)?;
        let began = Instant::now();
        let stop = || {
            let spent = began.elapsed();
            !watch.step(spent.as_secs_f64() / limit.as_secs_f64().max(1e-9)) || spent >= limit
        };
        let found = outcome::search(&instance, seed, named, &stop);
        Ok((files::to_json(&found.document(&instance)), table::to_json(&found.rows)))
    })
}
