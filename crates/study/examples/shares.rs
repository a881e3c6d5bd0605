//! Random systems planned with even and with optimal shares, as JSON lines (`bench/shares.py`).
//!
//! `shares PROFILES COUNT SEED [LEVELS | systems | tables | judge]`: four cores of a Core i5-2500K.
//! At each level of utilization, from 0.2 on in steps of 0.2, COUNT systems of 8 to 16 tasks.
//! Utilizations and periods are those of `solocore_study::sporadic`: uniform with a given sum, at
//! most 0.6 each, and log-uniform from 10 to 200 ms. A task has the lockdown curve of a random
//! profile in PROFILES, scaled so that its time alone, with the whole cache and row hits, is its
//! share of its period. In every second system two more programs are best effort, with the demands
//! of profiles.
//!
//! Each line has the verdicts, the tasks and the nanoseconds of both plannings. A word in place of
//! LEVELS asks for something else about the same systems:
//! * `systems`: the system files.
//! * `tables`: the input of other allocators ([`tables`]), a JSON line for each system.
//! * `judge`: reads lines `{"level", "index", "allotments"}` and answers each with a line
//!   `{"schedulable": [...]}`, by the bounds of plans ([`judged`]).

use serde::Deserialize as _;
use serde_json::{Value, json};
use solocore_analysis::SporadicTask;
use solocore_model::{Platform, System};
use solocore_planner::{Allotment, Demand, Judge, judge, plan};
use solocore_study::random::Stream;
use solocore_study::sporadic::{Deadlines, Generator, Periods, Scratch, Simplex, Utilizations};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Names the streams of these systems.
const PURPOSE: u64 = u64::from_le_bytes(*b"shares\0\0");
/// Levels of utilization, and their distance in thousandths.
const LEVELS: (u32, u32) = (14, 200);
/// Units of bandwidth in the tables.
const UNITS: u64 = 12;
/// The budgets of all cores together in the tables, in parts of the bus: all, 1/2, 1/4, 1/8.
const PARTS_OF_BUS: [u64; 4] = [1, 2, 4, 8];
/// Locked pages in the tables, in thousandths of the most that one core can have.
const PAGES: [u64; 13] = [0, 10, 20, 40, 80, 120, 160, 240, 320, 480, 640, 800, 1000];

type Failure = Box<dyn Error>;

/// What the random systems are made of.
struct Source {
    programs: Vec<Demand>,
    platform: Platform,
    seed: u64,
}

fn main() -> Result<(), Failure> {
    let usage = "usage: shares PROFILES COUNT SEED [LEVELS | systems | tables | judge]";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, count, seed, rest @ ..] = arguments.as_slice() else {
        return Err(usage.into());
    };
    let platform = Platform::find("core-i5-2500k", Path::new("."))?;
    let programs = profiles(Path::new(directory), &platform)?;
    let source = Source { programs, platform, seed: seed.parse()? };
    let word = rest.first().map_or("", String::as_str);
    if word == "judge" {
        return answer(&source);
    }
    let words = ["", "systems", "tables"];
    let levels = if words.contains(&word) { LEVELS.0 } else { word.parse()? };
    for level in 1..=levels {
        for index in 0..count.parse()? {
            match word {
                "systems" => {
                    println!("# level {level}, system {index}\n{}", source.text(level, index)?);
                }
                "tables" => println!("{}", source.judge(level, index, tables)?),
                _ => println!("{}", verdicts(&source, level, index)?),
            }
        }
    }
    Ok(())
}

/// The verdicts of both plannings of a system.
fn verdicts(source: &Source, level: u32, index: u64) -> Result<Value, Failure> {
    let text = source.text(level, index)?;
    let mut line = json!({"utilization": f64::from(level * LEVELS.1) / 1000.0});
    for share in ["even", "optimal"] {
        let (system, demands) = parsed(&text, share)?;
        let begun = Instant::now();
        let made = plan(&system, &demands)?;
        let nanoseconds = u64::try_from(begun.elapsed().as_nanos())?;
        line["tasks"] = system.tasks.len().into();
        line[share] = json!({
            "schedulable": made.schedulable,
            "nanoseconds": nanoseconds,
            "reason": made.reasons.first(),
        });
    }
    line["name"] = json!({"level": level, "index": index});
    Ok(line)
}

/// A system with its demands, which the file states.
fn parsed(text: &str, share: &str) -> Result<(System, Vec<Demand>), Failure> {
    let text = text.replacen("SHARE", share, 1);
    let system = System::parse(Path::new("system.toml"), &text)?;
    let demands = system.tasks.iter().filter_map(|t| Demand::stated(&t.demand)).collect();
    Ok((system, demands))
}

