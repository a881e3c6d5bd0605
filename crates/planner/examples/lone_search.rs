//! One search for a time table by itself, as a line of JSON.
//!
//! `lone_search hos|exact FILE SECONDS`: the heuristic of single-core-equivalence, section 2.4, or
//! the exact search, for at most this time of the processor. The line has the answer (`found`,
//! `infeasible`, `not found`), the look-ups, and the seconds. `bench/schedule_io.py --lone`
//! compares both with CP-SAT.

mod clock;

use clock::seconds_run;
use solocore_model::WindowsInput;
use solocore_planner::windows::solver::{Lone, Problem, alone};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [which, file, seconds] = arguments.as_slice() else {
        return Err("usage: lone_search hos|exact FILE SECONDS".into());
    };
    let which = match which.as_str() {
        "hos" => Lone::Hos,
        "exact" => Lone::Exact,
        other => return Err(format!("`{other}` is no search: hos or exact").into()),
    };
    let limit: f64 = seconds.parse()?;
    let problem = Problem::new(&WindowsInput::load(Path::new(file))?);
    let begun = seconds_run();
    let work = alone(&problem, which, 1, u64::MAX, &|| seconds_run() - begun >= limit);
    let answer = match work {
        Some(work) if work.found => "found",
        Some(_) => "infeasible",
        None => "not found",
    };
    let line = serde_json::json!({
        "answer": answer,
        "look_ups": work.map(|work| work.look_ups),
        "seconds": seconds_run() - begun,
    });
    println!("{line}");
    Ok(())
}
