//! Colours and banks of the plan's tasks, as a part.
//!
//! Problem: a plan gives each core page colours and DRAM banks of its own, and the kernel takes any
//! frame. Rule: each program that solocore starts is started with the library that keeps its pages in
//! frames of its core's colours and banks (`solocore_space`, docs/space.md). Everything is checked
//! before anything is started: that the plan is for this cache, that each program can be coloured,
//! and that there are enough frames. A promise holds while all of the plan's programs that run were
//! started so, and no page of theirs was found elsewhere: a page in a wrong colour may be in that of
//! any core. Source: single-core-equivalence, section 2 (PALLOC); maracas, section V.
//! Does not cover: programs outside of the plan, the kernel's own memory, the page cache and shared
//! memory, which use frames of all colours; `docs/space.md` lists them.

use super::part::{Held, Part};
use crate::error::LinuxError;
use crate::schedule::coloured::{Environment, Space};
use crate::schedule::isolate::Layout;
use crate::schedule::placed::{How, Placed};
use solocore_model::Plan;
use solocore_model::plan::{Answer, PlanCore, Promise, Subject};
use solocore_model::run::{RunColoured, RunResult};
use solocore_space::geometry;
use solocore_space::map::{Choice, Map};
use solocore_space::program;
use solocore_space::queues::Queues;
use std::path::Path;
use std::rc::Rc;

/// Memory that is left to other programs while frames are looked for, bytes.
const LEFT: u64 = 512 << 20;
const PAGE: u64 = 4096;

/// Frames of a core.
struct Frames {
    colours: Option<(u32, u32)>,
    banks: Option<(u32, u32)>,
    choice: Choice,
}

/// The part that starts the plan's programs in their colours and banks.
pub struct Colours {
    plan: Plan,
    layout: Rc<Layout>,
    map: Map,
    /// Source of the map, in words.
    source: String,
    queues: Option<Queues>,
    spaces: Held<Vec<(String, Space)>>,
}

impl Colours {
    /// The part for a plan's tasks, by a map of this machine's memory; `source` says where the map
    /// is from.
    #[must_use]
    pub fn new(plan: &Plan, layout: &Rc<Layout>, map: Map, source: &str) -> Self {
        Self {
            plan: plan.clone(),
            layout: Rc::clone(layout),
            map,
            source: source.to_owned(),
            queues: None,
            spaces: Held::default(),
        }
    }

    /// Message queues that lie in frames of the task that makes them.
    #[must_use]
    pub fn with_queues(mut self, queues: Option<Queues>) -> Self {
        self.queues = queues;
        self
    }

    /// Variables for the programs of a task, once the part has started.
    #[must_use]
    pub fn environments(&self) -> Environments {
        Environments(Held::clone(&self.spaces))
    }

    /// The frames of a core; `None`: the plan gives it neither colours nor banks, or the map knows
    /// none.
    fn frames(&self, core: u32) -> Result<Option<Frames>, LinuxError> {
        let Some(core) = self.plan.cores.iter().find(|c| c.id == core) else { return Ok(None) };
        let (colours, banks) = (core.colours, core.banks.filter(|_| self.knows_banks()));
        if colours.is_none() && banks.is_none() {
            return Ok(None);
        }
        let list = |of: Option<(u32, u32)>| of.map(|(first, n)| (first..first + n).collect());
        let (c, b): (Option<Vec<u32>>, Option<Vec<u32>>) = (list(colours), list(banks));
        let choice = Choice::new(&self.map, c.as_deref(), b.as_deref());
        let choice = choice.map_err(|e| {
            LinuxError::from(e).of(&format!("core {} of the plan ({})", core.id, self.source))
        })?;
        Ok(Some(Frames { colours, banks, choice }))
    }

    /// Whether the map has the banks of the plan's board.
    fn knows_banks(&self) -> bool {
        let known = self.map.bank_count();
        known > 1 && known == self.plan.platform.total_banks()
    }

    /// Tasks with programs that run in this run, and their commands.
    fn started(&self) -> impl Iterator<Item = (&Placed, &[String])> {
        let of = |p: &'_ Placed| matches!(p.how, How::Start(_));
        let all = self.layout.tasks.iter().filter(move |p| of(p));
        all.filter_map(|p| Some((p, p.how.command()?)))
    }

