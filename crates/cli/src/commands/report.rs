//! `solocore report`.

use crate::args::{RESULTS, ReportArgs};
use crate::commands::profiles;
use crate::fail::Failure;
use serde::Deserialize;
use serde::de::IgnoredAny;
use solocore_model::results::Mode;
use solocore_model::run::{self, RunResult};
use solocore_model::verification::{self, Verification};
use solocore_model::windows::table::{Row, TableFile};
use solocore_model::{Plan, Profile, SimResult, files, plan};
use solocore_profile::carried;
use solocore_report::{Inputs, Provenance};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Contents of a page.
#[derive(Default)]
pub struct Material {
    pub plan: Option<Plan>,
    pub solo: Option<SimResult>,
    pub unmanaged: Option<SimResult>,
    pub managed: Option<SimResult>,
    /// As `managed`, by a plan with even shares.
    pub even: Option<SimResult>,
    /// A table of `solocore schedule-io`, by itself.
    pub table: Option<TableFile>,
    pub run: Option<RunResult>,
    /// The comparison of the plan with a machine.
    pub verification: Option<Verification>,
    /// The plan that the run enforced.
    pub run_plan: Option<Plan>,
    /// Traces for Perfetto beside the page, by name.
    pub traces: Vec<(Mode, String)>,
    /// Provenance of the page.
    pub provenance: Provenance,
}

/// The name of the trace of a run; `None` for runs that the page draws no schedule of.
pub fn trace_of(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Solo | Mode::Even => None,
        Mode::Unmanaged => Some("unmanaged.pftrace"),
        Mode::Managed => Some("managed.pftrace"),
    }
}

/// A page made now, on this machine. `SOURCE_DATE_EPOCH` (seconds since 1970) replaces the clock,
/// so that a page can be made again, equal to the byte.
pub fn here() -> Provenance {
    let line = |path: &str| {
        std::fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
    };
    let cpuinfo = line("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
    let stated = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|s| s.parse().ok());
    let now = stated.map_or_else(SystemTime::now, |s| UNIX_EPOCH + Duration::from_secs(s));
    let parts = [
        line("/proc/sys/kernel/hostname"),
        model.map_or_else(String::new, |(_, name)| name.trim().to_owned()),
        format!("Linux {} {}", line("/proc/sys/kernel/osrelease"), std::env::consts::ARCH),
    ];
    let host = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    Provenance { date: profiles::date(now), host, inputs: Vec::new() }
}

/// Reads plans and results and writes the page.
pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let mut material = Material { provenance: here(), ..Material::default() };
    for path in expand(&args.results)? {
        // A pipe can be read only once.
        let text = files::read_text(&path)?;
        material.add(&path, &text)?;
        material.provenance.add(&path.display().to_string(), text.as_bytes());
    }
    material.find_traces(args);
    if let Some(table) = &material.table {
        if material.plan.is_some() || args.results.len() > 1 {
            return Err(Failure::Input(
                "a table of `solocore schedule-io` has a page of its own; give it alone (a plan \
                    brings its own table)"
                    .to_owned(),
            ));
        }
        files::write_atomically(
            &args.output,
            solocore_report::table_html(&args.title, table, Some(&material.provenance)).as_bytes(),
        )?;
        said(&args.output);
        return Ok(ExitCode::SUCCESS);
    }
    material.write(&args.title, &args.output)?;
    said(&args.output);
    Ok(ExitCode::SUCCESS)
}

/// Reports the path of the page, unless it went to standard output.
fn said(output: &Path) {
    if !files::on_stdout() {
        eprintln!("solocore: wrote {}", output.display());
    }
}

/// Replaces directories by the plan and the results in them.
fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut out = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found: Vec<PathBuf> =
                RESULTS.iter().map(|n| path.join(n)).filter(|p| p.exists()).collect();
            if found.is_empty() {
                return Err(Failure::Input(format!(
                    "{}: holds no plan.json; name the files, or a directory of `solocore assess`",
                    path.display()
                )));
            }
            out.extend(found);
        } else {
            out.push(path.clone());
        }
    }
    Ok(out)
}

/// A plan's tasks, without memory for them.
#[derive(Deserialize)]
struct Counted {
    format: String,
    tasks: Vec<IgnoredAny>,
}

/// Refuses a plan of more tasks than a page can show: as a tree, its JSON takes ten times its
/// length.
fn refuse_brief(path: &Path, text: &str) -> Result<(), Failure> {
    let counted = serde_json::from_str(text).ok().filter(|c: &Counted| c.format == plan::FORMAT);
    match counted.map_or(0, |c| c.tasks.len()) {
        tasks if tasks > plan::BRIEF => Err(Failure::Input(format!(
            "{}: its {tasks} tasks are more than the {} that a page shows; plan parts of the \
                machine separately, and report on these",
            path.display(),
            plan::BRIEF
        ))),
        _ => Ok(()),
    }
}

impl Material {
    /// Links traces of `solocore assess` in a directory, if the page goes into the same one.
    fn find_traces(&mut self, args: &ReportArgs) {
        let page = files::parent_dir(&args.output).canonicalize().ok();
        let mut directories = args.results.iter().filter(|p| p.is_dir());
        if page.is_none() || !directories.any(|p| p.canonicalize().ok() == page) {
            return;
        }
        let (Some(page), runs) = (page, [&self.unmanaged, &self.managed]) else { return };
        for mode in runs.into_iter().flatten().map(|r| r.mode) {
            if let Some(name) = trace_of(mode).filter(|name| page.join(name).is_file()) {
                self.traces.push((mode, name.to_owned()));
            }
        }
    }

