//! Colours and banks of the plan's tasks, as a part.
//!
//! Problem: a plan gives each core page colours and DRAM banks of its own, and the kernel takes any
//! frame. Rule: each program that solocore starts is started with the library that keeps its pages
//! in frames of its core's colours and banks (`solocore_space`, docs/space.md). Everything is
//! checked before anything is started: that the plan is for this cache, that each program can be
//! coloured, and that there are enough frames. A promise holds while all of the plan's programs
//! that run were started so, and no page of theirs was found elsewhere: a page in a wrong colour
//! may be in that of any core. In a plan with levels, ways that colours only stand for are not
//! promised: the bounds count on ways. Source: single-core-equivalence, section 2 (PALLOC);
//! maracas, section V. Does not cover: programs outside of the plan, the kernel's own memory, the
//! page cache and shared memory, which use frames of all colours; `docs/space.md` lists them.

use super::frames::{Planned, Region};
use super::locked;
use super::messages::{self, End};
use super::part::{Held, Part};
use crate::error::LinuxError;
use crate::schedule::coloured::{Environment, Space};
use crate::schedule::isolate::Layout;
use crate::schedule::placed::{How, Placed};
use crate::schedule::prefetch::Source;
use solocore_model::Plan;
use solocore_model::plan::{Answer, PlanCore, Promise, Subject};
use solocore_model::run::{RunColoured, RunResult};
use solocore_space::map::Map;
use solocore_space::queues::Queues;
use solocore_space::room::Memory;
use solocore_space::{geometry, program};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

/// Memory that is left to other programs while frames are looked for, bytes.
const LEFT: u64 = 512 << 20;
const PAGE: u64 = 4096;

/// The part that starts the plan's programs in their colours and banks.
pub struct Colours {
    planned: Planned,
    layout: Rc<Layout>,
    queues: Option<Queues>,
    spaces: Held<Vec<(String, Space)>>,
}

impl Colours {
    /// The part for a plan's tasks, by a map of this machine's memory; `source` says where the map
    /// is from.
    #[must_use]
    pub fn new(plan: &Plan, layout: &Rc<Layout>, map: Map, source: &str) -> Self {
        let (plan, source) = (plan.clone(), source.to_owned());
        Self {
            planned: Planned { plan, map, source, by_masks: false },
            layout: Rc::clone(layout),
            queues: None,
            spaces: Held::default(),
        }
    }

    /// Whether the hardware gives the ways of levels, so that banks alone choose frames there.
    #[must_use]
    pub fn beside_masks(mut self, by_masks: bool) -> Self {
        self.planned.by_masks = by_masks;
        self
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
        let tasks = self.started().filter(|(p, _)| self.has_frames(p) == Some(true));
        let tasks = tasks.map(|(p, _)| p.name.clone());
        Environments { spaces: Held::clone(&self.spaces), tasks: tasks.collect() }
    }

    /// Banks of a core, first and count; `None`: any.
    ///
    /// # Errors
    /// The map has no frames for it.
    pub fn banks_of(&self, core: u32) -> Result<Option<(u32, u32)>, LinuxError> {
        Ok(self.planned.frames(Region::Core(core))?.and_then(|frames| frames.banks))
    }

    /// Tasks with programs that run in this run, and their commands.
    fn started(&self) -> impl Iterator<Item = (&Placed, &[String])> {
        let of = |p: &'_ Placed| matches!(p.how, How::Start(_));
        let all = self.layout.tasks.iter().filter(move |p| of(p));
        all.filter_map(|p| Some((p, p.how.command()?)))
    }

    /// Whether this run starts the task's program.
    fn starts(&self, task: &str) -> bool {
        self.started().any(|(p, _)| p.name == task)
    }

    /// A fact of the task's programs; `None`: it has no frames of its own.
    fn of_space<T>(&self, task: &str, fact: impl Fn(&Space) -> T) -> Option<T> {
        of_space(&self.spaces, task, fact)
    }