    /// A note on the tasks that have no frames of their own, and so no queues there either.
    fn without_queues(&self) -> Option<String> {
        self.queues.as_ref()?;
        let kernels = |p: &Placed| matches!(self.frames(p.core), Ok(None));
        let tasks =
            self.started().filter(|(p, _)| kernels(p)).map(|(p, _)| format!("`{}`", p.name));
        let tasks = tasks.collect::<Vec<_>>().join(", ");
        (!tasks.is_empty()).then(|| {
            format!(
                "--queues: the plan gives no colours or banks to the cores of {tasks}; these tasks \
                    use the kernel's queues, and do not meet the other tasks there"
            )
        })
    }

    /// Checks that the tasks of each core find frames for the pages that they are known to touch.
    fn check_footprint(&self, available: u64) -> Result<(), LinuxError> {
        for core in &self.plan.cores {
            let Some(frames) = self.frames(core.id)? else { continue };
            let here = |name: &str| self.started().any(|(p, _)| p.name == name);
            let tasks = self.plan.tasks.iter().filter(|t| t.core == core.id && here(&t.name));
            let pages = tasks.filter_map(|t| t.touched_pages).fold(0, u64::saturating_add);
            let has = (available.saturating_sub(LEFT) as f64 * frames.choice.share()) as u64 / PAGE;
            if pages > has {
                return Err(LinuxError::Machine(format!(
                    "core {}: its tasks touch {pages} pages, and of the free memory of this \
                    machine about {has} pages have its colours and banks; free memory, or plan \
                    with more \
                        colours for it",
                    core.id
                )));
            }
        }
        Ok(())
    }

    /// Reason why a core's colours or banks are not its own.
    fn lost(&self, core: &PlanCore, subject: Subject) -> Option<String> {
        if subject == Subject::Banks && !self.knows_banks() {
            return Some(format!(
                "the map ({}) has {} banks of pages, and the plan {}; give --map with the bank \
                    functions of this machine (`solocore space map`)",
                self.source,
                self.map.bank_count(),
                self.plan.platform.total_banks()
            ));
        }
        if subject == Subject::Ways
            && let Some(why) = too_few(&self.plan, core)
        {
            return Some(why);
        }
        let elsewhere = |p: &&Placed| matches!(p.how, How::Attach(_) | How::Drive(_));
        if let Some(task) = self.layout.tasks.iter().find(elsewhere) {
            return Some(format!(
                "`{}` is {} and its pages are in any frames; let solocore start a task of the \
                plan instead",
                task.name,
                task.how.word()
            ));
        }
        self.spaces.borrow().iter().flatten().find_map(|(_, space)| fault(&space.seen()))
    }
}

/// Whole colours that hold less than the ways for which the plan was made.
fn too_few(plan: &Plan, core: &PlanCore) -> Option<String> {
    let (_, count) = core.colours?;
    let (all, ways) = (u64::from(plan.platform.colours()), u64::from(plan.platform.llc.ways));
    let (own, share) = (u64::from(count), plan.ways_of(core.id).map_or(0, |(_, n)| n));
    (own * ways < u64::from(share) * all).then(|| {
        format!(
            "its {count} whole colours of {all} hold less than the {share} ways of {ways} that the \
                plan counts on; give each core a number of ways that makes whole colours"
        )
    })
}

/// Reason against promises of colours, from the observations of a task.
fn fault(seen: &RunColoured) -> Option<String> {
    let task = &seen.task;
    if let Some(what) = seen.faults.first() {
        return Some(format!("task `{task}`: {what}"));
    }
    if seen.wrong > 0 {
        let wrong = seen.wrong;
        return Some(format!(
            "{wrong} pages of task `{task}` were found in other colours or banks"
        ));
    }
    (seen.moved_back > 0).then(|| {
        format!(
            "the kernel had moved {} pages of task `{task}` to other frames, and they were moved \
                back; set vm.compaction_proactiveness=0",
            seen.moved_back
        )
    })
}

/// Variables for the programs of tasks.
#[derive(Clone)]
pub struct Environments(Held<Vec<(String, Space)>>);

impl Environments {
    /// Those of a task; none where it has no frames of its own.
    pub(super) fn of(&self, task: &str) -> Environment {
        let spaces = self.0.borrow();
        let found = spaces.iter().flatten().find(|(name, _)| name == task);
        found.map_or_else(Vec::new, |(_, space)| space.environment())
    }
}

