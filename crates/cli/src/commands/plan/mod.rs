//! `solocore plan`.

mod advice;
mod levels;
mod waterfall;

use crate::args::{Format, Method, PlanArgs, Profiling};
use crate::commands::profiles::{Profiles, Wanted};
use crate::commands::promises;
use crate::fail::Failure;
use crate::print::{print, print_json};
use crate::progress::{Progress, computing, stopped};
use crate::table;
use solocore_model::plan::advice::WhatIf;
use solocore_model::plan::{PlanTask, Verdict};
use solocore_model::profile::Worst;
use solocore_model::provenance::{InputRole, PlanInput};
use solocore_model::system::text::SystemText;
use solocore_model::system::{self, Model, Policy, Share, SystemTask};
use solocore_model::{Plan, System, Time, files};
use solocore_planner::{Demand, Patience};
use solocore_profile::carried;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Number of tasks above which planning announces itself.
const MANY: usize = 1000;
/// The same for dynamic budgets, which take the cube of the number.
const MANY_DYNAMIC: usize = 100;

/// Plans and prints; exit code 1 if unschedulable.
pub fn run(args: &PlanArgs) -> Result<ExitCode, Failure> {
    // The process ends with this command: to free a million tasks takes a second, in which no
    // signal would end it.
    let (text, own, system) = computing(|| {
        let text = SystemText::load(&args.system)?;
        let own = text.system()?;
        let (text, system) = changed(text, &args.what_if)?;
        Ok::<_, Failure>((text, ManuallyDrop::new(own), ManuallyDrop::new(system)))
    })?;
    let own: &System = &own;
    let system: &System = system.as_ref().unwrap_or(own);
    check_method(args, system)?;
    let mut profiles = Profiles::new(&args.profiling);
    let (demands, named) =
        demands(system, &mut profiles).map_err(|f| of_changes(&args.what_if, f))?;
    let demands = ManuallyDrop::new(demands);
    let plan = planned(system, &demands, args.time_limit, args.explain);
    let mut plan = ManuallyDrop::new(plan.map_err(|f| of_changes(&args.what_if, f))?);
    let advice = computing(|| solocore_planner::repair(&text, system, &demands, &plan, &stopped));
    if stopped() {
        return Err(Failure::Interrupted);
    }
    profiles.mark(&mut plan);
    plan.inputs = [&system.inputs[..], &named].concat();
    advice.write_into(&mut plan);
    if !args.what_if.is_empty() {
        plan.what_if = Some(compare(own, &plan, args)?);
    }
    if let Some(path) = &args.output {
        computing(|| carried::write(path, &plan))?;
    }
    computing(|| match args.format {
        Format::Json => print_json(&*plan, !plan.is_brief()),
        Format::Text => print(&text_of(&plan, args.explain)),
    })?;
    Ok(ExitCode::from(u8::from(!plan.schedulable)))
}

/// The file with all changes, and its system if there are any.
fn changed(file: SystemText, changes: &[String]) -> Result<(SystemText, Option<System>), Failure> {
    if changes.is_empty() {
        return Ok((file, None));
    }
    let mut text = file;
    for change in changes {
        text = text.with(change).map_err(|e| of_changes(std::slice::from_ref(change), e.into()))?;
    }
    let system = text.system().map_err(|e| of_changes(changes, e.into()))?;
    Ok((text, Some(system)))
}

/// Marks a failure that the options' changes caused.
fn of_changes(changes: &[String], failure: Failure) -> Failure {
    let options: Vec<String> =
        changes.iter().map(|c| format!("--what-if {}", c.escape_debug())).collect();
    if options.is_empty() { failure } else { failure.of(&options.join(" ")) }
}

/// Plans the file as it is, for comparison.
fn compare(own: &System, plan: &Plan, args: &PlanArgs) -> Result<WhatIf, Failure> {
    let before = match of(own, &args.profiling, args.time_limit) {
        Ok(before) => Ok(before),
        Err(Failure::Input(why)) => Err(why),
        Err(other) => return Err(other),
    };
    let before = before.as_ref().map(|plan| plan.tasks.as_slice()).map_err(Clone::clone);
    Ok(WhatIf::of(args.what_if.clone(), before, &plan.tasks))
}

