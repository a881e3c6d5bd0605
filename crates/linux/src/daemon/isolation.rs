//! Isolation of a plan's cores, as parts: ways of the cache, interrupts, other programs.

use super::colours::{Colours, Environments};
use super::part::{Held, Next, Part, Preview, Round, Settings};
use crate::error::LinuxError;
use crate::host::cpuset::Confiner;
use crate::host::irq::{self, Places};
use crate::host::resctrl::{self, Groups, Mounted, Other, Shares};
use crate::host::threads;
use crate::schedule::isolate::Layout;
use crate::schedule::placed::Placed;
use solocore_model::plan::{Answer, Promise, Subject};
use solocore_model::profile::PageName;
use solocore_model::run::{RunInterrupts, RunResult};
use solocore_model::{Plan, list};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Interval between two looks for new programs, and at the masks of resctrl.
const SWEEP: Duration = Duration::from_secs(2);

/// The plan's shares of cache and bandwidth, given by the hardware.
pub struct Ways {
    plan: Plan,
    settings: Option<Settings>,
    groups: Held<Groups>,
    /// What the kernel would give, or why it gives nothing.
    offered: Option<Result<Shares, String>>,
    /// Another plan and its shares; after `divide`, the plan before and its shares.
    next: Option<(Plan, Other)>,
    /// Cores whose ways were not their own at some time, with the reason.
    lost: BTreeMap<u32, String>,
    looked: Instant,
    notes: Vec<String>,
}

impl Ways {
    /// The part for a plan's shares.
    #[must_use]
    pub fn new(plan: &Plan, settings: &Settings) -> Self {
        Self {
            plan: plan.clone(),
            settings: Some(settings.clone()),
            groups: Held::default(),
            offered: None,
            next: None,
            lost: BTreeMap::new(),
            looked: Instant::now(),
            notes: Vec::new(),
        }
    }

    /// Reason why this core's ways are not its own.
    fn lost(&self, core: u32) -> Option<String> {
        if let Some(why) = self.lost.get(&core) {
            return Some(why.clone());
        }
        match (self.groups.borrow().as_ref(), &self.offered) {
            (Some(groups), _) => groups.lost(core),
            (None, Some(Ok(shares))) if shares.masks.is_empty() => {
                resctrl::lost(&Mounted(resctrl::root()), shares, core)
            }
            (None, Some(Ok(_))) => None,
            (None, Some(Err(why))) => Some(why.clone()),
            (None, None) => Some("the run has not read this machine's resctrl yet".to_owned()),
        }
    }

    /// Pages of tasks that are to be read into ways of their own.
    pub(super) fn pages(&self) -> BTreeMap<String, Vec<PageName>> {
        self.plan.tasks.iter().map(|t| (t.name.clone(), t.locked_pages.clone())).collect()
    }

    pub(super) fn groups(&self) -> Held<Groups> {
        Held::clone(&self.groups)
    }

    /// The cores have these shares now, by this plan. Returns those before.
    fn have(&mut self, plan: Plan, shares: &Shares) -> Plan {
        if let Some(groups) = self.groups.borrow_mut().as_mut() {
            groups.have(shares);
        }
        self.offered = Some(Ok(shares.clone()));
        std::mem::replace(&mut self.plan, plan)
    }
}

