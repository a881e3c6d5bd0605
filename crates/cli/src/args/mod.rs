//! The arguments of the commands, and [`command_line`], which has them all.

#[cfg(test)]
mod book;

pub mod board;
pub mod command_line;
pub mod compare;
mod diff;
pub mod enemy;
pub mod format;
pub mod given;
mod groups;
pub mod init;
pub mod isolation;
pub mod latency;
mod negative;
mod outputs;
pub mod plan;
pub mod platform;
mod profile;
pub mod run;
pub mod scheduling;
mod schema;
pub mod space;
pub mod studies;
pub mod vcpu;
pub mod verify;

pub use diff::DiffArgs;
pub use format::Format;
pub use plan::{AssessArgs, Method, PlanArgs, Profiling, RESULTS, ReportArgs, SimArgs};
pub use profile::{Engine, ProfileArgs};
pub use run::{DEFAULT_EVENT, DoctorArgs, ExecArgs, RunArgs, RunEngine, RunSharing, TopArgs};
pub use schema::SchemaFile;
pub use studies::{
    AnalyzeArgs, AttackArgs, CheckIoArgs, DramArgs, DramPattern, ReproduceArgs, ScheduleIoArgs,
    StudyArgs,
};
