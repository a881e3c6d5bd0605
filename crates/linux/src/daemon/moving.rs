//! The moving of pages with their VCPUs, as a part.
//!
//! Problem: a core has page colours of its own, and a VCPU that moves to it must not go on in those
//! of its old core. The copies take time. Rule: a thread of this process, held by a VCPU of its own
//! `(C_m, T_m)`, looks once in T_m whether a VCPU waits for its pages. It counts their private
//! pages, twice, as a program that begins soon has more. If they fit into C_m, that VCPU also holds
//! the threads of the programs that copy them, and the waiting VCPU goes when all have answered. If
//! they do not, or a program was not started in colours, the VCPU stays on its core for some
//! periods. The CPU time of each move is compared with C_m. Source: maracas, sections V and V-B
//! (`solocore_model::vcpus`). Does not cover: the servers of the programs
//! (`crate::schedule::coloured`), which check pages in time of their own; frames of the page cache
//! and of shared memory.

use super::colours::{Colours, Environments};
use super::held_thread::{Waiting, lock, lock_now, wait_until_asleep};
use super::part::{Held, Next, Part, Round};
use crate::error::LinuxError;
use crate::regulate::bpf;
use crate::schedule::vcpus::Vcpus;
use crate::schedule::vcpus::moving::{self, Move, Process};
use crate::sys::tasks::thread_number;
use solocore_model::plan::PlanVcpu;
use solocore_model::run::{RunMigration, RunResult, RunVcpus};
use solocore_model::vcpus::{CoreColours, MIGRATION, Migration};
use solocore_space::coloured::SPACE;
use solocore_space::recolour::Server;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time for the pages of one program.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of periods in which the pages of a VCPU may have become more before it stays.
const COUNTS: u32 = 5;
/// Periods for which a VCPU rests that cannot take its pages along: a program that looks for
/// frames has more pages for a moment.
const REST: u32 = 5;

/// Frames of the cores, and the programs of VCPUs.
#[derive(Clone, Default)]
struct Places {
    /// Colours and banks of each core, as `solocore recolor` takes them.
    cores: Vec<(String, Option<String>)>,
    /// Programs of a plan's tasks, by the name of their VCPU; more may be in it.
    programs: BTreeMap<String, Vec<Server>>,
}

/// Observations that the thread shares with the run.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    found: Mutex<RunMigration>,
    failed: Mutex<Option<LinuxError>>,
}

/// The thread that moves pages.
struct Mover {
    waiting: moving::Waiting,
    migration: Migration,
    /// The VCPU that holds this thread and those that copy.
    own: u32,
    /// Names of VCPUs by number and generation, as they began; later ones have none.
    names: BTreeMap<(u32, u32), String>,
    places: Places,
    /// The VCPU that waited at the last count, its pages, and the number of counts.
    counted: Cell<(u32, u64, u32)>,
    /// VCPUs that stayed when they were last to move, by number.
    stayed: RefCell<BTreeMap<u32, Stayed>>,
    shared: Arc<Shared>,
}

/// A VCPU that stayed on its core.
struct Stayed {
    of: Move,
    /// Time at which the balancing may move it again; `None`: it may.
    until: Option<Instant>,
    line: String,
}

/// What a move took.
struct Cost {
    /// Private pages of the VCPU, and those that were copied.
    pages: u64,
    copied: u64,
    /// CPU time of the threads that move pages.
    ran_ns: u64,
}

