//! Regulation of accesses to memory, as a part: an engine, and its actions over time.

use super::handing::{self, End, Handing, PATIENCE_NS};
use super::handing_jobs::HandingJobs;
use super::part::{Held, Next, Others, Part, Preview, RegulationPreview, Round, Taking, Traces};
use crate::error::LinuxError;
use crate::host::{cpu_time, machine};
use crate::regulate::awake::Awake;
use crate::regulate::engine::{self, Choice, Engine, Started};
use crate::regulate::event::Event;
use crate::regulate::handover::Change;
use crate::regulate::history::Recorder;
use crate::regulate::liveness::{self, Liveness, Look};
use crate::regulate::lock;
use crate::regulate::regulation::{CoreBudget, Regulation};
use crate::regulate::shared::{Counts, UNLIMITED};
use crate::sys::tasks::monotonic_ns;
use solocore_model::Plan;
use solocore_model::plan::{Answer, Promise, Subject};
use solocore_model::run::{RunCore, RunOtherBudget, RunRegulation, RunResult};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The part that regulates.
pub struct Regulating {
    regulation: Regulation,
    choice: Choice,
    /// Whether to keep periods one by one.
    traced: bool,
    /// Accesses made and counted by the self-test, once it has run.
    tried: Option<(u64, u64)>,
    engine: Held<Box<dyn Engine>>,
    passed_over: Option<String>,
    recorder: Option<Recorder>,
    liveness: Rc<RefCell<Liveness>>,
    awake: Awake,
    /// Times that the kernel ended the engine's scheduler, and took it again.
    restarts: u64,
    /// Longest time from the last look before that until it was installed again.
    longest_restart_ns: u64,
    /// Time of the last look at the engine.
    looked_ns: u64,
    /// Counts of each CPU at the release of the tasks.
    before: Vec<(u32, Counts)>,
    /// The regulation of another plan, and its handover once it has begun.
    next: Option<(Regulation, Option<Way>)>,
}

/// The way to the budgets of another plan.
enum Way {
    /// Of periods.
    Periods(Handing),
    /// Of jobs.
    Jobs(HandingJobs),
}

impl Way {
    fn go_on(&mut self, engine: &dyn Engine) -> Result<Option<End>, LinuxError> {
        match self {
            Self::Periods(handing) => handing.go_on(engine, monotonic_ns()),
            Self::Jobs(handing) => handing.go_on(engine, monotonic_ns()),
        }
    }
}

impl Regulating {
    /// The part for a regulation.
    #[must_use]
    pub fn new(regulation: Regulation, choice: Choice, traced: bool) -> Self {
        let (engine, passed_over) = (Held::default(), None);
        let liveness = Rc::new(RefCell::new(Liveness::new(regulation.period_ns)));
        Self {
            regulation,
            choice,
            traced,
            tried: None,
            engine,
            passed_over,
            recorder: None,
            liveness,
            awake: Awake::default(),
            restarts: 0,
            longest_restart_ns: 0,
            looked_ns: 0,
            before: Vec::new(),
            next: None,
        }
    }

    /// Periods over budget, or over that of writes, since the tasks are released. Loading the
    /// programs causes accesses on every CPU before that.
    fn periods_over(&self, cpu: u32, now: &Counts, writes: bool) -> u64 {
        let of = |c: &Counts| match writes {
            true => c.writes.map_or(0, |w| w.periods_over_write_budget),
            false => c.periods_over_budget,
        };
        let before = self.before.iter().find(|(of, _)| *of == cpu).map_or(0, |(_, c)| of(c));
        of(now).saturating_sub(before)
    }

    /// Reason why no budget of this run is one of accesses to memory.
    fn counts_something_else(&self) -> Option<String> {
        let event = &self.regulation.event;
        let name = event.name();
        let why = if event.is_software() {
            format!("{name} stand in for accesses; give --event with a counter of misses")
        } else if event.is_of_programs_only() {
            format!("{name} leaves out the kernel's accesses for programs; drop :u")
        } else if self.regulation.beyond_plan {
            "--reclaim and --share let cores exceed their budgets; leave them out, or plan with \
                [regulation] reclaim and sharing"
                .to_owned()
        } else {
            return None;
        };
        Some(why)
    }

    /// The way in which a budget is kept, and its limits.
    fn how(&self) -> String {
        let event = &self.regulation.event;
        let left_out = match event.leaves_out().as_slice() {
            [] => String::new(),
            kinds => format!(" (it leaves out {})", kinds.join(", ")),
        };
        format!("counted by {}{left_out}, and the core stopped", event.name())
    }