impl Part for Colours {
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        let core = self.plan.cores.iter().find(|c| Some(c.id) == promise.core())?;
        let mine = match promise.subject {
            Subject::Ways => core.colours.is_some(),
            Subject::Banks => core.banks.is_some(),
            _ => false,
        };
        mine.then(|| match self.lost(core, promise.subject) {
            Some(why) => Answer::open(promise, true, why),
            None => Answer::kept(
                promise,
                "colours",
                true,
                format!(
                    "programs that solocore starts have only frames of their cores ({}); others \
                        have any",
                    self.source
                ),
            ),
        })
    }

    fn check(&mut self) -> Result<(), LinuxError> {
        let mut any = false;
        for core in &self.plan.cores {
            any |= self.frames(core.id)?.is_some();
        }
        if !any {
            return Err(LinuxError::Input(
                "--colors: the plan gives colours to no core, and no map has its banks; \
                    plan for a board with partition = \"colour\", give --map, or leave --colors out"
                    .to_owned(),
            ));
        }
        for (task, command) in self.started() {
            let of = |e: LinuxError| e.of(&format!("--colors: task `{}`", task.name));
            if let Some(account) = &task.account {
                return Err(of(LinuxError::Input(format!(
                    "it runs as user `{}`, and only root may choose frames; remove `user` from the \
                        system file, or leave --colors out",
                    account.name
                ))));
            }
            let path = command.first().map_or(Path::new(""), Path::new);
            program::check(path).map_err(|e| of(e.into()))?;
        }
        program::check_machine().map_err(|e| LinuxError::from(e).of("--colors"))?;
        self.check_footprint(available_memory())
    }

    fn notes(&self) -> Vec<String> {
        let guest = geometry::in_guest().then(|| {
            "this is a guest: its frames have the colours and banks of the machine only if the \
                hypervisor maps them in huge pages"
                .to_owned()
        });
        guest.into_iter().chain(self.without_queues()).collect()
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let mut spaces = Vec::new();
        for (task, _) in self.started() {
            let Some(frames) = self.frames(task.core)? else { continue };
            let seen = RunColoured {
                task: task.name.clone(),
                colours: frames.colours,
                banks: frames.banks,
                ..RunColoured::default()
            };
            let queues = self.queues.as_ref();
            let space = Space::start(&self.map, &frames.choice, seen, queues)?;
            spaces.push((task.name.clone(), space));
        }
        *self.spaces.borrow_mut() = Some(spaces);
        Ok(())
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        let spaces = self.spaces.borrow();
        run.coloured = spaces.iter().flatten().map(|(_, space)| space.seen()).collect();
        Ok(())
    }

    fn end(&mut self) {
        self.spaces.borrow_mut().take();
    }
}

