//! `solocore verify`: a plan compared with this machine, task by task.
//!
//! Problem: a bound is credible if its quantity was measured under the worst load that the plan
//! allows. Rule: each task is measured by itself on its core: alone, and beside enemies on all
//! other CPUs with nothing enforced. Then the same daemon as `solocore run` enforces the plan,
//! beside enemies wherever a core has no promise but its budget. Among several kinds of enemies a
//! short search finds the worst, separately for both cases. Times are from release to end; they are
//! compared with `C_sce`.
//! Source: single-core-equivalence, section 4.
//! Then all tasks run at once (`together`): responses are compared with their bounds. Plans of
//! windows, levels and VCPUs are measured only in that way, as they bound responses.
//! Does not cover: other kinds of loads. Cases that were not tried are listed.

mod opponents;
mod text;
mod together;
mod trials;

use crate::args::Format;
use crate::args::enemy::Enemy;
use crate::args::verify::VerifyArgs;
use crate::commands::enemies;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, computing};
use opponents::{Opponents, has_command, weapon};
use solocore_linux::host::machine;
use solocore_model::plan::{PlanTask, Scheme};
use solocore_model::verification::{Channel, FORMAT, Verification, Verified};
use solocore_model::{Plan, Times, files, list};
use std::process::ExitCode;
use std::time::Instant;
use trials::{Case, Trials};

/// Kinds of enemies, where no option names some.
const ALL: [Enemy; 6] =
    [Enemy::Read, Enemy::Write, Enemy::Cache, Enemy::Rows, Enemy::Tlb, Enemy::Bank];

pub fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let plan = computing(|| Plan::load(&args.plan))?;
    let tasks = chosen(args, &plan)?;
    let online = machine::online_cpus()?;
    let kinds = kinds(args);
    let mut found = Verification {
        format: FORMAT.to_owned(),
        jobs: args.jobs,
        search_jobs: args.search_jobs,
        enemy_bytes: args.memory.map_or_else(enemies::default_memory, |m| m.0),
        untested: untested(args, &plan, &tasks, &online),
        ..Verification::default()
    };
    let mut trials = Trials::new(args, &plan)?;
    let all: Vec<(&PlanTask, Opponents)> =
        tasks.iter().map(|&t| (t, Opponents::of(&plan, t, args, &online))).collect();
    let by_itself = || all.iter().filter(|_| matches!(plan.scheme, Scheme::Budgets));
    let at_once = together::duration(args, &plan);
    by_itself().try_for_each(|(task, opponents)| trials.check(Some((*task, opponents))))?;
    if at_once.is_some() {
        trials.check(None)?;
    }
    let mut pace = Pace::new(args, &all, kinds.len());
    for (task, opponents) in by_itself() {
        found.untested.extend(opponents.untested.iter().cloned());
        let slowdown_ns = plan.lock.as_ref().and_then(|lock| lock.bound_of(&task.name));
        let (kinds, bytes) = (kinds.as_slice(), found.enemy_bytes);
        let of = Measured { args, task, slowdown_ns, opponents, kinds, bytes };
        let verified = of.measure(&mut trials, &mut pace, &online)?;
        found.tasks.push(verified);
    }
    if let Some(duration) = at_once {
        let kinds = worst_kinds(&found.tasks, &kinds);
        let weapons = (kinds.as_slice(), found.enemy_bytes);
        let of = (args, &plan);
        let at_once = together::measure(of, &mut trials, weapons, duration, &online)?;
        let none = at_once.tasks.iter().filter(|t| t.jobs == 0);
        found.untested.extend(none.map(|t| {
            format!(
                "task {} beside the others: fewer than two of its jobs ended (--together)",
                t.name
            )
        }));
        found.together = Some(at_once);
    }
    (found.open, found.broken) = trials.promises();
    if trials.stands_in() {
        found.untested.push(format!(
            "budgets in accesses to memory: the event {} stands in for them",
            args.event
        ));
    }
    let at_once = found.together.iter().flat_map(|t| &t.tasks);
    found.exceeded = found.tasks.iter().any(|t| !t.exceeded.is_empty())
        || at_once.into_iter().any(|t| !t.exceeded.is_empty());
    if let Some(path) = &args.output {
        files::write_json(path, &found)?;
    }
    match args.format {
        Format::Json => print(&files::to_json(&found))?,
        Format::Text => print(&text::of(&found))?,
    }
    // As in `solocore run`: with --partial, broken promises are reported, and no more.
    let broken = !found.broken.is_empty() && !args.partial;
    Ok(ExitCode::from(u8::from(found.exceeded || broken)))
}

