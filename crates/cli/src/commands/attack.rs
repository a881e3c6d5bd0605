//! `solocore attack`: an adversary against the bounds of plans.

use crate::args::{AttackArgs, Format};
use crate::dask;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, stopped};
use crate::table;
use rayon::prelude::*;
use serde_json::json;
use solocore_experiments::attack::genes::BOARDS;
use solocore_experiments::attack::{POLICIES, Policy, Report, Search, board_named, boards};
use solocore_model::{ModelError, files};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Attacks, and prints its distance to the bounds; exit code 1 if a bound was exceeded.
pub fn run(args: &AttackArgs) -> Result<ExitCode, Failure> {
    let searches = searches(args)?;
    std::fs::create_dir_all(&args.output)
        .map_err(|source| ModelError::Write { path: args.output.clone(), source })?;
    let missing: Vec<&Search> =
        searches.iter().filter(|s| kept(&args.output, s).is_none()).collect();
    let done = match &args.dask {
        Some(address) => remote(address, &missing, &args.output),
        None => local(&missing, &args.output),
    };
    let some = || searches.iter().any(|search| kept(&args.output, search).is_some());
    done.map_err(|failure| match failure {
        Failure::Interrupted if some() => Failure::Stopped(format!(
            "the finished part is kept in {}; run the same command again to go on",
            args.output.display()
        )),
        other => other,
    })?;
    let reports = searches.iter().map(|search| {
        let path = place(&args.output, search);
        kept(&args.output, search).ok_or_else(|| {
            Failure::Machine(format!(
                "{}: is not the report of this search; remove it, and run the command again",
                path.display()
            ))
        })
    });
    let reports: Vec<Report> = reports.collect::<Result<_, _>>()?;
    match args.format {
        Format::Json => print(&files::to_json(&json!({"attacks": reports})))?,
        Format::Text => print(&text(&reports))?,
    }
    Ok(ExitCode::from(u8::from(reports.iter().any(|r| r.above_bound > 0))))
}

fn searches(args: &AttackArgs) -> Result<Vec<Search>, Failure> {
    let named =
        args.policy.iter().map(|name| Policy::named(name)).collect::<Result<Vec<_>, _>>()?;
    let policies = if named.is_empty() { POLICIES.to_vec() } else { named };
    let wanted =
        args.board.iter().map(|name| board_named(name)).collect::<Result<Vec<usize>, _>>()?;
    let (attacks, seed) = (args.attacks, args.seed);
    let of = |policy: Policy| {
        let boards = boards(policy).into_iter().filter(|b| wanted.is_empty() || wanted.contains(b));
        boards.map(move |board| Search { policy, board, attacks, seed }).collect::<Vec<_>>()
    };
    let searches: Vec<Search> = policies.into_iter().flat_map(of).collect();
    if searches.is_empty() {
        return Err(Failure::Input(
            "none of these boards can be planned for these policies; `levels` needs imx6q, p4080 or \
                xeon-gold-6338"
                .to_owned(),
        ));
    }
    Ok(searches)
}

fn place(dir: &Path, search: &Search) -> PathBuf {
    dir.join(format!("{}-{}.json", search.policy.name(), BOARDS[search.board]))
}

/// The report of an earlier run.
fn kept(dir: &Path, search: &Search) -> Option<Report> {
    let report: Report = files::read_json(&place(dir, search)).ok()?;
    report.is_of(search).then_some(report)
}

fn local(missing: &[&Search], dir: &Path) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    let progress = Progress::new(&format!("attack: {} searches", missing.len()));
    let done = AtomicUsize::new(0);
    missing.par_iter().try_for_each(|search| {
        let report = search.report(&|_| !stopped())?;
        files::write_json(&place(dir, search), &report)?;
        progress.share((done.fetch_add(1, Relaxed) + 1) as f64 / missing.len() as f64);
        Ok(())
    })
}

fn remote(address: &str, missing: &[&Search], dir: &Path) -> Result<(), Failure> {
    let point = |search: &&Search| {
        json!({
            "policy": search.policy.name(),
            "board": BOARDS[search.board],
            "attacks": search.attacks,
            "of_seed": search.seed,
        })
    };
    let points: Vec<_> = missing.iter().map(point).collect();
    dask::campaign(address, "attack", &points, &mut |at, answer| {
        let text = dask::text(answer, "json")?;
        Ok(files::write_atomically(&place(dir, missing[at]), text.as_bytes())?)
    })
}

fn text(reports: &[Report]) -> String {
    let head = ["policy", "board", "attacks", "without a bound", "above", "bound/seen, least"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for r in reports {
        let least = r.seen_over_bound_most.filter(|most| *most > 0.0);
        rows.push(vec![
            r.policy.clone(),
            r.board.clone(),
            r.attacks.to_string(),
            r.without_bound.to_string(),
            r.above_bound.to_string(),
            least.map_or_else(|| "-".to_owned(), |most| format!("{:.2}", 1.0 / most)),
        ]);
    }
    let mut out = table::render(&rows);
    for r in reports {
        if let Some(worst) = &r.worst {
            out += &format!("\n{} on {}: {worst}\n", r.policy, r.board);
        }
    }
    out
}
