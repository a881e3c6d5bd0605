//! `solocore dram`.

use crate::args::{DramArgs, DramPattern, Format};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, computing, stopped};
use crate::table;
use serde::Serialize;
use solocore_dram::traffic::{self, Attack, Observer, Pattern, Report, Traffic};
use solocore_dram::{Checker, Command, Spec};
use solocore_model::{ModelError, files, output};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tempfile::TempPath;

/// The result, as `--format json` prints it.
#[derive(Debug, Serialize)]
struct Outcome {
    memory: String,
    channels: u32,
    ranks: u32,
    row_hit_cap: Option<u32>,
    seed: u64,
    achieved_bytes_per_s: u64,
    mean_latency_ns: f64,
    p50_latency_ns: f64,
    p99_latency_ns: f64,
    max_latency_ns: f64,
    requests: u64,
    reads: u64,
    writes: u64,
    forwarded: u64,
    merged: u64,
    accesses: u64,
    row_hits: u64,
    refreshes: u64,
    simulated_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violations: Option<u64>,
    wall_ns: u64,
}

/// Runs the traffic and prints; exit code 1 if a command broke a rule.
pub fn run(args: &DramArgs) -> Result<ExitCode, Failure> {
    check_options(args)?;
    let spec = spec_of(args)?;
    let traffic = traffic_of(args, &spec)?;
    let cap = cap_of(&args.row_hit_cap)?;
    let trace = args.trace_commands.as_deref().map(Trace::new).transpose()?;
    let progress = Progress::new("sending requests");
    let mut watch = Watch { progress, checker: args.check.then(|| Checker::new(&spec)), trace };
    let start = Instant::now();
    // A temporary file is to be removed. Without one, the reader of a pipe may keep a write
    // waiting.
    let removes = watch.trace.as_ref().is_some_and(|trace| trace.temporary.is_some());
    let mut work = || traffic::run(&spec, cap, &traffic, &mut watch);
    let report = if removes { work() } else { computing(work) }?;
    let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let Watch { progress, mut checker, trace } = watch;
    drop(progress);
    let Some(report) = report else {
        return Err(match trace.and_then(|t| t.error) {
            Some(error) => error.into(),
            None => Failure::Interrupted,
        });
    };
    if let Some(trace) = trace {
        trace.finish()?;
    }
    if let Some(checker) = &mut checker {
        checker.finish(report.cycles);
        for violation in checker.first() {
            eprintln!("solocore: {violation}");
        }
    }
    let outcome = outcome(args, &spec, cap, &report, checker.as_ref(), wall_ns);
    match args.format {
        Format::Json => print(&files::to_json(&outcome))?,
        Format::Text => print(&text(&spec, &outcome))?,
    }
    Ok(ExitCode::from(u8::from(outcome.violations.is_some_and(|v| v > 0))))
}

fn spec_of(args: &DramArgs) -> Result<Spec, Failure> {
    let mut spec = Spec::find(&args.memory)?;
    let (channels, ranks) = (args.channels, args.ranks);
    if channels.is_none() && ranks.is_none() {
        return Ok(spec);
    }
    spec.organisation.channels = channels.unwrap_or(spec.organisation.channels);
    spec.organisation.ranks = ranks.unwrap_or(spec.organisation.ranks);
    spec.check().map_err(|(_, message)| {
        Failure::Input(format!("{} with --channels and --ranks: {message}", args.memory))
    })?;
    Ok(spec)
}

/// Refuses options that the pattern does not take.
fn check_options(args: &DramArgs) -> Result<(), Failure> {
    if !matches!(args.pattern, DramPattern::Random | DramPattern::Stream4) {
        args.given.refuse(
            &[&["load", "writes"]],
            "is for arrivals at a load; use --pattern random or stream4",
        )?;
    }
    if args.pattern != DramPattern::Attack {
        args.given.refuse(
            &[&["attackers", "outstanding", "same_bank", "random_rows"]],
            "is for attackers; use --pattern attack",
        )?;
    }
    Ok(())
}

