//! A simulation described in TOML: board, programs, places of their pages, scheduler, regulator,
//! devices.
//!
//! Problem: `system.toml` states requirements and leaves the rest to the planner. A study sets
//! everything itself, also values that no planner would choose. Rule: a file with a `[simulation]`
//! table is a scenario; nothing in it is planned or proved. Names are those of `kernel::config`,
//! quantities carry their units, unknown keys are refused.
//!
//! Not covered: changes of a platform's numbers beyond the keys of `[simulation]` (give a platform
//! file instead).

mod build;
mod entries;
mod file;
mod ranges;
mod run;

pub use build::{Prepared, prepare};
pub use entries::{
    BudgetEntry, CostsEntry, DeviceEntry, HitCap, Limit, PlaceEntry, RegulationEntry, Resolution,
    SchedulerEntry, SharingEntry, Simulation, TableEntry, TaskEntry, VcpuEntry, VcpuScheduler,
    WindowEntry,
};
pub use file::{Scenario, schema};
pub use ranges::Ranges;
pub use run::{ScenarioResult, run};
