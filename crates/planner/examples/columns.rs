//! Tables of the planner's bounds for a mixed integer program (`bench/referee.py`).
//!
//! Reads a JSON line for each request, and answers it with one:
//! * `{"system", "seconds"}`: the plan with optimal shares, after a search for a proof of at most
//!   this time. `system` is the text of a system file.
//! * `{"system", "limit", "step", "floor"}`: all columns. A column is a core with some tasks and a number of
//!   ways. `low` and `high` say beside which budgets of the others it keeps its responses within
//!   `limit` millionths of their deadlines ([`Points`]). The own budgets grow by the factor `step`.
//!   `floor` is the share that programs have at least, a quarter of an even budget if left out. A
//!   core without tasks has no more than that.
//!
//! Where only the sum of the others' budgets counts, `low` and `high` are the same. Where the jobs
//! of the others count, `low` is beside at least the accesses that they make in any choice, and
//! `high` beside at most these. On two cores both are exact.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use solocore_model::System;
use solocore_model::system::Criticality;
use solocore_planner::{Column, Demand, Judge, Patience, Rest, judge, plan_until};
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Budgets are found to this part of themselves.
const FINE: u64 = 1000;
/// Budgets grow by this part of all even budgets together at least.
const PARTS: u64 = 200;
/// Budget of a core without tasks, at most.
const LEAST: u64 = 800;

type Failure = Box<dyn Error>;

#[derive(Deserialize)]
struct Request {
    system: String,
    seconds: Option<f64>,
    #[serde(default)]
    limit: u64,
    #[serde(default)]
    step: f64,
    floor: Option<u64>,
}

fn main() -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let asked: Request = serde_json::from_str(&line?)?;
        let system = System::parse(Path::new("system.toml"), &asked.system)?;
        let demands: Vec<Demand> =
            system.tasks.iter().filter_map(|t| Demand::stated(&t.demand)).collect();
        let answer = match asked.seconds {
            Some(seconds) => planned(&system, &demands, seconds)?,
            None => judge(&system, &demands, |judge| table(judge, &system, &asked))??,
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn planned(system: &System, demands: &[Demand], seconds: f64) -> Result<Value, Failure> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let stop = || Instant::now() >= end;
    let patience = Patience { stop: &stop, share: &|_| {}, endless: true, prices: None };
    Ok(serde_json::to_value(plan_until(system, demands, patience)?)?)
}

/// The budgets with which a column keeps to the limit, from the least to the largest.
#[derive(Serialize)]
struct Points {
    /// The core needs this budget at least.
    need: u64,
    /// Budgets of the core, each with a sum of the others' budgets beside which it keeps to the
    /// limit, and a larger one beside which it does not.
    by_budget: Vec<[u64; 3]>,
    /// With any budget, it does not keep to the limit beside this sum of the others'.
    end: u64,
}

/// The system as the program sees it.
struct Bounds<'a> {
    judge: &'a Judge<'a>,
    hard: Vec<bool>,
    limit: u64,
    step: f64,
    unit: u64,
    bus: u64,
    idle: u64,
}

fn table(judge: &Judge, system: &System, asked: &Request) -> Result<Value, Failure> {
    let hard: Vec<bool> = system.tasks.iter().map(|t| t.criticality != Criticality::D).collect();
    let period_ps = system.regulation.period.ps();
    let bus = period_ps / system.platform.dram.t_burst.ps().max(1);
    let floor = asked.floor.unwrap_or(judge.even_budget() / 4).max(1);
    let idle = floor.min(LEAST);
    let known = !system.regulation.other_programs && hard.iter().all(|&hard| hard);
    let unit = judge.even_budget() * u64::from(judge.cores()) / PARTS + 1;
    let bounds = Bounds { judge, hard, limit: asked.limit, step: asked.step, unit, bus, idle };
    let columns = bounds.columns(known)?;
    Ok(json!({
        "cores": judge.cores(),
        "ways": judge.ways(),
        "bus": bus,
        "period_ps": period_ps,
        "floor": floor,
        "idle": idle,
        "unit": unit,
        "known": known,
        "columns": columns,
    }))
}

