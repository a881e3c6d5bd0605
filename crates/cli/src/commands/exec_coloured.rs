//! `solocore exec --colors`: a program on frames of its own.
//!
//! Rule: this process stays beside the program, as the program's library asks it, and looks at its
//! pages before it ends. With --lock, --lock-function, --core, --budget, --vcpu or --ways, it
//! starts `solocore exec` again, which becomes the program once these are set up.
//! Does not cover: the pages of a killed process.

use crate::args::ExecArgs;
use crate::commands::memory_map::{choice_of, map_of};
use crate::fail::Failure;
use crate::progress::{asked, computing};
use serde::Serialize;
use solocore_linux::host::machine;
use solocore_model::plan::{LevelsPlan, PlanCore, PlanTask};
use solocore_model::{Plan, files};
use solocore_space::audit::Audit;
use solocore_space::coloured::{self, Coloured, Events};
use solocore_space::geometry;
use solocore_space::map::{Choice, Map};
use solocore_space::program;
use solocore_space::queues::{QUEUES, Queues};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

/// Variables that tell the inner `solocore exec` the program's environment.
const LATER: [&str; 2] = ["SOLOCORE_LATER_PRELOAD", "SOLOCORE_LATER_SPACE"];
const LOOK: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct Pages<'a> {
    format: &'static str,
    /// Number of processes that were coloured, that ended by themselves, and that were ended as no
    /// memory was left.
    coloured: usize,
    ended: usize,
    failed: usize,
    /// Programs that were started, and cannot be coloured.
    uncoloured: &'a [String],
    /// Pages of the processes that ended by themselves, just before their end.
    pages: Audit,
    /// Number of pages that the kernel had moved to other frames (compaction), and that were moved
    /// back.
    moved_back: u64,
}

/// Starts the program, and serves it until it ends.
pub fn run(args: &ExecArgs) -> Result<ExitCode, Failure> {
    let (map, choice) = chosen(args)?;
    program::check(&program::find(&args.command[0])?)?;
    program::check_machine()?;
    if geometry::in_guest() {
        eprintln!(
            "solocore: note: this is a guest: its frames have the colours of the machine only if \
                the hypervisor maps them in huge pages"
        );
    }
    let task = args.colours.task.as_deref();
    let mut space = Coloured::new(map, choice, args.colours.pool.0, task)?;
    let environment = space.environment(std::env::var_os("LD_PRELOAD"));
    let mut command = inner(args);
    if starts_again(args) {
        command.envs(LATER.iter().zip(environment.map(|(_, value)| value)));
    } else {
        command.envs(environment);
    }
    match args.colours.queues.as_ref().map(Queues::variable) {
        Some((name, list)) => command.env(name, list),
        None => command.env_remove(QUEUES),
    };
    let mut child = command.spawn().map_err(|e| Failure::cannot_run(&args.command[0], &e))?;
    let code = watch(&mut child, &mut space)?;
    finish(args, &space.events, code)?;
    Ok(ExitCode::from(code))
}

/// Whether the program needs more than its colours.
fn starts_again(args: &ExecArgs) -> bool {
    args.lock
        || !args.lock_functions.is_empty()
        || args.core.is_some()
        || args.vcpu.is_some()
        || args.ways.is_some()
}

