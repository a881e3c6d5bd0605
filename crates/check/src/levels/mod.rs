//! Traces of criticality levels (mc2-os-isolation, section 2).
//!
//! Two checks at once. *Replay*: the trace's releases and completions are given to `policy/`, and
//! each pick must be its answer. *Rules*, from the paper and without `policy/`, on the trace's own
//! state ([`Rules`]):
//! * `slot`: within a slot of its core's table, a level-A job that is ready runs, and outside of
//!   its slots none does;
//! * `level`: no task runs on a core while a task of a higher level that may run there waits;
//! * `priority`: at B the shortest period, at C the earliest deadline, at D the lowest number;
//! * `one core`: a job of level C runs on one core at a time;
//! * `budget`: a task that has used up its PET is not chosen, and goes on for at most the
//!   tolerance;
//! * `release`: jobs come at the task's period and in order, one at a time at level C;
//! * `runs`: a thread runs only while its task is chosen.
//!
//! A change after an event may take the tolerance of the trace.

mod state;

use crate::about::tolerance;
use crate::report::LevelsReport;
use crate::violation::Violation;
use solocore_model::sched_trace::{Event, Kind, NONE, SchedTrace};
use solocore_policy::levels::Levels;
use state::{RuledCore, RuledTask};

/// Level of an idle core.
const IDLE: u64 = 4;

/// State of the rules. See the module.
struct Rules {
    tasks: Vec<RuledTask>,
    cores: Vec<RuledCore>,
    tolerance_ns: u64,
    strict: bool,
    now_ns: u64,
    report: LevelsReport,
}

pub fn check(trace: &SchedTrace) -> Result<LevelsReport, Violation> {
    let (tasks, cores, mut policy) = state::set_up(trace)?;
    let strict = trace.about.get("source").is_some_and(|s| s == "linux");
    let report = LevelsReport { scheduler: "levels".to_owned(), ..LevelsReport::default() };
    let tolerance_ns = tolerance(trace);
    let mut rules = Rules { tasks, cores, tolerance_ns, strict, now_ns: 0, report };
    for event in trace
        .events
        .iter()
        .filter(|e| !matches!(e.event, Kind::LevelAdd | Kind::LevelTable | Kind::LevelSlot))
    {
        rules.report.events += 1;
        rules.pass(event.time_ns)?;
        rules.replay(&mut policy, event)?;
    }
    Ok(rules.report)
}

impl Rules {
    fn broken<T>(&self, core: u32, rule: &'static str, what: String) -> Result<T, Violation> {
        Err(Violation::of(self.now_ns, core, rule, what))
    }

    fn replay(&mut self, policy: &mut Levels, e: &Event) -> Result<(), Violation> {
        let known = (e.id as usize) < self.tasks.len();
        let concerns =
            matches!(e.event, Kind::LevelRelease | Kind::LevelComplete | Kind::LevelOverrun);
        if concerns && !known {
            return self.broken(e.cpu, "replay", format!("there is no task {}", e.id));
        }
        match e.event {
            Kind::LevelRelease => {
                self.released(e)?;
                policy.release(e.id, if e.b == 0 { e.time_ns } else { e.b });
            }
            Kind::LevelComplete => {
                self.completed(e)?;
                if !policy.complete(e.id, e.time_ns) {
                    return self.broken(
                        e.cpu,
                        "replay",
                        format!(
                            "task {} completes job {}, but the policy has no such job",
                            e.id, e.a
                        ),
                    );
                }
            }
            Kind::LevelPick => self.picked(policy, e)?,
            Kind::LevelOverrun => {
                self.report.overruns += 1;
                self.charge(e.cpu as usize, e.time_ns);
                let t = &self.tasks[e.id as usize];
                let used = t.used_ns;
                let running = self.cores[e.cpu as usize].current == Some(e.id as usize);
                if !running || used < t.pet_ns {
                    return self.broken(
                        e.cpu,
                        "budget",
                        format!(
                            "task {} is said to overrun, with {used} ns used of {}",
                            e.id, t.pet_ns
                        ),
                    );
                }
                self.spend(e.id as usize);
                self.cores[e.cpu as usize].current = None;
            }
            Kind::Runs => self.runs(e)?,
            Kind::Stops => {
                self.stray(e.cpu)?;
                self.cores[e.cpu as usize].runs = None;
            }
            _ => {}
        }
        Ok(())
    }