impl Bounds<'_> {
    /// The columns with analysed tasks that keep to the limit beside almost idle cores. Numbers of
    /// ways that lock the same pages give the same column, unless the others' pages count.
    fn columns(&self, known: bool) -> Result<Vec<Value>, Failure> {
        let (cores, tasks) = (self.judge.cores(), self.hard.len());
        let most = self.judge.ways() + 1 - cores;
        let mut out = Vec::new();
        for set in 1..1u32 << tasks {
            let own: Vec<usize> = (0..tasks).filter(|&t| set >> t & 1 == 1).collect();
            if !own.iter().any(|&t| self.hard[t]) {
                continue;
            }
            let mut before: Option<Vec<usize>> = None;
            for ways in 1..=most {
                let [low, high] = self.rests(&own, ways, known);
                let mut column = self.judge.column(&own, ways, &high, self.idle)?;
                let locked: Vec<usize> = column.tasks().map(|t| t.locked).collect();
                if !known && before.as_ref() == Some(&locked) {
                    continue;
                }
                let high = self.points(&mut column);
                let low = if known && cores > 2 {
                    self.points(&mut self.judge.column(&own, ways, &low, self.idle)?)
                } else {
                    None
                };
                let demands: Vec<_> =
                    column.tasks().map(|t| (t.task, t.wcet_ps, t.misses, t.locked)).collect();
                before = Some(locked);
                let mut line = json!({"tasks": own, "ways": ways, "demands": demands});
                if known && cores > 2 {
                    line["low"] = json!(low);
                } else {
                    line["low"] = json!(high);
                }
                line["high"] = json!(high);
                out.push(line);
            }
        }
        Ok(out)
    }

    /// The tasks of the other cores, with accesses that are no less, and no more, than in any
    /// choice. No less: without pages, with the reloads of all tasks on one core. No more: each
    /// task alone on a core with all ways that the others leave.
    fn rests(&self, own: &[usize], ways: u32, known: bool) -> [Vec<Rest>; 2] {
        let others: Vec<usize> = (0..self.hard.len()).filter(|t| !own.contains(t)).collect();
        if !known || others.is_empty() {
            return [Vec::new(), Vec::new()];
        }
        let left = self.judge.ways() - ways;
        let cores = self.judge.cores();
        if cores == 2 {
            let exact = vec![Rest { tasks: others, ways: Some(left) }];
            return [exact.clone(), exact];
        }
        let each = Some(left + 2 - cores);
        let alone = others.iter().map(|&t| Rest { tasks: vec![t], ways: each }).collect();
        [vec![Rest { tasks: others, ways: None }], alone]
    }

    /// See [`Points`]; `None`: no budget suffices.
    fn points(&self, column: &mut Column) -> Option<Points> {
        let least = u64::from(self.judge.cores()) - 1;
        let most = least * self.bus;
        let limit = self.limit;
        if !column.keeps(self.bus, least, limit) {
            return None;
        }
        let (fails, works) = narrowed(0, self.bus, |own| column.keeps(own, least, limit));
        let (low, end) = self.beside(column, self.bus, (least, most + 1));
        // A larger budget than this helps no more.
        let (_, enough) = narrowed(0, self.bus, |own| column.keeps(own, low, limit));
        let mut by_budget = Vec::new();
        let (mut own, mut known) = (works, least);
        loop {
            let (low, high) = self.beside(column, own, (known, end));
            by_budget.push([own, low, high]);
            if own >= enough {
                break;
            }
            known = low;
            own = ((own as f64 * self.step) as u64).max(own + self.unit).min(enough);
        }
        Some(Points { need: fails + 1, by_budget, end })
    }

    /// Sums of the others' budgets beside which a column keeps to the limit, and does not.
    fn beside(&self, column: &mut Column, own: u64, (works, fails): (u64, u64)) -> (u64, u64) {
        let late = |others: u64| !column.keeps(own, others, self.limit);
        narrowed(works, fails, late)
    }
}

/// The last number before which something is not so, and one from which on it is so, close to each
/// other. It is not so at the first number, and so at the last.
fn narrowed(mut no: u64, mut yes: u64, mut is_so: impl FnMut(u64) -> bool) -> (u64, u64) {
    while yes - no > 1 + yes / FINE {
        let middle = ((no.max(1) as f64 * yes as f64).sqrt() as u64).clamp(no + 1, yes - 1);
        if is_so(middle) { yes = middle } else { no = middle }
    }
    (no, yes)
}