impl Part for Ways {
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        let core = promise.core().filter(|_| promise.subject == Subject::Ways)?;
        Some(match self.lost(core) {
            Some(why) => Answer::open(promise, true, why),
            None => {
                Answer::kept(promise, "resctrl", true, "groups of the kernel's resctrl have them")
            }
        })
    }

    fn check(&mut self) -> Result<(), LinuxError> {
        let offered = resctrl::look(&self.plan);
        self.offered = Some(offered.clone().map_err(|e| e.to_string()));
        offered.map(drop)
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let Some(settings) = &self.settings else { return Ok(()) };
        let (groups, notes) = settings.change(|changes| resctrl::give(&self.plan, changes))?;
        self.notes = notes;
        *self.groups.borrow_mut() = Some(groups);
        Ok(())
    }

    /// Reads the masks again, every two seconds.
    fn look(&mut self, _: &mut Round) -> Result<Next, LinuxError> {
        if self.looked.elapsed() >= SWEEP
            && let Some(groups) = self.groups.borrow().as_ref()
        {
            self.looked = Instant::now();
            for core in &self.plan.cores {
                if let (false, Some(why)) = (self.lost.contains_key(&core.id), groups.lost(core.id))
                {
                    self.lost.insert(core.id, why);
                }
            }
        }
        Ok(Next::GoOn)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn divides(&self) -> bool {
        true
    }

    fn can_take(&mut self, plan: &Plan) -> Result<bool, LinuxError> {
        self.next = None;
        let Some(Ok(shares)) = &self.offered else { return Ok(false) };
        let divided = ways(plan) != ways(&self.plan);
        if divided && shares.masks.is_empty() {
            return Err(LinuxError::Machine(
                "the hardware cannot share out the ways of the cache; end the run and start it \
                    with the new plan"
                    .to_owned(),
            ));
        }
        let limited = shares.limit_bandwidth() && bandwidths(plan) != bandwidths(&self.plan);
        if divided || limited {
            self.next = Some((plan.clone(), resctrl::look_at_other(shares, plan)?));
        }
        Ok(false)
    }

    fn divide(&mut self) -> Result<(), LinuxError> {
        let Some((plan, other)) = self.next.take() else { return Ok(()) };
        other.give(&mut Mounted(resctrl::root()))?;
        let before = self.have(plan, &other.shares);
        self.next = Some((before, other));
        Ok(())
    }

    fn divide_as_before(&mut self) {
        let Some((before, other)) = self.next.take() else { return };
        other.take_back(&mut Mounted(resctrl::root()));
        self.have(before, other.before());
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        run.groups = self.groups.borrow().as_ref().map_or_else(Vec::new, Groups::runs);
        Ok(())
    }

    fn end(&mut self) {
        self.groups.borrow_mut().take();
        self.settings = None;
    }
}

/// The ways of each core.
fn ways(plan: &Plan) -> Vec<u32> {
    plan.cores.iter().map(|core| core.ways).collect()
}

/// The bandwidth of each core.
fn bandwidths(plan: &Plan) -> Vec<Option<u64>> {
    plan.cores.iter().map(|core| core.bandwidth_bytes_per_s).collect()
}

/// Interrupts moved off the cores of analysed tasks.
pub struct Interrupts {
    layout: Rc<Layout>,
    settings: Option<Settings>,
    moved: Option<RunInterrupts>,
    /// Counts of the interrupts that stay, at the start.
    before: Result<Vec<u64>, String>,
}

impl Interrupts {
    /// The part for a layout's interrupts.
    #[must_use]
    pub fn new(layout: &Rc<Layout>, settings: &Settings) -> Self {
        let settings = Some(settings.clone());
        Self { layout: Rc::clone(layout), settings, moved: None, before: Ok(Vec::new()) }
    }

    /// Numbers of the interrupts that stay.
    fn staying(&self) -> Vec<u32> {
        let refused = self.moved.iter().flat_map(|moved| &moved.refused);
        refused.map(|(irq, _)| *irq).collect()
    }

    /// Counts of the interrupts that stay, on the cores that they are to leave.
    fn counts(&self) -> Result<Vec<u64>, String> {
        irq::counted(&Places::default(), &self.staying(), &self.layout.off())
    }

    /// An interrupt that stayed and came, in words.
    fn came(&self) -> Option<String> {
        let moved = self.moved.as_ref().filter(|moved| !moved.refused.is_empty())?;
        let (before, now) = match (&self.before, self.counts()) {
            (Ok(before), Ok(now)) => (before, now),
            (Err(why), _) => return Some(format!("interrupts that stay are not counted: {why}")),
            (_, Err(why)) => return Some(format!("interrupts that stay are not counted: {why}")),
        };
        let came = moved.refused.iter().zip(before.iter().zip(now));
        let mut came = came.filter_map(|((irq, why), (before, now))| {
            let times = now.saturating_sub(*before);
            (times > 0)
                .then(|| format!("interrupt {irq} cannot be moved, and came {times} times: {why}"))
        });
        came.next()
    }
}

