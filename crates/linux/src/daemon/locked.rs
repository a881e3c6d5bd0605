//! Locked pages of the plan's tasks, in colours of their cores that no other page gets.
//!
//! Problem: a plan counts on hits in locked pages, and on a board without ways that can be reserved
//! their lines stay only where no other page has lines. Rule: some of a core's colours are for its
//! locked pages alone (`Plan::lock_colours`), and each page gets a frame of one colour
//! (`solocore_space::locked`); all other pages of the core get its other colours. Before anything
//! is changed, it is checked that there are such frames, and that the plan's pages are those of the
//! program that starts. The promise is kept while in
//! every process that ended each page was put into its frame, and those that the process had not
//! freed were verified. One process of a task has its locked pages, the first one: the promise stays open
//! where the plan locks pages of a further one. Source: single-core-equivalence, section 2.3
//! (Colored Lockdown); maracas, section V. Does not cover: instructions of the kernel and memory
//! outside of the plan, which have lines in all colours. Where a colour has more locked pages than a
//! slice has ways, and the functions of the slices are not known, the promise stays open.

use super::frames::Planned;
use crate::error::LinuxError;
use solocore_model::plan::{Answer, LockColours, LockFrame, PlanCore, PlanTask, Promise, Subject};
use solocore_model::run::RunLocked;
use solocore_space::locked::Wanted;
use solocore_space::map::{Choice, Map};
use solocore_space::named::mapping_number;
use solocore_space::wire::MOST_LOCKED;
use solocore_space::{SpaceError, loader};
use std::path::Path;

const PAGE: u64 = 4096;
/// Region of pages that have no names: the system file states their curve.
const STATED: &str = "stated";

/// Whether a region of a profile is one of a further process of the job (`part 1: heap`).
fn is_further(region: &str) -> bool {
    let part = region.strip_prefix("part ").and_then(|rest| rest.split_once(": "));
    part.is_some_and(|(number, _)| number.parse::<u64>().is_ok())
}

/// Colours and frames of a core with locked pages, by a map that tells the kinds of its pages
/// apart.
struct Locking {
    colours: LockColours,
    map: Map,
    /// Frames of all its pages, and of those that are not locked.
    all: Choice,
    ordinary: Choice,
    /// A colour of other pages.
    rest: u32,
}

/// Those of a core; `None`: it has no locked pages, no colours, or more pages than its colours
/// hold.
fn locking(planned: &Planned, core: u32) -> Result<Option<Locking>, LinuxError> {
    let Ok(Some(colours)) = planned.plan.lock_colours(core) else { return Ok(None) };
    let of_plan = planned.plan.cores.iter().find(|c| c.id == core);
    let Some((first, count)) = of_plan.and_then(|c| c.colours) else { return Ok(None) };
    let (own, banks) = (first..first + count, banks(planned, of_plan));
    let map = if colours.kinds > 1 { planned.map.with_slices() } else { planned.map.clone() };
    let of_colour = |&colour: &u32| finer(planned, &map, colour);
    let choice = |of: &[u32], pages: &str| {
        let all: Vec<u32> = of.iter().flat_map(of_colour).collect();
        Choice::new(&map, Some(&all), banks.as_deref()).map_err(|e| {
            LinuxError::Machine(format!(
                "core {core}: its {pages} find no frames of colours {} on its banks ({}): {e}",
                listed(of),
                planned.source
            ))
        })
    };
    for colour in own.clone().filter(|&c| colours.contain(c)) {
        choice(&[colour], "locked pages")?;
    }
    let all: Vec<u32> = own.collect();
    let rest: Vec<u32> = all.iter().copied().filter(|&c| !colours.contain(c)).collect();
    Ok(Some(Locking {
        colours,
        all: choice(&all, "pages")?,
        ordinary: choice(&rest, "other pages")?,
        rest: rest.first().copied().unwrap_or(0),
        map,
    }))
}

/// The colours of a finer map that a colour of the plan has become.
fn finer<'a>(planned: &Planned, map: &'a Map, colour: u32) -> impl Iterator<Item = u32> + 'a {
    let all = planned.map.colour_count();
    (0..map.colour_count() / all).map(move |kind| colour + kind * all)
}

fn banks(planned: &Planned, core: Option<&PlanCore>) -> Option<Vec<u32>> {
    let (first, count) = core.and_then(|c| c.banks).filter(|_| planned.knows_banks())?;
    Some((first..first + count).collect())
}

