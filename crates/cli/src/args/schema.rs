//! Files and outputs that `solocore schema` describes.

/// Files and outputs that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaFile {
    /// A system file.
    System,
    /// A platform file.
    Platform,
    /// An instance of `schedule-io`.
    Instance,
    /// A scenario of `sim`.
    Scenario,
    /// A line of a corpus of `analyze`.
    Corpus,
    /// A plan.
    Plan,
    /// A profile.
    Profile,
    /// The file of `run -o`.
    Run,
    /// The file of `sim -o` for a plan.
    Sim,
    /// The file of `sim -o` for a scenario.
    ScenarioResult,
    /// The file of `verify -o`.
    Verify,
    /// The time table of `schedule-io -o`.
    Table,
    /// The output of `diff --format json`.
    Diff,
    /// The output of `doctor --format json`.
    Doctor,
    /// The output of `run --dry-run --format json`.
    DryRun,
    /// The output of `compare --format json`.
    Compare,
    /// The output of `latency --format json`.
    Latency,
    /// The output of `platform measure --format json`.
    Measure,
}
