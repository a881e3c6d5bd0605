//! `solocore profile --engine perf`: jobs on this machine, by its counters.
//!
//! Rule: the emulator's profile has the pages and functions. Counters of this machine give the
//! times of jobs and their accesses to memory, and only raise the emulator's numbers
//! ([`Profile::raise`]). One job of each input runs before the measured ones, so that its files are
//! in memory. Does not cover: samples of hot pages (PEBS, IBS, SPE): pages are the emulator's.

use super::parts::{emulated, estimated, inputs, output, trace_of, write};
use super::text;
use crate::args::ProfileArgs;
use crate::commands::platform;
use crate::commands::platform_measure::{cpus, notes, same_machine};
use crate::commands::profiles::{date, duration};
use crate::fail::Failure;
use crate::progress::{Progress, stopped};
use solocore_linux::Event;
use solocore_linux::count::{Counters, Job, Refused, Start, misses_event};
use solocore_linux::host::machine;
use solocore_model::profile::{FORMAT, Measured, MeasuredInput, Quantity, quantity};
use solocore_model::{Platform, Profile, files};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Memory that is read before a job to empty the shared cache, as a multiple of its size.
const SWEEP: u64 = 2;

/// Measures, and writes the profile.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    let here = platform::this_machine()?;
    let platform = match &args.platform {
        None => here.platform.clone(),
        Some(name) => {
            let named = Platform::find(name, Path::new("."))?;
            same_machine(Path::new(name), &named, &here)?;
            named
        }
    };
    let inputs = inputs(&args.input)?;
    let (cpu, _) = cpus(args.counting.cpu, &platform)?;
    let out = output(args);
    // All that can be refused is refused before the emulator runs.
    let (mut counters, mut said) = counters(args, cpu)?;
    let base = args.counting.base.as_ref().map(|path| based(args, path, &platform, &inputs));
    let (mut profile, trace, _kept) = match base {
        Some(base) => {
            let (profile, trace) = base?;
            (profile, trace, None)
        }
        None => {
            let dir = solocore_profile::scratch(&out)?;
            let place = dir.path().join("profile.json");
            let profile = emulated(args, &platform, &inputs, &place)?;
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
        measured.push(measure(args, &platform, &mut counters, input, &share)?);
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
    profile.raise(
        &platform,
        Measured {
            machine: here.platform.name.clone(),
            cpu,
            date: date(SystemTime::now()),
            jobs_are: "process".to_owned(),
            cold: !args.counting.warm,
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
    platform: &Platform,
    inputs: &[Vec<String>],
) -> Result<(Profile, Option<PathBuf>), Failure> {
    let profile: Profile = files::read_json(path)?;
    let refuse = |what: String| Err(Failure::Input(format!("{}: {what}", path.display())));
    if profile.format != FORMAT {
        return refuse(format!("it is no profile ({}); give a file of `solocore profile`", FORMAT));
    }
    if profile.origin.measured.is_some() {
        return refuse(
            "it was measured already; give the emulator's profile, so that each measurement starts \
                from it"
                .to_owned(),
        );
    }
    if profile.geometry != platform.geometry() {
        return refuse(format!(
            "it is for the caches of {}, not those of {}; make one with --platform for this machine",
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

/// The jobs with one input.
fn measure(
    args: &ProfileArgs,
    platform: &Platform,
    counters: &mut Counters,
    input: &[String],
    share: &dyn Fn(f64),
) -> Result<MeasuredInput, Failure> {
    let command = [args.command.as_slice(), input].concat();
    let sweep = if args.counting.warm { 0 } else { SWEEP * platform.llc.size.0 };
    let start = Start {
        command: &command,
        dir: Path::new("."),
        timeout: duration(args.timeout),
        sweep: usize::try_from(sweep).unwrap_or(usize::MAX),
        stopped: &stopped,
    };
    let mut once = || {
        counters.job(&start).map_err(|refused| match refused {
            Refused::Linux(error) => error.into(),
            Refused::Stopped => Failure::Interrupted,
            Refused::Failed(code, said) => failed(args, input, code, &said),
            Refused::TimedOut => Failure::Input(format!(
                "`{}`: a job takes longer than --timeout allows; nothing was written",
                command.join(" ")
            )),
        })
    };
    once()?;
    let mut jobs: Vec<Job> = Vec::new();
    for n in 0..args.counting.jobs {
        jobs.push(once()?);
        share(f64::from(n + 1) / f64::from(args.counting.jobs));
    }
    let time = Quantity::of(quantity::TIME, "clock", jobs.iter().map(|j| j.time_ns).collect());
    let counted = counters.counters.iter().enumerate().map(|(at, counter)| Quantity {
        stands_in: counter.stands_in.clone(),
        ..Quantity::of(
            counter.quantity,
            &counter.event,
            jobs.iter().map(|j| j.counts[at]).collect(),
        )
    });
    Ok(MeasuredInput {
        arguments: input.to_vec(),
        quantities: std::iter::once(time).chain(counted).map(estimated).collect(),
    })
}

fn failed(args: &ProfileArgs, input: &[String], code: i32, said: &str) -> Failure {
    Failure::Input(format!(
        "`{}` ended with exit code {code}; each job must succeed to be measured ({said})",
        [args.command.as_slice(), input].concat().join(" ")
    ))
}
