//! Memory contention: what other cores' accesses can cost, under each way of holding them back.
//!
//! * [`dynamic_budget`]: budgets of soft real-time cores per job of a hard task; the largest safe
//!   ones.
//! * [`latency`]: how long one request can take in a DRAM controller, with and without bank
//!   partitioning.
//!
//! Every function is pure; `None` or an error stands where there is no bound, never a small number.

pub(crate) mod costs;
pub mod dynamic_budget;
pub mod latency;
mod latency_explained;
mod timing;
