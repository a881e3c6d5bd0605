//! What a page is made from.
//!
//! Problem: most sections read the same plan and measurements. Rule: all of them get one
//! [`Inputs`]; what is absent is not drawn.

use solocore_model::results::TaskResult;
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
}

impl<'a> Inputs<'a> {
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
        }
    }
}

/// The measurements of the task called `name`.
pub fn result_of<'a>(result: Option<&'a SimResult>, name: &str) -> Option<&'a TaskResult> {
    result?.tasks.iter().find(|t| t.name == name)
}
