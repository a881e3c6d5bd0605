//! Another plan for a run that goes on (`solocore run --replace`).
//!
//! Problem: a run that is ended and started again leaves a gap without budgets, and ends its tasks
//! and its clients' locks. Rule: the daemon takes another plan at its socket for plans
//! (`host/status`), and checks everything before anything changes. The plan may differ in budgets,
//! in tasks that the run does not start, in demands, and in ways where the run divides the cache
//! (`difference`). Each part must be able to go on under it, and each of its promises must be kept.
//! One of the two plans must bound each job that is active meanwhile (`covered`). The answer to a
//! refused plan is the reason, and the old plan stays in force. Otherwise the cores get their new
//! ways (host/resctrl/other.rs). Then the part that regulates hands over, in some rounds, and then
//! the new plan is the run's plan. If that is given up or fails, the cores lose their new ways
//! again, and no bound counts on jobs there in this run (`covered`). Tasks, clients, engines and
//! settings stay. A plan that was sent as a whole is carried out even if its client has gone. Does
//! not cover: other tasks that are started, colours, banks, periods, schemes and policies; VCPUs
//! and levels; a run without a plan. Notes of the run are those on its first plan.

use super::covered::{self, AGAIN, unbounded_cores, uncovered_cores};
use super::difference::difference;
use super::handovers::{Decision, Pending};
use super::part::{Others, Taking};
use super::{Daemon, Word, promises};
use crate::error::LinuxError;
use crate::host::status::{Sent, Status};
use crate::sys::tasks::monotonic_ns;
use solocore_model::Plan;
use solocore_model::files::to_json;
use solocore_model::run::RunHandover;