/// Checks that the chosen method fits this system.
fn check_method(args: &PlanArgs, system: &System) -> Result<(), Failure> {
    let what = match (args.method, system.windows().is_some()) {
        (Some(Method::Sce), false) => {
            "--method sce is for systems with partitions; add a [[partition]], or leave it out"
        }
        (Some(Method::Cores), true) => {
            "--method cores does not plan the partitions of this system; leave it out, or remove \
            the [[partition]] tables"
        }
        _ => return Ok(()),
    };
    Err(Failure::Input(format!("{}: {what}", args.system.display())))
}

/// Reads a system, profiles its programs, and plans it.
pub fn make(path: &Path, profiling: &Profiling) -> Result<Plan, Failure> {
    of(&computing(|| System::load(path))?, profiling, None)
}

/// The plan of a system; a search for shares ends at the limit.
pub fn of(system: &System, profiling: &Profiling, limit: Option<Time>) -> Result<Plan, Failure> {
    with_demands(system, profiling, limit, false).map(|made| made.0)
}

/// The plan of a system; where its shares are optimal, also the plan with even ones, if the machine
/// has even shares for this system.
pub fn beside_even(
    system: &System,
    profiling: &Profiling,
) -> Result<(Plan, Option<Plan>), Failure> {
    let (plan, demands) = with_demands(system, profiling, None, true)?;
    if system.regulation.share() != Share::Optimal {
        return Ok((plan, None));
    }
    let mut system = system.clone();
    // The comparison is with even budgets, whatever policy was chosen.
    system.regulation.policy = Policy::Memguard;
    system.regulation.share = Some(Share::Even);
    // Even budgets know neither.
    system.regulation.objective = None;
    system.regulation.slowdown_permille = None;
    match planned(&system, &demands, None, false) {
        Ok(even) => Ok((plan, Some(even))),
        Err(Failure::Input(_)) => Ok((plan, None)),
        Err(other) => Err(other),
    }
}

/// The plan of a system, with the demands of its tasks. `prices`: see [`Patience::prices`].
fn with_demands(
    system: &System,
    profiling: &Profiling,
    limit: Option<Time>,
    prices: bool,
) -> Result<(Plan, Vec<Demand>), Failure> {
    let mut profiles = Profiles::new(profiling);
    let (demands, named) = demands(system, &mut profiles)?;
    let mut plan = planned(system, &demands, limit, prices)?;
    profiles.mark(&mut plan);
    plan.inputs = [&system.inputs[..], &named].concat();
    Ok((plan, demands))
}

/// Demands of the tasks, and the profiles that the system names; profiles its programs.
fn demands(
    system: &System,
    profiles: &mut Profiles,
) -> Result<(Vec<Demand>, Vec<PlanInput>), Failure> {
    let path = &system.path;
    let (mut demands, mut named) = (Vec::new(), Vec::new());
    for task in &system.tasks {
        let demand = demand(system, task, profiles, &mut named);
        demands.push(demand.map_err(|f| {
            f.of(&format!("{}:{}: task `{}`", path.display(), task.line, task.name))
        })?);
        if stopped() {
            return Err(Failure::Interrupted);
        }
    }
    Ok((demands, named))
}

/// Plans; with a limit, a search ends then, or when no neighbour is better.
fn planned(
    system: &System,
    demands: &[Demand],
    limit: Option<Time>,
    prices: bool,
) -> Result<Plan, Failure> {
    let many = system.tasks.len();
    let dynamic = matches!(system.regulation.policy, Policy::Dynamic | Policy::Any);
    let least = if dynamic { MANY_DYNAMIC } else { MANY };
    let progress = match (system.windows(), limit) {
        (Some(_), _) => Some(Progress::new("looking for a time table")),
        (None, Some(_)) => Some(Progress::new("looking for better shares")),
        (None, None) if many > least => Some(Progress::new(&format!("planning {many} tasks"))),
        (None, None) => None,
    };
    let share = |done: f64| progress.iter().for_each(|progress| progress.share(done));
    let began = Instant::now();
    let over = |limit: Time| began.elapsed() >= Duration::from_nanos(limit.ps() / Time::PS_PER_NS);
    let stop = || stopped() || limit.is_some_and(over);
    // Prices come after the search, and its limit does not end them.
    let prices: Option<&(dyn Fn() -> bool + Sync)> = if prices { Some(&stopped) } else { None };
    let patience = Patience { stop: &stop, share: &share, endless: limit.is_some(), prices };
    let plan = computing(|| solocore_planner::plan_until(system, demands, patience))
        .map_err(|e| Failure::from(e).of(&system.path.display().to_string()))?;
    if stopped() { Err(Failure::Interrupted) } else { Ok(plan) }
}

