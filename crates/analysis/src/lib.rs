//! Pure functions from a model to bounds and verdicts. Every time is a `u64` in picoseconds.
//!
//! * [`interference`]: the delay of a core by the other cores' memory traffic and a regulator.
//!   Every bound depends on it.
//! * [`mod@stall`]: the same for the one-request-at-a-time memory of the single-core-equivalence
//!   paper (`model = "sce"`).
//! * [`response`]: worst-case response times under fixed priorities, with that stall charged per
//!   busy window.
//!
//! Nothing wraps: a bound that does not fit in 64 bits is reported as [`u64::MAX`] or as `None`.

pub mod busy_window;
pub mod extreme;
pub mod first_job;
pub mod interference;
pub mod levels;
pub mod memory;
pub mod multiprocessor;
pub mod named;
pub mod response;
pub mod sensitivity;
pub mod stall;
pub mod task_set;
pub mod uniprocessor;
pub mod window;

pub use solocore_model::derivation::{self, Derivation};

pub use busy_window::BusyWindow;
pub use first_job::FirstJob;
pub use response::{Demand, RtaTask, Window, response_time, response_times};
pub use stall::{
    Regulation, carry_in, carry_in_in_flight, fast_service, stall, stall_explicit, stall_paper,
    stall_unregulated,
};
pub use task_set::{SporadicTask, TaskSet, TaskSetError};
