//! Messages of a run to the user, and the files of its results: the same for `run`, `exec` and
//! `vcpu serve`.

use crate::args::Format;
use crate::commands::run_text;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::stopped;
use solocore_linux::daemon::{Daemon, Outcome, Program, Traces, Word};
use solocore_linux::host::said::say;
use solocore_model::files;
use solocore_model::run::{RunJob, RunResult, RunTask};
use solocore_model::sched_trace::SchedTrace;
use solocore_report::{RunTrace, TracedCore, TracedPeriod, TracedTask};
use std::path::Path;
use std::process::ExitCode;

/// Destinations of a run's results.
pub struct Destination<'a> {
    /// Decisions of a scheduler.
    pub sched_trace: Option<&'a Path>,
    /// Tracks for Perfetto.
    pub trace: Option<&'a Path>,
    /// The run as a file.
    pub output: Option<&'a Path>,
    /// Format of the output.
    pub format: Format,
}

/// Runs it to its end, with words on stderr.
pub fn run(daemon: Daemon, to: &Destination<'_>) -> Result<ExitCode, Failure> {
    let outcome = daemon.run(&stopped, &|word| match word {
        Word::Begun(what) => say(format_args!("{what}; Ctrl-C ends it")),
        word => line(word).iter().for_each(say),
    })?;
    if let Err(unwritten) = to.write(&outcome) {
        // Both are to be known: why the run ended, and that nothing of it was written.
        outcome.lost.iter().for_each(|error| say(format_args!("solocore: {error}")));
        return Err(unwritten);
    }
    let broken = !outcome.run.broken.is_empty() && !outcome.run.partial;
    let code = ExitCode::from(u8::from(broken));
    outcome.lost.map_or(Ok(code), |error| Err(error.into()))
}

/// The line for a note or an event. Beside a program, a part begins without a word.
fn line(word: Word<'_>) -> Option<String> {
    match word {
        Word::Note(note) => Some(format!("solocore: note: {note}")),
        Word::Message(message) => Some(format!("solocore: {message}")),
        Word::Begun(_) => None,
    }
}

/// Runs it until a program ends, which is its last part; returns the program's exit code.
pub fn run_beside(mut daemon: Daemon, program: Program) -> Result<ExitCode, Failure> {
    let code = program.code();
    daemon.add(program);
    let outcome = daemon.run(&stopped, &|word| line(word).iter().for_each(say))?;
    outcome
        .lost
        .map_or_else(|| Ok(ExitCode::from(code.get().unwrap_or(1))), |error| Err(error.into()))
}

impl Destination<'_> {
    fn write(&self, Outcome { run, traces, .. }: &Outcome) -> Result<(), Failure> {
        for note in &traces.notes {
            say(format_args!("solocore: note: {note}"));
        }
        if let (Some(path), Some(decisions)) = (self.sched_trace, &traces.decisions) {
            files::write_atomically(path, &csv_of(path, decisions)?)?;
        }
        if let Some(path) = self.trace {
            files::write_atomically(path, &perfetto(run, traces))?;
        }
        if let Some(path) = self.output {
            files::write_json(path, run)?;
        }
        match self.format {
            Format::Json => print(&files::to_json(run)),
            Format::Text => print(&run_text::text(run)),
        }
    }
}

/// The bytes of a trace of decisions (CSV) for the file `path`.
pub fn csv_of(path: &Path, trace: &SchedTrace) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).map_err(|e| {
        Failure::Machine(format!("{}: cannot be written: {e}; free some memory", path.display()))
    })?;
    Ok(bytes)
}

fn perfetto(run: &RunResult, traces: &Traces) -> Vec<u8> {
    match (&traces.decisions, &run.levels, &run.vcpus) {
        (Some(decisions), Some(levels), _) => {
            let names: Vec<String> = levels.tasks.iter().map(|t| t.name.clone()).collect();
            solocore_report::perfetto_sched(decisions, &names)
        }
        (Some(decisions), None, Some(vcpus)) => {
            let names = vcpus.vcpus.iter().map(|v| (v.id, v.name.clone())).collect();
            solocore_report::perfetto_vcpus(decisions, &names)
        }
        _ => solocore_report::perfetto_run(&periods(run, traces)),
    }
}

/// Throttling and use of each period, and jobs.
fn periods(run: &RunResult, traces: &Traces) -> RunTrace {
    let since = |ns: u64| ns.saturating_sub(traces.begun_ns);
    let core = |(cpu, periods): &(u32, Vec<solocore_linux::regulate::history::Period>)| {
        let period = |p: &solocore_linux::regulate::history::Period| TracedPeriod {
            start_ns: since(p.start_ns),
            end_ns: since(p.end_ns),
            stopped_ns: p.stopped_ns.map(since),
            accesses: p.accesses,
        };
        TracedCore { cpu: *cpu, periods: periods.iter().map(period).collect() }
    };
    let times =
        |jobs: &[RunJob]| jobs.iter().map(|j| (j.release_ns, j.start_ns, j.end_ns)).collect();
    let task = |t: &RunTask| TracedTask {
        name: t.name.clone(),
        place: format!("core {}", t.core),
        jobs: times(&t.latest),
    };
    let tasks = run.tasks.iter().filter(|t| t.how == "started").map(task);
    let attended = run.transfers.iter().filter(|t| t.clients > 0).map(|t| TracedTask {
        name: t.name.clone(),
        place: t.resource.clone(),
        jobs: times(&t.latest),
    });
    RunTrace {
        cores: traces.periods.iter().map(core).collect(),
        tasks: tasks.chain(attended).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_events_are_said_beside_a_program_as_well() {
        let said = [Word::Note("a"), Word::Message("b"), Word::Begun("c")].map(line);
        assert_eq!(said, [Some("solocore: note: a".into()), Some("solocore: b".into()), None]);
    }
}
