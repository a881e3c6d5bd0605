//! Clients of a run, as parts: holders of the bandwidth lock, tasks that signal their jobs, drivers
//! of the time table.

use super::part::{Held, Next, Part, Round};
use crate::clients::{OwnPages, Service, ServiceOptions, Yields};
use crate::error::LinuxError;
use crate::regulate::engine::Engine;
use crate::schedule::levels::Scheduler;
use solocore_model::plan::{Answer, Promise, Subject};
use solocore_model::run::{RunLock, RunLockCore, RunResult};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

/// Clients of an engine: the lock, jobs, slots. There are none where the plan has none of these.
pub struct LockClients {
    engine: Held<Box<dyn Engine>>,
    options: ServiceOptions,
    max_hold_ns: u64,
    service: Option<Service>,
    pages: Rc<RefCell<OwnPages>>,
}

impl LockClients {
    /// The part for these options; a section counts for at most `max_hold_ns`.
    #[must_use]
    pub fn new(engine: Held<Box<dyn Engine>>, options: ServiceOptions, max_hold_ns: u64) -> Self {
        Self { engine, options, max_hold_ns, service: None, pages: Rc::default() }
    }

    /// Longest time for which a section counts, ns; 0: there is no limit.
    pub(super) fn max_hold_ns(&self) -> u64 {
        self.max_hold_ns
    }

    /// Pages of the tasks for which solocore signals, once the service runs.
    pub(super) fn pages(&self) -> Rc<RefCell<OwnPages>> {
        Rc::clone(&self.pages)
    }
}

impl Part for LockClients {
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        let clients = self.service.as_ref().map_or_else(Vec::new, Service::clients);
        match promise.subject {
            Subject::Jobs if clients.iter().any(|c| c.task.as_deref() == Some(promise.name())) => {
                Some(Answer::kept(promise, "clients", true, "its program signals them"))
            }
            Subject::Transfer => {
                let transfers =
                    self.service.as_ref().map_or_else(Vec::new, Service::transfers_seen);
                let attended = transfers.iter().any(|t| t.name == promise.name() && t.attached);
                attended.then(|| Answer::kept(promise, "clients", true, "a driver is attached"))
            }
            _ => None,
        }
    }

    fn sockets(&self) -> Vec<PathBuf> {
        vec![self.options.socket.clone()]
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        if let Some(engine) = self.engine.borrow().as_ref() {
            self.service = Service::of(engine.as_ref(), self.options.clone())?;
            if let Some(service) = &self.service {
                self.pages.borrow_mut().clone_from(service.pages());
            }
        }
        Ok(())
    }

    fn look(&mut self, round: &mut Round) -> Result<Next, LinuxError> {
        round.messages.extend(self.service.iter().flat_map(Service::messages));
        Ok(Next::GoOn)
    }

    fn notes(&self) -> Vec<String> {
        self.service.as_ref().map_or_else(Vec::new, |service| service.notes().to_vec())
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        let Some(service) = &self.service else { return Ok(()) };
        let cores = service.cores().into_iter().map(|c| RunLockCore {
            cpu: c.cpu,
            held_periods: c.held_periods,
            stops: c.stops,
            early_releases: c.early_releases,
        });
        let cores = cores.collect();
        run.lock =
            Some(RunLock { max_hold_ns: self.max_hold_ns, clients: service.clients(), cores });
        run.transfers = service.transfers_seen();
        run.notes.extend(run.unattended());
        Ok(())
    }

    fn recorded(&self, run: &mut RunResult) {
        run.transfers = self.service.as_ref().map_or_else(Vec::new, Service::transfers);
    }

    fn end(&mut self) {
        self.service = None;
    }
}

/// Clients of a scheduler of levels, which end their jobs by a yield.
pub struct YieldClients {
    scheduler: Held<Scheduler>,
    path: PathBuf,
    group: String,
    yields: Option<Yields>,
}

impl YieldClients {
    /// The part that serves a socket, to which members of a group may connect.
    #[must_use]
    pub fn new(scheduler: Held<Scheduler>, path: PathBuf, group: &str) -> Self {
        Self { scheduler, path, group: group.to_owned(), yields: None }
    }
}

impl Part for YieldClients {
    fn sockets(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        self.yields = Some(Yields::open(&self.path, &self.group)?);
        Ok(())
    }

    fn look(&mut self, round: &mut Round) -> Result<Next, LinuxError> {
        if let (Some(yields), Some(scheduler)) =
            (&mut self.yields, self.scheduler.borrow().as_ref())
        {
            round.messages.extend(yields.serve(&|name, thread| scheduler.join(name, thread)));
        }
        Ok(Next::GoOn)
    }

    fn end(&mut self) {
        self.yields = None;
    }
}