impl Daemon {
    /// Takes another plan if one has come, or goes on with the handover to it. Never waits.
    pub(super) fn replace(&mut self, status: &Status, say: &dyn Fn(Word<'_>)) {
        let Some(pending) = self.replacing.pending.take() else {
            let Some((number, sent)) = status.plan() else { return };
            match sent.and_then(|sent| self.begin(number, sent)) {
                Ok(pending) => {
                    say(Word::Message(&format!("hands over to the plan {}", pending.name)));
                    // Some jobs have only its bounds, also if it is given up or the run ends first.
                    let Pending { plan, answers, uncovered, .. } = &pending;
                    self.replacing.keep_bounds(plan, answers, uncovered);
                    self.replacing.pending = Some(pending);
                }
                Err(error) => refuse(status, number, error, say),
            }
            return;
        };
        match self.parts.get_mut(pending.part).map(|part| part.taken()) {
            Some(Taking::UnderWay) => self.replacing.pending = Some(pending),
            Some(Taking::GivenUp(why)) => {
                self.divide_as_before(&pending.plan);
                refuse(status, pending.number, LinuxError::Machine(why), say);
            }
            Some(Taking::Done(Others { cores, tasks })) => {
                let since = |ns: u64| ns.saturating_sub(self.begun_ns);
                let handover = RunHandover {
                    plan: pending.name,
                    begun_ns: since(pending.begun_ns),
                    ended_ns: since(monotonic_ns()),
                    cores,
                    tasks,
                };
                say(Word::Message(&handover.text()));
                status.decide(pending.number, to_json(&Decision::Taken(handover.clone())));
                self.replacing.add(handover);
                let before = self.answers();
                let broken = promises::broken(&self.promised, &before);
                self.replacing.broken.extend(broken.into_iter().map(|a| a.promise.id));
                if let Some(old) = self.plan.replace(pending.plan) {
                    self.replacing.keep_bounds(&old, &before, &[]);
                }
                self.promised = pending.answers;
            }
            None => {}
        }
    }

    /// Refuses the plans that have come, because the run goes on for its program only. Never waits.
    pub(super) fn replace_no_more(
        &mut self,
        status: &Status,
        failure: &LinuxError,
        say: &dyn Fn(Word<'_>),
    ) {
        let pending = self.replacing.pending.take().map(|pending| pending.number);
        let sent = status.plan().map(|(number, _)| number);
        for number in pending.into_iter().chain(sent) {
            let why = format!(
                "a failure ended the regulation, and only the program of the run goes on \
                    ({failure}); end the program, and start a run with the new plan"
            );
            refuse(status, number, LinuxError::Machine(why), say);
        }
    }

    /// Checks another plan, and begins the handover to it.
    fn begin(&mut self, number: u64, sent: Sent) -> Result<Pending, LinuxError> {
        let Sent { name, plan: new } = sent;
        let Some(old) = &self.plan else {
            return Err(LinuxError::Machine(
                "the run has no plan, because `solocore exec` began it; end it, and start the plan \
                    with `solocore run`"
                    .to_owned(),
            ));
        };
        let new = Plan { carried: old.carried.clone(), ..new };
        // Pages that lie in the colours of their cores stay there.
        let placed = self.parts.iter().any(|part| part.places_pages());
        let divides = !placed && self.parts.iter().any(|part| part.divides());
        let runs = |task: &str| self.parts.iter().any(|part| part.runs(task));
        if let Some(what) = difference(old, &new, divides, &runs) {
            return Err(LinuxError::Machine(format!(
                "the new plan differs from the present one in {what}; only budgets, ways by \
                    --resctrl, demands, and tasks that the run does not start can change while it \
                    goes on; {AGAIN}"
            )));
        }
        let uncovered = uncovered_cores(old, &new);
        if let (Some(core), false) = (uncovered.first(), self.partial) {
            return Err(LinuxError::Machine(covered::uncovered(old, &new, *core)));
        }
        let mut by = None;
        for (at, part) in self.parts.iter_mut().enumerate() {
            if part.can_take(&new)? {
                by = Some(at);
            }
        }
        let answers = promises::answers(&new, &self.parts, &self.vouched, &[]);
        let refused = promises::refusal(&new, &answers).filter(|_| !self.partial);
        if let Some(why) = refused {
            return Err(LinuxError::Machine(why).of("the new plan"));
        }
        let Some(part) = by else {
            return Err(LinuxError::Machine(format!(
                "this run regulates no accesses, so it has no budgets that could change; {AGAIN}"
            )));
        };
        let begun_ns = monotonic_ns();
        let divided = self.parts.iter_mut().try_for_each(|part| part.divide());
        if let Err(error) = divided.and_then(|()| self.parts[part].take()) {
            self.divide_as_before(&new);
            return Err(error);
        }
        Ok(Pending { number, name, plan: new, part, answers, uncovered, begun_ns })
    }

    /// Gives the cores their old ways again, after some or all of those of a new plan.
    fn divide_as_before(&mut self, new: &Plan) {
        self.parts.iter_mut().for_each(|part| part.divide_as_before());
        if let Some(old) = &self.plan {
            self.replacing.lose_bounds(old, &unbounded_cores(old, new));
        }
    }
}

fn refuse(status: &Status, number: u64, error: LinuxError, say: &dyn Fn(Word<'_>)) {
    say(Word::Message(&format!("another plan is refused: {error}")));
    status.decide(number, to_json(&Decision::from(error)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::part::{Next, Part, Round};
    use solocore_model::plan::{Answer, Promise, Subject};
    use solocore_model::run::{RunOtherBudget, RunResult, RunTask};
    use std::cell::RefCell;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// A plan with a promise that the system file keeps, so that its bounds are in force.
    fn plan() -> Plan {
        let plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
        Plan { promises: vec![promise(Subject::Demand, "task video")], ..plan }
    }

    fn promise(subject: Subject, resource: &str) -> Promise {
        Promise::new(subject, resource, vec!["video".to_owned()], String::new())
    }

    /// The bound of the first task in a result, where the plan in force has `now`.
    fn bound(daemon: &Daemon, now: Option<u64>) -> Option<u64> {
        let name = plan().tasks[0].name.clone();
        let tasks = vec![RunTask { name, bound_ns: now, ..RunTask::default() }];
        let mut run = RunResult { tasks, ..RunResult::default() };
        daemon.replacing.seen(&mut run);
        run.tasks[0].bound_ns
    }

    /// A part whose handover takes this number of rounds, and its log.
    struct Told {
        divides: bool,
        /// It cannot begin the handover.
        refuses: bool,
        rounds: u32,
        ends: Taking,
        log: Rc<RefCell<Vec<&'static str>>>,
    }

    impl Part for Told {
        fn start(&mut self) -> Result<(), LinuxError> {
            Ok(())
        }

        fn keeps(&self, promise: &Promise) -> Option<Answer> {
            (promise.subject == Subject::Budget).then(|| Answer::open(promise, true, "a lapse"))
        }

        fn divides(&self) -> bool {
            self.divides
        }

        fn divide(&mut self) -> Result<(), LinuxError> {
            self.log.borrow_mut().extend(self.divides.then_some("divided"));
            Ok(())
        }

        fn divide_as_before(&mut self) {
            self.log.borrow_mut().extend(self.divides.then_some("as before"));
        }

        fn can_take(&mut self, _: &Plan) -> Result<bool, LinuxError> {
            self.log.borrow_mut().push("asked");
            Ok(true)
        }

        fn take(&mut self) -> Result<(), LinuxError> {
            self.log.borrow_mut().push("begun");
            if self.refuses { Err(LinuxError::Machine("no memory".to_owned())) } else { Ok(()) }
        }

        fn taken(&mut self) -> Taking {
            if self.rounds == 0 {
                return self.ends.clone();
            }
            self.rounds -= 1;
            Taking::UnderWay
        }

        fn end(&mut self) {}
    }

    /// A daemon under the plan of the tests, without a part.
    fn alone() -> Daemon {
        let mut daemon = Daemon::default();
        (daemon.plan, daemon.partial) = (Some(plan()), true);
        daemon
    }

    /// The same, with one part.
    fn daemon(ends: Taking) -> (Daemon, Rc<RefCell<Vec<&'static str>>>) {
        with_part(ends, false)
    }

    fn with_part(ends: Taking, divides: bool) -> (Daemon, Rc<RefCell<Vec<&'static str>>>) {
        let log = Rc::default();
        let mut daemon = alone();
        daemon.add(Told { divides, refuses: false, rounds: 3, ends, log: Rc::clone(&log) });
        (daemon, log)
    }

    fn text(plan: &Plan) -> Vec<u8> {
        format!("new.json\n{}", to_json(plan)).into_bytes()
    }

    /// The daemon's answer to a client that sends this.
    fn answer(daemon: &mut Daemon, text: &[u8]) -> Decision {
        let dir = tempfile::tempdir().unwrap();
        let (path, plans) = (dir.path().join("s"), dir.path().join("plans"));
        let status = Status::at(&path, &plans, None).unwrap();
        let mut client = UnixStream::connect(&plans).unwrap();
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || {
                client.write_all(text).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                let mut answer = String::new();
                client.read_to_string(&mut answer).unwrap();
                answer
            });
            let since = Instant::now();
            while !asked.is_finished() {
                assert!(since.elapsed() < Duration::from_secs(20), "no answer");
                daemon.replace(&status, &|_| {});
            }
            serde_json::from_str(&asked.join().unwrap()).unwrap()
        })
    }

    fn refusal(decision: Decision) -> String {
        match decision {
            Decision::Refused(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_plan_with_other_budgets_is_taken() {
        let changed = RunOtherBudget { cpu: 1, before: 7, budget: 5, ..RunOtherBudget::default() };
        let (mut daemon, log) =
            daemon(Taking::Done(Others { cores: vec![changed], tasks: Vec::new() }));
        let mut new = plan();
        new.cores[1].budget_accesses = Some(5);
        let old_bound = new.tasks[0].wcrt_ns;
        new.tasks[0].wcrt_ns = Some(1);
        let Decision::Taken(handover) = answer(&mut daemon, &text(&new)) else { panic!() };
        assert_eq!((handover.plan.as_str(), handover.cores), ("new.json", vec![changed]));
        assert_eq!(*log.borrow(), ["asked", "begun"]);
        assert_eq!(daemon.plan.as_ref().unwrap().cores[1].budget_accesses, Some(5));
        assert!(old_bound.is_some());
        assert_eq!((daemon.replacing.done.len(), bound(&daemon, Some(1))), (1, old_bound));
    }

    #[test]
    fn a_partial_run_has_no_bound_where_neither_plan_covered_a_job() {
        let (mut daemon, _) = daemon(Taking::Done(Others::default()));
        let mut new = plan();
        for core in &mut new.cores {
            core.budget_accesses = core.budget_accesses.map(|budget| budget + 10);
        }
        let decision = answer(&mut daemon, &text(&new));
        assert!(matches!(&decision, Decision::Taken(_)), "{decision:?}");
        assert_eq!(bound(&daemon, Some(1)), None);
    }

    /// Budgets that fell for a moment: the bounds of the plan that is refused cover these jobs.
    #[test]
    fn a_plan_that_is_given_up_counts_for_the_bounds() {
        let (mut daemon, _) = daemon(Taking::GivenUp("a CPU is away".to_owned()));
        let mut new = plan();
        new.tasks[0].wcrt_ns = Some(99_000_000);
        refusal(answer(&mut daemon, &text(&new)));
        assert_eq!(bound(&daemon, plan().tasks[0].wcrt_ns), Some(99_000_000));
    }

    #[test]
    fn ways_come_before_budgets_and_go_if_these_are_given_up() {
        let mut new = plan();
        (new.cores[0].ways, new.cores[1].ways) = (5, 7);
        let (mut dividing, log) = with_part(Taking::Done(Others::default()), true);
        let decision = answer(&mut dividing, &text(&new));
        assert!(matches!(&decision, Decision::Taken(_)), "{decision:?}");
        assert_eq!(*log.borrow(), ["asked", "divided", "begun"]);
        let (mut dividing, log) = with_part(Taking::GivenUp("a CPU is away".to_owned()), true);
        refusal(answer(&mut dividing, &text(&new)));
        assert_eq!(*log.borrow(), ["asked", "divided", "begun", "as before"]);
        let bound = bound(&dividing, plan().tasks[0].wcrt_ns);
        assert_eq!(bound, None, "a job of the task lost ways in its midst");
        let why = refusal(answer(&mut daemon(Taking::UnderWay).0, &text(&new)));
        assert!(why.contains("cores.0.ways (6, now 5)"), "{why}");
    }

    #[test]
    fn ways_that_came_before_budgets_were_refused_leave_no_bound() {
        let mut new = plan();
        (new.cores[0].ways, new.cores[1].ways) = (5, 7);
        let (mut daemon, log) = (alone(), Rc::default());
        let (ends, rounds) = (Taking::UnderWay, 0);
        daemon.add(Told { divides: true, refuses: true, rounds, ends, log: Rc::clone(&log) });
        assert_eq!(refusal(answer(&mut daemon, &text(&new))), "no memory");
        assert_eq!(*log.borrow(), ["asked", "divided", "begun", "as before"]);
        assert_eq!(bound(&daemon, plan().tasks[0].wcrt_ns), None);
        assert_eq!(daemon.plan, Some(plan()));
    }

    #[test]
    fn a_promise_that_was_broken_under_the_old_plan_stays_broken() {
        let (mut daemon, _) = daemon(Taking::Done(Others::default()));
        let budget = promise(Subject::Budget, "core 1");
        daemon.promised = vec![Answer::kept(&budget, "regulation", true, "counted")];
        daemon.plan.as_mut().unwrap().promises.push(budget);
        let decision = answer(&mut daemon, &text(&plan()));
        assert!(matches!(&decision, Decision::Taken(_)), "{decision:?}");
        assert!(daemon.replacing.broken.contains("budget:core-1"));
        assert_eq!(bound(&daemon, Some(1)), None, "the old plan's bound rests on it");
    }

    #[test]
    fn a_handover_that_is_given_up_leaves_the_old_plan() {
        let (mut daemon, _) = daemon(Taking::GivenUp("a CPU is away".to_owned()));
        assert_eq!(refusal(answer(&mut daemon, &text(&plan()))), "a CPU is away");
        assert_eq!(daemon.plan, Some(plan()));
        assert!(daemon.replacing.done.is_empty());
    }

    #[test]
    fn a_plan_that_is_cut_off_changes_nothing() {
        let (mut daemon, log) = daemon(Taking::UnderWay);
        let whole = text(&plan());
        for length in [0, 3, 9, whole.len() / 2, whole.len() - 3] {
            let decision = answer(&mut daemon, &whole[..length]);
            assert!(matches!(&decision, Decision::BadInput(_)), "{length}: {decision:?}");
        }
        assert!(log.borrow().is_empty());
    }

    #[test]
    fn another_period_is_refused_before_any_part_is_asked() {
        let (mut daemon, log) = daemon(Taking::UnderWay);
        let mut new = plan();
        new.regulation.period_ns = 2_000_000;
        let why = refusal(answer(&mut daemon, &text(&new)));
        assert!(why.contains("regulation.period_ns") && why.ends_with(AGAIN), "{why}");
        assert!(log.borrow().is_empty());
    }

    #[test]
    fn a_run_that_regulates_nothing_or_has_no_plan_takes_none() {
        let why = refusal(answer(&mut alone(), &text(&plan())));
        assert!(why.contains("regulates no accesses"), "{why}");
        let why = refusal(answer(&mut Daemon::default(), &text(&plan())));
        assert!(why.contains("the run has no plan"), "{why}");
    }

    /// A part that fails, or one that outlives it until a client has its answer.
    struct Outlives(Option<Arc<AtomicBool>>);

    impl Part for Outlives {
        fn start(&mut self) -> Result<(), LinuxError> {
            Ok(())
        }

        fn look(&mut self, _: &mut Round) -> Result<Next, LinuxError> {
            let Some(answered) = &self.0 else {
                return Err(LinuxError::Machine("a CPU is away".to_owned()));
            };
            let ended = answered.load(Ordering::SeqCst);
            Ok(if ended { Next::Done("program".to_owned()) } else { Next::GoOn })
        }

        fn outlives(&self) -> bool {
            self.0.is_some()
        }

        fn end(&mut self) {}
    }

    #[test]
    fn a_program_that_goes_on_after_a_failure_leaves_no_sender_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let plans = dir.path().join("plans");
        let status = Status::at(&dir.path().join("s"), &plans, None).unwrap();
        let answered = Arc::new(AtomicBool::new(false));
        let mut daemon = alone();
        daemon.add(Outlives(Some(Arc::clone(&answered))));
        daemon.add(Outlives(None));
        let mut client = UnixStream::connect(&plans).unwrap();
        let asked = std::thread::spawn(move || {
            client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut answer = String::new();
            let done = client
                .write_all(&text(&plan()))
                .and_then(|()| client.shutdown(Shutdown::Write))
                .and_then(|()| client.read_to_string(&mut answer));
            answered.store(true, Ordering::SeqCst);
            done.map(|_| answer)
        });
        daemon.rounds(&status, &|| false, &|_| {});
        let why = refusal(serde_json::from_str(&asked.join().unwrap().unwrap()).unwrap());
        assert!(why.contains("only the program of the run goes on (a CPU is away)"), "{why}");
    }

    #[test]
    fn a_plan_that_leaves_a_job_without_a_bound_is_refused() {
        let mut new = plan();
        let rises = |budget: Option<u64>| Some(budget.unwrap_or(1) + 10);
        new.cores[0].budget_accesses = rises(new.cores[0].budget_accesses);
        new.cores[1].budget_accesses = rises(new.cores[1].budget_accesses);
        assert!(new.tasks.iter().any(|t| !t.best_effort() && t.wcrt_ns.is_some()));
        let (mut daemon, log) = daemon(Taking::UnderWay);
        daemon.partial = false;
        let why = refusal(answer(&mut daemon, &text(&new)));
        assert!(why.contains("neither plan bounds a job on core 1"), "{why}");
        assert!(log.borrow().is_empty());
    }
}
