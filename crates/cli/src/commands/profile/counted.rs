//! `solocore profile --engine perf`: jobs on this machine, by its counters.
//!
//! Rule: the emulator's profile has the pages and functions. Counters of this machine give the
//! times of jobs and their accesses to memory, and only raise the emulator's numbers
//! ([`Profile::raise`]). One job of each input runs before the measured ones, so that its files are
//! in memory. Samples of addresses show hot pages of this machine (`addresses`), and raise nothing.

use super::addresses;
use super::parts::{emulated, estimated, inputs, output, trace_of, write};
use super::placed::{Place, place};
use super::text;
use crate::args::ProfileArgs;
use crate::commands::platform_measure::notes;
use crate::commands::profiles::{date, duration};
use crate::fail::Failure;
use crate::progress::{Progress, stopped};
use solocore_linux::clients::functions::Function;
use solocore_linux::count::{Bounds, Counters, Job, Refused, Start, misses_event};
use solocore_linux::host::machine;
use solocore_linux::{Event, LinuxError};
use solocore_model::profile::{FORMAT, Measured, MeasuredInput, Quantity, quantity};
use solocore_model::system::Job as Kind;
use solocore_model::{Platform, Profile, files};
use solocore_space::program;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Memory that is read before a job to empty the shared cache, as a multiple of its size.
const SWEEP: u64 = 2;

/// Measures, and writes the profile.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    let Place { platform, here, cpu, core, core_type, notes: of_place } = place(args)?;
    let inputs = inputs(&args.input)?;
    let out = output(args)?;
    // All that can be refused is refused before the emulator runs.
    let (mut counters, mut said) = counters(args, cpu)?;
    let bounds = bounds(args)?;
    let sampling = addresses::event(args, cpu, &mut said)?;
    let base = args.counting.base.as_ref();
    let base = base.map(|path| based(args, path, (&platform, core), &inputs));
    let (mut profile, trace, _kept) = match base {
        Some(base) => {
            let (profile, trace) = base?;
            (profile, trace, None)
        }
        None => {
            let dir = solocore_profile::scratch(&out)?;
            let place = dir.path().join("profile.json");
            let profile = emulated(args, core, &platform, &inputs, &place)?;
            if profile.exit_code != 0 {
                return Err(failed(args, &[], profile.exit_code, "see above"));
            }
            let trace = trace_of(&profile, &place);
            (profile, trace, Some(dir))
        }
    };
    let none = vec![Vec::new()];
    let all = if inputs.is_empty() { &none } else { &inputs };
    let progress = Progress::new(&format!("measuring {} jobs", args.counting.jobs));
    let mut measured = Vec::new();
    for (at, input) in all.iter().enumerate() {
        let share = |done: f64| progress.share((at as f64 + done) / all.len() as f64);
        let command = [args.command.as_slice(), input].concat();
        let start = start(args, &platform, &command);
        let refuse = |refused| failure(args, input, refused);
        let (quantities, notes) = match &bounds {
            None => (starts(args, &mut counters, &start, &share).map_err(refuse)?, Vec::new()),
            Some(bounds) => inside(args, &mut counters, &start, bounds, &share).map_err(refuse)?,
        };
        said.extend(notes);
        let addresses = match &sampling {
            None => None,
            Some(event) => Some(addresses::sample(event, &start, cpu, &profile).map_err(refuse)?),
        };
        let quantities = quantities.into_iter().map(estimated).collect();
        measured.push(MeasuredInput { arguments: input.clone(), quantities, addresses });
    }
    drop(progress);
    if counters.passes() > 1 {
        said.push(format!(
            "the CPU has too few counters for all: each job ran {} times, and a part was counted \
                each time",
            counters.passes()
        ));
    }
    said.extend(counters.missing.iter().map(|why| format!("not counted: {why}")));
    said.extend(notes(&here));
    said.extend(of_place);
    profile.raise(
        &platform,
        Measured {
            machine: here.platform.name.clone(),
            cpu,
            core_type,
            date: date(SystemTime::now()),
            jobs_are: args.counting.job.to_string(),
            cold: !args.counting.warm && bounds.is_none(),
            notes: said,
            inputs: measured,
        },
    );
    let profile = write(profile, trace.as_deref(), &out)?;
    text::summarise(&profile, &out);
    Ok(ExitCode::SUCCESS)
}

/// The counters, and notes on them for the user.
fn counters(args: &ProfileArgs, cpu: u32) -> Result<(Counters, Vec<String>), Failure> {
    let (misses, why) = misses_event(args.counting.event.as_deref())?;
    let said = why.map(|why| format!("accesses to memory are not counted: {why}"));
    let cpuinfo = machine::cpuinfo();
    let named = args.counting.write_event.as_deref();
    let writes = if misses.is_software() && named.is_none() {
        None
    } else {
        Event::find_writes(named, &cpuinfo)?
    };
    let counters = Counters::new(cpu, &misses, writes.as_ref(), &cpuinfo)?;
    Ok((counters, said.into_iter().collect()))
}