    fn add(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        refuse_brief(path, text)?;
        let value: serde_json::Value = files::parse_json(path, text)?;
        let format = value.get("format").and_then(|f| f.as_str()).unwrap_or("");
        if format == plan::FORMAT {
            if self.plan.is_some() {
                return Err(Failure::Input(format!("{}: a second plan; give one", path.display())));
            }
            self.plan = Some(Plan::parse(path, text)?);
        } else if format == solocore_model::results::FORMAT {
            let result: SimResult = files::parse_json(path, text)?;
            let slot = match result.mode {
                Mode::Solo => &mut self.solo,
                Mode::Unmanaged => &mut self.unmanaged,
                Mode::Managed => &mut self.managed,
                Mode::Even => &mut self.even,
            };
            if slot.replace(result).is_some() {
                return Err(Failure::Input(format!(
                    "{}: a second result of the same mode; give one of each",
                    path.display()
                )));
            }
        } else if value.get("activities").is_some() && format.is_empty() {
            let table: TableFile = files::parse_json(path, text)?;
            let impossible =
                |r: &Row| r.period_ns == 0 || r.duration_ns == 0 || r.duration_ns > r.period_ns;
            if table.activities.is_empty() || table.activities.iter().any(impossible) {
                return Err(Failure::Input(format!(
                    "{}: a table without activities, or with impossible times; make it again with \
                        `solocore schedule-io -o`",
                    path.display()
                )));
            }
            self.table = Some(table);
        } else if format == run::FORMAT {
            let wrong = |what: String| Failure::Input(format!("{}: {what}", path.display()));
            let no_run = |what: String| wrong(format!("{what}; give a file of `solocore run -o`"));
            let mut result: RunResult =
                serde_json::from_value(value).map_err(|e| no_run(e.to_string()))?;
            result.check().map_err(no_run)?;
            // A run contains its plan.
            if self.run.is_some() {
                return Err(wrong("a second run; give one".to_owned()));
            }
            self.run_plan = result.plan.take();
            self.run = Some(result);
        } else if format == verification::FORMAT {
            if self.verification.replace(files::parse_json(path, text)?).is_some() {
                return Err(Failure::Input(format!(
                    "{}: a second verification; give one",
                    path.display()
                )));
            }
        } else if run::is_older(format) {
            return Err(Failure::Input(format!(
                "{}: its format is {format}, that of an older solocore; run the plan again with \
                    `solocore run -o`",
                path.display()
            )));
        } else if format.starts_with("solocore-") {
            return Err(Failure::Input(format!(
                "{}: a report does not draw the format {format} of this file; make the file again \
                    with this solocore, or leave it out",
                path.display()
            )));
        } else {
            return Err(Failure::Input(format!(
                "{}: neither a plan, a result of `solocore sim`, `run` or `verify`, nor a table of \
                    `solocore schedule-io`; give files that solocore wrote",
                path.display()
            )));
        }
        Ok(())
    }

    /// Writes the page.
    pub fn write(&self, title: &str, output: &Path) -> Result<(), Failure> {
        Ok(files::write_atomically(output, self.page(title)?.as_bytes())?)
    }

    /// The page.
    pub fn page(&self, title: &str) -> Result<String, Failure> {
        let plan = self.plan.clone().or_else(|| self.run_plan.clone());
        let Some(mut plan) = plan else {
            return Err(Failure::Input(
                "no plan among the results; add the file of `solocore plan -o`".to_owned(),
            ));
        };
        plan.check().map_err(|what| {
            Failure::Input(format!("the plan: {what}; make it again with `solocore plan`"))
        })?;
        let _carried = carried::unpack(Path::new("the plan"), &mut plan)?;
        let plan = &plan;
        let results = [&self.solo, &self.unmanaged, &self.managed, &self.even];
        for result in results.into_iter().flatten() {
            let same = result.tasks.iter().map(|t| &t.name).eq(plan.tasks.iter().map(|t| &t.name));
            if !same {
                return Err(Failure::Input(
                    "a result has other tasks than the plan; simulate this plan".to_owned(),
                ));
            }
        }
        if let Some(run) = &self.run
            && !run.tasks.iter().map(|t| &t.name).eq(plan.tasks.iter().map(|t| &t.name))
        {
            return Err(Failure::Input(
                "the run has other tasks than the plan; give the plan that was run, or none"
                    .to_owned(),
            ));
        }
        if let Some(v) = &self.verification
            && let Some(other) =
                v.tasks.iter().find(|v| !plan.tasks.iter().any(|t| t.name == v.name))
        {
            return Err(Failure::Input(format!(
                "task `{}` of the verification is not in the plan; give the plan that was verified",
                other.name
            )));
        }
        let mut profiles: Vec<(String, Profile)> = Vec::new();
        for task in &plan.tasks {
            if let Some(path) = &task.profile {
                profiles.push((task.name.clone(), files::read_json(path)?));
            }
        }
        let inputs = Inputs {
            title,
            plan,
            solo: self.solo.as_ref(),
            unmanaged: self.unmanaged.as_ref(),
            managed: self.managed.as_ref(),
            even: self.even.as_ref(),
            run: self.run.as_ref(),
            verification: self.verification.as_ref(),
            profiles: &profiles,
            traces: &self.traces,
            provenance: Some(&self.provenance),
        };
        Ok(solocore_report::html(&inputs))
    }
}
