//! Random systems planned with even and with optimal shares, as JSON lines (`bench/shares.py`).
//!
//! `shares PROFILES COUNT SEED [LEVELS]`: four cores of a Core i5-2500K. At each level of
//! utilization, from 0.2 on in steps of 0.2, COUNT systems of 8 to 16 tasks. Utilizations and periods
//! are those of `solocore_study::sporadic`: uniform with a given sum, at most 0.6 each, and
//! log-uniform from 10 to 200 ms. A task has the lockdown curve of a random profile in PROFILES,
//! scaled so that its time alone, with the whole cache and row hits, is its share of its period. In
//! every second system two more programs are best effort, with the demands of profiles.
//!
//! Each line has the verdicts, the tasks and the nanoseconds of both plannings. With the word
//! `systems` in place of LEVELS, the system files are printed instead.

use solocore_analysis::SporadicTask;
use solocore_model::{Platform, System};
use solocore_planner::{Demand, plan};
use solocore_study::random::Stream;
use solocore_study::sporadic::{Deadlines, Generator, Periods, Scratch, Simplex, Utilizations};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Names the streams of these systems.
const PURPOSE: u64 = u64::from_le_bytes(*b"shares\0\0");
/// Levels of utilization, and their distance in thousandths.
const LEVELS: (u32, u32) = (14, 200);

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: shares PROFILES COUNT SEED [LEVELS | systems]";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, count, seed, rest @ ..] = arguments.as_slice() else {
        return Err(usage.into());
    };
    let platform = Platform::find("core-i5-2500k", Path::new("."))?;
    let programs = profiles(Path::new(directory), &platform)?;
    let show = rest.first().is_some_and(|word| word == "systems");
    let levels = rest.first().filter(|_| !show).map_or(Ok(LEVELS.0), |n| n.parse())?;
    for level in 1..=levels {
        for index in 0..count.parse()? {
            let text = system(seed.parse()?, level * LEVELS.1, index, &programs, &platform)?;
            if show {
                println!("# level {level}, system {index}\n{text}");
                continue;
            }
            let name = serde_json::json!({"level": level, "index": index});
            let mut line = serde_json::json!({"utilization": f64::from(level * LEVELS.1) / 1000.0});
            for share in ["even", "optimal"] {
                let text = text.replacen("SHARE", share, 1);
                let system = System::parse(Path::new("system.toml"), &text)?;
                let demands: Vec<Demand> =
                    system.tasks.iter().filter_map(|t| Demand::stated(&t.demand)).collect();
                let begun = Instant::now();
                let made = plan(&system, &demands)?;
                let nanoseconds = u64::try_from(begun.elapsed().as_nanos())?;
                line["tasks"] = system.tasks.len().into();
                line[share] = serde_json::json!({
                    "schedulable": made.schedulable,
                    "nanoseconds": nanoseconds,
                    "reason": made.reasons.first(),
                });
            }
            line["name"] = name;
            println!("{line}");
        }
    }
    Ok(())
}

/// All profiles of a directory, by name.
fn profiles(directory: &Path, platform: &Platform) -> Result<Vec<Demand>, Box<dyn Error>> {
    let files: Result<Vec<PathBuf>, _> =
        std::fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect();
    let mut files = files?;
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort();
    if files.is_empty() {
        return Err(format!("{} has no profiles (*.json)", directory.display()).into());
    }
    files.iter().map(|path| Ok(Demand::of_file(path, platform)?)).collect()
}

/// A random system as the text of its file.
fn system(
    seed: u64,
    milli: u32,
    index: u64,
    programs: &[Demand],
    platform: &Platform,
) -> Result<String, Box<dyn Error>> {
    let mut stream = Stream::new([PURPOSE, seed, u64::from(milli), index]);
    let best_effort = 2 * (index % 2);
    let analysed = 8 + stream.below(9) as usize - best_effort as usize;
    let total = f64::from(milli) / 1000.0;
    let generator = Generator {
        utilizations: Utilizations::Simplex(Simplex::new(
            &vec![0.0; analysed],
            &vec![0.6; analysed],
            total,
        )?),
        periods: Periods::log_uniform(10_000, 200_000, 100)?,
        deadlines: Deadlines::Implicit,
        seed: seed.wrapping_mul(1000).wrapping_add(u64::from(milli)),
    };
    let mut tasks: Vec<SporadicTask> = Vec::new();
    generator.set(index, &mut Scratch::default(), &mut tasks)?;
    let mut text = format!(
        "platform = \"{}\"\n[regulation]\npolicy = \"memguard\"\nshare = \"SHARE\"\n",
        platform.name
    );
    let mut any = || &programs[stream.below(u32::try_from(programs.len()).unwrap_or(1)) as usize];
    let most = usize::try_from(u64::from(platform.llc.ways) * platform.pages_per_way())?;
    for (number, task) in tasks.iter().enumerate() {
        let program = any();
        let (alone, _) = program.alone(platform);
        let factor = task.wcet as f64 * 1e6 / alone as f64;
        let pages = program.page_accesses().count().min(most);
        let point = |k: usize| {
            let wcet = (program.wcet_ps(k, platform) as f64 * factor).ceil() as u64;
            let misses = (program.misses(k) as f64 * factor).ceil() as u64;
            format!("{{ wcet = \"{} ns\", misses = {misses} }}", wcet.div_ceil(1000))
        };
        let curve: Vec<String> = (0..=pages).map(point).collect();
        writeln!(
            text,
            "[[task]]\nname = \"t{number}\"\nperiod = \"{} us\"\ncurve = [{}]",
            task.period,
            curve.join(", ")
        )?;
    }
    for number in 0..best_effort {
        let (alone, misses) = any().alone(platform);
        writeln!(
            text,
            "[[task]]\nname = \"d{number}\"\ncriticality = \"D\"\nwcet = \"{} ns\"\nmisses = {misses}",
            alone.div_ceil(1000)
        )?;
    }
    Ok(text)
}