/// Memory that is free or can be made free, bytes; all, where the kernel does not say.
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::placed::Wishes;

    const COLOURS: [u64; 5] = [1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16];

    /// Two cores, each with half of 32 colours and of four banks, and a task on each.
    fn plan() -> Plan {
        let text = include_str!("../../tests/plan.json");
        let mut plan: Plan = serde_json::from_str(text).unwrap();
        plan.platform = solocore_model::Platform::find("core-i5-2500k", Path::new(".")).unwrap();
        (plan.platform.dram.ranks, plan.platform.dram.banks) = (1, 4);
        plan.cores.truncate(2);
        for (core, half) in plan.cores.iter_mut().zip(0..) {
            core.ways = 6;
            core.colours = Some((16 * half, 16));
            core.banks = Some((2 * half, 2));
        }
        let one = plan.tasks[0].clone();
        let task = |name: &str, core| solocore_model::plan::PlanTask {
            name: name.to_owned(),
            core,
            command: Some(vec!["/bin/sh".to_owned()]),
            ..one.clone()
        };
        plan.tasks = vec![task("one", 0), task("two", 1)];
        plan
    }

    fn wishes() -> Wishes {
        Wishes {
            start: true,
            commands: Vec::new(),
            attach: Vec::new(),
            directory: "/".into(),
            fifo: true,
            confine: false,
            irq_cpu: None,
            resctrl: false,
            trial: None,
        }
    }

    fn part(plan: &Plan, wishes: &Wishes, banks: Vec<u64>) -> Colours {
        let layout = Rc::new(Layout::new(plan, wishes).unwrap());
        Colours::new(plan, &layout, Map { colours: COLOURS.to_vec(), banks }, "a map")
    }

    fn banks() -> Vec<u64> {
        vec![1 << 20, 1 << 21]
    }

    fn promise(subject: Subject, core: u32) -> Promise {
        Promise::new(subject, &format!("core {core}"), vec!["one".into()], String::new())
    }

    /// The reason why nobody keeps it.
    fn open(part: &Colours, subject: Subject) -> Option<String> {
        let answer = part.keeps(&promise(subject, 0)).expect("it concerns the part");
        answer.kept_by.is_none().then_some(answer.why)
    }

    #[test]
    fn colours_and_banks_of_started_tasks_are_kept() {
        let part = part(&plan(), &wishes(), banks());
        assert_eq!([Subject::Ways, Subject::Banks].map(|s| open(&part, s)), [None, None]);
        assert!(part.keeps(&promise(Subject::Budget, 0)).is_none());
        assert!(part.keeps(&promise(Subject::Ways, 9)).is_none(), "no such core");
        let frames = part.frames(1).unwrap().unwrap();
        assert!((frames.choice.share() - 0.25).abs() < 1e-9, "half of both");
        assert!(frames.choice.allows(16 | 1 << 9) && !frames.choice.allows(16 | 1 << 8));
    }

    #[test]
    fn what_is_not_known_or_not_started_is_open() {
        let without = part(&plan(), &wishes(), Vec::new());
        assert_eq!(open(&without, Subject::Ways), None);
        assert!(open(&without, Subject::Banks).unwrap().contains("--map"));
        let attach = Wishes { attach: vec![("two".into(), std::process::id())], ..wishes() };
        let attached = part(&plan(), &attach, banks());
        assert!(open(&attached, Subject::Ways).unwrap().contains("`two` is attached"));
        let mut odd = plan();
        // 7 of 12 ways are 18 2/3 colours.
        (odd.cores[0].ways, odd.cores[0].colours) = (7, Some((0, 18)));
        let odd = part(&odd, &wishes(), banks());
        assert!(open(&odd, Subject::Ways).unwrap().contains("hold less than the 7 ways"));
        let mut none = plan();
        none.cores.iter_mut().for_each(|c| (c.colours, c.banks) = (None, None));
        let mut none = part(&none, &wishes(), banks());
        assert!(none.check().unwrap_err().to_string().contains("gives colours to no core"));
    }

    #[test]
    fn tasks_without_frames_are_named_beside_queues() {
        let mut plan = plan();
        (plan.cores[1].colours, plan.cores[1].banks) = (None, None);
        let part = part(&plan, &wishes(), banks());
        assert_eq!(part.without_queues(), None);
        let note = part.with_queues("/frames".parse().ok()).without_queues().unwrap();
        assert!(note.contains("cores of `two`; these tasks use the kernel's queues"), "{note}");
    }

    #[test]
    fn what_is_seen_of_a_task_decides() {
        let of = |seen: RunColoured| fault(&RunColoured { task: "t".into(), ..seen });
        assert_eq!(of(RunColoured { processes: 3, pages: 99, ..RunColoured::default() }), None);
        let wrong = RunColoured { wrong: 2, ..RunColoured::default() };
        assert!(of(wrong).unwrap().contains("2 pages of task `t`"));
        let moved = RunColoured { moved_back: 5, ..RunColoured::default() };
        assert!(of(moved).unwrap().contains("moved 5 pages"));
        let faults = vec!["static: it ran without colours".to_owned()];
        assert!(of(RunColoured { faults, ..RunColoured::default() }).unwrap().contains("static"));
    }

    #[test]
    fn tasks_that_cannot_be_coloured_and_too_few_frames_are_refused_first() {
        let mut user = plan();
        user.tasks[0].program.user = Some("root".to_owned());
        let error = part(&user, &wishes(), banks()).check().unwrap_err().to_string();
        assert!(error.contains("task `one`") && error.contains("user `root`"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text");
        std::fs::write(&text, "no program").unwrap();
        let commands = vec![("two".to_owned(), vec![text.display().to_string()])];
        let error = part(&plan(), &Wishes { commands, ..wishes() }, banks()).check();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("task `two`") && error.contains("neither an ELF"), "{error}");

        let mut large = plan();
        large.tasks[1].touched_pages = Some(1000);
        let large = part(&large, &wishes(), banks());
        // A quarter of the frames has the colours and the banks.
        let enough = LEFT + 4 * 1000 * PAGE;
        assert!(large.check_footprint(enough).is_ok());
        let error = large.check_footprint(enough - 4 * PAGE).unwrap_err().to_string();
        assert!(error.contains("core 1") && error.contains("1000 pages"), "{error}");
    }
}
