//! One loop for every run: parts are checked, started, looked at, and ended in the reverse order.
//!
//! Problem: a run regulates, schedules, starts tasks, serves clients and keeps others away, in
//! changing company; each of these must be undone after any event. Rule: each is a [`Part`]. A
//! plan's scheme, or the program of `exec`, says which parts there are; the daemon checks all
//! before it starts any, undoes the started ones if one fails, and collects their counts in one
//! [`RunResult`]. Regulation, clients, ways, interrupts, confinement and tasks stand beside any
//! scheduler. One daemon runs at a time ([`Instance`]).
//! Does not cover: the choice of the parts. The command makes it, and refuses options that no part
//! takes.

mod clients;
mod colours;
mod covered;
mod decisions;
mod devices;
mod difference;
mod frames;
mod handing;
mod handing_jobs;
mod handovers;
mod held_thread;
mod isolation;
mod levels;
mod locked;
mod memory;
mod messages;
mod metrics;
mod moving;
mod part;
mod probes;
mod program;
mod promises;
mod regulation;
mod replace;
mod reserved;
mod tasks;
mod vcpus;

pub use clients::{LockClients, YieldClients};
pub use colours::{Colours, Environments};
pub use devices::Devices;
pub use handovers::replace;
pub use isolation::{Confinement, Interrupts, Ways};
pub use levels::Levels;
pub use memory::{Memory, MemoryWish};
pub use moving::Moving;
pub use part::{
    Held, IsolationPreview, LevelPreview, Member, Next, Part, Preview, RegulationPreview, Round,
    Settings, TablePreview, Taking, Traces,
};
pub use program::{Program, wait_for};
pub use regulation::Regulating;
pub use reserved::Reserved;
pub use tasks::Tasks;
pub use vcpus::Scheduling;

use crate::error::LinuxError;
use crate::host::instance::Instance;
use crate::host::keeper::{self, Changes};
use crate::host::machine;
use crate::host::notify;
use crate::host::status::{self, Place, Status};
use crate::host::stopped;
use crate::sys::heap;
use crate::sys::tasks::monotonic_ns;
use solocore_model::Plan;
use solocore_model::files::to_json;
use solocore_model::plan::{Answer, Subject};
use solocore_model::run::{self, RunResult, RunScheme};
use std::collections::BTreeSet;
use std::time::Duration;