impl Part for Interrupts {
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        if promise.subject != Subject::Interrupts {
            return None;
        }
        if promise.core() == Some(self.layout.irq_cpu) {
            return Some(Answer::open(
                promise,
                true,
                "this CPU takes all interrupts; leave a core without analysed tasks, name it with \
                --irq-cpu, or give --vouch interrupts",
            ));
        }
        if promise.core().is_some_and(|core| !self.layout.off().contains(&core)) {
            return Some(Answer::open(
                promise,
                true,
                "it had no analysed task as the run began, so interrupts stay there; end the run \
                    and start it with this plan",
            ));
        }
        Some(match self.came() {
            Some(why) => Answer::open(promise, true, why),
            None if self.staying().is_empty() => Answer::kept(
                promise,
                "interrupts",
                false,
                "interrupts are moved to another CPU, except those that the kernel keeps",
            ),
            None => Answer::kept(
                promise,
                "interrupts",
                true,
                "interrupts are moved to another CPU, except those that the kernel keeps; those \
                    that cannot be moved are counted, and none has come",
            ),
        })
    }

    fn preview(&self, preview: &mut Preview) {
        preview.isolation().irqs = irq::that_reach(&Places::default(), &self.layout.off());
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let (layout, Some(settings)) = (&self.layout, &self.settings) else { return Ok(()) };
        let work = if layout.rest.is_empty() { vec![layout.irq_cpu] } else { layout.rest.clone() };
        let places = Places::default();
        self.moved = Some(settings.change(|changes| {
            Ok(irq::move_off(changes, &places, &layout.off(), layout.irq_cpu, &work))
        })?);
        self.before = self.counts();
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let Some(moved) = &self.moved else { return Vec::new() };
        let mut notes = moved.notes.clone();
        if let Some((_, why)) = moved.refused.first() {
            let which: Vec<String> = moved.refused.iter().map(|(irq, _)| irq.to_string()).collect();
            notes.push(format!("interrupts that cannot be moved: {} ({why})", which.join(", ")));
        }
        notes
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        run.interrupts.clone_from(&self.moved);
        Ok(())
    }

    fn end(&mut self) {
        self.settings = None;
    }
}

/// Other programs kept off the cores of analysed tasks.
pub struct Confinement {
    layout: Rc<Layout>,
    settings: Option<Settings>,
    confiner: Option<Confiner>,
    swept: Instant,
    colours: Option<Environments>,
}

impl Confinement {
    /// The part for a layout's cores.
    #[must_use]
    pub fn new(layout: &Rc<Layout>, settings: &Settings) -> Self {
        Self {
            layout: Rc::clone(layout),
            settings: Some(settings.clone()),
            confiner: None,
            swept: Instant::now(),
            colours: None,
        }
    }

    /// The same part, where programs start on frames of their cores' colours and banks.
    #[must_use]
    pub fn in_colours(self, colours: &Colours) -> Self {
        Self { colours: Some(colours.environments()), ..self }
    }

    /// A task of a core whose processes start before the release of their jobs. No job has the
    /// accesses of these starts.
    fn starts_early(&self, core: u32) -> Option<&str> {
        let colours = self.colours.as_ref()?;
        let mut tasks = self.layout.tasks.iter();
        let early = |p: &&Placed| p.core == core && p.may_be_prepared() && colours.has(&p.name);
        tasks.find(early).map(|p| p.name.as_str())
    }
}

