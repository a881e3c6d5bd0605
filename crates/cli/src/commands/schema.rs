//! `solocore schema`.

use super::{compare, diff, doctor, latency, platform_measure};
use crate::args::SchemaFile;
use crate::fail::Failure;
use crate::print::print;
use schemars::{Schema, schema_for};
use solocore_analysis::task_set::TaskSet;
use solocore_linux::daemon::Preview;
use solocore_model::{files, schema};
use solocore_sim::scenario::{self, ScenarioResult};
use std::process::ExitCode;

/// Prints the schema of a file or of an output.
pub fn run(file: SchemaFile) -> Result<ExitCode, Failure> {
    print(&files::to_json(&of(file)))?;
    Ok(ExitCode::SUCCESS)
}

/// The schema: of a type of the model, or of the crate that reads or writes the file.
fn of(file: SchemaFile) -> Schema {
    let (mut schema, title) = match file {
        SchemaFile::System => return schema::of(schema::File::System),
        SchemaFile::Platform => return schema::of(schema::File::Platform),
        SchemaFile::Instance => return schema::of(schema::File::Instance),
        SchemaFile::Plan => return schema::of(schema::File::Plan),
        SchemaFile::Profile => return schema::of(schema::File::Profile),
        SchemaFile::Run => return schema::of(schema::File::Run),
        SchemaFile::Sim => return schema::of(schema::File::Sim),
        SchemaFile::Verify => return schema::of(schema::File::Verify),
        SchemaFile::Table => return schema::of(schema::File::Table),
        SchemaFile::Scenario => (scenario::schema(), "solocore scenario"),
        SchemaFile::Corpus => (schema_for!(TaskSet), "solocore corpus line"),
        SchemaFile::ScenarioResult => (schema_for!(ScenarioResult), "solocore scenario result"),
        SchemaFile::Diff => (schema_for!(diff::Difference), "solocore diff"),
        SchemaFile::Doctor => (schema_for!(doctor::Report), "solocore doctor"),
        SchemaFile::DryRun => (schema_for!(Preview), "solocore dry run"),
        SchemaFile::Compare => (schema_for!(compare::Comparison), "solocore compare"),
        SchemaFile::Latency => (schema_for!(latency::Report), "solocore latency"),
        SchemaFile::Measure => (schema_for!(platform_measure::Outcome<'_>), "solocore measure"),
    };
    schema.insert("title".to_owned(), title.into());
    schema
}