fn listed(colours: &[u32]) -> String {
    colours.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Checks that there are frames, and that the programs are those whose pages are locked. `started`
/// are names of tasks with their commands, `free` is the memory for them in bytes.
pub(super) fn check<'a>(
    planned: &Planned,
    started: impl Iterator<Item = (&'a str, &'a [String])>,
    free: u64,
) -> Result<(), LinuxError> {
    for core in &planned.plan.cores {
        if let Some(locking) = locking(planned, core.id)? {
            check_frames(planned, core.id, &locking, free)?;
        }
    }
    for (task, command) in started {
        let of_plan = planned.plan.tasks.iter().find(|t| t.name == task);
        let Some(other) = of_plan.and_then(|t| other_program(t, command)) else { continue };
        return Err(LinuxError::Machine(format!(
            "task `{task}`: the plan locks pages of `{other}`, and the command starts another program; \
                plan with a profile of that program, or start `{other}`"
        )));
    }
    Ok(())
}

fn check_frames(
    planned: &Planned,
    core: u32,
    locking: &Locking,
    free: u64,
) -> Result<(), LinuxError> {
    let tasks = planned.plan.tasks.iter().filter(|t| t.core == core);
    let other = tasks.filter_map(|t| t.touched_pages.map(|n| n.saturating_sub(pages_of(t))));
    let other = other.fold(0, u64::saturating_add);
    let has = (free as f64 * locking.ordinary.share()) as u64 / PAGE;
    let each = free / u64::from(planned.map.colour_count()) / PAGE;
    let (want, has, what) = if locking.colours.pages_each > each {
        (locking.colours.pages_each, each, "pages locked in a colour")
    } else if other > has {
        (other, has, "pages that are not locked")
    } else {
        return Ok(());
    };
    Err(LinuxError::Machine(format!(
        "core {core}: its tasks have {want} {what}, and of the free memory of this machine about {has} \
            pages have such frames; free memory, or plan with more colours for it"
    )))
}

fn pages_of(task: &PlanTask) -> u64 {
    task.locked_pages.len() as u64
}

/// The program of the plan whose pages are locked, if the command starts another one.
fn other_program<'a>(task: &'a PlanTask, command: &[String]) -> Option<&'a str> {
    let base = |of: &'a [String]| Path::new(of.first()?).file_name()?.to_str();
    let planned = base(task.command.as_deref()?)?;
    let here = Path::new(command.first()?).file_name()?.to_str()?;
    let region = |name: &'a str| name.split_once(':').map_or(name, |(file, _)| file);
    let named = task.locked_pages.iter().any(|page| region(&page.region) == planned);
    (named && here != planned).then_some(planned)
}

/// Locked pages of a task, and their colours, first and count.
pub(super) type Locked = (Wanted, (u32, u32));

/// The frames of a task that is started with this command, of `all` those of its core: a task
/// without locked pages gets those that the locked pages of others leave.
pub(super) fn placing(
    planned: &Planned,
    task: &str,
    command: &[String],
    directory: &Path,
    all: &Choice,
) -> Result<(Choice, Option<Locked>), LinuxError> {
    let core = planned.plan.tasks.iter().find(|t| t.name == task).map(|t| t.core);
    let locking = core.map_or(Ok(None), |core| locking(planned, core))?;
    let Some(Locking { colours, map, all, ordinary, rest }) = locking else {
        return Ok((all.clone(), None));
    };
    let pages = planned.plan.locked_in_colours(task).unwrap_or_default();
    if pages.is_empty() {
        return Ok((ordinary, None));
    }
    let numbered = pages.iter().any(|(page, _)| mapping_number(&page.region).is_some());
    let of_task = |e: SpaceError| LinuxError::from(e).of(&format!("locked pages of task `{task}`"));
    let loader = numbered.then(|| loader::mappings(command, directory).map_err(of_task));
    let loader = loader.transpose()?;
    let all_colours = planned.map.colour_count();
    let kinds = map.colour_count() / all_colours;
    let colour = |at: LockFrame| at.colour + at.kind % kinds * all_colours;
    let pages = pages.into_iter().map(|(page, at)| (page, colour(at))).collect();
    let wanted = Wanted { map, pages, loader, ordinary, rest };
    Ok((all, Some((wanted, (colours.first, colours.count)))))
}