impl Mover {
    fn run(self) {
        let period = self.period();
        let mut next = Instant::now();
        while !self.shared.stop.load(Ordering::Acquire) {
            if let Err(failed) = self.look() {
                *lock(&self.shared.failed) = Some(failed);
                return;
            }
            next = (next + period).max(Instant::now());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    fn look(&self) -> Result<(), LinuxError> {
        self.release()?;
        let Some(wanted) = self.waiting.next()? else { return Ok(()) };
        let begin = Instant::now();
        match self.take_along(wanted) {
            // A program that begins soon has more.
            Ok(None) => return Ok(()),
            Ok(Some(cost)) => {
                if self.waiting.go(wanted)? {
                    self.stayed.borrow_mut().remove(&wanted.id);
                    self.add(&cost, begin.elapsed());
                }
            }
            Err(why) => {
                if self.waiting.stay(wanted)? {
                    let until = Some(begin + self.period() * REST);
                    let line =
                        format!("{} stays on core {}: {why}", self.name(wanted), wanted.from);
                    self.stayed.borrow_mut().insert(wanted.id, Stayed { of: wanted, until, line });
                }
            }
        }
        let lines = self.stayed.borrow().values().map(|s| s.line.clone()).collect();
        lock(&self.shared.found).stay = lines;
        Ok(())
    }

    /// Lets VCPUs move again that have rested.
    fn release(&self) -> Result<(), LinuxError> {
        let now = Instant::now();
        for stayed in self.stayed.borrow_mut().values_mut() {
            if stayed.until.take_if(|until| *until <= now).is_some() {
                self.waiting.release(stayed.of)?;
            }
        }
        Ok(())
    }

    fn add(&self, cost: &Cost, took: Duration) {
        let mut found = lock(&self.shared.found);
        found.moves += 1;
        found.pages += cost.copied;
        found.most_pages = found.most_pages.max(cost.pages);
        found.longest_ns = found.longest_ns.max(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        found.most_ns = found.most_ns.max(cost.ran_ns);
        found.over += u64::from(cost.ran_ns > self.migration.capacity.ns_ceil());
    }

    fn period(&self) -> Duration {
        Duration::from_nanos(self.migration.period.ns_ceil())
    }

    fn name(&self, wanted: Move) -> String {
        let known = self.names.get(&(wanted.id, wanted.generation));
        known.map_or_else(|| format!("VCPU {}", wanted.id), |name| format!("VCPU {name}"))
    }

    /// Has the VCPU no more pages than a period before? The reason if it has to stay.
    fn settled(&self, id: u32, pages: u64) -> Result<bool, String> {
        let (last, before, times) = self.counted.get();
        let (settled, times) =
            (last == id && pages <= before, if last == id { times + 1 } else { 1 });
        let ends = settled || times == COUNTS;
        self.counted.set(if ends { (u32::MAX, 0, 0) } else { (id, pages, times) });
        if ends && !settled {
            return Err(format!("its {pages} pages become more in each period"));
        }
        Ok(settled)
    }

    /// Moves the pages of a VCPU's programs; `None`: they are counted again in the next period. The
    /// reason if it has to stay.
    fn take_along(&self, wanted: Move) -> Result<Option<Cost>, String> {
        let processes = self.waiting.processes(wanted.id);
        let mut servers: BTreeSet<Server> = BTreeSet::new();
        for process in &processes {
            match Server::of_process(process.pid) {
                Ok(server) => drop(servers.insert(server)),
                // It has ended meanwhile.
                Err(_) if moving::program(process.pid).is_none() => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        let name = self.names.get(&(wanted.id, wanted.generation));
        let planned = name.and_then(|name| self.places.programs.get(name));
        servers.extend(planned.into_iter().flatten().cloned());
        let pages = processes.iter().map(|p| p.pages).fold(0, u64::saturating_add);
        let most = self.migration.most_pages();
        if pages > most {
            return Err(format!(
                "its {pages} pages do not fit into the {} of {MIGRATION}, which moves {most} of {} each",
                self.migration.capacity, self.migration.page_cost
            ));
        }
        if pages > 0 && !self.settled(wanted.id, pages)? {
            return Ok(None);
        }
        let before = ran_ns(&processes);
        let handlers: Vec<u32> = processes.iter().flat_map(|p| p.handlers.clone()).collect();
        self.waiting.hold(&handlers, self.own);
        let copied = self.recolour(&servers, wanted.to).map_err(|why| {
            // Those that have moved go back.
            match self.recolour(&servers, wanted.from) {
                Ok(_) => why,
                Err(more) => format!("{why}; and they are not back: {more}"),
            }
        });
        let both = before.iter().zip(ran_ns(&processes));
        let ran_ns = both.map(|(before, after)| after.saturating_sub(*before)).sum();
        self.waiting.give_back(&handlers, wanted);
        Ok(Some(Cost { pages, copied: copied?, ran_ns }))
    }

    /// Moves programs to the frames of a core; returns the number of copied pages.
    fn recolour(&self, servers: &BTreeSet<Server>, core: u32) -> Result<u64, String> {
        let place = self.places.cores.get(core as usize).filter(|p| !p.0.is_empty());
        let (colours, banks) = place.ok_or_else(|| format!("core {core} has no colours"))?;
        let stop = || self.shared.stop.load(Ordering::Acquire);
        let mut copied = 0;
        for server in servers {
            let moved = server.recolour("its program", colours, banks.as_deref(), PATIENCE, &stop);
            let moved = moved.map_err(|e| e.to_string())?;
            if let Some(left) = moved.iter().map(|m| m.stuck).find(|&stuck| stuck > 0) {
                return Err(format!("{left} of its pages cannot be moved"));
            }
            copied += moved.iter().map(|m| u64::from(m.pages)).sum::<u64>();
        }
        Ok(copied)
    }
}

/// CPU time of this thread and of each that copies pages of processes, ns.
fn ran_ns(processes: &[Process]) -> Vec<u64> {
    let of = |p: &Process| {
        let pid = p.pid.to_string();
        p.handlers.iter().map(|&tid| moving::ran_ns(&pid, tid)).collect::<Vec<u64>>()
    };
    let own = moving::ran_ns("self", thread_number());
    std::iter::once(own).chain(processes.iter().flat_map(of)).collect()
}

/// The part that moves pages with their VCPUs.
pub struct Moving {
    migration: Migration,
    places: Places,
    /// VCPUs of the plan, with the programs of their tasks.
    planned: Vec<PlanVcpu>,
    environments: Option<Environments>,
    vcpus: Held<Vcpus>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    /// Observations at the last look.
    last: RefCell<RunMigration>,
    notes: Vec<String>,
}

impl Moving {
    /// The part for a scheduler that starts before this part and has the VCPU of the moves, on
    /// `cores` cores.
    #[must_use]
    pub fn new(
        migration: Migration,
        colours: &CoreColours,
        cores: u32,
        vcpus: Held<Vcpus>,
    ) -> Self {
        let cores = (0..cores).map(|core| (list(colours.range(core)), None)).collect();
        Self {
            migration,
            places: Places { cores, programs: BTreeMap::new() },
            planned: Vec::new(),
            environments: None,
            vcpus,
            thread: None,
            shared: Arc::default(),
            last: RefCell::default(),
            notes: Vec::new(),
        }
    }

    /// The same part, with the frames of a plan's cores, and the programs that it starts: jobs that
    /// begin after a move have the new frames as well.
    ///
    /// # Errors
    /// The map has no frames for a core.
    pub fn planned(mut self, vcpus: &[PlanVcpu], frames: &Colours) -> Result<Self, LinuxError> {
        for (core, place) in (0..).zip(&mut self.places.cores) {
            let banks = frames.banks_of(core)?;
            place.1 = banks.map(|(first, count)| list((first.into(), count.into())));
        }
        self.planned = vcpus.to_vec();
        self.environments = Some(frames.environments());
        Ok(self)
    }

    /// Programs of the plan's tasks by their VCPU.
    fn programs(&self) -> BTreeMap<String, Vec<Server>> {
        let Some(environments) = &self.environments else { return BTreeMap::new() };
        let server = |task: &String| {
            let variables = environments.of(task);
            let (_, value) = variables.iter().find(|(name, _)| *name == SPACE)?;
            Server::of_variable(value.to_str()?)
        };
        let of = |v: &PlanVcpu| (v.name.clone(), v.tasks.iter().filter_map(server).collect());
        self.planned.iter().map(of).collect()
    }
}

/// Numbers from the first on, as options take them.
fn list((first, count): (u64, u64)) -> String {
    match count {
        0 => String::new(),
        1 => first.to_string(),
        _ => format!("{first}-{}", first + count - 1),
    }
}

impl Part for Moving {
    fn start(&mut self) -> Result<(), LinuxError> {
        self.places.programs = self.programs();
        let held = self.vcpus.borrow();
        let found = held.as_ref().and_then(|vcpus| Some((vcpus, vcpus.migration()?)));
        let (vcpus, own) =
            found.ok_or_else(|| bpf::inside("there is no VCPU for the moving of pages"))?;
        let mover = Mover {
            waiting: vcpus.waiting(),
            migration: self.migration,
            own,
            names: vcpus.names(),
            places: self.places.clone(),
            counted: Cell::new((u32::MAX, 0, 0)),
            stayed: RefCell::default(),
            shared: Arc::clone(&self.shared),
        };
        let waiting = Waiting::start(MIGRATION, move || mover.run())?;
        wait_until_asleep(waiting.tid());
        vcpus.hold_thread(waiting.tid(), own)?;
        self.notes.push(format!(
            "VCPUs move with at most {} pages, which are copied in {}",
            self.migration.most_pages(),
            vcpus.describe(own)
        ));
        self.thread = Some(waiting.begin()?);
        Ok(())
    }

    fn look(&mut self, _: &mut Round) -> Result<Next, LinuxError> {
        let failed = lock_now(&self.shared.failed).and_then(|mut failed| failed.take());
        let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        match failed {
            Some(failed) => Err(failed),
            None if ended => Err(bpf::inside("the thread that moves pages has ended")),
            None => Ok(Next::GoOn),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        if let Some(found) = lock_now(&self.shared.found) {
            self.last.borrow_mut().clone_from(&found);
        }
        let migration = Some(self.last.borrow().clone());
        run.vcpus.get_or_insert_with(RunVcpus::default).migration = migration;
        Ok(())
    }

    /// The thread is not waited for: it may wait for the budget of its VCPU.
    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.thread = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_numbers() {
        assert_eq!([(4, 10), (3, 1), (9, 0)].map(list), ["4-13", "3", ""]);
    }
}