/// The input of other allocators. `executions` of each analysed task has the execution time beside
/// the other cores in ps, by part of the bus, then by units of bandwidth of the task's core (from
/// 1), then by its locked pages; null: no bound. The tables assume that the bus, or the stated part
/// of it, is shared out entirely: the other cores have all units that the core does not have.
/// `once_ps` comes once per busy window. Best effort has no executions.
fn tables(judge: &Judge, system: &System) -> Value {
    // Each other core has one way at least.
    let most = judge.ways() + 1 - judge.cores();
    let whole = judge.pages_in(most);
    let pages: Vec<usize> = PAGES.iter().map(|&part| (whole * part / 1000) as usize).collect();
    let others = u64::from(judge.cores() - 1);
    let totals: Vec<u64> = PARTS_OF_BUS.iter().map(|part| judge.bus() / part).collect();
    let beside = |total: u64, units: u64| {
        let own = total * units / UNITS;
        let each = |other: u64| (total - own) / others + u64::from(other < (total - own) % others);
        let budgets: Vec<u64> = (0..others).map(each).collect();
        judge.executions_ps(own, &budgets, &pages)
    };
    // By part of the bus, units, task and pages.
    let all: Vec<Vec<_>> = totals
        .iter()
        .map(|&total| (1..=UNITS - others).map(|units| beside(total, units)).collect())
        .collect();
    let task = |(at, task): (usize, &solocore_model::system::SystemTask)| {
        let of = |units: &Vec<Vec<Vec<Option<u64>>>>| -> Value {
            units.iter().map(|tasks| json!(tasks[at])).collect()
        };
        json!({
            "name": task.name,
            "period_ps": task.period.map(|p| p.ps()),
            "deadline_ps": task.deadline.map(|d| d.ps()),
            "executions": task.period.map(|_| all.iter().map(of).collect::<Value>()),
        })
    };
    json!({
        "cores": judge.cores(),
        "ways": judge.ways(),
        "pages_in_ways": (0..=most).map(|w| judge.pages_in(w)).collect::<Vec<_>>(),
        "pages": pages,
        "units": UNITS,
        "totals": totals,
        "once_ps": judge.once_ps(),
        "tasks": system.tasks.iter().enumerate().map(task).collect::<Value>(),
    })
}

/// Answers each line of standard input with the verdicts of its allotments.
fn answer(source: &Source) -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let number = |key: &str| {
            asked[key].as_u64().ok_or_else(|| format!("\"{key}\" is not a number; state one"))
        };
        let (level, index) = (u32::try_from(number("level")?)?, number("index")?);
        let allotments =
            asked["allotments"].as_array().ok_or("\"allotments\" is not a list; state one")?;
        let made: Vec<Allotment> = allotments.iter().map(allotment).collect::<Result<_, _>>()?;
        let found = source.judge(level, index, |judge, _| judged(judge, &made))??;
        println!("{}", json!({"schedulable": found}));
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// The verdicts of the planner's analysis on allotments.
fn judged(judge: &Judge, allotments: &[Allotment]) -> Result<Vec<bool>, Failure> {
    allotments.iter().map(|a| Ok(judge.meets(a)?)).collect()
}

/// An allotment as JSON: `placement` by task, `ways` and `budgets` by core, `pages` by task or
/// null.
fn allotment(stated: &Value) -> Result<Allotment, Failure> {
    let list = |key: &str| Vec::<u64>::deserialize(&stated[key]);
    let small =
        |list: Vec<u64>| list.into_iter().map(u32::try_from).collect::<Result<Vec<u32>, _>>();
    Ok(Allotment {
        placement: small(list("placement")?)?,
        ways: small(list("ways")?)?,
        budgets: list("budgets")?,
        pages: Option::<Vec<usize>>::deserialize(&stated["pages"])?,
    })
}

impl Source {
    /// A system as the text of its file.
    fn text(&self, level: u32, index: u64) -> Result<String, Failure> {
        system(self.seed, level * LEVELS.1, index, &self.programs, &self.platform)
    }

    /// Calls `ask` with the judge of a system.
    fn judge<T>(
        &self,
        level: u32,
        index: u64,
        ask: impl FnOnce(&Judge, &System) -> T,
    ) -> Result<T, Failure> {
        let (system, demands) = parsed(&self.text(level, index)?, "even")?;
        Ok(judge(&system, &demands, |judge| ask(judge, &system))?)
    }
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
    files.iter().map(|path| Ok(Demand::of_file(path, platform, None)?)).collect()
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
    let most = usize::try_from(u64::from(platform.llc.ways) * u64::from(platform.pages_per_way()))?;
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