/// The tasks that are measured.
fn chosen<'a>(args: &VerifyArgs, plan: &'a Plan) -> Result<Vec<&'a PlanTask>, Failure> {
    let wrong = |what: String| Failure::Input(format!("{}: {what}", args.plan.display()));
    if let Some(name) = args.tasks.iter().find(|n| !plan.tasks.iter().any(|t| t.name == **n)) {
        let all: Vec<&str> = plan.tasks.iter().map(|t| t.name.as_str()).collect();
        return Err(wrong(format!("there is no task `{name}`; it has {}", all.join(", "))));
    }
    let named = |t: &PlanTask| args.tasks.is_empty() || args.tasks.contains(&t.name);
    let tasks: Vec<&PlanTask> = plan
        .tasks
        .iter()
        .filter(|t| named(t) && !t.best_effort() && has_command(args, t))
        .collect();
    if tasks.is_empty() {
        return Err(wrong(
            "no analysed task has a command, so there is nothing to measure; give --command \
                TASK=COMMAND"
                .to_owned(),
        ));
    }
    Ok(tasks)
}

fn kinds(args: &VerifyArgs) -> Vec<Enemy> {
    let can = |e: &Enemy| *e != Enemy::Bank || args.map.is_some();
    if args.enemies.is_empty() {
        ALL.into_iter().filter(can).collect()
    } else {
        args.enemies.clone()
    }
}

/// The worst kinds of enemies, each once; all where there was no search.
fn worst_kinds(tasks: &[Verified], kinds: &[Enemy]) -> Vec<Enemy> {
    let worst = |e: &Enemy| tasks.iter().any(|t| t.worst_channel.as_deref() == Some(e.name()));
    let found: Vec<Enemy> = kinds.iter().copied().filter(worst).collect();
    if found.is_empty() { kinds.to_vec() } else { found }
}

/// Cases that are left out from the beginning.
fn untested(args: &VerifyArgs, plan: &Plan, tasks: &[&PlanTask], online: &[u32]) -> Vec<String> {
    let mut out = Vec::new();
    for t in plan.tasks.iter().filter(|t| !t.best_effort()) {
        if !tasks.iter().any(|m| m.name == t.name) {
            let why = if has_command(args, t) { "not among --task" } else { "it has no command" };
            out.push(format!("task {}: {why}", t.name));
        }
    }
    let kinds = kinds(args);
    for enemy in ALL.into_iter().filter(|e| !kinds.contains(e)) {
        let why = if enemy == Enemy::Bank && args.map.is_none() {
            "it needs a map of this machine's banks (`solocore space map`, then --map)"
        } else {
            "not among --enemy"
        };
        out.push(format!("enemies of kind {}: {why}", enemy.name()));
    }
    let beyond: Vec<&u32> =
        online.iter().filter(|cpu| !plan.cores.iter().any(|c| c.id == **cpu)).collect();
    if !beyond.is_empty() {
        out.push(format!(
            "CPUs {}: the plan has no such cores, so no enemy ran there while the plan was \
                enforced",
            list(beyond)
        ));
    }
    if args.colors && together::duration(args, plan).is_some() {
        out.push(
            "enemies beside all tasks at once: with --colors an enemy would lie in any colours, so \
                only the plan's programs ran"
                .to_owned(),
        );
    }
    if together::duration(args, plan).is_none() {
        out.push(
            "preemption among tasks of one core: each task had its core to itself (--together runs \
                all of them at once)"
                .to_owned(),
        );
    }
    if !matches!(plan.scheme, Scheme::Budgets) {
        out.push(
            "each task by itself: the plan's bounds are of responses, in its windows, levels or VCPUs"
                .to_owned(),
        );
    }
    out
}

/// Progress of the work.
struct Pace {
    begun: Instant,
    jobs: u64,
    all: u64,
}

impl Pace {
    fn new(args: &VerifyArgs, tasks: &[(&PlanTask, Opponents)], kinds: usize) -> Self {
        let searched = |of: &Opponents| {
            let both = u64::from(!of.everybody.is_empty()) + u64::from(!of.enemies.is_empty());
            both * if kinds > 1 { kinds as u64 * args.search_jobs } else { 0 }
        };
        let all = tasks.iter().map(|(_, of)| 3 * args.jobs + searched(of)).sum();
        Self { begun: Instant::now(), jobs: 0, all }
    }

    /// Announces the next step, with the estimated time of all steps.
    fn begin(&self, what: &str) -> Progress {
        let done = self.jobs as f64 / self.all.max(1) as f64;
        let left = self.begun.elapsed().as_secs_f64() * (1.0 - done) / done.max(1e-9);
        let left =
            if self.jobs == 0 { String::new() } else { format!(" (about {left:.0} s left)") };
        let progress = Progress::new(&format!("{what}{left}"));
        progress.share(done);
        progress
    }
}

