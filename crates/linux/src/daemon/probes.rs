//! Probes in unmodified programs, for their jobs and sections.
//!
//! Rule: a task's probes are set before its program is started, and its page belongs to the
//! processes that the task's thread starts (or to the attached process). Ended jobs are reported
//! one by one.

use crate::clients::functions::{Call, Watch};
use crate::clients::{OwnPage, OwnPages};
use crate::error::LinuxError;
use crate::host::threads::start_of;
use crate::schedule::placed::{Placed, Probed, ProbedJobs};
use solocore_model::run::{RunFunctions, RunJob};
use std::sync::Arc;

struct Program {
    task: String,
    number: u32,
    probed: Probed,
    page: Arc<OwnPage>,
}

/// The probes of all tasks; they are removed when this is dropped.
pub(super) struct Probes {
    watch: Watch,
    programs: Vec<Program>,
}

impl Probes {
    /// Sets the probes of all tasks; `None`: there are none. `pages`: those of tasks with pages
    /// that a regulating program reads.
    pub fn set(placed: &[Placed], pages: &OwnPages) -> Result<Option<Self>, LinuxError> {
        let mut programs = Vec::new();
        for (number, p) in (0u32..).zip(placed.iter().filter(|p| p.probed.any())) {
            let page = pages.get(&p.name).cloned();
            let page = page.map_or_else(|| OwnPage::unread().map(Arc::new), Ok)?;
            programs.push(Program { task: p.name.clone(), number, probed: p.probed.clone(), page });
        }
        if programs.is_empty() {
            return Ok(None);
        }
        let mut watch = Watch::open(programs.iter().any(Program::wakes))?;
        for program in &programs {
            for function in &program.probed.sections {
                watch.call(program.number, function, Call::Section)?;
            }
            if let Some(ProbedJobs::Calls(function)) = &program.probed.jobs {
                watch.call(program.number, function, Call::Job)?;
            }
        }
        Ok(Some(Self { watch, programs }))
    }

    /// Sets the processes of this task: those that a thread of `process` starts, or `process`
    /// itself.
    pub fn belongs(&self, task: &str, process: u32, thread: u32) -> Result<(), LinuxError> {
        let Some(program) = self.programs.iter().find(|p| p.task == task) else { return Ok(()) };
        let Some(started) = start_of(process, thread) else { return Ok(()) };
        let whose = (thread, started);
        let page = program.page.descriptor();
        self.watch.add(program.number, page, whose, program.wakes())?;
        program.page.belongs_to(whose)
    }

    /// Jobs that have ended since the last call, by task.
    pub fn ended(&self) -> Vec<(&str, RunJob)> {
        let of = |number| self.programs.iter().find(|p| p.number == number);
        let one = |job: crate::clients::functions::EndedJob| {
            let times =
                RunJob { release_ns: job.begun_ns, start_ns: job.begun_ns, end_ns: job.ended_ns };
            Some((of(job.program)?.task.as_str(), times))
        };
        self.watch.ended().into_iter().filter_map(one).collect()
    }

    /// Counts of all calls so far.
    pub fn seen(&self) -> Vec<RunFunctions> {
        self.programs.iter().flat_map(|p| p.seen(&self.watch)).collect()
    }
}

impl Program {
    fn wakes(&self) -> bool {
        self.probed.jobs == Some(ProbedJobs::Wakeups)
    }

    fn seen(&self, watch: &Watch) -> Vec<RunFunctions> {
        let of = |what: &str, functions: Vec<String>, call| {
            let calls = watch.seen(self.number, call);
            RunFunctions {
                task: self.task.clone(),
                what: what.to_owned(),
                functions,
                calls: calls.made,
                nested: calls.nested,
                abandoned: calls.abandoned,
                sum_ns: calls.sum_ns,
                longest_ns: calls.longest_ns,
            }
        };
        let names = self.probed.sections.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
        let sections = (!names.is_empty()).then(|| of("section", names, Call::Section));
        let jobs = self.probed.jobs.as_ref().map(|jobs| match jobs {
            ProbedJobs::Wakeups => of("job", Vec::new(), Call::Job),
            ProbedJobs::Calls(function) => of("job", vec![function.name.clone()], Call::Job),
        });
        sections.into_iter().chain(jobs).collect()
    }
}
