//! The part of `solocore run` that puts tasks in their places.

use crate::args::isolation::IsolationArgs;
use crate::fail::Failure;
use solocore_linux::schedule::isolate::Layout;
use solocore_linux::schedule::placed::Wishes;
use solocore_model::Plan;
use std::path::Path;

/// The places of the plan's tasks and of everything else, by the options.
pub fn layout(args: &IsolationArgs, plan: &Plan, path: &Path) -> Result<Layout, Failure> {
    layout_with(args, plan, path, (!args.no_fifo, !args.no_confine))
}

/// As [`layout`], with two choices: whether analysed tasks are real-time ones, and whether others
/// are kept off their cores.
pub fn layout_with(
    args: &IsolationArgs,
    plan: &Plan,
    path: &Path,
    (fifo, confine): (bool, bool),
) -> Result<Layout, Failure> {
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect();
    let pid = |(name, value): &(String, String)| match value.parse::<u32>() {
        Ok(pid) if pid > 0 => Ok((name.clone(), pid)),
        _ => Err(Failure::Input(format!(
            "--attach {name}={value}: `{value}` is no number of a process; give one"
        ))),
    };
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wishes = Wishes {
        start: args.start,
        commands: args
            .commands
            .iter()
            .map(|(name, command)| (name.clone(), words(command)))
            .collect(),
        attach: args.attach.iter().map(pid).collect::<Result<_, _>>()?,
        directory: args.directory.clone().unwrap_or_else(|| beside.to_owned()),
        fifo,
        confine,
        irq_cpu: args.irq_cpu,
        resctrl: args.resctrl,
        trial: args.trial.clone(),
    };
    if !wishes.directory.is_dir() {
        return Err(Failure::Input(format!(
            "--directory {}: there is no such directory; give one in which the commands can run",
            wishes.directory.display()
        )));
    }
    Ok(Layout::new(plan, &wishes)?)
}