impl Part for Confinement {
    /// Others are kept off cores of analysed tasks, where there is another core for them.
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        let mine = promise.subject == Subject::Others
            && promise.core().is_some_and(|core| self.layout.hard.contains(&core))
            && self.layout.confiner().is_some();
        let bound = self.confiner.as_ref().map_or(0, |c| c.confined.bound.len());
        let early = promise.core().and_then(|core| self.starts_early(core)).filter(|_| mine);
        if let Some(task) = early {
            let why = format!(
                "each job of `{task}` is a process that starts before its release, with accesses \
                    that no job's demand has; plan with [regulation] policy = \"memguard\" and \
                    other_programs = true, or let the program go on (docs/functions.md)"
            );
            return Some(Answer::open(promise, false, why));
        }
        let lapsed = self.confiner.as_ref().and_then(|c| c.lapsed.as_ref());
        mine.then(|| match (bound, lapsed) {
            (_, Some(why)) => Answer::open(promise, true, why.clone()),
            (0, None) => Answer::kept(
                promise,
                "confinement",
                true,
                "other programs are kept off it; kernel threads of the CPU stay",
            ),
            (n, None) => Answer::open(
                promise,
                true,
                format!(
                    "threads that are bound to cores of analysed tasks: {n}; bind them elsewhere"
                ),
            ),
        })
    }

    fn preview(&self, preview: &mut Preview) {
        preview.isolation().confine = self.layout.confiner().map(|mut confiner| {
            confiner.preview();
            confiner.confined
        });
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let (Some(mut confiner), Some(settings)) = (self.layout.confiner(), &self.settings) else {
            return Ok(());
        };
        settings.change(|changes| {
            confiner.begin(changes);
            // The daemon itself has no business on a hard core either; its helpers bind themselves.
            let me = std::process::id();
            let own = threads::all(Path::new("/proc"), Some(me));
            if let Some(thread) = own.iter().find(|t| t.tid == me) {
                let _ = changes.bind(thread, self.layout.rest.clone());
            }
            Ok(())
        })?;
        (self.confiner, self.swept) = (Some(confiner), Instant::now());
        Ok(())
    }

    /// Looks at the limited groups and for new programs, every two seconds.
    fn look(&mut self, round: &mut Round) -> Result<Next, LinuxError> {
        if let (Some(confiner), Some(settings), true) =
            (&mut self.confiner, &self.settings, self.swept.elapsed() >= SWEEP)
        {
            self.swept = Instant::now();
            round.messages.extend(confiner.look_at_groups());
            settings.change(|changes| {
                confiner.sweep(changes);
                Ok(())
            })?;
        }
        Ok(Next::GoOn)
    }

    fn notes(&self) -> Vec<String> {
        let Some(confiner) = &self.confiner else { return Vec::new() };
        let (bound, unlimited) = (&confiner.confined.bound, &confiner.unlimited);
        let bound = (!bound.is_empty()).then(|| {
            format!(
                "threads that another program bound to cores of analysed tasks stay there: {}",
                first_of(bound)
            )
        });
        let unlimited = (!unlimited.is_empty()).then(|| {
            format!(
                "control groups that cannot be limited, so the affinity of each of their threads \
                is limited instead: {}",
                first_of(unlimited)
            )
        });
        bound.into_iter().chain(unlimited).collect()
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        run.confined = self.confiner.as_ref().map(|c| c.confined.clone());
        Ok(())
    }

    fn end(&mut self) {
        self.confiner = None;
        self.settings = None;
    }
}

/// The first of several names, and the number of the others.
fn first_of(all: &[impl Display]) -> String {
    const FIRST: usize = 8;
    let more = all.len().saturating_sub(FIRST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", list(all.iter().take(FIRST)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::resctrl::{Group, Members};

    /// Fails when the limits of the old plan stay without a word. The machine of the test has no
    /// such groups, so the change itself is refused (host/resctrl/other_tests.rs makes it).
    #[test]
    fn bandwidths_that_the_hardware_limits_are_changed_there() {
        let plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
        let mut new = plan.clone();
        new.cores[1].bandwidth_bytes_per_s = Some(1);
        let mut divided = plan.clone();
        divided.cores[1].ways += 1;
        let take = |schemata: &str| {
            let mut ways = Ways::new(&plan, &Settings::default());
            let (name, members) = ("solocore-cpu0".to_owned(), Members::Cpu(0));
            let group = Group { name, members, schemata: schemata.to_owned(), exclusive: false };
            ways.offered = Some(Ok(Shares { groups: vec![group], ..Shares::default() }));
            [&plan, &new, &divided].map(|plan| ways.can_take(plan))
        };
        let [same, other, divided] = take("MB:0=70\n");
        assert_eq!(same, Ok(false));
        assert!(other.is_err(), "the machine is asked");
        assert!(divided.unwrap_err().to_string().contains("cannot share out the ways"));
        assert_eq!(take("L3:0=f\n")[..2], [Ok(false), Ok(false)]);
    }
}