/// A message to the user while a run goes on.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// A fact that the user should know before relying on the run.
    Note(&'a str),
    /// The start of a part.
    Begun(&'a str),
    /// An event.
    Message(&'a str),
}

/// Outcome of a run.
pub struct Outcome {
    /// Result of the run.
    pub run: RunResult,
    /// Events that were recorded one by one.
    pub traces: Traces,
    /// Error that ended the run.
    pub lost: Option<LinuxError>,
}

/// A run before its start. Parts are in the order of their starts.
#[derive(Default)]
pub struct Daemon {
    /// The part that decides when each task runs.
    pub scheme: RunScheme,
    /// The plan, for the result.
    pub plan: Option<Plan>,
    /// Notes on the plan, for the user.
    pub notes: Vec<String>,
    /// Time after which the run ends.
    pub duration: Option<Duration>,
    /// Place where Prometheus asks for metrics.
    pub metrics: Option<Place>,
    /// Whether to run although some of the plan's promises are open.
    pub partial: bool,
    /// Promises that the user answers for, by id or subject.
    pub vouched: Vec<String>,
    /// Answers at the start of the run, or of the last handover to another plan.
    promised: Vec<Answer>,
    replacing: handovers::Replacing,
    parts: Vec<Box<dyn Part>>,
    started: usize,
    begun_ns: u64,
}

/// Longest time between two rounds; it bounds the time until a client is answered.
const LOOK: Duration = Duration::from_millis(50);

impl Daemon {
    /// Adds a part, which starts after those before it.
    pub fn add(&mut self, part: impl Part + 'static) {
        self.parts.push(Box::new(part));
    }

    fn check(&mut self) -> Result<(), LinuxError> {
        self.check_vouched()?;
        machine::check_privileges()?;
        machine::check_numbers()?;
        self.parts.iter_mut().try_for_each(|part| part.check())
    }

    /// Checks that the user vouches for promises of the plan only.
    fn check_vouched(&self) -> Result<(), LinuxError> {
        let promises = self.plan.as_ref().map_or(&[][..], |plan| &plan.promises);
        let unknown = |v: &&String| !promises.iter().any(|p| promises::names(v, p));
        let Some(vouched) = self.vouched.iter().find(unknown) else { return Ok(()) };
        if self.plan.as_ref().is_some_and(promises::is_unbounded) {
            return Err(LinuxError::Input(format!(
                "--vouch {vouched}: the plan is not schedulable and has no bounds, so it makes no \
                    promises; leave --vouch out, and give --partial to run the plan as it is"
            )));
        }
        let subjects: BTreeSet<Subject> = promises.iter().map(|p| p.subject).collect();
        let subjects: Vec<&str> = subjects.into_iter().map(Subject::name).collect();
        Err(LinuxError::Input(format!(
            "--vouch {vouched}: the plan makes no such promise; it has {}",
            if subjects.is_empty() { "none".to_owned() } else { subjects.join(", ") }
        )))
    }

    fn answers(&self) -> Vec<Answer> {
        let plan = self.plan.as_ref();
        plan.map_or_else(Vec::new, |plan| {
            promises::answers(plan, &self.parts, &self.vouched, &self.promised)
        })
    }

    /// Checks that each promise is kept, or that the user wants a partial run.
    fn check_promises(&self, answers: &[Answer]) -> Result<(), LinuxError> {
        let Some(plan) = self.plan.as_ref().filter(|_| !self.partial) else { return Ok(()) };
        promises::refusal(plan, answers).map_or(Ok(()), |refused| Err(LinuxError::Machine(refused)))
    }

    /// The changes that a run would make, and the reason why this machine cannot run it, if any.
    /// Changes nothing.
    pub fn preview(&mut self) -> (Preview, Option<LinuxError>) {
        let checked = self.check().and_then(|()| {
            let _instance = Instance::take()?;
            status::check(self.metrics.as_ref())
        });
        let promises = self.answers();
        let refused = checked.and_then(|()| self.check_promises(&promises)).err();
        let mut preview = Preview {
            format: part::PREVIEW_FORMAT,
            scheme: self.scheme,
            machine: refused.as_ref().map(ToString::to_string),
            notes: self.all_notes(),
            promises,
            ..Preview::default()
        };
        self.parts.iter().for_each(|part| part.preview(&mut preview));
        (preview, refused)
    }

    /// Checks and starts all parts, and undoes them at the end. The run ends when its time is over,
    /// when the user asks for it, or when a part is done or fails.
    ///
    /// # Errors
    /// This machine lacks something; no object is left behind then. The outcome of a run that had
    /// begun contains the error that ended it.
    pub fn run(
        mut self,
        stopped: &dyn Fn() -> bool,
        say: &dyn Fn(Word<'_>),
    ) -> Result<Outcome, LinuxError> {
        self.check()?;
        self.check_promises(&self.answers())?;
        let instance = Instance::take()?;
        let outcome = self.alone(stopped, say);
        // After a failure as well, nobody else begins before everything is put back.
        drop(self);
        drop(instance);
        outcome
    }

    /// The run, while no other solocore may begin.
    fn alone(
        &mut self,
        stopped: &dyn Fn() -> bool,
        say: &dyn Fn(Word<'_>),
    ) -> Result<Outcome, LinuxError> {
        heap::give_large_blocks_back();
        self.clean_up()?;
        let sockets = self.note_sockets()?;
        let status = Status::open(self.metrics.as_ref())?;
        self.start()?;
        self.parts.iter_mut().for_each(|part| part.begun());
        // Some parts know only now.
        self.promised = self.answers();
        self.check_promises(&self.promised)?;
        self.announce(say);
        let (ended, lost) = self.rounds(&status, stopped, say);
        let mut run = self.seen(&ended, true)?;
        run.plan = self.plan.clone();
        if let Some(plan) = &mut run.plan {
            promises::in_force(plan, &run.promises);
        }
        let broken = promises::broken(&self.promised, &run.promises);
        run.broken = broken.into_iter().map(|a| a.promise.id).collect();
        let earlier = self.replacing.broken.iter().filter(|id| !run.broken.contains(id));
        let earlier: Vec<String> = earlier.cloned().collect();
        run.broken.extend(earlier);
        let mut traces = Traces { begun_ns: self.begun_ns, ..Traces::default() };
        self.parts.iter_mut().for_each(|part| part.traced(&mut traces));
        self.end();
        drop(status);
        drop(sockets);
        Ok(Outcome { run, traces, lost })
    }

    /// Undoes the changes of an earlier run, and ends the processes that it left.
    fn clean_up(&mut self) -> Result<(), LinuxError> {
        let (ended, silent) = stopped::end_left_over();
        if ended > 0 {
            self.notes.push(format!(
                "ended processes that an earlier solocore had started and left: {ended}"
            ));
        }
        if let Some(first) = silent.first() {
            let number = silent.len();
            self.notes.push(format!(
                "processes that do not say who started them: {number}, {first} first"
            ));
        }
        let restored = keeper::restore()?;
        if restored.failed > 0 {
            // They stay in their journals. What nobody can write now (a CPU is offline) keeps
            // nobody from a run.
            self.notes.push(format!(
                "settings of an earlier solocore that cannot be put back (see above): {}; \
                    `solocore restore` tries again",
                restored.failed
            ));
        }
        let put_back = restored.entries.saturating_sub(restored.failed);
        if put_back > 0 {
            self.notes.push(format!(
                "put back settings that an earlier solocore had changed and left: {put_back} \
                    entries"
            ));
        }
        Ok(())
    }

    /// Hands the paths of all sockets to a keeper, before they are made.
    fn note_sockets(&self) -> Result<Changes, LinuxError> {
        let mut changes = Changes::begin()?;
        let own = status::paths(self.metrics.as_ref());
        let of_parts = self.parts.iter().flat_map(|part| part.sockets());
        own.into_iter().chain(of_parts).try_for_each(|path| {
            let fail = |e| LinuxError::of_io(&path.display().to_string(), &e, "run as root");
            std::path::absolute(&path).and_then(|path| changes.makes_socket(&path)).map_err(fail)
        })?;
        Ok(changes)
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        while self.started < self.parts.len() {
            // If it fails, those before it are ended when this is dropped.
            self.parts[self.started].start()?;
            self.started += 1;
        }
        self.begun_ns = monotonic_ns();
        Ok(())
    }

    fn announce(&self, say: &dyn Fn(Word<'_>)) {
        self.all_notes().iter().for_each(|note| say(Word::Note(note)));
        self.parts
            .iter()
            .filter_map(|part| part.about())
            .for_each(|about| say(Word::Begun(&about)));
    }

    /// The reason for the end, and the failure.
    fn rounds(
        &mut self,
        status: &Status,
        stopped: &dyn Fn() -> bool,
        say: &dyn Fn(Word<'_>),
    ) -> (String, Option<LinuxError>) {
        let mut lost = None;
        let every = self.parts.iter().map(|part| part.every()).fold(LOOK, Duration::min);
        notify::send("READY=1");
        let mut told_ns = None;
        let ended = loop {
            if stopped() && self.may_end() {
                break "signal".to_owned();
            }
            match self.look(say, lost.is_none()) {
                Ok(Next::GoOn) => {}
                Ok(Next::Done(why)) => break why,
                Err(error) => {
                    let why = error.to_string();
                    lost = Some(error);
                    if !self.parts.iter().any(|part| part.outlives()) {
                        break why;
                    }
                    say(Word::Note(&format!("the program goes on without solocore: {why}")));
                }
            }
            let passed = Duration::from_nanos(monotonic_ns().saturating_sub(self.begun_ns));
            let left = self.duration.map_or(every, |limit| limit.saturating_sub(passed).min(every));
            if left.is_zero() {
                break "duration".to_owned();
            }
            match &lost {
                None => self.replace(status, say),
                Some(failure) => self.replace_no_more(status, failure, say),
            }
            status.serve(|| self.snapshot(), || self.metrics());
            // A manager's queue holds ten words: those of a look each would fill it.
            let now = monotonic_ns();
            if told_ns.is_none_or(|told| now - told >= LOOK.as_nanos() as u64) {
                notify::send("WATCHDOG=1");
                told_ns = Some(now);
            }
            std::thread::sleep(left);
        };
        notify::send("STOPPING=1");
        if lost.is_none() {
            // Collects the events since the last look; the end has been decided already.
            let _ = self.look(say, true);
        }
        (ended, lost)
    }

    /// Tells all parts that the user asks for the end. Returns whether the run may end now.
    fn may_end(&mut self) -> bool {
        let answers: Vec<bool> = self.parts.iter_mut().map(|part| part.asked_to_end()).collect();
        answers.into_iter().all(|may| may)
    }

    /// A round. After a failure, it includes only the parts that outlive it.
    fn look(&mut self, say: &dyn Fn(Word<'_>), all: bool) -> Result<Next, LinuxError> {
        let mut round = Round { begun_ns: self.begun_ns, messages: Vec::new() };
        let mut next = Ok(Next::GoOn);
        for part in self.parts.iter_mut().filter(|part| all || part.outlives()) {
            next = part.look(&mut round);
            if !matches!(next, Ok(Next::GoOn)) {
                break;
            }
        }
        round.messages.iter().for_each(|message| say(Word::Message(message)));
        next
    }

    fn all_notes(&self) -> Vec<String> {
        let of_parts = self.parts.iter().flat_map(|part| part.notes());
        self.notes.iter().cloned().chain(of_parts).collect()
    }

    /// The result so far. At the end, it is the whole record; before, it is a look of bounded size.
    fn seen(&self, ended: &str, whole: bool) -> Result<RunResult, LinuxError> {
        let mut run = RunResult {
            format: run::FORMAT.to_owned(),
            scheme: self.scheme,
            duration_ns: monotonic_ns().saturating_sub(self.begun_ns),
            ended: ended.to_owned(),
            notes: self.all_notes(),
            ..RunResult::default()
        };
        self.parts.iter().try_for_each(|part| part.seen(&mut run))?;
        if whole {
            self.parts.iter().for_each(|part| part.recorded(&mut run));
        }
        run.promises = self.answers();
        if let Some(plan) = &self.plan {
            self.replacing.order(plan, &mut run);
            promises::limits(plan, &mut run);
        }
        self.replacing.seen(&mut run);
        run.partial = self.partial;
        run.since(self.begun_ns);
        Ok(run)
    }

    fn snapshot(&self) -> String {
        self.seen("not yet", false).map_or_else(|e| e.to_string(), |run| to_json(&run))
    }

    fn metrics(&self) -> String {
        let seen = self.seen("not yet", false);
        seen.map_or_else(|e| format!("# {e}\n"), |run| metrics::prometheus(&run))
    }

    fn end(&mut self) {
        while self.started > 0 {
            self.started -= 1;
            self.parts[self.started].end();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    type Log = Rc<RefCell<Vec<String>>>;

    struct Told {
        name: &'static str,
        log: Log,
        fails: bool,
    }

    impl Part for Told {
        fn check(&mut self) -> Result<(), LinuxError> {
            Ok(())
        }

        fn preview(&self, preview: &mut Preview) {
            preview.notes.push(self.name.to_owned());
        }

        fn start(&mut self) -> Result<(), LinuxError> {
            self.log.borrow_mut().push(format!("start {}", self.name));
            if self.fails { Err(LinuxError::Machine("no".to_owned())) } else { Ok(()) }
        }

        fn look(&mut self, _: &mut Round) -> Result<Next, LinuxError> {
            Ok(Next::Done(self.name.to_owned()))
        }

        fn end(&mut self) {
            self.log.borrow_mut().push(format!("end {}", self.name));
        }
    }

    #[test]
    fn what_was_started_is_ended_in_reverse_whatever_fails() {
        for (fails, expected) in [
            (None, &["start a", "start b", "start c", "end c", "end b", "end a"][..]),
            (Some("c"), &["start a", "start b", "start c", "end b", "end a"]),
            (Some("a"), &["start a"]),
        ] {
            let log = Log::default();
            let mut daemon = Daemon::default();
            for name in ["a", "b", "c"] {
                daemon.add(Told { name, log: Rc::clone(&log), fails: fails == Some(name) });
            }
            assert_eq!(daemon.start().is_err(), fails.is_some());
            drop(daemon);
            assert_eq!(*log.borrow(), expected);
        }
    }

    #[test]
    fn a_preview_starts_nothing() {
        let log = Log::default();
        let mut daemon = Daemon::default();
        daemon.add(Told { name: "a", log: Rc::clone(&log), fails: false });
        let (preview, _) = daemon.preview();
        assert_eq!(preview.notes, ["a"]);
        drop(daemon);
        assert!(log.borrow().is_empty());
    }
}
