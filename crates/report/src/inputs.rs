//! Input of a page.
//!
//! Problem: most sections read the same plan and measurements. Rule: all of them get one
//! [`Inputs`]; absent parts are not drawn.

use serde::Serialize;
use solocore_model::provenance::sha256;
use solocore_model::results::{Mode, TaskResult};
use solocore_model::run::RunResult;
use solocore_model::verification::Verification;
use solocore_model::{Plan, Profile, SimResult};

/// Input of a page.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Heading and title of the page.
    pub title: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// Each task by itself.
    pub solo: Option<&'a SimResult>,
    /// Everything together on the plain machine.
    pub unmanaged: Option<&'a SimResult>,
    /// All tasks together under the plan.
    pub managed: Option<&'a SimResult>,
    /// As `managed`, by a plan with even shares, beside a plan with optimal ones.
    pub even: Option<&'a SimResult>,
    /// A run on a real machine.
    pub run: Option<&'a RunResult>,
    /// Check of the plan on a real machine.
    pub verification: Option<&'a Verification>,
    /// Profiles by the name of their task.
    pub profiles: &'a [(String, Profile)],
    /// Traces for Perfetto by the run that they show: paths, relative to the page.
    pub traces: &'a [(Mode, String)],
    /// Origin of the page.
    pub provenance: Option<&'a Provenance>,
}

/// Origin of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// Date of its making, RFC 3339.
    pub date: String,
    /// The machine on which it was made: its name, its CPU, its kernel.
    pub host: String,
    /// Files from which it was made, each with its SHA-256 in hexadecimal digits.
    pub inputs: Vec<(String, String)>,
}

impl Provenance {
    /// Adds a file with these bytes.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        self.inputs.push((name.to_owned(), sha256(bytes)));
    }
}

impl<'a> Inputs<'a> {
    /// Is the task called `name` best effort, without a promise?
    pub fn best_effort(&self, name: &str) -> bool {
        self.plan.tasks.iter().any(|t| t.name == name && t.best_effort())
    }

    /// Input from a plan alone.
    #[must_use]
    pub const fn of(title: &'a str, plan: &'a Plan) -> Self {
        Self {
            title,
            plan,
            solo: None,
            unmanaged: None,
            managed: None,
            even: None,
            run: None,
            verification: None,
            profiles: &[],
            traces: &[],
            provenance: None,
        }
    }
}

/// The measurements of the task called `name`.
pub fn result_of<'a>(result: Option<&'a SimResult>, name: &str) -> Option<&'a TaskResult> {
    result?.tasks.iter().find(|t| t.name == name)
}