fn inner(args: &ExecArgs) -> Command {
    if !starts_again(args) {
        let mut command = Command::new(&args.command[0]);
        command.args(&args.command[1..]);
        return command;
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg("exec");
    if args.lock {
        command.arg("--lock");
    }
    for name in &args.lock_functions {
        command.args(["--lock-function", name]);
    }
    if let Some(core) = args.core {
        command.args(["--core", &core.to_string()]);
    }
    if let Some(budget) = args.budget {
        command.args(["--budget", &budget.to_string()]);
    }
    if let Some(vcpu) = args.vcpu {
        command.args(["--vcpu", &vcpu.text()]);
    }
    if let Some(ways) = args.ways {
        command.args(["--ways", &ways.to_string()]);
    }
    if args.lock || !args.lock_functions.is_empty() {
        command.args(["--lock-bandwidth", &args.lock_bandwidth.to_string()]);
    }
    if args.lock || !args.lock_functions.is_empty() || args.budget.is_some() {
        command.args(["--event", &args.event, "--engine", &args.engine.name()]);
    }
    command.arg("--").args(&args.command);
    command
}

/// Turns the environment that an outer `solocore exec --colors` has prepared into that of the
/// program.
pub fn environment_for(command: &mut Command) {
    for (from, to) in LATER.iter().zip(["LD_PRELOAD", "SOLOCORE_SPACE"]) {
        if let Some(value) = std::env::var_os(from) {
            command.env_remove(from).env(to, value);
        }
    }
}

/// The map, and the frames that the options or the plan allow.
fn chosen(args: &ExecArgs) -> Result<(Map, Choice), Failure> {
    let a = &args.colours;
    let Some(path) = &a.plan else {
        let map = map_of(&a.map, a.colours.is_some())?;
        if a.banks.is_some() && map.banks.is_empty() {
            return Err(Failure::Input(
                "--banks: no bank functions are known; give a map that has them (--map; solocore \
                    space map makes one)"
                    .into(),
            ));
        }
        let choice = choice_of(&map, a.colours.as_deref(), a.banks.as_deref())?;
        return Ok((map, choice));
    };
    let plan = computing(|| Plan::load(path))?;
    let map = map_of(&a.map, true)?;
    let task = a.task.as_deref().unwrap_or_default();
    let (colours, banks) = of_plan(&plan, task, &map)
        .map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
    let choice = Choice::new(&map, Some(&colours), banks.as_deref())?;
    Ok((map, choice))
}

pub type Lists = (Vec<u32>, Option<Vec<u32>>);

/// The colours for the ways of a task's core, or of level C where those are the task's. Its banks
/// are included if the map has as many as the plan's board.
pub fn of_plan(plan: &Plan, task: &str, map: &Map) -> Result<Lists, String> {
    let task = plan
        .tasks
        .iter()
        .find(|t| t.name == task)
        .ok_or_else(|| format!("there is no task `{task}`; its tasks: {}", names(plan)))?;
    let core = plan
        .cores
        .iter()
        .find(|c| c.id == task.core)
        .ok_or("its core is not in the plan; plan again")?;
    let count = map.colour_count();
    if core.colours.is_some() && count != plan.platform.colours() {
        return Err(format!(
            "it is for a cache of {} colours, and this map has {count}; plan with a platform file \
                of this machine, or name --colors",
            plan.platform.colours()
        ));
    }
    let total = plan.platform.total_banks();
    let (who, (first, own), banks) = match level_c(plan, task) {
        Some(levels) => {
            let (ways, all) = (levels.level_c_ways, plan.platform.llc.ways);
            let colours = PlanCore::colours_for(ways.first, ways.count, all, count);
            ("level C".to_owned(), colours, Some(levels.shared_banks(total)))
        }
        None => (
            format!("core {}", core.id),
            plan.colours_of(core.id, count).unwrap_or_default(),
            core.banks.map(|(first, n)| (first..first + n).collect()),
        ),
    };
    if own == 0 {
        return Err(format!(
            "{who} has less than a colour of {count}; give it more ways, or name --colors"
        ));
    }
    let banks = banks.filter(|_| map.bank_count() == total && total > 1);
    Ok(((first..first + own).collect(), banks))
}

/// The levels of a plan in which a task has the ways and banks of level C.
pub fn level_c<'p>(plan: &'p Plan, task: &PlanTask) -> Option<&'p LevelsPlan> {
    plan.levels().filter(|levels| levels.core_of(task).is_none())
}

fn names(plan: &Plan) -> String {
    plan.tasks.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Serves the program's processes until the first ends; passes on a request to end.
fn watch(child: &mut Child, space: &mut Coloured) -> Result<u8, Failure> {
    let mut told = false;
    space.watch(child.id());
    loop {
        space.serve(LOOK);
        let done = child
            .try_wait()
            .map_err(|e| Failure::Machine(format!("the program cannot be waited for: {e}")))?;
        if let Some(status) = done {
            // Read its last messages.
            space.serve(Duration::ZERO);
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            return Ok(u8::try_from(code).unwrap_or(1));
        }
        if let (Some(signal), false) = (asked(), told) {
            told = true;
            machine::ask_to_end(child.id(), signal);
        }
    }
}

/// Exit codes of programs that SIGHUP, SIGINT or SIGTERM ended.
const ENDED: [u8; 3] = [129, 130, 143];

/// Reports the counts of pages; a program that ran uncoloured is a failure.
fn finish(args: &ExecArgs, events: &Events, code: u8) -> Result<(), Failure> {
    let pages = coloured::total(&events.ended);
    if let Some(path) = &args.colours.pages {
        let (coloured, ended, failed) =
            (events.coloured.len(), events.ended.len(), events.failed.len());
        let uncoloured = &events.uncoloured;
        let moved_back = moved_back(events);
        files::write_json(
            path,
            &Pages {
                format: "solocore-pages/1",
                coloured,
                ended,
                failed,
                uncoloured,
                pages,
                moved_back,
            },
        )?;
    }
    for what in &events.uncoloured {
        eprintln!("solocore: note: {what}: it ran without colours");
    }
    for note in &events.notes {
        eprintln!("solocore: note: {note}");
    }
    if let Some((pid, why)) = events.failed.first() {
        return Err(Failure::Machine(format!("process {pid} was stopped: {why}")));
    }
    if events.coloured.is_empty() && (asked().is_some() || ENDED.contains(&code)) {
        // The signal came before the library had begun; the program's exit code says so. A signal
        // to all may end the program before this process has its own.
        return Ok(());
    }
    if events.coloured.is_empty() {
        return Err(Failure::Machine(
            "the program's pages were not moved, because its library was not loaded or could not \
            begin; its message is above"
                .into(),
        ));
    }
    if events.ended.is_empty() {
        eprintln!("solocore: note: the program was killed, so its pages were not checked");
        return Ok(());
    }
    let n = events.ended.len();
    eprintln!(
        "solocore: note: {n} process{}: {}",
        if n == 1 { "" } else { "es" },
        pages.describe()
    );
    match moved_back(events) {
        0 => {}
        n => eprintln!(
            "solocore: note: {n} pages were found in other frames during the run (compaction by \
            the kernel) and moved back"
        ),
    }
    Ok(())
}

fn moved_back(events: &Events) -> u64 {
    events.ended.iter().map(|e| u64::from(e.moved_back)).sum()
}