fn demand(
    system: &System,
    task: &SystemTask,
    profiles: &mut Profiles,
    named: &mut Vec<PlanInput>,
) -> Result<Demand, Failure> {
    if let Some(stated) = Demand::stated(&task.demand) {
        return Ok(stated);
    }
    match &task.demand {
        system::Demand::Given { .. } | system::Demand::Curve(_) => {
            unreachable!("the file states them")
        }
        system::Demand::Profile(file) => {
            let path = system.dir().join(file);
            let text = files::read_text(&path)?;
            let input = PlanInput::of(InputRole::Profile, file.to_string_lossy(), &text);
            if !named.contains(&input) {
                named.push(input);
            }
            Ok(Demand::of_text(&path, &text, &system.platform, system.pinned(task))?)
        }
        system::Demand::Command(command) => {
            let kept = profiles.get(Wanted {
                task: &task.name,
                platform: &system.platform,
                core: system.pinned(task),
                command,
                inputs: &task.inputs,
                dir: system.dir(),
            })?;
            Ok(Demand::Profiled { path: kept.path, profile: Box::new(kept.profile) })
        }
    }
}

fn text_of(plan: &Plan, explain: bool) -> String {
    let mut out = match plan.levels() {
        Some(levels) => levels::text(plan, levels, explain),
        None => text(plan, explain),
    };
    out += &worst_inputs(plan);
    out += &advice::repairs(&plan.repair);
    out += &plan.what_if.as_ref().map_or_else(String::new, advice::compared);
    out
}

/// The input that gave the worst value of each quantity.
fn worst_inputs(plan: &Plan) -> String {
    let mut out = String::new();
    for task in &plan.tasks {
        let Some(profiled) = task.profiled.as_ref().filter(|p| !p.inputs.is_empty()) else {
            continue;
        };
        let of = |w: &Worst| {
            let input = profiled.inputs.get(w.input)?;
            let (number, words) = (w.input + 1, input.arguments.join(" "));
            Some(format!("{} of input {number} ({words})", w.quantity))
        };
        let worst: Vec<String> = profiled.worst.iter().filter_map(of).collect();
        let (name, count) = (&task.name, profiled.inputs.len());
        out += &format!("- {name}: the worst of {count} inputs: {}\n", worst.join(", "));
    }
    out
}

fn text(plan: &Plan, explain: bool) -> String {
    let head = [
        "task",
        "core",
        "level",
        "C ms",
        "mu",
        "C_sce ms",
        "response ms",
        "deadline ms",
        "C may be ms",
        "verdict",
    ];
    let row = |t: &PlanTask| {
        vec![
            t.name.clone(),
            t.core.to_string(),
            format!("{:?}", t.criticality),
            table::ms(Some(t.wcet_ns)),
            t.misses.to_string(),
            table::ms(Some(t.c_sce_ns).filter(|&c| c != u64::MAX)),
            table::ms(t.wcrt_ns),
            table::ms(t.deadline_ns),
            table::ms(t.margin.and_then(|m| m.wcet_ns)),
            table::verdict(Verdict::of(t)),
        ]
    };
    let mut out = table::render_each(&head.map(str::to_owned), &plan.tasks, row);
    out.push('\n');
    for reason in &plan.reasons {
        out += &format!("- {reason}\n");
    }
    if let Some(windows) = plan.windows() {
        out += &table_text(&windows.table);
    }
    for t in plan.tasks.iter().filter(|_| explain) {
        if let Some(derivation) = &t.derivation {
            out += &format!("\n{}\n{derivation}", t.name);
        }
        out += &waterfall::text(t);
    }
    let assumed = plan
        .tasks
        .iter()
        .find(|t| !t.assumes.is_empty())
        .filter(|_| explain || plan.model == Model::Sce);
    for what in assumed.map_or(&[][..], |t| &t.assumes) {
        out += &format!("\n  assumed: {what}");
    }
    out += &promises::of_plan(plan);
    out += match (plan.schedulable, plan.model) {
        (true, Model::Sound) => "\nschedulable\n",
        (true, Model::Sce) => "\nschedulable, under eq. (1)'s assumptions\n",
        (false, _) => "\nNOT schedulable\n",
    };
    out
}

/// The time table, one activity a line.
fn table_text(rows: &[solocore_model::windows::table::Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = ["activity", "on", "offset", "length", "period"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(super::schedule_io::line));
    format!("\n{}", table::render(&lines))
}