/// Facts of a run about a task's locked pages.
pub(super) struct State {
    /// solocore starts its program.
    pub starts: bool,
    /// Counts so far, once it runs.
    pub seen: Option<RunLocked>,
}

/// The answer about locked pages, of a task or of a partition's tasks; `None`: they get no colours
/// of their own. `elsewhere` is a reason why pages of the plan may lie in any frames.
pub(super) fn answer(
    planned: &Planned,
    promise: &Promise,
    elsewhere: Option<String>,
    state: impl Fn(&str) -> State,
) -> Option<Answer> {
    let mine = |t: &&PlanTask| match promise.subject {
        Subject::Prefetch => t.partition.as_deref() == Some(promise.name()),
        _ => t.name == promise.name(),
    };
    let tasks: Vec<&PlanTask> =
        planned.plan.tasks.iter().filter(mine).filter(|t| !t.locked_pages.is_empty()).collect();
    let coloured =
        |core: u32| planned.plan.cores.iter().any(|c| c.id == core && c.colours.is_some());
    let first = tasks.first().filter(|_| tasks.iter().all(|t| coloured(t.core)))?;
    let lost = tasks.iter().find_map(|t| lost(planned, t, &state(&t.name)));
    Some(match lost.or(elsewhere) {
        Some(why) => Answer::open(promise, true, why),
        None => Answer::kept(promise, "colours", true, kept(planned, first.core)),
    })
}

/// Reason why the locked pages of a task do not stay in the cache.
fn lost(planned: &Planned, task: &PlanTask, state: &State) -> Option<String> {
    let colours = match planned.plan.lock_colours(task.core) {
        Ok(colours) => colours?,
        Err(why) => return Some(format!("core {}: {why}", task.core)),
    };
    if task.locked_pages.iter().any(|page| page.region == STATED) {
        return Some(format!(
            "the stated lockdown curve of `{}` names no pages; give its program and let solocore \
                profile it",
            task.name
        ));
    }
    if let Some(page) = task.locked_pages.iter().find(|page| is_further(&page.region)) {
        return Some(format!(
            "the plan locks pages of a further process of `{}` (`{}`), and only its first process \
                has locked pages; make the program itself the task's command, in place of a script, \
                and plan again",
            task.name, page.region
        ));
    }
    if !state.starts {
        return Some(format!(
            "solocore does not start `{}`, so its pages stay where they are; give --start",
            task.name
        ));
    }
    if task.locked_pages.len() > MOST_LOCKED {
        return Some(format!(
            "the plan locks {} pages of `{}`, and a process can have {MOST_LOCKED}; plan with fewer \
                locked pages",
            task.locked_pages.len(),
            task.name
        ));
    }
    let known = planned.map.with_slices().colour_count() / planned.map.colour_count();
    if !colours.fit || known < colours.kinds {
        return Some(format!(
            "a colour gets {} locked pages of core {}, and a slice has {} ways; its hash is not known; \
                plan with fewer locked pages or more colours, state llc.slice_functions, or give \
                --vouch locked-pages",
            colours.pages_each, task.core, planned.plan.platform.llc.ways
        ));
    }
    let fault = state.seen.as_ref().and_then(|seen| seen.fault.as_ref());
    fault.map(|why| format!("task `{}`: {why}", task.name))
}