/// The emulator's profile from an earlier run.
fn based(
    args: &ProfileArgs,
    path: &Path,
    (platform, core): (&Platform, Option<u32>),
    inputs: &[Vec<String>],
) -> Result<(Profile, Option<PathBuf>), Failure> {
    let profile: Profile = files::read_json(path)?;
    let refuse = |what: String| Err(Failure::Input(format!("{}: {what}", path.display())));
    if profile.format != FORMAT {
        return refuse(format!(
            "it is not a profile ({}); give a file of `solocore profile`",
            FORMAT
        ));
    }
    if profile.origin.measured.is_some() {
        return refuse(
            "it already has measurements; give the emulator's profile, so that each measurement \
            starts from it"
                .to_owned(),
        );
    }
    if profile.geometry != platform.geometry_on(core) {
        let own = core.filter(|_| !platform.core_types.is_empty());
        let own = own.map_or_else(String::new, |core| format!(" and --core {core}"));
        return refuse(format!(
            "it is for the caches of {}, not those of {}; make one with --platform for this \
                machine{own}",
            profile.platform, platform.name
        ));
    }
    let of_inputs: Vec<_> = profile.origin.inputs.iter().map(|i| i.arguments.clone()).collect();
    // Of several inputs the profile has the command of the first run.
    let same = if inputs.is_empty() {
        profile.command == args.command
    } else {
        of_inputs == inputs && profile.command.starts_with(&args.command)
    };
    if !same {
        return refuse(format!(
            "it is a profile of `{}`, and not of this command with these inputs; give another --base, \
                or none",
            profile.command.join(" ")
        ));
    }
    let trace = trace_of(&profile, path);
    Ok((profile, trace))
}

/// The bounds of jobs within a start; `None`: a job is a start.
fn bounds(args: &ProfileArgs) -> Result<Option<Bounds>, Failure> {
    Ok(match &args.counting.job {
        Kind::Process => None,
        Kind::Wakeup => Some(Bounds::Wakeup),
        Kind::Function(name) => {
            let found = Function::find(&program::find(args.command[0].as_ref())?, name)?;
            Some(Bounds::Function { file: found.file, offset: found.offset })
        }
    })
}

fn start<'a>(args: &ProfileArgs, platform: &Platform, command: &'a [String]) -> Start<'a> {
    let sweep = if args.counting.warm { 0 } else { SWEEP * platform.llc.size.0 };
    Start {
        command,
        dir: Path::new("."),
        timeout: duration(args.timeout),
        sweep: usize::try_from(sweep).unwrap_or(usize::MAX),
        stopped: &stopped,
    }
}

/// Each start is a job.
fn starts(
    args: &ProfileArgs,
    counters: &mut Counters,
    start: &Start<'_>,
    share: &dyn Fn(f64),
) -> Result<Vec<Quantity>, Refused> {
    counters.job(start)?;
    let mut jobs: Vec<Job> = Vec::new();
    for n in 0..args.counting.jobs {
        jobs.push(counters.job(start)?);
        share(f64::from(n + 1) / f64::from(args.counting.jobs));
    }
    let times = jobs.iter().map(|j| j.time_ns).collect();
    let counts = |at: usize| jobs.iter().map(|j| j.counts[at]).collect();
    Ok(quantities(counters, times, counts))
}

/// The jobs within starts, and what users must know of them.
fn inside(
    args: &ProfileArgs,
    counters: &mut Counters,
    start: &Start<'_>,
    bounds: &Bounds,
    share: &dyn Fn(f64),
) -> Result<(Vec<Quantity>, Vec<String>), Refused> {
    counters.job(start)?;
    let wanted = usize::try_from(args.counting.jobs).unwrap_or(usize::MAX);
    let mut all = counters.inside(start, bounds)?;
    let (mut starts, mut open) = (1, all.open);
    loop {
        let jobs = all.counts.iter().map(Vec::len).min().unwrap_or(0);
        share(jobs as f64 / wanted as f64);
        if jobs >= wanted {
            break;
        }
        let more = counters.inside(start, bounds)?;
        if more.counts.iter().any(Vec::is_empty) {
            return Err(Refused::Linux(LinuxError::Input(format!(
                "--job {}: a start of the program has no such job that began and ended; choose \
                    another function",
                args.counting.job
            ))));
        }
        starts += 1;
        open += more.open;
        all.nested += more.nested;
        all.times_ns.extend(more.times_ns);
        for (all, more) in all.counts.iter_mut().zip(more.counts) {
            all.extend(more);
        }
    }
    let mut notes = vec![format!("jobs are those of {starts} start(s) of the program")];
    if all.nested > 0 {
        notes.push(format!("{} nested calls are parts of these jobs", all.nested));
    }
    if open > 0 {
        notes.push(format!(
            "{open} call(s) had not returned when the program ended (exit or longjmp), and are not jobs"
        ));
    }
    let counts = |at: usize| all.counts[at].clone();
    Ok((quantities(counters, all.times_ns.clone(), counts), notes))
}

/// The quantities of jobs by their times and by the counts of each counter. Times that nobody took
/// are left out.
fn quantities(
    counters: &Counters,
    times: Vec<u64>,
    counts: impl Fn(usize) -> Vec<u64>,
) -> Vec<Quantity> {
    let timed = !times.is_empty();
    let time = timed.then(|| Quantity::of(quantity::TIME, "clock", times));
    let counted = counters.counters.iter().enumerate().map(|(at, counter)| Quantity {
        stands_in: counter.stands_in.clone(),
        ..Quantity::of(counter.quantity, &counter.event, counts(at))
    });
    time.into_iter().chain(counted).collect()
}

fn failure(args: &ProfileArgs, input: &[String], refused: Refused) -> Failure {
    match refused {
        Refused::Linux(error) => error.into(),
        Refused::Stopped => Failure::Interrupted,
        Refused::Failed(code, said) => failed(args, input, code, &said),
        Refused::TimedOut => Failure::Input(format!(
            "`{}`: a job takes longer than --timeout allows; nothing was written",
            [args.command.as_slice(), input].concat().join(" ")
        )),
    }
}

fn failed(args: &ProfileArgs, input: &[String], code: i32, said: &str) -> Failure {
    Failure::Input(format!(
        "`{}` ended with exit code {code}; each job must succeed to be measured ({said})",
        [args.command.as_slice(), input].concat().join(" ")
    ))
}