    /// Marks the budget of a task as used up.
    fn spend(&mut self, id: usize) {
        let t = &mut self.tasks[id];
        self.report.max_over_budget_ns = self.report.max_over_budget_ns.max(t.used_ns - t.pet_ns);
        t.ready = false;
        t.spent = t.level != 0;
    }

    /// Charges the execution since the last time.
    fn charge(&mut self, core: usize, to_ns: u64) {
        let c = &mut self.cores[core];
        let ran = to_ns.saturating_sub(c.charged_ns);
        c.charged_ns = c.charged_ns.max(to_ns);
        if let Some(current) = c.current {
            self.tasks[current].used_ns += ran;
        }
    }

    /// Lets time pass; fails if an action that was due by now is missing.
    fn pass(&mut self, to_ns: u64) -> Result<(), Violation> {
        if to_ns == self.now_ns {
            return Ok(());
        }
        for core in 0..self.cores.len() {
            let number = u32::try_from(core).unwrap_or(u32::MAX);
            // Before time passes, not after: changes at this very instant have happened.
            let why = self.better(core);
            let c = &mut self.cores[core];
            c.wrong_ns = why.as_ref().map(|_| c.wrong_ns.unwrap_or(self.now_ns));
            if let (Some(why), Some(since)) = (why, c.wrong_ns)
                && to_ns - since > self.tolerance_ns
            {
                self.now_ns = since;
                return self.broken(number, why.0, format!("{} for {} ns", why.1, to_ns - since));
            }
            let (until, picked) = (c.until_ns, c.picked);
            if picked && to_ns > until {
                let late = to_ns - until;
                self.report.max_decision_late_ns = self.report.max_decision_late_ns.max(late);
                if late > self.tolerance_ns {
                    self.now_ns = to_ns;
                    return self.broken(
                        number,
                        "budget",
                        format!(
                            "no decision was made, {late} ns after the end of a slot or budget"
                        ),
                    );
                }
            }
        }
        self.now_ns = to_ns;
        Ok(())
    }

    /// A task that ought to run on a core in place of the present one, with the rule.
    fn better(&self, core: usize) -> Option<(&'static str, String)> {
        let c = &self.cores[core];
        if !c.picked {
            return None;
        }
        let number = u32::try_from(core).unwrap_or(u32::MAX);
        let current = c.current;
        let level = current.map_or(IDLE, |t| self.tasks[t].level);
        let slot = c.slot(self.now_ns).filter(|s| self.tasks[s.0].ready);
        match slot {
            Some((task, from, to)) if current != Some(task) => {
                return Some((
                    "slot",
                    format!(
                        "task {task} waits in its slot from {from} to {to} while {current:?} is \
                            chosen"
                    ),
                ));
            }
            None if level == 0 => {
                return Some((
                    "slot",
                    format!("task {current:?} of level A is chosen outside of its slots"),
                ));
            }
            Some(_) => return None,
            None => {}
        }
        let home = |t: &&(usize, &RuledTask)| t.1.core == number && t.1.ready;
        let all = || self.tasks.iter().enumerate();
        let first_b =
            all().filter(|t| t.1.level == 1 && home(&t)).min_by_key(|(id, t)| (t.period_ns, *id));
        if let Some((id, _)) = first_b {
            return (current != Some(id)).then(|| {
                let rule = if level == 1 { "priority" } else { "level" };
                (rule, format!("task {id} of level B waits while {current:?} is chosen"))
            });
        }
        let running = |id: usize| self.cores.iter().any(|c| c.current == Some(id));
        let waiting = all().filter(|(id, t)| t.level == 2 && t.ready && !running(*id));
        let first_c = waiting.min_by_key(|(id, t)| (t.deadline_ns, *id));
        if let Some((id, t)) = first_c {
            let here = current.map(|c| (self.tasks[c].deadline_ns, c));
            if level > 2 {
                return Some((
                    "level",
                    format!("task {id} of level C waits while {current:?} is chosen"),
                ));
            }
            if level == 2 && here.is_some_and(|here| (t.deadline_ns, id) < here) {
                return Some((
                    "priority",
                    format!(
                        "task {id} waits with its deadline at {} while {current:?} is chosen with \
                            its at {:?}",
                        t.deadline_ns, here
                    ),
                ));
            }
        }
        if level <= 2 {
            return None;
        }
        let first_d = all().filter(|t| t.1.level == 3 && home(&t)).map(|(id, _)| id).next();
        (first_d != current && first_d.is_some()).then(|| {
            ("priority", format!("task {first_d:?} of level D waits while {current:?} is chosen"))
        })
    }