fn traffic_of(args: &DramArgs, spec: &Spec) -> Result<Traffic, Failure> {
    let pattern = match args.pattern {
        DramPattern::Chase => Pattern::Chase,
        DramPattern::ChaseStream => Pattern::ChaseStream,
        DramPattern::Random => Pattern::Random,
        DramPattern::Stream4 => Pattern::Stream4,
        DramPattern::Attack => Pattern::Attack(attack_of(args, spec)?),
    };
    if !(0.0..=1.0).contains(&args.writes) {
        return Err(Failure::Input(format!(
            "--writes {} is not a share from 0 to 1; give one",
            args.writes
        )));
    }
    if args.load.0 == 0 {
        return Err(Failure::Input(
            "--load must be more than zero; give for example \"5 GB/s\"".to_owned(),
        ));
    }
    if !(1..=1_000_000_000_000).contains(&args.requests) {
        return Err(Failure::Input(format!("--requests {}; give 1 to 10^12", args.requests)));
    }
    Ok(Traffic {
        pattern,
        load: args.load,
        writes: share(args.writes),
        requests: args.requests,
        seed: args.seed,
    })
}

/// A share as a 64-bit fraction.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to 1, and the cast saturates"
)]
fn share(part: f64) -> u64 {
    (part * 18_446_744_073_709_551_616.0) as u64
}

fn attack_of(args: &DramArgs, spec: &Spec) -> Result<Attack, Failure> {
    let total = u32::from(args.attackers) * u32::from(args.outstanding);
    if args.attackers > 1024 || total > 65_536 || args.outstanding == 0 {
        return Err(Failure::Input(format!(
            "{} attackers with {} requests outstanding; give at most 1024, at least 1 request each \
                and 65536 in all",
            args.attackers, args.outstanding
        )));
    }
    let others = spec.organisation.channel_banks() - 1;
    if !args.same_bank && u32::from(args.attackers) > others {
        return Err(Failure::Input(format!(
            "{} attackers in banks of their own, but the victim leaves {others}; give fewer, or \
                --same-bank",
            args.attackers
        )));
    }
    Ok(Attack {
        attackers: args.attackers,
        outstanding: args.outstanding,
        same_bank: args.same_bank,
        random_rows: args.random_rows,
    })
}

fn cap_of(text: &str) -> Result<Option<u32>, Failure> {
    match (text, text.parse()) {
        ("off", _) => Ok(None),
        (_, Ok(cap)) => Ok(Some(cap)),
        _ => Err(Failure::Input(format!(
            "--row-hit-cap {text} is not a cap; give a number of row hits, or off"
        ))),
    }
}

/// Observers of the traffic.
struct Watch {
    progress: Progress,
    checker: Option<Checker>,
    trace: Option<Trace>,
}

impl Observer for Watch {
    fn progress(&mut self, share: f64) -> bool {
        self.progress.share(share);
        !stopped() && self.trace.as_ref().is_none_or(|t| t.error.is_none())
    }

    fn wants_commands(&self) -> bool {
        self.checker.is_some() || self.trace.is_some()
    }

    fn commands(&mut self, commands: &[Command]) {
        if let Some(checker) = &mut self.checker {
            commands.iter().for_each(|c| checker.check(*c));
        }
        if let Some(trace) = &mut self.trace {
            trace.write(commands);
        }
    }
}

/// A file of commands; it is written as a whole, or not at all.
struct Trace {
    path: PathBuf,
    file: BufWriter<File>,
    /// File that replaces `path` in the end; `None` for a device or a pipe.
    temporary: Option<TempPath>,
    error: Option<ModelError>,
}

impl Trace {
    fn new(path: &Path) -> Result<Self, ModelError> {
        if path == Path::new("-") {
            let message = "--trace-commands writes a file, not to standard output; name a file";
            return Err(ModelError::Invalid {
                path: path.to_owned(),
                line: None,
                message: message.to_owned(),
            });
        }
        let (path, file, temporary) = if files::is_stream(path) {
            let fail = |source: io::Error| files::unwritten(path, source);
            (path.to_owned(), output::open_stream(path).map_err(fail)?, None)
        } else {
            let path = files::place_of(path)?;
            let (file, temporary) = files::temporary(&path)?.into_parts();
            (path, file, Some(temporary))
        };
        let mut trace = Self { path, file: BufWriter::new(file), temporary, error: None };
        trace.attempt(|file| writeln!(file, "cycle,command,channel,rank,bank,row"));
        Ok(trace)
    }

