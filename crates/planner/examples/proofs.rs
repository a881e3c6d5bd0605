//! Plans systems with a time limit, and says which plans are proved, as JSON lines.
//!
//! `proofs SECONDS TASKS`: reads system files from the standard input, each after a line that
//! begins with `#`, as the example `shares` of crates/study prints them with `systems`. Those with
//! at least this number of tasks are planned with optimal shares, each for at most this time. Each
//! line has the name, the verdict, the certificate and the seconds.

use solocore_model::System;
use solocore_planner::{Demand, Patience, plan_until};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, tasks] = arguments.as_slice() else {
        return Err("usage: proofs SECONDS TASKS < SYSTEMS".into());
    };
    let (limit, tasks) = (seconds.parse::<f64>()?, tasks.parse::<usize>()?);
    let text = std::io::read_to_string(std::io::stdin())?;
    let files = text.split("\n# ").map(|file| file.trim_start_matches("# "));
    for (name, file) in files.filter_map(|file| file.split_once('\n')) {
        if file.matches("[[task]]").count() < tasks {
            continue;
        }
        let file = file.replacen("SHARE", "optimal", 1);
        let system = System::parse(Path::new("system.toml"), &file)?;
        let demands: Vec<Demand> =
            system.tasks.iter().filter_map(|t| Demand::stated(&t.demand)).collect();
        let begun = Instant::now();
        let stop = || begun.elapsed().as_secs_f64() >= limit;
        let patience = Patience { stop: &stop, share: &|_| {}, endless: true, prices: None };
        let plan = plan_until(&system, &demands, patience)?;
        let line = serde_json::json!({
            "name": name,
            "tasks": system.tasks.len(),
            "schedulable": plan.schedulable,
            "certificate": plan.certificate,
            "reason": plan.reasons.first(),
            "seconds": begun.elapsed().as_secs_f64(),
        });
        println!("{line}");
    }
    Ok(())
}