    /// Whether a task has frames of its own; `None`: it has no place in the plan, or its frames are
    /// refused.
    fn has_frames(&self, task: &Placed) -> Option<bool> {
        let frames = self.planned.frames(self.planned.region_named(&task.name)?);
        frames.ok().map(|frames| frames.is_some())
    }

    /// A note on the tasks that have no frames of their own, and so no queues there either.
    fn without_queues(&self) -> Option<String> {
        self.queues.as_ref()?;
        let kernels = |p: &Placed| self.has_frames(p) == Some(false);
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

    /// Checks that the tasks of each region find frames for the pages that they are known to touch.
    fn check_footprint(&self, available: u64) -> Result<(), LinuxError> {
        for region in self.planned.regions() {
            let Some(frames) = self.planned.frames(region)? else { continue };
            let tasks = self.planned.plan.tasks.iter();
            let tasks =
                tasks.filter(|t| self.planned.region_of(t) == region && self.starts(&t.name));
            let pages = tasks.filter_map(|t| t.touched_pages).fold(0, u64::saturating_add);
            let has = (available.saturating_sub(LEFT) as f64 * frames.choice.share()) as u64 / PAGE;
            if pages > has {
                return Err(LinuxError::Machine(format!(
                    "{region}: its tasks touch {pages} pages, and of the free memory of this \
                    machine about {has} pages have its colours and banks; free memory, or plan \
                    with more colours for it",
                )));
            }
        }
        Ok(())
    }

    /// Reason why a core's colours or banks are not its own.
    fn lost(&self, core: &PlanCore, subject: Subject) -> Option<String> {
        let unknown = || match subject {
            Subject::Banks => {
                let unknown = self.planned.without_banks();
                unknown.or_else(|| self.planned.banks_choose_sets())
            }
            Subject::Ways => self.planned.too_few(core),
            _ => None,
        };
        unknown().or_else(|| self.elsewhere())
    }

    /// Reason why pages of the plan's tasks are or were in other frames.
    fn elsewhere(&self) -> Option<String> {
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

    /// The answer about ways of levels A and B, for which colours stand.
    fn keeps_ways(&self, promise: &Promise) -> Option<Answer> {
        let own = self.planned.plan.ways_of(promise.core()?).filter(|_| !self.planned.by_masks)?;
        let stand = || {
            format!(
                "colours that stand for its {} ways keep other tasks of the plan out, but the bounds \
                    count on ways; give --resctrl, or measure the tasks in these colours and give \
                    --vouch ways",
                own.1
            )
        };
        Some(Answer::open(promise, true, self.elsewhere().unwrap_or_else(stand)))
    }

    /// The answer about locked pages; `None`: they get no colours of their own.
    fn keeps_locked(&self, promise: &Promise) -> Option<Answer> {
        let state = |task: &str| locked::State {
            starts: self.starts(task),
            seen: self.of_space(task, Space::lockdown).flatten(),
        };
        locked::answer(&self.planned, promise, self.elsewhere(), state)
    }

    /// The answer about the buffer of a message; `None`: the promise is about another one.
    fn keeps_buffer(&self, promise: &Promise) -> Option<Answer> {
        let message = messages::of(&self.planned.plan, promise)?;
        let end = |task: &str| End {
            region: self.planned.region_named(task),
            starts: self.starts(task),
            memory: self.of_space(task, Space::memory),
        };
        let ends = [end(&message.from), end(&message.to)];
        let placed = messages::planned(message, &ends, self.queues.is_some());
        let kept = placed
            .and_then(|()| self.planned.without_banks().map_or(Ok(()), Err))
            .and_then(|()| self.elsewhere().map_or(Ok(()), Err))
            .and_then(|()| messages::measured(message, &ends));
        Some(match kept {
            Ok(why) => Answer::kept(promise, "colours", true, why),
            Err(why) => Answer::open(promise, true, why),
        })
    }
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

/// A fact of a task's programs; `None`: it has no frames of its own, or these are not there yet.
fn of_space<T>(
    spaces: &Held<Vec<(String, Space)>>,
    task: &str,
    fact: impl Fn(&Space) -> T,
) -> Option<T> {
    let spaces = spaces.borrow();
    let (_, space) = spaces.as_ref()?.iter().find(|(name, _)| name == task)?;
    Some(fact(space))
}

/// Variables for the programs of tasks.
#[derive(Clone)]
pub struct Environments {
    /// Once they are there.
    spaces: Held<Vec<(String, Space)>>,
    /// Tasks with frames of their own.
    tasks: BTreeSet<String>,
}

impl Environments {
    /// Those of a task; none where it has no frames of its own.
    pub(super) fn of(&self, task: &str) -> Environment {
        of_space(&self.spaces, task, Space::environment).unwrap_or_default()
    }

    /// Whether processes of the task start on frames of its own.
    pub(super) fn has(&self, task: &str) -> bool {
        self.tasks.contains(task)
    }

    /// Starts of the task's processes within its jobs, where the latter have processes that start
    /// before.
    pub(super) fn within_jobs(&self, task: &str) -> u64 {
        of_space(&self.spaces, task, |space| space.seen().within_jobs).unwrap_or(0)
    }

    /// Locked pages of all tasks, by task.
    pub(super) fn sources(&self) -> Vec<(String, Source)> {
        let spaces = self.spaces.borrow();
        let of = |(task, space): &(String, Space)| Some((task.clone(), space.source()?));
        spaces.iter().flatten().filter_map(of).collect()
    }
}

impl Part for Colours {
    fn places_pages(&self) -> bool {
        true
    }

    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        let core = match promise.subject {
            Subject::Buffer => return self.keeps_buffer(promise),
            Subject::LockedPages | Subject::Prefetch => return self.keeps_locked(promise),
            Subject::Ways if self.planned.plan.levels().is_some() => {
                return self.keeps_ways(promise);
            }
            _ => self.planned.plan.cores.iter().find(|c| Some(c.id) == promise.core())?,
        };
        let mine = match promise.subject {
            Subject::Ways => core.colours.is_some(),
            Subject::Banks => core.banks.is_some(),
            _ => false,
        };
        let kept = || {
            let source = &self.planned.source;
            format!(
                "programs that solocore starts have only frames of their cores ({source}); others \
                    have any"
            )
        };
        mine.then(|| match self.lost(core, promise.subject) {
            Some(why) => Answer::open(promise, true, why),
            None => Answer::kept(promise, "colours", true, kept()),
        })
    }

    fn check(&mut self) -> Result<(), LinuxError> {
        let mut any = false;
        for region in self.planned.regions() {
            any |= self.planned.frames(region)?.is_some();
        }
        if !any {
            return Err(LinuxError::Input(self.planned.nothing()));
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
        let available = Memory::of(Path::new("/")).map_or(u64::MAX, |memory| memory.available);
        let started = self.started().map(|(task, command)| (task.name.as_str(), command));
        locked::check(&self.planned, started, available.saturating_sub(LEFT))?;
        self.check_footprint(available)
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
        for (task, command) in self.started() {
            let Some(region) = self.planned.region_named(&task.name) else { continue };
            let Some(frames) = self.planned.frames(region)? else { continue };
            let seen = RunColoured {
                task: task.name.clone(),
                colours: frames.colours,
                banks: frames.banks,
                ..RunColoured::default()
            };
            let queues = self.queues.as_ref();
            let directory = self.layout.directory();
            let (choice, locked) =
                locked::placing(&self.planned, &task.name, command, directory, &frames.choice)?;
            let map = &self.planned.map;
            let space = Space::start(map, &choice, seen, queues, locked)?;
            spaces.push((task.name.clone(), space));
        }
        *self.spaces.borrow_mut() = Some(spaces);
        Ok(())
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        let spaces = self.spaces.borrow();
        run.coloured = spaces.iter().flatten().map(|(_, space)| space.seen()).collect();
        run.locked_pages.extend(spaces.iter().flatten().filter_map(|(_, space)| space.lockdown()));
        Ok(())
    }

    fn end(&mut self) {
        self.spaces.borrow_mut().take();
    }
}

#[cfg(test)]
#[path = "colours_tests.rs"]
mod tests;