fn kept(planned: &Planned, core: u32) -> String {
    let Ok(Some(locked)) = planned.plan.lock_colours(core) else { return String::new() };
    let LockColours { first, count, pages_each, kinds, .. } = locked;
    let colours = if count == 1 {
        format!("colour {first}")
    } else {
        format!("colours {first} to {}", first + count - 1)
    };
    let even = if kinds > 1 { ", spread over the slices" } else { "" };
    format!(
        "{colours} of core {core} are for locked pages alone, at most {pages_each} pages in each{even}; \
            pages that a process has at its end are verified"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::profile::PageName;
    use solocore_model::{Plan, Platform};
    use solocore_space::map::Map;

    /// Two cores with half of 32 colours each, twelve ways, and four slices. Task `one` on core 0
    /// has this number of locked pages.
    fn planned(pages: u64) -> Planned {
        let mut plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
        plan.platform = Platform::find("core-i5-2500k", Path::new(".")).unwrap();
        plan.cores.truncate(2);
        for (core, half) in plan.cores.iter_mut().zip(0..) {
            (core.ways, core.colours, core.banks) = (6, Some((16 * half, 16)), None);
        }
        let page = |offset| PageName { region: "detect:data".to_owned(), offset };
        plan.tasks.truncate(1);
        let task = plan.tasks.first_mut().unwrap();
        (task.name, task.core) = ("one".to_owned(), 0);
        task.command = Some(vec!["/opt/detect".to_owned()]);
        task.locked_pages = (0..pages).map(page).collect();
        let map = Map {
            colours: (12..17).map(|bit| 1 << bit).collect(),
            banks: Vec::new(),
            slices: Vec::new(),
        };
        Planned { plan, map, source: "a map".to_owned(), by_masks: false }
    }

    fn command(program: &str) -> Vec<String> {
        vec![program.to_owned()]
    }

    fn checked(planned: &Planned, program: &str, free: u64) -> Result<(), String> {
        let command = command(program);
        let started = std::iter::once(("one", command.as_slice()));
        check(planned, started, free).map_err(|e| {
            assert!(matches!(e, LinuxError::Machine(_)), "exit code 3: {e}");
            e.to_string()
        })
    }

    /// Fails when a slice gets more lines of locked pages than it has ways, or other pages get some.
    #[test]
    fn many_pages_are_spread_over_the_slices() {
        let mut planned = planned(720);
        assert!(open(&planned, State { starts: true, seen: None }, None).is_some());
        planned.map.slices = planned.plan.platform.llc.slice_functions.clone();
        assert_eq!(open(&planned, State { starts: true, seen: None }, None), None);
        let all = Choice::new(&planned.map, Some(&(0..16).collect::<Vec<_>>()), None).unwrap();
        let (choice, locked) =
            placing(&planned, "one", &command("detect"), Path::new("/"), &all).unwrap();
        let (wanted, colours) = locked.unwrap();
        assert_eq!((colours, wanted.map.colour_count()), ((1, 15), 128));
        // Each frame of 2 MiB by its finer colour: it has a line of each number in one slice.
        let slice = |address: u64| {
            let masks = planned.map.slices.iter().zip(0..);
            masks.map(|(m, bit)| ((address & m).count_ones() & 1) << bit).sum::<u32>()
        };
        let mut lines = std::collections::BTreeMap::new();
        for frame in 0..512u64 {
            let at = frame << 12;
            let finer = wanted.map.colour(at);
            let pages = wanted.pages.iter().filter(|(_, colour)| *colour == finer).count();
            assert_eq!(choice.allows(frame), finer % 32 < 16);
            assert_eq!(wanted.ordinary.allows(frame), finer % 32 == 0, "{frame}");
            for line in 0..64 {
                let set = (finer % 32, line, slice(at | line << 6));
                let of = lines.entry(set).or_insert_with(std::collections::BTreeMap::new);
                of.insert(finer, pages);
            }
        }
        let most = lines.values().map(|of| of.values().sum::<usize>()).max();
        assert_eq!(most, Some(12), "as many as a slice has ways");
    }

    #[test]
    fn locked_pages_get_the_last_colours_and_others_the_rest() {
        let mut planned = planned(30);
        let other = PlanTask { name: "two".to_owned(), ..planned.plan.tasks[0].clone() };
        planned.plan.tasks.push(PlanTask { locked_pages: Vec::new(), ..other });
        let all = Choice::new(&planned.map, Some(&(0..16).collect::<Vec<_>>()), None).unwrap();
        let of = |task| placing(&planned, task, &command("detect"), Path::new("/"), &all).unwrap();
        let (choice, locked) = of("one");
        let (wanted, colours) = locked.unwrap();
        assert_eq!((choice, colours), (all.clone(), (13, 3)));
        let each: Vec<u32> = wanted.pages.iter().map(|(_, colour)| *colour).collect();
        assert_eq!(each[..4], [13, 14, 15, 13]);
        for colour in 0..32u64 {
            assert_eq!(wanted.ordinary.allows(colour), colour < 13, "{colour}");
        }
        assert_eq!((wanted.rest, wanted.loader), (0, None));
        // Pages of another task of the core keep off these colours.
        assert_eq!(of("two"), (wanted.ordinary, None));
        assert_eq!(of("three"), (all.clone(), None));
        assert_eq!(checked(&planned, "./detect", 1 << 30), Ok(()));
    }

    #[test]
    fn what_cannot_be_locked_is_refused_first() {
        let mut planned = planned(30);
        let error = checked(&planned, "/bin/other", 1 << 30).unwrap_err();
        assert!(error.contains("locks pages of `detect`") && error.contains("`one`"), "{error}");
        let error = checked(&planned, "detect", 32 * 4096).unwrap_err();
        assert!(
            error.contains("10 pages locked in a colour") && error.contains("about 1 "),
            "{error}"
        );
        planned.plan.tasks[0].touched_pages = Some(1 << 36);
        let error = checked(&planned, "detect", 1 << 30).unwrap_err();
        assert!(error.contains("pages that are not locked"), "{error}");
        planned.plan.tasks[0].touched_pages = None;
        // Bit 15 chooses half of the colours and half of the banks.
        planned.plan.cores[0].banks = Some((0, 1));
        (planned.plan.platform.dram.ranks, planned.plan.platform.dram.banks) = (1, 2);
        planned.map.banks = vec![1 << 15];
        let error = checked(&planned, "detect", 1 << 30).unwrap_err();
        assert!(
            error.contains("locked pages find no frames of colours 13 on its banks"),
            "{error}"
        );
    }

    /// The reason of an open answer.
    fn open(planned: &Planned, state: State, elsewhere: Option<String>) -> Option<String> {
        let promise =
            Promise::new(Subject::LockedPages, "task one", vec!["one".into()], String::new());
        let state = std::cell::Cell::new(Some(state));
        let none = || State { starts: false, seen: None };
        let answer = answer(planned, &promise, elsewhere, |_| state.take().unwrap_or_else(none));
        let answer = answer.expect("it concerns the part");
        answer.kept_by.is_none().then_some(answer.why)
    }

    #[test]
    fn the_promise_is_open_for_each_reason() {
        let started = || State { starts: true, seen: None };
        assert_eq!(open(&planned(30), started(), None), None);
        let why = open(&planned(30), State { starts: false, seen: None }, None).unwrap();
        assert!(why.contains("give --start"), "{why}");
        assert_eq!(open(&planned(30), started(), Some("x".into())).as_deref(), Some("x"));
        let seen = RunLocked { fault: Some("3 of 4".into()), ..RunLocked::default() };
        let why = open(&planned(30), State { starts: true, seen: Some(seen) }, None).unwrap();
        assert_eq!(why, "task `one`: 3 of 4");
        // Of fifteen colours with twelve ways and four slices.
        assert_eq!(open(&planned(180), started(), None), None);
        let why = open(&planned(181), started(), None).unwrap();
        assert!(why.contains("gets 13 locked pages") && why.contains("12 ways"), "{why}");
        let why = open(&planned(721), started(), None).unwrap();
        assert!(why.contains("more than the 720 that 15 of its 16 colours hold"), "{why}");
        let mut many = planned(2049);
        many.plan.platform.llc.ways = 200;
        let why = open(&many, started(), None).unwrap();
        assert!(why.contains("locks 2049 pages of `one`") && why.contains("have 2048"), "{why}");
        let mut stated = planned(1);
        stated.plan.tasks[0].locked_pages[0].region = STATED.to_owned();
        assert!(open(&stated, started(), None).unwrap().contains("names no pages"));
    }

    /// Fails when a run promises pages of a child, which gets none.
    #[test]
    fn pages_of_a_further_process_are_not_promised() {
        let region = |name: &str| {
            let mut planned = planned(2);
            planned.plan.tasks[0].locked_pages[1].region = name.to_owned();
            open(&planned, State { starts: true, seen: None }, None)
        };
        let why = region("part 1: detect:data").unwrap();
        assert!(why.contains("`one` (`part 1: detect:data`)") && why.contains("; make"), "{why}");
        for first in ["heap", "part 1", "part of it: data", "mmap#1"] {
            assert_eq!(region(first), None, "{first}");
        }
    }

    #[test]
    fn cores_without_colours_are_of_no_concern() {
        let mut planned = planned(3);
        planned.plan.cores[0].colours = None;
        let promise = Promise::new(Subject::LockedPages, "task one", Vec::new(), String::new());
        let state = |_: &str| State { starts: true, seen: None };
        assert!(answer(&planned, &promise, None, state).is_none());
        assert_eq!(checked(&planned, "detect", 0), Ok(()));
    }
}