    /// Reason why a core's budget is not kept, from the set-up and the counts.
    fn broken(&self, promise: &Promise) -> Option<String> {
        let Some(core) = self.regulation.cores.iter().find(|c| Some(c.cpu) == promise.core())
        else {
            return Some("this run gives the core no budget".to_owned());
        };
        let writes = promise.subject == Subject::WriteBudget;
        if writes && core.writes.is_none() {
            return Some("no event counts writes here; give --write-event".to_owned());
        }
        let engine = self.engine.borrow();
        let engine = engine.as_ref()?;
        if let Some(hole) = engine.holes().first() {
            return Some(hole.clone());
        }
        let lapses = self.liveness.borrow().lapses(core.cpu);
        if lapses.times > 0 {
            return Some(format!(
                "lapses of the core's regulation: {} (it was offline, the machine slept, or its \
                    counter failed)",
                lapses.times
            ));
        }
        if self.restarts > 0 {
            return Some(format!(
                "the kernel ended the scheduler for a moment because a CPU came or went; number \
                    of times: {}",
                self.restarts
            ));
        }
        // The run's summary reports counts that the kernel does not give.
        let counts = engine.counts().ok()?;
        let (_, seen) = counts.iter().find(|(cpu, _)| *cpu == core.cpu)?;
        let over = self.periods_over(core.cpu, seen, writes);
        (over > 0).then(|| format!("periods with more accesses than the budget: {over}"))
    }

    /// Reason why a core is not held down beside the lock. A period that is under the lock from its
    /// begin to its end counts as one over budget.
    fn free(&self, promise: &Promise) -> Option<String> {
        if self.regulation.lock.is_none() {
            return Some("this run has no bandwidth lock".to_owned());
        }
        let cpu = promise.core().filter(|cpu| !self.regulation.analysed.contains(cpu));
        let engine = self.engine.borrow();
        let object = engine.as_ref().and_then(|engine| engine.served()).map(|s| s.object);
        let beside = object.zip(cpu).and_then(|(object, cpu)| lock::unlimited(object, cpu));
        if let Some(accesses) = beside.filter(|&accesses| accesses > 0) {
            return Some(format!(
                "programs with a real-time policy or the lock itself made {accesses} accesses \
                    there beside a held lock, which limits neither; keep them off this core"
            ));
        }
        self.broken(promise)
    }

    /// The way in which a promise is kept, and what is not checked.
    fn how_checked(&self, promise: &Promise) -> String {
        let how = self.how();
        let own = promise.core().is_some_and(|cpu| self.regulation.analysed.contains(&cpu));
        match promise.subject {
            Subject::LockBudget => {
                format!("{how}; periods that a section does not fill are not checked")
            }
            Subject::BesideJobs if own => format!(
                "{how}; periods that jobs do not fill are not checked, nor are real-time programs \
                    and clients on this core of analysed tasks"
            ),
            Subject::BesideJobs => {
                format!("{how}; periods that jobs do not fill are not checked")
            }
            _ => how,
        }
    }

    /// Opens the events of these CPUs again. A CPU that is still on its way may refuse: the next
    /// looks try again, until it is hopeless.
    fn rearm(engine: &mut dyn Engine, cpus: &[u32], round: &mut Round) {
        for &cpu in cpus {
            round.messages.push(match engine.rearm(cpu) {
                Ok(()) => format!(
                    "CPU {cpu} had no timer or counter any more (it was offline, the machine \
                    slept, or its counter failed): solocore opens them again"
                ),
                Err(e) => format!("CPU {cpu} is not regulated yet: {e}"),
            });
        }
    }

    /// CPUs before and after the handover that is prepared.
    fn pairs(&self, next: &Regulation) -> Vec<(CoreBudget, CoreBudget)> {
        self.regulation.cores.iter().copied().zip(next.cores.iter().copied()).collect()
    }

    /// The lapses of its CPUs.
    #[must_use]
    pub(super) fn liveness(&self) -> Rc<RefCell<Liveness>> {
        Rc::clone(&self.liveness)
    }

    /// The engine, while it runs.
    #[must_use]
    pub fn engine(&self) -> Held<Box<dyn Engine>> {
        Held::clone(&self.engine)
    }
}

