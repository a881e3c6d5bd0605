//! Pure functions from a model to bounds and verdicts. Every time is a `u64` in picoseconds.
//!
//! * [`mod@stall`]: how long DRAM contention and bandwidth regulation can hold a core up.
//! * [`response`]: worst-case response times under fixed priorities, with that stall charged per busy window.
//!
//! Nothing wraps: a bound that does not fit in 64 bits is reported as [`u64::MAX`] or as `None`.

pub mod mc2;
pub mod memory;
pub mod multiprocessor;
pub mod response;
pub mod sensitivity;
pub mod stall;
pub mod task_set;
pub mod uniprocessor;
pub mod window;

pub use solocore_model::derivation::{self, Derivation};

pub use response::{Task, Window, response_time, response_times};
pub use stall::{
    Regulation, carry_in, carry_in_in_flight, fast_service, stall, stall_explicit, stall_paper, stall_unregulated,
};
pub use task_set::{SporadicTask, TaskSet, TaskSetError};
