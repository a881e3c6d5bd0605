//! `solocore profile`.

use crate::args::{Engine, ProfileArgs};
use crate::commands::profiles::duration;
use crate::fail::Failure;
use crate::progress::Steps;
use solocore_model::{Platform, Profile};
use solocore_profile::Job;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Profiles a program; its own exit code passes through.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    let here = Path::new(".");
    let platform = Platform::find(&args.platform, here)?;
    if args.engine == Engine::Perf {
        return Err(Failure::Machine(
            "the engine `perf` is not part of this version; use --engine qemu, which needs no \
                counters"
                .to_owned(),
        ));
    }
    let name =
        Path::new(&args.command[0]).file_name().map_or("program".into(), |n| n.to_string_lossy());
    let out = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.profile.json")));
    let steps = Steps::default();
    let job = Job {
        platform: &platform,
        command: &args.command,
        dir: here,
        quiet: false,
        trace_limit: args.trace_limit,
        timeout: duration(args.timeout),
        watch: &|seen| steps.say(seen),
    };
    let inputs = inputs(&args.input)?;
    let profile = if inputs.is_empty() {
        solocore_profile::profile(&job, &out)?.0
    } else {
        solocore_profile::profile_inputs(&job, &inputs, &out)?
    };
    summarise(&profile, &out);
    Ok(ExitCode::from(u8::try_from(profile.exit_code).unwrap_or(1)))
}

/// The words of each input.
fn inputs(texts: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let split = |text: &String| {
        shlex::split(text).ok_or_else(|| {
            Failure::Input(format!(
                "--input \"{}\": a quote has no end; close it",
                text.escape_debug()
            ))
        })
    };
    texts.iter().map(split).collect()
}

fn summarise(p: &Profile, out: &Path) {
    eprintln!("solocore: {} instructions, {} loads, {} stores", p.instructions, p.loads, p.stores);
    for level in &p.levels {
        let rate = 100.0 * level.misses as f64 / level.accesses.max(1) as f64;
        eprintln!(
            "  {:4} {:>14} accesses {:>12} misses ({rate:.2} %) {:>12} write-backs",
            level.name, level.accesses, level.misses, level.writebacks
        );
    }
    eprintln!(
        "  working set {} pages, {} bytes in touched lines",
        p.working_set.pages, p.working_set.bytes
    );
    let useful = p.lockdown.len().saturating_sub(1);
    let points: Vec<String> = [0, useful / 8, useful / 4, useful / 2, useful]
        .iter()
        .map(|&k| format!("{k}: {}", p.residual_misses(k)))
        .collect();
    eprintln!("  misses left with pages locked: {}", points.join(", "));
    let hot: Vec<String> =
        p.pages.iter().take(5).map(|h| format!("{}+{}", h.name.region, h.name.offset)).collect();
    eprintln!("  hottest pages: {}", hot.join(", "));
    for f in p.functions.iter().take(5).filter(|f| f.llc_misses > 0) {
        eprintln!("  {:>5.1} % of misses in {} ({})", 100.0 * f.share, f.name, f.file);
    }
    eprintln!(
        "  {} thread(s), {} child process(es){}",
        p.threads,
        p.children,
        if p.children > 0 { ", included, one after the other" } else { "" }
    );
    for worst in &p.origin.worst {
        if let Some(input) = p.origin.inputs.get(worst.input) {
            let (number, arguments) = (worst.input + 1, input.arguments.join(" "));
            eprintln!("  worst {}: input {number} ({arguments})", worst.quantity);
        }
    }
    if !p.origin.rests_on.not_covered.is_empty() {
        eprintln!("  not covered by its files: {}", p.origin.rests_on.not_covered.join(", "));
    }
    if p.trace.as_ref().is_some_and(|t| t.truncated) {
        let cut = p
            .trace
            .as_ref()
            .filter(|t| t.truncated)
            .map(|t| format!("the trace was cut after {} accesses; ", t.records));
        eprintln!("  note: {}", cut.unwrap_or_default());
    }
    eprintln!("  written to {}", out.display());
}
