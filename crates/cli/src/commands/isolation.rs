//! The part of `solocore run` that puts tasks in their places.

use crate::args::isolation::IsolationArgs;
use crate::fail::Failure;
use crate::progress::stopped;
use solocore_dram::Spec;
use solocore_linux::daemon::{Colours, Daemon, Reserved};
use solocore_linux::schedule::isolate::Layout;
use solocore_linux::schedule::placed::Wishes;
use solocore_model::{Plan, Platform};
use solocore_space::geometry::Geometry;
use solocore_space::map::Map;
use std::path::Path;
use std::rc::Rc;

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
            "--attach {name}={value}: `{value}` is not a number of a process; give one"
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

/// The part that starts programs in their colours and banks, if the options ask for it. Adds the
/// part that holds these frames, if they ask for that too: it is to be the first, as it takes a
/// minute.
pub fn colours(
    args: &IsolationArgs,
    plan: &Plan,
    path: &Path,
    layout: &Rc<Layout>,
    daemon: &mut Daemon,
) -> Result<Option<Colours>, Failure> {
    if !args.colors {
        return Ok(None);
    }
    let (map, source) = map_of(args, plan)?;
    if args.reserve {
        daemon.add(reserved(&map, path, layout)?);
    }
    let colours = Colours::new(plan, layout, map, &source).beside_masks(args.resctrl);
    Ok(Some(colours.with_queues(args.queues.clone())))
}

/// The part that holds the frames of the plan's tasks.
fn reserved(map: &Map, path: &Path, layout: &Layout) -> Result<Reserved, Failure> {
    if !path.is_file() {
        return Err(Failure::Input(format!(
            "--reserve: {} is not a file, and the reserve reads the plan as well; write the plan to a \
                file",
            path.display()
        )));
    }
    let words = ["/proc/self/exe", "reserve", "--map", "/dev/stdin", "--plan"];
    let mut command = words.map(str::to_owned).to_vec();
    command.push(path.display().to_string());
    Ok(Reserved::new(command, map.print(&[]), layout.rest.clone(), stopped))
}

/// The map of this machine's memory for the plan, and where it is from.
fn map_of(args: &IsolationArgs, plan: &Plan) -> Result<(Map, String), Failure> {
    let (map, source) = match &args.map {
        Some(path) => {
            let mut map = Map::read(path)?;
            if map.colours.is_empty() {
                let Map { colours, slices, .. } = of_board(&plan.platform);
                map.colours = colours;
                if map.slices.is_empty() {
                    map.slices = slices;
                }
            }
            (map, path.display().to_string())
        }
        None => (of_this_machine(plan)?, format!("the map of {}", plan.platform.name)),
    };
    let (known, planned) = (map.colour_count(), plan.platform.colours());
    if known != planned && plan.cores.iter().any(|c| c.colours.is_some()) {
        return Err(Failure::Input(format!(
            "--colors: {source} has {known} colours, and the plan is for a cache of {planned}; plan \
                with a platform file of this machine"
        )));
    }
    Ok((map, source))
}

/// The map of a board: colours and slices by its cache, bank functions by its memory's address map.
fn of_board(platform: &Platform) -> Map {
    let colours = Geometry::of_platform(platform).map_or_else(|_| Vec::new(), |g| g.colours());
    let spec = Spec::of_platform(platform).ok().filter(|s| s.one_bank_a_page(platform.page.0));
    let banks = spec.map_or_else(Vec::new, |s| s.bank_functions());
    Map { colours, banks, slices: platform.llc.slice_functions.clone() }
}

/// The map of the plan's board, where its colours are colours of this machine's cache too. The
/// cache here may have more: pages that differ in some index bits share no set.
fn of_this_machine(plan: &Plan) -> Result<Map, Failure> {
    let map = of_board(&plan.platform);
    if map.colours.is_empty() {
        return Ok(map);
    }
    let here = Geometry::of_machine().map_err(|e| Failure::from(e).of("--colors"))?;
    if map.colours.iter().any(|function| !here.colours().contains(function)) {
        return Err(Failure::Machine(format!(
            "--colors: the plan is for another machine: the cache of {} has {} colours, which \
                the {} here does not have; plan with a platform file of this machine, or give --map",
            plan.platform.name,
            map.colour_count(),
            here.name
        )));
    }
    Ok(map)
}