/// The CPUs with other budgets, for the file of a run.
fn other_budgets(changes: &[Change]) -> Vec<RunOtherBudget> {
    let counted = |c: &Change, writes| {
        let apart = c.old.writes != UNLIMITED || c.new.writes != UNLIMITED;
        apart.then_some(writes)
    };
    changes
        .iter()
        .filter(|c| c.old != c.new)
        .map(|c| RunOtherBudget {
            cpu: c.cpu,
            before: c.old.accesses,
            budget: c.new.accesses,
            writes_before: counted(c, c.old.writes),
            write_budget: counted(c, c.new.writes),
        })
        .collect()
}

impl Part for Regulating {
    fn begun(&mut self) {
        let counts = self.engine.borrow().as_ref().and_then(|engine| engine.counts().ok());
        self.before = counts.unwrap_or_default();
    }

    fn check(&mut self) -> Result<(), LinuxError> {
        let r = &self.regulation;
        if self.choice == Choice::SchedExt {
            machine::check_sched_ext()?;
        }
        machine::check_sample_rate(r.period_ns, r.interrupts_per_period())?;
        self.tried = Some(r.event.self_test()?);
        r.write_event.as_ref().map_or(Ok(()), |event| Event::self_test_of_writes(event).map(drop))
    }

    fn preview(&self, preview: &mut Preview) {
        let sched_ext = machine::check_sched_ext().err().map(|e| e.to_string());
        let helper =
            self.choice == Choice::Helper || (self.choice == Choice::Auto && sched_ext.is_some());
        preview.regulation = Some(RegulationPreview {
            event: self.regulation.event.name().to_owned(),
            self_test_made: self.tried.map(|t| t.0),
            self_test_counted: self.tried.map(|t| t.1),
            period_ns: self.regulation.period_ns,
            sched_ext,
            engine: if helper { "helper" } else { "sched-ext" },
            cores: self.regulation.cores.clone(),
        });
    }

    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        let why = match promise.subject {
            Subject::Budget | Subject::WriteBudget => {
                self.counts_something_else().or_else(|| self.broken(promise))
            }
            Subject::SoftBudget => self.counts_something_else(),
            Subject::LockBudget | Subject::BesideJobs => {
                self.counts_something_else().or_else(|| self.free(promise))
            }
            _ => return None,
        };
        Some(match why {
            Some(why) => Answer::open(promise, true, why),
            None => Answer::kept(promise, "regulation", true, self.how_checked(promise)),
        })
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let Started { engine, passed_over } = engine::start(&self.regulation, self.choice)?;
        self.passed_over = passed_over;
        *self.engine.borrow_mut() = Some(engine);
        Ok(())
    }

    fn look(&mut self, round: &mut Round) -> Result<Next, LinuxError> {
        let mut engine = self.engine.borrow_mut();
        let Some(engine) = engine.as_mut() else { return Ok(Next::GoOn) };
        if engine.check()? {
            self.restarts += 1;
            let from_ns = self.looked_ns.max(round.begun_ns);
            let lasted_ns = monotonic_ns().saturating_sub(from_ns);
            self.longest_restart_ns = self.longest_restart_ns.max(lasted_ns);
            round.messages.push(
                "the kernel ended the scheduler because a CPU came or went: solocore installs it again"
                    .to_owned(),
            );
        }
        self.looked_ns = monotonic_ns();
        let (taken, online) = (engine.periods(), machine::online_cpus()?);
        let silent = liveness::silent(&taken, &online);
        let pulses = engine.pulses(&silent);
        let times = if silent.is_empty() { BTreeMap::new() } else { cpu_time::of_cpus() };
        let again = self.liveness.borrow_mut().look(&Look {
            now_ns: self.looked_ns,
            online: &online,
            taken: &taken,
            pulse: &|cpu| pulses.get(&cpu).copied().unwrap_or_default(),
            time: &|cpu| times.get(&cpu).copied(),
        })?;
        Self::rearm(engine.as_mut(), &again, round);
        if engine.can_keep_awake() {
            let (asleep, time) = self.liveness.borrow().asleep(self.looked_ns);
            asleep.into_iter().for_each(|cpu| self.awake.keep(cpu, time));
        }
        let new = || Recorder::new(round.begun_ns, self.regulation.period_ns, self.traced);
        self.recorder.get_or_insert_with(new).add(taken);
        Ok(Next::GoOn)
    }

    fn every(&self) -> Duration {
        liveness::LOOK
    }

    fn notes(&self) -> Vec<String> {
        let of_engine =
            self.engine.borrow().as_ref().map_or_else(Vec::new, |engine| engine.notes());
        let passed_over = self
            .passed_over
            .as_ref()
            .map(|why| format!("the sched-ext engine does not run: {why}"));
        self.regulation.notes.iter().cloned().chain(of_engine).chain(passed_over).collect()
    }

    fn about(&self) -> Option<String> {
        let r = &self.regulation;
        Some(format!(
            "regulating {} CPUs by {} every {} us with the {} engine",
            r.cores.len(),
            r.event.name(),
            r.period_ns / 1000,
            self.engine.borrow().as_ref()?.name()
        ))
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        let (r, engine) = (&self.regulation, self.engine.borrow());
        let Some(engine) = engine.as_ref() else { return Ok(()) };
        let series =
            |cpu: u32| self.recorder.as_ref().map_or_else(Vec::new, |recorder| recorder.shown(cpu));
        let core = |(budget, (_, counts)): (&CoreBudget, (u32, Counts))| {
            let lapses = self.liveness.borrow().lapses(budget.cpu);
            let seen = budget.seen(&counts, r.period_ns, series(budget.cpu));
            RunCore { lapses: lapses.times, longest_lapse_ns: lapses.longest_ns, ..seen }
        };
        run.regulation = Some(RunRegulation {
            engine: engine.name().to_owned(),
            passed_over: self.passed_over.clone(),
            event: r.event.name().to_owned(),
            write_event: r.write_event.as_ref().map(|e| e.name().to_owned()),
            stands_in: r.event.is_software(),
            period_ns: r.period_ns,
            span_ns: self.recorder.as_ref().map_or(r.period_ns, Recorder::shown_span_ns),
            restarts: self.restarts,
            longest_restart_ns: self.longest_restart_ns,
            periods_unread: self.recorder.as_ref().map_or(0, |recorder| recorder.lost),
            cores: r.cores.iter().zip(engine.counts()?).map(core).collect(),
        });
        Ok(())
    }

    fn recorded(&self, run: &mut RunResult) {
        let (Some(recorder), Some(seen)) = (&self.recorder, &mut run.regulation) else { return };
        seen.span_ns = recorder.span_ns;
        for core in &mut seen.cores {
            core.series = recorder.series(core.cpu).to_vec();
        }
    }

    fn can_take(&mut self, plan: &Plan) -> Result<bool, LinuxError> {
        self.next = Some((self.regulation.replaced_by(plan)?, None));
        Ok(true)
    }

    fn take(&mut self) -> Result<(), LinuxError> {
        let Some((next, _)) = self.next.take() else { return Ok(()) };
        let engine = self.engine.borrow();
        let Some(engine) = engine.as_deref() else { return Ok(()) };
        let (pairs, now_ns) = (self.pairs(&next), monotonic_ns());
        let way = if let (Some(old), Some(new)) = (&self.regulation.dynamic, &next.dynamic) {
            let tasks = (old.tasks.clone(), new.tasks.clone());
            Way::Jobs(HandingJobs::begin(engine, tasks, pairs, now_ns)?)
        } else {
            Way::Periods(Handing::begin(engine, pairs, self.regulation.dips(), now_ns)?)
        };
        self.next = Some((next, Some(way)));
        Ok(())
    }

    fn taken(&mut self) -> Taking {
        let Some((next, Some(mut way))) = self.next.take() else {
            return Taking::Done(Others::default());
        };
        let ended = self.engine.borrow().as_deref().map_or(Ok(None), |engine| way.go_on(engine));
        match ended {
            Ok(Some(End::Taken)) => {
                let others = match &way {
                    Way::Periods(_) => {
                        let cores = other_budgets(&handing::changes(&self.pairs(&next), false));
                        Others { cores, tasks: Vec::new() }
                    }
                    Way::Jobs(handing) => Others { cores: Vec::new(), tasks: handing.changed() },
                };
                self.regulation = next;
                Taking::Done(others)
            }
            Ok(Some(End::GivenUp)) => Taking::GivenUp(format!(
                "a CPU has begun no period for {} s, so no budget has risen, and each CPU keeps its \
                    old budget; is a CPU offline?",
                PATIENCE_NS / 1_000_000_000
            )),
            Ok(None) | Err(_) => {
                self.next = Some((next, Some(way)));
                Taking::UnderWay
            }
        }
    }

    fn traced(&mut self, traces: &mut Traces) {
        let Some(recorder) = self.recorder.as_ref().filter(|_| self.traced) else { return };
        traces.periods = self
            .regulation
            .regulated()
            .into_iter()
            .map(|cpu| (cpu, recorder.traced(cpu)))
            .collect();
    }

    fn end(&mut self) {
        self.awake = Awake::default();
        self.engine.borrow_mut().take();
    }
}
