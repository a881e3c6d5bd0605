//! What a page is made from.
//!
//! Problem: most sections read the same plan and measurements. Rule: all of them get one
//! [`Inputs`]; what is absent is not drawn.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use solocore_model::results::{Mode, TaskResult};
use solocore_model::run::RunResult;
use solocore_model::verification::Verification;
use solocore_model::{Plan, Profile, SimResult};

/// What the page is made from.
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
    /// Everything together under the plan.
    pub managed: Option<&'a SimResult>,
    /// A run on a real machine.
    pub run: Option<&'a RunResult>,
    /// The plan held against a real machine.
    pub verification: Option<&'a Verification>,
    /// Profiles by the name of their task.
    pub profiles: &'a [(String, Profile)],
    /// Traces for Perfetto, by the run that they are of: where they lie, from the page.
    pub traces: &'a [(Mode, String)],
    /// How the page came about.
    pub provenance: Option<&'a Provenance>,
}

/// How a page came about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// When it was made, RFC 3339.
    pub date: String,
    /// The machine that it was made on: its name, its processor, its kernel.
    pub host: String,
    /// Files that it was made from, each with its SHA-256 in hexadecimal digits.
    pub inputs: Vec<(String, String)>,
}

impl Provenance {
    /// Adds a file with these bytes.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        let digest = Sha256::digest(bytes);
        let hex = digest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        self.inputs.push((name.to_owned(), hex));
    }
}

impl<'a> Inputs<'a> {
    /// Is nothing promised of the task called `name`?
    pub fn best_effort(&self, name: &str) -> bool {
        self.plan.tasks.iter().any(|t| t.name == name && t.best_effort())
    }

    /// A plan by itself.
    #[must_use]
    pub const fn of(title: &'a str, plan: &'a Plan) -> Self {
        Self {
            title,
            plan,
            solo: None,
            unmanaged: None,
            managed: None,
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
