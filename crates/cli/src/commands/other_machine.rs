//! A plan for another machine than this one.
//!
//! Problem: a plan's bounds rest on the caches, cores and memory of its platform file, and a user
//! may run it elsewhere. Rule: what can be read of this machine is compared with the plan's
//! platform, as `solocore platform check` does. Where they differ, the promise `memory` is open. On
//! the virtual board the instruction set may differ, because its guest is x86-64. Does not cover:
//! latencies, which `solocore platform measure` finds.

use crate::commands::platform;
use solocore_linux::LinuxError;
use solocore_linux::daemon::Part;
use solocore_machine::check;
use solocore_model::plan::{Answer, Promise, Subject};
use solocore_model::{Plan, Platform};

/// Variable that names the virtual board in its guest.
const BOARD: &str = "SOLOCORE_BOARD";

/// The part of a run that knows the differences between this machine and the plan's platform.
pub struct OtherMachine {
    why: String,
}

impl OtherMachine {
    /// The part for a plan; `None` where nothing contradicts its platform.
    pub fn of(plan: &Plan) -> Option<Self> {
        // A machine that cannot be read contradicts nothing.
        let here = platform::this_machine(None).ok()?;
        let why = differences(&plan.platform, &check::compare(&plan.platform, &here).differences)?;
        Some(Self { why })
    }
}

/// The differences in a line.
fn differences(platform: &Platform, all: &[check::Difference]) -> Option<String> {
    let on_board = std::env::var_os(BOARD).is_some();
    let counts = |d: &&check::Difference| !(on_board && d.key == "isa");
    let words =
        |d: &check::Difference| format!("{} is {} there and {} here", d.key, d.file, d.machine);
    let words: Vec<String> = all.iter().filter(counts).map(words).collect();
    if words.is_empty() {
        return None;
    }
    Some(format!(
        "the plan is for another machine ({}): {}; plan for this one (`solocore platform detect -o \
            machine.toml`, then platform = \"machine.toml\")",
        platform.name,
        words.join(", ")
    ))
}

impl Part for OtherMachine {
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        let concerned = promise.subject == Subject::Memory;
        concerned.then(|| Answer::open(promise, true, &self.why))
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        Ok(())
    }

    fn end(&mut self) {}
}