    fn released(&mut self, e: &Event) -> Result<(), Violation> {
        self.report.jobs += 1;
        let at = if e.b == 0 { e.time_ns } else { e.b };
        let id = e.id as usize;
        let t = &self.tasks[id];
        if self.strict && e.a != t.job + 1 {
            return self.broken(
                e.cpu,
                "release",
                format!("job {} of task {id} follows job {}", e.a, t.job),
            );
        }
        if at > e.time_ns {
            return self.broken(
                e.cpu,
                "release",
                format!("job {} of task {id} comes before its time, {at}", e.a),
            );
        }
        if self.strict
            && t.period_ns > 0
            && t.level < 3
            && let Some(before) = t.released_ns
            && (at <= before || (at - before) % t.period_ns != 0)
        {
            return self.broken(
                e.cpu,
                "release",
                format!(
                    "job {} of task {id} is of {at} ns and the previous one of {before}; the period \
                        is {} ns",
                    e.a, t.period_ns
                ),
            );
        }
        if t.level == 2 && t.ready {
            return self.broken(e.cpu, "release", format!("task {id} has two jobs at once"));
        }
        // Execution up to the release belongs to the job before; and its budget may end with it.
        if let Some(core) = self.cores.iter().position(|c| c.current == Some(id)) {
            self.charge(core, at);
            if self.tasks[id].used_ns >= self.tasks[id].pet_ns && self.tasks[id].level < 3 {
                self.cores[core].current = None;
            }
        }
        let t = &mut self.tasks[id];
        if t.level == 3 && t.ready {
            return Ok(());
        }
        t.job = e.a;
        t.released_ns = Some(at);
        t.used_ns = 0;
        t.deadline_ns =
            at.saturating_add(if t.period_ns == 0 { 1_000_000_000 } else { t.period_ns });
        t.unstarted = true;
        t.may_ns = e.time_ns;
        t.ready = true;
        t.spent = false;
        Ok(())
    }

    fn completed(&mut self, e: &Event) -> Result<(), Violation> {
        self.report.completed += 1;
        let id = e.id as usize;
        if !self.tasks[id].ready {
            return self.broken(
                e.cpu,
                "budget",
                format!("job {} of task {id} ends, which had none or had used it up", e.a),
            );
        }
        if let Some(core) = self.cores.iter().position(|c| c.current == Some(id)) {
            self.charge(core, e.time_ns);
            self.cores[core].current = None;
        }
        let t = &mut self.tasks[id];
        t.ready = false;
        if t.level == 2 {
            let late = e.time_ns.saturating_sub(t.deadline_ns);
            self.report.max_tardiness_ns = self.report.max_tardiness_ns.max(late);
        }
        Ok(())
    }