/// A task in its trials.
struct Measured<'a> {
    args: &'a VerifyArgs,
    task: &'a PlanTask,
    /// Bound on a job that has its core to itself, for a wanted slowdown.
    slowdown_ns: Option<u64>,
    opponents: &'a Opponents,
    kinds: &'a [Enemy],
    bytes: u64,
}

impl Measured<'_> {
    fn measure(
        &self,
        trials: &mut Trials<'_>,
        pace: &mut Pace,
        online: &[u32],
    ) -> Result<Verified, Failure> {
        let (task, jobs) = (self.task, self.args.jobs);
        if !online.contains(&task.core) {
            return Err(Failure::Machine(format!(
                "task `{}` runs on CPU {}, which is not online; set it online, or plan for CPUs {}",
                task.name,
                task.core,
                machine::cpu_list(online)
            )));
        }
        let mut found = Verified {
            name: task.name.clone(),
            core: task.core,
            wcet_ns: task.wcet_ns,
            promise_ns: task.wcrt_ns.map(|_| task.c_sce_ns),
            slowdown_bound_ns: self.slowdown_ns,
            enemies: self.opponents.enemies.clone(),
            beside: self.opponents.beside.clone(),
            ..Verified::default()
        };
        found.alone = self.times(trials, pace, (Case::Alone, None), jobs)?;
        for &enemy in self.searched() {
            let few = self.args.search_jobs;
            let mut longest = |case: Case, trials: &mut Trials<'_>| {
                let any = !self.cpus(case).is_empty();
                any.then(|| self.times(trials, pace, (case, Some(enemy)), few)).transpose()
            };
            let unmanaged = longest(Case::Unmanaged, trials)?;
            let attacked = longest(Case::Enforced, trials)?;
            let most = |times: Option<Times>| times.map_or(0, |t| t.max_ns);
            if unmanaged.is_some() {
                found.channels.push(Channel {
                    channel: enemy.name().to_owned(),
                    unmanaged_ns: most(unmanaged),
                    attacked_ns: most(attacked),
                });
            }
        }
        let unmanaged = worst(&found.channels, |c| c.unmanaged_ns);
        let attacked = worst(&found.channels, |c| c.attacked_ns);
        let kind = |case, worst| self.kind(worst).filter(|_| !self.cpus(case).is_empty());
        let unmanaged = kind(Case::Unmanaged, unmanaged);
        let attacked = kind(Case::Enforced, attacked);
        found.unmanaged = self.times(trials, pace, (Case::Unmanaged, unmanaged), jobs)?;
        found.attacked = self.times(trials, pace, (Case::Enforced, attacked), jobs)?;
        found.worst_unmanaged_channel = unmanaged.map(|k| k.name().to_owned());
        found.worst_channel = attacked.map(|k| k.name().to_owned());
        found.judge();
        Ok(found)
    }

    /// The kind that was found, or the only one.
    fn kind(&self, found: Option<&String>) -> Option<Enemy> {
        match self.kinds {
            [only] => Some(*only),
            kinds => kinds.iter().copied().find(|k| found.is_some_and(|name| name == k.name())),
        }
    }

    /// The kinds to search; empty if there is only one.
    fn searched(&self) -> &[Enemy] {
        if self.kinds.len() > 1 { self.kinds } else { &[] }
    }

    /// The CPUs of enemies.
    fn cpus(&self, case: Case) -> &[u32] {
        match case {
            Case::Alone => &[],
            Case::Unmanaged => &self.opponents.everybody,
            Case::Enforced => &self.opponents.enemies,
        }
    }

    fn times(
        &self,
        trials: &mut Trials<'_>,
        pace: &mut Pace,
        (case, enemy): (Case, Option<Enemy>),
        jobs: u64,
    ) -> Result<Times, Failure> {
        let weapon = enemy.map(|enemy| weapon(self.args, enemy, self.bytes));
        let beside = enemy.map_or(String::new(), |e| format!(" beside {}", e.name()));
        let _progress = pace.begin(&format!(
            "{}: {} {}{beside}",
            self.task.name,
            text::some(jobs),
            case.words()
        ));
        let times = trials.run(self.task, self.opponents, (case, weapon, self.cpus(case)), jobs)?;
        pace.jobs += jobs;
        Ok(times)
    }
}

/// The channel with the longest job; `None` where no channel was tried.
fn worst(channels: &[Channel], of: fn(&Channel) -> u64) -> Option<&String> {
    channels.iter().filter(|c| of(c) > 0).max_by_key(|c| of(c)).map(|c| &c.channel)
}
