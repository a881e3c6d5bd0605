//! JSON Schemas of the files, made from the types that read them.
//!
//! Problem: editors complete and check a file only by a schema, and a schema written by hand soon
//! differs from the file. Rule: each type derives its own, with the names, defaults and unknown
//! keys that serde knows (draft 2020-12). Does not cover: rules that only the checks know, such as
//! misses for a task with wcet; `solocore plan` reports these.

use crate::results::SimResult;
use crate::verification::Verification;
use crate::windows::table::TableFile;
use crate::{Plan, Platform, Profile, run, system, windows};
use schemars::{Schema, schema_for};

/// A file that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// `system.toml`.
    System,
    /// A platform file.
    Platform,
    /// A plan.
    Plan,
    /// A profile.
    Profile,
    /// The file of `solocore run -o`.
    Run,
    /// The file of `solocore sim -o`.
    Sim,
    /// The file of `solocore verify -o`.
    Verify,
    /// An instance of `solocore schedule-io`.
    Instance,
    /// The time table of `solocore schedule-io -o`.
    Table,
}

/// The schema of a file.
#[must_use]
pub fn of(file: File) -> Schema {
    let (mut schema, title) = match file {
        File::System => (system::schema(), "solocore system file"),
        File::Platform => (schema_for!(Platform), "solocore platform file"),
        File::Plan => (schema_for!(Plan), "solocore plan"),
        File::Profile => (schema_for!(Profile), "solocore profile"),
        File::Run => (schema_for!(run::RunResult), "solocore run"),
        File::Sim => (schema_for!(SimResult), "solocore sim"),
        File::Verify => (schema_for!(Verification), "solocore verify"),
        File::Instance => (windows::schema(), "solocore instance"),
        File::Table => (schema_for!(TableFile), "solocore time table"),
    };
    schema.insert("title".to_owned(), title.into());
    schema
}