    fn picked(&mut self, policy: &mut Levels, e: &Event) -> Result<(), Violation> {
        self.report.decisions += 1;
        let core = e.cpu as usize;
        let chosen = (e.id != NONE).then_some(e.id as usize);
        if chosen.is_some_and(|id| id >= self.tasks.len()) {
            return self.broken(e.cpu, "replay", format!("there is no task {}", e.id));
        }
        let answer = policy.pick(e.cpu, e.time_ns);
        let said = answer
            .map(|c| (c.task.unwrap_or(NONE), c.until_ns, c.level.map_or(IDLE, |l| l as u64)));
        if said != Some((e.id, e.a, e.b)) {
            return self.broken(
                e.cpu,
                "replay",
                format!(
                    "task {} was chosen until {} at level {}, and the policy says (task, until, \
                        level) {said:?}",
                    e.id, e.a, e.b
                ),
            );
        }
        self.charge(core, e.time_ns);
        // Levels A to C: the budget that ends is not given to another task.
        if let Some(old) = self.cores[core].current
            && self.tasks[old].level < 3
            && self.tasks[old].used_ns >= self.tasks[old].pet_ns
        {
            return self.broken(
                e.cpu,
                "budget",
                format!(
                    "task {old} has used {} ns of {}, and no overrun was counted",
                    self.tasks[old].used_ns, self.tasks[old].pet_ns
                ),
            );
        }
        if let Some(id) = chosen {
            let t = &self.tasks[id];
            if !t.ready || t.spent || (t.level < 3 && t.used_ns >= t.pet_ns) {
                return self.broken(
                    e.cpu,
                    "budget",
                    format!(
                        "task {id} is chosen without a job, or with {} ns used of {}",
                        t.used_ns, t.pet_ns
                    ),
                );
            }
            let elsewhere =
                self.cores.iter().position(|c| c.current == Some(id)).filter(|&c| c != core);
            if let Some(other) = elsewhere {
                return self.broken(
                    e.cpu,
                    "one core",
                    format!("task {id} is chosen here and on core {other}"),
                );
            }
        }
        let c = &mut self.cores[core];
        c.current = chosen;
        c.picked = true;
        c.until_ns = e.a;
        self.stray(e.cpu)
    }

    fn runs(&mut self, e: &Event) -> Result<(), Violation> {
        let task = usize::try_from(e.a).ok().and_then(|n| n.checked_sub(1));
        self.cores[e.cpu as usize].runs = Some((e.id, task, None));
        let c = &self.cores[e.cpu as usize];
        if let Some(id) = task.filter(|&id| c.current == Some(id) && id < self.tasks.len()) {
            let slot = c.slot(e.time_ns).map_or(0, |s| s.1);
            let t = &mut self.tasks[id];
            if t.level == 0 && t.unstarted {
                let late = e.time_ns.saturating_sub(slot.max(t.may_ns));
                self.report.max_start_late_ns = self.report.max_start_late_ns.max(late);
            }
            t.unstarted = false;
        }
        self.stray(e.cpu)
    }

    /// Does the running thread belong to the chosen task? It may take the tolerance to stop.
    fn stray(&mut self, cpu: u32) -> Result<(), Violation> {
        let now = self.now_ns;
        let c = &mut self.cores[cpu as usize];
        let Some((thread, Some(task), since)) = c.runs else { return Ok(()) };
        let strays = c.current != Some(task);
        let begun = since.unwrap_or(now);
        self.report.max_stray_ns = self.report.max_stray_ns.max(now - begun);
        c.runs = Some((thread, Some(task), strays.then_some(begun)));
        if now - begun > self.tolerance_ns {
            return self.broken(
                cpu,
                "runs",
                format!(
                    "thread {thread} of task {task} runs for {} ns without being chosen",
                    now - begun
                ),
            );
        }
        Ok(())
    }
}