    /// The first error stands, and ends the run.
    fn attempt(&mut self, what: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.error.is_none() {
            let path = &self.path;
            self.error = what(&mut self.file)
                .err()
                .map(|source| ModelError::Write { path: path.clone(), source });
        }
    }

    fn write(&mut self, commands: &[Command]) {
        self.attempt(|file| commands.iter().try_for_each(|c| writeln!(file, "{c}")));
    }

    fn finish(mut self) -> Result<(), ModelError> {
        self.attempt(Write::flush);
        if let Some(error) = self.error {
            return Err(error);
        }
        let path = self.path;
        match self.temporary {
            Some(temporary) => {
                temporary.persist(&path).map_err(|e| ModelError::Write { path, source: e.error })
            }
            None => Ok(()),
        }
    }
}

fn outcome(
    args: &DramArgs,
    spec: &Spec,
    cap: Option<u32>,
    report: &Report,
    checker: Option<&Checker>,
    wall_ns: u64,
) -> Outcome {
    let ns = |cycles: f64| round(cycles * spec.timing.clock.ps() as f64 / 1000.0);
    let whole = |cycles: u64| ns(cycles as f64);
    let bytes = u128::from(report.answered) * u128::from(spec.organisation.line_bytes());
    let ps = u128::from(report.cycles.max(1)) * u128::from(spec.timing.clock.ps());
    let latency = &report.latency;
    let total = &report.total;
    Outcome {
        memory: args.memory.clone(),
        channels: spec.organisation.channels,
        ranks: spec.organisation.ranks,
        row_hit_cap: cap,
        seed: args.seed,
        achieved_bytes_per_s: u64::try_from(bytes * 1_000_000_000_000 / ps).unwrap_or(u64::MAX),
        mean_latency_ns: ns(latency.mean()),
        p50_latency_ns: whole(latency.percentile(50)),
        p99_latency_ns: whole(latency.percentile(99)),
        max_latency_ns: whole(latency.longest()),
        requests: report.answered,
        reads: total.reads,
        writes: total.writes,
        forwarded: total.forwarded,
        merged: total.merged,
        accesses: total.accesses,
        row_hits: total.row_hits,
        refreshes: report.refreshes,
        simulated_ns: whole(report.cycles),
        commands: checker.map(Checker::commands),
        violations: checker.map(Checker::violations),
        wall_ns,
    }
}

/// Rounds to picoseconds; a latency has no finer meaning.
fn round(ns: f64) -> f64 {
    (ns * 1000.0).round() / 1000.0
}

fn text(spec: &Spec, o: &Outcome) -> String {
    let row = |what: &str, value: String| vec![what.to_owned(), value];
    let hits = 100.0 * o.row_hits as f64 / o.accesses.max(1) as f64;
    let mut rows = vec![
        row("achieved", format!("{:.3} GB/s", o.achieved_bytes_per_s as f64 / 1e9)),
        row("mean latency", format!("{:.2} ns", o.mean_latency_ns)),
        row("median", format!("{:.2} ns", o.p50_latency_ns)),
        row("99 % below", format!("{:.2} ns", o.p99_latency_ns)),
        row("longest", format!("{:.2} ns", o.max_latency_ns)),
        row("reads", o.reads.to_string()),
        row("writes", o.writes.to_string()),
        row("row hits", format!("{hits:.1} %")),
    ];
    if let (Some(commands), Some(violations)) = (o.commands, o.violations) {
        rows.push(row("commands", commands.to_string()));
        rows.push(row("violations", violations.to_string()));
    }
    let rate = o.requests as f64 * 1e3 / o.wall_ns.max(1) as f64;
    format!(
        "{}, {} channel(s) of {} rank(s)\n\n{}\n{:.3} ms simulated in {:.2} s, {rate:.1} million \
            requests a second\n",
        spec.title,
        o.channels,
        o.ranks,
        table::render(&rows),
        o.simulated_ns / 1e6,
        o.wall_ns as f64 / 1e9
    )
}
