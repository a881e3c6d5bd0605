//! `solocore assess`: one command from programs and a board to the answer.

mod check;

use crate::args::AssessArgs;
use crate::commands::report::{self, Material, here};
use crate::commands::{plan, sim};
use crate::fail::Failure;
use crate::print::print;
use crate::progress::computing;
use crate::table;
use rayon::prelude::*;
use solocore_model::plan::Verdict;
use solocore_model::results::{Mode, TaskResult};
use solocore_model::{ModelError, Plan, SimResult, System, Time, files};
use solocore_profile::carried;
use std::path::Path;
use std::process::ExitCode;

/// The simulation with even shares.
const EVEN: &str = "even.json";
/// Stretch of the schedule that the report draws.
const TIMELINE: Time = Time::from_ns(200_000_000);

/// Profiles, plans, simulates, reports; exit code 1 if not schedulable or late under the plan.
/// Where shares are optimal, even ones are simulated for comparison. All files are written at the
/// end, or none.
pub fn run(args: &AssessArgs) -> Result<ExitCode, Failure> {
    if args.check {
        return check::run(args);
    }
    files::check_directory(&args.output)?;
    let system = computing(|| System::load(&args.system))?;
    let (plan, even) = plan::beside_even(&system, &args.profiling)?;
    let place = Place::new(&args.output)?;
    let results = simulated(args, &plan, even.as_ref());
    let mut provenance = here();
    // As it was read: it may have changed since, and a pipe can be read only once.
    let own = system.inputs.first().map(|own| (own.file.clone(), own.sha256.clone()));
    provenance.inputs.extend(own);
    let mut out = vec![("plan.json", carried::text_of(&plan)?.into_bytes())];
    let mut traces = Vec::new();
    let mut material = Material { plan: Some(plan), ..Material::default() };
    for result in results {
        let result = result?;
        let (slot, name) = match result.mode {
            Mode::Solo => (&mut material.solo, "solo.json"),
            Mode::Unmanaged => (&mut material.unmanaged, "unmanaged.json"),
            Mode::Managed => (&mut material.managed, "managed.json"),
            Mode::Even => (&mut material.even, EVEN),
        };
        out.push((name, files::to_json(&result).into_bytes()));
        if let Some(name) = report::trace_of(result.mode) {
            traces.push((name, solocore_report::perfetto(&result)));
            material.traces.push((result.mode, name.to_owned()));
        }
        *slot = Some(result);
    }
    for (name, bytes) in &out {
        provenance.add(name, bytes);
    }
    material.provenance = provenance;
    out.extend(traces);
    out.push(("report.html", material.page(&args.system.display().to_string())?.into_bytes()));
    place.fill(&out)?;
    if material.even.is_none() {
        remove_even(&args.output.join(EVEN));
    }
    let page = args.output.join("report.html");
    let (Some(plan), Some(managed)) = (&material.plan, &material.managed) else {
        return Err(Failure::Interrupted);
    };
    let text = summary(plan, &material, managed);
    print(&format!("{text}\nreport: {}\n", page.display()))?;
    Ok(ExitCode::from(u8::from(!plan.schedulable || sim::missed(plan, managed))))
}

/// All simulations: of the plan, and of the one with even shares.
fn simulated(
    args: &AssessArgs,
    plan: &Plan,
    even: Option<&Plan>,
) -> Vec<Result<SimResult, Failure>> {
    let mut runs = vec![(Mode::Solo, plan), (Mode::Unmanaged, plan), (Mode::Managed, plan)];
    runs.extend(even.map(|plan| (Mode::Even, plan)));
    let run = |(mode, plan): (Mode, &Plan)| -> Result<SimResult, Failure> {
        // No schedule is drawn of even shares.
        let timeline = Some(TIMELINE).filter(|_| mode != Mode::Even);
        let options = sim::options(mode, args.duration, args.seed, timeline)?;
        sim::simulate(plan, &options)
    };
    runs.into_par_iter().map(run).collect()
}

/// Removes the result of an earlier plan with even shares, which `report` would compare with this
/// plan. Another file of that name stays.
fn remove_even(path: &Path) {
    let of_even = || files::read_json::<SimResult>(path).is_ok_and(|r| r.mode == Mode::Even);
    if path.is_file() && of_even() {
        let _ = std::fs::remove_file(path);
    }
}

/// The directory of the results. A directory that this command made is removed when this is
/// dropped, unless it is filled.
struct Place<'a> {
    dir: &'a Path,
    made: bool,
}

impl<'a> Place<'a> {
    /// Makes the directory, before the simulations.
    fn new(dir: &'a Path) -> Result<Self, Failure> {
        let made = !dir.exists();
        std::fs::create_dir_all(dir)
            .map_err(|source| ModelError::Write { path: dir.to_owned(), source })?;
        Ok(Self { dir, made })
    }

    fn fill(mut self, named: &[(&str, Vec<u8>)]) -> Result<(), Failure> {
        let paths: Vec<_> = named.iter().map(|(name, _)| self.dir.join(name)).collect();
        let all: Vec<(&Path, &[u8])> =
            paths.iter().zip(named).map(|(path, (_, bytes))| (&**path, &**bytes)).collect();
        files::write_together(&all, true)?;
        self.made = false;
        Ok(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.made {
            // Files that another program has put there stay.
            let _ = std::fs::remove_dir(self.dir);
        }
    }
}

fn summary(plan: &Plan, material: &Material, managed: &SimResult) -> String {
    let even = material.even.as_ref();
    let mut head = vec!["task", "core", "solo ms", "unmanaged ms"];
    head.extend(even.map(|_| "even ms"));
    head.extend(["managed ms", "bound ms", "deadline ms", "verdict"]);
    let mut rows: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    for (i, t) in plan.tasks.iter().enumerate() {
        let longest = |r: Option<&SimResult>| {
            let task: Option<&TaskResult> = r.and_then(|r| r.tasks.get(i)).filter(|t| t.jobs > 0);
            table::ms(task.map(|t| t.moet_ns))
        };
        let seen = match (t.broken_by(&managed.tasks[i]), t.tardiness_ns) {
            (false, _) => table::verdict(Verdict::of(t)),
            (true, None) => "missed".to_owned(),
            (true, Some(_)) => "too tardy".to_owned(),
        };
        let mut row = vec![
            t.name.clone(),
            t.core.to_string(),
            longest(material.solo.as_ref()),
            longest(material.unmanaged.as_ref()),
        ];
        row.extend(even.map(|even| longest(Some(even))));
        row.extend([
            longest(Some(managed)),
            if t.best_effort() {
                "-".to_owned()
            } else {
                table::ms(Some(t.c_sce_ns).filter(|&c| c != u64::MAX))
            },
            table::ms(t.deadline_ns),
            seen,
        ]);
        rows.push(row);
    }
    let mut out = table::render(&rows);
    let verdict = plan.reasons.last().map_or("", String::as_str);
    out += &format!("\n{} on {}\n", verdict, plan.platform.title);
    out
}
